"""Sorting and searching."""
from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from lazy_tensor.ops._common import check, is_complex, is_inexact, norm_dim
from lazy_tensor.ops._define import _write_out, composite, op, publish_method


def _order(x, d, descending):
    """Stable sorting indices; nan is the largest."""
    s = lax.stop_gradient(x)
    if not descending:
        return jnp.argsort(s, axis=d, stable=True)
    flipped = jnp.flip(s, d)
    i = jnp.flip(jnp.argsort(flipped, axis=d, stable=True), d)
    return s.shape[d] - 1 - i


@op(where=None, name="sort", returns=("values", "indices"))
def _sort(input: Array, dim: int, descending: bool):
    check(not is_complex(input.dtype), "Sort currently does not support complex dtypes on CPU")
    d = norm_dim(dim, input.ndim)
    if input.ndim == 0:
        return input, jnp.zeros((), np.int64)
    i = _order(input, d, descending)
    return jnp.take_along_axis(input, i, d), i.astype(np.int64)


@composite(method=True)
def sort(input, dim=-1, descending=False, stable=False, *, out=None):
    """(sorted values, their indices) along dim (torch.sort)."""
    r = _sort(input, dim, bool(descending))
    return r if out is None else _write_out("sort", r, out)


@composite(method=True)
def argsort(input, dim=-1, descending=False, stable=False, *, out=None):
    """The indices that sort along dim (torch.argsort)."""
    return _sort(input, dim, bool(descending))[1]


@composite
def msort(input, *, out=None):
    """Sorted along the first dimension (torch.msort)."""
    r = _sort(input, 0, False)[0]
    return r if out is None else _write_out("msort", r, out)


publish_method("msort", msort)


@op(method=True, returns=("values", "indices"))
def topk(input: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True):
    """(the k largest or smallest values, their indices) along dim, in order (torch.topk)."""
    x = input
    check(not is_complex(x.dtype), "topk: not implemented for complex")
    d = norm_dim(dim, x.ndim)
    n = x.shape[d] if x.ndim else 1
    check(0 <= k <= n, f"selected index k out of range: topk of {k} along dimension {d} of size {n}")
    if x.ndim == 0:
        return (x, jnp.zeros((), np.int64)) if k else (x, jnp.zeros((), np.int64))
    if largest and is_inexact(x.dtype) and x.dtype.itemsize >= 4 and d == x.ndim - 1 and n > 64 and k * 8 < n:
        nan = jnp.isnan(x)
        _, i = lax.top_k(lax.stop_gradient(jnp.where(nan, jnp.inf, x)), k)
        return jnp.take_along_axis(x, i, d), i.astype(np.int64)
    i = lax.slice_in_dim(_order(x, d, largest), 0, k, axis=d)
    return jnp.take_along_axis(x, i, d), i.astype(np.int64)


@op(where=None, name="searchsorted", differentiable=False)
def _search(sorted_sequence: Array, values: Array | Scalar, right: bool, int32: bool, sorter: Array | None):
    s = sorted_sequence if sorter is None else jnp.take_along_axis(sorted_sequence, sorter, -1)
    v = jnp.asarray(values)
    if v.dtype != s.dtype:
        dt = jnp.promote_types(s.dtype, v.dtype) if not getattr(v, "weak_type", False) else jnp.result_type(s, v)
        s, v = s.astype(dt), v.astype(dt)
    side = "right" if right else "left"
    if s.ndim == 1:
        r = jnp.searchsorted(s, v, side=side)
    else:
        check(s.shape[:-1] == v.shape[:-1], "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
              f"tensor and input value tensor must match, but we got boundaries tensor {list(s.shape)} and input value tensor {list(v.shape)}")
        cmp = (s[..., None, :] <= v[..., :, None]) if right else (s[..., None, :] < v[..., :, None])
        if is_inexact(s.dtype):
            nan_v = jnp.isnan(v)[..., :, None]
            cmp = jnp.where(nan_v, ~jnp.isnan(s)[..., None, :] | right, cmp)
        r = cmp.sum(-1)
    return r.astype(np.int32 if int32 else np.int64)


@composite(method=True)
def searchsorted(sorted_sequence, values, *, out_int32=False, right=False, side=None, out=None, sorter=None):
    """Where values would be inserted to keep order (torch.searchsorted)."""
    if side is not None and side not in ("left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError("torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True")
    r = _search(sorted_sequence, values, right or side == "right", out_int32, sorter)
    return r if out is None else _write_out("searchsorted", r, out)


@composite
def bucketize(input, boundaries, *, out_int32=False, right=False, out=None):
    """The bucket of each element among sorted boundaries (torch.bucketize)."""
    if boundaries.dim() != 1:
        raise RuntimeError(f"bucketize: boundaries tensor must be 1 dimension, but got dim({boundaries.dim()})")
    r = _search(boundaries, input, right, out_int32, None)
    return r if out is None else _write_out("bucketize", r, out)


publish_method("bucketize", bucketize)

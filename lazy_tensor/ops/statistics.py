"""Histograms, covariances, counts, pairwise distances."""
from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import broadcast_shapes, check, default_float, is_complex, is_float, is_inexact
from lazy_tensor.ops._define import _write_out, composite, op
from lazy_tensor.ops.linalg import _vector_norm
from lazy_tensor.tensor import Tensor


@op(method=True)
def cov(input: Array, *, correction: int = 1, fweights: Array | None = None, aweights: Array | None = None):
    """The covariance matrix of variables in rows and observations in columns (torch.cov)."""
    check(input.ndim <= 2, f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions")
    x = input.reshape(1, -1) if input.ndim < 2 else input
    x = x if is_inexact(x.dtype) else x.astype(default_float())
    n = x.shape[1]
    w = None
    for name, v in (("fweights", fweights), ("aweights", aweights)):
        if v is None:
            continue
        check(v.ndim <= 1, f"cov(): expected {name} to have one or fewer dimensions but got {name} with {v.ndim} dimensions")
        check(name == "aweights" or v.dtype.kind in "iu", f"cov(): expected fweights to have integral dtype but got fweights with {v.dtype.name} dtype")
        check(name == "fweights" or is_float(v.dtype), f"cov(): expected aweights to have floating point dtype but got aweights with {v.dtype.name} dtype")
        check(v.size == n, f"cov(): expected {name} to have the same numel as there are observations in the input but got {v.size} != {n}")
        w = v.reshape(-1) if w is None else w * v.reshape(-1)
    real = jnp.real(x).dtype
    if w is None:
        total = n
        mean = x.sum(1, keepdims=True) / n
        scaled = x - mean
        y = scaled
        factor = float(max(n - correction, 0))
    else:
        w = w.astype(real)
        total = w.sum()
        mean = (x * w).sum(1, keepdims=True) / total
        scaled = x - mean
        y = scaled * w
        if aweights is not None and fweights is not None:
            factor = total - correction * (w * aweights.reshape(-1).astype(real)).sum() / total
        elif aweights is not None:
            factor = total - correction * (w * w).sum() / total
        else:
            factor = total - correction
        factor = jnp.maximum(factor, 0)
    wide = x.dtype if aweights is None else jnp.promote_types(x.dtype, aweights.dtype)
    c = (y @ jnp.conj(scaled).T / factor).astype(wide)
    return c.reshape(()) if c.size == 1 else c


@op(method=True)
def corrcoef(input: Array):
    """The correlation matrix of variables in rows (torch.corrcoef)."""
    check(input.ndim <= 2, f"corrcoef(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions")
    c = cov.__wrapped_op__.body(input, correction=1)
    if c.ndim == 0:
        return c / c
    d = jnp.sqrt(jnp.diagonal(c))
    c = c / d[:, None] / d[None, :]
    if is_complex(c.dtype):
        return jnp.clip(jnp.real(c), -1, 1) + 1j * jnp.clip(jnp.imag(c), -1, 1)
    return jnp.clip(c, -1, 1).astype(input.dtype if is_inexact(input.dtype) else c.dtype)


@op(where=None, name="histc", differentiable=False)
def _histc(input: Array, bins: int, low: Scalar, high: Scalar):
    x = input.reshape(-1).astype(np.float32 if input.dtype.itemsize < 4 else input.dtype)
    lo, hi = jnp.asarray(low).astype(x.dtype), jnp.asarray(high).astype(x.dtype)
    if x.size:
        same = lo == hi
        lo, hi = jnp.where(same, x.min(), lo), jnp.where(same, x.max(), hi)
    flat = lo == hi
    lo, hi = jnp.where(flat, lo - 1, lo), jnp.where(flat, hi + 1, hi)
    inside = (x >= lo) & (x <= hi)
    at = jnp.clip(((x - lo) / (hi - lo) * bins).astype(np.int64), 0, bins - 1)
    return jnp.zeros(bins, np.float64).at[at].add(inside.astype(np.float64)).astype(input.dtype)


@composite(method=True)
def histc(input, bins=100, min=0, max=0, *, out=None):
    """Counts of elements in equal bins between min and max (the data's when equal) (torch.histc)."""
    if bins <= 0:
        raise RuntimeError("bins must be > 0")
    if min > max:
        raise RuntimeError("max must be larger than min")
    if not input.dtype.is_floating_point:
        raise RuntimeError(f'"histc" not implemented for {input.dtype}')
    r = _histc(input, int(bins), float(min), float(max))
    return r if out is None else _write_out("histc", r, out)


def _edges(x, bins, span):
    """Bin edges over the data's range, or over a given one."""
    if span is not None:
        lo, hi = span
    elif x.size:
        lo, hi = float(x.min()), float(x.max())
    else:
        lo, hi = 0.0, 1.0
    if lo == hi:
        lo, hi = lo - 0.5, hi + 0.5
    if lo > hi:
        raise RuntimeError(f"torch.histogram(): min should not exceed max, but got min {lo} max {hi}")
    return np.linspace(lo, hi, bins + 1).astype(x.dtype)


def _histogram(points, edges, weight, density):
    """Counts of points (N, D) in a grid of edges, on the host: the range depends on the data (one sync)."""
    shape = tuple(len(e) - 1 for e in edges)
    inside = np.ones(len(points), bool)
    at = []
    for d, e in enumerate(edges):
        x = points[:, d]
        inside &= (x >= e[0]) & (x <= e[-1])
        at.append(np.clip(np.searchsorted(e, x, side="right") - 1, 0, shape[d] - 1))
    out = np.zeros(shape, np.float64)
    w = np.ones(len(points)) if weight is None else weight.reshape(-1).astype(np.float64)
    np.add.at(out, tuple(a[inside] for a in at), w[inside])
    if density:
        volume = np.ones(shape)
        for d, e in enumerate(edges):
            volume = volume * np.diff(e.astype(np.float64)).reshape([-1 if k == d else 1 for k in range(len(shape))])
        out = out / out.sum() / volume
    return out.astype(points.dtype)


def _tensors(arrays, like):
    from lazy_tensor import creation
    return [creation.tensor(a, device=like.device) for a in arrays]


from collections import namedtuple  # noqa: E402

_Histogram = namedtuple("histogram", ["hist", "bin_edges"])
_HistogramDD = namedtuple("histogramdd", ["hist", "bin_edges"])


@composite(method=True)
def histogram(input, bins, *, range=None, weight=None, density=False, out=None):
    """(hist, bin_edges) of all elements (torch.histogram); one sync."""
    if not input.dtype.is_floating_point:
        raise RuntimeError(f'"histogram" not implemented for {input.dtype}')
    x = np.asarray(input.detach()._host())
    e = np.asarray(bins._host()) if isinstance(bins, Tensor) else _edges(x, int(bins), range)
    w = None if weight is None else np.asarray(weight.detach()._host())
    hist, edges = _tensors([_histogram(x.reshape(-1, 1), [e], w, density), e], input)
    r = _Histogram(hist, edges)
    return r if out is None else _write_out("histogram", r, out)


@composite
def histogramdd(input, bins, *, range=None, weight=None, density=False):
    """(hist, bin_edges of each dimension) of points in the last dimension (torch.histogramdd); one sync."""
    if input.dim() < 2:
        raise RuntimeError(f"torch.histogramdd: input tensor should have at least 2 dimensions, but got {input.dim()}")
    d = input.shape[-1]
    x = np.asarray(input.detach()._host()).reshape(-1, d)
    bins = [bins] * d if isinstance(bins, int) else list(bins)
    if len(bins) != d:
        raise RuntimeError(f"torch.histogramdd: The size of bins must be equal to the innermost dimension of the input, got {len(bins)} and {d}")
    if range is not None and len(range) != 2 * d:
        raise RuntimeError(f"torch.histogramdd: for a {d}-dimensional histogram range should have {2 * d} elements, but got {len(range)}")
    edges = [np.asarray(b._host()) if isinstance(b, Tensor) else _edges(x[:, i], int(b), None if range is None else range[2 * i:2 * i + 2])
             for i, b in enumerate(bins)]
    w = None if weight is None else np.asarray(weight.detach()._host())
    hist, *out = _tensors([_histogram(x, edges, w, density), *edges], input)
    return _HistogramDD(hist, tuple(out))


@op(where=None, name="bincount", differentiable=False)
def _bincount(input: Array, weights: Array | None, size: int):
    if weights is None:
        return jnp.zeros(size, np.int64).at[input].add(1)
    w = weights.astype(weights.dtype if weights.dtype == np.float32 else np.float64)
    return jnp.zeros(size, w.dtype).at[input].add(w)


@composite(method=True)
def bincount(input, weights=None, minlength=0):
    """How often each non-negative integer occurs, or the sum of its weights (torch.bincount); one sync for the largest."""
    if input.dim() != 1 or input.dtype.np.kind not in "iu":
        raise RuntimeError(f"bincount only supports 1-d non-negative integral inputs, got {input.dtype} of shape {list(input.shape)}")
    if minlength < 0:
        raise RuntimeError(f"minlength should be >= 0, got {minlength}")
    if weights is not None and tuple(weights.shape) != tuple(input.shape):
        raise RuntimeError("weights should be 1-d and have the same length as input")
    size = minlength
    if input.numel():
        a = input.detach()._host()
        if a.min() < 0:
            raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
        size = max(int(a.max()) + 1, minlength)
    return _bincount(input, weights, int(size))


@op(where=None, name="cdist")
def _cdist(x1: Array, x2: Array, p: float):
    check(x1.ndim >= 2 and x2.ndim >= 2, f"cdist only supports at least 2D tensors, X1 got: {x1.ndim}D, X2 got: {x2.ndim}D")
    check(x1.shape[-1] == x2.shape[-1], f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    check(is_float(x1.dtype) and is_float(x2.dtype), f"cdist only supports floating-point dtypes, X1 got: {x1.dtype.name}, X2 got: {x2.dtype.name}")
    check(p >= 0, f"cdist only supports non-negative p values, got {p}")
    broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return _vector_norm(x1[..., :, None, :] - x2[..., None, :, :], p, (-1,), False)


@composite
def cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    """p-norm distances between the rows of two batches of matrices (torch.cdist)."""
    if compute_mode not in ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    return _cdist(x1, x2, float(p))

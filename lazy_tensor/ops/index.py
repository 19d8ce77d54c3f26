"""Gathering and scattering by index tensors, masks, and ops whose output size depends on data (one sync each)."""
from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import check, is_bool, is_inexact, norm_dim
from lazy_tensor.ops._define import _write_out, check_inplace, composite, inplace, op, publish, publish_method
from lazy_tensor.tensor import Tensor


def _index_dtype(index, name):
    check(index.dtype in (np.int64, np.int32), f"{name}(): Expected dtype int32/int64 for index, got {index.dtype.name}", RuntimeError)


def _fits(index, src, d, name, what="src"):
    check(index.ndim == src.ndim or index.size == 0 or src.ndim == 0 or index.ndim == 0,
          f"{name}(): Index tensor must have the same number of dimensions as {what} tensor, got {index.ndim} and {src.ndim}")


def _unscalar(*xs):
    return tuple(x.reshape(1) if x.ndim == 0 else x for x in xs)


@op(where=None, name="gather")
def _gather(input: Array, dim: int, index: Array):
    d = norm_dim(dim, input.ndim)
    if index.size == 0:
        return jnp.zeros(index.shape, input.dtype)
    _index_dtype(index, "gather")
    _fits(index, input, d, "gather", "input")
    out = index.shape
    x, i = _unscalar(input, index)
    for k in range(x.ndim):
        check(k == d or i.shape[k] <= x.shape[k], f"Size does not match at dimension {k} expected index {list(index.shape)} to be no larger than self "
                                                  f"{list(input.shape)} apart from dimension {d}")
    x = x[tuple(slice(None) if k == d else slice(0, i.shape[k]) for k in range(x.ndim))]
    i = jnp.where(i < 0, i + x.shape[d], i)
    return jnp.take_along_axis(x, i, d).reshape(out)


@composite(method=True)
def gather(input, dim, index, *, sparse_grad=False, out=None):
    """The elements that index names along dim (torch.gather)."""
    r = _gather(input, dim, index)
    return r if out is None else _write_out("gather", r, out)


def _grid(index, d):
    """Index tuple of a scatter along d."""
    at = [jnp.arange(n).reshape([-1 if k == j else 1 for k in range(index.ndim)]) for j, n in enumerate(index.shape)]
    at[d] = index
    return tuple(at)


def _scatter_parts(input, dim, index, src, name):
    _index_dtype(index, name)
    d = norm_dim(dim, input.ndim)
    _fits(index, input, d, name, "self")
    x, i = _unscalar(input, index)
    i = jnp.where(i < 0, i + x.shape[d], i)
    for k in range(x.ndim):
        check(k == d or i.shape[k] <= x.shape[k], f"Expected index {list(index.shape)} to be no larger than self {list(input.shape)} apart from dimension "
                                                  f"{d}")
    if src is not None and src.ndim:
        _fits(index, src, d, name)
        for k in range(i.ndim):
            check(i.shape[k] <= src.shape[k], f"Expected index {list(index.shape)} to be no larger than src {list(src.shape)} in every dimension")
        src = src[tuple(slice(0, n) for n in i.shape)]
    elif src is not None:
        src = jnp.broadcast_to(src, i.shape)
    return x, i, src, d


@op(where=None, name="scatter")
def _scatter_src(input: Array, dim: int, index: Array, src: Array):
    check(src.dtype == input.dtype, f"scatter(): Expected self.dtype to be equal to src.dtype, got {input.dtype.name} and {src.dtype.name}")
    if index.size == 0:
        return input
    x, i, s, d = _scatter_parts(input, dim, index, src, "scatter")
    return x.at[_grid(i, d)].set(s).reshape(input.shape)


@op(where=None, name="scatter")
def _scatter_value(input: Array, dim: int, index: Array, value: Scalar):
    if index.size == 0:
        return input
    x, i, _, d = _scatter_parts(input, dim, index, None, "scatter")
    return x.at[_grid(i, d)].set(jnp.asarray(value).astype(x.dtype)).reshape(input.shape)


@op(where=None, name="scatter")
def _scatter_op(input: Array, dim: int, index: Array, src: Array | Scalar, reduce: str):
    if index.size == 0:
        return input
    s = jnp.asarray(src)
    x, i, s, d = _scatter_parts(input, dim, index, s, "scatter")
    at = x.at[_grid(i, d)]
    s = s.astype(x.dtype)
    return (at.add(s) if reduce == "add" else at.multiply(s)).reshape(input.shape)


@composite(method=True, inplace=True)
def scatter(input, dim, index, src=None, *, value=None, reduce=None, out=None):
    """input with src (a tensor or number) written where index says along dim (torch.scatter)."""
    src = value if src is None else src
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            raise RuntimeError("reduce argument must be either add or multiply.")
        r = _scatter_op(input, dim, index, src, reduce)
    else:
        r = _scatter_src(input, dim, index, src) if isinstance(src, Tensor) and src.dim() + (index.dim() == 0) else \
            _scatter_value(input, dim, index, src.item() if isinstance(src, Tensor) else src)
    return r if out is None else _write_out("scatter", r, out)


@op(method=True, inplace=True)
def scatter_add(input: Array, dim: int, index: Array, src: Array):
    """input with src added where index says along dim (torch.scatter_add)."""
    check(src.dtype == input.dtype, f"scatter(): Expected self.dtype to be equal to src.dtype, got {input.dtype.name} and {src.dtype.name}")
    if index.size == 0:
        return input
    x, i, s, d = _scatter_parts(input, dim, index, src, "scatter_add")
    at = x.at[_grid(i, d)]
    return (at.max(s) if is_bool(x.dtype) else at.add(s)).reshape(input.shape)


def _reduce_at(x, at_index, s, reduce, include_self, count_index=None):
    """Scatter with a reduction; gradients as torch's (ties of amax/amin share evenly)."""
    if not include_self:
        neutral = {"sum": 0, "mean": 0, "prod": 1, "amax": _lowest(x.dtype), "amin": _highest(x.dtype)}[reduce]
        hit = jnp.zeros(x.shape, bool).at[at_index].set(True)
        base = jnp.where(hit, jnp.asarray(neutral, x.dtype), x)
    else:
        base = x
    at = base.at[at_index]
    if reduce == "sum":
        return at.add(s)
    if reduce == "mean":
        total = at.add(s)
        ones = jnp.ones(x.shape, np.int64) if include_self else jnp.where(jnp.zeros(x.shape, bool).at[at_index].set(True), 0, 1)
        n = jnp.maximum(ones.at[at_index].add(1), 1)
        return total / n.astype(total.dtype) if is_inexact(x.dtype) else jnp.floor_divide(total, n.astype(total.dtype))
    if reduce == "prod":
        return _scatter_mul(base, at_index, s)
    return _extreme_at(base, at_index, s, reduce)


def _place(form, arrays):
    """The index tuple of a form ("t" an array, "a" a whole dimension) and its arrays."""
    it = iter(arrays)
    return tuple(next(it) if k == "t" else slice(None) for k in form)


def _split_index(at_index):
    form = tuple("a" if isinstance(i, slice) else "t" for i in at_index)
    return form, tuple(i for i in at_index if not isinstance(i, slice))


# The index arrays are arguments of the custom rules, not closed over: closed-over arrays become extra inputs of the program.
@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _mul_rule(form, b, v, arrays):
    return b.at[_place(form, arrays)].multiply(v)


@_mul_rule.defjvp
def _mul_jvp(form, p, t):
    b, v, arrays = p
    at = _place(form, arrays)
    zero_b, zero_v = b == 0, v == 0
    zeros = zero_b.astype(np.int32).at[at].add(zero_v.astype(np.int32))
    others = _mul_rule(form, jnp.where(zero_b, 1, b), jnp.where(zero_v, 1, v), arrays)  # the product of what is not zero
    db = jnp.where(zeros == 0, others / jnp.where(zero_b, 1, b), jnp.where((zeros == 1) & zero_b, others, 0))
    ov, zv = others[at], zeros[at]
    dv = jnp.where(zv == 0, ov / jnp.where(zero_v, 1, v), jnp.where((zv == 1) & zero_v, ov, 0))
    return _mul_rule(form, b, v, arrays), db * t[0] + jnp.zeros_like(b).at[at].add(dv * t[1])


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _extreme_rule(form, reduce, b, v, arrays):
    at = b.at[_place(form, arrays)]
    return at.max(v) if reduce == "amax" else at.min(v)


@_extreme_rule.defjvp
def _extreme_jvp(form, reduce, p, t):
    b, v, arrays = p
    at = _place(form, arrays)
    y = _extreme_rule(form, reduce, b, v, arrays)
    wb, wv = (b == y).astype(b.dtype), (v == y[at]).astype(b.dtype)
    n = wb.at[at].add(wv)
    n = jnp.where(n == 0, 1, n)
    return y, wb / n * t[0] + jnp.zeros_like(b).at[at].add(wv / n[at] * t[1])


def _scatter_mul(base, at_index, s):
    if not is_inexact(base.dtype):
        return base.at[at_index].multiply(s)
    form, arrays = _split_index(at_index)
    return _mul_rule(form, base, s, arrays)


def _extreme_at(base, at_index, s, reduce):
    form, arrays = _split_index(at_index)
    return _extreme_rule(form, reduce, base, s, arrays)


def _lowest(dtype):
    return -jnp.inf if is_inexact(dtype) else False if is_bool(dtype) else np.iinfo(dtype).min


def _highest(dtype):
    return jnp.inf if is_inexact(dtype) else True if is_bool(dtype) else np.iinfo(dtype).max


@op(method=True, inplace=True)
def scatter_reduce(input: Array, dim: int, index: Array, src: Array, reduce: str, *, include_self: bool = True):
    """input reduced with src where index says along dim: sum, prod, mean, amax or amin (torch.scatter_reduce)."""
    check(reduce in ("sum", "prod", "mean", "amax", "amin"), f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    check(src.dtype == input.dtype, f"scatter(): Expected self.dtype to be equal to src.dtype, got {input.dtype.name} and {src.dtype.name}")
    if index.size == 0:
        return input
    x, i, s, d = _scatter_parts(input, dim, index, src, "scatter_reduce")
    return _reduce_at(x, _grid(i, d), s, reduce, include_self).reshape(input.shape)


# ------------------------------------------------------------------------------------------- along one dimension


def _vector(index, name):
    check(index.ndim <= 1, f"{name}(): Index is supposed to be a vector, got {index.ndim} dimensions", IndexError)
    _index_dtype(index, name)
    return index.reshape(-1)


@op(method=True)
def index_select(input: Array, dim: int, index: Array):
    """Slices along dim in the order of index (torch.index_select)."""
    i = _vector(index, "index_select")
    d = norm_dim(dim, input.ndim)
    if input.ndim == 0:
        return input
    n = input.shape[d]
    return jnp.take(input, jnp.where(i < 0, i + n, i), axis=d)


def _along(x, d, i):
    return (slice(None),) * d + (jnp.where(i < 0, i + x.shape[d], i),)


def _source(x, d, i, source, name):
    check(source.dtype == x.dtype, f"{name}(): self and source expected to have the same dtype, but got (self) {x.dtype.name} and (source) "
                                   f"{source.dtype.name}")
    if x.ndim and source.ndim == x.ndim:
        check(source.shape[d] == i.shape[0], f"{name}(): Number of indices ({i.shape[0]}) should be equal to source.size({d}) ({source.shape[d]})")
        for k in range(x.ndim):
            check(k == d or source.shape[k] == x.shape[k], f"{name}(): Source/destination tensor must have same slice shapes. Destination slice shape: "
                  f"{list(x.shape)} at dimension {d} and source slice shape: {list(source.shape)} at dimension {d}.")
    return source


def _index_op(name, doc, write):
    def body(input: Array, dim: int, index: Array, source: Array, *, alpha: Scalar = 1):
        i = _vector(index, name)
        d = norm_dim(dim, input.ndim)
        s = _source(input, d, i, source, name)
        x = input.reshape(1) if input.ndim == 0 else input
        s = s.reshape([i.shape[0] if k == d else n for k, n in enumerate(x.shape)])
        return write(x, _along(x, d, i), s, alpha).reshape(input.shape)
    if name != "index_add":
        inner = body

        def body(input: Array, dim: int, index: Array, source: Array):
            return inner(input, dim, index, source, alpha=1)
    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"{doc} along dim (torch.{name})."
    body.__module__ = __name__
    globals()[name] = op(body, method=True, inplace=True)


def _add_at(x, at, s, alpha):
    s = s if isinstance(alpha, int) else s * alpha.astype(s.dtype)
    return x.at[at].max(s) if is_bool(x.dtype) else x.at[at].add(s)


_index_op("index_add", "Slices of source added to those that index names", _add_at)
_index_op("index_copy", "Slices of source written to those that index names", lambda x, at, s, alpha: x.at[at].set(s))


@op(where=None, name="index_fill")
def _index_fill(input: Array, dim: int, index: Array, value: Array | Scalar):
    i = _vector(index, "index_fill")
    d = norm_dim(dim, input.ndim)
    check(value.ndim == 0, f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s).")
    x = input.reshape(1) if input.ndim == 0 else input
    return x.at[_along(x, d, i)].set(value.astype(x.dtype)).reshape(input.shape)


@composite(method=True, inplace=True)
def index_fill(input, dim, index, value):
    """input with the slices that index names filled with a number (torch.index_fill)."""
    return _index_fill(input, dim, index, value)


@op(method=True, inplace=True)
def index_reduce(input: Array, dim: int, index: Array, source: Array, reduce: str, *, include_self: bool = True):
    """Slices of source reduced into those that index names: prod, mean, amax or amin (torch.index_reduce)."""
    check(reduce in ("prod", "mean", "amax", "amin"), f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    i = _vector(index, "index_reduce")
    d = norm_dim(dim, input.ndim)
    s = _source(input, d, i, source, "index_reduce")
    x = input.reshape(1) if input.ndim == 0 else input
    s = s.reshape([i.shape[0] if k == d else n for k, n in enumerate(x.shape)])
    return _reduce_at(x, _along(x, d, i), s, reduce, include_self).reshape(input.shape)


# ------------------------------------------------------------------------------------------- flat and whole


@op(method=True)
def take(input: Array, index: Array):
    """Elements of the flattened input (torch.take)."""
    _index_dtype(index, "take")
    check(index.size == 0 or input.size > 0, "take(): tried to take from an empty tensor", IndexError)
    flat = input.reshape(-1)
    return jnp.take(flat, jnp.where(index < 0, index + flat.shape[0], index)) if index.size else jnp.zeros(index.shape, input.dtype)


@op(where=None, name="take_along_dim")
def _take_along(input: Array, indices: Array, dim: int):
    d = norm_dim(dim, input.ndim)
    check(input.ndim == indices.ndim, f"torch.take_along_dim(): input and indices should have the same number of dimensions, but got {input.ndim} "
                                      f"dimensions for input, and {indices.ndim} dimensions for indices")
    shape = [max(a, b) if k != d else None for k, (a, b) in enumerate(zip(input.shape, indices.shape))]
    x = jnp.broadcast_to(input, [input.shape[k] if n is None else n for k, n in enumerate(shape)])
    i = jnp.broadcast_to(indices, [indices.shape[k] if n is None else n for k, n in enumerate(shape)])
    return jnp.take_along_axis(x, jnp.where(i < 0, i + x.shape[d], i), d)


@composite(method=True)
def take_along_dim(input, indices, dim=None, *, out=None):
    """Elements that indices name along dim, broadcast; of the flattened input when None (torch.take_along_dim)."""
    if indices.dtype.name != "int64":
        raise RuntimeError(f"torch.take_along_dim(): dtype of indices should be Long but got {indices.dtype}")
    r = _take_along(input.reshape(-1), indices.reshape(-1), 0) if dim is None else _take_along(input, indices, dim)
    return r if out is None else _write_out("take_along_dim", r, out)


@op(method=True, inplace=True)
def put(input: Array, index: Array, source: Array, accumulate: bool = False):
    """source written (or added) at places of the flattened input (torch.put)."""
    _index_dtype(index, "put_")
    check(index.size == source.size, f"put_(): Expected source and index to have the same number of elements, but got source.numel() = {source.size}, "
                                     f"index.numel() = {index.size}")
    check(source.dtype == input.dtype, f"put_(): self and source expected to have the same dtype, but got self.dtype = {input.dtype.name} and "
                                       f"source.dtype = {source.dtype.name}")
    i = index.reshape(-1)
    at = input.reshape(-1).at[jnp.where(i < 0, i + input.size, i)]
    s = source.reshape(-1)
    return (at.add(s) if accumulate else at.set(s)).reshape(input.shape)


def _index_put(input, indices, values, accumulate=False):
    """input with values written (or added) where index tensors say (torch.index_put)."""
    from lazy_tensor import indexing
    if accumulate:
        spec, starts, arrays = indexing._parse(input, tuple(slice(None) if i is None else i for i in indices))
        return indexing._scatter(input, values, indexing._same_place(input, arrays), spec, starts, True)
    spec, starts, arrays = indexing._parse(input, tuple(slice(None) if i is None else i for i in indices))
    return indexing._scatter(input, values, indexing._same_place(input, arrays), spec, starts, False)


@composite(method=True)
def index_put(input, indices, values, accumulate=False):
    """input with values written (or added) where index tensors say (torch.index_put)."""
    if values.dtype != input.dtype:
        raise RuntimeError(f"Index put requires the source and destination dtypes match, got {input.dtype} for the destination and {values.dtype} for "
                           "the source.")
    return _index_put(input, indices, values, accumulate)


def index_put_(self, indices, values, accumulate=False):
    """In-place index_put."""
    check_inplace(self, "index_put_")
    return inplace(self, index_put(self, indices, values, accumulate), "index_put_")


publish_method("index_put_", index_put_)
publish("index_put_", index_put_)


# ------------------------------------------------------------------------------------------- masks


@op(where=None, name="masked_fill")
def _masked_fill(input: Array, mask: Array, value: Array | Scalar):
    check(is_bool(mask.dtype), f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype.name}")
    check(value.ndim == 0, f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s).")
    check(not (value.dtype.kind == "c" and input.dtype.kind != "c"), "value cannot be converted to type without overflow")
    return jnp.where(mask, value.astype(input.dtype), input)


@composite(method=True, inplace=True)
def masked_fill(input, mask, value):
    """input with a number where mask holds (torch.masked_fill)."""
    return _masked_fill(input, mask, value)


@op(method=True, inplace=True)
def masked_scatter(input: Array, mask: Array, source: Array):
    """input with source's elements, in order, where mask holds (torch.masked_scatter)."""
    check(is_bool(mask.dtype), f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype.name}")
    check(source.dtype == input.dtype, f"masked_scatter: expected self and source to have same dtypes but got {input.dtype.name} and {source.dtype.name}")
    shape = jnp.broadcast_shapes(input.shape, mask.shape)
    x, m = jnp.broadcast_to(input, shape), jnp.broadcast_to(mask, shape)
    at = jnp.clip(jnp.cumsum(m.reshape(-1)) - 1, 0, max(source.size - 1, 0))
    if source.size == 0:
        return x
    return jnp.where(m, source.reshape(-1)[at].reshape(shape), x)


# ------------------------------------------------------------------------------------------- sizes that depend on data


def _bucket(n):
    """Sizes are rounded up to a power of two inside the program, so that few are compiled."""
    return 1 << max(n - 1, 0).bit_length() if n > 1 else 1


@op(where=None, name="nonzero", differentiable=False)
def _nonzero(input: Array, size: int):
    return jnp.stack(jnp.nonzero(input != 0, size=size, fill_value=0), 1).astype(np.int64)


@composite(method=True)
def nonzero(input, *, out=None, as_tuple=False):
    """Indices of nonzero elements: (n, ndim), or a tuple of vectors (torch.nonzero); one sync."""
    if input._v.aval.device.host:
        from lazy_tensor import creation
        found = np.nonzero(np.asarray(input.detach()._host()).astype(bool)) if input.dim() else None
        if found is None:
            n = int(bool(input._host()))
            idx = creation._array(np.zeros((n, 0), np.int64), None, "cpu", copy=False)
        else:
            idx = creation._array(np.stack(found, 1).astype(np.int64).reshape(-1, input.dim()), None, "cpu", copy=False)
    else:
        n = int((input.detach() != 0).sum())
        if input.dim() == 0:
            from lazy_tensor import dtypes
            from lazy_tensor.ops.creation import zeros
            idx = zeros(n, 0, dtype=dtypes.names["int64"], device=input.device)
        else:
            idx = _nonzero(input.detach(), _bucket(n))[:n]
    if as_tuple:
        return tuple(idx.unbind(1)) if input.dim() else ((idx.new_zeros(idx.shape[0]),))
    return idx if out is None else _write_out("nonzero", idx, out)


@op(where=None, name="nonzero_static", differentiable=False)
def _nonzero_static(input: Array, size: int, fill_value: int):
    if input.ndim == 0:
        return jnp.zeros((size, 0), np.int64)
    if size == 0:
        return jnp.zeros((0, input.ndim), np.int64)
    return jnp.stack(jnp.nonzero(input != 0, size=size, fill_value=fill_value), 1).astype(np.int64)


@composite(method=True)
def nonzero_static(input, *, size, fill_value=-1, out=None):
    """The first `size` indices of nonzero elements, missing ones fill_value: no sync (torch.nonzero_static)."""
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    r = _nonzero_static(input, int(size), int(fill_value))
    return r if out is None else _write_out("nonzero_static", r, out)


@op(where=None, name="unravel_index", differentiable=False)
def _unravel(indices: Array, shape: Dims):
    check(indices.dtype.kind in "iu", f"unravel_index: expected 'indices' to be integer dtype, but got {indices.dtype.name}")
    return tuple(i.astype(np.int64) for i in jnp.unravel_index(jnp.where(indices < 0, indices + int(np.prod(shape)), indices), shape))


@composite
def unravel_index(indices, shape):
    """Coordinates of flat indices in a shape: a tuple of tensors (torch.unravel_index)."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(d < 0 for d in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {shape}")
    return _unravel(indices, shape)


@composite(method=True)
def argwhere(input):
    """Indices of nonzero elements, (n, ndim) (torch.argwhere); one sync."""
    return nonzero(input)


@composite
def masked_select(input, mask, *, out=None):
    """The elements where mask holds, 1-d (torch.masked_select); one sync."""
    if mask.dtype.name != "bool":
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    from lazy_tensor.ops.shape import broadcast_tensors
    x, m = broadcast_tensors(input, mask)
    at = nonzero(m.reshape(-1))[:, 0]
    r = x.reshape(-1)[at]
    return r if out is None else _write_out("masked_select", r, out)


publish_method("masked_select", masked_select)


def _unique_host(a, dim, inverse, counts, consecutive):
    """(values, inverse, counts) of a NumPy array."""
    if dim is None:
        flat = a.reshape(-1)
        if consecutive:
            if flat.size == 0:
                return flat, np.zeros(a.shape, np.int64), np.zeros(0, np.int64)
            new = np.concatenate([[True], flat[1:] != flat[:-1]])
            inv = np.cumsum(new) - 1
            return flat[new], inv.reshape(a.shape), np.bincount(inv)
        v, inv, c = np.unique(flat, return_inverse=True, return_counts=True, equal_nan=False)
        return v, inv.reshape(a.shape), c
    m = np.moveaxis(a, dim, 0)
    rows = m.reshape(m.shape[0], -1)
    if consecutive:
        if m.shape[0] == 0:
            return a, np.zeros(0, np.int64), np.zeros(0, np.int64)
        new = np.concatenate([[True], (rows[1:] != rows[:-1]).any(1)])
        inv = np.cumsum(new) - 1
        return np.moveaxis(m[new], 0, dim), inv, np.bincount(inv)
    v, first, inv, c = np.unique(rows, axis=0, return_index=True, return_inverse=True, return_counts=True) if rows.size else \
        (rows[:1], np.zeros(min(1, len(rows)), np.int64), np.zeros(len(rows), np.int64), np.full(min(1, len(rows)), len(rows)))
    return np.moveaxis(m[first], 0, dim), inv.reshape(-1), c


def _unique(input, dim, return_inverse, return_counts, consecutive):
    from lazy_tensor import creation
    d = None if dim is None else norm_dim(dim, input.dim())
    a = np.asarray(input.detach()._host())
    half = a.dtype.kind == "V"
    v, inv, c = _unique_host(a.astype(np.float32) if half else a, d, return_inverse, return_counts, consecutive)
    dev = input.device
    out = [creation.tensor(np.ascontiguousarray(v), dtype=input.dtype, device=dev)]
    if return_inverse:
        out.append(creation.tensor(np.asarray(inv, np.int64), device=dev))
    if return_counts:
        out.append(creation.tensor(np.asarray(c, np.int64), device=dev))
    return out[0] if len(out) == 1 else tuple(out)


@composite(method=True)
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct elements (or slices along dim), sorted (torch.unique); one sync."""
    return _unique(input, dim, return_inverse, return_counts, False)


@composite(method=True)
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """Runs of equal elements (or slices) as one each (torch.unique_consecutive); one sync."""
    return _unique(input, dim, return_inverse, return_counts, True)

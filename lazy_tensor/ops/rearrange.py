"""Rearrangements that copy: flips, rolls, repeats, triangles, diagonals, scatters of views."""
from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import check, norm_dim
from lazy_tensor.ops._define import composite, op, publish_method
from lazy_tensor.tensor import Tensor


def _xp(x):
    return np if isinstance(x, np.ndarray) else jnp


def _both(body=None, **kw):
    """An op whose body serves NumPy too."""
    if body is None:
        return lambda b: _both(b, **kw)
    return op(body, host=body, **kw)


@_both(where=None, name="flip")
def _flip(input: Array, dims: Dims):
    axes = tuple(norm_dim(d, input.ndim) for d in dims)
    check(len(set(axes)) == len(axes), f"dim appears multiple times in the list of dims {list(axes)}")
    return _xp(input).flip(input, axes) if axes and input.ndim else input


@composite
def flip(input, *axes, dims=None):
    """Reversed along dims (torch.flip)."""
    dims = axes if dims is None else (dims,)
    dims = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    return _flip(input, tuple(dims))


publish_method("flip", lambda self, *dims, **kw: flip(self, *(dims or (kw["dims"],))))


@composite(method=True)
def fliplr(input):
    """Reversed along dimension 1 (torch.fliplr)."""
    if input.dim() < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return _flip(input, (1,))


@composite(method=True)
def flipud(input):
    """Reversed along dimension 0 (torch.flipud)."""
    if input.dim() < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return _flip(input, (0,))


@_both(method=True)
def roll(input: Array, shifts: Dims, dims: Dims | None = None):
    """Elements moved around along dims (torch.roll)."""
    s = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    check(len(s) > 0, "`shifts` required")
    if dims is None or dims == ():
        check(len(s) == 1, f"shifts and dimensions must align. shifts: {len(s)}, dims:0")
        return _xp(input).roll(input, s[0])
    d = (dims,) if isinstance(dims, int) else tuple(dims)
    check(len(s) == len(d), f"shifts and dimensions must align. shifts: {len(s)}, dims:{len(d)}")
    return _xp(input).roll(input, s, tuple(norm_dim(i, input.ndim) for i in d)) if input.ndim else input


@_both(method=True)
def rot90(input: Array, k: int = 1, dims: Dims = (0, 1)):
    """Rotated by k quarter turns in the plane of dims (torch.rot90)."""
    check(len(dims) == 2, f"expected total rotation dims == 2, but got dims = {len(dims)}")
    check(input.ndim >= 2, f"expected total dims >= 2, but got total dims = {input.ndim}")
    a, b = (norm_dim(d, input.ndim) for d in dims)
    check(a != b, f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    return _xp(input).rot90(input, k, (a, b))


@_both(where=None, name="repeat")
def _repeat(input: Array, repeats: Dims):
    check(len(repeats) >= input.ndim, "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    check(all(r >= 0 for r in repeats), f"Trying to create tensor with negative dimension {min(repeats, default=0)}: {list(repeats)}")
    return _xp(input).tile(input, repeats)


publish_method("repeat", lambda self, *repeats, **kw: _repeat(self, _ints(repeats or (kw["repeats"],))))


def _ints(args):
    if len(args) == 1 and not isinstance(args[0], (int, np.integer)):
        args = args[0]
    return tuple(int(a) for a in args)


@composite
def tile(input, dims):
    """input repeated along each dimension (torch.tile)."""
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    return _repeat(input, (1,) * (input.dim() - len(dims)) + dims)


publish_method("tile", lambda self, *dims, **kw: tile(self, _ints(dims or (kw["dims"],))))


@op(where=None, name="repeat_interleave")
def _interleave(input: Array, repeats: Array, dim: int, total: int):
    return jnp.repeat(input, repeats, axis=dim, total_repeat_length=total)


@op(where=None, name="repeat_interleave")
def _interleave_static(input: Array, repeats: int, dim: int):
    return jnp.repeat(input, repeats, axis=dim)


@composite(method=True)
def repeat_interleave(input, repeats=None, dim=None, *, output_size=None):
    """Each element repeated (along dim; flattened when None); a tensor of counts costs one sync unless output_size is given."""
    if repeats is None:
        if input.dim() != 1:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        from lazy_tensor import creation
        return repeat_interleave(creation.tensor(np.arange(input.shape[0]), device=input.device), input, 0, output_size=output_size)
    if dim is None:
        input, dim = input.reshape(-1), 0
    d = norm_dim(dim, input.dim())
    if input.dim() == 0:
        input = input.reshape(1)
    if isinstance(repeats, (list, tuple)):
        from lazy_tensor import creation
        repeats = creation.tensor(list(repeats), device=input.device)
    if isinstance(repeats, Tensor) and repeats.numel() == 1 and repeats.dim() <= 1:
        repeats = int(repeats)
    if not isinstance(repeats, Tensor):
        if repeats < 0:
            raise RuntimeError("Repeats must be non-negative")
        return _interleave_static(input, int(repeats), d)
    if repeats.dtype.np.kind not in "iu":
        raise RuntimeError("repeats has to be Long or Int tensor")
    if repeats.dim() > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if repeats.shape[0] != input.shape[d]:
        raise RuntimeError(f"repeats must have the same size as input along dim, but got repeats.size(0) = {repeats.shape[0]} and input.size({d}) = "
                           f"{input.shape[d]}")
    if output_size is None:
        counts = repeats._host()
        if (counts < 0).any():
            raise RuntimeError("repeats can not be negative")
        output_size = int(counts.sum())
    return _interleave(input, repeats, d, output_size)


# ------------------------------------------------------------------------------------------- triangles and diagonals


def _triangle(name, doc):
    def body(input: Array, diagonal: int = 0):
        check(input.ndim >= 2, f"{name}: input tensor must have at least 2 dimensions")
        return getattr(_xp(input), name)(input, diagonal)
    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"{doc} of matrices, zero elsewhere (torch.{name})."
    body.__module__ = __name__
    globals()[name] = _both(body, method=True, inplace=True)


_triangle("tril", "The lower triangle")
_triangle("triu", "The upper triangle")


def _tri_indices(name, fn):
    def call(row, col, offset=0, *, dtype=None, device=None, layout=None):
        from lazy_tensor import creation, dtypes
        if row < 0 or col < 0:
            raise RuntimeError(f"{name}: row and col must be non-negative, got {row} and {col}")
        a = np.stack(fn(row, offset, col)) if row and col else np.zeros((2, 0), np.int64)
        return creation.tensor(a.astype(np.int64), dtype=dtype or dtypes.names["int64"], device=device)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Row and column indices of a triangle, shape (2, n) (torch.{name})."
    globals()[name] = composite(call)


_tri_indices("tril_indices", np.tril_indices)
_tri_indices("triu_indices", np.triu_indices)


@op(method=True)
def diag(input: Array, diagonal: int = 0):
    """A matrix with a vector on its diagonal, or a matrix's diagonal (torch.diag)."""
    check(input.ndim in (1, 2), f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return jnp.diag(input, diagonal)


@op(method=True)
def diag_embed(input: Array, offset: int = 0, dim1: int = -2, dim2: int = -1):
    """Vectors along the last dimension as diagonals of matrices (torch.diag_embed)."""
    n = input.ndim + 1
    a, b = norm_dim(dim1, n), norm_dim(dim2, n)
    check(a != b, f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    if a > b:
        a, b, offset = b, a, -offset
    size = input.shape[-1] + abs(offset)
    rows = np.arange(input.shape[-1]) + max(-offset, 0)
    cols = np.arange(input.shape[-1]) + max(offset, 0)
    out = jnp.zeros((*input.shape[:-1], size, size), input.dtype).at[..., rows, cols].set(input)
    return jnp.moveaxis(out, (-2, -1), (a, b))


@composite(method=True)
def diagflat(input, offset=0):
    """The flattened input on the diagonal of a matrix (torch.diagflat)."""
    return diag(input.reshape(-1), offset)


def _scatter_view(name, view, doc):
    def call(input, src, *args, out=None, **kw):
        given = out
        out = input.clone()
        region = view(out, *args, **kw)
        if tuple(region.shape) != tuple(src.shape):
            if name != "slice_scatter":
                raise RuntimeError(f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = "
                                   f"{list(region.shape)}")
            src = src.expand(tuple(region.shape))
        region.copy_(src)
        if given is not None:
            from lazy_tensor.ops._define import _write_out
            return _write_out(name, out, given)
        return out
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"A copy of input with {doc} replaced by src (torch.{name})."
    globals()[name] = composite(call, method=True)


def _slice(x, dim=0, start=None, end=None, step=1):
    return x[(slice(None),) * norm_dim(dim, x.dim()) + (slice(start, end, step),)]


_scatter_view("diagonal_scatter", lambda x, offset=0, dim1=0, dim2=1: x.diagonal(offset, dim1, dim2), "a diagonal")
_scatter_view("select_scatter", lambda x, dim, index: x.select(dim, index), "one slice")
_scatter_view("slice_scatter", _slice, "a range of slices")
_scatter_view("as_strided_scatter", lambda x, size, stride, storage_offset=None: x.as_strided(size, stride, storage_offset), "a strided region")


def fill_diagonal_(self, fill_value, wrap=False):
    """Write a number on the main diagonal, in place (torch.Tensor.fill_diagonal_)."""
    if self.dim() < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.dim() > 2 and len(set(self.shape)) != 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    mask = np.zeros(tuple(self.shape), bool)
    if self.dim() == 2:
        h, w = self.shape
        flat = mask.reshape(-1)
        if wrap and h > w:
            flat[::w + 1] = True
        else:
            n = min(h, w)
            mask[np.arange(n), np.arange(n)] = True
    else:
        i = np.arange(self.shape[0])
        mask[(i,) * self.dim()] = True
    from lazy_tensor import creation
    return self.masked_fill_(creation.tensor(mask, device=self.device), fill_value)


publish_method("fill_diagonal_", fill_diagonal_)

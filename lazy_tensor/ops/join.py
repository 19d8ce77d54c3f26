"""Joining tensors: cat, stack and their kin."""
from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import check, norm_dim
from lazy_tensor.ops._define import _write_out, composite, op
from lazy_tensor.tensor import Tensor


def _cat_parts(tensors, dim):
    check(len(tensors) > 0, "torch.cat(): expected a non-empty list of Tensors", ValueError)
    for i, t in enumerate(tensors):
        check(t.ndim > 0, f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    kept = [t for t in tensors if not (t.ndim == 1 and t.shape[0] == 0)]
    if not kept:
        return tensors[:1], 0
    d = norm_dim(dim, kept[0].ndim)
    for i, t in enumerate(kept):
        check(t.ndim == kept[0].ndim, f"Tensors must have same number of dimensions: got {kept[0].ndim} and {t.ndim}")
        for k, (a, b) in enumerate(zip(kept[0].shape, t.shape)):
            check(k == d or a == b, f"Sizes of tensors must match except in dimension {d}. Expected size {a} but got size {b} for tensor number {i} in "
                                    "the list.")
    return kept, d


def _cat_host(tensors, dim=0):
    kept, d = _cat_parts(tensors, dim)
    return np.concatenate(kept, d)


@op(promote=("tensors",), host=_cat_host, alias=("concat", "concatenate"))
def cat(tensors: Arrays, dim: int = 0):
    """Tensors one after the other along dim (torch.cat)."""
    kept, d = _cat_parts(tensors, dim)
    return jnp.concatenate(kept, d) if len(kept) > 1 else kept[0]


def _stack_check(tensors, dim):
    check(len(tensors) > 0, "stack expects a non-empty TensorList")
    for i, t in enumerate(tensors):
        check(t.shape == tensors[0].shape, f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 and "
                                           f"{list(t.shape)} at entry {i}")
    return norm_dim(dim, tensors[0].ndim + 1)


@op(promote=("tensors",), host=lambda tensors, dim=0: np.stack(tensors, _stack_check(tensors, dim)))
def stack(tensors: Arrays, dim: int = 0):
    """Tensors of one shape along a new dimension (torch.stack)."""
    return jnp.stack(tensors, _stack_check(tensors, dim))


def _stacker(name, least, axis, alias=()):
    def call(tensors, *, out=None):
        if isinstance(tensors, Tensor):
            tensors = tensors.unbind(0)
        if len(tensors) == 0:
            raise RuntimeError(f"{name} expects a non-empty TensorList")
        from lazy_tensor.ops import shape
        ts = [getattr(shape, f"atleast_{least}d")(x) for x in tensors]
        if name == "column_stack":
            ts = [x.reshape(-1, 1) if x.dim() <= 1 else x for x in tensors]
        r = cat(ts, axis if name != "hstack" or ts[0].dim() > 1 else 0)
        return r if out is None else _write_out(name, r, out)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Tensors joined along dimension {axis} after making them at least {least}-d (torch.{name})."
    globals()[name] = composite(call, alias=alias)


_stacker("hstack", 1, 1)
_stacker("vstack", 2, 0, ("row_stack",))
_stacker("dstack", 3, 2)
_stacker("column_stack", 1, 1)


@op(where=None, name="block_diag", promote=("tensors",))
def _block(tensors: Arrays):
    ms = [t.reshape(1, -1) if t.ndim < 2 else t for t in tensors]
    for t in ms:
        check(t.ndim == 2, "torch.block_diag: Input tensors must have 2 or fewer dimensions.")
    h, w = sum(m.shape[0] for m in ms), sum(m.shape[1] for m in ms)
    out = jnp.zeros((h, w), ms[0].dtype)
    r = c = 0
    for m in ms:
        out = out.at[r:r + m.shape[0], c:c + m.shape[1]].set(m)
        r, c = r + m.shape[0], c + m.shape[1]
    return out


@composite
def block_diag(*tensors):
    """A block-diagonal matrix (torch.block_diag)."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    return _block(list(tensors))


@op(where=None, name="meshgrid")
def _mesh(tensors: Arrays, indexing: str):
    for t in tensors:
        check(t.ndim <= 1, f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {list(t.shape)}")
        check(t.dtype == tensors[0].dtype, "torch.meshgrid expects all tensors to have the same dtype")
    return tuple(jnp.meshgrid(*[t.reshape(-1) for t in tensors], indexing=indexing))


@composite
def meshgrid(*tensors, indexing=None):
    """Coordinate grids of 1-d tensors (torch.meshgrid); indexing "ij" (default) or "xy"."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    return _mesh(list(tensors), indexing or "ij")


@composite
def cartesian_prod(*tensors):
    """All tuples of elements, one a row (torch.cartesian_prod)."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    for t in tensors:
        if t.dim() != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(t.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return stack([g.reshape(-1) for g in meshgrid(*tensors, indexing="ij")], 1)


@composite
def combinations(input, r=2, with_replacement=False):
    """All combinations of r elements of a vector, one a row (torch.combinations)."""
    if input.dim() != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    pick = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(pick(range(input.shape[0]), r)), np.int64).reshape(-1, r)
    if r == 0:
        return input[:0]
    from lazy_tensor import creation
    return input[creation.tensor(rows, device=input.device)]


from lazy_tensor.ops._define import publish_method  # noqa: E402

publish_method("combinations", combinations)

"""The ops that the Tensor class itself needs: casts, copies, fills."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import broadcast_shapes, check
from lazy_tensor.ops._define import op


def _cast(x, dtype):
    if jnp.iscomplexobj(x) and not jnp.issubdtype(dtype, np.complexfloating):
        x = jnp.real(x)
    if np.dtype(dtype) == np.bool_:
        return x != 0
    return jax.lax.convert_element_type(x, dtype)


def _host_cast(input, dtype):
    if input.dtype.kind == "c" and np.dtype(dtype).kind != "c":
        input = input.real
    if np.dtype(dtype).kind in "iu" and input.dtype.kind in "fV":
        return _host_to_int(input, dtype)
    with np.errstate(all="ignore"):
        return input.astype(dtype)


def _host_to_int(x, dtype):
    """Float to integer as XLA does it: saturating, nan to 0."""
    info = np.iinfo(dtype)
    x = np.nan_to_num(x.astype(np.float64) if x.dtype.kind == "V" else x, nan=0.0, posinf=np.inf, neginf=-np.inf)
    with np.errstate(all="ignore"):
        out = x.astype(dtype)
    out = np.where(x >= float(info.max), info.max, out)
    return np.where(x <= float(info.min), info.min, out).astype(dtype)


@op(where=None, host=_host_cast)
def cast(input: Array, dtype: DType):
    """input with another element type."""
    return _cast(input, dtype)


@op(where=None, name="clone", host=lambda input: input.copy())
def _clone(input: Array):
    """A copy with the same gradient."""
    return input


def _host_place(input, src):
    return np.broadcast_to(_host_cast(src, input.dtype), input.shape)


@op(where=None, host=_host_place)
def place(input: Array, src: Array):
    """src broadcast to input's shape and cast to its dtype; input's own gradient is zero."""
    _fits(src.shape, input.shape)
    return jnp.broadcast_to(_cast(src, input.dtype), input.shape)


@op(where=None, host=lambda src, shape, dtype: np.broadcast_to(_host_cast(src, dtype), shape))
def spread(src: Array, shape: Dims, dtype: DType):
    """src broadcast to a shape and cast."""
    _fits(src.shape, shape)
    return jnp.broadcast_to(_cast(src, dtype), shape)


def _fits(src, dst):
    try:
        ok = broadcast_shapes(src, dst) == tuple(dst)
    except RuntimeError:
        ok = False
    check(ok, f"copy_: a tensor of shape {list(src)} does not broadcast to {list(dst)}")


def _host_fill(input, value):
    return np.full(input.shape, value).astype(input.dtype)


@op(where="", name="fill", method=True, inplace=True, host=_host_fill)
def fill(input: Array, value: Array | Scalar):
    """A tensor like input with every element `value` (a number or 0-d tensor)."""
    check(value.ndim == 0, f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    return jnp.broadcast_to(_cast(value, input.dtype), input.shape)

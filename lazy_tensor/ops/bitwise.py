"""Bitwise logic and shifts of integers and bools."""
from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from lazy_tensor.ops._common import check, is_bool, is_int
from lazy_tensor.ops._define import op


def _bits(name, fn, doc, bools=True):
    def body(input: Array | Scalar, other: Array | Scalar):
        check(is_int(input.dtype) or (bools and is_bool(input.dtype)), f"{name}: not implemented for {input.dtype.name}; integers{' and bools' if bools else ''} fit",
              NotImplementedError)
        return fn(*jnp.broadcast_arrays(input, other))
    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"Bitwise {doc} of integers (logical of bools where it applies) (torch.{name})."
    body.__module__ = __name__
    globals()[name] = op(body, promote=True, method=True, inplace=True)


def _left(a, b):
    bits = a.dtype.itemsize * 8
    ok = (b >= 0) & (b < bits)
    return jnp.where(ok, lax.shift_left(a, jnp.where(ok, b, 0)), 0).astype(a.dtype)


def _right(a, b):
    bits = a.dtype.itemsize * 8
    signed = a.dtype.kind == "i"
    ok = (b >= 0) & (b < bits)
    shift = lax.shift_right_arithmetic if signed else lax.shift_right_logical
    return shift(a, jnp.where(ok, b, bits - 1 if signed else 0)) if signed else jnp.where(ok, shift(a, jnp.where(ok, b, 0)), 0)


_bits("bitwise_and", jnp.bitwise_and, "and")
_bits("bitwise_or", jnp.bitwise_or, "or")
_bits("bitwise_xor", jnp.bitwise_xor, "exclusive or")
_bits("bitwise_left_shift", _left, "shift to the left", False)
_bits("bitwise_right_shift", _right, "arithmetic shift to the right", False)


@op(method=True, inplace=True)
def bitwise_not(input: Array):
    """Every bit inverted (logical not of bools) (torch.bitwise_not)."""
    check(is_int(input.dtype) or is_bool(input.dtype), f"bitwise_not: not implemented for {input.dtype.name}; integers and bools fit",
          NotImplementedError)
    return jnp.invert(input)

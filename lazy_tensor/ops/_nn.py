"""What the nn.functional families share: wide arithmetic for half types, `inplace=`, reductions, norms at 0."""
from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import check, is_complex, is_inexact


def wide(x):
    """x in the dtype that torch computes in: float32 for half types, itself otherwise."""
    if x is None or not jnp.issubdtype(x.dtype, np.floating) or x.dtype.itemsize >= 4:
        return x
    return x.astype(np.float32)


def float_only(name, x, complex_ok=False):
    """torch's NotImplementedError for integer (and complex) tensors."""
    ok = is_inexact(x.dtype) and (complex_ok or not is_complex(x.dtype))
    check(ok, f'"{name}" not implemented for {x.dtype.name} (given shape {list(x.shape)}); a floating point tensor would fit',
          NotImplementedError)


def write(input, result, name):
    """The `inplace=True` form: result becomes input's value. Returns input."""
    from lazy_tensor.ops import _define
    _define.check_inplace(input, name)
    return _define.inplace(input, result, name)


def legacy(size_average, reduce, reduction):
    """The reduction that the deprecated arguments stand for."""
    if size_average is None and reduce is None:
        return reduction
    mean = True if size_average is None else size_average
    kept = "none" if reduce is False else "mean" if mean else "sum"
    warnings.warn(f"size_average and reduce args will be deprecated, please use reduction='{kept}' instead.", stacklevel=3)
    return kept


def reduced(x, reduction):
    """mean, sum or none of a loss, accumulated in float32 for half types."""
    if reduction == "none":
        return x
    if reduction == "mean":
        return jnp.mean(x) if x.size else jnp.full((), np.nan, x.dtype)
    if reduction == "sum":
        return jnp.sum(x)
    raise ValueError(f"{reduction} is not a valid value for reduction: 'none', 'mean' and 'sum' are")


def checked_reduction(reduction):
    """torch's ValueError for an unknown reduction."""
    check(reduction in ("none", "mean", "sum"), f"{reduction} is not a valid value for reduction", ValueError)


def p_norm(x, p, axis, keepdims=False):
    """The p-norm over axes with torch's gradient 0 at 0."""
    a = jnp.abs(x)
    if p == 0:
        return jnp.sum((a != 0).astype(a.dtype), axis, keepdims=keepdims)
    if p == 1:
        return jnp.sum(a, axis, keepdims=keepdims)
    if p == float("inf"):
        return jnp.max(a, axis, keepdims=keepdims)
    if p == float("-inf"):
        return jnp.min(a, axis, keepdims=keepdims)
    if p == 2:
        s = jnp.sum(jnp.real(x * jnp.conj(x)), axis, keepdims=keepdims)
        zero = s == 0
        return jnp.where(zero, 0.0, jnp.sqrt(jnp.where(zero, 1.0, s)))
    if p < 1:
        a = jnp.where(a == 0, 0.0, jnp.where(a == 0, 1.0, a) ** p) if p > 0 else a ** p
    else:
        a = a ** p
    s = jnp.sum(a, axis, keepdims=keepdims)
    zero = s == 0
    return jnp.where(zero, 0.0, jnp.where(zero, 1.0, s) ** (1.0 / p))


@jax.custom_jvp
def scale_grad(x, scale):
    """x, its tangents (and so its gradients) multiplied by scale."""
    return x


@scale_grad.defjvp
def _scale_grad_jvp(primals, tangents):
    return primals[0], tangents[0] * primals[1]

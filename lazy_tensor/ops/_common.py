"""What op bodies share: argument checks, dimension arithmetic, dtype questions."""
from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

_default_float = [np.dtype(np.float32)]


def default_float():
    """The NumPy dtype that integers become in float ops (`lt.get_default_dtype()`)."""
    return _default_float[0]


def default_complex():
    return np.dtype(np.complex128) if default_float() == np.float64 else np.dtype(np.complex64)


def check(condition, message, exc=RuntimeError):
    """Raise `exc(message)` unless condition."""
    if not condition:
        raise exc(message)


def norm_dim(dim, ndim, what="dim"):
    """A dimension in [0, ndim), torch's IndexError otherwise (a 0-d tensor counts as 1-d)."""
    n = max(ndim, 1)
    if not -n <= dim < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    return dim % n


def norm_dims(dims, ndim):
    """A tuple of distinct dimensions; None or () means all."""
    if dims is None:
        return tuple(range(ndim))
    if isinstance(dims, (int, np.integer)):
        dims = (dims,)
    if len(dims) == 0:
        return tuple(range(ndim))
    out = tuple(norm_dim(int(d), ndim) for d in dims)
    if len(set(out)) != len(out):
        d = next(d for d in out if out.count(d) > 1)
        raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return out


def is_float(dtype):
    return jnp.issubdtype(dtype, np.floating)


def is_complex(dtype):
    return jnp.issubdtype(dtype, np.complexfloating)


def is_inexact(dtype):
    return jnp.issubdtype(dtype, np.inexact)


def is_int(dtype):
    """Integers, bool excluded."""
    return jnp.issubdtype(dtype, np.integer)


def is_bool(dtype):
    return np.dtype(dtype) == np.bool_


def real_dtype(dtype):
    """complex64 -> float32, complex128 -> float64, others unchanged."""
    d = np.dtype(dtype)
    return np.dtype({"complex64": np.float32, "complex128": np.float64}.get(d.name, d))


def complex_dtype(dtype):
    """float64 -> complex128, other floats -> complex64."""
    d = np.dtype(dtype)
    if is_complex(d):
        return d
    return np.dtype(np.complex128 if d == np.float64 else np.complex64)


def numel(shape):
    return math.prod(shape)


def pair(x, n, what="argument"):
    """An int, or a sequence of 1 or n ints, as a tuple of n ints."""
    if isinstance(x, (int, np.integer)):
        return (int(x),) * n
    x = tuple(int(i) for i in x)
    if len(x) == 1:
        return x * n
    if len(x) != n:
        raise RuntimeError(f"{what} must be an int or {n} ints, got {list(x)}")
    return x


def broadcast_shapes(*shapes):
    """The common shape, or torch's RuntimeError naming sizes and dimension."""
    n = max((len(s) for s in shapes), default=0)
    out = [1] * n
    for s in shapes:
        for i, d in enumerate(s, n - len(s)):
            if d != 1:
                if out[i] not in (1, d):
                    raise RuntimeError(
                        f"The size of tensor a ({out[i]}) must match the size of tensor b ({d}) "
                        f"at non-singleton dimension {i}")
                out[i] = d
    return tuple(out)

"""Cumulative ops, differences, integration by trapezoids."""
from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from lazy_tensor.ops._common import check, is_bool, is_complex, is_inexact, norm_dim
from lazy_tensor.ops._define import _write_out, composite, op
from lazy_tensor.tensor import Tensor


def _typed(x, dtype):
    if dtype is not None:
        return x.astype(dtype)
    return x.astype(np.int64) if x.dtype.kind in "biu" else x


@op(method=True, inplace=True)
def cumsum(input: Array, dim: int, *, dtype: DType | None = None):
    """Running sums along dim (torch.cumsum)."""
    x = _typed(input, dtype)
    d = norm_dim(dim, x.ndim)
    return x if x.ndim == 0 else jnp.cumsum(x, axis=d)


@op(method=True, inplace=True)
def cumprod(input: Array, dim: int, *, dtype: DType | None = None):
    """Running products along dim; gradients hold with zeros (torch.cumprod)."""
    x = _typed(input, dtype)
    d = norm_dim(dim, x.ndim)
    if x.ndim == 0 or x.size == 0:
        return x
    if not is_inexact(x.dtype):
        return jnp.cumprod(x, axis=d)
    return lax.associative_scan(jnp.multiply, x, axis=d)


def _running(x, dim, better, name):
    check(not is_complex(x.dtype), f"{name}: not implemented for complex")
    d = norm_dim(dim, x.ndim)
    if x.ndim == 0:
        return x, jnp.zeros((), np.int64)
    if x.size == 0:
        return x, jnp.zeros(x.shape, np.int64)
    s = lax.stop_gradient(x).astype(np.uint8) if is_bool(x.dtype) else lax.stop_gradient(x)
    idx = lax.broadcasted_iota(np.int64, x.shape, d)

    def join(a, b):
        va, ia = a
        vb, ib = b
        take = better(vb, va)
        if is_inexact(vb.dtype):
            take = (take | jnp.isnan(vb)) & ~(jnp.isnan(va) & ~jnp.isnan(vb))
        return jnp.where(take, vb, va), jnp.where(take, ib, ia)
    _, at = lax.associative_scan(join, (s, idx), axis=d)
    return jnp.take_along_axis(x, at, d), at


@op(method=True, returns=("values", "indices"))
def cummax(input: Array, dim: int):
    """(running maxima, their indices) along dim; the last of equals (torch.cummax)."""
    return _running(input, dim, jnp.greater_equal, "cummax")


@op(method=True, returns=("values", "indices"))
def cummin(input: Array, dim: int):
    """(running minima, their indices) along dim; the last of equals (torch.cummin)."""
    return _running(input, dim, jnp.less_equal, "cummin")


@op(method=True)
def logcumsumexp(input: Array, dim: int):
    """Running log-sum-exp along dim (torch.logcumsumexp)."""
    x = input
    check(is_inexact(x.dtype), f"logcumsumexp: not implemented for {x.dtype.name}")
    d = norm_dim(dim, x.ndim)
    if x.ndim == 0 or x.size == 0:
        return x
    if is_complex(x.dtype):
        def join(a, b):  # one after the other, as torch: imaginary parts go on beyond pi
            low, high = jnp.where(jnp.real(a) < jnp.real(b), a, b), jnp.where(jnp.real(a) >= jnp.real(b), a, b)
            same = ~jnp.isfinite(jnp.real(low)) & (jnp.real(low) == jnp.real(high))
            gap = jnp.where(same, 0, low - high)
            c = jnp.where(same, jnp.where(jnp.real(low) < 0, low, jnp.log(jnp.exp(jnp.where(same, low, 0)) + jnp.exp(jnp.where(same, high, 0)))), jnp.log(1 + jnp.exp(gap)) + high)
            return c, c
        rows = jnp.moveaxis(x, d, 0)
        rest = lax.scan(join, rows[0], rows[1:])[1]
        return jnp.moveaxis(jnp.concatenate([rows[:1], rest]), 0, d)
    w = x.astype(np.float32) if x.dtype.itemsize < 4 else x
    return lax.associative_scan(jnp.logaddexp, w, axis=d).astype(x.dtype)


@op(where=None, name="diff")
def _diff(input: Array, n: int, dim: int, prepend: Array | None, append: Array | None):
    check(input.ndim > 0, "diff expects input to be at least one-dimensional")
    check(n >= 0, f"order must be non-negative but got {n}")
    d = norm_dim(dim, input.ndim)
    if n == 0:
        return input
    parts = [p for p in (prepend, input, append) if p is not None]
    dt = jnp.result_type(*parts)
    x = jnp.concatenate([p.astype(dt) for p in parts], d) if len(parts) > 1 else input
    for _ in range(n):
        a, b = lax.slice_in_dim(x, 1, None, axis=d), lax.slice_in_dim(x, 0, max(x.shape[d] - 1, 0), axis=d)
        a = a if x.shape[d] else b
        x = a ^ b if is_bool(x.dtype) else a - b
    return x


@composite(method=True)
def diff(input, n=1, dim=-1, prepend=None, append=None, *, out=None):
    """n-th differences along dim (torch.diff)."""
    r = _diff(input, n, dim, prepend, append)
    return r if out is None else _write_out("diff", r, out)


def _spaced(y, x, dx, d):
    n = y.shape[d]
    if x is None:
        return dx
    w = jnp.diff(x, axis=-1 if x.ndim == 1 else d)
    if x.ndim == 1:
        check(x.shape[0] == n, f"trapezoid: There must be one `x` value for each sample point ({x.shape[0]} for {n})")
        w = w.reshape([-1 if a == d else 1 for a in range(y.ndim)])
    return w


def _areas(y, x, dx, dim):
    d = norm_dim(dim, y.ndim)
    if y.shape[d] == 0:
        return jnp.zeros([0 if a == d else s for a, s in enumerate(y.shape)], y.dtype), d
    if y.dtype.kind in "biu":
        from lazy_tensor.ops._common import default_float
        y = y.astype(default_float())
    w = _spaced(y, x, dx, d)
    a, b = lax.slice_in_dim(y, 1, None, axis=d), lax.slice_in_dim(y, 0, y.shape[d] - 1, axis=d)
    return ((a + b) * (w if isinstance(w, float) else w.astype(y.dtype)) / 2).astype(jnp.result_type(y, *(() if isinstance(w, float) else (w,)))), d


@op(where=None, name="trapezoid")
def _trapezoid(y: Array, x: Array | None, dx: float, dim: int):
    a, d = _areas(y, x, float(dx), dim)
    return a.sum(d)


@op(where=None, name="cumulative_trapezoid")
def _cumulative(y: Array, x: Array | None, dx: float, dim: int):
    a, d = _areas(y, x, float(dx), dim)
    return jnp.cumsum(a, d)


def _trapezoids(name, fn, alias=()):
    def call(y, x=None, *, dx=None, dim=-1):
        if x is not None and dx is not None:
            raise RuntimeError(f"{name}: only one of x and dx may be given")
        if isinstance(x, (int, float)):
            x, dx = None, x
        return fn(y, x if isinstance(x, Tensor) else None, 1.0 if dx is None else dx, dim)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"The integral along dim by the trapezoid rule (torch.{name})."
    globals()[name] = composite(call, alias=alias)


_trapezoids("trapezoid", _trapezoid, ("trapz",))
_trapezoids("cumulative_trapezoid", _cumulative)


@op(where=None, name="gradient")
def _gradient(input: Array, coords: Arrays, spacing: tuple, dims: Dims, edge_order: int):
    out = []
    coords = iter(coords)
    for d, h in zip(dims, spacing):
        n = input.shape[d]
        check(n >= edge_order + 1, f"torch.gradient expected each dimension size to be at least edge_order+1, got {n} for dim {d}")
        x = jnp.moveaxis(input, d, 0)
        shape = (-1,) + (1,) * (x.ndim - 1)
        if h is None:
            c = next(coords)
            w = jnp.diff(c).astype(x.real.dtype if is_complex(x.dtype) else x.dtype) if is_inexact(x.dtype) else jnp.diff(c)
            a, b = w[:-1].reshape(shape), w[1:].reshape(shape)
            mid = -b / (a * (a + b)) * x[:-2] + (b - a) / (a * b) * x[1:-1] + a / (b * (a + b)) * x[2:]
            if edge_order == 1:
                first, last = (x[1] - x[0]) / w[0], (x[-1] - x[-2]) / w[-1]
            else:
                p, q = w[0], w[1]
                first = -(2 * p + q) / (p * (p + q)) * x[0] + (p + q) / (p * q) * x[1] - p / (q * (p + q)) * x[2]
                p, q = w[-2], w[-1]
                last = q / (p * (p + q)) * x[-3] - (q + p) / (p * q) * x[-2] + (2 * q + p) / (q * (p + q)) * x[-1]
        else:
            mid = (x[2:] - x[:-2]) / (2 * h)
            if edge_order == 1:
                first, last = (x[1] - x[0]) / h, (x[-1] - x[-2]) / h
            else:
                first = (-1.5 * x[0] + 2 * x[1] - 0.5 * x[2]) / h
                last = (1.5 * x[-1] - 2 * x[-2] + 0.5 * x[-3]) / h
        out.append(jnp.moveaxis(jnp.concatenate([first[None], mid, last[None]]), 0, d))
    return tuple(out)


@composite
def gradient(input, *, spacing=1, dim=None, edge_order=1):
    """Central differences along each dim: a tuple of tensors (torch.gradient)."""
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    dims = tuple(range(input.dim())) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    dims = tuple(norm_dim(d, input.dim()) for d in dims)
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"dim appears multiple times in the list of dims {dims}")
    if spacing is None:
        spacing = 1
    if isinstance(spacing, Tensor) and spacing.dim() == 0:
        spacing = spacing.item()
    if isinstance(spacing, Tensor):
        spacing = [spacing]
    if isinstance(spacing, (int, float, complex)):
        spacing = [spacing] * len(dims)
    if len(spacing) != len(dims):
        raise RuntimeError(f"torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to 'dim', got {len(spacing)}")
    coords = [s for s in spacing if isinstance(s, Tensor) and s.dim()]
    static = tuple(None if isinstance(s, Tensor) and s.dim() else s.item() if isinstance(s, Tensor) else s for s in spacing)
    r = _gradient(input if input.dtype.is_floating_point or input.dtype.is_complex else input.to(_float()), coords, static, dims, edge_order)
    return r


def _float():
    from lazy_tensor import dtypes
    return dtypes.get_default_dtype()

"""Reductions: sums, extrema, moments, norms, order statistics."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lazy_tensor.ops._common import check, default_float, is_complex, is_float, is_inexact, norm_dim, norm_dims, real_dtype
from lazy_tensor.ops._define import _write_out, composite, op, publish_method
from lazy_tensor.tensor import Tensor


def _wide(x):
    """Half types are reduced in float32."""
    return x.astype(np.float32) if is_float(x.dtype) and x.dtype.itemsize < 4 else x


def _total(x, dtype):
    if dtype is not None:
        return x.astype(dtype)
    return x.astype(np.int64) if x.dtype.kind in "biu" else x


@op(method=True)
def sum(input: Array, dim: Dims | None = None, keepdim: bool = False, *, dtype: DType | None = None):
    """The sum over dim (all when None); integers and bools give int64 (torch.sum)."""
    x = _total(input, dtype)
    return jnp.sum(_wide(x), axis=norm_dims(dim, x.ndim), keepdims=keepdim).astype(x.dtype)


@op(method=True)
def nansum(input: Array, dim: Dims | None = None, keepdim: bool = False, *, dtype: DType | None = None):
    """The sum over dim, nan counting as 0 (torch.nansum)."""
    check(not is_complex(input.dtype), "nansum does not support complex inputs")
    x = _total(input, dtype)
    x0 = jnp.where(jnp.isnan(x), 0, x) if is_inexact(x.dtype) else x
    return jnp.sum(_wide(x0), axis=norm_dims(dim, x.ndim), keepdims=keepdim).astype(x.dtype)


def _mean_input(x, dtype, name="mean"):
    if dtype is not None:
        x = x.astype(dtype)
    check(is_inexact(x.dtype), f"{name}(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: "
                               f"{x.dtype.name}")
    return x


@op(method=True)
def mean(input: Array, dim: Dims | None = None, keepdim: bool = False, *, dtype: DType | None = None):
    """The mean over dim (all when None) of a floating or complex tensor (torch.mean)."""
    x = _mean_input(input, dtype)
    axes = norm_dims(dim, x.ndim)
    return jnp.mean(_wide(x), axis=axes if x.ndim else None, keepdims=keepdim).astype(x.dtype)


@op(method=True)
def nanmean(input: Array, dim: Dims | None = None, keepdim: bool = False, *, dtype: DType | None = None):
    """The mean over dim of what is not nan (torch.nanmean)."""
    x = _mean_input(input, dtype, "nanmean")
    axes = norm_dims(dim, x.ndim)
    ok = ~jnp.isnan(x)
    s = jnp.sum(_wide(jnp.where(ok, x, 0)), axis=axes, keepdims=keepdim)
    return (s / ok.sum(axis=axes, keepdims=keepdim)).astype(x.dtype)


@op(where=None, name="prod")
def _prod(input: Array, dim: Dims | None, keepdim: bool, dtype: DType | None):
    x = _total(input, dtype)
    axes = tuple(range(x.ndim)) if dim is None else (norm_dim(dim, x.ndim),)
    if not is_inexact(x.dtype):
        return jnp.prod(x, axis=axes if x.ndim else None, keepdims=keepdim)
    r = _wide(x)
    if x.ndim == 0:
        return x
    if dim is None:
        r = _prod_axis(r.reshape(-1), 0)
        return r.astype(x.dtype)
    r = _prod_axis(r, axes[0])
    return (jnp.expand_dims(r, axes[0]) if keepdim else r).astype(x.dtype)


def _prod_axis(x, axis):
    """A product by halving, whose gradient holds with zeros in it."""
    x = jnp.moveaxis(x, axis, -1)
    n = x.shape[-1]
    if n == 0:
        return jnp.ones(x.shape[:-1], x.dtype)
    while n > 1:
        half = n // 2
        y = x[..., :half] * x[..., half:2 * half]
        x = jnp.concatenate([y, x[..., 2 * half:]], -1) if n % 2 else y
        n = x.shape[-1]
    return x[..., 0]


@composite(method=True)
def prod(input, dim=None, keepdim=False, *, dtype=None, out=None):
    """The product over dim (all when None) (torch.prod)."""
    if isinstance(dim, (tuple, list)):
        raise TypeError("prod() received an invalid combination of arguments: dim must be an int")
    r = _prod(input, dim, keepdim, dtype)
    return r if out is None else _write_out("prod", r, out)


def _logic(name, fn, doc):
    def body(input: Array, dim: Dims | None = None, keepdim: bool = False):
        r = fn(input != 0, axis=norm_dims(dim, input.ndim), keepdims=keepdim)
        return r.astype(np.uint8) if input.dtype == np.uint8 else r
    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"Whether {doc} over dim is nonzero; bool (uint8 for uint8) (torch.{name})."
    body.__module__ = __name__
    globals()[name] = op(body, method=True)


_logic("all", jnp.all, "every element")
_logic("any", jnp.any, "some element")


# ------------------------------------------------------------------------------------------- extrema


def _nonempty(x, dims, name):
    for d in dims:
        check(x.ndim == 0 or x.shape[d] > 0, f"{name}(): Expected reduction dim {d} to have non-zero size.", IndexError)


def _even(name, fn):
    """amax and amin: the gradient is shared evenly by ties."""
    reduce = jax.custom_jvp(lambda x, axes: fn(x, axis=axes, keepdims=True), nondiff_argnums=(1,))

    @reduce.defjvp
    def jvp(axes, p, t):
        x, = p
        y = reduce(x, axes)
        hit = (x == y) | (jnp.isnan(x) & jnp.isnan(y))
        w = hit.astype(x.dtype)
        w = w / w.sum(axis=axes, keepdims=True)
        return y, (w * t[0]).sum(axis=axes, keepdims=True)
    return reduce


_amax, _amin = _even("amax", jnp.max), _even("amin", jnp.min)


def _extreme(x, dim, keepdim, which, name):
    check(not is_complex(x.dtype), f"{name} is not implemented for complex")
    if x.ndim == 0:
        if dim is not None:
            norm_dims(dim, 0)
        return x
    axes = norm_dims(dim, x.ndim)
    _nonempty(x, axes, name)
    r = which(x, axes) if is_inexact(x.dtype) else (jnp.max if which is _amax else jnp.min)(x, axis=axes, keepdims=True)
    return r if keepdim else jnp.squeeze(r, axes)


@op(method=True)
def amax(input: Array, dim: Dims = (), keepdim: bool = False):
    """The maximum over dim; ties share the gradient (torch.amax)."""
    return _extreme(input, dim, keepdim, _amax, "amax")


@op(method=True)
def amin(input: Array, dim: Dims = (), keepdim: bool = False):
    """The minimum over dim; ties share the gradient (torch.amin)."""
    return _extreme(input, dim, keepdim, _amin, "amin")


@op(method=True, returns=("min", "max"))
def aminmax(input: Array, *, dim: int | None = None, keepdim: bool = False):
    """(minimum, maximum) over dim (all when None) (torch.aminmax)."""
    if dim is None:
        check(input.size > 0, "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.")
    d = () if dim is None else dim
    lo, hi = _extreme(input, d, keepdim, _amin, "aminmax"), _extreme(input, d, keepdim, _amax, "aminmax")
    return lo, hi


def _take(x, idx, d):
    return jnp.take_along_axis(x, jnp.expand_dims(idx, d), d)


def _with_index(x, dim, keepdim, fn, name):
    check(not is_complex(x.dtype), f"{name}: not implemented for complex")
    d = norm_dim(dim, x.ndim)
    if x.ndim == 0:
        return x, jnp.zeros((), np.int64)
    _nonempty(x, (d,), name)
    idx = fn(lax.stop_gradient(x), axis=d).astype(np.int64)
    v = _take(x, idx, d)
    return (v, jnp.expand_dims(idx, d)) if keepdim else (jnp.squeeze(v, d), idx)


@op(where=None, name="max", returns=("values", "indices"))
def _max_dim(input: Array, dim: int, keepdim: bool = False):
    return _with_index(input, dim, keepdim, jnp.argmax, "max")


@op(where=None, name="min", returns=("values", "indices"))
def _min_dim(input: Array, dim: int, keepdim: bool = False):
    return _with_index(input, dim, keepdim, jnp.argmin, "min")


@op(where=None, name="max")
def _max_all(input: Array):
    check(input.size > 0, "max(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.")
    return _extreme(input, (), False, _amax, "max")


@op(where=None, name="min")
def _min_all(input: Array):
    check(input.size > 0, "min(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.")
    return _extreme(input, (), False, _amin, "min")


def _three_forms(name, whole, along, other_op):
    def call(input, dim=None, keepdim=False, *, other=None, axis=None, keepdims=None, out=None):
        dim = axis if dim is None else dim
        keepdim = keepdim if keepdims is None else keepdims
        if other is None and isinstance(dim, Tensor):
            other = dim
        if other is not None:
            from lazy_tensor.ops import compare
            r = getattr(compare, other_op)(input, other)
        else:
            r = whole(input) if dim is None else along(input, dim, keepdim)
        return r if out is None else _write_out(name, r, out)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = (f"The {name}imum of all elements; (values, indices) along dim; or elementwise of two tensors (torch.{name}).")
    return composite(call, method=True)


max = _three_forms("max", _max_all, _max_dim, "maximum")
min = _three_forms("min", _min_all, _min_dim, "minimum")


def _argextreme(name, fn):
    def body(input: Array, dim: int | None = None, keepdim: bool = False):
        check(not is_complex(input.dtype) and input.dtype != np.bool_, f"{name}: not implemented for {input.dtype.name}")
        if dim is None:
            check(input.size > 0, f"{name}(): Expected reduction dim to be specified for input.numel() == 0.", IndexError)
            r = fn(input.reshape(-1), axis=0).astype(np.int64)
            return r.reshape((1,) * input.ndim) if keepdim else r
        d = norm_dim(dim, input.ndim)
        if input.ndim == 0:
            return jnp.zeros((), np.int64)
        _nonempty(input, (d,), name)
        return fn(input, axis=d, keepdims=keepdim).astype(np.int64)
    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"The index of the {name[3:]}imum over dim (of the flattened tensor when None) (torch.{name})."
    body.__module__ = __name__
    globals()[name] = op(body, method=True, differentiable=False)


_argextreme("argmax", jnp.argmax)
_argextreme("argmin", jnp.argmin)


# ------------------------------------------------------------------------------------------- moments


def _moments(x, dims, correction, keepdim, name):
    check(is_inexact(x.dtype), f"{name} only support floating point and complex dtypes, got {x.dtype.name}")
    axes = norm_dims(dims, x.ndim)
    w = _wide(x)
    n = int(np.prod([x.shape[a] for a in axes])) if x.ndim else 1
    m = jnp.mean(w, axis=axes if x.ndim else None, keepdims=True)
    d = w - m
    sq = jnp.real(d) ** 2 + jnp.imag(d) ** 2 if is_complex(x.dtype) else d * d
    s = jnp.sum(sq, axis=axes if x.ndim else None, keepdims=True)
    den = n - correction
    v = s / den if den > 0 else jnp.where(s == 0, jnp.nan, jnp.inf).astype(s.dtype) if n else s * jnp.nan
    if not keepdim and x.ndim:
        v, m = jnp.squeeze(v, axes), jnp.squeeze(m, axes)
    return v.astype(real_dtype(x.dtype)), m.astype(x.dtype)


@jax.custom_jvp
def _root(v):
    return jnp.sqrt(v)


@_root.defjvp
def _root_jvp(p, t):
    y = _root(p[0])
    return y, jnp.where(y == 0, 0, t[0] / (2 * jnp.where(y == 0, 1, y)))


@op(where=None, name="var")
def _var(input: Array, dim: Dims | None, correction: int | float, keepdim: bool):
    return _moments(input, dim, correction, keepdim, "var")[0]


@op(where=None, name="std")
def _std(input: Array, dim: Dims | None, correction: int | float, keepdim: bool):
    return _root(_moments(input, dim, correction, keepdim, "std")[0])


@op(where=None, name="var_mean")
def _var_mean(input: Array, dim: Dims | None, correction: int | float, keepdim: bool):
    return _moments(input, dim, correction, keepdim, "var_mean")


@op(where=None, name="std_mean")
def _std_mean(input: Array, dim: Dims | None, correction: int | float, keepdim: bool):
    v, m = _moments(input, dim, correction, keepdim, "std_mean")
    return _root(v), m


def _moment(name, fn):
    def call(input, dim=None, unbiased=None, keepdim=False, *, correction=None, axis=None, keepdims=None, out=None):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        dim = axis if dim is None else dim
        keepdim = keepdim if keepdims is None else keepdims
        if correction is None:
            correction = 1 if unbiased is None else int(unbiased)
        r = fn(input, dim, correction, keepdim)
        return r if out is None else _write_out(name, r, out)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"The {name.replace('_', ' and ')} over dim (all when None), with Bessel's correction by default (torch.{name})."
    globals()[name] = composite(call, method=name in ("var", "std"))


for _n, _f in (("var", _var), ("std", _std), ("var_mean", _var_mean), ("std_mean", _std_mean)):
    _moment(_n, _f)


@op(method=True)
def logsumexp(input: Array, dim: Dims, keepdim: bool = False):
    """log sum e^x over dim (torch.logsumexp)."""
    x = input if is_inexact(input.dtype) else input.astype(default_float())
    axes = norm_dims(dim, x.ndim)
    w = _wide(x)
    if x.ndim == 0:
        return x
    if is_complex(x.dtype):
        m = lax.stop_gradient(jnp.max(jnp.real(w), axis=axes, keepdims=True))
        m = jnp.where(jnp.isfinite(m), m, 0)
        r = jnp.log(jnp.sum(jnp.exp(w - m), axis=axes, keepdims=True)) + m
        return r if keepdim else jnp.squeeze(r, axes)
    return jax.nn.logsumexp(w, axis=axes, keepdims=keepdim).astype(x.dtype)


from lazy_tensor.ops._define import publish  # noqa: E402

publish("special.logsumexp", logsumexp)


@op(method=True)
def count_nonzero(input: Array, dim: Dims | None = None):
    """How many elements over dim are not zero; int64 (torch.count_nonzero)."""
    return (input != 0).sum(axis=norm_dims(dim, input.ndim), dtype=np.int64)


# ------------------------------------------------------------------------------------------- norms


@composite(method=True)
def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """The p-norm over dim; "fro" and "nuc" of matrices (torch.norm)."""
    from lazy_tensor.ops import linalg
    if isinstance(p, Tensor):
        p = p.item()
    if p is None:
        p = "fro" if dim is None or isinstance(dim, (tuple, list)) else 2
    if p == "fro":
        r = linalg.vector_norm(input, 2, dim, keepdim, dtype=dtype)
    elif p == "nuc":
        if dim is None and input.dim() != 2:
            raise RuntimeError(f"norm: expected a 2-d tensor for the nuclear norm without dim, got {list(input.shape)}")
        r = linalg.matrix_norm(input, "nuc", (0, 1) if dim is None else tuple(dim), keepdim, dtype=dtype)
    elif isinstance(p, str):
        raise RuntimeError(f"only valid string values are 'fro' and 'nuc', found {p}")
    else:
        r = linalg.vector_norm(input, p, dim, keepdim, dtype=dtype)
    return r if out is None else _write_out("norm", r, out)


@op(method=True, promote=("input", "other"))
def dist(input: Array, other: Array, p: float = 2):
    """The p-norm of input - other (torch.dist)."""
    from lazy_tensor.ops.linalg import _vector_norm
    d = input - other
    return _vector_norm(d, float(p), tuple(range(d.ndim)), False)


@op(method=True, inplace=True)
def renorm(input: Array, p: float, dim: int, maxnorm: float):
    """Sub-tensors along dim scaled down to p-norm at most maxnorm (torch.renorm)."""
    from lazy_tensor.ops.linalg import _vector_norm
    check(p > 0, "renorm: non-positive-norm not supported")
    check(input.ndim > 1, f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    check(maxnorm >= 0, f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    d = norm_dim(dim, input.ndim)
    axes = tuple(a for a in range(input.ndim) if a != d)
    n = _vector_norm(_wide(input), float(p), axes, True)
    scale = jnp.where(n > maxnorm, maxnorm / (n + 1e-7), 1)
    return (input * scale.astype(real_dtype(input.dtype))).astype(input.dtype)


# ------------------------------------------------------------------------------------------- order statistics


def _at(x, idx, d, keepdim):
    v = _take(x, idx, d)
    i = jnp.expand_dims(idx, d).astype(np.int64)
    return (v, i) if keepdim else (jnp.squeeze(v, d), jnp.squeeze(i, d))


def _median(x, d, keepdim, ignore_nan):
    if x.ndim == 0:
        return x, jnp.zeros((), np.int64)
    check(x.shape[d] > 0, f"median(): Expected reduction dim {d} to have non-zero size.", IndexError)
    s = lax.stop_gradient(x)
    order = jnp.argsort(s, axis=d, stable=True)
    n = x.shape[d]
    if is_inexact(x.dtype):
        bad = jnp.isnan(s)
        if ignore_nan:
            count = (~bad).sum(d)
            k = jnp.maximum((count - 1) // 2, 0)
        else:
            k = jnp.where(bad.any(d), n - bad.sum(d), (n - 1) // 2)
    else:
        k = jnp.full([m for a, m in enumerate(x.shape) if a != d], (n - 1) // 2)
    idx = jnp.squeeze(jnp.take_along_axis(order, jnp.expand_dims(k, d), d), d)
    return _at(x, idx, d, keepdim)


@op(where=None, name="median", returns=("values", "indices"))
def _median_dim(input: Array, dim: int, keepdim: bool, ignore_nan: bool):
    return _median(input, norm_dim(dim, input.ndim), keepdim, ignore_nan)


@op(where=None, name="median")
def _median_all(input: Array, ignore_nan: bool):
    if input.size == 0:
        return jnp.full((), jnp.nan, input.dtype)
    return _median(input.reshape(-1), 0, False, ignore_nan)[0]


def _medians(name, ignore_nan):
    def call(input, dim=None, keepdim=False, *, out=None):
        if input.dtype.is_complex:
            raise RuntimeError(f"{name}(): not implemented for complex")
        r = _median_all(input, ignore_nan) if dim is None else _median_dim(input, dim, keepdim, ignore_nan)
        return r if out is None else _write_out(name, r, out)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"The (lower) median of all elements, or (values, indices) along dim (torch.{name})."
    globals()[name] = composite(call, method=True)


_medians("median", False)
_medians("nanmedian", True)


@op(method=True, returns=("values", "indices"))
def mode(input: Array, dim: int = -1, keepdim: bool = False):
    """(most frequent value, index of its last occurrence) along dim; the smallest among equals (torch.mode)."""
    x = input
    d = norm_dim(dim, x.ndim)
    if x.ndim == 0:
        return x, jnp.zeros((), np.int64)
    check(x.shape[d] > 0, f"mode(): Expected reduction dim {d} to have non-zero size.", IndexError)
    m = jnp.moveaxis(lax.stop_gradient(x), d, -1)
    count = (m[..., :, None] == m[..., None, :]).sum(-1)
    best = count == count.max(-1, keepdims=True)
    low = jnp.where(best, m, _top(m.dtype)).min(-1, keepdims=True)
    hit = m == low
    n = m.shape[-1]
    idx = n - 1 - jnp.argmax(hit[..., ::-1], -1)
    return _at(x, idx, d, keepdim)


def _top(dtype):
    return jnp.inf if is_float(dtype) else True if dtype == np.bool_ else np.iinfo(dtype).max


@op(method=True, returns=("values", "indices"))
def kthvalue(input: Array, k: int, dim: int = -1, keepdim: bool = False):
    """(k-th smallest value, its index) along dim (torch.kthvalue)."""
    x = input
    check(not is_complex(x.dtype), "kthvalue: not implemented for complex")
    d = norm_dim(dim, x.ndim)
    n = x.shape[d] if x.ndim else 1
    check(1 <= k <= n, "kthvalue(): selected number k out of range for dimension " + str(d))
    if x.ndim == 0:
        return x, jnp.zeros((), np.int64)
    order = jnp.argsort(lax.stop_gradient(x), axis=d, stable=True)
    return _at(x, jnp.take(order, k - 1, axis=d), d, keepdim)


@op(where=None, name="quantile")
def _quantile(input: Array, q: Array, dim: int | None, keepdim: bool, interpolation: str, ignore_nan: bool):
    x = input
    check(x.dtype in (np.float32, np.float64), f"quantile() input tensor must be either float or double dtype, got {x.dtype.name}")
    check(q.dtype == x.dtype, "quantile() q tensor must be same dtype as the input tensor")
    check(q.ndim <= 1, f"quantile() q must be a scalar or 1D tensor, but got {q.ndim}D")
    check(x.size > 0, "quantile() input tensor must be non-empty")
    ndim = x.ndim
    if dim is None:
        m, d = x.reshape(-1), 0
    else:
        d = norm_dim(dim, ndim)
        m = jnp.moveaxis(x, d, -1) if ndim else x.reshape(1)
    s = jnp.sort(m, -1)
    n = m.shape[-1]
    bad = jnp.isnan(m)
    count = (~bad).sum(-1, keepdims=True) if ignore_nan else jnp.full((*m.shape[:-1], 1), n)
    rank = q.reshape(-1) * jnp.maximum(count - 1, 0).astype(x.dtype)
    if not ignore_nan:
        rank = jnp.where(bad.any(-1, keepdims=True), n - 1, rank).astype(x.dtype)
    if interpolation == "lower":
        rank = jnp.floor(rank)
    elif interpolation == "higher":
        rank = jnp.ceil(rank)
    elif interpolation == "nearest":
        rank = jnp.round(rank)
    lo = jnp.floor(rank)
    w = rank - lo
    if interpolation == "midpoint":
        w = jnp.where(w > 0, 0.5, 0).astype(x.dtype)
    a = jnp.take_along_axis(s, jnp.clip(lo.astype(np.int64), 0, n - 1), -1)
    b = jnp.take_along_axis(s, jnp.clip(jnp.ceil(rank).astype(np.int64), 0, n - 1), -1)
    r = jnp.where(w == 0, a, a + w * (b - a))
    r = jnp.moveaxis(r, -1, 0)
    if keepdim:
        r = r.reshape((r.shape[0],) + (1,) * ndim) if dim is None else jnp.expand_dims(r, d + 1)
    return r[0] if q.ndim == 0 else r


def _quantiles(name, ignore_nan):
    def call(input, q, dim=None, keepdim=False, *, interpolation="linear", out=None):
        if not isinstance(q, Tensor):
            if not 0 <= q <= 1:
                raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
            from lazy_tensor import creation
            q = creation.tensor(q, dtype=input.dtype, device=input.device)
        if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
            raise RuntimeError(f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}")
        r = _quantile(input, q, dim, keepdim, interpolation, ignore_nan)
        return r if out is None else _write_out(name, r, out)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"The q-th quantiles over dim (all when None) (torch.{name})."
    globals()[name] = composite(call, method=True)


_quantiles("quantile", False)
_quantiles("nanquantile", True)

publish_method("nanmean", nanmean)

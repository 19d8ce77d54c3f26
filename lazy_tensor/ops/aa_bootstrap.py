"""TEMPORARY (lead): minimal ops so that other layers can be tried; each is overridden when its real family file lands."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import default_float, norm_dim, norm_dims
from lazy_tensor.ops._define import composite, op


def unary(name, fn, promote=None):
    def body(input: Array):
        return fn(input)
    body.__name__ = name
    op(body, promote=promote, method=True, inplace=True)


for n, f in dict(exp=jnp.exp, log=jnp.log, sqrt=jnp.sqrt, rsqrt=jax.lax.rsqrt, sin=jnp.sin, cos=jnp.cos, tanh=jnp.tanh,
                 sigmoid=jax.nn.sigmoid, erf=jax.scipy.special.erf, reciprocal=lambda x: 1 / x).items():
    unary(n, f, "float")
for n, f in dict(neg=jnp.negative, abs=jnp.abs, sign=jnp.sign, floor=jnp.floor, ceil=jnp.ceil, round=jnp.round, relu=jax.nn.relu,
                 square=jnp.square, isnan=jnp.isnan, isinf=jnp.isinf, isfinite=jnp.isfinite, bitwise_not=jnp.invert,
                 logical_not=jnp.logical_not, real=jnp.real, imag=jnp.imag).items():
    unary(n, f)


def _a(alpha, x):
    return x if isinstance(alpha, int) and alpha == 1 else x * jnp.asarray(alpha).astype(x.dtype)


@op(promote=True, method=True, inplace=True)
def add(input: Array | Scalar, other: Array | Scalar, *, alpha: Scalar = 1):
    return jnp.logical_or(input, other) if input.dtype == np.bool_ else input + _a(alpha, other)


@op(promote=True, method=True, inplace=True)
def sub(input: Array | Scalar, other: Array | Scalar, *, alpha: Scalar = 1):
    return input - _a(alpha, other)


def binary(name, fn, promote=True):
    def body(input: Array | Scalar, other: Array | Scalar):
        return fn(input, other)
    body.__name__ = name
    op(body, promote=promote, method=True, inplace=True)


for n, f in dict(mul=jnp.multiply, maximum=jnp.maximum, minimum=jnp.minimum, remainder=jnp.remainder, floor_divide=jnp.floor_divide,
                 bitwise_and=jnp.bitwise_and, bitwise_or=jnp.bitwise_or, bitwise_xor=jnp.bitwise_xor).items():
    binary(n, f)
binary("div", jnp.divide, "float")
for n, f in dict(eq=jnp.equal, ne=jnp.not_equal, lt=jnp.less, le=jnp.less_equal, gt=jnp.greater, ge=jnp.greater_equal).items():
    binary(n, f, "compare")


@op(where=None, promote=True)
def _pow_t(input: Array | Scalar, exponent: Array | Scalar):
    return jnp.power(input, exponent)


@op(where=None)
def _pow_s(input: Array, exponent: float):
    if isinstance(exponent, float) and exponent == 0.5:
        return jnp.sqrt(input)
    return jnp.power(input, exponent) if not isinstance(exponent, int) else jax.lax.integer_pow(input, exponent)


@composite(method=True, inplace=True)
def pow(input, exponent):
    if isinstance(exponent, (int, float)) and not isinstance(input, (int, float)):
        return _pow_s(input, exponent)
    return _pow_t(input, exponent)


@op(method=True)
def matmul(input: Array, other: Array):
    return jnp.matmul(input, other)


op(matmul.__wrapped_op__.body, name="mm", method=True)
op(matmul.__wrapped_op__.body, name="bmm", method=True)


@op(method=True)
def sum(input: Array, dim: Dims | None = None, keepdim: bool = False, *, dtype: DType | None = None):
    if dtype is not None:
        input = input.astype(dtype)
    elif input.dtype.kind in "biu":
        input = input.astype(np.int64)
    return jnp.sum(input, axis=norm_dims(dim, input.ndim), keepdims=keepdim)


@op(method=True)
def mean(input: Array, dim: Dims | None = None, keepdim: bool = False, *, dtype: DType | None = None):
    return jnp.mean(input if dtype is None else input.astype(dtype), axis=norm_dims(dim, input.ndim), keepdims=keepdim)


@op(method=True)
def all(input: Array, dim: Dims | None = None, keepdim: bool = False):
    return jnp.all(input, axis=norm_dims(dim, input.ndim), keepdims=keepdim)


@op(method=True)
def any(input: Array, dim: Dims | None = None, keepdim: bool = False):
    return jnp.any(input, axis=norm_dims(dim, input.ndim), keepdims=keepdim)


@op(method=True, differentiable=False)
def argmax(input: Array, dim: int | None = None, keepdim: bool = False):
    return jnp.argmax(input, axis=dim, keepdims=keepdim).astype(np.int64)


@op(where=None, returns=("values", "indices"))
def _max_dim(input: Array, dim: int, keepdim: bool = False):
    return jnp.max(input, dim, keepdims=keepdim), jnp.argmax(input, dim, keepdims=keepdim).astype(np.int64)


@op(where=None)
def _max_all(input: Array):
    return jnp.max(input)


@composite(method=True)
def max(input, dim=None, keepdim=False):
    return _max_all(input) if dim is None else _max_dim(input, dim, keepdim)


@op(method=True)
def softmax(input: Array, dim: int, dtype: DType | None = None):
    return jax.nn.softmax(input, dim)


@op(method=True)
def log_softmax(input: Array, dim: int, dtype: DType | None = None):
    return jax.nn.log_softmax(input, dim)


@op(method=True)
def cumsum(input: Array, dim: int, *, dtype: DType | None = None):
    return jnp.cumsum(input, dim)


@op(method=True, view=True)
def transpose(input: Array, dim0: int, dim1: int):
    return jnp.swapaxes(input, dim0, dim1)


@op(method=True, view=True)
def t(input: Array):
    return input.T


@op(method=True, view=True)
def permute(input: Array, dims: Size):
    return jnp.transpose(input, dims)


@op(method=True, view=True, host=lambda input, shape: input.reshape(shape))
def view(input: Array, shape: Size):
    return jnp.reshape(input, shape)


@op(method=True, view=True, host=lambda input, shape: input.reshape(shape))
def reshape(input: Array, shape: Size):
    return jnp.reshape(input, shape)


@op(method=True, view=True)
def flatten(input: Array, start_dim: int = 0, end_dim: int = -1):
    s, e = norm_dim(start_dim, input.ndim), norm_dim(end_dim, input.ndim)
    return input.reshape((*input.shape[:s], -1, *input.shape[e + 1:]))


@op(method=True, view=True)
def unsqueeze(input: Array, dim: int):
    return jnp.expand_dims(input, dim)


@op(method=True, view=True)
def squeeze(input: Array, dim: Dims | None = None):
    return jnp.squeeze(input, dim)


@op(method=True, view=True)
def expand(input: Array, size: Size):
    size = tuple(d if n == -1 else n for n, d in zip(size, (1,) * (len(size) - input.ndim) + input.shape))
    return jnp.broadcast_to(input, size)


@op(method=True, view=True, host=lambda input, dim=0: tuple(np.moveaxis(input, dim, 0)))
def unbind(input: Array, dim: int = 0):
    return tuple(jnp.moveaxis(input, dim, 0))


@op(host=lambda tensors, dim: np.stack(tensors, dim))
def stack(tensors: Arrays, dim: int = 0):
    return jnp.stack(tensors, dim)


@op(host=lambda tensors, dim: np.concatenate(tensors, dim))
def cat(tensors: Arrays, dim: int = 0):
    return jnp.concatenate(tensors, dim)


@op(promote=("input", "other"))
def where(condition: Array, input: Array | Scalar, other: Array | Scalar):
    return jnp.where(condition, input, other)


@op(method=True, inplace=True)
def masked_fill(input: Array, mask: Array, value: Array | Scalar):
    return jnp.where(mask, value.astype(input.dtype), input)


@op(where=None, creation=True, host=lambda size, value, dtype: np.full(size, value).astype(dtype))
def _full(size: Dims, value: Scalar, dtype: DType):
    return jnp.full(size, value).astype(dtype)


def _maker(name, value):
    def make(*size, dtype=None, device=None, requires_grad=False, **kw):
        size = kw.pop("size", size)
        if len(size) == 1 and not isinstance(size[0], int):
            size = tuple(size[0])
        from lazy_tensor import dtypes
        r = _full(size, value, dtypes.of(default_float()) if dtype is None else dtype, device=device)
        return r.requires_grad_(True) if requires_grad else r
    make.__name__ = name
    composite(make)

    def like(input, *, dtype=None, device=None, requires_grad=False, memory_format=None):
        return make(tuple(input.shape), dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad)
    like.__name__ = name + "_like"
    composite(like)


for n, v in dict(zeros=0, ones=1, empty=0).items():
    _maker(n, v)


@op(where=None, creation=True, host=lambda start, end, step, dtype: np.arange(start, end, step).astype(dtype))
def _arange(start: int, end: int, step: int, dtype: DType):
    return jnp.arange(start, end, step).astype(dtype)


@composite
def arange(start, end=None, step=1, *, dtype=None, device=None, requires_grad=False):
    from lazy_tensor import dtypes
    if end is None:
        start, end = 0, start
    return _arange(start, end, step, dtype or dtypes.names["int64"], device=device)


@op(where=None, creation=True)
def _uniform(size: Dims, low: Scalar, high: Scalar, dtype: DType, *, key: Key):
    u = jax.random.uniform(key, size, np.float32 if dtype.itemsize < 4 else dtype)
    return (low.astype(u.dtype) + u * (high - low).astype(u.dtype)).astype(dtype)


@op(where=None, creation=True)
def _normal(size: Dims, mean: Scalar, std: Scalar, dtype: DType, *, key: Key):
    u = jax.random.normal(key, size, np.float32 if dtype.itemsize < 4 else dtype)
    return (mean.astype(u.dtype) + u * std.astype(u.dtype)).astype(dtype)


def _fills():
    from lazy_tensor import dtypes
    from lazy_tensor.ops._define import check_inplace, publish, publish_method
    from lazy_tensor.tensor import assign_

    def uniform_(self, a=0.0, b=1.0, *, generator=None):
        check_inplace(self, "uniform_")
        return assign_(self, _uniform(tuple(self.shape), float(a), float(b), self.dtype, generator=generator, device=self.device), "uniform_")

    def normal_(self, mean=0.0, std=1.0, *, generator=None):
        check_inplace(self, "normal_")
        return assign_(self, _normal(tuple(self.shape), float(mean), float(std), self.dtype, generator=generator, device=self.device), "normal_")
    publish_method("uniform_", uniform_)
    publish_method("normal_", normal_)

    def randn(*size, generator=None, dtype=None, device=None, requires_grad=False):
        size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
        r = _normal(size, 0.0, 1.0, dtype or dtypes.get_default_dtype(), generator=generator, device=device)
        return r.requires_grad_(True) if requires_grad else r

    def rand(*size, generator=None, dtype=None, device=None, requires_grad=False):
        size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
        r = _uniform(size, 0.0, 1.0, dtype or dtypes.get_default_dtype(), generator=generator, device=device)
        return r.requires_grad_(True) if requires_grad else r
    publish("randn", randn)
    publish("rand", rand)


_fills()


@op(where="nn.functional")
def linear(input: Array, weight: Array, bias: Array | None = None):
    r = input @ weight.T
    return r if bias is None else r + bias

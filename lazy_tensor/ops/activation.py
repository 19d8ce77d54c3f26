"""Activation functions. Half types are computed in float32, as torch does; `inplace=True` writes to the input."""
from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import check, is_bool, norm_dim
from lazy_tensor.ops._define import composite, op, publish
from lazy_tensor.ops._nn import float_only, p_norm, wide, write

NN = "nn.functional"
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


# ------------------------------------------------------------------------------------------- rectifiers


@op(method=True, inplace=True, out=False)
def relu(input: Array):
    """max(input, 0), elementwise; the gradient at 0 is 0. Any real dtype (torch.relu)."""
    check(not is_bool(input.dtype) and not jnp.iscomplexobj(input),
          f"relu: boolean and complex inputs are not supported, got {input.dtype.name}{list(input.shape)}")
    return jax.nn.relu(input)


@composite(where=NN, name="relu")
def _relu(input, inplace=False):
    """max(input, 0), elementwise (torch.nn.functional.relu)."""
    return write(input, relu(input), "relu_") if inplace else relu(input)


@op(where=None, name="hardtanh")
def _hardtanh(input: Array, min_val: Scalar = -1.0, max_val: Scalar = 1.0):
    lo, hi = jnp.asarray(min_val).astype(input.dtype), jnp.asarray(max_val).astype(input.dtype)
    return jnp.where(input <= lo, lo, jnp.where(input >= hi, hi, input))


@composite(where=NN)
def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """input clipped to [min_val, max_val]; the gradient is 0 at and beyond the bounds (torch.nn.functional.hardtanh).

    Raises ValueError if min_val > max_val."""
    check(min_val <= max_val, f"hardtanh: min_val cannot be greater than max_val, got {min_val} and {max_val}", ValueError)
    check(input.dtype.np != np.bool_, "hardtanh: not implemented for 'Bool'", NotImplementedError)
    r = _hardtanh(input, min_val, max_val)
    return write(input, r, "hardtanh_") if inplace else r


@composite(where=NN)
def relu6(input, inplace=False):
    """min(max(input, 0), 6), elementwise (torch.nn.functional.relu6)."""
    check(input.dtype.np != np.bool_, "relu6: not implemented for 'Bool'", NotImplementedError)
    r = _hardtanh(input, 0.0, 6.0)
    return write(input, r, "relu6_") if inplace else r


@op(where=None, name="leaky_relu")
def _leaky_relu(input: Array, negative_slope: Scalar = 0.01):
    float_only("leaky_relu", input)
    x = wide(input)
    return jnp.where(x > 0, x, x * negative_slope).astype(input.dtype)


@composite(where=NN)
def leaky_relu(input, negative_slope=0.01, inplace=False):
    """input where it is positive, negative_slope * input elsewhere (torch.nn.functional.leaky_relu)."""
    r = _leaky_relu(input, negative_slope)
    return write(input, r, "leaky_relu_") if inplace else r


@op(where=None, name="threshold")
def _threshold(input: Array, threshold: Scalar, value: Scalar):
    check(not jnp.iscomplexobj(input) and not is_bool(input.dtype),
          f"threshold: not implemented for {input.dtype.name}", NotImplementedError)
    return jnp.where(input <= threshold, value.astype(input.dtype), input)


@composite(where=NN, alias=("threshold",))
def threshold(input, threshold, value, inplace=False):
    """input where it is above the threshold, `value` elsewhere (torch.nn.functional.threshold)."""
    r = _threshold(input, threshold, value)
    return write(input, r, "threshold_") if inplace else r


@op(where=NN, alias=("prelu",), method=True)
def prelu(input: Array, weight: Array):
    """input where positive, weight * input elsewhere; weight has 1 element or one for each channel (dimension 1).

    Raises RuntimeError when the sizes differ (torch.nn.functional.prelu)."""
    float_only("prelu", input)
    check(input.dtype == weight.dtype, f"prelu: Type promoting not supported. Got {input.dtype.name} and {weight.dtype.name}")
    check(weight.ndim <= 1, f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    if weight.size != 1:
        check(input.ndim > 0, "prelu: Not allow zero-dim input tensor.")
        channels = input.shape[1] if input.ndim > 1 else 1
        check(channels == weight.size, f"prelu: Mismatch of parameter numbers and input channel size. Found parameter numbers = "
              f"{weight.size} and channel size = {channels}.")
        weight = weight.reshape((1, -1) + (1,) * (input.ndim - 2)) if input.ndim > 1 else weight
    else:
        weight = weight.reshape(())
    x, w = wide(input), wide(weight)
    return jnp.where(x > 0, x, x * w).astype(input.dtype)


@op(where=None, name="rrelu")
def _rrelu(input: Array, lower: float, upper: float, training: bool, *, key: Key | None):
    float_only("rrelu", input)
    x = wide(input)
    if key is None:
        slope = (lower + upper) / 2
    else:
        slope = jax.random.uniform(key, x.shape, x.dtype, lower, upper) if lower < upper else lower
    return jnp.where(x > 0, x, x * slope).astype(input.dtype)


@composite(where=NN, alias=("rrelu",))
def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """Leaky ReLU with a random slope in [lower, upper] for each element in training, their mean otherwise.

    (torch.nn.functional.rrelu)"""
    check(lower <= upper, f"rrelu: Lower bound should be less than or equal to the upper bound, got {lower} and {upper}")
    r = _rrelu(input, float(lower), float(upper), bool(training))
    return write(input, r, "rrelu_") if inplace else r


# ------------------------------------------------------------------------------------------- exponential units


def _elu_body(x, alpha, scale=1.0, input_scale=1.0):
    below = jnp.where(x > 0, 0.0, x)
    return jnp.where(x > 0, x * scale, jnp.expm1(below * input_scale) * (alpha * scale))


@op(where=None, name="elu")
def _elu(input: Array, alpha: Scalar = 1.0):
    float_only("elu", input)
    return _elu_body(wide(input), alpha).astype(input.dtype)


@composite(where=NN)
def elu(input, alpha=1.0, inplace=False):
    """input where positive, alpha * (exp(input) - 1) elsewhere (torch.nn.functional.elu)."""
    r = _elu(input, alpha)
    return write(input, r, "elu_") if inplace else r


@op(where=None, name="selu")
def _selu(input: Array):
    float_only("selu", input)
    return _elu_body(wide(input), _SELU_ALPHA, _SELU_SCALE).astype(input.dtype)


@composite(where=NN, alias=("selu",))
def selu(input, inplace=False):
    """scale * elu(input, alpha) with the constants of self-normalizing networks (torch.nn.functional.selu)."""
    r = _selu(input)
    return write(input, r, "selu_") if inplace else r


@op(where=None, name="celu")
def _celu(input: Array, alpha: float = 1.0):
    float_only("celu", input)
    return _elu_body(wide(input), alpha, 1.0, 1.0 / alpha).astype(input.dtype)


@composite(where=NN, alias=("celu",))
def celu(input, alpha=1.0, inplace=False):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)); RuntimeError for alpha 0 (torch.nn.functional.celu)."""
    check(alpha != 0, "celu: ZeroDivisionError: alpha cannot be 0 for CELU")
    r = _celu(input, float(alpha))
    return write(input, r, "celu_") if inplace else r


# ------------------------------------------------------------------------------------------- smooth units


@op(where=NN, out=True)
def gelu(input: Array, *, approximate: str = "none"):
    """x * Phi(x), Phi the normal distribution function; `approximate="tanh"` its tanh form (torch.nn.functional.gelu)."""
    float_only("gelu", input)
    check(approximate in ("none", "tanh"), f"gelu: approximate argument must be either none or tanh, got {approximate!r}")
    x = wide(input)
    if approximate == "tanh":
        return jax.nn.gelu(x, approximate=True).astype(input.dtype)
    return (x * 0.5 * (1.0 + jax.lax.erf(x * 0.7071067811865476))).astype(input.dtype)


@op(where=None, name="silu")
def _silu(input: Array):
    float_only("silu", input, complex_ok=True)
    x = wide(input)
    return (x * jax.nn.sigmoid(x)).astype(input.dtype)


@composite(where=NN)
def silu(input, inplace=False):
    """x * sigmoid(x), elementwise (torch.nn.functional.silu)."""
    r = _silu(input)
    return write(input, r, "silu_") if inplace else r


@op(where=None, name="mish")
def _mish(input: Array):
    float_only("mish", input)
    x = wide(input)
    return (x * jnp.tanh(jnp.logaddexp(x, 0.0))).astype(input.dtype)


@composite(where=NN)
def mish(input, inplace=False):
    """x * tanh(softplus(x)), elementwise (torch.nn.functional.mish)."""
    r = _mish(input)
    return write(input, r, "mish_") if inplace else r


@op(where=None, name="hardswish")
def _hardswish(input: Array):
    float_only("hardswish", input)
    x = wide(input)
    return jnp.where(x <= -3, 0.0, jnp.where(x >= 3, x, x * (x + 3) / 6)).astype(input.dtype)


@composite(where=NN)
def hardswish(input, inplace=False):
    """x * relu6(x + 3) / 6, elementwise (torch.nn.functional.hardswish)."""
    r = _hardswish(input)
    return write(input, r, "hardswish_") if inplace else r


@op(where=None, name="hardsigmoid")
def _hardsigmoid(input: Array):
    float_only("hardsigmoid", input)
    x = wide(input)
    return jnp.where(x <= -3, 0.0, jnp.where(x >= 3, 1.0, (x + 3) / 6)).astype(input.dtype)


@composite(where=NN)
def hardsigmoid(input, inplace=False):
    """relu6(x + 3) / 6, elementwise (torch.nn.functional.hardsigmoid)."""
    r = _hardsigmoid(input)
    return write(input, r, "hardsigmoid_") if inplace else r


@op(where=NN, out=True)
def softplus(input: Array, beta: Scalar = 1.0, threshold: Scalar = 20.0):
    """log(1 + exp(beta x)) / beta, and x where beta x > threshold (torch.nn.functional.softplus)."""
    float_only("softplus", input)
    x = wide(input)
    z = x * beta
    linear = z > threshold
    return jnp.where(linear, x, jnp.log1p(jnp.exp(jnp.where(linear, 0.0, z))) / beta).astype(input.dtype)


@op(where=NN)
def softsign(input: Array):
    """x / (1 + |x|), elementwise (torch.nn.functional.softsign)."""
    x = wide(input)
    r = x / (1 + jnp.abs(x))
    return r.astype(input.dtype) if jnp.issubdtype(input.dtype, np.inexact) else r.astype(np.float32)


@op(where=NN)
def tanhshrink(input: Array):
    """x - tanh(x), elementwise (torch.nn.functional.tanhshrink)."""
    x = wide(input) if jnp.issubdtype(input.dtype, np.inexact) else input.astype(np.float32)
    return (x - jnp.tanh(x)).astype(input.dtype if jnp.issubdtype(input.dtype, np.inexact) else x.dtype)


@op(where=NN, alias=("hardshrink",), method=True, out=True)
def hardshrink(input: Array, lambd: Scalar = 0.5):
    """0 where |x| <= lambd, x elsewhere (torch.nn.functional.hardshrink)."""
    float_only("hardshrink", input)
    x = wide(input)
    return jnp.where((x >= -lambd) & (x <= lambd), 0.0, x).astype(input.dtype)


@op(where=NN, out=True)
def softshrink(input: Array, lambd: float = 0.5):
    """x moved towards 0 by lambd, 0 within; RuntimeError for a negative lambd (torch.nn.functional.softshrink)."""
    float_only("softshrink", input)
    check(lambd >= 0, f"softshrink: lambda must be greater or equal to 0, but found to be {lambd}.")
    x = wide(input)
    return jnp.where(x > lambd, x - lambd, jnp.where(x < -lambd, x + lambd, x * 0.0)).astype(input.dtype)


@op(where=NN, out=True)
def logsigmoid(input: Array):
    """log(sigmoid(x)), elementwise and without overflow (torch.nn.functional.logsigmoid)."""
    float_only("logsigmoid", input)
    return jax.nn.log_sigmoid(wide(input)).astype(input.dtype)


@op(where=NN)
def glu(input: Array, dim: int = -1):
    """The first half of `dim` times the sigmoid of the second; RuntimeError for an odd size (torch.nn.functional.glu)."""
    check(input.ndim > 0, "glu does not support 0-dimensional tensors")
    float_only("glu", input)
    d = norm_dim(dim, input.ndim)
    check(input.shape[d] % 2 == 0, f"glu: Halving dimension must be even, but dimension {d} is size {input.shape[d]}")
    a, b = jnp.split(wide(input), 2, d)
    return (a * jax.nn.sigmoid(b)).astype(input.dtype)


# ------------------------------------------------------------------------------------------- softmax


def _softmax_input(name, input, dim, dtype):
    d = norm_dim(dim, input.ndim)
    out = np.dtype(dtype) if dtype is not None else input.dtype
    x = input.astype(dtype) if dtype is not None else input
    float_only(name, x)
    return d, out, wide(x)


def _softmax_body(x, d):
    return jax.nn.softmax(x, d) if x.ndim else jnp.exp(x - x)


def _log_softmax_body(x, d):
    return jax.nn.log_softmax(x, d) if x.ndim else x - x


@op(method=True, alias=("special.softmax",))
def softmax(input: Array, dim: int, dtype: DType | None = None):
    """exp(x) / sum(exp(x)) along a dimension; `dtype` casts the input first (torch.softmax)."""
    d, out, x = _softmax_input("softmax", input, dim, dtype)
    return _softmax_body(x, d).astype(out)


@op(method=True, alias=("special.log_softmax",))
def log_softmax(input: Array, dim: int, dtype: DType | None = None):
    """x - log(sum(exp(x))) along a dimension; `dtype` casts the input first (torch.log_softmax)."""
    d, out, x = _softmax_input("log_softmax", input, dim, dtype)
    return _log_softmax_body(x, d).astype(out)


@op(where=None, name="softmin")
def _softmin(input: Array, dim: int, dtype: DType | None = None):
    d, out, x = _softmax_input("softmin", input, dim, dtype)
    return _softmax_body(-x, d).astype(out)


def _implicit(name, input, dim):
    if dim is not None:
        return dim
    warnings.warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
                  stacklevel=4)
    return 0 if input.dim() in (0, 1, 3) else 1


@composite(where=NN, name="softmax")
def _f_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(x) / sum(exp(x)) along a dimension (torch.nn.functional.softmax)."""
    return softmax(input, _implicit("softmax", input, dim), dtype)


@composite(where=NN, name="log_softmax")
def _f_log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """x - log(sum(exp(x))) along a dimension (torch.nn.functional.log_softmax)."""
    return log_softmax(input, _implicit("log_softmax", input, dim), dtype)


@composite(where=NN)
def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """softmax of -input along a dimension (torch.nn.functional.softmin)."""
    return _softmin(input, _implicit("softmin", input, dim), dtype)


@op(where=NN)
def gumbel_softmax(logits: Array, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1, *, key: Key):
    """A sample of the Gumbel-softmax distribution; `hard`: one-hot with the soft sample's gradient.

    (torch.nn.functional.gumbel_softmax; Jang et al., arXiv:1611.01144)"""
    float_only("gumbel_softmax", logits)
    d = norm_dim(dim, logits.ndim)
    x = wide(logits)
    soft = _softmax_body((x + jax.random.gumbel(key, x.shape, x.dtype)) / tau, d)
    if hard:
        one = jax.nn.one_hot(jnp.argmax(soft, d), soft.shape[d], dtype=soft.dtype, axis=d) if soft.ndim else jnp.ones_like(soft)
        soft = one - jax.lax.stop_gradient(soft) + soft
    return soft.astype(logits.dtype)


@op(where=None, name="normalize")
def _normalize(input: Array, p: float, dim: Dims, eps: float):
    float_only("normalize", input, complex_ok=True)
    dims = tuple(norm_dim(d, input.ndim) for d in (dim if isinstance(dim, tuple) else (dim,)))
    x = wide(input)
    n = p_norm(x, p, dims if input.ndim else (), True)
    return (x / jnp.where(n < eps, eps, n)).astype(input.dtype)


@composite(where=NN)
def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """input / max(||input||_p, eps) along dim (torch.nn.functional.normalize)."""
    r = _normalize(input, float(p), dim, float(eps))
    if out is None:
        return r
    from lazy_tensor.ops._define import _write_out
    return _write_out("normalize", r, out)


def _in_place_forms():
    """torch's `relu_`, `elu_`, ... : the functions with inplace=True."""
    forms = {"relu_": _relu, "hardtanh_": hardtanh, "leaky_relu_": leaky_relu, "threshold_": threshold, "rrelu_": rrelu,
             "elu_": elu, "selu_": selu, "celu_": celu}
    for name, fn in forms.items():
        def call(input, *args, _fn=fn, **kw):
            return _fn(input, *args, **kw, inplace=True)
        call.__name__ = name
        call.__doc__ = f"In-place {name[:-1]}: writes the result to input and returns it."
        publish(f"{NN}.{name}", call)
        if name in ("relu_", "threshold_", "rrelu_", "selu_", "celu_"):
            publish(name, call)


_in_place_forms()

"""Normalization layers' functions. Statistics of half types are computed and returned in float32."""
from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import check, is_float
from lazy_tensor.ops._define import composite, op
from lazy_tensor.ops._nn import float_only, wide

NN = "nn.functional"


def _channels(v, ndim):
    return v.reshape((1, -1) + (1,) * (ndim - 2))


def _moments(x, axes, keepdims=False):
    """(mean, biased variance)."""
    mean = jnp.mean(x, axes, keepdims=True)
    var = jnp.mean((x - mean) ** 2, axes, keepdims=keepdims)
    return (mean if keepdims else jnp.squeeze(mean, axes)), var


def _running(old, new, momentum, n):
    """The running statistic after a batch of n values a channel: an empty one leaves it as it is."""
    old, momentum = jnp.zeros_like(new) if old is None else wide(old), jnp.asarray(momentum).astype(new.dtype)
    return jax.lax.stop_gradient(old * (1 - momentum) + new * momentum if n else old).astype(new.dtype)


def _affine(y, weight, bias, ndim):
    if weight is not None:
        y = y * _channels(wide(weight), ndim)
    if bias is not None:
        y = y + _channels(wide(bias), ndim)
    return y


def _check_dtypes(name, input, **params):
    """torch's RuntimeError for parameters that have neither input's dtype nor float32 beside a half type."""
    given = {k: p.dtype for k, p in params.items() if p is not None}
    kinds = set(given.values())
    fits = kinds <= {input.dtype} or kinds == {np.dtype(np.float32)} and input.dtype.itemsize == 2
    check(fits, f"{name}: mixed dtype, given input {input.dtype.name}, {', '.join(f'{k} {d.name}' for k, d in given.items())}; parameters "
          "of input's dtype, or all of float32 for an input of a half type, would fit")


def _check_channels(name, input, **vectors):
    told = f"{name}: given input {input.dtype.name}{list(input.shape)}"
    check(input.ndim >= 2, f"{told}; an input of at least 2 dimensions (N, C, ...) would fit")
    for what, v in vectors.items():
        if v is not None:
            check(v.shape == (input.shape[1],), f"{what} should contain {input.shape[1]} elements not {v.size} ({told})")


@op(where=None)
def _batch_norm_train(input: Array, running_mean: Array | None, running_var: Array | None, weight: Array | None,
                      bias: Array | None, momentum: Array | Scalar, eps: float):
    """(output, new running mean, new running variance, batch mean, inverse deviation)."""
    float_only("batch_norm", input)
    _check_channels("batch_norm", input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    _check_dtypes("batch_norm", input, weight=weight, bias=bias, running_mean=running_mean, running_var=running_var)
    x = wide(input)
    axes = (0, *range(2, x.ndim))
    mean, var = _moments(x, axes)
    inv = jax.lax.rsqrt(var + eps)
    y = (x - _channels(mean, x.ndim)) * _channels(inv, x.ndim)
    y = _affine(y, weight, bias, x.ndim).astype(input.dtype)
    n = x.size // max(x.shape[1], 1)
    unbiased = var * (n / max(n - 1, 1))
    return y, _running(running_mean, mean, momentum, n), _running(running_var, unbiased, momentum, n), mean, inv


@op(where=None)
def _batch_norm_eval(input: Array, running_mean: Array, running_var: Array, weight: Array | None, bias: Array | None, eps: float,
                     name: str = "batch_norm"):
    float_only(name, input)
    stats = dict(running_mean=running_mean, running_var=running_var)
    _check_channels(name, input, **stats, weight=weight, bias=bias)
    _check_dtypes(name, input, weight=weight, bias=bias, **(stats if name == "batch_norm" else {}))
    x = wide(input)
    inv = jax.lax.rsqrt(wide(running_var) + eps)
    y = (x - _channels(wide(running_mean), x.ndim)) * _channels(inv, x.ndim)
    return _affine(y, weight, bias, x.ndim).astype(input.dtype)


def _keep(stat, new):
    from lazy_tensor.modes import no_grad
    with no_grad():
        stat.copy_(new.detach())


def _batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps):
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError("batch_norm: Expected running_mean and running_var to be defined when training=False")
        return _batch_norm_eval(input, running_mean, running_var, weight, bias, float(eps)), None, None
    momentum = float(momentum) if isinstance(momentum, (int, float)) else momentum
    y, m, v, mean, inv = _batch_norm_train(input, running_mean, running_var, weight, bias, momentum, float(eps))
    if running_mean is not None:
        _keep(running_mean, m)
    if running_var is not None:
        _keep(running_var, v)
    return y, mean, inv


@composite(where=NN)
def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """(x - mean) / sqrt(var + eps) * weight + bias over all but dimension 1, by the batch's statistics in training.

    Training updates the running statistics in place (variance unbiased). ValueError when a channel has one value
    (torch.nn.functional.batch_norm; Ioffe and Szegedy, arXiv:1502.03167)."""
    if training:
        size = tuple(input.shape)
        if len(size) >= 2 and size[0] * math.prod(size[2:]) == 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(size)}")
    return _batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)[0]


@composite(name="batch_norm")
def _batch_norm_top(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=False):
    """torch.batch_norm: batch_norm with torch's internal argument order."""
    return _batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)[0]


@composite
def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """(output, batch mean, inverse deviation); the last two are empty in evaluation (torch.native_batch_norm)."""
    from lazy_tensor import creation
    y, mean, inv = _batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if mean is None:
        mean, inv = creation.empty((0,), dtype=input.dtype, device=input.device), creation.empty((0,), dtype=input.dtype,
                                                                                                device=input.device)
    return y, mean.detach(), inv.detach()


# ------------------------------------------------------------------------------------------- over instances and groups


@op(where=None)
def _instance_norm(input: Array, running_mean: Array | None, running_var: Array | None, weight: Array | None, bias: Array | None,
                   momentum: Scalar, eps: float):
    float_only("instance_norm", input)
    _check_channels("instance_norm", input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    _check_dtypes("instance_norm", input, weight=weight, bias=bias)
    x = wide(input)
    axes = tuple(range(2, x.ndim))
    mean, var = _moments(x, axes, True)
    y = _affine((x - mean) * jax.lax.rsqrt(var + eps), weight, bias, x.ndim).astype(input.dtype)
    n = math.prod(x.shape[2:])
    mean, var = (jnp.mean(v.reshape(x.shape[:2]), 0) for v in (mean, var * (n / max(n - 1, 1))))
    return y, _running(running_mean, mean, momentum, x.size), _running(running_var, var, momentum, x.size)


@composite(where=NN)
def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5):
    """Normalization of each channel of each instance over its spatial dimensions: (N, C, ...).

    With use_input_stats=False the running statistics normalize; otherwise they are updated in place
    (torch.nn.functional.instance_norm)."""
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError("instance_norm: Expected running_mean and running_var to be defined when use_input_stats is False")
        return _batch_norm_eval(input, running_mean, running_var, weight, bias, float(eps), "instance_norm")
    size = tuple(input.shape)
    if math.prod(size[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {list(size)}")
    y, m, v = _instance_norm(input, running_mean, running_var, weight, bias, float(momentum), float(eps))
    if running_mean is not None:
        _keep(running_mean, m)
    if running_var is not None:
        _keep(running_var, v)
    return y


@composite(name="instance_norm")
def _instance_norm_top(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled=False):
    """torch.instance_norm: instance_norm with torch's internal argument order."""
    return instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def _group_norm_body(input, num_groups, weight, bias, eps):
    float_only("group_norm", input)
    told = f"group_norm: given input {list(input.shape)}, num_groups {num_groups}"
    check(input.ndim >= 2, f"{told}; Expected at least 2 dimensions for input tensor but received {input.ndim}")
    check(num_groups > 0 and input.shape[1] % num_groups == 0,
          f"Expected number of channels in input to be divisible by num_groups, but got input of shape {list(input.shape)} and "
          f"num_groups={num_groups}")
    _check_channels("group_norm", input, weight=weight, bias=bias)
    _check_dtypes("group_norm", input, weight=weight, bias=bias)
    x = wide(input)
    g = x.reshape(x.shape[0], num_groups, math.prod(x.shape[1:]) // num_groups)
    mean, var = _moments(g, (2,), True)
    inv = jax.lax.rsqrt(var + eps)
    y = ((g - mean) * inv).reshape(x.shape)
    return _affine(y, weight, bias, x.ndim).astype(input.dtype), mean[..., 0], inv[..., 0]


@op(where=None, name="group_norm")
def _group_norm(input: Array, num_groups: int, weight: Array | None, bias: Array | None, eps: float):
    return _group_norm_body(input, num_groups, weight, bias, eps)[0]


@composite(where=NN, alias=("group_norm",))
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    """Normalization over groups of channels of (N, C, ...), then a scale and shift by channel (torch.nn.functional.group_norm)."""
    size = tuple(input.shape)
    if len(size) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(size)}")
    if num_groups > 0 and size[0] * size[1] // num_groups * math.prod(size[2:]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(size)}")
    return _group_norm(input, num_groups, weight, bias, float(eps))


@op(where="", out=False)
def native_group_norm(input: Array, weight: Array | None, bias: Array | None, N: int, C: int, HxW: int, group: int, eps: float):
    """(output, mean, inverse deviation), statistics of shape (N, group) (torch.native_group_norm)."""
    if input.size == 0:
        z = jnp.zeros((N, group), input.dtype)
        return input, z, z
    y, mean, inv = _group_norm_body(input.reshape(N, C, HxW), group, weight, bias, eps)
    stat = input.dtype if weight is None or weight.dtype == input.dtype else mean.dtype
    return y.reshape(input.shape), mean.astype(stat), inv.astype(stat)


# ------------------------------------------------------------------------------------------- over trailing dimensions


def _trailing(name, input, shape, weight, bias=None):
    told = f"{name}: given normalized_shape={list(shape)}, input {input.dtype.name}{list(input.shape)}"
    check(len(shape) >= 1, f"{told}; Expected normalized_shape to be at least 1-dimensional")
    for what, v in (("weight", weight), ("bias", bias)):
        check(v is None or v.shape == shape, f"{told}; Expected {what} to be of same shape as normalized_shape, but got "
              f"{list(v.shape) if v is not None else ''}")
    check(input.shape[-len(shape):] == shape and input.ndim >= len(shape),
          f"{told}; expected input with shape [*, {', '.join(map(str, shape))}]")
    return tuple(range(input.ndim - len(shape), input.ndim))


def _layer_norm_body(input, shape, weight, bias, eps):
    shape = (shape,) if isinstance(shape, int) else shape
    axes = _trailing("layer_norm", input, shape, weight, bias)
    float_only("layer_norm", input)
    _check_dtypes("layer_norm", input, weight=weight, bias=bias)
    x = wide(input)
    mean, var = _moments(x, axes, True)
    inv = jax.lax.rsqrt(var + eps)
    y = (x - mean) * inv
    if weight is not None:
        y = y * wide(weight)
    if bias is not None:
        y = y + wide(bias)
    return y.astype(input.dtype), mean, inv


@op(where=None, name="layer_norm")
def _layer_norm(input: Array, normalized_shape: Dims, weight: Array | None, bias: Array | None, eps: float):
    return _layer_norm_body(input, normalized_shape, weight, bias, eps)[0]


@composite(where=NN, alias=("layer_norm",))
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    """Normalization over the last dimensions, of shape normalized_shape (torch.nn.functional.layer_norm)."""
    return _layer_norm(input, normalized_shape, weight, bias, float(eps))


@op(where=None)
def _native_layer_norm(input: Array, normalized_shape: Dims, weight: Array | None, bias: Array | None, eps: float):
    y, mean, inv = _layer_norm_body(input, normalized_shape, weight, bias, eps)
    mixed = weight is None or weight.dtype == input.dtype
    return y, mean.astype(input.dtype if mixed else mean.dtype), inv.astype(input.dtype if mixed else inv.dtype)


@composite
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """(output, mean, inverse deviation), statistics with trailing ones and no gradient (torch.native_layer_norm)."""
    y, mean, inv = _native_layer_norm(input, tuple(normalized_shape), weight, bias, float(eps))
    return y, mean.detach(), inv.detach()


@op(where=None, name="rms_norm")
def _rms_norm(input: Array, normalized_shape: Dims, weight: Array | None, eps: float | None):
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else normalized_shape
    axes = _trailing("rms_norm", input, shape, weight)
    float_only("rms_norm", input, complex_ok=True)
    x = wide(input)
    if eps is None:
        kind = jnp.finfo(x.dtype if is_float(x.dtype) else jnp.real(x).dtype)
        eps = float(kind.eps)
    power = jnp.mean(jnp.real(x * jnp.conj(x)), axes, keepdims=True)
    y = x * jax.lax.rsqrt(power + eps)
    return (y if weight is None else y * wide(weight)).astype(input.dtype)


@composite(where=NN, alias=("rms_norm",))
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """x / sqrt(mean(x^2) + eps) * weight over the last dimensions; eps None: the dtype's epsilon (torch.nn.functional.rms_norm)."""
    return _rms_norm(input, normalized_shape, weight, None if eps is None else float(eps))


@op(where=NN)
def local_response_norm(input: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0):
    """x / (k + alpha * mean of x^2 over `size` neighbouring channels)^beta (torch.nn.functional.local_response_norm)."""
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    if input.dtype != np.int64:
        float_only("local_response_norm", input)
    if input.size == 0:
        return input
    x = wide(input) if is_float(input.dtype) else input.astype(np.float32)
    pads = [(0, 0, 0)] * x.ndim
    pads[1] = (size // 2, (size - 1) // 2, 0)
    square = jax.lax.pad(x * x, jnp.zeros((), x.dtype), pads)
    window = tuple(size if i == 1 else 1 for i in range(x.ndim))
    total = jax.lax.reduce_window(square, np.zeros((), x.dtype), jax.lax.add, window, (1,) * x.ndim, "VALID")
    return (x / (total / size * alpha + k) ** beta).astype(input.dtype if is_float(input.dtype) else x.dtype)

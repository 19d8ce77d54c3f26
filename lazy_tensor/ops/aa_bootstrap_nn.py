"""TEMPORARY (lead): minimal nn.functional ops; overridden when the real family files land."""
from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import check, pair
from lazy_tensor.ops._define import composite, op

F = "nn.functional"


def act(name, fn, **kw):
    fn.__name__ = name
    op(fn, where=F, **kw)


@op(where=F)
def gelu(input: Array, approximate: str = "none"):
    return jax.nn.gelu(input, approximate=approximate == "tanh")


@op(where=F)
def silu(input: Array):
    return jax.nn.silu(input)


@op(where=F)
def leaky_relu(input: Array, negative_slope: float = 0.01):
    return jnp.where(input > 0, input, input * negative_slope)


@op(where=F)
def elu(input: Array, alpha: float = 1.0):
    return jax.nn.elu(input, alpha)


@op(where=F)
def softplus(input: Array, beta: float = 1.0, threshold: float = 20.0):
    return jnp.where(input * beta > threshold, input, jax.nn.softplus(input * beta) / beta)


@op(where=F)
def embedding(input: Array, weight: Array, padding_idx: int | None = None):
    return jnp.take(weight, input, axis=0)


@op(where=F)
def layer_norm(input: Array, normalized_shape: Dims, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5):
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    x = input.astype(jnp.float32) if input.dtype.itemsize < 4 else input
    m = x.mean(axes, keepdims=True)
    c = x - m
    y = c * jax.lax.rsqrt((c * c).mean(axes, keepdims=True) + eps)
    y = y.astype(input.dtype)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


@op(where=F)
def group_norm(input: Array, num_groups: int, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5):
    n, c = input.shape[:2]
    x = input.reshape(n, num_groups, -1)
    m = x.mean(-1, keepdims=True)
    d = x - m
    y = (d * jax.lax.rsqrt((d * d).mean(-1, keepdims=True) + eps)).reshape(input.shape)
    s = (1, c) + (1,) * (input.ndim - 2)
    y = y if weight is None else y * weight.reshape(s)
    return y if bias is None else y + bias.reshape(s)


@op(where=None)
def _batch_norm_train(input: Array, weight: Array | None, bias: Array | None, mean: Array | None, var: Array | None, momentum: float, eps: float):
    axes = (0, *range(2, input.ndim))
    s = (1, -1) + (1,) * (input.ndim - 2)
    m = input.mean(axes)
    d = input - m.reshape(s)
    v = (d * d).mean(axes)
    y = d * jax.lax.rsqrt(v + eps).reshape(s)
    y = y if weight is None else y * weight.reshape(s)
    y = y if bias is None else y + bias.reshape(s)
    if mean is None:
        return y, m, v
    n = input.size // input.shape[1]
    m, v = jax.lax.stop_gradient(m), jax.lax.stop_gradient(v)
    return y, mean * (1 - momentum) + momentum * m, var * (1 - momentum) + momentum * v * (n / max(n - 1, 1))


@op(where=None)
def _batch_norm_eval(input: Array, mean: Array, var: Array, weight: Array | None, bias: Array | None, eps: float):
    s = (1, -1) + (1,) * (input.ndim - 2)
    y = (input - mean.reshape(s)) * jax.lax.rsqrt(var + eps).reshape(s)
    y = y if weight is None else y * weight.reshape(s)
    return y if bias is None else y + bias.reshape(s)


@composite(where=F)
def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if not training:
        return _batch_norm_eval(input, running_mean, running_var, weight, bias, eps)
    y, m, v = _batch_norm_train(input, weight, bias, running_mean, running_var, momentum, eps)
    if running_mean is not None:
        from lazy_tensor.modes import no_grad
        with no_grad():
            running_mean.copy_(m)
            running_var.copy_(v)
    return y


def _conv(n):
    def body(input: Array, weight: Array, bias: Array | None = None, stride: Dims = 1, padding: Dims | str = 0, dilation: Dims = 1, groups: int = 1):
        st, di = pair(stride, n), pair(dilation, n)
        unbatched = input.ndim == n + 1
        x = input[None] if unbatched else input
        pads = [(p, p) for p in pair(padding, n)] if not isinstance(padding, str) else "SAME" if padding == "same" else "VALID"
        letters = "DHW"[3 - n:]
        dn = ("NC" + letters, "OI" + letters, "NC" + letters)
        y = jax.lax.conv_general_dilated(x, weight, st, pads, rhs_dilation=di, dimension_numbers=dn, feature_group_count=groups)
        y = y if bias is None else y + bias.reshape((1, -1) + (1,) * n)
        return y[0] if unbatched else y
    body.__name__ = f"conv{n}d"
    op(body, where=F, alias=(f"conv{n}d",))


for n in (1, 2, 3):
    _conv(n)


@op(where=F)
def max_pool2d(input: Array, kernel_size: Dims, stride: Dims | None = None, padding: Dims = 0, dilation: Dims = 1, ceil_mode: bool = False, return_indices: bool = False):
    k = pair(kernel_size, 2)
    s = k if stride is None else pair(stride, 2)
    p = pair(padding, 2)
    lead = (1,) * (input.ndim - 2)
    return jax.lax.reduce_window(input, -jnp.inf, jax.lax.max, lead + k, lead + s, ((0, 0),) * (input.ndim - 2) + tuple((q, q) for q in p))


@op(where=F)
def adaptive_avg_pool2d(input: Array, output_size: Dims):
    o = pair(output_size, 2)
    h, w = input.shape[-2:]
    rows = [input[..., math.floor(i * h / o[0]):math.ceil((i + 1) * h / o[0]), :].mean(-2) for i in range(o[0])]
    x = jnp.stack(rows, -2)
    cols = [x[..., math.floor(i * w / o[1]):math.ceil((i + 1) * w / o[1])].mean(-1) for i in range(o[1])]
    return jnp.stack(cols, -1)


@op(where=None)
def _ce(input: Array, target: Array, weight: Array | None, ignore_index: int, label_smoothing: float, reduction: str):
    lp = jax.nn.log_softmax(input, 1 if input.ndim > 1 else 0)
    lp = jnp.moveaxis(lp, 1, -1) if input.ndim > 1 else lp
    ok = target != ignore_index
    t = jnp.where(ok, target, 0)
    loss = -jnp.take_along_axis(lp, t[..., None], -1)[..., 0]
    if label_smoothing:
        loss = (1 - label_smoothing) * loss - label_smoothing * lp.mean(-1)
    loss = jnp.where(ok, loss, 0)
    return loss.sum() / ok.sum() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


@composite(where=F)
def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0):
    return _ce(input, target, weight, ignore_index, label_smoothing, reduction)


@op(where=F)
def mse_loss(input: Array, target: Array, reduction: str = "mean"):
    l = (input - target) ** 2
    return l.mean() if reduction == "mean" else l.sum() if reduction == "sum" else l


@op(where=F)
def dropout(input: Array, p: float = 0.5, training: bool = True, *, key: Key | None):
    if key is None:
        return input
    return jnp.where(jax.random.bernoulli(key, 1 - p, input.shape), input / (1 - p), 0).astype(input.dtype)


@op(where=F)
def scaled_dot_product_attention(query: Array, key: Array, value: Array, attn_mask: Array | None = None, dropout_p: float = 0.0, is_causal: bool = False, *, rng: Key | None):
    s = jnp.einsum("...qd,...kd->...qk", query, key) / math.sqrt(query.shape[-1])
    if is_causal:
        s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -jnp.inf)
    if attn_mask is not None:
        s = jnp.where(attn_mask, s, -jnp.inf) if attn_mask.dtype == np.bool_ else s + attn_mask
    s = jax.nn.softmax(s, -1)
    if rng is not None:
        s = jnp.where(jax.random.bernoulli(rng, 1 - dropout_p, s.shape), s / (1 - dropout_p), 0)
    return jnp.einsum("...qk,...kd->...qd", s, value)


del check

"""Losses of two elementwise-comparable tensors, and of classes; embedding losses are in `metric.py`, CTC in `ctc.py`."""
from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import check, is_float, is_int
from lazy_tensor.ops._define import composite, op
from lazy_tensor.ops._nn import checked_reduction, float_only, legacy, reduced, wide

NN = "nn.functional"


def _told(name, input, target):
    return f"{name}: given input {input.dtype.name}{list(input.shape)}, target {target.dtype.name}{list(target.shape)}"


def _broadcast(name, *arrays):
    try:
        return jnp.broadcast_arrays(*arrays)
    except ValueError:
        from lazy_tensor.ops._common import broadcast_shapes
        broadcast_shapes(*(a.shape for a in arrays))
        raise


def _warn_sizes(input, target):
    if tuple(input.shape) != tuple(target.shape):
        warnings.warn(f"Using a target size ({tuple(target.shape)}) that is different to the input size ({tuple(input.shape)}). "
                      "This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.",
                      stacklevel=3)


def _common_dtype(*arrays):
    d = arrays[0].dtype
    for a in arrays[1:]:
        d = jnp.promote_types(d, a.dtype)
    return d


# ------------------------------------------------------------------------------------------- regression


def _pointwise(name, input, target, weight, reduction, fn):
    out = _common_dtype(input, target)
    if jnp.iscomplexobj(jnp.zeros((), out)):
        out = np.dtype(np.float32 if out == np.complex64 else np.float64)
    a, b = _broadcast(name, wide(input), wide(target))
    e = fn(a - b)
    if weight is None:
        return reduced(e, reduction).astype(out)
    w = wide(weight)
    check(w.shape == e.shape, f"{name}: weight must have the shape of the inputs, {list(e.shape)}, got {list(w.shape)}", ValueError)
    if reduction == "mean":
        return (jnp.sum(e * w) / jnp.sum(w)).astype(out)
    return reduced(e * w, reduction).astype(out)


@op(where=None, name="mse_loss")
def _mse_loss(input: Array, target: Array, reduction: str, weight: Array | None = None):
    d = _common_dtype(input, target)
    check(is_float(d) or jnp.issubdtype(d, np.complexfloating),
          f"mse_loss: not implemented for {d.name} ({_told('mse_loss', input, target)}; floating point tensors would fit)",
          NotImplementedError)
    return _pointwise("mse_loss", input, target, weight, reduction, lambda e: jnp.real(e * jnp.conj(e)))


@composite(where=NN)
def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """(input - target)^2, reduced (torch.nn.functional.mse_loss)."""
    reduction = legacy(size_average, reduce, reduction)
    checked_reduction(reduction)
    _warn_sizes(input, target)
    return _mse_loss(input, target, reduction, weight)


@op(where=None, name="l1_loss")
def _l1_loss(input: Array, target: Array, reduction: str, weight: Array | None = None):
    return _pointwise("l1_loss", input, target, weight, reduction, jnp.abs)


@composite(where=NN)
def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """|input - target|, reduced (torch.nn.functional.l1_loss)."""
    reduction = legacy(size_average, reduce, reduction)
    checked_reduction(reduction)
    _warn_sizes(input, target)
    return _l1_loss(input, target, reduction, weight)


@op(where=None, name="smooth_l1_loss")
def _smooth_l1_loss(input: Array, target: Array, reduction: str, beta: float):
    if beta == 0:
        return _pointwise("smooth_l1_loss", input, target, None, reduction, jnp.abs)

    def fn(e):
        a = jnp.abs(e)
        return jnp.where(a < beta, 0.5 * e * e / beta, a - 0.5 * beta)
    return _pointwise("smooth_l1_loss", input, target, None, reduction, fn)


@composite(where=NN)
def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """Squared below beta, absolute above: 0.5 e^2 / beta or |e| - 0.5 beta (torch.nn.functional.smooth_l1_loss)."""
    reduction = legacy(size_average, reduce, reduction)
    checked_reduction(reduction)
    check(beta >= 0, f"smooth_l1_loss does not support negative values for beta, got {beta}")
    _warn_sizes(input, target)
    return _smooth_l1_loss(input, target, reduction, float(beta))


@op(where=None, name="huber_loss")
def _huber_loss(input: Array, target: Array, reduction: str, delta: float, weight: Array | None = None):
    def fn(e):
        a = jnp.abs(e)
        return jnp.where(a <= delta, 0.5 * e * e, delta * (a - 0.5 * delta))
    return _pointwise("huber_loss", input, target, weight, reduction, fn)


@composite(where=NN)
def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """0.5 e^2 up to delta, delta (|e| - 0.5 delta) above (torch.nn.functional.huber_loss)."""
    checked_reduction(reduction)
    check(delta > 0, f"huber_loss does not support non-positive values for delta, got {delta}")
    _warn_sizes(input, target)
    return _huber_loss(input, target, reduction, float(delta), weight)


@op(where=None, name="poisson_nll_loss")
def _poisson_nll_loss(input: Array, target: Array, log_input: bool, full: bool, eps: float, reduction: str):
    out = _common_dtype(input, target)
    x, t = _broadcast("poisson_nll_loss", wide(input), wide(target))
    loss = jnp.exp(x) - t * x if log_input else x - t * jnp.log(x + eps)
    if full:
        stirling = t * jnp.log(jnp.where(t > 1, t, 1.0)) - t + 0.5 * jnp.log(2 * np.pi * jnp.where(t > 1, t, 1.0))
        loss = loss + jnp.where(t > 1, stirling, 0.0)
    return reduced(loss, reduction).astype(out)


@composite(where=NN)
def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"):
    """exp(x) - t x (x - t log(x + eps) without log_input); `full` adds Stirling's term (torch.nn.functional.poisson_nll_loss)."""
    reduction = legacy(size_average, reduce, reduction)
    checked_reduction(reduction)
    return _poisson_nll_loss(input, target, bool(log_input), bool(full), float(eps), reduction)


@op(where=None, name="gaussian_nll_loss")
def _gaussian_nll_loss(input: Array, target: Array, var: Array, full: bool, eps: float, reduction: str):
    out = _common_dtype(input, target, var)
    x, t, v = wide(input), wide(target), wide(var)
    v = jax.lax.stop_gradient(jnp.maximum(v, eps) - v) + v
    loss = 0.5 * (jnp.log(v) + (x - t) ** 2 / v)
    if full:
        loss = loss + 0.5 * float(np.log(2 * np.pi))
    return reduced(loss, reduction).astype(out)


@composite(where=NN)
def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """0.5 (log max(var, eps) + (input - target)^2 / max(var, eps)); the clamp has no effect on gradients.

    ValueError for a var of the wrong size or below 0 (a number var is checked, a tensor's values are not read)
    (torch.nn.functional.gaussian_nll_loss)."""
    import lazy_tensor as lt
    if isinstance(var, (int, float)):
        if var < 0:
            raise ValueError(f"var has negative entry/entries: {var}")
        var = lt.full_like(input, var)
    s, i = tuple(var.shape), tuple(input.shape)
    if s != i:
        if i[:-1] == s:
            var = var.unsqueeze(-1)
        elif not (len(s) == len(i) and i[:-1] == s[:-1] and s[-1] == 1) and \
                not (len(i) == len(s) and sum(y for x, y in zip(i, s, strict=True) if x != y) == 1):
            raise ValueError(f"gaussian_nll_loss: var is of incorrect size {list(s)}; {list(i)}, or one dimension of it 1, fits")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    return _gaussian_nll_loss(input, target, var, bool(full), float(eps), reduction)


@op(where=None, name="kl_div")
def _kl_div(input: Array, target: Array, reduction: str, log_target: bool):
    out = _common_dtype(input, target)
    x, t = _broadcast("kl_div", wide(input), wide(target))
    if log_target:
        loss = jnp.exp(t) * (t - x)
    else:
        zero = t == 0
        loss = jnp.where(zero, 0.0, t * jnp.log(jnp.where(zero, 1.0, t))) - t * x
    if reduction == "batchmean":
        loss = jnp.sum(loss) / input.shape[0] if input.ndim else jnp.sum(loss)
        return loss.astype(out)
    return reduced(loss, reduction).astype(out)


@composite(where=NN)
def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """target (log target - input), input being log-probabilities; reductions also "batchmean" (torch.nn.functional.kl_div)."""
    reduction = legacy(size_average, reduce, reduction)
    if reduction == "mean":
        warnings.warn("reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' divides "
                      "only by the batch size, and aligns with the KL div math definition.", stacklevel=2)
    if reduction != "batchmean":
        checked_reduction(reduction)
    return _kl_div(input, target, reduction, bool(log_target))


# ------------------------------------------------------------------------------------------- binary


@op(where=None, name="binary_cross_entropy")
def _bce(input: Array, target: Array, weight: Array | None, reduction: str):
    told = _told("binary_cross_entropy", input, target)
    check(input.shape == target.shape, f"Using a target size ({list(target.shape)}) that is different to the input size "
          f"({list(input.shape)}) is deprecated. Please ensure they have the same size. ({told})", ValueError)
    check(input.dtype == target.dtype, f"{told}; Found dtypes that differ, one floating point dtype would fit")
    float_only("binary_cross_entropy", input)
    x, t = wide(input), wide(target)
    loss = (t - 1) * _log_at_least(-x, True) - t * _log_at_least(x, False)
    if weight is not None:
        loss = loss * wide(weight)
    return reduced(loss, reduction).astype(input.dtype)


def _log_at_least(x, plus_one):
    """max(log(x), -100) or max(log1p(x), -100). torch's gradient divides by max(p (1 - p), 1e-12), so it stays finite at 0."""
    y = 1 + x if plus_one else x
    low = y < 1e-12
    safe = jnp.where(low, 1.0, y)
    inner = jnp.log1p(jnp.where(low, 0.0, x)) if plus_one else jnp.log(safe)
    value = jnp.log1p(x) if plus_one else jnp.log(x)
    steep = y * 1e12
    below = jax.lax.stop_gradient(jnp.maximum(value, -100.0) - steep) + steep
    return jnp.where(low, below, inner)


@composite(where=NN)
def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """-(t log x + (1 - t) log(1 - x)) with logs clamped at -100 (torch.nn.functional.binary_cross_entropy).

    ValueError when the sizes differ. That x lies in [0, 1] is not checked (it would read the data)."""
    reduction = legacy(size_average, reduce, reduction)
    checked_reduction(reduction)
    return _bce(input, target, weight, reduction)


@op(where=None, name="binary_cross_entropy_with_logits")
def _bce_logits(input: Array, target: Array, weight: Array | None, pos_weight: Array | None, reduction: str):
    told = _told("binary_cross_entropy_with_logits", input, target)
    check(input.shape == target.shape, f"Target size ({list(target.shape)}) must be the same as input size "
          f"({list(input.shape)}) ({told})", ValueError)
    x, t = wide(input), wide(target)
    if pos_weight is None:
        loss = (1 - t) * x - jax.nn.log_sigmoid(x)
    else:
        w = 1 + (wide(pos_weight) - 1) * t
        loss = (1 - t) * x - w * jax.nn.log_sigmoid(x)
    if weight is not None:
        loss = loss * wide(weight)
    return reduced(loss, reduction).astype(_common_dtype(input, target) if is_float(target.dtype) else input.dtype)


@composite(where=NN)
def binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None):
    """Binary cross entropy of sigmoid(input) in one stable step; `pos_weight` weighs the positive examples.

    ValueError when the sizes differ (torch.nn.functional.binary_cross_entropy_with_logits)."""
    reduction = legacy(size_average, reduce, reduction)
    checked_reduction(reduction)
    return _bce_logits(input, target, weight, pos_weight, reduction)


@op(where=None, name="soft_margin_loss")
def _soft_margin_loss(input: Array, target: Array, reduction: str):
    x, t = _broadcast("soft_margin_loss", wide(input), wide(target))
    return reduced(jax.nn.softplus(-t * x), reduction).astype(input.dtype)


@composite(where=NN)
def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-target * input)), reduced (torch.nn.functional.soft_margin_loss)."""
    reduction = legacy(size_average, reduce, reduction)
    checked_reduction(reduction)
    return _soft_margin_loss(input, target, reduction)


# ------------------------------------------------------------------------------------------- classes


def _picked(name, logp, target, weight, ignore_index, reduction, class_axis):
    """-weight[t] * logp[t] over a class axis; the mean divides by the weights of the targets that count."""
    told = f"{name}: given input {list(logp.shape)}, target {target.dtype.name}{list(target.shape)}"
    check(is_int(target.dtype), f"{told}; expected scalar type Long")
    classes = logp.shape[class_axis]
    want = logp.shape[:class_axis] + logp.shape[class_axis + 1:]
    if want != target.shape:
        if logp.ndim >= 1 and target.ndim and want and want[0] != target.shape[0]:
            raise ValueError(f"Expected input batch_size ({want[0]}) to match target batch_size ({target.shape[0]}). ({told})")
        raise RuntimeError(f"{told}; a target of shape {list(want)} would fit")
    if weight is not None:
        check(weight.shape == (classes,), f"weight tensor should be defined either for all {classes} classes or no classes but got "
              f"weight tensor of shape: {list(weight.shape)} ({told})")
    keep = target != ignore_index
    t = jnp.where(keep, target, 0)
    value = jnp.take_along_axis(logp, jnp.expand_dims(t, class_axis), class_axis, mode="clip").squeeze(class_axis)
    w = None if weight is None else jnp.where(keep, jnp.take(wide(weight), t, mode="clip"), 0.0)
    loss = jnp.where(keep, -value, 0.0)
    if w is not None:
        loss = loss * w
    if reduction == "mean":
        total = jnp.sum(w) if w is not None else jnp.sum(keep.astype(loss.dtype))
        return jnp.sum(loss) / total, keep, w
    return reduced(loss, reduction), keep, w


@op(where=None, name="nll_loss")
def _nll_loss(input: Array, target: Array, weight: Array | None, ignore_index: int, reduction: str):
    float_only("nll_loss", input)
    check(input.ndim >= 1, f"Expected 1 or more dimensions (got {input.ndim})", ValueError)
    axis = 0 if input.ndim == 1 else 1
    return _picked("nll_loss", wide(input), target, weight, ignore_index, reduction, axis)[0].astype(input.dtype)


@composite(where=NN)
def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """-weight[t] * input[t], input (N, C, d1, ...) of log-probabilities, target (N, d1, ...) (torch.nn.functional.nll_loss)."""
    reduction = legacy(size_average, reduce, reduction)
    checked_reduction(reduction)
    return _nll_loss(input, target, weight, ignore_index, reduction)


def _cross_entropy_body(input, target, weight, ignore_index, reduction, label_smoothing):
    told = _told("cross_entropy", input, target)
    check(0.0 <= label_smoothing <= 1.0, f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing} ({told})")
    float_only("log_softmax", input)
    check(input.ndim >= 1, f"{told}; an input of at least 1 dimension would fit")
    axis = 0 if input.ndim == 1 else 1
    classes = input.shape[axis]
    logp = jax.nn.log_softmax(wide(input), axis)
    shape = [1] * input.ndim
    shape[axis] = classes
    if weight is not None:
        check(weight.shape == (classes,), f"cross_entropy: weight tensor should be defined either for all {classes} classes or no "
              f"classes but got weight tensor of shape: {list(weight.shape)}")
    w = None if weight is None else wide(weight).reshape(shape)
    if target.shape == input.shape and not (input.ndim == 1 and is_int(target.dtype)):
        check(is_float(target.dtype), f"Expected floating point type for target with class probabilities, got {target.dtype.name}")
        check(ignore_index < 0, "ignore_index is not supported for floating point target")
        t = wide(target)
        if label_smoothing > 0:
            t = t * (1 - label_smoothing) + label_smoothing / classes
        loss = -jnp.sum(logp * t if w is None else logp * t * w, axis)
        if reduction == "mean":
            return jnp.sum(loss) / (input.size // classes if classes else 0)
        return reduced(loss, reduction)
    loss, keep, picked_weight = _picked("cross_entropy", logp, target, weight, ignore_index, reduction, axis)
    if label_smoothing == 0:
        return loss
    smooth = -jnp.sum(logp if w is None else logp * w, axis)
    smooth = jnp.where(keep, smooth, 0.0)
    if reduction == "mean":
        total = jnp.sum(picked_weight) if w is not None else jnp.sum(keep.astype(smooth.dtype))
        smooth = jnp.sum(smooth) / total
    else:
        smooth = reduced(smooth, reduction)
    return loss * (1 - label_smoothing) + smooth * (label_smoothing / classes)


@op(where=None, name="cross_entropy")
def _cross_entropy(input: Array, target: Array, weight: Array | None, ignore_index: int, reduction: str, label_smoothing: float):
    return _cross_entropy_body(input, target, weight, ignore_index, reduction, label_smoothing).astype(input.dtype)


@composite(where=NN)
def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                  label_smoothing=0.0):
    """Cross entropy of logits (C), (N, C) or (N, C, d1, ...) with class indices, or probabilities of the input's shape.

    `weight` (C); `ignore_index` targets count nothing; `label_smoothing` in [0, 1] (torch.nn.functional.cross_entropy)."""
    if size_average is not None or reduce is not None:
        reduction = legacy(size_average, reduce, reduction)
    checked_reduction(reduction)
    return _cross_entropy(input, target, weight, ignore_index, reduction, float(label_smoothing))


@op(where=None, name="linear_cross_entropy")
def _linear_cross_entropy(input: Array, linear_weight: Array, target: Array, linear_bias: Array | None, weight: Array | None,
                          reduction: str, ignore_index: int, label_smoothing: float):
    told = f"linear_cross_entropy: given input {list(input.shape)}, linear_weight {list(linear_weight.shape)}, " \
           f"target {target.dtype.name}{list(target.shape)}"
    check(input.ndim in (1, 2), f"{told}; an input of shape (in) or (N, in) would fit")
    check(linear_weight.ndim >= 2 and linear_weight.shape[-1] == input.shape[-1],
          f"{told}; a linear_weight of shape [C, ..., {input.shape[-1]}] would fit")
    check(linear_weight.ndim == 2 or input.ndim == 2, f"{told}; a multi-dimensional linear_weight requires a batched input")
    check(input.dtype == linear_weight.dtype, f"{told}; input and linear_weight must have one dtype")
    logits = jnp.tensordot(input, linear_weight, ((input.ndim - 1,), (linear_weight.ndim - 1,)))
    if linear_bias is not None:
        check(linear_bias.shape in ((linear_weight.shape[0],), linear_weight.shape[:-1]),
              f"{told}; a linear_bias of shape {list(linear_weight.shape[:-1])} would fit, got {list(linear_bias.shape)}")
        b = linear_bias.reshape(linear_bias.shape + (1,) * (linear_weight.ndim - 1 - linear_bias.ndim))
        logits = logits + b
    return _cross_entropy_body(logits.astype(input.dtype), target, weight, ignore_index, reduction, label_smoothing).astype(
        input.dtype)


@composite(where=NN)
def linear_cross_entropy(input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean", ignore_index=None,
                         label_smoothing=0.0, options=None):
    """cross_entropy(linear(input, linear_weight, linear_bias), target) as one op (torch.nn.functional.linear_cross_entropy).

    input (in) or (N, in), linear_weight (C, d1, ..., in); `options` (chunking) changes nothing here: XLA plans memory."""
    checked_reduction(reduction)
    if ignore_index is not None:
        check(target.dtype.np.kind in "iu", "linear_cross_entropy: ignore_index is not supported for a floating point target")
    return _linear_cross_entropy(input, linear_weight, target, linear_bias, weight, reduction,
                                 -100 if ignore_index is None else ignore_index, float(label_smoothing))


# ------------------------------------------------------------------------------------------- margins of classes


@op(where=None, name="multi_margin_loss")
def _multi_margin_loss(input: Array, target: Array, p: int, margin: float, weight: Array | None, reduction: str):
    told = _told("multi_margin_loss", input, target)
    float_only("multi_margin_loss", input)
    check(p in (1, 2), f"multi_margin_loss: Invalid p, expected 1 or 2 but got {p}", ValueError)
    check(input.ndim in (0, 1, 2) and input.size > 0, f"{told}; Expected non-empty vector or matrix with optional 0-dim batch size")
    x = wide(input)
    rows = x if x.ndim == 2 else x.reshape(1, -1)
    t = target.reshape(-1)
    check(t.shape[0] == rows.shape[0] and target.ndim <= 1, f"{told}; inconsistent target size, expected {rows.shape[0]}")
    if weight is not None:
        check(weight.shape == (rows.shape[1],), f"multi_margin_loss: inconsistent weight size, expected {rows.shape[1]} but got "
              f"{list(weight.shape)}")
    own = jnp.take_along_axis(rows, t[:, None], 1, mode="clip")
    z = margin - own + rows
    z = jnp.where(z > 0, z, 0.0)
    z = z if p == 1 else z * z
    if weight is not None:
        z = z * jnp.take(wide(weight), t, mode="clip")[:, None]
    z = jnp.where(jnp.arange(rows.shape[1]) == t[:, None], 0.0, z)
    loss = jnp.sum(z, 1) / rows.shape[1]
    if target.ndim == 0:
        loss = loss.reshape(())
    return reduced(loss, reduction).astype(input.dtype)


@composite(where=NN)
def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    """sum_i max(0, margin - x[t] + x[i])^p / C over the other classes (torch.nn.functional.multi_margin_loss)."""
    reduction = legacy(size_average, reduce, reduction)
    checked_reduction(reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return _multi_margin_loss(input, target, int(p), float(margin), weight, reduction)


def _multilabel_margin_body(input, target, reduction):
    told = _told("multilabel_margin_loss", input, target)
    float_only("multilabel_margin_loss", input)
    check(input.shape == target.shape, f"{told}; inconsistent target size, {list(input.shape)} would fit")
    check(input.ndim <= 2, f"{told}; Expected non-empty vector or matrix with optional 0-dim batch size")
    x = wide(input)
    rows = x if x.ndim == 2 else x.reshape(1, -1)
    t = target.reshape(rows.shape)
    n, c = rows.shape
    valid = jnp.cumprod((t >= 0).astype(np.int32), 1).astype(bool)
    at = jnp.where(valid, t, 0)
    is_target = jnp.zeros((n, c), bool).at[jnp.arange(n)[:, None], at].max(valid)
    own = jnp.take_along_axis(rows, at, 1, mode="clip")
    z = 1 - own[:, :, None] + rows[:, None, :]
    z = jnp.where((z > 0) & valid[:, :, None] & ~is_target[:, None, :], z, 0.0)
    loss = jnp.sum(z, (1, 2)) / c
    if input.ndim < 2:
        loss = loss.reshape(())
    return reduced(loss, reduction).astype(input.dtype), is_target.astype(input.dtype).reshape(input.shape)


@op(where=None, name="multilabel_margin_loss")
def _multilabel_margin_loss(input: Array, target: Array, reduction: str):
    return _multilabel_margin_body(input, target, reduction)[0]


@composite(where=NN)
def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """sum_ij max(0, 1 - (x[t_j] - x[i])) / C; a row's targets end at the first -1 (torch.nn.functional.multilabel_margin_loss)."""
    reduction = legacy(size_average, reduce, reduction)
    checked_reduction(reduction)
    return _multilabel_margin_loss(input, target, reduction)


@op(where=None, name="multilabel_soft_margin_loss")
def _multilabel_soft_margin_loss(input: Array, target: Array, weight: Array | None, reduction: str):
    x, t = _broadcast("multilabel_soft_margin_loss", wide(input), wide(target))
    loss = -(t * jax.nn.log_sigmoid(x) + (1 - t) * jax.nn.log_sigmoid(-x))
    if weight is not None:
        loss = loss * wide(weight)
    check(input.ndim > 0, "Dimension out of range (multilabel_soft_margin_loss: the input must have a class dimension)", IndexError)
    return reduced(jnp.sum(loss, -1) / input.shape[-1], reduction).astype(_common_dtype(input, target))


@composite(where=NN)
def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """The mean over classes of the binary cross entropy of logits (torch.nn.functional.multilabel_soft_margin_loss)."""
    reduction = legacy(size_average, reduce, reduction)
    checked_reduction(reduction)
    return _multilabel_soft_margin_loss(input, target, weight, reduction)

"""Connectionist temporal classification: the forward algorithm as one scan; its gradient is the scan's."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import check, is_float
from lazy_tensor.ops._define import composite, op
from lazy_tensor.ops._nn import checked_reduction, wide

NN = "nn.functional"


@op(where=None, name="ctc_loss")
def _ctc_loss(log_probs: Array, targets: Array, input_lengths: Array, target_lengths: Array, blank: int, reduction: str,
              zero_infinity: bool, longest: int):
    told = f"ctc_loss: given log_probs {log_probs.dtype.name}{list(log_probs.shape)}, targets {list(targets.shape)}"
    check(is_float(log_probs.dtype), f"{told}; log_probs must be floating point")
    check(log_probs.ndim in (2, 3), f"{told}; log_probs of shape (T, C) or (T, N, C) would fit")
    batched = log_probs.ndim == 3
    x = wide(log_probs if batched else log_probs[:, None])
    steps, n, classes = x.shape
    check(0 <= blank < classes, f"{told}; blank must be in label range [0, {classes}), got {blank}")
    lengths = target_lengths.reshape(-1).astype(np.int64)
    frames = input_lengths.reshape(-1).astype(np.int64)
    check(lengths.shape == frames.shape == (n,), f"{told}; input_lengths and target_lengths must have {n} elements")
    if not batched:
        targets = targets.reshape(1, -1)
    if targets.ndim == 1:
        start = jnp.cumsum(lengths) - lengths
        at = start[:, None] + jnp.arange(longest)
        targets = jnp.take(targets, at, mode="clip") if targets.size else jnp.zeros((n, longest), np.int64)
    else:
        check(targets.shape[0] == n, f"{told}; targets for {n} examples would fit")
        targets = targets[:, :longest]
    labels = jnp.full((n, 2 * longest + 1), blank, np.int64).at[:, 1::2].set(targets.astype(np.int64))
    may_skip = jnp.concatenate([jnp.zeros((n, 2), bool), (labels[:, 2:] != blank) & (labels[:, 2:] != labels[:, :-2])], 1) \
        if longest else jnp.zeros((n, 1), bool)
    states = jnp.arange(2 * longest + 1)
    scores = jnp.take_along_axis(x, jnp.broadcast_to(labels, (steps, *labels.shape)), 2, mode="clip")
    # Impossible states hold a large negative number instead of minus infinity, so that gradients stay finite.
    low = jnp.asarray(-1e30, x.dtype)
    first = jnp.where((states == 0) | ((states == 1) & (lengths[:, None] > 0)), 0.0, low)

    def shifted(a, k):
        return jnp.concatenate([jnp.full((n, k), low), a], 1)[:, :a.shape[1]]

    def step(alpha, given):
        t, score = given
        other = jnp.where(may_skip, shifted(alpha, 2), low)
        stacked = jnp.stack([alpha, shifted(alpha, 1), other])
        moved = jnp.where(t == 0, alpha, jax.nn.logsumexp(stacked, 0))
        return jnp.where((t < frames)[:, None], moved + score, alpha), None

    alpha, _ = jax.lax.scan(step, jnp.broadcast_to(first, (n, 2 * longest + 1)), (jnp.arange(steps), scores))
    last = jnp.take_along_axis(alpha, 2 * lengths[:, None], 1)[:, 0]
    before = jnp.take_along_axis(alpha, jnp.maximum(2 * lengths[:, None] - 1, 0), 1)[:, 0]
    total = jnp.logaddexp(last, jnp.where(lengths > 0, before, low))
    total = jnp.where(frames == 0, jnp.where(lengths == 0, 0.0, low), total)
    impossible = total < -1e25
    # torch's gradient is that of log_softmax with the loss: exp(log_probs) - posterior for every frame that counts.
    mass = jnp.sum(jnp.where((jnp.arange(steps)[:, None] < frames)[:, :, None], jnp.exp(x), 0.0), (0, 2))
    total = total - (mass - jax.lax.stop_gradient(mass))
    loss = jnp.where(impossible, 0.0 if zero_infinity else jnp.inf, -jnp.where(impossible, 0.0, total))
    if reduction == "mean":
        out = jnp.mean(loss / jnp.maximum(lengths, 1).astype(loss.dtype))
    elif reduction == "sum":
        out = jnp.sum(loss)
    else:
        out = loss if batched else loss[0]
    return out.astype(log_probs.dtype)


@composite(where=NN)
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """CTC's negative log-likelihood: log_probs (T, N, C) or (T, C), targets (N, S) or concatenated, lengths (N).

    Lengths may be lists or tensors (tensors of lengths with concatenated targets are read). "mean" divides each loss by its
    target's length (torch.nn.functional.ctc_loss; Graves et al., 2006)."""
    from lazy_tensor import creation
    checked_reduction(reduction)
    steps = log_probs.shape[0]

    def ints(v):
        return v if not hasattr(v, "tolist") else v.tolist()
    given = ints(target_lengths)
    given = [given] if isinstance(given, int) else list(given)
    longest = max(given, default=0) if targets.dim() == 1 or not hasattr(target_lengths, "dim") else targets.shape[1]
    check(min(given, default=0) >= 0, f"Expected target_lengths to have value at least 0, but got {given}")
    frames = ints(input_lengths)
    frames = [frames] if isinstance(frames, int) else list(frames)
    check(max(frames, default=0) <= steps, f"Expected input_lengths to have value at most {steps}, but got value {max(frames, default=0)} "
          f"(while checking arguments for ctc_loss)")
    if targets.dim() == 2:
        check(max(given, default=0) <= targets.shape[1], f"Expected tensor to have size at least {max(given, default=0)} at dimension 1, "
              f"but got size {targets.shape[1]} (while checking targets of ctc_loss)")
        longest = targets.shape[1]
    elif targets.dim() == 1 and log_probs.dim() == 3:
        check(sum(given) == targets.shape[0], f"ctc_loss: target_lengths sum to {sum(given)}, but targets has size {targets.shape[0]}")

    def tensor(v):
        v = v if hasattr(v, "dim") else creation.tensor([v] if isinstance(v, int) else list(v))
        return v.to(log_probs.device)
    return _ctc_loss(log_probs, targets, tensor(input_lengths), tensor(target_lengths), blank, reduction, bool(zero_infinity), longest)

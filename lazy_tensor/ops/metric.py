"""Distances and similarities of vectors, and the losses made of them; CTC is in `ctc.py`."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import check, default_float, is_float, norm_dim, real_dtype
from lazy_tensor.ops._define import composite, op
from lazy_tensor.ops._nn import checked_reduction, legacy, p_norm, reduced, wide

NN = "nn.functional"


def _common(*arrays):
    d = arrays[0].dtype
    for a in arrays[1:]:
        d = jnp.promote_types(d, a.dtype)
    return d


def _sqrt(x):
    """The square root with gradient 0 at 0."""
    zero = x == 0
    return jnp.where(zero, 0.0, jnp.sqrt(jnp.where(zero, 1.0, x)))


@op(where=NN, alias=("cosine_similarity",))
def cosine_similarity(x1: Array, x2: Array, dim: int = 1, eps: float = 1e-8):
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along dim, the inputs broadcast (torch.nn.functional.cosine_similarity)."""
    d = _common(x1, x2)
    check(is_float(d) or jnp.issubdtype(d, np.complexfloating), f"expected common dtype to be floating point, yet common dtype is {d.name}")
    a, b = jnp.broadcast_arrays(wide(x1.astype(d)), wide(x2.astype(d)))
    axis = norm_dim(dim, a.ndim) if a.ndim else ()
    na, nb = (_sqrt(jnp.sum(jnp.real(v * jnp.conj(v)), axis, keepdims=True)) for v in (a, b))

    def unit(v, n):  # torch's clamp is not part of its gradient
        return v / (jax.lax.stop_gradient(jnp.maximum(n, eps) - n) + n)
    return jnp.sum(unit(a, na) * unit(b, nb), axis).astype(d)


@op(where=NN, alias=("pairwise_distance",))
def pairwise_distance(x1: Array, x2: Array, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False):
    """||x1 - x2 + eps||_p along the last dimension (torch.nn.functional.pairwise_distance)."""
    d = _common(x1, x2)
    e = wide(x1) - wide(x2) + eps
    return p_norm(e, float(p), -1 if e.ndim else (), keepdim).astype(real_dtype(d))


@op(where=NN, alias=("pdist",))
def pdist(input: Array, p: float = 2.0):
    """The p-norm distance of every pair of rows i < j: (N, M) -> (N (N - 1) / 2,) (torch.nn.functional.pdist)."""
    check(input.ndim == 2, f"pdist only supports 2D tensors, got: {input.ndim}D ({list(input.shape)})")
    check(is_float(input.dtype), f"pdist only supports floating-point dtypes, got {input.dtype.name}")
    check(p >= 0, f"pdist only supports non-negative p values, got {p}")
    i, j = np.triu_indices(input.shape[0], 1)
    x = wide(input)
    return p_norm(x[i] - x[j], float(p), -1).astype(input.dtype)


# ------------------------------------------------------------------------------------------- losses


@op(where=None, name="cosine_embedding_loss")
def _cosine_embedding_loss(input1: Array, input2: Array, target: Array, margin: float, reduction: str):
    told = f"cosine_embedding_loss: given {list(input1.shape)}, {list(input2.shape)}, target {list(target.shape)}"
    check(target.ndim in (0, 1), f"{told}; 0D or 1D target tensor expected, multi-target not supported")
    want = 2 if target.ndim == 1 else 1
    check(input1.ndim == input2.ndim == want, f"{told}; inputs of {want} dimensions would fit this target")
    check(_shapes_meet(input1.shape, input2.shape), f"{told}; the inputs' shapes do not match")
    out = _common(input1, input2)
    out = out if is_float(out) else default_float()
    a, b = (wide(v) if is_float(v.dtype) else v.astype(out) for v in (input1, input2))
    eps = 1e-12
    dot, sa, sb = jnp.sum(a * b, -1), jnp.sum(a * a, -1) + eps, jnp.sum(b * b, -1) + eps
    cos = dot / jnp.sqrt(sa * sb)
    loss = jnp.where(target == 1, 1 - cos, jnp.where(target == -1, jax.nn.relu(cos - margin), 0.0))
    return reduced(loss, reduction).astype(out)


def _shapes_meet(a, b):
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


@composite(where=NN)
def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """1 - cos for target 1, max(0, cos - margin) for target -1 (torch.nn.functional.cosine_embedding_loss)."""
    reduction = legacy(size_average, reduce, reduction)
    checked_reduction(reduction)
    return _cosine_embedding_loss(input1, input2, target, float(margin), reduction)


@op(where=None, name="hinge_embedding_loss")
def _hinge_embedding_loss(input: Array, target: Array, margin: float, reduction: str):
    x, t = jnp.broadcast_arrays(wide(input), target)
    loss = jnp.where(t != 1, jax.nn.relu(margin - x), 0.0) + jnp.where(t != -1, x, 0.0)
    return reduced(loss, reduction).astype(_common(input, target) if is_float(target.dtype) else input.dtype)


@composite(where=NN)
def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """input for target 1, max(0, margin - input) for target -1 (torch.nn.functional.hinge_embedding_loss)."""
    reduction = legacy(size_average, reduce, reduction)
    checked_reduction(reduction)
    return _hinge_embedding_loss(input, target, float(margin), reduction)


@op(where=None, name="margin_ranking_loss")
def _margin_ranking_loss(input1: Array, input2: Array, target: Array, margin: float, reduction: str):
    told = f"margin_ranking_loss: given {list(input1.shape)}, {list(input2.shape)}, target {list(target.shape)}"
    check(input1.ndim == input2.ndim == target.ndim, f"{told}; all input tensors should have the same number of dimensions")
    v = -target * (wide(input1) - wide(input2)) + margin
    return reduced(jnp.where(v >= 0, v, 0.0), reduction).astype(_common(input1, input2, target))


@composite(where=NN)
def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """max(0, -target (input1 - input2) + margin) (torch.nn.functional.margin_ranking_loss)."""
    reduction = legacy(size_average, reduce, reduction)
    checked_reduction(reduction)
    return _margin_ranking_loss(input1, input2, target, float(margin), reduction)


@op(where=None, name="triplet_margin_loss")
def _triplet_margin_loss(anchor: Array, positive: Array, negative: Array, margin: float, p: float, eps: float, swap: bool,
                         reduction: str):
    told = f"triplet_margin_loss: given {list(anchor.shape)}, {list(positive.shape)}, {list(negative.shape)}"
    check(anchor.ndim == positive.ndim == negative.ndim, f"{told}; The anchor, positive, and negative tensors are expected to have "
          "the same number of dimensions")
    a, b, c = wide(anchor), wide(positive), wide(negative)

    def far(x, y):
        return p_norm(x - y + eps, float(p), -1 if x.ndim else ())
    near, away = far(a, b), far(a, c)
    if swap:
        away = jnp.minimum(away, far(b, c))
    v = margin + near - away
    return reduced(jnp.where(v >= 0, v, 0.0), reduction).astype(real_dtype(_common(anchor, positive, negative)))


@composite(where=NN)
def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None,
                        reduction="mean"):
    """max(0, d(a, p) - d(a, n) + margin), d the p-norm distance; `swap` also takes d(p, n) (torch.nn.functional.triplet_margin_loss)."""
    reduction = legacy(size_average, reduce, reduction)
    checked_reduction(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return _triplet_margin_loss(anchor, positive, negative, float(margin), float(p), float(eps), bool(swap), reduction)


@composite(where=NN)
def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False,
                                      reduction="mean"):
    """max(0, d(a, p) - d(a, n) + margin) with a given distance function (torch.nn.functional.triplet_margin_with_distance_loss)."""
    import lazy_tensor as lt
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = pairwise_distance if distance_function is None else distance_function
    check(anchor.dim() == positive.dim() == negative.dim(), "triplet_margin_with_distance_loss: The anchor, positive, and negative "
          f"tensors are expected to have the same number of dimensions, but got: {anchor.dim()}D, {positive.dim()}D, and "
          f"{negative.dim()}D inputs")
    near, away = distance(anchor, positive), distance(anchor, negative)
    if swap:
        away = lt.minimum(away, distance(positive, negative))
    loss = lt.clamp_min(margin + near - away, 0)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss

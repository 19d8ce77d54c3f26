"""Linear maps and table look-ups: linear, bilinear, embedding, embedding_bag, one_hot."""
from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import check, is_float
from lazy_tensor.ops._define import composite, op
from lazy_tensor.ops._nn import scale_grad, wide

NN = "nn.functional"


@op(where=NN, out=True)
def linear(input: Array, weight: Array, bias: Array | None = None):
    """input @ weight.T + bias: (*, in) x (out, in) -> (*, out); a 1-d weight (in) gives (*).

    Raises RuntimeError when sizes or dtypes do not fit (torch.nn.functional.linear)."""
    told = f"linear: given input {input.dtype.name}{list(input.shape)} and weight {weight.dtype.name}{list(weight.shape)}"
    check(input.ndim > 0 and weight.ndim in (1, 2), f"{told}; a weight of 1 or 2 dimensions and an input of at least 1 would fit")
    check(input.shape[-1] == weight.shape[-1],
          f"mat1 and mat2 shapes cannot be multiplied ({told}; an input of shape [*, {weight.shape[-1]}] would fit)")
    check(input.dtype == weight.dtype, f"expected m1 and m2 to have the same dtype, but got: {input.dtype.name} != "
          f"{weight.dtype.name} ({told})")
    r = jax.lax.dot_general(input, weight, (((input.ndim - 1,), (weight.ndim - 1,)), ((), ())))
    if bias is None:
        return r
    try:
        fits = np.broadcast_shapes(r.shape, bias.shape) == r.shape
    except ValueError:
        fits = False
    check(fits, f"{told}; the bias {list(bias.shape)} does not fit the output {list(r.shape)}")
    return (r + bias).astype(r.dtype)


@op(where=NN, alias=("bilinear",))
def bilinear(input1: Array, input2: Array, weight: Array, bias: Array | None = None):
    """y_o = x1 W_o x2 + b_o: (*, in1), (*, in2), weight (out, in1, in2) -> (*, out) (torch.nn.functional.bilinear)."""
    told = f"bilinear: given {list(input1.shape)}, {list(input2.shape)}, weight {list(weight.shape)}"
    check(input1.shape[:-1] == input2.shape[:-1], f"{told}; the inputs' leading dimensions must match")
    check(weight.ndim == 3 and weight.shape[1:] == (input1.shape[-1], input2.shape[-1]),
          f"{told}; a weight of shape [out, {input1.shape[-1]}, {input2.shape[-1]}] would fit")
    r = jnp.einsum("...i,oij,...j->...o", input1, weight, input2)
    return r if bias is None else (r + bias).astype(r.dtype)


# ------------------------------------------------------------------------------------------- embedding


def _rows(weight, index):
    """weight[index] by row; an index out of range is clipped (an accelerator cannot raise)."""
    return jnp.take(weight, index, axis=0, mode="clip")


def _counts(index, rows, dtype):
    flat = index.reshape(-1)
    count = jnp.zeros((rows,), dtype).at[flat].add(1, mode="drop")
    return jnp.maximum(jnp.take(count, index, mode="clip"), 1)


@op(where=None, name="embedding")
def _embedding(input: Array, weight: Array, padding_idx: int | None = None, scale_grad_by_freq: bool = False):
    check(input.dtype.kind == "i", "embedding: Expected tensor for argument 'indices' to have one of the following scalar types: "
          f"Long, Int; but got {input.dtype.name} instead")
    check(weight.ndim == 2, f"embedding: 'weight' must be 2-D, got {list(weight.shape)}")
    rows = _rows(weight, input)
    if scale_grad_by_freq:
        rows = scale_grad(rows, (1.0 / _counts(input, weight.shape[0], np.float32))[..., None].astype(rows.dtype))
    if padding_idx is not None and padding_idx >= 0:
        rows = jnp.where((input == padding_idx)[..., None], jax.lax.stop_gradient(rows), rows)
    return rows


@op(where=None)
def _renormed(weight: Array, index: Array, max_norm: float, norm_type: float):
    """weight with the rows named by index scaled to a norm of at most max_norm."""
    w = wide(weight)
    n = jnp.linalg.norm(w, norm_type, 1)
    hit = jnp.zeros((w.shape[0],), bool).at[index.reshape(-1)].set(True, mode="drop")
    scale = jnp.where(hit & (n > max_norm), max_norm / (n + 1e-7), 1.0)
    return (w * scale[:, None]).astype(weight.dtype)


def _renorm(weight, index, max_norm, norm_type):
    from lazy_tensor.modes import no_grad
    with no_grad():
        weight.copy_(_renormed(weight.detach(), index, float(max_norm), float(norm_type)))


def _padding(name, padding_idx, rows):
    if padding_idx is None:
        return None
    check(-rows <= padding_idx < rows, f"{name}: Padding_idx must be within num_embeddings (got {padding_idx} for {rows} rows)",
          AssertionError)
    return padding_idx % rows


@composite(where=NN)
def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """weight[input]: indices (*) and weight (rows, dim) -> (*, dim). Gradients are dense; `sparse` changes nothing.

    `padding_idx`: a row without gradient; `max_norm`: rows read are first renormed in place; `scale_grad_by_freq`:
    gradients divided by how often a row occurs (torch.nn.functional.embedding)."""
    check(weight.dim() == 2, f"'weight' must be 2-D, got {list(weight.shape)}")
    padding_idx = _padding("embedding", padding_idx, weight.shape[0])
    if max_norm is not None:
        _renorm(weight, input, max_norm, norm_type)
    return _embedding(input, weight, padding_idx, scale_grad_by_freq)


@composite(name="embedding")
def _embedding_top(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """weight[indices] by row (torch.embedding)."""
    return _embedding(indices, weight, padding_idx, scale_grad_by_freq)


@op(where=None)
def _bag(input: Array, weight: Array, offsets: Array | None, per_sample_weights: Array | None, mode: str,
         scale_grad_by_freq: bool, include_last_offset: bool, padding_idx: int | None):
    """(bags, bag of each index, bag sizes, index that gave each maximum)."""
    if input.ndim == 2:
        bags, flat = input.shape[0], input.reshape(-1)
        bag = jnp.repeat(jnp.arange(bags), input.shape[1], total_repeat_length=flat.shape[0])
    else:
        bags, flat = offsets.shape[0] - int(include_last_offset), input
        starts = offsets[:bags].astype(np.int64)
        bag = jnp.searchsorted(starts, jnp.arange(flat.shape[0], dtype=np.int64), side="right") - 1
        if include_last_offset:
            bag = jnp.where(jnp.arange(flat.shape[0]) < offsets[-1], bag, bags)
    used = jnp.ones(flat.shape, bool) if padding_idx is None else flat != padding_idx
    rows = wide(_rows(weight, flat))
    if scale_grad_by_freq:
        rows = scale_grad(rows, (1.0 / _counts(flat, weight.shape[0], np.float32))[:, None].astype(rows.dtype))
    if per_sample_weights is not None:
        rows = rows * wide(per_sample_weights).reshape(-1, 1)
    size = jax.ops.segment_sum(used.astype(np.int64), bag, bags)
    if mode == "max":
        lowest = jnp.where(used[:, None], rows, -jnp.inf)
        top = jax.ops.segment_max(jax.lax.stop_gradient(lowest), bag, bags)
        spot = jnp.arange(flat.shape[0])[:, None]
        n = flat.shape[0]
        hit = used[:, None] & (jax.lax.stop_gradient(rows) == jnp.take(top, bag, axis=0, mode="clip"))
        first = jax.ops.segment_min(jnp.where(hit, spot, n), bag, bags)
        found = (size > 0)[:, None]
        at = jnp.where(found, jnp.clip(first, 0, max(n - 1, 0)), 0)
        out = jnp.where(found, jnp.take_along_axis(rows, at, 0), 0.0) if n else jnp.zeros((bags, rows.shape[1]), rows.dtype)
        index = jnp.where(found, flat[at], 0) if n else jnp.zeros(out.shape, flat.dtype)
    else:
        out = jax.ops.segment_sum(jnp.where(used[:, None], rows, 0.0), bag, bags)
        if mode == "mean":
            out = out / jnp.maximum(size, 1).astype(out.dtype)[:, None]
        index = jnp.zeros((0,), flat.dtype)
    return out.astype(weight.dtype), bag.astype(np.int64), size, index


def _bag_checked(input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, per_sample_weights,
                 include_last_offset, padding_idx):
    told = f"embedding_bag: given input {list(input.shape)}, weight {list(weight.shape)}"
    check(mode in ("sum", "mean", "max"), f"embedding_bag: mode has to be one of sum, mean or max, got {mode!r}", ValueError)
    check(input.dtype.np.kind == "i", f"embedding_bag: indices must be Long or Int, got {input.dtype}")
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                             f"sequences. However, found offsets of {list(offsets.shape)} ({told})")
    elif input.dim() == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.dim() != 1:
            raise ValueError(f"offsets has to be a 1D Tensor, got {list(offsets.shape)}")
        check(not include_last_offset or offsets.shape[0] >= 1, f"{told}; include_last_offset needs at least one offset")
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if per_sample_weights is not None:
        if per_sample_weights.shape != input.shape:
            raise ValueError(f"embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is not None, then it must "
                             f"have the same shape as the input ({list(input.shape)})")
        if mode != "sum":
            raise NotImplementedError("embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
                                      f"mode='sum' (got mode='{mode}').")
        check(per_sample_weights.dtype == weight.dtype, f"embedding_bag: per_sample_weights ({per_sample_weights.dtype}) must have "
              f"the dtype of weight ({weight.dtype})")
    if padding_idx is not None:
        rows = weight.shape[0]
        check(-rows <= padding_idx < rows, f"embedding_bag: padding_idx must be within the number of embeddings, {rows}, "
              f"got {padding_idx}")
        padding_idx %= rows
    check(is_float(weight.dtype.np), f"embedding_bag: weight must be floating point, got {weight.dtype}")
    if max_norm is not None:
        _renorm(weight, input, max_norm, norm_type)
    return _bag(input, weight, offsets, per_sample_weights, mode, bool(scale_grad_by_freq), bool(include_last_offset), padding_idx)


@composite(where=NN)
def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean", sparse=False,
                  per_sample_weights=None, include_last_offset=False, padding_idx=None):
    """Sums, means or maxima of bags of rows of weight: (bags, dim). Bags are the rows of a 2-d input, or start at `offsets`.

    Gradients are dense; `sparse` changes nothing (torch.nn.functional.embedding_bag)."""
    if weight.dtype.np == np.int64 and input.dtype.is_floating_point:
        warnings.warn("Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
                      "deprecated, and should now be `embedding_bag(input, weight, ...)`.", stacklevel=2)
        weight, input = input, weight
    return _bag_checked(input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, per_sample_weights,
                        include_last_offset, padding_idx)[0]


@composite(name="embedding_bag")
def _embedding_bag_top(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None,
                       include_last_offset=False, padding_idx=None):
    """(bags, bag of each index, bag sizes, maxima's indices); mode 0 sum, 1 mean, 2 max (torch.embedding_bag)."""
    return _bag_checked(indices, weight, offsets, None, 2.0, scale_grad_by_freq, ("sum", "mean", "max")[mode],
                        per_sample_weights, include_last_offset, padding_idx)


@op(where=None, differentiable=False)
def _one_hot(input: Array, num_classes: int):
    return jax.nn.one_hot(input, num_classes, dtype=np.int64)


@composite(where=NN)
def one_hot(input, num_classes=-1):
    """int64 one-hot rows: (*) -> (*, num_classes); -1: the largest class + 1 (reads the data).

    RuntimeError for another dtype than int64 (torch.nn.functional.one_hot)."""
    check(input.dtype.np == np.int64, f"one_hot is only applicable to index tensor of type LongTensor, got {input.dtype}")
    if input.numel() == 0:
        check(num_classes > 0, "Can not infer total number of classes from empty tensor.")
    elif num_classes == -1:
        classes = input._host()
        check(classes.min() >= 0, "Class values must be non-negative.")
        num_classes = int(classes.max()) + 1
    check(num_classes >= 1, f"num_classes should be positive, got {num_classes}")
    return _one_hot(input, num_classes)

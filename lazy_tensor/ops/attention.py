"""Attention: scaled_dot_product_attention as one op, multi_head_attention_forward over it."""
from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import broadcast_shapes, check, is_bool, is_float
from lazy_tensor.ops._define import composite, op
from lazy_tensor.ops._nn import wide

NN = "nn.functional"


@op(where=NN)
def scaled_dot_product_attention(query: Array, key: Array, value: Array, attn_mask: Array | None = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
                                 *, rng: Key | None):
    """softmax(query key^T scale + mask) value: (..., L, E), (..., S, E), (..., S, V) -> (..., L, V).

    attn_mask: bool (True takes part) or a float addend, broadcast to (..., L, S); is_causal: position i sees j <= i; scale
    None: 1 / sqrt(E); enable_gqa: dimension -3 of query may be a multiple of key's and value's. Rows that see nothing give 0.
    RuntimeError when shapes or dtypes do not fit (torch.nn.functional.scaled_dot_product_attention)."""
    told = f"scaled_dot_product_attention: given query {query.dtype.name}{list(query.shape)}, key {key.dtype.name}" \
           f"{list(key.shape)}, value {value.dtype.name}{list(value.shape)}"
    check(query.dtype == key.dtype == value.dtype, f"{told}; Expected query, key, and value to have the same dtype")
    check(min(query.ndim, key.ndim, value.ndim) >= 2, f"{told}; Expected query, key, and value to all be at least 2 dimensional")
    check(is_float(query.dtype), f"{told}; floating point tensors would fit")
    check(not (is_causal and attn_mask is not None), "scaled_dot_product_attention: Explicit attn_mask should not be set when "
          "is_causal=True")
    check(query.shape[-1] == key.shape[-1], f"{told}; query and key must have the same last dimension")
    check(key.shape[-2] == value.shape[-2], f"{told}; key and value must have the same length (dimension -2)")
    check(attn_mask is None or is_bool(attn_mask.dtype) or attn_mask.dtype == query.dtype or is_float(attn_mask.dtype),
          f"Expected attn_mask dtype to be bool or float or to match query dtype ({told})")
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    groups = 1
    if enable_gqa and query.ndim >= 3:
        h = query.shape[-3]
        check(h % key.shape[-3] == 0 and h % value.shape[-3] == 0 and key.shape[-3] == value.shape[-3],
              f"{told}; Expected the number of heads in key and value to match and to divide the number of heads in query")
        groups = h // key.shape[-3]
    lead = broadcast_shapes(query.shape[:-2], _grouped(key, groups), _grouped(value, groups))
    length, other, depth = query.shape[-2], key.shape[-2], value.shape[-1]
    q = jnp.broadcast_to(query, (*lead, *query.shape[-2:]))
    if groups > 1:  # the query heads of a group share key and value, which are not repeated
        heads = lead[-1] // groups
        k = jnp.broadcast_to(key, (*lead[:-1], heads, *key.shape[-2:]))
        v = jnp.broadcast_to(value, (*lead[:-1], heads, *value.shape[-2:]))
        q = q.reshape(*lead[:-1], heads, groups * length, q.shape[-1])
    else:
        k = jnp.broadcast_to(key, (*lead, *key.shape[-2:]))
        v = jnp.broadcast_to(value, (*lead, *value.shape[-2:]))
    batch = tuple(range(q.ndim - 2))
    last = q.ndim - 1
    half = q.dtype.itemsize < 4
    scores = jax.lax.dot_general(q * jnp.asarray(scale).astype(q.dtype) if not half else q, k, (((last,), (last,)), (batch, batch)),
                                 preferred_element_type=np.float32 if half else q.dtype)
    if half:
        scores = scores * scale
    scores = scores.reshape(*lead, length, other)
    masked = None
    if is_causal:
        masked = jnp.tril(jnp.ones((length, other), bool))
    elif attn_mask is not None:
        check(_fits(attn_mask.shape, scores.shape), f"{told}; attn_mask of shape {list(attn_mask.shape)} does not broadcast to "
              f"{list(scores.shape)}")
        if is_bool(attn_mask.dtype):
            masked = attn_mask
        else:
            scores = scores + wide(attn_mask).astype(scores.dtype)
    if masked is not None:
        scores = jnp.where(masked, scores, -jnp.inf)
    weights = _softmax(scores, masked is not None or attn_mask is not None)
    if rng is not None and dropout_p > 0:
        keep = jax.random.bernoulli(rng, np.float32(1 - dropout_p), weights.shape)
        weights = jnp.where(keep, weights * (1 / (1 - dropout_p) if dropout_p < 1 else 0.0), 0.0)
    weights = weights.astype(v.dtype)
    if groups > 1:
        weights = weights.reshape(*lead[:-1], heads, groups * length, other)
    out = jax.lax.dot_general(weights, v, (((last,), (last - 1,)), (batch, batch)))
    return out.reshape(*lead, length, depth)


def _softmax(scores, may_be_empty):
    """softmax over the last dimension; rows of minus infinities give 0."""
    if not may_be_empty or not scores.size:
        return jax.nn.softmax(scores, -1)
    top = jax.lax.stop_gradient(jnp.max(scores, -1, keepdims=True))
    empty = top == -jnp.inf
    safe = jnp.where(empty, 0.0, scores)
    return jnp.where(empty, 0.0, jax.nn.softmax(safe, -1))


def _grouped(x, groups):
    s = x.shape[:-2]
    return s if groups == 1 else (*s[:-1], s[-1] * groups)


def _fits(shape, full):
    return len(shape) <= len(full) and all(a in (1, b) for a, b in zip(shape[::-1], full[::-1], strict=False))


# ------------------------------------------------------------------------------------------- multi-head attention


def _float_mask(mask, name, dtype):
    """A bool mask (True: left out) as a float addend; a float mask as it is."""
    import lazy_tensor as lt
    if mask is None:
        return None
    if mask.dtype == lt.bool:
        return lt.zeros(tuple(mask.shape), dtype=dtype, device=mask.device).masked_fill(mask, float("-inf"))
    check(mask.dtype.is_floating_point, f"multi_head_attention_forward: only bool and floating types of {name} are supported")
    return mask


def _project(query, key, value, w, b):
    """The packed input projection: one matmul for self-attention, two when key is value."""
    from lazy_tensor.ops.linear import linear
    e = query.shape[-1]
    if key is value:
        if query is key:
            p = linear(query, w, b)
            return p[..., :e], p[..., e:2 * e], p[..., 2 * e:]
        q = linear(query, w[:e], None if b is None else b[:e])
        p = linear(key, w[e:], None if b is None else b[e:])
        return q, p[..., :e], p[..., e:]
    return tuple(linear(x, w[i * e:(i + 1) * e], None if b is None else b[i * e:(i + 1) * e])
                 for i, x in enumerate((query, key, value)))


@composite(where=NN)
def multi_head_attention_forward(query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v,
                                 add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, training=True, key_padding_mask=None,
                                 need_weights=True, attn_mask=None, use_separate_proj_weight=False, q_proj_weight=None,
                                 k_proj_weight=None, v_proj_weight=None, static_k=None, static_v=None, average_attn_weights=True,
                                 is_causal=False):
    """(output, attention weights or None) of multi-head attention; query (L, N, E) or (L, E), key and value (S, N, E) or (S, E).

    (torch.nn.functional.multi_head_attention_forward; Vaswani et al., arXiv:1706.03762)"""
    import lazy_tensor as lt
    from lazy_tensor.ops.activation import softmax
    from lazy_tensor.ops.dropout import dropout
    from lazy_tensor.ops.linear import linear
    told = f"multi_head_attention_forward: given query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)}"
    batched = query.dim() == 3
    check(query.dim() in (2, 3), f"{told}; query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D", AssertionError)
    check(key.dim() == query.dim() and value.dim() == query.dim(), f"{told}; key and value must have query's number of dimensions",
          AssertionError)
    if key_padding_mask is not None:
        check(key_padding_mask.dim() == query.dim() - 1, f"{told}; key_padding_mask of {query.dim() - 1} dimensions would fit, got "
              f"{key_padding_mask.dim()}", AssertionError)
    if attn_mask is not None:
        check(attn_mask.dim() in (2, 3), f"{told}; Expected `attn_mask` to be None, 2-D or 3-D but got {attn_mask.dim()}-D",
              AssertionError)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None
    else:
        is_causal = False if attn_mask is not None else is_causal
    if not batched:
        same_kv, same_qk = key is value, query is key
        query = query.unsqueeze(1)
        key = query if same_qk else key.unsqueeze(1)
        value = key if same_kv else value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, n, e = query.shape
    check(e == embed_dim_to_check, f"was expecting embedding dimension of {embed_dim_to_check}, but got {e} ({told})", AssertionError)
    check(e % num_heads == 0, f"embed_dim {e} not divisible by num_heads {num_heads}", AssertionError)
    d = e // num_heads
    if use_separate_proj_weight:
        check(key.shape[:2] == value.shape[:2], f"{told}; key's and value's sequence and batch dims must match", AssertionError)
        for w, what in ((q_proj_weight, "q"), (k_proj_weight, "k"), (v_proj_weight, "v")):
            check(w is not None, f"use_separate_proj_weight is True but {what}_proj_weight is None", AssertionError)
        b = (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
        q, k, v = (linear(x, w, c) for x, w, c in zip((query, key, value), (q_proj_weight, k_proj_weight, v_proj_weight), b,
                                                      strict=True))
    else:
        check(key.shape == value.shape, f"key shape {list(key.shape)} does not match value shape {list(value.shape)}", AssertionError)
        check(in_proj_weight is not None, "use_separate_proj_weight is False but in_proj_weight is None", AssertionError)
        q, k, v = _project(query, key, value, in_proj_weight, in_proj_bias)
    if attn_mask is not None:
        want = (length, key.shape[0])
        if attn_mask.dim() == 2:
            check(tuple(attn_mask.shape) == want, f"The shape of the 2D attn_mask is {list(attn_mask.shape)}, but should be {want}.")
            attn_mask = attn_mask.unsqueeze(0)
        else:
            check(tuple(attn_mask.shape) == (n * num_heads, *want),
                  f"The shape of the 3D attn_mask is {list(attn_mask.shape)}, but should be {(n * num_heads, *want)}.")
    attn_mask = _float_mask(attn_mask, "attn_mask", q.dtype)
    key_padding_mask = _float_mask(key_padding_mask, "key_padding_mask", q.dtype)

    def extend(mask):
        return None if mask is None else lt.nn.functional.pad(mask, (0, 1))
    check((bias_k is None) == (bias_v is None), "multi_head_attention_forward: bias_k and bias_v go together", AssertionError)
    if bias_k is not None:
        check(static_k is None and static_v is None, "bias cannot be added to static key or value", AssertionError)
        k, v = lt.cat([k, bias_k.expand(1, n, e)]), lt.cat([v, bias_v.expand(1, n, e)])
        attn_mask, key_padding_mask = extend(attn_mask), extend(key_padding_mask)
    q = q.reshape(length, n * num_heads, d).transpose(0, 1)
    k = k.reshape(k.shape[0], n * num_heads, d).transpose(0, 1) if static_k is None else static_k
    v = v.reshape(v.shape[0], n * num_heads, d).transpose(0, 1) if static_v is None else static_v
    if add_zero_attn:
        zeros = lt.zeros((n * num_heads, 1, d), dtype=k.dtype, device=k.device)
        k, v = lt.cat([k, zeros], dim=1), lt.cat([v, zeros], dim=1)
        attn_mask, key_padding_mask = extend(attn_mask), extend(key_padding_mask)
    source = k.shape[1]
    if key_padding_mask is not None:
        check(tuple(key_padding_mask.shape) == (n, source), f"expecting key_padding_mask shape of {(n, source)}, but got "
              f"{list(key_padding_mask.shape)} ({told})", AssertionError)
        pad = key_padding_mask.reshape(n, 1, 1, source).expand(n, num_heads, 1, source).reshape(n * num_heads, 1, source)
        attn_mask = pad if attn_mask is None else attn_mask + pad
    p = dropout_p if training else 0.0
    if need_weights:
        scores = (q * math.sqrt(1.0 / d)) @ k.transpose(-2, -1)
        weights = softmax(scores if attn_mask is None else scores + attn_mask, -1)
        weights = dropout(weights, p) if p > 0 else weights
        out = weights @ v
        out = linear(out.transpose(0, 1).reshape(length * n, e), out_proj_weight, out_proj_bias)
        out = out.reshape(length, n, out.shape[1])
        weights = weights.reshape(n, num_heads, length, source)
        if average_attn_weights:
            weights = weights.mean(dim=1)
        return (out, weights) if batched else (out.squeeze(1), weights.squeeze(0))
    if attn_mask is not None:
        attn_mask = attn_mask.unsqueeze(0) if attn_mask.shape[0] == 1 else attn_mask.reshape(n, num_heads, -1, source)
    out = scaled_dot_product_attention(q.reshape(n, num_heads, length, d), k.reshape(n, num_heads, source, d),
                                       v.reshape(n, num_heads, source, d), attn_mask, p, is_causal)
    out = linear(out.permute(2, 0, 1, 3).reshape(length * n, e), out_proj_weight, out_proj_bias)
    out = out.reshape(length, n, out.shape[1])
    return (out if batched else out.squeeze(1)), None

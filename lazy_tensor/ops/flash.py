"""Flash attention: Pallas's kernel on TPUs, jax.nn's attention elsewhere; behind torch_xla's `custom_kernel.flash_attention`."""
from __future__ import annotations

import jax
import jax.numpy as jnp

from lazy_tensor.ops._common import check
from lazy_tensor.ops._define import op
from xla_backend._jax import x64


def _xla(q, k, v, segments, ab, causal, scale):
    mask = None if segments is None else (segments[0][:, :, None] == segments[1][:, None, :])[:, None]
    heads_last = [jnp.swapaxes(x, 1, 2) for x in (q, k, v)]
    out = jax.nn.dot_product_attention(*heads_last, bias=ab, mask=mask, scale=scale, is_causal=causal)
    return jnp.swapaxes(out, 1, 2)


def _pallas(q, k, v, segments, ab, causal, scale):
    """Pallas's kernel and its gradient, each traced in 32 bits: Mosaic takes no 64-bit index arithmetic."""
    from jax.experimental.pallas.ops.tpu import flash_attention as flash

    def of(segments):
        ids = None if segments is None else flash.SegmentIds(*segments)
        return lambda q, k, v, ab: flash.flash_attention(q, k, v, ab, ids, causal=causal, sm_scale=scale)

    @jax.custom_vjp
    def attend(q, k, v, ab, segments):
        with x64(False):
            return of(segments)(q, k, v, ab)

    def forward(q, k, v, ab, segments):
        with x64(False):
            return jax.vjp(of(segments), q, k, v, ab)

    def backward(vjp, ct):
        with x64(False):
            return (*vjp(ct), None)
    attend.defvjp(forward, backward)
    return attend(q, k, v, ab, segments)


@op(where=None)
def flash_attention(query: Array, key: Array, value: Array, q_segment_ids: Array | None, kv_segment_ids: Array | None, ab: Array | None,
                    causal: bool, sm_scale: float, kernel: bool):
    """softmax(sm_scale query key^T + ab) value for (batch, heads, length, depth); `kernel`: Pallas's kernel may be used on TPUs."""
    told = f"flash_attention: given q {query.dtype.name}{list(query.shape)}, k {key.dtype.name}{list(key.shape)}, " \
           f"v {value.dtype.name}{list(value.shape)}"
    check(query.ndim == key.ndim == value.ndim == 4 and query.shape[:2] == key.shape[:2] == value.shape[:2]
          and query.shape[3] == key.shape[3] == value.shape[3] and key.shape[2] == value.shape[2] and query.dtype == key.dtype == value.dtype,
          f"{told}; q (batch, heads, L, D) and k, v (batch, heads, S, D) of one dtype would fit", ValueError)
    segments = None if q_segment_ids is None else (q_segment_ids.astype(jnp.int32), kv_segment_ids.astype(jnp.int32))
    blocks = query.shape[2] % 128 == 0 and key.shape[2] % 128 == 0 and query.dtype.name in ("float32", "bfloat16")

    def plain(q, k, v, segments, ab):
        return _xla(q, k, v, segments, ab, causal, sm_scale)

    def on_tpu(q, k, v, segments, ab):
        return _pallas(q, k, v, segments, ab, causal, sm_scale)
    if not (kernel and blocks):
        return plain(query, key, value, segments, ab)
    return jax.lax.platform_dependent(query, key, value, segments, ab, tpu=on_tpu, default=plain)

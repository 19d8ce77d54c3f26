"""torch_xla.experimental.custom_kernel: attention by Pallas's kernel on TPUs and by XLA elsewhere."""
from __future__ import annotations


def flash_attention(q, k, v, causal: bool = False, q_segment_ids=None, kv_segment_ids=None, sm_scale: float = 1.0, *, ab=None,
                    partition_spec=None, mesh=None):
    """softmax(sm_scale q k^T + ab) v for q (batch, heads, L, D) and k, v (batch, heads, S, D); gradients flow to q, k, v and ab.

    causal: position i sees j <= i. q_segment_ids (batch, L), kv_segment_ids (batch, S): positions see those of their own segment.
    ab: an addend of shape (batch, heads, L, S). partition_spec, mesh: how the inputs are sharded, four names or axis numbers of a
    mesh; XLA divides the work along them. Mind that sm_scale is 1 unless given. On TPUs, where L, S are multiples of 128 and the
    dtype is float32 or bfloat16, it is jax's Pallas kernel; elsewhere XLA's operations.

    Raises ValueError when only one of the segment ids is given. Source: Dao et al. 2022; torch_xla's function.

    Example::

        flash_attention(q, k, v, causal=True, sm_scale=q.shape[-1] ** -0.5)
    """
    from lazy_tensor.ops.flash import flash_attention as op
    if (q_segment_ids is None) != (kv_segment_ids is None):
        raise ValueError("flash_attention: q_segment_ids and kv_segment_ids go together; one of them is None")
    if partition_spec is not None and len(partition_spec) != 4:
        raise ValueError(f"flash_attention: partition_spec {tuple(partition_spec)} must have 4 entries, one for each of (batch, heads, length, depth)")
    return op(q, k, v, q_segment_ids, kv_segment_ids, ab, bool(causal), float(sm_scale), mesh is None and partition_spec is None)


class FlashAttention:
    """`FlashAttention.apply(q, k, v, causal, q_segment_ids, kv_segment_ids, sm_scale, ab, partition_spec, mesh)`: the function's old name."""

    @staticmethod
    def apply(q, k, v, causal=False, q_segment_ids=None, kv_segment_ids=None, sm_scale=1.0, ab=None, partition_spec=None, mesh=None):
        """`flash_attention`."""
        return flash_attention(q, k, v, causal, q_segment_ids, kv_segment_ids, sm_scale, ab=ab, partition_spec=partition_spec, mesh=mesh)

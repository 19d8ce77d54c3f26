"""A fence that XLA's common-subexpression elimination does not see through: what checkpointing recomputes behind."""
from __future__ import annotations

import jax

from lazy_tensor.ops._define import op


@jax.custom_jvp
def _fence(arrays):
    return jax.lax.optimization_barrier(arrays)


@_fence.defjvp
def _fence_jvp(primals, tangents):
    return _fence(*primals), tangents[0]


@op(where=None, residuals="recompute")
def barrier(tensors: Arrays):
    """The same tensors, none of which XLA computes before all of them are there, nor merges with equal ones elsewhere.

    Shapes and dtypes are kept; the gradient is the identity (jax.lax.optimization_barrier)."""
    return tuple(_fence(tuple(tensors)))

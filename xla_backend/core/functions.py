"""torch_xla.core.functions: collectives through which gradients flow."""
from __future__ import annotations

from xla_backend.core import xla_model as xm


def all_reduce(reduce_type: str, value, scale: float = 1.0, groups=None, cctx=None, pin_layout: bool = True):
    """value reduced over the replicas, times scale; the gradient is reduced in the same way (sum)."""
    if reduce_type != xm.REDUCE_SUM:
        raise RuntimeError(f"all_reduce with a gradient: reduce_type must be {xm.REDUCE_SUM!r}, got {reduce_type!r}")
    return xm.all_reduce(reduce_type, value, scale, groups, cctx, pin_layout)


def all_gather(value, dim: int = 0):
    """Every replica's value concatenated along dim; the gradient is this replica's part of the sum."""
    return xm.all_gather(value, dim)

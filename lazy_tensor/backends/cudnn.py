"""torch.backends.cudnn: `benchmark`, `deterministic`, `enabled` are kept; XLA tunes its own convolutions, and its
programs give the same bits from run to run unless it is told otherwise."""
from __future__ import annotations

from lazy_tensor.backends._flags import changed, set_tf32, switches, tf32


def is_available() -> bool:
    """False: no cuDNN that a user could switch."""
    return False


def version():
    """None: no cuDNN."""
    return None


def is_acceptable(tensor) -> bool:
    """False."""
    return False


def flags(enabled=None, benchmark=None, benchmark_limit=None, deterministic=None, allow_tf32=None, fp32_precision=None):
    """Switches at other values within a block."""
    return changed(__name__, enabled=enabled, benchmark=benchmark, deterministic=deterministic, allow_tf32=allow_tf32)


def set_flags(_enabled=None, _benchmark=None, _benchmark_limit=None, _deterministic=None, _allow_tf32=None):
    """Set several switches; returns their values before."""
    import sys
    m = sys.modules[__name__]
    before = m.enabled, m.benchmark, m.benchmark_limit, m.deterministic, m.allow_tf32
    for k, v in (("enabled", _enabled), ("benchmark", _benchmark), ("deterministic", _deterministic), ("allow_tf32", _allow_tf32)):
        if v is not None:
            setattr(m, k, v)
    return before


switches(__name__, enabled=True, benchmark=False, deterministic=False, benchmark_limit=10, allow_tf32=(tf32, set_tf32))

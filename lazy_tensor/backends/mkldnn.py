"""torch.backends.mkldnn: oneDNN is not called by name; XLA:CPU may use it."""
from __future__ import annotations

from lazy_tensor.backends._flags import changed, switches


def is_available() -> bool:
    """False."""
    return False


def flags(enabled=False, deterministic=False, allow_tf32=True, fp32_precision="none"):
    """Switches at other values within a block."""
    return changed(__name__, enabled=enabled, deterministic=deterministic)


switches(__name__, enabled=True, deterministic=False)

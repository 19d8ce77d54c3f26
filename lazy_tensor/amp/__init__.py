"""torch.amp: autocast and GradScaler. Which ops are cast down and up is listed in `lazy_tensor.ops._autocast`."""
from __future__ import annotations

from lazy_tensor.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from lazy_tensor.amp.grad_scaler import GradScaler

__all__ = ["autocast", "GradScaler", "custom_fwd", "custom_bwd", "is_autocast_available"]

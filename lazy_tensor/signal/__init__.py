"""torch.signal: window functions in `signal.windows`."""
from __future__ import annotations

from lazy_tensor.signal import windows

__all__ = ["windows"]

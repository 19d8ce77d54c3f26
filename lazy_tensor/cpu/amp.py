"""torch.cpu.amp: autocast on the host."""
from __future__ import annotations

from lazy_tensor.amp import autocast as _autocast


class autocast(_autocast):
    """`lt.amp.autocast("cpu", ...)`: bfloat16 unless dtype is given."""

    def __init__(self, enabled=True, dtype=None, cache_enabled=True):
        super().__init__("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

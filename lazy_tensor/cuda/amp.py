"""torch.cuda.amp: `autocast()` and `GradScaler()` for scripts written for one GPU; they act on XLA devices."""
from __future__ import annotations

from lazy_tensor.amp import GradScaler as _Scaler
from lazy_tensor.amp import autocast as _autocast


class autocast(_autocast):
    """`lt.amp.autocast("xla", ...)`: the accelerator's lower precision (bfloat16 unless dtype is given)."""

    def __init__(self, enabled=True, dtype=None, cache_enabled=True):
        super().__init__("xla", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(_Scaler):
    """`lt.amp.GradScaler("xla", ...)`."""

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        super().__init__("xla", init_scale=init_scale, growth_factor=growth_factor, backoff_factor=backoff_factor,
                         growth_interval=growth_interval, enabled=enabled)


def custom_fwd(fwd=None, *, cast_inputs=None):
    """Decorator of a Function's forward under autocast (see lt.amp.custom_fwd)."""
    from lazy_tensor import amp
    return amp.custom_fwd(fwd, device_type="xla", cast_inputs=cast_inputs)


def custom_bwd(bwd=None):
    """Decorator of a Function's backward under autocast (see lt.amp.custom_bwd)."""
    from lazy_tensor import amp
    return amp.custom_bwd(bwd, device_type="xla")

"""torch.backends.cuda: `matmul.allow_tf32` sets the float32 precision; which attention kernel runs is XLA's choice."""
from __future__ import annotations

import contextlib

from lazy_tensor.backends._flags import set_tf32, tf32


class _Matmul:
    """torch.backends.cuda.matmul."""

    def __init__(self):
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_bf16_reduced_precision_reduction = True

    @property
    def allow_tf32(self) -> bool:
        """Whether float32 matrix products may lose precision (`lt.set_float32_matmul_precision`)."""
        return tf32()

    @allow_tf32.setter
    def allow_tf32(self, value):
        set_tf32(value)


matmul = _Matmul()
_sdp = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """False."""
    return False


def flash_sdp_enabled() -> bool:
    """The switch that `enable_flash_sdp` set."""
    return _sdp["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Noted."""
    _sdp["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """The switch that `enable_mem_efficient_sdp` set."""
    return _sdp["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Noted."""
    _sdp["mem_efficient"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """The switch that `enable_math_sdp` set."""
    return _sdp["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Noted."""
    _sdp["math"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """The switch that `enable_cudnn_sdp` set."""
    return _sdp["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Noted."""
    _sdp["cudnn"] = bool(enabled)


@contextlib.contextmanager
def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """Attention switches at other values within a block."""
    before = dict(_sdp)
    _sdp.update(flash=bool(enable_flash), math=bool(enable_math), mem_efficient=bool(enable_mem_efficient), cudnn=bool(enable_cudnn))
    try:
        yield {}
    finally:
        _sdp.update(before)

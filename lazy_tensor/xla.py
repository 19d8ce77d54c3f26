"""torch.xla: the accelerator under its own name, with torch.cuda's queries."""
from __future__ import annotations

from lazy_tensor.accelerator import current_device_index as current_device
from lazy_tensor.accelerator import device_count, empty_cache, is_available, max_memory_allocated, memory_allocated, synchronize
from lazy_tensor.accelerator import set_device_index as set_device
from lazy_tensor.random import get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from xla_backend import runtime

__all__ = ["current_device", "device_count", "empty_cache", "get_device_name", "get_rng_state", "initial_seed", "is_available",
           "is_bf16_supported", "manual_seed", "manual_seed_all", "max_memory_allocated", "memory_allocated", "seed", "set_device",
           "set_rng_state", "synchronize"]

manual_seed_all = manual_seed


def get_device_name(device=None) -> str:
    """The hardware's name, such as "TPU v4", "NVIDIA H100" or "cpu"."""
    from lazy_tensor.devices import resolve
    return resolve("xla" if device is None else device).jax_device.device_kind


def is_bf16_supported() -> bool:
    """True: XLA computes in bfloat16 on every device."""
    return bool(runtime.xla_devices())

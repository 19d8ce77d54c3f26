"""torch.mps on a machine that has none: counts and memory are 0, seeds seed our stream."""
from __future__ import annotations

from lazy_tensor import settings
from lazy_tensor.random import get_rng_state, manual_seed, seed, set_rng_state

__all__ = ["current_allocated_memory", "device_count", "driver_allocated_memory", "empty_cache", "get_rng_state", "is_available",
           "manual_seed", "seed", "set_rng_state", "synchronize"]


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def empty_cache() -> None:
    """Nothing: no such memory is cached."""


def synchronize() -> None:
    """Run what is recorded and wait until the devices are done."""
    settings.sync(wait=True)


def current_allocated_memory() -> int:
    """0."""
    return 0


driver_allocated_memory = current_allocated_memory

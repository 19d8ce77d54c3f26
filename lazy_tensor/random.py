"""torch.random: the default stream; one for all devices."""
from __future__ import annotations

import contextlib

from lazy_tensor.settings import default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state",
           "thread_safe_generator"]


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type="xla"):
    """A block after which the random stream goes on as if nothing had been drawn in it.

    devices and device_type are not needed: one stream serves all devices."""
    if not enabled:
        yield
        return
    state = default_generator._seed, default_generator._count
    try:
        yield
    finally:
        default_generator._seed, default_generator._count = state


def thread_safe_generator():
    """None: draws of the default stream are numbered, and a data loader's workers get seeds of their own."""
    return None

"""torch.cpu: the host as a device."""
from __future__ import annotations

import contextlib

from lazy_tensor import settings

__all__ = ["amp", "current_stream", "device_count", "is_available", "synchronize"]


def is_available() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """"cpu"."""
    return "cpu"


def set_device(device) -> None:
    """Nothing: there is one host."""


def synchronize(device=None) -> None:
    """Run what is recorded and wait for it."""
    settings.sync("cpu", wait=True)


class Stream:
    """The host's one queue of work."""

    def __init__(self, priority: int = -1):
        self.priority = priority

    def wait_stream(self, stream):
        """Nothing: work runs in order."""


_stream = Stream()


def current_stream(device=None) -> Stream:
    """The one queue."""
    return _stream


def stream(stream):
    """A context for work on a stream: nothing changes."""
    return contextlib.nullcontext(stream)


def __getattr__(name):
    if name == "amp":
        import importlib
        return importlib.import_module("lazy_tensor.cpu.amp")
    raise AttributeError(f"module 'torch.cpu' has no attribute {name!r} here")

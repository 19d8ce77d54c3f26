"""`device`: what a user names; which runtime device it means."""
from __future__ import annotations

import threading

from xla_backend import runtime

_KINDS = ("cpu", "xla")


class device:
    """Where a tensor lives: `device("xla")`, `device("xla:1")`, `device("xla", 1)`, `device("cpu")`."""

    __slots__ = ("type", "index")

    def __init__(self, type, index=None):
        if isinstance(type, device):
            type, index = type.type, type.index if index is None else index
        elif isinstance(type, int):
            type, index = "xla", type
        elif isinstance(type, str):
            if ":" in type:
                if index is not None:
                    raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {type}")
                type, _, text = type.partition(":")
                if not text.isdigit():
                    raise RuntimeError(f"Invalid device string: '{type}:{text}'")
                index = int(text)
        else:
            raise TypeError(f"device(): argument 'type' must be str, not {type.__class__.__name__}")
        if type == "cuda":
            raise RuntimeError("no CUDA device here: this library runs on XLA devices; use device='xla' "
                               "(it is the GPU where jax finds one)")
        if type == "meta":
            raise NotImplementedError("device 'meta' is not supported; shapes are inferred without running anything, "
                                      "so device='xla' costs nothing until a value is asked for")
        if type not in _KINDS:
            raise RuntimeError(f"Expected one of cpu, xla device type at start of device string: {type}")
        self.type, self.index = type, index

    def __repr__(self):
        return f"device(type='{self.type}'" + (f", index={self.index})" if self.index is not None else ")")

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other):
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self):
        return hash((self.type, self.index))

    def __reduce__(self):
        return device, (self.type, self.index)

    def __enter__(self):
        _stack().append(_local.default)
        _local.default = self
        return self

    def __exit__(self, *exc):
        _local.default = _stack().pop()


class _Local(threading.local):
    default: device | None = None


_local = _Local()


def _stack():
    if not hasattr(_local, "stack"):
        _local.stack = []
    return _local.stack


def set_default_device(d) -> None:
    """The device of new tensors in this thread; None means cpu."""
    _local.default = None if d is None else device(d)


def get_default_device() -> device:
    """The device on which new tensors are made."""
    return _local.default if _local.default is not None else device("cpu")


_found: dict = {}


def resolve(d) -> runtime.Device:
    """The runtime device of None, a string, an int or a `device`."""
    if d is None:
        d = _local.default
        if d is None:
            return runtime.device("cpu", 0)
    if isinstance(d, runtime.Device):
        return d
    if d.__class__ is not device:
        d = device(d)
    if d.type == "cpu":
        return runtime.device("cpu", 0 if d.index is None else d.index)
    return runtime.device(d.type, d.index)


def public(dev: runtime.Device) -> device:
    """The user's object for a runtime device."""
    if dev.public is None:
        dev.public = device("cpu") if dev.host else device(dev.kind, dev.index)
    return dev.public

"""xla_backend: the machine under `lazy_tensor`, and PyTorch/XLA's API at its own module paths.

Rooms: `graph` (what is recorded) <- `kernel` (configurations, gradients) <- `compile` <- `program` (a sync);
`runtime` (devices, transfers), `random`, `metrics`, `debug` beside them. None of these knows PyTorch. The
torch_xla-compatible modules (`core`, `distributed`, `debug.metrics`, `utils`, `amp`, `api`, ...) are thin and import the
front end when called.
"""
from __future__ import annotations

import importlib as _importlib

__version__ = "0.1.0"
_API = ("device", "devices", "real_devices", "device_count", "sync", "step", "manual_seed")
_ROOMS = ("_internal", "core", "distributed", "debug", "utils", "amp", "experimental", "runtime", "compile", "launch", "_XLAC", "test")


def __getattr__(name):
    if name in _API:
        return getattr(_importlib.import_module("xla_backend.api"), name)
    if name in _ROOMS:
        return _importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'xla_backend' has no attribute {name!r}: torch_xla.{name} is not implemented here")


def __dir__():
    return sorted({*globals(), *_API, *_ROOMS})

"""Modules whose attributes are switches: values are checked when they are set, and unknown names are errors."""
from __future__ import annotations

import contextlib
import sys
import types

from lazy_tensor import settings


def tf32() -> bool:
    """Whether float32 matrix products may lose precision."""
    return settings.get_float32_matmul_precision() != "highest"


def set_tf32(value) -> None:
    """allow_tf32 = value: precision "high" or "highest"."""
    settings.set_float32_matmul_precision("high" if value else "highest")


def switches(module_name, **defaults):
    """Make a module's names in `defaults` switches of their default's type; `(get, set)` pairs are properties."""
    module = sys.modules[module_name]

    def __setattr__(self, name, value):
        now = defaults.get(name)
        if isinstance(now, tuple):
            now[1](value)
            return
        if now is not None and not isinstance(value, type(now)):
            raise RuntimeError(f"{module_name.replace('lazy_tensor', 'torch')}.{name}: expected {type(now).__name__}, "
                               f"got {type(value).__name__}")
        types.ModuleType.__setattr__(self, name, value)

    body = {"__setattr__": __setattr__}
    for name, default in defaults.items():
        if isinstance(default, tuple):
            body[name] = property(lambda self, get=default[0]: get())
        else:
            module.__dict__[name] = default
    module.__class__ = type("Switches", (types.ModuleType,), body)


@contextlib.contextmanager
def changed(module_name, **values):
    """Switches at other values within a block; None leaves one as it is."""
    module = sys.modules[module_name]
    before = {k: getattr(module, k) for k, v in values.items() if v is not None}
    try:
        for k in before:
            setattr(module, k, values[k])
        yield
    finally:
        for k, v in before.items():
            setattr(module, k, v)

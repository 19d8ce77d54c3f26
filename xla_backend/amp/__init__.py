"""torch_xla.amp: autocast and loss scaling of `lazy_tensor.amp`, by torch_xla's signatures."""
from __future__ import annotations


def __getattr__(name):
    if name == "autocast":
        return _autocast
    if name == "GradScaler":
        from lazy_tensor.amp import GradScaler
        return GradScaler
    if name == "syncfree":
        import importlib
        return importlib.import_module("xla_backend.amp.syncfree")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _autocast(device="xla", enabled: bool = True, dtype=None, cache_enabled: bool | None = True):
    """Autocast for a device (`xm.xla_device()`, or its type): bfloat16 on XLA devices unless dtype says otherwise."""
    import lazy_tensor as lt
    from lazy_tensor.amp import autocast as inner
    return inner(lt.device(device).type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


_autocast.__name__ = _autocast.__qualname__ = "autocast"

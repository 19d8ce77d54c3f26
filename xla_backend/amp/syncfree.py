"""torch_xla.amp.syncfree: optimizers whose step with a GradScaler needs no value on the host; ours are all so."""
from __future__ import annotations

_NAMES = ("SGD", "Adam", "AdamW")


def __getattr__(name):
    if name in _NAMES:
        from lazy_tensor import optim
        return getattr(optim, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(_NAMES)}")

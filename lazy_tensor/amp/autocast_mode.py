"""`autocast`: within it matrix products and convolutions run in a low dtype, losses and softmax in float32."""
from __future__ import annotations

import functools
import threading
import warnings

import numpy as np

from lazy_tensor import dtypes
from lazy_tensor.modes import modes

_KINDS = {"xla": "xla", "cuda": "xla", "tpu": "xla", "gpu": "xla", "cpu": "cpu"}


def is_autocast_available(device_type) -> bool:
    """Whether autocast works for a device type."""
    return device_type in _KINDS


def current_cast_dtype(device_type="xla"):
    """The dtype that ops on a device type are cast to now; None outside autocast."""
    d = None if modes.cast is None else modes.cast.get(_KINDS[device_type])
    return None if d is None else d


class _State(threading.local):
    """What `set_autocast_*` have set in this thread."""

    def __init__(self):
        self.dtype = {"xla": dtypes.names["bfloat16"], "cpu": dtypes.names["bfloat16"]}
        self.cache, self.nesting = True, 0


_state = _State()


def _kind(device_type, name):
    if device_type not in _KINDS:
        raise RuntimeError(f"{name}: unknown device type {device_type!r} for autocast; one of {', '.join(sorted(_KINDS))} fits")
    return _KINDS[device_type]


def is_autocast_enabled(device_type="cuda") -> bool:
    """Whether ops on a device type are cast now ("cuda", the default, is "xla" here)."""
    return bool(modes.cast) and _kind(device_type, "is_autocast_enabled") in modes.cast


def set_autocast_enabled(device_type, enabled=None) -> None:
    """Switch autocast of a device type on or off outside a `with`; one argument is the switch of "cuda"."""
    device_type, enabled = ("cuda", device_type) if enabled is None else (device_type, enabled)
    kind = _kind(device_type, "set_autocast_enabled")
    now = dict(modes.cast or {})
    if enabled:
        now.setdefault(kind, _state.dtype[kind])
    else:
        now.pop(kind, None)
    modes.cast = now or None


def get_autocast_dtype(device_type):
    """The dtype that autocast casts down to on a device type: of the enclosing `with`, else the one set, else bfloat16."""
    kind = _kind(device_type, "get_autocast_dtype")
    return (modes.cast or {}).get(kind, _state.dtype[kind])


def set_autocast_dtype(device_type, dtype) -> None:
    """The dtype of autocast on a device type where `autocast(...)` is given none."""
    kind = _kind(device_type, "set_autocast_dtype")
    _state.dtype[kind] = dtype
    if modes.cast and kind in modes.cast:
        modes.cast = {**modes.cast, kind: dtype}


def is_autocast_cpu_enabled() -> bool:
    """`is_autocast_enabled("cpu")`."""
    return is_autocast_enabled("cpu")


def is_autocast_xla_enabled() -> bool:
    """`is_autocast_enabled("xla")`."""
    return is_autocast_enabled("xla")


def set_autocast_cpu_enabled(enabled) -> None:
    """`set_autocast_enabled("cpu", enabled)`."""
    set_autocast_enabled("cpu", enabled)


def set_autocast_xla_enabled(enabled) -> None:
    """`set_autocast_enabled("xla", enabled)`."""
    set_autocast_enabled("xla", enabled)


def get_autocast_cpu_dtype():
    """`get_autocast_dtype("cpu")`."""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype():
    """`get_autocast_dtype("cuda")`: the accelerator's."""
    return get_autocast_dtype("cuda")


def get_autocast_xla_dtype():
    """`get_autocast_dtype("xla")`."""
    return get_autocast_dtype("xla")


def set_autocast_cpu_dtype(dtype) -> None:
    """`set_autocast_dtype("cpu", dtype)`."""
    set_autocast_dtype("cpu", dtype)


def set_autocast_gpu_dtype(dtype) -> None:
    """`set_autocast_dtype("cuda", dtype)`."""
    set_autocast_dtype("cuda", dtype)


def set_autocast_xla_dtype(dtype) -> None:
    """`set_autocast_dtype("xla", dtype)`."""
    set_autocast_dtype("xla", dtype)


def is_autocast_cache_enabled() -> bool:
    """What `set_autocast_cache_enabled` last set (True at first). A repeated cast is one operation of the program either way."""
    return _state.cache


def set_autocast_cache_enabled(enabled) -> None:
    """Sets what `is_autocast_cache_enabled` gives."""
    _state.cache = bool(enabled)


def clear_autocast_cache() -> None:
    """Nothing is cached: casts are recorded anew and merged by the compiler."""


def autocast_increment_nesting() -> int:
    """One level deeper; the new depth."""
    _state.nesting += 1
    return _state.nesting


def autocast_decrement_nesting() -> int:
    """One level less; the new depth."""
    _state.nesting -= 1
    return _state.nesting


class autocast:
    """A context manager and decorator (torch.autocast): `with autocast("xla", dtype=torch.bfloat16): ...`.

    device_type: "xla" ("cuda" is taken as it) or "cpu"; dtype: bfloat16 (default) or float16. Raises RuntimeError for an unknown type."""

    def __init__(self, device_type="xla", dtype=None, enabled=True, cache_enabled=None):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if device_type not in _KINDS:
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'; one of {', '.join(sorted(_KINDS))} fits")
        self.device, self.fast_dtype = device_type, dtype or get_autocast_dtype(device_type)
        if enabled and self.fast_dtype.name not in ("bfloat16", "float16", "float32"):
            warnings.warn(f"In autocast, but the target dtype is not supported. Disabling autocast. autocast only supports bfloat16 and float16, got "
                          f"{self.fast_dtype}", stacklevel=2)
            enabled = False
        self._enabled = enabled
        self._stack = []

    def __enter__(self):
        self._stack.append(modes.cast)
        now = dict(modes.cast or {})
        kind = _KINDS[self.device]
        if self._enabled and self.fast_dtype.np != np.float32:
            now[kind] = self.fast_dtype
        else:
            now.pop(kind, None)
        modes.cast = now or None
        return self

    def __exit__(self, *exc):
        modes.cast = self._stack.pop()
        return False

    def __call__(self, fn):
        @functools.wraps(fn)
        def call(*args, **kw):
            with self:
                return fn(*args, **kw)
        return call


def custom_fwd(fwd=None, *, device_type="xla", cast_inputs=None):
    """Decorator for a Function's forward: runs outside autocast with inputs cast, when cast_inputs is given."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def call(ctx, *args, **kw):
        from lazy_tensor.tensor import Tensor
        ctx._cast = modes.cast
        if cast_inputs is None or modes.cast is None:
            return fwd(ctx, *args, **kw)
        args = [a.to(cast_inputs) if isinstance(a, Tensor) and a.dtype.is_floating_point else a for a in args]
        before, modes.cast = modes.cast, None
        try:
            return fwd(ctx, *args, **kw)
        finally:
            modes.cast = before
    return call


def custom_bwd(bwd=None, *, device_type="xla"):
    """Decorator for a Function's backward: runs with the autocast state of its forward."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def call(ctx, *args):
        before, modes.cast = modes.cast, getattr(ctx, "_cast", None)
        try:
            return bwd(ctx, *args)
        finally:
            modes.cast = before
    return call

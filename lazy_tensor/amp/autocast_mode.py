"""`autocast`: within it matrix products and convolutions run in a low dtype, losses and softmax in float32."""
from __future__ import annotations

import functools
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


class autocast:
    """A context manager and decorator (torch.autocast): `with autocast("xla", dtype=torch.bfloat16): ...`.

    device_type: "xla" ("cuda" is taken as it) or "cpu"; dtype: bfloat16 (default) or float16. Raises RuntimeError for an unknown type."""

    def __init__(self, device_type="xla", dtype=None, enabled=True, cache_enabled=None):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if device_type not in _KINDS:
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'; one of {', '.join(sorted(_KINDS))} fits")
        self.device, self.fast_dtype = device_type, dtype or dtypes.names["bfloat16"]
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

"""Thread-local modes: whether the tape records, inference, anomaly detection, autocast."""
from __future__ import annotations

import functools
import inspect
import threading


class _Unusual:
    """Whether this process has ever used autocast or saved-tensor hooks: what every op may ask at the cost of an attribute."""

    met = False


unusual = _Unusual()


def _rare(name):
    """A thread's mode that is mostly None; setting it makes every op look for it from then on."""
    def put(self, value):
        if value is not None:
            unusual.met = True
        setattr(self, name, value)
    return property(lambda self: getattr(self, name, None), put)


class _Modes(threading.local):
    grad = True
    inference = False
    anomaly = False
    anomaly_check_nan = True
    callbacks: list | None = None        # while backward runs: what to call when it has ended
    cast = _rare("_cast")                # {device kind: numpy dtype} while autocast is on
    saved_hooks = _rare("_saved_hooks")  # (pack, unpack)
    capture = _rare("_capture")          # the xla_backend.capture.Capture that records a function


modes = _Modes()


class _Decorator:
    """A context manager that also decorates functions and generators."""

    def _again(self):
        return self.__class__()

    def __call__(self, fn):
        if inspect.isgeneratorfunction(fn):
            @functools.wraps(fn)
            def gen(*args, **kw):
                g = fn(*args, **kw)
                value = None
                while True:
                    with self._again():
                        try:
                            item = g.send(value)
                        except StopIteration as stop:
                            return stop.value
                    value = yield item
            return gen

        @functools.wraps(fn)
        def call(*args, **kw):
            with self._again():
                return fn(*args, **kw)
        return call


class no_grad(_Decorator):
    """Within it nothing is recorded for backward (torch.no_grad); also a decorator."""

    def __new__(cls, fn=None):
        self = object.__new__(cls)
        return self(fn) if callable(fn) else self

    def __enter__(self):
        self.before = modes.grad
        modes.grad = False

    def __exit__(self, *exc):
        modes.grad = self.before


class recording:
    """The tape on, whatever the modes around say: what function transforms run in."""

    __slots__ = ("before",)

    def __enter__(self):
        self.before = modes.grad
        modes.grad = True

    def __exit__(self, *exc):
        modes.grad = self.before


class enable_grad(_Decorator):
    """Turns recording for backward on within `no_grad` (torch.enable_grad)."""

    def __new__(cls, fn=None):
        self = object.__new__(cls)
        return self(fn) if callable(fn) else self

    def __enter__(self):
        self.before = modes.grad
        modes.grad = not modes.inference  # inference mode records nothing, whatever is asked for within it

    def __exit__(self, *exc):
        modes.grad = self.before


class set_grad_enabled(_Decorator):
    """Sets recording for backward at once, and restores it when used as a context manager."""

    def __init__(self, mode):
        self.mode, self.before = bool(mode), modes.grad
        modes.grad = self.mode

    def _again(self):
        return set_grad_enabled(self.mode)

    def __call__(self, fn):
        modes.grad = self.before
        return super().__call__(fn)

    def __enter__(self):
        modes.grad = self.mode

    def __exit__(self, *exc):
        modes.grad = self.before


class inference_mode(_Decorator):
    """`no_grad`, and tensors made within it may not be used by autograd (torch.inference_mode)."""

    def __new__(cls, mode=True):
        self = object.__new__(cls)
        if callable(mode):
            self.mode = True
            return self(mode)
        self.mode = bool(mode)
        return self

    def __init__(self, mode=True):
        pass

    def _again(self):
        return inference_mode(self.mode)

    def __enter__(self):
        self.before = modes.grad, modes.inference
        modes.grad, modes.inference = (False, True) if self.mode else (True, False)

    def __exit__(self, *exc):
        modes.grad, modes.inference = self.before


def is_grad_enabled() -> bool:
    """Whether operations are recorded for backward in this thread."""
    return modes.grad


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on in this thread."""
    return modes.inference


class set_detect_anomaly:
    """Backward checks each op's gradients for NaN and names the line that made them."""

    def __init__(self, mode, check_nan=True):
        self.before = modes.anomaly, modes.anomaly_check_nan
        modes.anomaly, modes.anomaly_check_nan = bool(mode), check_nan

    def __enter__(self):
        return None

    def __exit__(self, *exc):
        modes.anomaly, modes.anomaly_check_nan = self.before


class detect_anomaly(set_detect_anomaly):
    """`set_detect_anomaly(True)` as a context manager (torch.autograd.detect_anomaly)."""

    def __init__(self, check_nan=True):
        self.check = check_nan

    def __enter__(self):
        set_detect_anomaly.__init__(self, True, self.check)


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on."""
    return modes.anomaly

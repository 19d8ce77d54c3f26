"""Window functions: torch.signal.windows and the older top-level ones; built on the host, moved to the device."""
from __future__ import annotations

import numpy as np

from lazy_tensor import creation, dtypes
from lazy_tensor.ops._define import composite

WIN = "signal.windows"


def _finish(values, dtype, device, requires_grad):
    d = dtypes.get_default_dtype() if dtype is None else dtype
    if not d.is_floating_point:
        raise RuntimeError(f"expects floating point dtypes, got: {d}")
    t = creation.tensor(np.asarray(values, np.float64), dtype=d, device=device)
    return t.requires_grad_(True) if requires_grad else t


def _check(name, m, layout, dtype):
    if dtype is not None and dtype.name not in ("float32", "float64"):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    if m < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={m}")
    if layout is not None and getattr(layout, "name", "strided") != "strided":
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")


def _cosines(a, m, sym):
    """sum (-1)^i a_i cos(2 pi i n / N)"""
    if m == 0:
        return np.zeros(0)
    if m == 1:
        return np.ones(1)
    n = 2 * np.pi * np.arange(m) / (m - 1 if sym else m)
    return sum((-1) ** i * c * np.cos(i * n) for i, c in enumerate(a))


@composite(where=WIN)
def general_cosine(M, *, a, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """The window sum_i (-1)^i a_i cos(2 pi i n / (M - 1)) (torch.signal.windows.general_cosine)."""
    _check("general_cosine", M, layout, dtype)
    if not isinstance(a, (list, tuple)) or not a:
        raise (ValueError if isinstance(a, (list, tuple)) else TypeError)("Coefficients must be a non-empty list/tuple")
    return _finish(_cosines(a, M, sym), dtype, device, requires_grad)


@composite(where=WIN)
def general_hamming(M, *, alpha=0.54, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """alpha - (1 - alpha) cos(2 pi n / (M - 1))."""
    return general_cosine(M, a=[alpha, 1 - alpha], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


@composite(where=WIN)
def hamming(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """The Hamming window."""
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


@composite(where=WIN)
def hann(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """The Hann window."""
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


@composite(where=WIN)
def blackman(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """The Blackman window."""
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


@composite(where=WIN)
def nuttall(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """The minimum four-term Blackman-Harris window by Nuttall."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, dtype=dtype, layout=layout, device=device,
                          requires_grad=requires_grad)


@composite(where=WIN)
def bartlett(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """1 - |2 n / (M - 1) - 1|."""
    _check("bartlett", M, layout, dtype)
    n = np.arange(M)
    w = np.ones(M) if M <= 1 else 1 - np.abs(2 * n / (M - 1 if sym else M) - 1)
    return _finish(w, dtype, device, requires_grad)


@composite(where=WIN)
def cosine(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """sin(pi (n + 1/2) / M)."""
    _check("cosine", M, layout, dtype)
    return _finish(np.sin(np.pi * (np.arange(M) + 0.5) / (M if sym else M + 1)) if M else np.zeros(0), dtype, device, requires_grad)


@composite(where=WIN)
def exponential(M, *, center=None, tau=1.0, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """exp(-|n - center| / tau)."""
    _check("exponential", M, layout, dtype)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    c = (M - 1 if sym else M) / 2 if center is None else center
    return _finish(np.exp(-np.abs(np.arange(M) - c) / tau), dtype, device, requires_grad)


@composite(where=WIN)
def gaussian(M, *, std=1.0, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """exp(-(n / std)^2 / 2) around the centre."""
    _check("gaussian", M, layout, dtype)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    n = np.arange(M) - (M - 1 if sym else M) / 2
    return _finish(np.exp(-(n / std) ** 2 / 2), dtype, device, requires_grad)


def _kaiser(m, beta, sym):
    if m <= 1:
        return np.ones(m)
    n = np.arange(m)
    r = 2 * n / (m - 1 if sym else m) - 1
    return np.i0(beta * np.sqrt(np.maximum(1 - r * r, 0))) / np.i0(beta)


@composite(where=WIN)
def kaiser(M, *, beta=12.0, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """The Kaiser window I0(beta sqrt(1 - x^2)) / I0(beta)."""
    _check("kaiser", M, layout, dtype)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _finish(_kaiser(M, beta, sym), dtype, device, requires_grad)


def _old(name, values):
    def window(window_length, periodic=True, *args, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, **kw):
        if window_length < 0:
            raise RuntimeError(f"{name} requires non-negative window_length, got window_length={window_length}")
        return _finish(values(window_length, not periodic, *args, **kw), dtype, device, requires_grad)
    window.__name__ = name
    window.__doc__ = f"The window of `window_length` points, periodic by default (torch.{name})."
    return composite(window)


hann_window = _old("hann_window", lambda m, sym: _cosines([0.5, 0.5], m, sym))
hamming_window = _old("hamming_window", lambda m, sym, alpha=0.54, beta=0.46: _cosines([alpha, beta], m, sym))
blackman_window = _old("blackman_window", lambda m, sym: _cosines([0.42, 0.5, 0.08], m, sym))
bartlett_window = _old("bartlett_window", lambda m, sym: np.ones(m) if m <= 1 else 1 - np.abs(2 * np.arange(m) / (m - 1 if sym else m) - 1))
kaiser_window = _old("kaiser_window", lambda m, sym, beta=12.0: _kaiser(m, beta, sym))

"""How an array prints as torch prints a tensor: number widths, scientific mode, summaries, suffixes."""
from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import numpy as np

from lazy_tensor import dtypes


@dataclass
class _Options:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES: dict[str, dict] = {"default": dict(precision=4, threshold=1000, edgeitems=3, linewidth=80),
             "short": dict(precision=2, threshold=1000, edgeitems=2, linewidth=80),
             "full": dict(precision=4, threshold=math.inf, edgeitems=3, linewidth=80)}
_options = _Options()


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None) -> None:
    """Set how tensors print (torch.set_printoptions).

    precision: digits after the point; threshold: elements above which a summary is shown; edgeitems: items at either
    end of a summarised dimension; linewidth: characters in a line; profile: "default", "short" or "full", applied
    before the others; sci_mode: True, False, or None to let the values decide. Raises ValueError for an unknown profile.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions: profile {profile!r} does not exist; one of 'default', 'short', 'full' fits")
        for name, value in _PROFILES[profile].items():
            setattr(_options, name, value)
    for name, value in dict(precision=precision, threshold=threshold, edgeitems=edgeitems, linewidth=linewidth).items():
        if value is not None:
            setattr(_options, name, value)
    _options.sci_mode = sci_mode


def get_printoptions() -> dict:
    """The present options, as keyword arguments of `set_printoptions` (torch.get_printoptions)."""
    return asdict(_options)


@contextmanager
def printoptions(**options):
    """`set_printoptions` for a block (torch.printoptions)."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


class _Format:
    """The common width and notation of the numbers shown."""

    def __init__(self, a):
        self.floating = a.dtype.kind == "f"
        self.whole, self.sci, self.width = True, False, 1
        flat = a.reshape(-1)
        if not self.floating:
            self.width = max((len(str(v)) for v in flat.tolist()), default=1)
            return
        shown = flat[np.isfinite(flat) & (flat != 0)].astype(np.float64)
        if shown.size == 0:
            return
        high, low = np.abs(shown).max(), np.abs(shown).min()
        self.whole = bool((shown == np.ceil(shown)).all())
        with np.errstate(over="ignore"):
            self.sci = bool(high / low > 1000 or high > 1e8 or (not self.whole and low < 1e-4))
        if _options.sci_mode is not None:
            self.sci = _options.sci_mode
        spec = f".{_options.precision}e" if self.sci else ".0f" if self.whole else f".{_options.precision}f"
        point = 1 if self.whole and not self.sci else 0  # the "." of "3."
        self.width = max(1, max(len(format(v, spec)) for v in shown.tolist()) + point)

    def __call__(self, value):
        if not self.floating:
            text = str(value)
        elif self.sci:
            text = format(value, f"{self.width}.{_options.precision}e")
        elif self.whole:
            text = format(value, ".0f") + ("." if math.isfinite(value) else "")
        else:
            text = format(value, f".{_options.precision}f")
        return text.rjust(self.width)


class _Complex:
    """Two formats, for the real and the imaginary part."""

    def __init__(self, a):
        self.real, self.imag = _Format(np.ascontiguousarray(a.real)), _Format(np.ascontiguousarray(a.imag))
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, value):
        imag = (self.imag(value.imag) + "j").lstrip()
        return self.real(value.real) + ("" if imag[0] in "+-" else "+") + imag


def _edges(a):
    """The elements that a summary shows."""
    n = _options.edgeitems
    for axis in range(a.ndim):
        if a.shape[axis] > 2 * n:
            keep = np.r_[:n, a.shape[axis] - n:a.shape[axis]].astype(np.int64)
            a = np.take(a, keep, axis)
    return a


def _vector(a, indent, summarize, fmt):
    n = _options.edgeitems
    per_line = max(1, math.floor((_options.linewidth - indent) / (fmt.width + 2)))
    if summarize and not n:
        items = ["..."]
    elif summarize and len(a) > 2 * n:
        items = [fmt(v) for v in a[:n].tolist()] + [" ..."] + [fmt(v) for v in a[-n:].tolist()]
    else:
        items = [fmt(v) for v in a.tolist()]
    lines = [", ".join(items[i:i + per_line]) for i in range(0, len(items), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _nested(a, indent, summarize, fmt):
    if a.ndim == 0:
        return fmt(a.item())
    if a.ndim == 1:
        return _vector(a, indent, summarize, fmt)
    n = _options.edgeitems
    if summarize and len(a) > 2 * n:
        tail = range(len(a) - n, len(a)) if n else ()
        parts = [_nested(a[i], indent + 1, summarize, fmt) for i in range(n)] + ["..."]
        parts += [_nested(a[i], indent + 1, summarize, fmt) for i in tail]
    else:
        parts = [_nested(x, indent + 1, summarize, fmt) for x in a]
    return "[" + ("," + "\n" * (a.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def _body(a, indent):
    """The numbers alone, bracketed."""
    if a.size == 0:
        return "[]"
    if a.dtype.kind == "V" or a.dtype == np.float16 or a.dtype.name in ("bfloat16",) or a.dtype.name.startswith("float8"):
        a = a.astype(np.float32)
    summarize = a.size > _options.threshold
    shown = _edges(a) if summarize else a
    return _nested(a, indent, summarize, (_Complex if a.dtype.kind == "c" else _Format)(shown))


def tensor_str(array, dtype_name, device=None, requires_grad=False, grad_fn_name=None, is_parameter=False) -> str:
    """What torch's `repr` gives for a tensor of these bytes.

    array: a NumPy array; dtype_name: torch's name without "torch."; device: "xla:0" and the like, None for cpu;
    requires_grad: for a leaf; grad_fn_name: "AddBackward0" for one that was computed.
    """
    prefix = "tensor("
    indent = len(prefix)
    default = dtypes.get_default_dtype()
    suffixes = [] if device is None else [f"device='{device}'"]
    if array.ndim != 1 if array.size == 0 else not _options.edgeitems:
        suffixes.append(f"size={tuple(array.shape)}")
    plain = (default.name,) if array.size == 0 else (default.name, default.to_complex().name, "int64", "bool")
    if dtype_name not in plain:
        suffixes.append(f"dtype=torch.{dtype_name}")
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    text = prefix + _body(array, indent)
    used = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if used + len(suffix) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + suffix
            used = indent + len(suffix)
        else:
            text += ", " + suffix
            used += len(suffix) + 2
    return ("Parameter containing:\n" if is_parameter else "") + text + ")"

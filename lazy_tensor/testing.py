"""torch.testing: `assert_close` with torch's tolerances and words, `make_tensor`."""
from __future__ import annotations

import collections.abc
import math
import warnings

import numpy as np

from lazy_tensor import creation, dtypes
from lazy_tensor.tensor import Tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

_TOLERANCES = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
               "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7)}


def default_tolerances(*inputs, dtype_precisions=None) -> tuple[float, float]:
    """(rtol, atol): the largest of the inputs' dtypes; 0, 0 for integers and bool."""
    found = []
    for x in inputs:
        d = x.dtype if isinstance(x, Tensor) else x if isinstance(x, dtypes.dtype) else dtypes.of(np.asarray(x).dtype)
        found.append(_TOLERANCES.get(d.name, (0.0, 0.0)))
    return max(r for r, _ in found), max(a for _, a in found)


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False, check_device=True, check_dtype=True,
                 check_layout=True, check_stride=False, msg=None):
    """Raise AssertionError unless |actual - expected| <= atol + rtol * |expected| (torch.testing.assert_close).

    actual, expected: tensors, arrays, numbers, None, or sequences and mappings of them. Default tolerances depend on the dtype
    (float32: 1.3e-6, 1e-5). msg: a message, or a function of the message. Raises ValueError when only one of rtol and atol is
    given, TypeError for inputs that cannot be compared."""
    if (rtol is None) != (atol is None):
        raise ValueError("Both 'rtol' and 'atol' must be either specified or omitted, but got no "
                         f"{'rtol' if rtol is None else 'atol'}.")
    _compare(actual, expected, dict(allow_subclasses=allow_subclasses, rtol=rtol, atol=atol, equal_nan=equal_nan, device=check_device,
                                    dtype=check_dtype, stride=check_stride, msg=msg), [])


def _fail(message, options, path):
    if path:
        message += f"\n\nThe failure occurred for item {''.join(f'[{p!r}]' for p in path)}"
    m = options["msg"]
    raise AssertionError(message if m is None else m(message) if callable(m) else m)


def _compare(a, b, options, path):
    if a is None or b is None:
        if a is not b:
            _fail(f"None mismatch: {a} is not {b}", options, path)
        return
    numbers = (bool, int, float, complex)
    if isinstance(a, numbers) and isinstance(b, numbers):
        _numbers(a, b, options, path)
        return
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if not options["allow_subclasses"] and type(a) is not type(b):
            raise TypeError(f"No comparison pair was able to handle inputs of type {type(a)} and {type(b)}.")
        _tensors(a, b, options, path)
        return
    arrays = (np.ndarray, np.generic)
    if isinstance(a, arrays) and isinstance(b, arrays):
        _tensors(creation.tensor(a), creation.tensor(b), options, path)
        return
    text = (str, bytes)
    if isinstance(a, collections.abc.Sequence) and isinstance(b, collections.abc.Sequence) and not isinstance(a, text) \
            and not isinstance(b, text):
        if len(a) != len(b):
            _fail(f"The length of the sequences mismatch: {len(a)} != {len(b)}", options, path)
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            _compare(x, y, options, [*path, i])
        return
    if isinstance(a, collections.abc.Mapping) and isinstance(b, collections.abc.Mapping):
        missing, extra = [k for k in b if k not in a], [k for k in a if k not in b]
        if missing or extra:
            _fail("The keys of the mappings do not match:"
                  + (f"\nMissing keys in the actual mapping: {sorted(missing, key=str)}" if missing else "")
                  + (f"\nAdditional keys in the actual mapping: {sorted(extra, key=str)}" if extra else ""), options, path)
        for k in b:
            _compare(a[k], b[k], options, [*path, k])
        return
    raise TypeError(f"No comparison pair was able to handle inputs of type {type(a)} and {type(b)}.")


def _numbers(a, b, options, path):
    d = dtypes.of(np.result_type(type(a), type(b)))
    rtol, atol = (options["rtol"], options["atol"]) if options["rtol"] is not None else default_tolerances(d)
    if options["dtype"] and type(a) is not type(b):
        _fail(f"The (d)types do not match: {type(a)} != {type(b)}", options, path)
    if a == b or (options["equal_nan"] and a != a and b != b):
        return
    diff, bound = abs(a - b), atol + rtol * abs(b)
    if diff <= bound and not math.isinf(abs(b)) and not math.isinf(abs(a)):
        return
    _scalar_words(a, b, diff, rtol, atol, options, path)


def _scalar_words(a, b, diff, rtol, atol, options, path):
    rel = diff / abs(b) if b != 0 else math.inf
    close = "equal" if rtol == 0 and atol == 0 else "close"
    up = (lambda t: "") if close == "equal" else (lambda t: f" (up to {t} allowed)")
    _fail(f"Scalars are not {close}!\n\nExpected {b} but got {a}.\nAbsolute difference: {diff}{up(atol)}\n"
          f"Relative difference: {rel}{up(rtol)}", options, path)


def _tensors(a, b, options, path):
    def attribute(name, x, y):
        if x != y:
            _fail(f"The values for attribute '{name}' do not match: {x} != {y}.", options, path)
    attribute("shape", a.shape, b.shape)
    if options["device"]:
        attribute("device", a.device, b.device)
    if options["dtype"]:
        attribute("dtype", a.dtype, b.dtype)
    if options["stride"]:
        attribute("stride()", a.stride(), b.stride())
    rtol, atol = (options["rtol"], options["atol"]) if options["rtol"] is not None else default_tolerances(a, b)
    x, y = _wide(a._host(), b._host())
    with np.errstate(all="ignore"):
        diff = np.abs(x - y) if x.dtype.kind != "b" else (x != y).astype(np.int64)
        ok = (x == y) | (np.isfinite(y) & (diff <= atol + rtol * np.abs(y)))
        if options["equal_nan"]:
            ok |= np.isnan(x) & np.isnan(y)
        rel = diff / np.abs(y.astype(np.float64) if y.dtype.kind in "biu" else y)
    if ok.all():
        return
    if x.ndim == 0:
        _scalar_words(a.item(), b.item(), diff.item(), rtol, atol, options, path)
    close = "equal" if rtol == 0 and atol == 0 else "close"
    up = (lambda t: "") if close == "equal" else (lambda t: f" (up to {t} allowed)")
    n = int((~ok).sum())
    out = [f"Tensor-likes are not {close}!\n", f"Mismatched elements: {n} / {x.size} ({100 * n / x.size:.1f}%)"]
    for what, values, tolerance in (("absolute", diff, atol), ("relative", rel, rtol)):
        v = np.where(ok, 0, values)
        at = np.unravel_index(int(np.argmax(v)), v.shape)
        out.append(f"Greatest {what} difference: {v[at].item()} at index {tuple(int(i) for i in at)}{up(tolerance)}")
    _fail("\n".join(out), options, path)


def _wide(x, y):
    """Both as NumPy arrays of a kind in which differences are exact enough."""
    def one(a):
        if a.dtype.kind == "V" or a.dtype.name in ("bfloat16", "float16") or a.dtype.name.startswith("float8"):
            return a.astype(np.float32)
        return a.astype(np.int64) if a.dtype.kind in "iu" and a.dtype.itemsize < 8 else a
    x, y = one(x), one(y)
    t = np.result_type(x, y)
    return x.astype(t), y.astype(t)


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """Deprecated form of `assert_close` that ignores dtype and device and takes NaNs as equal."""
    warnings.warn("`torch.testing.assert_allclose()` is deprecated since 1.12; use `torch.testing.assert_close()`", FutureWarning,
                  stacklevel=2)
    actual, expected = creation.as_tensor(actual), creation.as_tensor(expected)
    if rtol is None and atol is None:
        rtol, atol = default_tolerances(actual, expected)
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=False, check_dtype=False, msg=msg or None)


def make_tensor(*shape, dtype, device, low=None, high=None, requires_grad=False, noncontiguous=False, exclude_zero=False,
                memory_format=None) -> Tensor:
    """A tensor of random numbers in [low, high): [-9, 9] for floats, [-9, 10) for signed and [0, 10) for unsigned integers, 0 and 1
    for bool (torch.testing.make_tensor). exclude_zero: zeros become the smallest positive number, or one."""
    if len(shape) == 1 and isinstance(shape[0], collections.abc.Sequence):
        shape = tuple(shape[0])
    npd = dtypes.to_np(dtype)
    real = npd.kind in "biu"
    lo_default, hi_default = (0, 2) if npd.kind == "b" else (0, 10) if npd.kind == "u" else (-9, 10) if npd.kind == "i" else (-9, 9)
    lo, hi = lo_default if low is None else low, hi_default if high is None else high
    if not lo <= hi or (real and lo == hi):
        raise ValueError(f"make_tensor: low must be less than high, got low={lo} and high={hi}")
    if requires_grad and real:
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype}")
    if noncontiguous and memory_format is not None:
        raise ValueError("The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
                         f"noncontiguous={noncontiguous} and memory_format={memory_format}")
    from xla_backend.random import default
    rng = np.random.default_rng([x % 2**64 for x in default.next()])
    full = (*shape[:-1], shape[-1] * 2) if noncontiguous and shape and math.prod(shape) > 1 else tuple(shape)
    if real:
        a = rng.integers(math.ceil(lo), math.ceil(hi), full).astype(npd)
    elif npd.kind == "c":
        a = (rng.uniform(lo, hi, full) + 1j * rng.uniform(lo, hi, full)).astype(npd)
    else:
        a = rng.uniform(lo, hi, full).astype(npd)
    if exclude_zero:
        tiny = 1 if real else np.finfo(npd).tiny if npd.kind in "fc" else dtypes.finfo(dtype).tiny
        a = np.where(a == 0, np.asarray(tiny, npd), a)
    t = creation.tensor(a, device=device)
    if full != tuple(shape):
        t = t[..., ::2]
    if memory_format is not None:
        t = t.contiguous(memory_format=memory_format)
    return t.detach().requires_grad_(True) if requires_grad else t

"""dtypes as PyTorch names them, and its promotion rules."""
from __future__ import annotations

from functools import cache

import jax.numpy as jnp
import ml_dtypes
import numpy as np

from lazy_tensor.ops import _common


class dtype:
    """An element type (torch.dtype)."""

    __slots__ = ("name", "np", "itemsize", "is_floating_point", "is_complex", "is_signed")

    def __init__(self, name, np_dtype):
        self.name, self.np = name, np.dtype(np_dtype)
        self.itemsize = self.np.itemsize
        self.is_complex = bool(jnp.issubdtype(self.np, np.complexfloating))
        self.is_floating_point = bool(jnp.issubdtype(self.np, np.floating))
        self.is_signed = self.is_floating_point or self.is_complex or self.np.kind == "i"

    def __repr__(self):
        return f"torch.{self.name}"

    def __reduce__(self):
        return _by_name, (self.name,)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def to_real(self):
        """complex64 -> float32, complex128 -> float64; others unchanged."""
        return of(_common.real_dtype(self.np))

    def to_complex(self):
        """float32 -> complex64, float64 -> complex128."""
        return of(_common.complex_dtype(self.np))


_NAMES = {
    "float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
    "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64, "uint8": np.uint8,
    "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64, "bool": np.bool_,
    "complex64": np.complex64, "complex128": np.complex128,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "float8_e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "float8_e8m0fnu": ml_dtypes.float8_e8m0fnu,
}
_ALL = {name: dtype(name, t) for name, t in _NAMES.items()}
_OF_NP = {d.np: d for d in _ALL.values()}
_ALIASES = {"float": "float32", "double": "float64", "half": "float16", "short": "int16", "int": "int32",
            "long": "int64", "cfloat": "complex64", "cdouble": "complex128"}
names = {**_ALL, **{a: _ALL[n] for a, n in _ALIASES.items()}}  # every public name


def _by_name(name):
    return names[name]


def of(np_dtype) -> dtype:
    """The dtype of a NumPy (or ml_dtypes) dtype; TypeError when torch has none such."""
    try:
        return _OF_NP[np_dtype]
    except (KeyError, TypeError):
        pass
    d = np.dtype(np_dtype)
    found = _OF_NP.get(d) or _OF_NP.get(d.newbyteorder("="))
    if found is None:
        raise TypeError(f"can't convert np.ndarray of type {d}. The only supported types are: float64, float32, float16, "
                        "bfloat16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool.")
    return found


_PY = {bool: "bool", int: "int64", float: None, complex: None}


def to_np(d) -> np.dtype:
    """The NumPy dtype of an lt dtype, a Python type or a NumPy dtype."""
    if type(d) is dtype:
        return d.np
    if d in _PY:
        name = _PY[d]
        return np.dtype(name) if name else _common.default_float() if d is float else _common.default_complex()
    if isinstance(d, (np.dtype, type)):
        return of(d).np
    raise TypeError(f"dtype must be a torch.dtype, not {type(d).__name__} ({d!r})")


def get_default_dtype() -> dtype:
    """The dtype of new float tensors (float32 until `set_default_dtype`)."""
    return of(_common.default_float())


def set_default_dtype(d) -> None:
    """Make a floating dtype the default of new float tensors; TypeError for others."""
    if type(d) is not dtype or not d.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, got {d!r}")
    _common._default_float[0] = d.np


def _category(d):
    k = d.kind
    if k == "b":
        return 0
    if k in "iu":
        return 1
    return 3 if k == "c" else 2


@cache
def promote_np(a, b):
    """torch.promote_types over NumPy dtypes."""
    if a == b:
        return a
    f8 = [d for d in (a, b) if d.name.startswith("float8")]
    if f8:
        other = b if f8[0] == a else a
        if _category(other) >= 2:
            raise RuntimeError(f"Promotion for Float8 Types is not supported, attempted to promote {of(a).name} and {of(b).name}")
        return f8[0]
    wide = {np.dtype(t) for t in (np.uint16, np.uint32, np.uint64)}
    if (a in wide or b in wide) and _category(a) == _category(b) == 1:
        raise RuntimeError(f"Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
                           f"{of(a).name} and {of(b).name}")
    ca, cb = _category(a), _category(b)
    if ca == 3 or cb == 3:
        double = any(d in (np.dtype(np.float64), np.dtype(np.complex128)) for d in (a, b))
        return np.dtype(np.complex128 if double else np.complex64)
    if ca == 2 and cb < 2:
        return a
    if cb == 2 and ca < 2:
        return b
    return np.dtype(jnp.promote_types(a, b))


def promote_types(a, b) -> dtype:
    """The smallest dtype to which both can be cast by torch's rules."""
    return of(promote_np(to_np(a), to_np(b)))


def combine(dims, zeros, wrapped):
    """torch.result_type: dtypes of tensors with dimensions, of 0-d tensors, and of Python numbers."""
    def fold(ds):
        out = None
        for d in ds:
            out = d if out is None else promote_np(out, d)
        return out

    def over(high, low):
        if high is None:
            return low
        if low is None:
            return high
        ch, cl = _category(high), _category(low)
        if ch == 2 and cl == 3:
            return _common.complex_dtype(high)
        if ch >= cl:
            return high
        return promote_np(high, low)

    return over(fold(dims), over(fold(zeros), fold(wrapped)))


def can_cast_np(a, b) -> bool:
    """torch.can_cast over NumPy dtypes."""
    ca, cb = _category(a), _category(b)
    if ca == 3 and cb != 3:
        return False
    if ca == 2 and cb < 2:
        return False
    return not (ca == 1 and cb == 0)


def can_cast(from_, to) -> bool:
    """Whether a value of one dtype may be stored in another (bool < int < float < complex)."""
    return can_cast_np(to_np(from_), to_np(to))


class finfo:
    """Limits of a floating dtype: eps, max, min, tiny, smallest_normal, resolution, bits, dtype."""

    def __init__(self, type=None):
        d = get_default_dtype() if type is None else type
        if not (d.is_floating_point or d.is_complex):
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle {d!r}")
        i = ml_dtypes.finfo(d.to_real().np)
        self.bits, self.dtype = i.bits, d.to_real().name
        self.eps, self.max, self.min = float(i.eps), float(i.max), float(i.min)
        self.tiny = self.smallest_normal = float(i.smallest_normal)
        self.resolution = float(i.resolution)

    def __repr__(self):
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
                f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})")


class iinfo:
    """Limits of an integer dtype: bits, max, min, dtype."""

    def __init__(self, type):
        if type.is_floating_point or type.is_complex or type.name == "bool":
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle {type!r}")
        i = np.iinfo(type.np)
        self.bits, self.max, self.min, self.dtype = i.bits, int(i.max), int(i.min), type.name

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


class Size(tuple):
    """A tensor's shape: a tuple of ints with `numel()`."""

    __slots__ = ()

    def numel(self):
        """The product of the sizes."""
        n = 1
        for d in self:
            n *= d
        return n

    def __repr__(self):
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __getitem__(self, i):
        r = tuple.__getitem__(self, i)
        return Size(r) if type(i) is slice else r

    def __add__(self, other):
        return Size(tuple(self) + tuple(other))

    def __reduce__(self):
        return Size, (tuple(self),)

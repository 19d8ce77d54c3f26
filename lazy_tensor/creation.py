"""Tensors from data: `tensor`, `as_tensor`, `from_numpy`, dlpack, the legacy constructors, unpickling."""
from __future__ import annotations

import numpy as np

from lazy_tensor import devices as device_
from lazy_tensor import dtypes
from lazy_tensor.ops import _common
from lazy_tensor.tensor import _SHARED, Tensor, _new, wrap
from xla_backend import runtime
from xla_backend.graph import Value, aval


def _infer(data, real=None):
    """A NumPy array of nested Python data with torch's dtype inference; Python floats become `real` (None: the default
    dtype), so that a wanted dtype gets their every digit."""
    real = real or _common.default_float()
    if isinstance(data, Tensor):
        return np.array(data._host())
    if isinstance(data, (np.ndarray, np.generic)):
        return np.asarray(data)
    if isinstance(data, bool):
        return np.array(data, np.bool_)
    if isinstance(data, int):
        return np.array(data, np.int64)
    if isinstance(data, float):
        return np.array(data, real)
    if isinstance(data, complex):
        return np.array(data, _common.complex_dtype(real))
    if isinstance(data, (list, tuple, range)):
        return _nested(list(data), real)
    if hasattr(data, "__array__"):
        return np.asarray(data)
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        return _nested([data[i] for i in range(len(data))], real)
    raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")


def _nested(data, real):
    if not data:
        return np.zeros((0,), real)
    first = data[0]
    if isinstance(first, (Tensor, np.ndarray)) or (isinstance(first, (list, tuple)) and _holds_arrays(first)):
        parts = [_infer(d, real) for d in data]
        shape = parts[0].shape
        for i, p in enumerate(parts):
            if p.shape != shape:
                raise ValueError(f"expected sequence of equal shape {list(shape)} at dim 0 (got {list(p.shape)} at element {i})")
        if isinstance(first, Tensor) and parts[0].ndim and not isinstance(first, np.ndarray):
            if any(p.size != 1 for p in parts):
                raise ValueError("only one element tensors can be converted to Python scalars; use stack() to join tensors")
        return np.stack(parts) if parts[0].dtype.kind != "V" else np.stack([p.astype(np.float32) for p in parts]).astype(parts[0].dtype)
    kinds = set()
    shape = _shape(data, kinds, ())
    if complex in kinds:
        dtype = _common.complex_dtype(real)
    elif float in kinds:
        dtype = real
    elif int in kinds:
        dtype = np.dtype(np.int64)
    elif bool in kinds:
        dtype = np.dtype(np.bool_)
    elif kinds:
        np_kinds = [k for k in kinds if isinstance(k, np.dtype)]
        dtype = np.result_type(*np_kinds) if len(np_kinds) == len(kinds) else real
    else:
        dtype = real
    try:
        return np.array(data, dtype).reshape(shape)
    except OverflowError as e:
        raise RuntimeError(f"Overflow when unpacking long long: {e}") from e


def _holds_arrays(x):
    while isinstance(x, (list, tuple)) and x:
        x = x[0]
    return isinstance(x, np.ndarray) or (isinstance(x, Tensor) and x.dim() > 0)


def _shape(data, kinds, path):
    n = len(data)
    inner = None
    for i, d in enumerate(data):
        if isinstance(d, (list, tuple)):
            s = _shape(d, kinds, path + (i,))
        else:
            if isinstance(d, Tensor):
                if d.numel() != 1:
                    raise ValueError("only one element tensors can be converted to Python scalars")
                kinds.add(bool if d.dtype.name == "bool" else float if d.dtype.is_floating_point else complex if d.dtype.is_complex
                          else int)
            elif isinstance(d, bool):
                kinds.add(bool)
            elif isinstance(d, np.generic):
                kinds.add(d.dtype)
            elif isinstance(d, int):
                kinds.add(int)
            elif isinstance(d, float):
                kinds.add(float)
            elif isinstance(d, complex):
                kinds.add(complex)
            elif isinstance(d, str):
                raise TypeError("new(): invalid data type 'str'")
            elif hasattr(d, "__float__"):
                kinds.add(float)
            else:
                raise TypeError(f"not a sequence or number: {type(d).__name__}")
            s = ()
        if inner is None:
            inner = s
        elif inner != s:
            if len(s) == 0 or len(inner) == 0:
                raise TypeError("not a sequence" if len(s) == 0 else f"expected sequence of length {inner} at dim {len(path) + 1}")
            raise ValueError(f"expected sequence of length {inner[0]} at dim {len(path) + 1} (got {s[0]})")
    return (n, *(inner or ()))


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False) -> Tensor:
    """A new tensor that copies data: numbers, nested sequences, arrays, tensors (torch.tensor).

    dtype: inferred when None (bool, int64, the default float dtype, or the array's own). Raises TypeError or
    ValueError for ragged or foreign data, RuntimeError for a device that does not exist.

    Example::

        lt.tensor([[1., 2.], [3., 4.]], device="xla", requires_grad=True)
    """
    if isinstance(data, Tensor):
        import warnings
        warnings.warn("To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
                      "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).", stacklevel=2)
        t = data.detach().clone()
        if dtype is not None or device is not None:
            t = t.to(device=device, dtype=dtype).detach()
        return t.requires_grad_(requires_grad) if requires_grad else t
    a = _infer(data, None if dtype is None else np.dtype(np.float64))
    t = _array(a, dtype, device, copy=isinstance(data, (np.ndarray, np.generic)) or hasattr(data, "__array__"))
    if requires_grad:
        t.requires_grad = True
    return t


def _array(a, dtype, device, copy):
    want = dtypes.to_np(dtype) if dtype is not None else dtypes.of(a.dtype).np
    if a.dtype != want:
        with np.errstate(all="ignore"):
            if a.dtype.kind == "c" and want.kind != "c":
                a = a.real
            a = a.astype(want)
        copy = False
    if not a.flags.c_contiguous or not a.dtype.isnative:
        a = np.array(a, a.dtype.newbyteorder("="), order="C", copy=True)
        copy = False
    return wrap(runtime.leaf(a, device_.resolve(device), copy))


def as_tensor(data, dtype=None, device=None) -> Tensor:
    """data as a tensor, without a copy when it is one of the right dtype and device (torch.as_tensor)."""
    if isinstance(data, Tensor):
        return data if dtype is None and device is None else data.to(device=device, dtype=dtype)
    if isinstance(data, np.ndarray) and (dtype is None or dtypes.to_np(dtype) == data.dtype) and device_.resolve(device).host \
            and data.dtype.isnative and data.flags.c_contiguous:
        return from_numpy(data)
    return tensor(data, dtype=dtype, device=device)


asarray_note = "copy=None shares memory where it can"


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False) -> Tensor:
    """obj as a tensor; copy=True always copies, copy=False raises when it would have to (torch.asarray)."""
    if copy:
        t = obj.detach().clone().to(device=device, dtype=dtype) if isinstance(obj, Tensor) else tensor(obj, dtype=dtype, device=device)
    else:
        t = as_tensor(obj, dtype=dtype, device=device)
        if copy is False and not (isinstance(obj, Tensor) and t is obj or isinstance(obj, np.ndarray) and t._v.data is obj):
            raise ValueError("can't alias arbitrary data: asarray(copy=False) needs a tensor or array of the same dtype and device")
    if requires_grad:
        t = t.detach().requires_grad_(True)
    return t


def from_numpy(array) -> Tensor:
    """A cpu tensor that shares a NumPy array's memory (torch.from_numpy).

    Raises TypeError for what is not an ndarray or has a dtype that torch lacks, ValueError for negative strides."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    d = dtypes.of(array.dtype)
    if any(s < 0 for s in array.strides):
        raise ValueError("At least one stride in the given numpy array is negative, and tensors with negative strides are not "
                         "currently supported. (You can probably work around this by making a copy of your array with array.copy().)")
    if not array.dtype.isnative:
        raise ValueError("given numpy array has byte order different from the native byte order. Conversion between byte orders is "
                         "currently not supported.")
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    v = Value(aval(array.shape, d.np, runtime.device("cpu", 0)), array)
    v.guard = _SHARED
    return wrap(v)


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False) -> Tensor:
    """A 1-d cpu tensor on the memory of a Python buffer (torch.frombuffer)."""
    d = dtypes.to_np(dtype)
    a = np.frombuffer(buffer, d, count=count, offset=offset)
    t = from_numpy(a)
    return t.requires_grad_(True) if requires_grad else t


def from_dlpack(x) -> Tensor:
    """A tensor from any object with `__dlpack__`."""
    import jax
    kind = x.__dlpack_device__()[0] if hasattr(x, "__dlpack_device__") else 1
    a = jax.dlpack.from_dlpack(x)
    dev = runtime.device("cpu", 0) if kind == 1 else device_.resolve("xla")
    return wrap(Value(aval(a.shape, a.dtype, dev), a))


def to_dlpack(t):
    """A dlpack capsule of a tensor."""
    return t.__dlpack__()


_default_type = ["cpu"]
_LEGACY = {"FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16",
           "LongTensor": "int64", "IntTensor": "int32", "ShortTensor": "int16", "CharTensor": "int8", "ByteTensor": "uint8",
           "BoolTensor": "bool"}


class _LegacyMeta(type):
    def __instancecheck__(cls, x):
        return isinstance(x, Tensor) and x.dtype.name == cls._name and x.device.type == cls._device

    def __call__(cls, *args, device=None, **kw):
        return legacy(Tensor, args, device or cls._device, dtype=dtypes.names[cls._name], **kw)


def legacy_type(name, device="cpu"):
    """The class `torch.FloatTensor` and its kin: a constructor, and an isinstance check."""
    return _LegacyMeta(name, (), {"_name": _LEGACY[name], "_device": device, "dtype": dtypes.names[_LEGACY[name]],
                                  "__module__": "torch", "__doc__": f"Legacy constructor of {_LEGACY[name]} tensors."})


def legacy(cls, args, device=None, dtype=None, **kw):
    """`Tensor(2, 3)` (uninitialised sizes: zeros here), `Tensor([1, 2])` (data), `Tensor(tensor)`."""
    d = dtype or dtypes.get_default_dtype()
    if kw:
        if set(kw) == {"size"}:
            args = tuple(kw["size"])
        elif set(kw) == {"data"}:
            args = (kw["data"],)
        else:
            raise TypeError(f"new() received an invalid combination of arguments: {sorted(kw)}")
    if len(args) == 1 and isinstance(args[0], Tensor):
        t = args[0].detach().to(d) if dtype is not None else args[0].detach()
    elif len(args) == 1 and isinstance(args[0], (list, tuple, np.ndarray, range)) and not isinstance(args[0], dtypes.Size):
        t = tensor(args[0], dtype=d, device=device)
    else:
        if len(args) == 1 and isinstance(args[0], dtypes.Size):
            args = tuple(args[0])
        if not all(isinstance(a, (int, np.integer)) for a in args):
            raise TypeError(f"new(): data must be a sequence (got {', '.join(type(a).__name__ for a in args)})")
        if any(a < 0 for a in args):
            raise RuntimeError(f"Trying to create tensor with negative dimension {min(args)}: {list(args)}")
        t = _array(np.zeros(args or (0,), d.np), None, device, copy=False)
    if cls is Tensor:
        return t
    r = _new(cls)
    r._v, r._gn, r._oi, r._view, r._ver = t._v, t._gn, t._oi, t._view, 0
    return r


def rebuild(cls, array, requires_grad, device, extra):
    """Unpickling: the class, the bytes, the device if it still exists (else cpu)."""
    try:
        dev = device_.resolve(device)
    except RuntimeError:
        dev = device_.resolve("cpu")
    t = _new(cls)
    t._v, t._gn, t._oi, t._view, t._ver = runtime.leaf(array, dev), None, 0, None, 0
    if requires_grad:
        t.requires_grad = True
    if extra:
        t.__dict__.update(extra)
    return t

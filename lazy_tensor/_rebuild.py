"""Tensors from what a torch file says: storages, windows of them, and the names that a file may use for it."""
from __future__ import annotations

import math
import pickle
import warnings

import numpy as np

from lazy_tensor import _unpickle, creation, devices, dtypes, strides
from lazy_tensor.tensor import DataView, Tensor, as_view, no_tape, wrap

STORAGES = {"DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
            "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8",
            "BoolStorage": "bool", "ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128"}
_EXPANDED = 1 << 30  # bytes that a tensor with stride 0 may grow to beyond what its storage holds
INTERNAL = {"_retains", "_inference", "_rest"}


def window_of(flat, shape, step, offset):
    """The strided window of a flat array."""
    return np.lib.stride_tricks.as_strided(flat[offset:], tuple(shape), tuple(s * flat.itemsize for s in step))


def swapped(a):
    """The elements with their bytes in the other order."""
    width = a.itemsize // 2 if a.dtype.kind == "c" else a.itemsize
    return a.view(f"u{width}").byteswap().view(a.dtype)


class Storage:
    """Bytes of a file that tensors are windows of; what a `map_location` function sees."""

    def __init__(self, data, location, device):
        self.data, self.location, self._device = data, location, device
        self.bases = {}  # dtype -> (tensor, shape, strides, offset)

    @property
    def device(self):
        """Where its tensors will live."""
        return self._device

    def to(self, device):
        """The same bytes for tensors on another device."""
        return Storage(self.data, self.location, devices.device(device))

    def cpu(self):
        """The same bytes for tensors in host memory."""
        return self.to("cpu")

    def xla(self, index=None):
        """The same bytes for tensors on an XLA device."""
        return self.to(devices.device("xla", index))

    def cuda(self, *args, **kw):
        """Raises: there is no CUDA device here."""
        return self.to("cuda")

    def nbytes(self):
        """Its size in bytes."""
        return self.data.nbytes

    def size(self):
        """Its size in bytes."""
        return self.data.nbytes

    __len__ = nbytes


class StorageType:
    """What `torch.FloatStorage` stands for in a file; dtype None for untyped bytes."""

    def __init__(self, dtype):
        self.dtype = dtype


class UsersError(Exception):
    """Carries an error of the user's function past the machine, which would call the file corrupt."""


def _place(map_location):
    """location -> device chooser for `map_location`: (storage, location) -> storage."""
    if map_location is None:
        return lambda s, location: s
    if isinstance(map_location, dict):
        return lambda s, location: s.to(map_location[location]) if location in map_location else s
    if isinstance(map_location, (str, int, devices.device)):
        target = devices.device(map_location)
        return lambda s, location: s.to(target)
    if callable(map_location):
        def chosen(s, location):
            try:
                r = map_location(s, location)
                if r is None:
                    return s
                if not isinstance(r, Storage):
                    raise TypeError(f"load: map_location must return the storage, moved or not, or None; got {type(r).__name__}")
            except Exception as e:
                raise UsersError from e
            return r
        return chosen
    raise TypeError(f"load: map_location must be None, a str, a device, a dict or a function; got {type(map_location).__name__}")


class Builder:
    """Makes tensors of a file's storages: `fetch(key)` gives a storage's bytes, or None when there is no such one."""

    def __init__(self, fetch, map_location, swap=False):
        self.fetch, self.place, self.swap = fetch, _place(map_location), swap
        self.storages = {}

    def names(self):
        """Dotted name -> object for the machine."""
        out = {f"torch.{n}": d for n, d in dtypes.names.items()}
        out |= {f"torch.{n}": StorageType(dtypes.names[d].np) for n, d in STORAGES.items()}
        out |= {f"torch.cuda.{n}": out[f"torch.{n}"] for n in STORAGES}
        out |= {"torch.storage.UntypedStorage": StorageType(None), "torch.UntypedStorage": StorageType(None)}
        out |= {"torch.Size": dtypes.Size, "torch.device": devices.device, "torch.Tensor": Tensor,
                "torch._tensor._rebuild_from_type_v2": _FROM_TYPE}
        out |= {f"torch._utils.{t.name}": t for t in (*_PLAIN, _V3, _DEVICE, *_PARAMETERS, *_UNSUPPORTED)}
        from lazy_tensor.nn.parameter import Parameter
        out["torch.nn.parameter.Parameter"] = out["torch.nn.Parameter"] = Parameter
        return out

    def calls(self):
        """Object -> maker for the machine."""
        return {dtypes.Size: lambda s=(): dtypes.Size(_ints(s)), devices.device: _device, _FROM_TYPE: self.from_type,
                **dict.fromkeys(_PLAIN, self.tensor), _V3: self.tensor_v3, _DEVICE: self.device_tensor,
                **dict.fromkeys(_PARAMETERS, self.parameter), **{t: _unsupported(t) for t in _UNSUPPORTED}}

    def persistent(self, pid):
        """A storage from its persistent id: ("storage", type, key, location, number of elements)."""
        if not isinstance(pid, tuple) or len(pid) not in (5, 6) or pid[0] != "storage" or not isinstance(pid[1], StorageType):
            raise pickle.UnpicklingError(f"Weights only load failed: Unsupported persistent id {pid!r}")
        kind, key, location, count = pid[1:5]
        if not isinstance(key, str) or not isinstance(location, str) or type(count) is not int or count < 0:
            raise pickle.UnpicklingError(f"Weights only load failed: the persistent id {pid!r} is malformed")
        found = self.storages.get(key)
        if found is None:
            data = self.fetch(key)
            found = self.place(Storage(data, location, devices.device("cpu")), location)
            self.storages[key] = found
        itemsize = kind.dtype.itemsize if kind.dtype is not None else 1
        if count * itemsize != found.data.nbytes:
            raise RuntimeError(f"load: storage {key!r} has {found.data.nbytes} bytes in the file, and the pickle says "
                               f"{count} elements of {itemsize} bytes; the checkpoint is corrupted")
        view = pid[5] if len(pid) == 6 else None
        if view is not None:
            _view_key, start, size = view
            start, size = _ints((start, size))
            if start + size > count:
                raise RuntimeError(f"load: a view of storage {key!r} ends at {start + size}, beyond its {count} elements")
            return Typed(found, kind.dtype, start)
        return Typed(found, kind.dtype, 0)

    def tensor(self, storage, offset, size, stride, requires_grad=False, hooks=None, metadata=None, dtype=None):
        """A tensor: a window of a storage."""
        if type(storage) is not Typed or type(offset) is not int or offset < 0:
            raise pickle.UnpicklingError("Weights only load failed: a tensor needs a storage and an offset")
        np_dtype = dtype if dtype is not None else storage.dtype
        if np_dtype is None:
            raise pickle.UnpicklingError("Weights only load failed: an untyped storage needs a dtype")
        t = self.window(storage.storage, np_dtype, storage.start + offset, _ints(size), _ints(stride))
        if isinstance(metadata, dict) and metadata:
            t = self.lazy_bits(t, metadata)
        return t.requires_grad_(True) if requires_grad is True else t

    def lazy_bits(self, t, metadata):
        """torch stores conj() and its imaginary part unresolved: do what the flags say."""
        with no_tape():
            if metadata.get("conj") is True:
                t = creation._array(np.conj(t._host()), None, t.device, copy=False)
            if metadata.get("neg") is True:
                t = creation._array(np.negative(t._host()), None, t.device, copy=False)
        return t

    def tensor_v3(self, storage, offset, size, stride, requires_grad, hooks, dtype, metadata=None):
        """The same with the dtype beside the storage."""
        if type(dtype) is not dtypes.dtype:
            raise pickle.UnpicklingError(f"Weights only load failed: {dtype!r} is no dtype")
        return self.tensor(storage, offset, size, stride, requires_grad, hooks, metadata, dtype.np)

    def window(self, s, dtype, offset, size, stride):
        """The window (offset, size, stride) of a storage as a tensor that aliases others of the same storage."""
        if len(size) != len(stride):
            raise RuntimeError(f"load: sizes {list(size)} and strides {list(stride)} differ in length")
        if s.data.nbytes % dtype.itemsize:
            raise RuntimeError(f"load: {s.data.nbytes} bytes of storage are no whole number of {dtype} elements")
        n = math.prod(size)
        flat = s.data.view(dtype)
        if self.swap:
            flat = swapped(flat)
        if n == 0:
            if max(size, default=0) >= 2**40:
                raise RuntimeError(f"load: sizes {list(size)} are out of range")
            return creation._array(np.empty(size, dtype), None, s.device, copy=False)
        last = offset + sum((d - 1) * st for d, st in zip(size, stride, strict=True))
        if last >= flat.size:
            raise RuntimeError(f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset} are out of "
                               f"bounds for storage of {flat.size} elements; the checkpoint is corrupted")
        if n * dtype.itemsize > max(_EXPANDED, s.data.nbytes):
            raise RuntimeError(f"load: a tensor of sizes {list(size)} would expand {s.data.nbytes} bytes of storage to "
                               f"{n * dtype.itemsize}; load refuses what grows beyond {_EXPANDED} bytes")
        geometry = (size, stride, offset)
        found = s.bases.get(dtype)
        if found is None:
            whole = offset == 0 and n == flat.size
            if whole and _same_strides(size, stride, strides.contiguous(size)):
                t = creation._array(flat.reshape(size), None, s.device, copy=False)
                s.bases[dtype] = t, geometry
                return t
            if whole and len(size) in (4, 5) and _same_strides(size, stride, strides.channels_last(size)):
                t = creation._array(window_of(flat, size, stride, 0), None, s.device, copy=True)
                strides.lay(t, tuple(stride))
                s.bases[dtype] = t, geometry
                return t
            found = s.bases[dtype] = creation._array(flat, None, s.device, copy=False), None
        base, made = found
        if made == geometry:
            return as_view(wrap(base._value()), base, None, DataView)
        if strides.root_strides(base) is not None:  # a second, different window of a channels-last storage: as_strided counts in C order
            return creation._array(np.array(window_of(flat, size, stride, offset)), None, s.device, copy=False)
        from lazy_tensor import as_strided
        with no_tape():
            return as_strided(base.data, size, stride, offset)

    def parameter(self, data, requires_grad, hooks=None, state=None):
        """A Parameter over a tensor."""
        from lazy_tensor.nn.parameter import Parameter
        if not isinstance(data, Tensor):
            raise pickle.UnpicklingError("Weights only load failed: a Parameter needs a tensor")
        return _with_state(Parameter(data, requires_grad is True), state)

    def device_tensor(self, data, dtype, device, requires_grad):
        """A tensor that torch saved from a device through host memory."""
        if not isinstance(data, Tensor) or type(dtype) is not dtypes.dtype:
            raise pickle.UnpicklingError("Weights only load failed: a device tensor needs its data and dtype")
        t = data.to(dtype)
        return t.requires_grad_(True) if requires_grad is True else t

    def from_type(self, fn, cls, args, state):
        """A tensor with attributes of its own."""
        from lazy_tensor.nn.parameter import Parameter
        calls = self.calls()
        make = calls.get(fn, fn if fn in calls.values() else None)  # _Trusting has put the maker in the name's place already
        if make is None or cls not in (Tensor, Parameter) or not isinstance(args, tuple) or fn is _FROM_TYPE:
            raise pickle.UnpicklingError(f"Weights only load failed: a tensor of type {cls!r} may not be rebuilt by {fn!r}")
        return _with_state(make(*args), state)


class Typed:
    """A storage as one persistent id names it: its element type (None: untyped) and first element."""

    def __init__(self, storage, dtype, start):
        self.storage, self.dtype, self.start = storage, dtype, start


def _same_strides(size, a, b):
    return all(n == 1 or x == y for n, x, y in zip(size, a, b, strict=True))


def _ints(x):
    x = tuple(x) if isinstance(x, (tuple, list)) else (x,)
    if not all(type(i) is int and 0 <= i < 2**63 for i in x):
        raise RuntimeError(f"load: sizes, strides and offsets must be non-negative integers, got {x!r}")
    return x


def _with_state(t, state):
    if state is not None:
        if isinstance(state, tuple) and len(state) == 2 and not state[1]:
            state = state[0]
        if not isinstance(state, dict) or not all(isinstance(k, str) and not k.startswith("__") for k in state):
            raise pickle.UnpicklingError("Weights only load failed: a tensor's attributes must be a dict of names")
        t.__dict__.update((k, v) for k, v in state.items() if k not in INTERNAL)
    return t


def _device(type="cpu", index=None):
    if isinstance(type, str) and type.partition(":")[0] == "cuda":
        warnings.warn(f"load: the file names the device {type!r}; there is no CUDA here, so it reads as 'xla'", stacklevel=2)
        type = "xla" + type[4:]
    return devices.device(type, index)


def _tokens(names):
    return [_unpickle.Token(f"_rebuild_{n}") for n in names.split()]


# What files call by name; `Builder.calls` says what each does.
_FROM_TYPE = _unpickle.Token("_rebuild_from_type_v2")
_PLAIN = _tokens("tensor tensor_v2")
_V3, _DEVICE = _tokens("tensor_v3 device_tensor_from_cpu_tensor")
_PARAMETERS = _tokens("parameter parameter_with_state")
_UNSUPPORTED = _tokens("sparse_tensor qtensor nested_tensor meta_tensor_no_storage wrapper_subclass device_tensor_from_numpy")


def _unsupported(token):
    def refuse(*args):
        kind = token.name.removeprefix("_rebuild_").replace("_", " ")
        raise NotImplementedError(f"load: the file holds a {kind}, which lazy_tensor does not have; save dense tensors")
    return refuse

"""Tensor's methods that are not single ops: conversions, copies, operators, introspection; attached to the class."""
from __future__ import annotations

import functools

import numpy as np

from lazy_tensor import creation, dtypes, layouts, strides
from lazy_tensor import devices as device_
from lazy_tensor.modes import modes
from lazy_tensor.ops import _define, core
from lazy_tensor.ops._define import check_inplace, publish
from lazy_tensor.tensor import Tensor, _leave, as_view, assign_, no_tape, wrap


def _parse_to(args, kw):
    device = kw.get("device")
    dtype = kw.get("dtype")
    copy, fmt = kw.get("copy", False), kw.get("memory_format")
    bad = set(kw) - {"device", "dtype", "copy", "memory_format", "non_blocking", "other"}
    if bad:
        raise TypeError(f"to() received an invalid combination of arguments - got an unexpected keyword {sorted(bad)[0]!r}")
    args = list(args)
    if "other" in kw:
        args.insert(0, kw["other"])
    if args:
        a = args.pop(0)
        if isinstance(a, Tensor):
            device, dtype = a.device, a.dtype
        elif isinstance(a, dtypes.dtype):
            dtype = a
        elif a is None or isinstance(a, (str, device_.device, int)):
            device = a if device is None else device
            if args and (isinstance(args[0], dtypes.dtype) or args[0] is None):
                dtype = args.pop(0)
        elif a in (float, int, bool, complex) or isinstance(a, np.dtype):
            dtype = dtypes.of(dtypes.to_np(a))
        else:
            raise TypeError(f"to() received an invalid combination of arguments - got ({type(a).__name__})")
        if args and isinstance(args[0], bool):
            args.pop(0)  # non_blocking: transfers never block here
        if args and isinstance(args[0], bool):
            copy = args.pop(0)
    if dtype is not None and not isinstance(dtype, dtypes.dtype):
        dtype = dtypes.of(dtypes.to_np(dtype))
    return device, dtype, copy, fmt


def to(self, *args, **kw):
    """The tensor in another dtype, on another device; itself when nothing changes (torch.Tensor.to)."""
    if len(args) == 1 and not kw:  # the forms met in loops
        a = args[0]
        if a.__class__ is device_.device:
            if a is self._v.aval.device.public:
                return self
        elif a.__class__ is dtypes.dtype:
            return self if a.np == self._v.aval.dtype else core.cast(self, a)
    device, dtype, copy, fmt = _parse_to(args, kw)
    r = self
    if dtype is not None and dtype.np != self._v.aval.dtype:
        r = core.cast(r, dtype)
    if device is not None:
        dev = device_.resolve(device)
        if dev is not r._v.aval.device:
            from lazy_tensor.autograd.engine import copy_tensor
            r = copy_tensor(r, dev)
    if copy and r is self:
        r = self.clone()
    if fmt is not None and fmt.name in ("channels_last", "channels_last_3d", "contiguous_format"):
        r = _formatted(r if r is not self else self, fmt)
    return r


def _formatted(t, fmt):
    """t as a user sees it in a memory format: itself, or a copy that says so."""
    if strides.is_contiguous(t, fmt):
        return t
    shape = t._v.aval.shape
    if fmt.name != "contiguous_format" and len(shape) != (4 if fmt.name == "channels_last" else 5):
        raise RuntimeError(f"required rank {4 if fmt.name == 'channels_last' else 5} tensor to use {fmt.name} format")
    r = t.clone()
    if fmt.name == "contiguous_format":
        strides.lay(r, None)
    else:
        strides.lay(r, strides.channels_last(shape))
    return r


def clone(self, *, memory_format=None):
    """A copy that owns its storage; gradients flow through (torch.clone)."""
    r = core._clone(self)
    if memory_format is None or memory_format.name == "preserve_format":
        if self._view is not None and strides.root_strides(self) is not None:
            strides.lay(r, strides.root_strides(self))
    elif memory_format.name.startswith("channels_last"):
        strides.lay(r, strides.channels_last(r._v.aval.shape))
    return r


def contiguous(self, memory_format=layouts.contiguous_format):
    """Itself when it already lies in that order, else a copy."""
    if strides.is_contiguous(self, memory_format):
        return self
    r = core._clone(self)
    if memory_format.name.startswith("channels_last"):
        strides.lay(r, strides.channels_last(r._v.aval.shape))
    return r


def copy_(self, src, non_blocking=False):
    """Write src (broadcast, cast, moved) into self; returns self (torch.Tensor.copy_)."""
    check_inplace(self, "copy_")
    if not isinstance(src, Tensor):
        if not isinstance(src, (int, float, complex, bool, np.ndarray)):
            raise TypeError(f"copy_(): argument 'other' must be Tensor, not {type(src).__name__}")
        src = creation.tensor(src)
    a, b = src._v.aval, self._v.aval
    if a.device is not b.device:
        from lazy_tensor.autograd.engine import copy_tensor
        src = copy_tensor(src, b.device)
    if modes.grad and self._gn is not None:
        r = core.place(self, src)
    else:
        r = core.spread(src, b.shape, self.dtype)
    return assign_(self, r, "copy_")


def zero_(self):
    """Fill with zeros in place."""
    return self.fill_(0)


def set_(self, source=None, *args):
    """Make self refer to source's value (torch.Tensor.set_)."""
    if source is None:
        source = creation.tensor([], dtype=self.dtype, device=self.device)
    with no_tape():
        self.data = source
    return self


def resize_(self, *size, memory_format=None):
    """Change the size in place; elements are kept in order, new ones are zero (torch.Tensor.resize_).

    What a smaller size leaves over comes back with a larger one. Views made before keep the old storage."""
    size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else tuple(size)
    flat = np.array(self._host()).reshape(-1)
    n = int(np.prod(size)) if size else 1
    rest = self.__dict__.pop("_rest", None)
    if rest is not None and rest.dtype == flat.dtype:
        flat = np.concatenate([flat, rest])
    if flat.size > n:
        self.__dict__["_rest"] = flat[n:]
    out = np.zeros(n, flat.dtype)
    out[:min(n, flat.size)] = flat[:n]
    t = creation._array(out.reshape(size), None, self.device, copy=False)
    _leave(self)
    self._v = t._v
    return self


def cpu(self, memory_format=None):
    """The tensor in host memory."""
    return to(self, "cpu")


def cuda(self, device=None, non_blocking=False, memory_format=None):
    """Raises: there is no CUDA here; `.to("xla")` is the accelerator."""
    raise AssertionError("Torch not compiled with CUDA enabled: this library runs on XLA devices; use .to('xla')")


def xla(self, device=None):
    """The tensor on the XLA device."""
    return to(self, device if device is not None else "xla")


def type_(self, dtype=None, non_blocking=False, **kw):
    """The type's name, or the tensor cast to a dtype (torch.Tensor.type)."""
    if dtype is None:
        names = {v: k for k, v in creation._LEGACY.items()}
        head = "torch." if self._v.aval.device.host else "torch.xla."
        return head + names.get(self.dtype.name, self.dtype.name)
    if isinstance(dtype, str):
        last = dtype.split(".")[-1]
        name = creation._LEGACY.get(last, last)
        dev = "xla" if ".xla." in dtype else None
        return to(self, dev, dtypes.names[name]) if dev else to(self, dtypes.names[name])
    if isinstance(dtype, creation._LegacyMeta):
        return to(self, dtypes.names[dtype._name])
    return to(self, dtype)


def _caster(name):
    d = dtypes.names[name]

    def method(self, memory_format=None):
        if self._v.aval.dtype == d.np:
            return self
        return core.cast(self, d)
    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The tensor as {d.name}."
    return method


def stride(self, dim=None):
    """Steps in elements between neighbours along each dimension, as a user of torch sees them."""
    s = strides.of(self)[0]
    return s if dim is None else s[dim]


def is_contiguous(self, memory_format=layouts.contiguous_format):
    """Whether it lies in C order, or in the given memory format."""
    return strides.is_contiguous(self, memory_format)


def storage_offset(self):
    """The first element's place in the storage."""
    return strides.of(self)[1]


def data_ptr(self):
    """A number that tells storages apart (there is no pointer to a lazy value); 0 for an empty tensor."""
    if self.numel() == 0:
        return 0
    w = self._view
    base = id(w.storage) if w is not None else id(self._v)
    return base + storage_offset(self) * self.element_size()


class UntypedStorage:
    """What `untyped_storage()` gives: size and identity, no bytes."""

    def __init__(self, t):
        self._t = t._base if t._base is not None else t

    def data_ptr(self):
        return data_ptr(self._t)

    def nbytes(self):
        return self._t.nbytes

    size = __len__ = nbytes

    @property
    def device(self):
        return self._t.device

    def tolist(self):
        return list(np.array(self._t._host()).tobytes())

    def __eq__(self, other):
        return isinstance(other, UntypedStorage) and self.data_ptr() == other.data_ptr()

    def __hash__(self):
        return hash(self.data_ptr())


def untyped_storage(self):
    """The storage's size and identity."""
    return UntypedStorage(self)


def is_set_to(self, other):
    """Whether both refer to the same storage in the same way."""
    return data_ptr(self) == data_ptr(other) and self.shape == other.shape and stride(self) == stride(other)


def apply_(self, fn):
    """Apply a Python function to each element of a cpu tensor, in place."""
    if not self._v.aval.device.host:
        raise TypeError("apply_ is only implemented on CPU tensors")
    a = np.array(self._host())
    flat = a.reshape(-1)
    for i in range(flat.size):
        flat[i] = fn(flat[i].item())
    return assign_(self, creation._array(a, None, "cpu", copy=False), "apply_")


def new(self, *args, **kw):
    """A tensor of the same dtype and device from sizes or data (legacy)."""
    return creation.legacy(Tensor, args, kw.pop("device", None) or self.device, dtype=self.dtype, **kw)


def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """A new tensor from data, in self's dtype and on its device unless told."""
    if isinstance(data, Tensor):
        t = data.detach().clone().to(device=device or self.device, dtype=dtype or data.dtype)
        return t.requires_grad_(requires_grad)
    return creation.tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


def type_as(self, other):
    """Cast and moved to other's dtype and device."""
    return to(self, other)


def is_floating_point(self):
    """Whether the dtype is a floating one."""
    return self.dtype.is_floating_point


def is_complex(self):
    """Whether the dtype is complex."""
    return self.dtype.is_complex


def is_signed(self):
    """Whether the dtype can hold negative numbers."""
    return self.dtype.is_signed


def same(self, *args, **kw):
    """The tensor itself: there is nothing to do for an XLA value."""
    return self


def is_pinned(self, device=None):
    """False: transfers need no pinned memory here."""
    return False


def get_device(self):
    """The device's index, -1 on cpu."""
    i = self.device.index
    return -1 if self._v.aval.device.host else (i or 0)


def to_dense(self, dtype=None, *, masked_grad=None):
    """Itself: every tensor is dense."""
    return self if dtype is None else to(self, dtype)


def as_subclass(self, cls):
    """The same tensor as a subclass instance."""
    r = object.__new__(cls)
    r._v, r._gn, r._oi, r._view, r._ver = self._value(), self._gn, self._oi, None, 0
    return as_view(r, self, None)


def align_error(self, *a, **k):
    raise NotImplementedError("named tensors are not supported")


def _operators(cls, fns):
    """Python's operators over the ops."""
    def guarded(fn):
        """An operator that lets Python try the other operand's method, as torch does for foreign types."""
        @functools.wraps(fn)
        def call(self, other):
            if not isinstance(other, (Tensor, int, float, complex, bool, np.generic, np.ndarray)):
                return NotImplemented
            return fn(self, other)
        return call

    def reflected(fn):
        @functools.wraps(fn)
        def call(self, other):
            if not isinstance(other, (Tensor, int, float, complex, bool, np.generic, np.ndarray)):
                return NotImplemented
            return fn(other, self)
        return call

    table = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
             "pow": "pow", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
             "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift"}
    for py, name in table.items():
        fn = fns.get(name)
        if fn is None:
            continue
        setattr(cls, f"__{py}__", guarded(fn) if py not in ("add", "sub", "mul", "truediv", "matmul") else _soft(fn))
        setattr(cls, f"__r{py}__", reflected(fn))
        if py != "matmul":
            setattr(cls, f"__i{py}__", _define._make_inplace(fn, f"{name}_"))
    for py, name in {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}.items():
        if name in fns:
            setattr(cls, f"__{py}__", guarded(fns[name]))
    for py, name in {"div": "truediv", "rdiv": "rtruediv", "idiv": "itruediv"}.items():
        if hasattr(cls, f"__{name}__"):
            setattr(cls, f"__{py}__", getattr(cls, f"__{name}__"))
    for py, name in {"neg": "neg", "abs": "abs", "invert": "bitwise_not"}.items():
        if name in fns:
            setattr(cls, f"__{py}__", fns[name])
    cls.__pos__ = lambda self: self
    cls.__hash__ = object.__hash__


def _soft(fn):
    """The op, with NotImplemented for operands that are no numbers or tensors (decided only after a failure)."""
    def call(self, other):
        try:
            return fn(self, other)
        except TypeError:
            if isinstance(other, (Tensor, int, float, complex, bool, np.generic, np.ndarray)):
                raise
            return NotImplemented
    call.__name__ = fn.__name__
    call.__doc__ = fn.__doc__
    return call


def attach():
    """Put every method on Tensor: the ops' own, then these."""
    fns = _define.methods()
    for name, fn in fns.items():
        if name not in Tensor.__dict__:
            setattr(Tensor, name, fn)
    from lazy_tensor.ops.shape import PROPERTIES
    for name, fn in PROPERTIES.items():
        setattr(Tensor, name, property(fn))
    here = globals()
    for name in ("to clone contiguous copy_ zero_ set_ resize_ cpu cuda xla stride is_contiguous storage_offset data_ptr "
                 "untyped_storage is_set_to apply_ new new_tensor type_as is_floating_point is_complex is_signed is_pinned "
                 "get_device to_dense as_subclass").split():
        setattr(Tensor, name, here[name])
    Tensor.type = type_
    Tensor.storage = Tensor.typed_storage = untyped_storage
    for name in "pin_memory share_memory_ coalesce dequantize".split():
        setattr(Tensor, name, same)
    Tensor.is_shared = is_pinned
    Tensor.rename = Tensor.align_to = align_error
    for name in ("float double half bfloat16 short int long bool cfloat cdouble").split():
        setattr(Tensor, name, _caster(name))
    Tensor.char = _caster("int8")
    Tensor.byte = _caster("uint8")
    everything = {**_define.namespace(""), **fns}
    _operators(Tensor, everything)
    from lazy_tensor import indexing
    Tensor.__getitem__ = indexing.getitem
    Tensor.__setitem__ = indexing.setitem
    Tensor._scalar = staticmethod(wrap)
    publish("clone", clone)
    publish("zero_", zero_)
    publish("detach", lambda input: input.detach())
    publish("is_floating_point", lambda input: is_floating_point(input))
    publish("is_complex", lambda input: is_complex(input))
    publish("is_signed", lambda input: is_signed(input))
    publish("numel", lambda input: input.numel())
    publish("is_nonzero", lambda input: bool(input))
    Tensor.is_nonzero = lambda self: bool(self)
    publish("result_type", result_type)




def result_type(tensor1, tensor2):
    """The dtype that an arithmetic op on both would give (torch.result_type)."""
    dims, zeros, wrapped = [], [], []
    for x in (tensor1, tensor2):
        if isinstance(x, Tensor):
            (dims if x.dim() else zeros).append(x._v.aval.dtype)
        else:
            wrapped.append(_define._wrapped_dtype(np.asarray(x).dtype))
    return dtypes.of(dtypes.combine(dims, zeros, wrapped))

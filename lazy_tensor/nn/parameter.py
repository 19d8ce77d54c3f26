"""Parameter, Buffer, and parameters whose shape is not known yet (torch.nn.parameter)."""
from __future__ import annotations

from lazy_tensor.tensor import Detached, Tensor, _new, as_view


def _taken(cls, data):
    """A tensor of class cls on data's storage."""
    t = _new(cls)
    t._v = data._value()
    t._gn = t._view = None
    t._oi = t._ver = 0
    return as_view(t, data, None, Detached)


class Parameter(Tensor):
    """A leaf tensor that a Module registers when it is assigned (torch.nn.Parameter).

    It shares the storage of `data`."""

    __slots__ = ()

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            import lazy_tensor as lt
            data = lt.empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(f"Parameter(): argument 'data' must be a Tensor, not {type(data).__name__}; "
                            "lt.as_tensor(data) would fit")
        if isinstance(data, (UninitializedParameter, UninitializedBuffer)):
            raise ValueError("Parameter(): an uninitialized tensor has no value yet; run a forward of its module first")
        t = _taken(cls, data)
        if type(data) not in (Tensor, Parameter) and data.__dict__:
            t.__dict__.update(data.__dict__)
        if requires_grad:
            t.requires_grad = True
        return t

    def __init__(self, data=None, requires_grad=True):
        pass

    def __repr__(self, *, tensor_contents=None):
        return "Parameter containing:\n" + Tensor.__repr__(self)


class Buffer(Tensor):
    """A tensor that a Module registers as a buffer when it is assigned (torch.nn.Buffer)."""

    __slots__ = ()

    def __new__(cls, data=None, *, persistent=True):
        if data is None:
            import lazy_tensor as lt
            data = lt.empty(0)
        t = _taken(cls, data)
        if data.requires_grad:
            t.requires_grad = True
        t.persistent = persistent
        return t

    def __init__(self, data=None, *, persistent=True):
        pass


class UninitializedTensorMixin:
    """A parameter or buffer without a shape; `materialize(shape)` gives it one."""

    def _spec(self, device, dtype):
        import lazy_tensor as lt
        self._device = lt.device(device) if device is not None else None
        self._dtype = dtype

    def materialize(self, shape, device=None, dtype=None):
        """Become an ordinary parameter or buffer of a shape (values not set)."""
        import lazy_tensor as lt
        data = lt.empty(tuple(shape), device=device if device is not None else self._device,
                        dtype=dtype if dtype is not None else self._dtype)
        self.data = data
        for k in ("_device", "_dtype"):
            self.__dict__.pop(k, None)
        grad = self._wants_grad
        self.__dict__.pop("_wants_grad", None)
        self.__class__ = self.cls_to_become
        if grad:
            self.requires_grad = True

    def _apply_lazy(self, fn):
        """Remember where a move or cast would put the value."""
        import lazy_tensor as lt
        probe = fn(lt.empty(1, device=self._device, dtype=self._dtype))
        self._device, self._dtype = probe.device, probe.dtype

    @property
    def shape(self):
        """RuntimeError: there is no shape yet."""
        raise RuntimeError("Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
                           "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call "
                           "`forward` to initialize the parameters before accessing their attributes.")

    def __deepcopy__(self, memo):
        r = type(self)(device=self._device, dtype=self._dtype)
        r._wants_grad = self._wants_grad
        memo[id(self)] = r
        return r

    def __reduce_ex__(self, proto):
        return _rebuild_lazy, (type(self), self._wants_grad, self._device, self._dtype)

    def __repr__(self, *, tensor_contents=None):
        return f"<{type(self).__name__}>"


def _rebuild_lazy(cls, wants_grad, device, dtype):
    r = cls(device=device, dtype=dtype)
    r._wants_grad = wants_grad
    return r


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A Parameter whose shape a lazy module learns from its first input (torch.nn.UninitializedParameter)."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        import lazy_tensor as lt
        t = _taken(cls, lt.empty(0))
        t._spec(device, dtype)
        t._wants_grad = requires_grad
        return t

    def __init__(self, requires_grad=True, device=None, dtype=None):
        pass


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape a lazy module learns from its first input."""

    cls_to_become = Tensor
    persistent = True

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        import lazy_tensor as lt
        t = _taken(cls, lt.empty(0))
        t._spec(device, dtype)
        t._wants_grad = False
        t.persistent = persistent
        return t

    def __init__(self, requires_grad=False, device=None, dtype=None, persistent=True):
        pass


def is_lazy(param):
    """Whether a parameter or buffer is still without a shape."""
    return isinstance(param, UninitializedTensorMixin)

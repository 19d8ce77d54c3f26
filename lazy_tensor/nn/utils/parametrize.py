"""Parameters computed from others by modules (torch.nn.utils.parametrize)."""
from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from contextlib import contextmanager
from types import SimpleNamespace

from lazy_tensor.modes import no_grad
from lazy_tensor.nn.containers import ModuleDict, ModuleList
from lazy_tensor.nn.module import Module
from lazy_tensor.nn.parameter import Parameter
from lazy_tensor.tensor import Tensor


class _Cache(threading.local):
    depth = 0  # how many `cached()` this thread is within

    def __init__(self):
        self.values = {}


_cache = _Cache()


@contextmanager
def cached():
    """Within it each parametrized tensor is computed once (in the thread that entered it)."""
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.values = {}


def _agree(said, mine, x, theirs, y):
    """ValueError, said of the field and with both values, unless x and y agree in dtype and shape."""
    for field in ("dtype", "shape"):
        if getattr(x, field) != getattr(y, field):
            raise ValueError(f"{said.format(field)}\n{mine.format(field)}: {getattr(x, field)}\n{theirs.format(field)}: {getattr(y, field)}")


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, with the tensor (or tensors) they start from as `original` (`original0`, ...)."""

    def __init__(self, modules, original, unsafe=False):
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        value, was = original, SimpleNamespace(dtype=original.dtype, shape=original.shape)
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        value = module.right_inverse(value)
                    except NotImplementedError:
                        continue  # the parametrization says that it has none: its input is the tensor itself
        self.is_tensor = isinstance(value, Tensor)
        if not self.is_tensor and not isinstance(value, Sequence):
            raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                             f"Got {type(value).__name__}")
        self.ntensors = 1 if self.is_tensor else len(value)
        if self.is_tensor:
            if value.dtype != was.dtype:
                raise ValueError("When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                                 f"original.dtype: {was.dtype}\nright_inverse(original).dtype: {value.dtype}")
            if value is not original:
                original.data = value.detach()  # the same Parameter: an optimizer may hold it
            if isinstance(original, Parameter):
                self.register_parameter("original", original)
            else:
                self.register_buffer("original", original)
        else:
            for i, t in enumerate(value):
                if not isinstance(t, Tensor):
                    raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                                     f"Got element {i} of the sequence with type {type(t).__name__}.")
                if isinstance(original, Parameter):
                    self.register_parameter(f"original{i}", Parameter(t.detach(), requires_grad=original.requires_grad))
                else:
                    self.register_buffer(f"original{i}", t)
        if not unsafe:
            z = self()
            if not isinstance(z, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(z).__name__}.")
            _agree("Registering a parametrization may not change the {} of the tensor, unless `unsafe` flag is enabled.",
                   "unparametrized {}", was, "parametrized {}", z)

    def _originals(self):
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value):
        """Set the originals so that the parametrized tensor is value."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
                if value.dtype != self.original.dtype:
                    raise ValueError(f"The tensor returned by `right_inverse` has dtype {value.dtype} while `original` has dtype "
                                     f"{self.original.dtype}")
                value = [value]
            else:
                if isinstance(value, Tensor) or not isinstance(value, Sequence):
                    raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
                if len(value) != self.ntensors:
                    raise ValueError(f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of "
                                     f"length {len(value)}.")
                for i, (t, o) in enumerate(zip(value, self._originals(), strict=True)):
                    if not isinstance(t, Tensor):
                        raise ValueError(f"`right_inverse` must return a sequence of tensors. Got element {i} of type {type(t).__name__}")
                    if t.dtype != o.dtype:
                        raise ValueError(f"Tensor {i} returned by `right_inverse` has dtype {t.dtype} while `original{i}` has dtype "
                                         f"{o.dtype}")
            for o, t in zip(self._originals(), value, strict=True):
                o.data = t.detach().clone()

    def forward(self):
        """The parametrized tensor."""
        modules = list(self)
        x = modules[0](*self._originals())
        for m in modules[1:]:
            x = m(x)
        return x


def _getter(name):
    def get(self):
        p = self.parametrizations[name]
        if _cache.depth:
            key = (id(self), name)
            if key not in _cache.values:
                _cache.values[key] = p()
            return _cache.values[key]
        return p()

    def put(self, value):
        self.parametrizations[name].right_inverse(value)
    return property(get, put)


def _inject_class(module):
    cls = type(module)

    def deepcopy(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        new = memo[id(self)] = self.__new__(type(self))
        new.__setstate__(copy.deepcopy(Module.__getstate__(self), memo))
        return new

    def getstate(self):
        raise RuntimeError("Serialization of parametrized modules is only supported through state_dict(). See:\n"
                           "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
                           "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training")
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), {"__deepcopy__": deepcopy, "__getstate__": getstate})
    module.parametrizations = ModuleDict()


def _check_appended(module, name, parametrization):
    """ValueError where a further parametrization would change dtype or shape of module.name."""
    y = getattr(module, name)
    x = parametrization(y)
    if not isinstance(x, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(x).__name__}.")
    mine = f"module.{name}.{{}}"
    _agree("Registering a parametrization may not change the {} of the tensor, unless the `unsafe` flag is enabled.",
           mine, y, f"parametrization(module.{name}).{{}}", x)
    if hasattr(parametrization, "right_inverse"):
        try:
            z = parametrization.right_inverse(x)
        except NotImplementedError:
            return
        if not isinstance(z, Tensor):
            raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(z).__name__}")
        _agree(f"The tensor returned by parametrization.right_inverse must have the same {{}} as module.{name}, unless the `unsafe` flag "
               "is enabled.", mine, y, "returned {}", z)


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """Make module.tensor_name the value of `parametrization` on the tensor; returns module.

    The tensor becomes `parametrizations.NAME.original` (the same Parameter), through the parametrization's `right_inverse` where it
    has one; several tensors from it become `original0`, `original1`, ... A further parametrization takes the value of the earlier.
    ValueError where dtype or shape would change, unless `unsafe` (torch.nn.utils.parametrize.register_parametrization)."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            with no_grad():
                _check_appended(module, tensor_name, parametrization)
        plist = module.parametrizations[tensor_name]
        plist.append(parametrization)
        plist.unsafe |= unsafe
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'")
    plist = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _inject_class(module)
    setattr(type(module), tensor_name, _getter(tensor_name))
    module.parametrizations[tensor_name] = plist
    return module


def is_parametrized(module, tensor_name=None):
    """Whether the module (or one of its tensors) is parametrized."""
    p = module.__dict__.get("_modules", {}).get("parametrizations")
    if not isinstance(p, ModuleDict):
        return False
    return len(p) > 0 if tensor_name is None else tensor_name in p


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Make module.tensor_name an ordinary tensor again, of the parametrized value or of the original's; returns module."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    plist = module.parametrizations[tensor_name]
    if not plist.is_tensor and not leave_parametrized:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence "
                         "of tensors.")
    first = plist._originals()[0]
    with no_grad():
        value = getattr(module, tensor_name).detach().clone() if leave_parametrized else first
    if plist.is_tensor:
        if leave_parametrized:
            first.data = value
        value = first
    elif isinstance(first, Parameter):
        value = Parameter(value, requires_grad=any(o.requires_grad for o in plist._originals()))
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    if isinstance(value, Parameter):
        module.register_parameter(tensor_name, value)
    else:
        module.register_buffer(tensor_name, value)
    return module


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Give to_module the parametrizations of from_module (of tensor_name only, where given) and the tensors they start from, which
    both share then; returns to_module."""
    for name in ([tensor_name] if tensor_name is not None else list(from_module.parametrizations)) if is_parametrized(from_module) else ():
        if not is_parametrized(from_module, name):
            continue
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for p in source:
            register_parametrization(to_module, name, p, unsafe=True)
        plist = to_module.parametrizations[name]
        plist.unsafe = source.unsafe
        for kind in ("_parameters", "_buffers"):
            getattr(plist, kind).update(getattr(source, kind))
    return to_module


def type_before_parametrizations(module):
    """The class that the module had before."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)

"""Parameters computed from others by modules (torch.nn.utils.parametrize)."""
from __future__ import annotations

import copy
from contextlib import contextmanager

from lazy_tensor.modes import no_grad
from lazy_tensor.nn.containers import ModuleDict, ModuleList
from lazy_tensor.nn.module import Module
from lazy_tensor.nn.parameter import Parameter
from lazy_tensor.tensor import Tensor

_cache = {"depth": 0, "values": {}}


@contextmanager
def cached():
    """Within it each parametrized tensor is computed once."""
    _cache["depth"] += 1
    try:
        yield
    finally:
        _cache["depth"] -= 1
        if not _cache["depth"]:
            _cache["values"] = {}


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, with the tensor (or tensors) they start from as `original` (`original0`, ...)."""

    def __init__(self, modules, original, unsafe=False):
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        new = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        continue  # the parametrization says that it has none: its input is the tensor itself
        if not isinstance(new, Tensor) and not isinstance(new, (list, tuple)):
            raise ValueError("'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                             f"Got {type(new).__name__}")
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        for i, t in enumerate([new] if self.is_tensor else new):
            name = "original" if self.is_tensor else f"original{i}"
            if isinstance(original, Parameter):
                if self.is_tensor and t is original:
                    self.register_parameter(name, original)
                else:
                    self.register_parameter(name, Parameter(t.detach(), requires_grad=original.requires_grad and
                                                            t.is_floating_point()))
            else:
                self.register_buffer(name, t)
        if not unsafe:
            z = self()
            if not isinstance(z, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(z).__name__}.")
            if z.dtype != original.dtype:
                raise ValueError("Registering a parametrization may not change the dtype of the tensor, unless `unsafe` flag is enabled.\n"
                                 f"unparametrized dtype: {original.dtype}\nparametrized dtype: {z.dtype}")
            if z.shape != original.shape:
                raise ValueError("Registering a parametrization may not change the shape of the tensor, unless `unsafe` flag is enabled.\n"
                                 f"unparametrized shape: {original.shape}\nparametrized shape: {z.shape}")

    def _originals(self):
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value):
        """Set the originals so that the parametrized tensor is value."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            for o, v in zip(self._originals(), [value] if self.is_tensor else value, strict=True):
                o.data = v.detach().clone()

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
        if _cache["depth"]:
            key = (id(self), name)
            if key not in _cache["values"]:
                _cache["values"][key] = p()
            return _cache["values"][key]
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
                           "https://pytorch.org/tutorials/beginner/saving_loading_models.html")
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), {"__deepcopy__": deepcopy, "__getstate__": getstate,
                                                                    "__module__": cls.__module__})
    module.parametrizations = ModuleDict()


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """Make module.tensor_name the value of `parametrization` on the tensor; returns module."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        plist = module.parametrizations[tensor_name]
        plist.append(parametrization)
        if hasattr(parametrization, "right_inverse"):
            with no_grad():
                value = getattr(module, tensor_name)
            if not unsafe and value.shape != plist().shape:
                raise ValueError("A parametrization may not change the shape of the input tensor")
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'")
    original = getattr(module, tensor_name)
    plist = ParametrizationList([parametrization], original, unsafe=unsafe)
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
    """Make module.tensor_name an ordinary tensor again; returns module."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    plist = module.parametrizations[tensor_name]
    is_param = isinstance(plist._originals()[0], Parameter)
    grad = any(o.requires_grad for o in plist._originals())
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name).detach().clone()
        original = Parameter(value, requires_grad=grad) if is_param else value
    elif plist.is_tensor:
        original = plist.original
    else:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence "
                         "of tensors.")
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    if is_param:
        module.register_parameter(tensor_name, original)
    else:
        module.register_buffer(tensor_name, original)
    return module


def type_before_parametrizations(module):
    """The class that the module had before."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


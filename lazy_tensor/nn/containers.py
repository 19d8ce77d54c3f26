"""Modules and parameters in lists and dicts (torch.nn.modules.container)."""
from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import islice

from lazy_tensor.nn.module import Module, _addindent
from lazy_tensor.nn.parameter import Parameter
from lazy_tensor.tensor import Tensor


def _index(self, idx, what="index"):
    idx = operator.index(idx)
    if not -len(self) <= idx < len(self):
        raise IndexError(f"index {idx} is out of range")
    return idx % len(self)


class Sequential(Module):
    """Modules called one after the other; from positional modules or an OrderedDict (torch.nn.Sequential)."""

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for key, module in args[0].items():
                self.add_module(key, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def _key(self, idx):
        idx = operator.index(idx)
        if not -len(self) <= idx < len(self):
            raise IndexError(f"index {idx} is out of range")
        return next(islice(self._modules, idx % len(self), None))

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._key(idx)]

    def __setitem__(self, idx, module):
        setattr(self, self._key(idx), module)

    def __delitem__(self, idx):
        for key in list(self._modules)[idx] if isinstance(idx, slice) else [self._key(idx)]:
            delattr(self, key)
        self._renumber(list(self._modules.values()))

    def _renumber(self, modules):
        self._modules = {str(i): m for i, m in enumerate(modules)}

    def __len__(self):
        return len(self._modules)

    def __add__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __iadd__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return self.extend(other)

    def __mul__(self, other):
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")
        return Sequential(*(m for _ in range(other) for m in self))

    __rmul__ = __mul__

    def __imul__(self, other):
        mine = list(self)
        for _ in range(other - 1):
            self.extend(mine)
        return self

    def __iter__(self):
        return iter(self._modules.values())

    def __dir__(self):
        return [k for k in super().__dir__() if not k.isdigit()]

    def append(self, module):
        """Add a module at the end; returns self."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, sequential):
        """Add modules at the end; returns self."""
        for m in list(sequential):
            self.append(m)
        return self

    def insert(self, index, module):
        """Put a module before position `index`; returns self."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        modules = list(self)
        modules.insert(index + n if index < 0 else index, module)
        self._renumber(modules)
        return self

    def pop(self, key):
        """Take a module out and return it."""
        m = self[key]
        del self[key]
        return m

    def forward(self, input):
        """The modules' composition on input."""
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(Module):
    """A list of registered modules (torch.nn.ModuleList)."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self += modules

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return type(self)(list(self._modules.values())[idx])
        return self._modules[str(_index(self, idx))]

    def __setitem__(self, idx, module):
        setattr(self, str(_index(self, idx)), module)

    def __delitem__(self, idx):
        modules = list(self)
        if not isinstance(idx, slice):
            idx = _index(self, idx)
        del modules[idx]
        self._modules = {str(i): m for i, m in enumerate(modules)}

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        return ModuleList([*self, *other])

    def __dir__(self):
        return [k for k in super().__dir__() if not k.isdigit()]

    def __repr__(self):
        lines, run = [], []
        for i, r in enumerate([repr(m) for m in self] + [None]):
            if run and run[-1][1] != r:
                first, last = run[0][0], run[-1][0]
                head = f"({first})" if first == last else f"({first}-{last})"
                text = run[0][1] if first == last else f"{last - first + 1} x {run[0][1]}"
                lines.append(f"{head}: {_addindent(text, 2)}")
                run = []
            run.append((i, r))
        if not lines:
            return self._get_name() + "()"
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"

    def insert(self, index, module):
        """Put a module before position `index`."""
        modules = list(self)
        modules.insert(index, module)
        self._modules = {}
        self.extend(modules)

    def append(self, module):
        """Add a module at the end; returns self."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key):
        """Take a module out and return it."""
        m = self[key]
        del self[key]
        return m

    def extend(self, modules):
        """Add modules at the end; returns self."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        n = len(self)
        for i, m in enumerate(list(modules)):
            self.add_module(str(n + i), m)
        return self


class ModuleDict(Module):
    """A dict of registered modules (torch.nn.ModuleDict)."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        """Take all modules out."""
        self._modules.clear()

    def pop(self, key):
        """Take a module out and return it."""
        m = self[key]
        del self[key]
        return m

    def keys(self):
        """The names."""
        return self._modules.keys()

    def items(self):
        """(name, module) pairs."""
        return self._modules.items()

    def values(self):
        """The modules."""
        return self._modules.values()

    def update(self, modules):
        """Add modules from a mapping or (name, module) pairs."""
        if not isinstance(modules, Iterable):
            raise TypeError("ModuleDict.update should be called with an iterable of key/value pairs, but got "
                            + type(modules).__name__)
        for key, m in modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules:
            self[key] = m


def _describe(k, p):
    if isinstance(p, Tensor):
        kind = "Parameter" if isinstance(p, Parameter) else "Tensor"
        return f"({k}): {kind} containing: [{p.dtype} of size {'x'.join(map(str, p.shape))}" + (
            f" ({p.device})]" if p.device.type != "cpu" else "]")
    return f"({k}): Object of type: {type(p).__name__}" + (repr(p) if isinstance(p, Module) else "")


class ParameterList(Module):
    """A list whose tensors are registered as parameters (torch.nn.ParameterList)."""

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            out = type(self)()
            for i in range(*idx.indices(len(self))):
                out.append(self[i])
            return out
        return getattr(self, str(_index(self, idx)))

    def __setitem__(self, idx, param):
        idx = str(_index(self, idx))
        if isinstance(param, Tensor) and not isinstance(param, Parameter):
            param = Parameter(param, requires_grad=param.is_floating_point() or param.is_complex())
        setattr(self, idx, param)

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter([self[i] for i in range(len(self))])

    def __iadd__(self, parameters):
        return self.extend(parameters)

    def __dir__(self):
        return [k for k in super().__dir__() if not k.isdigit()]

    def append(self, value):
        """Add a value at the end; returns self."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values):
        """Add values at the end; returns self."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for v in list(values):
            self.append(v)
        return self

    def extra_repr(self):
        """A line a value."""
        return "\n".join("  " + _describe(i, p) for i, p in enumerate(self))

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict whose tensors are registered as parameters (torch.nn.ParameterDict)."""

    def __init__(self, parameters=None):
        super().__init__()
        self._keys = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key):
        return getattr(self, self._str(key))

    @staticmethod
    def _str(key):
        if not isinstance(key, str):
            raise TypeError("Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                            f"'{type(key).__name__}'). Open an issue on github if you need non-string keys.")
        return key

    def __setitem__(self, key, value):
        self._keys[self._str(key)] = None
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value, requires_grad=value.is_floating_point() or value.is_complex())
        setattr(self, key, value)

    def __delitem__(self, key):
        del self._keys[key]
        delattr(self, key)

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __reversed__(self):
        return reversed(list(self._keys))

    def __contains__(self, key):
        return key in self._keys

    def __or__(self, other):
        new = ParameterDict(self.items())
        new.update(other)
        return new

    def __ior__(self, other):
        self.update(other)
        return self

    def copy(self):
        """A new ParameterDict of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key, default=None):
        """self[key], set to default first if absent."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self):
        """Take everything out."""
        for k in list(self._keys):
            del self[k]

    def pop(self, key):
        """Take a value out and return it."""
        v = self[key]
        del self[key]
        return v

    def popitem(self):
        """Take the last pair out and return it."""
        k = list(self._keys)[-1]
        return k, self.pop(k)

    def get(self, key, default=None):
        """self[key], or default."""
        return self[key] if key in self else default

    def fromkeys(self, keys, default=None):
        """A new ParameterDict of these keys with one value."""
        return ParameterDict((k, default) for k in keys)

    def keys(self):
        """The names."""
        return self._keys.keys()

    def items(self):
        """(name, value) pairs."""
        return [(k, self[k]) for k in self._keys]

    def values(self):
        """The values."""
        return [self[k] for k in self._keys]

    def update(self, parameters):
        """Add from a mapping or (name, value) pairs."""
        if not isinstance(parameters, Iterable):
            raise TypeError("ParametersDict.update should be called with an iterable of key/value pairs, but got "
                            + type(parameters).__name__)
        if isinstance(parameters, (Mapping, ParameterDict)):
            ordered = isinstance(parameters, (OrderedDict, ParameterDict))
            parameters = parameters.items() if ordered else sorted(parameters.items())
        for k, v in parameters:
            self[k] = v

    def extra_repr(self):
        """A line a value."""
        return "\n".join("  " + _describe(k, p) for k, p in self.items())

    def __call__(self, input):
        raise RuntimeError("ParameterDict should not be called.")

"""Module: a tree of parameters, buffers and submodules with hooks, state dicts and moves (torch.nn.Module).

`_parameters`, `_buffers` and `_modules` are the truth, as in torch. `Module.__call__` without hooks costs four
truth tests over `forward`.
"""
from __future__ import annotations

import functools
import itertools
import warnings
import weakref
from collections import OrderedDict, namedtuple

from lazy_tensor.nn import hooks as _h
from lazy_tensor.nn.hooks import _any_global, _Handle
from lazy_tensor.nn.parameter import Buffer, Parameter, is_lazy
from lazy_tensor.tensor import Tensor, no_tape

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What `load_state_dict` found missing and unexpected."""

    __slots__ = ()

    def __repr__(self):
        return "<All keys matched successfully>" if not self.missing_keys and not self.unexpected_keys else super().__repr__()

    __str__ = __repr__


def _addindent(s, n):
    first, *rest = s.split("\n")
    return "\n".join([first, *(" " * n + line for line in rest)])


def _typename(x):
    return f"{type(x).__module__}.{type(x).__qualname__}" if not isinstance(x, Tensor) else f"torch.{type(x).__name__}"


_KINDS = ("_parameters", "_buffers", "_modules")


class _Table(dict):
    """A module's parameters, buffers or submodules by name. What is in it is also put into the module's `__dict__`, so that
    `self.weight` is a plain attribute (0.03 us; through `__getattr__` it is 1 us)."""

    def __init__(self, owner, items=()):
        self.owner = weakref.ref(owner)
        self.update(items)

    def _names(self):
        owner = self.owner()
        return owner.__dict__ if owner is not None else {}

    def __setitem__(self, name, value):
        dict.__setitem__(self, name, value)
        self._names()[name] = value

    def __delitem__(self, name):
        dict.__delitem__(self, name)
        self._names().pop(name, None)

    def update(self, *args, **kw):
        for k, v in dict(*args, **kw).items():
            self[k] = v

    __ior__ = None  # type: ignore[assignment]

    def setdefault(self, name, value=None):
        if name not in self:
            self[name] = value
        return self[name]

    def pop(self, name, *default):
        if name in self:
            value = self[name]
            del self[name]
            return value
        return dict.pop(self, name, *default)

    def popitem(self):
        name = next(reversed(self))
        return name, self.pop(name)

    def clear(self):
        for name in list(self):
            del self[name]

    def copy(self):
        return dict(self)

    def __reduce_ex__(self, protocol):
        return dict, (dict(self),)


class Module:
    """Base class of all neural network modules (torch.nn.Module): define `__init__` and `forward`."""

    dump_patches = False
    _version = 1
    training: bool
    call_super_init = False
    _compiled_call_impl = None

    def __init__(self, *args, **kwargs):
        if not self.call_super_init and kwargs:
            raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'")
        if not self.call_super_init and args:
            raise TypeError(f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given")
        self.__dict__.update(
            training=True, _parameters=_Table(self), _buffers=_Table(self), _non_persistent_buffers_set=set(), _backward_pre_hooks=OrderedDict(),
            _backward_hooks=OrderedDict(), _is_full_backward_hook=None, _forward_hooks=OrderedDict(),
            _forward_hooks_with_kwargs=OrderedDict(), _forward_hooks_always_called=OrderedDict(),
            _forward_pre_hooks=OrderedDict(), _forward_pre_hooks_with_kwargs=OrderedDict(), _state_dict_hooks=OrderedDict(),
            _state_dict_pre_hooks=OrderedDict(), _load_state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_post_hooks=OrderedDict(), _modules=_Table(self))
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args, **kwargs):
        """The computation; every subclass overrides it (NotImplementedError otherwise)."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    # --- calling

    def __call__(self, *args, **kwargs):  # hot: every layer of every step
        if self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks or _any_global:
            return _h.call(self, args, kwargs) if self._compiled_call_impl is None else self._compiled_call_impl(*args, **kwargs)
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return self.forward(*args, **kwargs)

    def _call_impl(self, *args, **kwargs):
        return _h.call(self, args, kwargs)

    def compile(self, *args, **kwargs):
        """Run this module's calls through `lt.compile` (torch.nn.Module.compile)."""
        import lazy_tensor as lt
        self._compiled_call_impl = lt.compile(self._call_impl, *args, **kwargs)

    # --- registration

    def register_buffer(self, name, tensor, persistent=True):
        """Add a tensor that is state but no parameter; kept out of the state dict when `persistent` is False."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{_typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)")
        for hook in _h.buffer_registration.values():
            out = hook(self, name, tensor)
            tensor = tensor if out is None else out
        self._buffers[name] = tensor
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def register_parameter(self, name, param):
        """Add a Parameter (or None: an absent one) under a name."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise TypeError(f"cannot assign '{_typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)")
        if param.grad_fn is not None:
            raise ValueError(f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To "
                             f"express '{name}' as a function of another Tensor, compute the value in the forward() method.")
        for hook in _h.parameter_registration.values():
            out = hook(self, name, param)
            param = param if out is None else out
        self._parameters[name] = param

    def add_module(self, name, module):
        """Add a submodule (or None) under a name."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        for hook in _h.module_registration.values():
            out = hook(self, name, module)
            module = module if out is None else out
        self._modules[name] = module

    def register_module(self, name, module):
        """The same as `add_module`."""
        self.add_module(name, module)

    def _check_name(self, kind, name, where):
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."' + (f", got: {name}" if kind == "module" else ""))
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in where:
            raise KeyError(f"attribute '{name}' already exists")

    # --- looking up by path

    def get_submodule(self, target):
        """The submodule at a dotted path; the module itself for ""."""
        if target == "":
            return self
        mod = self
        for item in target.split("."):
            if not hasattr(mod, item):
                raise AttributeError(f"{mod._get_name()} has no attribute `{item}`")
            mod = getattr(mod, item)
            if not isinstance(mod, Module):
                raise AttributeError(f"`{item}` is not an nn.Module")
        return mod

    def set_submodule(self, target, module, strict=False):
        """Put a module at a dotted path."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        *path, name = target.split(".")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent = self.get_submodule(".".join(path))
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def _get_in(self, target, ok, what):
        path, _, name = target.rpartition(".")
        mod = self.get_submodule(path)
        if not hasattr(mod, name):
            raise AttributeError(f"{mod._get_name()} has no attribute `{name}`")
        found = getattr(mod, name)
        if not ok(mod, name, found):
            raise AttributeError(f"`{name}` is not {what}")
        return found

    def get_parameter(self, target):
        """The parameter at a dotted path."""
        return self._get_in(target, lambda m, n, x: isinstance(x, Parameter), "an nn.Parameter")

    def get_buffer(self, target):
        """The buffer at a dotted path."""
        return self._get_in(target, lambda m, n, x: n in m._buffers, "a buffer")

    def get_extra_state(self):
        """Extra state for the state dict; override together with `set_extra_state`."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state):
        """Take what `get_extra_state` gave."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    # --- moves and casts

    def _apply(self, fn, recurse=True):
        if recurse:
            for m in self.children():
                m._apply(fn)
        for key, p in self._parameters.items():
            if p is None:
                continue
            if is_lazy(p):
                p._apply_lazy(fn)
                continue
            with no_tape():
                new = fn(p)
                grad = None if p.grad is None else fn(p.grad)
            if new is not p:
                if grad is not None:
                    p.grad = None
                p.data = new
                if p.requires_grad and not (new.is_floating_point() or new.is_complex()):
                    p.requires_grad = False
            if grad is not None and grad is not p.grad:
                p.grad = grad
            self._parameters[key] = p
        for key, b in self._buffers.items():
            if b is not None:
                if is_lazy(b):
                    b._apply_lazy(fn)
                else:
                    self._buffers[key] = fn(b)
        return self

    def apply(self, fn):
        """fn on every submodule, then on self; returns self."""
        for m in self.children():
            m.apply(fn)
        fn(self)
        return self

    def to(self, *args, **kwargs):
        """Move or cast in place: to(device=, dtype=, non_blocking=), to(dtype), to(tensor), to(memory_format=); returns self."""
        from lazy_tensor.methods import _parse_to
        device, dtype, _, fmt = _parse_to(args, kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")

        def convert(t):
            kw = {}
            if device is not None:
                kw["device"] = device
            if dtype is not None and (t.is_floating_point() or t.is_complex()):
                kw["dtype"] = dtype
            if fmt is not None and t.dim() in (4, 5):
                kw["memory_format"] = fmt
            return t.to(**kw) if kw else t
        return self._apply(convert)

    def to_empty(self, *, device, recurse=True):
        """Move to a device without keeping the values."""
        import lazy_tensor as lt
        return self._apply(lambda t: lt.empty_like(t, device=device), recurse=recurse)

    def cpu(self):
        """Move to host memory."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device=None):
        """Move to a CUDA device; torch's AssertionError where there is none (use `.to("xla")`)."""
        return self._apply(lambda t: t.cuda(device))

    def xpu(self, device=None):
        """Not available: AssertionError that says what is."""
        raise AssertionError("Torch not compiled with XPU enabled: use .to('xla') for the accelerator")

    def type(self, dst_type):
        """Cast all parameters and buffers."""
        return self._apply(lambda t: t.type(dst_type))

    def _cast(self, dtype, kinds=("is_floating_point",)):
        return self._apply(lambda t: t.to(dtype) if any(getattr(t, k)() for k in kinds) else t)

    def float(self):
        """Cast floating parameters and buffers to float32."""
        import lazy_tensor as lt
        return self._cast(lt.float32)

    def double(self):
        """Cast floating parameters and buffers to float64."""
        import lazy_tensor as lt
        return self._cast(lt.float64)

    def half(self):
        """Cast floating parameters and buffers to float16."""
        import lazy_tensor as lt
        return self._cast(lt.float16)

    def bfloat16(self):
        """Cast floating parameters and buffers to bfloat16."""
        import lazy_tensor as lt
        return self._cast(lt.bfloat16)

    # --- hooks

    def _add_hook(self, where, hook, prepend=False, marks=()):
        handle = _Handle(where, hook, [d for d, on in marks if on])
        if prepend:
            where.move_to_end(handle.id, last=False)
        return handle

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args[, kwargs]) before forward; may return new args (or (args, kwargs))."""
        return self._add_hook(self._forward_pre_hooks, hook, prepend, [(self._forward_pre_hooks_with_kwargs, with_kwargs)])

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """hook(module, args[, kwargs], output) after forward; may return another output."""
        return self._add_hook(self._forward_hooks, hook, prepend, [(self._forward_hooks_with_kwargs, with_kwargs),
                                                                   (self._forward_hooks_always_called, always_call)])

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """hook(module, grad_output) before the module's backward; may return another grad_output."""
        return self._add_hook(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(self, hook, prepend=False):
        """hook(module, grad_input, grad_output) after the module's backward; may return another grad_input."""
        if self._is_full_backward_hook is False:
            raise RuntimeError("Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                               "one of them.")
        self._is_full_backward_hook = True
        return self._add_hook(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook):
        """The deprecated form: hook on the grad_fn of the output."""
        if self._is_full_backward_hook is True:
            raise RuntimeError("Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                               "one of them.")
        self._is_full_backward_hook = False
        return self._add_hook(self._backward_hooks, hook)

    def register_state_dict_post_hook(self, hook):
        """hook(module, state_dict, prefix, local_metadata) after `state_dict`; changes it in place."""
        hook._from_public_api = True
        return self._add_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook):
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError("Cannot register the same function as the state dict post hook that was previously registered via "
                               "register_state_dict_post_hook")
        return self._add_hook(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook):
        """hook(module, prefix, keep_vars) before `state_dict`."""
        return self._add_hook(self._state_dict_pre_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook):
        """hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs) before loading."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        return self._add_hook(self._load_state_dict_pre_hooks, functools.partial(hook, self) if with_module else hook)

    def register_load_state_dict_post_hook(self, hook):
        """hook(module, incompatible_keys) after loading; may change the lists."""
        return self._add_hook(self._load_state_dict_post_hooks, hook)

    # --- attributes

    def __getattr__(self, name):  # only for what is missing: registered names are in __dict__ (see _Table)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name, value):
        d = self.__dict__
        params = d.get("_parameters")
        if isinstance(value, Parameter):
            if params is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, d, "_buffers", "_modules")
            self.register_parameter(name, value)
            return
        if params is not None and name in params:
            if value is not None:
                raise TypeError(f"cannot assign '{_typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)")
            self.register_parameter(name, None)
            return
        modules = d.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, d, "_parameters", "_buffers")
            for hook in _h.module_registration.values():
                out = hook(self, name, value)
                value = value if out is None else out
            modules[name] = value
            return
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(f"cannot assign '{_typename(value)}' as child module '{name}' (torch.nn.Module or None expected)")
            modules[name] = None
            return
        buffers = d.get("_buffers")
        if isinstance(value, Buffer) and (buffers is None or name not in buffers):
            if buffers is None:
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            self._forget(name, d, "_parameters", "_modules")
            self.register_buffer(name, value, value.persistent)
            return
        if buffers is not None and name in buffers:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"cannot assign '{_typename(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None "
                                "expected)")
            if isinstance(value, Buffer):
                (self._non_persistent_buffers_set.discard if value.persistent else self._non_persistent_buffers_set.add)(name)
            for hook in _h.buffer_registration.values():
                out = hook(self, name, value)
                value = value if out is None else out
            buffers[name] = value
            return
        if name in _KINDS:
            d.get(name, {}).clear()
            value = _Table(self, value)
        object.__setattr__(self, name, value)

    def _forget(self, name, d, *kinds):
        d.pop(name, None)
        for k in kinds:
            d[k].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name):
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__[kind]:
                del self.__dict__[kind][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self):
        keys = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers]
        return sorted(k for k in keys if not k[0].isdigit())

    def __getstate__(self):
        """`__dict__` without the names that stand in the tables."""
        d = self.__dict__
        listed = {n for k in _KINDS for n in d.get(k, ())}
        return {k: dict(v) if k in _KINDS else v for k, v in d.items() if k not in listed and k != "_compiled_call_impl"}

    def __setstate__(self, state):
        self.__dict__.update({k: v for k, v in state.items() if k not in _KINDS})
        for k in _KINDS:
            self.__dict__[k] = _Table(self, state.get(k, {}))
        for key, make in (("_forward_pre_hooks", OrderedDict), ("_forward_pre_hooks_with_kwargs", OrderedDict),
                          ("_forward_hooks_with_kwargs", OrderedDict), ("_forward_hooks_always_called", OrderedDict),
                          ("_state_dict_hooks", OrderedDict), ("_state_dict_pre_hooks", OrderedDict),
                          ("_load_state_dict_pre_hooks", OrderedDict), ("_load_state_dict_post_hooks", OrderedDict),
                          ("_non_persistent_buffers_set", set), ("_backward_pre_hooks", OrderedDict)):
            self.__dict__.setdefault(key, make())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    def _replicate_for_data_parallel(self):
        replica = self.__new__(type(self))
        replica.__setstate__(dict(self.__getstate__(), _parameters={}))
        return replica

    # --- state dict

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, p in self._parameters.items():
            if p is not None:
                destination[prefix + name] = p if keep_vars else p.detach()
        for name, b in self._buffers.items():
            if b is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = b if keep_vars else b.detach()
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """An ordered dict of all parameters and persistent buffers, detached unless `keep_vars`."""
        if args:
            warnings.warn("Positional args are being deprecated, use kwargs instead. Refer to "
                          "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict for details.",
                          FutureWarning, stacklevel=2)
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = dict(version=self._version)
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            out = hook(self, destination, prefix, local_metadata)
            if not getattr(hook, "_from_public_api", False):
                destination = destination if out is None else out
            elif out is not None:
                raise RuntimeError("state_dict post-hook must return None")
        return destination

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        persistent = {k: v for k, v in self._buffers.items() if k not in self._non_persistent_buffers_set}
        local = {k: v for k, v in itertools.chain(self._parameters.items(), persistent.items()) if v is not None}
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, param in local.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            new = state_dict[key]
            if not isinstance(new, Tensor):
                error_msgs.append(f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                                  f"checkpoint but received {type(new)}")
                continue
            lazy = is_lazy(param)
            if not lazy and param.dim() == 0 and new.dim() == 1 and new.shape[0] == 1:
                new = new[0]
            if not lazy and new.shape != param.shape:
                error_msgs.append(f"size mismatch for {key}: copying a param with shape {new.shape} from checkpoint, the shape in "
                                  f"current model is {param.shape}.")
                continue
            try:
                with no_tape():
                    if assign:
                        if isinstance(param, Parameter):
                            new = new if isinstance(new, Parameter) else Parameter(new, requires_grad=param.requires_grad)
                            new.requires_grad_(param.requires_grad)
                        setattr(self, name, new)
                    elif lazy:
                        raise ValueError("an uninitialized parameter: run a forward first, or load into a lazy module")
                    else:
                        param.copy_(new)
            except Exception as ex:
                error_msgs.append(f'While copying the parameter named "{key}", whose dimensions in the model are {param.shape} and '
                                  f"whose dimensions in the checkpoint are {new.shape}, an exception occurred : {ex.args}.")
        extra = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not Module.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    first, *rest = key[len(prefix):].split(".", 1)
                    if (rest and first not in self._modules) or (not rest and first not in local):
                        unexpected_keys.append(key)

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copy (or `assign`) a state dict's tensors; with `strict` the keys must match exactly (RuntimeError otherwise).

        Returns a named tuple (missing_keys, unexpected_keys)."""
        from collections.abc import Mapping
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing, unexpected, errors = [], [], []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata

        def load(module, local, prefix):
            local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local_metadata["assign_to_params_buffers"] = assign
            module._load_from_state_dict(local, prefix, local_metadata, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    sub = prefix + name + "."
                    load(child, {k: v for k, v in local.items() if k.startswith(sub)}, sub)
            keys = _IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, keys) is not None:
                    raise AssertionError("Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return "
                                         "new values, if incompatible_keys need to be modified, it should be done inplace.")
        load(self, state_dict, "")
        if strict:
            if unexpected:
                errors.insert(0, "Unexpected key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in unexpected)))
            if missing:
                errors.insert(0, "Missing key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in missing)))
        if errors:
            raise RuntimeError("Error(s) in loading state_dict for {}:\n\t{}".format(type(self).__name__, "\n\t".join(errors)))
        return _IncompatibleKeys(missing, unexpected)

    # --- iteration

    def _named_members(self, members, prefix="", recurse=True, remove_duplicate=True):
        memo = set()
        for module_prefix, module in self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [
                (prefix, self)]:
            for k, v in members(module):
                if v is None or v in memo:
                    continue
                if remove_duplicate:
                    memo.add(v)
                yield module_prefix + ("." if module_prefix else "") + k, v

    def parameters(self, recurse=True):
        """Every parameter once, in order of registration."""
        for _, p in self.named_parameters(recurse=recurse):
            yield p

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """(dotted name, parameter) pairs."""
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        """Every buffer once."""
        for _, b in self.named_buffers(recurse=recurse):
            yield b

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """(dotted name, buffer) pairs."""
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self):
        """The direct submodules."""
        for _, m in self.named_children():
            yield m

    def named_children(self):
        """(name, submodule) pairs of the direct submodules."""
        memo = set()
        for name, m in self._modules.items():
            if m is not None and m not in memo:
                memo.add(m)
                yield name, m

    def modules(self):
        """Self and all submodules, each once."""
        for _, m in self.named_modules():
            yield m

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """(dotted name, module) pairs, self first."""
        memo = set() if memo is None else memo
        if self not in memo:
            if remove_duplicate:
                memo.add(self)
            yield prefix, self
            for name, m in self._modules.items():
                if m is not None:
                    yield from m.named_modules(memo, prefix + ("." if prefix else "") + name, remove_duplicate)

    # --- modes

    def train(self, mode=True):
        """Training mode (dropout, batch norm); returns self."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for m in self.children():
            m.train(mode)
        return self

    def eval(self):
        """Evaluation mode; returns self."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Whether the parameters are trained; returns self."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Drop (or zero) every parameter's gradient."""
        for p in self.parameters():
            if p.grad is not None:
                if set_to_none:
                    p.grad = None
                else:
                    p.grad = p.grad.detach()
                    p.grad.zero_()

    def share_memory(self):
        """Nothing to do: values are not in shared memory, and are sent to other processes by copy. Returns self."""
        return self

    # --- printing

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        """What the repr shows between the parentheses."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({k}): {_addindent(repr(m), 2)}" for k, m in self._modules.items()]
        name = self._get_name() + "("
        if lines + children:
            name += lines[0] if len(lines) == 1 and not children else "\n  " + "\n  ".join(lines + children) + "\n"
        return name + ")"


from lazy_tensor.nn.hooks import (  # noqa: E402, F401
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

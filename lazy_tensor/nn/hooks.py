"""Module hooks: the global tables, the call with hooks, and full backward hooks over identity nodes."""
from __future__ import annotations

import warnings
from collections import OrderedDict

from lazy_tensor.modes import modes
from lazy_tensor.node import RemovableHandle
from lazy_tensor.tensor import Tensor

_any_global: dict = {}        # ids of the global call hooks that exist
_forward_pre: OrderedDict = OrderedDict()
_forward: OrderedDict = OrderedDict()
_forward_with_kwargs: dict = {}
_forward_always: dict = {}
_backward_pre: OrderedDict = OrderedDict()
_backward: OrderedDict = OrderedDict()
_state = {"full": None}
buffer_registration: OrderedDict = OrderedDict()
parameter_registration: OrderedDict = OrderedDict()
module_registration: OrderedDict = OrderedDict()


class _Handle(RemovableHandle):
    """A handle whose id also stands in further tables (which options the hook has)."""

    def __init__(self, hooks_dict, hook, extra=()):
        super().__init__(hooks_dict, hook)
        self.extra = list(extra)
        for d in self.extra:
            d[self.id] = True

    def remove(self):
        """Take the hook away; nothing happens the second time."""
        super().remove()
        for d in self.extra:
            d.pop(self.id, None)


def register_module_forward_pre_hook(hook):
    """hook(module, args) before every module's forward."""
    return _Handle(_forward_pre, hook, [_any_global])


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """hook(module, args, output) after every module's forward."""
    extra = [_any_global] + [_forward_with_kwargs] * with_kwargs + [_forward_always] * always_call
    return _Handle(_forward, hook, extra)


def register_module_full_backward_pre_hook(hook):
    """hook(module, grad_output) before every module's backward."""
    return _Handle(_backward_pre, hook, [_any_global])


def register_module_full_backward_hook(hook):
    """hook(module, grad_input, grad_output) after every module's backward."""
    if _state["full"] is False:
        raise RuntimeError("Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only "
                           "one of them.")
    _state["full"] = True
    return _Handle(_backward, hook, [_any_global])


def register_module_backward_hook(hook):
    """The deprecated form of `register_module_full_backward_hook`."""
    if _state["full"] is True:
        raise RuntimeError("Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only "
                           "one of them.")
    _state["full"] = False
    return _Handle(_backward, hook, [_any_global])


def register_module_buffer_registration_hook(hook):
    """hook(module, name, buffer) when a buffer is registered."""
    return _Handle(buffer_registration, hook)


def register_module_parameter_registration_hook(hook):
    """hook(module, name, parameter) when a parameter is registered."""
    return _Handle(parameter_registration, hook)


def register_module_module_registration_hook(hook):
    """hook(module, name, submodule) when a submodule is registered."""
    return _Handle(module_registration, hook)


def call(module, args, kwargs):
    """module.forward with all hooks around it."""
    called = set()
    try:
        return _call(module, args, kwargs, called)
    except Exception:
        _run_always(module, args, kwargs, called)
        raise


def _call(module, args, kwargs, called):
    full, plain = [], []
    if module._backward_hooks or _backward:
        (plain if _state["full"] is False else full).extend(_backward.values())
        (plain if module._is_full_backward_hook is False else full).extend(module._backward_hooks.values())
    pre = [*_backward_pre.values(), *module._backward_pre_hooks.values()]
    for hook in tuple(_forward_pre.values()):
        args = _new_args(hook(module, args), args)
    for key, hook in tuple(module._forward_pre_hooks.items()):
        if key in module._forward_pre_hooks_with_kwargs:
            out = hook(module, args, kwargs)
            if out is not None:
                if not (isinstance(out, tuple) and len(out) == 2):
                    raise RuntimeError(f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {out}.")
                args, kwargs = out
        else:
            args = _new_args(hook(module, args), args)
    backward = None
    if (full or pre) and modes.grad:
        backward = BackwardHook(module, full, pre)
        args = backward.setup_input_hook(args)
    result = module.forward(*args, **kwargs)
    for table, with_kw, always in ((_forward, _forward_with_kwargs, _forward_always),
                                   (module._forward_hooks, module._forward_hooks_with_kwargs, module._forward_hooks_always_called)):
        for key, hook in tuple(table.items()):
            if key in always:
                called.add(key)
            out = hook(module, args, kwargs, result) if key in with_kw else hook(module, args, result)
            result = result if out is None else out
    if backward is not None:
        result = backward.setup_output_hook(result)
    if plain:
        var = result
        while not isinstance(var, Tensor):
            var = next(v for v in var.values() if isinstance(v, Tensor)) if isinstance(var, dict) else var[0]
        if var.grad_fn is not None:
            for hook in plain:
                var.grad_fn.register_hook(lambda gi, go, hook=hook: hook(module, gi, go))
    return result


def _new_args(out, args):
    return args if out is None else out if isinstance(out, tuple) else (out,)


def _run_always(module, args, kwargs, called):
    for table, with_kw, always in ((_forward, _forward_with_kwargs, _forward_always),
                                   (module._forward_hooks, module._forward_hooks_with_kwargs, module._forward_hooks_always_called)):
        for key, hook in tuple(table.items()):
            if key in always and key not in called:
                try:
                    hook(module, args, kwargs, None) if key in with_kw else hook(module, args, None)
                except Exception as e:
                    warnings.warn(f"module forward hook with ``always_call=True`` raised an exception that was silenced as another "
                                  f"error was raised in forward: {e}", stacklevel=2)


def _identity():
    from lazy_tensor.autograd import Function

    class BackwardHookFunction(Function):
        """Identity; its node carries the module's backward hooks."""

        @staticmethod
        def forward(ctx, *args):
            ctx.mark_non_differentiable(*[a for a in args if not a.requires_grad])
            return tuple(a.view_as(a) for a in args)

        @staticmethod
        def backward(ctx, *grads):
            return grads
    return BackwardHookFunction


class BackwardHook:
    """One call's backward hooks: identity nodes around the module catch the gradients of its outputs and inputs."""

    _function = None

    def __init__(self, module, user_hooks, user_pre_hooks):
        self.module, self.hooks, self.pre_hooks = module, user_hooks, user_pre_hooks
        self.grad_outputs = None
        self.n_in = self.n_out = -1
        self.in_index = self.out_index = None

    def _through(self, values, on_node):
        if BackwardHook._function is None:
            BackwardHook._function = _identity()
        index = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
        tensors = [values[i] for i in index]
        if not any(t.requires_grad for t in tensors):
            return values, None
        new = BackwardHook._function.apply(*tensors)
        new = new if isinstance(new, tuple) else (new,)
        node = next(t.grad_fn for t in new if t.grad_fn is not None)
        on_node(node)
        out = list(values)
        for i, t in zip(index, new, strict=True):
            out[i] = t
        return tuple(out), index

    def setup_input_hook(self, args):
        """args through an identity node whose gradients are the module's grad_input."""
        def on_node(node):
            def hook(grad_input, _):
                if self.grad_outputs is None:
                    return None  # no gradient came through the outputs
                grads = self._spread(grad_input, self.in_index, self.n_in)
                for h in self.hooks:
                    out = h(self.module, grads, self.grad_outputs)
                    if out is not None:
                        grads = self._checked(out, grads, "Backward hook", "grad_input")
                self.grad_outputs = None
                return tuple(grads[i] for i in self.in_index)
            node.register_hook(hook)
        new, self.in_index = self._through(args, on_node)
        self.n_in = len(args)
        return new

    def setup_output_hook(self, result):
        """The result through an identity node whose gradients are the module's grad_output."""
        is_tuple = isinstance(result, tuple)
        values = result if is_tuple else (result,)

        def on_node(node):
            def hook(grad_output):
                grads = self._spread(grad_output, self.out_index, self.n_out)
                for h in self.pre_hooks:
                    out = h(self.module, grads)
                    if out is not None:
                        grads = self._checked(out, grads, "Backward pre hook", "grad_output")
                self.grad_outputs = grads
                if self.in_index is None:
                    none = (None,) * self.n_in
                    for h in self.hooks:
                        out = h(self.module, none, grads)
                        if out is not None and not (isinstance(out, tuple) and all(o is None for o in out)):
                            raise RuntimeError("Backward hook for Modules where no input requires gradient should always return None "
                                               "or None for all gradients.")
                    self.grad_outputs = None
                return tuple(grads[i] for i in self.out_index)
            node.register_prehook(hook)
        new, self.out_index = self._through(values, on_node)
        self.n_out = len(values)
        return new if is_tuple else new[0]

    @staticmethod
    def _spread(grads, index, n):
        out = [None] * n
        for i, g in zip(index, grads, strict=False):
            out[i] = g
        return tuple(out)

    @staticmethod
    def _checked(out, before, what, name):
        out = out if isinstance(out, tuple) else (out,)
        if len(out) != len(before):
            raise RuntimeError(f"{what} returned an invalid number of {name}, got {len(out)}, but expected {len(before)}")
        return out

"""`Optimizer`: parameter groups, state dicts, hooks; and how an update is recorded.

An optimizer gives a jax function of (param, grad, states, hyper) for one parameter, in torch's order of arithmetic. It is
traced once for each shape and set of flags; a step records one node a parameter, on bare values. What may change from step to
step (lr, betas, bias corrections computed in Python floats as torch does) travels in one float64 vector a group and step count,
so a schedule never recompiles.
"""
from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from copy import deepcopy
from itertools import chain

import jax.numpy as jnp
import numpy as np

from lazy_tensor import creation
from lazy_tensor.modes import enable_grad, modes, no_grad
from lazy_tensor.node import RemovableHandle
from lazy_tensor.tensor import Tensor, _Written, assign_value, wrap
from xla_backend import runtime
from xla_backend.graph import Value, aval, local
from xla_backend.kernel import Kernel, _picker

_pre_hooks: OrderedDict = OrderedDict()
_post_hooks: OrderedDict = OrderedDict()


_STEP = _Written("the optimizer's step")
_new = object.__new__
_configs: dict = {}  # (class, flags, state names) -> {parameter's aval: configuration}, for every optimizer of the class


class _Required:
    def __repr__(self):
        return "<required parameter>"


required = _Required()


def number(x):
    """A hyper-parameter as a Python float: a number, or a one-element tensor."""
    return x.item() if isinstance(x, Tensor) else x


class Optimizer:
    """Base of optimizers (torch.optim.Optimizer): `param_groups`, `state`, `step`, `zero_grad`, `state_dict`."""

    def __init__(self, params, defaults):
        self.defaults = defaults
        self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks = OrderedDict(), OrderedDict()
        self._optimizer_state_dict_pre_hooks, self._optimizer_state_dict_post_hooks = OrderedDict(), OrderedDict()
        self._optimizer_load_state_dict_pre_hooks, self._optimizer_load_state_dict_post_hooks = OrderedDict(), OrderedDict()
        if isinstance(params, Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of Tensors or dicts, but got torch.Tensor")
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for g in groups:
            self.add_param_group(dict(g))
        from lazy_tensor.settings import sync_step
        sync_step()  # what initialises the model runs now, and does not become part of the first step's program

    def __init_subclass__(cls, **kw):
        super().__init_subclass__(**kw)
        step = cls.__dict__.get("step")
        if step is not None and not getattr(step, "_hooked", False):
            cls.step = _with_hooks(step)

    def __repr__(self):
        lines = [type(self).__name__ + " ("]
        for i, g in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {k}: {g[k]}" for k in sorted(g) if k != "params"]
        return "\n".join(lines) + "\n)"

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        for name in ("step_pre", "step_post", "state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post"):
            self.__dict__.setdefault(f"_optimizer_{name}_hooks", OrderedDict())

    def add_param_group(self, param_group):
        """Add a group: a dict with "params" (a tensor or iterable) and any options; missing options are the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError("optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets will change "
                            "between runs. Please use a list instead.")
        params = list(params)
        names = None
        if params and all(isinstance(p, tuple) for p in params):
            names, params = [n for n, _ in params], [p for _, p in params]
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if not self.defaults.get("differentiable") and not (p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        param_group["params"] = params
        if names is not None:
            param_group["param_names"] = names
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if len(params) != len({id(p) for p in params}):
            warnings.warn("optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; see "
                          "github.com/pytorch/pytorch/issues/40967 for more information", stacklevel=3)
        seen = {id(p) for g in self.param_groups for p in g["params"]}
        if any(id(p) in seen for p in params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def zero_grad(self, set_to_none=True):
        """Drop every gradient (or fill it with zeros)."""
        for g in self.param_groups:
            for p in g["params"]:
                if set_to_none:
                    p._grad = None
                elif p.grad is not None:
                    if p.grad.grad_fn is not None:
                        p._grad = p.grad.detach()
                    p.grad.zero_()

    def step(self, closure=None):
        """One update; overridden by every optimizer."""
        raise NotImplementedError

    # --- state dicts

    def state_dict(self):
        """{"state": {index: {...}}, "param_groups": [...]}; parameters by their index in order."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        index, start = {}, 0

        def pack(g):
            nonlocal start
            out = {k: v for k, v in g.items() if k != "params"}
            index.update({id(p): i for i, p in enumerate(g["params"], start) if id(p) not in index})
            out["params"] = [index[id(p)] for p in g["params"]]
            start += len(out["params"])
            return out
        groups = [pack(g) for g in self.param_groups]
        state = {index[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            r = hook(self, result)
            result = result if r is None else r
        return result

    def load_state_dict(self, state_dict):
        """Take groups and state from a `state_dict`; tensors are cast and moved to their parameters, `step` is kept as it is.

        Raises ValueError when the groups do not match."""
        state_dict = {**state_dict}
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            r = hook(self, state_dict)
            state_dict = state_dict if r is None else r
        groups, saved = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(groups, saved, strict=True)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        of = dict(zip(chain.from_iterable(g["params"] for g in saved), chain.from_iterable(g["params"] for g in groups), strict=True))

        def take(p, v, key=None):
            if isinstance(v, Tensor):
                with no_grad():
                    if key == "step":
                        return v.detach().clone() if v._v.aval.device.host else v.detach().cpu().clone()
                    return (v.to(dtype=p.dtype, device=p.device) if p.dtype.is_floating_point else v.to(device=p.device)).detach().clone()
            if isinstance(v, dict):
                return {k: take(p, x, k) for k, x in v.items()}
            if isinstance(v, (list, tuple)):
                return type(v)(take(p, x) for x in v)
            return v
        state = defaultdict(dict)
        for k, v in state_dict["state"].items():
            state[of[k] if k in of else k] = take(of[k], v) if k in of else v

        def update(group, new):
            new["params"] = group["params"]
            if "param_names" in group and "param_names" not in new:
                new["param_names"] = group["param_names"]
            return new
        self.__setstate__({"state": state, "param_groups": [update(g, n) for g, n in zip(groups, saved, strict=True)]})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    # --- hooks

    def register_step_pre_hook(self, hook):
        """hook(optimizer, args, kwargs) before each step; may return new (args, kwargs)."""
        return RemovableHandle(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """hook(optimizer, args, kwargs) after each step."""
        return RemovableHandle(self._optimizer_step_post_hooks, hook)

    def _add_hook(self, table, hook, prepend):
        h = RemovableHandle(table, hook)
        if prepend:
            table.move_to_end(h.id, last=False)
        return h

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """hook(optimizer) before `state_dict`."""
        return self._add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """hook(optimizer, state_dict) after `state_dict`; may return another."""
        return self._add_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """hook(optimizer, state_dict) before `load_state_dict`; may return another."""
        return self._add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """hook(optimizer) after `load_state_dict`."""
        return self._add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)


def _with_hooks(step):
    @functools.wraps(step)
    def call(self, *args, **kwargs):
        for hook in [*_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()]:
            r = hook(self, args, kwargs)
            if r is not None:
                if not (isinstance(r, tuple) and len(r) == 2):
                    raise RuntimeError(f"step pre hook must return None or a tuple of (new_args, new_kwargs), but got {r}.")
                args, kwargs = r
        out = step(self, *args, **kwargs)
        for hook in [*self._optimizer_step_post_hooks.values(), *_post_hooks.values()]:
            hook(self, args, kwargs)
        self._opt_called = True
        from lazy_tensor.settings import sync_step
        sync_step()
        return out
    call._hooked = True
    return call


def register_optimizer_step_pre_hook(hook):
    """A pre-hook on every optimizer's step."""
    return RemovableHandle(_pre_hooks, hook)


def register_optimizer_step_post_hook(hook):
    """A post-hook on every optimizer's step."""
    return RemovableHandle(_post_hooks, hook)


class Elementwise(Optimizer):
    """An optimizer whose update is one jax function for each parameter.

    A subclass gives `init_state(p, group)`, `flags(group)` (static), `hyper(group, t)` (floats, from the step count t),
    `slots` (names of the state tensors that the function reads and writes, in order; None where absent is left out by
    `active(group)`), and `update(flags, p, g, states, h)` -> (p, states)."""

    slots: tuple = ()
    counts = True  # whether state["step"] is kept

    def active(self, group):
        """The state slots that this group uses."""
        return self.slots

    def init_state(self, p, group):
        """{slot: tensor} for a parameter met for the first time."""
        return {name: like(p) for name in self.active(group)}

    def flags(self, group):
        """What is static for the trace."""
        return ()

    def hyper(self, group, t, state):
        """Python floats for step count t."""
        raise NotImplementedError

    def per_param(self):
        """Whether `hyper` depends on a parameter's own state."""
        return False

    def update(self, flags, p, g, states, h):
        raise NotImplementedError

    def step(self, closure=None):
        """One update of every parameter that has a gradient; closure, when given, recomputes the loss, which is returned."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        differentiable = bool(self.defaults.get("differentiable"))
        before = modes.grad
        modes.grad = before and differentiable
        try:
            for group in self.param_groups:
                self._step_group(group, differentiable)
        finally:
            modes.grad = before
        return loss

    def _step_group(self, group, differentiable, params=None):  # hot: once a parameter
        """Update a group's parameters, or some of them."""
        names = self.active(group)
        flags = self.flags(group)
        head = (type(self), flags, names)
        configs = _configs.get(head)
        if configs is None:
            configs = _configs[head] = {}
        state_of, counts, own = self.state, self.counts, self.per_param()
        after = None if type(self).after is Elementwise.after else self.after
        pick = _picker(names)
        met = t = dev = h = step_value = states = None  # the last parameter's step count; most share one
        watch = local.watch
        if watch is not None and (own or after is not None or differentiable):
            watch.refuse(f"{type(self).__name__} keeps numbers of its own for each parameter")
        hypers: dict = {}
        for p in group["params"] if params is None else params:
            try:
                grad = p._grad
            except AttributeError:
                continue
            if grad is None:
                continue
            state = state_of.get(p)
            if not state:
                state = state_of[p]
                if counts:
                    state["step"] = host_number(0.0)
                state.update(self.init_state(p, group))
            pa = p._v.aval
            if own or met is None or pa.device is not dev or (counts and getattr(state["step"], "_v", None) is not met):
                dev = pa.device
                if counts:
                    if type(state["step"]) is not Tensor:
                        state["step"] = host_number(number(state["step"]))
                    met = state["step"]._v
                    t = float(met.data if type(met.data) is np.ndarray else number(state["step"])) + 1.0
                else:
                    met, t = True, 0
                made = None if own else hypers.get((t, dev))
                if made is None:
                    made = hypers[(t, dev)] = self._hyper_value(group, t, state, dev)
                    if watch is not None:
                        made = hypers[(t, dev)] = (*made, watch.hyper(self, group, dev, made[0]))
                h, step_value, *rest = made
                states = rest[0] if rest else None
            gv = grad._v if grad._view is None else grad._read()
            if gv.aval is not pa:
                raise RuntimeError(f"{type(self).__name__}: a parameter of {pa} has a gradient of {gv.aval}")
            targets = (p, *pick(state))
            config = configs.get(pa)
            if config is None:
                config = configs[pa] = self._config(pa, flags, names, [x._value() for x in targets[1:]], h.aval)
            if differentiable:
                from lazy_tensor.autograd.engine import _mixed_call
                r = _mixed_call(config, [grad, wrap(h), *targets])
                p._v, p._gn, p._oi = r[0]._v, r[0]._gn, r[0]._oi
                state.update(zip(names, r[1:], strict=True))
            else:
                ins, outs, slow = [gv, h], [], None
                for x, a in zip(targets, config.outs):
                    old = x._v
                    v = _new(Value)
                    v.aval = a
                    v.data = v.guard = None
                    v.pos = -1
                    v.uses = 0
                    if x._view is None and old.guard is None:  # assign_value without the call
                        old.guard = _STEP
                        x._v = v
                        x._ver += 1
                    else:
                        old = x._value()
                        slow = [*(slow or ()), (x, v)]
                    ins.append(old)
                    outs.append(v)
                config.push((config, tuple(ins), tuple(outs), None, 0))
                for x, v in slow or ():
                    assign_value(x, v, "the optimizer's step")
            if counts:
                state["step"]._v = step_value
                if states is not None:
                    states.append(state)
            if after is not None:
                after(group, state, t)

    def _hyper_value(self, group, t, state, dev):
        """(the hyper-parameters of step count t on a device, the step count for the state dict)."""
        floats = self.hyper(group, t, state)
        h = Value(aval((len(floats),), np.dtype(np.float64), dev), np.array(floats, np.float64))
        host = runtime.device("cpu", 0)
        return h, Value(aval((), np.dtype(np.float32), host), np.array(t, np.float32)) if self.counts else None

    def after(self, group, state, t):
        """What a subclass keeps on the host after a parameter's update."""

    def _config(self, a, flags, names, values, h):
        def fn(g, hyper, p, *states):
            p2, states2 = self.update(flags, p, g, dict(zip(names, states, strict=True)), Hyper(hyper, p.dtype))
            return (p2.astype(p.dtype), *(states2[n].astype(x.dtype) for n, x in zip(names, states, strict=True)))
        kernel = Kernel(type(self).__name__.lower() + "_step", fn, (a.core, h.core, a.core, *(v.aval.core for v in values)))
        return kernel.on(a.device)


class Hyper:
    """The hyper-parameters in the body: h[i] is the i-th, cast to the parameter's (real) dtype."""

    def __init__(self, vector, dtype):
        from lazy_tensor.ops._common import real_dtype
        self.vector, self.dtype = vector, real_dtype(dtype)

    def __getitem__(self, i):
        return self.vector[i].astype(self.dtype)

    def raw(self, i):
        """The i-th in float64."""
        return self.vector[i]


def like(p, value=0.0):
    """A state tensor of p's shape, dtype and device: a leaf, so that it does not become part of a program."""
    a = p._v.aval
    return wrap(runtime.leaf(np.full(a.shape, value).astype(a.dtype), a.device, copy=False))


def host_number(x):
    """A 0-d float32 cpu tensor."""
    return creation._array(np.array(x, np.float32), None, "cpu", copy=False)


def lerp(a, b, w):
    """torch's lerp."""
    return jnp.where(jnp.abs(w) < 0.5, a + w * (b - a), b - (b - a) * (1 - w))


def check_common(lr=None, eps=None, weight_decay=None, betas=None, **others):
    """torch's ValueErrors for bad hyper-parameters."""
    if isinstance(lr, Tensor):
        if lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
    elif lr is not None and not 0.0 <= lr:
        raise ValueError(f"Invalid learning rate: {lr}")
    if eps is not None and not 0.0 <= eps:
        raise ValueError(f"Invalid epsilon value: {eps}")
    if betas is not None:
        for i, b in enumerate(betas):
            if not 0.0 <= number(b) < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {b}")
    if weight_decay is not None and not 0.0 <= weight_decay:
        raise ValueError(f"Invalid weight_decay value: {weight_decay}")
    for name, v in others.items():
        if not 0.0 <= v:
            raise ValueError(f"Invalid {name} value: {v}")

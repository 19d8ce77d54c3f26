"""A compiled function: recorded as it runs, then replayed as one node.

A call is watched until two runs agree in everything: structure, the tensors read and written, numbers. From then on a call
checks what the function could see (`Reach.checks`), gathers values, and records one node whose kernel is the whole function;
outputs go where they went. What changes from call to call and is known is made anew: random draws, the optimizer's
hyper-parameters and step counts, schedules.
"""
from __future__ import annotations

import functools

from absl import logging

from lazy_tensor import dtypes
from lazy_tensor.compiler._reach import Reach
from lazy_tensor.compiler._watch import (
    AGAIN,
    ARG,
    CONST,
    GRAD,
    HYPER,
    OBJECT,
    OUT,
    PLACE,
    ROOT,
    TENSOR,
    Count,
    Refused,
    Seed,
    Sources,
    Watch,
    found,
)
from lazy_tensor.func._record import emit_kernel
from lazy_tensor.modes import modes
from lazy_tensor.tensor import Tensor, assign_value, where, wrap
from lazy_tensor.utils._pytree import tree_flatten, tree_unflatten
from xla_backend import metrics, program, transfer
from xla_backend import random as random_
from xla_backend.graph import Value, local
from xla_backend.kernel import Kernel

_TRIES = 6     # runs that may differ from one another before a function is left to ordinary recording
_ENTRIES = 16  # replays kept for one function (shapes, modes, Python values)


def _modes():
    cast = modes.cast
    return (modes.grad, modes.inference, modes.anomaly, cast and tuple(sorted((k, str(v)) for k, v in cast.items())),
            dtypes.get_default_dtype())


def _signature(spec, leaves):
    """What a call's arguments must share with a recorded one."""
    out: list = [spec]
    for x in leaves:
        if isinstance(x, Tensor):
            out.append((type(x), x._value().aval, x._gn is None))
        elif isinstance(x, (int, float, complex, bool, str, type(None), bytes)):
            out.append((type(x), x))
        else:
            out.append((type(x), id(x)))
    return tuple(out)


class Compiled:
    """A function that is captured (lt.compile)."""

    def __init__(self, fn, fullgraph=False, name=None):
        self.fn, self.fullgraph = fn, fullgraph
        self.name = name or getattr(fn, "__name__", type(fn).__name__)
        self.entries: dict[tuple, list[Entry]] = {}
        self.candidates: dict[tuple, tuple] = {}
        self.tries: dict[tuple, int] = {}
        self.kernels: dict[tuple, Kernel] = {}
        self.why: list[str] = []
        if hasattr(fn, "__name__"):
            functools.update_wrapper(self, fn)

    def __call__(self, *args, **kwargs):
        if modes.capture is not None or local.watch is not None:  # part of something that is being recorded already
            return self.fn(*args, **kwargs)
        leaves = args
        if not kwargs and all(type(x) is Tensor for x in args):
            key = (_modes(), *[x for t in args for x in ((t._v if t._view is None else t._read()).aval, t._gn is None)])
        else:
            leaves, spec = tree_flatten((args, kwargs))
            key = (_modes(), _signature(spec, leaves))
        missed = None
        for entry in self.entries.get(key, ()):
            result = entry.replay(leaves)
            if result is not entry:
                metrics.counters["captured_steps"] += 1
                return result
            missed = entry.missed
        if missed is not None:
            self._tell(f"recorded again: {missed}")
        elif self.entries and key not in self.entries and self.tries.get(key) is None:
            self._tell("recorded again: arguments of other shapes, dtypes, devices or values, or other modes")
        if self.tries.get(key, 0) >= _TRIES and missed is None:
            return self.fn(*args, **kwargs)
        return self._record(key, list(leaves), args, kwargs)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def _tell(self, text):
        if not self.why or self.why[-1] != text:
            self.why.append(text)
            del self.why[:-20]
            logging.info("compile(%s): %s", self.name, text)

    def explain(self):
        """What happened, newest last: why calls were recorded again or could not be replayed."""
        n = sum(map(len, self.entries.values()))
        return "\n".join([f"{self.name}: {n} captured", *self.why])

    def _record(self, key, leaves, args, kwargs):
        before = Reach([(self.name, self.fn), *[(f"argument {k}", x) for k, x in enumerate(leaves) if not isinstance(x, Tensor)]])
        device = self._device(leaves, before)
        if device is None:
            return self.fn(*args, **kwargs)
        sources = Sources(before, leaves)
        code, lasti = where()
        watch = Watch(device)
        modes.capture, local.watch, rule = watch, watch, random_.rules.rule
        random_.rules.rule = watch.draw
        try:
            out = self.fn(*args, **kwargs)
            local.watch = None
            out_leaves, out_spec = tree_flatten(out)
            plan = None
            try:
                after = Reach([(self.name, self.fn), ("result", out)])
                plan = found(watch, before, after, sources, leaves, out_leaves, out_spec)
                self._keep(key, plan, before, watch, code, lasti)
            except Refused as e:
                self.tries[key] = self.tries.get(key, 0) + 1
                self._tell(f"not captured: {e}")
                if self.fullgraph:
                    raise RuntimeError(f"compile(fullgraph=True): {self.name} cannot be captured as one program: {e}") from None
            del sources, before
            plan = None
        finally:
            modes.capture, local.watch, random_.rules.rule = None, None, rule
        if watch.syncs:
            _sync_step()
        return out

    def _device(self, leaves, reach):
        """The one XLA device of the arguments and what is reachable; None when there is none, or several."""
        devices = {t._v.aval.device for t in (*[x for x in leaves if isinstance(x, Tensor)], *reach.tensors.values())}
        chosen = [d for d in devices if not d.host]
        if len(chosen) != 1:
            self._tell("not captured: " + ("no tensor on an XLA device" if not chosen else "tensors on several XLA devices"))
            return None
        return chosen[0]

    def _keep(self, key, plan, before, watch, code, lasti):
        signature = plan.signature()
        sub = plan.sub
        scalar_avals = sub.free_avals()[1]
        kernel_key = (sub.key, sub.avals, plan.on_tape)
        kernel = self.kernels.get(kernel_key)
        if kernel is None:
            n = len(sub.avals)
            f = sub.function()
            kernel = self.kernels[kernel_key] = Kernel(self.name, lambda *a: f(a[:n], (), a[n:]),
                                                       (*[a.core for a in sub.avals], *scalar_avals))
            metrics.counters["captures"] += 1
        device = watch.device
        if not plan.on_tape:  # what was recorded becomes the one node that replays will record
            pending = device.graph.pending
            config = kernel.on(device)
            pending[watch.start:] = [(config, (*plan.inputs, *sub.scalars), tuple(plan.outputs), code, lasti)]
        known = self.candidates.get(key)
        self.candidates[key] = signature
        if known == signature:
            entry = Entry(plan, kernel, device, before, watch)
            del self.candidates[key]
            self.tries.pop(key, None)
            entries = self.entries.setdefault(key, [])
            entries.insert(0, entry)
            del entries[_ENTRIES:]
            return
        if known is not None:
            self.tries[key] = self.tries.get(key, 0) + 1
            self._tell(f"not captured yet: two runs differ {_difference(known, signature)}")
            if self.tries[key] >= _TRIES:
                self._tell(f"left to ordinary recording after {_TRIES} runs that differ")


def _difference(a, b):
    names = ("in the operations", "in shapes or dtypes", "in the tensors they read", "in the tensors they write", "in Python numbers",
             "in what can be differentiated", "in the result's structure", "in the result")
    return next((n for n, x, y in zip(names, a, b, strict=True) if x != y), "")


def _sync_step():
    from lazy_tensor.settings import sync_step
    sync_step()


class Entry:
    """A captured run: what must hold, where values come from, where they go. Holds no value but constants."""

    def __init__(self, plan, kernel, device, reach, watch):
        self.kernel, self.device = kernel, device
        self.config = kernel.on(device)
        self.sources = [(kind, obj, key, a, self._off_tape(kind, obj, key)) for (kind, obj, key), a in
                        zip(plan.sources, plan.sub.avals, strict=True)]
        self.guards = [(v, v.guard, v.guard[0].version if type(v.guard) is tuple else None) for kind, v, _ in plan.sources if kind == CONST]
        self.sinks, self.scalars, self.result, self.on_tape = plan.sinks, plan.sub.scalars, plan.result, plan.on_tape
        self.views = any(item[0] == OUT and item[3] is not None for item in plan.result[1])
        self.grads, self.objects = plan.grads, reach.tensors
        self.checks = reach.checks
        self.actions = [(fn, None if isinstance(args, Value) else args) for fn, args in watch.actions]
        self.draws = [(g, n) for g, n in watch.draws.values()]
        self.syncs = watch.syncs
        self.missed = None

    @staticmethod
    def _off_tape(kind, obj, key):
        t = obj if kind == TENSOR else obj[key] if kind == PLACE else obj._grad if kind == GRAD else None
        return None if t is None else t._gn is None

    def replay(self, leaves):
        """The call's result; the entry itself when something is not as it was (`missed` says what)."""
        for check in self.checks:
            if not check.holds():
                self.missed = check.said()
                return self
        for t, none in self.grads:
            if (t._grad is None) is not none:
                self.missed = f"the gradient of a parameter of {list(t.shape)} is {'None' if not none else 'there'}, it was not so"
                return self
        for v, guard, version in self.guards:
            if v.guard is not guard or (version is not None and guard[0].version != version):
                self.missed = f"a tensor of {list(v.aval.shape)} that was a constant has been written to"
                return self
        for fn, args in self.actions:
            if args is None and not fn.holds():
                self.missed = f"{type(fn.optimizer).__name__}'s options or state changed"
                return self
        ins, edges, late = [], [], []
        for kind, obj, key, a, off in self.sources:
            if kind == TENSOR:
                t = obj
            elif kind == ARG:
                t = leaves[key]
            elif kind == PLACE:
                t = obj[key]
            elif kind == GRAD:
                t = obj._grad
            elif kind == CONST:
                ins.append(obj)
                edges.append((None, 0))
                continue
            elif kind == HYPER:
                late.append((len(ins), key))
                ins.append(None)
                edges.append((None, 0))
                continue
            else:  # COPY
                k, o, q = obj
                t = leaves[q] if k == ARG else o[q] if k == PLACE else o if k == TENSOR else o._grad
                v = transfer.copy_to(t._value(), key)
                if v.aval is not a:
                    self.missed = f"a tensor is {v.aval}, it was {a}"
                    return self
                ins.append(v)
                edges.append((t._gn, t._oi))
                continue
            v = t._v if t._view is None else t._read()
            if v.aval is not a or (off is not None and (t._gn is None) is not off):
                self.missed = f"a tensor is {v.aval}, it was {a}" if v.aval is not a else f"requires_grad of a tensor of {list(a.shape)}"
                return self
            ins.append(v)
            edges.append((t._gn, t._oi))
        made = [fn.run() if args is None else fn(*args) for fn, args in self.actions]
        for at, k in late:
            ins[at] = made[k]
        made = None  # nobody else holds these values: the program takes them along
        for s in self.scalars:
            if type(s) is Count:
                ins.append(s.generator._count + s.offset)
            elif type(s) is Seed:
                ins.append(s.generator._seed)
            else:
                ins.append(s)
        for g, n in self.draws:
            g._count += n
        if self.on_tape:
            tensors = emit_kernel(self.kernel, self.device, tuple(ins), edges + [(None, 0)] * len(self.scalars))
            outs = [t._v for t in tensors]
        else:
            tensors = None
            outs = [Value(a) for a in self.config.outs]
            self.config.push((self.config, tuple(ins), tuple(outs), *where()))
        del ins
        result: dict[int, Tensor] = {}
        for kind, obj, key, k in self.sinks:
            if k is None:
                obj._grad = None
                continue
            v = outs[k]
            if kind == TENSOR:
                assign_value(obj, v, "a compiled step")
            elif kind == GRAD:
                if key == "new":
                    obj._grad = wrap(v)
                else:
                    assign_value(obj._grad, v, "a compiled step")
            elif kind == PLACE:
                obj[key] = wrap(v)
            elif kind == ARG:
                assign_value(leaves[key], v, "a compiled step")
            else:
                result[key] = tensors[k] if tensors is not None else wrap(v)
        spec, items = self.result
        out, roots = [], []
        for item in items:
            kind = item[0]
            if kind == OUT:
                t = result[item[1]]
                if item[2] is not Tensor:
                    t = t.as_subclass(item[2])
                out.append(t)
            elif kind == ARG:
                out.append(leaves[item[1]])
            elif kind == OBJECT:
                out.append(self.objects[item[1]])
            elif kind == AGAIN:
                out.append(out[item[1]])
            elif kind == ROOT:
                roots.append(result[item[1]])
            else:
                out.append(item[2])
        if self.views:
            self._alias(items, out, roots, leaves)
        if self.syncs:
            program.sync(self.device, "the end of optimizer.step()")
        return out[0] if spec.type is None else tree_unflatten(out, spec)

    def _alias(self, items, out, roots, leaves):
        """Results that share storage do so again."""
        for item, t in zip(items, out, strict=False):
            if item[0] == OUT and item[3] is not None:
                kind, k = item[3].base
                item[3].apply(t, leaves[k] if kind == ARG else self.objects[k] if kind == OBJECT else out[k] if kind == OUT else roots[k])

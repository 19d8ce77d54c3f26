"""Watching one run of a function: what it recorded, which values that reads and from where, which tensors hold the results.

`Watch` stands where recording looks for a capture and tells what happened; `found` makes a `Plan` of it, or says why the run
cannot be replayed without Python.
"""
from __future__ import annotations

from types import SimpleNamespace

from lazy_tensor.autograd.engine import _order
from lazy_tensor.compiler._alias import aliases
from lazy_tensor.compiler._reach import identity
from lazy_tensor.node import AccumulateGrad, OpNode
from lazy_tensor.tensor import Tensor
from xla_backend import program
from xla_backend.capture import Subgraph
from xla_backend.debug import line
from xla_backend.graph import Value

TENSOR, ARG, GRAD, PLACE, HYPER, COPY, CONST = "tensor", "arg", "grad", "place", "hyper", "copy", "const"
OUT, OBJECT, AGAIN, ROOT = "out", "object", "again", "root"


class Seed(int):
    """A draw's seed, and whose."""

    generator = None


class Count(int):
    """A draw's count: `offset` draws after the function began."""

    generator = None
    offset = 0


class Refused(Exception):
    """Why a run cannot be replayed."""


class Watch:
    """One run on a device. Also what `modes.capture` holds meanwhile (masks, edges, writes)."""

    eager_host = False
    what = "a compiled function"

    def __init__(self, device):
        self.device = device
        self.start = len(device.graph.pending)
        self.masks: dict[int, int] = {}
        self.edges: dict[int, tuple] = {}
        self.writes: list = []
        self.copies: dict[int, tuple] = {}
        self.fresh: dict[int, Value] = {}
        self.draws: dict[int, list] = {}
        self.actions: list = []
        self.hypers: dict[int, int] = {}
        self.reason = None
        self.syncs = self.inside = False

    def asked(self, reason, want):
        """A sync: put off to the end when no value is wanted; else the function looks at values, and that is Python's business."""
        if want is None:
            self.syncs = True
            return True
        self.refuse(reason)
        return False

    def refuse(self, reason):
        """Note why this run cannot be replayed (the first reason counts), and where the user's code was."""
        if self.reason is None:
            from lazy_tensor.tensor import where
            at = line(*where())
            self.reason = reason + (f" at {at}" if at else "")

    def draw(self, generator):
        """(seed, count) of one draw, marked."""
        entry = self.draws.setdefault(id(generator), [generator, 0])
        seed, count = Seed(generator._seed), Count(generator._count)
        seed.generator = count.generator = generator
        count.offset = entry[1]
        entry[1] += 1
        generator._count += 1
        return seed, count

    def call(self, fn, *args):
        """A host action to be repeated at each replay, in order."""
        self.actions.append((fn, args))

    def hyper(self, optimizer, group, device, h):
        """An optimizer made its hyper-parameters' value; returns the list that gathers the states which share its step count."""
        states: list = []
        if not any(g is group for g in optimizer.param_groups):
            self.refuse(f"{type(optimizer).__name__} steps on a copy of its group")
        self.hypers[id(h)] = len(self.actions)
        self.actions.append((Hyper(optimizer, group, device, states), h))
        return states


class Hyper:
    """The hyper-parameters of one group and step count, made again at each replay."""

    def __init__(self, optimizer, group, device, states):
        self.optimizer, self.group, self.device, self.states = optimizer, group, device, states
        self.static = (optimizer.flags(group), optimizer.active(group))

    def holds(self):
        """Whether what is static is as it was, and the states still share one step count."""
        if (self.optimizer.flags(self.group), self.optimizer.active(self.group)) != self.static:
            return False
        if not self.states or not self.optimizer.counts:
            return True
        first = self.states[0]["step"]._v
        return first.data is not None and all(s["step"]._v is first for s in self.states)

    def run(self):
        """The new value; the states' step count moves on."""
        if not self.optimizer.counts:
            return self.optimizer._hyper_value(self.group, 0, {}, self.device)[0]
        t = float(self.states[0]["step"]._v.data) + 1.0
        h, step = self.optimizer._hyper_value(self.group, t, self.states[0], self.device)
        for s in self.states:
            s["step"]._v = step
        return h


class Sources:
    """Where values come from before a run: id of value -> (kind, object, key)."""

    def __init__(self, reach, leaves):
        self.of: dict[int, tuple] = {}
        self.keep: list = []
        self.grads = {k: (t, t._grad, None if t._grad is None else t._grad._value()) for k, t in reach.tensors.items()
                      if type(t._gn) is AccumulateGrad}
        self.values = {k: t._value() for k, t in reach.tensors.items()}
        self.args = {k: x._value() for k, x in enumerate(leaves) if isinstance(x, Tensor)}
        for container, key, t in reach.places:
            self._add(t, (PLACE, container, key))
        for t, g, _v in self.grads.values():
            if g is not None:
                self._add(g, (GRAD, t, None))
        moving = {id(t) for _c, _k, t in reach.places}
        for k, t in reach.tensors.items():
            if k not in moving or type(t._gn) is AccumulateGrad:
                self._add(t, (TENSOR, t, None))
        for k, x in enumerate(leaves):
            if isinstance(x, Tensor):
                self._add(x, (ARG, None, k))

    def _add(self, t, source):
        v = t._value()
        self.keep.append(v)
        self.of[id(v)] = source


class Plan:
    """How to replay: `sub` computes the values of `sinks` from `sources`; `scalars` are numbers or draws. `inputs` and `outputs`
    are this run's own values."""

    def __init__(self, sub, sources, sinks, result, grads, on_tape, inputs, outputs):
        self.sub, self.sources, self.sinks, self.result = sub, sources, sinks, result
        self.grads, self.on_tape, self.inputs, self.outputs = grads, on_tape, inputs, outputs

    def signature(self):
        """What two runs must share: structure, where values come from and go, numbers that are no draws."""
        return (self.sub.key, self.sub.avals, tuple(map(_named, self.sources)), tuple(map(_named, self.sinks)),
                tuple(map(_named_scalar, self.sub.scalars)), self.on_tape, repr(self.result[0]), tuple(map(_named_result, self.result[1])))


def _named(s):
    kind, obj, key, *at = s
    if kind == CONST:
        return kind, obj.data.tobytes() if hasattr(obj.data, "tobytes") and obj.data.size <= 64 else id(obj)
    if kind == COPY:
        return kind, _named(obj), key
    return kind, identity(obj), key, *at


def _named_scalar(s):
    if type(s) is Count:
        return "count", id(s.generator), s.offset
    if type(s) is Seed:
        return "seed", id(s.generator)
    return type(s), s


def _named_result(r):
    return (*r[:-1], r[-1] and r[-1].said()) if r[0] == OUT else r


def found(watch, before, after, sources, leaves, out_leaves, spec):
    """The Plan of a run, or Refused. `before`, `after`: Reach of the function; leaves and out_leaves: its arguments and result."""
    if watch.reason is not None:
        raise Refused(watch.reason)
    for t in before.tensors.values():
        t._value()  # what aliases a tensor that was written to is read again, which may record
    nodes = watch.device.graph.pending[watch.start:]
    produced = {id(v) for node in nodes for v in node[2]}
    if not nodes:
        raise Refused("it recorded nothing")
    sinks: list[tuple] = []
    values: list[Value] = []

    def sink(what, v):
        sinks.append(what)
        values.append(v)

    for k, t in before.tensors.items():
        v = t._value()
        if id(v) in produced:
            if t._gn is not None and type(t._gn) is not AccumulateGrad:
                raise Refused(f"a tensor of {list(t.shape)} that outlives the call carries the call's tape (detach it)")
            sink((TENSOR, t, None), v)
        elif v is not sources.values[k]:
            raise Refused(f"it rebinds a tensor of {list(t.shape)} to a value from elsewhere")
    old_grads = sources.grads
    for k, t in {**before.tensors, **after.tensors}.items():
        if type(t._gn) is not AccumulateGrad:
            continue
        old = old_grads.get(k, (t, None, None))[1]
        now = t._grad
        if now is None:
            if old is not None:
                sink((GRAD, t, "none"), None)
        elif now is not old:
            if id(now._value()) not in produced:
                raise Refused("a gradient was set to a tensor from elsewhere")
            sink((GRAD, t, "new"), now._value())
        elif id(now._value()) in produced:
            sink((GRAD, t, "same"), now._value())
    places = {(identity(c), k): (c, k, t) for c, k, t in before.places}
    for c, k, t in after.places:
        old = places.get((identity(c), k))
        if old is not None and old[2] is t:
            continue
        if id(t._value()) not in produced:
            if old is None and (id(t) in before.tensors or any(t is x for x in leaves)):
                raise Refused("it stores a tensor that it was given in a container")
            continue
        if t._gn is not None:
            raise Refused(f"a tensor of {list(t.shape)} that outlives the call carries the call's tape (detach it)")
        sink((PLACE, c, k), t._value())
    for k, x in enumerate(leaves):
        if isinstance(x, Tensor) and id(x) not in before.tensors and id(x._value()) in produced:
            sink((ARG, None, k), x._value())
    result, on_tape = [], False
    given = [((OBJECT, k), t) for k, t in before.tensors.items()] + [((ARG, k), x) for k, x in enumerate(leaves) if isinstance(x, Tensor)]
    views, roots, lost = aliases(out_leaves, given)
    if lost:
        raise Refused("it returns a view of a tensor made in the call that is kept elsewhere too")
    slots: dict[int, int] = {}
    for k, x in enumerate(out_leaves):
        if not isinstance(x, Tensor):
            result.append(("plain", type(x), x))
        elif any(x is a for a in leaves):
            result.append((ARG, next(k for k, a in enumerate(leaves) if a is x)))
        elif id(x) in before.tensors:
            result.append((OBJECT, id(x)))
        elif id(x) in slots:
            result.append((AGAIN, slots[id(x)]))
        elif id(x._value()) in produced:
            slots[id(x)] = k
            if x._gn is not None and _live(x._gn):
                on_tape = True
            result.append((OUT, len(values), type(x), views.get(k)))
            sink((OUT, None, len(values)), x._value())
        else:
            raise Refused("it returns an alias of a tensor that it was given")
    for x in roots:
        result.append((ROOT, len(values)))
        sink((OUT, None, len(values)), x._value())
    roots = None
    if not values:
        raise Refused("nothing of what it records outlives the call")
    order = {id(v): k for k, v in enumerate(v for node in nodes for v in node[2])}  # outputs in the order in which they are made
    outputs = sorted({id(v): v for v in values if v is not None}.values(), key=lambda v: order.get(id(v), -1))
    position = {id(v): k for k, v in enumerate(outputs)}
    sinks = [(*s, None if v is None else position[id(v)]) for s, v in zip(sinks, values, strict=True)]
    grads = [(t, g is None) for t, g, _v in sources.grads.values()]
    sources.grads = old_grads = old = now = {}  # gradients that were dropped may still be held here
    watch.writes.clear()
    if not on_tape:
        watch.edges.clear()  # they hold values
        ids = {id(v) for v in outputs}
        if any(i not in ids for i in program.held(nodes)):
            raise Refused("a tensor made in the call is kept somewhere that could not be found (a list, an object of a library)")
    kept, live = [], {id(v) for v in outputs}
    for node in reversed(nodes):
        if any(id(v) in live for v in node[2]):
            kept.append(node)
            live.update(id(v) for v in node[1] if type(v) is Value)
    kept.reverse()
    inputs: dict[int, Value] = {}
    for node in kept:
        for v in node[1]:
            if type(v) is Value and id(v) not in produced:
                inputs.setdefault(id(v), v)
    where = [_source(v, watch, sources) for v in inputs.values()]
    made = dict.fromkeys(produced) if on_tape else {}
    edges = {**watch.edges, **dict.fromkeys(inputs)} if on_tape else {}
    sub = Subgraph(SimpleNamespace(placeholders=list(inputs.values()), masks=watch.masks, edges=edges), kept, outputs, made)
    if sub.frees:
        raise Refused("it returns a value that it did not make")
    return Plan(sub, where, sinks, (spec, result), grads, on_tape, list(inputs.values()), outputs)


def _live(gn):
    """Whether a result can still be differentiated: nothing of its tape was given up."""
    return not any(type(n) is OpNode and n.saved is None for n in _order([gn]))


def _source(v, watch, sources):
    known = sources.of.get(id(v))
    if known is not None:
        return known
    if id(v) in watch.hypers:
        return HYPER, None, watch.hypers[id(v)]
    if id(v) in watch.copies:
        original = watch.copies[id(v)][1]
        known = sources.of.get(id(original))
        if known is None:
            raise Refused("it computes on the host and moves the result to the device")
        return COPY, known, v.aval.device
    if v.data is None:
        raise Refused("it reads a tensor that could not be found from the function, and that is still to be computed")
    return CONST, v, None

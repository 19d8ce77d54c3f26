"""A function recorded to a subgraph: what it added to a device's pending list, as a pure jax function.

Nodes that depend on the function's placeholders (or, on request, on random draws) leave the pending list and become the
subgraph; what does not depend on them stays pending and enters as a free input. While a function is being recorded the
device's lock is held, and a sync runs at most what was pending before.
"""
from __future__ import annotations

import jax

from xla_backend.graph import WEAK, Failed, Value
from xla_backend.random import Draw


class Capture:
    """Records on `device` between enter and `take`; `what` names the transform in errors.

    draws: whether random draws belong to the subgraph even when they depend on no placeholder. `masks` and `edges` are
    filled by the front end: for a node (by its first output) the inputs through which derivatives flow, and for an input
    the place on the tape that it came from."""

    eager_host = True  # operations on host tensors that do not depend on placeholders run at once, as outside

    def __init__(self, device, what, draws=False):
        self.device, self.what, self.draws = device, what, draws
        self.masks: dict[int, int] = {}
        self.edges: dict[int, tuple] = {}
        self.writes: list = []
        self.left: dict[int, int] = {}  # masks of the nodes that did not depend on the placeholders
        self.start = 0
        self.placeholders: list[Value] = []

    def __enter__(self):
        graph = self.device.graph
        graph.lock.acquire()
        graph.captures.append(self)
        self.start = len(graph.pending)
        return self

    def __exit__(self, kind, error, trace):
        graph = self.device.graph
        try:
            if kind is not None and self.placeholders:
                self._extract()
        finally:
            graph.captures.remove(self)
            graph.lock.release()

    def placeholder(self, a):
        """A value of an aval that stands for an argument."""
        v = Value(a)
        self.placeholders.append(v)
        return v

    def _extract(self):
        """Take the dependent nodes off the pending list; ({id: value} of what they make and of the placeholders, nodes)."""
        pending = self.device.graph.pending
        n = len(pending)
        made = {id(v): v for v in self.placeholders}
        nodes, rest = [], []
        for node in pending[self.start:n]:
            for v in node[1]:
                if id(v) in made if type(v) is Value else (self.draws and type(v) is Draw):
                    nodes.append(node)
                    for o in node[2]:
                        made[id(o)] = o
                    break
            else:
                rest.append(node)
        pending[self.start:n] = rest
        for node in rest:
            k = id(node[2][0])
            if k in self.masks:
                self.left[k] = self.masks[k]
        gone = Failed(RuntimeError(
            f"a tensor made inside a function under {self.what} was used after the function had returned: only what the function "
            "returns has a value outside; return it, or keep it as an auxiliary output (has_aux=True)"))
        for v in made.values():
            v.data = gone
        return made, nodes

    def take(self, outputs, whole=False):
        """The subgraph that computes `outputs` (values) from the placeholders.

        whole: with everything recorded since the start that the outputs need, not only what depends on placeholders."""
        tail = self.device.graph.pending[self.start:] if whole else None
        made, nodes = self._extract()
        live = {id(v) for v in outputs}
        kept = []
        for node in reversed(nodes if tail is None else tail):
            if any(id(v) in live for v in node[2]):
                kept.append(node)
                live.update(id(v) for v in node[1] if type(v) is Value)
        kept.reverse()
        return Subgraph(self, kept, outputs, made)


class Subgraph:
    """Steps in order over numbered values: placeholders, then free values and step outputs as they come; run-time scalars are
    numbered apart. `key` says everything about it but the avals of its inputs."""

    def __init__(self, capture, nodes, outputs, made):
        number = {id(v): i for i, v in enumerate(capture.placeholders)}
        n = len(number)
        self.n_inputs = n
        self.avals = tuple(v.aval for v in capture.placeholders)
        self.frees: list[Value] = []
        self.free_at: list[int] = []
        self.scalars: list = []
        self.steps: list[tuple] = []
        key: list = []
        for config, ins, outs, _code, _lasti in nodes:
            mask = capture.masks.get(id(outs[0]), 0)
            at = []
            stops = []
            for j, v in enumerate(ins):
                if type(v) is Value:
                    i = number.get(id(v))
                    if i is None:
                        i = number[id(v)] = n
                        n += 1
                        self.frees.append(v)
                        self.free_at.append(i)
                    if not mask >> j & 1 and v.aval.dtype.kind in "fcV" and (id(v) in made or id(v) in capture.edges):
                        stops.append(j)
                else:
                    self.scalars.append(v)
                    i = -len(self.scalars)
                at.append(i)
            first = n
            for o in outs:
                number[id(o)] = n
                n += 1
            self.steps.append((config.kernel, tuple(at), first, tuple(stops)))
            key += (config.id, *at, -1 << 40, *stops, -1 << 41)
        for v in outputs:
            if id(v) not in number:
                number[id(v)] = n
                n += 1
                self.frees.append(v)
                self.free_at.append(number[id(v)])
        self.outs = tuple([number[id(v)] for v in outputs])
        self.out_avals = tuple([v.aval for v in outputs])
        self.size = n
        self.key = (tuple(key), self.outs, tuple(self.free_at), tuple([type(s) for s in self.scalars]))

    def free_avals(self):
        """(avals of the free values, of the scalars), without device."""
        return (tuple([v.aval.core for v in self.frees]),
                tuple([WEAK[t if (t := type(s)) in WEAK else int] for s in self.scalars]))

    def function(self):
        """f(placeholders, frees, scalars) -> tuple of outputs, over jax arrays; holds no value of the recording."""
        steps, outs, n_inputs, free_at, size = self.steps, self.outs, self.n_inputs, tuple(self.free_at), self.size

        def run(args, frees, scalars):
            env = [None] * size
            env[:n_inputs] = args
            for i, x in zip(free_at, frees, strict=True):
                env[i] = x
            for kernel, at, first, stops in steps:
                ins = [env[i] if i >= 0 else scalars[-1 - i] for i in at]
                for j in stops:
                    ins[j] = jax.lax.stop_gradient(ins[j])
                for k, r in enumerate(kernel.call(*ins)):
                    env[first + k] = r
            return tuple([env[i] for i in outs])
        return run

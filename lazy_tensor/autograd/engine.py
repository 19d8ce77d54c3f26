"""Backward: walks the tape in descending node number and records gradient nodes in the same graph.

Without `create_graph` gradients travel as bare values and each op's backward is one node (none at all when the
gradient is the cotangent itself). With it they travel as tensors, and the backward ops are recorded on the tape.
"""
from __future__ import annotations

import itertools
from operator import attrgetter

import jax.numpy as jnp
import numpy as np

from lazy_tensor.modes import modes
from lazy_tensor.node import AccumulateGrad, Node, OpNode
from lazy_tensor.tensor import Tensor, _Packed, _plain, _snapshot, _Written, emit, emit_grad, emit_many, no_tape, wrap
from xla_backend import graph, transfer
from xla_backend.debug import line
from xla_backend.graph import Value
from xla_backend.kernel import Kernel
from xla_backend.program import sync

_epochs = itertools.count(1)
_new = object.__new__
_adds: dict = {}
_consts: dict = {}


def _add_config(a):
    """The configuration that adds two gradients of one aval."""
    found = _adds.get(a)
    if found is None:
        found = _adds[a] = Kernel("accumulate", lambda x, y: (x + y,), (a.core, a.core)).on(a.device)
    return found


def _add_values(x, y):
    config = _add_config(x.aval)
    v = Value(config.out)
    config.push((config, (x, y), (v,), None, 0))
    return v


def _add_tensors(x, y):
    return _call(_add_config(x._v.aval), (x, y))


def _call(config, tensors):
    """Record a configuration on tensors, with the tape if any needs it; returns a tensor or a list."""
    ins = tuple([t._value() for t in tensors])
    if modes.grad and any(t._gn is not None for t in tensors):
        edges = tuple([e for t in tensors for e in (t._gn, t._oi)])
        r = emit_grad(config, ins, edges)
        return r if not isinstance(r, list) or len(config.outs) != 1 else r[0]
    return emit(config, ins) if len(config.outs) == 1 else emit_many(config, ins)


def full(a, x):
    """A tensor of aval a filled with a Python float (ones for the root, zeros for what no gradient reached)."""
    config = _consts.get((a, x))
    if config is None:
        kernel = Kernel("ones" if x == 1 else "zeros", lambda: (jnp.full(a.shape, x, a.dtype),), ())
        config = _consts[(a, x)] = kernel.on(a.device)
    return emit(config, ())


# ------------------------------------------------------------------------------------------- Python nodes


class CopyNode(Node):
    """Backward of a copy between devices: the gradient goes back."""

    __slots__ = ("source",)

    def __init__(self, edges, source):
        Node.__init__(self, edges, 1)
        self.source = source

    def name(self):
        return "ToCopyBackward0"

    def apply(self, cts):
        """cts: a list with one tensor or None."""
        return [None if cts[0] is None else copy_tensor(cts[0], self.source)]


def copy_node(gn, oi, source, target):
    """The tape node of a copy from device `source` to `target`."""
    return CopyNode((gn, oi), source)


def copy_tensor(t, dev):
    """t on another runtime device (a transfer), with its tape node."""
    r = wrap(transfer.copy_to(t._value(), dev))
    if t._gn is not None and modes.grad:
        r._gn = CopyNode((t._gn, t._oi), t._v.aval.device)
    return r


# ------------------------------------------------------------------------------------------- the walk


def _order(roots):
    """Every op node reachable from roots, highest number first; leaves' accumulators are left out."""
    epoch = next(_epochs)
    out = []
    stack = []
    for n in roots:
        if n.mark != epoch:
            n.mark = epoch
            stack.append(n)
    while stack:
        n = stack.pop()
        out.append(n)
        for m in n.edges[::2]:
            if m is not None and m.mark != epoch:
                m.mark = epoch
                if type(m) is not AccumulateGrad:
                    stack.append(m)
    out.sort(key=attrgetter("seq"), reverse=True)
    return out


def run(roots, cts, retain_graph, create_graph, captures=None, accumulate=True):
    """Walk from roots [(node, index)] with cotangents (tensors).

    captures: {(id(node), index): slot}; their gradients are returned in a list. Leaves accumulate into `.grad`
    when `accumulate` (only those in `accumulate` when it is a set of accumulators)."""
    graph_mode = create_graph
    outermost = modes.callbacks is None
    if outermost:
        modes.callbacks = []
    before = modes.grad
    modes.grad = bool(create_graph)
    got = [None] * len(captures) if captures else []
    accs: dict = {}
    order = None
    try:
        nodes = []
        for (n, _), _ct in zip(roots, cts, strict=True):
            if type(n) is not AccumulateGrad:
                nodes.append(n)
        order = _order(nodes)
        for (n, i), ct in zip(roots, cts, strict=True):
            _deliver(n, i, ct if graph_mode else ct._value(), accs, graph_mode)
        needed = None
        if captures is not None:
            needed = _needed(order, captures, accumulate)
        for node in order:
            buf = node.buf
            if buf is None:
                continue
            node.buf = None
            if needed is not None and id(node) not in needed:
                continue
            if node.pre_hooks:
                buf = _run_pre_hooks(node, buf, graph_mode)
            if captures is not None:
                for i in range(node.n):
                    slot = captures.get((id(node), i))
                    if slot is not None:
                        got[slot] = buf if node.n == 1 else buf[i]
                if id(node) in needed and not needed[id(node)]:
                    continue
            if type(node) is OpNode:
                grads = _op_graph(node, buf, retain_graph) if graph_mode else _op_fast(node, buf, retain_graph)
            else:
                grads = _python(node, buf, graph_mode, retain_graph)
            if modes.anomaly:
                _check_nan(node, grads, graph_mode)
            if node.post_hooks:
                grads = _run_post_hooks(node, grads, buf, graph_mode)
            edges = node.edges
            i = 1
            for m, g in zip(edges[::2], grads, strict=False):
                if m is not None and g is not None:
                    if type(m) is AccumulateGrad:
                        b = accs.get(m)
                        accs[m] = g if b is None else (_add_tensors(b, g) if graph_mode else _add_values(b, g))
                    elif m.n == 1:
                        b = m.buf
                        m.buf = g if b is None else (_add_tensors(b, g) if graph_mode else _add_values(b, g))
                    else:
                        _deliver(m, edges[i], g, accs, graph_mode)
                i += 2
        plain = captures is None and accumulate is True and not graph_mode
        for node, g in accs.items():
            if plain and node.pre_hooks is None and node.post_hooks is None:  # _accumulate, without the call
                leaf = node.ref()
                if leaf is None:
                    continue
                if leaf._grad is None:
                    t = leaf._grad = _new(Tensor)
                    t._v = g
                    t._gn = t._view = None
                    t._oi = t._ver = 0
                    continue
            slot = captures.get((id(node), 0)) if captures is not None else None
            wanted = accumulate is True or (accumulate is not False and node in accumulate)
            if node.pre_hooks:
                g = _run_pre_hooks(node, g, graph_mode)
            if slot is not None:
                got[slot] = g
            if wanted:
                _accumulate(node, g, graph_mode)
        if outermost:
            for call in modes.callbacks:  # one may queue another
                call()
        return [g if g is None or graph_mode else wrap(g) for g in got]
    finally:
        modes.grad = before
        if outermost:
            modes.callbacks = None
        if order is not None:
            for node in order:
                node.buf = None


def queue_callback(call, once=False):
    """Have call() run when this thread's backward pass has ended well, the outermost if one runs within another.

    once: not if an equal one is queued already. Raises RuntimeError outside backward."""
    if modes.callbacks is None:
        raise RuntimeError("Final callbacks can only be installed during backward pass.")
    if not once or call not in modes.callbacks:
        modes.callbacks.append(call)


def _deliver(m, i, g, accs, graph_mode):
    """Add a gradient to a node's buffer."""
    if type(m) is AccumulateGrad:
        b = accs.get(m)
        accs[m] = g if b is None else (_add_tensors(b, g) if graph_mode else _add_values(b, g))
    elif m.n == 1:
        b = m.buf
        m.buf = g if b is None else (_add_tensors(b, g) if graph_mode else _add_values(b, g))
    else:
        if m.buf is None:
            m.buf = [None] * m.n
        b = m.buf[i]
        m.buf[i] = g if b is None else (_add_tensors(b, g) if graph_mode else _add_values(b, g))


def _needed(order, captures, accumulate):
    """{node id: whether it must run (rather than only be captured)}: those that lead to what is asked for."""
    needed: dict[int, bool] = {}
    ids = {k[0] for k in captures}
    accs = accumulate if isinstance(accumulate, set) else ()
    for node in reversed(order):
        must = False
        for j in range(0, len(node.edges), 2):
            m = node.edges[j]
            if m is not None and (id(m) in needed or id(m) in ids or m in accs or accumulate is True):
                must = True
                break
        if must or id(node) in ids:
            needed[id(node)] = must
    return needed


_FREED = ("Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). "
          "Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
          "retain_graph=True if you need to backward through the graph a second time or if you need to access saved tensors after "
          "calling backward.")


def _saved(node, retain):
    """(picked values, all inputs or None) that a node's backward reads; checks versions."""
    saved = node.saved
    if saved is None:
        raise RuntimeError(_FREED)
    if not retain:
        node.saved = None if node.tape.frees else saved
    if type(saved) is _Packed:
        saved = saved.open()
    picked, ins = saved if node.tape.keep_ins else (saved, None)
    for v in picked:
        if type(v) is Value and v.guard is not None:
            _check_guard(node, v)
    return picked, ins


def _check_guard(node, v):
    g = v.guard
    if type(g) is tuple:
        storage, seen = g
        if storage.version == seen:
            return
        how = f"is at version {storage.version}; expected version {seen} instead"
    elif type(g) is _Written:
        if node.seq >= g.since:
            return
        how = f"was overwritten by {g.name}"
    else:
        return
    at = line(node.code, node.lasti)
    raise RuntimeError("one of the variables needed for gradient computation has been modified by an inplace operation: "
                       f"[{v.aval.dtype.name} {list(v.aval.shape)}], input or output of {node.name()}"
                       + (f" recorded at {at}," if at else "") + f" {how}. Write to a clone, or use an out-of-place operation.")


def _op_fast(node, buf, retain):
    tape = node.tape
    if tape.single:
        cts = (buf,)
    else:
        wanted = tape.plan.cts
        cts = tuple([buf[j] if buf[j] is not None else full(tape.outs[j], 0.0)._v for j in wanted])
    picked = node.saved
    if type(picked) is tuple and not tape.keep_ins:  # _saved, without the call
        if not retain and tape.frees:
            node.saved = None
        for v in picked:
            if type(v) is Value and v.guard is not None:
                _check_guard(node, v)
    else:
        picked, _ = _saved(node, retain)
    route = tape.route
    if route is not None:
        return [cts[r] for r in route]
    bwd = tape.bwd
    if len(bwd.outs) == 1:
        v = _new(Value)
        v.aval = bwd.out
        v.data = v.guard = None
        v.pos = -1
        v.uses = 0
        outs = (v,)
    else:
        outs = tuple([Value(a) for a in bwd.outs])
    ins = picked + cts
    if bwd.device.host:
        ins = _snapshot(ins)
    bwd.push((bwd, ins, outs, node.code, node.lasti))
    if len(bwd.pending) >= graph.PENDING_LIMIT:
        sync(bwd.device, "the bound on pending operations")
    return outs


def _op_graph(node, buf, retain):
    """Backward as recorded ops: cotangents and results are tensors."""
    tape = node.tape
    plan = tape.plan.without_saving() if tape.plan.mode == "save" else tape.plan
    cts = [buf] if tape.single else [buf[j] if buf[j] is not None else full(tape.outs[j], 0.0) for j in plan.cts]
    picked, ins = _saved(node, retain)
    if plan is not tape.plan:  # saved residuals are not differentiable: start again from the inputs
        values = [ins[i] for i in plan.saved_ins]
        outs = []
    else:
        n = len(plan.saved_ins)
        values, outs = list(picked[:n]), list(picked[n:])
    tensors = []
    for i, v in zip(plan.saved_ins, values, strict=True):
        t = wrap(v) if type(v) is Value else v
        if type(v) is Value and i in plan.mask:
            k = plan.mask.index(i)
            t._gn, t._oi = node.edges[2 * k], node.edges[2 * k + 1]
        tensors.append(t)
    for j, v in zip(plan.saved_outs, outs, strict=True):
        t = wrap(v)
        t._gn, t._oi = node, j
        tensors.append(t)
    tensors += cts
    config = plan.bwd.on(tape.device)
    return _mixed_call(config, tensors)


def _mixed_call(config, items):
    """Record on tensors and Python numbers."""
    ins = tuple([t._value() if isinstance(t, Tensor) else t for t in items])
    edges = []
    for t in items:
        edges += (t._gn, t._oi) if isinstance(t, Tensor) else (None, 0)
    if modes.grad and any(e is not None for e in edges[::2]):
        before = config.single
        config.single = len(config.outs) == 1
        r = emit_grad(config, ins, tuple(edges))
        config.single = before
    else:
        r = emit(config, ins) if len(config.outs) == 1 else emit_many(config, ins)
    return r if isinstance(r, list) else [r]


def _python(node, buf, graph_mode, retain):
    """A node whose backward is Python over tensors."""
    items = [buf] if node.n == 1 else list(buf)
    cts = [b if b is None or graph_mode else wrap(b) for b in items]
    grads = node.apply(cts) if not hasattr(node, "apply_retain") else node.apply_retain(cts, retain)
    return [g if g is None or graph_mode else g._value() for g in grads]


# ------------------------------------------------------------------------------------------- hooks, leaves, checks


def _run_pre_hooks(node, buf, graph_mode):
    items = [buf] if node.n == 1 else list(buf)
    tensors = [b if b is None or graph_mode else wrap(b) for b in items]
    for index, hook in list(node.pre_hooks.values()):
        if index is None:
            r = hook(tuple(tensors))
            if r is not None:
                tensors = list(r) if isinstance(r, (tuple, list)) else [r]
        elif tensors[index] is not None:
            r = hook(tensors[index])
            if r is not None:
                if not isinstance(r, Tensor):
                    raise TypeError(f"hook should return None or a Tensor, got {type(r).__name__}")
                if r.shape != tensors[index].shape:
                    raise RuntimeError(f"hook {getattr(hook, '__name__', hook)!r} has changed the size of value: from "
                                       f"{list(tensors[index].shape)} to {list(r.shape)}")
                tensors[index] = r
    out = [t if t is None or graph_mode else t._value() for t in tensors]
    return out[0] if node.n == 1 else out


def _run_post_hooks(node, grads, buf, graph_mode):
    gi = tuple(g if g is None or graph_mode else wrap(g) for g in grads)
    go = tuple(b if b is None or graph_mode else wrap(b) for b in ([buf] if node.n == 1 else buf))
    for hook in list(node.post_hooks.values()):
        r = hook(gi, go)
        if r is not None:
            gi = r if isinstance(r, tuple) else (r,)
    return [g if g is None or graph_mode else g._value() for g in gi]


def _accumulate(node, g, graph_mode):
    leaf = node.variable
    if leaf is None:
        return
    old = leaf.grad
    if graph_mode:
        leaf._grad = _plain(g) if old is None else old + g  # a tensor of its own: two leaves may get the same gradient
    elif old is None:
        leaf._grad = wrap(g)
    else:
        with no_tape():
            old.add_(wrap(g))
    if node.post_hooks:
        for hook in list(node.post_hooks.values()):
            hook((), (leaf._grad,))


def _check_nan(node, grads, graph_mode):
    if not modes.anomaly_check_nan:
        return
    for k, g in enumerate(grads):
        if g is None:
            continue
        v = g._value() if graph_mode else g
        a = transfer.to_host(v)
        if a.dtype.kind in "fcV" and np.isnan(a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)).any():
            at = line(node.code, node.lasti) if type(node) is OpNode else ""
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {k}th output."
                               + (f" The forward op was recorded at {at}." if at else ""))


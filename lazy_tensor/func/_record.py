"""A function over tensors recorded to a subgraph, transformed as a jax function, and emitted as one node.

`recorded` runs the function once on placeholders; `apply` turns what was recorded into a kernel (found again by the exact
structure of the recording, so a second call traces nothing) and records it with its place on the tape: gradients, further
transforms and batching of the result follow from the kernel's own jax function.
"""
from __future__ import annotations

from lazy_tensor.autograd.engine import _order
from lazy_tensor.modes import modes
from lazy_tensor.node import AccumulateGrad, Node, _next
from lazy_tensor.tensor import Tensor, _note, emit, emit_grad, emit_many, wrap
from lazy_tensor.utils._pytree import tree_flatten, tree_unflatten
from xla_backend import random as random_
from xla_backend.capture import Capture
from xla_backend.graph import Failed
from xla_backend.kernel import Kernel

_kernels: dict[tuple, Kernel] = {}


class Placeholder(Node):
    """The place on the tape of an argument that is not known yet: derivatives flow through it, none is computed."""

    __slots__ = ()

    def name(self):
        return "Placeholder"

    def apply(self, cts):
        return []


class Level(Node):
    """The place on the tape of an argument of `grad` or `vjp`: passes gradients on to where the argument came from.

    `open` while the function runs."""

    __slots__ = ("open",)

    def __init__(self, edges):
        Node.__init__(self, edges, 1)
        self.open = True

    def name(self):
        return "Level"

    def apply(self, cts):
        return [cts[0]] if self.edges else []


def device_of(what, tensors):
    """The one device of the arguments."""
    devices = {t._v.aval.device for t in tensors}
    if len(devices) > 1:
        raise RuntimeError(f"{what}: Expected all tensors to be on the same device, but found {', '.join(sorted(map(str, devices)))}")
    return next(iter(devices))


class Recorded:
    """A recording: the subgraph, the outputs' container, the tape's places of its free values."""

    __slots__ = ("sub", "spec", "outs", "edges", "aux")

    def __init__(self, sub, spec, outs, edges, aux):
        self.sub, self.spec, self.outs, self.edges, self.aux = sub, spec, outs, edges, aux


def recorded(what, fn, avals, device, *, flowing=True, draws=None, has_aux=False, check=None, whole=False):
    """Run fn(*placeholders) once. avals: one a placeholder (with device); flowing: whether derivatives flow through them (a bool,
    or one each); draws: None as outside, "error", or a batch size (see xla_backend.random); whole: what does not depend on the
    placeholders is part of the recording too. Returns a Recorded."""
    flows = [flowing] * len(avals) if isinstance(flowing, bool) else flowing
    draw_rule = random_.rules.rule
    before = modes.capture
    capture = Capture(device, what, isinstance(draws, int))
    first = _next()
    with capture:
        modes.capture = capture
        random_.rules.rule = draw_rule if draws is None else draws * draw_rule if isinstance(draws, int) and isinstance(draw_rule, int) else draws
        try:
            holders = []
            for a, flow in zip(avals, flows, strict=True):
                t = wrap(capture.placeholder(a))
                if flow and a.dtype.kind in "fcV":
                    t._gn = Placeholder((), 1)
                holders.append(t)
            out = fn(*holders)
            del holders
            aux = None
            if has_aux:
                if not (isinstance(out, tuple) and len(out) == 2):
                    raise RuntimeError(f"{what}(f, has_aux=True): expected f to return a tuple (output, aux), got {type(out).__name__}")
                out, aux = out
            if check is not None:
                check(out)
            leaves, spec = tree_flatten(out)
            aux_leaves, aux_spec = tree_flatten(aux)
            tensors_at = [k for k, x in enumerate(aux_leaves) if isinstance(x, Tensor)]
            everything = [*leaves, *[aux_leaves[k] for k in tensors_at]]
            _check_outputs(what, everything, device)
            values = [x._value() for x in everything]
            sub = capture.take(values, whole)
        finally:
            modes.capture = before
            random_.rules.rule = draw_rule
    if before is not None:  # what did not depend on the placeholders belongs to the function around
        before.masks.update(capture.left)
        before.edges.update(capture.edges)
    edges = [_came_from(*capture.edges.get(id(v), (None, None, 0))[1:], first) for v in sub.frees]
    for k, v in enumerate(sub.frees):  # returned as it is: no node has noted where it came from
        if edges[k][0] is None:
            edges[k] = next((_came_from(t._gn, t._oi, first) for t, y in zip(everything, values, strict=True) if y is v), edges[k])
    count = len(leaves)
    for k in tensors_at:
        aux_leaves[k] = None
    del out, aux, leaves, everything, values
    _restore(what, capture.writes)
    return Recorded(sub, spec, count, edges, (aux_spec, aux_leaves, tensors_at))


def _check_outputs(what, outs, device):
    """A function of its own: a loop variable left in `recorded` would keep a tensor that the function made, and `_restore` would take
    it for one from outside."""
    for x in outs:
        if not isinstance(x, Tensor):
            raise ValueError(f"{what}(f, ...): f must only return Tensors, got type {type(x)}. Return it as an auxiliary output "
                             "(has_aux=True), or wrap it in a tensor")
        if x._v.aval.device is not device:
            raise RuntimeError(f"{what}(f, ...): f's arguments are on {device} and it returned a tensor on {x._v.aval.device}")


def _came_from(gn, oi, first):
    """A place on the tape as it is seen outside a recording that began with node number `first`."""
    while type(gn) is Level and gn.seq >= first:
        gn, oi = gn.edges or (None, 0)
    if gn is None or gn.seq < first or leads_out([gn]):  # made inside of what is outside: it stays on the tape
        return gn, oi
    return None, 0


def leads_out(nodes, own=()):
    """Whether tape nodes lead to a leaf, a placeholder, or an argument of a level that is still open and not in `own` (ids)."""
    for node in _order([n for n in nodes if type(n) is not AccumulateGrad]):
        if type(node) is Placeholder or type(node) is Level and node.open and id(node) not in own:
            return True
        if any(type(m) is AccumulateGrad for m in node.edges[::2]):
            return True
    return any(type(n) is AccumulateGrad for n in nodes)


def _restore(what, writes):
    """Refuse writes to tensors from outside (those still there) whose new value depends on the placeholders."""
    lost = None
    for ref, old, gn, oi in reversed(writes):
        t = ref()
        if t is not None and type(t._v.data) is Failed and type(old.data) is not Failed:
            t._v, t._gn, t._oi = old, gn, oi
            lost = t
    if lost is not None:
        raise RuntimeError(f"{what}: the function wrote in place to a tensor of {list(lost.shape)} that was made outside it, a value "
                           f"that depends on its arguments. Under {what} such a write has no value outside; return the new value "
                           "instead (modules with running statistics: eval(), track_running_stats=False, or functional_call with "
                           "buffers passed in and returned)")


def apply(what, recordings, transform, key, tensors, reverse=True):
    """Emit transformed recordings as one node; returns its output tensors.

    transform(f, ...) -> g(arguments, frees, scalars) over jax arrays, a tuple of outputs; each f is a recording's function of
    (placeholders, frees, scalars), and g gets frees and scalars as it gave them: one tuple for one recording, a tuple of tuples
    for several. `key` (hashable) names everything else that transform read. `tensors` are g's arguments. reverse: False when
    jax cannot differentiate g in reverse mode (backward then says so)."""
    several = isinstance(recordings, (list, tuple))
    subs = [r.sub for r in recordings] if several else [recordings.sub]
    avals = [sub.free_avals() for sub in subs]
    values = [t._value() for t in tensors]
    ins = tuple([v.aval.core for v in values])
    full = (what, key, ins, tuple([a[0] for a in avals]), tuple([sub.key for sub in subs]))
    kernel = _kernels.get(full)
    if kernel is None:
        n, frees, scalars = len(ins), [len(a[0]) for a in avals], [len(a[1]) for a in avals]
        g = transform(*[sub.function() for sub in subs])

        def flat(*arrays):
            at = n

            def group(counts):
                nonlocal at
                out = []
                for c in counts:
                    out.append(arrays[at:at + c])
                    at += c
                return tuple(out) if several else out[0]
            fr = group(frees)
            return tuple(g(arrays[:n], fr, group(scalars)))
        kernel = _kernels[full] = Kernel(what, flat, (*ins, *[a for f, _ in avals for a in f], *[a for _, s in avals for a in s]))
    device = values[0].aval.device if values else next(v for sub in subs for v in sub.frees).aval.device
    edges = [(t._gn, t._oi) for t in tensors] + [e for r in (recordings if several else [recordings]) for e in r.edges]
    frees = [v for sub in subs for v in sub.frees]
    scalars = [x for sub in subs for x in sub.scalars]
    return emit_kernel(kernel, device, (*values, *frees, *scalars), edges + [(None, 0)] * len(scalars), reverse)


class _ForwardOnly(Node):
    """The place on the tape of what has no reverse mode."""

    __slots__ = ("what",)

    def apply(self, cts):
        raise RuntimeError(f"{self.what} cannot be differentiated in reverse mode: the number of steps is not known beforehand, so nothing "
                           "was kept for a backward pass. Use scan() with a fixed length, or forward mode (lt.func.jvp, jacfwd)")


def emit_kernel(kernel, device, ins, edges, reverse=True):
    """Record a kernel on values and numbers with the tape's places of its inputs; a list of tensors."""
    config = kernel.on(device)
    if not reverse:
        r = emit(config, ins) if config.single else emit_many(config, ins)
        r = r if isinstance(r, list) else [r]
        if modes.grad and any(e[0] is not None for e in edges):
            flat = tuple([x for e in edges for x in e])
            if modes.capture is not None:
                _note(modes.capture, ins, [t._v for t in r], flat, sum(1 << i for i, e in enumerate(edges) if e[0] is not None))
            node = _ForwardOnly(flat, len(r))
            node.what = kernel.name
            for k, t in enumerate(r):
                if t._v.aval.dtype.kind in "fcV":
                    t._gn, t._oi = node, k
        return r
    if modes.grad and any(e[0] is not None for e in edges):
        r = emit_grad(config, ins, tuple([x for e in edges for x in e]))
    else:
        r = emit(config, ins) if config.single else emit_many(config, ins)
    return r if isinstance(r, list) else [r]


def with_aux(recording, outs):
    """(result, aux) or the result alone, from a flat list of output tensors."""
    result = tree_unflatten(outs[:recording.outs], recording.spec)
    spec, leaves, at = recording.aux
    leaves = list(leaves)
    for k, t in zip(at, outs[recording.outs:], strict=True):
        leaves[k] = t
    return result, tree_unflatten(leaves, spec)

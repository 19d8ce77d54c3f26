"""The Tensor: a handle on a value, with the tape, views that alias, and versions; and how an op is emitted.

Fields of a tensor: `_v` the current `Value`; `_gn`, `_oi` the tape node and output index that made it (an
`AccumulateGrad` for a leaf that requires grad, None without grad); `_view` None, or a `View` once it shares
storage with another tensor. Everything that reads a tensor's value does
`t._v if t._view is None else t._read()`.

`emit` and `emit_grad` are the recording hot path: 0.5 and 1.1 us here; scripts/bench/recording.py guards them.
"""
from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from lazy_tensor import devices as device_
from lazy_tensor import dtypes
from lazy_tensor.modes import modes, unusual
from lazy_tensor.node import AccumulateGrad, OpNode, _next
from xla_backend import graph, runtime, transfer
from xla_backend.graph import Value, aval
from xla_backend.kernel import _picker
from xla_backend.program import sync

_new = object.__new__
_getframe = sys._getframe
_SHARED = "shared with a NumPy array"
_NEVER = 1 << 62


class Chain:
    """The view steps that lead from a root to an alias, and the root's own strides (None: C order).

    Interned step by step, so that equal ways from roots of one shape are one object: what is worked out for it (strides,
    whether a size can be viewed) is kept on it."""

    __slots__ = ("steps", "next", "strides", "layout")

    def __init__(self, steps=(), strides=None):
        self.steps, self.strides = steps, strides
        self.next: dict[Step, Chain] = {}
        self.layout = None

    def then(self, step):
        """This chain and one more step."""
        found = Chain((*self.steps, step), self.strides)
        if not step.extra:
            if len(self.next) > 1000:
                self.next.clear()
            self.next[step] = found
        return found


PLAIN = Chain()


class Storage:
    """What aliasing tensors share, and the `_view` of their root: `version` counts the writes that the tape sees, `writes` those
    through `.data` too; the root's layout."""

    __slots__ = ("version", "writes", "chain", "stand_in")
    root = None
    made = None
    tracked = True

    def __init__(self, version, chain=PLAIN):
        self.version, self.writes, self.chain = version, 0, chain

    @property
    def storage(self):
        return self


class View:
    """The `_view` of an alias: the storage, how many writes it has seen, the root tensor and the view steps from it.

    `made` is None, or how it was made if that forbids in-place writes on the tape ("no_grad", "multi")."""

    __slots__ = ("storage", "seen", "root", "chain", "made")
    detached = False
    tracked = True


class Detached(View):
    """What `detach` gives: the same storage with a place of its own on the tape."""

    __slots__ = ()
    detached = True


class DataView(Detached):
    """What `.data` gives: the tape does not notice its writes either."""

    __slots__ = ()
    tracked = False


class SubView(View):
    """A view of a detached tensor: `base` is that tensor, whose place on the tape its reads and writes go through."""

    __slots__ = ("base",)


class _Written:
    """Guard of a value whose tensor was overwritten: by which op, and the number from which tape nodes are that op's own
    (an in-place op may read what it overwrites)."""

    __slots__ = ("name", "since")

    def __init__(self, name, since=_NEVER):
        self.name, self.since = name, since


# ------------------------------------------------------------------------------------------- recording

_internal: dict[int, bool] = {}


def _is_internal(g):
    name = g.get("__name__") or ""
    found = name.startswith(("lazy_tensor", "xla_backend")) and not name.startswith(("lazy_tensor.scripts",))
    _internal[id(g)] = found
    return found


def where():
    """(code, lasti) of the innermost frame outside the library."""
    f = _outside(_getframe(1))
    return (None, 0) if f is None else (f.f_code, f.f_lasti)


def _outside(f):
    """The innermost frame from f on that is outside the library, or None."""
    while f is not None:
        g = f.f_globals
        if not (_internal[id(g)] if id(g) in _internal else _is_internal(g)):
            return f
        f = f.f_back
    return None


class Tape:
    """How one configuration's gradient goes for one set of inputs: made once for each mask."""

    __slots__ = ("name", "plan", "fwd", "n_out", "n_all", "single", "pick", "edges", "bwd", "route", "device", "subs",
                 "keep_ins", "outs", "float_outs", "frees")

    def __init__(self, config, mask_positions, edge_positions, cts=None):
        kernel = config.kernel
        self.plan = plan = kernel.plan(mask_positions, cts)
        self.name, self.device = kernel.name, config.device
        self.fwd = config if plan.fwd is kernel else plan.fwd.on(config.device)
        self.n_out = len(kernel.outs)
        self.single = self.n_out == 1
        self.n_all = len(self.fwd.outs)
        self.keep_ins = plan.all_ins
        self.frees = bool(plan.saved_ins or plan.saved_outs or plan.n_res)  # whether backward gives up what it saved
        self.pick = plan.pick
        # None when every input has an edge: they are kept as they come.
        whole = tuple(edge_positions) == tuple(range(len(kernel.ins)))
        self.edges = None if whole else _picker([j for i in edge_positions for j in (2 * i, 2 * i + 1)])
        self.bwd = plan.bwd.on(config.device)
        # A gradient that is just a cotangent needs no node: route[k] is ("ct", j), else position among bwd's outputs.
        jaxpr = plan.bwd.jaxpr.jaxpr
        n_saved = len(jaxpr.invars) - len(plan.cts)
        ct_of = {v: j for j, v in enumerate(jaxpr.invars[n_saved:])}
        route = tuple(ct_of.get(v, -1) if v.__class__.__name__ == "Var" else -1 for v in jaxpr.outvars)
        self.route = route if route and all(r >= 0 for r in route) else None
        self.outs = config.outs
        self.float_outs = tuple(map(kernel.flows, range(self.n_out)))
        self.subs = {}


def emit(config, ins):
    """Record a node with one output; returns its tensor (no tape)."""
    host = config.host
    if host is not None:
        r = _host(config, ins)
        if r is not None:
            return r[0]
        if config.device.host:
            ins = _snapshot(ins)
    f = _getframe(1)
    try:
        while _internal[id(f.f_globals)]:
            f = f.f_back
    except (KeyError, AttributeError):  # a module met for the first time, or no frame outside the library
        f = _outside(f)
    v = _new(Value)
    v.aval = config.out
    v.data = v.guard = None
    v.pos = -1
    v.uses = 0
    if f is None:
        config.push((config, ins, (v,), None, 0))
    else:
        config.push((config, ins, (v,), f.f_code, f.f_lasti))
    t = _new(Tensor)
    t._v = v
    t._gn = t._view = None
    t._oi = t._ver = 0
    if len(config.pending) >= graph.PENDING_LIMIT:
        sync(config.device, "the bound on pending operations")
    return t


def emit_many(config, ins):
    """Record a node with any number of outputs; returns a list of tensors (no tape)."""
    if config.host is not None:
        r = _host(config, ins)
        if r is not None:
            return r
        if config.device.host:
            ins = _snapshot(ins)
    values = tuple([Value(a) for a in config.outs])
    config.push((config, ins, values, *where()))
    if len(config.pending) >= graph.PENDING_LIMIT:
        sync(config.device, "the bound on pending operations")
    return [wrap(v) for v in values]


def emit_grad(config, ins, edges, mask=None):
    """Record a node and its place on the tape. `edges` is (node, index) for each input, flat, (None, 0) without grad.

    mask: bit i is set when input i has an edge (worked out when None). Returns a tensor when the configuration has one
    output, else a list of tensors."""
    if mask is None:
        mask = 0
        bit = 1
        for e in edges[::2]:
            if e is not None:
                mask |= bit
            bit += bit
    tape = config.grads.get(mask)
    if tape is None:
        tape = _make_tape(config, mask)
    if tape is False:
        return emit(config, ins) if config.single else emit_many(config, ins)
    fwd = tape.fwd
    if config.host is not None:
        r = _host(config, ins)
        if r is not None and fwd is config:
            return _attach_host(config, tape, ins, r, edges)
        if config.device.host:
            ins = _snapshot(ins)
    f = _getframe(1)
    try:
        while _internal[id(f.f_globals)]:
            f = f.f_back
    except (KeyError, AttributeError):  # a module met for the first time, or no frame outside the library
        f = _outside(f)
    if f is None:
        code, lasti = None, 0
    else:
        code, lasti = f.f_code, f.f_lasti
    node = _new(OpNode)
    node.seq = _next()
    node.mark = 0
    node.buf = node.pre_hooks = node.post_hooks = None
    node.tape = tape
    pick = tape.edges
    node.edges = edges if pick is None else pick(edges)
    node.n = tape.n_out
    node.code = code
    node.lasti = lasti
    if tape.n_all == 1:
        v = _new(Value)
        v.aval = config.out
        v.data = v.guard = None
        v.pos = -1
        v.uses = 0
        outs = (v,)
    else:
        outs = tuple([Value(a) for a in fwd.outs])
    fwd.push((fwd, ins, outs, code, lasti))
    node.saved = (tape.pick(ins + outs), (*ins,)) if tape.keep_ins else tape.pick(ins + outs)
    if unusual.met:
        if modes.saved_hooks is not None:
            _pack(node)
        if modes.capture is not None:
            _note(modes.capture, ins, outs, edges, mask)
    if len(config.pending) >= graph.PENDING_LIMIT:
        sync(config.device, "the bound on pending operations")
    if tape.single:
        t = _new(Tensor)
        t._v = outs[0]
        t._gn = node
        t._view = None
        t._oi = t._ver = 0
        return t
    result = []
    for i in range(tape.n_out):
        t = wrap(outs[i])
        if tape.float_outs[i]:
            t._gn, t._oi = node, i
        result.append(t)
    return result


def _note(capture, ins, outs, edges, mask):
    """Tell the function that is being recorded through which inputs of a node derivatives flow, and where they come from."""
    capture.masks[id(outs[0])] = mask
    for i, v in enumerate(ins):
        if mask >> i & 1:
            capture.edges[id(v)] = v, edges[2 * i], edges[2 * i + 1]


def _make_tape(config, mask):
    """The tape entry of a mask over array inputs; False when no gradient can flow."""
    kernel = config.kernel
    positions = [i for i, a in enumerate(kernel.ins) if mask >> i & 1 and a.dtype.kind in "fcV"]
    if not positions or not any(map(kernel.flows, range(len(kernel.outs)))):
        tape = False
    else:
        tape = Tape(config, tuple(positions), positions)
    config.grads[mask] = tape
    return tape


def _attach_host(config, tape, ins, tensors, edges):
    node = OpNode(edges if tape.edges is None else tape.edges(edges), tape.n_out)
    node.tape = tape
    node.code, node.lasti = where()
    node.saved = tape.pick(ins + tuple(t._v for t in tensors))
    for i, t in enumerate(tensors):
        if tape.float_outs[i]:
            t._gn, t._oi = node, i
    return tensors[0] if config.single else tensors


def _pack(node):
    """Saved-tensor hooks: what backward reads goes through the user's pack now and unpack later."""
    pack, unpack = modes.saved_hooks
    picked, ins = node.saved if node.tape.keep_ins else (node.saved, None)
    with no_tape():
        packed = [pack(wrap(v)) if type(v) is Value else v for v in picked]
    node.saved = _Packed(packed, [type(v) is Value for v in picked], ins, unpack)


class _Packed:
    """Saved values in the hands of the user's hooks (Python numbers, run-time scalars, do not go there)."""

    __slots__ = ("packed", "theirs", "ins", "unpack")

    def __init__(self, packed, theirs, ins, unpack):
        self.packed, self.theirs, self.ins, self.unpack = packed, theirs, ins, unpack

    def open(self):
        values = tuple([self.unpack(p)._value() if theirs else p for p, theirs in zip(self.packed, self.theirs, strict=True)])
        return values if self.ins is None else (values, self.ins)


class no_tape:
    """Grad mode off for a block: cheaper than `no_grad`."""

    __slots__ = ("before",)

    def __enter__(self):
        self.before = modes.grad
        modes.grad = False

    def __exit__(self, *exc):
        modes.grad = self.before


def _snapshot(ins):
    """Inputs in which arrays that the user may write to are copied, for a node that runs later."""
    for v in ins:
        if type(v) is Value and v.guard is _SHARED:
            return tuple([Value(v.aval, v.data.copy()) if type(v) is Value and v.guard is _SHARED else v for v in ins])
    return ins


def _host(config, ins):
    """Run a configuration's NumPy rule at once when every input is at rest on the host; else None."""
    rule = config.host
    if rule is True or (unusual.met and modes.capture is not None and not modes.capture.eager_host):
        return None
    args = []
    for v in ins:
        if type(v) is Value:
            d = v.data
            if d is None:
                return None
            if type(d) is graph.Failed:
                raise d.error
            args.append(d if type(d) is np.ndarray else np.asarray(d))
        else:
            args.append(v)
    out = []
    results = rule(*args)
    if results is None:
        return None
    for a, r in zip(config.outs, results, strict=True):
        r = np.ascontiguousarray(r, a.dtype)
        if r.shape != a.shape:
            r = r.reshape(a.shape)
        for x in args:
            if type(x) is np.ndarray and r.size and np.may_share_memory(r, x):
                r = r.copy()
                break
        out.append(wrap(Value(a, r)))
    return out


def wrap(value):
    """A tensor without grad on a value."""
    t = _new(Tensor)
    t._v = value
    t._gn = t._view = None
    t._oi = t._ver = 0
    return t


def _leaf(array, device=None):
    """A tensor on a copy of a NumPy array: a leaf of the graph, no node."""
    return wrap(runtime.leaf(np.asarray(array), device_.resolve(device)))


# ------------------------------------------------------------------------------------------- aliasing and writes


def as_view(result, base, step, kind=View):
    """Make `result` (a fresh tensor holding the view's value) an alias of `base` through one more view step (or none)."""
    w = base._view
    if w is None or type(w) is Storage:
        root = base
        chain = PLAIN
        if w is None:
            storage = base._view = _new(Storage)
            storage.chain = chain
            storage.writes = 0
            storage.version = base._ver
            if base._v.guard is None:
                base._v.guard = (storage, storage.version)
        else:
            storage = w
            chain = w.chain
        seen = storage.writes
    else:
        storage, seen, root, chain = w.storage, w.seen, w.root, w.chain
        if type(w) is not View and step is not None or not w.tracked:
            kind = SubView if step is not None else DataView
    n = result._view = _new(kind)
    if kind is SubView:
        n.base = base if w.detached else w.base
    n.storage = storage
    n.seen = seen
    n.root = root
    if step is None:
        n.chain = chain
    else:
        try:
            n.chain = chain.next[step]
        except KeyError:
            n.chain = chain.then(step)
    n.made = None if modes.grad else "no_grad"
    v = result._v
    if v.guard is None:
        v.guard = (storage, storage.version)
    return result


def assign_(t, r, name="assign", since=_NEVER):
    """Rebind tensor t to r's value (same shape, dtype, device): the end of every in-place op.

    Aliases see the write; the version goes up; t takes r's place on the tape when grad mode is on. Tape nodes numbered
    from `since` on are the op's own: they may have saved what is overwritten here."""
    old = t._v
    new = r._v if r._view is None else r._read()
    w = t._view
    if unusual.met and modes.capture is not None:
        modes.capture.writes.append((weakref.ref(t), old, t._gn, t._oi))
    if old.guard is _SHARED and type(old.data) is np.ndarray:
        np.copyto(old.data, transfer.to_host(new))
        t._ver += 1
        if modes.grad:
            t._gn, t._oi = (r._gn, r._oi) if r._gn is not None else (t._gn, t._oi)
        return t
    if w is None:
        if old.guard is None:
            old.guard = _Written(name, since)
        t._ver += 1
        t._v = new
    elif w.root is None:
        w.version += 1
        w.writes += 1
        old.guard = _Written(name, since)
        t._v = new
        if new.guard is None:
            new.guard = (w, w.version)
    else:
        _write_through(t, w, r, name, since)
        return t
    if modes.grad:
        if r._gn is not None or t._gn is None or type(t._gn) is not AccumulateGrad:
            t._gn, t._oi = r._gn, r._oi
    return t


def _leave(t):
    """Take t out of its storage, which views of t keep: they find a stand-in as their root when they next read or write."""
    w = t._view
    if w is not None and _alone(t, w):
        w = None  # nobody will look (and a stand-in would keep the old value until the garbage collector finds the two)
    t._view = None
    if w is not None and w.root is None:
        w.stand_in = wrap(t._v)
        w.stand_in._view = w
        if type(t._gn) is not AccumulateGrad:
            w.stand_in._gn, w.stand_in._oi = t._gn, t._oi
        w.writes += 1  # so that views look


def _rooted(w):
    """The root of an alias; one that has left its storage is replaced by its stand-in."""
    stand_in = getattr(w.storage, "stand_in", None)
    if stand_in is not None and w.root is not stand_in:
        if type(w) is SubView and w.base is w.root:
            w.base = stand_in
        w.root = stand_in
    return w.root


def assign_value(t, v, name):
    """Rebind a tensor outside the tape to a value of its aval (what an optimizer does)."""
    w = t._view
    if w is not None and _alone(t, w):
        w.storage.version += 1
        t._view = None
        t._v = v
        t._ver = w.storage.version
        return
    if w is not None or t._v.guard is _SHARED:
        with no_tape():
            assign_(t, wrap(v), name)
        return
    old = t._v
    if old.guard is None:
        old.guard = _Written(name)
    t._v = v
    t._ver += 1


def _alone(t, w):
    """Whether t shares its storage with no tensor that is still there (and owns all of it, in C order)."""
    if w.chain is not PLAIN:
        return False
    if w.root is not None:
        return type(w) is not SubView and _refs_of_root(w) == _ROOT_REFS and w.root._v.guard is not _SHARED
    g = t._v.guard
    return _refs_of_storage(t) == _STORAGE_REFS + (type(g) is tuple and g[0] is w)


def _refs_of_root(w):
    return sys.getrefcount(w.root)


def _refs_of_storage(t):
    return sys.getrefcount(t._view)


def _write_through(t, w, r, name, since):
    """Write r into the storage that view t aliases."""
    root = _rooted(w)
    if root._v.guard is _SHARED:
        with no_tape():
            value = _replay_write(root, w.chain.steps, r)
        np.copyto(root._v.data, transfer.to_host(value._v))
        w.storage.version += w.tracked
        w.storage.writes += 1
        w.seen = w.storage.writes
        t._v = Value(t._v.aval, np.array(transfer.to_host(r._v)))
        return
    base, steps = (w.base, w.chain.steps[len(w.base._view.chain.steps):]) if type(w) is SubView else (root, w.chain.steps)
    on_tape = modes.grad and not w.detached
    if on_tape and type(base._gn) is AccumulateGrad:
        raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    if on_tape:
        if w.made is not None and (r._gn is not None or base._gn is not None):
            raise RuntimeError(_MADE[w.made].format(name))
        base._value()
        value = _replay_write(base, steps, r)
    else:
        with no_tape():
            base._value()
            value = _replay_write(base, steps, r)
    if base is not root:
        assign_(base, value, name, since)
    else:
        before = root._v
        if unusual.met and modes.capture is not None:
            modes.capture.writes.append((weakref.ref(root), before, root._gn, root._oi))
        root._v = value._v
        w.storage.writes += 1
        if w.tracked:  # else .data: aliases see the write, the tape does not
            w.storage.version += 1
            before.guard = _Written(name, since)
        if root._v.guard is None:
            root._v.guard = (w.storage, w.storage.version)
        if on_tape:
            root._gn, root._oi = value._gn, value._oi
    w.seen = w.storage.writes
    if w.tracked:
        t._v.guard = _Written(name, since)
    t._v = r._v if r._view is None else r._read()
    if t._v.guard is None:
        t._v.guard = (w.storage, w.storage.version)
    if on_tape or (modes.grad and (r._gn is not None or type(t._gn) is not AccumulateGrad)):
        t._gn, t._oi = r._gn, r._oi


_MADE = {
    "no_grad": "A view was created in no_grad mode and is being modified inplace ({}) with grad mode enabled. Given that this use case is "
               "ambiguous and error-prone, it is forbidden. Move both the view and the in-place op either inside the no_grad block (if "
               "you don't want it tracked) or both outside (if you do).",
    "multi": "This view is the output of a function that returns multiple views and is being modified inplace ({}). Such functions do "
             "not allow the output views to be modified inplace. You should replace the in-place operation by an out-of-place one.",
}


_OVERLAPPING = frozenset(("expand", "unfold", "as_strided"))  # view ops that may show an element more than once


def _replay_write(root, steps, new):
    """root's value with the region of the view (root through steps) replaced by new."""
    if not steps:
        return new
    for i, step in enumerate(steps):
        if step.op.name in _OVERLAPPING:
            from lazy_tensor.ops._define import write_overlapping
            base = _plain(root)
            for s in steps[:i]:
                base = _plain(s.read(base))
            new = write_overlapping(base, steps[i:], new)
            steps = steps[:i]
            if not steps:
                return new
            break
    chain = [_plain(root)]
    for step in steps[:-1]:
        chain.append(_plain(step.read(chain[-1])))
    for base, step in zip(reversed(chain), reversed(steps), strict=True):
        new = step.write(base, new)
    return new


def _plain(t):
    """The same value and tape place without aliasing."""
    p = wrap(t._v)
    p._gn, p._oi = t._gn, t._oi
    return p


class Step:
    """One view op with its arguments, to be read again or written through."""

    __slots__ = ("op", "key", "extra")

    def __init__(self, op, key, extra):
        self.op, self.key, self.extra = op, key, extra

    @staticmethod
    def of(config, op, key, ins):
        """The step of a view configuration (for each output when it has several): one object when nothing is run-time."""
        step = config.step
        if step is None:
            ops = (op,) if config.single else tuple(op.part(j) for j in range(len(config.outs)))
            step = tuple([Step(o, key[1:], ins[1:]) for o in ops])
            if config.single:
                step = step[0]
            if len(ins) == 1:
                config.step = step
        return step

    def read(self, base):
        return self.op.replay(base, self.key, self.extra)

    def write(self, base, new):
        return self.op.replay_put(base, new, self.key, self.extra)


# ------------------------------------------------------------------------------------------- the class


class Tensor:
    """An n-dimensional array recorded lazily (torch.Tensor); made by `lt.tensor`, `lt.zeros`, ... and by ops."""

    __slots__ = ("_v", "_gn", "_oi", "_view", "_ver", "_grad", "__dict__", "__weakref__")
    __array_priority__ = 1000

    if TYPE_CHECKING:  # the ops' methods are attached by lazy_tensor.methods
        def __getattr__(self, name: str) -> Any: ...
        def __add__(self, other: Any) -> Tensor: ...
        def __sub__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __truediv__(self, other: Any) -> Tensor: ...
        def __pow__(self, other: Any) -> Tensor: ...
        def __neg__(self) -> Tensor: ...
        def __getitem__(self, index: Any) -> Tensor: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...

    def __new__(cls, *args, device=None, **kw):
        from lazy_tensor import creation
        return creation.legacy(cls, args, device, **kw)

    def __init__(self, *args, **kw):
        pass

    # --- values

    def _read(self):
        """The current value of a tensor that aliases: derived again if the storage was written to."""
        w = self._view
        root = w.root
        if root is not None and w.seen != w.storage.writes:
            root = _rooted(w)
            if type(w) is SubView:
                w.base._read()
                t, steps = _plain(w.base), w.chain.steps[len(w.base._view.chain.steps):]
            else:
                t, steps = wrap(root._v) if w.detached else _plain(root), w.chain.steps
            for step in steps:
                t = step.read(t)
            self._v = t._v
            if self._v.guard is None:
                self._v.guard = (w.storage, w.storage.version)
            if t._gn is not None and type(t._gn) is not AccumulateGrad:
                self._gn, self._oi = t._gn, t._oi
            w.seen = w.storage.writes
        return self._v

    def _value(self):
        return self._v if self._view is None else self._read()

    def _host(self):
        """The bytes as a read-only NumPy array; runs what is pending."""
        return transfer.to_host(self._v if self._view is None else self._read())

    # --- shape, dtype, device

    @property
    def shape(self):
        """The sizes, a `Size`."""
        return dtypes.Size(self._v.aval.shape)

    def size(self, dim=None):
        """All sizes, or one dimension's (IndexError when out of range)."""
        s = self._v.aval.shape
        if dim is None:
            return dtypes.Size(s)
        n = len(s)
        if not -n <= dim < n:
            lo, hi = (-n, n - 1) if n else (-1, 0)
            raise IndexError(f"Dimension out of range (expected to be in range of [{lo}, {hi}], but got {dim})" if n else
                             "Dimension specified as 0 but tensor has no dimensions")
        return s[dim]

    def dim(self):
        """The number of dimensions."""
        return self._v.aval.ndim

    ndimension = dim

    @property
    def ndim(self):
        """The number of dimensions."""
        return self._v.aval.ndim

    @property
    def dtype(self):
        """The element type."""
        return dtypes.of(self._v.aval.dtype)

    @property
    def device(self):
        """Where it lives."""
        return device_.public(self._v.aval.device)

    def numel(self):
        """The number of elements."""
        n = 1
        for d in self._v.aval.shape:
            n *= d
        return n

    nelement = numel

    def element_size(self):
        """Bytes of one element."""
        return self._v.aval.dtype.itemsize

    @property
    def itemsize(self):
        return self._v.aval.dtype.itemsize

    @property
    def nbytes(self):
        """Bytes of all elements."""
        return self.numel() * self.element_size()

    # --- autograd fields

    @property
    def requires_grad(self):
        """Whether operations on it are recorded for backward."""
        if self._view is not None:
            self._read()
        return self._gn is not None

    @requires_grad.setter
    def requires_grad(self, value):
        if value:
            if self._gn is None:
                if self._v.aval.dtype.kind not in "fcV":
                    raise RuntimeError("only Tensors of floating point and complex dtype can require gradients, "
                                       f"got {self.dtype}")
                if modes.inference:
                    raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
                self._gn, self._oi = AccumulateGrad(self), 0
                self._grad = self.grad
        elif self._gn is not None:
            if type(self._gn) is not AccumulateGrad:
                raise RuntimeError("you can only change requires_grad flags of leaf variables. If you want to use a computed "
                                   "variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach().")
            self._gn = None

    def requires_grad_(self, requires_grad=True):
        """Set `requires_grad` in place; returns self."""
        self.requires_grad = requires_grad
        return self

    @property
    def is_leaf(self):
        """Whether it was made by the user rather than by a recorded op."""
        if self._view is not None:
            self._read()
        return self._gn is None or type(self._gn) is AccumulateGrad

    @property
    def grad_fn(self):
        """The tape node that made it; None for leaves."""
        if self._view is not None:
            self._read()
        g = self._gn
        return None if type(g) is AccumulateGrad else g

    @property
    def output_nr(self):
        return self._oi

    @property
    def grad(self):
        """The accumulated gradient, or None."""
        try:
            return self._grad
        except AttributeError:
            return None

    @grad.setter
    def grad(self, g):
        if g is not None:
            if not isinstance(g, Tensor):
                raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(g).__name__}")
            a, b = g._v.aval, self._v.aval
            if a.shape != b.shape:
                raise RuntimeError(f"assigned grad has data of a different size: {list(a.shape)} for a tensor of {list(b.shape)}")
            if a.dtype != b.dtype:
                raise RuntimeError(f"assigned grad has data of a different type: {a.dtype} for a tensor of {b.dtype}")
            if a.device is not b.device:
                raise RuntimeError(f"assigned grad has data located on a different device: {a.device} for a tensor on {b.device}")
            if g is self:
                raise RuntimeError("can't assign Variable as its own grad")
        self._grad = g

    @grad.deleter
    def grad(self):
        self._grad = None

    @property
    def _version(self):
        """How often it (or what it aliases) was written to."""
        return self._ver if self._view is None else self._view.storage.version

    def _bump_version(self, name="assign"):
        if self._view is None:
            self._ver += 1
        else:
            self._view.storage.version += 1

    @property
    def _base(self):
        """The tensor that a view aliases, else None."""
        w = self._view
        return None if w is None or not w.chain.steps else w.root

    def _is_view(self):
        return self._base is not None

    def detach(self):
        """The same storage outside the tape."""
        return as_view(wrap(self._value()), self, None, Detached)

    def detach_(self):
        """Take it off the tape in place; returns self."""
        if self._is_view():
            raise RuntimeError("Can't detach views in-place. Use detach() instead. (detach_ on a view of a tensor of "
                               f"{list(self._base.shape)})")
        self._gn = None
        return self

    @property
    def data(self):
        """The same storage outside the tape; writes through it are not seen by autograd."""
        return as_view(wrap(self._value()), self, None, DataView)

    @data.setter
    def data(self, other):
        if not isinstance(other, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(other).__name__}")
        value = other._value()
        _leave(self)
        self._v = value
        as_view(self, other, None, Detached)

    # --- identity and copying

    def __reduce_ex__(self, protocol):
        from lazy_tensor import creation
        return creation.rebuild, (type(self), np.array(self._host()), self.requires_grad and self.is_leaf, str(self.device),
                                  dict(self.__dict__))

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
                               "moment. If you were attempting to deepcopy a module, this may be because of a torch.nn.utils."
                               "weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001")
        import copy

        with no_tape():
            c = self.clone()
        r = _new(type(self))
        r._v, r._gn, r._oi, r._view, r._ver = c._v, None, 0, c._view, 0
        memo[id(self)] = r
        if self.requires_grad:
            r.requires_grad = True
        if self.grad is not None:
            r._grad = copy.deepcopy(self.grad, memo)
        if self.__dict__:
            r.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return r

    __hash__ = object.__hash__

    def __repr__(self, *, tensor_contents=None):
        from lazy_tensor import display
        return display.tensor(self)

    def __format__(self, spec):
        if self.dim() == 0:
            return self.item().__format__(spec)
        return object.__format__(self, spec) if spec else str(self)

    # --- to Python

    def item(self):
        """The one element as a Python number; RuntimeError when there are more."""
        a = self._host()
        if a.size != 1:
            raise RuntimeError(f"a Tensor with {a.size} elements cannot be converted to Scalar")
        return _python(a.reshape(-1)[0])

    def tolist(self):
        """Nested lists of Python numbers (a number for a 0-d tensor)."""
        a = self._host()
        if a.dtype.kind == "V" or a.dtype.name in ("bfloat16",) or a.dtype.name.startswith("float8"):
            a = a.astype(np.float32)
        return a.tolist()

    def numpy(self, *, force=False):
        """A NumPy array; a cpu tensor shares its memory."""
        if force:
            return self.detach().cpu().resolve_conj().numpy()
        if self._gn is not None:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        dev = self._v.aval.device
        if not dev.host:
            raise TypeError(f"can't convert {dev} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
                            "memory first.")
        v = self._value()
        a = transfer.to_host(v)
        if v.aval.dtype.name.startswith(("bfloat16", "float8")):
            raise TypeError(f"Got unsupported ScalarType {self.dtype.name.capitalize()}: NumPy has no such dtype; "
                            "use .float().numpy()")
        if self._view is not None:
            return np.array(a)
        if type(v.data) is not np.ndarray:
            v = self._v = Value(v.aval, np.array(a))
        elif v.guard is not _SHARED and not v.data.flags.writeable:
            v = self._v = Value(v.aval, v.data.copy())
        v.guard = _SHARED
        return v.data

    def __array__(self, dtype=None, copy=None):
        a = self.numpy()
        return a.astype(dtype) if dtype is not None and a.dtype != dtype else a.copy() if copy else a

    def __array_wrap__(self, array, context=None, return_scalar=False):
        from lazy_tensor import creation
        return creation.from_numpy(np.asarray(array))

    def __bool__(self):
        n = self.numel()
        if n == 1:
            return bool(self._host().reshape(-1)[0])
        if n == 0:
            raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")

    def __int__(self):
        return int(self.item())

    def __float__(self):
        return float(self.item())

    def __complex__(self):
        return complex(self.item())

    def __index__(self):
        x = self.item()
        if type(x) is not int and type(x) is not bool or self.numel() != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(x)

    def __len__(self):
        if self.dim() == 0:
            raise TypeError("len() of a 0-d tensor")
        return self._v.aval.shape[0]

    def __iter__(self):
        if self.dim() == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __contains__(self, element):
        if isinstance(element, (Tensor, int, float, complex, bool)):
            return bool((self == element).any())
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if self._gn is not None:
            raise RuntimeError("Can't export tensors that require gradient, use tensor.detach()")
        v = self._value()
        if v.data is None:
            sync(v.aval.device, "dlpack", v)
        return v.data.__dlpack__() if type(v.data) is not np.ndarray else v.data.copy().__dlpack__()

    def __dlpack_device__(self):
        v = self._value()
        if v.data is None:
            sync(v.aval.device, "dlpack", v)
        return v.data.__dlpack_device__()

    # --- backward and hooks

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        """Accumulate the gradients of this tensor (a scalar, or with `gradient`) into the leaves (torch.Tensor.backward)."""
        from lazy_tensor.autograd import backward
        backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def register_hook(self, hook):
        """hook(grad) when this tensor's gradient is known; may return another; returns a handle."""
        if self._gn is None:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self._view is not None:
            self._read()
        return self._gn._pre(self._oi, hook)

    def register_post_accumulate_grad_hook(self, hook):
        """hook(tensor) after `.grad` of this leaf was accumulated."""
        if type(self._gn) is not AccumulateGrad:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        return self._gn.register_hook(lambda *_: hook(self))

    def retain_grad(self):
        """Keep `.grad` of a non-leaf."""
        if self._gn is None:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if self.is_leaf or self.retains_grad:
            return
        if self._view is not None:
            self._read()
        ref = weakref.ref(self)

        def keep(g):
            t = ref()
            if t is not None:
                t._grad = g if t.grad is None else t.grad + g
        self._gn._pre(self._oi, keep)
        self.__dict__["_retains"] = True

    @property
    def retains_grad(self):
        """Whether `.grad` of this non-leaf is kept."""
        return self.__dict__.get("_retains", False)

    # --- layout flags

    is_sparse = is_quantized = is_mkldnn = is_nested = is_meta = is_cuda = is_sparse_csr = is_vulkan = is_mps = False
    names = property(lambda self: (None,) * self.dim())

    @property
    def is_cpu(self):
        """Whether it lives in host memory."""
        return self._v.aval.device.host

    @property
    def is_xla(self):
        """Whether it lives on an XLA device."""
        return not self._v.aval.device.host

    @property
    def layout(self):
        from lazy_tensor import layouts
        return layouts.strided

    def is_inference(self):
        """Whether it was made in inference mode."""
        return self.__dict__.get("_inference", False)


def _calibrate():
    """References that are seen, on this interpreter, to a root that one alias holds and to a storage that its root holds."""
    t = _new(Tensor)
    w = t._view = _new(View)
    w.root = _new(Tensor)
    root = _refs_of_root(w)
    t._view = Storage(0)
    w = t._view  # as the caller of `_alone` holds it
    return root, (lambda t, w: _refs_of_storage(t))(t, w)


_ROOT_REFS, _STORAGE_REFS = _calibrate()


def _python(x):
    """A NumPy scalar as a Python number."""
    if hasattr(x, "item"):
        x2 = x.item()
        if isinstance(x2, (bool, int, float, complex)):
            return x2
    return float(x)


def _aval_like(value, dtype=None):
    a = value.aval
    return aval(a.shape, dtype or a.dtype, a.device)

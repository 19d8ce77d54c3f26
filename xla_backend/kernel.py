"""Op configurations and their gradients: a jax function for fixed input avals, traced once.

`Kernel` is device-independent: the traced function, its output avals and its vjp plans. `Config` is a kernel
on one device: what a node names.
"""
from __future__ import annotations

import itertools
from operator import itemgetter

import jax

from xla_backend import metrics
from xla_backend._jax import ClosedJaxpr, Literal, dce_jaxpr, jaxpr_as_fun, sub_jaxpr, x64
from xla_backend.graph import aval

# Primitives whose results backward keeps rather than recomputes: loops, contractions, factorizations, random bits.
HEAVY = frozenset("""
    dot_general ragged_dot conv_general_dilated while scan cond sort top_k approx_top_k cumsum cumprod cummax cummin
    cumlogsumexp fft reduce_window reduce_window_sum reduce_window_max reduce_window_min select_and_scatter_add
    select_and_gather_add cholesky qr geqrf householder_product lu lu_pivots_to_permutation svd eigh eig schur
    triangular_solve tridiagonal_solve hessenberg tridiagonal random_bits threefry2x32 random_seed random_fold_in
    random_wrap random_unwrap shuffle random_gamma igamma custom_linear_solve custom_vjp_call pallas_call ffi_call
""".split())

_ids = itertools.count()


def _struct(a):
    return jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak)


class Kernel:
    """A jax function of fixed input avals (device left out): name, jaxpr, output avals, vjp plans."""

    __slots__ = ("name", "ins", "outs", "jaxpr", "call", "plans", "configs", "residuals", "differentiable", "chain",
                 "axes", "digest")

    def __init__(self, name, fn, ins, residuals="auto", differentiable=True, axes=None):
        """Trace fn (arrays -> tuple of arrays) at `ins` (a tuple of avals without device).

        axes: ((name, size), ...) of the collectives in it (xla_backend.replicas)."""
        with metrics.timer("trace"), x64(True):
            jaxpr = jax.make_jaxpr(fn, axis_env=axes)(*map(_struct, ins))
        metrics.counters["traces"] += 1
        self._init(name, jaxpr, ins, residuals, differentiable, axes)

    @classmethod
    def of_jaxpr(cls, name, jaxpr, ins, axes=None):
        """A kernel from a closed jaxpr."""
        self = cls.__new__(cls)
        self._init(name, jaxpr, ins, "auto", True, axes)
        return self

    def _init(self, name, jaxpr, ins, residuals, differentiable, axes):
        self.name, self.ins, self.jaxpr, self.axes, self.digest = name, ins, jaxpr, axes, None
        self.outs = tuple(aval(o.shape, o.dtype) for o in jaxpr.out_avals)
        fn = jaxpr_as_fun(jaxpr)
        fn = _named(fn, name)
        # Small bodies are inlined into the program; others are one private function that the lowering shares.
        self.call = jax.jit(fn, inline=len(jaxpr.eqns) <= 3)
        self.plans, self.configs = {}, {}
        self.residuals, self.differentiable = residuals, differentiable
        self.chain = 0 if _has_heavy(jaxpr.jaxpr) else max(len(jaxpr.eqns), 1)  # what it adds to a fusible chain

    def flows(self, i) -> bool:
        """Whether gradients flow from output i."""
        return self.outs[i].dtype.kind in "fcV" and (self.differentiable is True or
                                                     (self.differentiable is not False and i in self.differentiable))

    def on(self, dev) -> Config:
        """The configuration on a device."""
        found = self.configs.get(dev)
        if found is None:
            found = self.configs[dev] = Config(self, dev)
        return found

    def plan(self, mask, cts=None) -> Plan:
        """How backward goes: `mask` the inputs (a tuple of positions) that need gradients, `cts` the outputs
        (positions; all inexact ones when None) whose cotangents are given."""
        key = (mask, cts)
        found = self.plans.get(key)
        if found is None:
            if cts is None:
                cts = tuple(i for i in range(len(self.outs)) if self.flows(i))
            with metrics.timer("trace"), x64(True):
                found = Plan(self, mask, cts)
            metrics.counters["traces"] += 1
            self.plans[key] = found
        return found


def _named(fn, name):
    def call(*args):
        return fn(*args)
    call.__name__ = call.__qualname__ = name
    return call


class Config:
    """A kernel on one device. `push` appends to that device's pending list; `out` is the first output's aval."""

    __slots__ = ("id", "kernel", "name", "outs", "out", "single", "device", "push", "pending", "host", "grads", "step")

    def __init__(self, kernel, dev):
        self.id = next(_ids)
        self.kernel, self.name, self.device = kernel, kernel.name, dev
        self.outs = tuple(aval(o.shape, o.dtype, dev) for o in kernel.outs)
        self.out = self.outs[0] if self.outs else None
        self.single = len(self.outs) == 1
        self.pending = dev.graph.pending
        self.push = self.pending.append
        self.host = True if dev.host else None  # on the host device: True, or the front end's NumPy rule
        self.grads = {}       # mask -> what the tape keeps, set by the front end
        self.step = None      # of a view: how to read it again, set by the front end


def _conj(x):
    return jax.numpy.conj(x) if jax.numpy.iscomplexobj(x) else x


class Plan:
    """The backward of a kernel for one set of inputs and cotangents.

    mode "recompute": `bwd` takes the inputs `saved_ins`, the outputs `saved_outs` and the cotangents.
    mode "save": forward runs as `fwd` (the outputs, then the residuals); `bwd` takes `saved_ins`, `saved_outs`,
    the residuals and the cotangents.
    Either way `bwd` returns one gradient for each position of `mask`.

    Gradients of complex functions follow PyTorch's convention (conjugate of jax's).
    """

    __slots__ = ("kernel", "mask", "cts", "mode", "saved_ins", "saved_outs", "n_res", "fwd", "bwd", "pick", "all_ins")

    def __init__(self, kernel, mask, cts, allow_save=True):
        self.kernel, self.mask, self.cts = kernel, mask, cts
        fn, ins, n_out = jaxpr_as_fun(kernel.jaxpr), kernel.ins, len(kernel.outs)
        tree = None

        def forward(*args):
            nonlocal tree

            def of_diff(*diff):
                full = list(args)
                for i, d in zip(mask, diff, strict=True):
                    full[i] = d
                outs = fn(*full)
                return tuple(outs[j] for j in cts), outs

            _, vjp, outs = jax.vjp(of_diff, *(args[i] for i in mask), has_aux=True)
            leaves, tree = jax.tree_util.tree_flatten(vjp)
            return (*outs, *leaves)

        traced = jax.make_jaxpr(forward, axis_env=kernel.axes)(*map(_struct, ins))
        jaxpr, consts = traced.jaxpr, traced.consts
        in_index = {v: i for i, v in enumerate(jaxpr.invars)}
        # Double backward starts again from the inputs (allow_save=False): outputs are then recomputed too.
        out_index = {v: i for i, v in enumerate(jaxpr.outvars[:n_out]) if allow_save and not isinstance(v, Literal)}
        where = []           # for each residual leaf: ("in", i) | ("out", i) | ("const", x) | ("mid", k)
        mids = []
        const_of = dict(zip(jaxpr.constvars, consts, strict=True))
        for v in jaxpr.outvars[n_out:]:
            if isinstance(v, Literal):
                where.append(("const", v.val))
            elif v in in_index:
                where.append(("in", in_index[v]))
            elif v in const_of:
                where.append(("const", const_of[v]))
            elif v in out_index:
                where.append(("out", out_index[v]))
            else:
                if v not in mids:
                    mids.append(v)
                where.append(("mid", mids.index(v)))

        # What recomputes the mids, from inputs and outputs alone.
        recipe, reads = _slice(jaxpr, mids, {*jaxpr.invars, *jaxpr.constvars, *out_index})
        if not mids:
            self.mode = "recompute"
        elif kernel.residuals != "auto" and allow_save:
            self.mode = kernel.residuals
        else:
            heavy = allow_save and _has_heavy_eqns(recipe)
            self.mode = "save" if heavy else "recompute"
        res_avals = [v.aval for v in mids]
        ct_avals = [kernel.outs[j] for j in cts]

        def make(in_ids, out_ids, with_res):
            def backward(*args):
                got_in = dict(zip(in_ids, args, strict=False))
                rest = args[len(in_ids):]
                got_out = dict(zip(out_ids, rest, strict=False))
                rest = rest[len(out_ids):]
                if with_res:
                    res, ct = rest[:len(mids)], rest[len(mids):]
                else:
                    ct = rest
                    res = ()
                    if mids:
                        again = sub_jaxpr(jaxpr, consts, recipe, [*(jaxpr.invars[i] for i in got_in),
                                                                  *(jaxpr.outvars[i] for i in got_out)], mids)
                        res = jaxpr_as_fun(again)(*got_in.values(), *got_out.values())
                leaves = []
                for kind, x in where:
                    leaves.append(got_in[x] if kind == "in" else got_out[x] if kind == "out"
                                  else x if kind == "const" else res[x])
                grads = jax.tree_util.tree_unflatten(tree, leaves)(tuple(map(_conj, ct)))
                return tuple(map(_conj, grads))
            return backward

        in_ids = {x for kind, x in where if kind == "in"}
        out_ids = {x for kind, x in where if kind == "out"}
        if self.mode == "recompute":
            in_ids |= {in_index[v] for v in reads if v in in_index}
            out_ids |= {out_index[v] for v in reads if v in out_index and v not in in_index}
        in_ids, out_ids = sorted(in_ids), sorted(out_ids)
        with_res = self.mode == "save"
        args = [*(ins[i] for i in in_ids), *(kernel.outs[i] for i in out_ids), *(res_avals if with_res else ()), *ct_avals]
        bwd = jax.make_jaxpr(make(in_ids, out_ids, with_res), axis_env=kernel.axes)(*map(_as_struct, args))
        dce, used = dce_jaxpr(bwd.jaxpr, [True] * len(bwd.jaxpr.outvars),
                              instantiate=[False] * (len(args) - len(ct_avals)) + [True] * len(ct_avals))
        n_in, n_o = len(in_ids), len(out_ids)
        self.saved_ins = tuple(i for i, u in zip(in_ids, used, strict=False) if u)
        self.saved_outs = tuple(i for i, u in zip(out_ids, used[n_in:], strict=False) if u)
        used_res = [k for k in range(len(mids)) if used[n_in + n_o + k]] if with_res else []
        self.n_res = len(used_res)
        bins = tuple(aval(a.shape, a.dtype, None, getattr(a, "weak", False)) for a, u in zip(args, used, strict=True) if u)
        self.bwd = Kernel.of_jaxpr(kernel.name + "_backward", ClosedJaxpr(dce, bwd.consts), bins, kernel.axes)
        self.fwd = kernel
        if used_res:
            keep = [True] * n_out + [False] * (len(jaxpr.outvars) - n_out)
            first = {v: k for k, v in reversed(list(enumerate(jaxpr.outvars))) if k >= n_out and not isinstance(v, Literal)}
            cols = [first[mids[k]] for k in used_res]
            for c in cols:
                keep[c] = True
            picked, _ = dce_jaxpr(jaxpr, keep, instantiate=True)
            perm = [n_out + sorted(cols).index(c) for c in cols]
            closed = ClosedJaxpr(picked, consts)

            def run(*a):
                o = jaxpr_as_fun(closed)(*a)
                return (*o[:n_out], *(o[p] for p in perm))
            self.fwd = Kernel.of_jaxpr(kernel.name, jax.make_jaxpr(run, axis_env=kernel.axes)(*map(_struct, ins)), ins, kernel.axes)
        elif with_res:
            self.mode = "recompute"
        idx = (*self.saved_ins, *(len(ins) + o for o in self.saved_outs),
               *(len(ins) + n_out + k for k in range(self.n_res)))
        self.pick = _picker(idx)
        self.all_ins = self.mode == "save"

    def without_saving(self) -> Plan:
        """The same gradient from inputs alone: what double backward differentiates."""
        key = (self.mask, self.cts, "recompute")
        found = self.kernel.plans.get(key)
        if found is None:
            with x64(True):
                found = self.kernel.plans[key] = Plan(self.kernel, self.mask, self.cts, allow_save=False)
        return found


def _as_struct(a):
    return jax.ShapeDtypeStruct(a.shape, a.dtype, weak_type=getattr(a, "weak", getattr(a, "weak_type", False)))


def _picker(idx):
    """A C-speed function from a tuple of values to the tuple of those at idx."""
    if not idx:
        return lambda values: ()
    if len(idx) == 1:
        only, = idx
        return lambda values: (values[only],)
    return itemgetter(*idx)


def _slice(jaxpr, targets, available):
    """(the equations that make targets from available variables, in order; the available variables they read)."""
    need, eqns, reads = set(targets) - available, [], set()
    for eqn in reversed(jaxpr.eqns):
        if any(v in need for v in eqn.outvars):
            eqns.append(eqn)
            for v in eqn.invars:
                if not isinstance(v, Literal):
                    (reads if v in available else need).add(v)
    return eqns[::-1], reads


def _has_heavy(jaxpr) -> bool:
    return _has_heavy_eqns(jaxpr.eqns)


def _has_heavy_eqns(eqns) -> bool:
    for eqn in eqns:
        if eqn.primitive.name in HEAVY:
            return True
        for p in jax.tree_util.tree_leaves(list(eqn.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
            if hasattr(p, "eqns") and _has_heavy(getattr(p, "jaxpr", p)):
                return True
    return False

"""Gradients written in Python (`autograd.Function`) inside recorded functions: tied to the forward as jax derivative rules."""
from __future__ import annotations

import jax
import jax.numpy as jnp

from lazy_tensor.func._record import recorded
from lazy_tensor.modes import modes, no_grad, recording
from lazy_tensor.tensor import emit, emit_many
from xla_backend.kernel import Kernel

_kernels: dict[tuple, Kernel] = {}


def link(ctx, inputs, outs, flowing):
    """Values equal to `outs` (tensors computed by ctx's forward off the tape) whose derivative by `inputs` is what ctx says.

    Forward mode is the user's `jvp` where there is one, else the transpose of the user's `backward`, which is linear in the
    cotangents; reverse mode is its transpose again."""
    device = outs[0]._v.aval.device
    cls = ctx.cls
    own_jvp = getattr(cls, "jvp", None) is not None and "jvp" in {k for c in cls.__mro__[:-1] for k in c.__dict__ if c.__name__ != "Function"}
    before = modes.capture
    if own_jvp:
        def rule(*tangents):
            full = [None] * ctx.n_args
            for i, t in zip(ctx.positions, tangents, strict=True):
                full[i] = t
            got = cls.jvp(ctx, *full)
            got = got if isinstance(got, tuple) else (got,)
            return tuple(got[k] for k in flowing)
        avals = [t._value().aval for t in inputs]
    else:
        def rule(*cotangents):
            full = [None] * ctx.n
            for k, c in zip(flowing, cotangents, strict=True):
                full[k] = c
            import lazy_tensor as lt
            grads = ctx.apply_retain(full, True)
            return tuple(lt.zeros_like(t) if g is None else g for g, t in zip(grads, inputs, strict=True))
        avals = [o._value().aval for o in outs]
    with recording():
        r = recorded(cls.__name__, rule, avals, device, draws=None)
    free_avals, scalar_avals = r.sub.free_avals()
    in_avals = tuple([t._value().aval.core for t in inputs])
    out_avals = tuple([o._value().aval.core for o in outs])
    same = tuple([next((k for k, o in enumerate(outs) if o._v is v), None) for v in r.sub.frees])  # saved outputs
    key = (own_jvp, same, in_avals, out_avals, free_avals, r.sub.key)
    kernel = _kernels.get(key)
    if kernel is None:
        kernel = _kernels[key] = _kernel(cls.__name__, r.sub.function(), own_jvp, same, in_avals, out_avals, free_avals, scalar_avals)
    ins = (*[t._value() for t in inputs], *[o._value() for o in outs], *r.sub.frees, *r.sub.scalars)
    config = kernel.on(device)
    with no_grad():
        made = emit(config, ins) if config.single else emit_many(config, ins)
    made = made if isinstance(made, list) else [made]
    mask = 0
    for i, t in enumerate(inputs):
        mask |= 1 << i
        before.edges[id(t._v)] = t._v, t._gn, t._oi
    for j, (v, (gn, oi)) in enumerate(zip(r.sub.frees, r.edges, strict=True)):  # for derivatives of the rule itself
        if gn is not None:
            mask |= 1 << (len(inputs) + len(outs) + j)
            before.edges[id(v)] = v, gn, oi
    before.masks[id(made[0]._v)] = mask
    return [t._v for t in made]


def _kernel(name, f, own_jvp, same, in_avals, out_avals, free_avals, scalar_avals):
    n, m, p = len(in_avals), len(out_avals), len(free_avals)

    def derivative(xs, frees, scalars, tangents):
        if own_jvp:
            return f(tangents, frees, scalars)
        structs = tuple([jax.ShapeDtypeStruct(a.shape, a.dtype) for a in out_avals])
        conj = [jnp.conj(t) if jnp.iscomplexobj(t) else t for t in tangents]  # gradients are conjugates of jax's cotangents
        back = jax.linear_transpose(lambda *cts: tuple(f(cts, frees, scalars)), *structs)(tuple(conj))
        return tuple(jnp.conj(t) if jnp.iscomplexobj(t) else t for t in back)

    @jax.custom_jvp
    def tied(xs, frees, scalars, ys):
        return tuple(ys)

    @tied.defjvp
    def tied_jvp(primals, tangents):
        xs, frees, scalars, ys = primals
        if any(k is not None for k in same):  # derivatives of the rule see the outputs as functions of the inputs
            again = tied(xs, frees, scalars, ys)
            frees = tuple(v if k is None else again[k] for v, k in zip(frees, same, strict=True))
        return tuple(ys), tuple(derivative(xs, frees, scalars, tangents[0]))

    def flat(*arrays):
        return tied(arrays[:n], arrays[n + m:n + m + p], arrays[n + m + p:], arrays[n:n + m])
    return Kernel(name, flat, (*in_avals, *out_avals, *free_avals, *scalar_avals))

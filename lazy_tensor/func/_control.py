"""Control flow on the device: cond, while_loop, scan, associative_scan, map, scan_layers.

The functions are recorded and become the bodies of jax.lax's; they may close over tensors and modules. All compose with
the tape and with every transform (while_loop in forward mode only).
"""
from __future__ import annotations

import jax
import jax.numpy as jnp

from lazy_tensor.func._record import apply, device_of, recorded
from lazy_tensor.modes import modes
from lazy_tensor.tensor import Tensor
from lazy_tensor.utils._pytree import tree_flatten, tree_unflatten
from xla_backend.graph import aval
from xla_backend.random import Draw


def _flow():
    """Derivatives are recorded in bodies when grad mode is on (what they close over may need them)."""
    return bool(modes.grad)


def _tensors(what, tree):
    leaves, spec = tree_flatten(tree)
    for x in leaves:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"{what}: expected operands to be Tensors in nested containers, got {type(x)}; a number fits as a 0-d tensor")
    return leaves, spec


def _same(what, a, b, said):
    """Two recordings must return the same structure, shapes and dtypes."""
    if a.spec != b.spec:
        raise RuntimeError(f"{what}: {said} must return the same structure, got {a.spec} and {b.spec}")
    if a.sub.out_avals != b.sub.out_avals:
        k = next(i for i, (x, y) in enumerate(zip(a.sub.out_avals, b.sub.out_avals, strict=True)) if x is not y)
        raise RuntimeError(f"{what}: {said} must return tensors of the same shapes and dtypes; output {k} is {a.sub.out_avals[k]} and "
                           f"{b.sub.out_avals[k]}")


def cond(pred, true_fn, false_fn, operands=()):
    """true_fn(*operands) where pred (a bool, or a tensor of one bool element) holds, else false_fn(*operands), decided on the device
    (torch.cond).

    Both must return tensors of the same structure, shapes and dtypes (RuntimeError otherwise); only the chosen one runs.

    Example::

        lt.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
    """
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"cond: expected operands to be a tuple of tensors, got {type(operands)}")
    if isinstance(pred, bool):
        return (true_fn if pred else false_fn)(*operands)
    if not isinstance(pred, Tensor) or pred.numel() != 1:
        raise RuntimeError(f"cond: expected pred to be bool or a tensor with one element, got {pred!r}")
    leaves, spec = _tensors("cond", tuple(operands))
    device = device_of("cond", [pred, *leaves])
    avals = [t._value().aval for t in leaves]
    a, b = (recorded("cond", lambda *h, fn=fn: fn(*tree_unflatten(list(h), spec)), avals, device, flowing=_flow(), whole=True)
            for fn in (true_fn, false_fn))
    _same("cond", a, b, "true_fn and false_fn")

    def transform(f, g):
        def run(args, frees, scalars):
            p, *xs = args
            return jax.lax.cond(p.reshape(()).astype(bool), lambda x: f(x, frees[0], scalars[0]), lambda x: g(x, frees[1], scalars[1]), tuple(xs))
        return run
    return tree_unflatten(apply("cond", [a, b], transform, None, [pred, *leaves]), a.spec)


def while_loop(cond_fn, body_fn, carried_inputs):
    """body_fn over and over while cond_fn holds, on the device, however often that is (torch's while_loop).

    Both take the carried tensors; cond_fn returns one bool element, body_fn tensors of the same structure, shapes and dtypes.
    Returns the last ones. Differentiable in forward mode only (jax.lax.while_loop); backward raises RuntimeError."""
    leaves, spec = _tensors("while_loop", tuple(carried_inputs))
    device = device_of("while_loop", leaves)
    avals = [t._value().aval for t in leaves]
    c = recorded("while_loop", lambda *h: cond_fn(*tree_unflatten(list(h), spec)), avals, device, flowing=False, whole=True)
    b = recorded("while_loop", lambda *h: _tuple(body_fn(*tree_unflatten(list(h), spec))), avals, device, flowing=_flow(), whole=True,
                 draws=1 << 20)
    if len(c.sub.out_avals) != 1 or c.sub.out_avals[0].shape not in ((), (1,)):
        raise RuntimeError(f"while_loop: expected cond_fn to return one bool element, got {', '.join(map(str, c.sub.out_avals))}")
    _carry("while_loop", "body_fn", avals, spec, b)
    moving = tuple([(k, s.stride) for k, s in enumerate(b.sub.scalars) if type(s) is Draw])

    def transform(f, g):
        def run(args, frees, scalars):
            def body(state):
                i, xs = state
                each = list(scalars[1])
                for k, stride in moving:
                    each[k] = each[k] + stride * i
                return i + 1, tuple(g(xs, frees[1], tuple(each)))
            return jax.lax.while_loop(lambda s: f(s[1], frees[0], scalars[0])[0].reshape(()).astype(bool), body,
                                      (jnp.zeros((), jnp.int64), tuple(args)))[1]
        return run
    outs = apply("while_loop", [c, b], transform, moving, leaves, reverse=False)
    return tree_unflatten(outs, spec)


def _tuple(x):
    return x if isinstance(x, tuple) else tuple(x) if isinstance(x, list) else (x,)


def _carry(what, name, avals, spec, r):
    if r.spec != spec or list(r.sub.out_avals) != list(avals):
        raise RuntimeError(f"{what}: {name} must return the carried tensors' structure, shapes and dtypes, {[str(a) for a in avals]}, got "
                           f"{[str(a) for a in r.sub.out_avals]}")


def _slices(what, xs, dim):
    """(leaves with the scanned dimension first, spec, length, avals of one slice)."""
    leaves, spec = _tensors(what, xs)
    if not leaves:
        raise RuntimeError(f"{what}: expected at least one tensor to scan over")
    lengths = set()
    for t in leaves:
        if not -t.dim() <= dim < t.dim():
            raise IndexError(f"{what}: Dimension out of range (expected to be in range of [{-t.dim()}, {t.dim() - 1}], but got {dim})")
        lengths.add(t.shape[dim])
    if len(lengths) > 1:
        raise RuntimeError(f"{what}: all tensors must have the same length along dim {dim}, got {sorted(lengths)}")
    moved = [t.movedim(dim, 0) if dim % t.dim() else t for t in leaves]
    avals = [aval(t._v.aval.shape[1:], t._v.aval.dtype, t._v.aval.device) for t in moved]
    return moved, spec, lengths.pop(), avals


def scan(combine_fn, init, xs, *, dim=0, reverse=False, checkpoint=False):
    """(last carry, stacked outputs) of combine_fn(carry, x) -> (carry, y) over the slices of xs along dim (torch's scan).

    init and xs: tensors in nested containers; the carry keeps its structure, shapes and dtypes (RuntimeError otherwise). One
    program whatever the length, differentiable in both modes. checkpoint: keep only the carries for backward and compute
    each step again (jax.checkpoint). Random operations draw anew in each step."""
    carry, c_spec = _tensors("scan", init)
    moved, x_spec, length, x_avals = _slices("scan", xs, dim)
    device = device_of("scan", [*carry, *moved])
    c_avals = [t._value().aval for t in carry]
    n = len(carry)
    spec_box = []

    def body(*h):
        out = combine_fn(tree_unflatten(list(h[:n]), c_spec), tree_unflatten(list(h[n:]), x_spec))
        if not (isinstance(out, (tuple, list)) and len(out) == 2):
            raise RuntimeError(f"scan: combine_fn must return (carry, output), got {type(out).__name__}")
        c, cs = tree_flatten(out[0])
        y, ys = tree_flatten(out[1])
        if cs != c_spec:
            raise RuntimeError(f"scan: combine_fn must return the carry's structure {c_spec}, got {cs}")
        spec_box.append(ys)
        return [*c, *y]
    r = recorded("scan", body, [*c_avals, *x_avals], device, flowing=_flow(), whole=True, draws=max(length, 1))
    if list(r.sub.out_avals[:n]) != c_avals:
        raise RuntimeError(f"scan: combine_fn must return a carry of the same shapes and dtypes, {[str(a) for a in c_avals]}, got "
                           f"{[str(a) for a in r.sub.out_avals[:n]]}")
    moving = tuple([(k, s.stride) for k, s in enumerate(r.sub.scalars) if type(s) is Draw])

    def transform(f):
        def run(args, frees, scalars):
            each = tuple(scalars[k] + stride * jnp.arange(length) for k, stride in moving)

            def step(c, x):
                sc = list(scalars)
                for (k, _), v in zip(moving, x[1], strict=True):
                    sc[k] = v
                out = f((*c, *x[0]), frees, tuple(sc))
                return tuple(out[:n]), tuple(out[n:])
            last, ys = jax.lax.scan(jax.checkpoint(step) if checkpoint else step, tuple(args[:n]), (tuple(args[n:]), each), length=length,
                                    reverse=reverse)
            return (*last, *ys)
        return run
    outs = apply("scan", r, transform, (n, length, reverse, checkpoint, moving), [*carry, *moved])
    ys = [y.movedim(0, dim) if dim % y.dim() else y for y in outs[n:]]
    return tree_unflatten(outs[:n], c_spec), tree_unflatten(ys, spec_box[0])


def associative_scan(combine_fn, xs, dim=0, reverse=False, combine_mode="generic"):
    """Running results of an associative combine_fn(a, b) along dim, in logarithmic depth (torch's associative_scan).

    combine_fn takes and returns tensors in xs's structure, for one position (combine_mode "pointwise" and "generic" are the
    same here). Returns xs's structure and shapes."""
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    moved, spec, length, avals = _slices("associative_scan", xs, dim)
    device = device_of("associative_scan", moved)
    n = len(moved)
    r = recorded("associative_scan", lambda *h: combine_fn(tree_unflatten(list(h[:n]), spec), tree_unflatten(list(h[n:]), spec)),
                 [*avals, *avals], device, flowing=_flow(), whole=True)
    _carry("associative_scan", "combine_fn", avals, spec, r)

    def transform(f):
        def run(args, frees, scalars):
            def combine(a, b):
                return jax.vmap(lambda x, y: f((*x, *y), frees, scalars))(tuple(a), tuple(b))
            return jax.lax.associative_scan(combine, tuple(args), reverse=reverse)
        return run
    outs = apply("associative_scan", r, transform, (n, reverse), moved)
    return tree_unflatten([y.movedim(0, dim) if dim % y.dim() else y for y in outs], spec)


def map(f, xs, *args):
    """f(x, *args) for the slices of xs along dimension 0, one after the other in one program, results stacked (torch's map)."""
    return scan(lambda _, x: ((), f(x, *args)), (), xs)[1]


def scan_layers(layers, x, *args, checkpoint=False):
    """x through modules of one architecture, one after the other, as a scan over their stacked parameters: compile time does not
    grow with depth.

    layers: modules (a ModuleList) whose parameters and buffers have the same names, shapes and dtypes (RuntimeError otherwise),
    and whose output has x's shape and dtype; args go to each unchanged. Gradients reach each layer's own parameters. Layers
    that write buffers (running statistics in training) are refused. checkpoint: compute each layer again in backward."""
    import lazy_tensor as lt
    from lazy_tensor.nn.utils.stateless import functional_call
    layers = list(layers)
    if not layers:
        return x
    tables = [{**dict(m.named_parameters()), **dict(m.named_buffers())} for m in layers]
    first = tables[0]
    for k, (m, table) in enumerate(zip(layers, tables, strict=True)):
        if type(m) is not type(layers[0]) or m.training != layers[0].training or list(table) != list(first) or any(
                table[q]._v.aval is not first[q]._v.aval for q in first):
            raise RuntimeError(f"scan_layers: layer {k} differs from layer 0 in class, mode, or its parameters' names, shapes or dtypes")
    stacked = {q: lt.stack([table[q] for table in tables]) for q in first}
    return scan(lambda c, p: (functional_call(layers[0], p, (c, *args)), ()), x, stacked, checkpoint=checkpoint)[0] if stacked else \
        _repeat(layers, x, args)


def _repeat(layers, x, args):
    for m in layers:
        x = m(x, *args)
    return x

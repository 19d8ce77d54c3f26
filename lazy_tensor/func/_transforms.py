"""Derivatives of functions: grad, vjp, jvp, jacrev, jacfwd, hessian, linearize (torch.func).

Reverse mode runs the function on the tape with its arguments at a place of their own (a `Level`), so that levels nest and
what the function closes over keeps its gradients. Forward mode records the function and takes jax's jvp of it.
"""
from __future__ import annotations

import functools

import jax
import numpy as np

from lazy_tensor import autograd
from lazy_tensor.autograd.engine import full
from lazy_tensor.func._record import Level, apply, device_of, leads_out, recorded, with_aux
from lazy_tensor.func._vmap import vmap
from lazy_tensor.modes import modes, no_grad, recording
from lazy_tensor.tensor import Tensor, as_view, wrap
from lazy_tensor.utils._pytree import tree_flatten, tree_map, tree_unflatten


def _entered(t):
    """t's value at a new place on the tape that leads back to t's own."""
    v = t._value()
    r = as_view(wrap(v), t, None) if v.aval.dtype.kind not in "fcV" else wrap(v)
    if v.aval.dtype.kind in "fcV":
        r._gn = Level((t._gn, t._oi) if t._gn is not None else ())
    return r


def _outer(tensors, own):
    """Whether tensors depend on something that requires grad besides the arguments `own` of this level."""
    return leads_out([t._gn for t in tensors if t._gn is not None], {id(t._gn) for t in own})


def _close(inner):
    for t in inner:
        if type(t._gn) is Level:
            t._gn.open = False


def _left(tree, own, outer=True):
    """Results as they are seen outside: off the tape when nothing out there requires grad."""
    def leave(x):
        if isinstance(x, Tensor) and x._gn is not None and not (outer and modes.grad and _outer([x], own)):
            return x.detach()
        return x
    return tree_map(leave, tree)


def _split(name, args, argnums):
    """(the differentiated arguments, a function that puts others in their place)."""
    if isinstance(argnums, bool) or not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"{name}: argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    nums = argnums if isinstance(argnums, tuple) else (argnums,)
    if not nums:
        raise RuntimeError(f"{name}: argnums must be non-empty")
    for n in nums:
        if not isinstance(n, int):
            raise RuntimeError(f"{name}: argnums must be int or Tuple[int, ...], got an element of {type(n)}")
        if not -len(args) <= n < len(args):
            raise RuntimeError(f"{name}: got argnum={n}, but only {len(args)} positional inputs")
    nums = tuple(n % len(args) for n in nums)
    if len(set(nums)) != len(nums):
        raise RuntimeError(f"{name}: argnums elements must be unique, got {argnums}")
    chosen = tuple(args[n] for n in nums)

    def put(new):
        out = list(args)
        for n, x in zip(nums, new if isinstance(argnums, tuple) else (new,), strict=True):
            out[n] = x
        return tuple(out)
    return chosen if isinstance(argnums, tuple) else chosen[0], put


def _tensors(name, tree):
    leaves, spec = tree_flatten(tree)
    for x in leaves:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"{name}: expected the differentiated inputs to be Tensors, got {type(x)}")
        if x.dtype.np.kind not in "fcV" and name in ("grad", "vjp"):
            raise RuntimeError(f"{name}: only Tensors of floating point and complex dtype can require gradients, got {x.dtype}")
    if not leaves:
        raise RuntimeError(f"{name}: expected at least one Tensor to differentiate by, got an empty container")
    return leaves, spec


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that returns (gradients, value), or (gradients, (value, aux)) with has_aux (torch.func.grad_and_value)."""
    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        chosen, put = _split("grad", args, argnums)
        leaves, spec = _tensors("grad", chosen)
        with recording():
            inner = [_entered(t) for t in leaves]
            out = func(*put(tree_unflatten(inner, spec)), **kwargs)
            aux = None
            if has_aux:
                if not (isinstance(out, tuple) and len(out) == 2):
                    raise RuntimeError("grad_and_value(f)(*args): output of function f should be a tuple: (output, aux) if has_aux is True")
                out, aux = out
            if not isinstance(out, Tensor):
                raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return tensor, got type {type(out)}")
            if out.dim() != 0:
                raise RuntimeError("grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got tensor with "
                                   f"{out.dim()} dims. Did you mean to use the vjp API instead?")
        outer = _outer([out], inner)
        _close(inner)
        grads = _pull([out], inner, None, outer and modes.grad, False)
        result = tree_unflatten(_left(grads, inner, outer), spec)
        value = _left(out, inner, outer)
        return (result, (value, _left(aux, inner))) if has_aux else (result, value)
    return wrapped


def _pull(outs, inputs, cts, create_graph, retain):
    """Gradients of outs by inputs, zeros where there is no way."""
    live = [(o, None if cts is None else c) for o, c in zip(outs, cts or outs, strict=True) if o._gn is not None]
    flowing = [t for t in inputs if t._gn is not None]
    got: dict = {}
    if live and flowing:
        with recording() if create_graph else no_grad():
            gs = autograd.grad([o for o, _ in live], flowing, None if cts is None else [c for _, c in live], retain or create_graph,
                               create_graph, allow_unused=True)
        got = {id(t): g for t, g in zip(flowing, gs, strict=True)}
    return [full(t._v.aval, 0.0 if t._v.aval.dtype.kind in "fcV" else 0) if (g := got.get(id(t))) is None else g for t in inputs]


def grad(func, argnums=0, has_aux=False):
    """A function that returns the gradient of func's scalar result by the arguments argnums (torch.func.grad).

    With has_aux func returns (result, aux), and (gradient, aux) comes back. Composes with itself and every transform.

    Example::

        second = lt.func.grad(lt.func.grad(lt.sin))     # -sin
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads
    return wrapped


def vjp(func, *primals, has_aux=False):
    """(func(*primals), f) with f(cotangents) the vector-Jacobian product (torch.func.vjp); (result, f, aux) with has_aux.

    f takes cotangents in the result's structure and returns a tuple of gradients, one a primal; it may be called many times,
    and under vmap."""
    leaves, spec = _tensors("vjp", primals)
    with recording():
        inner = [_entered(t) for t in leaves]
        out = func(*tree_unflatten(inner, spec))
        aux = None
        if has_aux:
            if not (isinstance(out, tuple) and len(out) == 2):
                raise RuntimeError("vjp(f, *primals): output of function f should be a tuple: (output, aux) if has_aux is True")
            out, aux = out
    outs, out_spec = tree_flatten(out)
    for o in outs:
        if not isinstance(o, Tensor):
            raise RuntimeError(f"vjp(f, *primals): Expected f(*primals) to return only tensors, got type {type(o)}")
    outer = _outer(outs, inner)
    _close(inner)

    def pull(*cotangents, retain_graph=True, create_graph=None):
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        cts, ct_spec = tree_flatten(given)
        if ct_spec != out_spec:
            raise RuntimeError(f"Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
                               f"cotangents: {ct_spec}, primal output: {out_spec}")
        again = modes.grad if create_graph is None else create_graph
        again = again and (outer or any(c._gn is not None for c in cts))
        return tree_unflatten(_left(_pull(outs, inner, cts, again, retain_graph), inner), spec)
    result = _left(out, inner, outer)
    return (result, pull, _left(aux, inner)) if has_aux else (result, pull)


def _real_out(x):
    return np.issubdtype(x.dtype, np.inexact) or x.dtype.name == "bfloat16" or x.dtype.name.startswith("float8")


def _push(f, n, keep):
    """g((primals, tangents), frees, scalars): outputs (when keep), then tangents of the first n, then aux outputs."""
    def pushed(args, frees, scalars):
        half = len(args) // 2
        primals, tangents = args[:half], args[half:]
        tangents = tuple(t if _real_out(p) else np.zeros(p.shape, jax.dtypes.float0) for p, t in zip(primals, tangents, strict=True))
        outs, ts = jax.jvp(lambda *p: f(p, frees, scalars), primals, tangents)
        ts = [jax.numpy.zeros_like(o) if t.dtype == jax.dtypes.float0 else t for o, t in zip(outs[:n], ts[:n], strict=True)]
        return (*(outs[:n] if keep else ()), *ts, *(outs[n:] if keep else ()))
    return pushed


def _forward(name, func, primals, has_aux):
    leaves, spec = _tensors(name, primals)
    device = device_of(name, leaves)
    with recording():
        r = recorded(name, lambda *h: func(*tree_unflatten(list(h), spec)), [t._value().aval for t in leaves], device, has_aux=has_aux)
    return r, leaves, spec


def _tangents(name, leaves, spec, tangents):
    ts, t_spec = tree_flatten(tangents)
    if t_spec != spec:
        raise RuntimeError(f"{name}(f, primals, tangents): Expected primals and tangents to have the same python structure. For example, if "
                           f"primals is a tuple of 3 tensors, tangents also must be. Got primals with structure {spec} and tangents with "
                           f"structure {t_spec}")
    out = []
    for p, t in zip(leaves, ts, strict=True):
        if not isinstance(t, Tensor):
            raise RuntimeError(f"{name}(f, primals, tangents): expected tangents to be Tensors, got {type(t)}")
        if tuple(p.shape) != tuple(t.shape):
            raise RuntimeError(f"{name}(f, primals, tangents): a primal of shape {list(p.shape)} has a tangent of shape {list(t.shape)}")
        out.append(t if t.dtype == p.dtype else t.to(p.dtype))
    return out


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """(func(*primals), its derivative along tangents) by forward mode (torch.func.jvp); (result, tangent, aux) with has_aux.

    primals, tangents: tuples of the same structure, shapes and dtypes. One program, whatever the number of outputs."""
    if not isinstance(primals, tuple):
        raise RuntimeError(f"jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call f(*primals). "
                           f"Got {type(primals)}")
    r, leaves, spec = _forward("jvp", func, primals, has_aux)
    ts = _tangents("jvp", leaves, spec, tangents)
    n = r.outs
    outs = apply("jvp", r, lambda f: _push(f, n, True), n, [*leaves, *ts])
    result, aux = with_aux(r, outs[:n] + outs[2 * n:])
    tangent = tree_unflatten(outs[n:2 * n], r.spec)
    return (result, tangent, aux) if has_aux else (result, tangent)


def linearize(func, *primals):
    """(func(*primals), f) with f(*tangents) the derivative at primals along tangents (torch.func.linearize); func is recorded once."""
    r, leaves, spec = _forward("linearize", func, primals, False)
    n = r.outs
    out = apply("linearize", r, lambda f: lambda a, fr, sc: f(a, fr, sc), "value", leaves)

    def push(*tangents):
        ts = _tangents("linearize", leaves, spec, tangents)
        return tree_unflatten(apply("linearize", r, lambda f: _push(f, n, False), n, [*leaves, *ts]), r.spec)
    return tree_unflatten(out, r.spec), push


def _basis(tensors):
    """The unit directions of several tensors together: for each a tensor of (total, *shape)."""
    import lazy_tensor as lt
    sizes = [t.numel() for t in tensors]
    total, out, start = sum(sizes), [], 0
    for t, n in zip(tensors, sizes, strict=True):
        out.append(lt.eye(total, dtype=t.dtype, device=t.device)[:, start:start + n].reshape(total, *t.shape) if len(sizes) > 1
                   else lt.eye(total, dtype=t.dtype, device=t.device).reshape(total, *t.shape))
        start += n
    return out, sizes


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """A function that returns the Jacobian of func by its arguments argnums, by reverse mode: one pass for all outputs, batched
    (torch.func.jacrev).

    Each Jacobian has the output's shape followed by the argument's, in the containers of outputs and then arguments. chunk_size:
    at most so many rows at once."""
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        chosen, put = _split("jacrev", args, argnums)
        got = vjp(lambda x: func(*put(x), **kwargs), chosen, has_aux=has_aux)
        out, pull = got[0], got[1]
        outs, out_spec = tree_flatten(out)
        basis, sizes = _basis(outs)
        if sum(sizes) == 1:  # a scalar: no batch
            one = pull(tree_unflatten([b[0] for b in basis], out_spec))[0]
            rows = tree_map(lambda g: g.unsqueeze(0), one)
        else:
            rows = vmap(lambda *cts: pull(tree_unflatten(list(cts), out_spec))[0], chunk_size=chunk_size)(*basis)
        grads, in_spec = tree_flatten(rows)
        jacobians, start = [], 0
        for o, n in zip(outs, sizes, strict=True):
            parts = [(g[start:start + n] if len(sizes) > 1 else g).reshape(*o.shape, *g.shape[1:]) for g in grads]
            jacobians.append(tree_unflatten(parts, in_spec))
            start += n
        result = tree_unflatten(jacobians, out_spec)
        return (result, got[2]) if has_aux else result
    return wrapped


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """A function that returns the Jacobian of func by its arguments argnums, by forward mode: one pass for all inputs, batched
    (torch.func.jacfwd)."""
    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        chosen, put = _split("jacfwd", args, argnums)
        leaves, spec = _tensors("jacfwd", chosen)
        basis, sizes = _basis(leaves)

        def push(*ts):
            got = jvp(lambda x: func(*put(x), **kwargs), (chosen,), (tree_unflatten(list(ts), spec),), has_aux=has_aux)
            return (got[1], got[2]) if has_aux else got[1]
        got = vmap(push, randomness=randomness)(*basis)
        columns, aux = got if has_aux else (got, None)
        if has_aux:
            aux = tree_map(lambda x: x[0], aux)
        cols, out_spec = tree_flatten(columns)
        jacobians = []
        for c in cols:
            parts, start = [], 0
            for t, n in zip(leaves, sizes, strict=True):
                part = c[start:start + n] if len(sizes) > 1 else c
                parts.append(part.movedim(0, -1).reshape(*c.shape[1:], *t.shape))
                start += n
            jacobians.append(tree_unflatten(parts, spec))
        result = tree_unflatten(jacobians, out_spec)
        return (result, aux) if has_aux else result
    return wrapped


def hessian(func, argnums=0):
    """A function that returns the Hessian: forward mode over reverse mode (torch.func.hessian)."""
    return jacfwd(jacrev(func, argnums), argnums)

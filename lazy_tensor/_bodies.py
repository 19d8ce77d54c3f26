"""Bodies of custom operators (`lazy_tensor.library`) as they run, and as jax functions with batching rules."""
from __future__ import annotations

import inspect
from collections import namedtuple

import jax
from jax.custom_batching import custom_vmap

from lazy_tensor.func._record import recorded
from lazy_tensor.modes import modes, recording
from lazy_tensor.node import _next
from lazy_tensor.ops._define import Op, _generate, check_inplace, inplace
from lazy_tensor.tensor import Tensor
from xla_backend.graph import Failed, aval

_ANNOTATION = {"Tensor": "Array", "Tensor?": "Array | None", "Tensor[]": "Arrays", "Tensor?[]": "OptArrays", "int": "int", "int?": "int | None",
               "bool": "bool", "bool?": "bool | None", "str": "str", "str?": "str | None", "Scalar": "Scalar", "Scalar?": "Scalar | None",
               "ScalarType": "DType", "ScalarType?": "DType | None"}
VmapInfo = namedtuple("VmapInfo", ("batch_size", "randomness"))


def no_formula(op):
    return f"Trying to backward through {op._qualname} but no autograd formula was registered{op._irreversible or ''}. Please use register_autograd to add one."


class Body:
    """One implementation of an operator: a function of Tensors or of jax arrays."""

    def __init__(self, op, fn, body):
        self.op, self.fn, self.body = op, fn, body
        self.calls: dict = {}

    def run(self, args, kw):
        op = self.op
        if self.body != "jax" and (op._vmap is None or modes.capture is None):
            return self.fn(*args, **kw)
        device = None if op._vmap is None else op._device(args, kw)
        call = self.calls.get(device)
        if call is None:
            call = self.calls[device] = self.compiled(device)
        if not op._mutated:
            return call(*args, **kw)
        values = (*args, *kw.values())
        targets = [values[k] for k in op._mutated if values[k] is not None]
        for t in targets:
            check_inplace(t, op._qualname)
        since = _next()
        r = call(*args, **kw)
        r = [r] if isinstance(r, Tensor) else list(r)
        n = len(r) - len(targets)
        returns = op._schema.returns
        if n < 0 or (returns != ("Tensor[]",) and n != len(returns)):
            raise RuntimeError(f"{op._qualname}: the jax body returned {len(r)} arrays; the results of {op._schema} followed by the new values of "
                               f"{', '.join(op._schema.mutated)} fit")
        for t, v in zip(targets, r[n:], strict=True):
            inplace(t, v, op._qualname, since)
        return None if not returns else r[0] if returns == ("Tensor",) else r[:n]

    def compiled(self, device):
        """The call function of this implementation as one op; with a batching rule, for one device."""
        op, fn = self.op, self.fn
        params = op._schema.args

        def body(**values):
            flat, put = _arrays([values[p.name] for p in params])

            def base(*arrays):
                full = list(zip(params, put(arrays), strict=True))
                return fn(*[x for p, x in full if not p.kwarg_only], **{p.name: x for p, x in full if p.kwarg_only})
            if self.body != "jax":
                base = _as_jax(op._qualname, base, device)
            if op._vmap is not None:
                base = _batched(op, base, put, device)
            elif op._opaque:
                base = _underivable(op, base)
            return base(*flat)
        P = inspect.Parameter
        body.__signature__ = inspect.Signature([
            P(p.name, P.KEYWORD_ONLY if p.kwarg_only else P.POSITIONAL_OR_KEYWORD, default=P.empty if p.required else p.default,
              annotation=_ANNOTATION.get(p.type, "object")) for p in params])
        return _generate(Op(body, name=f"{op._namespace}_{op._opname}", path=op._qualname, where=None))


def _arrays(values):
    """(the arrays among an op's arguments, a function that gives the arguments with others in their places)."""
    flat, places = [], []
    for v in values:
        inside = isinstance(v, (list, tuple))
        at = []
        for x in v if inside else (v,):
            at.append((len(flat), None) if hasattr(x, "aval") or hasattr(x, "__array__") else (-1, x))
            if at[-1][0] >= 0:
                flat.append(x)
        places.append((inside, at))

    def put(arrays):
        full = [[arrays[k] if k >= 0 else x for k, x in at] for _, at in places]
        return [xs if inside else xs[0] for (inside, _), xs in zip(places, full, strict=True)]
    return flat, put


def _as_jax(what, fn, device):
    """A function of Tensors as one of jax arrays."""
    def run(*arrays):
        with recording():
            r = recorded(what, fn, [aval(a.shape, a.dtype, device) for a in arrays], device, draws="error", whole=True)
        outs = r.sub.function()(arrays, tuple([_constant(what, v) for v in r.sub.frees]), tuple(r.sub.scalars))
        return outs[0] if r.spec.type is None else outs
    return run


def _constant(what, v):
    if v.data is None or type(v.data) is Failed:
        raise RuntimeError(f"{what}: the function reads a tensor of {list(v.aval.shape)} that is neither an argument nor made inside it; "
                           "make it an argument")
    return jax.numpy.asarray(v.data)


def _underivable(op, base):
    """base, whose derivative asks for a registered gradient."""
    f = jax.custom_jvp(base)

    @f.defjvp
    def rule(primals, tangents):
        raise RuntimeError(no_formula(op))
    return f


def _batched(op, base, put, device):
    """base with the registered batching rule; its derivative is the body's own."""
    f = custom_vmap(base)

    @f.def_vmap
    def rule(axis_size, in_batched, *arrays):
        dims, single = [], []

        def run(*holders):
            full = list(zip(op._schema.args, put(holders), strict=True))
            at = [[d if isinstance(x, Tensor) else None for x, d in zip(xs, ds, strict=True)] if isinstance(xs, list) else
                  ds if isinstance(xs, Tensor) else None
                  for (_, xs), ds in zip(full, put([0 if b else None for b in in_batched]), strict=True)]
            in_dims = tuple(d for (p, _), d in zip(full, at, strict=True) if not p.kwarg_only)
            got = op._vmap(VmapInfo(axis_size, "error"), in_dims, *[x for p, x in full if not p.kwarg_only],
                           **{p.name: x for p, x in full if p.kwarg_only})
            if not isinstance(got, tuple) or len(got) != 2:
                raise RuntimeError(f"{op._qualname}: the registered vmap rule must return (output, out_dims), got {type(got).__name__}")
            out, out_dims = got
            single.append(isinstance(out, Tensor))
            outs = (out,) if single[0] else tuple(out)
            dims.extend([out_dims] * len(outs) if out_dims is None or isinstance(out_dims, int) else out_dims)
            if len(dims) != len(outs):
                raise RuntimeError(f"{op._qualname}: the registered vmap rule returned {len(outs)} outputs and out_dims {out_dims}")
            return tuple([o if d is None else o.movedim(d, 0) for o, d in zip(outs, dims, strict=True)])
        outs = _as_jax(f"{op._qualname}'s vmap rule", run, device)(*arrays)
        for o, d in zip(outs, dims, strict=True):
            if d is not None and o.shape[0] != axis_size:
                raise RuntimeError(f"{op._qualname}: the registered vmap rule returned an output of {list(o.shape)} whose mapped dimension "
                                   f"is not {axis_size}")
        batched = tuple(d is not None for d in dims)
        return (outs[0], batched[0]) if single[0] else (outs, batched)

    g = jax.custom_jvp(f)

    @g.defjvp
    def derivative(primals, tangents):
        if op._opaque:
            raise RuntimeError(no_formula(op))
        return f(*primals), jax.jvp(base, primals, tangents)[1]
    return g

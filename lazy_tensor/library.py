"""Operators of a user's own (torch.library): `custom_op` and what is registered beside its body. `docs/extending.md` is the guide.

A body is a function of Tensors, recorded where it is called, or with `body="jax"` a function of jax arrays (a Pallas kernel, an
FFI call), which becomes one op as the library's own are. Gradients registered in Python are `autograd.Function`s; batching rules
become jax's `custom_vmap`.
"""
from __future__ import annotations

import functools
import importlib.util
import re
import warnings

from lazy_tensor._bodies import Body, no_formula
from lazy_tensor._schema import ANY, infer_schema, parse_schema, schema_of
from lazy_tensor.autograd.function import Function
from lazy_tensor.modes import modes, no_grad
from lazy_tensor.node import Node
from lazy_tensor.ops._define import missing, nearest
from lazy_tensor.tensor import Tensor, _note, no_tape

__all__ = ["CustomOp", "Library", "custom_op", "define", "impl", "infer_schema", "opcheck", "register_autocast", "register_autograd",
           "register_fake", "register_jvp", "register_kernel", "register_vmap"]

_registry: dict[str, CustomOp] = {}


def custom_op(name, fn=None, /, *, mutates_args=(), device_types=None, schema=None, tags=None, body="tensors"):
    """Decorator that makes an operator of a function (torch.library.custom_op).

    name: "namespace::name". mutates_args: the names of the tensor arguments that fn writes to. device_types: the device types
    that fn is for ("cpu", "xla", or a sequence of them; None: all). schema: "(Tensor x, float a=1.0) -> Tensor", read off fn's
    annotations when None. body: "tensors", fn works on Tensors and is recorded where it is called; or "jax", fn works on jax
    arrays (static arguments arrive as Python values), is traced once a configuration and has jax's gradient and batching; with
    mutates_args it returns its results followed by the new values of those arguments. tags: taken as in torch, where they steer
    passes of its compiler that are not here.

    Returns a `CustomOp`, also found as lt.ops.namespace.name. Raises ValueError for a name or signature that does not fit.

    Example::

        @lt.library.custom_op("mine::scale", body="jax")
        def scale(x: lt.Tensor, by: float) -> lt.Tensor:
            return x * by
    """
    if body not in ("tensors", "jax"):
        raise ValueError(f"custom_op({name!r}): body must be 'tensors' or 'jax', got {body!r}")

    def make(fn):
        op = CustomOp(name, schema_of(fn, mutates_args) if schema is None else parse_schema(name, schema, mutates_args))
        op._add_kernel(device_types, fn, body)
        functools.update_wrapper(op, fn, updated=())
        return _publish(op)
    return make if fn is None else make(fn)


def _publish(op):
    if importlib.util.find_spec(f"lazy_tensor.ops.{op._namespace}") is not None:
        raise ValueError(f"{op._qualname}: the namespace {op._namespace!r} is a module of lazy_tensor.ops; choose another")
    _registry[op._qualname] = op
    return op


def _types_of(device_types):
    if device_types is None or device_types == "default":
        return (None,)
    kinds = (device_types,) if isinstance(device_types, str) else tuple(device_types)
    for k in kinds:
        if k not in ("cpu", "xla", "cuda"):
            raise ValueError(f"device_types: expected 'cpu', 'xla' or 'cuda' (which is xla here), got {k!r}")
    return tuple("xla" if k == "cuda" else k for k in kinds)


class CustomOp:
    """An operator made by `custom_op`, `define` or `utils.cpp_extension`: call it with Tensors."""

    def __init__(self, qualname, schema, opaque=False):
        """opaque: whether jax has no gradient of the body (then only a registered one counts)."""
        if not re.fullmatch(r"[A-Za-z_]\w*::[A-Za-z_]\w*", qualname):
            raise ValueError(f"custom_op: expected a name of the form 'namespace::name', got {qualname!r}")
        self._qualname, self._schema, self._opaque = qualname, schema, opaque
        self._namespace, self._opname = qualname.split("::")
        self._positional = [a for a in schema.args if not a.kwarg_only]
        self._keyword = [a for a in schema.args if a.kwarg_only]
        self._mutated = [k for k, a in enumerate(schema.args) if a.mutated]
        self._kernels: dict[str | None, Body] = {}
        self._backward = self._setup = self._forward_rule = self._vmap = self._fake = None
        self._irreversible = "" if opaque else None  # why there is no gradient without a registered one
        self._casts: dict = {}
        self._functions: dict[tuple, type] = {}
        self._fake_seen: set = set()
        self.__name__ = self._opname

    def __repr__(self):
        return f"<CustomOp({self._qualname}{self._schema})>"

    def __reduce__(self):
        return _find, (self._qualname,)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    @property
    def default(self):
        """The operator itself: torch's name of an operator's only overload."""
        return self

    def name(self):
        """namespace::name."""
        return self._qualname

    # --- what stands beside the body

    def _add_kernel(self, device_types, fn, body):
        for k in _types_of(device_types):
            self._kernels[k] = Body(self, fn, body)

    def register_kernel(self, device_types, fn=None, /, *, body="tensors"):
        """Decorator: another body, for tensors on these device types (None: all that have none of their own)."""
        if fn is None:
            return lambda fn: self.register_kernel(device_types, fn, body=body)
        self._add_kernel(device_types, fn, body)
        return fn

    def register_autograd(self, backward, /, *, setup_context=None):
        """The gradient: backward(ctx, *grads) gives one gradient (or None) an argument; setup_context(ctx, inputs, output), with
        keyword-only arguments (ctx, inputs, keyword_only_inputs, output), fills ctx (torch's register_autograd)."""
        self._functional("an autograd formula")
        if any(a.is_tensor for a in self._keyword):
            raise NotImplementedError(f"register_autograd with kwarg-only Tensor args. In the original definition of {self!r}, please make "
                                      "your tensors not kwarg-only.")
        self._backward, self._setup = backward, setup_context
        self._functions.clear()

    def register_jvp(self, jvp, /):
        """Forward mode: jvp(ctx, *tangents), one tangent an argument (None for what has none), gives one an output; ctx is what
        setup_context filled. Without it forward mode is the transpose of the registered backward."""
        self._functional("a jvp")
        if self._backward is None:
            raise RuntimeError(f"{self!r}.register_jvp: call register_autograd first, which gives reverse mode and fills ctx")
        self._forward_rule = jvp
        self._functions.clear()

    def register_vmap(self, fn=None, /):
        """The batching rule: fn(info, in_dims, *args) gives (output, out_dims); info has batch_size and randomness."""
        if fn is None:
            return self.register_vmap
        self._functional("a vmap rule")
        self._vmap = fn
        for k in self._kernels.values():
            k.calls.clear()
        return fn

    def register_fake(self, fn=None, /):
        """Say the outputs' shapes: fn(*args) gives tensors like the outputs. Tracing knows them; each new configuration is
        checked against fn."""
        if fn is None:
            return self.register_fake
        self._fake = fn
        self._fake_seen.clear()
        return fn

    def register_autocast(self, device_type, cast_inputs, /):
        """Under autocast for this device type the floating point inputs are cast to the dtype cast_inputs, and autocast is off in the
        body (torch's register_autocast)."""
        kind, = _types_of(device_type)
        if not isinstance(device_type, str) or kind is None:
            raise ValueError(f"register_autocast: expected the device type 'cpu', 'xla' or 'cuda', got {device_type!r}")
        self._casts[kind] = cast_inputs

    def _under_autocast(self, *args, **kw):
        args, kw = self._bind(args, kw)
        device = self._device(args, kw)
        kind = "cpu" if device is None or device.host else "xla"
        before = modes.cast
        if before.get(kind) is None or kind not in self._casts:
            return self._call(*args, **kw)

        def cast(x):
            if isinstance(x, (list, tuple)):
                return [cast(y) for y in x]
            return x.to(self._casts[kind]) if isinstance(x, Tensor) and x.dtype.is_floating_point and x.dtype.itemsize <= 4 else x
        modes.cast = None
        try:
            return self._call(*map(cast, args), **{k: cast(x) for k, x in kw.items()})
        finally:
            modes.cast = before

    def _functional(self, what):
        if self._mutated:
            raise RuntimeError(f"Cannot register {what} for non-functional operator {self!r}. Please create a functional operator and "
                               f"register {what} for that.")

    # --- calls

    def __call__(self, *args, **kw):
        if self._casts and modes.cast is not None:
            return self._under_autocast(*args, **kw)
        return self._call(*args, **kw)

    def _call(self, *args, **kw):
        if kw or len(args) != len(self._positional) or self._keyword:
            args, kw = self._bind(args, kw)
        needs = False
        for a, x in zip(self._positional, args, strict=True):
            if type(x) is Tensor and not a.is_list:
                if not a.is_tensor and not a.accepts(x):
                    self._refuse(a, x)
                needs = needs or x._gn is not None
            elif not a.accepts(x):
                self._refuse(a, x)
            elif a.is_tensor and x is not None:
                needs = needs or any(y is not None and y.requires_grad for y in (x if a.is_list else (x,)))
        if not needs or not modes.grad or not self._schema.returns:
            return self._run(args, kw)
        if self._backward is not None:
            return self._with_gradient(args, kw)
        if self._irreversible is None:
            try:
                return self._run(args, kw)
            except (ValueError, NotImplementedError) as e:
                if "ifferentiat" not in str(e) or any(k.body != "jax" for k in self._kernels.values()):
                    raise
                self._irreversible = f" (jax cannot differentiate the body: {str(e).splitlines()[0]})"
        return self._with_gradient(args, kw) if modes.capture is None else self._undifferentiated(args, kw)

    def _refuse(self, a, x):
        found = type(x).__name__ if not isinstance(x, (list, tuple)) else f"{type(x).__name__} of {', '.join(sorted({type(y).__name__ for y in x}))}"
        raise RuntimeError(f"{self._qualname}() Expected a value of type '{a.type}' for argument '{a.name}' but instead found type '{found}'."
                           f"\nDeclaration: {self._qualname}{self._schema}")

    def _bind(self, args, kw):
        if len(args) > len(self._positional):
            raise RuntimeError(f"{self._qualname}() expected at most {len(self._positional)} argument(s) but received {len(args)} argument(s). "
                               f"Declaration: {self._qualname}{self._schema}")
        left = dict(kw)
        out = list(args)
        for a in self._positional[len(args):]:
            out.append(self._take(a, left))
        keywords = {a.name: self._take(a, left) for a in self._keyword}
        if left:
            n = next(iter(left))
            near = " (given twice)" if n in {a.name for a in self._schema.args} else ""
            raise RuntimeError(f"Unknown keyword argument '{n}'{near} for operator '{self._qualname}'. Schema: {self._qualname}{self._schema}")
        for a in self._keyword:
            if not a.accepts(keywords[a.name]):
                self._refuse(a, keywords[a.name])
        return tuple(out), keywords

    def _take(self, a, left):
        if a.name in left:
            return left.pop(a.name)
        if a.required:
            raise RuntimeError(f"{self._qualname}() is missing value for argument '{a.name}'. Declaration: {self._qualname}{self._schema}")
        return a.default

    def _tensors(self, args, kw):
        for a, x in zip(self._schema.args, (*args, *kw.values()), strict=True):
            if a.is_tensor and x is not None:
                yield from [y for y in x if y is not None] if a.is_list else (x,)

    def _device(self, args, kw):
        return next((t._v.aval.device for t in self._tensors(args, kw)), None)

    def _run(self, args, kw):
        kernels = self._kernels
        kernel = kernels.get(None)
        if kernel is None or len(kernels) > 1:
            device = self._device(args, kw)
            kernel = kernels.get("cpu" if device is None or device.host else "xla", kernel)
            if kernel is None:
                has = f"it has kernels for {', '.join(sorted(map(str, kernels)))}" if kernels else "it has no kernel"
                raise NotImplementedError(f"Could not run '{self._qualname}' with arguments from the '{device}' backend: {has}. "
                                          "Add one with register_kernel")
        out = kernel.run(args, kw)
        returns = self._schema.returns
        if self._fake is not None:
            self._check_fake(args, kw, out)
        if len(returns) == 1:
            if returns[0] == "Tensor":
                if not isinstance(out, Tensor):
                    self._bad(out)
                outs = (out,)
            elif returns[0] == ANY:
                outs = (out,) if isinstance(out, Tensor) else out
            else:
                if not isinstance(out, (list, tuple)):
                    self._bad(out)
                out = outs = list(out)
        elif not returns:
            if out is not None:
                self._bad(out)
            return None
        else:
            if not isinstance(out, (list, tuple)) or len(out) != len(returns):
                self._bad(out)
            out = outs = tuple(out)
        given = {id(t) for t in self._tensors(args, kw)}
        for o in outs:
            if not isinstance(o, Tensor):
                self._bad(out)
            if id(o) in given:
                raise RuntimeError(f"{self._qualname}: The output of this custom operator (1) must not also be an input to this custom operator "
                                   "and (2) may not alias any inputs to this custom operator or other returns. Return a clone of it "
                                   "(x.clone()), or do not return it")
        return out

    def _bad(self, out):
        got = f"{type(out).__name__} of {len(out)}" if isinstance(out, (tuple, list)) else type(out).__name__
        raise RuntimeError(f"{self._qualname}: the body returned {got}; the schema {self._schema} promises otherwise")

    def _check_fake(self, args, kw, out):
        key = tuple(tuple(y._v.aval if isinstance(y, Tensor) else y for y in x) if isinstance(x, (list, tuple)) else
                    x._v.aval if isinstance(x, Tensor) else x for x in (*args, *kw.values()))
        if key in self._fake_seen:
            return
        with no_grad():
            fake = self._fake(*args, **kw)
        a, b = ([(tuple(t.shape), t.dtype, t.device) for t in ((x,) if isinstance(x, Tensor) else x or ())] for x in (fake, out))
        if a != b:
            raise RuntimeError(f"{self._qualname}: the registered fake gives {a} (shape, dtype, device) and the operator {b}")
        self._fake_seen.add(key)

    # --- gradients

    def _with_gradient(self, args, kw):
        structure = tuple(len(x) if a.is_tensor and a.is_list and x is not None else -1 for a, x in zip(self._positional, args, strict=True))
        function = self._functions.get(structure)
        if function is None:
            function = self._functions[structure] = _function(self, structure)
        flat = []
        for n, x in zip(structure, args, strict=True):
            if n < 0:
                flat.append(x)
            else:
                flat += x
        r = function.apply(*flat, **kw)
        return list(r) if self._schema.returns == ("Tensor[]",) else r

    def _undifferentiated(self, args, kw):
        """A call in a recorded function that may never be differentiated: derivatives flow in and fail when they are asked for."""
        with no_tape():
            out = self._run(args, kw)
        outs = [out] if isinstance(out, Tensor) else out
        tensors = {id(t._v): t for t in self._tensors(args, kw) if t._gn is not None}
        pending = outs[0]._v.aval.device.graph.pending
        node = next(n for n in reversed(pending) if any(v is outs[0]._v for v in n[2]))
        places = [tensors.get(id(v)) for v in node[1]]
        edges = tuple(x for t in places for x in ((None, 0) if t is None else (t._gn, t._oi)))
        _note(modes.capture, node[1], node[2], edges, sum(1 << i for i, t in enumerate(places) if t is not None))
        place = _Irreversible(edges, len(outs))
        place.op = self
        for k, t in enumerate(outs):
            if t._v.aval.dtype.kind in "fcV":
                t._gn, t._oi = place, k
        return out


class _Irreversible(Node):
    """The place on the tape of a call without a gradient."""

    __slots__ = ("op",)

    def name(self):
        return self.op._qualname.replace("::", "_")

    def apply(self, cts):
        raise RuntimeError(no_formula(self.op))


def _group(structure, flat):
    """Flat values as one an argument, lists where the arguments are lists of tensors."""
    it = iter(flat)
    return tuple([next(it) if n < 0 else [next(it) for _ in range(n)] for n in structure])


def _function(op, structure):
    listed = op._schema.returns == ("Tensor[]",)

    def forward(ctx, *flat, **kw):
        args = _group(structure, flat)
        out = op._run(args, kw)
        ctx.needs_input_grad = _group(structure, ctx.needs_input_grad)
        if op._setup is not None:
            if op._keyword:
                op._setup(ctx=ctx, inputs=args, keyword_only_inputs=kw, output=out)
            else:
                op._setup(ctx=ctx, inputs=args, output=out)
        return tuple(out) if listed else out

    def backward(ctx, *grads):
        if op._backward is None:
            raise RuntimeError(no_formula(op))
        r = op._backward(ctx, list(grads)) if listed else op._backward(ctx, *grads)
        r = r if isinstance(r, tuple) else (r,)
        if len(r) != len(structure):
            raise RuntimeError(f"{op._qualname}: the registered backward returned {len(r)} gradients; one for each of the {len(structure)} "
                               f"arguments of {op._schema} fits (None where there is none)")
        out = []
        for a, n, g in zip(op._positional, structure, r, strict=True):
            if n < 0:
                out.append(g)
            elif g is None:
                out += [None] * n
            elif isinstance(g, (list, tuple)) and len(g) == n:
                out += g
            else:
                raise RuntimeError(f"{op._qualname}: the gradient of the list argument '{a.name}' must be a list of {n} (or None), got {g!r}")
        return tuple(out)
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    if op._forward_rule is not None:
        members["jvp"] = staticmethod(lambda ctx, *tangents: op._forward_rule(ctx, *_group(structure, tangents)))
    return type(op._qualname.replace("::", "_"), (Function,), members)


# ------------------------------------------------------------------------------------------- the functions of torch.library


def _find(op) -> CustomOp:
    """The operator that a CustomOp or a name means."""
    if isinstance(op, CustomOp):
        return op
    if not isinstance(op, str):
        raise ValueError(f"expected an operator made by custom_op, or its name, got {type(op).__name__}")
    found = _registry.get(op)
    if found is None:
        raise RuntimeError(f"no operator {op!r} is registered{nearest(op, _registry)}; import the module that defines it first")
    return found


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    """`CustomOp.register_autograd` for an operator or its name."""
    _find(op).register_autograd(backward, setup_context=setup_context)


def register_autocast(op, device_type, cast_inputs, /, *, lib=None):
    """`CustomOp.register_autocast` for an operator or its name."""
    _find(op).register_autocast(device_type, cast_inputs)


def register_jvp(op, jvp, /):
    """`CustomOp.register_jvp` for an operator or its name."""
    _find(op).register_jvp(jvp)


def register_fake(op, func=None, /, *, lib=None):
    """`CustomOp.register_fake` for an operator or its name; a decorator without func."""
    return _find(op).register_fake(func)


def register_vmap(op, func=None, /, *, lib=None):
    """`CustomOp.register_vmap` for an operator or its name; a decorator without func."""
    return _find(op).register_vmap(func)


def register_kernel(op, device_types, func=None, /, *, lib=None, body="tensors"):
    """`CustomOp.register_kernel` for an operator or its name; a decorator without func."""
    return _find(op).register_kernel(device_types, func, body=body)


def define(qualname, schema, *, lib=None, tags=()):
    """Declare an operator by its schema; `impl` gives it bodies."""
    _publish(CustomOp(qualname, parse_schema(qualname, schema)))


def impl(qualname, types, func=None, *, lib=None, body="tensors"):
    """Decorator (or call, with func): a body of a defined operator, for device types ("default": all)."""
    return register_kernel(qualname, types, func, body=body)


_KEYS = {"": None, "CompositeExplicitAutograd": None, "CompositeImplicitAutograd": None, "CPU": "cpu", "CUDA": "xla", "XLA": "xla"}


class Library:
    """A namespace to define operators in (torch.library.Library): kinds "DEF", "FRAGMENT" and "IMPL"."""

    def __init__(self, ns, kind, dispatch_key=""):
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ValueError(f"Unsupported library type: {kind}; 'DEF', 'FRAGMENT' and 'IMPL' fit")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def __repr__(self):
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})"

    def define(self, schema, alias_analysis="", *, tags=()):
        """Declare "name(Tensor x) -> Tensor"; returns the name."""
        name, paren, rest = schema.partition("(")
        if not paren:
            raise ValueError(f"Library.define: cannot read the schema {schema!r}; 'name(Tensor x) -> Tensor' would fit")
        define(f"{self.ns}::{name.strip()}", paren + rest)
        return name.strip()

    def impl(self, op_name, fn, dispatch_key="", *, body="tensors"):
        """A body for a dispatch key: "CPU", "CUDA" or "XLA", a Composite key or none (all devices), "Meta" (`register_fake`)."""
        key = dispatch_key or self.dispatch_key
        op = _find(self._name(op_name))
        if key == "Meta":
            op.register_fake(fn)
        elif key in _KEYS:
            op.register_kernel(_KEYS[key], fn, body=body)
        else:
            raise NotImplementedError(f"Library.impl: no dispatch key {key!r} here; {', '.join(k for k in _KEYS if k)} and Meta fit. Gradients "
                                      "are given with register_autograd, batching with register_vmap")

    def _name(self, op_name):
        name = op_name.removesuffix(".default")
        return name if "::" in name else f"{self.ns}::{name}"


class OpCheckError(Exception):
    """What `opcheck` raises."""


def opcheck(op, args, kwargs=None, *, test_utils=None, raise_exception=True, atol=None, rtol=None):
    """Check an operator on sample arguments (torch.library.opcheck): {test: "SUCCESS" or the exception}.

    "test_schema": only the arguments in mutates_args change, no output aliases an input. "test_faketensor": the registered fake
    agrees. "test_autograd_registration": an output that an input's gradient flows to requires grad. "test_gradcheck": gradients
    agree with central differences, when an argument requires grad (float64 tensors for close tolerances). test_utils chooses among them."""
    op, kwargs = _find(op), kwargs or {}
    tests = {"test_schema": _test_schema, "test_faketensor": _test_fake, "test_autograd_registration": _test_registration,
             "test_gradcheck": _test_gradient}
    names = tuple(tests) if test_utils is None else (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    unknown = [n for n in names if n not in tests]
    if unknown:
        raise ValueError(f"opcheck: unknown test_utils {unknown}; {', '.join(tests)} fit")
    results = {}
    for n in names:
        try:
            tests[n](op, args, kwargs, *((atol, rtol) if n == "test_gradcheck" else ()))
            results[n] = "SUCCESS"
        except Exception as e:
            if raise_exception:
                raise OpCheckError(f"opcheck({op._qualname}): {n} failed with {e}") from e
            results[n] = e
    return results


def _copied(op, args, kw):
    """The bound arguments with every tensor cloned (and requiring grad as before, unless the operator writes to its arguments)."""
    args, kw = op._bind(args, kw)

    def clone(t):
        return t.detach().clone().requires_grad_(t.requires_grad and not op._mutated) if isinstance(t, Tensor) else t
    def copy(x):
        return type(x)(map(clone, x)) if isinstance(x, (list, tuple)) else clone(x)
    return tuple(map(copy, args)), {k: copy(x) for k, x in kw.items()}


def _test_schema(op, args, kw):
    args, kw = _copied(op, args, kw)
    before = [(t, t.detach().clone()) for t in op._tensors(args, kw)]
    out = op(*args, **kw)
    written = {id(t) for a, x in zip(op._schema.args, (*args, *kw.values()), strict=True) if a.mutated
               for t in (x if isinstance(x, (list, tuple)) else (x,))}
    for t, old in before:
        if id(t) not in written and not t.detach().allclose(old, 0, 0, equal_nan=True):
            raise RuntimeError(f"an argument of {list(t.shape)} was changed and is not in mutates_args={op._schema.mutated}")
    for o in (out,) if isinstance(out, Tensor) else out or ():
        root = o._view.root if o._view is not None else None
        if root is not None and any(root is t or (t._view is not None and t._view.root is root) for t, _ in before):
            raise RuntimeError("an output is a view of an input; return a clone")


def _test_fake(op, args, kw):
    if op._fake is None:
        return
    args, kw = _copied(op, args, kw)
    op._fake_seen.clear()
    op(*args, **kw)


def _test_registration(op, args, kw):
    args, kw = _copied(op, args, kw)
    if not any(t.requires_grad for t in op._tensors(args, kw)):
        return
    out = op(*args, **kw)
    outs = [o for o in ((out,) if isinstance(out, Tensor) else out or ()) if o.dtype.is_floating_point or o.dtype.is_complex]
    if outs and not any(o.requires_grad for o in outs):
        raise RuntimeError("an argument requires grad and no output does; register_autograd gives the gradient")


def _test_gradient(op, args, kw, atol, rtol):
    from lazy_tensor.autograd import gradcheck
    args, kw = _copied(op, args, kw)
    flat = list(op._tensors(args, kw))
    if op._mutated or not any(t.requires_grad for t in flat):
        return
    double = all(t.dtype.itemsize >= 8 for t in flat if t.requires_grad)
    place = {id(t): k for k, t in enumerate(flat)}

    def call(*ts):
        def put(x):
            return type(x)(map(put, x)) if isinstance(x, (list, tuple)) else ts[place[id(x)]] if id(x) in place else x
        return op(*map(put, args), **{k: put(x) for k, x in kw.items()})
    with warnings.catch_warnings():
        if not double:  # the tolerances are for it
            warnings.filterwarnings("ignore", "Input of .* is not a double precision")
        gradcheck(call, tuple(flat), eps=1e-6 if double else 1e-2, atol=atol or (1e-5 if double else 1e-2), rtol=rtol or (1e-3 if double else 1e-2))


class Namespace:
    """What lt.ops.NAMESPACE is: the operators registered there, by name."""

    def __init__(self, name):
        self._ns = name

    def __getattr__(self, name):
        found = _registry.get(f"{self._ns}::{name}")
        if found is None:
            raise AttributeError(f"'lt.ops.{self._ns}' has no operator {name!r}{nearest(name, dir(self))}")
        return found

    def __dir__(self):
        return [q.split("::")[1] for q in _registry if q.startswith(self._ns + "::")]


def namespace(name):
    """The `Namespace` of a name under which operators are registered, else None."""
    return Namespace(name) if any(q.startswith(name + "::") for q in _registry) else None


CustomOpDef = CustomOp
__getattr__ = missing("library", globals())

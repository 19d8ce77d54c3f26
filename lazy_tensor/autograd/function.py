"""`Function`: gradients that a user writes in Python (torch.autograd.Function)."""
from __future__ import annotations

import functools

from lazy_tensor.modes import modes
from lazy_tensor.node import Node
from lazy_tensor.tensor import AccumulateGrad, Tensor, _plain, _Written, no_tape, wrap


class FunctionNode(Node):
    """The tape node of a Function call; also its `ctx`."""

    __slots__ = ("__dict__",)

    def name(self):
        return self.cls.__name__ + "Backward"

    def apply(self, cts):
        return self.apply_retain(cts, True)

    def apply_retain(self, cts, retain):
        """Gradients for the tensor inputs that need one."""
        if self.freed:
            from lazy_tensor.autograd.engine import _FREED
            raise RuntimeError(_FREED)
        if self.materialize:
            from lazy_tensor.autograd.engine import full
            cts = [full(a, 0.0) if c is None else c for c, a in zip(cts, self.out_avals, strict=True)]
        if self.once and modes.grad:
            with no_tape():
                r = self.cls.backward(self, *cts)
        else:
            r = self.cls.backward(self, *cts)
        r = r if isinstance(r, tuple) else (r,)
        if len(r) < self.n_args or any(g is not None for g in r[self.n_args:]):
            raise RuntimeError(f"function {self.name()} returned an incorrect number of gradients (expected {self.n_args}, got {len(r)})")
        if not retain:
            self.freed = bool(self._saved)
        out = []
        for i in self.positions:
            g = r[i]
            if g is not None and not isinstance(g, Tensor):
                raise TypeError(f"function {self.name()} returned a gradient of type {type(g).__name__} at position {i}; "
                                "a Tensor or None fits")
            if g is not None:
                a = self.in_avals[i]
                if tuple(g.shape) != a.shape:
                    raise RuntimeError(f"Function {self.name()} returned an invalid gradient at index {i} - got {list(g.shape)} but "
                                       f"expected shape compatible with {list(a.shape)}")
                if g._v.aval.dtype != a.dtype:
                    from lazy_tensor import dtypes
                    g = g.to(dtypes.of(a.dtype))
            out.append(g)
        return out

    # --- ctx

    def save_for_backward(self, *tensors):
        """Keep tensors for backward; None entries are allowed."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(f"save_for_backward can only save variables, but argument is of type {type(t).__name__}")
        self._saved = [None if t is None else _Saved(t) for t in tensors]

    def save_for_forward(self, *tensors):
        """Keep tensors for the jvp rule."""
        self._saved_forward = tensors

    @property
    def saved_tensors(self):
        """What `save_for_backward` kept; raises if one was written to since."""
        if self.freed:
            from lazy_tensor.autograd.engine import _FREED
            raise RuntimeError(_FREED)
        return tuple([None if item is None else item.open(self) for item in self._saved])

    def mark_dirty(self, *tensors):
        """Say which inputs forward wrote to."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors):
        """Say which outputs never require grad."""
        self._non_diff = tensors

    def set_materialize_grads(self, value):
        """Whether missing cotangents come as zeros (True) or None."""
        self.materialize = value


class _Saved:
    """A tensor kept by `save_for_backward`: an input or intermediate itself, or an output (by its number, so that the node does
    not keep itself alive); in the hands of the user's saved-tensor hooks if there are any."""

    def __init__(self, t):
        self.tensor, self.version, self.output, self.unpack = t, t._version, None, None

    def settle(self, outputs):
        """After forward: outputs is {id(tensor): number}."""
        self.output = outputs.get(id(self.tensor))
        if self.output is not None:
            self.tensor = wrap(self.tensor._value())
        if modes.saved_hooks is not None:
            pack, self.unpack = modes.saved_hooks
            with no_tape():
                self.packed, self.tensor = pack(self.tensor), None

    def open(self, node):
        if self.unpack is not None:
            return self.unpack(self.packed)
        t = self.tensor
        written = t._version != self.version if self.output is None else type(t._v.guard) is _Written
        if written:
            raise RuntimeError("one of the variables needed for gradient computation has been modified by an inplace operation: "
                               f"[{t.dtype} {list(t.shape)}] saved by {node.cls.__name__} is at version {t._version}; expected "
                               f"version {self.version} instead.")
        if self.output is None:
            return t
        r = wrap(t._v)
        r._gn, r._oi = node, self.output
        return r


class _Context(FunctionNode):
    __slots__ = ()


class Function:
    """Subclass with static `forward(ctx, ...)` and `backward(ctx, *grads)` (or `forward(...)` and `setup_context`); call `apply`.

    Example::

        class Square(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x
            @staticmethod
            def backward(ctx, g):
                x, = ctx.saved_tensors
                return 2 * x * g
    """

    generate_vmap_rule = False

    def __init__(self, *args, **kwargs):
        raise RuntimeError(f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should "
                           "invoke them on the class itself: use .apply")

    @staticmethod
    def forward(*args, **kwargs):
        """The result from the inputs; overridden by the user."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Fills ctx when forward takes none; overridden by the user."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """Gradients of the inputs from those of the outputs; overridden by the user."""
        raise NotImplementedError("You must implement either the backward or vjp method for your custom autograd.Function to use "
                                  "it with backward mode AD.")

    vjp = backward

    @classmethod
    def apply(cls, *args, **kwargs):
        """Run forward and put the call on the tape."""
        ctx = _Context((), 1)
        ctx.cls, ctx.freed, ctx.materialize, ctx.once = cls, False, True, getattr(cls.backward, "_once", False)
        ctx._saved, ctx._dirty, ctx._non_diff = [], (), ()
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        separate = cls.setup_context is not Function.setup_context
        edges, positions = [], []
        for i, a in enumerate(args):
            if isinstance(a, Tensor):
                a._value()
                if a._gn is not None:
                    edges += (a._gn, a._oi)
                    positions.append(i)
        needs = bool(positions) and modes.grad
        with no_tape():
            if separate:
                out = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, out)
            else:
                out = cls.forward(ctx, *args, **kwargs)
        single = not isinstance(out, (tuple, list))
        outs = [out] if single else list(out)
        ctx.in_avals = {i: a._v.aval for i, a in enumerate(args) if isinstance(a, Tensor)}
        ctx.n_args = len(args)
        ctx.positions = positions
        if needs:
            ctx.edges, ctx.n = tuple(edges), len(outs)
            ctx.out_avals = [o._v.aval if isinstance(o, Tensor) else None for o in outs]
            skip = {id(t) for t in ctx._non_diff}
            dirty = {id(t) for t in ctx._dirty}
            flowing = [k for k, o in enumerate(outs) if isinstance(o, Tensor) and id(o) not in skip and o._v.aval.dtype.kind in "fcV"]
            for item in ctx._saved:
                if item is not None:
                    item.settle({id(outs[k]): k for k in flowing})
            if modes.capture is not None and flowing:
                from lazy_tensor.func._custom import link
                linked = link(ctx, [args[i] for i in positions], [outs[k] for k in flowing], flowing)
                for item in ctx._saved:
                    if item is not None and item.output is not None and item.tensor is not None:
                        item.tensor = wrap(linked[flowing.index(item.output)])
            else:
                linked = [outs[k]._value() for k in flowing]
            for k, v in zip(flowing, linked, strict=True):
                o = outs[k]
                if id(o) in dirty:
                    if type(o._gn) is AccumulateGrad:
                        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
                    o._v = v
                    t = o
                else:
                    t = outs[k] = _plain(o) if any(o is a for a in args) else wrap(v)
                    t._v = v
                t._gn, t._oi = ctx, k
        return outs[0] if single else tuple(outs)


def once_differentiable(fn):
    """Decorator for `backward`: double backward through it is refused silently as in torch (no graph is recorded)."""
    @functools.wraps(fn)
    def call(ctx, *args):
        with no_tape():
            return fn(ctx, *args)
    call._once = True
    return call


FunctionCtx = FunctionNode

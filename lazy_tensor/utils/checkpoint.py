"""torch.utils.checkpoint: keep a region's inputs instead of what its backward reads, and run it again in backward.

One mechanism for both values of `use_reentrant`: within the region every tensor saved for backward is replaced by a
number (`saved_tensors_hooks`), and the first one that backward asks for runs the region again, gathering them in the
same order. Forward and recomputation often land in one program, where XLA would find the second run equal to the
first and merge them, memory and all. So the inputs of the second run pass through a barrier together with the
gradients that reach the region (a tape node on its outputs holds them until then): the recomputation then depends on
backward having come that far, as with jax.checkpoint.
"""
from __future__ import annotations

import contextlib
import enum
import threading
import warnings
from collections.abc import Callable
from typing import Any

from lazy_tensor.autograd.engine import _FREED
from lazy_tensor.modes import enable_grad, modes, no_grad
from lazy_tensor.node import Node
from lazy_tensor.ops.barrier import barrier
from lazy_tensor.tensor import Tensor, wrap
from xla_backend import random as random_

__all__ = ["checkpoint", "checkpoint_sequential", "CheckpointError", "CheckpointPolicy", "check_backward_validity",
           "detach_variable", "noop_context_fn", "set_checkpoint_debug_enabled", "set_checkpoint_early_stop"]

_TIP = ("\n\nTip: To see a more detailed error message, either pass `debug=True` to `torch.utils.checkpoint.checkpoint(...)` or wrap "
        "the code block with `with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):`.")


class CheckpointError(RuntimeError):
    """The recomputation of a checkpointed region saved other tensors than its forward did."""


class CheckpointPolicy(enum.Enum):
    """What selective checkpointing would do with an op (torch.utils.checkpoint.CheckpointPolicy)."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


class _Enough(BaseException):
    """Ends a recomputation once everything that backward reads is there."""


class _State(threading.local):
    early_stop = True
    debug: bool | None = None


_state = _State()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool):
    """Within it, whether a recomputation ends as soon as backward has what it reads (the default is True)."""
    before, _state.early_stop = _state.early_stop, enable
    try:
        yield
    finally:
        _state.early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None):
    """Within it, overrides `debug=` of every checkpoint (None leaves it)."""
    before, _state.debug = _state.debug, enabled
    try:
        yield
    finally:
        _state.debug = before


def noop_context_fn():
    """Two contexts that do nothing: the default `context_fn`."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def detach_variable(inputs: tuple) -> tuple:
    """The inputs off the tape, each with the requires_grad it had; what is no tensor stays."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


def check_backward_validity(inputs) -> None:
    """Warn when no input requires grad, since the reentrant variant then gives no gradients."""
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=3)


def _map(fn, x):
    """x with fn applied to the tensors in nested tuples, lists and dicts; other objects as they are."""
    if isinstance(x, Tensor):
        return fn(x)
    if type(x) is dict:
        return {k: _map(fn, v) for k, v in x.items()}
    if type(x) is list:
        return [_map(fn, v) for v in x]
    if isinstance(x, tuple):
        items = [_map(fn, v) for v in x]
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items) if type(x) is tuple else x
    return x


def _leaves(x) -> list:
    found: list = []

    def keep(t):
        found.append(t)
        return t
    _map(keep, x)
    return found


def _metadata(t):
    return {"shape": t.shape, "dtype": t.dtype, "device": t.device}


class _Gate(Node):
    """On a region's outputs: passes gradients through a barrier and remembers them for the recomputation's inputs."""

    __slots__ = ("frame",)

    def __init__(self, edges, n, frame):
        Node.__init__(self, edges, n)
        self.frame = frame

    def name(self):
        return "CheckpointBackward"

    def apply_retain(self, cts, retain):
        self.frame.begin([c for c in cts if c is not None], retain)
        return cts


class _Frame:
    """One call of `checkpoint`: how to run it again, and what the rerun gathered."""

    def __init__(self, fn, args, kwargs, preserve, recompute_context, check, debug, early_stop):
        self.fn, self.preserve, self.context = fn, preserve, recompute_context
        self.check, self.debug, self.early_stop = check, debug, early_stop
        self.rng = (random_.default._seed, random_.default._count) if preserve else None
        self.cast = modes.cast
        self.saved: list = []        # metadata of what forward saved
        self.again: dict = {}        # index -> tensor of the latest rerun
        self.cts: list = []
        self.retain = True           # whether another backward may follow; nothing is let go of before one has begun
        outer = modes.saved_hooks
        self.unpack_args = outer[1] if outer else None
        if outer:  # nested in another region: its hooks decide what becomes of our inputs
            with no_grad():
                args, kwargs = _map(lambda t: _Kept(outer[0](t.detach()), t.requires_grad), (args, kwargs))
        self.args, self.kwargs = args, kwargs

    # --- forward

    def pack(self, t):
        """A number in a tensor's stead."""
        self.saved.append(_metadata(t))
        return len(self.saved) - 1

    # --- backward

    def begin(self, cts, retain):
        """Gradients have reached the region: forget what an earlier backward gathered."""
        self.again, self.cts, self.retain = {}, cts, retain

    def unpack(self, i):
        """The i-th tensor that forward saved, from a rerun."""
        if i not in self.again:
            self.rerun()
        return self.again.pop(i)

    def rerun(self):
        got: list = []

        def gather(t):
            got.append(t)
            if self.early_stop and len(got) == len(self.saved) and not self.debug:
                raise _Enough
            return len(got) - 1

        def refuse(i):
            raise CheckpointError("torch.utils.checkpoint: backward was called inside a region that is being recomputed for it")

        if self.args is None:
            raise RuntimeError(_FREED)
        args, kwargs = self.inputs()
        # Whoever holds the loss holds this frame, and a held value is an output of the program: let go early.
        self.cts = []
        if not self.retain:
            self.args = self.kwargs = None
        before = modes.saved_hooks, modes.cast, (random_.default._seed, random_.default._count)
        try:
            modes.saved_hooks, modes.cast = (gather, refuse), self.cast
            if self.rng is not None:
                random_.default._seed, random_.default._count = self.rng
            with enable_grad(), self.context:
                self.fn(*args, **kwargs)
        except _Enough:
            pass
        finally:
            modes.saved_hooks, modes.cast = before[:2]
            if self.rng is not None:
                random_.default._seed, random_.default._count = before[2]
        self.verify(got)
        self.again = dict(enumerate(got))

    def inputs(self):
        """The region's arguments as leaves behind the barrier."""
        def opened(x):
            if not isinstance(x, _Kept):
                return x
            t = self.unpack_args(x.packed).detach()
            return t.requires_grad_(True) if x.requires_grad else t
        args, kwargs = _walk(opened, (self.args, self.kwargs)) if self.unpack_args else (self.args, self.kwargs)
        tensors = _leaves((args, kwargs))
        fenced: dict = {}
        with no_grad():
            groups: dict = {}
            for t in (*tensors, *self.cts):
                groups.setdefault(t._v.aval.device, {})[id(t)] = t
            for group in groups.values():
                fenced.update(zip(group, barrier([t.detach() for t in group.values()]), strict=True))
        leaf: dict = {}
        for t in tensors:
            f = leaf[id(t)] = fenced[id(t)]
            if t.requires_grad:
                f.requires_grad_(True)
        return _map(lambda t: leaf[id(t)], (args, kwargs))

    def verify(self, got):
        """Raise CheckpointError unless the rerun saved what forward did."""
        if len(got) != len(self.saved):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.saved)}\n"
                f"Number of tensors saved during recomputation: {len(got)}." + self.detail(got))
        if self.check == "none":
            return
        wrong = [(i, m, _metadata(t)) for i, (m, t) in enumerate(zip(self.saved, got, strict=True)) if m != _metadata(t)]
        if wrong:
            lines = "".join(f"tensor at position {i}:\nsaved metadata: {m}\nrecomputed metadata: {n}\n" for i, m, n in wrong)
            raise CheckpointError("torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                                  f"during the forward pass.\n{lines}." + self.detail(got))

    def detail(self, got):
        if not self.debug:
            return _TIP
        rows = [f"  forward {a}\n  again   {b}" for a, b in
                _zip_longest(self.saved, [_metadata(t) for t in got])]
        return "\n\nWhat was saved, in order:\n" + "\n".join(rows)


class _Kept:
    """An argument in the hands of the enclosing region's hooks."""

    __slots__ = ("packed", "requires_grad")

    def __init__(self, packed, requires_grad):
        self.packed, self.requires_grad = packed, requires_grad


def _walk(fn, x):
    """Like `_map`, over the `_Kept` of a nested structure."""
    if isinstance(x, _Kept):
        return fn(x)
    if type(x) is dict:
        return {k: _walk(fn, v) for k, v in x.items()}
    if type(x) is list:
        return [_walk(fn, v) for v in x]
    if isinstance(x, tuple) and (type(x) is tuple or hasattr(x, "_fields")):
        items = [_walk(fn, v) for v in x]
        return type(x)(*items) if hasattr(x, "_fields") else tuple(items)
    return x


def _zip_longest(a, b):
    n = max(len(a), len(b))
    return list(zip([*a, *[None] * (n - len(a))], [*b, *[None] * (n - len(b))], strict=True))


def checkpoint(function: Callable, *args, use_reentrant: bool | None = None, context_fn: Callable = noop_context_fn,
               determinism_check: str = "default", debug: bool = False, early_stop: bool = True, **kwargs) -> Any:
    """function(*args, **kwargs), whose intermediate results are not kept for backward but computed again in it.

    use_reentrant: both values give the same gradients here, and `autograd.grad` works with either; True keeps torch's
    restrictions (no keyword arguments for function, no gradient unless an argument requires one). preserve_rng_state
    (a keyword, True): the rerun draws the random numbers that forward drew. context_fn: returns two context managers,
    for forward and for the rerun. determinism_check: "default" compares shapes, dtypes and devices of what is saved;
    "none" does not. Autocast is as it was in forward.

    Raises ValueError for foreign keywords, CheckpointError in backward when the rerun saves other tensors than forward.
    Source: the PyTorch page torch.utils.checkpoint.

    Example::

        h = lt.utils.checkpoint.checkpoint(block, h, use_reentrant=False)
    """
    if use_reentrant is None:
        warnings.warn("torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in PyTorch 2.9, calling "
                      "checkpoint without use_reentrant will raise an exception. use_reentrant=False is recommended, but if you need "
                      "to preserve the current default behavior, you can pass use_reentrant=True. Refer to docs for more details on "
                      "the differences between the two variants.", stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if not callable(function):
        raise TypeError(f"checkpoint: the first argument must be callable, got {type(function).__name__}")
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'] but got {determinism_check}")
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        if modes.grad:
            check_backward_validity(args)
            if not any(isinstance(a, Tensor) and a.requires_grad for a in args):
                with no_grad():
                    return function(*args)
    forward_context, recompute_context = context_fn()
    if not modes.grad:
        with forward_context:
            return function(*args, **kwargs)
    debug = _state.debug if _state.debug is not None else debug
    frame = _Frame(function, args, kwargs, preserve, recompute_context, determinism_check, debug, early_stop and _state.early_stop)
    before = modes.saved_hooks
    modes.saved_hooks = frame.pack, frame.unpack
    try:
        with forward_context:
            out = function(*args, **kwargs)
    finally:
        modes.saved_hooks = before
    return _gated(out, frame)


def _gated(out, frame):
    """The outputs with the gate on their tape."""
    tensors = {id(t): t for t in _leaves(out) if t.requires_grad and not t.is_leaf}
    if not tensors or not frame.saved:
        return out
    edges = [e for t in tensors.values() for e in (t.grad_fn, t._oi)]
    gate = _Gate(tuple(edges), len(tensors), frame)
    new = {}
    for k, (i, t) in enumerate(tensors.items()):
        g = wrap(t._value())
        g._gn, g._oi = gate, k
        new[i] = g
    return _map(lambda t: new.get(id(t), t), out)


def checkpoint_sequential(functions, segments: int, input, use_reentrant: bool | None = None, **kwargs):
    """A chain of modules in `segments` parts of equal length, each checkpointed but the last.

    functions: an nn.Sequential, or a list of callables. Raises ValueError for foreign keywords or segments that do not fit."""
    if use_reentrant is None:
        warnings.warn("torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly. In version "
                      "2.9 we will raise an exception if use_reentrant is not passed. use_reentrant=False is recommended, but if you "
                      "need to preserve the current default behavior, you can pass use_reentrant=True. Refer to docs for more "
                      "details on the differences between the two variants.", stacklevel=2)
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)
    if not 1 <= segments <= len(steps):
        raise ValueError(f"checkpoint_sequential: segments must be in [1, {len(steps)}] for {len(steps)} functions, got {segments}")

    def part(start, stop):
        def run(x):
            for f in steps[start:stop]:
                x = f(x)
            return x
        return run

    size = len(steps) // segments
    stop = 0
    for start in range(0, size * (segments - 1), size):
        stop = start + size
        input = checkpoint(part(start, stop), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return part(stop, len(steps))(input)

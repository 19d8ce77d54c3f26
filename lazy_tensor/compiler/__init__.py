"""torch.compile and torch.compiler: a function captured as it runs and replayed as one node of a program.

Rooms: `_reach` (what a function can see), `_alias` (results that share storage), `_watch` (what one run did), `_step` (the
compiled function); each may import those before it.
"""
from __future__ import annotations

import contextlib
from collections.abc import Callable

__all__ = ["allow_in_graph", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling", "is_dynamo_compiling", "list_backends",
           "reset", "set_stance"]


def compile(model: Callable | None = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: str | Callable = "inductor",
            mode: str | None = None, options: dict | None = None, disable: bool = False):
    """A function or module whose recording is captured and then replayed without running Python (torch.compile).

    The first calls run as always and are watched. When two agree (the same operations, tensors read and written, numbers), later
    calls record the whole function as one node: parameters, buffers, gradients, optimizer state, schedules and random state
    are read and written as they are; a whole training step fits. Before each replay what the function can see is compared: shapes,
    dtypes, devices, modes, requires_grad, Python values in arguments, closures, globals and modules; if something differs, the
    function runs and is watched again, and `.explain()` says what it was. Prints, appends to lists and other effects of Python
    keep a function from being captured or happen only while it is watched.

    fullgraph: RuntimeError, with the user's line, when the function cannot be captured (it asks for values, as `.item()` does);
    otherwise such a function is recorded by Python at every call. A module comes back itself, its calls captured; without
    a model, a decorator. mode, options, backend and dynamic are accepted (each new shape is captured once). Raises RuntimeError
    for both mode and options, or for an unknown mode.

    Example::

        @lt.compile
        def step(x, y):
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            return loss
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode not in (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"):
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: default, reduce-overhead, max-autotune, "
                           "max-autotune-no-cudagraphs")
    if model is None:
        return lambda f: compile(f, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable)
    if not callable(model):
        raise TypeError(f"compile: a function or module fits, got {type(model).__name__}")
    if disable:
        return model
    from lazy_tensor.compiler._step import Compiled
    from lazy_tensor.nn.module import Module
    if isinstance(model, Module):
        model.__dict__["_compiled_call_impl"] = Compiled(model._call_impl, fullgraph, type(model).__name__)
        model.__dict__["_orig_mod"] = model
        return model
    return Compiled(model, fullgraph)


def is_compiling() -> bool:
    """False: Python code is never traced by a compiler here."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def disable(fn: Callable | None = None, recursive: bool = True, *, reason: str | None = None):
    """fn itself (a decorator when fn is None): nothing would have been compiled."""
    return fn if fn is not None else (lambda f: f)


def allow_in_graph(fn):
    """fn itself."""
    return fn


assume_constant_result = substitute_in_graph = allow_in_graph


def reset() -> None:
    """Drop every compiled program in memory; the next step compiles again (or reads the disk cache)."""
    from xla_backend import program
    program.forget()


def list_backends(exclude_tags=()) -> list[str]:
    """["xla"]."""
    return ["xla"]


def cudagraph_mark_step_begin() -> None:
    """Nothing: there are no CUDA graphs."""


def set_stance(stance: str = "default", **kwargs):
    """A context (and switch) that changes nothing; ValueError for an unknown stance."""
    known = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile", "aot_eager_then_compile")
    if stance not in known:
        raise ValueError(f"set_stance: stance must be one of {', '.join(known)}, got {stance!r}")
    return contextlib.nullcontext()

"""torch.compile and torch.compiler: every program is compiled by XLA already, so what is given comes back."""
from __future__ import annotations

import contextlib
from collections.abc import Callable

__all__ = ["allow_in_graph", "compile", "cudagraph_mark_step_begin", "disable", "is_compiling", "is_dynamo_compiling", "list_backends",
           "reset", "set_stance"]


def compile(model: Callable | None = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: str | Callable = "inductor",
            mode: str | None = None, options: dict | None = None, disable: bool = False):
    """The function or module itself; without one, a decorator (torch.compile).

    Here every operation is recorded and the whole program compiled by XLA when a value is asked for or a step ends, so
    there is nothing more to compile; Python still runs at each call. The arguments are torch's; mode and backend choose
    among compilers that are not here. Raises RuntimeError for both mode and options, or for an unknown mode."""
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode not in (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"):
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: default, reduce-overhead, max-autotune, "
                           "max-autotune-no-cudagraphs")
    if model is None:
        return lambda f: compile(f, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable)
    if not callable(model):
        raise TypeError(f"compile: a function or module fits, got {type(model).__name__}")
    return model


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

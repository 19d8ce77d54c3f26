"""torch_xla.experimental: eager mode, custom kernels (`custom_kernel`)."""
from __future__ import annotations

import contextlib
import functools

from xla_backend.experimental._eager import eager_mode as eager_mode
from xla_backend.experimental._eager import is_eager_mode as is_eager_mode


@contextlib.contextmanager
def eager_mode_context(enable: bool):
    """`eager_mode(enable)` within a block."""
    before = is_eager_mode()
    eager_mode(enable)
    try:
        yield
    finally:
        eager_mode(before)


def compile(f=None, *, full_graph: bool = False, name: str | None = None, num_different_graphs_allowed: int | None = None):
    """torch_xla.compile, with eager mode off inside."""
    from xla_backend.api import compile as compile_
    if f is None:
        return lambda g: compile(g, full_graph=full_graph, name=name, num_different_graphs_allowed=num_different_graphs_allowed)

    @functools.wraps(f)
    def lazily(*args, **kwargs):
        with eager_mode_context(False):
            return f(*args, **kwargs)
    return compile_(lazily, full_graph, name, num_different_graphs_allowed)

"""Eager mode: every operation is dispatched as it is recorded, instead of at the next sync."""
from __future__ import annotations

from xla_backend import graph, program

_LAZY = graph.PENDING_LIMIT


def eager_mode(enable: bool) -> None:
    """Dispatch each operation at once (True), or record until a sync as usual (False); for the whole process.

    For looking at a program step by step: each operation is then a program of its own, with nothing fused."""
    program.sync_all("eager_mode()")
    graph.PENDING_LIMIT = 1 if enable else _LAZY


def is_eager_mode() -> bool:
    """Whether eager mode is on."""
    return graph.PENDING_LIMIT == 1

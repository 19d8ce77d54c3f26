"""Counters and timers of what the machine did; read through `counter`, `report` and torch_xla's `met` names."""
from __future__ import annotations

import collections
import time
from contextlib import contextmanager

counters: collections.Counter[str] = collections.Counter()
_timers: dict[str, list[float]] = collections.defaultdict(lambda: [0, 0.0])


def add(name: str, n: int = 1) -> None:
    """Add n to a counter."""
    counters[name] += n


def counter(name: str) -> int:
    """The value of a counter (0 when it was never touched).

    Names: `syncs`, `programs` (distinct programs built), `compiles`, `traces` (op configurations traced),
    `cache_hits` (programs found in memory), `disk_hits`, `nodes_run`, `transfers_to_device`,
    `bytes_to_device`, `transfers_from_device`, `bytes_from_device`, `donated_buffers`, `donated_bytes`.
    """
    return counters[name]


@contextmanager
def timer(name: str):
    """Add the block's wall seconds to timer `name`."""
    start = time.perf_counter()
    try:
        yield
    finally:
        t = _timers[name]
        t[0] += 1
        t[1] += time.perf_counter() - start


def seconds(name: str) -> float:
    """Total seconds of a timer: `trace`, `lower`, `compile`, `run` (dispatch)."""
    return _timers[name][1]


def clear() -> None:
    """Set every counter and timer to zero."""
    counters.clear()
    _timers.clear()


def report() -> str:
    """All counters and timers as text, one a line."""
    lines = [f"Counter: {k}\n  Value: {v}" for k, v in sorted(counters.items())]
    lines += [f"Metric: {k}\n  TotalSamples: {n}\n  Accumulator: {1e3 * s:.3f}ms" for k, (n, s) in sorted(_timers.items())]
    return "\n".join(lines) + "\n"

"""torch_xla.debug.metrics over `xla_backend.metrics`: counters, timers, reports."""
from __future__ import annotations

import os

from xla_backend import metrics as _metrics

# torch_xla's names for what is counted here, so that scripts which look for them find them.
_COUNTERS = {"UncachedCompile": "compiles", "CachedCompile": "cache_hits", "MarkStep": "syncs"}
_TIMERS = {"CompileTime": "compile", "ExecuteTime": "run"}


def counter_names() -> list[str]:
    """The names of all counters."""
    return sorted(_metrics.counters)


def counter_value(name: str) -> int | None:
    """A counter's value; None when there is no such counter. torch_xla's `UncachedCompile`, `CachedCompile` and
    `MarkStep` are understood."""
    name = _COUNTERS.get(name, name)
    return _metrics.counters[name] if name in _metrics.counters else None


def metric_names() -> list[str]:
    """The names of all timers."""
    return sorted(_metrics._timers)


def metric_data(name: str):
    """(number of samples, total in nanoseconds, ()) of a timer; None when there is no such one. `CompileTime` and
    `ExecuteTime` are understood. Single samples are not kept, so the third item is empty."""
    t = _metrics._timers.get(_TIMERS.get(name, name))
    return None if t is None else (t[0], t[1] * 1e9, ())


def metrics_report() -> str:
    """All counters and timers as text."""
    return _metrics.report()


def short_metrics_report(counter_names: list | None = None, metric_names: list | None = None) -> str:
    """Some counters and timers as text: compiles, hits, syncs, transfers and their times unless names are given."""
    counters = counter_names or ["compiles", "cache_hits", "syncs", "transfers_to_device", "transfers_from_device"]
    timers = metric_names or ["trace", "lower", "compile", "run"]
    lines = [f"Counter: {n}\n  Value: {v}" for n in counters if (v := counter_value(n)) is not None]
    lines += [f"Metric: {n}\n  TotalSamples: {d[0]}\n  Accumulator: {d[1] / 1e6:.3f}ms" for n in timers
              if (d := metric_data(n)) is not None]
    return "\n".join(lines) + "\n"


def clear_counters() -> None:
    """Set every counter to zero."""
    _metrics.counters.clear()


def clear_metrics() -> None:
    """Set every timer to zero."""
    _metrics._timers.clear()


def clear_all() -> None:
    """Set everything to zero."""
    _metrics.clear()


def executed_fallback_ops() -> list[str]:
    """Ops that ran on the host because the device has none: there are no such ops here."""
    return []


def save_metrics(metrics_file: str | None = None) -> None:
    """Append the report to a file (the one that XLA_METRICS_FILE names when not given)."""
    path = metrics_file or os.environ.get("XLA_METRICS_FILE")
    if path:
        with open(path, "a") as f:
            f.write(f"[MetricsData]\n{metrics_report()}\n")

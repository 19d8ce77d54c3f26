"""torch.profiler over jax.profiler: traces for TensorBoard and Perfetto, named spans, and a table of what the machine did."""
from __future__ import annotations

import contextlib
import enum
import glob
import gzip
import os
import shutil
import tempfile
import time
from collections.abc import Callable

import jax

from lazy_tensor import settings
from xla_backend import metrics

__all__ = ["ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function", "schedule", "supported_activities",
           "tensorboard_trace_handler"]


class ProfilerActivity(enum.Enum):
    """What to trace: jax traces the host and the device together, whatever is chosen."""

    CPU = 0
    CUDA = 1
    XPU = 2
    MTIA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """What the profiler does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set:
    """{CPU}: the host; the device's work is in the trace as well."""
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """False: traces are jax's."""
    return False


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0,
             acc_events: bool = False) -> Callable[[int], ProfilerAction]:
    """A function from step number to action: skip, then cycles of wait, warmup and active steps (repeat 0: for ever)."""
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(f"Invalid profiler schedule arguments: wait={wait}, warmup={warmup}, active={active}, repeat={repeat}, "
                             f"skip_first={skip_first}; active must be positive and the others not negative")

    def action(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        if repeat > 0 and step // length >= repeat:
            return ProfilerAction.NONE
        at = step % length
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if at == length - 1 else ProfilerAction.RECORD
    return action


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False):
    """An `on_trace_ready` that copies each trace into dir_name, where TensorBoard's profile page finds it."""
    def handler(p):
        shutil.copytree(p.folder, dir_name, dirs_exist_ok=True)
    return handler


_spans: dict[str, list] = {}
_recording = [0]


class record_function(contextlib.ContextDecorator):
    """A named span in the trace and in `key_averages`; a context manager and a decorator."""

    def __init__(self, name: str, args: str | None = None):
        self.name = name

    def _recreate_cm(self):
        return record_function(self.name)

    def __enter__(self):
        self._span = jax.profiler.TraceAnnotation(self.name)
        self._span.__enter__()
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exc):
        if _recording[0]:
            row = _spans.setdefault(self.name, [0, 0.0])
            row[0] += 1
            row[1] += time.perf_counter() - self._start
        return self._span.__exit__(*exc)


class FunctionEventAvg:
    """A row of the table: a span or one of the machine's timers or counters; times in microseconds."""

    def __init__(self, key, count, cpu_time_total):
        self.key, self.count, self.cpu_time_total = key, count, cpu_time_total
        self.self_cpu_time_total = cpu_time_total

    @property
    def cpu_time(self):
        """Microseconds each."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def __repr__(self):
        return f"<FunctionEventAvg key={self.key} count={self.count} cpu_time={self.cpu_time:.3f}us>"


class EventList(list):
    """The rows of `key_averages`."""

    def table(self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75, max_name_column_width: int = 55,
              max_shapes_column_width: int = 80, header: str | None = None, top_level_events_only: bool = False) -> str:
        """The rows as text. sort_by: "cpu_time_total", "cpu_time", "count" or "key"; other names of torch's mean the total time."""
        key = sort_by if sort_by in ("cpu_time", "count", "key") else "cpu_time_total"
        rows = self if sort_by is None else sorted(self, key=lambda r: getattr(r, key), reverse=key != "key")
        width = min(max([len(r.key) for r in rows] + [4]), max_name_column_width)
        line = f"{'-' * width}  {'-' * 14}  {'-' * 14}  {'-' * 12}"
        out = [header] if header else []
        out += [line, f"{'Name':<{width}}  {'CPU total':>14}  {'CPU time avg':>14}  {'# of Calls':>12}", line]
        for r in rows[:row_limit if row_limit >= 0 else None]:
            total, each = (f"{r.cpu_time_total / 1e3:.3f}ms", f"{r.cpu_time / 1e3:.3f}ms") if r.cpu_time_total is not None else ("", "")
            out.append(f"{r.key[:width]:<{width}}  {total:>14}  {each:>14}  {r.count:>12}")
        return "\n".join([*out, line]) + "\n"

    __str__ = table

    def total_average(self):
        """One row that sums all."""
        return FunctionEventAvg("Total", sum(r.count for r in self), sum(r.cpu_time_total for r in self))


class profile:
    """Profiles a block, or the steps that `schedule` picks (`step()` after each) (torch.profiler.profile).

    activities, record_shapes, profile_memory, with_stack, with_flops, with_modules: accepted; jax's trace always has host and
    device, operations and source lines. on_trace_ready(profile): called when a trace is complete.

    Example::

        with lt.profiler.profile() as p:
            train_step()
        print(p.key_averages().table(row_limit=10))
        p.export_chrome_trace("trace.json")
    """

    def __init__(self, *, activities=None, schedule=None, on_trace_ready=None, record_shapes=False, profile_memory=False,
                 with_stack=False, with_flops=False, with_modules=False, experimental_config=None, execution_trace_observer=None,
                 acc_events=False, use_cuda=None, custom_trace_id_callback=None):
        self.activities = set(activities) if activities else supported_activities()
        self._schedule = schedule or (lambda step: ProfilerAction.RECORD)
        self._ready = on_trace_ready
        self.step_num, self.folder = 0, None
        self._on = False
        self._rows = EventList()

    def start(self):
        """Begin; what was recorded before is dispatched first."""
        self._action = self._schedule(self.step_num)
        if self._action in _RECORDS:
            self._begin()

    def stop(self):
        """End, once the devices are done."""
        if self._on:
            self._end()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self.stop()

    def step(self):
        """The end of a step."""
        before = self._action
        self.step_num += 1
        self._action = self._schedule(self.step_num)
        if self._on:
            settings.sync()
        if self._on and (before is ProfilerAction.RECORD_AND_SAVE or self._action not in _RECORDS):
            self._end()
        if not self._on and self._action in _RECORDS:
            self._begin()

    def _begin(self):
        settings.sync(wait=True)
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder = tempfile.mkdtemp(prefix="lazy_tensor_trace_")
        if not _recording[0]:
            _spans.clear()
        _recording[0] += 1
        self._counters, self._timers = dict(metrics.counters), {k: tuple(v) for k, v in metrics._timers.items()}
        self._start = time.perf_counter()
        jax.profiler.start_trace(self.folder)
        self._on = True

    def _end(self):
        settings.sync(wait=True)
        self._on = False
        _recording[0] -= 1
        jax.profiler.stop_trace()
        rows = [FunctionEventAvg("[profiled]", 1, 1e6 * (time.perf_counter() - self._start))]
        rows += [FunctionEventAvg(k, n, 1e6 * s) for k, (n, s) in _spans.items()]
        for k, (n, s) in metrics._timers.items():
            n0, s0 = self._timers.get(k, (0, 0.0))
            if n > n0:
                rows.append(FunctionEventAvg(f"xla::{k}", n - n0, 1e6 * (s - s0)))
        for k, n in metrics.counters.items():
            if n > self._counters.get(k, 0):
                rows.append(FunctionEventAvg(f"xla::{k} (count)", n - self._counters.get(k, 0), 0.0))
        self._rows = EventList(rows)
        if self._ready is not None:
            self._ready(self)

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False) -> EventList:
        """Rows of the last trace: spans of `record_function`, the machine's timers (trace, lower, compile, run) and counters."""
        return self._rows

    def events(self) -> EventList:
        """The same rows."""
        return self._rows

    def export_chrome_trace(self, path: str) -> None:
        """Write the last trace as JSON for Perfetto or chrome://tracing (gzipped when path ends in .gz)."""
        found = sorted(glob.glob(os.path.join(self.folder or "", "**", "*.trace.json.gz"), recursive=True))
        if self.folder is None or not found:
            raise RuntimeError("export_chrome_trace: there is no trace; run the profiler first")
        if path.endswith(".gz"):
            shutil.copyfile(found[-1], path)
            return
        with gzip.open(found[-1]) as f, open(path, "wb") as out:
            shutil.copyfileobj(f, out)

    def __del__(self):
        folder = self.__dict__.get("folder")
        if folder is not None and shutil is not None:
            shutil.rmtree(folder, ignore_errors=True)


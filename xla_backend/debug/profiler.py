"""torch_xla.debug.profiler over jax.profiler: a server for TensorBoard, traces to a folder, named spans."""
from __future__ import annotations

import functools
import threading
import time

import jax


def start_server(port: int, only_on_master: bool = True):
    """Start jax's profiler server on a port; returns the server, which lives until it is dropped by `stop_server`.

    TensorBoard's "capture profile" and `python -m jax.collect_profile PORT MS` connect to it."""
    return jax.profiler.start_server(port)


def stop_server() -> None:
    """Stop the profiler server."""
    jax.profiler.stop_server()


def start_trace(log_dir: str) -> None:
    """Begin to write a trace into a folder that TensorBoard reads."""
    jax.profiler.start_trace(log_dir)


def stop_trace() -> None:
    """End the trace and write it."""
    jax.profiler.stop_trace()


def trace(service_addr: str, logdir: str, tracer_level: int = 2, device: int | str = "", duration_ms: int = 1000,
          num_tracing_attempts: int = 3, host_tracer_level: int = 2, delay_ms: int = 0, timeout_s: int = 120,
          interactive: bool | list = False) -> None:
    """Trace this process for duration_ms (after delay_ms) into logdir; blocks meanwhile.

    service_addr: `localhost:PORT` of this process. Raises NotImplementedError for another machine's."""
    _local(service_addr)
    if delay_ms:
        time.sleep(delay_ms / 1000)
    with jax.profiler.trace(logdir):
        time.sleep(duration_ms / 1000)


def trace_detached(service_addr: str, logdir: str, tracer_level: int = 2, device: int | str = "", duration_ms: int = 1000,
                   num_tracing_attempts: int = 3, host_tracer_level: int = 2, delay_ms: int = 0, timeout_s: int = 120,
                   interactive: bool | list = False) -> threading.Thread:
    """`trace` in a thread of its own; returns the thread."""
    _local(service_addr)
    t = threading.Thread(target=trace, args=(service_addr, logdir), kwargs={"duration_ms": duration_ms, "delay_ms": delay_ms},
                         daemon=True, name="xla_backend trace")
    t.start()
    return t


def _local(service_addr):
    host = service_addr.removeprefix("grpc://").rsplit(":", 1)[0]
    if host not in ("localhost", "127.0.0.1", "0.0.0.0", "[::1]", "::1", ""):
        raise NotImplementedError(f"trace: {service_addr} is not this process; run `python -m jax.collect_profile` on a machine that "
                                  "reaches it, or TensorBoard's capture button")


class _Span:
    """A named span of the trace: a context manager and a decorator."""

    def __enter__(self):
        self._open = self._make()
        self._open.__enter__()
        return self

    def __exit__(self, *exc):
        return self._open.__exit__(*exc)

    def __call__(self, fn):
        @functools.wraps(fn)
        def call(*args, **kw):
            with self._make():
                return fn(*args, **kw)
        return call


class Trace(_Span):
    """A named span on the host's line of the trace, and the name's scope for a reader: `with Trace("forward"): ...`."""

    def __init__(self, name: str, **kwargs):
        self.name, self.kwargs = name, kwargs

    def _make(self):
        return jax.profiler.TraceAnnotation(self.name, **self.kwargs)


class StepTrace(_Span):
    """One training step in the trace: `with StepTrace("train", step_num=i): ...`; syncs at its end, as torch_xla does."""

    def __init__(self, name: str = "train", *, step_num: int = 0, **kwargs):
        self.name, self.kwargs = name, {"step_num": step_num, **kwargs}

    def _make(self):
        return jax.profiler.StepTraceAnnotation(self.name, **self.kwargs)

    def __exit__(self, *exc):
        if exc[0] is None:
            from xla_backend.core.xla_model import mark_step
            mark_step()
        return super().__exit__(*exc)


def trace_me(scope: str) -> Trace:
    """A decorator that names a function's span."""
    return Trace(scope)

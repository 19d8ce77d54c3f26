"""torch_xla's top-level functions: device, devices, sync, step, compile, launch, manual_seed."""
from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import wraps

from xla_backend import metrics, program, runtime


def device(index: int | None = None):
    """The XLA device `xla:index` (the thread's default when None)."""
    from xla_backend.core.xla_model import xla_device
    return xla_device(index)


def devices() -> list:
    """Every XLA device of this process."""
    return [device(i) for i in range(device_count())]


def real_devices() -> list[str]:
    """["TPU:0", ...]: the hardware behind `devices()`."""
    from xla_backend.core.xla_model import xla_real_devices
    return xla_real_devices()


def device_count() -> int:
    """The number of XLA devices of this process."""
    return len(runtime.xla_devices())


def sync(wait: bool = False, reset_scope: bool = True) -> None:
    """Dispatch everything recorded and run step closures. wait: until the devices are done."""
    from xla_backend.core.xla_model import mark_step
    mark_step(wait=wait, reset_scope=reset_scope)


@contextlib.contextmanager
def step():
    """A training step as a block: what was recorded before it runs apart, and it is dispatched at its end."""
    sync()
    try:
        yield
    finally:
        sync()


def manual_seed(seed: int, device=None) -> None:
    """Start the random stream from a seed; the numbers are the same on every device."""
    from xla_backend.core.xla_model import set_rng_state
    set_rng_state(seed, device)


def launch(fn: Callable, args: tuple = (), start_method: str = "spawn", debug_single_process: bool = False) -> None:
    """fn(ordinal, *args) in every replica, one on each core (only the first with debug_single_process)."""
    from xla_backend.distributed.xla_multiprocessing import spawn
    spawn(fn, args=args, nprocs=1 if debug_single_process else None, start_method=start_method)


class _Compiled(contextlib.ContextDecorator):
    """A block, or a function's calls, as programs of their own (see `compile`)."""

    def __init__(self, full_graph, name, limit):
        self.full_graph, self.name, self.limit = full_graph, name or "the compiled block", limit
        self.graphs = 0

    def _recreate_cm(self):
        return self

    def __enter__(self):
        program.sync_all("torch_xla.compile()")
        self.syncs, self.compiles = metrics.counter("syncs"), metrics.counter("compiles")
        return self

    def __exit__(self, kind, *exc):
        if kind is not None:
            return
        if self.full_graph and metrics.counter("syncs") != self.syncs:
            raise RuntimeError(f"torch_xla.compile: {self.name} with full_graph=True made more than one program: a value was asked for "
                               "inside it (item, numpy, print, bool, ...). lt.explain() says where")
        from xla_backend.core.xla_model import mark_step
        mark_step()
        self.graphs += metrics.counter("compiles") - self.compiles
        if self.limit is not None and self.graphs > self.limit:
            raise RuntimeError(f"torch_xla.compile: {self.name} has made {self.graphs} programs, {self.limit} are allowed. "
                               "lt.explain() says how they differ")


def compile(f: Callable | None = None, full_graph: bool = False, name: str | None = None,
            num_different_graphs_allowed: int | None = None):
    """A function (or, without f, a block or decorator) whose work is dispatched at its end, as programs of its own.

    full_graph: RuntimeError when a value is asked for inside. num_different_graphs_allowed: RuntimeError when more distinct
    programs than that are compiled.

    Example::

        @torch_xla.compile
        def step(x, y): ...
    """
    block = _Compiled(full_graph, name or getattr(f, "__name__", None), num_different_graphs_allowed)
    if f is None:
        return block

    @wraps(f)
    def call(*args, **kwargs):
        with block:
            return f(*args, **kwargs)
    return call

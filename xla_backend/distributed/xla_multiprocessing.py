"""torch_xla.distributed.xla_multiprocessing (`xmp`): run a function in every replica, threads of this process."""
from __future__ import annotations

import threading

from absl import logging

from xla_backend import replicas, runtime


def spawn(fn, args=(), nprocs: int | None = None, join: bool = True, daemon: bool = False, start_method: str = "spawn"):
    """fn(ordinal, *args) in every replica, one on each core; raises the first error, with its replica noted.

    nprocs: how many (every core when None). More than this process has cores become as many as there are, except on CPU before
    the first use of a device, where that many virtual cores are made. Replicas are threads of this process whatever start_method
    says, so functions and models from a notebook work as they are. In a replica (of the launcher's, say) fn runs in that one.
    join=False runs it in the background and returns that thread."""
    if nprocs is not None and nprocs < 1:
        raise ValueError(f"xmp.spawn: nprocs must be at least 1, got {nprocs}")
    if start_method not in ("spawn", "fork", "forkserver"):
        raise ValueError(f"xmp.spawn: start_method must be spawn, fork or forkserver, got {start_method!r}")
    here = replicas.current()
    if here is not None:  # the launcher's world: each replica calls spawn itself
        if nprocs not in (None, 1, here[1].size):
            logging.warning("xmp.spawn(nprocs=%d): this is one of %d replicas already, so the function runs in these", nprocs, here[1].size)
        fn(here[0], *args)
        return None
    n = runtime.cores(nprocs)
    if nprocs is not None and n < nprocs:
        logging.warning("xmp.spawn(nprocs=%d): this process has %d core(s), so %d replica(s) run; on CPU `python -m xla_backend.launch "
                        "--nprocs %d script.py` makes virtual cores", nprocs, n, n, nprocs)
    if join:
        replicas.run(fn, args, n)
        return None
    t = threading.Thread(target=replicas.run, args=(fn, args, n), daemon=daemon, name="xla_backend spawn")
    t.start()
    return t


class MpModelWrapper:
    """Holds a model made before `spawn`; `to(device)` moves it in the replica."""

    def __init__(self, model):
        self._model, self._lock = model, threading.Lock()

    def to(self, device):
        """The model on a device."""
        with self._lock:
            self._model.to(device)
        return self._model


class MpSerialExecutor:
    """Runs a function in one replica after another, such as a download."""

    def __init__(self):
        self._lock = threading.Lock()

    def run(self, fn):
        """fn(), nobody else in it."""
        with self._lock:
            return fn()

"""torch_xla.distributed.xla_multiprocessing (`xmp`): run a function in every replica; there is one for now."""
from __future__ import annotations

import threading


def spawn(fn, args=(), nprocs: int | None = None, join: bool = True, daemon: bool = False, start_method: str = "spawn"):
    """fn(0, *args), in this process.

    nprocs: None (all devices) or 1. Raises NotImplementedError for more: several cores come with the multi-core work.
    join=False runs it in a thread and returns that thread."""
    if nprocs not in (None, 1):
        raise NotImplementedError(f"xmp.spawn: nprocs={nprocs} asks for {nprocs} replicas, and running several cores at once is not there "
                                  "yet (it comes with the multi-core issue: replicas over a mesh); nprocs=None or 1 runs on one core")
    if join:
        fn(0, *args)
        return None
    t = threading.Thread(target=fn, args=(0, *args), daemon=daemon, name="xla_backend replica 0")
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

"""torch.multiprocessing: Python's multiprocessing (tensors are pickled by value), and `spawn`."""
from __future__ import annotations

import multiprocessing as _mp
from multiprocessing import *  # noqa: F403
from multiprocessing import get_context
from typing import Any

_strategy = ["file_descriptor"]


def set_sharing_strategy(new_strategy: str) -> None:
    """Noted: tensors go between processes by value, through no shared files. ValueError for an unknown name."""
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(f"sharing strategy must be one of {sorted(get_all_sharing_strategies())}, got {new_strategy!r}")
    _strategy[0] = new_strategy


def get_sharing_strategy() -> str:
    """The name that was set."""
    return _strategy[0]


def get_all_sharing_strategies() -> set:
    """The names that torch knows."""
    return {"file_descriptor", "file_system"}


class ProcessException(Exception):
    """A process that `spawn` started has failed."""

    def __init__(self, msg: str, error_index: int, pid: int):
        super().__init__(msg)
        self.error_index, self.error_pid = error_index, pid


class ProcessRaisedException(ProcessException):
    """It raised: the message holds its traceback."""


class ProcessExitedException(ProcessException):
    """It ended with a code or a signal."""

    def __init__(self, msg, error_index, pid, exit_code):
        super().__init__(msg, error_index, pid)
        self.exit_code = exit_code


def _run(fn, i, args, errors):
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        return
    except BaseException:
        import sys
        import traceback
        errors.put(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """The processes of a `spawn`: `join()` waits for them."""

    def __init__(self, processes, errors):
        self.processes, self._errors = processes, errors

    def pids(self):
        """Their process ids."""
        return [p.pid for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """True once all have ended well; False at the timeout; raises when one failed (the others are stopped)."""
        from multiprocessing.connection import wait
        alive = [p for p in self.processes if p.is_alive()]
        if alive:
            wait([p.sentinel for p in alive], timeout)
        for i, p in enumerate(self.processes):
            if p.exitcode not in (None, 0):
                text = self._errors[i].get() if not self._errors[i].empty() else None
                for q in self.processes:
                    if q.is_alive():
                        q.terminate()
                for q in self.processes:
                    q.join()
                if text is not None:
                    raise ProcessRaisedException(f"\n\n-- Process {i} terminated with the following error:\n{text}", i, p.pid)
                raise ProcessExitedException(f"process {i} terminated with exit code {p.exitcode}", i, p.pid, p.exitcode)
        return not any(p.is_alive() for p in self.processes)


def start_processes(fn, args=(), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn"):
    """Run fn(i, *args) in nprocs processes; waits for them and raises when one fails, or returns their context (join=False)."""
    mp: Any = get_context(start_method)
    errors = [mp.SimpleQueue() for _ in range(nprocs)]
    processes = []
    for i in range(nprocs):
        p = mp.Process(target=_run, args=(fn, i, args, errors[i]), daemon=daemon)
        p.start()
        processes.append(p)
    context = ProcessContext(processes, errors)
    if not join:
        return context
    while not context.join():
        pass
    return None


def spawn(fn, args=(), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn"):
    """`start_processes` with fresh interpreters (torch.multiprocessing.spawn)."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


SpawnContext = ProcessContext
__all__ = [*_mp.__all__, "set_sharing_strategy", "get_sharing_strategy", "get_all_sharing_strategies", "spawn", "start_processes",
           "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "SpawnContext"]

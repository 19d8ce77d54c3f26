"""The loader's side of its workers: processes that are started fresh (never forked from a live runtime), or threads."""
from __future__ import annotations

import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
import weakref
from multiprocessing import spawn

from lazy_tensor.utils.data._utils import fetch, wire, worker

_GRACE = 2.0  # seconds that a worker has to end by itself


class Dead:
    """A worker process ended without being asked to."""

    def __init__(self, number):
        self.number = number


class Move:
    """Batches to a device, or objects that pin themselves pinned, as soon as they arrive."""

    def __init__(self, device, pin):
        self.device, self.pin = device, pin

    def __call__(self, data):
        from lazy_tensor.tensor import Tensor
        if isinstance(data, Tensor):
            return data if self.device is None else data.to(self.device)
        if isinstance(data, (str, bytes)):
            return data
        if isinstance(data, dict):
            moved = {k: self(v) for k, v in data.items()}
            return moved if type(data) is dict else type(data)(moved) if not hasattr(data, "default_factory") else moved
        if isinstance(data, tuple):
            return type(data)(*map(self, data)) if hasattr(data, "_fields") else tuple(map(self, data))
        if isinstance(data, list):
            return [self(x) for x in data]
        if self.pin and hasattr(data, "pin_memory"):
            data = data.pin_memory()
        return data.to(self.device) if self.device is not None and hasattr(data, "to") else data


def _unfit(payload):
    """Why a pickled job could not be read in another process; None when it can."""
    if b"__main__" not in payload:
        return None
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None)
    if path is None or "get_ipython" in vars(main) or not os.path.exists(path):
        return "the data set (or a function given to the loader) is defined in a notebook or an interactive session, where another " \
               "process cannot import it; move it into a module to have worker processes"
    with open(path, "rb") as f:
        if b"__name__" not in f.read():
            return f"{path} defines the data set and has no `if __name__ == '__main__':`, so a worker that imported it would run the " \
                   "whole script again; add the guard to have worker processes"
    return None


_warned: set[str] = set()


def warn_once(text):
    """A warning that is given once in a process."""
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, stacklevel=4)


def start(job, num_workers, base_seed, move):
    """A pool for a job: processes, or threads (with one warning that says why) when the job cannot go to a process."""
    if not hasattr(socket, "socketpair") or os.name != "posix":
        why = "worker processes need a POSIX system"
    else:
        try:
            payload = pickle.dumps(job, 5)
            why = _unfit(payload)
        except Exception as e:
            why = f"the data set (or a function given to the loader) cannot be pickled: {type(e).__name__}: {e}"
    if why is None:
        pool = Processes(payload, num_workers, base_seed, move)
        why = pool.failed
        if why is None:
            return pool
        pool.close()
    warn_once(f"DataLoader: workers run as threads, not processes: {why}")
    return Threads(job, num_workers, base_seed, move)


class Processes:
    """Worker processes, each at the other end of a socket; a reader thread for each puts what arrives into `results`."""

    def __init__(self, payload, num_workers, base_seed, move):
        self.results = queue.Queue()
        self.socks, self.procs, self.failed = [], [], None
        self.end = weakref.finalize(self, _shutdown, self.socks, self.procs)
        preparation = spawn.get_preparation_data("DataLoader worker")
        preparation["authkey"] = bytes(preparation["authkey"])  # its own type refuses to be pickled
        if b"__main__" not in payload:
            preparation = {k: v for k, v in preparation.items() if not k.startswith("init_main")}
        paths = [p or os.getcwd() for p in sys.path]
        for i in range(num_workers):
            ours, theirs = socket.socketpair()
            env = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_BACKEND_DEVICE": "CPU", "LAZY_TENSOR_WORKER": str(i)}
            for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
                env.setdefault(name, "1")
            code = (f"import sys; sys.path[:] = {paths!r}; from lazy_tensor.utils.data._utils.worker import main; "
                    f"main({theirs.fileno()})")
            self.socks.append(ours)
            self.procs.append(subprocess.Popen([spawn.get_executable() or sys.executable, "-c", code], env=env,
                                               stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),)))
            theirs.close()
        for i, sock in enumerate(self.socks):
            self.talk(i, lambda s=sock, n=i: wire.send(s, wire.dumps((preparation, payload, n, num_workers, base_seed))))
        for i, sock in enumerate(self.socks):
            state, detail = self.talk(i, lambda s=sock: wire.receive(s))
            if state == "failed":
                self.failed = f"a worker process could not read it:\n{detail}"
                return
        for i, sock in enumerate(self.socks):
            threading.Thread(target=_reader, args=(sock, i, self.results, move), daemon=True, name=f"DataLoader reader {i}").start()

    def talk(self, i, act):
        """A step of starting up; RuntimeError when the worker is gone."""
        try:
            return act()
        except (EOFError, ConnectionError) as e:
            raise RuntimeError(f"DataLoader worker {i} could not start: {self.post_mortem(i)}") from e

    def post_mortem(self, i):
        """How worker i ended, in words."""
        p = self.procs[i]
        try:
            code = p.wait(1.0)
        except subprocess.TimeoutExpired:
            return f"pid {p.pid} closed its connection"
        if code is not None and code < 0:
            names = {int(s): s.name for s in signal.Signals}
            hint = " (the system may be out of memory)" if -code == signal.SIGKILL else ""
            return f"pid {p.pid} was killed by signal: {names.get(-code, -code)}{hint}"
        return f"pid {p.pid} exited with exit code {code}"

    def send(self, i, request):
        """A request to worker i."""
        try:
            wire.send(self.socks[i], wire.dumps(request))
        except (BrokenPipeError, ConnectionError, OSError):
            self.results.put(Dead(i))

    def close(self):
        """End the workers."""
        self.end()


def _reader(sock, i, results, move):
    try:
        while True:
            message = wire.receive(sock)
            results.put(message if move is None else _moved(message, move))
    except (EOFError, OSError):
        results.put(Dead(i))
    except BaseException:
        results.put((None, None, fetch.Failure(f"while reading from DataLoader worker process {i}")))


def _moved(message, move):
    epoch, number, data = message
    if isinstance(data, (fetch.Failure, worker.Ended)):
        return message
    try:
        return epoch, number, move(data)
    except Exception:
        return epoch, number, fetch.Failure("while moving a batch to its device")


def _shutdown(socks, procs):
    for s in socks:
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the worker is gone already
        s.close()
    until = time.monotonic() + _GRACE
    for p in procs:
        try:
            p.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            p.terminate()
    until = time.monotonic() + 1.0
    for p in procs:
        try:
            p.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            p.kill()
            p.wait()


class Threads:
    """Worker threads over the loader's own data set; Python's and NumPy's global random state is left alone."""

    def __init__(self, job, num_workers, base_seed, move):
        self.results = queue.Queue()
        self.requests = [queue.Queue() for _ in range(num_workers)]
        self.end = weakref.finalize(self, _hang_up, self.requests)
        for i, q in enumerate(self.requests):
            results = self.results
            reply = results.put if move is None else lambda m, r=results: r.put(_moved(m, move))
            threading.Thread(target=worker.run, daemon=True, name=f"DataLoader worker {i}",
                             args=(job, i, num_workers, base_seed, q.get, reply, f"in DataLoader worker thread {i}", False)).start()

    def send(self, i, request):
        """A request to worker i."""
        self.requests[i].put(request)

    def close(self):
        """End the workers."""
        self.end()


def _hang_up(requests):
    for q in requests:
        q.put(None)

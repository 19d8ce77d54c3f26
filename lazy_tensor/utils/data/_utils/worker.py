"""A worker's side: what a child process (or a thread) does with a data set, and what it can ask about itself."""
from __future__ import annotations

import os
import pickle
import random
import sys
import threading

import numpy as np

from lazy_tensor.utils.data._utils import fetch

_local = threading.local()


class WorkerInfo:
    """`id`, `num_workers`, `seed` (base_seed + id) and `dataset` (this worker's copy) of a worker."""

    def __init__(self, id, num_workers, seed, dataset):
        self.id, self.num_workers, self.seed, self.dataset = id, num_workers, seed, dataset

    def __repr__(self):
        return f"WorkerInfo(id={self.id}, num_workers={self.num_workers}, seed={self.seed}, dataset={self.dataset})"


def get_worker_info() -> WorkerInfo | None:
    """Which worker this is; None in the main process (torch.utils.data.get_worker_info)."""
    return getattr(_local, "info", None)


class Ended:
    """A worker's stream has no more samples."""


class Job:
    """What workers need: the data set and how to fetch from it."""

    def __init__(self, dataset, iterable, auto_collation, collate_fn, drop_last, worker_init_fn):
        self.dataset, self.iterable, self.auto_collation = dataset, iterable, auto_collation
        self.collate_fn, self.drop_last, self.worker_init_fn = collate_fn, drop_last, worker_init_fn

    def fetcher(self):
        """A new pass over the data set."""
        kind = fetch.IterableFetcher if self.iterable else fetch.MapFetcher
        return kind(self.dataset, self.auto_collation, self.collate_fn, self.drop_last)


def run(job, worker_id, num_workers, base_seed, receive, reply, where, own_process):
    """Serve requests until the other side is gone.

    A request is (epoch, number, index), or (epoch, base_seed) for a new pass; the reply is (epoch, number, batch)."""
    seed = base_seed + worker_id
    if own_process:
        _seed(base_seed, worker_id)
    _local.info = WorkerInfo(worker_id, num_workers, seed, job.dataset)
    failure = fetcher = None
    try:
        if job.worker_init_fn is not None:
            job.worker_init_fn(worker_id)
        fetcher = job.fetcher()
    except Exception:
        failure = fetch.Failure(where)
    while True:
        request = receive()
        if request is None:
            return
        if len(request) == 2:
            _local.info.seed = request[1] + worker_id
            if own_process:
                _seed(request[1], worker_id)
            try:
                fetcher, failure = job.fetcher(), None
            except Exception:
                failure = fetch.Failure(where)
            continue
        epoch, number, index = request
        if failure is not None:
            data, failure = failure, None
        else:
            try:
                data = fetcher.fetch(index)
            except StopIteration:
                data = Ended() if job.iterable else fetch.Failure(where)
            except Exception:
                data = fetch.Failure(where)
        reply((epoch, number, data))
        del data


def _seed(base_seed, worker_id):
    """Seeds of Python, NumPy and this library, different in every worker."""
    from lazy_tensor import manual_seed
    random.seed(base_seed + worker_id)
    manual_seed((base_seed + worker_id) % 2**63)
    np.random.seed(np.random.SeedSequence([base_seed, worker_id]).generate_state(4))


def main(fd):
    """Entry of a worker process: the set-up arrives on the socket `fd`, then requests do."""
    import signal
    import socket
    from multiprocessing import spawn

    from lazy_tensor.utils.data._utils import wire

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers
    sock = socket.socket(fileno=fd)
    where = f"in DataLoader worker process {os.environ.get('LAZY_TENSOR_WORKER', '?')}"
    try:
        preparation, payload, worker_id, num_workers, base_seed = wire.receive(sock)
        try:
            spawn.prepare(preparation)
            job = pickle.loads(payload)
        except BaseException:
            wire.send(sock, wire.dumps(("failed", fetch.Failure(where).text)))
            return
        wire.send(sock, wire.dumps(("ready", os.getpid())))

        def receive():
            try:
                return wire.receive(sock)
            except (EOFError, ConnectionError):
                return None

        def reply(message):
            try:
                parts = wire.dumps(message)
            except Exception:
                failure = fetch.Failure(where)  # the batch (or the exception's type) cannot be pickled
                if isinstance(message[2], fetch.Failure):
                    failure = message[2]
                    failure.kind = RuntimeError
                elif failure.kind.__module__ == "__main__":
                    failure.kind = RuntimeError
                parts = wire.dumps((*message[:2], failure))
            wire.send(sock, parts)
        run(job, worker_id, num_workers, base_seed, receive, reply, where, own_process=True)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)  # nothing to tear down, and the parent waits for this
    except (EOFError, ConnectionError):
        pass  # the parent is gone: nothing left to do
    finally:
        sock.close()

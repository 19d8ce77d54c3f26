"""Worker processes of the launcher: started together, ended together, their output passed on."""
from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from xla_backend import _jax, processes

GRACE = 4.0  # seconds that the others have, after one has failed, to say what that did to them
KILL = 3.0   # seconds between SIGTERM and SIGKILL


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens at now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def supervise(command, local, first=0, total=None, coordinator=None, cores=1, attempts=1) -> int:
    """Run `command` in `local` processes, the numbers from `first` on of `total`; returns the exit status.

    When one fails the others are told, and ended after GRACE seconds; then all start again while attempts are left. SIGINT and
    SIGTERM end them all. coordinator: "HOST:PORT"; a port of 127.0.0.1, and a new secret, when None."""
    got: list[int] = []
    before = {s: signal.signal(s, lambda number, _frame: got.append(number)) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        for attempt in range(attempts):
            env = {**os.environ, "XLA_BACKEND_PROCESSES": str(total or local), "XLA_BACKEND_ATTEMPT": str(attempt),
                   "XLA_BACKEND_CORES": str(cores), "XLA_BACKEND_LOCAL_PROCESSES": str(local), "PYTHONUNBUFFERED": "1", "XLA_BACKEND_SERVED": "1",
                   "XLA_BACKEND_COORDINATOR": coordinator or f"127.0.0.1:{free_port()}"}
            if coordinator is None:
                env["XLA_BACKEND_SECRET"] = secrets.token_hex(32)
            # Served from here rather than from worker 0, whose end would be the others' end without a word.
            service = _jax.serve(env["XLA_BACKEND_COORDINATOR"], total or local, *processes.patience()) if first == 0 and (total or local) > 1 else None
            with tempfile.TemporaryDirectory(prefix="xla_backend-") as folder:
                status = _once(command, env, folder, first, local, got)
            if service is not None:
                service.shutdown()
            if status == 0 or got:
                break
            if attempt + 1 < attempts:
                print(f"xla_backend.launch: starting again ({attempt + 1} of {attempts - 1})", file=sys.stderr, flush=True)
        return status
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)


def _once(command, env, folder, first, local, got):
    workers, readers = [], []
    try:
        for i in range(local):
            p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, env={
                **env, "XLA_BACKEND_PROCESS": str(first + i), "XLA_BACKEND_LOCAL_PROCESS": str(i), "XLA_BACKEND_LAUNCH_FOLDER": folder})
            workers.append(p)
            for pipe, to in ((p.stdout, sys.stdout), (p.stderr, sys.stderr)):
                readers.append(threading.Thread(target=_pass_on, args=(pipe, to, first + i), daemon=True))
                readers[-1].start()
        status, failed_at = 0, 0.0
        while any(p.poll() is None for p in workers):
            if got or (status and time.monotonic() - failed_at > GRACE):
                break
            for i, p in enumerate(workers):
                code = p.poll()
                if code and not status:
                    status, failed_at = code if code > 0 else 128 - code, time.monotonic()
                    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"has ended with exit status {code}"
                    with open(os.path.join(folder, f".{first + i}"), "w") as f:
                        f.write(how)
                    os.rename(f.name, os.path.join(folder, str(first + i)))
                    print(f"xla_backend.launch: process {first + i} {how}", file=sys.stderr, flush=True)
            time.sleep(0.05)
        if got:
            return 128 + got[0]
        return status or next((p.returncode if p.returncode > 0 else 128 - p.returncode for p in workers if p.returncode), 0)
    finally:
        _end(workers)
        for r in readers:
            r.join(2)


def _end(workers):
    """End the workers and what they have started."""
    for number, seconds in ((signal.SIGTERM, KILL), (signal.SIGKILL, KILL)):
        until = time.monotonic() + seconds
        for p in workers:
            if p.poll() is None:
                os.killpg(p.pid, number)
        while any(p.poll() is None for p in workers) and time.monotonic() < until:
            time.sleep(0.02)
    for p in workers:
        try:
            os.killpg(p.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue  # it has left nobody behind


class _Terminal:
    """Where outputs meet: process 0's as it is, the others' by whole lines, not into one of process 0's."""

    def __init__(self):
        self.lock, self.clean = threading.Condition(), True

    def write(self, to, text, first):
        with self.lock:
            if first:
                self.clean = text.endswith(("\n", "\r"))
            else:
                self.lock.wait_for(lambda: self.clean, 0.2)
            to.write(text)
            to.flush()
            self.lock.notify_all()


_terminal = _Terminal()


def _pass_on(pipe, to, index):
    """A worker's output, the lines of all but process 0 with its number."""
    if index == 0:
        while chunk := pipe.read1(65536):
            _terminal.write(to, chunk.decode(errors="replace"), True)
        return
    for line in pipe:
        _terminal.write(to, f"[{index}] {line.decode(errors='replace')}", False)

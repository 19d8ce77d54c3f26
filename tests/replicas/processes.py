"""What test_processes runs in every replica of two processes; argv[1] says what happens to replica 1. Prints JSON lines."""
from __future__ import annotations

import json
import os
import signal
import sys
import time

import lazy_tensor as lt
from xla_backend import replicas
from xla_backend.core import xla_model as xm

case = sys.argv[1]
rank = xm.get_ordinal()
one = lt.ones(3, device="xla")


def say(what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def step(x):
    return xm.all_reduce("sum", x) * 0.5


def other(x):
    return xm.all_gather(x)[:3] + 1


x = one
for _ in range(3):
    x = step(x)
    x.tolist()
    if case.startswith("known"):
        y = other(one)
        y.tolist()
started = time.time()
try:
    if rank == 1:
        if case == "raise":
            raise ValueError("boom")
        if case == "return":
            sys.exit(0)
        if case in ("kill", "stop"):
            os.kill(os.getpid(), signal.SIGKILL if case == "kill" else signal.SIGSTOP)
        if case == "attempt" and os.environ["XLA_BACKEND_ATTEMPT"] == "0":
            raise ValueError("boom")
        if case == "mac":
            world = replicas.current()[1]
            world.processes.key = b"another secret than the others have"
    if case == "sleep":
        say({"pid": os.getpid()})
        time.sleep(600)
    if case == "new" and rank == 1:
        xm.all_gather(x + 1).tolist()
    if case == "known" and rank == 1:
        other(x).tolist()
    if case == "extra" and rank == 0:
        step(x * 3).tolist()
    if case == "tag":
        xm.rendezvous("a" if rank else "b")
    for _ in range(3):
        x = step(x)
        x.tolist()
    if case == "mac":
        xm.rendezvous("mac")
except replicas.ReplicaError as e:
    say({"rank": rank, "seconds": round(time.time() - started, 1), "error": str(e)})
    raise
say({"rank": rank, "attempt": os.environ.get("XLA_BACKEND_ATTEMPT")})

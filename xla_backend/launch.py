"""Run a script in every replica: `python -m xla_backend.launch --nprocs 8 script.py ARGS`; also the function `xla_backend.launch`.

Replicas are threads of one process, one on each core; on a machine without an accelerator N virtual CPU cores are made. With
`--processes` they are N processes that meet over gloo; with `--coordinator` each host is a process (or N). The script runs as
`__main__` in each. The first replica that fails ends the others; its traceback is shown and the exit status is not 0.
"""
from __future__ import annotations

import argparse
import importlib
import os
import runpy
import shlex
import sys
import traceback
import types


def _parser():
    p = argparse.ArgumentParser(prog="python -m xla_backend.launch", description="Run a script in every replica.")
    p.add_argument("--nprocs", type=int, help="replicas on this host; every core when left out")
    p.add_argument("--processes", action="store_true", help="replicas are CPU processes that meet over gloo, not threads of one process")
    p.add_argument("--cores", type=int, default=1, help="with --processes: replicas (threads) in each of them")
    p.add_argument("--hosts", help="comma-separated host names: prints the command to run on each")
    p.add_argument("--coordinator", help="HOST:PORT of the first host, where the processes of all hosts meet (it listens there)")
    p.add_argument("--host-index", type=int, default=0, help="this host's number")
    p.add_argument("--num-hosts", type=int, default=1, help="how many hosts run this command")
    p.add_argument("--max-restarts", type=int, default=0, help="start everything again so often after a failure; the script continues from "
                   "its own checkpoint (XLA_BACKEND_ATTEMPT tells which attempt it is, from 0)")
    p.add_argument("-m", dest="module", action="store_true", help="script is a module's name")
    p.add_argument("script")
    p.add_argument("args", nargs=argparse.REMAINDER)
    return p


def main(argv=None) -> int:
    """The command; returns the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    p = _parser()
    o = p.parse_args(argv)
    for name, least in (("nprocs", 1), ("cores", 1), ("num_hosts", 1), ("max_restarts", 0)):
        value = getattr(o, name)
        if value is not None and value < least:
            p.error(f"--{name.replace('_', '-')} must be at least {least}, got {value}")
    if not o.module and not os.path.exists(o.script):
        p.error(f"there is no {o.script}")
    if not 0 <= o.host_index < o.num_hosts:
        p.error(f"--host-index must be from 0 to {o.num_hosts - 1}, got {o.host_index}")
    if o.num_hosts > 1 and o.coordinator is None:
        p.error("--num-hosts needs --coordinator HOST:PORT, the same on each host")
    if o.coordinator is not None and not os.environ.get("XLA_BACKEND_SECRET"):
        p.error("--coordinator: processes of several hosts need XLA_BACKEND_SECRET, a secret of at least 16 characters, the same on each host")
    if o.hosts:
        hosts = o.hosts.split(",")
        rest = [a for i, a in enumerate(argv) if not a.startswith("--hosts") and (i == 0 or argv[i - 1] != "--hosts")]
        print("run on each host, with the same XLA_BACKEND_SECRET in its environment:")
        for i, host in enumerate(hosts):
            print(f"{host}: python -m xla_backend.launch --coordinator {hosts[0]}:29500 --host-index {i} --num-hosts {len(hosts)} "
                  f"{shlex.join(rest)}")
        return 0
    address = os.environ.pop("XLA_BACKEND_COORDINATOR", None)
    if address is not None:
        return _worker(o, address)
    if o.processes or o.coordinator or o.max_restarts:
        from xla_backend import _workers
        if o.processes:
            os.environ.setdefault("JAX_PLATFORMS", "cpu")
        local, cores = (o.nprocs or 2, o.cores) if o.processes else (1, o.nprocs or 0)
        command = [sys.executable, "-m", "xla_backend.launch", *(["-m"] if o.module else []), o.script, *o.args]
        return _workers.supervise(command, local, o.host_index * local, o.num_hosts * local, o.coordinator, cores, o.max_restarts + 1)
    from xla_backend import _jax, replicas, runtime
    found = _jax.cluster()
    if found is not None and found[1] > 1:
        address, size, rank = found
        replicas.join(address, rank, size, o.nprocs)
        return _run(o, None)
    n = runtime.cores(o.nprocs)
    if o.nprocs is not None and n < o.nprocs:
        p.error(f"--nprocs {o.nprocs}: there are {n} core(s) here")
    return _run(o, n)


def _worker(o, address):
    """A process that the launcher has started."""
    from xla_backend import replicas, runtime
    size, cores = int(os.environ["XLA_BACKEND_PROCESSES"]), int(os.environ["XLA_BACKEND_CORES"])
    if size == 1:
        return _run(o, runtime.cores(cores or None))
    replicas.join(address, int(os.environ["XLA_BACKEND_PROCESS"]), size, cores or None)
    return _run(o, None)


def _run(o, n):
    from xla_backend import replicas
    sys.argv = [o.script, *o.args]
    sys.path.insert(0, os.getcwd() if o.module else os.path.dirname(os.path.abspath(o.script)))
    status = [0]

    def body(rank):
        try:
            (runpy.run_module if o.module else runpy.run_path)(o.script, run_name="__main__")
        except SystemExit as e:
            if e.code not in (None, 0):
                print(f"replica {rank}: {e.code}", file=sys.stderr)
                status.append(e.code if type(e.code) is int else 1)
    here = replicas.current()
    try:
        replicas.run(body, (), n)
    except KeyboardInterrupt:
        return 130
    except BaseException as e:
        if here is not None:  # else it was logged, and the other processes told, where it was caught
            print(f"replica {here[0]} of {here[1].size} failed:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
            here[1].processes.over = f"has failed with {type(e).__name__}: {e}"
        return 1
    if replicas.processes is not None and max(status):
        replicas.processes.over = f"has ended with exit status {max(status)}"
    return max(status)


class _Callable(types.ModuleType):
    """`xla_backend.launch` is this module and torch_xla's function (`xla_backend.api.launch`) at once."""

    def __call__(self, *args, **kwargs):
        return importlib.import_module("xla_backend.api").launch(*args, **kwargs)


if __name__ == "__main__":
    raise SystemExit(main())
sys.modules[__name__].__class__ = _Callable

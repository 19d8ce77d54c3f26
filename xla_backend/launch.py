"""Run a script in every replica: `python -m xla_backend.launch --nprocs 8 script.py ARGS`; also the function `xla_backend.launch`.

Replicas are threads of one process, one on each core; on a machine without an accelerator N virtual CPU cores are made. The
script runs as `__main__` in each. The first replica that fails ends the others; its traceback is shown and the exit status is 1.
"""
from __future__ import annotations

import argparse
import importlib
import os
import runpy
import sys
import types


def main(argv=None) -> int:
    """The command; returns the exit status."""
    p = argparse.ArgumentParser(prog="python -m xla_backend.launch", description="Run a script in every replica.")
    p.add_argument("--nprocs", type=int, help="replicas; every core when left out")
    p.add_argument("script")
    p.add_argument("args", nargs=argparse.REMAINDER)
    o = p.parse_args(argv)
    if o.nprocs is not None and o.nprocs < 1:
        p.error(f"--nprocs must be at least 1, got {o.nprocs}")
    if not os.path.exists(o.script):
        p.error(f"there is no {o.script}")
    from xla_backend import replicas, runtime
    n = runtime.cores(o.nprocs)
    if o.nprocs is not None and n < o.nprocs:
        p.error(f"--nprocs {o.nprocs}: there are {n} core(s) here")
    sys.argv = [o.script, *o.args]
    sys.path.insert(0, os.path.dirname(os.path.abspath(o.script)))
    status = [0] * n

    def body(rank):
        try:
            runpy.run_path(o.script, run_name="__main__")
        except SystemExit as e:
            if e.code not in (None, 0):
                print(f"replica {rank}: {e.code}", file=sys.stderr)
                status[rank] = 1
    try:
        replicas.run(body, (), n)
    except KeyboardInterrupt:
        return 130
    except BaseException:  # logged with its rank where it was caught
        return 1
    return max(status)


class _Callable(types.ModuleType):
    """`xla_backend.launch` is this module and torch_xla's function (`xla_backend.api.launch`) at once."""

    def __call__(self, *args, **kwargs):
        return importlib.import_module("xla_backend.api").launch(*args, **kwargs)


if __name__ == "__main__":
    raise SystemExit(main())
sys.modules[__name__].__class__ = _Callable

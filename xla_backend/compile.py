"""A program becomes one jitted function, StableHLO, an executable; kept in memory here and on disk by jax."""
from __future__ import annotations

import gc
import importlib
import os
import sys
import time
import types
from pathlib import Path

import jax
import numpy as np
from absl import logging
from jax import lax

from xla_backend import debug, metrics
from xla_backend._jax import make_cache_writes_atomic, x64
from xla_backend.graph import Value


class Variant:
    """An executable for one program, one set of outputs, one set of donated inputs."""

    __slots__ = ("positions", "dead", "donated", "executable", "record", "donated_bytes")

    def __init__(self, positions, dead, donated, executable, record, donated_bytes):
        self.positions, self.dead, self.donated = positions, dead, donated
        self.executable, self.record, self.donated_bytes = executable, record, donated_bytes

    def run(self, args):
        """Dispatch; returns the arrays of `positions`."""
        self.record.runs += 1
        if self.donated:
            metrics.counters["donated_buffers"] += len(self.donated)
            metrics.counters["donated_bytes"] += self.donated_bytes
        try:
            with x64(True):
                return self.executable(*args)
        except Exception as e:
            raise debug.run_error(e, self.record) from e


# XLA:CPU's time to compile grows without bound in the depth of a chain that it can fuse (jax 0.10.2: 1,200 tanh and
# their backward take over 120 s in one program, 3 s in programs of this depth). Matrix products and loops end a
# chain; a transformer's residual path gains about two a layer, so ordinary models are never cut.
CHAIN_LIMIT = 600


def cuts(nodes) -> tuple[int, ...]:
    """Where to cut nodes so that no program holds a fusible chain deeper than CHAIN_LIMIT (jaxpr equations)."""
    if len(nodes) < CHAIN_LIMIT // 8:
        return ()
    out = []
    depth: dict[int, int] = {}
    for i, (config, ins, outs, _code, _lasti) in enumerate(nodes):
        size = config.kernel.chain
        deepest = size + max((depth.get(id(v), 0) for v in ins), default=0) if size else 0
        if deepest > CHAIN_LIMIT and depth:
            out.append(i)
            depth.clear()
            deepest = size
        if deepest:
            for v in outs:
                depth[id(v)] = deepest
    return tuple(out)


def stitched(nodes, leaves, live):
    """The program as a jax function: (float64s?, int64s?, complex128s?, *leaves) -> live values."""
    kinds = [False, False, False]
    for _c, ins, *_ in nodes:
        for v in ins:
            if type(v) is not Value:
                kinds[0 if type(v) is float else 2 if type(v) is complex else 1] = True
    leaf_pos = [v.pos for v in leaves]
    live_pos = [v.pos for v in live]
    plan = [(c.kernel.call, [v.pos if type(v) is Value else type(v) for v in ins], [v.pos for v in outs],
             debug.scope(c.name, code, lasti)) for c, ins, outs, code, lasti in nodes]

    def program(*args):
        args = list(args)
        packs = [args.pop(0) if k else None for k in kinds]
        at = [0, 0, 0]
        env = dict(zip(leaf_pos, args, strict=True))

        def scalar(t):
            k = 0 if t is float else 2 if t is complex else 1
            i = at[k]
            at[k] += 1
            s = lax.squeeze(lax.slice(packs[k], (i,), (i + 1,)), (0,))
            return lax.convert_element_type(s, np.bool_) if t is bool else s

        for call, ins, outs, scope in plan:
            with jax.named_scope(scope):
                results = call(*[scalar(p) if isinstance(p, type) else env[p] for p in ins])
            env.update(zip(outs, results, strict=True))
        return tuple(env[p] for p in live_pos)

    return program, kinds


def lower(device, nodes, leaves, live, donated, world=None):
    """(jax's Lowered, the number of packed scalar arguments) of a program; over all cores of a world of replicas if given."""
    sharding = device.sharding if world is None else world.sharding
    function, kinds = stitched(nodes, leaves, live)
    counts = [0, 0, 0]
    for _c, ins, *_ in nodes:
        for v in ins:
            if type(v) is not Value:
                counts[0 if type(v) is float else 2 if type(v) is complex else 1] += 1
    structs = [jax.ShapeDtypeStruct((n,), t, sharding=sharding)
               for n, t in zip(counts, (np.float64, np.int64, np.complex128), strict=True) if n]
    offset = len(structs)
    structs += [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype, sharding=sharding) for v in leaves]
    if world is not None:
        spec = jax.sharding.PartitionSpec()
        function = jax.shard_map(function, mesh=world.mesh, in_specs=spec, out_specs=spec, check_vma=False)
    function.__name__ = function.__qualname__ = "step"
    with x64(True):
        with metrics.timer("trace"):
            traced = jax.jit(function, donate_argnums=tuple(offset + i for i in sorted(donated)), keep_unused=True).trace(*structs)
        with metrics.timer("lower"):
            return traced.lower(), offset


def build(device, nodes, leaves, live, positions, dead, reason, world=None):
    """Trace, lower and compile a program (over all cores of a world of replicas if given); logs why it is new."""
    record = debug.Record(device, nodes, leaves, live, reason)
    donated = _donations(leaves, live, dead)
    started = time.perf_counter()
    try:
        lowered, _ = lower(device, nodes, leaves, live, donated, world)
        with x64(True), metrics.timer("compile"):
            executable = lowered.compile()
    except Exception as e:
        raise debug.run_error(e, record) from e
    metrics.counters["programs"] += 1
    metrics.counters["compiles"] += 1
    record.seconds = time.perf_counter() - started
    record.lowered, record.executable = lowered, executable
    debug.note(record)
    if os.environ.get("XLA_BACKEND_GC") != "0":
        if record.seconds > SETTLE_SECONDS:
            settle()
        else:
            gc.freeze()
    bytes_ = sum(int(np.prod(leaves[i].aval.shape)) * leaves[i].aval.dtype.itemsize for i in donated)
    return Variant(positions, dead, frozenset(donated), executable, record, bytes_)


# After a compile what the garbage collector tracks is set aside, so that a full collection in the steady state does not
# walk jax's million objects (53 ms in a 16 ms step). After a long compile it is looked through first, and so is what was set
# aside before; `torch.cuda.empty_cache()` does the same. XLA_BACKEND_GC=0 leaves the collector alone.
SETTLE_SECONDS = 1.0


def settle() -> None:
    """A full garbage collection, of what was set aside too; what is left is set aside."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _donations(leaves, live, dead):
    """Those dead inputs whose memory an output of the same shape and dtype can take."""
    free: dict = {}
    for v in live:
        k = (v.aval.shape, v.aval.dtype)
        free[k] = free.get(k, 0) + 1
    chosen = []
    for i in dead:
        k = (leaves[i].aval.shape, leaves[i].aval.dtype)
        if free.get(k):
            free[k] -= 1
            chosen.append(i)
    return chosen


def cache_folder() -> Path | None:
    """Where compiled programs are kept between processes: `XLA_BACKEND_CACHE` (a path, or `0` for none), else the
    user's cache folder."""
    chosen = os.environ.get("XLA_BACKEND_CACHE")
    if chosen in ("0", "off", ""):
        return None
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "xla_backend" / f"jax-{jax.__version__}"


def set_up_cache() -> None:
    """Turn on jax's persistent cache, unless the user has already chosen one."""
    folder = cache_folder()
    if folder is None or getattr(jax.config, "jax_compilation_cache_dir", None):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as e:
        logging.warning("no program cache between runs: cannot make %s (%s); XLA_BACKEND_CACHE moves it", folder, e)
        return
    make_cache_writes_atomic()
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


set_up_cache()


class _Callable(types.ModuleType):
    """`xla_backend.compile` is this module and torch_xla's function (`xla_backend.api.compile`) at once."""

    def __call__(self, *args, **kwargs):
        return importlib.import_module("xla_backend.api").compile(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable

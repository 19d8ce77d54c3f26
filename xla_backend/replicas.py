"""Replicas: a user's function on every core, collectives as operations, one program over all cores.

In each process replicas are threads, each with its core as the default `xla` device and random state of its own. A program
without collectives runs on its core with nobody asked. One with collectives is run together: each replica brings its key, its
inputs and what it wants back; the last to come compares and dispatches for all, over a mesh of their cores. Several processes (`join`) agree on a program before it first runs
(`xla_backend.processes`), and dispatch it each for itself afterwards, asking nobody.

Inside the program every array is declared replicated and is each core's own (`shard_map` with `check_vma=False`): buffers go in
and come out as they are, nothing is stacked or copied.
"""
from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
import traceback

import jax
import numpy as np
from absl import logging
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from xla_backend import compile as compile_
from xla_backend import metrics, runtime
from xla_backend import random as random_
from xla_backend._jax import x64
from xla_backend.debug import line, short
from xla_backend.graph import Value
from xla_backend.kernel import Kernel
from xla_backend.processes import Processes, ReplicaError, label, secret, user_line

AXIS = "replica"


class Piece:
    """One core's part of an array that a program over all cores gave; `array()` is the jax.Array on that core.

    rank: the core's number in this process."""

    __slots__ = ("whole", "rank", "_array")

    def __init__(self, whole, rank):
        self.whole, self.rank, self._array = whole, rank, None

    def array(self):
        if self._array is None:
            self._array = self.whole.addressable_shards[self.rank].data
        return self._array

    def __array__(self, dtype=None, copy=None):
        array = self.array()
        if runtime.guard is not None:
            runtime.guard(array)
        return np.asarray(array, dtype)


class World:
    """All replicas: cores, and where the threads of this process and the processes meet.

    `size` replicas, `local` of them in this process, from rank `first` on."""

    def __init__(self, local, timeout=None):
        self.processes = processes
        count, index = (processes.count, processes.index) if processes is not None else (1, 0)
        self.local, self.first, self.size = local, index * local, count * local
        self.devices = {self.first + i: runtime.device("xla", i) for i in range(local)}
        self.cores = [d.jax_device for d in self.devices.values()]
        everyone = [self.cores]
        if count > 1:
            platform = self.cores[0].platform
            everyone = [[d for d in jax.devices(platform) if d.process_index == p][:local] for p in range(count)]
            if any(len(cores) != local for cores in everyone):
                raise RuntimeError(f"every process must have {local} core(s) for replicas; they have {[len(c) for c in everyone]}")
        self.mesh = Mesh(np.array([d for cores in everyone for d in cores]), (AXIS,))
        self.sharding = NamedSharding(self.mesh, PartitionSpec())
        self.axes = ((AXIS, self.size),)
        self.lock = threading.Condition()
        self.waiting: dict[int, object] = {}
        self.answers: dict[int, object] = {}
        self.over: dict[int, str] = {}  # replicas that have returned or failed, and how
        self.failed: tuple | None = None
        self.timeout = float(os.environ.get("XLA_BACKEND_REPLICA_TIMEOUT", "300")) if timeout is None else timeout
        self.programs: dict = {}
        self.apart: set = set()  # programs that were cut because other replicas have others
        self.met: dict = {}  # the front end's memory of what each replica has met, where that decides how an operation is recorded

    # --- meeting

    def meet(self, rank, what, gift, act):
        """Wait for this process's replicas; the last to come runs act([gift of each rank]) -> answers by rank. Returns this rank's answer.

        Raises ReplicaError when a replica is over, or does not come within `timeout` seconds; an error in act is everyone's."""
        with self.lock:
            self.waiting[rank] = (what, gift)
            if len(self.waiting) == self.local:
                brought = [self.waiting[r] for r in self.devices]
                self.waiting = {}
                try:
                    whats = {w for w, _ in brought}
                    if len(whats) > 1:
                        raise ReplicaError("the replicas are not at the same place: " + "; ".join(
                            f"replica {r} {w}" for r, (w, _) in zip(self.devices, brought, strict=True)))
                    answers = act([g for _, g in brought])
                except BaseException as e:
                    answers = [e] * self.local
                self.answers.update(zip(self.devices, answers, strict=True))
                self.lock.notify_all()
            started = time.monotonic()
            while rank not in self.answers:
                gone = {r: how for r, how in self.over.items() if r not in self.waiting}
                late = time.monotonic() - started
                if gone or late > self.timeout:
                    self.waiting.pop(rank, None)
                    if gone:
                        r, how = next(iter(gone.items()))
                        raise ReplicaError(f"replica {rank} {what}, which all replicas must do together, and replica {r} {how}")
                    absent = [r for r in self.devices if r not in self.waiting and r != rank]
                    raise ReplicaError(f"replica {rank} {what} and waited {late:.0f} s for replicas {absent}, which have not come there "
                                       f"(XLA_BACKEND_REPLICA_TIMEOUT={self.timeout:.0f} seconds)")
                self.lock.wait(min(1.0, max(self.timeout - late, 0.01)))
            answer = self.answers.pop(rank)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def leave(self, rank, how):
        """A replica is over; those that wait for it are told."""
        with self.lock:
            self.over[rank] = how
            self.lock.notify_all()

    # --- programs

    def run(self, rank, key, kept, leaves, scalars, live, positions, dead, reason, last):
        """Run one replica's part of a program with collectives; sets the live values' data, and returns True.

        When the replicas' programs differ: False, so that each runs what is between collectives on its own and comes again
        with every collective alone (`last`); then a difference is an error."""
        shared = self._shared(rank, key, kept)
        where_ = next((line(code, lasti) for c, _i, _o, code, lasti in kept if c.kernel.axes and code is not None), "")
        gift = (shared, kept, leaves, scalars, live, positions, dead, reason, where_)
        results = self.meet(rank, "runs a program with collectives", gift, lambda gifts: self._dispatch(gifts, last))
        if results is None:
            return False
        for v in live:
            v.data = results[v.pos]
        return True

    def _shared(self, rank, key, kept):
        """A program's key without what differs between cores: the same on every replica that does the same."""
        found = self.programs.get((rank, key))
        if found is None:
            text = hashlib.sha256()
            config = iter(kept)
            skip = 0
            for x in key:
                if skip == 0:
                    c, ins, _o, _code, _l = next(config)
                    text.update(digest(c.kernel))
                    skip = sum(type(v) is Value for v in ins)
                else:
                    text.update(b"%d," % x)
                    skip -= 1
            found = self.programs[(rank, key)] = text.digest()
        return found

    def _dispatch(self, gifts, last):
        shared, kept, leaves, scalars, _live, _positions, _dead, reason, where = gifts[0]
        alike = [g[0] for g in gifts] == [shared] * self.local
        positions = tuple(sorted({p for g in gifts for p in g[5]}))
        dead = tuple(sorted(set(gifts[0][6]).intersection(*[g[6] for g in gifts[1:]])))
        variant = self._known(shared, positions, dead) if alike else None
        if variant is None:
            agreed = self._agree(gifts, positions, dead, last)
            if agreed is None:
                return [None] * self.local
            positions, dead = agreed
            by = {v.pos: v for node in kept for v in node[2]}
            for node in kept:
                by.update({v.pos: v for v in node[1] if type(v) is Value})
            variant = compile_.build(self.devices[self.first], kept, leaves, [by[p] for p in positions], positions, dead, reason, self)
            self.programs[shared if self.processes else (shared, positions)] = variant
        else:
            metrics.counters["cache_hits"] += 1
        spare = {k for k in variant.donated if any(k not in g[6] for g in gifts)}
        with x64(True):
            args = [self._whole([g[3][k] for g in gifts]) for k in range(len(scalars))]
            args += [self._whole([g[2][k].data for g in gifts], k in spare) for k in range(len(leaves))]
        if self.processes is None:
            outs = variant.run(args)
        else:
            outs = self.processes.run(self.processes.begin(label(shared), short(where)), variant, args)
        return [{p: Piece(o, r) for p, o in zip(variant.positions, outs, strict=True)} for r in range(self.local)]

    def _known(self, shared, positions, dead):
        """The compiled program that fits; what processes have agreed on fits as well where it gives more or donates too much (then
        copies are donated), because asking for another one would have to be done by all of them."""
        if self.processes is None:
            found = self.programs.get((shared, positions))
            return found if found is not None and found.donated.issubset(dead) else None
        found = self.programs.get(shared)
        return found if found is not None and set(positions).issubset(found.positions) else None

    def _agree(self, gifts, positions, dead, last):
        """(positions, dead) that all replicas want and can spare; None when their programs differ and may be cut, else an error."""
        names = [g[0] for g in gifts]
        mine = tuple(names), positions, dead
        if self.processes is None:
            everyone = [mine]
        elif tuple(names) in self.apart and not last:
            return None
        else:
            everyone = self.processes.exchange("agree", mine, short(gifts[0][8]))
        every = [n for e in everyone for n in e[0]]
        if any(n != every[0] for n in every):
            if not last:
                self.apart.add(tuple(names))
                return None
            stories = [(_story(g[1]), g[8]) for g in gifts]
            if self.processes is not None:
                stories = [s for e in self.processes.exchange("agree", stories, short(gifts[0][8])) for s in e]
            other = next(r for r, n in enumerate(every) if n != every[0])
            raise ReplicaError(_difference(0, *stories[0], other, *stories[other]))
        old = self.programs.get(names[0]) if self.processes is not None else None
        return (tuple(sorted({p for e in everyone for p in e[1]}.union(old.positions if old else ()))),
                tuple(sorted(set(everyone[0][2]).intersection(*[e[2] for e in everyone[1:]]))))

    def _whole(self, parts, copy=False):
        first = parts[0]
        if not copy and type(first) is Piece and all(type(p) is Piece and p.whole is first.whole and p.rank == r for r, p in enumerate(parts)):
            return first.whole
        arrays = []
        for p, core in zip(parts, self.cores, strict=True):
            a = p.array() if type(p) is Piece else p
            a = a if not isinstance(a, np.ndarray) and a.devices() == {core} else jax.device_put(a, core)
            arrays.append(a.copy() if copy else a)
        return jax.make_array_from_single_device_arrays(arrays[0].shape, self.sharding, arrays)


def digest(kernel):
    """What a kernel does, the same in every thread and process."""
    if kernel.digest is None:
        kernel.digest = hashlib.sha256(f"{kernel.name}{kernel.jaxpr}".encode()).digest()
    return kernel.digest


def _story(nodes):
    """What an error needs of each operation: digest, name, operands, line."""
    return [(digest(n[0].kernel), n[0].name, ", ".join(map(str, n[0].kernel.ins)), line(n[3], n[4]) or "an unknown line") for n in nodes]


def _difference(a, story_a, where_a, b, story_b, where_b):
    for i, (x, y) in enumerate(zip(story_a, story_b, strict=False)):
        if x[0] != y[0]:
            return (f"replicas {a} and {b} do different things: operation {i} is {x[1]} ({x[2]}) at {x[3]} on replica {a}, "
                    f"and {y[1]} ({y[2]}) at {y[3]} on replica {b}")
    if len(story_a) != len(story_b):
        return (f"replicas {a} and {b} do different things: {len(story_a)} operations on replica {a} (collective at {where_a}), "
                f"{len(story_b)} on replica {b} (collective at {where_b})")
    return (f"replicas {a} and {b} do different things: the same operations on other operands (collectives at {where_a} and "
            f"{where_b})")


# ------------------------------------------------------------------------------------------- running a function


processes: Processes | None = None  # the world of processes that this one has joined


def join(coordinator: str, rank: int, size: int, local: int | None = 1) -> None:
    """Make this process number `rank` of `size` processes that meet at `coordinator` ("HOST:PORT", where process 0 listens).

    local: how many replicas run in each process. With 1 the calling thread is the replica from here on; otherwise `run` makes
    threads. To be called before the first use of a device. On CPU, collectives between processes go over gloo. The secret that
    signs Python objects is XLA_BACKEND_SECRET. Raises RuntimeError without it, or in a process that has joined already.

    >>> replicas.join("127.0.0.1:29500", int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    """
    global processes
    if processes is not None or current() is not None:
        raise RuntimeError("join: this process is part of a world of replicas already")
    if not 0 <= rank < size:
        raise ValueError(f"join: rank must be from 0 to {size - 1}, got {rank}")
    if runtime.used():
        raise RuntimeError("join: a device is in use already; join first")
    key = secret(coordinator)
    if runtime.platform() in (None, "cpu"):
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        if local is not None and local > 1:
            jax.config.update("jax_num_cpu_devices", local)
    processes = Processes(coordinator, rank, size, local or 1, key)
    processes.local = local = local or len(runtime.xla_devices())
    runtime.guard = processes.wait
    before = sys.excepthook

    def hook(kind, error, trace):
        processes.over = f"has failed with {kind.__name__}: {error}"
        before(kind, error, trace)
    sys.excepthook = hook
    if local == 1:
        _enter(World(1), processes.index, random_.default._seed, random_.default._count)


def _enter(world, rank, seed, count):
    """This thread is a replica from here on."""
    runtime.set_default_index(rank - world.first)
    runtime.local.replica = (rank, world)
    random_.default.own(seed, count)
    world.devices[rank].world = (rank, world)
    if world.processes is not None:
        world.processes.threads.add(threading.get_ident())


def run(fn, args=(), size=None, timeout=None):
    """fn(rank, *args) in `size` threads of this process (every core when None), each with its own core; returns the results by rank.

    In a process of several (`join`) these are its part of all replicas. The first replica that fails ends the others at their next
    meeting; its error is raised, with its rank noted."""
    here = current()
    if here is not None:
        return [fn(here[0], *args)]
    size = processes.local if processes is not None else size or len(runtime.xla_devices())
    world = World(size, timeout)
    results: dict = dict.fromkeys(world.devices)
    seed = random_.default._seed, random_.default._count

    def body(rank):
        _enter(world, rank, *seed)
        try:
            results[rank] = fn(rank, *args)
            from xla_backend import program
            program.sync(world.devices[rank], "the end of a replica")
            how = "has returned"
        except BaseException as e:
            how = f"has failed with {type(e).__name__}: {e}"
            with world.lock:
                if world.failed is None or (isinstance(world.failed[1], ReplicaError) and not isinstance(e, ReplicaError)):
                    world.failed = (rank, e)
        finally:
            world.devices[rank].world = None
            world.leave(rank, how)
    threads = [threading.Thread(target=body, args=(r,), name=f"xla_backend replica {r}", daemon=True) for r in world.devices]
    for t in threads:
        t.start()
    for t in threads:
        while t.is_alive():
            t.join(0.5)
    if world.failed is not None:
        rank, e = world.failed
        logging.error("replica %d of %d failed:\n%s", rank, world.size, "".join(traceback.format_exception(e)))
        e.add_note(f"in replica {rank} of {world.size}")
        if world.processes is not None:
            world.processes.over = f"has failed (in replica {rank}) with {type(e).__name__}: {e}"
        raise e
    return list(results.values())


def current():
    """(rank, world) of this thread, or None outside replicas."""
    return getattr(runtime.local, "replica", None)


# ------------------------------------------------------------------------------------------- collectives

_kernels: dict = {}


def kernel(name, key, fn, ins, world):
    """The kernel of a collective: fn(*arrays) -> tuple, over `AXIS`; traced once for each key and world size."""
    full = (name, key, ins, world.size)
    found = _kernels.get(full)
    if found is None:
        with _making:
            found = _kernels.get(full)
            if found is None:
                found = _kernels[full] = Kernel(name, fn, ins, axes=world.axes)
    return found


_making = threading.Lock()


def exchange(tag, payload):
    """Everyone's payload, by rank; a meeting of all replicas."""
    here = current()
    if here is None:
        return [payload]
    rank, world = here
    what, where = f"is at rendezvous {tag!r}", user_line(sys._getframe())

    def act(gifts):
        everyone = [gifts] if world.processes is None else world.processes.exchange(what, gifts, where)
        return [[g for gifts in everyone for g in gifts]] * world.local
    return world.meet(rank, what, payload, act)

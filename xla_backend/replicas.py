"""Replicas: a user's function on every core, collectives as operations, one program over all cores.

In one process replicas are threads, each with its core as the default `xla` device and random state of its own. A program
without collectives runs on its core with nobody asked. One with collectives is run together: each replica brings its key, its
inputs and what it wants back; the last to come compares and dispatches for all, over a mesh of their cores.

Inside the program every array is declared replicated and is each core's own (`shard_map` with `check_vma=False`): buffers go in
and come out as they are, nothing is stacked or copied.
"""
from __future__ import annotations

import hashlib
import os
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
from xla_backend.debug import line
from xla_backend.graph import Value
from xla_backend.kernel import Kernel

AXIS = "replica"


class ReplicaError(RuntimeError):
    """The replicas do not run the same program, or one of them is gone."""


class Piece:
    """One core's part of an array that a program over all cores gave; `array()` is the jax.Array on that core."""

    __slots__ = ("whole", "rank", "_array")

    def __init__(self, whole, rank):
        self.whole, self.rank, self._array = whole, rank, None

    def array(self):
        if self._array is None:
            self._array = self.whole.addressable_shards[self.rank].data
        return self._array

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.array(), dtype)


class World:
    """The replicas of this process: cores, and where their threads meet."""

    def __init__(self, size, timeout=None):
        self.size = size
        self.devices = [runtime.device("xla", i) for i in range(size)]
        self.mesh = Mesh(np.array([d.jax_device for d in self.devices]), (AXIS,))
        self.sharding = NamedSharding(self.mesh, PartitionSpec())
        self.axes = ((AXIS, size),)
        self.lock = threading.Condition()
        self.waiting: dict[int, object] = {}
        self.answers: dict[int, object] = {}
        self.over: dict[int, str] = {}  # replicas that have returned or failed, and how
        self.failed: tuple | None = None
        self.timeout = float(os.environ.get("XLA_BACKEND_REPLICA_TIMEOUT", "300")) if timeout is None else timeout
        self.programs: dict = {}
        self.met: dict = {}  # the front end's memory of what each replica has met, where that decides how an operation is recorded

    # --- meeting

    def meet(self, rank, what, gift, act):
        """Wait for all replicas; the last to come runs act([gift of each rank]) -> answers by rank. Returns this rank's answer.

        Raises ReplicaError when a replica is over, or does not come within `timeout` seconds; an error in act is everyone's."""
        with self.lock:
            self.waiting[rank] = (what, gift)
            if len(self.waiting) == self.size:
                brought = [self.waiting[r] for r in range(self.size)]
                self.waiting = {}
                try:
                    whats = {w for w, _ in brought}
                    if len(whats) > 1:
                        raise ReplicaError("the replicas are not at the same place: " + "; ".join(
                            f"replica {r} {w}" for r, (w, _) in enumerate(brought)))
                    answers = act([g for _, g in brought])
                except BaseException as e:
                    answers = [e] * self.size
                self.answers.update(enumerate(answers))
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
                    absent = [r for r in range(self.size) if r not in self.waiting and r != rank]
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
        shared, kept, leaves, scalars, _live, _positions, _dead, reason, _where = gifts[0]
        for r, g in enumerate(gifts):
            if g[0] != shared:
                if not last:
                    return [None] * self.size
                raise ReplicaError(_difference(0, kept, gifts[0][8], r, g[1], g[8]))
        positions = tuple(sorted({p for g in gifts for p in g[5]}))
        dead = tuple(sorted(set(gifts[0][6]).intersection(*[g[6] for g in gifts[1:]])))
        variant = self.programs.get((shared, positions))
        if variant is None or not variant.donated.issubset(dead):
            by = {v.pos: v for node in kept for v in node[2]}
            for node in kept:
                by.update({v.pos: v for v in node[1] if type(v) is Value})
            variant = compile_.build(self.devices[0], kept, leaves, [by[p] for p in positions], positions, dead, reason, self)
            self.programs[(shared, positions)] = variant
        else:
            metrics.counters["cache_hits"] += 1
        with x64(True):
            args = [self._whole([g[3][k] for g in gifts]) for k in range(len(scalars))]
            args += [self._whole([g[2][k].data for g in gifts]) for k in range(len(leaves))]
        outs = variant.run(args)
        return [{p: Piece(o, r) for p, o in zip(positions, outs, strict=True)} for r in range(self.size)]

    def _whole(self, parts):
        first = parts[0]
        if type(first) is Piece and all(type(p) is Piece and p.whole is first.whole and p.rank == r for r, p in enumerate(parts)):
            return first.whole
        arrays = []
        for p, d in zip(parts, self.devices, strict=True):
            a = p.array() if type(p) is Piece else p
            arrays.append(a if not isinstance(a, np.ndarray) and a.devices() == {d.jax_device} else jax.device_put(a, d.jax_device))
        return jax.make_array_from_single_device_arrays(arrays[0].shape, self.sharding, arrays)


def digest(kernel):
    """What a kernel does, the same in every thread and process."""
    if kernel.digest is None:
        kernel.digest = hashlib.sha256(f"{kernel.name}{kernel.jaxpr}".encode()).digest()
    return kernel.digest


def _difference(a, nodes_a, where_a, b, nodes_b, where_b):
    for i, (x, y) in enumerate(zip(nodes_a, nodes_b, strict=False)):
        if digest(x[0].kernel) != digest(y[0].kernel):
            return (f"replicas {a} and {b} do different things: operation {i} is {x[0].name} "
                    f"({', '.join(map(str, x[0].kernel.ins))}) at {line(x[3], x[4]) or 'an unknown line'} on replica {a}, and {y[0].name} "
                    f"({', '.join(map(str, y[0].kernel.ins))}) at {line(y[3], y[4]) or 'an unknown line'} on replica {b}")
    if len(nodes_a) != len(nodes_b):
        return (f"replicas {a} and {b} do different things: {len(nodes_a)} operations on replica {a} (collective at {where_a}), "
                f"{len(nodes_b)} on replica {b} (collective at {where_b})")
    return (f"replicas {a} and {b} do different things: the same operations on other operands (collectives at {where_a} and "
            f"{where_b})")


# ------------------------------------------------------------------------------------------- running a function


def run(fn, args=(), size=None, timeout=None):
    """fn(rank, *args) in `size` threads (every core when None), each with its own core; returns the results by rank.

    The first replica that fails ends the others at their next meeting; its error is raised, with its rank noted."""
    size = size or len(runtime.xla_devices())
    world = World(size, timeout)
    results: list = [None] * size
    seed = random_.default._seed, random_.default._count

    def body(rank):
        runtime.set_default_index(rank)
        runtime.local.replica = (rank, world)
        random_.default.own(*seed)
        world.devices[rank].world = (rank, world)
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
    threads = [threading.Thread(target=body, args=(r,), name=f"xla_backend replica {r}", daemon=True) for r in range(size)]
    for t in threads:
        t.start()
    for t in threads:
        while t.is_alive():
            t.join(0.5)
    if world.failed is not None:
        rank, e = world.failed
        logging.error("replica %d of %d failed:\n%s", rank, size, "".join(traceback.format_exception(e)))
        e.add_note(f"in replica {rank} of {size}")
        raise e
    return results


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
    return world.meet(rank, f"is at rendezvous {tag!r}", payload, lambda gifts: [gifts] * world.size)

"""From pending nodes to a running program: liveness, the exact key, donation, dispatch.

A sync takes a device's whole pending list. One backward pass finds which values somebody outside the graph
still holds (reference counts less the graph's own references) and drops what nothing needs; one forward pass
numbers values and builds the key. The key is the flat tuple of configuration ids and value numbers, compared for
equality. Every live value becomes an output, so no op runs twice; every input that nobody holds any more is
donated.
"""
from __future__ import annotations

import sys
from collections import Counter

import numpy as np

from xla_backend import compile as compile_
from xla_backend import debug, metrics
from xla_backend.graph import Failed, Value, local
from xla_backend.runtime import put

_getrefcount = sys.getrefcount
_programs: dict[tuple, list] = {}
_cuts: dict[tuple, tuple] = {}  # for each key, where its nodes are cut into several programs (mostly nowhere)


def _calibrate():
    """References that a loop over an outputs tuple itself holds, on this interpreter."""
    node = (None, (), (Value(None),))
    for v in node[2]:
        return _getrefcount(v)


_OUT_REFS = _calibrate()


def _calibrate_leaf():
    leaves = []
    leaves.append(Value(None))
    for v in leaves:
        return _getrefcount(v)


_LEAF_REFS = _calibrate_leaf()


def _calibrate_data():
    v = Value(None, np.zeros(1))
    return _getrefcount(v.data)


_DATA_REFS = _calibrate_data()


def sync(device, reason: str = "sync", want: Value | None = None) -> None:
    """Run everything pending on a device; returns when it is dispatched, not when it is done.

    After an error nothing is lost: the nodes are pending again.
    """
    watch = local.watch
    if watch is not None and watch.asked(reason, want):
        return
    graph = device.graph
    with graph.lock:
        if want is not None and want.data is not None:
            return
        pending = graph.pending
        count = len(pending)
        if graph.captures:
            count = _before_captures(graph, want)
        if not count:
            return
        nodes = pending[:count]
        del pending[:count]
        metrics.counters["syncs"] += 1
        try:
            cuts = _run(device, nodes, reason)
            if cuts:
                start = 0
                for stop in (*cuts, len(nodes)):
                    part = nodes[start:stop]
                    # What has run must let go of its inputs, so that the next part sees who still holds them.
                    nodes[start:stop] = [None] * len(part)
                    try:
                        _run(device, part, reason, whole=True)
                    except BaseException:
                        nodes[start:stop] = part
                        raise
                    start = stop
        except BaseException as e:
            left = [n for n in nodes if n is not None]
            if device.world is not None:
                for node in left:
                    for v in node[2]:
                        v.data = Failed(e)
            elif isinstance(e, Exception) and not isinstance(e, debug.OutOfMemoryError):
                _isolate(device, left, reason)
            else:
                pending[0:0] = left
            raise


def _before_captures(graph, want):
    """How much of the pending list may run while functions are being recorded: what came before them, if that is asked for."""
    if want is None:
        return 0
    count = graph.captures[0].start
    if not any(v is want for node in graph.pending[:count] for v in node[2]):
        what = graph.captures[-1].what
        raise RuntimeError(
            f"a value was asked for inside a function under {what} (by .item(), float(), bool(), `if tensor:`, .tolist(), .numpy(), "
            f"or a shape that depends on data): inside {what} tensors stand for values that are not known yet. Use where(), cond() or "
            "masks instead of Python control flow, keep numbers as tensors, or take the value outside the function")
    for c in graph.captures:
        c.start -= count
    return count


def _isolate(device, nodes, reason):
    """After a program failed: run its nodes one by one, so that only those that cannot be run fail, and what needs them."""
    while nodes:
        node = nodes.pop(0)
        bad = next((v for v in node[1] if type(v) is Value and (v.data is None or type(v.data) is Failed)), None)
        error = bad.data.error if bad is not None and bad.data is not None else None
        if bad is None:
            part = [node]
            node = None
            try:
                _run(device, part, reason, whole=True)
                continue
            except Exception as e:
                error = e
                node = part[0]
        if node is not None:
            for v in node[2]:
                v.data = Failed(error)


def _run(device, nodes, reason, whole=False):
    """Run nodes as one program; or, unless `whole`, return where to cut them (what is dead is then gone)."""
    kept = []
    try:
        p = _prepare(device, nodes, kept)
        if p is None:
            return None
        key, leaves, scalars, live, dead = p
        positions = tuple([v.pos for v in live])
        if not whole:
            cuts = _cuts.get(key)
            if cuts is None:
                cuts = _cuts[key] = compile_.cuts(kept)
            if cuts:
                nodes[:] = kept
                return cuts
        if device.world is not None:
            rank, world = device.world
            together = [node[0].kernel.axes is not None for node in kept]
            if any(together):
                if not world.run(rank, key, kept, leaves, scalars, live, positions, dead, reason, whole):
                    nodes[:] = kept
                    return tuple(i for i in range(1, len(kept)) if together[i] or together[i - 1]) or (len(kept),)
                metrics.counters["nodes_run"] += len(kept)
                return None
            for v in leaves:
                if hasattr(v.data, "whole"):
                    v.data = v.data.array()
            dead = ()
        variant = _find(key, positions, dead)
        if variant is None:
            variant = compile_.build(device, kept, leaves, live, positions, dead, reason)
            _programs.setdefault(key, []).append(variant)
        else:
            metrics.counters["cache_hits"] += 1
        scalars += [v.data for v in leaves]
        results = variant.run(scalars)
        scalars = None
        if variant.positions == positions:
            for v, r in zip(live, results):
                v.data = r
        else:
            by = dict(zip(variant.positions, results, strict=True))
            for v in live:
                v.data = by[v.pos]
        metrics.counters["nodes_run"] += len(kept)
        return None
    finally:
        _reset(kept)


def _prepare(device, nodes, kept):
    """Fill `kept` with the nodes that something needs, numbered; None when there are none.

    Returns (key, leaves, packed scalars, live values, indices of the leaves that nobody else holds)."""
    out_refs, refs = _OUT_REFS, _getrefcount
    for i in range(len(nodes) - 1, -1, -1):
        node = nodes[i]
        need = False
        for v in node[2]:
            if v.uses or refs(v) > out_refs:
                need = True
        if need:
            for v in node[1]:
                if type(v) is Value:
                    v.uses += 1
            kept.append(node)
        else:
            nodes[i] = None
    node = v = None
    if not kept:
        return None
    kept.reverse()

    key, leaves, floats, ints, complexes, live = [], [], [], [], [], []
    push = key.append
    n = 0
    for config, ins, outs, _code, _lasti in kept:
        push(config.id)
        for v in ins:
            if type(v) is Value:
                p = v.pos
                if p < 0:
                    p = v.pos = n
                    n += 1
                    leaves.append(v)
                push(p)
            elif type(v) is float:
                floats.append(v)
            elif type(v) is complex:
                complexes.append(v)
            else:
                ints.append(v)
        for v in outs:
            v.pos = n
            n += 1
            if refs(v) - v.uses > out_refs:
                live.append(v)
    v = ins = outs = None

    dead = []
    i = 0  # not enumerate, whose tuple would hold one more reference
    for v in leaves:
        if type(v.data) is Failed:
            raise v.data.error
        alone = refs(v) - v.uses == _LEAF_REFS
        if type(v.data) is np.ndarray:  # at rest on the host
            if alone and v.data.size <= 64:  # read once: the call itself takes it along
                metrics.counters["transfers_to_device"] += 1
                metrics.counters["bytes_to_device"] += v.data.nbytes
            else:
                v.data = put(v.data, device, copy=False)  # to the device's runtime once, then kept there
        if alone and refs(v.data) == _DATA_REFS:
            dead.append(i)
        i += 1  # noqa: SIM113
    scalars = []
    if floats:
        scalars.append(np.array(floats, np.float64))
    if ints:
        scalars.append(np.array(ints, np.int64))
    if complexes:
        scalars.append(np.array(complexes, np.complex128))
    return tuple(key), leaves, scalars, live, tuple(dead)


def _reset(kept):
    for node in kept:
        for v in node[1]:
            if type(v) is Value:
                v.pos = -1
                v.uses = 0
        for v in node[2]:
            v.pos = -1
            v.uses = 0


def held(nodes):
    """ids of the values made by pending nodes that somebody holds besides these nodes."""
    uses: Counter = Counter()
    for node in nodes:
        uses.update(id(v) for v in node[1] if type(v) is Value)
    out = []
    for node in nodes:
        for v in node[2]:
            if _getrefcount(v) - uses[id(v)] > _OUT_REFS:
                out.append(id(v))
    return out


def lowered(device):
    """The pending program of a device, lowered and not run (a jax `Lowered`); None when nothing is pending."""
    with device.graph.lock:
        kept: list = []
        nodes = device.graph.pending[:]
        try:
            p = _prepare(device, nodes, kept)
            return None if p is None else compile_.lower(device, kept, p[1], p[3], ())[0]
        finally:
            _reset(kept)


def _find(key, positions, dead):
    """A built program that gives at least the live values and donates at most the dead inputs."""
    variants = _programs.get(key)
    if variants is None:
        return None
    for var in variants:
        if var.positions == positions and (var.dead == dead or var.donated.issubset(dead)):
            return var
    wanted = set(positions)
    for var in variants:
        if wanted.issubset(var.positions) and var.donated.issubset(dead):
            return var
    return None


def sync_all(reason: str = "sync") -> None:
    """Run everything pending on every device."""
    from xla_backend.runtime import all_devices
    for dev in all_devices():
        sync(dev, reason)


def forget() -> None:
    """Drop every program in memory (the disk cache stays)."""
    _programs.clear()
    _cuts.clear()

"""torch_xla.core.xla_model (`xm`): devices, step marks, saving, and collectives.

Outside replicas (`xmp.spawn`, `xla_backend.launch`) collectives are what they are in a world of one: identities, times `scale`.
"""
from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xla_backend import program, runtime
from xla_backend import random as random_
from xla_backend import replicas as replicas_
from xla_backend.utils.utils import RateTracker as RateTracker
from xla_backend.utils.utils import convert, for_each_instance

REDUCE_SUM, REDUCE_MUL, REDUCE_AND, REDUCE_OR, REDUCE_MIN, REDUCE_MAX = "sum", "mul", "and", "or", "min", "max"
_REDUCE = (REDUCE_SUM, REDUCE_MUL, REDUCE_AND, REDUCE_OR, REDUCE_MIN, REDUCE_MAX)


# ------------------------------------------------------------------------------------------- devices


def xla_device(n: int | None = None, devkind: str | None = None):
    """The XLA device `xla:n` (the thread's default when None).

    devkind: "TPU", "CUDA"/"GPU" or "CPU"; raises RuntimeError when this process's devices are of another kind."""
    import lazy_tensor as lt
    if devkind is not None and _kind(devkind) != runtime.device_type():
        raise RuntimeError(f"xla_device: no {devkind} device here; this process's XLA devices are {runtime.device_type()}. "
                           "XLA_BACKEND_DEVICE=TPU, GPU or CPU chooses the kind")
    return lt.device("xla", runtime.device("xla", n).index)


def _kind(name: str) -> str:
    name = name.upper()
    return "CUDA" if name in ("GPU", "CUDA", "ROCM") else name


def get_xla_supported_devices(devkind: str | None = None, max_devices: int | None = None) -> list[str] | None:
    """["xla:0", ...]: this process's XLA devices, at most max_devices; None when none is of kind devkind."""
    if devkind is not None and _kind(devkind) != runtime.device_type():
        return None
    return [f"xla:{i}" for i in range(len(runtime.xla_devices()))][:max_devices]


def xla_real_devices(devices=None) -> list[str]:
    """["TPU:0", ...]: the hardware behind XLA devices (all of this process when None)."""
    import lazy_tensor as lt
    names = devices if devices is not None else get_xla_supported_devices() or []
    return [f"{runtime.device_type()}:{lt.device(d).index or 0}" for d in names]


def xla_device_hw(device) -> str:
    """"TPU", "CUDA" or "CPU": the hardware behind a device."""
    import lazy_tensor as lt
    return "CPU" if lt.device(device).type == "cpu" else runtime.device_type()


def parse_xla_device(device: str):
    """("TPU", 0) of "TPU:0"; None when it is no such name."""
    m = re.match(r"([A-Z]+):(\d+)$", device)
    return (m.group(1), int(m.group(2))) if m else None


def is_xla_tensor(tensor) -> bool:
    """Whether a tensor lives on an XLA device."""
    return tensor.device.type == "xla"


def get_memory_info(device=None) -> dict[str, int]:
    """{"bytes_used", "bytes_limit", "peak_bytes_used"} of a device, in bytes.

    On CPU devices, where XLA keeps no books, these are this process's live arrays, the machine's memory and the process's
    peak resident size."""
    import lazy_tensor as lt
    d = lt.device("xla" if device is None else device)
    dev = runtime.device(d.type, d.index)
    stats = dev.jax_device.memory_stats()
    if stats:
        return {"bytes_used": stats["bytes_in_use"], "bytes_limit": stats["bytes_limit"], "peak_bytes_used": stats["peak_bytes_in_use"]}
    import resource

    import jax
    used = sum(a.nbytes for a in jax.live_arrays() if dev.jax_device in a.devices())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return {"bytes_used": used, "bytes_limit": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "peak_bytes_used": peak}


# ------------------------------------------------------------------------------------------- who am I


def get_ordinal() -> int:
    """This replica's number among all."""
    return runtime.global_ordinal()


def get_local_ordinal() -> int:
    """This replica's number on its host."""
    return runtime.local_ordinal()


def is_master_ordinal(local: bool = True) -> bool:
    """Whether this replica is the first (of its host when local, else of all)."""
    return (get_local_ordinal() if local else get_ordinal()) == 0


def xrt_world_size() -> int:
    """The number of replicas."""
    return runtime.world_size()


def master_print(*args, fd=None, local: bool = False, flush: bool = False) -> None:
    """print, on the first replica only. fd: the stream (stdout when None)."""
    if is_master_ordinal(local=local):
        print(*args, file=fd if fd is not None else sys.stdout, flush=flush)


# ------------------------------------------------------------------------------------------- steps

_closures = threading.local()


class _Runner:
    """Runs asynchronous step closures one after another in one thread."""

    def __init__(self):
        self.lock, self.thread, self.queue, self.error = threading.Condition(), None, [], None

    def submit(self, jobs):
        with self.lock:
            if self.error is not None:
                e, self.error = self.error, None
                raise RuntimeError("a step closure failed (add_step_closure with run_async=True)") from e
            self.queue.extend(jobs)
            if self.thread is None:
                self.thread = threading.Thread(target=self._run, daemon=True, name="xla_backend step closures")
                self.thread.start()
            self.lock.notify_all()

    def _run(self):
        while True:
            with self.lock:
                while not self.queue:
                    self.lock.wait()
                job = self.queue[0]
            try:
                job()
            except Exception as e:
                self.error = e
            with self.lock:
                self.queue.pop(0)
                self.lock.notify_all()

    def wait(self):
        with self.lock:
            while self.queue:
                self.lock.wait()


_runner = _Runner()


def add_step_closure(closure: Callable, args: Sequence = (), run_async: bool = False) -> None:
    """Call closure(*args) after the next `mark_step`, when tensors among args have values.

    run_async: in another thread, in order; an error is raised by a later step."""
    if not hasattr(_closures, "pending"):
        _closures.pending = []
    _closures.pending.append((closure, tuple(args), run_async))


def _run_step_closures() -> None:
    pending = getattr(_closures, "pending", [])
    _closures.pending = []
    jobs = [lambda c=c, a=a: c(*a) for c, a, is_async in pending if is_async]
    if jobs or _runner.error is not None:
        _runner.submit(jobs)
    for closure, args, is_async in pending:
        if not is_async:
            closure(*args)


def mark_step(wait: bool = False, reset_scope: bool = True) -> None:
    """Dispatch everything recorded, then run step closures. wait: until the devices are done."""
    program.sync_all("xm.mark_step()")
    if wait:
        runtime.synchronize()
    _run_step_closures()


def wait_device_ops(devices: Sequence[str] = ()) -> None:
    """Wait until the devices have finished what was dispatched, and asynchronous step closures have run."""
    runtime.synchronize()
    _runner.wait()


def unlazy(tensors) -> None:
    """Run what the tensors need and wait for their values."""
    for dev in {t._value().aval.device for t in tensors if t._value().data is None}:
        program.sync(dev, "xm.unlazy()")
    runtime.synchronize()


def optimizer_step(optimizer, barrier: bool = False, optimizer_args: dict | None = None, groups=None, pin_layout: bool = True):
    """Reduce gradients over the replicas, then optimizer.step(**optimizer_args); returns its result.

    barrier: end with `mark_step` (the step itself is dispatched by optimizer.step in any case; step closures run here)."""
    reduce_gradients(optimizer, groups=groups, pin_layout=pin_layout)
    loss = optimizer.step(**(optimizer_args or {}))
    if barrier:
        mark_step()
    return loss


# ------------------------------------------------------------------------------------------- random state


def set_rng_state(seed: int, device=None) -> None:
    """Start the random stream from a seed, or continue it from what `get_rng_state` gave."""
    seed = int(seed)
    if 0 <= seed < 2**64 or -(2**63) <= seed < 0:
        random_.default.manual_seed(seed)
        return
    random_.default.manual_seed(seed % 2**64)
    random_.default._count = seed >> 64


def get_rng_state(device=None) -> int:
    """The random stream's state as an int: its seed, plus 2**64 for each draw made since."""
    g = random_.default
    return g._seed % 2**64 + (g._count << 64)


# ------------------------------------------------------------------------------------------- moving and saving


class ToXlaTensorArena:
    """Converts the objects that select_fn picks in a nested structure, with one call of convert_fn(list)."""

    def __init__(self, convert_fn: Callable[[list], list], select_fn: Callable[[Any], bool]):
        self._convert_fn, self._select_fn = convert_fn, select_fn

    def transform(self, inputs):
        """inputs with what was picked replaced."""
        found: list = []
        for_each_instance(inputs, self._select_fn, found.append)
        new = iter(self._convert_fn(found))
        return convert(inputs, self._select_fn, lambda _: next(new))


def _is_tensor(x) -> bool:
    from lazy_tensor import Tensor
    return isinstance(x, Tensor)


def _maybe_convert_to_cpu(data, convert: bool = True):
    """data with its XLA tensors on the cpu; None when not `convert` (the work that they need still runs)."""
    def moved(tensors):
        program.sync_all("a transfer to the host")
        return [t.detach().cpu() if convert else t for t in tensors]
    out = ToXlaTensorArena(moved, lambda x: _is_tensor(x) and is_xla_tensor(x)).transform(data)
    return out if convert else None


def send_cpu_data_to_device(datas, device, input_sharding=None):
    """A list of nested structures with every tensor on a device."""
    if input_sharding is not None:
        raise NotImplementedError("send_cpu_data_to_device: input_sharding needs sharded tensors, which are not there yet")
    return convert(datas, _is_tensor, lambda t: t.to(device))


def save(data, file_or_path, master_only: bool = True, global_master: bool = False) -> None:
    """`lt.save` of a copy of data on the cpu.

    master_only: the first replica writes (of each host, or of all with global_master); all wait for it."""
    import lazy_tensor as lt
    write = not master_only or is_master_ordinal(local=not global_master)
    cpu = _maybe_convert_to_cpu(data, convert=write)
    if write:
        lt.save(cpu, file_or_path)
    rendezvous("torch_xla.core.xla_model.save")


# ------------------------------------------------------------------------------------------- meeting points and collectives


def rendezvous(tag: str, payload: bytes = b"", replicas: Sequence[int] = ()) -> list[bytes]:
    """Wait for all replicas; returns everyone's payload, by ordinal."""
    return replicas_.exchange(tag, payload)


xla_rendezvous = rendezvous


def mesh_reduce(tag: str, data, reduce_fn: Callable[[list], Any]):
    """reduce_fn([data of each replica]): plain objects, or structures with tensors, which come on the cpu."""
    return reduce_fn(replicas_.exchange(tag, _maybe_convert_to_cpu(data)))


def _groups(what, groups):
    """Groups of ordinals as jax takes them (None for all together); ValueError when they do not part the replicas."""
    n = runtime.world_size()
    if not groups:
        return None
    groups = tuple(tuple(int(i) for i in g) for g in groups)
    if sorted(i for g in groups for i in g) != list(range(n)):
        raise ValueError(f"{what}: groups {[list(g) for g in groups]} must name each of the {n} replicas (0 to {n - 1}) once")
    return None if len(groups) == 1 else groups


def _members(groups):
    return runtime.world_size() if groups is None else len(groups[0])


def _collective(what, key, fn, tensors):
    """Record a collective over tensors of this replica: fn(*arrays) -> tuple. Returns a list of tensors, on the tape."""
    from lazy_tensor.func._record import emit_kernel
    here = replicas_.current()
    assert here is not None
    rank, world = here
    values = [t._value() for t in tensors]
    device = world.devices[rank]
    for v in values:
        if v.aval.device is not device:
            raise RuntimeError(f"{what}: replica {rank} works on {device}, and a tensor of {list(v.aval.shape)} is on {v.aval.device}; "
                               f"move it with .to({str(device)!r})")
    kernel = replicas_.kernel(what, key, fn, tuple(v.aval.core for v in values), world)
    return emit_kernel(kernel, device, tuple(values), [(t._gn, t._oi) for t in tensors])


def _alone() -> bool:
    return replicas_.current() is None


def _check(what, count, reduce_type=None, groups=None):
    if reduce_type is not None and reduce_type not in _REDUCE:
        raise ValueError(f"{what}: reduce_type must be one of {', '.join(_REDUCE)}, got {reduce_type!r}")
    members = _members(groups)
    if count is not None and count != members:
        raise ValueError(f"{what}: a split into {count} needs {count} replicas in a group; there are {members}")


def _reducer(reduce_type, groups, scale):
    """A function of one array: reduced over the replicas, times scale."""
    import jax.numpy as jnp
    from jax import lax
    axis = replicas_.AXIS

    def reduce(x):
        if reduce_type == REDUCE_SUM:
            y = lax.psum(x.astype(jnp.int32) if x.dtype == bool else x, axis, axis_index_groups=groups)
        elif reduce_type in (REDUCE_MIN, REDUCE_MAX):
            y = (lax.pmin if reduce_type == REDUCE_MIN else lax.pmax)(x, axis, axis_index_groups=groups)
        else:
            each = lax.all_gather(x, axis, axis_index_groups=groups)
            op = {REDUCE_MUL: jnp.multiply, REDUCE_AND: jnp.bitwise_and, REDUCE_OR: jnp.bitwise_or}[reduce_type]
            y = each[0]
            for k in range(1, each.shape[0]):
                y = op(y, each[k])
        return (y * scale if scale != 1.0 else y).astype(x.dtype)
    return reduce


def _into(output, value):
    if output is None:
        return value
    return output.copy_(value)


def _write(tensors, new, what):
    from lazy_tensor.tensor import assign_value
    for t, r in zip(tensors, new, strict=True):
        assign_value(t, r._v, what)


def all_reduce(reduce_type: str, inputs, scale: float = 1.0, groups=None, cctx=None, pin_layout: bool = True):
    """inputs reduced over the replicas, times scale: a new tensor, or a list of tensors written in place (returns None).

    reduce_type: "sum", "mul", "and", "or", "min", "max". groups: lists of ordinals that reduce among themselves."""
    groups = _groups("all_reduce", groups)
    _check("all_reduce", None, reduce_type, groups)
    import lazy_tensor as lt
    if _alone():
        if _is_tensor(inputs):
            return inputs * scale if scale != 1.0 else inputs.clone()
        if scale != 1.0:
            with lt.no_grad():
                for t in inputs:
                    t.mul_(scale)
        return None
    reduce = _reducer(reduce_type, groups, scale)
    key = (reduce_type, groups, scale)
    if _is_tensor(inputs):
        return _collective("all_reduce", key, lambda x: (reduce(x),), [inputs])[0]
    if inputs:
        with lt.no_grad():
            _write(inputs, _collective("all_reduce", key, lambda *xs: tuple(map(reduce, xs)), list(inputs)), "all_reduce")
    return None


def all_gather(value, dim: int = 0, groups=None, output=None, pin_layout: bool = True):
    """Every replica's value (a tensor or a list of them), concatenated along dim."""
    from jax import lax
    groups = _groups("all_gather", groups)
    values = [value] if _is_tensor(value) else list(value)
    if _alone():
        new = [v.clone() for v in values]
    else:
        new = _collective("all_gather", (dim, groups), lambda *xs: tuple(
            lax.all_gather(x, replicas_.AXIS, axis_index_groups=groups, axis=dim % x.ndim, tiled=True) for x in xs), values)
    outputs = [output] if _is_tensor(value) else output
    result = new if output is None else [_into(o, v) for o, v in zip(outputs, new, strict=True)]
    return result[0] if _is_tensor(value) else result


def all_to_all(value, split_dimension: int, concat_dimension: int, split_count: int, groups=None, pin_layout: bool = True):
    """value split along one dimension, each part sent to its replica, what arrives joined along another."""
    from jax import lax
    groups = _groups("all_to_all", groups)
    _check("all_to_all", split_count, None, groups)
    if _alone():
        return value.clone()
    return _collective("all_to_all", (split_dimension, concat_dimension, groups), lambda x: (lax.all_to_all(
        x, replicas_.AXIS, split_dimension % x.ndim, concat_dimension % x.ndim, axis_index_groups=groups, tiled=True),), [value])[0]


def reduce_scatter(reduce_type: str, input, scale: float, scatter_dim: int, shard_count: int, groups=None, output=None,
                   pin_layout: bool = True):
    """input (a tensor or a list of them) reduced over the replicas times scale, of which each keeps its part along scatter_dim."""
    import jax.numpy as jnp
    from jax import lax
    groups = _groups("reduce_scatter", groups)
    _check("reduce_scatter", shard_count, reduce_type, groups)
    values = [input] if _is_tensor(input) else list(input)
    for v in values:
        if v.shape[scatter_dim] % shard_count:
            raise ValueError(f"reduce_scatter: dimension {scatter_dim} of {list(v.shape)} does not split into {shard_count} equal parts")
    if _alone():
        new = [v * scale for v in values]
    else:
        whole = _reducer(reduce_type, groups, scale)

        def part(x):
            if reduce_type == REDUCE_SUM and x.dtype != bool:
                y = lax.psum_scatter(x, replicas_.AXIS, scatter_dimension=scatter_dim % x.ndim, axis_index_groups=groups, tiled=True)
                return (y * scale if scale != 1.0 else y).astype(x.dtype)
            y = whole(x)
            size = y.shape[scatter_dim] // shard_count
            at = lax.axis_index(replicas_.AXIS)
            if groups is not None:
                place = jnp.zeros(runtime.world_size(), jnp.int32).at[jnp.array([i for g in groups for i in g])].set(
                    jnp.array([k for g in groups for k in range(len(g))], jnp.int32))
                at = place[at]
            return lax.dynamic_slice_in_dim(y, at * size, size, scatter_dim % x.ndim)
        new = _collective("reduce_scatter", (reduce_type, scale, scatter_dim, groups), lambda *xs: tuple(map(part, xs)), values)
    outputs = [output] if _is_tensor(input) else output
    result = new if output is None else [_into(o, v) for o, v in zip(outputs, new, strict=True)]
    return result[0] if _is_tensor(input) else result


def collective_permute(value, pairs: Iterable[Sequence[int]]):
    """value (a tensor or a list of them) sent from replica to replica along (source, target) pairs; zeros where nothing arrives."""
    from jax import lax
    n = runtime.world_size()
    pairs = tuple((int(a), int(b)) for a, b in pairs)
    if any(not 0 <= i < n for p in pairs for i in p):
        raise ValueError(f"collective_permute: pairs {list(pairs)} name replicas that do not exist; there are {n}")
    values = [value] if _is_tensor(value) else list(value)
    if _alone():
        new = [v.clone() if pairs else v * 0 for v in values]
    else:
        new = _collective("collective_permute", pairs, lambda *xs: tuple(lax.ppermute(x, replicas_.AXIS, pairs) for x in xs), values)
    return new[0] if _is_tensor(value) else new


def collective_broadcast(tensors: list, root_ordinal: int = 0, groups=None, pin_layout: bool = True) -> None:
    """Write root_ordinal's tensors into everyone's, in place. groups: a root's place within each."""
    import jax.numpy as jnp
    from jax import lax
    groups = _groups("collective_broadcast", groups)
    if not 0 <= root_ordinal < runtime.world_size():
        raise ValueError(f"collective_broadcast: root_ordinal {root_ordinal} does not exist; there are {runtime.world_size()} replicas")
    if _alone() or not tensors:
        return
    roots = frozenset([root_ordinal] if groups is None else [g[root_ordinal] if root_ordinal < len(g) else g[0] for g in groups])

    def spread(x):
        mine = jnp.isin(lax.axis_index(replicas_.AXIS), jnp.array(sorted(roots)))
        y = x.astype(jnp.int32) if x.dtype == bool else x
        return lax.psum(jnp.where(mine, y, jnp.zeros_like(y)), replicas_.AXIS, axis_index_groups=groups).astype(x.dtype)
    import lazy_tensor as lt
    with lt.no_grad():
        _write(tensors, _collective("collective_broadcast", (root_ordinal, groups), lambda *xs: tuple(map(spread, xs)), list(tensors)),
               "collective_broadcast")


def broadcast_master_param(model) -> None:
    """Give every replica the first one's parameters and buffers."""
    collective_broadcast([*model.parameters(), *model.buffers()])


def _fetch_gradients(optimizer) -> list:
    """The gradients of an optimizer's parameters."""
    return [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]


def reduce_gradients(optimizer, groups=None, pin_layout: bool = True) -> None:
    """Average the gradients of an optimizer's parameters over the replicas (of each group), in place, as one collective."""
    if not _alone():
        members = _members(_groups("reduce_gradients", groups))
        all_reduce(REDUCE_SUM, _fetch_gradients(optimizer), scale=1.0 / members, groups=groups)


def optimization_barrier_(tensors: list) -> None:
    """Keep XLA from moving or merging work across this point: the tensors are rebound behind a barrier."""
    import lazy_tensor as lt
    from lazy_tensor.ops.barrier import barrier
    from lazy_tensor.tensor import assign_
    with lt.no_grad():
        for t, new in zip(tensors, barrier([t.detach() for t in tensors]), strict=True):
            assign_(t, new, "optimization_barrier_")


def do_on_ordinals(target: Callable, data=(), ordinals: Sequence[int] = (0,)):
    """target(*data) on the replicas in ordinals, the data being on the cpu; the others wait."""
    result = target(*_maybe_convert_to_cpu(data)) if get_ordinal() in ordinals else None
    rendezvous("torch_xla.core.xla_model.do_on_ordinals")
    return result


def get_stablehlo(tensors: list | None = None) -> str:
    """The StableHLO of what is recorded on the XLA device and has not run (or of the last program)."""
    import lazy_tensor as lt
    return lt.dump("stablehlo", tensors[0].device if tensors else "xla")



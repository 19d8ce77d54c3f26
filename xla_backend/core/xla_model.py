"""torch_xla.core.xla_model (`xm`): devices, step marks, saving, and collectives.

Outside replicas (`xmp.spawn`, `xla_backend.launch`) collectives are what they are in a world of one: identities, times `scale`.
"""
from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from xla_backend import program, runtime
from xla_backend import random as random_
from xla_backend import replicas as replicas_
from xla_backend.core._collectives import REDUCE_AND as REDUCE_AND
from xla_backend.core._collectives import REDUCE_MAX as REDUCE_MAX
from xla_backend.core._collectives import REDUCE_MIN as REDUCE_MIN
from xla_backend.core._collectives import REDUCE_MUL as REDUCE_MUL
from xla_backend.core._collectives import REDUCE_OR as REDUCE_OR
from xla_backend.core._collectives import REDUCE_SUM as REDUCE_SUM
from xla_backend.core._collectives import _fetch_gradients as _fetch_gradients
from xla_backend.core._collectives import _is_tensor as _is_tensor
from xla_backend.core._collectives import all_gather as all_gather
from xla_backend.core._collectives import all_reduce as all_reduce
from xla_backend.core._collectives import all_to_all as all_to_all
from xla_backend.core._collectives import broadcast_master_param as broadcast_master_param
from xla_backend.core._collectives import collective_broadcast as collective_broadcast
from xla_backend.core._collectives import collective_permute as collective_permute
from xla_backend.core._collectives import reduce_gradients as reduce_gradients
from xla_backend.core._collectives import reduce_scatter as reduce_scatter
from xla_backend.utils.utils import RateTracker as RateTracker
from xla_backend.utils.utils import convert, for_each_instance

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

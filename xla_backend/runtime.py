"""Devices and transfers: which jax device a name means, and how bytes get there and back."""
from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable

import jax
import numpy as np
from absl import logging

from xla_backend import metrics
from xla_backend._jax import x64
from xla_backend.graph import Graph, Value, aval, local


class Device:
    """One place where values live: kind `"xla"` (an accelerator core, or a CPU core where there is none) or
    `"cpu"` (host memory)."""

    __slots__ = ("kind", "index", "jax_device", "graph", "sharding", "public", "host", "world")

    def __init__(self, kind, index, jax_device):
        self.kind, self.index, self.jax_device = kind, index, jax_device
        self.graph = Graph(self)
        self.sharding = jax.sharding.SingleDeviceSharding(jax_device)
        self.host = kind == "cpu"
        self.public = None  # the front end's own device object
        self.world = None   # (rank, xla_backend.replicas.World) while a replica runs on it

    def __repr__(self):
        return "cpu" if self.host else f"{self.kind}:{self.index}"


_devices: dict[tuple, Device] = {}
_lock = threading.Lock()
_default_index = threading.local()


# In a world of several processes: waits for an array, or raises what has become of those that it needs.
guard: Callable | None = None


def used() -> bool:
    """Whether a device has been used, so that jax's backends are up."""
    return bool(_devices)


def platform() -> str | None:
    """The platform that `XLA_BACKEND_DEVICE` chooses; None when jax chooses."""
    return _platform() or (os.environ.get("JAX_PLATFORMS") or None)


def _platform() -> str | None:
    name = os.environ.get("XLA_BACKEND_DEVICE") or os.environ.get("PJRT_DEVICE")
    if not name:
        return None
    name = name.lower()
    return {"tpu": "tpu", "gpu": "gpu", "cuda": "gpu", "rocm": "gpu", "cpu": "cpu"}.get(name, name)


def xla_devices() -> list:
    """The jax devices behind `xla:0`, `xla:1`, ...; `XLA_BACKEND_DEVICE` (TPU, GPU or CPU) chooses the kind."""
    platform = _platform()
    try:
        return jax.local_devices(backend=platform)
    except RuntimeError as e:
        raise RuntimeError(
            f"XLA_BACKEND_DEVICE asks for {platform!r}, and jax finds no such device here: {e}. "
            "Unset it to take what jax finds, or install jax for that device.") from e


def cores(wanted: int | None = None) -> int:
    """How many cores replicas can have, at most `wanted`; on CPU, virtual ones are made if no device has been used yet."""
    if wanted is not None and wanted > 1 and not _devices and _platform() in (None, "cpu") and os.environ.get("JAX_PLATFORMS", "cpu") == "cpu":
        try:
            jax.config.update("jax_num_cpu_devices", wanted)
        except RuntimeError:  # jax's own backends are up already
            logging.info("the number of virtual CPU cores cannot be changed any more")
    return min(wanted or len(xla_devices()), len(xla_devices()))


def device(kind: str, index: int | None = None) -> Device:
    """The device `kind:index`; the thread's default core when index is None."""
    if index is None:
        index = 0 if kind == "cpu" else getattr(_default_index, "value", 0)
    found = _devices.get((kind, index))
    if found is not None:
        return found
    with _lock:
        if kind == "cpu":
            if index != 0:
                raise RuntimeError(f"cpu has one device, cpu:0; got cpu:{index}")
            jd = jax.local_devices(backend="cpu")[0]
        else:
            cores = xla_devices()
            if not 0 <= index < len(cores):
                raise RuntimeError(f"xla:{index} does not exist: this process has {len(cores)} XLA device(s), "
                                   f"xla:0 to xla:{len(cores) - 1}")
            jd = cores[index]
            if not any(k == "xla" for k, _ in _devices):
                logging.info("xla devices: %d x %s", len(cores), jd.device_kind)
        return _devices.setdefault((kind, index), Device(kind, index, jd))


def set_default_index(index: int) -> None:
    """The core that `xla` without an index means in this thread."""
    _default_index.value = index


def all_devices() -> list[Device]:
    """Every device used so far; in a replica, its own core and the host."""
    here = getattr(local, "replica", None)
    if here is not None:
        return [d for d in _devices.values() if d.host or (d.kind, d.index) == ("xla", here[0] - here[1].first)]
    return list(_devices.values())


def put(array, dev: Device, copy: bool = True):
    """A jax.Array on dev from a NumPy array or a jax.Array; asynchronous.

    With copy=False the array may be aliased, so nobody may write to it afterwards.
    """
    if isinstance(array, np.ndarray):
        metrics.counters["transfers_to_device"] += 1
        metrics.counters["bytes_to_device"] += array.nbytes
        if copy:
            array = array.copy()
    elif array.devices() == {dev.jax_device}:
        return array  # the same object, so that its reference count tells who else holds the buffer
    with x64(True):
        return jax.device_put(array, dev.jax_device)


def leaf(array, dev: Device, copy: bool = True) -> Value:
    """A value that holds data: a NumPy array at rest on the host device, a jax.Array elsewhere."""
    a = aval(array.shape, array.dtype, dev)
    v = Value(a, array.copy() if copy else array) if dev.host and isinstance(array, np.ndarray) else Value(a, put(array, dev, copy))
    if local.watch is not None:
        local.watch.fresh[id(v)] = v
    return v


def synchronize() -> None:
    """Wait until every device has finished what was dispatched."""
    for a in jax.live_arrays():
        if not a.is_deleted():
            if guard is not None:
                guard(a)
            a.block_until_ready()


@atexit.register
def _finish():
    """The interpreter must not go while a program still runs (XLA:CPU on jax 0.10.2 crashes then)."""
    if _devices:
        synchronize()



def __getattr__(name):
    """torch_xla.runtime's public names (`world_size`, `device_type`, ...) live in `xla_backend.xr`."""
    if not name.startswith("_"):
        from xla_backend import xr
        if hasattr(xr, name) and getattr(getattr(xr, name), "__module__", "") == xr.__name__:
            return getattr(xr, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Values to the host and between devices; what is pending runs first."""
from __future__ import annotations

import numpy as np

from xla_backend import metrics, runtime
from xla_backend.graph import Failed, Value, aval, local
from xla_backend.program import sync
from xla_backend.runtime import Device, put


def to_host(value: Value) -> np.ndarray:
    """The value's bytes as a NumPy array that must not be written to; runs what is pending and waits."""
    data = value.data
    if local.watch is not None:
        local.watch.asked("a value was asked for", value)
    if data is None:
        sync(value.aval.device, "a value was asked for", value)
        data = value.data
    if type(data) is np.ndarray:
        return data
    if type(data) is Failed:
        raise data.error
    if runtime.guard is not None and not hasattr(data, "whole"):
        runtime.guard(data)
    out = np.asarray(data)
    metrics.counters["transfers_from_device"] += 1
    metrics.counters["bytes_from_device"] += out.nbytes
    return out


def copy_to(value: Value, dev: Device) -> Value:
    """The same numbers on another device: a transfer, no node. Pending work of the source runs first."""
    data = value.data
    if data is None:
        sync(value.aval.device, "a transfer between devices", value)
        data = value.data
    if type(data) is Failed:
        raise data.error
    if hasattr(data, "whole"):  # a replica's part of a program over all cores
        data = value.data = data.array()
    target = aval(value.aval.shape, value.aval.dtype, dev)
    copy = Value(target, put(data, dev))
    if local.watch is not None:
        local.watch.copies[id(copy)] = copy, value
    return copy

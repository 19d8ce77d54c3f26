"""What is recorded: avals, values, and one pending list of nodes for each device.

A node is the tuple `(config, inputs, outputs, code, lasti)`: the op configuration, its inputs (`Value`s, or
Python numbers that are run-time scalars), its output `Value`s, and the user's source position. Record order
is topological order, so a program is a prefix of a pending list.

Nothing here knows PyTorch or jax's devices.
"""
from __future__ import annotations

import threading

import numpy as np

# A program is cut here at the latest, so that a loop which never asks for a value runs in bounded memory.
PENDING_LIMIT = 20_000


class Aval:
    """Shape, dtype and device of a value; interned, so that identity is equality."""

    __slots__ = ("shape", "dtype", "weak", "device", "core", "ndim")

    def __init__(self, shape, dtype, weak, device, core):
        self.shape, self.dtype, self.weak, self.device = shape, dtype, weak, device
        self.core = core or self  # the same without a device
        self.ndim = len(shape)

    def __repr__(self):
        dims = ",".join(map(str, self.shape))
        return f"{self.dtype.name}[{dims}]" + (f"@{self.device}" if self.device is not None else "")


_avals: dict[tuple, Aval] = {}


def aval(shape: tuple, dtype, device=None, weak: bool = False) -> Aval:
    """The interned aval of a shape (tuple of int), a NumPy dtype and a device."""
    key = (shape, dtype, weak, device)
    found = _avals.get(key)
    if found is None:
        shape, dtype = tuple(map(int, shape)), np.dtype(dtype)
        key = (shape, dtype, weak, device)
        core = aval(shape, dtype, None, weak) if device is not None else None
        found = _avals.setdefault(key, Aval(shape, dtype, weak, device, core))
    return found


# What a Python number becomes when it is a run-time input.
WEAK = {
    bool: aval((), np.dtype(np.bool_), None, True),
    int: aval((), np.dtype(np.int64), None, True),
    float: aval((), np.dtype(np.float64), None, True),
    complex: aval((), np.dtype(np.complex128), None, True),
}


class Value:
    """The result of a node, or a leaf: what tensors and the tape hold.

    `data` is a jax.Array (or a NumPy array for a value at rest on the host), None while pending. `pos` and
    `uses` are scratch of the sync that runs it. `guard` is None, or what tells that the tensor it came from was
    written to since (see `lazy_tensor.tensor`).
    """

    __slots__ = ("aval", "data", "pos", "uses", "guard", "__weakref__")

    def __init__(self, aval, data=None):
        self.aval, self.data = aval, data
        self.pos, self.uses, self.guard = -1, 0, None


class _Local(threading.local):
    """What watches this thread's recording (a captured step, see `lazy_tensor.compiler`), and (rank, world) in a replica."""

    watch = None
    replica = None


local = _Local()


class Failed:
    """What stands in a value's `data` after its op could not be run: the error, raised again when it is asked for."""

    __slots__ = ("error",)

    def __init__(self, error):
        self.error = error


class Graph:
    """The pending nodes of one device. The list object never changes, so `pending.append` may be kept."""

    __slots__ = ("pending", "lock", "device", "captures")

    def __init__(self, device):
        self.pending: list[tuple] = []
        self.lock = threading.RLock()
        self.captures: list = []  # functions that are being recorded (xla_backend.capture), outermost first
        self.device = device

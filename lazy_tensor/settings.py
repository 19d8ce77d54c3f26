"""Process-wide settings and small queries at the top level of torch: seeds, syncs, precision, threads."""
from __future__ import annotations

import math
import os

import jax
import numpy as np

from lazy_tensor import creation, dtypes
from lazy_tensor import devices as device_
from lazy_tensor.ops import _common
from lazy_tensor.tensor import Tensor
from xla_backend import debug, program, runtime
from xla_backend import random as random_

e, pi, inf, nan, newaxis = math.e, math.pi, math.inf, math.nan, None
default_generator = random_.default


def manual_seed(seed) -> random_.Generator:
    """Start every random stream from a seed (an int in [-2**63, 2**64)); the same numbers on every device."""
    return random_.default.manual_seed(int(seed))


def seed() -> int:
    """Start the random streams from the system's entropy; returns the seed."""
    return random_.default.seed()


def initial_seed() -> int:
    """The seed of the default stream."""
    return random_.default.initial_seed()


def get_rng_state() -> Tensor:
    """The default stream's state: a uint8 cpu tensor of 16 bytes (seed, count)."""
    return generator_state(random_.default)


def set_rng_state(state) -> None:
    """Continue the default stream from a state of `get_rng_state`."""
    set_generator_state(random_.default, state)


def generator_state(g) -> Tensor:
    """A generator's state as a uint8 tensor."""
    a = np.array([g._seed, g._count], np.int64)
    return creation._array(a.view(np.uint8), None, "cpu", copy=True)


def set_generator_state(g, state) -> None:
    """Restore a generator from `generator_state`."""
    a = np.array(state._host() if isinstance(state, Tensor) else state)
    if a.dtype != np.uint8:
        raise TypeError(f"RNG state must be a torch.ByteTensor, got {a.dtype}")
    if a.size != 16:
        raise RuntimeError(f"RNG state is wrong size: {a.size} bytes, expected 16")
    g._seed, g._count = (int(x) for x in a.view(np.int64))


def _set_state(self, state):
    set_generator_state(self, state)
    return self


setattr(random_.Generator, "get_state", generator_state)  # noqa: B010
setattr(random_.Generator, "set_state", _set_state)  # noqa: B010


def sync(device=None, wait=False) -> None:
    """Run everything recorded on a device (all devices when None); `wait=True` also waits until it is done."""
    if device is None:
        program.sync_all("lt.sync()")
    else:
        program.sync(device_.resolve(device), "lt.sync()")
    if wait:
        runtime.synchronize()


def sync_step() -> None:
    """What the end of `optimizer.step()` does: dispatch everything pending on XLA devices, without waiting."""
    for dev in runtime.all_devices():
        program.sync(dev, "the end of optimizer.step()")


def dump(stage="text", device="xla") -> str:
    """What is recorded and has not run on a device, or the last program that ran: "text" (one op a line, with your lines),
    "stablehlo", "hlo" (optimised) or "dot" (a picture, for graphviz)."""
    return debug.dump(device_.resolve(device), program.lowered, stage)


def is_tensor(obj) -> bool:
    """Whether obj is a Tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj) -> bool:
    """Whether obj is a storage."""
    from lazy_tensor.methods import UntypedStorage
    return isinstance(obj, UntypedStorage)


def typename(obj) -> str:
    """The type's name as torch says it."""
    return obj.type() if isinstance(obj, Tensor) else f"{type(obj).__module__}.{type(obj).__qualname__}"


_PRECISION = {"highest": "highest", "high": "high", "medium": "default"}
_precision = ["highest"]


def set_float32_matmul_precision(precision) -> None:
    """"highest" (full float32), "high" or "medium": how accelerators may multiply float32 matrices."""
    if precision not in _PRECISION:
        raise RuntimeError(f"{precision} is not one of 'highest', 'high', or 'medium'")
    _precision[0] = precision
    jax.config.update("jax_default_matmul_precision", _PRECISION[precision])


def get_float32_matmul_precision() -> str:
    """The present setting."""
    return _precision[0]


def set_default_tensor_type(t) -> None:
    """Legacy: the default dtype (and device) of new tensors from a type such as torch.FloatTensor or its name."""
    if isinstance(t, str):
        name = t.split(".")[-1]
        dev = "xla" if ".cuda." in t or ".xla." in t else None
    else:
        name, dev = t.__name__, None if t._device == "cpu" else t._device
    if name not in creation._LEGACY:
        raise TypeError(f"invalid type name: {t!r}; one of {', '.join(creation._LEGACY)} fits")
    d = dtypes.names[creation._LEGACY[name]]
    if not d.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, got {t!r}")
    _common._default_float[0] = d.np
    device_.set_default_device(dev)


_deterministic = [False]


def use_deterministic_algorithms(mode, *, warn_only=False) -> None:
    """Noted; XLA's programs give the same bits from run to run on the same device and version."""
    _deterministic[0] = bool(mode)


def are_deterministic_algorithms_enabled() -> bool:
    """The present setting."""
    return _deterministic[0]


def set_num_threads(n) -> None:
    """Noted: XLA:CPU takes its threads when it starts (XLA_FLAGS); raises for n < 1."""
    if n < 1:
        raise RuntimeError("set_num_threads expects a positive integer")


def get_num_threads() -> int:
    """The CPU's threads that XLA uses."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


set_num_interop_threads, get_num_interop_threads = set_num_threads, get_num_threads


def compiled_with_cxx11_abi() -> bool:
    """True."""
    return True


"""torch.cuda on a machine that has none: queries say so, seeds seed our stream, what needs a GPU raises torch's error.

An NVIDIA GPU that jax drives is the device "xla", as a TPU is; `lt.accelerator` speaks of it.
"""
from __future__ import annotations

import contextlib
import time

from lazy_tensor import settings
from lazy_tensor.creation import _LEGACY, legacy_type
from xla_backend import runtime

__all__ = ["Event", "Stream", "amp", "device", "device_count", "is_available"]

_NONE = ("Torch not compiled with CUDA enabled: this library runs on XLA devices; a GPU that jax finds is device 'xla' "
         "(lt.accelerator tells about it)")
has_half = True
default_generators: tuple = ()

for _name in _LEGACY:
    globals()[_name] = legacy_type(_name, "xla")


def _refuse(*args, **kwargs):
    raise AssertionError(_NONE)


# --- queries

def is_available() -> bool:
    """False: there are no CUDA devices, only XLA ones."""
    return False


def device_count() -> int:
    """0."""
    return 0


def is_initialized() -> bool:
    """False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False: asked of a CUDA device; XLA devices take bfloat16 in any case."""
    return False


def get_arch_list() -> list:
    """[]."""
    return []


def is_current_stream_capturing() -> bool:
    """False."""
    return False


# --- seeds: the one stream of this library

def manual_seed(seed: int) -> None:
    """Start the default random stream from a seed."""
    settings.manual_seed(seed)


manual_seed_all = manual_seed


def seed() -> None:
    """Start the default random stream from the system's entropy."""
    settings.seed()


seed_all = seed


def initial_seed() -> int:
    """The default stream's seed."""
    return settings.initial_seed()


def get_rng_state(device="cuda"):
    """The default stream's state."""
    return settings.get_rng_state()


def set_rng_state(new_state, device="cuda") -> None:
    """Continue the default stream from a state."""
    settings.set_rng_state(new_state)


def get_rng_state_all() -> list:
    """[]: one state for each CUDA device."""
    return []


def set_rng_state_all(new_states) -> None:
    """Nothing for no states; RuntimeError for more states than devices."""
    if len(list(new_states)):
        raise AssertionError(_NONE)


# --- nothing to do: XLA frees what nobody holds, and there is no CUDA context

def init() -> None:
    """Raises: there is no CUDA."""
    _refuse()


def empty_cache() -> None:
    """Collect garbage in full, so that device memory held by unreachable cycles goes back to XLA's allocator."""
    from xla_backend.compile import settle
    settle()


def ipc_collect() -> None:
    """Nothing: no CUDA memory is shared between processes."""


def reset_peak_memory_stats(device=None) -> None:
    """Nothing: all figures are 0."""


reset_max_memory_allocated = reset_max_memory_cached = reset_accumulated_memory_stats = reset_peak_memory_stats


def _zero(device=None) -> int:
    """0: no CUDA memory is in use."""
    return 0


memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = memory_cached = max_memory_cached = _zero


def memory_stats(device=None) -> dict:
    """{}."""
    return {}


def memory_summary(device=None, abbreviated: bool = False) -> str:
    """A line that says that there is no CUDA memory."""
    return "no CUDA memory: " + _NONE


def synchronize(device=None) -> None:
    """Wait until everything dispatched to XLA devices is done (what a script that times its steps wants)."""
    settings.sync(wait=True)


# --- what needs a device

set_device = current_device = get_device_name = get_device_capability = get_device_properties = mem_get_info = _refuse
utilization = memory_usage = current_blas_handle = set_per_process_memory_fraction = can_device_access_peer = _refuse


class device(contextlib.nullcontext):
    """`with torch.cuda.device(i)`: raises unless i is None or negative (torch's "no device")."""

    def __init__(self, device):
        super().__init__()
        if device is not None and not (isinstance(device, int) and device < 0):
            _refuse()


device_of = device


class Stream:
    """A queue of work: XLA orders its own, so every stream is the same one. wait and query are about all dispatched work."""

    def __init__(self, device=None, priority=0, **kwargs):
        self.device, self.priority = device, priority

    def synchronize(self):
        """Wait until dispatched work is done."""
        settings.sync(wait=True)

    def query(self) -> bool:
        """True once everything dispatched is done (waits for it, since XLA does not tell)."""
        runtime.synchronize()
        return True

    def wait_stream(self, stream):
        """Nothing: work on all streams runs in the order in which it was recorded."""

    def wait_event(self, event):
        """Nothing: work on all streams runs in the order in which it was recorded."""

    def record_event(self, event=None):
        """An event recorded now."""
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return None


ExternalStream = Stream
_stream = Stream()


def current_stream(device=None) -> Stream:
    """The one stream."""
    return _stream


default_stream = current_stream


def stream(stream):
    """A context for work on a stream: nothing changes."""
    return contextlib.nullcontext(stream)


StreamContext = stream


def set_stream(stream) -> None:
    """Nothing: there is one stream."""


class Event:
    """A point in time: `record` runs what is pending, waits until it is done and reads the clock, so that `elapsed_time`
    is what the work between two events took."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        self.enable_timing, self._at = enable_timing, None

    def record(self, stream=None):
        """Read the clock once all work recorded so far is done."""
        settings.sync(wait=True)
        self._at = time.perf_counter()

    def wait(self, stream=None):
        """Nothing: a recorded event has happened."""

    synchronize = wait

    def query(self) -> bool:
        """True: a recorded event has happened."""
        return True

    def elapsed_time(self, end_event) -> float:
        """Milliseconds from this event to end_event. Raises RuntimeError unless both are timed and recorded."""
        if not (self.enable_timing and end_event.enable_timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if self._at is None or end_event._at is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return 1e3 * (end_event._at - self._at)


class _Nvtx:
    """torch.cuda.nvtx: ranges appear in jax's profiler traces."""

    def __init__(self):
        self._open = []

    def range_push(self, msg):
        """Begin a named span; returns its depth."""
        import jax
        span = jax.profiler.TraceAnnotation(msg)
        span.__enter__()
        self._open.append(span)
        return len(self._open) - 1

    def range_pop(self):
        """End the innermost span; returns its depth."""
        if self._open:
            self._open.pop().__exit__(None, None, None)
        return len(self._open)

    def range(self, msg, *args, **kwargs):
        """A named span as a context manager."""
        import jax
        return jax.profiler.TraceAnnotation(msg.format(*args, **kwargs))

    def mark(self, msg):
        """A named moment."""
        import jax
        with jax.profiler.TraceAnnotation(msg):
            return None


nvtx = _Nvtx()


class CUDAGraph:
    """Raises: XLA compiles whole programs anyway."""

    def __init__(self, *args, **kwargs):
        _refuse()


class _Random:
    """torch.cuda.random."""

    manual_seed = staticmethod(manual_seed)
    manual_seed_all = staticmethod(manual_seed_all)
    get_rng_state = staticmethod(get_rng_state)
    set_rng_state = staticmethod(set_rng_state)
    initial_seed = staticmethod(initial_seed)
    seed = staticmethod(seed)


random = _Random()


def __getattr__(name):
    if name == "amp":
        import importlib
        return importlib.import_module("lazy_tensor.cuda.amp")
    raise AttributeError(f"module 'torch.cuda' has no attribute {name!r} here")

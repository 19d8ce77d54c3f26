"""torch.accelerator: the device that work should go to. Here that is always "xla", whatever jax finds behind it
(a TPU, a GPU, or the CPU's XLA device), so that a script written with this module needs no change."""
from __future__ import annotations

from lazy_tensor import settings
from lazy_tensor.devices import device
from xla_backend import runtime


def is_available() -> bool:
    """True: there is always an XLA device."""
    return True


def current_accelerator(check_available: bool = False) -> device:
    """device("xla")."""
    return device("xla")


def device_count() -> int:
    """The number of XLA devices of this process."""
    return len(runtime.xla_devices())


def current_device_index() -> int:
    """The index that "xla" means in this thread."""
    return runtime.device("xla").index


current_device_idx = current_device_index


def set_device_index(device_) -> None:
    """What "xla" shall mean in this thread: an index, or a device. RuntimeError when there is no such device."""
    index = device_ if isinstance(device_, int) else device(device_).index or 0
    runtime.device("xla", index)
    runtime.set_default_index(index)


set_device_idx = set_device_index


def synchronize(device=None) -> None:
    """Run what is recorded and wait until the devices are done."""
    settings.sync(wait=True)


class device_index:
    """A block in which "xla" means another device; None changes nothing."""

    def __init__(self, device):
        self.index = device

    def __enter__(self):
        self.before = current_device_index()
        if self.index is not None:
            set_device_index(self.index)

    def __exit__(self, *exc):
        runtime.set_default_index(self.before)


def current_stream(device=None):
    """XLA's one queue of work."""
    from lazy_tensor.cuda import current_stream as inner
    return inner()


def set_stream(stream) -> None:
    """Nothing: there is one stream."""


def empty_cache() -> None:
    """Collect garbage in full, so that device memory held by unreachable cycles goes back to XLA's allocator."""
    from xla_backend.compile import settle
    settle()


def get_memory_info(device=None) -> tuple[int, int]:
    """(free bytes, all bytes) of the device's memory."""
    from xla_backend.core.xla_model import get_memory_info as inner
    m = inner(device)
    return m["bytes_limit"] - m["bytes_used"], m["bytes_limit"]


def memory_allocated(device_index=None) -> int:
    """Bytes in use on the device."""
    from xla_backend.core.xla_model import get_memory_info as inner
    return inner(None if device_index is None else device("xla", device_index))["bytes_used"]


def max_memory_allocated(device_index=None) -> int:
    """The most bytes that were in use on the device."""
    from xla_backend.core.xla_model import get_memory_info as inner
    return inner(None if device_index is None else device("xla", device_index))["peak_bytes_used"]


memory_reserved, max_memory_reserved = memory_allocated, max_memory_allocated

"""torch_xla.runtime's public names (`xr`), reached through `xla_backend.runtime`: who and how many we are."""
from __future__ import annotations

import os

import jax

from xla_backend import runtime as _runtime
from xla_backend.graph import local as _local

_KIND = {"gpu": "CUDA", "cuda": "CUDA", "rocm": "CUDA", "tpu": "TPU", "cpu": "CPU"}


def device_type() -> str:
    """"TPU", "CUDA" or "CPU": what the XLA devices of this process are."""
    platform = _runtime.xla_devices()[0].platform
    return _KIND.get(platform, platform.upper())


def set_device_type(pjrt_device: str) -> None:
    """Choose the kind of XLA device ("TPU", "CUDA", "CPU"); RuntimeError when a device is in use already."""
    if any(kind == "xla" for kind, _ in _runtime._devices):
        raise RuntimeError("set_device_type: an XLA device is in use already; call it first")
    os.environ["XLA_BACKEND_DEVICE"] = pjrt_device


def using_pjrt() -> bool:
    """True: PJRT is the only runtime."""
    return True


def world_size() -> int:
    """The number of replicas that run the user's function: 1 outside `xmp.spawn` and `xla_backend.launch`."""
    here = _replica()
    return here[1].size if here else 1


def _replica():
    return getattr(_local, "replica", None)


def global_ordinal() -> int:
    """This replica's number among all."""
    here = _replica()
    return here[0] if here else 0


def local_ordinal() -> int:
    """This replica's number on its host (with several processes of the launcher on one host: among all of theirs)."""
    here = _replica()
    if not here:
        return 0
    return here[0] - here[1].first + int(os.environ.get("XLA_BACKEND_LOCAL_PROCESS") or os.environ.get("LOCAL_RANK") or 0) * here[1].local


def process_index() -> int:
    """This process's number."""
    return jax.process_index(_runtime.xla_devices()[0].platform)


def process_count() -> int:
    """The number of processes."""
    return jax.process_count(_runtime.xla_devices()[0].platform)


def local_process_count() -> int:
    """The number of processes on this host."""
    return int(os.environ.get("XLA_BACKEND_LOCAL_PROCESSES") or os.environ.get("LOCAL_WORLD_SIZE") or 1)


host_index, host_count = process_index, process_count


def addressable_device_count() -> int:
    """The number of XLA devices that this process drives."""
    return len(_runtime.xla_devices())


addressable_runtime_device_count = local_device_count = addressable_device_count


def global_device_count() -> int:
    """The number of XLA devices of all processes."""
    return len(jax.devices(_runtime.xla_devices()[0].platform))


global_runtime_device_count = global_device_count


def runtime_device_attributes(device: str) -> dict:
    """{"name", "coords", "core_on_chip", ...} of "TPU:0" or "xla:0", as far as the hardware tells."""
    d = _runtime.xla_devices()[int(device.rsplit(":", 1)[-1]) if ":" in device else 0]
    out = {"name": d.device_kind, "platform": d.platform, "id": d.id}
    for name in ("coords", "core_on_chip", "slice_index"):
        if getattr(d, name, None) is not None:
            out[name] = getattr(d, name)
    return out


def global_runtime_device_attributes() -> list[dict]:
    """`runtime_device_attributes` of every device."""
    return [runtime_device_attributes(f"xla:{i}") for i in range(addressable_device_count())]


def use_spmd(auto: bool = False) -> None:
    """Turn on the global view of all cores: raises NotImplementedError until sharding is there."""
    raise NotImplementedError("use_spmd: sharding over several cores is not there yet; programs run on one core (xla:0)")


def is_spmd() -> bool:
    """Whether the global view is on."""
    return False


def initialize_cache(path: str, readonly: bool = False) -> None:
    """Keep compiled programs in the folder `path` between runs. Raises ValueError for readonly, which jax lacks."""
    if readonly:
        raise ValueError("initialize_cache: readonly=True is not supported, jax's cache always writes")
    from xla_backend._jax import make_cache_writes_atomic
    os.makedirs(path, exist_ok=True)
    make_cache_writes_atomic()
    jax.config.update("jax_compilation_cache_dir", os.fspath(path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def get_master_ip() -> str:
    """The address of the first host: MASTER_ADDR, else localhost."""
    return os.environ.get("MASTER_ADDR", "localhost")

"""lazy_tensor: PyTorch's API, recorded lazily and run on TPU, GPU and CPU through XLA.

Rooms: `tensor` (the handle), `ops` (one file a family), `autograd`, `nn`, `optim`, `utils`, `amp`, `func`, `jit`,
`serialization`. `ops` may import `tensor`; everything else may import both; `xla_backend` imports none of them.
"""
from __future__ import annotations

import importlib
import sys as _sys

from lazy_tensor import dtypes as _dtypes
from lazy_tensor import layouts as _layouts
from lazy_tensor.creation import (
    _LEGACY,
    as_tensor,
    asarray,
    from_dlpack,
    from_numpy,
    frombuffer,
    legacy_type,
    tensor,
    to_dlpack,
)
from lazy_tensor.devices import device, get_default_device, set_default_device
from lazy_tensor.dtypes import (
    Size,
    can_cast,
    dtype,
    finfo,
    get_default_dtype,
    iinfo,
    promote_types,
    set_default_dtype,
)
from lazy_tensor.layouts import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    sparse_coo,
    sparse_csr,
    strided,
)
from lazy_tensor.modes import (
    enable_grad,
    inference_mode,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from lazy_tensor.tensor import Tensor
from xla_backend.debug import OutOfMemoryError, explain
from xla_backend.random import Generator

__version__ = "0.1.0"

globals().update(_dtypes.names)
for _name in _LEGACY:
    globals()[_name] = legacy_type(_name)

from lazy_tensor import ops as _ops  # noqa: E402

_ops.load()
from lazy_tensor.ops import _define as _mechanism  # noqa: E402

globals().update({k: v for k, v in _mechanism.namespace("").items() if k not in globals()})

from lazy_tensor import methods as _methods  # noqa: E402

_methods.attach()
globals().update({k: v for k, v in _mechanism.namespace("").items() if not hasattr(_sys.modules[__name__], k)})

from lazy_tensor import autograd  # noqa: E402
from lazy_tensor.settings import (  # noqa: E402
    are_deterministic_algorithms_enabled,
    compiled_with_cxx11_abi,
    default_generator,
    dump,
    e,
    get_float32_matmul_precision,
    get_num_interop_threads,
    get_num_threads,
    get_rng_state,
    inf,
    initial_seed,
    is_storage,
    is_tensor,
    manual_seed,
    nan,
    newaxis,
    pi,
    seed,
    set_default_tensor_type,
    set_float32_matmul_precision,
    set_num_interop_threads,
    set_num_threads,
    set_rng_state,
    sync,
    sync_step,
    typename,
    use_deterministic_algorithms,
)

_missing = _mechanism.missing("", globals())
_SUBMODULES = ("nn", "optim", "utils", "amp", "func", "jit", "linalg", "fft", "special", "signal", "masked", "serialization",
               "distributed", "cuda", "backends", "random", "testing", "hub", "accelerator", "overrides", "version", "library",
               "compiler", "distributions", "multiprocessing", "types", "xla", "mps", "cpu", "return_types", "onnx", "profiler")


_LATE = {"vmap": "func", **dict.fromkeys(("associative_scan", "cond", "map", "scan", "scan_layers", "while_loop"), "func._control"), "GradScaler": "amp",
         **dict.fromkeys("""autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache get_autocast_cpu_dtype get_autocast_dtype
             get_autocast_gpu_dtype get_autocast_xla_dtype is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_enabled
             is_autocast_xla_enabled set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype
             set_autocast_enabled set_autocast_gpu_dtype set_autocast_xla_dtype set_autocast_xla_enabled""".split(), "amp.autocast_mode")}


def __getattr__(name):
    if name in _LATE:
        return getattr(importlib.import_module(f"{__name__}.{_LATE[name]}"), name)
    if name in _SUBMODULES:
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as e:
            if e.name != f"{__name__}.{name}":
                raise
            raise AttributeError(f"module 'lazy_tensor' has no attribute {name!r}: torch.{name} is not implemented here") from None
    if name in ("save", "load"):
        from lazy_tensor import serialization
        return getattr(serialization, name)
    if name == "compile":
        from lazy_tensor.compiler import compile
        return compile
    if name == "autocast":
        from lazy_tensor.amp import autocast
        return autocast
    if name in ("set_printoptions", "get_printoptions"):
        from lazy_tensor import printing
        return getattr(printing, name)
    return _missing(name)


def __dir__():
    return sorted({*globals(), *_SUBMODULES, *_LATE, "save", "load", "autocast", "set_printoptions"})

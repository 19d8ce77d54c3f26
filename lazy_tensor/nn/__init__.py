"""torch.nn: modules, parameters, functions, initialisers, utilities.

Rooms: `module` and `hooks`, `parameter`, `containers`, `layers/` (a file a family), `functional` (from the op
registry), `init`, `utils/`, `parallel/`. torch's module paths (`nn.modules.conv`, ...) are aliases from `_paths`.
"""
from __future__ import annotations

import importlib as _importlib

from lazy_tensor.nn import functional, init, parameter
from lazy_tensor.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from lazy_tensor.nn.module import Module
from lazy_tensor.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

_FAMILIES = ("linear", "conv", "pooling", "normalization", "dropout", "activation", "loss", "padding", "misc", "sparse", "rnn",
             "transformer", "adaptive", "lazy")
for _family in _FAMILIES:
    _m = _importlib.import_module(f"lazy_tensor.nn.layers.{_family}")
    globals().update({k: v for k, v in vars(_m).items()
                      if isinstance(v, type) and issubclass(v, Module) and v.__module__ == _m.__name__ and not k.startswith("_")})
globals().pop("NonDynamicallyQuantizableLinear", None)

from lazy_tensor.nn import _paths, parallel, utils  # noqa: E402
from lazy_tensor.ops._define import missing as _missing  # noqa: E402

_paths.register()
from lazy_tensor.nn import modules  # type: ignore[attr-defined]  # noqa: E402

DataParallel = parallel.DataParallel

__getattr__ = _missing("nn", globals())

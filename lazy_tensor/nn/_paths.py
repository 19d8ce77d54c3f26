"""torch's module paths as aliases: `lazy_tensor.nn.modules.conv` and the like, from one table."""
from __future__ import annotations

import importlib
import sys
import types

_TABLE = {
    "module": "module", "container": "containers", "linear": "layers.linear", "conv": "layers.conv", "pooling": "layers.pooling",
    "batchnorm": "layers.normalization", "instancenorm": "layers.normalization", "normalization": "layers.normalization",
    "dropout": "layers.dropout", "activation": "layers.activation", "loss": "layers.loss", "padding": "layers.padding",
    "flatten": "layers.misc", "fold": "layers.misc", "upsampling": "layers.misc", "pixelshuffle": "layers.misc",
    "channelshuffle": "layers.misc", "distance": "layers.misc", "sparse": "layers.sparse", "rnn": "layers.rnn",
    "transformer": "layers.transformer", "adaptive": "layers.adaptive", "lazy": "layers.lazy",
}


def register():
    """Put `nn.modules` and its rooms into sys.modules; each holds the names of our file."""
    nn = sys.modules["lazy_tensor.nn"]
    modules = types.ModuleType("lazy_tensor.nn.modules", "torch.nn.modules: aliases of lazy_tensor.nn's files.")
    modules.__path__ = []
    modules.__dict__.update({k: v for k, v in vars(nn).items() if isinstance(v, type)})
    for theirs, ours in _TABLE.items():
        source = importlib.import_module(f"lazy_tensor.nn.{ours}")
        alias = types.ModuleType(f"lazy_tensor.nn.modules.{theirs}", source.__doc__)
        alias.__dict__.update({k: v for k, v in vars(source).items() if not (k.startswith("__") and k.endswith("__"))})
        setattr(modules, theirs, alias)
        sys.modules[alias.__name__] = alias
    modules.activation.MultiheadAttention = nn.MultiheadAttention
    modules.utils = types.ModuleType("lazy_tensor.nn.modules.utils", "Tuples of arguments.")
    from lazy_tensor.nn.layers._args import ntuple
    modules.utils._ntuple = lambda n: lambda x: ntuple(x, n)
    for n, name in ((1, "_single"), (2, "_pair"), (3, "_triple"), (4, "_quadruple")):
        setattr(modules.utils, name, modules.utils._ntuple(n))
    sys.modules[modules.utils.__name__] = modules.utils
    sys.modules[modules.__name__] = nn.modules = modules

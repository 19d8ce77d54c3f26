"""Utilities (torch.utils): `data`, `checkpoint`, `dlpack`, `model_zoo`, `tensorboard`, `cpp_extension`, `_pytree`; imported when first used."""
import importlib

_ROOMS = ("hooks", "data", "checkpoint", "dlpack", "model_zoo", "tensorboard", "cpp_extension", "_pytree")


def __getattr__(name):
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'lazy_tensor.utils' has no attribute {name!r}: torch.utils.{name} is not implemented here")


def __dir__():
    return sorted([*globals(), *_ROOMS])

"""Modules without initialisation (torch.nn.utils.skip_init)."""
from __future__ import annotations

import inspect


def skip_init(module_cls, *args, **kwargs):
    """module_cls(*args, **kwargs) whose parameters are left as allocated."""
    from lazy_tensor.nn.module import Module
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device=device).to_empty(device=device)

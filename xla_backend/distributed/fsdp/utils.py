"""torch_xla.distributed.fsdp.utils: activation checkpointing of a module."""
from __future__ import annotations

import functools


def checkpoint_module(module):
    """The module, its forward run again in backward instead of keeping its intermediate results (in place; returns it)."""
    from lazy_tensor.utils.checkpoint import checkpoint
    module.forward = functools.partial(checkpoint, module.forward, use_reentrant=False)
    return module

"""torch_xla.distributed.fsdp.wrap: which submodules become sharded units of their own.

A policy is a function (module, recurse, unwrapped_params) -> bool: with recurse whether to look into the module, without whether
to wrap it, whose own parameters (those that no unit inside has) are unwrapped_params in number.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazy_tensor import nn


def always_wrap_policy(*args, **kwargs) -> bool:
    """Every submodule is a unit."""
    return True


def lambda_auto_wrap_policy(module, recurse: bool, unwrapped_params: int, lambda_fn: Callable) -> bool:
    """Submodules for which lambda_fn(module) holds are units."""
    return recurse or bool(lambda_fn(module))


def transformer_auto_wrap_policy(module, recurse: bool, unwrapped_params: int, transformer_layer_cls) -> bool:
    """Submodules of the classes transformer_layer_cls are units."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(module, recurse: bool, unwrapped_params: int, min_num_params: int = int(1e8), force_leaf_modules=None,
                                exclude_wrap_modules=None) -> bool:
    """Submodules with at least min_num_params parameters are units: not those of exclude_wrap_modules (ModuleList and ModuleDict), and
    nothing inside those of force_leaf_modules (MultiheadAttention)."""
    policy: Any = size_based_auto_wrap_policy
    leaves = policy.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules
    excluded = policy.EXCLUDE_WRAP_MODULES if exclude_wrap_modules is None else exclude_wrap_modules
    return unwrapped_params >= min_num_params and not isinstance(module, tuple(leaves if recurse else excluded))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {nn.ModuleList, nn.ModuleDict}  # type: ignore[attr-defined]
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {nn.MultiheadAttention}  # type: ignore[attr-defined]


def recursive_wrap(module, auto_wrap_policy: Callable, wrapper_cls: Callable, ignored_modules=(), ignored_params=(),
                   only_wrap_children: bool = False, **kwargs: Any):
    """(module with its submodules wrapped by the policy, how many parameters were wrapped)."""
    ignored = {id(p) for p in ignored_params}
    total = sum(p.numel() for p in module.parameters() if id(p) not in ignored)
    if not auto_wrap_policy(module=module, recurse=True, unwrapped_params=total):
        return module, 0
    wrapped = 0
    for name, child in list(module.named_children()):
        if any(child is m for m in ignored_modules):
            continue
        new, count = recursive_wrap(child, auto_wrap_policy, wrapper_cls, ignored_modules, ignored_params, **kwargs)
        if new is not child:
            setattr(module, name, new)
        wrapped += count
    if not only_wrap_children and auto_wrap_policy(module=module, recurse=False, unwrapped_params=total - wrapped):
        return wrapper_cls(module, **{**kwargs, **getattr(module, "_wrap_overrides", {})}), total
    return module, wrapped

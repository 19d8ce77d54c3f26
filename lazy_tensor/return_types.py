"""torch.return_types: the named tuples that ops return, by op name (`return_types.max`, ...)."""
from __future__ import annotations


def _find(name):
    from lazy_tensor.ops import _define
    for o in _define.ops.values():
        if o.returns is not None and o.returns.__name__ == name:
            return o.returns
    return None


def __getattr__(name):
    found = None if name.startswith("__") else _find(name)
    if found is None:
        raise AttributeError(f"module 'torch.return_types' has no attribute {name!r}")
    return found

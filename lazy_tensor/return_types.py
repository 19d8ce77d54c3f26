"""torch.return_types: the named tuples that ops return, by op name (`return_types.max`, ...)."""
from __future__ import annotations


def _find(name):
    from lazy_tensor.ops import _define
    for attr in ("RETURN_TYPES", "return_types", "_return_types", "_named"):
        table = getattr(_define, attr, None)
        if isinstance(table, dict):
            return table.get(name) or table.get(f"linalg_{name}")
    return None


def __getattr__(name):
    found = None if name.startswith("__") else _find(name)
    if found is None:
        raise AttributeError(f"module 'torch.return_types' has no attribute {name!r}")
    return found

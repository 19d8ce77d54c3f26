"""Every op, a file for each family; `_define` is the mechanism, `_common` what bodies share.

A family file imports `_define` and `_common` (and other families where a composite needs them), nothing above.
"""
from __future__ import annotations

import importlib
import pkgutil
import sys


def load():
    """Import every family, so that its ops are registered."""
    for name in sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")):
        importlib.import_module(f"{__name__}.{name}")


def __getattr__(name):
    """lt.ops.NAMESPACE for the namespaces of `lt.library`'s operators."""
    library = sys.modules.get("lazy_tensor.library")
    found = None if library is None else library.namespace(name)
    if found is None:
        raise AttributeError(f"module 'lazy_tensor.ops' has no attribute {name!r}: no operator '{name}::...' is registered (lt.library.custom_op)")
    return found

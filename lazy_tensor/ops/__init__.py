"""Every op, a file for each family; `_define` is the mechanism, `_common` what bodies share.

A family file imports `_define` and `_common` (and other families where a composite needs them), nothing above.
"""
from __future__ import annotations

import importlib
import pkgutil


def load():
    """Import every family, so that its ops are registered."""
    for name in sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")):
        importlib.import_module(f"{__name__}.{name}")

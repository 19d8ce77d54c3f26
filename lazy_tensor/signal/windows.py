"""torch.signal.windows: the ops that are public there (lazy_tensor/ops/signal.py)."""
from __future__ import annotations

from lazy_tensor.ops._define import missing, namespace

globals().update(namespace("signal.windows"))
__getattr__ = missing("signal.windows", globals())

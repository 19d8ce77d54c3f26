"""torch.linalg: the ops that are public there (lazy_tensor/ops)."""
from __future__ import annotations

from lazy_tensor.ops._define import missing, namespace

globals().update(namespace("linalg"))
__getattr__ = missing("linalg", globals())

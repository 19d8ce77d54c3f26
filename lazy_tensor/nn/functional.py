"""torch.nn.functional: published from the op registry."""
from __future__ import annotations

from lazy_tensor.ops import _define

globals().update(_define.namespace("nn.functional"))
__getattr__ = _define.missing("nn.functional", globals())

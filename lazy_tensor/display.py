"""How a tensor prints: its bytes through `printing`, its tape node and device as suffixes."""
from __future__ import annotations

import numpy as np

from lazy_tensor import printing
from lazy_tensor.node import AccumulateGrad


def tensor(t) -> str:
    """What `repr(tensor)` shows (torch's format)."""
    a = t._host()
    d = t.dtype
    if d.name in ("bfloat16",) or d.name.startswith("float8"):
        a = a.astype(np.float32)
    gn = t._gn
    return printing.tensor_str(
        a, d.name, None if t._v.aval.device.host else str(t.device),
        requires_grad=type(gn) is AccumulateGrad,
        grad_fn_name=None if gn is None or type(gn) is AccumulateGrad else gn.name(),
        is_parameter=bool(getattr(type(t), "_is_parameter", False)))

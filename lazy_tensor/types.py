"""torch.types: names for annotations."""
from __future__ import annotations

import builtins
import os
from collections.abc import Sequence

from lazy_tensor.devices import device as _device
from lazy_tensor.dtypes import Size as _Size
from lazy_tensor.dtypes import dtype as _dtype
from lazy_tensor.tensor import Tensor

__all__ = ["Device", "FileLike", "Number", "Storage", "Tensor"]

_TensorOrTensors = Tensor | Sequence[Tensor]
_TensorOrTensorsOrGradEdge = _TensorOrTensors
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
_size = _Size | list[int] | tuple[int, ...]
_dispatchkey = str
Device = _device | str | int | None
FileLike = str | os.PathLike | object
Number = int | float | bool
PySymType = int | float | bool
IntLikeType, FloatLikeType, BoolLikeType = int, float, bool
dtype = _dtype


class Storage:
    """What a storage type is to an annotation."""

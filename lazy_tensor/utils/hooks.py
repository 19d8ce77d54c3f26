"""torch.utils.hooks: the handle that takes a hook back."""
from __future__ import annotations

from lazy_tensor.node import RemovableHandle

__all__ = ["RemovableHandle", "unserializable_hook"]


def unserializable_hook(f):
    """Mark a hook as one not to be saved with its tensor."""
    f.__torch_unserializable__ = True
    return f

"""Tensors to and from other libraries through DLPack (torch.utils.dlpack)."""
from lazy_tensor.creation import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]

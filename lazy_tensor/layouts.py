"""`torch.layout` and `torch.memory_format` names."""
from __future__ import annotations


class layout:
    """A storage layout; only `strided` is implemented."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"torch.{self.name}"


class memory_format:
    """The order of a tensor's dimensions in memory as the user sees it; XLA picks the physical one."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"torch.{self.name}"


strided, sparse_coo, sparse_csr = layout("strided"), layout("sparse_coo"), layout("sparse_csr")
contiguous_format, channels_last = memory_format("contiguous_format"), memory_format("channels_last")
channels_last_3d, preserve_format = memory_format("channels_last_3d"), memory_format("preserve_format")

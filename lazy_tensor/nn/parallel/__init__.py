"""torch.nn.parallel: DistributedDataParallel over replicas; DataParallel over the one device of a replica."""
from __future__ import annotations

from lazy_tensor.nn.module import Module


class DataParallel(Module):
    """Calls `module` on the whole batch: there is one device in a process (torch.nn.DataParallel)."""

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError(f"DataParallel: given device_ids {device_ids}; one device would fit. For several cores use "
                             "DistributedDataParallel or xla_backend's SPMD")
        self.module, self.dim = module, dim
        self.device_ids, self.output_device = list(device_ids or []), output_device

    def forward(self, *inputs, **kwargs):
        """module(*inputs, **kwargs)."""
        return self.module(*inputs, **kwargs)


__all__ = ["DataParallel", "DistributedDataParallel"]
from lazy_tensor.nn.parallel.distributed import DistributedDataParallel  # noqa: E402

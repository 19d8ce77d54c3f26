"""The sampler that gives every replica its own part of a data set (torch.utils.data.distributed)."""
from __future__ import annotations

import math

from lazy_tensor.utils.data._utils import random as _random
from lazy_tensor.utils.data.sampler import Sampler
from xla_backend.random import Generator


def _group():
    try:
        from lazy_tensor import distributed
    except ImportError as e:
        raise RuntimeError("Requires distributed package to be available: pass num_replicas and rank") from e
    if hasattr(distributed, "is_available") and not distributed.is_available():
        raise RuntimeError("Requires distributed package to be available: pass num_replicas and rank")
    return distributed


class DistributedSampler(Sampler[int]):
    """Every num_replicas-th index from `rank` on, of the data set's order shuffled by seed + epoch.

    The order is padded by repetition to a multiple of num_replicas, or cut with drop_last. num_replicas and rank come
    from `lazy_tensor.distributed` when not given. Call `set_epoch(epoch)` before every epoch, or all epochs have one order.
    Raises ValueError for a rank outside [0, num_replicas - 1]."""

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        if num_replicas is None:
            num_replicas = _group().get_world_size()
        if rank is None:
            rank = _group().get_rank()
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank, self.epoch, self.drop_last = dataset, num_replicas, rank, 0, drop_last
        n = len(dataset)
        self.num_samples = math.ceil((n - num_replicas) / num_replicas) if drop_last and n % num_replicas else math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle, self.seed = shuffle, seed

    def __iter__(self):
        n = len(self.dataset)
        if self.shuffle:
            indices = _random.rng(Generator().manual_seed(self.seed + self.epoch)).permutation(n).tolist()
        else:
            indices = list(range(n))
        if self.drop_last:
            indices = indices[:self.total_size]
        else:
            lack = self.total_size - len(indices)
            indices += (indices * math.ceil(lack / max(len(indices), 1)))[:lack]
        return iter(indices[self.rank:self.total_size:self.num_replicas])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Which epoch's order the next pass takes."""
        self.epoch = epoch

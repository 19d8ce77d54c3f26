"""Data sets that worker processes can import."""
import os
import random
import time

import numpy as np

import lazy_tensor as lt
from lazy_tensor.utils.data import Dataset, IterableDataset, get_worker_info


class Rows(Dataset):
    """(row of i, i); `what` makes some index special."""

    def __init__(self, n, what=None):
        self.n, self.what = n, what

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i == 5 and self.what == "raise":
            raise KeyError("five is missing")
        if i == 5 and self.what == "odd":
            raise Odd(1, 2)
        if i == 5 and self.what == "die":
            os.kill(os.getpid(), 9)
        if self.what == "slow":
            time.sleep(60)
        if self.what == "late" and i % 2 == 0:
            time.sleep(0.05)
        return np.full(3, i, np.float32), i


class Odd(Exception):
    """Takes two arguments, so it cannot be made from a message."""

    def __init__(self, a, b):
        super().__init__(f"{a}{b}")


class About(Dataset):
    """What a worker knows about itself."""

    def __len__(self):
        return 4

    def __getitem__(self, i):
        w = get_worker_info()
        return {"id": w.id, "of": w.num_workers, "seed": w.seed, "draws": (random.random(), np.random.rand()), "tag": getattr(
            w.dataset, "tag", None), "pid": os.getpid(), "platforms": os.environ.get("JAX_PLATFORMS"),
            "t": lt.tensor([1.5], dtype=lt.bfloat16)}


def tag(worker_id):
    """worker_init_fn"""
    get_worker_info().dataset.tag = f"worker {worker_id}"


def broken_init(worker_id):
    raise ValueError(f"no worker {worker_id}")


class Stream(IterableDataset):
    """0 to n - 1, split among workers."""

    def __init__(self, n, split=True, length=None):
        self.n, self.split, self.length = n, split, length

    def __len__(self):
        if self.length is None:
            raise TypeError("no length")
        return self.length

    def __iter__(self):
        w = get_worker_info() if self.split else None
        return iter(range(w.id if w else 0, self.n, w.num_workers if w else 1))

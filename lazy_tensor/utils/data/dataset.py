"""Data sets: by index (`Dataset`) and as streams (`IterableDataset`), and how they combine (torch.utils.data)."""
from __future__ import annotations

import bisect
import itertools
import math
import warnings
from typing import Generic, TypeVar

import numpy as np

from lazy_tensor.tensor import wrap
from lazy_tensor.utils.data._utils import random as _random
from xla_backend.graph import Value, aval

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Dataset(Generic[T_co]):
    """A map from index to sample: subclasses write `__getitem__`, and `__len__` where samplers need it.

    `__getitems__(indices)` may fetch a whole batch at once."""

    def __getitem__(self, index) -> T_co:
        raise NotImplementedError(f"{type(self).__name__} must implement __getitem__")

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset[T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """A stream of samples: subclasses write `__iter__`; in a worker, `get_worker_info()` says which part is its own."""

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} must implement __iter__")

    def __add__(self, other):
        return ChainDataset([self, other])


def _at_rest(t):
    return t._gn is None and t._v.aval.device.host and t.dim() > 0


def _rows(t, indices):
    """The rows of a host tensor as tensors of their own."""
    n = t.size(0)
    for i in indices:
        if not -n <= i < n:
            raise IndexError(f"index {i} is out of bounds for dimension 0 with size {n}")
    rows = t._host()[np.fromiter(indices, np.int64, len(indices))]
    one = aval(rows.shape[1:], rows.dtype, t._v.aval.device)
    return [wrap(Value(one, rows[k, ...])) for k in range(len(rows))]


class TensorDataset(Dataset):
    """Samples are rows: tuples of `tensor[index]` for tensors of equal size(0)."""

    def __init__(self, *tensors):
        if not all(tensors[0].size(0) == t.size(0) for t in tensors):
            raise AssertionError(f"Size mismatch between tensors: size(0) is {[t.size(0) for t in tensors]}")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(t[index] for t in self.tensors)

    def __getitems__(self, indices):
        """The samples at some indices. Rows of host tensors are gathered at once: a fifth of the time of indexing one by one."""
        if type(self).__getitem__ is not TensorDataset.__getitem__ or not all(map(_at_rest, self.tensors)):
            return [self[i] for i in indices]
        return list(zip(*(_rows(t, indices) for t in self.tensors), strict=True))

    def __len__(self):
        return self.tensors[0].size(0)


class StackDataset(Dataset):
    """Samples of several data sets side by side: tuples (positional) or dicts (keywords)."""

    def __init__(self, *args, **kwargs):
        if args and kwargs:
            raise ValueError("Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like input/output, but both "
                             "types are given.")
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        sizes = {len(d) for d in (args or kwargs.values())}
        if len(sizes) != 1:
            raise ValueError(f"Size mismatch between datasets: lengths are {sorted(sizes)}")
        self._length = sizes.pop()

    def __getitem__(self, index):
        if isinstance(self.datasets, dict):
            return {k: d[index] for k, d in self.datasets.items()}
        return tuple(d[index] for d in self.datasets)

    def __getitems__(self, indices):
        def batch(d):
            if not callable(getattr(d, "__getitems__", None)):
                return [d[i] for i in indices]
            items = d.__getitems__(indices)
            if len(items) != len(indices):
                raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(items)}")
            return items
        if isinstance(self.datasets, dict):
            columns = {k: batch(d) for k, d in self.datasets.items()}
            return [{k: c[i] for k, c in columns.items()} for i in range(len(indices))]
        return list(zip(*(batch(d) for d in self.datasets), strict=True))

    def __len__(self):
        return self._length


class ConcatDataset(Dataset[T_co]):
    """Data sets one after another."""

    @staticmethod
    def cumsum(sequence):
        """Running sums of the lengths."""
        return list(itertools.accumulate(len(e) for e in sequence))

    def __init__(self, datasets):
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self):
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx):
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        return self.datasets[which][idx - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset):
    """Streams one after another."""

    def __init__(self, datasets):
        super().__init__()
        self.datasets = datasets

    def _streams(self):
        for d in self.datasets:
            if not isinstance(d, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield d

    def __iter__(self):
        for d in self._streams():
            yield from d

    def __len__(self):
        return sum(len(d) for d in self._streams())


class Subset(Dataset[T_co]):
    """The samples of a data set at some indices."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, idx):
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices):
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__([self.indices[i] for i in indices])
        return [self.dataset[self.indices[i]] for i in indices]

    def __len__(self):
        return len(self.indices)


def random_split(dataset, lengths, generator=None) -> list[Subset]:
    """Non-overlapping random parts of a data set (torch.utils.data.random_split).

    lengths: counts that sum to len(dataset), or fractions that sum to 1 (what rounding leaves goes to the first parts, one
    each). Raises ValueError when they do not."""
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        counts = []
        for i, fraction in enumerate(lengths):
            if fraction < 0 or fraction > 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
            counts.append(math.floor(len(dataset) * fraction))
        for i in range(len(dataset) - sum(counts)):
            counts[i % len(counts)] += 1
        lengths = counts
        for i, n in enumerate(lengths):
            if n == 0:
                warnings.warn(f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=2)
    if sum(lengths) != len(dataset):
        raise ValueError(f"Sum of input lengths does not equal the length of the input dataset! {sum(lengths)} for {len(dataset)}")
    order = _random.rng(generator).permutation(sum(lengths)).tolist()
    ends = list(itertools.accumulate(lengths))
    return [Subset(dataset, order[end - n:end]) for end, n in zip(ends, lengths, strict=True)]

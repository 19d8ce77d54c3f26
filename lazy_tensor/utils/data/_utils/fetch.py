"""From indices to a batch: the same in this process, in worker processes and in worker threads."""
from __future__ import annotations

import itertools
import sys
import traceback


class MapFetcher:
    """Batches of a `Dataset`."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        self.dataset, self.auto_collation, self.collate_fn = dataset, auto_collation, collate_fn

    def fetch(self, index):
        """The batch of a list of indices (or the sample of one, without batches)."""
        if not self.auto_collation:
            data = self.dataset[index]
        elif callable(getattr(self.dataset, "__getitems__", None)):
            data = self.dataset.__getitems__(index)
        else:
            data = [self.dataset[i] for i in index]
        return self.collate_fn(data)


class IterableFetcher:
    """Batches of an `IterableDataset`; `ended` once the stream is."""

    def __init__(self, dataset, auto_collation, collate_fn, drop_last):
        self.iterator = iter(dataset)
        self.auto_collation, self.collate_fn, self.drop_last, self.ended = auto_collation, collate_fn, drop_last, False

    def fetch(self, index):
        """The next batch of len(index) samples (or the next sample); StopIteration at the end."""
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.iterator))
        data = list(itertools.islice(self.iterator, len(index)))
        if len(data) < len(index):
            self.ended = True
            if not data or self.drop_last:
                raise StopIteration
        return self.collate_fn(data)


class Failure:
    """An exception on its way from a worker: its type, and its traceback as text."""

    def __init__(self, where):
        self.kind, _, _ = info = sys.exc_info()
        self.text = "".join(traceback.format_exception(*info))
        self.where = where

    def reraise(self):
        """Raise the exception again, with the worker's traceback in its message."""
        message = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        if self.kind is KeyError:
            message = _Text(message)  # a KeyError shows repr(message): keep its lines apart
        try:
            error = self.kind(message)
        except Exception:
            raise RuntimeError(message) from None  # the type's constructor wants other arguments
        raise error


class _Text(str):
    def __repr__(self):
        return str(self)

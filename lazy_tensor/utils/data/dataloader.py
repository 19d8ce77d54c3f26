"""The loader: batches of a data set, in this process or by workers (torch.utils.data.DataLoader)."""
from __future__ import annotations

import itertools
import multiprocessing.context
import queue
import warnings
from typing import Generic, TypeVar

from lazy_tensor import devices
from lazy_tensor.utils.data._utils import fetch, pool
from lazy_tensor.utils.data._utils import random as _random
from lazy_tensor.utils.data._utils.collate import default_collate, default_convert
from lazy_tensor.utils.data._utils.worker import Ended, Job, get_worker_info
from lazy_tensor.utils.data.dataset import IterableDataset
from lazy_tensor.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "get_worker_info", "default_collate", "default_convert"]

T_co = TypeVar("T_co", covariant=True)


class _Forever(Sampler):
    """What stands for indices where the data set is a stream."""

    def __iter__(self):
        return itertools.repeat(None)


class DataLoader(Generic[T_co]):
    """Batches of a data set (torch.utils.data.DataLoader).

    dataset: a `Dataset`, or an `IterableDataset`. batch_size None: samples one by one. num_workers > 0: that many
    worker processes, started fresh and kept off accelerators; threads, with a warning, where the data set cannot be sent to
    a process (a notebook cell). prefetch_factor: batches that each worker is ahead. timeout: seconds to wait for a batch
    (0: no limit). persistent_workers: keep them between epochs. pin_memory: objects with a `pin_memory` method are asked;
    tensors need none here. device (not in torch): batches are moved there as they arrive. in_order=False:
    batches as they come.

    Iterating raises what a worker raised, with the worker's traceback; RuntimeError when a worker died or was too slow.
    A loader over host tensors compiles nothing.

    Example::

        loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True, num_workers=2, device="xla")
    """

    _initialized = False

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None,
                 pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None, generator=None, *,
                 prefetch_factor=None, persistent_workers=False, pin_memory_device="", in_order=True, device=None):
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError("prefetch_factor option could only be specified in multiprocessing."
                             "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None.")
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        self.dataset, self.num_workers, self.timeout, self.worker_init_fn = dataset, num_workers, timeout, worker_init_fn
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device, self.in_order = pin_memory, pin_memory_device, in_order
        self.device = None if device is None else devices.public(devices.resolve(device))
        self.multiprocessing_context = multiprocessing_context
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable:
            if shuffle not in (False, None):
                raise ValueError(f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}")
            if sampler is not None:
                raise ValueError(f"DataLoader with IterableDataset: expected unspecified sampler option, but got sampler={sampler}")
            if batch_sampler is not None:
                raise ValueError("DataLoader with IterableDataset: expected unspecified batch_sampler option, but got "
                                 f"batch_sampler={batch_sampler}")
        shuffle = bool(shuffle)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            if self._iterable:
                sampler = _Forever()
            else:
                sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last, self.sampler, self.batch_sampler, self.generator = \
            batch_size, drop_last, sampler, batch_sampler, generator
        self.collate_fn = collate_fn if collate_fn is not None else default_collate if self._auto_collation else default_convert
        self.persistent_workers = persistent_workers
        self._length_asked = None
        self._iterator = None
        self._initialized = True

    @property
    def multiprocessing_context(self):
        """How workers were asked to start; they are always started fresh."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context):
        if context is not None:
            if self.num_workers == 0:
                raise ValueError("multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                                 f"num_workers={self.num_workers}")
            if isinstance(context, str):
                valid = multiprocessing.get_all_start_methods()
                if context not in valid:
                    raise ValueError("multiprocessing_context option should specify a valid start method in "
                                     f"{valid!r}, but got multiprocessing_context={context!r}")
                method = context
            elif isinstance(context, multiprocessing.context.BaseContext):
                method = context.get_start_method()
            else:
                raise TypeError("multiprocessing_context option should be a valid context object or a string specifying the start "
                                f"method, but got multiprocessing_context={context}")
            if method == "fork":
                pool.warn_once("DataLoader: multiprocessing_context='fork' runs as 'spawn': a forked copy of a process with a live "
                               "XLA runtime can hang")
        self._context = context

    def __setattr__(self, name, value):
        if self._initialized and name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"):
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def _auto_collation(self):
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self):
        if self.num_workers == 0:
            return _Here(self)
        if not self.persistent_workers:
            return _Workers(self)
        if self._iterator is None or self._iterator.broken:
            self._iterator = _Workers(self)
        else:
            self._iterator.reset()
        return self._iterator

    def __len__(self):
        if not self._iterable:
            return len(self._index_sampler)
        n = self._length_asked = len(self.dataset)
        if self.batch_size is not None:
            n = n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        return n


class _Iterator:
    """What both kinds of iterators share."""

    def __init__(self, loader):
        self.loader = loader
        self.job = Job(loader.dataset, loader._iterable, loader._auto_collation, loader.collate_fn, loader.drop_last,
                       loader.worker_init_fn)
        self.move = pool.Move(loader.device, loader.pin_memory) if loader.device is not None or loader.pin_memory else None
        self.start()

    def start(self):
        """Begin a pass."""
        self.base_seed = _random.seed(self.loader.generator)
        self.indices = iter(self.loader._index_sampler)
        self.given = 0

    def __iter__(self):
        return self

    def __len__(self):
        return len(self.loader._index_sampler)

    def __next__(self):
        data = self.next_batch()
        self.given += 1
        loader = self.loader
        if loader._iterable and loader._length_asked is not None and self.given > (n := len(loader)):
            text = (f"Length of IterableDataset {loader.dataset} was reported to be {n} (when accessing len(dataloader)), but "
                    f"{self.given} samples have been fetched. ")
            if loader.num_workers > 0:
                text += ("For multiprocessing data-loading, this could be caused by not properly configuring the IterableDataset "
                         "replica at each worker. Please see https://pytorch.org/docs/stable/data.html#torch.utils.data."
                         "IterableDataset for examples.")
            warnings.warn(text, stacklevel=2)
        return data


class _Here(_Iterator):
    """Batches made in this thread."""

    def __init__(self, loader):
        super().__init__(loader)
        self.fetcher = self.job.fetcher()

    def next_batch(self):
        """Fetch, collate and move one batch."""
        data = self.fetcher.fetch(next(self.indices))
        return data if self.move is None else self.move(data)


class _Workers(_Iterator):
    """Batches made by workers: `prefetch_factor` requests are out to each, replies are given back in order."""

    def __init__(self, loader):
        super().__init__(loader)
        self.broken = False
        self.epoch = 0
        self.pool = pool.start(self.job, loader.num_workers, self.base_seed, self.move)
        self.begin()

    def reset(self):
        """A new pass with the same workers; what they still owe for the last one is dropped."""
        self.start()
        self.epoch += 1
        for i in range(self.loader.num_workers):
            self.pool.send(i, (self.epoch, self.base_seed))
        self.begin()

    def begin(self):
        self.sent = self.next_number = 0
        self.owner, self.ready = {}, {}  # request number -> worker; number -> batch that came early
        self.live = [True] * self.loader.num_workers
        self.turn = itertools.cycle(range(self.loader.num_workers))
        for _ in range(max(1, self.loader.prefetch_factor) * self.loader.num_workers):
            self.request()

    def request(self):
        """Send the next indices to the next worker in turn that still has samples."""
        for _ in range(self.loader.num_workers):
            i = next(self.turn)
            if self.live[i]:
                break
        else:
            return
        try:
            index = next(self.indices)
        except StopIteration:
            return
        self.owner[self.sent] = i
        self.pool.send(i, (self.epoch, self.sent, index))
        self.sent += 1

    def next_batch(self):
        """The next batch in order; waits for the worker that has it."""
        while True:
            if self.loader.in_order:
                while self.next_number < self.sent and self.next_number not in self.owner and self.next_number not in self.ready:
                    self.next_number += 1  # a request that met the end of a stream
                if self.next_number in self.ready:
                    return self.give(self.ready.pop(self.next_number))
            if not self.owner:
                self.finish()
                raise StopIteration
            number, data = self.receive()
            i = self.owner.pop(number)
            if isinstance(data, Ended):
                self.live[i] = False
                self.request()
            elif self.loader.in_order and number != self.next_number:
                self.ready[number] = data
            else:
                return self.give(data)

    def give(self, data):
        """Hand out a batch, or raise what its worker raised."""
        self.next_number += 1
        self.request()
        if isinstance(data, fetch.Failure):
            data.reraise()
        return data

    def receive(self):
        """(number, batch) of this pass; RuntimeError when a worker died or none was in time."""
        while True:
            try:
                message = self.pool.results.get(timeout=self.loader.timeout or None)
            except queue.Empty:
                self.stop()
                raise RuntimeError(f"DataLoader timed out after {self.loader.timeout} seconds") from None
            except BaseException:
                self.stop()
                raise
            if isinstance(message, pool.Dead):
                how = self.pool.post_mortem(message.number)
                self.stop()
                raise RuntimeError(f"DataLoader worker {message.number} exited unexpectedly: {how}. Its output above may say why.")
            epoch, number, data = message
            if epoch is None:
                self.stop()
                data.reraise()
            if epoch == self.epoch:
                return number, data

    def finish(self):
        """The pass is over."""
        if not self.loader.persistent_workers:
            self.stop()

    def stop(self):
        """End the workers."""
        self.broken = True
        self.pool.close()

"""torch_xla.distributed.parallel_loader (`pl`): a thread that reads batches and transfers them ahead of the step."""
from __future__ import annotations

import queue
import threading

from xla_backend import runtime

_END = object()


class _Failed:
    def __init__(self, error):
        self.error = error


class _Feed:
    """What the reading thread and the consumers share; holds no consumer, so that a dropped one stops the thread."""

    def __init__(self, devices, size):
        self.stop = threading.Event()
        self.queues = {d: queue.Queue(maxsize=size) for d in devices}

    def put(self, device, item) -> bool:
        """False when the consumers are gone."""
        while not self.stop.is_set():
            try:
                self.queues[device].put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False


def _read(feed, loader, devices):
    from xla_backend.core.xla_model import send_cpu_data_to_device
    try:
        for i, batch in enumerate(loader):
            device = devices[i % len(devices)]
            if not feed.put(device, send_cpu_data_to_device(batch, device)):
                return
        end = _END
    except BaseException as e:  # to the consumer's thread, whose error it is
        end = _Failed(e)
    for device in devices:
        feed.put(device, end)


class PerDeviceLoader:
    """The batches of one device, in order; marks a step before each batch but the first, and at the end."""

    def __init__(self, loader, device, mark_step_interval=1):
        self._loader, self._device, self._interval = loader, device, mark_step_interval
        self._yielded = 0

    def __iter__(self):
        return self

    def __next__(self):
        return self.next()

    def __len__(self):
        return self._loader.per_device_samples()

    def next(self):
        """The next batch, on the device; StopIteration at the end; raises what the loader raised."""
        from xla_backend.core.xla_model import mark_step
        if self._interval > 0 and self._yielded and self._yielded % self._interval == 0:
            mark_step()
        item = self._loader.next_item(self._device)
        if item is _END:
            if self._interval > 0 and self._yielded % self._interval:
                mark_step()
            self._yielded = 0
            raise StopIteration
        self._yielded += 1
        return item

    def close(self):
        """Stop reading ahead."""
        self._loader.close()


class ParallelLoader:
    """Reads a loader of cpu batches in a thread and moves each to the next of `devices`, ahead of its use.

    cpu_loader: any iterable of nested structures (lists, tuples, dicts, objects) of tensors. batches_per_execution: a
    step is marked after so many batches. device_prefetch_size: batches kept ready on each device.
    loader_prefetch_size, host_to_device_transfer_threads, batchdim: accepted; one thread reads and transfers (transfers do
    not block it). Raises NotImplementedError for input_sharding.

    Example::

        for x, y in pl.ParallelLoader(loader, [device]).per_device_loader(device): ...
    """

    def __init__(self, cpu_loader, devices, batchdim=0, batches_per_execution=1, loader_prefetch_size=16, device_prefetch_size=8,
                 host_to_device_transfer_threads=1, input_sharding=None):
        if input_sharding is not None:
            raise NotImplementedError("ParallelLoader: input_sharding needs sharded tensors, which are not there yet")
        import lazy_tensor as lt
        self._cpu_loader = cpu_loader
        self._devices = [_key(lt, d) for d in devices]
        if not self._devices:
            raise ValueError("ParallelLoader: devices is empty; give the devices to feed, such as [xm.xla_device()]")
        self._interval = batches_per_execution
        self._feed = _Feed(self._devices, max(int(device_prefetch_size), 1))
        self._thread = threading.Thread(target=_read, args=(self._feed, cpu_loader, self._devices), daemon=True,
                                        name="xla_backend loader")
        self._started = False
        self._lock = threading.Lock()
        self._done: dict = {}

    def per_device_loader(self, device) -> PerDeviceLoader:
        """The iterator over one device's batches; RuntimeError for a device that was not given."""
        import lazy_tensor as lt
        key = _key(lt, device)
        if key not in self._feed.queues:
            raise RuntimeError(f"per_device_loader: {device} is none of the loader's devices {[str(d) for d in self._devices]}")
        return PerDeviceLoader(self, key, self._interval)

    def per_device_samples(self) -> int:
        """How many batches each device gets."""
        return len(self._cpu_loader) // len(self._devices)

    def next_item(self, device):
        """The next batch of a device, or the end mark."""
        with self._lock:
            if not self._started:
                self._started = True
                self._thread.start()
        if device in self._done:
            return _END
        item = self._feed.queues[device].get()
        if item is _END or isinstance(item, _Failed):
            self._done[device] = True
            if isinstance(item, _Failed):
                raise item.error
        return item

    def close(self):
        """Stop the thread and drop what was read ahead."""
        self._feed.stop.set()
        for q in self._feed.queues.values():
            while not q.empty():
                q.get_nowait()

    def __del__(self):
        feed = self.__dict__.get("_feed")
        if feed is not None:
            feed.stop.set()


def _key(lt, device):
    d = lt.device(device)
    return lt.device(d.type, runtime.device(d.type, d.index).index) if d.type == "xla" else d


class MpDeviceLoader:
    """A loader whose batches are on a device, read ahead; each pass makes a new `ParallelLoader`.

    Example::

        for x, y in pl.MpDeviceLoader(loader, xm.xla_device()): ...   # a step is marked for each batch
    """

    def __init__(self, loader, device, **kwargs):
        self._loader, self._device = loader, device
        self._kwargs = kwargs
        self._running = None

    def __iter__(self):
        parallel = ParallelLoader(self._loader, [self._device], **self._kwargs)
        self._running = parallel.per_device_loader(self._device)
        return self._running

    def __len__(self):
        return len(self._loader)

    @property
    def dataset(self):
        """The wrapped loader's data set."""
        return self._loader.dataset

    def close(self):
        """Stop reading ahead."""
        if self._running is not None:
            self._running.close()

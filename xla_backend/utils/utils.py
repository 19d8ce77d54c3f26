"""torch_xla.utils.utils (`xu`): synthetic loaders, rates, environment variables, walks over nested objects."""
from __future__ import annotations

import concurrent.futures
import copy
import os
import sys
import time
from collections.abc import Callable


class SampleGenerator:
    """A loader that yields the same `data` sample_count times: training on made-up input."""

    def __init__(self, data, sample_count: int):
        self._data, self._sample_count, self._count = data, sample_count, 0

    def __iter__(self):
        return SampleGenerator(self._data, self._sample_count)

    def __len__(self):
        return self._sample_count

    def __next__(self):
        return self.next()

    def next(self):
        """The data again; StopIteration after sample_count."""
        if self._count >= self._sample_count:
            raise StopIteration
        self._count += 1
        return self._data


class FnDataGenerator:
    """A loader that yields (x, fn(x)) for normal x of shape (batch_size, *dims), count times."""

    def __init__(self, fn, batch_size: int, gen_tensor, dims=None, count: int = 1):
        self._fn, self._batch_size, self._gen, self._dims, self._count = fn, batch_size, gen_tensor, list(dims or [1]), count
        self._emitted = 0

    def __len__(self):
        return self._count

    def __iter__(self):
        return FnDataGenerator(self._fn, self._batch_size, self._gen, self._dims, self._count)

    def __next__(self):
        return self.next()

    def next(self):
        """The next pair."""
        if self._emitted >= self._count:
            raise StopIteration
        self._emitted += 1
        x = self._gen(self._batch_size, *self._dims)
        return x, self._fn(x)


class RateTracker:
    """Counts per second: `add(n)` after each batch; `rate()` since the last call (smoothed), `global_rate()` since the start."""

    def __init__(self, smooth_factor: float | None = None):
        self._smooth = getenv_as("RATE_TRACKER_SMOOTHING", float, 0.4) if smooth_factor is None else smooth_factor
        self._start = time.time()
        self._partial_time, self._partial_count, self._partial_rate, self._count = self._start, 0.0, None, 0.0

    def add(self, count) -> None:
        """Note that so many were done."""
        self._count += count

    def _update(self, now, rate):
        self._partial_time, self._partial_count, self._partial_rate = now, self._count, rate

    def rate(self) -> float:
        """Counts per second since the last call."""
        now = time.time()
        delta = now - self._partial_time
        current = (self._count - self._partial_count) / delta if delta > 0 else 0.0
        smoothed = current if self._partial_rate is None else (1 - self._smooth) * current + self._smooth * self._partial_rate
        self._update(now, smoothed)
        return smoothed

    def global_rate(self) -> float:
        """Counts per second since the start."""
        delta = time.time() - self._start
        return self._count / delta if delta > 0 else 0.0


class TimedScope:
    """Prints the seconds that a block took: `with TimedScope("epoch"): ...`."""

    def __init__(self, msg="", printfn=print):
        self._message, self._print, self._error = msg, printfn, None

    def __enter__(self):
        self._start = time.time()
        return self

    def __exit__(self, *exc):
        self._print(f"{self._message}{time.time() - self._start:.3f}s")


def timed(fn, msg: str = "", printfn=print):
    """fn()'s result, its seconds printed."""
    with TimedScope(msg=msg, printfn=printfn):
        return fn()


class DataWrapper:
    """Gives an object a name and equality by identity."""

    def __init__(self, data):
        self.data = data

    def get_string(self) -> str:
        """The object as text."""
        return str(self.data)


class Cleaner:
    """Calls a function when it is dropped."""

    def __init__(self, func: Callable):
        self.func = func

    def __del__(self):
        self.func()


def getenv_as(name: str, type: Callable, defval=None):
    """An environment variable as `type` (bool understands 0, 1, true, false), or defval."""
    text = os.environ.get(name)
    if text is None:
        return defval
    if type is bool:
        return text.lower() in ("1", "true", "yes", "on")
    return type(text)


def eprint(*args, **kwargs) -> None:
    """print to stderr."""
    print(*args, file=sys.stderr, **kwargs)


def get_print_fn(debug: bool | None = None) -> Callable:
    """eprint when debug (or the variable DEBUG is 1), else a function that does nothing."""
    on = getenv_as("DEBUG", bool, False) if debug is None else debug
    return eprint if on else lambda *a, **k: None


def as_list(t) -> list | tuple:
    """t, in a list unless it is one already."""
    return t if isinstance(t, (tuple, list)) else [t]


def parallel_work(num_workers: int, fn: Callable, *args) -> list:
    """[fn(*a) for a in zip(*args)] in threads."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=num_workers) as pool:
        return list(pool.map(fn, *args))


def for_each_instance(value, select_fn: Callable, fn: Callable) -> None:
    """fn(x) for every x in a nested structure that select_fn picks, in order."""
    convert(value, select_fn, lambda x: (fn(x), x)[1])


def for_each_instance_rewrite(value, select_fn: Callable, fn: Callable, rewrite=None):
    """The structure with every x that select_fn picks replaced by fn(x)."""
    return convert(value, select_fn, fn)


def convert(value, select_fn: Callable, fn: Callable, _seen: dict | None = None):
    """value with fn applied to what select_fn picks: within dicts, lists, tuples, sets and the attributes of objects of
    user-written classes (copied shallowly, so that the given object stays as it is)."""
    if select_fn(value):
        return fn(value)
    if isinstance(value, dict):
        items = {k: convert(v, select_fn, fn, _seen) for k, v in value.items()}
        if type(value) is dict:
            return items
        out = copy.copy(value)
        out.update(items)
        return out
    if isinstance(value, tuple):
        parts = [convert(v, select_fn, fn, _seen) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, (list, set)):
        return type(value)(convert(v, select_fn, fn, _seen) for v in value)
    if not hasattr(value, "__dict__") or isinstance(value, type) or callable(value):
        return value
    seen = {} if _seen is None else _seen
    if id(value) in seen:
        return seen[id(value)]
    seen[id(value)] = value
    new = {k: convert(v, select_fn, fn, seen) for k, v in vars(value).items()}
    if all(new[k] is v for k, v in vars(value).items()):
        return value
    out = seen[id(value)] = copy.copy(value)
    vars(out).update(new)
    return out

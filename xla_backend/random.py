"""Random state: a seed and a count of draws, both run-time inputs, so that no draw recompiles anything.

A draw's key is `fold_in(key(seed), count)` (threefry: the same numbers on every device kind).
"""
from __future__ import annotations

import secrets
import threading


class Draw(int):
    """The count of a draw that takes another number for each example of a batch: `stride` apart."""

    stride = 1


class _Rule(threading.local):
    """What a draw does inside a function that is being recorded: None as outside, "error", or the batch size."""

    rule: int | str | None = None


rules = _Rule()

class Generator:
    """A stream of random draws: `next()` gives the (seed, count) of one draw and moves on."""

    def __init__(self, device="cpu", seed: int = 67280421310721):
        self.device = device
        self._seed, self._count = seed, 0

    def next(self) -> tuple[int, int]:
        """(seed, count) for one draw, both in int64."""
        count = self._count
        rule = rules.rule
        if rule is None:
            self._count = count + 1
            return self._seed, count
        if callable(rule):
            return rule(self)
        if not isinstance(rule, int):
            raise RuntimeError("vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
                               "randomness flags on vmap or perform the randomness operation out of vmap")
        self._count = count + rule
        return self._seed, Draw(count)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream that `seed` (an int in [-2**63, 2**64)) names; returns self."""
        seed = int(seed)
        if not -(2**63) <= seed < 2**64:
            raise RuntimeError(f"manual_seed: the seed must be in [-2**63, 2**64 - 1], got {seed}")
        self._seed = seed - 2**64 if seed >= 2**63 else seed
        self._count = 0
        return self

    def initial_seed(self) -> int:
        """The seed that the stream was started with."""
        return self._seed % 2**64 if self._seed < 0 else self._seed

    def seed(self) -> int:
        """Start a stream from the operating system's entropy; returns the seed."""
        chosen = secrets.randbits(63)
        self.manual_seed(chosen)
        return chosen


class _Default(Generator):
    """The default stream; a replica's thread has one of its own (`own`)."""

    def __init__(self):
        self._mine = threading.local()
        super().__init__()

    def own(self, seed, count):
        """Give this thread its own state."""
        self._mine.state = [seed, count]

    def _state(self):
        return getattr(self._mine, "state", None) or self._main

    @property
    def _seed(self):
        return self._state()[0]

    @_seed.setter
    def _seed(self, value):
        self._state()[0] = value

    @property
    def _count(self):
        return self._state()[1]

    @_count.setter
    def _count(self, value):
        self._state()[1] = value

    @property
    def _main(self):
        return self.__dict__.setdefault("_shared", [0, 0])


default = _Default()

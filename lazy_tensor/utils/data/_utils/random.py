"""Draws of samplers: NumPy's Philox keyed by a generator's (seed, count), so that they run on the host and compile nothing."""
from __future__ import annotations

import numpy as np

from xla_backend import random


def rng(generator=None) -> np.random.Generator:
    """A NumPy generator for one draw of `generator` (the default one when None); moves it on by one."""
    seed, count = (random.default if generator is None else generator).next()
    return np.random.Generator(np.random.Philox(key=np.array([seed % 2**64, count], np.uint64)))


def seed(generator=None) -> int:
    """A draw in [0, 2**63)."""
    return int(rng(generator).integers(0, 2**63 - 1))

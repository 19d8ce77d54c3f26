"""What all tests share: a program cache between runs, and counters of compiles and traces."""
from __future__ import annotations

import os
import tempfile
from pathlib import Path

os.environ.setdefault("XLA_BACKEND_CACHE", str(Path(tempfile.gettempdir()) / "xla_backend_tests"))
os.environ.setdefault("MPLBACKEND", "Agg")

import pytest

from xla_backend import metrics


class Counts:
    """How many compiles, traces, ... happened since it was made."""

    def __init__(self):
        self.start = dict(metrics.counters)

    def __getattr__(self, name):
        return metrics.counter(name) - self.start.get(name, 0)


@pytest.fixture
def counts():
    return Counts()


@pytest.fixture
def count_from_here():
    return Counts

"""Argument helpers of the layers."""
from __future__ import annotations

from collections.abc import Iterable

import lazy_tensor as lt
from lazy_tensor.nn.parameter import Parameter


def ntuple(x, n):
    """x as a tuple of n (an iterable as it is)."""
    return tuple(x) if isinstance(x, Iterable) else (x,) * n


def empty_parameter(shape, device, dtype):
    """A Parameter of a shape, to be initialised."""
    return Parameter(lt.empty(shape, device=device, dtype=dtype))

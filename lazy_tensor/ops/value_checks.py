"""What only values tell, and types before promotion: indexes out of bounds, integers divided by zero, probabilities out of range,
differences of bools.

A check runs when an operation is recorded on the host with every input at rest there, as torch's does. On an XLA device nothing is
looked at (it would be a sync): indexes are clipped or dropped as XLA does, and an integer divided by zero is what XLA makes of it.
"""
from __future__ import annotations

import numpy as np

from lazy_tensor.indexing import _dims_of
from lazy_tensor.ops import _define
from lazy_tensor.ops._common import check


def _of(*names):
    """Add a check to the operations of these names; it gets the operation's arguments, arrays as NumPy's."""
    def add(fn):
        found = [o for k, o in _define.ops.items() if k.split(":")[1].split(".")[-1] in names]
        assert len(found) >= len(names), (names, [o.name for o in found])
        for o in found:
            o.values = fn
        return fn
    return add


def _within(index, n, d, kind=IndexError, negative=False, name="index", skip=None):
    """Raise unless every index is in [0, n) (in [-n, n) where negative ones count from the end)."""
    if not index.size or index.dtype.kind not in "iu":
        return
    if skip is not None:
        index = index[index != skip]
        if not index.size:
            return
    low, high = int(index.min()), int(index.max())
    if high >= n or low < (-n if negative else 0):
        raise kind(f"{name}: index {high if high >= n else low} is out of bounds for dimension {d} with size {n}")


def _dim(input, dim):
    return (dim % input.ndim, input.shape[dim]) if input.ndim and -input.ndim <= dim < input.ndim else (0, 1)


def _along(kind, name, argument="index", negative=False):
    def values(input, dim, **kw):
        d, n = _dim(input, dim)
        _within(kw[argument], n, d, kind, negative, name)
    return values


for _name, _kind in (("index_select", IndexError), ("index_add", RuntimeError), ("index_copy", IndexError), ("index_fill", IndexError),
                     ("index_reduce", IndexError), ("gather", RuntimeError), ("scatter", RuntimeError), ("scatter_add", RuntimeError),
                     ("scatter_reduce", RuntimeError)):
    _of(_name)(_along(_kind, _name, negative=_name == "index_fill"))
_of("take_along_dim")(_along(RuntimeError, "take_along_dim", "indices", True))


@_of("take", "put")
def _flat(input, index, **kw):
    _within(index, input.size, 0, IndexError, True, "take" if len(kw) == 0 else "put_")


@_of("index_put")
def _index_put(input, indices, spec, **kw):
    for i, d in zip(indices, _dims_of(spec), strict=True):
        _within(i, input.shape[d], d, IndexError, True, "index_put_")


@_of("embedding")
def _embedding(input, weight, **kw):
    if input.size and (input.min() < 0 or input.max() >= weight.shape[0]):
        raise IndexError(f"index out of range in self: embedding has {weight.shape[0]} rows, indices from {input.min()} to {input.max()}")


@_of("_bag")
def _embedding_bag(input, weight, **kw):
    if input.size and (input.min() < 0 or input.max() >= weight.shape[0]):
        raise RuntimeError(f"embedding_bag: Expected indices >= 0 && < {weight.shape[0]}, got from {input.min()} to {input.max()}")


@_of("_one_hot")
def _one_hot(input, num_classes, **kw):
    if input.size:
        check(input.min() >= 0, "Class values must be non-negative.")
        check(num_classes < 0 or input.max() < num_classes, "Class values must be smaller than num_classes.")


@_of("nll_loss", "cross_entropy")
def _classes(input, target, ignore_index, **kw):
    if target.dtype.kind not in "iu" or not target.size or not input.ndim:
        return
    n = input.shape[0 if input.ndim == 1 else 1]
    wrong = target[(target != ignore_index) & ((target < 0) | (target >= n))]
    if wrong.size:
        raise IndexError(f"Target {wrong.flat[0]} is out of bounds: there are {n} classes.")


@_of("floor_divide", "remainder", "fmod")
def _divided(input, other):
    if np.asarray(input).dtype.kind in "iu" and np.asarray(other).dtype.kind in "iu" and np.size(input) and not np.all(other):
        raise RuntimeError("ZeroDivisionError")


@_of("div")
def _rounded(input, other, rounding_mode=None):
    if rounding_mode is not None:
        _divided(input, other)


@_of("multinomial")
def _weights(input, num_samples, replacement, **kw):
    x = np.asarray(input, np.float64)
    check(np.isfinite(x).all() and (x >= 0).all(), "probability tensor contains either `inf`, `nan` or element < 0")
    check(not x.size or (x.sum(-1) > 0).all(), "invalid multinomial distribution (sum of probabilities <= 0)")
    check(replacement or not x.size or ((x > 0).sum(-1) >= num_samples).all(),
          "invalid multinomial distribution (with replacement=False, not enough non-negative category to sample)")


@_of("bernoulli")
def _probability(input, p=None, **kw):
    x = np.asarray(input if p is None else p, np.float64)
    check(bool(((x >= 0) & (x <= 1)).all()), "Expected p_in >= 0 && p_in <= 1 to be true, but got false.")


@_of("binary_cross_entropy")
def _between(input, **kw):
    x = np.asarray(input, np.float64)
    check(bool(((x >= 0) & (x <= 1)).all()) if x.size else True, "all elements of input should be between 0 and 1")


def _no_bools(avals):
    if any(avals[n].dtype == bool for n in ("input", "other") if n in avals):
        raise RuntimeError("Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the "
                           "`~` or `logical_not()` operator instead.")


for _op in _define.ops.values():
    if _op.path in ("sub", "rsub"):
        _op.types = _no_bools

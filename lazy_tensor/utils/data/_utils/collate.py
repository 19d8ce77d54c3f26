"""Samples into batches (torch.utils.data.default_collate): host arrays are stacked by NumPy, which compiles nothing."""
from __future__ import annotations

import collections.abc
import copy

import numpy as np

from lazy_tensor import creation
from lazy_tensor.tensor import Tensor

_ERROR = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def _is_text(a):
    return a.dtype.kind in "SUaO"


def default_convert(data):
    """NumPy arrays inside data as tensors, everything else as it is: what a loader without batches does to a sample."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        if isinstance(data, np.ndarray) and _is_text(data) or isinstance(data, (np.str_, np.bytes_)):
            return data
        return creation.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return _mapping(data, {k: default_convert(data[k]) for k in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(d) for d in data))
    if isinstance(data, tuple):
        return [default_convert(d) for d in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        return _sequence(data, [default_convert(d) for d in data])
    return data


def _mapping(like, items):
    """A mapping of like's type with other values; a dict when the type cannot be made so."""
    try:
        if isinstance(like, collections.abc.MutableMapping):
            clone = copy.copy(like)
            clone.update(items)
            return clone
        return type(like)(items)
    except TypeError:
        return items


def _sequence(like, items):
    """A sequence of like's type with other values; a list when the type cannot be made so."""
    try:
        if isinstance(like, collections.abc.MutableSequence):
            clone = copy.copy(like)
            for i, x in enumerate(items):
                clone[i] = x
            return clone
        return type(like)(items)
    except TypeError:
        return items


def collate(batch, *, collate_fn_map=None):
    """A list of samples as one batch: leaves are joined by the map's function for their type, containers are kept.

    Raises TypeError for a leaf of a type that the map lacks, RuntimeError for sequences of unequal length."""
    elem = batch[0]
    kind = type(elem)
    if collate_fn_map is not None:
        fn = collate_fn_map.get(kind)
        if fn is None:
            fn = next((f for t, f in collate_fn_map.items() if isinstance(elem, t)), None)
        if fn is not None:
            return fn(batch, collate_fn_map=collate_fn_map)
    if isinstance(elem, collections.abc.Mapping):
        return _mapping(elem, {k: collate([d[k] for d in batch], collate_fn_map=collate_fn_map) for k in elem})
    if isinstance(elem, tuple) and hasattr(elem, "_fields"):
        return kind(*(collate(s, collate_fn_map=collate_fn_map) for s in zip(*batch, strict=True)))
    if isinstance(elem, collections.abc.Sequence):
        if any(len(e) != len(elem) for e in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [collate(s, collate_fn_map=collate_fn_map) for s in zip(*batch, strict=True)]
        return columns if isinstance(elem, tuple) else _sequence(elem, columns)
    raise TypeError(_ERROR.format(kind))


def _stack(arrays):
    shape = arrays[0].shape
    for i, a in enumerate(arrays):
        if a.shape != shape:
            raise RuntimeError(f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and {list(a.shape)} "
                               f"at entry {i}")
    return creation._array(np.stack(arrays), None, "cpu", copy=False)


def collate_tensor_fn(batch, *, collate_fn_map=None):
    """Tensors stacked along a new first dimension."""
    dtype = batch[0]._v.aval.dtype
    if all(t._gn is None and t._v.aval.device.host and t._v.aval.dtype == dtype for t in batch):
        return _stack([t._host() for t in batch])
    from lazy_tensor import stack
    return stack(list(batch), 0)


def collate_numpy_array_fn(batch, *, collate_fn_map=None):
    """NumPy arrays of numbers as tensors, stacked."""
    if _is_text(batch[0]):
        raise TypeError(_ERROR.format(batch[0].dtype))
    return _stack([np.asarray(b) for b in batch])


def collate_numpy_scalar_fn(batch, *, collate_fn_map=None):
    """NumPy scalars as one tensor of their dtype."""
    return creation._array(np.stack([np.asarray(b) for b in batch]), None, "cpu", copy=False)


def collate_float_fn(batch, *, collate_fn_map=None):
    """Python floats as a float64 tensor."""
    return creation._array(np.array(batch, np.float64), None, "cpu", copy=False)


def collate_int_fn(batch, *, collate_fn_map=None):
    """Python ints as an int64 tensor (bools as a bool one)."""
    return creation.tensor(list(batch), device="cpu")


def collate_str_fn(batch, *, collate_fn_map=None):
    """Text stays a list."""
    return batch


default_collate_fn_map = {
    Tensor: collate_tensor_fn, np.ndarray: collate_numpy_array_fn, (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn, int: collate_int_fn, str: collate_str_fn, bytes: collate_str_fn}


def default_collate(batch):
    """Samples as one batch with a new first dimension, containers kept (torch.utils.data.default_collate)."""
    return collate(batch, collate_fn_map=default_collate_fn_map)

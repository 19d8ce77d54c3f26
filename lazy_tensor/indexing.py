"""`tensor[index]` and `tensor[index] = value` in every form that torch takes.

An index of ints, slices, None and Ellipsis alone is one view op; with integer or bool tensors in it, one gather (and
one scatter for assignment). Starts of ints and slices are static for the first value met in a place and run-time inputs
from the second on, so that a moving window does not compile for ever.
"""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._define import check_inplace, check_single, op
from lazy_tensor.tensor import Tensor, assign_
from xla_backend.graph import local

# (input shape, structure of the index) -> starts met; None once more than one was.
_met: dict = {}


# Spec: a tuple, one entry for each item: ("i",) int, ("s", length, step) slice, ("n",) None, ("a",) whole dimension,
# ("t",) an advanced index array.


def _basic_host(input, spec, starts):
    out, dim = input, 0
    index = []
    for item, start in zip(spec, starts, strict=True):
        kind = item[0]
        if kind == "n":
            index.append(None)
            continue
        if kind == "i":
            index.append(int(start))
        elif kind == "s":
            start = int(start)
            index.append(slice(start, start + (item[1] - 1) * item[2] + 1 if item[1] else start, item[2]))
        else:
            index.append(slice(None))
        dim += 1
    return out[tuple(index)]


@op(where=None, name="slice", view=True, put=lambda base, new, *, spec, starts: _basic_put(base, new, spec, starts), host=_basic_host)
def _static(input: Array, spec: tuple, starts: tuple):
    """Basic indexing with static starts."""
    return _basic_host(input, spec, starts)


def _windows(shape, spec, starts):
    """For dynamic starts: (start of each dimension, size of each, step of each, dims to drop, places of None)."""
    begin, size, step, drop, new = [], [], [], [], []
    dim = 0
    out = 0
    for item, start in zip(spec, starts, strict=True):
        kind = item[0]
        if kind == "n":
            new.append(out)
            out += 1
            continue
        if kind == "i":
            begin.append(start)
            size.append(1)
            step.append(1)
            drop.append(dim)
        elif kind == "s":
            begin.append(start)
            size.append((item[1] - 1) * item[2] + 1 if item[1] else 0)
            step.append(item[2])
            out += 1
        else:
            begin.append(0)
            size.append(shape[dim])
            step.append(1)
            out += 1
        dim += 1
    for d in range(dim, len(shape)):
        begin.append(0)
        size.append(shape[d])
        step.append(1)
    return begin, size, step, drop, new


def _dynamic_get(input, spec, starts):
    begin, size, step, drop, new = _windows(input.shape, spec, starts)
    out = jax.lax.dynamic_slice(input, [jnp.asarray(b, np.int64) for b in begin], size)
    if any(s != 1 for s in step):
        out = out[tuple(slice(None, None, s) for s in step)]
    out = jnp.squeeze(out, tuple(drop)) if drop else out
    return jnp.expand_dims(out, tuple(new)) if new else out


@op(where=None, name="slice", view=True, put=lambda base, new, *, spec, starts: _basic_put(base, new, spec, starts), host=_basic_host)
def _dynamic(input: Array, spec: tuple, starts: Scalars):
    """Basic indexing with run-time starts."""
    return _dynamic_get(input, spec, starts)


def _basic_put(base, new, spec, starts):
    """base with the indexed region replaced by new."""
    if all(isinstance(s, (int, np.integer)) for s in starts):
        index = []
        for item, start in zip(spec, starts, strict=True):
            if item[0] == "n":
                index.append(None)
            elif item[0] == "i":
                index.append(int(start))
            elif item[0] == "s":
                index.append(slice(int(start), int(start) + (item[1] - 1) * item[2] + 1 if item[1] else int(start), item[2]))
            else:
                index.append(slice(None))
        return base.at[tuple(index)].set(new)
    begin, size, step, drop, none = _windows(base.shape, spec, starts)
    new = jnp.squeeze(new, tuple(none)) if none else new
    new = jnp.expand_dims(new, tuple(drop)) if drop else new
    begin = [jnp.asarray(b, np.int64) for b in begin]
    if any(s != 1 for s in step):
        window = jax.lax.dynamic_slice(base, begin, size)
        new = window.at[tuple(slice(None, None, s) for s in step)].set(new)
    return jax.lax.dynamic_update_slice(base, new.astype(base.dtype), begin)


def _advanced_index(shape, spec, starts, arrays):
    """The NumPy-style index tuple of a spec with arrays, negative entries wrapped."""
    arrays = iter(arrays)
    index, dim = [], 0
    for item, start in zip(spec, starts, strict=True):
        kind = item[0]
        if kind == "n":
            index.append(None)
            continue
        if kind == "t":
            a = next(arrays)
            n = shape[dim]
            index.append(jnp.where(a < 0, a + n, a) if not isinstance(a, np.ndarray) else np.where(a < 0, a + n, a))
        elif kind == "i":
            index.append(int(start))
        elif kind == "s":
            index.append(slice(int(start), int(start) + (item[1] - 1) * item[2] + 1 if item[1] else int(start), item[2]))
        else:
            index.append(slice(None))
        dim += 1
    return tuple(index)


def _gather_host(input, indices, spec, starts):
    for a, d in zip(indices, _dims_of(spec), strict=True):
        n = input.shape[d]
        if a.size and (a.max() >= n or a.min() < -n):
            bad = int(a.max()) if a.max() >= n else int(a.min())
            raise IndexError(f"index {bad} is out of bounds for dimension {d} with size {n}")
    return input[_advanced_index(input.shape, spec, starts, indices)]


def _dims_of(spec):
    """The dimensions that arrays index."""
    dim = 0
    for item in spec:
        if item[0] == "n":
            continue
        if item[0] == "t":
            yield dim
        dim += 1


@op(where=None, name="index", host=_gather_host)
def _gather(input: Array, indices: Arrays, spec: tuple, starts: tuple):
    """Advanced indexing: the elements that index arrays name."""
    return input[_advanced_index(input.shape, spec, starts, indices)]


@op(where=None, name="index_put")
def _scatter(input: Array, value: Array, indices: Arrays, spec: tuple, starts: tuple, accumulate: bool = False):
    """input with the elements that index arrays name replaced by value (broadcast), or added to."""
    index = _advanced_index(input.shape, spec, starts, indices)
    at = input.at[index]
    region = jax.eval_shape(lambda x: x[index], input).shape
    value = value.astype(input.dtype)
    while value.ndim > len(region) and value.shape[0] == 1:
        value = value[0]
    if value.ndim > len(region) or any(a not in (1, b) for a, b in zip(value.shape[::-1], region[::-1], strict=False)):
        raise RuntimeError(f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to indexing result of shape "
                           f"{list(region)}")
    return at.add(value) if accumulate else at.set(value)


def _parse(t, index):
    """(spec, starts, index tensors) of an index; bool masks become integer tensors (one sync)."""
    if not isinstance(index, tuple):
        index = (index,)
        if isinstance(index[0], list) and _is_tuple_like(index[0]):
            index = tuple(index[0])
    shape = t._v.aval.shape
    items = []
    for x in index:
        if isinstance(x, (list, np.ndarray, range)):
            x = _as_index(x, t)
        elif isinstance(x, (bool, np.bool_)):
            x = _bool_scalar(bool(x), t)
        items.append(x)
    used = sum(_consumes(x) for x in items)
    ellipses = sum(x is Ellipsis for x in items)
    if ellipses > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > len(shape):
        if not shape and not any(isinstance(x, Tensor) for x in items):
            _int_at(0, shape, 0)
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    spec, starts, arrays = [], [], []
    dim = 0
    for x in items:
        if x is Ellipsis:
            for _ in range(len(shape) - used):
                spec.append(("a",))
                starts.append(0)
                dim += 1
        elif x is None:
            spec.append(("n",))
            starts.append(0)
        elif type(x) is slice:
            n = shape[dim]
            step = 1 if x.step is None else _number(x.step)
            if step <= 0:
                raise ValueError("step must be greater than zero")
            a, b, _ = slice(_bound(x.start), _bound(x.stop)).indices(n)
            length = max(0, -(-(b - a) // step))
            if a == 0 and step == 1 and length == n:
                spec.append(("a",))
                starts.append(0)
            else:
                spec.append(("s", length, step))
                starts.append(a)
            dim += 1
        elif isinstance(x, Tensor):
            kind = x._v.aval.dtype.kind
            if x._v.aval.dtype == np.bool_ or (x._v.aval.dtype == np.uint8 and x.dim() > 0):
                if x.dim() == 0:
                    x = _bool_scalar(bool(x), t)
                if isinstance(x, _Bool):
                    spec.append(("n",))
                    starts.append(0)
                    arrays.append((len(spec) - 1, x))
                    continue
                for k, d in enumerate(x.shape):
                    if d != shape[dim + k]:
                        raise IndexError(f"The shape of the mask {list(x.shape)} at index {k} does not match the shape of the indexed "
                                         f"tensor {list(shape)} at index {dim + k}")
                for part in x.nonzero(as_tuple=True):
                    spec.append(("t",))
                    starts.append(0)
                    arrays.append((len(spec) - 1, part))
                    dim += 1
                continue
            if kind not in "iu":
                raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
            if x.dim() == 0 and x._v.data is not None and x._v.aval.device.host:
                spec.append(("i",))
                starts.append(_int_at(int(x), shape, dim))
            else:
                spec.append(("t",))
                starts.append(0)
                arrays.append((len(spec) - 1, x))
            dim += 1
        elif isinstance(x, _Bool):
            spec.append(("n",))
            starts.append(0)
            arrays.append((len(spec) - 1, x))
        else:
            spec.append(("i",))
            starts.append(_int_at(_number(x), shape, dim))
            dim += 1
    bools = [(i, a) for i, a in arrays if isinstance(a, _Bool)]
    arrays = [a for _, a in arrays if not isinstance(a, _Bool)]
    if bools:
        for i, b in bools:
            spec[i] = ("n",) if b.value else ("s0",)
    while spec and spec[-1] == ("a",):
        spec.pop()
        starts.pop()
    return tuple(spec), tuple(starts), arrays


class _Bool:
    """A bool scalar index: a new dimension of size 1 or 0."""

    def __init__(self, value):
        self.value = value


def _bool_scalar(value, t):
    return _Bool(value)


def _is_tuple_like(x):
    """torch treats a list of slices, Nones or sequences as a tuple of indices (legacy NumPy rule)."""
    return len(x) < 32 and any(isinstance(i, (slice, Tensor, list, tuple)) or i is None or i is Ellipsis for i in x) and \
        any(isinstance(i, slice) or i is None or i is Ellipsis for i in x)


def _as_index(x, t):
    from lazy_tensor import creation
    a = np.asarray(x) if not any(isinstance(i, Tensor) for i in (x if isinstance(x, (list, range)) else ())) else None
    if a is None:
        r = creation.tensor([int(i) if isinstance(i, Tensor) else i for i in x])
    else:
        if a.size == 0 and a.dtype.kind == "f":
            a = a.astype(np.int64)
        r = creation.tensor(a)
    return r.to(t.device)


def _consumes(x):
    if x is None or x is Ellipsis or isinstance(x, _Bool):
        return 0
    if isinstance(x, Tensor) and (x._v.aval.dtype == np.bool_ or (x._v.aval.dtype == np.uint8 and x.dim() > 0)):
        return x.dim()
    return 1


def _number(x):
    if type(x) is int:
        return x
    if isinstance(x, Tensor):
        return x.__index__()
    if isinstance(x, (float, str, complex)):
        raise IndexError("only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
                         f"(got {type(x).__name__})")
    try:
        return x.__index__()
    except AttributeError:
        raise IndexError("only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
                         f"(got {type(x).__name__})") from None


def _bound(x):
    return None if x is None else _number(x)


def _int_at(i, shape, dim):
    if len(shape) == 0:
        raise IndexError("invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a "
                         "0-dim tensor to a number")
    n = shape[dim]
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of bounds for dimension {dim} with size {n}")
    return i + n if i < 0 else i


def _is_static(shape, spec, starts):
    """Whether these starts go into the configuration: so until a second set of starts is met in the same place (by this replica:
    all replicas must decide alike)."""
    here = local.replica
    table, key = (_met, (shape, spec)) if here is None else (here[1].met, (shape, spec, here[0]))
    met = table.get(key)
    if met == starts:
        return True
    if met is None and key not in table:
        table[key] = starts
        return True
    table[key] = None
    return False


def _empty_bool(spec):
    return any(s == ("s0",) for s in spec)


def getitem(self, index):
    """tensor[index]: a view for ints, slices, None and `...`; a copy when tensors, arrays or lists index."""
    spec, starts, arrays = _parse(self, index)
    if _empty_bool(spec):
        out = getitem(self, tuple(None if s == ("s0",) else _again(s, k) for s, k in zip(spec, starts, strict=True)))
        return out[:0] if spec[0] == ("s0",) else out.narrow(0, 0, 0)
    if arrays:
        base, spec, starts = _basic_first(self, spec, starts)
        return _gather(base, _same_place(self, arrays), spec, starts)
    if _is_static(self._v.aval.shape, spec, starts):
        return _static(self, spec, starts)
    return _dynamic(self, spec, starts)


def _basic_first(t, spec, starts):
    """(the view that the ints, slices and Nones make, the spec and starts of what is left for the arrays).

    torch takes ints before arrays, so that they do not count as arrays when it is asked whether those are adjacent
    (NumPy's do); and a view keeps changing starts out of the gather's configuration."""
    if all(item[0] in "at" for item in spec):
        return t, spec, starts
    basic = tuple(("a",) if item[0] == "t" else item for item in spec)
    first = starts
    while basic and basic[-1] == ("a",):
        basic, first = basic[:-1], first[:-1]
    if basic:
        t = (_static if _is_static(t._v.aval.shape, basic, first) else _dynamic)(t, basic, first)
    rest = tuple(item if item[0] == "t" else ("a",) for item in spec if item[0] != "i")
    return t, rest, (0,) * len(rest)


def _again(item, start):
    if item[0] == "i":
        return start
    if item[0] == "s":
        return slice(start, start + (item[1] - 1) * item[2] + 1 if item[1] else start, item[2])
    return None if item[0] == "n" else slice(None)


def _same_place(t, arrays):
    dev = t.device
    return [a if a.device == dev else a.to(dev) for a in arrays]


def setitem(self, index, value):
    """tensor[index] = value (broadcast, cast to the tensor's dtype)."""
    check_inplace(self, "__setitem__")
    if type(value) is complex and not self.dtype.is_complex:
        if not value.imag:
            value = value.real
        else:
            raise RuntimeError(f"value cannot be converted to type {self.dtype} without overflow: {value} (__setitem__)")
    spec, starts, arrays = _parse(self, index)
    if _empty_bool(spec):
        return
    if not isinstance(value, Tensor):
        from lazy_tensor import creation
        value = creation.tensor(value, dtype=self.dtype, device=self.device) if not isinstance(value, (int, float, complex, bool)) else value
    if arrays:
        check_single(self)
        if not isinstance(value, Tensor):
            from lazy_tensor.ops import core
            value = core.fill(self.new_empty(()) if hasattr(self, "new_empty") else _zero(self), value)
        value = value if value.device == self.device else value.to(self.device)
        base, spec, starts = _basic_first(self, spec, starts)
        assign_(base, _scatter(base, value, _same_place(self, arrays), spec, starts), "__setitem__")
        return
    region = getitem(self, index)
    if isinstance(value, Tensor):
        shape = tuple(value.shape)
        while len(shape) > region.dim() and shape[0] == 1:
            value = value[0]
            shape = shape[1:]
        region.copy_(value)
    else:
        region.fill_(value)


def _zero(t):
    from lazy_tensor import creation
    return creation.tensor(0, dtype=t.dtype, device=t.device)

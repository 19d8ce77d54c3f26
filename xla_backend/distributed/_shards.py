"""Tensors cut along their first dimension over the replicas: gathered with the gradient reduced and scattered, and cut.

A shard is this replica's part of a tensor that was flattened (or not) and padded to equal parts. Each function records one node,
whose collectives XLA combines up to its own threshold of bytes.
"""
from __future__ import annotations

import math

import numpy as np

from xla_backend import replicas, runtime
from xla_backend.core._collectives import _collective, _groups


def members(groups) -> int:
    """How many replicas share a tensor."""
    return len(groups[0]) if groups else runtime.world_size()


def local(array, n, rank, multiple=1, flat=True):
    """This rank's part of a NumPy array, padded with zeros so that all parts are equal (and multiples of `multiple` rows)."""
    rows = array.reshape(-1) if flat else array
    size = math.ceil(rows.shape[0] / (n * multiple)) * multiple
    rows = np.concatenate([rows, np.zeros((n * size - rows.shape[0], *rows.shape[1:]), rows.dtype)])
    return rows[rank * size:(rank + 1) * size].copy()


def _whole(x, shapes):
    """The tensors that a padded, gathered array holds one after another."""
    if len(shapes) == 1 and len(shapes[0]) == x.ndim and x.ndim > 1:
        return [x[:shapes[0][0]]]
    out, at = [], 0
    for s in shapes:
        size = math.prod(s)
        out.append(x[at:at + size].reshape(s))
        at += size
    return out


def gather(shards, shapes, groups=None, dtype=None, reduce_dtype=None):
    """The whole tensors of shards, in one node: lists of shapes in, lists of tensors out.

    dtype: of the results (a NumPy dtype; the shards' when None), cast before they travel. The gradient of a shard is the mean of the replicas'
    gradients, reduced in reduce_dtype (the results' when None)."""
    import jax
    from jax import lax
    flat_shapes = tuple(tuple(tuple(map(int, s)) for s in group) for group in shapes)
    partition = _groups("gather", groups)
    n = members(partition)
    alone = replicas.current() is None

    def one(x, group):
        @jax.custom_vjp
        def whole(x):
            y = x if dtype is None else x.astype(dtype)
            if not alone:
                y = lax.all_gather(y, replicas.AXIS, axis_index_groups=partition, tiled=True)
            return tuple(_whole(y, group))

        def backward(_res, cts):
            import jax.numpy as jnp
            flat = x.ndim == 1
            ct = jnp.concatenate([c.reshape(-1) for c in cts]) if flat else cts[0]
            ct = ct if reduce_dtype is None else ct.astype(reduce_dtype)
            ct = jnp.pad(ct, [(0, n * x.shape[0] - ct.shape[0])] + [(0, 0)] * (ct.ndim - 1))
            if not alone:
                ct = lax.psum_scatter(ct, replicas.AXIS, scatter_dimension=0, axis_index_groups=partition, tiled=True)
            return ((ct / n if n > 1 else ct).astype(x.dtype),)
        whole.defvjp(lambda x: (whole(x), None), backward)
        return whole(x)

    def fn(*xs):
        return tuple(y for x, group in zip(xs, flat_shapes, strict=True) for y in one(x, group))
    results = iter(_node("gather_shards", (flat_shapes, partition, str(dtype), str(reduce_dtype)), fn, shards))
    return [[next(results) for _ in group] for group in flat_shapes]


def cut(tensors, groups=None, reduce=False, dtype=None):
    """This replica's parts, along the first dimension, of tensors that all have (or, with reduce, of their mean over the replicas).

    The first dimension is padded with zeros to equal parts; dtype (a NumPy dtype) casts the parts."""
    import jax.numpy as jnp
    from jax import lax
    partition = _groups("cut", groups)
    n = members(partition)
    alone = replicas.current() is None

    def one(x):
        x = x.reshape(1) if x.ndim == 0 else x
        size = -(-x.shape[0] // n)
        x = jnp.pad(x, [(0, n * size - x.shape[0])] + [(0, 0)] * (x.ndim - 1))
        if not alone and reduce:
            x = lax.psum_scatter(x, replicas.AXIS, scatter_dimension=0, axis_index_groups=partition, tiled=True) / n
        elif not alone:
            x = lax.dynamic_slice_in_dim(x, _place(partition) * size, size)
        return x if dtype is None else x.astype(dtype)
    return _node("cut_shards", (partition, reduce, str(dtype)), lambda *xs: tuple(map(one, xs)), tensors)


def _place(partition):
    """This replica's place in its group, inside a program."""
    import jax.numpy as jnp
    from jax import lax
    at = lax.axis_index(replicas.AXIS)
    if partition is None:
        return at
    place = np.zeros(runtime.world_size(), np.int32)
    for g in partition:
        place[list(g)] = np.arange(len(g))
    return jnp.asarray(place)[at]


def _node(name, key, fn, tensors):
    if not tensors:
        return []
    if replicas.current() is not None:
        return _collective(name, key, fn, list(tensors))
    from lazy_tensor.func._record import emit_kernel
    from xla_backend.kernel import Kernel
    values = tuple(t._value() for t in tensors)
    ins = tuple(v.aval.core for v in values)
    kernel = _alone.get((name, key, ins))
    if kernel is None:
        kernel = _alone[(name, key, ins)] = Kernel(name, fn, ins)
    return emit_kernel(kernel, values[0].aval.device, values, [(t._gn, t._oi) for t in tensors])


_alone: dict = {}

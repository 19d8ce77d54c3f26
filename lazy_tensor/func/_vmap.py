"""vmap: a function of one example made a function of a batch (torch.func.vmap)."""
from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from lazy_tensor.func._record import apply, device_of, recorded
from lazy_tensor.tensor import Tensor, assign_
from lazy_tensor.utils._pytree import broadcast_prefix, tree_flatten, tree_unflatten
from xla_backend.graph import aval
from xla_backend.random import Draw


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """func over an added dimension of its arguments, as one program (torch.func.vmap).

    in_dims: the dimension of each argument that is mapped over (an int, None for an argument that all examples share, or a
    container of these in the arguments' structure). out_dims: where the mapped dimension goes in the results (None for one that does
    not depend on mapped arguments). randomness:
    "error" (random operations raise), "same" or "different" for the examples. chunk_size: at most so many examples at once.
    Returns a function; all examples share its keyword arguments. An in-place write to an argument reaches the caller's. Raises ValueError when sizes or structures do not fit.

    Example::

        dot = lt.func.vmap(lt.dot)          # (B, N), (B, N) -> (B)
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if not (chunk_size is None or (isinstance(chunk_size, int) and chunk_size > 0)):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        name = getattr(func, "__name__", repr(func))
        flat, dims, spec, size = _arguments(name, in_dims, args, kwargs)
        if chunk_size is not None and chunk_size < size:
            return _chunked(func, flat, dims, spec, size, out_dims, randomness, chunk_size, name)
        return _mapped(func, flat, dims, spec, size, out_dims, randomness, name)
    return wrapped


def _arguments(name, in_dims, args, kwargs):
    """(leaves, their dims, spec of (args, kwargs), the size of the mapped dimension)."""
    if not isinstance(in_dims, (int, tuple)) or isinstance(in_dims, bool):
        raise ValueError(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a (potentially nested) tuple "
                         f"matching the structure of inputs, got: {type(in_dims)}.")
    if not args and not kwargs:
        raise ValueError(f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
                         "function with no inputs. The latter is unsupported.")
    flat, spec = tree_flatten(args)
    dims = broadcast_prefix(in_dims, spec)
    if dims is None:
        raise ValueError(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure of `inputs`. "
                         f"in_dims has structure {tree_flatten(in_dims)[1]} but inputs has structure {spec}.")
    kw_flat, kw_spec = tree_flatten(kwargs)
    leaves, dims = flat + kw_flat, dims + [None] * len(kw_flat)
    sizes = []
    for k, (x, d) in enumerate(zip(leaves, dims, strict=True)):
        if d is None:
            continue
        if not isinstance(d, int):
            raise ValueError(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={d} for an input but in_dim must be either an "
                             "integer dimension or None.")
        if not isinstance(x, Tensor):
            raise ValueError(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={d} for an input but the input is of type "
                             f"{type(x)}. We cannot vmap over non-Tensor arguments, please use None as the respective in_dim")
        n = x.dim()
        if not -n <= d < n:
            raise ValueError(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={d} for some input, but that input is a Tensor "
                             f"of dimensionality {n} so expected in_dim to satisfy -{n} <= in_dim < {n}.")
        dims[k] = d % n
        sizes.append(x._v.aval.shape[dims[k]])
    if not sizes:
        raise ValueError(f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): at least one input must be mapped over (an int in in_dims); "
                         "every in_dim is None")
    if len(set(sizes)) > 1:
        raise ValueError(f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped "
                         "dimension")
    return leaves, dims, (spec, kw_spec), sizes[0]


def _call(func, leaves, specs):
    spec, kw_spec = specs
    n = spec.num_leaves
    return func(*tree_unflatten(leaves[:n], spec), **tree_unflatten(leaves[n:], kw_spec))


def _mapped(func, flat, dims, specs, size, out_dims, randomness, name):
    at = [k for k, d in enumerate(dims) if d is not None]
    tensors = [flat[k] for k in at]
    device = device_of("vmap", tensors)
    in_axes = tuple([dims[k] for k in at])
    avals = []
    for t, d in zip(tensors, in_axes, strict=True):
        a = t._value().aval
        avals.append(aval(a.shape[:d] + a.shape[d + 1:], a.dtype, device))

    written: list[int] = []

    def run(*holders):
        leaves = list(flat)
        for k, h in zip(at, holders, strict=True):
            leaves[k] = h
        before = [h._value() for h in holders]
        out = _call(func, leaves, specs)
        written[:] = [j for j, (h, v) in enumerate(zip(holders, before, strict=True)) if h._value() is not v]
        return out, [holders[j] for j in written]

    draws = {"error": "error", "same": None, "different": max(size, 1)}[randomness]
    r = recorded("vmap", run, avals, device, flowing=[t._gn is not None for t in tensors], draws=draws, has_aux=True,
                 check=lambda out: _outputs(name, out_dims, out))
    axes = (*_outputs(name, out_dims, tree_unflatten(r.sub.outs[:r.outs], r.spec)), *[in_axes[j] for j in written])
    ndims = [a.ndim for a in r.sub.out_avals]
    for d, n in zip(axes, ndims, strict=True):
        if d is not None and not -n - 1 <= d <= n:
            raise IndexError(f"vmap({name}, ..., out_dims={out_dims}): Dimension out of range (expected to be in range of "
                             f"[{-n - 1}, {n}], but got {d})")
    scalars = r.sub.scalars
    moving = tuple([(k, s.stride) for k, s in enumerate(scalars) if type(s) is Draw]) if randomness == "different" else ()

    def transform(f):
        def batched(args, frees, scalars):
            each = list(scalars)
            sc_axes: list = [None] * len(each)
            for k, stride in moving:
                each[k] = each[k] + stride * jnp.arange(size)
                sc_axes[k] = 0
            return jax.vmap(lambda a, s: f(a, frees, s), in_axes=(in_axes, tuple(sc_axes)), out_axes=axes, axis_size=size)(
                tuple(args), tuple(each))
        return batched
    for k, stride in moving:
        scalars[k] = Draw(scalars[k])
        scalars[k].stride = stride * size
    outs = apply("vmap", r, transform, (in_axes, axes, size, moving), tensors)
    for j, t in zip(written, outs[r.outs:], strict=True):
        assign_(tensors[j], t, "vmap")
    return tree_unflatten(outs[:r.outs], r.spec)


def _outputs(name, out_dims, out):
    """The out_dim of every output; ValueError when the structures differ."""
    leaves, spec = tree_flatten(out)
    for x in leaves:
        if not isinstance(x, (Tensor, int)):
            raise ValueError(f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(x)}. Did you mean to set out_dims= "
                             "to None for output?")
    dims = broadcast_prefix(out_dims, spec)
    if dims is None and isinstance(out_dims, tuple) and len(out_dims) == 1 and spec.type is None:
        dims = list(out_dims)
    if dims is None or not all(d is None or isinstance(d, int) for d in dims):
        raise ValueError(f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int or a (potentially nested) tuple of ints in the "
                         f"structure of the outputs, which is {spec}.")
    return dims


def _chunked(func, flat, dims, specs, size, out_dims, randomness, chunk, name):
    import lazy_tensor as lt
    parts = []
    for start in range(0, size, chunk):
        n = min(chunk, size - start)
        piece = [x if d is None else x.narrow(d, start, n) for x, d in zip(flat, dims, strict=True)]
        parts.append(_mapped(func, piece, dims, specs, n, out_dims, randomness, name))
    columns = [tree_flatten(p)[0] for p in parts]
    spec = tree_flatten(parts[0])[1]
    axes = _outputs(name, out_dims, parts[0])
    return tree_unflatten([col[0] if d is None else lt.cat(list(col), d) for col, d in zip(zip(*columns, strict=True), axes, strict=True)], spec)

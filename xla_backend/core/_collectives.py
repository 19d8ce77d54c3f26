"""Collectives of torch_xla's `xla_model`, as operations of the recorded program; its public names are re-exported there.

Outside replicas they are what they are in a world of one: identities, times `scale`.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence

from xla_backend import replicas as replicas_
from xla_backend import runtime

REDUCE_SUM, REDUCE_MUL, REDUCE_AND, REDUCE_OR, REDUCE_MIN, REDUCE_MAX = "sum", "mul", "and", "or", "min", "max"
_REDUCE = (REDUCE_SUM, REDUCE_MUL, REDUCE_AND, REDUCE_OR, REDUCE_MIN, REDUCE_MAX)
REDUCE_XOR = "xor"  # torch.distributed's, not torch_xla's


def _is_tensor(x) -> bool:
    from lazy_tensor import Tensor
    return isinstance(x, Tensor)


def _groups(what, groups):
    """Groups of ordinals as jax takes them (None for all together); ValueError when they do not part the replicas."""
    n = runtime.world_size()
    if not groups:
        return None
    groups = tuple(tuple(int(i) for i in g) for g in groups)
    if sorted(i for g in groups for i in g) != list(range(n)):
        raise ValueError(f"{what}: groups {[list(g) for g in groups]} must name each of the {n} replicas (0 to {n - 1}) once")
    return None if len(groups) == 1 else groups


def _members(groups):
    return runtime.world_size() if groups is None else len(groups[0])


def _collective(what, key, fn, tensors):
    """Record a collective over tensors of this replica: fn(*arrays) -> tuple. Returns a list of tensors, on the tape."""
    from lazy_tensor.func._record import emit_kernel
    here = replicas_.current()
    assert here is not None
    rank, world = here
    values = [t._value() for t in tensors]
    device = world.devices[rank]
    for v in values:
        if v.aval.device is not device:
            raise RuntimeError(f"{what}: replica {rank} works on {device}, and a tensor of {list(v.aval.shape)} is on {v.aval.device}; "
                               f"move it with .to({str(device)!r})")
    kernel = replicas_.kernel(what, key, fn, tuple(v.aval.core for v in values), world)
    return emit_kernel(kernel, device, tuple(values), [(t._gn, t._oi) for t in tensors])


def _alone() -> bool:
    return replicas_.current() is None


def _check(what, count, reduce_type=None, groups=None):
    if reduce_type is not None and reduce_type not in (*_REDUCE, REDUCE_XOR):
        raise ValueError(f"{what}: reduce_type must be one of {', '.join(_REDUCE)}, got {reduce_type!r}")
    members = _members(groups)
    if count is not None and count != members:
        raise ValueError(f"{what}: a split into {count} needs {count} replicas in a group; there are {members}")


def _reducer(reduce_type, groups, scale):
    """A function of one array: reduced over the replicas, times scale."""
    import jax.numpy as jnp
    from jax import lax
    axis = replicas_.AXIS

    def reduce(x):
        if reduce_type == REDUCE_SUM:
            y = lax.psum(x.astype(jnp.int32) if x.dtype == bool else x, axis, axis_index_groups=groups)
        elif reduce_type in (REDUCE_MIN, REDUCE_MAX):
            y = (lax.pmin if reduce_type == REDUCE_MIN else lax.pmax)(x, axis, axis_index_groups=groups)
        else:
            each = lax.all_gather(x, axis, axis_index_groups=groups)
            op = {REDUCE_MUL: jnp.multiply, REDUCE_AND: jnp.bitwise_and, REDUCE_OR: jnp.bitwise_or,
                  REDUCE_XOR: jnp.bitwise_xor}[reduce_type]
            y = each[0]
            for k in range(1, each.shape[0]):
                y = op(y, each[k])
        return (y * scale if scale != 1.0 else y).astype(x.dtype)
    return reduce


def _into(output, value):
    if output is None:
        return value
    return output.copy_(value)


def _write(tensors, new, what):
    from lazy_tensor.tensor import assign_value
    for t, r in zip(tensors, new, strict=True):
        assign_value(t, r._v, what)


def all_reduce(reduce_type: str, inputs, scale: float = 1.0, groups=None, cctx=None, pin_layout: bool = True):
    """inputs reduced over the replicas, times scale: a new tensor, or a list of tensors written in place (returns None).

    reduce_type: "sum", "mul", "and", "or", "min", "max". groups: lists of ordinals that reduce among themselves."""
    groups = _groups("all_reduce", groups)
    _check("all_reduce", None, reduce_type, groups)
    import lazy_tensor as lt
    if _alone():
        if _is_tensor(inputs):
            return inputs * scale if scale != 1.0 else inputs.clone()
        if scale != 1.0:
            with lt.no_grad():
                for t in inputs:
                    t.mul_(scale)
        return None
    reduce = _reducer(reduce_type, groups, scale)
    key = (reduce_type, groups, scale)
    if _is_tensor(inputs):
        return _collective("all_reduce", key, lambda x: (reduce(x),), [inputs])[0]
    if inputs:
        with lt.no_grad():
            _write(inputs, _collective("all_reduce", key, lambda *xs: tuple(map(reduce, xs)), list(inputs)), "all_reduce")
    return None


def all_gather(value, dim: int = 0, groups=None, output=None, pin_layout: bool = True):
    """Every replica's value (a tensor or a list of them), concatenated along dim."""
    from jax import lax
    groups = _groups("all_gather", groups)
    values = [value] if _is_tensor(value) else list(value)
    if _alone():
        new = [v.clone() for v in values]
    else:
        new = _collective("all_gather", (dim, groups), lambda *xs: tuple(
            lax.all_gather(x, replicas_.AXIS, axis_index_groups=groups, axis=dim % x.ndim, tiled=True) for x in xs), values)
    outputs = [output] if _is_tensor(value) else output
    result = new if output is None else [_into(o, v) for o, v in zip(outputs, new, strict=True)]
    return result[0] if _is_tensor(value) else result


def all_to_all(value, split_dimension: int, concat_dimension: int, split_count: int, groups=None, pin_layout: bool = True):
    """value split along one dimension, each part sent to its replica, what arrives joined along another."""
    from jax import lax
    groups = _groups("all_to_all", groups)
    _check("all_to_all", split_count, None, groups)
    if _alone():
        return value.clone()
    return _collective("all_to_all", (split_dimension, concat_dimension, groups), lambda x: (lax.all_to_all(
        x, replicas_.AXIS, split_dimension % x.ndim, concat_dimension % x.ndim, axis_index_groups=groups, tiled=True),), [value])[0]


def reduce_scatter(reduce_type: str, input, scale: float, scatter_dim: int, shard_count: int, groups=None, output=None,
                   pin_layout: bool = True):
    """input (a tensor or a list of them) reduced over the replicas times scale, of which each keeps its part along scatter_dim."""
    import jax.numpy as jnp
    from jax import lax
    groups = _groups("reduce_scatter", groups)
    _check("reduce_scatter", shard_count, reduce_type, groups)
    values = [input] if _is_tensor(input) else list(input)
    for v in values:
        if v.shape[scatter_dim] % shard_count:
            raise ValueError(f"reduce_scatter: dimension {scatter_dim} of {list(v.shape)} does not split into {shard_count} equal parts")
    if _alone():
        new = [v * scale for v in values]
    else:
        whole = _reducer(reduce_type, groups, scale)

        def part(x):
            if reduce_type == REDUCE_SUM and x.dtype != bool:
                y = lax.psum_scatter(x, replicas_.AXIS, scatter_dimension=scatter_dim % x.ndim, axis_index_groups=groups, tiled=True)
                return (y * scale if scale != 1.0 else y).astype(x.dtype)
            y = whole(x)
            size = y.shape[scatter_dim] // shard_count
            at = lax.axis_index(replicas_.AXIS)
            if groups is not None:
                place = jnp.zeros(runtime.world_size(), jnp.int32).at[jnp.array([i for g in groups for i in g])].set(
                    jnp.array([k for g in groups for k in range(len(g))], jnp.int32))
                at = place[at]
            return lax.dynamic_slice_in_dim(y, at * size, size, scatter_dim % x.ndim)
        new = _collective("reduce_scatter", (reduce_type, scale, scatter_dim, groups), lambda *xs: tuple(map(part, xs)), values)
    outputs = [output] if _is_tensor(input) else output
    result = new if output is None else [_into(o, v) for o, v in zip(outputs, new, strict=True)]
    return result[0] if _is_tensor(input) else result


def collective_permute(value, pairs: Iterable[Sequence[int]]):
    """value (a tensor or a list of them) sent from replica to replica along (source, target) pairs; zeros where nothing arrives."""
    from jax import lax
    n = runtime.world_size()
    pairs = tuple((int(a), int(b)) for a, b in pairs)
    if any(not 0 <= i < n for p in pairs for i in p):
        raise ValueError(f"collective_permute: pairs {list(pairs)} name replicas that do not exist; there are {n}")
    values = [value] if _is_tensor(value) else list(value)
    if _alone():
        new = [v.clone() if pairs else v * 0 for v in values]
    else:
        new = _collective("collective_permute", pairs, lambda *xs: tuple(lax.ppermute(x, replicas_.AXIS, pairs) for x in xs), values)
    return new[0] if _is_tensor(value) else new


def collective_broadcast(tensors: list, root_ordinal: int = 0, groups=None, pin_layout: bool = True) -> None:
    """Write root_ordinal's tensors into everyone's, in place. groups: a root's place within each."""
    import jax.numpy as jnp
    from jax import lax
    groups = _groups("collective_broadcast", groups)
    if not 0 <= root_ordinal < runtime.world_size():
        raise ValueError(f"collective_broadcast: root_ordinal {root_ordinal} does not exist; there are {runtime.world_size()} replicas")
    if _alone() or not tensors:
        return
    roots = frozenset([root_ordinal] if groups is None else [g[root_ordinal] if root_ordinal < len(g) else g[0] for g in groups])

    def spread(x):
        mine = jnp.isin(lax.axis_index(replicas_.AXIS), jnp.array(sorted(roots)))
        y = x.astype(jnp.int32) if x.dtype == bool else x
        return lax.psum(jnp.where(mine, y, jnp.zeros_like(y)), replicas_.AXIS, axis_index_groups=groups).astype(x.dtype)
    import lazy_tensor as lt
    with lt.no_grad():
        _write(tensors, _collective("collective_broadcast", (root_ordinal, groups), lambda *xs: tuple(map(spread, xs)), list(tensors)),
               "collective_broadcast")


def broadcast_master_param(model) -> None:
    """Give every replica the first one's parameters and buffers."""
    collective_broadcast([*model.parameters(), *model.buffers()])


def _fetch_gradients(optimizer) -> list:
    """The gradients of an optimizer's parameters."""
    return [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]


def reduce_gradients(optimizer, groups=None, pin_layout: bool = True) -> None:
    """Average the gradients of an optimizer's parameters over the replicas (of each group), in place, as one collective."""
    if not _alone():
        members = _members(_groups("reduce_gradients", groups))
        all_reduce(REDUCE_SUM, _fetch_gradients(optimizer), scale=1.0 / members, groups=groups)

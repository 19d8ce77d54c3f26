"""Strides as a user sees them: every tensor is contiguous but for the view ops between it and its root."""
from __future__ import annotations

import numpy as np

from lazy_tensor.tensor import PLAIN, Chain, Storage


def contiguous(shape):
    """C-order strides (elements) of a shape, as torch gives them (a size of 0 counts as 1)."""
    out, n = [], 1
    for d in reversed(shape):
        out.append(n)
        n *= max(d, 1)
    return tuple(reversed(out))


def of(t):
    """(strides, storage offset), in elements."""
    w = t._view
    if w is None:
        return contiguous(t._v.aval.shape), 0
    chain = w.chain
    if not chain.steps:
        return chain.strides or contiguous(t._v.aval.shape), 0
    if chain.layout is None:
        shape = w.root._v.aval.shape
        base = chain.strides or contiguous(shape)
        key = (shape, base, tuple([(s.op, s.key, s.extra) for s in chain.steps]))  # for steps with run-time numbers
        found = _known.get(key)
        if found is None:
            if len(_known) > 10_000:
                _known.clear()
            found = _known[key] = _walk(shape, base, chain.steps, t._v.aval.shape)
        chain.layout = found
    return chain.layout


def lay(t, strides):
    """Let a tensor that owns its storage show these strides (None: C order); returns it."""
    w = t._view
    if strides is None:
        chain = PLAIN
    else:
        chain = _roots.get(strides)
        if chain is None:
            chain = _roots[strides] = Chain((), strides)
    if w is None:
        if strides is not None:
            t._view = Storage(t._ver, chain)
    else:
        w.chain = chain
    return t


def root_strides(t):
    """The strides that `lay` gave a tensor, or None."""
    w = t._view
    return None if w is None or w.root is not None else w.chain.strides


_roots: dict[tuple, Chain] = {}  # strides of a root that is not in C order -> its chain
_known: dict = {}  # (root's shape and strides, view steps) -> strides and offset


def _walk(shape, strides, steps, final):
    """Strides after view steps, from where each step's index map sends unit moves."""
    offset = 0
    for step in steps:
        rule = getattr(step.op, "strides_rule", None) or getattr(getattr(step.op, "op", None), "strides_rule", None)
        if rule is not None:
            shape, strides, offset = rule(shape, strides, offset, step)
            continue
        shape, strides, offset = _by_map(shape, strides, offset, step)
    return tuple(strides), offset


def _by_map(shape, strides, offset, step):
    """The general rule: apply the step to an array of element addresses and read the strides off it.

    Sizes larger than 3 are cut to 3 where the step's arguments allow no shorter way; addresses are exact."""
    n = int(np.prod(shape)) if shape else 1
    if n == 0:
        out = _apply(step, np.zeros(shape, np.int64))
        return out.shape, contiguous(out.shape), offset
    address = np.zeros(shape, np.int64)
    for d, (size, s) in enumerate(zip(shape, strides, strict=True)):
        index = [None] * len(shape)
        index[d] = slice(None)
        address = address + (np.arange(size, dtype=np.int64) * s)[tuple(index)]
    out = _apply(step, address + offset)
    start = int(out.reshape(-1)[0]) if out.size else offset
    got = []
    fallback = contiguous(out.shape)
    for d, size in enumerate(out.shape):
        if size > 1 and out.size:
            at = [0] * out.ndim
            at[d] = 1
            got.append(int(out[tuple(at)]) - start)
        else:
            got.append(None)
    for d in range(out.ndim - 1, -1, -1):
        if got[d] is None:
            got[d] = fallback[d] if d == out.ndim - 1 or got[d + 1] is None else max(got[d + 1], 1) * max(out.shape[d + 1], 1)
    return out.shape, tuple(got), start


def _apply(step, address):
    """A view step on a NumPy array of addresses, through the op's own body."""
    import jax
    import jax.numpy as jnp

    from xla_backend._jax import x64
    from xla_backend.graph import WEAK, aval

    op, part = (step.op, None) if hasattr(step.op, "body") else (step.op.op, step.op.index)
    core = (aval(address.shape, address.dtype), *step.key)
    args = [address, *step.extra]
    del WEAK
    rule = op.host_rule
    if rule is not None:
        r = rule(**op._bind(core, args, np))
    else:
        with x64(True), jax.ensure_compile_time_eval():
            r = op.body(**op._bind(core, [jnp.asarray(a) for a in args], jnp))
    if part is not None:
        r = r[part]
    return np.asarray(r)


def is_contiguous(t, memory_format=None):
    """Whether a user's tensor lies in C order (or in the given memory format's order)."""
    shape = t._v.aval.shape
    name = getattr(memory_format, "name", "contiguous_format")
    if name == "preserve_format":
        name = "contiguous_format"
    if name == "contiguous_format":
        w = t._view
        if w is None or w.chain is PLAIN:
            return True
        want = contiguous(shape)
    else:
        if len(shape) != (4 if name == "channels_last" else 5):
            return False
        want = channels_last(shape)
    got = of(t)[0]
    return t.numel() == 0 or all(n == 1 or a == b for n, a, b in zip(shape, got, want, strict=True))


def channels_last(shape):
    """Strides of NHWC (or NDHWC) order for an NCHW (NCDHW) shape."""
    order = (0, *range(2, len(shape)), 1)
    out = [0] * len(shape)
    n = 1
    for d in reversed(order):
        out[d] = n
        n *= max(shape[d], 1)
    return tuple(out)


def viewable(shape, strides, new):
    """Whether a tensor of these sizes and strides can be viewed as `new` without a copy (torch's view rule)."""
    if 0 in shape:
        return True
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    new = [n for n in new if n != 1]
    if not old:
        return True
    chunks = []  # runs of dimensions that are contiguous with one another
    for n, s in old:
        if chunks and chunks[-1][1] == n * s:
            chunks[-1] = (chunks[-1][0] * n, s)
        else:
            chunks.append((n, s))
    i = 0
    for size, _s in chunks:
        n = 1
        while n < size and i < len(new):
            n *= new[i]
            i += 1
        if n != size:
            return False
    return i == len(new)

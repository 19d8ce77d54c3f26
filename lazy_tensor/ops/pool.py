"""Pooling: max, average, Lp, adaptive and fractional, with indices; max_unpool."""
from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import check, is_float, pair
from lazy_tensor.ops._define import composite, op
from lazy_tensor.ops._nn import float_only, wide

NN = "nn.functional"


def _spatial(name, input, n, also_empty=True):
    told = f"{name}: given input {input.dtype.name}{list(input.shape)}"
    check(input.ndim in (n + 1, n + 2), f"{told}; Expected {n + 1}D or {n + 2}D input")
    skip = 1 if input.ndim == n + 2 else 0
    check(0 not in input.shape[skip:] or not also_empty, f"{told}; only the batch dimension may be empty")
    return told


def _ints(name, n, **given):
    return tuple(pair(v, n, f"{name}: {k} must either be a single int, or a tuple of {n} ints;") for k, v in given.items())


def _out_size(m, k, s, p, d, ceil_mode):
    span = m + 2 * p - d * (k - 1) - 1
    out = (-(-span // s) if ceil_mode else span // s) + 1
    if ceil_mode and (out - 1) * s >= m + p:
        out -= 1
    return out


def _geometry(told, name, size, kernel, stride, padding, dilation, ceil_mode):
    check(min(kernel) > 0, f"{name}: kernel size should be greater than zero, but got {list(kernel)}")
    check(min(stride) > 0, f"{name}: stride should not be zero, got {list(stride)}")
    check(min(dilation) > 0, f"{name}: dilation should be greater than zero, but got {list(dilation)}")
    for k, p, d in zip(kernel, padding, dilation, strict=True):
        check(p >= 0, f"{name}: pad must be non-negative, but got pad: {p}")
        check(p <= (d * (k - 1) + 1) // 2, f"{name}: pad should be at most half of effective kernel size, but got pad={p}, "
              f"kernel_size={k} and dilation={d}")
    out = [_out_size(*a, ceil_mode) for a in zip(size, kernel, stride, padding, dilation, strict=True)]
    check(min(out) >= 1, f"{told}; the calculated output size {out} is too small (kernel_size {list(kernel)})")
    return out


def _padded(x, fill, kernel, stride, padding, dilation, out):
    """x padded (or cropped) so that exactly `out` windows fit."""
    config = [(0, 0, 0)] * (x.ndim - len(out))
    for m, k, s, p, d, o in zip(x.shape[-len(out):], kernel, stride, padding, dilation, out, strict=True):
        config.append((p, (o - 1) * s + d * (k - 1) + 1 - m - p, 0))
    return jax.lax.pad(x, jnp.asarray(fill, x.dtype), config)


def _lowest(dtype):
    return -np.inf if is_float(dtype) else np.iinfo(dtype).min


def _flat_positions(size):
    return jnp.arange(math.prod(size), dtype=np.int64).reshape(size)


# Up to this many window elements, values come from a chain of selects over shifted slices, whose gradient is a sum of padded
# selects; above, from a reduction to indices and a gather.
_CHAIN = 16


def _max_pool_body(name, n, input, kernel_size, stride, padding, dilation, ceil_mode, indices):
    told = _spatial(name, input, n)
    if n == 1 and not indices or input.dtype == np.bool_ or jnp.iscomplexobj(input):  # torch pools integers in the other forms
        float_only(name, input)
    stride = kernel_size if stride is None or stride == () else stride
    kernel, stride, padding, dilation = _ints(name, n, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation)
    size = input.shape[-n:]
    out = _geometry(told, name, size, kernel, stride, padding, dilation, ceil_mode)
    lead = input.ndim - n
    if math.prod(kernel) <= _CHAIN:
        x = _padded(input, _lowest(input.dtype), kernel, stride, padding, dilation, out)
        value, which, covered = None, None, None
        for t, at in enumerate(np.ndindex(*kernel)):
            lo = [a * d for a, d in zip(at, dilation, strict=True)]
            hi = [a + (o - 1) * s + 1 for a, o, s in zip(lo, out, stride, strict=True)]
            part = jax.lax.slice(x, (*(0,) * lead, *lo), (*x.shape[:lead], *hi), (*(1,) * lead, *stride))
            inside = _inside(at, size, stride, padding, dilation, out)
            if value is None:
                value, which, covered = part, jnp.zeros(part.shape, np.int32), inside
                continue
            better = (part > value) | _nan(part)
            if not inside.all():
                better = better & inside
            if not covered.all():  # the first element inside wins whatever it is, minus infinity too
                better = better | (inside & ~covered)
            covered = covered | inside
            value = jnp.where(better, part, value)
            if indices:
                which = jnp.where(better, t, which)
        if not indices:
            return value, None
        flat = jnp.zeros(value.shape, np.int64)
        rest = which
        taps = []
        for k in reversed(kernel):
            taps.append(rest % k)
            rest = rest // k
        for axis, (tap, m, s, p, d, o) in enumerate(zip(reversed(taps), size, stride, padding, dilation, out, strict=True)):
            start = (jnp.arange(o) * s - p).reshape((-1,) + (1,) * (n - 1 - axis))
            flat = flat * m + start + tap.astype(np.int64) * d
        return value, flat
    index = _window_argmax(jax.lax.stop_gradient(input), size, kernel, stride, padding, dilation, out)
    flat = input.reshape(*input.shape[:lead], -1)
    value = jnp.take_along_axis(flat, index.reshape(*index.shape[:lead], -1), -1, mode="clip").reshape(index.shape)
    return value, index


def _nan(x):
    return jnp.isnan(x) if is_float(x.dtype) else jnp.zeros((), bool)


def _inside(at, size, stride, padding, dilation, out):
    """Whether a window element lies in the input, for each output position (a constant)."""
    n = len(size)
    ok = np.ones((1,) * n, bool)
    for axis, (a, m, s, p, d, o) in enumerate(zip(at, size, stride, padding, dilation, out, strict=True)):
        spot = np.arange(o) * s - p + a * d
        ok = ok & ((spot >= 0) & (spot < m)).reshape((-1,) + (1,) * (n - 1 - axis))
    return ok


def _window_argmax(x, size, kernel, stride, padding, dilation, out):
    """The flat index of the first maximum (or of a nan) of each window."""
    lead = x.ndim - len(size)
    spot = jnp.broadcast_to(_flat_positions(size).astype(np.int32 if math.prod(size) < 2**31 else np.int64), x.shape)
    none = np.iinfo(spot.dtype).max
    a = _padded(x, _lowest(x.dtype), kernel, stride, padding, dilation, out)
    b = _padded(spot, none, kernel, stride, padding, dilation, out)

    def better(p, q):
        (v, i), (w, j) = p, q
        nv, nw = _nan(v), _nan(w)
        tie = (v == w) | (nv & nw)
        first = jnp.where(tie, i <= j, (v > w) & ~nw | (nv & ~nw))
        return jnp.where(first, v, w), jnp.where(first, i, j)

    ones = (1,) * lead
    _, index = jax.lax.reduce_window((a, b), (jnp.asarray(_lowest(x.dtype), x.dtype), jnp.asarray(none, spot.dtype)), better,
                                     ones + tuple(kernel), ones + tuple(stride), "VALID", window_dilation=ones + tuple(dilation))
    return index.astype(np.int64)


def _make_max(n):
    name = f"max_pool{n}d"

    def body(input: Array, kernel_size: Dims, stride: Dims | None, padding: Dims, dilation: Dims, ceil_mode: bool):
        return _max_pool_body(name, n, input, kernel_size, stride, padding, dilation, ceil_mode, False)[0]

    def both(input: Array, kernel_size: Dims, stride: Dims | None, padding: Dims, dilation: Dims, ceil_mode: bool):
        return _max_pool_body(name, n, input, kernel_size, stride, padding, dilation, ceil_mode, True)
    plain, indexed = op(body, where=None, name=name), op(both, where=None, name=name + "_with_indices")

    def max_pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        f = indexed if return_indices else plain
        return f(input, kernel_size, stride, padding, dilation, bool(ceil_mode))

    def with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        return indexed(input, kernel_size, stride, padding, dilation, bool(ceil_mode))

    def top(input, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        return plain(input, kernel_size, stride, padding, dilation, bool(ceil_mode))
    shape = ", ".join("DHW"[-n:]) if n > 1 else "L"
    max_pool.__doc__ = f"""The maximum of each window of (N, C, {shape}) or (C, {shape}); return_indices adds flat positions (int64).

    Padding counts as minus infinity, at most half the kernel (torch.nn.functional.{name})."""
    with_indices.__doc__ = f"(values, flat positions) of {name}."
    top.__doc__ = f"The maximum of each window (torch.{name})."
    composite(max_pool, where=NN, name=name)
    composite(with_indices, where=NN, name=name + "_with_indices", alias=(name + "_with_indices",) if n == 1 else ())
    composite(top, name=name)
    return max_pool


max_pool1d, max_pool2d, max_pool3d = map(_make_max, (1, 2, 3))


# ------------------------------------------------------------------------------------------- averages


def _window_sum(x, kernel, stride, padding, out):
    lead = (1,) * (x.ndim - len(kernel))
    x = _padded(x, 0, kernel, stride, padding, (1,) * len(kernel), out)
    return jax.lax.reduce_window(x, np.zeros((), x.dtype), jax.lax.add, lead + tuple(kernel), lead + tuple(stride), "VALID")


def _avg_pool_body(name, n, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    told = _spatial(name, input, n)
    stride = kernel_size if stride is None or stride == () else stride
    kernel, stride, padding = _ints(name, n, kernel_size=kernel_size, stride=stride, padding=padding)
    check(divisor_override != 0, f"{name}: divisor must be not zero")
    if input.dtype != np.int64:
        float_only(name, input)
    size = input.shape[-n:]
    out = _geometry(told, name, size, kernel, stride, padding, (1,) * n, ceil_mode)
    x = wide(input)
    total = _window_sum(x, kernel, stride, padding, out)
    if divisor_override is not None:
        count = np.asarray(divisor_override)
    else:
        count = np.ones((1,) * n, np.int64)
        for axis, (m, k, s, p, o) in enumerate(zip(size, kernel, stride, padding, out, strict=True)):
            start = np.arange(o) * s - p
            end = np.minimum(start + k, m + p)
            c = end - start if count_include_pad else np.minimum(end, m) - np.maximum(start, 0)
            count = count * c.reshape((-1,) + (1,) * (n - 1 - axis))
    if not is_float(x.dtype):
        return jax.lax.div(total, jnp.broadcast_to(count.astype(x.dtype), total.shape))  # towards zero, as C
    return (total / count.astype(x.dtype)).astype(input.dtype)


@op(where=NN, alias=("avg_pool1d",))
def avg_pool1d(input: Array, kernel_size: Dims, stride: Dims | None = None, padding: Dims = 0, ceil_mode: bool = False,
               count_include_pad: bool = True):
    """The mean of each window of (N, C, L) or (C, L) (torch.nn.functional.avg_pool1d)."""
    return _avg_pool_body("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@op(where=NN, out=True)
def avg_pool2d(input: Array, kernel_size: Dims, stride: Dims | None = None, padding: Dims = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, divisor_override: int | None = None):
    """The mean of each window of (N, C, H, W) or (C, H, W) (torch.nn.functional.avg_pool2d)."""
    return _avg_pool_body("avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@op(where=NN, out=True)
def avg_pool3d(input: Array, kernel_size: Dims, stride: Dims | None = None, padding: Dims = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, divisor_override: int | None = None):
    """The mean of each window of (N, C, D, H, W) or (C, D, H, W) (torch.nn.functional.avg_pool3d)."""
    return _avg_pool_body("avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _lp_pool_body(name, n, input, norm_type, kernel_size, stride, ceil_mode):
    float_only(name, input)
    told = _spatial(name, input, n)
    stride = kernel_size if stride is None else stride
    kernel, stride = _ints(name, n, kernel_size=kernel_size, stride=stride)
    out = _geometry(told, name, input.shape[-n:], kernel, stride, (0,) * n, (1,) * n, ceil_mode)
    x = wide(input)
    total = _window_sum(x ** (int(norm_type) if float(norm_type).is_integer() else norm_type), kernel, stride, (0,) * n, out)
    if ceil_mode:  # torch scales the mean of a cut-off window by the whole kernel
        count = np.ones((1,) * n)
        for axis, (m, k, s, o) in enumerate(zip(input.shape[-n:], kernel, stride, out, strict=True)):
            start = np.arange(o) * s
            count = count * ((np.minimum(start + k, m) - start) / k).reshape((-1,) + (1,) * (n - 1 - axis))
        total = total / count.astype(total.dtype)
    # a sum of 0 has gradient 0 (its root's is infinite for p > 1); a negative sum keeps its sign
    zero = total == 0
    root = jnp.where(zero, 1.0, total) ** (1.0 / norm_type)
    return jnp.where(zero, 0.0 if norm_type > 0 else jnp.inf, root).astype(input.dtype)


@op(where=NN, promote=("input",), to_float=True)
def lp_pool1d(input: Array, norm_type: float, kernel_size: Dims, stride: Dims | None = None, ceil_mode: bool = False):
    """(sum of x^p)^(1/p) over each window of (N, C, L) or (C, L) (torch.nn.functional.lp_pool1d)."""
    return _lp_pool_body("lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode)


@op(where=NN, promote=("input",), to_float=True)
def lp_pool2d(input: Array, norm_type: float, kernel_size: Dims, stride: Dims | None = None, ceil_mode: bool = False):
    """(sum of x^p)^(1/p) over each window of (N, C, H, W) or (C, H, W) (torch.nn.functional.lp_pool2d)."""
    return _lp_pool_body("lp_pool2d", 2, input, norm_type, kernel_size, stride, ceil_mode)


@op(where=NN, promote=("input",), to_float=True)
def lp_pool3d(input: Array, norm_type: float, kernel_size: Dims, stride: Dims | None = None, ceil_mode: bool = False):
    """(sum of x^p)^(1/p) over each window of (N, C, D, H, W) or (C, D, H, W) (torch.nn.functional.lp_pool3d)."""
    return _lp_pool_body("lp_pool3d", 3, input, norm_type, kernel_size, stride, ceil_mode)


# ------------------------------------------------------------------------------------------- adaptive


def _adaptive_size(name, input, n, output_size):
    told = f"{name}: given input {list(input.shape)}, output_size {output_size}"
    check(input.ndim in (n + 1, n + 2), f"{told}; Expected {n + 1}D or {n + 2}D input")
    skip = 1 if input.ndim == n + 2 else 0
    check(0 not in input.shape[skip:], f"{told}; Expected input to have non-zero size for non-batch dimensions")
    if isinstance(output_size, int):
        output_size = (output_size,) * n
    check(len(output_size) in (1, n), f"{told}; {n} sizes would fit")
    output_size = tuple(output_size) * (n if len(output_size) == 1 else 1)
    size = tuple(m if o is None else int(o) for o, m in zip(output_size, input.shape[-n:], strict=True))
    check(min(size) >= 0, f"{told}; elements of output_size must be greater than or equal to 0")
    return size


def _bins(m, o):
    """(first index of each bin, bin sizes)."""
    i = np.arange(o)
    start = i * m // o
    return start, -(-(i + 1) * m // o) - start


def _adaptive_avg_body(name, n, input, output_size):
    size = _adaptive_size(name, input, n, output_size)
    check(is_float(input.dtype), f"{name}: not implemented for {input.dtype.name}", NotImplementedError)
    x = wide(input)
    for axis, o in enumerate(size, input.ndim - n):
        m = x.shape[axis]
        if o == m:
            continue
        if o == 0:
            x = jax.lax.slice_in_dim(x, 0, 0, axis=axis)
        elif m % o == 0:
            x = jnp.mean(x.reshape(*x.shape[:axis], o, m // o, *x.shape[axis + 1:]), axis + 1)
        else:
            start, length = _bins(m, o)
            k = int(length.max())
            at = np.minimum(start[:, None] + np.arange(k), m - 1)
            tail = (1,) * (x.ndim - axis - 1)
            y = jnp.take(x, at.reshape(-1), axis=axis).reshape(*x.shape[:axis], o, k, *x.shape[axis + 1:])
            y = jnp.where((np.arange(k) < length[:, None]).reshape(o, k, *tail), y, 0.0)
            x = jnp.sum(y, axis + 1) / length.astype(x.dtype).reshape(o, *tail)
    return x.astype(input.dtype)


def _adaptive_max_body(name, n, input, output_size):
    float_only(name, input)
    size = _adaptive_size(name, input, n, output_size)
    lead = input.ndim - n
    x, place = input, _flat_positions(input.shape[lead:])
    masks = np.ones((1,) * (2 * n), bool)
    for axis, (o, m) in enumerate(zip(size, input.shape[lead:], strict=True)):
        start, length = _bins(m, o) if o else (np.zeros(0, np.int64), np.zeros(0, np.int64))
        k = int(length.max()) if o else 1
        at = np.minimum(start[:, None] + np.arange(k), m - 1)
        a = lead + 2 * axis
        x = jnp.take(x, at.reshape(-1), axis=a).reshape(*x.shape[:a], o, k, *x.shape[a + 1:])
        b = 2 * axis
        place = jnp.take(place, at.reshape(-1), axis=b).reshape(*place.shape[:b], o, k, *place.shape[b + 1:])
        masks = masks & (np.arange(k) < length[:, None]).reshape((1,) * b + (o, k) + (1,) * (2 * (n - axis - 1)))
    order = [*range(0, 2 * n, 2), *range(1, 2 * n, 2)]
    x = jnp.where(masks, x, _lowest(x.dtype))
    x = jnp.transpose(x, (*range(lead), *(lead + i for i in order))).reshape(*input.shape[:lead], *size, -1)
    place = jnp.transpose(place, order).reshape(*size, -1)
    which = jnp.argmax(x, -1)[..., None] if x.size else jnp.zeros((*x.shape[:-1], 1), np.int64)
    if not x.size:
        return jnp.sum(x, -1), which[..., 0]
    value = jnp.take_along_axis(x, which, -1)[..., 0]
    index = jnp.take_along_axis(jnp.broadcast_to(place, x.shape), which, -1)[..., 0]
    return value, index


def _make_adaptive(n):
    shape = ", ".join("DHW"[-n:]) if n > 1 else "L"
    avg_name, max_name = f"adaptive_avg_pool{n}d", f"adaptive_max_pool{n}d"

    def avg(input: Array, output_size: tuple | int):
        return _adaptive_avg_body(avg_name, n, input, output_size)
    avg.__name__ = avg_name
    avg.__doc__ = f"""Means over bins that tile (N, C, {shape}) or (C, {shape}) in output_size parts (None: as the input).

    (torch.nn.functional.{avg_name})"""
    avg = op(avg, where=NN, name=avg_name, alias=(avg_name,) if n == 1 else ())

    def both(input: Array, output_size: tuple | int):
        return _adaptive_max_body(max_name, n, input, output_size)

    def single(input: Array, output_size: tuple | int):
        return _adaptive_max_body(max_name, n, input, output_size)[0]
    both, single = op(both, where=None, name=max_name + "_with_indices"), op(single, where=None, name=max_name)

    def adaptive_max_pool(input, output_size, return_indices=False):
        return both(input, output_size) if return_indices else single(input, output_size)

    def with_indices(input, output_size, return_indices=False):
        return both(input, output_size)
    adaptive_max_pool.__doc__ = f"""Maxima over bins that tile (N, C, {shape}) or (C, {shape}) in output_size parts (None: as the input).

    return_indices adds flat positions (int64) (torch.nn.functional.{max_name})."""
    with_indices.__doc__ = f"(values, flat positions) of {max_name}."
    composite(adaptive_max_pool, where=NN, name=max_name)
    composite(with_indices, where=NN, name=max_name + "_with_indices")
    if n == 1:
        def top(input, output_size):
            return both(input, output_size)
        top.__doc__ = "(values, flat positions) of the maxima over bins (torch.adaptive_max_pool1d)."
        composite(top, name=max_name)
    return avg, adaptive_max_pool


adaptive_avg_pool1d, adaptive_max_pool1d = _make_adaptive(1)
adaptive_avg_pool2d, adaptive_max_pool2d = _make_adaptive(2)
adaptive_avg_pool3d, adaptive_max_pool3d = _make_adaptive(3)


# ------------------------------------------------------------------------------------------- fractional


def _fractional_body(name, n, input, samples, kernel, size, key):
    told = f"{name}: given input {list(input.shape)}, kernel_size {list(kernel)}, output_size {list(size)}"
    _spatial(name, input, n)
    for m, k, o in zip(input.shape[-n:], kernel, size, strict=True):
        check(o >= 1 and o + k - 1 <= m, f"{told}; the pool size {k} is too large relative to the input size {m}")
    batched = input.ndim == n + 2
    x = input if batched else input[None]
    b, c = x.shape[:2]
    if samples is None:
        samples = jax.random.uniform(key, (b, c, n), np.float64 if x.dtype == np.float64 else np.float32)
    check(samples.ndim == 3 and samples.shape[2] == n and samples.shape[0] >= b and samples.shape[1] >= c,
          f"{told}; Expect _random_samples of shape {[b, c, n]}, got {list(samples.shape)}")
    u = samples[:b, :c]
    if n == 2:  # torch draws the width's sample first in 2-d, and the depth's first in 3-d
        u = u[..., ::-1]
    index = jnp.zeros((b, c) + (1,) * (2 * n), np.int64)
    for axis, (m, k, o) in enumerate(zip(x.shape[2:], kernel, size, strict=True)):
        s = u[..., axis:axis + 1]
        if o > 1:
            alpha = (m - k) / (o - 1)
            i = jnp.arange(o).astype(s.dtype)
            start = jnp.floor((i + s) * alpha).astype(np.int64) - jnp.floor(s * alpha).astype(np.int64)
            start = jnp.where(jnp.arange(o) == o - 1, m - k, start)
        else:
            start = jnp.full((b, c, 1), m - k, np.int64)
        spot = start[..., None] + jnp.arange(k)
        shape = [b, c] + [1] * (2 * n)
        shape[2 + axis], shape[2 + n + axis] = o, k
        index = index * m + spot.reshape(shape)
    index = index.reshape(b, c, *size, -1)
    flat = x.reshape(b, c, -1)
    windows = jnp.take_along_axis(flat, index.reshape(b, c, -1), -1, mode="clip").reshape(index.shape)
    which = jnp.argmax(windows, -1)[..., None]
    value = jnp.take_along_axis(windows, which, -1)[..., 0]
    index = jnp.take_along_axis(index, which, -1)[..., 0]
    return (value, index) if batched else (value[0], index[0])


def _make_fractional(n):
    name = f"fractional_max_pool{n}d"

    def body(input: Array, samples: Array | None, kernel: Dims, size: Dims, *, key: Key):
        return _fractional_body(name, n, input, samples, kernel, size, key)
    call = op(body, where=None, name=name)

    def both(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
        if output_size is None:
            ratio = (output_ratio,) * n if isinstance(output_ratio, (int, float)) else tuple(output_ratio)
            if len(ratio) != n or not all(0 < r < 1 for r in ratio):
                raise ValueError(f"{name}: output_ratio must be between 0 and 1 for each of {n} dimensions, got {output_ratio}")
            output_size = tuple(int(m * r) for m, r in zip(tuple(input.shape)[-n:], ratio, strict=True))
        return call(input, _random_samples, pair(kernel_size, n, f"{name}: kernel_size"),
                    pair(output_size, n, f"{name}: output_size"))

    def fractional(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        r = both(input, kernel_size, output_size, output_ratio, return_indices, _random_samples)
        return r if return_indices else r[0]
    fractional.__doc__ = f"""Maxima of windows at pseudo-random, evenly spread places; output_size or output_ratio gives their number.

    (torch.nn.functional.{name}; Graham, arXiv:1412.6071)"""
    both.__doc__ = f"(values, flat positions) of {name}."
    composite(fractional, where=NN, name=name)
    composite(both, where=NN, name=name + "_with_indices")


_make_fractional(2)
_make_fractional(3)


# ------------------------------------------------------------------------------------------- unpool


@op(where=None, name="max_unpool")
def _unpool(input: Array, indices: Array, size: Dims):
    return _scattered(input, indices, size)


def _spread(method, input, indices, size):
    lead = input.shape[:input.ndim - len(size)]
    rows = math.prod(lead)
    spots = jnp.zeros((rows, math.prod(size)), input.dtype).at[jnp.arange(rows)[:, None], indices.reshape(rows, -1)]
    return getattr(spots, method)(input.reshape(rows, -1), mode="drop").reshape(*lead, *size)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _scattered(input, indices, size):
    return _spread("set", input, indices, size)


@_scattered.defjvp
def _scattered_jvp(size, primals, tangents):
    # Windows that overlap name an element twice: torch keeps one value, but gives its gradient to each of them.
    return _spread("set", *primals, size), _spread("add", tangents[0], primals[1], size)


def _make_unpool(n):
    name = f"max_unpool{n}d"

    def unpool(input, indices, kernel_size, stride=None, padding=0, output_size=None):
        told = f"{name}: given input {list(input.shape)}, indices {indices.dtype}{list(indices.shape)}"
        check(indices.dtype.np == np.int64, f"{told}; elements in indices should be type int64")
        check(input.dim() in (n + 1, n + 2), f"{told}; Input to {name} should be a {n + 1}d or {n + 2}d Tensor")
        check(tuple(input.shape) == tuple(indices.shape), f"{told}; Expected shape of indices to be the same as that of the input")
        kernel, padding = _ints(name, n, kernel_size=kernel_size, padding=padding)
        (stride,) = _ints(name, n, stride=kernel if stride is None else stride)
        check(0 not in tuple(input.shape)[-(n + 1):], f"{told}; Expected input to have non-zero size for non-batch dimensions")
        default = [(m - 1) * s + k - 2 * p
                   for m, k, s, p in zip(tuple(input.shape)[-n:], kernel, stride, padding, strict=True)]
        if output_size is not None:
            output_size = list(output_size)
            if len(output_size) == n + 2:
                output_size = output_size[2:]
            if len(output_size) != n:
                raise ValueError(f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a length of "
                                 f"'{len(output_size)}'")
            for d in range(n):
                lo, hi = default[d] - stride[d], default[d] + stride[d]
                if not lo < output_size[d] < hi:
                    raise ValueError(f"invalid output_size \"{output_size}\" (dim {d} must be between {lo} and {hi})")
            default = [int(o) for o in output_size]
        return _unpool(input, indices, tuple(default))
    unpool.__doc__ = f"""A partial inverse of max_pool{n}d: values at their indices, zeros elsewhere (torch.nn.functional.{name})."""
    composite(unpool, where=NN, name=name)


for _n in (1, 2, 3):
    _make_unpool(_n)

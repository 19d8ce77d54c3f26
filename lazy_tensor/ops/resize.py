"""interpolate and upsample. Each dimension is a small constant matrix of weights, or a gather of few taps."""
from __future__ import annotations

import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import check, is_float
from lazy_tensor.ops._define import composite, op
from lazy_tensor.ops._nn import wide

NN = "nn.functional"


def _nearest_index(m, o, scale, exact):
    ratio = np.float32(1.0 / scale) if scale else np.float32(m) / np.float32(o)
    i = np.arange(o, dtype=np.float32)
    at = np.floor((i + np.float32(0.5)) * ratio) if exact else np.floor(i * ratio)
    return np.minimum(at.astype(np.int64), m - 1)


def _source(m, o, scale, align_corners, dtype):
    """The real-valued source position of each output element (not clipped), and the step between them."""
    if align_corners:
        step = (m - 1) / (o - 1) if o > 1 else 0.0
        return np.arange(o) * dtype(step), step
    step = 1.0 / scale if scale else m / o
    return (np.arange(o).astype(dtype) + dtype(0.5)) * dtype(step) - dtype(0.5), step


def _linear_taps(m, o, scale, align_corners, dtype):
    at, _ = _source(m, o, scale, align_corners, dtype)
    at = np.maximum(at, 0)
    low = np.minimum(np.floor(at).astype(np.int64), m - 1)
    t = np.clip(at - low, 0, 1)
    high = np.minimum(low + 1, m - 1)
    return np.stack([low, high], 1), np.stack([1 - t, t], 1)


def _cubic(x, a):
    x = np.abs(x)
    return np.where(x <= 1, ((a + 2) * x - (a + 3)) * x * x + 1, np.where(x < 2, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a, 0.0))


def _cubic_taps(m, o, scale, align_corners, dtype):
    at, _ = _source(m, o, scale, align_corners, dtype)
    low = np.floor(at)
    t = at - low
    index = np.clip(low.astype(np.int64)[:, None] + np.arange(-1, 3), 0, m - 1)
    return index, np.stack([_cubic(t + 1, -0.75), _cubic(t, -0.75), _cubic(1 - t, -0.75), _cubic(2 - t, -0.75)], 1)


def _antialias_taps(m, o, scale, align_corners, cubic):
    """Weights of a filter as wide as the output's pixel when shrinking (PIL's and torch's antialiasing)."""
    if align_corners:
        step = (m - 1) / (o - 1) if o > 1 else 0.0
    else:
        step = 1.0 / scale if scale else m / o
    width = max(step, 1.0)
    support = (2.0 if cubic else 1.0) * width
    taps = math.ceil(support) * 2 + 1
    index, weight = np.zeros((o, taps), np.int64), np.zeros((o, taps))
    for i in range(o):
        center = step * (i + 0.5)
        lo = max(int(center - support + 0.5), 0)
        hi = min(int(center + support + 0.5), m)
        x = (np.arange(lo, hi) - center + 0.5) / width
        w = _cubic(x, -0.5) if cubic else np.maximum(0.0, 1 - np.abs(x))
        total = w.sum()
        k = min(hi - lo, taps)
        index[i, :k] = np.arange(lo, lo + k)
        weight[i, :k] = (w / total if total else w)[:k]
    return np.clip(index, 0, m - 1), weight


def _apply(x, axis, index, weight):
    """sum over taps of x[index] * weight along an axis."""
    o, taps = index.shape
    shape = [1] * x.ndim
    shape[axis] = o
    m = x.shape[axis]
    if taps > 4:
        w = np.zeros((o, m))
        np.add.at(w, (np.arange(o)[:, None], index), weight)
        y = jax.lax.dot_general(x, jnp.asarray(w, x.dtype), (((axis,), (1,)), ((), ())), precision="highest")
        return jnp.moveaxis(y, -1, axis)
    total = None
    for k in range(taps):
        part = jnp.take(x, index[:, k], axis=axis, mode="clip") * jnp.asarray(weight[:, k].reshape(shape), x.dtype)
        total = part if total is None else total + part
    return total


@op(where=None, name="interpolate")
def _interpolate(input: Array, size: Dims, scales: tuple | None, mode: str, align_corners: bool, antialias: bool):
    told = f"interpolate: given input {input.dtype.name}{list(input.shape)}, output size {list(size)}"
    check(min(size) > 0 and 0 not in input.shape[2:], f"{told}; Input and output sizes should be greater than 0")
    check(0 not in input.shape[1:], f"{told}; Non-empty {input.ndim}D data tensor expected")
    check(is_float(input.dtype) or input.dtype == np.uint8, f"{told}; not implemented for {input.dtype.name}", NotImplementedError)
    n = len(size)
    scales = scales or (None,) * n
    if mode in ("nearest", "nearest-exact"):
        x = input
        for d, (o, s) in enumerate(zip(size, scales, strict=True)):
            m = x.shape[2 + d]
            index = _nearest_index(m, o, s, mode != "nearest")
            if o == m and (index == np.arange(m)).all():
                continue
            if o % m == 0 and (index == np.arange(o) // (o // m)).all():
                x = jnp.repeat(x, o // m, 2 + d)
            else:
                x = jnp.take(x, index, axis=2 + d, mode="clip")
        return x
    x = wide(input) if is_float(input.dtype) else input.astype(np.float32)
    cubic = mode == "bicubic"
    kind = np.float64 if x.dtype == np.float64 else np.float32
    for d in reversed(range(n)):
        m, o, s = x.shape[2 + d], size[d], scales[d]
        if antialias:
            index, weight = _antialias_taps(m, o, s, align_corners, cubic)
        else:
            index, weight = (_cubic_taps if cubic else _linear_taps)(m, o, s, align_corners, kind)
        if m == o and index.shape[1] <= 4 and not antialias and np.allclose(weight[:, 1 if cubic else 0], 1):
            continue
        x = _apply(x, 2 + d, index, weight)
        if input.dtype == np.uint8:
            x = jnp.clip(jnp.round(x), 0, 255)
    return x.astype(input.dtype)


_LINEAR = {3: "linear", 4: "bilinear", 5: "trilinear"}


@composite(where=NN)
def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                antialias=False):
    """Resizes (N, C, L), (N, C, H, W) or (N, C, D, H, W) to `size`, or by `scale_factor`.

    mode: nearest, nearest-exact, linear, bilinear, bicubic, trilinear, area. align_corners: corner pixels keep their places;
    antialias (bilinear, bicubic): a wider filter when shrinking (torch.nn.functional.interpolate)."""
    told = f"interpolate: given input {list(input.shape)}, mode {mode!r}"
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear")
    else:
        align_corners = bool(align_corners)
    n = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        if isinstance(size, (list, tuple)) or hasattr(size, "tolist"):
            size = tuple(int(s) for s in size)
            if len(size) != n:
                raise ValueError(f"Input and output must have the same number of spatial dimensions, but got input with spatial "
                                 f"dimensions of {list(input.shape[2:])} and output size of {list(size)} ({told})")
        else:
            size = (int(size),) * n
        scales = None
    elif scale_factor is not None:
        if isinstance(scale_factor, (list, tuple)):
            if len(scale_factor) != n:
                raise ValueError(f"Input and scale_factor must have the same number of spatial dimensions, but got input with spatial "
                                 f"dimensions of {list(input.shape[2:])} and scale_factor of shape {list(scale_factor)} ({told})")
            scales = tuple(float(s) for s in scale_factor)
        else:
            scales = (float(scale_factor),) * n
        size = tuple(int(math.floor(float(m) * s)) for m, s in zip(tuple(input.shape)[2:], scales, strict=True))
    else:
        raise ValueError("either size or scale_factor should be defined")
    if recompute_scale_factor is not None and recompute_scale_factor:
        if scales is None:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        scales = None
    if antialias and not (mode in ("bilinear", "bicubic") and input.dim() == 4):
        raise ValueError(f"Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input ({told})")
    if mode == "area":
        from lazy_tensor.ops import pool
        if n not in (1, 2, 3):
            raise NotImplementedError(f"{told}; 3-D, 4-D and 5-D inputs fit")
        return (pool.adaptive_avg_pool1d, pool.adaptive_avg_pool2d, pool.adaptive_avg_pool3d)[n - 1](input, size)
    fits = n in (1, 2, 3) if mode in ("nearest", "nearest-exact") else _LINEAR.get(n + 2) == mode or (mode == "bicubic" and n == 2)
    if not fits:
        if n in (1, 2, 3) and mode in ("linear", "bilinear", "trilinear"):
            raise NotImplementedError(f"Got {n + 2}D input, but {mode} mode needs "
                                      f"{ {'linear': 3, 'bilinear': 4, 'trilinear': 5}[mode]}D input ({told})")
        raise NotImplementedError("Input Error: Only 3D, 4D and 5D input Tensors supported (got "
                                  f"{n + 2}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact "
                                  f"(got {mode})")
    return _interpolate(input, size, scales, mode, bool(align_corners), bool(antialias))


@composite(where=NN)
def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """interpolate under its old name (torch.nn.functional.upsample)."""
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


@composite(where=NN)
def upsample_nearest(input, size=None, scale_factor=None):
    """interpolate with mode nearest (torch.nn.functional.upsample_nearest)."""
    warnings.warn("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, "nearest")


@composite(where=NN)
def upsample_bilinear(input, size=None, scale_factor=None):
    """interpolate with mode bilinear and align_corners (torch.nn.functional.upsample_bilinear)."""
    warnings.warn("`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, "bilinear", True)

"""Images: pixel shuffles, padding, affine grids and sampling; resizing is in `resize.py`."""
from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import check, is_float
from lazy_tensor.ops._define import composite, op
from lazy_tensor.ops._nn import wide

NN = "nn.functional"


# ------------------------------------------------------------------------------------------- shuffles


@op(where=NN, alias=("pixel_shuffle",))
def pixel_shuffle(input: Array, upscale_factor: int):
    """(*, C r^2, H, W) -> (*, C, H r, W r) (torch.nn.functional.pixel_shuffle; Shi et al., arXiv:1609.05158)."""
    r = upscale_factor
    told = f"pixel_shuffle: given input {list(input.shape)}, upscale_factor {r}"
    check(input.ndim >= 3, f"{told}; expects input to have at least 3 dimensions")
    check(r > 0, f"{told}; expects a positive upscale_factor")
    *lead, c, h, w = input.shape
    check(c % (r * r) == 0, f"{told}; expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
          f"input.size(-3)={c} is not divisible by {r * r}")
    x = input.reshape(*lead, c // (r * r), r, r, h, w)
    n = len(lead)
    return jnp.transpose(x, (*range(n), n, n + 3, n + 1, n + 4, n + 2)).reshape(*lead, c // (r * r), h * r, w * r)


@op(where=NN, alias=("pixel_unshuffle",))
def pixel_unshuffle(input: Array, downscale_factor: int):
    """(*, C, H r, W r) -> (*, C r^2, H, W), the inverse of pixel_shuffle (torch.nn.functional.pixel_unshuffle)."""
    r = downscale_factor
    told = f"pixel_unshuffle: given input {list(input.shape)}, downscale_factor {r}"
    check(input.ndim >= 3, f"{told}; expects input to have at least 3 dimensions")
    check(r > 0, f"{told}; expects a positive downscale_factor")
    *lead, c, h, w = input.shape
    check(h % r == 0 and w % r == 0, f"{told}; expects height and width to be divisible by downscale_factor")
    x = input.reshape(*lead, c, h // r, r, w // r, r)
    n = len(lead)
    return jnp.transpose(x, (*range(n), n, n + 2, n + 4, n + 1, n + 3)).reshape(*lead, c * r * r, h // r, w // r)


@op(where=NN, alias=("channel_shuffle", "native_channel_shuffle", "nn.functional.native_channel_shuffle"))
def channel_shuffle(input: Array, groups: int):
    """Channels (N, g k, ...) reordered as (N, k g, ...) (torch.nn.functional.channel_shuffle; Zhang et al., arXiv:1707.01083)."""
    told = f"channel_shuffle: given input {list(input.shape)}, groups {groups}"
    check(input.ndim >= 3, f"{told}; expects input with > 2 dims, but got input with sizes {list(input.shape)}")
    check(groups > 0, f"{told}; Number of groups to divide channels in must be positive. Value of groups:{groups}")
    check(input.shape[1] % groups == 0, f"{told}; Number of channels must be divisible by groups. Got {input.shape[1]} channels and "
          f"{groups} groups.")
    n, c, *rest = input.shape
    return jnp.swapaxes(input.reshape(n, groups, c // groups, *rest), 1, 2).reshape(input.shape)


# ------------------------------------------------------------------------------------------- padding


@op(where=None, name="pad")
def _pad_constant(input: Array, pad: Dims, value: Scalar | None = None):
    told = f"pad: given input {list(input.shape)}, pad {list(pad)}"
    check(len(pad) % 2 == 0, f"{told}; Length of pad must be even but instead it equals {len(pad)}")
    check(len(pad) // 2 <= input.ndim, f"{told}; Length of pad should be no more than twice the number of dimensions of the input")
    config = [(0, 0, 0)] * input.ndim
    for i in range(len(pad) // 2):
        lo, hi = pad[2 * i], pad[2 * i + 1]
        axis = input.ndim - 1 - i
        size = input.shape[axis] + lo + hi
        check(size >= 0, f"{told}; The input size {input.shape[axis]}, plus negative padding {lo} and {hi}, resulted in a negative output "
              f"size, which is invalid. Check dimension {axis} of your input.")
        config[axis] = (lo, hi, 0)
    v = jnp.zeros((), input.dtype) if value is None else jnp.asarray(value).astype(input.dtype)
    return jax.lax.pad(input, v, config)


def _pad_index(mode, m, lo, hi, told):
    i = np.arange(-lo, m + hi)
    if mode == "reflect":
        check(lo < m and hi < m, f"{told}; Padding size should be less than the corresponding input dimension, but got: padding "
              f"({lo}, {hi}) at a dimension of size {m}")
        i = np.abs(i)
        return np.where(i >= m, 2 * (m - 1) - i, i)
    if mode == "replicate":
        return np.clip(i, 0, m - 1)
    check(lo <= m and hi <= m, f"{told}; Padding value causes wrapping around more than once.")
    first, kept = max(-lo, 0), m + min(lo, 0) + min(hi, 0)  # negative amounts crop first; what is left wraps around
    return first + (i - first) % kept


@op(where=None, name="pad_mode")
def _pad_mode(input: Array, pad: Dims, mode: str):
    told = f"pad: given input {list(input.shape)}, pad {list(pad)}, mode {mode!r}"
    check(len(pad) % 2 == 0, f"{told}; Length of pad must be even but instead it equals {len(pad)}")
    n = len(pad) // 2
    fits = {1: (2, 3), 2: (3, 4), 3: (4, 5)}.get(n, ())
    check(input.ndim in fits, f"Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now ({told})",
          NotImplementedError)
    x = input
    for i in range(n):
        axis = x.ndim - 1 - i
        lo, hi = pad[2 * i], pad[2 * i + 1]
        m = x.shape[axis]
        check(m + lo + hi >= 1, f"{told}; input dimension {axis} of size {m} is too small")
        check(m > 0, f"{told}; Expected non-empty dimensions other than the batch")
        if lo == 0 and hi == 0:
            continue
        x = _take(x, _pad_index(mode, m, lo, hi, told), axis)
    return x


def _take(x, index, axis):
    """x at constant, in-range indices along an axis, as few slices as there are runs when they are few."""
    runs = []
    for i in index.tolist():
        if runs and (len(runs[-1]) == 1 or runs[-1][1] - runs[-1][0] == i - runs[-1][-1]) and abs(i - runs[-1][-1]) == 1:
            runs[-1].append(i)
        else:
            runs.append([i])
    if len(runs) > 8:
        return jnp.take(x, index, axis=axis, mode="clip")
    parts = []
    for r in runs:
        lo, hi = min(r), max(r) + 1
        part = jax.lax.slice_in_dim(x, lo, hi, axis=axis)
        parts.append(jnp.flip(part, axis) if len(r) > 1 and r[1] < r[0] else part)
    return jnp.concatenate(parts, axis)


@composite(where=NN)
def pad(input, pad, mode="constant", value=None):
    """Pads the last dimensions: pad (left, right, top, bottom, ...), negative amounts crop.

    mode "constant" (with `value`, 0 by default), "reflect", "replicate" or "circular" (torch.nn.functional.pad)."""
    pad = (pad,) if isinstance(pad, int) else tuple(pad)
    if mode == "constant":
        return _pad_constant(input, pad, value)
    check(value is None or value == 0, f"Padding mode \"{mode}\" doesn't take in value argument")
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}; constant, reflect, replicate and circular exist")
    return _pad_mode(input, pad, mode)


@composite(name="constant_pad_nd")
def _constant_pad_nd(input, pad, value=0):
    """Padding with a constant (torch.constant_pad_nd)."""
    return _pad_constant(input, tuple(pad), value)


# ------------------------------------------------------------------------------------------- grids


@op(where=None, name="affine_grid")
def _affine_grid(theta: Array, size: Dims, align_corners: bool):
    n = len(size) - 2
    told = f"affine_grid: given theta {list(theta.shape)}, size {list(size)}"
    check(is_float(theta.dtype), f"Expected theta to have floating point type, but got {theta.dtype.name}")
    if n not in (2, 3) or theta.shape != (size[0], n, n + 1):
        if n in (2, 3):
            raise ValueError(f"Expected a batch of {'2D' if n == 2 else '3D'} affine matrices of shape Nx{n}x{n + 1} for size "
                             f"{list(size)}. Got {list(theta.shape)}.")
        raise NotImplementedError(f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively ({told})")
    check(min(size) > 0, f"Expected non-zero, positive output size. Got {list(size)}", ValueError)
    t = wide(theta)

    def axis(m):
        if m == 1:
            return jnp.zeros((1,), t.dtype)
        x = jnp.linspace(-1, 1, m, dtype=t.dtype)
        return x if align_corners else x * ((m - 1) / m)
    axes = jnp.meshgrid(*(axis(m) for m in size[2:]), indexing="ij")
    base = jnp.stack([*reversed(axes), jnp.ones(size[2:], t.dtype)], -1)
    return jnp.einsum("...j,nij->n...i", base, t, precision="highest").astype(theta.dtype)


@composite(where=NN)
def affine_grid(theta, size, align_corners=None):
    """Sampling positions of affine maps: theta (N, 2, 3), size (N, C, H, W) -> (N, H, W, 2), or the same in 3-d.

    (torch.nn.functional.affine_grid)"""
    return _affine_grid(theta, tuple(size), bool(align_corners))


@composite
def affine_grid_generator(theta, size, align_corners):
    """affine_grid as torch.affine_grid_generator."""
    return _affine_grid(theta, tuple(size), bool(align_corners))


def _unnormalize(g, m, align_corners):
    return (g + 1) / 2 * (m - 1) if align_corners else ((g + 1) * m - 1) / 2


def _reflect(x, low2, high2):
    """x reflected until it lies between low2 / 2 and high2 / 2."""
    if low2 == high2:
        return jnp.zeros_like(x)
    low, span = low2 / 2, (high2 - low2) / 2
    x = jnp.abs(x - low)
    flips = jax.lax.stop_gradient(jnp.floor(x / span))
    extra = x - flips * span
    return jnp.where(flips % 2 == 0, extra + low, span - extra + low)


def _place(x, m, padding_mode, align_corners):
    """Positions as the padding mode moves them; clipping has no gradient at and outside the border."""
    def clip(x):
        return jnp.where(x <= 0, 0.0, jnp.where(x >= m - 1, float(m - 1), x))
    if padding_mode == "border":
        return clip(x)
    if padding_mode == "reflection":
        return clip(_reflect(x, 0, 2 * (m - 1)) if align_corners else _reflect(x, -1, 2 * m - 1))
    return x


def _gather(x, at):
    """x (N, C, *S) at integer positions `at` (one (N, *O) array for each dimension): (N, C, *O), 0 outside."""
    n, c, *size = x.shape
    ok, flat = None, 0
    for a, m in zip(at, size, strict=True):
        inside = (a >= 0) & (a < m)
        ok = inside if ok is None else ok & inside
        flat = flat * m + jnp.clip(a, 0, m - 1)
    out = flat.shape[1:]
    got = jnp.take_along_axis(x.reshape(n, c, -1), flat.reshape(n, 1, -1), 2, mode="clip").reshape(n, c, *out)
    return jnp.where(ok[:, None], got, 0.0)


def _whole(x):
    """An integer-valued float array as indices (nan as -1)."""
    x = jax.lax.stop_gradient(x)
    return jnp.where(jnp.isfinite(x), jnp.clip(x, -2.0**31, 2.0**31), -1.0).astype(np.int64)


def _cubic_weights(t, a=-0.75):
    def near(u):
        return ((a + 2) * u - (a + 3)) * u * u + 1

    def far(u):
        return ((a * u - 5 * a) * u + 8 * a) * u - 4 * a
    return far(t + 1), near(t), near(1 - t), far(2 - t)


def _bicubic_sample(x, ix, iy, padding_mode, align_corners):
    h, w = x.shape[2:]
    x0, y0 = (jax.lax.stop_gradient(jnp.floor(v)) for v in (ix, iy))
    wx, wy = _cubic_weights(ix - x0), _cubic_weights(iy - y0)
    total = 0.0
    for j in range(4):
        row = 0.0
        py = _whole(_place(y0 + (j - 1), h, padding_mode, align_corners))
        for i in range(4):
            px = _whole(_place(x0 + (i - 1), w, padding_mode, align_corners))
            row = row + _gather(x, (py, px)) * wx[i][:, None]
        total = total + row * wy[j][:, None]
    return total


def _grid_sample_body(input, grid, mode, padding_mode, align_corners):
    n = input.ndim - 2
    told = f"grid_sampler(): given input {input.dtype.name}{list(input.shape)}, grid {grid.dtype.name}{list(grid.shape)}"
    check(n in (2, 3) and grid.ndim == input.ndim, f"{told}; expected 4D or 5D input and grid with same number of dimensions")
    check(input.shape[0] == grid.shape[0], f"{told}; expected grid and input to have same batch size")
    check(grid.shape[-1] == n, f"{told}; expected grid to have size {n} in last dimension")
    check(0 not in input.shape[2:], f"{told}; expected input to have non-empty spatial dimensions")
    check(input.dtype == grid.dtype, f"{told}; expected input and grid to have one dtype")
    check(not (mode == "bicubic" and n == 3), f"{told}; bicubic interpolation only supports 4D input")
    x, g = wide(input), wide(grid)
    size = input.shape[2:]
    # the grid's last dimension is (x, y, z): the last spatial dimension first
    at = [_unnormalize(g[..., n - 1 - d], m, align_corners) for d, m in enumerate(size)]
    if mode == "bicubic":
        return _bicubic_sample(x, at[1], at[0], padding_mode, align_corners).astype(input.dtype)
    at = [_place(a, m, padding_mode, align_corners) for a, m in zip(at, size, strict=True)]
    if mode == "nearest":
        return _gather(x, [_whole(jnp.round(a)) for a in at]).astype(input.dtype)
    low = [jax.lax.stop_gradient(jnp.floor(a)) for a in at]
    total = 0.0
    for corner in np.ndindex(*(2,) * n):
        weight = functools.reduce(jnp.multiply, [(a - f) if c else (f + 1 - a) for c, a, f in zip(corner, at, low, strict=True)])
        total = total + _gather(x, [_whole(f + c) for f, c in zip(low, corner, strict=True)]) * weight[:, None]
    return total.astype(input.dtype)


_MODES, _PADS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


@op(where=None, name="grid_sample")
def _grid_sample(input: Array, grid: Array, mode: str, padding_mode: str, align_corners: bool):
    return _grid_sample_body(input, grid, mode, padding_mode, align_corners)


@composite(where=NN)
def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """input (N, C, H, W) read at grid (N, H', W', 2) of (x, y) in [-1, 1]: (N, C, H', W'); or the same in 3-d.

    mode "bilinear", "nearest" or "bicubic" (2-d); padding_mode "zeros", "border" or "reflection"
    (torch.nn.functional.grid_sample)."""
    if mode not in _MODES:
        raise ValueError(f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'")
    if padding_mode not in _PADS:
        raise ValueError("nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
                         f"'{padding_mode}'")
    return _grid_sample(input, grid, mode, padding_mode, bool(align_corners))


def _samplers():
    def make(name, n):
        def fn(input, grid, interpolation_mode, padding_mode, align_corners):
            mode = ("bilinear", "nearest", "bicubic")[int(interpolation_mode)]
            return _grid_sample(input, grid, mode, _PADS[int(padding_mode)], bool(align_corners))
        fn.__name__ = name
        fn.__doc__ = f"grid_sample with modes given as numbers (torch.{name})."
        composite(fn)
    for name, n in (("grid_sampler", None), ("grid_sampler_2d", 2), ("grid_sampler_3d", 3)):
        make(name, n)


_samplers()

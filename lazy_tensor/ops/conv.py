"""Convolutions and their transposes, unfold and fold.

XLA:CPU convolutions with groups are slow. Milliseconds on 2 cores, jax 0.10.2, one forward and both gradients:

    input, weight (stride, groups)                  XLA            here
    (16,64,28,28), (64,1,3,3)  (1, 64)          23.1 + 38.0      0.6 + 6.0    shifted multiply-adds
    (16,96,14,14), (96,1,5,5)  (2, 96)           3.6 + 28.8      0.4 + 2.7
    (16,64,28,28), (64,16,3,3) (1, 4)           12.5 + 332.6     2.7 + 5.5    a dense convolution for each group
    (8,128,28,28), (128,4,3,3) (1, 32)          19.2 + 1859.6    8.8 + 11.6

Dense convolutions gain nothing: (64,32,14,14), (64,32,3,3): weight gradient 6.4 by XLA, 6.0 by a dot for each tap, 7.7 by
im2col; (128,1,28,28), (32,1,3,3): 5.8, 3.3, 4.5; (16,128,8,8), (128,128,3,3): 2.3, 2.5, 3.1; with stride 2 or dilation 2 XLA
is the faster one.
"""
from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import check, is_complex, pair
from lazy_tensor.ops._define import op

NN = "nn.functional"


def _dense(x, w, stride, padding, dilation, expand, groups=1):
    return jax.lax.conv_general_dilated(
        x, w, stride, padding, lhs_dilation=expand, rhs_dilation=dilation, feature_group_count=groups,
        dimension_numbers=jax.lax.conv_dimension_numbers(x.shape, w.shape, _numbers(x.ndim)))


def _numbers(ndim):
    s = "DHW"[-(ndim - 2):]
    return ("NC" + s, "OI" + s, "NC" + s)


def _by_taps(x, w, stride, padding, dilation, expand):
    """A depthwise convolution as a sum of shifted products."""
    per = w.shape[0] // x.shape[1]
    zero = jnp.zeros((), x.dtype)
    x = jax.lax.pad(x, zero, [(0, 0, 0)] * 2 + [(lo, hi, e - 1) for (lo, hi), e in zip(padding, expand, strict=True)])
    if per != 1:
        x = jnp.repeat(x, per, 1)
    kernel = w.shape[2:]
    out = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)]
    total = None
    for at in np.ndindex(*kernel):
        lo = [a * d for a, d in zip(at, dilation, strict=True)]
        hi = [a + (n - 1) * s + 1 for a, n, s in zip(lo, out, stride, strict=True)]
        part = jax.lax.slice(x, (0, 0, *lo), (*x.shape[:2], *hi), (1, 1, *stride))
        part = part * w[(slice(None), 0, *at)].reshape((1, -1) + (1,) * len(kernel))
        total = part if total is None else total + part
    return total


def _by_groups(x, w, stride, padding, dilation, expand, groups):
    """One dense convolution for each group: unrolled up to 32 of them, a loop above."""
    if groups <= 32:
        parts = [_dense(a, b, stride, padding, dilation, expand)
                 for a, b in zip(jnp.split(x, groups, 1), jnp.split(w, groups, 0), strict=True)]
        return jnp.concatenate(parts, 1)
    xs = jnp.moveaxis(x.reshape(x.shape[0], groups, -1, *x.shape[2:]), 1, 0)
    ws = w.reshape(groups, -1, *w.shape[1:])
    y = jax.lax.map(lambda a: _dense(a[0], a[1], stride, padding, dilation, expand), (xs, ws))
    y = jnp.moveaxis(y, 0, 1)
    return y.reshape(y.shape[0], -1, *y.shape[3:])


def convolve(x, w, stride, padding, dilation, groups, expand=None):
    """x (N, C, ...), w (O, C / groups, ...) -> (N, O, ...): the correlation; `expand` puts zeros between input elements."""
    n = x.ndim - 2
    expand = expand or (1,) * n
    if 0 in x.shape or 0 in w.shape:
        return _empty(x, w, stride, padding, dilation, expand)
    if is_complex(x.dtype) or is_complex(w.dtype):
        part = functools.partial(convolve, stride=stride, padding=padding, dilation=dilation, groups=groups, expand=expand)
        a, b, c, d = jnp.real(x), jnp.imag(x), jnp.real(w), jnp.imag(w)
        return jax.lax.complex(part(a, c) - part(b, d), part(a, d) + part(b, c))
    if groups == 1:
        return _dense(x, w, stride, padding, dilation, expand)
    if x.shape[1] == groups and math.prod(w.shape[2:]) <= 64:
        on_cpu = functools.partial(_by_taps, stride=stride, padding=padding, dilation=dilation, expand=expand)
    else:
        on_cpu = functools.partial(_by_groups, stride=stride, padding=padding, dilation=dilation, expand=expand, groups=groups)
    other = functools.partial(_dense, stride=stride, padding=padding, dilation=dilation, expand=expand, groups=groups)
    return jax.lax.platform_dependent(x, w, cpu=on_cpu, default=other)


def _empty(x, w, stride, padding, dilation, expand):
    size = [((m - 1) * e + 1 + lo + hi - d * (k - 1) - 1) // s + 1 if m else (lo + hi - d * (k - 1) - 1) // s + 1
            for m, k, s, (lo, hi), d, e in zip(x.shape[2:], w.shape[2:], stride, padding, dilation, expand, strict=True)]
    # the sums keep the (zero) gradients' graph
    return jnp.zeros((x.shape[0], w.shape[0], *(max(s, 0) for s in size)), x.dtype) + jnp.sum(x) * 0 + jnp.sum(w) * 0


def _setup(name, input, weight, bias, n, out_axis):
    told = f"{name}: given input {input.dtype.name}{list(input.shape)}, weight {weight.dtype.name}{list(weight.shape)}"
    check(weight.ndim == n + 2, f"{told}; a weight of {n + 2} dimensions would fit")
    check(input.ndim in (n + 1, n + 2), f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but got input of "
          f"size: {list(input.shape)} ({told})")
    check(input.dtype == weight.dtype, f"Input type ({input.dtype.name}) and weight type ({weight.dtype.name}) should be the same "
          f"({told})")
    if bias is not None:
        check(bias.dtype == input.dtype, f"Input type ({input.dtype.name}) and bias type ({bias.dtype.name}) should be the same "
              f"({told})")
        want = weight.shape[out_axis[0]] * out_axis[1]
        check(bias.shape == (want,), f"{told}; expected bias to be 1-dimensional with {want} elements, but got bias of size "
              f"{list(bias.shape)} instead")
    return told


def _biased(y, bias, n, batched):
    if bias is not None:
        y = y + bias.reshape((1, -1) + (1,) * n)
    return y if batched else y[0]


def _conv(name, n, input, weight, bias, stride, padding, dilation, groups):
    told = _setup(name, input, weight, bias, n, (0, 1))
    check(groups > 0, f"{name}: non-positive groups is not supported, got {groups}")
    stride, dilation = pair(stride, n, f"{name}: stride"), pair(dilation, n, f"{name}: dilation")
    check(min(stride) > 0, f"{name}: non-positive stride is not supported, got {list(stride)}")
    check(min(dilation) > 0, f"{name}: dilation should be greater than zero, got {list(dilation)}")
    kernel = weight.shape[2:]
    check(0 not in kernel, f"{told}; the kernel must not be empty")
    if isinstance(padding, str):
        check(padding in ("valid", "same"), f"Invalid padding string: '{padding}', should be one of {{'valid', 'same'}} ({name})")
        if padding == "same":
            check(max(stride) == 1, f"padding='same' is not supported for strided convolutions ({name}: stride {list(stride)})")
            total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
            pads = tuple((t // 2, t - t // 2) for t in total)
        else:
            pads = ((0, 0),) * n
    else:
        padding = pair(padding, n, f"{name}: padding")
        check(min(padding) >= 0, f"{name}: negative padding is not supported, got {list(padding)}")
        pads = tuple((p, p) for p in padding)
    batched = input.ndim == n + 2
    x = input if batched else input[None]
    check(x.shape[1] == weight.shape[1] * groups,
          f"Given groups={groups}, weight of size {list(weight.shape)}, expected input{list(input.shape)} to have "
          f"{weight.shape[1] * groups} channels, but got {x.shape[1]} channels instead ({told})")
    check(weight.shape[0] % groups == 0 and weight.shape[0] >= groups,
          f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size "
          f"{list(weight.shape)} instead ({told})")
    for m, k, (lo, hi), d in zip(x.shape[2:], kernel, pads, dilation, strict=True):
        check(m + lo + hi >= d * (k - 1) + 1,
              f"Calculated padded input size per channel: ({m + lo + hi}). Kernel size: ({d * (k - 1) + 1}). Kernel size can't be "
              f"greater than actual input size ({told})")
    return _biased(convolve(x, weight, stride, pads, dilation, groups), bias, n, batched)


def _conv_transpose(name, n, input, weight, bias, stride, padding, output_padding, groups, dilation):
    check(groups > 0, f"{name}: non-positive groups is not supported, got {groups}")
    told = _setup(name, input, weight, bias, n, (1, groups))
    stride, dilation = pair(stride, n, f"{name}: stride"), pair(dilation, n, f"{name}: dilation")
    padding, extra = pair(padding, n, f"{name}: padding"), pair(output_padding, n, f"{name}: output_padding")
    check(min(stride) > 0, f"{name}: non-positive stride is not supported, got {list(stride)}")
    check(min(dilation) > 0, f"{name}: dilation should be greater than zero, got {list(dilation)}")
    check(min(padding) >= 0, f"{name}: negative padding is not supported, got {list(padding)}")
    check(min(extra) >= 0, f"{name}: negative output_padding is not supported, got {list(extra)}")
    for e, s, d in zip(extra, stride, dilation, strict=True):
        check(e < s or e < d, f"output padding must be smaller than either stride or dilation, but got output_padding {list(extra)}, "
              f"stride {list(stride)}, dilation {list(dilation)} ({told})")
    batched = input.ndim == n + 2
    x = input if batched else input[None]
    cin, per, *kernel = weight.shape
    check(x.shape[1] == cin, f"Given transposed=1, weight of size {list(weight.shape)}, expected input{list(input.shape)} to have "
          f"{cin} channels, but got {x.shape[1]} channels instead ({told})")
    check(cin % groups == 0, f"{told}; {cin} input channels do not divide into {groups} groups")
    for m, k, s, p, e, d in zip(x.shape[2:], kernel, stride, padding, extra, dilation, strict=True):
        size = (m - 1) * s - 2 * p + d * (k - 1) + e + 1
        check(size > 0 or not m, f"{told}; the calculated output size {size} is too small")
    w = weight.reshape(groups, cin // groups, per, *kernel)
    w = jnp.swapaxes(w, 1, 2).reshape(groups * per, cin // groups, *kernel)
    w = jnp.flip(w, tuple(range(2, w.ndim)))
    pads = tuple((d * (k - 1) - p, d * (k - 1) - p + e)
                 for k, p, e, d in zip(kernel, padding, extra, dilation, strict=True))
    y = convolve(x, w, (1,) * n, pads, dilation, groups, stride)
    return _biased(y, bias, n, batched)


@op(where=NN, alias=("conv1d",))
def conv1d(input: Array, weight: Array, bias: Array | None = None, stride: Dims = 1, padding: tuple | int | str = 0,
           dilation: Dims = 1, groups: int = 1):
    """Cross-correlation: input (N, C, L) or (C, L), weight (O, C / groups, k) -> (N, O, L').

    padding: ints, "valid" or "same" (stride 1). RuntimeError when sizes do not fit (torch.nn.functional.conv1d)."""
    return _conv("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@op(where=NN, alias=("conv2d",))
def conv2d(input: Array, weight: Array, bias: Array | None = None, stride: Dims = 1, padding: tuple | int | str = 0,
           dilation: Dims = 1, groups: int = 1):
    """Cross-correlation: input (N, C, H, W) or (C, H, W), weight (O, C / groups, kH, kW) -> (N, O, H', W').

    padding: ints, "valid" or "same" (stride 1). RuntimeError when sizes do not fit (torch.nn.functional.conv2d)."""
    return _conv("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@op(where=NN, alias=("conv3d",))
def conv3d(input: Array, weight: Array, bias: Array | None = None, stride: Dims = 1, padding: tuple | int | str = 0,
           dilation: Dims = 1, groups: int = 1):
    """Cross-correlation: input (N, C, D, H, W) or (C, D, H, W), weight (O, C / groups, kD, kH, kW) -> (N, O, D', H', W').

    padding: ints, "valid" or "same" (stride 1). RuntimeError when sizes do not fit (torch.nn.functional.conv3d)."""
    return _conv("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


@op(where=NN, alias=("conv_transpose1d",))
def conv_transpose1d(input: Array, weight: Array, bias: Array | None = None, stride: Dims = 1, padding: Dims = 0,
                     output_padding: Dims = 0, groups: int = 1, dilation: Dims = 1):
    """The gradient of conv1d with regard to its input, as a function: weight (C, O / groups, k).

    (torch.nn.functional.conv_transpose1d)"""
    return _conv_transpose("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@op(where=NN, alias=("conv_transpose2d",))
def conv_transpose2d(input: Array, weight: Array, bias: Array | None = None, stride: Dims = 1, padding: Dims = 0,
                     output_padding: Dims = 0, groups: int = 1, dilation: Dims = 1):
    """The gradient of conv2d with regard to its input, as a function: weight (C, O / groups, kH, kW).

    (torch.nn.functional.conv_transpose2d)"""
    return _conv_transpose("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@op(where=NN, alias=("conv_transpose3d",))
def conv_transpose3d(input: Array, weight: Array, bias: Array | None = None, stride: Dims = 1, padding: Dims = 0,
                     output_padding: Dims = 0, groups: int = 1, dilation: Dims = 1):
    """The gradient of conv3d with regard to its input, as a function: weight (C, O / groups, kD, kH, kW).

    (torch.nn.functional.conv_transpose3d)"""
    return _conv_transpose("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


@op(where=NN, alias=("conv_tbc",))
def conv_tbc(input: Array, weight: Array, bias: Array, pad: int = 0):
    """A 1-d convolution of (time, batch, channels) with weight (k, in, out) (torch.nn.functional.conv_tbc)."""
    check(input.ndim == 3 and weight.ndim == 3 and input.shape[2] == weight.shape[1],
          f"conv_tbc: given input {list(input.shape)}, weight {list(weight.shape)}; (T, B, C) and (k, C, out) would fit")
    x, w = jnp.transpose(input, (1, 2, 0)), jnp.transpose(weight, (2, 1, 0))
    y = convolve(x, w, (1,), ((pad, pad),), (1,), 1)
    return jnp.transpose(y, (2, 0, 1)) + bias


# ------------------------------------------------------------------------------------------- sliding blocks


def _blocks(name, size, kernel, dilation, padding, stride):
    check(min(kernel) > 0, f"{name}: kernel size should be greater than zero, but got {list(kernel)}")
    check(min(dilation) > 0, f"{name}: dilation should be greater than zero, but got {list(dilation)}")
    check(min(padding) >= 0, f"{name}: padding should be non-negative, but got {list(padding)}")
    check(min(stride) > 0, f"{name}: stride should be greater than zero, but got {list(stride)}")
    return [(m + 2 * p - d * (k - 1) - 1) // s + 1
            for m, k, d, p, s in zip(size, kernel, dilation, padding, stride, strict=True)]


def _window(at, dilation, stride, out):
    lo = [a * d for a, d in zip(at, dilation, strict=True)]
    return lo, [a + (n - 1) * s + 1 for a, n, s in zip(lo, out, stride, strict=True)]


@op(where=NN)
def unfold(input: Array, kernel_size: Dims, dilation: Dims = 1, padding: Dims = 0, stride: Dims = 1):
    """Sliding blocks as columns: (N, C, H, W) -> (N, C kH kW, L) (torch.nn.functional.unfold)."""
    told = f"unfold: given input {list(input.shape)}"
    check(input.ndim in (3, 4) and 0 not in input.shape[1 if input.ndim == 4 else 0:],
          f"{told}; Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input")
    kernel, dilation, padding, stride = (pair(v, 2, f"unfold: {w}") for v, w in (
        (kernel_size, "kernel_size"), (dilation, "dilation"), (padding, "padding"), (stride, "stride")))
    batched = input.ndim == 4
    x = input if batched else input[None]
    out = _blocks("unfold", x.shape[2:], kernel, dilation, padding, stride)
    check(min(out) >= 1, f"{told}, kernel_size {list(kernel)}, dilation {list(dilation)}, padding {list(padding)}: calculated shape "
          f"of the array of sliding blocks as {out}, but its components must be at least one.")
    x = jnp.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    parts = []
    for at in np.ndindex(*kernel):
        lo, hi = _window(at, dilation, stride, out)
        parts.append(jax.lax.slice(x, (0, 0, *lo), (*x.shape[:2], *hi), (1, 1, *stride)))
    y = jnp.stack(parts, 2).reshape(x.shape[0], x.shape[1] * len(parts), math.prod(out))
    return y if batched else y[0]


@op(where=NN)
def fold(input: Array, output_size: Dims, kernel_size: Dims, dilation: Dims = 1, padding: Dims = 0, stride: Dims = 1):
    """Columns summed back into an image: (N, C kH kW, L) -> (N, C, H, W), the adjoint of unfold (torch.nn.functional.fold)."""
    told = f"fold: given input {list(input.shape)}"
    check(input.ndim in (2, 3) and 0 not in input.shape[-2:],
          f"{told}; Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input")
    size, kernel, dilation, padding, stride = (pair(v, 2, f"fold: {w}") for v, w in (
        (output_size, "output_size"), (kernel_size, "kernel_size"), (dilation, "dilation"), (padding, "padding"),
        (stride, "stride")))
    batched = input.ndim == 3
    x = input if batched else input[None]
    out = _blocks("fold", size, kernel, dilation, padding, stride)
    taps = math.prod(kernel)
    check(x.shape[1] % taps == 0, f"{told}; Expected size of input's dimension 1 to be divisible by the product of kernel_size "
          f"{list(kernel)}")
    check(min(out) >= 1, f"{told}, output_size={list(size)}: the array of sliding blocks is {out}, but its components must be at "
          "least one")
    check(x.shape[2] == math.prod(out), f"{told}; expected size of input's dimension 2 to match the calculated number of sliding "
          f"blocks {out[0]} * {out[1]} = {math.prod(out)}")
    n, c = x.shape[0], x.shape[1] // taps
    x = x.reshape(n, c, taps, *out)
    y = jnp.zeros((n, c, *(m + 2 * p for m, p in zip(size, padding, strict=True))), x.dtype)
    for t, at in enumerate(np.ndindex(*kernel)):
        lo, hi = _window(at, dilation, stride, out)
        y = y.at[:, :, lo[0]:hi[0]:stride[0], lo[1]:hi[1]:stride[1]].add(x[:, :, t])
    y = y[:, :, padding[0]:padding[0] + size[0], padding[1]:padding[1] + size[1]]
    return y if batched else y[0]

"""Convolutions and transposed convolutions (torch.nn.modules.conv)."""
from __future__ import annotations

import math

from lazy_tensor.nn import functional as F
from lazy_tensor.nn import init
from lazy_tensor.nn.layers._args import empty_parameter, ntuple
from lazy_tensor.nn.module import Module


class _ConvNd(Module):
    """What all convolutions share."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding, groups, bias,
                 padding_mode, device=None, dtype=None):
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string '{padding}', should be one of {{'same', 'valid'}}")
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError("padding_mode must be one of {'zeros', 'reflect', 'replicate', 'circular'}, but got "
                             f"padding_mode='{padding_mode}'")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.padding, self.dilation = kernel_size, stride, padding, dilation
        self.transposed, self.output_padding, self.groups, self.padding_mode = transposed, output_padding, groups, padding_mode
        if padding == "same":
            both = [(d * (k - 1) // 2, d * (k - 1) - d * (k - 1) // 2) for d, k in zip(dilation, kernel_size, strict=True)]
        elif isinstance(padding, str):
            both = [(0, 0)] * len(kernel_size)
        else:
            both = [(p, p) for p in padding]
        self._reversed_padding_repeated_twice = [p for pair in reversed(both) for p in pair]
        shape = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        self.weight = empty_parameter((*shape, *kernel_size), device, dtype)
        if bias:
            self.bias = empty_parameter((out_channels,), device, dtype)
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        """U(-1/sqrt(fan_in), 1/sqrt(fan_in)) for both."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self):
        """The arguments that are not the defaults."""
        s = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        n = len(self.kernel_size)
        if self.padding != (0,) * n:
            s += f", padding={self.padding}"
        if self.dilation != (1,) * n:
            s += f", dilation={self.dilation}"
        if self.output_padding != (0,) * n:
            s += f", output_padding={self.output_padding}"
        if self.groups != 1:
            s += f", groups={self.groups}"
        if self.bias is None:
            s += ", bias=False"
        if self.padding_mode != "zeros":
            s += f", padding_mode={self.padding_mode}"
        return s

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


class _Conv(_ConvNd):
    _n = 0
    _fn = ""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None):
        n = self._n
        super().__init__(in_channels, out_channels, ntuple(kernel_size, n), ntuple(stride, n),
                         padding if isinstance(padding, str) else ntuple(padding, n), ntuple(dilation, n), False, (0,) * n, groups,
                         bias, padding_mode, device, dtype)

    def _conv_forward(self, input, weight, bias):
        conv = getattr(F, self._fn)
        if self.padding_mode != "zeros":
            padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return conv(padded, weight, bias, self.stride, 0, self.dilation, self.groups)
        return conv(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)

    def forward(self, input):
        """The convolution of input (N, C, *) or (C, *)."""
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """1-d convolution of (N, C, L) or (C, L) (torch.nn.Conv1d)."""

    _n, _fn = 1, "conv1d"


class Conv2d(_Conv):
    """2-d convolution of (N, C, H, W) or (C, H, W) (torch.nn.Conv2d)."""

    _n, _fn = 2, "conv2d"


class Conv3d(_Conv):
    """3-d convolution of (N, C, D, H, W) or (C, D, H, W) (torch.nn.Conv3d)."""

    _n, _fn = 3, "conv3d"


class _ConvTransposeNd(_ConvNd):
    _n = 0
    _fn = ""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1,
                 padding_mode="zeros", device=None, dtype=None):
        n = self._n
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(in_channels, out_channels, ntuple(kernel_size, n), ntuple(stride, n), ntuple(padding, n), ntuple(dilation, n),
                         True, ntuple(output_padding, n), groups, bias, padding_mode, device, dtype)

    def _output_padding(self, input, output_size):
        if output_size is None:
            return self.output_padding
        n = self._n
        spatial = input.dim() - n
        if len(output_size) == n + spatial:
            output_size = output_size[spatial:]
        if len(output_size) != n:
            raise ValueError(f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or {n + spatial} elements (got "
                             f"{len(output_size)})")
        low = [(input.size(d + spatial) - 1) * self.stride[d] - 2 * self.padding[d] + self.dilation[d] * (self.kernel_size[d] - 1) + 1
               for d in range(n)]
        high = [m + s - 1 for m, s in zip(low, self.stride, strict=True)]
        if any(not lo <= size <= hi for size, lo, hi in zip(output_size, low, high, strict=True)):
            raise ValueError(f"requested an output size of {output_size}, but valid sizes range from {low} to {high} (for an input of "
                             f"{input.size()[2:]})")
        return tuple(s - m for s, m in zip(output_size, low, strict=True))

    def forward(self, input, output_size=None):
        """The transposed convolution; `output_size` picks among the sizes that a stride allows."""
        padding = self._output_padding(input, output_size)
        return getattr(F, self._fn)(input, self.weight, self.bias, self.stride, self.padding, padding, self.groups, self.dilation)


class ConvTranspose1d(_ConvTransposeNd):
    """1-d transposed convolution (torch.nn.ConvTranspose1d)."""

    _n, _fn = 1, "conv_transpose1d"


class ConvTranspose2d(_ConvTransposeNd):
    """2-d transposed convolution (torch.nn.ConvTranspose2d)."""

    _n, _fn = 2, "conv_transpose2d"


class ConvTranspose3d(_ConvTransposeNd):
    """3-d transposed convolution (torch.nn.ConvTranspose3d)."""

    _n, _fn = 3, "conv_transpose3d"

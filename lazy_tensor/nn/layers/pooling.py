"""Pools (torch.nn.modules.pooling)."""
from __future__ import annotations

from lazy_tensor.nn import functional as F
from lazy_tensor.nn.layers._args import ntuple
from lazy_tensor.nn.layers._plain import _REQUIRED, Plain
from lazy_tensor.nn.module import Module


class _MaxPoolNd(Plain):
    _fields = dict(kernel_size=_REQUIRED, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if self.stride is None:
            self.stride = self.kernel_size

    def extra_repr(self):
        """The window."""
        return (f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
                f"ceil_mode={self.ceil_mode}")


class MaxPool1d(_MaxPoolNd):
    """Maximum over windows of (N, C, L) (torch.nn.MaxPool1d)."""

    _fn = "max_pool1d"


class MaxPool2d(_MaxPoolNd):
    """Maximum over windows of (N, C, H, W) (torch.nn.MaxPool2d)."""

    _fn = "max_pool2d"


class MaxPool3d(_MaxPoolNd):
    """Maximum over windows of (N, C, D, H, W) (torch.nn.MaxPool3d)."""

    _fn = "max_pool3d"


class _MaxUnpoolNd(Module):
    _n = 0

    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        self.kernel_size = ntuple(kernel_size, self._n)
        self.stride = ntuple(stride if stride is not None else kernel_size, self._n)
        self.padding = ntuple(padding, self._n)

    def forward(self, input, indices, output_size=None):
        """The pool's partial inverse: input's values at `indices`, zero elsewhere."""
        return getattr(F, f"max_unpool{self._n}d")(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self):
        """The window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Partial inverse of MaxPool1d (torch.nn.MaxUnpool1d)."""

    _n = 1


class MaxUnpool2d(_MaxUnpoolNd):
    """Partial inverse of MaxPool2d (torch.nn.MaxUnpool2d)."""

    _n = 2


class MaxUnpool3d(_MaxUnpoolNd):
    """Partial inverse of MaxPool3d (torch.nn.MaxUnpool3d)."""

    _n = 3


class AvgPool1d(Module):
    """Mean over windows of (N, C, L) (torch.nn.AvgPool1d)."""

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
        super().__init__()
        self.kernel_size = ntuple(kernel_size, 1)
        self.stride = ntuple(stride if stride is not None else kernel_size, 1)
        self.padding = ntuple(padding, 1)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input):
        """F.avg_pool1d."""
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self):
        """The window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPoolNd(Plain):
    _fields = dict(kernel_size=_REQUIRED, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None)
    _shown = ("kernel_size", "stride", "padding")

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if self.stride is None:
            self.stride = self.kernel_size


class AvgPool2d(_AvgPoolNd):
    """Mean over windows of (N, C, H, W) (torch.nn.AvgPool2d)."""

    _fn = "avg_pool2d"


class AvgPool3d(_AvgPoolNd):
    """Mean over windows of (N, C, D, H, W) (torch.nn.AvgPool3d)."""

    _fn = "avg_pool3d"


class _FractionalMaxPoolNd(Module):
    _n = 0

    def __init__(self, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
        super().__init__()
        n = self._n
        self.kernel_size = ntuple(kernel_size, n)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else ntuple(output_size, n)
        self.output_ratio = None if output_ratio is None else ntuple(output_ratio, n)
        if output_size is None and output_ratio is None:
            raise ValueError(f"FractionalMaxPool{n}d requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input):
        """Maximum over pseudo-random windows."""
        return getattr(F, f"fractional_max_pool{self._n}d")(input, self.kernel_size, self.output_size, self.output_ratio,
                                                            self.return_indices, _random_samples=self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Fractional max pooling (Graham 2014; torch.nn.FractionalMaxPool2d)."""

    _n = 2


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Fractional max pooling in 3-d (torch.nn.FractionalMaxPool3d)."""

    _n = 3


class _LPPoolNd(Plain):
    _fields = dict(norm_type=_REQUIRED, kernel_size=_REQUIRED, stride=None, ceil_mode=False)

    def forward(self, input):
        """The p-norm of windows."""
        return getattr(F, self._fn)(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_LPPoolNd):
    """p-norm of windows of (N, C, L) (torch.nn.LPPool1d)."""

    _fn = "lp_pool1d"


class LPPool2d(_LPPoolNd):
    """p-norm of windows of (N, C, H, W) (torch.nn.LPPool2d)."""

    _fn = "lp_pool2d"


class LPPool3d(_LPPoolNd):
    """p-norm of windows of (N, C, D, H, W) (torch.nn.LPPool3d)."""

    _fn = "lp_pool3d"


class _AdaptiveMaxPoolNd(Plain):
    _fields = dict(output_size=_REQUIRED, return_indices=False)
    _shown = ("output_size",)


class _AdaptiveAvgPoolNd(Plain):
    _fields = dict(output_size=_REQUIRED)


def _adaptive(base, kind, n):
    name = f"Adaptive{kind}Pool{n}d"
    doc = f"{kind} over windows that give a fixed output size in {n} dimension(s) (torch.nn.{name})."
    return type(name, (base,), {"_fn": f"adaptive_{kind.lower()}_pool{n}d", "__doc__": doc, "__module__": __name__})


AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = (_adaptive(_AdaptiveMaxPoolNd, "Max", n) for n in (1, 2, 3))
AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d = (_adaptive(_AdaptiveAvgPoolNd, "Avg", n) for n in (1, 2, 3))

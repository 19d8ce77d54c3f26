"""Shapes, folds, upsampling, shuffles, distances (torch.nn.modules.flatten, fold, upsampling, pixelshuffle, channelshuffle, distance)."""
from __future__ import annotations

from lazy_tensor.nn import functional as F
from lazy_tensor.nn.layers._plain import _REQUIRED, Plain
from lazy_tensor.nn.module import Module


class Flatten(Plain):
    """Dimensions start_dim to end_dim as one (torch.nn.Flatten)."""

    _fields = dict(start_dim=1, end_dim=-1)

    def forward(self, input):
        """input.flatten."""
        return input.flatten(self.start_dim, self.end_dim)


class Unflatten(Module):
    """One dimension as several (torch.nn.Unflatten)."""

    def __init__(self, dim, unflattened_size):
        super().__init__()
        if isinstance(dim, str):
            raise TypeError("Unflatten: named dimensions are not supported; an int dim would fit")
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}")
        for i, e in enumerate(unflattened_size):
            if not isinstance(e, int):
                raise TypeError(f"unflattened_size must be tuple of ints, but found element of type {type(e).__name__} at pos {i}")
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input):
        """input.unflatten."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self):
        """The arguments."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Fold(Plain):
    """Sums sliding blocks into images (torch.nn.Fold)."""

    _fields = dict(output_size=_REQUIRED, kernel_size=_REQUIRED, dilation=1, padding=0, stride=1)
    _fn = "fold"


class Unfold(Plain):
    """Sliding blocks of images as columns (torch.nn.Unfold)."""

    _fields = dict(kernel_size=_REQUIRED, dilation=1, padding=0, stride=1)
    _fn = "unfold"


class Upsample(Module):
    """Resizes the spatial dimensions (torch.nn.Upsample)."""

    def __init__(self, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None):
        super().__init__()
        self.name = type(self).__name__
        self.size, self.mode, self.align_corners = size, mode, align_corners
        self.scale_factor = (tuple(float(f) for f in scale_factor) if isinstance(scale_factor, (tuple, list))
                             else float(scale_factor) if scale_factor else None)
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input):
        """F.interpolate."""
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners,
                             recompute_scale_factor=self.recompute_scale_factor)

    def extra_repr(self):
        """Size or factor, and mode."""
        head = f"scale_factor={self.scale_factor!r}" if self.scale_factor is not None else f"size={self.size!r}"
        return f"{head}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Nearest-neighbour upsampling of (N, C, H, W) (torch.nn.UpsamplingNearest2d)."""

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Bilinear upsampling, corners aligned (torch.nn.UpsamplingBilinear2d)."""

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class PixelShuffle(Plain):
    """(*, C r^2, H, W) to (*, C, H r, W r) (torch.nn.PixelShuffle)."""

    _fields = dict(upscale_factor=_REQUIRED)
    _fn = "pixel_shuffle"


class PixelUnshuffle(Plain):
    """The inverse of PixelShuffle (torch.nn.PixelUnshuffle)."""

    _fields = dict(downscale_factor=_REQUIRED)
    _fn = "pixel_unshuffle"


class ChannelShuffle(Plain):
    """Channels of g groups interleaved (torch.nn.ChannelShuffle)."""

    _fields = dict(groups=_REQUIRED)
    _fn = "channel_shuffle"


class PairwiseDistance(Plain):
    """||x1 - x2 + eps||_p over the last dimension (torch.nn.PairwiseDistance)."""

    _fields = dict(p=2.0, eps=1e-6, keepdim=False)
    _shown = ()

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.norm = self.__dict__.pop("p")

    def forward(self, x1, x2):
        """F.pairwise_distance."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Plain):
    """x1 x2 / (||x1|| ||x2||) along dim (torch.nn.CosineSimilarity)."""

    _fields = dict(dim=1, eps=1e-8)
    _shown = ()

    def forward(self, x1, x2):
        """F.cosine_similarity."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)

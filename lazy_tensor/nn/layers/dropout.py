"""Dropout layers (torch.nn.modules.dropout)."""
from __future__ import annotations

from lazy_tensor.nn import functional as F
from lazy_tensor.nn.module import Module


class _DropoutNd(Module):
    _fn = ""

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def extra_repr(self):
        """p and inplace."""
        return f"p={self.p}, inplace={self.inplace}"

    def forward(self, input):
        """Random zeros in training mode, the input in evaluation mode."""
        return getattr(F, self._fn)(input, self.p, self.training, self.inplace)


class Dropout(_DropoutNd):
    """Elements are zeroed with probability p, the others scaled by 1/(1-p) (torch.nn.Dropout)."""

    def forward(self, input):
        """Random zeros in training mode, the input in evaluation mode."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Whole channels of (N, C, L) are zeroed (torch.nn.Dropout1d)."""

    _fn = "dropout1d"


class Dropout2d(_DropoutNd):
    """Whole channels of (N, C, H, W) are zeroed (torch.nn.Dropout2d)."""

    _fn = "dropout2d"


class Dropout3d(_DropoutNd):
    """Whole channels of (N, C, D, H, W) are zeroed (torch.nn.Dropout3d)."""

    _fn = "dropout3d"


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance for SELU (torch.nn.AlphaDropout)."""

    _fn = "alpha_dropout"

    def forward(self, input):
        """F.alpha_dropout."""
        return getattr(F, self._fn)(input, self.p, self.training)


class FeatureAlphaDropout(AlphaDropout):
    """Alpha dropout of whole channels (torch.nn.FeatureAlphaDropout)."""

    _fn = "feature_alpha_dropout"

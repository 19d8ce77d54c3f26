"""torch.version: this library's version; no CUDA, no ROCm."""
from __future__ import annotations

from lazy_tensor import __version__

debug = False
cuda = None
hip = None
xpu = None
git_version = "unknown"
__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

"""torch.backends: switches of libraries that are not under this one, kept so that scripts can set and read them.

XLA picks its own kernels. The switches that mean something here do it: `cuda.matmul.allow_tf32` and
`cudnn.allow_tf32` are the float32 precision of `lt.set_float32_matmul_precision`.
"""
from __future__ import annotations

from . import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp, opt_einsum

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]

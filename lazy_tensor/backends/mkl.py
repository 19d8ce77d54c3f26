"""torch.backends.mkl: Intel's MKL is not called."""
from __future__ import annotations


def is_available() -> bool:
    """False."""
    return False

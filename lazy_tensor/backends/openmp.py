"""torch.backends.openmp: XLA has its own threads."""
from __future__ import annotations


def is_available() -> bool:
    """False."""
    return False

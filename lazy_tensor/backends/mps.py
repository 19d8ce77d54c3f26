"""torch.backends.mps: Apple's GPUs are not XLA devices here."""
from __future__ import annotations


def is_available() -> bool:
    """False."""
    return False


def is_built() -> bool:
    """False."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Whether this is macOS of that version or later."""
    import platform
    parts = platform.mac_ver()[0].split(".")
    return bool(parts[0]) and tuple(map(int, parts[:2])) >= (major, minor)

"""torch.backends.cpu: the host's vector instructions."""
from __future__ import annotations

import functools
import platform


@functools.cache
def get_cpu_capability() -> str:
    """"AVX512", "AVX2", "NEON" or "DEFAULT", from what the system tells."""
    if platform.machine() in ("arm64", "aarch64"):
        return "NEON"
    try:
        with open("/proc/cpuinfo") as f:
            flags = next((line for line in f if line.startswith("flags")), "")
    except OSError:
        return "DEFAULT"
    return "AVX512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "DEFAULT"

"""torch.autograd.profiler: the older form of `lazy_tensor.profiler`."""
from __future__ import annotations

import contextlib

from lazy_tensor.profiler import profile as _profile
from lazy_tensor.profiler import record_function

__all__ = ["emit_nvtx", "profile", "record_function"]


class profile(_profile):
    """Profiles a block; nothing with enabled=False. use_cuda and the other switches are accepted, see `lt.profiler.profile`."""

    def __init__(self, enabled=True, *, use_cuda=False, use_device=None, record_shapes=False, with_flops=False, profile_memory=False,
                 with_stack=False, with_modules=False, use_kineto=False, use_cpu=True, **kwargs):
        super().__init__()
        self.enabled = enabled

    def __enter__(self):
        return super().__enter__() if self.enabled else self

    def table(self, *args, **kwargs):
        """The rows as text."""
        return self.key_averages().table(*args, **kwargs)


@contextlib.contextmanager
def emit_nvtx(enabled=True, record_shapes=False):
    """A block whose ops appear in NVTX: nothing, jax's traces hold them."""
    yield

"""torch_xla._internal.jax_workarounds: using jax beside tensors. Here jax is the machine itself, so little is left to work around."""
from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable


def jax_import_guard() -> None:
    """Open the XLA devices, which jax and this library share."""
    from xla_backend import runtime
    runtime.xla_devices()


@contextlib.contextmanager
def jax_env_context():
    """Within it SKIP_MEGASCALE_PJRT_CLIENT is set, as torch_xla does around calls of jax."""
    name = "SKIP_MEGASCALE_PJRT_CLIENT"
    before = os.environ.get(name)
    os.environ[name] = "true"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


def requires_jax(func: Callable) -> Callable:
    """A decorator: func with the devices open, within `jax_env_context`."""
    @functools.wraps(func)
    def call(*args, **kwargs):
        jax_import_guard()
        with jax_env_context():
            return func(*args, **kwargs)
    return call

"""The one place that touches what jax does not publish; tried on jax 0.10.2 and 0.12.0.

`dce_jaxpr` lives in `jax.interpreters.partial_eval`, which jax keeps importable without promising it.
`make_cache_writes_atomic` mends `jax._src.lru_cache.LRUCache.put`, which (0.10.2, 0.12.0, no size limit) writes in
place: a second process may read half an entry, and one killed while writing leaves half an entry for good.
"""
from __future__ import annotations

import os
import tempfile

import jax

_TRIED = ((0, 10), (0, 12))


def _version():
    return tuple(int(p) for p in jax.__version__.split(".")[:2])


if not _TRIED[0] <= _version() <= _TRIED[1]:
    raise ImportError(
        f"xla_backend works with jax 0.10 to 0.12; this is jax {jax.__version__}. "
        "Install one that fits: pip install 'jax>=0.10,<0.13'")

from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun  # noqa: E402
from jax.interpreters.partial_eval import dce_jaxpr  # noqa: E402

x64 = jax.enable_x64


def sub_jaxpr(jaxpr, consts, eqns, invars, outvars):
    """A closed jaxpr of some of another's equations."""
    return ClosedJaxpr(jaxpr.replace(invars=list(invars), outvars=list(outvars), eqns=list(eqns),
                                     debug_info=jaxpr.debug_info.with_unknown_names()), consts)


def make_cache_writes_atomic() -> bool:
    """Have jax's persistent cache write entries to a temporary file and rename it; False where jax differs."""
    try:
        from jax._src.lru_cache import LRUCache
        inner = LRUCache.put
    except (ImportError, AttributeError):
        return False
    if getattr(inner, "_atomic", False):
        return True

    def put(self, key, value):
        if getattr(self, "eviction_enabled", True):
            return inner(self, key, value)  # under jax's own lock
        target = os.fspath(self.path / f"{key}-cache")
        if os.path.exists(target):
            return None
        handle, name = tempfile.mkstemp(dir=os.fspath(self.path), prefix=".writing-")
        try:
            with os.fdopen(handle, "wb") as f:
                f.write(value)
            os.replace(name, target)
        except BaseException:
            os.unlink(name)
            raise
        return None

    put.__dict__["_atomic"] = True
    setattr(LRUCache, "put", put)  # noqa: B010
    return True


__all__ = ["ClosedJaxpr", "Literal", "jaxpr_as_fun", "dce_jaxpr", "make_cache_writes_atomic", "sub_jaxpr", "x64"]

"""The one place that touches what jax does not publish; tried on jax 0.10.2 and 0.12.0.

`dce_jaxpr` lives in `jax.interpreters.partial_eval`, which jax keeps importable without promising it.
`make_cache_writes_atomic` mends `jax._src.lru_cache.LRUCache.put`, which (0.10.2, 0.12.0, no size limit) writes in
place: a second process may read half an entry, and one killed while writing leaves half an entry for good.
`cluster`, `serve` and `connect` are `jax.distributed.initialize` in parts (0.10.2, 0.12.0): jax's own keeps the key-value store
to itself, and has process 0 serve it. When the coordinator dies jax ends every process without a line of the user's, and its
callback for that ends in std::bad_cast, so the launcher serves it rather than a worker that may fail.
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


def serve(address, count, timeout, quiet):
    """Start the coordinator of `count` processes at `address`, bound to that alone; it lives as long as the result is kept."""
    from jax._src.lib import _jax
    return _jax.get_distributed_runtime_service(address, count, heartbeat_timeout=quiet, cluster_register_timeout=timeout,
                                                shutdown_timeout=quiet, recoverable=True)


def connect(address, index, count, timeout, quiet, start):
    """Join the processes at the coordinator `address` (process 0 starts it, if `start`); returns the client of its key-value store.

    timeout: seconds until all have come; quiet: seconds of silence after which jax itself ends a process."""
    from jax._src.distributed import global_state
    from jax._src.lib import _jax
    if global_state.client is not None:
        raise RuntimeError("jax.distributed is initialized already; let xla_backend do it")
    if index == 0 and start:
        global_state.service = serve(address, count, timeout, quiet)
    client = _jax.get_distributed_runtime_client(address, index, init_timeout=timeout, shutdown_timeout=quiet, heartbeat_timeout=quiet,
                                                 shutdown_on_destruction=False, use_compression=True)
    client.connect()
    global_state.client, global_state.process_id, global_state.num_processes = client, index, count
    global_state.coordinator_address = address
    return client


def cluster():
    """(coordinator address, processes, this one's index) where jax finds itself in a cluster (SLURM, Open MPI, GKE, ...), else None."""
    from jax._src.clusters import ClusterEnv
    if not any(not env.opt_in_only_method and env.is_env_present() for env in ClusterEnv._cluster_types):
        return None
    address, count, index, _ = ClusterEnv.auto_detect_unset_distributed_params(None, None, None, None, None, 300)
    return None if address is None or count is None or index is None else (address, count, index)


__all__ = ["ClosedJaxpr", "Literal", "cluster", "connect", "jaxpr_as_fun", "dce_jaxpr", "make_cache_writes_atomic", "serve", "sub_jaxpr", "x64"]

"""The one place that touches what jax does not publish; tried on jax 0.10.2 and 0.12.0.

`dce_jaxpr` lives in `jax.interpreters.partial_eval`, which jax keeps importable without promising it.
"""
from __future__ import annotations

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


__all__ = ["ClosedJaxpr", "Literal", "jaxpr_as_fun", "dce_jaxpr", "sub_jaxpr", "x64"]

"""torch_xla.utils.checkpoint: `lazy_tensor.utils.checkpoint`, whose recomputation XLA does not merge away either."""
from __future__ import annotations


def checkpoint(function, *args, use_reentrant: bool = True, **kwargs):
    """function(*args), computed again in backward instead of kept (see lazy_tensor.utils.checkpoint.checkpoint)."""
    from lazy_tensor.utils.checkpoint import checkpoint as inner
    return inner(function, *args, use_reentrant=use_reentrant, **kwargs)

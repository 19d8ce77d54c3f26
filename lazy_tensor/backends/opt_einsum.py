"""torch.backends.opt_einsum: einsum's contraction paths are jax's, which asks opt_einsum itself."""
from __future__ import annotations

from lazy_tensor.backends._flags import switches


def is_available() -> bool:
    """True: jax depends on opt_einsum."""
    return True


switches(__name__, enabled=True, strategy="auto")

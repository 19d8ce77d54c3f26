"""Parameters as one vector and back (torch.nn.utils.convert_parameters)."""
from __future__ import annotations

import math

import lazy_tensor as lt


def parameters_to_vector(parameters):
    """All parameters, flattened, as one vector."""
    return lt.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec, parameters):
    """Give each parameter its slice of vec."""
    if not isinstance(vec, lt.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    at = 0
    for p in parameters:
        n = math.prod(p.shape)
        p.data = vec[at:at + n].reshape(p.shape).detach().clone()
        at += n

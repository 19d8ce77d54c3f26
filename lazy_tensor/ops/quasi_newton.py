"""The linear algebra of quasi-Newton optimizers, as one op."""
from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from lazy_tensor.ops._define import op


@op(where=None, name="lbfgs_direction", differentiable=False)
def direction(grad: Array, dirs: Arrays, steps: Arrays, ro: Array, diag: Scalar):
    """(descent direction, weights) by the L-BFGS two-loop recursion (Nocedal and Wright, algorithm 7.4): gradient (n), k pairs
    of gradient and parameter differences (n) each, 1 / (y . s) (k), the initial inverse Hessian's diagonal."""
    y, s = jnp.stack(dirs), jnp.stack(steps)

    def first(q, row):
        y, s, r = row
        a = jnp.dot(s, q) * r
        return q - y * a, a

    def second(d, row):
        y, s, r, a = row
        return d + s * (a - jnp.dot(y, d) * r), None
    q, al = lax.scan(first, -grad, (y, s, ro), reverse=True)
    d, _ = lax.scan(second, q * diag.astype(q.dtype), (y, s, ro, al))
    return d, al

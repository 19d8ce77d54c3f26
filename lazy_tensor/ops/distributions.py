"""Draws that torch.distributions needs: private ops whose device and dtype are an input's."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._define import op


def _compute(dtype):
    """float32 at least, float64 for float64."""
    return np.dtype(np.float64) if np.dtype(dtype) == np.float64 else np.dtype(np.float32)


@op(where=None, differentiable=False)
def draw_uniform(like: Array, shape: Dims, *, key: Key):
    """Uniform numbers in (0, 1), both ends left out, in like's dtype."""
    d = _compute(like.dtype)
    return jax.random.uniform(key, shape, d, minval=float(jnp.finfo(d).tiny), maxval=1.0).astype(like.dtype)


@op(where=None, differentiable=False)
def draw_normal(like: Array, shape: Dims, *, key: Key):
    """Standard normal numbers in like's dtype."""
    return jax.random.normal(key, shape, _compute(like.dtype)).astype(like.dtype)


@op(where=None, differentiable=False)
def draw_exponential(like: Array, shape: Dims, *, key: Key):
    """Standard exponential numbers in like's dtype."""
    return jax.random.exponential(key, shape, _compute(like.dtype)).astype(like.dtype)


@op(where=None)
def draw_gamma(concentration: Array, shape: Dims, *, key: Key):
    """Standard gamma numbers; the gradient with respect to concentration is the implicit one (Figurnov and others, 2018)."""
    a = jnp.broadcast_to(concentration, shape).astype(_compute(concentration.dtype))
    x = jax.random.gamma(key, a, shape, a.dtype)
    return jnp.maximum(x, float(jnp.finfo(concentration.dtype).tiny)).astype(concentration.dtype)


@op(where=None)
def draw_dirichlet(concentration: Array, shape: Dims, *, key: Key):
    """Dirichlet numbers from gamma ones in logarithms, reparameterised; shape ends in concentration's last dimension."""
    a = jnp.broadcast_to(concentration, shape).astype(_compute(concentration.dtype))
    return jax.nn.softmax(jax.random.loggamma(key, a, shape, a.dtype), axis=-1).astype(concentration.dtype)


@op(where=None, differentiable=False)
def draw_poisson(rate: Array, shape: Dims, *, key: Key):
    """Poisson numbers in rate's dtype."""
    return jax.random.poisson(key, jnp.broadcast_to(rate, shape), shape, np.int64).astype(rate.dtype)


@op(where=None, differentiable=False)
def draw_binomial(count: Array, probs: Array, shape: Dims, *, key: Key):
    """Binomial numbers in probs's dtype."""
    d = _compute(probs.dtype)
    x = jax.random.binomial(key, jnp.broadcast_to(count, shape).astype(d), jnp.broadcast_to(probs, shape).astype(d), shape, d)
    return x.astype(probs.dtype)


@op(where=None, differentiable=False)
def draw_bernoulli(probs: Array, shape: Dims, *, key: Key):
    """0 and 1 in probs's dtype."""
    return jax.random.bernoulli(key, jnp.broadcast_to(probs, shape), shape).astype(probs.dtype)


@op(where=None, differentiable=False)
def draw_categorical(logits: Array, shape: Dims, *, key: Key):
    """int64 indices into logits's last dimension; shape is that of the result, ending in logits's leading dimensions."""
    return jax.random.categorical(key, logits, axis=-1, shape=shape).astype(np.int64)


@op(where=None, differentiable=False)
def draw_von_mises(loc: Array, concentration: Array, shape: Dims, *, key: Key):
    """von Mises draws by Best and Fisher's rejection from a wrapped Cauchy, all elements until each has one."""
    c = _compute(concentration.dtype)
    k = jnp.broadcast_to(concentration.astype(c), shape)
    root = jnp.sqrt(1 + 4 * k * k)
    tau = 1 + root
    rho = (tau - jnp.sqrt(2 * tau)) / (2 * k)
    r = jnp.where(k < 1e-3, 1 / k + k, (1 + rho * rho) / (2 * rho))  # the difference in rho cancels for small k

    def step(state):
        key, x, done = state
        key, now = jax.random.split(key)
        u = jax.random.uniform(now, (3, *shape), c, jnp.finfo(c).tiny, 1.0)
        z = jnp.cos(jnp.pi * u[0])
        f = jnp.clip((1 + r * z) / (r + z), -1.0, 1.0)
        w = k * (r - f)
        good = (w * (2 - w) > u[1]) | (jnp.log(w / u[1]) + 1 - w >= 0)
        return key, jnp.where(done | ~good, x, jnp.sign(u[2] - 0.5) * jnp.arccos(f)), done | good
    x = jax.lax.while_loop(lambda s: ~jnp.all(s[2]), step, (key, jnp.zeros(shape, c), jnp.zeros(shape, bool)))[1]
    x = jnp.mod(x + jnp.pi + loc.astype(c), 2 * jnp.pi) - jnp.pi
    return x.astype(concentration.dtype)

"""Function transforms beside the same in plain jax.jit, warm, timed in turn; traces and compiles of a second call; tracing time.

    python scripts/bench/functional.py            # hessian ntk persample maml ensemble
"""
from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import common
import jax
import jax.numpy as jnp
import numpy as np

import lazy_tensor as lt
from lazy_tensor import func
from xla_backend import metrics

R = np.random.default_rng(0)


def layers(*sizes):
    """Weights of a tanh network as [(w, b), ...] of NumPy arrays."""
    return [(R.standard_normal((i, o)).astype(np.float32) / i ** 0.5, np.zeros(o, np.float32)) for i, o in zip(sizes, sizes[1:])]


def network(tanh):
    def f(params, x):
        for k, (w, b) in enumerate(params):
            x = x @ w + b
            x = tanh(x) if k < len(params) - 1 else x
        return x
    return f


def both(arrays):
    """The same nested arrays for each library."""
    return ([(lt.from_numpy(w).to("xla"), lt.from_numpy(b).to("xla")) for w, b in arrays],
            [(jnp.asarray(w), jnp.asarray(b)) for w, b in arrays])


OURS, HAND = network(lt.tanh), network(jnp.tanh)


def hessian():
    """The Hessian of a scalar network by its 256 inputs."""
    p, q = both(layers(256, 1024, 1024, 1))
    x = R.standard_normal(256).astype(np.float32)
    return (lambda p, x: func.hessian(lambda x: OURS(p, x)[0])(x), (p, lt.from_numpy(x).to("xla")),
            lambda q, x: jax.hessian(lambda x: HAND(q, x)[0])(x), (q, jnp.asarray(x)))


def ntk():
    """J J^T over parameters for 96 inputs."""
    p, q = both(layers(32, 256, 256, 1))
    x = R.standard_normal((96, 32)).astype(np.float32)

    def ours(p, x):
        j = func.vmap(func.jacrev(lambda p, x: OURS(p, x)[0]), in_dims=(None, 0))(p, x)
        return sum(a.flatten(1) @ a.flatten(1).T for layer in j for a in layer)

    def hand(q, x):
        j = jax.vmap(jax.jacrev(lambda q, x: HAND(q, x)[0]), (None, 0))(q, x)
        return sum(a.reshape(96, -1) @ a.reshape(96, -1).T for layer in j for a in layer)
    return ours, (p, lt.from_numpy(x).to("xla")), hand, (q, jnp.asarray(x))


def persample():
    """The norm of each of 128 examples' gradients."""
    p, q = both(layers(64, 256, 256, 10))
    x, y = R.standard_normal((128, 64)).astype(np.float32), R.standard_normal((128, 10)).astype(np.float32)

    def ours(p, x, y):
        g = func.vmap(func.grad(lambda p, x, y: ((OURS(p, x) - y) ** 2).mean()), in_dims=(None, 0, 0))(p, x, y)
        return sum((a ** 2).flatten(1).sum(1) for layer in g for a in layer)

    def hand(q, x, y):
        g = jax.vmap(jax.grad(lambda q, x, y: ((HAND(q, x) - y) ** 2).mean()), (None, 0, 0))(q, x, y)
        return sum((a ** 2).reshape(128, -1).sum(1) for layer in g for a in layer)
    return ours, (p, lt.from_numpy(x).to("xla"), lt.from_numpy(y).to("xla")), hand, (q, jnp.asarray(x), jnp.asarray(y))


def maml():
    """The outer gradient of MAML over 32 tasks of 64 examples, through one inner step."""
    p, q = both(layers(16, 128, 128, 1))
    x = [R.standard_normal((32, 64, 16)).astype(np.float32) for _ in range(2)]
    y = [R.standard_normal((32, 64, 1)).astype(np.float32) for _ in range(2)]

    def step(net, grad, vmap, mean):
        def mse(p, x, y):
            return mean((net(p, x) - y) ** 2)

        def adapted(p, x1, y1, x2, y2):
            g = grad(mse)(p, x1, y1)
            return mse([(w - 0.01 * a, b - 0.01 * c) for (w, b), (a, c) in zip(p, g)], x2, y2)
        return lambda p, *data: grad(lambda p: mean(vmap(adapted, (None, 0, 0, 0, 0))(p, *data)))(p)[0][0]
    data = (x[0], y[0], x[1], y[1])
    return (step(OURS, func.grad, func.vmap, lambda t: t.mean()), (p, *[lt.from_numpy(d).to("xla") for d in data]),
            step(HAND, jax.grad, jax.vmap, jnp.mean), (q, *map(jnp.asarray, data)))


def ensemble():
    """1,000 models on one batch."""
    a = [(R.standard_normal((1000, i, o)).astype(np.float32) / i ** 0.5, np.zeros((1000, o), np.float32)) for i, o in ((16, 64), (64, 1))]
    p, q = both(a)
    x = R.standard_normal((64, 16)).astype(np.float32)
    return (lambda p, x: func.vmap(OURS, in_dims=(0, None))(p, x), (p, lt.from_numpy(x).to("xla")),
            lambda q, x: jax.vmap(HAND, (0, None))(q, x), (q, jnp.asarray(x)))


ALL = {"hessian": hessian, "ntk": ntk, "persample": persample, "maml": maml, "ensemble": ensemble}


def main():
    print(common.machine())
    for name in sys.argv[1:] or ALL:
        ours, a, hand, b = ALL[name]()
        start = metrics.counter("programs")
        r = ours(*a)
        lt.sync(wait=True)
        programs = metrics.counter("programs") - start
        t = time.perf_counter()
        jitted = jax.jit(hand)
        jitted.trace(*b)
        tracing = time.perf_counter() - t
        s = jitted(*b)
        same = np.allclose(r.detach().cpu().numpy(), np.asarray(s), rtol=2e-3, atol=2e-4)
        before = metrics.counter("traces"), metrics.counter("compiles")
        r = ours(*a)
        lt.sync(wait=True)
        again = metrics.counter("traces") - before[0], metrics.counter("compiles") - before[1]
        captured = lt.compile(ours)

        def run(f):
            def step():
                r = f(*a)  # held: what nobody holds is not computed
                lt.sync()
                jax.block_until_ready(r._v.data)
            return step

        def by_hand():
            jax.block_until_ready(jitted(*b))
        for _ in range(4):
            run(captured)()
        x, y, ratio = common.interleaved(run(ours), by_hand, 25)
        x2, y2, ratio2 = common.interleaved(run(captured), by_hand, 25)
        print(f"{name:10} ours / jax.jit (ms) {1e3 * x:8.2f} / {1e3 * y:8.2f} = {ratio:.2f}   captured {1e3 * x2:8.2f} = {ratio2:.2f}  <= 1.10   "
              f"programs {programs}, again traces {again[0]} compiles {again[1]}, jax traces in {1e3 * tracing:.0f} ms, equal {same}", flush=True)


if __name__ == "__main__":
    main()

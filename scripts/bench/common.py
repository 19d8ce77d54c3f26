"""What the benchmarks share: timing in pairs, the machine's description, the GPT step in both libraries."""
from __future__ import annotations

import os
import platform
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np


def machine() -> str:
    """One line on the machine and the versions."""
    name = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if "model name" in line), platform.processor()) \
        if os.path.exists("/proc/cpuinfo") else platform.processor()
    return (f"{os.cpu_count()} cores ({name}), Python {platform.python_version()}, jax {jax.__version__}, "
            f"{jax.devices()[0].device_kind}")


def interleaved(a, b, n=40, warm=5):
    """Median seconds of a() and b(), and the median of the ratios a/b, timed in turn."""
    for _ in range(warm):
        a()
        b()
    ta, tb = [], []
    for i in range(n):
        for f, ts in ((a, ta), (b, tb)) if i % 2 else ((b, tb), (a, ta)):
            t = time.perf_counter()
            f()
            ts.append(time.perf_counter() - t)
    return statistics.median(ta), statistics.median(tb), statistics.median(x / y for x, y in zip(ta, tb))


class Shape:
    """Sizes of the benchmark's GPT."""

    def __init__(self, layers=8, width=128, heads=4, context=64, batch=8, vocabulary=96, dropout=0.1):
        self.layers, self.width, self.heads, self.context = layers, width, heads, context
        self.batch, self.vocabulary, self.dropout = batch, vocabulary, dropout


def batches(s, n=16, seed=0):
    """n pairs of int64 arrays (batch, context)."""
    r = np.random.default_rng(seed)
    return [(r.integers(0, s.vocabulary, (s.batch, s.context)), r.integers(0, s.vocabulary, (s.batch, s.context))) for _ in range(n)]


def lazy_step(s, device="xla", read=True, parts=False):
    """The step as a PyTorch user writes it; returns (step(i) -> loss, model), and the optimizer with `parts`."""
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import train_gpt

    import lazy_tensor as torch

    torch.manual_seed(0)
    model = train_gpt.GPT(s.vocabulary, s.context, s.width, s.layers, s.heads, s.dropout).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10_000)
    data = batches(s)

    def step(i):
        x, y = data[i % len(data)]
        x, y = torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)
        optimizer.zero_grad()
        loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        return loss.item() if read else loss
    return (step, model, optimizer) if parts else (step, model)


def jax_init(s, seed=0):
    """Parameters of the same GPT as a dict."""
    r = np.random.default_rng(seed)

    def n(*shape):
        return jnp.asarray(0.02 * r.standard_normal(shape), jnp.float32)
    w = s.width
    ones, zeros = (lambda *k: jnp.ones(k, jnp.float32)), (lambda *k: jnp.zeros(k, jnp.float32))
    return {"tok": n(s.vocabulary, w), "pos": n(s.context, w), "ng": ones(w), "nb": zeros(w),
            "blocks": [{"n1g": ones(w), "n1b": zeros(w), "qkv": n(3 * w, w), "qkvb": zeros(3 * w), "o": n(w, w), "ob": zeros(w),
                        "n2g": ones(w), "n2b": zeros(w), "u": n(4 * w, w), "ub": zeros(4 * w), "d": n(w, 4 * w), "db": zeros(w)}
                       for _ in range(s.layers)]}


def jax_loss(s, p, x, y, key):
    """The same loss by hand."""
    def norm(x, g, b):
        m = x.mean(-1, keepdims=True)
        v = ((x - m) ** 2).mean(-1, keepdims=True)
        return (x - m) * jax.lax.rsqrt(v + 1e-5) * g + b

    keys = iter(jax.random.split(key, 1 + 2 * s.layers))

    def drop(x):
        return jnp.where(jax.random.bernoulli(next(keys), 1 - s.dropout, x.shape), x / (1 - s.dropout), 0) if s.dropout else x
    h = drop(p["tok"][x] + p["pos"][jnp.arange(s.context)])
    mask = jnp.tril(jnp.ones((s.context, s.context), bool))
    for b in p["blocks"]:
        a = norm(h, b["n1g"], b["n1b"]) @ b["qkv"].T + b["qkvb"]
        q, k, v = a.reshape(s.batch, s.context, 3, s.heads, s.width // s.heads).transpose(2, 0, 3, 1, 4)
        z = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(s.width // s.heads).astype(np.float32)
        z = drop(jax.nn.softmax(jnp.where(mask, z, -jnp.inf), -1))
        z = jnp.einsum("bhqk,bhkd->bhqd", z, v).transpose(0, 2, 1, 3).reshape(s.batch, s.context, s.width)
        h = h + z @ b["o"].T + b["ob"]
        m = jax.nn.gelu(norm(h, b["n2g"], b["n2b"]) @ b["u"].T + b["ub"], approximate=False)
        h = h + drop(m @ b["d"].T + b["db"])
    logits = norm(h, p["ng"], p["nb"]) @ p["tok"].T
    logp = jax.nn.log_softmax(logits.reshape(-1, s.vocabulary))
    return -jnp.take_along_axis(logp, y.reshape(-1, 1), 1).mean()


def jax_step(s, read=True):
    """The step by hand with jit and donation; returns (step(i) -> loss, the jitted function and its state)."""
    params = jax_init(s)
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = [params, zeros, jax.tree.map(jnp.zeros_like, params)]
    data = batches(s)

    def update(params, m, v, t, lr, x, y, key):
        loss, g = jax.value_and_grad(lambda p: jax_loss(s, p, x, y, key))(params)
        norm = jnp.sqrt(sum((q ** 2).sum() for q in jax.tree.leaves(g)))
        g = jax.tree.map(lambda q: q * jnp.minimum(1.0, 1.0 / (norm + 1e-6)), g)
        m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = jax.tree.map(lambda a, b: 0.95 * a + 0.05 * b * b, v, g)
        c1, c2 = 1 - 0.9 ** t, 1 - 0.95 ** t
        params = jax.tree.map(lambda p, a, b: p * (1 - lr * 0.1) - lr / c1 * a / (jnp.sqrt(b) / jnp.sqrt(c2) + 1e-8), params, m, v)
        return params, m, v, loss
    f = jax.jit(update, donate_argnums=(0, 1, 2))
    root = jax.random.key(0)

    def step(i):
        x, y = data[i % len(data)]
        lr = 1e-3 * 0.5 * (1 + np.cos(np.pi * i / 10_000))
        state[0], state[1], state[2], loss = f(*state, np.float32(i + 1), np.float32(lr), x.astype(np.int32), y.astype(np.int32),
                                               jax.random.fold_in(root, i))
        return float(loss) if read else loss
    return step, f, state

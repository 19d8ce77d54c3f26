"""Training steps captured by `lt.compile` beside the same steps by hand in jax.jit with donation, timed in turn.

    python scripts/bench/captured.py            # mlp gpt2 gpt8 resnet lstm
    python scripts/bench/captured.py mlp lstm

Data is on the device, the loss is read back each step, gradients are dropped at the end of the step (`zero_grad()` last): what
stays in `.grad` must be written out, which the step by hand does not do.
"""
from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import common
import jax
import jax.numpy as jnp
import numpy as np

import lazy_tensor as lt
import lazy_tensor.nn.functional as F
from lazy_tensor import nn
from xla_backend import metrics

R = np.random.default_rng(0)


def adam(params):
    """Adam by hand: (state, update(params, state, grads) -> params, state)."""
    state = [jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params), jnp.zeros(())]

    def update(p, state, g):
        m, v, t = state
        t = t + 1
        m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
        p = jax.tree.map(lambda p, a, b: p - 1e-3 / (1 - 0.9 ** t) * a / (jnp.sqrt(b) / jnp.sqrt(1 - 0.999 ** t) + 1e-8), p, m, v)
        return p, [m, v, t]
    return state, update


def by_hand(loss, params, *data):
    """step() of a loss(params, *data) with Adam, donated."""
    state, update = adam(params)
    box = [params, state]

    def step(params, state, *data):
        value, g = jax.value_and_grad(loss)(params, *data)
        params, state = update(params, state, g)
        return params, state, value
    f = jax.jit(step, donate_argnums=(0, 1))

    def run():
        box[0], box[1], value = f(box[0], box[1], *data)
        return float(value)
    return run


def captured(model, loss, *data):
    """step() of loss(model, *data) with Adam, captured."""
    optimizer = lt.optim.Adam(model.parameters(), lr=1e-3)
    data = [lt.from_numpy(d).to("xla") for d in data]

    @lt.compile(fullgraph=True)
    def step(*data):
        value = loss(model, *data)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        return value
    for _ in range(5):
        step(*data)
    before = metrics.counter("captured_steps")
    step(*data)
    assert metrics.counter("captured_steps") == before + 1, step.explain()
    return lambda: step(*data).item()


def mlp():
    x, y = R.standard_normal((128, 784)).astype(np.float32), R.integers(0, 10, 128)
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)).to("xla")
    params = [(jnp.asarray(R.standard_normal((i, o)) / i ** 0.5, jnp.float32), jnp.zeros(o)) for i, o in ((784, 256), (256, 256), (256, 10))]

    def loss(p, x, y):
        for k, (w, b) in enumerate(p):
            x = x @ w + b
            x = jax.nn.relu(x) if k < 2 else x
        return -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean()
    return captured(model, lambda m, x, y: F.cross_entropy(m(x), y), x, y), by_hand(loss, params, jnp.asarray(x), jnp.asarray(y))


def gpt(layers):
    import train_gpt
    s = common.Shape(layers=layers, dropout=0.0)
    x, y = common.batches(s)[0]
    model = train_gpt.GPT(s.vocabulary, s.context, s.width, s.layers, s.heads, s.dropout).to("xla")
    key = jax.random.key(0)
    return (captured(model, lambda m, x, y: m(x, y), x, y),
            by_hand(lambda p, x, y: common.jax_loss(s, p, x, y, key), common.jax_init(s), jnp.asarray(x), jnp.asarray(y)))


class Block(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.short = nn.Conv2d(i, o, 1, stride, bias=False) if stride != 1 or i != o else nn.Identity()

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.short(x))


def resnet():
    widths = ((16, 16, 1), (16, 32, 2), (32, 64, 2))
    model = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), *[Block(*w) for w in widths],
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).to("xla")
    x, y = R.standard_normal((32, 3, 32, 32)).astype(np.float32), R.integers(0, 10, 32)

    def conv(i, o, k):
        return jnp.asarray(R.standard_normal((o, i, k, k)) * (2 / (i * k * k)) ** 0.5, jnp.float32)

    def bn(o):
        return jnp.ones(o), jnp.zeros(o)
    params = {"stem": (conv(3, 16, 3), bn(16)), "head": (jnp.asarray(R.standard_normal((64, 10)) / 8, jnp.float32), jnp.zeros(10)),
              "blocks": [(conv(i, o, 3), bn(o), conv(o, o, 3), bn(o), conv(i, o, 1) if s != 1 or i != o else None) for i, o, s in widths]}

    def c(x, w, s=1):
        p = w.shape[-1] // 2
        return jax.lax.conv_general_dilated(x, w, (s, s), [(p, p), (p, p)])

    def norm(x, g):
        m, v = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
        return (x - m) * jax.lax.rsqrt(v + 1e-5) * g[0][:, None, None] + g[1][:, None, None]

    def loss(p, x, y):
        x = jax.nn.relu(norm(c(x, p["stem"][0]), p["stem"][1]))
        for (w1, b1, w2, b2, w3), (_i, _o, s) in zip(p["blocks"], widths):
            h = norm(c(jax.nn.relu(norm(c(x, w1, s), b1)), w2), b2)
            x = jax.nn.relu(h + (x if w3 is None else c(x, w3, s)))
        x = x.mean((2, 3)) @ p["head"][0] + p["head"][1]
        return -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean()
    return captured(model, lambda m, x, y: F.cross_entropy(m(x), y), x, y), by_hand(loss, params, jnp.asarray(x), jnp.asarray(y))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(64, 128, 2, batch_first=True), nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def lstm():
    model = Tagger().to("xla")
    x, y = R.standard_normal((32, 50, 64)).astype(np.float32), R.integers(0, 10, 32)

    def m(*shape):
        return jnp.asarray(R.uniform(-0.088, 0.088, shape), jnp.float32)
    params = {"layers": [(m(512, 64), m(512, 128), m(512), m(512)), (m(512, 128), m(512, 128), m(512), m(512))], "head": (m(128, 10), m(10))}

    def loss(p, x, y):
        x = x.swapaxes(0, 1)
        for wi, wh, bi, bh in p["layers"]:
            gates = x @ wi.T + bi + bh

            def cell(state, g, wh=wh):
                h, c = state
                i, f, a, o = jnp.split(g + h @ wh.T, 4, -1)
                c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(a)
                h = jax.nn.sigmoid(o) * jnp.tanh(c)
                return (h, c), h
            zero = jnp.zeros((x.shape[1], 128))
            x = jax.lax.scan(cell, (zero, zero), gates)[1]
        z = x[-1] @ p["head"][0] + p["head"][1]
        return -jnp.take_along_axis(jax.nn.log_softmax(z), y[:, None], 1).mean()
    return captured(model, lambda m, x, y: F.cross_entropy(m(x), y), x, y), by_hand(loss, params, jnp.asarray(x), jnp.asarray(y))


ALL = {"mlp": mlp, "gpt2": lambda: gpt(2), "gpt8": lambda: gpt(8), "resnet": resnet, "lstm": lstm}


def main():
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    print(common.machine())
    for name in sys.argv[1:] or ALL:
        ours, hand = ALL[name]()
        a, b, ratio = common.interleaved(ours, hand, 100 if name == "mlp" else 25)
        print(f"{name:8} captured / jax by hand (ms)  {1e3 * a:8.2f} / {1e3 * b:8.2f} = {ratio:.2f}   <= 1.02", flush=True)


if __name__ == "__main__":
    main()

"""Recurrent ops against a NumPy loop; packed sequences against each sequence alone."""
from __future__ import annotations

import numpy as np
import pytest

import lazy_tensor as lt

RNG = np.random.default_rng(0)
GATES = {"rnn_tanh": 1, "gru": 3, "lstm": 4}


def weights(kind, size, hidden):
    g = GATES[kind] * hidden
    return [RNG.normal(size=s) * 0.5 for s in ((g, size), (g, hidden), (g,), (g,))]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def loop(kind, x, h, c, w):
    w_ih, w_hh, b_ih, b_hh = w
    out = []
    for x_t in x:
        a, b = x_t @ w_ih.T + b_ih, h @ w_hh.T + b_hh
        if kind == "rnn_tanh":
            h = np.tanh(a + b)
        elif kind == "gru":
            (r1, z1, n1), (r2, z2, n2) = np.split(a, 3, -1), np.split(b, 3, -1)
            z = sigmoid(z1 + z2)
            h = (1 - z) * np.tanh(n1 + sigmoid(r1 + r2) * n2) + z * h
        else:
            i, f, g, o = np.split(a + b, 4, -1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        out.append(h)
    return np.stack(out), h, c


def call(kind, args, h, c, w, *rest):
    hx = (lt.tensor(h), lt.tensor(c)) if kind == "lstm" else lt.tensor(h)
    return getattr(lt, kind)(*args, hx, [lt.tensor(p) for p in w], True, 1, 0.0, False, *rest)


@pytest.mark.parametrize("kind", GATES)
def test_one_layer_is_the_loop_and_the_cell_is_its_step(kind):
    x, h, c, w = RNG.normal(size=(4, 2, 3)), RNG.normal(size=(1, 2, 5)), RNG.normal(size=(1, 2, 5)), weights(kind, 3, 5)
    want, last, last_c = loop(kind, x, h[0], c[0], w)
    out = call(kind, (lt.tensor(x),), h, c, w, False, False)
    np.testing.assert_allclose(out[0].numpy(), want, atol=1e-12)
    np.testing.assert_allclose(out[1].numpy()[0], last, atol=1e-12)
    hx = (lt.tensor(h[0]), lt.tensor(c[0])) if kind == "lstm" else lt.tensor(h[0])
    step = getattr(lt, kind + "_cell")(lt.tensor(x[0]), hx, *map(lt.tensor, w))
    if kind == "lstm":
        np.testing.assert_allclose(out[2].numpy()[0], last_c, atol=1e-12)
        step = step[0]
    np.testing.assert_allclose(step.numpy(), want[0], atol=1e-12)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_packed_bidirectional_sequences_run_as_if_alone(kind):
    lengths = [4, 2]
    seqs = [RNG.normal(size=(n, 3)) for n in lengths]
    w, back = weights(kind, 3, 5), weights(kind, 3, 5)
    h, c = RNG.normal(size=(2, 2, 5)), RNG.normal(size=(2, 2, 5))
    data = np.stack([seqs[b][t] for t in range(4) for b in range(2) if t < lengths[b]])
    out = call(kind, (lt.tensor(data), lt.tensor([2, 2, 1, 1])), h, c, w + back, True)
    for b, s in enumerate(seqs):
        fwd, _, _ = loop(kind, s[:, None], h[0, b:b + 1], c[0, b:b + 1], w)
        rev, last, _ = loop(kind, s[::-1, None], h[1, b:b + 1], c[1, b:b + 1], back)
        want = np.concatenate([fwd, rev[::-1]], -1)[:, 0]
        rows = [i for i, (t, k) in enumerate((t, k) for t in range(4) for k in range(2) if t < lengths[k]) if k == b]
        np.testing.assert_allclose(out[0].numpy()[rows], want, atol=1e-12)
        np.testing.assert_allclose(out[1].numpy()[1, b], last[0], atol=1e-12)


def test_lstm_cell_has_second_gradients():
    x = lt.tensor(RNG.normal(size=(1, 3))).requires_grad_(True)
    h, c, w = RNG.normal(size=(1, 4)), RNG.normal(size=(1, 4)), [lt.tensor(p) for p in weights("lstm", 3, 4)]

    def f(v):
        return (lt.lstm_cell(v, (lt.tensor(h), lt.tensor(c)), *w)[0] ** 2).sum()
    (g,) = lt.autograd.grad(f(x), [x], create_graph=True)
    (g2,) = lt.autograd.grad(g[0, 0], [x])
    d = lt.tensor([[1e-5, 0.0, 0.0]], dtype=lt.float64)
    up, down = (lt.autograd.grad(f(v), [v])[0].numpy() for v in ((x + s * d).detach().requires_grad_(True) for s in (1, -1)))
    np.testing.assert_allclose(g2.numpy(), (up - down) / 2e-5, atol=1e-7)


def test_wrong_sizes_are_named():
    with pytest.raises(RuntimeError, match="Expected 3, got 2"):
        call("gru", (lt.zeros(4, 2, 2, dtype=lt.float64),), np.zeros((1, 2, 5)), None, weights("gru", 3, 5), False, False)

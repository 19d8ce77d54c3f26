"""Checkpointing: the same gradients from less memory."""
from __future__ import annotations

import numpy as np
import pytest

import lazy_tensor as lt
from lazy_tensor.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential
from xla_backend import debug


def net(n=4, d=8, b=4, device="cpu"):
    rng = np.random.default_rng(0)
    ws = [lt.tensor(rng.normal(size=(d, d)).astype(np.float32) / d**0.5, device=device).requires_grad_(True) for _ in range(n)]
    x = lt.tensor(rng.normal(size=(b, d)).astype(np.float32), device=device).requires_grad_(True)
    return ws, x


def block(h, *ws):
    for w in ws:
        h = (h @ w).tanh().sin()
    return h


def run(ws, x, mode, per=2):
    for t in (*ws, x):
        t.grad = None
    h = x
    for i in range(0, len(ws), per):
        h = block(h, *ws[i:i + per]) if mode is None else checkpoint(block, h, *ws[i:i + per], use_reentrant=mode)
    h.sum().backward()
    return [t.grad.cpu().numpy() for t in (*ws, x)]


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradients_are_those_without_checkpointing(reentrant):
    ws, x = net()
    for a, b in zip(run(ws, x, None), run(ws, x, reentrant), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_the_compiled_program_needs_less_memory():
    temps = {}
    for mode in (None, False):
        ws, x = net(n=12, d=16, b=2048, device="xla")
        lt.sync()
        run(ws, x, mode, per=3)
        temps[mode] = debug.last_record().executable.memory_analysis().temp_size_in_bytes
    assert temps[False] < 0.6 * temps[None], temps


def test_closures_keyword_arguments_and_autograd_grad():
    ws, x = net(2)

    def f(h, *, scale):
        return {"out": block(h, ws[0]) * scale, "n": 3}
    out = checkpoint(f, x, scale=2.0, use_reentrant=False)
    assert out["n"] == 3
    got = lt.autograd.grad(out["out"].sum(), [ws[0], x])
    want = lt.autograd.grad((block(x, ws[0]) * 2.0).sum(), [ws[0], x])
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    assert x.grad is None


def test_nested_regions_and_two_backwards():
    ws, x = net(2)

    def inner(h):
        return block(h, ws[0])

    def outer(h):
        return block(checkpoint(inner, h, use_reentrant=False), ws[1])
    loss = checkpoint(outer, x, use_reentrant=False).sum()
    loss.backward(retain_graph=True)
    once = x.grad.numpy().copy()
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * once, rtol=1e-6)
    x.grad = None
    block(x, *ws).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), once, rtol=1e-5)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_double_backward():
    x = lt.tensor([0.3, 0.7], requires_grad=True)
    y = checkpoint(lambda t: t.sin() * t, x, use_reentrant=False).sum()
    g, = lt.autograd.grad(y, x, create_graph=True)
    gg, = lt.autograd.grad(g.sum(), x)
    v = np.array([0.3, 0.7])
    np.testing.assert_allclose(gg.numpy(), 2 * np.cos(v) - v * np.sin(v), rtol=1e-5)


@pytest.mark.parametrize("preserve", [True, False])
def test_random_state(preserve):
    x = lt.ones(64, requires_grad=True)
    lt.manual_seed(3)
    seen = []

    def f(t):
        m = lt.rand(64)
        seen.append(m)
        return (t * m).sin()
    y = checkpoint(f, x, use_reentrant=False, preserve_rng_state=preserve, early_stop=False)
    after = lt.default_generator._count
    y.sum().backward()
    assert len(seen) == 2
    assert np.array_equal(seen[0].numpy(), seen[1].numpy()) is preserve
    assert (lt.default_generator._count == after) is preserve


def test_the_rerun_has_the_forwards_autocast():
    pytest.importorskip("lazy_tensor.amp")
    seen = []

    def f(h, w):
        r = h @ w
        seen.append(r.dtype)
        return r.float().sin()
    w = lt.ones(4, 4, requires_grad=True)
    with lt.autocast("cpu", dtype=lt.bfloat16):
        y = checkpoint(f, lt.ones(2, 4), w, use_reentrant=False)
    y.sum().backward()
    assert seen == [lt.bfloat16, lt.bfloat16]


def test_a_rerun_that_differs_is_an_error():
    calls = []

    def fewer(t):
        calls.append(1)
        return t.sin().cos() if len(calls) == 1 else t.sin()
    x = lt.ones(2, requires_grad=True)
    with pytest.raises(CheckpointError, match="saved during forward: 2\nNumber of tensors saved during recomputation: 1"):
        checkpoint(fewer, x, use_reentrant=False).sum().backward()
    calls.clear()

    def other(t):
        calls.append(1)
        return (t if len(calls) == 1 else t.double()).sin().sum()
    with pytest.raises(CheckpointError, match="different metadata"):
        checkpoint(other, x, use_reentrant=False).backward()


def test_arguments_are_checked_as_in_torch():
    x = lt.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: foo"):
        checkpoint(block, x, use_reentrant=True, foo=1)
    with pytest.raises(ValueError, match="context_fn"):
        checkpoint(block, x, use_reentrant=True, debug=True)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint(lambda t: t * 2, x)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        assert not checkpoint(lambda t: t * x, lt.ones(2), use_reentrant=True).requires_grad


def test_sequential():
    ws, x = net(4)
    steps = [lambda h, w=w: block(h, w) for w in ws]
    checkpoint_sequential(steps, 2, x, use_reentrant=False).sum().backward()
    got = x.grad.numpy().copy()
    x.grad = None
    block(x, *ws).sum().backward()
    np.testing.assert_allclose(got, x.grad.numpy(), rtol=1e-5)
    with pytest.raises(ValueError, match="segments"):
        checkpoint_sequential(steps, 9, x, use_reentrant=False)


def test_steps_in_a_loop_compile_once(counts):
    ws, x = net(2, device="xla")
    for _ in range(4):
        run(ws, x, False, per=1)
    assert counts.compiles <= 3

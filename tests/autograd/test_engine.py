"""Backward: values, accumulation, hooks, versions, double backward, custom functions, modes."""
from __future__ import annotations

import numpy as np
import pytest

import lazy_tensor as lt
from lazy_tensor.autograd import Function


def xla(a, grad=True):
    return lt.tensor(np.asarray(a, np.float32), device="xla", requires_grad=grad)


def test_gradients_accumulate():
    x = xla([1, 2, 3])
    (x * x).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5, 7, 9]
    g = x.grad
    x.sum().backward()
    assert x.grad is g and g.tolist() == [6, 8, 10]


def test_a_value_used_twice_gets_both_gradients():
    x = xla([2.0])
    y = x * 3
    z = y * y + y
    z.sum().backward()
    assert x.grad.item() == pytest.approx(3 * (2 * 6) + 3)


def test_backward_twice_is_refused_unless_retained():
    x = xla([1, 2])
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4, 8]
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    assert (x + 1).tolist() == [2, 3]


def test_non_scalar_needs_a_gradient():
    x = xla([1, 2])
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        (x * 2).backward()
    (x * 2).backward(xla([1, 10], grad=False))
    assert x.grad.tolist() == [2, 20]
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * 2).backward(xla([1], grad=False))
    with pytest.raises(RuntimeError, match="does not require grad"):
        xla([1], grad=False).sum().backward()


def test_grad_returns_without_accumulating():
    x, y = xla([1, 2]), xla([3, 4])
    gx, gy = lt.autograd.grad((x * y).sum(), (x, y))
    assert gx.tolist() == [3, 4] and gy.tolist() == [1, 2] and x.grad is None
    with pytest.raises(RuntimeError, match="not have been used"):
        lt.autograd.grad(x.sum(), y)
    assert lt.autograd.grad(x.sum(), y, allow_unused=True) == (None,)
    assert lt.autograd.grad(x.sum(), y, materialize_grads=True)[0].tolist() == [0, 0]


def test_grad_of_an_intermediate():
    x = xla([1.0, 2.0])
    h = x * 2
    g, = lt.autograd.grad((h * h).sum(), h)
    assert g.tolist() == [4, 8]


def test_higher_derivatives():
    x = xla([0.3, -1.2])
    y = (x * x * x * x).sum()
    g1, = lt.autograd.grad(y, x, create_graph=True)
    g2, = lt.autograd.grad(g1.sum(), x, create_graph=True)
    g3, = lt.autograd.grad(g2.sum(), x, create_graph=True)
    g4, = lt.autograd.grad(g3.sum(), x)
    a = np.array([0.3, -1.2])
    np.testing.assert_allclose(g2.detach().cpu().numpy(), 12 * a ** 2, rtol=1e-5)
    np.testing.assert_allclose(g3.detach().cpu().numpy(), 24 * a, rtol=1e-5)
    np.testing.assert_allclose(g4.cpu().numpy(), [24, 24], rtol=1e-5)


def test_double_backward_through_an_op_that_saves_residuals():
    a = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    x = xla(a)
    y = lt.cumsum(x * x, 0).tanh().sum()
    g, = lt.autograd.grad(y, x, create_graph=True)
    h, = lt.autograd.grad((g * g).sum(), x)

    def grad_np(a):
        s = np.cumsum(a * a, 0)
        d = 1 - np.tanh(s) ** 2
        return np.cumsum(d[::-1], 0)[::-1] * 2 * a
    e, a64 = 1e-5, a.astype(np.float64)
    want = np.zeros_like(a64)
    for i in np.ndindex(*a.shape):
        p, m = a64.copy(), a64.copy()
        p[i] += e
        m[i] -= e
        want[i] = ((grad_np(p) ** 2).sum() - (grad_np(m) ** 2).sum()) / (2 * e)
    np.testing.assert_allclose(h.cpu().numpy(), want, rtol=2e-3, atol=1e-4)


def test_inplace_on_a_needed_value_is_an_error():
    x = xla([1, 2])
    h = x * 2
    y = (h * h).sum()
    h.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation.*MulBackward0"):
        y.backward()
    h = x * 2
    z = h + 1  # add needs neither operand
    h.add_(1)
    (z + h).sum().backward()
    assert x.grad.tolist() == [4, 4]


def test_inplace_on_a_view_of_a_needed_value_is_an_error():
    x = xla([[1, 2], [3, 4]])
    h = x * 2
    y = (h * h).sum()
    h[0].zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_gradients_flow_through_writes():
    x, v = xla([1, 2, 3]), xla([10.0])
    h = x * 2
    h[1:2] = v * 3
    (h * lt.tensor([1.0, 10, 100], device="xla")).sum().backward()
    assert x.grad.tolist() == [2, 0, 200] and v.grad.tolist() == [30]


def test_hooks():
    seen = []
    x = xla([1, 2])
    h = x * 2
    handle = h.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: seen.append(g.tolist()))
    h.retain_grad()
    h.sum().backward()
    assert x.grad.tolist() == [20, 20] and seen == [[20, 20]] and h.grad.tolist() == [10, 10]
    handle.remove()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [22, 22]
    ran = []
    y = xla([1.0])
    y.register_post_accumulate_grad_hook(lambda p: ran.append(p.grad.item()))
    (y * 4).sum().backward()
    assert ran == [4]


def test_modes():
    x = xla([1.0])
    with lt.no_grad():
        assert not (x * 2).requires_grad
        with lt.enable_grad():
            assert (x * 2).requires_grad
    with lt.inference_mode():
        assert not (x * 2).requires_grad
    with lt.set_grad_enabled(False):
        assert not lt.is_grad_enabled()
    assert lt.is_grad_enabled()

    @lt.no_grad()
    def f():
        return (x * 2).requires_grad
    assert not f()


class Cube(Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * x * k

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        assert ctx.needs_input_grad == (True, False)
        return 3 * x * x * ctx.k * g, None


def test_custom_function_and_its_double_backward():
    x = xla([1.0, 2.0])
    y = Cube.apply(x, 2)
    g, = lt.autograd.grad(y.sum(), x, create_graph=True)
    assert g.tolist() == [6, 24]
    h, = lt.autograd.grad(g.sum(), x)
    assert h.tolist() == [12, 24]
    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        class Bad(Function):
            @staticmethod
            def forward(ctx, a, b):
                return a + b

            @staticmethod
            def backward(ctx, g):
                return g
        Bad.apply(x, x).sum().backward()


def test_anomaly_mode_names_the_line():
    x = xla([0.0])
    with lt.autograd.detect_anomaly():
        y = (x * 0).sqrt() * 0
        with pytest.raises(RuntimeError, match=r"SqrtBackward0.*nan.*test_engine.py"):
            y.sum().backward()


def test_complex_gradients_follow_torchs_convention():
    # torch: for real L = |z|^2 the gradient is 2 z; for L = Re(w z) it is conj(w)
    z = lt.tensor([1 + 2j], device="xla", requires_grad=True)
    (z.abs() ** 2).sum().backward()
    np.testing.assert_allclose(z.grad.cpu().numpy(), [2 + 4j], rtol=1e-6)
    z = lt.tensor([1 + 2j], device="xla", requires_grad=True)
    lt.real(z * (3 - 1j)).sum().backward()
    np.testing.assert_allclose(z.grad.cpu().numpy(), [3 + 1j], rtol=1e-6)


def test_saved_tensor_hooks():
    packed = []

    def pack(t):
        packed.append(tuple(t.shape))
        return t.cpu()
    x = xla([1, 2, 3])
    with lt.autograd.graph.saved_tensors_hooks(pack, lambda t: t.to("xla")):
        y = (x * x).sum()
    y.backward()
    assert packed and x.grad.tolist() == [2, 4, 6]


def test_the_graph_of_a_freed_loss_keeps_nothing(count_from_here):
    x = xla(np.ones((4, 4)))
    loss = (x.tanh() @ x).sum()
    loss.backward()
    lt.sync()
    c = count_from_here()
    del loss
    (x.grad * 2).sum().item()
    assert c.nodes_run == 2


def test_what_is_queued_in_backward_runs_once_when_the_outermost_has_ended():
    from lazy_tensor.autograd.engine import queue_callback
    from lazy_tensor.utils.checkpoint import checkpoint
    seen = []
    w = xla([2.0])

    def done():
        seen.append(None if w.grad is None else w.grad.item())

    x = xla([3.0])
    inner = checkpoint(lambda a: a * w, x, use_reentrant=True)  # its backward runs another backward
    inner.register_hook(lambda g: queue_callback(done, once=True))
    late = w * 5
    late.register_hook(lambda g: queue_callback(done, once=True))
    (inner + late).sum().backward()
    assert seen == [8.0]
    with pytest.raises(RuntimeError, match="only be installed during backward"):
        queue_callback(done)

    def fail(g):
        queue_callback(done)
        raise ValueError("in a hook")
    y = w * 2
    y.register_hook(fail)
    with pytest.raises(ValueError, match="in a hook"):
        y.sum().backward()
    (w * 1).sum().backward()
    assert seen == [8.0]  # what the failed pass had queued is gone with it

"""Convolutions and pools against NumPy loops and their own adjoints, first and second gradients included."""
from __future__ import annotations

import numpy as np
import pytest

import lazy_tensor as lt

F = lt.nn.functional
RNG = np.random.default_rng(0)


def tensor(x, grad=False):
    return lt.tensor(np.asarray(x, np.float64)).requires_grad_(grad)


def conv_loop(x, w, stride, padding, dilation, groups):
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    n, c, h, width = x.shape
    o, per, kh, kw = w.shape
    oh, ow = ((m - dilation * (k - 1) - 1) // stride + 1 for m, k in ((h, kh), (width, kw)))
    y = np.zeros((n, o, oh, ow))
    for f in range(o):
        g = f // (o // groups)
        for i in range(oh):
            for j in range(ow):
                part = x[:, g * per:(g + 1) * per, i * stride:i * stride + dilation * (kh - 1) + 1:dilation,
                         j * stride:j * stride + dilation * (kw - 1) + 1:dilation]
                y[:, f, i, j] = (part * w[f]).sum((1, 2, 3))
    return y


@pytest.mark.parametrize("stride, padding, dilation, groups", [(1, 0, 1, 1), (2, 1, 1, 2), (1, 2, 2, 4)])
def test_convolution_and_its_transpose(stride, padding, dilation, groups):
    x, w = RNG.normal(size=(2, 4, 7, 6)), RNG.normal(size=(8, 4 // groups, 3, 3))
    tx, tw = tensor(x, True), tensor(w, True)
    y = F.conv2d(tx, tw, None, stride, padding, dilation, groups)
    np.testing.assert_allclose(y.detach().numpy(), conv_loop(x, w, stride, padding, dilation, groups), atol=1e-12)
    c = RNG.normal(size=tuple(y.shape))
    gx, gw = lt.autograd.grad((y * tensor(c)).sum(), [tx, tw], create_graph=True)
    # both gradients are linear in the other operand: <g, operand> is <c, y> each time
    inner = (c * y.detach().numpy()).sum()
    assert (gx.detach().numpy() * x).sum() == pytest.approx(inner)
    assert (gw.detach().numpy() * w).sum() == pytest.approx(inner)
    (g2,) = lt.autograd.grad((gx * tx.detach()).sum(), [tw])
    np.testing.assert_allclose(g2.numpy(), gw.detach().numpy(), atol=1e-10)
    extra = tuple(m - ((n - 1) * stride - 2 * padding + dilation * 2 + 1)
                  for m, n in zip(x.shape[2:], y.shape[2:], strict=True))
    back = F.conv_transpose2d(tensor(c), tensor(w), None, stride, padding, extra, groups, dilation)
    np.testing.assert_allclose(back.numpy(), gx.detach().numpy(), atol=1e-10)


def test_same_padding_keeps_the_size_and_unbatched_input_works():
    x, w = tensor(RNG.normal(size=(3, 8))), tensor(RNG.normal(size=(2, 3, 4)))
    assert tuple(F.conv1d(x, w, padding="same").shape) == (2, 8)
    with pytest.raises(RuntimeError, match="strided"):
        F.conv1d(x, w, stride=2, padding="same")
    with pytest.raises(RuntimeError, match="to have 3 channels, but got 2 channels"):
        F.conv1d(x[:2], w)


def test_fold_is_the_adjoint_of_unfold():
    x = RNG.normal(size=(2, 3, 6, 5))
    cols = F.unfold(tensor(x), (3, 2), padding=1, stride=2)
    c = RNG.normal(size=tuple(cols.shape))
    back = F.fold(tensor(c), (6, 5), (3, 2), padding=1, stride=2)
    assert (cols.numpy() * c).sum() == pytest.approx((back.numpy() * x).sum())


@pytest.mark.parametrize("kernel, stride, padding", [(2, 2, 0), (3, 2, 1), (5, 2, 2)])
def test_max_pool_indices_name_the_values(kernel, stride, padding):
    x = RNG.normal(size=(2, 3, 9, 8))
    t = tensor(x, True)
    y, i = F.max_pool2d(t, kernel, stride, padding, return_indices=True)
    flat = x.reshape(2, 3, -1)
    assert (np.take_along_axis(flat, i.numpy().reshape(2, 3, -1), 2).reshape(y.shape) == y.detach().numpy()).all()
    assert (F.max_pool2d(t, kernel, stride, padding) == y).all().item()
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)), constant_values=-np.inf)
    assert y[1, 2, 1, 1].item() == padded[1, 2, stride:stride + kernel, stride:stride + kernel].max()
    y.sum().backward()
    counts = np.zeros_like(flat)
    np.add.at(counts, (np.arange(2)[:, None, None], np.arange(3)[None, :, None], i.numpy().reshape(2, 3, -1)), 1)
    assert (t.grad.numpy().reshape(flat.shape) == counts).all()


def test_max_pool_takes_the_first_of_ties_and_passes_nan_on():
    x = tensor([[1.0, 1.0, np.nan, 0.0]])
    y, i = F.max_pool1d(x, 2, return_indices=True)
    assert i.tolist() == [[0, 2]] and np.isnan(y[0, 1].item())


def test_average_pool_counts():
    x = lt.ones(1, 1, 4, 4, dtype=lt.float64)
    assert F.avg_pool2d(x, 3, 2, 1)[0, 0, 0, 0].item() == pytest.approx(4 / 9)
    assert F.avg_pool2d(x, 3, 2, 1, count_include_pad=False).numpy().min() == 1
    assert F.avg_pool2d(x, 3, 2, 1, divisor_override=2)[0, 0, 0, 0].item() == 2
    assert tuple(F.avg_pool2d(x, 3, 2, ceil_mode=True).shape) == (1, 1, 2, 2)


def test_adaptive_pools():
    x = RNG.normal(size=(1, 2, 7, 5))
    y = F.adaptive_avg_pool2d(tensor(x), (3, None)).numpy()
    np.testing.assert_allclose(y[:, :, 1], x[:, :, 2:5].mean(2))
    m, i = F.adaptive_max_pool2d(tensor(x), 2, return_indices=True)
    assert m[0, 1, 1, 1].item() == x[0, 1, 3:, 2:].max()
    assert x[0, 1].reshape(-1)[i[0, 1, 1, 1].item()] == m[0, 1, 1, 1].item()


def test_unpool_puts_values_back():
    x = tensor(RNG.normal(size=(1, 2, 4, 6)))
    y, i = F.max_pool2d(x, 2, return_indices=True)
    z = F.max_unpool2d(y, i, 2).numpy()
    assert z.sum() == pytest.approx(y.numpy().sum()) and (z != 0).sum() == y.numel()

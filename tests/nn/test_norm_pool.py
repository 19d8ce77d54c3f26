"""Normalization and pooling layers where a formula has a hole: no values, sums of zero."""
from __future__ import annotations

import math

import pytest

import lazy_tensor as lt
from lazy_tensor import nn


@pytest.mark.parametrize(("layer", "shape"), [
    (nn.BatchNorm1d, (0, 3)), (nn.BatchNorm1d, (0, 3, 2)), (nn.BatchNorm1d, (2, 3, 0)), (nn.BatchNorm2d, (0, 3, 2, 2)),
    (nn.BatchNorm3d, (0, 3, 2, 2, 2)), (nn.InstanceNorm1d, (2, 3, 0)), (nn.InstanceNorm2d, (2, 3, 0, 4)),
])
def test_an_empty_batch_leaves_the_running_statistics(layer, shape):
    m = layer(3, affine=True, track_running_stats=True)
    m.running_mean.fill_(0.5)
    m.running_var.fill_(2.0)
    m(lt.zeros(shape)).sum().backward()
    assert m.running_mean.tolist() == [0.5] * 3 and m.running_var.tolist() == [2.0] * 3
    assert m.num_batches_tracked.item() == (1 if isinstance(m, nn.modules.batchnorm._BatchNorm) else 0)
    assert m.weight.grad.tolist() == [0.0] * 3 and m.bias.grad.tolist() == [0.0] * 3


@pytest.mark.parametrize("p", [1, 1.5, 2, 3])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_gradient_of_lp_pool_where_a_window_sums_to_zero_is_zero(n, p):
    x = lt.zeros((1, 2) + (4,) * n, requires_grad=True)
    y = getattr(nn, f"LPPool{n}d")(p, 2)(x)
    y.sum().backward()
    assert not y.any() and not x.grad.any()
    if p in (1, 3):  # zero by cancellation: x^p itself has a gradient there
        x = lt.tensor([[[1.0, -1.0]]], requires_grad=True)
        nn.LPPool1d(p, 2)(x).sum().backward()
        assert x.grad.tolist() == [[[0.0, 0.0]]]


def test_lp_pool_keeps_the_sign_of_a_negative_sum():
    x = -lt.ones(1, 1, 4)
    assert nn.LPPool1d(1, 2)(x).tolist() == [[[-2.0, -2.0]]]
    assert nn.LPPool1d(-1, 2)(x).tolist() == [[[-0.5, -0.5]]]
    assert all(math.isnan(v) for v in nn.LPPool1d(3, 2)(x)[0, 0].tolist())  # the real root of odd order is not taken by torch


def test_layer_norm_over_one_value_is_its_bias_exactly():
    x = lt.tensor([[3.0], [-7.1]], requires_grad=True)
    w, b = lt.tensor([2.0], requires_grad=True), lt.tensor([0.5], requires_grad=True)
    y, mean, inv = lt.native_layer_norm(x, (1,), w, b, 1e-5)
    y.sum().backward()
    assert y.tolist() == [[0.5], [0.5]] and mean.tolist() == x.tolist() and inv[0].item() == pytest.approx(1e-5 ** -0.5)
    assert not x.grad.any() and w.grad.tolist() == [0.0] and b.grad.tolist() == [2.0]

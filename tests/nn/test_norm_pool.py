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


F = nn.functional
F32, F64, BF16, F16 = lt.float32, lt.float64, lt.bfloat16, lt.float16


@pytest.mark.parametrize(("dtype", "of_params", "fits"), [(F32, F32, True), (F64, F64, True), (BF16, BF16, True), (BF16, F32, True), (F16, F32, True),
                                                          (F64, F32, False), (F32, F64, False), (F32, BF16, False), (BF16, F16, False)])
@pytest.mark.parametrize("call", [
    lambda x, p: F.batch_norm(x, p, p, p, p), lambda x, p: F.batch_norm(x, p.clone(), p.clone(), training=True),
    lambda x, p: F.layer_norm(x, (3,), p), lambda x, p: F.group_norm(x, 3, None, p),
    lambda x, p: F.instance_norm(x.reshape(1, 3, 4), weight=p),
], ids=["batch", "statistics", "layer", "group", "instance"])
def test_parameters_have_the_inputs_dtype_or_are_float32_for_half_types(call, dtype, of_params, fits):
    x, p = lt.ones(4, 3, dtype=dtype), lt.ones(3, dtype=of_params)
    if fits:
        assert call(x, p).dtype == dtype
    else:
        with pytest.raises(RuntimeError, match="mixed dtype.* would fit"):
            call(x, p)


def test_rms_norm_keeps_the_inputs_dtype_beside_any_weight():
    assert F.rms_norm(lt.ones(4, 3, dtype=BF16), (3,), lt.ones(3)).dtype == BF16
    assert F.rms_norm(lt.ones(4, 3), (3,), lt.ones(3, dtype=F64)).dtype == F32


def test_integer_pools_are_torchs():
    x = lt.tensor([[[-3, 0, 1, 1]]])
    assert F.avg_pool1d(x, 2).tolist() == [[[-1, 1]]]  # division towards zero
    assert F.lp_pool1d(x, 2, 2).dtype == F32 and F.local_response_norm(x, 2).dtype == F32
    assert F.max_pool2d(x.int(), (1, 2)).tolist() == [[[0, 1]]]
    for refused in (lambda: F.avg_pool1d(x.int(), 2), lambda: F.max_pool1d(x, 2), lambda: F.adaptive_max_pool1d(x, 2),
                    lambda: F.rms_norm(x, (4,))):
        with pytest.raises(NotImplementedError, match="not implemented for int"):
            refused()


def test_momentum_none_averages_over_all_batches():
    m, x = nn.BatchNorm1d(3, momentum=None), lt.arange(12.0).reshape(4, 3)
    for k in (1, 2, 6):
        m(x * k)
    assert m.running_mean.tolist() == pytest.approx([4.5 * 3, 5.5 * 3, 6.5 * 3], rel=1e-6)
    assert m.running_var.tolist() == pytest.approx([15.0 * (1 + 4 + 36) / 3] * 3, rel=1e-6)


@pytest.mark.parametrize("strict", [True, False])
def test_instance_norm_without_statistics_says_what_to_do_with_those_of_a_state(strict):
    m = nn.Sequential(nn.InstanceNorm1d(3))
    with pytest.raises(RuntimeError, match='"0.running_mean" and "0.running_var" for InstanceNorm1d with track_running_stats=False'):
        m.load_state_dict({"0.running_mean": lt.ones(3), "0.running_var": lt.ones(3)}, strict=strict)

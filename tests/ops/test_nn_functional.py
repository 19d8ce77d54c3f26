"""nn.functional: activations, losses, look-ups, normalization, attention, resizing. Golden numbers are torch 2.13's."""
from __future__ import annotations

import numpy as np
import pytest

import lazy_tensor as lt

F = lt.nn.functional

ACTIVATIONS = {
    "relu6": [0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0],
    "elu": [-0.95021293, -0.86466472, -0.63212056, 0.0, 1.0, 2.0, 3.0],
    "selu": [-1.67056873, -1.52016647, -1.11133074, 0.0, 1.05070099, 2.10140197, 3.15210296],
    "gelu": [-0.00404969, -0.04550026, -0.15865525, 0.0, 0.84134475, 1.95449974, 2.99595031],
    "silu": [-0.14227762, -0.23840584, -0.26894142, 0.0, 0.73105858, 1.76159416, 2.85772238],
    "mish": [-0.14564746, -0.25250148, -0.30340146, 0.0, 0.86509839, 1.94395896, 2.986535],
    "hardswish": [0.0, -0.33333333, -0.33333333, 0.0, 0.66666667, 1.66666667, 3.0],
    "hardsigmoid": [0.0, 0.16666667, 0.33333333, 0.5, 0.66666667, 0.83333333, 1.0],
    "softplus": [0.04858735, 0.12692801, 0.31326169, 0.69314718, 1.31326169, 2.12692801, 3.04858735],
    "softsign": [-0.75, -0.66666667, -0.5, 0.0, 0.5, 0.66666667, 0.75],
    "logsigmoid": [-3.04858735, -2.12692801, -1.31326169, -0.69314718, -0.31326169, -0.12692801, -0.04858735],
    "tanhshrink": [-2.00494525, -1.03597242, -0.23840584, 0.0, 0.23840584, 1.03597242, 2.00494525],
    "hardshrink": [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0],
    "softshrink": [-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5],
}


def tensor(x, grad=False):
    return lt.tensor(np.asarray(x, np.float64)).requires_grad_(grad)


def test_activations_have_torchs_values():
    x = tensor(np.linspace(-3, 3, 7))
    got = {n: getattr(F, n)(x) for n in ACTIVATIONS}
    for name, want in ACTIVATIONS.items():
        np.testing.assert_allclose(got[name].numpy(), want, atol=1e-8, err_msg=name)


def test_gradients_at_kinks_are_torchs():
    kinks = {"relu": (0.0, 0.0), "relu6": (6.0, 0.0), "hardswish": (3.0, 1.0), "hardsigmoid": (3.0, 0.0), "hardtanh": (1.0, 0.0),
             "leaky_relu": (0.0, 0.01), "softshrink": (0.5, 0.0)}
    for name, (at, slope) in kinks.items():
        x = tensor(at, grad=True)
        getattr(F, name)(x).backward()
        assert x.grad.item() == pytest.approx(slope), name


def test_inplace_keyword_writes_to_the_input():
    x = tensor([-1.0, 2.0])
    assert F.relu(x, inplace=True) is x
    assert x.tolist() == [0.0, 2.0]


def test_half_types_are_computed_in_float32():
    x = lt.tensor([1.0, 2.0, 3.0], dtype=lt.bfloat16)
    y = F.softmax(x, -1)
    assert y.dtype == lt.bfloat16
    np.testing.assert_allclose(y.float().numpy(), [0.09003, 0.24473, 0.66524], atol=2e-3)


def test_integer_input_is_refused_with_torchs_error():
    with pytest.raises(NotImplementedError, match="gelu.*int64"):
        F.gelu(lt.tensor([1, 2]))


def test_cross_entropy():
    x = tensor(np.sin(np.arange(12.0).reshape(3, 4)))
    w = tensor([1.0, 2, 3, 4])
    assert F.cross_entropy(x, lt.tensor([1, 3, 0]), w, label_smoothing=0.1).item() == pytest.approx(0.8496087837375343)
    assert F.cross_entropy(x, lt.tensor([1, -100, 0])).item() == pytest.approx(0.8735240369855725)
    one_hot = F.one_hot(lt.tensor([1, 3, 0]), 4).double()
    assert F.cross_entropy(x, one_hot).item() == pytest.approx(F.cross_entropy(x, lt.tensor([1, 3, 0])).item())
    with pytest.raises(ValueError, match="batch_size"):
        F.cross_entropy(x, lt.tensor([1, 2]))


def test_losses_refuse_unknown_reductions():
    x = tensor([1.0])
    for loss in (F.mse_loss, F.l1_loss, F.huber_loss, F.binary_cross_entropy):
        with pytest.raises(ValueError, match="not a valid value for reduction"):
            loss(x, x, reduction="average")


def test_ctc_loss_and_torchs_gradient_of_it():
    """torch's gradient is exp(log_probs) - posterior: it sums to 0 over classes in each frame that counts."""
    x = tensor(np.cos(np.arange(30.0).reshape(5, 2, 3) * 1.3))
    lp = F.log_softmax(x, -1).detach().requires_grad_(True)
    loss = F.ctc_loss(lp, lt.tensor([[1, 2], [2, 2]]), (5, 4), (2, 2), reduction="none")
    np.testing.assert_allclose(loss.detach().numpy(), [1.9903853504045306, 2.0454239827169816])
    loss.sum().backward()
    np.testing.assert_allclose(lp.grad.sum(-1).numpy(), 0, atol=1e-10)
    assert (lp.grad[4, 1] == 0).all().item()


def test_batch_norm_updates_running_statistics_in_place():
    x = np.random.default_rng(0).normal(size=(4, 3, 5))
    mean, var = tensor(np.zeros(3)), tensor(np.ones(3))
    y = F.batch_norm(tensor(x), mean, var, training=True, momentum=0.25)
    np.testing.assert_allclose(mean.numpy(), 0.25 * x.mean((0, 2)))
    np.testing.assert_allclose(var.numpy(), 0.75 + 0.25 * x.var((0, 2), ddof=1))
    np.testing.assert_allclose(y.numpy().std((0, 2)), 1, atol=1e-4)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        F.batch_norm(tensor(np.ones((1, 3))), mean, var, training=True)


def test_norms_agree_with_each_other():
    x = tensor(np.random.default_rng(1).normal(size=(2, 4, 6)))
    layer = F.layer_norm(x, (4, 6)).numpy()
    np.testing.assert_allclose(F.group_norm(x, 1).numpy(), layer, atol=1e-12)
    np.testing.assert_allclose(F.instance_norm(x).numpy(), F.group_norm(x, 4).numpy(), atol=1e-12)


def test_embedding_gradients():
    w = tensor(np.arange(8.0).reshape(4, 2), grad=True)
    F.embedding(lt.tensor([1, 1, 2, 0]), w, padding_idx=0).sum().backward()
    assert w.grad.tolist() == [[0, 0], [2, 2], [1, 1], [0, 0]]
    w.grad = None
    F.embedding(lt.tensor([1, 1, 2]), w, scale_grad_by_freq=True).sum().backward()
    assert w.grad.tolist() == [[0, 0], [1, 1], [1, 1], [0, 0]]


def test_embedding_bag_modes():
    w, i, o = tensor([[1.0], [5.0], [3.0]]), lt.tensor([0, 1, 2, 1]), lt.tensor([0, 3, 3])
    for mode, want in {"sum": [9, 0, 5], "mean": [3, 0, 5], "max": [5, 0, 5]}.items():
        assert F.embedding_bag(i, w, o, mode=mode).flatten().tolist() == want, mode


def test_attention_is_softmax_of_scores():
    rng = np.random.default_rng(2)
    q, k, v = (tensor(rng.normal(size=(2, n, 4)), grad=True) for n in (3, 5, 5))
    mask = lt.tensor(rng.random((3, 5)) > 0.3)
    want = F.softmax((q @ k.transpose(-2, -1) / 2).masked_fill(~mask, float("-inf")), -1) @ v
    got = F.scaled_dot_product_attention(q, k, v, mask)
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy())
    a, b = (lt.autograd.grad((y * y).sum(), [q, k, v]) for y in (got, want))
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x.numpy(), y.numpy(), atol=1e-10)


def test_attention_row_that_sees_nothing_is_zero_with_finite_gradients():
    q = tensor(np.ones((2, 4)), grad=True)
    y = F.scaled_dot_product_attention(q, q, q, lt.tensor([[False, False], [True, True]]))
    y.sum().backward()
    assert y[0].tolist() == [0, 0, 0, 0] and np.isfinite(q.grad.numpy()).all()


def test_grouped_query_attention_repeats_heads():
    rng = np.random.default_rng(3)
    q, k, v = (tensor(rng.normal(size=(1, h, 3, 4))) for h in (4, 2, 2))
    want = F.scaled_dot_product_attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), is_causal=True)
    got = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    np.testing.assert_allclose(got.numpy(), want.numpy())


def test_dropout_keeps_the_mean_and_is_identity_in_evaluation():
    x = lt.ones(200, 50)
    y = F.dropout(x, 0.25)
    assert set(np.unique(y.numpy()).round(5)) == {0.0, np.float32(1.33333)}
    assert abs(y.mean().item() - 1) < 0.05
    assert (F.dropout(x, 0.25, training=False) == x).all().item()
    channels = F.dropout2d(lt.ones(8, 8, 3, 3)).numpy().reshape(64, 9)
    assert (channels == channels[:, :1]).all()
    with pytest.raises(ValueError, match="between 0 and 1"):
        F.dropout(x, 1.5)


def test_interpolation_has_torchs_values():
    x = tensor(np.sin(np.arange(24.0)).reshape(1, 1, 4, 6))
    np.testing.assert_allclose(F.interpolate(x, size=(3, 4), mode="bicubic").flatten().numpy(), [
        0.15444179, 1.0063454, -0.0998292, -0.94416861, -0.21253418, 0.98385467, 0.29238071, -0.89927972, -0.54468041, 0.80013159,
        0.63667579, -0.70701848], atol=1e-7)
    np.testing.assert_allclose(F.interpolate(x, size=(2, 3), mode="bilinear", antialias=True).flatten().numpy(), [
        0.3532395, 0.49490891, -0.62807228, 0.02806298, 0.63663802, -0.38160077], atol=1e-7)


def test_grid_sample_at_the_identity_grid_is_the_image():
    x = tensor(np.random.default_rng(4).normal(size=(1, 2, 4, 5)))
    grid = F.affine_grid(tensor([[[1.0, 0, 0], [0, 1, 0]]]), (1, 2, 4, 5), align_corners=False)
    for mode in ("bilinear", "nearest", "bicubic"):
        np.testing.assert_allclose(F.grid_sample(x, grid, mode, align_corners=False).numpy(), x.numpy(), atol=1e-6)


def test_padding_modes_are_numpys():
    x = np.random.default_rng(5).normal(size=(1, 2, 4, 5))
    for mode, name in {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}.items():
        want = np.pad(x, ((0, 0), (0, 0), (2, 0), (1, 3)), name)
        assert (F.pad(tensor(x), (1, 3, 2, 0), mode).numpy() == want).all(), mode
    with pytest.raises(RuntimeError, match="Padding size should be less"):
        F.pad(tensor(x), (5, 0, 0, 0), "reflect")

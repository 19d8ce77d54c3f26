"""Orthogonality and spectral norm: torch 2.13's numbers for the same weights, and the identities that define them."""
from __future__ import annotations

import math

import pytest

import lazy_tensor as lt
from lazy_tensor import nn
from lazy_tensor.nn.utils import parametrizations, remove_spectral_norm, spectral_norm


def weights(*shape):
    return lt.sin(lt.arange(math.prod(shape), dtype=lt.float64) ** 2 * 1.7 + 0.3).reshape(shape)


def layer(*shape):
    m = nn.Linear(2, 2)
    m.weight = nn.Parameter(weights(*shape))
    return m


# without trivialization: (shape, map, weight, gradient of (weight * cos(weights)).sum() by the original)
TORCH = [
    ((3, 3), "matrix_exp", [0.591096, 0.313228, 0.743299, 0.468483, 0.616833, -0.632488, -0.656604, 0.722084, 0.217866],
     [0, 0, 0, 1.140445, 0, 0, 0.537231, -0.451303, 0]),
    ((3, 3), "cayley", [0.67271, 0.239033, 0.700232, 0.386655, 0.69331, -0.608128, -0.63084, 0.679842, 0.373973],
     [0, 0, 0, 0.961259, 0, 0, 0.344756, -0.299085, 0]),
    ((3, 3), "householder", [0.289374, 0.77902, 0.556229, 0.105513, 0.55159, -0.827415, -0.951383, 0.298122, 0.07742],
     [0, 0, 0, 2.231037, 0, 0, 2.235781, -2.046971, 0]),
    ((3, 2), "matrix_exp", [0.564798, -0.245388, 0.79743, 0.408016, 0.212388, -0.879379], [0, 0, -1.492425, 0, 0.430392, 0.910155]),
    ((3, 2), "cayley", [0.652762, -0.275933, 0.716395, 0.527669, 0.246335, -0.803384], [0, 0, -1.081065, 0, 0.518899, 0.671398]),
    ((3, 2), "householder", [0.280791, 0.778768, 0.692636, 0.240172, 0.664389, -0.579515], [0, 0, -0.279458, 0, 1.040104, 0.056357]),
    ((2, 3), "matrix_exp", [0.437332, 0.888408, 0.139542, -0.329438, 0.302647, -0.894357], [0, -1.767977, 0.513308, 0, 0, 0.529019]),
    ((2, 3), "cayley", [0.562904, 0.802365, 0.198368, -0.368141, 0.458276, -0.808984], [0, -1.309912, 0.579303, 0, 0, 0.372833]),
    ((2, 3), "householder", [0.245794, 0.756292, 0.606307, 0.093725, 0.604022, -0.791437], [0, -2.0757, 1.434055, 0, 0, -1.114165]),
]


@pytest.mark.parametrize(("shape", "how", "value", "grad"), TORCH, ids=lambda v: str(v) if isinstance(v, str) else "")
def test_orthogonal_maps_give_torchs_weights_and_gradients(shape, how, value, grad):
    m = parametrizations.orthogonal(layer(*shape), orthogonal_map=how, use_trivialization=False)
    w = m.weight
    (w * weights(*shape).cos()).sum().backward()
    assert w.reshape(-1).tolist() == pytest.approx(value, abs=2e-6)
    assert m.parametrizations.weight.original.grad.reshape(-1).tolist() == pytest.approx(grad, abs=2e-6)


@pytest.mark.parametrize("trivialize", [True, False])
@pytest.mark.parametrize("how", ["matrix_exp", "cayley", "householder", None])
@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (2, 4, 3)])
def test_the_short_side_is_orthonormal_before_and_after_a_step(shape, how, trivialize):
    m = parametrizations.orthogonal(layer(*shape), orthogonal_map=how, use_trivialization=trivialize)

    def fault():
        w = m.weight
        w = w.mT if shape[-2] < shape[-1] else w
        return (w.mT @ w - lt.eye(min(shape[-2:]))).abs().max().item()
    assert fault() < 1e-12
    opt = lt.optim.SGD(m.parameters(), lr=0.5)
    before = m.weight.detach().clone()
    (m.weight * weights(*shape).cos()).sum().backward()
    opt.step()
    assert (m.weight - before).abs().max().item() > 1e-2 and fault() < 1e-12


@pytest.mark.parametrize(("shape", "how", "trivialize"), [((4, 4), "matrix_exp", True), ((4, 2), "cayley", True), ((2, 4), None, True),
                                                          ((4, 2), "householder", False), ((4, 4), "householder", False)])
def test_an_orthogonal_value_can_be_assigned(shape, how, trivialize):
    m = parametrizations.orthogonal(layer(*shape), orthogonal_map=how, use_trivialization=trivialize)
    q = nn.init.orthogonal_(lt.empty(shape, dtype=lt.float64))
    m.weight = q
    assert (m.weight - q).abs().max().item() < 1e-12


def test_complex_weights_become_unitary():
    m = parametrizations.orthogonal(nn.Linear(2, 3, dtype=lt.complex128))
    assert (m.weight.mH @ m.weight - lt.eye(2)).abs().max().item() < 1e-12


@pytest.mark.parametrize(("call", "exc", "text"), [
    (lambda: parametrizations.orthogonal(nn.Linear(2, 2), "bias"), ValueError, "Got a tensor of 1 dimensions"),
    (lambda: parametrizations.orthogonal(nn.Linear(2, 2), "nope"), ValueError, "no parameter or buffer with name 'nope'"),
    (lambda: parametrizations.orthogonal(nn.Linear(2, 2), "weight", "qr"), ValueError, "has to be one of .* Got: qr"),
    (lambda: parametrizations.orthogonal(nn.Linear(2, 2, dtype=lt.complex64), orthogonal_map="householder"), ValueError, "complex"),
    (lambda: setattr(parametrizations.orthogonal(nn.Linear(3, 3)), "weight", lt.ones(2, 2)), ValueError, "shape .*3, 3"),
    (lambda: setattr(parametrizations.orthogonal(nn.Linear(3, 3), use_trivialization=False), "weight", lt.eye(3)), NotImplementedError,
     "use_trivialization=False"),
    (lambda: remove_spectral_norm(nn.Linear(2, 2)), ValueError, "spectral_norm of 'weight' not found"),
    (lambda: spectral_norm(spectral_norm(nn.Linear(2, 2))), RuntimeError, "two spectral_norm hooks"),
    (lambda: spectral_norm(nn.Linear(2, 2), n_power_iterations=0), ValueError, "n_power_iterations=0"),
    (lambda: spectral_norm(nn.Linear(2, 2, bias=False), "bias"), ValueError, "`bias` is None"),
    (lambda: spectral_norm(nn.LazyLinear(2)), ValueError, "uninitialized parameters"),
])
def test_what_does_not_fit_is_refused(call, exc, text):
    with pytest.raises(exc, match=text):
        call()


# gradient of m(x) + m(x) by the first weights, then name_u and name_v, from torch for u and v set to normalized `weights`
SPECTRAL = [
    (lambda: nn.Linear(4, 3), (2, 4), 1, [1.4738, -0.2405, -0.4227, 1.3663], [-0.4133, 0.9105, -0.0096], [0.5123, -0.6612, -0.4749, 0.2735]),
    (lambda: nn.Conv2d(2, 3, 3), (1, 2, 5, 5), 3, [0.6591, 0.3636, 1.4561, 0.0489], [0.5695, 0.6295, 0.5286],
     [-0.3020, 0.0038, 0.1546, 0.0931]),
    (lambda: nn.ConvTranspose1d(2, 3, 3), (1, 2, 5), 1, [3.1166, 2.5195, 2.9015, 3.3078], [0.1521, 0.1348, 0.9791],
     [-0.4027, 0.6712, 0.1722, -0.2136]),
]


def prepared(make, iterations):
    m = make().double()
    with lt.no_grad():
        m.weight.copy_(weights(*m.weight.shape))
        spectral_norm(m, n_power_iterations=iterations)
        for b in (m.weight_u, m.weight_v):
            b.copy_(weights(*b.shape) / weights(*b.shape).norm())
    return m


@pytest.mark.parametrize(("make", "shape", "iterations", "grad", "u", "v"), SPECTRAL, ids=["linear", "conv", "transposed"])
def test_spectral_norm_hooks_iterate_and_differentiate_as_torchs(make, shape, iterations, grad, u, v):
    m = prepared(make, iterations)
    assert list(m.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    (m(weights(*shape)) + m(weights(*shape))).sum().backward()
    assert m.weight_orig.grad.reshape(-1)[:4].tolist() == pytest.approx(grad, abs=1e-4)
    assert m.weight_u.tolist() == pytest.approx(u, abs=1e-4) and m.weight_v[:4].tolist() == pytest.approx(v, abs=1e-4)


def test_spectral_norm_divides_by_the_largest_singular_value_and_evaluation_keeps_it():
    m = prepared(SPECTRAL[0][0], 100)
    m(weights(2, 4))
    assert lt.linalg.svdvals(m.weight)[0].item() == pytest.approx(1.0, rel=1e-6)
    m.eval()
    u, y = m.weight_u.tolist(), m(weights(2, 4)).tolist()
    assert m(weights(2, 4)).tolist() == y and m.weight_u.tolist() == u
    remove_spectral_norm(m)
    assert isinstance(m.weight, nn.Parameter) and list(m.state_dict()) == ["bias", "weight"]
    assert sum(m(weights(2, 4)).tolist(), []) == pytest.approx(sum(y, []), rel=1e-12)
    assert not (m._forward_pre_hooks or m._state_dict_hooks or m._load_state_dict_pre_hooks)


def test_a_state_dict_without_v_loads_to_the_weight_that_it_meant():
    m = prepared(SPECTRAL[0][0], 1)
    m(weights(2, 4))
    m.eval()
    y = m(weights(2, 4))
    state = m.state_dict()
    assert state._metadata[""]["spectral_norm"] == {"weight.version": 1}
    old = type(state)((k, v.clone()) for k, v in state.items() if k != "weight_v")
    old["weight"] = m.weight.detach().clone()
    old._metadata = {}
    fresh = spectral_norm(SPECTRAL[0][0]().double()).eval()
    fresh.load_state_dict(old)
    assert (fresh(weights(2, 4)) - y).abs().max().item() < 1e-9

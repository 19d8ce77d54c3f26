"""Distributions and transforms of `further`, `matrix` and others: values recorded from torch 2.13 and SciPy's, draws against moments."""
from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import lazy_tensor as lt
import lazy_tensor.distributions as D

T = lambda x: lt.tensor(x, dtype=lt.float64)
COV = [[2.0, 0.3], [0.3, 1.5]]

SCALAR = {
    "NegativeBinomial": (lambda: D.NegativeBinomial(T(5.0), T(0.3)), stats.nbinom(5, 0.7), [0.0, 4.0]),
    "FisherSnedecor": (lambda: D.FisherSnedecor(T(3.0), T(12.0)), stats.f(3.0, 12.0), [0.5, 2.0]),
    "GeneralizedPareto": (lambda: D.GeneralizedPareto(T(1.0), T(2.0), T(0.2)), stats.genpareto(0.2, 1.0, 2.0), [1.5, 3.0]),
    "bounded tail": (lambda: D.GeneralizedPareto(T(1.0), T(2.0), T(-0.4)), stats.genpareto(-0.4, 1.0, 2.0), [1.5, 3.0]),
}


@pytest.mark.parametrize("name", SCALAR)
def test_against_scipy(name):
    make, other, values = SCALAR[name]
    d = make()
    log = other.logpmf if name == "NegativeBinomial" else other.logpdf
    np.testing.assert_allclose([d.log_prob(T(v)).item() for v in values], log(values), rtol=1e-9)
    np.testing.assert_allclose([d.mean.item(), d.variance.item()], other.stats("mv"), rtol=1e-9)
    lt.manual_seed(3)
    draws = d.sample((20000,))
    assert abs(draws.mean().item() - other.mean()) < 5 * other.std() / 20000 ** 0.5
    if name not in ("NegativeBinomial", "FisherSnedecor"):
        np.testing.assert_allclose(d.cdf(T(values)).tolist(), other.cdf(values), rtol=1e-9)
        np.testing.assert_allclose(d.icdf(T(0.3)).item(), other.ppf(0.3), rtol=1e-9)


def test_von_mises():
    d = D.VonMises(T([0.5, 1.0]), T([0.5, 30.0]))
    want = [stats.vonmises(k, m).logpdf(v) for k, m, v in ((0.5, 0.5, 0.3), (30.0, 1.0, 1.1))]
    np.testing.assert_allclose(d.log_prob(T([0.3, 1.1])).tolist(), want, rtol=1e-7)
    lt.manual_seed(0)
    draws = d.sample((20000,))
    assert (draws.abs() <= np.pi + 1e-6).all()
    direction = lt.atan2(draws.sin().mean(0), draws.cos().mean(0))
    length = (draws.sin().mean(0) ** 2 + draws.cos().mean(0) ** 2).sqrt()
    np.testing.assert_allclose(direction.tolist(), [0.5, 1.0], atol=0.08)
    np.testing.assert_allclose((1 - length).tolist(), d.variance.tolist(), atol=0.015)


@pytest.mark.parametrize("p", [0.2, 0.4995, 0.7])
def test_continuous_bernoulli_integrates(p):
    d = D.ContinuousBernoulli(T(p))
    grid = (lt.arange(2000, dtype=lt.float64) + 0.5) / 2000
    density = d.log_prob(grid).exp()
    mean = (grid * density).mean().item()
    np.testing.assert_allclose(density.mean().item(), 1.0, rtol=1e-5)
    np.testing.assert_allclose(d.mean.item(), mean, rtol=1e-5)
    np.testing.assert_allclose(d.variance.item(), ((grid - mean) ** 2 * density).mean().item(), rtol=1e-4)
    np.testing.assert_allclose(d.cdf(d.icdf(T(0.3))).item(), 0.3, rtol=1e-6)


def test_low_rank_normal_is_the_full_one():
    low = D.LowRankMultivariateNormal(T([0.0, 1.0, 2.0]), T([[1.0], [0.5], [0.2]]), T([1.0, 2.0, 0.5]))
    full = D.MultivariateNormal(low.mean, low.covariance_matrix)
    x = T([[0.1, 0.2, 0.3], [1.0, 1.0, 1.0]])
    lt.testing.assert_close(low.log_prob(x), full.log_prob(x))
    lt.testing.assert_close(low.entropy(), full.entropy())
    lt.testing.assert_close(low.precision_matrix @ low.covariance_matrix, lt.eye(3, dtype=lt.float64))
    lt.testing.assert_close(low.variance, full.variance)


def test_wishart():
    d = D.Wishart(T(4.0), covariance_matrix=T(COV))
    other = stats.wishart(4, np.array(COV))
    value = [[3.0, 0.5], [0.5, 2.0]]
    np.testing.assert_allclose(d.log_prob(T(value)).item(), other.logpdf(np.array(value)), rtol=1e-9)
    np.testing.assert_allclose(d.entropy().item(), other.entropy(), rtol=1e-9)
    np.testing.assert_allclose(d.variance.tolist(), other.var(), rtol=1e-9)
    lt.manual_seed(0)
    np.testing.assert_allclose(d.sample((20000,)).mean(0).tolist(), other.mean(), atol=0.25)


def test_lkj_and_its_transform():
    lt.manual_seed(0)
    d = D.LKJCholesky(3, 2.0)
    root = d.sample((4000,))
    assert D.constraints.corr_cholesky.check(root).all()
    r = (root @ root.mT)[:, 1, 0]   # (1 + r) / 2 ~ Beta(concentration + dim / 2 - 1, the same): variance of r is 1 / (2 a + 1)
    np.testing.assert_allclose([r.mean().item(), r.var().item()], [0.0, 1 / 6], atol=0.02)
    t = D.CorrCholeskyTransform()
    x = T([0.3, -0.2, 0.5])
    lt.testing.assert_close(t.inv(t(x)), x)
    jac = lt.func.jacfwd(lambda v: t._below(t(v), -1))(x)
    lt.testing.assert_close(t.log_abs_det_jacobian(x, t(x)), lt.linalg.slogdet(jac).logabsdet)


def test_parts_and_hints():
    x = T([[0.3, -0.2, 0.5], [1.0, 0.1, -2.0]])
    s = D.StackTransform([D.ExpTransform(), D.TanhTransform()])
    lt.testing.assert_close(s(x), lt.stack([x[0].exp(), x[1].tanh()]))
    lt.testing.assert_close(s.inv(s(x)), x)
    c = D.CatTransform([D.ExpTransform(), D.SigmoidTransform()], dim=1, lengths=[1, 2])
    lt.testing.assert_close(c(x), lt.cat([x[:, :1].exp(), x[:, 1:].sigmoid()], 1))
    assert c.log_abs_det_jacobian(x, c(x)).shape == (2, 3)
    with pytest.raises(ValueError, match="lengths"):
        c(x[:, :2])
    with pytest.raises(AttributeError, match="'Normall'; the nearest that exist: Normal"):
        D.Normall
    assert D.LogisticNormal(T([0.0, 0.5]), T([1.0, 0.7])).sample((5,)).sum(-1).sub(1).abs().max() < 1e-6

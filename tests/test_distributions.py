"""Distributions: densities against SciPy, draws against moments, gradients against identities."""
from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import lazy_tensor as lt
import lazy_tensor.distributions as D

T = lambda *x: lt.tensor(x, dtype=lt.float64)


def tril():
    return lt.tensor([[1.0, 0.0], [0.5, 2.0]], dtype=lt.float64)


# name: (ours, SciPy's, values, whether SciPy's has an entropy to compare)
CASES = {
    "Normal": (lambda: D.Normal(T(0.5), T(2.0)), stats.norm(0.5, 2.0), [-1.0, 0.3]),
    "LogNormal": (lambda: D.LogNormal(T(0.5), T(0.7)), stats.lognorm(0.7, scale=math.exp(0.5)), [0.4, 2.0]),
    "Laplace": (lambda: D.Laplace(T(0.5), T(2.0)), stats.laplace(0.5, 2.0), [-1.0, 0.7]),
    "Cauchy": (lambda: D.Cauchy(T(0.5), T(2.0)), stats.cauchy(0.5, 2.0), [-1.0, 0.7]),
    "Gumbel": (lambda: D.Gumbel(T(0.5), T(2.0)), stats.gumbel_r(0.5, 2.0), [-1.0, 0.7]),
    "StudentT": (lambda: D.StudentT(T(3.0), T(0.5), T(2.0)), stats.t(3.0, 0.5, 2.0), [-1.0, 0.7]),
    "Uniform": (lambda: D.Uniform(T(-1.0), T(3.0)), stats.uniform(-1, 4), [0.0, 2.5]),
    "HalfNormal": (lambda: D.HalfNormal(T(2.0)), stats.halfnorm(scale=2.0), [0.3, 2.5]),
    "HalfCauchy": (lambda: D.HalfCauchy(T(2.0)), stats.halfcauchy(scale=2.0), [0.3, 2.5]),
    "Gamma": (lambda: D.Gamma(T(2.5), T(3.0)), stats.gamma(2.5, scale=1 / 3), [0.3, 2.5]),
    "Chi2": (lambda: D.Chi2(T(3.0)), stats.chi2(3.0), [0.3, 2.5]),
    "Exponential": (lambda: D.Exponential(T(3.0)), stats.expon(scale=1 / 3), [0.3, 2.5]),
    "Beta": (lambda: D.Beta(T(2.0), T(3.0)), stats.beta(2.0, 3.0), [0.2, 0.7]),
    "InverseGamma": (lambda: D.InverseGamma(T(3.5), T(2.0)), stats.invgamma(3.5, scale=2.0), [0.4, 1.5]),
    "Pareto": (lambda: D.Pareto(T(1.0), T(3.0)), stats.pareto(3.0), [1.5, 3.0]),
    "Weibull": (lambda: D.Weibull(T(2.0), T(1.5)), stats.weibull_min(1.5, scale=2.0), [0.4, 1.5]),
    "Bernoulli": (lambda: D.Bernoulli(T(0.3)), stats.bernoulli(0.3), [0.0, 1.0]),
    "Geometric": (lambda: D.Geometric(T(0.3)), stats.geom(0.3, loc=-1), [0.0, 4.0]),
    "Binomial": (lambda: D.Binomial(5, T(0.3)), stats.binom(5, 0.3), [0.0, 3.0]),
    "Poisson": (lambda: D.Poisson(T(2.5)), stats.poisson(2.5), [0.0, 4.0]),
}
NO_ENTROPY = {"Poisson", "Pareto"}


@pytest.mark.parametrize("name", CASES)
def test_density_entropy_and_moments_are_scipys(name):
    make, ref, values = CASES[name]
    d = make()
    logp = ref.logpmf if hasattr(ref.dist, "logpmf") else ref.logpdf
    np.testing.assert_allclose(d.log_prob(T(*values)).numpy(), logp(values), rtol=1e-6)
    if name not in NO_ENTROPY:
        np.testing.assert_allclose(d.entropy().numpy().reshape(()), ref.entropy(), rtol=1e-6)
    if name not in ("Cauchy", "HalfCauchy"):
        np.testing.assert_allclose(d.mean.numpy().reshape(()), ref.mean(), rtol=1e-6)
        np.testing.assert_allclose(d.variance.numpy().reshape(()), ref.var(), rtol=1e-6)


@pytest.mark.parametrize("name", ["Normal", "Laplace", "Cauchy", "Gumbel", "Uniform", "HalfNormal", "Exponential", "Weibull", "LogNormal"])
def test_cdf_and_its_inverse(name):
    make, ref, values = CASES[name]
    d = make()
    np.testing.assert_allclose(d.cdf(T(*values)).numpy(), ref.cdf(values), rtol=1e-6)
    np.testing.assert_allclose(d.icdf(d.cdf(T(*values))).numpy(), values, rtol=1e-6)


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("Cauchy", "HalfCauchy", "StudentT", "Pareto")])
def test_draws_have_the_mean_and_variance(name):
    make, ref, _ = CASES[name]
    lt.manual_seed(0)
    n = 20_000
    x = make().sample((n,)).numpy()
    sd = math.sqrt(ref.var())
    assert x.shape == (n, 1) and abs(x.mean() - ref.mean()) < 5 * sd / math.sqrt(n)
    assert abs(x.var() - ref.var()) < 0.35 * ref.var()


def test_reparameterised_draws_carry_gradients():
    lt.manual_seed(0)
    mu, sd = T(0.5).requires_grad_(True), T(2.0).requires_grad_(True)
    d = D.Normal(mu, sd)
    x = d.rsample((7,))
    x.sum().backward()
    assert mu.grad.item() == 7
    np.testing.assert_allclose(sd.grad.item(), ((x - 0.5) / 2).sum().item(), rtol=1e-6)
    assert not d.sample().requires_grad
    a = lt.tensor([2.0], dtype=lt.float64, requires_grad=True)
    g = D.Gamma(a, T(1.0)).rsample((4000,)).mean()  # d mean / d a = 1
    g.backward()
    assert abs(a.grad.item() - 1) < 0.1
    c = lt.tensor([1.0, 2.0], dtype=lt.float64, requires_grad=True)
    D.Dirichlet(c).rsample().sum().backward()       # a simplex: the sum is constant
    np.testing.assert_allclose(c.grad.numpy(), 0, atol=1e-9)


def test_categorical():
    p = T(0.2, 0.3, 0.5)
    d = D.Categorical(probs=p * 4)
    np.testing.assert_allclose(d.log_prob(lt.tensor([0, 2])).numpy(), np.log([0.2, 0.5]), rtol=1e-6)
    np.testing.assert_allclose(d.entropy().item(), stats.entropy([0.2, 0.3, 0.5]), rtol=1e-6)
    lt.manual_seed(1)
    x = d.sample((4000,))
    assert x.dtype is lt.int64
    np.testing.assert_allclose(np.bincount(x.numpy()) / 4000, [0.2, 0.3, 0.5], atol=0.03)
    b = D.Categorical(logits=lt.zeros(2, 3))
    assert b.batch_shape == (2,) and b.sample((5,)).shape == (5, 2) and b.enumerate_support().shape == (3, 2)
    h = D.OneHotCategorical(probs=p)
    y = h.sample((6,))
    assert y.shape == (6, 3) and y.sum(-1).tolist() == [1.0] * 6
    np.testing.assert_allclose(h.log_prob(y).numpy(), d.log_prob(y.argmax(-1)).numpy())
    m = D.Multinomial(10, probs=p)
    assert m.sample((4,)).sum(-1).tolist() == [10.0] * 4
    np.testing.assert_allclose(m.log_prob(T(2, 3, 5)).item(), stats.multinomial(10, [0.2, 0.3, 0.5]).logpmf([2, 3, 5]), rtol=1e-6)


def test_categorical_policy_gradient():
    logits = lt.zeros(1, 3, requires_grad=True)
    D.Categorical(logits=logits).log_prob(lt.tensor([1])).sum().backward()
    np.testing.assert_allclose(logits.grad.numpy(), [[-1 / 3, 2 / 3, -1 / 3]], rtol=1e-5)


@pytest.mark.parametrize("kind", ["scale_tril", "covariance_matrix", "precision_matrix"])
def test_multivariate_normal(kind):
    cov = tril() @ tril().mT
    given = {"scale_tril": tril(), "covariance_matrix": cov, "precision_matrix": lt.linalg.inv(cov)}[kind]
    d = D.MultivariateNormal(T(1.0, -1.0), **{kind: given})
    ref = stats.multivariate_normal([1.0, -1.0], cov.numpy())
    x = [[0.3, 0.2], [2.0, 1.0]]
    np.testing.assert_allclose(d.log_prob(lt.tensor(x, dtype=lt.float64)).numpy(), ref.logpdf(x), rtol=1e-6)
    np.testing.assert_allclose(d.entropy().item(), ref.entropy(), rtol=1e-6)
    np.testing.assert_allclose(d.scale_tril.numpy(), tril().numpy(), atol=1e-9)
    np.testing.assert_allclose(np.cov(d.sample((4000,)).numpy().T), cov.numpy(), atol=0.4)


def test_dirichlet():
    a = [1.0, 2.0, 3.0]
    d, ref = D.Dirichlet(T(*a)), stats.dirichlet(a)
    np.testing.assert_allclose(d.log_prob(T(0.2, 0.3, 0.5)).item(), ref.logpdf([0.2, 0.3, 0.5]), rtol=1e-6)
    np.testing.assert_allclose(d.entropy().item(), ref.entropy(), rtol=1e-6)
    np.testing.assert_allclose(d.sample((5,)).sum(-1).numpy(), 1, rtol=1e-6)


def test_independent_and_transformed():
    base = D.Normal(lt.zeros(3, 2), lt.ones(3, 2))
    d = D.Independent(base, 1)
    assert (d.batch_shape, d.event_shape) == ((3,), (2,)) and d.log_prob(lt.zeros(3, 2)).shape == (3,)
    x = T(0.3)
    t = D.TransformedDistribution(D.Normal(T(0.0), T(1.0)), [D.TanhTransform(cache_size=1)])
    want = stats.norm.logpdf(np.arctanh(0.3)) - np.log(1 - 0.3**2)
    np.testing.assert_allclose(t.log_prob(x).item(), want, rtol=1e-6)
    s = D.TransformedDistribution(D.Normal(lt.zeros(2), lt.ones(2)), D.StickBreakingTransform())
    assert s.event_shape == (3,) and abs(s.rsample().sum().item() - 1) < 1e-5


@pytest.mark.parametrize("make", [D.ExpTransform, D.SigmoidTransform, D.SoftplusTransform, D.TanhTransform,
                                  lambda: D.AffineTransform(1.0, -2.0)], ids=["exp", "sigmoid", "softplus", "tanh", "affine"])
def test_transforms_invert_and_their_jacobian_is_autograds(make):
    t = make()
    x = T(-0.7, 0.4).requires_grad_(True)
    y = t(x)
    np.testing.assert_allclose(t.inv(y).detach().numpy(), x.detach().numpy(), rtol=1e-6)
    g, = lt.autograd.grad(y.sum(), x)
    np.testing.assert_allclose(t.log_abs_det_jacobian(x, y).detach().numpy(), np.log(np.abs(g.numpy())), rtol=1e-6)


PAIRS = [(D.Normal(T(0.0), T(1.0)), D.Normal(T(1.0), T(2.0))), (D.Gamma(T(2.0), T(1.0)), D.Gamma(T(3.0), T(2.0))),
         (D.Beta(T(2.0), T(3.0)), D.Beta(T(1.5), T(1.5))), (D.Exponential(T(1.0)), D.Exponential(T(2.0))),
         (D.Laplace(T(0.0), T(1.0)), D.Laplace(T(1.0), T(2.0))), (D.Bernoulli(T(0.3)), D.Bernoulli(T(0.6))),
         (D.Poisson(T(2.0)), D.Poisson(T(3.0))), (D.Uniform(T(0.0), T(1.0)), D.Normal(T(0.0), T(1.0))),
         (D.Gumbel(T(0.0), T(1.0)), D.Gumbel(T(0.5), T(2.0))), (D.Geometric(T(0.3)), D.Geometric(T(0.5)))]


@pytest.mark.parametrize("p, q", PAIRS, ids=[f"{type(p).__name__}-{type(q).__name__}" for p, q in PAIRS])
def test_kl_is_the_mean_log_ratio(p, q):
    lt.manual_seed(2)
    x = p.sample((20_000,))
    r = (p.log_prob(x) - q.log_prob(x)).numpy()
    assert abs(D.kl_divergence(p, q).item() - r.mean()) < 5 * r.std() / math.sqrt(len(r)) + 1e-9


def test_kl_of_pairs():
    c = D.kl_divergence(D.Categorical(T(0.5, 0.5)), D.Categorical(T(0.25, 0.75))).item()
    np.testing.assert_allclose(c, stats.entropy([0.5, 0.5], [0.25, 0.75]), rtol=1e-6)
    m = D.kl_divergence(D.MultivariateNormal(T(0.0, 0.0), scale_tril=tril()), D.MultivariateNormal(T(1.0, 0.0), lt.eye(2).double()))
    cov = (tril() @ tril().mT).numpy()
    np.testing.assert_allclose(m.item(), 0.5 * (np.trace(cov) + 1 - 2 - np.log(np.linalg.det(cov))), rtol=1e-6)
    with pytest.raises(NotImplementedError, match="p type Normal and q type Cauchy"):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Cauchy(0.0, 1.0))


def test_arguments_are_checked_on_the_host_only_unless_asked(counts):
    words = (r"Expected parameter scale \(Tensor of shape \(\)\) of distribution Normal\(loc: 0.0, scale: -1.0\) to satisfy the "
             r"constraint GreaterThan\(lower_bound=0.0\), but found invalid values:\n-1.0")
    with pytest.raises(ValueError, match=words):
        D.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="Either `probs` or `logits`"):
        D.Categorical()
    with pytest.raises(ValueError, match="within the support"):
        D.Bernoulli(0.5).log_prob(lt.tensor(3.0))
    with pytest.raises(ValueError, match="not broadcastable"):
        D.Normal(lt.zeros(2), 1.0).log_prob(lt.zeros(3))
    bad = lt.tensor([-1.0], device="xla")
    before = counts.transfers_from_device
    D.Normal(bad * 0, bad).log_prob(bad)
    assert counts.transfers_from_device == before
    with pytest.raises(ValueError, match="parameter scale"):
        D.Normal(bad * 0, bad, validate_args=True)


def test_expand_and_mixture():
    assert D.Normal(0.0, 1.0).expand((3, 2)).sample().shape == (3, 2)
    assert D.Categorical(logits=lt.zeros(4)).expand((3,)).sample().shape == (3,)
    m = D.MixtureSameFamily(D.Categorical(T(0.3, 0.7)), D.Normal(T(-1.0, 2.0), T(1.0, 0.5)))
    want = np.log(0.3 * stats.norm.pdf(0.5, -1, 1) + 0.7 * stats.norm.pdf(0.5, 2, 0.5))
    np.testing.assert_allclose(m.log_prob(lt.tensor(0.5, dtype=lt.float64)).item(), want, rtol=1e-6)
    assert m.sample((5,)).shape == (5,) and abs(m.mean.item() - 1.1) < 1e-9


def test_modules_by_torchs_names():
    from lazy_tensor.distributions.categorical import Categorical
    from lazy_tensor.distributions.normal import Normal
    assert Categorical is D.Categorical and Normal is D.Normal
    assert repr(D.Categorical(T(0.5, 0.5))) == "Categorical(probs: torch.Size([2]))"

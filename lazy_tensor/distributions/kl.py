"""kl_divergence: closed forms for pairs of distributions, found by type."""
from __future__ import annotations

import math
from collections.abc import Callable

import lazy_tensor as lt

from .continuous import Cauchy, Gumbel, HalfNormal, Laplace, Normal, Uniform
from .discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from .distribution import Distribution, Independent, sum_rightmost
from .gamma import Beta, Dirichlet, Exponential, Gamma
from .multivariate_normal import MultivariateNormal
from .transformed import LogNormal, Pareto, TransformedDistribution

_REGISTRY: dict[tuple[type, type], Callable] = {}


def register_kl(type_p, type_q):
    """Decorator: the KL divergence of a pair of types (subclasses included)."""
    for t in (type_p, type_q):
        if not (isinstance(t, type) and issubclass(t, Distribution)):
            raise TypeError(f"Expected type to be a Distribution subclass but got {t}")

    def keep(fn):
        _REGISTRY[type_p, type_q] = fn
        return fn
    return keep


def kl_divergence(p, q):
    """KL(p || q) = E_p[log p - log q], of the batch shape. NotImplementedError for pairs with no known form."""
    best, rank = None, None
    for (a, b), fn in _REGISTRY.items():
        if isinstance(p, a) and isinstance(q, b):
            r = type(p).__mro__.index(a) + type(q).__mro__.index(b)
            if rank is None or r < rank:
                best, rank = fn, r
    if best is None:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}")
    return best(p, q)


@register_kl(Normal, Normal)
def _normal(p, q):
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p, q):
    return _normal(p.base_dist, q.base_dist)


@register_kl(LogNormal, LogNormal)
def _log_normal(p, q):
    return _normal(p.base_dist, q.base_dist)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("KL of transformed distributions needs the same transforms")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    ratio, d = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + d / q.scale + ratio * lt.exp(-d / p.scale) - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p, q):
    return (((p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2) / (4 * p.scale * q.scale)).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p, q):
    euler = 0.57721566490153286
    r, u, v = p.scale / q.scale, q.loc / q.scale, p.loc / q.scale
    return -r.log() - u + v + r * euler + lt.exp(u + lt.lgamma(1 + r) - v) - (1 + euler)


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    r = ((q.high - q.low) / (p.high - p.low)).log()
    return lt.where((q.low > p.low) | (q.high < p.high), math.inf, r)


@register_kl(Uniform, Normal)
def _uniform_normal(p, q):
    width = p.high - p.low
    t = (math.sqrt(2 * math.pi) * q.scale / width).log()
    return t + 0.5 * ((width / q.scale) ** 2 / 12 + ((p.high + p.low - 2 * q.loc) / (2 * q.scale)) ** 2)


@register_kl(Exponential, Exponential)
def _exponential(p, q):
    r = q.rate / p.rate
    return r - r.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p, q):
    return (q.concentration * (p.rate / q.rate).log() + lt.lgamma(q.concentration) - lt.lgamma(p.concentration)
            + (p.concentration - q.concentration) * lt.digamma(p.concentration) + (q.rate - p.rate) * (p.concentration / p.rate))


@register_kl(Beta, Beta)
def _beta(p, q):
    a, b, c, d = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    return (lt.lgamma(c) + lt.lgamma(d) + lt.lgamma(a + b) - lt.lgamma(c + d) - lt.lgamma(a) - lt.lgamma(b)
            + (a - c) * lt.digamma(a) + (b - d) * lt.digamma(b) + (c + d - a - b) * lt.digamma(a + b))


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p, q):
    a, b = p.concentration, q.concentration
    t = lt.digamma(a) - lt.digamma(a.sum(-1, keepdim=True))
    return (lt.lgamma(a.sum(-1)) - lt.lgamma(b.sum(-1)) - (lt.lgamma(a) - lt.lgamma(b)).sum(-1) + ((a - b) * t).sum(-1))


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    soft = lt.nn.functional.softplus
    t1 = lt.where(q.probs == 0, math.inf, p.probs * (soft(-q.logits) - soft(-p.logits)))
    t1 = lt.where(p.probs == 0, 0.0, t1)
    t2 = lt.where(q.probs == 1, math.inf, (1 - p.probs) * (soft(q.logits) - soft(p.logits)))
    return t1 + lt.where(p.probs == 1, 0.0, t2)


@register_kl(Binomial, Binomial)
def _binomial(p, q):
    r = p.total_count * (p.probs * (p.logits - q.logits) + lt.log1p(-p.probs) - lt.log1p(-q.probs))
    return lt.where(p.total_count > q.total_count, math.inf, r)


@register_kl(Geometric, Geometric)
def _geometric(p, q):
    return -p.entropy() - lt.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Categorical, Categorical)
def _categorical(p, q):
    t = p.probs * (p.logits - q.logits)
    t = lt.where(q.probs == 0, math.inf, t)
    return lt.where(p.probs == 0, 0.0, t).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p, q):
    return _categorical(p._categorical, q._categorical)


@register_kl(Pareto, Pareto)
def _pareto(p, q):
    r = p.scale / q.scale
    a = q.alpha / p.alpha
    return lt.where(p.scale < q.scale, math.inf, q.alpha * r.log() - a.log() + a - 1)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two Multivariate Normals with different event shapes cannot be computed")
    n = p.event_shape[0]
    shape = lt.broadcast_shapes(tuple(p.batch_shape), tuple(q.batch_shape))
    a, b = p.scale_tril.expand((*shape, n, n)), q.scale_tril.expand((*shape, n, n))
    m = lt.linalg.solve_triangular(b, a, upper=False)
    d = lt.linalg.solve_triangular(b, (q.loc - p.loc).expand((*shape, n)).unsqueeze(-1), upper=False)
    return q._half_logdet() - p._half_logdet() + 0.5 * ((m * m).sum((-2, -1)) + (d * d).sum((-2, -1)) - n)


@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL of Independent distributions needs the same reinterpreted_batch_ndims")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)

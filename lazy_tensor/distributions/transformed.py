"""Distributions made of others: transformed, log-normal, mixtures, and some named after their transform."""
from __future__ import annotations

import math

import lazy_tensor as lt
from lazy_tensor.dtypes import Size

from . import constraints
from .continuous import Normal, Uniform
from .discrete import Categorical
from .distribution import Distribution, Independent, broadcast_all, sum_rightmost
from .gamma import Exponential, Gamma
from .transforms import AffineTransform, ComposeTransform, ExpTransform, PowerTransform, SigmoidTransform, StickBreakingTransform, Transform


class TransformedDistribution(Distribution):
    """The distribution of transforms applied to a draw of base_distribution (torch.distributions.TransformedDistribution).

    Example::

        TransformedDistribution(Normal(mu, std), [TanhTransform(cache_size=1)])
    """

    arg_constraints: dict = {}

    def __init__(self, base_distribution, transforms, validate_args=None):
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(f"transforms must be a Transform or a list, but was {transforms}")
        shape = base_distribution.batch_shape + base_distribution.event_shape
        t = ComposeTransform(self.transforms)
        if len(shape) < t.domain.event_dim:
            raise ValueError(f"base_distribution needs to have shape with size at least {t.domain.event_dim}, but got {shape}.")
        forward = tuple(t.forward_shape(shape))
        expanded = tuple(t.inverse_shape(forward))
        base_event = len(base_distribution.event_shape)
        if tuple(shape) != expanded:
            base_distribution = base_distribution.expand(expanded[:len(expanded) - base_event])
        extra = t.domain.event_dim - base_event
        self.base_dist = Independent(base_distribution, extra) if extra > 0 else base_distribution
        event = max(t.codomain.event_dim, t.codomain.event_dim - t.domain.event_dim + base_event)
        cut = len(forward) - event
        super().__init__(forward[:cut], forward[cut:], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(batch_shape)
        t = ComposeTransform(self.transforms)
        shape = tuple(t.inverse_shape(tuple(batch_shape) + tuple(self.event_shape)))
        new.base_dist = self.base_dist.expand(shape[:len(shape) - len(self.base_dist.event_shape)])
        return new

    @property
    def has_rsample(self):
        return self.base_dist.has_rsample

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        c = self.transforms[-1].codomain
        extra = len(self.event_shape) - c.event_dim
        return constraints.independent(c, extra) if extra > 0 else c

    def sample(self, sample_shape=Size()):
        with lt.no_grad():
            x = self.base_dist.sample(sample_shape)
            for t in self.transforms:
                x = t(x)
            return x

    def rsample(self, sample_shape=Size()):
        x = self.base_dist.rsample(sample_shape)
        for t in self.transforms:
            x = t(x)
        return x

    def log_prob(self, value):
        self._validate_sample(value)
        event = len(self.event_shape)
        total, y = 0.0, value
        for t in reversed(self.transforms):
            x = t.inv(y)
            event += t.domain.event_dim - t.codomain.event_dim
            total = total - sum_rightmost(t.log_abs_det_jacobian(x, y), event - t.domain.event_dim)
            y = x
        return total + sum_rightmost(self.base_dist.log_prob(y), event - len(self.base_dist.event_shape))

    def _flip(self, value):
        sign = 1
        for t in self.transforms:
            sign = sign * t.sign
        return value if isinstance(sign, (int, float)) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value):
        for t in reversed(self.transforms):
            value = t.inv(value)
        return self._flip(self.base_dist.cdf(value))

    def icdf(self, value):
        value = self.base_dist.icdf(self._flip(value))
        for t in self.transforms:
            value = t(value)
        return value

    def __repr__(self):
        return f"{type(self).__name__}()" if not self.arg_constraints else super().__repr__()


class LogNormal(TransformedDistribution):
    """exp of a normal number (torch.distributions.LogNormal)."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive

    def __init__(self, loc, scale, validate_args=None):
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    loc = property(lambda self: self.base_dist.loc)
    scale = property(lambda self: self.base_dist.scale)

    @property
    def mean(self):
        return (self.loc + self.scale ** 2 / 2).exp()

    @property
    def mode(self):
        return (self.loc - self.scale ** 2).exp()

    @property
    def variance(self):
        s = self.scale ** 2
        return s.expm1() * (2 * self.loc + s).exp()

    def entropy(self):
        return self.base_dist.entropy() + self.loc


class LogitNormal(TransformedDistribution):
    """Sigmoid of a normal number."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.unit_interval

    def __init__(self, loc, scale, validate_args=None):
        super().__init__(Normal(loc, scale, validate_args=validate_args), SigmoidTransform(), validate_args=validate_args)

    loc = property(lambda self: self.base_dist.loc)
    scale = property(lambda self: self.base_dist.scale)


class Pareto(TransformedDistribution):
    """scale * exp(e / alpha) for e standard exponential (torch.distributions.Pareto)."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale, alpha, validate_args=None):
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, [ExpTransform(), AffineTransform(loc=0, scale=self.scale)], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return Pareto(self.scale.expand(batch_shape), self.alpha.expand(batch_shape), validate_args=False)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self):
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self):
        return self.scale

    @property
    def variance(self):
        a = self.alpha.clamp(min=2)
        return self.scale ** 2 * a / ((a - 1) ** 2 * (a - 2))

    def entropy(self):
        return (self.scale / self.alpha).log() + (1 + 1 / self.alpha)


class Weibull(TransformedDistribution):
    """scale * e ** (1 / concentration) for e standard exponential (torch.distributions.Weibull)."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale, concentration, validate_args=None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(lt.ones_like(self.scale), validate_args=validate_args)
        super().__init__(base, [PowerTransform(exponent=1 / self.concentration), AffineTransform(loc=0, scale=self.scale)],
                         validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return Weibull(self.scale.expand(batch_shape), self.concentration.expand(batch_shape), validate_args=False)

    @property
    def mean(self):
        return self.scale * lt.exp(lt.lgamma(1 + 1 / self.concentration))

    @property
    def mode(self):
        k = self.concentration
        return self.scale * ((k - 1) / k) ** (1 / k)

    @property
    def variance(self):
        k = self.concentration
        return self.scale ** 2 * (lt.exp(lt.lgamma(1 + 2 / k)) - lt.exp(2 * lt.lgamma(1 + 1 / k)))

    def entropy(self):
        k = self.concentration
        return 0.57721566490153286 * (1 - 1 / k) + lt.log(self.scale / k) + 1


class InverseGamma(TransformedDistribution):
    """1 / x of a gamma x (torch.distributions.InverseGamma)."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive

    def __init__(self, concentration, rate, validate_args=None):
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-1.0), validate_args=validate_args)

    concentration = property(lambda self: self.base_dist.concentration)
    rate = property(lambda self: self.base_dist.rate)

    @property
    def mean(self):
        return lt.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    @property
    def mode(self):
        return self.rate / (self.concentration + 1)

    @property
    def variance(self):
        a = self.concentration
        return lt.where(a > 2, self.rate ** 2 / ((a - 1) ** 2 * (a - 2)), math.inf)

    def entropy(self):
        a = self.concentration
        return a + self.rate.log() + lt.lgamma(a) - (1 + a) * lt.digamma(a)


class Kumaraswamy(TransformedDistribution):
    """(1 - (1 - u) ** (1 / b)) ** (1 / a) for u uniform (torch.distributions.Kumaraswamy)."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(lt.zeros_like(self.concentration0), lt.ones_like(self.concentration0), validate_args=False)
        super().__init__(base, [PowerTransform(exponent=1 / self.concentration0), AffineTransform(loc=1.0, scale=-1.0),
                                PowerTransform(exponent=1 / self.concentration1)], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return Kumaraswamy(self.concentration1.expand(batch_shape), self.concentration0.expand(batch_shape), validate_args=False)

    def _moment(self, n):
        b = self.concentration0
        arg = 1 + n / self.concentration1
        return lt.exp(b.log() + lt.lgamma(arg) + lt.lgamma(b) - lt.lgamma(arg + b))

    @property
    def mean(self):
        return self._moment(1)

    @property
    def variance(self):
        return self._moment(2) - self.mean ** 2


class MixtureSameFamily(Distribution):
    """A mixture: which component, a Categorical; what it gives, the last batch dimension of component_distribution
    (torch.distributions.MixtureSameFamily)."""

    arg_constraints: dict = {}

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        m, c = mixture_distribution, component_distribution
        if not isinstance(m, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(c, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        k = m.logits.shape[-1]
        if not c.batch_shape or c.batch_shape[-1] != k:
            raise ValueError(f"`mixture_distribution component` ({k}) does not equal `component_distribution.batch_shape[-1]` "
                             f"({c.batch_shape[-1] if c.batch_shape else None})")
        self._mixture_distribution, self._component_distribution = m, c
        self._event_ndims = len(c.event_shape)
        super().__init__(c.batch_shape[:-1], c.event_shape, validate_args=validate_args)

    mixture_distribution = property(lambda self: self._mixture_distribution)
    component_distribution = property(lambda self: self._component_distribution)
    has_rsample = False

    def expand(self, batch_shape, _instance=None):
        k = self._component_distribution.batch_shape[-1]
        return MixtureSameFamily(self._mixture_distribution.expand(batch_shape),
                                 self._component_distribution.expand((*batch_shape, k)), validate_args=False)

    @constraints.dependent_property
    def support(self):
        return self._component_distribution.support

    def _probs(self):
        p = self._mixture_distribution.probs
        return p.reshape(tuple(p.shape) + (1,) * self._event_ndims)

    @property
    def mean(self):
        return (self._probs() * self._component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self):
        c, p, at = self._component_distribution, self._probs(), -1 - self._event_ndims
        return (p * c.variance).sum(at) + (p * (c.mean - self.mean.unsqueeze(at)) ** 2).sum(at)

    def cdf(self, x):
        return (self._component_distribution.cdf(x.unsqueeze(-1 - self._event_ndims)) * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x):
        self._validate_sample(x)
        parts = self._component_distribution.log_prob(x.unsqueeze(-1 - self._event_ndims))
        return lt.logsumexp(parts + lt.log_softmax(self._mixture_distribution.logits, dim=-1), dim=-1)

    def sample(self, sample_shape=Size()):
        with lt.no_grad():
            n, event = len(sample_shape) + len(self.batch_shape), tuple(self.event_shape)
            which = self._mixture_distribution.sample(sample_shape)
            values = self._component_distribution.sample(sample_shape)
            index = which.reshape(tuple(which.shape) + (1,) * (len(event) + 1)).expand(tuple(which.shape) + (1,) + event)
            return values.gather(n, index).squeeze(n)


class LogisticNormal(TransformedDistribution):
    """Points of a simplex: a normal vector through stick breaking (torch.distributions.LogisticNormal)."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base if base.batch_shape else base.expand([1]), StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self):
        """The normal vector's mean."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self):
        """The normal vector's deviations."""
        return self.base_dist.base_dist.scale

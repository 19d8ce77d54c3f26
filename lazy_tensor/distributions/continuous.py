"""Continuous distributions with a location and a scale, and the uniform one."""
from __future__ import annotations

import math

import lazy_tensor as lt
from lazy_tensor.dtypes import Size
from lazy_tensor.ops.distributions import draw_exponential, draw_gamma, draw_normal, draw_uniform

from . import constraints
from .distribution import Distribution, ExponentialFamily, broadcast_all

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_EULER = 0.57721566490153286


class _LocScale(Distribution):
    """loc + scale * (a standard draw); subclasses say what the standard one is."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def _standard(self, shape):
        raise NotImplementedError

    def rsample(self, sample_shape=Size()):
        return self.loc + self.scale * self._standard(self._extended_shape(sample_shape))

    def _z(self, value):
        self._validate_sample(value)
        return (value - self.loc) / self.scale

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc


class Normal(_LocScale, ExponentialFamily):
    """The normal distribution with mean loc and standard deviation scale (torch.distributions.Normal).

    Example::

        Normal(lt.tensor([0.0]), lt.tensor([1.0])).rsample()
    """

    def _standard(self, shape):
        return draw_normal(self.loc.detach(), shape)

    @property
    def stddev(self):
        return self.scale

    @property
    def variance(self):
        return self.scale ** 2

    def log_prob(self, value):
        z = self._z(value)
        return -0.5 * z * z - self.scale.log() - _HALF_LOG_2PI

    def cdf(self, value):
        return 0.5 * (1 + lt.erf(self._z(value) * (1 / math.sqrt(2))))

    def icdf(self, value):
        return self.loc + self.scale * lt.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self):
        return 0.5 + _HALF_LOG_2PI + self.scale.log()


class Laplace(_LocScale):
    """The Laplace distribution (torch.distributions.Laplace)."""

    def _standard(self, shape):
        u = draw_uniform(self.loc.detach(), shape) - 0.5
        return -u.sign() * lt.log1p(-2 * u.abs().clamp(max=0.5 * (1 - lt.finfo(self.loc.dtype).eps)))

    @property
    def variance(self):
        return 2 * self.scale ** 2

    def log_prob(self, value):
        return -lt.log(2 * self.scale) - self._z(value).abs()

    def cdf(self, value):
        z = self._z(value)
        return 0.5 - 0.5 * z.sign() * lt.expm1(-z.abs())

    def icdf(self, value):
        t = value - 0.5
        return self.loc - self.scale * t.sign() * lt.log1p(-2 * t.abs())

    def entropy(self):
        return 1 + lt.log(2 * self.scale)


class Cauchy(_LocScale):
    """The Cauchy distribution; it has no mean (torch.distributions.Cauchy)."""

    def _standard(self, shape):
        return lt.tan(math.pi * (draw_uniform(self.loc.detach(), shape) - 0.5))

    @property
    def mean(self):
        return lt.full_like(self.loc, math.nan)

    @property
    def variance(self):
        return lt.full_like(self.loc, math.inf)

    def log_prob(self, value):
        return -math.log(math.pi) - self.scale.log() - lt.log1p(self._z(value) ** 2)

    def cdf(self, value):
        return lt.atan(self._z(value)) / math.pi + 0.5

    def icdf(self, value):
        return lt.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocScale):
    """The Gumbel distribution (torch.distributions.Gumbel)."""

    def _standard(self, shape):
        return -lt.log(draw_exponential(self.loc.detach(), shape).clamp(min=lt.finfo(self.loc.dtype).tiny))

    @property
    def mean(self):
        return self.loc + self.scale * _EULER

    @property
    def variance(self):
        return (math.pi ** 2 / 6) * self.scale ** 2

    def log_prob(self, value):
        y = -self._z(value)
        return y - y.exp() - self.scale.log()

    def cdf(self, value):
        return lt.exp(-lt.exp(-self._z(value)))

    def icdf(self, value):
        return self.loc - self.scale * lt.log(-lt.log(value))

    def entropy(self):
        return self.scale.log() + (1 + _EULER)


class StudentT(Distribution):
    """Student's t with df degrees of freedom, shifted and scaled (torch.distributions.StudentT)."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.size(), validate_args=validate_args)

    @property
    def mean(self):
        return lt.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        large = lt.where(self.df > 2, self.df, 3.0)
        m = lt.where(self.df > 2, self.scale ** 2 * large / (large - 2), math.inf)
        return lt.where(self.df > 1, m, math.nan)

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        x = draw_normal(self.loc.detach(), shape)
        z = 2 * draw_gamma(0.5 * self.df, shape)
        return self.loc + self.scale * x * lt.rsqrt(z / self.df)

    def log_prob(self, value):
        self._validate_sample(value)
        y = (value - self.loc) / self.scale
        norm = (self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + lt.lgamma(0.5 * self.df)
                - lt.lgamma(0.5 * (self.df + 1)))
        return -0.5 * (self.df + 1) * lt.log1p(y ** 2 / self.df) - norm

    def entropy(self):
        lbeta = lt.lgamma(0.5 * self.df) + math.lgamma(0.5) - lt.lgamma(0.5 * (self.df + 1))
        return (self.scale.log() + 0.5 * (self.df + 1) * (lt.digamma(0.5 * (self.df + 1)) - lt.digamma(0.5 * self.df))
                + 0.5 * self.df.log() + lbeta)


class Uniform(Distribution):
    """Equal density on [low, high) (torch.distributions.Uniform)."""

    arg_constraints = {"low": constraints.dependent, "high": constraints.dependent}
    has_rsample = True

    def __init__(self, low, high, validate_args=None):
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.size(), validate_args=validate_args)
        if self._checks(self.low) and not bool((self.low < self.high).all()):
            raise ValueError("Uniform is not defined when low>= high")

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.interval(self.low, self.high)

    @property
    def mean(self):
        return (self.high + self.low) / 2

    @property
    def mode(self):
        return lt.full_like(self.high, math.nan)

    @property
    def stddev(self):
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self):
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape=Size()):
        return self.low + draw_uniform(self.low.detach(), self._extended_shape(sample_shape)) * (self.high - self.low)

    def log_prob(self, value):
        self._validate_sample(value)
        inside = (self.low <= value) & (self.high > value)
        return lt.log(inside.type_as(self.low)) - lt.log(self.high - self.low)

    def cdf(self, value):
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value):
        return value * (self.high - self.low) + self.low

    def entropy(self):
        return lt.log(self.high - self.low)


class _Half(Distribution):
    """|x| of a symmetric distribution around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _base: type

    def __init__(self, scale, validate_args=None):
        self.scale, = broadcast_all(scale)
        self.base_dist = self._base(lt.zeros_like(self.scale), self.scale, validate_args=False)
        super().__init__(self.scale.size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return type(self)(self.scale.expand(batch_shape), validate_args=False)

    @property
    def mode(self):
        return lt.zeros_like(self.scale)

    def rsample(self, sample_shape=Size()):
        return self.base_dist.rsample(sample_shape).abs()

    def log_prob(self, value):
        self._validate_sample(value)
        return lt.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value):
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value):
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """|x| of a normal x (torch.distributions.HalfNormal)."""

    _base = Normal

    @property
    def mean(self):
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self):
        return self.scale ** 2 * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """|x| of a Cauchy x (torch.distributions.HalfCauchy)."""

    _base = Cauchy

    @property
    def mean(self):
        return lt.full_like(self.scale, math.inf)

    @property
    def variance(self):
        return lt.full_like(self.scale, math.inf)

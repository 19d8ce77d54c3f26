"""Continuous distributions with particular supports: the unit interval, a tail, the circle."""
from __future__ import annotations

import math

import lazy_tensor as lt
from lazy_tensor.dtypes import Size
from lazy_tensor.nn import functional as F
from lazy_tensor.ops.distributions import draw_uniform, draw_von_mises

from . import constraints
from .discrete import _Binary
from .distribution import Distribution, broadcast_all, clamp_probs


class ContinuousBernoulli(_Binary):
    """The density proportional to p^x (1 - p)^(1 - x) on [0, 1] (torch.distributions.ContinuousBernoulli).

    Between lims, near p = 1/2, moments and normalizer are Taylor polynomials."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        self._lims = lims
        self._set(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)
        if self._param_is_probs:
            self.probs = clamp_probs(self.probs)

    def _outside(self):
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut(self):
        return lt.where(self._outside(), self.probs, self._lims[0])

    def _log_norm(self):
        p = self._cut()
        low = lt.where(p <= 0.5, p, 0.0)
        high = lt.where(p > 0.5, p, 1.0)
        log_norm = (lt.log1p(-p) - p.log()).abs().log() - lt.where(p <= 0.5, lt.log1p(-2.0 * low), (2.0 * high - 1.0).log())
        x = (self.probs - 0.5) ** 2
        return lt.where(self._outside(), log_norm, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self):
        p, x = self._cut(), self.probs - 0.5
        return lt.where(self._outside(), p / (2.0 * p - 1.0) + 1.0 / (lt.log1p(-p) - p.log()), 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x ** 2) * x)

    @property
    def stddev(self):
        return self.variance.sqrt()

    @property
    def variance(self):
        p, x = self._cut(), (self.probs - 0.5) ** 2
        far = p * (p - 1.0) / (1.0 - 2.0 * p) ** 2 + 1.0 / (lt.log1p(-p) - p.log()) ** 2
        return lt.where(self._outside(), far, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def rsample(self, sample_shape=Size()):
        return self.icdf(draw_uniform(self.probs.detach(), self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none") + self._log_norm()

    def cdf(self, value):
        self._validate_sample(value)
        p = self._cut()
        far = (p ** value * (1.0 - p) ** (1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inner = lt.where(self._outside(), far, value)
        return lt.where(value <= 0.0, 0.0, lt.where(value >= 1.0, 1.0, inner))

    def icdf(self, value):
        p = self._cut()
        far = (lt.log1p(-p + value * (2.0 * p - 1.0)) - lt.log1p(-p)) / (p.log() - lt.log1p(-p))
        return lt.where(self._outside(), far, value)

    def entropy(self):
        log0 = lt.log1p(-self.probs)
        return self.mean * (log0 - self.probs.log()) - self._log_norm() - log0


class GeneralizedPareto(Distribution):
    """Excesses over a threshold: loc, scale and the tail's concentration, 0 an exponential tail (torch.distributions.GeneralizedPareto)."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc, scale, concentration, validate_args=None):
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        """From loc on; to loc - scale / concentration where that is negative."""
        ends = self.concentration < 0
        return constraints.interval(self.loc, lt.where(ends, self.loc - self.scale / lt.where(ends, self.concentration, -1.0), math.inf))

    def _tail(self):
        """Whether the concentration is 0, and one that is safe to divide by."""
        flat = lt.isclose(self.concentration, lt.zeros_like(self.concentration))
        return flat, lt.where(flat, 1.0, self.concentration)

    def _log_survival(self, value):
        y = (value - self.loc) / self.scale
        flat, c = self._tail()
        return lt.where(flat, -y, -lt.log1p(c * y) / c)

    def log_prob(self, value):
        self._validate_sample(value)
        y = (value - self.loc) / self.scale
        flat, c = self._tail()
        return -self.scale.log() - lt.where(flat, y, (1.0 / c + 1.0) * lt.log1p(c * y))

    def cdf(self, value):
        self._validate_sample(value)
        return -lt.expm1(self._log_survival(value))

    def icdf(self, value):
        flat, c = self._tail()
        log = lt.log1p(-value)
        return self.loc + self.scale * lt.where(flat, -log, lt.expm1(-c * log) / c)

    def rsample(self, sample_shape=Size()):
        return self.icdf(draw_uniform(self.loc.detach(), self._extended_shape(sample_shape)))

    @property
    def mean(self):
        c = self.concentration
        return lt.where(c < 1, self.loc + self.scale / (1.0 - lt.where(c < 1, c, 0.0)), math.nan)

    @property
    def variance(self):
        c = lt.where(self.concentration < 0.5, self.concentration, 0.0)
        return lt.where(self.concentration < 0.5, self.scale ** 2 / ((1.0 - c) ** 2 * (1.0 - 2.0 * c)), math.nan)

    @property
    def mode(self):
        return self.loc

    def entropy(self):
        return self.scale.log() + self.concentration + 1.0


class VonMises(Distribution):
    """The circular normal distribution of angles, on [-pi, pi) (torch.distributions.VonMises)."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc, concentration, validate_args=None):
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def log_prob(self, value):
        self._validate_sample(value)
        k = self.concentration
        return k * (lt.cos(value - self.loc) - 1.0) - math.log(2 * math.pi) - lt.special.i0e(k).log()

    def sample(self, sample_shape=Size()):
        with lt.no_grad():
            return draw_von_mises(self.loc, self.concentration, self._extended_shape(sample_shape))

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        """The circular variance 1 - I1(k) / I0(k)."""
        return 1.0 - lt.special.i1e(self.concentration) / lt.special.i0e(self.concentration)

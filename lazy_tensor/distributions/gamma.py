"""The gamma distribution and its relatives: exponential, chi-squared, beta, Dirichlet, F."""
from __future__ import annotations

import math

import lazy_tensor as lt
from lazy_tensor.dtypes import Size
from lazy_tensor.nn import functional as F
from lazy_tensor.ops.distributions import draw_dirichlet, draw_exponential, draw_gamma

from . import constraints
from .distribution import Distribution, ExponentialFamily, broadcast_all


class Gamma(ExponentialFamily):
    """The gamma distribution with shape `concentration` and inverse scale `rate` (torch.distributions.Gamma)."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration, rate, validate_args=None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.size(), validate_args=validate_args)

    @property
    def mean(self):
        return self.concentration / self.rate

    @property
    def mode(self):
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self):
        return self.concentration / self.rate ** 2

    def rsample(self, sample_shape=Size()):
        return draw_gamma(self.concentration, self._extended_shape(sample_shape)) / self.rate

    def log_prob(self, value):
        self._validate_sample(value)
        a = self.concentration
        return lt.xlogy(a, self.rate) + lt.xlogy(a - 1, value) - self.rate * value - lt.lgamma(a)

    def entropy(self):
        a = self.concentration
        return a - lt.log(self.rate) + lt.lgamma(a) + (1 - a) * lt.digamma(a)


class Chi2(Gamma):
    """The chi-squared distribution with df degrees of freedom (torch.distributions.Chi2)."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df, validate_args=None):
        df, = broadcast_all(df)
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self):
        """Degrees of freedom."""
        return self.concentration * 2


class Exponential(ExponentialFamily):
    """The exponential distribution with rate 1 / mean (torch.distributions.Exponential)."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate, validate_args=None):
        self.rate, = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self):
        return 1 / self.rate

    stddev = mean

    @property
    def mode(self):
        return lt.zeros_like(self.rate)

    @property
    def variance(self):
        return self.rate ** -2

    def rsample(self, sample_shape=Size()):
        return draw_exponential(self.rate.detach(), self._extended_shape(sample_shape)) / self.rate

    def log_prob(self, value):
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value):
        return 1 - lt.exp(-self.rate * value)

    def icdf(self, value):
        return -lt.log1p(-value) / self.rate

    def entropy(self):
        return 1 - lt.log(self.rate)


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution over points of a simplex (torch.distributions.Dirichlet).

    concentration: at least 1-d; its last dimension is the event's."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration, validate_args=None):
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self):
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self):
        less = (self.concentration - 1).clamp(min=0.0)
        mode = less / less.sum(-1, keepdim=True)
        none = (self.concentration < 1).all(-1)
        corner = F.one_hot(mode.nan_to_num().argmax(-1), self.concentration.shape[-1]).to(mode.dtype)
        return lt.where(none.unsqueeze(-1), corner, mode)

    @property
    def variance(self):
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total ** 2 * (total + 1))

    def rsample(self, sample_shape=Size()):
        return draw_dirichlet(self.concentration, self._extended_shape(sample_shape))

    def log_prob(self, value):
        self._validate_sample(value)
        a = self.concentration
        return lt.xlogy(a - 1.0, value).sum(-1) + lt.lgamma(a.sum(-1)) - lt.lgamma(a).sum(-1)

    def entropy(self):
        a = self.concentration
        k, a0 = a.shape[-1], a.sum(-1)
        return lt.lgamma(a).sum(-1) - lt.lgamma(a0) - (k - a0) * lt.digamma(a0) - ((a - 1.0) * lt.digamma(a)).sum(-1)


class Beta(ExponentialFamily):
    """The beta distribution on (0, 1) (torch.distributions.Beta)."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.size(), validate_args=validate_args)

    @property
    def _total(self):
        return self.concentration1 + self.concentration0

    @property
    def mean(self):
        return self.concentration1 / self._total

    @property
    def mode(self):
        return Dirichlet(lt.stack([self.concentration1, self.concentration0], -1), validate_args=False).mode[..., 0]

    @property
    def variance(self):
        total = self._total
        return self.concentration1 * self.concentration0 / (total ** 2 * (total + 1))

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        both = lt.stack([self.concentration1, self.concentration0], -1)
        return draw_dirichlet(both, (*shape, 2))[..., 0]

    def log_prob(self, value):
        self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        return lt.xlogy(a - 1, value) + lt.xlogy(b - 1, 1 - value) + lt.lgamma(a + b) - lt.lgamma(a) - lt.lgamma(b)

    def entropy(self):
        a, b = self.concentration1, self.concentration0
        return (lt.lgamma(a) + lt.lgamma(b) - lt.lgamma(a + b) - (a - 1) * lt.digamma(a) - (b - 1) * lt.digamma(b)
                + (a + b - 2) * lt.digamma(a + b))


class FisherSnedecor(Distribution):
    """The F distribution: the ratio of two chi-squared draws, each over its degrees of freedom (torch.distributions.FisherSnedecor)."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1, df2, validate_args=None):
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.size(), validate_args=validate_args)

    @property
    def mean(self):
        df2 = lt.where(self.df2 <= 2, math.nan, self.df2)
        return df2 / (df2 - 2)

    @property
    def mode(self):
        return lt.where(self.df1 <= 2, math.nan, (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2))

    @property
    def variance(self):
        df2 = lt.where(self.df2 <= 4, math.nan, self.df2)
        return 2 * df2 ** 2 * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2) ** 2 * (df2 - 4))

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        below = (draw_gamma(self.df2 * 0.5, shape) / self.df2).clamp(min=lt.finfo(self.df2.dtype).tiny)
        return (draw_gamma(self.df1 * 0.5, shape) / self.df1 / below).clamp(min=lt.finfo(self.df1.dtype).tiny)

    def log_prob(self, value):
        self._validate_sample(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        return (lt.lgamma(a + b) - lt.lgamma(a) - lt.lgamma(b) + a * ratio.log() + (a - 1) * value.log()
                - (a + b) * lt.log1p(ratio * value))

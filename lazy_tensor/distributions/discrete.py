"""Discrete distributions: Bernoulli, categorical, one-hot, binomial, geometric, Poisson, multinomial."""
from __future__ import annotations

import math

import lazy_tensor as lt
from lazy_tensor.dtypes import Size
from lazy_tensor.nn import functional as F
from lazy_tensor.ops.distributions import draw_bernoulli, draw_binomial, draw_categorical, draw_gamma, draw_poisson, draw_uniform

from . import constraints
from .distribution import (
    Distribution,
    ExponentialFamily,
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)


def _one_of(probs, logits):
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class _Binary(Distribution):
    """probs and logits of success, whichever was given."""

    def _set(self, probs, logits, *others):
        _one_of(probs, logits)
        self._param_is_probs = probs is not None
        *others, value = broadcast_all(*others, probs if probs is not None else logits)
        if self._param_is_probs:
            self.probs = value
        else:
            self.logits = value
        return others

    @property
    def _param(self):
        return self.probs if self._param_is_probs else self.logits

    def expand(self, batch_shape, _instance=None):
        for name in ("probs", "logits"):  # the derived one is derived again
            if name != ("probs" if self._param_is_probs else "logits"):
                self.__dict__.pop(name, None)
        return super().expand(batch_shape)

    @lazy_property
    def logits(self):
        """log(p / (1 - p))."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        """The probability of success."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self):
        """The parameter's shape."""
        return self._param.size()


class Bernoulli(_Binary, ExponentialFamily):
    """0 or 1, 1 with probability probs (or sigmoid(logits)) (torch.distributions.Bernoulli)."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._set(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self):
        return self.probs

    @property
    def mode(self):
        m = (self.probs >= 0.5).to(self.probs.dtype)
        return lt.where(self.probs == 0.5, math.nan, m)

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape=Size()):
        with lt.no_grad():
            return draw_bernoulli(self.probs, self._extended_shape(sample_shape))

    def log_prob(self, value):
        self._validate_sample(value)
        return value * self.logits - F.softplus(self.logits)

    def entropy(self):
        return F.softplus(self.logits) - self.probs * self.logits

    def enumerate_support(self, expand=True):
        values = lt.arange(2, dtype=self._param.dtype, device=self._param.device).view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + tuple(self._batch_shape)) if expand else values


class Geometric(_Binary):
    """Failures before the first success (torch.distributions.Geometric)."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._set(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)
        if self._param_is_probs and self._checks(self.probs) and not bool((self.probs > 0).all()):
            raise ValueError(f"Expected parameter probs of distribution {self!r} to be positive, but found invalid values:\n{self.probs}")

    @property
    def mean(self):
        return 1.0 / self.probs - 1.0

    @property
    def mode(self):
        return lt.zeros_like(self.probs)

    @property
    def variance(self):
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape=Size()):
        with lt.no_grad():
            u = draw_uniform(self.probs, self._extended_shape(sample_shape))
            return (u.log() / lt.log1p(-self.probs)).floor()

    def log_prob(self, value):
        self._validate_sample(value)
        p = self.probs
        return lt.where(value == 0, 0.0, value * lt.log1p(-lt.where((p == 1) & (value == 0), 0.0, p))) + p.log()

    def entropy(self):
        return Bernoulli(logits=self.logits, validate_args=False).entropy() / self.probs


class Binomial(_Binary):
    """Successes in total_count trials (torch.distributions.Binomial)."""

    arg_constraints = {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real}
    has_enumerate_support = True

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        self.total_count, = self._set(probs, logits, total_count)
        self.total_count = self.total_count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self):
        return self.total_count * self.probs

    @property
    def mode(self):
        return lt.minimum(((self.total_count + 1) * self.probs).floor(), self.total_count)

    @property
    def variance(self):
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape=Size()):
        with lt.no_grad():
            return draw_binomial(self.total_count, self.probs, self._extended_shape(sample_shape))

    def log_prob(self, value):
        self._validate_sample(value)
        n = self.total_count
        choose = lt.lgamma(n + 1) - lt.lgamma(value + 1) - lt.lgamma(n - value + 1)
        return choose + value * self.logits - n * F.softplus(self.logits)

    def entropy(self):
        n = int(self.total_count.max())
        if not bool((self.total_count == n).all()):
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        p = self.log_prob(self.enumerate_support(False))
        return -(lt.exp(p) * p).sum(0)

    def enumerate_support(self, expand=True):
        n = int(self.total_count.max())
        if not bool((self.total_count == n).all()):
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        values = lt.arange(n + 1, dtype=self._param.dtype, device=self._param.device).view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + tuple(self._batch_shape)) if expand else values


class Poisson(ExponentialFamily):
    """Counts with mean `rate` (torch.distributions.Poisson)."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate, validate_args=None):
        self.rate, = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self):
        return self.rate

    @property
    def mode(self):
        return self.rate.floor()

    @property
    def variance(self):
        return self.rate

    def sample(self, sample_shape=Size()):
        with lt.no_grad():
            return draw_poisson(self.rate, self._extended_shape(sample_shape))

    def log_prob(self, value):
        self._validate_sample(value)
        return lt.xlogy(value, self.rate) - self.rate - lt.lgamma(value + 1)


class Categorical(Distribution):
    """One of K classes, with probabilities along the last dimension of probs (or logits) (torch.distributions.Categorical).

    Example::

        d = Categorical(logits=policy(state)); a = d.sample(); loss = -d.log_prob(a) * advantage
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        _one_of(probs, logits)
        self._param_is_probs = probs is not None
        given = probs if probs is not None else logits
        if given.dim() < 1:
            raise ValueError(f"`{'probs' if probs is not None else 'logits'}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(-1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @property
    def _param(self):
        return self.probs if self._param_is_probs else self.logits

    @property
    def param_shape(self):
        """The parameter's shape."""
        return self._param.size()

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(batch_shape)
        for name in ("probs", "logits"):
            if name in new.__dict__:
                new.__dict__[name] = new.__dict__[name].expand(tuple(batch_shape) + (self._num_events,))
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self):
        """Normalised log-probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self):
        """Probabilities."""
        return logits_to_probs(self.logits)

    @property
    def mean(self):
        return lt.full(tuple(self._batch_shape), math.nan, dtype=self._param.dtype, device=self._param.device)

    variance = mean

    @property
    def mode(self):
        return self._param.argmax(-1)

    def sample(self, sample_shape=Size()):
        with lt.no_grad():
            logits = self.logits if not self._param_is_probs else lt.log(self.probs)
            return draw_categorical(logits, self._extended_shape(sample_shape))

    def log_prob(self, value):
        self._validate_sample(value)
        value = value.long().unsqueeze(-1)
        value, logits = lt.broadcast_tensors(value, self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self):
        low = lt.finfo(self.logits.dtype).min
        return -(self.logits.clamp(min=low) * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        values = lt.arange(self._num_events, dtype=lt.long, device=self._param.device).view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + tuple(self._batch_shape)) if expand else values


class OneHotCategorical(Distribution):
    """`Categorical` whose values are one-hot vectors (torch.distributions.OneHotCategorical)."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits, validate_args=validate_args)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=False)
        self._validate_args = self._categorical._validate_args

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(batch_shape)
        new._categorical = self._categorical.expand(batch_shape)
        return new

    logits = property(lambda self: self._categorical.logits)
    probs = property(lambda self: self._categorical.probs)
    mean = property(lambda self: self._categorical.probs)
    param_shape = property(lambda self: self._categorical.param_shape)

    @property
    def mode(self):
        return F.one_hot(self.probs.argmax(-1), self.event_shape[0]).to(self.probs.dtype)

    @property
    def variance(self):
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape=Size()):
        i = self._categorical.sample(sample_shape)
        return F.one_hot(i, self.event_shape[0]).to(self._categorical._param.dtype)

    def log_prob(self, value):
        self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self):
        return self._categorical.entropy()

    def enumerate_support(self, expand=True):
        n = self.event_shape[0]
        values = lt.eye(n, dtype=self._categorical._param.dtype, device=self._categorical._param.device)
        values = values.view((n,) + (1,) * len(self.batch_shape) + (n,))
        return values.expand((n,) + tuple(self.batch_shape) + (n,)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot draws with the gradient of the probabilities (Bengio and others, 2013)."""

    has_rsample = True

    def rsample(self, sample_shape=Size()):
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(Distribution):
    """Counts of K classes in total_count draws (torch.distributions.Multinomial)."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits, validate_args=validate_args)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=False)
        self._validate_args = self._categorical._validate_args

    logits = property(lambda self: self._categorical.logits)
    probs = property(lambda self: self._categorical.probs)
    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(batch_shape)
        new._categorical = self._categorical.expand(batch_shape)
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return constraints.multinomial(self.total_count)

    def sample(self, sample_shape=Size()):
        draws = self._categorical.sample((self.total_count, *sample_shape))
        return F.one_hot(draws, self.event_shape[0]).sum(0).to(self.probs.dtype)

    def log_prob(self, value):
        self._validate_sample(value)
        logits, value = lt.broadcast_tensors(self.logits, value)
        logits = lt.where((value == 0) & (logits == -math.inf), 0.0, logits)
        return lt.lgamma(value.sum(-1) + 1) - lt.lgamma(value + 1).sum(-1) + (logits * value).sum(-1)


class RelaxedBernoulli(_Binary):
    """A continuous relaxation of `Bernoulli` with a temperature (Maddison and others, 2017)."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self._set(probs, logits)
        self.temperature, = broadcast_all(temperature)
        self.temperature = self.temperature.to(self._param.device)
        super().__init__(self._param.size(), validate_args=validate_args)

    def rsample(self, sample_shape=Size()):
        u = clamp_probs(draw_uniform(self._param.detach(), self._extended_shape(sample_shape)))
        return lt.sigmoid((u.log() - lt.log1p(-u) + self.logits) / self.temperature)

    def log_prob(self, value):
        self._validate_sample(value)
        v = clamp_probs(value)
        x = v.log() - lt.log1p(-v)
        diff = self.logits - x * self.temperature
        return self.temperature.log() + diff - 2 * F.softplus(diff) - v.log() - lt.log1p(-v)


class RelaxedOneHotCategorical(Distribution):
    """A continuous relaxation of `OneHotCategorical`: Gumbel-softmax (Jang and others, 2017)."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits, validate_args=validate_args)
        self.temperature, = broadcast_all(temperature)
        self.temperature = self.temperature.to(self._categorical._param.device)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=False)
        self._validate_args = self._categorical._validate_args

    logits = property(lambda self: self._categorical.logits)
    probs = property(lambda self: self._categorical.probs)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(batch_shape)
        new._categorical = self._categorical.expand(batch_shape)
        return new

    def rsample(self, sample_shape=Size()):
        u = clamp_probs(draw_uniform(self.logits.detach(), self._extended_shape(sample_shape)))
        return lt.softmax((self.logits - lt.log(-lt.log(u))) / self.temperature, dim=-1)

    def log_prob(self, value):
        self._validate_sample(value)
        k = self.event_shape[0]
        logits, v = lt.broadcast_tensors(self.logits, value.log())
        score = logits - v * self.temperature
        score = (score - score.logsumexp(-1, keepdim=True)).sum(-1)
        return score + math.lgamma(k) + self.temperature.log() * (k - 1) - v.sum(-1)


class NegativeBinomial(_Binary):
    """The number of successes of probability probs before total_count failures (torch.distributions.NegativeBinomial)."""

    arg_constraints = {"total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0),
                       "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        self.total_count, = self._set(probs, logits, total_count)
        self.total_count = self.total_count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self):
        return self.total_count * self.logits.exp()

    @property
    def mode(self):
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self):
        return self.mean / lt.sigmoid(-self.logits)

    def sample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        with lt.no_grad():
            rate = draw_gamma(self.total_count.expand(self._batch_shape), shape) * self.logits.exp()
            return draw_poisson(rate, shape)

    def log_prob(self, value):
        self._validate_sample(value)
        n = self.total_count
        none = n + value == 0
        norm = lt.lgamma(1.0 + value) + lt.lgamma(n) - lt.lgamma(n + value)
        return n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits) - lt.where(none, 0.0, norm)

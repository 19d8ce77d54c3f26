"""The base classes of distributions, and what their families share."""
from __future__ import annotations

import warnings

import numpy as np

import lazy_tensor as lt
from lazy_tensor.dtypes import Size
from lazy_tensor.tensor import Tensor

from . import constraints


def broadcast_all(*values):
    """Numbers and tensors as tensors of one shape; numbers take the dtype and device of the tensors."""
    for v in values:
        if not isinstance(v, (Tensor, int, float, bool, np.number)):
            raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__.")
    like = next((v for v in values if isinstance(v, Tensor)), None)
    dtype = lt.get_default_dtype() if like is None or not like.dtype.is_floating_point else like.dtype
    device = None if like is None else like.device
    tensors = [v if isinstance(v, Tensor) else lt.tensor(v, dtype=dtype, device=device) for v in values]
    return lt.broadcast_tensors(*tensors)


def sum_rightmost(value, n):
    """The last n dimensions summed."""
    return value if n == 0 else value.sum(tuple(range(-n, 0)))


def logits_to_probs(logits, is_binary=False):
    """Sigmoid, or softmax along the last dimension."""
    return lt.sigmoid(logits) if is_binary else lt.softmax(logits, dim=-1)


def clamp_probs(probs):
    """probs kept away from 0 and 1 by the dtype's eps."""
    eps = lt.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs, is_binary=False):
    """The inverse of `logits_to_probs`."""
    p = clamp_probs(probs)
    return lt.log(p) - lt.log1p(-p) if is_binary else lt.log(p)


class lazy_property:
    """An attribute computed when it is first asked for."""

    def __init__(self, wrapped):
        self.wrapped, self.__doc__ = wrapped, wrapped.__doc__

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class Distribution:
    """Base of all distributions: `batch_shape` (independent ones side by side) and `event_shape` (one draw of one).

    validate_args: parameters and the values given to log_prob are checked against their constraints. None (the default)
    checks tensors in host memory and leaves those on an XLA device, where a check would stop the program to look at
    them; True checks all; False none.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args: bool | None = None
    arg_constraints: dict = {}
    support: constraints.Constraint | None = None

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check their arguments when not told (True, also on devices; False)."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape=Size(()), event_shape=Size(()), validate_args=None):
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        for name, c in self.arg_constraints.items() if self._validate_args is not False else ():
            if constraints.is_dependent(c) or (name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property)):
                continue
            value = getattr(self, name)
            if not self._checks(value):
                continue
            ok = c.check(value)
            if not bool(ok.all()):
                raise ValueError(f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                                 f"{self!r} to satisfy the constraint {c!r}, but found invalid values:\n{_shown(value)}")

    def _checks(self, value) -> bool:
        """Whether to look at a tensor's values."""
        if self._validate_args is None:
            return value.device.type == "cpu"
        return bool(self._validate_args)

    @property
    def batch_shape(self):
        """The shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self):
        """The shape of one draw of one distribution."""
        return self._event_shape

    @property
    def mean(self):
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self):
        """The most probable value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self):
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self):
        """The square root of the variance."""
        return self.variance.sqrt()

    def expand(self, batch_shape, _instance=None):
        """The same distribution with a larger batch shape."""
        new = self._get_checked_instance(batch_shape)
        shape = Size(batch_shape)
        for name, value in self.__dict__.items():
            if isinstance(value, Tensor):
                event = value.shape[len(self._batch_shape):]
                new.__dict__[name] = value.expand(shape + Size(event))
        return new

    def _get_checked_instance(self, batch_shape):
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new._batch_shape = Size(batch_shape)
        return new

    def sample(self, sample_shape=Size()):
        """Draws of shape sample_shape + batch_shape + event_shape, outside autograd."""
        with lt.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=Size()):
        """Draws through which gradients reach the parameters."""
        raise NotImplementedError(f"{type(self).__name__} has no reparameterised draws; use sample() and log_prob()")

    def sample_n(self, n):
        """n draws (deprecated)."""
        warnings.warn("sample_n will be deprecated. Use .sample((n,)) instead", UserWarning, stacklevel=2)
        return self.sample(Size((n,)))

    def log_prob(self, value):
        """The logarithm of the density or probability at value."""
        raise NotImplementedError

    def cdf(self, value):
        """The probability of at most value."""
        raise NotImplementedError

    def icdf(self, value):
        """The inverse of cdf."""
        raise NotImplementedError

    def enumerate_support(self, expand=True):
        """Every value of a discrete distribution."""
        raise NotImplementedError

    def entropy(self):
        """The entropy in nats."""
        raise NotImplementedError

    def perplexity(self):
        """exp(entropy)."""
        return lt.exp(self.entropy())

    def _extended_shape(self, sample_shape=Size()):
        if isinstance(sample_shape, int):
            raise TypeError("sample_shape must be a tuple of ints (torch.Size), got int")
        return tuple(sample_shape) + tuple(self._batch_shape) + tuple(self._event_shape)

    def _validate_sample(self, value):
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        if self._validate_args is False:
            return
        event = len(self._event_shape)
        if event and tuple(value.shape[value.dim() - event:]) != tuple(self._event_shape):
            raise ValueError("The right-most size of value must match event_shape: "
                             f"{Size(value.shape)} vs {self._event_shape}.")
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(tuple(value.shape)), reversed(tuple(expected)), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {Size(value.shape)} vs {Size(expected)}.")
        support = self.support
        if support is None or constraints.is_dependent(support) or not self._checks(value):
            return
        if not bool(support.check(value).all()):
            raise ValueError(f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the support "
                             f"({support!r}) of the distribution {self!r}, but found invalid values:\n{_shown(value)}")

    def __repr__(self):
        parts = []
        for name in self.arg_constraints:
            value = self.__dict__.get(name)
            if isinstance(value, Tensor):
                at_rest = value.numel() == 1 and value.device.type == "cpu"
                parts.append(f"{name}: {value.item() if at_rest else value.size()}")
        return f"{type(self).__name__}({', '.join(parts)})"


def _shown(value):
    v = value.detach()
    return v.item() if v.dim() == 0 else v


class ExponentialFamily(Distribution):
    """Distributions of the exponential family."""


class Independent(Distribution):
    """The last `reinterpreted_batch_ndims` batch dimensions of a distribution taken as event dimensions.

    Example::

        Independent(Normal(mu, std), 1).log_prob(action)     # summed over the last dimension
    """

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        n = reinterpreted_batch_ndims
        if n > len(base_distribution.batch_shape):
            raise ValueError("Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                             f"{n} vs {len(base_distribution.batch_shape)}")
        shape = base_distribution.batch_shape + base_distribution.event_shape
        event = n + len(base_distribution.event_shape)
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, n
        cut = len(shape) - event
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(batch_shape)
        new.base_dist = self.base_dist.expand(Size(batch_shape) + self.event_shape[:self.reinterpreted_batch_ndims])
        return new

    @property
    def has_rsample(self):
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self):
        return False if self.reinterpreted_batch_ndims else self.base_dist.has_enumerate_support

    @property
    def support(self):
        c = self.base_dist.support
        return constraints.independent(c, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else c

    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)

    def sample(self, sample_shape=Size()):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=Size()):
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self):
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand=True):
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self):
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"

"""The multivariate normal distribution."""
from __future__ import annotations

import math

import lazy_tensor as lt
from lazy_tensor.dtypes import Size
from lazy_tensor.ops.distributions import draw_normal

from . import constraints
from .distribution import Distribution


def _batch(a, b):
    return lt.broadcast_shapes(tuple(a), tuple(b))


class MultivariateNormal(Distribution):
    """The normal distribution of vectors, by one of covariance, precision or the covariance's Cholesky factor
    (torch.distributions.MultivariateNormal).

    loc: (..., n); the matrix: (..., n, n). Raises ValueError unless exactly one matrix is given."""

    arg_constraints = {"loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
                       "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        given = {k: v for k, v in given.items() if v is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        (name, m), = given.items()
        if m.dim() < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        batch = _batch(m.shape[:-2], loc.shape[:-1])
        n = loc.shape[-1]
        m = m.expand(tuple(batch) + (n, n))
        self.loc = loc.expand(tuple(batch) + (n,))
        self.arg_constraints = {"loc": constraints.real_vector, name: type(self).arg_constraints[name]}
        if name == "scale_tril":
            self._tril = m
        else:
            setattr(self, "_" + name, m)
        super().__init__(batch, (n,), validate_args=validate_args)
        if name == "covariance_matrix":
            self._tril = lt.linalg.cholesky(m)
        elif name == "precision_matrix":  # P = L L^T with L from the reversed matrix, so that cov's factor is L^-T, lower once reversed
            flipped = lt.linalg.cholesky(lt.flip(m, (-2, -1)))
            upper = lt.flip(flipped, (-2, -1)).mT
            self._tril = lt.linalg.solve_triangular(upper, lt.eye(n, dtype=m.dtype, device=m.device).expand(m.shape), upper=False)

    def expand(self, batch_shape, _instance=None):
        n = self._event_shape[0]
        return MultivariateNormal(self.loc.expand(tuple(batch_shape) + (n,)),
                                  scale_tril=self._tril.expand(tuple(batch_shape) + (n, n)), validate_args=False)

    @property
    def scale_tril(self):
        """The covariance's lower Cholesky factor."""
        return self._tril

    @property
    def covariance_matrix(self):
        """The covariance."""
        return self._covariance_matrix if "_covariance_matrix" in self.__dict__ else self._tril @ self._tril.mT

    @property
    def precision_matrix(self):
        """The covariance's inverse."""
        return self._precision_matrix if "_precision_matrix" in self.__dict__ else lt.cholesky_inverse(self._tril)

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return (self._tril ** 2).sum(-1)

    def rsample(self, sample_shape=Size()):
        eps = draw_normal(self.loc.detach(), self._extended_shape(sample_shape))
        return self.loc + (self._tril @ eps.unsqueeze(-1)).squeeze(-1)

    def _half_logdet(self):
        return self._tril.diagonal(0, -2, -1).log().sum(-1)

    def log_prob(self, value):
        self._validate_sample(value)
        diff = (value - self.loc).unsqueeze(-1)
        shape = _batch(diff.shape[:-2], self._tril.shape[:-2])
        n = self._event_shape[0]
        z = lt.linalg.solve_triangular(self._tril.expand(tuple(shape) + (n, n)), diff.expand(tuple(shape) + (n, 1)), upper=False)
        return -0.5 * (n * math.log(2 * math.pi) + (z * z).sum((-2, -1))) - self._half_logdet()

    def entropy(self):
        return 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_logdet()

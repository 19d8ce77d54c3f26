"""Distributions of matrices, and of vectors with a low-rank covariance."""
from __future__ import annotations

import math

import lazy_tensor as lt
from lazy_tensor.dtypes import Size
from lazy_tensor.ops.distributions import draw_gamma, draw_normal

from . import constraints
from .distribution import Distribution, ExponentialFamily
from .gamma import Beta


class LowRankMultivariateNormal(Distribution):
    """A normal distribution of vectors with covariance W W^T + diag(d) (torch.distributions.LowRankMultivariateNormal).

    loc: (..., n); cov_factor W: (..., n, m); cov_diag d: (..., n). Costs O(n m^2) by Woodbury's identity."""

    arg_constraints = {"loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
                       "cov_diag": constraints.independent(constraints.positive, 1)}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        n = loc.shape[-1]
        if cov_factor.dim() < 2 or cov_factor.shape[-2] != n:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {n} x m, got {tuple(cov_factor.shape)}")
        if cov_diag.dim() < 1 or cov_diag.shape[-1] != n:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {n}, got {tuple(cov_diag.shape)}")
        batch = tuple(lt.broadcast_shapes(tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1])))
        self.loc, self.cov_diag = loc.expand((*batch, n)), cov_diag.expand((*batch, n))
        self.cov_factor = cov_factor.expand((*batch, n, cov_factor.shape[-1]))
        super().__init__(batch, (n,), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        b, n = tuple(batch_shape), self._event_shape[0]
        return LowRankMultivariateNormal(self.loc.expand((*b, n)), self.cov_factor.expand((*b, *self.cov_factor.shape[-2:])),
                                         self.cov_diag.expand((*b, n)), validate_args=False)

    def _capacitance(self):
        """The Cholesky factor of I + W^T D^-1 W."""
        w = self.cov_factor
        m = w.mT @ (w / self.cov_diag.unsqueeze(-1))
        return lt.linalg.cholesky(m + lt.eye(w.shape[-1], dtype=w.dtype, device=w.device))

    @property
    def mean(self):
        return self.loc

    @property
    def mode(self):
        return self.loc

    @property
    def variance(self):
        return (self.cov_factor ** 2).sum(-1) + self.cov_diag

    @property
    def covariance_matrix(self):
        """W W^T + diag(d)."""
        return self.cov_factor @ self.cov_factor.mT + lt.diag_embed(self.cov_diag)

    @property
    def scale_tril(self):
        """The covariance's lower Cholesky factor."""
        return lt.linalg.cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self):
        """The covariance's inverse."""
        a = lt.linalg.solve_triangular(self._capacitance(), self.cov_factor.mT / self.cov_diag.unsqueeze(-2), upper=False)
        return lt.diag_embed(self.cov_diag.reciprocal()) - a.mT @ a

    def rsample(self, sample_shape=Size()):
        shape = tuple(self._extended_shape(sample_shape))
        low = draw_normal(self.loc.detach(), (*shape[:-1], self.cov_factor.shape[-1]))
        return self.loc + (self.cov_factor @ low.unsqueeze(-1)).squeeze(-1) + self.cov_diag.sqrt() * draw_normal(self.loc.detach(), shape)

    def _logdet(self, chol):
        return 2 * chol.diagonal(0, -2, -1).log().sum(-1) + self.cov_diag.log().sum(-1)

    def log_prob(self, value):
        self._validate_sample(value)
        diff, chol = value - self.loc, self._capacitance()
        scaled = diff / self.cov_diag
        z = (self.cov_factor.mT @ scaled.unsqueeze(-1))
        z = lt.linalg.solve_triangular(chol.expand((*z.shape[:-2], *chol.shape[-2:])), z, upper=False)
        square = (diff * scaled).sum(-1) - (z * z).sum((-2, -1))
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._logdet(chol) + square)

    def entropy(self):
        return 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._logdet(self._capacitance()))


class LKJCholesky(Distribution):
    """Lower Cholesky factors of correlation matrices with density det^(concentration - 1) (torch.distributions.LKJCholesky).

    Example::

        LKJCholesky(3, 0.5).sample()  # L with L @ L.T a 3 x 3 correlation matrix
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim, self.concentration = dim, lt.as_tensor(concentration, dtype=None if hasattr(concentration, "dtype") else lt.get_default_dtype())
        super().__init__(self.concentration.size(), (dim, dim), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return LKJCholesky(self.dim, self.concentration.expand(tuple(batch_shape)), validate_args=False)

    def sample(self, sample_shape=Size()):
        c = self.concentration
        with lt.no_grad():  # the onion: row i is a uniform direction scaled by a beta draw
            rows = lt.arange(self.dim, dtype=c.dtype, device=c.device)
            offset = (rows - 1).clamp(min=0.0)
            radius = Beta(offset + 0.5, c.unsqueeze(-1) + 0.5 * (self.dim - 2) - 0.5 * offset, validate_args=False).sample(sample_shape)
            u = draw_normal(c, self._extended_shape(sample_shape)).tril(-1)
            size = u.norm(dim=-1, keepdim=True)
            w = radius.sqrt().unsqueeze(-1) * u / lt.where(size == 0, 1.0, size)
            diag = (1 - (w * w).sum(-1)).clamp(min=lt.finfo(w.dtype).tiny).sqrt()
            return w + lt.diag_embed(diag)

    def log_prob(self, value):
        self._validate_sample(value)
        c, less = self.concentration, self.dim - 1
        diag = value.diagonal(0, -2, -1)[..., 1:]
        order = 2 * (c - 1).unsqueeze(-1) + self.dim - lt.arange(2, self.dim + 1, device=c.device)
        alpha = c + 0.5 * less
        norm = 0.5 * less * math.log(math.pi) + lt.mvlgamma(alpha - 0.5, less) - lt.lgamma(alpha) * less
        return (order * diag.log()).sum(-1) - norm


class Wishart(ExponentialFamily):
    """Scatter matrices of df normal vectors with a covariance, by that, its inverse or its Cholesky factor (torch.distributions.Wishart)."""

    arg_constraints = {"covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
                       "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(0)}
    support = constraints.positive_definite
    has_rsample = True

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        given = {k: v for k, v in given.items() if v is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        (name, m), = given.items()
        if m.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df = df if hasattr(df, "dim") else lt.tensor(df, dtype=m.dtype, device=m.device)
        p = m.shape[-1]
        batch = tuple(lt.broadcast_shapes(tuple(m.shape[:-2]), tuple(df.shape)))
        self.df, m = df.expand(batch), m.expand((*batch, p, p))
        if validate_args is not False and bool((self.df <= p - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {p - 1}.")
        self.arg_constraints = {"df": constraints.greater_than(p - 1), name: type(self).arg_constraints[name]}
        self.__dict__[name if name != "scale_tril" else "_tril"] = m
        if name == "covariance_matrix":
            self._tril = lt.linalg.cholesky(m)
        elif name == "precision_matrix":
            self._tril = lt.linalg.cholesky(lt.linalg.inv(m))
        super().__init__(batch, (p, p), validate_args=validate_args)

    def __getattr__(self, name):
        if name == "covariance_matrix":
            return self._tril @ self._tril.mT
        if name == "precision_matrix":
            return lt.cholesky_inverse(self._tril)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def expand(self, batch_shape, _instance=None):
        b = tuple(batch_shape)
        return Wishart(self.df.expand(b), scale_tril=self._tril.expand((*b, *self._event_shape)), validate_args=False)

    @property
    def scale_tril(self):
        """The covariance's lower Cholesky factor."""
        return self._tril

    @property
    def mean(self):
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self):
        factor = self.df - self._event_shape[0] - 1
        return lt.where(factor <= 0, math.nan, factor)[..., None, None] * self.covariance_matrix

    @property
    def variance(self):
        v = self.covariance_matrix
        d = v.diagonal(0, -2, -1)
        return self.df[..., None, None] * (v ** 2 + d.unsqueeze(-1) * d.unsqueeze(-2))

    def rsample(self, sample_shape=Size()):
        p, shape = self._event_shape[0], tuple(self._extended_shape(sample_shape))
        free = self.df.unsqueeze(-1) - lt.arange(p, dtype=self.df.dtype, device=self.df.device)
        diag = (2 * draw_gamma(free / 2, shape[:-1])).sqrt()  # Bartlett: chi on the diagonal, normals below
        a = draw_normal(self._tril.detach(), shape).tril(-1) + lt.diag_embed(diag)
        root = self._tril @ a
        return root @ root.mT

    def _half_logdet(self):
        return self._tril.diagonal(0, -2, -1).log().sum(-1)

    def log_prob(self, value):
        self._validate_sample(value)
        nu, p = self.df, self._event_shape[0]
        trace = (self.precision_matrix @ value).diagonal(0, -2, -1).sum(-1)
        return (-nu * (p * math.log(2.0) / 2 + self._half_logdet()) - lt.mvlgamma(nu / 2, p)
                + (nu - p - 1) / 2 * lt.linalg.slogdet(value).logabsdet - trace / 2)

    def entropy(self):
        nu, p = self.df, self._event_shape[0]
        digammas = lt.digamma(nu.unsqueeze(-1) / 2 - lt.arange(p, dtype=nu.dtype, device=nu.device) / 2).sum(-1)
        return ((p + 1) * (p * math.log(2.0) / 2 + self._half_logdet()) + lt.mvlgamma(nu / 2, p) - (nu - p - 1) / 2 * digammas + nu * p / 2)

"""torch.distributions.transforms: invertible functions with the logarithm of their Jacobian's determinant."""
from __future__ import annotations

import math
import weakref

import lazy_tensor as lt
from lazy_tensor.nn import functional as F

from . import constraints
from .distribution import sum_rightmost


class Transform:
    """y = transform(x); `inv` is the inverse, `log_abs_det_jacobian(x, y)` is log |dy/dx|. cache_size: 0, or 1 to keep
    the last pair, so that the inverse of a result is exact."""

    bijective = False
    domain: constraints.Constraint
    codomain: constraints.Constraint

    def __init__(self, cache_size=0):
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size, self._cached, self._inv = cache_size, (None, None), None

    @property
    def event_dim(self):
        """How many dimensions on the right belong to one value."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self):
        """The inverse transform."""
        found = self._inv() if self._inv is not None else None
        if found is None:
            found = _Inverse(self)
            self._inv = weakref.ref(found)
        return found

    @property
    def sign(self):
        """+1 or -1: whether an elementwise transform rises or falls."""
        raise NotImplementedError

    def with_cache(self, cache_size=1):
        """The same transform with another cache size."""
        if self._cache_size == cache_size:
            return self
        import copy
        new = copy.copy(self)
        new._cache_size, new._cached, new._inv = cache_size, (None, None), None
        return new

    def __call__(self, x):
        if self._cache_size and x is self._cached[0]:
            return self._cached[1]
        y = self._call(x)
        if self._cache_size:
            self._cached = x, y
        return y

    def _inv_call(self, y):
        if self._cache_size and y is self._cached[1]:
            return self._cached[0]
        x = self._inverse(y)
        if self._cache_size:
            self._cached = x, y
        return x

    def _call(self, x):
        raise NotImplementedError

    def _inverse(self, y):
        raise NotImplementedError

    def log_abs_det_jacobian(self, x, y):
        """log |dy/dx|."""
        raise NotImplementedError

    def forward_shape(self, shape):
        """The shape of y from that of x."""
        return shape

    def inverse_shape(self, shape):
        """The shape of x from that of y."""
        return shape

    def __repr__(self):
        return type(self).__name__ + "()"


class _Inverse(Transform):
    def __init__(self, inner):
        super().__init__()
        self._inner = inner

    domain = property(lambda self: self._inner.codomain)
    codomain = property(lambda self: self._inner.domain)
    bijective = property(lambda self: self._inner.bijective)
    sign = property(lambda self: self._inner.sign)
    inv = property(lambda self: self._inner)

    def with_cache(self, cache_size=1):
        return self._inner.with_cache(cache_size).inv

    def __eq__(self, other):
        return isinstance(other, _Inverse) and self._inner == other._inner

    __hash__ = object.__hash__

    def __call__(self, x):
        return self._inner._inv_call(x)

    def _inv_call(self, y):
        return self._inner(y)

    def log_abs_det_jacobian(self, x, y):
        return -self._inner.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape):
        return self._inner.inverse_shape(shape)

    def inverse_shape(self, shape):
        return self._inner.forward_shape(shape)

    def __repr__(self):
        return f"_InverseTransform({self._inner!r})"


class ComposeTransform(Transform):
    """Transforms one after another."""

    def __init__(self, parts, cache_size=0):
        super().__init__(cache_size)
        self.parts = [p.with_cache(cache_size) if cache_size else p for p in parts]

    def __eq__(self, other):
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    @property
    def domain(self):
        if not self.parts:
            return constraints.real
        d = self.parts[0].domain
        event = self.parts[-1].codomain.event_dim
        for p in reversed(self.parts):
            event = max(event + p.domain.event_dim - p.codomain.event_dim, p.domain.event_dim)
        return constraints.independent(d, event - d.event_dim) if event > d.event_dim else d

    @property
    def codomain(self):
        if not self.parts:
            return constraints.real
        c = self.parts[-1].codomain
        event = self.parts[0].domain.event_dim
        for p in self.parts:
            event = max(event + p.codomain.event_dim - p.domain.event_dim, p.codomain.event_dim)
        return constraints.independent(c, event - c.event_dim) if event > c.event_dim else c

    @property
    def bijective(self):
        return all(p.bijective for p in self.parts)

    @property
    def sign(self):
        return math.prod(p.sign for p in self.parts)

    @property
    def inv(self):
        return ComposeTransform([p.inv for p in reversed(self.parts)])

    def __call__(self, x):
        for p in self.parts:
            x = p(x)
        return x

    def _inv_call(self, y):
        for p in reversed(self.parts):
            y = p._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x, y):
        if not self.parts:
            return lt.zeros_like(x)
        xs = [x]
        for p in self.parts[:-1]:
            xs.append(p(xs[-1]))
        xs.append(y)
        event, total = self.domain.event_dim, 0
        for p, a, b in zip(self.parts, xs, xs[1:], strict=False):
            total = total + sum_rightmost(p.log_abs_det_jacobian(a, b), event - p.domain.event_dim)
            event += p.codomain.event_dim - p.domain.event_dim
        return total

    def forward_shape(self, shape):
        for p in self.parts:
            shape = p.forward_shape(shape)
        return shape

    def inverse_shape(self, shape):
        for p in reversed(self.parts):
            shape = p.inverse_shape(shape)
        return shape

    def __repr__(self):
        return f"ComposeTransform({self.parts})"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last dimensions belong to one value: their Jacobians are summed."""

    def __init__(self, base_transform, reinterpreted_batch_ndims, cache_size=0):
        super().__init__(cache_size)
        self.base_transform, self.reinterpreted_batch_ndims = base_transform, reinterpreted_batch_ndims

    domain = property(lambda self: constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims))
    codomain = property(lambda self: constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims))
    bijective = property(lambda self: self.base_transform.bijective)
    sign = property(lambda self: self.base_transform.sign)

    def _call(self, x):
        return self.base_transform(x)

    def _inverse(self, y):
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x, y):
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)


class ReshapeTransform(Transform):
    """The event reshaped from in_shape to out_shape."""

    bijective = True

    def __init__(self, in_shape, out_shape, cache_size=0):
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")

    domain = property(lambda self: constraints.independent(constraints.real, len(self.in_shape)))
    codomain = property(lambda self: constraints.independent(constraints.real, len(self.out_shape)))

    def _call(self, x):
        return x.reshape(tuple(x.shape[:x.dim() - len(self.in_shape)]) + self.out_shape)

    def _inverse(self, y):
        return y.reshape(tuple(y.shape[:y.dim() - len(self.out_shape)]) + self.in_shape)

    def log_abs_det_jacobian(self, x, y):
        return lt.zeros(tuple(x.shape[:x.dim() - len(self.in_shape)]), dtype=x.dtype, device=x.device)

    def forward_shape(self, shape):
        return lt.Size(tuple(shape)[:len(shape) - len(self.in_shape)] + self.out_shape)

    def inverse_shape(self, shape):
        return lt.Size(tuple(shape)[:len(shape) - len(self.out_shape)] + self.in_shape)


class _Elementwise(Transform):
    domain: constraints.Constraint = constraints.real
    codomain: constraints.Constraint = constraints.real
    bijective = True
    sign = 1

    def __eq__(self, other):
        return type(self) is type(other)

    __hash__ = object.__hash__


class ExpTransform(_Elementwise):
    """y = exp(x)."""

    codomain = constraints.positive

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        return x


class PowerTransform(_Elementwise):
    """y = x ** exponent."""

    domain = codomain = constraints.positive

    def __init__(self, exponent, cache_size=0):
        super().__init__(cache_size)
        self.exponent = exponent

    @property
    def sign(self):
        return self.exponent.sign() if hasattr(self.exponent, "sign") else math.copysign(1, self.exponent)

    def __eq__(self, other):
        return isinstance(other, PowerTransform) and bool(lt.as_tensor(self.exponent == other.exponent).all())

    __hash__ = object.__hash__

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        return (self.exponent * y / x).abs().log()


class SigmoidTransform(_Elementwise):
    """y = 1 / (1 + exp(-x))."""

    codomain = constraints.unit_interval

    def _call(self, x):
        f = lt.finfo(x.dtype)
        return lt.sigmoid(x).clamp(min=f.tiny, max=1.0 - f.eps)

    def _inverse(self, y):
        f = lt.finfo(y.dtype)
        y = y.clamp(min=f.tiny, max=1.0 - f.eps)
        return y.log() - lt.log1p(-y)

    def log_abs_det_jacobian(self, x, y):
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(_Elementwise):
    """y = log(1 + exp(x))."""

    codomain = constraints.positive

    def _call(self, x):
        return F.softplus(x)

    def _inverse(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x, y):
        return -F.softplus(-x)


class TanhTransform(_Elementwise):
    """y = tanh(x); cache_size=1 keeps the inverse of a result exact."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return lt.atanh(y)

    def log_abs_det_jacobian(self, x, y):
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(Transform):
    """y = |x|."""

    domain, codomain = constraints.real, constraints.positive

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class AffineTransform(Transform):
    """y = loc + scale * x; event_dim dimensions on the right belong to one value."""

    bijective = True

    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        super().__init__(cache_size)
        self.loc, self.scale, self._event = loc, scale, event_dim

    event_dim = property(lambda self: self._event)

    @property
    def domain(self):
        return constraints.independent(constraints.real, self._event) if self._event else constraints.real

    codomain = domain

    @property
    def sign(self):
        return self.scale.sign() if hasattr(self.scale, "sign") else math.copysign(1, self.scale) if self.scale else 0

    def __eq__(self, other):
        return isinstance(other, AffineTransform) and bool(lt.as_tensor(self.loc == other.loc).all()) \
            and bool(lt.as_tensor(self.scale == other.scale).all())

    __hash__ = object.__hash__

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        s = self.scale
        r = lt.full_like(x, math.log(abs(s))) if not hasattr(s, "abs") else s.abs().log()
        if self._event:
            r = r.expand(x.shape) if hasattr(s, "abs") else r
            return r.sum(tuple(range(-self._event, 0)))
        return r.expand(x.shape)


class SoftmaxTransform(Transform):
    """y = softmax(x); not bijective."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x):
        return lt.softmax(x, dim=-1)

    def _inverse(self, y):
        return y.log()


class StickBreakingTransform(Transform):
    """From unconstrained K-1 numbers to the K-simplex by breaking a stick (Stan)."""

    bijective = True
    domain, codomain = constraints.real_vector, constraints.simplex

    def _offset(self, x):
        n = x.shape[-1]
        return lt.arange(n, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x):
        f = lt.finfo(x.dtype)
        z = lt.sigmoid(x - self._offset(x)).clamp(min=f.tiny, max=1.0 - f.eps)
        rest = (1 - z).cumprod(-1)
        return lt.cat([z, lt.ones_like(z[..., :1])], -1) * lt.cat([lt.ones_like(z[..., :1]), rest], -1)

    def _inverse(self, y):
        head = y[..., :-1]
        rest = (1 - head.cumsum(-1)).clamp(min=lt.finfo(y.dtype).tiny)
        return head.log() - rest.log() + self._offset(head)

    def log_abs_det_jacobian(self, x, y):
        x = x - self._offset(x)
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape):
        return lt.Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape):
        return lt.Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(Transform):
    """From square matrices to lower triangular ones with a positive diagonal."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x):
        return x.tril(-1) + lt.diag_embed(x.diagonal(0, -2, -1).exp())

    def _inverse(self, y):
        return y.tril(-1) + lt.diag_embed(y.diagonal(0, -2, -1).log())


class PositiveDefiniteTransform(Transform):
    """From square matrices to positive definite ones: L L^T of LowerCholeskyTransform's L."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x):
        root = LowerCholeskyTransform()(x)
        return root @ root.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(lt.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """From unconstrained vectors of D (D - 1) / 2 numbers to Cholesky factors of D x D correlation matrices (LKJ's vine)."""

    bijective = True
    domain, codomain = constraints.real_vector, constraints.corr_cholesky

    @staticmethod
    def _below(y, diagonal):
        """The entries below a diagonal, row by row, as a vector."""
        i, j = lt.tril_indices(y.shape[-2], y.shape[-1], diagonal, device=y.device)
        return y[..., i, j]

    def _call(self, x):
        eps = lt.finfo(x.dtype).eps
        r = lt.tanh(x).clamp(min=-1 + eps, max=1 - eps)
        n = int(self.forward_shape(x.shape)[-1])
        i, j = lt.tril_indices(n, n, -1, device=x.device)
        m = lt.zeros((*x.shape[:-1], n, n), dtype=x.dtype, device=x.device)
        m[..., i, j] = r
        left = (1 - m * m).sqrt().cumprod(-1)
        m = m + lt.eye(n, dtype=x.dtype, device=x.device)
        return m * F.pad(left[..., :-1], [1, 0], value=1.0)

    def _inverse(self, y):
        left = F.pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1.0)
        t = self._below(y, -1) / self._below(left, -1).sqrt()
        return (lt.log1p(t) - lt.log1p(-t)) / 2

    def log_abs_det_jacobian(self, x, y):
        left = self._below(1 - (y * y).cumsum(-1), -2)
        return 0.5 * left.log().sum(-1) - 2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape):
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return lt.Size((*shape[:-1], n, n))

    def inverse_shape(self, shape):
        if len(shape) < 2 or shape[-2] != shape[-1]:
            raise ValueError(f"Input is not square: {tuple(shape)}")
        return lt.Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class _Parts(Transform):
    """Several transforms, each on its own part of the values along dim."""

    def __init__(self, tseq, dim=0, cache_size=0):
        super().__init__(cache_size)
        if not all(isinstance(t, Transform) for t in tseq):
            raise ValueError(f"{type(self).__name__}: tseq must hold Transforms, got {list(tseq)}")
        self.transforms, self.dim = [t.with_cache(cache_size) if cache_size else t for t in tseq], dim

    def _split(self, x):
        raise NotImplementedError

    def _join(self, xs):
        raise NotImplementedError

    bijective = property(lambda self: all(t.bijective for t in self.transforms))

    def _call(self, x):
        return self._join([t(v) for t, v in zip(self.transforms, self._split(x), strict=True)])

    def _inverse(self, y):
        return self._join([t.inv(v) for t, v in zip(self.transforms, self._split(y), strict=True)])


class StackTransform(_Parts):
    """One transform for each index along dim."""

    domain = property(lambda self: constraints.stack([t.domain for t in self.transforms], self.dim))
    codomain = property(lambda self: constraints.stack([t.codomain for t in self.transforms], self.dim))

    def _split(self, x):
        if x.shape[self.dim] != len(self.transforms):
            raise ValueError(f"StackTransform: {len(self.transforms)} transforms, but dimension {self.dim} of {tuple(x.shape)} has {x.shape[self.dim]}")
        return x.unbind(self.dim)

    def _join(self, xs):
        return lt.stack(list(xs), self.dim)

    def log_abs_det_jacobian(self, x, y):
        return self._join([t.log_abs_det_jacobian(a, b) for t, a, b in zip(self.transforms, self._split(x), self._split(y), strict=True)])


class CatTransform(_Parts):
    """One transform for each of the lengths that dim is cut into."""

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ValueError(f"CatTransform: {len(self.transforms)} transforms but {len(self.lengths)} lengths")

    event_dim = property(lambda self: max(t.event_dim for t in self.transforms))
    length = property(lambda self: sum(self.lengths))
    domain = property(lambda self: constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths))
    codomain = property(lambda self: constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths))

    def _split(self, x):
        if x.shape[self.dim] != self.length:
            raise ValueError(f"CatTransform: lengths {self.lengths} make {self.length}, but dimension {self.dim} of {tuple(x.shape)} has {x.shape[self.dim]}")
        return x.split(self.lengths, self.dim)

    def _join(self, xs):
        return lt.cat(list(xs), self.dim)

    def log_abs_det_jacobian(self, x, y):
        event = self.event_dim
        found = []
        for t, a, b in zip(self.transforms, self._split(x), self._split(y), strict=True):
            d = t.log_abs_det_jacobian(a, b)
            found.append(sum_rightmost(d, event - t.event_dim) if t.event_dim < event else d)
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + event
        return lt.cat(found, dim) if dim < 0 else sum(found)


class CumulativeDistributionTransform(Transform):
    """y = distribution.cdf(x)."""

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution, cache_size=0):
        super().__init__(cache_size)
        self.distribution = distribution

    domain = property(lambda self: self.distribution.support)

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)


def biject_to(constraint):
    """A bijective transform from unconstrained numbers to a constraint's set; NotImplementedError for unknown ones."""
    return _registered(constraint, StickBreakingTransform)


def transform_to(constraint):
    """A transform (not always bijective) from unconstrained numbers to a constraint's set."""
    return _registered(constraint, SoftmaxTransform)


def _registered(c, simplex):
    if isinstance(c, constraints._Independent):
        return IndependentTransform(_registered(c.base_constraint, simplex), c.n)
    if isinstance(c, constraints._Real):
        return identity_transform
    if isinstance(c, constraints.GreaterThan):
        if isinstance(c.lower_bound, (int, float)) and c.lower_bound == 0:
            return ExpTransform()
        return ComposeTransform([ExpTransform(), AffineTransform(c.lower_bound, 1)])
    if isinstance(c, constraints.LessThan):
        return ComposeTransform([ExpTransform(), AffineTransform(c.upper_bound, -1)])
    if isinstance(c, constraints.Interval):
        if isinstance(c.lower_bound, (int, float)) and isinstance(c.upper_bound, (int, float)) and (c.lower_bound, c.upper_bound) == (0, 1):
            return SigmoidTransform()
        return ComposeTransform([SigmoidTransform(), AffineTransform(c.lower_bound, c.upper_bound - c.lower_bound)])
    if isinstance(c, constraints._Simplex):
        return simplex()
    if isinstance(c, constraints._LowerCholesky):
        return LowerCholeskyTransform()
    if isinstance(c, constraints._CorrCholesky):
        return CorrCholeskyTransform()
    if isinstance(c, (constraints._PositiveDefinite, constraints._PositiveSemidefinite)):
        return PositiveDefiniteTransform()
    if isinstance(c, constraints._Cat):
        return CatTransform([_registered(k, simplex) for k in c.cseq], c.dim, c.lengths)
    if isinstance(c, constraints._Stack):
        return StackTransform([_registered(k, simplex) for k in c.cseq], c.dim)
    raise NotImplementedError(f"Cannot transform {type(c).__name__} constraints")

"""torch.distributions.constraints: sets of values; `check(value)` says which lie in them."""
from __future__ import annotations

import lazy_tensor as lt


class Constraint:
    """A set; `event_dim` dimensions on the right belong to one value."""

    is_discrete = False
    event_dim = 0

    def check(self, value):
        """A bool tensor of the batch shape."""
        raise NotImplementedError

    def __repr__(self):
        return type(self).__name__[1:] + "()"


class _Dependent(Constraint):
    def __init__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def check(self, value):
        raise ValueError("Cannot determine validity of dependent constraint")

    def __call__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        return _Dependent(is_discrete=is_discrete, event_dim=event_dim)


def is_dependent(c) -> bool:
    """Whether a constraint is known only for an instance."""
    return isinstance(c, (_Dependent, dependent_property))


class dependent_property(property, _Dependent):
    """A property that gives a constraint of the instance."""

    def __init__(self, fn=None, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn):
        return dependent_property(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value):
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete, event_dim = True, 1

    def check(self, value):
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Bounded(Constraint):
    """A constraint with bounds, shown with them."""

    names: tuple = ()

    def __init__(self, *bounds):
        for n, b in zip(self.names, bounds, strict=True):
            setattr(self, n, b)

    def __repr__(self):
        inner = ", ".join(f"{n}={getattr(self, n)}" for n in self.names)
        return f"{type(self).__name__.lstrip('_')}({inner})"


class IntegerInterval(_Bounded):
    """Integers from lower_bound to upper_bound."""

    is_discrete, names = True, ("lower_bound", "upper_bound")

    def check(self, value):
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class IntegerGreaterThan(_Bounded):
    """Integers from lower_bound on."""

    is_discrete, names = True, ("lower_bound",)

    def check(self, value):
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Real(Constraint):
    def check(self, value):
        return value == value


class GreaterThan(_Bounded):
    """Numbers above lower_bound."""

    names = ("lower_bound",)

    def check(self, value):
        return self.lower_bound < value


class GreaterThanEq(GreaterThan):
    """Numbers from lower_bound on."""

    def check(self, value):
        return self.lower_bound <= value


class LessThan(_Bounded):
    """Numbers below upper_bound."""

    names = ("upper_bound",)

    def check(self, value):
        return value < self.upper_bound


class Interval(_Bounded):
    """Numbers from lower_bound to upper_bound."""

    names = ("lower_bound", "upper_bound")

    def check(self, value):
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class HalfOpenInterval(Interval):
    """Numbers from lower_bound to below upper_bound."""

    def check(self, value):
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value):
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound):
        self.upper_bound = upper_bound

    def check(self, x):
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value):
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value):
        return (value.tril() == value).flatten(-2).all(-1) & (value.diagonal(0, -2, -1) > 0).all(-1)


class _CorrCholesky(Constraint):
    event_dim = 2

    def check(self, value):
        eps = lt.finfo(value.dtype).eps * value.shape[-1] * 10  # 10 is torch's tolerance
        return lower_cholesky.check(value) & ((value.norm(dim=-1) - 1).abs() < eps).all(-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value):
        return lt.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=lt.bool, device=value.device)


class _Symmetric(_Square):
    def check(self, value):
        return super().check(value) & lt.isclose(value, value.mT, atol=1e-6).flatten(-2).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value):
        return super().check(value) & (lt.linalg.eigvalsh(value) > 0).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value):
        return super().check(value) & (lt.linalg.eigvalsh(value) >= 0).all(-1)


class _Independent(Constraint):
    """A constraint whose last dimensions belong to one value."""

    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        self.base_constraint, self.n = base_constraint, reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value):
        ok = self.base_constraint.check(value)
        if ok.dim() < self.n:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return ok.flatten(ok.dim() - self.n).all(-1) if self.n else ok

    def __repr__(self):
        return f"Independent({self.base_constraint!r}, {self.n})"


class _Stack(Constraint):
    """One constraint for each index along dim."""

    def __init__(self, cseq, dim=0):
        self.cseq, self.dim = list(cseq), dim
        self.is_discrete = any(c.is_discrete for c in self.cseq)
        self.event_dim = max(c.event_dim for c in self.cseq) + (dim + max(c.event_dim for c in self.cseq) < 0)

    def check(self, value):
        return lt.stack([c.check(v) for c, v in zip(self.cseq, value.unbind(self.dim), strict=True)], self.dim)


class _Cat(Constraint):
    """One constraint for each of the lengths that dim is cut into."""

    def __init__(self, cseq, dim=0, lengths=None):
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        self.is_discrete, self.event_dim = any(c.is_discrete for c in self.cseq), max(c.event_dim for c in self.cseq)

    def check(self, value):
        return lt.cat([c.check(v) for c, v in zip(self.cseq, value.split(self.lengths, self.dim), strict=True)], self.dim)


dependent = _Dependent()
cat, stack = _Cat, _Stack
boolean, one_hot, real, simplex = _Boolean(), _OneHot(), _Real(), _Simplex()
nonnegative_integer, positive_integer = IntegerGreaterThan(0), IntegerGreaterThan(1)
positive, nonnegative, unit_interval = GreaterThan(0.0), GreaterThanEq(0.0), Interval(0.0, 1.0)
lower_triangular, lower_cholesky, square, symmetric = _LowerTriangular(), _LowerCholesky(), _Square(), _Symmetric()
corr_cholesky = _CorrCholesky()
positive_definite, positive_semidefinite = _PositiveDefinite(), _PositiveSemidefinite()
integer_interval, greater_than, greater_than_eq, less_than = IntegerInterval, GreaterThan, GreaterThanEq, LessThan
interval, half_open_interval, multinomial, independent = Interval, HalfOpenInterval, _Multinomial, _Independent
real_vector = independent(real, 1)

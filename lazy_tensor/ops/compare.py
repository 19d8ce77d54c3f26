"""Comparisons, logic, extrema of two operands, selection."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import check, is_bool, is_complex, is_float, is_inexact
from lazy_tensor.ops._define import _make_inplace, composite, op, publish, publish_method
from lazy_tensor.tensor import Tensor


def _compare(name, fn, doc, alias=(), ordered=False):
    def body(input: Array, other: Array | Scalar):
        if ordered:
            check(not is_complex(input.dtype), f"{name} is not supported for complex inputs", NotImplementedError)
        return fn(input, other)
    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"Whether {doc}, elementwise; bool (torch.{name})."
    body.__module__ = __name__
    made = op(body, promote="compare", method=(name, *alias), alias=alias)
    for n in (name, *alias):
        publish_method(n + "_", _make_bool_inplace(made, n + "_"))
    globals()[name] = made
    return made


def _make_bool_inplace(fn, name):
    """In place a comparison is stored as 0 and 1 in self's dtype."""
    return _make_inplace(lambda self, other: fn(self, other).to(self.dtype), name)


_compare("eq", jnp.equal, "input equals other")
_compare("ne", jnp.not_equal, "input differs from other", ("not_equal",))
_compare("lt", jnp.less, "input < other", ("less",), True)
_compare("le", jnp.less_equal, "input <= other", ("less_equal",), True)
_compare("gt", jnp.greater, "input > other", ("greater",), True)
_compare("ge", jnp.greater_equal, "input >= other", ("greater_equal",), True)


def _test(name, fn, doc):
    def body(input: Array):
        return fn(input)
    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"Whether each element {doc}; bool (torch.{name})."
    body.__module__ = __name__
    globals()[name] = op(body, method=True, out=name in ("isposinf", "isneginf"))


def _parts(fn, join):
    def call(x):
        if is_complex(x.dtype):
            return join(fn(jnp.real(x)), fn(jnp.imag(x)))
        return fn(x)
    return call


def _sign_inf(sign):
    def call(x):
        check(not is_complex(x.dtype), "isposinf/isneginf does not support complex inputs.")
        return x == (sign * jnp.inf) if is_float(x.dtype) else jnp.zeros(x.shape, bool)
    return call


_test("isnan", lambda x: jnp.isnan(x) if is_inexact(x.dtype) else jnp.zeros(x.shape, bool), "is nan")
_test("isinf", lambda x: jnp.isinf(x) if is_inexact(x.dtype) else jnp.zeros(x.shape, bool), "is infinite")
_test("isfinite", lambda x: jnp.isfinite(x) if is_inexact(x.dtype) else jnp.ones(x.shape, bool), "is finite")
_test("isposinf", _sign_inf(1), "is +inf")
_test("isneginf", _sign_inf(-1), "is -inf")
_test("isreal", lambda x: jnp.imag(x) == 0 if is_complex(x.dtype) else jnp.ones(x.shape, bool), "has no imaginary part")


def _logical(name, fn, doc):
    def body(input: Array, other: Array):
        return fn(input != 0, other != 0)
    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"Logical {doc}, nonzero counting as true; bool (torch.{name})."
    body.__module__ = __name__
    made = op(body, method=True)
    publish_method(name + "_", _make_bool_inplace(made, name + "_"))
    globals()[name] = made


_logical("logical_and", jnp.logical_and, "and")
_logical("logical_or", jnp.logical_or, "or")
_logical("logical_xor", jnp.logical_xor, "exclusive or")


@op(method=True)
def logical_not(input: Array):
    """Whether each element is zero; bool (torch.logical_not)."""
    return input == 0


publish_method("logical_not_", _make_inplace(lambda self: logical_not(self).to(self.dtype), "logical_not_"))


def _extreme(name, fn, better, ignore_nan, alias=()):
    @jax.custom_jvp
    def pick(a, b):
        return fn(a, b)

    @pick.defjvp
    def jvp(p, t):
        """Half the gradient to each at ties; beside nan the whole to each, as torch's masks give."""
        a, b = p
        if ignore_nan:
            wa = jnp.where((a >= b) | jnp.isnan(b) if name == "fmax" else (a <= b) | jnp.isnan(b), 1.0, 0.0).astype(a.dtype)
            return pick(a, b), t[0] * wa + t[1] * (1 - wa)
        tie = jnp.where(a == b, 0.5, 1.0)
        wa, wb = (jnp.where(better(q, p_), 0.0, tie).astype(a.dtype) for p_, q in ((a, b), (b, a)))
        return pick(a, b), t[0] * wa + t[1] * wb

    def body(input: Array, other: Array):
        check(not is_complex(input.dtype), f"{name} not implemented for complex tensors.")
        return pick(*jnp.broadcast_arrays(input, other)) if is_inexact(input.dtype) else fn(input, other)
    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"The elementwise {name} of two tensors (torch.{name})."
    body.__module__ = __name__
    globals()[name] = op(body, promote=True, method=True)

    def number(input: Array, other: Scalar):
        return body(input, other)
    number.__module__ = __name__
    globals()[f"_{name}_number"] = op(number, name=name, where=None, promote=True)


_extreme("maximum", jnp.maximum, jnp.greater, False)
_extreme("minimum", jnp.minimum, jnp.less, False)
_extreme("fmax", jnp.fmax, jnp.greater, True)
_extreme("fmin", jnp.fmin, jnp.less, True)


@op(where=None, name="where", promote=("input", "other"))
def _where(condition: Array, input: Array | Scalar, other: Array | Scalar):
    check(is_bool(condition.dtype) or condition.dtype == np.uint8,
          f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype.name}")
    return jnp.where(condition != 0, input, other)


@composite
def where(condition, input=None, other=None, *, out=None):
    """input where condition holds, other elsewhere; with the condition alone, the indices of its nonzero elements (torch.where)."""
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if not isinstance(input, Tensor) and not isinstance(other, Tensor):
        from lazy_tensor import creation
        input = creation.tensor(input, device=condition.device)
    r = _where(condition, input, other)
    if out is not None:
        from lazy_tensor.ops._define import _write_out
        return _write_out("where", r, out)
    return r


publish_method("where", lambda self, condition, other=None: where(condition, self, other))


@op(method=True)
def isclose(input: Array, other: Array, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False):
    """Whether |input - other| <= atol + rtol |other|, elementwise (torch.isclose)."""
    check(input.dtype == other.dtype, f"{input.dtype.name} did not match {other.dtype.name}")
    check(rtol >= 0, f"rtol must be greater than or equal to zero, but got {rtol}")
    check(atol >= 0, f"atol must be greater than or equal to zero, but got {atol}")
    close = input == other
    if is_inexact(input.dtype):
        a, b = (v.astype(np.float32) if v.dtype.itemsize < 4 else v for v in (input, other))
        d = jnp.abs(a - b)
        close = close | (jnp.isfinite(d) & (d <= atol + jnp.abs(rtol * b)))
        if equal_nan:
            close = close | (jnp.isnan(a) & jnp.isnan(b))
    elif rtol or atol:
        a, b = input.astype(np.float64), other.astype(np.float64)
        close = close | (jnp.abs(a - b) <= atol + jnp.abs(rtol * b))
    return close


@composite(method=True)
def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all elements are close (a Python bool; one sync) (torch.allclose)."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@composite(method=True)
def equal(input, other):
    """Whether two tensors have the same shape and elements (a Python bool; one sync) (torch.equal)."""
    if not isinstance(other, Tensor):
        raise TypeError(f"equal(): argument 'other' (position 2) must be Tensor, not {type(other).__name__}")
    if tuple(input.shape) != tuple(other.shape):
        return False
    return bool((input == other).all())


@op(where=None, name="isin", differentiable=False)
def _isin(elements: Array | Scalar, test_elements: Array | Scalar, invert: bool):
    for a in (elements, test_elements):
        check(not is_complex(a.dtype) and not is_bool(a.dtype), f"Unsupported input type encountered for isin(): {a.dtype.name}")
    t = jnp.ravel(test_elements)
    hit = (elements[..., None] == t).any(-1)
    return ~hit if invert else hit


@composite
def isin(elements, test_elements, *, assume_unique=False, invert=False, out=None):
    """Whether each element is among test_elements (torch.isin)."""
    r = _isin(elements, test_elements, invert)
    return r if out is None else out.copy_(r)


publish_method("isin", isin)
publish("is_same_size", lambda input, other: tuple(input.shape) == tuple(other.shape))
publish_method("is_same_size", lambda input, other: tuple(input.shape) == tuple(other.shape))

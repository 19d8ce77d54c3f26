"""torch.special: error functions, gamma functions, Bessel functions, orthogonal polynomials; jax.scipy's where it has them."""
from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import jax.scipy.special as js
import numpy as np
from jax import lax

from lazy_tensor.ops._common import check, is_complex, is_float
from lazy_tensor.ops._define import _make_inplace, _write_out, composite, namespace, op, publish, publish_method
from lazy_tensor.ops.pointwise import _sign


def _wide(fn):
    def call(x, *a):
        if is_float(x.dtype) and x.dtype.itemsize < 4:
            return fn(x.astype(np.float32), *[v.astype(np.float32) for v in a]).astype(x.dtype)
        return fn(x, *a)
    return call


def _unary(name, fn, doc, top=(), inplace=False, differentiable=True):
    """special.NAME, the same function under top-level names (and methods), in place where torch has it."""
    def body(input: Array):
        check(not is_complex(input.dtype), f"{name}: not implemented for {input.dtype.name}; real numbers fit", NotImplementedError)
        return _wide(fn)(input)
    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"{doc}, elementwise (torch.special.{name})."
    body.__module__ = __name__
    made = op(body, where="special", promote="float", alias=top, method=top or False, differentiable=differentiable)
    for n in top if inplace else ():
        publish_method(n + "_", _make_inplace(made, n + "_"))
        publish(n + "_", _make_inplace(made, n + "_"))
    globals()[name] = made


def _erfcx(x):
    """e^(x^2) erfc(x), from the continued fraction for large x and the definition below."""
    big = x > 5
    xs = jnp.where(big, x, 6.0)
    t = xs
    for k in range(40, 0, -1):
        t = xs + (k / 2) / t
    frac = 1 / (t * float(np.sqrt(np.pi)))
    small = jnp.where(big, 0.0, x)
    return jnp.where(big, frac, jnp.exp(small * small) * js.erfc(small))


def _derived(fn, derivative):
    """fn with the derivative x, fn(x) -> f'(x); where jax's own is nan or wrong at a special point."""
    @jax.custom_jvp
    def call(x):
        return fn(x)

    @call.defjvp
    def jvp(p, t):
        y = call(p[0])
        return y, t[0] * derivative(p[0], y)
    return call


def _over(a, x, at_zero):
    """a / x, at_zero where x is 0."""
    return jnp.where(x == 0, at_zero, a / jnp.where(x == 0, 1, x))


def _sinc_slope(x, y):
    """(cos(pi x) - sinc(x)) / x; its Taylor series where that cancels."""
    near = jnp.abs(x) < 0.1
    z = jnp.where(near, np.pi * x, 0)
    z2 = z * z
    series = np.pi * z * (-1 / 3 + z2 * (1 / 30 + z2 * (-1 / 840 + z2 * (1 / 45360 - z2 / 3991680))))
    far = jnp.where(near, 1, x)
    return jnp.where(near, series, (jnp.cos(np.pi * far) - jnp.sinc(far)) / far)


def _no_sign(x):
    """0 for both zeros, as torch's sums give."""
    return jnp.where(x == 0, 0, x)


_i0 = _derived(js.i0, lambda x, y: _i1(x))
_i1 = _derived(lambda x: _no_sign(js.i1(x)), lambda x, y: _i0(x) - _over(y, x, 0.5))
_i0e = _derived(js.i0e, lambda x, y: _i1e(x) - _sign(x) * y)
_i1e = _derived(lambda x: _no_sign(js.i1e(x)), lambda x, y: jnp.where(x == 0, 0.5, _i0e(x) - y * (_sign(x) + _over(1.0, x, 0.0))))
_lgamma = _derived(js.gammaln, lambda x, y: _digamma(x))
_erfcx_ = _derived(_erfcx, lambda x, y: jnp.where(jnp.isposinf(x), 0, 2 * x * y - 2 / math.sqrt(math.pi)))
_ndtri = _derived(js.ndtri, lambda x, y: math.sqrt(2 * math.pi) * jnp.exp(y * y / 2))
_log_ndtr = _derived(js.log_ndtr, lambda x, y: math.sqrt(2 / math.pi) / _erfcx_(x * -math.sqrt(0.5)))
_sinc = _derived(jnp.sinc, _sinc_slope)


_unary("erf", js.erf, "the error function", ("erf",), True)
_unary("erfc", js.erfc, "1 - erf", ("erfc",), True)
_unary("erfinv", js.erfinv, "the inverse of erf", ("erfinv",), True)
_unary("erfcx", _erfcx_, "e^(x^2) erfc(x)")
_unary("gammaln", _lgamma, "log |gamma(x)|", ("lgamma",), True)
_unary("digamma", lambda x: _digamma(x), "the derivative of log gamma", ("digamma",), True)
publish("special.psi", globals()["digamma"])
_unary("ndtr", js.ndtr, "the normal distribution function")
_unary("ndtri", _ndtri, "its inverse")
_unary("log_ndtr", _log_ndtr, "its logarithm")
_unary("i0", _i0, "the modified Bessel function of order 0", ("i0",), True)
_unary("i0e", _i0e, "i0 scaled by e^-|x|")
_unary("i1", _i1, "the modified Bessel function of order 1")
_unary("i1e", _i1e, "i1 scaled by e^-|x|")
publish("special.lgamma", globals()["gammaln"])


@jax.custom_jvp
def _entr(x):
    return jnp.where(jnp.isnan(x), x, jnp.where(x > 0, -x * jnp.log(jnp.where(x > 0, x, 1)), jnp.where(x == 0, 0, -jnp.inf)))


@_entr.defjvp
def _entr_jvp(p, t):
    x, = p
    return _entr(x), t[0] * (-1 - jnp.log(x))


_unary("entr", _entr, "-x log x")


@op(promote="float", method=True, inplace=True, alias=("special.sinc",))
def sinc(input: Array):
    """sin(pi x) / (pi x), 1 at 0 (torch.sinc)."""
    return _wide(_sinc)(input)


# ------------------------------------------------------------------------------------------- gamma functions of two arguments


def _binary(name, fn, doc, top=()):
    def pair(a, b):
        check(is_float(a.dtype), f"{name}: not implemented for {a.dtype.name}; floats fit", NotImplementedError)
        return _wide(fn)(*jnp.broadcast_arrays(a, b))

    if top:
        def body(input: Array, other: Array):
            return pair(input, other)
    else:
        def body(input: Array | Scalar, other: Array | Scalar):
            return pair(input, other)
    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"{doc}, elementwise (torch.special.{name})."
    body.__module__ = __name__
    made = op(body, where="special", promote=True if top else "float", alias=top, method=top or False)
    for n in top:
        publish_method(n + "_", _make_inplace(made, n + "_"))
    globals()[name] = made


# Coefficients in eta of the two leading terms of Temme's expansion (DLMF 8.12.11).
_TEMME = ((-1 / 3, 1 / 12, -2 / 135, 1 / 864, 1 / 2835, -139 / 777600, 1 / 25515, -571 / 261273600),
          (-1 / 540, -1 / 288, 1 / 378, -77 / 77760, 1 / 4860))
_LARGE = 1e4


def _uniform(a, x, lower):
    """Temme's uniform expansion for large a (DLMF 8.12.3, 8.12.4), to 1e-13 for a >= 1e4."""
    mu = (x - a) / a
    near = jnp.abs(mu) < 0.01
    m, far = jnp.where(near, mu, 0.0), jnp.where(near, 1.0, jnp.maximum(mu, -1 + 1e-15))
    bend = 2 * jnp.where(near, sum((-m) ** k / (k + 2) for k in range(8)), (far - jnp.log1p(far)) / (far * far))
    eta = mu * jnp.sqrt(bend)
    half = eta * eta / 2
    c0, c1 = (sum(c * jnp.clip(eta, -1, 1) ** k for k, c in enumerate(cs)) for cs in _TEMME)
    rest = jnp.exp(-a * half) / jnp.sqrt(2 * np.pi * a) * (c0 + c1 / a)
    z = eta * jnp.sqrt(a / 2)
    return js.erfc(-z) / 2 - rest if lower else js.erfc(z) / 2 + rest


def _edge(fn, lower):
    """fn where its loops end soon, Temme's expansion for large a (jax 0.10's series takes for ever at a = 1e10); torch's limits:
    all mass below x at a = 0, all above at a = inf."""
    def call(a, x):
        none, whole = (1.0, 0.0) if lower else (0.0, 1.0)
        usual = (a > 0) & (a < _LARGE) & ~jnp.isnan(x)
        large = (a >= _LARGE) & jnp.isfinite(a) & jnp.isfinite(x)
        r = fn(jnp.where(usual, a, 1), jnp.where(usual, x, 1))
        wide = [jnp.where(large, v, 2 * _LARGE).astype(np.float64) for v in (a, x)]
        r = jnp.where(large, _uniform(*wide, lower).astype(r.dtype), jnp.where(usual, r, none))
        r = jnp.where(a == 0, jnp.where(x == 0, jnp.nan, none), jnp.where(jnp.isinf(a), jnp.where(jnp.isinf(x), jnp.nan, whole), r))
        return jnp.where((a < 0) | (x < 0) | jnp.isnan(x) | jnp.isnan(a), jnp.nan, r)
    return call


_binary("gammainc", _edge(js.gammainc, True), "the regularised lower incomplete gamma function", ("igamma",))
_binary("gammaincc", _edge(js.gammaincc, False), "the regularised upper incomplete gamma function", ("igammac",))


@jax.custom_jvp
def _xlog1py(a, b):
    zero = (a == 0) & ~jnp.isnan(b)
    return jnp.where(zero, 0, a * jnp.log1p(jnp.where(zero, 0, b)))


@_xlog1py.defjvp
def _xlog1py_jvp(p, t):
    """d/da = log1p(b) also at a = 0, where b > -1; d/db = a / (1 + b), 0 at a = 0."""
    a, b = p
    low = (a == 0) & (b <= -1)
    db = jnp.where(a == 0, 0, a / jnp.where(a == 0, 1, 1 + b))
    return _xlog1py(a, b), t[0] * jnp.where(low, 0, jnp.log1p(jnp.where(low, 0, b))) + t[1] * db


_binary("xlog1py", _xlog1py, "a log(1 + b), 0 where a is 0")


def _zeta(x, q):
    """Hurwitz zeta by summation up to q > 9 and the Euler-Maclaurin remainder, in float64 (Cephes, zeta.c)."""
    t = x.dtype
    x, q = x.astype(np.float64), q.astype(np.float64)
    pole = (q <= 0) & (q == jnp.floor(q))
    bad = (x < 1) | ((q <= 0) & ~pole & (x != jnp.floor(x)))
    a0 = jnp.where(pole | bad | jnp.isnan(q), 1.0, jnp.maximum(q, -1e4))
    s0 = jnp.where(x <= 1, 2.0, x)

    def body(c):
        i, a, s = c
        go = (i < 9) | (a <= 9)
        a2 = jnp.where(go, a + 1, a)
        return i + 1, a2, s + jnp.where(go, _power(a2, s0), 0.0)

    def _power(a, s):
        sign = jnp.where((a < 0) & (s % 2 == 1), -1.0, 1.0)
        return sign * jnp.abs(a) ** -s
    _, a, s = lax.while_loop(lambda c: (c[0] < 9) | jnp.any(c[1] <= 9), body, (0, a0, _power(a0, s0)))
    w = a
    b = _power(w, s0)
    s = s + b * w / (s0 - 1) - 0.5 * b
    f, k = 1.0, 0.0
    for c in (12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10, -2.950130727918164224e12,
              1.1646782814350067249e14, -4.5979787224074726105e15, 1.8152105401943546773e17, -7.1661652561756670113e18):
        f = f * (s0 + k)
        b = b / w
        s = s + f * b / c
        k += 1.0
        f = f * (s0 + k)
        b = b / w
        k += 1.0
    r = jnp.where(pole, jnp.inf, s)
    return jnp.where(x == 1, jnp.inf, jnp.where(bad | jnp.isnan(q), jnp.nan, r)).astype(t)


_zeta_ = jax.custom_jvp(_zeta)


@_zeta_.defjvp
def _zeta_jvp(p, t):
    """d/dq zeta(x, q) = -x zeta(x + 1, q); d/dx term by term, in forward mode, which the loop allows."""
    x, q = p
    y, slope = jax.jvp(lambda v: _zeta(v, q), (x,), (jnp.ones_like(x),))
    return y, t[0] * slope - t[1] * x * _zeta_(x + 1, q)


_binary("zeta", _zeta_, "the Hurwitz zeta function")


def _polygamma(n, x):
    if n == 0:
        return _digamma(x)
    return _higher(n, x)


def _psi_n(n, x):
    """(-1)^(n+1) n! zeta(n + 1, x); trigamma by reflection below one half (as torch)."""
    y = x.astype(np.float64)
    if n == 1:
        low = y < 0.5
        s = jnp.sin(np.pi * jnp.where(low, y, 0.25))
        z = _zeta(jnp.full(y.shape, 2.0), jnp.where(low, 1 - y, y))
        return jnp.where(low, -z + np.pi ** 2 / (s * s), z).astype(x.dtype)
    factor = float(math.factorial(n)) * (-1) ** (n + 1)
    return (factor * _zeta(jnp.full(y.shape, n + 1.0), y)).astype(x.dtype)


_higher = jax.custom_jvp(_psi_n, nondiff_argnums=(0,))


@_higher.defjvp
def _higher_jvp(n, p, t):
    return _higher(n, p[0]), t[0] * _higher(n + 1, p[0])


@jax.custom_jvp
def _digamma(x):
    return jnp.where(x == 0, jnp.copysign(jnp.asarray(jnp.inf, x.dtype), -x), js.digamma(x))


@_digamma.defjvp
def _digamma_jvp(p, t):
    return _digamma(p[0]), t[0] * _higher(1, p[0])


@op(where=None, name="polygamma", promote=("input",), to_float=True)
def _poly(n: int, input: Array):
    check(is_float(input.dtype), f"polygamma: not implemented for {input.dtype.name}; real numbers fit", NotImplementedError)
    check(n >= 0, f"polygamma(n, x) does not support negative n, got {n}")
    return _wide(lambda v: _polygamma(n, v))(input)


@composite(alias=("special.polygamma",))
def polygamma(n, input, *, out=None):
    """The n-th derivative of digamma (torch.polygamma)."""
    r = _poly(n, input)
    return r if out is None else _write_out("polygamma", r, out)


publish_method("polygamma", lambda self, n: polygamma(n, self))
publish_method("polygamma_", _make_inplace(lambda self, n: polygamma(n, self), "polygamma_"))


# ------------------------------------------------------------------------------------------- Bessel functions by quadrature and series


def _quad(f, a, b, n):
    """Gauss-Legendre nodes and weights on [a, b] as f's sum."""
    x, w = np.polynomial.legendre.leggauss(n)
    x, w = (x + 1) / 2 * (b - a) + a, w / 2 * (b - a)
    return sum(float(wi) * f(float(xi)) for xi, wi in zip(x, w))


def _asymptotic(order, x, which):
    """Hankel's expansion for large x (Abramowitz and Stegun 9.2.5, 9.2.6)."""
    mu = 4.0 * order * order
    p, q, term = jnp.ones_like(x), jnp.zeros_like(x), jnp.ones_like(x)
    for k in range(1, 28):
        term = term * (mu - (2 * k - 1) ** 2) / (k * 8.0 * x)
        if k % 2:
            q = q + (1 if (k // 2) % 2 == 0 else -1) * term
        else:
            p = p + (-1 if (k // 2) % 2 else 1) * term
    chi = x - (order / 2 + 0.25) * np.pi
    amp = jnp.sqrt(2 / (np.pi * x))
    return amp * (p * jnp.cos(chi) - q * jnp.sin(chi)) if which == "j" else amp * (p * jnp.sin(chi) + q * jnp.cos(chi))


def _series(order, x, terms=60):
    """The power series of J (alternating): (x/2)^order sum (-x^2/4)^k / (k! (k + order)!)."""
    y = -(x * x) / 4
    term = jnp.ones_like(x) if order == 0 else x / 2
    total = term
    for k in range(1, terms):
        term = term * y / (k * (k + order))
        total = total + term
    return total


def _in_double(fn):
    def call(x):
        return fn(x.astype(np.float64)).astype(x.dtype)
    return call


def _bessel_j(order):
    def fn(x):
        a = jnp.abs(x)
        small = _series(order, jnp.minimum(a, 16.0), 90)
        large = _asymptotic(order, jnp.maximum(a, 16.0), "j")
        r = jnp.where(a < 16.0, small, large)
        r = jnp.where(jnp.isinf(a), jnp.nan, r)
        return r if order == 0 else r * jnp.sign(x)
    return _in_double(fn)


_EULER = 0.57721566490153286061


def _bessel_y(order):
    def fn(x):
        a = jnp.clip(x, 1e-300, 16.0)
        y = -(a * a) / 4
        log = jnp.log(a / 2) + _EULER
        if order == 0:
            term, h, s = jnp.ones_like(a), 0.0, jnp.zeros_like(a)
            for k in range(1, 90):
                term = term * y / (k * k)
                h += 1 / k
                s = s - term * h
            small = (2 / np.pi) * (log * _series(0, a, 90) + s)
        else:
            term, s, h = a / 2, jnp.zeros_like(a), 0.0
            s = s + term * 1.0
            hk, hk1 = 0.0, 1.0
            for k in range(1, 90):
                term = term * y / (k * (k + 1))
                hk += 1 / k
                hk1 = hk + 1 / (k + 1)
                s = s + term * (hk + hk1)
            small = (2 / np.pi) * log * _series(1, a, 90) - s / np.pi - 2 / (np.pi * a)
        large = _asymptotic(order, jnp.maximum(x, 16.0), "y")
        r = jnp.where(x < 16.0, small, large)
        r = jnp.where(x == 0, -jnp.inf, jnp.where(jnp.isinf(x), jnp.nan, r))
        return jnp.where(x < 0, jnp.nan, jnp.where(jnp.isnan(x), x, r))
    return _in_double(fn)


def _bessel_k(order, scaled):
    """K by the trapezoid rule on its integral: K_v(x) = int_0^inf exp(-x cosh t) cosh(v t) dt."""
    def fn(x):
        a = jnp.maximum(x, 1e-300)
        top = jnp.arccosh(1 + 745.0 / jnp.minimum(a, 1e300))
        n = 200
        h = top / n
        total = jnp.zeros_like(a)
        for k in range(n + 1):
            t = h * k
            w = 0.5 if k in (0, n) else 1.0
            total = total + w * jnp.exp(-a * (jnp.cosh(t) - 1)) * jnp.cosh(order * t)
        r = total * h
        r = r if scaled else r * jnp.exp(-a)
        r = jnp.where(x == 0, jnp.inf, jnp.where(jnp.isinf(x), 0.0, r))
        return jnp.where(x < 0, jnp.nan, jnp.where(jnp.isnan(x), x, r))
    return _in_double(fn)


for _o in (0, 1):
    _unary(f"bessel_j{_o}", _bessel_j(_o), f"the Bessel function J{_o}", differentiable=False)
    _unary(f"bessel_y{_o}", _bessel_y(_o), f"the Bessel function Y{_o}", differentiable=False)
    _unary(f"modified_bessel_i{_o}", (_i0, _i1)[_o], f"the modified Bessel function I{_o}", differentiable=False)
    _unary(f"modified_bessel_k{_o}", _bessel_k(_o, False), f"the modified Bessel function K{_o}", differentiable=False)
    _unary(f"scaled_modified_bessel_k{_o}", _bessel_k(_o, True), f"K{_o} scaled by e^x", differentiable=False)


def _spherical_j0(x):
    small = jnp.abs(x) < 0.5
    s = jnp.where(small, x, 1.0)
    y = s * s
    series = 1 - y / 6 + y * y / 120 - y ** 3 / 5040 + y ** 4 / 362880
    big = jnp.where(small, 1.0, x)
    return jnp.where(jnp.isinf(x), 0.0, jnp.where(small, series, jnp.sin(big) / big))


_unary("spherical_bessel_j0", _spherical_j0, "the spherical Bessel function j0", differentiable=False)


def _airy(x):
    """Ai: the Maclaurin series near 0 (Abramowitz and Stegun 10.4.2), asymptotic series away (10.4.59, 10.4.60)."""
    x = x.astype(np.float64)
    c1, c2 = 0.35502805388781723926, 0.25881940379280679841
    s = jnp.clip(x, -8.0, 5.5)
    f, g, tf, tg, y = jnp.ones_like(s), s, jnp.ones_like(s), s, s ** 3
    for k in range(1, 70):
        tf = tf * y / ((3 * k - 1) * (3 * k))
        tg = tg * y / ((3 * k) * (3 * k + 1))
        f, g = f + tf, g + tg
    series = c1 * f - c2 * g
    cs = [1.0]
    for k in range(1, 14):
        cs.append(cs[-1] * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1)))
    xp = jnp.maximum(x, 5.5)
    z = 2 / 3 * xp ** 1.5
    pos = jnp.exp(-z) / (2 * np.sqrt(np.pi) * xp ** 0.25) * sum((-1) ** k * c / z ** k for k, c in enumerate(cs))
    xn = jnp.maximum(-x, 8.0)
    z = 2 / 3 * xn ** 1.5
    p = sum((-1) ** k * cs[2 * k] / z ** (2 * k) for k in range(7))
    q = sum((-1) ** k * cs[2 * k + 1] / z ** (2 * k + 1) for k in range(6))
    neg = (jnp.sin(z + np.pi / 4) * p - jnp.cos(z + np.pi / 4) * q) / (np.sqrt(np.pi) * xn ** 0.25)
    return jnp.where(jnp.isnan(x), x, jnp.where(x > 5.5, jnp.where(jnp.isinf(x), jnp.nan, pos), jnp.where(x < -8.0, jnp.where(jnp.isinf(x), jnp.nan, neg), series)))


_unary("airy_ai", lambda x: _airy(x).astype(x.dtype), "the Airy function Ai", differentiable=False)


# ------------------------------------------------------------------------------------------- orthogonal polynomials


def _recurrence(x, n, first, second, step):
    """p_n by its three-term recurrence, n an array of non-negative integers (0 below)."""
    n = jnp.broadcast_to(n, x.shape)
    k_max = jnp.max(n, initial=0)

    def body(carry):
        k, a, b, r = carry
        c = step(k, x, a, b)
        return k + 1, b, c, jnp.where(n == k + 1, c, r)
    start = jnp.where(n == 0, first(x), jnp.where(n == 1, second(x), 0.0))
    _, _, _, r = lax.while_loop(lambda c: c[0] < k_max, body, (jnp.ones((), x.dtype), first(x), second(x), start))
    return jnp.where(n < 0, 0.0, r)


def _polynomial(name, first, second, step, doc, shift=False):
    def body(input: Array | Scalar, n: Array | Scalar):
        check(is_float(input.dtype), f"{name}: not implemented for {input.dtype.name}; real numbers fit", NotImplementedError)
        x, k = jnp.broadcast_arrays(input, n)
        x = 2 * x - 1 if shift else x
        return lax.stop_gradient(_recurrence(x, jnp.trunc(k), first, second, step))
    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"{doc} of degree n at input (torch.special.{name})."
    body.__module__ = __name__
    globals()[name] = op(body, where="special", promote="float", differentiable=False)


_one = lambda x: jnp.ones_like(x)
_cheb = lambda k, x, a, b: 2 * x * b - a
for _n, _second, _d in (("t", lambda x: x, "first"), ("u", lambda x: 2 * x, "second"), ("v", lambda x: 2 * x - 1, "third"),
                        ("w", lambda x: 2 * x + 1, "fourth")):
    _polynomial(f"chebyshev_polynomial_{_n}", _one, _second, _cheb, f"the Chebyshev polynomial of the {_d} kind")
    _polynomial(f"shifted_chebyshev_polynomial_{_n}", _one, _second, _cheb, f"the shifted Chebyshev polynomial of the {_d} kind", True)
_polynomial("hermite_polynomial_h", _one, lambda x: 2 * x, lambda k, x, a, b: 2 * x * b - 2 * k * a, "the physicist's Hermite polynomial")
_polynomial("hermite_polynomial_he", _one, lambda x: x, lambda k, x, a, b: x * b - k * a, "the probabilist's Hermite polynomial")
_polynomial("laguerre_polynomial_l", _one, lambda x: 1 - x, lambda k, x, a, b: ((2 * k + 1 - x) * b - k * a) / (k + 1), "the Laguerre polynomial")
_polynomial("legendre_polynomial_p", _one, lambda x: x, lambda k, x, a, b: ((2 * k + 1) * x * b - k * a) / (k + 1), "the Legendre polynomial")


def _aliases():
    here = namespace("")
    for name in ("softmax", "log_softmax"):
        fn = here.get(name)
        if fn is not None:
            def call(input, dim, *, dtype=None, _fn=fn):
                return _fn(input, dim, dtype=dtype)
            call.__name__ = name
            publish(f"special.{name}", call)


_aliases()

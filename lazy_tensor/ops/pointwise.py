"""Elementwise arithmetic, powers, exponentials, trigonometry, rounding; one line an op where jax has the function."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lazy_tensor.ops._common import check, default_complex, default_float, is_bool, is_complex, is_float, is_inexact, is_int
from lazy_tensor.ops._define import composite, op, publish, publish_method
from lazy_tensor.tensor import Tensor


def wide(fn):
    """fn computed in float32 for half types, cast back."""
    def call(x, *a):
        if is_float(x.dtype) and x.dtype.itemsize < 4:
            r = fn(x.astype(np.float32), *a)
            return r.astype(x.dtype) if is_float(r.dtype) else r
        return fn(x, *a)
    return call


def _unary(name, fn, doc, promote=None, alias=(), methods=None, real_only=False, inplace=True):
    def body(input: Array):
        if real_only:
            check(not is_complex(input.dtype), f"{name} is not supported for complex inputs, got {input.dtype.name}{list(input.shape)}",
                  NotImplementedError)
        return wide(fn)(input)
    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"{doc}, elementwise (torch.{name})."
    body.__module__ = __name__
    made = op(body, promote=promote, method=methods or True, inplace=inplace, alias=alias)
    globals()[name] = made
    for a in alias:
        if "." not in a:
            publish_method(a, made)
            if inplace:
                from lazy_tensor.ops._define import _make_inplace
                publish_method(a + "_", _make_inplace(made, a + "_"))
                publish(a + "_", _make_inplace(made, a + "_"))
    return made


def _sqrt(x):
    return jnp.sqrt(x)


@jax.custom_jvp
def _acosh(x):
    return jnp.arccosh(x)


@_acosh.defjvp
def _acosh_jvp(p, t):
    """1 / (sqrt(x - 1) sqrt(x + 1)): on complex numbers the two roots must not be joined (jax 0.10 joins them: wrong sign left of 0)."""
    x, = p
    d = lax.rsqrt(x - 1) * lax.rsqrt(x + 1) if is_complex(x.dtype) else lax.rsqrt(x * x - 1)
    return _acosh(x), t[0] * d


for _n, _f, _d, _a in (
    ("exp", jnp.exp, "e^x", ()), ("exp2", jnp.exp2, "2^x", ("special.exp2",)), ("expm1", jnp.expm1, "e^x - 1", ("special.expm1",)),
    ("log", jnp.log, "the natural logarithm", ()), ("log2", jnp.log2, "the logarithm to base 2", ()),
    ("log10", jnp.log10, "the logarithm to base 10", ()), ("log1p", jnp.log1p, "log(1 + x)", ("special.log1p",)),
    ("sqrt", _sqrt, "the square root", ()), ("rsqrt", lax.rsqrt, "1 / sqrt(x)", ()),
    ("sin", jnp.sin, "the sine", ()), ("cos", jnp.cos, "the cosine", ()), ("tan", jnp.tan, "the tangent", ()),
    ("asin", jnp.arcsin, "the arc sine", ("arcsin",)), ("acos", jnp.arccos, "the arc cosine", ("arccos",)),
    ("atan", jnp.arctan, "the arc tangent", ("arctan",)), ("sinh", jnp.sinh, "the hyperbolic sine", ()),
    ("cosh", jnp.cosh, "the hyperbolic cosine", ()), ("asinh", jnp.arcsinh, "the inverse hyperbolic sine", ("arcsinh",)),
    ("acosh", _acosh, "the inverse hyperbolic cosine", ("arccosh",)),
    ("atanh", jnp.arctanh, "the inverse hyperbolic tangent", ("arctanh",)),
    ("sigmoid", jax.nn.sigmoid, "1 / (1 + e^-x)", ("special.expit", "nn.functional.sigmoid")),
    ("reciprocal", lambda x: 1 / x, "1 / x", ()),
):
    _unary(_n, _f, _d, "float", _a)


@jax.custom_jvp
def _tanh(x):
    return jnp.tanh(x)


@_tanh.defjvp
def _tanh_jvp(p, t):
    y = _tanh(p[0])
    return y, t[0] * (1 - y * y)


_unary("tanh", _tanh, "the hyperbolic tangent", "float", ("nn.functional.tanh",))


def _neg(x):
    check(not is_bool(x.dtype), "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the "
                                "`~` or `logical_not()` operator instead.")
    return -x


@jax.custom_jvp
def _abs(x):
    return jnp.abs(x)


@_abs.defjvp
def _abs_jvp(p, t):
    x, = p
    if is_complex(x.dtype):
        a = jnp.abs(x)
        s = jnp.where(a == 0, 0, x / jnp.where(a == 0, 1, a))
        return a, jnp.real(jnp.conj(s) * t[0])
    return jnp.abs(x), _sign(x) * t[0]


def _absolute(x):
    check(not is_bool(x.dtype), "abs: not implemented for bool", NotImplementedError)
    return _abs(x) if is_inexact(x.dtype) else jnp.abs(x)


def _sgn(x):
    if is_complex(x.dtype):
        a = _abs(x)
        return jnp.where(a == 0, 0, x / jnp.where(a == 0, 1, a)).astype(x.dtype)
    return _sign(x)


def _sign(x):
    if not is_float(x.dtype):
        return x if is_bool(x.dtype) else jnp.sign(x)
    return jnp.where(x > 0, 1, jnp.where(x < 0, -1, 0)).astype(x.dtype)


def _positive(x):
    check(not is_bool(x.dtype), "The `+` operator, on a bool tensor is not supported.")
    return x


def _rounding(fn):
    def call(x):
        check(not is_bool(x.dtype), f"{fn.__name__}: not implemented for bool", NotImplementedError)
        check(not is_complex(x.dtype), f"{fn.__name__} is not supported for complex inputs", NotImplementedError)
        return fn(x) if is_float(x.dtype) else x
    return call


_unary("neg", _neg, "-x", None, ("negative",))
_unary("abs", _absolute, "|x|", None, ("absolute",))
_unary("sign", _sign, "-1, 0 or 1", real_only=True)
_unary("sgn", _sgn, "x / |x|, 0 at 0")
_unary("floor", _rounding(jnp.floor), "the largest integer not above x")
_unary("ceil", _rounding(jnp.ceil), "the smallest integer not below x")
_unary("trunc", _rounding(jnp.trunc), "x without its fraction", None, ("fix",))
_unary("square", lambda x: x * x if not is_bool(x.dtype) else x.astype(np.int64), "x^2")
_unary("positive", _positive, "x", inplace=False)
_unary("signbit", lambda x: jnp.signbit(x) if is_float(x.dtype) else x < 0 if is_int(x.dtype) else jnp.zeros(x.shape, bool),
       "whether the sign bit is set", inplace=False, real_only=True)


def _frac(x):
    check(is_float(x.dtype), f"frac: not implemented for {x.dtype.name}", NotImplementedError)
    return x - lax.stop_gradient(jnp.trunc(x))


_unary("frac", _frac, "the fraction of x")
_unary("deg2rad", lambda x: x * (np.pi / 180), "degrees as radians", "float", real_only=True)
_unary("rad2deg", lambda x: x * (180 / np.pi), "radians as degrees", "float", real_only=True)


@op(method=True, inplace=True, alias=("special.round",))
def round(input: Array, *, decimals: int = 0):
    """The nearest integer (ties to even), or the nearest multiple of 10^-decimals (torch.round)."""
    check(not is_complex(input.dtype) and not is_bool(input.dtype), f"round: not implemented for {input.dtype.name}",
          NotImplementedError)
    if not is_float(input.dtype):
        check(decimals == 0, f"round: decimals={decimals} is not implemented for {input.dtype.name}; floats fit", NotImplementedError)
        return input
    if decimals == 0:
        return jnp.round(input)
    p = 10.0 ** (decimals if decimals > 0 else -decimals)
    return (jnp.round(input * p) / p if decimals > 0 else jnp.round(input / p) * p).astype(input.dtype)


# ------------------------------------------------------------------------------------------- two operands


def _scaled(alpha, x, name):
    if isinstance(alpha, int) and alpha == 1:
        return x
    a = jnp.asarray(alpha)
    if is_bool(x.dtype):
        check(not is_inexact(a.dtype), f"{name}: For integral input tensors, argument alpha must not be a floating point number.")
        return jnp.logical_and(x, a != 0)
    check(not is_bool(a.dtype), f"{name}: Boolean alpha only supported for Boolean results.")
    check(is_inexact(x.dtype) or not is_inexact(a.dtype), f"{name}: For integral input tensors, argument alpha must not be a floating point number.")
    check(is_complex(x.dtype) or not is_complex(a.dtype), f"{name}: For non-complex input tensors, argument alpha must not be a complex number.")
    return x * a.astype(x.dtype)


@op(promote=True, method=True, inplace=True)
def add(input: Array | Scalar, other: Array | Scalar, *, alpha: Scalar = 1):
    """input + alpha * other (torch.add)."""
    o = _scaled(alpha, other, "add")
    return jnp.logical_or(input, o) if is_bool(input.dtype) else input + o


@op(promote=True, method=True, inplace=True, alias=("subtract",))
def sub(input: Array | Scalar, other: Array | Scalar, *, alpha: Scalar = 1):
    """input - alpha * other (torch.sub)."""
    check(not is_bool(input.dtype), "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
                                    "operator instead.")
    return input - _scaled(alpha, other, "sub")


@op(promote=True, method=True)
def rsub(input: Array | Scalar, other: Array | Scalar, *, alpha: Scalar = 1):
    """other - alpha * input (torch.rsub)."""
    check(not is_bool(input.dtype), "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, "
                                    "use the `~` or `logical_not()` operator instead.")
    return other - _scaled(alpha, input, "rsub")


@op(promote=True, method=True, inplace=True, alias=("multiply",))
def mul(input: Array | Scalar, other: Array | Scalar):
    """input * other (torch.mul)."""
    return jnp.logical_and(input, other) if is_bool(input.dtype) else input * other


def _ratio(a, b):
    """a / b, half types in float32: XLA's float16 division takes subnormal divisors for 0."""
    if is_float(a.dtype) and a.dtype.itemsize < 4:
        return (a.astype(np.float32) / b.astype(np.float32)).astype(a.dtype)
    return a / b


@op(where=None, promote="float", name="div")
def _true_div(input: Array | Scalar, other: Array | Scalar):
    return _ratio(input, other)


@op(where=None, promote=True, name="div")
def _div_mode(input: Array | Scalar, other: Array | Scalar, rounding_mode: str):
    return _divide(input, other, rounding_mode)


def _divide(a, b, mode):
    check(not is_complex(a.dtype), "div: rounding is not supported for complex", NotImplementedError)
    if mode == "floor":
        if is_float(a.dtype):
            if a.dtype.itemsize < 4:
                return _float_floor(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
            return _float_floor(a, b)
        check(not is_bool(a.dtype), "div: rounding_mode='floor' is not implemented for bool", NotImplementedError)
        return jnp.floor_divide(a, b)
    if is_float(a.dtype):
        return jnp.trunc(_ratio(a, b))
    check(not is_bool(a.dtype), "div: rounding_mode='trunc' is not implemented for bool", NotImplementedError)
    return lax.div(*jnp.broadcast_arrays(a, b))


@jax.custom_jvp
def _float_floor(a, b):
    mod = lax.rem(*jnp.broadcast_arrays(a, b))
    q = (a - mod) / b
    q = jnp.where((mod != 0) & ((b < 0) != (mod < 0)), q - 1, q)
    f = jnp.floor(q)
    f = jnp.where(q - f > 0.5, f + 1, f)
    f = jnp.where(q == 0, jnp.copysign(jnp.zeros_like(q), a / b), f)
    return jnp.where(b == 0, a / b, f).astype(a.dtype)


@_float_floor.defjvp
def _float_floor_jvp(p, t):
    y = _float_floor(*p)
    return y, jnp.zeros_like(y)


@composite(method=True, inplace=True, alias=("divide",))
def div(input, other, *, rounding_mode=None, out=None):
    """input / other; rounding_mode "trunc" or "floor" rounds the quotient (torch.div)."""
    if rounding_mode is None:
        return _true_div(input, other) if out is None else _out("div", _true_div(input, other), out)
    if rounding_mode not in ("trunc", "floor"):
        raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'")
    r = _div_mode(input, other, rounding_mode)
    return r if out is None else _out("div", r, out)


def _out(name, r, out):
    from lazy_tensor.ops._define import _write_out
    return _write_out(name, r, out)


publish_method("divide", div)
publish_method("multiply", mul)
publish_method("subtract", sub)
op(_true_div.__wrapped_op__.body, name="true_divide", promote="float", method=True, inplace=True)


@op(promote=True, method=True, inplace=True)
def floor_divide(input: Array | Scalar, other: Array | Scalar):
    """floor(input / other) (torch.floor_divide)."""
    return _divide(input, other, "floor")


@op(promote=True, method=True, inplace=True)
def remainder(input: Array | Scalar, other: Array | Scalar):
    """Python's modulus: the sign is the divisor's (torch.remainder)."""
    check(not is_complex(input.dtype) and not is_bool(input.dtype), f"remainder: not implemented for {input.dtype.name}",
          NotImplementedError)
    if not is_float(input.dtype):
        return jnp.remainder(input, other)
    return _remainder(*jnp.broadcast_arrays(input, other))


@jax.custom_jvp
def _remainder(a, b):
    m = lax.rem(a, b)
    return jnp.where((m != 0) & ((b < 0) != (m < 0)), m + b, m)


@_remainder.defjvp
def _remainder_jvp(p, t):
    a, b = p
    return _remainder(a, b), t[0] - t[1] * lax.stop_gradient(_float_floor(a, b))


@op(promote=True, method=True, inplace=True)
def fmod(input: Array | Scalar, other: Array | Scalar):
    """C's modulus: the sign is the dividend's (torch.fmod)."""
    check(not is_complex(input.dtype) and not is_bool(input.dtype), f"fmod: not implemented for {input.dtype.name}",
          NotImplementedError)
    a, b = jnp.broadcast_arrays(input, other)
    return _fmod(a, b) if is_float(a.dtype) else lax.rem(a, b)


@jax.custom_jvp
def _fmod(a, b):
    return lax.rem(a, b)


@_fmod.defjvp
def _fmod_jvp(p, t):
    a, b = p
    return _fmod(a, b), t[0] - t[1] * lax.stop_gradient(jnp.trunc(a / b))


@op(where=None, promote=True, name="pow")
def _pow_tensor(input: Array | Scalar, exponent: Array | Scalar):
    if is_int(input.dtype) or is_bool(input.dtype):
        return _int_pow(*jnp.broadcast_arrays(input, exponent))
    return _power(*jnp.broadcast_arrays(input, exponent))


def _int_pow(a, b):
    check(not is_bool(a.dtype), "pow: not implemented for a bool base and a bool exponent", NotImplementedError)
    r = jnp.ones_like(a)
    base, e = a, jnp.maximum(b, 0)
    for _ in range(max(1, a.dtype.itemsize * 8)):
        r = jnp.where(e & 1 == 1, r * base, r)
        base, e = base * base, e >> 1
    neg = jnp.where(a == 1, 1, jnp.where(a == -1 if a.dtype.kind == "i" else False, jnp.where(b % 2 == 0, 1, -1), 0)).astype(a.dtype)
    return jnp.where(b < 0, neg, r) if b.dtype.kind == "i" else r


@jax.custom_jvp
def _power(a, b):
    return jnp.power(a, b)


@_power.defjvp
def _power_jvp(p, t):
    """Gradients as torch's: 0 where the exponent is 0; log(base) counts 0 at base 0 with exponent >= 0."""
    a, b = p
    y = _power(a, b)
    da = jnp.where(b == 0, 0, b * _power(a, jnp.where(b == 0, 1, b - 1)))
    zero = (a == 0) & (jnp.real(b) >= 0)
    db = jnp.where(zero, 0, y * jnp.log(jnp.where(zero, 1, a)))
    return y, da * t[0] + db * t[1]


@op(where=None, name="pow")
def _pow_number(input: Array, exponent: int | float):
    """exponent static, so that squares are products."""
    x = input
    if is_bool(x.dtype):
        x = x.astype(np.int64)
    if isinstance(exponent, complex):
        x = x.astype(np.complex128 if x.dtype == np.float64 else default_complex()) if not is_complex(x.dtype) else x
        return _power(x, jnp.full(x.shape, exponent, x.dtype))
    if isinstance(exponent, float) and not is_inexact(x.dtype):
        x = x.astype(default_float())
    if is_int(x.dtype):
        check(exponent >= 0, "Integers to negative integer powers are not allowed.")
        return lax.integer_pow(x, exponent)
    if float(exponent).is_integer() and -64 <= exponent <= 64:
        n = int(exponent)
        if n == 0:
            return jnp.ones_like(x)
        return wide(lambda v: lax.integer_pow(v, n))(x)
    if exponent == 0.5:
        return wide(jnp.sqrt)(x)
    if exponent == -0.5:
        return wide(lax.rsqrt)(x)
    return wide(lambda v: _power(v, jnp.full(v.shape, exponent, v.dtype)))(x)


@composite(method=True, inplace=True)
def pow(input, exponent, *, out=None):
    """input to the power exponent; either may be a number (torch.pow)."""
    if isinstance(input, Tensor) and isinstance(exponent, (int, float, complex)) and not isinstance(exponent, bool):
        r = _pow_number(input, exponent)
    else:
        if isinstance(exponent, bool):
            exponent = int(exponent)
            if isinstance(input, Tensor) and is_bool(input.dtype.np):  # bools stay bools
                r = input.clone() if exponent else input.logical_or(~input)
                return r if out is None else _out("pow", r, out)
        r = _pow_tensor(input, exponent)
    return r if out is None else _out("pow", r, out)


def _as_double(x):
    from lazy_tensor import dtypes
    if isinstance(x, Tensor):
        return x.to(dtypes.names["complex128" if x.dtype.is_complex else "float64"])
    return complex(x) if isinstance(x, complex) else float(x)


@composite(method=True, inplace=False)
def float_power(input, exponent, *, out=None):
    """pow in float64 (complex128 for complex) (torch.float_power)."""
    r = pow(_as_double(input), _as_double(exponent))
    return r if out is None else _out("float_power", r, out)


def _float_power_(self, exponent):
    """In-place float_power; self must be float64 or complex128."""
    want = "complex128" if self.dtype.is_complex or isinstance(exponent, complex) or (isinstance(exponent, Tensor) and exponent.dtype.is_complex) \
        else "float64"
    if self.dtype.name != want:
        raise RuntimeError(f"the base given to float_power_ has dtype {self.dtype.name} but the operation's result requires dtype {want}")
    return self.copy_(float_power(self, exponent))


publish_method("float_power_", _float_power_)


def _binary(name, fn, doc, promote=True, alias=(), inplace=True, method=True, numbers=False):
    if numbers:
        def body(input: Array | Scalar, other: Array | Scalar):
            return fn(*jnp.broadcast_arrays(input, other))
    else:
        def body(input: Array, other: Array):
            return fn(*jnp.broadcast_arrays(input, other))
    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"{doc}, elementwise (torch.{name})."
    body.__module__ = __name__
    made = op(body, promote=promote, method=method, inplace=inplace, alias=alias)
    globals()[name] = made
    for a in alias:
        if "." not in a:
            publish_method(a, made)
            from lazy_tensor.ops._define import _make_inplace
            if inplace:
                publish_method(a + "_", _make_inplace(made, a + "_"))
    return made


@jax.custom_jvp
def _hypot(a, b):
    return jnp.hypot(a, b)


@_hypot.defjvp
def _hypot_jvp(p, t):
    y = _hypot(*p)
    s = jnp.where(y == 0, 1, y)
    return y, t[0] * p[0] / s + t[1] * p[1] / s


@jax.custom_jvp
def _copysign(a, b):
    check(not is_complex(a.dtype), f"copysign: not implemented for {a.dtype.name}; real numbers fit", NotImplementedError)
    return jnp.copysign(a, b)


@_copysign.defjvp
def _copysign_jvp(p, t):
    a, b = p
    y = _copysign(a, b)
    return y, t[0] * jnp.where(a == 0, 0, jnp.where(jnp.signbit(a) == jnp.signbit(b), 1, -1).astype(a.dtype))


@jax.custom_jvp
def _atan2(a, b):
    check(not is_complex(a.dtype), f"atan2: not implemented for {a.dtype.name}", NotImplementedError)
    return jnp.arctan2(a, b)


@_atan2.defjvp
def _atan2_jvp(p, t):
    a, b = p
    s = a * a + b * b
    s = jnp.where(s == 0, 1, s)
    return _atan2(a, b), t[0] * b / s - t[1] * a / s


@jax.custom_jvp
def _xlogy(a, b):
    check(not is_complex(a.dtype), f"xlogy: not implemented for {a.dtype.name}", NotImplementedError)
    zero = (a == 0) & ~jnp.isnan(b)
    return jnp.where(zero, 0, a * jnp.log(jnp.where(zero, 1, b)))


@_xlogy.defjvp
def _xlogy_jvp(p, t):
    """d/da = log b also at a = 0, where b > 0; d/db = a / b, 0 at a = 0."""
    a, b = p
    da = jnp.where((a == 0) & (b <= 0), 0, jnp.log(jnp.where((a == 0) & (b <= 0), 1, b)))
    db = jnp.where(a == 0, 0, a / jnp.where(a == 0, 1, b))
    return _xlogy(a, b), t[0] * da + t[1] * db


def _real2(fn, name):
    def call(a, b):
        check(is_float(a.dtype), f"{name}: not implemented for {a.dtype.name}; floats fit", NotImplementedError)
        if a.dtype.itemsize < 4:
            return fn(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
        return fn(a, b)
    return call


@jax.custom_jvp
def _nextafter(a, b):
    return jnp.nextafter(a, b)


@_nextafter.defjvp
def _nextafter_jvp(p, t):
    """The gradient goes to a, and to nothing where a and b are equal (torch's convention)."""
    return _nextafter(*p), jnp.where(p[0] == p[1], 0, t[0])


def _real_nextafter(a, b):
    check(is_float(a.dtype), f"nextafter: not implemented for {a.dtype.name}; floats fit", NotImplementedError)
    return _nextafter(a, b)


def _log_sum(fn, scale):
    """log(e^a + e^b) or its base-2 form; the weights of its gradient are e^(a-y), one half at ties, also where both are huge."""
    @jax.custom_jvp
    def call(a, b):
        return fn(a, b)

    @call.defjvp
    def jvp(p, t):
        a, b = p
        wa = jnp.where(a == b, 0.5, jax.nn.sigmoid((a - b) * scale)).astype(a.dtype)
        return call(a, b), t[0] * wa + t[1] * (1 - wa)
    return call


_logaddexp_real = _log_sum(jnp.logaddexp, 1.0)


def _logaddexp(a, b):
    check(is_inexact(a.dtype), f"logaddexp: not implemented for {a.dtype.name}; floats and complex numbers fit", NotImplementedError)
    if is_complex(a.dtype):
        m = jnp.where(jnp.real(a) >= jnp.real(b), a, b)
        o = jnp.where(jnp.real(a) >= jnp.real(b), b, a)
        return m + jnp.log1p(jnp.exp(o - m))
    return _real2(_logaddexp_real, "logaddexp")(a, b)


_binary("hypot", _real2(_hypot, "hypot"), "sqrt(a^2 + b^2)")
_binary("atan2", _atan2, "the angle of (b, a)", "float", ("arctan2",))
_binary("copysign", _copysign, "|a| with b's sign", "float", numbers=True)
_binary("nextafter", _real_nextafter, "the next float towards b")
_binary("logaddexp", _logaddexp, "log(e^a + e^b)", inplace=False)
_binary("logaddexp2", _real2(_log_sum(jnp.logaddexp2, float(np.log(2.0))), "logaddexp2"), "log2(2^a + 2^b)", inplace=False)
_binary("xlogy", _xlogy, "a log b, 0 where a is 0", "float", ("special.xlogy",), numbers=True)
_binary("gcd", lambda a, b: _gcd(a, b), "the greatest common divisor")
_binary("lcm", lambda a, b: _lcm(a, b), "the least common multiple")


def _gcd(a, b):
    check(is_int(a.dtype), f"gcd: not implemented for {a.dtype.name}; integers fit", NotImplementedError)
    return jnp.gcd(a, b)


def _lcm(a, b):
    check(is_int(a.dtype), f"lcm: not implemented for {a.dtype.name}; integers fit", NotImplementedError)
    return jnp.lcm(a, b)


@op(method=True, inplace=True)
def heaviside(input: Array, values: Array):
    """0 below 0, values at 0, 1 above; both of one dtype (torch.heaviside)."""
    check(not is_complex(input.dtype) and not is_complex(values.dtype), "heaviside is not yet implemented for complex tensors.")
    check(input.dtype == values.dtype, "heaviside is not yet implemented for tensors with different dtypes, got "
                                       f"{input.dtype.name} and {values.dtype.name}.")
    return jnp.where(input == 0, values, (input > 0).astype(input.dtype))


def _times_power_of_two(x, n):
    """x * 2^n, exact for normal results: jnp.exp2 is not, even at integers (jax 0.10, CPU). Three factors span the whole range."""
    most = jnp.finfo(x.dtype).maxexp - 2
    for _ in range(3):
        step = jnp.clip(n, -most, most)
        x, n = x * jnp.ldexp(jnp.ones((), x.dtype), step), n - step
    return x


@op(where=None, name="ldexp", promote=("input",), to_float=True)
def _ldexp_int(input: Array, other: Array):
    x = input.astype(np.float32) if is_float(input.dtype) and input.dtype.itemsize < 4 else input
    n = jnp.clip(other, -5000, 5000).astype(np.int32)
    if is_complex(x.dtype):
        return lax.complex(*(_times_power_of_two(v, n) for v in (jnp.real(x), jnp.imag(x))))
    return _times_power_of_two(x, n).astype(input.dtype)


@op(where=None, name="ldexp", promote="float")
def _ldexp_float(input: Array, other: Array):
    x, n = (v.astype(np.float32) if is_float(v.dtype) and v.dtype.itemsize < 4 else v for v in (input, other))
    return (x * jnp.exp2(n)).astype(input.dtype)


@composite(method=True, inplace=True)
def ldexp(input, other, *, out=None):
    """input * 2^other, exact where other is of integers (torch.ldexp)."""
    floating = other.dtype.is_floating_point or other.dtype.is_complex
    r = _ldexp_float(input, other) if floating else _ldexp_int(input, other)
    return r if out is None else _out("ldexp", r, out)


@op(method=True, returns=("mantissa", "exponent"))
def frexp(input: Array):
    """(mantissa in [0.5, 1), exponent) with input = mantissa * 2^exponent (torch.frexp)."""
    check(is_float(input.dtype), f"torch.frexp() only supports floating-point dtypes, got {input.dtype.name}")
    x = input.astype(np.float32) if input.dtype.itemsize < 4 else input
    _, e = jnp.frexp(lax.stop_gradient(x))
    e = jnp.where(~jnp.isfinite(x) | (x == 0), 0, e).astype(np.int32)
    return _times_power_of_two(x, -e).astype(input.dtype), e


@op(promote=True, method=True, inplace=True)
def addcmul(input: Array, tensor1: Array, tensor2: Array, *, value: Scalar = 1):
    """input + value * tensor1 * tensor2 (torch.addcmul)."""
    check(not is_bool(input.dtype), "addcmul: not implemented for bool", NotImplementedError)
    product = tensor1 * tensor2
    return input + (product if isinstance(value, int) else jnp.asarray(value).astype(product.dtype) * product)


@op(promote=True, method=True, inplace=True)
def addcdiv(input: Array, tensor1: Array, tensor2: Array, *, value: Scalar = 1):
    """input + value * tensor1 / tensor2 (torch.addcdiv); integers raise."""
    check(is_inexact(input.dtype), "Integer division with addcdiv is no longer supported, and in a future release addcdiv will perform a true "
                                   "division of tensor1 and tensor2.")
    x, a, b = (v.astype(np.float32) if is_float(v.dtype) and v.dtype.itemsize < 4 else v for v in (input, tensor1, tensor2))
    ratio = a / b if isinstance(value, int) else jnp.asarray(value).astype(x.dtype) * (a / b)
    return (x + ratio).astype(input.dtype)


@op(where=None, name="lerp", promote=("input", "end"))
def _lerp(input: Array, end: Array, weight: Array | Scalar):
    x, y, w = (v.astype(np.float32) if is_float(v.dtype) and v.dtype.itemsize < 4 else v for v in (input, end, weight))
    w = jnp.asarray(w).astype(jnp.promote_types(x.dtype, w.dtype) if is_complex(w.dtype) else x.dtype)
    d = y - x
    return jnp.where(jnp.abs(w) < 0.5, x + w * d, y - d * (1 - w)).astype(input.dtype)


@composite(method=True, inplace=True)
def lerp(input, end, weight, *, out=None):
    """input + weight * (end - input) (torch.lerp)."""
    if input.dtype != end.dtype:
        raise RuntimeError(f"expected dtype {input.dtype} for `end` but got dtype {end.dtype}")
    if isinstance(weight, Tensor) and weight.dtype != input.dtype and weight.dim():
        raise RuntimeError(f"expected dtype {input.dtype} for `weight` but got dtype {weight.dtype}")
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise NotImplementedError(f"lerp: not implemented for {input.dtype}; floats and complex numbers fit")
    r = _lerp(input, end, weight)
    return r if out is None else _out("lerp", r, out)


# ------------------------------------------------------------------------------------------- clamp


@jax.custom_jvp
def _clip_low(x, lo):
    return jnp.where(jnp.isnan(lo), lo, jnp.where(x < lo, lo, x)) if is_float(x.dtype) else jnp.maximum(x, lo)


@_clip_low.defjvp
def _clip_low_jvp(p, t):
    x, lo = p
    inside = x >= lo
    return _clip_low(x, lo), jnp.where(inside, t[0], t[1] if is_inexact(x.dtype) else jnp.zeros_like(t[0]))


def _clip_high(x, hi):
    return -_clip_low(-x, -hi) if is_float(x.dtype) else jnp.minimum(x, hi)


def _clip(x, lo, hi):
    """Gradient 1 at the bounds; nan stays; the upper bound wins over the lower."""
    if lo is not None and hi is not None:
        hi_b = jnp.broadcast_to(hi, jnp.broadcast_shapes(x.shape, jnp.shape(lo), jnp.shape(hi)))
        low = _clip_low(*jnp.broadcast_arrays(x, lo, hi_b)[:2])
        return _clip_high(*jnp.broadcast_arrays(low, hi_b))
    if lo is not None:
        return _clip_low(*jnp.broadcast_arrays(x, lo))
    return _clip_high(*jnp.broadcast_arrays(x, hi))


@op(promote=True, method=("clamp", "clip"), inplace=True, alias=("clip",))
def clamp(input: Array, min: Array | Scalar | None = None, max: Array | Scalar | None = None):
    """input limited to [min, max]; either may be missing (torch.clamp)."""
    check(not is_complex(input.dtype), "clamp is not supported for complex types", NotImplementedError)
    check(min is not None or max is not None, "torch.clamp: At least one of 'min' or 'max' must not be None")
    return _clip(input, min, max)


@op(promote=True, method=True, inplace=True)
def clamp_min(input: Array, min: Array | Scalar):
    """input, at least min (torch.clamp_min)."""
    check(not is_complex(input.dtype), "clamp_min is not supported for complex types", NotImplementedError)
    return _clip(input, min, None)


@op(promote=True, method=True, inplace=True)
def clamp_max(input: Array, max: Array | Scalar):
    """input, at most max (torch.clamp_max)."""
    check(not is_complex(input.dtype), "clamp_max is not supported for complex types", NotImplementedError)
    return _clip(input, None, max)


@op(method=True, inplace=True)
def nan_to_num(input: Array, nan: Scalar | None = None, posinf: Scalar | None = None, neginf: Scalar | None = None):
    """nan as 0 (or `nan`), infinities as the largest finite numbers (or the given ones) (torch.nan_to_num)."""
    x = input
    if not is_inexact(x.dtype):
        return x
    info = jnp.finfo(x.dtype)

    def one(v):
        def c(s, d):
            return jnp.asarray(d if s is None else s).astype(v.dtype)
        v = jnp.where(jnp.isnan(v), c(nan, 0.0), v)
        v = jnp.where(v == jnp.inf, c(posinf, info.max), v)
        return jnp.where(v == -jnp.inf, c(neginf, info.min), v)
    return lax.complex(one(jnp.real(x)), one(jnp.imag(x))) if is_complex(x.dtype) else one(x)


def _logit_value(x, eps):
    v = x if eps is None else jnp.clip(x, eps, 1 - eps)
    return jnp.log(v / (1 - v))


_logit = jax.custom_jvp(_logit_value, nondiff_argnums=(1,))


@_logit.defjvp
def _logit_jvp(eps, p, t):
    """1 / (x (1 - x)); outside [0, 1] nan, outside [eps, 1 - eps] 0."""
    x, = p
    lo, hi, outside = (0.0, 1.0, jnp.nan) if eps is None else (eps, 1 - eps, 0.0)
    return _logit(x, eps), t[0] * jnp.where((x < lo) | (x > hi), outside, 1 / (x * (1 - x)))


@op(method=True, inplace=True, alias=("special.logit",))
def logit(input: Array, eps: float | None = None):
    """log(x / (1 - x)), x clamped to [eps, 1 - eps] when eps is given (torch.logit)."""
    x = input if is_inexact(input.dtype) else input.astype(default_float())

    check(not is_complex(x.dtype), f"logit: not implemented for {x.dtype.name}", NotImplementedError)
    return wide(lambda v: _logit(v, eps))(x)


@op(method=True, inplace=True)
def mvlgamma(input: Array, p: int):
    """The multivariate log-gamma function of dimension p (torch.mvlgamma)."""
    x = input if is_inexact(input.dtype) else input.astype(default_float())
    check(p >= 1, "p has to be greater than or equal to 1")
    i = jnp.arange(p).astype(x.dtype) / 2
    return (jax.lax.lgamma(x[..., None] - i).sum(-1) + p * (p - 1) / 4 * float(np.log(np.pi))).astype(x.dtype)


publish("special.multigammaln", mvlgamma)

"""Complex numbers: parts, conjugates, angles, construction, real views."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lazy_tensor.ops._common import check, default_float, is_complex, is_float, is_inexact
from lazy_tensor.ops._define import _write_out, composite, op, publish, publish_method


def _real_put(base, new):
    return lax.complex(new, jnp.imag(base))


def _imag_put(base, new):
    return lax.complex(jnp.real(base), new)


@op(where=None, name="real", view=True, put=_real_put)
def _real(input: Array):
    return jnp.real(input)


@op(where=None, name="imag", view=True, put=_imag_put)
def _imag(input: Array):
    return jnp.imag(input)


@composite
def real(input):
    """The real part, a view; a real tensor itself (torch.real)."""
    return _real(input) if input.dtype.is_complex else input


@composite
def imag(input):
    """The imaginary part of a complex tensor, a view (torch.imag)."""
    if not input.dtype.is_complex:
        raise RuntimeError(f"imag is not implemented for tensors with non-complex dtypes, got {input.dtype}.")
    return _imag(input)


@op(where=None, name="conj", view=True, put=lambda base, new: jnp.conj(new))
def _conj(input: Array):
    return jnp.conj(input)


@composite(method=True)
def conj(input):
    """The complex conjugate (torch.conj)."""
    return _conj(input) if input.dtype.is_complex else input


@op(method=True, inplace=True)
def conj_physical(input: Array):
    """The complex conjugate, a copy (torch.conj_physical)."""
    return jnp.conj(input) if is_complex(input.dtype) else input


@composite(method=True)
def resolve_conj(input):
    """The tensor itself: conjugation is never lazy here."""
    return input


@composite(method=True)
def resolve_neg(input):
    """The tensor itself: negation is never lazy here."""
    return input


for _n in ("is_conj", "is_neg"):
    publish(_n, lambda input: False)
    publish_method(_n, lambda input: False)


@jax.custom_jvp
def _angle(x):
    return jnp.angle(x)


@_angle.defjvp
def _angle_jvp(p, t):
    x, = p
    a2 = jnp.real(x) ** 2 + jnp.imag(x) ** 2
    s = jnp.where(a2 == 0, 1, a2)
    d = (jnp.real(x) * jnp.imag(t[0]) - jnp.imag(x) * jnp.real(t[0])) / s
    return _angle(x), jnp.where(a2 == 0, 0, d)


@op(method=True)
def angle(input: Array):
    """The argument in radians: of reals 0, or pi when negative (torch.angle)."""
    if is_complex(input.dtype):
        return _angle(input)
    x = lax.stop_gradient(input) if is_inexact(input.dtype) else input.astype(default_float())
    pi = jnp.asarray(np.pi).astype(x.dtype)
    return jnp.where(jnp.isnan(x), x, jnp.where(x < 0, pi, 0)).astype(x.dtype)


@op(where=None, name="complex")
def _complex(real: Array, imag: Array):
    check(real.dtype == imag.dtype, f"Expected object of scalar type {real.dtype.name} but got scalar type {imag.dtype.name} for second argument")
    check(is_float(real.dtype) and real.dtype.itemsize >= 4, f"complex: expected two float32 or float64 tensors but got {real.dtype.name} "
                                                             f"and {imag.dtype.name}")
    return lax.complex(*jnp.broadcast_arrays(real, imag))


@op(where=None, name="polar")
def _polar(abs: Array, angle: Array):
    check(abs.dtype == angle.dtype and is_float(abs.dtype) and abs.dtype.itemsize >= 4,
          f"Expected both inputs to be Float or Double tensors of one dtype but got {abs.dtype.name} and {angle.dtype.name}")
    a, b = jnp.broadcast_arrays(abs, angle)
    return lax.complex(a * jnp.cos(b), a * jnp.sin(b))


def _exact_out(name, r, out):
    """Write to out, whose dtype must be the result's: these two never cast."""
    if out is None:
        return r
    if out.dtype != r.dtype:
        raise RuntimeError(f"{name}: Expected object of scalar type {r.dtype} but got scalar type {out.dtype} for argument 'out'")
    return _write_out(name, r, out)


@composite
def complex(real, imag, *, out=None):
    """real + i imag, of two tensors of one dtype, float32 or float64; out must have the result's dtype (torch.complex)."""
    return _exact_out("complex", _complex(real, imag), out)


@composite
def polar(abs, angle, *, out=None):
    """abs e^(i angle), of two tensors of one dtype, float32 or float64; out must have the result's dtype (torch.polar)."""
    return _exact_out("polar", _polar(abs, angle), out)


@op(view=True, put=lambda base, new: lax.complex(new[..., 0], new[..., 1]))
def view_as_real(input: Array):
    """A complex tensor as reals with a last dimension of size 2, a view (torch.view_as_real)."""
    check(is_complex(input.dtype), "view_as_real is only supported for complex tensors")
    return jnp.stack([jnp.real(input), jnp.imag(input)], -1)


@op(view=True, put=lambda base, new: jnp.stack([jnp.real(new), jnp.imag(new)], -1))
def view_as_complex(input: Array):
    """Reals with a last dimension of size 2 as a complex tensor, a view (torch.view_as_complex)."""
    check(is_float(input.dtype) and input.dtype.itemsize >= 4, f"view_as_complex is only supported for half, float and double tensors, but got a "
                                                               f"tensor of scalar type: {input.dtype.name}")
    check(input.ndim > 0 and input.shape[-1] == 2, "Tensor must have a last dimension of size 2")
    return lax.complex(input[..., 0], input[..., 1])

"""L D L^T of symmetric and Hermitian indefinite matrices by Bunch and Kaufman's pivoting (LAPACK's sytrf, hetrf, sytrs), lower form."""
from __future__ import annotations

from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lazy_tensor.ops._common import check, is_complex
from lazy_tensor.ops._define import composite, op
from lazy_tensor.ops.linalg import _h, _matrix, _raise_if, _t

_Factor = namedtuple("ldl_factor", ["LD", "pivots"], module="lazy_tensor.return_types")
_ALPHA = (1 + 17 ** 0.5) / 8  # where the growth of elements over a 1 x 1 and a 2 x 2 step is balanced


def _size(x):
    """LAPACK's cabs1: cheap magnitude."""
    return jnp.abs(jnp.real(x)) + jnp.abs(jnp.imag(x)) if is_complex(x.dtype) else jnp.abs(x)


def _factor(a, hermitian):
    """(LD, pivots, info) of one full matrix (both triangles)."""
    n = a.shape[0]
    at = jnp.arange(n)
    conj = jnp.conj if hermitian else (lambda v: v)

    def step(state):
        f, pivots, info, k = state
        column = _size(lax.dynamic_index_in_dim(f, k, 1, False))
        akk = column[k] if not hermitian else jnp.abs(jnp.real(f[k, k]))
        below = jnp.where(at > k, column, -1)
        i = jnp.argmax(below)
        largest = jnp.maximum(below[i], 0)
        row = jnp.max(jnp.where((at >= k) & (at != i), _size(lax.dynamic_index_in_dim(f, i, 0, False)), 0))
        aii = _size(f[i, i]) if not hermitian else jnp.abs(jnp.real(f[i, i]))
        empty = jnp.maximum(akk, largest) == 0
        stay = empty | (akk >= _ALPHA * largest) | (akk * row >= _ALPHA * largest * largest)
        one = stay | (aii >= _ALPHA * row)
        kp = jnp.where(stay, k, i)
        kk = jnp.where(one, k, k + 1)
        order = jnp.where(at == kk, kp, jnp.where(at == kp, kk, at))
        trailing = (at[:, None] >= k) & (at[None, :] >= k)
        f = jnp.where(trailing, f[order][:, order], f)
        # one step
        d = f[k, k]
        x = jnp.where(at > k, lax.dynamic_index_in_dim(f, k, 1, False), 0)
        scaled = jnp.where(empty, x, x / jnp.where(empty, 1, d))
        after1 = f - jnp.where(empty, 0, jnp.outer(scaled, conj(x)))
        after1 = jnp.where((at[:, None] > k) & (at[None, :] == k), scaled[:, None], after1)
        # two steps at once
        k1 = jnp.minimum(k + 1, n - 1)
        d11, d22, d21, d12 = f[k, k], f[k1, k1], f[k1, k], f[k, k1]
        det = d11 * d22 - d21 * d12
        det = jnp.where(one, 1, det)
        x0 = jnp.where(at > k1, lax.dynamic_index_in_dim(f, k, 1, False), 0)
        x1 = jnp.where(at > k1, lax.dynamic_index_in_dim(f, k1, 1, False), 0)
        w0, w1 = (x0 * d22 - x1 * d21) / det, (x1 * d11 - x0 * d12) / det
        after2 = f - jnp.outer(w0, conj(x0)) - jnp.outer(w1, conj(x1))
        after2 = jnp.where((at[:, None] > k1) & (at[None, :] == k), w0[:, None], after2)
        after2 = jnp.where((at[:, None] > k1) & (at[None, :] == k1), w1[:, None], after2)
        f = jnp.where(one, after1, after2)
        pivots = jnp.where(at == k, jnp.where(one, kp + 1, -(kp + 1)), jnp.where((at == k + 1) & ~one, -(kp + 1), pivots)).astype(np.int32)
        info = jnp.where(empty & (info == 0), k + 1, info).astype(np.int32)
        return f, pivots, info, k + jnp.where(one, 1, 2)
    if n == 0:
        return a, jnp.zeros((0,), np.int32), jnp.zeros((), np.int32)
    start = (a, jnp.zeros(n, np.int32), jnp.zeros((), np.int32), jnp.zeros((), at.dtype))
    f, pivots, info, _ = lax.while_loop(lambda s: s[3] < n, step, start)
    return jnp.tril(f), pivots, info


def _starts(pivots):
    """Where 2 x 2 blocks begin."""
    def step(before, p):
        here = (p < 0) & ~before
        return here, here
    return lax.scan(step, jnp.zeros((), bool), pivots)[1]


def _swap(b, i, j):
    ri, rj = b[i], b[j]
    return b.at[i].set(rj).at[j].set(ri)


def _solve(ld, pivots, b, hermitian):
    """X of one system, b of (n, k)."""
    n = ld.shape[0]
    if n == 0:
        return b
    at = jnp.arange(n)
    conj = jnp.conj if hermitian else (lambda v: v)
    first = _starts(pivots)
    low = jnp.tril(ld, -1)

    def below(k, after):
        """Column k of L under row `after`."""
        return jnp.where(at > after, lax.dynamic_index_in_dim(low, k, 1, False), 0)

    def forward(k, b):
        k1 = jnp.minimum(k + 1, n - 1)
        kp = jnp.abs(pivots[k]) - 1
        c = _swap(b, k, kp)
        one = c - jnp.outer(below(k, k), c[k])
        one = one.at[k].set(c[k] / ld[k, k])
        c = _swap(b, k1, kp)
        two = c - jnp.outer(below(k, k1), c[k]) - jnp.outer(below(k1, k1), c[k1])
        d11, d22, d21 = ld[k, k], ld[k1, k1], ld[k1, k]
        det = jnp.where(first[k], d11 * d22 - d21 * conj(d21), 1)
        two = two.at[k].set((c[k] * d22 - c[k1] * conj(d21)) / det).at[k1].set((c[k1] * d11 - c[k] * d21) / det)
        return jnp.where(pivots[k] > 0, one, jnp.where(first[k], two, b))

    def backward(i, b):
        k = n - 1 - i
        k0 = jnp.maximum(k - 1, 0)
        kp = jnp.abs(pivots[k]) - 1
        one = b.at[k].add(-conj(below(k, k)) @ b)
        two = one.at[k0].add(-conj(below(k0, k)) @ b)
        return jnp.where(pivots[k] > 0, _swap(one, k, kp), jnp.where(first[k], b, _swap(two, k, kp)))
    return lax.fori_loop(0, n, backward, lax.fori_loop(0, n, forward, b))


def _over(f, batch):
    for _ in range(len(batch)):
        f = jax.vmap(f)
    return f


@op(where="linalg", returns=("LD", "pivots", "info"), differentiable=False)
def ldl_factor_ex(A: Array, *, hermitian: bool = False, check_errors: bool = False):
    """(LD, pivots, info): compact L D L^T (L D L^H when hermitian) of symmetric matrices, read from the lower triangle.

    LD holds L below blocks of D of 1 x 1 and 2 x 2; pivots are LAPACK's, from 1, negative for both rows of a 2 x 2 block; info > 0
    where a block of D is zero (torch.linalg.ldl_factor_ex)."""
    x = _matrix(A, "ldl_factor_ex", True)
    hermitian = hermitian and is_complex(x.dtype)
    under = jnp.tril(x, -1)
    diagonal = jnp.diagonal(x, axis1=-2, axis2=-1)
    diagonal = jnp.real(diagonal).astype(x.dtype) if hermitian else diagonal
    full = under + (_h(under) if hermitian else _t(under)) + diagonal[..., None] * jnp.eye(x.shape[-1], dtype=x.dtype)
    return _over(lambda a: _factor(a, hermitian), x.shape[:-2])(full)


@composite(where="linalg")
def ldl_factor(A, *, hermitian=False, out=None):
    """(LD, pivots): compact L D L^T; LinAlgError when a block of D is zero (torch.linalg.ldl_factor)."""
    r = ldl_factor_ex(A, hermitian=hermitian)
    _raise_if(r[2], "ldl_factor", "The factorization could not be completed because a block of D is zero")
    if out is not None:
        return _Factor(out[0].copy_(r[0]), out[1].copy_(r[1]))
    return _Factor(r[0], r[1])


@op(where="linalg")
def ldl_solve(LD: Array, pivots: Array, B: Array, *, hermitian: bool = False):
    """X with A X = B, from `ldl_factor`'s compact form; differentiable by B (torch.linalg.ldl_solve)."""
    _matrix(LD, "ldl_solve", True)
    check(B.ndim >= 2, "torch.linalg.ldl_solve: Expected B to have at least 2 dimensions")
    check(B.shape[-2] == LD.shape[-1], f"linalg.ldl_solve: Incompatible shapes: {list(LD.shape)}, {list(B.shape)}")
    batch = jnp.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    ld = lax.stop_gradient(jnp.broadcast_to(LD, batch + LD.shape[-2:]))
    b, p = jnp.broadcast_to(B, batch + B.shape[-2:]), jnp.broadcast_to(pivots, batch + pivots.shape[-1:])
    hermitian = hermitian and is_complex(LD.dtype)
    return _over(lambda a, q, y: _solve(a, q, y, hermitian), batch)(ld, p, b)

"""torch.linalg: factorizations, solves, determinants, norms, powers; batched over leading dimensions.

Factorizations and their gradients are jax's; float16 and bfloat16 are refused as torch refuses them.
"""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lazy_tensor.modes import modes
from lazy_tensor.ops._common import check, is_complex, is_inexact, norm_dim, real_dtype
from lazy_tensor.ops._define import composite, op, publish, publish_method

LA = "linalg"


def _matrix(x, name, square=False):
    check(x.ndim >= 2, f"linalg.{name}: The input tensor A must have at least 2 dimensions, got {list(x.shape)}.")
    check(x.dtype in (np.float32, np.float64, np.complex64, np.complex128),
          f"linalg.{name}: Expected a floating point or complex tensor as input. Got {x.dtype.name}")
    if square:
        check(x.shape[-1] == x.shape[-2], f"linalg.{name}: A must be batches of square matrices, but they are {x.shape[-2]} by "
                                          f"{x.shape[-1]} matrices")
    return x


def _h(x):
    return jnp.conj(jnp.swapaxes(x, -1, -2))


def _t(x):
    return jnp.swapaxes(x, -1, -2)


# ------------------------------------------------------------------------------------------- cholesky


@jax.custom_jvp
def _low(x):
    """The lower Cholesky factor of a Hermitian matrix."""
    return jnp.linalg.cholesky(x, symmetrize_input=False)


@_low.defjvp
def _low_jvp(primals, tangents):
    """dL = L P(L^-1 dA L^-H), P the lower triangle with half the diagonal (Murray 2016); dA counts by its Hermitian part off the
    diagonal and as it is on it, as in torch."""
    low = _low(*primals)
    s = lax.linalg.triangular_solve(low, tangents[0], left_side=True, lower=True)
    s = lax.linalg.triangular_solve(low, s, left_side=False, lower=True, transpose_a=True, conjugate_a=True)
    half = jnp.tril((s + _h(s)) / 2, -1) + jnp.eye(s.shape[-1], dtype=s.dtype) * (jnp.diagonal(s, axis1=-2, axis2=-1) / 2)[..., None]
    return low, low @ half


def _chol(x, upper):
    return _h(_low(x)) if upper else _low(x)


def _raise_if(info, name, what):
    """Errors that only the values tell: one small sync, as torch does on the host; none while a function is being recorded."""
    if modes.capture is not None:
        return
    bad = info._host()
    if np.any(bad):
        at = np.flatnonzero(bad.reshape(-1))[0]
        where = f"(Batch element {at}): " if bad.ndim else ""
        raise LinAlgError(f"linalg.{name}: {where}{what}")


class LinAlgError(RuntimeError):
    """A factorization or solve that the values make impossible (torch.linalg.LinAlgError)."""


publish("linalg.LinAlgError", LinAlgError)


@op(where=LA, returns=("L", "info"))
def cholesky_ex(input: Array, *, upper: bool = False, check_errors: bool = False):
    """(L, info): the Cholesky factor of Hermitian positive-definite matrices; info > 0 where it does not exist."""
    x = _matrix(input, "cholesky", True)
    r = _chol(x + lax.stop_gradient(_hermitian(x, "U" if upper else "L") - x), upper)
    return r, jnp.isnan(r).any((-1, -2)).astype(np.int32) if r.size else jnp.zeros(r.shape[:-2], np.int32)


@composite(where=LA)
def cholesky(input, *, upper=False, out=None):
    """The Cholesky factor; LinAlgError when a matrix is not positive-definite (torch.linalg.cholesky)."""
    r, info = cholesky_ex(input, upper=upper)
    _raise_if(info, "cholesky", "The factorization could not be completed because the input is not positive-definite")
    return r if out is None else out.copy_(r)


@composite(name="cholesky", method=True)
def _cholesky(input, upper=False, *, out=None):
    """The Cholesky factor (torch.cholesky)."""
    return cholesky(input, upper=upper, out=out)


@jax.custom_jvp
def _chol_solve(b, low):
    y = lax.linalg.triangular_solve(low, b, left_side=True, lower=True)
    return lax.linalg.triangular_solve(low, y, left_side=True, lower=True, transpose_a=True, conjugate_a=True)


@_chol_solve.defjvp
def _chol_solve_jvp(primals, tangents):
    """dX = A^-1 (dB - dA X), dA = dL L^H + L dL^H: torch's convention, in which L's upper part counts."""
    b, low = primals
    db, dl = tangents
    x = _chol_solve(b, low)
    tri = jnp.tril(low)
    da = dl @ _h(tri) + tri @ _h(dl)
    return x, _chol_solve(db - da @ x, low)


@op(method=True)
def cholesky_solve(input: Array, L: Array, upper: bool = False):
    """X with A X = input, given the Cholesky factor L of A."""
    check(input.ndim >= 2 and L.ndim >= 2, f"cholesky_solve: b should have at least 2 dimensions, got {input.ndim} and {L.ndim}")
    _matrix(L, "cholesky_solve", True)
    check(L.shape[-1] == input.shape[-2], f"cholesky_solve: Incompatible matrix sizes: A {list(L.shape)}, b {list(input.shape)}")
    low = _h(L) if upper else L
    batch = jnp.broadcast_shapes(input.shape[:-2], low.shape[:-2])
    return _chol_solve(jnp.broadcast_to(input, batch + input.shape[-2:]), jnp.broadcast_to(low, batch + low.shape[-2:]))


@op(method=True)
def cholesky_inverse(input: Array, upper: bool = False):
    """The inverse of A, given its Cholesky factor."""
    x = _matrix(input, "cholesky_inverse", True)
    return _chol_solve(jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape), _h(x) if upper else x)


# ------------------------------------------------------------------------------------------- qr


def _qr(x, mode):
    if mode == "r":
        return jnp.zeros((0,), x.dtype), jnp.linalg.qr(x, "r")
    return tuple(jnp.linalg.qr(x, mode))


@op(where=LA, returns=("Q", "R"))
def qr(input: Array, mode: str = "reduced"):
    """(Q, R) with Q unitary and R upper triangular; mode "reduced", "complete" or "r" (torch.linalg.qr)."""
    check(mode in ("reduced", "complete", "r"), f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'")
    return _qr(_matrix(input, "qr"), mode)


@composite(name="qr", method=True)
def _old_qr(input, some=True, *, out=None):
    """(Q, R), reduced when some (torch.qr)."""
    return qr(input, "reduced" if some else "complete")


@op(method=True, returns=("a", "tau"), differentiable=False)
def geqrf(input: Array):
    """(a, tau): the QR factorization in Householder form."""
    a, tau = lax.linalg.geqrf(_matrix(input, "geqrf")) if hasattr(lax.linalg, "geqrf") else _householder_qr(input)
    return a, tau


def _householder_qr(a):
    """Householder QR by hand (LAPACK's geqrf): jax publishes none."""
    m, n = a.shape[-2:]
    k = min(m, n)

    def one(a):
        tau = jnp.zeros(k, a.dtype)
        for j in range(k):
            x = a[j:, j]
            alpha = x[0]
            tail = jnp.sum(jnp.abs(x[1:]) ** 2)
            norm = jnp.sqrt(jnp.abs(alpha) ** 2 + tail)
            sign = jnp.where(jnp.real(alpha) >= 0, 1.0, -1.0).astype(norm.dtype)
            beta = -sign * norm
            trivial = (tail == 0) & (jnp.imag(alpha) == 0)
            beta = jnp.where(trivial, jnp.real(alpha), beta)
            t = jnp.where(trivial, 0, (beta - alpha) / jnp.where(beta == 0, 1, beta)).astype(a.dtype)
            denominator = jnp.where(trivial, 1, alpha - beta)
            v = jnp.concatenate([jnp.ones(1, a.dtype), jnp.where(trivial, 0, x[1:] / denominator)])
            if j + 1 < n:
                block = a[j:, j + 1:]
                block = block - jnp.conj(t) * jnp.outer(v, jnp.conj(v) @ block)
                a = a.at[j:, j + 1:].set(block)
            a = a.at[j:, j].set(jnp.concatenate([beta[None].astype(a.dtype), v[1:]]))
            tau = tau.at[j].set(t)
        return a, tau
    f = one
    for _ in range(a.ndim - 2):
        f = jax.vmap(f)
    return f(a)


@op(where=LA, alias=("orgqr",), method=("orgqr",))
def householder_product(input: Array, tau: Array):
    """The first columns of the product of Householder reflectors (torch.linalg.householder_product)."""
    x = _matrix(input, "householder_product")
    m, n = x.shape[-2:]
    check(m >= n, f"torch.linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1], got {list(x.shape)}")
    check(n >= tau.shape[-1], "torch.linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    check(tau.ndim == x.ndim - 1 and tau.shape[:-1] == x.shape[:-2], "torch.linalg.householder_product: Expected tau to have one dimension "
          f"less than input and the same batch, got {list(tau.shape)} for {list(x.shape)}")
    check(tau.dtype == x.dtype, f"torch.linalg.householder_product: tau dtype {tau.dtype.name} does not match input dtype {x.dtype.name}")
    q = jnp.broadcast_to(jnp.eye(m, n, dtype=x.dtype), x.shape)
    return _reflect(x, tau, q, range(tau.shape[-1] - 1, -1, -1), False)


def _reflect(a, tau, q, order, conj):
    """Apply Householder reflectors H_j = I - tau v v^H from the left, in the given order."""
    m = a.shape[-2]
    rows = np.arange(m)
    for j in order:
        v = jnp.where(rows > j, a[..., :, j], jnp.where(rows == j, 1, 0).astype(a.dtype))
        t = tau[..., j, None, None]
        t = jnp.conj(t) if conj else t
        q = q - t * v[..., :, None] * (jnp.conj(v)[..., None, :] @ q)
    return q


@op(method=True)
def ormqr(input: Array, tau: Array, other: Array, left: bool = True, transpose: bool = False):
    """Q other, Q^H other, other Q or other Q^H for the Q of a Householder-form QR (torch.ormqr)."""
    x = _matrix(input, "ormqr")
    check(other.ndim >= 2, "torch.ormqr: other must have at least 2 dimensions.")
    check(x.dtype == other.dtype == tau.dtype, "torch.ormqr: Expected input, tau and other to have the same dtype")
    check(other.shape[-2 if left else -1] == x.shape[-2],
          f"torch.ormqr: other.shape[{-2 if left else -1}] must be equal to input.shape[-2], got {list(other.shape)} and {list(x.shape)}")
    k = tau.shape[-1]
    if left:
        return _reflect(x, tau, other, range(k) if transpose else range(k - 1, -1, -1), transpose)
    # other Q = (Q^H other^H)^H
    return _h(_reflect(x, tau, _h(other), range(k - 1, -1, -1) if transpose else range(k), not transpose))


# ------------------------------------------------------------------------------------------- svd, eig


@op(where=LA, returns=("U", "S", "Vh"))
def svd(A: Array, full_matrices: bool = True, *, driver: str | None = None):
    """(U, S, Vh) with A = U diag(S) Vh, S descending (torch.linalg.svd)."""
    return tuple(jnp.linalg.svd(_matrix(A, "svd"), full_matrices=full_matrices))


@op(where=LA)
def svdvals(A: Array, *, driver: str | None = None):
    """Singular values, descending."""
    x = _matrix(A, "svdvals")
    return jnp.linalg.svd(x, full_matrices=False)[1]


@op(name="svd", method=True, returns=("U", "S", "V"))
def _old_svd(input: Array, some: bool = True, compute_uv: bool = True):
    x = _matrix(input, "svd")
    if not compute_uv:
        s = jnp.linalg.svd(x, full_matrices=False)[1]
        return (jnp.zeros(x.shape[:-1] + (x.shape[-2],), x.dtype), s, jnp.zeros(x.shape[:-2] + (x.shape[-1],) * 2, x.dtype))
    u, s, vh = jnp.linalg.svd(x, full_matrices=not some)
    return u, s, _h(vh)


def _hermitian(x, uplo):
    """The Hermitian matrix that one triangle holds; the gradient is that of (x + x^H) / 2, as torch's."""
    low = jnp.tril(x, -1) if uplo.upper() == "L" else _h(jnp.triu(x, 1))
    d = jnp.diagonal(x, axis1=-2, axis2=-1)
    d = jnp.real(d).astype(x.dtype) if is_complex(x.dtype) else d
    value = low + _h(low) + d[..., None] * jnp.eye(x.shape[-1], dtype=x.dtype)
    half = (x + _h(x)) / 2
    return half + lax.stop_gradient(value - half)


def _uplo(u):
    check(u in ("L", "U", "l", "u"), f"Expected UPLO argument to be 'L' or 'U', but got {u}")


@op(where=LA, returns=("eigenvalues", "eigenvectors"))
def eigh(A: Array, UPLO: str = "L"):
    """(eigenvalues ascending, eigenvectors) of Hermitian matrices."""
    _uplo(UPLO)
    return tuple(jnp.linalg.eigh(_hermitian(_matrix(A, "eigh", True), UPLO), symmetrize_input=False))


@op(where=LA)
def eigvalsh(A: Array, UPLO: str = "L"):
    """Eigenvalues of Hermitian matrices, ascending."""
    _uplo(UPLO)
    return jnp.linalg.eigh(_hermitian(_matrix(A, "eigvalsh", True), UPLO), symmetrize_input=False)[0]


def _eig_values(x):
    shape = jax.ShapeDtypeStruct(x.shape[:-1], np.result_type(x.dtype, np.complex64))
    return shape, jax.ShapeDtypeStruct(x.shape, shape.dtype)


@jax.custom_jvp
def _eig(x):
    """General eigenvectors on the host (jax has eig on CPU only; elsewhere it is a callback)."""
    def host(a):
        w, v = np.linalg.eig(np.asarray(a))
        c = np.result_type(a.dtype, np.complex64)
        return w.astype(c), v.astype(c)

    def native(a):
        w, v = jnp.linalg.eig(a)
        return w, v
    if jax.default_backend() == "cpu":
        return native(x)
    return jax.pure_callback(host, _eig_values(x), x, vmap_method="sequential")


@_eig.defjvp
def _eig_jvp(primals, tangents):
    x, = primals
    dx, = tangents
    w, v = _eig(x)
    m = jnp.linalg.solve(v, dx.astype(v.dtype) @ v)
    dw = jnp.diagonal(m, axis1=-2, axis2=-1)
    gap = w[..., None, :] - w[..., :, None]
    n = x.shape[-1]
    eye = jnp.eye(n, dtype=bool)
    k = jnp.where(eye, 0, m / jnp.where(eye, 1, gap))
    dv = v @ k
    # columns keep unit norm
    dv = dv - v * jnp.real(jnp.sum(jnp.conj(v) * dv, -2, keepdims=True)).astype(v.dtype)
    return (w, v), (dw, dv)


@op(where=LA, returns=("eigenvalues", "eigenvectors"))
def eig(A: Array):
    """(eigenvalues, eigenvectors) of square matrices, complex."""
    return _eig(_matrix(A, "eig", True))


@op(where=LA)
def eigvals(A: Array):
    """Eigenvalues of square matrices, complex."""
    return _eig(_matrix(A, "eigvals", True))[0]


# ------------------------------------------------------------------------------------------- lu


def _lu(x):
    lu, pivots, perm = lax.linalg.lu(x)
    return lu, pivots.astype(np.int32) + 1, perm


def _unpack(lu, perm):
    m, n = lu.shape[-2:]
    k = min(m, n)
    low = jnp.tril(lu[..., :, :k], -1) + jnp.eye(m, k, dtype=lu.dtype)
    up = jnp.triu(lu[..., :k, :])
    p = (jnp.arange(m)[:, None] == perm[..., None, :]).astype(lu.dtype)
    return p, low, up


@op(where=LA, returns=("P", "L", "U"))
def lu(A: Array, *, pivot: bool = True):
    """(P, L, U) with A = P L U."""
    x = _matrix(A, "lu")
    check(pivot, "linalg.lu: LU without pivoting is not implemented on the CPU")
    f, _, perm = _lu(x)
    return _unpack(f, perm)


@op(where=LA, returns=("LU", "pivots", "info"))
def lu_factor_ex(A: Array, *, pivot: bool = True, check_errors: bool = False):
    """(LU, pivots, info): compact LU; info > 0 where U has a zero pivot."""
    check(pivot, "linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    f, piv, _ = _lu(_matrix(A, "lu_factor"))
    return f, piv, _info(f)


def _info(lu):
    d = jnp.diagonal(lu, axis1=-2, axis2=-1) == 0
    if d.shape[-1] == 0:
        return jnp.zeros(d.shape[:-1], np.int32)
    return jnp.where(d.any(-1), jnp.argmax(d, -1) + 1, 0).astype(np.int32)


@op(where=LA, returns=("LU", "pivots"))
def lu_factor(A: Array, *, pivot: bool = True):
    """(LU, pivots): compact LU."""
    check(pivot, "linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    f, piv, _ = _lu(_matrix(A, "lu_factor"))
    return f, piv


@composite(name="lu", method=True)
def _old_lu(A, pivot=True, get_infos=False, out=None):
    """(LU, pivots), with infos when asked for (torch.lu)."""
    r = lu_factor_ex(A, pivot=pivot)
    return tuple(r) if get_infos else tuple(r[:2])


@op(returns=("P", "L", "U"), differentiable=(1, 2))
def lu_unpack(LU_data: Array, LU_pivots: Array, unpack_data: bool = True, unpack_pivots: bool = True):
    """(P, L, U) of a compact LU; parts not asked for are empty."""
    check(LU_pivots.dtype == np.int32, "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.")
    perm = _perm(LU_pivots, LU_data.shape[-2])
    p, low, up = _unpack(LU_data, perm)
    none = jnp.zeros((0,), LU_data.dtype)
    return (p if unpack_pivots else none, low if unpack_data else none, up if unpack_data else none)


def _perm(pivots, m):
    return lax.linalg.lu_pivots_to_permutation(pivots.astype(np.int32) - 1, m)


def _lu_solve(lu, pivots, b, adjoint=False):
    perm = _perm(pivots, lu.shape[-2])
    batch = jnp.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    lu = jnp.broadcast_to(lu, batch + lu.shape[-2:])
    perm = jnp.broadcast_to(perm, batch + perm.shape[-1:])
    b = jnp.broadcast_to(b, batch + b.shape[-2:])
    if not adjoint:
        b = jnp.take_along_axis(b, perm[..., None], -2)
        y = lax.linalg.triangular_solve(lu, b, left_side=True, lower=True, unit_diagonal=True)
        return lax.linalg.triangular_solve(lu, y, left_side=True, lower=False)
    y = lax.linalg.triangular_solve(lu, b, left_side=True, lower=False, transpose_a=True, conjugate_a=True)
    y = lax.linalg.triangular_solve(lu, y, left_side=True, lower=True, unit_diagonal=True, transpose_a=True, conjugate_a=True)
    return jnp.take_along_axis(y, jnp.argsort(perm, -1)[..., None], -2)


@op(where=LA, name="lu_solve")
def _la_lu_solve(LU: Array, pivots: Array, B: Array, *, left: bool = True, adjoint: bool = False):
    """X with A X = B (or X A = B), given the compact LU of A."""
    check(LU.dtype == B.dtype, f"linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type {LU.dtype.name} and B of "
                               f"type {B.dtype.name} instead")
    check(pivots.dtype == np.int32, "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    _matrix(LU, "lu_solve", True)
    if left:
        return _lu_solve(LU, pivots, B, adjoint)
    return _h(_lu_solve(LU, pivots, _h(B), not adjoint))


@composite(name="lu_solve", method=True)
def _old_lu_solve(b, LU_data, LU_pivots, *, out=None):
    """X with A X = b, given the compact LU of A (torch.lu_solve)."""
    return _la_lu_solve(LU_data, LU_pivots, b)


# ------------------------------------------------------------------------------------------- solve, inverse, determinant


def _is_vector(a, b):
    return b.ndim == 1 or (a.ndim - 1 == b.ndim and b.shape == a.shape[:-1])


def _solve(a, b, left):
    check(a.dtype == b.dtype, f"linalg.solve: Expected A and B to have the same dtype, but found A of type {a.dtype.name} and B of type "
                              f"{b.dtype.name} instead")
    vector = _is_vector(a, b)
    check(left or not vector, "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False")
    x = b[..., None] if vector else b
    check(x.shape[-2 if left else -1] == a.shape[-1], f"linalg.solve: Incompatible shapes of A and B for the equation "
          f"{'AX = B' if left else 'XA = B'} ({list(a.shape)} and {list(b.shape)})")
    if not left:
        return _t(_solve_left(_t(a), _t(x)))
    r = _solve_left(a, x)
    return r[..., 0] if vector else r


def _solve_left(a, b):
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return jnp.linalg.solve(jnp.broadcast_to(a, batch + a.shape[-2:]), jnp.broadcast_to(b, batch + b.shape[-2:]))


@op(where=LA, returns=("result", "info"))
def solve_ex(A: Array, B: Array, *, left: bool = True, check_errors: bool = False):
    """(X, info) with A X = B; info > 0 where A is singular."""
    _matrix(A, "solve", True)
    return _solve(A, B, left), _info(lax.linalg.lu(lax.stop_gradient(A))[0])


@composite(where=LA)
def solve(A, B, *, left=True, out=None):
    """X with A X = B (torch.linalg.solve); LinAlgError when A is singular."""
    r, info = solve_ex(A, B, left=left)
    _raise_if(info, "solve", "The solver failed because the input matrix is singular.")
    return r if out is None else out.copy_(r)


@op(where=LA)
def solve_triangular(A: Array, B: Array, *, upper: bool, left: bool = True, unitriangular: bool = False):
    """X with A X = B (or X A = B), A triangular."""
    _matrix(A, "solve_triangular", True)
    check(A.dtype == B.dtype, f"linalg.solve_triangular: Expected A and B to have the same dtype, got {A.dtype.name} and {B.dtype.name}")
    check(B.ndim >= 2, "linalg.solve_triangular: The input tensor B must have at least 2 dimensions.")
    check(B.shape[-2 if left else -1] == A.shape[-1], f"linalg.solve_triangular: Incompatible shapes of A and B: {list(A.shape)}, {list(B.shape)}")
    batch = jnp.broadcast_shapes(A.shape[:-2], B.shape[:-2])
    a, b = jnp.broadcast_to(A, batch + A.shape[-2:]), jnp.broadcast_to(B, batch + B.shape[-2:])
    return lax.linalg.triangular_solve(a, b, left_side=left, lower=not upper, unit_diagonal=unitriangular)


@op(method=True, returns=("solution", "cloned_coefficient"))
def triangular_solve(b: Array, A: Array, upper: bool = True, transpose: bool = False, unitriangular: bool = False):
    """(X, A) with A X = b, A triangular (torch.triangular_solve)."""
    batch = jnp.broadcast_shapes(A.shape[:-2], b.shape[:-2])
    a, x = jnp.broadcast_to(A, batch + A.shape[-2:]), jnp.broadcast_to(b, batch + b.shape[-2:])
    return lax.linalg.triangular_solve(a, x, left_side=True, lower=not upper, unit_diagonal=unitriangular, transpose_a=transpose), a


@op(where=LA, returns=("inverse", "info"))
def inv_ex(A: Array, *, check_errors: bool = False):
    """(inverse, info); info > 0 where A is singular."""
    x = _matrix(A, "inv", True)
    eye = jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape)
    return jnp.linalg.solve(x, eye) if x.size else x, _info(lax.linalg.lu(lax.stop_gradient(x))[0])


@composite(where=LA, alias=("inverse",), method=("inverse",))
def inv(A, *, out=None):
    """The inverse of square matrices; LinAlgError when one is singular (torch.linalg.inv)."""
    r, info = inv_ex(A)
    _raise_if(info, "inv", "The diagonal element is zero, the inversion could not be completed because the input matrix is singular.")
    return r if out is None else out.copy_(r)


@jax.custom_jvp
def _det(x):
    return jnp.linalg.det(x)


@_det.defjvp
def _det_jvp(primals, tangents):
    """d det = tr(adj(A) dA), the adjugate from the SVD so that singular matrices have their gradient."""
    x, = primals
    dx, = tangents
    u, s, vh = jnp.linalg.svd(x, full_matrices=False)
    n = s.shape[-1]
    others = jnp.stack([jnp.prod(jnp.delete(s, i, axis=-1, assume_unique_indices=True), -1) for i in range(n)], -1) if n else s
    sign = jnp.linalg.det(u) * jnp.linalg.det(vh)
    adj = sign[..., None, None] * (_h(vh) * others[..., None, :].astype(x.dtype)) @ _h(u)
    return _det(x), jnp.sum(adj * _t(dx), (-1, -2))


@op(where=LA, alias=("det",), method=("det",))
def det(A: Array):
    """The determinant of square matrices."""
    return _det(_matrix(A, "det", True))


@op(where=LA, returns=("sign", "logabsdet"))
def slogdet(A: Array):
    """(sign, log |det|) of square matrices."""
    return tuple(jnp.linalg.slogdet(_matrix(A, "slogdet", True)))


@op(name="slogdet", method=True, returns=("sign", "logabsdet"))
def _old_slogdet(input: Array):
    return tuple(jnp.linalg.slogdet(_matrix(input, "slogdet", True)))


@op(method=True)
def logdet(input: Array):
    """log det of square matrices: -inf at 0, nan below."""
    s, l = jnp.linalg.slogdet(_matrix(input, "logdet", True))
    if is_complex(input.dtype):
        return l + jnp.log(s)
    return jnp.where(s < 0, jnp.nan, jnp.where(s == 0, -jnp.inf, l))


@jax.custom_jvp
def _pinv_value(x, inverse):
    return inverse


@_pinv_value.defjvp
def _pinv_jvp(primals, tangents):
    """The derivative at constant rank (Golub and Pereyra, 1973), from the inverse itself."""
    x, p = primals
    dx = tangents[0]
    p = _pinv_value(x, p)
    eye_m, eye_n = jnp.eye(x.shape[-2], dtype=x.dtype), jnp.eye(x.shape[-1], dtype=x.dtype)
    return p, -p @ dx @ p + p @ _h(p) @ _h(dx) @ (eye_m - x @ p) + (eye_n - p @ x) @ _h(dx) @ _h(p) @ p


@op(where=None, name="pinv")
def _pinv(input: Array, atol: Array | None, rtol: Array | None, hermitian: bool):
    x = _matrix(input, "pinv", hermitian)
    if x.size == 0:
        return jnp.zeros(x.shape[:-2] + (x.shape[-1], x.shape[-2]), x.dtype)
    if hermitian:
        w, v = jnp.linalg.eigh(lax.stop_gradient(_hermitian(x, "L")), symmetrize_input=False)
        keep = jnp.abs(w) > _cut(jnp.abs(w), atol, rtol, x)
        inv = jnp.where(keep, 1 / jnp.where(keep, w, 1), 0).astype(x.dtype)
        return _pinv_value(x, (v * inv[..., None, :]) @ _h(v))
    u, s, vh = jnp.linalg.svd(lax.stop_gradient(x), full_matrices=False)
    keep = s > _cut(s, atol, rtol, x)
    inv = jnp.where(keep, 1 / jnp.where(keep, s, 1), 0).astype(x.dtype)
    return _pinv_value(x, (_h(vh) * inv[..., None, :]) @ _h(u))


def _cut(s, atol, rtol, x):
    eps = float(jnp.finfo(real_dtype(x.dtype)).eps) * max(x.shape[-2:])
    top = s.max(-1)
    a = jnp.zeros((), s.dtype) if atol is None else atol.astype(s.dtype)
    if rtol is None:
        r = jnp.asarray(eps, s.dtype)
        r = jnp.where(a > 0, 0, r) if atol is not None else r
    else:
        r = rtol.astype(s.dtype)
    return lax.stop_gradient(jnp.maximum(a, r * top))[..., None]


def _tolerance(t, like):
    from lazy_tensor import creation
    from lazy_tensor.tensor import Tensor
    return None if t is None else t if isinstance(t, Tensor) else creation.tensor(float(t), dtype=creation.dtypes.names["float64"], device=like.device)


@composite(where=LA)
def pinv(A, rcond=None, *, atol=None, rtol=None, hermitian=False, out=None):
    """The Moore-Penrose inverse; singular values at most max(atol, rtol * largest) count as 0 (torch.linalg.pinv)."""
    r = _pinv(A, _tolerance(atol, A), _tolerance(rcond if rtol is None else rtol, A), hermitian)
    return r if out is None else out.copy_(r)


@composite(method=True)
def pinverse(input, rcond=1e-15):
    """The Moore-Penrose inverse (torch.pinverse)."""
    return pinv(input, rcond)


@op(where=None, name="matrix_rank")
def _rank(input: Array, atol: Array | None, rtol: Array | None, hermitian: bool):
    x = _matrix(input, "matrix_rank", hermitian)
    if x.size == 0:
        return jnp.zeros(x.shape[:-2], np.int64)
    s = jnp.abs(jnp.linalg.eigh(_hermitian(x, "L"), symmetrize_input=False)[0]) if hermitian else jnp.linalg.svd(x, compute_uv=False)
    return (s > _cut(s, atol, rtol, x)).sum(-1).astype(np.int64)


@composite(where=LA)
def matrix_rank(A, tol=None, *, atol=None, rtol=None, hermitian=False, out=None):
    """How many singular values exceed max(atol, rtol * largest) (torch.linalg.matrix_rank)."""
    if tol is not None:
        atol, rtol = tol, 0.0
    r = _rank(A, _tolerance(atol, A), _tolerance(rtol, A), hermitian)
    return r if out is None else out.copy_(r)


@op(where=LA, returns=("solution", "residuals", "rank", "singular_values"), differentiable=(0, 1))
def lstsq(A: Array, B: Array, rcond: float | None = None, *, driver: str | None = None):
    """(solution, residuals, rank, singular values) of min |A X - B|."""
    x = _matrix(A, "lstsq")
    check(driver in (None, "gels", "gelsy", "gelsd", "gelss"), f"torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, "
                                                               f"gelss), got {driver}")
    check(x.dtype == B.dtype, f"torch.linalg.lstsq: Expected input and other to have the same dtype, got {x.dtype.name} and {B.dtype.name}")
    vector = B.ndim == x.ndim - 1
    b = B[..., None] if vector else B
    check(b.shape[-2] == x.shape[-2], f"torch.linalg.lstsq: input.size(-2) should match other.size({-1 if vector else -2}), got {list(x.shape)} "
                                      f"and {list(B.shape)}")
    m, n = x.shape[-2:]
    if m >= n:
        q, r = jnp.linalg.qr(x)
        sol = lax.linalg.triangular_solve(r, _h(q) @ b, left_side=True, lower=False)
    else:
        q, r = jnp.linalg.qr(_h(x))
        sol = q @ lax.linalg.triangular_solve(r, b, left_side=True, lower=False, transpose_a=True, conjugate_a=True)
    driver = driver or "gelsy"
    res = jnp.sum(jnp.abs(x @ sol - b) ** 2, -2) if m > n and driver != "gelsy" else jnp.zeros((0,), real_dtype(x.dtype))
    s = jnp.linalg.svd(lax.stop_gradient(x), compute_uv=False)
    cut = (float(jnp.finfo(s.dtype).eps) * max(m, n) if rcond is None else rcond) * s.max(-1, keepdims=True)
    rank = (s > cut).sum(-1).astype(np.int64) if driver != "gels" else jnp.zeros((0,), np.int64)
    sv = s if driver in ("gelsd", "gelss") else jnp.zeros((0,), s.dtype)
    return sol[..., 0] if vector else sol, res, rank, sv


# ------------------------------------------------------------------------------------------- powers, norms, products


@op(where=None, name="matrix_power")
def _matrix_power(input: Array, n: int):
    check(input.ndim >= 2 and input.shape[-1] == input.shape[-2],
          f"linalg.matrix_power: A must be batches of square matrices, but they are {list(input.shape)}")
    x = input
    if n < 0:
        x, n = jnp.linalg.inv(x), -n
    r = None
    if n == 0:
        return jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape)
    while n:
        if n & 1:
            r = x if r is None else r @ x
        n >>= 1
        if n:
            x = x @ x
    return r


@composite(where=LA, alias=("matrix_power",), method=("matrix_power",))
def matrix_power(A, n, *, out=None):
    """A to an integer power (the inverse's for n < 0)."""
    r = _matrix_power(A, n)
    return r if out is None else out.copy_(r)


@op(where=LA, alias=("matrix_exp",), method=("matrix_exp",))
def matrix_exp(A: Array):
    """The matrix exponential."""
    check(A.ndim >= 2 and A.shape[-1] == A.shape[-2], f"linalg.matrix_exp: A must be batches of square matrices, got {list(A.shape)}")
    check(is_inexact(A.dtype), f"linalg.matrix_exp: Expected a floating point or complex tensor as input. Got {A.dtype.name}")
    if A.size == 0:
        return A
    f = jax.scipy.linalg.expm
    return f(A.astype(np.float32)).astype(A.dtype) if A.dtype.itemsize < 4 else f(A, max_squarings=48)


def _vector_norm(x, ord, dims, keepdim):
    a = jnp.abs(x) if is_complex(x.dtype) else x
    if ord == 0:
        return (x != 0).astype(real_dtype(x.dtype)).sum(dims, keepdims=keepdim)
    if ord == float("inf") or ord == float("-inf"):
        a = jnp.abs(a)
        return (jnp.max if ord > 0 else jnp.min)(a, dims, keepdims=keepdim)
    if ord == 1:
        return jnp.abs(a).sum(dims, keepdims=keepdim)
    if ord == 2:
        s = (jnp.real(x) ** 2 + jnp.imag(x) ** 2 if is_complex(x.dtype) else x * x).sum(dims, keepdims=keepdim)
        zero = s == 0
        return jnp.where(zero, 0, jnp.sqrt(jnp.where(zero, 1, s)))
    a = jnp.abs(a)
    nil = a == 0
    p = jnp.where(nil, 0.0 if ord > 0 else jnp.inf, jnp.where(nil, 1, a) ** ord).sum(dims, keepdims=keepdim)
    zero = p == 0
    return jnp.where(zero, 0, jnp.where(zero, 1, p) ** (1 / ord)).astype(a.dtype)


def _in_dtype(x, dtype, name):
    if dtype is not None:
        check(is_complex(dtype) == is_complex(x.dtype), f"{name} expected dtype to be {'complex' if is_complex(x.dtype) else 'real'}, got {dtype.name}")
        x = x.astype(dtype)
    check(is_inexact(x.dtype), f"{name}: Expected a floating point or complex tensor as input. Got {x.dtype.name}")
    return x


@op(where=LA)
def vector_norm(x: Array, ord: float = 2, dim: Dims | None = None, keepdim: bool = False, *, dtype: DType | None = None):
    """The ord-norm of vectors along dim (all elements when None); subgradient 0 at 0 (torch.linalg.vector_norm)."""
    x = _in_dtype(x, dtype, "linalg.vector_norm")
    dims = tuple(range(x.ndim)) if dim is None or dim == () else tuple(norm_dim(d, x.ndim) for d in ((dim,) if isinstance(dim, int) else dim))
    if x.ndim == 0:
        dims = ()
    n = int(np.prod([x.shape[d] for d in dims])) if dims else 1
    check(n > 0 or ord not in (float("inf"), float("-inf")) and ord >= 0,
          f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation does not have an identity")
    wide = x.dtype.itemsize < 4 and not is_complex(x.dtype)
    r = _vector_norm(x.astype(np.float32) if wide else x, float(ord), dims, keepdim)
    return r.astype(x.dtype if wide else real_dtype(x.dtype))


def _matrix_norm(x, ord, dims, keepdim):
    r, c = (norm_dim(d, x.ndim) for d in dims)
    check(r != c, f"linalg.matrix_norm: dims must be different. Got {dims}")
    if ord in ("fro", None):
        return _vector_norm(x, 2.0, (r, c), keepdim)
    if ord == "nuc" or ord in (2, -2):
        m = jnp.moveaxis(x, (r, c), (-2, -1))
        s = jnp.linalg.svd(m, compute_uv=False)
        v = s.sum(-1) if ord == "nuc" else s.max(-1) if ord == 2 else s.min(-1)
        return jnp.expand_dims(v, tuple(sorted((r, c)))) if keepdim else v
    check(ord in (1, -1, float("inf"), float("-inf")), f"linalg.matrix_norm: Order {ord} not supported.")
    first, second = (r, c) if abs(ord) == 1 else (c, r)
    s = jnp.abs(x).sum(first, keepdims=True)
    v = (jnp.max if ord > 0 else jnp.min)(s, second, keepdims=True)
    return v if keepdim else jnp.squeeze(v, tuple(sorted((r, c))))


@op(where=None, name="matrix_norm")
def _mn(A: Array, ord: float | str, dim: Dims, keepdim: bool, dtype: DType | None):
    x = _in_dtype(A, dtype, "linalg.matrix_norm")
    check(x.ndim >= 2, f"linalg.matrix_norm: The input tensor A must have at least 2 dimensions, got {list(x.shape)}.")
    check(len(dim) == 2, f"linalg.matrix_norm: dim must be a 2-tuple. Got {dim}")
    wide = x.dtype.itemsize < 4 and not is_complex(x.dtype)
    return _matrix_norm(x.astype(np.float32) if wide else x, ord, dim, keepdim).astype(x.dtype if wide else real_dtype(x.dtype))


@composite(where=LA)
def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None, out=None):
    """A matrix norm: "fro", "nuc", inf, -inf, 1, -1, 2, -2 (torch.linalg.matrix_norm)."""
    if isinstance(ord, str) and ord not in ("fro", "nuc"):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    r = _mn(A, ord, tuple(dim), keepdim, dtype)
    return r if out is None else out.copy_(r)


@composite(where=LA)
def norm(A, ord=None, dim=None, keepdim=False, *, out=None, dtype=None):
    """A vector norm, or a matrix norm when dim names two dimensions or ord is a matrix norm's (torch.linalg.norm)."""
    if ord is not None and dim is None and A.dim() not in (1, 2):
        raise RuntimeError(f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.dim()}D.")
    two = dim is not None and not isinstance(dim, int) and len(dim) == 2
    if ord is not None and (two or (dim is None and A.dim() == 2)):
        r = matrix_norm(A, ord, tuple(dim) if two else (0, 1), keepdim, dtype=dtype)
    else:
        if isinstance(ord, str):
            raise RuntimeError(f"linalg.norm: Order {ord!r} needs a matrix: dim must name two dimensions, got {dim}")
        r = vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)
    return r if out is None else out.copy_(r)


@composite(where=LA)
def cond(A, p=None, *, out=None):
    """The condition number with respect to a matrix norm (2 by default)."""
    if p in (None, 2, -2):
        s = svdvals(A)
        top, low = s[..., 0], s[..., -1]
        r = top / low if p in (None, 2) else low / top
    else:
        if A.shape[-1] != A.shape[-2]:
            raise RuntimeError(f"linalg.cond: A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices")
        r = matrix_norm(A, p) * matrix_norm(inv_ex(A)[0], p)
    return r if out is None else out.copy_(r)


@op(where=LA)
def vander(x: Array, *, N: int | None = None):
    """The Vandermonde matrix: powers 0 .. N - 1 of x in the last dimension."""
    x = jnp.atleast_1d(x)
    n = x.shape[-1] if N is None else N
    check(n > 1, "N must be greater than 1.")
    if x.dtype == np.bool_ or jnp.issubdtype(x.dtype, np.integer):
        x = x.astype(np.int64)
    cols = [jnp.ones_like(x)]
    for _ in range(n - 1):
        cols.append(cols[-1] * x)
    return jnp.stack(cols, -1)


@op(where=LA, promote=True)
def vecdot(x: Array, y: Array, *, dim: int = -1):
    """sum conj(x) y along dim."""
    check(is_inexact(x.dtype), f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {x.dtype.name}")
    return jnp.sum(jnp.conj(x) * y, norm_dim(dim, max(x.ndim, y.ndim)) - max(x.ndim, y.ndim))


@op(where=LA, promote=True, name="cross")
def _la_cross(input: Array, other: Array, *, dim: int = -1):
    """The cross product along dim, of size 3."""
    check(input.ndim == other.ndim, f"linalg.cross: inputs must have the same number of dimensions, got {input.ndim} and {other.ndim}")
    d = norm_dim(dim, input.ndim)
    check(input.shape[d] == 3 and other.shape[d] == 3, f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[d]} and "
                                                       f"{other.shape[d]}")
    shape = jnp.broadcast_shapes(input.shape, other.shape)
    return jnp.cross(jnp.broadcast_to(input, shape), jnp.broadcast_to(other, shape), axis=d)


@composite(name="cross", method=True)
def cross(input, other, dim=None, *, out=None):
    """The cross product along dim (the first of size 3 when None) (torch.cross)."""
    if dim is None:
        dim = next((i for i, n in enumerate(input.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError(f"no dimension of size 3 in input of shape {list(input.shape)}")
    r = _la_cross(input, other, dim=dim)
    return r if out is None else out.copy_(r)


@composite(where=LA)
def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """A view of the diagonal, as the last dimension."""
    return A.diagonal(offset, dim1, dim2)


@composite(where=LA)
def tensorinv(A, ind=2, *, out=None):
    """The inverse of tensordot's linear map."""
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    left, right = A.shape[:ind], A.shape[ind:]
    n, m = int(np.prod(left)), int(np.prod(right))
    if n != m:
        raise RuntimeError(f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got {m} != {n}")
    r = inv(A.reshape(n, m)).reshape(*right, *left)
    return r if out is None else out.copy_(r)


@composite(where=LA)
def tensorsolve(A, B, dims=None, *, out=None):
    """X with tensordot(A, X) = B."""
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.dim() - len(dims), A.dim())))
    shape = tuple(A.shape[B.dim():])
    n = int(np.prod(shape))
    if n != B.numel():
        raise RuntimeError(f"Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but got "
                           f"{n} != {B.numel()}")
    r = solve(A.reshape(n, n), B.reshape(-1)).reshape(shape)
    return r if out is None else out.copy_(r)


@op(method=True)
def trace(input: Array):
    """The sum of a matrix's diagonal."""
    check(input.ndim == 2, f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    d = jnp.diagonal(input)
    return d.sum(dtype=np.int64 if input.dtype.kind in "biu" else None)


def _alias_methods():
    from lazy_tensor.ops._define import namespace
    here = namespace(LA)
    publish_method("lstsq", here["lstsq"])


_alias_methods()

"""lt.linalg: what a factorization must rebuild, NumPy's values, batches, empty matrices, errors."""
from __future__ import annotations

import numpy as np
import pytest

import lazy_tensor as lt

R = np.random.default_rng(0)
L = lt.linalg


def matrix(*shape, dtype=np.float64):
    a = R.standard_normal(shape)
    return (a + 1j * R.standard_normal(shape) if np.dtype(dtype).kind == "c" else a).astype(dtype)


def t(a):
    return lt.from_numpy(np.ascontiguousarray(a))


def h(a):
    return a.conj().swapaxes(-1, -2)


def positive(n, dtype):
    a = matrix(2, n, n, dtype=dtype)
    return a @ h(a) + n * np.eye(n)


both = pytest.mark.parametrize("dtype", [np.float64, np.complex128])


@both
def test_factorizations_rebuild_their_matrix(dtype):
    a, p = matrix(2, 4, 3, dtype=dtype), positive(3, dtype)
    q, r = (x.numpy() for x in L.qr(t(a)))
    assert np.allclose(q @ r, a) and np.allclose(h(q) @ q, np.eye(3)) and np.allclose(np.tril(r, -1), 0)
    u, s, v = (x.numpy() for x in L.svd(t(a), full_matrices=False))
    assert np.allclose((u * s[:, None]) @ v, a) and np.allclose(s, np.linalg.svd(a, compute_uv=False))
    low = L.cholesky(t(p)).numpy()
    assert np.allclose(low @ h(low), p) and np.allclose(L.cholesky(t(p), upper=True).numpy(), h(low))
    w, e = (x.numpy() for x in L.eigh(t(p)))
    assert np.allclose((e * w[:, None]) @ h(e), p) and np.allclose(L.eigvalsh(t(p)).numpy(), w)
    w, e = (x.numpy() for x in L.eig(t(p)))
    assert np.allclose(p @ e, e * w[:, None])
    perm, lower, upper = (x.numpy() for x in L.lu(t(a)))
    assert np.allclose(perm @ lower @ upper, a)


@both
@pytest.mark.parametrize("hermitian", [False, True])
def test_ldl_of_indefinite_matrices(dtype, hermitian):
    a = matrix(2, 5, 5, dtype=dtype)
    a = a + (h(a) if hermitian else a.swapaxes(-1, -2))
    a[:, 0, 0] = 0  # asks for a 2 x 2 block
    b = matrix(2, 5, 2, dtype=dtype)
    ld, pivots = L.ldl_factor(t(a), hermitian=hermitian)
    assert (pivots.numpy() < 0).any()
    x = L.ldl_solve(ld, pivots, t(b), hermitian=hermitian).numpy()
    assert np.allclose((a if hermitian else a) @ x, b)


@both
def test_solves(dtype):
    a, b, p = matrix(2, 3, 3, dtype=dtype), matrix(2, 3, 2, dtype=dtype), positive(3, dtype)
    assert np.allclose(a @ L.solve(t(a), t(b)).numpy(), b) and np.allclose(L.inv(t(a)).numpy() @ a, np.eye(3))
    assert np.allclose(L.solve_triangular(t(np.triu(a)), t(b), upper=True).numpy(), np.linalg.solve(np.triu(a), b))
    assert np.allclose(p @ lt.cholesky_solve(t(b), L.cholesky(t(p))).numpy(), b)
    lu, pivots = L.lu_factor(t(a))
    assert np.allclose(a @ L.lu_solve(lu, pivots, t(b)).numpy(), b)
    tall, rhs = matrix(5, 3, dtype=dtype), matrix(5, 2, dtype=dtype)
    assert np.allclose(L.lstsq(t(tall), t(rhs)).solution.numpy(), np.linalg.lstsq(tall, rhs, rcond=None)[0])
    assert np.allclose(L.pinv(t(tall)).numpy(), np.linalg.pinv(tall))


@both
def test_numbers(dtype):
    a = matrix(2, 3, 3, dtype=dtype)
    sign, log = np.linalg.slogdet(a)
    got = L.slogdet(t(a))
    assert np.allclose(L.det(t(a)).numpy(), np.linalg.det(a)) and np.allclose(got[0].numpy(), sign) and np.allclose(got[1].numpy(), log)
    for order in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        if order is not None:
            assert np.allclose(L.matrix_norm(t(a), order).numpy(), [np.linalg.norm(x, order) for x in a])
    for order in (0, 1, 2, 3.5, np.inf, -np.inf):
        assert np.allclose(L.vector_norm(t(a[0, 0]), order).numpy(), np.linalg.norm(a[0, 0], order))
    assert np.allclose(L.matrix_power(t(a), 3).numpy(), np.linalg.matrix_power(a, 3)) and np.allclose(L.matrix_power(t(a), -1).numpy(), np.linalg.inv(a))
    assert L.matrix_rank(t(a)).tolist() == [3, 3] and np.allclose(L.cond(t(a)).numpy(), np.linalg.cond(a))
    assert np.allclose(L.multi_dot([t(a[0]), t(a[1]), t(a[0])]).numpy(), a[0] @ a[1] @ a[0])
    small = a * 0.1
    series, term = np.zeros_like(a) + np.eye(3), np.zeros_like(a) + np.eye(3)
    for k in range(1, 25):
        term = term @ small / k
        series = series + term
    assert np.allclose(L.matrix_exp(t(small)).numpy(), series)


def test_empty_matrices_and_errors():
    assert L.det(lt.zeros(0, 0)).item() == 1.0 and L.inv(lt.zeros(2, 0, 0)).shape == (2, 0, 0)
    with pytest.raises(L.LinAlgError, match="singular"):
        L.inv(lt.zeros(2, 2))
    with pytest.raises(L.LinAlgError, match="positive-definite"):
        L.cholesky(-lt.eye(2))
    for f in (L.inv, L.det, L.cholesky, L.eig, L.eigh):
        with pytest.raises(RuntimeError, match="square"):
            f(lt.ones(2, 3))
    with pytest.raises(RuntimeError):
        L.solve(lt.eye(3), lt.ones(2, 2))
    assert (lt.eye(2) + 1).tolist() == [[2.0, 1.0], [1.0, 2.0]]

"""Arithmetic, comparison, bits, complex numbers, lists of tensors: rules of dtypes, special points, gradients there."""
from __future__ import annotations

import math

import numpy as np
import pytest

import lazy_tensor as lt

INF, NAN = math.inf, math.nan


def slope(f, *at, dtype=lt.float32):
    """The gradients of f's sum at the given points, a list for each argument."""
    xs = [lt.tensor(a, dtype=dtype, requires_grad=True) for a in at]
    f(*xs).sum().backward()
    r = [x.grad.tolist() for x in xs]
    return r[0] if len(r) == 1 else r


A, B = np.array([7, -7, 7, -7, 0]), np.array([3, 3, -3, -3, 5])


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.float32])
def test_division_rounds_as_asked(dtype):
    a, b = lt.tensor(A.astype(dtype)), lt.tensor(B.astype(dtype))
    assert lt.div(a, b, rounding_mode="floor").tolist() == (A // B).tolist() == (a // b).tolist()
    assert lt.div(a, b, rounding_mode="trunc").tolist() == np.trunc(A / B).tolist()
    assert lt.remainder(a, b).tolist() == (A % B).tolist()
    assert lt.fmod(a, b).tolist() == np.fmod(A, B).tolist()
    assert lt.div(a, b).dtype == lt.float32
    with pytest.raises(RuntimeError, match="rounding_mode"):
        lt.div(a, b, rounding_mode="up")


def test_operators_with_a_number_on_the_left():
    x = lt.tensor([1.0, 2.0, 4.0])
    assert (2 - x).tolist() == [1.0, 0.0, -2.0]
    assert (2 / x).tolist() == [2.0, 1.0, 0.5]
    assert (2 ** x).tolist() == [2.0, 4.0, 16.0]
    assert (7 % x).tolist() == [0.0, 1.0, 3.0]
    assert (7 // x).tolist() == [7.0, 3.0, 1.0]
    assert (6 & lt.tensor([3])).tolist() == [2] and (6 | lt.tensor([3])).tolist() == [7] and (6 ^ lt.tensor([3])).tolist() == [5]


def test_result_dtypes():
    i, f, h = lt.tensor([1, 2]), lt.tensor([1.0, 2.0]), lt.tensor([1.0, 2.0], dtype=lt.float16)
    assert (i + 1.5).dtype == lt.float32 and (h + 1.5).dtype == lt.float16 and (h + lt.tensor(1.5)).dtype == lt.float16
    assert (h + f).dtype == lt.float32 and (i ** 2).dtype == lt.int64 and (i ** 2.0).dtype == lt.float32
    assert (f + 1j).dtype == lt.complex64 and (f == i).dtype == lt.bool
    assert lt.float_power(f, 2).dtype == lt.float64
    assert lt.ldexp(h, i).dtype == lt.float16 and lt.sin(i).dtype == lt.float32


def test_gradients_at_special_points():
    assert slope(lt.abs, [0.0, -2.0, 3.0]) == [0.0, -1.0, 1.0]
    assert slope(lt.sqrt, [0.0, 4.0]) == [INF, 0.25]
    assert slope(lambda x: x.clamp(-1, 1), [-1.0, 0.0, 1.0, 2.0]) == [1.0, 1.0, 1.0, 0.0]
    assert slope(lambda x: x ** 0, [0.0, 2.0]) == [0.0, 0.0]
    assert slope(lambda x: x ** 2, [0.0, 3.0]) == [0.0, 6.0]
    assert slope(lt.maximum, [1.0, 2.0, 3.0], [1.0, 3.0, 2.0]) == [[0.5, 0.0, 1.0], [0.5, 1.0, 0.0]]
    assert slope(lt.pow, [0.0, 2.0], [2.0, 1.0]) == [[0.0, 1.0], [0.0, pytest.approx(2 * math.log(2))]]
    assert slope(lt.logaddexp, [1e10, 0.0], [1e10, INF]) == [[0.5, 0.0], [0.5, 1.0]]
    assert slope(lt.logit, [0.0, 0.5, 2.0])[:2] == [INF, 4.0]


def test_xlogy_is_differentiable_in_its_first_argument_at_zero():
    da, db = slope(lt.xlogy, [0.0, 0.0, 2.0], [math.e, 0.0, 1.0])
    assert da == [pytest.approx(1.0), 0.0, 0.0] and db == [0.0, 0.0, 2.0]
    da, db = slope(lt.special.xlog1py, [0.0, 2.0], [math.e - 1, 0.0])
    assert da == [pytest.approx(1.0), 0.0] and db == [0.0, 2.0]


def test_gradients_of_complex_functions_follow_the_conjugate_convention():
    z = lt.tensor([-1 - 1j, 2 + 1j], dtype=lt.complex128, requires_grad=True)
    lt.acosh(z).sum().abs().backward()
    v = np.array([-1 - 1j, 2 + 1j])
    s = np.arccosh(v).sum()
    np.testing.assert_allclose(z.grad.numpy(), s / abs(s) * np.conj(1 / (np.sqrt(v - 1) * np.sqrt(v + 1))), rtol=1e-10)
    assert slope(lambda x: lt.view_as_real(x).sum(), [1 + 2j], dtype=lt.complex64) == [1 + 1j]


def test_signs_of_zero_and_nan():
    x = lt.tensor([-0.0, NAN, -3.0, INF])
    assert lt.sign(x).tolist() == [0.0, 0.0, -1.0, 1.0] and lt.signbit(x).tolist() == [True, False, True, False]
    assert lt.nan_to_num(x, 7.0, 8.0).tolist() == [0.0, 7.0, -3.0, 8.0]
    assert lt.fmax(x, lt.zeros(4)).tolist()[1:] == [0.0, 0.0, INF] and math.isnan(lt.maximum(x, lt.zeros(4)).tolist()[1])


def test_frexp_and_ldexp_are_exact():
    x = np.array([1.0, -0.75, 1e30, 3e-30, 0.0, 123.456], np.float32)
    m, e = lt.frexp(lt.tensor(x))
    assert m.numpy().tobytes() == np.frexp(x)[0].tobytes() and e.tolist() == np.frexp(x)[1].tolist() and e.dtype == lt.int32
    assert lt.ldexp(m, e).numpy().tobytes() == x.tobytes()
    assert lt.ldexp(lt.tensor([2.0 ** -100]), lt.tensor([200])).item() == 2.0 ** 100
    assert slope(lambda t: lt.ldexp(t, lt.tensor([3])), [1.0]) == [8.0]


def test_half_types_are_computed_in_float32():
    x = lt.tensor([0.1, 3.0], dtype=lt.float16)
    assert lt.exp(x).tolist() == np.exp(np.array([0.1, 3.0], np.float16).astype(np.float32)).astype(np.float16).tolist()
    tiny = lt.tensor([1e-6], dtype=lt.float16)
    assert (tiny / tiny).item() == 1.0


def test_shifts_and_integer_powers():
    i = lt.tensor([1, -8, 5])
    assert (i << 2).tolist() == [4, -32, 20] and (i >> 1).tolist() == [0, -4, 2] and (~i).tolist() == [-2, 7, -6]
    assert lt.pow(lt.tensor([2, -1, 3]), lt.tensor([10, 3, 0])).tolist() == [1024, -1, 1]
    assert lt.gcd(lt.tensor([12, 0]), lt.tensor([18, 5])).tolist() == [6, 5] and lt.lcm(lt.tensor([4]), lt.tensor([6])).item() == 12


@pytest.mark.parametrize("call, error, words", [
    (lambda t: t([1.5]) & t([1.5]), NotImplementedError, "bitwise_and: not implemented for float32"),
    (lambda t: -t([True]), RuntimeError, "Negation"),
    (lambda t: t([True]) - t([True]), RuntimeError, "Subtraction"),
    (lambda t: t([1, 2]) ** -1, RuntimeError, "negative integer powers"),
    (lambda t: lt.clamp(t([1j]), 0, 1), NotImplementedError, "complex"),
    (lambda t: lt.clamp(t([1.0])), RuntimeError, "At least one of"),
    (lambda t: lt.lerp(t([1]), t([2]), 0.5), NotImplementedError, "lerp: not implemented"),
    (lambda t: lt.heaviside(t([1.0]), t([1])), RuntimeError, "different dtypes"),
    (lambda t: t([1, 2]).add_(1.5), RuntimeError, "can't be cast"),
    (lambda t: lt.complex(t([1.0]), t([1.0]), out=lt.zeros(1, dtype=lt.complex128)), RuntimeError, "argument 'out'"),
    (lambda t: t([1.0, 2.0]) + t([1.0, 2.0, 3.0]), RuntimeError, "must match the size of tensor b"),
])
def test_what_does_not_fit_is_refused_in_torchs_words(call, error, words):
    with pytest.raises(error, match=words):
        call(lt.tensor).tolist()


def pair():
    return [lt.tensor([1.0, 2.0]), lt.tensor([3.0, -4.0, 5.0])]


def lists(r):
    assert isinstance(r, tuple)
    return [t.tolist() for t in r]


def test_foreach_takes_a_number_numbers_tensors_or_one_tensor():
    assert lists(lt._foreach_add(pair(), 2)) == [[3.0, 4.0], [5.0, -2.0, 7.0]]
    assert lists(lt._foreach_mul(pair(), [2, 0.5])) == [[2.0, 4.0], [1.5, -2.0, 2.5]]
    assert lists(lt._foreach_sub(pair(), pair(), alpha=2)) == [[-1.0, -2.0], [-3.0, 4.0, -5.0]]
    assert lists(lt._foreach_div(pair(), lt.tensor(2.0))) == [[0.5, 1.0], [1.5, -2.0, 2.5]]
    assert lists(lt._foreach_pow(2.0, [lt.tensor([1.0, 3.0])])) == [[2.0, 8.0]]
    assert lists(lt._foreach_addcmul(pair(), pair(), pair(), lt.tensor([1.0, 2.0]))) == [[2.0, 6.0], [21.0, 28.0, 55.0]]
    assert lists(lt._foreach_norm(pair(), INF)) == [2.0, 5.0] and lists(lt._foreach_max(pair())) == [2.0, 5.0]


def test_foreach_in_place_returns_the_list_it_was_given():
    x = pair()
    assert lt._foreach_add_(x, pair(), alpha=3) is x and [t.tolist() for t in x] == [[4.0, 8.0], [12.0, -16.0, 20.0]]
    assert lt._foreach_lerp_(x, pair(), 1.0) is x and [t.tolist() for t in x] == [[1.0, 2.0], [3.0, -4.0, 5.0]]
    lt._foreach_zero_(x)
    assert [t.tolist() for t in x] == [[0.0, 0.0], [0.0, 0.0, 0.0]]


def test_foreach_passes_gradients_and_names_what_does_not_fit():
    x = lt.tensor([1.0, 2.0], requires_grad=True)
    lt._foreach_maximum([x], 1.0)[0].sum().backward()
    assert x.grad.tolist() == [0.5, 1.0]
    with pytest.raises(RuntimeError, match="_foreach_add: Tensor lists must have the same number of tensors, got 2 and 1"):
        lt._foreach_add(pair(), pair()[:1])
    with pytest.raises(RuntimeError, match="at least one tensor"):
        lt._foreach_abs([])
    with pytest.raises(TypeError, match="must be tuple of Tensors, not Tensor"):
        lt._foreach_abs(pair()[0])

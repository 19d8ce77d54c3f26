"""Ops whose sizes depend on values: right on the device, one sync at most, and how much another count compiles.

A result of n elements is made by a program of n elements; what finds the elements is of the next power of two.
"""
from __future__ import annotations

import numpy as np
import pytest

import lazy_tensor as lt

SIZE = 64


def on_device(a):
    t = lt.tensor(np.ascontiguousarray(a), device="xla")
    t.cpu()
    return t


def sample(n):
    """64 numbers, n of them not zero: 1 .. n, spread evenly."""
    a = np.zeros(SIZE)
    a[np.linspace(0, SIZE - 1, n).astype(int)] = np.arange(1, n + 1)
    return a


def square(a):
    return a.reshape(8, 8)


def column(a):
    return np.stack([a, a + 1], 1)


def counted(a):
    return (a > 0).astype(np.int64) * 2


def runs(a):
    """The starts of runs of equal elements."""
    return np.concatenate([[True], a[1:] != a[:-1]])


def assigned(a, value):
    a = a.copy()
    a[a > 0] = value
    return a


def pending(x):
    """x by way of the graph: the op's own sync has to run it."""
    return x + 0 if x.dtype is not lt.bool else x & True


def put(x, value):
    x[x > 0] = value
    return x


# name -> (op on tensors, its arguments as arrays, the answer by NumPy)
MASKED = {
    "nonzero": (lt.nonzero, lambda a: (square(a),), lambda a: np.argwhere(square(a))),
    "nonzero as_tuple": (lambda x: lt.nonzero(x, as_tuple=True), lambda a: (square(a),), lambda a: np.nonzero(square(a))),
    "argwhere": (lt.argwhere, lambda a: (square(a),), lambda a: np.argwhere(square(a))),
    "where": (lambda x: lt.where(x > 0), lambda a: (a,), lambda a: np.nonzero(a)),
    "masked_select": (lt.masked_select, lambda a: (a, a > 0), lambda a: a[a > 0]),
    "masked_select broadcast": (lt.masked_select, lambda a: (column(a), (a > 0)[:, None]), lambda a: column(a)[a > 0].ravel()),
    "x[x > 0]": (lambda x: x[x > 0], lambda a: (square(a),), lambda a: a[a > 0]),
    "x[rows]": (lambda x: x[x[:, 0] > 0], lambda a: (column(a),), lambda a: column(a)[a > 0]),
    "x[rows, 1]": (lambda x: x[x[:, 0] > 0, 1], lambda a: (column(a),), lambda a: column(a)[a > 0, 1]),
    "x[x > 0] = 5": (lambda x: put(x, 5.0), lambda a: (a,), lambda a: assigned(a, 5.0)),
}
READ = {  # the values are read to find the size
    "unique": (lt.unique, lambda a: (a,), np.unique),
    "unique, all of it": (lambda x: lt.unique(x, return_inverse=True, return_counts=True), lambda a: (a,),
                          lambda a: np.unique(a, return_inverse=True, return_counts=True)),
    "unique dim": (lambda x: lt.unique(x, dim=0), lambda a: (column(a),), lambda a: np.unique(column(a), axis=0)),
    "unique_consecutive": (lt.unique_consecutive, lambda a: (a,), lambda a: a[runs(a)]),
    "unique_consecutive counts": (lambda x: lt.unique_consecutive(x, return_counts=True)[1], lambda a: (a,),
                                  lambda a: np.diff(np.append(np.flatnonzero(runs(a)), SIZE))),
    "repeat_interleave": (lt.repeat_interleave, lambda a: (a, counted(a)), lambda a: np.repeat(a, counted(a))),
    "repeat_interleave dim": (lambda x, n: lt.repeat_interleave(x, n, 0), lambda a: (column(a), counted(a)), lambda a: np.repeat(column(a), counted(a), 0)),
    "repeat_interleave of counts": (lt.repeat_interleave, lambda a: (counted(a),), lambda a: np.repeat(np.arange(SIZE), counted(a))),
    "bincount": (lt.bincount, lambda a: (a.astype(np.int64),), lambda a: np.bincount(a.astype(np.int64))),
    "bincount weights": (lt.bincount, lambda a: (a.astype(np.int64), a + 1), lambda a: np.bincount(a.astype(np.int64), a + 1)),
}
STATIC = {  # no sync at all
    "nonzero_static": (lambda x: lt.nonzero_static(x, size=4), lambda a: (a,), lambda a: np.argwhere(a)[:4]),
    "repeat_interleave output_size": (lambda x, n: lt.repeat_interleave(x, n, output_size=10), lambda a: (a, counted(a)),
                                      lambda a: np.repeat(a, counted(a))),
    "bincount-like scatter_add": (lambda x: lt.zeros(SIZE + 1, dtype=lt.float64, device="xla").scatter_add(0, x, lt.ones(SIZE, dtype=lt.float64, device="xla")),
                                  lambda a: (a.astype(np.int64),), lambda a: np.bincount(a.astype(np.int64), minlength=SIZE + 1)),
    "where of three": (lambda x: lt.where(x > 0, x, -1.0), lambda a: (a,), lambda a: np.where(a > 0, a, -1)),
    "masked_fill": (lambda x: x.masked_fill(x > 0, 5.0), lambda a: (a,), lambda a: assigned(a, 5.0)),
    "count_nonzero": (lt.count_nonzero, lambda a: (a,), np.count_nonzero),
    "isin": (lambda x: lt.isin(x, on_device([1.0, 2.0])), lambda a: (a,), lambda a: np.isin(a, [1, 2])),
}
FITS = {"nonzero_static": (5, 8, 9, SIZE), "repeat_interleave output_size": (5,)}  # the counts that the given size is for
NO_COMPILE = {n for n in READ if n.startswith("unique")}  # made on the host: nothing compiles for another count


def host(out):
    return [host(o) for o in out] if isinstance(out, (tuple, list)) else out.cpu().numpy()


def same(got, want):
    if isinstance(got, list):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            same(g, w)
    else:
        np.testing.assert_array_equal(got, np.reshape(want, got.shape) if np.size(want) == got.size else want)


@pytest.mark.parametrize("name,n", [(name, n) for name in [*MASKED, *READ, *STATIC] for n in [0, 1, 5, 8, 9, SIZE] if n in FITS.get(name, (n,))])
def test_right_on_the_device(name, n):
    op, make, want = (MASKED | READ | STATIC)[name]
    a = sample(n)
    same(host(op(*map(pending, map(on_device, make(a))))), want(a))


@pytest.mark.parametrize("name", [*MASKED, *READ])
def test_one_sync_and_no_more(name, count_from_here):
    op, make, _ = (MASKED | READ)[name]
    args = [on_device(x) for x in make(sample(5))]
    args = [pending(x) for x in args]
    here = count_from_here()
    out = op(*args)
    assert here.syncs <= 1 and here.transfers_from_device <= 1
    assert [o.shape for o in (out if isinstance(out, tuple) else (out,))], "the shape is known without a further sync"
    assert here.syncs <= 1


@pytest.mark.parametrize("name", list(STATIC))
def test_no_sync_where_the_size_is_given(name, count_from_here):
    op, make, _ = STATIC[name]
    on_device([1.0, 2.0])
    args = [on_device(x) for x in make(sample(5))]
    here = count_from_here()
    out = op(*args)
    assert here.syncs == 0
    host(out)
    assert here.syncs == 1
    args = [on_device(x) for x in make(sample(7))] if name != "repeat_interleave output_size" else args
    here = count_from_here()
    host(op(*args))
    assert here.compiles == 0


@pytest.mark.parametrize("name", [*MASKED, *READ])
def test_another_count_in_the_bucket(name, count_from_here):
    """Finding the elements compiles nothing for another count; the result costs one program at most, and none for a count met before."""
    op, make, _ = (MASKED | READ)[name]

    def args(n, shift=0.0):
        return [on_device(x) for x in make(np.roll(sample(n), int(shift)))]

    for _ in range(2):  # a start of a slice goes into the program until another is met in its place
        host(op(*args(5)))
    for n in (7, 6):
        x = args(n)
        here = count_from_here()
        out = op(*x)
        assert here.compiles == 0, "finding the elements compiled for another count"
        host(out)
        assert here.compiles <= (0 if name in NO_COMPILE else 1)
    x = args(7, shift=3)
    if name.startswith(("repeat", "x[", "nonzero", "argwhere", "where", "masked", "bincount")):
        here = count_from_here()
        host(op(*x))
        assert here.compiles == 0, "a count met before compiled again"


@pytest.mark.parametrize("name", ["masked_select", "x[x > 0]", "x[rows]", "x[rows, 1]"])
def test_gradients_go_through_a_selection(name):
    op, make, _ = MASKED[name]
    a = sample(5)
    args = [on_device(x) for x in make(a)]
    x = args[0].clone().requires_grad_()
    (op(x, *args[1:]) * 3).sum().backward()
    grad = x.grad.cpu().numpy()
    chosen = {"x[rows]": np.stack([a > 0, a > 0], 1), "x[rows, 1]": np.stack([a < 0, a > 0], 1)}.get(name, (a > 0).reshape(grad.shape) if grad.size == SIZE else None)
    np.testing.assert_array_equal(grad, 3.0 * chosen)


def test_one_hot_reads_its_values_once(count_from_here):
    x = on_device(np.array([3, 0, 2]))
    lt.nn.functional.one_hot(x, 5)
    here = count_from_here()
    lt.nn.functional.one_hot(x, 5)
    assert here.syncs == 0
    r = lt.nn.functional.one_hot(x)
    assert here.syncs <= 1 and r.shape == (3, 4)
    same(host(r), np.eye(4, dtype=np.int64)[[3, 0, 2]])


@pytest.mark.parametrize("call,message", [
    (lambda: lt.masked_select(on_device([1.0]), on_device([1])), "BoolTensor"), (lambda: lt.bincount(on_device([-1])), "non-negative"),
    (lambda: lt.repeat_interleave(on_device([1.0, 2.0]), on_device([1, -1])), "negative"),
    (lambda: lt.repeat_interleave(on_device([1.0, 2.0]), on_device([1, 1, 1])), "same size")])
def test_errors(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


def test_a_mask_of_another_shape():
    with pytest.raises(IndexError, match="mask"):
        on_device(np.ones((2, 3)))[on_device(np.ones((3, 2), bool))]

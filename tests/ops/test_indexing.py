"""tensor[index] and tensor[index] = value against NumPy, in every form and on both kinds of device."""
from __future__ import annotations

import numpy as np
import pytest

import lazy_tensor as lt
from xla_backend import metrics

DATA = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
MASK = DATA % 3 == 1
ROWS = np.array([True, False])

BASIC = {
    "int": 1, "negative int": -1, "ints": (1, 2), "all ints": (1, -1, 0), "slice": slice(0, 1), "step": (slice(None), slice(None, None, 2)),
    "negative bounds": (slice(None), slice(-2, None)), "past the end": (slice(None), slice(1, 99)), "empty": (slice(None), slice(2, 1)),
    "none": None, "ellipsis": Ellipsis, "ellipsis then int": (Ellipsis, 1), "none between": (slice(None), None, 1),
    "int ellipsis slice": (0, Ellipsis, slice(1, 3)),
}
ADVANCED = {
    "list": [1, 0, 1], "array": np.array([[0, 1], [1, 1]]), "negative": np.array([-1, 0]), "adjacent": (slice(None), [0, 2], [1, 3]),
    "separated": ([0, 1], slice(None), [1, 3]), "broadcast": (np.array([[0], [1]]), np.array([0, 2])), "none and list": (None, [1, 0]),
    "mask": MASK, "row mask": ROWS, "mask and slice": (ROWS, slice(1, 3)), "inner mask": (slice(None), np.array([True, False, True])),
    "list and slice": ([1, 0], slice(0, 2)), "empty list": [],
}


def _to_lt(index, device):
    """The same index with lt tensors for arrays."""
    if isinstance(index, tuple):
        return tuple(_to_lt(i, device) for i in index)
    return lt.tensor(index, device=device) if isinstance(index, np.ndarray) else index


def _np(index):
    if isinstance(index, tuple):
        return tuple(_np(i) for i in index)
    return np.array(index, np.int64) if isinstance(index, list) else index


@pytest.mark.parametrize("device", ["cpu", "xla"])
@pytest.mark.parametrize("name", [*BASIC, *ADVANCED])
def test_reads_as_numpy(name, device):
    index = {**BASIC, **ADVANCED}[name]
    got = lt.tensor(DATA, device=device)[_to_lt(index, device)]
    want = DATA[_np(index)]
    assert tuple(got.shape) == want.shape and got.dtype == lt.float32
    np.testing.assert_array_equal(got.cpu().numpy(), want)


@pytest.mark.parametrize("device", ["cpu", "xla"])
@pytest.mark.parametrize("name", [n for n in (*BASIC, *ADVANCED) if n != "list" and n != "array"])
def test_writes_as_numpy(name, device):
    """(Repeated indices are left out: which of several writes wins is not specified.)"""
    index = {**BASIC, **ADVANCED}[name]
    region = DATA[_np(index)]
    for value in (7, np.float64(0.5) + np.zeros(region.shape)):
        t, want = lt.tensor(DATA, device=device), DATA.copy()
        t[_to_lt(index, device)] = lt.tensor(value, device=device) if isinstance(value, np.ndarray) else value
        want[_np(index)] = value
        np.testing.assert_array_equal(t.cpu().numpy(), want)


def test_ints_beside_arrays_are_taken_first():
    """torch differs from NumPy here: x[0, :, [0, 1]] has the shape (3, 2)."""
    t = lt.tensor(DATA)
    assert tuple(t[0, :, [0, 1]].shape) == (3, 2)
    np.testing.assert_array_equal(t[0, :, [0, 1]].numpy(), DATA[0][:, [0, 1]])
    t[0, :, [0, 1]] = lt.tensor([[1.0, 2.0]] * 3)
    np.testing.assert_array_equal(t.numpy()[0, :, :2], [[1.0, 2.0]] * 3)
    np.testing.assert_array_equal(t.numpy()[1], DATA[1])


def test_basic_indices_alias_and_advanced_ones_copy():
    t = lt.zeros(3, 4)
    t[1, 1:3].fill_(5)
    assert t.sum().item() == 10
    t[[0, 2]].fill_(9)
    assert t.sum().item() == 10


def test_gradients_of_reads_and_writes():
    x = lt.tensor(DATA, requires_grad=True)
    (x[[0, 0, 1], 1].sum() + 3 * x[MASK].sum()).backward()
    want = 3.0 * MASK
    want[0, 1] += 2
    want[1, 1] += 1
    np.testing.assert_array_equal(x.grad.numpy(), want)
    y = lt.tensor(DATA, requires_grad=True)
    v = lt.ones(4, requires_grad=True)
    z = y * 1
    z[0, 1] = v
    z.sum().backward()
    assert y.grad[0, 1].sum().item() == 0 and y.grad.sum().item() == 20
    np.testing.assert_array_equal(v.grad.numpy(), np.ones(4))


@pytest.mark.parametrize("index,exc,words", [
    (5, IndexError, "index 5 is out of bounds for dimension 0 with size 2"),
    ((0, -4), IndexError, "index -4 is out of bounds for dimension 1 with size 3"),
    ((0, 0, 0, 0), IndexError, "too many indices for tensor of dimension 3"),
    (slice(None, None, -1), ValueError, "step must be greater than zero"),
    (np.array([True, False, True]), IndexError, "The shape of the mask"),
    (1.5, IndexError, "only integers, slices"),
    ((Ellipsis, Ellipsis), IndexError, "single ellipsis"),
])
def test_wrong_indices_say_what_is_wrong(index, exc, words):
    with pytest.raises(exc, match=words):
        lt.tensor(DATA)[_to_lt(index, "cpu")]


def test_an_index_array_out_of_bounds_raises_on_the_host():
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 1 with size 3"):
        lt.tensor(DATA)[:, [5]]
    with pytest.raises(RuntimeError, match="index 5 is out of bounds for dimension 0 with size 3"):
        lt.zeros(3).gather(0, lt.tensor([5]))
    with pytest.raises(RuntimeError, match=r"value tensor of shape \[4\] cannot be broadcast to indexing result of shape \[2, 3\]"):
        lt.zeros(3, 3)[[0, 1]] = lt.zeros(4)


def test_a_moving_start_does_not_recompile():
    t = lt.arange(64, device="xla") * 1
    lt.sync()
    for i in range(4):
        assert t[i:i + 8].sum().item() == 8 * i + 28
    before = metrics.counter("compiles")
    for i in range(4, 20):
        assert t[i:i + 8].sum().item() == 8 * i + 28
    assert metrics.counter("compiles") == before

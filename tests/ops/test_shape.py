"""Views alias, joins promote, scatters and data-dependent ops: against NumPy and by identities."""
from __future__ import annotations

import numpy as np
import pytest

import lazy_tensor as lt

A = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

SAME = {
    "transpose": (lambda t: t.transpose(0, 2), lambda a: a.swapaxes(0, 2)),
    "permute": (lambda t: t.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "movedim": (lambda t: lt.movedim(t, (0, 1), (2, 0)), lambda a: np.moveaxis(a, (0, 1), (2, 0))),
    "mT": (lambda t: t.mT, lambda a: a.swapaxes(-1, -2)),
    "flatten": (lambda t: t.flatten(1), lambda a: a.reshape(2, 12)),
    "unflatten": (lambda t: t.unflatten(2, (2, -1)), lambda a: a.reshape(2, 3, 2, 2)),
    "squeeze": (lambda t: t.unsqueeze(1).squeeze(1), lambda a: a),
    "select": (lambda t: t.select(1, -1), lambda a: a[:, -1]),
    "narrow": (lambda t: t.narrow(2, 1, 2), lambda a: a[:, :, 1:3]),
    "diagonal": (lambda t: t.diagonal(1, 1, 2), lambda a: a.diagonal(1, 1, 2)),
    "unfold": (lambda t: t.unfold(2, 2, 1), lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, 2)),
    "split": (lambda t: t.split(2, 1)[1], lambda a: a[:, 2:]),
    "chunk": (lambda t: t.chunk(3, 2)[1], lambda a: a[:, :, 2:4]),
    "unbind": (lambda t: t.unbind(1)[2], lambda a: a[:, 2]),
}


@pytest.mark.parametrize("device", ["cpu", "xla"])
@pytest.mark.parametrize("name", SAME)
def test_views_read_as_numpy_and_write_to_their_base(name, device):
    view, want = SAME[name]
    t = lt.tensor(A, device=device)
    v = view(t)
    np.testing.assert_array_equal(v.cpu().numpy(), want(A))
    v.fill_(-1)
    b = A.copy()
    touched = np.isin(A, want(A))
    b[touched] = -1
    np.testing.assert_array_equal(t.cpu().numpy(), b)


def test_a_view_that_needs_a_copy_is_refused():
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        lt.tensor(A).transpose(0, 1).view(-1)
    with pytest.raises(RuntimeError, match="is invalid for input of size 24"):
        lt.tensor(A).view(5, -1)


def test_cat_promotes_and_skips_the_legacy_empty():
    r = lt.cat([lt.tensor([1, 2]), lt.tensor([]), lt.tensor([0.5], dtype=lt.float64)])
    assert r.dtype == lt.float64 and r.tolist() == [1, 2, 0.5]
    with pytest.raises(RuntimeError, match="Sizes of tensors must match except in dimension 0"):
        lt.cat([lt.zeros(2, 3), lt.zeros(2, 4)])


def test_gather_inverts_scatter():
    i = lt.tensor([[2, 0, 1], [1, 2, 0]])
    x = lt.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert lt.zeros(2, 3).scatter(1, i, x).gather(1, i).tolist() == x.tolist()


@pytest.mark.parametrize("reduce,include,want", [
    ("sum", True, [5.0, 10.0]), ("sum", False, [4.0, 8.0]), ("mean", True, [5 / 3, 10 / 3]), ("mean", False, [2.0, 4.0]),
    ("prod", True, [3.0, 30.0]), ("amax", True, [3.0, 5.0]), ("amin", False, [1.0, 3.0])])
def test_scatter_reduce(reduce, include, want):
    r = lt.tensor([1.0, 2.0]).scatter_reduce(0, lt.tensor([0, 0, 1, 1]), lt.tensor([1.0, 3.0, 3.0, 5.0]), reduce, include_self=include)
    np.testing.assert_allclose(r.numpy(), want, rtol=1e-6)


def test_data_dependent_ops_agree_with_numpy():
    a = np.array([[3, 0, 3], [0, 1, 1]])
    t = lt.tensor(a)
    np.testing.assert_array_equal(lt.nonzero(t).numpy(), np.argwhere(a))
    np.testing.assert_array_equal(lt.masked_select(t, t > 0).numpy(), a[a > 0])
    v, inverse, counts = lt.unique(t, return_inverse=True, return_counts=True)
    w = np.unique(a, return_inverse=True, return_counts=True)
    for got, want in zip((v, inverse, counts), w, strict=True):
        np.testing.assert_array_equal(got.numpy().reshape(-1), want.reshape(-1))
    assert lt.unique_consecutive(lt.tensor([1, 1, 2, 1])).tolist() == [1, 2, 1]
    assert lt.repeat_interleave(lt.tensor([5, 6]), lt.tensor([2, 1])).tolist() == [5, 5, 6]


def test_masked_select_has_a_gradient():
    x = lt.tensor([1.0, -2.0, 3.0], requires_grad=True)
    (lt.masked_select(x, x > 0) ** 2).sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 6.0]


def test_masked_reductions_leave_masked_elements_out():
    x, m = lt.tensor([[1.0, 2.0, 9.0], [4.0, 9.0, 9.0]]), lt.tensor([[True, True, False], [True, False, False]])
    assert lt.masked.sum(x, 1, mask=m).tolist() == [3, 4]
    assert lt.masked.mean(x, 1, mask=m).tolist() == [1.5, 4]
    assert lt.masked.amax(x, 1, mask=m).tolist() == [2, 4]
    assert lt.masked.var(x, 1, unbiased=False, mask=m).tolist() == [0.25, 0]
    np.testing.assert_allclose(lt.masked.softmax(x, 1, mask=m).sum(1).numpy(), [1, 1], rtol=1e-6)


@pytest.mark.parametrize("args,dtype,want", [
    ((5,), "int64", [0, 1, 2, 3, 4]), ((5, 0, -2), "int64", [5, 3, 1]), ((0.0, 1, 0.25), "float32", [0, 0.25, 0.5, 0.75])])
def test_arange(args, dtype, want):
    r = lt.arange(*args)
    assert r.dtype == getattr(lt, dtype) and r.tolist() == want

"""Writes through views (dtype, complex, overlapping, expanded): what torch 2.13 gives for the same lines."""
from __future__ import annotations

import gc
import weakref

import pytest

import lazy_tensor as lt

MULTIPLE = "more than one element of the written-to tensor"


def test_writes_through_a_dtype_view_are_of_bits():
    f = lt.ones(2)
    f.view(lt.int32)[0] = 0
    assert f.tolist() == [0, 1]
    f = lt.ones(4)
    f.view(lt.int16)[0] = 0
    assert list(f.shape) == [4] and f.tolist() == [1, 1, 1, 1]
    f.view(lt.uint8)[3] = 0x40
    assert f.tolist() == [4, 1, 1, 1]
    g = lt.ones(2, dtype=lt.int32)
    g.view(lt.float32).fill_(1.0)
    assert g.tolist() == [1065353216] * 2
    h = lt.ones(2).half()
    h.view(lt.int16).add_(1)
    assert h.tolist() == [1.0009765625] * 2


def test_writes_through_complex_views():
    c = lt.zeros(2, dtype=lt.complex64)
    c.real.add_(1)
    c.imag[0] = 5
    assert c.tolist() == [1 + 5j, 1]
    lt.view_as_real(c).mul_(2)
    assert c.tolist() == [2 + 10j, 2]
    r = lt.zeros(2, 2)
    lt.view_as_complex(r).add_(1 + 2j)
    assert r.tolist() == [[1, 2], [1, 2]]


def test_gradient_of_a_write_through_real():
    x = lt.ones(2, requires_grad=True)
    c = lt.complex(x, x).clone()
    c.real.mul_(3)
    lt.view_as_real(c).sum().backward()
    assert x.grad.tolist() == [4, 4]


def test_a_write_through_overlapping_windows_reaches_every_window():
    b = lt.ones(2, 3)
    b.unfold(1, 2, 1)[0, 0] = 3
    assert b.tolist() == [[3, 3, 1], [1, 1, 1]]
    b = lt.arange(4.0)
    b.as_strided((3, 2), (1, 1))[0, 1] = 9
    assert b.tolist() == [0, 9, 2, 3]
    b = lt.arange(5.0)
    b.unfold(0, 3, 1)[:, 0].mul_(2)
    assert b.tolist() == [0, 2, 4, 3, 4]


def test_gradient_through_a_write_to_an_overlapping_window():
    x = lt.arange(4.0).requires_grad_()
    y = x.clone()
    y.unfold(0, 2, 1)[1].mul_(3)
    y.sum().backward()
    assert y.tolist() == [0, 3, 6, 3] and x.grad.tolist() == [1, 3, 3, 1]


def test_writes_to_views_of_an_expanded_tensor_take_effect():
    b = lt.zeros(3)
    e = b.expand(2, 3)
    e[0].add_(1)
    assert b.tolist() == [1, 1, 1] and e.tolist() == [[1, 1, 1]] * 2
    b = lt.zeros(3)
    b.unsqueeze(0).expand(4, 3)[2].fill_(7)
    assert b.tolist() == [7, 7, 7]
    x = lt.zeros(3, 1).expand(3, 4)
    x[0, 0] = 5.0
    assert x.tolist() == [[5] * 4, [0] * 4, [0] * 4]


def test_an_expanded_tensor_takes_fills_and_refuses_other_writes():
    x = lt.zeros(3, 1).expand(3, 4)
    x.fill_(2)
    assert x.tolist() == [[2] * 4] * 3
    x.zero_()
    assert x.tolist() == [[0] * 4] * 3
    for write in (lambda: x.add_(1), lambda: x.copy_(lt.ones(3, 4)), lambda: lt.add(lt.ones(3, 4), 1, out=x)):
        with pytest.raises(RuntimeError, match=MULTIPLE):
            write()
    assert x.tolist() == [[0] * 4] * 3


def test_detach_in_place_of_a_view_raises():
    y = lt.ones(3, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        y[0:1].detach_()


@pytest.mark.parametrize("leaf", [True, False])
def test_a_hook_may_not_change_the_shape(leaf):
    x = lt.ones(3, requires_grad=True)
    y = x * 2
    (x if leaf else y).register_hook(lambda g: lt.ones(5))
    with pytest.raises(RuntimeError, match="has changed the size of value"):
        y.sum().backward()


def test_views_keep_the_old_storage_when_data_is_replaced():
    b = lt.zeros(2, 2)
    v, d = b[0], b.detach()
    b.data = lt.ones(2, 2)
    v.add_(5)
    assert b.tolist() == [[1, 1], [1, 1]] and v.tolist() == [5, 5] and d.tolist() == [[5, 5], [0, 0]]
    w = v[1:]
    w.mul_(2)
    assert v.tolist() == [5, 10] and d.tolist() == [[5, 10], [0, 0]]
    b.add_(1)
    assert b.tolist() == [[2, 2], [2, 2]] and v.tolist() == [5, 10]


def test_replacing_data_gives_the_old_memory_up_at_once():
    p = lt.nn.Parameter(lt.ones(4, device="xla"))
    gc.disable()
    try:
        for _ in range(3):
            old = weakref.ref(p._v)
            p.data = p.data.clamp(0, 0.5)
            lt.sync()
            assert old() is None
    finally:
        gc.enable()


def test_a_complex_number_does_not_go_into_a_real_tensor():
    x = lt.ones(2, 2)
    for index in ((0, 0), lt.tensor([True, False])):
        with pytest.raises(RuntimeError, match="cannot be converted to type"):
            x[index] = 1j
    x[0, 0] = 2 + 0j
    assert x.tolist() == [[2, 1], [1, 1]]


@pytest.mark.parametrize(("p", "training"), [(0.5, False), (0.0, True)])
def test_dropout_that_drops_nothing_gives_its_input(p, training):
    x = lt.ones(2, requires_grad=True)
    assert lt.nn.functional.dropout(x, p, training) is x

"""nn.utils.parametrize: which object is where, what is refused (behaviour of torch 2.13)."""
from __future__ import annotations

import copy
import pickle
import threading

import pytest

import lazy_tensor as lt
from lazy_tensor import nn
from lazy_tensor.nn.utils import parametrizations, parametrize
from lazy_tensor.nn.utils.parametrize import register_parametrization


class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).mT

    def right_inverse(self, A):
        return A.triu()


class Negative(nn.Module):
    def forward(self, X):
        return -X


class Halves(nn.Module):
    def forward(self, a, b):
        return a + b

    def right_inverse(self, X):
        return X / 2, X / 2


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, X):
        self.calls += 1
        return X * 2


def made(forward, right_inverse=None):
    """A parametrization of two functions."""
    body = {"forward": lambda self, *x: forward(*x)}
    if right_inverse is not None:
        body["right_inverse"] = lambda self, x: right_inverse(x)
    return type("Made", (nn.Module,), body)()


def test_the_parameter_object_stays_the_same_from_registration_to_removal():
    m = nn.Linear(3, 3)
    w = m.weight
    opt = lt.optim.SGD(m.parameters(), lr=1.0)
    register_parametrization(m, "weight", Symmetric())
    assert m.parametrizations.weight.original is w and isinstance(m, nn.Linear) and type(m).__name__ == "ParametrizedLinear"
    m.weight = lt.ones(3, 3)
    m.weight.sum().backward()
    opt.step()
    assert m.weight.tolist() == [[0, -1, -1], [-1, 0, -1], [-1, -1, 0]]
    parametrize.remove_parametrizations(m, "weight")
    assert m.weight is w and type(m) is nn.Linear and w.tolist() == [[0, -1, -1], [-1, 0, -1], [-1, -1, 0]]
    assert set(m.state_dict()) == {"weight", "bias"}


def test_removal_without_the_parametrized_value_gives_the_original_back():
    m = nn.Linear(3, 3)
    w, before = m.weight, m.weight.tolist()
    register_parametrization(m, "weight", Negative())
    assert m.weight.tolist() == [[-v for v in row] for row in before]
    parametrize.remove_parametrizations(m, "weight", leave_parametrized=False)
    assert m.weight is w and w.tolist() == before


def test_several_originals_are_parameters_and_a_buffer_stays_a_buffer():
    m = register_parametrization(nn.Linear(2, 2), "weight", Halves())
    assert [n for n, _ in m.named_parameters()] == ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]
    m.weight = lt.ones(2, 2)
    assert m.parametrizations.weight.original1.tolist() == [[0.5, 0.5]] * 2
    with pytest.raises(ValueError, match="leave_parametrized=False"):
        parametrize.remove_parametrizations(m, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(m, "weight")
    assert isinstance(m.weight, nn.Parameter) and m.weight.tolist() == [[1, 1], [1, 1]]
    n = nn.BatchNorm1d(3)
    register_parametrization(n, "running_var", made(lambda x: x.exp(), lambda x: x.log()))
    n(lt.randn(4, 3))
    parametrize.remove_parametrizations(n, "running_var")
    assert "running_var" in dict(n.named_buffers())


def test_cached_computes_once_and_only_in_its_thread():
    count = Counting()
    m = register_parametrization(nn.Linear(2, 2), "weight", count)
    count.calls, seen = 0, []

    def other():
        with parametrize.cached():
            seen.append(m.weight)
    with parametrize.cached():
        a = m.weight
        with parametrize.cached():
            assert m.weight is a
        assert m.weight is a and count.calls == 1
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert seen[0] is not a and count.calls == 2
        assert m.weight is a  # the other thread's end has not emptied this one's
    assert m.weight is not a and count.calls == 3


def test_copies_have_their_own_class_and_pickling_says_why_not():
    m = register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    n = copy.deepcopy(m)
    assert type(n) is type(m) and n.weight.tolist() == m.weight.tolist()
    assert n.parametrizations.weight.original is not m.parametrizations.weight.original
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(m)


def test_transfer_shares_parametrizations_and_originals():
    a = register_parametrization(register_parametrization(nn.Linear(3, 3), "weight", Symmetric()), "weight", Negative())
    b = parametrize.transfer_parametrizations_and_params(a, nn.Linear(3, 3))
    assert b.parametrizations.weight.original is a.parametrizations.weight.original
    assert list(b.parametrizations.weight) == list(a.parametrizations.weight) and b.weight.tolist() == a.weight.tolist()
    c = nn.Linear(3, 3)
    assert parametrize.transfer_parametrizations_and_params(nn.Linear(3, 3), c) is c and not parametrize.is_parametrized(c)
    d = parametrize.transfer_parametrizations_and_params(register_parametrization(nn.Linear(2, 2), "weight", Halves()), nn.Module())
    assert d.weight.shape == (2, 2) and d.parametrizations.weight.ntensors == 2


def test_weight_norm_loads_the_state_of_its_hook_form():
    old = nn.utils.weight_norm(nn.Linear(2, 3))
    new = parametrizations.weight_norm(nn.Linear(2, 3))
    new.load_state_dict(old.state_dict())
    x = lt.randn(4, 2)
    assert (new(x) - old(x)).abs().max().item() < 1e-6


LONG = made(lambda x: lt.cat([x, x]))
TEXT_INVERSE = made(lambda x: x, lambda x: "x")
DOUBLE_INVERSE = made(lambda x: x, lambda x: x.double())
SECOND = "unless the `unsafe` flag"


@pytest.mark.parametrize(("p", "first", "further"), [
    (made(lambda x: x.double()), "may not change the dtype .*unless `unsafe` flag", f"may not change the dtype .*{SECOND}"),
    (LONG, "may not change the shape .*unless `unsafe` flag", f"may not change the shape .*{SECOND}"),
    (made(lambda x: 3), "must return a tensor. Got int", "must return a tensor. Got int"),
    (TEXT_INVERSE, "Got element 0 of the sequence with type str", "right_inverse must return a tensor. Got: str"),
    (DOUBLE_INVERSE, "outputs one tensor, it may not change the dtype", f"must have the same dtype as module.weight, {SECOND}"),
    (made(lambda x: x, lambda x: lt.cat([x, x])), "may not change the shape", f"must have the same shape as module.weight, {SECOND}"),
    (made(lambda x: x[0], lambda x: [x, 3]), "Got element 1 of the sequence with type int", f"may not change the shape .*{SECOND}"),
])
def test_a_parametrization_that_does_not_fit_is_refused_first_and_further(p, first, further):
    with pytest.raises(ValueError, match=first):
        register_parametrization(nn.Linear(3, 3), "weight", p)
    m = register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    with pytest.raises(ValueError, match=further):
        register_parametrization(m, "weight", p)
    assert len(m.parametrizations.weight) == 1
    assert len(register_parametrization(m, "weight", p, unsafe=True).parametrizations.weight) == 2


def test_assignment_checks_what_right_inverse_gives():
    answers = iter([lambda x: [x, x], lambda x: [x], lambda x: x, lambda x: [x, x.double()]])
    m = register_parametrization(nn.Linear(2, 2), "weight", made(lambda a, b: a, lambda x: next(answers)(x)))
    for text in ("of length 2. Got a sequence of length 1", "must return a sequence of tensors. Got Tensor",
                 "Tensor 1 returned by `right_inverse` has dtype .*float64"):
        with pytest.raises(ValueError, match=text):
            m.weight = lt.ones(2, 2)
    n = register_parametrization(nn.Linear(2, 2), "weight", Negative())
    with pytest.raises(RuntimeError, match="Negative does not implement right_inverse"):
        n.weight = lt.ones(2, 2)
    with pytest.raises(ValueError, match="does not have a parametrization on bias"):
        parametrize.remove_parametrizations(n, "bias")
    with pytest.raises(ValueError, match="with name 'nope'"):
        register_parametrization(n, "nope", Negative())

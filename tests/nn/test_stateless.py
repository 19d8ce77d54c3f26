"""functional_call: which tensors take part, what comes back, what is refused (behaviour of torch 2.13)."""
from __future__ import annotations

import pytest

import lazy_tensor as lt
from lazy_tensor import nn
from lazy_tensor.func import functional_call


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(lt.ones(2))
        self.b = self.a
        self.lin = nn.Linear(2, 2)
        self.register_buffer("c", None)

    def forward(self, x, *, k=1):
        return self.a + self.b * 10 + k


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", lt.zeros(1))

    def forward(self, anew):
        if anew:
            self.n = self.n + 1
        else:
            self.n.add_(1)
        return self.n


X, ZERO, ONE = lt.ones(1, 2), lt.zeros(2), lt.ones(2)


@pytest.mark.parametrize(("given", "options", "want"), [
    ({"a": ZERO}, {}, [1, 1]), ({"a": ZERO}, {"tie_weights": False}, [11, 11]), ({"a": ZERO}, {"kwargs": {"k": 5}}, [5, 5]),
    ({"a": ZERO, "b": ONE}, {"tie_weights": False}, [11, 11]), ([{"a": ZERO}, {"lin.bias": ZERO}], {}, [1, 1]), ({"c": ZERO}, {}, [12, 12]),
])
def test_values_are_replaced_for_one_call_only(given, options, want):
    m = Tied()
    a, lin = m.a, m.lin.bias
    assert functional_call(m, given, (X,), **options).tolist() == want
    assert m.a is a and m.b is a and m.lin.bias is lin and m.c is None and list(m.state_dict()) == ["a", "b", "lin.weight", "lin.bias"]


@pytest.mark.parametrize("anew", [False, True])
def test_a_buffer_that_the_call_changes_is_in_the_dict_afterwards(anew):
    m, d = Counter(), {"n": lt.ones(1)}
    assert functional_call(m, d, (anew,)).tolist() == [2.0]
    assert d["n"].tolist() == [2.0] and m.n.tolist() == [0.0]


def test_a_name_that_the_module_lacks_is_an_attribute_during_the_call():
    seen = []

    class Asks(nn.Module):
        def forward(self):
            seen.append(self.extra.tolist())
    m = Asks()
    functional_call(m, {"extra": lt.ones(2)})
    assert seen == [[1.0, 1.0]] and not hasattr(m, "extra")


def test_the_module_is_as_before_after_an_error_too():
    m = Tied()
    a = m.a
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        functional_call(m, {"a": ZERO})
    assert m.a is a


@pytest.mark.parametrize(("given", "options", "exc", "text"), [
    ({"a": ZERO, "b": ONE}, {}, ValueError, r"multiple values for keys \['a', 'b'\], which are tied"),
    ([{"a": ZERO}, {"a": ZERO}], {}, ValueError, r"\['a'\] appeared in multiple dictionaries"),
    (3, {}, ValueError, "to be a dict, or a list/tuple of dicts"),
    ([3], {}, ValueError, "all elements .* to be dictionaries"),
    ({"nope.a": ZERO}, {}, AttributeError, "Tied has no attribute `nope`"),
    ({"a": 3}, {}, TypeError, "3 is not an instance of torch.Tensor"),
    ({"training": ZERO}, {}, TypeError, "attribute `training`"),
    ({"": ZERO}, {}, KeyError, "empty string"),
    ({"a": ZERO, "z": ZERO}, {"strict": True}, RuntimeError, r"(?s)Unexpected key\(s\): 'z'.*Missing key\(s\): 'lin.bias', 'lin.weight'"),
])
def test_what_does_not_fit_is_refused(given, options, exc, text):
    with pytest.raises(exc, match=text):
        functional_call(Tied(), given, (X,), **options)

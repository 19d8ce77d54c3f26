"""lazy_tensor.overrides: what is here, what of torch's names is not, and errors that name the nearest."""
from __future__ import annotations

import pytest

import lazy_tensor as lt
from lazy_tensor import overrides
from lazy_tensor._torch_names import NAMES

# Names of the most used namespaces that may stay missing; anything else missing there is a gap.
KNOWN = {"linalg": {"common_notes"}, "fft": {"Tensor"}, "special": set(), "nn": {"Container", "LinearCrossEntropyOptions", "factory_kwargs"},
         "nn.init": set(), "optim.lr_scheduler": set(), "signal.windows": set(), "autograd.functional": set(), "nn.utils": set(), "nn.utils.rnn": set()}


def test_what_is_listed_missing_is_missing_and_nothing_else():
    gaps = overrides.missing()
    for path, names in gaps.items():
        home = overrides._module(path)
        assert not [n for n in names if home is not None and hasattr(home, n)]
        assert set(names) <= set(NAMES[path])
    for path in ("", "Tensor", "nn.functional"):
        home = overrides._module(path)
        assert all(hasattr(home, n) for n in set(NAMES[path]) - set(gaps.get(path, ())))
    assert overrides.missing("torch.nn.functional") == {"nn.functional": gaps["nn.functional"]} and "conv2d" not in gaps["nn.functional"]
    assert overrides.missing("torch") == {"": gaps[""]}
    with pytest.raises(ValueError, match="no list of torch.nonsense"):
        overrides.missing("nonsense")


@pytest.mark.parametrize("path", list(KNOWN))
def test_namespaces_that_are_whole(path):
    assert set(overrides.missing(path).get(path, ())) <= KNOWN[path]


@pytest.mark.parametrize("name,there", [("torch.nn.functional.conv5d", "nn.functional.conv3d"), ("Tensor.unsqeeze", "Tensor.unsqueeze"), ("nn.det", "linalg.det"),
                                        ("torch.lograngespace", "logspace"), ("optim.Adan", "optim.Adam")])
def test_nearest(name, there):
    near = overrides.nearest(name)
    assert there in near and len(near) <= 5
    for n in near:
        at = lt
        for part in n.split("."):
            at = getattr(at, part)


@pytest.mark.parametrize("home,name,there", [(lt, "unsqeeze", "unsqueeze"), (lt.nn.functional, "conv5d", "conv3d"), (lt.linalg, "choleski", "cholesky"),
                                             (lt.fft, "ffft", "fft"), (lt.special, "erff", "erf")])
def test_a_missing_function_names_the_nearest(home, name, there):
    with pytest.raises(AttributeError, match=rf"no attribute '{name}'.*{there}"):
        getattr(home, name)


def test_functions_by_namespace():
    by = overrides.get_overridable_functions()
    assert lt.add in by[lt] and lt.nn.functional.relu in by[lt.nn.functional] and lt.Tensor.add_ in by[lt.Tensor]
    assert lt.zeros not in by[lt] and lt.zeros in overrides.get_ignored_functions()
    dummy = overrides.get_testing_overrides()
    assert dummy[lt.add](1, other=2) == -1 and set(dummy) == {f for fs in by.values() for f in fs}


@pytest.mark.parametrize("fn,name", [(lt.add, "torch.add"), (lt.nn.functional.relu, "torch.nn.functional.relu"), (lt.linalg.svd, "torch.linalg.svd"),
                                     (lt.Tensor.fill_diagonal_, "torch.Tensor.fill_diagonal_"), (len, None)])
def test_resolve_name(fn, name):
    assert overrides.resolve_name(fn) == name


class Like:
    answers = True

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return (cls.__name__, func.__name__, len(types), args[1:], kwargs) if cls.answers else NotImplemented


class Sub(Like):
    pass


class Silent(Like):
    answers = False


def test_tensor_likes_are_asked_subclasses_first():
    @overrides.wrap_torch_function(lambda a, b=None, **kw: (a, b))
    def double(a, b=None, **kw):
        return a * 2

    assert overrides.is_tensor_like(Like()) and overrides.is_tensor_like(lt.ones(1)) and not overrides.is_tensor_like(3)
    assert overrides.has_torch_function((Like(), 1)) and not overrides.has_torch_function((lt.ones(1), 1))
    assert double(3) == 6 and double(lt.ones(1)).item() == 2
    b = Sub()
    assert double(Like(), b, k=1) == ("Sub", "double", 2, (b,), {"k": 1})
    assert double(Silent(), Like())[0] == "Like"
    with pytest.raises(TypeError, match="no implementation found for .*double.*Silent"):
        double(Silent())

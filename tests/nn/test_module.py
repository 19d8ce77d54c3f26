"""Modules: registration, state dicts, hooks, moves."""
from __future__ import annotations

import copy
import pickle

import pytest

import lazy_tensor as lt
from lazy_tensor import nn


def model():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2, bias=False))


def test_state_dict_keys_are_in_torchs_order():
    keys = ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked", "2.weight"]
    assert list(model().state_dict()) == keys


def test_load_state_dict_names_what_is_missing_unexpected_and_misshaped():
    m, state = model(), model().state_dict()
    assert repr(m.load_state_dict(state)) == "<All keys matched successfully>"
    state["9.weight"] = state.pop("2.weight")
    state["0.weight"] = lt.zeros(1, 1)
    with pytest.raises(RuntimeError) as e:
        m.load_state_dict(state)
    assert 'Missing key(s) in state_dict: "2.weight". ' in str(e.value)
    assert 'Unexpected key(s) in state_dict: "9.weight". ' in str(e.value)
    assert "size mismatch for 0.weight: copying a param with shape torch.Size([1, 1]) from checkpoint" in str(e.value)


def test_copies_and_pickles_are_independent_and_equal():
    m = model()
    for c in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert c[0].weight is not m[0].weight and c[0].weight.tolist() == m[0].weight.tolist()
        assert isinstance(c[0].weight, nn.Parameter) and c[0].weight.requires_grad


def test_full_backward_hook_sees_and_replaces_gradients():
    m, seen = nn.Linear(2, 1, bias=False), []
    nn.init.constant_(m.weight, 3.0)

    def hook(mod, gi, go):
        seen.append((gi[0].tolist(), go[0].tolist()))
        return (gi[0] * 2,)
    handle = m.register_full_backward_hook(hook)
    x = lt.ones(1, 2, requires_grad=True)
    m(x).sum().backward()
    assert seen == [([[3.0, 3.0]], [[1.0]])] and x.grad.tolist() == [[6.0, 6.0]]
    handle.remove()
    m(x).sum().backward()
    assert len(seen) == 1


def test_lazy_linear_becomes_linear():
    m = nn.LazyLinear(4)
    assert m(lt.ones(2, 3)).shape == (2, 4) and type(m) is nn.Linear and m.weight.shape == (4, 3)

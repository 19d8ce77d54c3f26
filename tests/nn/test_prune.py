"""nn.utils.prune: masks that torch 2.13 gives for the same weights, properties of the random methods, errors."""
from __future__ import annotations

import pytest

import lazy_tensor as lt
from lazy_tensor import nn
from lazy_tensor.nn.utils import prune

WEIGHT = [[1.0, -2.0, 3.0, -4.0], [5.0, 6.0, -7.0, 8.0], [0.5, 0.25, -0.125, 1.0]]


def layer():
    m = nn.Linear(4, 3)
    with lt.no_grad():
        m.weight.copy_(lt.tensor(WEIGHT))
    return m


def test_methods_on_one_tensor_follow_each_other_on_what_is_left():
    m = layer()
    prune.l1_unstructured(m, "weight", 3)
    assert m.weight_mask.tolist() == [[1, 1, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1]]
    assert list(m.state_dict()) == ["bias", "weight_orig", "weight_mask"] and [n for n, _ in m.named_parameters()] == ["bias", "weight_orig"]
    prune.ln_structured(m, "weight", 1, 2, 1)
    assert m.weight_mask.tolist() == [[0, 1, 1, 1], [0, 1, 1, 1], [0, 0, 0, 1]]
    prune.l1_unstructured(m, "weight", 0.5)
    assert m.weight_mask.tolist() == [[0, 0, 0, 0], [0, 1, 1, 1], [0, 0, 0, 0]]
    (hook,) = m._forward_pre_hooks.values()
    assert isinstance(hook, prune.PruningContainer)
    assert [type(h) for h in hook] == [prune.L1Unstructured, prune.LnStructured, prune.L1Unstructured]


def test_the_gradient_reaches_the_original_through_the_mask_and_remove_makes_it_permanent():
    m = layer()
    prune.l1_unstructured(m, "weight", 3)
    mask = m.weight_mask.tolist()
    assert prune.is_pruned(nn.Sequential(m))
    m(lt.ones(1, 4)).sum().backward()
    assert m.weight_orig.grad.tolist() == mask
    with lt.no_grad():
        m.weight_orig.add_(100.0)
    m(lt.ones(1, 4))  # the hook takes the new values
    assert m.weight.tolist()[2] == [0.0, 0.0, 0.0, 101.0]
    orig = m.weight_orig
    prune.remove(m, "weight")
    assert m.weight is orig and isinstance(m.weight, nn.Parameter) and m.weight.tolist()[2] == [0.0, 0.0, 0.0, 101.0]
    assert not prune.is_pruned(m) and list(m.state_dict()) == ["bias", "weight"]


def test_importance_scores_decide_in_place_of_the_values():
    m = layer()
    scores = lt.arange(12.0).reshape(3, 4)
    prune.l1_unstructured(m, "weight", 2, importance_scores=scores)
    assert m.weight_mask.reshape(-1).tolist() == [0, 0] + [1] * 10
    m = layer()
    prune.ln_structured(m, "weight", 2, 1, dim=0, importance_scores=scores.flip(0))
    assert m.weight_mask.tolist() == [[1] * 4, [0] * 4, [0] * 4]


def test_global_pruning_ranks_all_tensors_together_and_again_on_top():
    a, b = layer(), layer()
    with lt.no_grad():
        a.weight.copy_(lt.arange(12.0).reshape(3, 4) - 3)
        b.weight.copy_(lt.arange(12.0).reshape(3, 4) / 2)
    both = [(a, "weight"), (b, "weight")]
    prune.global_unstructured(both, prune.L1Unstructured, amount=0.4)
    assert a.weight_mask.tolist() == [[1, 0, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]]
    assert b.weight_mask.tolist() == [[0, 0, 0, 0], [0, 1, 1, 1], [1, 1, 1, 1]]
    prune.global_unstructured(both, prune.L1Unstructured, importance_scores={both[0]: lt.full((3, 4), 0.1)}, amount=5)
    assert (a.weight_mask.sum().item(), b.weight_mask.sum().item()) == (2, 7)


def test_random_methods_prune_the_asked_number_and_a_seed_repeats_them():
    def masks(seed):
        lt.manual_seed(seed)
        a, b = nn.Linear(10, 8), nn.Conv2d(4, 6, 3)
        prune.random_unstructured(a, "weight", 0.25)
        prune.random_structured(b, "weight", 2, dim=1)
        return a.weight_mask, b.weight_mask
    a, b = masks(0)
    assert (a == 0).sum().item() == 20
    per_channel = b.sum((0, 2, 3)).tolist()
    assert sorted(per_channel) == [0.0, 0.0, 54.0, 54.0]
    assert masks(0)[0].tolist() == a.tolist() and masks(1)[0].tolist() != a.tolist()


def test_identity_prepares_a_module_for_a_pruned_state_dict():
    a, b = layer(), nn.Linear(4, 3)
    prune.l1_unstructured(a, "weight", 0.5)
    prune.identity(b, "weight")
    assert b.weight_mask.tolist() == [[1.0] * 4] * 3
    b.load_state_dict(a.state_dict())
    x = lt.randn(2, 4)
    assert b(x).tolist() == a(x).tolist()


def test_prune_works_on_a_bare_tensor_and_custom_masks_multiply():
    t, mask = lt.arange(-2.0, 4.0), lt.tensor([1.0, 0, 1, 1, 1, 1])
    assert prune.L1Unstructured(2).prune(t, default_mask=mask).tolist() == [-2, 0, 0, 1, 2, 3]
    m = layer()
    prune.custom_from_mask(m, "weight", lt.eye(3, 4))
    prune.custom_from_mask(m, "weight", lt.tensor([[0.0], [1.0], [1.0]]).expand(3, 4))
    assert m.weight.tolist() == [[0, 0, 0, 0], [0, 6, 0, 0], [0, 0, -0.125, 0]]


@pytest.mark.parametrize(("call", "exc", "text"), [
    (lambda m: prune.l1_unstructured(m, "weight", -1), ValueError, "amount=-1 should either be a float in the range"),
    (lambda m: prune.l1_unstructured(m, "weight", 1.5), ValueError, "amount=1.5"),
    (lambda m: prune.random_unstructured(m, "weight", "a"), TypeError, "Invalid type for amount: a"),
    (lambda m: prune.l1_unstructured(m, "weight", 100), ValueError, "amount=100 should be smaller than .*=12"),
    (lambda m: prune.ln_structured(m, "bias", 1, 2, 0), ValueError, "multidimensional tensors"),
    (lambda m: prune.random_structured(m, "weight", 1, 5), IndexError, "Invalid index 5"),
    (lambda m: prune.remove(m, "weight"), ValueError, "has to be pruned before"),
    (lambda m: prune.global_unstructured([(m, "weight")], prune.LnStructured, amount=1, n=1), TypeError, "Only \"unstructured\""),
    (lambda m: prune.global_unstructured([(m, "weight")], prune.L1Unstructured, importance_scores=3, amount=1), TypeError, "type dict"),
    (lambda m: prune.custom_from_mask(m, "weight", lt.ones(2)), AssertionError, r"\[2\]; \[3, 4\]"),
    (lambda m: prune.l1_unstructured(m, "weight", 1, lt.ones(2)), AssertionError, "importance_scores should have the same shape"),
])
def test_a_refused_call_leaves_the_module_as_it_was(call, exc, text):
    m = layer()
    with pytest.raises(exc, match=text):
        call(m)
    assert m.weight.tolist() == WEIGHT and set(m.state_dict()) == {"weight", "bias"} and not m._forward_pre_hooks

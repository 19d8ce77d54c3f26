"""Initialisers and nn.utils."""
from __future__ import annotations

import pytest

import lazy_tensor as lt
from lazy_tensor import nn


def test_clip_grad_norm_scales_to_the_bound():
    p = nn.Parameter(lt.zeros(2))
    p.grad = lt.tensor([3.0, 4.0])
    assert float(nn.utils.clip_grad_norm_([p], 1.0)) == pytest.approx(5.0)
    assert p.grad.tolist() == pytest.approx([0.6, 0.8], rel=1e-5)


def test_packing_and_padding_are_inverse():
    seqs = [lt.tensor([1.0, 2.0]), lt.tensor([3.0]), lt.tensor([4.0, 5.0, 6.0])]
    packed = nn.utils.rnn.pack_sequence(seqs, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 2, 1] and packed.data.tolist() == [4, 1, 3, 5, 2, 6]
    padded, lengths = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    assert lengths.tolist() == [2, 1, 3] and padded.tolist() == [[1, 2, 0], [3, 0, 0], [4, 5, 6]]


def test_weight_norm_parametrization_keeps_the_value():
    m = nn.Linear(3, 2)
    before = m.weight.tolist()
    nn.utils.parametrizations.weight_norm(m)
    assert sum(m.weight.tolist(), []) == pytest.approx(sum(before, []), rel=1e-5)
    assert list(m.state_dict()) == ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]

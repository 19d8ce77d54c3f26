"""Layers: argument checks, reprs, known values."""
from __future__ import annotations

import pytest

import lazy_tensor as lt
from lazy_tensor import nn


@pytest.mark.parametrize(("make", "text"), [
    (lambda: nn.Conv2d(3, 4, 3, padding=1, bias=False),
     "Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)"),
    (lambda: nn.ReLU(inplace=True), "ReLU(inplace=True)"),
    (lambda: nn.LayerNorm(4), "LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)"),
    (lambda: nn.Embedding(3, 2, padding_idx=-1), "Embedding(3, 2, padding_idx=2)"),
])
def test_repr_is_torchs(make, text):
    assert repr(make()) == text


def test_constructors_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        nn.Conv2d(3, 4, 3, groups=2)
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got 2"):
        nn.Dropout(2)


def test_embedding_padding_row_is_zero_and_pretrained_is_frozen():
    assert nn.Embedding(3, 2, padding_idx=0).weight[0].tolist() == [0.0, 0.0]
    e = nn.Embedding.from_pretrained(lt.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert not e.weight.requires_grad and e(lt.tensor([1])).tolist() == [[3.0, 4.0]]

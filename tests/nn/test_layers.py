"""Layers: argument checks, reprs, known values."""
from __future__ import annotations

import inspect
import json
import warnings
from pathlib import Path

import pytest

import lazy_tensor as lt
from lazy_tensor import nn

LAYERS = json.loads((Path(__file__).parents[1] / "golden" / "layers.json").read_text())["layers"]


@pytest.mark.parametrize("name", LAYERS)
def test_signature_and_reprs_are_torchs(name):
    cls, want = getattr(nn, name), LAYERS[name]
    got = [[p.name, p.kind.name, None if p.default is p.empty else "relu" if callable(p.default) else str(p.default)]
           for p in inspect.signature(cls).parameters.values()]
    assert want["parameters"] is None or got == want["parameters"]  # None: torch's own says *args, **kwargs
    for kw, text in want["reprs"]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated options, dropout of one layer
            assert repr(cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in kw.items()})) == text


def test_losses_take_their_inputs_by_torchs_names():
    x, y = lt.tensor([[1.0, 2.0]]), lt.tensor([[3.0, 2.0]])
    assert nn.MSELoss()(input=x, target=y).item() == 2.0
    assert nn.PoissonNLLLoss()(log_input=x, target=y).item() == nn.PoissonNLLLoss()(x, y).item()
    assert nn.TripletMarginLoss()(anchor=x, positive=y, negative=x).item() == pytest.approx(3.0, abs=1e-5)
    assert nn.MarginRankingLoss()(input1=x, input2=y, target=lt.tensor([[1.0, 1.0]])).item() == 1.0
    assert nn.GaussianNLLLoss()(input=x, target=y, var=lt.ones(1, 2)).item() == 1.0
    with pytest.raises(TypeError):
        nn.GaussianNLLLoss(True)  # keyword only


def test_constructors_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        nn.Conv2d(3, 4, 3, groups=2)
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got 2"):
        nn.Dropout(2)


def test_embedding_padding_row_is_zero_and_pretrained_is_frozen():
    assert nn.Embedding(3, 2, padding_idx=0).weight[0].tolist() == [0.0, 0.0]
    e = nn.Embedding.from_pretrained(lt.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert not e.weight.requires_grad and e(lt.tensor([1])).tolist() == [[3.0, 4.0]]

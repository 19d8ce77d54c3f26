"""Layers' outputs, gradients and buffers against PyTorch's numbers (tests/golden/layers.json, written by make_layers.py)."""
from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

import lazy_tensor as lt

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("layer_runs", HERE / "layer_runs.py")
layer_runs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(layer_runs)
WANT = json.loads((HERE.parent / "golden" / "layers.json").read_text())["values"]
RUNS = layer_runs.runs("lazy_tensor")


def test_the_table_and_the_numbers_are_of_the_same_layers():
    assert set(RUNS) == set(WANT)


@pytest.mark.filterwarnings("ignore:reduction. .mean. divides")
@pytest.mark.parametrize("name", WANT)
def test_output_gradients_and_buffers_are_torchs(name):
    loss, inputs, parameters, buffers = layer_runs.result(lt, *RUNS[name])
    want = WANT[name]
    assert loss == pytest.approx(want[0], rel=1e-9, abs=1e-9)
    for got, expected in ((inputs, want[1]), (parameters, want[2]), (buffers, want[3])):
        assert [g is None for g in got] == [e is None for e in expected]
        assert [g for g in got if g is not None] == pytest.approx([e for e in expected if e is not None], rel=1e-7, abs=1e-9)  # torch has 1/6 in float32

"""Whole models train as in torch: losses of six steps against golden ones, on both devices; no compile in the steady state."""
from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("zoo", HERE / "zoo.py")
zoo = importlib.util.module_from_spec(spec)
spec.loader.exec_module(zoo)
GOLDEN = json.loads((HERE.parent / "golden" / "models.json").read_text())


@pytest.mark.parametrize("device", ["xla", "cpu"])
@pytest.mark.parametrize("name", zoo.MODELS)
def test_trains_as_torch(name, device):
    losses, total, final = zoo.train(name, "lazy_tensor", device)
    want, want_total, want_final = GOLDEN[name]
    np.testing.assert_allclose(losses, want, rtol=2e-3)
    np.testing.assert_allclose(total, want_total, rtol=1e-3)
    np.testing.assert_allclose(final, want_final, rtol=5e-3)


@pytest.mark.parametrize("name", ["mlp", "lstm"])
def test_steady_state_compiles_nothing(name, count_from_here):
    zoo.train(name, "lazy_tensor", "xla", steps=3)
    c = count_from_here()
    zoo.train(name, "lazy_tensor", "xla", steps=5)
    assert c.compiles == 0 and c.traces == 0

"""FSDP and the ZeRO optimizer on four virtual cores: losses, bytes, collectives in the compiled programs, checkpoints."""
from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def out(printed):
    return printed("sharded.py")


@pytest.mark.parametrize("name", ["fsdp", "kept", "dim 0", "checkpointed"])
def test_fsdp_has_the_losses_of_the_whole_model(out, name):
    assert out[name][0][0] == pytest.approx(out["plain"][0][0], abs=2e-4)


def test_fsdp_keeps_a_quarter_of_the_parameters_on_a_core(out):
    whole = out["plain"][0][1]
    assert out["fsdp"][0][1] == out["dim 0"][0][1] == whole / 4


def test_collectives_of_a_step_are_one_gather_a_unit_each_way_and_one_reduce_scatter(out):
    # Three units, the root among them, which is not resharded: its parameters are needed at once in backward.
    assert out["fsdp"][1][0] == {"all-gather": 5, "reduce-scatter": 3}
    assert out["kept"][1][0] == {"all-gather": 3, "reduce-scatter": 3}


def test_bfloat16_compute(out):
    assert out["bfloat16"][0][0] == pytest.approx(out["plain"][0][0], rel=1e-2)
    assert out["bfloat16"][0][0] != out["plain"][0][0]


def test_clipping_whole_parameters_and_consolidated_checkpoints(out):
    (losses, _), (shape, total, saved, difference), path = out["saved"][0]
    assert losses == pytest.approx(out["clipped"][0][0], abs=2e-4)
    assert shape == [32, 16] and saved == pytest.approx(total, abs=1e-4) and difference < 1e-4 and path is None


def test_zero_has_the_losses_of_the_whole_optimizer_and_a_quarter_of_its_states(out):
    losses, states, step = out["zero"][0]
    assert losses == pytest.approx(out["plain"][0][0], abs=2e-4) and step == 3
    assert out["zero clipped"][0][0] == pytest.approx(out["clipped"][0][0], abs=2e-4)
    assert states == 2 * out["plain"][0][1] / 4
    assert {"all-gather": 16} in out["zero"][1] and {"reduce-scatter": 16} in out["zero"][1]

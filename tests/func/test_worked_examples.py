"""docs/examples/functional.py: each example on a small size, and what it must show."""
from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_path = Path(__file__).resolve().parents[2] / "docs" / "examples" / "functional.py"
_spec = importlib.util.spec_from_file_location("functional_examples", _path)
examples = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(examples)


def test_per_sample_gradients_and_ensemble():
    assert examples.per_sample_gradients(batch=16) < 1e-5
    assert examples.ensemble(n=8) < 1e-5


def test_maml_adapts_better_than_before():
    first, last = examples.maml(steps=40)
    assert last < 0.8 * first


def test_neural_tangent_kernel_two_ways():
    difference, smallest = examples.neural_tangent_kernel(n=4)
    assert difference < 1e-4 and smallest > -1e-4


def test_gradient_of_a_learning_rate():
    g, numeric = examples.learning_rate_gradient(steps=8)
    assert g == pytest.approx(numeric, rel=1e-4)


def test_newton_cg_beats_gradient_descent_at_the_same_cost():
    pytest.importorskip("sklearn")
    ours, plain = examples.newton_cg(newton_steps=6, cg_steps=12)
    assert ours < plain


def test_fixed_point_gradients_agree():
    assert examples.fixed_point() < 1e-10


def test_beam_with_fourth_derivatives():
    assert examples.beam(steps=400) < 0.05

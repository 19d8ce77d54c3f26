"""The cases of tests/golden/func_cases*.py and what torch made of them."""
from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

import lazy_tensor as lt

GOLDEN = Path(__file__).resolve().parent
cases = importlib.import_module("func_cases")
for _part in ("transforms", "functional"):
    importlib.import_module(f"func_cases_{_part}")
EXPECTED = json.loads((GOLDEN / "func.json").read_text())


def names(*groups):
    """Parameters (group, name) of the cases, each with its golden outcome; those in KNOWN are expected to fail."""
    assert all(set(EXPECTED[g]) == set(cases.CASES[g]) for g in groups)
    return [pytest.param(g, n, marks=[pytest.mark.xfail(reason=KNOWN[n], raises=AssertionError)] if n in KNOWN else [])
            for g in groups for n in cases.CASES[g]]


def check(group, name, device):
    got = json.loads(json.dumps(cases.outcome(cases.CASES[group][name], lt, device)))
    assert cases.same(got, EXPECTED[group][name]), f"{got}\n{EXPECTED[group][name]}"

# Cases whose outcome is not torch's yet, each with what happens here. A mended one must be taken off (xfail is strict).
KNOWN = {
    "after_the_level": "the primal keeps requires_grad after the level is closed",
    "dtypes_differ": "make_dual refuses a tangent of another dtype",
    "no_grad": "no tangents under no_grad()",
    **dict.fromkeys(("jacobian_pair_forward", "jacobian_independent_forward", "jacobian_tuple_in_forward", "hessian_scalar_forward",
                     "hessian_scalar2_forward", "hessian_unused_forward"), "forward-mode strategy: torch returns lists, and keeps requires_grad"),
    **dict.fromkeys(("jacobian_empty", "jacobian_empty_strict", "jacobian_empty_create_graph", "jacobian_empty_vectorize"),
                    "an empty input gives an empty Jacobian; torch raises"),
    "grad_none_leaf": "RuntimeError where torch raises ValueError",
    "grad_complex": "view_as_real of the result raises RuntimeError",
    "jvp_complex": "view_as_real of the result raises RuntimeError",
}

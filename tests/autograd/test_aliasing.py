"""What aliases what, and what the tape makes of writes through aliases: as torch 2.13 has it (tests/golden/aliasing_cases.py)."""
from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

import lazy_tensor as lt

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
_spec = importlib.util.spec_from_file_location("aliasing_cases", GOLDEN / "aliasing_cases.py")
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)
EXPECTED = json.loads((GOLDEN / "aliasing.json").read_text())


def test_every_case_has_its_golden_outcome():
    assert set(cases.CASES) == set(EXPECTED)


@pytest.mark.parametrize("device", ["cpu", "xla"])
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_as_torch(name, device):
    assert cases.outcome(cases.CASES[name], lt, device) == EXPECTED[name]


def test_data_writes_leave_what_the_tape_saved():
    """Values never change, so a write through `.data` between forward and backward does not spoil a gradient (torch's would be 0)."""
    x = lt.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    y.data.mul_(0)
    y.sum().backward()
    assert y.tolist() == [0.0, 0.0]
    assert lt.allclose(x.grad, x.detach().exp())


def test_an_in_place_op_may_read_what_it_overwrites():
    x, w = lt.tensor([1.0, 2.0], requires_grad=True), lt.tensor([3.0, 4.0], requires_grad=True)
    for alias in (False, True):
        a = x * 1
        view = a.view(2, 1) if alias else a
        view.mul_(w[:, None] if alias else w)
        a.sum().backward()
    assert w.grad.tolist() == [2.0, 4.0]


def test_an_optimizer_takes_over_storage_that_nobody_shares():
    p = lt.nn.Parameter(lt.ones(3, device="xla"))
    opt = lt.optim.SGD([p], lr=0.5)
    assert p._view is not None
    p.sum().backward()
    opt.step()
    assert p._view is None
    assert p.tolist() == [0.5] * 3

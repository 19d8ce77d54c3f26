"""Optimizers and schedules give torch's numbers, resume through a state dict, and compile nothing when the rate changes."""
from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import lazy_tensor as lt

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("runs", HERE / "runs.py")
runs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(runs)
GOLDEN = json.loads((HERE.parent / "golden" / "optim.json").read_text())
CASES = [(n, i) for n, kws in runs.OPTIMIZERS.items() for i in range(len(kws))]


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize(("name", "i"), CASES)
def test_optimizer_gives_torchs_numbers(name, i, resume):
    got = runs.optimizer_run("lazy_tensor", "xla", name, runs.OPTIMIZERS[name][i], resume)
    np.testing.assert_allclose(got, GOLDEN["optimizers"][f"{name}{i}"], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", runs.SCHEDULES)
def test_schedule_gives_torchs_numbers(name):
    np.testing.assert_allclose(runs.schedule_run("lazy_tensor", name), GOLDEN["schedules"][name], rtol=1e-12)


def test_plateau_gives_torchs_numbers():
    assert runs.plateau_run("lazy_tensor") == GOLDEN["plateau"]


def test_a_schedule_compiles_nothing(count_from_here):
    p = lt.ones(3, device="xla", requires_grad=True)
    opt = lt.optim.Adam([p], lr=0.1)
    s = lt.optim.lr_scheduler.ExponentialLR(opt, 0.9)
    for i in range(6):
        if i == 2:
            c = count_from_here()
        opt.zero_grad()
        (p * p).sum().backward()
        opt.step()
        s.step()
    assert c.compiles == 0 and c.traces == 0


def test_closures_hooks_and_errors():
    p = lt.ones(2, requires_grad=True)
    opt = lt.optim.SGD([p], lr=0.5)
    seen = []
    opt.register_step_post_hook(lambda o, a, k: seen.append(o is opt))

    def closure():
        opt.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss
    assert opt.step(closure).item() == 2 and p.tolist() == [0, 0] and seen == [True]
    with pytest.raises(ValueError, match="Invalid learning rate"):
        lt.optim.SGD([p], lr=-1)
    with pytest.raises(ValueError, match="empty parameter list"):
        lt.optim.Adam([])
    with pytest.raises(ValueError, match="non-leaf"):
        lt.optim.Adam([p * 2])
    with pytest.raises(TypeError, match="iterable of Tensors"):
        lt.optim.Adam(p)
    with pytest.raises(ValueError, match="different number of parameter groups"):
        opt.load_state_dict({"state": {}, "param_groups": []})


def test_grad_scaler_skips_overflow():
    p = lt.ones(2, device="xla", requires_grad=True)
    opt = lt.optim.SGD([p], lr=0.5)
    scaler = lt.amp.GradScaler("xla", init_scale=4.0, growth_interval=1)
    scaler.scale(p.sum()).backward()
    scaler.step(opt)
    scaler.update()
    assert p.tolist() == [0.5, 0.5] and scaler.get_scale() == 8.0
    opt.zero_grad()
    scaler.scale((p * float("inf")).sum()).backward()
    scaler.step(opt)
    scaler.update()
    assert p.tolist() == [0.5, 0.5] and scaler.get_scale() == 4.0


def test_autocast_casts_products_down_and_losses_up():
    x, w = lt.randn(4, 8, device="xla"), lt.randn(3, 8, device="xla")
    with lt.autocast("xla", dtype=lt.bfloat16):
        y = lt.nn.functional.linear(x, w)
        z = lt.nn.functional.softmax(y, -1)
        s = y + 1
    assert (y.dtype, z.dtype, s.dtype) == (lt.bfloat16, lt.float32, lt.bfloat16)
    assert lt.nn.functional.linear(x, w).dtype == lt.float32

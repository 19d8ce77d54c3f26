"""Optimizer and schedule runs written once for both libraries: torch makes the golden numbers, the tests compare."""
from __future__ import annotations

import importlib
import warnings

import numpy as np

OPTIMIZERS = {
    "SGD": [{"lr": 0.1}, {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}],
    "Adam": [{"lr": 0.01}, {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1, "betas": (0.8, 0.95)}],
    "AdamW": [{"lr": 0.01, "weight_decay": 0.1}],
    "NAdam": [{"lr": 0.01, "weight_decay": 0.01}], "RAdam": [{"lr": 0.05}], "Adamax": [{"lr": 0.01}], "Adadelta": [{"lr": 0.5}],
    "Adagrad": [{"lr": 0.1, "lr_decay": 0.01}], "RMSprop": [{"lr": 0.01, "momentum": 0.5, "centered": True}], "ASGD": [{"lr": 0.05, "t0": 2}],
    "Rprop": [{"lr": 0.01}], "Adafactor": [{"lr": 0.05}],
}
SCHEDULES = {
    "StepLR": lambda s, o: s.StepLR(o, 3, 0.5), "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5, 5], 0.1),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.5, 4), "LinearLR": lambda s, o: s.LinearLR(o, 0.1, 1.0, 5),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9), "PolynomialLR": lambda s, o: s.PolynomialLR(o, 8, 2.0),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 6, 0.01), "Warm": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.001),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.3, total_steps=12), "OneCycle3": lambda s, o: s.OneCycleLR(o, 0.3, total_steps=12, three_phase=True,
                                                                                                             anneal_strategy="linear"),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 3, mode="triangular2"), "LambdaLR": lambda s, o: s.LambdaLR(o, lambda e: 0.9 ** e),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.8), "Sequential": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=3), s.CosineAnnealingLR(o, 6)], [3]),
    "Chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)]),
}


def optimizer_run(library, device, name, kw, resume=False):
    """Parameters (flat list) after 5 steps of two groups; with `resume` the state goes through a state dict after step 2."""
    torch = importlib.import_module(library)
    optim = importlib.import_module(library + ".optim")
    r = np.random.default_rng(3)
    values = [r.standard_normal(s) for s in ((3, 4), (5,), (2, 3, 2))]

    def make():
        ps = [torch.tensor(v.astype(np.float32)).to(device).requires_grad_(True) for v in values]
        lr2 = dict(kw, lr=kw["lr"] / 2)
        return ps, getattr(optim, name)([{"params": ps[:2]}, {"params": ps[2:], **lr2}], **kw)
    ps, opt = make()
    for step in range(5):
        if resume and step == 2:
            old = ps
            state = opt.state_dict()
            ps, opt = make()
            with torch.no_grad():
                for p, q in zip(ps, old):
                    p.copy_(q)
            opt.load_state_dict(state)
        opt.zero_grad()
        for p in ps:
            g = r.standard_normal(tuple(p.shape)).astype(np.float32)
            p.grad = torch.tensor(g).to(device)
        opt.step()
    return [float(x) for p in ps for x in p.detach().cpu().numpy().reshape(-1)]


def schedule_run(library, name):
    """lr and momentum over 12 epochs."""
    torch = importlib.import_module(library)
    optim = importlib.import_module(library + ".optim")
    p = torch.zeros(2, requires_grad=True)
    opt = optim.SGD([p], lr=0.2, momentum=0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        s = SCHEDULES[name](optim.lr_scheduler, opt)
        out = []
        for _ in range(12):
            out.append([float(opt.param_groups[0]["lr"]), float(opt.param_groups[0]["momentum"])])
            opt.step()
            if len(out) < 12:
                s.step()
    return out


def plateau_run(library):
    """lr of ReduceLROnPlateau along a metric that stalls."""
    torch = importlib.import_module(library)
    optim = importlib.import_module(library + ".optim")
    opt = optim.SGD([torch.zeros(2, requires_grad=True)], lr=1.0)
    s = optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=1, cooldown=1)
    out = []
    for m in (5, 4, 4, 4, 4, 4, 3, 3, 3, 3):
        s.step(m)
        out.append(opt.param_groups[0]["lr"])
    return out

"""Cases of function transforms, run in torch and here (tests/func): values, shapes, dtypes, containers, requires_grad, exception types.

/path/to/python-with-torch tests/golden/func_cases.py   # writes func.json
"""

from __future__ import annotations

import collections
import json
import math
from pathlib import Path

CASES: dict = {}
Pair = collections.namedtuple("Pair", "left right")


def case(group):
    def add(fn):
        assert fn.__name__ not in CASES.setdefault(group, {}), fn.__name__
        CASES[group][fn.__name__] = fn
        return fn
    return add


class Env:
    """What a case takes: the module, and tensors that are the same everywhere."""

    def __init__(self, torch, device):
        self.torch, self.dev = torch, device
        self.x, self.y, self.z, self.W = self.T(3), self.T(4, 3, seed=1), self.T(3, seed=5), self.T(5, 3, seed=2)

    def T(self, *shape, seed=0, dtype="float32"):
        values = [math.sin(1.7 * i + seed) for i in range(math.prod(shape))]
        return self.torch.tensor(values, dtype=getattr(self.torch, dtype), device=self.dev).reshape(shape)

    def fill(self, module):
        module.to(self.dev)
        with self.torch.no_grad():
            for i, p in enumerate(module.parameters()):
                p.copy_(self.T(*p.shape, seed=i) * 0.5)
        return module


def show(torch, x):
    if isinstance(x, torch.Tensor):
        t = x.detach().cpu()
        if t.is_complex():
            t = torch.view_as_real(t)
        return {"shape": list(x.shape), "dtype": str(x.dtype).split(".")[-1], "grad": x.requires_grad,
                "values": [float(v) for v in t.reshape(-1).tolist()][:64]}
    if isinstance(x, dict):
        return [type(x).__name__, *[[k, show(torch, v)] for k, v in x.items()]]
    if isinstance(x, (tuple, list)):
        return [type(x).__name__, *[show(torch, v) for v in x]]
    return x


def outcome(fn, torch, device):
    try:
        return show(torch, fn(Env(torch, device)))
    except Exception as e:
        return {"raises": type(e).__name__}


def same(a, b, tolerance=2e-4):
    """Whether two outcomes are the same, numbers to a tolerance."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k], tolerance) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(same(p, q, tolerance) for p, q in zip(a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isnan(a) and math.isnan(b) or a == b or abs(a - b) <= tolerance * max(1, abs(a), abs(b))
    return a == b


ROOT = Path(__file__).resolve().parent

if __name__ == "__main__":
    import sys
    import warnings

    warnings.simplefilter("ignore")
    sys.modules["func_cases"] = sys.modules["__main__"]
    sys.path.insert(0, str(ROOT))
    import func_cases_functional  # noqa: F401
    import func_cases_transforms  # noqa: F401
    import torch

    table = {g: {n: outcome(f, torch, "cpu") for n, f in fs.items()} for g, fs in CASES.items()}
    (ROOT / "func.json").write_text("\n".join(json.dumps(table, indent=None).replace('}, "', '},\n"').split("\n")) + "\n")
    for g, fs in table.items():
        for n, v in fs.items():
            if isinstance(v, dict) and "raises" in v:
                print(g, n, v)

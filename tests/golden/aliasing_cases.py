"""Programs whose outcome hangs on what aliases what; run in torch and here (tests/autograd/test_aliasing.py).

/path/to/python-with-torch tests/golden/aliasing_cases.py   # writes aliasing.json
"""

from __future__ import annotations

import json
from pathlib import Path


def detach_inplace_base(torch, T, show, dev):
    x = T([1.0, 2.0], requires_grad=True)
    y = x * 2
    d = y.detach()
    y.mul_(3)
    show(d, d.requires_grad, y.requires_grad)
    y.sum().backward()
    show(x.grad)


def detach_write_needed(torch, T, show, dev):
    x = T([1.0, 2.0], requires_grad=True)
    y = x.exp()
    y.detach().mul_(2)
    show(y)
    y.sum().backward()


def setitem_detached(torch, T, show, dev):
    w = T([3.0], requires_grad=True)
    x = torch.zeros(2, 2, device=dev).detach()
    x[0, 1] = w[0] * 2
    x.sum().backward()
    show(x, w.grad)


def view_of_detached(torch, T, show, dev):
    x = T([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x * 1
    d = y.detach()
    v = d.t()
    w = T([5.0, 6.0], requires_grad=True)
    v[0] = w * 2
    show(y, d, v, y.requires_grad, d.requires_grad, v.requires_grad)
    (d * d).sum().backward()
    show(w.grad)


def view_of_a_detached_transpose(torch, T, show, dev):
    x = T([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x * 1
    d = y.t().detach()
    v = d.view(2, 2) if d.is_contiguous() else d[1]
    w = T([5.0, 6.0], requires_grad=True)
    v.mul_(w)
    show(y, d, v, y.requires_grad, d.requires_grad, v.requires_grad)
    (d * d).sum().backward()
    show(w.grad)


def param_alias(torch, T, show, dev):
    a = T([1.0, 2.0])
    p = torch.nn.Parameter(a)
    a.add_(1)
    show(p)
    with torch.no_grad():
        p.mul_(2)
    show(a)
    p.data.fill_(7)
    show(a, p)
    p.data = T([9.0, 9.0])
    a.zero_()
    show(a, p)


def param_opt(torch, T, show, dev):
    a = T([1.0, 2.0])
    p = torch.nn.Parameter(a)
    o = torch.optim.SGD([p], lr=0.1)
    (p * p).sum().backward()
    o.step()
    show(a, p, p._version, a._version)


def param_of_nonleaf(torch, T, show, dev):
    x = T([1.0, 2.0], requires_grad=True)
    y = x * 2
    p = torch.nn.Parameter(y)
    show(p.is_leaf, p.requires_grad)
    (p * 3).sum().backward()
    show(p.grad, x.grad)


def leaf_view_write(torch, T, show, dev):
    x = T([1.0, 2.0], requires_grad=True)
    x[0].mul_(2)


def leaf_detach_write(torch, T, show, dev):
    x = T([1.0, 2.0], requires_grad=True)
    x.detach()[0] = 5
    show(x, x._version)
    x.data[1] = 7
    show(x, x._version)


def nograd_view(torch, T, show, dev):
    x = T([1.0, 2.0], requires_grad=True)
    y = x * 1
    with torch.no_grad():
        v = y[0:1]
    v.mul_(2)
    show(y)


def multi_view(torch, T, show, dev):
    x = T([1.0, 2.0], requires_grad=True)
    y = x * 1
    a, b = y.unbind(0)
    a.mul_(2)
    show(y)


def multi_view_nograd_ok(torch, T, show, dev):
    y = T([1.0, 2.0])
    a, b = y.unbind(0)
    a.mul_(2)
    show(y)
    a, b = y.chunk(2)
    a.add_(1)
    show(y)


def chunk_view(torch, T, show, dev):
    x = T([1.0, 2.0], requires_grad=True)
    y = x * 1
    a, b = y.chunk(2)
    a.mul_(2)
    show(y)


def detached_stale(torch, T, show, dev):
    y = T([1.0, 2.0, 3.0, 4.0])
    d = y.detach()
    v = d.view(2, 2)
    y.add_(1)
    show(v, d)
    v.mul_(2)
    show(y, d)
    d[0] = 0
    show(y, v)


def detached_req(torch, T, show, dev):
    y = T([1.0, 2.0, 3.0, 4.0])
    d = y.detach().requires_grad_()
    with torch.no_grad():
        d.add_(1)
    show(y, d)
    (d * d).sum().backward()
    show(d.grad)
    y.mul_(0)
    show(d, d.requires_grad, d.is_leaf)


def detach_of_view_req(torch, T, show, dev):
    y = T([[1.0, 2.0], [3.0, 4.0]])
    d = y[0].detach().requires_grad_()
    z = (d * 2).sum()
    y.add_(1)
    show(d)
    z.backward()
    show(d.grad)


def subclass(torch, T, show, dev):
    class S(torch.Tensor):
        pass

    y = T([1.0, 2.0])
    s = y.as_subclass(S)
    y.add_(1)
    show(type(s).__name__, s.tolist())


def module_to(torch, T, show, dev):
    m = torch.nn.Linear(2, 2)
    p = m.weight
    m.to(dev)
    m.double()
    show(m.weight is p, m.weight.dtype == torch.float64)


def grad_alias(torch, T, show, dev):
    x = T([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    g = x.grad
    (x * x).sum().backward()
    show(g is x.grad, g)


def channels_last_view(torch, T, show, dev):
    x = torch.zeros(2, 3, 4, 5, device=dev).to(memory_format=torch.channels_last)
    show(x.stride(), x.clone().stride(), x[0].stride(), x.is_contiguous())
    x.view(2, -1)


def channels_last_strides(torch, T, show, dev):
    x = torch.zeros(2, 3, 4, 5, device=dev).to(memory_format=torch.channels_last)
    show(
        x.reshape(2, -1).stride(),
        x.permute(0, 2, 3, 1).is_contiguous(),
        x.detach().stride(),
        x.contiguous().stride(),
        x.permute(0, 2, 3, 1).view(2, 20, 3).shape,
    )
    import copy

    show(copy.deepcopy(x).stride())
    x.view(6, 20)


def outcome(case, torch, dev):
    """What a case shows, or the type of what it raises last."""
    shown = []

    def show(*items):
        shown.append(
            [
                t.detach().cpu().tolist() if hasattr(t, "detach") else list(t) if isinstance(t, tuple) else t
                for t in items
            ]
        )

    def T(*a, **k):
        return torch.tensor(*a, device=dev, **k)

    try:
        case(torch, T, show, dev)
    except RuntimeError as e:
        shown.append(type(e).__name__)
    return json.loads(json.dumps(shown))


CASES = {
    k: v
    for k, v in list(globals().items())
    if callable(v) and getattr(v, "__module__", "") == __name__ and k not in ("outcome", "Path")
}


if __name__ == "__main__":
    import torch

    golden = {name: outcome(case, torch, "cpu") for name, case in CASES.items()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(shown)}" for name, shown in golden.items())
    Path(__file__).with_name("aliasing.json").write_text("{\n" + lines + "\n}\n")

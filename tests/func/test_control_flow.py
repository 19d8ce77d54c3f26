"""cond, while_loop, scan, associative_scan, map, scan_layers: values, gradients in both modes, under transforms, with closures."""
from __future__ import annotations

import pytest

import lazy_tensor as lt
from lazy_tensor import nn
from lazy_tensor.func import grad, hessian, jacfwd, jvp, vmap
from xla_backend import metrics

D = "xla"


def x():
    return lt.tensor([1.0, 2.0, 3.0], device=D)


def close(a, b, atol=1e-5):
    return lt.allclose(a, b if isinstance(b, lt.Tensor) else lt.tensor(b, device=a.device), atol=atol)


@pytest.mark.parametrize("sign", [1, -1])
def test_cond(sign):
    p, w = x().requires_grad_(), lt.tensor(2.0, device=D, requires_grad=True)
    y = lt.cond(p.sum() * sign > 0, lambda a: (a * w).sin(), lambda a: a.cos(), (p,))
    y.sum().backward()
    assert close(y, (x() * 2).sin() if sign > 0 else x().cos())
    assert close(p.grad, 2 * (x() * 2).cos() if sign > 0 else -x().sin())
    assert close(w.grad, (x() * (x() * 2).cos()).sum() if sign > 0 else lt.zeros((), device=D))


def test_cond_under_transforms_and_errors():
    f = lambda a: lt.cond(a > 1.5, lambda b: b * b, lambda b: b * 3, (a,))
    assert close(vmap(f)(x()), [3.0, 4.0, 9.0]) and close(vmap(grad(f))(x()), [3.0, 4.0, 6.0])
    assert close(jvp(f, (x()[1],), (lt.ones((), device=D),))[1], 4.0)
    assert lt.cond(True, lambda a: a + 1, lambda a: a, (x(),)).tolist() == [2.0, 3.0, 4.0]
    with pytest.raises(RuntimeError, match=r"same shapes and dtypes; output 0 is float32\[3\].* and float32\[\]"):
        lt.cond(x().sum() > 0, lambda a: a, lambda a: a.sum(), (x(),))
    with pytest.raises(RuntimeError, match="under cond"):
        lt.cond(x().sum() > 0, lambda a: a if a.sum() > 0 else -a, lambda a: a, (x(),))
    assert (x() + 1).tolist() == [2.0, 3.0, 4.0]


def test_while_loop():
    w = lt.tensor(2.0, device=D, requires_grad=True)
    n, y = lt.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a * w), (lt.tensor(0, device=D), x()))
    assert n.item() == 5 and close(y, x() * 32)
    with pytest.raises(RuntimeError, match="reverse mode"):
        y.sum().backward()
    out, t = jvp(lambda a: lt.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * a), (lt.tensor(0, device=D), a))[1], (x(),),
                 (lt.ones(3, device=D),))
    assert close(out, x() ** 8) and close(t, 8 * x() ** 7)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_scan(reverse, checkpoint):
    w = lt.tensor(1.5, device=D, requires_grad=True)
    xs = {"a": x().requires_grad_(), "b": lt.ones(2, 3, device=D)}

    def step(carry, s):
        c, n = carry
        c = c * w + s["a"] + s["b"].sum()
        return (c, n + 1), {"c": c, "n": n}
    (c, n), ys = lt.scan(step, (lt.tensor(1.0, device=D), lt.tensor(0, device=D)), {"a": xs["a"], "b": xs["b"].T}, reverse=reverse,
                         checkpoint=checkpoint)
    assert n.item() == 3 and list(ys) == ["c", "n"]
    (c + ys["c"].sum()).backward()
    got = w.grad.clone(), xs["a"].grad.clone()
    w.grad = xs["a"].grad = None
    c2, cs = lt.tensor(1.0, device=D), []
    for i in range(3)[::-1] if reverse else range(3):
        c2 = c2 * w + xs["a"][i] + 2
        cs.append(c2)
    (c2 + sum(cs)).backward()
    assert close(c, c2.detach()) and close(got[0], w.grad) and close(got[1], xs["a"].grad)
    assert close(ys["c"], lt.stack(cs[::-1] if reverse else cs).detach())


def test_scan_under_transforms_and_random_draws():
    product = lambda a: lt.scan(lambda c, v: (c * v, c), lt.tensor(1.0, device=D), a)[0]
    assert close(jacfwd(product)(x()), [6.0, 3.0, 2.0]) and close(vmap(product)(lt.ones(2, 3, device=D) * 2), [8.0, 8.0])
    assert close(hessian(product)(x()), [[0.0, 3.0, 2.0], [3.0, 0.0, 1.0], [2.0, 1.0, 0.0]])
    draws = lt.scan(lambda c, v: (c, lt.rand((), device=D)), lt.tensor(1.0, device=D), lt.zeros(6, device=D))[1]
    assert draws.unique().numel() == 6
    with pytest.raises(RuntimeError, match="a carry of the same shapes and dtypes"):
        lt.scan(lambda c, v: (c.unsqueeze(0), v), lt.tensor(1.0, device=D), x())


def test_scan_compiles_once_whatever_the_values():
    def run(k):
        return lt.scan(lambda c, v: (c + v * k, c), lt.tensor(0.0, device=D), x())[0].item()
    assert run(2.0) == 12.0
    before = metrics.counter("compiles"), metrics.counter("traces")
    assert run(3.0) == 18.0
    assert (metrics.counter("compiles"), metrics.counter("traces")) == before


def test_associative_scan_and_map():
    assert lt.associative_scan(lambda a, b: a * b, x()).tolist() == [1.0, 2.0, 6.0]
    assert lt.associative_scan(lambda a, b: a + b, lt.ones(2, 3, device=D), dim=1, reverse=True).tolist() == [[3.0, 2.0, 1.0]] * 2
    p = x().requires_grad_()
    lt.associative_scan(lambda a, b: a * b, p).sum().backward()
    assert close(p.grad, [9.0, 4.0, 2.0])
    assert lt.map(lambda a, k: a * k, x(), 2).tolist() == [2.0, 4.0, 6.0]


def test_scan_layers_reaches_each_layers_gradients():
    lt.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(3, 3), nn.Tanh()).to(D) for _ in range(4)]
    z = lt.ones(2, 3, device=D)
    a = lt.scan_layers(layers, z)
    a.sum().backward()
    got = [m[0].weight.grad.clone() for m in layers]
    b = z
    for m in layers:
        m.zero_grad()
        b = m(b)
    b.sum().backward()
    assert close(a, b.detach()) and all(close(g, m[0].weight.grad) for g, m in zip(got, layers, strict=True))
    with pytest.raises(RuntimeError, match="layer 1 differs"):
        lt.scan_layers([layers[0], nn.Linear(3, 3).to(D)], z)

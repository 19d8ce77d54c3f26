"""Worked examples of function transforms; each prints a line or two: python docs/examples/functional.py [NAME...]

per_sample_gradients, ensemble, maml, neural_tangent_kernel, learning_rate_gradient, newton_cg, fixed_point, beam.
Every function returns the figures that it prints; tests/func/test_worked_examples.py checks them.
"""
from __future__ import annotations

import math
import sys

import lazy_tensor as torch
from lazy_tensor import nn
from lazy_tensor.func import functional_call, grad, jacrev, jvp, stack_module_state, vjp, vmap


def per_sample_gradients(device="xla", batch=32):
    """The gradient of each example's own loss: vmap over grad, one program; the largest difference from a loop."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3)).to(device)
    params = {k: p.detach() for k, p in model.named_parameters()}
    x, y = torch.randn(batch, 8, device=device), torch.randint(0, 3, (batch,), device=device)

    def loss(params, x, y):
        return nn.functional.cross_entropy(functional_call(model, params, (x[None],)), y[None])
    each = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
    worst = 0.0
    for i in range(0, batch, 8):
        model.zero_grad()
        loss(dict(model.named_parameters()), x[i], y[i]).backward()
        worst = max([worst] + [(each[k][i] - p.grad).abs().max().item() for k, p in model.named_parameters()])
    print(f"per-sample gradients: {batch} of {sum(p.numel() for p in params.values())} numbers each, largest difference from a loop {worst:.1e}")
    return worst


def ensemble(device="xla", n=50):
    """Many models of one architecture as one: their parameters stacked, vmap over them; the largest difference from calling each."""
    torch.manual_seed(0)
    models = [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(device) for _ in range(n)]
    params, buffers = stack_module_state(models)
    x = torch.randn(16, 4, device=device)
    together = vmap(lambda p, b: functional_call(models[0], (p, b), (x,)))(params, buffers)
    worst = (together - torch.stack([m(x) for m in models])).abs().max().item()
    print(f"ensemble: {n} models, outputs {list(together.shape)}, largest difference from one by one {worst:.1e}")
    return worst


def maml(device="xla", steps=60, tasks=16):
    """Model-agnostic meta-learning on sine waves: the outer gradient goes through an inner gradient step (second order).

    Returns the loss after adaptation, before and after meta-training."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def mse(params, x, y):
        return ((functional_call(model, params, (x,)) - y) ** 2).mean()

    def adapted(params, x1, y1, x2, y2):
        g = grad(mse)(params, x1, y1)
        return mse({k: p - 0.05 * g[k] for k, p in params.items()}, x2, y2)

    def batch():
        amplitude, phase = torch.rand(tasks, 1, 1, device=device) * 4 + 1, torch.rand(tasks, 1, 1, device=device) * math.pi
        x = torch.rand(tasks, 20, 1, device=device) * 10 - 5
        y = amplitude * torch.sin(x + phase)
        return x[:, :10], y[:, :10], x[:, 10:], y[:, 10:]
    losses = []
    for _ in range(steps):
        loss = vmap(adapted, in_dims=(None, 0, 0, 0, 0))(dict(model.named_parameters()), *batch()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    first, last = sum(losses[:5]) / 5, sum(losses[-5:]) / 5
    print(f"MAML: loss after one inner step {first:.2f} at first, {last:.2f} after {steps} outer steps")
    return first, last


def neural_tangent_kernel(device="xla", n=6):
    """J(x1) J(x2)^T of a network, from Jacobians and from vector products; (largest difference, smallest eigenvalue)."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
    params = {k: p.detach() for k, p in model.named_parameters()}
    x = torch.randn(n, 5, device=device)

    def f(params, x):
        return functional_call(model, params, (x[None],))[0, 0]
    jac = vmap(jacrev(f), in_dims=(None, 0))(params, x)
    kernel = sum(j.flatten(1) @ j.flatten(1).T for j in jac.values())

    def entry(x1, x2):
        _, pull = vjp(lambda p: f(p, x1), params)
        return jvp(lambda p: f(p, x2), (params,), (pull(torch.ones((), device=device))[0],))[1]
    products = vmap(vmap(entry, in_dims=(None, 0)), in_dims=(0, None))(x, x)
    difference = (kernel - products).abs().max().item()
    smallest = torch.linalg.eigvalsh(kernel).min().item()
    print(f"neural tangent kernel: {n} x {n}, two ways differ by {difference:.1e}, smallest eigenvalue {smallest:.2e}")
    return difference, smallest


def learning_rate_gradient(device="xla", steps=20):
    """The gradient of a training run's final loss by its learning rate, through a scan; (gradient, central difference) in float64."""
    torch.manual_seed(0)
    x = torch.randn(40, 3, device=device, dtype=torch.float64)
    y = x @ torch.tensor([1.0, -2.0, 0.5], device=device, dtype=torch.float64)

    def final(rate):
        def step(w, _):
            return w - rate * grad(lambda w: ((x @ w - y) ** 2).mean())(w), ()
        w, _ = torch.scan(step, torch.zeros(3, device=device, dtype=torch.float64), torch.zeros(steps, device=device))
        return ((x @ w - y) ** 2).mean()
    rate = torch.tensor(0.05, device=device, dtype=torch.float64)
    g = grad(final)(rate).item()
    numeric = ((final(rate + 1e-5) - final(rate - 1e-5)) / 2e-5).item()
    print(f"d(final loss) / d(learning rate) over {steps} steps: {g:.6f}, by differences {numeric:.6f}")
    return g, numeric


def newton_cg(device="xla", newton_steps=8, cg_steps=15):
    """Logistic regression on scikit-learn's digits (0 to 4 or 5 to 9) by Newton steps, each solved by conjugate gradients on
    Hessian-vector products; (its loss, the loss of as many gradient evaluations of gradient descent)."""
    from sklearn.datasets import load_digits
    data = load_digits()
    x = torch.from_numpy(data.data / 16 - 0.3).to(device)
    y = torch.from_numpy((data.target > 4).astype("float64")).to(device)

    def loss(w):
        return nn.functional.binary_cross_entropy_with_logits(x @ w, y) + 5e-4 * (w * w).sum()
    gradient = grad(loss)

    @torch.compile
    def newton(w):
        g = gradient(w)

        def step(state, _):
            d, r, p = state
            hp = jvp(gradient, (w,), (p,))[1]
            a = (r @ r) / (p @ hp)
            r2 = r - a * hp
            return (d + a * p, r2, r2 + (r2 @ r2) / (r @ r) * p), ()
        (d, _r, _p), _ = torch.scan(step, (torch.zeros_like(w), -g, -g), torch.zeros(cg_steps, device=device))
        return w + d
    w = torch.zeros(64, dtype=torch.float64, device=device)
    for _ in range(newton_steps):
        w = newton(w)
    v = torch.zeros(64, dtype=torch.float64, device=device)
    for _ in range(newton_steps * (cg_steps + 1)):
        v = v - 1.0 * gradient(v)
    ours, plain = loss(w).item(), loss(v).item()
    print(f"Newton-CG: loss {ours:.6f} after {newton_steps} steps, gradient norm {gradient(w).norm().item():.1e}; gradient descent at the same "
          f"cost {plain:.6f}, {gradient(v).norm().item():.1e}")
    return ours, plain


def fixed_point(device="xla"):
    """The gradient of a fixed point x = tanh(W x + b) by b, implicitly (one linear solve), and through the iteration; the largest difference."""
    torch.manual_seed(0)
    w = 0.4 * torch.randn(6, 6, device=device, dtype=torch.float64) / 6 ** 0.5
    b = torch.randn(6, device=device, dtype=torch.float64)

    def f(x, b):
        return torch.tanh(w @ x + b)

    class Solve(torch.autograd.Function):
        @staticmethod
        def forward(ctx, b):
            _, x = torch.while_loop(lambda i, x: i < 200, lambda i, x: (i + 1, f(x, b)), (torch.tensor(0, device=device), torch.zeros_like(b)))
            ctx.save_for_backward(x, b)
            return x

        @staticmethod
        def backward(ctx, g):
            x, b = ctx.saved_tensors
            a = torch.eye(6, device=device, dtype=torch.float64) - jacrev(f)(x, b)
            return jacrev(f, 1)(x, b).T @ torch.linalg.solve(a.T, g)
    p = b.clone().requires_grad_()
    (Solve.apply(p) ** 2).sum().backward()

    def unrolled(b):
        x, _ = torch.scan(lambda x, _: (f(x, b), ()), torch.zeros_like(b), torch.zeros(200, device=device))
        return (x ** 2).sum()
    worst = (p.grad - grad(unrolled)(b)).abs().max().item()
    print(f"fixed point: implicit and unrolled gradients differ by {worst:.1e}")
    return worst


def beam(device="xla", steps=1500):
    """A physics-informed network for the Euler-Bernoulli beam: u'''' = 1 on [0, 1], simply supported; fourth derivatives by nested
    grad. Returns the largest error against the known u = x (1 - 2 x^2 + x^3) / 24, relative to its height."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1)).double().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, 1e-5)
    x = torch.linspace(0, 1, 24, dtype=torch.float64, device=device)

    def u(x):
        return x * (1 - x) * model(x.reshape(1, 1))[0, 0]  # zero at both ends
    second = grad(grad(u))
    fourth = grad(grad(second))

    @torch.compile
    def step():
        ends = second(x[0]) ** 2 + second(x[-1]) ** 2
        loss = ((vmap(fourth)(x) - 1) ** 2).mean() + 10 * ends
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss
    for _ in range(steps):
        loss = step()
    exact = x * (1 - 2 * x ** 2 + x ** 3) / 24
    error = ((vmap(u)(x) - exact).abs().max() / exact.max()).item()
    print(f"beam: residual {loss.item():.1e} after {steps} steps, largest error {100 * error:.2f} % of the deflection")
    return error


ALL = {f.__name__: f for f in (per_sample_gradients, ensemble, maml, neural_tangent_kernel, learning_rate_gradient, newton_cg, fixed_point, beam)}

if __name__ == "__main__":
    for name in sys.argv[1:] or ALL:
        ALL[name]()

"""autograd.Function inside transforms and under double backward; counts of traces and compiles."""
from __future__ import annotations

import lazy_tensor as lt
from lazy_tensor import nn
from lazy_tensor.autograd import gradcheck, gradgradcheck
from lazy_tensor.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vmap
from xla_backend import metrics


class Exp(lt.autograd.Function):
    """Saves its output."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        y, = ctx.saved_tensors
        return g * y


class Both(lt.autograd.Function):
    """Two outputs, setup_context."""

    @staticmethod
    def forward(x):
        return x * x, x.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, g, h):
        x, = ctx.saved_tensors
        return 2 * g * x + h


class Forward(lt.autograd.Function):
    """A jvp of its own, which is not the derivative, so that its use shows."""

    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.x = inputs[0]

    @staticmethod
    def jvp(ctx, t):
        return ctx.x.cos() * t * 2


def x():
    return lt.tensor([0.5, 1.0], dtype=lt.float64)


def test_double_backward_through_a_saved_output():
    assert gradcheck(Exp.apply, (x().requires_grad_(),)) and gradgradcheck(Exp.apply, (x().requires_grad_(),))


def test_forward_mode_is_the_transpose_of_backward():
    out, t = jvp(Exp.apply, (x(),), (lt.ones(2, dtype=lt.float64),))
    assert lt.allclose(out, x().exp()) and lt.allclose(t, x().exp())
    assert lt.allclose(jacfwd(jacfwd(Exp.apply))(x()), lt.func.jacrev(jacfwd(lt.exp))(x()))
    assert lt.allclose(hessian(lambda a: Exp.apply(a).sum())(x()), lt.diag(x().exp()))


def test_several_outputs_and_vmap():
    f = lambda a: Both.apply(a)[0].sum() * Both.apply(a)[1]
    assert lt.allclose(hessian(f)(x()), hessian(lambda a: (a * a).sum() * a.sum())(x()))
    assert lt.allclose(vmap(grad(f))(lt.stack([x(), 2 * x()]))[1], grad(f)(2 * x()))
    assert lt.allclose(lt.scan(lambda c, v: (Both.apply(v)[0].sum() + c, ()), lt.zeros((), dtype=lt.float64), lt.stack([x(), x()]))[0],
                       2 * (x() ** 2).sum())


def test_a_jvp_of_its_own():
    assert lt.allclose(jvp(Forward.apply, (x(),), (lt.ones(2, dtype=lt.float64),))[1], 2 * x().cos())


def test_a_second_call_traces_and_compiles_nothing():
    w = lt.randn(5, 3, device="xla")
    calls = {"vmap": lambda a: vmap(lambda v: (w @ v).sin())(a), "jacrev": lambda a: jacrev(lambda v: (w @ v).sin())(a[0]),
             "hessian": lambda a: hessian(lambda v: (w @ v).sin().sum())(a[0]), "jvp": lambda a: jvp(lt.tanh, (a,), (a,))[1]}
    for name, f in calls.items():
        a, b = lt.randn(4, 3, device="xla"), lt.randn(4, 3, device="xla")
        f(a).tolist()
        before = metrics.counter("traces"), metrics.counter("compiles")
        f(b).tolist()
        assert (metrics.counter("traces"), metrics.counter("compiles")) == before, name


def test_a_thousand_models_are_one_program():
    models = [nn.Linear(3, 2).to("xla") for _ in range(1000)]
    params, buffers = stack_module_state(models)
    a = lt.ones(4, 3, device="xla")
    lt.sync()
    before = metrics.counter("programs")
    out = vmap(lambda p, b: functional_call(models[0], (p, b), (a,)))(params, buffers)
    assert out.detach().cpu().shape == (1000, 4, 2)
    assert metrics.counter("programs") - before == 1
    assert lt.allclose(out[7], models[7](a), atol=1e-5)

"""lt.library: custom operators from bodies on Tensors, jax functions and Pallas kernels, under the tape and every transform."""
from __future__ import annotations

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import lazy_tensor as lt
from lazy_tensor import Tensor, func, nn

DEVICES = ("cpu", "xla")


@lt.library.custom_op("h7::cube", mutates_args=())
def cube(x: Tensor, by: float = 1.0) -> Tensor:
    return x * x * x * by


@lt.library.custom_op("h7::wrong_cube")
def wrong_cube(x: Tensor) -> Tensor:
    return x ** 3


def _keep(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


# Ten times the true gradient, so that only the registered one can give it.
wrong_cube.register_autograd(lambda ctx, g: 30 * ctx.saved_tensors[0] ** 2 * g, setup_context=_keep)


@lt.library.custom_op("h7::soft", body="jax")
def soft(x: Tensor, beta: float, *, flip: bool = False) -> Tensor:
    y = jnp.log1p(jnp.exp(beta * x)) / beta
    return -y if flip else y


@lt.library.custom_op("h7::pallas_scale", body="jax")
def pallas_scale(x: Tensor, y: Tensor) -> Tensor:
    def kernel(x_ref, y_ref, o_ref):
        o_ref[...] = x_ref[...] * y_ref[...] + 1.0
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x, y)


def _both(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _product_rule(ctx, g):
    x, y = ctx.saved_tensors
    return g * y, g * x


lt.library.register_autograd("h7::pallas_scale", _product_rule, setup_context=_both)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.op = pallas_scale
        self.weight = nn.Parameter(lt.tensor([2.0, 3.0, 4.0]))

    def forward(self, x):
        return self.op(x, self.weight)


@pytest.mark.parametrize("device", DEVICES)
def test_a_tensor_body_is_recorded_with_its_own_gradient(device):
    x = lt.tensor([1.0, 2.0], device=device, requires_grad=True)
    y = cube(x, by=2.0)
    y.sum().backward()
    assert y.tolist() == [2.0, 16.0]
    assert x.grad.tolist() == [6.0, 24.0]


@pytest.mark.parametrize("device", DEVICES)
def test_a_registered_gradient_is_the_one_used_by_tape_and_transforms(device):
    x = lt.tensor([1.0, 2.0], device=device, requires_grad=True)
    wrong_cube(x).sum().backward()
    assert x.grad.tolist() == [30.0, 120.0]
    d = x.detach()
    assert func.grad(lambda t: wrong_cube(t).sum())(d).tolist() == [30.0, 120.0]
    assert func.vmap(func.grad(wrong_cube))(d).tolist() == [30.0, 120.0]
    assert func.jvp(wrong_cube, (d,), (lt.ones(2, device=device),))[1].tolist() == [30.0, 120.0]
    assert func.jacfwd(wrong_cube)(d).diagonal().tolist() == [30.0, 120.0]
    assert func.jacrev(wrong_cube)(d).diagonal().tolist() == [30.0, 120.0]
    assert func.hessian(lambda t: wrong_cube(t).sum())(d).diagonal().tolist() == [60.0, 120.0]


@pytest.mark.parametrize("device", DEVICES)
def test_a_jax_body_has_jax_gradient_batching_and_forward_mode(device):
    x = lt.tensor([[0.5, -1.0], [2.0, 0.0]], dtype=lt.float64, device=device)
    expected = np.log1p(np.exp(2 * x.cpu().numpy())) / 2
    slope = 1 / (1 + np.exp(-2 * x.cpu().numpy()))
    close = lambda t, want: np.testing.assert_allclose(t.detach().cpu().numpy(), want, rtol=1e-12)
    close(soft(x, 2.0), expected)
    close(soft(x, beta=2.0, flip=True), -expected)
    t = x.clone().requires_grad_()
    soft(t, 2.0).sum().backward()
    close(t.grad, slope)
    close(func.vmap(lambda r: soft(r, 2.0), in_dims=1, out_dims=1)(x), expected)
    close(func.grad(lambda r: soft(r, 2.0).sum())(x), slope)
    close(func.jvp(lambda r: soft(r, 2.0), (x,), (lt.ones_like(x),))[1], slope)
    close(func.hessian(lambda r: soft(r, 2.0).sum())(x[0]).diagonal(), (2 * slope * (1 - slope))[0])


@pytest.mark.parametrize("device", DEVICES)
def test_a_pallas_kernel_works_under_tape_transforms_and_scan(device):
    x, y = lt.tensor([1.0, 2.0, 3.0], device=device), lt.tensor([4.0, 5.0, 6.0], device=device)
    assert pallas_scale(x, y).tolist() == [5.0, 11.0, 19.0]
    a = x.clone().requires_grad_()
    pallas_scale(a, y).sum().backward()
    assert a.grad.tolist() == [4.0, 5.0, 6.0]
    assert func.grad(lambda t: pallas_scale(t, y).sum())(x).tolist() == [4.0, 5.0, 6.0]
    assert func.vmap(pallas_scale, in_dims=(0, None))(lt.stack([x, 2 * x]), y).tolist() == [[5.0, 11.0, 19.0], [9.0, 21.0, 37.0]]
    assert func.jvp(pallas_scale, (x, y), (lt.ones_like(x), lt.ones_like(y)))[1].tolist() == [5.0, 7.0, 9.0]
    assert func.hessian(lambda p: pallas_scale(p, p).sum())(x).diagonal().tolist() == [2.0, 2.0, 2.0]

    def loss(w):
        carry, _ = lt.scan(lambda c, r: (pallas_scale(c, w), c), x, lt.zeros(3, 1, device=device))
        return carry.sum()
    w = y.clone().requires_grad_()
    loss(w).backward()

    def reference(v):
        c = x.cpu().numpy().astype(np.float64)
        for _ in range(3):
            c = c * v + 1
        return c.sum()
    base = y.cpu().numpy().astype(np.float64)
    want = [(reference(base + 1e-4 * e) - reference(base - 1e-4 * e)) / 2e-4 for e in np.eye(3)]
    np.testing.assert_allclose(w.grad.cpu().numpy(), want, rtol=1e-5)


def test_a_body_that_jax_cannot_differentiate_asks_for_a_formula():
    def body(x):
        def kernel(x_ref, o_ref):
            o_ref[...] = x_ref[...] * 2.0
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x)
    op = lt.library.custom_op("h7::no_formula", body, schema="(Tensor x) -> Tensor", body="jax")
    x = lt.ones(2, requires_grad=True)
    r = op(x)
    assert r.tolist() == [2.0, 2.0]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Trying to backward through h7::no_formula but .*jax cannot differentiate the body.*register_autograd"):
            op(x).sum().backward()
    assert lt.scan(lambda c, r: (op(c), c), x.detach(), lt.zeros(3, 1))[0].tolist() == [8.0, 8.0]
    assert func.jvp(op, (x.detach(),), (lt.ones(2),))[1].tolist() == [2.0, 2.0]     # jax has forward mode of this kernel
    with pytest.raises(RuntimeError, match="Trying to backward through h7::no_formula"):
        func.vmap(func.grad(lambda t: op(t).sum()))(lt.ones(2, 2))


def test_a_module_that_holds_an_operator_pickles_and_copies():
    layer = Layer()
    x = lt.tensor([1.0, 1.0, 1.0])
    for other in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer)):
        assert other.op is pallas_scale
        assert other(x).tolist() == [3.0, 4.0, 5.0]


def test_an_operator_is_reached_as_lt_ops_namespace_name():
    assert lt.ops.h7.cube is cube
    assert lt.ops.h7.cube.default is cube
    with pytest.raises(AttributeError, match="has no operator 'cub'; the nearest that exist: cube"):
        lt.ops.h7.cub
    with pytest.raises(AttributeError, match="no operator 'no_such_namespace::...'"):
        lt.ops.no_such_namespace
    with pytest.raises(ValueError, match="is a module of lazy_tensor.ops"):
        lt.library.custom_op("linalg::f", lambda x: x, schema="(Tensor x) -> Tensor")


@pytest.mark.parametrize("device", DEVICES)
def test_mutated_arguments_are_seen_by_the_caller(device):
    @lt.library.custom_op("h7::accumulate", mutates_args=("total",))
    def accumulate(total: Tensor, x: Tensor) -> None:
        total.add_(x)

    @lt.library.custom_op("h7::swap_max", mutates_args=("a", "b"), body="jax")
    def swap_max(a: Tensor, b: Tensor) -> Tensor:
        return a + b, jnp.maximum(a, b), jnp.minimum(a, b)
    total = lt.zeros(2, device=device)
    view = total[1:]
    assert accumulate(total, lt.tensor([1.0, 2.0], device=device)) is None
    assert total.tolist() == [1.0, 2.0]
    assert view.tolist() == [2.0]
    a, b = lt.tensor([1.0, 5.0], device=device), lt.tensor([3.0, 2.0], device=device)
    assert swap_max(a, b).tolist() == [4.0, 7.0]
    assert (a.tolist(), b.tolist()) == ([3.0, 5.0], [1.0, 2.0])

    def clipped(r):
        t = lt.zeros_like(r)
        accumulate(t, r)
        swap_max(t, lt.ones_like(t))
        return t + r
    rows = lt.tensor([[0.0, 2.0], [3.0, 0.5]], device=device)
    assert func.vmap(clipped)(rows).tolist() == [[1.0, 4.0], [6.0, 1.5]]
    assert func.grad(lambda r: clipped(r).sum())(rows[0]).tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="non-functional operator"):
        accumulate.register_autograd(lambda ctx, g: (g, g))
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        swap_max(lt.ones(2, device=device, requires_grad=True), b)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("body", ("tensors", "jax"))
def test_a_registered_batching_rule_is_used(device, body):
    calls = []

    def double(x: Tensor, by: float) -> Tensor:
        return x * by
    op = lt.library.custom_op(f"h7::double_{body}", double, body=body)

    @op.register_vmap
    def rule(info, in_dims, x, by):
        calls.append((info.batch_size, in_dims))
        return op(x, by) + 100, in_dims[0]     # seen in the values
    x = lt.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], device=device)
    assert op(x, 2.0).tolist() == [[2.0, 4.0], [6.0, 8.0], [10.0, 12.0]]
    assert func.vmap(lambda r: op(r, 2.0), in_dims=1, out_dims=1)(x).tolist() == [[102.0, 104.0], [106.0, 108.0], [110.0, 112.0]]
    assert calls[-1] == (2, (0, None))
    assert func.grad(lambda t: op(t, 2.0).sum())(x[0]).tolist() == [2.0, 2.0]
    assert func.vmap(func.grad(lambda t: op(t, 2.0).sum()))(x).tolist() == [[2.0, 2.0]] * 3


def test_lists_optional_tensors_and_keywords_get_gradients_in_their_structure():
    seen = []

    @lt.library.custom_op("h7::weighted")
    def weighted(xs: list[Tensor], bias: Tensor | None, k: int, *, scale: float = 1.0) -> list[Tensor]:
        return [x * k * scale + (0 if bias is None else bias) for x in xs]

    def setup(ctx, inputs, keyword_only_inputs, output):
        seen.append((len(inputs[0]), inputs[2], keyword_only_inputs, len(output), ctx.needs_input_grad))
        ctx.k, ctx.scale = inputs[2], keyword_only_inputs["scale"]

    def backward(ctx, grads):
        return [7 * g * ctx.k * ctx.scale for g in grads], sum(grads), None
    weighted.register_autograd(backward, setup_context=setup)
    a, b, c = (lt.ones(2, requires_grad=True) for _ in range(3))
    out = weighted([a, b], c, 3, scale=0.5)
    assert isinstance(out, list)
    assert out[1].tolist() == [2.5, 2.5]
    (out[0].sum() + 2 * out[1].sum()).backward()
    assert (a.grad.tolist(), b.grad.tolist(), c.grad.tolist()) == ([10.5] * 2, [21.0] * 2, [3.0] * 2)
    assert seen == [(2, 3, {"scale": 0.5}, 2, ([True, True], True, False))]
    assert weighted([a.detach()], None, 2)[0].tolist() == [2.0, 2.0]


def test_forward_mode_can_have_a_rule_of_its_own():
    op = lt.library.custom_op("h7::square_jvp", lambda x: x * x, schema="(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="call register_autograd first"):
        op.register_jvp(lambda ctx, t: t)
    op.register_autograd(lambda ctx, g: 2 * ctx.saved_tensors[0] * g, setup_context=_keep)
    op.register_jvp(lambda ctx, t: 5 * ctx.saved_tensors[0] * t)
    x = lt.tensor([3.0])
    assert func.jvp(op, (x,), (lt.ones(1),))[1].tolist() == [15.0]
    assert func.grad(lambda t: op(t).sum())(x).tolist() == [6.0]


def test_a_fake_is_checked_against_the_result():
    op = lt.library.custom_op("h7::faked", lambda x: x.sum(0), schema="(Tensor x) -> Tensor")
    op.register_fake(lambda x: x.new_empty(x.shape[1:]))
    assert op(lt.ones(2, 3)).tolist() == [2.0, 2.0, 2.0]
    op.register_fake(lambda x: lt.empty_like(x))
    with pytest.raises(RuntimeError, match=r"h7::faked: the registered fake gives .*2, 3.* and the operator .*\(3,\)"):
        op(lt.ones(2, 3))


def test_kernels_by_device_type():
    op = lt.library.custom_op("h7::where_am_i", lambda x: x + 1, schema="(Tensor x) -> Tensor", device_types="cpu")
    assert op(lt.zeros(1)).tolist() == [1.0]
    with pytest.raises(NotImplementedError, match="Could not run 'h7::where_am_i' with arguments from the 'xla.*it has kernels for cpu"):
        op(lt.zeros(1, device="xla"))
    op.register_kernel("xla", body="jax")(lambda x: x + 2)
    assert op(lt.zeros(1, device="xla")).tolist() == [2.0]
    assert op(lt.zeros(1)).tolist() == [1.0]


def test_autocast_casts_the_inputs_that_were_registered():
    seen = []

    def body(x, xs):
        seen.append((x.dtype, xs[0].dtype, lt.matmul(x, x).dtype))
        return x + xs[0]
    op = lt.library.custom_op("h7::cast", body, schema="(Tensor x, Tensor[] xs) -> Tensor")
    op.register_autocast("cpu", lt.bfloat16)
    x = lt.ones(2)
    assert op(x, [x]).dtype == lt.float32
    with lt.autocast("cpu", dtype=lt.float16):
        assert op(x, [x]).dtype == lt.bfloat16
    assert seen == [(lt.float32,) * 3, (lt.bfloat16,) * 3]     # the last: autocast is off in the body


def test_defaults_that_are_not_literals_stay_as_they_are():
    def body(x: Tensor, *, n: lt.types.Number = 2, to: lt.dtype = lt.float64, ks: list[int] = (1, 2)) -> Tensor:
        return (x * n).astype(to) + ks[0]
    op = lt.library.custom_op("h7::defaults", body, body="jax")
    x = lt.ones(2)
    assert (op(x).tolist(), op(x).dtype) == ([3.0, 3.0], lt.float64)
    assert op(x, n=3.5, to=lt.float32, ks=[4]).tolist() == [7.5, 7.5]
    same = lt.library.custom_op("h7::defaults", body, body="jax", schema="(Tensor x, *, Scalar n=2, ScalarType to=float64, int[] ks=[1, 2]) -> Tensor")
    assert same(x).dtype == lt.float64


def test_library_define_and_impl():
    lib = lt.library.Library("h7lib", "DEF")
    assert lib.define("add_scaled(Tensor x, Tensor y, *, Scalar alpha=1) -> Tensor") == "add_scaled"
    with pytest.raises(NotImplementedError, match="it has no kernel"):
        lt.ops.h7lib.add_scaled(lt.ones(1), lt.ones(1))
    lib.impl("add_scaled", lambda x, y, *, alpha: x + alpha * y, "CPU")
    lib.impl("add_scaled", lambda x, y, *, alpha: x + alpha * y, "CUDA", body="jax")
    for device in DEVICES:
        assert lt.ops.h7lib.add_scaled(lt.ones(1, device=device), lt.ones(1, device=device), alpha=3).tolist() == [4.0]
    with pytest.raises(NotImplementedError, match="no dispatch key 'AutogradCPU'"):
        lib.impl("add_scaled", lambda x: x, "AutogradCPU")
    lt.library.define("h7lib::pair", "(Tensor x) -> (Tensor, Tensor)")
    lt.library.impl("h7lib::pair", "default")(lambda x: (x + 1, x + 2))
    assert [t.item() for t in lt.ops.h7lib.pair(lt.zeros(()))] == [1.0, 2.0]


def test_wrong_calls_and_signatures_are_refused():
    x = lt.ones(2)
    with pytest.raises(RuntimeError, match=r"h7::cube\(\) Expected a value of type 'Tensor' for argument 'x' but instead found type 'int'"):
        cube(3)
    with pytest.raises(RuntimeError, match="Expected a value of type 'float' for argument 'by' but instead found type 'str'"):
        cube(x, "s")
    with pytest.raises(RuntimeError, match=r"h7::soft\(\) is missing value for argument 'beta'"):
        soft(x)
    with pytest.raises(RuntimeError, match="Unknown keyword argument 'zz' for operator 'h7::cube'"):
        cube(x, zz=1)
    with pytest.raises(RuntimeError, match="must not also be an input"):
        lt.library.custom_op("h7::same", lambda x: x, schema="(Tensor x) -> Tensor")(x)
    with pytest.raises(RuntimeError, match="the body returned tuple of 2"):
        lt.library.custom_op("h7::two", lambda x: (x, x), schema="(Tensor x) -> Tensor")(x)
    with pytest.raises(ValueError, match="'namespace::name', got 'name'"):
        lt.library.custom_op("name", lambda x: x, schema="(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="Parameter x must have a type annotation"):
        lt.library.custom_op("h7::bare", lambda x: x)
    with pytest.raises(AttributeError, match="module 'lazy_tensor.library' has no attribute 'custom_opp'; the nearest that exist: custom_op"):
        lt.library.custom_opp
    with pytest.raises(RuntimeError, match="no operator 'h7::cub' is registered; the nearest that exist: h7::cube"):
        lt.library.register_fake("h7::cub", cube)


def test_infer_schema_writes_what_torch_writes():
    def f(x: Tensor, y: Tensor | None, xs: list[Tensor], a: float = 2.0, *, n: int = 1) -> list[Tensor]:
        return xs
    assert lt.library.infer_schema(f) == "(Tensor x, Tensor? y, Tensor[] xs, float a=2.0, *, SymInt n=1) -> Tensor[]"
    with pytest.raises(ValueError, match="{'q'} in mutates_args were not found"):
        lt.library.infer_schema(f, mutates_args=("q",))

    def g(x: Tensor, z: dict) -> Tensor:
        return x
    with pytest.raises(ValueError, match="Parameter z has unsupported type"):
        lt.library.infer_schema(g)


def test_opcheck_finds_what_is_wrong():
    x = lt.tensor([0.5, 1.5], dtype=lt.float64, requires_grad=True)
    good = dict.fromkeys(("test_schema", "test_faketensor", "test_autograd_registration", "test_gradcheck"), "SUCCESS")
    assert lt.library.opcheck(cube, (x,), {"by": 2.0}) == good
    assert lt.library.opcheck(soft, (x, 2.0)) == good
    assert lt.library.opcheck(pallas_scale, (x, x.detach())) == good
    with pytest.raises(Exception, match=r"opcheck\(h7::wrong_cube\): test_gradcheck failed"):
        lt.library.opcheck(wrong_cube, (x,))
    sly = lt.library.custom_op("h7::sly", lambda x: x.add_(1).clone(), schema="(Tensor x) -> Tensor")
    found = lt.library.opcheck(sly, (lt.ones(2),), raise_exception=False)
    assert "not in mutates_args" in str(found["test_schema"])
    sly = lt.library.custom_op("h7::alias", lambda x: x[:1], schema="(Tensor x) -> Tensor")
    assert "view of an input" in str(lt.library.opcheck(sly, (lt.ones(2),), raise_exception=False)["test_schema"])

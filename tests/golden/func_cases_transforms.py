"""torch.func: the transforms (see func_cases.py)."""
from __future__ import annotations

import collections

from func_cases import Pair, case

transforms = case("transforms")


def quick(group, table):
    for name, fn in table.items():
        fn.__name__ = name
        case(group)(fn)


def F(e):
    return e.torch.func


quick("transforms", {
    "grad": lambda e: F(e).grad(lambda a: (a.sin() * a).sum())(e.x),
    "grad_twice": lambda e: F(e).grad(F(e).grad(e.torch.sin))(e.x[0]),
    "grad_thrice": lambda e: F(e).grad(F(e).grad(F(e).grad(lambda a: a ** 4)))(e.x[1]),
    "grad_aux": lambda e: F(e).grad(lambda a: (a.sum(), a * 2), has_aux=True)(e.x),
    "grad_aux_not_a_pair": lambda e: F(e).grad(lambda a: a.sum(), has_aux=True)(e.x),
    "grad_and_value": lambda e: F(e).grad_and_value(lambda a, b: (a * b).sum(), argnums=(0, 1))(e.x, e.z),
    "grad_and_value_aux": lambda e: F(e).grad_and_value(lambda a: (a.sum(), a * 2), has_aux=True)(e.x),
    "grad_dict_order": lambda e: F(e).grad(lambda p: (p["b"] * p["a"]).sum())({"b": e.x, "a": e.z}),
    "grad_ordereddict": lambda e: F(e).grad(lambda p: (p["b"] * p["a"]).sum())(collections.OrderedDict(b=e.x, a=e.z)),
    "grad_namedtuple": lambda e: F(e).grad(lambda p: (p.left * p.right).sum())(Pair(e.x, e.z)),
    "grad_list": lambda e: F(e).grad(lambda p: (p[0] * p[1][0]).sum())([e.x, (e.z,)]),
    "grad_none_leaf": lambda e: F(e).grad(lambda p: (p[0] * 2).sum())((e.x, None)),
    "grad_negative_argnum": lambda e: F(e).grad(lambda a, b: (a * b * b).sum(), argnums=-1)(e.x, e.z),
    "grad_argnum_out_of_range": lambda e: F(e).grad(lambda a: a.sum(), argnums=1)(e.x),
    "grad_argnums_twice": lambda e: F(e).grad(lambda a, b: a.sum(), argnums=(0, 0))(e.x, e.z),
    "grad_of_integers": lambda e: F(e).grad(lambda a: a.sum().float())(e.torch.arange(3, device=e.dev)),
    "grad_integer_output": lambda e: F(e).grad(lambda a: a.sum().long())(e.x),
    "grad_vector_output": lambda e: F(e).grad(lambda a: a)(e.x),
    "grad_one_element": lambda e: F(e).grad(lambda a: a.sum().reshape(1))(e.x),
    "grad_number_output": lambda e: F(e).grad(lambda a: 3)(e.x),
    "grad_unused": lambda e: F(e).grad(lambda a, b: a.sum(), argnums=1)(e.x, e.z),
    "grad_constant": lambda e: F(e).grad(lambda a: e.torch.ones((), device=e.dev))(e.x),
    "grad_kwargs": lambda e: F(e).grad(lambda a, k: (a * k).sum())(e.x, k=e.z),
    "grad_empty": lambda e: F(e).grad(lambda a: a.sum())(e.x[:0]),
    "grad_float64": lambda e: F(e).grad(lambda a: a.exp().sum())(e.T(3, dtype="float64")),
    "grad_bfloat16": lambda e: F(e).grad(lambda a: (a * a).sum())(e.T(3, dtype="bfloat16")),
    "grad_complex": lambda e: F(e).grad(lambda a: (a.abs() ** 2).sum())(e.torch.complex(e.x, e.z)),
    "grad_complex_output": lambda e: F(e).grad(lambda a: a.sum())(e.torch.complex(e.x, e.z)),
    "grad_of_a_function_with_item": lambda e: F(e).grad(lambda a: a.sum() * a[0].detach().item())(e.x),
    "grad_branch_on_value": lambda e: F(e).grad(lambda a: (a * a).sum() if a.sum() > 0 else a.sum())(e.x),
    "jacrev": lambda e: F(e).jacrev(lambda a: e.W @ a.sin())(e.x),
    "jacfwd": lambda e: F(e).jacfwd(lambda a: e.W @ a.sin())(e.x),
    "jacrev_matrix": lambda e: F(e).jacrev(lambda a: a.t() @ a)(e.y[:2]),
    "jacfwd_matrix": lambda e: F(e).jacfwd(lambda a: a.t() @ a)(e.y[:2]),
    "jacrev_several": lambda e: F(e).jacrev(lambda a, b: (a * b, (a + b).sum()), argnums=(0, 1))(e.x, e.z),
    "jacfwd_several": lambda e: F(e).jacfwd(lambda a, b: (a * b, (a + b).sum()), argnums=(0, 1))(e.x, e.z),
    "jacrev_dict": lambda e: F(e).jacrev(lambda p: {"o": p["b"] * p["a"], "c": p["a"].sum()})({"b": e.x, "a": e.z}),
    "jacfwd_dict": lambda e: F(e).jacfwd(lambda p: {"o": p["b"] * p["a"], "c": p["a"].sum()})({"b": e.x, "a": e.z}),
    "jacrev_aux": lambda e: F(e).jacrev(lambda a: (a * 2, a.sum()), has_aux=True)(e.x),
    "jacfwd_aux": lambda e: F(e).jacfwd(lambda a: (a * 2, a.sum()), has_aux=True)(e.x),
    "jacrev_chunks": lambda e: F(e).jacrev(lambda a: e.W @ a.sin(), chunk_size=2)(e.x),
    "jacrev_chunk_zero": lambda e: F(e).jacrev(lambda a: a, chunk_size=0)(e.x),
    "jacrev_tuple_of_one": lambda e: F(e).jacrev(lambda a: (a,), argnums=(0,))(e.x),
    "jacfwd_randomness": lambda e: F(e).jacfwd(lambda a: a * e.torch.rand(3, device=e.dev))(e.x),
    "jacrev_empty": lambda e: F(e).jacrev(lambda a: a * 2)(e.x[:0]),
    "hessian": lambda e: F(e).hessian(lambda a: (e.W @ a.sin()).pow(2).sum())(e.x),
    "hessian_two_args": lambda e: F(e).hessian(lambda a, b: (a * b * b).sum(), argnums=(0, 1))(e.x, e.z),
    "jacrev_jacrev": lambda e: F(e).jacrev(F(e).jacrev(lambda a: (e.W @ a.sin()).pow(2).sum()))(e.x),
    "jacfwd_jacfwd": lambda e: F(e).jacfwd(F(e).jacfwd(lambda a: (e.W @ a.sin()).pow(2).sum()))(e.x),
    "jacrev_jacfwd": lambda e: F(e).jacrev(F(e).jacfwd(lambda a: (e.W @ a.sin()).pow(2).sum()))(e.x),
    "jvp": lambda e: F(e).jvp(lambda a: (a.exp(), a.sum()), (e.x,), (e.z,)),
    "jvp_aux": lambda e: F(e).jvp(lambda a: (a.exp(), a.sum()), (e.x,), (e.z,), has_aux=True),
    "jvp_nested": lambda e: F(e).jvp(lambda a: F(e).jvp(e.torch.sin, (a,), (e.z,))[1], (e.x,), (e.y[1],)),
    "jvp_complex": lambda e: F(e).jvp(lambda a: a * a.conj(), (e.torch.complex(e.x, e.z),), (e.torch.complex(e.z, e.x),)),
    "jvp_not_tuples": lambda e: F(e).jvp(e.torch.sin, e.x, e.z),
    "jvp_wrong_shape": lambda e: F(e).jvp(e.torch.sin, (e.x,), (e.y,)),
    "jvp_wrong_structure": lambda e: F(e).jvp(e.torch.sin, (e.x,), (e.z, e.z)),
    "jvp_constant": lambda e: F(e).jvp(lambda a: e.z * 2, (e.x,), (e.z,)),
    "jvp_under_no_grad_inside": lambda e: F(e).jvp(lambda a: a * a.detach(), (e.x,), (e.z,)),
    "vjp_call": lambda e: (lambda o, f: (o, f((e.y[1], e.y[2]))))(*F(e).vjp(lambda a, b: (a * b, a + b), e.x, e.z)),
    "vjp_one": lambda e: F(e).vjp(lambda a: a.sin(), e.x)[1](e.z),
    "vjp_aux": lambda e: (lambda o, f, a: (o, f(e.z), a))(*F(e).vjp(lambda a: (a.sin(), a.sum()), e.x, has_aux=True)),
    "vjp_wrong_shape": lambda e: F(e).vjp(lambda a: a.sin(), e.x)[1](e.y),
    "vjp_wrong_structure": lambda e: F(e).vjp(lambda a: (a.sin(), a), e.x)[1](e.x),
    "vjp_under_vmap": lambda e: F(e).vmap(F(e).vjp(lambda a: a.sin(), e.x)[1])(e.y),
    "vjp_dict": lambda e: (lambda o, f: f({"o": e.z}))(*F(e).vjp(lambda p: {"o": p["b"] * p["a"]}, {"b": e.x, "a": e.z})),
    "linearize": lambda e: (lambda o, f: (o, f(e.z)))(*F(e).linearize(lambda a: a.sin(), e.x)),
    "per_sample_grads": lambda e: F(e).vmap(F(e).grad(lambda w, a: (w @ a).tanh().sum()), in_dims=(None, 0))(e.W, e.y),
    "vmap_hessian": lambda e: F(e).vmap(F(e).hessian(lambda a: (a ** 3).sum()))(e.y),
    "grad_of_vmap": lambda e: F(e).grad(lambda w: F(e).vmap(lambda a: (w * a).sin().sum())(e.y).sum())(e.x),
    "grad_no_grad_inside": lambda e: F(e).grad(lambda a: (a * _no_grad(e, lambda: a * 2)).sum())(e.x),
    "grad_under_no_grad": lambda e: _no_grad(e, lambda: F(e).grad(lambda a: (a * a).sum())(e.x)),
    "jvp_under_no_grad": lambda e: _no_grad(e, lambda: F(e).jvp(lambda a: a * a, (e.x,), (e.z,))),
    "grad_of_detach": lambda e: F(e).grad(lambda a: (a * a.detach()).sum())(e.x),
    "jvp_of_inplace": lambda e: F(e).jvp(_inplace, (e.x,), (e.z,)),
    "grad_of_inplace": lambda e: F(e).grad(_inplace)(e.x),
    "vmap_of_inplace": lambda e: F(e).vmap(_inplace)(e.y),
    "maml": lambda e: F(e).grad(lambda w: ((w - 0.1 * F(e).grad(lambda v: ((v * e.z).sum() - 1) ** 2)(w)) * e.y[1]).sum() ** 2)(e.x),
})


def _no_grad(e, f):
    with e.torch.no_grad():
        return f()


def _inplace(a):
    b = a * 1
    b.mul_(2)
    b[0] = a[1] * 3
    b.view(-1)[2:].add_(a[0])
    return b.pow(2).sum()


@transforms
def grad_under_inference_mode(e):
    with e.torch.inference_mode():
        return F(e).grad(lambda a: (a * a).sum())(e.x).tolist()


@transforms
def outer_tape(e):
    w = e.x.clone().requires_grad_()
    r = F(e).grad(lambda a: (a ** 3).sum())(w)
    r.sum().backward()
    return r.requires_grad, w.grad


@transforms
def closure_on_the_tape(e):
    w = e.x.clone().requires_grad_()
    r = F(e).grad(lambda a: (a ** 2 * w).sum())(e.z)
    r.sum().backward()
    return r.requires_grad, w.grad


@transforms
def vmap_closure_on_the_tape(e):
    w = e.x.clone().requires_grad_()
    r = F(e).vmap(lambda a: (a * w).sin())(e.y)
    r.sum().backward()
    return r, w.grad


@transforms
def jvp_outer_tape(e):
    w = e.x.clone().requires_grad_()
    o, t = F(e).jvp(lambda a: a ** 3, (w,), (e.z,))
    t.sum().backward()
    return o, t, w.grad


@transforms
def raising_in_the_middle_leaves_all_well(e):
    def bad(a):
        F(e).grad(lambda b: (b * a).sum())(a)
        raise KeyError("on purpose")
    for t in (F(e).grad(bad), F(e).jacfwd(bad), F(e).vmap(bad), F(e).vmap(F(e).grad(bad))):
        try:
            t(e.y if t is not None else e.x)
        except KeyError:
            pass
    w = e.x.clone().requires_grad_()
    (w * w).sum().backward()
    return w.grad, e.torch.is_grad_enabled(), F(e).vmap(F(e).grad(lambda a: (a * a).sum()))(e.y)


quick("vmap", {
    "out_dims": lambda e: F(e).vmap(lambda a: (a, a.sum()), out_dims=(1, 0))(e.y),
    "out_dims_negative": lambda e: F(e).vmap(lambda a: a, out_dims=-1)(e.y),
    "out_dims_none": lambda e: F(e).vmap(lambda a: (a, e.z), out_dims=(0, None))(e.y),
    "out_dims_none_batched": lambda e: F(e).vmap(lambda a: a, out_dims=None)(e.y),
    "out_dims_wrong_count": lambda e: F(e).vmap(lambda a: (a, a), out_dims=(0, 0, 0))(e.y),
    "out_dims_too_big": lambda e: F(e).vmap(lambda a: a, out_dims=2)(e.y),
    "in_dims": lambda e: F(e).vmap(lambda a, b: a * b, in_dims=(1, None))(e.y, e.T(4)),
    "in_dims_negative": lambda e: F(e).vmap(lambda a: a.sum(), in_dims=-1)(e.T(2, 3, 4)),
    "in_dims_nested": lambda e: F(e).vmap(lambda d, c: d["k"][0] * d["k"][1] + c, in_dims=({"k": (0, 1)}, None))({"k": (e.y, e.T(3, 4))}, e.z),
    "in_dims_all_none": lambda e: F(e).vmap(lambda a: a, in_dims=None)(e.x),
    "in_dims_all_none_tuple": lambda e: F(e).vmap(lambda a: a, in_dims=(None,))(e.x),
    "in_dims_out_of_range": lambda e: F(e).vmap(lambda a: a, in_dims=3)(e.x),
    "in_dims_wrong_type": lambda e: F(e).vmap(lambda a: a, in_dims="0")(e.x),
    "in_dims_list": lambda e: F(e).vmap(lambda a, b: a * b, in_dims=[0, None])(e.y, e.x),
    "in_dims_wrong_count": lambda e: F(e).vmap(lambda a, b: a * b, in_dims=(0,))(e.y, e.x),
    "no_arguments": lambda e: F(e).vmap(lambda: e.x)(),
    "number_argument": lambda e: F(e).vmap(lambda a: a, in_dims=0)(3),
    "number_not_mapped": lambda e: F(e).vmap(lambda a, b: a * b, in_dims=(0, None))(e.y, 3),
    "sizes_differ": lambda e: F(e).vmap(lambda a, b: a)(e.x, e.y),
    "scalar_argument": lambda e: F(e).vmap(lambda a: a)(e.x[0]),
    "empty_batch": lambda e: F(e).vmap(lambda a: a.sum())(e.y[:0]),
    "returns_number": lambda e: F(e).vmap(lambda a: 3)(e.y),
    "returns_none": lambda e: F(e).vmap(lambda a: None)(e.y),
    "returns_dict": lambda e: F(e).vmap(lambda a: {"z": a, "b": [a.sum()]})(e.y),
    "returns_namedtuple": lambda e: F(e).vmap(lambda a: Pair(a, a.sum()))(e.y),
    "returns_unbatched": lambda e: F(e).vmap(lambda a: e.z)(e.y),
    "kwargs_are_shared": lambda e: F(e).vmap(lambda a, k: a * k)(e.y, k=e.T(4)),
    "chunks": lambda e: F(e).vmap(lambda a: (a.sum(), a), out_dims=(0, 1), chunk_size=3)(e.y),
    "chunk_bigger": lambda e: F(e).vmap(lambda a: a.sum(), chunk_size=30)(e.y),
    "chunk_zero": lambda e: F(e).vmap(lambda a: a.sum(), chunk_size=0)(e.y),
    "nested": lambda e: F(e).vmap(F(e).vmap(lambda a, b: a * b, in_dims=(0, None)), in_dims=(None, 0))(e.x, e.z),
    "nested_thrice": lambda e: F(e).vmap(F(e).vmap(F(e).vmap(lambda a: a.sin(), out_dims=0), in_dims=1, out_dims=1), in_dims=2, out_dims=2)(e.T(2, 3, 4)),
    "item": lambda e: F(e).vmap(lambda a: a * a.sum().item())(e.y),
    "branch": lambda e: F(e).vmap(lambda a: a if a.sum() > 0 else -a)(e.y),
    "bad_randomness": lambda e: F(e).vmap(lambda a: a, randomness="other")(e.y),
    "random_is_an_error": lambda e: F(e).vmap(lambda a: a + e.torch.rand(3, device=e.dev))(e.y),
    "dropout_is_an_error": lambda e: F(e).vmap(lambda a: e.torch.nn.functional.dropout(a))(e.y),
    "random_in_inner_error": lambda e: F(e).vmap(F(e).vmap(lambda a: a + e.torch.rand((), device=e.dev)), randomness="same")(e.y),
    "index_by_batched": lambda e: F(e).vmap(lambda a, i: a[i])(e.y, e.torch.tensor([0, 1, 2, 0], device=e.dev)),
    "index_unbatched_by_batched": lambda e: F(e).vmap(lambda i: e.W[i])(e.torch.tensor([[0, 1], [4, 2]], device=e.dev)),
    "gather": lambda e: F(e).vmap(lambda a, i: a.gather(0, i))(e.y, e.torch.tensor([[0], [1], [2], [0]], device=e.dev)),
    "index_put": lambda e: F(e).vmap(lambda a, i: a.clone().index_put_((i,), a[0] * 2))(e.y, e.torch.tensor([[0], [1], [2], [0]], device=e.dev)),
    "scatter_add": lambda e: F(e).vmap(lambda a, i: a.scatter_add(0, i, a))(e.y, e.torch.zeros(4, 3, dtype=e.torch.int64, device=e.dev)),
    "masked_fill": lambda e: F(e).vmap(lambda a: a.masked_fill(a > 0, -1.0))(e.y),
    "where": lambda e: F(e).vmap(lambda a: e.torch.where(a > 0, a, a.new_zeros(())))(e.y),
    "nonzero": lambda e: F(e).vmap(lambda a: a.nonzero())(e.y),
    "sort": lambda e: F(e).vmap(lambda a: tuple(a.sort(descending=True)))(e.y),
    "topk": lambda e: F(e).vmap(lambda a: a.topk(2).values)(e.y),
    "argmax": lambda e: F(e).vmap(lambda a: a.argmax())(e.y),
    "cumsum_integers": lambda e: F(e).vmap(lambda a: a.cumsum(0))(e.torch.arange(6, device=e.dev).reshape(2, 3)),
    "integer_division": lambda e: F(e).vmap(lambda a: (a // 2, a / 2))(e.torch.arange(6, device=e.dev)),
    "shape_and_dim": lambda e: F(e).vmap(lambda a: a * a.shape[0] + a.dim())(e.y),
    "reshape": lambda e: F(e).vmap(lambda a: a.reshape(-1, 1).expand(3, 2).t(), in_dims=1)(e.T(3, 4)),
    "inverse": lambda e: F(e).vmap(e.torch.linalg.inv)(e.T(2, 3, 3) + 3 * e.torch.eye(3, device=e.dev)),
    "einsum": lambda e: F(e).vmap(lambda a: e.torch.einsum("i,j->ij", a, a))(e.y),
    "complex": lambda e: F(e).vmap(lambda a: a.abs())(e.torch.complex(e.y, e.y)),
    "fft": lambda e: F(e).vmap(lambda a: e.torch.fft.fft(a).abs())(e.y),
    "float64": lambda e: F(e).vmap(lambda a: a.sum())(e.T(2, 3, dtype="float64")),
    "write_to_argument": lambda e: F(e).vmap(lambda a: a.mul_(2))(e.y.clone()),
    "cat_and_stack": lambda e: F(e).vmap(lambda a: e.torch.cat([e.torch.stack([a, e.z]), a[None]]))(e.y),
    "type_promotion": lambda e: F(e).vmap(lambda a, b: a + b)(e.torch.arange(3, device=e.dev), e.x),
    "scalar_promotion": lambda e: F(e).vmap(lambda a: a * e.torch.ones(2, dtype=e.torch.float16, device=e.dev))(e.x),
})

vmap = case("vmap")


@vmap
def argument_written_is_seen_outside(e):
    v = e.y.clone()
    F(e).vmap(lambda a: a.mul_(2))(v)
    return v


@vmap
def randomness_same_and_different(e):
    def patterns(mode):
        r = F(e).vmap(lambda a: e.torch.rand(50, device=e.dev) + 0 * a.sum(), randomness=mode)(e.y)
        return bool((r[0] == r[1]).all())
    return patterns("same"), patterns("different")


@vmap
def dropout_same_and_different(e):
    ones = e.torch.ones(4, 200, device=e.dev)
    drop = [F(e).vmap(lambda a: e.torch.nn.functional.dropout(a), randomness=mode)(ones) for mode in ("same", "different")]
    return [bool((r[0] == r[1]).all()) for r in drop]


@vmap
def nested_randomness(e):
    def inner(mode):
        return F(e).vmap(lambda a: a * 0 + e.torch.rand(20, device=e.dev), randomness=mode)
    out = []
    for a in ("same", "different"):
        for b in ("same", "different"):
            r = F(e).vmap(inner(b), randomness=a)(e.torch.zeros(2, 2, 20, device=e.dev))
            out.append([bool((r[0] == r[1]).all()), bool((r[:, 0] == r[:, 1]).all())])
    return out


modules = case("modules")


def _model(e):
    nn = e.torch.nn
    return e.fill(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))


@modules
def functional_call_grads(e):
    m = _model(e)
    ps = {k: v.detach() for k, v in m.named_parameters()}

    def loss(ps, a):
        return F(e).functional_call(m, ps, (a,)).sum()
    return F(e).vmap(F(e).grad(loss), in_dims=(None, 0))(ps, e.y), F(e).grad(loss)(ps, e.x)


@modules
def stacked_models(e):
    ms = [e.torch.nn.Linear(3, 2).to(e.dev) for _ in range(3)]
    with e.torch.no_grad():
        for i, m in enumerate(ms):
            for p in m.parameters():
                p.copy_(e.T(*p.shape, seed=i))
    ps, bs = F(e).stack_module_state(ms)
    return ps, bs, F(e).vmap(lambda p, b, a: F(e).functional_call(ms[0], (p, b), (a,)), in_dims=(0, 0, None))(ps, bs, e.y)


@modules
def stack_nothing(e):
    return F(e).stack_module_state([])


@modules
def stack_different(e):
    return F(e).stack_module_state([e.torch.nn.Linear(2, 2), e.torch.nn.Tanh()])


LAYERS = {
    "BatchNorm1d": (lambda nn: nn.BatchNorm1d(3, track_running_stats=False), (2, 5, 3)),
    "BatchNorm2d_eval": (lambda nn: nn.BatchNorm2d(2).eval(), (2, 3, 2, 4, 4)),
    "LayerNorm": (lambda nn: nn.LayerNorm(3), (4, 2, 3)),
    "GroupNorm": (lambda nn: nn.GroupNorm(2, 4), (2, 3, 4, 5)),
    "MultiheadAttention": (lambda nn: nn.MultiheadAttention(4, 2, batch_first=True), (2, 3, 5, 4)),
    "GRUCell": (lambda nn: nn.GRUCell(3, 4), (2, 5, 3)),
    "Conv1d": (lambda nn: nn.Conv1d(2, 4, 3, padding=1, groups=2), (2, 3, 2, 6)),
    "Conv2d": (lambda nn: nn.Conv2d(2, 3, 3, stride=2), (2, 3, 2, 7, 7)),
    "ConvTranspose1d": (lambda nn: nn.ConvTranspose1d(2, 3, 3, stride=2), (2, 3, 2, 6)),
    "MaxPool2d": (lambda nn: nn.MaxPool2d(2), (2, 3, 2, 4, 4)),
    "AdaptiveAvgPool1d": (lambda nn: nn.AdaptiveAvgPool1d(2), (2, 3, 2, 6)),
    "Flatten": (lambda nn: nn.Flatten(), (2, 3, 2, 6)),
}


def _layer(name, how):
    def run(e):
        make, shape = LAYERS[name]
        m = e.fill(make(e.torch.nn))
        data, tangent = e.T(*shape), e.T(*shape, seed=3)

        def f(a):
            return m(a, a, a)[0] if name == "MultiheadAttention" else m(a)
        if how == "vmap":
            return F(e).vmap(f)(data)
        if how == "jvp":
            return F(e).jvp(f, (data[0],), (tangent[0],))
        return F(e).vmap(F(e).grad(lambda a: f(a).pow(3).sum()))(data)
    run.__name__ = f"{name}_{how}"
    return run


for _name in LAYERS:
    for _how in ("vmap", "jvp", "vmap_grad"):
        if (_name, _how) != ("GRUCell", "vmap_grad"):  # torch has no batching rule for its backward
            modules(_layer(_name, _how))

ACTIVATIONS = ("relu", "gelu", "silu", "mish", "elu", "selu", "celu", "softplus", "tanh", "sigmoid", "logsigmoid", "hardtanh", "hardswish",
               "softsign", "leaky_relu", "tanhshrink", "softshrink", "hardshrink", "relu6")


def _hessian(name):
    def run(e):
        f = getattr(e.torch.nn.functional, name)
        return F(e).hessian(lambda a: (f(a) * a).sum())(e.x), F(e).jvp(f, (e.x,), (e.z,))
    run.__name__ = f"hessian_{name}"
    return run


for _name in ACTIVATIONS:
    modules(_hessian(_name))

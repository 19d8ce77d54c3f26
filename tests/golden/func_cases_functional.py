"""torch.autograd.functional and forward_ad (see func_cases.py)."""
from __future__ import annotations

from func_cases import case


def _functions(e):
    return {
        "vector": (lambda a: e.W @ a.sin(), e.x, e.T(5)),
        "pair": (lambda a, b: (a * b, (a * a + b).sum()), (e.x, e.z), (e.z, e.x[0])),
        "scalar": (lambda a: (e.W @ a.sin()).pow(2).sum(), e.x, None),
        "scalar2": (lambda a, b: (a * b * b).sum() + a.pow(3).sum(), (e.x, e.z), None),
        "linear": (lambda a: a.sum(), e.x, None),
        "unused": (lambda a, b: (a * a).sum(), (e.x, e.z), None),
        "independent": (lambda a, b: (a * 2, b.sum()), (e.x, e.z), (e.x, e.z[0])),
        "constant": (lambda a: e.torch.ones(2, device=e.dev), e.x, e.T(2)),
        "lists": (lambda a: [a], e.x, e.x),
        "one_tuple": (lambda a: (a,), e.x, e.x),
        "tuple_in": (lambda a: a * 2, (e.x,), e.x),
        "empty": (lambda a: a * 1, e.x[:0], e.x[:0]),
        "float64": (lambda a: a ** 3, e.T(2, dtype="float64"), e.T(2, dtype="float64")),
        "number_in": (lambda a, b: a * b, (e.x, 3), e.x),
    }


def _add(what, name, label, **kw):
    def run(e):
        f, inputs, v = _functions(e)[name]
        api = getattr(e.torch.autograd.functional, what)
        if what in ("jacobian", "hessian"):
            return api(f, inputs, **kw)
        if what != "vjp":
            v = tuple(reversed(inputs)) if isinstance(inputs, tuple) else inputs * 0.5
        return api(f, inputs, v, **kw)
    run.__name__ = f"{what}_{name}{label}"
    case("functional")(run)


for _name in ("vector", "pair", "linear", "independent", "constant", "lists", "one_tuple", "tuple_in", "empty", "float64", "number_in"):
    _add("jacobian", _name, "")
    _add("jacobian", _name, "_strict", strict=True)
    _add("jacobian", _name, "_create_graph", create_graph=True)
    _add("jacobian", _name, "_vectorize", vectorize=True)
    _add("jacobian", _name, "_forward", vectorize=True, strategy="forward-mode")
    for _what in ("vjp", "jvp"):
        _add(_what, _name, "")
        _add(_what, _name, "_strict", strict=True)
        _add(_what, _name, "_create_graph", create_graph=True)
for _name in ("scalar", "scalar2", "linear", "unused", "vector", "constant"):
    for _what in ("hessian", "hvp", "vhp"):
        _add(_what, _name, "")
        _add(_what, _name, "_strict", strict=True)
        _add(_what, _name, "_create_graph", create_graph=True)
    _add("hessian", _name, "_vectorize", vectorize=True)
    _add("hessian", _name, "_forward", vectorize=True, outer_jacobian_strategy="forward-mode")


functional = case("functional")


@functional
def jacobian_on_the_tape(e):
    w = e.x.clone().requires_grad_()
    e.torch.autograd.functional.jacobian(lambda a: a ** 3, w, create_graph=True).sum().backward()
    return w.grad


@functional
def jacobian_unknown_strategy(e):
    return e.torch.autograd.functional.jacobian(lambda a: a.sum(), e.x, strategy="x")


@functional
def vjp_without_v_of_a_vector(e):
    return e.torch.autograd.functional.vjp(lambda a: a * 2, e.x)


@functional
def jvp_with_v_of_another_shape(e):
    return e.torch.autograd.functional.jvp(lambda a: a * 2, e.x, e.T(5))


forward = case("forward_ad")


def _fw(e):
    return e.torch.autograd.forward_ad


@forward
def unpack(e):
    with _fw(e).dual_level():
        d = _fw(e).make_dual(e.x, e.z)
        r = _fw(e).unpack_dual((d.sin() * d).exp())
        return r.primal, r.tangent, _fw(e).unpack_dual(e.x).tangent, _fw(e).unpack_dual(d).tangent


@forward
def tangent_on_the_tape(e):
    with _fw(e).dual_level():
        w = e.x.clone().requires_grad_()
        t = _fw(e).unpack_dual((_fw(e).make_dual(w, e.z) ** 3).sum()).tangent
        return e.torch.autograd.grad(t, w)


@forward
def after_the_level(e):
    with _fw(e).dual_level():
        y = _fw(e).make_dual(e.x, e.z).sin()
    return y, _fw(e).unpack_dual(y).tangent


@forward
def outside_a_level(e):
    return _fw(e).make_dual(e.x, e.z)


@forward
def shapes_differ(e):
    with _fw(e).dual_level():
        return _fw(e).make_dual(e.x, e.y)


@forward
def dtypes_differ(e):
    with _fw(e).dual_level():
        return _fw(e).make_dual(e.x, e.z.double())


@forward
def integers(e):
    with _fw(e).dual_level():
        return _fw(e).make_dual(e.torch.arange(3, device=e.dev), e.z)


@forward
def nested_levels(e):
    with _fw(e).dual_level(), _fw(e).dual_level():
        return 1


@forward
def inplace(e):
    with _fw(e).dual_level():
        d = _fw(e).make_dual(e.x.clone(), e.z)
        y = d * 1
        y.mul_(d)
        y[0] = 3
        y.add_(1)
        return _fw(e).unpack_dual(y).tangent


@forward
def inplace_makes_dual(e):
    with _fw(e).dual_level():
        y = e.torch.zeros(3, device=e.dev)
        y.add_(_fw(e).make_dual(e.x, e.z) * 2)
        return _fw(e).unpack_dual(y).tangent


@forward
def views(e):
    with _fw(e).dual_level():
        d = _fw(e).make_dual(e.x, e.z)
        return [_fw(e).unpack_dual(v).tangent for v in (d[1:], d.view(3, 1), d.flip(0), d.detach())]


@forward
def no_grad(e):
    with _fw(e).dual_level(), e.torch.no_grad():
        return _fw(e).unpack_dual(_fw(e).make_dual(e.x, e.z) * 2).tangent


@forward
def through_a_module(e):
    m = e.fill(e.torch.nn.Linear(3, 2))
    with _fw(e).dual_level():
        return _fw(e).unpack_dual(m(_fw(e).make_dual(e.x, e.z)).relu()).tangent


@forward
def comparison_has_no_tangent(e):
    with _fw(e).dual_level():
        return _fw(e).unpack_dual(_fw(e).make_dual(e.x, e.z) > 0).tangent

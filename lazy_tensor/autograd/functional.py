"""Jacobians, Hessians and products with them (torch.autograd.functional).

Rows of a Jacobian are one batched backward (vmap), whether `vectorize` is given or not; gradients written in Python
(`Function`) are walked row by row unless it is. The functions of `lt.func` compose further.
"""
from __future__ import annotations

from lazy_tensor.autograd import grad as _grad
from lazy_tensor.autograd.engine import _order
from lazy_tensor.autograd.function import FunctionNode
from lazy_tensor.modes import enable_grad, is_grad_enabled, set_grad_enabled
from lazy_tensor.tensor import Tensor

__all__ = ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"]


def _as_tuple(x, what, name):
    """(tuple of tensors, whether x was one)."""
    is_tuple = isinstance(x, tuple)
    items = x if is_tuple else (x,)
    for k, t in enumerate(items):
        if not isinstance(t, Tensor):
            if is_tuple:
                raise TypeError(f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the value at index {k} has "
                                f"type {type(t)}.")
            raise TypeError(f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the given {what} has type "
                            f"{type(t)}.")
    return items, is_tuple


def _outputs(out, name):
    if not isinstance(out, Tensor) and not (isinstance(out, tuple) and all(isinstance(t, Tensor) for t in out)):
        return _as_tuple(out, "outputs of the user-provided function", name)
    return _as_tuple(out, "outputs of the user-provided function", name)


def _enter(tensors, create_graph, need_graph=True):
    """The inputs at a place of their own on the tape, tied to where they came from when the result is to be differentiated."""
    out = []
    for t in tensors:
        if create_graph:
            out.append(t.view_as(t) if t.requires_grad or not need_graph else t.detach().requires_grad_(t.dtype.is_floating_point
                                                                                                        or t.dtype.is_complex))
        else:
            d = t.detach()
            out.append(d.requires_grad_(True) if need_graph and (t.dtype.is_floating_point or t.dtype.is_complex) else d)
    return tuple(out)


def _leave(tree, create_graph):
    """Results off the tape unless they are to be differentiated."""
    if isinstance(tree, Tensor):
        return tree if create_graph else tree.detach()
    return tuple(_leave(t, create_graph) for t in tree)


def _shape_back(result, is_tuple):
    return result if is_tuple else result[0]


def _check_v(v, others, is_other_tuple):
    if len(others) != len(v):
        if is_other_tuple:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(others)} but got {len(v)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for k, (a, b) in enumerate(zip(v, others, strict=True)):
        if tuple(a.shape) != tuple(b.shape):
            entry = f"Entry {k} in " if is_other_tuple else ""
            raise RuntimeError(f"{entry}v has invalid size: should be {b.shape} but got {a.shape}.")


def _check_grad(tensors, what, strict):
    """In strict mode, every tensor must be on the tape."""
    if not strict:
        return
    said = {
        "outputs": "Output {} of the user-provided function does not require gradients. The outputs must be computed in a differentiable "
                   "manner from the input when running in strict mode.",
        "jacobian": "The jacobian of the user-provided function with respect to input {} does not require gradients. This is not allowed in "
                    "strict mode when create_graph=True or for a second derivative.",
        "grad_inputs": "The gradient with respect to input {} is independent of the inputs of the user-provided function. This is not allowed "
                       "in strict mode.",
    }[what]
    for k, t in enumerate(tensors):
        if t is None:
            raise RuntimeError(f"The output of the user-provided function is independent of input {k}. This is not allowed in strict mode.")
        if not t.requires_grad:
            raise RuntimeError(said.format(k))


def _pull(outputs, inputs, v=None, create_graph=False, retain_graph=None):
    """autograd.grad over the outputs that are on the tape; None where there is no way."""
    v = v if v is not None else (None,) * len(outputs)
    live = [(o, g) for o, g in zip(outputs, v, strict=True) if o is not None and o.requires_grad]
    at = [k for k, t in enumerate(inputs) if t.requires_grad]
    if not live or not at:
        return (None,) * len(inputs)
    got = _grad([o for o, _ in live], [inputs[k] for k in at], [g for _, g in live], allow_unused=True, create_graph=create_graph,
                retain_graph=retain_graph)
    out: list = [None] * len(inputs)
    for k, g in zip(at, got, strict=True):
        out[k] = g
    return tuple(out)


def _fill(grads, refs, strict, create_graph, stage):
    """Zeros for gradients that are None; in strict mode an error that says which."""
    import lazy_tensor as lt
    out = []
    for k, g in enumerate(grads):
        if g is None:
            if strict:
                raise RuntimeError({
                    "back": f"The output of the user-provided function is independent of input {k}. This is not allowed in strict mode.",
                    "back_trick": f"The gradient with respect to the input is independent of entry {k} in the grad_outputs when using the "
                                  "double backward trick to compute forward mode gradients. This is not allowed in strict mode.",
                    "double_back": f"The jacobian of the user-provided function is independent of input {k}. This is not allowed in strict "
                                   "mode.",
                    "double_back_trick": "The hessian of the user-provided function is independent of entry "
                                         f"{k} in the grad_jacobian. This is not allowed in strict mode.",
                }[stage])
            g = lt.zeros_like(refs[k])
        elif strict and create_graph and not g.requires_grad:
            raise RuntimeError(f"The {'jacobian' if 'double' not in stage else 'hessian'} of the user-provided function is independent of input "
                               f"{k}. This is not allowed in strict mode when create_graph=True.")
        out.append(g)
    return tuple(out)


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(func's outputs, the product of v with the Jacobian) (torch.autograd.functional.vjp).

    v: the outputs' shapes; may be left out for a single output of one element. strict: RuntimeError when an output does not
    depend on the inputs, else zeros."""
    with enable_grad():
        inputs, is_tuple = _as_tuple(inputs, "inputs", "vjp")
        inputs = _enter(inputs, create_graph)
        outputs, out_tuple = _outputs(func(*inputs), "vjp")
        _check_grad(outputs, "outputs", strict)
        if v is not None:
            v, _ = _as_tuple(v, "v", "vjp")
            v = _enter(v, create_graph, False)
            _check_v(v, outputs, out_tuple)
        elif len(outputs) != 1 or outputs[0].nelement() != 1:
            raise RuntimeError("The vector v can only be None if the user-provided function returns a single Tensor with a single element.")
    with set_grad_enabled(create_graph or is_grad_enabled()):
        result = _fill(_pull(outputs, inputs, v, create_graph), inputs, strict, create_graph, "back")
    return _shape_back(_leave(outputs, create_graph), out_tuple), _shape_back(_leave(result, create_graph), is_tuple)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func's outputs, the product of the Jacobian with v), by two backward passes (torch.autograd.functional.jvp).

    v: the inputs' shapes; may be left out for a single input of one element. `lt.func.jvp` is the forward-mode way."""
    import lazy_tensor as lt
    with enable_grad():
        inputs, is_tuple = _as_tuple(inputs, "inputs", "jvp")
        inputs = _enter(inputs, create_graph)
        if v is not None:
            v, _ = _as_tuple(v, "v", "jvp")
            v = _enter(v, create_graph, False)
            _check_v(v, inputs, is_tuple)
        elif len(inputs) != 1 or inputs[0].nelement() != 1:
            raise RuntimeError("The vector v can only be None if the input to the user-provided function is a single Tensor with a single "
                               "element.")
        outputs, out_tuple = _outputs(func(*inputs), "jvp")
        _check_grad(outputs, "outputs", strict)
        cts = tuple(lt.zeros_like(o).requires_grad_(o.dtype.is_floating_point or o.dtype.is_complex) for o in outputs)
        back = _pull(outputs, inputs, cts, True)
        _check_grad(back, "grad_inputs", strict)
    with set_grad_enabled(create_graph or is_grad_enabled()):
        result = _fill(_pull(back, cts, v, create_graph), outputs, strict, create_graph, "back_trick")
    return _shape_back(_leave(outputs, create_graph), out_tuple), _shape_back(_leave(result, create_graph), out_tuple)


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """The Jacobian of func at inputs (torch.autograd.functional.jacobian).

    inputs: a tensor or a tuple. Returns a tensor of the output's shape followed by the input's; a tuple over inputs, and a
    tuple of these over outputs, where there are tuples. create_graph: the result can be differentiated. strict: RuntimeError
    when an output does not depend on an input (zeros otherwise). strategy: "reverse-mode" (one pass over all outputs) or
    "forward-mode" (over all inputs; needs vectorize=True, as in torch).

    Example::

        lt.autograd.functional.jacobian(lambda x: x.exp(), lt.zeros(2))     # the identity
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(f'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs than '
                             f'inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode". Got {strategy!r}')
    if strategy == "forward-mode":
        return _jacobian_forward(func, inputs, create_graph, strict, vectorize)
    with enable_grad():
        inputs, is_tuple = _as_tuple(inputs, "inputs", "jacobian")
        inputs = _enter(inputs, create_graph)
        outputs, out_tuple = _outputs(func(*inputs), "jacobian")
        _check_grad(outputs, "outputs", strict)
        if strict and vectorize:
            raise RuntimeError("torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. Please "
                               "either set `strict=False` or `vectorize=False`.")
        rows = []
        for k, out in enumerate(outputs):
            used = _reached(out, inputs)
            if strict:
                for j, hit in enumerate(used):
                    if not hit:
                        raise RuntimeError(f"Output {k} of the user-provided function is independent of input {j}. This is not allowed in "
                                           "strict mode.")
            rows.append(_rows(out, inputs, used, create_graph, vectorize))
            if strict and create_graph:
                for j, r in enumerate(rows[-1]):
                    if not r.requires_grad:
                        raise RuntimeError("The jacobian of the user-provided function is independent of input "
                                           f"{j}. This is not allowed in strict mode when create_graph=True.")
    rows = tuple(_shape_back(_leave(r, create_graph), is_tuple) for r in rows)
    return _shape_back(rows, out_tuple)


def _reached(out, inputs):
    """For each input whether out depends on it."""
    if out._gn is None:
        return [False] * len(inputs)
    seen = {id(out._gn)}
    for node in _order([out._gn]):
        seen.update(id(m) for m in node.edges[::2] if m is not None)
    return [t._gn is not None and id(t._gn) in seen for t in inputs]


def _rows(out, inputs, used, create_graph, vectorize):
    """The Jacobian of one output by every input."""
    import lazy_tensor as lt
    from lazy_tensor.func import vmap

    at = [k for k, hit in enumerate(used) if hit]
    n = out.numel()
    result = [None if hit else lt.zeros(*out.shape, *t.shape, dtype=t.dtype, device=t.device) for hit, t in zip(used, inputs, strict=True)]
    if at:
        chosen = [inputs[k] for k in at]

        def pull(ct):
            return _grad(out, chosen, ct, retain_graph=True, create_graph=create_graph, allow_unused=True, materialize_grads=True)
        if n == 1:
            parts = [g.unsqueeze(0) for g in pull(lt.ones_like(out))]
        elif n == 0:
            parts = [lt.zeros(0, *t.shape, dtype=t.dtype, device=t.device) for t in chosen]
        else:
            basis = lt.eye(n, dtype=out.dtype, device=out.device).reshape(n, *out.shape)
            if not vectorize and any(isinstance(node, FunctionNode) for node in _order([out._gn])):
                parts = [lt.stack(list(col)) for col in zip(*[pull(basis[i]) for i in range(n)], strict=True)]
            else:
                parts = vmap(pull)(basis)
        for k, p in zip(at, parts, strict=True):
            result[k] = p.reshape(*out.shape, *inputs[k].shape)
    return tuple(result)


def _jacobian_forward(func, inputs, create_graph, strict, vectorize):
    if strict:
        raise RuntimeError('torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not supported together '
                           '(yet). Please either set `strict=False` or `strategy="reverse-mode"`.')
    if not vectorize:
        raise NotImplementedError("Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for "
                                  "`vectorize=True`.")
    from lazy_tensor.func import jacfwd
    items, is_tuple = _as_tuple(inputs, "inputs", "jacobian")
    seen = []

    def checked(*args):
        out = func(*args)
        outs, out_tuple = _outputs(out, "jacobian")
        seen.append(out_tuple)
        return outs
    if not create_graph:
        items = tuple(t.detach() for t in items)
    jac = jacfwd(checked, tuple(range(len(items))))(*items)
    rows = tuple(_shape_back(_leave(r, create_graph), is_tuple) for r in jac)
    return _shape_back(rows, seen[0])


def _single(out, name):
    outputs, is_tuple = _outputs(out, name)
    if is_tuple:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outputs[0].nelement() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
    return outputs


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """The Hessian of a scalar function (torch.autograd.functional.hessian): a tensor of the input's shape twice, or a tuple of
    tuples of them for a tuple of inputs. outer_jacobian_strategy="forward-mode" (with vectorize=True) is forward over reverse."""
    inputs, is_tuple = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def scalar(*args):
        out = func(*args)
        _single(out, "hessian")
        return out.reshape(())

    def gradient(*args):
        if outer_jacobian_strategy == "forward-mode":
            args = tuple(t if t.requires_grad else t.detach().requires_grad_(True) for t in args)
        jac = jacobian(scalar, args, create_graph=True)
        _check_grad(jac, "jacobian", strict)
        return jac
    result = jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return result if is_tuple else result[0][0]


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(func's value, the product of v with its Hessian) (torch.autograd.functional.vhp)."""
    with enable_grad():
        inputs, is_tuple = _as_tuple(inputs, "inputs", "vhp")
        inputs = _enter(inputs, create_graph)
        v = _vector(v, inputs, is_tuple, create_graph, "vhp")
        outputs = _single(func(*inputs), "vhp")
        _check_grad(outputs, "outputs", strict)
        jac = _pull(outputs, inputs, None, True)
        _check_grad(jac, "jacobian", strict)
    with set_grad_enabled(create_graph or is_grad_enabled()):
        result = _fill(_pull(jac, inputs, v, create_graph), inputs, strict, create_graph, "double_back")
    return _leave(outputs, create_graph)[0], _shape_back(_leave(result, create_graph), is_tuple)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func's value, the product of its Hessian with v) (torch.autograd.functional.hvp)."""
    import lazy_tensor as lt
    with enable_grad():
        inputs, is_tuple = _as_tuple(inputs, "inputs", "hvp")
        inputs = _enter(inputs, create_graph)
        v = _vector(v, inputs, is_tuple, create_graph, "hvp")
        outputs = _single(func(*inputs), "hvp")
        _check_grad(outputs, "outputs", strict)
        jac = _pull(outputs, inputs, None, True)
        _check_grad(jac, "jacobian", strict)
        at = [k for k, j in enumerate(jac) if j is not None]
        cts: list = [lt.zeros_like(t).requires_grad_(True) for t in inputs]
        double = _pull([jac[k] for k in at], inputs, [cts[k] for k in at], True)
        _check_grad(double, "grad_inputs", strict)
    with set_grad_enabled(create_graph or is_grad_enabled()):
        result = _fill(_pull(double, cts, v, create_graph), inputs, strict, create_graph, "double_back_trick")
    return _leave(outputs, create_graph)[0], _shape_back(_leave(result, create_graph), is_tuple)


def _vector(v, inputs, is_tuple, create_graph, name):
    if v is None:
        if len(inputs) != 1 or inputs[0].nelement() != 1:
            raise RuntimeError("The vector v can only be None if the input to the user-provided function is a single Tensor with a single "
                               "element.")
        return None
    v, _ = _as_tuple(v, "v", name)
    v = _enter(v, create_graph, False)
    _check_v(v, inputs, is_tuple)
    return v

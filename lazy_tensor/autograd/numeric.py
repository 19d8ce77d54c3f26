"""Derivatives compared with finite differences (torch.autograd.gradcheck)."""
from __future__ import annotations

import numpy as np

from lazy_tensor import autograd
from lazy_tensor.modes import no_grad
from lazy_tensor.tensor import Tensor
from lazy_tensor.utils._pytree import tree_flatten

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """A derivative that does not agree."""


def _outputs(out):
    leaves = [out] if isinstance(out, Tensor) else [x for x in tree_flatten(out)[0] if isinstance(x, Tensor)]
    return [t for t in leaves if t.dtype.is_floating_point or t.dtype.is_complex]


def _leaves(inputs):
    return [t for t in tree_flatten(inputs)[0] if isinstance(t, Tensor) and t.requires_grad]


def _real(a):
    """A real view of an array's numbers."""
    return np.ascontiguousarray(a).view(a.real.dtype) if np.iscomplexobj(a) else np.ascontiguousarray(a)


def _numeric(func, inputs, leaf, eps):
    """For each output, d(output reals) / d(leaf reals) by central differences: arrays (leaf reals, output reals)."""
    base = np.array(leaf.detach().cpu()._host())
    flat = _real(base.reshape(-1))
    rows: list = []
    with no_grad():
        for k in range(flat.size):
            sides = []
            for sign in (1, -1):
                moved = flat.copy()
                moved[k] += sign * eps
                leaf.data.copy_(_like(leaf, moved, base))
                sides.append([_real(np.array(o.detach().cpu()._host()).reshape(-1)).astype(np.float64) for o in _outputs(func(*inputs))])
            rows.append([(a - b) / (2 * eps) for a, b in zip(*sides, strict=True)])
        leaf.data.copy_(_like(leaf, flat, base))
    n = len(rows[0]) if rows else 0
    return [np.stack([r[j] for r in rows]) for j in range(n)]


def _like(leaf, flat, base):
    import lazy_tensor as lt
    return lt.from_numpy(flat.view(base.dtype).reshape(base.shape).copy()).to(leaf.device)


def _analytic(outputs, leaf, create_graph=False):
    """The same by backward: one pass for each real of each output."""
    import lazy_tensor as lt
    result = []
    for o in outputs:
        n = o.numel()
        units = (1.0, 1j) if o.dtype.is_complex else (1.0,)
        columns = []
        for k in range(n):
            for unit in units:
                ct = np.zeros(o.shape, o.dtype.np)
                ct.reshape(-1)[k] = unit
                g = None
                if o.requires_grad:
                    g, = autograd.grad(o, leaf, lt.from_numpy(ct).to(o.device), retain_graph=True, create_graph=create_graph, allow_unused=True)
                if g is None:
                    g = lt.zeros_like(leaf)
                columns.append(_real(np.array(g.detach().cpu()._host()).reshape(-1)).astype(np.float64))
        size = leaf.numel() * (2 if leaf.dtype.is_complex else 1)
        result.append(np.stack(columns, 1) if columns else np.zeros((size, 0)))
    return result


def _forward(func, inputs, leaf):
    """The same by forward mode: one pass for each real of the leaf."""
    import lazy_tensor as lt
    from lazy_tensor.func import jvp
    at = next(k for k, x in enumerate(inputs) if x is leaf)
    rows: list = []
    for k in range(leaf.numel()):
        for unit in (1.0, 1j) if leaf.dtype.is_complex else (1.0,):
            t = np.zeros(leaf.shape, leaf.dtype.np)
            t.reshape(-1)[k] = unit
            _, ts = jvp(lambda x: tuple(_outputs(func(*inputs[:at], x, *inputs[at + 1:]))), (leaf.detach(),),
                        (lt.from_numpy(t).to(leaf.device),))
            rows.append([_real(np.array(o.detach().cpu()._host()).reshape(-1)).astype(np.float64) for o in ts])
    n = len(rows[0]) if rows else 0
    return [np.stack([r[j] for r in rows]) for j in range(n)]


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0, check_undefined_grad=True,
              check_grad_dtypes=False, check_batched_grad=False, check_batched_forward_grad=False, check_forward_ad=False,
              check_backward_ad=True, fast_mode=False, masked=None):
    """Whether func's derivatives by the inputs that require grad agree with central differences (torch.autograd.gradcheck).

    inputs: tensors (float64 or complex128 for meaningful tolerances) and anything else func takes. Raises GradcheckError (or
    returns False without raise_exception) when a Jacobian differs, when a gradient has another dtype (check_grad_dtypes), when
    batched gradients differ from single ones, when two backward passes differ by more than nondet_tol. check_forward_ad compares
    forward mode too. fast_mode compares the full Jacobians all the same."""
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    try:
        return _check(func, inputs, eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad,
                      check_forward_ad, check_backward_ad)
    except GradcheckError:
        if raise_exception:
            raise
        return False


def _check(func, inputs, eps, atol, rtol, nondet_tol, undefined, dtypes, batched, forward, backward):
    import lazy_tensor as lt
    leaves = _leaves(inputs)
    if not leaves:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True.")
    for t in leaves:
        if t.dtype not in (lt.float64, lt.complex128):
            import warnings
            warnings.warn(f"Input of {t.dtype} requires gradient and is not a double precision floating point or complex. This check will "
                          "likely fail if all the inputs are not of double precision floating point or complex.", stacklevel=3)
    outputs = _outputs(func(*inputs))
    for i, leaf in enumerate(leaves):
        numeric = _numeric(func, inputs, leaf, eps)
        if backward:
            for j, (a, n) in enumerate(zip(_analytic(outputs, leaf), numeric, strict=True)):
                _compare(a, n, atol, rtol, j, i, "analytical")
            again = _analytic(outputs, leaf)
            if any(np.abs(a - b).max(initial=0) > nondet_tol for a, b in zip(_analytic(outputs, leaf), again, strict=True)):
                raise GradcheckError("Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
                                     "different values, although analytical gradient matches numerical gradient.")
        if forward:
            for j, (a, n) in enumerate(zip(_forward(func, inputs, leaf), numeric, strict=True)):
                _compare(a, n, atol, rtol, j, i, "forward-mode")
    for o in outputs:
        if not o.requires_grad:
            continue
        gs = autograd.grad(o, leaves, lt.zeros_like(o), retain_graph=True, allow_unused=True)
        for g, leaf in zip(gs, leaves, strict=True):
            if g is None:
                continue
            if dtypes and g.dtype != leaf.dtype:
                raise GradcheckError(f"Gradient has dtype mismatch: expected {leaf.dtype}, got {g.dtype}")
            if tuple(g.shape) != tuple(leaf.shape):
                raise GradcheckError("grad is incorrect size")
            if undefined and bool((g != 0).any()):
                raise GradcheckError("backward not multiplied by grad_output")
        if batched:
            ct = lt.randn(3, *o.shape, dtype=o.dtype, device=o.device)
            rows = autograd.grad(o, leaves, ct, retain_graph=True, allow_unused=True, is_grads_batched=True)
            for k in range(3):
                single = autograd.grad(o, leaves, ct[k], retain_graph=True, allow_unused=True)
                for b, s in zip(rows, single, strict=True):
                    if b is not None and not lt.allclose(b[k], s, rtol=rtol, atol=atol):
                        raise GradcheckError("Batched gradients differ from gradients taken one at a time.")
    return True


def _compare(a, n, atol, rtol, j, i, what):
    if a.shape != n.shape or not np.allclose(a, n, rtol=rtol, atol=atol, equal_nan=True):
        raise GradcheckError(f"Jacobian mismatch for output {j} with respect to input {i},\nnumerical:{n}\n{what}:{a}\n")


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, gen_non_contig_grad_outputs=False,
                  raise_exception=True, nondet_tol=0.0, check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
                  check_fwd_over_rev=False, check_rev_over_rev=True, fast_mode=False, masked=False):
    """Whether second derivatives agree with central differences of the first (torch.autograd.gradgradcheck).

    grad_outputs: cotangents of func's outputs (drawn at random when None). The other arguments are gradcheck's."""
    import lazy_tensor as lt
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outs = _outputs(func(*inputs))
    if grad_outputs is None:
        cts = [lt.randn(*o.shape, dtype=o.dtype, device=o.device).requires_grad_(True) for o in outs]
    else:
        cts = [g.detach().requires_grad_(True) for g in ((grad_outputs,) if isinstance(grad_outputs, Tensor) else grad_outputs)]
    n = len(cts)

    def first(*args):
        xs, gs = args[:-n], args[-n:]
        live = _leaves(xs) or [x for x in xs if isinstance(x, Tensor)]
        outputs = _outputs(func(*xs))
        pairs = [(o, g) for o, g in zip(outputs, gs, strict=True) if o.requires_grad]
        got = autograd.grad([o for o, _ in pairs], live, [g for _, g in pairs], create_graph=True, allow_unused=True, materialize_grads=True)
        return tuple(g for g in got if g.requires_grad) or tuple(got)

    def detached(*args):  # finite differences run without grad mode; the first derivative needs it
        with lt.enable_grad():
            return first(*args)
    return gradcheck(detached, (*inputs, *cts), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol,
                     check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad,
                     check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev)

"""torch.autograd: backward, grad, Function, modes, hooks on saved tensors.

Rooms: `engine` (the walk over `lazy_tensor.node`'s tape), `function` (user-written gradients), `graph` (hooks on what is
saved); each may import those before it.
"""
from __future__ import annotations

from lazy_tensor.autograd.engine import full, run
from lazy_tensor.modes import (
    detect_anomaly,
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_detect_anomaly,
    set_grad_enabled,
)
from lazy_tensor.node import AccumulateGrad, Node
from lazy_tensor.tensor import Tensor


def _roots(tensors, grads, what):
    """[(node, index)] and cotangents of the outputs to differentiate."""
    tensors = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    if grads is None:
        grads = (None,) * len(tensors)
    elif isinstance(grads, Tensor):
        grads = (grads,)
    grads = tuple(grads)
    if len(grads) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(grads)} gradients")
    roots, cts = [], []
    for t, g in zip(tensors, grads, strict=True):
        if not isinstance(t, Tensor):
            raise TypeError(f"{what}: expected Tensors, got {type(t).__name__}")
        if t._view is not None:
            t._read()
        if t._gn is None:
            raise RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn")
        if g is None:
            if t.numel() != 1:
                raise RuntimeError(f"grad can be implicitly created only for scalar outputs, got shape {list(t.shape)}: "
                                   "give `gradient`, or reduce with .sum() or .mean()")
            if t._v.aval.dtype.kind == "c":
                raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {t.dtype}")
            g = full(t._v.aval, 1.0)
        else:
            if not isinstance(g, Tensor):
                raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
            if tuple(g.shape) != tuple(t.shape):
                raise RuntimeError(f"Mismatch in shape: grad_output[{len(cts)}] has a shape of {g.shape} and output[{len(cts)}] has a "
                                   f"shape of {t.shape}.")
            if g._v.aval is not t._v.aval:
                if g._v.aval.device is not t._v.aval.device:
                    raise RuntimeError(f"{what}: the gradient is on {g.device}, the output on {t.device}")
                if g.dtype.is_complex != t.dtype.is_complex:
                    raise RuntimeError("For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in "
                                       f"dtype: grad_output[{len(cts)}] has a dtype of {g.dtype} and output[{len(cts)}] has a dtype of "
                                       f"{t.dtype}.")
                g = g.to(t.dtype)
        roots.append((t._gn, t._oi))
        cts.append(g)
    return roots, cts


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Accumulate the gradients of `tensors` into the leaves' `.grad` (torch.autograd.backward)."""
    if grad_variables is not None:
        grad_tensors = grad_variables
    roots, cts = _roots(tensors, grad_tensors, "backward")
    retain = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        run(roots, cts, retain, create_graph)
        return
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `backward` cannot be empty.")
    leaves, captures, others = set(), {}, []
    for t in inputs:
        if t._gn is None:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
        if type(t._gn) is AccumulateGrad:
            leaves.add(t._gn)
        else:
            captures[(id(t._gn), t._oi)] = len(captures)
            others.append(t)
    got = run(roots, cts, retain, create_graph, captures, leaves)
    for t, g in zip(others, got, strict=True):
        if g is not None:
            t._grad = g if t.grad is None else t.grad + g


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True, allow_unused=None,
         is_grads_batched=False, materialize_grads=False):
    """The gradients of `outputs` with respect to `inputs` (a tuple of tensors), nothing accumulated (torch.autograd.grad)."""
    if is_grads_batched:
        return _batched(outputs, inputs, grad_outputs, create_graph, allow_unused, materialize_grads)
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False.")
    roots, cts = _roots(outputs, grad_outputs, "grad")
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if not inputs:
        raise ValueError("grad requires non-empty inputs.")
    captures: dict = {}
    slots = []
    for t in inputs:
        if not isinstance(t, Tensor):
            raise TypeError(f"grad: expected Tensors as inputs, got {type(t).__name__}")
        if t._view is not None:
            t._read()
        if t._gn is None:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
        slots.append(captures.setdefault((id(t._gn), t._oi), len(captures)))
    retain = create_graph if retain_graph is None else retain_graph
    got = run(roots, cts, retain, create_graph, captures, False)
    result = []
    for t, s in zip(inputs, slots, strict=True):
        g = got[s]
        if g is None:
            if materialize_grads:
                g = full(t._v.aval, 0.0)
            elif not allow_unused:
                raise RuntimeError("One of the differentiated Tensors appears to not have been used in the graph. Set "
                                   "allow_unused=True if this is the desired behavior.")
        result.append(g)
    return tuple(result)


def _batched(outputs, inputs, grad_outputs, create_graph, allow_unused, materialize):
    """`is_grads_batched`: cotangents have a leading dimension, and so have the gradients; one batched backward."""
    from lazy_tensor.func import vmap

    outs = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    ins = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    cts = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
    given = [k for k, c in enumerate(cts) if c is not None]
    missing: list = []

    def pull(*rows):
        full = list(cts)
        for k, r in zip(given, rows, strict=True):
            full[k] = r
        got = grad(outs, ins, tuple(full), True, create_graph, True, allow_unused, False, materialize)
        missing[:] = [g is None for g in got]
        return tuple(g for g in got if g is not None)
    rows = iter(vmap(pull)(*[cts[k] for k in given]))
    return tuple(None if none else next(rows) for none in missing)


from lazy_tensor.autograd import function, graph  # noqa: E402
from lazy_tensor.autograd.function import Function  # noqa: E402


class _VariableMeta(type):
    def __instancecheck__(cls, x):
        return isinstance(x, Tensor)


class Variable(metaclass=_VariableMeta):
    """torch.autograd.Variable: since torch 0.4 a tensor is one; this returns its argument, with requires_grad set."""

    def __new__(cls, data, requires_grad=False, volatile=False):
        t = data.detach() if requires_grad and data.requires_grad else data
        return t.requires_grad_(True) if requires_grad else t


def __getattr__(name):
    import importlib
    if name in ("gradcheck", "gradgradcheck"):
        return getattr(importlib.import_module(f"{__name__}.numeric"), name)
    if name in ("profiler", "functional", "forward_ad", "numeric"):
        return importlib.import_module(f"{__name__}.{name}")
    from lazy_tensor.ops._define import missing
    return missing("autograd", globals())(name)


__all__ = ["backward", "grad", "Function", "Variable", "Node", "no_grad", "enable_grad", "set_grad_enabled", "inference_mode",
           "is_grad_enabled", "detect_anomaly", "set_detect_anomaly", "function", "graph"]

"""Models as functions of their parameters: functional_call, stack_module_state, functionalize (torch.func)."""
from __future__ import annotations

import functools

from lazy_tensor.nn.utils.stateless import functional_call


def stack_module_state(models):
    """(parameters, buffers) of several models of one architecture: dicts name -> tensor with a leading dimension of models
    (torch.func.stack_module_state); leaves that require grad where the models' do. Raises RuntimeError when the models differ."""
    import lazy_tensor as lt
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(tables):
        out = {}
        for name in tables[0]:
            ts = [table[name] for table in tables]
            if any(t.requires_grad != ts[0].requires_grad for t in ts):
                raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
            with lt.no_grad():
                r = lt.stack([t.detach() for t in ts])
            out[name] = r.requires_grad_(True) if ts[0].requires_grad else r
        return out
    return stacked([dict(m.named_parameters()) for m in models]), stacked([dict(m.named_buffers()) for m in models])


def functionalize(func, *, remove="mutations"):
    """func itself, in a wrapper (torch.func.functionalize): what is recorded here never holds a mutation or a view, only values.

    Raises RuntimeError when remove is neither "mutations" nor "mutations_and_views"."""
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(f"functionalize(f, remove='mutations'): expected remove to be one of 'mutations', 'mutations_and_views', got {remove!r}")

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        return func(*args, **kwargs)
    return wrapped


__all__ = ["functional_call", "functionalize", "stack_module_state"]

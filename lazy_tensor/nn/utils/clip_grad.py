"""Gradient clipping (torch.nn.utils.clip_grad)."""
from __future__ import annotations

import warnings

import lazy_tensor as lt
from lazy_tensor.modes import no_grad


def _grads(parameters):
    if isinstance(parameters, lt.Tensor):
        parameters = [parameters]
    return [p.grad for p in parameters if p.grad is not None]


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The norm of all tensors as one vector, 0-d."""
    tensors = [tensors] if isinstance(tensors, lt.Tensor) else list(tensors)
    if not tensors:
        return lt.tensor(0.0)
    norm_type = float(norm_type)
    with no_grad():
        norms = [lt.linalg.vector_norm(t, norm_type) for t in tensors]
        total = lt.linalg.vector_norm(lt.stack([n.to(norms[0].device) for n in norms]), norm_type)
    if error_if_nonfinite and not bool(lt.isfinite(total)):
        raise RuntimeError(f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be clipped. "
                           "To disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`")
    return total


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scale the gradients by min(1, max_norm / (total_norm + 1e-6)) in place."""
    grads = _grads(parameters)
    if not grads:
        return
    with no_grad():
        coef = lt.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
        for g in grads:
            g.mul_(coef.to(g.device))


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Clip the norm of all gradients together; returns the norm before."""
    if isinstance(parameters, lt.Tensor):
        parameters = [parameters]
    else:
        is_generator = not hasattr(parameters, "__len__")
        parameters = list(parameters)
        if is_generator and not parameters:
            warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    total = get_total_norm(_grads(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The old name of `clip_grad_norm_`."""
    warnings.warn("torch.nn.utils.clip_grad_norm is now deprecated in favor of torch.nn.utils.clip_grad_norm_.", FutureWarning,
                  stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Clip every gradient element to [-clip_value, clip_value] in place."""
    with no_grad():
        for g in _grads(parameters):
            g.clamp_(min=-float(clip_value), max=float(clip_value))

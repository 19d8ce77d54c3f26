"""torch.func: function transforms that compose in any order and depth.

Rooms: `_record` (a function recorded to a jax function and emitted as one node), `_vmap`, `_transforms` (grad, vjp, jvp and
Jacobians), `_modules` (models as functions), `_control` (control flow), `_custom` (autograd.Function inside them); each may import those
before it.
"""
from __future__ import annotations

from lazy_tensor.func._modules import functional_call, functionalize, stack_module_state
from lazy_tensor.func._transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from lazy_tensor.func._vmap import vmap
from lazy_tensor.ops._define import missing as _missing

__all__ = ["functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
           "stack_module_state", "vjp", "vmap"]

__getattr__ = _missing("func", globals())

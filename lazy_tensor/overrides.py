"""torch.overrides: questions about tensor-like objects. Ops here do not ask `__torch_function__`."""
from __future__ import annotations

from lazy_tensor.tensor import Tensor

__all__ = ["get_default_nowrap_functions", "has_torch_function", "is_tensor_like", "is_tensor_method_or_property", "resolve_name"]


def is_tensor_like(inp) -> bool:
    """Whether inp is a Tensor or has `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def has_torch_function(relevant_args) -> bool:
    """Whether one of the arguments, other than plain Tensors, has `__torch_function__`."""
    return any(type(a) is not Tensor and hasattr(type(a), "__torch_function__") for a in relevant_args)


def has_torch_function_unary(x) -> bool:
    """`has_torch_function` of one argument."""
    return has_torch_function((x,))


def has_torch_function_variadic(*args) -> bool:
    """`has_torch_function` of several arguments."""
    return has_torch_function(args)


def get_default_nowrap_functions() -> set:
    """Properties whose results a subclass would not wrap."""
    return {Tensor._base, Tensor.grad}


def is_tensor_method_or_property(func) -> bool:
    """Whether func is one of Tensor's methods or property getters."""
    return any(v is func or getattr(v, "fget", None) is func for v in vars(Tensor).values())


def resolve_name(f) -> str | None:
    """A function's name as torch writes it; None for what has no name."""
    name = getattr(f, "__qualname__", None) or getattr(f, "__name__", None)
    return None if name is None else f"torch.{name}"

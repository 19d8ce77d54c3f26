"""Pruning: a parameter `name` becomes `name_orig` times a buffer `name_mask` before every forward (torch.nn.utils.prune)."""
from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable

import lazy_tensor as lt
from lazy_tensor.nn.utils.convert_parameters import parameters_to_vector


class BasePruningMethod(ABC):
    """A forward pre-hook that multiplies one tensor by its mask; a method defines `compute_mask` and `PRUNING_TYPE`
    ("unstructured": any value; "structured": whole slices along `dim`; "global": the mask is for all values)."""

    _tensor_name: str
    PRUNING_TYPE: str
    dim: int

    def __call__(self, module, inputs):
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t, default_mask):
        """The mask of t's shape, given the one that holds already."""

    def apply_mask(self, module):
        """The pruned tensor: name_mask times name_orig."""
        name = getattr(self, "_tensor_name", None)
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        orig = getattr(module, name + "_orig")
        return getattr(module, name + "_mask").to(dtype=orig.dtype) * orig

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prune module's `name` by cls(*args, **kwargs), on top of what prunes it already; returns the hook.

        `importance_scores`, of the parameter's shape, decide in place of the values."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        found = [(k, h) for k, h in module._forward_pre_hooks.items() if isinstance(h, BasePruningMethod) and h._tensor_name == name]
        if len(found) > 1:
            raise AssertionError(f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a PruningContainer.")
        tensor = getattr(module, name)
        scores = tensor if importance_scores is None else importance_scores
        if scores.shape != tensor.shape:
            raise AssertionError(f"importance_scores should have the same shape as parameter {name} of {module}: got "
                                 f"{list(scores.shape)}, {list(tensor.shape)} would fit")
        if found:
            key, old = found[0]
            container = old if isinstance(old, PruningContainer) else PruningContainer(old)
            methods = container._pruning_methods
            container.add_pruning_method(method)
            try:
                mask = container.compute_mask(scores, getattr(module, name + "_mask").detach().clone())
            except Exception:
                container._pruning_methods = methods
                raise
            del module._forward_pre_hooks[key]
            method = container
        else:
            mask = method.compute_mask(scores, lt.ones_like(tensor))
            del module._parameters[name]
            module.register_parameter(name + "_orig", tensor)
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t, default_mask=None, importance_scores=None):
        """t times the mask that this method computes for it; no module takes part."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(f"importance_scores should have the same shape as tensor t: got {list(scores.shape)}, {list(t.shape)} "
                                 "would fit")
        return t * self.compute_mask(scores, default_mask=lt.ones_like(t) if default_mask is None else default_mask)

    def remove(self, module):
        """Make the pruned values the parameter `name` for good, and forget mask and original."""
        name = self._tensor_name
        weight = self.apply_mask(module)
        delattr(module, name)
        orig = module._parameters.pop(name + "_orig")
        orig.data = weight.detach()
        del module._buffers[name + "_mask"]
        setattr(module, name, orig)


class PruningContainer(BasePruningMethod):
    """Pruning methods of one tensor, one after the other; each sees what the earlier ones left."""

    def __init__(self, *args):
        self._pruning_methods: tuple = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method):
        """Append a method of the same tensor name."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer {self}."
                             f" Found '{method._tensor_name}'")
        self._pruning_methods += (method,)

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, idx):
        return self._pruning_methods[idx]

    def compute_mask(self, t, default_mask):
        """default_mask with the last method's mask of what is not yet pruned put in."""
        method = self._pruning_methods[-1]
        kind = method.PRUNING_TYPE
        if kind == "unstructured":
            at = default_mask == 1
        elif kind == "structured":
            dim = method.dim % t.dim()
            kept = default_mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0
            at = (slice(None),) * dim + (kept,)
        elif kind == "global":
            at = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {kind}: 'unstructured', 'structured' or 'global' would fit")
        mask = default_mask.clone()
        mask[at] = method.compute_mask(t[at], default_mask=default_mask[at]).to(dtype=mask.dtype)
        return mask


# ------------------------------------------------------------------------------------------- methods


class Identity(BasePruningMethod):
    """Prunes nothing: the parametrization alone."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        """default_mask."""
        return default_mask

    @classmethod
    def apply(cls, module, name):
        """Name, mask and hook for module's `name`; returns the hook."""
        return super().apply(module, name)


def _without(mask, index):
    """A copy of mask that is 0 at flat indices."""
    flat = mask.reshape(-1).clone()
    flat[index] = 0
    return flat.reshape(mask.shape)


class RandomUnstructured(BasePruningMethod):
    """Prunes `amount` (share in [0, 1], or number) of the values at random."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount):
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def compute_mask(self, t, default_mask):
        """default_mask, 0 at random values too."""
        n = _count(self.amount, t.numel())
        return _without(default_mask, lt.rand(t.numel(), device=t.device).topk(n).indices) if n else default_mask.clone()

    @classmethod
    def apply(cls, module, name, amount):
        """Prune module's `name`; returns the hook."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(BasePruningMethod):
    """Prunes the `amount` (share or number) of the values that are smallest by absolute value."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount):
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def compute_mask(self, t, default_mask):
        """default_mask, 0 at the smallest values too."""
        n = _count(self.amount, t.numel())
        return _without(default_mask, t.detach().abs().reshape(-1).topk(n, largest=False).indices) if n else default_mask.clone()

    @classmethod
    def apply(cls, module, name, amount, importance_scores=None):
        """Prune module's `name`; returns the hook."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


def _slices(default_mask, dim, keep):
    """default_mask, 0 also in all slices along dim but those at the indices `keep`."""
    kept = lt.zeros(default_mask.shape[dim], dtype=default_mask.dtype, device=default_mask.device)
    kept[keep] = 1
    return default_mask * kept.reshape([-1 if d == dim % default_mask.dim() else 1 for d in range(default_mask.dim())])


class RandomStructured(BasePruningMethod):
    """Prunes `amount` (share or number) of the slices along `dim` at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim=-1):
        _validate_pruning_amount_init(amount)
        self.amount, self.dim = amount, dim

    def compute_mask(self, t, default_mask):
        """default_mask, 0 in random slices too."""
        size = _channels(t, self.dim)
        n = _count(self.amount, size)
        if n == 0:
            return default_mask
        return _slices(default_mask, self.dim, lt.rand(size, device=t.device).topk(size - n).indices)

    @classmethod
    def apply(cls, module, name, amount, dim=-1):
        """Prune module's `name`; returns the hook."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(BasePruningMethod):
    """Prunes the `amount` (share or number) of the slices along `dim` whose n-norms are smallest."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, n, dim=-1):
        _validate_pruning_amount_init(amount)
        self.amount, self.n, self.dim = amount, n, dim

    def compute_mask(self, t, default_mask):
        """default_mask, 0 in the slices of smallest norm too."""
        size = _channels(t, self.dim)
        n = _count(self.amount, size)
        if n == 0:
            return default_mask
        return _slices(default_mask, self.dim, _compute_norm(t.detach(), self.n, self.dim).topk(size - n).indices)

    @classmethod
    def apply(cls, module, name, amount, n, dim, importance_scores=None):
        """Prune module's `name`; returns the hook."""
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prunes by a given mask."""

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        """The product of default_mask and the given mask."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(f"custom_from_mask: given a mask of shape {list(self.mask.shape)}; {list(default_mask.shape)} would fit")
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module, name, mask):
        """Prune module's `name`; returns the hook."""
        return super().apply(module, name, mask=mask)


# ------------------------------------------------------------------------------------------- functions


def identity(module, name):
    """Register name_orig and name_mask without pruning; returns module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    """Prune `amount` of the values at random; returns module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    """Prune the `amount` of the values that are smallest by absolute value; returns module."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    """Prune `amount` of the slices along dim at random; returns module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Prune the `amount` of the slices along dim of smallest n-norm; returns module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module, name, mask):
    """Prune by a mask of the parameter's shape; returns module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prune the (module, name) pairs in `parameters` as if they were one vector, by pruning_method(**kwargs).

    `importance_scores`: {(module, name): tensor} in place of values."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    importance_scores = {} if importance_scores is None else importance_scores
    if not isinstance(importance_scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    parameters = list(parameters)
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of type '
                        f"{method.PRUNING_TYPE}")
    scores = parameters_to_vector([importance_scores.get(p, getattr(*p)) for p in parameters])
    masks = parameters_to_vector([getattr(m, name + "_mask", lt.ones_like(getattr(m, name))) for m, name in parameters])
    method._tensor_name = "temp"
    final = PruningContainer(method).compute_mask(scores, masks)
    start = 0
    for module, name in parameters:
        tensor = getattr(module, name)
        custom_from_mask(module, name, final[start:start + tensor.numel()].view_as(tensor))
        start += tensor.numel()


def remove(module, name):
    """Make the pruning of module's `name` permanent; returns module."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module):
    """Whether a tensor of the module or of a submodule is being pruned."""
    return any(isinstance(h, BasePruningMethod) for m in module.modules() for h in m._forward_pre_hooks.values())


# ------------------------------------------------------------------------------------------- arguments


def _validate_pruning_amount_init(amount):
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or not isinstance(amount, numbers.Integral) and amount > 1:
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _validate_pruning_amount(amount, tensor_size):
    if isinstance(amount, numbers.Integral) and amount > tensor_size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def _validate_structured_pruning(t):
    if len(t.shape) <= 1:
        raise ValueError("Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                         f"{t.shape} with {len(t.shape)} dims")


def _validate_pruning_dim(t, dim):
    if not -t.dim() <= dim < t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _compute_nparams_toprune(amount, tensor_size):
    return amount if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _compute_norm(t, n, dim):
    return lt.norm(t, p=n, dim=[d for d in range(t.dim()) if d != dim % t.dim()])


def _count(amount, size):
    """How many of size to prune."""
    n = _compute_nparams_toprune(amount, size)
    _validate_pruning_amount(n, size)
    return n


def _channels(t, dim):
    """How many slices along dim t has."""
    _validate_structured_pruning(t)
    _validate_pruning_dim(t, dim)
    return t.shape[dim]

"""torch._foreach_*: one call over lists of tensors, made of the ops of one tensor; all land in one program, which XLA merges.

Forms: every tensor with one number, with its own number (`scalars`), with its own tensor, or with one shared 0-d tensor.
"""
from __future__ import annotations

from lazy_tensor.ops import compare, pointwise, special
from lazy_tensor.ops._common import check
from lazy_tensor.ops._define import methods, publish
from lazy_tensor.tensor import Tensor

_NUMBERS = (int, float, complex)


def _tensors(name, x, what="self", position=1):
    """x as a tuple of tensors, torch's TypeError or RuntimeError otherwise."""
    if not isinstance(x, (list, tuple)):
        raise TypeError(f"{name}(): argument '{what}' (position {position}) must be tuple of Tensors, not {type(x).__name__}")
    for i, t in enumerate(x):
        if not isinstance(t, Tensor):
            raise TypeError(f"{name}(): expected Tensor as element {i} in argument {position - 1}, but got {type(t).__name__}")
    return tuple(x)


def _self(name, x):
    x = _tensors(name, x)
    check(len(x) > 0, f"{name}: Tensor list must have at least one tensor.")
    return x


def _same_count(name, a, b):
    check(len(a) == len(b), f"{name}: Tensor lists must have the same number of tensors, got {len(a)} and {len(b)}")


def _is_numbers(x):
    return isinstance(x, (list, tuple)) and len(x) > 0 and all(isinstance(v, _NUMBERS) for v in x)


def _operands(name, self, x, what, position=2, shared=False):
    """The second operand of each tensor: a number repeated, a list of numbers, a list of tensors, or one 0-d tensor."""
    if isinstance(x, _NUMBERS):
        return (x,) * len(self)
    if _is_numbers(x):
        check(len(x) == len(self), f"{name}: Tensor list must have same number of elements as scalar list, got {len(self)} and {len(x)}.")
        return tuple(x)
    if isinstance(x, Tensor) and shared:
        check(x.dim() == 0, f"{name}: scalar tensor expected to be 0 dim but it has {x.dim()} dimensions and {x.numel()} elements.")
        return (x,) * len(self)
    if isinstance(x, (list, tuple)):
        x = _tensors(name, x, what, position)
        _same_count(name, self, x)
        return x
    fits = "a number, a list of numbers, a list of Tensors" + (" or a 0-d Tensor" if shared else "")
    raise TypeError(f"{name}(): argument '{what}' (position {position}) must be {fits}, not {type(x).__name__}")


def _publish(name, call, doc):
    call.__name__ = call.__qualname__ = name
    call.__module__ = __name__
    call.__doc__ = doc
    publish(name, call)
    globals()[name] = call


def _unary(name, fn):
    full, write = f"_foreach_{name}", methods()[name + "_"]

    def call(self):
        return tuple(fn(t) for t in _self(full, self))

    def call_(self):
        for t in _self(full + "_", self):
            write(t)
        return self
    _publish(full, call, f"torch.{name} of each tensor of a list; a tuple of tensors.")
    _publish(full + "_", call_, f"In-place torch.{name} of each tensor of a list; returns the list.")


for _n in ("abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "exp", "expm1", "floor", "frac", "log", "log10", "log1p", "log2", "neg",
           "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"):
    _unary(_n, getattr(pointwise, _n))
for _n, _f in (("erf", special.erf), ("erfc", special.erfc), ("lgamma", special.gammaln)):
    _unary(_n, _f)


def _one_of(name, given):
    """The only argument given of those torch names differently in its overloads."""
    got = {k: v for k, v in given.items() if v is not None}
    if len(got) != 1:
        raise TypeError(f"{name}() received an invalid combination of arguments: expected one of {', '.join(given)}, got "
                        f"{', '.join(got) or 'none'}")
    return next(iter(got.items()))


def _write(t, r, name):
    from lazy_tensor.ops._define import check_inplace, inplace
    check_inplace(t, name)
    inplace(t, r, name)


def _binary(name, fn, shared=False, alpha=False, in_place=True):
    """fn(tensor, operand); in place where torch has it; alpha only beside tensors, as in torch."""
    full = f"_foreach_{name}"

    def results(name, self, what, x, factor):
        self = _self(name, self)
        others = _operands(name, self, x, what, shared=shared)
        if factor is None:
            return self, [fn(a, b) for a, b in zip(self, others, strict=True)]
        if not isinstance(others[0], Tensor):
            raise TypeError(f"{name}() received an invalid combination of arguments: alpha goes with Tensors, not with numbers")
        return self, [fn(a, b, alpha=factor) for a, b in zip(self, others, strict=True)]

    def make(name, in_place):
        def run(self, other, scalar, scalars, factor):
            what, x = _one_of(name, {"other": other, "scalar": scalar, "scalars": scalars})
            tensors, r = results(name, self, what, x, factor)
            if not in_place:
                return tuple(r)
            for t, v in zip(tensors, r, strict=True):
                _write(t, v, name)
            return self

        if alpha:
            def call(self, other=None, *, alpha=None, scalar=None, scalars=None):
                return run(self, other, scalar, scalars, alpha)
        else:
            def call(self, other=None, *, scalar=None, scalars=None):
                return run(self, other, scalar, scalars, None)
        return call

    _publish(full, make(full, False), f"torch.{name} of each tensor with a number, its number or its tensor; a tuple of tensors.")
    if in_place:
        _publish(full + "_", make(full + "_", True), f"In-place torch.{name} of each tensor of a list; returns the list.")


def _least(t, x):
    return compare.maximum(t, x) if isinstance(x, Tensor) else compare._maximum_number(t, x)


def _most(t, x):
    return compare.minimum(t, x) if isinstance(x, Tensor) else compare._minimum_number(t, x)


_binary("add", pointwise.add, shared=True, alpha=True)
_binary("sub", pointwise.sub, shared=True, alpha=True)
_binary("mul", pointwise.mul, shared=True)
_binary("div", pointwise.div, shared=True)
_binary("maximum", _least)
_binary("minimum", _most)
_binary("clamp_min", pointwise.clamp_min)
_binary("clamp_max", pointwise.clamp_max)


def _foreach_pow(self, exponent):
    """torch.pow of each tensor with a number, its number or its tensor; or of one number with each exponent; a tuple of tensors."""
    if isinstance(self, _NUMBERS):
        return tuple(pointwise.pow(self, e) for e in _tensors("_foreach_pow", exponent, "exponent", 2))
    self = _self("_foreach_pow", self)
    return tuple(pointwise.pow(a, e) for a, e in zip(self, _operands("_foreach_pow", self, exponent, "exponent"), strict=True))


def _foreach_pow_(self, exponent):
    """In-place torch.pow of each tensor of a list; returns the list."""
    tensors = _self("_foreach_pow_", self)
    for t, e in zip(tensors, _operands("_foreach_pow_", tensors, exponent, "exponent"), strict=True):
        _write(t, pointwise.pow(t, e), "_foreach_pow_")
    return self


def _ternary(name, fn):
    full = f"_foreach_{name}"

    def results(name, self, tensor1, tensor2, value, scalars):
        tensors = _self(name, self)
        ones, twos = _tensors(name, tensor1, "tensor1", 2), _tensors(name, tensor2, "tensor2", 3)
        _same_count(name, tensors, ones)
        _same_count(name, tensors, twos)
        v = scalars if scalars is not None else value
        if isinstance(v, Tensor):
            check(v.dim() == 1, f"{name}: Expected packed scalar Tensor to be of dimension 1. Got {v.dim()} instead.")
            check(v.shape[0] == len(tensors), f"{name}: Expected length of scalars to match input of length {len(tensors)} but got "
                                              f"{v.shape[0]} instead.")
            v = tuple(v.tolist())
        elif not isinstance(v, _NUMBERS) and not _is_numbers(v):
            raise TypeError(f"{name}(): argument 'scalars' (position 4) must be a number, a list of numbers or a 1-d Tensor, not "
                            f"{type(v).__name__}")
        values = _operands(name, tensors, v, "scalars", 4)
        return tensors, [fn(*z[:3], value=z[3]) for z in zip(tensors, ones, twos, values, strict=True)]

    def call(self, tensor1, tensor2, value=1, *, scalars=None):
        return tuple(results(full, self, tensor1, tensor2, value, scalars)[1])

    def call_(self, tensor1, tensor2, value=1, *, scalars=None):
        for t, r in zip(*results(full + "_", self, tensor1, tensor2, value, scalars), strict=True):
            _write(t, r, full + "_")
        return self
    _publish(full, call, f"torch.{name} of three lists, value being a number, a list of numbers or a 1-d tensor (read: one sync).")
    _publish(full + "_", call_, f"In-place torch.{name} of three lists; returns the first.")


_ternary("addcmul", pointwise.addcmul)
_ternary("addcdiv", pointwise.addcdiv)


def _lerped(name, self, tensors1, weights, weight):
    what, w = _one_of(name, {"weight": weight, "weights": weights})
    tensors = _self(name, self)
    ends = _tensors(name, tensors1, "tensors1", 2)
    _same_count(name, tensors, ends)
    w = _operands(name, tensors, w, what, 3)
    return tensors, [pointwise.lerp(*z) for z in zip(tensors, ends, w, strict=True)]


def _foreach_lerp(self, tensors1, weight=None, *, weights=None):
    """torch.lerp of two lists, the weight being a number, a list of numbers or of tensors; a tuple of tensors."""
    return tuple(_lerped("_foreach_lerp", self, tensors1, weights, weight)[1])


def _foreach_lerp_(self, tensors1, weight=None, *, weights=None):
    """In-place torch.lerp of two lists; returns the first."""
    for t, r in zip(*_lerped("_foreach_lerp_", self, tensors1, weights, weight), strict=True):
        _write(t, r, "_foreach_lerp_")
    return self


# ------------------------------------------------------------------------------------------- reductions, products, copies


def _foreach_norm(self, ord=2, dtype=None):
    """torch.linalg.vector_norm of each tensor, over all its elements; a tuple of 0-d tensors.

    Raises RuntimeError for integers, and for the infinity norm of no elements.
    """
    from lazy_tensor.ops import linalg
    self = _self("_foreach_norm", self)
    for t in self:
        check(t.numel() > 0 or (0 <= ord < float("inf")), f"_foreach_norm cannot compute the {'infinity' if abs(ord) == float('inf') else ord} "
                                                          f"norm on an empty tensor of shape {list(t.shape)} because the operation does "
                                                          "not have an identity")
    return tuple(linalg.vector_norm(t, ord, dtype=dtype) for t in self)


def _foreach_powsum(self, ord=2, dtype=None):
    """The sum of |x|^ord of each tensor; a tuple of 0-d tensors. Raises NotImplementedError for integers."""
    r = []
    for t in _self("_foreach_powsum", self):
        check(t.dtype.is_floating_point or t.dtype.is_complex, f"_foreach_powsum: not implemented for {t.dtype}; float or complex fit",
              NotImplementedError)
        r.append(pointwise.pow((t if dtype is None else t.to(dtype)).abs(), ord).sum())
    return tuple(r)


def _foreach_max(self):
    """The largest element of each tensor; a tuple of 0-d tensors. Raises RuntimeError for an empty tensor."""
    self = _self("_foreach_max", self)
    check(all(t.numel() for t in self), "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is undefined.")
    return tuple(t.max() for t in self)


def _foreach_mm(self, mat2):
    """torch.mm of two lists of matrices; a tuple of matrices."""
    self, mat2 = _self("_foreach_mm", self), _tensors("_foreach_mm", mat2, "mat2", 2)
    _same_count("_foreach_mm", self, mat2)
    return tuple(a.mm(b) for a, b in zip(self, mat2, strict=True))


def _foreach_clone(self, *, memory_format=None):
    """A copy of each tensor; a tuple. Memory formats change nothing here."""
    return tuple(t.clone() for t in _self("_foreach_clone", self))


def _foreach_copy_(self, src, non_blocking=False):
    """Copy each tensor of src into its counterpart of self, cast to its dtype; returns self."""
    tensors, src = _self("_foreach_copy_", self), _tensors("_foreach_copy_", src, "src", 2)
    _same_count("_foreach_copy_", tensors, src)
    for t, s in zip(tensors, src, strict=True):
        t.copy_(s, non_blocking)
    return self


def _foreach_zero_(self):
    """Fill each tensor with zeros; returns the list."""
    for t in _self("_foreach_zero_", self):
        t.zero_()
    return self


for _f in (_foreach_pow, _foreach_pow_, _foreach_lerp, _foreach_lerp_, _foreach_norm, _foreach_powsum, _foreach_max, _foreach_mm,
           _foreach_clone, _foreach_copy_, _foreach_zero_):
    publish(_f.__name__, _f)

"""torch.masked: reductions and normalizations that leave out the elements whose mask is False.

Each fills the masked-out elements with the reduction's identity and calls the plain op; a slice with no element left
gives the identity (sum 0, prod 1, amax -inf), nan where there is none (mean, softmax). Source: torch.masked's page.
"""
from __future__ import annotations

import numpy as np

from lazy_tensor import dtypes
from lazy_tensor.ops import _define
from lazy_tensor.ops._define import composite
from lazy_tensor.tensor import Tensor


def _call(path, *args, **kw):
    return _define._public[path](*args, **kw)


def _inputs(name, input, mask, dtype=None):
    """The input in the wanted dtype and the mask in its shape."""
    if not isinstance(input, Tensor):
        raise TypeError(f"masked.{name}(): input must be Tensor, not {type(input).__name__}")
    if mask is not None:
        if not isinstance(mask, Tensor):
            raise TypeError(f"masked.{name}(): mask must be Tensor, not {type(mask).__name__}")
        if mask.dim() > input.dim():
            raise IndexError(f"masked.{name}: a mask of shape {list(mask.shape)} has more dimensions than the input {list(input.shape)}")
        mask = _call("broadcast_to", mask if mask.dtype.name == "bool" else mask != 0, tuple(input.shape))
    return (input if dtype is None else input.to(dtype)), mask


def _filled(input, mask, value):
    return input if mask is None else _call("where", mask, input, value)


def _dims(dim, input):
    """The dimensions as a tuple; None and () mean all."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(input.dim()))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    n = max(input.dim(), 1)
    for d in dims:
        if not -n <= d < n:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})")
    dims = tuple(d % n for d in dims)
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"dim={list(dim)} contains a dimension twice")
    return dims if input.dim() else ()


def _low(dtype):
    kind = dtype.np.kind
    return False if kind == "b" else int(np.iinfo(dtype.np).min) if kind in "iu" else -float("inf")


def _high(dtype):
    kind = dtype.np.kind
    return True if kind == "b" else int(np.iinfo(dtype.np).max) if kind in "iu" else float("inf")


def _wide(input, dtype):
    """torch.masked's result dtype of sums: small integers become int64."""
    if dtype is not None:
        return dtype
    return dtypes.names["int64"] if input.dtype.np.kind in "biu" else input.dtype


@composite(where="masked", name="sum")
def sum_(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The sum of the unmasked elements along dim (torch.masked.sum)."""
    x, m = _inputs("sum", input, mask, _wide(input, dtype))
    x = _filled(x, m, 0)
    return _call("sum", x, _dims(dim, x), keepdim, dtype=x.dtype) if x.dim() else x


@composite(where="masked")
def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The product of the unmasked elements along dim (torch.masked.prod)."""
    x, m = _inputs("prod", input, mask, _wide(input, dtype))
    x = _filled(x, m, 1)
    for d in sorted(_dims(dim, x), reverse=True):
        x = _call("prod", x, d, keepdim, dtype=x.dtype)
    return x


def _extreme(name, fill):
    def call(input, dim=None, *, keepdim=False, dtype=None, mask=None):
        x, m = _inputs(name, input, mask, dtype)
        x = _filled(x, m, fill(x.dtype))
        return _call(name, x, _dims(dim, x), keepdim) if x.dim() else x
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"The {name[1:]}imum of the unmasked elements along dim, gradients shared among ties (torch.masked.{name})."
    composite(call, where="masked")


_extreme("amax", _low)
_extreme("amin", _high)


def _arg(name, fill):
    def call(input, dim=None, *, keepdim=False, dtype=None, mask=None):
        x, m = _inputs(name, input, mask)
        return _call(name, _filled(x, m, fill(x.dtype)), dim, keepdim).to(dtype or x.dtype)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"The index of the {name[3:]}imum of the unmasked elements along dim, in input's dtype (torch.masked.{name})."
    composite(call, where="masked")


_arg("argmax", _low)
_arg("argmin", _high)


def _count(x, mask, dims, keepdim):
    """How many elements each slice keeps, in x's real dtype (at least float32)."""
    real = x.dtype.to_real() if x.dtype.is_complex else x.dtype
    ones = _call("ones_like", x, dtype=dtypes.names["int64"])
    n = _filled(ones, mask, 0)
    return (_call("sum", n, dims, keepdim) if x.dim() else n).to(real if real.itemsize >= 4 else dtypes.names["float32"])


@composite(where="masked")
def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The mean of the unmasked elements along dim; nan where none is left (torch.masked.mean)."""
    x, m = _inputs("mean", input, mask, dtype)
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        raise ValueError(f"mean expects a floating point or complex dtype, got {x.dtype} (give dtype=)")
    dims = _dims(dim, x)
    total = _filled(x, m, 0)
    total = _call("sum", total, dims, keepdim) if x.dim() else total
    return (total / _count(x, m, dims, keepdim)).to(x.dtype)


@composite(where="masked")
def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The lower median of the unmasked elements along dim (torch.masked.median)."""
    x, m = _inputs("median", input, mask, dtype)
    if not x.dtype.is_floating_point:
        raise ValueError(f"masked median expects a floating point dtype, got {x.dtype}")
    if m is None:
        return _call("median", x, dim, keepdim)[0]
    return _call("nanmedian", _filled(x, m, float("nan")), dim, keepdim)[0]


@composite(where="masked")
def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The vector norm of the unmasked elements along dim (torch.masked.norm)."""
    x, m = _inputs("norm", input, mask, dtype)
    return _call("linalg.vector_norm", _filled(x, m, 0 if ord >= 0 else float("inf")), ord, _dims(dim, x), keepdim)


def _spread(name, input, dim, unbiased, correction, keepdim, dtype, mask):
    if unbiased is not None and correction is not None:
        raise RuntimeError(f"masked.{name}: only one of unbiased and correction may be given")
    c = correction if correction is not None else 1 if unbiased is None or unbiased else 0
    if dtype is None and input.dtype.np.kind in "biu":
        dtype = dtypes.get_default_dtype()
    x, m = _inputs(name, input, mask, dtype)
    out = x.dtype
    if out.itemsize < 4:
        x = x.to(dtypes.names["float32"])
    dims = _dims(dim, x)
    kept = _count(x, m, dims, True)
    middle = _filled(x, m, 0)
    middle = (_call("sum", middle, dims, True) if x.dim() else middle) / kept
    gap = _filled(x - middle, m, 0)
    square = (gap * gap.conj()).real if x.dtype.is_complex else gap * gap
    total = _call("sum", square, dims, keepdim) if x.dim() else square
    n = _count(x, m, dims, keepdim)
    v = total / (_call("clamp", n - c, min=0) if c else n)
    return v, out


@composite(where="masked")
def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The variance of the unmasked elements along dim (torch.masked.var)."""
    v, out = _spread("var", input, dim, unbiased, correction, keepdim, dtype, mask)
    return v.to(out)


@composite(where="masked")
def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The standard deviation of the unmasked elements along dim (torch.masked.std)."""
    v, out = _spread("std", input, dim, unbiased, correction, keepdim, dtype, mask)
    return v.sqrt().to(out)


def _soft(name, sign, doc):
    def call(input, dim, *, dtype=None, mask=None):
        x, m = _inputs(name, input, mask, dtype)
        x = _filled(x, m, -sign * float("inf"))
        path = name if name in _define._public else f"nn.functional.{name}"
        return _call(path, x, dim)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{doc} over the unmasked elements along dim (torch.masked.{name})."
    composite(call, where="masked")


_soft("softmax", 1, "Softmax")
_soft("log_softmax", 1, "The logarithm of softmax")
_soft("softmin", -1, "Softmin")


@composite(where="masked")
def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """The unmasked elements over their norm along dim, at least eps (torch.masked.normalize)."""
    x, m = _inputs("normalize", input, mask, dtype)
    size = norm(x, ord, dim, keepdim=True, mask=m)
    return _filled(x, m, 0) / _call("clamp", size, min=eps)


def _scan(name, value):
    def call(input, dim, *, dtype=None, mask=None):
        x, m = _inputs(name, input, mask, _wide(input, dtype))
        return _call(name, _filled(x, m, value), dim)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{name} along dim with masked-out elements taken as {value} (torch.masked.{name})."
    composite(call, where="masked")


_scan("cumsum", 0)
_scan("cumprod", 1)


@composite(where="masked")
def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """log(sum(exp(x))) of the unmasked elements along dim (torch.masked.logsumexp)."""
    if dtype is None and input.dtype.np.kind in "biu":
        dtype = dtypes.get_default_dtype()
    x, m = _inputs("logsumexp", input, mask, dtype)
    return _call("logsumexp", _filled(x, m, -float("inf")), _dims(dim, x), keepdim)


@composite(where="masked")
def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """log(exp(a) + exp(b)) with masked-out elements taken as -inf (torch.masked.logaddexp)."""
    a, m = _inputs("logaddexp", input, input_mask, dtype)
    b, n = _inputs("logaddexp", other, other_mask, dtype)
    return _call("logaddexp", _filled(a, m, -float("inf")), _filled(b, n, -float("inf")))

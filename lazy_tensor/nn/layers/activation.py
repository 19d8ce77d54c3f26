"""Activations (torch.nn.modules.activation)."""
from __future__ import annotations

import warnings

from lazy_tensor.nn import functional as F
from lazy_tensor.nn import init
from lazy_tensor.nn.layers._args import empty_parameter
from lazy_tensor.nn.layers._plain import _REQUIRED, Plain
from lazy_tensor.nn.module import Module


class _Activation(Plain):
    def extra_repr(self):
        """The arguments; inplace only when set."""
        parts = [f"{k}={getattr(self, k)}" for k in (self._fields if self._shown is None else self._shown) if k != "inplace"]
        return ", ".join(parts + ["inplace=True"] * bool(self.__dict__.get("inplace")))


class _Bare(_Activation):
    def extra_repr(self):
        """Nothing, as torch's."""
        return ""


class _Shrink(_Activation):
    def extra_repr(self):
        """lambd without its name, as torch's."""
        return str(self.lambd)


def _make(name, fn, doc, fields=None, base=_Activation):
    return type(name, (base,), dict(_fields=fields or {}, _fn=fn, __doc__=f"{doc} (torch.nn.{name}).", __module__=__name__))


_IN = dict(inplace=False)
ReLU = _make("ReLU", "relu", "max(0, x)", _IN)
ReLU6 = _make("ReLU6", "relu6", "min(max(0, x), 6)", _IN)
SELU = _make("SELU", "selu", "scale (max(0, x) + min(0, alpha (exp(x) - 1)))", _IN)
SiLU = _make("SiLU", "silu", "x sigmoid(x)", _IN)
Mish = _make("Mish", "mish", "x tanh(softplus(x))", _IN)
Hardswish = _make("Hardswish", "hardswish", "x relu6(x + 3) / 6", _IN, _Bare)
Hardsigmoid = _make("Hardsigmoid", "hardsigmoid", "relu6(x + 3) / 6", _IN, _Bare)
Sigmoid = _make("Sigmoid", "sigmoid", "1 / (1 + exp(-x))")
Tanh = _make("Tanh", "tanh", "tanh(x)")
Tanhshrink = _make("Tanhshrink", "tanhshrink", "x - tanh(x)")
Softsign = _make("Softsign", "softsign", "x / (1 + |x|)")
LogSigmoid = _make("LogSigmoid", "logsigmoid", "log(sigmoid(x))")
ELU = _make("ELU", "elu", "x for x > 0, else alpha (exp(x) - 1)", dict(alpha=1.0, inplace=False))
CELU = _make("CELU", "celu", "max(0, x) + min(0, alpha (exp(x / alpha) - 1))", dict(alpha=1.0, inplace=False))
LeakyReLU = _make("LeakyReLU", "leaky_relu", "x for x > 0, else slope x", dict(negative_slope=0.01, inplace=False))
Threshold = _make("Threshold", "threshold", "x where x > threshold, else value",
                  dict(threshold=_REQUIRED, value=_REQUIRED, inplace=False))
Softshrink = _make("Softshrink", "softshrink", "x moved towards 0 by lambd", dict(lambd=0.5), _Shrink)
Hardshrink = _make("Hardshrink", "hardshrink", "x where |x| > lambd, else 0", dict(lambd=0.5), _Shrink)
GLU = _make("GLU", "glu", "a sigmoid(b), the halves of x along dim", dict(dim=-1))
Softplus = _make("Softplus", "softplus", "log(1 + exp(beta x)) / beta", dict(beta=1.0, threshold=20.0))


class GELU(_Activation):
    """x Phi(x), Phi the normal distribution function or its tanh approximation (torch.nn.GELU)."""

    _fields = dict(approximate="none")
    _fn = "gelu"

    def extra_repr(self):
        """approximate."""
        return f"approximate={self.approximate!r}"


class Hardtanh(_Activation):
    """x clipped to [min_val, max_val] (torch.nn.Hardtanh)."""

    _fields = dict(min_val=-1.0, max_val=1.0, inplace=False, min_value=None, max_value=None)
    _fn, _shown, _pass_fields = "hardtanh", ("min_val", "max_val"), ("min_val", "max_val", "inplace")

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for old, new in (("min_value", "min_val"), ("max_value", "max_val")):
            if getattr(self, old) is not None:
                warnings.warn(f"keyword argument `{old}` is deprecated and rename to `{new}`", FutureWarning, stacklevel=2)
                setattr(self, new, getattr(self, old))
            delattr(self, old)
        if not self.max_val > self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")


class RReLU(_Activation):
    """leaky_relu with a random slope from U(lower, upper) in training (torch.nn.RReLU)."""

    _fields = dict(lower=1.0 / 8, upper=1.0 / 3, inplace=False)

    def forward(self, input):
        """F.rrelu."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class PReLU(Module):
    """max(0, x) + a min(0, x) with a learned (torch.nn.PReLU)."""

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = empty_parameter((num_parameters,), device, dtype)
        self.reset_parameters()

    def reset_parameters(self):
        """Fill with `init`."""
        init.constant_(self.weight, self.init)

    def forward(self, input):
        """F.prelu."""
        return F.prelu(input, self.weight)

    def extra_repr(self):
        """num_parameters."""
        return f"num_parameters={self.num_parameters}"


def _legacy_dim(name, dim, ndim):
    if dim is not None:
        return dim
    warnings.warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
                  stacklevel=3)
    return 0 if ndim in (0, 1, 3) else 1


class _SoftNd(Plain):
    _fields = dict(dim=None)

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)

    def forward(self, input):
        """The function along dim."""
        return getattr(F, self._fn)(input, _legacy_dim(self._fn, self.dim, input.dim()))


class Softmax(_SoftNd):
    """exp(x) / sum exp(x) along dim (torch.nn.Softmax)."""

    _fn = "softmax"

    def extra_repr(self):
        """dim."""
        return f"dim={self.dim}"


class Softmin(_SoftNd):
    """softmax(-x) along dim (torch.nn.Softmin)."""

    _fn = "softmin"


class LogSoftmax(_SoftNd):
    """log(softmax(x)) along dim (torch.nn.LogSoftmax)."""

    _fn = "log_softmax"


class Softmax2d(Module):
    """softmax over the channels of (N, C, H, W) or (C, H, W) (torch.nn.Softmax2d)."""

    def forward(self, input):
        """softmax along dimension -3."""
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)

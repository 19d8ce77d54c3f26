"""Padding layers (torch.nn.modules.padding)."""
from __future__ import annotations

from lazy_tensor.nn import functional as F
from lazy_tensor.nn.layers._args import ntuple
from lazy_tensor.nn.module import Module


class _PadNd(Module):
    _n = 0
    _mode = "constant"

    def __init__(self, padding):
        super().__init__()
        self.padding = ntuple(padding, 2 * self._n)

    def forward(self, input):
        """The padded input."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self):
        """padding."""
        return f"{self.padding}"


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input):
        """The padded input; (N, C, *) or (C, *)."""
        if input.dim() not in (self._n + 1, self._n + 2):
            raise ValueError(f"expected {self._n + 1}D or {self._n + 2}D input (got {input.dim()}D input)")
        return F.pad(input, self.padding, "circular")


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class _ConstantPadNd(_PadNd):
    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        """The padded input."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        """padding and value."""
        return f"padding={self.padding}, value={self.value}"


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        """padding."""
        return f"{self.padding}"


def _of(kind, base, n):
    name = f"{kind}Pad{n}d"
    return type(name, (base,), {"_n": n, "__module__": __name__, "__doc__": f"{kind} padding of the last {n} dimension(s) "
                                f"(torch.nn.{name})."})


CircularPad1d, CircularPad2d, CircularPad3d = (_of("Circular", _CircularPadNd, n) for n in (1, 2, 3))
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = (_of("Reflection", _ReflectionPadNd, n) for n in (1, 2, 3))
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = (_of("Replication", _ReplicationPadNd, n) for n in (1, 2, 3))
ConstantPad1d, ConstantPad2d, ConstantPad3d = (_of("Constant", _ConstantPadNd, n) for n in (1, 2, 3))
ZeroPad1d, ZeroPad2d, ZeroPad3d = (_of("Zero", _ZeroPadNd, n) for n in (1, 2, 3))

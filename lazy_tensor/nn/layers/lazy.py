"""Layers that learn their input size from the first input (torch.nn.LazyLinear, LazyConv*, LazyBatchNorm*, LazyInstanceNorm*)."""
from __future__ import annotations

import lazy_tensor as lt
from lazy_tensor.nn.layers import conv, linear, normalization
from lazy_tensor.nn.module import Module
from lazy_tensor.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy


class LazyModuleMixin:
    """A module whose uninitialized parameters get their shape in `initialize_parameters(input)` at the first call."""

    cls_to_become: type | None = None

    def __call__(self, *args, **kwargs):
        self.initialize_parameters(*args, **kwargs)
        if self.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        become = self.cls_to_become
        if become is not None:
            self.__class__ = become
        return Module.__call__(self, *args, **kwargs)

    def has_uninitialized_params(self):
        """Whether some parameter or buffer has no shape yet."""
        return any(p is not None and is_lazy(p) for p in (*self._parameters.values(), *self._buffers.values()))

    def initialize_parameters(self, *args, **kwargs):
        """Give the parameters their shapes from the input; subclasses override it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def reset_parameters(self):
        """Nothing while there are no shapes."""
        if not self.has_uninitialized_params():
            super().reset_parameters()

    def _load_from_state_dict(self, state_dict, prefix, *args):
        for name, p in [*self._parameters.items(), *self._buffers.items()]:
            new = state_dict.get(prefix + name)
            if p is not None and is_lazy(p) and isinstance(new, lt.Tensor) and not is_lazy(new):
                p.materialize(new.shape)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, p in [*self._parameters.items(), *self._buffers.items()]:
            if p is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = p if is_lazy(p) or keep_vars else p.detach()


class LazyLinear(LazyModuleMixin, linear.Linear):
    """Linear whose in_features comes from the first input (torch.nn.LazyLinear)."""

    cls_to_become = linear.Linear

    def __init__(self, out_features, bias=True, device=None, dtype=None):
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self):
        """Initialise once there are shapes."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input):
        """Shapes from input's last dimension."""
        if self.in_features == 0:
            self.in_features = input.shape[-1]
        if self.has_uninitialized_params():
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()


class _LazyConvNd(LazyModuleMixin):
    def _set_lazy(self, out_channels, bias, device, dtype):
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self):
        """Initialise once there are shapes."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input, *args, **kw):
        """Shapes from input's channels."""
        n = self._n
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {type(self).__name__}, but got input of "
                               f"size: {input.shape}")
        self.in_channels = input.shape[1] if input.dim() == n + 2 else input.shape[0]
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if self.out_channels % self.groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if not self.has_uninitialized_params():
            return
        head = (self.in_channels, self.out_channels // self.groups) if self.transposed else (
            self.out_channels, self.in_channels // self.groups)
        self.weight.materialize((*head, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyConv(_LazyConvNd):
    def __init__(self, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros", device=None,
                 dtype=None):
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._set_lazy(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvNd):
    def __init__(self, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1,
                 padding_mode="zeros", device=None, dtype=None):
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
        self._set_lazy(out_channels, bias, device, dtype)


class _LazyNorm(LazyModuleMixin):
    def __init__(self, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None, *, bias=True):
        super().__init__(0, eps, momentum, False, False)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = lt.tensor(0, dtype=lt.int64, device=device)

    def reset_parameters(self):
        """Initialise once there are shapes."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input):
        """Shapes from input's channels."""
        if not (self.affine or self.track_running_stats):
            return
        self.num_features = input.shape[1]
        if not self.has_uninitialized_params():
            return
        for t in (self.weight, self.bias, self.running_mean, self.running_var):
            if t is not None:
                t.materialize((self.num_features,))
        self.reset_parameters()


def _lazy(mixin, base):
    name = "Lazy" + base.__name__
    return type(name, (mixin, base), dict(cls_to_become=base, __module__=__name__,
                                          __doc__=f"{base.__name__} whose input channels come from the first input (torch.nn.{name})."))


LazyConv1d, LazyConv2d, LazyConv3d = (
    _lazy(_LazyConv, b) for b in (conv.Conv1d, conv.Conv2d, conv.Conv3d))
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = (
    _lazy(_LazyConvTranspose, b) for b in (conv.ConvTranspose1d, conv.ConvTranspose2d, conv.ConvTranspose3d))
LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = (
    _lazy(_LazyNorm, b) for b in (normalization.BatchNorm1d, normalization.BatchNorm2d, normalization.BatchNorm3d))
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = (
    _lazy(_LazyNorm, b) for b in (normalization.InstanceNorm1d, normalization.InstanceNorm2d, normalization.InstanceNorm3d))

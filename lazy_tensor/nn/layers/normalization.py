"""Norms (torch.nn.modules.batchnorm, instancenorm, normalization)."""
from __future__ import annotations

import numbers

import lazy_tensor as lt
from lazy_tensor.nn import functional as F
from lazy_tensor.nn import init
from lazy_tensor.nn.layers._args import empty_parameter
from lazy_tensor.nn.layers._plain import _REQUIRED, Plain
from lazy_tensor.nn.module import Module


class _NormBase(Module):
    """Affine parameters and running statistics."""

    _version = 2
    _dims: tuple = ()

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None, *,
                 bias=True):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        for name, on in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(name, empty_parameter((num_features,), device, dtype) if on else None)
        if track_running_stats:
            self.register_buffer("running_mean", lt.zeros(num_features, device=device, dtype=dtype))
            self.register_buffer("running_var", lt.ones(num_features, device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", lt.tensor(0, dtype=lt.int64, device=device))
        else:
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self):
        """mean 0, variance 1, no batches."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self):
        """Statistics reset, weight 1, bias 0."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input):
        if input.dim() not in self._dims:
            want = " or ".join(f"{d}D" for d in self._dims)
            raise ValueError(f"expected {want} input (got {input.dim()}D input)")

    def extra_repr(self):
        """The arguments."""
        return (f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, bias={self.bias is not None}, "
                f"track_running_stats={self.track_running_stats}")

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        version = local_metadata.get("version", None)
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            state_dict[key] = lt.tensor(0, dtype=lt.int64) if self.num_batches_tracked is None else self.num_batches_tracked
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)


class _BatchNorm(_NormBase):
    def forward(self, input):
        """F.batch_norm with this module's statistics."""
        self._check_input_dim(input)
        average = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                average = 1.0 / self.num_batches_tracked.double()  # a tensor: the step needs no value on the host
        mean, var = self.running_mean, self.running_var
        use_batch = self.training or (mean is None and var is None)
        keep = not self.training or self.track_running_stats
        return F.batch_norm(input, mean if keep else None, var if keep else None, self.weight, self.bias, use_batch, average, self.eps)


class BatchNorm1d(_BatchNorm):
    """Batch normalization of (N, C) or (N, C, L) (Ioffe and Szegedy 2015; torch.nn.BatchNorm1d)."""

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization of (N, C, H, W) (torch.nn.BatchNorm2d)."""

    _dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of (N, C, D, H, W) (torch.nn.BatchNorm3d)."""

    _dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalization over all replicas; with one replica it is BatchNorm (torch.nn.SyncBatchNorm)."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, process_group=None, device=None,
                 dtype=None, *, bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    def forward(self, input):
        """Batch normalization with the mean and variance over every replica's batch; the replicas' batches may differ in size."""
        from xla_backend import runtime
        if not (self.training or not self.track_running_stats) or runtime.world_size() == 1:
            return super().forward(input)
        import lazy_tensor as lt
        from lazy_tensor import distributed
        from xla_backend.core import xla_model as xm
        self._check_input_dim(input)
        dims = [d for d in range(input.dim()) if d != 1]
        x = input.float() if input.dtype in (lt.float16, lt.bfloat16) else input
        n = lt.full((1,), x.numel() / x.shape[1], dtype=x.dtype, device=x.device)
        total = xm.all_reduce(xm.REDUCE_SUM, lt.cat([n, x.sum(dims), (x * x).sum(dims)]),
                              groups=distributed._groups(self.process_group, "SyncBatchNorm"))
        n, c = total[0], x.shape[1]
        mean = total[1:1 + c] / n
        var = total[1 + c:] / n - mean * mean
        if self.training and self.track_running_stats:
            with lt.no_grad():
                self.num_batches_tracked.add_(1)
                rate = 1.0 / self.num_batches_tracked if self.momentum is None else self.momentum
                self.running_mean.mul_(1 - rate).add_(mean.detach().to(self.running_mean.dtype) * rate)
                self.running_var.mul_(1 - rate).add_((var.detach() * n / (n - 1)).to(self.running_var.dtype) * rate)
        shape = [1, c] + [1] * (input.dim() - 2)
        y = (x - mean.view(shape)) * lt.rsqrt(var.view(shape) + self.eps)
        if self.weight is not None:
            y = y * self.weight.view(shape)
        if self.bias is not None:
            y = y + self.bias.view(shape)
        return y.to(input.dtype)

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """module with every BatchNorm in it replaced by a SyncBatchNorm of the same parameters and buffers."""
        out = module
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            out = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats, process_group)
            if module.affine:
                out.weight, out.bias = module.weight, module.bias
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                out._buffers[name] = module._buffers[name]
            out.training = module.training
        for name, child in module.named_children():
            out.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return out


class _InstanceNorm(_NormBase):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None, dtype=None, *,
                 bias=True):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        if local_metadata.get("version", None) is None and not self.track_running_stats:
            found = [k for k in ("running_mean", "running_var") if prefix + k in state_dict]
            if found:
                name, told = type(self).__name__, " and ".join(f'"{prefix}{k}"' for k in found)
                error_msgs.append(f"Unexpected running stats buffer(s) {told} for {name} with "
                                  "track_running_stats=False. Remove these keys from the state_dict (before PyTorch 0.4.0 they were written "
                                  f"without being used), or set track_running_stats=True in {name} to use them.")
                for k in found:
                    state_dict.pop(prefix + k)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def forward(self, input):
        """F.instance_norm."""
        self._check_input_dim(input)
        batched = self._dims[1]
        channel = input.dim() - (batched - 1)
        if input.size(channel) != self.num_features:
            if self.affine:
                raise ValueError(f"expected input's size at dim={channel} to match num_features ({self.num_features}), but got: "
                                 f"{input.size(channel)}.")
            import warnings
            warnings.warn(f"input's size at dim={channel} does not match num_features. You can silence this warning by not passing in "
                          "num_features, which is not used because affine=False", stacklevel=2)
        x = input.unsqueeze(0) if input.dim() != batched else input
        out = F.instance_norm(x, self.running_mean, self.running_var, self.weight, self.bias,
                              self.training or not self.track_running_stats, 0.0 if self.momentum is None else self.momentum, self.eps)
        return out.squeeze(0) if x is not input else out


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of (N, C, L) or (C, L) (Ulyanov et al. 2016; torch.nn.InstanceNorm1d)."""

    _dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization of (N, C, H, W) or (C, H, W) (torch.nn.InstanceNorm2d)."""

    _dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of (N, C, D, H, W) or (C, D, H, W) (torch.nn.InstanceNorm3d)."""

    _dims = (4, 5)


def _shape(x):
    return (x,) if isinstance(x, numbers.Integral) else tuple(x)


class LayerNorm(Module):
    """(x - mean) / sqrt(var + eps) over the last dimensions, affine (Ba et al. 2016; torch.nn.LayerNorm)."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape, self.eps, self.elementwise_affine = _shape(normalized_shape), eps, elementwise_affine
        for name, on in (("weight", elementwise_affine), ("bias", elementwise_affine and bias)):
            self.register_parameter(name, empty_parameter(self.normalized_shape, device, dtype) if on else None)
        self.reset_parameters()

    def reset_parameters(self):
        """weight 1, bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input):
        """F.layer_norm."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        """The arguments."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"


class RMSNorm(Module):
    """x / sqrt(mean(x^2) + eps) over the last dimensions, times weight (Zhang and Sennrich 2019; torch.nn.RMSNorm)."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        self.normalized_shape, self.eps, self.elementwise_affine = _shape(normalized_shape), eps, elementwise_affine
        self.register_parameter("weight", empty_parameter(self.normalized_shape, device, dtype) if elementwise_affine else None)
        self.reset_parameters()

    def reset_parameters(self):
        """weight 1."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x):
        """F.rms_norm."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        """The arguments."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalization over groups of channels (Wu and He 2018; torch.nn.GroupNorm)."""

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None, *, bias=True):
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.register_parameter("weight", empty_parameter((num_channels,), device, dtype) if affine else None)
        self.register_parameter("bias", empty_parameter((num_channels,), device, dtype) if affine and bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """weight 1, bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input):
        """F.group_norm."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        """The arguments."""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"


class LocalResponseNorm(Plain):
    """x / (k + alpha mean of squares over near channels)^beta (torch.nn.LocalResponseNorm)."""

    _fields = dict(size=_REQUIRED, alpha=1e-4, beta=0.75, k=1.0)
    _fn = "local_response_norm"

    def extra_repr(self):
        """The arguments."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """The old form of LocalResponseNorm (torch.nn.CrossMapLRN2d)."""

    _fields = dict(size=_REQUIRED, alpha=1e-4, beta=0.75, k=1)

"""torch_xla.distributed.zero_redundancy_optimizer: an optimizer whose states are sharded over the replicas (ZeRO-1)."""
from __future__ import annotations

import copy

from lazy_tensor import nn
from lazy_tensor.modes import enable_grad, no_grad
from lazy_tensor.optim import Optimizer
from xla_backend.core import xla_model as xm
from xla_backend.distributed import _shards


class ZeroRedundancyOptimizer(Optimizer):
    """Updates this replica's part of every parameter with optimizer_class, and gathers the results (Rajbhandari et al. 2020).

    params: as any optimizer's. optimizer_dtype: of the parts (float32 when None). grad_clipping, max_norm: scale gradients to a norm of at most
    max_norm (1.0 when None) over all replicas. sharding_groups: groups of ordinals that share a parameter. grad_norm_groups: a
    further sum of squared norms. lazy_init: parts are made by `init_zero()`. pin_layout changes nothing. **defaults: optimizer_class's.

    Gradients are averaged here by a reduce-scatter: call `step()`, not `xm.optimizer_step`. Parameters are cut along their first
    dimension, so optimizers that look at a whole parameter's norm give other numbers. Parameters without a gradient are left alone.

    Example::

        optimizer = ZeroRedundancyOptimizer(model.parameters(), lt.optim.AdamW, lr=1e-3)
    """

    _reduce = True  # torch.distributed.optim's gets gradients that DistributedDataParallel has averaged

    def __init__(self, params, optimizer_class, optimizer_dtype=None, grad_clipping=True, max_norm=None, pin_layout=True,
                 sharding_groups=None, grad_norm_groups=None, lazy_init=False, **defaults):
        import lazy_tensor as lt
        super().__init__(params, defaults)
        self.global_world_size, self.global_rank = xm.xrt_world_size(), xm.get_ordinal()
        self._sharding_groups = sharding_groups if sharding_groups is not None else [list(range(self.global_world_size))]
        self._grad_norm_groups = grad_norm_groups
        self.optimizer_class, self.optimizer_dtype = optimizer_class, optimizer_dtype or lt.float32
        self.grad_clipping, self.max_norm = grad_clipping, 1.0 if max_norm is None else max_norm
        self.inited = False
        if not lazy_init:
            self.init_zero()

    @property
    def sharding_groups(self):
        """The groups of ordinals that share a parameter; can be set until `init_zero`."""
        return self._sharding_groups

    @sharding_groups.setter
    def sharding_groups(self, groups):
        if self.inited:
            raise RuntimeError("ZeroRedundancyOptimizer: sharding_groups cannot change after init_zero()")
        self._sharding_groups = groups

    def init_zero(self):
        """Cut the parameters and make the inner optimizer (`base_optimizer`); ValueError when no group has this replica."""
        group = next((g for g in self._sharding_groups if self.global_rank in g), None)
        if group is None:
            raise ValueError(f"ZeroRedundancyOptimizer: replica {self.global_rank} is in none of sharding_groups {self._sharding_groups}")
        self.local_world_size, self.local_rank = len(group), list(group).index(self.global_rank)
        shards = iter(self._cut([p for g in self.param_groups for p in g["params"]], False))
        groups = []
        for g in self.param_groups:
            parts = [nn.Parameter(next(shards), requires_grad=p.requires_grad) for p in g["params"]]
            groups.append({**g, "params": parts})
        self.base_optimizer = self.optimizer_class(groups, **self.defaults)
        _copy_options(self.base_optimizer.param_groups, self.param_groups)
        self.inited = True

    def _cut(self, tensors, reduce):
        return _shards.cut([t.detach() for t in tensors], self._sharding_groups, reduce, self.optimizer_dtype.np)

    def _clip(self, parts):
        import lazy_tensor as lt
        total = xm.all_reduce(xm.REDUCE_SUM, lt.stack([(p.grad * p.grad).sum() for p in parts]).sum(), groups=self._sharding_groups)
        if self._grad_norm_groups is not None:
            total = xm.all_reduce(xm.REDUCE_SUM, total, groups=self._grad_norm_groups)
        scale = (float(self.max_norm) / (total.sqrt() + 1e-6)).clamp(max=1.0)
        for p in parts:
            p.grad.mul_(scale)

    def step(self, closure=None, **kwargs):
        """One update on all replicas together; returns the closure's result."""
        if not self.inited:
            raise RuntimeError("ZeroRedundancyOptimizer: call init_zero() before the first step")
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            _copy_options(self.param_groups, self.base_optimizer.param_groups)
            pairs = [(p, s) for g, b in zip(self.param_groups, self.base_optimizer.param_groups, strict=True)
                     for p, s in zip(g["params"], b["params"], strict=True) if p.grad is not None]
            parts = [s for _, s in pairs]
            for s, g in zip(parts, self._cut([p.grad for p, _ in pairs], self._reduce), strict=True):
                s.grad = g
            if self.grad_clipping and parts:
                self._clip(parts)
            self._update(parts, kwargs)
            dtypes: dict = {}
            for p, s in pairs:
                dtypes.setdefault(p.dtype, []).append((p, s))
            for dtype, some in dtypes.items():
                cast = None if dtype == self.optimizer_dtype else dtype.np
                whole = _shards.gather([s.detach() for _, s in some], [[tuple(p.shape)] for p, _ in some], self._sharding_groups, cast)
                for (p, _), (new,) in zip(some, whole, strict=True):
                    p.copy_(new)
            _copy_options(self.base_optimizer.param_groups, self.param_groups)
        from lazy_tensor.settings import sync_step
        sync_step()
        return loss

    def _update(self, parts, kwargs):
        """The inner step."""
        self.base_optimizer.step(closure=None, **kwargs)
        self.base_optimizer.zero_grad(set_to_none=True)

    def state_dict(self):
        """The optimizer's, and this replica's part of the states as "base_state"."""
        return {**super().state_dict(), "base_state": self.base_optimizer.state_dict()["state"]}

    def load_state_dict(self, state_dict):
        """Take what `state_dict()` gave on this replica; parts are cut from the parameters anew."""
        state_dict = copy.copy(state_dict)
        base_state = state_dict.pop("base_state")
        super().load_state_dict(state_dict)
        self.init_zero()
        self.base_optimizer.load_state_dict({**self.base_optimizer.state_dict(), "state": base_state})


def _copy_options(source, target):
    for a, b in zip(source, target, strict=True):
        for k, v in a.items():
            if k != "params":
                b[k] = v

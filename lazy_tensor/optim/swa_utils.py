"""Averages of weights (torch.optim.swa_utils)."""
from __future__ import annotations

import copy
import math

from lazy_tensor import nn
from lazy_tensor.modes import no_grad
from lazy_tensor.optim.lr_scheduler import LRScheduler


def get_ema_multi_avg_fn(decay=0.999):
    """A function of (averages, current, count) that keeps exponential moving averages."""
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")

    @no_grad()
    def update(ema, current, _):
        for a, b in zip(ema, current, strict=True):
            a.lerp_(b, 1 - decay) if a.dtype.is_floating_point or a.dtype.is_complex else a.copy_(a * decay + b * (1 - decay))
    return update


def get_swa_multi_avg_fn():
    """A function of (averages, current, count) that keeps equal-weight averages."""
    @no_grad()
    def update(averaged, current, num_averaged):
        n = int(num_averaged)
        for a, b in zip(averaged, current, strict=True):
            a.copy_(a + (b - a) / (n + 1))
    return update


def get_ema_avg_fn(decay=0.999):
    """A function of (average, current, count): the exponential moving average."""
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")
    return no_grad()(lambda ema, current, n: decay * ema + (1 - decay) * current)


def get_swa_avg_fn():
    """A function of (average, current, count): the equal-weight average."""
    return no_grad()(lambda averaged, current, n: averaged + (current - averaged) / (n + 1))


class AveragedModel(nn.Module):
    """A copy of a model whose parameters are averages (Izmailov et al., 2018)."""

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        import lazy_tensor as lt
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", lt.tensor(0, dtype=lt.long, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        """The averaged model's output."""
        return self.module(*args, **kwargs)

    def _tensors(self, m):
        return [*m.parameters(), *(m.buffers() if self.use_buffers else ())]

    @no_grad()
    def update_parameters(self, model):
        """Take the model's parameters into the averages."""
        own, new = self._tensors(self.module), [t.detach().to(a.device) for t, a in zip(self._tensors(model), self._tensors(self.module), strict=True)]
        n = self.n_averaged.item()
        if n == 0:
            for a, b in zip(own, new, strict=True):
                a.copy_(b)
        elif self.multi_avg_fn is not None:
            self.multi_avg_fn(own, new, n)
        else:
            fn = self.avg_fn or get_swa_avg_fn()
            for a, b in zip(own, new, strict=True):
                a.copy_(fn(a, b, n))
        if not self.use_buffers:
            for a, b in zip(self.module.buffers(), model.buffers(), strict=True):
                a.copy_(b.detach().to(a.device))
        self.n_averaged += 1


@no_grad()
def update_bn(loader, model, device=None):
    """Recompute BatchNorm statistics of a model on the inputs of a loader."""
    bns = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if not bns:
        return
    momenta = {m: m.momentum for m in bns}
    for m in bns:
        m.reset_running_stats()
        m.momentum = None
    was = model.training
    model.train()
    for x in loader:
        x = x[0] if isinstance(x, (list, tuple)) else x
        model(x.to(device) if device is not None else x)
    for m, v in momenta.items():
        m.momentum = v
    model.train(was)


class SWALR(LRScheduler):
    """lr annealed to swa_lr and kept there."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        lrs = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(optimizer.param_groups)
        for lr, g in zip(lrs, optimizer.param_groups, strict=True):
            g["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _f(self, t):
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    def get_lr(self):
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before = max(0, min(1, (step - 1) / max(1, self.anneal_epochs)))
        a = self._f(before)
        old = [g["lr"] if a == 1 else (g["lr"] - a * g["swa_lr"]) / (1 - a) for g in self.optimizer.param_groups]
        t = self._f(max(0, min(1, step / max(1, self.anneal_epochs))))
        return [g["swa_lr"] * t + lr * (1 - t) for g, lr in zip(self.optimizer.param_groups, old, strict=True)]

"""SGD, with momentum."""
from __future__ import annotations

import jax.numpy as jnp

from lazy_tensor.optim.optimizer import Elementwise, check_common, number


class SGD(Elementwise):
    """Stochastic gradient descent with momentum, Nesterov's too (torch.optim.SGD).

    Example::

        optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    """

    counts = False

    def __init__(self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False, foreach=None,
                 differentiable=False, fused=None):
        check_common(lr=lr, weight_decay=weight_decay, momentum=momentum)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov,
                                      maximize=maximize, foreach=foreach, differentiable=differentiable, fused=fused))

    def __setstate__(self, state):
        super().__setstate__(state)
        for g in self.param_groups:
            for k, v in (("nesterov", False), ("maximize", False), ("foreach", None), ("differentiable", False), ("fused", False)):
                g.setdefault(k, v)

    def active(self, group):
        return ("momentum_buffer",) if group["momentum"] != 0 else ()

    def init_state(self, p, group):
        if self.active(group):
            self.__dict__.setdefault("_fresh", set()).add(id(p))
        return super().init_state(p, group)

    def _step_group(self, group, differentiable):
        names = self.active(group)
        for p in group["params"]:  # a state loaded or met without its buffer
            if names and p.grad is not None and (p not in self.state or self.state[p].get("momentum_buffer") is None):
                self.state[p].update(self.init_state(p, group))
        fresh = self.__dict__.get("_fresh")
        if not fresh:
            super()._step_group(group, differentiable)
            return
        whole = group["params"]
        for part, first in (([p for p in whole if id(p) in fresh], 1.0), ([p for p in whole if id(p) not in fresh], 0.0)):
            self._first = first
            super()._step_group(group, differentiable, part)
        self._first = 0.0
        fresh.difference_update(id(p) for p in whole)

    _first = 0.0

    def flags(self, group):
        return group["momentum"] != 0, bool(group["nesterov"]), group["weight_decay"] != 0, bool(group["maximize"])

    def hyper(self, group, t, state):
        return [number(group["lr"]), group["momentum"], 1 - group["dampening"], group["weight_decay"], self._first]

    def update(self, flags, p, g, states, h):
        momentum, nesterov, decay, maximize = flags
        g = -g if maximize else g
        g = g + h[3] * p if decay else g
        if momentum:
            buf = jnp.where(h[4] == 1, g, states["momentum_buffer"] * h[1] + h[2] * g)
            g = g + h[1] * buf if nesterov else buf
            states = {"momentum_buffer": buf}
        return p - h[0] * g, states

"""Adam and its family: Adam, AdamW, NAdam, RAdam, Adamax, SparseAdam's refusal."""
from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from lazy_tensor.optim.optimizer import Elementwise, check_common, host_number, lerp, number


def _abs2(g):
    return jnp.real(g) ** 2 + jnp.imag(g) ** 2 if jnp.iscomplexobj(g) else g * g


class Adam(Elementwise):
    """Adam (Kingma and Ba, 2015; torch.optim.Adam)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, foreach=None, maximize=False,
                 capturable=False, differentiable=False, fused=None, decoupled_weight_decay=False):
        check_common(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize,
                                      foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused,
                                      decoupled_weight_decay=decoupled_weight_decay))

    def __setstate__(self, state):
        super().__setstate__(state)
        for g in self.param_groups:
            for k, v in (("amsgrad", False), ("maximize", False), ("decoupled_weight_decay", False)):
                g.setdefault(k, v)

    def active(self, group):
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")

    def flags(self, group):
        return bool(group["amsgrad"]), group["weight_decay"] != 0, bool(group["maximize"]), bool(group["decoupled_weight_decay"])

    def hyper(self, group, t, state):
        lr, (b1, b2) = number(group["lr"]), map(number, group["betas"])
        c1, c2 = 1 - b1 ** t, 1 - b2 ** t
        return [lr / c1, math.sqrt(c2), 1 - b1, b2, 1 - b2, group["eps"], group["weight_decay"], 1 - lr * group["weight_decay"]]

    def update(self, flags, p, g, states, h):
        amsgrad, decay, maximize, decoupled = flags
        g = -g if maximize else g
        if decay:
            if decoupled:
                p = p * h[7]
            else:
                g = g + h[6] * p
        m = lerp(states["exp_avg"], g, h[2])
        v = states["exp_avg_sq"] * h[3] + h[4] * _abs2(g)
        new = {"exp_avg": m, "exp_avg_sq": v}
        if amsgrad:
            top = jnp.maximum(states["max_exp_avg_sq"], v)
            new["max_exp_avg_sq"] = top
            denominator = jnp.sqrt(top) / h[1] + h[5]
        else:
            denominator = jnp.sqrt(v) / h[1] + h[5]
        return p - h[0] * (m / denominator), new


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019; torch.optim.AdamW)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *, maximize=False, foreach=None,
                 capturable=False, differentiable=False, fused=None):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
                         differentiable=differentiable, fused=fused, decoupled_weight_decay=True)

    def __setstate__(self, state):
        super().__setstate__(state)
        for g in self.param_groups:
            g["decoupled_weight_decay"] = True


class NAdam(Elementwise):
    """Adam with Nesterov momentum (Dozat, 2016; torch.optim.NAdam)."""

    slots = ("exp_avg", "exp_avg_sq")

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3, decoupled_weight_decay=False, *,
                 foreach=None, maximize=False, capturable=False, differentiable=False):
        check_common(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay, momentum_decay=momentum_decay)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay,
                                      decoupled_weight_decay=decoupled_weight_decay, maximize=maximize, foreach=foreach, capturable=capturable,
                                      differentiable=differentiable))

    def init_state(self, p, group):
        return {"mu_product": host_number(1.0), **super().init_state(p, group)}

    def per_param(self):
        return True

    def flags(self, group):
        return group["weight_decay"] != 0, bool(group["maximize"]), bool(group["decoupled_weight_decay"])

    def hyper(self, group, t, state):
        lr, (b1, b2) = number(group["lr"]), group["betas"]
        d = group["momentum_decay"]
        mu = b1 * (1.0 - 0.5 * 0.96 ** (t * d))
        mu_next = b1 * (1.0 - 0.5 * 0.96 ** ((t + 1) * d))
        product = float(np.float32(np.float32(state["mu_product"].item()) * np.float32(mu)))
        self._product = product
        return [1 - b1, b2, 1 - b2, 1 - b2 ** t, group["eps"], lr * (1.0 - mu) / (1.0 - product), lr * mu_next / (1.0 - product * mu_next),
                group["weight_decay"], 1 - lr * group["weight_decay"]]

    def after(self, group, state, t):
        state["mu_product"] = host_number(self._product)

    def update(self, flags, p, g, states, h):
        decay, maximize, decoupled = flags
        g = -g if maximize else g
        if decay:
            if decoupled:
                p = p * h[8]
            else:
                g = g + h[7] * p
        m = lerp(states["exp_avg"], g, h[0])
        v = states["exp_avg_sq"] * h[1] + h[2] * _abs2(g)
        denominator = jnp.sqrt(v / h[3]) + h[4]
        return p - h[5] * (g / denominator) - h[6] * (m / denominator), {"exp_avg": m, "exp_avg_sq": v}


class RAdam(Elementwise):
    """Rectified Adam (Liu et al., 2020; torch.optim.RAdam)."""

    slots = ("exp_avg", "exp_avg_sq")

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False, *, foreach=None,
                 maximize=False, capturable=False, differentiable=False):
        check_common(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize, foreach=foreach,
                                      capturable=capturable, decoupled_weight_decay=decoupled_weight_decay, differentiable=differentiable))

    def flags(self, group):
        return group["weight_decay"] != 0, bool(group["maximize"]), bool(group["decoupled_weight_decay"])

    def hyper(self, group, t, state):
        lr, (b1, b2) = number(group["lr"]), group["betas"]
        c1, c2 = 1 - b1 ** t, 1 - b2 ** t
        top = 2 / (1 - b2) - 1
        rho = top - 2 * t * (b2 ** t) / c2
        rect = ((rho - 4) * (rho - 2) * top / ((top - 4) * (top - 2) * rho)) ** 0.5 if rho > 5.0 else 0.0
        return [1 - b1, b2, 1 - b2, c1, c2 ** 0.5, group["eps"], lr, rect, float(rho > 5.0), group["weight_decay"], 1 - lr * group["weight_decay"]]

    def update(self, flags, p, g, states, h):
        decay, maximize, decoupled = flags
        g = -g if maximize else g
        if decay:
            if decoupled:
                p = p * h[10]
            else:
                g = g + h[9] * p
        m = lerp(states["exp_avg"], g, h[0])
        v = states["exp_avg_sq"] * h[1] + h[2] * _abs2(g)
        mean = m / h[3]
        scaled = jnp.where(h[8] == 1, h[4] / (jnp.sqrt(v) + h[5]) * h[7], 1)
        return p - mean * h[6] * scaled, {"exp_avg": m, "exp_avg_sq": v}


class Adamax(Elementwise):
    """Adam with the infinity norm (Kingma and Ba, 2015; torch.optim.Adamax)."""

    slots = ("exp_avg", "exp_inf")

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *, maximize=False, differentiable=False,
                 capturable=False):
        check_common(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, foreach=foreach, maximize=maximize,
                                      differentiable=differentiable, capturable=capturable))

    def flags(self, group):
        return group["weight_decay"] != 0, bool(group["maximize"])

    def hyper(self, group, t, state):
        b1, b2 = group["betas"]
        return [1 - b1, b2, group["eps"], number(group["lr"]) / (1 - b1 ** t), group["weight_decay"]]

    def update(self, flags, p, g, states, h):
        decay, maximize = flags
        g = -g if maximize else g
        g = g + h[4] * p if decay else g
        m = lerp(states["exp_avg"], g, h[0])
        u = jnp.maximum(states["exp_inf"] * h[1], jnp.abs(g) + h[2])
        return p - h[3] * (m / u), {"exp_avg": m, "exp_inf": u}


class SparseAdam(Elementwise):
    """Adam for sparse gradients; gradients here are dense, which it refuses as torch does."""

    slots = ("exp_avg", "exp_avg_sq")

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        check_common(lr=lr, eps=eps, betas=betas)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, maximize=maximize))

    def step(self, closure=None):
        """Raises: every gradient is dense here."""
        raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")

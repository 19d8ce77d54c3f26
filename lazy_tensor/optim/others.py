"""RMSprop, Adagrad, Adadelta, ASGD, Rprop, Adafactor, Muon."""
from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from lazy_tensor.optim.optimizer import Elementwise, check_common, host_number, lerp, like, number
from lazy_tensor.tensor import wrap
from xla_backend import runtime


class RMSprop(Elementwise):
    """RMSprop (Hinton's lecture 6e; Graves, 2013 when centered; torch.optim.RMSprop)."""

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, capturable=False, foreach=None,
                 maximize=False, differentiable=False):
        check_common(lr=lr, eps=eps, weight_decay=weight_decay, momentum=momentum, alpha=alpha)
        super().__init__(params, dict(lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered, weight_decay=weight_decay,
                                      capturable=capturable, foreach=foreach, maximize=maximize, differentiable=differentiable))

    def active(self, group):
        return ("square_avg", *(("momentum_buffer",) if group["momentum"] > 0 else ()), *(("grad_avg",) if group["centered"] else ()))

    def flags(self, group):
        return group["momentum"] > 0, bool(group["centered"]), group["weight_decay"] != 0, bool(group["maximize"])

    def hyper(self, group, t, state):
        return [number(group["lr"]), group["alpha"], 1 - group["alpha"], group["eps"], group["weight_decay"], group["momentum"]]

    def update(self, flags, p, g, states, h):
        momentum, centered, decay, maximize = flags
        g = -g if maximize else g
        g = g + h[4] * p if decay else g
        sq = states["square_avg"] * h[1] + h[2] * g * g
        new = {"square_avg": sq}
        if centered:
            new["grad_avg"] = lerp(states["grad_avg"], g, h[2])
            avg = jnp.sqrt(sq - new["grad_avg"] * new["grad_avg"]) + h[3]
        else:
            avg = jnp.sqrt(sq) + h[3]
        if momentum:
            new["momentum_buffer"] = states["momentum_buffer"] * h[5] + g / avg
            return p - h[0] * new["momentum_buffer"], new
        return p - h[0] * (g / avg), new


class Adagrad(Elementwise):
    """Adagrad (Duchi, Hazan and Singer, 2011; torch.optim.Adagrad)."""

    slots = ("sum",)

    def __init__(self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, foreach=None, *, maximize=False,
                 differentiable=False, fused=None):
        check_common(lr=lr, eps=eps, weight_decay=weight_decay, lr_decay=lr_decay, initial_accumulator_value=initial_accumulator_value)
        super().__init__(params, dict(lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay,
                                      initial_accumulator_value=initial_accumulator_value, foreach=foreach, maximize=maximize,
                                      differentiable=differentiable, fused=fused))
        for g in self.param_groups:  # torch makes the state at once
            for p in g["params"]:
                self.state[p] = {"step": host_number(0.0), **self.init_state(p, g)}

    def init_state(self, p, group):
        v = group["initial_accumulator_value"]
        return {"sum": like(p, complex(v, v) if p.dtype.is_complex else v)}

    def share_memory(self):
        """Nothing to do: values are immutable."""

    def flags(self, group):
        return group["weight_decay"] != 0, bool(group["maximize"])

    def hyper(self, group, t, state):
        return [number(group["lr"]) / (1 + (t - 1) * group["lr_decay"]), group["eps"], group["weight_decay"]]

    def update(self, flags, p, g, states, h):
        decay, maximize = flags
        g = -g if maximize else g
        g = g + h[2] * p if decay else g
        s = states["sum"] + g * g
        return p - h[0] * (g / (jnp.sqrt(s) + h[1])), {"sum": s}


class Adadelta(Elementwise):
    """Adadelta (Zeiler, 2012; torch.optim.Adadelta)."""

    slots = ("square_avg", "acc_delta")

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *, capturable=False, maximize=False, differentiable=False):
        check_common(lr=lr, eps=eps, weight_decay=weight_decay)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize, capturable=capturable,
                                      foreach=foreach, differentiable=differentiable))

    def flags(self, group):
        return group["weight_decay"] != 0, bool(group["maximize"])

    def hyper(self, group, t, state):
        return [number(group["lr"]), group["rho"], 1 - group["rho"], group["eps"], group["weight_decay"]]

    def update(self, flags, p, g, states, h):
        decay, maximize = flags
        g = -g if maximize else g
        g = g + h[4] * p if decay else g
        sq = states["square_avg"] * h[1] + h[2] * g * g
        delta = jnp.sqrt(states["acc_delta"] + h[3]) / jnp.sqrt(sq + h[3]) * g
        acc = states["acc_delta"] * h[1] + h[2] * delta * delta
        return p - h[0] * delta, {"square_avg": sq, "acc_delta": acc}


class ASGD(Elementwise):
    """Averaged SGD (Polyak and Juditsky, 1992; torch.optim.ASGD)."""

    slots = ("ax",)

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None, maximize=False, differentiable=False,
                 capturable=False):
        check_common(lr=lr, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay, foreach=foreach, maximize=maximize,
                                      differentiable=differentiable, capturable=capturable))

    def init_state(self, p, group):
        return {"eta": host_number(number(group["lr"])), "mu": host_number(1.0), **super().init_state(p, group)}

    def per_param(self):
        return True

    def flags(self, group):
        return group["weight_decay"] != 0, bool(group["maximize"])

    def hyper(self, group, t, state):
        eta, mu = state["eta"].item(), state["mu"].item()
        return [1 - group["lambd"] * eta, eta, mu, group["weight_decay"]]

    def after(self, group, state, t):
        lr = number(group["lr"])
        state["eta"] = host_number(lr / ((1 + group["lambd"] * lr * t) ** group["alpha"]))
        state["mu"] = host_number(1 / max(1, t - group["t0"]))

    def update(self, flags, p, g, states, h):
        decay, maximize = flags
        g = -g if maximize else g
        g = g + h[3] * p if decay else g
        p = p * h[0] - h[1] * g
        ax = jnp.where(h[2] != 1, states["ax"] + (p - states["ax"]) * h[2], p)
        return p, {"ax": ax}


class Rprop(Elementwise):
    """Resilient backpropagation (Riedmiller and Braun, 1993; torch.optim.Rprop)."""

    slots = ("prev", "step_size")

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False, foreach=None, maximize=False,
                 differentiable=False):
        check_common(lr=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, dict(lr=lr, etas=etas, step_sizes=step_sizes, foreach=foreach, maximize=maximize, differentiable=differentiable,
                                      capturable=capturable))

    def init_state(self, p, group):
        lr = number(group["lr"])
        return {"prev": like(p), "step_size": like(p, complex(lr, lr) if p.dtype.is_complex else lr)}

    def flags(self, group):
        return (bool(group["maximize"]),)

    def hyper(self, group, t, state):
        return [*group["etas"], *group["step_sizes"]]

    def update(self, flags, p, g, states, h):
        g = -g if flags[0] else g
        sign = jnp.sign(g * states["prev"])
        factor = jnp.where(sign > 0, h[1], jnp.where(sign < 0, h[0], 1))
        size = jnp.clip(states["step_size"] * factor, h[2], h[3])
        g = jnp.where(sign < 0, 0, g)
        return p - jnp.sign(g) * size, {"prev": g, "step_size": size}


class Adafactor(Elementwise):
    """Adafactor (Shazeer and Stern, 2018; torch.optim.Adafactor)."""

    def __init__(self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *, foreach=None, maximize=False):
        check_common(lr=lr, weight_decay=weight_decay)
        if beta2_decay > 0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and eps[0] < 0 or eps[1] < 0:
            raise ValueError(f"epsilon should be >= 0 but is: {eps}")
        if d < 1:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        super().__init__(params, dict(lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay, foreach=foreach, maximize=maximize))

    def _step_group(self, group, differentiable):
        for wide in (True, False):
            self._wide = wide
            super()._step_group(group, differentiable, [p for p in group["params"] if (p.dim() > 1) == wide])

    def active(self, group):
        return ("row_var", "col_var") if self._wide else ("variance",)

    def init_state(self, p, group):
        a = p._v.aval

        def zeros(shape):
            return wrap(runtime.leaf(np.zeros(shape, a.dtype), a.device, copy=False))
        if len(a.shape) > 1:
            return {"row_var": zeros((*a.shape[:-1], 1)), "col_var": zeros((*a.shape[:-2], 1, a.shape[-1]))}
        return {"variance": zeros(a.shape)}

    def flags(self, group):
        return group["weight_decay"] != 0, bool(group["maximize"]), group["eps"][0]

    def hyper(self, group, t, state):
        lr = number(group["lr"])
        return [t ** group["beta2_decay"], min(lr, 1 / (t ** 0.5)), group["eps"][1], group["d"], 1 - lr * group["weight_decay"]]

    def update(self, flags, p, g, states, h):
        decay, maximize, eps1 = flags
        g = -g if maximize else g
        eps1 = float(jnp.finfo(p.dtype).eps) if eps1 is None else eps1
        norm = lambda x: jnp.sqrt(jnp.sum(x * x))
        alpha = jnp.maximum(h[2], norm(p) / math.sqrt(p.size)) * h[1]
        p = p * h[4] if decay else p
        if p.ndim > 1:
            row = lerp(states["row_var"], (g * g).sum(-1, keepdims=True) / g.shape[-1], h[0])
            col = lerp(states["col_var"], (g * g).sum(-2, keepdims=True) / g.shape[-2], h[0])
            var = row @ col / jnp.maximum(row.mean(-2, keepdims=True), eps1)
            new = {"row_var": row, "col_var": col}
        else:
            var = lerp(states["variance"], g * g, h[0])
            new = {"variance": var}
        update = g / jnp.sqrt(jnp.maximum(var, eps1 * eps1))
        denominator = jnp.maximum(1.0, norm(update) / (math.sqrt(p.size) * h[3]))
        return p - alpha / denominator * update, new


class Muon(Elementwise):
    """Momentum orthogonalised by Newton-Schulz iterations, for matrices (Jordan et al., 2024; torch.optim.Muon)."""

    slots = ("momentum_buffer",)
    counts = False

    def __init__(self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, ns_coefficients=(3.4445, -4.775, 2.0315), eps=1e-7, ns_steps=5,
                 adjust_lr_fn=None):
        check_common(lr=lr, weight_decay=weight_decay, momentum=momentum)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov, ns_coefficients=ns_coefficients, eps=eps,
                                      ns_steps=ns_steps, adjust_lr_fn=adjust_lr_fn))
        for g in self.param_groups:
            for p in g["params"]:
                if p.dim() != 2:
                    raise ValueError(f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}")

    def flags(self, group):
        return bool(group["nesterov"]), tuple(group["ns_coefficients"]), group["ns_steps"], group["eps"], group["adjust_lr_fn"]

    def hyper(self, group, t, state):
        lr = number(group["lr"])
        return [lr, 1 - lr * group["weight_decay"], 1 - group["momentum"], group["momentum"]]

    def update(self, flags, p, g, states, h):
        nesterov, (a, b, c), steps, eps, adjust = flags
        buf = lerp(states["momentum_buffer"], g, h[2])
        u = lerp(g, buf, h[3]) if nesterov else buf
        x = u.astype(jnp.bfloat16)
        tall = p.shape[0] > p.shape[1]
        x = x.T if tall else x
        x = x / jnp.maximum(jnp.sqrt(jnp.sum(x.astype(np.float32) ** 2)).astype(jnp.bfloat16), eps)
        def wide(v):  # products accumulate in float32 and round once, as torch's addmm
            return v.astype(np.float32)
        for _ in range(steps):
            gram = (wide(x) @ wide(x).T).astype(x.dtype)
            gram = (b * wide(gram) + c * (wide(gram) @ wide(gram))).astype(x.dtype)
            x = (a * wide(x) + wide(gram) @ wide(x)).astype(x.dtype)
        x = x.T if tall else x
        rows, cols = p.shape
        ratio = 0.2 * math.sqrt(max(rows, cols)) if adjust == "match_rms_adamw" else math.sqrt(max(1, rows / cols))
        return p * h[1] - h[0] * ratio * x.astype(p.dtype), {"momentum_buffer": buf}

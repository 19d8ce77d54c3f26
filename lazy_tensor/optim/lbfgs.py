"""L-BFGS."""
from __future__ import annotations

import numpy as np

import lazy_tensor as lt
from lazy_tensor.modes import enable_grad, no_grad
from lazy_tensor.ops.quasi_newton import direction
from lazy_tensor.optim.optimizer import Optimizer, check_common, number
from lazy_tensor.tensor import _leaf


def _cubic(x1, f1, g1, x2, f2, g2, bounds=None):
    """The minimum of the cubic through two points with their slopes (Nocedal and Wright, 3.59)."""
    low, high = bounds if bounds is not None else (x1, x2) if x1 <= x2 else (x2, x1)
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 ** 2 - g1 * g2
    if square >= 0:
        d2 = square ** 0.5
        pos = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2)) if x1 <= x2 else x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
        return min(max(pos, low), high)
    return (low + high) / 2.0


def _strong_wolfe(obj, x, t, d, f, g, gtd, c1=1e-4, c2=0.9, tolerance_change=1e-9, max_ls=25):
    """A step that meets the strong Wolfe conditions (Nocedal and Wright, algorithms 3.5 and 3.6)."""
    d_norm = d.abs().max()
    g = g.clone()
    f_new, g_new = obj(x, t, d)
    evals = 1
    gtd_new = g_new.dot(d).item()
    t_prev, f_prev, g_prev, gtd_prev = 0, f, g, gtd
    done, n = False, 0
    while n < max_ls:
        if f_new > f + c1 * t * gtd or (n > 1 and f_new >= f_prev):
            bracket, bf, bg, bgtd = [t_prev, t], [f_prev, f_new], [g_prev, g_new.clone()], [gtd_prev, gtd_new]
            break
        if abs(gtd_new) <= -c2 * gtd:
            bracket, bf, bg, bgtd, done = [t], [f_new], [g_new], [gtd_new], True
            break
        if gtd_new >= 0:
            bracket, bf, bg, bgtd = [t_prev, t], [f_prev, f_new], [g_prev, g_new.clone()], [gtd_prev, gtd_new]
            break
        low, high = t + 0.01 * (t - t_prev), t * 10
        tmp = t
        t = _cubic(t_prev, f_prev, gtd_prev, t, f_new, gtd_new, (low, high))
        t_prev, f_prev, g_prev, gtd_prev = tmp, f_new, g_new.clone(), gtd_new
        f_new, g_new = obj(x, t, d)
        evals += 1
        gtd_new = g_new.dot(d).item()
        n += 1
    if n == max_ls:
        bracket, bf, bg, bgtd = [0, t], [f, f_new], [g, g_new], [gtd, gtd_new]
    stuck = False
    lo, hi = (0, 1) if bf[0] <= bf[-1] else (1, 0)
    while not done and n < max_ls:
        if abs(bracket[1] - bracket[0]) * d_norm.item() < tolerance_change:
            break
        t = _cubic(bracket[0], bf[0], bgtd[0], bracket[1], bf[1], bgtd[1])
        eps = 0.1 * (max(bracket) - min(bracket))
        if min(max(bracket) - t, t - min(bracket)) < eps:
            if stuck or t >= max(bracket) or t <= min(bracket):
                t = max(bracket) - eps if abs(t - max(bracket)) < abs(t - min(bracket)) else min(bracket) + eps
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        f_new, g_new = obj(x, t, d)
        evals += 1
        gtd_new = g_new.dot(d).item()
        n += 1
        if f_new > f + c1 * t * gtd or f_new >= bf[lo]:
            bracket[hi], bf[hi], bg[hi], bgtd[hi] = t, f_new, g_new.clone(), gtd_new
            lo, hi = (0, 1) if bf[0] <= bf[1] else (1, 0)
        else:
            if abs(gtd_new) <= -c2 * gtd:
                done = True
            elif gtd_new * (bracket[hi] - bracket[lo]) >= 0:
                bracket[hi], bf[hi], bg[hi], bgtd[hi] = bracket[lo], bf[lo], bg[lo], bgtd[lo]
            bracket[lo], bf[lo], bg[lo], bgtd[lo] = t, f_new, g_new.clone(), gtd_new
    if len(bracket) == 1:
        lo = 0
    return bf[lo], bg[lo], bracket[lo], evals


def _two_loop(grad, dirs, steps, ro, diag):
    """The two-loop recursion (Nocedal and Wright, algorithm 7.4). The history is filled up to a power of two with zeros that
    change nothing, so that its growth makes few programs."""
    n = 1 << max(len(dirs) - 1, 0).bit_length()
    fill = [_leaf(np.zeros(grad.numel(), grad.dtype.np), grad.device) for _ in range(n - len(dirs))]
    weights = _leaf(np.array([*ro, *[0.0] * len(fill)], grad.dtype.np), grad.device)
    return direction(grad, [*dirs, *fill], [*steps, *fill], weights, float(diag))


class LBFGS(Optimizer):
    """Limited-memory BFGS, with a strong-Wolfe line search when asked for (torch.optim.LBFGS); needs a closure."""

    def __init__(self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9, history_size=100, line_search_fn=None):
        check_common(lr=lr)
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, dict(lr=lr, max_iter=max_iter, max_eval=max_eval, tolerance_grad=tolerance_grad, tolerance_change=tolerance_change,
                                      history_size=history_size, line_search_fn=line_search_fn))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def _flat_grad(self):
        return lt.cat([(p.new_zeros(p.numel()) if p.grad is None else p.grad).reshape(-1) for p in self._params], 0)

    def _move(self, t, d):
        at = 0
        for p in self._params:
            n = p.numel()
            p.add_(d[at:at + n].reshape(tuple(p.shape)), alpha=t)
            at += n

    def _evaluate(self, closure, x, t, d):
        self._move(t, d)
        loss = float(closure())
        g = self._flat_grad()
        for p, v in zip(self._params, x, strict=True):
            p.copy_(v)
        return loss, g

    @no_grad()
    def step(self, closure):
        """One L-BFGS step: up to max_iter iterations, each calling the closure."""
        closure = enable_grad()(closure)
        group = self.param_groups[0]
        lr, max_iter, max_eval = number(group["lr"]), group["max_iter"], group["max_eval"]
        tol_grad, tol_change, history = group["tolerance_grad"], group["tolerance_change"], group["history_size"]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss = float(first_loss)
        evals = 1
        state["func_evals"] += 1
        g = self._flat_grad()
        if g.abs().max().item() <= tol_grad:
            return first_loss
        d, t = state.get("d"), state.get("t")
        dirs, steps, ro = state.get("old_dirs"), state.get("old_stps"), state.get("ro")
        diag, prev_g, prev_loss = state.get("H_diag"), state.get("prev_flat_grad"), state.get("prev_loss")
        n = 0
        while n < max_iter:
            n += 1
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                d, dirs, steps, ro, diag = g.neg(), [], [], [], 1
            else:
                y, s = g - prev_g, d * t
                ys = y.dot(s).item()
                if ys > 1e-10:
                    if len(dirs) == history:
                        dirs.pop(0), steps.pop(0), ro.pop(0)
                    dirs.append(y)
                    steps.append(s)
                    ro.append(1.0 / ys)
                    diag = ys / y.dot(y).item()
                d, state["al"] = _two_loop(g, dirs, steps, ro, diag)
            prev_g, prev_loss = g.clone(), loss
            t = min(1.0, 1.0 / g.abs().sum().item()) * lr if state["n_iter"] == 1 else lr
            gtd = g.dot(d).item()
            if gtd > -tol_change:
                break
            ls_evals = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                x = [p.clone() for p in self._params]
                loss, g, t, ls_evals = _strong_wolfe(lambda x, t, d: self._evaluate(closure, x, t, d), x, t, d, loss, g, gtd)
                self._move(t, d)
                optimal = g.abs().max().item() <= tol_grad
            else:
                self._move(t, d)
                optimal = False
                if n != max_iter:
                    loss = float(closure())
                    g = self._flat_grad()
                    optimal = g.abs().max().item() <= tol_grad
                    ls_evals = 1
            evals += ls_evals
            state["func_evals"] += ls_evals
            if n == max_iter or evals >= max_eval or optimal:
                break
            if (d * t).abs().max().item() <= tol_change or abs(loss - prev_loss) < tol_change:
                break
        state.update(d=d, t=t, old_dirs=dirs, old_stps=steps, ro=ro, H_diag=diag, prev_flat_grad=prev_g, prev_loss=prev_loss)
        return first_loss

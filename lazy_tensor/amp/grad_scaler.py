"""`GradScaler`: loss scaling for float16 gradients."""
from __future__ import annotations

from lazy_tensor.modes import no_grad
from lazy_tensor.tensor import Tensor


class GradScaler:
    """Scales losses so that float16 gradients do not vanish, and skips steps whose gradients overflowed (torch.amp.GradScaler).

    bfloat16 needs none. A step looks at whether a gradient overflowed: one sync."""

    def __init__(self, device="xla", init_scale=2.0 ** 16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True):
        if enabled:
            if growth_factor <= 1.0:
                raise ValueError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise ValueError("The backoff factor must be < 1.0.")
        self._device, self._enabled = device, enabled
        self._scale_value, self._growth_factor, self._backoff_factor, self._growth_interval = float(init_scale), growth_factor, backoff_factor, growth_interval
        self._growth_tracker = 0
        self._states: dict = {}

    def scale(self, outputs):
        """outputs (a tensor or nested ones) times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale_value
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(map(self.scale, outputs))
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _grads(self, optimizer):
        return [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]

    def _state(self, optimizer):
        return self._states.setdefault(id(optimizer), {"stage": "ready", "bad": None})

    @no_grad()
    def unscale_(self, optimizer):
        """Divide the gradients by the scale, once before clipping."""
        if not self._enabled:
            return
        state = self._state(optimizer)
        if state["stage"] == "unscaled":
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] == "stepped":
            raise RuntimeError("unscale_() is being called after step().")
        grads = self._grads(optimizer)
        if not grads:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        inv = 1.0 / self._scale_value
        bad = None
        for g in grads:
            if g.dtype.name == "float16":
                raise ValueError("Attempting to unscale FP16 gradients.")
            here = g.isfinite().logical_not().any()
            bad = here if bad is None else bad | here
            g.mul_(inv)
        state["bad"], state["stage"] = bad, "unscaled"

    def step(self, optimizer, *args, **kwargs):
        """optimizer.step(), skipped when a gradient is not finite; returns its result or None."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        state = self._state(optimizer)
        if state["stage"] == "stepped":
            raise RuntimeError("step() has already been called since the last update().")
        if state["stage"] == "ready":
            self.unscale_(optimizer)
        state["overflow"] = bool(state["bad"])
        result = None if state["overflow"] else optimizer.step(*args, **kwargs)
        state["stage"] = "stepped"
        return result

    def update(self, new_scale=None):
        """Adapt the scale after the steps of an iteration."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale_value = float(new_scale)
        else:
            seen = [s["overflow"] for s in self._states.values() if "overflow" in s]
            if not seen:
                seen = [bool(s["bad"]) for s in self._states.values() if s["bad"] is not None]
            if not seen:
                raise AssertionError("No inf checks were recorded prior to update.")
            if any(seen):
                self._scale_value *= self._backoff_factor
                self._growth_tracker = 0
            else:
                self._growth_tracker += 1
                if self._growth_tracker == self._growth_interval:
                    self._scale_value *= self._growth_factor
                    self._growth_tracker = 0
        self._states.clear()

    def get_scale(self):
        """The present scale (1.0 when disabled)."""
        return self._scale_value if self._enabled else 1.0

    def get_growth_factor(self):
        return self._growth_factor

    def set_growth_factor(self, v):
        self._growth_factor = v

    def get_backoff_factor(self):
        return self._backoff_factor

    def set_backoff_factor(self, v):
        self._backoff_factor = v

    def get_growth_interval(self):
        return self._growth_interval

    def set_growth_interval(self, v):
        self._growth_interval = v

    def is_enabled(self):
        """Whether scaling is on."""
        return self._enabled

    def state_dict(self):
        """Scale and factors; empty when disabled."""
        return {"scale": self._scale_value, "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
                "growth_interval": self._growth_interval, "_growth_tracker": self._growth_tracker} if self._enabled else {}

    def load_state_dict(self, state_dict):
        """Take what `state_dict` gave; RuntimeError when it is empty."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.")
        self._scale_value, self._growth_factor = state_dict["scale"], state_dict["growth_factor"]
        self._backoff_factor, self._growth_interval = state_dict["backoff_factor"], state_dict["growth_interval"]
        self._growth_tracker = state_dict["_growth_tracker"]

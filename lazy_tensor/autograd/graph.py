"""torch.autograd.graph: hooks on what backward saves, and on several gradients at once."""
from __future__ import annotations

from lazy_tensor.modes import modes
from lazy_tensor.node import Node, RemovableHandle


class saved_tensors_hooks:
    """Within it every tensor saved for backward goes through pack_hook, and through unpack_hook when it is read."""

    def __init__(self, pack_hook, unpack_hook):
        self.hooks = pack_hook, unpack_hook

    def __enter__(self):
        self.before = modes.saved_hooks
        modes.saved_hooks = self.hooks

    def __exit__(self, *exc):
        modes.saved_hooks = self.before


class save_on_cpu(saved_tensors_hooks):
    """Keeps what backward needs in host memory."""

    def __init__(self, pin_memory=False, device_type="xla"):
        super().__init__(lambda t: (t.device, t.cpu()), lambda p: p[1].to(p[0]))


def register_multi_grad_hook(tensors, fn, *, mode="all"):
    """fn(grads) once the gradients of all tensors are known ("all"), or fn(grad) with the first ("any")."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    got: dict = {}
    done = [False]

    def hook(i):
        def call(g):
            if mode == "any":
                if not done[0]:
                    done[0] = True
                    fn(g)
                return
            got[i] = g
            if len(got) == len(tensors):
                fn([got[j] for j in range(len(tensors))])
                got.clear()
        return call
    handles = [t.register_hook(hook(i)) for i, t in enumerate(tensors)]

    class Handle:
        def remove(self):
            for h in handles:
                h.remove()
    return Handle()


__all__ = ["Node", "RemovableHandle", "saved_tensors_hooks", "save_on_cpu", "register_multi_grad_hook"]

"""DistributedDataParallel: every replica its part of the batch, gradients averaged as one collective."""
from __future__ import annotations

import contextlib

from lazy_tensor.autograd.engine import queue_callback
from lazy_tensor.modes import modes
from lazy_tensor.nn.module import Module
from lazy_tensor.node import Node
from lazy_tensor.tensor import Tensor, wrap
from lazy_tensor.utils._pytree import tree_map


class _Reduce(Node):
    """The place on the tape behind a model's output: passes the gradient on and has the replicas' gradients averaged afterwards."""

    __slots__ = ("owner",)

    def __init__(self, t, owner):
        Node.__init__(self, (t._gn, t._oi), 1)
        self.owner = owner

    def name(self):
        return "DistributedDataParallel"

    def apply(self, cts):
        queue_callback(self.owner._average, once=True)
        return [cts[0]]


class DistributedDataParallel(Module):
    """A module whose gradients are averaged over the replicas at the end of backward (torch.nn.parallel.DistributedDataParallel).

    Parameters and buffers start as rank 0's. All gradients are one collective in the step's program, which XLA splits and overlaps
    with the backward pass where that pays; so bucket_cap_mb, gradient_as_bucket_view and static_graph are accepted and change
    nothing. broadcast_buffers: buffers are rank 0's at each forward in training. `no_sync()` keeps gradients local.

    Example::

        model = nn.parallel.DistributedDataParallel(model.to("xla"))
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0, broadcast_buffers=True, init_sync=True, process_group=None,
                 bucket_cap_mb=None, find_unused_parameters=False, check_reduction=False, gradient_as_bucket_view=False, static_graph=False,
                 delay_all_reduce_named_params=None, param_to_hook_all_reduce=None, mixed_precision=None, device_mesh=None,
                 skip_all_reduce_unused_params=False):
        super().__init__()
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError("DistributedDataParallel is not needed when a module doesn't have any parameters that require a gradient.")
        self.module, self.dim, self.process_group = module, dim, process_group
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.require_backward_grad_sync = True
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self._mine = [p for n, p in module.named_parameters() if n not in ignored]
        self._buffers_to_spread = [b for n, b in module.named_buffers() if n not in ignored]
        if init_sync:
            from xla_backend.core import xla_model as xm
            xm.collective_broadcast([*[p.detach() for p in self._mine], *self._buffers_to_spread])

    @contextlib.contextmanager
    def no_sync(self):
        """Within it backward accumulates gradients on each replica alone; the next backward outside averages what has gathered."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def forward(self, *inputs, **kwargs):
        """module(*inputs, **kwargs)."""
        from xla_backend import runtime
        if runtime.world_size() == 1:
            return self.module(*inputs, **kwargs)
        if self.broadcast_buffers and self.training and self.require_backward_grad_sync and self._buffers_to_spread:
            from xla_backend.core import xla_model as xm
            xm.collective_broadcast(self._buffers_to_spread)
        out = self.module(*inputs, **kwargs)
        if not (modes.grad and self.require_backward_grad_sync):
            return out

        def watched(x):
            if not isinstance(x, Tensor) or x._gn is None:
                return x
            t = wrap(x._value())
            t._gn = _Reduce(x, self)
            return t
        return tree_map(watched, out)

    def _average(self):
        from lazy_tensor import distributed
        from xla_backend.core import xla_model as xm
        grads = [p.grad for p in self._mine if p.grad is not None]
        xm.all_reduce(xm.REDUCE_SUM, grads, 1.0 / distributed.get_world_size(self.process_group),
                      distributed._groups(self.process_group, "DistributedDataParallel"))

    def join(self, *args, **kwargs):
        """Replicas with fewer batches than others are an error here (every replica takes part in every collective)."""
        raise NotImplementedError("DistributedDataParallel.join: every replica must run the same number of steps; DistributedSampler gives "
                                  "all the same number of batches")

"""torch_xla's FSDP: each replica keeps a part of every parameter, gradient and optimizer state (ZeRO-3, Rajbhandari et al. 2020).

A unit gathers its parameters as one node when its forward begins. What its operations save of them for backward is not kept: the
first that backward asks for gathers them again, behind the gradients that reach the unit (so that XLA does not merge the two). The
gradient of the gather is a reduce-scatter, so shards get the mean gradient with nothing more to do.
"""
from __future__ import annotations

import contextlib
import math

from lazy_tensor import nn
from lazy_tensor.autograd.engine import queue_callback
from lazy_tensor.modes import modes, no_grad
from lazy_tensor.ops.barrier import barrier
from lazy_tensor.tensor import Tensor
from lazy_tensor.utils._pytree import tree_leaves, tree_map
from lazy_tensor.utils.checkpoint import _gated
from xla_backend.core import xla_model as xm
from xla_backend.distributed import _shards
from xla_backend.distributed.fsdp.wrap import recursive_wrap

_SEPARATOR = "_FSDP_SHARD_SEPARATOR_"


class _Unit:
    """One forward of a unit: the hooks of what its operations save, and the gate on its outputs that opens in backward.

    In backward the parameters are bound to their modules again, so that a checkpointed region inside can run again."""

    def __init__(self, owner, full, reshard):
        self.owner, self.outer = owner, modes.saved_hooks
        self.places = {id(t._v): i for i, t in enumerate(full)}
        self.full = [t.detach() for t in full]  # until forward is over, so that ids stay theirs; until backward is, if they are kept
        self.reshard, self.saved, self.cts = reshard, True, []

    def pack(self, t):
        i = self.places.get(id(t._v))
        return (i, None if i is not None else self.outer[0](t) if self.outer else t)

    def unpack(self, packed):
        i, kept = packed
        return self._again()[i] if i is not None else self.outer[1](kept) if self.outer else kept

    def leave(self):
        """Forward is over."""
        self.places = None
        if self.reshard:
            self.full = None

    def _again(self):
        if self.full is None:
            shards = self.owner.sharded_params
            with no_grad():
                self.full = self.owner._gather(barrier([p.detach() for p in shards] + self.cts)[:len(shards)])
        return self.full

    def begin(self, cts, retain):
        """Gradients have reached the unit's outputs."""
        self.cts, self.retain = [c.detach() for c in cts], retain
        if self.reshard:
            self.full = None
        self.owner._bind([t.detach().requires_grad_(r) for t, r in zip(self._again(), self.owner._trainable, strict=True)])
        queue_callback(self.end)

    def end(self):
        """Backward is over: let the parameters go."""
        self.cts = []
        if self.reshard or not self.retain:  # who holds the loss holds this, and what is held is an output of the program
            self.full = None
        self.owner._unbind()


class XlaFullyShardedDataParallel(nn.Module):
    """A module whose parameters are sharded over the replicas (torch_xla.distributed.fsdp.XlaFullyShardedDataParallel).

    Wrap inner layers first (or give auto_wrap_policy), the whole model last; make the optimizer afterwards, and call its `step()`, not
    `xm.optimizer_step`, since gradients are averaged already.

    reshard_after_forward: gather again in backward rather than keep (never for the outermost with disable_reshard_on_root).
    flatten_parameters: one shard for all trainable parameters of a unit. compute_dtype, buffer_dtype: of the gathered parameters and
    inputs, and of the buffers; shards stay float32. fp32_reduce_scatter: reduce gradients in float32 all the same. sharding_groups,
    sharding_rank, sharding_world_size: shard within groups of ordinals. shard_param_on_dim_0: cut the first dimension rather than the
    flattened parameter. optimization_barrier_in_forward: gather only when the unit's inputs are there. param_init_fn(module): makes
    parameters that are on the meta device (`reset_parameters` when None). mark_step_on_finalization: dispatch when backward ends.
    pin_layout_in_collective_ops, optimization_barrier_in_backward, execute_sharding_on_init and debugging options change nothing here.

    Raises RuntimeError for a module that is wrapped already or has no forward, TypeError for parameters that are not float32.

    Example::

        model = XlaFullyShardedDataParallel(net, auto_wrap_policy=partial(transformer_auto_wrap_policy, transformer_layer_cls={Block}))
    """

    def __init__(self, module, reshard_after_forward=True, flatten_parameters=False, execute_sharding_on_init=True,
                 optimization_barrier_in_forward=True, optimization_barrier_in_backward=True, mark_step_on_finalization=False,
                 disable_reshard_on_root=True, compute_dtype=None, buffer_dtype=None, fp32_reduce_scatter=False, sharding_groups=None,
                 sharding_rank=None, sharding_world_size=None, shard_param_on_dim_0=False, pin_layout_in_collective_ops=True,
                 auto_wrap_policy=None, auto_wrapper_callable=None, param_init_fn=None, _shard_size_multiple=128,
                 _use_xla_patched_linear=True, _debug_dummy_forward_pass=False, _debug_msg="xla_fsdp", _debug_print=False,
                 _debug_dummy_all_gather_op=False, _debug_dummy_all_reduce_op=False, _debug_dummy_reduce_scatter_op=False,
                 _debug_dummy_optimization_barrier_op=False):
        import lazy_tensor as lt
        if isinstance(module, XlaFullyShardedDataParallel):
            raise RuntimeError("XlaFullyShardedDataParallel: the module is wrapped already; wrap inner modules before the outer one")
        if type(module).forward is nn.Module.forward and "forward" not in module.__dict__:
            raise RuntimeError(f"XlaFullyShardedDataParallel: {type(module).__name__} has no forward; wrap the modules inside it, or what calls them")
        for name, dtype in (("compute_dtype", compute_dtype), ("buffer_dtype", buffer_dtype)):
            if dtype not in (None, lt.float32, lt.float16, lt.bfloat16):
                raise ValueError(f"XlaFullyShardedDataParallel: {name} must be float32, float16 or bfloat16, got {dtype}")
        if sharding_groups is not None and (sharding_rank is None or sharding_world_size is None):
            raise ValueError("XlaFullyShardedDataParallel: sharding_groups needs sharding_rank and sharding_world_size too")
        super().__init__()
        if auto_wrap_policy is not None:
            inner = {k: v for k, v in locals().items() if k not in (
                "self", "module", "auto_wrap_policy", "auto_wrapper_callable", "lt", "name", "dtype", "inner", "__class__")}
            recursive_wrap(module, auto_wrap_policy, auto_wrapper_callable or XlaFullyShardedDataParallel, only_wrap_children=True, **inner)
        self.reshard_after_forward, self.disable_reshard_on_root = reshard_after_forward, disable_reshard_on_root
        self.flatten_parameters, self.optimization_barrier_in_forward = flatten_parameters, optimization_barrier_in_forward
        self.mark_step_on_finalization = mark_step_on_finalization
        self.compute_dtype = compute_dtype or lt.float32
        self.buffer_dtype = buffer_dtype or self.compute_dtype
        self.fp32_reduce_scatter, self.sharding_groups = fp32_reduce_scatter, sharding_groups
        self.rank = xm.get_ordinal() if sharding_groups is None else sharding_rank
        self.world_size = xm.xrt_world_size() if sharding_groups is None else sharding_world_size
        self._on_dim_0 = shard_param_on_dim_0 and not flatten_parameters
        self._multiple = 1 if self._on_dim_0 else _shard_size_multiple
        self.xla_device = xm.xla_device()
        self._is_root = None
        _materialize(module, param_init_fn)
        self._fsdp_wrapped_module = module
        self._shard()
        self._move_buffers()

    # --- sharding

    def _shard(self):
        """Replace the parameters that no inner unit has by shards of this one."""
        import lazy_tensor as lt
        of: dict = {}  # id of a parameter -> (parameter, [(module, its name, the parameter's name)])
        for module_name, m in self.named_modules():
            for n, p in m._parameters.items():
                if p is None or getattr(p, "_is_sharded", False):
                    continue
                if p.dtype != lt.float32:
                    raise TypeError(f"XlaFullyShardedDataParallel: only fp32 parameters are supported, {module_name}.{n} is {p.dtype}")
                of.setdefault(id(p), (p, []))[1].append((m, n, f"{module_name}.{n}"))
        parts = list(of.values())
        if self.flatten_parameters:
            groups = [[x for x in parts if x[0].requires_grad], [x for x in parts if not x[0].requires_grad]]
            groups = [g for g in groups if g]
        else:
            groups = [[x] for x in parts]
        self._places = [[[(m, n) for m, n, _ in at] for _, at in g] for g in groups]  # [shard][parameter] -> where it is bound
        self._shapes = [[tuple(p.shape) for p, _ in g] for g in groups]
        self._trainable = [p.requires_grad for g in groups for p, _ in g]
        self._flatten_info, self.sharded_params = {}, []
        for k, g in enumerate(groups):
            name = g[0][1][0][2]
            rows = [p.detach().cpu().numpy() for p, _ in g]
            size: tuple = g[0][0].shape
            if self.flatten_parameters:
                import numpy as np
                rows = [np.concatenate([r.reshape(-1) for r in rows])]
                inside = "_fsdp_wrapped_module."
                name, size = f"{inside}flat_param_{k}", (rows[0].size,)
                names = [at[0][2].removeprefix(inside) for _, at in g]
                self._flatten_info[name] = names, self._shapes[k], [math.prod(s) for s in self._shapes[k]]
            flat = not self._on_dim_0 or rows[0].ndim < 2
            shard = nn.Parameter(lt.from_numpy(_shards.local(rows[0], self.world_size, self.rank, self._multiple, flat)).to(self.xla_device),
                                 requires_grad=g[0][0].requires_grad)
            shard._is_sharded, shard._orig_size, shard._orig_name = True, tuple(size), name
            shard._name = f"_fsdp_shard.{name}".replace(".", _SEPARATOR)
            self.register_parameter(shard._name, shard)
            self.sharded_params.append(shard)
        for _p, at in parts:
            for m, n, _ in at:
                m._parameters.pop(n)

    def _move_buffers(self):
        for m in self.modules():
            if m is not self and isinstance(m, XlaFullyShardedDataParallel):
                continue
            for n, b in list(m._buffers.items()):
                if b is not None and not _inside(self, m):
                    m._buffers[n] = b.to(self.xla_device, self.buffer_dtype) if b.is_floating_point() else b.to(self.xla_device)

    def _gather(self, shards):
        """The unit's whole parameters, in the order of `_places`."""
        import numpy as np
        dtype = None if self.compute_dtype.np == np.float32 else self.compute_dtype.np
        groups = _shards.gather(list(shards), self._shapes, self.sharding_groups, dtype,
                                np.dtype(np.float32) if self.fp32_reduce_scatter else None)
        return [t for g in groups for t in g]

    def _bind(self, full):
        where = [at for g in self._places for at in g]
        for at, t in zip(where, full, strict=True):
            for m, n in at:
                object.__setattr__(m, n, t)

    def _unbind(self):
        for g in self._places:
            for at in g:
                for m, n in at:
                    m.__dict__.pop(n, None)

    # --- the module

    @property
    def module(self):
        """The wrapped module."""
        return self._fsdp_wrapped_module

    def __getattr__(self, name):
        if name == "_fsdp_wrapped_module" or "_fsdp_wrapped_module" not in self.__dict__:
            return super().__getattr__(name)
        return getattr(self._fsdp_wrapped_module, name)

    def __getitem__(self, key):
        return self.module[key]

    def extra_repr(self):
        """Ranks, dtypes and options."""
        return (f"world_size={self.world_size}, rank={self.rank}, compute_dtype={self.compute_dtype}, buffer_dtype={self.buffer_dtype}, "
                f"flatten_parameters={self.flatten_parameters}, reshard_after_forward={self.reshard_after_forward}, "
                f"sharding_groups={self.sharding_groups}")

    def _set_root(self):
        if self._is_root is None:
            self._is_root = True
            for m in self.modules():
                if m is not self and isinstance(m, XlaFullyShardedDataParallel):
                    m._is_root = False

    def forward(self, *args, **kwargs):
        """module(*args, **kwargs), its parameters gathered meanwhile."""
        import lazy_tensor as lt
        self._set_root()
        if self.compute_dtype != lt.float32:
            args, kwargs = tree_map(lambda x: x.to(self.compute_dtype) if isinstance(x, Tensor) and x.is_floating_point() else x, (args, kwargs))
        shards = self.sharded_params
        inputs = [x.detach() for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor) and x.device == self.xla_device]
        if self.optimization_barrier_in_forward and inputs and shards:
            shards = barrier([*shards, *inputs])[:len(shards)]
        full = self._gather(shards)
        reshard = self.reshard_after_forward and not (self._is_root and self.disable_reshard_on_root)
        unit = _Unit(self, full, reshard) if modes.grad and full else None
        self._bind(full)
        del full, shards
        before = modes.saved_hooks
        if unit is not None and reshard:
            modes.saved_hooks = unit.pack, unit.unpack
        try:
            out = self.module(*args, **kwargs)
        finally:
            modes.saved_hooks = before
            self._unbind()
        if unit is not None:
            unit.leave()
            out = _gated(out, unit)
        if self._is_root and self.mark_step_on_finalization:
            for t in tree_leaves(out):
                if isinstance(t, Tensor) and t.requires_grad:
                    t.register_hook(lambda g: queue_callback(xm.mark_step, once=True))
        return out

    # --- training

    @contextlib.contextmanager
    def no_sync(self):
        """Accumulating gradients needs nothing special: within it they are reduced and scattered as ever, to the same sums."""
        yield

    @property
    def params_with_grad(self):
        """The shards that have gradients."""
        return [p for p in self.parameters() if p.grad is not None]

    def clip_grad_norm_(self, max_norm, norm_type=2.0, groups=None):
        """Scale all gradients so that their norm over all replicas is at most max_norm, in place; returns the norm before."""
        import lazy_tensor as lt
        norm_type = float(norm_type)
        with no_grad():
            grads = [p.grad for p in self.params_with_grad]
            if not grads:
                return lt.zeros((), device=self.xla_device)
            groups = self.sharding_groups if groups is None else groups
            if norm_type == math.inf:
                total = xm.all_reduce(xm.REDUCE_MAX, lt.stack([g.abs().max() for g in grads]).max(), groups=groups)
            else:
                total = xm.all_reduce(xm.REDUCE_SUM, lt.stack([(g.abs() ** norm_type).sum() for g in grads]).sum(), groups=groups)
                total = total ** (1.0 / norm_type)
            scale = (float(max_norm) / (total + 1e-6)).clamp(0.0, 1.0)
            for g in grads:
                g.mul_(scale)
        return total

    # --- checkpoints, whole parameters

    def get_shard_metadata(self):
        """What `consolidate_sharded_model_checkpoints` needs to know beside the state dicts: shapes, names, rank and world size."""
        shards: dict = {}
        flat: dict = {}
        for name, m in self.named_modules():
            if isinstance(m, XlaFullyShardedDataParallel):
                shards[name] = {p._name: {"_orig_size": tuple(p._orig_size), "_orig_name": p._orig_name} for p in m.sharded_params}
                flat.update({f"{name}.{k}" if name else k: v for k, v in m._flatten_info.items()})
        buffers = {n: str(b.dtype) for n, b in self.named_buffers()}
        return {"shard_info": shards, "flatten_info": flat, "buffer_info": buffers, "rank": self.rank, "world_size": self.world_size}

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(module, recurse=True, writeback=True, rank0_only=False, offload_to_cpu=False, with_grads=False):
        """Within it the whole parameters are attributes of their modules, as tensors; writes to them are kept when writeback.

        All replicas enter it together. rank0_only, offload_to_cpu, with_grads: only False (ValueError otherwise)."""
        if rank0_only or offload_to_cpu or with_grads:
            raise ValueError("summon_full_params: rank0_only, offload_to_cpu and with_grads must be False; every replica gathers on its core")
        units = [m for m in module.modules() if isinstance(m, XlaFullyShardedDataParallel)]
        units = units if recurse else units[:1]
        with no_grad():
            full = [u._gather(u.sharded_params) for u in units]
            for u, f in zip(units, full, strict=True):
                u._bind(f)
            try:
                yield
                if writeback:
                    for u, f in zip(units, full, strict=True):
                        u._write(f)
            finally:
                for u in units:
                    u._unbind()

    def _write(self, full):
        """Take the shards from whole parameters."""
        import lazy_tensor as lt
        at, rows = 0, []
        for shard, shapes in zip(self.sharded_params, self._shapes, strict=True):
            parts = full[at:at + len(shapes)]
            at += len(shapes)
            whole = parts[0] if shard.dim() > 1 else lt.cat([p.reshape(-1) for p in parts])
            missing = self.world_size * shard.shape[0] - whole.shape[0]
            rows.append(lt.cat([whole, whole.new_zeros(missing, *whole.shape[1:])]) if missing else whole)
        for shard, new in zip(self.sharded_params, _shards.cut(rows, self.sharding_groups), strict=True):
            shard.copy_(new)


def _inside(outer, m):
    """Whether a module is in an inner unit, which minds its buffers itself."""
    return any(m is x for unit in outer.modules() if unit is not outer and isinstance(unit, XlaFullyShardedDataParallel) for x in unit.modules())


def _materialize(module, init):
    """Give parameters on the meta device memory and values."""
    for m in list(module.modules()):
        if isinstance(m, XlaFullyShardedDataParallel) or not any(p is not None and p.device.type == "meta" for p in m._parameters.values()):
            continue
        m.to_empty(device="cpu", recurse=False)
        if init is not None:
            init(m)
        elif hasattr(m, "reset_parameters"):
            m.reset_parameters()
        else:
            raise RuntimeError(f"XlaFullyShardedDataParallel: {type(m).__name__} is on the meta device and has no reset_parameters; give param_init_fn")


__all__ = ["XlaFullyShardedDataParallel"]

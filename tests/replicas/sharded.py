"""What test_sharded runs in a process of its own, on four virtual cores; prints one JSON object."""
from __future__ import annotations

import functools
import json
import tempfile

from _hlo import programs

import lazy_tensor as lt
from lazy_tensor import nn
from xla_backend import replicas, runtime
from xla_backend.core import xla_model as xm
from xla_backend.distributed import fsdp as xfsdp
from xla_backend.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer

runtime.cores(4)
FSDP = xfsdp.XlaFullyShardedDataParallel
folder = tempfile.mkdtemp()
out: dict = {}


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(d, 2 * d), nn.Linear(2 * d, d), nn.BatchNorm1d(d)

    def forward(self, x):
        return x + self.b(self.a(self.norm(x)).tanh())


def net():
    lt.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 16), Block(16), Block(16), nn.Linear(16, 16)).eval()


def policy():
    return functools.partial(xfsdp.wrap.transformer_auto_wrap_policy, transformer_layer_cls={Block})


def batch(i, n, step):
    g = lt.Generator()
    g.manual_seed(step)
    return lt.randn(8, 16, generator=g)[i * 8 // n:(i + 1) * 8 // n].to("xla")


def train(i, model, optimizer, reduce, after=lambda: None, steps=3):
    n, losses = xm.xrt_world_size(), []
    for s in range(steps):
        x = batch(i, n, s)
        optimizer.zero_grad()
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        loss.backward()
        if reduce:
            xm.reduce_gradients(optimizer)
        after()
        optimizer.step()
        losses.append(round(xm.all_reduce("sum", loss.detach(), 1 / n).item(), 5))
    return losses, sum(p.numel() for p in model.parameters())


def plain(i, clip):
    model = net().to("xla")
    return train(i, model, lt.optim.Adam(model.parameters(), lr=0.01), True,
                 lambda: clip and nn.utils.clip_grad_norm_(model.parameters(), 1.0))


def fsdp(i, clip=False, checkpoint=False, **kw):
    if checkpoint:
        kw["auto_wrapper_callable"] = lambda m, *a, **k: FSDP(xfsdp.checkpoint_module(m), *a, **k)
    model = FSDP(net(), auto_wrap_policy=policy(), **kw)
    r = train(i, model, lt.optim.Adam(model.parameters(), lr=0.01), False, lambda: clip and model.clip_grad_norm_(1.0))
    if clip:
        xm.save({"model": model.state_dict(), "shard_metadata": model.get_shard_metadata()}, f"{folder}/{i}.pth", master_only=False)
        with FSDP.summon_full_params(model):
            shapes = [tuple(model[1].a.weight.shape), model[1].a.weight.sum().item()]
            with lt.no_grad():
                model[1].a.weight.fill_(1.0)
        y = model(lt.ones(1, 16, device="xla")).detach()
        full, path = xfsdp.consolidate_sharded_model_checkpoints(f"{folder}/", save_model=False)
        same = net()
        same.load_state_dict(full)
        shapes.append(same[1].a.weight.sum().item())
        with lt.no_grad():
            same[1].a.weight.fill_(1.0)
            shapes.append((same(lt.ones(1, 16)) - y.cpu()).abs().max().item())
        return r, shapes, path
    return r


def zero(i, **kw):
    model = net().to("xla")
    optimizer = ZeroRedundancyOptimizer(model.parameters(), lt.optim.Adam, lr=0.01, **kw)
    r = train(i, model, optimizer, False)
    state = optimizer.state_dict()
    optimizer.load_state_dict(state)
    sizes = sum(v.numel() for s in state["base_state"].values() for v in s.values() if v.dim())
    return r[0], sizes, optimizer.base_optimizer.state_dict()["state"][0]["step"].item()


def on(n, fn, **kw):
    r = replicas.run(lambda i: fn(i, **kw), (), n)
    assert all(x == r[0] for x in r)
    return r[0], programs()


out["plain"], out["clipped"] = on(1, plain, clip=False), on(1, plain, clip=True)
out["fsdp"] = on(4, fsdp, flatten_parameters=True, _shard_size_multiple=1)
out["kept"] = on(4, fsdp, flatten_parameters=True, reshard_after_forward=False)
out["dim 0"] = on(4, fsdp, shard_param_on_dim_0=True)
out["bfloat16"] = on(4, fsdp, compute_dtype=lt.bfloat16, fp32_reduce_scatter=True, flatten_parameters=True)
out["checkpointed"] = on(4, fsdp, checkpoint=True, flatten_parameters=True)
out["saved"] = on(4, fsdp, clip=True)
out["zero"], out["zero clipped"] = on(4, zero, grad_clipping=False), on(4, zero)
print(json.dumps(out))

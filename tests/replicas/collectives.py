"""What test_replicas runs in a process of its own, on four virtual cores; prints one JSON object."""
from __future__ import annotations

import json
import threading

import lazy_tensor as lt
import lazy_tensor.distributed as dist
from lazy_tensor import nn
from xla_backend import metrics, replicas, runtime
from xla_backend.core import xla_model as xm
from xla_backend.distributed import xla_multiprocessing as xmp

N = runtime.cores(4)
out: dict = {"cores": N}


def collectives(i, k):
    d, n = xm.xla_device(), xm.xrt_world_size()
    x = lt.full((4,), float(i), device=d)
    b = [x.clone()]
    xm.collective_broadcast(b, 2)
    w = lt.ones(3, device=d, requires_grad=True)
    (xm.all_reduce(xm.REDUCE_SUM, w * (i + 1)) ** 2).sum().backward()
    many = [x + 1, lt.full((2,), i, dtype=lt.int32, device=d)]
    xm.all_reduce(xm.REDUCE_SUM, many)
    found[i] = {
        "who": [str(d), n, xm.get_ordinal(), xm.is_master_ordinal(), k],
        "sum": xm.all_reduce(xm.REDUCE_SUM, x).tolist(), "max": xm.all_reduce(xm.REDUCE_MAX, x, scale=0.5).tolist(),
        "mul": xm.all_reduce(xm.REDUCE_MUL, x + 1).tolist(), "or": xm.all_reduce(xm.REDUCE_OR, (x == 3)).tolist(),
        "groups": xm.all_reduce(xm.REDUCE_SUM, x, groups=[[0, 1], [2, 3]]).tolist(),
        "gather": xm.all_gather(x[:1]).tolist(), "scatter": xm.reduce_scatter(xm.REDUCE_SUM, lt.arange(4.0, device=d), 1.0, 0, n).tolist(),
        "all_to_all": xm.all_to_all(lt.arange(4.0, device=d) + 10 * i, 0, 0, n).tolist(),
        "permute": xm.collective_permute(x, [(j, (j + 1) % n) for j in range(n)]).tolist(), "broadcast": b[0].tolist(),
        "mesh": xm.mesh_reduce("loss", float(i), lambda v: sum(v) / len(v)), "grad": w.grad.tolist(), "many": [t.tolist() for t in many],
    }


found: dict = {}
xmp.spawn(collectives, (7,), nprocs=4, start_method="fork")
out["collectives"] = [found[i] for i in range(N)]


def train(i, n, steps=5):
    lt.manual_seed(0)
    dist.init_process_group("xla")
    model = nn.Sequential(nn.Linear(5, 8), nn.SyncBatchNorm(8), nn.Tanh(), nn.Linear(8, 1)).to("xla")
    if i:  # DDP takes rank 0's
        with lt.no_grad():
            for p in model.parameters():
                p.zero_()
    model = nn.parallel.DistributedDataParallel(model)
    optimizer = lt.optim.AdamW(model.parameters(), lr=0.05)
    g = lt.Generator()
    g.manual_seed(7)
    losses = []
    for s in range(steps):
        if s == 3 and i == 0:
            steady[n] = -metrics.counter("compiles")
        x = lt.randn(16, 5, generator=g)[i * 16 // n:(i + 1) * 16 // n].to("xla")
        optimizer.zero_grad()
        loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
        loss.backward()
        optimizer.step()
        t = loss.detach().clone()
        dist.all_reduce(t, dist.ReduceOp.AVG)
        losses.append(round(t.item(), 4))
    if i == 0:
        steady[n] += metrics.counter("compiles")
    objects = [None] * n
    dist.all_gather_object(objects, i)
    return losses, objects, [round(v, 5) for v in model.module[1].running_var.tolist()]


steady: dict = {}
out["train"] = {n: replicas.run(train, (n,), n) for n in (1, 2, 4)}
out["steady"] = steady


def accumulate(i):
    """no_sync: local sums first, one average at the end."""
    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1, bias=False).to("xla"))
    x = lt.full((1, 2), float(i + 1), device="xla")
    with model.no_sync():
        model(x).sum().backward()
    alone = model.module.weight.grad.tolist()
    model(x).sum().backward()
    return alone, model.module.weight.grad.tolist()


out["no_sync"] = replicas.run(accumulate, (), 4)


def names(i):
    """torch.distributed's collectives."""
    d = xm.xla_device()
    n = dist.get_world_size()
    x = lt.full((2,), float(i), device=d)
    pieces = [lt.zeros(2, device=d) for _ in range(n)]
    dist.all_gather(pieces, x)
    whole = lt.zeros(2 * n, device=d)
    dist.all_gather_into_tensor(whole, x)
    part = lt.zeros(1, device=d)
    dist.reduce_scatter_tensor(part, lt.arange(4.0, device=d))
    got = lt.zeros(2, device=d)
    dist.scatter(got, [lt.full((2,), float(j), device=d) for j in range(n)] if i == 1 else None, src=1)
    mine, _ = dist.new_subgroups(2)
    y = x.clone()
    work = dist.all_reduce(y, group=mine, async_op=True)
    z = x.clone()
    dist.broadcast(z, 3)
    swapped = lt.zeros(4, device=d)
    dist.all_to_all_single(swapped, lt.arange(4.0, device=d) + 10 * i)
    dist.barrier()
    boxes = [{"from": i}]
    dist.broadcast_object_list(boxes, 2)
    return [[p.tolist() for p in pieces], whole.tolist(), part.tolist(), got.tolist(), y.tolist(), work.wait(), z.tolist(), swapped.tolist(), boxes]


out["names"] = replicas.run(names, (), 4)


def own_work(i):
    """Work of its own between collectives, as every process of torch's may do."""
    x = lt.ones(2, device="xla")
    y = xm.all_reduce("sum", x)
    if i == 2:
        y = y * 2
    for _ in range(i):
        y = y + 1
    return xm.all_reduce("sum", y).tolist()


out["own_work"] = replicas.run(own_work, (), 4)


def alone(i):
    """A program without collectives asks nobody; the streams of random numbers are each replica's own."""
    lt.manual_seed(i % 2)
    if i == 0:
        for _ in range(3):
            (lt.ones(3, device="xla") * 2).sum().item()
    r = lt.rand(2, device="xla").tolist()
    xm.rendezvous("end")
    return r


out["alone"] = replicas.run(alone, (), 4)


def error(fn, timeout=20):
    try:
        replicas.run(fn, (), 4, timeout)
    except Exception as e:
        return [type(e).__name__, str(e), e.__notes__]
    return None


def diverge(i):
    x = lt.ones(3, device="xla")
    y = xm.all_reduce("sum", x)
    if i == 2:
        return xm.all_gather(y).tolist()
    return xm.all_reduce("sum", y).tolist()


def leave(i):
    if i != 1:
        xm.all_reduce("sum", lt.ones(3, device="xla")).tolist()


def fail(i):
    if i == 3:
        raise ValueError("boom")
    xm.rendezvous("x")


def late(i):
    if i == 0:
        stop.wait(6)
    xm.all_reduce("sum", lt.ones(3, device="xla")).tolist()


stop = threading.Event()
out["diverge"], out["leave"], out["fail"], out["late"] = error(diverge), error(leave), error(fail), error(late, 1.5)
out["after"] = (lt.ones(3, device="xla") + 1).tolist()
print(json.dumps(out))

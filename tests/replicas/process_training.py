"""What test_processes trains in every replica; each prints one JSON line."""
from __future__ import annotations

import json
import sys

import lazy_tensor as lt
import lazy_tensor.distributed as dist
from lazy_tensor import nn
from xla_backend import metrics
from xla_backend import runtime as xr
from xla_backend.core import xla_model as xm

i, n = xm.get_ordinal(), xm.xrt_world_size()
lt.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1)).to("xla")
if i:  # DDP takes rank 0's
    with lt.no_grad():
        for p in model.parameters():
            p.zero_()
model = nn.parallel.DistributedDataParallel(model)
optimizer = lt.optim.AdamW(model.parameters(), lr=0.05)
g = lt.Generator()
g.manual_seed(7)
losses = []
compiles = 0
for s in range(6):
    if s == 3:
        xm.rendezvous("warm")
        compiles = -metrics.counter("compiles")
    x = lt.randn(16, 5, generator=g)[i * 16 // n:(i + 1) * 16 // n].to("xla")
    optimizer.zero_grad()
    loss = ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()
    loss.backward()
    optimizer.step()
    losses.append(round(xm.mesh_reduce("loss", loss.item(), lambda v: sum(v) / len(v)), 4))
    if i == 0 and s == 2:  # rank 0 alone evaluates
        (model.module(lt.ones(3, 5, device="xla")) * 2).sum().item()
xm.rendezvous("done")
compiles += metrics.counter("compiles")
objects = [None] * n
dist.all_gather_object(objects, i)
sys.stdout.write(json.dumps({
    "rank": i, "size": n, "local": xm.get_local_ordinal(), "process": xr.process_index(), "processes": xr.process_count(),
    "device": str(xm.xla_device()), "losses": losses, "objects": objects, "compiles": compiles}) + "\n")
sys.stdout.flush()

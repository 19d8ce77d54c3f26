"""PyTorch/XLA's names at its own module paths, for one core."""
from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import lazy_tensor as lt
import xla_backend as torch_xla
import xla_backend.core.functions as xf
import xla_backend.core.xla_model as xm
import xla_backend.debug.metrics as met
import xla_backend.debug.profiler as xp
import xla_backend.distributed.parallel_loader as pl
import xla_backend.distributed.xla_multiprocessing as xmp
import xla_backend.runtime as xr
import xla_backend.utils.utils as xu


def test_devices():
    dev = xm.xla_device()
    assert dev == torch_xla.device() == lt.device("xla", 0) and torch_xla.devices()[0] == dev
    assert xm.get_xla_supported_devices(max_devices=1) == ["xla:0"]
    assert xm.xla_device_hw(dev) == xr.device_type()
    assert xm.xla_real_devices([dev]) == [f"{xr.device_type()}:0"]
    assert xm.parse_xla_device("TPU:3") == ("TPU", 3) and xm.parse_xla_device("nothing") is None
    assert not xm.is_xla_tensor(lt.ones(1)) and xm.is_xla_tensor(lt.ones(1, device=dev))
    with pytest.raises(RuntimeError, match="no FPGA device here"):
        xm.xla_device(devkind="FPGA")
    info = xm.get_memory_info(dev)
    assert info["bytes_limit"] > info["bytes_used"] >= 0 and info["peak_bytes_used"] > 0


def test_a_world_of_one(capsys):
    assert (xm.get_ordinal(), xm.get_local_ordinal(), xm.xrt_world_size()) == (0, 0, 1) and xm.is_master_ordinal()
    assert (xr.world_size(), xr.global_ordinal(), xr.local_ordinal(), xr.process_index(), xr.process_count()) == (1, 0, 0, 0, 1)
    assert xr.global_runtime_device_count() >= 1 and not xr.is_spmd()
    with pytest.raises(NotImplementedError, match="sharding"):
        xr.use_spmd()
    with pytest.raises(AttributeError, match="nothing_such"):
        xr.nothing_such
    xm.master_print("hello", flush=True)
    assert capsys.readouterr().out == "hello\n"
    assert xm.rendezvous("x", b"p") == [b"p"]
    assert xm.mesh_reduce("loss", lt.tensor(2.0, device="xla"), lambda v: float(sum(v))) == 2.0


def test_collectives_are_identities_times_scale():
    x = lt.tensor([1.0, 2.0], device="xla", requires_grad=True)
    y = xf.all_reduce(xm.REDUCE_SUM, x, scale=0.5)
    y.sum().backward()
    assert y.tolist() == [0.5, 1.0] and x.grad.tolist() == [0.5, 0.5]
    assert xf.all_gather(x).tolist() == [1.0, 2.0]
    z = lt.tensor([4.0], device="xla")
    assert xm.all_reduce(xm.REDUCE_SUM, [z], scale=0.25) is None and z.tolist() == [1.0]
    assert xm.reduce_scatter(xm.REDUCE_SUM, z, 3.0, 0, 1).tolist() == [3.0]
    assert xm.all_to_all(z, 0, 0, 1).tolist() == [1.0]
    with pytest.raises(ValueError, match="reduce_type"):
        xm.all_reduce("average", z)
    with pytest.raises(ValueError, match="must name each of the 1 replicas"):
        xm.all_gather(z, groups=[[0, 1]])
    with pytest.raises(ValueError, match="needs 8 replicas"):
        xm.all_to_all(z, 0, 0, 8)


def test_step_closures_run_after_the_step_in_order():
    seen = []
    x = lt.ones(2, device="xla") * 3
    xm.add_step_closure(lambda t, n: seen.append((t.tolist(), n)), args=(x, 1))
    xm.add_step_closure(seen.append, args=("async",), run_async=True)
    assert seen == []
    xm.mark_step()
    xm.wait_device_ops()
    assert sorted(map(str, seen)) == sorted(map(str, [([3.0, 3.0], 1), "async"]))
    xm.mark_step()
    assert len(seen) == 2

    def fail():
        raise KeyError("inside")
    xm.add_step_closure(fail, run_async=True)
    xm.mark_step()
    xm.wait_device_ops()
    with pytest.raises(RuntimeError, match="step closure failed"):
        xm.mark_step()


class Plain:
    """An optimizer as xm sees it."""

    def __init__(self, params):
        self.param_groups = [{"params": params}]

    def step(self, closure=None, factor=1.0):
        with lt.no_grad():
            for p in self.param_groups[0]["params"]:
                p -= factor * p.grad
        return "loss"


def test_optimizer_step():
    w = lt.tensor([1.0, 2.0], device="xla", requires_grad=True)
    (w * w).sum().backward()
    opt = Plain([w])
    assert [g.tolist() for g in xm._fetch_gradients(opt)] == [[2.0, 4.0]]
    assert xm.optimizer_step(opt, barrier=True, optimizer_args={"factor": 0.25}) == "loss"
    assert w.tolist() == [0.5, 1.0]


def test_random_state_continues():
    torch_xla.manual_seed(7)
    assert xm.get_rng_state() == 7
    lt.rand(2)
    state = xm.get_rng_state()
    a = lt.rand(3).tolist()
    xm.set_rng_state(state)
    assert lt.rand(3).tolist() == a


def test_send_and_save(tmp_path):
    data = {"a": [lt.ones(2), 3], "b": (lt.zeros(1),)}
    moved = xm.send_cpu_data_to_device(data, "xla")
    assert moved["a"][0].device.type == moved["b"][0].device.type == "xla" and moved["a"][1] == 3
    assert data["a"][0].device.type == "cpu"
    back = xm._maybe_convert_to_cpu(moved)
    assert back["a"][0].device.type == "cpu" and back["a"][0].tolist() == [1.0, 1.0]
    pytest.importorskip("lazy_tensor.serialization")
    xm.save(moved, tmp_path / "x.pt")
    assert lt.load(tmp_path / "x.pt")["a"][0].device.type == "cpu"


def test_device_loader_gives_every_batch_on_the_device_and_marks_steps(counts):
    batches = [(lt.tensor([float(i)] * 2), {"i": [lt.tensor(i)]}) for i in range(5)]
    loader = pl.MpDeviceLoader(batches, xm.xla_device(), batches_per_execution=2)
    assert len(loader) == 5
    for _ in range(2):
        seen = []
        for x, d in loader:
            assert x.device.type == d["i"][0].device.type == "xla"
            seen.append(x * 2)
        assert [s.tolist() for s in seen] == [[2.0 * i] * 2 for i in range(5)]
    assert counts.syncs >= 6
    assert [x.tolist() for x, _ in pl.ParallelLoader(batches, ["xla:0"]).per_device_loader("xla")] == [[float(i)] * 2 for i in range(5)]
    with pytest.raises(RuntimeError, match="none of the loader's devices"):
        pl.ParallelLoader(batches, ["xla:0"]).per_device_loader("cpu")


def test_device_loader_raises_what_the_loader_raised():
    def bad():
        yield lt.ones(1)
        raise ZeroDivisionError("in the data set")
    it = iter(pl.MpDeviceLoader(bad(), "xla"))
    next(it)
    with pytest.raises(ZeroDivisionError, match="in the data set"):
        next(it)


def test_a_dropped_loader_stops_its_thread():
    def endless():
        while True:
            yield lt.ones(1)
    before = threading.active_count()
    loader = pl.MpDeviceLoader(endless(), "xla", device_prefetch_size=2)
    for _ in loader:
        break
    loader.close()
    deadline = time.time() + 5
    while threading.active_count() > before and time.time() < deadline:
        time.sleep(0.02)
    assert threading.active_count() == before


def test_spawn():
    seen = []
    xmp.spawn(lambda i, a: seen.append((i, a)), args=("x",), nprocs=1, start_method="fork")
    torch_xla.launch(lambda i: seen.append(i))
    assert seen == [(0, "x"), 0]
    with pytest.raises(ValueError, match="at least 1, got 0"):
        xmp.spawn(print, nprocs=0)
    assert xmp.MpSerialExecutor().run(lambda: 5) == 5


def test_metrics():
    met.clear_all()
    (lt.ones(3, device="xla") + 1).tolist()
    assert met.counter_value("syncs") == met.counter_value("MarkStep") == 1 and "syncs" in met.counter_names()
    assert met.counter_value("none such") is None
    assert "Counter: syncs" in met.metrics_report() and "Counter: syncs" in met.short_metrics_report()
    met.clear_counters()
    assert met.counter_names() == []


def test_compile_is_a_program_of_its_own(counts):
    @torch_xla.compile(full_graph=True)
    def f(x):
        return (x + 1) * 2
    assert f(lt.ones(2, device="xla")).tolist() == [4.0, 4.0]
    f(lt.ones(2, device="xla"))
    bad = torch_xla.compile(lambda x: (x + 1).sum().item(), full_graph=True)
    with pytest.raises(RuntimeError, match="more than one program"):
        bad(lt.ones(2, device="xla"))
    with torch_xla.step():
        y = lt.ones(2, device="xla") - 1
    assert y._v.data is not None
    shapes = torch_xla.compile(lambda x: x * 5 - x * 7 + 11, num_different_graphs_allowed=1)
    shapes(lt.ones(2, device="xla"))
    with pytest.raises(RuntimeError, match="1 are allowed"):
        shapes(lt.ones(3, device="xla"))


def test_helpers(tmp_path):
    g = xu.SampleGenerator(data=(1, 2), sample_count=3)
    assert len(g) == 3 and list(g) == [(1, 2)] * 3 == list(g)
    r = xm.RateTracker()
    r.add(10)
    assert r.global_rate() > 0 and r.rate() > 0
    with xp.Trace("a"), xp.StepTrace("b", step_num=1):
        pass
    assert xp.trace_me("c")(lambda: 3)() == 3
    with pytest.raises(NotImplementedError, match="collect_profile"):
        xp.trace("tpu-host:9012", str(tmp_path))
    from xla_backend.utils import gcsfs
    with pytest.raises(NotImplementedError, match="gcsfs"):
        gcsfs.open("gs://a/b")
    from xla_backend.test import test_utils
    assert test_utils.get_summary_writer(None) is None
    assert len(test_utils.now("%H:%M")) == 5
    x = [lt.ones(2, device="xla") * 7]
    xm.optimization_barrier_(x)
    xm.unlazy(x)
    np.testing.assert_array_equal(x[0].cpu().numpy(), [7.0, 7.0])

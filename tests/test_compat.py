"""The small namespaces of torch that scripts touch."""
from __future__ import annotations

import os
import pickle
import random as py_random

import numpy as np
import pytest

import lazy_tensor as lt
import lazy_tensor.backends.cudnn as cudnn


def test_cuda_says_there_is_none():
    assert not lt.cuda.is_available() and lt.cuda.device_count() == 0 and not lt.cuda.is_bf16_supported()
    assert lt.cuda.memory_allocated() == lt.cuda.max_memory_reserved(0) == 0
    lt.cuda.empty_cache()
    lt.cuda.synchronize()
    lt.cuda.reset_peak_memory_stats()
    for f in (lt.cuda.current_device, lt.cuda.get_device_name, lambda: lt.cuda.set_device(0), lambda: lt.cuda.device(0)):
        with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
            f()
    with lt.cuda.device(None), lt.cuda.stream(lt.cuda.Stream()):
        pass


def test_cuda_seeds_seed_our_stream():
    lt.cuda.manual_seed_all(5)
    a = lt.rand(3).tolist()
    lt.manual_seed(5)
    assert lt.rand(3).tolist() == a


def test_events_time_what_was_recorded_between_them():
    a, b = lt.cuda.Event(enable_timing=True), lt.cuda.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match="must be recorded"):
        a.elapsed_time(b)
    a.record()
    x = lt.ones(3, device="xla") + 1
    b.record()
    assert a.elapsed_time(b) > 0 and x._v.data is not None
    with pytest.raises(RuntimeError, match="enable_timing"):
        lt.cuda.Event().elapsed_time(b)


def test_legacy_cuda_types_are_xla_ones():
    t = lt.cuda.FloatTensor([1.0])
    assert t.device.type == "xla" and isinstance(t, lt.cuda.FloatTensor) and not isinstance(lt.ones(1), lt.cuda.FloatTensor)


def test_backend_switches():
    cudnn.benchmark, cudnn.deterministic = True, True
    assert lt.backends.cudnn.benchmark and cudnn.deterministic and cudnn.version() is None
    with cudnn.flags(benchmark=False):
        assert not cudnn.benchmark
    assert cudnn.benchmark
    cudnn.benchmark = cudnn.deterministic = False
    with pytest.raises(RuntimeError, match="cudnn.benchmark: expected bool"):
        cudnn.benchmark = "yes"
    before = lt.get_float32_matmul_precision()
    lt.backends.cuda.matmul.allow_tf32 = True
    assert lt.get_float32_matmul_precision() == "high" and cudnn.allow_tf32
    cudnn.allow_tf32 = False
    assert lt.get_float32_matmul_precision() == "highest"
    lt.set_float32_matmul_precision(before)
    assert not lt.backends.mps.is_available() and not lt.backends.mps.is_built()


def test_fork_rng_leaves_the_stream_as_it_was():
    lt.manual_seed(1)
    a = lt.rand(2).tolist()
    lt.manual_seed(1)
    with lt.random.fork_rng(devices=[0]):
        lt.manual_seed(99)
        lt.rand(5)
    assert lt.rand(2).tolist() == a


def test_accelerator_is_always_xla():
    assert lt.accelerator.is_available() and lt.accelerator.current_accelerator() == lt.device("xla")
    assert lt.accelerator.device_count() >= 1 and lt.accelerator.current_device_index() == 0
    with lt.accelerator.device_index(0):
        lt.accelerator.synchronize()
    with pytest.raises(RuntimeError, match="does not exist"):
        lt.accelerator.set_device_index(1000)
    assert isinstance(lt.xla.get_device_name(), str)


def test_small_modules():
    assert lt.version.cuda is None and lt.version.__version__ == lt.__version__
    assert lt.overrides.is_tensor_like(lt.ones(1)) and not lt.overrides.is_tensor_like(1)
    assert not lt.overrides.has_torch_function((lt.ones(1), 2))
    assert lt.types.Device and not lt.mps.is_available() and lt.cpu.device_count() == 1
    import lazy_tensor.multiprocessing as mp
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() == "file_system" and mp.Process and mp.get_start_method
    assert isinstance(pickle.loads(pickle.dumps(lt.ones(2))), lt.Tensor)


def test_compile_takes_torchs_arguments():
    from lazy_tensor import compiler

    def f(x):
        return x + 1
    assert compiler.compile(f)(1) == 2 and compiler.compile(mode="max-autotune", fullgraph=True)(f)(1) == 2 and compiler.compile(f, disable=True) is f
    assert not compiler.is_compiling() and compiler.disable(f) is f
    with pytest.raises(RuntimeError, match="Unrecognized mode=quick"):
        compiler.compile(f, mode="quick")
    with pytest.raises(RuntimeError, match="Either mode or options"):
        compiler.compile(f, mode="default", options={})


T = lt.tensor


@pytest.mark.parametrize("a, b, words", [
    (T([1.0, 1.0, 1.0]), T([1.0, 1.1, 1.0]),
     "Tensor-likes are not close!\n\nMismatched elements: 1 / 3 (33.3%)\nGreatest absolute difference: 0.10000002384185791 at index (1,) "
     "(up to 1e-05 allowed)\nGreatest relative difference: 0.09090910851955414 at index (1,) (up to 1.3e-06 allowed)"),
    (T([1.0, 1.0]), T([1.0]), "The values for attribute 'shape' do not match: torch.Size([2]) != torch.Size([1])."),
    (T([1.0]), T([1.0], dtype=lt.float64), "The values for attribute 'dtype' do not match: torch.float32 != torch.float64."),
    (1.0, 1.1, "Scalars are not close!\n\nExpected 1.1 but got 1.0.\nAbsolute difference: 0.10000000000000009 (up to 1e-07 allowed)\n"
     "Relative difference: 0.09090909090909098 (up to 1e-07 allowed)"),
    ([1.0, 2], [1.0, 2, 3], "The length of the sequences mismatch: 2 != 3"),
    ({"a": 1}, {"b": 1}, "The keys of the mappings do not match:\nMissing keys in the actual mapping: ['b']\n"
     "Additional keys in the actual mapping: ['a']"),
    (None, 1, "None mismatch: None is not 1"),
    ({"a": T([1.0])}, {"a": T([0.0])},
     "Tensor-likes are not close!\n\nMismatched elements: 1 / 1 (100.0%)\nGreatest absolute difference: 1.0 at index (0,) (up to 1e-05 "
     "allowed)\nGreatest relative difference: inf at index (0,) (up to 1.3e-06 allowed)\n\nThe failure occurred for item ['a']"),
])
def test_assert_close_says_what_torch_says(a, b, words):
    with pytest.raises(AssertionError) as e:
        lt.testing.assert_close(a, b)
    assert str(e.value) == words
    lt.testing.assert_close(a, a)


def test_assert_close_arguments():
    nan = T([float("nan")])
    lt.testing.assert_close(nan, nan, equal_nan=True)
    lt.testing.assert_close(T([1.0]), T([1.05]), rtol=0.1, atol=0)
    with pytest.raises(ValueError, match="no atol"):
        lt.testing.assert_close(nan, nan, rtol=1)
    with pytest.raises(TypeError, match="No comparison pair"):
        lt.testing.assert_close("a", "b")
    with pytest.raises(AssertionError, match="^mine: Tensor-likes"):
        lt.testing.assert_close(T([1]), T([2]), msg=lambda m: "mine: " + m)


@pytest.mark.parametrize("dtype, lo, hi", [(lt.float32, -9, 9), (lt.int64, -9, 9), (lt.uint8, 0, 9), (lt.bool, 0, 1)])
def test_make_tensor(dtype, lo, hi):
    t = lt.testing.make_tensor((3, 4), dtype=dtype, device="cpu")
    a = np.asarray(t.tolist())
    assert t.shape == (3, 4) and t.dtype is dtype and lo <= a.min() and a.max() <= hi and len(np.unique(a)) > 1


def test_profiler(tmp_path):
    ready = []
    p = lt.profiler
    plan = p.schedule(wait=1, warmup=1, active=1, repeat=1)
    assert [plan(i).name for i in range(4)] == ["NONE", "WARMUP", "RECORD_AND_SAVE", "NONE"]
    with p.profile(activities=[p.ProfilerActivity.CPU], schedule=plan, on_trace_ready=ready.append) as prof:
        for _ in range(4):
            with p.record_function("my step"):
                (lt.ones(2, device="xla") + 1).sum()
            prof.step()
    assert ready == [prof]
    rows = {r.key: r for r in prof.key_averages()}
    assert rows["my step"].count == 1 and "my step" in prof.key_averages().table(sort_by="cuda_time_total", row_limit=10)
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    assert b"traceEvents" in path.read_bytes()
    p.tensorboard_trace_handler(str(tmp_path / "logs"))(prof)
    assert os.listdir(tmp_path / "logs")


def _child(i, path, fail):
    if fail and i == 1:
        raise ValueError("child says no")
    with open(f"{path}.{i}", "w") as f:
        f.write(str(py_random.random()))


@pytest.mark.parametrize("fail", [False, True])
def test_multiprocessing_start_processes(tmp_path, fail):
    import lazy_tensor.multiprocessing as mp
    path = str(tmp_path / "out")
    if fail:
        with pytest.raises(mp.ProcessRaisedException, match="child says no"):
            mp.start_processes(_child, args=(path, True), nprocs=2, start_method="forkserver")
    else:
        mp.start_processes(_child, args=(path, False), nprocs=2, start_method="forkserver")
        assert os.path.exists(path + ".0") and os.path.exists(path + ".1")

"""What a sync runs: liveness, exact keys, donation, cutting, bounded memory, recovery after errors."""
from __future__ import annotations

import gc

import numpy as np
import pytest

import lazy_tensor as lt
from xla_backend import debug, graph, metrics, program, runtime


def dev():
    return runtime.device("xla", 0)


def leaf(a, **kw):
    return lt.tensor(np.asarray(a, np.float32), device="xla", **kw)


def test_recording_runs_nothing(counts):
    x = leaf([1, 2])
    y = (x + 1) * 2
    assert counts.nodes_run == 0 and counts.syncs == 0
    assert y.tolist() == [4, 6]
    assert counts.nodes_run == 2


def test_no_op_runs_twice(counts):
    x = leaf([1, 2, 3], requires_grad=True)
    loss = (x.tanh() * x).sum()
    loss.item()
    forward = counts.nodes_run
    loss.backward()
    lt.sync()
    assert forward == 3
    # backward reads what forward kept; tanh, mul and sum are not among its nodes
    assert "tanh(" not in debug.last_record().text().replace("tanh_backward(", "")
    a = np.array([1, 2, 3], np.float32)
    np.testing.assert_allclose(x.grad.cpu().numpy(), np.tanh(a) + a * (1 - np.tanh(a) ** 2), rtol=1e-5)


def test_dead_nodes_are_not_run(counts):
    x = leaf([1, 2])
    for _ in range(50):
        x + 1
    y = x * 3
    assert y.tolist() == [3, 6]
    assert counts.nodes_run == 1


def test_every_live_value_is_an_output(counts):
    x = leaf([1.0])
    a = x + 1
    b = a * 2
    c = b - 3
    assert c.item() == 1
    ran = counts.nodes_run
    assert (a.item(), b.item()) == (2, 4)
    assert counts.nodes_run == ran


def test_a_changed_number_makes_no_program(counts):
    x = leaf([1, 2])
    assert (x * 0.5).tolist() == [0.5, 1]
    first = counts.compiles
    for k in range(1, 6):
        assert (x * (0.1 * k)).tolist() == pytest.approx([0.1 * k, 0.2 * k])
    assert counts.compiles == first


def test_a_changed_shape_is_explained():
    for n in (3, 4):
        leaf(np.ones(n)).mul(2).add(1).tolist()
    text = lt.explain()
    assert "float32[4]" in text and "it was float32[3]" in text and "test_programs.py" in text


def test_other_liveness_reuses_the_program_that_gives_more(counts):
    x = leaf(np.arange(5.0))

    def run(hold):
        a = x + 1.5
        b = a * 2.5
        if not hold:
            del a
        return b.tolist()
    first = run(True)
    compiled = counts.compiles
    assert run(False) == first
    assert counts.compiles == compiled


def test_updates_are_donated(counts):
    w = leaf(np.zeros((64, 64)))
    for _ in range(4):
        w = w * 0.5 + 1
        lt.sync()
    assert counts.donated_buffers >= 3
    assert w[0, 0].item() == pytest.approx(1.875)


def test_a_held_value_is_not_donated():
    w = leaf(np.zeros((8, 8)))
    old = w.detach()
    kept = old.clone()
    lt.sync()
    for _ in range(3):
        w = w + 1
        lt.sync()
    assert old.sum().item() == 0 and kept.sum().item() == 0 and w.sum().item() == 192


def test_an_array_given_out_is_not_overwritten():
    w = leaf(np.zeros((8, 8)))
    w = w + 0
    lt.sync()
    seen = w.cpu().numpy()
    for _ in range(3):
        w = w + 1
        lt.sync()
    assert seen.sum() == 0 and w.sum().item() == 192


def test_a_failed_op_loses_nothing():
    x = leaf([1, 2, 3])
    y = x + 1
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        x + leaf([1, 2])
    assert y.tolist() == [2, 3, 4]
    assert (y * 2).tolist() == [4, 6, 8]


def test_a_program_that_fails_leaves_its_nodes_pending(monkeypatch):
    x = leaf([1, 2, 3])
    y = x * 7 - 1
    from xla_backend import compile as compile_

    def broken(*a, **k):
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 10 bytes")
    with monkeypatch.context() as m:
        m.setattr(compile_, "lower", broken)
        program.forget()
        with pytest.raises(lt.OutOfMemoryError, match="nothing recorded was lost"):
            y.tolist()
    assert y.tolist() == [6, 13, 20]


def test_only_what_cannot_run_fails(monkeypatch):
    from xla_backend import kernel
    x = leaf([1, 2, 3])
    good = x * 5 + 2
    broken = x * 3
    program_nodes = dev().graph.pending
    config, *rest = program_nodes[-1]

    def cannot(*a):
        raise ValueError("no such lowering")
    stub = kernel.Config(config.kernel, dev())
    fake = kernel.Kernel.__new__(kernel.Kernel)
    fake.call, fake.name, fake.chain, fake.ins, fake.outs = cannot, "broken", 1, config.kernel.ins, config.kernel.outs
    stub.kernel = fake
    program_nodes[-1] = (stub, *rest)
    needs = broken + 1
    with pytest.raises(RuntimeError, match="no such lowering"):
        good.tolist()
    assert good.tolist() == [7, 12, 17]
    for t in (broken, needs):
        with pytest.raises(RuntimeError, match="no such lowering"):
            t.tolist()
    with pytest.raises(RuntimeError, match="no such lowering"):
        (needs * 2).tolist()
    assert (good + 1).tolist() == [8, 13, 18]


def test_a_long_chain_is_cut(counts):
    x = leaf(np.full((4,), 0.5), requires_grad=True)
    h = x
    for i in range(1500):
        h = h.tanh() if i % 3 == 0 else (h * 1.01 if i % 3 == 1 else h + x)
    h.sum().backward()
    lt.sync()
    assert 2 <= counts.programs <= 20
    a, grads = np.full(4, 0.5), None
    h, d = a.copy(), np.ones(4)  # d = dh/dx in forward mode
    for i in range(1500):
        if i % 3 == 0:
            h = np.tanh(h)
            d = d * (1 - h * h)
        elif i % 3 == 1:
            h, d = h * 1.01, d * 1.01
        else:
            h, d = h + a, d + 1
    del grads
    np.testing.assert_allclose(x.grad.cpu().numpy(), d, rtol=1e-3)


def test_a_loop_that_never_syncs_is_bounded(monkeypatch):
    monkeypatch.setattr(graph, "PENDING_LIMIT", 500)
    x = leaf([0.0])
    longest = 0
    for _ in range(2100):
        x = x + 1
        longest = max(longest, len(dev().graph.pending))
    assert longest <= 500
    assert x.item() == 2100


def test_the_library_makes_no_reference_cycles():
    x = leaf(np.ones(3), requires_grad=True)
    (x * 2).tanh().sum().backward()
    lt.sync()
    gc.collect()
    gc.disable()
    try:
        gc.collect()
        for _ in range(3):
            y = (x * 2).tanh().sum()
            y.backward()
            x.grad = None
            lt.sync()
        del y
        assert gc.collect() < 20
    finally:
        gc.enable()


def test_dumps_show_each_stage():
    x = leaf([1, 2])
    y = (x + 1).tanh()
    assert "tanh(" in lt.dump() and "test_programs.py" in lt.dump()
    assert "stablehlo.tanh" in lt.dump("stablehlo")
    assert lt.dump("dot").startswith("digraph")
    y.tolist()
    assert "HloModule" in lt.dump("hlo") and "test_programs.py" in lt.dump("hlo")
    with pytest.raises(ValueError, match="stage must be"):
        lt.dump("nothing")


def test_metrics_count_transfers(counts):
    x = leaf(np.ones((10, 10)))
    assert counts.transfers_to_device == 1 and counts.bytes_to_device == 400
    x.add(1).cpu()
    assert "Counter: transfers_to_device" in metrics.report()


def test_users_jax_code_keeps_its_own_precision():
    import jax.numpy as jnp
    lt.ones(3, dtype=lt.float64).sum().item()
    assert jnp.ones(3).dtype == jnp.float32 and jnp.arange(3).dtype == jnp.int32

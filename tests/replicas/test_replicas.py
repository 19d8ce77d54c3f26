"""Replicas on four virtual cores: collectives, DistributedDataParallel, torch.distributed's names, differences and failures."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve()
ROOT = HERE.parents[2]


def run(*args, **env):
    return subprocess.run([sys.executable, *map(str, args)], capture_output=True, text=True, timeout=300, cwd=ROOT,
                          env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", **env})


@pytest.fixture(scope="module")
def out():
    r = run(HERE.with_name("collectives.py"))
    assert r.returncode == 0, r.stderr[-3000:]
    return json.loads(r.stdout.splitlines()[-1])


def test_collectives(out):
    assert out["cores"] == 4
    for i, r in enumerate(out["collectives"]):
        assert r["who"] == [f"xla:{i}", 4, i, i == 0, 7]
        assert r["sum"] == [6.0] * 4 and r["max"] == [1.5] * 4 and r["mul"] == [24.0] * 4 and r["or"] == [True] * 4
        assert r["groups"] == ([1.0] * 4 if i < 2 else [5.0] * 4)
        assert r["gather"] == [0.0, 1.0, 2.0, 3.0] and r["scatter"] == [4.0 * i]
        assert r["all_to_all"] == [i, 10 + i, 20 + i, 30 + i]
        assert r["permute"] == [(i - 1) % 4] * 4 and r["broadcast"] == [2.0] * 4 and r["mesh"] == 1.5
        assert r["grad"] == [80.0 * (i + 1)] * 3  # the gradient of a sum over replicas is the sum of theirs
        assert r["many"] == [[10.0] * 4, [6, 6]]


def test_the_same_losses_on_one_two_and_four_cores(out):
    one = out["train"]["1"][0]
    assert one[0][-1] < one[0][1]
    for n in (2, 4):
        for losses, objects, var in out["train"][str(n)]:
            assert losses == pytest.approx(one[0], rel=1e-3)
            assert objects == list(range(n)) and var == pytest.approx(one[2], rel=1e-3)
    assert all(v == 0 for v in out["steady"].values())


def test_no_sync(out):
    assert [a for a, _ in out["no_sync"]] == [[[1.0, 1.0]], [[2.0, 2.0]], [[3.0, 3.0]], [[4.0, 4.0]]]
    assert all(b == [[5.0, 5.0]] for _, b in out["no_sync"])


def test_torch_distributed(out):
    for i, (pieces, whole, part, got, y, done, z, swapped, boxes) in enumerate(out["names"]):
        assert pieces == [[float(j)] * 2 for j in range(4)] and whole == [0, 0, 1, 1, 2, 2, 3, 3]
        assert part == [4.0 * i] and got == [float(i)] * 2 and done is True
        assert y == [1.0 if i < 2 else 5.0] * 2 and z == [3.0, 3.0]
        assert swapped == [i, 10 + i, 20 + i, 30 + i] and boxes == [{"from": 2}]


def test_programs_alone_and_random_streams(out):
    assert out["own_work"] == [[26.0, 26.0]] * 4
    a = out["alone"]
    assert a[0] == a[2] and a[1] == a[3] and a[0] != a[1]


def test_differences_and_failures_are_errors(out):
    kind, text, notes = out["diverge"]
    assert kind == "ReplicaError" and "replicas 0 and 2 do different things" in text and "all_gather" in text and text.count("collectives.py:") == 2
    assert notes
    assert out["leave"][0] == "ReplicaError" and "replica 1 has returned" in out["leave"][1]
    assert out["fail"] == ["ValueError", "boom", ["in replica 3 of 4"]]
    assert out["late"][0] == "ReplicaError" and "waited" in out["late"][1] and "[0]" in out["late"][1]
    assert out["after"] == [2.0] * 3


def test_launch(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys\nimport lazy_tensor as lt\nfrom xla_backend.core import xla_model as xm\n"
                      "x = xm.all_reduce('sum', lt.ones(2, device='xla') * xm.get_ordinal())\n"
                      "xm.master_print(sys.argv[1:], x.tolist(), xm.xrt_world_size())\n"
                      "if sys.argv[1] == 'fail' and xm.get_ordinal() == 2:\n    raise ValueError('boom')\n")
    ok = run("-m", "xla_backend.launch", "--nprocs", 4, script, "a", "--b")
    assert ok.returncode == 0 and ok.stdout.splitlines() == ["['a', '--b'] [6.0, 6.0] 4"]
    bad = run("-m", "xla_backend.launch", "--nprocs", 4, script, "fail")
    assert bad.returncode == 1 and "replica 2 of 4 failed" in bad.stderr and "ValueError: boom" in bad.stderr
    assert run("-m", "xla_backend.launch", tmp_path / "none.py").returncode == 2

"""Replicas over several processes on 127.0.0.1: the numbers of one process, and an error on all others when one is lost or elsewhere."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve()
ROOT = HERE.parents[2]
SCRIPT = HERE.with_name("processes.py")


def start(script, *args, options=("--nprocs", 2, "--processes"), **env):
    command = [sys.executable, "-m", "xla_backend.launch", *options, script, *args]
    return subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env={
        **os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "XLA_BACKEND_LOST": "3", **env})


def launch(*args, **more):
    p = start(*args, **more)
    out, err = p.communicate(timeout=120)
    return p.returncode, [json.loads(x[x.index("{"):]) for x in out.splitlines() if "{" in x], err


def test_the_numbers_of_one_process():
    script = HERE.with_name("process_training.py")
    _, (one,), _ = launch(script, options=("--nprocs", 1))
    for cores in (1, 2):
        status, many, err = launch(script, options=("--nprocs", 2, "--processes", "--cores", cores))
        assert status == 0, err
        assert sorted(r["rank"] for r in many) == list(range(2 * cores))
        for r in many:
            assert r["losses"] == pytest.approx(one["losses"], rel=1e-3) and r["compiles"] == 0
            assert r["objects"] == list(range(2 * cores)) and r["size"] == 2 * cores and r["processes"] == 2
            assert r["process"] == r["rank"] // cores and r["local"] == r["rank"] and r["device"] == f"xla:{r['rank'] % cores}"


@pytest.mark.parametrize(("case", "words"), [
    ("raise", ["replica 1 has failed with ValueError: boom"]), ("return", ["replica 1 has returned"]),
    ("kill", ["replica 1 was ended by SIGKILL"]), ("stop", ["replica 1 is lost", "XLA_BACKEND_LOST"])])
def test_a_lost_replica_is_named(case, words):
    status, lines, err = launch(SCRIPT, case)
    error, = [x["error"] for x in lines if x["rank"] == 0]
    assert status != 0 and all(w in error for w in [*words, "replica 0 runs a program with collectives at processes.py:"]), err
    if case == "raise":
        assert err.index("ValueError: boom") < err.index("ReplicaError")


@pytest.mark.parametrize("case", ["new", "known", "extra", "tag"])
def test_replicas_that_do_different_things(case):
    status, lines, err = launch(SCRIPT, case)
    assert status != 0 and {x["rank"] for x in lines} == {0, 1}, err
    for x in lines:
        assert "replica 0" in x["error"] and "replica 1" in x["error"] and x["error"].count("processes.py:") == 2


def test_an_unsigned_object_is_refused():
    status, lines, _ = launch(SCRIPT, "mac")
    assert status != 0 and any("is not signed with this world's secret: refused" in x.get("error", "") for x in lines)


def test_a_restart():
    status, lines, err = launch(SCRIPT, "attempt", options=("--nprocs", 2, "--processes", "--max-restarts", 1))
    assert status == 0 and "starting again (1 of 1)" in err
    assert {(x["rank"], x["attempt"]) for x in lines if "error" not in x} == {(0, "1"), (1, "1")}


def test_interrupt_ends_everything():
    p = start(SCRIPT, "sleep")
    pids = []
    while len(pids) < 2:
        text = p.stdout.readline()
        pids += [json.loads(text[text.index("{"):])["pid"]] if "{" in text else []
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=60)
    assert p.returncode == 130
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_several_hosts_need_a_secret():
    p = start(SCRIPT, "none", options=("--coordinator", "127.0.0.1:1", "--num-hosts", 2), XLA_BACKEND_SECRET="")
    assert "XLA_BACKEND_SECRET" in p.communicate(timeout=60)[1] and p.returncode == 2


def test_a_failure_in_one_of_two_replicas_of_a_process(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import lazy_tensor as lt\nfrom xla_backend.core import xla_model as xm\nx = lt.ones(2, device='xla')\n"
                      "xm.all_reduce('sum', x).tolist()\nif xm.get_ordinal() == 3:\n    raise ValueError('boom')\n"
                      "xm.all_reduce('sum', x).tolist()\n")
    status, _, err = launch(script, options=("--nprocs", 2, "--processes", "--cores", 2))
    assert status == 1 and "replica 3 of 4 failed" in err
    assert "process 1 (replicas 2 to 3) has failed (in replica 3) with ValueError: boom" in err


def test_a_cluster_that_jax_detects():
    secret = "a secret of these two processes"
    both = [start(HERE.with_name("process_training.py"), options=(), XLA_BACKEND_SECRET=secret, SLURM_JOB_ID=str(os.getpid()), SLURM_NTASKS="2",
                  SLURM_STEP_NODELIST="localhost", SLURM_STEP_NUM_NODES="1", SLURM_PROCID=str(i), SLURM_LOCALID=str(i)) for i in range(2)]
    for i, p in enumerate(both):
        out, err = p.communicate(timeout=120)
        assert p.returncode == 0, err
        line = json.loads(out[out.index("{"):])
        assert (line["rank"], line["size"], line["objects"]) == (i, 2, [0, 1])

"""The scripts do what the README says: train, checkpoint, resume bit for bit, draw, sample."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lazy_tensor as lt

ROOT = Path(__file__).resolve().parents[1]
pytest.importorskip("mlxtend")


def run(script, *args, cwd):
    env = dict(os.environ, PYTHONPATH=str(ROOT), MPLBACKEND="Agg")
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / script), *map(str, args)], cwd=cwd, env=env, capture_output=True,
                          text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def same(a, b):
    """Whether two checkpoints hold the same bits."""
    if isinstance(a, lt.Tensor):
        return np.array_equal(a.cpu().numpy(), b.cpu().numpy(), equal_nan=True)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def test_digits_learns_resumes_and_draws(tmp_path):
    common = ["--epochs", 3, "--batch-size", 200]
    whole = run("train_digits.py", *common, "--out", tmp_path / "whole", cwd=tmp_path)
    run("train_digits.py", *common, "--stop-after", 1, "--out", tmp_path / "parts", cwd=tmp_path)
    rest = run("train_digits.py", *common, "--resume", "--out", tmp_path / "parts", cwd=tmp_path)
    assert "resumed after epoch 1" in rest
    accuracy = float(re.findall(r"test accuracy ([\d.]+) %", whole)[-1])
    assert accuracy > 94
    assert (tmp_path / "whole" / "curves.png").stat().st_size > 10_000
    a, b = (lt.load(tmp_path / d / "checkpoint.pt") for d in ("whole", "parts"))
    assert same(a, b)


def test_gpt_learns_resumes_and_samples(tmp_path):
    common = ["--steps", 30, "--batch-size", 4, "--context", 32, "--width", 32, "--layers", 2, "--heads", 2, "--warm-up", 5, "--every", 10]
    whole = run("train_gpt.py", *common, "--out", tmp_path / "whole", cwd=tmp_path)
    run("train_gpt.py", *common, "--stop-after", 10, "--out", tmp_path / "parts", cwd=tmp_path)
    rest = run("train_gpt.py", *common, "--resume", "--out", tmp_path / "parts", cwd=tmp_path)
    assert "resumed after step 10" in rest and "def " in whole
    losses = [float(x) for x in re.findall(r"test loss ([\d.]+)", whole)]
    assert losses[-1] < losses[0] < 5
    a, b = (lt.load(tmp_path / d / "checkpoint.pt") for d in ("whole", "parts"))
    assert same(a, b)

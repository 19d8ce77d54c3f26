"""The program cache between processes: warm starts compile nothing, writes are atomic, it can be moved or turned off."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import jax.monitoring, numpy as np
hits = []
jax.monitoring.register_event_listener(lambda name, **k: hits.append(name))
import lazy_tensor as lt
x = lt.tensor(np.ones((64, 64), np.float32), device="xla", requires_grad=True)
h = x
for _ in range(40):
    h = (h @ x).tanh()
h.sum().backward()
print(x.grad.sum().item(), sum("cache_hits" in h for h in hits))
"""


def start(folder):
    return subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=dict(os.environ, XLA_BACKEND_CACHE=str(folder), PYTHONPATH=str(ROOT), PYTHONWARNINGS="error"))


def finish(p):
    out, err = p.communicate(timeout=300)
    assert p.returncode == 0, err[-2000:]
    return out.split()


def test_many_writers_then_a_warm_start(tmp_path):
    cold = [finish(p) for p in [start(tmp_path), start(tmp_path)]]
    assert cold[0][0] == cold[1][0]
    files = sorted(p.name for p in tmp_path.iterdir())
    assert files and not [f for f in files if f.startswith(".writing")]
    warm = finish(start(tmp_path))
    assert warm[0] == cold[0][0] and int(warm[1]) >= 1


def test_it_can_be_turned_off(tmp_path):
    home = dict(os.environ, XLA_BACKEND_CACHE="0", PYTHONPATH=str(ROOT), XDG_CACHE_HOME=str(tmp_path))
    subprocess.run([sys.executable, "-c", "import lazy_tensor as lt; lt.ones(3, device='xla').sum().item()"], env=home, check=True)
    assert not list(tmp_path.iterdir())

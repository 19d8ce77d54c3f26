"""Writes optim.json: what torch 2.13 gives for tests/optim/runs.py (run by hand, with torch installed)."""
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "optim"))
import runs  # noqa: E402

out = {"optimizers": {f"{n}{i}": runs.optimizer_run("torch", "cpu", n, kw) for n, kws in runs.OPTIMIZERS.items() for i, kw in enumerate(kws)},
       "schedules": {n: runs.schedule_run("torch", n) for n in runs.SCHEDULES}, "plateau": runs.plateau_run("torch")}
(HERE / "optim.json").write_text(json.dumps(out))

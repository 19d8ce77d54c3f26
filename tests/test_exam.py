"""The handed exam (`../shared/exam`: PyTorch's own inputs, outputs and gradients) scores no less than `golden/exam_score.json`."""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAM = ROOT.parent / "shared" / "exam"
KEPT = json.loads((Path(__file__).parent / "golden" / "exam_score.json").read_text())
TOTAL = re.compile(r"^all\s+(\d+)/(\d+)\s+(\d+)/(\d+)\s", re.M)


def cache_folder() -> Path:
    """Programs of the exam, kept between runs apart from the library's own: thousands of small ones."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "xla_backend_exam"


@pytest.mark.skipif(not (EXAM / "grade.py").is_file(), reason=f"the exam is not beside this repository: no {EXAM / 'grade.py'}")
def test_the_exam_scores_no_less_than_before():
    env = dict(os.environ, PYTHONPATH=str(ROOT), XLA_BACKEND_CACHE=str(cache_folder()))
    env.pop("PYTEST_CURRENT_TEST", None)
    done = subprocess.run([sys.executable, str(EXAM / "grade.py"), "-v", "--jobs", str(os.cpu_count() or 1)], cwd=ROOT, env=env,
                          capture_output=True, text=True, timeout=3000)
    totals = TOTAL.findall(done.stdout)
    assert totals, f"no summary line (exit {done.returncode}):\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    operators, of_operators, cases, of_cases = map(int, totals[-1])
    wrong = done.stdout[:done.stdout.rindex("group ")]
    assert (of_operators, of_cases) == (KEPT["of_operators"], KEPT["of_cases"]), "the exam's cases changed: set golden/exam_score.json anew"
    assert operators >= KEPT["operators"] and cases >= KEPT["cases"], (
        f"{operators} of {of_operators} operators and {cases} of {of_cases} cases are right; were {KEPT['operators']} and {KEPT['cases']}. "
        f"Wrong now:\n{wrong}")

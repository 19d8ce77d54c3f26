"""Running a script of this folder in a process of its own, on virtual cores."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def printed():
    """script's last line, as JSON."""
    def of(script, *args, **env):
        r = subprocess.run([sys.executable, str(HERE / script), *map(str, args)], capture_output=True, text=True, timeout=300, cwd=HERE.parents[1],
                           env={**os.environ, "PYTHONPATH": str(HERE.parents[1]), "JAX_PLATFORMS": "cpu", **env})
        assert r.returncode == 0, r.stderr[-3000:]
        return json.loads(r.stdout.splitlines()[-1])
    return of

"""Makes the golden cases importable (tests/golden/func_check.py)."""
from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "golden"))

"""docs/operators.md says what the definitions say."""
from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_current():
    spec = importlib.util.spec_from_file_location("make_operators", ROOT / "scripts" / "make_operators.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "operators.md").read_text() == module.table(), "run python scripts/make_operators.py"

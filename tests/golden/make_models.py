"""Writes models.json: the losses that torch 2.13 gives for tests/models/zoo.py (run by hand, with torch installed)."""
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "models"))
import zoo  # noqa: E402

out = {name: zoo.train(name, "torch", "cpu") for name in zoo.MODELS}
(HERE / "models.json").write_text(json.dumps(out, indent=1))

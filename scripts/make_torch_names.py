"""Writes lazy_tensor/_torch_names.py, torch's public names by namespace: `ORACLE_PYTHON scripts/make_torch_names.py`, where torch is installed.

Names only: what lazy_tensor.overrides.missing() compares itself with.
"""
from __future__ import annotations

import importlib
import inspect
import textwrap
import types
from pathlib import Path

NAMESPACES = ["", "Tensor", "accelerator", "amp", "autograd", "autograd.forward_ad", "autograd.functional", "autograd.graph", "autograd.profiler", "backends",
              "backends.cuda", "backends.cudnn", "compiler", "cpu", "cuda", "cuda.amp", "distributions", "distributions.constraints", "distributions.kl",
              "distributions.transforms", "fft", "func", "hub", "linalg", "masked", "multiprocessing", "nn", "nn.attention", "nn.functional", "nn.init",
              "nn.parallel", "nn.parameter", "nn.utils", "nn.utils.parametrizations", "nn.utils.parametrize", "nn.utils.prune", "nn.utils.rnn",
              "nn.utils.stateless", "optim", "optim.lr_scheduler", "optim.swa_utils", "overrides", "profiler", "random", "serialization", "signal.windows",
              "special", "testing", "types", "utils", "utils.checkpoint", "utils.data", "utils.data.distributed", "utils.dlpack"]


def binding(value) -> bool:
    """Whether a value is one of the C++ side's own classes or functions (pybind11's), which torch's namespace shows by accident."""
    kind = type(value).__name__ if not inspect.isbuiltin(value) else type(getattr(value, "__self__", None)).__name__
    return kind in ("pybind11_type", "PyCapsule") or type(type(value)).__name__ == "pybind11_type"


def names(torch, path: str) -> list[str]:
    """The public names of a namespace: `__all__` where there is one, else what it defines (nothing imported from outside torch)."""
    if path == "Tensor":
        return sorted(n for n in dir(torch.Tensor) if not n.startswith("_"))
    module = importlib.import_module(f"torch.{path}" if path else "torch")

    def own(name: str, value) -> bool:
        if name.startswith("_") or isinstance(value, types.ModuleType):
            return False
        home = getattr(value, "__module__", None)
        return isinstance(home, str) and home.startswith("torch") if inspect.isclass(value) or inspect.isroutine(value) else True

    listed = getattr(module, "__all__", None)
    found = {n for n in listed or () if not n.startswith("_") and not isinstance(getattr(module, n, None), types.ModuleType)}
    if not listed or not path:
        builtin = {n for n in dir(module) if inspect.isbuiltin(getattr(module, n)) and not n.startswith("_")}
        typing = {"TYPE_CHECKING", "Any", "Callable", "Optional", "Union", "annotations"}
        found |= {n for n in dir(module) if own(n, getattr(module, n)) and n not in typing} | builtin
    if not path:
        found = {n for n in found if not binding(getattr(torch, n)) and not n.startswith(("USE_", "PRIVATE_"))}
    return sorted(found)


def main() -> None:
    import torch
    lines = [f'"""The public names of torch {torch.__version__.split("+")[0]} by namespace; written by scripts/make_torch_names.py."""',
             "NAMES = {name: text.split() for name, text in {"]
    for path in NAMESPACES:
        text = textwrap.fill(" ".join(names(torch, path)), 130, initial_indent="        ", subsequent_indent="        ", break_long_words=False)
        lines.append(f'    "{path}": """\n{text}""",')
    lines.append("}.items()}")
    page = Path(__file__).resolve().parents[1] / "lazy_tensor" / "_torch_names.py"
    page.write_text("\n".join(lines) + "\n")
    print(f"{page}: {sum(len(names(torch, p)) for p in NAMESPACES)} names")


if __name__ == "__main__":
    main()

"""Writes layers.json with PyTorch: every torch.nn layer's parameters with defaults, its repr with each option changed, and the numbers
of tests/nn/layer_runs.py.

Run with the oracle: `/work/venv/oracle/bin/python tests/golden/make_layers.py`."""
import inspect
import json
import sys
import warnings
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "nn"))
import layer_runs

GIVEN = dict(
    in_features=4, out_features=6, in_channels=4, out_channels=6, kernel_size=3, num_features=4, num_groups=2, num_channels=4,
    normalized_shape=(3, 4), input_size=4, hidden_size=6, num_embeddings=5, embedding_dim=3, d_model=8, nhead=2, embed_dim=8, num_heads=2,
    size=2, padding=1, output_size=3, upscale_factor=2, downscale_factor=2, groups=2, threshold=0.1, value=20, dim=1, in1_features=2,
    in2_features=3, n_classes=10, cutoffs=(2, 5), num_classes=10, unflattened_size=(2, 2), norm_type=2)
NOT_LAYERS = {"Container", "Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential", "DataParallel",
              "TransformerEncoder", "TransformerDecoder", "Transformer", "RNNBase", "RNNCellBase", "NLLLoss2d"}
RECURRENT = dict(num_layers=2, bias=False, batch_first=True, dropout=0.5, bidirectional=True)


def cases(name, cls):
    """Keyword arguments of the layer: what it needs, and one option after the other changed."""
    params = [p for p in inspect.signature(cls).parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    need = {p.name: GIVEN.get(p.name, 2) for p in params if p.default is p.empty}
    options = {p.name: not p.default if isinstance(p.default, bool) else type(p.default)(p.default * 2 + 1)
               for p in params if isinstance(p.default, (bool, int, float))}
    if name in ("GRU", "LSTM", "RNN"):
        need, options = dict(input_size=4, hidden_size=6), {**RECURRENT, **({"proj_size": 2} if name == "LSTM" else {})}
    if name.startswith("FractionalMaxPool"):
        need["output_size"] = 3
    return [need, *({**need, k: v} for k, v in options.items())]


def main():
    """One entry a layer."""
    out = {}
    for name in sorted(dir(nn)):
        cls = getattr(nn, name)
        if name in NOT_LAYERS or not (inspect.isclass(cls) and issubclass(cls, nn.Module)):
            continue
        kinds = inspect.signature(cls).parameters.values()
        parameters = None if any(p.kind == p.VAR_POSITIONAL for p in kinds) else [
            [p.name, p.kind.name, None if p.default is p.empty else "relu" if callable(p.default) else str(p.default)] for p in kinds]
        reprs = []
        for kw in cases(name, cls):
            try:
                reprs.append([kw, repr(cls(**kw))])
            except (ValueError, RuntimeError, AssertionError):
                continue  # an option that does not go with the others
        out[name] = dict(parameters=parameters, reprs=reprs)
    Path(__file__).with_name("layers.json").write_text(json.dumps(dict(
        torch=torch.__version__, layers=out, values={k: layer_runs.result(torch, *v) for k, v in layer_runs.runs("torch").items()})))


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()

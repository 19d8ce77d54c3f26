"""Layers with fixed weights and inputs: output, gradients and buffers as sums. Runs with torch (tests/golden/make_layers.py) and here.

`runs(lib)` gives {name: (make, inputs, keyword arguments)}; `result(lib, ...)` the numbers of one."""
from __future__ import annotations

import importlib
import math


def weights(lib, *shape):
    """Irregular values in [-1, 1], the same in every library."""
    return lib.sin(lib.arange(math.prod(shape), dtype=lib.float64) ** 2 * 1.7 + 0.3).reshape(shape)


def result(lib, make, inputs, kw):
    """[weighted sum of the outputs, |gradient| sums of inputs, of parameters, sums of buffers] of a layer in float64."""
    m = make().double()
    with lib.no_grad():
        for p in m.parameters():
            p.copy_(weights(lib, *p.shape))
    x = [v.clone().requires_grad_() if isinstance(v, lib.Tensor) and v.is_floating_point() else v for v in inputs]
    out = m(*x, **kw)
    out = [v for v in _flat(out) if isinstance(v, lib.Tensor) and v.is_floating_point()]
    loss = sum((v * weights(lib, *v.shape)).sum() for v in out)
    loss.backward()
    grads = [[None if t.grad is None else t.grad.abs().sum().item() for t in ts]
             for ts in ([v for v in x if isinstance(v, lib.Tensor) and v.requires_grad], m.parameters())]
    return [loss.item(), *grads, [b.double().sum().item() for b in m.buffers()]]


def _flat(v):
    return [u for t in v for u in _flat(t)] if isinstance(v, tuple) else [v]


def runs(name):
    """The table for a library (its module's name)."""
    lib = importlib.import_module(name)
    nn = lib.nn

    def w(*shape):
        return weights(lib, *shape)
    future, causal = lib.ones(3, 3, dtype=lib.bool).triu(1), nn.Transformer.generate_square_subsequent_mask
    hidden = lib.tensor([[False, False, True], [False, False, False]])
    out = {
        "attention": (lambda: nn.MultiheadAttention(4, 2), (w(3, 2, 4), w(5, 2, 4), w(5, 2, 4)), {}),
        "attention masked": (lambda: nn.MultiheadAttention(4, 2, batch_first=True), (w(2, 3, 4),) * 3,
                             dict(attn_mask=future, key_padding_mask=hidden)),
        "attention float mask": (lambda: nn.MultiheadAttention(4, 2), (w(3, 2, 4),) * 3, dict(attn_mask=w(3, 3), need_weights=False)),
        "attention extra keys": (lambda: nn.MultiheadAttention(4, 2, kdim=3, vdim=5, add_bias_kv=True, add_zero_attn=True),
                                 (w(3, 2, 4), w(3, 2, 3), w(3, 2, 5)), {}),
        "attention unbatched": (lambda: nn.MultiheadAttention(4, 2), (w(3, 4),) * 3, {}),
        "attention mask a head": (lambda: nn.MultiheadAttention(4, 2), (w(3, 2, 4),) * 3, dict(attn_mask=w(4, 3, 3))),
        "encoder layer": (lambda: nn.TransformerEncoderLayer(4, 2, 8, 0.0), (w(3, 2, 4),), {}),
        "encoder layer norm first": (lambda: nn.TransformerEncoderLayer(4, 2, 8, 0.0, "gelu", norm_first=True, batch_first=True, bias=False),
                                     (w(3, 2, 4),), {}),
        "encoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0), 2, nn.LayerNorm(4)), (w(3, 2, 4),),
                    dict(src_key_padding_mask=hidden)),
        "decoder layer": (lambda: nn.TransformerDecoderLayer(4, 2, 8, 0.0), (w(3, 2, 4), w(5, 2, 4)), {}),
        "transformer": (lambda: nn.Transformer(4, 2, 1, 1, 8, 0.0), (w(3, 2, 4), w(5, 2, 4)),
                        dict(tgt_is_causal=True, tgt_mask=causal(5).double())),
        "LSTM projected": (lambda: nn.LSTM(3, 4, 2, proj_size=2, bidirectional=True), (w(5, 2, 3),), {}),
        "RNN relu": (lambda: nn.RNN(3, 4, nonlinearity="relu"), (w(5, 2, 3), w(1, 2, 4)), {}),
        "adaptive softmax": (lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6], div_value=2.0, head_bias=True),
                             (w(5, 4), lib.tensor([0, 4, 9, 2, 6])), {}),
        "Bilinear": (lambda: nn.Bilinear(3, 4, 2), (w(5, 3), w(5, 4)), {}),
        "Fold": (lambda: nn.Fold((4, 5), (2, 3), padding=1, stride=(1, 2)), (w(1, 12, 15),), {}),
        "Unfold": (lambda: nn.Unfold((2, 3), padding=1, stride=(1, 2)), (w(1, 2, 4, 5),), {}),
        "Upsample trilinear": (lambda: nn.Upsample(scale_factor=1.7, mode="trilinear", align_corners=True), (w(1, 1, 3, 4, 2),), {}),
        "Upsample linear": (lambda: nn.Upsample(scale_factor=1.7, mode="linear"), (w(1, 1, 5),), {}),
        "PReLU": (lambda: nn.PReLU(3), (w(2, 3, 4),), {}),
        "PairwiseDistance": (lambda: nn.PairwiseDistance(3, keepdim=True), (w(2, 3), w(2, 3) * 2), {}),
        "CosineSimilarity": (lambda: nn.CosineSimilarity(0), (w(2, 3), w(2, 3) * 2 + 1), {}),
        "Conv2d circular": (lambda: nn.Conv2d(4, 6, 3, 2, (1, 2), (2, 1), 2, padding_mode="circular"), (w(2, 4, 7, 8),), {}),
        "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, 2, True, 2), (w(2, 4, 5, 4),), {}),
        "ConvTranspose3d": (lambda: nn.ConvTranspose3d(2, 4, 2, 2, 0, 1), (w(1, 2, 3, 2, 2),), {}),
        "GroupNorm": (lambda: nn.GroupNorm(2, 4), (w(3, 4, 5),), {}),
        "InstanceNorm2d": (lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True), (w(2, 3, 4, 4),), {}),
        "BatchNorm2d": (lambda: nn.BatchNorm2d(3), (w(2, 3, 4, 4),), {}),
        "LayerNorm": (lambda: nn.LayerNorm((3, 4)), (w(2, 3, 4),), {}),
        "RMSNorm": (lambda: nn.RMSNorm(4), (w(2, 3, 4),), {}),
        "LocalResponseNorm": (lambda: nn.LocalResponseNorm(3, 0.1, 0.6, 2.0), (w(2, 5, 3),), {}),
        "Softmax2d": (lambda: nn.Softmax2d(), (w(2, 3, 4, 4),), {}),
        "GLU": (lambda: nn.GLU(1), (w(2, 4, 3),), {}),
        "CTCLoss": (lambda: nn.CTCLoss(reduction="sum"), (w(6, 2, 4).log_softmax(2), lib.tensor([[1, 2, 3], [2, 2, 0]]), lib.tensor([6, 5]),
                                                          lib.tensor([3, 2])), {}),
    }
    for cell in ("RNN", "GRU", "LSTM"):
        layer, one = getattr(nn, cell), getattr(nn, cell + "Cell")
        out[cell] = (lambda layer=layer: layer(3, 4, 2, bidirectional=True), (w(5, 2, 3),), {})
        out[cell + " no bias"] = (lambda layer=layer: layer(3, 4, 2, batch_first=True, bias=False), (w(2, 5, 3),), {})
        out[cell + " unbatched"] = (lambda layer=layer: layer(3, 4), (w(5, 3),), {})
        out[cell + "Cell"] = (lambda one=one: one(3, 4), (w(2, 3),), {})
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area"):
        out["Upsample " + mode] = (lambda mode=mode: nn.Upsample(size=(5, 7), mode=mode), (w(1, 2, 3, 4),), {})
    for kind in ("Reflection", "Replication", "Circular", "Zero"):
        for n, sizes, shape in ((1, (1, 2), (1, 2, 4)), (2, (1, 2, 0, 1), (1, 2, 4, 3)), (3, (1, 1, 0, 1, 1, 0), (1, 2, 3, 3, 2))):
            pad = getattr(nn, f"{kind}Pad{n}d")
            out[f"{kind}Pad{n}d"] = (lambda pad=pad, sizes=sizes: pad(sizes), (w(*shape),), {})
    x, a = w(3, 4), w(3, 4).abs()
    losses = {
        "MultiLabelMarginLoss": (w(2, 4), lib.tensor([[1, 0, -1, 2], [3, -1, 0, 1]])), "MultiMarginLoss": (x, lib.tensor([0, 3, 1])),
        "MultiLabelSoftMarginLoss": (x, (x > 0).int()), "CosineEmbeddingLoss": (x, x + 0.3, lib.tensor([1, -1, 1])),
        "MarginRankingLoss": (w(3), w(3) * 2, lib.tensor([1, -1, 1])), "TripletMarginLoss": (x, x * 2, x + 0.1), "HuberLoss": (x * 3, x),
        "SmoothL1Loss": (x * 3, x), "KLDivLoss": (x, a), "PoissonNLLLoss": (x, a * 5), "GaussianNLLLoss": (x, x * 2, a),
        "CrossEntropyLoss": (w(3, 4, 2), lib.tensor([[0, 1], [3, 2], [1, -100]])), "NLLLoss": (x, lib.tensor([0, 3, 1])),
        "BCEWithLogitsLoss": (x, a), "MSELoss": (x, a), "L1Loss": (x * 2, a)}
    for loss, given in losses.items():
        for how in ("mean", "sum", "none"):
            out[f"{loss} {how}"] = (lambda loss=loss, how=how: getattr(nn, loss)(reduction=how), given, {})
    for act in ("ReLU ReLU6 SELU SiLU Mish Hardswish Hardsigmoid Sigmoid Tanh Tanhshrink Softsign LogSigmoid ELU CELU LeakyReLU Softshrink "
                "Hardshrink GELU Softplus Hardtanh").split():
        out[act] = (getattr(nn, act), (w(3, 7) * 4,), {})
    return out

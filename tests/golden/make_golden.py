"""Writes the .pt files beside it with PyTorch (`python make_golden.py`, torch 2.13): what test_serialization.py reads."""
import collections
from pathlib import Path

import torch

here = Path(__file__).parent
DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64",
          "bool", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]


def state():
    base = torch.arange(12.0)
    shared = torch.arange(6.0).reshape(2, 3)
    conv = torch.arange(24.0).reshape(1, 2, 3, 4)
    param = torch.nn.Parameter(torch.arange(3.0))
    with_attr = torch.arange(2.0)
    with_attr.note = "kept"
    d = {
        "dtypes": {n: torch.arange(6).reshape(2, 3).to(getattr(torch, n)) for n in DTYPES},
        "scalar": torch.tensor(3.5), "empty": torch.empty(0), "empty2": torch.empty(2, 0, 3),
        "shared": shared, "shared_t": shared.t(), "shared_row": shared[1], "window": base[2:8:2],
        "expanded": torch.tensor([7.0]).expand(3, 2),
        "channels_last": conv.to(memory_format=torch.channels_last), "param": param, "param_again": param,
        "grad": torch.ones(2, requires_grad=True), "conj": torch.tensor([1 + 2j]).conj(), "neg": torch.tensor([1 + 2j]).conj().imag,
        "attr": with_attr, "size": torch.Size([2, 3]), "device": torch.device("cpu"), "dtype": torch.bfloat16,
        "plain": [1, 2.5, "text", None, True, (1, 2), {1, 2}, b"bytes", bytearray(b"array"), 1 + 2j, 2**70, -3],
        "counter": collections.Counter("aab"), "ordered": collections.OrderedDict([("z", 1), ("a", 2)]),
    }
    return d


def main():
    torch.save(state(), here / "values.pt")
    torch.save({k: v for k, v in state().items() if k in ("shared", "shared_t", "param", "scalar", "plain")}, here / "legacy.pt",
               _use_new_zipfile_serialization=False)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(2):
        opt.zero_grad()
        net(torch.ones(5, 3)).sum().backward()
        opt.step()
    torch.save({"model": net.state_dict(), "optimizer": opt.state_dict(), "epoch": 2}, here / "checkpoint.pt")
    torch.save(net, here / "module.pt")


if __name__ == "__main__":
    main()

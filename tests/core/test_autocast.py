"""Autocast against torch 2.13 on cpu (dtypes recorded from it) and its state functions."""
from __future__ import annotations

import pytest

import lazy_tensor as lt
import lazy_tensor.nn.functional as F

X = lt.tensor([[2.0, 0.5], [0.5, 3.0]])
B, H, S = lt.bfloat16, X.to(lt.bfloat16), lt.float32

# name, call, result dtype of float32 input, and of bfloat16 input, under torch.autocast("cpu", torch.bfloat16)
CASES = [
    ("mm", lambda x: x @ x, B, B), ("linear", lambda x: F.linear(x, x), B, B), ("inner", lambda x: lt.inner(x, x), B, B),
    ("einsum", lambda x: lt.einsum("ij,jk->ik", x, x), B, B), ("mv", lambda x: lt.mv(x, x[0]), S, B),
    ("exp", lt.exp, S, B), ("softmax", lambda x: lt.softmax(x, 0), S, B), ("cumsum", lambda x: x.cumsum(0), S, B),
    ("layer_norm", lambda x: F.layer_norm(x, (2,)), S, B), ("norm", lambda x: x.norm(), S, B), ("pow", lambda x: x ** 2.5, S, B),
    ("prod", lambda x: x.prod(), S, S), ("mse_loss", lambda x: F.mse_loss(x, x), S, S), ("cdist", lambda x: lt.cdist(x, x), S, S),
    ("linalg.inv", lt.linalg.inv, S, S), ("linalg.qr", lambda x: lt.linalg.qr(x)[0], S, S), ("cholesky", lt.linalg.cholesky, S, S),
    ("quantile", lambda x: lt.quantile(x, 0.5), S, S), ("fft", lt.fft.fft, lt.complex64, lt.complex64),
    ("replicate", lambda x: F.pad(x[None], (1, 1), mode="replicate"), S, S), ("constant", lambda x: F.pad(x, (1, 1)), S, B),
]


@pytest.mark.parametrize("name,fn,full,half", CASES, ids=[c[0] for c in CASES])
def test_cpu_dtypes(name, fn, full, half):
    with lt.autocast("cpu", dtype=lt.bfloat16):
        assert fn(X).dtype == full
        assert fn(H).dtype == half


def test_accelerator_lists_differ():
    from lazy_tensor.ops._autocast import casts
    assert casts("softmax") == {"xla": "high"} and casts("mv") == {"xla": "low"} and casts("qr") == {"cpu": "high"}
    assert casts("mm") == {"cpu": "low", "xla": "low"} and casts("relu") is None


def test_gru_cell_stays_wide_on_cpu():
    cell = lt.nn.GRUCell(2, 2)
    with lt.autocast("cpu"):
        assert cell(X).dtype == S


def test_state():
    assert not lt.is_autocast_enabled("cpu") and not lt.is_autocast_cpu_enabled()
    with lt.autocast("cpu", dtype=lt.float16):
        assert lt.is_autocast_cpu_enabled() and not lt.is_autocast_enabled("xla")
        assert lt.get_autocast_dtype("cpu") == lt.float16
        with lt.autocast("cpu", enabled=False):
            assert not lt.is_autocast_cpu_enabled() and (X @ X).dtype == S
    assert lt.get_autocast_dtype("cpu") == B
    lt.set_autocast_enabled("cpu", True)
    try:
        assert (X @ X).dtype == B
    finally:
        lt.set_autocast_enabled("cpu", False)
    assert (X @ X).dtype == S
    lt.set_autocast_dtype("cpu", lt.float16)
    try:
        with lt.autocast("cpu"):
            assert (X @ X).dtype == lt.float16
    finally:
        lt.set_autocast_dtype("cpu", B)
    assert lt.autocast_increment_nesting() == 1 and lt.autocast_decrement_nesting() == 0
    with pytest.raises(RuntimeError, match="unknown device type 'foo'"):
        lt.get_autocast_dtype("foo")
    assert lt.GradScaler is lt.amp.GradScaler

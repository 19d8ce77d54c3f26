"""The handle: construction, dtypes, protocols, aliasing, versions, devices, errors."""
from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import lazy_tensor as lt


@pytest.mark.parametrize(("data", "dtype"), [
    (1, "int64"), (1.5, "float32"), (True, "bool"), (1j, "complex64"), ([1, 2.0], "float32"), ([True, 2], "int64"), ([], "float32"),
    ([[1], [2]], "int64"), (np.float64(2), "float64"), (np.ones(2, np.float16), "float16"), ([np.int32(1)], "int32"),
])
def test_tensor_infers_torchs_dtype(data, dtype):
    t = lt.tensor(data)
    assert t.dtype.name == dtype and list(t.shape) == list(np.shape(data))


def test_ragged_data_is_refused():
    with pytest.raises(ValueError, match="expected sequence of length 2"):
        lt.tensor([[1, 2], [3]])
    with pytest.raises(RuntimeError, match="Could not infer dtype"):
        lt.tensor(object())


@pytest.mark.parametrize(("a", "b", "result"), [
    (lt.int64, lt.float32, "float32"), (lt.uint8, lt.int8, "int16"), (lt.bfloat16, lt.float16, "float32"),
    (lt.float64, lt.complex64, "complex128"), (lt.bool, lt.uint8, "uint8"), (lt.float16, lt.int64, "float16"),
])
def test_promote_types(a, b, result):
    assert lt.promote_types(a, b).name == result == lt.promote_types(b, a).name


@pytest.mark.parametrize(("make", "result"), [
    (lambda: lt.ones(2, dtype=lt.float16) * 2.5, "float16"), (lambda: lt.ones(2, dtype=lt.int32) * 2.5, "float32"),
    (lambda: lt.ones(2, dtype=lt.int32) + lt.tensor(1), "int32"),
    (lambda: lt.ones(2, dtype=lt.int32) + lt.tensor(1.0, dtype=lt.float64), "float64"),
    (lambda: lt.ones(2) + lt.tensor(1.0, dtype=lt.float64), "float32"), (lambda: lt.ones(2, dtype=lt.bool) + 1, "int64"),
    (lambda: lt.ones(2, dtype=lt.uint8) + 300, "uint8"), (lambda: lt.ones(2) * 1j, "complex64"),
    (lambda: 1 - lt.ones(2, dtype=lt.int8), "int8"),
    (lambda: lt.ones(2, dtype=lt.int64) / 2, "float32"), (lambda: 2 ** lt.ones(2, dtype=lt.int32), "int32"),
])
def test_numbers_promote_by_category(make, result):
    assert make().dtype.name == result


def test_protocols():
    t = lt.tensor([[1, 2], [3, 4]])
    assert len(t) == 2 and [r.tolist() for r in t] == [[1, 2], [3, 4]] and t.tolist() == [[1, 2], [3, 4]]
    assert int(t[0, 1]) == 2 and float(t[1, 1]) == 4.0 and bool(t[0, 0]) and [10, 20, 30][t[0, 1]] == 30
    assert np.asarray(t).sum() == 10 and 3 in t and 7 not in t
    assert f"{lt.tensor(1.5):.2f}" == "1.50"
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(t)
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        t.item()
    with pytest.raises(TypeError):
        len(lt.tensor(1))


@pytest.mark.parametrize("device", ["cpu", "xla"])
def test_pickle_and_deepcopy(device):
    t = lt.tensor([1.0, 2.0], device=device, requires_grad=True)
    t.note = "kept"
    for c in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t)):
        assert c.tolist() == [1, 2] and c.requires_grad and c.device.type == device and c.note == "kept" and c is not t
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(t * 2)


def test_numpy_shares_memory_with_cpu_tensors():
    a = np.zeros(3, np.float32)
    t = lt.from_numpy(a)
    a[0] = 5
    assert t.tolist() == [5, 0, 0]
    t.add_(1)
    assert a.tolist() == [6, 1, 1]
    y = t * 2
    a[:] = 0
    assert y.tolist() == [12, 2, 2]
    b = t.numpy()
    b[1] = 9
    assert t[1].item() == 9
    t[2] = 4
    assert a.tolist() == [0, 9, 4]
    with pytest.raises(TypeError, match="Tensor.cpu"):
        lt.ones(2, device="xla").numpy()
    with pytest.raises(RuntimeError, match="detach"):
        lt.ones(2, requires_grad=True).numpy()
    with pytest.raises(ValueError, match="negative"):
        lt.from_numpy(np.arange(3)[::-1])


def test_dlpack_both_ways():
    import jax.numpy as jnp
    t = lt.tensor([1.0, 2.0])
    np.testing.assert_array_equal(np.from_dlpack(t), [1, 2])
    assert lt.from_dlpack(jnp.arange(3.0)).tolist() == [0, 1, 2]


@pytest.mark.parametrize("device", ["cpu", "xla"])
def test_views_alias(device):
    base = lt.arange(12, dtype=lt.float32, device=device).reshape(3, 4)
    row, col, flat, turned = base[1], base[:, 2], base.view(-1), base.t()
    row.zero_()
    assert base.tolist() == [[0, 1, 2, 3], [0, 0, 0, 0], [8, 9, 10, 11]]
    col += 100
    assert flat.tolist() == [0, 1, 102, 3, 0, 0, 100, 0, 8, 9, 110, 11]
    turned[0] = 7
    assert base[:, 0].tolist() == [7, 7, 7] and row.tolist() == [7, 0, 100, 0]
    base.mul_(0)
    assert turned.sum().item() == 0 and col.tolist() == [0, 0, 0]
    assert row._base is not None and row._version == base._version
    d = base.detach()
    d.fill_(3)
    assert base.sum().item() == 36


def test_strides_are_torchs():
    t = lt.zeros(2, 3, 4)
    assert t.stride() == (12, 4, 1) and t.transpose(0, 2).stride() == (1, 4, 12) and t[:, 1:, ::2].stride() == (12, 4, 2)
    assert t[1].storage_offset() == 12 and t.permute(2, 0, 1).contiguous().stride() == (6, 3, 1)
    assert t.unsqueeze(1).stride() == (12, 12, 4, 1) and t[:, :, :1].expand(2, 3, 5).stride() == (12, 4, 0)
    assert not t.transpose(0, 1).is_contiguous() and t.is_contiguous()
    with pytest.raises(RuntimeError, match="view"):
        t.transpose(0, 1).view(-1)
    assert t.transpose(0, 1).reshape(-1).shape == (24,)
    with pytest.raises(RuntimeError, match="single memory location"):
        lt.zeros(3, 1).expand(3, 4).add_(1)


def test_channels_last_is_observed():
    x = lt.zeros(2, 3, 4, 5).to(memory_format=lt.channels_last)
    assert x.is_contiguous(memory_format=lt.channels_last) and not x.is_contiguous() and x.stride() == (60, 1, 15, 3)


def test_inplace_rules():
    x = lt.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x.add_(1)
    with lt.no_grad():
        x.add_(1)
    assert x.tolist() == [2, 2, 2] and x.requires_grad and x.is_leaf
    i = lt.ones(3, dtype=lt.int64)
    with pytest.raises(RuntimeError, match="can't be cast"):
        i.add_(1.5)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        lt.ones(3).add_(lt.ones(2, 3))
    y = lt.ones(2, 3)
    y += lt.ones(3)
    assert y.tolist() == [[2, 2, 2]] * 2


def test_out():
    o = lt.empty(3)
    r = lt.add(lt.ones(3), 2, out=o)
    assert r is o and o.tolist() == [3, 3, 3]
    with pytest.warns(UserWarning, match="resized"):
        lt.add(lt.ones(2), 2, out=o)
    with pytest.raises(RuntimeError, match="can't be cast"):
        lt.add(lt.ones(3), 0.5, out=lt.empty(3, dtype=lt.int64))
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        lt.add(lt.ones(3, requires_grad=True), 2, out=lt.empty(3))


def test_devices():
    x = lt.ones(2, device="xla")
    assert str(x.device) == "xla:0" and x.device == lt.device("xla", 0) and x.cpu().device.type == "cpu"
    assert (x + lt.tensor(2.0)).tolist() == [3, 3]  # a 0-d cpu tensor may join
    with pytest.raises(RuntimeError, match="same device.*xla:0 and cpu"):
        x + lt.ones(2)
    with pytest.raises(RuntimeError, match="does not exist"):
        lt.ones(2, device="xla:99")
    with pytest.raises(RuntimeError, match="Expected one of cpu, xla"):
        lt.device("gpu")
    with pytest.raises(RuntimeError, match="use device='xla'"):
        lt.ones(2, device="cuda")
    g = lt.ones(2, requires_grad=True)
    (g.to("xla") * 3).sum().backward()
    assert g.grad.tolist() == [3, 3] and g.grad.device.type == "cpu"


def test_seed_out_of_range():
    with pytest.raises(RuntimeError, match="seed"):
        lt.manual_seed(2 ** 64)
    lt.manual_seed(2 ** 64 - 1)
    lt.manual_seed(-1)


def test_missing_names_suggest_the_nearest():
    with pytest.raises(AttributeError, match="has no attribute 'matmull'.*matmul"):
        lt.matmull


def test_host_data_movement_compiles_nothing(counts):
    a = lt.arange(24).reshape(2, 3, 4)
    b = lt.stack([a[0], a[1]])
    c = lt.cat([b, lt.zeros(1, 3, 4, dtype=lt.int64)])
    d = c[:, 1:, ::2].transpose(1, 2).float()
    assert d.shape == (3, 2, 2) and c[lt.tensor([0, 2])].shape == (2, 3, 4)
    assert d[0].tolist() == [[4, 8], [6, 10]]
    assert counts.compiles == 0 and counts.nodes_run == 0

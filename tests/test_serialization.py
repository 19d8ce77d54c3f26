"""Files of PyTorch are read (golden files made by torch 2.13), ours have its format, and hostile ones run nothing."""
import collections
import io
import os
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

import lazy_tensor as lt
from lazy_tensor import serialization

GOLDEN = Path(__file__).parent / "golden"
DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64",
          "bool", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]


def saved(obj, **kw):
    out = io.BytesIO()
    lt.save(obj, out, **kw)
    return out.getvalue()


def again(obj, **kw):
    return lt.load(io.BytesIO(saved(obj)), **kw)


def rezipped(data, change):
    """The archive with its records passed through change(name, bytes)."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as src, zipfile.ZipFile(out, "w") as dst:
        for info in src.infolist():
            for name, content in change(info.filename, src.read(info)):
                dst.writestr(name, content)
    return out.getvalue()


@pytest.fixture(scope="module")
def values():
    return lt.load(GOLDEN / "values.pt")


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_of_a_torch_file(values, name):
    t = values["dtypes"][name]
    assert t.dtype is getattr(lt, name) and tuple(t.shape) == (2, 3)
    want = [[0, 1, 2], [3, 4, 5]] if name != "bool" else [[False, True, True], [True, True, True]]
    assert t.tolist() == want


def test_structure_of_a_torch_file(values):
    v = values
    assert v["scalar"].item() == 3.5 and v["scalar"].dim() == 0
    assert tuple(v["empty"].shape) == (0,) and tuple(v["empty2"].shape) == (2, 0, 3)
    assert v["window"].tolist() == [2, 4, 6] and v["window"].stride() == (2,)
    assert v["expanded"].tolist() == [[7, 7]] * 3
    assert v["channels_last"].tolist() == np.arange(24.0).reshape(1, 2, 3, 4).tolist()
    assert v["channels_last"].stride() == (24, 1, 8, 2)
    assert v["grad"].requires_grad and v["grad"].is_leaf
    assert v["conj"].tolist() == [1 - 2j] and v["neg"].tolist() == [-2.0]
    assert v["attr"].note == "kept" and v["size"] == lt.Size([2, 3]) and v["device"] == lt.device("cpu")
    assert v["dtype"] is lt.bfloat16
    assert v["plain"] == [1, 2.5, "text", None, True, (1, 2), {1, 2}, b"bytes", bytearray(b"array"), 1 + 2j, 2**70, -3]
    assert v["counter"] == collections.Counter("aab") and list(v["ordered"].items()) == [("z", 1), ("a", 2)]
    assert isinstance(v["param"], lt.nn.Parameter) and v["param"] is v["param_again"] and v["param"].tolist() == [0, 1, 2]


def test_a_trusted_file_reads_the_same(values):
    v = lt.load(GOLDEN / "values.pt", weights_only=False)
    assert v["attr"].note == "kept" and v["shared_t"].tolist() == values["shared_t"].tolist() and v["plain"] == values["plain"]
    assert lt.load(GOLDEN / "legacy.pt", weights_only=False)["param"].requires_grad


@pytest.mark.parametrize("mmap", [None, True])
def test_shared_storages_stay_shared(mmap):
    v = lt.load(GOLDEN / "values.pt", mmap=mmap)
    v["shared"].fill_(9.0)
    assert v["shared_t"].tolist() == [[9, 9]] * 3 and v["shared_row"].tolist() == [9] * 3


def test_legacy_file():
    v = lt.load(GOLDEN / "legacy.pt")
    assert v["shared_t"].tolist() == [[0, 3], [1, 4], [2, 5]] and v["scalar"].item() == 3.5 and v["param"].requires_grad
    t = lt.tensor([1.0, 2.0, 3.0])
    r = lt.load(io.BytesIO(saved({"a": t, "b": t[1:]}, _use_new_zipfile_serialization=False)))
    assert r["a"].tolist() == [1, 2, 3] and r["b"].tolist() == [2, 3]


def test_checkpoint_of_a_model_and_optimizer():
    c = lt.load(GOLDEN / "checkpoint.pt")
    assert list(c["model"])[:3] == ["0.weight", "0.bias", "1.weight"] and c["model"]._metadata[""]["version"] == 1
    assert c["optimizer"]["param_groups"][0]["betas"] == (0.9, 0.999) and c["optimizer"]["state"][0]["step"].item() == 2
    assert saved(again(c)) == saved(c)


def test_whole_module_is_refused():
    with pytest.raises(pickle.UnpicklingError, match=r"state_dict\(\)"):
        lt.load(GOLDEN / "module.pt")
    with pytest.raises(pickle.UnpicklingError, match=r"state_dict\(\)"):
        lt.load(GOLDEN / "module.pt", weights_only=False)


def test_our_archive_has_torchs_layout(tmp_path):
    t = lt.arange(6).reshape(2, 3)
    lt.save({"a": t, "b": t.t()}, tmp_path / "x.pt")
    data = (tmp_path / "x.pt").read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        names = z.namelist()
        assert {"x/data.pkl", "x/byteorder", "x/data/0", "x/version", "x/.data/serialization_id"} <= set(names) and "x/data/1" not in names
        for info in z.infolist():
            n, extra = struct.unpack_from("<HH", data, info.header_offset + 26)
            assert (info.header_offset + 30 + n + extra) % 64 == 0 and info.compress_type == zipfile.ZIP_STORED
        assert z.read("x/data/0") == np.arange(6).tobytes()
        pkl = z.read("x/data.pkl")
    assert b"torch._utils\n_rebuild_tensor_v2\n" in pkl and b"torch\nLongStorage\n" in pkl and b"lazy_tensor" not in pkl


def test_views_and_tied_tensors_round_trip():
    base = lt.arange(12)
    v = again({"base": base, "window": base[2:8:2], "same": base.detach(), "t": base.view(3, 4).t()})
    assert v["window"].tolist() == [2, 4, 6] and v["t"].stride() == (1, 4)
    v["base"].fill_(5)
    assert v["window"].tolist() == [5] * 3 and v["same"].tolist() == [5] * 12 and v["t"].tolist() == [[5] * 3] * 4


def test_parameters_attributes_and_numbers_round_trip():
    p = lt.nn.Parameter(lt.tensor([1.0]), requires_grad=False)
    p.tag = "t"
    v = again([p, lt.tensor(float("nan")), collections.defaultdict(list, a=[1]), -1, 2**40, 1e-300])
    assert isinstance(v[0], lt.nn.Parameter) and not v[0].requires_grad and v[0].tag == "t"
    assert np.isnan(v[1].item()) and v[2]["new"] == [] and v[3:] == [-1, 2**40, 1e-300]


def test_device_tensors_and_map_location():
    data = saved({"x": lt.tensor([1.0, 2.0], device="xla") * 2})
    cases = {None: "cpu", "xla": "xla:0", lt.device("cpu"): "cpu"}
    for where, want in cases.items():
        t = lt.load(io.BytesIO(data), map_location=where)["x"]
        assert str(t.device) == want and t.tolist() == [2, 4]
    assert str(lt.load(io.BytesIO(data), map_location={"cpu": "xla:0"})["x"].device) == "xla:0"
    assert str(lt.load(io.BytesIO(data), map_location=lambda storage, location: storage)["x"].device) == "cpu"
    with pytest.raises(TypeError, match="map_location"):
        lt.load(io.BytesIO(data), map_location=lambda storage, location: "xla")


def test_load_compiles_nothing(counts):
    lt.load(GOLDEN / "checkpoint.pt")
    assert counts.compiles == 0


class Evil:
    def __reduce__(self):
        return os.mkdir, ("/tmp/lazy_tensor_was_here",)


@pytest.mark.parametrize("obj", [Evil(), {"a": [Evil()]}, os.system, Path("x")], ids=["reduce", "nested", "function", "path"])
def test_code_is_refused_and_not_run(obj):
    with pytest.raises(pickle.UnpicklingError, match="was not an allowed global|Module or another object"):
        again(obj)
    assert not os.path.exists("/tmp/lazy_tensor_was_here")


def archive_with(pkl, data=b"\0" * 8):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("a/data.pkl", pkl)
        z.writestr("a/data/0", data)
    return io.BytesIO(out.getvalue())


def tensor_pickle(numel=2, offset=0, size=(2,), stride=(1,), key="0"):
    """A data.pkl that claims whatever it is told."""
    class Saver(serialization._Saver):
        def tensor(self, t):
            pid = ("storage", serialization._torch("torch.FloatStorage"), key, "cpu", numel)
            args = (serialization._Untyped(pid), offset, size, stride, False, collections.OrderedDict())
            return serialization._torch("torch._utils._rebuild_tensor_v2"), args
    out = io.BytesIO()
    Saver(out, 2).dump(lt.tensor(0.0))
    return out.getvalue()


def test_what_the_hostile_cases_are_made_of_loads():
    assert lt.load(archive_with(tensor_pickle())).tolist() == [0, 0]


@pytest.mark.parametrize("lie", [dict(numel=2**50), dict(numel=1), dict(offset=1), dict(offset=-1), dict(size=(2**60,)),
                                 dict(size=(2**40,), stride=(0,)), dict(size=(2, 2)), dict(stride=(-1,)), dict(key="../../etc/passwd"),
                                 dict(size=(1.5,)), dict(size=(2**62, 0), stride=(1, 1))], ids=str)
def test_false_sizes_are_errors(lie):
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        lt.load(archive_with(tensor_pickle(**lie)))


@pytest.mark.parametrize("pkl", [
    b"\x80\x02]q\x00h\x07.", b"\x80\x02.", b"\x80\x02K\x01", b"\x80\x02X\xff\xff\xff\x7fabc.", b"(((((", b"\x80\x02K\x01K\x02a.",
    b"\x80\x02cbuiltins\nset\nK\x05\x85R.", b"\x80\x02cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.",
    b"\x80\x02ccollections\nOrderedDict\n}X\x05\x00\x00\x00clearK\x01sb.", b"\x80\x02c__builtin__\neval\nX\x01\x00\x00\x001\x85R.",
    b"\x80\x02cbuiltins\nlist\nK\x05\x85R.", b"\x80\x02ccollections\nOrderedDict\n)R}X\x09\x00\x00\x00__class__K\x01sb."], ids=str)
def test_broken_pickles_are_unpickling_errors(pkl):
    with pytest.raises(pickle.UnpicklingError):
        lt.load(archive_with(pkl))
    assert collections.OrderedDict.clear is not None


def test_damaged_archives_are_errors():
    good = saved({"a": lt.arange(300)})
    at = good.find(np.arange(20).tobytes())
    flipped = bytearray(good)
    flipped[at + 3] ^= 0xFF
    bad = {
        "truncated": good[:-50], "half": good[:len(good) // 2], "crc": bytes(flipped),
        "traversal": rezipped(good, lambda n, b: [(n, b)] + ([("archive/../../evil", b"x")] if n.endswith("/version") else [])),
        "no data": rezipped(good, lambda n, b: [(n, b)] if "/data/" not in n else []),
        "two roots": rezipped(good, lambda n, b: [(n, b), ("other/x", b"")] if n.endswith("/version") else [(n, b)]),
    }
    for name, data in bad.items():
        with pytest.raises(RuntimeError, match="corrupt"):
            lt.load(io.BytesIO(data))
            pytest.fail(name)
    squeezed = io.BytesIO()
    with zipfile.ZipFile(squeezed, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("a/data.pkl", tensor_pickle())
        z.writestr("a/data/0", b"\0" * 10**7)
    with pytest.raises(RuntimeError, match="compressed"):
        lt.load(io.BytesIO(squeezed.getvalue()))
    with pytest.raises(EOFError):
        lt.load(io.BytesIO(b""))
    for junk in (b"garbage" * 20, pickle.dumps({"a": 1}, 2)):
        with pytest.raises(pickle.UnpicklingError):
            lt.load(io.BytesIO(junk))
    legacy = saved({"a": lt.arange(30)}, _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="corrupted"):
        lt.load(io.BytesIO(legacy[:-8]))


def test_a_crash_while_saving_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.pt"
    lt.save(1, path)
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        lt.save([lt.arange(3), lambda: None], path)
    assert lt.load(path) == 1 and os.listdir(tmp_path) == ["x.pt"]
    with pytest.raises(RuntimeError, match="does not exist"):
        lt.save(1, tmp_path / "none" / "x.pt")
    with pytest.raises(AttributeError, match="'write'"):
        lt.save(1, 3)
    with pytest.raises(FileNotFoundError):
        lt.load(tmp_path / "none.pt")


class Settings:
    pass


def test_names_that_the_user_allows():
    s = Settings()
    s.x = 1
    with pytest.raises(pickle.UnpicklingError, match="add_safe_globals"):
        again(s)
    with serialization.safe_globals([Settings]):
        assert again(s).x == 1
    assert serialization.get_safe_globals() == []
    assert again(s, weights_only=False).x == 1
    scalar = np.float64(2.5)
    with pytest.raises(pickle.UnpicklingError, match="numpy"):
        again(scalar)
    reconstruct = scalar.__reduce__()[0]
    with serialization.safe_globals([reconstruct, np.dtype, type(np.dtype(np.float64))]):
        assert again(scalar) == 2.5

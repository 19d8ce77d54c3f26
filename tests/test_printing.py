"""Tensors print as torch prints them: golden strings made by torch 2.13."""
import numpy as np
import pytest

import lazy_tensor as lt
from lazy_tensor import printing
from lazy_tensor.printing import tensor_str


@pytest.fixture(autouse=True)
def default_options():
    printing.set_printoptions(profile="default")
    yield
    printing.set_printoptions(profile="default")


GOLDEN = [
    (np.float32(3.5), "float32", "tensor(3.5000)"),
    (np.array([1, 2, 3], np.float32), "float32", "tensor([1., 2., 3.])"),
    (np.array([1e-5, 1], np.float32), "float32", "tensor([1.0000e-05, 1.0000e+00])"),
    (np.array([1, 1e9], np.float64), "float64", "tensor([1.0000e+00, 1.0000e+09], dtype=torch.float64)"),
    (np.array([np.nan, np.inf, -np.inf, 1.5], np.float32), "float32", "tensor([   nan,    inf,   -inf, 1.5000])"),
    (np.array([1 + 2j, -1.5 - 0.25j], np.complex64), "complex64", "tensor([ 1.0000+2.0000j, -1.5000-0.2500j])"),
    (np.array([[True, False]]), "bool", "tensor([[ True, False]])"),
    (np.array([1, -20], np.int32), "int32", "tensor([  1, -20], dtype=torch.int32)"),
    (np.zeros((2, 0), np.float32), "float32", "tensor([], size=(2, 0))"),
    (np.zeros((0,), np.int64), "int64", "tensor([], dtype=torch.int64)"),
    (np.arange(2000), "int64", "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"),
    (np.arange(30, dtype=np.float32) / 4, "float32",
     "tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000, 1.2500, 1.5000, 1.7500, 2.0000,\n"
     "        2.2500, 2.5000, 2.7500, 3.0000, 3.2500, 3.5000, 3.7500, 4.0000, 4.2500,\n"
     "        4.5000, 4.7500, 5.0000, 5.2500, 5.5000, 5.7500, 6.0000, 6.2500, 6.5000,\n"
     "        6.7500, 7.0000, 7.2500])"),
    (np.arange(8.0).reshape(2, 2, 2).astype(np.float16), "float16",
     "tensor([[[0., 1.],\n         [2., 3.]],\n\n        [[4., 5.],\n         [6., 7.]]], dtype=torch.float16)"),
]


@pytest.mark.parametrize(("a", "dtype", "want"), GOLDEN, ids=[g[1] + str(i) for i, g in enumerate(GOLDEN)])
def test_matches_torch(a, dtype, want):
    assert tensor_str(np.asarray(a), dtype) == want


def test_suffixes_wrap_at_the_line_width():
    a = np.full(8, 1.5, np.float32)
    assert tensor_str(a, "float32", "xla:0", grad_fn_name="AddBackward0") == (
        "tensor([1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000],\n       device='xla:0', grad_fn=<AddBackward0>)")
    assert tensor_str(a[:1], "float32", requires_grad=True, is_parameter=True) == (
        "Parameter containing:\ntensor([1.5000], requires_grad=True)")


def test_options():
    a = np.array([0.123456, 100], np.float32)
    printing.set_printoptions(precision=2)
    assert tensor_str(a, "float32") == "tensor([  0.12, 100.00])"
    printing.set_printoptions(sci_mode=True)
    assert tensor_str(a, "float32") == "tensor([1.23e-01, 1.00e+02])"
    printing.set_printoptions(profile="default", threshold=3, edgeitems=1)
    assert tensor_str(np.arange(5), "int64") == "tensor([0,  ..., 4])"
    with printing.printoptions(edgeitems=0):
        assert tensor_str(np.arange(5), "int64") == "tensor([...], size=(5,))"
    with pytest.raises(ValueError, match="'fancy'"):
        printing.set_printoptions(profile="fancy")


def test_repr_of_a_tensor_and_default_dtype():
    assert repr(lt.tensor([1.0, 2.0], requires_grad=True)) == "tensor([1., 2.], requires_grad=True)"
    lt.set_default_dtype(lt.float64)
    try:
        assert repr(lt.tensor([1.0])) == "tensor([1.])"
        assert repr(lt.tensor([1.0], dtype=lt.float32)) == "tensor([1.], dtype=torch.float32)"
    finally:
        lt.set_default_dtype(lt.float32)

"""Lazy layers: what the first input decides, what a state dict decides, what does not fit."""
from __future__ import annotations

import pytest

import lazy_tensor as lt
from lazy_tensor import nn


@pytest.mark.parametrize(("make", "shape", "text", "shapes"), [
    (lambda: nn.LazyLinear(3, False), (2, 5), "Linear(in_features=5, out_features=3, bias=False)", {"weight": (3, 5)}),
    (lambda: nn.LazyConv1d(4, 3, 2, 1, 1, 2, False, "circular"), (2, 4, 9),
     "Conv1d(4, 4, kernel_size=(3,), stride=(2,), padding=(1,), groups=2, bias=False, padding_mode=circular)", {"weight": (4, 2, 3)}),
    (lambda: nn.LazyConv2d(4, 3), (3, 9, 9), "Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1))", {"weight": (4, 3, 3, 3), "bias": (4,)}),
    (lambda: nn.LazyConvTranspose2d(4, 3, 2, 1, 1, 1, True, 2), (2, 3, 9, 9),
     "ConvTranspose2d(3, 4, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), dilation=(2, 2), output_padding=(1, 1))",
     {"weight": (3, 4, 3, 3), "bias": (4,)}),
    (lambda: nn.LazyBatchNorm1d(1e-3, 0.2, False), (4, 3),
     "BatchNorm1d(3, eps=0.001, momentum=0.2, affine=False, bias=False, track_running_stats=True)",
     {"running_mean": (3,), "running_var": (3,), "num_batches_tracked": ()}),
    (lambda: nn.LazyInstanceNorm2d(), (4, 3, 5, 5),
     "InstanceNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)",
     {"weight": (3,), "bias": (3,), "running_mean": (3,), "running_var": (3,), "num_batches_tracked": ()}),
])
def test_the_first_input_gives_the_channels_and_the_class(make, shape, text, shapes):
    m = make()
    assert m.has_uninitialized_params() and type(m).__name__.startswith("Lazy")
    m(lt.randn(shape))
    assert repr(m) == text and type(m) is getattr(nn, text.split("(")[0])
    assert {k: tuple(v.shape) for k, v in m.state_dict().items()} == shapes


@pytest.mark.parametrize(("make", "ready", "shape"), [(lambda: nn.LazyLinear(3), lambda: nn.Linear(2, 3), (1, 2)),
                                                      (lambda: nn.LazyConv1d(3, 2), lambda: nn.Conv1d(2, 3, 2), (1, 2, 4)),
                                                      (lambda: nn.LazyBatchNorm1d(), lambda: nn.BatchNorm1d(2), (4, 2))])
def test_a_state_dict_gives_shapes_and_values_which_the_first_input_keeps(make, ready, shape):
    m, full = make(), ready()
    m.load_state_dict(full.state_dict())
    assert not m.has_uninitialized_params()
    x = lt.randn(shape)
    assert m(x).tolist() == full(x).tolist() and repr(m) == repr(full)


def test_dtype_argument_and_cast_reach_the_parameters():
    m = nn.LazyConv1d(4, 3, dtype=lt.float64)
    m(lt.randn(2, 4, 9, dtype=lt.float64))
    assert m.weight.dtype == m.bias.dtype == lt.float64
    m = nn.LazyLinear(3).double()
    m(lt.randn(2, 5, dtype=lt.float64))
    assert m.weight.dtype == lt.float64


@pytest.mark.parametrize(("call", "exc", "text"), [
    (lambda: nn.LazyConv3d(4, 3)(lt.randn(3, 9)), RuntimeError, r"Expected 4D .* or 5D .* LazyConv3d"),
    (lambda: nn.LazyConv2d(4, 3, groups=2)(lt.randn(3, 9, 9)), ValueError, "in_channels must be divisible by groups"),
    (lambda: nn.LazyConv1d(4, 3, groups=3)(lt.randn(3, 9)), ValueError, "out_channels must be divisible by groups"),
    (lambda: nn.Linear(2, 3).load_state_dict(nn.LazyLinear(3).state_dict()), RuntimeError, "uninitialized"),
    (lambda: nn.LazyBatchNorm2d()(lt.randn(4, 3)), ValueError, "expected 4D input"),
])
def test_what_does_not_fit_is_refused(call, exc, text):
    with pytest.raises(exc, match=text):
        call()

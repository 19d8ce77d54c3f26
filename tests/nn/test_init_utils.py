"""Initialisers and nn.utils."""
from __future__ import annotations

import pytest

import lazy_tensor as lt
from lazy_tensor import nn


def test_clip_grad_norm_scales_to_the_bound():
    p = nn.Parameter(lt.zeros(2))
    p.grad = lt.tensor([3.0, 4.0])
    assert float(nn.utils.clip_grad_norm_([p], 1.0)) == pytest.approx(5.0)
    assert p.grad.tolist() == pytest.approx([0.6, 0.8], rel=1e-5)


def test_packing_and_padding_are_inverse():
    seqs = [lt.tensor([1.0, 2.0]), lt.tensor([3.0]), lt.tensor([4.0, 5.0, 6.0])]
    packed = nn.utils.rnn.pack_sequence(seqs, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 2, 1] and packed.data.tolist() == [4, 1, 3, 5, 2, 6]
    padded, lengths = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    assert lengths.tolist() == [2, 1, 3] and padded.tolist() == [[1, 2, 0], [3, 0, 0], [4, 5, 6]]


def test_weight_norm_parametrization_keeps_the_value():
    m = nn.Linear(3, 2)
    before = m.weight.tolist()
    nn.utils.parametrizations.weight_norm(m)
    assert sum(m.weight.tolist(), []) == pytest.approx(sum(before, []), rel=1e-5)
    assert list(m.state_dict()) == ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]


def test_convolution_weights_take_a_memory_format_and_others_keep_theirs():
    m = nn.Sequential(nn.Conv2d(2, 4, 3), nn.Conv1d(2, 4, 3), nn.ConvTranspose2d(4, 2, 3), nn.Conv3d(2, 4, 3))
    w, values = m[0].weight, m[0].weight.tolist()
    assert nn.utils.convert_conv2d_weight_memory_format(m, lt.channels_last) is m
    assert [x.weight.stride() for x in m] == [(18, 1, 6, 2), (6, 3, 1), (18, 1, 6, 2), (54, 27, 9, 3, 1)]
    assert nn.utils.convert_conv3d_weight_memory_format(m, lt.channels_last_3d)[3].weight.stride() == (54, 1, 18, 6, 2)
    assert m[0].weight is w and w.tolist() == values
    with pytest.raises(RuntimeError, match="unsupported memory format"):
        nn.utils.convert_conv2d_weight_memory_format(m, lt.preserve_format)


def test_a_fused_linear_needs_as_many_features_as_the_norm():
    linear, norm = nn.Linear(2, 3).eval(), nn.BatchNorm1d(3).eval()
    norm.running_mean.fill_(0.3)
    norm.running_var.fill_(2.0)
    x = lt.randn(4, 2)
    assert (nn.utils.fuse_linear_bn_eval(linear, norm)(x) - norm(linear(x))).abs().max().item() < 1e-6
    with pytest.raises(AssertionError, match="linear.out_features=3 and bn.num_features=4"):
        nn.utils.fuse_linear_bn_eval(linear, nn.BatchNorm1d(4).eval())


def test_packing_nothing_or_no_sequences_is_refused():
    rnn = nn.utils.rnn
    with pytest.raises(RuntimeError, match="Cannot pack empty tensors"):
        rnn.pack_padded_sequence(lt.ones(0, 2), lt.tensor([], dtype=lt.int64))
    with pytest.raises(RuntimeError, match="Expected iterable for input sequences, but got arg of type: <class 'int'>"):
        rnn.pad_sequence(3)
    assert rnn.pack_sequence([lt.ones(3), lt.ones(2)]).short().data.dtype == lt.int16

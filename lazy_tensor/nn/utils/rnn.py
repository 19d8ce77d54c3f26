"""Sequences of different lengths (torch.nn.utils.rnn)."""
from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable

import lazy_tensor as lt

_Fields = namedtuple("PackedSequence", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])


class PackedSequence(_Fields):
    """Sequences packed step by step: data (sum of lengths, *), batch_sizes (longest,) on the cpu."""

    __slots__ = ()

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is not None:
            if batch_sizes.device.type != "cpu":
                raise ValueError("batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. They "
                                 "should be instantiated by functions like pack_sequence and pack_padded_sequence in nn.utils.rnn")
            return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)
        if not (isinstance(data, (list, tuple)) and len(data) == 2):
            raise AssertionError("PackedSequence: (data, batch_sizes) would fit")
        return super().__new__(cls, data[0], data[1], sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        """The same sequences with data moved or cast."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        kw = {k: v for k, v in kwargs.items() if k not in ("device", "dtype")}
        move = [None if i is None else i.to(data.device, **kw) for i in (self.sorted_indices, self.unsorted_indices)]
        return type(self)(data, self.batch_sizes, *move)

    def cpu(self, *args, **kwargs):
        """Moved to host memory."""
        return self.to("cpu", *args, **kwargs)

    def cuda(self, *args, **kwargs):
        """Moved to a CUDA device."""
        return self.to(*args, device="cuda", **kwargs)

    def float(self):
        """Cast to float32."""
        return self.to(dtype=lt.float32)

    def double(self):
        """Cast to float64."""
        return self.to(dtype=lt.float64)

    def half(self):
        """Cast to float16."""
        return self.to(dtype=lt.float16)

    def long(self):
        """Cast to int64."""
        return self.to(dtype=lt.int64)

    def int(self):
        """Cast to int32."""
        return self.to(dtype=lt.int32)

    def short(self):
        """Cast to int16."""
        return self.to(dtype=lt.int16)

    def char(self):
        """Cast to int8."""
        return self.to(dtype=lt.int8)

    def byte(self):
        """Cast to uint8."""
        return self.to(dtype=lt.uint8)

    def is_pinned(self):
        """Whether data is in pinned memory."""
        return self.data.is_pinned()

    def pin_memory(self):
        """self: host memory needs no pinning here."""
        return self

    @property
    def is_cuda(self):
        """Whether data is on a CUDA device."""
        return self.data.is_cuda


def invert_permutation(permutation):
    """The inverse of a permutation; None for None."""
    return None if permutation is None else permutation.argsort()


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """A PackedSequence of padded (L, N, *) (or (N, L, *)) and lengths (N,)."""
    lengths = lt.as_tensor(lengths, dtype=lt.int64, device="cpu") if not isinstance(lengths, lt.Tensor) else lengths
    if lengths.device.type != "cpu":
        raise RuntimeError(f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D {lengths.device} "
                           f"{lengths.dtype} tensor")
    n = [int(x) for x in lengths.tolist()]
    order = None
    if not enforce_sorted:
        perm = sorted(range(len(n)), key=lambda i: -n[i])
        order = lt.tensor(perm, dtype=lt.int64, device=input.device)
        input = input.index_select(0 if batch_first else 1, order)
        n = [n[i] for i in perm]
    if any(a < b for a, b in zip(n, n[1:], strict=False)):
        raise RuntimeError("`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
                           "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do "
                           "not need ONNX exportability.")
    if not n:
        raise RuntimeError("Cannot pack empty tensors.")
    if n[-1] <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0")
    x = input.transpose(0, 1) if batch_first else input
    if x.size(1) != len(n):
        raise RuntimeError(f"Expected `len(lengths)` to be equal to batch_size, but got {len(n)} (batch_size={x.size(1)})")
    if n[0] > x.size(0):
        raise RuntimeError(f"Expected sequence length to be larger than or equal to the longest of `lengths` {n[0]}, got {x.size(0)}")
    sizes = [sum(k > t for k in n) for t in range(n[0])]
    rows = [t * len(n) + b for t, s in enumerate(sizes) for b in range(s)]
    flat = x.reshape(x.size(0) * x.size(1), *x.shape[2:])
    data = flat.index_select(0, lt.tensor(rows, dtype=lt.int64, device=input.device))
    return PackedSequence(data, lt.tensor(sizes, dtype=lt.int64), order, None)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """(padded (L, N, *), lengths (N,)) of a PackedSequence."""
    sizes = sequence.batch_sizes.tolist()
    longest, batch = len(sizes), sizes[0]
    if total_length is not None:
        if total_length < longest:
            raise ValueError("Expected total_length to be at least the length of the longest sequence in input, but got "
                             f"total_length={total_length} and max sequence length being {longest}")
        longest = total_length
    data = sequence.data
    rows, start = [], 0
    for s in sizes:
        rows.extend([*range(start, start + s), *[data.size(0)] * (batch - s)])
        start += s
    rows.extend([data.size(0)] * (batch * (longest - len(sizes))))
    filler = lt.full((1, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
    out = lt.cat([data, filler]).index_select(0, lt.tensor(rows, dtype=lt.int64, device=data.device))
    out = out.reshape(longest, batch, *data.shape[1:])
    lengths = lt.tensor([sum(s > b for s in sizes) for b in range(batch)], dtype=lt.int64)
    back = sequence.unsorted_indices
    if back is not None:
        out = out.index_select(1, back)
        lengths = lengths[back.cpu()]
    return (out.transpose(0, 1) if batch_first else out), lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Tensors (L_i, *) stacked with padding to (L, N, *)."""
    if padding_side not in ("left", "right"):
        raise ValueError(f"padding_side should be 'left' or 'right', got {padding_side!r}")
    if isinstance(sequences, lt.Tensor):
        sequences = sequences.unbind(0)
    if not isinstance(sequences, Iterable):
        raise RuntimeError(f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}")
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    longest = max(s.size(0) for s in sequences)
    rows = []
    for s in sequences:
        gap = longest - s.size(0)
        fill = [lt.full((gap, *s.shape[1:]), padding_value, dtype=s.dtype, device=s.device)] if gap else []
        rows.append(lt.cat([s, *fill] if padding_side == "right" else [*fill, s]) if gap else s)
    return lt.stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The list of tensors (L_i, *) in a padded one."""
    x = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [x[i, :int(n)] for i, n in enumerate(lengths.tolist() if isinstance(lengths, lt.Tensor) else lengths)]


def pack_sequence(sequences, enforce_sorted=True):
    """A PackedSequence of a list of tensors (L_i, *)."""
    lengths = lt.tensor([s.size(0) for s in sequences], dtype=lt.int64)
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The list of tensors (L_i, *) in a PackedSequence."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)

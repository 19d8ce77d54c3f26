"""Messages between the loader and its worker processes: one pickle and its out-of-band buffers, read into place."""
from __future__ import annotations

import io
import pickle
import struct

import numpy as np

from lazy_tensor import creation, dtypes
from lazy_tensor.tensor import Tensor

_HEAD = struct.Struct("<QI")  # bytes of the pickle, number of buffers; the sizes of the buffers follow


class _Pickler(pickle.Pickler):
    """Protocol 5, tensors as their host arrays."""

    def reducer_override(self, obj):
        if type(obj) is Tensor:
            a = np.ascontiguousarray(obj._host())
            device = None if obj._v.aval.device.host else str(obj.device)
            flat = a.reshape(-1).view(np.uint8) if a.size else np.empty(0, np.uint8)
            return _tensor, (pickle.PickleBuffer(flat), obj.dtype.name, a.shape, device, obj.requires_grad)
        return NotImplemented


def _tensor(buffer, dtype, shape, device, requires_grad):
    d = dtypes.names[dtype].np
    a = np.frombuffer(buffer, d) if len(memoryview(buffer)) else np.empty(0, d)
    t = creation._array(a.reshape(shape), None, device or "cpu", copy=False)
    return t.requires_grad_(True) if requires_grad else t


def dumps(obj):
    """[head, pickle, buffer, ...] ready to send."""
    buffers, out = [], io.BytesIO()
    _Pickler(out, 5, buffer_callback=buffers.append).dump(obj)
    data = out.getbuffer()
    views = [b.raw() for b in buffers]
    head = _HEAD.pack(data.nbytes, len(views)) + struct.pack(f"<{len(views)}Q", *(v.nbytes for v in views))
    return [head, data, *views]


def send(sock, parts):
    """Write what `dumps` gave."""
    for part in parts:
        if len(part):
            sock.sendall(part)


def _read(sock, n):
    """n bytes as a writable array; EOFError when the other side is gone."""
    out = np.empty(n, np.uint8)
    view, got = memoryview(out), 0
    while got < n:
        k = sock.recv_into(view[got:], min(n - got, 1 << 24))
        if not k:
            raise EOFError
        got += k
    return out


def receive(sock):
    """The next message; EOFError when the other side is gone."""
    size, count = _HEAD.unpack(_read(sock, _HEAD.size).tobytes())
    sizes = struct.unpack(f"<{count}Q", _read(sock, 8 * count).tobytes()) if count else ()
    data = _read(sock, size)
    return pickle.loads(data, buffers=[_read(sock, n) for n in sizes])

"""`save` and `load` in torch's own file format, both ways; what a file names is checked before anything is made."""
from __future__ import annotations

import io
import os
import pickle
import secrets
import struct
import tempfile
import zlib
from collections import OrderedDict
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import copyfileobj

import numpy as np

from lazy_tensor import _archive, _unpickle, creation, devices, dtypes, strides
from lazy_tensor._rebuild import INTERNAL, STORAGES, Builder, Typed, UsersError, swapped, window_of
from lazy_tensor.tensor import Tensor, wrap

__all__ = ["save", "load", "add_safe_globals", "clear_safe_globals", "get_safe_globals", "safe_globals",
           "get_unsafe_globals_in_checkpoint"]

_STORAGE_OF = {d: s for s, d in STORAGES.items()}
_MAGIC, _LEGACY_PROTOCOL = 0x1950A86A20F9469CFC6C, 1001


# ------------------------------------------------------------------------------------------- saving


class _Name:
    """A global of torch's, written by name: there is no torch to look it up in."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self, *args):
        raise TypeError(f"{self.module}.{self.name} stands for a name")


class _Untyped:
    """A persistent id to write in place of a storage."""

    def __init__(self, pid):
        self.pid = pid


_NAMES: dict[tuple, _Name] = {}


def _torch(path):
    module, _, name = path.rpartition(".")
    return _NAMES.setdefault((module, name), _Name(module, name))


class _Saver(pickle._Pickler):
    """Pickles with torch's names; tensors become references to numbered storages."""

    def __init__(self, file, protocol, legacy=False):
        super().__init__(file, protocol)
        self.legacy = legacy
        self.storages = {}  # identity -> (key, tensor that holds the bytes)

    def persistent_id(self, obj):
        return obj.pid if type(obj) is _Untyped else None

    def save_global(self, obj, name=None):
        if type(obj) is dtypes.dtype:
            obj = _torch(f"torch.{obj.name}")
        elif obj is Tensor:
            obj = _torch("torch.Tensor")
        elif isinstance(obj, type) and issubclass(obj, Tensor) and obj is _parameter_class():
            obj = _torch("torch.nn.parameter.Parameter")
        if type(obj) is _Name:
            self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
            self.memoize(obj)
        else:
            super().save_global(obj, name)

    def reducer_override(self, obj):
        t = type(obj)
        if t is _Name or t is dtypes.dtype:
            return obj.name
        if t is dtypes.Size:
            return _torch("torch.Size"), (tuple(obj),)
        if t is devices.device:
            return _torch("torch.device"), (obj.type,) if obj.index is None else (obj.type, obj.index)
        if isinstance(obj, Tensor):
            return self.tensor(obj)
        return NotImplemented

    def tensor(self, t):
        """The reduce value of a tensor or a Parameter."""
        state = {k: v for k, v in t.__dict__.items() if k not in INTERNAL}
        if isinstance(t, _parameter_class()):
            args = (_Plain(t), t.requires_grad, OrderedDict())
            if state:
                return _torch("torch._utils._rebuild_parameter_with_state"), (*args, state)
            return _torch("torch._utils._rebuild_parameter"), args
        fn, args = self.rebuild(t, t.requires_grad)
        if state:
            return _torch("torch._tensor._rebuild_from_type_v2"), (fn, _torch("torch.Tensor"), args, state)
        return fn, args

    def save(self, obj, save_persistent_id=True):
        if type(obj) is _Plain:
            self.save_reduce(*self.rebuild(obj.tensor, False))
        else:
            super().save(obj, save_persistent_id)

    def rebuild(self, t, requires_grad):
        """(function, arguments) that torch rebuilds the tensor's data with."""
        root, step, offset = _layout(t)
        identity = id(root._view.storage) if root._view is not None else id(root._v)
        key = self.storages.setdefault(identity, (str(id(root)) if self.legacy else str(len(self.storages)), root))[0]
        name = t.dtype.name
        typed = name in _STORAGE_OF
        if self.legacy and not typed:
            raise RuntimeError(f"save: the format before torch 1.6 cannot hold {name}; leave _use_new_zipfile_serialization at True")
        count = root.numel() if typed else root.nbytes
        kind = _torch(f"torch.{_STORAGE_OF[name]}" if typed else "torch.storage.UntypedStorage")
        pid = ("storage", kind, key, "cpu", count) + ((None,) if self.legacy else ())
        args = (_Untyped(pid), offset, tuple(t.shape), step, requires_grad, OrderedDict())
        if typed:
            return _torch("torch._utils._rebuild_tensor_v2"), args
        return _torch("torch._utils._rebuild_tensor_v3"), (*args, t.dtype)


def _parameter_class():
    from lazy_tensor.nn.parameter import Parameter
    return Parameter


class _Plain:
    """A Parameter's data, to be written as a tensor."""

    def __init__(self, tensor):
        self.tensor = tensor


def _layout(t):
    """(root whose bytes to store, strides, offset): t's own when it does not read as a strided window of its root."""
    w = t._view
    root = t if w is None or w.root is None else w.root
    step, offset = strides.of(t)
    step = tuple(step)
    if root is t:
        return t, step, offset
    if root.dtype is t.dtype:
        # Views of any chain of ops come here: a wrong stride would write a wrong checkpoint, so the window is read back.
        flat = _bytes(root)
        n = t.numel()
        reach = offset + sum((d - 1) * s for d, s in zip(t.shape, step, strict=True)) if n else 0
        if n == 0 or (0 <= reach < flat.size and window_of(flat, t.shape, step, offset).tobytes() == t._host().tobytes()):
            return root, step, offset
    alone = wrap(t._value())
    return alone, strides.contiguous(t.shape), 0


def _bytes(root):
    """A root tensor's elements in the order in which its storage holds them."""
    a = np.ascontiguousarray(root._host())
    step = strides.root_strides(root)
    if step is None:
        return a.reshape(-1)
    flat = np.empty(a.size, a.dtype)
    window_of(flat, a.shape, step, 0)[...] = a
    return flat


def save(obj, f, pickle_module=pickle, pickle_protocol=2, _use_new_zipfile_serialization=True, *, _disable_byteorder_record=False) -> None:
    """Write obj (tensors, Parameters, and containers of them: state dicts) as torch.save does.

    f: a path (written beside it and moved into place, so that a crash leaves the old file whole) or a file opened for
    writing. Storages that tensors share are written once. Device tensors are copied to the host. `torch.load` reads
    the file. Raises RuntimeError when the folder does not exist.

    Example::

        lt.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "run.pt")
    """
    if isinstance(f, (str, os.PathLike)):
        path = Path(os.path.realpath(f))
        if not path.parent.is_dir():
            raise RuntimeError(f"Parent directory {path.parent} does not exist.")
        write = _write_zip if _use_new_zipfile_serialization else _write_legacy
        if path.exists() and not path.is_file():
            with open(path, "wb") as out:  # a device or a pipe: nothing to move into place
                _spooled(write, obj, pickle_protocol, "archive", out)
            return
        _atomic(path, lambda out: write(obj, out, pickle_protocol, path.stem or "archive"))
    elif hasattr(f, "write"):
        _spooled(_write_zip if _use_new_zipfile_serialization else _write_legacy, obj, pickle_protocol, "archive", f)
    else:
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute, "
                             f"got {type(f).__name__}")


def _spooled(write, obj, protocol, name, out):
    """Write to a stream that may not seek."""
    with tempfile.SpooledTemporaryFile(1 << 26) as spool:
        write(obj, spool, protocol, name)
        spool.seek(0)
        copyfileobj(spool, out, 1 << 20)


def _atomic(path, write):
    """Write a new file in the same folder, flush it to disk, and move it over path."""
    temporary = path.with_name(f".{path.name[:200]}.{secrets.token_hex(6)}.tmp")
    mode = os.stat(path).st_mode & 0o777 if path.exists() else 0o666
    try:
        with open(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode), "w+b") as out:
            write(out)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _pickled(obj, protocol, legacy=False):
    out = io.BytesIO()
    saver = _Saver(out, protocol, legacy)
    saver.dump(obj)
    return out.getvalue(), saver.storages.values()


def _write_zip(obj, out, protocol, name):
    data, storages = _pickled(obj, protocol)
    archive = _archive.Writer(out, name)
    archive.add("data.pkl", data)
    archive.add(".format_version", b"1")
    archive.add(".storage_alignment", b"64")
    archive.add("byteorder", b"little")
    for key, root in storages:
        a = _bytes(root)
        archive.add(f"data/{key}", a if np.little_endian else swapped(a))
    archive.add("version", b"3\n")
    archive.add(".data/serialization_id", f"{zlib.crc32(data):020d}{len(data):020d}".encode())
    archive.close()


def _write_legacy(obj, out, protocol, name):
    """The format before torch 1.6: pickles one after another, then the storages."""
    data, storages = _pickled(obj, protocol, legacy=True)
    sizes = {"protocol_version": _LEGACY_PROTOCOL, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    pickle.dump(_MAGIC, out, protocol=2)
    pickle.dump(_LEGACY_PROTOCOL, out, protocol=2)
    pickle.dump(sizes, out, protocol=2)
    out.write(data)
    pickle.dump(sorted(key for key, _ in storages), out, protocol=2)
    for _key, root in sorted(storages, key=lambda s: s[0]):
        a = _bytes(root)
        out.write(struct.pack("<q", a.size))
        out.write((a if np.little_endian else swapped(a)).tobytes())


# ------------------------------------------------------------------------------------------- loading


class _Trusting(pickle.Unpickler):
    """Reads any pickle of a file that the user trusts, torch's names meaning ours."""

    def __init__(self, file, builder, **kw):
        super().__init__(file, **kw)
        self.builder, self.table, self.makers = builder, builder.names(), builder.calls()

    def persistent_load(self, pid):
        return self.builder.persistent(pid)

    def find_class(self, module, name):
        found = self.table.get(f"{module}.{name}")
        if found is not None:
            return self.makers.get(found, found) if found is devices.device or isinstance(found, _unpickle.Token) else found
        if module == "torch" or module.startswith("torch."):
            raise pickle.UnpicklingError(f"load: the file names {module}.{name}, an object of PyTorch's own code that lazy_tensor "
                                         f"cannot stand in for. {_unpickle.MODULE_HINT}")
        return super().find_class(module, name)


_safe: dict[str, object] = {}


def _path_of(obj):
    return f"{obj.__module__}.{obj.__qualname__}"


def add_safe_globals(safe_globals: list) -> None:
    """Classes and functions that `load` may use: objects, or (object, "dotted.name") pairs (torch.serialization's)."""
    for x in safe_globals:
        obj, path = x if isinstance(x, tuple) else (x, _path_of(x))
        _safe[path] = obj
        for a, b in (("numpy._core.", "numpy.core."), ("numpy.core.", "numpy._core.")):
            if path.startswith(a):
                _safe[b + path[len(a):]] = obj


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` allowed."""
    _safe.clear()


def get_safe_globals() -> list:
    """What `add_safe_globals` allowed."""
    return list(dict.fromkeys(_safe.values()))


@contextmanager
def safe_globals(names: list):
    """`add_safe_globals` for a block."""
    before = dict(_safe)
    add_safe_globals(names)
    try:
        yield
    finally:
        _safe.clear()
        _safe.update(before)


def load(f, map_location=None, pickle_module=None, *, weights_only=True, mmap=None, **pickle_load_args):
    """What `save` or torch.save wrote (torch.load).

    f: a path, or a file opened for reading. map_location: where tensors go: None (host memory, wherever they were
    saved from), a device or its name, a dict from saved location to device, or a function (storage, location) -> storage.
    weights_only=True reads tensors and plain containers and never runs anything; False runs whatever the file says,
    so only for files that you trust. mmap=True maps the storages from the file instead of reading them.

    Raises pickle.UnpicklingError for what weights_only refuses, RuntimeError for a damaged file.
    """
    if weights_only is None:
        weights_only = True
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError("f must be a file path in order to use the mmap argument")
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        with open(f, "rb") as file:
            try:
                return _load(file, path, map_location, weights_only, mmap)
            except (EOFError, RuntimeError, pickle.UnpicklingError) as e:
                if path in str(e) or len(e.args) != 1:
                    raise
                raise type(e)(f"{path}: {e}") from e
    if not all(hasattr(f, a) for a in ("read", "seek", "tell")):
        raise AttributeError(f"load: a path or a file with read, seek and tell fits, got {type(f).__name__}. You can only load "
                             "from a file that is seekable; read it into io.BytesIO first.")
    return _load(f, None, map_location, weights_only, mmap)


def _load(file, path, map_location, weights_only, mmap):
    start = file.tell()
    head = file.read(4)
    file.seek(start)
    if not head:
        raise EOFError("load: Ran out of input: the file is empty")
    if head == b"PK\x03\x04":
        return _load_zip(file, path, map_location, weights_only, mmap)
    if mmap:
        raise RuntimeError("mmap can only be used with files saved with torch.save's zip format (torch 1.6 and later)")
    return _load_legacy(io.BytesIO(file.read()), map_location, weights_only)


def _load_zip(file, path, map_location, weights_only, mmap):
    if path is None and file.tell():
        file = io.BytesIO(file.read())
    archive = _archive.Reader(file, path)
    order = archive.read("byteorder") if archive.size("byteorder") is not None else b"little"
    if order not in (b"little", b"big"):
        raise _archive.corrupt(f"unknown byte order {order!r}")

    def fetch(key):
        record = f"data/{key}"
        return archive.map(record) if mmap else np.frombuffer(archive.read(record), np.uint8)
    builder = Builder(fetch, map_location, (order == b"little") != np.little_endian)
    return _unpickled(io.BytesIO(archive.read("data.pkl")), builder, weights_only)


def _unpickled(stream, builder, weights_only):
    try:
        if weights_only:
            return _bare(_unpickle.Machine(builder.names(), builder.calls(), builder.persistent, _safe).load(stream))
        return _bare(_Trusting(stream, builder).load())
    except UsersError as e:
        raise e.__cause__ from None


def _bare(x):
    """A storage saved by itself reads as a flat tensor."""
    if type(x) is Typed:
        dtype = x.dtype if x.dtype is not None else np.dtype(np.uint8)
        return creation._array(x.storage.data.view(dtype), None, x.storage.device, copy=False)
    return x


def _plain(stream):
    """The next pickle of a stream, which must be plain data."""
    def persistent(pid):
        raise pickle.UnpicklingError("Weights only load failed: a persistent id outside the object")
    return _unpickle.Machine({}, {}, persistent).load(stream)


def _load_legacy(stream, map_location, weights_only):
    """Files from before torch 1.6: a magic number, the object's pickle, then every storage's size and bytes."""
    data = stream.getvalue()
    if data[257:262] == b"ustar":
        raise RuntimeError("load: the file is a tar archive of torch 0.1; load and save it again with a torch between 0.2 and 2.5")
    magic = _plain(stream)
    if magic != _MAGIC:
        raise pickle.UnpicklingError("Weights only load failed: Invalid magic number; corrupt file, or a plain pickle that "
                                     "torch.save did not write?")
    if _plain(stream) != _LEGACY_PROTOCOL:
        raise RuntimeError("load: Invalid protocol version of a legacy file")
    info = _plain(stream)
    little = info.get("little_endian", True) if isinstance(info, dict) else True
    at = stream.tell()
    sizes = _first_pass(stream)
    keys = _plain(stream)
    if not isinstance(keys, list) or len(keys) != len(set(map(str, keys))):
        raise RuntimeError("load: the legacy file's list of storages is malformed")
    found = {}
    for key in keys:
        head = stream.read(8)
        if key not in sizes or len(head) != 8:
            raise RuntimeError("load: unexpected EOF or storage in a legacy file. The file might be corrupted.")
        n = struct.unpack("<q" if little else ">q", head)[0] * sizes[key]
        start = stream.tell()
        if n < 0 or start + n > len(data):
            raise RuntimeError(f"load: unexpected EOF, expected {n} bytes of storage {key!r}, {len(data) - start} are left. The "
                               "file might be corrupted.")
        found[key] = np.frombuffer(data, np.uint8, n, start)
        stream.seek(n, os.SEEK_CUR)

    def fetch(key):
        if key not in found:
            raise RuntimeError(f"load: the legacy file has no storage {key!r}; it might be corrupted")
        return np.array(found[key])  # a copy: the file's bytes are not aligned
    stream.seek(at)
    builder = Builder(fetch, map_location, bool(little) != np.little_endian)
    return _unpickled(stream, builder, weights_only)


def _first_pass(stream):
    """Element sizes of a legacy file's storages, from their persistent ids; leaves the stream behind the pickle."""
    import pickletools

    sizes, strings, memo, kind = {}, [], {}, None
    dry = {f"torch.{n}": dtypes.names[d].itemsize for n, d in STORAGES.items()}
    dry |= {f"torch.cuda.{n}": dry[f"torch.{n}"] for n in STORAGES} | {"torch.storage.UntypedStorage": 1, "torch.UntypedStorage": 1}
    stack: list = []  # the last values that can be part of an id: names and strings, memoised or not
    try:
        for opcode, arg, _pos in pickletools.genops(stream):
            name = opcode.name
            if name in ("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"):
                memo[len(memo) if name == "MEMOIZE" else int(arg)] = stack[-1] if stack else None
            elif name in ("BINGET", "LONG_BINGET", "GET"):
                stack.append(memo.get(int(arg)))
            elif name == "GLOBAL":
                stack.append(("global", arg.replace(" ", ".", 1)))
            elif name == "STACK_GLOBAL":
                strings = [x for x in stack[-2:] if isinstance(x, str)]
                stack.append(("global", ".".join(strings)))
            elif name == "BINPERSID":
                for i in range(len(stack) - 1, 0, -1):
                    if stack[i - 1] == "storage" and type(stack[i]) is tuple:
                        kind = dry.get(stack[i][1])
                        if kind and i + 1 < len(stack) and isinstance(stack[i + 1], str):
                            sizes[stack[i + 1]] = kind
                        break
                stack.append(None)
            else:
                stack.append(arg if isinstance(arg, str) else None)
            del stack[:-4096]
    except (ValueError, IndexError, KeyError) as e:
        raise pickle.UnpicklingError(f"Weights only load failed: the pickle is corrupt ({e})") from e
    return sizes


def get_unsafe_globals_in_checkpoint(f) -> list[str]:
    """Names in a file that `load` would refuse (torch.serialization.get_unsafe_globals_in_checkpoint)."""
    with open(f, "rb") if isinstance(f, (str, os.PathLike)) else _borrowed(f) as file:
        data = _archive.Reader(file).read("data.pkl")
    known = set(Builder(None, None).names()) | set(_unpickle._NAMES) | set(_safe)
    return [n for n in _unpickle.globals_in(data) if n not in known]


@contextmanager
def _borrowed(f):
    yield f

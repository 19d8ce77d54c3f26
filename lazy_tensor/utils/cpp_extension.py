"""C++ operators and classes, compiled when loaded (torch.utils.cpp_extension): XLA FFI handlers as custom operators, C++ objects
as the state of operators. `docs/extending.md` is the guide."""
from __future__ import annotations

import contextlib
import ctypes
import hashlib
import inspect
import json
import os
import re
import shutil
import subprocess
import tempfile
import types
import weakref
from collections import namedtuple
from pathlib import Path

import jax
import numpy as np

from lazy_tensor import dtypes
from lazy_tensor._schema import ANY, Arg, Schema, parse_schema
from lazy_tensor.library import CustomOp, _publish
from lazy_tensor.modes import modes
from lazy_tensor.ops._define import missing
from lazy_tensor.tensor import Tensor
from xla_backend import runtime
from xla_backend.program import sync

__all__ = ["Function", "get_compiler", "get_default_build_root", "include_paths", "load", "load_inline"]

# What every source may include: XLA's FFI API and tables of C++ objects by handle.
HEADER = r"""
#pragma once
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include "xla/ffi/api/ffi.h"

// Hidden: two libraries may have classes of one name, and their tables must not be taken for one.
namespace lazy_tensor __attribute__((visibility("hidden"))) {

struct Arg { int64_t kind; int64_t i; double f; const char* s; };  // kind: 0 integer or bool, 1 float, 2 string

template <class T> T read(const Arg& a) {
  using U = std::decay_t<T>;
  if constexpr (std::is_integral_v<U>) {
    if (a.kind != 0) throw std::invalid_argument("expected an integer");
    return static_cast<U>(a.i);
  } else if constexpr (std::is_floating_point_v<U>) {
    if (a.kind == 2) throw std::invalid_argument("expected a number");
    return static_cast<U>(a.kind == 0 ? static_cast<double>(a.i) : a.f);
  } else {
    if (a.kind != 2) throw std::invalid_argument("expected a string");
    return U(a.s);
  }
}

template <class T> struct Table {
  std::mutex mutex;
  std::unordered_map<int64_t, std::shared_ptr<T>> objects;
  static Table& get() { static Table* t = new Table; return *t; }
};

inline std::atomic<int64_t>& handles() { static std::atomic<int64_t> n{0}; return n; }

template <class T, class... A, size_t... I> std::shared_ptr<T> build(const Arg* a, std::index_sequence<I...>) {
  return std::make_shared<T>(read<A>(a[I])...);
}

template <class T, class... A> int64_t make(const Arg* a, int64_t n, char* error, int64_t size) {
  try {
    if (n != static_cast<int64_t>(sizeof...(A)))
      throw std::invalid_argument("expected " + std::to_string(sizeof...(A)) + " arguments, got " + std::to_string(n));
    auto object = build<T, A...>(a, std::index_sequence_for<A...>{});
    int64_t handle = ++handles();
    auto& table = Table<T>::get();
    std::lock_guard<std::mutex> hold(table.mutex);
    table.objects[handle] = std::move(object);
    return handle;
  } catch (const std::invalid_argument& e) {
    std::snprintf(error, size, "T%s", e.what());
  } catch (const std::exception& e) {
    std::snprintf(error, size, "R%s", e.what());
  }
  return -1;
}

template <class T> void drop(int64_t handle) {
  std::shared_ptr<T> last;  // destroyed outside of the lock
  auto& table = Table<T>::get();
  std::lock_guard<std::mutex> hold(table.mutex);
  auto it = table.objects.find(handle);
  if (it != table.objects.end()) { last = std::move(it->second); table.objects.erase(it); }
}

template <class T> int64_t count() {
  auto& table = Table<T>::get();
  std::lock_guard<std::mutex> hold(table.mutex);
  return static_cast<int64_t>(table.objects.size());
}

// The object of a method's call (null when it is gone); `next` orders the call before the object's next one.
template <class T> std::shared_ptr<T> self(xla::ffi::Buffer<xla::ffi::S64> handle, xla::ffi::ResultBuffer<xla::ffi::S64> next) {
  int64_t h = *handle.typed_data();
  *next->typed_data() = h;
  auto& table = Table<T>::get();
  std::lock_guard<std::mutex> hold(table.mutex);
  auto it = table.objects.find(h);
  return it == table.objects.end() ? nullptr : it->second;
}

inline xla::ffi::Error gone(const char* name) {
  return xla::ffi::Error(xla::ffi::ErrorCode::kFailedPrecondition,
                         std::string("the ") + name + " object was destroyed before this call ran; keep it until the results are read");
}

}  // namespace lazy_tensor

// LT_CLASS(Counter, int64_t): objects of Counter, made with Counter(int64_t), can be made from Python.
#define LT_CLASS(T, ...)                                                                                   \
  extern "C" __attribute__((visibility("default")))                                                        \
  int64_t T##_new(const lazy_tensor::Arg* a, int64_t n, char* error, int64_t size) {                       \
    return lazy_tensor::make<T, ##__VA_ARGS__>(a, n, error, size);                                         \
  }                                                                                                        \
  extern "C" __attribute__((visibility("default")))                                                        \
  void T##_delete(int64_t handle) { lazy_tensor::drop<T>(handle); }                                        \
  extern "C" __attribute__((visibility("default"))) int64_t T##_count() { return lazy_tensor::count<T>(); }
"""

Spec = namedtuple("Spec", ("shape", "dtype"))
Spec.__doc__ = "A tensor as an output function sees it: shape (tuple of int) and dtype."


class Function:
    """How a C++ handler is called, where a schema or an output function alone does not say it.

    schema: "(Tensor x, Tensor[] ys, float alpha=1.0) -> Tensor"; tensors are buffers in order, the rest FFI attributes by name
    (int: int64_t, float: double, bool: bool, str: std::string_view, int[] and float[]: Span<const ...>). out: a function of the
    schema's arguments (a tensor as a Spec) that gives a (shape, dtype) an output, in a list when there are several; None: every
    output is like the first tensor. symbol: the handler's symbol (None: the function's name). vmap: what jax.vmap does, "sequential"
    (one call an example), "broadcast_all" or "expand_dims" (the handler takes leading dimensions). side_effect: whether a call
    counts beyond its results (it is then neither merged with an equal one nor dropped in the program)."""

    __slots__ = ("schema", "out", "symbol", "vmap", "side_effect")

    def __init__(self, schema=None, out=None, *, symbol=None, vmap="sequential", side_effect=False):
        if vmap not in ("sequential", "broadcast_all", "expand_dims"):
            raise ValueError(f"Function: vmap must be 'sequential', 'broadcast_all' or 'expand_dims', got {vmap!r}")
        self.schema, self.out, self.symbol, self.vmap, self.side_effect = schema, out, symbol, vmap, side_effect


# ------------------------------------------------------------------------------------------- building


def get_default_build_root() -> str:
    """The folder of built extensions: $TORCH_EXTENSIONS_DIR, else ~/.cache/lazy_tensor/extensions."""
    return os.environ.get("TORCH_EXTENSIONS_DIR") or os.path.join(os.path.expanduser("~"), ".cache", "lazy_tensor", "extensions")


def include_paths() -> list[str]:
    """Where the headers of XLA's FFI API are."""
    return [jax.ffi.include_dir()]


def get_compiler() -> str:
    """The C++ compiler: $CXX, else g++, c++ or clang++ on PATH. Raises RuntimeError when there is none."""
    asked = os.environ.get("CXX")
    for c in [asked] if asked else ["g++", "c++", "clang++"]:
        found = shutil.which(c)
        if found:
            return found
    raise RuntimeError(f"cpp_extension: no C++ compiler {f'{asked!r} (from $CXX) ' if asked else ''}found on PATH; install one (Debian, Ubuntu: "
                       "apt-get install g++; Fedora: dnf install gcc-c++; macOS: xcode-select --install) or set CXX to one with C++17")


def load_inline(name, cpp_sources, functions=None, *, classes=None, extra_cflags=None, extra_ldflags=None, extra_include_paths=None,
                build_directory=None, verbose=False, with_cuda=None, cuda_sources=None):
    """Compile C++ given as text and load it (torch.utils.cpp_extension.load_inline).

    name: an identifier, the operators' namespace. cpp_sources: a str or a list of them; each begins after an #include of XLA's FFI
    API and lazy_tensor.h, and defines its handlers with XLA_FFI_DEFINE_HANDLER_SYMBOL. functions: a dict from a function's name to
    what it takes and gives: None for one Tensor to one like it, a schema (outputs like the first tensor), an output function whose
    parameters are the arguments (attributes are annotated int, float, bool, str or lists), or a `Function`; or a list of names.
    classes: {class: {method: the same without self}} of classes declared with LT_CLASS.

    Returns a module whose functions are operators (`lazy_tensor.library.CustomOp`: register_autograd gives them gradients) and
    whose `classes` make C++ objects. Raises RuntimeError when there is no compiler, or with its message when it fails.

    Example::

        m = load_inline("mine", source, {"row_sum": lambda x: (x.shape[:-1], x.dtype)})
        m.row_sum(lt.ones(2, 3))
    """
    _no_cuda(with_cuda, cuda_sources)
    texts = [cpp_sources] if isinstance(cpp_sources, str) else list(cpp_sources)
    prelude = '#include "lazy_tensor.h"\nnamespace ffi = xla::ffi;\n#line 1 "{}"\n'
    sources = [(f"{name}_{k}.cpp", prelude.format(f"{name}_{k}.cpp") + t, None) for k, t in enumerate(texts)]
    return _load(name, sources, functions, classes, extra_cflags, extra_ldflags, extra_include_paths, build_directory, verbose)


def load(name, sources, functions=None, *, classes=None, extra_cflags=None, extra_ldflags=None, extra_include_paths=None,
         build_directory=None, verbose=False, with_cuda=None):
    """Compile C++ files and load them (torch.utils.cpp_extension.load); see `load_inline`.

    The files include "xla/ffi/api/ffi.h", or "lazy_tensor.h" for classes. They are compiled again when they, a header that they
    include, the flags, the compiler or jax have changed."""
    _no_cuda(with_cuda, None)
    paths = [Path(sources)] if isinstance(sources, (str, os.PathLike)) else [Path(s) for s in sources]
    for p in paths:
        if p.suffix in (".cu", ".cuh"):
            _no_cuda(True, None)
    texts = [(p.name, p.read_text(), p.resolve()) for p in paths]
    return _load(name, texts, functions, classes, extra_cflags, extra_ldflags, extra_include_paths, build_directory, verbose)


def _no_cuda(with_cuda, cuda_sources):
    if with_cuda or cuda_sources:
        raise NotImplementedError("cpp_extension: CUDA sources are not compiled here; write device kernels in Pallas "
                                  "(lt.library.custom_op(..., body='jax'))")


def _load(name, sources, functions, classes, cflags, ldflags, includes, build_directory, verbose):
    if not str(name).isidentifier():
        raise ValueError(f"cpp_extension: the name must be an identifier (it is the operators' namespace), got {name!r}")
    for file, text, _ in sources:
        if re.search(r"torch/(extension|script|all)\.h|PYBIND11_MODULE|TORCH_LIBRARY", text):
            raise RuntimeError(f"cpp_extension: {file} is written against libtorch or pybind11, which are not here; define its functions as XLA FFI "
                               "handlers (XLA_FFI_DEFINE_HANDLER_SYMBOL, docs/extending.md)")
    path = _build(name, sources, list(cflags or ()), list(ldflags or ()), [str(p) for p in includes or ()],
                  Path(build_directory or get_default_build_root()), verbose)
    library = ctypes.CDLL(str(path))
    module = types.ModuleType(name, f"C++ operators of {path}")
    module.__file__ = str(path)
    if isinstance(functions, str):
        functions = [functions]
    specs = functions if isinstance(functions, dict) else dict.fromkeys(functions or ())
    for f, spec in specs.items():
        spec, schema = _spec(f"{name}::{f}", spec)
        setattr(module, f, _operator(f"{name}::{f}", schema, spec, library, path, spec.symbol or f, False))
    module.classes = types.SimpleNamespace(**{c: _class(name, c, methods, library, path) for c, methods in (classes or {}).items()})
    return module


def _digest(*parts) -> str:
    h = hashlib.sha256()
    for p in parts:
        h.update(p if isinstance(p, bytes) else str(p).encode())
        h.update(b"\0")
    return h.hexdigest()


def _build(name, sources, cflags, ldflags, includes, root, verbose) -> Path:
    """The shared library of the sources: found in the cache, else compiled into it."""
    compiler = get_compiler()
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    # GCC makes statics of templates and inline functions one for the whole process, also between libraries that are strangers.
    own = [] if "clang" in version else ["-fno-gnu-unique"]
    flags = ["-std=c++17", "-O2", "-fPIC", "-shared", *own, *cflags]
    key = _digest(HEADER, *[x for f, t, p in sources for x in (f, t, p)], flags, ldflags, includes, version, jax.__version__)[:32]
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    found = _cached(folder, key)
    if found is not None:
        return found
    with _lock(folder / f"{key}.lock"):
        found = _cached(folder, key)  # another process may have built it meanwhile
        if found is not None:
            return found
        with tempfile.TemporaryDirectory(dir=folder) as work:
            files = _write(Path(work), sources)
            out = Path(work) / "library.so"
            heads = [a for p in (*includes, work, *include_paths()) for a in ("-I", p)]
            seen = []
            objects = []
            for k, f in enumerate(files):
                objects.append(f"{work}/{k}.o")
                command = [compiler, *[x for x in flags if x != "-shared"], *heads, "-MMD", "-MF", f"{work}/{k}.d", "-c", str(f), "-o", objects[-1]]
                _run(name, command, verbose)
                seen += _depends(Path(work) / f"{k}.d")
            _run(name, [compiler, *flags, *objects, "-o", str(out), *ldflags], verbose)
            skip = (str(Path(work).resolve()), str(Path(include_paths()[0]).resolve()))
            deps = {p: _digest(Path(p).read_bytes()) for p in sorted({str(Path(p).resolve()) for p in seen}) if not p.startswith(skip)}
            final = f"{name}-{_digest(key, sorted(deps.items()))[:32]}.so"
            manifest = Path(work) / "manifest.json"
            manifest.write_text(json.dumps({"library": final, "depends": deps}))
            os.replace(out, folder / final)
            os.replace(manifest, folder / f"{key}.json")
            return folder / final


def _cached(folder, key):
    """The library that the manifest of a key names, when the headers that it was built from are as they were."""
    manifest = folder / f"{key}.json"
    if not manifest.exists():
        return None
    told = json.loads(manifest.read_text())
    for p, digest in told["depends"].items():
        if not os.path.exists(p) or _digest(Path(p).read_bytes()) != digest:
            return None
    path = folder / told["library"]
    return path if path.exists() else None


@contextlib.contextmanager
def _lock(path):
    """One process at a time, where files can be locked; elsewhere each builds for itself and the last rename stays."""
    try:
        import fcntl
    except ModuleNotFoundError:
        yield
        return
    with open(path, "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def _write(work, sources):
    (work / "lazy_tensor.h").write_text(HEADER)
    files = []
    for k, (file, text, path) in enumerate(sources):
        if path is None:
            path = work / f"{k}_{file}"
            path.write_text(text)
        files.append(path)
    return files


def _run(name, command, verbose):
    if verbose:
        print(" ".join(command))
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    if done.returncode:
        raise RuntimeError(f"Error building extension '{name}': {' '.join(command)}\n{done.stdout}{done.stderr}")
    if verbose and done.stderr:
        print(done.stderr)


def _depends(file):
    text = file.read_text().partition(": ")[2].replace("\\\n", " ")
    return [p.replace("\\ ", " ") for p in re.findall(r"(?:\\ |\S)+", text)]


# ------------------------------------------------------------------------------------------- operators


def _spec(qualname, spec):
    """(Function, Schema) of what the user gave for a function."""
    if spec is None:
        spec = Function("(Tensor x) -> Tensor")
    elif isinstance(spec, str):
        spec = Function(spec)
    elif not isinstance(spec, Function):
        if not callable(spec):
            raise TypeError(f"{qualname}: expected a schema, an output function or a Function, got {type(spec).__name__}")
        spec = Function(None, spec)
    if spec.schema is not None:
        schema = parse_schema(qualname, spec.schema)
    elif spec.out is not None:
        schema = Schema(_parameters(qualname, spec.out), (ANY,))
    else:
        schema = parse_schema(qualname, "(Tensor x) -> Tensor")
    for a in schema.args:
        if a.optional or a.mutated or (a.is_list and a.type not in ("Tensor[]", "int[]", "float[]")) or \
                a.type not in ("Tensor", "Tensor[]", "int", "float", "bool", "str", "int[]", "float[]"):
            raise ValueError(f"{qualname}: the argument '{a}' cannot go to an FFI handler; Tensor, Tensor[], int, float, bool, str, int[] and float[] fit")
    return spec, schema


_ATTRIBUTES = {int: "int", float: "float", bool: "bool", str: "str", list[int]: "int[]", list[float]: "float[]", tuple[int, ...]: "int[]",
               tuple[float, ...]: "float[]"}


def _parameters(qualname, out):
    """The arguments that an output function's signature tells of."""
    empty = inspect.Parameter.empty
    args = []
    for p in inspect.signature(out, eval_str=True).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise ValueError(f"{qualname}: the output function must name its parameters; use Function(schema, out) for lists of tensors")
        t = p.annotation if p.annotation is not empty else type(p.default) if p.default is not empty else Tensor
        if p.annotation is empty and p.default is empty and p.kind is p.KEYWORD_ONLY:
            raise ValueError(f"{qualname}: annotate the attribute '{p.name}' of the output function (int, float, bool or str)")
        name = "Tensor" if t is Tensor else _ATTRIBUTES.get(t)
        if name is None:
            raise ValueError(f"{qualname}: the parameter '{p.name}' is annotated {t}; Tensor, int, float, bool, str, list[int] and list[float] fit")
        args.append(Arg(p.name, name, p.default, p.kind is p.KEYWORD_ONLY))
    return args


def _attribute(a, x):
    """A Python value as the FFI attribute that the schema tells."""
    if a.type == "int":
        return np.int64(x)
    if a.type == "float":
        return np.float64(x)
    if a.type == "bool":
        return np.bool_(x)
    if a.type == "str":
        return str(x)
    return np.asarray(x, np.int64 if a.type == "int[]" else np.float64)


def _structs(qualname, got):
    """What an output function gave as shape structs; (structs, whether it was one alone)."""
    one = isinstance(got, Spec) or (isinstance(got, tuple) and len(got) == 2 and not isinstance(got[1], (tuple, list, Spec)))
    outs = []
    for x in [got] if one else got:
        try:
            shape, dtype = x
            outs.append(jax.ShapeDtypeStruct(tuple(int(n) for n in shape), dtypes.to_np(dtype) if isinstance(dtype, dtypes.dtype) else np.dtype(dtype)))
        except (TypeError, ValueError) as e:
            raise RuntimeError(f"{qualname}: the output function gave {x!r} ({e}); a (shape, dtype) an output fits") from e
    return outs, one


class _Handler(CustomOp):
    """An operator whose body is a handler for the CPU: on another platform only tensors of device cpu fit."""

    _placed = False

    def _run(self, args, kw):
        if not self._placed:
            if runtime.xla_devices()[0].platform != "cpu":
                self._kernels["cpu"] = self._kernels.pop(None)
            self._placed = True
        return CustomOp._run(self, args, kw)


_registered: set[str] = set()


def _operator(qualname, schema, spec, library, path, symbol, method) -> CustomOp:
    """A handler of a loaded library as an operator; method: the first buffer in and out is the object's handle."""
    try:
        handler = getattr(library, symbol)
    except AttributeError:
        raise RuntimeError(f"{qualname}: {path} has no symbol {symbol!r}; define it with XLA_FFI_DEFINE_HANDLER_SYMBOL({symbol}, ...)") from None
    target = f"{qualname.replace('::', '.')}.{symbol}.{path.stem.rpartition('-')[2]}"
    if target not in _registered:
        jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(handler), platform="cpu")
        _registered.add(target)
    params = schema.args
    def body(*args, **kw):
        values = [*args, *[kw[a.name] for a in params if a.kwarg_only]]
        arrays, attributes, seen = [], {}, []
        for a, x in zip(params, values, strict=True):
            if a.is_tensor:
                arrays += x if a.is_list else [x]
                specs = [Spec(tuple(y.shape), dtypes.of(np.dtype(y.dtype))) for y in (x if a.is_list else [x])]
                seen.append(specs if a.is_list else specs[0])
            else:
                attributes[a.name] = _attribute(a, x)
                seen.append(x)
        own = 1 if method else 0
        if spec.out is not None:
            asked = list(zip(params, seen, strict=True))[own:]
            outs, one = _structs(qualname, spec.out(*[x for a, x in asked if not a.kwarg_only], **{a.name: x for a, x in asked if a.kwarg_only}))
        else:
            if len(arrays) <= own:
                raise RuntimeError(f"{qualname}: without a tensor argument an output function must say the outputs' shapes")
            count = max(parse_schema(qualname, spec.schema).returns.count("Tensor"), 1) if spec.schema else 1
            outs, one = [jax.ShapeDtypeStruct(arrays[own].shape, arrays[own].dtype)] * count, count == 1
        if method:
            outs, one = [jax.ShapeDtypeStruct((), np.int64), *outs], False
        call = jax.ffi.ffi_call(target, outs, vmap_method=spec.vmap, has_side_effect=spec.side_effect or method)
        got = call(*arrays, **attributes)
        return got[0] if one or schema.returns == ("Tensor",) and len(got) == 1 else tuple(got)
    op = _Handler(qualname, schema, opaque=True)
    op._add_kernel(None, body, "jax")
    return _publish(op)


# ------------------------------------------------------------------------------------------- classes


class _Arg(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int64), ("i", ctypes.c_int64), ("f", ctypes.c_double), ("s", ctypes.c_char_p)]


def _argument(name, x):
    if isinstance(x, (bool, int, np.integer)):
        return _Arg(0, int(x), 0.0, None)
    if isinstance(x, (float, np.floating)):
        return _Arg(1, 0, float(x), None)
    if isinstance(x, str):
        return _Arg(2, 0, 0.0, x.encode())
    raise TypeError(f"{name}(): an argument of type {type(x).__name__} cannot go to C++; int, float, bool and str fit")


class Object:
    """A C++ object. Its methods are operators on tensors; they take effect in the order of the calls when the program runs."""

    def __init__(self, *args):
        cls = type(self)
        _reap()
        error = ctypes.create_string_buffer(512)
        handle = cls._new((_Arg * max(len(args), 1))(*[_argument(cls.__name__, a) for a in args]), len(args), error, 512)
        if handle < 0:
            text = error.value.decode(errors="replace")
            raise (TypeError if text[:1] == "T" else RuntimeError)(f"{cls.__name__}(): {text[1:]}")
        import lazy_tensor as lt
        # The handle as a tensor goes through every method and comes back: that is what orders the calls, in and between programs.
        self._last = [lt.tensor(handle, dtype=lt.int64)]
        self._recorded: set = set()  # devices of recorded functions that called methods since the last call outside
        done = weakref.finalize(self, _bury, cls._delete, handle, self._last)
        done.atexit = False

    def __reduce__(self):
        raise TypeError(f"a C++ {type(self).__name__} object cannot be pickled or copied: its state is in this process")

    def _call(self, op, args, kw):
        capture = modes.capture
        if capture is None and self._recorded:
            _settle(self._recorded)
        inner = {} if capture is None else _inner.setdefault(capture, {})
        token = inner.get(id(self), self._last[0])
        like = next((x for x in (*args, *kw.values()) if isinstance(x, Tensor)), None)
        if like is not None and like.device != token.device:
            token = token.to(like.device)
        token, *outs = op(token, *args, **kw)
        if capture is None:
            self._last[0] = token
        else:
            inner[id(self)] = token
            self._recorded.add(capture.device)
        return outs[0] if len(outs) == 1 else tuple(outs) if outs else None


# The last handles of objects in the functions that are being recorded: not kept longer, a handle from there has no value outside.
_inner: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _settle(devices):
    """Run what recorded functions did before a call outside: no value of theirs comes out that could order the two."""
    for d in devices:
        sync(d, "a call of a C++ object after calls in a recorded function")
    runtime.synchronize()
    jax.effects_barrier()
    devices.clear()


_buried: list = []


def _bury(delete, handle, last):
    _buried.append((delete, handle, last))
    _reap()


def _reap():
    """Destroy the objects whose calls have run."""
    waiting = []
    while _buried:
        item = _buried.pop()
        v = item[2][0]._v
        if v.data is None or v.aval.device.graph.pending or not getattr(v.data, "is_ready", lambda: True)():
            waiting.append(item)
        else:
            item[0](item[1])
    _buried.extend(waiting)


def _class(namespace, name, methods, library, path):
    """The Python class of a C++ class declared with LT_CLASS."""
    try:
        new, delete, count = (getattr(library, f"{name}_{s}") for s in ("new", "delete", "count"))
    except AttributeError:
        raise RuntimeError(f"{namespace}: {path} does not declare the class {name!r}; add LT_CLASS({name}, types of the constructor's arguments...)") from None
    new.restype, new.argtypes = ctypes.c_int64, [ctypes.POINTER(_Arg), ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64]
    delete.restype, delete.argtypes = None, [ctypes.c_int64]
    count.restype, count.argtypes = ctypes.c_int64, []
    ops = {}
    members = {"__module__": namespace, "__doc__": f"The C++ class {name} of {namespace}.", "_new": new, "_delete": delete,
               "live": staticmethod(lambda: int(count()))}
    for m, spec in (methods if isinstance(methods, dict) else dict.fromkeys(methods)).items():
        spec, schema = _spec(f"{namespace}::{name}_{m}", spec)
        own = Schema([Arg("self", "Tensor"), *schema.args], (ANY,))
        op = ops[m] = _operator(f"{namespace}::{name}_{m}", own, spec, library, path, spec.symbol or f"{name}_{m}", True)
        members[m] = _method(m, op)
    members["ops"] = types.SimpleNamespace(**ops)
    return type(name, (Object,), members)


def _method(name, op):
    def method(self, *args, **kw):
        return self._call(op, args, kw)
    method.__name__ = name
    method.__doc__ = f"The handler {op._qualname}{op._schema}, where self is the object's handle."
    return method


__getattr__ = missing("utils.cpp_extension", globals())

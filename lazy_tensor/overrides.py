"""torch.overrides: questions about tensor-like objects, and about what of torch's interface is here.

Ops do not ask `__torch_function__`. `missing()` lists torch's public names that this library has not; `nearest()` says what fits instead.
"""
from __future__ import annotations

import difflib
import functools
import importlib
from functools import cache

from lazy_tensor.tensor import Tensor

__all__ = ["get_default_nowrap_functions", "get_ignored_functions", "get_overridable_functions", "get_testing_overrides", "handle_torch_function",
           "has_torch_function", "is_tensor_like", "is_tensor_method_or_property", "missing", "namespaces", "nearest", "resolve_name", "wrap_torch_function"]


def is_tensor_like(inp) -> bool:
    """Whether inp is a Tensor or has `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def has_torch_function(relevant_args) -> bool:
    """Whether one of the arguments, other than plain Tensors, has `__torch_function__`."""
    return any(type(a) is not Tensor and hasattr(type(a), "__torch_function__") for a in relevant_args)


def has_torch_function_unary(x) -> bool:
    """`has_torch_function` of one argument."""
    return has_torch_function((x,))


def has_torch_function_variadic(*args) -> bool:
    """`has_torch_function` of several arguments."""
    return has_torch_function(args)


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """What the first of relevant_args that answers for public_api gives: each type is asked once, subclasses before their bases.

    Raises TypeError when all of them give NotImplemented."""
    asked: list = []
    for a in relevant_args:
        kind = type(a)
        if kind is Tensor or not hasattr(kind, "__torch_function__") or any(type(b) is kind for b in asked):
            continue
        at = next((i for i, b in enumerate(asked) if issubclass(kind, type(b))), len(asked))
        asked.insert(at, a)
    types = tuple(type(a) for a in asked)
    for a in asked:
        result = a.__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = getattr(public_api, "__qualname__", repr(public_api))
    raise TypeError(f"no implementation found for '{name}' on types that implement __torch_function__: {[t.__name__ for t in types]}")


def wrap_torch_function(dispatcher):
    """A decorator: the function first asks the arguments that dispatcher(*args, **kwargs) names for `__torch_function__`."""
    def inner(func):
        @functools.wraps(func)
        def wrapped(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            return handle_torch_function(wrapped, relevant, *args, **kwargs) if has_torch_function(relevant) else func(*args, **kwargs)
        return wrapped
    return inner


def get_default_nowrap_functions() -> set:
    """Properties whose results a subclass would not wrap."""
    return {Tensor._base, Tensor.grad}


def is_tensor_method_or_property(func) -> bool:
    """Whether func is one of Tensor's methods or property getters."""
    return any(v is func or getattr(v, "fget", None) is func for v in vars(Tensor).values())


# --------------------------------------------------------------------------------- what there is

_OPS = ("", "nn.functional", "linalg", "fft", "special", "signal.windows", "masked")
_IGNORED = ("arange as_tensor empty empty_permuted empty_strided eye full linspace logspace ones rand randint randn randperm range scalar_tensor tensor "
            "tril_indices triu_indices zeros from_numpy frombuffer asarray from_dlpack bartlett_window blackman_window hamming_window hann_window "
            "kaiser_window can_cast promote_types broadcast_shapes is_grad_enabled set_grad_enabled get_default_dtype set_default_dtype "
            "get_default_device set_default_device manual_seed seed initial_seed get_rng_state set_rng_state is_tensor save load sync").split()


def _module(path: str):
    """The library's namespace at a path ("" is lazy_tensor itself), or None."""
    if path == "Tensor":
        return Tensor
    try:
        return importlib.import_module("lazy_tensor" + (f".{path}" if path else ""))
    except ModuleNotFoundError:
        return None


def _ops(path: str) -> dict[str, object]:
    from lazy_tensor.ops import _define
    return {n: f for n, f in _define.namespace(path).items() if not n.startswith("_") and not isinstance(f, type)}


def get_ignored_functions() -> set:
    """Public functions that take no Tensor to ask: creation, streams, settings (torch.overrides.get_ignored_functions)."""
    home = _module("")
    windows = _module("signal.windows")
    return {getattr(home, n) for n in _IGNORED if hasattr(home, n)} | {getattr(windows, n) for n in _ops("signal.windows")}


def get_overridable_functions() -> dict:
    """Functions over Tensors by namespace, and Tensor's methods: `{module or class: [functions]}` (torch.overrides.get_overridable_functions)."""
    ignored = get_ignored_functions()
    out: dict = {}
    for path in _OPS:
        found = [f for _, f in sorted(_ops(path).items()) if f not in ignored]
        if found:
            out[_module(path)] = found
    out[Tensor] = [f for n, f in sorted(vars(Tensor).items()) if callable(f) and not n.startswith("_")]
    return out


def get_testing_overrides() -> dict:
    """Every overridable function -> a function that takes anything and gives -1 (torch.overrides.get_testing_overrides)."""
    def anything(*args, **kw):
        return -1
    return {f: anything for fs in get_overridable_functions().values() for f in fs}


@cache
def _names() -> dict[int, str]:
    """id of a public function -> its name in torch; a function with several names has the first by namespace, then by its own `__name__`."""
    out: dict[int, str] = {}
    for path in _OPS:
        for n, f in sorted(_ops(path).items(), key=lambda item: (item[0] != getattr(item[1], "__name__", ""), item[0])):
            out.setdefault(id(f), f"torch.{path + '.' if path else ''}{n}")
    for n, f in vars(Tensor).items():
        out.setdefault(id(f), f"torch.Tensor.{n}")
    return out


def resolve_name(f) -> str | None:
    """A function's name as torch writes it (`torch.nn.functional.relu`, `torch.Tensor.add_`); None for what is neither op nor method."""
    return _names().get(id(f))


# --------------------------------------------------------------------------------- what there is not


def namespaces() -> list[str]:
    """The namespaces that `missing` knows, as paths under torch ("" is torch itself)."""
    from lazy_tensor._torch_names import NAMES
    return list(NAMES)


def missing(namespace: str | None = None) -> dict[str, list[str]]:
    """torch's public names that are not here, by namespace: of one ("nn.functional", "Tensor", "" for torch itself) or of all.

    A namespace without a gap is left out; one that is absent has all its names. Raises ValueError for a namespace that is not known."""
    from lazy_tensor._torch_names import NAMES
    if namespace is not None:
        namespace = namespace.removeprefix("torch").removeprefix(".")
        if namespace not in NAMES:
            raise ValueError(f"missing(): no list of torch.{namespace}; there are {', '.join('torch.' + n if n else 'torch' for n in NAMES)}")
    out = {}
    for path in NAMES if namespace is None else (namespace,):
        home = _module(path)
        gaps = [n for n in NAMES[path] if home is None or not hasattr(home, n)]
        if gaps:
            out[path] = gaps
    return out


def nearest(name: str, count: int = 5) -> list[str]:
    """The names here most like one of torch's ("torch.nn.functional.conv4d", "Tensor.unsqeeze"): first of its own namespace, then of all."""
    path, _, last = name.removeprefix("torch.").rpartition(".")
    own = _module(path)
    found = [] if own is None else difflib.get_close_matches(last, [n for n in dir(own) if not n.startswith("_")], count, 0.6)
    out = [f"{path}.{n}" if path else n for n in found]
    for other in namespaces():
        home = _module(other)
        if other != path and home is not None and not last.startswith("_") and last in dir(home):
            out.append(f"{other}.{last}" if other else last)
    return out[:count]

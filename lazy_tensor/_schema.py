"""Schemas of custom operators: read off annotations or from torch's schema text, checked against what a call gives."""
from __future__ import annotations

import ast
import collections.abc
import inspect
import numbers
import re
import types
import typing

import jax

from lazy_tensor import types as types_
from lazy_tensor.devices import device
from lazy_tensor.dtypes import dtype, names
from lazy_tensor.tensor import Tensor

_BASE = {Tensor: "Tensor", jax.Array: "Tensor", int: "int", float: "float", bool: "bool", str: "str", dtype: "ScalarType",
         device: "Device", numbers.Number: "Scalar"}
_FITS = {"Tensor": Tensor, "int": int, "float": (float, int), "bool": bool, "str": str, "ScalarType": dtype, "Device": (device, str),
         "Scalar": (bool, int, float, complex)}
_TYPES = {**{b + s: b for b in _FITS for s in ("", "?", "[]", "[]?")}, "Tensor?[]": "Tensor"}

ANY = "..."  # the returns of an operator whose body alone knows how many tensors there are


class Arg:
    """One argument of a schema."""

    __slots__ = ("name", "type", "default", "required", "kwarg_only", "mutated", "is_tensor", "is_list", "optional", "fits")

    def __init__(self, name, type, default=inspect.Parameter.empty, kwarg_only=False, mutated=False):
        self.name, self.type, self.kwarg_only, self.mutated = name, type, kwarg_only, mutated
        self.required = default is inspect.Parameter.empty
        self.default = None if self.required else default
        base = _TYPES[type]
        self.is_tensor = base == "Tensor"
        self.is_list = "[]" in type
        self.optional = type.endswith("?")
        self.fits = _FITS[base]

    def __str__(self):
        text = self.type.replace("int", "SymInt") if not self.mutated else self.type.replace("Tensor", "Tensor(a!)", 1)
        return f"{text} {self.name}" + ("" if self.required else f"={self.default!r}")

    def accepts(self, x) -> bool:
        """Whether a value fits."""
        if x is None:
            return self.optional
        if self.is_list:
            if not isinstance(x, (list, tuple)):
                return False
            return all(isinstance(y, self.fits) or (y is None and self.type == "Tensor?[]") for y in x)
        if type(x) is bool and self.type.startswith(("int", "float")):
            return False
        return isinstance(x, self.fits) or (not self.is_tensor and isinstance(x, Tensor) and x.numel() == 1 and self.fits not in (str, dtype))


class Schema:
    """Arguments and returns: `returns` is a tuple of "Tensor", ("Tensor[]",) for one list, (ANY,), or ()."""

    __slots__ = ("args", "returns")

    def __init__(self, args, returns):
        self.args, self.returns = tuple(args), tuple(returns)

    def __str__(self):
        parts, star = [], False
        for a in self.args:
            if a.kwarg_only and not star:
                parts.append("*")
                star = True
            parts.append(str(a))
        r = self.returns[0] if len(self.returns) == 1 else f"({', '.join(self.returns)})"
        return f"({', '.join(parts)}) -> {r}"

    @property
    def mutated(self):
        """The names of the arguments that are written to."""
        return tuple(a.name for a in self.args if a.mutated)


def _type_name(t):
    """The schema's name of an annotation, or None."""
    if t in _BASE:
        return _BASE[t]
    if t == types_.Number:
        return "Scalar"
    origin, args = typing.get_origin(t), typing.get_args(t)
    if origin in (typing.Union, types.UnionType):
        rest = [a for a in args if a is not type(None)]
        if len(rest) == len(args) - 1:
            inner = _type_name(rest[0] if len(rest) == 1 else typing.Union[tuple(rest)])  # noqa: UP007 - built at run time
            return inner + "?" if inner and not inner.endswith("?") and inner + "?" in _TYPES else None
        return None
    if origin in (list, collections.abc.Sequence) and args:
        inner = _type_name(args[0])
        return inner + "[]" if inner and inner + "[]" in _TYPES else None
    return None


def infer_schema(prototype_function, /, *, mutates_args=(), op_name=None) -> str:
    """The schema text of a function's annotations (torch.library.infer_schema).

    Raises ValueError when an annotation is missing or not one of Tensor, int, float, bool, str, Number, dtype, device, their
    Optional and Sequence forms."""
    return (op_name or "") + str(schema_of(prototype_function, mutates_args))


def schema_of(fn, mutates_args=()) -> Schema:
    """The schema of a function's annotations."""
    sig = inspect.signature(fn)

    def fail(text):
        raise ValueError(f"infer_schema(func): {text}. Got func with signature {sig}")
    try:
        hints = typing.get_type_hints(fn)
    except NameError as e:
        fail(f"an annotation cannot be read where the function was defined ({e}); give schema=")
    args = []
    for p in sig.parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY):
            fail("We do not support positional-only args, varargs, or varkwargs")
        if p.name not in hints:
            fail(f"Parameter {p.name} must have a type annotation")
        t = _type_name(hints[p.name])
        if t is None:
            fail(f"Parameter {p.name} has unsupported type {p.annotation}. The valid types are Tensor, int, float, bool, str, Number, dtype, "
                 "device, and Optional[...] and Sequence[...] of them")
        mutated = mutates_args == "unknown" and t.startswith("Tensor") or mutates_args != "unknown" and p.name in mutates_args
        args.append(Arg(p.name, t, p.default, p.kind is p.KEYWORD_ONLY, mutated))
        if mutated and not args[-1].is_tensor:
            fail(f"Parameter {p.name} is in mutable_args but only Tensors or collections of Tensors can be mutated")
    lost = set() if mutates_args == "unknown" else set(mutates_args) - {a.name for a in args}
    if lost:
        fail(f"{lost} in mutates_args were not found in the custom op's signature. mutates_args should contain the names of all args that "
             "the custom op mutates, or just the string 'unknown' if you don't know")
    if "return" not in hints:
        fail("No return type annotation was provided. Please add one")
    r = hints["return"]
    if r is type(None):
        returns: tuple = ()
    elif typing.get_origin(r) is tuple:
        returns = tuple(_type_name(x) for x in typing.get_args(r))
        if not all(x == "Tensor" for x in returns):
            fail(f"Return has unsupported type {r}. Tensor, a tuple of Tensors, one list of Tensors or None fit")
    else:
        returns = (_type_name(r),)
        if returns[0] not in ("Tensor", "Tensor[]"):
            fail(f"Return has unsupported type {r}. Tensor, a tuple of Tensors, one list of Tensors or None fit")
    return Schema(args, returns)


_ARG = re.compile(r"^(?P<base>\w+)(?P<alias>\([a-z]\d*(!?)(?:\s*->\s*[^)]*)?\))?(?P<suffix>(?:\[\d*\])?\??(?:\[\d*\])?\??)\s+(?P<name>\w+)\s*(?:=\s*(?P<default>.+))?$")


def parse_schema(op, text, mutates_args=()) -> Schema:
    """A schema from its text, "(Tensor x, *, float a=1.0) -> Tensor"; mutates_args adds to the marks in the text."""
    m = re.match(r"^\s*(?:[\w:.]+)?\s*\((?P<args>.*)\)\s*->\s*(?P<returns>.+?)\s*$", text, re.S)
    if m is None:
        raise ValueError(f"{op}: cannot read the schema {text!r}; '(Tensor x, float a=1.0) -> Tensor' would fit")
    args, kwarg_only = [], False
    for part in _split(m["args"]):
        if part == "*":
            kwarg_only = True
            continue
        a = _ARG.match(part)
        name = a and {"SymInt": "int", "SymBool": "bool"}.get(a["base"], a["base"]) + re.sub(r"\d", "", a["suffix"])
        if not a or name not in _TYPES:
            raise ValueError(f"{op}: cannot read the argument {part!r} of the schema {text!r}")
        try:
            default = inspect.Parameter.empty if a["default"] is None else _default(name, a["default"])
        except (SyntaxError, ValueError, KeyError):
            raise ValueError(f"{op}: cannot read the default in {part!r}; a Python literal (for ScalarType a dtype's name) fits") from None
        mutated = bool(a["alias"] and "!" in a["alias"]) or (mutates_args != "unknown" and a["name"] in mutates_args)
        args.append(Arg(a["name"], name, default, kwarg_only, mutated))
    r = m["returns"]
    returns = tuple(re.sub(r"\s+\w+$", "", x) for x in (_split(r[1:-1]) if r.startswith("(") else [r]))
    if returns != ("Tensor[]",) and any(x != "Tensor" for x in returns):
        raise ValueError(f"{op}: cannot return {r}; Tensor, a tuple of Tensors, one Tensor[] or () fit")
    return Schema(args, returns)


def _default(name, text):
    if name == "ScalarType" and text != "None":
        return names[text.strip().removeprefix("torch.")]
    return ast.literal_eval(text)


def _split(text):
    """The parts between commas outside of brackets and quotes."""
    parts, depth, quote, now = [], 0, "", ""
    for c in text:
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        if c == "," and not depth and not quote:
            parts.append(now.strip())
            now = ""
        else:
            now += c
    return [p for p in [*parts, now.strip()] if p]

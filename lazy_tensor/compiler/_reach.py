"""What a function can reach from its closure, globals, defaults and arguments: the tensors that it may read or write, and the
Python values that it may branch on.

`Reach` walks once while a step is recorded. `checks` are then compared before each replay at C speed: the items of each
dict or object that hold plain values must be equal, those that hold objects must be the same objects.
"""
from __future__ import annotations

import operator
import types
from collections import deque
from operator import itemgetter

import numpy as np

from lazy_tensor import devices, dtypes
from lazy_tensor.layouts import layout, memory_format
from lazy_tensor.nn.module import Module
from lazy_tensor.optim.lr_scheduler import LRScheduler
from lazy_tensor.optim.optimizer import Elementwise, Optimizer
from lazy_tensor.tensor import Tensor
from xla_backend.random import Generator

_PLAIN = (int, float, complex, bool, str, bytes, type(None), np.generic, np.dtype, dtypes.dtype, devices.device, layout, memory_format, slice,
          type(Ellipsis), range)
_CODE = (types.FunctionType, types.MethodType)
_SKIP = (types.ModuleType, type, types.BuiltinFunctionType, Generator, LRScheduler, types.GeneratorType, types.CodeType, types.FrameType)
_LIBRARY = ("lazy_tensor", "xla_backend", "jax", "jaxlib", "numpy", "builtins", "functools", "typing", "contextlib", "collections")
_LIMIT = 100_000


def _library(module):
    return (module or "").split(".", 1)[0] in _LIBRARY


class Check:
    """Items of one dict that must be as they were: equal if plain, the same object otherwise."""

    __slots__ = ("where", "table", "keys", "get", "expected", "same", "size")

    def __init__(self, where, table, items, same, size=None):
        self.where, self.table, self.size = where, table, size
        self.keys = [k for k, _ in items]
        self.get = itemgetter(*self.keys) if items else None
        values = tuple(v for _, v in items)
        self.expected = values if len(values) != 1 else values[0]
        self.same = same

    def holds(self):
        """Whether nothing has changed."""
        if self.size is not None and len(self.table) != self.size:
            return False
        if self.get is None:
            return True
        try:
            now = self.get(self.table)
        except (KeyError, IndexError):
            return False
        if not self.same:
            return now == self.expected
        if len(self.keys) == 1:
            return now is self.expected
        return all(map(operator.is_, now, self.expected))

    def said(self):
        """What changed, for `explain`."""
        for k, old in zip(self.keys, self.expected if len(self.keys) != 1 else (self.expected,), strict=True):
            try:
                now = self.table[k]
            except (KeyError, IndexError):
                return f"{self.where}: {_short(k)} is gone"
            if (now is not old) if self.same else now != old:
                return f"{self.where}: {_short(k)} is {_short(now)}, was {_short(old)}"
        return f"{self.where} has {len(self.table)} items, had {self.size}"


def _short(x):
    text = repr(x) if isinstance(x, _PLAIN) else f"another {type(x).__name__}"
    return text if len(text) < 60 else text[:57] + "..."


class Reach:
    """The walk. `tensors`: id -> tensor; `places`: where a tensor sits that may be replaced, (container, key, tensor);
    `checks`: what must be unchanged for a replay."""

    def __init__(self, roots):
        self.tensors: dict[int, Tensor] = {}
        self.places: list[tuple] = []
        self.checks: list[Check] = []
        self.seen: set[int] = set()
        self.keep: list = []  # ids stay valid while the walk lasts
        queue = deque(roots)
        while queue and len(self.seen) < _LIMIT:
            name, x = queue.popleft()
            if isinstance(x, _PLAIN) or id(x) in self.seen:
                continue
            self.seen.add(id(x))
            self.keep.append(x)
            self._visit(name, x, queue)
        self.keep = []

    def _visit(self, name, x, queue):
        if isinstance(x, Tensor):
            self.tensors[id(x)] = x
        elif isinstance(x, _SKIP):
            return
        elif isinstance(x, Module):
            skip = {"_parameters", "_buffers", "_modules", "_compiled_call_impl", "_orig_mod"}
            self._table(name, x.__dict__, queue, skip)
            for k in ("_parameters", "_buffers", "_modules"):
                self._table(f"{name}", x.__dict__[k], queue, sized=True)
            if not _library(type(x).__module__):
                self._class(name, type(x), queue)
        elif isinstance(x, Optimizer):
            self._optimizer(name, x, queue)
        elif isinstance(x, types.MethodType):
            queue.append((name, x.__self__))
            queue.append((name, x.__func__))
        elif isinstance(x, types.FunctionType):
            self._function(name, x, queue)
        elif isinstance(x, (dict, types.MappingProxyType)):
            self._table(name, x, queue, sized=True)
        elif isinstance(x, (list, tuple, deque)):
            self._sequence(name, x, queue)
        elif isinstance(x, (set, frozenset)):
            items = sorted(map(repr, x)) if all(isinstance(i, _PLAIN) for i in x) else None
            if items is not None:
                self.checks.append(Check(name, _Now(lambda x=x: sorted(map(repr, x))), [(0, items)], False))
        elif hasattr(x, "func") and hasattr(x, "args") and hasattr(x, "keywords"):  # functools.partial
            queue.extend(((name, x.func), (name, x.args), (name, x.keywords)))
        elif isinstance(x, np.ndarray):
            if x.size <= 4096:
                self.checks.append(Check(name, _Now(x.tobytes), [(0, x.tobytes())], False))
        elif not _library(type(x).__module__) and hasattr(x, "__dict__"):
            self._table(name, x.__dict__, queue)
            self._class(name, type(x), queue)
        elif hasattr(x, "__wrapped__"):
            queue.append((name, x.__wrapped__))

    def _optimizer(self, name, x, queue):
        self.checks += [Check(name, x.__dict__, [("state", x.state), ("param_groups", x.param_groups)], True),
                        Check(f"{name}.state", x.state, list(x.state.items()), True, len(x.state))]
        if not isinstance(x, Elementwise):
            queue.append((f"{name}.param_groups", x.param_groups))
            queue.extend((f"{name}.state", s) for s in x.state.values())
            return
        # Numbers are read again at each replay; tensors are state.
        self.checks.append(Check(f"{name}.param_groups", x.param_groups, list(enumerate(x.param_groups)), True, len(x.param_groups)))
        for g in x.param_groups:
            queue.extend((name, p) for p in g["params"])
        for p, state in x.state.items():
            queue.append((name, p))
            for k, t in state.items():
                if isinstance(t, Tensor) and k != "step":
                    self.tensors[id(t)] = t
                    self.places.append((state, k, t))

    def _table(self, name, table, queue, skip=frozenset(), sized=False):
        plain, same = [], []
        for k, v in table.items():
            if k in skip:
                continue
            if isinstance(v, _PLAIN):
                plain.append((k, v))
            elif isinstance(v, Tensor):
                self.places.append((table, k, v))
                queue.append((f"{name}.{k}", v))
            else:
                if not isinstance(v, _CODE):
                    same.append((k, v))
                queue.append((f"{name}.{k}", v))
        self._check(name, table, plain, same, sized)

    def _check(self, name, table, plain, same, sized):
        size = len(table) if sized else None
        if plain or size is not None:
            self.checks.append(Check(name, table, plain, False, size))
        if same:
            self.checks.append(Check(name, table, same, True))

    def _sequence(self, name, x, queue):
        plain, same = [], []
        for k, v in enumerate(x):
            if isinstance(v, _PLAIN):
                plain.append((k, v))
            elif isinstance(v, Tensor):
                if isinstance(x, (list, deque)):
                    self.places.append((x, k, v))
                queue.append((f"{name}[{k}]", v))
            else:
                same.append((k, v))
                queue.append((f"{name}[{k}]", v))
        if not isinstance(x, tuple):
            self._check(name, x, plain, same, True)

    def _function(self, name, f, queue):
        for cell_name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            try:
                v = cell.cell_contents
            except ValueError:
                continue
            self._cell(cell_name, cell, v, queue)
        for v in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()):
            queue.append((f"{name}'s default", v))
        if hasattr(f, "__wrapped__"):
            queue.append((name, f.__wrapped__))
        if _library(f.__module__):
            return
        table = f.__globals__
        names = set()
        codes = [f.__code__]
        while codes:
            c = codes.pop()
            names.update(c.co_names)
            codes += [k for k in c.co_consts if isinstance(k, types.CodeType)]
        found = {k: table[k] for k in sorted(names) if k in table}
        plain = [(k, v) for k, v in found.items() if isinstance(v, _PLAIN)]
        same = [(k, v) for k, v in found.items() if not isinstance(v, (*_PLAIN, Tensor))]
        for k, v in found.items():
            if isinstance(v, Tensor):
                self.places.append((table, k, v))
            if isinstance(v, type):
                self._class(k, v, queue)
            queue.append((k, v))
        if plain or same:
            self._check(f"{name}'s globals", table, plain, same, False)

    def _cell(self, name, cell, v, queue):
        table = _Cell(cell)
        if isinstance(v, Tensor):
            self.places.append((table, "cell_contents", v))
        else:
            self.checks.append(Check(f"the variable {name}", table, [("cell_contents", v)], not isinstance(v, _PLAIN)))
        queue.append((name, v))

    def _class(self, name, cls, queue):
        """What the methods of a user's class refer to, and its plain class attributes."""
        for c in cls.__mro__:
            if _library(c.__module__) or id(c) in self.seen:
                continue
            self.seen.add(id(c))
            self.keep.append(c)
            plain = [(k, v) for k, v in vars(c).items() if isinstance(v, _PLAIN) and not k.startswith("__")]
            if plain:
                self.checks.append(Check(f"class {c.__name__}", vars(c), plain, False))
            for k, v in vars(c).items():
                f = getattr(v, "__func__", v)
                f = getattr(f, "fget", f)
                if isinstance(f, types.FunctionType):
                    queue.append((f"{c.__name__}.{k}", f))


class _Cell:
    """A closure's cell as a table of one item."""

    __slots__ = ("cell",)

    def __init__(self, cell):
        self.cell = cell

    def __getitem__(self, key):
        return self.cell.cell_contents

    def __setitem__(self, key, value):
        self.cell.cell_contents = value

    def __len__(self):
        return 1


def identity(container):
    """What tells containers apart."""
    return id(container.cell if type(container) is _Cell else container)


class _Now:
    """What a function returns now, as a table of one item."""

    __slots__ = ("fn",)

    def __init__(self, fn):
        self.fn = fn

    def __getitem__(self, key):
        return self.fn()

    def __len__(self):
        return 1

"""A pickle machine that only builds data: every name it may call is in a table, and nothing else is ever called."""
from __future__ import annotations

import io
import pickle
import pickletools
from collections import Counter, OrderedDict, defaultdict
from types import BuiltinFunctionType, FunctionType

import numpy as np

_DICTS = (dict, OrderedDict, defaultdict, Counter)
_FACTORIES = {f"{m}.{t.__name__}": t for m in ("builtins", "__builtin__")
              for t in (list, dict, int, float, str, bool, tuple, set, complex, bytearray)}
MODULE_HINT = ("Save a Module by its weights: lazy_tensor.save(model.state_dict(), path), "
                "and read them with model.load_state_dict(lazy_tensor.load(path)).")


class Token:
    """A name that a file may call and that has no object of ours behind it."""

    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


def refuse(name):
    """The error of a name that the machine may not touch."""
    if name.startswith("torch.nn.modules."):
        return pickle.UnpicklingError(f"Weights only load failed: the file holds a whole Module of PyTorch's (it names {name}). "
                                      f"{MODULE_HINT}")
    first = f"Unsupported global: GLOBAL {name} was not an allowed global by default; only tensors and plain containers are."
    if name.startswith(("lazy_tensor.nn.", "__main__.")):
        first = f"the file holds a whole Module or another object (it names {name}). {MODULE_HINT}"
    return pickle.UnpicklingError(
        f"Weights only load failed: {first} If you trust the file, allow the name with lazy_tensor.serialization."
        f"add_safe_globals([{name}]), or pass weights_only=False, which can run any code in it.")


def _set(items=()):
    out = set()
    for x in items:
        out.add(_key(x))
    return out


def _counter(items=()):
    if not isinstance(items, dict):
        raise pickle.UnpicklingError("Weights only load failed: a Counter must be made from a dict")
    return Counter(items)


def _ordered(items=()):
    out = OrderedDict()
    for k, v in items:
        out[_key(k)] = v
    return out


def _default(factory=None):
    if factory is not None and factory not in _FACTORIES.values():
        raise pickle.UnpicklingError(f"Weights only load failed: a defaultdict of {factory!r}; only plain types fit")
    return defaultdict(factory)


def _encode(text, encoding="latin1"):
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError(f"Weights only load failed: _codecs.encode with encoding {encoding!r}; only 'latin1' fits")
    return text.encode("latin1")


def _bytearray(data=b""):
    if not isinstance(data, (bytes, bytearray)):  # an int would allocate whatever it says
        raise pickle.UnpicklingError("Weights only load failed: a bytearray must be made from bytes")
    return bytearray(data)


def _complex(real=0.0, imag=0.0):
    return complex(float(real), float(imag))


# what may be called: the object that the name stands for -> how the machine makes one
_CALLS = {set: _set, Counter: _counter, OrderedDict: _ordered, defaultdict: _default, bytearray: _bytearray, complex: _complex,
          _encode: _encode}
_NAMES = {**_FACTORIES, "collections.OrderedDict": OrderedDict, "collections.defaultdict": defaultdict,
          "collections.Counter": Counter, "_codecs.encode": _encode}


def _key(k, depth=0):
    """A dict key or set member: hashing one must be cheap."""
    if isinstance(k, tuple):
        if depth > 4:
            raise pickle.UnpicklingError("Weights only load failed: a key is a deeply nested tuple")
        for x in k:
            _key(x, depth + 1)
    return k


class Machine:
    """Runs one pickle from a stream.

    names: dotted name -> object, beside the plain ones; calls: object -> function that makes one from REDUCE's
    arguments; persistent: what turns a persistent id into a value; safe: classes and functions that the user vouches for.
    """

    def __init__(self, names, calls, persistent, safe=None):
        self.names, self.calls, self.persistent = {**_NAMES, **names}, {**_CALLS, **calls}, persistent
        self.safe = safe or {}
        self.trusted = tuple(v for v in self.safe.values() if isinstance(v, type))
        self.stack, self.marks, self.memo = [], [], {}

    def load(self, stream):
        """The object of the next pickle in the stream; UnpicklingError for anything that is not plain data."""
        try:
            for opcode, arg, _pos in pickletools.genops(stream):
                if opcode.name == "STOP":
                    return self.stack.pop()
                run = _OPCODES.get(opcode.name)
                if run is None:
                    raise pickle.UnpicklingError(f"Weights only load failed: Unsupported operand {opcode.name}")
                run(self, arg)
        except (IndexError, KeyError, ValueError, TypeError, AttributeError, OverflowError, UnicodeError) as e:
            raise pickle.UnpicklingError(f"Weights only load failed: the pickle is corrupt ({type(e).__name__}: {e})") from e
        raise pickle.UnpicklingError("Weights only load failed: the pickle is truncated")

    def find(self, name):
        """The object that a dotted name stands for."""
        found = self.names.get(name, self.safe.get(name))
        if found is None:
            raise refuse(name)
        return found

    def call(self, fn, args):
        """fn(*args) for what the tables allow."""
        if not isinstance(args, tuple):
            raise pickle.UnpicklingError("Weights only load failed: REDUCE without an argument tuple")
        if isinstance(fn, (type, FunctionType, BuiltinFunctionType, Token)):
            make = self.calls.get(fn)
            if make is not None:
                return make(*args)
            if any(fn is s for s in self.safe.values()):
                return fn(*args)
        raise pickle.UnpicklingError(f"Weights only load failed: {fn!r} may not be called")

    def pop_mark(self):
        items, self.stack = self.stack, self.marks.pop()
        return items

    def build(self, state):
        """BUILD: attributes of an OrderedDict, or of what the user vouches for."""
        obj = self.stack[-1]
        if isinstance(obj, self.trusted) or (isinstance(obj, np.dtype) and np.dtype in self.trusted):
            if hasattr(obj, "__setstate__"):
                obj.__setstate__(state)
            else:
                obj.__dict__.update(state)
        elif type(obj) is OrderedDict and isinstance(state, dict):
            for k, v in state.items():
                if not isinstance(k, str) or k.startswith("__"):
                    raise pickle.UnpicklingError(f"Weights only load failed: attribute {k!r} of an OrderedDict")
                obj.__dict__[k] = v
        else:
            raise pickle.UnpicklingError(f"Weights only load failed: BUILD of a {type(obj).__name__}")

    def new(self, cls, args, kw=None):
        """NEWOBJ and NEWOBJ_EX."""
        if isinstance(cls, type) and any(cls is t for t in self.trusted):
            return cls.__new__(cls, *args, **(kw or {}))
        if kw:
            raise pickle.UnpicklingError(f"Weights only load failed: {cls!r} may not be called with keywords")
        return self.call(cls, args)

    def items(self, pairs):
        d = self.stack[-1]
        if type(d) not in _DICTS and not (isinstance(d, dict) and isinstance(d, self.trusted)):
            raise pickle.UnpicklingError(f"Weights only load failed: can only set items of a dict, not of a {type(d).__name__}")
        if len(pairs) % 2:
            raise pickle.UnpicklingError("Weights only load failed: a dict with a key and no value")
        for k, v in zip(pairs[::2], pairs[1::2], strict=True):
            d[_key(k)] = v

    def append(self, new):
        x = self.stack[-1]
        if type(x) is not list and not (isinstance(x, list) and isinstance(x, self.trusted)):
            raise pickle.UnpicklingError(f"Weights only load failed: can only append to a list, not to a {type(x).__name__}")
        x.extend(new)


def _push(m, arg):
    m.stack.append(arg)


def _const(value):
    return lambda m, arg: m.stack.append(value)


def _mark(m, arg):
    m.marks.append(m.stack)
    m.stack = []


def _tuple(n):
    def run(m, arg):
        if len(m.stack) < n:
            raise IndexError("stack underflow")
        m.stack[-n:] = [tuple(m.stack[-n:])]
    return run


def _of_mark(make):
    def run(m, arg):
        items = m.pop_mark()
        m.stack.append(make(items))
    return run


def _dict(items):
    return {_key(k): v for k, v in zip(items[::2], items[1::2], strict=True)}


def _setitem(m, arg):
    pair = m.stack[-2:]
    del m.stack[-2:]
    m.items(pair)


def _append(m, arg):
    m.append([m.stack.pop()])


def _additems(m, arg):
    new = m.pop_mark()
    if type(m.stack[-1]) is not set:
        raise pickle.UnpicklingError("Weights only load failed: ADDITEMS to something that is no set")
    m.stack[-1].update(_key(x) for x in new)


def _put(m, arg):
    m.memo[int(arg)] = m.stack[-1]


def _memoize(m, arg):
    m.memo[len(m.memo)] = m.stack[-1]


def _get(m, arg):
    m.stack.append(m.memo[int(arg)])


def _global(m, arg):
    module, _, name = arg.partition(" ")
    m.stack.append(m.find(f"{module}.{name}"))


def _stack_global(m, arg):
    name = m.stack.pop()
    module = m.stack.pop()
    if type(name) is not str or type(module) is not str:
        raise TypeError("STACK_GLOBAL takes two strings")
    m.stack.append(m.find(f"{module}.{name}"))


def _reduce(m, arg):
    args = m.stack.pop()
    m.stack[-1] = m.call(m.stack[-1], args)


def _newobj(m, arg):
    args = m.stack.pop()
    m.stack[-1] = m.new(m.stack[-1], args)


def _newobj_ex(m, arg):
    kw, args = m.stack.pop(), m.stack.pop()
    m.stack[-1] = m.new(m.stack[-1], args, kw)


def _persistent(m, arg):
    m.stack[-1] = m.persistent(m.stack[-1])


_OPCODES = {
    **dict.fromkeys("INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING BINBYTES "
                    "SHORT_BINBYTES BINBYTES8 BYTEARRAY8 UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8".split(), _push),
    "PROTO": lambda m, arg: None, "FRAME": lambda m, arg: None,
    "NONE": _const(None), "NEWTRUE": _const(True), "NEWFALSE": _const(False), "EMPTY_TUPLE": _const(()),
    "EMPTY_LIST": lambda m, arg: m.stack.append([]), "EMPTY_DICT": lambda m, arg: m.stack.append({}),
    "EMPTY_SET": lambda m, arg: m.stack.append(set()),
    "MARK": _mark, "POP": lambda m, arg: m.stack.pop(), "POP_MARK": lambda m, arg: m.pop_mark(),
    "DUP": lambda m, arg: m.stack.append(m.stack[-1]),
    "TUPLE": _of_mark(tuple), "TUPLE1": _tuple(1), "TUPLE2": _tuple(2), "TUPLE3": _tuple(3),
    "LIST": _of_mark(list), "DICT": _of_mark(_dict), "FROZENSET": _of_mark(lambda items: frozenset(map(_key, items))),
    "APPEND": _append, "APPENDS": lambda m, arg: m.append(m.pop_mark()),
    "SETITEM": _setitem, "SETITEMS": lambda m, arg: m.items(m.pop_mark()), "ADDITEMS": _additems,
    "PUT": _put, "BINPUT": _put, "LONG_BINPUT": _put, "MEMOIZE": _memoize,
    "GET": _get, "BINGET": _get, "LONG_BINGET": _get,
    "GLOBAL": _global, "STACK_GLOBAL": _stack_global, "REDUCE": _reduce, "NEWOBJ": _newobj, "NEWOBJ_EX": _newobj_ex,
    "BUILD": lambda m, arg: m.build(m.stack.pop()), "BINPERSID": _persistent,
}


def globals_in(data: bytes) -> list[str]:
    """The dotted names that a pickle refers to, in order, without running it (strings before STACK_GLOBAL included)."""
    found: list[str] = []
    strings: list[str] = []
    for opcode, arg, _pos in pickletools.genops(io.BytesIO(data)):
        if opcode.name == "GLOBAL" and arg is not None:
            found.append(arg.replace(" ", ".", 1))
        elif opcode.name == "STACK_GLOBAL" and len(strings) > 1:
            found.append(".".join(strings[-2:]))
        elif isinstance(arg, str):
            strings.append(arg)
    return list(dict.fromkeys(found))

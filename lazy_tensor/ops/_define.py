"""How a jax function becomes an op: `op` and `composite`, the registry, and the generated call paths.

`docs/ops.md` is the contract. For each op a call function is generated with the op's own signature: it reads the
values, looks the configuration up in the op's table, and emits. Whatever is unusual (a new configuration, a
list for a tuple, a number where a tensor may stand, mixed devices, errors) goes through `Op.slow`.
"""
from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor import devices as device_
from lazy_tensor import dtypes
from lazy_tensor.modes import modes, unusual
from lazy_tensor.node import AccumulateGrad, _next
from lazy_tensor.ops import _autocast as _autocast_lists
from lazy_tensor.ops import _common
from lazy_tensor.tensor import _NEVER, Step, Tensor, as_view, assign_, emit, emit_grad, emit_many, no_tape, wrap
from xla_backend import random as random_
from xla_backend import transfer
from xla_backend._jax import x64
from xla_backend.graph import WEAK, Aval, Value
from xla_backend.kernel import Kernel

# path -> callable, for `lazy_tensor`'s namespaces; name -> callable, for Tensor's methods.
_public: dict[str, object] = {}
_methods: dict[str, object] = {}
ops: dict[str, Op] = {}
_MISSING = inspect.Parameter.empty


def namespace(prefix: str) -> dict[str, object]:
    """The public functions of a namespace ("" for lazy_tensor itself): name -> callable."""
    head = prefix + "." if prefix else ""
    return {p[len(head):]: f for p, f in _public.items() if p.startswith(head) and "." not in p[len(head):]}


def nearest(name: str, names) -> str:
    """What an error adds on a name that does not exist: the public names most like it, or nothing."""
    near = difflib.get_close_matches(name, [n for n in names if not n.startswith("_")], 3, 0.6)
    return f"; the nearest that exist: {', '.join(near)}" if near else ""


def missing(prefix: str, names: dict):
    """A module's `__getattr__` that names the nearest existing functions."""
    def __getattr__(name):
        head = f"lazy_tensor.{prefix}" if prefix else "lazy_tensor"
        raise AttributeError(f"module {head!r} has no attribute {name!r}{nearest(name, names)}")
    return __getattr__


def methods() -> dict[str, object]:
    """Tensor's methods by name."""
    return dict(_methods)


def publish(path: str, fn) -> None:
    """Make fn public at a path such as "linalg.svd"."""
    _public[path] = fn


def publish_method(name: str, fn) -> None:
    """Make fn a method of Tensor."""
    _methods[name] = fn


ARRAY, OPT_ARRAY, ARRAY_OR_SCALAR, SCALAR, ARRAYS, OPT_ARRAYS, SCALARS, DTYPE, SIZE, DIMS, KEY, PLAIN, TYPED = range(13)
_INPUT = frozenset((ARRAY, OPT_ARRAY, ARRAY_OR_SCALAR, SCALAR, ARRAYS, OPT_ARRAYS, SCALARS, KEY))
_KINDS = {
    "Array": ARRAY, "Array|None": OPT_ARRAY, "Array|Scalar": ARRAY_OR_SCALAR, "Array|Scalar|None": ARRAY_OR_SCALAR,
    "Scalar": SCALAR, "Scalar|None": SCALAR, "Arrays": ARRAYS, "OptArrays": OPT_ARRAYS, "Scalars": SCALARS,
    "DType": DTYPE, "DType|None": DTYPE, "Size": SIZE, "Dims": DIMS, "Dims|None": DIMS, "Key": KEY, "Key|None": KEY,
    "int": PLAIN, "bool": PLAIN, "str": PLAIN, "tuple": PLAIN, "int|None": PLAIN, "bool|None": PLAIN, "str|None": PLAIN,
}


class Param:
    """One parameter of an op."""

    __slots__ = ("name", "kind", "default", "keyword", "annotation")

    def __init__(self, p):
        self.name, self.default = p.name, p.default
        self.annotation = str(p.annotation) if p.annotation is not _MISSING else ""
        self.kind = _KINDS.get(self.annotation.replace(" ", ""), TYPED)
        self.keyword = p.kind is p.KEYWORD_ONLY


class Op:
    """One op: its body, signature and rules, and the table of configurations that calls have met."""

    def __init__(self, body, *, name=None, promote=None, to_float=False, differentiable=True, residuals="auto", view=False,
                 put=None, host=None, returns=None, creation=False, out=False, path=None, where=""):
        self.body, self.name = body, name or body.__name__
        self.path = path or self.name
        self.params = [Param(p) for p in inspect.signature(body).parameters.values()]
        self.key_param = next((p for p in self.params if p.kind == KEY), None)
        self.visible = [p for p in self.params if p.kind != KEY]
        if promote is None:
            self.promoted, self.to_float = (), to_float
        elif promote is True or isinstance(promote, str):
            self.promoted = tuple(p.name for p in self.params
                                  if p.kind in (ARRAY, OPT_ARRAY, ARRAY_OR_SCALAR, ARRAYS, OPT_ARRAYS)
                                  or (p.kind == SCALAR and not p.keyword))
            self.to_float = promote == "float" or to_float
        else:
            self.promoted, self.to_float = tuple(promote), to_float
        self.promote = promote
        self.differentiable, self.residuals = differentiable, residuals
        self.view, self.put, self.host_rule, self.creation = view, put, host, creation
        self.eager = creation and self.key_param is not None
        self.has_out, self.where = out, where
        self.returns = namedtuple(self.name.rstrip("_"), returns, module="lazy_tensor.return_types") if returns else None
        self.table: dict = {}
        self.kernels: dict = {}
        self.put_op = None
        self.parts: dict = {}  # the outputs of a view op that has several, as views of their own
        self.casts = None  # device kind -> "low" or "high": what autocast does to the array inputs
        self.types = None  # what looks at the avals of an op's arguments (a dict by name) before promotion
        self.values = None  # what looks at values at rest on the host before the op is recorded (ops/value_checks.py)
        self.doc = inspect.getdoc(body) or ""

    # --- configurations

    def _kernel(self, key):
        """The traced function for a key (avals without device); (kernel, whether the body returned a bare array)."""
        found = self.kernels.get(key)
        if found is not None:
            return found
        ins = tuple(_flat_avals(self.params, key))
        if self.types is not None:
            self.types({p.name: k for p, k in zip(self.params, key, strict=True) if isinstance(k, Aval)})
        bare = []

        def fn(*arrays):
            result = self.body(**self._bind(key, arrays, jnp))
            if isinstance(result, (tuple, list)):
                bare.append(False)
            else:
                bare.append(True)
                result = (result,)
            return tuple(_strong(r) for r in result)

        fn.__name__ = self.name
        try:
            kernel = Kernel(self.name, fn, ins, self.residuals, self.differentiable)
        except (RuntimeError, IndexError, NotImplementedError, AssertionError):
            raise
        except (TypeError, ValueError) as e:
            if type(e) in (TypeError, ValueError) and _ours(e):
                raise
            self._check_broadcast(key)
            raise RuntimeError(f"{self.name}: {_told(e)} (given {self._describe(key)})") from e
        found = self.kernels[key] = (kernel, bare[0])
        return found

    def _check_broadcast(self, key):
        """Raise torch's error when the promoted operands do not broadcast."""
        shapes = [k.shape for p, k in zip(self.params, key, strict=True) if p.name in self.promoted and isinstance(k, Aval)]
        try:
            _common.broadcast_shapes(*shapes)
        except RuntimeError as e:
            raise RuntimeError(f"{e} ({self.name}: given {self._describe(key)})") from None

    def _describe(self, key):
        parts = []
        for p, k in zip(self.params, key, strict=True):
            if p.kind == KEY or (p.kind not in _INPUT and k == _default_key(p)):
                continue
            parts.append(f"{p.name}={_show(k)}")
        return ", ".join(parts)

    def _bind(self, key, arrays, xp):
        """The body's arguments from a key and the flat inputs (jax arrays, or NumPy arrays and numbers)."""
        it = iter(arrays)
        values = {}
        for p, k in zip(self.params, key, strict=True):
            kind = p.kind
            if kind in (ARRAY, OPT_ARRAY, ARRAY_OR_SCALAR):
                values[p.name] = next(it) if k is not None else None
            elif kind == SCALAR:
                values[p.name] = next(it) if isinstance(k, Aval) else p.default if k is None else None
            elif kind in (ARRAYS, OPT_ARRAYS, SCALARS):
                values[p.name] = tuple(next(it) if x is not None else None for x in k)
            elif kind == KEY:
                if k is None:
                    values[p.name] = None
                    continue
                seed, count = next(it), next(it)
                if xp is np:  # a look at the other arguments' values
                    values[p.name] = None
                    continue
                values[p.name] = jax.random.fold_in(jax.random.key(jax.lax.convert_element_type(seed, np.int64)),
                                                    jax.lax.convert_element_type(count, np.uint32))
            elif kind == DTYPE:
                values[p.name] = k.np if k is not None else None
            elif kind == TYPED:
                values[p.name] = k[1]
            else:
                values[p.name] = k
        if self.promoted:
            self._promote(key, values, xp)
        return values

    def result_dtype(self, key):
        """The common dtype of the promoted parameters (a NumPy dtype)."""
        dims, zeros, wrapped = [], [], []
        for p, k in zip(self.params, key, strict=True):
            if p.name not in self.promoted or k is None:
                continue
            for a in (k if isinstance(k, tuple) and p.kind in (ARRAYS, OPT_ARRAYS, SCALARS) else (k,)):
                if not isinstance(a, Aval):
                    continue
                if a.weak:
                    wrapped.append(_wrapped_dtype(a.dtype))
                elif a.ndim:
                    dims.append(a.dtype)
                else:
                    zeros.append(a.dtype)
        result = dtypes.combine(dims, zeros, wrapped)
        if self.to_float and result is not None and result.kind in "biu":
            result = _common.default_float()
        return result

    def _promote(self, key, values, xp):
        dtype = self.result_dtype(key)
        if dtype is None:
            return

        def cast(x):
            if x is None:
                return None
            if xp is np:
                return np.asarray(x).astype(dtype, copy=False)
            return jax.lax.convert_element_type(x, dtype)

        for p in self.params:
            if p.name not in self.promoted:
                continue
            v = values[p.name]
            if isinstance(v, tuple):
                values[p.name] = tuple(map(cast, v))
            elif hasattr(v, "dtype") or (xp is np and isinstance(v, (bool, int, float, complex)) and p.kind != SCALAR):
                values[p.name] = cast(v)

    def config(self, key, device):
        """The configuration for a key with device avals; traced on first sight."""
        core = tuple(_core(k) for k in key)
        kernel, bare = self._kernel(core)
        config = kernel.on(device)
        config.single = bare
        rule = self.host_rule
        if config.host is True and (rule is not None or self.values is not None):
            def run(*arrays):
                arguments = self._bind(core, arrays, np)
                if self.values is not None:
                    self.values(**arguments)
                if rule is None:
                    return None
                r = rule(**arguments)
                return r if isinstance(r, (tuple, list)) else (r,)
            config.host = run
        self.table[key] = config
        return config

    # --- the general call path

    def slow(self, args, kw=None):
        """Any call: bind, convert, look up or make the configuration, emit."""
        if modes.cast is not None and self.casts is not None:
            args = _autocast(self, args)
        device = (kw or {}).get("device")
        generator = (kw or {}).get("generator")
        ins, edges, key = [], [], []
        dev = device_.resolve(device) if self.creation else None
        values = dict(zip((p.name for p in self.visible), args, strict=True))
        grad = False
        first = None
        for i, p in enumerate(self.params):
            kind = p.kind
            if kind == KEY:
                if p.annotation.replace(" ", "") == "Key|None" and self._key_unused(values):
                    key.append(None)
                    continue
                key.append(True)
                ins += (generator if generator is not None else random_.default).next()
                edges += (None, 0, None, 0)
                continue
            x = values[p.name]
            if kind in (ARRAY, OPT_ARRAY, ARRAY_OR_SCALAR, SCALAR):
                if x is None and kind != ARRAY:
                    if kind == ARRAY_OR_SCALAR and p.default is not None:
                        raise TypeError(f"{self.name}(): argument '{p.name}' must be Tensor or Number, not NoneType")
                    key.append(None if kind != SCALAR or p.default is None else (SCALAR, None))
                    continue
                if kind == SCALAR and x is p.default:
                    key.append(None)
                    continue
                v, a, t = self._input(p, i, x)
                if t is not None:
                    if a.device is not None:
                        first = first or a.device
                    if t._gn is not None:
                        grad = True
                    edges += (t._gn, t._oi)
                else:
                    edges += (None, 0)
                ins.append(v)
                key.append(a)
            elif kind in (ARRAYS, OPT_ARRAYS):
                if isinstance(x, Tensor):
                    if kind == ARRAYS and x.dim() == 0:
                        raise TypeError(f"{self.name}(): argument '{p.name}' (position {i + 1}) must be tuple of Tensors, not Tensor")
                    x = tuple(x.unbind(0))
                if not isinstance(x, (tuple, list)):
                    raise TypeError(f"{self.name}(): argument '{p.name}' (position {i + 1}) must be tuple of Tensors, "
                                    f"not {type(x).__name__}")
                avals = []
                for j, y in enumerate(x):
                    if y is None and kind == OPT_ARRAYS:
                        avals.append(None)
                        continue
                    if not isinstance(y, Tensor):
                        raise TypeError(f"expected Tensor as element {j} in argument {i}, but got {type(y).__name__}")
                    v = y._value()
                    first = first or v.aval.device
                    grad = grad or y._gn is not None
                    edges += (y._gn, y._oi)
                    ins.append(v)
                    avals.append(v.aval)
                key.append(tuple(avals))
            elif kind == SCALARS:
                ints = tuple(int(y) for y in x)
                ins += ints
                edges += (None, 0) * len(ints)
                key.append((WEAK[int],) * len(ints))
            else:
                key.append(self._static(p, i, x))
        if dev is None:
            if first is None and any(p.kind in (ARRAY, ARRAY_OR_SCALAR) for p in self.params):
                p = next(p for p in self.params if p.kind in (ARRAY, ARRAY_OR_SCALAR))
                raise TypeError(f"{self.name}(): argument '{p.name}' (position 1) must be Tensor, not {type(values[p.name]).__name__}")
            dev = first if first is not None else device_.resolve(None)
        if any(v.aval.device is not dev for v in ins if type(v) is Value):
            dev = self._one_device(ins, edges, key)
        key = tuple(key)
        lookup = (*key, dev) if self.creation else key
        config = self.table.get(lookup)
        if config is None:
            config = self._make(lookup, key, dev)
        ins = tuple(ins)
        if grad and modes.grad:
            r = emit_grad(config, ins, tuple(edges))
        elif self.eager and modes.capture is None:
            r = _eager(config, ins)
        else:
            r = emit(config, ins) if config.single and len(config.outs) == 1 else emit_many(config, ins)
        if self.view:
            r = alias(config, self, key, ins, r, values[self.visible[0].name])
        return self._finish(config, r)

    def _make(self, lookup, key, dev):
        config = self.config(key, dev)
        if self.creation:
            self.table.pop(key, None)
            self.table[lookup] = config
        return config

    def _key_unused(self, values):
        """Whether a draw is not needed: `training=False` or `p == 0` (or `dropout_p == 0`)."""
        return values.get("training") is False or values.get("train") is False or values.get("p", values.get("dropout_p")) == 0

    def part(self, index):
        """One of several outputs of a view op, as a view of its own."""
        found = self.parts.get(index)
        if found is None:
            found = self.parts[index] = _Part(self, index)
        return found

    def _finish(self, config, r):
        if config.single:
            return r
        r = r if isinstance(r, list) else [r]
        return self.returns(*r) if self.returns is not None else tuple(r)

    def _input(self, p, i, x):
        """(value or number, aval, tensor or None) of one array or number argument."""
        if isinstance(x, Tensor):
            v = x._value()
            if p.kind == SCALAR and v.aval.ndim and v.aval.shape != (1,):
                raise TypeError(f"{self.name}(): argument '{p.name}' must be Number, not Tensor of shape {list(v.aval.shape)}")
            return v, v.aval, x
        if isinstance(x, (np.generic, np.ndarray)) and getattr(x, "ndim", 0) == 0:
            x = x.item()
        t = type(x)
        if t not in WEAK and isinstance(x, (int, float, complex)):
            x = int(x) if isinstance(x, int) else float(x) if isinstance(x, float) else complex(x)
            t = type(x)
        if t in WEAK and p.kind in (ARRAY_OR_SCALAR, SCALAR):
            if t is int and not -(2**63) <= x < 2**63:
                if x >= 2**64 or x < -(2**63):
                    raise RuntimeError(f"{self.name}: value {x} cannot be converted to type int64_t without overflow")
                x -= 2**64
            return x, WEAK[t], None
        if isinstance(x, np.ndarray) and p.kind == ARRAY_OR_SCALAR:
            from lazy_tensor import creation
            y = creation.from_numpy(x)
            return y._v, y._v.aval, y
        what = "Tensor" if p.kind in (ARRAY, OPT_ARRAY) else "Tensor or Number" if p.kind == ARRAY_OR_SCALAR else "Number"
        raise TypeError(f"{self.name}(): argument '{p.name}' (position {i + 1}) must be {what}, not {type(x).__name__}")

    def _static(self, p, i, x):
        """A static argument in hashable, exact form."""
        kind = p.kind
        if kind == SIZE:
            return _sizes(self.name, p.name, x)
        if kind == DIMS:
            if isinstance(x, (tuple, list)):
                return tuple(_int(self.name, p.name, d) for d in x)
            return None if x is None else _int(self.name, p.name, x)
        if kind == DTYPE:
            if x is None or type(x) is dtypes.dtype:
                return x
            return dtypes.of(dtypes.to_np(x))
        if kind == PLAIN:
            if p.annotation.startswith("int") and x is not None and type(x) is not int:
                return _int(self.name, p.name, x)
            if isinstance(x, (list, tuple)):
                return _hashable(x)
            if isinstance(x, Tensor):
                return _hashable(x.item())
            return x
        if isinstance(x, Tensor):
            x = x.item() if x.numel() == 1 else x.tolist()
        x = _hashable(x)
        return (_types(x), x)

    def _one_device(self, ins, edges, key):
        """Mixed devices: 0-d cpu tensors move to the others' device; otherwise torch's RuntimeError."""
        devices = [v.aval.device for v in ins if type(v) is Value]
        big = {v.aval.device for v in ins if type(v) is Value and v.aval.ndim}
        target = next(iter(big)) if big else next((d for d in devices if not d.host), devices[0])
        moved = {}
        for j, v in enumerate(ins):
            if type(v) is Value and v.aval.device is not target:
                if v.aval.ndim or not v.aval.device.host:
                    names = sorted({str(d) for d in devices}, key=lambda s: s == "cpu")
                    raise RuntimeError(f"{self.name}: Expected all tensors to be on the same device, but found at least two "
                                       f"devices, {names[0]} and {names[1]}! Move one with .to({names[0]!r})")
                g, o = edges[2 * j], edges[2 * j + 1]
                n = transfer.copy_to(v, target)
                if g is not None and modes.grad:
                    from lazy_tensor.autograd.engine import copy_node
                    edges[2 * j], edges[2 * j + 1] = copy_node(g, o, v.aval.device, target), 0
                moved[id(v)] = n.aval
                ins[j] = n

        def fix(k):
            if isinstance(k, tuple):
                return tuple(map(fix, k))
            if isinstance(k, Aval) and k.device is not None and k.device is not target:
                from xla_backend.graph import aval
                return aval(k.shape, k.dtype, target, k.weak)
            return k
        key[:] = [fix(k) for k in key]
        return target

    # --- views

    def replay(self, base, key, extra):
        """Read this view of another base tensor."""
        v = base._v
        full = (v.aval, *key)
        config = self.table.get(full)
        if config is None:
            config = self.config(full, v.aval.device)
        ins = (v, *extra)
        if base._gn is not None and modes.grad:
            return emit_grad(config, ins, (base._gn, base._oi) + (None, 0) * len(extra))
        return emit(config, ins) if config.single else emit_many(config, ins)

    def replay_put(self, base, new, key, extra):
        """base with this view's region replaced by new (plain tensors)."""
        if self.put_op is None:
            self.put_op = _put_op(self)
        return _record_put(self.put_op, base, new, key, extra)


def _record_put(put_op, base, new, key, extra):
    v, n = base._v, new._value()
    full = (v.aval, n.aval, *key)
    config = put_op.table.get(full)
    if config is None:
        config = put_op.config(full, v.aval.device)
    ins = (v, n, *extra)
    if (base._gn is not None or new._gn is not None) and modes.grad:
        return emit_grad(config, ins, (base._gn, base._oi, new._gn, new._oi) + (None, 0) * len(extra))
    return emit(config, ins)


def alias(config, op, key, ins, r, base):
    """What a view op returns, made to alias its base: a tensor, or a list of tensors."""
    step = config.step or Step.of(config, op, key, ins)
    if config.single:
        return as_view(r, base, step)
    r = r if type(r) is list else [r]
    for x, s in zip(r, step, strict=True):
        as_view(x, base, s)
        x._view.made = x._view.made or "multi"
    return r


class _Part:
    """One of several outputs of a view op (split, unbind)."""

    def __init__(self, op, index):
        self.op, self.index, self.put_op, self.name = op, index, None, op.name

    def replay(self, base, key, extra):
        r = self.op.replay(base, key, extra)
        return r[self.index] if isinstance(r, list) else r

    def replay_put(self, base, new, key, extra):
        if self.put_op is None:
            self.put_op = _put_op(self.op, self.index)
        return _record_put(self.put_op, base, new, key, extra)


def _put_op(op, part=None):
    """The write through a view op, as an op of (base, new, *the view's other parameters)."""
    first, *rest = inspect.signature(op.body).parameters.values()
    P = inspect.Parameter
    params = [P("base", P.POSITIONAL_OR_KEYWORD, annotation="Array"), P("new", P.POSITIONAL_OR_KEYWORD, annotation="Array"),
              *[p.replace(kind=P.KEYWORD_ONLY) for p in rest]]

    if op.put is not None and part is None:
        def body(base, new, **static):
            return op.put(base, new, **static)  # new has the view's dtype, which need not be base's (real, view(dtype))
    else:
        def body(base, new, **static):
            index = jnp.arange(base.size).reshape(base.shape)
            where = op.body(index, **static)
            if part is not None:
                where = where[part]
            if jnp.iscomplexobj(where) or where.dtype != index.dtype:
                raise RuntimeError(f"{op.name}: cannot write through this view")
            return _last_wins(base, where, new)
    body.__signature__ = inspect.Signature(params)
    body.__name__ = op.name + "_write"
    return Op(body)


def _last_wins(base, where, new):
    """base with the elements of new at the flat addresses `where`; of several for one address the last is kept."""
    where = where.reshape(-1)
    last = jnp.full(base.size, -1, where.dtype).at[where].max(jnp.arange(where.size, dtype=where.dtype))
    new = new.astype(base.dtype).reshape(-1)
    if not new.size:
        return base
    return jnp.where(last >= 0, new[jnp.maximum(last, 0)], base.reshape(-1)).reshape(base.shape)


def _scatter_last(base: Array, where: Array, new: Array):
    return _last_wins(base, where, new)


def _addresses(base: Array):
    return jnp.arange(base.size).reshape(base.shape)


_scatter_op = _address_op = None


def write_overlapping(base, steps, new):
    """base with the region that `steps` lead to replaced by new, where one of the steps shows an element more than once:
    only that region is written (a step at a time, stale copies of an element would be written over it)."""
    global _scatter_op, _address_op
    if _scatter_op is None:
        _scatter_op, _address_op = Op(_scatter_last, name="overlapping_write"), Op(_addresses, differentiable=False)
    where = _address_op.slow((base,))
    for step in steps:
        where = wrap(step.read(where)._value())
    return _scatter_op.slow((base, where, new))


# ------------------------------------------------------------------------------------------- small parts


def _core(k):
    if isinstance(k, Aval):
        return k.core
    if isinstance(k, tuple) and k and any(isinstance(x, Aval) for x in k):
        return tuple(x.core if isinstance(x, Aval) else x for x in k)
    return k


def _flat_avals(params, key):
    for p, k in zip(params, key, strict=True):
        if p.kind == KEY:
            if k is not None:
                yield WEAK[int]
                yield WEAK[int]
        elif isinstance(k, Aval):
            yield k
        elif p.kind in (ARRAYS, OPT_ARRAYS, SCALARS):
            yield from (a for a in k if a is not None)


def _default_key(p):
    if p.kind == TYPED:
        return (_types(_hashable(p.default)), _hashable(p.default)) if p.default is not _MISSING else None
    return None if p.default is _MISSING else p.default


def _show(k):
    if isinstance(k, Aval):
        return ("a number" if k.weak else f"{k.dtype.name}{list(k.shape)}")
    if isinstance(k, tuple) and len(k) == 2 and isinstance(k[0], (type, tuple)) and not isinstance(k[1], Aval):
        return repr(k[1])
    if isinstance(k, tuple):
        return "[" + ", ".join(map(_show, k)) + "]"
    return repr(k)


def _wrapped_dtype(d):
    return _common.default_float() if d.kind == "f" else _common.default_complex() if d.kind == "c" else d


def _strong(x):
    x = jnp.asarray(x)
    return jax.lax.convert_element_type(x, x.dtype) if getattr(x, "weak_type", False) else x


def _ours(e):
    """Whether an exception was raised by our own code rather than inside jax."""
    tb = e.__traceback__
    while tb.tb_next is not None:
        tb = tb.tb_next
    return (tb.tb_frame.f_globals.get("__name__") or "").startswith("lazy_tensor")


def _told(e):
    text = str(e).strip()
    return text.splitlines()[0] if text else type(e).__name__


def _hashable(x):
    if isinstance(x, (list, tuple)):
        return tuple(map(_hashable, x))
    if isinstance(x, Tensor):
        return x.item() if x.numel() == 1 else _hashable(x.tolist())
    if isinstance(x, np.generic):
        return x.item()
    if isinstance(x, np.ndarray):
        return _hashable(x.tolist())
    if isinstance(x, slice):
        return ("slice", _hashable(x.start), _hashable(x.stop), _hashable(x.step))
    return x


def _types(x):
    return tuple(map(_types, x)) if type(x) is tuple else type(x)


def _int(op, name, d):
    if type(d) is int:
        return d
    if isinstance(d, bool):
        return int(d)
    if isinstance(d, Tensor) and d.numel() == 1 and d.dtype.np.kind in "iu":
        return int(d.item())
    try:
        return int(d.__index__())
    except (AttributeError, TypeError):
        if isinstance(d, str):
            raise NotImplementedError(f"{op}(): named dimensions are not supported, got {name}={d!r}") from None
        raise TypeError(f"{op}(): argument '{name}' must be int, not {type(d).__name__}") from None


def _sizes(op, name, x):
    if isinstance(x, (int, np.integer)):
        x = (x,)
    elif isinstance(x, Tensor):
        x = x.tolist() if x.dim() else (x,)
    x = tuple(x)
    if len(x) == 1 and isinstance(x[0], (tuple, list)):
        x = tuple(x[0])
    return tuple(_int(op, name, d) for d in x)


def _eager(config, ins):
    """Run a node with no pending input at once, as a program of its own (random creation)."""
    exe = config.kernel.configs.get((config.device, "eager"))
    if exe is None:
        structs = [jax.ShapeDtypeStruct((), np.int64 if type(v) is int else np.bool_ if type(v) is bool else np.float64
                                        if type(v) is float else np.complex128, sharding=config.device.sharding) for v in ins]
        with x64(True):
            exe = jax.jit(config.kernel.call).lower(*structs).compile()
        config.kernel.configs[(config.device, "eager")] = exe
    args = [np.asarray(v, np.int64 if type(v) is int else None) for v in ins]
    with x64(True):
        results = exe(*args)
    tensors = [wrap(Value(a, r)) for a, r in zip(config.outs, results, strict=True)]
    return tensors[0] if config.single else tensors


def _autocast(op, args):
    """Array arguments in the dtype that autocast asks for (low: matmuls, convolutions; high: losses, softmax)."""
    out = []
    for p, x in zip(op.visible, args, strict=True):
        if p.kind in (ARRAY, OPT_ARRAY, ARRAY_OR_SCALAR) and isinstance(x, Tensor):
            out.append(_cast_one(op, x))
        elif p.kind == ARRAYS and isinstance(x, (tuple, list)):
            out.append([_cast_one(op, y) if isinstance(y, Tensor) else y for y in x])
        else:
            out.append(x)
    return out


def _cast_one(op, x):
    kind = "cpu" if x._v.aval.device.host else "xla"
    target = modes.cast.get(kind)
    way = op.casts.get(kind)
    if target is None or way is None or x._v.aval.dtype.name not in ("float32", "float16", "bfloat16"):
        return x
    return x.to(target if way == "low" else dtypes.names["float32"])


# ------------------------------------------------------------------------------------------- generated calls


def _generate(op):
    """The public function of an op: its own signature, a fast path, and `slow` for the rest."""
    visible = op.visible
    size = next((p for p in visible if p.kind == SIZE and not p.keyword), None)
    varargs = size is not None and [p for p in visible if not p.keyword][-1] is size and not op.creation
    env = {"Tensor": Tensor, "slow": op.slow, "table": op.table, "modes": modes, "unusual": unusual, "emit": emit, "emit_grad": emit_grad,
           "emit_many": emit_many, "WEAK": WEAK, "next_draw": None, "op": op, "as_view": as_view, "step": Step.of, "finish": op._finish,
           "alias": alias, "default": random_.default, "tuple": tuple, "_out": _write_out, "_miss": _MISSING,
           "WF": WEAK[float], "WI": WEAK[int], "__name__": "lazy_tensor.ops.generated"}
    sig, star = [], False
    for p in visible:
        if varargs and p is size:
            sig.append(f"*{p.name}")
            star = True
            continue
        if p.keyword and not star:
            sig.append("*")
            star = True
        if p.default is _MISSING:
            sig.append(p.name)
        else:
            env[f"_d_{p.name}"] = p.default
            sig.append(f"{p.name}=_d_{p.name}")
    extra = []
    if varargs:
        extra.append(f"{size.name}_kw=None")
    if op.has_out:
        extra.append("out=None")
    if op.key_param is not None:
        extra.append("generator=None")
    if op.creation:
        extra.append("device=None")
    if extra and not star:
        sig.append("*")
    sig += extra

    args = "(" + ", ".join(p.name for p in visible) + ("," if visible else "") + ")"
    kws = []
    if op.key_param is not None:
        kws.append("'generator': generator")
    if op.creation:
        kws.append("'device': device")
    slow = f"slow({args}, {{{', '.join(kws)}}})" if kws else f"slow({args})"
    lines = [f"def {op.name}({', '.join(sig)}):"]
    w = lines.append
    if varargs:
        n = size.name
        w(f"    if {n}_kw is not None: {n} = {n}_kw")
        w(f"    if len({n}) == 1 and type({n}[0]) is not int: {n} = {n}[0]")
    if op.has_out:
        w(f"    if out is not None: return _out({op.name!r}, {slow}, out)")
    fast = not op.creation and not any(p.kind in (ARRAYS, OPT_ARRAYS, SCALARS) for p in visible)
    if not fast:
        w(f"    return {slow}")
    else:
        for p in visible:
            if p.kind == DIMS or (p.kind == SIZE):
                w(f"    if type({p.name}) is list: {p.name} = tuple({p.name})")
        w("    try:")
        if op.casts is not None:
            w("        if unusual.met and modes.cast is not None: raise KeyError")
        key, ins, gs, edges = [], [], [], []
        optional = False
        pieces = []      # code that appends to ins for optional inputs
        for i, p in enumerate(op.params):
            n = p.name
            if p.kind == ARRAY:
                w(f"        v{i} = {n}._v if {n}._view is None else {n}._read()")
                w(f"        g{i} = {n}._gn")
                key.append(f"v{i}.aval")
                pieces.append((None, f"v{i}", f"g{i}, {n}._oi"))
                gs.append(f"g{i}")
            elif p.kind in (OPT_ARRAY, ARRAY_OR_SCALAR):
                maybe_none = p.kind == OPT_ARRAY or p.default is None
                if p.kind == ARRAY_OR_SCALAR:
                    w(f"        t = type({n})")
                    w(f"        if t is float: v{i} = {n}; k{i} = WF; g{i} = None; o{i} = 0")
                    w(f"        elif t is int and -9223372036854775808 <= {n} < 9223372036854775808:"
                      f" v{i} = {n}; k{i} = WI; g{i} = None; o{i} = 0")
                    if maybe_none:
                        w(f"        elif {n} is None: v{i} = k{i} = g{i} = None; o{i} = 0")
                    w("        else:")
                    ind = "            "
                else:
                    w(f"        if {n} is None: v{i} = k{i} = g{i} = None; o{i} = 0")
                    w("        else:")
                    ind = "            "
                w(f"{ind}v{i} = {n}._v if {n}._view is None else {n}._read()")
                w(f"{ind}g{i} = {n}._gn; o{i} = {n}._oi; k{i} = v{i}.aval")
                key.append(f"k{i}")
                if maybe_none:
                    optional = True
                pieces.append((f"k{i}" if maybe_none else None, f"v{i}", f"g{i}, o{i}"))
                gs.append(f"g{i}")
            elif p.kind == SCALAR:
                optional = True
                w(f"        if {n} is _d_{n}: k{i} = None" if p.default is not _MISSING else f"        if {n} is None: raise KeyError")
                w(f"        else: k{i} = WEAK[type({n})]")
                key.append(f"k{i}")
                pieces.append((f"k{i}", n, "None, 0"))
            elif p.kind == KEY:
                if p.annotation.replace(" ", "") == "Key|None":
                    names = {q.name for q in visible}
                    tests = [f"{q} is False" for q in ("training", "train") if q in names] + \
                        [f"{q} == 0" for q in ("p", "dropout_p") if q in names][:1]
                    w(f"        k{i} = None if {' or '.join(tests)} else True")
                    optional = True
                    key.append(f"k{i}")
                else:
                    key.append("True")
                    w(f"        k{i} = True")
                    optional = True
                pieces.append((f"k{i}", f"*d{i}", "None, 0, None, 0"))
            elif p.kind == TYPED:
                key.append(f"(type({n}), {n})")
            else:
                key.append(n)
        w(f"        _key = ({', '.join(key)}{',' if key else ''})")
        w("        config = table[_key]")
        w("    except (AttributeError, KeyError, TypeError):")
        w(f"        return {slow}")
        for i, p in enumerate(op.params):
            if p.kind == KEY:
                w(f"    if k{i}: d{i} = (default if generator is None else generator).next()")
        if not optional:
            w(f"    ins = ({', '.join(x[1] for x in pieces)}{',' if pieces else ''})")
        else:
            head = []
            for cond, v, _e in pieces:
                if cond is not None:
                    break
                head.append(v)
            w(f"    ins = ({', '.join(head)}{',' if head else ''})")
            for cond, v, _e in pieces[len(head):]:
                w(f"    if {cond} is not None: ins += ({v},)" if cond is not None else f"    ins += ({v},)")
        if gs:
            w(f"    if ({' or '.join(g + ' is not None' for g in gs)}) and modes.grad:")
            if not optional:
                w(f"        edges = ({', '.join(x[2] for x in pieces)},)")
            else:
                head = []
                for cond, _v, e in pieces:
                    if cond is not None:
                        break
                    head.append(e)
                w(f"        edges = ({', '.join(head)}{',' if head else ''})")
                for cond, _v, e in pieces[len(head):]:
                    w(f"        if {cond} is not None: edges += ({e},)" if cond is not None else f"        edges += ({e},)")
            mask = ""
            if not optional:  # bit i: input i has an edge
                bits = [f"({1 << j} if {x[2].split(',')[0]} is not None else 0)" for j, x in enumerate(pieces) if x[2][0] == "g"]
                mask = ", 1" if len(pieces) == 1 else ", " + " | ".join(bits)
            w(f"        r = emit_grad(config, ins, edges{mask})")
            w("    else:")
            w("        r = emit(config, ins) if config.single else emit_many(config, ins)")
        else:
            w("    r = emit(config, ins) if config.single else emit_many(config, ins)")
        if op.view:
            first = visible[0].name
            w(f"    if config.single: return as_view(r, {first}, config.step or step(config, op, _key, ins))")
            w(f"    return finish(config, alias(config, op, _key, ins, r, {first}))")
        else:
            w("    return r if config.single else finish(config, r)")
        del ins, edges
    code = compile("\n".join(lines), f"<op {op.name}>", "exec")
    exec(code, env)
    fn = env[op.name]
    if varargs:
        fn = _size_keyword(fn, size.name)
    fn.__doc__ = op.doc
    fn.__module__ = "lazy_tensor"
    fn.__wrapped_op__ = op
    return fn


def _size_keyword(fn, name):
    """Lets a varargs size also be given by keyword (`x.view(size=(2, 3))`)."""
    kw_name = f"{name}_kw"

    @functools.wraps(fn)
    def call(*args, **kw):
        if kw:
            for n in (name, "size", "shape", "dims"):
                if n in kw:
                    kw[kw_name] = kw.pop(n)
                    break
        return fn(*args, **kw)
    return call


# Ops whose `out=` must have the result's dtype (checked one by one with torch 2.13); so must every op's with several results.
_EXACT_OUT = frozenset("""mm bmm addmm addbmm baddbmm addmv mv dot gather scatter index_select amax amin tril triu where take clamp argmax argmin
    inv norm quantile masked_select nonzero cross diag renorm logcumsumexp histc""".split())


def _write_out(name, result, out, exact=False):
    """Put results into the tensors given as `out=`: resized if they must be, cast where torch allows it."""
    if isinstance(result, tuple):
        for r, o in zip(result, out, strict=True):
            _write_out(name, r, o, True)
        return type(result)(*out) if hasattr(result, "_fields") else tuple(out)
    if not isinstance(out, Tensor):
        if isinstance(out, (tuple, list)) and len(out) == 1:
            out = out[0]
        else:
            raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if modes.grad and (out.requires_grad or result.requires_grad):
        raise RuntimeError(f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of "
                           "the arguments requires grad.")
    check_single(out)
    a, b = result._v.aval, out._v.aval
    if a.device is not b.device:
        raise RuntimeError(f"{name}: Expected out tensor to be on {a.device}, but found {b.device}")
    if a.dtype != b.dtype and (exact or name in _EXACT_OUT):
        raise RuntimeError(f"{name}: Expected out tensor to have dtype {dtypes.of(a.dtype).name}, but got {dtypes.of(b.dtype).name} instead")
    if a.dtype != b.dtype and not dtypes.can_cast_np(a.dtype, b.dtype):
        raise RuntimeError(f"{name}: result type {dtypes.of(a.dtype).name} can't be cast to the desired output type "
                           f"{dtypes.of(b.dtype).name}")
    if a.shape != b.shape:
        if out.numel() != 0:
            import warnings
            warnings.warn(f"An output with one or more elements was resized since it had shape {list(b.shape)}, which does not "
                          f"match the required output shape {list(a.shape)}. This behavior is deprecated, and in a future "
                          "PyTorch release outputs will not be resized unless they have zero elements.", stacklevel=3)
        out._view = None
        out._v = result._v
    with no_tape():
        r = result if a.dtype == b.dtype else result.to(out.dtype)
        assign_(out, r, name)
    return out


def check_inplace(t, name):
    """torch's rules for writing to a tensor under grad mode."""
    if not isinstance(t, Tensor):
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(t).__name__}")
    if modes.grad and type(t._gn) is AccumulateGrad:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation. "
                           f"({name} on a tensor of {list(t.shape)}; wrap it in no_grad())")
    if t._view is not None and name not in _UNIFORM:
        check_single(t)


_UNIFORM = ("zero_", "fill_", "__setitem__")  # what they write is the same wherever an element is seen, or they look themselves


def check_single(t):
    """Raise where an expanded tensor, of which one element is seen in several places, would be written to."""
    w = t._view
    if w is not None and w.root is not None and any(s.op.name in ("expand", "expand_as", "broadcast_to") for s in w.chain.steps):
        from lazy_tensor import strides
        if any(n > 1 and s == 0 for n, s in zip(t.shape, strides.of(t)[0], strict=True)):
            raise RuntimeError("unsupported operation: more than one element of the written-to tensor refers to a single memory "
                               "location. Please clone() the tensor before performing the operation.")


def inplace(t, r, name, since=None):
    """Finish an in-place op: r's value, cast to t's dtype, becomes t's; shapes must agree. Returns t.

    since: the number of the first tape node that may be the op's own (see `assign_`); None when r's node is the only one."""
    if since is None:
        since = r._gn.seq if r._gn is not None else _NEVER
    a, b = r._v.aval, t._v.aval
    if a is not b:
        if a.dtype != b.dtype:
            if not dtypes.can_cast_np(a.dtype, b.dtype):
                raise RuntimeError(f"{name}: result type {dtypes.of(a.dtype).name} can't be cast to the desired output type "
                                   f"{dtypes.of(b.dtype).name}")
            r = r.to(t.dtype)
        if a.shape != b.shape:
            raise RuntimeError(f"{name}: output with shape {list(b.shape)} doesn't match the broadcast shape {list(a.shape)}")
        if a.device is not b.device:
            raise RuntimeError(f"{name}: Expected all tensors to be on the same device, but found at least two devices, "
                               f"{b.device} and {a.device}!")
    assign_(t, r, name, since)
    return t


def _make_inplace(fn, name):
    def method(self, *args, **kw):
        check_inplace(self, name)
        since = _next()
        return inplace(self, fn(self, *args, **kw), name, since)
    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place {name[:-1]}: writes the result to self and returns it."
    return method


def _register(fn, name, where, alias, method, inplace_):
    paths = [] if where is None else [f"{where}.{name}" if where else name]
    paths += list(alias) if not isinstance(alias, str) else [alias]
    for p in paths:
        publish(p, fn)
    names = (name,) if method is True else tuple(method or ()) if not isinstance(method, str) else (method,)
    for m in names:
        publish_method(m, fn)
    if inplace_:
        for m in names or (name,):
            publish_method(m + "_", _make_inplace(fn, m + "_"))
    if inplace_ and where == "":
        for m in names or (name,):
            publish(m + "_", _methods[m + "_"])


def op(body=None, *, name=None, where="", alias=(), method=False, inplace=False, out=None, promote=None, to_float=False,
       differentiable=True, residuals="auto", view=False, put=None, host=None, returns=None, creation=False):
    """Make an op of a jax function; `docs/ops.md` says what each option does. Returns the public call function."""
    if body is None:
        return functools.partial(op, name=name, where=where, alias=alias, method=method, inplace=inplace, out=out, promote=promote,
                                 to_float=to_float, differentiable=differentiable, residuals=residuals, view=view, put=put,
                                 host=host, returns=returns, creation=creation)
    public = name or body.__name__
    has_out = (where is not None and where != "nn.functional" and not view and not creation) if out is None else out
    path = f"{where}.{public}" if where else public
    made = Op(body, name=re.sub(r"\W", "_", public), promote=promote, to_float=to_float, differentiable=differentiable,
              residuals=residuals, view=view, put=put, host=host, returns=returns, creation=creation, out=has_out, path=path,
              where=where)
    made.casts = _autocast_lists.casts(made.name)
    made.module = body.__module__
    made.inplace, made.method, made.aliases = bool(inplace), method, tuple(alias) if not isinstance(alias, str) else (alias,)
    key = f"{body.__module__}:{path}"
    ops[key if key not in ops else f"{key}:{body.__name__}"] = made  # several bodies may share a name
    fn = _generate(made)
    _register(fn, public, where, alias, method, inplace)
    return fn


def composite(fn=None, *, name=None, where="", alias=(), method=False, inplace=False):
    """Make a function over Tensors public (and a method); it calls other ops."""
    if fn is None:
        return functools.partial(composite, name=name, where=where, alias=alias, method=method, inplace=inplace)
    public = name or fn.__name__
    _register(fn, public, where, alias, method, inplace)
    fn.__composite__ = True
    return fn


__all__ = ["op", "composite", "namespace", "methods", "publish", "publish_method", "Op"]

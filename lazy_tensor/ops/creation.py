"""Tensors from sizes and numbers: zeros, ones, full, empty, eye, arange, linspace, logspace, their *_like and new_* forms."""
from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from lazy_tensor import dtypes
from lazy_tensor.ops._common import default_float
from lazy_tensor.ops._define import composite, op, publish, publish_method
from lazy_tensor.tensor import Tensor


def _full_host(size, value, dtype):
    with np.errstate(all="ignore"):
        return np.full(size, value).astype(dtype)


@op(where=None, name="full", creation=True, host=_full_host)
def _full(size: Dims, value: Scalar, dtype: DType):
    """A tensor of one number (run-time)."""
    v = jnp.asarray(value)
    if dtype == np.bool_:
        return jnp.broadcast_to(v != 0, size)
    if v.dtype.kind == "c" and np.dtype(dtype).kind != "c":
        v = v.real
    return jnp.broadcast_to(v.astype(dtype), size)


def sizes(name, args):
    """The size of f(2, 3), f((2, 3)), f(torch.Size), f(2)."""
    if len(args) == 1 and not isinstance(args[0], (int, np.integer, Tensor)):
        args = args[0]
    out = []
    for a in args:
        if isinstance(a, (float, complex, str)) or a is None:
            raise TypeError(f"{name}(): argument 'size' must be tuple of ints, but found element of type {type(a).__name__}")
        out.append(int(a))
    if any(n < 0 for n in out):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(out)}: {out}")
    return tuple(out)


def finish(r, requires_grad, out=None, name=""):
    """requires_grad and out= of a creation function."""
    if out is not None:
        from lazy_tensor.ops._define import _write_out
        return _write_out(name, r, out)
    return r.requires_grad_(True) if requires_grad else r


def _layout(layout, name):
    if layout is not None and getattr(layout, "name", "strided") != "strided":
        raise NotImplementedError(f"{name}: only layout=torch.strided is implemented, got {layout}")


def _filled(name, value):
    def call(*size, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, memory_format=None, **kw):
        if "size" in kw:
            size = (kw.pop("size"),)
        kw.pop("names", None)
        if kw:
            raise TypeError(f"{name}() got an unexpected keyword argument {next(iter(kw))!r}")
        _layout(layout, name)
        if out is not None and dtype is None:
            dtype = out.dtype
        d = dtypes.of(default_float()) if dtype is None else dtype
        if out is not None and device is None:
            device = out.device
        return finish(_full(sizes(name, size), value, d, device=device), requires_grad, out, name)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"A tensor of a size filled with {value if name != 'empty' else 'anything (zeros here)'} (torch.{name})."
    composite(call)

    def like(input, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None, pin_memory=False):
        r = _full(tuple(input.shape), value, dtype or input.dtype, device=input.device if device is None else device)
        if memory_format is not None and memory_format.name.startswith("channels_last"):
            r = r.to(memory_format=memory_format)
        return finish(r, requires_grad)
    like.__name__ = like.__qualname__ = name + "_like"
    like.__doc__ = f"{name} with another tensor's size, dtype and device (torch.{name}_like)."
    composite(like)

    def new(self, *size, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False, **kw):
        if "size" in kw:
            size = (kw["size"],)
        r = _full(sizes("new_" + name, size), value, dtype or self.dtype, device=self.device if device is None else device)
        return finish(r, requires_grad)
    new.__name__ = new.__qualname__ = "new_" + name
    new.__doc__ = f"{name} with self's dtype and device (torch.Tensor.new_{name})."
    publish_method("new_" + name, new)
    return call


zeros, ones, empty = _filled("zeros", 0), _filled("ones", 1), _filled("empty", 0)


def _fill_dtype(value):
    if isinstance(value, Tensor):
        return value.dtype
    if isinstance(value, bool):
        return dtypes.names["bool"]
    if isinstance(value, int):
        return dtypes.names["int64"]
    if isinstance(value, complex):
        return dtypes.get_default_dtype().to_complex()
    return dtypes.get_default_dtype()


@composite
def full(size, fill_value, *, out=None, names=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A tensor of a size filled with a number, of the number's dtype unless told (torch.full)."""
    _layout(layout, "full")
    d = dtype or (out.dtype if out is not None else _fill_dtype(fill_value))
    v = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    v = v.item() if isinstance(v, np.generic) else v
    device = out.device if device is None and out is not None else device
    return finish(_full(sizes("full", (size,)), v, d, device=device), requires_grad, out, "full")


@composite
def full_like(input, fill_value, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None, pin_memory=False):
    """full with another tensor's size, dtype and device (torch.full_like)."""
    v = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return finish(_full(tuple(input.shape), v, dtype or input.dtype, device=input.device if device is None else device), requires_grad)


def new_full(self, size, fill_value, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """full with self's dtype and device (torch.Tensor.new_full)."""
    return finish(_full(sizes("new_full", (size,)), fill_value, dtype or self.dtype, device=self.device if device is None else device), requires_grad)


publish_method("new_full", new_full)


@composite
def empty_strided(size, stride, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A tensor of a size and strides (its values are zeros here) (torch.empty_strided)."""
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {len(size)}, {len(stride)}")
    n = 1 + sum((a - 1) * b for a, b in zip(size, stride)) if all(size) else 0
    return finish(zeros(n, dtype=dtype, device=device).as_strided(size, stride, 0), requires_grad)


def new_empty_strided(self, size, stride, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """empty_strided with self's dtype and device."""
    return empty_strided(size, stride, dtype=dtype or self.dtype, device=self.device if device is None else device, requires_grad=requires_grad)


publish_method("new_empty_strided", new_empty_strided)


@composite
def empty_permuted(size, physical_layout, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A tensor of a size whose dimensions lie in memory in a given order (torch.empty_permuted)."""
    size, order = tuple(size), tuple(physical_layout)
    if len(size) != len(order):
        raise RuntimeError(f"Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {len(size)} is not "
                           f"equal to len(physical_layout) = {len(order)}")
    if sorted(order) != list(range(len(size))):
        raise RuntimeError("Duplicate dim not allowed" if len(set(order)) != len(order) else f"Dimension out of range: {list(order)}")
    back = [order.index(d) for d in range(len(size))]
    return finish(zeros([size[d] for d in order], dtype=dtype, device=device).permute(back), requires_grad)


@op(where=None, name="eye", creation=True, host=lambda n, m, dtype: np.eye(n, m).astype(dtype))
def _eye(n: int, m: int, dtype: DType):
    return jnp.eye(n, m).astype(dtype)


@composite
def eye(n, m=None, *, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """The identity matrix of n rows and m (n when None) columns (torch.eye)."""
    m = n if m is None else m
    if n < 0 or m < 0:
        raise RuntimeError(f"{'n' if n < 0 else 'm'} must be greater or equal to 0, got {n if n < 0 else m}")
    d = dtype or (out.dtype if out is not None else dtypes.get_default_dtype())
    return finish(_eye(int(n), int(m), d, device=out.device if device is None and out is not None else device), requires_grad, out, "eye")


def _arange_host(start, step, count, dtype):
    with np.errstate(all="ignore"):
        if np.dtype(dtype).kind in "iub" and isinstance(start, int) and isinstance(step, int):
            return (start + np.arange(count, dtype=np.int64) * step).astype(dtype)
        return (start + np.arange(count, dtype=np.float64) * step).astype(dtype)


@op(where=None, name="arange", creation=True, host=_arange_host)
def _arange(start: Scalar, step: Scalar, count: int, dtype: DType):
    i = jnp.arange(count)
    start, step = jnp.asarray(start), jnp.asarray(step)
    if start.dtype.kind == "f" or step.dtype.kind == "f":
        i = i.astype(np.float64)
    return (start.astype(i.dtype) + i * step.astype(i.dtype)).astype(dtype)


@composite
def arange(*args, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, **kw):
    """start, start + step, ... up to end, end excluded (torch.arange); int64 when all are ints."""
    start, end, step = 0, None, 1
    if len(args) == 1:
        end = args[0]
    elif len(args) >= 2:
        start, end, *rest = args
        step = rest[0] if rest else 1
    start, end, step = kw.pop("start", start), kw.pop("end", end), kw.pop("step", step)
    if kw:
        raise TypeError(f"arange() got an unexpected keyword argument {next(iter(kw))!r}")
    if end is None:
        raise TypeError("arange() missing 1 required positional argument: 'end'")
    start, end, step = (v.item() if isinstance(v, (Tensor, np.generic)) else v for v in (start, end, step))
    start, end, step = (int(v) if isinstance(v, bool) else v for v in (start, end, step))
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if any(isinstance(v, float) and not math.isfinite(v) for v in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    ints = all(isinstance(v, int) for v in (start, end, step))
    d = dtype or (out.dtype if out is not None else dtypes.names["int64"] if ints else dtypes.get_default_dtype())
    if not d.is_floating_point and not d.is_complex and not ints:
        start, end, step = int(start), int(end), int(step)
        if step == 0:
            raise RuntimeError("step must be nonzero")
    count = -(-(end - start) // step) if all(isinstance(v, int) for v in (start, end, step)) else math.ceil((end - start) / step)
    return finish(_arange(start, step, int(max(count, 0)), d, device=out.device if device is None and out is not None else device), requires_grad, out, "arange")


def _range(start=0, end=None, step=1, *, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """start, start + step, ... up to end, end included; deprecated in torch (torch.range)."""
    if end is None:
        start, end = 0, start
    d = dtype or dtypes.get_default_dtype()
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    return finish(_arange(start, step, int(math.floor((end - start) / step)) + 1, d, device=device), requires_grad, out, "range")


publish("range", _range)


def _linear(start, end, steps, dtype, xp):
    """torch's formula: from the start for the first half, from the end for the second."""
    if steps == 1:
        return xp.full((1,), 0.0) + start
    i = xp.arange(steps)
    step = (end - start) / (steps - 1)
    return xp.where(i < steps // 2, start + step * i, end - step * (steps - 1 - i))


def _lin_host(start, end, steps, dtype):
    v = _linear(start, end, steps, dtype, np)
    return v.astype(dtype)


@op(where=None, name="linspace", creation=True, host=_lin_host)
def _linspace(start: Scalar, end: Scalar, steps: int, dtype: DType):
    wide = jnp.complex128 if np.dtype(dtype).kind == "c" else jnp.float64
    return _linear(jnp.asarray(start).astype(wide), jnp.asarray(end).astype(wide), steps, dtype, jnp).astype(dtype)


def _number(x):
    if isinstance(x, Tensor):
        if x.dim():
            raise RuntimeError(f"linspace only supports 0-dimensional start and end tensors, but got a tensor of {x.dim()} dimension(s)")
        return x.item()
    return x


def _spaced(name, post):
    def call(start, end, steps=None, *args, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, base=10.0):
        if args:
            base = args[0]
        if steps is None:
            raise TypeError(f"{name}() missing 1 required positional argument: 'steps'")
        steps = int(steps)
        if steps < 0:
            raise RuntimeError("number of steps must be non-negative")
        a, b = _number(start), _number(end)
        if out is not None:
            dtype = out.dtype if dtype is None else dtype
            device = out.device if device is None else device
        if dtype is None:
            dtype = dtypes.get_default_dtype()
            if isinstance(a, complex) or isinstance(b, complex):
                dtype = dtype.to_complex()
        if (isinstance(a, complex) or isinstance(b, complex)) and not dtype.is_complex:
            raise RuntimeError(f"torch.{name}(): inferred dtype complex can't be safely cast to passed dtype {dtype}")
        if device is None:
            device = next((x.device for x in (start, end) if isinstance(x, Tensor)), None)
        r = post(a, b, steps, dtype, device, base)
        return finish(r, requires_grad, out, name)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`steps` numbers from start to end ({'evenly spaced' if name == 'linspace' else 'powers of base'}) (torch.{name})."
    globals()[name] = composite(call)


def _lin(a, b, steps, dtype, device, base):
    if not dtype.is_floating_point and not dtype.is_complex:
        a, b = int(a), int(b)
        step = (b - a) / (steps - 1) if steps > 1 else 0
        i = np.arange(steps)
        v = np.where(i < steps // 2, (a + step * i).astype(np.int64), (b - step * (steps - 1 - i)).astype(np.int64)) if steps > 1 else np.full(steps, a)
        from lazy_tensor import creation
        return creation.tensor(v, dtype=dtype, device=device)
    return _linspace(a, b, steps, dtype, device=device)


def _log(a, b, steps, dtype, device, base):
    from lazy_tensor import creation
    if not dtype.is_floating_point and not dtype.is_complex:
        a, b = int(a), int(b)
        step = (b - a) / (steps - 1) if steps > 1 else 0.0
        i = np.arange(steps)
        e = np.where(i < steps // 2, a + step * i, b - step * (steps - 1 - i)) if steps > 1 else np.full(steps, float(a))
        return creation.tensor(np.power(float(base), e).astype(np.int64), dtype=dtype, device=device)
    e = _linear(a, b, steps, None, np) if steps else np.zeros(0)
    with np.errstate(all="ignore"):
        v = np.power(complex(base) if dtype.is_complex else float(base), e)
    return creation.tensor(v, dtype=dtype, device=device)


_spaced("linspace", _lin)
_spaced("logspace", _log)


@composite
def scalar_tensor(s, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A 0-d tensor of a number, the default float dtype unless told (torch.scalar_tensor)."""
    return finish(_full((), s, dtype or dtypes.get_default_dtype(), device=device), requires_grad)


@composite
def vander(x, N=None, increasing=False):
    """The Vandermonde matrix, powers decreasing by default (torch.vander)."""
    if x.dim() != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    from lazy_tensor.ops.linalg import vander as up
    n = x.shape[0] if N is None else N
    if n < 0:
        raise RuntimeError("N must be non-negative.")
    if n <= 1:
        r = ones((x.shape[0], n), dtype=dtypes.names["int64"] if not (x.dtype.is_floating_point or x.dtype.is_complex) else x.dtype, device=x.device)
        return r
    r = up(x, N=n)
    return r if increasing else r.flip(1)

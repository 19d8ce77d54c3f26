"""Views and reshapes. A view op's body is also its NumPy rule, so that host tensors are viewed without compiling."""
from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from lazy_tensor.modes import modes
from lazy_tensor.ops._common import check, norm_dim
from lazy_tensor.ops._define import composite, op, publish, publish_method
from lazy_tensor.tensor import PLAIN, Tensor, as_view, emit, emit_grad


def _xp(x):
    return np if isinstance(x, np.ndarray) else jnp


def view_op(body=None, **kw):
    """An op whose body works for jax and NumPy arrays alike, and whose result aliases its input."""
    if body is None:
        return lambda b: view_op(b, **kw)
    return op(body, view=True, host=body, **kw)


def infer_size(shape, numel, name="view"):
    """A shape with its -1 worked out; torch's RuntimeError when it does not fit."""
    shape = tuple(int(s) for s in shape)
    if sum(s == -1 for s in shape) > 1:
        raise RuntimeError("only one dimension can be inferred")
    if any(s < -1 for s in shape):
        raise RuntimeError(f"invalid shape dimension {min(shape)}")
    known = 1
    for s in shape:
        known *= s if s != -1 else 1
    if -1 in shape:
        if known == 0:
            raise RuntimeError(f"cannot reshape tensor of {numel} elements into shape {list(shape)} because the unspecified dimension size -1 can "
                               "be any value and is ambiguous")
        if numel % known:
            raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
        return tuple(numel // known if s == -1 else s for s in shape)
    if known != numel:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    return shape


@view_op(where=None, name="view", put=lambda base, new, shape: new.reshape(base.shape))
def _reshape(input: Array, shape: Dims):
    return input.reshape(shape)


@op(where=None, name="reshape", host=lambda input, shape: input.reshape(shape))
def _reshape_copy(input: Array, shape: Dims):
    return input.reshape(shape)


def _size(args, name):
    if len(args) == 1 and not isinstance(args[0], (int, np.integer, Tensor)):
        args = args[0]
    return tuple(a if type(a) is int else int(a) for a in args)


def _viewable(t, shape):
    w = t._view
    if w is None or w.chain is PLAIN:
        return True
    from lazy_tensor import strides
    return strides.viewable(tuple(t.shape), strides.of(t)[0], shape)


_sized: dict = {}  # (op, aval, chain of view steps, what was asked for) -> the configuration of the view or copy


def _sized_again(known, self, v):
    """Record a reshape whose configuration is known."""
    config, aliases = known
    if self._gn is not None and modes.grad:
        r = emit_grad(config, (v,), (self._gn, self._oi), 1)
    else:
        r = emit(config, (v,))
    return as_view(r, self, config.step) if aliases else r


def _remember(key, r, op, self, size):
    """Keep the configuration that a reshape of plain sizes was recorded with."""
    config = op.table.get((self._v.aval, size))
    steps = () if key[2] is None else key[2].steps
    if config is not None and all(not s.extra for s in steps) and all(type(d) is int or type(d) is tuple for d in key[3]):
        if len(_sized) > 10_000:
            _sized.clear()
        _sized[key] = config, op.view
    return r


def view(self, *shape, dtype=None, size=None):
    """The same storage in another shape (or, with a dtype, its bytes as another type) (torch.Tensor.view)."""
    w = self._view
    v = self._v if w is None else self._read()
    key = ("view", v.aval, None if w is None else w.chain, shape)
    try:
        return _sized_again(_sized[key], self, v)
    except (KeyError, TypeError):  # new, or a list of sizes
        if size is not None:
            shape = (size,)
    if dtype is not None or (len(shape) == 1 and type(shape[0]).__name__ == "dtype"):
        return _bits(self, dtype or shape[0])
    shape = infer_size(_size(shape, "view"), self.numel())
    if not _viewable(self, shape):
        raise RuntimeError("view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous "
                           f"subspaces). Use .reshape(...) instead. (size {list(self.shape)}, stride {list(self.stride())}, view {list(shape)})")
    return _remember(key, _reshape(self, shape), _reshape.__wrapped_op__, self, shape)


publish_method("view", view)


@op(where=None, name="view_dtype", view=True, put=lambda base, new, dtype: _cast_bits(new, base.dtype))
def _bits_op(input: Array, dtype: DType):
    return _cast_bits(input, dtype)


def _cast_bits(x, dtype):
    from jax import lax
    dtype = np.dtype(dtype)
    a, b = x.dtype.itemsize, dtype.itemsize
    if x.dtype == np.bool_:
        x = x.astype(np.uint8)
    if dtype == np.bool_:
        return lax.bitcast_convert_type(x, np.uint8) != 0
    if x.dtype.kind == "c" or dtype.kind == "c":
        if x.dtype.kind == "c":
            x = jnp.stack([jnp.real(x), jnp.imag(x)], -1)
            x = x.reshape(*x.shape[:-2], -1) if dtype.kind != "c" else x
            return _cast_bits(x, dtype) if dtype.kind != "c" else lax.complex(x[..., 0], x[..., 1])
        part = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
        y = _cast_bits(x, part)
        y = y.reshape(*y.shape[:-1], -1, 2)
        return lax.complex(y[..., 0], y[..., 1])
    if a == b:
        return lax.bitcast_convert_type(x, dtype)
    if a > b:
        y = lax.bitcast_convert_type(x, dtype)
        return y.reshape(*x.shape[:-1], -1)
    r = b // a
    y = lax.bitcast_convert_type(x.reshape(*x.shape[:-1], -1, r), dtype)
    return lax.optimization_barrier(y)  # XLA:CPU merges u16 -> f32 -> u8 into one bitcast of the wrong shape


def _bits(self, dtype):
    a, b = self.element_size(), dtype.itemsize
    if dtype == self.dtype:
        return self.view(tuple(self.shape))
    if a != b:
        if self.dim() == 0:
            raise RuntimeError(f"self.dim() cannot be 0 to view {self.dtype} as {dtype} (different element sizes)")
        if b > a and self.shape[-1] % (b // a):
            raise RuntimeError(f"self.size(-1) must be divisible by {b // a} to view {self.dtype} as {dtype} (different element sizes), but got "
                               f"{self.shape[-1]}")
    return _bits_op(self, dtype)


@composite
def reshape(input, *shape):
    """input in another shape: a view where its strides allow, else a copy (torch.reshape)."""
    w = input._view
    v = input._v if w is None else input._read()
    key = ("reshape", v.aval, None if w is None else w.chain, shape)
    try:
        return _sized_again(_sized[key], input, v)
    except (KeyError, TypeError):  # new, or a list of sizes
        size = infer_size(_size(shape, "reshape"), input.numel())
    fn = _reshape if _viewable(input, size) else _reshape_copy
    return _remember(key, fn(input, size), fn.__wrapped_op__, input, size)


def _method_reshape(self, *shape, **kw):
    return reshape(self, *shape) if shape else reshape(self, kw["shape"])


publish_method("reshape", _method_reshape)
publish("reshape", lambda input, shape: reshape(input, shape))
publish_method("reshape_as", lambda self, other: reshape(self, tuple(other.shape)))
publish_method("view_as", lambda self, other: view(self, tuple(other.shape)))


@composite(method=True)
def flatten(input, start_dim=0, end_dim=-1):
    """Dimensions start_dim to end_dim as one (torch.flatten)."""
    s, e = norm_dim(start_dim, input.dim()), norm_dim(end_dim, input.dim())
    if s > e:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if input.dim() == 0:
        return reshape(input, (1,))
    if s == e:
        return input
    n = 1
    for d in input.shape[s:e + 1]:
        n *= d
    return reshape(input, (*input.shape[:s], n, *input.shape[e + 1:]))


@composite(method=True)
def ravel(input):
    """One dimension (torch.ravel)."""
    return reshape(input, (-1,)) if input.numel() else reshape(input, (0,))


@composite(method=True)
def unflatten(input, dim, sizes):
    """Dimension dim as several (torch.unflatten)."""
    if input.dim() == 0:
        raise IndexError("unflatten: a 0-d tensor has no dimension to unflatten")
    d = norm_dim(dim, input.dim())
    sizes = tuple(sizes) if not isinstance(sizes, int) else (sizes,)
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    try:
        sizes = infer_size(sizes, input.shape[d])
    except RuntimeError:
        raise RuntimeError(f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {d} ({input.shape[d]}) in the input "
                           "tensor") from None
    return view(input, (*input.shape[:d], *sizes, *input.shape[d + 1:]))


# ------------------------------------------------------------------------------------------- permutations


@view_op(method=True, alias=("swapaxes", "swapdims"), put=lambda base, new, dim0, dim1: _swap(new, dim0, dim1))
def transpose(input: Array, dim0: int, dim1: int):
    """Two dimensions exchanged (torch.transpose)."""
    return _swap(input, dim0, dim1)


def _swap(x, a, b):
    a, b = norm_dim(a, x.ndim), norm_dim(b, x.ndim)
    return _xp(x).swapaxes(x, a, b) if x.ndim else x.reshape(())


publish_method("swapaxes", transpose)
publish_method("swapdims", transpose)


def _permuted(x, dims):
    check(len(dims) == x.ndim, f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of "
                               f"dimensions i.e. input.dim() = {x.ndim} is not equal to len(dims) = {len(dims)}")
    dims = tuple(norm_dim(d, x.ndim) for d in dims)
    check(len(set(dims)) == len(dims), "permute(): duplicate dims are not allowed.")
    return dims


@view_op(where=None, name="permute", put=lambda base, new, dims: jnp.transpose(new, np.argsort(_permuted(new, dims))))
def _permute(input: Array, dims: Dims):
    return input.transpose(_permuted(input, dims))


@composite
def permute(input, dims):
    """Dimensions in another order (torch.permute)."""
    return _permute(input, tuple(dims))


publish_method("permute", lambda self, *dims, **kw: _permute(self, _size(dims or (kw["dims"],), "permute")))


@composite(method=True, alias=("moveaxis",))
def movedim(input, source, destination):
    """Dimensions moved, the others in order (torch.movedim)."""
    src = (source,) if isinstance(source, int) else tuple(source)
    dst = (destination,) if isinstance(destination, int) else tuple(destination)
    n = input.dim()
    if len(src) != len(dst):
        raise RuntimeError(f"movedim: Invalid source or destination dims: source ({list(src)} dims) should contain the same number of dims as "
                           f"destination ({list(dst)} dims)")
    src, dst = tuple(norm_dim(d, n) for d in src), tuple(norm_dim(d, n) for d in dst)
    if len(set(src)) != len(src) or len(set(dst)) != len(dst):
        raise RuntimeError(f"movedim: repeated dim in source or destination ({list(src)}, {list(dst)})")
    order = [d for d in range(n) if d not in src]
    for d, s in sorted(zip(dst, src)):
        order.insert(d, s)
    return _permute(input, tuple(order)) if n else input


publish_method("moveaxis", movedim)


@composite(method=True, inplace=False)
def t(input):
    """A matrix transposed; fewer dimensions unchanged (torch.t)."""
    if input.dim() > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.dim()}D")
    return transpose(input, 0, 1) if input.dim() == 2 else input.view(tuple(input.shape))


@composite(method=True)
def adjoint(input):
    """The last two dimensions exchanged, and conjugated (torch.adjoint)."""
    if input.dim() == 1:
        raise RuntimeError("tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.")
    from lazy_tensor.ops.complex import conj
    return conj(transpose(input, -2, -1)) if input.dim() else conj(input)


def _T(self):
    return _permute(self, tuple(range(self.dim() - 1, -1, -1)))


def _mT(self):
    if self.dim() < 2:
        raise RuntimeError(f"tensor.mT is only supported on matrices or batches of matrices. Got {self.dim()}-D tensor.")
    return transpose(self, -2, -1)


def _H(self):
    if self.dim() not in (0, 2):
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.dim()}-D tensor.")
    return adjoint(self)


def _part(name):
    def get(self):
        from lazy_tensor.ops import complex
        return getattr(complex, name)(self)
    return get


PROPERTIES = {"T": _T, "mT": _mT, "H": _H, "mH": lambda self: adjoint(self) if self.dim() >= 2 else _mT(self), "real": _part("real"),
              "imag": _part("imag")}


# ------------------------------------------------------------------------------------------- ones in and out


@view_op(method=True, put=lambda base, new, dim: new.reshape(base.shape))
def unsqueeze(input: Array, dim: int):
    """A dimension of size 1 put in at dim (torch.unsqueeze)."""
    d = norm_dim(dim, input.ndim + 1)
    return input.reshape((*input.shape[:d], 1, *input.shape[d:]))


@view_op(method=True, put=lambda base, new, dim=None: new.reshape(base.shape))
def squeeze(input: Array, dim: Dims | None = None):
    """Dimensions of size 1 (all, or those in dim) taken out (torch.squeeze)."""
    dims = tuple(range(input.ndim)) if dim is None else tuple(norm_dim(d, input.ndim) for d in ((dim,) if isinstance(dim, int) else dim))
    check(len(set(dims)) == len(dims), f"dim appears multiple times in the list of dims {list(dims)}")
    return input.reshape([s for i, s in enumerate(input.shape) if not (i in dims and s == 1)])


def _expanded(shape, size):
    check(len(size) >= len(shape), f"expand: the number of sizes provided ({len(size)}) must be greater or equal to the number of dimensions in the "
                                   f"tensor ({len(shape)})")
    lead = len(size) - len(shape)
    out = []
    for i, n in enumerate(size):
        if i < lead:
            check(n >= 0, f"The expanded size of the tensor ({n}) isn't allowed in a leading, non-existing dimension {i}")
            out.append(n)
            continue
        s = shape[i - lead]
        n = s if n == -1 else n
        check(s == n or s == 1, f"The expanded size of the tensor ({n}) must match the existing size ({s}) at non-singleton dimension {i}.  Target "
                                f"sizes: {list(size)}.  Tensor sizes: {list(shape)}")
        out.append(n)
    return tuple(out)


@view_op(where=None, name="expand")
def _expand(input: Array, size: Dims):
    return _xp(input).broadcast_to(input, _expanded(input.shape, size))


publish_method("expand", lambda self, *size, implicit=False, **kw: _expand(self, _size(size or (kw["size"],), "expand")))
publish_method("expand_as", lambda self, other: _expand(self, tuple(other.shape)))


@composite(method=True)
def broadcast_to(input, *size):
    """input expanded to a size (torch.broadcast_to)."""
    return _expand(input, _size(size, "broadcast_to"))


@composite
def broadcast_tensors(*tensors):
    """Every tensor expanded to their common shape (torch.broadcast_tensors)."""
    from lazy_tensor.ops._common import broadcast_shapes
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    shape = broadcast_shapes(*[tuple(x.shape) for x in tensors])
    return tuple(_expand(x, shape) for x in tensors)


@composite(name="broadcast_shapes")
def _broadcast_shapes(*shapes):
    """The common shape of several shapes, a Size (torch.broadcast_shapes)."""
    from lazy_tensor.dtypes import Size
    from lazy_tensor.ops._common import broadcast_shapes
    shapes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    for s in shapes:
        if any(d < 0 for d in s):
            raise RuntimeError(f"Trying to create tensor with negative dimension ({min(s)}): ({min(s)})")
    return Size(broadcast_shapes(*shapes))


def sum_to_size(self, *size):
    """Summed over broadcast dimensions down to a size (torch.Tensor.sum_to_size)."""
    size = _size(size, "sum_to_size")
    lead = self.dim() - len(size)
    if lead < 0 or any(n not in (1, s) for n, s in zip(size, self.shape[lead:])):
        raise RuntimeError(f"size {{{list(size)}}} is not expandable to size {{{list(self.shape)}}}.")
    if not size:
        return self.sum()
    dims = [*range(lead), *(lead + i for i, n in enumerate(size) if n == 1 and self.shape[lead + i] != 1)]
    r = self.sum(dims, True) if dims else self
    return r.reshape(size) if lead else r


publish_method("sum_to_size", sum_to_size)


# ------------------------------------------------------------------------------------------- parts


def _select_put(base, new, dim, index):
    d = norm_dim(dim, base.ndim)
    return base.at[(slice(None),) * d + (index,)].set(new)


@view_op(method=True, put=_select_put)
def select(input: Array, dim: int, index: int):
    """One slice along dim (torch.select)."""
    check(input.ndim > 0, "select() cannot be applied to a 0-dim tensor.", IndexError)
    d = norm_dim(dim, input.ndim)
    n = input.shape[d]
    check(-n <= index < n, f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {d}", IndexError)
    return input[(slice(None),) * d + (index,)]


@composite(method=True)
def narrow(input, dim, start, length):
    """length elements along dim from start, a view (torch.narrow)."""
    if input.dim() == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    d = norm_dim(dim, input.dim())
    start = int(start)
    n = input.shape[d]
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -n <= start <= n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n}], but got {start})")
    if start < 0:
        start += n
    if start + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return input[(slice(None),) * d + (slice(start, start + length),)]


@composite(method=True)
def narrow_copy(input, dim, start, length, *, out=None):
    """narrow as a copy (torch.narrow_copy)."""
    r = narrow(input, dim, start, length).clone()
    if out is None:
        return r
    from lazy_tensor.ops._define import _write_out
    return _write_out("narrow_copy", r, out)


def _split_put(base, new, **kw):
    raise NotImplementedError


def _cuts(n, size):
    check(size >= 0, f"split expects split_size be non-negative, but got split_size={size}")
    check(size > 0 or n == 0, f"split_size can only be 0 if dimension size is 0, but got dimension size of {n}")
    if n == 0:
        return [0]
    return [min(size, n - i) for i in range(0, n, size)] if size else [0]


@view_op(where=None, name="split")
def _split_sizes(input: Array, sizes: Dims, dim: int):
    d = norm_dim(dim, input.ndim)
    out, at = [], 0
    for s in sizes:
        out.append(input[(slice(None),) * d + (slice(at, at + s),)])
        at += s
    return tuple(out)


@composite(method=True)
def split(tensor, split_size_or_sections, dim=0):
    """Pieces of a size (the last may be shorter), or of given sizes, along dim: a tuple of views (torch.split)."""
    if tensor.dim() == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d = norm_dim(dim, tensor.dim())
    n = tensor.shape[d]
    if isinstance(split_size_or_sections, (list, tuple)):
        sizes = tuple(int(s) for s in split_size_or_sections)
        if sum(sizes) != n or any(s < 0 for s in sizes):
            raise RuntimeError(f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {d}), but got "
                               f"split_sizes={list(sizes)}")
    else:
        sizes = tuple(_cuts(n, int(split_size_or_sections)))
    return _split_sizes(tensor, sizes, d)


@composite(method=True)
def split_with_sizes(input, split_sizes, dim=0):
    """Pieces of given sizes along dim (torch.split_with_sizes)."""
    return split(input, list(split_sizes), dim)


@composite(method=True)
def chunk(input, chunks, dim=0):
    """At most `chunks` pieces of equal size along dim (torch.chunk)."""
    if input.dim() == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    d = norm_dim(dim, input.dim())
    n = input.shape[d]
    size = -(-n // chunks)
    return split(input, size, d) if size else split(input, [0] * chunks, d)


@composite(method=True)
def tensor_split(input, indices_or_sections, dim=0):
    """Pieces at indices, or a number of nearly equal pieces, along dim (torch.tensor_split)."""
    if input.dim() == 0:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    d = norm_dim(dim, input.dim())
    n = input.shape[d]
    if isinstance(indices_or_sections, Tensor):
        if indices_or_sections.dim() > 1:
            raise RuntimeError("tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor")
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        k = indices_or_sections
        if k <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {k}")
        return split(input, [n // k + (i < n % k) for i in range(k)], d)
    cuts = [min(max(i + n if i < 0 else i, 0), n) for i in indices_or_sections]
    ends = [*cuts, n]
    starts = [0, *cuts]
    return tuple(input[(slice(None),) * d + (slice(a, max(a, b)),)] for a, b in zip(starts, ends))


for _n, _f in (("unsafe_chunk", chunk), ("unsafe_split", split), ("unsafe_split_with_sizes", split_with_sizes)):
    publish(_n, _f)
    publish_method(_n, _f)


def _axis_split(name, axis, low):
    def call(input, indices_or_sections):
        if input.dim() < low:
            raise RuntimeError(f"torch.{name} requires a tensor with at least {low} dimension, but got a tensor with {input.dim()} dimensions!")
        d = axis if name != "hsplit" or input.dim() > 1 else 0
        if isinstance(indices_or_sections, int):
            if indices_or_sections <= 0 or input.shape[d] % indices_or_sections:
                raise RuntimeError(f"torch.{name} attempted to split along dimension {d}, but the size of the dimension {input.shape[d]} is not "
                                   f"divisible by the split_size {indices_or_sections}!")
        return tensor_split(input, indices_or_sections, d)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"tensor_split along dimension {axis} (torch.{name})."
    globals()[name] = composite(call, method=True)


_axis_split("hsplit", 1, 1)
_axis_split("vsplit", 0, 2)
_axis_split("dsplit", 2, 3)


@view_op(method=True)
def unbind(input: Array, dim: int = 0):
    """The slices along dim, a tuple of views (torch.unbind)."""
    check(input.ndim > 0, "Dimension specified as 0 but tensor has no dimensions", IndexError)
    d = norm_dim(dim, input.ndim)
    return tuple(input[(slice(None),) * d + (i,)] for i in range(input.shape[d]))


@view_op(method=True)
def diagonal(input: Array, offset: int = 0, dim1: int = 0, dim2: int = 1):
    """The diagonal with respect to two dimensions, as the last one (torch.diagonal)."""
    a, b = norm_dim(dim1, input.ndim), norm_dim(dim2, input.ndim)
    check(a != b, f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return _xp(input).diagonal(input, offset, a, b)


@view_op(where=None, name="unfold")
def _unfold(input: Array, dimension: int, size: int, step: int):
    check(step > 0, f"step is {step} but must be > 0")
    if input.ndim == 0:
        check(size <= 1, f"maximum size for tensor at dimension 0 is 1 but size is {size}")
        return input.reshape(1)[:size]
    d = norm_dim(dimension, input.ndim)
    check(size <= input.shape[d], f"maximum size for tensor at dimension {d} is {input.shape[d]} but size is {size}")
    n = (input.shape[d] - size) // step + 1
    at = np.arange(n)[:, None] * step + np.arange(size)
    xp = _xp(input)
    return xp.moveaxis(xp.take(input, at, axis=d), d + 1, -1)


publish_method("unfold", lambda self, dimension, size, step: _unfold(self, dimension, size, step))


def _strided_index(shape, strides, offset, numel, name):
    at = np.full(shape, offset, np.int64)
    for i, (n, s) in enumerate(zip(shape, strides)):
        at = at + (np.arange(n) * s).reshape([-1 if k == i else 1 for k in range(len(shape))])
    check(at.size == 0 or (at.min() >= 0 and at.max() < numel), f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset} "
          f"are out of bounds for storage of {numel} elements")
    return at


@op(where=None, name="as_strided", view=True, host=lambda input, size, stride, storage_offset:
    input.reshape(-1)[_strided_index(size, stride, storage_offset, input.size, "as_strided")])
def _as_strided(input: Array, size: Dims, stride: Dims, storage_offset: int):
    return input.reshape(-1)[_strided_index(size, stride, storage_offset, input.size, "as_strided")]


@composite(method=True)
def as_strided(input, size, stride, storage_offset=None):
    """A view of the storage with any sizes and strides (torch.as_strided)."""
    from lazy_tensor import strides
    size, stride = tuple(size), tuple(stride)
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {list(size)}, {list(stride)}")
    if any(s < 0 for s in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}")
    offset = strides.of(input)[1] if storage_offset is None else storage_offset
    base = input._base if input._base is not None else input
    return _as_strided(base, size, stride, offset)


def _atleast(n):
    def call(*tensors):
        if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
            return tuple(_one(x) for x in tensors[0])
        return _one(tensors[0]) if len(tensors) == 1 else tuple(_one(x) for x in tensors)

    def _one(x):
        if x.dim() >= n:
            return x
        if x.dim() == 0:
            return reshape(x, (1,) * n)
        if x.dim() == 1:
            return unsqueeze(x, 0) if n == 2 else unsqueeze(unsqueeze(x, 0), -1)
        return unsqueeze(x, -1)
    call.__name__ = call.__qualname__ = f"atleast_{n}d"
    call.__doc__ = f"Tensors with at least {n} dimensions (torch.atleast_{n}d)."
    globals()[call.__name__] = composite(call)


for _n in (1, 2, 3):
    _atleast(_n)


# ------------------------------------------------------------------------------------------- copies of views, in-place forms


def _copy_of(name, fn):
    def call(*args, out=None, **kw):
        r = fn(*args, **kw)
        r = tuple(x.clone() for x in r) if isinstance(r, tuple) else r.clone()
        if out is None:
            return r
        from lazy_tensor.ops._define import _write_out
        return _write_out(name, r, out)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{name.removesuffix('_copy')} as a copy (torch.{name})."
    composite(call)


def _late(name):
    def fn(*a, **k):
        from lazy_tensor.ops._define import namespace
        return namespace("")[name](*a, **k)
    return fn


for _n, _f in (("view_copy", lambda x, *s, **k: view(x, *s, **k)), ("expand_copy", lambda x, size, *, implicit=False: _expand(x, tuple(size))),
               ("permute_copy", permute), ("transpose_copy", transpose), ("t_copy", t), ("squeeze_copy", squeeze),
               ("unsqueeze_copy", unsqueeze), ("select_copy", select), ("split_copy", split), ("split_with_sizes_copy", split_with_sizes),
               ("unbind_copy", unbind), ("diagonal_copy", diagonal), ("unfold_copy", lambda x, dimension, size, step: _unfold(x, dimension, size, step)),
               ("as_strided_copy", as_strided), ("alias_copy", lambda x: x), ("detach_copy", lambda x: x.detach()),
               ("view_as_real_copy", _late("view_as_real")), ("view_as_complex_copy", _late("view_as_complex")),
               ("slice_copy", lambda x, dim=0, start=None, end=None, step=1: x[(slice(None),) * norm_dim(dim, x.dim()) + (slice(start, end, step),)])):
    _copy_of(_n, _f)


def _rebind(name, fn):
    """In-place shape changes: self takes the view's shape."""
    def method(self, *args, **kw):
        from lazy_tensor.ops._define import check_inplace
        check_inplace(self, name)
        r = fn(self, *args, **kw)
        self._v, self._gn, self._oi, self._view = r._v, r._gn, r._oi, r._view
        return self
    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place {name[:-1]}: self takes the new shape."
    publish_method(name, method)


for _n, _f in (("squeeze_", squeeze), ("unsqueeze_", unsqueeze), ("transpose_", transpose), ("swapaxes_", transpose), ("swapdims_", transpose),
               ("t_", t), ("as_strided_", as_strided)):
    _rebind(_n, _f)

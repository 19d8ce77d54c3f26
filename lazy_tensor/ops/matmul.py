"""Products of matrices and vectors; einsum."""
from __future__ import annotations

import jax.numpy as jnp

from lazy_tensor.ops._common import broadcast_shapes, check, is_bool, is_inexact
from lazy_tensor.ops._define import _write_out, composite, op, publish, publish_method
from lazy_tensor.tensor import Tensor


def _same(a, b, name):
    check(a.dtype == b.dtype, f"{name}: expected m1 and m2 to have the same dtype, but got: {a.dtype.name} != {b.dtype.name}")
    check(not is_bool(a.dtype), f"{name}: not implemented for 'Bool'")


@op(method=True, alias=("linalg.matmul",))
def matmul(input: Array, other: Array):
    """The matrix product with torch's broadcasting of leading dimensions (torch.matmul)."""
    _same(input, other, "matmul")
    check(input.ndim > 0 and other.ndim > 0, f"both arguments to matmul need to be at least 1D, but they are {input.ndim}D and {other.ndim}D")
    k1, k2 = input.shape[-1], other.shape[-2] if other.ndim > 1 else other.shape[0]
    check(k1 == k2, f"mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, input.shape))} and {'x'.join(map(str, other.shape))})")
    if input.ndim > 2 or other.ndim > 2:
        broadcast_shapes(input.shape[:-2], other.shape[:-2])
    return jnp.matmul(input, other)


def _sized(name, ndims, body_doc):
    def body(input: Array, mat2: Array):
        _same(input, mat2, name)
        for x, n in zip((input, mat2), ndims):
            check(x.ndim == n, f"{name}: expected tensors of {ndims} dimensions, got {list(input.shape)} and {list(mat2.shape)}")
        if name == "bmm":
            check(input.shape[0] == mat2.shape[0], f"Expected size for first two dimensions of batch2 tensor to be: [{input.shape[0]}, "
                                                   f"{input.shape[2]}] but got: [{mat2.shape[0]}, {mat2.shape[1]}].")
        k = mat2.shape[-2] if mat2.ndim > 1 else mat2.shape[0]
        check(input.shape[-1] == k, f"mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, input.shape))} and "
                                    f"{'x'.join(map(str, mat2.shape))})")
        return jnp.matmul(input, mat2)
    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"{body_doc} (torch.{name})."
    body.__module__ = __name__
    globals()[name] = op(body, method=True)


_sized("mm", (2, 2), "The product of two matrices")
_sized("bmm", (3, 3), "The products of two batches of matrices")
_sized("mv", (2, 1), "A matrix times a vector")


def _vectors(a, b, name):
    check(a.ndim == 1 and b.ndim == 1, f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors ({name})")
    check(a.dtype == b.dtype, f"{name} : expected both vectors to have same dtype, but found {a.dtype.name} and {b.dtype.name}")
    check(a.shape == b.shape, f"inconsistent tensor size, expected tensor [{a.shape[0]}] and src [{b.shape[0]}] to have the same number of "
                              f"elements, but got {a.shape[0]} and {b.shape[0]} elements respectively")


@op(method=True)
def dot(input: Array, tensor: Array):
    """The sum of products of two vectors (torch.dot)."""
    _vectors(input, tensor, "dot")
    return jnp.dot(input, tensor)


@op(method=True)
def vdot(input: Array, other: Array):
    """dot with the first vector conjugated (torch.vdot)."""
    _vectors(input, other, "vdot")
    return jnp.dot(jnp.conj(input), other)


@op(method=True)
def inner(input: Array, other: Array):
    """Sums of products over the last dimensions (torch.inner)."""
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    _same(input, other, "inner")
    check(input.shape[-1] == other.shape[-1], f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and "
                                              f"{list(other.shape)}")
    return jnp.tensordot(input, other, axes=(-1, -1))


@op(method=True, promote=True, alias=("ger",))
def outer(input: Array, vec2: Array):
    """All products of two vectors' elements (torch.outer)."""
    check(input.ndim == 1 and vec2.ndim == 1, f"outer: Expected 1-D arguments, but got {input.ndim}-D and {vec2.ndim}-D")
    return input[:, None] * vec2[None, :]


publish_method("ger", outer)


def _scale(s, x):
    if isinstance(s, (int, float)):
        return x if s == 1 else x * s
    check(is_inexact(x.dtype) or s.dtype.kind in "biu", "For integral input tensors, argument alpha and beta must not be floating point numbers.")
    return x * s.astype(x.dtype)


def _plus(input, product, beta, alpha, name):
    check(input.dtype == product.dtype, f"{name}: self and mat2 must have the same dtype, but got {input.dtype.name} and {product.dtype.name}")
    try:
        ok = broadcast_shapes(input.shape, product.shape) == product.shape
    except RuntimeError:
        ok = False
    check(ok, f"{name}: The expanded size of the tensor {list(product.shape)} must match the existing size {list(input.shape)}")
    b = _scale(beta, input)
    zero = (beta == 0) if not isinstance(beta, int) else beta == 0
    b = jnp.where(zero, jnp.zeros_like(b), b) if not isinstance(zero, bool) else (jnp.zeros_like(b) if zero else b)
    return b + _scale(alpha, product)


def _add_product(name, ndims, fn):
    def body(input: Array, mat1: Array, mat2: Array, *, beta: Scalar = 1, alpha: Scalar = 1):
        _same(mat1, mat2, name)
        check((mat1.ndim, mat2.ndim) == ndims, f"{name}: expected tensors of {ndims} dimensions, got {list(mat1.shape)} and {list(mat2.shape)}")
        k = mat2.shape[-2] if mat2.ndim > 1 else mat2.shape[0]
        check(name == "addr" or mat1.shape[-1] == k, f"mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, mat1.shape))} and "
                                                     f"{'x'.join(map(str, mat2.shape))})")
        return _plus(input, fn(mat1, mat2), beta, alpha, name)
    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"beta * input + alpha * product (torch.{name})."
    body.__module__ = __name__
    names = {"addmm": ("mat1", "mat2"), "addmv": ("mat", "vec"), "addr": ("vec1", "vec2"), "addbmm": ("batch1", "batch2"),
             "baddbmm": ("batch1", "batch2")}[name]
    import inspect
    sig = inspect.signature(body)
    ps = [p.replace(name=dict(zip(("mat1", "mat2"), names)).get(p.name, p.name)) for p in sig.parameters.values()]

    def renamed(**kw):
        return body(kw["input"], kw[names[0]], kw[names[1]], beta=kw["beta"], alpha=kw["alpha"])
    renamed.__signature__ = sig.replace(parameters=ps)
    renamed.__name__ = renamed.__qualname__ = name
    renamed.__doc__, renamed.__module__ = body.__doc__, __name__
    globals()[name] = op(renamed, method=True, inplace=True)


_add_product("addmm", (2, 2), jnp.matmul)
_add_product("addmv", (2, 1), jnp.matmul)
_add_product("addbmm", (3, 3), lambda a, b: jnp.einsum("bij,bjk->ik", a, b))
_add_product("baddbmm", (3, 3), jnp.matmul)


@op(method=True, inplace=True, promote=("input", "vec1", "vec2"))
def addr(input: Array, vec1: Array, vec2: Array, *, beta: Scalar = 1, alpha: Scalar = 1):
    """beta * input + alpha * outer(vec1, vec2) (torch.addr)."""
    check(vec1.ndim == 1 and vec2.ndim == 1, f"addr: Expected 1-D arguments vec1 and vec2, but got {vec1.ndim}-D and {vec2.ndim}-D")
    if is_bool(input.dtype):
        a = vec1[:, None] & vec2[None, :]
        return input | a if isinstance(beta, int) and beta else a
    return _plus(input, vec1[:, None] * vec2[None, :], beta, alpha, "addr")


@op(where=None, name="einsum")
def _einsum(operands: Arrays, equation: str):
    return jnp.einsum(equation, *operands, optimize="optimal" if len(operands) < 5 else "greedy")


@composite
def einsum(*args):
    """Sums of products by an equation such as "bij,bjk->bik", or in sublist form (torch.einsum)."""
    if not args:
        raise ValueError("einsum(): must specify the equation string and at least one operand, or at least one operand and its subscripts list")
    if not isinstance(args[0], str):
        letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

        def sub(lst):
            return "".join("..." if i is Ellipsis else letters[i] for i in lst)
        operands = args[0::2] if len(args) % 2 == 0 else args[0:-1:2]
        subs = args[1::2] if len(args) % 2 == 0 else args[1:-1:2]
        equation = ",".join(map(sub, subs)) + ("->" + sub(args[-1]) if len(args) % 2 else "")
    else:
        equation, operands = args[0].replace(" ", ""), args[1:]
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = operands[0]
    lhs, arrow, rhs = equation.partition("->")
    if not arrow:
        used = list(lhs.replace("...", "").replace(",", ""))
        rhs = ("..." if "..." in lhs else "") + "".join(sorted(c for c in set(used) if used.count(c) == 1))
        equation = lhs + "->" + rhs
    terms = lhs.split(",")
    if len(terms) != len(operands):
        raise RuntimeError(f"einsum(): the number of subscripts in the equation ({len(terms)}) does not match the number of operands "
                           f"({len(operands)})")
    return _einsum(list(operands), equation)


@composite
def tensordot(a, b, dims=2, out=None):
    """Sums of products over the last dims of a and the first of b, or over pairs of dimensions (torch.tensordot)."""
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        da, db = list(range(a.dim() - dims, a.dim())), list(range(dims))
    else:
        da, db = (list(d) if isinstance(d, (list, tuple)) else [d] for d in dims)
    r = _tensordot(a, b, tuple(da), tuple(db))
    return r if out is None else _write_out("tensordot", r, out)


@op(where=None, name="tensordot")
def _tensordot(a: Array, b: Array, da: Dims, db: Dims):
    check(len(da) == len(db), "both dimension lists should have same length")
    for i, j in zip(da, db):
        check(a.shape[i] == b.shape[j], f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and second has size "
                                        f"{b.shape[j]} in dim {j}")
    return jnp.tensordot(a, b, axes=(da, db))


@op(method=True, promote=True)
def kron(input: Array, other: Array):
    """The Kronecker product (torch.kron)."""
    n = max(input.ndim, other.ndim)
    a = input.reshape((1,) * (n - input.ndim) + input.shape)
    b = other.reshape((1,) * (n - other.ndim) + other.shape)
    r = a.reshape([d for s in a.shape for d in (s, 1)]) * b.reshape([d for s in b.shape for d in (1, s)])
    return r.reshape([s * t for s, t in zip(a.shape, b.shape)])


@op(where=None, name="multi_dot")
def _multi(tensors: Arrays):
    n = len(tensors)
    check(n >= 2, f"multi_dot(): expected at least 2 tensors but got {n}")
    first, *mid, last = tensors
    check(first.ndim in (1, 2) and last.ndim in (1, 2), "multi_dot(): the first and last tensors must be 1D or 2D")
    for i, m in enumerate(mid, 1):
        check(m.ndim == 2, f"multi_dot(): tensor {i} must be 2D but got {m.ndim}D")
    for i, t in enumerate(tensors):
        check(t.dtype == first.dtype, f"multi_dot(): expected all tensors to have the same dtype but tensor 0 is {first.dtype.name} and tensor {i} "
                                      f"{t.dtype.name}")
    seq = list(tensors)
    if first.ndim == 1:
        seq[0] = first[None, :]
    if last.ndim == 1:
        seq[-1] = last[:, None]
    for i in range(n - 1):
        check(seq[i].shape[1] == seq[i + 1].shape[0], f"multi_dot(): tensors {i} and {i + 1} with shapes {list(tensors[i].shape)} and "
                                                      f"{list(tensors[i + 1].shape)} cannot be multiplied")
    dims = [seq[0].shape[0]] + [t.shape[1] for t in seq]
    best = {(i, i): (0, None) for i in range(n)}
    for span in range(1, n):
        for i in range(n - span):
            j = i + span
            best[i, j] = min((best[i, k][0] + best[k + 1, j][0] + dims[i] * dims[k + 1] * dims[j + 1], k) for k in range(i, j))

    def go(i, j):
        if i == j:
            return seq[i]
        k = best[i, j][1]
        return go(i, k) @ go(k + 1, j)
    r = go(0, n - 1)
    if first.ndim == 1:
        r = r[0]
    return r[..., 0] if last.ndim == 1 else r


@composite(where="linalg")
def multi_dot(tensors, *, out=None):
    """The product of several matrices, in the cheapest order (torch.linalg.multi_dot)."""
    r = _multi(tensors)
    return r if out is None else _write_out("multi_dot", r, out)


@composite
def chain_matmul(*matrices, out=None):
    """The product of several matrices (torch.chain_matmul)."""
    if len(matrices) == 1 and isinstance(matrices[0], (list, tuple)):
        matrices = matrices[0]
    if len(matrices) == 1:
        return matrices[0]
    return multi_dot(list(matrices))


publish("linalg.multi_dot", multi_dot)

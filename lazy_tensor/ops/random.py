"""Random tensors and fills. A draw takes (seed, count) as run-time inputs, so none recompiles; creation runs at once."""
from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lazy_tensor import dtypes
from lazy_tensor.ops._common import default_float, is_complex, real_dtype
from lazy_tensor.ops._define import check_inplace, composite, op, publish_method
from lazy_tensor.ops.creation import _layout, finish, sizes
from lazy_tensor.tensor import Tensor, assign_


def _draw_dtype(dtype):
    d = np.dtype(dtype)
    return np.dtype(np.float64) if d == np.float64 else np.dtype(np.float32)


@op(where=None, name="uniform", creation=True)
def _uniform(size: Dims, low: Scalar, high: Scalar, dtype: DType, *, key: Key):
    """Uniform in [low, high)."""
    if np.dtype(dtype).kind == "c":
        part = real_dtype(dtype)
        u = jax.random.uniform(key, (2, *size), part)
        u = low.astype(part) + u * (high.astype(part) - low.astype(part))
        return lax.complex(u[0], u[1])
    w = _draw_dtype(dtype)
    if np.dtype(dtype).itemsize < 4:  # all bits of the half type, so that 1.0 is never reached by rounding
        bits = jnp.finfo(dtype).nmant + 1
        u = jax.random.randint(key, size, 0, 2 ** bits, np.int32).astype(w) * 2.0 ** -bits
    else:
        u = jax.random.uniform(key, size, w)
    return (low.astype(w) + u * (high.astype(w) - low.astype(w))).astype(dtype)


@op(where=None, name="normal", creation=True)
def _normal(size: Dims, mean: Scalar, std: Scalar, dtype: DType, *, key: Key):
    """Normal; a complex one has the variance split between its parts."""
    if np.dtype(dtype).kind == "c":
        part = real_dtype(dtype)
        z = jax.random.normal(key, (2, *size), part) * np.sqrt(0.5).astype(part)
        z = lax.complex(z[0], z[1])
        return mean.astype(dtype) + z * std.astype(dtype)
    w = _draw_dtype(dtype)
    return (mean.astype(w) + jax.random.normal(key, size, w) * std.astype(w)).astype(dtype)


@op(where=None, name="randint", creation=True)
def _randint(size: Dims, low: Scalar, high: Scalar, dtype: DType, *, key: Key):
    """Integers in [low, high)."""
    return jax.random.randint(key, size, low.astype(np.int64), high.astype(np.int64), np.int64).astype(dtype)


@op(where=None, name="randperm", creation=True)
def _randperm(n: int, dtype: DType, *, key: Key):
    return jax.random.permutation(key, n).astype(dtype)


def _generator(g):
    if g is not None and not hasattr(g, "next"):
        raise TypeError(f"generator must be a torch.Generator, got {type(g).__name__}")
    return g


def _simple(name, draw, doc):
    def call(*size, generator=None, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, names=None, **kw):
        if "size" in kw:
            size = (kw.pop("size"),)
        if kw:
            raise TypeError(f"{name}() got an unexpected keyword argument {next(iter(kw))!r}")
        _layout(layout, name)
        d = dtype or (out.dtype if out is not None else dtypes.of(default_float()))
        if not (d.is_floating_point or d.is_complex):
            raise RuntimeError(f'"{name}" not implemented for \'{d.name}\'')
        return finish(draw(sizes(name, size), 0.0, 1.0, d, generator=_generator(generator), device=device), requires_grad, out, name)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{doc} (torch.{name})."
    composite(call)

    def like(input, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None, generator=None):
        d = dtype or input.dtype
        if not (d.is_floating_point or d.is_complex):
            raise RuntimeError(f'"{name}_like" not implemented for \'{d.name}\'')
        return finish(draw(tuple(input.shape), 0.0, 1.0, d, generator=generator, device=input.device if device is None else device), requires_grad)
    like.__name__ = like.__qualname__ = name + "_like"
    like.__doc__ = f"{doc}, with another tensor's size, dtype and device (torch.{name}_like)."
    composite(like)
    return call


rand = _simple("rand", _uniform, "Uniform numbers in [0, 1)")
randn = _simple("randn", _normal, "Standard normal numbers")


def _bounds(low, high, dtype, name):
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if not dtype.is_floating_point and not dtype.is_complex and dtype.name != "bool":
        info = np.iinfo(dtype.np)
        if low < info.min or high - 1 > info.max:
            raise RuntimeError(f"{name}: {low if low < info.min else high - 1} is out of bounds for {dtype}")


@composite
def randint(*args, generator=None, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, **kw):
    """Integers in [low, high) (low is 0 when one bound is given) (torch.randint)."""
    args = list(args)
    size = kw.pop("size", None)
    if size is None and args:
        size = args.pop()
    low, high = kw.pop("low", None), kw.pop("high", None)
    if kw or size is None or len(args) > 2:
        raise TypeError("randint() received an invalid combination of arguments: (high, size) or (low, high, size) fit")
    if len(args) == 2:
        low, high = args
    elif len(args) == 1:
        low, high = (args[0], high) if high is not None else (low, args[0])
    low = 0 if low is None else low
    if high is None:
        raise TypeError("randint() missing argument 'high'")
    d = dtype or (out.dtype if out is not None else dtypes.names["int64"])
    low, high = int(low), int(high)
    _bounds(low, high, d, "randint")
    return finish(_randint(sizes("randint", (size,)), low, high, d, generator=_generator(generator), device=device), requires_grad, out, "randint")


@composite
def randint_like(input, low, high=None, *, dtype=None, layout=None, device=None, requires_grad=False, memory_format=None, generator=None):
    """randint with another tensor's size, dtype and device (torch.randint_like)."""
    low, high = (0, low) if high is None else (low, high)
    d = dtype or input.dtype
    _bounds(int(low), int(high), d, "randint_like")
    return finish(_randint(tuple(input.shape), int(low), int(high), d, generator=generator, device=input.device if device is None else device),
                  requires_grad)


@composite
def randperm(n, *, generator=None, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """A random permutation of 0 .. n - 1 (torch.randperm)."""
    if n < 0:
        raise RuntimeError(f"n must be non-negative, got {n}")
    d = dtype or (out.dtype if out is not None else dtypes.names["int64"])
    return finish(_randperm(int(n), d, generator=_generator(generator), device=device), requires_grad, out, "randperm")


# ------------------------------------------------------------------------------------------- of tensors


@op(where=None, name="normal", differentiable=False)
def _normal_of(mean: Array | Scalar, std: Array | Scalar, *, key: Key):
    m, s = jnp.broadcast_arrays(jnp.asarray(mean), jnp.asarray(std))
    d = m.dtype if not getattr(mean, "weak_type", False) else s.dtype
    if is_complex(d):
        part = real_dtype(d)
        z = jax.random.normal(key, (2, *m.shape), part) * np.sqrt(0.5).astype(part)
        return m.astype(d) + lax.complex(z[0], z[1]) * s.astype(d)
    w = _draw_dtype(d)
    return (m.astype(w) + s.astype(w) * jax.random.normal(key, m.shape, w)).astype(d)


@composite
def normal(mean=0.0, std=1.0, size=None, *, generator=None, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """Normal numbers with means and standard deviations from tensors or numbers (torch.normal)."""
    if size is not None:
        if std < 0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
        r = _normal(sizes("normal", (size,)), mean, std, dtype or dtypes.get_default_dtype(), generator=generator, device=device)
        return finish(r, requires_grad, out, "normal")
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        raise TypeError("normal() received an invalid combination of arguments: give tensors, or numbers and a size")
    if not isinstance(std, Tensor) and std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    if isinstance(std, Tensor) and std.dtype.is_complex:
        raise RuntimeError("normal expects standard deviation to be non-complex")
    r = _normal_of(mean, std, generator=generator)
    return finish(r, False, out, "normal")


@op(where=None, name="bernoulli", differentiable=False)
def _bernoulli(input: Array, dtype: DType, p: Array | Scalar | None = None, *, key: Key):
    q = input if p is None else p
    u = jax.random.uniform(key, input.shape, np.float64 if q.dtype == np.float64 else np.float32)
    return (u < jnp.asarray(q).astype(u.dtype)).astype(dtype)


@composite(method=True)
def bernoulli(input, p=None, *, generator=None, out=None):
    """1 with probability input (or p), else 0 (torch.bernoulli)."""
    if p is None and not input.dtype.is_floating_point:
        raise RuntimeError(f"bernoulli: expected a floating tensor of probabilities, got {input.dtype}")
    if isinstance(p, (int, float)) and not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    r = _bernoulli(input, input.dtype, p if p is None or isinstance(p, Tensor) else float(p), generator=generator)
    return r if out is None else out.copy_(r)


@op(where=None, name="multinomial", differentiable=False)
def _multinomial(input: Array, num_samples: int, replacement: bool, *, key: Key):
    logits = jnp.log(input.astype(np.float32) if input.dtype.itemsize < 4 else input)
    if replacement:
        shape = (*input.shape[:-1], num_samples)
        return jax.random.categorical(key, logits[..., None, :], -1, shape=shape).astype(np.int64)
    g = jax.random.gumbel(key, logits.shape, logits.dtype)
    return lax.top_k(logits + g, num_samples)[1].astype(np.int64)


@composite(method=True)
def multinomial(input, num_samples, replacement=False, *, generator=None, out=None):
    """Indices drawn with probabilities proportional to each row (torch.multinomial)."""
    if input.dim() not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {input.dtype}")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > input.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    r = _multinomial(input, int(num_samples), bool(replacement), generator=generator)
    return r if out is None else out.copy_(r)


@op(where=None, name="poisson", differentiable=False)
def _poisson(input: Array, *, key: Key):
    return jax.random.poisson(key, input.astype(np.float32), dtype=np.int64).astype(input.dtype)


@composite
def poisson(input, generator=None):
    """Poisson counts with rates from input (torch.poisson)."""
    if not input.dtype.is_floating_point:
        raise RuntimeError(f'"poisson" not implemented for {input.dtype}')
    return _poisson(input, generator=generator)


@op(where=None, name="binomial", differentiable=False)
def _binomial(count: Array, prob: Array, *, key: Key):
    n, p = jnp.broadcast_arrays(count, prob)
    return jax.random.binomial(key, n.astype(np.float32), p.astype(np.float32)).astype(count.dtype)


@composite
def binomial(count, prob, generator=None):
    """Binomial counts (torch.binomial)."""
    if count.dtype != prob.dtype:
        raise RuntimeError(f"binomial: expected count and prob to have the same dtype, got {count.dtype} and {prob.dtype}")
    return _binomial(count, prob, generator=generator)


@op(where=None, name="standard_gamma", creation=False)
def _gamma(input: Array, *, key: Key):
    return jax.random.gamma(key, input.astype(np.float32) if input.dtype.itemsize < 4 else input).astype(input.dtype)


@composite(name="_standard_gamma")
def _standard_gamma(input, generator=None):
    """Gamma(input, 1) draws, differentiable in the shape."""
    return _gamma(input, generator=generator)


# ------------------------------------------------------------------------------------------- fills in place


def _fill(name, draw, doc, floats=True):
    def method(self, *args, generator=None, **kw):
        check_inplace(self, name)
        if floats and not (self.dtype.is_floating_point or (self.dtype.is_complex and name in ("normal_", "uniform_"))):
            raise RuntimeError(f'"{name}" not implemented for {self.dtype}')
        r = draw(self, _generator(generator), *args, **kw)
        return assign_(self, r, name)
    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"{doc}, in place (torch.Tensor.{name})."
    publish_method(name, method)
    return method


def _uniform_fill(self, g, a=0.0, b=1.0, **kw):
    a, b = kw.get("from", a), kw.get("to", b)
    if a > b:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={a} > to={b}")
    return _uniform(tuple(self.shape), float(a), float(b), self.dtype, generator=g, device=self.device)


def _normal_fill(self, g, mean=0.0, std=1.0):
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    return _normal(tuple(self.shape), float(mean), float(std), self.dtype, generator=g, device=self.device)


def _bernoulli_fill(self, g, p=0.5):
    if not isinstance(p, Tensor) and not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    return _bernoulli(self, self.dtype, p if isinstance(p, Tensor) else float(p), generator=g)


def _random_fill(self, g, a=None, b=None, **kw):
    a, b = kw.get("from", a), kw.get("to", b)
    if b is None:
        a, b = 0, a
    if b is None:
        d = self.dtype
        b = 2 ** {"float32": 24, "float64": 53, "float16": 11, "bfloat16": 8, "bool": 1}[d.name] + (d.is_floating_point) if \
            d.is_floating_point or d.name == "bool" else int(np.iinfo(d.np).max) + (d.name != "int64")
    _bounds(int(a), int(b), self.dtype, "random_")
    return _randint(tuple(self.shape), int(a), int(b), self.dtype, generator=g, device=self.device)


def _from_uniform(make):
    """A fill by inverting the distribution function of a uniform draw in (0, 1)."""
    def draw(self, g, *args, **kw):
        u = _uniform(tuple(self.shape), 0.0, 1.0, dtypes.names["float64" if self.dtype.name == "float64" else "float32"], generator=g,
                     device=self.device)
        return make(1 - u, *args, **kw).to(self.dtype)
    return draw


def _exponential(u, lambd=1.0):
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    return -u.log() / lambd


def _cauchy(u, median=0.0, sigma=1.0):
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    return median + sigma * (np.pi * (u - 0.5)).tan()


def _geometric(u, p):
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    return (u.log() / float(np.log1p(-p))).ceil().clamp(min=1)


def _log_normal_fill(self, g, mean=1.0, std=2.0):
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    return _normal(tuple(self.shape), float(mean), float(std), self.dtype, generator=g, device=self.device).exp()


uniform_ = _fill("uniform_", _uniform_fill, "Uniform numbers in [from, to)")
normal_ = _fill("normal_", _normal_fill, "Normal numbers")
_fill("bernoulli_", _bernoulli_fill, "1 with probability p, else 0", False)
_fill("random_", _random_fill, "Integers in [from, to)", False)
_fill("exponential_", _from_uniform(_exponential), "Exponential numbers")
_fill("cauchy_", _from_uniform(_cauchy), "Cauchy numbers")
_fill("geometric_", _from_uniform(_geometric), "Geometric counts", False)
_fill("log_normal_", _log_normal_fill, "Log-normal numbers")

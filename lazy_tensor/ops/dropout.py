"""Dropout in its forms. training=False or p=0 is the identity and draws no random numbers."""
from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np

from lazy_tensor.ops._common import check, is_bool, is_inexact
from lazy_tensor.ops._define import composite, op, publish
from lazy_tensor.ops._nn import write

NN = "nn.functional"
_ALPHA = -1.7580993408473766  # selu's value at minus infinity


@op(where=None, name="dropout")
def _dropout(input: Array, p: float, training: bool, dims: int, *, key: Key | None):
    """Zeros with probability p and the rest scaled by 1 / (1 - p); one draw for each of the first `dims` dimensions' places."""
    if key is None:
        return input
    check(is_inexact(input.dtype), f"dropout: result type Float can't be cast to the desired output type {input.dtype.name} (input "
                                   f"{list(input.shape)}; a floating point tensor would fit)")
    if p == 1:
        return input * jnp.zeros((), input.dtype)
    keep = jax.random.bernoulli(key, np.float32(1 - p), _mask_shape(input, dims))
    scaled = input * jnp.asarray(1.0 / (1.0 - p)).astype(input.dtype)
    return jnp.where(keep, scaled, jnp.zeros((), input.dtype))


def _mask_shape(input, dims):
    return input.shape if dims < 0 else input.shape[:dims] + (1,) * (input.ndim - dims)


@op(where=None, name="alpha_dropout")
def _alpha(input: Array, p: float, training: bool, dims: int, *, key: Key | None):
    """Dropped elements become selu's lower limit; an affine map restores mean 0 and variance 1."""
    if key is None:
        return input
    if p == 1:
        return input * jnp.zeros((), input.dtype)
    keep = jax.random.bernoulli(key, np.float32(1 - p), _mask_shape(input, dims))
    a = (1 - p + _ALPHA**2 * p * (1 - p)) ** -0.5
    b = -a * _ALPHA * p
    return (jnp.where(keep, input, jnp.asarray(_ALPHA).astype(input.dtype)) * a + b).astype(input.dtype)


def _p(name, p, exc=ValueError):
    if not 0.0 <= p <= 1.0:
        raise exc(f"dropout probability has to be between 0 and 1, but got {p} ({name})")
    return float(p)


def _float(name, input):
    check(is_inexact(input.dtype.np) and not is_bool(input.dtype.np), f"{name}: result type Float can't be cast to the desired "
          f"output type {input.dtype} (input {list(input.shape)}; a floating point tensor would fit)")


def _run(call, name, input, p, training, inplace, dims=-1):
    p = _p(name, p)
    if training and p:
        _float(name, input)
    if not training or p == 0:
        return input  # itself, as torch gives it
    r = call(input, p, bool(training), dims)
    return write(input, r, name + "_") if inplace and r is not input else r


@composite(where=NN)
def dropout(input, p=0.5, training=True, inplace=False):
    """In training, zeros with probability p, the rest scaled by 1 / (1 - p) (torch.nn.functional.dropout)."""
    if p.__class__ is float and 0.0 < p < 1.0 and not inplace and training is True:  # hot: every layer of every step
        return _dropout(input, p, True, -1)
    return _run(_dropout, "dropout", input, p, training, inplace)


@composite(where=NN)
def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps mean and variance of selu activations (torch.nn.functional.alpha_dropout)."""
    return _run(_alpha, "alpha_dropout", input, p, training, inplace)


@composite(where=NN)
def dropout1d(input, p=0.5, training=True, inplace=False):
    """Zeroes whole channels of (N, C, L) or (C, L) with probability p (torch.nn.functional.dropout1d)."""
    p = _p("dropout1d", p)
    if input.dim() not in (2, 3):
        raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Note that dropout1d exists to "
                           "drop channels.")
    return _run(_dropout, "dropout1d", input, p, training, inplace, 1 if input.dim() == 2 else 2)


@composite(where=NN)
def dropout2d(input, p=0.5, training=True, inplace=False):
    """Zeroes whole channels of (N, C, H, W) with probability p (torch.nn.functional.dropout2d).

    A 3-d input counts as (N, C, L), with a warning, as in torch."""
    p = _p("dropout2d", p)
    if input.dim() not in (3, 4):
        warnings.warn(f"dropout2d: Received a {input.dim()}-D input to dropout2d, which is deprecated and will result in an error "
                      "in a future release.", stacklevel=2)
    if input.dim() == 3:
        warnings.warn("dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired - "
                      "input is interpreted as shape (N, C, L), where C is the channel dim.", stacklevel=2)
    check(input.dim() >= 2, f"Feature dropout requires at least 2 dimensions in the input, got {input.dim()}")
    return _run(_dropout, "dropout2d", input, p, training, inplace, 2)


@composite(where=NN)
def dropout3d(input, p=0.5, training=True, inplace=False):
    """Zeroes whole channels of (N, C, D, H, W) or (C, D, H, W) with probability p (torch.nn.functional.dropout3d)."""
    p = _p("dropout3d", p)
    if input.dim() not in (4, 5):
        warnings.warn(f"dropout3d: Received a {input.dim()}-D input to dropout3d, which is deprecated and will result in an error "
                      "in a future release.", stacklevel=2)
    check(input.dim() >= 2, f"Feature dropout requires at least 2 dimensions in the input, got {input.dim()}")
    return _run(_dropout, "dropout3d", input, p, training, inplace, 1 if input.dim() == 4 else 2)


@composite(where=NN)
def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Alpha dropout of whole channels of (N, C, ...) (torch.nn.functional.feature_alpha_dropout)."""
    p = _p("feature_alpha_dropout", p)
    if training and p:
        check(input.dim() >= 2, f"Feature dropout requires at least 2 dimensions in the input, got {input.dim()}")
    return _run(_alpha, "feature_alpha_dropout", input, p, training, inplace, 2)


@op(where=None, name="native_dropout")
def _native_dropout(input: Array, p: float, train: bool, *, key: Key | None):
    if key is None:
        return input, jnp.ones(input.shape, bool)
    keep = jax.random.bernoulli(key, np.float32(1 - p), input.shape)
    scale = 0.0 if p == 1 else 1.0 / (1.0 - p)
    return jnp.where(keep, input * jnp.asarray(scale).astype(input.dtype), jnp.zeros((), input.dtype)), keep


@composite
def native_dropout(input, p, train):
    """(dropout of input, mask of what was kept) (torch.native_dropout)."""
    return _native_dropout(input, _p("native_dropout", p, RuntimeError), train is None or bool(train))


def _top_level():
    """torch.dropout(input, p, train) and its relatives, and their in-place forms."""
    def make(name, call, dims):
        def fn(input, p, train):
            p_ = _p(name, p, RuntimeError)
            if dims == 2 and train and p_:
                check(input.dim() >= 2, f"Feature dropout requires at least 2 dimensions in the input, got {input.dim()}")
            return _run(call, name, input, p_, train, False, dims)

        def fn_(input, p, train):
            return write(input, fn(input, p, train), name + "_")
        for f, n in ((fn, name), (fn_, name + "_")):
            f.__name__ = n
            f.__doc__ = f"{name} of input with probability p when train is true (torch.{n})."
            publish(n, f)
    make("dropout", _dropout, -1)
    make("feature_dropout", _dropout, 2)
    make("alpha_dropout", _alpha, -1)
    make("feature_alpha_dropout", _alpha, 2)


_top_level()

"""Forward-mode derivatives by dual tensors (torch.autograd.forward_ad).

A dual tensor has a place of its own on the tape; `unpack_dual` reads the tangent of a result by differentiating its backward
pass, which is linear in the cotangent, once more. XLA removes what the two passes share, and the result can itself be
differentiated in reverse. Inside no_grad() no tangents are recorded. `lt.func.jvp` takes jax's forward mode instead.
"""
from __future__ import annotations

import threading
from typing import NamedTuple

from lazy_tensor import autograd
from lazy_tensor.autograd.engine import _order
from lazy_tensor.modes import _Decorator, modes, recording
from lazy_tensor.node import AccumulateGrad, Node
from lazy_tensor.tensor import Tensor, wrap

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class _Levels(threading.local):
    current = -1


_levels = _Levels()


class _Dual(Node):
    """The place on the tape of a dual tensor: its tangent, its level; reverse gradients pass to the primal's own place."""

    __slots__ = ("tangent", "level")

    def __init__(self, edges, tangent, level):
        Node.__init__(self, edges, 1)
        self.tangent, self.level = tangent, level

    def name(self):
        return "Dual"

    def apply(self, cts):
        return [cts[0]] if self.edges else []


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` returns: the primal, and the tangent or None."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Open a level and return its number; RuntimeError when one is open already (levels do not nest, as in torch)."""
    if _levels.current >= 0:
        raise RuntimeError("Nested forward mode AD is not supported at the moment: one dual level is open; lt.func.jvp nests")
    _levels.current = 0
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level; tensors made in it lose their tangents."""
    level = _levels.current if level is None else level
    if level < 0 or level != _levels.current:
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created. This is not supported.")
    _levels.current = -1


class dual_level(_Decorator):
    """A context in which dual tensors exist.

    Example::

        with fwAD.dual_level():
            y = fwAD.unpack_dual(lt.sin(fwAD.make_dual(x, t))).tangent     # cos(x) * t
    """

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *exc):
        exit_dual_level()


def _level(level, what):
    level = _levels.current if level is None else level
    if level < 0:
        raise RuntimeError(f"Trying to {what} for forward AD but no level exists, make sure to enter_dual_level() first.")
    return level


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """tensor with a tangent of the same shape and dtype, for this level; shares tensor's gradients."""
    level = _level(level, "create a dual Tensor")
    for what, t in (("primal", tensor), ("tangent", tangent)):
        if not (t.dtype.is_floating_point or t.dtype.is_complex):
            raise ValueError(f"Expected {what} to be floating point or complex, but got: {t.dtype}")
    if tuple(tensor.shape) != tuple(tangent.shape):
        raise RuntimeError(f"make_dual: expected primal and tangent to have the same size, got {list(tensor.shape)} and "
                           f"{list(tangent.shape)}")
    if tensor.dtype != tangent.dtype:
        raise RuntimeError(f"make_dual: expected primal and tangent to have the same dtype, got {tensor.dtype} and {tangent.dtype}")
    if _duals(tensor, level):
        raise RuntimeError("make_dual: the tensor has a tangent at this level already")
    r = wrap(tensor._value())
    r._gn = _Dual((tensor._gn, tensor._oi) if tensor._gn is not None else (), tangent, level)
    return r


def _duals(t, level):
    """Dual tensors of a level that t depends on, as tensors at their places."""
    t._value()
    if t._gn is None or type(t._gn) is AccumulateGrad:
        return []
    return [n for n in _order([t._gn]) if type(n) is _Dual and n.level == level]


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """(primal, tangent) of a tensor; the tangent is None when no dual tensor of the level leads to it."""
    import lazy_tensor as lt
    level = _levels.current if level is None else level
    if level < 0:
        return UnpackedDualTensor(tensor, None)
    nodes = _duals(tensor, level)
    if not nodes:
        return UnpackedDualTensor(tensor, None)
    outer = modes.grad and _outside(tensor)
    with recording():
        places = []
        for n in nodes:
            p = wrap(n.tangent._value())
            p._gn = n
            places.append(p)
        ct = lt.zeros_like(tensor.detach()).requires_grad_(True)
        back = autograd.grad(tensor, places, ct, retain_graph=True, create_graph=True, allow_unused=True)
        pairs = [(g, n.tangent) for g, n in zip(back, nodes, strict=True) if g is not None and g.requires_grad]
        if not pairs:
            tangent = lt.zeros_like(tensor.detach())
        else:
            tangent, = autograd.grad([g for g, _ in pairs], [ct], [t for _, t in pairs], retain_graph=True, create_graph=outer,
                                     allow_unused=True, materialize_grads=True)
    return UnpackedDualTensor(tensor if outer else tensor.detach(), tangent if outer else tangent.detach())


def _outside(tensor):
    """Whether a tensor depends on a leaf that requires grad (or on an argument of a transform)."""
    from lazy_tensor.func._record import leads_out
    return leads_out([tensor._gn]) or any(n.tangent.requires_grad for n in _order([tensor._gn]) if type(n) is _Dual)

"""Layers that only keep their arguments and pass them to one function: what they share.

A subclass gives `_fields` (argument: default, in order; `_REQUIRED` for none), `_fn` (the name in
`lt.nn.functional`) and `_shown` (what the repr shows). Its signature is generated from the fields.
"""
from __future__ import annotations

import inspect

from lazy_tensor.nn import functional as F
from lazy_tensor.nn.module import Module

_REQUIRED = inspect.Parameter.empty


class Plain(Module):
    """A layer without parameters: attributes and one function of the input."""

    _fields: dict = {}
    _fn = ""
    _shown = None
    _pass_fields = None

    def __init_subclass__(cls, **kw):
        super().__init_subclass__(**kw)
        ps = [inspect.Parameter(k, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=d) for k, d in cls._fields.items()]
        cls._signature = inspect.Signature(ps)
        own = cls.__dict__.get("__init__")
        if own is None or all(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in list(inspect.signature(own).parameters.values())[1:]):
            cls.__signature__ = cls._signature
        else:  # an __init__ that names its parameters speaks for itself
            cls.__signature__ = inspect.Signature(list(inspect.signature(own).parameters.values())[1:])

    def __init__(self, *args, **kwargs):
        super().__init__()
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as e:
            raise TypeError(f"{type(self).__name__}.__init__(): {e}") from None
        bound.apply_defaults()
        for k, v in bound.arguments.items():
            setattr(self, k, v)

    def forward(self, input):
        """The function of the input with the layer's arguments."""
        d = self.__dict__
        return getattr(F, self._fn)(input, **{k: d[k] for k in (self._fields if self._pass_fields is None else self._pass_fields)})

    def extra_repr(self):
        """The arguments."""
        return ", ".join(f"{k}={getattr(self, k)}" for k in (self._fields if self._shown is None else self._shown))

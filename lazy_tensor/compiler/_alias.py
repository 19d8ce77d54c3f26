"""Results that share storage: with an argument, with a tensor that outlives the call, or with one another.

A replay computes every result's value; what it is a view of is told here, so that a replay's results alias as the function's do.
"""
from __future__ import annotations

import sys

from lazy_tensor.tensor import _ROOT_REFS, SubView, Tensor, _refs_of_root, as_view


class Alias:
    """A result as a view: `base` says of what (see `aliases`), through which steps, of which kind."""

    __slots__ = ("base", "steps", "kind", "made")

    def __init__(self, base, steps, kind, made):
        self.base, self.steps, self.made = base, steps, made
        self.kind = kind if kind is not SubView else SubView.__base__

    def apply(self, t, base):
        """Make t, which holds the view's value, the view of base."""
        if t is base:
            return
        as_view(t, base, self.steps[0] if self.steps else None, self.kind)
        w = t._view
        for step in self.steps[1:]:
            w.chain = w.chain.then(step) if step not in w.chain.next else w.chain.next[step]
        w.made = self.made

    def said(self):
        """What two runs must share of it."""
        return self.base, tuple(map(id, self.steps)), self.kind.__name__, self.made


def aliases(outs, given):
    """({index of a result: Alias}, [root tensors to be made too], whether a storage is kept elsewhere as well).

    outs: the call's results; given: [(reference, tensor)] of what a replay has at hand. An Alias's base is such a reference,
    ("out", index) for another result, or ("root", number) for a tensor that only the results are views of. A temporary that
    one result alone is a view of is let go: that result is then no view."""
    found: dict[int, Alias] = {}
    groups: dict[int, list[int]] = {}
    seen = {id(t) for _, t in given}
    at_hand = list(given)
    for k, x in enumerate(outs):
        if isinstance(x, Tensor) and id(x) not in seen and x._view is not None and x._view.root is None:
            at_hand.append((("out", k), x))
    for k, x in enumerate(outs):
        if not isinstance(x, Tensor) or id(x) in seen or x._view is None or x._view.root is None:
            continue
        seen.add(id(x))
        x._value()
        w = x._view
        best = None
        for reference, t in at_hand:
            rest = _steps_below(w, t)
            if rest is not None and (best is None or len(rest) < len(best[1])):
                best = reference, rest
        if best is not None:
            found[k] = Alias(*best, type(w), w.made)
        else:
            groups.setdefault(id(w.storage), []).append(k)
    roots: list[Tensor] = []
    lost = False
    for members in groups.values():
        views = [outs[k]._view for k in members]
        w = views[0]
        if len(members) == 1 and _only_here(w):
            outs[members[0]]._view = outs[members[0]]._v.guard = None
        elif any(type(v) is SubView for v in views) or _refs_of_root(w) != _ROOT_REFS + len(members) - 1:
            lost = True
        else:
            for k, v in zip(members, views, strict=True):
                found[k] = Alias(("root", len(roots)), v.chain.steps, type(v), v.made)
            roots.append(w.root)
    return found, roots, lost


def _steps_below(w, t):
    """The view steps that lead from tensor t to an alias's place, or None."""
    v = t._view
    if v is None or v.storage is not w.storage:
        return None
    start = v.chain.steps if v.root is not None else ()
    return w.chain.steps[len(start):] if w.chain.steps[:len(start)] == start else None


def _only_here(w):
    """Whether nobody but this alias holds its root."""
    if type(w) is SubView:
        return sys.getrefcount(w.base) == _ROOT_REFS and _refs_of_root(w) == _ROOT_REFS + 1
    return _refs_of_root(w) == _ROOT_REFS

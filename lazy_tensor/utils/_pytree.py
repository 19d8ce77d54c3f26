"""Nested containers taken apart and put together again (torch.utils._pytree).

Containers are lists, tuples, named tuples, dicts (in insertion order, unlike jax's), deques and registered classes; everything
else is a leaf, None too.
"""
from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque

_registry: dict[type, tuple] = {}


@dataclasses.dataclass(frozen=True)
class TreeSpec:
    """The shape of a tree: the container's type (None for a leaf), what it is made with besides, and its children's specs."""

    type: type | None
    context: object = None
    children_specs: tuple = ()

    def __post_init__(self):
        object.__setattr__(self, "num_leaves", 1 if self.type is None else sum(c.num_leaves for c in self.children_specs))

    def __repr__(self):
        if self.type is None:
            return "*"
        context = "" if self.context is None else f"{self.context}, "
        return f"TreeSpec({self.type.__name__}, {context}[{', '.join(map(repr, self.children_specs))}])"

    def is_leaf(self):
        """Whether it is the spec of a leaf."""
        return self.type is None

    def unflatten(self, leaves):
        """The container with these leaves."""
        return tree_unflatten(leaves, self)


_LEAF = TreeSpec(None)


def _children(x):
    """(children, context) of a container, or None for a leaf."""
    t = type(x)
    if t in (list, tuple):
        return x, None
    if t in _registry:
        children, context = _registry[t][0](x)
        return list(children), context
    if t in (dict, OrderedDict):
        return list(x.values()), tuple(x)
    if t is defaultdict:
        return list(x.values()), (x.default_factory, tuple(x))
    if t is deque:
        return list(x), x.maxlen
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return list(x), None
    return None


def _build(spec, children):
    t, context = spec.type, spec.context
    if t in (list, tuple):
        return t(children)
    if t in _registry:
        return _registry[t][1](children, context)
    if t in (dict, OrderedDict):
        return t(zip(context, children, strict=True))
    if t is defaultdict:
        return defaultdict(context[0], zip(context[1], children, strict=True))
    if t is deque:
        return deque(children, context)
    return t(*children)


# The recursions are functions of the module: an inner function that calls itself is a cycle, which would keep every leaf alive
# until the collector runs.


def _flatten(x, leaves, is_leaf):
    found = None if is_leaf is not None and is_leaf(x) else _children(x)
    if found is None:
        leaves.append(x)
        return _LEAF
    return TreeSpec(type(x), found[1], tuple([_flatten(c, leaves, is_leaf) for c in found[0]]))


def tree_flatten(tree, is_leaf=None):
    """(leaves, spec) of nested containers."""
    leaves: list = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _unflatten(it, spec):
    return next(it) if spec.type is None else _build(spec, [_unflatten(it, c) for c in spec.children_specs])


def tree_unflatten(leaves, treespec):
    """The container of a spec with other leaves; ValueError when their number does not fit."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten(leaves, treespec): `leaves` has length {len(leaves)} but the spec refers to a pytree that holds "
                         f"{treespec.num_leaves} items ({treespec}).")
    return _unflatten(iter(leaves), treespec)


def tree_leaves(tree, is_leaf=None):
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree, is_leaf=None):
    """The spec alone."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func, tree, *rests, is_leaf=None):
    """The container with func(leaf, ...) for every leaf; the others must have the first one's structure (or end earlier at a leaf)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves] + [up_to(spec, r) for r in rests]
    return tree_unflatten([func(*row) for row in zip(*columns, strict=True)], spec)


def up_to(spec, tree):
    """The subtrees of `tree` where `spec` has leaves; ValueError where the containers differ."""
    out: list = []
    _up_to(spec, tree, out)
    return out


def _up_to(s, x, out):
    if s.type is None:
        out.append(x)
        return
    found = _children(x)
    if found is None or type(x) is not s.type or len(found[0]) != len(s.children_specs):
        raise ValueError(f"the trees differ: {s} and {type(x).__name__}")
    for c, y in zip(s.children_specs, found[0], strict=True):
        _up_to(c, y, out)


def broadcast_prefix(prefix, spec):
    """`prefix`'s leaves repeated over the leaves of `spec` below them; None when it is no prefix of it."""
    if spec.type is None:
        return [prefix] if _children(prefix) is None else None
    found = _children(prefix)
    if found is None:
        return [prefix] * spec.num_leaves
    if type(prefix) is not spec.type or len(found[0]) != len(spec.children_specs) or found[1] != spec.context:
        return None
    parts = [broadcast_prefix(p, s) for p, s in zip(found[0], spec.children_specs, strict=True)]
    return None if any(p is None for p in parts) else [x for p in parts for x in p]


def tree_map_only(kind, func, tree, is_leaf=None):
    """The container with func(leaf) for leaves of a type (or of several), others kept."""
    return tree_map(lambda x: func(x) if isinstance(x, kind) else x, tree, is_leaf=is_leaf)


def tree_map_(func, tree, *rests, is_leaf=None):
    """func on every leaf for its effect; returns the tree."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_all(pred, tree, is_leaf=None):
    """Whether pred holds for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    """Whether pred holds for a leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def register_pytree_node(cls, flatten_fn, unflatten_fn, **_names):
    """Make instances of a class containers: flatten_fn(x) -> (children, context), unflatten_fn(children, context)."""
    _registry[cls] = flatten_fn, unflatten_fn

"""Nested containers taken apart and put together again (torch.utils._pytree), by jax.tree_util."""
from __future__ import annotations

from jax import tree_util

TreeSpec = tree_util.PyTreeDef


def _leaf(x):
    return x is None  # torch counts None as a leaf


def tree_flatten(tree, is_leaf=None):
    """(leaves, spec) of nested lists, tuples, dicts, named tuples."""
    return tree_util.tree_flatten(tree, _either(is_leaf))


def tree_unflatten(leaves, treespec):
    """The container of a spec with other leaves."""
    return tree_util.tree_unflatten(treespec, leaves)


def tree_leaves(tree, is_leaf=None):
    """The leaves in order."""
    return tree_util.tree_leaves(tree, is_leaf=_either(is_leaf))


def tree_structure(tree, is_leaf=None):
    """The spec alone."""
    return tree_util.tree_structure(tree, is_leaf=_either(is_leaf))


def tree_map(func, tree, *rests, is_leaf=None):
    """The container with func(leaf, ...) for every leaf."""
    return tree_util.tree_map(func, tree, *rests, is_leaf=_either(is_leaf))


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
    tree_util.register_pytree_node(cls, lambda x: tuple(flatten_fn(x)), lambda context, children: unflatten_fn(list(children), context))


def _either(is_leaf):
    return _leaf if is_leaf is None else lambda x: x is None or is_leaf(x)

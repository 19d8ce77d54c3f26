"""Containers taken apart hold nothing back."""
from __future__ import annotations

import gc
import weakref

from lazy_tensor import func, ones, zeros_like
from lazy_tensor.utils import _pytree


class Leaf:
    pass


def test_leaves_go_with_their_container_without_the_collector():
    gc.disable()
    try:
        leaf = Leaf()
        ref = weakref.ref(leaf)
        leaves, spec = _pytree.tree_flatten({"a": [leaf, 1]})
        assert _pytree.tree_unflatten(leaves, spec)["a"][0] is leaf
        assert _pytree.up_to(spec, {"a": [leaf, 2]}) == [leaf, 2]
        del leaf, leaves
        assert ref() is None
    finally:
        gc.enable()


def test_a_tensor_made_and_written_inside_a_transform_is_not_taken_for_one_from_outside():
    def f(r):
        t = zeros_like(r)
        t.add_(r)
        return t
    assert func.vmap(f)(ones(2, 3)).tolist() == [[1.0] * 3] * 2

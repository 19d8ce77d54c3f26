"""Nodes of the tape: an op's backward, a leaf's accumulation, and nodes written in Python.

Edges are flat tuples `(node, output index, node, output index, ...)`. Nodes are numbered as they are made, and an
edge always leads to a lower number, so descending number is a topological order for backward.
"""
from __future__ import annotations

import itertools
import weakref

_counter = itertools.count()
_next = _counter.__next__


class Node:
    """What every node has: edges, a number, a place where gradients gather, hooks."""

    __slots__ = ("edges", "seq", "buf", "n", "mark", "pre_hooks", "post_hooks", "_metadata", "__weakref__")

    def __init__(self, edges, n):
        self.edges, self.n = edges, n
        self.seq = _next()
        self.buf = self.pre_hooks = self.post_hooks = None
        self.mark = 0

    @property
    def next_functions(self):
        """((node, output index), ...) as torch shows them."""
        e = self.edges
        return tuple((e[i], e[i + 1]) for i in range(0, len(e), 2))

    @property
    def metadata(self):
        """A dict for the user's notes."""
        try:
            return self._metadata
        except AttributeError:
            self._metadata = {}
            return self._metadata

    def name(self):
        """The node's name, such as AddBackward0."""
        return type(self).__name__

    def register_hook(self, hook):
        """hook(grad_inputs, grad_outputs) after this node ran; may return new grad_inputs."""
        if self.post_hooks is None:
            self.post_hooks = {}
        return RemovableHandle(self.post_hooks, hook)

    def register_prehook(self, hook):
        """hook(grad_outputs) before this node runs; may return new grad_outputs."""
        return self._pre(None, hook)

    def _pre(self, index, hook):
        """A hook on one output's gradient (index), or on all (None)."""
        if self.pre_hooks is None:
            self.pre_hooks = {}
        return RemovableHandle(self.pre_hooks, (index, hook))

    def __repr__(self):
        return f"<{self.name()} object at {id(self):#x}>"


# Ops whose torch node has a name of its own; the others are called after the op.
_TORCH_NODES = {"linear": "Addmm", "vector_norm": "LinalgVectorNorm", "cross_entropy": "NllLoss", "conv1d": "Convolution", "conv2d": "Convolution",
                "conv3d": "Convolution", "conv_transpose1d": "Convolution", "conv_transpose2d": "Convolution", "conv_transpose3d": "Convolution",
                "max_pool2d": "MaxPool2DWithIndices", "max_pool3d": "MaxPool3DWithIndices", "avg_pool2d": "AvgPool2D", "avg_pool3d": "AvgPool3D",
                "layer_norm": "NativeLayerNorm", "group_norm": "NativeGroupNorm", "batch_norm_train": "NativeBatchNorm",
                "batch_norm_eval": "NativeBatchNorm", "cast": "ToCopy", "pad": "ConstantPadNd"}


class OpNode(Node):
    """The backward of one recorded op: `tape` says how, `saved` holds the values that it reads."""

    __slots__ = ("tape", "saved", "code", "lasti")

    def name(self):
        name = self.tape.name.strip("_")
        if name.endswith("_write"):
            return "CopySlices"
        base = _TORCH_NODES.get(name) or "".join(p[:1].upper() + p[1:] for p in name.split("_"))
        return f"{base}Backward0"

    @property
    def _saved_values(self):
        return self.saved


class AccumulateGrad(Node):
    """Adds a gradient to a leaf's `.grad`."""

    __slots__ = ("ref",)

    def __init__(self, leaf):
        Node.__init__(self, (), 1)
        self.ref = weakref.ref(leaf)

    @property
    def variable(self):
        """The leaf tensor (None when it is gone)."""
        return self.ref()


class RemovableHandle:
    """Takes a hook back: `handle.remove()`, or as a context manager."""

    _ids = itertools.count()

    def __init__(self, hooks_dict, hook=None, *, extra_dict=None):
        self.id = next(RemovableHandle._ids)
        self.hooks = hooks_dict
        if hook is not None:
            hooks_dict[self.id] = hook

    def remove(self):
        """Take the hook away; nothing happens the second time."""
        self.hooks.pop(self.id, None)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()

"""What grad_fn is called: torch's names for common ops."""
from __future__ import annotations

import pytest

import lazy_tensor as lt
import lazy_tensor.nn.functional as F

X = lt.ones(3, 3, requires_grad=True)
IM = lt.ones(1, 3, 4, 4, requires_grad=True)


@pytest.mark.parametrize("make,name", [
    (lambda: X + X, "AddBackward0"), (lambda: X.view(9), "ViewBackward0"), (lambda: F.linear(X, X, X[0]), "AddmmBackward0"),
    (lambda: X.norm(), "LinalgVectorNormBackward0"), (lambda: F.cross_entropy(X, lt.tensor([0, 1, 2])), "NllLossBackward0"),
    (lambda: F.conv2d(IM, lt.ones(2, 3, 1, 1)), "ConvolutionBackward0"), (lambda: F.max_pool2d(IM, 2), "MaxPool2DWithIndicesBackward0"),
    (lambda: F.layer_norm(X, (3,)), "NativeLayerNormBackward0"), (lambda: X.double(), "ToCopyBackward0"),
    (lambda: F.batch_norm(IM, None, None, training=True), "NativeBatchNormBackward0"),
])
def test_name(make, name):
    y = make()
    assert y.grad_fn.name() == name and f"grad_fn=<{name}>" in repr(y)


def test_written_base():
    y = X * 2
    y[0] = 1.0
    assert y.grad_fn.name() == "CopySlices"

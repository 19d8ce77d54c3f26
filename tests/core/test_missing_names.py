"""A name that a namespace does not have: AttributeError with the namespace and the nearest names; hasattr and imports go on working."""
from __future__ import annotations

import importlib

import pytest

import lazy_tensor as lt


@pytest.mark.parametrize("path,name,near", [("nn", "Conv2D", "Conv2d"), ("optim", "Addam", "Adam"), ("func", "vmapp", "vmap"),
                                            ("autograd", "backwards", "backward"), ("distributions", "Normall", "Normal"),
                                            ("nn.functional", "relu_6", "relu6")])
def test_hint(path, name, near):
    module = importlib.import_module(f"lazy_tensor.{path}")
    with pytest.raises(AttributeError, match=f"module 'lazy_tensor.{path}' has no attribute '{name}'; the nearest that exist: .*{near}"):
        getattr(module, name)
    assert not hasattr(module, name) and hasattr(module, near)
    with pytest.raises(ImportError):
        exec(f"from lazy_tensor.{path} import {name}")


def test_submodules_still_import():
    from lazy_tensor.nn.modules.conv import Conv2d
    assert Conv2d is lt.nn.Conv2d and lt.autograd.gradcheck

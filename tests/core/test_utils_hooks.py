"""lt.utils.hooks."""
from __future__ import annotations

import lazy_tensor as lt


def test_handle_of_a_module_hook():
    layer, seen = lt.nn.Linear(2, 2), []
    handle = layer.register_forward_hook(lambda *a: seen.append(1))
    assert isinstance(handle, lt.utils.hooks.RemovableHandle)
    layer(lt.ones(2))
    handle.remove()
    layer(lt.ones(2))
    assert seen == [1]

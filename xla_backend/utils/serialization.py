"""torch_xla.utils.serialization: save and load with tensors on the cpu in between."""
from __future__ import annotations

import os


def save(data, path, master_only: bool = True, global_master: bool = False) -> None:
    """Save data (XLA tensors as cpu copies) to path; only the first replica writes when master_only."""
    from xla_backend.core import xla_model as xm
    xm.save(data, os.fspath(path), master_only=master_only, global_master=global_master)


def load(path):
    """What `save` wrote, tensors on the cpu."""
    import lazy_tensor as lt
    return lt.load(os.fspath(path), map_location="cpu")

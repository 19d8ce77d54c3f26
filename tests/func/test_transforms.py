"""torch.func: each transform's outcome is torch's."""
from __future__ import annotations

import pytest
from func_check import check, names


@pytest.mark.parametrize("device", ["cpu", "xla"])
@pytest.mark.parametrize(("group", "name"), names("transforms", "vmap", "modules"))
def test_as_torch(group, name, device):
    check(group, name, device)

"""Every torch_xla name that public programs use is at its module path, with the keyword arguments that they give."""
from __future__ import annotations

import functools
import importlib
import inspect
from pathlib import Path

import pytest

PATHS = {
    "xm": "xla_backend.core.xla_model", "xmp": "xla_backend.distributed.xla_multiprocessing", "pl": "xla_backend.distributed.parallel_loader",
    "xr": "xla_backend.runtime", "xs": "xla_backend.distributed.spmd", "met": "xla_backend.debug.metrics",
    "xp": "xla_backend.debug.profiler", "xu": "xla_backend.utils.utils", "xser": "xla_backend.utils.serialization",
    "xfsdp": "xla_backend.distributed.fsdp", "torch_xla": "xla_backend", "test_utils": "xla_backend.test.test_utils",
}
ROWS = [(name, kw.split()) for name, _, kw in (line.partition("\t") for line in
        Path(__file__).parents[1].joinpath("golden/torch_xla_names.tsv").read_text().splitlines())]
# Where the parameters stand of what takes *args, **kwargs: a function, or None when they go to a class that the user gives.
PASSED_ON = {"pl.MpDeviceLoader": "pl.ParallelLoader", "torch_xla.launch": "torch_xla.api.launch", "torch_xla.compile": "torch_xla.api.compile",
             "torch_xla.distributed.zero_redundancy_optimizer.ZeroRedundancyOptimizer": None}
EXCLUDED = {"xs": "the global view (SPMD) comes with its own branch"}


@functools.cache
def module(path):
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        return None


def find(name):
    head, *rest = name.split(".")
    path, parts = PATHS[head], rest
    thing = module(path)
    while parts:
        found = getattr(thing, parts[0], None)
        thing = found if found is not None else module(f"{path}.{parts[0]}")
        path, parts = f"{path}.{parts[0]}", parts[1:]
    return thing


@pytest.mark.parametrize(("name", "keywords"), ROWS, ids=[r[0] for r in ROWS])
def test_name_and_keywords(name, keywords):
    head = name.partition(".")[0]
    if head in EXCLUDED and module(PATHS[head]) is None:
        pytest.skip(EXCLUDED[head])
    thing = find(name)
    assert thing is not None, f"{name} is not there"
    if name in PASSED_ON:
        other = PASSED_ON[name]
        if other is None:
            return
        thing = find(other)
    if keywords:
        parameters = inspect.signature(thing).parameters
        missing = [k for k in keywords if k not in parameters]
        assert not missing, f"{name} takes {list(parameters)}, not {missing}"

"""The few names of torch_xla's extension module that scripts call."""
from __future__ import annotations

from xla_backend import program, runtime


def _xla_sync_multi(tensors, devices, wait: bool = True, sync_xla_data: bool = True) -> None:
    """Run what the tensors need; wait until it is done."""
    for dev in {t._value().aval.device for t in tensors if t._value().data is None}:
        program.sync(dev, "_xla_sync_multi()")
    if wait:
        runtime.synchronize()


def _xla_get_default_device() -> str:
    """"xla:0": the thread's default device."""
    return str(runtime.device("xla"))


def _xla_set_default_device(device: str) -> str:
    """Make "xla:1" the thread's default device; returns the one before."""
    before = _xla_get_default_device()
    runtime.set_default_index(int(str(device).rpartition(":")[2]))
    return before


def _xla_step_marker(device: str = "", devices=(), wait: bool = False, reset_scope: bool = True) -> None:
    """Dispatch everything recorded."""
    program.sync_all("_xla_step_marker()")
    if wait:
        runtime.synchronize()


def _get_xla_tensors_text(tensors) -> str:
    """What is recorded on the tensors' device, one op a line."""
    import lazy_tensor as lt
    return lt.dump("text", tensors[0].device)


def _get_xla_tensors_hlo(tensors) -> str:
    """The StableHLO of what is recorded on the tensors' device."""
    import lazy_tensor as lt
    return lt.dump("stablehlo", tensors[0].device)


def _xla_metrics_report() -> str:
    """All counters and timers as text."""
    from xla_backend import metrics
    return metrics.report()

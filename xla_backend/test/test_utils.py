"""torch_xla.test.test_utils: what torch_xla's training scripts print and write to TensorBoard."""
from __future__ import annotations

import os
import time
from datetime import datetime


def now(format: str = "%H:%M:%S") -> str:
    """The local time as text."""
    return datetime.now().strftime(format)


def get_summary_writer(logdir: str | None):
    """A TensorBoard writer in logdir on the first replica; None without logdir, or on other replicas.

    Raises ImportError naming the package to install (tensorboardX) when it is not there."""
    from xla_backend.core import xla_model as xm
    if not logdir or not xm.is_master_ordinal():
        return None
    try:
        from tensorboardX import SummaryWriter
    except ImportError as e:
        raise ImportError("get_summary_writer needs tensorboardX: pip install tensorboardX") from e
    return SummaryWriter(os.path.join(logdir, f"{time.strftime('%Y%m%d-%H%M%S')}"))


def write_to_summary(summary_writer, global_step: int | None = None, dict_to_write: dict | None = None,
                     write_xla_metrics: bool = False) -> None:
    """Write a dict of numbers, and the machine's counters when asked; nothing without a writer."""
    if summary_writer is None:
        return
    for name, value in (dict_to_write or {}).items():
        summary_writer.add_scalar(name, value, global_step)
    if write_xla_metrics:
        from xla_backend import metrics
        for name, value in metrics.counters.items():
            summary_writer.add_scalar(f"metrics/{name}", value, global_step)


def close_summary_writer(summary_writer) -> None:
    """Close a writer; nothing without one."""
    if summary_writer is not None:
        summary_writer.flush()
        summary_writer.close()


def print_training_update(device, step: int, loss, rate: float, global_rate: float, epoch: int | None = None,
                          summary_writer=None) -> None:
    """One line on a training step: loss and samples per second."""
    loss = loss.item() if hasattr(loss, "item") else loss
    print(f"| Training Device={device}" + (f" Epoch={epoch}" if epoch is not None else "")
          + f" Step={step} Loss={loss:.5f} Rate={rate:.2f} GlobalRate={global_rate:.2f} Time={now()}", flush=True)
    write_to_summary(summary_writer, dict_to_write={"rate": rate})


def print_test_update(device, accuracy, epoch: int | None = None, step: int | None = None) -> None:
    """One line on an evaluation step."""
    print(f"| Test Device={device}" + (f" Step={step}" if step is not None else "") + (f" Epoch={epoch}" if epoch is not None else "")
          + (f" Accuracy={accuracy:.2f}" if accuracy is not None else "") + f" Time={now()}", flush=True)

"""torch.optim: optimizers, `lr_scheduler`, `swa_utils`.

Rooms: `optimizer` (groups, state, how an update is recorded) <- `sgd`, `adam`, `others`, `lbfgs`.
"""
from __future__ import annotations

from lazy_tensor.ops._define import missing as _missing
from lazy_tensor.optim import lr_scheduler, swa_utils
from lazy_tensor.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam, SparseAdam
from lazy_tensor.optim.lbfgs import LBFGS
from lazy_tensor.optim.optimizer import Optimizer
from lazy_tensor.optim.others import ASGD, Adadelta, Adafactor, Adagrad, Muon, RMSprop, Rprop
from lazy_tensor.optim.sgd import SGD

__all__ = ["Optimizer", "SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "SparseAdam", "RMSprop", "Adagrad", "Adadelta", "ASGD", "Rprop",
           "Adafactor", "Muon", "LBFGS", "lr_scheduler", "swa_utils"]

__getattr__ = _missing("optim", globals())

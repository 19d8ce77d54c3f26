"""torch_xla.distributed.fsdp: parameters, gradients and optimizer states sharded over the replicas (ZeRO-3)."""
from __future__ import annotations

from xla_backend.distributed.fsdp import wrap as wrap
from xla_backend.distributed.fsdp.state_dict_utils import consolidate_sharded_model_checkpoints as consolidate_sharded_model_checkpoints
from xla_backend.distributed.fsdp.state_dict_utils import consolidate_sharded_state_dicts as consolidate_sharded_state_dicts
from xla_backend.distributed.fsdp.utils import checkpoint_module as checkpoint_module
from xla_backend.distributed.fsdp.xla_fully_sharded_data_parallel import XlaFullyShardedDataParallel as XlaFullyShardedDataParallel

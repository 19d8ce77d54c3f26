"""`python -m xla_backend.distributed.fsdp.consolidate_sharded_ckpts --ckpt_prefix P`: one checkpoint file from the replicas'."""
from __future__ import annotations

import argparse

from xla_backend.distributed.fsdp.state_dict_utils import consolidate_sharded_model_checkpoints


def main(argv=None) -> None:
    """The command."""
    p = argparse.ArgumentParser(description="Make one checkpoint of those that the replicas of a sharded model wrote.")
    p.add_argument("--ckpt_prefix", required=True, help="what the files' names begin with")
    p.add_argument("--ckpt_suffix", default="*.pth", help="what they end with")
    p.add_argument("--save_path", default="", help="where to write; PREFIX_consolidated.pth when left out")
    o = p.parse_args(argv)
    _, path = consolidate_sharded_model_checkpoints(o.ckpt_prefix, o.ckpt_suffix, o.save_path)
    print(path)


if __name__ == "__main__":
    main()

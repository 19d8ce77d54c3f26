"""torch_xla.distributed.fsdp.state_dict_utils: one full state dict from the sharded ones of all replicas."""
from __future__ import annotations

import math
import re
from glob import glob

_WRAPPERS = re.compile(r"_fsdp_wrapped_module\.|_fpw_module\.")


def consolidate_sharded_state_dicts(state_dict_list, shard_metadata) -> dict:
    """The full state dict, by the names of the unwrapped module, of the replicas' `state_dict()`s in the order of their ranks.

    shard_metadata: any replica's `get_shard_metadata()`. Buffers are the first replica's. Raises ValueError when a replica's is missing."""
    import lazy_tensor as lt
    if len(state_dict_list) != shard_metadata["world_size"]:
        raise ValueError(f"consolidate_sharded_state_dicts: {len(state_dict_list)} state dicts, and the model was sharded over "
                         f"{shard_metadata['world_size']} replicas")
    full = {}
    for name, value in state_dict_list[0].items():
        parts = name.split(".")
        at = next((i for i, part in enumerate(parts) if part.startswith("_fsdp_shard")), None)
        if at is None:
            full[_WRAPPERS.sub("", name)] = value
            continue
        prefix = ".".join(parts[:at])
        info = shard_metadata["shard_info"][prefix][".".join(parts[at:])]
        whole = lt.cat([s[name] for s in state_dict_list], 0)
        size = info["_orig_size"]
        whole = whole[:size[0]] if len(size) == whole.dim() > 1 else whole[:math.prod(size)].view(*size)
        full_name = f"{prefix}.{info['_orig_name']}" if prefix else info["_orig_name"]
        flat = shard_metadata["flatten_info"].get(full_name)
        if flat is None:
            full[_WRAPPERS.sub("", full_name)] = whole
            continue
        names, shapes, numels = flat
        inside = full_name.rpartition(".")[0] + "." if "." in full_name else ""
        for n, s, part in zip(names, shapes, whole.split(list(numels)), strict=True):
            full[_WRAPPERS.sub("", inside + n)] = part.view(*s)
    return full


def consolidate_sharded_model_checkpoints(ckpt_prefix, ckpt_suffix="*.pth", save_path="", save_model=True):
    """(full state dict, path) of the checkpoint files that match ckpt_prefix + ckpt_suffix, one a replica.

    Each file holds {"model": model.state_dict(), "shard_metadata": model.get_shard_metadata()}. With save_model {"model": full state
    dict} is written to save_path (ckpt_prefix + "_consolidated.pth" when empty); otherwise path is None. Raises ValueError when files are missing."""
    import lazy_tensor as lt
    pattern = ckpt_prefix + ckpt_suffix
    found = [(lt.load(p, map_location="cpu"), p) for p in sorted(glob(pattern)) if p != ckpt_prefix + "_consolidated.pth"]
    if not found:
        raise ValueError(f"consolidate_sharded_model_checkpoints: no file matches {pattern}")
    found.sort(key=lambda f: f[0]["shard_metadata"]["rank"])
    ranks = [c["shard_metadata"]["rank"] for c, _ in found]
    size = found[0][0]["shard_metadata"]["world_size"]
    if ranks != list(range(size)):
        raise ValueError(f"consolidate_sharded_model_checkpoints: {pattern} gives ranks {ranks}; ranks 0 to {size - 1}, each once, would fit")
    full = consolidate_sharded_state_dicts([c["model"] for c, _ in found], found[0][0]["shard_metadata"])
    path = None
    if save_model:
        path = save_path or ckpt_prefix + "_consolidated.pth"
        lt.save({"model": full}, path)
    return full, path

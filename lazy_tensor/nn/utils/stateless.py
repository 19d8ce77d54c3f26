"""A module called with other parameters (torch.nn.utils.stateless, torch.func.functional_call)."""
from __future__ import annotations

from collections.abc import Mapping


def functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """module(*args, **kwargs) with the named parameters and buffers replaced for this call."""
    if not isinstance(parameters_and_buffers, Mapping):
        merged: dict = {}
        for d in parameters_and_buffers:
            merged.update(d)
        parameters_and_buffers = merged
    own = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))}
    new = dict(parameters_and_buffers)
    if tie_weights:
        by_id: dict = {}
        for name, t in own.items():
            by_id.setdefault(id(t), []).append(name)
        for names in by_id.values():
            given = [n for n in names if n in new]
            if given and any(new[n] is not new[given[0]] for n in given):
                raise ValueError(f"functional_call got multiple values for keys {given}, which are tied. Consider using tie_weights=False")
            for n in names if given else ():
                new[n] = new[given[0]]
    if strict:
        extra, missing = [n for n in parameters_and_buffers if n not in own], [n for n in own if n not in new]
        if extra or missing:
            said = ([f"Unexpected key(s): {', '.join(map(repr, extra))}."] if extra else []) + (
                [f"Missing key(s): {', '.join(map(repr, missing))}."] if missing else [])
            raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t" + "\n\t".join(said))
    before = []
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    try:
        for name, value in new.items():
            path, _, leaf = name.rpartition(".")
            owner = module.get_submodule(path)
            table = owner._parameters if leaf in owner._parameters else owner._buffers
            if leaf not in table:
                raise AttributeError(f"{owner._get_name()} has no attribute `{leaf}`")
            before.append((table, leaf, table[leaf]))
            table[leaf] = value
        return module(*args, **(kwargs or {}))
    finally:
        for table, leaf, value in reversed(before):
            table[leaf] = value

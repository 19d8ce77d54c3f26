"""A module called with other parameters (torch.nn.utils.stateless, torch.func.functional_call)."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from lazy_tensor.tensor import Tensor

_MISSING = object()


def _swap(module, name, value):
    """Put value at a dotted name; returns what was there (_MISSING for nothing)."""
    path, _, leaf = name.rpartition(".")
    if leaf == "":
        raise KeyError('tensor name can\'t be empty string ""')
    owner = module.get_submodule(path)
    for table in (owner._parameters, owner._buffers):
        if leaf in table:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"{value} is not an instance of torch.Tensor")
            old = table[leaf]
            table[leaf] = value
            return old
    old = getattr(owner, leaf, _MISSING)  # an attribute that is no parameter or buffer, or a new one
    if old is not _MISSING and not isinstance(old, Tensor):
        raise TypeError(f"attribute `{leaf}`: {old} is not an instance of torch.Tensor")
    if value is _MISSING:
        delattr(owner, leaf)
    else:
        setattr(owner, leaf, value)
    return old


def _merged(dicts):
    if isinstance(dicts, Mapping):
        return dicts
    if not isinstance(dicts, Sequence):
        raise ValueError(f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(dicts)}")
    if not all(isinstance(d, Mapping) for d in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    keys = [k for d in dicts for k in d]
    twice = sorted({k for k in keys if keys.count(k) > 1}) if len(set(keys)) < len(keys) else []
    if twice:
        raise ValueError(f"{twice} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    return {k: v for d in dicts for k, v in d.items()}


def functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """module(*args, **kwargs) with the named parameters and buffers replaced for this call.

    `parameters_and_buffers`: a dict by dotted name, or several with different keys; what the call assigns to these names is written
    back to the dict. `tie_weights`: names of one tensor are replaced together. `strict`: RuntimeError unless the names are exactly
    the module's. ValueError for repeated keys and for different values of tied names (torch.func.functional_call)."""
    given = _merged(parameters_and_buffers)
    new = dict(given)
    if tie_weights or strict:
        own = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))}
    if tie_weights:
        by_id: dict = {}
        for name, t in own.items():
            by_id.setdefault(id(t), []).append(name)
        for names in by_id.values():
            told = [n for n in names if n in new] if len(names) > 1 else ()
            if told:
                if any(new[n] is not new[told[0]] for n in told):
                    raise ValueError(f"functional_call got multiple values for keys {told}, which are tied. Consider using "
                                     "tie_weights=False")
                new.update(dict.fromkeys(names, new[told[0]]))
    if strict:
        extra, missing = sorted(n for n in given if n not in own), sorted(n for n in own if n not in new)
        if extra or missing:
            said = ([f"Unexpected key(s): {', '.join(map(repr, extra))}."] if extra else []) + (
                [f"Missing key(s): {', '.join(map(repr, missing))}."] if missing else [])
            raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t" + "\n\t".join(said))
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    before: list = []
    try:
        for name, value in new.items():
            before.append((name, _swap(module, name, value)))
        return module(*args, **(kwargs or {}))
    finally:
        for name, old in reversed(before):
            now = _swap(module, name, old)
            if name in given and now is not given[name] and now is not _MISSING:
                given[name] = now

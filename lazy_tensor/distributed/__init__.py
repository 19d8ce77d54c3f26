"""torch.distributed over the replicas of this process: collectives in its names, recorded as operations.

A process group is a list of ranks; every replica of the world takes part in every call (groups part the world into equal
groups, given by `new_group` on all ranks in one order). Work is asynchronous by nature: `async_op=True` returns a handle that is
done once the results have been dispatched. What one replica sends and only another receives (`send`, `recv`) is no collective
and is not there: `collective_permute` of xla_backend's `xla_model` does it for all together.
"""
from __future__ import annotations

import contextlib
import datetime

from xla_backend import replicas, runtime
from xla_backend.core import xla_model as xm


class ReduceOp:
    """How values are combined (torch.distributed.ReduceOp)."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR = "sum", "avg", "product", "min", "max", "band", "bor", "bxor"


_KIND = {"sum": xm.REDUCE_SUM, "avg": xm.REDUCE_SUM, "product": xm.REDUCE_MUL, "min": xm.REDUCE_MIN, "max": xm.REDUCE_MAX,
         "band": xm.REDUCE_AND, "bor": xm.REDUCE_OR}
reduce_op = ReduceOp


class ProcessGroup:
    """Ranks that communicate among themselves. `WORLD` is all of them."""

    def __init__(self, ranks):
        self.ranks = list(ranks)

    def size(self):
        """The number of ranks in it."""
        return len(self.ranks)

    def rank(self):
        """This replica's place in it (-1 outside)."""
        r = get_rank()
        return self.ranks.index(r) if r in self.ranks else -1


class Work:
    """What an asynchronous call returns: the results are recorded already."""

    def __init__(self, result=None):
        self._result = result

    def wait(self, timeout=None):
        """True; values are computed when asked for."""
        return True

    def is_completed(self):
        """True: the tensors can be used."""
        return True

    def result(self):
        """The tensors that were written."""
        return self._result

    def get_future(self):
        """Itself: it has `wait` and `value`."""
        return self

    value = result


class group:
    """`group.WORLD` (torch.distributed.group)."""

    WORLD = None


GroupMember = group
_started: dict[int, dict] = {}


def is_available():
    """True."""
    return True


def _state():
    here = replicas.current()
    return _started.setdefault(id(here[1]) if here else 0, {"groups": []})


def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, group_name="", pg_options=None,
                       device_id=None):
    """Begin to communicate. backend: "xla", or any name that torch knows ("gloo", "nccl", ...), which all mean XLA's collectives
    here. world_size and rank, where given, must be what `xla_backend.launch` made (ValueError otherwise)."""
    if world_size not in (-1, None, runtime.world_size()) or rank not in (-1, None, runtime.global_ordinal()):
        raise ValueError(f"init_process_group: world_size={world_size}, rank={rank}, and this is rank {runtime.global_ordinal()} of "
                         f"{runtime.world_size()}; start replicas with `python -m xla_backend.launch --nprocs N script.py` or xmp.spawn")
    _state()["backend"] = backend or "xla"


def destroy_process_group(group=None):
    """End; groups are forgotten."""
    _started.pop(id(replicas.current()[1]) if replicas.current() else 0, None)


def is_initialized():
    """Whether `init_process_group` has been called (in this world of replicas)."""
    here = replicas.current()
    return "backend" in _started.get(id(here[1]) if here else 0, {})


def get_backend(group=None):
    """The backend's name as it was given."""
    return _state().get("backend", "xla")


def is_torchelastic_launched():
    """False."""
    return False


def is_nccl_available():
    """Whether the devices are GPUs, where XLA's collectives run over NCCL."""
    return runtime.device_type() == "CUDA"


def is_gloo_available():
    """True: XLA's collectives run over gloo between CPU processes."""
    return True


def is_mpi_available():
    """False."""
    return False


def get_rank(group=None):
    """This replica's number (its place in `group`; -1 outside)."""
    return runtime.global_ordinal() if group is None else group.rank()


def get_world_size(group=None):
    """The number of replicas (in `group`)."""
    return runtime.world_size() if group is None else group.size()


def get_process_group_ranks(group=None):
    """The ranks in a group."""
    return list(range(get_world_size())) if group is None else list(group.ranks)


def get_global_rank(group, group_rank):
    """The rank in the world of a group's member."""
    return group.ranks[group_rank]


def get_group_rank(group, global_rank):
    """A rank's place in a group."""
    return group.ranks.index(global_rank)


def new_group(ranks=None, timeout=None, backend=None, pg_options=None, use_local_synchronization=False, group_desc=None, device_id=None):
    """A group of ranks (all when None); called on every replica, groups in one order (as torch asks)."""
    return ProcessGroup(range(get_world_size()) if ranks is None else sorted(ranks))


def new_subgroups(group_size=None, group=None, timeout=None, backend=None, pg_options=None, group_desc=None):
    """(this replica's group, all groups) of a split into groups of `group_size` consecutive ranks."""
    n = get_world_size()
    size = group_size or n
    if n % size:
        raise ValueError(f"the world size ({n}) must be divisible by group_size={size}")
    groups = [ProcessGroup(range(s, s + size)) for s in range(0, n, size)]
    return groups[get_rank() // size], groups


def _groups(g, what):
    """The partition of the world that a group belongs to: its ranks, and the others in groups of the same size."""
    if g is None or len(g.ranks) == get_world_size():
        return None
    size, n = len(g.ranks), get_world_size()
    first = min(g.ranks)
    step = g.ranks[1] - g.ranks[0] if size > 1 else 1
    if n % size == 0 and g.ranks == list(range(first, first + size)) and first % size == 0:
        return [list(range(s, s + size)) for s in range(0, n, size)]
    if n % size == 0 and step * size == n and g.ranks == list(range(first, n, step)):
        return [list(range(s, n, step)) for s in range(step)]
    raise NotImplementedError(f"{what}: group {g.ranks} is no block or stride of the {n} replicas; every replica takes part in a collective "
                              "of XLA, so the groups must part the world equally (xm.all_reduce(..., groups=[[...], ...]) takes any partition)")


def _member(g):
    return g is None or get_rank() in g.ranks


def _done(async_op, result=None):
    return Work(result) if async_op else None


def _no_grad():
    import lazy_tensor as lt
    return lt.no_grad()


def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """tensor reduced over the group, in place (torch.distributed.all_reduce)."""
    if op not in _KIND:
        raise ValueError(f"all_reduce: op {op!r} is not one of {', '.join(_KIND)}")
    groups = _groups(group, "all_reduce")
    with _no_grad():
        r = xm.all_reduce(_KIND[op], tensor, 1.0 / get_world_size(group) if op == "avg" else 1.0, groups)
        if _member(group):
            tensor.copy_(r)
    return _done(async_op, [tensor])


def reduce(tensor, dst=0, op=ReduceOp.SUM, group=None, async_op=False):
    """tensor reduced into rank dst's."""
    groups = _groups(group, "reduce")
    with _no_grad():
        r = xm.all_reduce(_KIND[op], tensor, 1.0 / get_world_size(group) if op == "avg" else 1.0, groups)
        if get_rank() == dst:
            tensor.copy_(r)
    return _done(async_op, [tensor])


def broadcast(tensor, src=0, group=None, async_op=False, group_src=None):
    """Rank src's tensor, everywhere, in place."""
    groups = _groups(group, "broadcast")
    root = group_src if group_src is not None else src if group is None else group.ranks.index(src) if src in group.ranks else 0
    xm.collective_broadcast([tensor], root, groups)
    return _done(async_op, [tensor])


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """tensor_list[i] = rank i's tensor."""
    r = xm.all_gather(tensor.unsqueeze(0), 0, _groups(group, "all_gather"))
    if len(tensor_list) != r.shape[0]:
        raise ValueError(f"all_gather: tensor_list has {len(tensor_list)} tensors, the group has {r.shape[0]} ranks")
    with _no_grad():
        for t, x in zip(tensor_list, r.unbind(0), strict=True):
            t.copy_(x)
    return _done(async_op, tensor_list)


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """output_tensor = every rank's input_tensor, concatenated (or stacked, by its shape)."""
    with _no_grad():
        output_tensor.copy_(xm.all_gather(input_tensor, 0, _groups(group, "all_gather_into_tensor")).reshape(output_tensor.shape))
    return _done(async_op, [output_tensor])


_all_gather_base = all_gather_into_tensor


def gather(tensor, gather_list=None, dst=0, group=None, async_op=False):
    """On rank dst gather_list[i] = rank i's tensor."""
    r = xm.all_gather(tensor.unsqueeze(0), 0, _groups(group, "gather"))
    if get_rank() == dst:
        if gather_list is None:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        with _no_grad():
            for t, x in zip(gather_list, r.unbind(0), strict=True):
                t.copy_(x)
    return _done(async_op, gather_list)


def scatter(tensor, scatter_list=None, src=0, group=None, async_op=False):
    """tensor = rank src's scatter_list[this rank]."""
    import lazy_tensor as lt
    n = get_world_size(group)
    if get_rank() == src:
        if scatter_list is None or len(scatter_list) != n:
            raise ValueError(f"scatter: rank {src} must give a scatter_list of {n} tensors")
        whole = lt.stack(list(scatter_list))
    else:
        whole = lt.zeros(n, *tensor.shape, dtype=tensor.dtype, device=tensor.device)
    broadcast(whole, src, group)
    with _no_grad():
        tensor.copy_(whole[get_rank(group)])
    return _done(async_op, [tensor])


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """output = this rank's part of input reduced over the group."""
    groups = _groups(group, "reduce_scatter_tensor")
    n = get_world_size(group)
    with _no_grad():
        flat = input if input.shape[0] == n * (output.shape[0] if output.dim() else 1) else input.reshape(n * output.shape[0], *output.shape[1:])
        output.copy_(xm.reduce_scatter(_KIND[op], flat, 1.0 / n if op == "avg" else 1.0, 0, n, groups).reshape(output.shape))
    return _done(async_op, [output])


_reduce_scatter_base = reduce_scatter_tensor


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    """output = input_list[this rank] reduced over the group."""
    import lazy_tensor as lt
    return reduce_scatter_tensor(output, lt.cat([t.unsqueeze(0) for t in input_list]).reshape(-1, *output.shape[1:]) if output.dim()
                                 else lt.stack(list(input_list)), op, group, async_op)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    """The i-th part of input goes to rank i; output is what arrives. Equal parts only (ValueError otherwise)."""
    for sizes in (output_split_sizes, input_split_sizes):
        if sizes and len(set(sizes)) > 1:
            raise ValueError(f"all_to_all_single: split sizes {list(sizes)} differ; XLA's all_to_all has equal parts: pad to the largest")
    with _no_grad():
        output.copy_(xm.all_to_all(input, 0, 0, get_world_size(group), _groups(group, "all_to_all_single")).reshape(output.shape))
    return _done(async_op, [output])


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """output_tensor_list[i] = rank i's input_tensor_list[this rank]; all of one shape."""
    import lazy_tensor as lt
    r = xm.all_to_all(lt.stack(list(input_tensor_list)), 0, 0, get_world_size(group), _groups(group, "all_to_all"))
    with _no_grad():
        for t, x in zip(output_tensor_list, r.unbind(0), strict=True):
            t.copy_(x)
    return _done(async_op, output_tensor_list)


def barrier(group=None, async_op=False, device_ids=None):
    """Wait for all replicas."""
    replicas.exchange("barrier", None)
    return _done(async_op)


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """Wait for all replicas; an error names those that do not come."""
    replicas.exchange("barrier", None)


def all_gather_object(object_list, obj, group=None):
    """object_list[i] = rank i's object (references, within one process)."""
    everyone = replicas.exchange("all_gather_object", obj)
    object_list[:] = [everyone[r] for r in get_process_group_ranks(group)]


def broadcast_object_list(object_list, src=0, group=None, device=None, group_src=None):
    """Rank src's list items, everywhere."""
    object_list[:] = replicas.exchange("broadcast_object_list", list(object_list))[src if group_src is None else get_global_rank(group, group_src)]


def gather_object(obj, object_gather_list=None, dst=0, group=None):
    """On rank dst object_gather_list[i] = rank i's object."""
    everyone = replicas.exchange("gather_object", obj)
    if get_rank() == dst:
        object_gather_list[:] = [everyone[r] for r in get_process_group_ranks(group)]


def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, src=0, group=None):
    """scatter_object_output_list[0] = rank src's item for this rank."""
    scatter_object_output_list[0] = replicas.exchange("scatter_object_list", scatter_object_input_list)[src][get_rank(group)]


def send(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Not a collective: NotImplementedError that says what to write."""
    raise NotImplementedError("send: one replica alone cannot communicate in an XLA program, all take part: use xm.collective_permute(tensor, "
                              "[(source, target), ...]) on every replica")


recv = isend = irecv = batch_isend_irecv = send
default_pg_timeout = datetime.timedelta(minutes=30)
Backend = type("Backend", (str,), {"GLOO": "gloo", "NCCL": "nccl", "XLA": "xla", "MPI": "mpi", "UNDEFINED": "undefined"})


@contextlib.contextmanager
def _coalescing_manager(*args, **kwargs):
    """Nothing to do: XLA combines collectives of one program."""
    yield


def __getattr__(name):
    raise AttributeError(f"module 'lazy_tensor.distributed' has no attribute {name!r}: torch.distributed.{name} is not implemented here")


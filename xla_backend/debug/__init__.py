"""What a person asks of a program: why it was compiled, which lines it came from, its text at each stage."""
from __future__ import annotations

import collections
import threading
from functools import lru_cache

from absl import logging

from xla_backend.graph import Value

_history: collections.deque[Record] = collections.deque(maxlen=256)
_lock = threading.Lock()


@lru_cache(maxsize=65536)
def line(code, lasti: int) -> str:
    """`file.py:12` of a position in a code object; "" when unknown."""
    if code is None:
        return ""
    for start, stop, number in code.co_lines():
        if start <= lasti < stop and number is not None:
            return f"{code.co_filename}:{number}"
    return f"{code.co_filename}:{code.co_firstlineno}"


def short(where: str) -> str:
    """The last part of a path with its line."""
    return where.rsplit("/", 1)[-1]


def scope(name, code, lasti):
    """The name under which a node's instructions appear in the compiled program."""
    where = short(line(code, lasti))
    return f"{name}[{where}]" if where else name


class Record:
    """What is remembered of a compiled program for `explain` and the dumps: no values, only descriptions."""

    def __init__(self, device, nodes, leaves, live, reason):
        self.device, self.reason = device, reason
        live_ids = {id(v) for v in live}
        names = {id(v): f"%arg{i}" for i, v in enumerate(leaves)}
        self.args = [repr(v.aval.core) for v in leaves]
        self.ops = []
        count = 0
        for config, ins, outs, code, lasti in nodes:
            args = [names[id(v)] if type(v) is Value else type(v).__name__ for v in ins]
            for v in outs:
                names[id(v)] = f"%{count}"
                count += 1
            self.ops.append((config.name, tuple(args), tuple((names[id(v)], repr(v.aval.core), id(v) in live_ids) for v in outs),
                             (code, lasti)))
        self.runs, self.seconds = 0, 0.0
        self.lowered = self.executable = None
        self.why = ""

    def text(self) -> str:
        """The recorded graph, one op a line: results, op, operands, the user's line; `*` marks outputs."""
        lines = [f"program on {self.device}: {len(self.ops)} ops, {len(self.args)} inputs; run because of {self.reason}"]
        for i, a in enumerate(self.args):
            lines.append(f"  %arg{i}: {a}")
        for name, args, outs, where in self.ops:
            left = ", ".join(f"{n}{'*' if live else ''}: {a}" for n, a, live in outs)
            lines.append(f"  {left} = {name}({', '.join(args)})" + (f"   # {short(line(*where))}" if where[0] else ""))
        return "\n".join(lines)


def _outs(outs):
    """The avals of an op's outputs, the first four."""
    return ", ".join(o[1] for o in outs[:4]) + (f" and {len(outs) - 4} more" if len(outs) > 4 else "")


def difference(new: Record, old: Record) -> str:
    """The first thing in which two programs differ, in the user's words."""
    for i, (a, b) in enumerate(zip(new.ops, old.ops, strict=False)):
        at = line(*a[3]) or line(*b[3])
        at = f" at {at}" if at else ""
        if a[0] != b[0]:
            return f"op {i} is {a[0]}{at}; it was {b[0]} ({line(*b[3]) or 'unknown line'})"
        if [o[1] for o in a[2]] != [o[1] for o in b[2]]:
            return f"{a[0]}{at} gives {_outs(a[2])}; it was {_outs(b[2])}"
        if a[1] != b[1]:
            return f"{a[0]}{at} reads other operands: {a[1]}, it was {b[1]}"
        if [o[2] for o in a[2]] != [o[2] for o in b[2]]:
            kept = "is still held by somebody" if any(o[2] for o in a[2]) else "is not held any more"
            return f"the result of {a[0]}{at} {kept}, which it was not before" if kept.startswith("is still") else \
                f"the result of {a[0]}{at} is not held any more, as it was before"
    if len(new.ops) != len(old.ops):
        longer = new if len(new.ops) > len(old.ops) else old
        op = longer.ops[min(len(new.ops), len(old.ops))]
        verb = "has more ops" if longer is new else "has fewer ops"
        return (f"it {verb} ({len(new.ops)}, were {len(old.ops)}); the first that only one has: {op[0]} at "
                f"{line(*op[3]) or 'unknown line'}")
    if new.args != old.args:
        i = next(i for i, (a, b) in enumerate(zip(new.args, old.args, strict=False)) if a != b)
        return f"input {i} is {new.args[i]}; it was {old.args[i]}"
    return "a static argument of an op, or which inputs are free to be overwritten, differs"


def _likeness(a: Record, b: Record) -> int:
    same = 0
    for x, y in zip(a.ops, b.ops, strict=False):
        if x[0] != y[0]:
            break
        same += 1
    return same


def note(record: Record) -> None:
    """Remember a new program and log why it is new."""
    with _lock:
        near = max((r for r in _history if r.device is record.device), key=lambda r: (_likeness(record, r), r.runs), default=None)
        record.why = "the first program" if near is None else difference(record, near)
        steady = near is not None and near.runs > 20 and 2 * _likeness(record, near) > len(near.ops)
        _history.append(record)
        for old in list(_history)[-9:-8]:
            old.lowered = None  # a lowered module is large; the newest few are enough to look at
    log = logging.warning if steady else logging.info
    log("compiled a program of %d ops for %s in %.2f s (%s): %s", len(record.ops), record.device, record.seconds,
        record.reason, record.why)


def explain(last: int = 10) -> str:
    """Why programs were compiled, newest last: ops, seconds, runs, and the first difference from the nearest one."""
    with _lock:
        records = list(_history)[-last:]
    if not records:
        return "no program has been compiled yet"
    out = []
    for r in records:
        out.append(f"{r.device}: {len(r.ops)} ops, {len(r.args)} inputs, compiled in {r.seconds:.2f} s, run {r.runs} times; "
                   f"run because of {r.reason}\n    new because {r.why}")
    return "\n".join(out)


def dump(device, lower_pending, stage: str = "text") -> str:
    """The program pending on a device, or else the last one that ran: stage "text" (the recorded graph), "stablehlo",
    "hlo" (optimised, as compiled) or "dot" (graphviz). `lower_pending` is `program.lowered`."""
    if stage not in ("text", "stablehlo", "hlo", "dot"):
        raise ValueError(f"dump: stage must be text, stablehlo, hlo or dot, got {stage!r}")
    pending = bool(device.graph.pending)
    record = next((r for r in reversed(_history) if r.device is device), None)
    if pending:
        if stage in ("text", "dot"):
            return pending_text(device) if stage == "text" else dot(device)
        lowered = lower_pending(device)
        if lowered is None:
            return "nothing pending is needed by anyone"
        return lowered.as_text() if stage == "stablehlo" else lowered.compile().as_text()
    if record is None:
        return "nothing was recorded yet"
    if stage in ("text", "dot"):
        return record.text() if stage == "text" else dot(record)
    if stage == "hlo":
        return record.executable.as_text()
    return record.lowered.as_text() if record.lowered is not None else "no longer kept"


def last_record() -> Record | None:
    """The newest program's record."""
    return _history[-1] if _history else None


def run_error(error: Exception, record: Record) -> Exception:
    """What the user sees when a program fails to compile or run: the cause, ops and lines."""
    text = str(error)
    lines = [line(*op[3]) for op in record.ops if op[3][0]]
    span = f", recorded from {lines[0]} to {lines[-1]}" if lines else ""
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    if "RESOURCE_EXHAUSTED" in text or "out of memory" in text.lower():
        return MemoryError_(f"out of memory on {record.device} in a program of {len(record.ops)} ops{span}: {first}. "
                            "A smaller batch, checkpointing or bfloat16 needs less; nothing recorded was lost.")
    return RuntimeError(f"a program of {len(record.ops)} ops failed on {record.device}{span}: {type(error).__name__}: {first}")


class MemoryError_(RuntimeError):
    """Out of device memory (torch.OutOfMemoryError)."""


MemoryError_.__name__ = MemoryError_.__qualname__ = "OutOfMemoryError"
OutOfMemoryError = MemoryError_


def pending_text(device) -> str:
    """What is recorded on a device and has not run."""
    nodes = list(device.graph.pending)
    names: dict[int, str] = {}
    keep, lines, leaf, n = [], [], 0, 0
    for config, ins, outs, code, lasti in nodes:
        args = []
        for v in ins:
            if type(v) is not Value:
                args.append(repr(v))
                continue
            if id(v) not in names:
                names[id(v)] = f"%arg{leaf}:{v.aval.core!r}"
                leaf += 1
                keep.append(v)
            args.append(names[id(v)])
        left = []
        for v in outs:
            names[id(v)] = f"%{n}"
            n += 1
            left.append(f"{names[id(v)]}: {v.aval.core!r}")
        where = short(line(code, lasti))
        lines.append(f"{', '.join(left)} = {config.name}({', '.join(args)})" + (f"   # {where}" if where else ""))
    return "\n".join(lines) if lines else "nothing is pending"


def dot(record_or_device) -> str:
    """The graph as graphviz dot text: boxes are ops (with the user's line), arrows carry shape and dtype."""
    out = ["digraph program {", "  rankdir=TB; node [shape=box, fontname=monospace, fontsize=10];"]
    made: dict[str, tuple[str, str]] = {}
    if isinstance(record_or_device, Record):
        rec = record_or_device
        for i, a in enumerate(rec.args):
            made[f"%arg{i}"] = (f"arg{i}", a)
            out.append(f'  arg{i} [label="input {i}\\n{a}", shape=ellipse];')
        ops = [(name, args, outs, line(*where)) for name, args, outs, where in rec.ops]
    else:
        ops = []
        for text in pending_text(record_or_device).splitlines():
            if " = " not in text:
                continue
            left, right = text.split(" = ", 1)
            call, _, where = right.partition("   # ")
            name, inner = call.split("(", 1)
            args = tuple(a for a in inner.rstrip(")").split(", ") if a)
            outs = tuple((p.split(": ")[0], p.split(": ")[1], False) for p in left.split(", %"))
            ops.append((name, args, outs, where))
    for k, (name, args, outs, where) in enumerate(ops):
        style = ", style=filled, fillcolor=lightgrey" if any(o[2] for o in outs) else ""
        out.append(f'  op{k} [label="{name}\\n{short(where)}"{style}];')
        for a in args:
            base = a.split(":")[0]
            if base in made:
                src, label = made[base]
                out.append(f'  {src} -> op{k} [label="{label}", fontsize=8];')
        for n, a, _live in outs:
            made["%" + n.lstrip("%")] = (f"op{k}", a)
    out.append("}")
    return "\n".join(out) + "\n"

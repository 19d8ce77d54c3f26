"""Several processes as one world: where they meet, what they tell each other, and who notices that one is lost or elsewhere.

Objects go through the key-value store of jax's coordinator, signed with a secret that only the workers have; tensors never do.
Every meeting of the processes (a program with collectives, an agreement, an exchange of objects) has a number, the same in each.
A thread here posts a status once a second: the last numbers and what they were, and the user's line. What is not finished after
`PATIENCE` seconds is looked up in the others' statuses: something else at that number, or no news, is an error.
"""
from __future__ import annotations

import atexit
import collections
import hashlib
import hmac
import os
import pickle
import queue
import sys
import threading
import time

import jax

from xla_backend._jax import connect
from xla_backend.debug import short

PATIENCE = 2.0  # seconds that a meeting may last before anybody asks where the others are
SHOWN = 32      # meetings that a status tells of
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OURS = tuple(os.path.join(_HERE, p) + os.sep for p in ("xla_backend", "lazy_tensor"))


class ReplicaError(RuntimeError):
    """The replicas do not run the same program, or one of them is gone."""


def seconds(name: str, default: float) -> float:
    """A number of seconds from the environment."""
    text = os.environ.get(name, "")
    try:
        return float(text) if text else default
    except ValueError:
        raise ValueError(f"{name} must be a number of seconds, got {text!r}") from None


def patience() -> tuple[int, int]:
    """(seconds until all processes have come, seconds of silence after which jax ends a process without a word of ours)."""
    wait = seconds("XLA_BACKEND_REPLICA_TIMEOUT", 300)
    return int(max(wait, 10)), int(10 * seconds("XLA_BACKEND_LOST", 20) + 2 * wait)


def secret(address: str) -> bytes:
    """What signs objects between processes: XLA_BACKEND_SECRET, which the launcher makes for workers on one host."""
    text = os.environ.get("XLA_BACKEND_SECRET", "")
    if len(text) < 16:
        raise RuntimeError(f"processes that meet at {address} need a shared secret of at least 16 characters in XLA_BACKEND_SECRET, the same "
                           "on each host, which signs the Python objects that they send each other "
                           "(`python -c 'import secrets; print(secrets.token_hex())'` makes one)")
    return text.encode()


def user_line(frame) -> str:
    """`file.py:12`: the innermost frame that is not of this library."""
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((*_OURS, "<")) and "site-packages" not in name and os.sep + "lib" + os.sep + "python" not in name:
            return f"{short(name)}:{frame.f_lineno}"
        frame = frame.f_back
    return "an unknown line"


class Processes:
    """This process among `count`; `local` replicas run in each."""

    def __init__(self, address, index, count, local, key):
        self.index, self.count, self.local, self.key = index, count, local, key
        self.lost_after = seconds("XLA_BACKEND_LOST", 20)
        self.timeout = seconds("XLA_BACKEND_REPLICA_TIMEOUT", 300)
        self.served = bool(os.environ.pop("XLA_BACKEND_SERVED", ""))  # the launcher is the coordinator
        self.client = connect(address, index, count, *patience(), not self.served)
        self.number = 0
        self.history: collections.OrderedDict[int, tuple] = collections.OrderedDict()  # number -> (what, line)
        self.open: dict[int, list] = {}  # number -> [started, the array that is ready when it is over]
        self.over: str | None = None
        self.verdict: str | None = None
        self.jobs: queue.SimpleQueue = queue.SimpleQueue()
        self.suspect = False             # jax has failed: find out whose fault it is
        self.beat = 0
        self.seen: dict[int, tuple] = {}  # process -> (its beat, when that was new)
        self.silent_since: float | None = None
        self.threads: set[int] = set()   # of replicas
        self.old: list[str] = []
        self.ended = threading.Event()
        self.folder = os.environ.get("XLA_BACKEND_LAUNCH_FOLDER")
        self.parent = os.getppid() if self.folder else None
        self.post()
        self.helpers = [threading.Thread(target=t, daemon=True, name=f"xla_backend {t.__name__}") for t in (self._watch, self._dispatch)]
        for t in self.helpers:
            t.start()
        atexit.register(self.end)

    # --- the store

    def put(self, name, thing):
        """Post an object under a name, signed."""
        body = pickle.dumps(thing)
        self.client.key_value_set_bytes(name, hmac.digest(self.key, name.encode() + b"\0" + body, "sha256") + body, allow_overwrite=True)

    def get(self, name):
        """What was posted under a name, or None; ReplicaError when it is not signed with our secret."""
        try:
            raw = self.client.key_value_try_get_bytes(name)
        except jax.errors.JaxRuntimeError as e:
            if "NOT_FOUND" in str(e):
                return None
            raise
        body = raw[32:]
        if not hmac.compare_digest(raw[:32], hmac.digest(self.key, name.encode() + b"\0" + body, "sha256")):
            raise ReplicaError(f"an object at {name!r} in the coordinator's store is not signed with this world's secret: refused")
        return pickle.loads(body)  # signed by one of us

    # --- meetings

    def begin(self, what, line):
        """The number of a new meeting."""
        self.check()
        n = self.number = self.number + 1
        self.history[n] = (what, line)
        while len(self.history) > 4096:
            self.history.popitem(last=False)
        self.open[n] = [time.monotonic(), None]
        return n

    def exchange(self, what, thing, line):
        """Everyone's `thing`, by process; ReplicaError when one of them does something else, or is gone."""
        n = self.begin(what, line)
        name = f"xla_backend/{n}/"
        self.put(f"{name}{self.index}", (what, line, thing))
        out = {self.index: thing}
        delay = 1e-4
        while len(out) < self.count:
            for p in range(self.count):
                if p not in out:
                    try:
                        got = self.get(f"{name}{p}")
                    except jax.errors.JaxRuntimeError as e:
                        raise self.explain(e) from e
                    if got is None:
                        break
                    if got[0] != what:
                        self.verdict = self._apart(n, what, line, p, got[0], got[1])
                        break
                    out[p] = got[2]
            self.check()
            if len(out) < self.count:
                time.sleep(delay)
                delay = min(delay * 1.5, 0.05)
        self.open.pop(n, None)
        # Everybody has come here, so everybody has read what was posted for the meetings before.
        for o in self.old:
            self.client.key_value_delete(o)
        self.old = [f"{name}{self.index}"]
        return [out[p] for p in range(self.count)]

    def check(self):
        """Raise the watchdog's verdict, if there is one."""
        if self.verdict is not None:
            raise ReplicaError(self.verdict)

    def wait(self, array):
        """Wait until an array has its value; the verdict, when that will never be."""
        for _ in range(50):
            if array.is_ready():
                break
        else:
            delay = 2e-5
            while not array.is_ready():
                self.check()
                time.sleep(delay)
                delay = min(delay * 1.3, 1e-3)
        try:
            array.block_until_ready()
        except jax.errors.JaxRuntimeError as e:
            raise self.explain(e) from e

    def run(self, number, variant, args):
        """Dispatch a program that is meeting `number`."""
        # In a thread of its own: XLA:CPU (jax 0.10.2, 0.12.0) runs collectives inside the dispatch, which may never return.
        done: queue.SimpleQueue = queue.SimpleQueue()
        self.jobs.put((variant, args, done))
        args = None
        while (answer := _within(done, 0.2)) is None:
            self.check()
        outs, error = answer
        if error is not None:
            raise self.explain(error) from error
        if outs:
            self.open[number][1] = outs[-1]
        else:
            self.open.pop(number, None)
        return outs

    def _dispatch(self):
        while True:
            variant, args, done = self.jobs.get()
            if variant is None:
                return
            try:
                answer = variant.run(args), None
            except Exception as e:
                answer = None, e
            variant = args = None
            done.put(answer)
            done = answer = None

    def explain(self, error):
        """The error of jax's, or the ReplicaError behind it."""
        if "RESOURCE_EXHAUSTED" in str(error):
            return error
        self.suspect = True
        until = time.monotonic() + self.lost_after + 2 * PATIENCE
        while self.verdict is None and time.monotonic() < until:
            time.sleep(0.05)
        if self.verdict is None:
            return error
        return ReplicaError(self.verdict)

    # --- the watchdog

    def post(self):
        """Tell the others where we are."""
        self.beat += 1
        recent = dict(list(self.history.items())[-SHOWN:])
        frames = sys._current_frames()
        at = [user_line(frames[t]) for t in list(self.threads) if t in frames]
        self.put(f"xla_backend/status/{self.index}", (self.beat, recent, self.number, self.over, at))

    def _watch(self):
        pause = 0.5 if self.count <= 64 else 2.0
        while not self.ended.wait(pause):
            if self.parent is not None and os.getppid() != self.parent:
                os._exit(1)  # the launcher is gone
            now = time.monotonic()
            for n, (_, array) in list(self.open.items()):
                if array is not None and _over(array):
                    self.open.pop(n, None)
            if self.verdict is None:
                try:
                    self.post()
                    self._judge(now)
                    self.silent_since = None
                except ReplicaError as e:
                    self.verdict = str(e)
                except jax.errors.JaxRuntimeError as e:
                    if self.ended.is_set():
                        return
                    self.silent_since = self.silent_since or now
                    if now - self.silent_since > 3 * PATIENCE:
                        self.verdict = f"the coordinator, in the process of {self.name(0)}, is lost: {str(e).splitlines()[0]}"
                if self.verdict is not None:
                    self._spread()

    def _spread(self):
        try:
            self.over = self.over or f"has ended with an error: {self.verdict}"
            self.post()
        except jax.errors.JaxRuntimeError:
            self.over = None  # the coordinator is gone: nobody can be told

    def _judge(self, now):
        first = min(self.open.items(), default=None)
        late = now - first[1][0] if first else 0.0
        if self.folder:
            for name in os.listdir(self.folder):
                p = int(name)
                if p != self.index and (first or self.suspect):
                    with open(os.path.join(self.folder, name)) as f:
                        how = f.read()
                    status = self.get(f"xla_backend/status/{p}")
                    if how and (status is None or status[3] is None):
                        raise ReplicaError(self._gone(p, how, first))
        everyone = late > PATIENCE or self.suspect
        for p in range(self.count) if everyone else [(self.index + 1) % self.count]:
            if p == self.index:
                continue
            status = self.get(f"xla_backend/status/{p}")
            beat, recent, number, over, _at = status or (0, {}, 0, None, [])
            if self.seen.get(p, (None,))[0] != beat:
                self.seen[p] = beat, now
            for n, (what, line) in recent.items():
                mine = self.history.get(n)
                if mine is not None and mine[0] != what:
                    raise ReplicaError(self._apart(n, *mine, p, what, line))
            if over is not None and (self.suspect or (first and number < first[0]) or (first and over.startswith("has ended with"))):
                raise ReplicaError(self._gone(p, over, first))
            if everyone and now - self.seen[p][1] > self.lost_after:
                raise ReplicaError(self._gone(p, f"is lost: no news from it for {now - self.seen[p][1]:.0f} s (XLA_BACKEND_LOST="
                                                 f"{self.lost_after:.0f} seconds)", first))
        if late > self.timeout:
            where = [f"{self.name(p)} is at {', '.join((self.get(f'xla_backend/status/{p}') or (0, 0, 0, 0, ['an unknown line']))[4])}"
                     for p in range(self.count) if p != self.index][:8]
            raise ReplicaError(f"{self.name(self.index)} {_say(self.history[first[0]][0])} at {self.history[first[0]][1]} and waited "
                               f"{late:.0f} s (XLA_BACKEND_REPLICA_TIMEOUT={self.timeout:.0f} seconds); " + "; ".join(where))

    def _apart(self, n, mine, here, p, theirs, there):
        return (f"replicas do different things: {self.name(self.index)} {_say(mine)} at {here}, and {self.name(p)} {_say(theirs)} at "
                f"{there} (meeting {n} of both)")

    def _gone(self, p, how, first):
        mine = self.history.get(first[0]) if first else None
        return (f"{self.name(self.index)} {_say(mine[0])} at {mine[1]}, which all replicas must do together, and " if mine else "") + \
            f"{self.name(p)} {how}"

    def name(self, p):
        """How an error calls the replicas of a process."""
        first = p * self.local
        return f"replica {first}" if self.local == 1 else f"process {p} (replicas {first} to {first + self.local - 1})"

    # --- the end

    def end(self):
        """At exit: tell the others, wait for them as jax does; after an error that could hang, leave at once."""
        if self.ended.is_set():
            return
        if self.verdict is None:
            try:
                self.over = self.over or "has returned"
                self.post()
                while any(a is not None and not _over(a) for _, a in list(self.open.values())):
                    self.check()
                    time.sleep(1e-3)
            except (ReplicaError, jax.errors.JaxRuntimeError) as e:
                self.verdict = self.verdict or str(e)
                print(f"xla_backend: {self.name(self.index)}, at its end: {self.verdict}", file=sys.stderr)
        if self.verdict is not None or self.over != "has returned":
            self.leave(1)
        if not self.served:  # the coordinator is in process 0 and must outlive the others
            try:
                self.client.wait_at_barrier("xla_backend/end", int(1000 * self.timeout))
            except jax.errors.JaxRuntimeError as e:
                print(f"xla_backend: {self.name(self.index)}, at its end: {e}", file=sys.stderr)
                self.leave(1)
        # A thread that is inside jax while the interpreter goes ends the process with "exception not rethrown" (Python 3.11).
        self.ended.set()
        self.jobs.put((None, None, None))
        for t in self.helpers:
            t.join(10)

    def leave(self, status):
        """Leave without waiting for anybody."""
        self.ended.set()
        if self.index == 0 and status and not self.served:
            time.sleep(2 * PATIENCE)  # the coordinator is in this process: the others must be able to read what happened
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _within(queue_, seconds):
    """The next of a queue, or None after so many seconds."""
    try:
        return queue_.get(timeout=seconds)
    except queue.Empty:
        return None


def _over(array):
    """Whether an array has its value, or was given to a later program, which is then what one waits for."""
    try:
        return array.is_deleted() or array.is_ready()
    except RuntimeError:  # given away between the two
        return True


def _say(what):
    return {"program": "runs a program with collectives", "agree": "has a new program with collectives"}.get(what.split(":")[0], what)


def label(digest: bytes) -> str:
    """A program's name in histories."""
    return "program:" + hashlib.sha256(digest).hexdigest()[:16]

"""Every performance figure of docs/performance.md, printed as a table; each ratio from one run, side by side.

    python scripts/bench/run.py            # all (about 10 minutes on 2 cores)
    python scripts/bench/run.py gpt small  # some

Names: recording, gpt, small, first, memory, chain, pauses, bounded, mlp.
"""
from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import common
import numpy as np

HERE = Path(__file__).resolve()
rows: list[tuple[str, str, str]] = []


def row(what, figure, limit=""):
    rows.append((what, figure, limit))
    print(f"{what:74} {figure:>24}   {limit}", flush=True)


def recording():
    """Microseconds a node to record forward, backward and optimizer of an 8-layer GPT, gradients on; the sync apart."""
    import lazy_tensor as torch
    from xla_backend import program, runtime

    s = common.Shape(width=32, context=16, batch=1)  # small, so that XLA's own work does not empty the caches between steps
    _step, model, optimizer = common.lazy_step(s, parts=True)
    x, y = (torch.from_numpy(a).to("xla") for a in common.batches(s)[0])
    pending = runtime.device("xla", 0).graph.pending
    clock = time.thread_time  # the recording thread alone, whatever else the machine does
    sync = [0.0]
    inner = program.sync

    def timed(*a, **k):
        t = clock()
        inner(*a, **k)
        sync[0] += clock() - t
    rows_ = []
    program.sync = timed
    try:
        for _ in range(40):
            optimizer.zero_grad()
            torch.sync(wait=True)
            sync[0] = 0.0
            t0 = clock()
            loss = model(x, y)
            t1, n1 = clock(), len(pending)
            loss.backward()
            t2, n2 = clock(), len(pending)
            optimizer.step()
            t3 = clock() - sync[0]
            n3 = n2 + len(list(model.parameters()))
            rows_.append(((t1 - t0) / n1, (t2 - t1) / (n2 - n1), (t3 - t2) / (n3 - n2), (t3 - t0) / n3, sync[0] / n3, n3))
            del loss
    finally:
        program.sync = inner
    m = [1e6 * statistics.median(r[k] for r in rows_) for k in range(5)]
    row(f"recording, us a node: forward + backward + optimizer ({rows_[0][5]} nodes)", f"{m[3]:.2f}", "<= 4")
    row("  forward (modules included) / backward / optimizer", f"{m[0]:.2f} / {m[1]:.2f} / {m[2]:.2f}")
    row("  and the sync: order, key, dispatch, us a node", f"{m[4]:.2f}")


def gpt():
    """A GPT training step in steady state against the same by hand in jax."""
    from xla_backend import metrics
    for layers in (2, 8):
        s = common.Shape(layers=layers)
        lazy, _ = common.lazy_step(s)
        hand, _f, _state = common.jax_step(s)
        ia, ib = iter(range(10 ** 6)), iter(range(10 ** 6))
        for _ in range(3):
            lazy(next(ia))
        compiles = metrics.counter("compiles"), metrics.counter("traces")
        a, b, ratio = common.interleaved(lambda f=lazy, i=ia: f(next(i)), lambda f=hand, i=ib: f(next(i)), 40)
        made = metrics.counter("compiles") - compiles[0], metrics.counter("traces") - compiles[1]
        row(f"GPT step, {layers} layers: ours / jax by hand (ms)", f"{1e3 * a:.1f} / {1e3 * b:.1f} = {ratio:.2f}", "<= 1.10")
        row("  compiles, traces in 45 steady steps", f"{made[0]}, {made[1]}", "0, 0")


def mlp():
    """An MLP step on digits-sized input."""
    import jax
    import jax.numpy as jnp

    import lazy_tensor as torch
    from lazy_tensor import nn
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)).to("xla")
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    r = np.random.default_rng(0)
    x, y = r.standard_normal((128, 784)).astype(np.float32), r.integers(0, 10, 128)

    def lazy():
        xs, ys = torch.from_numpy(x).to("xla"), torch.from_numpy(y).to("xla")
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(xs), ys)
        loss.backward()
        opt.step()
        return loss.item()
    p = [(jnp.asarray(r.standard_normal((i, o)) / i ** 0.5, jnp.float32), jnp.zeros(o, jnp.float32))
         for i, o in ((784, 256), (256, 256), (256, 10))]
    z = jax.tree.map(jnp.zeros_like, p)
    state = [p, z, jax.tree.map(jnp.zeros_like, p), 0]

    def update(p, m, v, t, x, y):
        def loss(p):
            h = x
            for k, (w, b) in enumerate(p):
                h = h @ w + b
                h = jax.nn.relu(h) if k < 2 else h
            return -jnp.take_along_axis(jax.nn.log_softmax(h), y[:, None], 1).mean()
        val, g = jax.value_and_grad(loss)(p)
        m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
        p = jax.tree.map(lambda p, a, b: p - 1e-3 / (1 - 0.9 ** t) * a / (jnp.sqrt(b / (1 - 0.999 ** t)) + 1e-8), p, m, v)
        return p, m, v, val
    f = jax.jit(update, donate_argnums=(0, 1, 2))

    def hand():
        state[3] += 1
        state[0], state[1], state[2], val = f(state[0], state[1], state[2], np.float32(state[3]), x, y.astype(np.int32))
        return float(val)
    a, b, ratio = common.interleaved(lazy, hand, 100)
    row("MLP step (784-256-256-10, batch 128): ours / jax by hand (ms)", f"{1e3 * a:.2f} / {1e3 * b:.2f} = {ratio:.2f}")


def small():
    """A sync of ten small nodes, read back; and a policy-gradient loop, beside torch where it is installed."""
    import lazy_tensor as torch
    x, w = torch.ones(4, 4, device="xla"), torch.ones(4, 4, device="xla")

    def ten():
        h = x
        for _ in range(5):
            h = (h + w) * 0.5
        return h.sum().item()
    for _ in range(50):
        ten()
    t = []
    for _ in range(2000):
        a = time.perf_counter()
        ten()
        t.append(time.perf_counter() - a)
    row("sync of 11 small nodes, recorded and read back, us (median)", f"{1e6 * statistics.median(t):.0f}", "<= 100")
    ours = _policy("lazy_tensor", "xla")
    torch_python = os.environ.get("TORCH_PYTHON")
    theirs = None
    if torch_python:
        code = f"import sys; sys.argv=['x']; sys.path.insert(0, {str(HERE.parent)!r}); from policy import run; print(run('torch', 'cpu'))"
        theirs = float(subprocess.run([torch_python, "-c", code], capture_output=True, text=True, check=True).stdout.split()[-1])
    row("policy-gradient loop: us an environment step, ours" + (" / torch eager" if theirs else ""),
        f"{ours:.0f}" + (f" / {theirs:.0f} = {ours / theirs:.2f}" if theirs else ""))


def _policy(library, device):
    from policy import run
    return run(library, device)


def first():
    """First step: tracing against compiling; a second process with the cache warm against cold."""
    import shutil
    import tempfile
    folder = tempfile.mkdtemp()
    code = ("import time; t=time.perf_counter()\n"
            f"import sys; sys.path.insert(0, {str(HERE.parent)!r})\n"
            "import common\nfrom xla_backend import metrics as m\n"
            "s,_=common.lazy_step(common.Shape()); i=time.perf_counter(); s(0); e=time.perf_counter()\n"
            "print(e-t, e-i, m.seconds('trace')+m.seconds('lower'), m.seconds('compile'))")
    env = dict(os.environ, XLA_BACKEND_CACHE=folder)

    def go():
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout
        return [float(v) for v in out.split()[-4:]]
    cold = go()
    warm = [go() for _ in range(3)]
    warm = [statistics.median(w[k] for w in warm) for k in range(4)]
    shutil.rmtree(folder)
    row("first GPT step, 8 layers: trace + lower / compile (s)", f"{cold[2]:.2f} / {cold[3]:.2f} = {cold[2] / cold[3]:.2f}", "<= 0.25")
    row("first step, cache warm / cold (s)", f"{warm[1]:.2f} / {cold[1]:.2f} = {warm[1] / cold[1]:.2f}", "< 0.35")
    row("  whole process to the first step's end, warm / cold (s)", f"{warm[0]:.2f} / {cold[0]:.2f} = {warm[0] / cold[0]:.2f}", "< 0.35")


def memory():
    """Peak device memory of the step as XLA plans it: arguments + outputs + temporaries - aliased (compiled afresh)."""
    code = (f"import sys; sys.path.insert(0, {str(HERE.parent)!r})\nimport jax, numpy as np, common\nfrom xla_backend import debug\n"
            "s = common.Shape(layers=4, width=256, context=128, batch=8)\n"
            "peak = lambda m: m.argument_size_in_bytes + m.output_size_in_bytes + m.temp_size_in_bytes - m.alias_size_in_bytes\n"
            "lazy, _ = common.lazy_step(s)\n[lazy(i) for i in range(3)]\n"
            "record = max((r for r in debug._history if r.runs > 1), key=lambda r: len(r.ops))\n"
            "ours = peak(record.executable.memory_analysis())\n"
            "_, f, state = common.jax_step(s)\nx, y = common.batches(s)[0]\n"
            "c = f.lower(*state, np.float32(1), np.float32(1), x.astype(np.int32), y.astype(np.int32), jax.random.key(0)).compile()\n"
            "print(ours, peak(c.memory_analysis()))")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ, XLA_BACKEND_CACHE="0"))
    ours, theirs = map(float, out.stdout.split()[-2:])
    row("peak memory of a GPT step: ours / jax with donation (MiB)", f"{ours / 2 ** 20:.1f} / {theirs / 2 ** 20:.1f} = {ours / theirs:.2f}",
        "<= 1.10")


def chain():
    """3,000 elementwise ops and their backward, recorded without a sync, to the first step's end."""
    code = ("import time, numpy as np\nimport lazy_tensor as torch\n"
            "x = torch.tensor(np.random.rand(64, 64).astype('f'), device='xla', requires_grad=True)\n"
            "t = time.perf_counter(); h = x\n"
            "for i in range(3000): h = h.tanh() if i % 3 == 0 else (h * 1.01 if i % 3 == 1 else h + x)\n"
            "h.sum().backward(); torch.sync(wait=True); print(time.perf_counter() - t)")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                         env=dict(os.environ, XLA_BACKEND_CACHE="0"))
    row("3,000 elementwise ops with backward, first step (s)", f"{float(out.stdout.split()[-1]):.1f}", "<= 15")


def pauses():
    """1,000 steady GPT steps: the slowest against the median, garbage collection included."""
    step, _ = common.lazy_step(common.Shape(layers=4))
    for i in range(10):
        step(i)
    t = []
    for i in range(1000):
        a = time.perf_counter()
        step(i)
        t.append(time.perf_counter() - a)
    m = statistics.median(t)
    row("1,000 GPT steps: slowest / median", f"{1e3 * max(t):.1f} / {1e3 * m:.1f} ms = {max(t) / m:.2f}", "< 3")


def bounded():
    """A loop that never syncs and never asks for a value: the process's memory."""
    import resource

    import lazy_tensor as torch
    x = torch.ones(64, 64, device="xla")

    def go(n):
        y = x
        for _ in range(n):
            y = y * 0.999 + 1
        return y
    keep = go(30_000)
    gc.collect()
    a = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    keep = go(200_000)
    b = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    del keep
    row("memory growth over 400,000 ops never asked for (MiB)", f"{(b - a) / 1024:.0f}", "bounded")


def main():
    names = sys.argv[1:] or ["recording", "gpt", "mlp", "small", "first", "memory", "chain", "pauses", "bounded"]
    print(common.machine())
    for n in names:
        globals()[n]()


if __name__ == "__main__":
    main()

"""lt.compile: a captured step gives what the function gives, and notices what changes."""
from __future__ import annotations

import pytest

import lazy_tensor as lt
from lazy_tensor import nn
from xla_backend import metrics

DEVICE = "xla"
ALPHA = 2.0


def batches(n, size=8):
    out = []
    for i in range(n):
        g = lt.Generator()
        g.manual_seed(i)
        out.append((lt.randn(size, 6, generator=g).to(DEVICE), lt.randint(0, 3, (size,), generator=g).to(DEVICE)))
    return out


def training(make_optimizer, schedule=True):
    lt.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3)).to(DEVICE)
    optimizer = make_optimizer(model.parameters())
    scheduler = lt.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50) if schedule else None

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        return loss
    return model, optimizer, scheduler, step


def replays(f, *calls):
    """Results of f over calls, and how many of them were replays."""
    before = metrics.counter("captured_steps")
    return [f(*c) for c in calls], metrics.counter("captured_steps") - before


@pytest.mark.parametrize("make", [lambda p: lt.optim.AdamW(p, lr=1e-2), lambda p: lt.optim.SGD(p, lr=0.1, momentum=0.9)], ids=["adamw", "sgd"])
def test_a_training_step_is_the_same_bit_for_bit(make):
    """Dropout, batch statistics, clipping, schedule and optimizer state included; from the fourth call on nothing is recorded."""
    runs = []
    for compiled in (False, True):
        model, optimizer, scheduler, step = training(make)
        f = lt.compile(step, fullgraph=True) if compiled else step
        lt.manual_seed(1)
        before = metrics.counter("captured_steps")
        losses = []
        for k, (x, y) in enumerate(batches(10)):
            if k == 4:
                steady = metrics.counter("compiles"), metrics.counter("traces")
            losses.append(f(x, y).item())
        assert (metrics.counter("compiles"), metrics.counter("traces")) == steady
        runs.append((losses, [t.tolist() for t in model.state_dict().values()], scheduler.get_last_lr(),
                     [s["step"].item() for s in optimizer.state.values() if "step" in s], lt.rand(2).tolist(),
                     [p.grad.tolist() for p in model.parameters()]))
        if compiled:
            assert metrics.counter("captured_steps") - before >= 6
    assert runs[0] == runs[1]


def test_it_notices_modes_shapes_rates_and_values():
    model, optimizer, _s, step = training(lambda p: lt.optim.SGD(p, lr=0.1), schedule=False)
    other_model, other_optimizer, _s, plain = training(lambda p: lt.optim.SGD(p, lr=0.1), schedule=False)
    f = lt.compile(step)

    def both(x, y):
        state = lt.get_rng_state()
        a = f(x, y).item()
        lt.set_rng_state(state)
        b = plain(x, y).item()
        assert a == b
    data = batches(6)
    for x, y in data:
        both(x, y)
    for o in (optimizer, other_optimizer):
        o.param_groups[0]["lr"] = 0.5
    for x, y in data[:2]:
        both(x, y)
    for m in (model, other_model):
        m.eval()
    for x, y in data[:5]:
        both(x, y)
    for x, y in batches(5, size=3):
        both(x, y)
    for m in (model, other_model):
        m.train()
        m[3].p = 0.0
    for x, y in data[:5]:
        both(x, y)
    for m in (model, other_model):
        m[0].weight.requires_grad_(False)
    for x, y in data[:5]:
        both(x, y)
    assert "recorded again" in f.explain()


def test_closures_globals_and_arguments_are_guarded(monkeypatch):
    scale = 3.0

    @lt.compile
    def f(x, k):
        return x * scale * ALPHA + k
    x = lt.ones(3, device=DEVICE)
    for _ in range(4):
        assert f(x, 1).tolist() == [7.0] * 3
    scale = 4.0
    assert f(x, 1).tolist() == [9.0] * 3
    monkeypatch.setitem(globals(), "ALPHA", 1.0)
    assert f(x, 1).tolist() == [5.0] * 3
    assert f(x, 2).tolist() == [6.0] * 3
    _, n = replays(f, (x, 2), (x, 2), (x, 2), (x, 2))
    assert n >= 2


def test_a_constant_that_is_written_to_is_noticed():
    hidden = [lt.ones(3, device=DEVICE)]
    get = hidden.__getitem__

    @lt.compile
    def f(x):
        return x + get(0)
    x = lt.ones(3, device=DEVICE)
    for _ in range(4):
        assert f(x).tolist() == [2.0] * 3
    hidden[0].add_(1)
    assert f(x).tolist() == [3.0] * 3


def test_a_module_keeps_gradients_and_buffers():
    """A compiled forward is one node on the tape; backward and the optimizer go on outside."""
    runs = []
    for compiled in (False, True):
        lt.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)).to(DEVICE)
        if compiled:
            assert lt.compile(model) is model
        optimizer = lt.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        before = metrics.counter("captured_steps")
        for x, y in batches(6):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(round(loss.item(), 5))
        runs.append((losses, model[1].num_batches_tracked.item(), [round(v, 5) for v in model[1].running_mean.tolist()]))
    assert metrics.counter("captured_steps") > before
    assert runs[0] == runs[1]


def test_asking_for_a_value_splits_or_is_an_error():
    x = lt.ones(3, device=DEVICE)

    def f(x):
        return x * 2 if x.sum().item() > 0 else x
    assert [lt.compile(f)(x).tolist() for _ in range(3)] == [[2.0] * 3] * 3
    with pytest.raises(RuntimeError, match=r"fullgraph=True.*a value was asked for at .*test_compiler"):
        lt.compile(f, fullgraph=True)(x)
    assert (x + 1).tolist() == [2.0] * 3


def test_effects_of_python_keep_a_function_from_being_captured():
    kept = []

    @lt.compile
    def f(x):
        y = x * 2
        kept.append(y)
        return y + 1
    x = lt.ones(2, device=DEVICE)
    for k in range(8):
        assert f(x).tolist() == [3.0, 3.0]
        assert len(kept) == k + 1
    assert [t.tolist() for t in kept] == [[2.0, 2.0]] * 8


def test_state_in_attributes_and_gradient_accumulation():
    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Linear(3, 3)
            self.h = lt.zeros(3, device=DEVICE)

        def forward(self, x):
            self.h = lt.tanh(self.w(x) + self.h).detach()
            return self.h
    hs = []
    for compiled in (False, True):
        lt.manual_seed(0)
        cell = Cell().to(DEVICE)
        f = lt.compile(lambda x, cell=cell: cell(x)) if compiled else cell
        with lt.no_grad():
            hs.append([f(lt.full((3,), float(k % 3), device=DEVICE)).tolist() for k in range(8)])
    assert hs[0] == hs[1]
    w = nn.Parameter(lt.ones(2, device=DEVICE))

    @lt.compile(fullgraph=True)
    def accumulate(x):
        (w * x).sum().backward()
    for _ in range(7):
        accumulate(lt.ones(2, device=DEVICE))
    assert w.grad.tolist() == [7.0, 7.0]
    w.grad = None
    for _ in range(5):
        accumulate(lt.ones(2, device=DEVICE))
    assert w.grad.tolist() == [5.0, 5.0]


def test_loading_a_state_dict_and_errors_inside():
    model, optimizer, _s, step = training(lambda p: lt.optim.AdamW(p, lr=1e-2), schedule=False)
    model[3].p = 0.0
    f = lt.compile(step)
    data = batches(6)
    saved = {k: v.clone() for k, v in model.state_dict().items()}
    state = lt.optim.AdamW(model.parameters(), lr=1e-2).state_dict()
    first = [f(x, y).item() for x, y in data]
    model.load_state_dict(saved)
    optimizer.load_state_dict(state)
    with pytest.raises(RuntimeError):
        f(lt.ones(8, 5, device=DEVICE), data[0][1])
    optimizer.zero_grad()
    assert [f(x, y).item() for x, y in data] == first


def test_nothing_is_lost_inside_transforms_and_other_compiled_functions():
    inner = lt.compile(lambda a: a.sin() * 2)

    @lt.compile(fullgraph=True)
    def outer(x):
        return inner(x).sum()
    x = lt.ones(3, device=DEVICE)
    assert len({outer(x).item() for _ in range(5)}) == 1
    assert lt.allclose(lt.func.grad(lambda a: inner(a).sum())(x), 2 * x.cos())
    assert lt.vmap(inner)(lt.ones(4, 3, device=DEVICE)).shape == (4, 3)


def captured(fn, *args, times=4):
    """The results of a compiled function, the last of which are replays."""
    f = lt.compile(fn)
    results, n = replays(f, *[args] * times)
    assert n == times - 2, f.explain()
    return results


W = lt.arange(6.0, device=DEVICE).requires_grad_()


@pytest.mark.parametrize("fn", [
    lambda x: (x * 2).reshape(2, 3), lambda x: (x * 2)[1:3], lambda x: (x * 2)[1:3][:1].view(1, 1), lambda x: (x * 2).chunk(2)[1],
    lambda x: (W * 2).detach(), lambda x: (W * 2).detach()[1:], lambda x: (W * x).view(2, 3),
    lambda x: lt.func.hessian(lambda v: (v ** 3).sum())(x), lambda x: lt.func.jacrev(lambda v: v ** 3)(x),
    lambda x: lt.func.jacfwd(lambda v: v ** 3)(x),
], ids=["reshape", "slice", "slices", "chunk", "detached", "slice of detached", "on the tape", "hessian", "jacrev", "jacfwd"])
def test_a_result_may_be_a_view_of_what_was_made_in_the_call(fn):
    x = lt.arange(6.0, device=DEVICE)
    want = fn(x)
    for y in captured(fn, x):
        assert y.tolist() == want.tolist() and y.requires_grad == want.requires_grad


def test_results_that_share_storage_do_so_when_replayed():
    x = lt.arange(6.0, device=DEVICE)

    def both(x):
        y = x * 2
        return y, y[1:], y
    for a, b, c in captured(both, x):
        assert a is c and b._base is a
        b.add_(10)
        assert a.tolist() == [0, 12, 14, 16, 18, 20]
        a.zero_()
        assert b.tolist() == [0] * 5

    def halves(x):
        return (W * x).view(2, 3).unbind()
    for a, b in captured(halves, x):
        W.grad = None
        (a.sum() + 2 * b.sum()).backward()
        assert W.grad.tolist() == [0, 1, 2, 6, 8, 10] and a._base is b._base
        with pytest.raises(RuntimeError, match="multiple views"):
            a.add_(1)


def test_a_result_may_be_a_view_of_an_argument_or_of_state():
    state = lt.zeros(4, device=DEVICE)

    def step(x):
        x.add_(1)
        state.add_(x[:4])
        return x.view(2, 3), x[0], state[1:]
    f = lt.compile(step)
    z, total = lt.zeros(6, device=DEVICE), 0.0
    for i in range(5):
        whole, first, rest = f(z)
        now = i + 1.0
        total += now
        assert first.item() == now and rest.tolist() == [total] * 3
        whole.mul_(2)
        assert z.tolist() == [2 * now] * 6 and first.item() == 2 * now
        z.sub_(now)
        rest.fill_(total)
        assert state.tolist() == [total] * 4
    assert "1 captured" in f.explain()


def test_what_shares_storage_with_written_tensors_sees_the_writes():
    def run(compiled):
        base = lt.arange(6.0, device=DEVICE)
        head, rows, d = base[:2], base.view(2, 3), base.detach()

        def step(x):
            head.mul_(2)
            base.add_(x)
            rows[1].sub_(1)
            return (head + rows[1].sum()).sum()
        f = lt.compile(step) if compiled else step
        outside = base[1:3]
        out = []
        for i in range(5):
            r = f(lt.full((6,), 1.0 + i, device=DEVICE))
            out.append([r.item(), base.tolist(), head.tolist(), rows.tolist(), d.tolist(), outside.tolist()])
            outside.add_(0.5)
        return out, compiled and f.explain()
    plain, _ = run(False)
    got, said = run(True)
    assert got == plain and "1 captured" in said


def test_a_view_of_what_is_kept_elsewhere_is_not_captured():
    kept = []

    def keep(x):
        kept[:] = [(x * 2,)]
        return kept[0][0][0]
    f = lt.compile(keep)
    x = lt.arange(6.0, device=DEVICE)
    for _ in range(4):
        y = f(x)
        y.add_(5)
        assert kept[0][0].tolist() == [5, 2, 4, 6, 8, 10]
    assert "0 captured" in f.explain() and "kept elsewhere" in f.explain()

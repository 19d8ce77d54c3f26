"""Every random creation and fill has its distribution (Kolmogorov-Smirnov, chi-square), its streams, and one program for all draws.

Seeds are fixed, so a p-value is a constant of the library: a right one falls below LEVEL for one seed in a thousand.
"""
from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import lazy_tensor as lt

F = lt.nn.functional
N = 20000
LEVEL = 1e-3
DEV = "xla"


def empty(dtype=lt.float32):
    return lt.empty(N, dtype=dtype, device=DEV)


def full(x, n=N):
    return lt.full((n,), x, device=DEV)


def keyed(fn, *size):
    """A dropout of ones."""
    def draw():
        return fn(lt.ones(size, device=DEV))
    return draw


# name -> (draw, distribution function of it)
CONTINUOUS = {
    "rand": (lambda: lt.rand(N, device=DEV), stats.uniform()),
    "rand double": (lambda: lt.rand(N, dtype=lt.float64, device=DEV), stats.uniform()),
    "rand_like": (lambda: lt.rand_like(empty()), stats.uniform()),
    "randn": (lambda: lt.randn(N, device=DEV), stats.norm()),
    "randn double": (lambda: lt.randn(N, dtype=lt.float64, device=DEV), stats.norm()),
    "randn_like": (lambda: lt.randn_like(empty()), stats.norm()),
    "randn complex, real part": (lambda: lt.randn(N, dtype=lt.complex64, device=DEV).real, stats.norm(0, 0.5 ** 0.5)),
    "randn complex, imaginary part": (lambda: lt.randn(N, dtype=lt.complex64, device=DEV).imag, stats.norm(0, 0.5 ** 0.5)),
    "normal numbers": (lambda: lt.normal(2.0, 3.0, (N,), device=DEV), stats.norm(2, 3)),
    "normal tensor, number": (lambda: lt.normal(full(2.0), 3.0), stats.norm(2, 3)),
    "normal tensor": (lambda: lt.normal(full(2.0)), stats.norm(2, 1)),
    "normal number, tensor": (lambda: lt.normal(2.0, full(3.0)), stats.norm(2, 3)),
    "normal tensors": (lambda: lt.normal(full(2.0), full(3.0)), stats.norm(2, 3)),
    "_standard_gamma": (lambda: lt._standard_gamma(full(2.5)), stats.gamma(2.5)),
    "normal_": (lambda: empty().normal_(-1.0, 0.5), stats.norm(-1, 0.5)),
    "uniform_": (lambda: empty().uniform_(-1.0, 3.0), stats.uniform(-1, 4)),
    "exponential_": (lambda: empty().exponential_(2.0), stats.expon(scale=0.5)),
    "cauchy_": (lambda: empty().cauchy_(1.0, 2.0), stats.cauchy(1, 2)),
    "log_normal_": (lambda: empty().log_normal_(0.5, 0.7), stats.lognorm(0.7, scale=np.exp(0.5))),
    "rrelu slopes": (lambda: -F.rrelu(-lt.ones(N, device=DEV), 0.1, 0.4, training=True), stats.uniform(0.1, 0.3)),
    "gumbel_softmax": (lambda: F.gumbel_softmax(lt.zeros(N, 2, device=DEV))[:, 0].logit(), stats.logistic()),
}

# name -> (draw, {value: probability}); a value of None holds what is left
P4 = [0.1, 0.2, 0.3, 0.4]
DISCRETE = {
    "randint": (lambda: lt.randint(-2, 3, (N,), device=DEV), dict.fromkeys(range(-2, 3), 0.2)),
    "randint high": (lambda: lt.randint(4, (N,), device=DEV), dict.fromkeys(range(4), 0.25)),
    "randint_like": (lambda: lt.randint_like(empty(lt.int32), 1, 4), dict.fromkeys((1, 2, 3), 1 / 3)),
    "randperm": (lambda: lt.stack([lt.randperm(4, device=DEV)[1] for _ in range(600)]), dict.fromkeys(range(4), 0.25)),
    "bernoulli": (lambda: lt.bernoulli(full(0.3)), {1: 0.3, 0: 0.7}),
    "bernoulli p": (lambda: lt.bernoulli(empty(), 0.8), {1: 0.8, 0: 0.2}),
    "bernoulli_": (lambda: empty().bernoulli_(0.3), {1: 0.3, 0: 0.7}),
    "bernoulli_ of a tensor": (lambda: empty(lt.int64).bernoulli_(full(0.3)), {1: 0.3, 0: 0.7}),
    "multinomial with replacement": (lambda: lt.multinomial(lt.tensor(P4, device=DEV) * 5, N, True), dict(enumerate(P4))),
    "multinomial, first without": (lambda: lt.multinomial(lt.tensor(P4, device=DEV).expand(N, 4), 1)[:, 0], dict(enumerate(P4))),
    "multinomial, pairs without": (lambda: (lt.multinomial(lt.tensor(P4[1:], device=DEV).expand(N, 3), 2) * lt.tensor([3, 1], device=DEV)).sum(1),
                                   {3 * i + j: P4[i + 1] / 0.9 * P4[j + 1] / (0.9 - P4[i + 1]) for i in range(3) for j in range(3) if i != j}),
    "poisson": (lambda: lt.poisson(full(1.5)), {**{k: stats.poisson(1.5).pmf(k) for k in range(6)}, None: stats.poisson(1.5).sf(5)}),
    "poisson large": (lambda: (lt.poisson(full(40.0)) > 40).int(), {1: stats.poisson(40).sf(40), 0: stats.poisson(40).cdf(40)}),
    "binomial": (lambda: lt.binomial(full(5.0), full(0.3)), {k: stats.binom(5, 0.3).pmf(k) for k in range(6)}),
    "geometric_": (lambda: empty().geometric_(0.25), {**{k: stats.geom(0.25).pmf(k) for k in range(1, 12)}, None: stats.geom(0.25).sf(11)}),
    "geometric_ int": (lambda: empty(lt.int64).geometric_(0.4), {**{k: stats.geom(0.4).pmf(k) for k in range(1, 8)}, None: stats.geom(0.4).sf(7)}),
    "random_": (lambda: empty(lt.int64).random_(2, 6), dict.fromkeys((2, 3, 4, 5), 0.25)),
    "random_ to": (lambda: empty().random_(3), dict.fromkeys((0, 1, 2), 1 / 3)),
    "random_ bool": (lambda: empty(lt.bool).random_().int(), {0: 0.5, 1: 0.5}),
    "random_ uint8": (lambda: empty(lt.uint8).random_() // 64, dict.fromkeys(range(4), 0.25)),
    "random_ float": (lambda: (empty().random_() / 2 ** 22).floor().clamp(max=3), dict.fromkeys(range(4), 0.25)),
    "dropout": (keyed(lambda x: F.dropout(x, 0.2) * 0.8, N), {0: 0.2, 1: 0.8}),
    "lt.dropout": (keyed(lambda x: lt.dropout(x, 0.2, True) * 0.8, N), {0: 0.2, 1: 0.8}),
    "native_dropout mask": (keyed(lambda x: lt.native_dropout(x, 0.2, True)[1].int(), N), {0: 0.2, 1: 0.8}),
    "alpha_dropout kept": (keyed(lambda x: (F.alpha_dropout(x, 0.3, training=True) > 0).int(), N), {0: 0.3, 1: 0.7}),
    "dropout1d": (keyed(lambda x: F.dropout1d(x, 0.3)[..., 0].flatten() * 0.7, 100, 30, 2), {0: 0.3, 1: 0.7}),
    "dropout2d": (keyed(lambda x: F.dropout2d(x, 0.3)[..., 0, 0].flatten() * 0.7, 100, 30, 2, 2), {0: 0.3, 1: 0.7}),
    "dropout3d": (keyed(lambda x: F.dropout3d(x, 0.3)[..., 0, 0, 0].flatten() * 0.7, 100, 30, 2, 2, 1), {0: 0.3, 1: 0.7}),
    "feature_dropout": (keyed(lambda x: lt.feature_dropout(x, 0.3, True)[..., 0].flatten() * 0.7, 100, 30, 2), {0: 0.3, 1: 0.7}),
    "feature_alpha_dropout kept": (keyed(lambda x: (F.feature_alpha_dropout(x, 0.3, training=True)[..., 0] > 0).int().flatten(), 100, 30, 2), {0: 0.3, 1: 0.7}),
    "gumbel_softmax hard": (lambda: F.gumbel_softmax(lt.tensor(P4, device=DEV).log().expand(N, 4), hard=True).argmax(1), dict(enumerate(P4))),
}
DRAWS = {n: d for n, (d, _) in (CONTINUOUS | DISCRETE).items()}


@pytest.mark.parametrize("name", list(CONTINUOUS))
def test_continuous(name):
    draw, law = CONTINUOUS[name]
    lt.manual_seed(11)
    x = draw().double().cpu().numpy().ravel()
    assert len(x) == N and stats.kstest(x, law.cdf).pvalue > LEVEL


@pytest.mark.parametrize("name", list(DISCRETE))
def test_discrete(name):
    draw, law = DISCRETE[name]
    lt.manual_seed(11)
    x = np.round(draw().double().cpu().numpy().ravel(), 5)
    assert sum(law.values()) == pytest.approx(1)
    seen = {v: int((x == v).sum()) for v in law if v is not None}
    if None in law:
        seen[None] = len(x) - sum(seen.values())
    assert sum(seen.values()) == len(x), f"values outside the support: {sorted(set(x.tolist()) - set(law))[:5]}"
    assert stats.chisquare([seen[v] for v in law], [p * len(x) for p in law.values()]).pvalue > LEVEL


@pytest.mark.parametrize("name", list(DRAWS))
def test_a_seed_gives_a_stream_and_draws_share_a_program(name, counts, count_from_here):
    draw = DRAWS[name]

    def numbers():
        return draw().double().cpu().numpy().ravel()

    lt.manual_seed(5)
    a, b = numbers(), numbers()
    here = count_from_here()
    lt.manual_seed(5)
    assert np.array_equal(numbers(), a) and np.array_equal(numbers(), b)
    lt.manual_seed(6)
    other = numbers()
    assert here.compiles == 0 and here.traces == 0, "a draw compiled again"
    assert not np.array_equal(a, b) and not np.array_equal(a, other), "two draws are the same"
    for x, y in ((a, b), (a, other)):  # uncorrelated: of N(0, 1) times n ** -0.5
        ranks = stats.spearmanr(x, y).statistic
        assert abs(ranks) < 4 * len(x) ** -0.5, "two draws depend on each other"


def test_permutations_are_permutations():
    lt.manual_seed(0)
    p = lt.randperm(200, device=DEV)
    assert sorted(p.tolist()) == list(range(200)) and p.dtype == lt.int64
    seen = {tuple(lt.randperm(3, device=DEV).tolist()) for _ in range(80)}
    assert len(seen) == 6


def test_multinomial_without_replacement_repeats_nothing_and_keeps_off_zeros():
    lt.manual_seed(0)
    r = lt.multinomial(lt.tensor([0.0, 1.0, 3.0, 2.0], device=DEV).expand(300, 4), 3).cpu().numpy()
    assert (np.sort(r, 1) == [1, 2, 3]).all()


def test_whole_channels_are_dropped():
    lt.manual_seed(0)
    for fn, size in ((F.dropout1d, (20, 10, 4)), (F.dropout2d, (20, 10, 2, 2)), (F.dropout3d, (20, 10, 2, 1, 2)), (F.feature_alpha_dropout, (20, 10, 4))):
        y = fn(lt.ones(size, device=DEV), 0.5, True).flatten(2).cpu().numpy()
        assert (y == y[..., :1]).all() and len(np.unique(y)) == 2, fn.__name__


def test_alpha_dropout_keeps_mean_and_variance():
    lt.manual_seed(0)
    x = lt.randn(N, device=DEV)
    y = F.alpha_dropout(x, 0.3, training=True)
    assert abs(y.mean().item()) < 0.05 and abs(y.var().item() - 1) < 0.05


@pytest.mark.parametrize("fn", [F.dropout, F.dropout1d, F.alpha_dropout, F.feature_alpha_dropout])
def test_no_dropout_in_evaluation_and_all_at_one(fn):
    x = lt.ones(3, 4, 5, device=DEV)
    assert (fn(x, 0.5, False) == 1).all().item()
    if fn in (F.dropout, F.dropout1d):
        assert (fn(x, 1.0, True) == 0).all().item()


GENERATED = {
    "rand": lambda g: lt.rand(50, generator=g, device=DEV), "randn": lambda g: lt.randn(50, generator=g, device=DEV),
    "randint": lambda g: lt.randint(0, 1000, (50,), generator=g, device=DEV), "randperm": lambda g: lt.randperm(50, generator=g, device=DEV),
    "normal": lambda g: lt.normal(full(0.0, 50), full(1.0, 50), generator=g), "normal numbers": lambda g: lt.normal(0.0, 1.0, (50,), generator=g, device=DEV),
    "bernoulli": lambda g: lt.bernoulli(full(0.5, 50), generator=g), "multinomial": lambda g: lt.multinomial(full(1.0, 50), 50, generator=g),
    "poisson": lambda g: lt.poisson(full(30.0, 50), generator=g), "binomial": lambda g: lt.binomial(full(90.0, 50), full(0.5, 50), generator=g),
    "rand_like": lambda g: lt.rand_like(full(0.0, 50), generator=g), "randn_like": lambda g: lt.randn_like(full(0.0, 50), generator=g),
    "randint_like": lambda g: lt.randint_like(full(0.0, 50), 1000, generator=g),
    **{n: (lambda g, n=n, a=a: getattr(full(0.0, 50), n)(*a, generator=g)) for n, a in (
        ("normal_", ()), ("uniform_", ()), ("exponential_", ()), ("geometric_", (0.01,)), ("cauchy_", ()), ("log_normal_", ()), ("random_", ()),
        ("bernoulli_", (0.5,)))},
}


@pytest.mark.parametrize("name", list(GENERATED))
def test_a_generator_is_a_stream_of_its_own(name):
    draw = GENERATED[name]
    lt.manual_seed(1)
    g = lt.Generator().manual_seed(7)
    a, b = draw(g).tolist(), draw(g).tolist()
    assert a != b
    after = lt.rand(4).tolist()
    lt.manual_seed(1)
    assert lt.rand(4).tolist() == after, "a draw with a generator moved the default stream"
    g = lt.Generator().manual_seed(7)
    assert draw(g).tolist() == a
    state = g.get_state()
    assert draw(g).tolist() == b
    g.set_state(state)
    assert draw(g).tolist() == b

"""Random tensors: dtypes, ranges, moments, and that a draw never recompiles."""
from __future__ import annotations

import pytest

import lazy_tensor as lt
from xla_backend import metrics

N = 20000


@pytest.fixture(autouse=True)
def _seeded():
    lt.manual_seed(0)


def test_one_seed_gives_one_stream():
    a = lt.rand(5)
    lt.manual_seed(0)
    assert lt.rand(5).tolist() == a.tolist() != lt.rand(5).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_rand_stays_below_one(dtype):
    r = lt.rand(N, dtype=getattr(lt, dtype))
    assert r.dtype == getattr(lt, dtype) and r.min().item() >= 0 and r.max().item() < 1
    assert abs(r.float().mean().item() - 0.5) < 0.02


def test_a_complex_normal_has_variance_one():
    z = lt.randn(N, dtype=lt.complex64)
    assert abs((z.abs() ** 2).mean().item() - 1) < 0.05 and abs(z.real.std().item() - 0.5 ** 0.5) < 0.02


# name, arguments, mean, standard deviation
FILLS = [("normal_", (2.0, 3.0), 2, 3), ("uniform_", (-1.0, 3.0), 1, 4 / 12 ** 0.5), ("bernoulli_", (0.3,), 0.3, 0.21 ** 0.5),
         ("exponential_", (2.0,), 0.5, 0.5), ("geometric_", (0.25,), 4, 12 ** 0.5), ("log_normal_", (0.0, 0.5), 1.1331, 0.6039)]


@pytest.mark.parametrize("name,args,mean,std", FILLS)
def test_fills_have_their_moments(name, args, mean, std):
    t = lt.empty(N)
    assert getattr(t, name)(*args) is t
    assert abs(t.mean().item() - mean) < 5 * std / N ** 0.5
    assert abs(t.std().item() / std - 1) < 0.1


def test_cauchy_has_its_quartiles():
    t = lt.empty(N).cauchy_(1.0, 2.0)
    assert abs(((t > -1) & (t < 3)).float().mean().item() - 0.5) < 0.02


def test_randint_covers_its_range_and_no_more():
    assert sorted(set(lt.randint(-2, 3, (500,)).tolist())) == [-2, -1, 0, 1, 2]
    assert sorted(lt.randperm(50).tolist()) == list(range(50))
    assert set(lt.empty(200, dtype=lt.bool).random_().tolist()) == {True, False}


def test_multinomial():
    p = lt.tensor([0.0, 1.0, 3.0])
    r = lt.multinomial(p, N, replacement=True)
    assert r.min().item() == 1 and abs((r == 2).float().mean().item() - 0.75) < 0.02
    assert sorted(lt.multinomial(p, 2).tolist()) == [1, 2]
    with pytest.raises(RuntimeError, match="without replacement"):
        lt.multinomial(p, 4)


def test_a_draw_never_recompiles():
    lt.rand(7)
    lt.empty(7).normal_()
    before = metrics.counter("compiles"), metrics.counter("traces")
    for s in range(3):
        lt.manual_seed(s)
        lt.rand(7)
        lt.empty(7).normal_(float(s), 2.0)
    assert (metrics.counter("compiles"), metrics.counter("traces")) == before

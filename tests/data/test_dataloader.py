"""Data sets, samplers, collation and the loader, in this process and with workers."""
import collections
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import lazy_tensor as lt
from lazy_tensor.utils import data as D
from lazy_tensor.utils.data._utils import pool

sys.path.insert(0, str(Path(__file__).parent))
from loader_sets import About, Odd, Rows, Stream, broken_init, tag

Point = collections.namedtuple("Point", "x y")


def ids(loader):
    return [b[1].tolist() for b in loader]


# --- data sets


def test_data_sets_combine():
    t = D.TensorDataset(lt.arange(6).view(3, 2), lt.arange(3))
    assert len(t) == 3 and [x.tolist() for x in t[1]] == [[2, 3], 1]
    with pytest.raises(AssertionError, match="Size mismatch"):
        D.TensorDataset(lt.arange(3), lt.arange(2))
    c = D.ConcatDataset([Rows(2), Rows(3)]) + Rows(1)
    assert len(c) == 6 and [c[i][1] for i in range(6)] == [0, 1, 0, 1, 2, 0] and c[-1][1] == 0
    with pytest.raises(ValueError, match="absolute value"):
        c[-7]
    s = D.StackDataset(a=Rows(2), b=range(2))
    assert s[1]["b"] == 1 and s.__getitems__([1, 0])[0]["a"][1] == 1
    with pytest.raises(ValueError, match="mismatch"):
        D.StackDataset(Rows(2), Rows(3))
    assert [x[1] for x in D.Subset(Rows(9), [7, 3]).__getitems__([1, 0])] == [3, 7]
    assert list(Stream(3) + Stream(2)) == [0, 1, 2, 0, 1] and len(D.ChainDataset([Stream(3, length=3)] * 2)) == 6


def test_random_split():
    g = lt.Generator().manual_seed(1)
    a, b = D.random_split(range(10), [7, 3], generator=g)
    assert sorted([*a, *b]) == list(range(10)) and len(a) == 7
    assert [len(s) for s in D.random_split(range(10), [0.35, 0.35, 0.3])] == [4, 3, 3]
    again = D.random_split(range(10), [7, 3], generator=lt.Generator().manual_seed(1))
    assert list(again[0]) == list(a)
    with pytest.raises(ValueError, match="does not equal the length"):
        D.random_split(range(10), [7, 4])
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        D.random_split(range(1), [0.9, 0.1])


# --- samplers


def test_samplers():
    assert list(D.BatchSampler(D.SequentialSampler(range(5)), 2, False)) == [[0, 1], [2, 3], [4]]
    assert list(D.BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]] and len(D.BatchSampler(range(5), 2, False)) == 3
    r = D.RandomSampler(range(50), generator=lt.Generator().manual_seed(0))
    first, second = list(r), list(r)
    assert sorted(first) == sorted(second) == list(range(50)) and first != second
    assert first == list(D.RandomSampler(range(50), generator=lt.Generator().manual_seed(0)))
    assert len(list(D.RandomSampler(range(3), num_samples=8))) == 8
    drawn = list(D.RandomSampler(range(3), replacement=True, num_samples=3000))
    assert min(collections.Counter(drawn).values()) > 800
    assert sorted(D.SubsetRandomSampler([3, 1, 4])) == [1, 3, 4]
    w = collections.Counter(D.WeightedRandomSampler([0, 1, 3], 4000))
    assert w[0] == 0 and 2.5 < w[2] / w[1] < 3.6
    assert sorted(D.WeightedRandomSampler([1, 1, 1], 3, replacement=False)) == [0, 1, 2]
    for bad in (0, -1, 1.5):
        with pytest.raises(ValueError, match="positive integer"):
            D.BatchSampler(range(3), bad, False)
        with pytest.raises(ValueError, match="positive integer"):
            D.RandomSampler(range(3), num_samples=bad)


def test_manual_seed_decides_the_order():
    lt.manual_seed(5)
    a = ids(D.DataLoader(Rows(20), 4, shuffle=True))
    lt.manual_seed(5)
    assert a == ids(D.DataLoader(Rows(20), 4, shuffle=True)) and a != ids(D.DataLoader(Rows(20), 4, shuffle=True))


@pytest.mark.parametrize("drop_last", [False, True])
def test_distributed_sampler_covers_the_data_set(drop_last):
    parts = [D.DistributedSampler(range(10), 4, r, drop_last=drop_last, seed=3) for r in range(4)]
    lists = [list(p) for p in parts]
    assert {len(x) for x in lists} == {len(parts[0])} == {2 if drop_last else 3}
    assert len(set(sum(lists, []))) == (8 if drop_last else 10)
    parts[0].set_epoch(1)
    assert list(parts[0]) != lists[0]
    assert [list(D.DistributedSampler(range(5), 2, r, shuffle=False)) for r in range(2)] == [[0, 2, 4], [1, 3, 0]]
    with pytest.raises(ValueError, match="Invalid rank 4"):
        D.DistributedSampler(range(3), 4, 4)


# --- collation


def test_default_collate():
    c = D.default_collate
    assert c([1, 2]).dtype is lt.int64 and c([1.0, 2.0]).dtype is lt.float64 and c([True, False]).dtype is lt.bool
    assert c(["a", "b"]) == ["a", "b"] and c([np.float32(1), np.float32(2)]).dtype is lt.float32
    assert c([np.zeros(2, np.int16)] * 3).dtype is lt.int16
    x = c([{"a": lt.tensor([1, 2]), "b": Point(1, "s")}, {"a": lt.tensor([3, 4]), "b": Point(2, "t")}])
    assert x["a"].tolist() == [[1, 2], [3, 4]] and isinstance(x["b"], Point) and x["b"].x.tolist() == [1, 2] and x["b"].y == ["s", "t"] or \
        x["b"].y == ("s", "t")
    assert isinstance(c([(1, 2), (3, 4)]), list) and [t.tolist() for t in c([[1, 2], [3, 4]])] == [[1, 3], [2, 4]]
    assert type(c([collections.OrderedDict(a=1)])) is collections.OrderedDict
    with pytest.raises(TypeError, match="must contain tensors"):
        c([object()])
    with pytest.raises(TypeError, match="<U1"):
        c([np.array(["a"])])
    with pytest.raises(RuntimeError, match="equal size"):
        c([[1], [1, 2]])
    with pytest.raises(RuntimeError, match=r"stack expects each tensor to be equal size, but got \[2\] at entry 0 and \[3\] at entry 1"):
        c([lt.arange(2), lt.arange(3)])
    assert D.default_convert({"a": np.ones(2), "b": ("x", 1)})["a"].dtype is lt.float64


def test_host_tensors_compile_nothing(counts):
    loader = D.DataLoader(D.TensorDataset(lt.arange(40).view(10, 4), lt.arange(10)), 3, shuffle=True)
    assert sorted(sum(ids(loader), [])) == list(range(10))
    ids(D.DataLoader(Rows(10), 4))
    assert counts.compiles == 0
    start = counts.traces
    for _ in range(3):
        ids(loader)
    assert counts.traces == start, "an epoch over host tensors traces nothing new"


# --- the loader in this process


def test_lengths_batches_and_options():
    loader = D.DataLoader(Rows(10), 4)
    assert len(loader) == 3 and ids(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(D.DataLoader(Rows(10), 4, drop_last=True)) == 2
    assert [x[1] for x in D.DataLoader(Rows(3), batch_size=None)] == [0, 1, 2]
    assert ids(D.DataLoader(Rows(6), batch_sampler=[[5, 0], [1]])) == [[5, 0], [1]]
    assert list(D.DataLoader(range(4), 2, collate_fn=sum)) == [1, 5]
    a, b = iter(loader), iter(loader)
    assert next(a)[1].tolist() == next(b)[1].tolist() == [0, 1, 2, 3]
    assert str(next(iter(D.DataLoader(Rows(4), 2, device="xla")))[0].device) == "xla:0"
    bad = [dict(num_workers=-1), dict(timeout=-1), dict(prefetch_factor=2), dict(persistent_workers=True), dict(shuffle=True, sampler=[0]),
           dict(batch_size=None, drop_last=True), dict(batch_sampler=[[0]], shuffle=True), dict(multiprocessing_context="spawn"),
           dict(num_workers=1, multiprocessing_context="none")]
    for kw in bad:
        with pytest.raises(ValueError):
            D.DataLoader(Rows(3), **kw)
    with pytest.raises(ValueError, match="shuffle"):
        D.DataLoader(Stream(3), shuffle=True)
    with pytest.raises(ValueError, match="should not be set"):
        loader.batch_size = 3


def test_stream_length_warning():
    loader = D.DataLoader(Stream(5, length=3))
    assert sum(1 for _ in loader) == 5 and len(loader) == 3
    with pytest.warns(UserWarning, match="reported to be 3"):
        list(loader)


# --- workers


@pytest.mark.parametrize("context", [None, "spawn"])
def test_workers_keep_the_order(context):
    loader = D.DataLoader(Rows(12, "late"), 2, num_workers=2, multiprocessing_context=context)
    assert ids(loader) == [[i, i + 1] for i in range(0, 12, 2)]


def test_persistent_workers_stay_and_reshuffle():
    loader = D.DataLoader(About(), None, num_workers=2, persistent_workers=True, worker_init_fn=tag)
    first, second = list(loader), list(loader)
    assert [x["id"] for x in first] == [0, 1, 0, 1] and first[0]["of"] == 2 and first[1]["tag"] == "worker 1"
    assert {x["pid"] for x in first} == {x["pid"] for x in second} and os.getpid() not in {x["pid"] for x in first}
    assert first[0]["seed"] + 1 == first[1]["seed"] and first[0]["seed"] != second[0]["seed"]
    assert len({tuple(x["draws"]) for x in first + second}) == 8
    assert first[0]["platforms"] == "cpu" and first[0]["t"].dtype is lt.bfloat16 and first[0]["t"].tolist() == [1.5]
    assert D.get_worker_info() is None


def test_worker_seeds_follow_the_generator():
    def run():
        return [x["draws"] for x in D.DataLoader(About(), None, num_workers=2, generator=lt.Generator().manual_seed(7))]
    assert run() == run()


def test_streams_split_among_workers():
    loader = D.DataLoader(Stream(11), 2, num_workers=2)
    assert sorted(sum((b.tolist() for b in loader), [])) == list(range(11))
    assert len(list(D.DataLoader(Stream(3, split=False), 2, num_workers=2, drop_last=True))) == 2


def test_worker_errors_carry_the_traceback():
    with pytest.raises(KeyError, match=r"(?s)Caught KeyError in DataLoader worker process \d.*loader_sets.py.*five is missing"):
        ids(D.DataLoader(Rows(8, "raise"), 2, num_workers=2))
    with pytest.raises(RuntimeError, match="Caught Odd"):
        ids(D.DataLoader(Rows(8, "odd"), 2, num_workers=1))
    with pytest.raises(ValueError, match="no worker 0"):
        ids(D.DataLoader(Rows(8), 2, num_workers=1, worker_init_fn=broken_init))
    assert issubclass(Odd, Exception)


def test_a_killed_worker_and_a_slow_one_are_errors():
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="SIGKILL"):
        ids(D.DataLoader(Rows(8, "die"), 2, num_workers=2))
    loader = D.DataLoader(Rows(8, "slow"), 2, num_workers=1, timeout=1)
    with pytest.raises(RuntimeError, match="timed out after 1 seconds"):
        next(iter(loader))
    assert time.monotonic() - start < 40


def test_what_cannot_be_pickled_runs_in_threads():
    pool._warned.clear()
    loader = D.DataLoader(Rows(6), 2, num_workers=2, collate_fn=lambda batch: [i for _, i in batch])
    with pytest.warns(UserWarning, match="threads, not processes.*lambda"):
        assert list(loader) == [[0, 1], [2, 3], [4, 5]]
    assert list(loader) == [[0, 1], [2, 3], [4, 5]]  # the warning comes once
    with pytest.raises(KeyError, match="worker thread"):
        list(D.DataLoader(Rows(8, "raise"), 2, num_workers=2, collate_fn=loader.collate_fn))
    with pytest.warns(UserWarning, match="'fork' runs as 'spawn'"):
        D.DataLoader(Rows(3), num_workers=1, multiprocessing_context=multiprocessing.get_context("fork"))


def test_batches_go_to_a_device_ahead():
    loader = D.DataLoader(Rows(6), 2, num_workers=1, pin_memory=True, device="xla")
    got = list(loader)
    assert [str(b[0].device) for b in got] == ["xla:0"] * 3 and [b[1].tolist() for b in got] == [[0, 1], [2, 3], [4, 5]]


SCRIPT = """
import time
from lazy_tensor.utils.data import DataLoader
from loader_sets import Rows
if __name__ == "__main__":
    it = iter(DataLoader(Rows(1000, "late"), 2, num_workers=2))
    next(it)
    print(*[p.pid for p in it.pool.procs], flush=True)
    for b in it:
        time.sleep(0.05)
"""


def test_ctrl_c_ends_the_workers(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(Path(lt.__file__).parent.parent)])}
    p = subprocess.Popen([sys.executable, str(tmp_path / "script.py")], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pids = [int(x) for x in p.stdout.readline().split()]
    p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=60)
    assert "KeyboardInterrupt" in err and len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_data_sets_pickle():
    d = pickle.loads(pickle.dumps(D.TensorDataset(lt.arange(3))))
    assert d[1][0].item() == 1

"""Every long phase ends soon after it is told to: its computations look for it again and again."""

import threading
from itertools import count

import numpy as np
import pytest

import chiasma as ch
from chiasma import stopping
from chiasma.datasets.tumours import simulate_tumour
from chiasma.exact import passes
from chiasma.sampling import learning_engines, optimise, running, sampler
from chiasma.sampling.learning import Learning
from chiasma.sampling.threads import Pool
from chiasma.tumour import solutions
from chiasma.tumour.bins import simulated_bins
from chiasma.tumour.landscape import Bounds

MODEL = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=ch.HalfNormal(1.0)))
MOST = 100_000


def test_pool__stops_tasks_that_run():
    """Before, an interrupt took effect when they had come to their end."""
    looked, running = [0], threading.Event()

    def task():
        for _ in range(MOST):
            running.set()
            looked[0] += 1
            stopping.look()
            threading.Event().wait(0.001)

    def interrupted():
        with Pool(2) as pool:
            pool.map(lambda _: task(), [0])
            running.wait()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert looked[0] < MOST


def test_pool__inside_a_task_of_another_pool_stops_with_it():
    inner_runs, ended = threading.Event(), []

    def endless(_):
        for _ in range(MOST):
            inner_runs.set()
            stopping.look()
            threading.Event().wait(0.001)
        ended.append(True)

    def outer(_):
        with Pool(1) as pool:
            return list(pool.map(endless, [0]))

    def interrupted():
        with Pool(1) as pool:
            pool.map(outer, [0])
            inner_runs.wait()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not ended


def test_look__does_nothing_outside_of_a_pool():
    stopping.look()
    with Pool(1) as pool:
        assert list(pool.map(lambda x: (stopping.look(), x)[1], [1, 2])) == [1, 2]


def after(n):
    """An event that is set when it is asked for the n-th time, with the count."""

    class Late(threading.Event):
        asked = 0

        def is_set(self):
            self.asked += 1
            return self.asked > n

    return Late()


def climb():
    learning = Learning(MODEL, ch.Observations(np.arange(300) % 4.0))
    optimise.climb(learning, np.zeros(1), 50)


def curvature():
    learning = Learning(MODEL, ch.Observations(np.arange(300) % 4.0))
    optimise.peak_at(learning, np.zeros(1), learning.parameters.scale, np.full(1, 0.1))


def tumour():
    bins = simulated_bins(simulate_tumour(1, n_bins=60, purity=0.7, doubled=False, clones=1))
    solutions.solve([bins], Bounds(clones=(1, 1), purity=(0.5, 0.9), ploidy=(1.5, 3.0)), workers=1)


@pytest.mark.parametrize("phase", [climb, curvature, tumour])
@pytest.mark.parametrize("n", [1, 3])
def test_phases__look_again_and_again(phase, n):
    event = after(n)
    with pytest.raises(stopping.Stopped):
        stopping.stopping_on((event,), phase)


def test_filter__looks_within_a_long_signal(monkeypatch):
    """One pass over a million columns may take longer than a second."""
    monkeypatch.setattr(passes, "LARGE_CHUNK", 400)
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0]))
    event = after(50)
    with pytest.raises(stopping.Stopped):
        stopping.stopping_on((event,), ch.exact.log_evidence, model, np.arange(20_000) % 4.0)


@pytest.mark.parametrize("share", [0.4, 0.95])
def test_run__drops_a_sweep_that_takes_long(share, tmp_path, monkeypatch):
    """In the warm-up or in a draw. The draws before it are kept, and a resumed run is that of an uninterrupted one."""

    def run(path, **more):
        options = {"update": ch.Collapsed(starts=1), "draws": 12, "warmup": 6, "chains": 1, "seed": 1, "workers": 1}
        return ch.sample(MODEL, np.arange(30) % 4.0, store=path, progress=False, **options, **more)

    calls, late = count(1), threading.Event()
    n_calls = []

    def look():
        n_calls[:] = [next(calls)]
        if n_calls[0] == at:  # it comes to no end, as a sweep over millions of columns
            late.set()
            assert all(event.wait(10) for event in stopping.asked())
        stopping.look()

    def refresh(display):
        if late.is_set():
            raise KeyboardInterrupt

    monkeypatch.setattr(passes, "look", look)
    monkeypatch.setattr(learning_engines, "PIECE_COLUMNS", 1)  # one draw at a time
    at = 0
    whole = run(tmp_path / "whole")
    at, calls = int(share * n_calls[0]), count(1)
    with monkeypatch.context() as patch:
        patch.setattr(running, "GRACE", 0.0)
        patch.setattr(sampler.Progress, "refresh", refresh)
        if share < 0.5:
            with pytest.raises(KeyboardInterrupt):
                run(tmp_path / "run")
            return
        found = run(tmp_path / "run")
    n_draws = found.draws.sizes["draw"]
    assert 0 < n_draws < 12
    assert np.array_equal(found.draws, whole.draws[:, :n_draws])
    at = 0
    resumed = run(tmp_path / "run", resume=True)
    assert np.array_equal(resumed.draws, whole.draws)
    assert np.array_equal(resumed.log_joint, whole.log_joint)

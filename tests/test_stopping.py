"""Every long phase ends soon after it is told to: its computations look for it again and again."""

import threading

import numpy as np
import pytest

import chiasma as ch
from chiasma import stopping
from chiasma.datasets.tumours import simulate_tumour
from chiasma.exact import passes
from chiasma.sampling import optimise
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

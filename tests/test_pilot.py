"""The pilot: what it finds out, what it says, what it costs, and that it leaves the draws exact and reproducible."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
import pytest

import chiasma as ch
from chiasma.kernels.layout import unpack_codes
from chiasma.sampling import pilot
from chiasma.sampling import problems as posed
from chiasma.sampling.engines import CompiledEngine
from chiasma.sampling.plan import plan_paths
from chiasma.sampling.problems import PathProblem, Start
from chiasma.sampling.progress import Progress
from chiasma.sampling.streams import Streams

needs_jit = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="long runs of compiled kernels")


def lattice(n_columns: int = 600) -> tuple[ch.FactorialHMM, np.ndarray]:
    """Eight rows of about 3 and six of about 4: four of the one stand for three of the other, seven rows at once."""
    rng = np.random.default_rng(1)
    weights = np.repeat([3.0, 4.0], [8, 6]) * (1 + rng.uniform(-0.01, 0.01, 14))
    model = ch.FactorialHMM(chains=ch.BinaryChains(0.005, 0.005), emission=ch.Gaussian(weights, sd=0.35))
    return model, model.simulate(n_columns, seed=1)[1]


def easy(n_rows: int = 10, n_columns: int = 60) -> tuple[ch.FactorialHMM, np.ndarray]:
    model = ch.FactorialHMM(
        chains=ch.BinaryChains(0.2, 0.2), emission=ch.Gaussian(np.linspace(0.5, 1.5, n_rows), sd=1.0)
    )
    return model, model.simulate(n_columns, seed=1)[1]


def unsigned_ring(n_sequences: int = 8) -> tuple[ch.FactorialHMM, ch.Observations]:
    """Ten rows around a ring, and the sizes of the differences of neighbours: all rows flip at once, or none.

    Every sequence flips by itself: single replicas never do, whole paths are hardly ever swapped.
    """
    weights = np.eye(10) - np.roll(np.eye(10), 1, axis=0)

    def sizes(y: np.ndarray, level: np.ndarray) -> np.ndarray:
        return -0.5 * np.sum((y - np.abs(level)) ** 2, axis=-1) / 0.5**2

    rng = np.random.default_rng(1)
    states = np.repeat(rng.integers(0, 2, (n_sequences, 10)), 5, axis=0)
    y = np.abs(states @ weights) + rng.normal(0, 0.5, (5 * n_sequences, 10))
    model = ch.FactorialHMM(chains=ch.BinaryChains(0.02, 0.025), emission=ch.Custom(sizes, weights))
    return model, ch.Observations(y, starts=np.arange(n_sequences) * 5)


def decide(model: ch.FactorialHMM, y: Any, warmup: int, chains: int = 4) -> Any:
    target = model.exact_target(y, table_bytes=0)
    plan = plan_paths(target, "auto", "auto", "auto", 0.0)
    assert plan.update is not None
    return pilot.decide(PathProblem(target, plan.update, None), plan, 7, chains, warmup, 1, Progress(False, "", 0))


def scores(reason: str) -> dict[str, float]:
    return {name: float(number) for number, name in re.findall(r"(\d\.\d{3}) with ([^,)]*)", reason)}


@needs_jit
def test_pilot__takes_larger_blocks_where_smaller_ones_are_stuck():
    plan, states, _ = decide(*lattice(), warmup=1000)
    assert plan.update in (ch.GaussianBlocks(size=7), ch.GaussianBlocks(size=9))
    found = scores(plan.reason)
    assert found["blocks of 5 rows"] > 1.2 * min(found.values())
    assert len(states) == 4


@needs_jit
def test_pilot__takes_small_blocks_where_they_mix():
    plan, _, left = decide(*easy(), warmup=400)
    assert plan.update == ch.GaussianBlocks(size=5)
    assert plan.exchange is None
    # Chains mix, so no ladder is tried, and what that would have taken is left for the warm-up.
    assert not any("rungs" in name for name in scores(plan.reason))
    assert left > 400 * (1 - pilot.SHARE)
    assert "no evidence (ask for it with evidence=True)" in plan.reason


@needs_jit
@pytest.mark.parametrize(("gain", "n_rungs"), [(0.0, 1), (np.inf, 2)])
def test_pilot__takes_a_ladder_only_where_it_pays(gain, n_rungs, monkeypatch):
    monkeypatch.setattr(pilot, "STUCK", 0.0)
    monkeypatch.setattr(pilot, "GAIN", gain)
    plan, states, left = decide(*easy(), warmup=400)
    assert {"blocks of 5 rows and 2 rungs", "blocks of 5 rows and 4 rungs"} <= set(scores(plan.reason))
    assert (len(plan.ladder) > 1) == (n_rungs > 1)
    assert (plan.exchange == ch.MosaicCrossover()) == (n_rungs > 1)
    assert all(len(one) == len(plan.ladder) for one in states)
    assert left >= 400 * (1 - pilot.SHARE - pilot.STUCK_SHARE) - 10


@needs_jit
def test_pilot__takes_a_ladder_where_all_blocks_are_stuck():
    """And the marginals are then right, where blocks stay where they began: 0.4 away from the exact ones on average."""
    model, data = unsigned_ring()
    options = {"exact_seconds": 0, "draws": 2000, "warmup": 1500, "chains": 2, "seed": 3, "progress": False}
    exact = ch.exact.marginals(model, data)
    posterior = ch.sample(model, data, **options)
    assert "rungs, MosaicCrossover exchanges: best of a pilot" in posterior.info["plan"]
    found = scores(posterior.info["plan"])
    plain = [score for name, score in found.items() if "rungs" not in name]
    assert min(found.values()) < pilot.GAIN * min(plain)
    stuck = ch.sample(model, data, update=ch.BlockGibbs(size=7), exchange=None, **options)
    assert np.abs(posterior.marginals() - exact).mean() < 0.1
    assert np.abs(stuck.marginals() - exact).mean() > 0.2


def test_pilot__starts_every_replica_where_the_trial_left_it():
    start = Start(np.arange(6).reshape(2, 3))
    target = ch.FactorialHMM(chains=ch.BinaryChains(0.2, 0.2), emission=ch.Gaussian(np.ones(3), sd=1.0)).exact_target(
        np.zeros(3)
    )
    problem = PathProblem(target, ch.RowGibbs(), ch.MosaicCrossover())
    engine = CompiledEngine(problem, (0.2, 1.0), 1, Streams(1, 0), start)
    np.testing.assert_array_equal(engine.states, start.states)
    from_one = CompiledEngine(problem, (0.2, 1.0), 1, Streams(1, 0), Start(start.states[0]))
    np.testing.assert_array_equal(from_one.states, [start.states[0]] * 2)
    # Other strides are another type of array: kernels would be compiled once more, and read columns that are far apart.
    assert from_one.states.flags.c_contiguous


def test_pilot__needs_some_warmup():
    plan, states, left = decide(*easy(), warmup=4)
    assert plan.update == ch.GaussianBlocks(size=7)
    assert plan.reason.endswith("the warm-up is too short for a pilot")
    assert (states, left) == ([], 4)


def test_pilot__has_nothing_to_choose_where_one_block_holds_all():
    plan, states, left = decide(*easy(n_rows=4), warmup=400)
    assert plan.update == ch.GaussianBlocks(size=4)
    assert (states, left) == ([], 400)


def test_pilot__is_not_needed_where_blocks_hold_whole_parts():
    """Three rows in each of four channels: blocks of three rows are exact draws."""
    weights = np.kron(np.eye(4), np.array([[0.5], [0.7], [1.3]]))
    model = ch.FactorialHMM(chains=ch.BinaryChains(0.2, 0.2), emission=ch.Gaussian(weights, sd=1.0))
    plan, states, left = decide(model, model.simulate(20, seed=1)[1], warmup=400)
    assert plan.update == ch.GaussianBlocks(size=3)
    assert (states, left) == ([], 400)


def test_work__grows_with_blocks_and_rungs():
    model, y = easy()
    target = model.exact_target(y)
    plans = [plan_paths(target, ch.BlockGibbs(size=size), None, "auto") for size in (1, 5, 9)]
    works = [pilot.work_of(target, plan) for plan in plans]
    assert works[1] < works[2]
    on_a_ladder = plan_paths(target, ch.BlockGibbs(size=5), "mosaic", [1, 5])
    assert pilot.work_of(target, on_a_ladder) > 2 * works[1]
    fused = plan_paths(target, ch.GaussianBlocks(size=5), None, "auto")
    assert pilot.work_of(target, fused) < works[1]


def test_table__is_not_built_for_a_short_run():
    """16 rows: 65,536 likelihoods per column, of which a block reads 32."""
    counts = ch.FactorialHMM(chains=ch.BinaryChains(0.2, 0.3), emission=ch.Poisson(np.linspace(1, 2, 16), background=1))
    target = counts.target(np.zeros(50))
    plan = plan_paths(target, "auto", "auto", "auto", 0.0)
    assert target.tabulated
    assert pilot.saves_a_table(target, plan, iterations=20)
    assert not pilot.saves_a_table(target, plan, iterations=100_000)
    posterior = ch.sample(counts, np.zeros(50), exact_seconds=0, draws=5, warmup=5, chains=1, seed=1, progress=False)
    assert posterior.codes.shape == (1, 5, 50)
    fused = easy()[0].target(np.zeros(50))
    assert not pilot.saves_a_table(fused, plan_paths(fused, "auto", "auto", "auto", 0.0), 1)


def problems() -> dict[str, tuple[ch.FactorialHMM, np.ndarray]]:
    counts = ch.FactorialHMM(
        chains=ch.BinaryChains(0.2, 0.3), emission=ch.Poisson(np.linspace(1, 2, 9), depth=1.5, background=0.5)
    )
    given = [ch.Row([0, 1.0, 2.0 + 0.3 * k], ch.Sticky(renew=0.3)) for k in range(4)]
    states = ch.FactorialHMM(rows=[*given, ch.Row([0, 0.7], ch.Switch(0.2, 0.2), copies=3)], emission=ch.Gaussian(sd=1))
    return {
        "fused": easy(),
        "table": (counts, counts.simulate(30, seed=1)[1]),
        "states": (states, states.simulate(30, seed=1)[1]),
    }


@needs_jit
@pytest.mark.parametrize("name", ["fused", "table", "states"])
def test_marginals__are_the_exact_ones(name):
    """Four chains in 40 batches: no probability further than six standard errors of the batch means plus 0.002.

    Some 600 of them; Student's t with 39 degrees of freedom exceeds 6 once in two million: a false alarm in 3,000 runs.
    """
    model, y = problems()[name]
    draws = 400 if name == "states" else 1500
    posterior = ch.sample(model, y, exact_seconds=0, draws=draws, warmup=200, chains=4, seed=4, progress=False)
    assert "best of a pilot of 4 chains" in posterior.info["plan"]
    states = unpack_codes(posterior.codes.values.reshape(40, draws // 10, -1), model.layout)
    exact = ch.exact.all_probabilities(model, y)
    for k in range(model.n_rows):
        for s in range(1, len(exact[k])):
            batches = (states[:, :, k] == s).mean(axis=1)
            error = batches.std(axis=0, ddof=1) / np.sqrt(40)
            assert np.all(np.abs(batches.mean(axis=0) - exact[k][s]) <= 6 * error + 2e-3)


def test_init__is_where_chains_start_all_the_same():
    """Pilot chains start elsewhere, but what the user gives is not overruled."""
    model, y = easy(n_columns=12)
    options = {"exact_seconds": 0, "warmup": 60, "draws": 2, "chains": 1, "progress": False}
    zeros, ones = (np.full((10, 12), x) for x in (0, 1))
    runs = [ch.sample(model, y, init=init, seed=1, **options).codes.values for init in (zeros, ones)]
    again = ch.sample(model, y, init=zeros, seed=1, **options).codes.values
    np.testing.assert_array_equal(runs[0], again)


def test_resume__is_exact(tmp_path):
    model, y = easy(n_columns=20)
    options = {"exact_seconds": 0, "warmup": 80, "chains": 2, "seed": 5, "progress": False}
    whole = ch.sample(model, y, draws=12, **options)
    ch.sample(model, y, draws=5, store=tmp_path / "run.zarr", **options)
    resumed = ch.sample(model, y, draws=12, store=tmp_path / "run.zarr", resume=True, **options)
    np.testing.assert_array_equal(resumed.codes.values, whole.codes.values)
    assert resumed.info["plan"] == whole.info["plan"]


def test_ladder_of_the_pilot__same_for_any_workers_and_resumed_exactly(tmp_path, monkeypatch):
    monkeypatch.setattr(pilot, "STUCK", 0.0)
    monkeypatch.setattr(pilot, "GAIN", np.inf)
    model, data = unsigned_ring(n_sequences=3)
    options = {"exact_seconds": 0, "warmup": 120, "chains": 2, "seed": 5, "progress": False}
    whole = ch.sample(model, data, draws=12, workers=1, **options)
    assert "rungs, MosaicCrossover exchanges: best of a pilot" in whole.info["plan"]
    for workers in (2, 8):
        again = ch.sample(model, data, draws=12, workers=workers, **options)
        np.testing.assert_array_equal(again.codes.values, whole.codes.values)
    ch.sample(model, data, draws=5, store=tmp_path / "run.zarr", **options)
    resumed = ch.sample(model, data, draws=12, store=tmp_path / "run.zarr", resume=True, **options)
    np.testing.assert_array_equal(resumed.codes.values, whole.codes.values)


def test_tempered_tables__are_whole_for_every_thread_that_asks(monkeypatch):
    """Chains of a pilot begin in threads of their own, and share one table."""
    fill = posed.tempered_table

    def slowly(*given):
        time.sleep(0.05)
        fill(*given)

    monkeypatch.setattr(posed, "tempered_table", slowly)
    problem = PathProblem(easy(n_columns=5)[0].exact_target(np.zeros(5)), ch.RowGibbs(), ch.MosaicCrossover())
    betas = np.array([0.2, 0.5, 1.0])
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: problem.tempered(betas).copy(), range(4)))
    for one in found:
        np.testing.assert_array_equal(one, problem.tempered(betas))

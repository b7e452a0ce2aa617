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
from chiasma.sampling.differences import Differences
from chiasma.sampling.engines import CompiledEngine
from chiasma.sampling.plan import Plan, plan_paths
from chiasma.sampling.problems import PathProblem, Start
from chiasma.sampling.progress import Progress
from chiasma.sampling.streams import Streams

needs_jit = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="long runs of compiled kernels")


def easy(n_rows: int = 10, n_columns: int = 60) -> tuple[ch.FactorialHMM, np.ndarray]:
    model = ch.FactorialHMM(rows=ch.Switches(0.2, 0.2), emission=ch.Gaussian(np.linspace(0.5, 1.5, n_rows), sd=1.0))
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
    model = ch.FactorialHMM(rows=ch.Switches(0.02, 0.025), emission=ch.Custom(sizes, weights))
    return model, ch.Observations(y, starts=np.arange(n_sequences) * 5)


def wired_anew(n_sequences: int, n_rows: int = 13) -> tuple[ch.FactorialHMM, ch.Observations]:
    """In every sequence of three columns other rows, all but three, are on together or off together: sensors read their
    differences along a line, and the other three rows directly.
    """
    rng = np.random.default_rng(1)
    states = np.arange(1 << n_rows)[:, None] >> np.arange(n_rows) & 1
    log_lik = np.empty((3 * n_sequences, len(states)))
    for t in range(len(log_lik)):
        if t % 3 == 0:
            weights = np.eye(n_rows, n_rows - 1, k=-1)
            weights[:-3, :-3] -= np.eye(n_rows - 3, n_rows - 4)
            weights = rng.permutation(weights)
        y = rng.normal(0, 0.4, n_rows - 1)
        log_lik[t] = -0.5 * np.sum((y - states @ weights) ** 2, axis=1) / 0.4**2
    model = ch.FactorialHMM(rows=ch.Switches(0.02, 0.025), emission=ch.Table(log_lik))
    return model, ch.Observations(np.arange(len(log_lik)), starts=np.arange(n_sequences) * 3)


def decide(model: ch.FactorialHMM, y: Any, warmup: int, chains: int = 4, **options: Any) -> pilot.Chosen:
    target = model.exact_target(y, **{"table_bytes": 0} | options)
    plan = plan_paths(target, "auto", "auto", "auto", 0.0)
    assert plan.update is not None
    return pilot.decide(PathProblem(target, plan.update, None), plan, 7, chains, warmup, 1, Progress(False, "", 0))


def scores(reason: str) -> dict[str, float]:
    return {name: float(number) for number, name in re.findall(r"(\d+\.\d{3}) with ([^,)]*)", reason)}


# ---- Scores, from shares of time as chains might have them --------------------------------------------------------


def trial(means: np.ndarray, noise: float, seed: int, spent: float = 1.0, **plan: Any) -> pilot.Tried:
    """Chains with the given means (chain, row, column), and halves that differ from them by so much."""
    rng = np.random.default_rng(seed)
    halves = means[:, None] + noise * rng.normal(size=(len(means), 2, *means.shape[1:]))
    given = {"update": ch.GaussianBlocks(size=8), "exchange": None, "ladder": ch.Ladder.of([1.0]), "reason": "given"}
    return pilot.Tried(
        plan=Plan(**given | plan),
        problem=None,
        iterations=8,
        spent=spent,
        halves=halves,
        seen=np.empty((4, 0, 0), np.int64),
        states=[],
    )


HALF = np.full((4, 6, 96), 0.5)
# Two of the four chains are in one mode, two in the other, in the first half of the columns.
APART = HALF + np.array([0.5, 0.5, -0.5, -0.5])[:, None, None] * (np.arange(96) < 48)
# All chains are in the same one of two modes.
TOGETHER = HALF + 0.5 * (np.arange(96) < 48)


def test_slowness__is_about_one_where_chains_mix_and_large_where_they_are_stuck():
    mixing, stuck = pilot.compare([trial(HALF, 0.05, 1), trial(APART, 0.05, 2)])
    assert mixing.slowness < pilot.MIXING
    assert stuck.slowness > 10
    assert stuck.score > 10 * mixing.score
    # Half of the noise of a half goes into the mean of two.
    assert mixing.score == pytest.approx(0.05 / np.sqrt(2), rel=0.1)


def test_score__finds_out_chains_that_agree_on_what_is_wrong():
    """They agree with each other, but not with a candidate that goes between the modes."""
    mixing, wrong = pilot.compare([trial(HALF, 0.2, 1), trial(TOGETHER, 0.01, 2)])
    assert wrong.slowness > pilot.STUCK
    assert mixing.beats(wrong, pilot.SURE)


def test_score__counts_the_work():
    """Twice the work for the same disagreement: a score that is larger by the root of two."""
    one, other = pilot.compare([trial(HALF, 0.05, 1), trial(HALF, 0.05, 2, spent=2.0)])
    assert other.score == pytest.approx(np.sqrt(2) * one.score, rel=0.1)
    assert one.beats(other, pilot.SURE)
    assert not other.beats(one, pilot.LIKELY)


def test_score__of_two_equals_is_no_reason_to_change():
    """Of forty pairs at most a few differ by more than two standard errors."""
    pairs = [pilot.compare([trial(HALF, 0.05, n), trial(HALF, 0.05, 100 + n)]) for n in range(40)]
    assert sum(one.beats(other, pilot.SURE) for one, other in pairs) <= 4
    assert 4 <= sum(one.beats(other, 0.0) for one, other in pairs) <= 36


@pytest.mark.parametrize(
    ("means", "noise", "plan", "taken"),
    [
        # Smaller blocks: where chains mix and the score is clearly smaller.
        (HALF, 0.05, {"update": ch.GaussianBlocks(size=5)}, True),
        (HALF, 0.195, {"update": ch.GaussianBlocks(size=5)}, False),
        (APART / 5 + 0.4, 0.01, {"update": ch.GaussianBlocks(size=5)}, False),
        # Larger ones, and ladders, which have to be better by a factor.
        (HALF, 0.18, {"update": ch.GaussianBlocks(size=10)}, True),
        (HALF, 0.18, {"ladder": ch.Ladder.of([1.0, 5.0])}, False),
        (HALF, 0.10, {"ladder": ch.Ladder.of([1.0, 5.0])}, True),
        (HALF, 0.18, {"update": ch.Jumps(size=3)}, True),
    ],
)
def test_preferred(means, noise, plan, taken):
    default, other = pilot.compare([trial(HALF, 0.2, 1), trial(means, noise, 2, **plan)])
    assert pilot.preferred(other, default) == taken


def test_choose__keeps_the_default_unless_another_is_preferred():
    plan = trial(HALF, 0.2, 1).plan
    default, larger = trial(HALF, 0.2, 1), trial(HALF, 0.1, 2, update=ch.GaussianBlocks(size=10))
    assert pilot.choose(pilot.compare([default, larger]), plan).trial is larger
    assert pilot.choose(pilot.compare([default, trial(HALF, 0.2, 2, update=larger.plan.update)]), plan).trial is default


@pytest.mark.parametrize(
    ("own", "other", "again"),
    [
        (APART, 0.8 * APART + 0.1, True),  # both stuck, and close
        (APART, 0.5 * APART + 0.25, False),  # the rival is far behind
        (HALF, HALF, False),  # chains forget where they began: the trial has told
    ],
)
def test_finalists__run_again_where_trials_were_too_short(own, other, again):
    default = trial(own, 0.02, 1)
    jumps = trial(other, 0.02, 2, update=ch.Jumps(size=3))
    found = pilot.finalists(pilot.compare([default, jumps]), default.plan)
    assert [one.trial for one in found] == ([jumps, default] if again else [])


# ---- Decisions ----------------------------------------------------------------------------------------------------


@needs_jit
def test_pilot__takes_small_blocks_where_they_mix():
    decision = decide(*easy(n_columns=200), warmup=1000)
    assert decision.plan.update == ch.GaussianBlocks(size=6)
    assert decision.plan.exchange is None
    assert decision.problem.update == decision.plan.update
    # Chains mix, so nothing else is tried, and what that would have taken is left for the warm-up.
    assert set(scores(decision.plan.reason)) == {"blocks of 6 rows", "blocks of 8 rows"}
    assert decision.left > 1000 * (1 - 3 * pilot.SHARE) - 10
    assert "no evidence, which was not asked for" in decision.plan.reason
    assert len(decision.states) == pilot.CHAINS


def always(monkeypatch: pytest.MonkeyPatch, ladders: bool) -> None:
    """Chains count as stuck, and the candidate that is tried last is taken: a ladder, or jumps."""
    monkeypatch.setattr(pilot, "STUCK", 0.0)
    monkeypatch.setattr(pilot, "preferred", lambda one, best: True)
    monkeypatch.setattr(pilot, "LADDERS", pilot.LADDERS[:1] if ladders else ())


@needs_jit
def test_pilot__starts_replicas_of_a_ladder(monkeypatch):
    always(monkeypatch, ladders=True)
    decision = decide(*easy(), warmup=400)
    assert {"blocks of 3 rows and 2 rungs", "blocks of 10 rows"} <= set(scores(decision.plan.reason))
    assert decision.plan.exchange == decision.problem.exchange == ch.MosaicCrossover()
    assert all(len(one) == len(decision.plan.ladder) == 2 for one in decision.states)
    assert decision.problem.target.tabulated


@needs_jit
def test_pilot__computes_likelihoods_on_demand_where_tables_take_too_long(monkeypatch):
    always(monkeypatch, ladders=True)
    monkeypatch.setattr(pilot, "TABLE_SHARE", 0.0)
    decision = decide(*easy(), warmup=400)
    assert "blocks of 6 rows and 2 rungs" in decision.plan.reason
    assert not decision.problem.target.tabulated


@needs_jit
def test_pilot__uses_tables_that_are_there_however_short_the_warmup(monkeypatch):
    """A table that the problem has costs jumps nothing."""
    always(monkeypatch, ladders=False)
    monkeypatch.setattr(pilot, "TABLE_SHARE", 0.0)
    decision = decide(*wired_anew(2), warmup=400, table_bytes=2**24)
    assert "jumps along" in decision.plan.reason.split(": chosen by a pilot")[0]
    assert decision.problem.target.tabulated


@needs_jit
def test_pilot__takes_a_ladder_where_every_sequence_has_rivals_of_its_own():
    """Jumps have another difference to learn for each of 100 sequences; crossovers take over those that fit."""
    plan = decide(*wired_anew(100), warmup=500, table_bytes=2**26).plan
    assert "2 rungs, MosaicCrossover exchanges" in plan.reason.split(": chosen by a pilot")[0]
    assert {"blocks of 6 rows", "blocks of 9 rows"} < set(scores(plan.reason))


@needs_jit
def test_pilot__jumps_where_all_blocks_are_stuck():
    """And the marginals are then right, where blocks stay where they began: 0.4 away from the exact ones on average."""
    model, data = unsigned_ring()
    options = {"exact_seconds": 0, "draws": 2000, "warmup": 1500, "chains": 2, "seed": 3, "progress": False}
    exact = ch.exact.marginals(model, data)
    posterior = ch.sample(model, data, **options)
    assert "jumps along" in posterior.info["plan"].split(": chosen by a pilot of 4 chains")[0]
    stuck = ch.sample(model, data, update=ch.BlockGibbs(size=7), exchange=None, **options)
    assert np.abs(posterior.marginals() - exact).mean() < 0.05
    assert np.abs(stuck.marginals() - exact).mean() > 0.2


@needs_jit
def test_pilot__takes_a_ladder_where_chains_tell_nothing_about_jumps(monkeypatch):
    monkeypatch.setattr(pilot, "find_differences", lambda *_: Differences())
    plan = decide(*unsigned_ring(), warmup=1500).plan
    assert "rungs, MosaicCrossover exchanges" in plan.reason.split(": chosen by a pilot")[0]


def test_pilot__starts_every_replica_where_the_trial_left_it():
    start = Start(np.arange(6).reshape(2, 3))
    target = ch.FactorialHMM(rows=ch.Switches(0.2, 0.2), emission=ch.Gaussian(np.ones(3), sd=1.0)).exact_target(
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
    plan, _, states, left = decide(*easy(), warmup=4)
    assert plan.update == ch.GaussianBlocks(size=8)
    assert plan.reason.endswith("the warm-up is too short for a pilot")
    assert (states, left) == ([], 4)


def test_pilot__has_nothing_to_choose_where_one_block_holds_all():
    plan, _, states, left = decide(*easy(n_rows=4), warmup=400)
    assert plan.update == ch.GaussianBlocks(size=4)
    assert (states, left) == ([], 400)


def test_pilot__is_not_needed_where_blocks_hold_whole_parts():
    """Three rows in each of four channels: blocks of three rows are exact draws."""
    weights = np.kron(np.eye(4), np.array([[0.5], [0.7], [1.3]]))
    model = ch.FactorialHMM(rows=ch.Switches(0.2, 0.2), emission=ch.Gaussian(weights, sd=1.0))
    plan, _, states, left = decide(model, model.simulate(20, seed=1)[1], warmup=400)
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
    counts = ch.FactorialHMM(rows=ch.Switches(0.2, 0.3), emission=ch.Poisson(np.linspace(1, 2, 16), background=1))
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
        rows=ch.Switches(0.2, 0.3), emission=ch.Poisson(np.linspace(1, 2, 9), depth=1.5, background=0.5)
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
    assert "chosen by a pilot of 4 chains" in posterior.info["plan"]
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


@pytest.mark.parametrize("ladders", [True, False])
def test_pilot__same_for_any_workers_and_resumed_exactly(ladders, tmp_path, monkeypatch):
    always(monkeypatch, ladders)
    model, data = unsigned_ring(n_sequences=3)
    options = {"exact_seconds": 0, "warmup": 250, "chains": 2, "seed": 5, "progress": False}
    whole = ch.sample(model, data, draws=12, workers=1, **options)
    expected = "2 rungs, MosaicCrossover exchanges" if ladders else "differences between chains"
    assert f"{expected}: chosen by a pilot" in whole.info["plan"]
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


def test_tempered_tables__are_shared_by_candidates_with_the_same_rungs_and_let_go_with_the_last(monkeypatch):
    made = []
    fill = posed.tempered_table
    monkeypatch.setattr(posed, "tempered_table", lambda *given: (made.append(given[1]), fill(*given)))
    first = PathProblem(easy(n_columns=5)[0].exact_target(np.zeros(5)), ch.BlockGibbs(size=2), None)
    second = first.with_moves(ch.BlockGibbs(size=3), None)
    tempered = first.with_moves(ch.BlockGibbs(size=2), ch.MosaicCrossover())
    one, betas = np.array([1.0]), np.array([0.2, 1.0])
    assert first.tempered(one) is second.tempered(one)
    assert not np.array_equal(tempered.tempered(betas)[0], first.tempered(one)[0])
    assert made == [1.0, 0.2, 1.0]
    assert (second.update, second.target) == (ch.BlockGibbs(size=3), first.target)
    del first, second
    tempered.tempered(one)
    assert made == [1.0, 0.2, 1.0, 1.0]

"""One seed, one result: bit for bit, whoever computes it and in whatever pieces."""

from __future__ import annotations

import json
from typing import Any

import numba
import numpy as np
import pytest

import chiasma as ch
from chiasma.sampling import engines, running
from chiasma.sampling.streams import Streams, fresh_entropy

JIT = not numba.config.DISABLE_JIT
# As plain Python a sweep over few columns already says everything.
T = 40 if JIT else 7
DRAWS = 30 if JIT else 5
WARMUP = 60 if JIT else 14
NAN = float("nan")

UPDATES = {"row": ch.RowGibbs(), "block": ch.BlockGibbs(size=2), "ball": ch.HammingBall(radius=1)}
EXCHANGES = {
    "none": None,
    "swap": ch.Swap(),
    "swap-random-rows": ch.Swap(rows="random"),
    "random-1": ch.RandomCrossover(points=1),
    "random-2": ch.RandomCrossover(points=2, rows=[2, 0]),
    "augmented": ch.AugmentedCrossover(),
    "augmented-rows": ch.AugmentedCrossover(axis="rows"),
    "mosaic": ch.MosaicCrossover(),
    "mosaic-random-rows": ch.MosaicCrossover(rows="random"),
}


def paths(n_columns: int = T) -> tuple[ch.FactorialHMM, ch.Observations]:
    """Four rows, one of them fixed; two sequences, three kinds of gaps, a missing column."""
    model = ch.FactorialHMM(
        rows=ch.Switches(enter=[0.1, 0.2, 0.3, 0.1], leave=0.2),
        emission=ch.Gaussian([1.0, 0.6, 0.4, 0.9], sd=0.6),
        fixed={1: 1},
    )
    y = np.random.default_rng(5).normal(1.2, 0.7, n_columns)
    y[3] = NAN
    return model, ch.Observations(y, starts=[n_columns // 2], gaps=np.resize([1.0, 2.5, 0.7], n_columns - 1))


def many_rows() -> tuple[ch.FactorialHMM, np.ndarray]:
    """30 rows: a table of all codes does not fit, and likelihoods are streamed."""
    weights = np.linspace(0.2, 1.0, 30)
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.3), emission=ch.Gaussian(weights, sd=0.8))
    return model, np.random.default_rng(6).normal(4.0, 1.0, 6 if JIT else 2)


def modes() -> ch.BlockModes:
    return ch.BlockModes(blocks=2, size=8, alpha=0.3)


def normal() -> ch.Density:
    """A standard normal prior and a likelihood around 3."""
    return ch.Density(
        lambda x: -((x - 3.0) ** 2).sum(axis=1),
        size=4,
        init=lambda rng: rng.normal(size=4),
        update=ch.RandomWalk(scale=0.7),
        log_prior=lambda x: -0.5 * (x**2).sum(axis=1),
        prior_draw=lambda rng: rng.normal(size=4),
    )


def sample(*problem: Any, **options: Any) -> ch.Posterior:
    options = {"draws": DRAWS, "warmup": WARMUP, "chains": 3, "seed": 11, "progress": False} | options
    return ch.sample(*problem, **options)


def contents(posterior: ch.Posterior) -> dict[str, np.ndarray]:
    """All that a run has drawn and counted."""
    return {
        "draws": posterior.draws.values,
        "log_joint": posterior.log_joint.values,
        "replica_log_likelihood": posterior.replica_log_likelihood.values,
        "betas": posterior.betas,
        "round_trips": np.array(posterior.info["round_trips"]),
        "exchange_steps": np.array(posterior.info["exchange_steps"]),
        "evidence": np.array(posterior.log_evidence if posterior.log_evidence else (0.0, 0.0)),
    } | {str(name): values.values for name, values in posterior.exchange_stats.items()}


def assert_same(one: ch.Posterior, other: ch.Posterior) -> None:
    first, second = contents(one), contents(other)
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name], err_msg=name)


def assert_same_for_any_workers(*problem: Any, **options: Any) -> None:
    alone = sample(*problem, workers=1, **options)
    for workers in (2, 8):
        assert_same(alone, sample(*problem, workers=workers, **options))


# ---- Workers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exchange", EXCHANGES.values(), ids=EXCHANGES)
@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
def test_workers__compiled(update, exchange):
    ladder = ch.Ladder(betas=(0.0, 0.2, 0.6, 1.0))
    assert_same_for_any_workers(*paths(), update=update, exchange=exchange, ladder=ladder)


def test_workers__adapted_ladder_of_open_size():
    """The rungs come from all chains together: the order in which chains finish must not matter."""
    assert_same_for_any_workers(*paths(), update="row", exchange="mosaic", ladder=ch.Ladder.adapted())


def test_workers__gaussian_blocks():
    ladder = ch.Ladder(betas=(0.0, 0.2, 0.6, 1.0))
    assert_same_for_any_workers(*paths(), update=ch.GaussianBlocks(size=2), exchange="mosaic", ladder=ladder)


def test_workers__pilot():
    """The candidates are compared over all chains together."""
    assert_same_for_any_workers(*paths(), exact_seconds=0)


@pytest.mark.jit_off
@pytest.mark.parametrize("exchange", ["swap", "random", "augmented", "mosaic"])
@pytest.mark.parametrize("update", ["row", "block", "hamming-ball"])
def test_workers__streamed(update, exchange):
    model, y = many_rows()
    assert not model.target(y).tabulated
    ladder = ch.Ladder(betas=(0.0, 0.5, 1.0))
    assert_same_for_any_workers(model, y, update=update, exchange=exchange, ladder=ladder, draws=DRAWS // 5, warmup=1)


@pytest.mark.parametrize("memory", [2**20, 2**11])
def test_workers__exact(memory):
    """With 2 KiB for the messages, chains share buffers and take turns."""
    assert_same_for_any_workers(*paths(60), update=ch.Exact(memory=memory), draws=DRAWS)


def test_workers__exact_updates_on_a_ladder():
    assert_same_for_any_workers(*paths(), update="exact", exchange="augmented", ladder=[1, 2, 6])


@pytest.mark.parametrize("exchange", ["swap", "random", "augmented"])
@pytest.mark.parametrize("density", [modes, normal])
def test_workers__density(density, exchange):
    assert_same_for_any_workers(density(), exchange=exchange, ladder=ch.Ladder.adapted(4))


@pytest.mark.parametrize("problem", [paths, many_rows])
def test_pieces__do_not_matter(problem, monkeypatch):
    """A buffer of uniforms for one iteration and turns of one piece, against all at once."""
    model, y = problem()
    options = {"update": "row", "exchange": "mosaic", "ladder": [1, 2, 4, 8], "exchange_every": 3, "workers": 2}
    options |= {"draws": DRAWS // 2, "warmup": WARMUP // 3}
    whole = sample(model, y, **options)
    monkeypatch.setattr(engines, "BUFFER", 1)
    monkeypatch.setattr(running, "TURN", 0.0)
    assert_same(whole, sample(model, y, **options))


def test_chains__do_not_depend_on_how_many_there_are():
    """The ladder is fixed: an adapted one learns from all chains."""
    options = {"update": "row", "exchange": "augmented", "ladder": [1, 5]}
    one, three = (sample(*paths(), chains=n, **options) for n in (1, 3))
    np.testing.assert_array_equal(one.draws[0], three.draws[0])
    np.testing.assert_array_equal(one.replica_log_likelihood[0], three.replica_log_likelihood[0])


def test_chains__are_different():
    draws = sample(*paths(), update="row", exchange="swap", ladder=[1, 5], warmup=0).draws.values
    assert not np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[1], draws[2])


# ---- Engines --------------------------------------------------------------------------------------------------------


@pytest.mark.jit_off
@pytest.mark.parametrize("exchange", EXCHANGES.values(), ids=EXCHANGES)
@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
def test_engines__compiled_and_step_by_step_agree(update, exchange, monkeypatch):
    """The same uniforms in the same places. Sums of log-likelihoods may differ in their last bits."""
    options = {"update": update, "exchange": exchange, "ladder": ch.Ladder(betas=(0.0, 0.3, 0.6, 1.0)), "chains": 1}
    model, data = paths()
    compiled = sample(model, data, exchange_every=2, thin=3, **options)
    monkeypatch.setattr(engines.CompiledEngine, "serves", staticmethod(lambda problem: False))
    stepwise = sample(model, data, exchange_every=2, thin=3, **options)
    np.testing.assert_array_equal(compiled.draws, stepwise.draws)
    np.testing.assert_allclose(compiled.replica_log_likelihood, stepwise.replica_log_likelihood, rtol=1e-12)
    np.testing.assert_allclose(compiled.log_joint, stepwise.log_joint, rtol=1e-12)
    for name, values in compiled.exchange_stats.items():
        np.testing.assert_allclose(values, stepwise.exchange_stats[name], rtol=1e-9, atol=1e-12, err_msg=str(name))
    assert compiled.info["round_trips"] == stepwise.info["round_trips"]
    assert compiled.info["exchange_steps"] == stepwise.info["exchange_steps"]


# ---- Seeds ----------------------------------------------------------------------------------------------------------


def test_seed__another_one_gives_another_run():
    options = {"update": "row", "exchange": "swap", "ladder": [1, 5]}
    one, other = (sample(*paths(), seed=seed, **options) for seed in (1, 2))
    assert not np.array_equal(one.draws, other.draws)


@pytest.mark.parametrize("update", ["row", "exact"])
def test_seed__none_is_stored_and_reproduces(update):
    fresh = sample(*paths(), update=update, seed=None)
    again = sample(*paths(), update=update, seed=None)
    assert fresh.info["seed"] != again.info["seed"]
    assert_same(fresh, sample(*paths(), update=update, seed=fresh.info["seed"]))


def test_seed__numpy_integers_are_integers():
    options = {"update": "row", "exchange": None, "ladder": [1]}
    assert_same(sample(*paths(), seed=7, **options), sample(*paths(), seed=np.int64(7), **options))


@pytest.mark.parametrize("problem", [paths, many_rows, lambda: (modes(),), lambda: (normal(),)])
def test_global_random_state__is_untouched(problem):
    before = np.random.get_state()  # noqa: NPY002
    sample(*problem(), seed=None, exchange="augmented", ladder=[1, 5], draws=3, warmup=3)
    after = np.random.get_state()  # noqa: NPY002
    assert before[0] == after[0]
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2:] == after[2:]


def test_streams__differ_by_chain_place_and_purpose():
    streams = [Streams(3, chain) for chain in (0, 1)]
    firsts = [rng.random() for s in streams for i in (0, 1) for rng in (s.initial(i), s.replica(i), s.pair(i))]
    assert len(set(firsts)) == 12


def test_streams__go_on_from_a_stored_state():
    one, other = Streams(3, 1), Streams(3, 1)
    one.replica(0).random(5)
    one.pair(2).random(1)
    other.restore(json.loads(json.dumps(one.state())))
    assert one.replica(0).random() == other.replica(0).random()
    assert one.pair(2).random() == other.pair(2).random()
    assert one.initial(1).random() == other.initial(1).random()


def test_fresh_entropy__keeps_a_seed():
    assert fresh_entropy(5) == 5
    assert fresh_entropy(None) != fresh_entropy(None)

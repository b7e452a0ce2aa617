"""Diagnostics: Hamming distances, mode jumps, and round trips against what the schedule predicts."""

from __future__ import annotations

from dataclasses import replace

import numba
import numpy as np
import pytest

import chiasma as ch
from chiasma.errors import InvalidInput
from chiasma.kernels import ensemble
from chiasma.results.arrays import per_draw
from chiasma.results.diagnostics import hamming_distances, mode_jumps, predicted_round_trips, round_trip_rate

JIT = not numba.config.DISABLE_JIT
needs_jit = pytest.mark.skipif(not JIT, reason="a long run")


def paths(**options) -> ch.Posterior:
    model = ch.FactorialHMM(rows=ch.Switches(0.2, 0.3), emission=ch.Gaussian([1.0, 0.7, 0.4], sd=1.0), fixed={1: 1})
    options = {"update": "row", "exchange": None, "draws": 12, "warmup": 2, "chains": 2, "seed": 1} | options
    return ch.sample(model, model.simulate(10, seed=2)[1], progress=False, **options)


def with_draws(target: ch.BlockModes, draws: np.ndarray) -> ch.Posterior:
    """A posterior of the target with these draws (chain, draw, site)."""
    posterior = ch.sample(target, exchange=None, draws=2, warmup=0, chains=1, seed=1, progress=False)
    return replace(posterior, draws=per_draw("x", draws, "site"))


# ---- Hamming distances ----------------------------------------------------------------------------------------------


def test_hamming__of_paths_counts_bits():
    posterior = paths()
    distances = hamming_distances(posterior, lags=[1, 4])
    assert distances.dims == ("chain", "lag", "draw")
    assert distances.coords["lag"].values.tolist() == [1, 4]
    bits = np.stack([posterior.states(k).values for k in range(3)])
    for c in range(2):
        for i, lag in enumerate((1, 4)):
            for n in range(12):
                found = distances.values[c, i, n]
                if n + lag < 12:
                    assert found == pytest.approx((bits[:, c, n] != bits[:, c, n + lag]).mean())
                else:
                    assert np.isnan(found)
    assert 0 < float(distances.mean()) < 1


def test_hamming__of_vectors_counts_coordinates():
    draws = np.array([[[0, 0, 1, 1], [1, 0, 1, 1], [1, 1, 0, 0]]], np.int8)
    posterior = with_draws(ch.BlockModes(blocks=2, size=4, alpha=0.5), draws)
    found = hamming_distances(posterior, lags=1).values
    np.testing.assert_array_equal(found, [[[0.25, 0.75, np.nan]]])


@pytest.mark.parametrize("lags", [0, [1, 12], -1, 1.5])
def test_hamming__refuses_lags_without_partners(lags):
    with pytest.raises(InvalidInput, match=r"lags must be whole numbers in 1..11 \(draws\), got"):
        hamming_distances(paths(), lags)


# ---- Modes ----------------------------------------------------------------------------------------------------------


def path_of_modes(*blocks: str) -> np.ndarray:
    """(draw, site) from one string per block: 1 and 0 are modes of four sites, 'a' is near 1, 't' is a tie."""
    pattern = {"1": [1, 1, 1, 1], "0": [0, 0, 0, 0], "a": [1, 0, 1, 1], "t": [1, 0, 0, 1]}
    return np.array([[x for letter in letters for x in pattern[letter]] for letters in zip(*blocks, strict=True)])


@pytest.mark.parametrize(
    ("blocks", "jumps", "visited"),
    [
        (("1111", "0000"), [0, 0, 0, 0], 1),
        (("1a10", "0000"), [0, 0, 0, 1], 2),
        (("1010", "0101"), [0, 1, 2, 3], 2),  # both blocks at once are one jump
        (("1100", "0111"), [0, 1, 2, 2], 3),
        (("1t10", "0000"), [0, 0, 0, 1], 2),  # there and back through a tie
        (("1t00", "0000"), [0, 0, 1, 1], 2),  # across a tie: counted once, where it is over
        (("1tt0", "0t10"), [0, 0, 1, 2], 3),  # a tie in one block does not hide the other
        (("t100", "0000"), [0, 0, 1, 1], 2),  # a tie at the start is not a mode
        (("tt00", "1111"), [0, 0, 0, 0], 1),
        (("tttt", "0110"), [0, 1, 1, 2], 2),
    ],
)
def test_mode_jumps__of_a_path_made_by_hand(blocks, jumps, visited):
    target = ch.BlockModes(blocks=2, size=8, alpha=0.5)
    still = path_of_modes("1111", "1111")
    counts = mode_jumps(with_draws(target, np.stack([path_of_modes(*blocks), still])), target)
    assert counts.jumps.tolist() == [jumps, [0, 0, 0, 0]]
    assert counts.visited.tolist() == [visited, 1]


def test_mode_jumps__of_a_run():
    target = ch.BlockModes(blocks=2, size=10, alpha=0.6)
    posterior = ch.sample(
        target, exchange="augmented", ladder=[1, 3], draws=60, warmup=5, chains=2, seed=1, progress=False
    )
    counts = mode_jumps(posterior, target)
    assert counts.jumps.shape == (2, 60)
    assert (np.diff(counts.jumps, axis=1) >= 0).all()
    assert (counts.visited == 4).all()


# ---- Round trips ----------------------------------------------------------------------------------------------------


def test_predicted_round_trips__known_values():
    assert predicted_round_trips([0.0, 0.0, 0.0]) == 0.5
    assert predicted_round_trips([0.5, 0.5]) == pytest.approx(1 / 6)
    assert predicted_round_trips([0.3, 1.0]) == 0.0
    assert predicted_round_trips([0.25]) == 0.75


@pytest.mark.parametrize("rejection", [[0.3], [0.0, 0.0], [0.2, 0.7], [0.4, 0.5, 0.3, 0.6, 0.1]])
def test_round_trips__of_independent_swaps_are_as_predicted(rejection):
    """The bookkeeping of the package, with coins in place of paths. 40,000 steps make thousands of trips, whose number
    has a relative error of about 1%: 5% is five errors."""
    rng = np.random.default_rng(1)
    n_steps = 40_000
    n_replicas = len(rejection) + 1
    tally = ensemble.make_tally(n_replicas)
    for step in range(n_steps):
        for p in range(ensemble.first_pair(step, n_replicas), len(rejection), 2):
            ensemble.tally_move(tally, p, 0, rng.random() >= rejection[p])
        ensemble.tally_step(tally)
    assert sorted(tally.labels) == list(range(n_replicas))
    assert tally.round_trips[0] / n_steps == pytest.approx(predicted_round_trips(rejection), rel=0.05)


@pytest.mark.slow
@needs_jit
@pytest.mark.parametrize("betas", [(0.0, 1.0), (0.0, 0.15, 0.45, 1.0)])
def test_round_trips__of_a_run_are_as_predicted(betas):
    """Exact draws at every rung: swaps depend on each other only through the paths, which are fresh each time.

    Some 3,000 trips or more: the relative error is about 2%, and 10% is five of it.
    """
    posterior = paths(update="exact", exchange="swap", ladder=ch.Ladder(betas=betas), draws=4000, chains=3)
    rates = round_trip_rate(posterior)
    assert rates.shape == (3,)
    rejection = posterior.exchange_stats["rejection"].values
    assert 0.1 < rejection.max() < 0.9
    assert rates.mean() == pytest.approx(predicted_round_trips(rejection), rel=0.1)


@needs_jit
def test_round_trips__of_row_updates_are_near_the_prediction():
    """A real sweep in between: trips are somewhat rarer than for fresh paths, never half as many on an easy problem."""
    ladder = ch.Ladder(betas=(0.0, 0.15, 0.45, 1.0))
    posterior = paths(exchange="swap", ladder=ladder, draws=20_000, warmup=100)
    predicted = predicted_round_trips(posterior.exchange_stats["rejection"].values)
    assert 0.5 * predicted < round_trip_rate(posterior).mean() < 1.1 * predicted


def test_round_trips__only_of_whole_swaps():
    for exchange in (ch.MosaicCrossover(), ch.Swap(rows="random"), ch.Swap(rows=[0]), ch.RandomCrossover()):
        posterior = paths(exchange=exchange, ladder=[1, 2])
        assert posterior.info["round_trips"] == [0, 0]
        assert round_trip_rate(posterior).tolist() == [0.0, 0.0]


def test_round_trip_rate__without_exchanges():
    assert round_trip_rate(paths()).tolist() == [0.0, 0.0]

"""Ladder and schedule: validation, adaptation, even-odd turns, and the rung at beta = 0.

Random quantities are z-scores with a bound of 5, which a correct program exceeds with probability 6e-7 each.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from itertools import pairwise

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chiasma as ch
from chiasma.errors import InvalidInput
from chiasma.kernels import ensemble
from chiasma.results.ladder_stats import barrier, batch_error, pair_lengths, suggested_size
from chiasma.sampling import running
from chiasma.sampling.engines import CompiledEngine, Engine, StepEngine
from chiasma.sampling.ladder import (
    LARGEST,
    SMALLEST,
    Ladder,
    adapted_betas,
    as_ladder,
    resized,
)
from chiasma.sampling.problems import PathProblem, Start
from chiasma.sampling.streams import Streams

JIT = not numba.config.DISABLE_JIT
MAX_Z = 5.0
INF, NAN = math.inf, math.nan


def problem(n_columns: int = 12, sd: float = 0.6, enter: float = 0.15) -> tuple[ch.FactorialHMM, np.ndarray]:
    model = ch.FactorialHMM(rows=ch.Switches(enter, 0.25), emission=ch.Gaussian([1.0, 0.7], sd=sd))
    return model, model.simulate(n_columns, seed=4)[1]


def make_engine(kind: type[Engine], betas, every: int, seed: int = 1, update=None, exchange=None) -> Engine:
    model, y = problem()
    paths = PathProblem(model.target(y), update or ch.RowGibbs(), exchange or ch.Swap())
    return kind(paths, betas, every, Streams(seed, 0), Start())


# ---- Validation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("betas", "message"),
    [
        ((), "at least one rung, got none"),
        (((0.5, 1.0),), "at least one rung"),
        ((1.0, 0.2), "must increase from 0 or more to exactly 1, got .1.0, 0.2."),
        ((0.2, 0.2, 1.0), "must increase"),
        ((0.2, 0.5), "exactly 1"),
        ((0.5, 1.0, 2.0), "exactly 1"),
        ((-0.1, 1.0), "from 0 or more"),
        ((NAN, 1.0), "must increase"),
        ((0.0, NAN, 1.0), "must increase"),
        (("hot", 1.0), "betas must be numbers"),
    ],
)
def test_betas__refused(betas, message):
    with pytest.raises(InvalidInput, match=message):
        Ladder(betas=betas)


@pytest.mark.parametrize(
    ("temperatures", "message"),
    [
        ([], "at least one temperature, got none"),
        ([5, 1], "must increase from exactly 1"),
        ([1, 5, 3], "sort them"),
        ([1, 1, 5], "must increase"),
        ([0.5, 1, 5], "from exactly 1 .the target., got .0.5, 1.0, 5.0."),
        ([2, 5], "add 1"),
        ([1, NAN, 5], "must increase"),
        ([1, NAN], "must increase"),
        ("warm", "must be numbers"),
    ],
)
def test_temperatures__refused(temperatures, message):
    with pytest.raises(InvalidInput, match=message):
        Ladder.of(temperatures)


def test_temperatures__become_betas():
    assert Ladder.of([1, 2, 5]).betas == (0.2, 0.5, 1.0)
    assert Ladder.of([1, 4, INF]).betas == (0.0, 0.25, 1.0)
    assert Ladder.of([1]).betas == (1.0,)
    assert as_ladder([1, 5]) == Ladder.of([1, 5])
    fixed = Ladder(betas=(0.0, 1.0))
    assert as_ladder(fixed) is fixed
    assert len(fixed) == 2


def test_geometric__has_equal_ratios():
    betas = np.array(Ladder.geometric(7, hottest=50).betas)
    np.testing.assert_allclose(betas[1:] / betas[:-1], 50 ** (1 / 6))
    assert betas[0] == pytest.approx(1 / 50)
    assert betas[-1] == 1
    assert Ladder.geometric(7, hottest=50, prior=True).betas == (0.0, *betas)


@pytest.mark.parametrize(("size", "hottest"), [(1, 5.0), (3, 1.0), (3, NAN)])
def test_geometric__refused(size, hottest):
    with pytest.raises(InvalidInput, match="size >= 2, at most 10000, and hottest > 1"):
        Ladder.geometric(size, hottest)


def test_adapted__starts_at_the_prior():
    for size in (3, 6, None):
        ladder = Ladder.adapted(size)
        assert ladder.betas[0] == 0
        assert ladder.betas[-1] == 1
        assert ladder.adapt
        assert ladder.resize == (size is None)
        assert size in (None, len(ladder))
    for size in (0, 2):
        with pytest.raises(InvalidInput, match=f"size >= 3.*got {size}"):
            Ladder.adapted(size)


# ---- Barrier and adaptation -----------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.floats(1e-3, 1.0), st.floats(0.0, 6.0)), min_size=1, max_size=15),
    st.integers(2, 24),
)
def test_adapted_betas__is_a_ladder_with_the_same_ends(pieces, size):
    steps, lengths = np.array(pieces).T
    betas = np.concatenate([[0.0], np.cumsum(steps) / steps.sum()])
    betas[-1] = 1.0
    placed = adapted_betas(betas, lengths, size)
    assert len(placed) == size
    assert placed[0] == 0.0
    assert Ladder(betas=placed).betas == placed  # ascending, up to exactly 1


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("size", [3, 9, 16])
def test_adapted_betas__divides_an_analytic_barrier_evenly(power, size):
    """Lambda(beta) = 3 beta^p: rung i belongs at (i / N)^(1/p). The known rungs are dense near 0, as a ladder's are."""
    betas = np.concatenate([[0.0], np.geomspace(1e-4, 1.0, 400)])
    placed = adapted_betas(betas, np.diff(3 * betas**power), size)
    np.testing.assert_allclose(placed, np.linspace(0, 1, size) ** (1 / power), atol=1e-4)


def test_adapted_betas__a_replica_that_has_run_away():
    """Its distance is beyond what doubles add up; the rungs still ascend, and their number stays bounded."""
    lengths = [1e150, 0.3, 0.2]
    betas = adapted_betas([0.01, 0.1, 0.5, 1.0], lengths, 6)
    assert np.all(np.diff(betas) > 0)
    assert (betas[0], betas[-1]) == (0.01, 1.0)
    assert resized(lengths) == LARGEST


def test_adapted_betas__even_rungs_stay():
    betas = (0.0, 0.1, 0.4, 1.0)
    np.testing.assert_allclose(adapted_betas(betas, [0.3, 0.3, 0.3], 4), betas)


def test_barrier_and_sizes():
    assert barrier([0.5, 0.25]).tolist() == [0.0, 0.5, 0.75]
    assert suggested_size([0.0]) == 2
    assert suggested_size([0.6, 0.7]) == 4
    assert resized([0.0]) == SMALLEST
    assert resized([0.6, 0.7, 0.7]) == 5
    assert resized([5.0] * 20) == LARGEST


def test_pair_lengths__tell_distances_apart_where_rejection_saturates():
    betas = [0.0, 0.5, 1.0]
    # Rejection below one half stands as it is, whatever the divergence.
    assert pair_lengths(betas, [0.3, 0.5], [-900.0, -100.0, -10.0]).tolist() == [0.3, 0.5]
    lengths = pair_lengths(betas, [1.0, 1.0], [-900.0, -100.0, -10.0])
    np.testing.assert_allclose(lengths, np.sqrt(np.array([400.0, 45.0]) / np.pi))
    # Never shorter than the rejection, and nothing is made of means that decrease or are infinite.
    assert pair_lengths(betas, [0.9, 0.8], [-1.0, -0.9, -5.0]).tolist() == [0.9, 0.8]
    assert pair_lengths(betas, [0.9, 1.0], [-INF, -INF, -5.0]).tolist() == [0.9, 1.0]


def test_warmup_rounds__double_and_add_up():
    for n in range(1500):
        rounds = running.warmup_rounds(n)
        assert sum(rounds) == n
        assert 2 * rounds[-1] >= n
        assert all(later == 2 * earlier for earlier, later in pairwise(rounds[:-1]))


class Watched:
    """What the ladder of every chain was when draws began and when they ended, and how often it was set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.before: list[np.ndarray] = []
        self.after: list[np.ndarray] = []
        self.sizes: list[int] = []
        keep, set_betas = running.Run.keep, Engine.set_betas

        def watched_keep(run, *args):
            self.before = [engine.betas.copy() for engine in run.engines]
            n_set = len(self.sizes)
            out = keep(run, *args)
            self.after = [engine.betas.copy() for engine in run.engines]
            assert len(self.sizes) == n_set
            return out

        def watched_set_betas(engine, betas):
            self.sizes.append(len(betas))
            set_betas(engine, betas)

        monkeypatch.setattr(running.Run, "keep", watched_keep)
        monkeypatch.setattr(Engine, "set_betas", watched_set_betas)


def sample(**options):
    options = {"update": "row", "exchange": "mosaic", "seed": 3, "chains": 2, "progress": False} | options
    return ch.sample(*problem(), **options)


def test_adaptation__moves_the_rungs_and_freezes_them(monkeypatch):
    watched = Watched(monkeypatch)
    posterior = sample(ladder=Ladder.adapted(5), warmup=400 if JIT else 40, draws=5)
    assert set(watched.sizes) == {5}
    assert len(watched.sizes) > 4
    for betas in (*watched.before, *watched.after):
        np.testing.assert_array_equal(betas, posterior.betas)
    assert posterior.betas[0] == 0
    assert posterior.betas[-1] == 1
    assert not np.allclose(posterior.betas, Ladder.adapted(5).betas)


def test_adaptation__resizes_in_the_first_half_of_its_rounds(monkeypatch):
    """An easy problem needs fewer rungs than the ten it starts with."""
    watched = Watched(monkeypatch)
    warmup = 400 if JIT else 60
    posterior = sample(ladder=Ladder.adapted(), warmup=warmup, draws=5)
    n_chains, n_rungs = 2, len(posterior.betas)
    assert SMALLEST <= n_rungs < 10
    assert posterior.replica_log_likelihood.sizes["replica"] == n_rungs
    assert all(np.array_equal(betas, posterior.betas) for betas in (*watched.before, *watched.after))
    placements = watched.sizes[n_chains:]  # after the first ladder of each chain
    n_adaptations = len(running.warmup_rounds(warmup)) - 1
    assert len(placements) == n_chains * n_adaptations
    settled = placements[n_chains * ((n_adaptations + 1) // 2) :]
    assert set(settled) == {n_rungs}


def test_adaptation__makes_rejections_equal():
    """Rejections are known to about 1%; rungs placed from 2,000 iterations agree within 0.1 of one another."""
    posterior = sample(ladder=Ladder.adapted(5), exchange="swap", warmup=4000, draws=4000)
    rejection = posterior.exchange_stats["rejection"].values
    assert np.ptp(rejection) < 0.1
    fixed = sample(ladder=Ladder(betas=Ladder.adapted(5).betas), exchange="swap", warmup=4000, draws=4000)
    assert np.ptp(fixed.exchange_stats["rejection"].values) > 0.3


@pytest.mark.parametrize("options", [{"exchange": None}, {"exchange_every": 1000}])
def test_adaptation__without_exchanges_the_ladder_stays(options):
    """Nothing was learnt, so nothing moves; it used to grow to its largest size."""
    posterior = sample(ladder=Ladder.adapted(), warmup=40, draws=3, **options)
    np.testing.assert_array_equal(posterior.betas, Ladder.adapted().betas)
    assert "ladder-gap" not in {one.code for one in posterior.findings}


def test_findings__a_ladder_that_is_too_short():
    model, y = problem(n_columns=80, sd=0.1, enter=0.05)
    options = {"update": "row", "ladder": [1, 1000], "warmup": 10, "draws": 40, "chains": 1, "seed": 1}

    def gaps(exchange):
        posterior = ch.sample(model, y, exchange=exchange, progress=False, **options)
        return [one.facts["rung"] for one in posterior.findings if one.code == "ladder-gap"]

    assert gaps("swap") == [0]
    assert gaps("mosaic") == []
    # A pair whose turn has not come is not idle.
    options |= {"ladder": [1, 1.5, 2], "warmup": 0, "draws": 1}
    assert gaps("mosaic") == []


# ---- Schedule -------------------------------------------------------------------------------------------------------


def turns(engine: Engine, n_steps: int) -> np.ndarray:
    """(n_steps, R - 1): which pairs tried a move, exchange step by exchange step."""
    out = []
    before = engine.tally.moves.copy()
    for _ in range(n_steps):
        engine.advance(engine.every, thin=0)
        out.append(engine.tally.moves - before)
        before = engine.tally.moves.copy()
    return np.array(out)


def check_even_odd(moves: np.ndarray) -> None:
    """Pairs of one parity at each step, in turn; a lone pair at every step."""
    n_steps, n_pairs = moves.shape
    wanted = np.zeros_like(moves)
    for n in range(n_steps):
        wanted[n, n % 2 if n_pairs > 1 else 0 :: 2] = 1
    np.testing.assert_array_equal(moves, wanted)


@pytest.mark.parametrize("kind", [CompiledEngine, StepEngine])
@pytest.mark.parametrize("every", [1, 2, 5, 10])
@pytest.mark.parametrize("n_replicas", [2, 3, 4, 5])
def test_schedule__is_even_odd_in_exchange_steps(n_replicas, every, kind):
    engine = make_engine(kind, np.linspace(0.2, 1.0, n_replicas), every)
    check_even_odd(turns(engine, n_steps=6))


@pytest.mark.parametrize("kind", [CompiledEngine, StepEngine])
def test_schedule__goes_on_across_calls(kind):
    """Iterations in pieces that do not fit the exchanges: both parities take every second turn."""
    engine = make_engine(kind, (0.2, 0.6, 1.0), every=10)
    for n in (7, 9, 4, 25, 1, 14):
        engine.advance(n, thin=0)
    assert engine.tally.steps[0] == 6
    assert engine.tally.moves.tolist() == [3, 3]


@pytest.mark.parametrize("n_replicas", [2, 3, 4])
def test_schedule__turns_of_a_pair_are_those_that_the_steps_take(n_replicas):
    for step, n_steps, pair in itertools.product(range(3), range(6), range(n_replicas - 1)):
        taken = [ensemble.first_pair(s, n_replicas) == pair % 2 for s in range(step, step + n_steps)]
        assert ensemble.count_turns(pair, step, n_steps, n_replicas) == sum(taken)


def test_schedule__mutant_with_the_parity_of_the_iteration_is_rejected(monkeypatch):
    every = 10
    mutant: Callable[[int, int], int] = lambda step, n: ((step + 1) * every - 1) % 2 if n > 2 else 0  # noqa: E731
    monkeypatch.setattr(ensemble, "first_pair", mutant)
    moves = turns(make_engine(StepEngine, (0.2, 0.5, 0.8, 1.0), every), n_steps=6)
    assert moves.sum(axis=0).tolist() == [0, 6, 0]
    with pytest.raises(AssertionError):
        check_even_odd(moves)


def test_schedule__mutant_with_idle_turns_of_two_replicas_is_rejected(monkeypatch):
    monkeypatch.setattr(ensemble, "first_pair", lambda step, n: step % 2)
    with pytest.raises(AssertionError):
        check_even_odd(turns(make_engine(StepEngine, (0.2, 1.0), every=1), n_steps=6))


# ---- beta = 0 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "update"),
    [
        (CompiledEngine, ch.RowGibbs()),
        (CompiledEngine, ch.HammingBall()),
        (StepEngine, ch.RowGibbs()),
        (StepEngine, ch.Exact()),
    ],
)
def test_prior_rung__draws_independently_from_the_prior(kind, update):
    """Every row has the stationary distribution 0.15 / 0.4 at every column, and the next draw owes nothing to the last.

    2 rows x 12 columns, mean and lag-1 product: 48 z-scores below 5.
    """
    n = 2000 if JIT else 300
    engine = make_engine(kind, (0.0, 0.5, 1.0), every=0, update=update)
    states = np.empty((n, 2, 12))
    for i in range(n):
        engine.advance(1, thin=0)
        states[i] = engine.states[0] >> np.arange(2)[:, None] & 1
    share = 0.15 / 0.4
    sd = math.sqrt(share * (1 - share))
    centred = (states - share) / sd
    assert np.abs(centred.mean(axis=0) * math.sqrt(n)).max() < MAX_Z
    products = centred[1:] * centred[:-1]
    assert np.abs(products.mean(axis=0) * math.sqrt(n - 1)).max() < MAX_Z


@pytest.mark.parametrize("exchange", ["swap", "mosaic"])
def test_prior_rung__stays_independent_with_exchanges(exchange):
    """Log-likelihoods of the rung, drawn afresh after every exchange: mean as under the prior, no autocorrelation."""
    model, y = problem()
    posterior = sample(exchange=exchange, ladder=Ladder(betas=(0.0, 0.3, 1.0)), draws=4000 if JIT else 200, warmup=2)
    log_lik = posterior.replica_log_likelihood.values[..., 0]
    h = 1e-3
    f = [ch.exact.log_evidence(model, y, beta=beta) for beta in (0, h, 2 * h)]
    expected = (-3 * f[0] + 4 * f[1] - f[2]) / (2 * h)
    assert abs(log_lik.mean() - expected) < MAX_Z * batch_error(log_lik)
    centred = (log_lik - log_lik.mean()) / log_lik.std()
    lagged = (centred[:, 1:] * centred[:, :-1]).mean() * math.sqrt(log_lik.size)
    assert abs(lagged) < MAX_Z

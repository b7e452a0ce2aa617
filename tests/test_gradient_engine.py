"""Parameters by jumps and trajectories: proposals, proofs of invariance, mutants, bimodal posteriors, runs on disk.

That the moves keep the joint law of parameters, paths and data is in test_joint.py, too; here are their mutants.
"""

from __future__ import annotations

from types import SimpleNamespace

import numba
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_t

import chiasma as ch
from chiasma.models.observations import Observations
from chiasma.results.ladder_stats import batch_error
from chiasma.results.optima import connection_findings
from chiasma.results.parameters import named_parameters
from chiasma.sampling import laplace
from chiasma.sampling.gradient_engine import GradientEngine
from chiasma.sampling.laplace import FREEDOM, Proposals, orders, peak_at
from chiasma.sampling.learning import Learning
from chiasma.sampling.problems import LearningProblem, Start
from chiasma.sampling.progress import Progress
from chiasma.sampling.streams import Streams
from joint import joint_scores, model_of

needs_jit = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="long runs of compiled kernels")
IDENTITY = np.eye(2)[None]


# ---- Proposals ------------------------------------------------------------------------------------------------------


def some_proposals(maps=IDENTITY) -> Proposals:
    tops = np.array([[0.0, 1.0], [3.0, -1.0]])
    covariances = np.array([[[1.0, 0.3], [0.3, 0.5]], [[0.4, -0.1], [-0.1, 0.8]]])
    return Proposals(tops, covariances, np.array([0.7, 0.3]), maps)


def test_proposals__have_the_density_of_their_draws():
    """Against SciPy's density; draws by their means, at 5 standard errors (false alarms 6e-7 each)."""
    proposals = some_proposals()
    x = np.array([0.5, 0.2])
    parts = [
        np.log(share) + multivariate_t(top, covariance, FREEDOM).logpdf(x)
        for top, covariance, share in zip(proposals.tops, proposals.covariances, proposals.shares, strict=True)
    ]
    assert proposals.log_density(x[None]) == pytest.approx(logsumexp(parts))
    rng = np.random.default_rng(1)
    draws = proposals.draw(rng, 20_000)
    mean = proposals.shares @ proposals.tops
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * draws.std(axis=0) / np.sqrt(len(draws)))
    other = np.array([1.0, 0.0])
    inside = np.linalg.norm(draws - other, axis=1) < 0.5
    grid = np.stack(np.meshgrid(*[np.arange(-0.5, 0.5, 0.02) + 0.01] * 2), axis=-1).reshape(-1, 2)
    grid = grid[np.linalg.norm(grid, axis=1) < 0.5] + other
    mass = 0.02**2 * np.exp(proposals.log_density(grid)).sum()
    assert abs(inside.mean() - mass) < 5 * np.sqrt(mass / len(draws)) + 0.01 * mass


def test_proposals__do_not_prefer_an_order_of_equal_rows():
    """Two rows that may change places: a mixture of both orders, in its draws and in its density."""
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    both = some_proposals(np.array([np.eye(2), swap]))
    plain = some_proposals()
    x = np.array([[0.4, -0.3], [1.0, 2.0], [0.1, -4.0]])
    expected = np.logaddexp(plain.log_density(x), plain.log_density(x @ swap)) - np.log(2)
    assert both.log_density(x) == pytest.approx(expected)
    assert both.log_density(x @ swap) == pytest.approx(both.log_density(x))
    rng = np.random.default_rng(2)
    draws = both.draw(rng, 4000)
    difference = draws[:, 0] - draws[:, 1]
    assert abs(difference.mean()) < 5 * difference.std() / np.sqrt(len(draws))
    peaks, moved = both.nearest(np.array([[-1.0, 3.0], [0.0, 1.0]]))
    assert peaks.tolist() == [1, 0]
    np.testing.assert_array_equal(moved, [[3.0, -1.0], [0.0, 1.0]])


def test_proposals__claim_a_point_in_proportion_to_their_densities():
    """How often each peak and order does, at 5 standard errors (false alarms 6e-7 each); with the logs of these."""
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    both = some_proposals(np.array([np.eye(2), swap]))
    x = np.array([2.2, 1.9])
    parts = zip(both.tops, both.covariances, both.shares, strict=True)
    densities = [
        [share * multivariate_t(top, covariance, FREEDOM).pdf(at) for at in (x, swap @ x)]
        for top, covariance, share in parts
    ]
    expected = np.array(densities) / np.sum(densities)
    assert expected.min() > 0.01
    rng, n = np.random.default_rng(3), 1500
    counts = np.zeros((2, 2))
    for _ in range(n):
        peak, moved, log_share = both.claim(x, rng)
        order = int(not np.array_equal(moved, x))
        counts[peak, order] += 1
        np.testing.assert_array_equal(moved, swap @ x if order else x)
        assert log_share == pytest.approx(np.log(expected[peak, order]))
        assert both.log_share(moved, peak) == pytest.approx(log_share)
    assert np.all(np.abs(counts / n - expected) < 5 * np.sqrt(expected / n))


@pytest.mark.parametrize(
    "weights", [ch.Dirichlet([2, 2, 2, 1]), ch.Gamma([2, 2, 2, 3], 2), ch.Normal([1, 1, 1, 1], [1, 1, 1, 2])]
)
def test_orders__of_three_equal_rows(weights):
    model = ch.FactorialHMM(
        rows=ch.Switches(ch.Beta([1, 1, 1, 1], 9), 0.1), emission=ch.Gaussian(weights, sd=ch.HalfNormal(1))
    )
    learning = Learning(model, Observations([1.0, 2.0]))
    maps = orders(learning)
    assert len(maps) == 6
    values = learning.sample_prior(np.random.default_rng(3))
    x = learning.parameters.to_free(values)
    seen = {tuple(np.round(learning.parameters.from_free(one @ x), 9)) for one in maps}
    named = [learning.parameters.unpack(np.array(one)) for one in seen]
    assert len(seen) == 6
    for one in named:
        assert sorted(one["weights"][:3]) == pytest.approx(sorted(values[4:7]))
        assert one["weights"][3] == pytest.approx(values[7])
        place = [int(np.argmin(np.abs(values[4:7] - w))) for w in one["weights"][:3]]
        np.testing.assert_allclose(one["enter"][:3], values[place], rtol=1e-6)  # rates go with their rows
    here = learning.log_density(x, 1.0)
    for one in maps:
        assert learning.log_density(one @ x, 1.0) == pytest.approx(here, rel=1e-10)
        assert abs(np.linalg.det(one)) == pytest.approx(1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(laplace, "MOST_ORDERS", 5)
        assert len(orders(learning)) == 1


# ---- Moves ----------------------------------------------------------------------------------------------------------


def quiet() -> Progress:
    return Progress(False, "", 0)


def engine_of(model, data, update=None, betas=(1.0,), seed=1) -> GradientEngine:
    problem = LearningProblem(Learning(model, Observations.of(data)), update or ch.Collapsed(starts=4), None)
    return GradientEngine(problem, betas, 0, Streams(seed, 0), Start())


def test_trajectory__is_reversible_and_keeps_volumes():
    """Leapfrog steps as the engine makes them: there and back again, and a Jacobian of determinant 1."""
    model = model_of("gaussian")
    learning = Learning(model, Observations(model.simulate(12, seed=1)[1]))
    root = np.linalg.cholesky(np.cov(np.random.default_rng(4).normal(size=(6, 40))) + 0.2 * np.eye(6))
    x = learning.parameters.to_free(learning.sample_prior(np.random.default_rng(5)))

    def fly(state: np.ndarray) -> np.ndarray:
        at, momentum = state[:6], state[6:]
        _, at, momentum = GradientEngine.leapfrog(learning, 1.0, root, 0.1, 5, at, momentum)
        return np.concatenate([at, momentum])

    start = np.concatenate([x, np.random.default_rng(6).normal(size=6)])
    end = fly(start)
    turn = np.concatenate([np.ones(6), -np.ones(6)])
    np.testing.assert_allclose(turn * fly(turn * end), start, rtol=1e-9, atol=1e-9)
    step = 1e-5
    columns = [(fly(start + step * unit) - fly(start - step * unit)) / (2 * step) for unit in np.eye(12)]
    assert np.linalg.det(np.array(columns)) == pytest.approx(1.0, abs=1e-5)


@needs_jit
@pytest.mark.slow
def test_joint__of_jumps_and_trajectories():
    """Geweke's test: a score of a correct sampler exceeds 4.5 with probability 7e-6; there are some 15."""
    assert np.abs(joint_scores("gaussian", "gradient", 1.0, 200)).max() < 4.5


# Jumps per iteration, iterations per trajectory.
MOVES = {"jumps": (1, 10**9), "trajectories": (0, 1), "trajectories of two parts": (0, 1)}
N = 1500


def score(move: str, beta: float = 1.0, n: int = N) -> float:
    """How far the mean of log sd is from that of a fine grid of the exact density, in standard errors.

    One parameter and five columns: the posterior is wide and skewed, unlike its approximation.
    """
    model = ch.FactorialHMM(rows=ch.Switches(0.3, 0.3), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(2)))
    engine = engine_of(model, [0.1, 1.4, 0.8, -0.3, 1.1], betas=(1.0,))
    engine.betas = np.array([beta])
    engine.begin(quiet(), 1)
    engine.n_jumps[0], engine.every_hmc[0] = MOVES[move]
    engine.turn[0] = 1 if move == "jumps" else 0
    if move == "trajectories of two parts":
        covariances = np.array([0.03, 0.5])[:, None, None]
        engine.proposals = [Proposals(np.array([[0.0], [-0.6]]), covariances, np.full(2, 0.5), np.eye(1)[None])]
    draws = np.empty((1, n))
    for i in range(n):
        engine._iterate(0, warming_up=False)
        draws[0, i] = np.log(engine.values[0, 0])
    grid = np.linspace(-5, 3, 600)
    density = np.array([engine.learning.log_density(np.array([x]), beta) for x in grid])
    weights = np.exp(density - density.max())
    return float((draws.mean() - weights @ grid / weights.sum()) / batch_error(draws))


@needs_jit
@pytest.mark.parametrize("beta", [0.4, 1.0])
@pytest.mark.parametrize("move", MOVES)
def test_move__keeps_the_posterior(move, beta):
    """A correct move has a score beyond 4.5 with a probability of 7e-6."""
    assert abs(score(move, beta)) < 4.5


def without_proposal_density(patch):
    patch.setattr(Proposals, "log_density", lambda self, x: np.zeros(len(x)))


def without_jacobian(patch):
    """The prior of the values in place of that of the free coordinates, for the moves only."""
    patch.setattr(GradientEngine, "_log_prior", lambda self, values: self.learning.log_prior(values))


def with_a_metric_of_the_state(patch):
    """Coordinates that are stretched by where the chain is, without the terms that would make up for it."""
    plain = GradientEngine._trajectory

    def stretched(self, r, rng):
        kept = self.proposals[r].roots
        self.proposals[r].roots = kept * (1.5 if self._here(r)[0].sum() > -0.5 else 0.3)
        plain(self, r, rng)
        self.proposals[r].roots = kept

    patch.setattr(GradientEngine, "_trajectory", stretched)


def without_shares(patch):
    """The metric of the part that claims the state, as if it claimed all states alike."""
    plain = Proposals.claim
    patch.setattr(Proposals, "claim", lambda self, x, rng: (*plain(self, x, rng)[:2], 0.0))
    patch.setattr(Proposals, "log_share", lambda self, x, peak: 0.0)


@needs_jit
@pytest.mark.parametrize(
    ("mutant", "move"),
    [
        (without_shares, "trajectories of two parts"),
        (without_proposal_density, "jumps"),
        (without_jacobian, "jumps"),
        (with_a_metric_of_the_state, "trajectories"),
    ],
)
def test_mutant__does_not(mutant, move, monkeypatch):
    mutant(monkeypatch)
    assert abs(score(move)) > 6


# ---- Two modes ------------------------------------------------------------------------------------------------------


def rivals() -> tuple[ch.FactorialHMM, np.ndarray]:
    """A signal of two levels: two rows that switch together, or one of them at a greater depth."""
    model = ch.FactorialHMM(
        rows=ch.Switches(0.2, 0.2),
        emission=ch.Gaussian(ch.Dirichlet([3.0, 3.0]), depth=ch.Gamma(6, 0.6), sd=1.0),
    )
    on = np.repeat([0, 1, 0, 1, 0], [6, 8, 6, 4, 6])
    return model, 6.0 * on + np.random.default_rng(5).normal(0, 1.0, len(on))


def grid_of(model, y, n: int = 80) -> tuple[float, float]:
    """P(depth < 8 | y) and log p(y), on a grid of the smaller weight and the depth."""
    weights, depths = (np.arange(n) + 0.5) / (2 * n), (np.arange(n) + 0.5) * 40 / n
    prior = model.emission.priors
    log = np.empty((n, n))
    for i, w in enumerate(weights):
        pair = np.array([w, 1 - w])
        placed = model.at({"weights": pair})
        for j, depth in enumerate(depths):
            density = prior["weights"].log_density(pair) + prior["depth"].log_density(np.array(depth))
            log[i, j] = density + ch.exact.log_evidence(placed.with_unchecked_values({"depth": np.array(depth)}), y)
    whole = logsumexp(log)
    # The smaller weight comes first on the grid: each point stands for both orders.
    return float(np.exp(logsumexp(log[:, depths < 8]) - whole)), float(whole + np.log(2 * 0.5 / n * 40 / n))


@pytest.mark.slow
@needs_jit
def test_modes__have_the_masses_of_a_fine_grid():
    """Within 3 standard errors, by one rung and by a ladder; so is the evidence, which the proposals give."""
    model, y = rivals()
    exact, log_evidence = grid_of(model, y)
    assert 0.1 < exact < 0.9
    found = ch.optimise(model, y, starts=8, seed=1, progress=False)
    assert len(found) >= 2
    assert found.best.share == pytest.approx(max(exact, 1 - exact), abs=0.15)
    for options in ({"draws": 400}, {"draws": 250, "ladder": [1, 4]}):
        posterior = ch.sample(
            model, y, update=ch.Collapsed(starts=8), warmup=64, chains=2, seed=2, progress=False, **options
        )
        inside = (posterior.parameters["depth"].values < 8).astype(float)
        assert abs(inside.mean() - exact) < 3 * batch_error(inside)
        if "ladder" not in options:
            evidence = posterior.log_evidence
            assert abs(evidence.value - log_evidence) < 3 * evidence.standard_error + 0.01
            assert evidence.standard_error < 0.1
            assert "optima-apart" not in {one.code for one in posterior.findings}


# ---- Runs -----------------------------------------------------------------------------------------------------------


def small_run(**options) -> ch.Posterior:
    model = model_of("gaussian")
    y = model.simulate(30, seed=3)[1]
    settings = {"update": ch.Collapsed(starts=3), "draws": 8, "warmup": 40, "chains": 2, "seed": 4, "progress": False}
    return ch.sample(model, y, **(settings | options))


def test_run__does_not_depend_on_workers_and_goes_on_bit_by_bit(tmp_path):
    whole = small_run(workers=1)
    again = small_run(workers=2)
    for name, values in whole.parameters.items():
        np.testing.assert_array_equal(values, again.parameters[name])
    np.testing.assert_array_equal(whole.codes, again.codes)
    small_run(store=tmp_path / "run.zarr", draws=3)
    more = small_run(store=tmp_path / "run.zarr", resume=True)
    for name, values in whole.parameters.items():
        np.testing.assert_array_equal(values, more.parameters[name])
    np.testing.assert_array_equal(whole.codes, more.codes)
    assert more.log_evidence == whole.log_evidence
    assert more.info["optima"] == whole.info["optima"]
    assert len(whole.info["optima"]) >= 1


def test_run__from_a_given_start():
    """Values that are given are where the chains begin, wherever the optima are."""
    model = model_of("gaussian")
    y = model.simulate(30, seed=3)[1]
    problem = LearningProblem(Learning(model, Observations(y)), ch.Collapsed(starts=3), None)
    start = {"sd": 2.5, "depth": 1.0, "enter": 0.5}
    engine = GradientEngine(problem, [1.0], 0, Streams(1, 0), Start(None, start))
    engine.begin(quiet(), 1)
    named = model.parameters.unpack(engine.values[0])
    assert {name: float(named[name]) for name in start} == start
    free = GradientEngine(problem, [1.0], 0, Streams(1, 0), Start())
    free.begin(quiet(), 1)
    assert float(model.parameters.unpack(free.values[0])["sd"]) != 2.5


def test_run__refuses_where_nothing_near_the_optima_is_possible(monkeypatch):
    model = model_of("gaussian")
    engine = engine_of(model, model.simulate(12, seed=3)[1])
    engine.begin(quiet(), 1)
    monkeypatch.setattr(engine.learning, "log_evidence", lambda values, beta: -np.inf)
    with pytest.raises(ch.InvalidInput, match="zero or not finite all around the optima; give a start"):
        engine._start_near_optimum(0, np.random.default_rng(1))


def test_run__starts_again_where_the_data_are_impossible():
    """A start of no probability, as `init` may give it, is replaced by one from the prior before anything moves."""
    model = model_of("gaussian")
    engine = engine_of(model, model.simulate(12, seed=3)[1])
    engine.begin(quiet(), 1)
    engine.n_jumps[0], engine.every_hmc[0], engine.turn[0] = 0, 10**9, 1
    before, engine.log_evidence[0] = engine.values[0].copy(), -np.inf
    engine._iterate(0, warming_up=False)
    assert np.all(engine.values[0] != before)
    assert engine.log_evidence[0] == engine.learning.log_evidence(engine.values[0], 1.0)


def test_ladder__of_another_length_takes_over_the_nearest_rungs():
    model = model_of("gaussian")
    engine = engine_of(model, model.simulate(12, seed=3)[1], betas=(0.4, 1.0))
    engine.begin(quiet(), 1)
    for _ in range(3):
        for r in range(2):
            engine._iterate(r, warming_up=True)
    cold, hot = engine.values[1].copy(), engine.values[0].copy()
    engine.log_step[:] = 7.0
    engine.set_betas(np.array([0.1, 0.4, 1.0]))
    np.testing.assert_array_equal(engine.values, [hot, hot, cold])
    assert len(engine.proposals) == len(engine.draws_seen) == 3
    assert np.all(engine.log_step < 1)  # what two rungs had learned is forgotten
    widths = [np.linalg.det(proposals.covariances[0]) for proposals in engine.proposals]
    assert widths == sorted(widths, reverse=True)
    for r in range(3):
        engine._iterate(r, warming_up=True)
    again = engine_of(model, engine.learning.data, betas=(0.4, 1.0))
    again.restore(engine.checkpoint())  # a run that goes on begins with the ladder of its plan
    for r in range(3):
        engine._iterate(r, warming_up=False)
        again._iterate(r, warming_up=False)
    np.testing.assert_array_equal(again.values, engine.values)
    np.testing.assert_array_equal(again.log_evidence, engine.log_evidence)


class TwoTops:
    """A density with tops at -0.02 and 0.02, each of standard deviation 0.01, in the place of a posterior of one
    parameter without a prior."""

    @property
    def parameters(self):
        return SimpleNamespace(from_free=lambda free: free, free_slopes=lambda values, slopes: slopes, n_values=1)

    def value_and_slope(self, free, beta):
        tops = np.array([-0.02, 0.02])
        logs = -0.5 * np.square((free - tops) / 0.01)
        shares = np.exp(logs - logs.max())
        slope = (shares * (tops - free)).sum() / shares.sum() / 0.01**2
        return logs.max() + np.log(shares.sum()), np.array([slope])

    def log_density(self, free, beta):
        return self.value_and_slope(free, beta)[0]


def test_peak__narrow_top_beside_another_whatever_its_width_was_thought_to_be():
    """A step of 3% of a width of 1 would reach over the other top, and find no curvature."""
    for width in (1.0, 0.1, 0.01):
        peak = peak_at(TwoTops(), np.array([0.021]), np.ones(1), np.array([width]))
        assert peak.strict
        assert peak.data[0, 0] == pytest.approx(0.01**-2, rel=0.02)
        assert peak.free[0] == pytest.approx(0.02, abs=2e-4)


def test_optima__rows_that_are_the_same_have_one_order():
    """Two rows that the data cannot tell from one another: their weights are equal at the top, and exchanging them
    leads nowhere. The evidence agrees with that of a fine grid."""
    emission = ch.Gaussian(ch.LogNormal([0.0, 0.0], 0.1), sd=1.0)
    model = ch.FactorialHMM(rows=ch.Switches(0.3, 0.3), emission=emission)
    y = np.array([0.1, 2.2, 1.9, 1.1, -0.2])
    best = ch.optimise(model, y, starts=2, seed=1, progress=False).best
    np.testing.assert_allclose(best.values["weights"][0], best.values["weights"][1], rtol=1e-3)
    function, grid = ch.exact.log_density(model, y), np.linspace(-0.6, 0.6, 61)
    density = np.exp([[function(np.array([a, b])) for a in grid] for b in grid])
    assert best.log_evidence == pytest.approx(np.log(density.sum() * (grid[1] - grid[0]) ** 2), abs=0.02)


def test_findings__of_optima_that_no_chain_connects():
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(1)))
    optima = [
        {"values": {"sd": 1.0}, "sd": {"sd": 0.1}, "log_evidence": -10.0, "share": 0.7},
        {"values": {"sd": 3.0}, "sd": {"sd": 0.1}, "log_evidence": -10.8, "share": 0.3},
        {"values": {"sd": 9.0}, "sd": {"sd": 0.1}, "log_evidence": -40.0, "share": 1e-13},
    ]
    apart = named_parameters(np.array([[[1.0], [1.1]], [[3.0], [2.9]]]), model)
    (found,) = connection_findings(optima, apart)
    assert (found.code, found.severity, found.facts["optima"]) == ("optima-apart", "none", [2])
    assert found.facts["names"] == ["optimum 2 (visited by chain 1; log evidence -0.8; sd 3 in place of 1)"]
    assert connection_findings(optima, apart.assign(smooth=apart["sd"])) == [found]  # optima have no offset
    alone = named_parameters(np.array([[[1.0], [1.1]]]), model)
    (found,) = connection_findings(optima, alone)
    assert found.facts["names"] == ["optimum 2 (not visited; log evidence -0.8; sd 3 in place of 1)"]
    rare = [optima[0], optima[1] | {"share": 0.05}]
    assert [one.severity for one in connection_findings(rare, alone)] == ["limited"]
    assert connection_findings(optima, named_parameters(np.array([[[1.0], [3.1]], [[3.0], [2.9]]]), model)) == []
    assert connection_findings(optima[:1], apart) == []
    wide = [optima[0], optima[2] | {"sd": {"sd": 20.0}}]  # does not claim what belongs to its narrow neighbour
    assert connection_findings(wide, named_parameters(np.array([[[1.0], [1.25]]]), model)) == []


def test_collapsed__refuses():
    plain = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0]))
    with pytest.raises(ch.InvalidInput, match="updates parameters, and this model has none to learn"):
        ch.sample(plain, [1.0, 2.0], update="collapsed", exchange=None)
    with pytest.raises(ch.InvalidInput, match=r"MosaicCrossover exchanges parts of paths, but Collapsed\(\)"):
        small_run(exchange="mosaic")

"""Rows with any number of states: exact results against a dense filter over the product space, draws, runs, errors.

The reference knows nothing of groups, layouts or factorised passes: it multiplies matrices over all joint states.
"""

from __future__ import annotations

import itertools
from typing import Any

import matplotlib.pyplot as plt
import numba
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chisquare
from typer.testing import CliRunner

import chiasma as ch
from chiasma import plots
from chiasma.cli import app
from chiasma.errors import InvalidInput
from chiasma.io.settings import Settings, settings_of
from chiasma.io.signal import Signal
from chiasma.report.report import write_report

pytestmark = pytest.mark.jit_off
JIT = not numba.config.DISABLE_JIT
NAN = float("nan")
STICKY = ch.Sticky(renew=0.2, probabilities=[0.5, 0.3, 0.2])
SWITCH = ch.Switch(enter=0.1, leave=0.2)
MARKOV = ch.Markov(
    transition=[[0.8, 0.15, 0.05, 0.0], [0.1, 0.7, 0.1, 0.1], [0.0, 0.3, 0.6, 0.1], [0.2, 0.2, 0.2, 0.4]]
)
MODELS: dict[str, list[ch.Row]] = {
    "two and three states": [ch.Row([0, 1.0, 2.5], STICKY, "washer"), ch.Row([0, 0.7], SWITCH, "lamp")],
    "a group": [ch.Row([0, 0.7], SWITCH, "lamp", copies=3)],
    "a group of three states": [ch.Row([0, 1.0, 2.5], STICKY, copies=2), ch.Row([0.2, 0.9], SWITCH)],
    "everything": [
        ch.Row([0, 1.0, 2.5, 3.0], MARKOV, "washer"),
        ch.Row([0, 0.7], SWITCH, "lamp", copies=2),
        ch.Row([0, 0.3, 0.9], fixed=2, name="standby"),
    ],
    "equal though not declared": [ch.Row([0, 0.7], SWITCH), ch.Row([0, 1.0, 2.5], STICKY), ch.Row([0, 0.7], SWITCH)],
}


def model_of(name: str, sd: float = 0.6) -> ch.FactorialHMM:
    return ch.FactorialHMM(rows=MODELS[name], emission=ch.Gaussian(sd=sd))


def data_of(model: ch.FactorialHMM, n_columns: int = 7, seed: int = 1) -> ch.Observations:
    y = model.simulate(n_columns, seed=seed, starts=[4])[1]
    y[2] = NAN
    return ch.Observations(y, starts=[4], gaps=[1, 2, 1, 5, 1, 3][: n_columns - 1])


class Dense:
    """All joint states of the rows one by one."""

    def __init__(self, model: ch.FactorialHMM, data: ch.Observations, beta: float = 1.0):
        assert model.rows is not None
        self.rows = model.rows.rows
        ranges = [range(row.n_states) if row.fixed is None else [row.fixed] for row in self.rows]
        self.states = np.array(list(itertools.product(*ranges)))
        self.edge, gaps = data.edge_kinds()
        self.trans = np.ones((len(gaps), len(self.states), len(self.states)))
        for k, row in enumerate(self.rows):
            if row.fixed is None:
                own = row.chain.matrices(row.n_states, gaps)
                self.trans *= own[:, self.states[:, k, None], self.states[:, k]]
        level = sum(row.values[self.states[:, k]] for k, row in enumerate(self.rows))
        z = (data.y[:, None] - level) / float(model.emission.sd)
        density = -0.5 * z**2 - np.log(float(model.emission.sd) * np.sqrt(2 * np.pi))
        self.log_lik = beta * np.where(np.isnan(data.y)[:, None], 0.0, density)

    def filtered(self) -> tuple[list[np.ndarray], float]:
        alpha = self.trans[0][0] * np.exp(self.log_lik[0])
        found, log_evidence = [], 0.0
        for t in range(len(self.edge)):
            if t:
                alpha = alpha @ self.trans[self.edge[t]] * np.exp(self.log_lik[t])
            log_evidence += np.log(alpha.sum())
            alpha = alpha / alpha.sum()
            found.append(alpha)
        return found, log_evidence

    def smoothed(self) -> np.ndarray:
        alphas, _ = self.filtered()
        beta, out = np.ones(len(self.states)), []
        for t in range(len(self.edge) - 1, -1, -1):
            weight = alphas[t] * beta
            out.append(weight / weight.sum())
            beta = self.trans[self.edge[t]] @ (np.exp(self.log_lik[t]) * beta)
            beta /= beta.sum()
        return np.array(out[::-1])

    def best(self) -> float:
        with np.errstate(divide="ignore"):
            log_trans = np.log(self.trans)
        score = log_trans[0][0] + self.log_lik[0]
        for t in range(1, len(self.edge)):
            score = (score[:, None] + log_trans[self.edge[t]]).max(axis=0) + self.log_lik[t]
        return float(score.max())


def use_every_pass() -> None:
    """Exact passes in linear space and in logarithms; tests that follow find them compiled."""
    never = ch.Row([0, 1.0, 2.0], ch.Markov([[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.1, 0.0, 0.9]]))
    for rows in (MODELS["everything"], [never, *MODELS["a group of three states"]]):
        model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=0.6))
        data = data_of(model)
        ch.exact.marginals(model, data)
        ch.exact.map_states(model, data)
        ch.exact.draws(model, data, 2, seed=1)


@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize("name", MODELS)
def test_evidence_and_probabilities_equal_those_of_the_product_space(name, beta):
    model = model_of(name)
    data = data_of(model)
    dense = Dense(model, data, beta)
    assert ch.exact.log_evidence(model, data, beta) == pytest.approx(dense.filtered()[1], abs=1e-10)
    smoothed = dense.smoothed()
    for k, row in enumerate(dense.rows):
        wanted = np.array([smoothed[:, dense.states[:, k] == s].sum(axis=1) for s in range(row.n_states)])
        found = ch.exact.probabilities(model, data, model.row_names[k], beta)
        np.testing.assert_allclose(found, wanted, atol=1e-11)
    on = ch.exact.marginals(model, data, beta)
    np.testing.assert_allclose(on, [(smoothed @ (dense.states[:, k] != 0)) for k in range(len(dense.rows))], atol=1e-11)


@pytest.mark.parametrize("name", MODELS)
def test_viterbi_is_the_best_path_of_the_rows_themselves(name):
    """Counts must not be preferred for the many ways in which rows can have them."""
    model = model_of(name, sd=1.5)
    data = data_of(model, seed=3)
    states = ch.exact.map_states(model, data)
    assert ch.log_joint(model, data, states) == pytest.approx(Dense(model, data).best(), abs=1e-10)
    for k, x in model.fixed.items():
        assert (states[k] == x).all()


@pytest.mark.parametrize("name", MODELS)
def test_draws_have_the_exact_distribution_of_every_column_of_the_rows(name, n_draws):
    """A chi-squared test per column; false alarm for 1 seed in 10,000 over all columns of a model."""
    model = model_of(name)
    data = data_of(model)
    dense = Dense(model, data)
    shifts = model.layout.shifts
    codes = (dense.states.astype(np.int64) << shifts).sum(axis=1)
    smoothed = dense.smoothed()
    n = min(n_draws, 20_000)
    paths = ch.exact.draws(model, data, n, seed=5)
    assert set(np.unique(paths)) <= set(codes.tolist())  # no padded state, no other fixed state
    for t, column in enumerate(paths.T):
        counts = np.array([(column == code).sum() for code in codes])
        expected = smoothed[t] * n
        common = expected > 5
        pooled = np.append(counts[common], counts[~common].sum()), np.append(expected[common], expected[~common].sum())
        if pooled[1][-1] < 5:
            pooled = counts[common], expected[common] * counts[common].sum() / expected[common].sum()
        assert chisquare(*pooled).pvalue > 1e-4 / len(data.y)


def test_draws_of_a_group_move_like_its_rows():
    """Pairs of neighbouring columns, which counts alone do not fix. False alarm for 1 seed in 10,000."""
    model = ch.FactorialHMM(rows=[ch.Row([0, 1.0], ch.Switch(0.3, 0.4), copies=3)], emission=ch.Gaussian(sd=0.7))
    data = ch.Observations([0.9, 1.2])
    dense = Dense(model, data)
    joint = dense.filtered()[0][0][:, None] * dense.trans[1] * np.exp(dense.log_lik[1])
    joint /= joint.sum()
    n = 20_000 if JIT else 4_000
    paths = ch.exact.draws(model, data, n, seed=2).astype(np.int64)
    order = (dense.states.astype(np.int64) << np.arange(3)).sum(axis=1)
    place = np.argsort(order)[paths]
    counts = np.zeros(joint.shape)
    np.add.at(counts, (place[:, 0], place[:, 1]), 1)
    kept = joint * n > 5
    pooled = np.append(counts[kept], counts[~kept].sum()), np.append(joint[kept], joint[~kept].sum()) * n
    assert chisquare(*pooled).pvalue > 1e-4


@pytest.mark.parametrize("n", range(2, 11))
def test_counting_equal_rows_together_changes_nothing(n):
    """Against the chains form, which filters equal rows one by one."""
    chain = ch.Switch(0.05, 0.1)
    together = ch.FactorialHMM(rows=[ch.Row([0, 1.0], chain, copies=n)], emission=ch.Gaussian(sd=0.5))
    apart = ch.FactorialHMM(rows=ch.Switches(0.05, 0.1), emission=ch.Gaussian([1.0] * n, sd=0.5))
    y = apart.simulate(60 if JIT or n < 10 else 12, seed=1)[1]
    assert not together.target(y).binary
    assert together.target(y).n_states == n + 1
    assert ch.exact.log_evidence(together, y) == pytest.approx(ch.exact.log_evidence(apart, y), abs=1e-9)
    np.testing.assert_allclose(ch.exact.marginals(together, y), ch.exact.marginals(apart, y), atol=1e-9)


def test_rows_of_two_states_are_the_chains_form_bit_by_bit():
    enter, leave, weights = [0.05, 0.1, 0.2], [0.1, 0.2, 0.3], [1.0, 1.7, 0.4]
    chains = ch.Switches(enter, leave)
    one = ch.FactorialHMM(rows=chains, emission=ch.Gaussian(weights, sd=0.5), fixed={2: 1})
    rows = [ch.Row([0, w], ch.Switch(a, b)) for w, a, b in zip(weights, enter, leave, strict=True)]
    rows[2] = ch.Row([0, weights[2]], rows[2].chain, fixed=1)
    two = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=0.5))
    for mine, other in zip(one.simulate(40, seed=1), two.simulate(40, seed=1), strict=True):
        np.testing.assert_array_equal(mine, other)
    data = ch.Observations(one.simulate(40, seed=1)[1], starts=[10], gaps=np.linspace(0.5, 2, 39))
    np.testing.assert_array_equal(one.target(data).trans, two.target(data).trans)
    assert ch.exact.log_evidence(one, data) == ch.exact.log_evidence(two, data)
    np.testing.assert_array_equal(ch.exact.draws(one, data, 5, seed=1), ch.exact.draws(two, data, 5, seed=1))
    options: dict[str, Any] = {"draws": 4, "warmup": 4, "chains": 2, "seed": 1, "progress": False}
    for update, exchange, ladder in (("auto", "auto", "auto"), ("row", "mosaic", [1, 3])):
        runs = [ch.sample(m, data, update=update, exchange=exchange, ladder=ladder, **options) for m in (one, two)]
        np.testing.assert_array_equal(runs[0].draws, runs[1].draws)
        np.testing.assert_array_equal(runs[0].log_joint, runs[1].log_joint)


def test_memory_budget_changes_no_draw():
    model = model_of("everything")
    data = ch.Observations(model.simulate(40, seed=2)[1], starts=[13])
    whole = ch.exact.draws(model, data, 6, seed=1)
    cut = ch.exact.draws(model, data, 6, seed=1, memory=14 * 12 * 8)
    np.testing.assert_array_equal(whole, cut)
    for row in range(4):
        a, b = (ch.exact.probabilities(model, data, row, memory=m) for m in (2**20, 8 * 12 * 14))
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_impossible_transitions_and_extremes_are_filtered_in_logarithms():
    """Rows that never come back, and noise so small that likelihoods underflow."""
    chain = ch.Markov([[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.0, 0.0, 1.0]], initial=[1.0, 0.0, 0.0])
    rows = [ch.Row([0, 1.0, 3.0], chain), ch.Row([0, 0.5], ch.Switch(1e-90, 1e-90, 0.5), copies=2)]
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=0.01))
    data = ch.Observations([0.5, 0.51, 1.49, 1.5, 3.5])
    dense = Dense(model, data)
    assert not model.target(data).linear()
    assert ch.exact.map_states(model, data)[0].tolist() == [0, 0, 1, 1, 2]
    assert ch.log_joint(model, data, ch.exact.map_states(model, data)) == pytest.approx(dense.best(), rel=1e-12)


def test_moves_of_equal_rows_that_are_too_improbable_for_a_float():
    """Both rows switch at once, by 1e-400; in logarithms it is an observation like any other."""
    rows = [ch.Row([0, 1.0], ch.Switch(1e-200, 1e-200, 0.5), copies=2), ch.Row([0, 0.1, 0.2], STICKY)]
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=0.01))
    data = ch.Observations([0.0, 2.1])
    dense = Dense(model, data)
    with np.errstate(divide="ignore"):
        single = np.log(np.stack([[0.5, 0.5], [0.5, 0.5]])), np.log([[1.0, 1e-200], [1e-200, 1.0]])
        third = np.log(STICKY.matrices(3, np.array([np.inf, 1.0])))
    x = dense.states
    log_trans = [
        single[e][x[:, None, 0], x[:, 0]] + single[e][x[:, None, 1], x[:, 1]] + third[e][x[:, None, 2], x[:, 2]]
        for e in (0, 1)
    ]
    filtered = logsumexp(log_trans[0][0] + dense.log_lik[0] + log_trans[1].T, axis=1) + dense.log_lik[1]
    assert logsumexp(filtered) < -900
    assert ch.exact.log_evidence(model, data) == pytest.approx(logsumexp(filtered), rel=1e-12)
    posterior = ch.sample(model, data, update="row", exchange="mosaic", ladder=[1, 2], **QUICK)
    assert np.isfinite(posterior.log_joint).all()


# ---- Runs -----------------------------------------------------------------------------------------------------------

QUICK: dict[str, Any] = {"draws": 12, "chains": 2, "seed": 3, "progress": False}


def test_sample__speaks_of_the_rows_by_name(tmp_path):
    model = model_of("everything")
    data = data_of(model)
    posterior = ch.sample(model, data, **QUICK, store=tmp_path / "run")
    assert "2 equal rows count as 3 states" in posterior.info["plan"]
    assert posterior.log_evidence.value == pytest.approx(ch.exact.log_evidence(model, data))
    assert posterior.marginals()["row"].values.tolist() == ["washer", "lamp_1", "lamp_2", "standby"]
    share = posterior.probabilities("washer")
    assert share.shape == (4, 7)
    np.testing.assert_allclose(share.sum("state"), 1)
    states = posterior.states("washer").values
    np.testing.assert_allclose(share.values[3], (states == 3).mean(axis=(0, 1)))
    assert (posterior.states("standby") == 2).all()
    on = posterior.marginals().sel(row="washer").values
    np.testing.assert_allclose(on, (states != 0).mean(axis=(0, 1)))
    level = posterior.levels().values
    adds = [row.values for row in model.rows.rows]
    wanted = sum(own[posterior.states(k).values] for k, own in enumerate(adds))
    np.testing.assert_allclose(level, wanted)
    joint = [ch.log_joint(model, data, codes) for codes in posterior.codes.values.reshape(-1, 7)]
    np.testing.assert_allclose(posterior.log_joint.values.ravel(), joint)
    assert {len(segment.states) for segment in posterior.segments()} == {4}
    (best, *_) = posterior.top_configurations(0, 7)
    assert best.states.shape == (4, 7)
    assert best.runs[0][2] == best.codes[0]
    assert posterior.findings == ()


def test_sample__stores_resumes_and_rebuilds_the_model(tmp_path):
    model = model_of("everything")
    data = data_of(model)
    whole = ch.sample(model, data, **QUICK | {"draws": 20})
    ch.sample(model, data, **QUICK, store=tmp_path / "run")
    resumed = ch.sample(model, data, **QUICK | {"draws": 20}, store=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(resumed.draws, whole.draws)
    np.testing.assert_array_equal(resumed.log_joint, whole.log_joint)
    opened = ch.open_posterior(tmp_path / "run")
    assert repr(opened.model.rows.given) == repr(model.rows.given)
    np.testing.assert_array_equal(opened.marginals(), whole.marginals())
    assert opened.row_counts is not None


def test_sample__any_number_of_workers_gives_the_same_draws():
    model = model_of("a group of three states")
    data = data_of(model)
    runs = [ch.sample(model, data, **QUICK, workers=n) for n in (1, 2)]
    np.testing.assert_array_equal(runs[0].draws, runs[1].draws)


def test_sample__rows_that_cannot_begin_in_state_0():
    row = ch.Row([0, 1.0], ch.Switch(0.1, 0.2, initial=1.0), copies=2)
    posterior = ch.sample(hmm(row), [2.0, 1.9], **QUICK)
    assert (posterior.rows_on()[..., 0] == 2).all()


def test_simulate__is_drawn_from_the_chains():
    """Means over 4,000 columns of a nearly independent chain; false alarm below 1 in 10,000."""
    row = ch.Row([0, 1.0, 2.0], ch.Sticky(renew=0.95, probabilities=[0.5, 0.3, 0.2]))
    states, y = ch.FactorialHMM(rows=[row], emission=ch.Gaussian(sd=0.1)).simulate(4_000, seed=1)
    share = np.bincount(states[0], minlength=3) / 4_000
    assert np.abs(share - [0.5, 0.3, 0.2]).max() < 4 * np.sqrt(0.25 / 4_000) * 1.1
    assert np.abs(y - states[0]).max() < 0.6


# ---- What is refused ------------------------------------------------------------------------------------------------


def hmm(*rows: ch.Row, emission: Any = None, fixed: Any = None) -> ch.FactorialHMM:
    return ch.FactorialHMM(rows=list(rows), emission=emission or ch.Gaussian(sd=1.0), fixed=fixed)


REFUSED = {
    "no values": (lambda: ch.Row([], SWITCH), r"at least two finite values, one per state, .* got \[\]"),
    "one value": (lambda: ch.Row([1.0], SWITCH), "at least two finite values"),
    "values without end": (lambda: ch.Row([0, np.inf], SWITCH), "at least two finite values"),
    "no chain": (lambda: ch.Row([0, 1], name="a"), "row 'a' needs chain=ch.Switch"),
    "another chain": (lambda: ch.Row([0, 1], ch.Switches(0.1, 0.1)), "needs chain=ch.Switch"),
    "sizes": (lambda: ch.Row([0, 1, 2], SWITCH), "has 3 values and its chain 2 states"),
    "copies": (lambda: ch.Row([0, 1], SWITCH, copies=0), "copies of a row must be a whole number of at least 1, got 0"),
    "copies of a kind": (lambda: ch.Row([0, 1], SWITCH, copies=1.5), "whole number of at least 1, got 1.5"),
    "fixed": (lambda: ch.Row([0, 1], fixed=2), r"fixed at a state in 0..1, got 2"),
    "empty name": (lambda: ch.Row([0, 1], SWITCH, name=""), "must not be empty"),
    "no rows": (hmm, "at least one ch.Row"),
    "no row": (lambda: hmm(3), "at least one ch.Row"),
    "names twice": (lambda: hmm(ch.Row([0, 1], SWITCH, "a"), ch.Row([0, 2], SWITCH, "a")), "different names, got a"),
    "bits": (lambda: hmm(ch.Row([0, 1], SWITCH, copies=64)), "at most 63 bits.* these 64 rows need 64"),
    "all fixed": (lambda: hmm(ch.Row([0, 1], fixed=0)), "all 1 rows are fixed"),
    "weights": (lambda: hmm(ch.Row([0, 1], SWITCH), emission=ch.Gaussian([1.0, 2.0])), "has 2 weights and the model 1"),
    "a table": (
        lambda: hmm(ch.Row([0, 1], SWITCH), emission=ch.Table(np.zeros((3, 2)))),
        "additive emission, got Table",
    ),
    "rows missing": (lambda: ch.FactorialHMM(rows=None, emission=ch.Gaussian([1.0])), "rows must be a list of"),
    "fixed at a state it lacks": (lambda: hmm(ch.Row([0, 1], SWITCH), fixed={0: 2}), "fixed maps rows"),
    "one of several learned copies": (
        lambda: hmm(ch.Row(ch.Normal([0, 1], 1), SWITCH, copies=2), fixed={0: 1}),
        "write it as a separate row",
    ),
    "no weights": (
        lambda: ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian(sd=1.0)),
        "needs weights, one per row",
    ),
    "two priors": (
        lambda: hmm(
            ch.Row([0, 1], SWITCH, weight=ch.Gamma(1, 1).shared("w")),
            ch.Row([0, 1], SWITCH, weight=ch.Gamma(2, 1).shared("w")),
        ),
        r"'w' is shared with two priors, Gamma\(1, 1\).shared\('w'\) and Gamma\(2, 1\)",
    ),
    "a taken name": (
        lambda: hmm(ch.Row([0, 1], SWITCH, weight=ch.Gamma(1, 1).shared("sd"))),
        "rows share a parameter called 'sd', a name of Gaussian; rename it",
    ),
    "a nameless parameter": (lambda: ch.Gamma(1, 1).shared(""), "a shared parameter needs a name, got ''"),
    "values that add up": (lambda: ch.Row(ch.Dirichlet([1, 1]), SWITCH), "need not add up to 1; use Normal"),
    "two weights": (lambda: ch.Row([0, 1], SWITCH, weight=[1, 2]), "must be one finite number"),
    "negative counts": (
        lambda: hmm(ch.Row(ch.Normal([0, 1], 1), SWITCH), emission=ch.Poisson()),
        "values of a row of counts must be above 0",
    ),
    "unknown row": (lambda: ch.exact.probabilities(model_of("a group"), [1.0], "fan"), "no row 'fan'; this model has"),
    "row number": (lambda: ch.exact.probabilities(model_of("a group"), [1.0], 3), r"row must be in 0..2, got 3"),
    "a padded code": (
        lambda: ch.log_joint(model_of("two and three states"), [1.0], np.array([3])),
        "has state 3 in row 0, which has 3 states",
    ),
    "a state too many": (lambda: ch.log_joint(model_of("two and three states"), [1.0], [[3], [0]]), "must be in 0..2"),
    "real gaps": (
        lambda: ch.exact.log_evidence(hmm(ch.Row([0, 1, 2, 3], MARKOV)), ch.Observations([1.0, 2.0], gaps=[1.5])),
        "rates",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    make, message = REFUSED[case]
    with pytest.raises(InvalidInput, match=message):
        make()


@pytest.mark.large
def test_sixty_three_equal_rows_along_a_long_signal_are_exact():
    model = hmm(ch.Row([0, 1.0], ch.Switch(0.001, 0.002), copies=63), emission=ch.Gaussian(sd=0.5))
    states, y = model.simulate(20_000, seed=2)
    assert model.target(y).n_states == 64
    on = ch.exact.probabilities(model, y, 0)[1]
    np.testing.assert_allclose(63 * on.mean(), states.sum(axis=0).mean(), atol=0.02)
    one, two = np.bitwise_count(ch.exact.draws(model, y, 2, seed=1).astype(np.int64))
    # The truth is a draw of the posterior, too: it agrees with a draw as often as another draw does.
    assert (one == states.sum(axis=0)).mean() == pytest.approx((one == two).mean(), abs=0.02)
    assert (one == two).mean() > 0.8


def test_figures_and_tables_name_the_rows(tmp_path):
    """All that a run leaves, with a row of three states whose highest is the most probable."""
    rows = [ch.Row([0, 1.0, 3.0], ch.Sticky(renew=0.2), "washer"), ch.Row([0, 1.5], SWITCH, "lamp", copies=2)]
    model = hmm(*rows, emission=ch.Gaussian(sd=0.8))
    signal = Signal(data=ch.Observations([3.0, 3.1, 2.9, 0.0, 1.5, 1.4, 3.2]))
    posterior = ch.sample(model, signal.data, **QUICK)
    written = write_report(posterior, signal, tmp_path, {})
    names, first, *_ = (tmp_path / "states.tsv").read_text().splitlines()
    assert names.split("\t")[-6:] == [
        "p_washer=1", "p_washer=2", "p_lamp_1", "p_lamp_2", "p_lamp_1-2_on=1", "p_lamp_1-2_on=2",
    ]  # fmt: skip
    assert float(first.split("\t")[names.split("\t").index("level")]) == pytest.approx(3, abs=0.5)
    assert {path.stem for path in (tmp_path / "figures").iterdir()} >= {"level", "marginals"}
    assert written.n_segments > 1
    fig = plots.plot_marginals(posterior)
    assert [ax.get_ylabel() for ax in fig.axes] == ["washer", "lamp_1-2\n(number on)"]
    plt.close("all")


TOML = """
[model]
emission = "gaussian"
sd = 20

[[row]]
name = "washer"
values = [0.0, 150.0, 2000.0]
sticky = {renew = 0.01, probabilities = [0.8, 0.1, 0.1]}

[[row]]
values = [0.0, 100.0]
switch = {enter = 0.01, leave = 0.02}
copies = 8

[[row]]
name = "standby"
values = [0.0, 60.0]
fixed = 1
"""


def test_settings__rows_are_read_and_written(tmp_path):
    (tmp_path / "house.toml").write_text(TOML)
    settings = Settings.read(tmp_path / "house.toml")
    model = settings.model()
    assert [row.copies for row in model.rows.given] == [1, 8, 1]
    assert model.target([60.0]).n_states == 27
    settings.write(tmp_path / "again.toml", "again")
    assert repr(Settings.read(tmp_path / "again.toml").model()) == repr(model)
    made = Settings(**settings_of(model))
    assert repr(made.model()) == repr(model)


@pytest.mark.large
def test_command_line__samples_rows_with_updates_and_exchanges(tmp_path, monkeypatch, light_pictures):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "house.toml").write_text(TOML)
    (tmp_path / "watts.csv").write_text("".join(f"{y}\n" for y in (60, 160, 2160, 2060, "NA", 260, 60)))
    options = [
        "--update",
        "block:2",
        "--exchange",
        "mosaic",
        "--ladder",
        "1,4",
        "--draws",
        "6",
        "--warmup",
        "4",
        "--chains",
        "2",
        "--seed",
        "1",
        "-q",
    ]
    result = CliRunner().invoke(app, ["fit", "watts.csv", "--model", "house.toml", "--out", "fit", *options])
    assert result.exit_code == 0, result.output
    posterior = ch.open_posterior("fit/run.zarr")
    assert posterior.info["update"] == "BlockGibbs(size=2, blocks=None)"
    assert posterior.states(8).shape == (2, 6, 7)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("values = [0, 1]\nfan = 3", "has no setting 'fan'; it knows name, values"),
        ("values = [0, 1]\nswitch = {enter = 0.1}", "number 1: switch needs leave"),
        ("values = [0, 1]\nswitch = {rate = 0.1}", "switch takes a table of enter, leave, initial"),
        ("values = [0, 1]\nswitch = {enter = 0.1, leave = 0.1}\nsticky = {renew = 0.1}", "one Markov chain"),
        ("switch = {enter = 0.1, leave = 0.1}", "needs values"),
    ],
)
def test_settings__rows_that_cannot_be_read(row, message, tmp_path):
    (tmp_path / "house.toml").write_text(f"[model]\nsd = 1\n[[row]]\n{row}\n")
    with pytest.raises(InvalidInput, match=message):
        Settings.read(tmp_path / "house.toml")


def test_settings__rows_and_switching_options_exclude_each_other(tmp_path):
    (tmp_path / "house.toml").write_text(TOML.replace("sd = 20", "sd = 20\nenter = 0.1"))
    with pytest.raises(InvalidInput, match="say how rows switch; drop --enter"):
        Settings.read(tmp_path / "house.toml").model()
    (tmp_path / "house.toml").write_text(TOML.replace("sd = 20", ""))
    with pytest.raises(InvalidInput, match="needs --sd"):
        Settings.read(tmp_path / "house.toml").model()


def test_rows_are_fixed_by_number_or_name():
    rows = [ch.Row([0, 1, 3], ch.Sticky(0.1), name="a"), ch.Row([0, 1], SWITCH, name="b", copies=3)]
    written = hmm(
        ch.Row([0, 1, 3], ch.Sticky(0.1), name="a", fixed=2),
        ch.Row([0, 1], SWITCH, name="b_1"),
        ch.Row([0, 1], SWITCH, name="b_2", fixed=1),
        ch.Row([0, 1], SWITCH, name="b_3"),
    )
    y = np.array([3.0, 4.1, np.nan, 4.9])
    for fixed in ({"a": 2, "b_2": 1}, {0: 2, "b_2": 1}, {2: 1, 0: 2}):
        model = hmm(*rows, fixed=fixed)
        assert model.fixed == {0: 2, 2: 1}
        assert model.row_names == ["a", "b_1", "b_2", "b_3"]
        assert ch.exact.log_evidence(model, y) == ch.exact.log_evidence(written, y)
    switches = ch.FactorialHMM(rows=ch.Switches(0.1, 0.2), emission=ch.Gaussian([1.0, 2.0]), fixed={"row_1": 1})
    assert switches.fixed == {1: 1}

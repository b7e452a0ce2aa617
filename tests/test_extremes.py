"""Extreme values: finite results that equal a reference in logarithms, and never an epsilon.

The dense reference serves short signals. For a million columns the reference is `scan`, a scan over columns in
logarithms for K <= 2, compiled and without any sharing with the package.
"""

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chiasma as ch
import reference
from chiasma.kernels.transitions import LINEAR_FLOOR
from chiasma.models.target import Target

RELATIVE = 1e-9
MILLION = 10**6


@numba.njit
def log_plus(a, b):
    if a == -np.inf and b == -np.inf:
        return a
    return max(a, b) + np.log1p(np.exp(-abs(a - b)))


@numba.njit
def scan(log_lik, log_start, log_step):
    """Forward and backward over S states: log evidence, (T, S) log posteriors, and the best path's score."""
    n_columns, n_states = log_lik.shape
    forward = np.empty((n_columns, n_states))
    forward[0] = log_start + log_lik[0]
    best = forward[0].copy()
    evidence = 0.0
    for t in range(1, n_columns):
        top = forward[t - 1].max()
        forward[t - 1] -= top
        evidence += top
        further = np.full(n_states, -np.inf)
        forward[t] = -np.inf
        for s in range(n_states):
            for r in range(n_states):
                forward[t, s] = log_plus(forward[t, s], forward[t - 1, r] + log_step[r, s])
                further[s] = max(further[s], best[r] + log_step[r, s])
        forward[t] += log_lik[t]
        best = further + log_lik[t]
    last = -np.inf
    for s in range(n_states):
        last = log_plus(last, forward[-1, s])
    back = np.zeros(n_states)
    posterior = np.empty((n_columns, n_states))
    for t in range(n_columns - 1, -1, -1):
        posterior[t] = forward[t] + back
        total = -np.inf
        for s in range(n_states):
            total = log_plus(total, posterior[t, s])
        posterior[t] -= total
        ahead = log_lik[t] + back
        for s in range(n_states):
            back[s] = -np.inf
            for r in range(n_states):
                back[s] = log_plus(back[s], log_step[s, r] + ahead[r])
        back -= back.max()
    return evidence + last, posterior, best.max()


def gaussian_table(y, weights, sd):
    levels = np.array([reference.level(s, weights) for s in range(2 ** len(weights))])
    return -0.5 * ((y[:, None] - levels) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)


def build(y, weights, sd, enter, leave):
    chains = ch.Switches(enter, leave)
    model = ch.FactorialHMM(rows=chains, emission=ch.Gaussian(weights, sd=sd))
    n_rows = len(weights)
    enter, leave, initial = chains.probabilities(n_rows)
    return model, reference.Problem(gaussian_table(y, weights, sd), enter, leave, initial)


def signal(n_columns, kind, sd):
    """Levels of rows with weights 1 and 2, and what makes the signal hard."""
    rng = np.random.default_rng(17)
    codes = np.repeat(rng.integers(4, size=n_columns // 10 + 1), 10)[:n_columns]
    y = codes + sd * rng.normal(size=n_columns)
    if kind == "outlier":
        y[n_columns // 2] = 30.0
    elif kind == "far":
        y += 1e6
    elif kind == "alternating":
        y = np.where(np.arange(n_columns) % 2, 3.0, 0.0)
    return y


HARD = [
    ("plain", 1e-6, 0.1),
    ("plain", 1e-2, 1e-12),
    ("outlier", 1.0, 1e-2),
    ("outlier", 0.05, 1e-12),
    ("far", 1.0, 0.1),
    ("far", 1e-3, 1e-12),
    ("alternating", 1.0, 1e-12),
    ("alternating", 1e-3, 1e-12),
    ("alternating", 1e-3, 1e-80),
]


def name(case):
    kind, sd, enter = case
    return f"{kind}, sd {sd:g}, switch {enter:g}"


@pytest.mark.jit_off
@pytest.mark.parametrize("case", HARD, ids=name)
def test_hard_signals_equal_the_dense_reference_in_logarithms(case):
    kind, sd, enter = case
    y = signal(60, kind, sd)
    model, problem = build(y, [1.0, 2.0], sd, enter, enter / 2)
    evidence = ch.exact.log_evidence(model, y)
    assert np.isfinite(evidence)
    assert evidence == pytest.approx(reference.dense_filter(problem)[2], rel=RELATIVE)
    marginals = ch.exact.marginals(model, y)
    np.testing.assert_allclose(marginals, reference.dense_marginals(problem), rtol=RELATIVE, atol=1e-12)
    path, score = reference.dense_viterbi(problem)
    assert ch.log_joint(model, y, ch.exact.map_states(model, y)) == pytest.approx(score, rel=RELATIVE)
    assert ch.log_joint(model, y, path) == pytest.approx(score, rel=RELATIVE)
    # 1,200 columns drawn: the false-alarm rate is below 1.2e-6.
    codes = ch.exact.draws(model, y, 20, seed=0)
    assert reference.dense_smoother(problem)[np.arange(60), codes].min() > 1e-9


# A million in scaled numbers and a million in logarithms; what else is hard about a signal shows in fewer.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "n_columns"),
    [(HARD[i], MILLION if i in (1, 8) else MILLION // 10) for i in (0, 1, 3, 5, 7, 8)],
    ids=lambda value: name(value) if isinstance(value, tuple) else f"{value:,}",
)
def test_very_many_columns_equal_the_reference_in_logarithms(case, n_columns):
    kind, sd, enter = case
    y = signal(n_columns, kind, sd)
    model, problem = build(y, [1.0, 2.0], sd, enter, enter / 2)
    start, step = (problem.log_column_matrix(t) for t in (0, 1))
    evidence, posterior, best = scan(problem.log_lik, start[0], step)
    assert ch.exact.log_evidence(model, y) == pytest.approx(evidence, rel=RELATIVE)
    chance = np.exp(posterior)
    expected = np.stack([chance[:, 1] + chance[:, 3], chance[:, 2] + chance[:, 3]])
    np.testing.assert_allclose(ch.exact.marginals(model, y), expected, rtol=RELATIVE, atol=1e-12)
    assert ch.log_joint(model, y, ch.exact.map_states(model, y)) == pytest.approx(best, rel=RELATIVE)
    # A million columns drawn: the false-alarm rate is below 1e-6.
    codes = ch.exact.draws(model, y, 1, seed=0)[0]
    assert chance[np.arange(n_columns), codes].min() > 1e-12


def test_a_million_columns_of_one_frozen_row_equal_the_two_sums():
    y = signal(MILLION, "plain", 0.5)
    model = ch.FactorialHMM(rows=ch.Switches(0.0, 0.0, initial=0.3), emission=ch.Gaussian([1.5], sd=0.5))
    off, on = gaussian_table(y, [1.5], 0.5).sum(axis=0) + np.log([0.7, 0.3])
    assert ch.exact.log_evidence(model, y) == pytest.approx(np.logaddexp(off, on), rel=RELATIVE)
    assert (ch.exact.marginals(model, y) == (1.0 if on > off else 0.0)).all()
    assert (ch.exact.draws(model, y, 1, seed=0) == (1 if on > off else 0)).all()


def test_an_outlier_is_explained_by_the_nearest_level_and_does_not_disturb_its_neighbours():
    y = np.array([3.0] * 10 + [30.0] + [3.0] * 10)
    model, _ = build(y, [1.0, 2.0], 1.0, 1e-12, 1e-12)
    np.testing.assert_allclose(ch.exact.marginals(model, y), 1.0, atol=1e-9)


# ---- Where a linear filter would lose states ------------------------------------------------------------------------


@pytest.mark.jit_off
def test_a_state_whose_likelihood_underflows_survives_when_it_cannot_be_entered_again():
    # Column 1 speaks for 0 by 5,000 nats, column 2 for 1 by 6,000: with enter = 0 the row was on all along.
    table = np.array([[0.0, 0.0], [0.0, -5000.0], [-6000.0, 0.0]])
    model = ch.FactorialHMM(rows=ch.Switches(0.0, 0.1, initial=0.5), emission=ch.Table(table))
    assert ch.exact.log_evidence(model, np.zeros(3)) == pytest.approx(np.log(0.5) - 5000 + 2 * np.log(0.9), rel=1e-12)
    assert ch.exact.marginals(model, np.zeros(3)).tolist() == [[1.0, 1.0, 1.0]]
    assert ch.exact.map_states(model, np.zeros(3)).tolist() == [[1, 1, 1]]
    assert (ch.exact.draws(model, np.zeros(3), 50, seed=0) == 1).all()


@pytest.mark.jit_off
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.sampled_from([(1, 30), (2, 20), (3, 10)]),
    zeros=st.booleans(),
    scale=st.sampled_from([50.0, 400.0, 2000.0, 1e5]),
)
def test_likelihoods_beyond_the_range_of_doubles_equal_the_dense_reference(seed, shape, zeros, scale):
    rng = np.random.default_rng(seed)
    problem = reference.random_problem(rng, *shape, starts=True, gaps=True, zeros=zeros, scale=scale)
    model, data = from_table(problem)
    assert ch.exact.log_evidence(model, data) == pytest.approx(reference.dense_filter(problem)[2], rel=RELATIVE)
    expected = reference.dense_marginals(problem)
    np.testing.assert_allclose(ch.exact.marginals(model, data), expected, rtol=RELATIVE, atol=1e-12)
    _, score = reference.dense_viterbi(problem)
    assert ch.log_joint(model, data, ch.exact.map_states(model, data)) == pytest.approx(score, rel=RELATIVE)


def from_table(problem):
    model = ch.FactorialHMM(
        rows=ch.Switches(problem.enter, problem.leave, problem.initial), emission=ch.Table(problem.log_lik)
    )
    return model, ch.Observations(np.zeros(problem.n_columns), starts=problem.starts, gaps=problem.gaps)


def everything(model, data):
    """All answers in one list, to compare two routes to them."""
    return [
        ch.exact.log_evidence(model, data),
        ch.exact.log_evidence(model, data, beta=0.3),
        ch.exact.marginals(model, data),
        ch.exact.marginals(model, data, beta=0.3),
    ]


@pytest.mark.jit_off
@pytest.mark.parametrize("n_rows", [1, 2, 3])
@pytest.mark.parametrize("sd", [1.0, 1e-3])
def test_linear_and_log_passes_agree_on_both_sides_of_the_floor(n_rows, sd, monkeypatch):
    rng = np.random.default_rng(18)
    weights = 2.0 ** np.arange(n_rows)
    y = np.concatenate([rng.integers(2**n_rows, size=30).astype(float), [30.0, -30.0], np.zeros(8)])
    answers = []
    for side, linear in ((1 + 1e-6, True), (1 - 1e-6, False)):
        switch = (LINEAR_FLOOR * side) ** (1 / n_rows)
        model, problem = build(y, weights, sd, switch, switch)
        assert model.target(y).linear() is linear
        answers.append(everything(model, y))
        with monkeypatch.context() as patch:
            patch.setattr(Target, "linear", lambda self, rows=None, other=not linear: other)
            answers.append(everything(model, y))
        for mine, forced in zip(*answers[-2:], strict=True):
            np.testing.assert_allclose(mine, forced, rtol=RELATIVE, atol=1e-12)
        assert answers[-2][0] == pytest.approx(reference.dense_filter(problem)[2], rel=RELATIVE)
        np.testing.assert_allclose(answers[-2][2], reference.dense_marginals(problem), rtol=RELATIVE, atol=1e-12)


def test_far_below_the_floor_only_the_log_passes_are_right(monkeypatch):
    y = signal(40, "alternating", 1e-3)
    model, problem = build(y, [1.0, 2.0], 1e-3, 1e-200, 1e-200)
    assert ch.exact.log_evidence(model, y) == pytest.approx(reference.dense_filter(problem)[2], rel=RELATIVE)
    monkeypatch.setattr(Target, "linear", lambda self, rows=None: True)
    assert not np.isfinite(ch.exact.log_evidence(model, y))

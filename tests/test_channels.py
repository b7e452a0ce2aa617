"""Levels with several channels: values (S, D), weights (K, D), and y of another width, against sums over all states."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import stats

import chiasma as ch
from chiasma.errors import InvalidInput

pytestmark = pytest.mark.jit_off
NAN = float("nan")
STICKY = ch.Sticky(renew=0.3, probabilities=[0.5, 0.3, 0.2])
SWITCH = ch.Switch(enter=0.2, leave=0.3)
COPIES = [[1.0, 1.0], [2.0, 1.0], [2.0, 0.0]]
ROWS = {
    "three states": [ch.Row(COPIES, STICKY, "clone"), ch.Row([[0, 0], [0.5, 1.5]], SWITCH)],
    "two states": [ch.Row([[0.2, 1.0], [1.0, 0.1]], SWITCH), ch.Row([[0, 0], [0.5, 1.5]], SWITCH)],
    "group and fixed": [ch.Row([[0.1, 0], [1, 2]], SWITCH, copies=2), ch.Row(COPIES, name="normal", fixed=1)],
}
Y = np.array([[1.2, 2.0], [NAN, 1.0], [2.2, 0.4], [NAN, NAN], [1.0, 2.6]])
DATA = ch.Observations(Y, starts=[2])
COUNTS = ch.Observations(np.where(np.isnan(Y), NAN, np.round(3 * Y)), starts=[2])


def reads(y, level):
    """Three numbers per column, two channels per level."""
    here = np.log(0.1 + level[..., 0]) * y[..., 0] - level[..., 0]
    return here - np.abs(y[..., 1] - level[..., 1]) - (y[..., 2] - level.sum(axis=-1)) ** 2


def student(y, mean):
    return stats.t(4, mean, 0.7).logpdf(y)


# name: emission, data, log-likelihood of a column y (W,) at a level (D,)
EMISSIONS: dict[str, tuple[Any, ch.Observations, Any]] = {
    "Gaussian": (
        ch.Gaussian(depth=[1.0, 2.0], sd=[0.5, 0.8]),
        DATA,
        lambda y, level: np.nansum(stats.norm(level * [1, 2], [0.5, 0.8]).logpdf(y)),
    ),
    "StudentT": (ch.StudentT(sd=0.7), DATA, lambda y, level: np.nansum(student(y, level))),
    "IntegratedDepth": (
        ch.IntegratedDepth(depth_sd=0.3, sd=0.5),
        DATA,
        lambda y, level: np.nansum(stats.norm(level, np.sqrt(0.25 + (0.3 * level) ** 2)).logpdf(y)),
    ),
    "Poisson": (
        ch.Poisson(depth=3.0, background=0.2),
        COUNTS,
        lambda y, level: sum(
            stats.poisson(3 * m + 0.2).logpmf(v) for v, m in zip(y, level, strict=True) if not np.isnan(v)
        ),
    ),
    "Custom": (
        ch.Custom(reads),
        ch.Observations(np.column_stack([np.nan_to_num(Y, nan=1.0), [1.0, 2.0, 3.0, 4.0, 5.0]]), starts=[2]),
        lambda y, level: float(reads(y, level)),
    ),
}


def sums(model: ch.FactorialHMM, data: ch.Observations, log_lik: Any) -> tuple[float, np.ndarray]:
    """log evidence and (K, T) probabilities of another state than 0, by going through all paths of each sequence."""
    rows = model.rows.rows
    adds = model.rows.contributions(model.emission.weights)
    states = list(itertools.product(*(range(r.n_states) if r.fixed is None else [r.fixed] for r in rows)))
    level = [sum(own[s] for own, s in zip(adds, state, strict=True)) for state in states]
    first, step = (
        np.prod(
            [
                np.ones((len(states), len(states)))
                if r.fixed is not None
                else r.chain.matrices(r.n_states, np.array([np.inf, 1.0]))[e][np.ix_(*[[s[k] for s in states]] * 2)]
                for k, r in enumerate(rows)
            ],
            axis=0,
        )
        for e in (0, 1)
    )
    seen = ~np.isnan(data.y).all(axis=1)
    lik = np.exp([[log_lik(y, own) if there else 0.0 for own in level] for y, there in zip(data.y, seen, strict=True)])
    log_evidence, share = 0.0, np.zeros((len(rows), data.n_columns))
    for start, stop in itertools.pairwise([*data.starts, data.n_columns]):
        total = 0.0
        for path in itertools.product(range(len(states)), repeat=int(stop - start)):
            weight = first[0, path[0]] * lik[start, path[0]]
            for t, (a, b) in enumerate(itertools.pairwise(path), start=start + 1):
                weight *= step[a, b] * lik[t, b]
            total += weight
            for t, s in enumerate(path, start=start):
                share[:, t] += weight * (np.array(states[s]) != 0)
        share[:, start:stop] /= total
        log_evidence += np.log(total)
    return log_evidence, share


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("emission", EMISSIONS)
def test_evidence_and_marginals_are_sums_over_all_paths(rows, emission):
    kind, data, log_lik = EMISSIONS[emission]
    model = ch.FactorialHMM(rows=ROWS[rows], emission=kind)
    log_evidence, share = sums(model, data, log_lik)
    assert ch.exact.log_evidence(model, data) == pytest.approx(log_evidence, abs=1e-10)
    np.testing.assert_allclose(ch.exact.marginals(model, data), share, atol=1e-10)
    best = ch.exact.map_states(model, data)
    assert ch.log_joint(model, data, best) >= max(
        ch.log_joint(model, data, path) for path in ch.exact.draws(model, data, 5, seed=1)
    )


def test_weights_multiply_values_in_every_shape():
    values = np.array([[0.0, 0.0], [1.0, 2.0]])
    one = ch.FactorialHMM(rows=[ch.Row(values, SWITCH)], emission=ch.Gaussian([3.0], sd=0.5))
    two = ch.FactorialHMM(rows=[ch.Row(values, SWITCH)], emission=ch.Gaussian([[3.0, 3.0]], sd=0.5))
    three = ch.FactorialHMM(rows=[ch.Row([0.0, 1.0], SWITCH)], emission=ch.Gaussian([[3.0, 6.0]], sd=0.5))
    four = ch.FactorialHMM(rows=ch.Switches(SWITCH.enter, SWITCH.leave), emission=ch.Gaussian([[3.0, 6.0]], sd=0.5))
    evidence = [ch.exact.log_evidence(model, DATA) for model in (one, two, three, four)]
    np.testing.assert_allclose(evidence, evidence[0], rtol=1e-13)


def test_runs_speak_of_channels(tmp_path):
    model = ch.FactorialHMM(rows=ROWS["three states"], emission=ch.Gaussian(sd=[0.5, 0.8]))
    y = model.simulate(20, seed=1)[1]
    assert y.shape == (20, 2)
    posterior = ch.sample(model, y, draws=10, chains=2, seed=1, progress=False, store=tmp_path / "run")
    level = posterior.levels()
    assert level.dims == ("chain", "draw", "site", "channel")
    clone, other = (row.values for row in ROWS["three states"])
    np.testing.assert_allclose(level, clone[posterior.states("clone")] + other[posterior.states(1)])
    posterior.summary()
    opened = ch.open_posterior(tmp_path / "run")
    assert repr(opened.model.rows.given) == repr(model.rows.given)
    np.testing.assert_array_equal(opened.model.emission.sd, [0.5, 0.8])
    assert ch.exact.log_evidence(opened.model, y) == ch.exact.log_evidence(model, y)
    assert ch.exact.log_evidence(model.at({}), y) == ch.exact.log_evidence(model, y)


def test_a_custom_function_sees_columns_of_any_width_and_no_missing_ones():
    seen = []

    def density(y, level):
        seen.append(y)
        return -((y[..., 0] + y[..., 1] - level) ** 2)

    model = ch.FactorialHMM(rows=[ch.Row([0, 1.0, 2.0], STICKY)], emission=ch.Custom(density))
    y = np.array([[0.5, 0.4], [NAN, NAN], [1.0, 1.1]])
    plain = ch.FactorialHMM(rows=[ch.Row([0, 1.0, 2.0], STICKY)], emission=ch.Custom(lambda y, v: -((y - v) ** 2)))
    assert ch.exact.log_evidence(model, y) == pytest.approx(ch.exact.log_evidence(plain, y.sum(axis=1)), abs=1e-12)
    assert not any(np.isnan(part).any() for part in seen)


def test_parameters_of_channels_are_learned_from_all_of_them():
    """Sums over columns that learning uses equal those of the likelihood itself."""
    group = np.array([0, 1, 1, 0, 2])
    level = np.array([[1.0, 1.0], [2.0, 0.5], [0.5, 2.0]])
    kinds = (ch.Gaussian(sd=0.5), ch.StudentT(sd=0.7), ch.IntegratedDepth(depth_sd=0.3, sd=0.5), ch.Poisson(depth=3.0))
    for kind in kinds:
        emission = kind.for_rows(2, 2)
        y = COUNTS.y if isinstance(kind, ch.Poisson) else Y
        wanted = emission.log_likelihood(y, level)[np.arange(5), group].sum()
        assert emission.summed(emission.summarise(y, group, 3), level) == pytest.approx(wanted, rel=1e-12)


REFUSED: dict[str, tuple[Any, str]] = {
    "widths": (
        lambda: [ch.Row([0, 1], SWITCH, "a"), ch.Row(COPIES, STICKY, "b")],
        "same channels: row 'a' has none, row 'b' 2",
    ),
    "two and three": (
        lambda: [ch.Row(np.eye(2), SWITCH), ch.Row(np.ones((2, 3)), SWITCH)],
        "row 'row_0' has 2, row 'row_1' 3",
    ),
    "cubes": (lambda: [ch.Row(np.ones((2, 2, 2)), SWITCH)], r"one per state, or \(states, channels\)"),
    "no channel": (lambda: [ch.Row(np.ones((2, 0)), SWITCH)], "at least two finite values"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_values_that_do_not_fit_are_refused(name):
    make, message = REFUSED[name]
    with pytest.raises(InvalidInput, match=message):
        ch.FactorialHMM(rows=make(), emission=ch.Gaussian(sd=1.0))


@pytest.mark.parametrize(
    ("emission", "message"),
    [
        (ch.Gaussian(sd=[1.0, 1.0, 1.0]), r"sd has shape \(3,\), expected a number or 2 numbers"),
        (ch.Gaussian(np.ones((2, 3))), "weights have 3 channels and the values of the rows 2"),
        (ch.Gaussian(np.ones(3)), "has 3 weights and the model 2 rows"),
    ],
)
def test_emissions_that_do_not_fit_the_rows_are_refused(emission, message):
    with pytest.raises(InvalidInput, match=message):
        ch.FactorialHMM(rows=ROWS["three states"], emission=emission)


def test_data_of_another_width_are_refused():
    model = ch.FactorialHMM(rows=ROWS["three states"], emission=ch.Gaussian(sd=1.0))
    with pytest.raises(InvalidInput, match=r"Gaussian with these rows needs y of shape \(T, 2\), got \(3,\)"):
        ch.exact.log_evidence(model, np.zeros(3))

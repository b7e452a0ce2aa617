"""Gradients of the log evidence: against differences, for every parameter of every emission and chain."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import chiasma as ch
from chiasma.exact.gradients import evidence_slopes
from chiasma.exact.passes import Passes
from chiasma.kernels import expectations
from chiasma.kernels import priors as prior_kernel
from chiasma.kernels.expectations import add_weighted
from chiasma.kernels.layout import make_layout
from chiasma.kernels.transitions import Matrices
from chiasma.models.additive import Additive
from chiasma.models.axes import Group
from chiasma.models.emissions import EMISSIONS
from chiasma.models.observations import Observations
from chiasma.models.parameters import Parameters
from chiasma.models.priors import PRIORS

N_COLUMNS = 14
GAPS = np.resize([1.0, 2.5, 1.0, 7.0], N_COLUMNS - 1)


def derivative(function, x: float, step: float) -> float:
    """Of fourth order: its error is far below what is asked for."""
    near = function(x + step) - function(x - step)
    far = function(x + 2 * step) - function(x - 2 * step)
    return (8 * near - far) / (12 * step)


def check_gradient(model: ch.FactorialHMM, data: Observations, beta: float, seed: int = 0) -> None:
    """Every derivative at a draw from the prior, to 1e-6 of the largest of its parameter."""
    parameters = model.parameters
    rng = np.random.default_rng(seed)
    values = parameters.sample(rng)
    named = parameters.unpack(values)
    value, gradient = ch.exact.value_and_gradient(model, data, named, beta)

    def log_density(at: np.ndarray) -> float:
        whole = ch.exact.log_evidence(model.at(parameters.unpack(at)), data, beta)
        return whole + sum(
            slot.prior.log_density(at[slot.values].reshape(slot.prior.shape)) for slot in parameters.slots
        )

    assert value == pytest.approx(log_density(values), rel=1e-11)
    flat = np.concatenate([np.ravel(gradient[slot.name]) for slot in parameters.slots])
    found, expected = [], []
    for slot in parameters.slots:
        for direction in directions(slot.prior):
            whole = np.zeros(len(values))
            whole[slot.values] = direction
            size = np.abs(values[slot.values]).min()
            ahead = partial(lambda t, whole: log_density(values + t * whole), whole=whole)
            expected.append(derivative(ahead, 0.0, 1e-3 * min(size, 1.0)))
            found.append(flat @ whole)
            assert found[-1] == pytest.approx(expected[-1], rel=1e-6, abs=1e-6 * np.abs(flat[slot.values]).max())
    assert np.abs(found).min() > 0  # every parameter has a say here


def directions(prior) -> list[np.ndarray]:
    """Single entries, or for values that add up to 1 those of pairs."""
    size = int(np.prod(prior.shape, dtype=int))
    if not isinstance(prior, ch.Dirichlet | ch.DirichletRows):
        return list(np.eye(size))
    row = np.eye(size).reshape(size, -1, prior.shape[-1])
    return [(row[i] - row[i + 1]).ravel() for i in range(size - 1) if (i + 1) % prior.shape[-1]]


def emission_of(kind: str, n_rows: int) -> ch.Gaussian:
    """With a prior for everything that can be learned."""
    ones = np.ones(n_rows)
    weights = ch.Gamma(3 * ones, 3)
    return {
        "gaussian": lambda: ch.Gaussian(ch.Dirichlet(2 * ones), ch.Normal(3, 0.5), ch.LogNormal(0, 0.3)),
        "student-t": lambda: ch.StudentT(weights, ch.Normal(2, 0.3), ch.LogNormal(0, 0.3), ch.Gamma(4, 1)),
        "integrated-depth": lambda: ch.IntegratedDepth(
            weights, ch.Normal(3, 0.5), ch.Uniform(0.2, 0.6), ch.HalfNormal(1)
        ),
        "poisson": lambda: ch.Poisson(ch.Dirichlet(2 * ones), ch.Gamma(4, 1), ch.HalfNormal(0.5)),
        "negative-binomial": lambda: ch.NegativeBinomial(
            weights, ch.Gamma(4, 1), ch.LogNormal(-1, 0.3), ch.HalfNormal(1)
        ),
        "channels": lambda: ch.Gaussian(
            ch.Normal(np.ones((n_rows, 2)), 0.5), ch.Normal([2, 3], 0.3), ch.LogNormal([0, 0.2], 0.3)
        ),
        "custom": lambda: ch.Custom(lambda y, level: -0.5 * (y - 2 * level) ** 2, weights=weights),
        "derivative": lambda: ch.Custom(
            lambda y, level: -0.5 * (y - 2 * level) ** 2, weights, lambda y, level: 2 * (y - 2 * level)
        ),
    }[kind]()


def data_of(kind: str, gaps: bool = True, seed: int = 1) -> Observations:
    """Two sequences with gaps and missing values."""
    rng = np.random.default_rng(seed)
    shape = (N_COLUMNS, 2) if kind == "channels" else (N_COLUMNS,)
    y = rng.poisson(3, shape).astype(float) if kind in ("poisson", "negative-binomial") else rng.normal(2, 2, shape)
    y[[3, 9]] = np.nan
    if kind == "channels":
        y[5, 1] = np.nan
    return Observations(y, starts=[6], gaps=GAPS if gaps else None)


CHAINS = {
    "one for all": lambda: ch.Switches(ch.Beta(2, 8), ch.Beta(2, 6), ch.Beta(2, 3)),
    "one per row": lambda: ch.Switches(ch.Beta([2, 3, 4], 20), ch.Beta([2, 2, 3], 15), ch.Beta([2, 2, 2], 3)),
    "stationary": lambda: ch.Switches(ch.Beta([2, 3, 4], 20), ch.Beta(2, 8)),
}


# ---- Whole gradients ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [0.3, 1.0])
@pytest.mark.parametrize("kind", [*EMISSIONS, "channels", "custom", "derivative"])
def test_gradient__of_every_parameter(kind, beta):
    """With gaps, two sequences, missing values and a fixed row."""
    model = ch.FactorialHMM(rows=CHAINS["stationary"](), emission=emission_of(kind, 3), fixed={1: 1})
    check_gradient(model, data_of(kind), beta)


@pytest.mark.parametrize("gaps", [True, False])
@pytest.mark.parametrize("chains", CHAINS)
def test_gradient__of_every_chain(chains, gaps):
    model = ch.FactorialHMM(rows=CHAINS[chains](), emission=emission_of("gaussian", 3))
    check_gradient(model, data_of("gaussian", gaps), 0.7, seed=3)


def test_gradient__of_a_table():
    rng = np.random.default_rng(2)
    model = ch.FactorialHMM(rows=CHAINS["one for all"](), emission=ch.Table(rng.normal(size=(N_COLUMNS, 8))))
    check_gradient(model, Observations(np.zeros(N_COLUMNS), gaps=GAPS), 1.0)


def test_gradient__where_transitions_are_next_to_impossible():
    """Passes in logarithms: rows that hardly ever move."""
    model = ch.FactorialHMM(
        rows=ch.Switches([1e-130, 0.1], [1e-130, 0.2], 0.4),
        emission=ch.Gaussian(ch.Gamma([3, 3], 3), ch.Normal(3, 0.5), ch.HalfNormal(1)),
    )
    data = data_of("gaussian", gaps=False)
    at = model.with_unchecked_values(model.parameters.unpack(model.parameters.centre))
    assert not Passes(at.target(data), 1.0).linear
    check_gradient(model, data, 1.0)


def test_gradient__does_not_depend_on_the_memory():
    model = ch.FactorialHMM(rows=CHAINS["stationary"](), emission=emission_of("student-t", 3))
    data = Observations(np.random.default_rng(3).normal(2, 2, 400), starts=[100])
    value, gradient = ch.exact.value_and_gradient(model, data)
    little = 8 * 8 * 60
    at = model.with_unchecked_values(model.parameters.unpack(model.parameters.centre))
    assert Passes(at.target(data), 1.0, memory=little).n_segments > 5
    again, cut = ch.exact.value_and_gradient(model, data, memory=little)
    assert again == pytest.approx(value, rel=1e-13)
    for name, slope in gradient.items():
        np.testing.assert_allclose(cut[name], slope, rtol=1e-10)


def test_gradient__without_data_is_that_of_the_prior():
    model = ch.FactorialHMM(rows=CHAINS["one for all"](), emission=emission_of("gaussian", 3))
    value, gradient = ch.exact.value_and_gradient(model, data_of("gaussian"), beta=0.0)
    assert value == pytest.approx(model.parameters.log_prior(model.parameters.centre))
    np.testing.assert_allclose(gradient["depth"], 0.0, atol=1e-12)


def test_gradient__refuses():
    plain = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0]))
    with pytest.raises(ch.InvalidInput, match="a gradient needs parameters with priors, got none"):
        ch.exact.value_and_gradient(plain, [1.0])

    class Own(ch.Normal):
        pass

    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0], depth=Own(1, 1)))
    with pytest.raises(ch.InvalidInput, match=r"the prior of depth, Own\(1, 1\), has no gradient; use one of Normal"):
        ch.exact.value_and_gradient(model, [1.0])
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(1)))
    with pytest.raises(ch.InvalidInput, match="excludes the start -1"):
        ch.exact.value_and_gradient(model, [1.0], {"sd": -1.0})
    wrong = ch.Custom(lambda y, level: -((y - level) ** 2), ch.Gamma([2, 2], 2), lambda y, level: np.zeros(3))
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=wrong)
    with pytest.raises(ch.InvalidInput, match=r"derivative must return numbers of shape \(2, 4\), got shape \(3,\)"):
        ch.exact.value_and_gradient(model, [1.0, 2.0])


ROWS = {
    "states": lambda: [
        ch.Row(ch.Normal([0, 1, 2], 0.3), ch.Sticky(ch.Beta(2, 8), ch.Dirichlet([2, 3, 4])), "a"),
        ch.Row([0, 1, 3], ch.Markov([ch.Dirichlet([8, 1, 1]), ch.Dirichlet([1, 8, 2]), ch.Dirichlet([2, 1, 9])]), "b"),
        ch.Row([0, 1], fixed=1, name="baseline", weight=ch.Normal(1, 0.5)),
    ],
    "a group": lambda: [
        ch.Row([0, 1], ch.Switch(ch.Beta(2, 8), ch.Beta(2, 6), ch.Beta(2, 2)), "a", copies=3, weight=ch.Gamma(4, 4)),
        ch.Row(ch.LogNormal([-1, 0], 0.3), ch.Switch(0.2, ch.Beta(2, 5)), "b"),
    ],
    "a group of states": lambda: [
        ch.Row([0, 1, 2], ch.Sticky(ch.Beta(2, 8), initial=ch.Dirichlet([1, 2, 3])), copies=2, weight=ch.Gamma(4, 4))
    ],
    "shared": lambda: [
        ch.Row([0, 1], ch.Switch(ch.Beta(2, 8).shared("enter"), 0.2), weight=ch.Gamma(4, 4).shared("step")),
        ch.Row([0, 1, 2], ch.Sticky(0.2), weight=ch.Gamma(4, 4).shared("step")),
        ch.Row([0, 3], ch.Switch(ch.Beta(2, 8).shared("enter"), 0.3)),
    ],
    "binary": lambda: [
        ch.Row([1, 3], ch.Switch(ch.Beta(2, 8), 0.2), "a"),
        ch.Row([0, 2], ch.Switch(0.3, ch.Beta(2, 8)), "b", weight=ch.Normal(1, 0.2)),
    ],
    "channels": lambda: [
        ch.Row(ch.Normal([[0, 1], [1, 0], [2, 1]], 0.2), ch.Sticky(ch.Beta(2, 8)), "a"),
        ch.Row([[0, 0], [1, 2]], ch.Switch(0.2, 0.3), "b", weight=ch.Normal(1, 0.2)),
    ],
}


@pytest.mark.parametrize("beta", [0.3, 1.0])
@pytest.mark.parametrize("kind", ROWS)
def test_gradient__of_rows(kind, beta):
    """Values, weights and chains of rows with any number of states, of groups, and of parameters that rows share."""
    sd = ch.LogNormal([0, 0.1], 0.3) if kind == "channels" else ch.LogNormal(0, 0.3)
    model = ch.FactorialHMM(rows=ROWS[kind](), emission=ch.Gaussian(depth=ch.Normal(2, 0.3), sd=sd))
    y = data_of(kind).y
    gaps = np.where(GAPS == 2.5, 3.0, GAPS) if kind == "states" else GAPS
    check_gradient(model, Observations(y, starts=[6], gaps=gaps), beta)


def test_gradient__of_weights_of_rows():
    """One weight of the emission per row, beside learned values."""
    rows = [ch.Row([0, 1, 2], ch.Sticky(ch.Beta(2, 8)), copies=2), ch.Row(ch.Normal([0, 1], 0.3), ch.Switch(0.2, 0.3))]
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(ch.Gamma([3, 3, 3], 3), sd=ch.HalfNormal(1)))
    at = model.with_unchecked_values(model.parameters.unpack(model.parameters.centre))
    assert len(at.target(data_of("gaussian")).axes) == 3  # copies with weights of their own are no group
    check_gradient(model, data_of("gaussian"), 1.0)


# ---- Parts ----------------------------------------------------------------------------------------------------------


SOME_PRIORS = {
    "Normal": ch.Normal([1, 2], 0.5),
    "LogNormal": ch.LogNormal(0.3, [0.5, 1]),
    "HalfNormal": ch.HalfNormal(2),
    "Gamma": ch.Gamma([2, 3], 1.5),
    "Beta": ch.Beta(2, [3, 4]),
    "Uniform": ch.Uniform(-1, 3),
    "Dirichlet": ch.Dirichlet([1, 2, 3]),
    "DirichletRows": ch.DirichletRows([[2, 3, 1], [1, 1, 2], [3, 1, 1]]),
}


@pytest.mark.jit_off
@pytest.mark.parametrize("name", PRIORS)
def test_slopes__of_priors(name):
    """Between other priors, so that places are counted correctly."""
    parameters = Parameters({"a": SOME_PRIORS["Dirichlet"]}, {"b": SOME_PRIORS[name], "c": ch.HalfNormal(1)})
    free = parameters.to_free(parameters.sample(np.random.default_rng(4)))
    pull = np.random.default_rng(5).normal(size=parameters.n_values)

    def log_density(at: np.ndarray) -> float:
        values = parameters.from_free(at)
        return parameters.log_prior_free(values) + pull @ values

    units = np.eye(parameters.n_free)
    expected = [derivative(lambda t, unit=unit: log_density(free + t * unit), 0.0, 1e-3) for unit in units]
    np.testing.assert_allclose(parameters.free_slopes(parameters.from_free(free), pull), expected, rtol=1e-8, atol=1e-8)
    values = parameters.from_free(free)
    slopes = parameters.tangent(parameters.slopes(values))
    for slot in parameters.slots:
        for direction in directions(slot.prior):
            whole = np.zeros(parameters.n_values)
            whole[slot.values] = direction
            expected = derivative(lambda t, whole=whole: prior_density(parameters, values + t * whole), 0.0, 1e-4)
            assert slopes @ whole == pytest.approx(expected, rel=1e-7, abs=1e-7)


def prior_density(parameters, values):
    return sum(slot.prior.log_density(values[slot.values].reshape(slot.prior.shape)) for slot in parameters.slots)


def test_every_prior_has_slopes():
    kinds = {int(kind) for prior in SOME_PRIORS.values() for kind in prior.entries()[0]}
    assert kinds == set(range(prior_kernel.SIMPLEX_END + 1))


@pytest.mark.parametrize("kind", EMISSIONS)
def test_summed_slopes__are_sums_of_slopes(kind):
    """The shortcuts of every emission against the plain sum over columns and states."""
    emission = emission_of(kind, 3).with_unchecked_values(
        {name: prior.sample(np.random.default_rng(6)) for name, prior in emission_of(kind, 3).priors.items()}
    )
    rng = np.random.default_rng(7)
    y, level, weights = data_of(kind).y, rng.uniform(0.2, 3, 8), rng.dirichlet(np.ones(8), N_COLUMNS)
    names = [name for name in emission.arguments if name != "weights"]
    found = emission.summed_slopes(y, level, weights, names)
    for name in ("level", *names):
        total = 0.0
        for t in np.flatnonzero(~np.isnan(y)):
            slope = emission.slopes(y[t : t + 1, None], level, names)[name] * weights[t]
            total = total + (slope[0] if name == "level" else slope.sum())
        np.testing.assert_allclose(found[name], total, rtol=1e-9)


@pytest.mark.parametrize("kind", EMISSIONS)
def test_slopes__of_emissions_are_derivatives(kind):
    """Against the fallback, which takes differences of the density; at large parameters, where series serve, too."""
    emission = emission_of(kind, 3)
    rng = np.random.default_rng(8)
    emission = emission.with_unchecked_values({name: prior.sample(rng) for name, prior in emission.priors.items()})
    names = [name for name in emission.arguments if name != "weights"]
    y, level = rng.poisson(3.0, (6, 1)).astype(float), rng.uniform(0.2, 3, 5)
    for large in (False, True):
        if large and kind == "student-t":
            emission.df = np.array(4e3)
        if large and kind == "negative-binomial":
            emission.dispersion = np.array(1e-4)
        expected = Additive.slopes(emission, y, level, names)
        found = emission.slopes(y, level, names)
        for name in ("level", *names):
            scale = np.abs(found[name]).max()
            np.testing.assert_allclose(found[name] + 0 * y, expected[name] + 0 * y, atol=2e-5 * max(scale, 1e-2))


@pytest.mark.parametrize(("n_rows", "n_states"), [(1, 2), (2, 2), (4, 2), (2, 3), (3, 3)])
def test_group__lumps_derivatives(n_rows, n_states):
    rng = np.random.default_rng(9)
    group = Group(n_rows, n_states)
    matrices = rng.dirichlet(np.ones(n_states), (2, n_states))
    weights = rng.normal(size=(2, group.size, group.size))
    found = group.lump_slopes(matrices, weights)
    for place in np.ndindex(matrices.shape):
        unit = np.zeros_like(matrices)
        unit[place] = 1.0
        expected = derivative(lambda t, unit=unit: np.sum(weights * group.lump(matrices + t * unit)), 0.0, 1e-2)
        assert found[place] == pytest.approx(expected, rel=1e-8, abs=1e-10)


ROW_CHAINS = {
    "switch": (2, ch.Switch(0.2, 0.3, 0.4), ("enter", "leave", "initial")),
    "stationary switch": (2, ch.Switch(0.2, 0.3), ("enter", "leave")),
    "rare switch": (2, ch.Switch(2e-6, 3e-6), ("enter", "leave")),
    "sticky": (3, ch.Sticky(0.2, [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]), ("renew", "probabilities", "initial")),
    "stationary sticky": (3, ch.Sticky(0.2, [0.5, 0.3, 0.2]), ("renew", "probabilities")),
    "markov": (
        3,
        ch.Markov([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4]], [0.2, 0.2, 0.6]),
        ("transition", "initial"),
    ),
    "stationary markov": (3, ch.Markov([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4]]), ("transition",)),
}


@pytest.mark.parametrize("kind", ROW_CHAINS)
def test_row_chain__derivatives_of_matrices(kind):
    size, chain, names = ROW_CHAINS[kind]
    gaps = np.array([np.inf, 1.0, 3.0, 7.0] if "markov" in kind else [np.inf, 1.0, 2.5, 40.0])
    weights = np.random.default_rng(10).normal(size=(4, size, size))
    found = chain.slopes(size, gaps, weights)
    for name in names:
        value = getattr(chain, name)
        tangent = [np.ones(())] if value.ndim == 0 else directions(ch.Dirichlet(np.ones(size)))
        if value.ndim == 2:
            tangent = directions(ch.DirichletRows(np.ones((size, size))))
        for direction in tangent:
            step = np.reshape(direction, value.shape)

            def moved(t, name=name, value=value, step=step):
                return np.sum(weights * type(chain)(**arguments(chain) | {name: value + t * step}).matrices(size, gaps))

            width = 1e-3 * float(np.min(np.abs(value)))
            expected = derivative(moved, 0.0, width)
            assert np.sum(found[name] * step) == pytest.approx(expected, rel=1e-6, abs=1e-8)


def arguments(chain):
    return {name: getattr(chain, name) for name in chain.arguments if getattr(chain, name) is not None}


def test_row_chain__markov_needs_whole_gaps():
    with pytest.raises(ch.InvalidInput, match=r"a learned transition matrix needs gaps of whole numbers, got 2\.5"):
        ROW_CHAINS["markov"][1].slopes(3, np.array([np.inf, 2.5]), np.zeros((2, 3, 3)))


@pytest.mark.jit_off
@pytest.mark.parametrize("n_rows", [1, 2, 3, 4, 5])
def test_binary_moves__are_the_expected_moves(n_rows):
    """The kernel of binary rows against that of rows with any number of states, whole and in pieces."""
    alpha, trans, edge, _, expected, smoothed = expected_of((2,) * n_rows)
    counts, gamma, scratch = np.zeros_like(trans), np.empty(1 << n_rows), np.empty((n_rows + 1, 1 << n_rows))
    by_row = trans.reshape(len(trans), n_rows, 4)
    for a, b in ((5, 9), (0, 5)):
        expectations.count_block(by_row, alpha[a:b], edge, a, gamma, alpha[a:b], counts, scratch)
    np.testing.assert_allclose(counts, expected, rtol=1e-10)
    np.testing.assert_allclose(alpha, smoothed, rtol=1e-10)


def expected_of(sizes):
    """Some messages, and what the kernel of rows with any number of states makes of them."""
    rng = np.random.default_rng(11)
    layout = make_layout(sizes)
    n_states, n_columns = int(np.prod(sizes)), 9
    rows = [rng.dirichlet(np.ones(size), (3, size)) for size in sizes]
    for row in rows:
        row[0] = row[0, 0]  # at a start, all rows of a matrix are the initial distribution
    trans = np.concatenate([row.reshape(3, -1) for row in rows], axis=1)
    edge = np.array([0, 1, 2, 1, 0, 1, 1, 2, 1], np.int32)
    alpha = rng.dirichlet(np.ones(n_states), n_columns)
    counts, smoothed, scratch = np.zeros_like(trans), alpha.copy(), np.empty((len(sizes) + 1, n_states))
    expectations.count_block(Matrices(trans, layout), smoothed, edge, 0, np.empty(n_states), smoothed, counts, scratch)
    return alpha, trans, edge, layout, counts, smoothed


@pytest.mark.jit_off
@pytest.mark.parametrize("sizes", [(2,), (2, 2, 2), (3, 2), (2, 3, 2)])
def test_expected_moves__in_logarithms(sizes):
    """The same counts and smoothed distributions as the linear kernel, whole and in pieces."""
    alpha, trans, edge, layout, expected, smoothed = expected_of(sizes)
    counts, gamma, found = np.zeros_like(trans), np.empty(alpha.shape[1]), np.log(alpha)
    scratch = np.empty((len(sizes) + 1, alpha.shape[1]))
    for a, b in ((5, 9), (0, 5)):
        piece = found[a:b]
        expectations.log_count_block(Matrices(np.log(trans), layout), piece, edge, a, gamma, piece, counts, scratch)
    np.testing.assert_allclose(counts, expected, rtol=1e-10)
    np.testing.assert_allclose(found, smoothed, rtol=1e-10)


@pytest.mark.jit_off
def test_weighted_sums():
    rng = np.random.default_rng(12)
    weights, features = rng.random((7, 5)), rng.normal(size=(7, 3))
    out = np.ones((3, 5))
    add_weighted(weights, features, out)
    np.testing.assert_allclose(out, 1.0 + features.T @ weights)


def test_slopes__count_every_move_once():
    """Expected moves weighted by their probabilities add up to the columns: for every row, the derivative with respect
    to a common factor of its matrices is the number of columns.
    """
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.2, 0.3), emission=ch.Gaussian([1.0, 2.0]))
    data = data_of("gaussian")
    target = model.target(data)
    found = evidence_slopes(model, data, 1.0, 2**20, ())
    for k, slope in enumerate(found.by_matrix):
        assert np.sum(slope * target.trans[:, k].reshape(slope.shape)) == pytest.approx(N_COLUMNS)

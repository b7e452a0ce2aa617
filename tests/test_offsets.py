"""Offsets: bases, priors, solves, gradients, evidence and the search, against dense algebra and integration."""

import numpy as np
import pytest
import scipy
from scipy.stats import multivariate_normal

import chiasma as ch
from chiasma.errors import InvalidInput
from chiasma.kernels import offsets as kernel
from chiasma.models.hum import find_mains
from chiasma.models.observations import Observations
from chiasma.models.offsets import Offset, bind
from chiasma.sampling.excerpts import evenly, stretches
from chiasma.sampling.offset_search import best_path

T = 90


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = rng.normal(size=T) + np.r_[np.linspace(0, 2, 60), np.zeros(30)]
    y[5] = np.nan
    return Observations(y, starts=[50], gaps=rng.integers(1, 3, T - 1), step=0.01, unit="s")


@pytest.fixture
def terms():
    rng = np.random.default_rng(1)
    return [
        ch.Smooth(knots=12),
        ch.Periodic(3.0, knots=8, harmonics=[1, 3]),
        ch.Covariates(rng.normal(size=(T, 2)), names=["gc", "hour"]),
    ]


def smoothness(bound, seed=0):
    rng = np.random.default_rng(seed)
    return {
        name: np.exp(rng.normal(size=prior.shape))
        for name, prior in bound.priors.items()
        if name.endswith("smoothness")
    }


def design(bound):
    return np.array([bound.curve(unit) for unit in np.eye(bound.n_coefficients)]).T


def precision(bound, at):
    """(M, M) of the prior, from its definition."""
    blocks = []
    for own in bound.bound:
        block = np.eye(own.size) / own.scale**2
        if own.n_smoothness:
            each = np.repeat(np.ravel(at[own.smoothness_name]), own.smoothed)
            block += scipy.linalg.block_diag(*(own_lambda * own.differences for own_lambda in each))
        blocks.append(block)
    return scipy.linalg.block_diag(*blocks)


def test_kernels_agree_with_matrices():
    rng = np.random.default_rng(2)
    place = np.sort(np.array([rng.choice(6, 3, replace=False) for _ in range(20)]), axis=1).astype(np.int32)
    value, signal = rng.normal(size=(20, 3)), rng.normal(size=20)
    matrix = np.zeros((20, 6))
    np.put_along_axis(matrix, place, value, axis=1)
    out, sums, gram = np.empty(20), np.zeros(6), np.zeros((6, 6))
    kernel.combine(place, value, np.arange(6.0), out)
    kernel.project(place, value, signal, sums)
    weights = np.abs(signal) * (np.arange(20) != 4)
    kernel.gram(place, value, weights, gram)
    np.testing.assert_allclose(out, matrix @ np.arange(6.0))
    np.testing.assert_allclose(sums, matrix.T @ signal)
    np.testing.assert_allclose(gram, np.tril(matrix.T * weights @ matrix))


def test_splines_are_partitions_of_one_and_know_their_sequence(data):
    bound = bind([ch.Smooth(knots=12)], data)
    matrix = design(bound)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0)
    assert not np.any(matrix[:50].any(axis=0) & matrix[50:].any(axis=0))  # a start restarts the drift
    (own,) = bound.bound
    line = np.concatenate(
        [np.arange(m, dtype=float) for m in np.unique(matrix[[0, -1]].nonzero()[0], return_counts=True)[1]]
    )
    assert own.rank == own.shape[-1] - 4  # a constant and a line of either sequence are free
    assert len(line)


def test_hum_has_its_phase_and_harmonics(data):
    bound = bind([ch.Periodic(3.0, knots=4, harmonics=[1, 3])], data)
    wave = np.cos(2 * np.pi * 9.0 * data.times + 0.7)
    residual = wave - design(bound) @ np.linalg.lstsq(design(bound), wave, rcond=None)[0]
    assert np.abs(residual).max() < 1e-9


def test_the_prior_is_that_of_its_precision(data, terms):
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0]), offset=terms).for_data(data)
    bound, parameters = model.offset.bound, model.parameters
    at = smoothness(bound)
    rng = np.random.default_rng(3)
    coefficients = rng.normal(size=bound.n_coefficients)
    named = at | bound.named(coefficients)
    values = np.concatenate([np.ravel(named[name]) for name in parameters.names])
    wanted = multivariate_normal(np.zeros(len(coefficients)), np.linalg.inv(precision(bound, at))).logpdf(coefficients)
    wanted += sum(prior.log_density(at[name]) for name, prior in bound.priors.items() if name in at)
    assert parameters.log_prior(values) == pytest.approx(wanted, rel=1e-9)

    class Units:  # a generator whose normal numbers are one unit vector after the other
        def standard_normal(self, shape):
            return self.unit[: int(np.prod(shape))].reshape(shape)

    rng = Units()
    covariance = np.linalg.inv(precision(bound, at))
    first = bound.bound[0]
    roots = []
    for rng.unit in np.eye(first.size):
        rng.unit = np.concatenate([rng.unit, np.zeros(100)])
        roots.append(bound.sample(at, rng)[first.name])
    drawn = np.array(roots).T
    np.testing.assert_allclose(drawn @ drawn.T, covariance[: first.size, : first.size], rtol=1e-7, atol=1e-9)


def test_banded_solve_agrees_with_dense_algebra(data, terms):
    bound = bind(terms, data)
    rng = np.random.default_rng(4)
    weights, residual = rng.random(T), rng.normal(size=T)
    at = smoothness(bound)
    solved = bound.solve(at, weights, weights * residual)
    matrix = design(bound)
    whole = precision(bound, at) + matrix.T * weights @ matrix
    np.testing.assert_allclose(
        solved.mean, np.linalg.solve(whole, matrix.T @ (weights * residual)), rtol=1e-7, atol=1e-9
    )
    assert solved.log_det == pytest.approx(np.linalg.slogdet(whole)[1])
    np.testing.assert_allclose(solved.covariance(), np.linalg.inv(whole), rtol=1e-6, atol=1e-9)
    roots = solved.spread(np.eye(len(whole)))
    np.testing.assert_allclose(roots @ roots.T, np.linalg.inv(whole), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(solved.spread_transposed(solved.mean), roots.T @ solved.mean, rtol=1e-7, atol=1e-9)
    noise = rng.normal(size=len(whole))
    np.testing.assert_allclose(solved.draw(noise), solved.mean + roots @ noise)
    # A solve that forgets the precisions of the columns is another one.
    forgotten = bound.solve(at, np.ones(T), residual)
    assert np.abs(forgotten.mean - solved.mean).max() > 1e-2


EMISSIONS = {
    "gaussian": ch.Gaussian([1.0, 2.0], sd=ch.HalfNormal(1)),
    "student-t": ch.StudentT([1.0, 2.0], sd=ch.HalfNormal(1), df=ch.Gamma(2, 1)),
    "integrated": ch.IntegratedDepth([1.0, 2.0], depth_mean=1.0, depth_sd=0.3, sd=ch.HalfNormal(1)),
}


@pytest.mark.parametrize("name", EMISSIONS)
@pytest.mark.parametrize("beta", [1.0, 0.4])
def test_gradients(data, terms, name, beta):
    model = ch.FactorialHMM(rows=ch.Switches(ch.Beta(1, 9), 0.1), emission=EMISSIONS[name], offset=terms)
    density = ch.exact.log_density(model, data, beta)
    bound = density.model.offset.bound
    x = density.start(smoothness(bound)) + np.random.default_rng(5).normal(size=density.size) * 0.3
    value, slope = density.value_and_gradient(x)
    assert np.isfinite(value)
    for i, unit in enumerate(np.eye(density.size)):
        step = 1e-4 * unit
        assert slope[i] == pytest.approx((density(x + step) - density(x - step)) / 2e-4, rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("name", EMISSIONS)
def test_precisions_majorise(name):
    """The normal density of `pull` touches the density of y, and lies below it nowhere near: an EM step never loses."""
    emission = EMISSIONS[name].with_unchecked_values(
        {key: prior.centre for key, prior in EMISSIONS[name].priors.items()}
    )
    y, level = np.linspace(-3, 3, 13)[:, None], np.array([0.0, 1.5])
    slope, weight = emission.pull(y, level)
    step = 1e-5
    numeric = (emission.log_density(y - step, level) - emission.log_density(y + step, level)) / (2 * step)
    np.testing.assert_allclose(slope, numeric, atol=1e-6)
    for shift in (-0.7, 0.2, 1.1):
        away = emission.log_density(y - shift, level) - emission.log_density(y, level)
        assert np.all(away >= slope * shift - 0.5 * weight * shift**2 - 1e-9)


def test_known_values_are_subtracted():
    rng = np.random.default_rng(6)
    y, curve = rng.normal(size=30), rng.normal(size=30)
    plain = ch.FactorialHMM(rows=ch.Switches(0.1, 0.2), emission=ch.Gaussian([1.0, 2.0]))
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.2), emission=ch.Gaussian([1.0, 2.0]), offset=curve)
    assert ch.exact.log_evidence(model, y) == pytest.approx(ch.exact.log_evidence(plain, y - curve))
    np.testing.assert_array_equal(ch.exact.map_states(model, y), ch.exact.map_states(plain, y - curve))
    states = np.zeros((2, 30), int)
    assert ch.log_joint(model, y, states) == pytest.approx(ch.log_joint(plain, y - curve, states))
    np.testing.assert_allclose(model.simulate(30, seed=1)[1], plain.simulate(30, seed=1)[1] + curve)
    with pytest.raises(InvalidInput, match="shape of the signal"):
        ch.exact.log_evidence(model, y[:-1])


def test_laplace_evidence_agrees_with_integration():
    """One coefficient, everything else known: the evidence is an integral over a line."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=40)
    plain = ch.FactorialHMM(rows=ch.Switches(0.1, 0.2), emission=ch.Gaussian([1.0, 2.0], sd=0.4))
    y = plain.simulate(40, seed=2)[1] + 0.8 * x
    model = ch.FactorialHMM(
        rows=ch.Switches(0.1, 0.2), emission=ch.Gaussian([1.0, 2.0], sd=0.4), offset=ch.Covariates(x, scale=2.0)
    )
    best = ch.optimise(model, y, starts=4, seed=1, progress=False).best
    density = ch.exact.log_density(model, y)
    at = np.linspace(-0.5, 2.0, 501)
    exact = scipy.special.logsumexp([density(np.array([c])) for c in at]) + np.log(at[1] - at[0])
    assert best.log_evidence == pytest.approx(exact, abs=0.1)
    assert best.model.offset.coefficients[0] == pytest.approx(at[np.argmax([density([c]) for c in at])], abs=0.01)


@pytest.fixture(scope="module")
def drifting():
    """Two rows under a drift larger than their steps, and a hum."""
    plain = ch.FactorialHMM(rows=ch.Switches(0.02, 0.03), emission=ch.Gaussian([1.0, 0.6], sd=0.25))
    states, y = plain.simulate(3000, seed=3)
    t = np.arange(3000) / 3000
    return states, y + 2 * np.sin(5 * t) + 0.5 * np.cos(2 * np.pi * 150 * t)


def test_a_drift_and_a_hum_are_found(drifting):
    states, y = drifting
    model = ch.FactorialHMM(
        rows=ch.Switches(ch.Beta(1, 20), ch.Beta(1, 20)),
        emission=ch.Gaussian(ch.Gamma([2.0, 2.0], 2.0), sd=ch.HalfNormal(1)),
        offset=[ch.Smooth(knots=15), ch.Periodic(0.05, knots=6)],
    )
    best = ch.optimise(model, y, starts=16, seed=1, progress=False).best
    np.testing.assert_allclose(np.sort(best.values["weights"]), [0.6, 1.0], atol=0.05)
    sure = ch.exact.marginals(best.model, y)
    on = states[::-1] if best.values["weights"][0] < best.values["weights"][1] else states
    right = ((sure > 0.5) == on).mean()
    promised = np.maximum(sure, 1 - sure).mean()
    assert right > 0.97
    assert abs(right - promised) < 0.015
    assert not best.model.parameters


def test_mains_are_found_or_not():
    rng = np.random.default_rng(8)
    t = np.arange(20_000) * 1e-3
    y = rng.normal(size=20_000)
    assert find_mains(Observations(y, step=1, unit="ms")).frequency is None
    hum = find_mains(
        Observations(y + 0.3 * np.sin(2 * np.pi * 60 * t) + 0.2 * np.cos(2 * np.pi * 180 * t), step=1, unit="ms")
    )
    assert hum.frequency == pytest.approx(0.06)
    assert hum.harmonics == [1, 3]
    silent = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0]), offset=[ch.Periodic("mains")])
    bound = silent.for_data(Observations(y, step=1e-3))
    assert not bound.learns
    assert bound.offset.bound.found


def test_counts_and_tables_refuse_an_offset():
    for emission in (ch.Poisson([1.0]), ch.Table(np.zeros((3, 2)))):
        with pytest.raises(InvalidInput, match="cannot have an offset"):
            ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=emission, offset=[ch.Smooth()])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ch.Smooth(knots=0), "knots"),
        (lambda: ch.Smooth(scale=-1.0), "scale"),
        (lambda: ch.Periodic(-50.0), "frequency"),
        (lambda: ch.Periodic("line"), "frequency"),
        (lambda: ch.Periodic(50.0, harmonics=[]), "harmonics"),
        (lambda: ch.Covariates([[np.nan], [1.0]]), "finite"),
        (lambda: ch.Covariates([1.0, 1.0]), "constant"),
        (lambda: ch.Covariates([1.0, 2.0], names="gc"), "names"),
        (lambda: Offset.of([ch.Smooth(), [1.0, 2.0]]), "offset"),
        (lambda: Offset.of([np.nan]), "finite"),
        (lambda: bind([ch.Smooth(knots=9)], Observations(np.zeros(5))), "knots"),
        (lambda: bind([ch.Periodic(0.6, knots=4)], Observations(np.zeros(9))), "Nyquist"),
        (lambda: bind([ch.Periodic(300.0, knots=4, harmonics=2)], Observations(np.zeros(9), step=1e-3)), "Nyquist"),
        (lambda: bind([ch.Periodic("mains")], Observations(np.zeros(9))), "Hz"),
        (lambda: bind([ch.Covariates([1.0, 2.0])], Observations(np.zeros(9))), "row per column"),
        (lambda: bind([ch.Smooth(knots=4)], Observations(np.zeros((9, 2)))), "one channel"),
        (lambda: bind([ch.Smooth(knots=4), ch.Smooth(knots=5)], Observations(np.zeros(9))), "several"),
        (lambda: Observations([1.0], step=0), "step"),
        (lambda: Observations([1.0], unit="s"), "unit"),
    ],
)
def test_errors(make, said):
    with pytest.raises(InvalidInput, match=said):
        make()


def test_an_unfilled_offset_says_so():
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0]), offset=[ch.Smooth(knots=4)])
    with pytest.raises(InvalidInput, match="learn"):
        ch.exact.marginals(model, np.zeros(10))
    with pytest.raises(InvalidInput, match="scale"):
        model.simulate(10, seed=1)
    sized = ch.FactorialHMM(
        rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0]), offset=[ch.Smooth(knots=4, scale=1.0)]
    )
    assert sized.simulate(10, seed=1)[1].shape == (10,)


def test_stretches_and_paths():
    data = Observations(np.zeros(100), starts=[30])
    pieces = stretches(data, 20)
    assert [a for a, _ in pieces] == [0, 15, 30, 48, 65, 82]
    assert evenly(pieces, 2) == [pieces[1], pieces[4]]
    # The higher rival in the middle is too far away.
    path, score = best_path(
        [np.array([0.0]), np.array([0.1, 5.0]), np.array([0.2])], [np.zeros(1), np.array([0.0, 1.0]), np.zeros(1)], 0.1
    )
    assert path.tolist() == [0.0, 0.1, 0.2]
    assert score < 0


GENOME = 900


@pytest.fixture(scope="module")
def profile():
    """Bins of a tumour of purity 0.7 with segments of 0 to 4 copies, GC content (T,), its wave in the depth, copies."""
    rng = np.random.default_rng(5)
    gc = np.convolve(rng.normal(size=GENOME + 39), np.hanning(40), "valid")
    wave = 0.1 * (gc - gc.mean()) / gc.std()
    segments = rng.choice([1, 2, 3, 4], GENOME // 30)
    copies = np.repeat(segments, 30)
    y = 0.3 + 0.35 * copies + wave + rng.normal(scale=0.06, size=GENOME)
    return gc, wave, copies, y


@pytest.mark.parametrize("term", ["covariates", "without"])
def test_copy_numbers_do_not_follow_a_gc_wave(profile, term):
    """The wave is as large as a third of a copy. Without the offset the copy numbers follow it."""
    gc, wave, copies, y = profile
    rows = [
        ch.Row([0, 1, 2, 3, 4], ch.Sticky(ch.Beta(1, 50)), "copies", weight=ch.LogNormal(np.log(0.35), 0.2)),
        ch.Row([0, 1], fixed=1, name="normal cells", weight=ch.Normal(0.3, 0.3)),
    ]
    offset = [ch.Covariates(gc, names=["gc"])] if term == "covariates" else None
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=ch.HalfNormal(0.3)), offset=offset)
    best = ch.optimise(model, y, starts=4, seed=1, progress=False).best
    probabilities = ch.exact.probabilities(best.model, y, "copies")
    right = (probabilities.argmax(axis=0) == copies).mean()
    error = np.arange(5) @ probabilities - copies
    if offset is None:
        assert abs(np.corrcoef(error, wave)[0, 1]) > 0.2 or right < 0.95
        return
    assert right > 0.98
    assert abs(right - probabilities.max(axis=0).mean()) < 0.015
    assert abs(error @ wave / (wave @ wave)) < 0.05
    np.testing.assert_allclose(best.model.offset.curve, wave, atol=0.02)

"""Checks of the fit: silent if the model is right; each finds what it is for, with a remedy that the model can take."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import chiasma as ch
from chiasma.models.emissions import EMISSIONS
from chiasma.results import misfit as module
from chiasma.results.findings import Learn, Use
from chiasma.results.fit_checks import Traits, fit_findings
from chiasma.results.misfit import IMPROBABLE, FitStatistics, misfit, residuals
from chiasma.results.residuals import Hum, LevelNoise, Shift, Waves, periodic, slow_waves

EXAMPLES = {
    "gaussian": ch.Gaussian([1.0, 2.0], depth=3.0, sd=0.5),
    "student-t": ch.StudentT([1.0, 2.0], depth=3.0, sd=0.5, df=3.0),
    "integrated-depth": ch.IntegratedDepth([1.0, 2.0], depth_mean=3.0, depth_sd=0.4, sd=0.5),
    "poisson": ch.Poisson([1.0, 2.0], depth=4.0, background=0.5),
    "negative-binomial": ch.NegativeBinomial([1.0, 2.0], depth=4.0, dispersion=0.3, background=0.5),
}


def model_of(emission, enter=0.02):
    return ch.FactorialHMM(rows=ch.Switches(enter, enter), emission=emission)


def codes(found):
    return [one.code for one in found]


def fit(model, y, **options):
    return ch.sample(model, y, draws=20, chains=2, seed=1, progress=False, **options)


def test_examples__are_all_emissions():
    assert set(EXAMPLES) == set(EMISSIONS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_tails__are_sums_or_integrals_of_the_density(name):
    emission = EXAMPLES[name]
    levels = np.array([0.0, 1.0, 3.0])
    for y in (0.0, 1.0, 2.0, 7.0):
        upto, beyond = emission.tails(np.full(3, y), levels)
        for level, low, high in zip(levels, upto, beyond, strict=True):
            at = np.array(level)
            if name in ("poisson", "negative-binomial"):
                mass = np.exp(emission.log_density(np.arange(400.0), at))
                assert low == pytest.approx(mass[: int(y) + 1].sum(), abs=1e-9)
                assert high == pytest.approx(mass[int(y) :].sum(), abs=1e-9)
            else:

                def density(x, at=at):
                    return float(np.exp(emission.log_density(np.array(x), at)))

                centre = float(emission.expected(at))
                points = sorted({min(max(centre, y - 50), y + 50), y})
                area, _ = scipy.integrate.quad(density, -np.inf, points[0])
                middle, _ = scipy.integrate.quad(density, points[0], points[-1], points=points)
                assert low == pytest.approx(area + (middle if points[-1] == y else 0.0), abs=1e-6)
                assert low + high == pytest.approx(1)


def test_tails__keep_their_digits():
    upto, beyond = ch.Gaussian([1.0]).tails(np.array([20.0, -20.0]), np.zeros(2))
    assert upto[1] == beyond[0] == pytest.approx(scipy.stats.norm.sf(20))


@pytest.mark.parametrize("name", EXAMPLES)
def test_residuals__of_the_right_model_are_standard_normal(name):
    """Kolmogorov-Smirnov at level 1e-4 for each emission: false alarm in one of 10,000 seeds."""
    model = model_of(EXAMPLES[name])
    y = model.simulate(3_000, seed=4)[1]
    posterior = fit(model, y)
    z = residuals(posterior).z[3, :, 0]
    assert scipy.stats.kstest(z, "norm").pvalue > 1e-4
    assert posterior.findings == ()


def test_misfit__numbers_of_a_right_model():
    model = model_of(EXAMPLES["gaussian"])
    y = model.simulate(4_000, seed=5)[1]
    y[100:300] = np.nan
    found = misfit(fit(model, ch.Observations(y, starts=[2_000])))
    assert found.n == 3_800
    assert found.n_pairs == 3_800 - 2 - 1
    # Bounds of five standard errors of one draw.
    assert abs(found.improbable - IMPROBABLE) < 5 * math.sqrt(IMPROBABLE / found.n)
    assert abs(found.spread - 1) < 5 / math.sqrt(2 * found.n)
    assert abs(found.autocorrelation) < 5 / math.sqrt(found.n_pairs)
    assert abs(found.shift.z) < 5
    assert found.waves.log_p > math.log(1e-3)
    assert found.lines is None
    assert found.level_noise.z < 5


# ---- What is wrong ---------------------------------------------------------------------------------------------------


def change(y, what, rng):
    n, t = len(y), np.arange(len(y))
    if what == "above":
        y[100:160] += 12
    elif what == "below":
        y[100:160] -= 12
    elif what == "outliers":
        y[rng.integers(0, n, n // 50)] += rng.choice([-2.1, 2.1], n // 50)
    elif what == "a short row":
        for start in range(50, n, 200):
            y[start : start + 4] += 1.5 if y[start] < 7 else -1.5  # between two levels
    elif what == "noise-underestimated":
        y += rng.normal(0, 0.5, n)
    elif what == "noise-by-level":
        y += rng.normal(0, 0.6, n) * (y < 1.5)
    elif what == "correlated":
        y += 0.35 * np.convolve(rng.normal(0, 1, n + 2), np.ones(3) / math.sqrt(3), "valid")
    elif what == "baseline":
        y += 0.4
    elif what == "drift":
        y += 0.6 * np.sin(t / 150)
    elif what == "hum":
        y += 0.4 * np.sin(2 * np.pi * t / 20) + 0.2 * np.sin(2 * np.pi * 3 * t / 20)
    return y


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("above", "beyond-levels"),
        ("below", "beyond-levels"),
        ("outliers", "outliers"),
        ("a short row", "row-missing"),
        ("noise-underestimated", "noise-underestimated"),
        ("noise-by-level", "noise-by-level"),
        ("noise-overestimated", "noise-overestimated"),
        ("correlated", "correlated"),
        ("baseline", "baseline"),
        ("drift", "drift"),
        ("hum", "hum"),
    ],
)
def test_misfit__finds_what_is_wrong(what, code):
    true, fitted = {"noise-overestimated": (0.5, 0.8), "a short row": (0.35, 0.35)}.get(what, (0.5, 0.5))
    model, other = (model_of(ch.Gaussian([1.0, 2.0], depth=3.0, sd=sd), 0.005) for sd in (true, fitted))
    y = change(model.simulate(4_000, seed=6)[1], what, np.random.default_rng(7))
    posterior = fit(other, y)
    assert code in codes(posterior.findings)
    assert posterior.trust != "good"
    content = json.loads(json.dumps(posterior.summary().to_dict(), allow_nan=False))
    assert content["misfit"]["n"] == 4_000
    assert code in [one["code"] for one in content["findings"]]


def test_drift__and_hum_name_the_offset_that_fixes_them():
    """Rival levels are 1.4 noise SDs apart, so the states follow the waves; with a large gap they keep their places."""
    close = model_of(ch.Gaussian([1.0, 2.0], sd=0.7), 0.02)
    _, y = close.simulate(10_000, seed=1)
    t = np.arange(10_000)
    found = {one.code: one for one in fit(close, y + 0.7 * np.sin(t / 400)).findings}
    assert found["drift"].severity == "none"
    assert found["drift"].remedies[0].python().startswith("offset=[ch.Smooth(knots=")
    assert found["drift"].remedies[0].option("--offset").startswith("--drift ")
    found = {one.code: one for one in fit(close, y + 0.5 * np.sin(2 * np.pi * t / 200)).findings}
    assert found["hum"].severity == "none"
    assert found["hum"].remedies == (Use("offset", "[ch.Periodic(0.005)]", "--hum 0.005"),)
    assert found["hum"].facts["frequency"] == pytest.approx(0.005)
    timed = ch.Observations(y + 0.5 * np.sin(2 * np.pi * t / 200), step=1e-4, unit="s")
    found = {one.code: one for one in ch.check(close, timed)}
    assert found["hum"].facts["unit"] == "s"
    assert found["hum"].remedies == (Use("offset", "[ch.Periodic(50)]", "--hum 50"),)
    far = model_of(ch.Gaussian([1.0, 2.0], sd=0.1), 0.02)
    _, y = far.simulate(10_000, seed=1)
    weak = fit(far, y + 0.02 * np.sin(2 * np.pi * t / 200))
    assert [(one.code, one.severity) for one in weak.findings] == [("hum", "note")]
    assert weak.trust == "good"


def test_offset__that_is_known_or_learned_is_not_in_the_residuals():
    model = model_of(ch.Gaussian([1.0, 2.0], sd=0.3))
    _, y = model.simulate(3_000, seed=1)
    wave = np.sin(np.arange(3_000) / 300)
    known = ch.FactorialHMM(rows=ch.Switches(0.02, 0.02), emission=model.emission, offset=wave)
    assert ch.check(known, y + wave) == ()
    assert "drift" in codes(ch.check(model, y + wave))
    learned = ch.FactorialHMM(rows=ch.Switches(0.02, 0.02), emission=model.emission, offset=[ch.Smooth(knots=10)])
    optimum = ch.optimise(learned, y + wave, starts=2, seed=1, progress=False).best
    assert optimum.check(y + wave) == ()


def test_displaced__is_about_the_share_of_sites_that_a_wave_puts_into_wrong_states():
    """Linear response against the truth: means of P(on) in windows with the wave, less those without it."""
    model = model_of(ch.Gaussian([1.0], sd=0.6), 0.05)
    _, y = model.simulate(40_000, seed=3)
    wave = 0.35 * np.sin(np.arange(40_000) / 500)
    still, moved = (ch.exact.marginals(model, one)[0] for one in (y, y + wave))
    truth = np.sqrt(np.mean(np.convolve(moved - still, np.full(1_024, 1 / 1_024), "valid") ** 2))
    found = {one.code: one for one in ch.check(model, y + wave)}["drift"]
    assert found.facts["displaced"] == pytest.approx(truth, rel=0.25)


def test_waves__are_measured_in_many_windows_whatever_the_draws():
    """Draws share 0.2 of the variance of their residuals; the wave shows most in ten windows, which say little of it.

    Bounds of five standard errors of 64 windows and eight draws, 0.8 (2 / (7 * 64))^0.5 each; windows overlap.
    """
    t = np.arange(40_000)
    wave = 0.1 * np.sin(2 * np.pi * t / 10_000)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        z = math.sqrt(0.2) * rng.standard_normal(len(t)) + math.sqrt(0.8) * rng.standard_normal((8, len(t)))
        found = slow_waves(z + wave)
        assert found.length > len(t) / 64
        assert found.response == pytest.approx(0.8, abs=5 * 0.8 * math.sqrt(2 / (7 * 64)))
        assert found.sd == pytest.approx(0.1 / math.sqrt(2), rel=0.25)


@pytest.mark.parametrize(("size", "severity"), [(0.2, "note"), (1.2, "none")])
def test_drift__of_equal_rows_has_one_severity_whatever_the_draws(size, severity):
    """Wrong without saying so: 0.5% of the sites at the small size, 5% and more at the large one."""
    rows = [ch.Row([0, 1], ch.Switch(0.01, 0.01), "channel", weight=1.0, copies=5)]
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=0.3))
    _, y = model.simulate(20_000, seed=1)
    y += size * 0.3 * np.sin(2 * np.pi * np.arange(20_000) / 5_000)
    for seed in range(4):
        assert {one.code: one.severity for one in ch.check(model, y, seed=seed)}["drift"] == severity


def test_waves__have_the_false_alarms_that_they_promise():
    """2,000 series of noise: of p-values below 1%, at most 1% are expected; 40 would be a chance of 1e-5."""
    rng = np.random.default_rng(4)
    series = [rng.standard_normal((1, 500)) for _ in range(2_000)]
    assert sum(slow_waves(z).log_p < math.log(0.01) for z in series) < 40
    assert sum(periodic(z, np.arange(500), 500) is not None for z in series) < 5  # 0.2 expected


def test_waves__of_missing_sites_and_short_signals():
    t = np.flatnonzero(np.random.default_rng(5).random(4_000) < 0.5)
    z = np.random.default_rng(6).standard_normal((2, len(t))) + np.sin(2 * np.pi * t / 40)
    assert periodic(z, t, 4_000).frequency == pytest.approx(1 / 40, rel=1e-3)
    assert slow_waves(z[:, :60]) is None
    assert periodic(z[:, :10], np.arange(10), 10) is None


def test_check__needs_no_run():
    model = model_of(EXAMPLES["gaussian"], 0.005)
    y = model.simulate(2_000, seed=6)[1]
    assert ch.check(model, y) == ()
    assert "beyond-levels" in codes(ch.check(model, change(y, "above", None)))
    rows = [ch.Row([0, 1, 3], ch.Sticky(0.05), name="oven"), ch.Row([0, 0.5], fixed=1)]
    oven = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=0.2))
    y = oven.simulate(1_000, seed=1)[1]
    assert ch.check(oven, y) == ()
    assert "baseline" in codes(ch.check(oven, y + 0.1))


# ---- Remedies --------------------------------------------------------------------------------------------------------

BAD = FitStatistics(
    n=10_000, n_pairs=9_999, improbable=0.04, run=1.0, above=0.01, below=0.01, spread=2.0, autocorrelation=0.6,
    worst_site=5, wave_sites=(10, 20), shift=Shift(0.2, 20.0, 0.01),
    waves=Waves(0.1, 512, 10, 20, -100.0, 0.01, 0.3), lines=Hum(0.005, 0.1, -100.0, 0.01),
    level_noise=LevelNoise(2.0, 2.0, 30.0),
)  # fmt: skip


class Laplace(ch.Additive):
    """An emission of one's own."""

    arguments = ch.Additive.arguments | {"scale": ch.Argument("scale of the noise.")}

    def __init__(self, weights=None, scale=1.0):
        super().__init__(weights)
        self.scale = self.parameter("scale", scale, positive=True)

    def log_density(self, y, level):
        return -np.abs(y - level) / self.scale - np.log(2 * self.scale)

    def sample(self, level, rng):
        return rng.laplace(level, self.scale)

    def expected(self, level):
        return level

    def tails(self, y, level):
        z = (y - level) / self.scale
        return scipy.stats.laplace.cdf(z), scipy.stats.laplace.sf(z)


class Narrow(Laplace):
    """One without any parameter of its noise."""

    arguments = ch.Additive.arguments

    def __init__(self, weights=None):
        super().__init__(weights)


class Skewed(Laplace):
    """One with two parameters, of which nobody knows what they do."""

    arguments = Laplace.arguments | {"skew": ch.Argument("skew.")}

    def __init__(self, weights=None, scale=1.0, skew=0.0):
        super().__init__(weights, scale)
        self.skew = self.parameter("skew", skew)


def remedies(emission, **changes):
    """By code, of a model with this emission that fits in no respect."""
    found = fit_findings(replace(BAD, **changes), Traits.of(model_of(emission)))
    return {one.code: one.remedies for one in found}


def test_findings__each_code_once_but_for_the_two_sides():
    found = fit_findings(BAD, Traits())
    expected = ["drift", "hum", "baseline", "beyond-levels", "beyond-levels", "outliers", "noise-underestimated"]
    assert codes(found) == [*expected, "noise-by-level", "correlated"]
    assert [one.facts["side"] for one in found if one.code == "beyond-levels"] == ["above", "below"]
    assert codes(fit_findings(replace(BAD, improbable=0.5), Traits())) == ["wrong-data"]
    # Correlation is what hum and waves do.
    much = replace(BAD, lines=BAD.lines._replace(displaced=0.2))
    assert "correlated" not in codes(fit_findings(much, Traits()))
    assert fit_findings(None, Traits()) == []


@pytest.mark.parametrize(("displaced", "severity"), [(0.01, "note"), (0.03, "limited"), (0.1, "none")])
@pytest.mark.parametrize(("name", "code"), [("waves", "drift"), ("lines", "hum"), ("shift", "baseline")])
def test_findings__severity_by_displaced_sites(name, code, displaced, severity):
    changed = replace(BAD, **{name: getattr(BAD, name)._replace(displaced=displaced)})
    assert {one.code: one.severity for one in fit_findings(changed, Traits())}[code] == severity


@pytest.mark.parametrize("spread", [2.0, 0.5])
@pytest.mark.parametrize("emission", [*EXAMPLES.values(), Laplace([1.0, 2.0])], ids=[*EXAMPLES, "own"])
def test_remedies__name_only_what_the_emission_has(emission, spread):
    for own in remedies(emission, spread=spread).values():
        for one in own:
            if isinstance(one, Use) and one.argument == "emission":
                assert type(emission) is not getattr(ch, one.code.removeprefix("ch.").removesuffix("(...)"))
            elif isinstance(one, Learn):
                assert one.argument in emission.arguments


STUDENT = Use("emission", "ch.StudentT(...)", "student-t")
NEGATIVE = Use("emission", "ch.NegativeBinomial(...)", "negative-binomial")


@pytest.mark.parametrize(
    ("emission", "code", "expected"),
    [
        (EXAMPLES["gaussian"], "outliers", (STUDENT, Learn("sd"))),
        (EXAMPLES["integrated-depth"], "noise-underestimated", (Learn("depth_sd"), Learn("sd"))),
        (EXAMPLES["student-t"], "outliers", (Learn("df", "Gamma"), Learn("sd"))),
        (EXAMPLES["poisson"], "outliers", (NEGATIVE,)),
        (EXAMPLES["poisson"], "noise-underestimated", (NEGATIVE,)),
        (EXAMPLES["poisson"], "noise-by-level", (NEGATIVE,)),
        (EXAMPLES["poisson"], "baseline", (Learn("background", "Gamma"),)),
        (EXAMPLES["negative-binomial"], "noise-underestimated", (Learn("dispersion"),)),
        (Laplace([1.0, 2.0]), "noise-underestimated", (Learn("scale"),)),
        (Laplace([1.0, 2.0]), "outliers", (Learn("scale"),)),
        (Narrow([1.0, 2.0]), "noise-underestimated", ()),
        (Skewed([1.0, 2.0]), "noise-underestimated", (Learn("scale"), Learn("skew"))),
    ],
)
def test_remedies__of_an_emission(emission, code, expected):
    assert remedies(emission)[code] == expected


def test_remedies__do_not_repeat_what_is_learned():
    prior = ch.Gamma([2.0, 2.0], 1.0)
    learned = ch.NegativeBinomial(prior, dispersion=ch.HalfNormal(1.0), background=ch.Gamma(2.0, 1.0))
    offsets = {"drift", "hum"}
    assert {code for code, own in remedies(learned).items() if own} == offsets
    tails = ch.StudentT(prior, sd=ch.HalfNormal(1.0), df=ch.Gamma(2.0, 0.5))
    assert {code for code, own in remedies(tails).items() if own} == offsets


def test_remedies__of_rows_that_say_what_they_add():
    rows = [ch.Row(values=[0, 1], chain=ch.Switch(0.1, 0.1))]
    traits = Traits.of(ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=0.3)))
    assert traits.row_weights
    assert {one.code: one.remedies for one in fit_findings(BAD, traits)}["beyond-levels"] == ()


def test_misfit__of_absurd_data_says_so_and_nothing_else():
    """A column that counts the sites, fitted as photons: no state explains most of it."""
    posterior = fit(model_of(ch.Poisson([20.0, 20.0], background=8.0)), np.arange(400.0))
    assert codes(posterior.findings) == ["wrong-data"]
    assert posterior.trust == "none"


def test_misfit__of_overdispersed_counts_goes_when_its_remedy_is_taken():
    truth = model_of(ch.NegativeBinomial([20.0, 40.0], dispersion=0.1, background=8.0))
    y = truth.simulate(800, seed=3)[1]
    found = {one.code: one for one in fit(model_of(ch.Poisson([20.0, 40.0], background=8.0)), y).findings}
    assert found["noise-underestimated"].remedies == (NEGATIVE,)
    taken = ch.NegativeBinomial([20.0, 40.0], dispersion=ch.HalfNormal(0.5), background=8.0)
    posterior = fit(model_of(taken), y, update="exact", exchange=None, warmup=60)
    assert [one for one in posterior.findings if one.about == "fit"] == []


def test_misfit__learned_parameters_and_channels():
    emission = ch.Gaussian([[1.0, 0.0], [0.0, 2.0]], depth=3.0, sd=0.5)
    model = model_of(emission)
    y = model.simulate(600, seed=1)[1]
    posterior = fit(model, y)
    assert misfit(posterior).n == 1_200
    assert posterior.findings == ()
    y[:, 1] += np.sin(np.arange(600) / 60)  # of one channel only
    assert "drift" in codes(fit(model, y).findings)
    learned = model_of(ch.Gaussian([1.0, 2.0], depth=3.0, sd=ch.HalfNormal(2.0)))
    y = model_of(EXAMPLES["gaussian"]).simulate(400, seed=1)[1]
    posterior = fit(learned, y, update="exact", exchange=None, warmup=50)
    assert abs(misfit(posterior).spread - 1) < 5 / math.sqrt(800)
    assert Traits.of(learned).learned == {"sd"}


def test_misfit__is_unknown_without_a_distribution_or_data(monkeypatch):
    own = ch.Custom(lambda y, level: -np.abs(y - level) - np.log(2), weights=[1.0])
    posterior = fit(model_of(own), np.zeros(5))
    assert misfit(posterior) is None
    assert posterior.summary().misfit is None
    assert posterior.summary().to_dict()["misfit"] is None
    table = fit(model_of(ch.Table(np.zeros((5, 4)))), np.zeros(5))
    assert misfit(table) is None
    empty = fit(model_of(EXAMPLES["gaussian"]), np.full(5, np.nan))
    assert misfit(empty) is None
    monkeypatch.setattr(module, "DRAWS", 1)
    assert misfit(fit(model_of(EXAMPLES["gaussian"]), np.zeros(2))).n == 2

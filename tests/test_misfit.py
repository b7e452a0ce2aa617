"""Misfit checks: silent where the model is right, and each finds what it is for."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import chiasma as ch
from chiasma.models.emissions import EMISSIONS
from chiasma.results import misfit as module
from chiasma.results.misfit import IMPROBABLE, Misfit, _residuals, misfit
from chiasma.results.summary import misfit_text
from chiasma.results.warnings import misfit_warnings

EXAMPLES = {
    "gaussian": ch.Gaussian([1.0, 2.0], depth=3.0, sd=0.5),
    "student-t": ch.StudentT([1.0, 2.0], depth=3.0, sd=0.5, df=3.0),
    "integrated-depth": ch.IntegratedDepth([1.0, 2.0], depth_mean=3.0, depth_sd=0.4, sd=0.5),
    "poisson": ch.Poisson([1.0, 2.0], depth=4.0, background=0.5),
    "negative-binomial": ch.NegativeBinomial([1.0, 2.0], depth=4.0, dispersion=0.3, background=0.5),
}


def model_of(emission, enter=0.02):
    return ch.FactorialHMM(rows=ch.Switches(enter, enter), emission=emission)


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
    z = _residuals(fit(model, y), 0, 5)[:, 0]
    assert scipy.stats.kstest(z, "norm").pvalue > 1e-4
    assert misfit_warnings(misfit(fit(model, y))) == []


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
    assert abs(found.drift) < 5 / math.sqrt(found.per_window)


def change(y, what, rng):
    n = len(y)
    if what == "far above the highest":
        y[100:160] += 12
    elif what == "far below the lowest":
        y[100:160] -= 12
    elif what == "improbable":
        y[rng.integers(0, n, n // 50)] += rng.choice([-2.1, 2.1], n // 50)
    elif what == "wider":
        y += rng.normal(0, 0.5, n)
    elif what == "narrower":
        y -= 0.0
    elif what == "correlated":
        noise = rng.normal(0, 1, n + 4)
        y += 0.35 * np.convolve(noise, np.ones(5) / math.sqrt(5), "valid")
    elif what == "drifts":
        y += np.linspace(-0.6, 0.6, n)
    return y


@pytest.mark.parametrize(
    "what",
    ["far above the highest", "far below the lowest", "improbable", "wider", "narrower", "correlated", "drifts"],
)
def test_misfit__finds_what_is_wrong(what):
    model = model_of(EXAMPLES["gaussian"], 0.005)
    y = change(model.simulate(2_000, seed=6)[1], what, np.random.default_rng(7))
    fitted = model_of(ch.Gaussian([1.0, 2.0], depth=3.0, sd=0.8), 0.005) if what == "narrower" else model
    warnings = misfit_warnings(misfit(fit(fitted, y)))
    assert any(what in text for text in warnings), warnings
    assert all(";" in text or ":" in text for text in warnings)
    summary = fit(fitted, y).summary()
    assert set(warnings) <= set(summary.warnings)
    assert summary.to_dict()["misfit"]["n"] == 2_000


BASELINE, WEIGHTS, ROWS = "Is there a baseline", "Are the weights right", "Are there enough rows"


@pytest.mark.parametrize("forgotten", ["a baseline", "right weights", "a row"])
def test_misfit__asks_first_for_what_the_model_lacks(forgotten):
    """The questions stand once, before waves and trends, and before the noise, which these cannot be blamed on."""
    true = model_of(ch.Gaussian([1.0, 2.0], sd=0.2), 0.01)
    y = true.simulate(1_000, seed=3)[1] + (0.5 if forgotten == "a baseline" else 0.0)
    weights = {"a baseline": [1.0, 2.0], "right weights": [0.6, 1.5], "a row": [2.0]}[forgotten]
    told = misfit_warnings(misfit(fit(model_of(ch.Gaussian(weights, sd=0.2), 0.01), y)))
    words = "\n".join(told)
    assert "correlated" in words
    assert ("add a baseline, a row or a state" in words) == ("far above" in words)
    places = [words.index(text) for text in (BASELINE, WEIGHTS, ROWS, "waves")]
    assert places == sorted(places)
    assert words.count(ROWS) == 1
    assert places[2] < words.find("times the width") or "times the width" not in words


def test_misfit__asks_only_for_what_the_model_may_lack():
    emission = ch.Gaussian(ch.Gamma([2.0, 2.0], 1.0), sd=0.2)
    model = ch.FactorialHMM(rows=ch.Switches(0.01, 0.01), emission=emission, fixed={1: 1})
    rng = np.random.default_rng(1)
    y = np.repeat([0.0, 1.0, 0.0, 1.0], 100) + np.convolve(rng.normal(0, 0.2, 404), np.ones(5) / 2, "valid")
    found = misfit(fit(model, y, update="exact", exchange=None, warmup=50))
    assert (found.has_baseline, found.learns_weights) == (True, True)
    words = "\n".join(misfit_warnings(found))
    assert ROWS in words
    assert BASELINE not in words
    assert WEIGHTS not in words
    off = ch.FactorialHMM(rows=ch.Switches(0.01, 0.01), emission=ch.Gaussian([1.0, 2.0]), fixed={1: 0})
    assert not misfit(fit(off, y)).has_baseline
    row = ch.Row(values=[0, 1], weight=ch.Gamma(2.0, 1.0), chain=ch.Switch(0.1, 0.1), name="oven")
    learned = fit(ch.FactorialHMM(rows=[row], emission=ch.Gaussian(sd=0.3)), y[:50], warmup=50)
    assert misfit(learned).learns_weights


BAD = Misfit(
    n=10_000, n_pairs=9_999, per_window=500, improbable=0.03, above=0.01, below=0.0, spread=2.0, autocorrelation=0.6,
    drift=2.0, drift_sites=(10, 20), worst_site=5,
)  # fmt: skip


def test_misfit__a_share_of_some_data_has_other_words_than_that_of_all():
    assert misfit_text(BAD).startswith("3.00% of the data are improbable (")
    (some,) = (text for text in misfit_warnings(BAD) if "improbable" in text)
    assert some.startswith("2.00% of the data are improbable although the rows can reach their levels, where 0.1% are")
    (every,) = (text for text in misfit_warnings(replace(BAD, above=0.0)) if "improbable" in text)
    assert every.startswith("3.00% of the data are improbable, where")


def test_misfit__noise_that_is_learned_is_not_to_be_learned():
    assert "\n".join(misfit_warnings(BAD)).count("sd=ch.HalfNormal") == 2
    told = "\n".join(misfit_warnings(replace(BAD, learns_noise=True)))
    assert "HalfNormal" not in told
    assert "allow outliers (emission=ch.StudentT(...)), or mark" in told
    assert "its prior keeps it there: give it a wider one" in told


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


def judged(emission, **changes):
    """A model with this emission that fits in no respect."""
    found = misfit(fit(model_of(emission), np.array([0.0, 1.0, 3.0, 2.0]), **changes.pop("options", {})))
    bad = {name: getattr(BAD, name) for name in ("n", "n_pairs", "per_window", "improbable", "spread", "drift")}
    return replace(found, **bad | {"autocorrelation": 0.6, "above": 0.01, "below": 0.01} | changes)


SLICES = {"update": "exact", "exchange": None, "warmup": 5}


@pytest.mark.parametrize("spread", [2.0, 0.5])
@pytest.mark.parametrize("emission", [*EXAMPLES.values(), Laplace([1.0, 2.0])], ids=[*EXAMPLES, "own"])
def test_remedies__name_only_what_the_emission_has(emission, spread):
    words = "\n".join(misfit_warnings(judged(emission, spread=spread)))
    others = re.findall(r"emission=ch\.(\w+)", words)
    assert type(emission).__name__ not in others
    known = set(emission.arguments).union(*(getattr(ch, name).arguments for name in others))
    named = set(re.findall(r"(\w+)=(?:ch\.(?:Half|Gamma)|\.\.\.)", words))
    assert named <= known
    assert ("sd=" in words) == ("sd" in emission.arguments)
    assert ("StudentT" in others) == (type(emission) in (ch.Gaussian, ch.IntegratedDepth))
    assert ("NegativeBinomial" in others) == (isinstance(emission, ch.Poisson))
    assert ("a baseline" in words) == ("background" not in emission.arguments)


@pytest.mark.parametrize(
    ("emission", "expected"),
    [
        (EXAMPLES["integrated-depth"], "change depth_sd or sd or learn them (depth_sd=ch.HalfNormal(...), sd="),
        (EXAMPLES["student-t"], "allow more outliers (a smaller df, or learn it: df=ch.Gamma(...)), learn the noise ("),
        (EXAMPLES["poisson"], "counts vary more than Poisson counts do: take emission=ch.NegativeBinomial(...) and"),
        (EXAMPLES["negative-binomial"], "change dispersion or learn it (dispersion=ch.HalfNormal(...))"),
        (Laplace([1.0, 2.0]), "change scale or learn it (scale=ch.HalfNormal(...))"),
        (Laplace([1.0, 2.0]), "give your emission heavier tails, or mark"),
        (Narrow([1.0, 2.0]), "give your emission more noise"),
        (Skewed([1.0, 2.0]), "change what sets the noise of your emission, of scale and skew, or learn it"),
        (ch.Poisson([1.0, 2.0]), "Is there a background (background=...)?"),
        (ch.Poisson([1.0, 2.0]), "If the model has a background, the right weights and enough rows"),
    ],
)
def test_remedies__of_an_emission(emission, expected):
    assert expected in "\n".join(misfit_warnings(judged(emission)))


def test_remedies__of_counts_that_vary_too_little():
    for emission in (EXAMPLES["poisson"], ch.NegativeBinomial([1.0, 2.0], dispersion=ch.HalfNormal(1.0))):
        learns = isinstance(emission, ch.NegativeBinomial)
        (*_, text) = misfit_warnings(judged(emission, spread=0.5, options=SLICES if learns else {}))
        assert ("its prior keeps it there" in text) == learns
        assert text.endswith("as they were measured, or other noise (emission=ch.Gaussian(...))")


def test_remedies__do_not_repeat_what_is_learned():
    prior = ch.Gamma([2.0, 2.0], 1.0)
    learned = ch.NegativeBinomial(prior, dispersion=ch.HalfNormal(1.0), background=ch.Gamma(2.0, 1.0))
    words = "\n".join(misfit_warnings(judged(learned, options=SLICES)))
    assert "ch." not in words
    assert "add a row or a state, or give what the rows add a wider prior; the states" in words
    assert "lowest level that the rows can reach: give the background a wider prior; the" in words
    assert "mark values that are wrong as missing (NA), or ask whether there are enough rows" in words
    tails = ch.StudentT([1.0, 2.0], sd=ch.HalfNormal(1.0), df=ch.Gamma(2.0, 0.5))
    words = "\n".join(misfit_warnings(judged(tails, options=SLICES)))
    assert "df" not in words
    assert "HalfNormal" not in words


def test_remedies__of_rows_that_say_what_they_add():
    rows = [ch.Row(values=[0, 1], chain=ch.Switch(0.1, 0.1))]
    found = misfit(fit(ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=0.3)), np.array([0.0, 1.0, 0.0])))
    assert found.row_weights
    words = "\n".join(misfit_warnings(replace(BAD, row_weights=True)))
    assert "change what the rows add or give their weight a prior" in words
    assert "(learn them: a prior for their weight)?" in words
    assert "weights=" not in words


def test_misfit__of_absurd_data_asks_for_the_right_column_first():
    """A column that counts the sites, fitted as photons: no state explains most of it."""
    found = misfit(fit(model_of(ch.Poisson([20.0, 20.0], background=8.0)), np.arange(400.0)))
    first, *others = misfit_warnings(found)
    assert re.match(r"\d\d% of the data are improbable whatever the states are: are these the right data", first)
    assert "the right column of the table" in first
    assert not any("column" in text for text in (*others, *misfit_warnings(BAD)))


def test_misfit__of_overdispersed_counts_goes_where_its_remedy_is_taken():
    truth = model_of(ch.NegativeBinomial([20.0, 40.0], dispersion=0.1, background=8.0))
    y = truth.simulate(800, seed=3)[1]
    told = misfit_warnings(misfit(fit(model_of(ch.Poisson([20.0, 40.0], background=8.0)), y)))
    assert any("take emission=ch.NegativeBinomial(...)" in text for text in told)
    taken = ch.NegativeBinomial([20.0, 40.0], dispersion=ch.HalfNormal(0.5), background=8.0)
    assert misfit_warnings(misfit(fit(model_of(taken), y, **SLICES | {"warmup": 60}))) == []


def test_misfit__every_warning_reads_alone():
    """The questions stand once; the drift names what they ask for."""
    drift = misfit_warnings(BAD)[2]
    assert "above its level. If the model has a baseline, the right weights and enough rows: subtract" in drift
    known = misfit_warnings(replace(BAD, has_baseline=True, learns_weights=True))[2]
    assert "If the model has enough rows: subtract" in known


def test_misfit__learned_parameters_and_channels():
    emission = ch.Gaussian([[1.0, 0.0], [0.0, 2.0]], depth=3.0, sd=0.5)
    model = model_of(emission)
    y = model.simulate(600, seed=1)[1]
    found = misfit(fit(model, y))
    assert found.n == 1_200
    learned = model_of(ch.Gaussian([1.0, 2.0], depth=3.0, sd=ch.HalfNormal(2.0)))
    y = model_of(EXAMPLES["gaussian"]).simulate(400, seed=1)[1]
    posterior = fit(learned, y, update="exact", exchange=None, warmup=50)
    assert abs(misfit(posterior).spread - 1) < 5 / math.sqrt(800)
    assert misfit(posterior).learns_noise
    assert not found.learns_noise


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

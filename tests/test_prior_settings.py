"""Priors in settings: TOML tables, defaults around numbers, and how they are refused."""

import re

import numpy as np
import pytest

import chiasma as ch
from chiasma.errors import InvalidInput
from chiasma.io.options import chain_parameters, parameters_of, parse_names, prior_names
from chiasma.io.settings import Settings, read_prior, settings_of, write_prior
from chiasma.models.priors import PRIORS

GAUSSIAN = {"weights": [0.2, 0.3, 0.5], "depth": 10.0, "sd": 1.0, "enter": 0.1}
PRIORS_OF_ALL_KINDS = [
    ch.Normal(180, 30),
    ch.Normal([1, 2], 3),
    ch.LogNormal(1, 0.5),
    ch.HalfNormal(20),
    ch.HalfNormal([20, 30]),
    ch.Gamma([2, 2], [3, 4]),
    ch.Beta(1, 99),
    ch.Uniform(0, 2),
    ch.Dirichlet([1, 2, 3]),
    ch.DirichletRows([[8, 1], [2, 3]]),
]
MODELS = [
    ch.Gaussian(ch.Dirichlet([1, 1]), depth=ch.Normal(10, 2), sd=ch.HalfNormal(2)),
    ch.IntegratedDepth([0.2, 0.3], depth_mean=ch.Normal(10, 1), depth_sd=ch.Uniform(0, 2), sd=2),
    ch.Poisson(ch.Gamma([2, 2], 3), depth=ch.Gamma(4, 1), background=1),
    ch.NegativeBinomial(ch.Dirichlet([1, 1]), depth=10, dispersion=ch.LogNormal(-1, 0.5), background=1),
    ch.StudentT([0.2, 0.3], depth=10, sd=2, df=ch.Gamma(4, 1)),
]


@pytest.mark.parametrize("prior", PRIORS_OF_ALL_KINDS, ids=repr)
def test_prior__is_the_one_that_was_written(prior):
    again = read_prior("sd", write_prior(prior))
    assert again.describe() == prior.describe()
    (setting,) = write_prior(prior).values()
    arguments = [setting] if len(prior.arguments) == 1 else setting
    by_name = {next(iter(write_prior(prior))): dict(zip(prior.arguments, arguments, strict=True))}
    assert read_prior("sd", by_name).describe() == prior.describe()


def test_prior_names__are_all_priors_in_snake_case():
    names = ["normal", "log_normal", "half_normal", "gamma", "beta", "uniform", "dirichlet", "dirichlet_rows"]
    assert list(prior_names()) == names
    assert set(prior_names().values()) == set(PRIORS.values()) == {type(prior) for prior in PRIORS_OF_ALL_KINDS}


@pytest.mark.parametrize("emission", MODELS, ids=lambda emission: type(emission).__name__)
def test_model__with_priors_is_the_one_that_was_written(tmp_path, emission):
    chains = ch.Switches(ch.Beta([1, 1], 99), 0.3, initial=ch.Beta(2, 2))
    model = ch.FactorialHMM(rows=chains, emission=emission, fixed={1: 1})
    Settings(**settings_of(model)).write(tmp_path / "model.toml", "A model.")
    again = Settings.read(tmp_path / "model.toml").model()
    assert type(again.emission) is type(emission)
    assert again.parameters.names == model.parameters.names
    for one, other in zip(again.parameters.slots, model.parameters.slots, strict=True):
        assert one.prior.describe() == other.prior.describe()
    assert settings_of(again) == settings_of(model)
    assert not set(settings_of(model)["model"]) & set(settings_of(model)["priors"])


def test_file__as_a_person_writes_it(tmp_path):
    (tmp_path / "a.toml").write_text(
        "[priors]\nweights = {dirichlet = [1, 1, 1]}\nsd = {half_normal = 20}\ndepth = {normal = [180, 30]}\n"
        "enter = {beta = {alpha = 1, beta = 99}}\n"
    )
    model = Settings.read(tmp_path / "a.toml").model()
    priors = {slot.name: slot.prior for slot in model.parameters.slots}
    assert list(priors) == ["enter", "leave", "weights", "depth", "sd"]
    assert repr(priors["weights"]) == "Dirichlet([1.0, 1.0, 1.0])"
    assert repr(priors["sd"]) == "HalfNormal(20)"
    assert repr(priors["depth"]) == "Normal(180, 30)"
    assert repr(priors["enter"]) == repr(priors["leave"]) == "Beta(1, 99)"  # leave is as enter


def test_leave__is_the_number_of_enter_where_there_is_one():
    settings = Settings(model=GAUSSIAN, priors={"enter": {"beta": [1, 9]}})
    assert settings.model().parameters.names == ["enter"]
    assert settings.model().rows.chains.leave == 0.1


def test_merged__a_later_number_replaces_a_prior_and_a_later_prior_a_number():
    first = Settings(model=GAUSSIAN, priors={"sd": {"half_normal": 2}, "depth": {"normal": [10, 1]}})
    assert first.model().parameters.names == ["depth", "sd"]
    assert first.merged(model={"sd": 3.0, "depth": None}).model().parameters.names == ["depth"]
    assert first.merged(model={"sd": 3.0}).model().emission.sd == 3
    assert first.merged(model={"sd": 3.0}, priors={"sd": {"half_normal": 1}}).sections["priors"]["sd"] == {
        "half_normal": 1
    }


# ---- Defaults --------------------------------------------------------------------------------------------------------


def default_prior(emission, key, value):
    """What --learn makes of a number."""
    return (parameters_of(emission) | chain_parameters())[key].about.default_prior.centred_on(key, value)


@pytest.mark.parametrize(
    ("emission", "key", "value", "prior"),
    [
        (ch.Gaussian, "weights", [0.2, 0.3, 0.5], ch.Dirichlet([1, 1, 1])),
        (ch.Gaussian, "weights", [1.0, 2.0], ch.Gamma([2, 2], 4 / 3)),
        (ch.Poisson, "weights", [1.0], ch.Gamma([2], 2.0)),
        (ch.Gaussian, "depth", 180.0, ch.Normal(180, 45)),
        (ch.StudentT, "depth", -8.0, ch.Normal(-8, 2)),
        (ch.IntegratedDepth, "depth", -8.0, ch.Normal(-8, 2)),
        (ch.Poisson, "depth", 180.0, ch.LogNormal(np.log(180), 0.25)),
        (ch.NegativeBinomial, "depth", 180.0, ch.LogNormal(np.log(180), 0.25)),
        (ch.Gaussian, "sd", 12.0, ch.LogNormal(np.log(12), 0.5)),
        (ch.IntegratedDepth, "depth_sd", 2.0, ch.LogNormal(np.log(2), 0.5)),
        (ch.StudentT, "df", 4.0, ch.LogNormal(np.log(4), 0.5)),
        (ch.NegativeBinomial, "dispersion", 0.1, ch.LogNormal(np.log(0.1), 0.5)),
        (ch.Poisson, "background", 3, ch.LogNormal(np.log(3), 0.5)),
        (ch.Gaussian, "enter", 0.01, ch.Beta(1, 99)),
        (ch.Gaussian, "leave", [0.01, 0.5], ch.Beta(1, [99, 1])),
        (ch.Gaussian, "initial", 0.25, ch.Beta(0.5, 1.5)),
    ],
)
def test_default__is_centred_on_the_number(emission, key, value, prior):
    made = default_prior(emission, key, value)
    assert type(made) is type(prior)
    assert made.shape == np.shape(value)
    for argument in prior.arguments:
        np.testing.assert_allclose(getattr(made, argument), getattr(prior, argument))
    if key != "weights":  # rows of equal role have equal priors
        np.testing.assert_allclose(made.centre, value)


@pytest.mark.parametrize(
    ("emission", "key", "value", "what"),
    [
        (ch.Gaussian, "weights", [0.5, -0.5], "the default prior of weights needs a number above 0, got [0.5, -0.5]"),
        (ch.Gaussian, "depth", 0.0, "the default prior of depth needs a number other than 0, got 0.0; give such"),
        (ch.Gaussian, "depth", np.inf, "of depth needs a number other than 0, got inf"),
        (ch.Poisson, "depth", -3.0, "of depth needs a number above 0, got -3.0"),
        (ch.Poisson, "background", 0.0, "of background needs a number above 0, got 0.0"),
        (
            ch.Gaussian,
            "enter",
            1.0,
            "of enter needs a number between 0 and 1, got 1.0; give such a number, or a prior of enter in [priors]",
        ),
        (ch.Gaussian, "sd", "wide", "sd must be numbers"),
    ],
)
def test_default__refuses(emission, key, value, what):
    with pytest.raises(InvalidInput, match=re.escape(what)):
        default_prior(emission, key, value)


def test_learning__adds_priors_where_there_are_none():
    settings = Settings(model=GAUSSIAN, priors={"sd": {"half_normal": 2}}).learning(["weights", "sd", "enter"])
    assert settings.sections["priors"] == {
        "weights": {"dirichlet": [1.0, 1.0, 1.0]},
        "sd": {"half_normal": 2},
        "enter": {"beta": [1.0, 9.0]},
    }
    assert settings.model().parameters.names == ["enter", "weights", "sd"]
    counts = Settings(model={"emission": "poisson", "weights": [1.0, 2.0], "depth": 3.0, "enter": 0.1})
    assert repr(counts.learning(["depth"]).model().parameters.slots[0].prior).startswith("LogNormal(")
    whole = Settings(
        model={"emission": "integrated-depth", "weights": [0.5, 0.5], "depth": 3, "depth_sd": 1, "sd": 1, "enter": 0.1}
    ).learning(["depth", "depth_sd"])
    assert whole.model().parameters.names == ["depth_mean", "depth_sd"]
    assert Settings(model=GAUSSIAN).learning([]).model().parameters.names == []


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (["weight"], "--learn takes parameters of the model, got 'weight'; did you mean 'weights'?"),
        (["df"], "--learn takes parameters of the model, got 'df'; there are weights, depth, sd, enter, leave"),
        (
            ["initial"],
            "--learn initial needs a number to make a prior from: give --initial too, or a prior of initial in "
            "[priors]",
        ),
    ],
)
def test_learning__refuses(names, what):
    with pytest.raises(InvalidInput, match=re.escape(what)):
        Settings(model=GAUSSIAN).learning(names)


def test_parse_names():
    assert parse_names(None) == []
    assert parse_names("weights, --depth-sd") == ["weights", "depth_sd"]


# ---- Mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("priors", "what"),
    [
        (
            {"sd": 3},
            "the prior of sd must be a table with one name, such as {half_normal = 20}, got 3; put a number that is",
        ),
        ({"sd": {"gamma": [1, 1], "beta": [1, 1]}}, "the prior of sd must be a table with one name"),
        ({"sd": {"halfnormal": 3}}, "the prior of sd: there is no 'halfnormal'; did you mean 'half_normal'?"),
        ({"sd": {"qqq": 3}}, "there is no 'qqq'; there are normal, log_normal, half_normal, gamma"),
        (
            {"depth": {"normal": 180}},
            "the prior of depth: normal takes mean and sd, got 180; write {normal = [mean, sd]} or "
            "{normal = {mean = ..., sd = ...}}",
        ),
        ({"depth": {"normal": [1, 2, 3]}}, "normal takes mean and sd, got [1, 2, 3]"),
        ({"depth": {"normal": {"mean": 1}}}, "normal takes mean and sd, got {'mean': 1}"),
        ({"sd": {"half_normal": {"scale": 1}}}, "half_normal takes sd, got {'scale': 1}; write {half_normal = sd}"),
        ({"sd": {"half_normal": -1}}, "sd of HalfNormal must be positive, got -1"),
        ({"sd": {"half_normal": "wide"}}, "sd of HalfNormal must be numbers"),
        ({"sd": {"normal": [1, 1]}}, "sd must be above 0, and Normal(1, 1) also gives values outside; use LogNormal"),
        ({"weights": {"dirichlet": [1, 1]}}, "must have as many values as there are weights, 3; correct one, or leave"),
        ({"weights": {"half_normal": 1}}, "must have as many values as there are weights"),
        ({"enter": {"beta": [[1, 1], 9]}}, "enter must be a scalar or have 3 values (rows), got 2"),
        ({"df": {"gamma": [2, 1]}}, "the prior of df belongs to student-t, and the emission is gaussian; drop it"),
    ],
)
def test_model__refuses(priors, what):
    with pytest.raises(InvalidInput, match=re.escape(what)):
        Settings(model=GAUSSIAN, priors=priors).model()


def test_read__refuses_a_prior_of_nothing(tmp_path):
    (tmp_path / "a.toml").write_text("[priors]\nstd = {half_normal = 1}\n")
    with pytest.raises(InvalidInput, match=re.escape("section [priors] has no setting 'std'; did you mean 'sd'?")):
        Settings.read(tmp_path / "a.toml")


def test_mixed__numbers_and_priors_of_a_file(tmp_path):
    rows = [ch.Row([0, ch.LogNormal(6, 1), 2000], ch.Sticky(0.1), "heater"), ch.Row([0, 1], ch.Switch(0.1, 0.1))]
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian([1.0, ch.Normal(50, 10)], sd=20))
    Settings(**settings_of(model)).write(tmp_path / "model.toml", "A model.")
    assert "values = [0.0, {log_normal = [6.0, 1.0]}, 2000.0]" in (tmp_path / "model.toml").read_text()
    again = Settings.read(tmp_path / "model.toml").model()
    assert settings_of(again) == settings_of(model)
    assert again.parameters.names == ["heater.values", "weights"]
    with pytest.raises(InvalidInput, match="the prior of weights"):
        Settings(model=GAUSSIAN, priors={"weights": [1.0, 2.0, 3.0]}).model()

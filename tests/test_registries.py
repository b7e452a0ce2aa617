"""Registries: what is in them is known everywhere, and one line there is all that a new class needs."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

import chiasma as ch
from branches import pair_step, prove_pair
from chiasma.cli import app
from chiasma.cohort.api import begin_cohort, cohort_settings
from chiasma.cohort.workers import run_task, task_of
from chiasma.io import plugins
from chiasma.io.options import all_settings, parameters_of, prior_names
from chiasma.io.settings import Settings, read_prior, settings_of, write_prior
from chiasma.kernels.layout import Layout, n_bits, unpack_codes
from chiasma.models.additive import Additive, Emission
from chiasma.models.arguments import WEIGHTS
from chiasma.models.chains import Switches
from chiasma.models.emissions import EMISSIONS
from chiasma.models.priors import PRIORS, Coefficients, Mixed, Prior
from chiasma.report.run_directory import RunDirectory
from chiasma.results.provenance import describe_model, rebuild_model
from chiasma.sampling.exchanges import EXCHANGES, Exchange, PairStep
from chiasma.sampling.updates import UPDATES, Update
from chiasma.tumour.model import CopyNumber, Samples
from test_cli import refused, run

REGISTRIES: dict[type, dict[str, type]] = {
    Emission: EMISSIONS,
    Update: UPDATES,
    Exchange: EXCHANGES,
    Prior: PRIORS,
}


def fit_help() -> str:
    """All help texts of the options of `chiasma fit`."""
    return "\n".join(f"{option.opts} {option.help}" for option in get_command(app).commands["fit"].params)


def some_emission(kind: type[Additive], prior: bool = False) -> Additive:
    """With a number of its own for every argument, or a prior."""
    given: dict[str, Any] = {}
    for i, (name, argument) in enumerate(kind.arguments.items()):
        value = np.array([0.25, 0.5]) if argument.takes == "list" else 0.5 + i
        given[name] = argument.default_prior.centred_on(name, value) if prior else value
    return kind(**given)


def some_chains(kind: type[Switches], prior: bool = False) -> Switches:
    numbers = {name: 0.1 + 0.1 * i for i, name in enumerate(kind.arguments)}
    made = {name: kind.arguments[name].default_prior.centred_on(name, x) for name, x in numbers.items()}
    return kind(**(made if prior else numbers))


def concrete_subclasses(base: type) -> set[type]:
    """Those that chiasma defines."""
    for module in pkgutil.walk_packages(ch.__path__, "chiasma."):
        importlib.import_module(module.name)
    found, open_ = set(), [base]
    while open_:
        kind = open_.pop()
        open_ += kind.__subclasses__()
        if not inspect.isabstract(kind) and kind.__module__.startswith("chiasma."):
            found.add(kind)
    return found


# ---- Every class is registered, every registered class is known everywhere -------------------------------------------


@pytest.mark.parametrize("base", REGISTRIES, ids=lambda base: base.__name__)
def test_class__is_registered_or_says_that_it_is_not_for_settings(base):
    registered = set(REGISTRIES[base].values())
    assert registered == {kind for kind in concrete_subclasses(base) if getattr(kind, "in_settings", True)}
    assert len(registered) == len(REGISTRIES[base])


def test_class__that_is_not_for_settings():
    outside = {kind for base in REGISTRIES for kind in concrete_subclasses(base)}
    outside -= {kind for registry in REGISTRIES.values() for kind in registry.values()}
    assert outside == {ch.Custom, ch.Table, ch.Compose, ch.BalancedCrossover, Coefficients, CopyNumber, Mixed, Samples}


@pytest.mark.parametrize("base", REGISTRIES, ids=lambda base: base.__name__)
def test_registered__is_a_public_name(base):
    stub = ast.parse((Path(ch.__file__).parent / "__init__.pyi").read_text(encoding="utf-8"))
    (names,) = [ast.literal_eval(node.value) for node in stub.body if isinstance(node, ast.Assign)]
    for kind in REGISTRIES[base].values():
        assert kind.__name__ in names
        assert getattr(ch, kind.__name__) is kind


@pytest.mark.parametrize("kind", [*EMISSIONS.values(), Switches], ids=lambda kind: kind.__name__)
def test_registered__describes_every_argument_of_its_constructor(kind):
    assert list(kind.arguments) == list(inspect.signature(kind).parameters)
    for argument in kind.arguments.values():
        assert argument.help.endswith(".")
        assert argument.help[0].islower() or argument.help.startswith("P(")


def test_settings__have_keys_and_options_of_their_own():
    options = Counter(name for option in get_command(app).commands["fit"].params for name in option.opts)
    assert {name for name, n in options.items() if n > 1} == set()
    assert len({setting.key for setting in all_settings()}) == len(all_settings())
    for key in {key for kind in EMISSIONS.values() for key in parameters_of(kind)}:
        users = [parameters_of(kind)[key].about for kind in EMISSIONS.values() if key in parameters_of(kind)]
        assert len({(about.help, about.takes) for about in users}) == 1  # one option, one help


def test_registered__is_in_the_help_of_fit():
    shown = {option.name: option.help for option in get_command(app).commands["fit"].params}
    for name, option in [
        ("emission", EMISSIONS),
        ("update", UPDATES),
        ("exchange", EXCHANGES),
        ("learn", prior_names()),
    ]:
        for one in option:
            assert one in shown[name].replace(",", " ").replace(".", " ").replace(")", " ").replace("(", " ").split()
    for kind in (*EMISSIONS.values(), Switches):
        for key, parameter in parameters_of(kind).items():
            assert parameter.about.help[1:] in shown[key]
            assert parameter.about.default_prior.formula in shown["learn"]
    for name, update in UPDATES.items():
        assert (f"{name}:" in shown["update"]) == (update.number is not None)
        assert update.number is None or f"{name}:{update.number.upper()}" in shown["update"]


@pytest.mark.parametrize("prior", [False, True], ids=["numbers", "priors"])
@pytest.mark.parametrize("name", EMISSIONS)
def test_emission__round_trips(name, prior, tmp_path):
    """Through a stored run's JSON and through a TOML file."""
    model = ch.FactorialHMM(rows=some_chains(Switches, prior), emission=some_emission(EMISSIONS[name], prior))
    description = json.loads(json.dumps(describe_model(model)))
    Settings(**settings_of(model)).write(tmp_path / "model.toml", "A model.")
    for again in (rebuild_model(description), Settings.read(tmp_path / "model.toml").model()):
        assert again is not None
        assert type(again.emission) is EMISSIONS[name]
        assert describe_model(again) == description
        assert again.parameters.names == model.parameters.names
        assert bool(again.parameters.names) == prior


@pytest.mark.parametrize("name", UPDATES)
def test_update__by_its_name(name):
    sd = ch.HalfNormal(1) if name == "collapsed" else 1.0  # it updates parameters
    model = ch.FactorialHMM(rows=Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=sd))
    kind = UPDATES[name]
    assert ch.sample(model, [0.0, 1.0], update=name, exchange=None, draws=2, warmup=1, chains=1, seed=1).codes.size == 4
    if kind.number is not None:
        assert Settings(sampler={"update": f"{name}:2"}).sampler()["update"] == kind(**{kind.number: 2})


@pytest.mark.parametrize("name", EXCHANGES)
def test_exchange__by_its_name(name):
    model = ch.FactorialHMM(rows=Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0]))
    run = ch.sample(
        model,
        [0.0, 1.0],
        update="row",
        exchange=name,
        ladder=[1, 5],
        draws=2,
        warmup=1,
        chains=1,
        seed=1,
        progress=False,
    )
    assert f"{EXCHANGES[name].__name__} exchanges" in run.info["plan"]


# ---- One line is enough ----------------------------------------------------------------------------------------------


class Laplace(ch.Additive):
    """y ~ Laplace(level, scale)."""

    arguments = {"weights": WEIGHTS, "scale": ch.Argument("mean distance of the noise from 0.", required=True)}  # noqa: RUF012

    def __init__(self, weights: Any, scale: Any = 1.0):
        super().__init__(weights)
        self.scale = self.parameter("scale", scale, positive=True)

    def log_density(self, y: Any, level: Any) -> Any:
        return -np.abs(y - level) / self.scale - np.log(2 * self.scale)

    def sample(self, level: Any, rng: np.random.Generator) -> Any:
        return rng.laplace(level, self.scale)

    def expected(self, level: Any) -> Any:
        return level


class DealStep(PairStep):
    """Two paths, with targets and betas of their own, exchange one column, by Metropolis-Hastings."""

    n_uniforms, is_swap = 2, False

    def __init__(self, targets, betas):
        self.targets, self.betas = targets, betas

    def log_density(self, *paths) -> float:
        parts = zip(self.targets, self.betas, paths, strict=True)
        return sum(target.log_prior(path) + beta * target.log_likelihood(path) for target, beta, path in parts)

    def __call__(self, a, b, uniforms) -> int:
        t = int(uniforms[0] * len(a))
        c, d = a.copy(), b.copy()
        c[t], d[t] = b[t], a[t]
        if a[t] == b[t] or uniforms[1] >= np.exp(min(0.0, self.log_density(c, d) - self.log_density(a, b))):
            return 0
        a[t], b[t] = c[t], d[t]
        return 1


@dataclass(frozen=True, kw_only=True)
class Deal(Exchange):
    """An exchange of one's own: no kernel knows it."""

    def bind(self, target_i, target_j, betas) -> DealStep:
        return DealStep((target_i, target_j), betas)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "y.csv").write_text("".join(f"{y}\n" for y in (0, 1, 0, 9, 11, "NA", 10, 0, 2, 1)))
    return tmp_path


@pytest.fixture
def laplace(monkeypatch):
    monkeypatch.setitem(EMISSIONS, "laplace", Laplace)


FIT = ["fit", "y.csv", "--enter", 0.1, "--draws", 6, "--warmup", 4, "--chains", 2, "--seed", 1, "-q", "--tables-only"]
OPTIONS = ["--emission", "laplace", "--weights", "4,6", "--scale", 1.5]


def test_new_emission__in_the_help(laplace, monkeypatch):
    assert "laplace: mean distance of the noise from 0." in fit_help()
    assert "negative-binomial or laplace." in fit_help()
    assert "dispersion, scale: LogNormal(log x, 0.5)" in fit_help()
    result = run("fit", "--help")
    assert "--scale" in result.stdout
    monkeypatch.delitem(EMISSIONS, "laplace")
    assert "scale" not in fit_help()


def test_new_emission__by_options_in_a_file_and_in_a_stored_run(here, laplace, request):
    result = run(*FIT[:-1], *OPTIONS, "--out", "options")
    assert result.exit_code == 0, result.output
    request.getfixturevalue("light_pictures")  # the first run has drawn everything as it is
    (here / "m.toml").write_text('[model]\nemission = "laplace"\nweights = [4, 6]\nscale = 1.5\n')
    assert run(*FIT, "--model", "m.toml", "--out", "file").exit_code == 0
    first, second = (ch.open_posterior(f"{name}/run.zarr") for name in ("options", "file"))
    np.testing.assert_array_equal(first.codes.values, second.codes.values)
    assert type(first.model.emission) is Laplace
    assert first.model.emission.scale == 1.5
    assert run("show", "options", "-q").exit_code == 0
    assert run("fit", "y.csv", "--out", "options", "--resume", "--draws", 9, "-q", "--tables-only").exit_code == 0
    assert "needs --weights, --scale" in refused(*FIT, "--emission", "laplace", "--out", "none")
    assert "--sd belongs to gaussian and student-t and integrated-depth, and the emission is laplace" in refused(
        *FIT, *OPTIONS, "--sd", 1, "--out", "none"
    )


def test_new_emission__is_learned(here, laplace):
    result = run(*FIT, *OPTIONS, "--learn", "scale", "--update", "row", "--exchange", "none", "--out", "learned")
    assert result.exit_code == 0, result.output
    posterior = ch.open_posterior("learned/run.zarr")
    assert list(posterior.parameters) == ["scale"]
    assert repr(posterior.model.emission.priors["scale"]) == f"LogNormal({np.log(1.5):g}, 0.5)"
    assert "scale = {log_normal = [" in (here / "learned/settings.toml").read_text()
    (here / "m.toml").write_text(
        '[model]\nemission = "laplace"\nweights = [4, 6]\n\n[priors]\nscale = {half_normal = 2}\n'
    )
    assert run(*FIT, "--model", "m.toml", "--update", "row", "--exchange", "none", "--out", "file").exit_code == 0
    assert repr(ch.open_posterior("file/run.zarr").model.emission.priors["scale"]) == "HalfNormal(2)"


def test_new_emission__before_it_is_registered(here, monkeypatch):
    """A run that remembers the attributes alone opens without its model, also when the class is registered later."""
    model = ch.FactorialHMM(rows=Switches(0.1, 0.1), emission=Laplace([4.0, 6.0], 1.5))
    description = describe_model(model)
    assert description["emission"].endswith("test_registries.Laplace")
    assert isinstance(description["parameters"]["weights"], str)  # a digest
    ch.sample(model, [0.0, 4.0, 6.0], draws=2, warmup=1, chains=1, seed=1, store="run.zarr", progress=False)
    assert ch.open_posterior("run.zarr").model is None
    monkeypatch.setitem(EMISSIONS, "laplace", Laplace)
    assert ch.open_posterior("run.zarr").model is None
    assert ch.open_posterior("run.zarr", model=model).model is model
    assert describe_model(model)["parameters"] == {"weights": [4.0, 6.0], "scale": 1.5}


class Slow(Switches):
    """Chains of one's own."""


def test_chains_of_ones_own__are_stored_by_name_only():
    description = describe_model(ch.FactorialHMM(rows=Slow(0.1, 0.2), emission=ch.Gaussian([1.0])))
    assert description["chains"].endswith("test_registries.Slow")
    assert rebuild_model(description) is None
    assert "chains" not in describe_model(ch.FactorialHMM(rows=Switches(0.1, 0.2), emission=ch.Gaussian([1.0])))


def test_new_exchange__by_its_name(here, monkeypatch):
    fit = [*FIT, "--weights", "4,6", "--sd", 1, "--update", "row", "--ladder", "1,5"]
    assert "'augmented', 'mosaic' or an object, got \"deal\"" in refused(*fit, "--exchange", "deal", "--out", "none")
    monkeypatch.setitem(EXCHANGES, "deal", Deal)
    assert "augmented, mosaic or deal." in fit_help()
    result = run(*fit, "--exchange", "deal", "--out", "deal")
    assert result.exit_code == 0, result.output
    assert "Deal exchanges" in ch.open_posterior("deal/run.zarr").info["plan"]
    assert "'mosaic', 'deal' or an object" in refused(*fit, "--exchange", "dealt", "--out", "none")


BINARY = ch.FactorialHMM(rows=ch.Switches(0.3, 0.2), emission=ch.Gaussian([1.0, 2.0], sd=0.7))
STATES = [ch.Row([0, 1, 3], ch.Sticky(0.3)), ch.Row([0, 2], ch.Switch(0.2, 0.3), copies=2)]
OWN_MODELS = {
    "binary": BINARY,
    "states": ch.FactorialHMM(rows=STATES, emission=ch.Gaussian(sd=0.7)),
    "learned": ch.FactorialHMM(rows=STATES, emission=ch.Gaussian(sd=ch.HalfNormal(1))),
    "learned rates": ch.FactorialHMM(rows=ch.Switches(ch.Beta(1, 9), 0.2), emission=ch.Gaussian([1.0, 2.0], sd=0.7)),
}


@pytest.mark.parametrize("model", OWN_MODELS.values(), ids=OWN_MODELS)
def test_new_exchange__serves_every_model(model, monkeypatch):
    monkeypatch.setitem(EXCHANGES, "deal", Deal)
    options = {"update": "row", "exchange": "deal", "ladder": [1, 3], "chains": 1, "seed": 1, "progress": False}
    posterior = ch.sample(model, [0.1, 2.9, 3.2, 1.1, 0.2], draws=30, warmup=4, **options)
    assert posterior.exchange_stats["columns"].values[0] > 0


@pytest.mark.parametrize("rows", [ch.Switches(0.3, 0.2), STATES[:1]], ids=["binary", "states"])
def test_new_exchange__is_proved_as_ours_are(rows):
    """And so can a wrong one be rejected, which forgets a temperature."""
    emission, y, betas = ch.Gaussian([1.0] if isinstance(rows, list) else [1.0, 2.0], sd=0.7), [0.4, 2.2], (1.0, 0.3)
    target = ch.FactorialHMM(rows=rows, emission=emission).target(y)
    paths = [path for path in product(range(2 ** n_bits(target.layout)), repeat=2) if possible(path, target.layout)]
    codes = [np.array(path) for path in paths]
    density = [[target.log_prior(path) + beta * target.log_likelihood(path) for path in codes] for beta in betas]
    cold, hot = (dict(zip(paths, np.exp(own) / np.sum(np.exp(own)), strict=True)) for own in density)
    right, wrong = (DealStep((target, target), own) for own in (betas, (1.0, 1.0)))
    assert prove_pair(pair_step(right), cold, hot, right.n_uniforms).error <= 1e-12
    assert prove_pair(pair_step(wrong), cold, hot, wrong.n_uniforms).error > 1e-6


def possible(path: tuple[int, ...], layout: Layout) -> bool:
    return bool(np.all(unpack_codes(np.array(path), layout) < layout.sizes[:, None]))


@dataclass(frozen=True, kw_only=True)
class Pairs(ch.BlockGibbs):
    """Block Gibbs under another name."""


def test_new_update__by_its_name_and_its_number(monkeypatch):
    monkeypatch.setitem(UPDATES, "pairs", Pairs)
    assert Settings(sampler={"update": "pairs:2"}).sampler()["update"] == Pairs(size=2)
    assert "jumps:SIZE, pairs or pairs:SIZE." in fit_help()
    with pytest.raises(ch.InvalidInput, match="hamming-ball:RADIUS or jumps:SIZE or pairs:SIZE, got 'row:2'"):
        Settings(sampler={"update": "row:2"}).sampler()
    model = ch.FactorialHMM(rows=Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0]))
    options = {"exchange": None, "draws": 4, "warmup": 0, "chains": 1, "seed": 1, "progress": False}
    runs = [ch.sample(model, [0.0, 1.0], update=update, **options) for update in ("pairs", ch.BlockGibbs())]
    np.testing.assert_array_equal(*(one.codes.values for one in runs))
    with pytest.raises(ch.InvalidInput, match="'jumps', 'pairs' or an object"):
        ch.sample(model, [0.0, 1.0], update="pair", **options)


class HalfNormal2(ch.HalfNormal):
    """A half-normal distribution under another name."""


def test_new_prior__in_a_file_and_in_a_stored_run(monkeypatch):
    prior = HalfNormal2(3.0)
    monkeypatch.setitem(PRIORS, "HalfNormal2", HalfNormal2)
    assert write_prior(prior) == {"half_normal2": 3.0}
    assert type(read_prior("sd", {"half_normal2": 3.0})) is HalfNormal2
    model = ch.FactorialHMM(rows=Switches(0.1, 0.1), emission=ch.Gaussian([1.0], sd=prior))
    again = rebuild_model(describe_model(model))
    assert again is not None
    assert type(again.emission.priors["sd"]) is HalfNormal2
    assert "dirichlet_rows, half_normal2" in fit_help()


def test_table__with_learned_chains_takes_values():
    """Every emission can be made again with other values, also one that no file can name."""
    chains = Switches(ch.Beta(1, 9), 0.2)
    model = ch.FactorialHMM(rows=chains, emission=ch.Table(np.zeros((3, 2)))).at({"enter": 0.5})
    assert model.rows.chains.enter == 0.5
    np.testing.assert_array_equal(model.emission.log_lik, np.zeros((3, 2)))


# ---- An emission in a file of one's own ------------------------------------------------------------------------------


PLUGIN = """import numpy as np
import chiasma as ch


class Cauchy(ch.Additive):
    arguments = ch.Additive.arguments | {"scale": ch.Argument("half width of the noise.", required=True)}

    def __init__(self, weights=None, scale=1.0):
        super().__init__(weights)
        self.scale = self.parameter("scale", scale, positive=True)

    def log_density(self, y, level):
        return -np.log(np.pi * self.scale * (1 + ((y - level) / self.scale) ** 2))

    def sample(self, level, rng):
        return level + self.scale * rng.standard_cauchy(np.shape(level))

    def expected(self, level):
        return level


ch.register_emission("cauchy", Cauchy)
"""


@pytest.fixture
def plugin(here, monkeypatch):
    """A file with an emission; what it registers is forgotten afterwards."""
    monkeypatch.setattr(plugins, "_loaded", {})
    (here / "cauchy.py").write_text(PLUGIN)
    yield "cauchy.py"
    forget()


CAUCHY = ["--emission", "cauchy", "--weights", "4,6", "--scale", 1.5]


def forget():
    """As in a new process."""
    plugins._loaded.clear()
    EMISSIONS.pop("cauchy", None)
    sys.modules.pop("cauchy", None)


@pytest.mark.parametrize("emission", [["--emission", "cauchy"], ["--emission=cauchy"]])
def test_plugin__that_is_not_loaded_is_asked_for_before_its_options(emission, here):
    said = refused("fit", "y.csv", *emission, "--weights", 1, "--width", 0.1, "--out", "run")
    assert "got 'cauchy'; one of your own is registered by a file: chiasma --plugin FILE.py" in said


def test_plugin__is_known_to_every_command(plugin, here, monkeypatch):
    result = run("--plugin", plugin, *FIT, *CAUCHY, "--out", "run")
    assert result.exit_code == 0, result.output
    forget()
    for command in (["show", "run", "--check"], ["fit", "y.csv", "--out", "run", "--resume"]):
        said = refused(*command)
        assert "run/settings.toml: emission must be one of gaussian, student-t" in said
        assert "got 'cauchy'; one of your own is registered by a file: chiasma --plugin FILE.py" in said
    assert run("--plugin", plugin, "show", "run", "--check").exit_code == 0
    forget()
    monkeypatch.setenv("CHIASMA_PLUGIN", plugin)
    assert "--scale" in run("fit", "--help").stdout
    assert ch.open_posterior("run/run.zarr").model.emission.scale == 1.5
    assert RunDirectory(Path("run")).how_to_show() == f"chiasma --plugin {here / plugin} show run"
    monkeypatch.delenv("CHIASMA_PLUGIN")
    said = refused("fit", f"--plugin={plugin}", "y.csv")
    assert "--plugin comes before the command: chiasma --plugin FILE.py fit ..." in said


@pytest.mark.parametrize(
    ("given", "table", "helped"),
    [
        ("ch.HalfNormal(0.5)", {"half_normal": 0.5}, "HalfNormal(0.5)"),
        ("ch.HalfNormal", {"half_normal": 1.5}, "HalfNormal(0.5) for x = 0.5"),
        ("lambda x: ch.Gamma(2, 2 / x)", {"gamma": [2, 2 / 1.5]}, "Gamma(2, 4) for x = 0.5"),
        ("lambda x: ch.LogNormal(np.log(x - 1), 1)", {"log_normal": [np.log(0.5), 1]}, "LogNormal(0, 1) for x = 2"),
    ],
)
def test_plugin__with_a_default_prior_of_its_own(plugin, here, given, table, helped):
    (here / plugin).write_text(PLUGIN.replace("required=True", f"required=True, default_prior={given}"))
    result = run("--plugin", plugin, *FIT, *CAUCHY, "--learn", "scale", "--out", "run")
    assert result.exit_code == 0, result.output
    assert Settings.read(Path("run/settings.toml")).sections["priors"]["scale"] == table
    assert f"scale: {helped}" in fit_help()


def test_plugin__with_a_default_prior_that_needs_no_number(plugin, here):
    cauchy = ["--emission", "cauchy", "--weights", "4,6", "--learn", "scale"]
    assert "--learn scale needs a number to make a prior from: give --scale too" in refused(
        "--plugin", plugin, *FIT, *cauchy, "--out", "none"
    )
    forget()
    (here / plugin).write_text(PLUGIN.replace("required=True", "required=True, default_prior=ch.HalfNormal(0.5)"))
    result = run("--plugin", plugin, *FIT, *cauchy, "--out", "run")
    assert result.exit_code == 0, result.output
    settings = Settings.read(Path("run/settings.toml"))
    assert settings.sections["priors"] == {"scale": {"half_normal": 0.5}}
    assert "scale" not in settings.sections["model"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("0.5", "line 6: InvalidInput: default_prior must be a prior, such as ch.HalfNormal(0.5), or a function of"),
        ("('HalfNormal(x)', ch.HalfNormal)", "such as lambda x: ch.HalfNormal(x), got ('HalfNormal(x)', <class"),
        ("lambda x: x", "default_prior must return a prior of the number x, such as ch.HalfNormal(x), got 0.5 for x ="),
        ("ch.Normal", "for x = 0.5 it raised TypeError: Normal.__init__() missing 1 required"),
        ("lambda x: ch.HalfNormal(1 - x)", "scale = 1.5 makes no default prior: default_prior must return a prior of"),
        ("ch.HalfNormal([1, 2])", "HalfNormal([1.0, 2.0]) is a prior of numbers of shape (2,), got numbers of"),
    ],
)
def test_plugin__with_a_default_prior_that_is_wrong(plugin, here, given, message):
    (here / plugin).write_text(PLUGIN.replace("required=True", f"required=True, default_prior={given}"))
    assert message in refused("--plugin", plugin, *FIT, *CAUCHY, "--learn", "scale", "--out", "none")


def test_default_prior__of_one_number_serves_a_list():
    about = ch.Argument("weights.", takes="list", default_prior=ch.Gamma(2, 1))
    made = about.default_prior.centred_on("weights", [0.0, 3.0])
    assert repr(made) == "Gamma([2.0, 2.0], [1.0, 1.0])"
    assert about.prior_without_number is None  # it is not known how many
    assert ch.Argument("two.", takes="list", default_prior=ch.Gamma([2, 2], 1)).prior_without_number.shape == (2,)
    about = ch.Argument("weights.", takes="list", default_prior=lambda x: ch.Gamma(2, 2 / x.mean()))
    assert repr(about.default_prior.centred_on("weights", [1.0, 3.0])) == "Gamma([2.0, 2.0], [1.0, 1.0])"
    assert repr(about.default_prior) == "Gamma(2, 4) for x = 0.5"


def test_plugin__goes_with_the_tasks_of_a_cohort(plugin, here):
    (here / "sheet.csv").write_text("sample,path\na,y.csv\n")
    plugins.load_plugins([plugin])
    settings = {"model": {"emission": "cauchy", "weights": [4, 6], "scale": 1.5, "enter": 0.1}}
    settings["sampler"] = {"draws": 4, "warmup": 2, "chains": 1}
    directory, plan = begin_cohort(
        "sheet.csv", "cohort", cohort_settings(Settings(**settings)), seed=1, tables_only=True
    )
    task = task_of(directory, plan, plan.samples[0])
    forget()
    outcome = run_task(task)
    assert (outcome.status, outcome.error) == ("done", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import chiasma\n", "registers no emission; write at its end: ch.register_emission"),
        ("x = 1\nx.y\n", "cauchy.py, line 2: AttributeError: 'int' object has no attribute 'y'"),
        ("def f(:\n", "cauchy.py: SyntaxError:"),
        (PLUGIN.replace('"cauchy"', '"Cauchy"'), "has lower-case letters, digits and hyphens, such as 'laplace', got"),
        (PLUGIN.replace('"cauchy"', '"poisson"'), "'poisson' is an emission of chiasma; choose another name"),
        (PLUGIN.replace(", Cauchy)", ", Cauchy([1.0]))"), "is a subclass of ch.Additive, got Cauchy("),
        (PLUGIN.replace("def sample", "def draw"), "Cauchy needs the methods sample; write them, then register it"),
        (
            PLUGIN.replace("scale=1.0", "width=1.0").replace('"scale", scale', '"scale", width'),
            "Cauchy.arguments must describe what __init__ takes, weights, width, got weights, scale; write",
        ),
    ],
)
def test_plugin__that_is_wrong(plugin, here, text, message):
    (here / plugin).write_text(text)
    assert message in refused("--plugin", plugin, *FIT, *CAUCHY, "--out", "none")


def test_plugin__whose_option_is_taken(plugin, here):
    (here / plugin).write_text(PLUGIN.replace("scale", "draws"))
    said = refused("--plugin", plugin, *FIT, "--emission", "cauchy", "--out", "none")
    assert "the emission cauchy has an argument 'draws', and [sampler] has such a setting already" in said


def test_plugin__that_is_no_file_or_has_the_name_of_a_module(plugin, here):
    assert "--plugin takes a Python file such as laplace.py, got 'no.py'" in refused("--plugin", "no.py", "show", "run")
    (here / "random.py").write_text(PLUGIN)
    assert "there is a module 'random' already; rename the file" in refused("--plugin", "random.py", "show", "run")

"""Settings: what the command line and a TOML file become, and how they are refused."""

import math
import re

import pytest

import chiasma as ch
from chiasma.errors import InvalidInput
from chiasma.io.estimates import left_out
from chiasma.io.options import as_sections, keys, parse_fixed, parse_ladder, parse_list, parse_numbers
from chiasma.io.settings import Settings, fresh_seed, make_ladder, make_update, settings_of
from chiasma.models.emissions import EMISSIONS

GAUSSIAN = {"weights": [0.2, 0.3], "depth": 10.0, "sd": 1.0, "enter": 0.1}
MODELS = [
    ch.Gaussian([0.2, 0.3], depth=10, sd=2),
    ch.IntegratedDepth([0.2, 0.3], depth_mean=10, depth_sd=1, sd=2),
    ch.Poisson([0.2, 0.3], depth=10, background=1),
    ch.NegativeBinomial([0.2, 0.3], depth=10, dispersion=0.2, background=1),
    ch.StudentT([0.2, 0.3], depth=10, sd=2, df=5),
]


@pytest.mark.parametrize("emission", MODELS, ids=lambda emission: type(emission).__name__)
def test_model__is_the_one_that_was_written(tmp_path, emission):
    chains = ch.Switches([0.1, 0.2], 0.3, initial=0.5)
    model = ch.FactorialHMM(rows=chains, emission=emission, fixed={1: 1})
    Settings(**settings_of(model)).write(tmp_path / "model.toml", "A model.")
    again = Settings.read(tmp_path / "model.toml").model()
    assert type(again.emission) is type(emission)
    assert repr(again) == repr(model)
    assert settings_of(again) == settings_of(model)
    assert settings_of(model)["priors"] == {}


def test_emissions__are_all_tested():
    assert set(EMISSIONS.values()) == {type(emission) for emission in MODELS}


def test_model__leave_is_enter_unless_given():
    model = Settings(model=GAUSSIAN).model()
    assert model.rows.chains.leave == model.rows.chains.enter == 0.1
    assert Settings(model=GAUSSIAN | {"leave": 0.2}).model().rows.chains.leave == 0.2


def test_merged__the_later_wins_and_none_changes_nothing():
    settings = Settings(model=GAUSSIAN).merged(model={"sd": 3.0, "depth": None}, sampler={"draws": 5, "seed": None})
    assert settings.sections["model"] == GAUSSIAN | {"sd": 3.0}
    assert settings.sampler() == {"draws": 5}


def test_sampler__objects_and_names():
    sampler = {"update": "hamming-ball:2", "exchange": "none", "ladder": [1.0, 5.0]}
    assert Settings(sampler=sampler).sampler() == {
        "update": ch.HammingBall(radius=2),
        "exchange": None,
        "ladder": [1.0, 5.0],
    }


def test_write__every_kind_of_value_reads_back(tmp_path):
    sections = {
        "data": {"value": 'a "b"\\c', "gap_unit": 0.5},
        "model": {"weights": [[1.0, 2.0], [3.0, 4.0]], "fixed": {"1": 0}},
        "priors": {"sd": {"half_normal": 2.0}, "depth": {"normal": {"mean": [1.0, 2.0], "sd": 3.0}}},
        "sampler": {"ladder": [1.0, math.inf], "seed": 2**32 - 1, "update": "auto"},
    }
    Settings(**sections).write(tmp_path / "a.toml", "All of it.")
    assert Settings.read(tmp_path / "a.toml").sections == sections


@pytest.mark.parametrize(
    ("section", "what"),
    [
        ({}, "the model (gaussian) needs --weights, --sd, --enter; give them on the command line or in a file"),
        ({"weights": [1.0], "enter": 0.1}, "the model (gaussian) needs --sd; give it on the command line or in a file"),
        ({"emission": "integrated-depth"}, "needs --weights, --depth, --depth-sd, --sd, --enter"),
        ({"emission": "normal"}, "emission must be one of gaussian, student-t, integrated-depth, poisson"),
        (GAUSSIAN | {"df": 3}, "--df belongs to student-t, and the emission is gaussian; drop it"),
        (GAUSSIAN | {"background": 3}, "--background belongs to poisson and negative-binomial"),
        (GAUSSIAN | {"fixed": [1]}, "fixed must be a table of rows and states such as {5 = 1}"),
        (GAUSSIAN | {"fixed": {"7": 1}}, "--fixed-row 7=1: there is no row 7; rows count from 0"),
        (GAUSSIAN | {"fixed": {"0": 2}}, "fixed maps rows 0..1 to 0 or 1, got {0: 2}"),
        (GAUSSIAN | {"sd": "wide"}, "sd must be numbers"),
    ],
)
def test_model__refuses(section, what):
    with pytest.raises(InvalidInput, match=re.escape(what)):
        Settings(model=section).model()


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "[modle]\nsd = 1\n",
            "got 'modle'; did you mean 'model'?",
        ),
        ("sd = 1\n", "there are the sections"),
        ("model = 1\n", "[model] must be a section"),
        ("row = 1\n", "[[row]]"),
        ("[sampler]\nupdate = 3\n", "update of [sampler] must be a text, got 3"),
        ("[sampler]\ndraws = 2.5\n", "draws of [sampler] must be a whole number, got 2.5"),
        ("[sampler]\ndraws = true\n", "draws of [sampler] must be a whole number, got True"),
        ("[sampler]\nevidence = 1\n", "evidence of [sampler] must be true or false, got 1"),
        ("[sampler]\nladder = 5\n", "ladder of [sampler] must be a text or temperatures"),
        ("[model]\ndepth = true\n", "depth of [model] must be numbers, got True"),
        ("[model]\nsd = 2020-01-01\n", "sd of [model] must be numbers"),
        ("[priors]\nsd = 3\n", "sd of [priors] must be a table, got 3"),
        ("[output]\ntables_only = 1\n", "tables_only of [output] must be true or false, got 1"),
        ("[model]\nstd = 1\n", "section [model] has no setting 'std'; did you mean 'sd'?"),
        ("[sampler]\nqqq = 1\n", "section [sampler] has no setting 'qqq'; there are draws, warmup"),
        ("[output]\ntable_only = true\n", "section [output] has no setting 'table_only'; did you mean 'tables_only'?"),
        ("[model\n", "is not a TOML file"),
    ],
)
def test_read__refuses(tmp_path, text, what):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(InvalidInput, match=re.escape(what)):
        Settings.read(tmp_path / "a.toml")


def test_read__refuses_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InvalidInput, match="there is no such file"):
        Settings.read(tmp_path / "none.toml")
    with pytest.raises(InvalidInput, match="is a directory"):
        Settings.read(tmp_path)


@pytest.mark.parametrize(
    ("parse", "what"),
    [
        (lambda: parse_numbers("enter", "0.1,x"), "--enter must be numbers, separated by commas if several; got 'x'"),
        (lambda: parse_list("weights", ""), "--weights must be numbers"),
        (lambda: parse_ladder("ladder", "hot"), "--ladder must be numbers"),
        (lambda: make_ladder("auto:many"), "an adapted ladder of a given size is auto:RUNGS, got 'auto:many'"),
        (
            lambda: parse_fixed("fixed", ["5"]),
            "--fixed-row takes ROW=STATE such as 5=1 (rows count from 0), got '5'",
        ),
        (lambda: parse_fixed("fixed", ["5=2"]), "got '5=2'"),
        (
            lambda: make_update("row:2"),
            "an update with a number is collapsed:STARTS or block:SIZE or gaussian-blocks:SIZE or hamming-ball:RADIUS "
            "or jumps:SIZE, got 'row:2'",
        ),
        (lambda: make_update("block:two"), "got 'block:two'"),
        (lambda: make_update("ball:2"), "got 'ball:2'"),
    ],
)
def test_parse__refuses(parse, what):
    with pytest.raises(InvalidInput, match=re.escape(what)):
        parse()


def test_parse__accepts():
    assert parse_list("weights", "0.5") == [0.5]
    assert parse_ladder("ladder", "auto") == "auto"
    assert parse_ladder("ladder", "1,5,inf") == [1, 5, math.inf]
    assert Settings(sampler={"ladder": "auto:5"}).sampler()["ladder"] == ch.Ladder.adapted(5)
    assert make_update("block:2") == ch.BlockGibbs(size=2)


def test_as_sections__holds_what_was_given_as_a_file_would():
    options = {"value": "y", "weights": "0.5", "enter": "0.1", "leave": "0.1,0.2", "fixed": ["0=1"], "seed": 0}
    assert as_sections(options | {"sd": None, "ladder": "1,5"}) == {
        "data": {"value": "y"},
        "model": {"weights": [0.5], "enter": 0.1, "leave": [0.1, 0.2], "fixed": {"0": 1}},
        "sampler": {"ladder": [1.0, 5.0], "seed": 0},
    }


def test_columns__numbers_are_names():
    columns = Settings(data={"value": 2, "gap_unit": "10"}).columns()
    assert columns.value == "2"
    assert columns.gap_unit == 10


def test_fresh_seed__is_fresh():
    assert fresh_seed() != fresh_seed()


def test_keys__of_every_section():
    parameters = ["weights", "depth", "sd", "df", "depth_sd", "background", "dispersion", "enter", "leave", "initial"]
    assert keys() == {
        "data": ["value", "chromosome", "position", "end", "known", "covariate", "sample", "gap_unit", "delimiter"],
        "model": ["emission", *parameters, "fixed", "drift", "hum"],
        "priors": parameters,
        "sampler": [
            *("draws", "warmup", "chains", "thin", "update"),
            *("exchange", "ladder", "exchange_every", "exact_seconds", "evidence", "seed", "workers"),
        ],
    }


@pytest.mark.parametrize(
    ("parts", "got"),
    [
        ((ch.Switches, ch.Custom(max, [1.0])), "Custom and Switches"),
        ((type("Own", (ch.Switches,), {}), ch.Poisson([1.0])), "Poisson and Own"),
    ],
)
def test_settings_of__refuses_what_no_file_can_say(parts, got):
    chains, emission = parts
    with pytest.raises(InvalidInput, match=f"settings know the emissions gaussian, .* and Switches, got {got}; keep"):
        settings_of(ch.FactorialHMM(rows=chains(0.1, 0.1), emission=emission))


def test_learning__a_number_that_is_not_given_is_that_of_another_setting():
    learned = Settings(model={"enter": 0.1, "weights": [1.0, 2.0], "sd": 0.5}).learning(["leave"])
    assert learned.sections["priors"] == {"leave": {"beta": [1.0, 9.0]}}
    chains = learned.model().rows.chains
    assert (float(chains.enter), list(chains.priors)) == (0.1, ["leave"])
    with pytest.raises(ch.InvalidInput, match="--learn leave needs a number to make a prior from: give --leave too"):
        Settings(model={"weights": [1.0, 2.0], "sd": 0.5}).learning(["leave"])


def use(path):
    """Everything that a fit asks of its settings."""
    settings = Settings.read(path)
    settings.sampler()
    left_out(settings, [])
    settings.model()


@pytest.mark.parametrize(
    "text",
    [
        "[model]\ndepth = " + "9" * 5000,
        "[model]\nweights = 'a'\nsd = 1\nenter = 0.1\n",
        "[model]\nweights = 3\nsd = 1\nenter = 0.1\n[priors]\nweights = {dirichlet = [1, 2]}\n",
        f"[sampler]\nupdate = 'block:{'9' * 5000}'\n",
        f"[model]\nweights = [1.0]\nsd = 1\nenter = 0.1\nfixed = {{{'9' * 5000} = 1}}\n",
    ],
)
def test_read__wrong_values_are_our_errors(tmp_path, text):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(InvalidInput):
        use(tmp_path / "a.toml")


@pytest.mark.parametrize("name", ["a\n[sampler]\ndraws = 1", "a\x1b[31m", "a\udcff", "a\u2028[model]", "a\r"])
def test_write__a_name_is_never_a_setting(tmp_path, name):
    Settings(model=GAUSSIAN).write(tmp_path / "a.toml", f"Settings of a fit of {name}.")
    assert Settings.read(tmp_path / "a.toml").sections["sampler"] == {}
    assert Settings.read(tmp_path / "a.toml").sections["model"] == GAUSSIAN


def test_write__text_with_odd_characters(tmp_path):
    Settings(data={"value": "a\x7f\n\t\U0001f600"}).write(tmp_path / "a.toml", "Odd.")
    assert Settings.read(tmp_path / "a.toml").sections["data"] == {"value": "a\x7f\n\t\U0001f600"}
    with pytest.raises(InvalidInput, match="UTF-8"):
        Settings(data={"value": "a\udcff"}).write(tmp_path / "a.toml", "Not text.")


def test_offset__is_the_one_that_was_written(tmp_path):
    offset = [ch.Smooth(knots=12), ch.Periodic("mains")]
    emission = ch.Gaussian([1.0], sd=ch.HalfNormal(1))
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=emission, offset=offset)
    Settings(**settings_of(model)).write(tmp_path / "model.toml", "A model.")
    settings = Settings.read(tmp_path / "model.toml")
    assert settings.sections["model"]["drift"] == 12
    assert settings.sections["model"]["hum"] == "mains"
    found = settings.model().offset
    assert found is not None
    assert found.terms == tuple(offset)
    assert as_sections({"drift": 12, "hum": "50"})["model"] == {"drift": 12, "hum": 50.0}


@pytest.mark.parametrize("offset", [[ch.Smooth(knots=5, scale=2.0)], [ch.Covariates([0.0, 1.0])], [0.0, 1.0]])
def test_settings_of__refuses_offsets_that_no_file_can_say(offset):
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0]), offset=offset)
    with pytest.raises(InvalidInput, match="Python code"):
        settings_of(model)

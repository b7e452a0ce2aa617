"""Settings of a fit, from a TOML file and from the command line, which takes precedence.

    [data]     which columns of the data file to read
    [model]    emission, its parameters, parameters of the chains, fixed
    [priors]   priors of parameters of the model, which are then learned: sd = {half_normal = 20}
    [sampler]  arguments of chiasma.sample
    [output]   what is written: tables_only = true leaves out report.html and figures
    [[row]]    rows with any number of states, in place of weights, enter and leave

`chiasma.io.options` lists every setting. A key is the option of the command line with _ in place of -. A parameter
with a number and a prior is learned; a number given as an option replaces a prior from a file.

Rows:

    [[row]]
    name = "washer"
    values = [0, 150, 2000]
    sticky = {renew = 0.01, probabilities = [0.8, 0.1, 0.1]}   # or switch = {...}, markov = {...}

    [[row]]
    name = "lamp"
    values = [0, 1]
    weight = {log_normal = [4.6, 0.5]}                         # a prior, as in [priors]: learned, one for all copies
    switch = {enter = {beta = [1, 99]}, leave = 0.02}
    copies = 8

A prior with shared = "NAME" is one parameter of all rows that name it: weight = {gamma = [2, 1], shared = "step"}.

Priors:

    sd = {half_normal = 20}
    depth = {normal = [180, 30]}              # the arguments in order,
    depth = {normal = {mean = 180, sd = 30}}  # or by name
    weights = {dirichlet = [1, 1, 1]}
    enter = {beta = [[1, 1, 1], 99]}          # one value per row
    weights = [{normal = [0, 1]}, 2.0]        # numbers among priors stay as they are

The name of a prior is its class in snake case.
"""

from __future__ import annotations

import json
import math
import re
import secrets
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from chiasma import atomic
from chiasma.errors import InvalidInput
from chiasma.io.columns import Columns
from chiasma.io.options import (
    DATA,
    Parameter,
    all_settings,
    as_number,
    chain_parameters,
    emission_parameters,
    flag,
    keys,
    parameters_of,
    prior_names,
    update_names,
)
from chiasma.io.sheets import read_bytes
from chiasma.limits import MOST_KEY_PARTS, MOST_SETTINGS_BYTES
from chiasma.models.additive import Additive, Emission
from chiasma.models.chains import ROW_CHAINS, Switches
from chiasma.models.emissions import EMISSIONS
from chiasma.models.factorial import FactorialHMM
from chiasma.models.offsets import Covariates, Offset, Periodic, Smooth
from chiasma.models.priors import Mixed, Prior, mixed
from chiasma.models.rows import Row
from chiasma.sampling.ladder import Ladder
from chiasma.sampling.updates import UPDATES

Section = dict[str, Any]


class Settings:
    """Sections of plain values, and the objects built from them: columns, a model, arguments of the sampler."""

    def __init__(self, row: Sequence[Section] = (), output: Section | None = None, **sections: Any):
        self.sections: dict[str, Section] = {name: dict(sections.get(name, {})) for name in keys()}
        self.row: list[Section] = list(row)  # the [[row]] tables
        self.output: Section = dict(output or {})

    @classmethod
    def read(cls, path: Path) -> Settings:
        """Read a TOML file; raises InvalidInput for unknown sections and keys."""
        given = read_bytes(path, MOST_SETTINGS_BYTES)
        try:
            text = given.decode("utf-8-sig")
            if any(part.count(".") > MOST_KEY_PARTS for part in re.split(r"[=\[\],{}#\n]", text)):
                raise ValueError(f"a key has more than {MOST_KEY_PARTS} parts")
            content = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or an integer of thousands of digits
            raise InvalidInput(f"{path} is not a TOML file: {error}; correct it there") from error
        own = content.get("model")
        if isinstance(own, dict):
            _emission_of(own, f"{path}: ")  # first: of an emission that is unknown, so are the parameters
        check_content(path, content)
        read_rows(content.get("row", []))
        return cls(**content)

    def merged(self, row: Any = (), output: Section | None = None, learn: Any = (), **sections: Any) -> Settings:
        """A copy with other values for some settings; None changes nothing. row: all [[row]] tables, or none.

        A number replaces the prior of its parameter, unless that is one of `learn`.
        """
        later = {
            name: {key: value for key, value in sections.get(name, {}).items() if value is not None}
            for name in self.sections
        }
        merged = {name: own | later[name] for name, own in self.sections.items()}
        merged["priors"] = {
            key: table
            for key, table in merged["priors"].items()
            if key in later["priors"] or key not in later["model"] or key in learn
        }
        return Settings(row or self.row, self.output | (output or {}), **merged)

    def check_learned(self, names: Sequence[str]) -> None:
        """Raise InvalidInput for names that are no parameters of the model."""
        own = parameters_of(self._emission()[1]) | chain_parameters()
        for key in names:
            if key not in own:
                raise InvalidInput(f"--learn takes parameters of the model, got {key!r}{_hint(key, own)}")

    def learning(self, names: Sequence[str]) -> Settings:
        """A copy in which these parameters have priors: by default, made from their numbers if they need any."""
        self.check_learned(names)
        given, tables = self.sections["model"], dict(self.sections["priors"])
        own = parameters_of(self._emission()[1]) | chain_parameters()
        for key in names:
            if key in tables:
                continue
            about = own[key].about
            number = given.get(key, given.get(about.same_as))
            prior = about.prior_without_number if number is None else about.default_prior.centred_on(key, number)
            if prior is None:
                raise InvalidInput(
                    f"--learn {key} needs a number to make a prior from: give {flag(key)} too, or a prior of {key} in "
                    "[priors] of the --model file"
                )
            tables[key] = write_prior(prior)
        return self.merged(priors=tables)

    def write(self, path: Path, title: str) -> None:
        """Write a TOML file that `read` accepts; the write is atomic."""
        lines = [f"# {on_one_line(title)}"]
        for name, section in (self.sections | {"output": self.output}).items():
            if section:
                lines += ["", f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in section.items())]
        for table in self.row:
            lines += ["", "[[row]]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
        atomic.write_text(path, "\n".join(lines) + "\n")

    def columns(self) -> Columns:
        """Which columns of the data file to read."""
        given = self.sections["data"]
        kinds = {setting.key: setting.kind for setting in DATA}
        values: dict[str, Any] = {
            key: as_number(key, one) if kinds[key] is float else str(one) for key, one in given.items()
        }
        values["known"] = tuple((row, str(column)) for row, column in given.get("known", {}).items())
        return Columns(**values)

    def model(self, covariates: Covariates | None = None) -> FactorialHMM:
        """The model; the error message lists all missing settings at once. covariates: of the data file."""
        given, priors = self.sections["model"], self._priors()
        name, kind = self._emission()
        emission, chains = parameters_of(kind), chain_parameters()
        for key, users in emission_parameters().items():
            if (key in given or key in priors) and key not in emission:
                raise InvalidInput(
                    f"{flag(key) if key in given else f'the prior of {key}'} belongs to {' and '.join(users)}, and "
                    f"the emission is {name}; drop it or change the emission"
                )
        values: Section = given | priors
        if self.row:
            return self._model_of_rows(name, kind, emission, values, covariates)
        own = emission | chains
        absent = [flag(key) for key, one in own.items() if one.about.required and key not in values]
        _refuse_absent(name, absent)
        for key, one in own.items():
            if one.about.same_as and key not in values:
                # If the other parameter has a number and a prior, use the number.
                values[key] = given.get(one.about.same_as, values[one.about.same_as])
        fixed = _fixed_table(given.get("fixed", {}))
        _check_fixed(fixed, given.get("weights"))
        return FactorialHMM(
            rows=Switches(**_arguments(chains, values)),
            emission=kind(**_arguments(emission, values)),
            fixed=fixed,
            offset=_offset(given, covariates),
        )

    def _model_of_rows(
        self,
        name: str,
        kind: type[Additive],
        emission: Mapping[str, Parameter],
        values: Section,
        covariates: Covariates | None,
    ) -> FactorialHMM:
        extra = [flag(key) for key in (*chain_parameters(), "fixed") if key in values]
        if extra:
            raise InvalidInput(f"[[row]] tables say how rows switch; drop {', '.join(extra)}, or drop the tables")
        needed = (key for key, one in emission.items() if one.about.required and key != "weights")
        absent = [flag(key) for key in needed if key not in values]
        _refuse_absent(name, absent)
        made = kind(**_arguments(emission, values))
        return FactorialHMM(rows=read_rows(self.row), emission=made, offset=_offset(values, covariates))

    def emission_class(self) -> type[Additive]:
        """The class of the emission."""
        return self._emission()[1]

    def _emission(self) -> tuple[str, type[Additive]]:
        return _emission_of(self.sections["model"])

    def _priors(self) -> dict[str, Prior]:
        """Priors by key; a prior of weights must match the number of weights."""
        priors = {key: _read_prior(key, given) for key, given in self.sections["priors"].items()}
        weights = self.sections["model"].get("weights")
        if "weights" in priors and weights is not None and priors["weights"].shape != np.shape(weights):
            raise InvalidInput(
                f"the prior of weights, {priors['weights']}, must have as many values as there are weights, "
                f"{np.size(weights)}; correct one, or leave out the weights"
            )
        return priors

    def tables_only(self) -> bool:
        """Whether report.html and figures are left out."""
        return bool(self.output.get("tables_only", False))

    def sampler(self) -> dict[str, Any]:
        """Arguments of chiasma.sample."""
        arguments = dict(self.sections["sampler"])
        if "update" in arguments:
            arguments["update"] = make_update(arguments["update"])
        if "ladder" in arguments:
            arguments["ladder"] = make_ladder(arguments["ladder"])
        if arguments.get("exchange") == "none":
            arguments["exchange"] = None
        return arguments


def fresh_seed() -> int:
    """A random seed that is short enough to type."""
    return secrets.randbelow(2**32)


def settings_of(model: FactorialHMM) -> dict[str, Any]:
    """The sections [model] and [priors], and the [[row]] tables, from which a model can be rebuilt."""
    name = next((name for name, kind in EMISSIONS.items() if type(model.emission) is kind), None)
    parts: list[Emission | Switches] = [model.emission, *model.rows.parts]
    if name is None or any(type(chains) is not Switches for chains in model.rows.parts):
        raise InvalidInput(
            f"settings know the emissions {', '.join(EMISSIONS)} and Switches, got "
            f"{' and '.join(type(part).__name__ for part in parts)}; keep this model as Python code"
        )
    section: Section = {"emission": name}
    tables: Section = {}
    for part in parts:
        for key, parameter in parameters_of(type(part)).items():
            value = part.given(parameter.name)
            if isinstance(value, Prior):
                tables[key] = write_prior(value)
            elif value is not None:
                section[key] = value.tolist()
    if model.offset is not None:
        section |= _offset_section(model.offset)
    if model.rows.given:
        return {"model": section, "priors": tables, "row": write_rows(model.rows.given)}
    if model.fixed:
        section["fixed"] = {str(k): x for k, x in model.fixed.items()}
    return {"model": section, "priors": tables}


def _read_prior(key: str, given: Any) -> Prior:
    found = read_numbers(key, given)
    return found if isinstance(found, Prior) else read_prior(key, given)  # which refuses numbers alone


def make_ladder(given: Any) -> Any:
    """Convert "auto:RUNGS" to an adapted ladder of that size; return anything else unchanged."""
    kind, _, size = given.partition(":") if isinstance(given, str) else ("", "", "")
    if not size:
        return given
    if kind != "auto" or not _is_count(size):
        raise InvalidInput(f"an adapted ladder of a given size is auto:RUNGS, got {given!r}")
    return Ladder.adapted(int(size))


def make_update(given: Any) -> Any:
    """Convert a name with a number after a colon to an update; return anything else unchanged.

    >>> make_update("hamming-ball:3"), make_update("row")
    (HammingBall(radius=3), 'row')
    """
    name, _, number = str(given).partition(":")
    if not number:
        return given
    field = UPDATES[name].number if name in UPDATES else None
    if field is None or not _is_count(number):
        raise InvalidInput(f"an update with a number is {' or '.join(update_names(with_number=True))}, got {given!r}")
    return UPDATES[name](**{field: int(number)})


def _emission_of(model: Section, where: str = "") -> tuple[str, type[Additive]]:
    """Name and class of the emission; where: begins an error message."""
    name = str(model.get("emission", next(iter(EMISSIONS))))
    if name not in EMISSIONS:
        raise InvalidInput(
            f"{where}emission must be one of {', '.join(EMISSIONS)}, got {name!r}; one of your own is registered by a "
            "file: chiasma --plugin FILE.py (in Python: ch.register_emission)"
        )
    return name, EMISSIONS[name]


def _refuse_absent(name: str, absent: Sequence[str]) -> None:
    if absent:
        them = "it" if len(absent) == 1 else "them"
        raise InvalidInput(
            f"the model ({name}) needs {', '.join(absent)}; give {them} on the command line or in a file with --model"
        )


def _arguments(parameters: Mapping[str, Parameter], values: Section) -> dict[str, Any]:
    return {parameter.name: values[key] for key, parameter in parameters.items() if key in values}


def _offset(given: Section, covariates: Covariates | None) -> list[Smooth | Periodic | Covariates]:
    """The terms that the settings drift, hum and covariate ask for."""
    terms: list[Smooth | Periodic | Covariates] = [Smooth(knots=given["drift"])] if "drift" in given else []
    if "hum" in given:
        terms.append(Periodic(given["hum"]))
    return terms if covariates is None else [*terms, covariates]


def _offset_section(offset: Offset) -> Section:
    """The settings that `_offset` reads."""
    section: Section = {}
    for term in offset.terms:
        if isinstance(term, Smooth) and term == Smooth(knots=term.knots):
            section["drift"] = term.knots
        elif isinstance(term, Periodic) and term == Periodic(term.frequency):
            section["hum"] = term.frequency
        else:
            raise InvalidInput(
                f"settings know offsets with default arguments, ch.Smooth(knots=...) and ch.Periodic(...), got {term}; "
                "keep this model as Python code"
            )
    if offset.curve is not None:
        raise InvalidInput("settings know offsets to learn, got known values; keep this model as Python code")
    return section


def _fixed_table(given: Any) -> dict[int, int]:
    if not isinstance(given, dict) or not all(_is_count(row) for row in given):
        raise InvalidInput(f"fixed must be a table of rows and states such as {{5 = 1}}, got {given!r}")
    return {int(row): state for row, state in given.items()}


def _check_fixed(fixed: Mapping[int, int], weights: Any) -> None:
    """Raise InvalidInput for a row without a weight: often a baseline, or the last row counted from 1."""
    if not isinstance(weights, list):
        return
    n_rows = len(weights)
    for row, state in fixed.items():
        if row >= n_rows:
            listed = ",".join(f"{x:g}" if isinstance(x, float) else str(x) for x in weights)
            raise InvalidInput(
                f"--fixed-row {row}={state}: there is no row {row}; rows count from 0, and {flag('weights')} gives "
                f"rows 0..{n_rows - 1}. A baseline needs an extra weight W: {flag('weights')} {listed},W "
                f"--fixed-row {n_rows}=1"
            )


def _is_count(text: str) -> bool:
    """Whether a text is a whole number with few enough digits for the size of an array."""
    return text.isascii() and text.isdecimal() and len(text) < 10


def on_one_line(text: str) -> str:
    r"""The text with control characters and bytes that are no UTF-8 spelled out: a file's name cannot end a comment.

    >>> on_one_line("a\nb\x1b\udcff")
    'a\\nb\\x1b\\udcff'
    """
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def _toml(value: Any) -> str:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidInput(
                f"a setting must be UTF-8 text, got {value!r}; rename the column or the sample"
            ) from None
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml_key(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def _toml_key(key: str) -> str:
    bare = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if bare else _toml(key)


def _hint(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(known)}"


# ---- The content of a file ------------------------------------------------------------------------------------------


STRICT = ConfigDict(extra="forbid", strict=True)
EXPECTED = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
}
SECTIONS = "[data], [model], [priors], [sampler] and [output], and [[row]] tables"


def check_content(path: Path, content: dict[str, Any]) -> None:
    """Raise InvalidInput, which names the file and the setting, for anything that no setting takes."""
    kinds = _kinds()
    sections: dict[str, Any] = {name: (_section(name, own), None) for name, own in kinds.items()}
    file = create_model("Settings", __config__=STRICT, row=(list[dict[str, Any]], None), **sections)
    try:
        file.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InvalidInput(f"{path}: {_message(first['type'], first['loc'], first['input'], kinds)}") from None


def _kinds() -> dict[str, dict[str, Any]]:
    """The type of every key of every section."""
    found: dict[str, dict[str, Any]] = {name: {} for name in keys()}
    for setting in all_settings():
        found[setting.section][setting.key] = setting.value
    found["priors"] = dict.fromkeys(keys()["priors"], dict[str, Any] | list[Any])
    return found | {"output": {"tables_only": bool}}


def _section(name: str, kinds: dict[str, Any]) -> type[BaseModel]:
    fields: dict[str, Any] = {key: (kind, None) for key, kind in kinds.items()}
    return create_model(name.title(), __config__=STRICT, **fields)


def _message(kind: str, place: tuple[int | str, ...], given: Any, kinds: dict[str, dict[str, Any]]) -> str:
    section, *key = (str(one) for one in place)
    if section not in kinds:
        if section == "row":
            return f"rows must be [[row]] tables, got {given!r}"
        return f"there are the sections {SECTIONS}, got {section!r}{_hint(section, kinds)}"
    if not key:
        return f"[{section}] must be a section, got {given!r}"
    if kind == "extra_forbidden":
        return f"section [{section}] has no setting {key[0]!r}{_hint(key[0], kinds[section])}"
    expected = EXPECTED.get(kinds[section][key[0]], "numbers" if section == "model" else "a table")
    expected = "a text or temperatures" if key[0] == "ladder" else expected
    return f"{key[0]} of [{section}] must be {expected}, got {given!r}"


# ---- Rows -----------------------------------------------------------------------------------------------------------


PLAIN = ("name", "values", "copies", "fixed", "weight", "spread")


def read_rows(tables: Any) -> list[Row]:
    """The rows of [[row]] tables.

    >>> read_rows([{"name": "lamp", "values": [0, 100], "switch": {"enter": 0.01, "leave": 0.02}}])
    [Row(values=[0.0, 100.0], chain=Switch(enter=0.01, leave=0.02), name='lamp')]
    """
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise InvalidInput(f"rows must be [[row]] tables, got {tables!r}")
    return [_read_row(number, table) for number, table in enumerate(tables, start=1)]


def _read_row(number: int, table: dict[str, Any]) -> Row:
    unknown = sorted(set(table) - set(PLAIN) - set(ROW_CHAINS))
    if unknown:
        known = ", ".join((*PLAIN, *ROW_CHAINS))
        raise InvalidInput(f"[[row]] number {number} has no setting {unknown[0]!r}; it knows {known}")
    chains = [name for name in ROW_CHAINS if name in table]
    if len(chains) > 1:
        raise InvalidInput(f"[[row]] number {number} must have one Markov chain, got {' and '.join(chains)}")
    if "values" not in table:
        raise InvalidInput(f"[[row]] number {number} needs values, one per state, such as values = [0, 100]")
    chain = None
    for name in chains:
        kind, given = ROW_CHAINS[name], table[name]
        if not isinstance(given, dict) or not set(given) <= set(kind.arguments):
            raise InvalidInput(
                f"[[row]] number {number}: {name} takes a table of {', '.join(kind.arguments)}, got {given!r}"
            )
        try:
            chain = kind(
                **{key: read_numbers(f"{key} of [[row]] number {number}", value) for key, value in given.items()}
            )
        except TypeError as error:
            needed = [key for key, about in kind.arguments.items() if about.required and key not in given]
            raise InvalidInput(f"[[row]] number {number}: {name} needs {' and '.join(needed)}") from error
    own = {key: read_numbers(f"{key} of [[row]] number {number}", table[key]) for key in PLAIN if key in table}
    return Row(**own, chain=chain)


def write_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The tables that `read_rows` reads."""
    return [_write_row(row) for row in rows]


def _write_row(row: Row) -> dict[str, Any]:
    table: dict[str, Any] = {} if row.name is None else {"name": row.name}
    table["values"] = _written(row.given("values"))
    if "weight" in row.priors or row.weight != 1:
        table["weight"] = _written(row.given("weight"))
    if row.spreads:
        table["spread"] = _written(row.given("spread"))
    if row.chain is not None:
        name = next((name for name, kind in ROW_CHAINS.items() if type(row.chain) is kind), None)
        if name is None:
            raise InvalidInput(
                f"settings know the chains {', '.join(ROW_CHAINS)}, got {type(row.chain).__name__}; keep this model as "
                "Python code"
            )
        given = {key: row.chain.given(key) for key in row.chain.arguments}
        table[name] = {key: _written(value) for key, value in given.items() if value is not None}
    if row.copies > 1:
        table["copies"] = int(row.copies)
    if row.fixed is not None:
        table["fixed"] = int(row.fixed)
    return table


def _written(value: Any) -> Any:
    return write_prior(value) if isinstance(value, Prior) else value.tolist()


# ---- Priors ---------------------------------------------------------------------------------------------------------


def read_prior(key: str, given: Any) -> Prior:
    """The prior of a parameter, from its table in [priors].

    >>> read_prior("depth", {"normal": [180, 30]})
    Normal(180, 30)
    """
    if isinstance(given, dict) and len(given) == 2 and "shared" in given:
        return read_prior(key, {name: value for name, value in given.items() if name != "shared"}).shared(
            given["shared"]
        )
    if not isinstance(given, dict) or len(given) != 1:
        raise InvalidInput(
            f"the prior of {key} must be a table with one name, such as {{half_normal = 20}}, got {given!r}; put a "
            "number that is not learned into [model]"
        )
    ((name, arguments),) = given.items()
    known = prior_names()
    if name not in known:
        raise InvalidInput(f"the prior of {key}: there is no {name!r}{_hint(name, known)}")
    return known[name](**_by_name(key, name, known[name].arguments, arguments))


def _by_name(key: str, name: str, wanted: tuple[str, ...], given: Any) -> dict[str, Any]:
    several = f"{{{name} = [{', '.join(wanted)}]}}" if len(wanted) > 1 else f"{{{name} = {wanted[0]}}}"
    by_name = f"{{{name} = {{{', '.join(f'{argument} = ...' for argument in wanted)}}}}}"
    if isinstance(given, dict):
        if set(given) == set(wanted):
            return given
    elif len(wanted) == 1:
        return {wanted[0]: given}
    elif isinstance(given, list) and len(given) == len(wanted):
        return dict(zip(wanted, given, strict=True))
    raise InvalidInput(
        f"the prior of {key}: {name} takes {' and '.join(wanted)}, got {given!r}; write {several} or {by_name}"
    )


def read_numbers(key: str, given: Any) -> Any:
    """Numbers or a prior, or a list of both, as a file has them.

    >>> read_numbers("values", [0, {"normal": [150, 30]}, 2000])
    [0, Normal(150, 30), 2000]
    """
    if isinstance(given, list):
        return mixed(key, [read_numbers(key, one) for one in given])
    return read_prior(key, given) if isinstance(given, dict) else given


def write_prior(prior: Prior) -> Any:
    """The table from which `read_prior` rebuilds the prior; of numbers and priors, the list for `read_numbers`."""
    if isinstance(prior, Mixed):
        return prior.described(write_prior)
    name = next(name for name, kind in prior_names().items() if kind is type(prior))
    arguments = [getattr(prior, argument).tolist() for argument in prior.arguments]
    table = {name: arguments[0] if len(arguments) == 1 else arguments}
    return table if prior.shared_as is None else table | {"shared": prior.shared_as}

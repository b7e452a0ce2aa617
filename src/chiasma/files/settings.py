"""Settings of a fit, from a TOML file and from the command line, where the command line wins.

    [data]     value, chromosome, position, gap_unit, delimiter
    [model]    emission, weights, depth, sd, ..., enter, leave, initial, fixed_rows
    [priors]   of parameters of the model, which are then learned: sd = {half_normal = 20}
    [sampler]  draws, warmup, chains, thin, update, exchange, ladder, exchange_every, seed, workers

A key is the command line's option with _ for -. Text from the command line is read as TOML would hold it:
"0.2,0.3" is a list, "5=1" a table. A parameter with a number and a prior is learned; a number that comes later, as
an option behind a file, replaces a prior.
"""

from __future__ import annotations

import json
import math
import secrets
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from chiasma import atomic
from chiasma.errors import InvalidInput
from chiasma.files.prior_settings import default_prior, make_prior, prior_setting
from chiasma.files.tables import Columns
from chiasma.models import emissions
from chiasma.models.additive import Additive, Emission
from chiasma.models.chains import BinaryChains
from chiasma.models.factorial import FactorialHMM
from chiasma.models.priors import Prior
from chiasma.sampling.ladder import Ladder
from chiasma.sampling.updates import BlockGibbs, HammingBall

Section = dict[str, Any]


class Parameter(NamedTuple):
    """A parameter of an emission: the argument it becomes, and whether it may be left out."""

    argument: str
    required: bool = False


class EmissionKind(NamedTuple):
    """An emission by its name on the command line."""

    make: type[Additive]
    parameters: dict[str, Parameter]


_DEPTH, _SD, _BACKGROUND = Parameter("depth"), Parameter("sd", required=True), Parameter("background")
EMISSIONS = {
    "gaussian": EmissionKind(emissions.Gaussian, {"depth": _DEPTH, "sd": _SD}),
    "integrated-depth": EmissionKind(
        emissions.IntegratedDepth,
        {"depth": Parameter("depth_mean", required=True), "depth_sd": Parameter("depth_sd", required=True), "sd": _SD},
    ),
    "poisson": EmissionKind(emissions.Poisson, {"depth": _DEPTH, "background": _BACKGROUND}),
    "negative-binomial": EmissionKind(
        emissions.NegativeBinomial,
        {"depth": _DEPTH, "dispersion": Parameter("dispersion", required=True), "background": _BACKGROUND},
    ),
    "student-t": EmissionKind(emissions.StudentT, {"depth": _DEPTH, "sd": _SD, "df": Parameter("df")}),
}
PARAMETERS = ("depth", "sd", "depth_sd", "df", "dispersion", "background")
CHAINS = ("enter", "leave", "initial")
LEARNABLE = ("weights", *PARAMETERS, *CHAINS)

KEYS: dict[str, tuple[str, ...]] = {
    "data": ("value", "chromosome", "position", "gap_unit", "delimiter"),
    "model": ("emission", *LEARNABLE, "fixed_rows"),
    "priors": LEARNABLE,
    "sampler": (
        "draws",
        "warmup",
        "chains",
        "thin",
        "update",
        "exchange",
        "ladder",
        "exchange_every",
        "seed",
        "workers",
    ),
}


class Settings:
    """Sections of plain values, and what they make: columns to read, a model, arguments of the sampler."""

    def __init__(self, **sections: Mapping[str, Any]):
        self.sections: dict[str, Section] = {name: dict(sections.get(name, {})) for name in KEYS}

    @classmethod
    def read(cls, path: Path) -> Settings:
        """From a TOML file; refuses sections and keys that mean nothing."""
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InvalidInput(f"{path}: there is no such file; check the path") from None
        except OSError as error:
            raise InvalidInput(f"{path} cannot be read: {error.strerror or error}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{path} is not a TOML file: {error}") from error
        for name, section in content.items():
            if name not in KEYS or not isinstance(section, dict):
                raise InvalidInput(f"{path}: expected the sections {_sections()}, got {name!r}{_hint(name, KEYS)}")
            for key in section:
                if key not in KEYS[name]:
                    raise InvalidInput(f"{path}: section [{name}] has no setting {key!r}{_hint(key, KEYS[name])}")
        return cls(**content)

    def merged(self, **sections: Mapping[str, Any]) -> Settings:
        """With other values on top; None changes nothing."""
        later = {
            name: {key: value for key, value in sections.get(name, {}).items() if value is not None}
            for name in self.sections
        }
        merged = {name: own | later[name] for name, own in self.sections.items()}
        merged["priors"] = {
            key: prior for key, prior in merged["priors"].items() if key in later["priors"] or key not in later["model"]
        }
        return Settings(**merged)

    def learning(self, names: list[str]) -> Settings:
        """With default priors around the numbers of these parameters, where they have no prior yet."""
        given, priors = self.sections["model"], dict(self.sections["priors"])
        kind = self._emission()[1]
        own = ("weights", *kind.parameters, *CHAINS)
        for key in names:
            if key not in own:
                raise InvalidInput(f"--learn takes parameters of the model, got {key!r}{_hint(key, own)}")
            if key in priors:
                continue
            if key not in given:
                raise InvalidInput(
                    f"--learn {key} needs a number to stand around: give {_option(key)} too, or a prior of {key} in "
                    "[priors] of the --model file"
                )
            priors[key] = default_prior(key, given[key], counts=issubclass(kind.make, emissions.Counts))
        return self.merged(priors=priors)

    def write(self, path: Path, title: str) -> None:
        """As a TOML file that `read` takes; it appears whole or not at all."""
        lines = [f"# {title}"]
        for name, section in self.sections.items():
            if section:
                lines += ["", f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in section.items())]
        atomic.write_text(path, "\n".join(lines) + "\n")

    def columns(self) -> Columns:
        """Which columns of the data file to read."""
        texts = {
            key: str(value) if key != "gap_unit" else _number("gap_unit", value)
            for key, value in self.sections["data"].items()
        }
        return Columns(**texts)  # type: ignore[arg-type]

    def model(self) -> FactorialHMM:
        """The model; says all that is missing at once."""
        given, priors = self.sections["model"], self._priors()
        name, kind = self._emission()
        for key in PARAMETERS:
            if (key in given or key in priors) and key not in kind.parameters:
                users = [other for other, one in EMISSIONS.items() if key in one.parameters]
                raise InvalidInput(
                    f"{_option(key) if key in given else f'the prior of {key}'} belongs to {' and '.join(users)}, and "
                    f"the emission is {name}; drop it or change the emission"
                )
        needed = ["weights", *(key for key, one in kind.parameters.items() if one.required), "enter"]
        absent = [_option(key) for key in needed if key not in given and key not in priors]
        if absent:
            raise InvalidInput(
                f"the model ({name}) needs {', '.join(absent)}; give them on the command line or in a file with --model"
            )
        # A number and a prior of enter: leave is the number, unless it has its own.
        leave = given.get("leave", given.get("enter", priors.get("enter")))
        values: Section = {"leave": leave} | given | priors
        return FactorialHMM(
            chains=BinaryChains(values["enter"], values["leave"], values.get("initial")),
            emission=kind.make(
                weights=values["weights"],
                **{one.argument: values[key] for key, one in kind.parameters.items() if key in values},
            ),
            fixed_rows=_fixed_rows(given.get("fixed_rows", {})),
        )

    def _emission(self) -> tuple[str, EmissionKind]:
        name = str(self.sections["model"].get("emission", "gaussian"))
        if name not in EMISSIONS:
            raise InvalidInput(f"emission must be one of {', '.join(EMISSIONS)}, got {name!r}")
        return name, EMISSIONS[name]

    def _priors(self) -> dict[str, Prior]:
        """By key; a prior of weights must not contradict the number of weights."""
        priors = {key: make_prior(key, prior) for key, prior in self.sections["priors"].items()}
        weights = self.sections["model"].get("weights")
        if "weights" in priors and weights is not None and priors["weights"].shape != np.shape(weights):
            raise InvalidInput(
                f"the prior of weights, {priors['weights']}, must have as many values as there are weights, "
                f"{len(weights)}; correct one, or leave out the weights"
            )
        return priors

    def sampler(self) -> dict[str, Any]:
        """Arguments of chiasma.sample."""
        arguments = dict(self.sections["sampler"])
        if "update" in arguments:
            arguments["update"] = parse_update(arguments["update"])
        if "ladder" in arguments:
            arguments["ladder"] = make_ladder(arguments["ladder"])
        if arguments.get("exchange") == "none":
            arguments["exchange"] = None
        return arguments


def fresh_seed() -> int:
    """A seed that is short enough to be typed again."""
    return secrets.randbelow(2**32)


def settings_of(model: FactorialHMM) -> dict[str, Section]:
    """The sections [model] and [priors] that make a model again."""
    emission, chains = model.emission, model.chains
    name, kind = next((name, kind) for name, kind in EMISSIONS.items() if type(emission) is kind.make)
    places: dict[str, tuple[Emission | BinaryChains, str]] = {"weights": (emission, "weights")}
    places |= {key: (emission, one.argument) for key, one in kind.parameters.items()}
    places |= {key: (chains, key) for key in CHAINS}
    section: Section = {"emission": name}
    priors: Section = {}
    for key, (part, argument) in places.items():
        if argument in part.priors:
            priors[key] = prior_setting(part.priors[argument])
        elif getattr(part, argument) is not None:
            section[key] = getattr(part, argument).tolist()
    if model.fixed_rows:
        section["fixed_rows"] = {str(k): x for k, x in model.fixed_rows.items()}
    return {"model": section, "priors": priors}


def parse_names(text: str | None) -> list[str]:
    """Names with commas between them, - for _ as in options.

    >>> parse_names("weights, depth-sd")
    ['weights', 'depth_sd']
    """
    return [] if text is None else [name.strip().lstrip("-").replace("-", "_") for name in text.split(",")]


def parse_numbers(option: str, text: str | None) -> float | list[float] | None:
    """A number, or several with commas between them.

    >>> parse_numbers("weights", "0.2,0.3"), parse_numbers("enter", "0.01")
    ([0.2, 0.3], 0.01)
    """
    if text is None:
        return None
    numbers = [_number(option, part) for part in text.split(",")]
    return numbers if len(numbers) > 1 else numbers[0]


def parse_list(option: str, text: str | None) -> list[float] | None:
    """Numbers with commas between them, a list even of one."""
    numbers = parse_numbers(option, text)
    return [numbers] if isinstance(numbers, float) else numbers


def parse_ladder(text: str | None) -> str | list[float] | None:
    """ "auto", "auto:RUNGS", or temperatures.

    >>> parse_ladder("1,5"), parse_ladder("auto:48")
    ([1.0, 5.0], 'auto:48')
    """
    return text if text is not None and text.startswith("auto") else parse_list("ladder", text)


def make_ladder(given: Any) -> Any:
    """An adapted ladder of a given number of rungs for "auto:RUNGS"; anything else as it is."""
    kind, _, size = given.partition(":") if isinstance(given, str) else ("", "", "")
    if not size:
        return given
    if kind != "auto" or not size.isdecimal():
        raise InvalidInput(f"an adapted ladder of a given size is auto:RUNGS, got {given!r}")
    return Ladder.adapted(int(size))


def parse_fixed_rows(texts: list[str] | None) -> dict[str, int] | None:
    """["5=1", "0=0"] as a table.

    >>> parse_fixed_rows(["5=1"])
    {'5': 1}
    """
    if not texts:
        return None
    rows = {}
    for text in texts:
        row, _, state = (part.strip() for part in text.partition("="))
        if not row.isdecimal() or state not in ("0", "1"):
            raise InvalidInput(f"--fixed-row takes ROW=STATE such as 5=1 (rows count from 0), got {text!r}")
        rows[row] = int(state)
    return rows


def parse_update(name: Any) -> Any:
    """An update by its name, with its size behind a colon where it has one.

    >>> parse_update("hamming-ball:3"), parse_update("row")
    (HammingBall(radius=3), 'row')
    """
    kind, _, size = str(name).partition(":")
    if not size:
        return name
    if kind == "hamming-ball" and size.isdecimal():
        return HammingBall(radius=int(size))
    if kind == "block" and size.isdecimal():
        return BlockGibbs(size=int(size))
    raise InvalidInput(f"an update with a size is hamming-ball:RADIUS or block:ROWS, got {name!r}")


def _fixed_rows(given: Any) -> dict[int, int]:
    if not isinstance(given, dict) or not all(str(row).isdecimal() for row in given):
        raise InvalidInput(f"fixed_rows must be a table of rows and states such as {{5 = 1}}, got {given!r}")
    return {int(row): state for row, state in given.items()}


def _number(option: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"{_option(option)} must be numbers, several with commas between them; got {value!r}"
        ) from None


def _option(key: str) -> str:
    return "--" + key.replace("_", "-").replace("fixed-rows", "fixed-row")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def _sections() -> str:
    return ", ".join(f"[{name}]" for name in KEYS)


def _hint(word: str, known: Any) -> str:
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; it knows {', '.join(known)}"

"""The table of all settings of a fit: key in a TOML file, option of `chiasma fit`, parser of the option, help text.

Emissions, chains, updates, exchanges and priors come from their registries. Text from the command line is converted to
the values that a TOML file would hold: "0.2,0.3" is a list, "5=1" a table.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from chiasma.errors import InvalidInput
from chiasma.limits import is_whole
from chiasma.models.additive import Emission
from chiasma.models.arguments import Argument
from chiasma.models.chains import Switches
from chiasma.models.emissions import EMISSIONS
from chiasma.models.priors import PRIORS, Prior
from chiasma.sampling.exchanges import EXCHANGES
from chiasma.sampling.updates import UPDATES

# A number, a list of numbers, or a table of them: one line per row of the model.
Numbers = float | list[float] | list[list[float]]


class Setting(NamedTuple):
    """A key of a section and an option of `chiasma fit`.

    kind : type of the option; list[str] for one that can be repeated.
    parse : converts the key and the value of the option to the value that a TOML file would hold.
    option : its name without --, unless that is the key with - in place of _.
    value : type of the value in a file.
    """

    section: str
    key: str
    help: str
    kind: Any = str
    parse: Callable[[str, Any], Any] = lambda key, given: given
    option: str = ""
    least: int | None = None
    value: Any = str

    @property
    def flag(self) -> str:
        return f"--{self.option or self.key.replace('_', '-')}"


# ---- How options are read --------------------------------------------------------------------------------------------


def parse_numbers(key: str, text: str) -> float | list[float]:
    """A number, or several separated by commas.

    >>> parse_numbers("weights", "0.2,0.3"), parse_numbers("enter", "0.01")
    ([0.2, 0.3], 0.01)
    """
    numbers = [as_number(key, part) for part in text.split(",")]
    return numbers if len(numbers) > 1 else numbers[0]


def parse_list(key: str, text: str) -> list[float]:
    """Numbers separated by commas; always a list, even of one number."""
    numbers = parse_numbers(key, text)
    return [numbers] if isinstance(numbers, float) else numbers


def parse_ladder(key: str, text: str) -> str | list[float]:
    """ "auto", "auto:RUNGS", or temperatures.

    >>> parse_ladder("ladder", "1,5"), parse_ladder("ladder", "auto:48")
    ([1.0, 5.0], 'auto:48')
    """
    return text if text.startswith("auto") else parse_list(key, text)


def parse_fixed(key: str, texts: list[str]) -> dict[str, int]:
    """["5=1", "0=0"] as a table.

    >>> parse_fixed("fixed", ["5=1"]), parse_fixed("fixed", ["{2 = 1}"])
    ({'5': 1}, {'2': 1})
    """
    rows = {}
    for text in texts:
        # In braces where it was copied from a settings file.
        row, _, state = (part.strip() for part in text.strip().strip("{}").partition("="))
        if not is_whole(row) or state not in ("0", "1"):
            raise InvalidInput(f"{flag(key)} takes ROW=STATE such as 5=1 (rows count from 0), got {text!r}")
        rows[row] = int(state)
    return rows


def parse_known(key: str, texts: list[str]) -> dict[str, str]:
    """["kettle=kettle_on"] as a table.

    >>> parse_known("known", ["kettle=kettle_on"])
    {'kettle': 'kettle_on'}
    """
    pairs = [text.partition("=") for text in texts]
    for text, (row, _, column) in zip(texts, pairs, strict=True):
        if not row.strip() or not column.strip():
            raise InvalidInput(f"{flag(key)} takes ROW=COLUMN such as kettle=kettle_on, got {text!r}")
    return {row.strip(): column.strip() for row, _, column in pairs}


def parse_hum(key: str, text: str) -> float | str:
    """A frequency, or "mains".

    >>> parse_hum("hum", "50"), parse_hum("hum", "mains")
    (50.0, 'mains')
    """
    return text if text == "mains" else as_number(key, text)


def parse_names(text: str | None) -> list[str]:
    """Names separated by commas; - counts as _, as in options.

    >>> parse_names("weights, depth-sd")
    ['weights', 'depth_sd']
    """
    return [] if text is None else [name.strip().lstrip("-").replace("-", "_") for name in text.split(",")]


def as_number(key: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InvalidInput(f"{flag(key)} must be numbers, separated by commas if several; got {value!r}") from None


def as_whole(key: str, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise InvalidInput(f"{key} must be a whole number, got {value!r}") from None


# ---- Parameters of the model -----------------------------------------------------------------------------------------


class Parameter(NamedTuple):
    """An argument of the constructor of an emission or of chains; default is None if it has no default."""

    name: str
    about: Argument
    default: Any


def parameters_of(kind: type[Emission] | type[Switches]) -> dict[str, Parameter]:
    """The parameters of a class, by key."""
    given = inspect.signature(kind).parameters
    return {
        about.key or name: Parameter(
            name, about, None if given[name].default is given[name].empty else given[name].default
        )
        for name, about in kind.arguments.items()
    }


def emission_parameters() -> dict[str, dict[str, Parameter]]:
    """The parameters of all emissions: key -> name of the emission -> parameter."""
    found: dict[str, dict[str, Parameter]] = {}
    for name, kind in EMISSIONS.items():
        for key, parameter in parameters_of(kind).items():
            found.setdefault(key, {})[name] = parameter
    return found


def chain_parameters() -> dict[str, Parameter]:
    """The parameters of the chains, by key."""
    return parameters_of(Switches)


# What `estimates.left_out` takes in place of a default.
ELSE_ESTIMATED = {"depth": "; estimated if several weights add up to 1"}


def _of_parameter(key: str, users: Mapping[str, Parameter], all_users: int) -> Setting:
    """The setting of a parameter; if not all emissions have it, its help names those that do."""
    first = next(iter(users.values())).about
    text = first.help[0].upper() + first.help[1:] if len(users) == all_users else f"{', '.join(users)}: {first.help}"
    defaults = {one.default for one in users.values() if one.default is not None and not one.about.required}
    if first.same_as:
        text += f" Default: the same as --{first.same_as}."
    elif len(defaults) == 1:
        text += f" Default: {defaults.pop():g}{ELSE_ESTIMATED.get(key, '')}."
    if first.takes == "number":
        return Setting("model", key, text, float, value=Numbers)
    return Setting("model", key, text, parse=parse_list if first.takes == "list" else parse_numbers, value=Numbers)


# ---- The table -------------------------------------------------------------------------------------------------------

# A column of a file, by name or number.
Column = str | int
DATA = (
    Setting(
        "data", "value", "Column of the signal, by name or number; several with commas between: RD,BAF.", value=Column
    ),
    Setting("data", "chromosome", "Column whose changes start a new sequence.", value=Column),
    Setting("data", "position", "Column whose differences are the gaps between sites.", value=Column),
    Setting("data", "end", "Column where a site ends.", value=Column),
    Setting(
        "data",
        "known",
        "ROW=COLUMN: states of a row that are known, 0, 1, 2, ... (NA: not known). Can be repeated.",
        list[str],
        parse_known,
        value=dict[str, Column],
    ),
    Setting(
        "data",
        "covariate",
        "Column of a series that the signal depends on, such as GC content, with an effect to learn; several with "
        "commas between.",
        value=Column,
    ),
    Setting("data", "sample", "Use this sample if the file has several.", value=Column),
    Setting(
        "data", "gap_unit", "Distance that is one step of the chains. Default: the median distance.", float, value=float
    ),
    Setting("data", "delimiter", "One character, or tab, comma, semicolon, space. Default: what all lines agree on."),
)


def _model_settings() -> list[Setting]:
    emission = [_of_parameter(key, users, len(EMISSIONS)) for key, users in emission_parameters().items()]
    chains = [_of_parameter(key, {"binary": parameter}, 1) for key, parameter in chain_parameters().items()]
    return [
        Setting("model", "emission", _choices(list(EMISSIONS))),
        *emission,
        *chains,
        Setting(
            "model",
            "fixed",
            "Hold a row at 0 or 1, e.g. 5=1 for a baseline; rows count from 0.",
            list[str],
            parse_fixed,
            "fixed-row",
            value=dict[str, int],
        ),
        Setting("model", "drift", "Learn a smooth drift with this many knots, such as 60.", int, least=1, value=int),
        Setting(
            "model",
            "hum",
            "Learn a hum of this frequency: in Hz if positions are times, otherwise per site. mains: 50 or 60 Hz.",
            parse=parse_hum,
            value=float | str,
        ),
    ]


def _sampler_settings() -> list[Setting]:
    exchanges = _choices(["auto", "none", *EXCHANGES])
    return [
        Setting("sampler", "draws", "Draws kept per chain. Default: 1000.", int, value=int),
        Setting("sampler", "warmup", "Iterations before them. Default: 1000.", int, value=int),
        Setting("sampler", "chains", "Independent repeats. Default: 4.", int, value=int),
        Setting("sampler", "thin", "Keep every n-th iteration. Default: 1.", int, value=int),
        Setting("sampler", "update", _choices(["auto", *update_names()])),
        Setting("sampler", "exchange", exchanges),
        Setting(
            "sampler",
            "ladder",
            "auto (default), auto:RUNGS, or temperatures: 1,5.",
            parse=parse_ladder,
            value=str | list[float],
        ),
        Setting("sampler", "exchange_every", "Iterations from exchange to exchange. Default: 1.", int, value=int),
        Setting("sampler", "exact_seconds", "Time budget of exact draws; 0: never. Default: 60.0.", float, value=float),
        Setting(
            "sampler", "evidence", "Estimate the log evidence: a ladder from the prior to the target.", bool, value=bool
        ),
        Setting("sampler", "seed", "Default: a fresh one, which is printed.", int, least=0, value=int),
        Setting("sampler", "workers", "Threads. Default: one per core.", int, value=int),
    ]


def all_settings() -> list[Setting]:
    """All settings, in the order of the help."""
    found = [*DATA, *_model_settings(), *_sampler_settings()]
    known: dict[str, Setting] = {}
    for setting in found:
        if known.setdefault(setting.key, setting) is not setting:
            users = " and ".join(emission_parameters().get(setting.key, {}))
            raise InvalidInput(
                f"the emission {users} has an argument {setting.key!r}, and [{setting.section}] has such a setting "
                "already; give it another name in settings: ch.Argument(..., key='...')"
            )
    return found


def keys() -> dict[str, list[str]]:
    """The keys of every section of a file."""
    found: dict[str, list[str]] = {"data": [], "model": [], "priors": [], "sampler": []}
    for setting in all_settings():
        found[setting.section].append(setting.key)
    found["priors"] = [*emission_parameters(), *chain_parameters()]
    return found


def flags() -> dict[str, str]:
    """The option of every setting."""
    return {setting.key: setting.flag for setting in all_settings()}


def flag(key: str) -> str:
    """The option of a setting.

    >>> flag("depth_sd"), flag("fixed")
    ('--depth-sd', '--fixed-row')
    """
    return next(setting.flag for setting in all_settings() if setting.key == key)


def as_sections(options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Options of the command line, by key, as the sections of a file; None: not given."""
    sections: dict[str, dict[str, Any]] = {}
    for setting in all_settings():
        given = options.get(setting.key)
        if given is not None:
            sections.setdefault(setting.section, {})[setting.key] = setting.parse(setting.key, given)
    return sections


# ---- Texts -----------------------------------------------------------------------------------------------------------


def update_names(with_number: bool = False) -> list[str]:
    """Names of the updates, including those with a number after a colon; with_number: only the latter.

    >>> update_names(with_number=True)
    ['collapsed:STARTS', 'block:SIZE', 'gaussian-blocks:SIZE', 'hamming-ball:RADIUS', 'jumps:SIZE']
    """
    names = []
    for name, kind in UPDATES.items():
        names += [] if with_number else [name]
        names += [f"{name}:{kind.number.upper()}"] if kind.number else []
    return names


def prior_names() -> dict[str, type[Prior]]:
    """Prior classes by their names in a file."""
    return {re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(): kind for name, kind in PRIORS.items()}


def learn_help() -> str:
    """Help of --learn: the default priors of parameters that are given as a number."""
    labels: dict[str, list[str]] = {}
    for key, users in [*emission_parameters().items(), *((key, {"": one}) for key, one in chain_parameters().items())]:
        formulas = {name: one.about.default_prior.formula for name, one in users.items()}
        for formula in dict.fromkeys(formulas.values()):
            whose = [name for name in users if formulas[name] == formula]
            label = key if len(whose) == len(users) else f"{key} ({', '.join(whose)})"
            labels.setdefault(formula, []).append(label.replace("_", "-"))
    priors = "; ".join(f"{', '.join(whose)}: {formula}" for formula, whose in labels.items())
    return (
        "Parameters to learn from the data, such as weights,sd. Each has a prior in \\[priors] of the --model file "
        f"({', '.join(prior_names())}), or one made from its number x, which is estimated from the signal where it is "
        "not given (weights must be given, and so must parameters of an emission of your own, except those that are "
        "called like one of the package, or whose default prior is the same for every x). "
        f"Priors made from x: {priors}."
    )


def _choices(names: Sequence[str]) -> str:
    first, *others, last = names
    return f"{', '.join([f'{first} (default)', *others])} or {last}."

"""Messages on the command line: what Python calls an argument is an option there, and sites have positions.

The package writes every message once, for Python: `draws=2000`, `update=ch.BlockGibbs(size=8)`. Whatever a command
prints, or writes for people, passes through `as_options`, which spells known arguments as options.
"""

from __future__ import annotations

import re
from dataclasses import replace

from chiasma.errors import InvalidInput
from chiasma.io.options import all_settings
from chiasma.io.signal import Signal
from chiasma.models.emissions import EMISSIONS
from chiasma.models.priors import PRIORS
from chiasma.results.summary import Summary
from chiasma.sampling.exchanges import EXCHANGES
from chiasma.sampling.updates import UPDATES

# name=value, where the value is a call such as ch.Ladder.adapted(8), a quoted word, a list, a number, or ... for any.
_ARGUMENT = re.compile(r"\b(\w+)=(?:ch\.([\w.]+)\(([^()]*)\)|'([\w-]+)'|\[([^\]]*)\]|(True|None|\.\.\.|[\d.]*\d))")

# What only Python has, and what a command has in its place.
_PHRASES = {
    "call sample as before, or give another store": "give the same options as before, or another --out",
    "or open it with open_posterior": "or look at it with chiasma show",
}

_SITES = re.compile(r"\bsites? (\d+)(?: and (\d+))?")


def as_options(message: str) -> str:
    """The message with arguments of Python spelled as options.

    >>> as_options("take draws=2000, or evidence=True, exchange=None, ladder=[1, 5]")
    'take --draws 2000, or --evidence, --exchange none, --ladder 1,5'
    >>> as_options("update=ch.BlockGibbs(size=8), ladder=ch.Ladder.adapted(12), emission=ch.StudentT(...)")
    '--update block:8, --ladder auto:12, --emission student-t'
    >>> as_options("learn it (sd=ch.HalfNormal(...)), not size=3")
    'learn it (--learn sd), not size=3'
    >>> as_options("got draws=5; ask for at least as many, or open it with open_posterior")
    'got --draws 5; ask for at least as many, or look at it with chiasma show'
    """
    try:
        flags = {setting.key: setting.flag for setting in all_settings()} | {"resume": "--resume"}
    except InvalidInput:  # of a plugin, whose argument has the name of a setting: that is what the message says
        return message
    for python, command in _PHRASES.items():
        message = message.replace(python, command)
    return _ARGUMENT.sub(lambda found: _option(found, flags), message)


def with_positions(message: str, signal: Signal) -> str:
    """The message with the positions, dates or times of the sites it names, where the data file has them.

    >>> import numpy as np
    >>> from chiasma.models.observations import Observations
    >>> signal = Signal(data=Observations([1.0, 2.0, 3.0]), position=np.array([0.0, 60.0, 120.0]), zone="")
    >>> with_positions("it drifts between sites 0 and 2, worst at site 1; 3 of 3 sites", signal)
    'it drifts between sites 0 and 2 (1970-01-01T00:00/00:02), worst at site 1 (1970-01-01T00:01); 3 of 3 sites'
    """
    if signal.position is None:
        return message

    def placed(found: re.Match[str]) -> str:
        first, last = int(found[1]), int(found[2] or found[1])
        return f"{found[0]} ({signal.site_text(first, last)})"

    return _SITES.sub(placed, message)


def on_command_line(summary: Summary, signal: Signal) -> Summary:
    """A summary whose plan, warnings and remedies name options, and sites with their positions."""
    return replace(
        summary,
        run=summary.run | {"plan": as_options(summary.run.get("plan") or "") or None},
        warnings=tuple(with_positions(as_options(text), signal) for text in summary.warnings),
        remedies=tuple(as_options(text) for text in summary.remedies),
    )


def _option(found: re.Match[str], flags: dict[str, str]) -> str:
    name, kind, arguments, word, several, plain = found.groups()
    if name not in flags:
        return found[0]
    if kind in {prior.__name__ for prior in PRIORS.values()}:
        return f"--learn {name.replace('_', '-')}"
    if plain == "True":
        return flags[name]
    if kind is not None:
        value = _named(kind, arguments)
        return found[0] if value is None else f"{flags[name]} {value}"
    if several is not None:
        return f"{flags[name]} {several.replace(' ', '')}"
    return f"{flags[name]} {word or {'None': 'none', '...': 'N'}.get(plain, plain)}"


def _named(kind: str, arguments: str) -> str | None:
    """An object of Python by its name on the command line, with its number: ch.BlockGibbs(size=8) is block:8."""
    number = arguments.rpartition("=")[2].replace("...", "N")
    if kind == "Ladder.adapted":
        return f"auto:{number}" if number else "auto"
    for registry in (UPDATES, EXCHANGES, EMISSIONS):
        for name, one in registry.items():
            if one.__name__ == kind:
                return f"{name}:{number}" if number and registry is UPDATES else name
    return None

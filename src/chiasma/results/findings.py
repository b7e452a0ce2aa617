"""Findings: what a check noticed, as data. Renderers turn them into text; nothing parses that text.

A check returns `Finding(code, severity, facts, remedies)`. `CODES` has one message template per code, filled with the
facts. A fact named `site` (a number) or `sites` (first and last) is written by the renderer, which may know positions.
To add a finding: add a code and its message to `CODES`, and return it from a check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from chiasma.errors import InvalidInput

Severity = Literal["note", "limited", "none"]
Trust = Literal["good", "limited", "none"]
Place = Callable[[int, int], str]

# The message of every code. Lists of names are joined by the renderer.
CODES = {
    # the run
    "few-draws": "{draws} draws per chain are too few to judge the run.",
    "one-chain": "A single chain cannot show whether other chains would find other modes.",
    "chains-disagree": "The chains disagree about {names}: the worst R-hat is {rhat:.4g}, above {limit}.",
    "low-ess": "Few effective draws of {names}: bulk ESS {ess:.0f}, expected at least {expected}.",
    "modes": "Chains sit in different modes at {n} of {n_sites} sites, for example at {site}.",
    "optima-apart": "No chain moved between optimum 1 and {names}; shares of draws are not probabilities.",
    "ladder-short": "The ladder is too short: rungs {rung} and {next_rung} swap in {share:.1%} of the steps.",
    "ladder-idle": "Rungs {rung} and {next_rung} exchange almost nothing ({n} such pairs).",
    "evidence-overlap": "Rungs {rung} and {next_rung} hardly overlap (rejection {rejection:.2f}), so the log evidence "
    "and its error cannot be trusted. The draws are not affected.",
    "evidence-unknown": "The evidence is unknown: a rung has impossible draws.",
    "evidence-error": "The standard error of the log evidence is {error:.2g} nats, above {limit}.",
    "evidence-unmixed": "The chains disagree, so the log evidence and its standard error are uncertain.",
    "one-start": "Only one of {starts} starts reached the best optimum; a better one may have been missed.",
    # the fit
    "wrong-data": "{share:.0%} of the data are improbable in every state. Check the column and its units.",
    "above-levels": "{share:.1%} of the data ({n}) lie far above the highest level that the rows can reach.",
    "below-levels": "{share:.1%} of the data ({n}) lie far below the lowest level that the rows can reach.",
    "outliers": "{share:.2%} of the data are improbable, where {expected:.1%} are expected; the worst is at {site}.",
    "noise-underestimated": "Residuals are {spread:.2g} times as wide as expected, so probabilities are too extreme.",
    "noise-overestimated": "Residuals are {spread:.2g} times as wide as expected; the fit is not sure enough.",
    "correlated": "Residuals of neighbouring sites are correlated ({r:.2f}, expected 0); the fit is too sure.",
    "drift": "The signal drifts: at {sites} it is {sd:+.2f} noise SDs away from its level.",
    "heavy-tails": "The learned noise has {df:.2g} degrees of freedom and may hide a missing row.",
    "rows-never-all-on": "At most {most} of the {n} identical rows {names} are on at once.",
    "rows-unknown": "The data hardly say when {names} is on; the row may not be needed.",
    # the parameters
    "label-switching": "Rows {names} change places between draws; means of single rows are not meaningful.",
    "two-parts": "The posterior of {names} has two parts; a mean over both describes neither.",
    "prior-edge": "The baseline {names} is at the lower edge of its prior; the signal may have a negative offset.",
    "prior-conflict": "The data and the prior disagree about {names}.",
}  # fmt: skip


@dataclass(frozen=True)
class Set:
    """Give an argument this value: a number, a word, True or None.

    >>> Set("draws", 2000).python(), Set("exchange", None).option("--exchange")
    ('draws=2000', '--exchange none')
    """

    argument: str
    value: float | str | bool | None

    def python(self) -> str:
        return f"{self.argument}={self.value!r}"

    def option(self, flag: str) -> str:
        return flag if self.value is True else f"{flag} {'none' if self.value is None else self.value}"


@dataclass(frozen=True)
class Use:
    """Give an argument an object. code: in Python; name: on the command line.

    >>> one = Use("update", "ch.BlockGibbs(size=8)", "block:8")
    >>> one.python(), one.option("--update")
    ('update=ch.BlockGibbs(size=8)', '--update block:8')
    """

    argument: str
    code: str
    name: str

    def python(self) -> str:
        return f"{self.argument}={self.code}"

    def option(self, flag: str) -> str:
        return f"{flag} {self.name}"


@dataclass(frozen=True)
class Learn:
    """Learn a parameter: give it a prior.

    >>> Learn("sd").python(), Learn("depth_sd").option("--learn")
    ('sd=ch.HalfNormal(...)', '--learn depth-sd')
    """

    argument: str
    prior: str = "HalfNormal"

    def python(self) -> str:
        return f"{self.argument}=ch.{self.prior}(...)"

    def option(self, flag: str) -> str:
        return f"--learn {self.argument.replace('_', '-')}"


Remedy = Set | Use | Learn


@dataclass(frozen=True)
class Finding:
    """What a check noticed.

    Parameters
    ----------
    code : a key of `CODES`, stable, with an anchor on the page "Findings" of the documentation.
    severity : "note" leaves the results as they are, "limited" restricts them, "none" makes them unusable.
    facts : numbers and names, as the message of the code needs them.
    remedies : what to try, the first to try first.

    Examples
    --------
    >>> found = Finding("drift", "none", {"sites": (10, 20), "sd": 0.5}, (Set("draws", 2000),))
    >>> str(found)
    'The signal drifts: at sites 10-20 it is +0.50 noise SDs away from its level. Try draws=2000.'
    """

    code: str
    severity: Severity
    facts: Mapping[str, Any] = field(default_factory=dict)
    remedies: tuple[Remedy, ...] = ()

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise InvalidInput(f"code must be one of {', '.join(CODES)}, got {self.code!r}")
        if self.severity not in ("note", "limited", "none"):
            raise InvalidInput(f"severity must be note, limited or none, got {self.severity!r}")

    def __str__(self) -> str:
        return in_python(self)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON if the facts are; remedies as arguments of Python."""
        remedies = [one.python() for one in self.remedies]
        return {"code": self.code, "severity": self.severity, "facts": dict(self.facts), "remedies": remedies}


def trust(findings: Iterable[Finding]) -> Trust:
    """How far results can be trusted: as far as the worst finding allows.

    >>> trust([]), trust([Finding("one-chain", "note"), Finding("evidence-unknown", "limited")])
    ('good', 'limited')
    """
    found = {one.severity for one in findings}
    return "none" if "none" in found else "limited" if "limited" in found else "good"


def site_text(first: int, last: int) -> str:
    """
    >>> site_text(3, 3), site_text(3, 9)
    ('site 3', 'sites 3-9')
    """
    return f"site {first}" if first == last else f"sites {first}-{last}"


def message(finding: Finding, place: Place = site_text) -> str:
    """The message without remedies. place: names sites first..last, for example by their positions."""
    facts = dict(finding.facts)
    if "site" in facts:
        facts["site"] = place(facts["site"], facts["site"])
    if "sites" in facts:
        facts["sites"] = place(*facts["sites"])
    if isinstance(names := facts.get("names"), list | tuple):
        facts["names"] = ", ".join(names)
    return CODES[finding.code].format(**facts)


def in_python(finding: Finding) -> str:
    """For Python: remedies are arguments."""
    return _joined(message(finding), [one.python() for one in finding.remedies])


def on_command_line(finding: Finding, flags: Mapping[str, str], place: Place = site_text) -> str:
    """For the command line: remedies are options. flags: option of each argument; others have - in place of _.

    >>> on_command_line(Finding("one-chain", "limited", remedies=(Set("chains", 4),)), {})
    'A single chain cannot show whether other chains would find other modes. Try --chains 4.'
    """
    options = [one.option(flags.get(one.argument, f"--{one.argument.replace('_', '-')}")) for one in finding.remedies]
    return _joined(message(finding, place), options)


def _joined(text: str, remedies: list[str]) -> str:
    return f"{text} Try {', or '.join(remedies)}." if remedies else text

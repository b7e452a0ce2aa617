"""Findings: what a check noticed, as data. Renderers turn them into text; nothing parses that text.

A check returns `Finding(code, severity, facts, remedies)`. `CODES` says for each code what it is about, and has a
message to be filled with the facts. A fact named `site` (a number) or `sites` (first and last) is written by the
renderer, which may know positions. To add a finding: add a code to `CODES`, an anchor of that name to
docs/reference/findings.md, and return it from a check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from chiasma.errors import InvalidInput

Severity = Literal["note", "limited", "none"]
Trust = Literal["good", "limited", "none"]
About = Literal["run", "evidence", "fit", "parameters", "channels", "tumour"]
Place = Callable[[int, int], str]
# The order in which findings are listed; the worst first.
SEVERITIES: tuple[Severity, ...] = ("none", "limited", "note")
# Names that a message lists.
MOST_NAMES = 4


class Code(NamedTuple):
    about: About
    message: str


CODES = {
    # the run
    "few-draws": Code("run", "{draws} draws per chain are too few to judge the run."),
    "one-chain": Code("run", "A single chain cannot show whether other chains would find other modes."),
    "one-init": Code("run", "All chains started from the same init, so R-hat cannot show a mode that they all missed."),
    "chains-disagree": Code(
        "run",
        "The chains disagree about {names}: the worst R-hat is {rhat:.4g}, above {limit}. Probabilities and evidence "
        "are not settled.",
    ),
    "low-ess": Code("run", "Few effective draws of {names}: bulk ESS {ess:.0f}, expected at least {expected}."),
    "modes": Code(
        "run",
        "The chains sit in different modes at {n} of {n_sites} sites: at {site} one has {first} and another {second}. "
        "How probable each mode is remains unknown.",
    ),
    "optima-apart": Code(
        "run", "No chain moved between optimum 1 and {names}, so shares of draws are not their probabilities."
    ),
    "one-start": Code(
        "run", "Only one of {starts} starts reached the best optimum; a better one may have been missed."
    ),
    "ladder-gap": Code(
        "run", "Rungs {rung} and {next_rung} exchange almost nothing ({n} such pairs), so hot replicas hardly help."
    ),
    # the evidence
    "evidence-overlap": Code(
        "evidence",
        "Rungs {rung} and {next_rung} hardly overlap (rejection {rejection:.2f}), so the log evidence and its error "
        "cannot be trusted. The draws are not affected.",
    ),
    "evidence-unknown": Code("evidence", "The evidence is unknown: a rung has impossible draws."),
    "evidence-error": Code("evidence", "The standard error of the log evidence is {error:.2g} nats, above {limit}."),
    # the fit
    "wrong-data": Code(
        "fit", "{share:.0%} of the data are improbable in every state. Check the column and its units."
    ),
    "beyond-levels": Code(
        "fit",
        "{share:.1%} of the data lie far {side} all levels that the rows can reach, and the states there mean little. "
        "A row, a state or a baseline may be missing.",
    ),
    "row-missing": Code(
        "fit",
        "{share:.2%} of the data are improbable, in runs of about {run:.0f} sites, the worst at {site}. A row or a "
        "state may be missing.",
    ),
    "outliers": Code(
        "fit", "{share:.2%} of the data are improbable, where {expected:.1%} are expected; the worst is at {site}."
    ),
    "baseline": Code(
        "fit",
        "The data lie {mean:+.2f} noise SDs from their levels on average; a baseline may be missing. This puts an "
        "estimated {displaced:.1%} of the sites into wrong states.",
    ),
    "noise-underestimated": Code(
        "fit", "Residuals are {spread:.3g} times as wide as expected, so probabilities are too extreme."
    ),
    "noise-overestimated": Code(
        "fit", "Residuals are {spread:.2g} times as wide as expected: the data would allow surer answers."
    ),
    "noise-by-level": Code(
        "fit",
        "The noise depends on the level: at {level:.4g} residuals are {ratio:.2g} times as wide as elsewhere, so "
        "probabilities are wrong in both places.",
    ),
    "correlated": Code(
        "fit",
        "Residuals of neighbouring sites are correlated ({r:.2f}, expected 0), so probabilities are too extreme. A row "
        "may be missing, or the noise was filtered.",
    ),
    "drift": Code(
        "fit",
        "The signal drifts: over about {length} sites residuals wander by {sd:.2f} noise SDs, most at {sites}. This "
        "puts an estimated {displaced:.1%} of the sites into wrong states.",
    ),
    "hum": Code(
        "fit",
        "The residuals contain hum of {frequency:g} cycles per {unit}, as wide as {sd:.2f} noise SDs. It puts an "
        "estimated {displaced:.1%} of the sites into wrong states.",
    ),
    "offset-unsure": Code(
        "fit",
        "Another drift, with other states, explains the signal about as well: the states of an estimated "
        "{displaced:.1%} of the sites depend on which drift it is.",
    ),
    # the parameters
    "heavy-tails": Code(
        "parameters", "The learned noise has {df:.2g} degrees of freedom and may hide a missing row among outliers."
    ),
    "rows-never-all-on": Code(
        "parameters", "At most {most} of the {n} identical rows {names} are on at once; compare fewer rows."
    ),
    "rows-unknown": Code(
        "parameters", "The data hardly say when {names} is on. It may not be needed; compare fewer rows."
    ),
    "label-switching": Code(
        "parameters",
        "Rows {names} change places between draws, so means of single rows are not meaningful. Give them priors that "
        "hardly overlap, or equal ones.",
    ),
    "two-parts": Code("parameters", "The posterior of {names} has two parts; a mean over both describes neither."),
    "prior-edge": Code(
        "parameters",
        "The baseline {names} is at the lower edge of its prior; the signal may have a negative offset.",
    ),
    "prior-conflict": Code(
        "parameters",
        "The data and the prior disagree about {names}; the row may explain something else than was meant.",
    ),
    # ion channels
    "number-unsure": Code("channels", "The number of channels is not settled: {n} has a probability of {share:.2f}."),
    "never-all-open": Code(
        "channels",
        "At most {most} of {n} channels were open at once; only the dwell times tell how many there are.",
    ),
    "dwell-times": Code(
        "channels",
        "Dwell times with {k} open channels do not follow the scheme {scheme}: the distributions differ by "
        "{distance:.2f}. Rates and their intervals describe another scheme.",
    ),
    # tumours
    "flat": Code("tumour", "Two copies everywhere explain the data as well; the solutions are not to be trusted."),
    "raw-counts": Code(
        "tumour", "Raw counts are not corrected for GC content, whose waves look like copy numbers."
    ),
    "no-reference": Code("tumour", "Coverage has no reference, and targets differ more than copy numbers do."),
    "sites-alone": Code(
        "tumour", "Depth comes from the sites of a tumour without its normal, where it is uneven."
    ),
    "amplified": Code("tumour", "{share:.1%} of the bins lie above the highest level."),
    "between-levels": Code(
        "tumour",
        "{share:.0%} of the genome lies between the levels of solution {rank}: it may have more subclones, or another "
        "purity or ploidy.",
    ),
    "far-bins": Code("tumour", "{share:.0%} of the bins are farther from their level than the noise explains."),
    "waves": Code(
        "tumour",
        "Depth varies by {share:.0%} of its level along the genome, as GC content and replication cause. Correct it, "
        "or compare with a normal sample.",
    ),
    "correlated-bins": Code(
        "tumour", "Neighbouring residuals are correlated ({r:.2f}): waves in the depth, or missed segments."
    ),
    "most-clones": Code(
        "tumour", "Solution 1 has {clones} clones, the most that were allowed; another answer may win with more."
    ),
    "equal-clones": Code(
        "tumour",
        "{second} has the same copy numbers as {first} everywhere, so how cells split between them is unknown.",
    ),
    "odds-tempered": Code(
        "tumour",
        "{factor:.1f} times as many segments are unexplained as the model expects, so the log evidence of solutions "
        "was divided by {factor:.1f}.",
    ),
    "odds-too-extreme": Code(
        "tumour",
        "At least {factor:.0f} times as many segments are unexplained as the model expects. Log odds of solutions were "
        "divided by {factor:.0f} at most, so their probabilities may be too extreme.",
    ),
    "prior-decides": Code(
        "tumour",
        "The data do not prefer solution 1 to solution {rank} ({fit:+.1f} in log-likelihood); the prior does "
        "({plausibility:+.1f}). Look at both.",
    ),
}  # fmt: skip


# ---- Remedies --------------------------------------------------------------------------------------------------------


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
    """Give an argument an object. code: in Python; name: on the command line, or a whole option.

    >>> one = Use("update", "ch.BlockGibbs(size=8)", "block:8")
    >>> one.python(), one.option("--update")
    ('update=ch.BlockGibbs(size=8)', '--update block:8')
    >>> Use("offset", "[ch.Periodic(50)]", "--hum 50").option("--offset")
    '--hum 50'
    """

    argument: str
    code: str
    name: str

    def python(self) -> str:
        return f"{self.argument}={self.code}"

    def option(self, flag: str) -> str:
        return self.name if self.name.startswith("--") else f"{flag} {self.name}"


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


# ---- Findings --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """What a check noticed.

    Parameters
    ----------
    code : str, stable; the page "Findings" of the documentation has an anchor of that name.
    severity : "note" leaves the results as they are, "limited" restricts them, "none" makes them unusable.
    facts : dict, the numbers and names of the message.
    remedies : tuple, what to try, the first to try first.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0], sd=0.3))
    >>> options = {"update": "row", "exchange": None, "seed": 1, "progress": False}
    >>> one = ch.sample(model, [0.1, 2.9, 3.2, 1.1], draws=2, **options).findings[0]
    >>> one.code, one.severity, one.facts["draws"]
    ('few-draws', 'none', 2)
    >>> print(one)
    2 draws per chain are too few to judge the run. Try draws=100.
    """

    code: str
    severity: Severity
    facts: Mapping[str, Any] = field(default_factory=dict)
    remedies: tuple[Remedy, ...] = ()

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise InvalidInput(f"code must be one of {', '.join(CODES)}, got {self.code!r}")
        if self.severity not in SEVERITIES:
            raise InvalidInput(f"severity must be note, limited or none, got {self.severity!r}")

    @property
    def about(self) -> About:
        """Whether it is about the run, the evidence, the fit, the parameters, or a tumour."""
        return CODES[self.code].about

    def __str__(self) -> str:
        return in_python(self)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON if the facts are; remedies as arguments of Python."""
        facts = dict(self.facts)
        return {"code": self.code, "severity": self.severity, "facts": facts, "remedies": arguments(self)}


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The worst first, otherwise as they come."""
    return tuple(sorted(findings, key=lambda one: SEVERITIES.index(one.severity)))


def trust_in(findings: Iterable[Finding]) -> Trust:
    """How far results can be trusted: as far as the worst finding allows.

    >>> trust_in([]), trust_in([Finding("one-chain", "note"), Finding("evidence-unknown", "limited")])
    ('good', 'limited')
    """
    found = {one.severity for one in findings}
    return "none" if "none" in found else "limited" if "limited" in found else "good"


# ---- Text ------------------------------------------------------------------------------------------------------------

Say = Callable[[Finding], str]


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
        facts["names"] = _listed(names)
    return CODES[finding.code].message.format(**facts)


def _listed(names: Sequence[str]) -> str:
    """
    >>> _listed(["a", "b", "c", "d", "e", "f"])
    'a, b, c, d and 2 more'
    """
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def arguments(finding: Finding) -> list[str]:
    """The remedies as arguments of Python."""
    return [one.python() for one in finding.remedies]


def options(finding: Finding, flags: Mapping[str, str]) -> list[str]:
    """The remedies as options. flags: the option of each argument; others have - in place of _."""
    return [one.option(flags.get(one.argument, f"--{one.argument.replace('_', '-')}")) for one in finding.remedies]


def advice(remedies: Sequence[str]) -> str:
    """
    >>> advice([]), advice(["sit"]), advice(["sit", "walk"])
    ('', 'Try sit.', 'Try, in this order: sit; walk.')
    """
    return "Try{} {}.".format(", in this order:" * (len(remedies) > 1), "; ".join(remedies)) if remedies else ""


def in_python(finding: Finding) -> str:
    """For Python: remedies are arguments."""
    return f"{message(finding)} {advice(arguments(finding))}".rstrip()


def on_command_line(finding: Finding, flags: Mapping[str, str], place: Place = site_text) -> str:
    """For the command line: remedies are options.

    >>> on_command_line(Finding("one-chain", "limited", remedies=(Set("chains", 4),)), {})
    'A single chain cannot show whether other chains would find other modes. Try --chains 4.'
    """
    return f"{message(finding, place)} {advice(options(finding, flags))}".rstrip()


def headline(findings: Sequence[Finding], accuracy: float | None, place: Place = site_text) -> str:
    """The first line of every summary and page: whether to trust it, and why not. accuracy: the promised one.

    >>> headline([], 0.978)
    'Trust: good. The reported states are right with a mean probability of 97.8%.'
    >>> headline([Finding("one-chain", "limited")], None)
    'Trust: limited. A single chain cannot show whether other chains would find other modes.'
    """
    verdict = trust_in(findings)
    if verdict == "good":
        right = "No check found a problem." if accuracy is None else f"{_right(accuracy)}."
        return f"Trust: good. {right}"
    why = next(message(one, place) for one in in_order(findings))
    if verdict == "limited":
        return f"Trust: limited. {why}" + ("" if accuracy is None else f" {_right(accuracy)}, with that reservation.")
    promised = "" if accuracy is None else f" (the promised accuracy of {percent(accuracy)} included)"
    return f"Trust: none. The probabilities cannot be trusted{promised}. {why}"


def _right(accuracy: float) -> str:
    return f"The reported states are right with a mean probability of {percent(accuracy)}"


def percent(share: float) -> str:
    """A probability in per cent; never 100% of what is not certain.

    >>> percent(0.9462), percent(0.99999)
    ('94.6%', 'more than 99.9%')
    """
    return "more than 99.9%" if 0.9995 <= share < 1 else f"{share:.1%}"

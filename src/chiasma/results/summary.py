"""Summary: whether to trust a run, what was run, whether its chains agree, how well replicas exchange.

R-hat and the bulk effective sample size (ESS) use the cold replica of each chain only: other temperatures have other
distributions. They are computed for the log joint, for the learned parameters and, at some sites, for a quantity that
label switching does not affect.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from chiasma.models.display import Shown
from chiasma.results.convergence import Convergence, rhat_text
from chiasma.results.findings import Finding, Place, Say, Trust, headline, in_python, site_text, trust_in
from chiasma.results.ladder_stats import Evidence
from chiasma.results.misfit import FitStatistics
from chiasma.results.parameters import ParameterSummary
from chiasma.results.provenance import RunInfo
from chiasma.types import Floats, count

if TYPE_CHECKING:
    from rich.console import Group

# Number of sites that are checked: at most SITES, fewer for chains so long that ranking their draws would take minutes.
SITES, FEWEST_SITES = 200, 20
VALUES = 8_000_000
# Colours of the first line.
STYLES: dict[Trust, str] = {"good": "bold green", "limited": "bold yellow", "none": "bold red"}


def some_sites(draws: xr.DataArray) -> xr.DataArray:
    """(chain, draw, site) draws at evenly spaced sites, in memory."""
    n_chains, n_draws, n_sites = draws.shape
    n = _n_checked(n_chains, n_draws, n_sites)
    sites = np.linspace(0, n_sites - 1, n).round().astype(int)
    return draws.isel(site=sites).load()


def _n_checked(n_chains: int, n_draws: int, n_sites: int) -> int:
    return min(n_sites, max(FEWEST_SITES, min(SITES, VALUES // (n_chains * n_draws))))


def tied(levels: xr.DataArray) -> xr.DataArray:
    """Levels rounded so that equal sums are ties: ranks must not distinguish 0.1 + 0.2 from 0.3."""
    largest = float(np.abs(levels).max())
    return levels.round(10 - math.floor(math.log10(largest))) if largest > 0 else levels


@dataclass(frozen=True, kw_only=True)
class Exchanges:
    """Health of the ladder. Round trips are counted for swaps of whole paths only; None for crossovers."""

    move: str
    worst_rejection: float
    worst_pair: int
    barrier: float
    changed: float
    columns: float
    round_trips: int | None


def exchanges(stats: xr.Dataset, info: RunInfo) -> Exchanges | None:
    """Health of the ladder from the statistics of each pair of rungs; None if nothing was exchanged."""
    moves = stats["moves"].values
    if not moves.sum():
        return None
    rejection = stats["rejection"].values
    return Exchanges(
        move=info.get("exchange") or "",
        worst_rejection=float(rejection.max()),
        worst_pair=int(rejection.argmax()),
        barrier=float(rejection.sum()),
        changed=float(np.average(stats["changed"].values, weights=moves)),
        columns=float(np.average(stats["columns"].values, weights=moves)),
        round_trips=sum(info.get("round_trips", ())) if info.get("follows_swaps") else None,
    )


@dataclass(frozen=True, kw_only=True)
class Summary(Shown):
    """Print it, or use `to_dict()`.

    findings : what its checks noticed, the worst first. accuracy : mean probability of the reported states at the sites
    with data, which the model promises; None without states. say, place : how findings and sites are written.
    """

    run: dict[str, Any]
    convergence: tuple[Convergence, ...]
    parameters: tuple[ParameterSummary, ...]
    exchanges: Exchanges | None
    evidence: Evidence | None
    misfit: FitStatistics | None
    accuracy: float | None
    findings: tuple[Finding, ...]
    say: Say = field(default=in_python, compare=False, repr=False)
    place: Place = field(default=site_text, compare=False, repr=False)

    @property
    def trust(self) -> Trust:
        """How far the results can be trusted."""
        return trust_in(self.findings)

    @property
    def headline(self) -> str:
        """Whether to trust the results, and why not."""
        return headline(self.findings, self.accuracy, self.place)

    def to_dict(self) -> dict[str, Any]:
        """A dict ready for JSON. Unknown values and infinite R-hats are None; `stuck` counts the infinite R-hats."""
        content = {
            "trust": self.trust,
            "accuracy": self.accuracy,
            "findings": [one.to_dict() for one in self.findings],
            "run": self.run,
            "convergence": [asdict(part) for part in self.convergence],
            "parameters": [asdict(one) for one in self.parameters],
            "exchanges": None if self.exchanges is None else asdict(self.exchanges),
            "evidence": None if self.evidence is None else self.evidence._asdict(),
            "misfit": None if self.misfit is None else _named(self.misfit),
        }
        return _plain(content)

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        place = self.convergence[-1].place
        parts: list[Any] = [Text(self.headline, style=STYLES[self.trust])]
        parts += [Text(f"{one.severity}: {self.say(one)}") for one in self.findings]
        parts.append(_run_table(self.run, place))
        parts.append(_convergence_table(self.convergence, _checked_text(self.convergence[-1], self.run)))
        if self.parameters:
            parts.append(_parameter_table(self.parameters))
        if self.exchanges is not None:
            parts.append(_facts(_exchange_facts(self.exchanges, is_vector=place == "coordinate")))
        if self.evidence is not None:
            value, error = self.evidence
            parts.append(_facts([("log evidence", f"{value:.3f} " + (f"± {error:.2g}" if error else "(exact)"))]))
        if self.misfit is not None:
            parts.append(_facts([("fit", self.misfit.text)]))
        return Group(*parts)


def _named(found: FitStatistics) -> dict[str, Any]:
    """Named tuples as dicts, too."""
    return {name: value._asdict() if hasattr(value, "_asdict") else value for name, value in vars(found).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def summarise(
    *,
    draws: xr.DataArray,
    parameters: tuple[ParameterSummary, ...],
    betas: Floats,
    exchange_stats: xr.Dataset,
    log_evidence: Evidence | None,
    misfit: FitStatistics | None,
    info: RunInfo,
    findings: Sequence[Finding],
    accuracy: float | None,
    convergences: tuple[Convergence, ...],
) -> Summary:
    """draws: of the cold replica, used for their sizes only."""
    n_chains, n_draws, n_sites = draws.shape
    run = {
        "plan": info.get("plan"),
        "update": info.get("update"),
        "exchange": info.get("exchange"),
        "chains": n_chains,
        "draws": n_draws,
        "sites": n_sites,
        "rows": info.get("n_rows"),
        "replicas": len(betas),
        "hottest_beta": float(betas[0]),
        "independent": bool(info.get("independent")),
        "seed": info.get("seed"),
        "seconds": dict(info.get("timings", {})),
    }
    return Summary(
        run=run,
        convergence=convergences,
        parameters=parameters,
        exchanges=exchanges(exchange_stats, info),
        evidence=log_evidence,
        misfit=misfit,
        accuracy=accuracy,
        findings=tuple(findings),
    )


def time_text(run: Mapping[str, Any]) -> str:
    """The time of every stage, of all parts of a run that was resumed.

    >>> run = {"seconds": {"warmup": 1.5, "draws": 20.25}}
    >>> time_text(run)
    'warmup 1.5 s, draws 20.2 s'
    """
    return ", ".join(f"{stage} {time:.3g} s" for stage, time in run["seconds"].items()) or "-"


def _facts(rows: list[tuple[str, str]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(Text(name, style="bold"), Text(value))
    return table


def _run_table(run: dict[str, Any], place: str) -> Any:
    sizes = [count(run["chains"], "chain"), count(run["draws"], "draw"), count(run["sites"], place)]
    sizes += [] if run["rows"] is None else [count(run["rows"], "row")]
    betas = f", beta {run['hottest_beta']:.3g} to 1" if run["replicas"] > 1 else ""
    return _facts(
        [
            ("plan", str(run["plan"] or "-")),
            ("draws", " x ".join(sizes)),
            ("replicas", f"{run['replicas']} per chain{betas}"),
            ("seed", "-" if run["seed"] is None else str(run["seed"])),
            ("time", time_text(run)),
        ]
    )


def _plain_table(title: str) -> Any:
    """A table for a terminal of 80 columns: no more space than needed; a long name is broken, numbers are not."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    look: dict[str, Any] = {"box": SIMPLE_HEAD, "pad_edge": False, "collapse_padding": True}
    return Table(title=title, title_justify="left", title_style="bold", **look)


def _checked_text(part: Convergence, run: Mapping[str, Any]) -> str:
    """At how many of the sites the chains were looked at, if not at all of them."""
    n = _n_checked(run["chains"], run["draws"], run["sites"])
    what = f"{part.name.replace('_', ' ')}: {n:,} of {count(run['sites'], part.place)}"
    return f" ({what})" if n < run["sites"] else ""


def _convergence_table(parts: tuple[Convergence, ...], checked: str = "") -> Any:
    table = _plain_table(f"Chains of the cold replica{checked}")
    table.add_column("")
    two_lines = ("R-hat\nworst", "R-hat\nmedian", "bulk ESS\nworst", "bulk ESS\nmedian")
    for name in ("series", *two_lines, "constant", f"worst\n{parts[-1].place}"):
        table.add_column(name, justify="right", no_wrap=True)
    for part in parts:
        numbers = [rhat_text(x) for x in (part.rhat_worst, part.rhat_median)]
        numbers += [f"{x:,.0f}" for x in (part.ess_worst, part.ess_median)]
        table.add_row(
            part.name.replace("_", " "),
            str(part.n),
            *("-" if text == "nan" else text for text in numbers),
            str(part.constant),
            "-" if part.worst_site is None else str(part.worst_site),
        )
    return table


def _parameter_table(parameters: tuple[ParameterSummary, ...]) -> Any:
    from rich.text import Text

    table = _plain_table("Learned parameters")
    table.add_column("")
    for name in ("mean", "sd", "5%", "95%", "R-hat", "bulk ESS"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in parameters:
        numbers = [f"{x:.4g}" for x in (one.mean, one.sd, one.low, one.high)]
        numbers += [rhat_text(one.rhat), f"{one.ess:,.0f}"]
        table.add_row(Text(one.name), *("-" if text == "nan" else text for text in numbers))
    return table


def _exchange_facts(health: Exchanges, is_vector: bool) -> list[tuple[str, str]]:
    """is_vector: of a Density, which has vectors of coordinates in place of paths of sites."""
    places, path = ("coordinates", "vector") if is_vector else ("sites", "path")
    pair = f"rungs {health.worst_pair} and {health.worst_pair + 1}"
    return [
        ("exchanges", health.move),
        ("worst rejection", f"{health.worst_rejection:.3f} ({pair}); barrier {health.barrier:.2f}"),
        ("moved", f"{health.columns:.1f} {places} per exchange; {health.changed:.0%} of exchanges change a {path}"),
        *([] if health.round_trips is None else [("round trips", f"{health.round_trips:,}")]),
    ]

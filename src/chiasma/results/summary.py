"""Summary: what was run, whether the chains agree, how well replicas exchange, and what to do about it.

R-hat and the bulk effective sample size are over chains of the cold replica: other temperatures are other
distributions and are never mixed in. They are taken of the log joint, of the learned parameters and, at some sites, of
a quantity that no relabelling of rows changes.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from chiasma.results.convergence import RHAT, Convergence, convergence
from chiasma.results.evidence import Evidence
from chiasma.results.parameters import ParameterSummary
from chiasma.results.run_info import RunInfo
from chiasma.types import Floats

if TYPE_CHECKING:
    from rich.console import Group

# Sites that are looked at: at most so many, and fewer when chains are so long that ranking them would take minutes.
SITES, FEWEST_SITES = 200, 20
VALUES = 8_000_000
# Vehtari and others (2021) want at least so many effective draws.
ESS_PER_CHAIN = 100
# In nats: two such errors are a factor e in a Bayes factor.
EVIDENCE_ERROR = 0.5
# Parameters that one warning names.
SHOWN_NAMES = 4


def some_sites(draws: xr.DataArray) -> xr.DataArray:
    """(chain, draw, site) draws at evenly spaced sites, in memory."""
    n_chains, n_draws, n_sites = draws.shape
    n = min(n_sites, max(FEWEST_SITES, min(SITES, VALUES // (n_chains * n_draws))))
    sites = np.linspace(0, n_sites - 1, n).round().astype(int)
    return draws.isel(site=sites).load()


def tied(levels: xr.DataArray) -> xr.DataArray:
    """Levels without the noise of their last digits: ranks must not tell 0.1 + 0.2 from 0.3."""
    largest = float(np.abs(levels).max())
    return levels.round(10 - math.floor(math.log10(largest))) if largest > 0 else levels


@dataclass(frozen=True, kw_only=True)
class Exchanges:
    """Health of the ladder. Round trips are those of whole paths, and None for crossovers, which mix identities."""

    move: str
    worst_rejection: float
    worst_pair: int
    barrier: float
    changed: float
    columns: float
    round_trips: int | None


def exchanges(stats: xr.Dataset, info: RunInfo) -> Exchanges | None:
    """From the statistics per pair of rungs; None where nothing was exchanged."""
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
class Summary:
    """Print it, or take `to_dict()`; `warnings` is empty where nothing is wrong."""

    run: dict[str, Any]
    convergence: tuple[Convergence, ...]
    parameters: tuple[ParameterSummary, ...]
    exchanges: Exchanges | None
    evidence: Evidence | None
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: None stands for what is not known, and for an infinite R-hat (`stuck` counts those)."""
        content = {
            "run": self.run,
            "convergence": [asdict(part) for part in self.convergence],
            "parameters": [asdict(one) for one in self.parameters],
            "exchanges": None if self.exchanges is None else asdict(self.exchanges),
            "evidence": None if self.evidence is None else self.evidence._asdict(),
            "warnings": list(self.warnings),
        }
        return _plain(content)

    def __rich__(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        parts: list[Any] = [_run_table(self.run), _convergence_table(self.convergence)]
        if self.parameters:
            parts.append(_parameter_table(self.parameters))
        if self.exchanges is not None:
            parts.append(_facts(_exchange_facts(self.exchanges)))
        if self.evidence is not None:
            value, error = self.evidence
            parts.append(_facts([("log evidence", f"{value:.3f} " + (f"± {error:.2g}" if error else "(exact)"))]))
        parts += [Text.assemble(("warning: ", "bold yellow"), text) for text in self.warnings]
        return Group(*parts)

    def __str__(self) -> str:
        from rich.console import Console

        out = StringIO()
        Console(file=out, width=100, color_system=None).print(self)
        return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


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
    log_joint: xr.DataArray,
    series: xr.DataArray,
    parameters: tuple[ParameterSummary, ...],
    betas: Floats,
    exchange_stats: xr.Dataset,
    log_evidence: Evidence | None,
    info: RunInfo,
) -> Summary:
    """draws: of the cold replica, for their sizes; series: (chain, draw, site, ...) at some sites."""
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
        "seed": info.get("seed"),
        "seconds": dict(info.get("timings", {})),
    }
    parts = (convergence(log_joint), convergence(series))
    warnings = [] if info.get("independent") else _chain_warnings(parts, parameters, n_chains, n_draws, betas)
    return Summary(
        run=run,
        convergence=parts,
        parameters=parameters,
        exchanges=exchanges(exchange_stats, info),
        evidence=log_evidence,
        warnings=(*warnings, *info.get("warnings", ()), *_evidence_warnings(log_evidence)),
    )


def _chain_warnings(
    parts: tuple[Convergence, ...],
    parameters: tuple[ParameterSummary, ...],
    n_chains: int,
    n_draws: int,
    betas: Floats,
) -> list[str]:
    if n_draws < 4:
        return [f"{_count(n_draws, 'draw')} per chain are too few to judge the run; take at least {ESS_PER_CHAIN}"]
    found = []
    if n_chains == 1:
        found.append("one chain only: nothing shows whether another would find other modes; run chains=4")
    for part in parts:
        what = part.name.replace("_", " ")
        if part.rhat_worst > RHAT:
            many = "" if part.n == 1 else f" in {part.disagree} of {part.n} series, worst at site {part.worst_site}"
            stuck = f"; {part.stuck} never move within a chain" if part.stuck else ""
            found.append(_disagree(f"{what} is above {RHAT}{many} ({part.rhat_worst:.3g}){stuck}", betas))
        if part.ess_worst < ESS_PER_CHAIN * n_chains:
            many = "" if part.n == 1 else f" (median of {part.n} series: {part.ess_median:,.0f})"
            found.append(_few_draws(f"{what} is {part.ess_worst:,.0f}{many}", part.ess_worst, n_chains, n_draws))
    apart = sorted((one for one in parameters if one.rhat > RHAT), key=lambda one: -one.rhat)
    if apart:
        found.append(_disagree(f"{_listed([f'{one.name} ({one.rhat:.3g})' for one in apart])} is above {RHAT}", betas))
    slow = sorted((one for one in parameters if one.ess < ESS_PER_CHAIN * n_chains), key=lambda one: one.ess)
    if slow:
        what = _listed([f"{one.name} ({one.ess:,.0f})" for one in slow])
        found.append(_few_draws(f"{what} is low", slow[0].ess, n_chains, n_draws))
    return found


def _disagree(what: str, betas: Floats) -> str:
    return f"the chains disagree: R-hat of {what}; warm up longer (warmup), take more draws, or {_better_ladder(betas)}"


def _few_draws(what: str, ess: float, n_chains: int, n_draws: int) -> str:
    wanted = _round_up(n_draws * ESS_PER_CHAIN * n_chains / max(ess, 1.0))
    return (
        f"few effective draws: bulk ESS of {what}, wanted are {ESS_PER_CHAIN} per chain; take about draws={wanted}, or "
        f"thin={math.ceil(wanted / n_draws)} with as many draws as now"
    )


def _listed(names: list[str]) -> str:
    """The first few of them.

    >>> _listed(["a", "b", "c", "d", "e", "f"])
    'a, b, c, d and 2 more'
    """
    more = len(names) - SHOWN_NAMES
    return ", ".join(names[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def _better_ladder(betas: Floats) -> str:
    if len(betas) == 1:
        return "add tempered replicas (exchange='auto', ladder='auto')"
    if betas[0] > 0:
        return "let the ladder reach hotter (ladder='auto')"
    return f"use more rungs (ladder=ch.Ladder.adapted({2 * len(betas)}))"


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def _round_up(count: float) -> int:
    """To two digits.

    >>> _round_up(1234.5)
    1300
    """
    unit = 10 ** max(0, math.floor(math.log10(count)) - 1)
    return math.ceil(count / unit) * unit


def _evidence_warnings(evidence: Evidence | None) -> list[str]:
    if evidence is None or evidence.standard_error <= EVIDENCE_ERROR:
        return []
    if not math.isfinite(evidence.value):
        return ["the evidence is unknown: a rung met no possible draw; take more draws, or adapt the ladder"]
    error = evidence.standard_error
    size = "unknown (too few draws)" if math.isnan(error) else f"{error:.2g} nats, above {EVIDENCE_ERROR}"
    return [f"the standard error of the log evidence is {size}; take more draws, or more rungs (Ladder.adapted(size))"]


def _facts(rows: list[tuple[str, str]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(Text(name, style="bold"), Text(value))
    return table


def _run_table(run: dict[str, Any]) -> Any:
    sizes = [_count(run["chains"], "chain"), _count(run["draws"], "draw"), _count(run["sites"], "site")]
    sizes += [] if run["rows"] is None else [_count(run["rows"], "row")]
    betas = f", beta {run['hottest_beta']:.3g} to 1" if run["replicas"] > 1 else ""
    seconds = ", ".join(f"{stage} {time:.3g} s" for stage, time in run["seconds"].items())
    return _facts(
        [
            ("plan", str(run["plan"] or "-")),
            ("draws", " x ".join(sizes)),
            ("replicas", f"{run['replicas']} per chain{betas}"),
            ("seed", "-" if run["seed"] is None else str(run["seed"])),
            ("time", seconds or "-"),
        ]
    )


def _convergence_table(parts: tuple[Convergence, ...]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title="Chains of the cold replica", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("")
    for name in ("series", "R-hat, worst", "median", "bulk ESS, worst", "median", "constant", "worst site"):
        table.add_column(name, justify="right")
    for part in parts:
        numbers = [f"{x:.3f}" for x in (part.rhat_worst, part.rhat_median)]
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
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Learned parameters", title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.add_column("")
    for name in ("mean", "sd", "5%", "95%", "R-hat", "bulk ESS"):
        table.add_column(name, justify="right")
    for one in parameters:
        numbers = [f"{x:.4g}" for x in (one.mean, one.sd, one.low, one.high)]
        numbers += [f"{one.rhat:.3f}", f"{one.ess:,.0f}"]
        table.add_row(Text(one.name), *("-" if text == "nan" else text for text in numbers))
    return table


def _exchange_facts(health: Exchanges) -> list[tuple[str, str]]:
    pair = f"rungs {health.worst_pair} and {health.worst_pair + 1}"
    return [
        ("exchanges", health.move),
        ("worst rejection", f"{health.worst_rejection:.3f} ({pair}); barrier {health.barrier:.2f}"),
        ("moved", f"{health.columns:.1f} columns per exchange; {health.changed:.0%} of exchanges change a path"),
        *([] if health.round_trips is None else [("round trips", f"{health.round_trips:,}")]),
    ]

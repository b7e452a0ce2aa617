"""Printing: results on stdout, notes on stderr; less of both with --quiet or --json."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from chiasma.cli.mistakes import printable

if TYPE_CHECKING:
    from chiasma.io.signal import Signal
    from chiasma.report.report import Report
    from chiasma.results.configurations import Configuration

# Number of uncertain segments shown on the screen; the file has them all.
SHOWN_REGIONS = 5
SHOWN_RIVALS = 3
SHOWN_PROBABILITY = 0.01
# Longer ranges of time stamps take two lines of the table, which fits a terminal of 80 columns.
WIDEST = 24
COUNTS = "sites with data"


@dataclass(frozen=True)
class Voice:
    """quiet: only the seed and errors. as_json: the summary as JSON, and nothing else on stdout."""

    quiet: bool = False
    as_json: bool = False

    @property
    def progress(self) -> bool:
        return not self.quiet

    def note(self, text: str) -> None:
        """Print a line on stderr."""
        if not self.quiet:
            typer.echo(printable(text), err=True)

    def detail(self, text: str) -> None:
        """Print a line on stderr that programs which read the JSON do not need."""
        if not self.as_json:
            self.note(text)

    def seed(self, seed: int) -> None:
        """Print the seed, even with --quiet or --json."""
        typer.echo(f"seed {seed}", err=True)

    def report(self, report: Report, signal: Signal, run: Path) -> None:
        """Print the summary, the most uncertain segments, and where the files are."""
        if self.as_json:
            typer.echo(json.dumps(report.content, indent=2))
        elif not self.quiet:
            from rich.console import Console
            from rich.text import Text

            from chiasma.report.run_directory import RunDirectory

            console = Console(highlight=False, soft_wrap=False)
            console.print(report.summary)
            for hint in signal.hints:  # they were printed before the run, too, and scrolled away
                console.print(Text.assemble(("hint: ", "bold yellow"), printable(hint)))
            doubts, look = _doubts(report, signal, run, console.width)
            console.print(doubts)
            if look:
                console.print(printable(look), soft_wrap=True, markup=False)  # to be copied: never cut or broken
            *files, last = report.files
            wrote = f"Wrote {', '.join(files)} and {last} to {run}{_slash(run)}"
            console.print(printable(wrote), soft_wrap=True, markup=False)
            page = f"To read it all, open {run / report.files[0]} in a browser"
            later = f"For report.html and figures: {RunDirectory(run).how_to_show()}"
            console.print(printable(page if report.has_page else later), soft_wrap=True, markup=False)

    def region(self, found: list[Configuration], figures: list[Path], where: str, signal: Signal | None = None) -> None:
        """Print the most probable configurations of a region, with dates and times where the signal has time stamps.

        The first is printed in full, the others where they differ from it; JSON has all of each.
        """
        from chiasma.results.configurations import state_name

        if self.as_json:
            configurations = [
                {
                    "probability": one.probability,
                    "standard_error": _known(one.standard_error),
                    "runs": [
                        {"first_site": a, "last_site": b - 1, "state": state_name(one.states[:, a - one.start])}
                        | _times(signal, a, b)
                        | _gap(signal, a, b)
                        for a, b, _ in one.runs
                    ],
                }
                for one in found
            ]
            times = {} if not found else _times(signal, found[0].start, found[0].stop)
            typer.echo(json.dumps({"region": where} | times | {"configurations": configurations}, indent=2))
        elif not self.quiet:
            from rich.console import Console

            console = Console(highlight=False)
            shown = where
            if signal is not None and signal.zone is not None and signal.chromosome is None:
                shown = f"{where} ({signal.range_text(found[0].start, found[0].stop - 1)})"
            console.print(_configurations(found, shown, signal))
            if figures:
                console.print(printable(f"Wrote {' and '.join(map(str, figures))}"), soft_wrap=True, markup=False)


def _configurations(found: list[Configuration], where: str, signal: Signal | None) -> Any:
    from rich.table import Table
    from rich.text import Text

    total = sum(one.probability for one in found)
    which = "most probable configuration" if len(found) == 1 else f"{len(found)} most probable configurations"
    title = f"{printable(where)}: the {which} ({total:.0%} of the draws)"
    table = Table(title=Text(title), title_justify="left")
    table.add_column("probability", justify="right")
    others = "" if len(found) == 1 else "; of all but the first, only where they differ from it"
    table.add_column(f"states, one digit per row, and their sites{others}")
    first, *rest = found
    # Dates and times are long: then every run has a separate line.
    between = ", " if signal is None or signal.zone is None else "\n"
    table.add_row(Text(first.share_text), Text(between.join(_run(first, a, b, signal) for a, b, _ in first.runs)))
    for one in rest:
        spans = one.differences(first)
        lines = (f"{_run(one, a, b, signal)}, not {_state(first, a)}" for a, b in spans)
        table.add_row(Text(one.share_text), Text("\n".join(lines)))
    return table


def _run(one: Configuration, start: int, stop: int, signal: Signal | None) -> str:
    """The state of sites start..stop-1, with their dates and times, and how long nothing was measured."""
    notes = [*_times(signal, start, stop).values(), "" if signal is None else signal.gap_text(start, stop)]
    more = ", ".join(note for note in notes if note)
    return f"{_state(one, start)} {start}-{stop - 1}" + (f" ({more})" if more else "")


def _state(one: Configuration, site: int) -> str:
    from chiasma.results.configurations import state_name

    return state_name(one.states[:, site - one.start])


def _gap(signal: Signal | None, start: int, stop: int) -> dict[str, float]:
    """The longest stretch without data within sites start..stop-1, where the signal has positions."""
    spacing = None if signal is None else signal.spacing
    return {} if spacing is None else {"gap": spacing.longest(start, stop)}


def _times(signal: Signal | None, start: int, stop: int) -> dict[str, str]:
    """The dates and times of sites start..stop-1, as --region takes them, where the signal has time stamps."""
    if signal is None or signal.zone is None:
        return {}
    return {"times": signal.range_text(start, stop - 1)}


def _known(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _doubts(report: Report, signal: Signal, run: Path, width: int) -> tuple[Any, str]:
    """What is not certain, and the command that shows it. width: of the terminal."""
    from rich.console import Group
    from rich.text import Text

    from chiasma.report.run_directory import RunDirectory
    from chiasma.results.rivals import CERTAIN

    n, doubtful = report.n_segments, len(report.regions)
    if not doubtful:
        return Text(f"{n:,} segments, each with one state of probability {CERTAIN} or more."), ""
    table = _rivals(report, signal, "   ")
    # The heading of the column of counts may be broken into words.
    if _width(table) - len(COUNTS) + len(max(COUNTS.split(), key=len)) > width:
        table = _rivals(report, signal, "\n")
    more = doubtful - SHOWN_REGIONS
    lines = [Text(f"and {more:,} more in explanations.tsv")] if more > 0 else []
    first = report.regions[0]
    name, here = first.explanations[0].name, (first.segment.start, first.segment.stop)
    dated = None if signal.chromosome is not None else _times(signal, *here).get("times")
    look = f"{RunDirectory(run).how_to_show()} --region {dated or f'{here[0]}-{here[1] - 1}'}"
    several = any(one.arrangements > 1 for one in first.explanations)
    equal = " Equal rows cannot be told apart: only how many are on counts." if several else ""
    told = Group(
        table,
        *lines,
        Text(printable(f"A state such as {name} has one digit per row, row 0 first: 0 is off.{equal}")),
        Text("Probabilities are means over the sites of a segment; a rival may concern only its ends. Look with:"),
    )
    return told, look


def _rivals(report: Report, signal: Signal, between: str) -> Any:
    """The most uncertain segments and their rivals. between: what separates rivals."""
    from rich.table import Table
    from rich.text import Text

    from chiasma.report.report import region_text

    title = f"Rival explanations ({len(report.regions):,} of {report.n_segments:,} segments)"
    table = Table(title=title, title_justify="left")
    # As --region takes them: positions along a genome; elsewhere sites, and beside them the first and last position.
    table.add_column("sites" if signal.chromosome is None else "where", no_wrap=signal.chromosome is None)
    position = signal.position if signal.chromosome is None else None
    if position is not None:
        table.add_column(printable(signal.axis or "position"), no_wrap=True, overflow="fold")
    table.add_column(COUNTS, justify="right")
    table.add_column("state: probability", no_wrap=True, overflow="fold")
    for region in report.regions[:SHOWN_REGIONS]:
        segment = region.segment
        rivals = [one for one in region.explanations[:SHOWN_RIVALS] if one.probability >= SHOWN_PROBABILITY]
        states = between.join(f"{one.name}: {one.probability:.2f}" for one in rivals)
        where = [region_text(signal, segment.start, segment.stop)]
        if position is not None:
            moments = signal.range_text(segment.start, segment.stop - 1)
            gap = signal.gap_text(segment.start, segment.stop)
            where.append((moments.replace("/", "/\n") if len(moments) > WIDEST else moments) + (gap and f"\n({gap})"))
        table.add_row(*(Text(printable(one)) for one in where), f"{segment.n_data:,}", Text(printable(states)))
    return table


def _width(table: Any) -> int:
    """Columns of a terminal that a table needs if none of its cells is broken into lines."""
    from rich.console import Console

    wide = Console(width=1_000)
    return int(wide.measure(table).maximum)


def _slash(path: Path) -> str:
    return "" if str(path).endswith("/") else "/"

"""chiasma channels: the ion channels of a recording, their number, current and rates, and an idealised trace."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chiasma.cli.mistakes import check_out
from chiasma.cli.printing import Voice
from chiasma.cli.setting_options import TABLES_ONLY, TABLES_ONLY_TUMOUR
from chiasma.errors import InvalidInput

if TYPE_CHECKING:
    from chiasma.channels.analysis import ChannelAnswer

OUT = Path("chiasma-channels")


def channels(
    recording: Annotated[
        Path, typer.Argument(help="An ABF file, a table (CSV or TSV, may be .gz) or an NPY file.", show_default=False)
    ],
    numbers: Annotated[str, typer.Option("--channels", help="Numbers of channels to try. Default: 0-8.")] = "0-8",
    rate: Annotated[
        float | None, typer.Option(help="Samples per second. Needed if the file has no times.", show_default=False)
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="Column of the current in a table, by name or number.", show_default=False)
    ] = None,
    channel: Annotated[int, typer.Option(min=0, help="Channel of the amplifier in an ABF file.")] = 0,
    scheme: Annotated[
        str,
        typer.Option(
            help="States of a channel: C closed, O open, S partly open; such as C-C-O or C1-C2-O,C1-O. Default: C-O."
        ),
    ] = "C-O",
    open_noise: Annotated[bool, typer.Option("--open-noise", help="Learn the noise that open channels add.")] = False,
    polarity: Annotated[str, typer.Option(help="Direction of openings: up or down. Default: up.")] = "up",
    knots: Annotated[
        int | None, typer.Option(min=1, help="Coefficients of the drift. Default: six per second.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory for the answer. Default: chiasma-channels.")] = OUT,
    tables_only: Annotated[bool, typer.Option(TABLES_ONLY, help=TABLES_ONLY_TUMOUR)] = False,
    workers: Annotated[int, typer.Option(min=1, help="Threads. Default: 2.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the search.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.")] = False,
) -> None:
    """The number of ion channels in a recording, their current and rates, and an idealised trace.

    Drift of the baseline and mains hum are learned together with the channels. The directory has report.html,
    idealised.tsv (time, open, probability), dwells.tsv, rates.tsv and summary.json.

    chiasma channels recording.abf --out answer
    """
    from chiasma.channels.analysis import analyse
    from chiasma.channels.exports import summary, write_answer
    from chiasma.channels.recordings import read_recording

    if polarity not in ("up", "down"):
        raise InvalidInput(f"--polarity is up or down, got {polarity!r}")
    check_out(out, "idealised.tsv")
    if not tables_only:
        from chiasma.channels.page import write_page
        from chiasma.report.page import digest_of
    limits = _limits(numbers)
    read = read_recording(recording, rate=rate, column=column, channel=channel)
    voice = Voice(quiet, as_json)
    voice.note(f"{read.name}: {', '.join(read.notes)}")
    answer = analyse(
        read,
        channels=limits,
        scheme=scheme,
        open_noise=open_noise,
        polarity="up" if polarity == "up" else "down",
        knots=knots,
        seed=seed,
        workers=workers,
        progress=not (quiet or as_json),
    )
    write_answer(answer, out, seed)
    if not tables_only:
        facts = {"seed": str(seed), f"SHA-256 of {recording.name}": digest_of(recording)}
        read_as = {"--rate": rate, "--column": column, "--channel": channel or None}
        command = _command(recording, read_as, numbers, scheme, open_noise, polarity, knots, seed)
        write_page(answer, out, command, facts)
    if as_json:
        typer.echo(json.dumps(summary(answer, seed), indent=2))
    elif not quiet:
        _print(answer, out, tables_only)


def _command(
    recording: Path,
    read_as: Mapping[str, object],
    numbers: str,
    scheme: str,
    open_noise: bool,
    polarity: str,
    knots: int | None,
    seed: int,
) -> str:
    """read_as : options that say how the file is read; None for the default.

    >>> _command(Path("a.npy"), {"--rate": 1e4, "--column": None}, "1-8", "C-O", False, "up", None, 1)
    'chiasma channels a.npy --channels 1-8 --scheme C-O --polarity up --rate 10000.0 --seed 1'
    """
    own = "".join(f" {flag} {shlex.quote(str(value))}" for flag, value in read_as.items() if value is not None)
    own += (" --open-noise" if open_noise else "") + ("" if knots is None else f" --knots {knots}")
    options = f"--channels {numbers} --scheme {shlex.quote(scheme)} --polarity {polarity}{own} --seed {seed}"
    return f"chiasma channels {shlex.quote(recording.name)} {options}"


def _limits(given: str) -> tuple[int, int]:
    """
    >>> _limits("1-8"), _limits("5")
    ((1, 8), (5, 5))
    """
    low, _, high = given.partition("-")
    if not (low.isdecimal() and (high or low).isdecimal() and len(given) < 6):
        raise InvalidInput(f"--channels takes numbers such as 1-8 or 5, got {given!r}")
    return int(low), int(high or low)


def _print(answer: ChannelAnswer, out: Path, tables_only: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from chiasma.channels.summary_text import number_in_words, verdict_in_words
    from chiasma.results.findings import advice, message, options

    console = Console(highlight=False)
    console.print(verdict_in_words(answer), soft_wrap=True, markup=False)
    console.print(number_in_words(answer), soft_wrap=True, markup=False)
    # The headline has the first reason for limited trust already.
    for finding in answer.findings[answer.trust != "good" :]:
        tried = advice(options(finding, {}))
        console.print(f"{message(finding)} {tried}".strip(), soft_wrap=True, markup=False)
    table = Table()
    for name in ("", "estimate", "90% interval", ""):
        table.add_column(name, justify="right" if name else "left")
    for one in answer.estimates:
        table.add_row(one.name, f"{one.value:.4g}", f"{one.low:.4g} to {one.high:.4g}", one.unit)
    console.print(table)
    console.print(f"{answer.mains.text}.", markup=False)
    files = "idealised.tsv, dwells.tsv, rates.tsv and summary.json"
    console.print(f"Wrote {files if tables_only else f'report.html, {files}'} to {out}/", soft_wrap=True, markup=False)

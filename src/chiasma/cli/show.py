"""chiasma show: the summary, report, tables and figures of a finished or interrupted run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chiasma.cli.printing import Voice
from chiasma.cli.setting_options import TABLES_ONLY, TABLES_ONLY_HELP
from chiasma.errors import InvalidInput
from chiasma.report.run_directory import RunDirectory


def show(
    run: Annotated[Path, typer.Argument(help="Directory that `chiasma fit --out` wrote.", show_default=False)],
    region: Annotated[
        str | None,
        typer.Option(
            help="Look at one region, both ends included: sites 120-180; chr17 or chr17:30000000-50000000; or "
            "positions with the name of their column, seconds:50.5-60; or, where these are time stamps, 2024-05-01 "
            "(the whole day) or 2024-05-01T08:00/2024-05-01T09:30. One site or position will do, too.",
            show_default=False,
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Only read every file of the run and compare it with its digest. The exit code is 0 if the run is "
            "sound, complete or not, and 2 if it is damaged.",
        ),
    ] = False,
    tables_only: Annotated[bool, typer.Option(TABLES_ONLY, help=TABLES_ONLY_HELP)] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open report.html in the browser.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Write the files, print the seed only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.")] = False,
) -> None:
    """Summarise a run, finished or interrupted, and rewrite its report: a page, tables and figures."""
    from chiasma.io.regions import find_region
    from chiasma.report.report import PAGE, interrupted_text, region_text, write_region, write_report

    if tables_only and open_page:
        raise InvalidInput(f"--open shows report.html, which {TABLES_ONLY} does not write; drop one of the two")
    voice = Voice(quiet, as_json)
    directory = RunDirectory(run)
    if check:
        typer.echo(directory.check())
        return
    posterior, signal = directory.open()
    n_draws, wanted = posterior.draws.sizes["draw"], directory.wanted_draws()
    voice.seed(posterior.info["seed"])
    if n_draws < wanted:
        voice.note(f"interrupted: {interrupted_text(n_draws, wanted)}; {directory.how_to_resume()}")
    about = directory.about()
    if region is not None:
        start, stop = find_region(signal, region)
        found = write_region(posterior, signal, start, stop, run / "figures", tables_only=tables_only)
        voice.region(*found, where=region_text(signal, start, stop), signal=signal)
    if region is None or (open_page and not (run / PAGE).exists()):
        report = write_report(posterior, signal, run, about, voice.detail, tables_only=tables_only)
        voice.report(report, signal, run)
    if open_page:
        typer.launch((run / PAGE).resolve().as_uri())

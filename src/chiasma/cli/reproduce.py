"""chiasma reproduce: the experiments of the paper, rerun."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chiasma.cli.printing import Voice


def reproduce(
    experiments: Annotated[
        list[str],
        typer.Argument(help="schema, errata, toy, simulation, timings, tumour, or all.", show_default=False),
    ],
    out: Annotated[Path, typer.Option(help="Directory for figures, tables, numbers and the page.")] = Path(
        "chiasma-paper"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: only checks that everything runs.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and samplers.")] = 1,
    docs: Annotated[
        Path | None,
        typer.Option(help="Also refresh paper.md and results/ in this directory.", show_default=False),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but the seed and errors.")] = False,
) -> None:
    """Rerun experiments of the paper and compare.

    Writes every figure (PNG and PDF), table (TSV) and number (JSON), and index.html, which shows the paper's claims
    beside our numbers for all experiments that the directory holds.
    """
    from chiasma.experiments.page import refresh
    from chiasma.experiments.reproduce import PAGE, chosen
    from chiasma.experiments.reproduce import reproduce as run_experiments

    voice = Voice(quiet)
    voice.seed(seed)
    names = chosen(experiments)
    records = run_experiments(names, out, quick=quick, seed=seed, note=voice.note)
    if docs is not None:
        refresh(docs, [record for record in records if record.result.name in names])
    if not quiet:
        typer.echo(str(out / PAGE))

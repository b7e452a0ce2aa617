"""chiasma tumour: purity, ploidy, clones and copy numbers of a tumour, every plausible answer with its probability."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chiasma.cli.printing import Voice
from chiasma.errors import InvalidInput

if TYPE_CHECKING:
    from chiasma.genomics.settings import TumourSettings
    from chiasma.genomics.solutions import Answer

OUT = Path("chiasma-tumour")
SHOWN = 6


def tumour(
    data: Annotated[
        Path,
        typer.Argument(
            help="Depth along the genome: CNVkit, GATK, HATCHet, QDNAseq, SEG, bedGraph, WIG or any table; may be .gz.",
            show_default=False,
        ),
    ],
    alleles: Annotated[
        Path | None, typer.Option(help="Allele counts of heterozygous sites, such as GATK's .hets.tsv.")
    ] = None,
    sample: Annotated[str | None, typer.Option(help="Only this sample of the file. Default: all.")] = None,
    purity: Annotated[str | None, typer.Option(help="Known purity, 0.6, or its bounds, 0.5-0.8.")] = None,
    ploidy: Annotated[str | None, typer.Option(help="Bounds of the ploidy, 1.8-2.4.")] = None,
    clones: Annotated[str | None, typer.Option(help="Number of clones, 1, or bounds, 1-3. Default: 1-2.")] = None,
    max_copies: Annotated[int, typer.Option(min=3, max=12, help="Copies with a state of their own.")] = 6,
    female: Annotated[bool, typer.Option("--female", help="Use chromosome X, too: normal cells have two.")] = False,
    gc: Annotated[Path | None, typer.Option(help="WIG with the GC content of the bins, to correct counts.")] = None,
    mappability: Annotated[Path | None, typer.Option(help="WIG with the mappability of the bins.")] = None,
    assembly: Annotated[str | None, typer.Option(help="hg38 or hg19. Default: by the lengths of chromosomes.")] = None,
    region: Annotated[
        list[str] | None, typer.Option(help="Show the rivals of a region: 8:100-120Mb, 8q, 8q24. Can be repeated.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory for tables and figures.")] = OUT,
    workers: Annotated[int, typer.Option(min=1, help="Threads.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draws.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.")] = False,
) -> None:
    """Purity, ploidy, clones and copy numbers of a tumour: every plausible answer, with its probability.

    Purity and ploidy that explain the depth (and the alleles, if there are any) are searched for, and ranked by their
    exact evidence. Depth alone often cannot tell a genome from its double: both are then listed. The directory has
    solutions.tsv, and for every solution that matters segments.tsv, SEG, BED, VCF and figures.
    """
    from chiasma.genomics.settings import TumourSettings

    settings = TumourSettings(
        alleles=alleles,
        sample=sample,
        purity=purity,
        ploidy=ploidy,
        clones=clones,
        max_copies=max_copies,
        female=female,
        gc=gc,
        mappability=mappability,
        assembly=assembly,
        region=region or (),
    )
    settings.check()
    if out.exists() and any(out.iterdir()) and not _is_ours(out):
        raise InvalidInput(f"{out} exists and holds no earlier answer; choose another --out")
    solve_file(data, out, Voice(quiet, as_json), settings, workers=workers, seed=seed)


def solve_file(
    data: Path, out: Path, voice: Voice, settings: TumourSettings, *, workers: int = 2, seed: int = 0
) -> list[Answer]:
    """Solve all samples of a file, and print."""
    from chiasma.genomics.exports import summary
    from chiasma.genomics.tumour import samples_apart

    answers = []
    for bins, folder in samples_apart(settings.read(data), out):
        voice.note(f"{data}: {bins.in_words()}")
        for text in bins.notes:
            voice.note(f"  {text}")
        answers.append(settings.solve(bins, folder, lambda text: voice.note(f"  {text}"), workers=workers, seed=seed))
        if not (voice.quiet or voice.as_json):
            _print(answers[-1], folder)
    if voice.as_json:
        contents = [summary(answer, seed) for answer in answers]
        typer.echo(json.dumps(contents if len(contents) > 1 else contents[0], indent=2))
    return answers


def _is_ours(out: Path) -> bool:
    return (out / "solutions.tsv").exists() or any(out.glob("*/solutions.tsv"))


def _print(answer: Answer, folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from chiasma.genomics.exports import chance, solution_entries, verdict

    console = Console(highlight=False)
    entries = solution_entries(answer)
    console.print(f"{answer.bins.sample}: {verdict(answer)}", soft_wrap=True, markup=False)
    table = Table()
    for heading in ("", "probability", "purity (90%)", "ploidy", "clones", "doubled", "altered"):
        table.add_column(heading, justify="right")
    for entry in entries[:SHOWN]:
        fractions = list(entry["clone_fractions"].values())[1:]
        table.add_row(
            str(entry["rank"]),
            chance(entry["probability"]),
            f"{entry['purity']:.2f} ({entry['purity_low']:.2f}-{entry['purity_high']:.2f})",
            f"{entry['ploidy']:.2f}",
            " + ".join(f"{share:.0%}" for share in fractions),
            f"{entry['doubled']:.0%}",
            f"{entry['altered']:.0%}",
        )
    console.print(table)
    for text in entries[0]["warnings"]:
        console.print(f"Warning: {text}.", soft_wrap=True, markup=False)
    console.print(
        f"Wrote report.html, solutions.tsv, segments, SEG, BED, VCF and figures to {folder}/",
        soft_wrap=True,
        markup=False,
    )

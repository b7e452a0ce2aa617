"""chiasma tumour: purity, ploidy, clones and copy numbers of a tumour, every plausible answer with its probability."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chiasma.cli.printing import Voice
from chiasma.errors import InvalidInput

if TYPE_CHECKING:
    from chiasma.genomics.landscape import Bounds
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
    from chiasma.genomics.landscape import PLOIDIES, Bounds

    bounds = Bounds(
        purity=_bounds("--purity", purity, 0.05, 1.0),
        ploidy=_bounds("--ploidy", ploidy, *PLOIDIES),
        clones=_clones(clones),
    )
    if out.exists() and any(out.iterdir()) and not _is_ours(out):
        raise InvalidInput(f"{out} exists and holds no earlier answer; choose another --out")
    files = {"alleles": alleles, "gc": gc, "mappability": mappability}
    how: dict[str, Any] = {"most": max_copies, "assembly_name": assembly, "workers": workers, "seed": seed}
    how["regions"] = region or ()
    solve_file(data, out, Voice(quiet, as_json), bounds, {"sample": sample, "female": female, **files}, **how)


def solve_file(
    data: Path, out: Path, voice: Voice, bounds: Bounds, reading: Mapping[str, Any] | None = None, **how: Any
) -> list[Answer]:
    """Solve all samples of a file, and print. reading: for `read_samples`; how: for `analyse`."""
    from chiasma.genomics.exports import summary
    from chiasma.genomics.tumour import analyse, read_samples, samples_apart

    answers = []
    for bins, folder in samples_apart(read_samples(data, **(reading or {})), out):
        voice.note(f"{data}: {bins.in_words()}")
        for text in bins.notes:
            voice.note(f"  {text}")
        answers.append(analyse(bins, folder, bounds=bounds, note=lambda text: voice.note(f"  {text}"), **how))
        if not (voice.quiet or voice.as_json):
            _print(answers[-1], folder)
    if voice.as_json:
        contents = [summary(answer, how.get("seed", 0)) for answer in answers]
        typer.echo(json.dumps(contents if len(contents) > 1 else contents[0], indent=2))
    return answers


def _is_ours(out: Path) -> bool:
    return (out / "solutions.tsv").exists() or any(out.glob("*/solutions.tsv"))


def _bounds(option: str, text: str | None, low: float, high: float) -> tuple[float, float]:
    """ "0.6" or "0.5-0.8".

    >>> _bounds("--purity", "0.5-0.8", 0.05, 1.0), _bounds("--purity", "0.6", 0.05, 1.0)
    ((0.5, 0.8), (0.6, 0.6))
    """
    if text is None:
        return low, high
    try:
        numbers = [float(part) for part in text.split("-")]
    except ValueError:
        numbers = []
    if len(numbers) == 1 and option == "--ploidy":
        numbers = [numbers[0] - 0.1, numbers[0] + 0.1]
    if len(numbers) not in (1, 2) or not low <= numbers[0] <= numbers[-1] <= high:
        raise InvalidInput(f"{option} takes a number or LOW-HIGH within {low:g}-{high:g}, got {text!r}")
    return numbers[0], numbers[-1]


def _clones(text: str | None) -> tuple[int, int]:
    parts = ["1", "2"] if text is None else text.split("-")
    if len(parts) > 2 or not all(part.strip() in ("1", "2", "3") for part in parts) or parts[0] > parts[-1]:
        raise InvalidInput(f"--clones takes a number or LOW-HIGH within 1-3, got {text!r}")
    return int(parts[0]), int(parts[-1])


def _print(answer: Answer, folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from chiasma.genomics.exports import chance, solution_entries, verdict

    console = Console(highlight=False)
    entries = solution_entries(answer)
    console.print(f"{answer.bins.sample}: {verdict(answer)}", soft_wrap=True, markup=False)
    table = Table()
    for heading in ("", "probability", "purity (90%)", "ploidy", "clones", "doubled", "altered", "unexplained"):
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
            f"{entry['unexplained']:.0%}",
        )
    console.print(table)
    for text in entries[0]["warnings"]:
        console.print(f"Warning: {text}.", soft_wrap=True, markup=False)
    console.print(
        f"Wrote report.html, solutions.tsv, segments, SEG, BED, VCF and figures to {folder}/",
        soft_wrap=True,
        markup=False,
    )

"""chiasma tumour: purity, ploidy, clones and copy numbers of a tumour, every plausible answer with its probability."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chiasma.cli.mistakes import check_out
from chiasma.cli.printing import Voice
from chiasma.cli.setting_options import TABLES_ONLY, TABLES_ONLY_TUMOUR
from chiasma.errors import InvalidInput

if TYPE_CHECKING:
    from chiasma.tumour.analysis import TumourSettings
    from chiasma.tumour.bins import Bins
    from chiasma.tumour.solutions import Answer, Patient

OUT = Path("chiasma-tumour")
SHOWN = 6
LEAST_SHARE = 0.02  # of a state that is printed for a region


@dataclass(frozen=True, kw_only=True)
class Job:
    """How samples are solved, where the answer goes, and what is printed."""

    settings: TumourSettings
    out: Path
    voice: Voice
    workers: int = 2
    seed: int = 0
    tables_only: bool = False
    chosen: bool = False  # whether files have other samples, too
    alleles: Mapping[str, Path] = field(default_factory=dict)  # by the data file that they belong to

    def settings_of(self, samples: Sequence[Bins]) -> TumourSettings:
        """With the sample and its allele counts, so that the command on its page repeats the analysis."""
        if len(samples) > 1:
            return self.settings
        (bins,) = samples
        name = bins.sample if self.chosen else None
        return replace(self.settings, sample=name, alleles=self.alleles.get(bins.source))

    @property
    def how(self) -> dict[str, Any]:
        """Arguments of `TumourSettings.solve`."""
        return {
            "note": lambda text: self.voice.note(f"  {text}"),
            "workers": self.workers,
            "seed": self.seed,
            "tables_only": self.tables_only,
        }


def tumour(
    data: Annotated[
        list[Path],
        typer.Argument(
            help="Depth along the genome: CNVkit, GATK, HATCHet, PURPLE, COBALT, QDNAseq, SEG, bedGraph, WIG or any "
            "table; or reads at sites: FACETS, sequenza, AMBER, VCF. May be .gz. Can be repeated.",
            show_default=False,
        ),
    ],
    one_patient: Annotated[
        bool,
        typer.Option(
            "--one-patient", help="All samples come from one patient: solve them together, with shared clones."
        ),
    ] = False,
    alleles: Annotated[
        list[Path] | None,
        typer.Option(
            help="Allele counts at heterozygous sites: GATK's .hets.tsv, AMBER, a VCF with AD. For several files, one "
            "each, in the same order."
        ),
    ] = None,
    sample: Annotated[
        list[str] | None, typer.Option(help="Only this sample, or column of a table. Can be repeated. Default: all.")
    ] = None,
    purity: Annotated[
        str | None,
        typer.Option(help="Known purity, 0.6, or bounds, 0.5-0.8; with --one-patient one per sample: 0.9,0.4-0.6."),
    ] = None,
    ploidy: Annotated[
        str | None,
        typer.Option(help="Ploidy, 2.1 (within 0.1), or bounds, 1.8-2.4; with --one-patient one per sample."),
    ] = None,
    clones: Annotated[
        str | None, typer.Option(help="Number of clones, 1, or bounds, 1-3. Default: 1-2; with --one-patient 1-3.")
    ] = None,
    max_copies: Annotated[int, typer.Option(min=3, max=12, help="Largest number of copies with a separate state.")] = 6,
    female: Annotated[
        bool, typer.Option("--female", help="Use chromosome X, too: normal cells have two copies.")
    ] = False,
    gc: Annotated[Path | None, typer.Option(help="WIG with the GC content of the bins, to correct counts.")] = None,
    mappability: Annotated[Path | None, typer.Option(help="WIG with the mappability of the bins.")] = None,
    normal: Annotated[
        Path | None,
        typer.Option(help="Coverage or counts of a normal sample; the tumour is divided by it."),
    ] = None,
    assembly: Annotated[str | None, typer.Option(help="hg38 or hg19. Default: from chromosome lengths.")] = None,
    region: Annotated[
        list[str] | None, typer.Option(help="Show a region in every solution: 8:100-120Mb, 8q, 8q24. Can be repeated.")
    ] = None,
    response: Annotated[
        str | None,
        typer.Option(help="How depth grows with copies: linear (sequencing) or array. Default: decided by the data."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory for tables and figures.")] = OUT,
    tables_only: Annotated[bool, typer.Option(TABLES_ONLY, help=TABLES_ONLY_TUMOUR)] = False,
    workers: Annotated[int, typer.Option(min=1, help="Threads.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the posterior draws.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.")] = False,
) -> None:
    """Purity, ploidy, clones and copy numbers of a tumour: every plausible solution, with its probability.

    Search for the purities and ploidies that explain the depth (and the alleles, if there are any), and rank them by
    their exact evidence. Depth alone often cannot tell a genome from its double: both are then listed. The directory
    has solutions.tsv, and for every solution that matters segments.tsv, SEG, BED, VCF and figures. --tables-only leaves
    out report.html and the figures.

    The first of several clones is called main; subclones are described by their differences from it. Main need not be
    the largest clone. The VCF has the copies of the largest clone.

    With --one-patient, samples of one patient, in one file or in several, are solved together: they share their clones,
    and each has its own purity, ploidy and clone fractions:

    chiasma tumour primary.cnr relapse.cnr --one-patient --out answer
    """
    from chiasma.tumour.analysis import TumourSettings

    settings = TumourSettings(
        purity=purity,
        ploidy=ploidy,
        clones=clones,
        max_copies=max_copies,
        female=female,
        gc=gc,
        mappability=mappability,
        normal=normal,
        assembly=assembly,
        region=region or (),
        response=response,  # type: ignore[arg-type]  # check() refuses other words
    )
    settings.check()
    if tables_only and region:
        raise InvalidInput(f"--region draws a figure, which {TABLES_ONLY} does not write; drop one of the two")
    check_out(out, "solutions.tsv", "*/solutions.tsv")
    samples = read_files(data, settings, sample or [], alleles or [])
    voice = Voice(quiet, as_json)
    job = Job(
        settings=settings,
        out=out,
        voice=voice,
        workers=workers,
        seed=seed,
        tables_only=tables_only,
        chosen=bool(sample) or len(samples) > len({bins.source for bins in samples}),
        alleles={str(path): sites for path, sites in zip(data, alleles or [], strict=False)},
    )
    if one_patient and len(samples) < 2:
        raise InvalidInput("--one-patient needs two samples or more, got one; give another file, or drop the option")
    solve_patients([samples] if one_patient else [[bins] for bins in samples], job)


def read_files(
    files: Sequence[Path], settings: TumourSettings, names: Sequence[str] = (), alleles: Sequence[Path] = ()
) -> list[Bins]:
    """The samples of all files, or those with these names. alleles: one file for each, or none."""
    from chiasma.io.sheets import listed

    if len(alleles) not in (0, len(files)):
        raise InvalidInput(
            f"--alleles must be given once for every file, {len(files)} times and in their order, got {len(alleles)}"
        )
    wanted: Sequence[str | None] = names if names and len(files) == 1 else [None]
    found: list[Bins] = []
    each: list[Path | None] = [*alleles] or [None] * len(files)
    for path, sites in zip(files, each, strict=True):
        for only in wanted:
            found += replace(settings, sample=only, alleles=sites).read(path)
    missing = [name for name in names if name not in {bins.sample for bins in found}]
    if missing:
        raise InvalidInput(f"there is no sample {missing[0]!r}; choose among {listed([b.sample for b in found])}")
    return [bins for bins in found if not names or bins.sample in names]


def solve_patients(patients: Sequence[Sequence[Bins]], job: Job) -> list[Patient]:
    """Solve the samples of every patient together, each patient in its own directory if there are several; print."""
    from chiasma.tumour.exports import file_name, patient_summary

    found = []
    for samples in patients:
        out = job.out if len(patients) == 1 else job.out / file_name(samples[0].sample)
        for bins in samples:
            _tell(bins, job.voice)
        found.append(job.settings_of(samples).solve(samples, out, **job.how))
        if not (job.voice.quiet or job.voice.as_json):
            _print(found[-1], out, job)
    if job.voice.as_json:
        contents = [patient_summary(patient, job.seed) for patient in found]
        typer.echo(json.dumps(contents if len(contents) > 1 else contents[0], indent=2))
    return found


def _tell(bins: Bins, voice: Voice) -> None:
    voice.note(f"{bins.source}: {bins.in_words()}")
    for text in bins.notes:
        voice.note(f"  {text}")


def _print(patient: Patient, folder: Path, job: Job) -> None:
    from rich.console import Console
    from rich.table import Table

    from chiasma.results.findings import headline, on_command_line
    from chiasma.tumour.doubts import family
    from chiasma.tumour.exports import chance, interval, joint_findings, patient_verdict, solution_entries

    console = Console(highlight=False)
    several = len(patient.answers) > 1
    entries = [solution_entries(answer) for answer in patient.answers]
    findings = joint_findings(patient.samples, entries)
    console.print(headline([one for _, one in findings], None), soft_wrap=True, markup=False)
    console.print(patient_verdict(patient), soft_wrap=True, markup=False)
    table = Table(padding=(0, 0 if several else 1))
    likely = "probability" in entries[0][0]
    headings = [
        "",
        *(["probability"] if likely else []),
        *(["sample"] if several else []),
        "purity (90%)",
        "ploidy",
        "clones",
        "doubled",
    ]
    for heading in [*headings, "altered"]:
        table.add_column(heading, justify="right", overflow="fold")
    for together in list(zip(*entries, strict=True))[:SHOWN]:
        for i, (sample, entry) in enumerate(zip(patient.samples, together, strict=True)):
            table.add_row(
                "" if i else str(entry["rank"]),
                *(["" if i else chance(entry["probability"])] if likely else []),
                *([sample] if several else []),
                f"{entry['purity']:.2f} ({interval(entry)})",
                f"{entry['ploidy']:.2f}",
                " + ".join(f"{share:.0%}" for share in list(entry["clone_fractions"].values())[1:]),
                "" if i else f"{entry['doubled']:.0%}",
                f"{entry['altered']:.0%}",
                end_section=several and i == len(together) - 1,
            )
    console.print(table)
    if not patient.flat:
        for relative in family(patient.answers):
            console.print(str(relative), soft_wrap=True, markup=False)
    for answer in patient.answers:
        for text in job.settings.region:
            console.print(_region(answer, text, job.settings.assembly), soft_wrap=True, markup=False)
    for names, one in findings:
        whose = f", {names}" if several else ""
        console.print(f"{one.severity}{whose}: {on_command_line(one, {})}", soft_wrap=True, markup=False)
    files = "solutions.tsv, clone fractions" if several else "solutions.tsv, segments, SEG, BED and VCF"
    wrote = files if job.tables_only else f"report.html, figures, {files}"
    each = ", and a directory for every sample" if several else ""
    console.print(f"Wrote {wrote} to {folder}/{each}", soft_wrap=True, markup=False)


def _region(answer: Answer, text: str, name: str | None) -> str:
    """The most probable states of the main clone in a region, under every solution that is shown."""
    from chiasma.tumour.genome import assembly, assembly_of, find_region

    region = find_region(answer.bins, text, assembly(name) if name else assembly_of(answer.bins))
    parts = []
    for rank, solution in enumerate(answer.solutions[:SHOWN], start=1):
        share = solution.best.main[region.first : region.stop].mean(axis=0)
        best = sorted(range(len(share)), key=lambda s: -share[s])[:2]
        states = ", ".join(f"{solution.best.states.texts[s]} {share[s]:.2f}" for s in best if share[s] > LEAST_SHARE)
        parts.append(f"solution {rank}: {states}")
    return f"{answer.bins.sample}, {region.text}, copies of the main clone (mean probability): {'; '.join(parts)}"

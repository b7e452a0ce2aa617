"""From a file to an answer in a directory: read, solve, write tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from chiasma import atomic
from chiasma.errors import InvalidInput
from chiasma.tumour.bins import Bins, attach_alleles
from chiasma.tumour.copy_states import MOST_COPIES
from chiasma.tumour.exports import N_DRAWS, draws, file_name, solution_entries, that_matter, write_answer
from chiasma.tumour.figures import plot_genome, plot_landscape, plot_region, plot_solutions
from chiasma.tumour.formats import read_bins
from chiasma.tumour.genome import Assembly, Region, assembly, assembly_of, find_region
from chiasma.tumour.landscape import Bounds
from chiasma.tumour.page import write_page
from chiasma.tumour.patient import Patient, solve_patient
from chiasma.tumour.patient_exports import write_patient
from chiasma.tumour.patient_figures import plot_fractions, plot_patient
from chiasma.tumour.patient_page import write_patient_page
from chiasma.tumour.solutions import Answer, solve
from chiasma.tumour.wig import corrected

DPI = 130
FEWEST_BINS = 20
# Solutions on one page.
MOST_SHOWN = 6
# Solutions whose fractions of clones are drawn side by side.
MOST_FRACTIONS = 4


def read_samples(
    path: Path,
    *,
    sample: str | None = None,
    alleles: Path | None = None,
    gc: Path | None = None,
    mappability: Path | None = None,
    female: bool = False,
) -> list[Bins]:
    """The samples of a file: with allele counts of another one, corrected, without chromosomes of unknown copies."""
    found = read_bins(path, sample)
    if alleles is not None:
        sites = read_bins(alleles)
        if len(sites) > 1:
            sites = [one for one in sites if one.sample == sample] or sites
        if len(found) != 1 or len(sites) != 1:
            raise InvalidInput(
                f"{path} has {len(found)} samples and {alleles} {len(sites)}; choose one with --sample, so that the "
                "allele counts belong to it"
            )
        found = [attach_alleles(found[0], sites[0])]
    found = [replace(bins, notes=(*bins.notes, *_allele_notes(bins))) for bins in found]
    if gc is not None or mappability is not None:
        others = [None if one is None else read_bins(one)[0] for one in (gc, mappability)]
        found = [corrected(bins, *others) for bins in found]
    found = [bins.with_two_copies(female) for bins in found]
    for bins in found:
        if bins.n_bins < FEWEST_BINS and not bins.segments:
            raise InvalidInput(
                f"{path} has {bins.n_bins} bins of sample {bins.sample!r}; a tumour needs at least {FEWEST_BINS}"
            )
    return found


def _allele_notes(bins: Bins) -> list[str]:
    """Not told where the file is read, as `chiasma fit` does not use its alleles."""
    return [bins.alleles.in_words()] if bins.alleles is not None and bins.alleles.columns else []


def analyse(
    bins: Bins,
    out: Path,
    *,
    bounds: Bounds | None = None,
    most: int = MOST_COPIES,
    assembly_name: str | None = None,
    regions: Sequence[str] = (),
    workers: int = 2,
    seed: int = 0,
    tables_only: bool = False,
    note: Callable[[str], None] = lambda text: None,
) -> Answer:
    """Solve one sample and write everything about it to a directory."""
    known, wanted = _places_of(bins, assembly_name, regions)
    answer = solve(bins, bounds, most, workers, note)
    _check_found(answer)
    note(_what_is_written(out, tables_only))
    about = _about(known, seed)
    write_answer(answer, out, about, seed)
    if not tables_only:
        _write_pictures(answer, out, known, wanted, seed)
    return answer


def analyse_patient(
    samples: Sequence[Bins],
    out: Path,
    *,
    bounds: Bounds | Sequence[Bounds] | None = None,
    most: int = MOST_COPIES,
    assembly_name: str | None = None,
    regions: Sequence[str] = (),
    workers: int = 2,
    seed: int = 0,
    tables_only: bool = False,
    note: Callable[[str], None] = lambda text: None,
) -> Patient:
    """Solve the samples of one patient together; write a directory for each, and the joint answer above them."""
    known, wanted = _places_of(samples[0], assembly_name, regions)
    patient = solve_patient(samples, bounds, most, workers, note)
    _check_found(patient.answers[0])
    note(_what_is_written(out, tables_only))
    about = _about(known, seed)
    drawn = draws(patient.answers, N_DRAWS, seed)
    write_patient(patient, out, drawn, about, seed)
    for number, (sample, answer) in enumerate(zip(patient.samples, patient.answers, strict=True)):
        write_answer(answer, out / file_name(sample), about, seed, drawn, number)
        if not tables_only:
            # Bins that another sample lacks are left out: the region is looked up again.
            own = [find_region(answer.bins, region.text, known) for region in wanted]
            _write_pictures(answer, out / file_name(sample), known, own, seed)
    if not tables_only:
        write_patient_figures(patient, out / "figures", known)
        write_patient_page(patient, out, seed)
    return patient


def _places_of(bins: Bins, name: str | None, regions: Sequence[str]) -> tuple[Assembly | None, list[Region]]:
    known = assembly(name) if name else assembly_of(bins)
    return known, [find_region(bins, text, known) for text in regions]


def _what_is_written(out: Path, tables_only: bool) -> str:
    if not tables_only:
        return "writing tables and figures"
    earlier = "; report.html and figures/ are those of an earlier answer" if (out / "report.html").exists() else ""
    return f"writing tables{earlier}"


def _about(known: Assembly | None, seed: int) -> dict[str, Any]:
    return {"chiasma": version("chiasma"), "assembly": known.name if known else None, "seed": seed}


def _check_found(answer: Answer) -> None:
    if not answer.solutions:
        raise InvalidInput(
            f"no explanation of {answer.bins.sample!r} has a purity and a ploidy within the bounds; widen --purity or "
            "--ploidy"
        )


def _write_pictures(answer: Answer, out: Path, known: Assembly | None, regions: Sequence[Region], seed: int) -> None:
    """Figures and the page of one sample."""
    write_figures(answer, out / "figures", known)
    write_page(answer, solution_entries(answer, seed), out)
    for region in regions:
        name = "".join(c if c.isalnum() else "-" for c in region.text)
        n = max(1, min(4, sum(one.probability > 1e-4 for one in answer.solutions)))
        _draw(
            out / "figures" / f"region-{name}.png",
            (4.6 * n, 5),
            partial(plot_region, answer, region, known),
        )


def write_patient_figures(patient: Patient, folder: Path, known: Assembly | None) -> list[Path]:
    """All samples above their clones, for every joint solution that matters, and the fractions of clones."""
    shown = range(len(that_matter(patient.answers[0])))
    n, few = len(patient.samples), list(shown)[:MOST_FRACTIONS]
    written = [
        _draw(
            folder / "clone-fractions.png",
            (2.4 + 2.6 * len(few), 1.4 + 0.45 * n),
            lambda fig: plot_fractions(patient, few, fig),
        )
    ]
    height = 2.2 + sum(3.2 if answer.data.has_alleles else 2.1 for answer in patient.answers)
    for number in shown:
        path = folder / f"solution-{number + 1}.png"
        written.append(_draw(path, (13, height), partial(plot_patient, patient, number, known)))
    return written


def write_figures(answer: Answer, folder: Path, known: Assembly | None) -> list[Path]:
    """The genome in every solution that matters, the landscape, and all solutions on one page."""
    written = [
        _draw(folder / "purity-ploidy.png", (7.5, 5), lambda fig: plot_landscape(answer, fig)),
        _draw(
            folder / "solutions.png",
            (13, 1.2 + 1.5 * len(that_matter(answer)[:MOST_SHOWN])),
            lambda fig: plot_solutions(answer, that_matter(answer)[:MOST_SHOWN], known, fig),
        ),
    ]
    height = 6.4 if answer.data.has_alleles else 5.0
    for i, solution in enumerate(that_matter(answer), start=1):
        path = folder / f"solution-{i}.png"
        written.append(_draw(path, (13, height), partial(plot_genome, answer, solution, known)))
    return written


def _draw(path: Path, size: tuple[float, float], draw: Callable[[Figure], None]) -> Path:
    figure = Figure(figsize=size, layout="constrained")
    draw(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.whole_file(path) as partial:
        figure.savefig(partial, dpi=DPI, format="png")
    return path


def samples_apart(found: Sequence[Bins], out: Path) -> list[tuple[Bins, Path]]:
    """Every sample with its directory: the given one, or one below it for each of several."""
    if len(found) == 1:
        return [(found[0], out)]
    return [(bins, out / file_name(bins.sample)) for bins in found]

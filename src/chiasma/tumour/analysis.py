"""Settings of `chiasma tumour`, and the way from a file to an answer in a directory: read, solve, write.

The settings are options of the command, and columns in the sheet of a cohort of tumours.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import chiasma
from chiasma.errors import InvalidInput
from chiasma.extras import extra
from chiasma.tumour.bins import Bins
from chiasma.tumour.copy_states import MOST_COPIES
from chiasma.tumour.exports import write_patient
from chiasma.tumour.figures import write_figures
from chiasma.tumour.genome import assembly, assembly_of, find_region
from chiasma.tumour.landscape import MOST_CLONES, PLOIDIES, Bounds
from chiasma.tumour.page import write_pages
from chiasma.tumour.samples import read_samples
from chiasma.tumour.search import Response
from chiasma.tumour.solutions import Patient, solve, usual_clones

with extra("tumour"):
    from chiasma.report.page import digest_of

PURITIES = (0.05, 1.0)
COPIES = (3, 12)
RESPONSES = ("linear", "array")


@dataclass(frozen=True, kw_only=True)
class TumourSettings:
    """How one file is read and solved.

    purity, ploidy, clones : a number, or bounds as LOW-HIGH; None leaves them open. Of the samples of one patient,
        purity and ploidy may have an entry for each: "0.9,0.4-0.6".
    alleles, gc, mappability, normal : further files.
    sample : the only one to read of a file with several.
    region : regions to show in every solution.
    response : of depth to copies: linear, or array; None: decided by the data.
    """

    alleles: Path | None = None
    sample: str | None = None
    purity: str | None = None
    ploidy: str | None = None
    clones: str | None = None
    max_copies: int = MOST_COPIES
    female: bool = False
    gc: Path | None = None
    mappability: Path | None = None
    normal: Path | None = None
    assembly: str | None = None
    region: Sequence[str] = ()
    response: Response = None

    @property
    def bounds(self) -> Bounds:
        """Bounds of one sample. Raises InvalidInput for text that is neither a number nor bounds."""
        return self.bounds_of(1)[0]

    def bounds_of(self, n_samples: int) -> list[Bounds]:
        """Bounds of every sample of a patient."""
        clones = usual_clones(n_samples) if self.clones is None else read_clones(self.clones)
        purities = _for_each("purity", self.purity, n_samples)
        ploidies = _for_each("ploidy", self.ploidy, n_samples)
        return [
            Bounds(
                purity=read_bounds("purity", purity, *PURITIES),
                ploidy=read_bounds("ploidy", ploidy, *PLOIDIES),
                clones=clones,
            )
            for purity, ploidy in zip(purities, ploidies, strict=True)
        ]

    def check(self) -> None:
        """Raise InvalidInput for settings that are invalid for any data."""
        for name, text, limits in (("purity", self.purity, PURITIES), ("ploidy", self.ploidy, PLOIDIES)):
            for part in [None] if text is None else text.split(","):
                read_bounds(name, part, *limits)
        if self.clones is not None:
            read_clones(self.clones)
        least, most = COPIES
        if not least <= self.max_copies <= most:
            raise InvalidInput(f"max_copies must be in {least}..{most}, got {self.max_copies}")
        if self.response not in (None, *RESPONSES):
            raise InvalidInput(f"response must be one of {', '.join(RESPONSES)}, got {self.response!r}")
        if self.assembly is not None:
            assembly(self.assembly)

    def read(self, path: Path) -> list[Bins]:
        return read_samples(
            path,
            sample=self.sample,
            alleles=self.alleles,
            gc=self.gc,
            mappability=self.mappability,
            normal=self.normal,
            female=self.female,
        )

    def solve(
        self,
        samples: Sequence[Bins],
        out: Path,
        *,
        workers: int = 2,
        seed: int = 0,
        tables_only: bool = False,
        note: Callable[[str], None] = lambda text: None,
    ) -> Patient:
        """Solve the samples of one patient, and write everything about them to a directory."""
        known = assembly(self.assembly) if self.assembly else assembly_of(samples[0])
        # Reject unknown regions before the search.
        regions = [find_region(samples[0], text, known) for text in self.region]
        patient = solve(samples, self.bounds_of(len(samples)), self.max_copies, workers, note, self.response)
        if not patient.n_solutions:
            raise InvalidInput(
                f"no explanation of {patient.samples[0]!r} has a purity and a ploidy within the bounds; widen --purity "
                "or --ploidy"
            )
        note(_what_is_written(out, tables_only))
        about = {"chiasma": chiasma.__version__, "assembly": known.name if known else None, "seed": seed}
        write_patient(patient, out, about, seed, known)
        if not tables_only:
            write_figures(patient, out, known, self.region)
            digests = {f"SHA-256 of {bins.source}": digest_of(Path(bins.source)) for bins in samples}
            facts = {name: str(value) for name, value in about.items() if value is not None} | digests
            told = {"command": self.command(samples, seed), "facts": facts}
            write_pages(patient, out, seed, told, regions)
        return patient

    def command(self, samples: Sequence[Bins], seed: int) -> str:
        """The command that repeats the analysis of these samples."""
        words = ["chiasma", "tumour", *dict.fromkeys(bins.source for bins in samples)]
        words += ["--one-patient"] if len(samples) > 1 else []
        for one in fields(self):
            flag, value = f"--{one.name.replace('_', '-')}", getattr(self, one.name)
            if one.name == "region":
                words += [part for text in value for part in (flag, text)]
            elif value != one.default:
                words += [flag] if value is True else [flag, str(value)]
        return shlex.join([*words, "--seed", str(seed)])


def _what_is_written(out: Path, tables_only: bool) -> str:
    if not tables_only:
        return "writing tables and figures"
    earlier = "; report.html and figures/ are those of an earlier answer" if (out / "report.html").exists() else ""
    return f"writing tables{earlier}"


def _for_each(name: str, text: str | None, n_samples: int) -> list[str | None]:
    """One entry per sample; a single entry applies to all.

    >>> _for_each("purity", "0.9,0.4-0.6", 2), _for_each("purity", "0.6", 2)
    (['0.9', '0.4-0.6'], ['0.6', '0.6'])
    """
    parts: list[str | None] = [None] if text is None else list(text.split(","))
    if len(parts) not in (1, n_samples):
        raise InvalidInput(
            f"--{name} takes one entry, or with --one-patient one for each sample ({n_samples}), got {text!r}"
        )
    return parts * n_samples if len(parts) == 1 else parts


def read_bounds(name: str, text: str | None, low: float, high: float) -> tuple[float, float]:
    """ "0.6" or "0.5-0.8".

    >>> read_bounds("purity", "0.5-0.8", 0.05, 1.0), read_bounds("purity", "0.6", 0.05, 1.0)
    ((0.5, 0.8), (0.6, 0.6))
    """
    if text is None:
        return low, high
    try:
        numbers = [float(part) for part in text.split("-")]
    except ValueError:
        numbers = []
    if len(numbers) == 1 and name == "ploidy":  # never known exactly
        numbers = [numbers[0] - 0.1, numbers[0] + 0.1]
    if len(numbers) not in (1, 2) or not low <= numbers[0] <= numbers[-1] <= high:
        raise InvalidInput(f"--{name} takes a number or LOW-HIGH within {low:g}-{high:g}, got {text!r}")
    return numbers[0], numbers[-1]


def read_clones(text: str) -> tuple[int, int]:
    """ "2" or "1-3"."""
    parts = text.split("-")
    known = [str(n) for n in range(1, MOST_CLONES + 1)]
    if len(parts) > 2 or not all(part.strip() in known for part in parts) or parts[0] > parts[-1]:
        raise InvalidInput(f"--clones takes a number or LOW-HIGH within 1-{MOST_CLONES}, got {text!r}")
    return int(parts[0]), int(parts[-1])

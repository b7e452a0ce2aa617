"""Settings of `chiasma tumour`: options of the command, and columns in the sheet of a cohort of tumours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chiasma.errors import InvalidInput
from chiasma.genomics.bins import Bins
from chiasma.genomics.copy_states import MOST_COPIES
from chiasma.genomics.landscape import PLOIDIES, Bounds
from chiasma.genomics.solutions import Answer
from chiasma.genomics.tumour import analyse, read_samples

PURITIES = (0.05, 1.0)
COPIES = (3, 12)


@dataclass(frozen=True, kw_only=True)
class TumourSettings:
    """How one file is read and solved.

    purity, ploidy, clones : a number, or bounds as LOW-HIGH; None leaves them open.
    alleles, gc, mappability : further files.
    sample : the only one to read of a file with several.
    region : regions whose rivals are shown.
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
    assembly: str | None = None
    region: Sequence[str] = ()

    @property
    def bounds(self) -> Bounds:
        """Raises InvalidInput where a text is no number and no bounds."""
        return Bounds(
            purity=read_bounds("purity", self.purity, *PURITIES),
            ploidy=read_bounds("ploidy", self.ploidy, *PLOIDIES),
            clones=read_clones(self.clones),
        )

    def check(self) -> None:
        """Raise InvalidInput where the settings make no sense, whatever the data are."""
        from chiasma.genomics.genome import assembly

        _ = self.bounds
        least, most = COPIES
        if not least <= self.max_copies <= most:
            raise InvalidInput(f"max_copies must be in {least}..{most}, got {self.max_copies}")
        if self.assembly is not None:
            assembly(self.assembly)

    def read(self, path: Path) -> list[Bins]:
        return read_samples(
            path,
            sample=self.sample,
            alleles=self.alleles,
            gc=self.gc,
            mappability=self.mappability,
            female=self.female,
        )

    def solve(self, bins: Bins, out: Path, note: Callable[[str], None] = lambda text: None, **how: Any) -> Answer:
        """Solve one sample into a directory. how: workers, seed and tables_only of `analyse`."""
        return analyse(
            bins,
            out,
            bounds=self.bounds,
            most=self.max_copies,
            assembly_name=self.assembly,
            regions=self.region,
            note=note,
            **how,
        )


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
    if len(numbers) == 1 and name == "ploidy":  # which nobody knows to the last digit
        numbers = [numbers[0] - 0.1, numbers[0] + 0.1]
    if len(numbers) not in (1, 2) or not low <= numbers[0] <= numbers[-1] <= high:
        raise InvalidInput(f"--{name} takes a number or LOW-HIGH within {low:g}-{high:g}, got {text!r}")
    return numbers[0], numbers[-1]


def read_clones(text: str | None) -> tuple[int, int]:
    """ "2" or "1-3"; one or two if nothing is given."""
    parts = ["1", "2"] if text is None else text.split("-")
    if len(parts) > 2 or not all(part.strip() in ("1", "2", "3") for part in parts) or parts[0] > parts[-1]:
        raise InvalidInput(f"--clones takes a number or LOW-HIGH within 1-3, got {text!r}")
    return int(parts[0]), int(parts[-1])

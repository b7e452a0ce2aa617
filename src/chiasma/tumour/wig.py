"""WIG files, fixedStep and variableStep, and the correction of counts for GC content and mappability.

A step line says "fixedStep chrom=1 start=1 step=1000000 span=1000000" or "variableStep chrom=1 span=50"; values follow,
one per line. Positions count from 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.io.sheets import MISSING
from chiasma.tumour.bins import Bins
from chiasma.types import Floats

STEPS = ("fixedStep", "variableStep")
# Bins that the correction is fitted to: mappability at least this, and counts within these quantiles.
MAPPABLE = 0.9
TRUSTED = (0.01, 0.99)
# Fewest bins per knot of a correction curve.
PER_KNOT = 50


def is_wig(lines: Sequence[str]) -> bool:
    first = next((line for line in lines if line.strip() and not line.startswith(("#", "track", "browser"))), "")
    return first.startswith(STEPS)


def read(path: Path, lines: Sequence[str]) -> Bins:
    """One sample of counts, or of any other value per bin."""
    chromosome: list[str] = []
    start: list[int] = []
    end: list[int] = []
    values: list[float] = []
    step: dict[str, str] = {}
    fixed, place = False, 0
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith(("#", "track", "browser")):
            continue
        if text.startswith(STEPS):
            fixed = text.startswith("fixedStep")
            step = dict(part.split("=", 1) for part in text.split()[1:] if "=" in part)
            needed = ("chrom", "start", "step") if fixed else ("chrom",)
            missing = [name for name in needed if name not in step]
            if missing or not all(step[name].isdecimal() for name in ("start", "step", "span") if name in step):
                raise _error(path, number, f"a {text.split()[0]} line needs {', '.join(needed)}, got {text!r}")
            place = int(step.get("start", "1")) - 1
            continue
        cells = text.split()
        if len(cells) != (1 if fixed else 2):
            raise _error(path, number, f"expected {'a value' if fixed else 'a position and a value'}, got {text!r}")
        try:
            value = np.nan if cells[-1].lower() in MISSING else float(cells[-1])
            place = place if fixed else int(cells[0]) - 1
        except ValueError:
            raise _error(path, number, f"expected numbers, got {text!r}") from None
        width = int(step.get("span", step.get("step", "1")))
        if chromosome and chromosome[-1] == step["chrom"] and place < end[-1]:
            raise _error(path, number, f"position {place + 1:,} comes after a bin that ends at {end[-1]:,}")
        chromosome.append(step["chrom"])
        start.append(place)
        end.append(place + width)
        values.append(value)
        place += int(step["step"]) if fixed else 0
    if not values:
        raise InvalidInput(f"{path} has step lines and no values; expected one value per bin")
    depth = np.array(values)
    return Bins(
        sample=path.name.removesuffix(".gz").rsplit(".", 1)[0],
        source=str(path),
        kind=f"WIG ({'fixedStep' if fixed else 'variableStep'})",
        chromosome=np.array(chromosome, dtype=str),
        start=np.array(start),
        end=np.array(end),
        depth=np.where(np.isfinite(depth), depth, np.nan),
        weight=np.ones(len(depth)),
        notes=("values are taken as counts",) if np.all(depth[np.isfinite(depth)] % 1 == 0) else (),
    )


def corrected(bins: Bins, gc: Bins | None = None, mappability: Bins | None = None) -> Bins:
    """Counts divided by what GC content and mappability let expect; bins of low mappability are set missing.

    The expected count is a curve through medians of bins with about the same GC content, then of those with about the
    same mappability.
    """
    depth = np.where(bins.depth > 0, bins.depth, np.nan)
    notes = []
    usable = ~np.isnan(depth)
    if mappability is not None:
        _check_same(bins, mappability)
        usable &= mappability.depth >= MAPPABLE
        depth = np.where(usable, depth, np.nan)
        notes.append(f"bins with mappability below {MAPPABLE:g} are set missing")
    low, high = np.nanquantile(depth, TRUSTED)
    for other, name in ((gc, "GC content"), (mappability, "mappability")):
        if other is not None:
            _check_same(bins, other)
            covariate = np.where(other.depth >= 0, other.depth, np.nan)
            trusted = usable & (depth >= low) & (depth <= high) & ~np.isnan(covariate)
            depth = depth / _median_curve(covariate, depth, trusted)
            low, high = np.nanquantile(depth, TRUSTED)
            notes.append(f"counts are corrected for {name} ({other.source})")
    return replace(bins, depth=depth / np.nanmedian(depth), notes=(*bins.notes, *notes))


def _median_curve(x: Floats, y: Floats, trusted: np.ndarray) -> Floats:
    """(T,) a curve through the medians of y in groups of about equal x, relative to the overall median."""
    known_x, known_y = x[trusted], y[trusted]
    n_knots = int(np.clip(len(known_x) // PER_KNOT, 2, 40))
    order = np.argsort(known_x, kind="stable")
    groups = np.array_split(order, n_knots)
    knots = np.array([np.median(known_x[group]) for group in groups])
    medians = np.array([np.median(known_y[group]) for group in groups])
    knots, first = np.unique(knots, return_index=True)
    curve = np.interp(x, knots, medians[first])
    return np.where(np.isnan(x), np.nan, curve / np.median(known_y))


def _check_same(bins: Bins, other: Bins) -> None:
    same = bins.n_bins == other.n_bins and np.array_equal(bins.start, other.start)
    if not same:
        raise InvalidInput(
            f"{other.source} has {other.n_bins:,} bins and {bins.source} {bins.n_bins:,}, or other positions; make "
            "both with the same bin size and chromosomes"
        )


def _error(path: Path, line: int, message: str) -> InvalidInput:
    return InvalidInput(f"{path}, line {line}: {message}; correct the line, or give another file")

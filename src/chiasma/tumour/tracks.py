"""Values along bins, and corrections of counts: WIG files, GC content, mappability, a normal sample.

A step line of a WIG says "fixedStep chrom=1 start=1 step=1000000 span=1000000" or "variableStep chrom=1 span=50";
values follow, one per line. Positions count from 1.

If no track is named, one is searched for next to the data and in the folder CHIASMA_GENOME. It must have the
bins of the data: their width, and the ends of their chromosomes, which tell assemblies apart.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.io.columns import same_chromosome
from chiasma.io.sheets import MISSING, read_lines
from chiasma.limits import is_whole
from chiasma.tumour.bins import Bins
from chiasma.tumour.places import stem_of
from chiasma.types import Floats

STEPS = ("fixedStep", "variableStep")
# Bins that a correction is fitted to: mappability at least this, and counts within these quantiles.
MAPPABLE = 0.9
TRUSTED = (0.01, 0.99)
# Bins per knot of a correction curve.
PER_KNOT = 50
# No correction is fitted to fewer bins.
FEWEST_KNOWN = 20
# A track must have this share of the bins.
COVERED = 0.9
# A track found by search must end with the same bin on this share of chromosomes: assemblies differ in most ends.
SAME_ENDS = 0.8
# Words in a file name that identify its values.
GC_WORDS, MAPPABILITY_WORDS = {"gc"}, {"map", "mappability"}
FOLDER = "CHIASMA_GENOME"
RAW_COUNTS = (
    "raw counts without correction for GC content: waves can look like copy numbers, and a wrong answer can be sure. "
    f"Give --gc FILE, a WIG with the GC content of these bins (HMMcopy's gcCounter makes it), or put it into a folder "
    f"and name that in {FOLDER}"
)
NO_REFERENCE = (
    "coverage without a reference: targets differ more than copy numbers do. Give --normal FILE, the coverage of a "
    "normal sample by the same program"
)


# ---- WIG -------------------------------------------------------------------------------------------------------------


def is_wig(lines: Sequence[str]) -> bool:
    first = next((line for line in lines if line.strip() and not line.startswith(("#", "track", "browser"))), "")
    return first.startswith(STEPS)


def read_wig(path: Path, lines: Sequence[str]) -> Bins:
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
            step = _step_of(text)
            needed = ("chrom", "start", "step") if fixed else ("chrom",)
            missing = [name for name in needed if name not in step]
            if missing or not all(is_whole(step[name]) for name in ("start", "step", "span") if name in step):
                raise _wig_error(path, number, f"a {text.split()[0]} line needs {', '.join(needed)}, got {text!r}")
            place = int(step.get("start", "1")) - 1
            continue
        cells = text.split()
        if len(cells) != (1 if fixed else 2):
            raise _wig_error(path, number, f"expected {'a value' if fixed else 'a position and a value'}, got {text!r}")
        try:
            value = np.nan if cells[-1].lower() in MISSING else float(cells[-1])
            place = place if fixed else int(cells[0]) - 1
        except ValueError:
            raise _wig_error(path, number, f"expected numbers, got {text!r}") from None
        width = int(step.get("span", step.get("step", "1")))
        if chromosome and chromosome[-1] == step["chrom"] and place < end[-1]:
            raise _wig_error(path, number, f"position {place + 1:,} comes after a bin that ends at {end[-1]:,}")
        chromosome.append(step["chrom"])
        start.append(place)
        end.append(place + width)
        values.append(value)
        place += int(step["step"]) if fixed else 0
    if not values:
        raise InvalidInput(f"{path} has step lines and no values; expected one value per bin")
    depth = np.array(values)
    counts = bool(np.all(depth[np.isfinite(depth)] % 1 == 0))
    return Bins(
        sample=stem_of(path),
        source=str(path),
        kind=f"WIG ({'fixedStep' if fixed else 'variableStep'})",
        chromosome=np.array(chromosome, dtype=str),
        start=np.array(start),
        end=np.array(end),
        depth=np.where(np.isfinite(depth), depth, np.nan),
        weight=np.ones(len(depth)),
        notes=("values are taken as counts",) if counts else (),
        lacking=RAW_COUNTS if counts else "",
    )


def _step_of(line: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in line.split()[1:] if "=" in part)


def _wig_error(path: Path, line: int, message: str) -> InvalidInput:
    return InvalidInput(f"{path}, line {line}: {message}; correct the line, or give another file")


# ---- Corrections -----------------------------------------------------------------------------------------------------


def corrected(bins: Bins, gc: Bins | None = None, mappability: Bins | None = None) -> Bins:
    """Counts divided by their expectation given GC content and mappability; bins of low mappability are set missing.

    The expected count is a curve through medians of bins with about the same GC content, then of those with about the
    same mappability.
    """
    depth = np.where(bins.depth > 0, bins.depth, np.nan)
    notes = []
    trusted = ~np.isnan(depth)
    if mappability is not None:
        trusted &= _on(bins, mappability) >= MAPPABLE
        depth = np.where(trusted, depth, np.nan)
        notes.append(f"bins with mappability below {MAPPABLE:g} are set missing")
    for other, name in ((gc, "GC content"), (mappability, "mappability")):
        if other is not None:
            covariate = _on(bins, other)
            depth = without_trend(depth, np.where(covariate >= 0, covariate, np.nan))
            notes.append(f"counts are corrected for {name} ({other.source})")
    found = replace(bins, depth=depth / np.nanmedian(depth)).noted(*notes)
    return replace(found, lacking="") if gc is not None and bins.lacking == RAW_COUNTS else found


def divided(bins: Bins, normal: Bins) -> Bins:
    """Counts divided by those of a normal sample in the same bins, which has the same targets and biases."""
    other = _on(bins, normal)
    usable = (other > 0.05 * np.nanmedian(other)) & (bins.depth >= 0)
    depth = np.where(usable, bins.depth, np.nan) / np.where(usable, other, np.nan)
    weight = bins.weight * np.clip(np.nan_to_num(other / np.nanmedian(other)), 0.1, 4.0)
    found = replace(bins, depth=depth / np.nanmedian(depth), weight=weight, lacking="")
    return found.noted(f"depth is relative to that of {normal.source}")


def without_trend(y: Floats, x: Floats) -> Floats:
    """(T,) y without what a covariate x explains: divided by the curve of its medians; NaN where x is."""
    low, high = np.nanquantile(y, TRUSTED)
    trusted = (y >= low) & (y <= high) & ~np.isnan(x)
    known_x, known_y = x[trusted], y[trusted]
    if len(known_x) < FEWEST_KNOWN:
        return y
    n_knots = int(np.clip(len(known_x) // PER_KNOT, 2, 40))
    groups = np.array_split(np.argsort(known_x, kind="stable"), n_knots)
    knots = np.array([np.median(known_x[group]) for group in groups])
    medians = np.array([np.median(known_y[group]) for group in groups])
    knots, first = np.unique(knots, return_index=True)
    curve = np.interp(x, knots, medians[first])
    return np.where(np.isnan(x), np.nan, y * np.median(known_y) / curve)


def _on(bins: Bins, other: Bins) -> Floats:
    """(T,) the values of another file in these bins, NaN where it has none."""
    lines = _matches(bins, other)
    if np.mean(lines >= 0) < COVERED:
        raise InvalidInput(
            f"{other.source} has {other.n_bins:,} bins and {bins.source} {bins.n_bins:,}, or other positions; make "
            "both with the same bin size and chromosomes"
        )
    return np.where(lines >= 0, other.depth[lines], np.nan)


def _matches(bins: Bins, other: Bins) -> npt.NDArray[np.int64]:
    """(T,) index of the same bin in another file, -1 if absent."""
    keys = {name: i for i, name in enumerate(dict.fromkeys(map(same_chromosome, other.chromosomes)))}
    code, other_code = (
        np.repeat(
            [keys.get(same_chromosome(name), -1) for name in one.chromosomes], np.diff(one.starts, append=one.n_bins)
        )
        for one in (bins, other)
    )
    number = {place: t for t, place in enumerate(zip(other_code.tolist(), other.start.tolist(), strict=True))}
    found = [number.get(place, -1) for place in zip(code.tolist(), bins.start.tolist(), strict=True)]
    lines = np.array(found, dtype=np.int64)
    return np.where(other.end[lines] == bins.end, lines, -1)


# ---- Tracks that are found -------------------------------------------------------------------------------------------


def with_found_tracks(bins: Bins) -> Bins:
    """Raw counts corrected with the tracks that are found; otherwise the bins as they are."""
    if bins.lacking != RAW_COUNTS:
        return bins
    gc = find_track(bins, GC_WORDS)
    return bins if gc is None else corrected(bins, gc, find_track(bins, MAPPABILITY_WORDS))


def find_track(bins: Bins, words: set[str]) -> Bins | None:
    """The track whose name has one of these words that suits the bins best."""
    best, best_share = None, 0.0
    for file in _candidates(Path(bins.source), words):
        track = read_wig(file, read_lines(file))
        if np.mean(_matches(bins, track) >= 0) >= COVERED and (share := _same_ends(bins, track)) > max(
            best_share, SAME_ENDS
        ):
            best, best_share = track, share
    return best


def _candidates(source: Path, words: set[str]) -> Iterator[Path]:
    """WIG files beside the data, then those of the folder, by their names."""
    folders = [source.parent, *([Path(os.environ[FOLDER])] if os.environ.get(FOLDER) else [])]
    for folder in folders:
        if not folder.is_dir():
            if folder != source.parent:
                raise InvalidInput(f"{FOLDER} must name a folder with WIG files, got {str(folder)!r}; correct it")
            continue
        for file in sorted(folder.iterdir()):
            named = set(re.split(r"[^a-z]+", file.name.lower()))
            if "wig" in named and named & words and file != source:
                yield file


def _same_ends(bins: Bins, track: Bins) -> float:
    """Share of the chromosomes that end with the same bin in both."""
    ends, known = (
        {
            same_chromosome(name): int(one.end[stop - 1])
            for name, stop in zip(one.chromosomes, [*one.starts[1:], one.n_bins], strict=True)
        }
        for one in (bins, track)
    )
    return float(np.mean([known.get(name) == end for name, end in ends.items()]))

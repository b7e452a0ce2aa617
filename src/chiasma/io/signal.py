"""The signal of a data file: observations, the labels of their sites, and how to say where a site is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from chiasma import atomic
from chiasma.errors import StoreError
from chiasma.io.times import as_zone, duration_text, time_text, times_text
from chiasma.limits import is_whole
from chiasma.models.observations import Observations
from chiasma.models.offsets import Covariates
from chiasma.results.spacing import Spacing, site_ends
from chiasma.storage.digests import read_whole, reason
from chiasma.storage.reading import read_npz
from chiasma.types import Floats


@dataclass(frozen=True, kw_only=True)
class Signal:
    """The content of a data file: the observations, and the labels of their sites if the file has them.

    value, axis : names of the columns of the signal and of the position; None where the file gives none.
    zone : time zone of positions that were time stamps and are seconds since 1970, see `times`; None for numbers.
    digest : SHA-256 of the data file.
    covariates : series of the file that the signal depends on.
    notes : what was guessed or converted, one sentence each. hints : those of them that ask the reader to act.
    """

    data: Observations
    chromosome: tuple[str, ...] | None = None
    position: Floats | None = None
    end: Floats | None = None
    gap_unit: float | None = None
    value: str | None = None
    axis: str | None = None
    zone: str | None = None
    digest: str | None = None
    covariates: Covariates | None = None
    notes: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    def in_words(self) -> str:
        """The shape of the data in one line.

        >>> Signal(data=Observations([1.0, float("nan"), 2.0], starts=[2])).in_words()
        '3 sites, 2 sequences, 1 missing'
        >>> Signal(data=Observations([1.0] * 4), position=np.array([0.0, 60, 120, 5580]), zone="").in_words()
        '4 sites, 1 gap of 1 h 30 min'
        """
        n_sequences, n_missing = len(self.data.starts), int(self.data.missing.sum())
        parts = [f"{self.data.n_columns:,} sites"]
        if n_sequences > 1:
            parts.append(f"{n_sequences} {'chromosomes' if self.chromosome else 'sequences'}")
        if n_missing:
            parts.append(f"{n_missing:,} missing")
        if self.spacing is not None and self.spacing.gaps.size:
            n, longest = self.spacing.gaps.size, self.distance_text(float(self.spacing.gaps.max()))
            parts.append(f"1 gap of {longest}" if n == 1 else f"{n:,} gaps of up to {longest}")
        if self.gap_unit is not None:
            unit = "" if self.zone is None else " second" if self.gap_unit == 1 else " seconds"
            parts.append(f"distances in steps of {self.gap_unit:,g}{unit}")
        return ", ".join(parts)

    @cached_property
    def ends(self) -> Floats | None:
        """(T,) where sites end: as the data file says, otherwise as `site_ends`; None without positions."""
        if self.position is None:
            return None
        usual = site_ends(self.position, self.data.starts)
        return usual if self.end is None else np.where(np.isnan(self.end), usual, self.end)

    @cached_property
    def spacing(self) -> Spacing | None:
        """How sites follow each other; None without positions."""
        if self.position is None or self.ends is None:
            return None
        return Spacing(self.position, self.ends, self.data.starts, ~self.data.missing)

    def distance_text(self, distance: float) -> str:
        """A distance between positions: a number in their unit, or a time."""
        if self.zone is not None:
            return duration_text(distance)
        return f"{distance:,.0f}" if float(distance).is_integer() else f"{distance:,.6g}"

    def gap_text(self, start: int, stop: int) -> str:
        """How long nothing was measured within sites start..stop-1, where that is a gap; otherwise nothing.

        >>> timed = Signal(data=Observations([1.0] * 4), position=np.array([0.0, 60, 120, 5580]), zone="")
        >>> timed.gap_text(0, 4), timed.gap_text(0, 3)
        ('1 h 30 min without data', '')
        """
        if self.spacing is None or stop == start + 1:  # one site: asked for thousands of them, and no gap
            return ""
        longest = self.spacing.longest(start, stop)
        return f"{self.distance_text(longest)} without data" if longest > self.spacing.limit else ""

    def range_text(self, first: int, last: int) -> str:
        """The positions of two sites, as --region takes them; the signal must have positions.

        >>> Signal(data=Observations([1.0, 2.0]), position=np.array([0.5, 1.5])).range_text(0, 1)
        '0.5-1.5'
        >>> Signal(data=Observations([1.0, 2.0]), position=np.array([0.0, 60.0]), zone="").range_text(0, 1)
        '1970-01-01T00:00/00:01'
        """
        assert self.position is not None
        ends = self.position[first], self.position[last]
        return "-".join(map(position_text, ends)) if self.zone is None else times_text(*ends, self.zone)

    def site_text(self, first: int, last: int) -> str:
        """Where two sites are, or one where they are the same, with chromosomes; the signal must have positions.

        >>> Signal(data=Observations([1.0]), position=np.array([0.5])).site_text(0, 0)
        '0.5'
        >>> genome = Signal(data=Observations([1.0, 2.0], starts=[1]), position=np.ones(2), chromosome=("1", "2"))
        >>> genome.site_text(0, 1), genome.site_text(1, 1)
        ('1:1 to 2:1', '2:1')
        """
        assert self.position is not None
        names = ["" if self.chromosome is None else f"{self.chromosome[t]}:" for t in (first, last)]
        ends = [position_or_time(self.position[t], self.zone) for t in (first, last)]
        if names[0] != names[1]:
            return f"{names[0]}{ends[0]} to {names[1]}{ends[1]}"
        return names[0] + (ends[0] if first == last else self.range_text(first, last))

    def save(self, path: Path) -> None:
        """Save everything without loss in an NPZ file."""
        fields = {"y": self.data.y, "starts": self.data.starts, "gaps": self.data.gaps, "position": self.position}
        labels = None if self.chromosome is None else np.array(self.chromosome)
        content: dict[str, Any] = fields | {"end": self.end, "chromosome": labels, "gap_unit": self.gap_unit}
        content |= {"value": self.value, "axis": self.axis, "zone": self.zone, "digest": self.digest}
        content |= {"step": self.data.step, "unit": self.data.unit}
        if self.data.known:
            content |= {"known": self.data.known_array, "known_rows": np.array(list(map(str, self.data.known)))}
        if self.covariates is not None:
            content |= {"covariates": self.covariates.matrix, "covariate_names": np.array(self.covariates.names)}
        with atomic.whole_file(path) as partial, partial.open("wb") as file:
            np.savez_compressed(file, **{key: value for key, value in content.items() if value is not None})

    @classmethod
    def load(cls, path: Path) -> Signal:
        """What `save` wrote."""
        try:
            content = read_npz(read_whole(path))
            step, time = content.get("step"), content.get("unit")
            data = Observations(
                content["y"],
                content["starts"],
                content.get("gaps"),
                step=None if step is None else float(step),
                unit=None if time is None else str(time),
                known={row_of(row): own for row, own in zip(content["known_rows"], content["known"], strict=True)}
                if "known" in content
                else None,
            )
            series = content.get("covariates")
            labels, unit = content.get("chromosome"), content.get("gap_unit")
            position, end = (content.get(key) for key in ("position", "end"))
            value, axis, zone, digest = (content.get(key) for key in ("value", "axis", "zone", "digest"))
            if zone is not None:
                as_zone(str(zone))
            if any(one is not None and one.shape != (data.n_columns,) for one in (labels, position, end)):
                raise ValueError("its labels are not one per site")
            return cls(
                data=data,
                chromosome=None if labels is None else tuple(map(str, labels.tolist())),
                position=None if position is None else position.astype(float),
                end=None if end is None else end.astype(float),
                gap_unit=None if unit is None else float(unit),
                value=None if value is None else str(value),
                axis=None if axis is None else str(axis),
                zone=None if zone is None else str(zone),
                digest=None if digest is None else str(digest),
                covariates=None if series is None else Covariates(series, content["covariate_names"].tolist()),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{path} cannot be read ({reason(error)}); it is written when a fit begins: restore it from a backup, "
                "or delete it and resume the fit"
            ) from error


def row_of(name: str) -> int | str:
    """A row in a file or in settings, by name or number.

    >>> row_of("kettle"), row_of("2")
    ('kettle', 2)
    """
    return int(name) if is_whole(str(name)) else str(name)


def position_text(position: float) -> str:
    """A position with all its digits and without an exponent, as --region takes it.

    >>> position_text(1767226800.0), position_text(0.1), position_text(1e-7)
    ('1767226800', '0.1', '0.0000001')
    """
    return np.format_float_positional(position, trim="-")


def position_or_time(position: float, zone: str | None) -> str:
    """A position as --region takes it: a number, or a date and time where the time stamps have a zone."""
    return position_text(position) if zone is None else time_text(position, zone)

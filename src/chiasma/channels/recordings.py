"""Recordings of ion channels: a current in equal steps of time, in one or several sweeps.

`read_recording` reads Axon files (.abf, by pyabf), tables with or without a column of time, and NPY files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.extras import extra
from chiasma.io.sheets import MISSING, Sheet, listed, read_bytes, read_sheet
from chiasma.limits import is_whole
from chiasma.models.observations import Observations
from chiasma.storage.reading import read_npy
from chiasma.types import Floats, Integers

# Steps of a column of time differ by no more than this share of a step, and rounding of the times themselves.
UNEVEN = 0.01
# Samples per break (a pause, or the next sweep), at least; with more breaks, the times are not those of a recording.
PIECE = 10
# Times without a unit are not in seconds if these would be fewer samples per second than anyone records.
FEWEST_PER_SECOND = 200.0
# The amplifier counts as saturated if at least this many samples (and this share) equal the extreme, in runs, and so
# many times as many as the value next to it. A current of few values is digitised coarsely or idealised already.
CLIPPED_SAMPLES, CLIPPED_SHARE, CLIPPED_RUN, CLIPPED_TIMES, FEW_VALUES = 20, 1e-4, 3, 5, 16
TIME_UNITS = {"s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
TIME_NAME = re.compile(r"(t|times?)($|[^a-z])", re.IGNORECASE)
UNIT = re.compile(r"[\[(]\s*([^\])]+?)\s*[\])]|[_ ](s|sec|ms|us|µs|[pnu]?A|m?V)$")


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A current.

    Parameters
    ----------
    current : (T,) samples; NaN is missing.
    step : seconds from sample to sample.
    starts : where sweeps begin.
    unit : of the current; empty if the file does not say.
    name : for titles.
    notes : what was noticed in reading.
    is_abf : whether it comes from an Axon file.

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> ch.channels.Recording(current=np.zeros(20_000), step=1e-4).seconds
    2.0
    """

    current: Floats
    step: float
    starts: Integers = field(default_factory=lambda: np.zeros(1, np.int64))
    unit: str = ""
    name: str = "recording"
    notes: tuple[str, ...] = ()
    is_abf: bool = False

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.current) * self.step

    @property
    def data(self) -> Observations:
        """The current with its sweeps and its time."""
        return Observations(self.current, starts=self.starts, step=self.step, unit="s")


def read_recording(
    path: str | Path, *, rate: float | None = None, column: int | str | None = None, channel: int = 0
) -> Recording:
    """Read a recording.

    Parameters
    ----------
    path : an .abf file, a table (CSV, TSV, also compressed by gzip) or an .npy file.
    rate : samples per second; needed if the file has no times, and replaces what the file says.
    column : of the current in a table, by name or number from 1. Default: the first that is not the time.
    channel : of an .abf file with several, from 0.

    Returns
    -------
    Recording. Samples at the limits of a saturated amplifier are missing.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import chiasma as ch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/patch.npy", [0.1, 1.2, 0.9])
    ...     ch.channels.read_recording(f"{folder}/patch.npy", rate=10_000).step
    0.0001
    """
    file = Path(path)
    if rate is not None and not 0 < rate < np.inf:
        raise InvalidInput(f"the sampling rate must be a positive number of samples per second, got {rate}")
    if file.suffix.lower() == ".abf":
        return without_clipping(_read_abf(file, rate, channel))
    if file.suffix.lower() == ".npy":
        values = _read_array(file)
        table = values[:, None] if values.ndim == 1 else values
        if table.ndim != 2:
            raise InvalidInput(f"{file} must have shape (T,) or (T, columns), got {values.shape}")
        names = [str(i + 1) for i in range(table.shape[1])]
        return without_clipping(_from_columns(file, names, list(table.T), rate, column))
    sheet = read_sheet(file)
    return without_clipping(_from_columns(file, sheet.names, _numbers(sheet), rate, column))


def _read_array(file: Path) -> Floats:
    content = read_bytes(file)
    try:
        values = read_npy(content)
    except ValueError as error:
        raise InvalidInput(f"{file} is not a readable NPY file: {error}") from error
    if values.dtype.kind not in "iuf":
        raise InvalidInput(f"{file} must hold numbers, got {values.dtype}")
    return values.astype(float)


def _numbers(sheet: Sheet) -> list[Floats | None]:
    """The columns: NaN if all of one is missing, None if it does not hold numbers."""
    return [
        sheet.numbers(i) if sheet.is_numeric(i) or all(one.lower() in MISSING for one in sheet.texts(i)) else None
        for i in range(len(sheet.names))
    ]


def _from_columns(
    file: Path,
    names: list[str],
    columns: Sequence[Floats | None],
    rate: float | None,
    wanted: int | str | None,
) -> Recording:
    clocks = [None if values is None else Clock.of(values) for values in columns]
    time = next((i for i, clock in enumerate(clocks) if clock is not None), None)
    named = [i for i, name in enumerate(names) if TIME_NAME.match(name)]
    if wanted is None:
        free = [i for i, values in enumerate(columns) if values is not None and i != time and i not in named]
        if not free:
            raise InvalidInput(f"{file} has no column of a current: {listed(names)}; name it with --column")
        place = next((i for i in free if not np.isnan(columns[i]).all()), free[0])  # type: ignore[arg-type]
    else:
        place = _column(file, names, wanted)
    current = columns[place]
    if current is None:
        raise InvalidInput(f"{file}: column {names[place]!r} does not hold numbers; name another with --column")
    if np.isinf(current).any():
        raise InvalidInput(
            f"{file}: the current is infinite at sample {np.argmax(np.isinf(current)):,}; write NaN there"
        )
    clock = None if time is None else clocks[time]
    step = 1 / rate if rate is not None else _step(file, names, time, clock, named)
    starts = np.zeros(1, np.int64) if clock is None else clock.starts
    sweeps = (f"{len(starts)} sweeps",) if len(starts) > 1 else ()
    notes = (f"current from column {names[place]}, {1 / step:,.4g} samples per second", *sweeps)
    return Recording(
        current=current, step=step, starts=starts, unit=_unit_of(names[place]), name=file.name, notes=notes
    )


def _step(file: Path, names: list[str], time: int | None, clock: Clock | None, named: list[int]) -> float:
    """Seconds from sample to sample by the column of time."""
    if time is None or clock is None:
        if named:
            raise InvalidInput(
                f"{file}: the times in column {names[named[0]]!r} are not evenly spaced; give the sampling rate, for "
                "example --rate 10000"
            )
        raise InvalidInput(
            f"{file} has no column of time, so the sampling rate is unknown; give it, for example --rate 10000"
        )
    scale = TIME_UNITS.get(_unit_of(names[time]))
    if scale is None and clock.step * FEWEST_PER_SECOND > 1:
        raise InvalidInput(
            f"{file}: column {names[time]!r} has steps of {clock.step:.4g} without a unit, too long for seconds; call "
            "it 'time [ms]' if it is a time in ms, or give the sampling rate, for example --rate 10000"
        )
    return clock.step * (scale or 1.0)


def _column(file: Path, names: list[str], wanted: int | str) -> int:
    if str(wanted) in names:
        return names.index(str(wanted))
    if is_whole(str(wanted)) and 1 <= int(wanted) <= len(names):
        return int(wanted) - 1
    raise InvalidInput(f"{file} has no column {wanted!r}; it has {listed(names)}")


def _unit_of(name: str) -> str:
    """The unit in the name of a column.

    >>> _unit_of("I (pA)"), _unit_of("Time [ms]"), _unit_of("t_ms"), _unit_of("current")
    ('pA', 'ms', 'ms', '')
    """
    found = UNIT.search(name)
    return (found.group(1) or found.group(2)) if found else ""


@dataclass(frozen=True)
class Clock:
    """A column of time: its step, and where evenly spaced times begin anew."""

    step: float
    starts: Integers

    @classmethod
    def of(cls, values: Floats) -> Clock | None:
        """None for any other column.

        >>> Clock.of(np.array([0.0, 0.1, 0.2, 0.7, 0.8, 0.9])).starts.tolist() if PIECE <= 3 else []
        []
        >>> Clock.of(np.concatenate([0.1 * np.arange(20), 5 + 0.1 * np.arange(20)])).starts.tolist()
        [0, 20]
        """
        if len(values) < 3 or not np.all(np.isfinite(values)):
            return None
        steps = np.diff(values)
        # Times are often rounded to few digits: the whole of them must follow a line.
        mean = float(values[-1] - values[0]) / len(steps)
        if mean > 0 and _is_even(values, mean):
            return cls(mean, np.zeros(1, np.int64))
        usual = float(np.median(steps))
        breaks = np.flatnonzero(np.abs(steps - usual) > 0.5 * usual) + 1
        if usual <= 0 or len(breaks) * PIECE > len(values):
            return None
        starts = np.append(0, breaks)
        within = np.delete(steps, breaks - 1)
        mean = float(within.mean())
        if not all(_is_even(piece, mean) for piece in np.split(values, breaks)):
            return None
        return cls(mean, starts)


def _is_even(values: Floats, step: float) -> bool:
    """Whether all times are where they should be, up to rounding."""
    away = np.abs(values - (values[0] + step * np.arange(len(values))))
    return bool(away.max() <= max(UNEVEN, 0.51) * step and np.all(np.diff(values) > 0))


def _read_abf(file: Path, rate: float | None, channel: int) -> Recording:
    with extra("channels"):
        import pyabf
    if not file.is_file():
        raise InvalidInput(f"{file}: there is no such file; check the path")
    try:
        abf = pyabf.ABF(str(file))
        if not 0 <= channel < abf.channelCount:
            raise InvalidInput(f"{file} has the channels 0..{abf.channelCount - 1}, got {channel}")
        sweeps = []
        for sweep in abf.sweepList:
            abf.setSweep(sweep, channel=channel)
            sweeps.append(np.array(abf.sweepY, float))
        found, unit = float(abf.dataRate), str(abf.adcUnits[channel])
    except InvalidInput:
        raise
    except Exception as error:  # pyabf raises many kinds of errors for invalid files
        raise InvalidInput(f"{file} is not a readable ABF file ({type(error).__name__}: {error})") from error
    if not sweeps or not sum(map(len, sweeps)):
        raise InvalidInput(f"{file} has no samples; check how it was recorded")
    starts = np.cumsum([0, *(len(sweep) for sweep in sweeps[:-1])])
    notes = (f"{len(sweeps)} sweeps",) if len(sweeps) > 1 else ()
    return Recording(
        current=np.concatenate(sweeps),
        step=1 / (rate or found),
        starts=starts.astype(np.int64),
        unit=unit if unit.isascii() and unit.isalpha() else "",
        name=file.name,
        notes=(*notes, f"{rate or found:,.4g} samples per second"),
        is_abf=True,
    )


def without_clipping(recording: Recording) -> Recording:
    """The recording with samples at the limits of a saturated amplifier as missing.

    >>> import numpy as np
    >>> y = np.clip(np.sin(np.arange(3000) / 50), -0.9, 2)
    >>> int(np.isnan(without_clipping(Recording(current=y, step=1e-4)).current).sum()) > 400
    True
    """
    y = recording.current
    if np.nanmin(y, initial=np.inf) >= np.nanmax(y, initial=-np.inf):
        return recording
    clipped = np.zeros(len(y), bool)
    if len(np.unique(y)) < FEW_VALUES:
        return recording
    for extreme in (np.nanmin(y), np.nanmax(y)):
        there = y == extreme
        others = y[~there & ~np.isnan(y)]
        beside = np.count_nonzero(others == others[np.abs(others - extreme).argmin()])
        least = max(CLIPPED_SAMPLES, CLIPPED_SHARE * len(y), CLIPPED_TIMES * beside)
        if there.sum() >= least and _longest_run(there) >= CLIPPED_RUN:
            clipped |= there
    if not clipped.any():
        return recording
    note = f"the amplifier was saturated at {clipped.sum():,} samples ({clipped.mean():.1%}); they count as missing"
    if clipped.mean() > 0.5:
        raise InvalidInput(f"{recording.name}: {note}, and too few are left; record with a lower gain")
    return replace(recording, current=np.where(clipped, np.nan, y), notes=(*recording.notes, note))


def _longest_run(flags: npt.NDArray[np.bool_]) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return int((edges[1::2] - edges[::2]).max(initial=0))

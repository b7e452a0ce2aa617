"""Observations: a signal along columns, its missing values, where sequences start, and gaps between columns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.types import Floats, Integers, as_floats, is_a, shown

# States that are known, by row.
Known = Mapping[str, npt.ArrayLike] | Mapping[int, npt.ArrayLike] | Mapping[int | str, npt.ArrayLike]
# No row has a state beyond this one.
MOST_STATE = 2**31


class Observations:
    """A signal `y` with the structure of its columns.

    Parameters
    ----------
    y : (T,) or (T, D) floats. NaN is a missing value; a column is missing where all its channels are.
    starts : columns where a new sequence (a chromosome, a recording) begins. Column 0 is implied.
    gaps : (T-1,) distances between neighbouring columns, in units of one step of the chains. Default: all 1.
        A gap across a start has no effect. Where all others are 1, they are as if not given (None).
    step : time between columns (at a gap of 1), for frequencies and axes in units of time.
    unit : of the step: "s", "ms", "us", "min" or "h", or any other name; default "s".
    known : states that are known, (T,) per row by its name or number, such as a week of labels; -1 or NaN where a state
        is not known. They are data: the evidence is the joint evidence of signal and known states.

    Examples
    --------
    >>> import chiasma as ch
    >>> data = ch.Observations([0.1, 15.2, float("nan"), 14.8], starts=[2])
    >>> data.n_columns, data.starts.tolist()
    (4, [0, 2])
    >>> ch.Observations([0.1, 0.2, 0.3], step=1e-4, unit="s").times.tolist()
    [0.0, 0.0001, 0.0002]
    """

    y: Floats
    starts: Integers
    gaps: Floats | None
    step: float | None
    unit: str | None
    known: dict[int | str, Integers]

    def __init__(
        self,
        y: npt.ArrayLike,
        starts: npt.ArrayLike | None = None,
        gaps: npt.ArrayLike | None = None,
        step: float | None = None,
        unit: str | None = None,
        known: Known | None = None,
    ):
        self.y = _signal(y)
        self.step = None if step is None else _step(step)
        if unit is not None and (not is_a(unit, str) or not unit or step is None):
            raise InvalidInput(f"unit names the unit of step=, such as step=1e-4, unit='s', got {shown(unit)}")
        self.unit = unit or (None if step is None else "s")
        self.starts = _starts(starts, self.n_columns)
        self.gaps = None if gaps is None else _gaps(gaps, self.n_columns)
        self.known = {} if known is None else _known(known, self.n_columns)
        # Even spacing has one form, so that a run does not depend on whether it was spelled out.
        if self.gaps is not None and np.all(np.delete(self.gaps, self.starts[1:] - 1) == 1):
            self.gaps = None

    @classmethod
    def of(cls, data: Observations | npt.ArrayLike) -> Observations:
        """Return Observations unchanged; wrap an array as a signal without starts or gaps."""
        return data if isinstance(data, Observations) else cls(data)

    @property
    def n_columns(self) -> int:
        """T, the length of the signal."""
        return int(self.y.shape[0])

    @property
    def missing(self) -> npt.NDArray[np.bool_]:
        """(T,) True where nothing was observed at a column."""
        absent = np.isnan(self.y)
        return np.asarray(absent.reshape(self.n_columns, -1).all(axis=1))

    @property
    def time_step(self) -> float:
        """Time between columns; 1 where it was not given."""
        return 1.0 if self.step is None else self.step

    @property
    def time_unit(self) -> str:
        """The unit of time in words."""
        return self.unit or "column"

    @cached_property
    def positions(self) -> Floats:
        """(T,) where the columns are, in steps."""
        if self.gaps is None:
            return np.arange(self.n_columns, dtype=float)
        return np.concatenate([[0.0], np.cumsum(self.gaps)])

    @property
    def times(self) -> Floats:
        """(T,) when the columns were observed, from 0."""
        return self.positions * self.time_step

    @property
    def known_array(self) -> Integers:
        """(n, T) the known states of n rows, in the order of `known`."""
        return np.array(list(self.known.values()), np.int64).reshape(len(self.known), self.n_columns)

    def only(self, columns: slice) -> Observations:
        """Some neighbouring columns, as one sequence."""
        first, stop, _ = columns.indices(self.n_columns)
        gaps = None if self.gaps is None else self.gaps[first : stop - 1]
        known = {row: states[columns] for row, states in self.known.items()}
        return Observations(self.y[columns], None, gaps, self.step, self.unit, known)

    def with_signal(self, y: Floats) -> Observations:
        """The same columns with another signal."""
        other = object.__new__(Observations)
        vars(other).update(vars(self))
        other.y = y
        return other

    def edge_kinds(self) -> tuple[npt.NDArray[np.int32], Floats]:
        """Kind of the edge that leads into each column, (T,), and the gap of each kind; kind 0 is a sequence start.

        Returns
        -------
        Kinds (T,), and gaps of the kinds.

        Examples
        --------
        >>> import chiasma as ch
        >>> edge, gaps = ch.Observations([1.0, 2.0, 3.0, 4.0], starts=[3], gaps=[1, 2.5, 9]).edge_kinds()
        >>> edge.tolist(), gaps.tolist()
        ([0, 1, 2, 0], [inf, 1.0, 2.5])
        """
        return self._edge_kinds

    @cached_property
    def _edge_kinds(self) -> tuple[npt.NDArray[np.int32], Floats]:
        edge = np.ones(self.n_columns, np.int32)
        edge[self.starts] = 0
        if self.gaps is None:
            return edge, np.array([np.inf, 1.0] if self.n_columns > len(self.starts) else [np.inf])
        inside = edge > 0
        distinct, kind = np.unique(np.concatenate([[1.0], self.gaps])[inside], return_inverse=True)
        edge[inside] = kind + 1
        return edge, np.concatenate([[np.inf], distinct])

    def __repr__(self) -> str:
        channels = "" if self.y.ndim == 1 else f", {self.y.shape[1]} channels"
        return (
            f"Observations({self.n_columns} columns{channels}, {len(self.starts)} sequence(s), "
            f"{int(self.missing.sum())} missing)"
        )


def _signal(y: npt.ArrayLike) -> Floats:
    signal = as_floats("y", y)
    if signal.ndim not in (1, 2):
        raise InvalidInput(f"y must have shape (T,) or (T, channels), got {signal.shape}; reshape it")
    if signal.size == 0:
        raise InvalidInput(f"y must have at least one column, got shape {signal.shape}; check how it was read")
    infinite = np.isinf(signal)
    if infinite.any():
        site = int(np.argwhere(infinite)[0, 0])
        raise InvalidInput(
            f"y must be finite or NaN, got {signal[site]} at column {site}; replace infinities by NaN (missing)"
        )
    return signal


def _known(known: Any, n_columns: int) -> dict[int | str, Integers]:
    if not isinstance(known, Mapping):
        raise InvalidInput(f"known maps rows to their states, such as {{'kettle': states}}, got {shown(known)}")
    found: dict[int | str, Integers] = {}
    for row, states in known.items():
        given = as_floats(f"known states of row {row!r}", states)
        if given.shape != (n_columns,):
            raise InvalidInput(
                f"known states of row {row!r} must have one state per column, ({n_columns},), got {given.shape}; "
                "-1 means not known"
            )
        whole = np.where(np.isnan(given), -1.0, given)
        bad = (whole < -1) | (whole != np.floor(whole)) | (whole > MOST_STATE)
        if bad.any():
            raise InvalidInput(
                f"known states of row {row!r} must be 0, 1, 2, ..., or -1 if the state is not known, got "
                f"{whole[bad][0]:g} at column {int(np.argmax(bad))}"
            )
        if np.any(whole >= 0):
            found[row] = whole.astype(np.int64)
    return found


def _step(step: float) -> float:
    given = as_floats("step", step)
    if given.shape != () or not 0 < given < np.inf:
        raise InvalidInput(f"step must be a positive number, the time between columns, got {shown(step)}")
    return float(given)


def _starts(starts: npt.ArrayLike | None, n_columns: int) -> Integers:
    if starts is None:
        return np.zeros(1, np.int64)
    given = as_floats("starts", starts).ravel()
    if not np.all(given == np.floor(given)):
        raise InvalidInput(f"starts must be whole column numbers, got {given[given != np.floor(given)][0]}")
    if np.any(np.diff(given) <= 0):
        raise InvalidInput(
            f"starts must increase, got {given[1:][np.diff(given) <= 0][0]:g} after a larger or equal one; "
            "sort them and drop repeats"
        )
    if given.size and (given[0] < 0 or given[-1] >= n_columns):
        wrong = given[0] if given[0] < 0 else given[-1]
        raise InvalidInput(f"starts must lie in 0..{n_columns - 1} (columns of y), got {wrong:g}")
    if not given.size or given[0] != 0:
        given = np.concatenate([[0.0], given])
    return given.astype(np.int64)


def _gaps(gaps: npt.ArrayLike, n_columns: int) -> Floats:
    given = as_floats("gaps", gaps)
    if given.shape != (n_columns - 1,):
        raise InvalidInput(
            f"gaps must have shape ({n_columns - 1},), one between each two columns, got {given.shape}; "
            "np.diff(positions) has that shape"
        )
    bad = ~(np.isfinite(given) & (given > 0))
    if bad.any():
        site = int(np.argmax(bad))
        raise InvalidInput(
            f"gaps must be finite and positive, got {given[site]} between columns {site} and {site + 1}; "
            "merge columns at one position, and put a start at every unknown distance"
        )
    return given

"""Parse regions of a signal, such as chr17:30000000-50000000, seconds:50.5-60, 2024-05-01T08:00/2024-05-01T09:30 or
sites 120-180, and single places.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.io.columns import same_chromosome
from chiasma.io.sheets import listed
from chiasma.io.signal import Signal, position_text
from chiasma.io.times import names_a_day, time_span
from chiasma.types import Floats

# FIRST-LAST or one place, in positions, which may be fractions, or negative, and of a genome in kb or Mb; and in sites.
SPAN = re.compile(r"\s*(-?\d[\d,]*(?:\.\d+)?)\s*(?:-\s*(-?\d[\d,]*(?:\.\d+)?)\s*)?([kM]b)?", re.IGNORECASE)
SITES = re.compile(r"\s*(\d[\d,]{,20})\s*(?:-\s*(\d[\d,]{,20})\s*)?")


def find_region(signal: Signal, text: str) -> tuple[int, int]:
    """start and stop of "chr17", "chr17:30000000-50000000", "chr17:30-50Mb" or "seconds:50.5-60" (positions),
    "2024-05-01" or "2024-05-01T08:00/2024-05-01T09:30" (positions that were time stamps), or "120-180" (sites); both
    ends are included. One position is the site whose stretch holds it; one number is a site, or a chromosome if the
    signal has chromosomes.

    >>> from chiasma.models.observations import Observations
    >>> signal = Signal(data=Observations([1.0, 2.0, 3.0], starts=[2]), chromosome=("1", "1", "2"))
    >>> find_region(signal, "chr1"), find_region(signal, "1-2")
    ((0, 2), (1, 3))
    >>> timed = Signal(data=Observations([1.0, 2.0, 3.0]), position=np.array([0.0, 0.5, 1.0]), axis="seconds")
    >>> find_region(timed, "seconds:0.2-0.5")
    (1, 2)
    >>> find_region(timed, "seconds:0.7"), find_region(timed, "2")
    ((1, 2), (2, 3))
    >>> hours = Signal(data=Observations([1.0, 2.0, 3.0]), position=1714521600 + 3600 * np.arange(3.0), zone="")
    >>> find_region(hours, "2024-05-01T01:00/2024-05-01T02:00"), find_region(hours, "2024-05-01")
    ((1, 3), (0, 3))
    """
    sites = SITES.fullmatch(text)
    if sites and (sites[2] or signal.chromosome is None):
        first, last = (int(part.replace(",", "")) for part in (sites[1], sites[2] or sites[1]))
        if not first <= last < signal.data.n_columns:
            end = signal.data.n_columns - 1
            how = _stamps(signal, "; dates and times are written as") or _positions(signal, first, last)
            raise InvalidInput(f"sites are FIRST-LAST, or one number, within 0-{end}, got {text!r}{how}")
        return first, last + 1
    if signal.chromosome is None:
        return _between(signal, text)
    name, _, span = text.partition(":")
    meant = {label for label in set(signal.chromosome) if same_chromosome(label) == same_chromosome(name)}
    here = np.array([label in meant for label in signal.chromosome])
    if not here.any():
        known = list(dict.fromkeys(signal.chromosome))
        if names_a_day(text):
            raise InvalidInput(
                f"give dates with the name of a sequence before them, such as {known[0]}:{text.strip()}, got {text!r}; "
                f"choose one of {listed(known)}"
            )
        how = f"choose one of {listed(known)}, or sites such as 0-99 or 7-7"
        raise InvalidInput(f"there is no chromosome {name!r}; {how}")
    if span:
        if signal.position is None:
            raise InvalidInput(f"this run has no positions; give the region as {name}, or sites such as 0-99")
        ends = _ends(signal, name, span)
        if ends is None:
            sites = np.flatnonzero(here)[[0, -1]].tolist()
            raise InvalidInput(
                f"{span!r} is not FIRST-LAST, nor one position; give the region as {name}, {name}:"
                f"{signal.range_text(*sites)} (in Mb with this unit behind it), or sites such as 0-99"
            )
        here = _within(signal, signal.position, ends, here)
    return _first_to_last(signal, here, text)


def region_of(signal: Signal, start: int, stop: int) -> str:
    """Sites start..stop-1 as `find_region` takes them: by their positions where these mean exactly these sites.

    >>> from chiasma.models.observations import Observations
    >>> timed = Signal(data=Observations([1.0, 2.0, 3.0]), position=np.array([0.0, 0.5, 1.0]), axis="seconds")
    >>> region_of(timed, 1, 3), region_of(Signal(data=timed.data), 1, 3)
    ('seconds:0.5-1', '1-2')
    """
    sites = f"{start}-{stop - 1}"
    if signal.position is None:
        return sites
    span = signal.range_text(start, stop - 1)
    if signal.chromosome is not None:
        span = f"{signal.chromosome[start]}:{span}"
    elif signal.zone is None:
        span = f"{signal.axis or 'position'}:{span}"
    try:
        # Not so where positions repeat, or sequences without names have the same ones.
        return span if find_region(signal, span) == (start, stop) else sites
    except InvalidInput:
        return sites


def _positions(signal: Signal, first: int, last: int) -> str:
    """How two numbers are written that are no sites, where they lie within the positions."""
    if signal.position is None or signal.ends is None or first > last:
        return ""
    names = signal.chromosome or (signal.axis or "position",) * len(signal.position)
    # The sequence that holds both, if any.
    starts = signal.data.starts
    for a, b in zip(starts, [*starts[1:], len(names)], strict=True):
        if signal.position[a:b].min() <= first and last <= signal.ends[a:b].max():
            what = "column" if signal.chromosome is None else "chromosome"
            return f"; positions have the name of their {what} before them: {names[a]}:{first}-{last}"
    return ""


def _between(signal: Signal, text: str) -> tuple[int, int]:
    """A region of a signal without chromosomes, by the name of its position, seconds:50.5-60, or by dates."""
    if signal.position is None:
        without = "no positions (time stamps)" if names_a_day(text) else "no chromosomes and no positions"
        raise InvalidInput(
            f"this run has {without}; give the region as sites, such as 0-99, or fit again with --position COLUMN; "
            f"got {text!r}"
        )
    axis = signal.axis or "position"
    name, _, span = text.partition(":")
    if names_a_day(text):
        name, span = axis, text
    ends = _ends(signal, axis, span) if name.strip() == axis else None
    if ends is None:
        example = signal.range_text(0, len(signal.position) - 1)
        example = f"{axis}:{example}" if signal.zone is None else example
        raise InvalidInput(
            f"give the region as sites, which are whole numbers such as 0-99, or by its {axis}, such as "
            f"{example}; got {text!r}"
        )
    anywhere = np.ones(len(signal.position), bool)
    return _first_to_last(signal, _within(signal, signal.position, ends, anywhere), text)


Ends = tuple[float, float | None]


def _ends(signal: Signal, name: str, span: str) -> Ends | None:
    """The first and the last position, or one position and None; None for a text that is neither numbers nor dates.

    name : written before numeric positions.
    """
    numbers = SPAN.fullmatch(span)
    if numbers and (numbers[3] is None or signal.chromosome is not None):
        first, last = _number(numbers[1]), None if numbers[2] is None else _number(numbers[2])
        if numbers[3] is None:
            return first, last
        unit = {"kb": 1e3, "mb": 1e6}[numbers[3].lower()]
        return round(unit * first), None if last is None else round(unit * last)  # bases
    if not names_a_day(span):
        return None
    low, high = time_span(span, signal.zone or "")
    if signal.zone is None:
        seconds = "-".join(position_text(one) for one in (low, high) if one is not None)
        last = signal.data.n_columns - 1
        raise InvalidInput(
            f"the positions of this run are numbers, {signal.range_text(0, last)}, got dates: {span!r}; if these "
            f"numbers are seconds since 1970, give {name}:{seconds}. A run of an earlier version does not know that "
            "they were time stamps: delete its data.npz and resume the fit, which reads the file again"
        )
    return low, high


def _within(signal: Signal, position: Floats, ends: Ends, sequence: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which sites of a sequence begin between both ends; of one position, the last site that begins there or before and
    has not ended."""
    low, high = ends
    if high is not None:
        return sequence & (position >= low) & (position <= high)
    # A file may mean its ends to be included: then the end of a site is before the beginning of the next.
    assert signal.ends is not None
    here = sequence & (position <= low) & (low <= signal.ends)
    here[: int(np.flatnonzero(here)[-1]) if here.any() else 0] = False
    return here


def _stamps(signal: Signal, what: str) -> str:
    """The range of the time stamps, if there are any."""
    if signal.zone is None or signal.chromosome is not None:
        return ""
    return f"{what} {signal.range_text(0, signal.data.n_columns - 1)}"


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _first_to_last(signal: Signal, here: npt.NDArray[np.bool_], text: str) -> tuple[int, int]:
    if not here.any():
        stamps = _stamps(signal, ": the time stamps are")
        raise InvalidInput(f"there is no site in {text!r}; widen it{stamps}")
    found = np.flatnonzero(here)
    return int(found[0]), int(found[-1]) + 1

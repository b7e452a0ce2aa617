"""Parse regions of a signal, such as chr17:30000000-50000000, seconds:50.5-60 or sites 120-180, and single places."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.files.run_tables import ends_of
from chiasma.files.sheets import listed
from chiasma.files.tables import Signal, position_text, same_chromosome
from chiasma.types import Floats

# FIRST-LAST or one place, in positions, which may be fractions, or negative; and in sites.
SPAN = re.compile(r"\s*(-?\d[\d,]*(?:\.\d+)?)\s*(?:-\s*(-?\d[\d,]*(?:\.\d+)?)\s*)?")
SITES = re.compile(r"\s*(\d[\d,]*)\s*(?:-\s*(\d[\d,]*)\s*)?")


def find_region(signal: Signal, text: str) -> tuple[int, int]:
    """start and stop of "chr17", "chr17:30000000-50000000" or "seconds:50.5-60" (positions), or "120-180" (sites); both
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
    """
    sites = SITES.fullmatch(text)
    if sites and (sites[2] or signal.chromosome is None):
        first, last = (int(part.replace(",", "")) for part in (sites[1], sites[2] or sites[1]))
        if not first <= last < signal.data.n_columns:
            end = signal.data.n_columns - 1
            raise InvalidInput(f"sites are FIRST-LAST, or one number, within 0-{end}, got {text!r}")
        return first, last + 1
    name, _, span = text.partition(":")
    if signal.chromosome is None:
        return _between(signal, name, span, text)
    here = np.array([same_chromosome(label) == same_chromosome(name) for label in signal.chromosome])
    if not here.any():
        known = list(dict.fromkeys(signal.chromosome))
        how = f"choose one of {listed(known)}, or sites such as 0-99 or 7-7"
        raise InvalidInput(f"there is no chromosome {name!r}; {how}")
    if span:
        ends = SPAN.fullmatch(span)
        if not ends or signal.position is None:
            why = "this run has no positions" if ends else f"{span!r} is not FIRST-LAST, nor one position"
            raise InvalidInput(f"{why}; give the region as {name}, or sites such as 0-99")
        here = _within(signal, signal.position, ends, here)
    return _first_to_last(here, text)


def _between(signal: Signal, name: str, span: str, text: str) -> tuple[int, int]:
    """A region of a signal without chromosomes, by the name of its position: seconds:50.5-60."""
    if signal.position is None:
        raise InvalidInput(f"this run has no chromosomes; give the region as sites, such as 0-99, got {text!r}")
    axis, ends = signal.axis or "position", SPAN.fullmatch(span)
    if name.strip() != axis or not ends:
        example = "-".join(position_text(x) for x in signal.position[[0, -1]])
        raise InvalidInput(
            f"give the region as sites, which are whole numbers such as 0-99, or by its {axis}, such as "
            f"{axis}:{example}; got {text!r}"
        )
    anywhere = np.ones(len(signal.position), bool)
    return _first_to_last(_within(signal, signal.position, ends, anywhere), text)


def _within(
    signal: Signal, position: Floats, ends: re.Match[str], sequence: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Which sites of a sequence begin between both ends; of one position, the last site that begins there or before and
    has not ended."""
    low = _number(ends[1])
    if ends[2] is not None:
        return sequence & (position >= low) & (position <= _number(ends[2]))
    # A file may mean its ends to be included: then the end of a site is before the beginning of the next.
    here = sequence & (position <= low) & (low <= ends_of(signal, position))
    here[: int(np.flatnonzero(here)[-1]) if here.any() else 0] = False
    return here


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _first_to_last(here: npt.NDArray[np.bool_], text: str) -> tuple[int, int]:
    if not here.any():
        raise InvalidInput(f"there is no site in {text!r}; widen it")
    found = np.flatnonzero(here)
    return int(found[0]), int(found[-1]) + 1

"""Parse regions of a signal, such as chr17:30000000-50000000, seconds:50.5-60 or sites 120-180."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.files.sheets import listed
from chiasma.files.tables import Signal, position_text, same_chromosome
from chiasma.types import Floats

# FIRST-LAST in positions, which may be fractions, or negative.
SPAN = re.compile(r"\s*(-?[\d,]+(?:\.\d+)?)\s*-\s*(-?[\d,]+(?:\.\d+)?)\s*")


def find_region(signal: Signal, text: str) -> tuple[int, int]:
    """start and stop of "chr17", "chr17:30000000-50000000" or "seconds:50.5-60" (positions), or "120-180" (sites); both
    ends are included.

    >>> from chiasma.models.observations import Observations
    >>> signal = Signal(data=Observations([1.0, 2.0, 3.0], starts=[2]), chromosome=("1", "1", "2"))
    >>> find_region(signal, "chr1"), find_region(signal, "1-2")
    ((0, 2), (1, 3))
    >>> timed = Signal(data=Observations([1.0, 2.0, 3.0]), position=np.array([0.0, 0.5, 1.0]), axis="seconds")
    >>> find_region(timed, "seconds:0.2-0.5")
    (1, 2)
    """
    sites = re.fullmatch(r"\s*([\d,]+)\s*-\s*([\d,]+)\s*", text)
    if sites:
        first, last = (int(part.replace(",", "")) for part in sites.groups())
        if not first <= last < signal.data.n_columns:
            raise InvalidInput(f"sites are FIRST-LAST within 0-{signal.data.n_columns - 1}, got {text!r}")
        return first, last + 1
    name, _, span = text.partition(":")
    if signal.chromosome is None:
        return _between(signal, name, span, text)
    here = np.array([same_chromosome(label) == same_chromosome(name) for label in signal.chromosome])
    if not here.any():
        known = list(dict.fromkeys(signal.chromosome))
        raise InvalidInput(f"there is no chromosome {name!r}; choose one of {listed(known)}, or sites such as 0-99")
    if span:
        ends = SPAN.fullmatch(span)
        if not ends or signal.position is None:
            why = "this run has no positions" if ends else f"{span!r} is not FIRST-LAST"
            raise InvalidInput(f"{why}; give the region as {name}, or sites such as 0-99")
        here &= _within(signal.position, ends)
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
    return _first_to_last(_within(signal.position, ends), text)


def _within(position: Floats, ends: re.Match[str]) -> npt.NDArray[np.bool_]:
    low, high = (float(part.replace(",", "")) for part in ends.groups())
    return (position >= low) & (position <= high)


def _first_to_last(here: npt.NDArray[np.bool_], text: str) -> tuple[int, int]:
    if not here.any():
        raise InvalidInput(f"there is no site in {text!r}; widen it")
    found = np.flatnonzero(here)
    return int(found[0]), int(found[-1]) + 1

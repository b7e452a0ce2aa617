"""Parse regions of a signal, such as chr17:30000000-50000000 or sites 120-180."""

from __future__ import annotations

import re

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.files.sheets import listed
from chiasma.files.tables import Signal, same_chromosome


def find_region(signal: Signal, text: str) -> tuple[int, int]:
    """start and stop of "chr17", "chr17:30000000-50000000" (positions), or "120-180" (sites; both ends included).

    >>> from chiasma.models.observations import Observations
    >>> signal = Signal(data=Observations([1.0, 2.0, 3.0], starts=[2]), chromosome=("1", "1", "2"))
    >>> find_region(signal, "chr1"), find_region(signal, "1-2")
    ((0, 2), (1, 3))
    """
    sites = re.fullmatch(r"\s*([\d,]+)\s*-\s*([\d,]+)\s*", text)
    if sites:
        first, last = (int(part.replace(",", "")) for part in sites.groups())
        if not first <= last < signal.data.n_columns:
            raise InvalidInput(f"sites are FIRST-LAST within 0-{signal.data.n_columns - 1}, got {text!r}")
        return first, last + 1
    name, _, span = text.partition(":")
    if signal.chromosome is None:
        raise InvalidInput(f"this run has no chromosomes; give the region as sites, such as 0-99, got {text!r}")
    here = np.array([same_chromosome(label) == same_chromosome(name) for label in signal.chromosome])
    if not here.any():
        known = list(dict.fromkeys(signal.chromosome))
        raise InvalidInput(f"there is no chromosome {name!r}; choose one of {listed(known)}, or sites such as 0-99")
    if span:
        ends = re.fullmatch(r"\s*([\d,]+)\s*-\s*([\d,]+)\s*", span)
        if not ends or signal.position is None:
            why = "this run has no positions" if ends else f"{span!r} is not FIRST-LAST"
            raise InvalidInput(f"{why}; give the region as {name}, or sites such as 0-99")
        low, high = (int(part.replace(",", "")) for part in ends.groups())
        here &= (signal.position >= low) & (signal.position <= high)
        if not here.any():
            raise InvalidInput(f"there is no site in {text!r}; widen it")
    found = np.flatnonzero(here)
    return int(found[0]), int(found[-1]) + 1

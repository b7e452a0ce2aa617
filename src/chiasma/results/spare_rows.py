"""Rows that the data may not need: equal rows that are never all on, and rows of which the data hardly say when they
are on. What is learned depends on how many rows there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from chiasma.models.factorial import FactorialHMM
from chiasma.results.posterior import Posterior
from chiasma.results.rivals import Region
from chiasma.results.row_probabilities import names_of_rows

# The data hardly say when a row is on where they explain less than this share of the variance of its state.
LEAST_KNOWN = 0.2


class SpareRows(NamedTuple):
    """Rows that the data may not need: what was seen, and what it means."""

    text: str
    why: str


def spare_rows(posterior: Posterior, regions: Sequence[Region]) -> list[SpareRows]:
    """Such rows of a posterior with learned parameters. regions: its segments with their explanations."""
    if not posterior.parameters:
        return []
    return [*_never_all_on(posterior, regions), *_unknown(posterior)]


def _never_all_on(posterior: Posterior, regions: Sequence[Region]) -> list[SpareRows]:
    """Groups of equal rows of which no serious explanation of any region has all on."""
    names = names_of_rows(posterior)
    states = [one.states for region in regions for one in region.serious if region.segment.n_data]
    found = []
    for group in posterior.merging.groups:
        most = max((sum(own[k] > 0 for k in group) for own in states), default=0)
        if most < len(group):
            equal = f"{len(group)} equal rows {names[group[0]]} to {names[group[-1]]}"
            found.append(
                SpareRows(
                    f"Of the {equal}, at most {most} {'is' if most == 1 else 'are'} on at once.",
                    "With fewer rows each would switch more often: learned rates depend on how many there are. Compare "
                    "the evidence of other numbers of rows before you report them.",
                )
            )
    return found


def _unknown(posterior: Posterior) -> list[SpareRows]:
    """Rows that can be told from all others, and that may be on or off almost anywhere."""
    fixed = posterior.model.fixed if isinstance(posterior.model, FactorialHMM) else {}
    equal = {k for group in posterior.merging.groups for k in group}
    unknown = []
    for k, (name, on) in enumerate(zip(names_of_rows(posterior), posterior.marginals().values, strict=True)):
        share = on[posterior.seen]
        # Of the variance of the state of a row, what is left where the data are known.
        left, whole = np.mean(share * (1 - share)), np.mean(share) * (1 - np.mean(share))
        if k not in fixed and k not in equal and left > (1 - LEAST_KNOWN) * whole > 0:
            unknown.append(name)
    if not unknown:
        return []
    are, they, one = ("is", "It", "be a row") if len(unknown) == 1 else ("are", "They", "be rows")
    return [
        SpareRows(
            f"The data hardly say when {', '.join(unknown)} {are} on.",
            f"{they} may add too little to be seen, or {one} too many, and almost every segment then has rivals. "
            "Compare the evidence of fewer rows.",
        )
    ]

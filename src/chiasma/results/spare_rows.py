"""Equal rows that are never all on: the data may hold fewer of them, and learned rates depend on how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from chiasma.results.posterior import Posterior
from chiasma.results.rivals import Region
from chiasma.results.row_probabilities import names_of_rows

WHY = (
    "With fewer rows each would switch more often: learned rates depend on how many there are. Compare the evidence of "
    "other numbers of rows before you report them."
)


class SpareRows(NamedTuple):
    """Equal rows by their names, and how many of them are on at once at most."""

    names: tuple[str, ...]
    most: int

    @property
    def text(self) -> str:
        group = f"{len(self.names)} equal rows {self.names[0]} to {self.names[-1]}"
        return f"Of the {group}, at most {self.most} {'is' if self.most == 1 else 'are'} on at once."


def spare_rows(posterior: Posterior, regions: Sequence[Region]) -> list[SpareRows]:
    """Groups of equal rows of which no serious explanation of any region has all on, where something is learned."""
    if not posterior.parameters:
        return []
    names = names_of_rows(posterior)
    states = [one.states for region in regions for one in region.serious if region.segment.n_data]
    found = []
    for group in posterior.merging.groups:
        most = max((sum(own[k] > 0 for k in group) for own in states), default=0)
        if most < len(group):
            found.append(SpareRows(tuple(names[k] for k in group), most))
    return found

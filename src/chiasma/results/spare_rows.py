"""Rows that the data may not need: equal rows that are never all on, and rows of which the data hardly say when they
are on. What is learned depends on how many rows there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chiasma.models.factorial import FactorialHMM
from chiasma.results.configurations import count_shares
from chiasma.results.findings import Finding
from chiasma.results.row_probabilities import names_of_rows

if TYPE_CHECKING:
    from chiasma.results.posterior import Posterior

# The data hardly say when a row is on where they explain less than this share of the variance of its state.
LEAST_KNOWN = 0.2
# All of some equal rows are on where this has at least the given probability on average over so many sites: a single
# site may be an outlier.
SERIOUS, FEWEST_SITES = 0.05, 3


def spare_rows(posterior: Posterior) -> list[Finding]:
    """Such rows of a posterior with learned parameters; names: those of the rows."""
    if not posterior.parameters or posterior.n_rows is None:
        return []
    names = names_of_rows(posterior)
    return [*_never_all_on(posterior, names), *_unknown(posterior, names)]


def _never_all_on(posterior: Posterior, names: list[str]) -> list[Finding]:
    """Groups of equal rows that are nowhere all on. With fewer rows each would switch more often: learned rates depend
    on how many there are.
    """
    found = []
    for group in posterior.merging.groups:
        shares = count_shares(posterior.codes, posterior.layout, group)[:, posterior.seen]
        together = np.cumsum(np.concatenate([np.zeros((len(shares), 1)), shares[::-1].cumsum(axis=0)[::-1]], axis=1), 1)
        width = min(FEWEST_SITES, shares.shape[1])
        means = (together[:, width:] - together[:, :-width]) / max(width, 1)  # of at least so many rows on
        most = int(np.flatnonzero((means >= SERIOUS).any(axis=1)).max(initial=0))
        if most < len(group):
            facts = {"names": [f"{names[group[0]]} to {names[group[-1]]}"], "n": len(group), "most": most}
            found.append(Finding("rows-never-all-on", "note", facts))
    return found


def _unknown(posterior: Posterior, names: list[str]) -> list[Finding]:
    """Rows that can be told from all others, and that may be on or off almost anywhere."""
    fixed = posterior.model.fixed if isinstance(posterior.model, FactorialHMM) else {}
    equal = {k for group in posterior.merging.groups for k in group}
    unknown = []
    for k, (name, on) in enumerate(zip(names, posterior.marginals().values, strict=True)):
        share = on[posterior.seen]
        # Of the variance of the state of a row, what is left where the data are known.
        left, whole = np.mean(share * (1 - share)), np.mean(share) * (1 - np.mean(share))
        if k not in fixed and k not in equal and left > (1 - LEAST_KNOWN) * whole > 0:
            unknown.append(name)
    return [Finding("rows-unknown", "note", {"names": unknown})] if unknown else []

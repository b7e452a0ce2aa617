"""Checks of the rows of a run: chains that are sure of different explanations, and rows that the data may not need."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr

from chiasma.kernels.layout import Layout, unpack_codes
from chiasma.models.factorial import FactorialHMM
from chiasma.results.configurations import count_shares, state_name
from chiasma.results.findings import Finding, Remedy, Severity
from chiasma.results.row_groups import Merging, names_of_rows

if TYPE_CHECKING:
    from chiasma.results.posterior import Posterior

# ---- Chains in different modes ---------------------------------------------------------------------------------------

# Two chains sit in different modes at a site where each has one explanation in at least this share of its draws, of
# which the other has less than RARE. Chains that mix do not come near it, whatever the posterior.
SURE, RARE = 0.8, 0.05
# Modes at a larger share of the sites make all probabilities doubtful.
FEW = 0.05
# Shorter chains are not judged.
FEWEST_DRAWS = 20


class Apart(NamedTuple):
    """Sites at which two chains are sure of different explanations, and the clearest of them."""

    n: int
    n_sites: int
    site: int
    chains: tuple[int, int]
    codes: tuple[int, int]
    shares: tuple[float, float]


def chains_apart(codes: xr.DataArray, merging: Merging) -> Apart | None:
    """codes: (chain, draw, site), at some sites; None where all chains agree.

    >>> from chiasma.kernels.layout import make_layout
    >>> stuck = xr.DataArray(np.repeat([[[1]], [[2]]], 50, axis=1), dims=("chain", "draw", "site"))
    >>> stuck["site"] = [7]
    >>> chains_apart(stuck, Merging(make_layout([2, 2]), []))
    Apart(n=1, n_sites=1, site=7, chains=(0, 1), codes=(1, 2), shares=(1.0, 1.0))
    >>> chains_apart(stuck, Merging(make_layout([2, 2]), [[0, 1]])) is None
    True
    """
    n_chains, n_draws, n_sites = codes.shape
    if n_draws < FEWEST_DRAWS:
        return None
    merged = merging(codes.values)
    n, clearest = 0, None
    for t in range(n_sites):
        found = _at_site(merged[:, :, t], n_chains)
        if found is not None:
            n += 1
            if clearest is None or min(found[2]) > min(clearest[1][2]):
                clearest = t, found
    if clearest is None:
        return None
    t, (pair, modes, shares) = clearest
    return Apart(n, n_sites, int(codes["site"].values[t]), pair, modes, shares)


def _at_site(
    codes: npt.NDArray[Any], n_chains: int
) -> tuple[tuple[int, int], tuple[int, int], tuple[float, float]] | None:
    """The first two chains that are apart at one site, codes (chain, draw): their modes and the shares of these."""
    modes = [np.unique(chain, return_counts=True) for chain in codes]
    top = [int(values[np.argmax(counts)]) for values, counts in modes]
    share = [float(counts.max() / counts.sum()) for _, counts in modes]
    for i, j in combinations(range(n_chains), 2):
        if top[i] != top[j] and min(share[i], share[j]) >= SURE:
            rare = max(float(np.mean(codes[i] == top[j])), float(np.mean(codes[j] == top[i])))
            if rare < RARE:
                return (i, j), (top[i], top[j]), (share[i], share[j])
    return None


def mode_findings(apart: Apart | None, layout: Layout, remedies: Sequence[Remedy] = ()) -> list[Finding]:
    """remedies: ways to move better."""
    if apart is None:
        return []
    first, second = (state_name(states) for states in unpack_codes(np.array(apart.codes), layout).T.tolist())
    facts = {"n": apart.n, "n_sites": apart.n_sites, "site": apart.site, "first": first, "second": second}
    severity: Severity = "none" if apart.n > FEW * apart.n_sites else "limited"
    return [Finding("modes", severity, facts, tuple(remedies))]


# ---- Rows that the data may not need ---------------------------------------------------------------------------------

# The data hardly say when a row is on where they explain less than this share of the variance of its state.
LEAST_KNOWN = 0.2
# All of some equal rows are on if this has at least the given probability on average over so many sites: a single
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
        means = (together[:, width:] - together[:, :-width]) / max(width, 1)  # of at least this many rows on
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

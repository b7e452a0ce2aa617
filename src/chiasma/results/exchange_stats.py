"""How well neighbouring rungs exchange: rejection, distance, barrier, and warnings about a ladder.

r_i, the rejection of a pair, is one minus the mean probability that whole paths would be swapped; the barrier is
Lambda(beta_i) = r_1 + ... + r_i. Rungs are well placed when they divide the barrier evenly, and about 2 Lambda of them
are enough for swaps. Pair p joins rungs p and p + 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from chiasma.kernels.ensemble import Tally
from chiasma.types import Floats

# Neighbouring rungs that would swap less often than this hardly know of each other.
DISCONNECTED = 0.98
# Past this, the evidence has no bridge between two rungs (verification/results/evidence.md).
UNBRIDGED = 0.8


def barrier(rejection: npt.ArrayLike) -> Floats:
    """(R,): the barrier from the lowest rung up to each."""
    return np.concatenate([[0.0], np.cumsum(rejection)])


def pair_lengths(betas: npt.ArrayLike, rejection: npt.ArrayLike, mean_log_lik: npt.ArrayLike) -> Floats:
    """(R - 1,): how far apart neighbouring rungs are, in units of rejection, where rejection itself saturates too.

    For nearly normal log-likelihoods a pair with symmetrised divergence J = D_i (mean_i l - mean_{i-1} l) rejects
    about sqrt(J / pi) while that is small; past one half, J still tells distances apart and the rejection does not.
    """
    rejection = np.asarray(rejection, float)
    with np.errstate(invalid="ignore"):
        divergence = np.diff(betas) * np.diff(mean_log_lik)
    usable = np.isfinite(divergence) & (divergence > 0) & (rejection > 0.5)
    return np.where(usable, np.maximum(rejection, np.sqrt(np.where(usable, divergence, 0) / np.pi)), rejection)


def suggested_size(lengths: npt.ArrayLike) -> int:
    """About twice the barrier, and one more for the end."""
    return max(2, math.ceil(2 * float(np.sum(lengths))) + 1)


def rejections(tallies: Sequence[Tally], betas: Floats) -> tuple[Floats, Floats]:
    """(R - 1,) rejection of every pair over all chains, and (R - 1,) how far apart its rungs are."""
    steps = max(sum(int(tally.steps[0]) for tally in tallies), 1)
    rejection = 1 - np.sum([tally.acceptance for tally in tallies], axis=0) / steps
    mean_log_lik = np.sum([tally.log_lik for tally in tallies], axis=0) / steps
    return rejection, pair_lengths(betas, rejection, mean_log_lik)


def pair_stats(tallies: Sequence[Tally], betas: Floats) -> dict[str, npt.NDArray[Any]]:
    """Per pair of neighbouring rungs, over all chains."""
    rejection, lengths = rejections(tallies, betas)
    moves = np.sum([tally.moves for tally in tallies], axis=0)
    tried = np.maximum(moves, 1)
    return {
        "rejection": rejection,
        "length": lengths,
        "barrier": barrier(rejection)[1:],
        "moves": moves,
        "changed": np.sum([tally.changed for tally in tallies], axis=0) / tried,
        "columns": np.sum([tally.columns for tally in tallies], axis=0) / tried,
        "beta_low": betas[:-1],
        "beta_high": betas[1:],
    }


def as_dataset(stats: Mapping[str, npt.NDArray[Any]]) -> xr.Dataset:
    """The same with labels."""
    along = {name: ("pair", values) for name, values in stats.items()}
    coords = {name: along.pop(name) for name in ("beta_low", "beta_high")}
    return xr.Dataset(along, coords={"pair": np.arange(len(stats["moves"])), **coords})


def ladder_warnings(follows_swaps: bool, stats: Mapping[str, npt.NDArray[Any]]) -> list[str]:
    """What is wrong with the ladder, and the remedy. follows_swaps: whole paths are exchanged or nothing."""
    if not stats["moves"].any():
        return []
    rejection = stats["rejection"]
    warnings = []
    if follows_swaps and rejection.max() > DISCONNECTED:
        worst = int(rejection.argmax())
        warnings.append(
            f"the ladder is too short: rungs {worst} and {worst + 1} would swap in "
            f"{100 * (1 - rejection[worst]):.1g}% of the steps; use at least {suggested_size(stats['length'])} rungs, "
            "adapted (Ladder.adapted()), or a crossover, which exchanges segments"
        )
    idle = (stats["changed"] < 0.01) & (stats["moves"] > 0)
    if idle.any():
        first = int(np.argmax(idle))
        warnings.append(
            f"rungs {first} and {first + 1} exchange next to nothing ({int(idle.sum())} such pair(s)); "
            "put rungs between them or adapt the ladder (Ladder.adapted())"
        )
    if stats["beta_low"][0] == 0 and rejection.max() > UNBRIDGED:
        worst = int(rejection.argmax())
        warnings.append(
            f"the log evidence cannot be trusted, nor its standard error: rungs {worst} and {worst + 1} hardly overlap "
            f"(rejection {rejection[worst]:.2f}, at most {UNBRIDGED} is fine); use about "
            f"{suggested_size(stats['length'])} rungs (Ladder.adapted(size=...)); the draws are not affected"
        )
    return warnings

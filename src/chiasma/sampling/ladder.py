"""Ladder: inverse temperatures of the replicas (parallel tempering), and their adaptation.

betas ascend and end at 1, the target. `results.ladder_stats` defines the barrier that adaptation divides evenly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy  # submodules load on first use

from chiasma.errors import InvalidInput
from chiasma.limits import MOST_RUNGS
from chiasma.results.ladder_stats import barrier, suggested_size
from chiasma.types import as_floats, is_count, shown

# Range of ladder sizes that adaptation chooses from when no size is given.
SMALLEST, LARGEST = 3, 24
# Distances of neighbouring rungs, in units of rejection, that adaptation tells apart.
SHORTEST, LONGEST = 1e-6, 1e3


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """Inverse temperatures, ascending and ending at 1.

    Parameters
    ----------
    betas : (R,) the rungs. beta = 0 is the prior, sampled independently every time; the evidence needs it.
    adapt : bool, move the rungs during warm-up so that they divide the barrier evenly; both ends stay fixed.
    resize : bool, let warm-up also choose the number of rungs.

    Examples
    --------
    >>> import chiasma as ch
    >>> ch.Ladder.of([1, 5]).betas
    (0.2, 1.0)
    >>> ch.Ladder.geometric(4, hottest=8).betas
    (0.125, 0.25, 0.5, 1.0)
    """

    betas: tuple[float, ...]
    adapt: bool = False
    resize: bool = False

    def __post_init__(self) -> None:
        betas = as_floats("betas", self.betas)
        if betas.ndim != 1 or betas.size == 0:
            raise InvalidInput("a ladder needs at least one rung, got none; (1.0,) is the plain target")
        if not np.all(np.diff(betas) > 0) or not betas[0] >= 0 or betas[-1] != 1:
            raise InvalidInput(
                f"betas must increase from 0 or more to exactly 1, got {betas.tolist()}; "
                "temperatures, decreasing betas, are given as Ladder.of([1, 5])"
            )
        object.__setattr__(self, "betas", tuple(float(beta) for beta in betas))

    @classmethod
    def of(cls, temperatures: npt.ArrayLike) -> Ladder:
        """A fixed ladder from temperatures, the paper's way.

        Parameters
        ----------
        temperatures : (R,) increasing from 1.

        Returns
        -------
        Ladder.

        Examples
        --------
        >>> import chiasma as ch
        >>> ch.Ladder.of([1, 2, 4]).betas
        (0.25, 0.5, 1.0)
        """
        given = as_floats("temperatures", temperatures)
        if given.ndim != 1 or given.size == 0:
            raise InvalidInput("a ladder needs at least one temperature, got none; [1] is the plain target")
        if not np.all(np.diff(given) > 0) or given[0] != 1:
            raise InvalidInput(
                f"temperatures must increase from exactly 1 (the target), got {given.tolist()}; sort them and add 1"
            )
        with np.errstate(divide="ignore"):
            return cls(betas=tuple((1 / given)[::-1]))

    @classmethod
    def geometric(cls, size: int, hottest: float, prior: bool = False) -> Ladder:
        """A fixed ladder with equal ratios between its temperatures.

        Parameters
        ----------
        size : int, number of rungs.
        hottest : temperature of the first of them; the last is at 1.
        prior : bool, add beta = 0, the prior, at the hot end; the evidence needs it.

        Returns
        -------
        Ladder.

        Examples
        --------
        >>> import chiasma as ch
        >>> ch.Ladder.geometric(3, hottest=4, prior=True).betas
        (0.0, 0.25, 0.5, 1.0)
        """
        given = as_floats("hottest", hottest)
        if not is_count(size, least=2) or size > MOST_RUNGS or given.shape != () or not 1 < given < np.inf:
            raise InvalidInput(
                f"a geometric ladder needs size >= 2, at most {MOST_RUNGS}, and hottest > 1, got {shown(size)} and "
                f"{shown(hottest)}"
            )
        betas = np.geomspace(1 / float(given), 1, size)
        betas[-1] = 1.0
        if not isinstance(prior, bool | np.bool_):
            raise InvalidInput(f"prior must be True or False, got {shown(prior)}")
        return cls(betas=((0.0,) if prior else ()) + tuple(betas))

    @classmethod
    def adapted(cls, size: int | None = None, hottest: float = 1000.0) -> Ladder:
        """A ladder from the prior to the target, adapted during warm-up.

        Parameters
        ----------
        size : int, number of rungs; None: warm-up also adapts their number.
        hottest : temperature of the hottest rung below the prior, at the start.

        Returns
        -------
        Ladder.

        Examples
        --------
        >>> import chiasma as ch
        >>> len(ch.Ladder.adapted(size=6)), ch.Ladder.adapted().resize
        (6, True)
        """
        if size is not None and not is_count(size, least=3):
            raise InvalidInput(f"an adapted ladder needs size >= 3, between its fixed ends, got {shown(size)}")
        start = cls.geometric((size or 10) - 1, hottest, prior=True)
        return cls(betas=start.betas, adapt=True, resize=size is None)

    def __len__(self) -> int:
        return len(self.betas)


def as_ladder(ladder: Any) -> Ladder:
    """Return a Ladder unchanged; convert a list of temperatures."""
    return ladder if isinstance(ladder, Ladder) else Ladder.of(ladder)


def adapted_betas(betas: npt.ArrayLike, lengths: npt.ArrayLike, size: int) -> tuple[float, ...]:
    """`size` rungs that divide the barrier evenly, by monotone interpolation; both ends stay fixed.

    >>> adapted_betas([0.0, 0.5, 1.0], [0.6, 0.2], 3)[1] < 0.5
    True
    """
    betas = np.asarray(betas, float)
    # A pair that never rejects would make the barrier flat, and a huge distance would swallow the others: replicas of a
    # density without prior may be anywhere. Bounds keep the barrier invertible.
    height = barrier(np.clip(np.asarray(lengths, float), SHORTEST, LONGEST))
    wanted = np.linspace(0, height[-1], size)[1:-1]
    inside = scipy.interpolate.PchipInterpolator(height, betas)(wanted)
    # Rounded to twelve digits: rejections may differ in the last bit between compilations, and rungs should not.
    return (float(betas[0]), *(float(f"{beta:.12g}") for beta in inside), float(betas[-1]))


def resized(lengths: npt.ArrayLike) -> int:
    """Number of rungs that adaptation chooses."""
    return int(np.clip(suggested_size(np.minimum(lengths, LONGEST)), SMALLEST, LARGEST))

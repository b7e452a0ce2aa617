"""Switches: the prior of the rows, independent two-state Markov chains.

A_k = [[1 - enter, enter], [leave, 1 - leave]]; over a gap d, with the stationary distribution pi_k,
A_k^(d) = 1 pi_k' + (1 - enter - leave)^d (I - 1 pi_k').
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.kernels.transitions import fill_transitions
from chiasma.models.arguments import EITHER, RARE, Argument, Learnable
from chiasma.models.chain_slopes import switch_slopes
from chiasma.models.observations import Observations
from chiasma.models.priors import Dirichlet, Prior, check_prior
from chiasma.types import Floats, as_floats


class Switches(Learnable):
    """Switching probabilities of the rows; a scalar holds for all rows, an array gives one value per row.

    A probability given as a prior is learned: Beta(1, 99) for one value for all rows, Beta([1, 1, 1], 99) for one each.

    Parameters
    ----------
    enter : P(0 -> 1) from one column to the next.
    leave : P(1 -> 0).
    initial : P(1) where a sequence starts. Default: the stationary probability, enter / (enter + leave).

    Examples
    --------
    >>> import chiasma as ch
    >>> ch.Switches(enter=0.01, leave=0.03).probabilities(2)[2].tolist()
    [0.25, 0.25]
    """

    arguments: ClassVar[Mapping[str, Argument]] = {
        "enter": Argument(
            "P(0 to 1) from site to site: one number, or one per row.",
            required=True,
            takes="numbers",
            default_prior=RARE,
        ),
        "leave": Argument("P(1 to 0).", same_as="enter", takes="numbers", default_prior=RARE),
        "initial": Argument(
            "P(1) where a sequence starts. Default: stationary.", takes="numbers", default_prior=EITHER
        ),
    }

    def __init__(
        self, enter: npt.ArrayLike | Prior, leave: npt.ArrayLike | Prior, initial: npt.ArrayLike | Prior | None = None
    ):
        self.enter = self._probability("enter", enter)
        self.leave = self._probability("leave", leave)
        self.initial = None if initial is None else self._probability("initial", initial)

    def _probability(self, name: str, value: npt.ArrayLike | Prior) -> Floats:
        """Return a number unchanged; keep a prior in `priors` and return its typical value."""
        if not isinstance(value, Prior):
            return _probability(name, value)
        check_prior(name, value, ((), value.shape[:1]), 0.0, 1.0)
        if isinstance(value, Dirichlet):
            raise InvalidInput(f"{name} of the rows need not add up to 1; use Beta in place of {value}")
        return np.asarray(self._learned(name, value))

    def probabilities(self, n_rows: int) -> tuple[Floats, Floats, Floats]:
        """enter, leave and initial, each (K,)."""
        enter = _per_row("enter", self.enter, n_rows)
        leave = _per_row("leave", self.leave, n_rows)
        if self.initial is not None:
            return enter, leave, _per_row("initial", self.initial, n_rows)
        rate = enter + leave
        if not all(rate.tolist()):  # of a few numbers: a list is asked in an eighth of the time
            raise InvalidInput(
                f"row {int(np.argmin(rate))} has enter = leave = 0 and so no stationary distribution; give initial="
            )
        return enter, leave, enter / rate

    def tables(self, n_rows: int, data: Observations) -> tuple[npt.NDArray[np.int32], Floats]:
        """edge (T,) and trans (E, K, 4) in the form that the kernels take."""
        enter, leave, initial = self.probabilities(n_rows)
        edge, gaps = data.edge_kinds()
        if data.gaps is not None and np.any(enter + leave > 1):
            k = int(np.argmax(enter + leave > 1))
            raise InvalidInput(
                f"gaps need enter + leave <= 1 in every row, got {enter[k] + leave[k]:g} in row {k}; "
                "drop the gaps or lower the switching probabilities"
            )
        trans = np.empty((len(gaps), n_rows, 4))
        fill_transitions(enter, leave, initial, gaps, trans)
        return edge, trans

    def slopes(self, n_rows: int, data: Observations, by_matrix: Floats) -> dict[str, Floats]:
        """Derivatives by name, each of its parameter's shape, from those with respect to the matrices, (E, K, 2, 2)."""
        enter, leave, _ = self.probabilities(n_rows)
        _, gaps = data.edge_kinds()
        by_row = switch_slopes(enter, leave, self.initial is None, gaps, by_matrix)
        named = {name: (getattr(self, name), slope) for name, slope in zip(self.arguments, by_row, strict=True)}
        return {name: slope if np.ndim(own) else slope.sum() for name, (own, slope) in named.items()}

    def __repr__(self) -> str:
        given = {name: getattr(self, name) for name in self.arguments}
        told = {name: self.priors.get(name, value.tolist()) for name, value in given.items() if value is not None}
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in told.items())})"


def _probability(name: str, values: npt.ArrayLike) -> Floats:
    given = as_floats(name, values)
    if given.ndim > 1:
        raise InvalidInput(f"{name} must be a scalar or one value per row, got shape {given.shape}")
    bad = ~((given >= 0) & (given <= 1))
    if bad.any():
        raise InvalidInput(f"{name} must be probabilities in [0, 1], got {given[bad].ravel()[0]:g}")
    return given


def _per_row(name: str, values: Floats, n_rows: int) -> Floats:
    if values.ndim == 1 and len(values) != n_rows:
        raise InvalidInput(f"{name} must be a scalar or have {n_rows} values (rows), got {len(values)}")
    return values.copy() if values.ndim else values.repeat(n_rows)

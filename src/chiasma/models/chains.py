"""BinaryChains: the prior of the rows, independent two-state Markov chains.

A_k = [[1 - enter, enter], [leave, 1 - leave]]; over a gap d, with the stationary distribution pi_k,
A_k^(d) = 1 pi_k' + (1 - enter - leave)^d (I - 1 pi_k').
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.models.observations import Floats, Observations, as_floats


class BinaryChains:
    """Switching probabilities of the rows; a scalar holds for all rows, an array gives one value per row.

    Parameters
    ----------
    enter : P(0 -> 1) from one column to the next.
    leave : P(1 -> 0).
    initial : P(1) where a sequence starts. Default: the stationary probability, enter / (enter + leave).

    Examples
    --------
    >>> BinaryChains(enter=0.01, leave=0.03).probabilities(2)[2].tolist()
    [0.25, 0.25]
    """

    def __init__(self, enter: npt.ArrayLike, leave: npt.ArrayLike, initial: npt.ArrayLike | None = None):
        self.enter = _probability("enter", enter)
        self.leave = _probability("leave", leave)
        self.initial = None if initial is None else _probability("initial", initial)

    def probabilities(self, n_rows: int) -> tuple[Floats, Floats, Floats]:
        """enter, leave and initial, each (K,)."""
        enter = _per_row("enter", self.enter, n_rows)
        leave = _per_row("leave", self.leave, n_rows)
        if self.initial is not None:
            return enter, leave, _per_row("initial", self.initial, n_rows)
        frozen = enter + leave == 0
        if frozen.any():
            raise InvalidInput(
                f"row {int(np.argmax(frozen))} has enter = leave = 0 and so no stationary distribution; give initial="
            )
        return enter, leave, enter / (enter + leave)

    def tables(self, n_rows: int, data: Observations) -> tuple[npt.NDArray[np.int32], Floats]:
        """edge (T,) and trans (E, K, 4), as the kernels take them."""
        enter, leave, initial = self.probabilities(n_rows)
        edge, gaps = data.edge_kinds()
        if data.gaps is not None and np.any(enter + leave > 1):
            k = int(np.argmax(enter + leave > 1))
            raise InvalidInput(
                f"gaps need enter + leave <= 1 in every row, got {enter[k] + leave[k]:g} in row {k}; "
                "drop the gaps or lower the switching probabilities"
            )
        trans = np.empty((len(gaps), n_rows, 4))
        trans[0] = np.stack([1 - initial, initial, 1 - initial, initial], axis=-1)
        for e, gap in enumerate(gaps[1:], start=1):
            gone, came = _over_gap(enter, leave, gap)
            trans[e] = np.stack([1 - gone, gone, came, 1 - came], axis=-1)
        return edge, trans

    def __repr__(self) -> str:
        initial = "" if self.initial is None else f", initial={self.initial.tolist()}"
        return f"BinaryChains(enter={self.enter.tolist()}, leave={self.leave.tolist()}{initial})"


def _over_gap(enter: Floats, leave: Floats, gap: float) -> tuple[Floats, Floats]:
    rate = enter + leave
    # 1 - (1 - rate)^gap: without cancellation for rates as small as 1e-12, and real for a rate above 1 at gap 1.
    small = np.minimum(rate, 0.5)
    mixed = np.where(rate < 0.5, -np.expm1(gap * np.log1p(-small)), 1 - np.power(1 - rate, gap))
    share = np.divide(mixed, rate, out=np.full_like(rate, gap), where=rate > 0)
    return np.minimum(enter * share, 1.0), np.minimum(leave * share, 1.0)


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
    return np.broadcast_to(values, (n_rows,)).astype(float)

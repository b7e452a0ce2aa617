"""Parts of a model that the data do not tie together: rows that no channel sees together, directly or through others.

Rows are independent a priori, so the posterior is a product over parts: updating rows of two parts jointly gains
nothing, and a block that holds a whole part draws it independently of where it was.
"""

from __future__ import annotations

import numpy as np

from chiasma.types import Floats, Integers


def independent_parts(steps: Floats) -> list[Integers]:
    """The rows of every part, ascending, in the order of their first rows. steps (K, D): what row k adds to channel d.

    >>> steps = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [3.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
    >>> [part.tolist() for part in independent_parts(steps)]
    [[0, 2, 3], [1]]
    """
    reached = np.eye(len(steps), dtype=bool) | (np.abs(steps) @ np.abs(steps).T > 0)
    # Squaring doubles the number of steps between rows that count: six times for 63 rows.
    for _ in range(max(len(steps) - 1, 1).bit_length()):
        reached = (reached.astype(np.int64) @ reached) > 0
    first = np.argmax(reached, axis=1)
    return [np.flatnonzero(first == row) for row in np.unique(first)]

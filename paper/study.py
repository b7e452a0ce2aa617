"""The paper's simulation study: K = 3 rows whose weights nearly satisfy w1 + w2 = w3.

A column (1, 1, 0) and a column (0, 0, 1) then give almost the same level, so each of the twenty blocks of the
signal has two explanations. Rows (3, T), T = 195: blocks of five columns, (1, 1, 0) and (0, 0, 0) in turn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chiasma.models.chains import Switches
from chiasma.models.emissions import Gaussian
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations

WEIGHTS = (0.21, 0.31, 0.48)
DEPTH = 15.0
SD = 1.0
SWITCHING = 0.1
N_BLOCKS = 20
BLOCK_LENGTH = 5


class Study(NamedTuple):
    """A model, the states (K, T) that made the data, and the data."""

    model: FactorialHMM
    states: npt.NDArray[np.int8]
    data: Observations


def simulation_study(seed: int | None = None, switching: float = SWITCHING) -> Study:
    """The study with fresh noise. switching: enter and leave of every row; smaller values make it harder.

    >>> study = simulation_study(seed=1)
    >>> study.states.shape, study.states[:, [0, 5, 10]].T.tolist()
    ((3, 195), [[1, 1, 0], [0, 0, 0], [1, 1, 0]])
    """
    model = FactorialHMM(
        rows=Switches(enter=switching, leave=switching, initial=0.5),
        emission=Gaussian(weights=WEIGHTS, depth=DEPTH, sd=SD),
    )
    on = np.repeat(np.arange(2 * N_BLOCKS - 1) % 2 == 0, BLOCK_LENGTH)
    states = np.outer([1, 1, 0], on).astype(np.int8)
    y = np.random.default_rng(seed).normal(DEPTH * np.asarray(WEIGHTS) @ states, SD)
    return Study(model, states, Observations(y))

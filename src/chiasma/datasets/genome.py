"""A simulated tumour genome in the shape of the paper's: K = 6 rows, one of them a baseline, T = 10,877 bins.

Rows 0..4 are subclonal gains with the given weights; row 5 is the baseline of all cells and is always on. Several sums
of weights coincide (0.075 + 0.125 = 0.2, 0.075 + 0.2 = 0.125 + 0.15), hence many segments have several explanations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chiasma.io.signal import Signal
from chiasma.limits import MOST_SITES
from chiasma.models.chains import Switches
from chiasma.models.emissions import Gaussian
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.results.posterior import Posterior
from chiasma.types import as_count

WEIGHTS = (0.075, 0.125, 0.15, 0.175, 0.2, 0.275)
FIXED_ROWS = {5: 1}
DEPTH = 180.0
SD = 12.0
ENTER, LEAVE = 0.001, 0.002
N_BINS = 10_877
BIN = 264_000
# Lengths of the human autosomes (GRCh38), in megabases.
CHROMOSOMES = (249, 242, 198, 190, 182, 171, 159, 145, 138, 134, 135, 133, 114, 107, 102, 90, 83, 80, 59, 64, 47, 51)


class Genome(NamedTuple):
    """A model, the states (K, T) that made the data, and the data."""

    model: FactorialHMM
    states: npt.NDArray[np.int8]
    signal: Signal


def tumour_genome(seed: int | None = None, n_bins: int = N_BINS, sd: float = SD) -> Genome:
    """The genome drawn from the model: states from the chains, depth of every bin from the emission.

    >>> genome = tumour_genome(seed=1, n_bins=200)
    >>> genome.states.shape, len(genome.signal.data.starts), genome.signal.chromosome[-1]
    ((6, 200), 22, '22')
    """
    as_count("the number of sites", n_bins, len(CHROMOSOMES), MOST_SITES)  # at least one per chromosome
    model = FactorialHMM(
        rows=Switches(enter=ENTER, leave=LEAVE),
        emission=Gaussian(weights=WEIGHTS, depth=DEPTH, sd=sd),
        fixed=FIXED_ROWS,
    )
    sizes = chromosome_sizes(n_bins)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    states, y = model.simulate(n_bins, seed, starts)
    signal = Signal(
        data=Observations(np.round(y, 2), starts),
        chromosome=tuple(str(c + 1) for c, n in enumerate(sizes) for _ in range(n)),
        position=np.concatenate([np.arange(n) * float(BIN) for n in sizes]),
    )
    return Genome(model, states, signal)


def agreement(posterior: Posterior, states: npt.NDArray[np.int8]) -> tuple[float, float]:
    """Share of sites and free rows whose more probable state is true: as expected from the marginals, and actual."""
    free = [k for k in range(len(states)) if k not in FIXED_ROWS]
    on = posterior.marginals().values[free]
    return float(np.maximum(on, 1 - on).mean()), float(((on > 0.5) == states[free]).mean())


def chromosome_sizes(n_bins: int) -> list[int]:
    """Bins of each chromosome, in proportion to its length: at least one each, the others by largest remainder.

    >>> sum(chromosome_sizes(10_877)), chromosome_sizes(10_877)[:2]
    (10877, [942, 915])
    """
    spare = n_bins - len(CHROMOSOMES)
    shares = np.array(CHROMOSOMES) * spare / sum(CHROMOSOMES)
    sizes = np.floor(shares).astype(int)
    late = np.argsort(sizes - shares, kind="stable")[: spare - sizes.sum()]
    sizes[late] += 1
    return [int(size) + 1 for size in sizes]

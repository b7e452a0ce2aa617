"""Scouts: short runs from different places that learn the differences of `Jumps` before the warm-up.

They have their own random streams and their work is counted in iterations, not by a clock: what is learned depends
on the seed alone, so that a run that is continued learns the same again, with any number of workers.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.sampling.differences import find_differences, parts_of
from chiasma.sampling.engines import path_engine
from chiasma.sampling.problems import PathProblem, Problem, Start
from chiasma.sampling.progress import Progress
from chiasma.sampling.streams import Streams
from chiasma.sampling.threads import Pool
from chiasma.sampling.updates import BlockGibbs, Jumps
from chiasma.types import Integers

# Number of scouts, the share of the warm-up of all chains that they take, their fewest iterations.
SCOUTS = 4
SHARE = 0.5
FEWEST = 16
# Paths of a scout, from the second half of its iterations, in which differences are looked for.
KEPT = 16
# Numbers of chains that neither a run nor its pilot has, for the random streams.
FIRST_CHAIN = 2**31


def learn_jumps(
    problem: Problem, update: Jumps, entropy: int, chains: int, warmup: int, workers: int, display: Progress
) -> tuple[Jumps, list[Integers], int]:
    """The update with what scouts have learned, where they ended (T,), and what is left of the warm-up of a chain."""
    if not isinstance(problem, PathProblem):
        raise InvalidInput(
            "Jumps() learns differences between paths of a model without priors; use another update, such as "
            "ch.BlockGibbs(), with a ladder, for a model with parameters to learn"
        )
    target: Any = problem.target
    size = update.block_size(target)
    scouted = problem.with_moves(BlockGibbs(size=size), None)
    n = max(FEWEST, int(SHARE * chains * warmup) // SCOUTS)

    def scout(i: int) -> tuple[Integers, Integers]:
        streams = Streams(entropy, FIRST_CHAIN + i)
        engine = path_engine(scouted, [1.0])(scouted, [1.0], 0, streams, Start())
        engine.advance(n - n // 2, thin=0)
        seen = engine.advance(n // 2, thin=max(1, n // 2 // KEPT)).states
        return seen[-KEPT:], engine.states[0].copy()

    display.begin("scouts", SCOUTS, at_once=workers)
    with Pool(workers) as pool:
        found = []
        for one in pool.map(scout, range(SCOUTS)):
            found.append(one)
            display.tick()
    rng = Streams(entropy, FIRST_CHAIN + SCOUTS).initial(0)
    seen = np.array([seen for seen, _ in found])
    differences = find_differences(seen, target.layout, size, rng, parts_of(target))
    left = warmup - math.ceil(SCOUTS * n / chains)
    return replace(update, differences=differences), [end for _, end in found], max(left, 0)

"""ExactEngine: independent draws of the whole path, in the shape of an engine of one replica."""

from __future__ import annotations

from threading import Lock

import numpy as np

from chiasma.exact.passes import Passes, draw_paths
from chiasma.kernels.ensemble import make_tally
from chiasma.sampling.engines import Chunk, PathProblem, StateEngine
from chiasma.sampling.streams import Streams

# Draws per pass over the segments, when the messages do not fit at once and are filtered again for every pass.
BATCH = 256


class SharedPasses:
    """One forward filter for all chains."""

    def __init__(self, problem: PathProblem, memory: int):
        self.passes = Passes(problem.target, 1.0, memory=memory, stay=True)
        self.lock = Lock()
        if problem.target.tabulated:
            _ = problem.target.log_lik  # made once, before the chains look draws up in it


class ExactEngine(StateEngine):
    """Draws do not depend on each other: there is nothing to warm up."""

    problem: PathProblem

    def __init__(self, problem: PathProblem, shared: SharedPasses, streams: Streams):
        self.problem = problem
        self.shared = shared
        self.streams = streams
        self.betas = np.ones(1)
        self.states = np.zeros((1, problem.n_sites), np.int64)
        self.tally = make_tally(1)
        self.iteration = 0

    def _bind(self) -> None:
        """Nothing depends on the betas."""

    def piece(self) -> int:
        return BATCH

    def advance(self, n: int, thin: int) -> Chunk:
        chunk = self.empty_chunk(n, thin)
        stream = self.streams.replica(0).bit_generator
        assert isinstance(stream, np.random.PCG64)
        # Segments share their buffers, so chains take turns; a single segment is only read.
        if self.shared.passes.n_segments > 1:
            with self.shared.lock:
                draw_paths(self.shared.passes, stream, chunk.states)
        else:
            draw_paths(self.shared.passes, stream, chunk.states)
        for i, path in enumerate(chunk.states):
            chunk.log_lik[i, 0] = self.problem.log_likelihood(path)
            chunk.log_prior[i] = self.problem.log_prior(path)
        self.iteration += n
        return chunk

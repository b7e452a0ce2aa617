"""Trace: what a run records, chain by chain, while it is sampling."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from chiasma.sampling.engines import Chunk, Engine


class Trace(Protocol):
    """Where records go: memory, or a store."""

    @property
    def filled(self) -> list[int]:
        """Draws of each chain."""

    @property
    def all_began(self) -> bool:
        """Whether every chain can go on from where it was, and so needs no warm-up."""

    def restore(self, engines: list[Engine]) -> None:
        """Put the chains where the records end."""

    def append(self, chain: int, chunk: Chunk, engine: Engine) -> None:
        """Take the records of a chain; the engine stands right behind them."""

    def finish(self, engines: list[Engine], timings: dict[str, float]) -> None:
        """No more records will come."""


class MemoryTrace:
    """Records in memory: the fields of a Chunk, each (C, n, ...). Chains may be unequally far."""

    all_began = False

    def __init__(self, n_chains: int, n_draws: int, empty: Chunk):
        """empty: a chunk without records; it tells shapes and types."""
        self.records = Chunk(*(np.empty((n_chains, n_draws, *part.shape[1:]), part.dtype) for part in empty))
        self.filled = [0] * n_chains

    def restore(self, engines: list[Engine]) -> None:
        """Nothing was recorded before."""

    def append(self, chain: int, chunk: Chunk, engine: Engine) -> None:
        first = self.filled[chain]
        stop = first + len(chunk.log_prior)
        for kept, new in zip(self.records, chunk, strict=True):
            kept[chain, first:stop] = new
        self.filled[chain] = stop

    def finish(self, engines: list[Engine], timings: dict[str, float]) -> None:
        """Keep what all chains have."""
        self.records = Chunk(*(part[:, : min(self.filled)] for part in self.records))

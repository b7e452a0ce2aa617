"""Trace: what a run records, chain by chain, while it is sampling."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from chiasma.engine import Chunk, Engine


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
    """Records in memory. states (C, n, T), log_lik (C, n, R), log_prior (C, n); chains may be unequally far."""

    all_began = False

    def __init__(self, n_chains: int, n_draws: int, n_sites: int, n_replicas: int, dtype: npt.DTypeLike):
        self.states: npt.NDArray[Any] = np.empty((n_chains, n_draws, n_sites), dtype)
        self.log_lik = np.empty((n_chains, n_draws, n_replicas))
        self.log_prior = np.empty((n_chains, n_draws))
        self.filled = [0] * n_chains

    def restore(self, engines: list[Engine]) -> None:
        """Nothing was recorded before."""

    def append(self, chain: int, chunk: Chunk, engine: Engine) -> None:
        first = self.filled[chain]
        stop = first + len(chunk.log_prior)
        self.states[chain, first:stop] = chunk.states
        self.log_lik[chain, first:stop] = chunk.log_lik
        self.log_prior[chain, first:stop] = chunk.log_prior
        self.filled[chain] = stop

    def finish(self, engines: list[Engine], timings: dict[str, float]) -> None:
        """Keep what all chains have."""
        n = min(self.filled)
        self.states, self.log_lik, self.log_prior = self.states[:, :n], self.log_lik[:, :n], self.log_prior[:, :n]

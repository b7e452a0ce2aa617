"""Trace: where the draws of a run go while it is sampling, chain by chain: memory, or a store on disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from chiasma.types import Floats


class Draws(NamedTuple):
    """What is kept of n iterations of one chain."""

    states: npt.NDArray[Any]  # (n, T) of the cold replica
    log_lik: Floats  # (n, R)
    log_prior: Floats  # (n,) of the cold replica, that of its parameters included
    values: Floats  # (n, P) learned parameters of the cold replica
    work: Floats  # (n, R - 1, 2) between rungs, where paths are integrated out; else (n, 0, 2)


class Chain(Protocol):
    """What a trace asks of the chain whose draws it takes."""

    def checkpoint(self) -> dict[str, Any]:
        """All that the next iteration depends on, as arrays."""

    def restore(self, checkpoint: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""

    def log_densities(self) -> Floats:
        """(2, R): log-likelihood and log prior of where the replicas are."""


class Trace(Protocol):
    """Takes draws; each call comes from the thread of one chain."""

    @property
    def log_evidence(self) -> float | None:
        """Where the run knows it exactly."""

    @property
    def filled(self) -> list[int]:
        """Draws of each chain."""

    @property
    def all_began(self) -> bool:
        """Whether every chain can go on from where it was, and so needs no warm-up."""

    def restore(self, chains: Sequence[Chain]) -> None:
        """Put the chains where their draws end."""

    def append(self, index: int, draws: Draws, chain: Chain) -> None:
        """Take draws of a chain, which stands right behind the last of them."""

    def finish(self, chains: Sequence[Chain], timings: Mapping[str, float]) -> None:
        """No more draws will come."""


class MemoryTrace:
    """Draws in memory: the fields of Draws, each (C, n, ...). Chains may be unequally far."""

    all_began = False

    def __init__(self, n_chains: int, n_draws: int, empty: Draws, log_evidence: float | None = None):
        """empty: no draws; it tells shapes and types."""
        self.draws = Draws(*(np.empty((n_chains, n_draws, *part.shape[1:]), part.dtype) for part in empty))
        self.filled = [0] * n_chains
        self.log_evidence = log_evidence

    def restore(self, chains: Sequence[Chain]) -> None:
        """There is nothing to go on from."""

    def append(self, index: int, draws: Draws, chain: Chain) -> None:
        first = self.filled[index]
        stop = first + len(draws.log_prior)
        for kept, new in zip(self.draws, draws, strict=True):
            kept[index, first:stop] = new
        self.filled[index] = stop

    def finish(self, chains: Sequence[Chain], timings: Mapping[str, float]) -> None:
        """Keep what all chains have."""
        self.draws = Draws(*(part[:, : min(self.filled)] for part in self.draws))

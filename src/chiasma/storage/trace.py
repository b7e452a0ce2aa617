"""Trace: collects the draws of a run while it is sampling, chain by chain, in memory or in a store on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from chiasma.errors import BudgetExceeded
from chiasma.types import Floats


class Draws(NamedTuple):
    """The kept draws of one chain, n of them."""

    states: npt.NDArray[Any]  # (n, T) of the cold replica
    log_lik: Floats  # (n, R)
    log_prior: Floats  # (n,) of the cold replica, including its parameters
    values: Floats  # (n, P) learned parameters of the cold replica
    work: Floats  # (n, R - 1, 2) work between rungs if paths are integrated out; else (n, 0, 2)


class Chain(Protocol):
    """The methods of a chain that a trace uses."""

    def checkpoint(self) -> dict[str, Any]:
        """The complete state of the chain as arrays: everything that the next iteration depends on."""

    def restore(self, checkpoint: Mapping[str, Any]) -> None:
        """Continue from a checkpoint."""

    def log_densities(self) -> Floats:
        """(2, R): log-likelihood and log prior of the current states of the replicas."""


# Seconds of every stage of this call so far.
Elapsed = Callable[[], Mapping[str, float]]


class Snapshot:
    """A chain as a store sees it, after the chain itself is gone."""

    def __init__(self, chain: Chain):
        self._checkpoint, self._log_densities = chain.checkpoint(), chain.log_densities()

    def checkpoint(self) -> dict[str, Any]:
        return self._checkpoint

    def restore(self, checkpoint: Mapping[str, Any]) -> None:
        self._checkpoint = dict(checkpoint)

    def log_densities(self) -> Floats:
        return self._log_densities


class Trace(Protocol):
    """Collects draws; each chain calls it from its own thread."""

    @property
    def log_evidence(self) -> float | None:
        """The exact log evidence; None if it is not known."""

    @property
    def filled(self) -> list[int]:
        """Number of draws of each chain so far."""

    @property
    def all_began(self) -> bool:
        """Whether every chain has a checkpoint to continue from, and so needs no warm-up."""

    def time_by(self, elapsed: Elapsed) -> None:
        """How long this call has taken, which is kept with the draws."""

    def restore(self, chains: Sequence[Chain]) -> None:
        """Restore each chain to its state after its last stored draw."""

    def append(self, index: int, draws: Draws, chain: Chain) -> None:
        """Add draws of a chain; the chain is in the state right after the last of them."""

    def finish(self, chains: Sequence[Chain]) -> None:
        """No more draws will come."""


class MemoryTrace:
    """Draws in memory: the fields of Draws, each (C, n, ...). Chains may have different numbers of draws."""

    all_began = False

    def __init__(self, n_chains: int, n_draws: int, empty: Draws, log_evidence: float | None = None):
        """empty: Draws with n = 0, which define the shapes and types."""
        try:
            self.draws = Draws(*(np.empty((n_chains, n_draws, *part.shape[1:]), part.dtype) for part in empty))
        except (MemoryError, ValueError) as error:  # ValueError: more bytes than can be counted
            raise BudgetExceeded(
                f"{n_chains} chains of {n_draws:,} draws do not fit into memory; take fewer, or write them to a disk "
                "with store="
            ) from error
        self.whole = self.draws  # every draw of every chain
        self.snapshots: list[Snapshot] = []
        self.filled = [0] * n_chains
        self.log_evidence = log_evidence

    def time_by(self, elapsed: Elapsed) -> None:
        """Nothing to keep: a run in memory has one part."""

    def restore(self, chains: Sequence[Chain]) -> None:
        """Nothing to restore: a run in memory cannot be resumed."""

    def append(self, index: int, draws: Draws, chain: Chain) -> None:
        first = self.filled[index]
        stop = first + len(draws.log_prior)
        for kept, new in zip(self.draws, draws, strict=True):
            kept[index, first:stop] = new
        self.filled[index] = stop

    def finish(self, chains: Sequence[Chain]) -> None:
        """Keep the draws that all chains have, and what a store needs to continue the chains (`save_run`)."""
        self.whole, self.snapshots = self.draws, [Snapshot(chain) for chain in chains]
        n_draws = min(self.filled)
        if n_draws < self.draws.log_prior.shape[1]:
            self.draws = Draws(*(part[:, :n_draws] for part in self.draws))

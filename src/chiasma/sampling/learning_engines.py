"""Engines for models with priors: replicas carry a path and parameters of their own.

`ConditionalEngine` alternates between parameters given the path and the path given the parameters; crossovers use each
replica's own likelihoods and transitions, and a swap hands over path and parameters together. `CollapsedEngine` works
on the parameters alone, paths integrated out by the exact filter, and draws paths only to keep them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from chiasma.errors import ImpossibleData
from chiasma.kernels import ensemble
from chiasma.models.labels import CanonicalOrder
from chiasma.models.target import Target
from chiasma.sampling.engines import Chunk, Engine, Recorded
from chiasma.sampling.exchanges import Exchange, Swap
from chiasma.sampling.learning import Learning
from chiasma.sampling.slices import Lines
from chiasma.sampling.streams import Streams
from chiasma.sampling.updates import Update
from chiasma.types import Floats, Integers


class LearningProblem(Recorded):
    """A path and the parameters of its model."""

    name = "codes"

    def __init__(self, learning: Learning, update: Update, exchange: Exchange | None):
        self.learning = learning
        self.update = update
        self.exchange = exchange
        self.n_sites = learning.n_sites
        self.record_dtype = learning.record_dtype
        self.in_order = CanonicalOrder(learning.model)

    def record(self, states: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return self.learning.typical.expand(states).astype(self.record_dtype)


class LearningEngine(Engine):
    """What both have in common: values (R, P) of the parameters beside the paths."""

    problem: LearningProblem

    def __init__(
        self,
        problem: LearningProblem,
        betas: Sequence[float],
        every: int,
        streams: Streams,
        start: tuple[Integers | None, Mapping[str, Any]],
    ):
        self.problem = problem
        self.learning = problem.learning
        self.every = every
        self.streams = streams
        codes, named = start
        parameters = self.learning.parameters
        values, states = [], []
        for r in range(len(betas)):
            rng = streams.initial(r)
            values.append(parameters.pack(named, self.learning.sample_prior(rng)))
            states.append(self.learning.sample_path(self.learning.target(values[-1]), rng) if codes is None else codes)
        self.values = np.array(values)
        self.states = np.array(states, np.int64)
        self.lines = Lines(len(betas), self._blocks())
        self.place(betas)

    @abstractmethod
    def _blocks(self) -> list[Integers]:
        """Free coordinates that are sliced together."""

    @abstractmethod
    def _iterate(self, r: int) -> None:
        """One update of a replica."""

    @abstractmethod
    def _look(self, chunk: Chunk | None, kept: int) -> Floats:
        """(R,) log-likelihoods by which rungs are compared; fills a record, if there is one."""

    @abstractmethod
    def _exchange_pair(self, p: int) -> int:
        """Exchange between rungs p and p + 1; returns how many columns changed."""

    def place(self, betas: Sequence[float]) -> None:
        n_old, n_new = len(self.values), len(betas)
        self.lines.adapt()
        if n_new != n_old:
            nearest = np.round(np.linspace(0, n_old - 1, n_new)).astype(int)
            self.values = self.values[nearest].copy()
            self.lines.place(nearest)
        super().place(betas)

    def restart(self) -> None:
        self.lines.adapt()
        super().restart()

    def log_densities(self) -> Floats:
        targets = [self.learning.target(values) for values in self.values]
        log_liks = [target.log_likelihood(codes) for target, codes in zip(targets, self.states, strict=True)]
        return np.array([log_liks, [self.learning.log_prior(values) for values in self.values]])

    def checkpoint(self) -> dict[str, Any]:
        return super().checkpoint() | {"values": self.values, "directions": self.lines.directions}

    def restore(self, checkpoint: Mapping[str, Any]) -> None:
        self.values = np.array(checkpoint["values"])
        self.lines = Lines(len(self.values), self._blocks())
        self.lines.directions = np.array(checkpoint["directions"])
        super().restore(checkpoint)

    def piece(self) -> int:
        return 1

    def empty_chunk(self, n: int, thin: int) -> Chunk:
        plain = super().empty_chunk(n, thin)
        return plain._replace(values=np.empty((len(plain.log_prior), self.values.shape[1])))

    def advance(self, n: int, thin: int) -> Chunk:
        chunk = self.empty_chunk(n, thin)
        kept = 0
        for i in range(self.iteration, self.iteration + n):
            for r in range(len(self.betas)):
                self._iterate(r)
                if not thin:  # warm-up
                    self.lines.see(r, self.learning.parameters.to_free(self.values[r]))
            record = thin > 0 and (i + 1) % thin == 0
            exchange = self.every > 0 and (i + 1) % self.every == 0
            if record or exchange:
                log_liks = self._look(chunk if record else None, kept)
                kept += record
            if exchange:
                self._exchange(log_liks)
        self.iteration += n
        return chunk

    def _exchange(self, log_liks: Floats) -> None:
        tally = self.tally
        ensemble.tally_log_liks(tally, self.betas, log_liks)
        for p in range(ensemble.first_pair(int(tally.steps[0]), len(self.betas)), len(self.betas) - 1, 2):
            moved = self._exchange_pair(p)
            tally.moves[p] += 1
            tally.columns[p] += moved
            tally.changed[p] += moved > 0
        ensemble.tally_trips(tally)
        tally.steps[0] += 1

    def _keep(self, chunk: Chunk, kept: int, target: Target, log_liks: Floats) -> None:
        codes, values = self.states[-1], self.values[-1]
        chunk.log_lik[kept] = log_liks
        chunk.log_prior[kept] = target.log_prior(codes) + self.learning.log_prior(values)
        chunk.states[kept], chunk.values[kept] = self.problem.in_order(codes, values)

    def _swap(self, p: int) -> None:
        for held in (self.values, self.states):
            held[[p, p + 1]] = held[[p + 1, p]]
        ensemble.tally_swap(self.tally, p)


class ConditionalEngine(LearningEngine):
    """Parameters given the path, the path given the parameters."""

    def _blocks(self) -> list[Integers]:
        return [self.learning.parameters.of_chains, self.learning.parameters.of_emission]

    def _bind(self) -> None:
        self.targets = [self.learning.target(values) for values in self.values]
        pairs = zip(self.targets, self.states, strict=True)
        self.log_liks = np.array([target.log_likelihood(codes) for target, codes in pairs])

    def _iterate(self, r: int) -> None:
        beta, rng, learning = self.betas[r], self.streams.replica(r), self.learning
        if beta == 0:
            self.values[r] = learning.sample_prior(rng)
            self.targets[r] = learning.target(self.values[r])
            self.states[r] = learning.sample_path(self.targets[r], rng)
        else:
            self.values[r] = learning.update_conditional(self.values[r], self.states[r], beta, self.lines, r, rng)
            self.targets[r] = learning.target(self.values[r])
            self.problem.update.prepare(self.targets[r], beta).step(self.states[r], rng)
        self.log_liks[r] = self.targets[r].log_likelihood(self.states[r])

    def _look(self, chunk: Chunk | None, kept: int) -> Floats:
        if chunk is not None:
            self._keep(chunk, kept, self.targets[-1], self.log_liks)
        return self.log_liks

    def _exchange_pair(self, p: int) -> int:
        rng, betas, pair = self.streams.pair(p), self.betas[p : p + 2], slice(p, p + 2)
        before = self.states[p].copy()
        move = self.problem.exchange
        if move is not None and move != Swap():
            step = move.prepare(self.targets[p], self.targets[p + 1], *betas)
            if step.step(self.states[p], self.states[p + 1], rng):
                for r in (p, p + 1):
                    self.log_liks[r] = self.targets[r].log_likelihood(self.states[r])
        if rng.random() < ensemble.swap_probability(*betas, *self.log_liks[pair]):
            self._swap(p)
            self.targets[pair] = self.targets[pair][::-1]
            self.log_liks[pair] = self.log_liks[pair][::-1].copy()
        return int(np.count_nonzero(before != self.states[p]))


class CollapsedEngine(LearningEngine):
    """Parameters with the path integrated out. work[p]: what it takes to carry the parameters of rung p up to rung
    p + 1, log Z(beta_{p+1}) - log Z(beta_p), and the same for those of rung p + 1; it plays the part that the
    log-likelihood of a path, times the difference of the betas, has where paths are carried along.
    """

    def _blocks(self) -> list[Integers]:
        return [np.arange(self.learning.parameters.n_free)]

    def _bind(self) -> None:
        pairs = zip(self.values, self.betas, strict=True)
        self.log_evidence = np.array([self.learning.log_evidence(values, beta) for values, beta in pairs])

    def empty_chunk(self, n: int, thin: int) -> Chunk:
        plain = super().empty_chunk(n, thin)
        return plain._replace(work=np.empty((len(plain.log_prior), len(self.betas) - 1, 2)))

    def _iterate(self, r: int) -> None:
        beta, rng, learning = self.betas[r], self.streams.replica(r), self.learning
        if beta == 0:
            self.values[r] = learning.sample_prior(rng)
            return
        if self.log_evidence[r] == -np.inf:
            self._start_again(r, rng)
        self.values[r], self.log_evidence[r] = learning.update_collapsed(
            self.values[r], self.log_evidence[r], beta, self.lines, r, rng
        )

    def _start_again(self, r: int, rng: np.random.Generator) -> None:
        """A start from the prior may be impossible; another one need not be."""
        for _ in range(1000):
            self.values[r] = self.learning.sample_prior(rng)
            self.log_evidence[r] = self.learning.log_evidence(self.values[r], self.betas[r])
            if self.log_evidence[r] > -np.inf:
                return
        raise ImpossibleData(
            "the data have probability zero under 1,000 draws of the parameters from their priors; check them against "
            "the emission (a background keeps counts possible), or start with init={...}"
        )

    def _look(self, chunk: Chunk | None, kept: int) -> Floats:
        work = self._work()
        if chunk is not None:
            chunk.work[kept] = work
            log_liks = np.empty(len(self.betas))
            for r, (values, beta) in enumerate(zip(self.values, self.betas, strict=True)):
                target = self.learning.target(values)
                self.states[r] = self.learning.draw_path(target, beta, self.streams.replica(r))
                log_liks[r] = target.log_likelihood(self.states[r])
            self._keep(chunk, kept, target, log_liks)
        return as_log_likelihoods(work, self.betas)

    def _work(self) -> Floats:
        """(R - 1, 2)"""
        work = np.empty((len(self.betas) - 1, 2))
        for p in range(len(work)):
            work[p, 0] = self.learning.log_evidence(self.values[p], self.betas[p + 1]) - self.log_evidence[p]
            work[p, 1] = self.log_evidence[p + 1] - self.learning.log_evidence(self.values[p + 1], self.betas[p])
        self.work = work
        return work

    def _exchange_pair(self, p: int) -> int:
        up, down = self.work[p]
        if np.log(self.streams.pair(p).random()) >= up - down:
            return 0
        self.log_evidence[p], self.log_evidence[p + 1] = (
            self.log_evidence[p + 1] - down,
            self.log_evidence[p] + up,
        )
        self._swap(p)
        return self.problem.n_sites


def as_log_likelihoods(work: Floats, betas: Floats) -> Floats:
    """(R,) log-likelihoods of paths that would swap with the same probabilities."""
    if not len(work):
        return np.zeros(len(betas))
    steps = np.diff(betas)
    out = np.empty(len(betas))
    out[-1] = work[-1, 1] / steps[-1]
    for p in range(len(work) - 1, -1, -1):
        out[p] = out[p + 1] - (work[p, 1] - work[p, 0]) / steps[p]
    return out

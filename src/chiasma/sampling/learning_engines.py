"""Engines for models with priors: every replica has its own path and parameters.

`ConditionalEngine` alternates between parameters given the path and the path given the parameters; crossovers use each
replica's own likelihoods and transitions, and a swap exchanges path and parameters together. `CollapsedEngine` samples
the parameters with the paths integrated out by the exact filter, and draws paths only for the kept draws.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from chiasma.errors import ImpossibleData
from chiasma.kernels import ensemble
from chiasma.kernels.layout import Layout
from chiasma.models.target import Target
from chiasma.sampling.engines import LoopEngine
from chiasma.sampling.exchanges import Swap
from chiasma.sampling.learning import Learning
from chiasma.sampling.problems import LearningProblem, Start, State
from chiasma.sampling.slices import SliceLines
from chiasma.storage.trace import Draws
from chiasma.types import Floats, Integers


class LearningEngine(LoopEngine):
    """Base class of both engines: values (R, P) of the parameters in addition to the paths."""

    problem: LearningProblem

    def _first_states(self, n_replicas: int, start: Start) -> State:
        self.learning = self.problem.learning
        values, states = [], []
        for r in range(n_replicas):
            rng = self.streams.initial(r)
            values.append(self.learning.parameters.pack(start.values, self.learning.sample_prior(rng)))
            states.append(self._first_path(self.learning.target(values[-1]), start.states, rng))
        self.values = np.array(values)
        self.lines = SliceLines(n_replicas, self._blocks(), self.learning.plain.parameters.n_free)
        return np.array(states, np.int64)

    @abstractmethod
    def _first_path(self, target: Target, given: Integers | None, rng: np.random.Generator) -> Integers:
        """(T,) a path to start from, from codes of all rows if they are given."""

    @abstractmethod
    def _blocks(self) -> list[Integers]:
        """Blocks of free coordinates that share the lines of slice sampling."""

    def _take_over(self, nearest: Integers) -> None:
        super()._take_over(nearest)
        self.values = self.values[nearest].copy()
        self.lines.adapt()
        self.lines.take_over(nearest)

    def restart(self) -> None:
        self.lines.adapt()
        super().restart()

    def checkpoint(self) -> dict[str, Any]:
        return super().checkpoint() | {"values": self.values, "directions": self.lines.directions}

    def restore(self, checkpoint: Mapping[str, Any]) -> None:
        self.values = np.array(checkpoint["values"])
        self.lines = SliceLines(len(self.values), self._blocks(), self.learning.plain.parameters.n_free)
        self.lines.directions = np.array(checkpoint["directions"])
        super().restore(checkpoint)

    def empty_draws(self, n: int, thin: int) -> Draws:
        plain = super().empty_draws(n, thin)
        return plain._replace(values=np.empty((len(plain.log_prior), self.values.shape[1])))

    def _iterate(self, r: int, warming_up: bool) -> None:
        self._update(r)
        if warming_up:
            self.lines.see(r, self.learning.plain.parameters.to_free(self._own(r)))

    def _own(self, r: int) -> Floats:
        """Values of a replica but those of an offset."""
        return np.asarray(self.values[r, : self.learning.parameters.n_own])

    @abstractmethod
    def _update(self, r: int) -> None:
        """Update the parameters of a replica, and its path unless paths are integrated out."""

    def _record(self, draws: Draws, n: int, codes: Integers, log_prior: float, log_liks: Floats) -> None:
        """Write the cold replica into draw n: codes of all rows, and their log prior at its parameters."""
        values = self.values[-1]
        draws.log_lik[n] = log_liks
        draws.log_prior[n] = log_prior + self.learning.log_prior(values)
        draws.states[n], draws.values[n] = self.problem.in_order(codes, values)

    def _swap(self, p: int) -> None:
        for held in (self.values, self.states):
            held[[p, p + 1]] = held[[p + 1, p]]


class ConditionalEngine(LearningEngine):
    """Gibbs sampling: parameters given the path, then the path given the parameters.

    The path is one of codes of the target, in which equal rows are counted. Which of them are in which state is drawn
    anew for every update of the parameters.
    """

    bound = ("targets", "log_liks")

    def _blocks(self) -> list[Integers]:
        return self.learning.plain.given_paths.blocks

    def _first_path(self, target: Target, given: Integers | None, rng: np.random.Generator) -> Integers:
        return target.sample_prior(rng) if given is None else target.reduce(given)

    def code_layout(self) -> Layout:
        return self.learning.typical.layout

    def log_densities(self) -> Floats:
        return np.array([self.log_liks, [self.learning.log_prior(values) for values in self.values]])

    def _bind(self) -> None:
        self.targets = [self.learning.target(values) for values in self.values]
        pairs = zip(self.targets, self.states, strict=True)
        self.log_liks = np.array([target.log_likelihood(codes) for target, codes in pairs])

    def _update(self, r: int) -> None:
        beta, rng, learning = self.betas[r], self.streams.replica(r), self.learning
        if beta == 0 and not learning.data.known:
            self.values[r] = learning.sample_prior(rng)
            self.targets[r] = learning.target(self.values[r])
            self.states[r] = self.targets[r].sample_prior(rng)
        else:
            path = self.targets[r].expand(self.states[r], rng)
            self.values[r] = learning.update_given_path(self.values[r], path, beta, self.lines, r, rng)
            self.targets[r] = learning.target(self.values[r])
            self.problem.update.prepare(self.targets[r], beta).step(self.states[r], rng)
        self.log_liks[r] = self.targets[r].log_likelihood(self.states[r])

    def _look(self) -> Floats:
        return self.log_liks

    def _keep(self, draws: Draws, n: int, log_liks: Floats) -> None:
        target = self.targets[-1]
        codes = target.expand(self.states[-1], self.streams.arrangement())
        self._record(draws, n, codes, target.log_parts(codes)[0], log_liks)

    def _exchange_pair(self, p: int) -> tuple[int, bool]:
        rng, betas, pair = self.streams.pair(p), self.betas[p : p + 2], slice(p, p + 2)
        before = self.states[p].copy()
        move = self.problem.exchange
        if move is not None and move != Swap():
            step = move.prepare(self.targets[p], self.targets[p + 1], *betas)
            if step.step(self.states[p], self.states[p + 1], rng):
                for r in (p, p + 1):
                    self.log_liks[r] = self.targets[r].log_likelihood(self.states[r])
        swapped = bool(rng.random() < ensemble.swap_probability(*betas, *self.log_liks[pair]))
        if swapped:
            self._swap(p)
            self.targets[pair] = self.targets[pair][::-1]
            self.log_liks[pair] = self.log_liks[pair][::-1].copy()
        return int(np.count_nonzero(before != self.states[p])), swapped


# Columns that a piece of a run covers, about.
PIECE_COLUMNS = 2**15


class CollapsedEngine(LearningEngine):
    """Parameters with the path integrated out. work[p]: log Z(beta_{p+1}) - log Z(beta_p) at the parameters of rung p,
    and the same at those of rung p + 1. In swap probabilities it replaces the log-likelihood of a path times the
    difference of the betas.
    """

    def _first_path(self, target: Target, given: Integers | None, rng: np.random.Generator) -> Integers:
        return self.learning.prior_path(target, rng) if given is None else given

    def _blocks(self) -> list[Integers]:
        return [np.arange(self.learning.plain.parameters.n_free)]

    def code_layout(self) -> Layout:
        return self.learning.model.layout

    def log_densities(self) -> Floats:
        targets = [self.learning.target(values) for values in self.values]
        pairs = zip(targets, self.states, strict=True)
        log_liks = [target.log_parts(codes)[1] for target, codes in pairs]
        return np.array([log_liks, [self.learning.log_prior(values) for values in self.values]])

    def piece(self) -> int:
        # An iteration over few columns takes less time than handing over its draw.
        return max(1, PIECE_COLUMNS // self.problem.n_sites)

    def _bind(self) -> None:
        self.placed: dict[bytes, Learning] = {}  # by the values of the offset
        pairs = zip(self.values, self.betas, strict=True)
        self.log_evidence = np.array([self.learning.log_evidence(values, beta) for values, beta in pairs])

    def empty_draws(self, n: int, thin: int) -> Draws:
        plain = super().empty_draws(n, thin)
        return plain._replace(work=np.empty((len(plain.log_prior), len(self.betas) - 1, 2)))

    def _update(self, r: int) -> None:
        beta, rng, learning = self.betas[r], self.streams.replica(r), self.learning
        if beta == 0 and not learning.data.known:
            self.values[r] = learning.sample_prior(rng)
            return
        if self.log_evidence[r] == -np.inf:
            self._start_again(r, rng)
        own = self._without_offset(r)
        if own.parameters:
            self.values[r, : own.parameters.n_values], self.log_evidence[r] = own.update_collapsed(
                self._own(r), self.log_evidence[r], beta, self.lines, r, rng
            )
        self._update_offset(r)

    def _without_offset(self, r: int) -> Learning:
        """The problem of learning the other parameters of a replica, given its offset."""
        n_own = self.learning.parameters.n_own
        if n_own == self.learning.parameters.n_values:
            return self.learning
        key = self.values[r, n_own:].tobytes()
        if key not in self.placed:
            latest = list(self.placed.items())[-len(self.betas) :]
            self.placed = dict(latest) | {key: self.learning.given(self.values[r])}
        return self.placed[key]

    def _update_offset(self, r: int) -> None:
        """Draw the path and, given it, the offset. The path is then forgotten, so that this leaves the target of the
        parameters invariant in which paths are integrated out.
        """
        if self.learning.parameters.offset is None:
            return
        beta, rng, learning = self.betas[r], self.streams.replica(r), self.learning
        path = learning.draw_path(learning.target(self.values[r]), beta, rng)
        self.values[r] = learning.update_offset(self.values[r], path, beta, rng)
        self.log_evidence[r] = learning.log_evidence(self.values[r], beta)

    def _start_again(self, r: int, rng: np.random.Generator) -> None:
        """Draw the start from the prior again until the data are possible under it."""
        for _ in range(1000):
            self.values[r] = self.learning.sample_prior(rng)
            self.log_evidence[r] = self.learning.log_evidence(self.values[r], self.betas[r])
            if self.log_evidence[r] > -np.inf:
                return
        raise ImpossibleData(
            "the data have probability zero under 1,000 draws of the parameters from their priors; check the data "
            "against the emission (a background keeps counts possible), or start with init={...}"
        )

    def _look(self) -> Floats:
        work = np.empty((len(self.betas) - 1, 2))
        for p in range(len(work)):
            work[p, 0] = self.learning.log_evidence(self.values[p], self.betas[p + 1]) - self.log_evidence[p]
            work[p, 1] = self.log_evidence[p + 1] - self.learning.log_evidence(self.values[p + 1], self.betas[p])
        self.work = work
        return as_log_likelihoods(work, self.betas)

    def _keep(self, draws: Draws, n: int, log_liks: Floats) -> None:
        """Draw a path for every rung, and keep the log-likelihoods of these paths."""
        draws.work[n] = self.work
        own = np.empty(len(self.betas))
        for r, (values, beta) in enumerate(zip(self.values, self.betas, strict=True)):
            target = self.learning.target(values)
            self.states[r] = self.learning.draw_path(target, beta, self.streams.replica(r))
            log_prior, own[r] = target.log_parts(self.states[r])
        self._record(draws, n, self.states[-1], log_prior, own)

    def _exchange_pair(self, p: int) -> tuple[int, bool]:
        up, down = self.work[p]
        if np.log(self.streams.pair(p).random()) >= up - down:
            return 0, False
        self.log_evidence[p], self.log_evidence[p + 1] = (
            self.log_evidence[p + 1] - down,
            self.log_evidence[p] + up,
        )
        self._swap(p)
        return self.problem.n_sites, True


def as_log_likelihoods(work: Floats, betas: Floats) -> Floats:
    """(R,) log-likelihoods that give the same swap probabilities as work (R - 1, 2)."""
    if not len(work):
        return np.zeros(len(betas))
    steps = np.diff(betas)
    out = np.empty(len(betas))
    out[-1] = work[-1, 1] / steps[-1]
    for p in range(len(work) - 1, -1, -1):
        out[p] = out[p + 1] - (work[p, 1] - work[p, 0]) / steps[p]
    return out

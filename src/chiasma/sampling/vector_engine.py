"""The engine of vectors: all replicas of a chain together, one call of the density for all of them.

An iteration updates every replica; every `every`-th one ends with an exchange step. Random numbers of a piece of
iterations are drawn ahead, in the order in which they are read, so that pieces of any length give the same draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chiasma.kernels import vectors
from chiasma.kernels.ensemble import Tally, first_pair
from chiasma.sampling.engines import Engine
from chiasma.sampling.exchanges import Swap
from chiasma.sampling.mode_jumps import ModeJumper, pool
from chiasma.sampling.problems import Start, State
from chiasma.sampling.replicas import Replicas
from chiasma.sampling.vector_exchanges import AugmentedStep, BalancedCrossover, bind_exchange
from chiasma.sampling.vector_problem import VectorProblem
from chiasma.sampling.vector_updates import bind_update
from chiasma.storage.trace import Draws
from chiasma.types import Floats, Integers

# Iterations of a piece at most, and random numbers in it.
LONGEST, NUMBERS = 64, 2**18
# Iterations between whole evaluations, where log-densities are added up from changes.
REFRESH = 1000
# Evaluations of crossovers, as a share of those of updates: on a ladder from the prior, whose swaps find the modes by
# themselves, and on a shorter one (benchmarks/results/vectors.md).
SHARE, SHORT_SHARE = 0.2, 1.0
# A crossover that is hardly ever taken is still tried a hundredth as often as one that always is.
RAREST = 0.01
# Crossovers of a pair before their share of successes says something.
FEWEST = 10


class VectorEngine(Engine):
    """Replicas of any density."""

    problem: VectorProblem

    def _first_states(self, n_replicas: int, start: Start) -> State:
        if start.states is not None:
            return np.array(np.broadcast_to(start.states, (n_replicas, self.problem.n_sites)), order="C")
        return np.array([self.problem.initial(self.streams.initial(r)) for r in range(n_replicas)])

    def _bind(self) -> None:
        density, learned = self.problem.density, getattr(self, "learned", None)
        self.replicas = Replicas(density, self.betas, self.states)
        self.step = bind_update(density, self.betas, self.streams.replica)
        if learned is not None:
            self.step.take_over(learned)
        self.learned = self.step.learned
        exchange = self.problem.exchange
        self.swaps = isinstance(exchange, Swap | BalancedCrossover)
        self.crosses = None if exchange is None or isinstance(exchange, Swap) else bind_exchange(exchange, density)
        self.exact = self.step.exact and not (isinstance(self.crosses, AugmentedStep) and density.has_local)
        self.order = np.arange(len(self.betas))
        # Crossovers of each pair that were tried and that moved a part of a vector; exchange steps between crossovers.
        self.tried, self.taken = np.zeros((2, len(self.betas) - 1), int)
        self.spacing = self._spacing(1.0)

    def _spacing(self, taken: float) -> int:
        """Exchange steps from one crossover to the next; taken: the share of them that move a part of a vector."""
        if not isinstance(self.problem.exchange, BalancedCrossover):
            return 1
        n_replicas = len(self.betas)
        candidates = self.problem.n_sites * max(n_replicas - 1, 1 + (n_replicas == 2))
        updates = n_replicas * self.step.evaluations * self.every
        share = SHARE if self.betas[0] == 0 else SHORT_SHARE
        return max(1, int(np.ceil(candidates / (share * updates * max(taken, RAREST)))))

    def _take_over(self, nearest: Integers) -> None:
        super()._take_over(nearest)
        self.learned = {
            name: values if name in ModeJumper.SHARED else values[nearest] for name, values in self.learned.items()
        }

    @property
    def pools(self) -> bool:
        return self.step.jumper is not None

    def pool(self, engines: Sequence[Engine], last: bool) -> None:
        jumpers = [engine.step.jumper for engine in engines if isinstance(engine, VectorEngine)]
        if self.pools:
            pool([jumper for jumper in jumpers if jumper is not None], last)

    def restart(self) -> None:
        """As any engine; what the warm-up has shown of crossovers now says how often they are tried."""
        super().restart()
        if not hasattr(self, "tried"):
            return
        known = self.tried >= FEWEST
        if known.any():
            # Vectors must pass all pairs, and crossovers always succeed between hot ones.
            self.spacing = self._spacing(float((self.taken[known] / self.tried[known]).min()))
            self.tried[:], self.taken[:] = 0, 0

    def piece(self) -> int:
        numbers = len(self.betas) * (self.step.n_uniforms + self.step.n_normals + 2)
        return max(1, min(LONGEST, NUMBERS // numbers))

    def log_densities(self) -> Floats:
        # Evaluated anew, and not as kept with the replicas: a resumed run compares them, to notice a changed function.
        parts = (self.problem.density.log_likelihood, self.problem.density.log_prior)
        return np.array([[part(state) for state in self.states] for part in parts])

    def advance(self, n: int, thin: int) -> Draws:
        draws = self.empty_draws(n, thin)
        kept = 0
        for first in range(0, n, self.piece()):
            kept += self._run(min(self.piece(), n - first), thin, Draws(*(part[kept:] for part in draws)))
        return draws

    def _run(self, n: int, thin: int, draws: Draws) -> int:
        step, replicas, n_replicas = self.step, self.replicas, len(self.betas)
        uniforms = self.streams.batch(0).random((n, n_replicas, step.n_uniforms))
        normals = self.streams.batch(1).standard_normal((n, n_replicas, step.n_normals))
        every = self.every if self.problem.exchange is not None and n_replicas > 1 else 0
        start = self.iteration
        # Replicas swap between the parts of a step, too, for swaps evaluate nothing.
        self.n_turns = step.n_parts if self.swaps and every == 1 else 1
        turns = self.n_turns * ((start + n) // every - start // every) if every else 0
        n_cross = 0 if self.crosses is None else self.crosses.n_uniforms
        pair_uniforms = self.streams.batch(2).random((turns, n_replicas - 1, 1 + n_cross))
        turn = kept = 0
        self.sums, self.counts = pack(self.tally)
        for i in range(n):
            for part in range(step.n_parts):
                step.do(part, replicas, uniforms[i], normals[i])
                if part < step.n_parts - 1 and every and self.n_turns > 1:
                    self._swap(pair_uniforms[turn, :, 0])
                    turn += 1
            if not thin:
                step.adapt(replicas, normals[i])
            done = start + i + 1
            if not self.exact and (done % REFRESH == 0 or done == 1):
                replicas.refresh()
            if thin and done % thin == 0:
                draws.states[kept] = replicas.states[-1]
                draws.log_lik[kept] = replicas.log_lik
                draws.log_prior[kept] = replicas.log_prior[-1]
                kept += 1
            if every and done % every == 0:
                self._exchange(done // every, pair_uniforms[turn])
                turn += 1
        self.tally = unpack(self.sums, self.counts)
        self.iteration += n
        return kept

    def _exchange(self, turn: int, uniforms: Floats) -> None:
        """The exchange step that ends the iteration; uniforms (R - 1, ...) of all pairs."""
        replicas, tally = self.replicas, (self.sums, self.counts)
        # Two in a row, so that pairs of both parities cross over.
        if self.crosses is not None and (turn // 2 % self.spacing == 0 or not self.swaps):
            n_replicas = len(self.betas)
            pairs = np.arange(first_pair(turn if self.swaps else int(self.counts[0]), n_replicas), n_replicas - 1, 2)
            before = replicas.log_lik.copy()
            differ = np.count_nonzero(replicas.states[pairs] != replicas.states[pairs + 1], axis=1)
            moved = self.crosses(replicas, pairs, uniforms[pairs, 1:])
            vectors.tally_pairs(self.betas, before, *tally, pairs, moved)
            self.tried[pairs] += 1
            self.taken[pairs] += (moved > 0) & (moved < differ)
        elif self.swaps:
            self._swap(uniforms[:, 0])

    def _swap(self, uniforms: Floats) -> None:
        """Swaps of the pairs of the current parity; uniforms (R - 1,)."""
        replicas = self.replicas
        vectors.swap_pairs(
            self.betas, replicas.states, replicas.log_lik, replicas.log_prior, uniforms, self.sums, self.counts,
            self.order,
        )  # fmt: skip
        replicas.reorder(self.order)

    def checkpoint(self) -> dict[str, Any]:
        learned = {f"learned_{name}": values for name, values in self.learned.items()}
        crossings = np.concatenate([self.tried, self.taken, [self.spacing]])
        log_parts = np.stack([self.replicas.log_lik, self.replicas.log_prior])
        parts = {"log_parts": log_parts, "crossings": crossings}
        return super().checkpoint() | learned | parts

    def restore(self, checkpoint: Mapping[str, Any]) -> None:
        super().restore(checkpoint)
        self.step.take_over({name: np.array(checkpoint[f"learned_{name}"]) for name in self.learned})
        self.learned = self.step.learned
        self.replicas.log_lik[:], self.replicas.log_prior[:] = checkpoint["log_parts"]
        n_pairs, crossings = len(self.betas) - 1, np.array(checkpoint["crossings"])
        self.tried, self.taken = crossings[:n_pairs].copy(), crossings[n_pairs:-1].copy()
        self.spacing = int(crossings[-1])


def pack(tally: Tally) -> tuple[Floats, Integers]:
    """Its sums and its counts, each as one array."""
    sums = np.concatenate([tally.acceptance, tally.log_lik])
    counts = (tally.steps, tally.moves, tally.changed, tally.columns, tally.labels, tally.leg, tally.round_trips)
    return sums, np.concatenate(counts)


def unpack(sums: Floats, counts: Integers) -> Tally:
    """The tally of `pack`."""
    r = (len(sums) + 1) // 2
    steps, moves, changed, columns, labels, leg, trips = np.split(counts, np.cumsum([1, r - 1, r - 1, r - 1, r, r]))
    return Tally(steps, sums[: r - 1], sums[r - 1 :], moves, changed, columns, labels, leg, trips)

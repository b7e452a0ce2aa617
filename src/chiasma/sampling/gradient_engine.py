"""GradientEngine: parameters with the paths integrated out, by jumps to the optima and by Hamiltonian Monte Carlo.

The optima of the posterior are found first (`optimise`). Every chain starts near one of them, drawn in proportion to
their masses and spread more widely than they are. An iteration then consists of
- jumps: independence Metropolis-Hastings steps from a mixture of Student-t densities around all optima (`laplace`), one
  filter each, or one for four of them. They lead from any optimum to any other, and are accepted with
  pi(y) q(x) / (pi(x) q(y)).
- trajectories (HMC) by gradients, in the coordinates of a part of that mixture, where the target is about round. They
  serve where the density is not like its approximation, and are made as often as jumps fail.
Both leave the target invariant at any beta. During warm-up the mixture, the step size and the schedule learn from the
draws, and from the weights of the proposals; then they are fixed.

The proposals of the jumps also give the evidence, by bridge sampling between them and the draws.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from chiasma.errors import InvalidInput
from chiasma.kernels.side_by_side import FOUR
from chiasma.sampling.laplace import Proposals, no_share_too_small, orders
from chiasma.sampling.learning import Learning
from chiasma.sampling.learning_engines import CollapsedEngine
from chiasma.sampling.optimise import find_peaks
from chiasma.sampling.problems import Start, State
from chiasma.sampling.progress import Progress
from chiasma.sampling.updates import Collapsed
from chiasma.storage.trace import Draws
from chiasma.types import Floats, Integers

# Optima whose log mass is further below that of the best have no share that a run could see: no jump goes there.
DEEPEST = 25.0
# Starts are spread by this many standard deviations of an optimum.
SPREAD = 2.0
# Length of a trajectory in standard deviations: a quarter of the period of a round target, after which it has forgotten
# where it began; at most this many steps.
LENGTH, MOST_STEPS = np.pi / 2, 24
# Wanted acceptance of trajectories, and how fast their step size follows it.
ACCEPTANCE, LEARNING_RATE = 0.8, 0.6
# Jumps in an iteration: as many as lead to so many accepted ones, and at most this many.
ACCEPTED, MOST_JUMPS = 2.75, 8
# Iterations from trajectory to trajectory, by the least share of jumps that are accepted: where most are, trajectories
# take a small part of the time.
SCHEDULE = ((0.65, 64), (0.4, 32), (0.25, 8), (0.1, 2), (0.0, 1))
# A share of accepted jumps with which proposals are left as they are: curvatures know more than a few draws.
GOOD = 0.7
# Draws that count as much as what Laplace's approximation says, per coordinate.
TRUST = 2
# Adaptation in warm-up: after this many draws, and each time that they have doubled.
FIRST_ADAPTATION = 32

# Arrays that the next iteration depends on. The log evidence of the state is among them: a filter of one state need not
# give the last bits of one that took four.
TUNED = ("log_step", "n_jumps", "every_hmc", "turn", "proposed", "log_evidence")


class GradientEngine(CollapsedEngine):
    """Values (R, P) as in CollapsedEngine, with proposals, a step size and a schedule per rung."""

    def _first_states(self, n_replicas: int, start: Start) -> State:
        self.given = bool(start.values)
        self.proposals: list[Proposals] = []
        self._forget(n_replicas)
        return super()._first_states(n_replicas, start)

    def _forget(self, n_rungs: int) -> None:
        """No tuning yet, and nothing learned."""
        size = max(1, self.problem.learning.plain.parameters.n_free)
        self.log_step = np.full(n_rungs, np.log(1.2 * size**-0.25))
        self.n_jumps = np.full(n_rungs, self._whole(1))
        self.every_hmc = np.ones(n_rungs, np.int64)  # iterations from trajectory to trajectory
        self.turn = np.zeros(n_rungs, np.int64)
        self.proposed = np.zeros((n_rungs, 2))  # log target - log proposal, at the last proposal and at the state
        self._forget_draws(n_rungs)

    def _forget_draws(self, n_rungs: int) -> None:
        self.seen = np.zeros(n_rungs, np.int64)
        self.tried = np.zeros((n_rungs, 2))  # jumps, and the sum of their acceptance probabilities
        # Draws of the chain, and proposals with their importance weights: those know more where jumps are good.
        n_peaks = len(self.proposals[0].tops) if self.proposals else 0
        self.draws_seen, self.jumps_seen = (
            [WeightedMoments(n_peaks, self.problem.learning.plain.parameters.n_free) for _ in range(n_rungs)]
            for _ in range(2)
        )

    # ---- Beginning --------------------------------------------------------------------------------------------------

    def begin(self, display: Progress, workers: int | None) -> None:
        learning, update = self.learning, self.problem.update
        assert isinstance(update, Collapsed)
        with self.problem.finding:
            if self.problem.peaks is None:
                self.problem.peaks = find_peaks(learning, update.starts, self.streams.entropy, workers, display)
        self._propose()
        if not self.given:
            for r, beta in enumerate(self.betas):
                if beta > 0:
                    self._start_near_optimum(r, self.streams.initial(r))
        CollapsedEngine._bind(self)

    def _start_near_optimum(self, r: int, rng: np.random.Generator) -> None:
        for _ in range(1000):
            (free,) = self.proposals[r].draw(rng, 1, SPREAD)
            (peak,), _ = self.proposals[r].nearest(free[None])
            values = np.concatenate([self.learning.plain.parameters.from_free(free), self.offsets[peak]])
            if self.learning.log_prior_free(values) > -np.inf and (
                self.learning.log_evidence(values, self.betas[r]) > -np.inf
            ):
                self.values[r] = values
                return
        raise InvalidInput(
            "the posterior density is zero or not finite all around the optima; give a start with init={...}"
        )

    def _propose(self) -> None:
        """Proposals of every rung from the optima."""
        scale, maps = self.learning.plain.parameters.scale, orders(self.learning)
        least = self.problem.peaks[0][0].log_mass(scale) - DEEPEST
        peaks = [peak for peak, _ in self.problem.peaks if peak.log_mass(scale) > least]
        self.proposals = [Proposals.of(peaks, scale, float(beta), maps) for beta in self.betas]
        self.offsets = [peak.offset for peak in peaks]
        self._forget_draws(len(self.betas))

    def _bind(self) -> None:
        super()._bind()
        if self.problem.peaks is not None and self.proposals:
            self._propose()

    def _take_over(self, nearest: Integers) -> None:
        super()._take_over(nearest)
        self._forget(len(nearest))

    # ---- Iterations -------------------------------------------------------------------------------------------------

    def _iterate(self, r: int, warming_up: bool) -> None:
        if not self.proposals:
            self.begin(Progress(False, "", 0), None)
        self.warming_up = warming_up
        self._update(r)
        if warming_up and self.betas[r] > 0:
            self._see(r)

    def _update(self, r: int) -> None:
        beta, rng = self.betas[r], self.streams.replica(r)
        if beta == 0 and not self.learning.data.known:
            self.values[r] = self.learning.sample_prior(rng)
            return
        if self.log_evidence[r] == -np.inf:
            self._start_again(r, rng)
        if self.learning.parameters.n_own:
            if self.turn[r] % self.every_hmc[r] == 0:
                self._trajectory(r, rng)
            self.turn[r] += 1
            if self.n_jumps[r]:
                self._jump(r, int(self.n_jumps[r]), rng)
        self._update_offset(r)

    def _here(self, r: int) -> tuple[Floats, float]:
        """Free coordinates of a replica, and their log density."""
        values = self._own(r)
        return self.learning.plain.parameters.to_free(values), self._log_prior(values) + self.log_evidence[r]

    def _log_prior(self, values: Floats) -> float:
        """That of the free coordinates: the Jacobian is part of it. An offset is given."""
        return self.learning.plain.log_prior_free(values)

    def _jump(self, r: int, n: int, rng: np.random.Generator) -> None:
        """Independence Metropolis-Hastings, n times: propose from the mixture, wherever the chain is. So proposals are
        made all at once, which is faster.
        """
        proposals = self.proposals[r]
        free, here = self._here(r)
        others = proposals.draw(rng, n)
        own, *log_densities = proposals.log_density(np.vstack([free, others])).tolist()
        weight = here - own  # log target - log proposal density
        log_uniforms = np.log(rng.random(n)).tolist()
        places = [self.learning.plain.parameters.from_free(other) for other in others]
        log_priors = [self._log_prior(values) for values in places]
        log_evidences = self._log_evidences(r, places, log_priors)
        weights = [sum(parts) for parts in zip(log_priors, log_evidences, np.negative(log_densities), strict=True)]
        accepted = 0.0
        for i, there in enumerate(weights):
            accepted += math.exp(min(there - weight, 0.0))
            if log_uniforms[i] < there - weight:
                self.values[r, : len(places[i])], self.log_evidence[r] = places[i], log_evidences[i]
                weight = there
        self.proposed[r] = there, weight
        self.tried[r] += n, accepted
        if self.warming_up:
            self.jumps_seen[r].add(*proposals.nearest(others), np.array(weights))

    def _log_evidences(self, r: int, places: list[Floats], log_priors: list[float]) -> list[float]:
        """Log evidences of values (P,) each, filtered together; those that the prior excludes are not."""
        possible = [values for values, log_prior in zip(places, log_priors, strict=True) if log_prior > -np.inf]
        found = iter(self._without_offset(r).log_evidences(possible, self.betas[r]))
        return [next(found) if log_prior > -np.inf else -np.inf for log_prior in log_priors]

    def _trajectory(self, r: int, rng: np.random.Generator) -> None:
        """Hamiltonian Monte Carlo in coordinates in which the target is about round.

        These differ from peak to peak, and from one order of equal rows to another. So a part of the proposals claims
        the state first, with its share s(x) of their density there; given the part, the target is pi(x) s(x), and
        coordinates u with free = root u are fixed. Leapfrog steps keep volumes and turn around by themselves whatever
        slopes they follow, those of pi: s enters the acceptance only.
        """
        step = np.exp(self.log_step[r]) * rng.uniform(0.8, 1.2)
        proposals = self.proposals[r]
        free, here = self._here(r)
        peak, at, log_share = proposals.claim(free, rng)
        momentum = rng.standard_normal(len(at))
        energy = 0.5 * momentum @ momentum - here - log_share
        n_steps = int(min(MOST_STEPS, np.ceil(LENGTH / step)))
        arguments = self.betas[r], proposals.roots[peak], step, n_steps
        with np.errstate(over="ignore", invalid="ignore"):  # a trajectory that leaves the earth is rejected
            value, at, momentum = self.leapfrog(self._without_offset(r), *arguments, at, momentum)
            there = value + proposals.log_share(at, peak) if np.isfinite(value) else -np.inf
            log_ratio = np.nan_to_num(energy + there - 0.5 * momentum @ momentum, nan=-np.inf)
        if self.warming_up:
            rate = LEARNING_RATE / np.sqrt(self.turn[r] + 1.0)
            self.log_step[r] += rate * (np.exp(min(float(log_ratio), 0.0)) - ACCEPTANCE)
        if np.log(rng.random()) < log_ratio:
            own = self.learning.plain.parameters.from_free(at)
            self.values[r, : len(own)] = own
            self.log_evidence[r] = value - self._log_prior(own)

    @staticmethod
    def leapfrog(
        learning: Learning, beta: float, root: Floats, step: float, n_steps: int, at: Floats, momentum: Floats
    ) -> tuple[float, Floats, Floats]:
        """n_steps of Hamilton's equations from free coordinates `at`: log density, coordinates and momentum there.

        Ends early where the density is zero.
        """
        value, slope = learning.value_and_slope(at, beta)
        for _ in range(n_steps):
            momentum = momentum + 0.5 * step * (root.T @ slope)
            at = at + step * (root @ momentum)
            value, slope = learning.value_and_slope(at, beta)
            if not np.isfinite(value):
                break
            momentum = momentum + 0.5 * step * (root.T @ slope)
        return value, at, momentum

    # ---- Learning in warm-up ----------------------------------------------------------------------------------------

    def _see(self, r: int) -> None:
        free = self.learning.plain.parameters.to_free(self._own(r))
        self.draws_seen[r].add(*self.proposals[r].nearest(free[None]), np.zeros(1))
        self.seen[r] += 1
        if self.seen[r] >= FIRST_ADAPTATION and int(self.seen[r]).bit_count() == 1:
            self._adapt(r)

    def _adapt(self, r: int) -> None:
        """Move the proposals to what was seen, unless they are good as they are, and jump as often as it pays."""
        n, accepted = self.tried[r]
        if not n or accepted / n < GOOD:
            self._learn_proposals(r)
        if n:
            share = accepted / n
            self.n_jumps[r] = self._whole(int(np.clip(np.ceil(ACCEPTED / max(share, 1e-3)), 1, MOST_JUMPS)))
            self.every_hmc[r] = next(every for least, every in SCHEDULE if share >= least)
        self.tried[r] = 0.0

    def _whole(self, n_jumps: int) -> int:
        """Jumps that are filtered side by side come in fours: the last ones cost nothing."""
        return -(-n_jumps // FOUR) * FOUR if self.problem.learning.side_by_side else n_jumps

    def _learn_proposals(self, r: int) -> None:
        old, size = self.proposals[r], self.learning.plain.parameters.n_free
        tops, covariances, trust = old.tops.copy(), old.covariances.copy(), TRUST * size
        seen = zip(self.draws_seen[r].sums(), self.jumps_seen[r].sums(), strict=True)
        weights, first, second = (draws + jumps for draws, jumps in seen)
        shares = weights + 50 * old.shares
        for peak, n in enumerate(weights):
            if n < 2 * size + 2:
                continue
            mean = first[peak] / n
            found = second[peak] / n - np.outer(mean, mean)
            tops[peak] = (n * mean + trust * old.tops[peak]) / (n + trust)
            covariances[peak] = (n * found + trust * old.covariances[peak]) / (n + trust)
        self.proposals[r] = Proposals(tops, covariances, no_share_too_small(shares), old.maps)

    def restart(self) -> None:
        super().restart()
        if self.proposals:
            for r in range(len(self.betas)):
                if self.seen[r] >= FIRST_ADAPTATION:
                    self._adapt(r)
            self._forget_draws(len(self.betas))

    # ---- Records ----------------------------------------------------------------------------------------------------

    def empty_draws(self, n: int, thin: int) -> Draws:
        plain = super().empty_draws(n, thin)
        # Proposals that depend on an offset do not give the evidence.
        if len(self.betas) > 1 or self.learning.parameters.offset is not None:
            return plain
        return plain._replace(work=np.empty((len(plain.log_prior), 1, 2)))

    def _look(self) -> Floats:
        if len(self.betas) > 1 or self.learning.parameters.offset is not None:
            return super()._look()
        self.work = self.proposed
        return np.zeros(1)

    def checkpoint(self) -> dict[str, Any]:
        mixtures = {
            name: np.array([getattr(one, name) for one in self.proposals]) for name in ("tops", "covariances", "shares")
        }
        return super().checkpoint() | {name: getattr(self, name) for name in TUNED} | mixtures

    def restore(self, checkpoint: Mapping[str, Any]) -> None:
        super().restore(checkpoint)
        for name in TUNED:
            setattr(self, name, np.array(checkpoint[name]))
        maps = orders(self.learning)
        mixtures = zip(checkpoint["tops"], checkpoint["covariances"], checkpoint["shares"], strict=True)
        self.proposals = [Proposals(*arrays, maps) for arrays in mixtures]
        self._forget_draws(len(self.betas))  # the ladder may have grown before


# ---- Moments of weighted points, apart for every peak ----------------------------------------------------------------


class WeightedMoments:
    """Sums over points (d,) of M peaks: of weights (M,), of weighted points (M, d) and of their products (M, d, d).

    Weights are given as logarithms and may be of any size: sums are relative to the largest weight so far.
    """

    def __init__(self, n_peaks: int, size: int):
        self.top = -np.inf
        self.weight = np.zeros(n_peaks)
        self.first = np.zeros((n_peaks, size))
        self.second = np.zeros((n_peaks, size, size))
        self.squares = 0.0  # sum of squared weights

    def add(self, peaks: Integers, points: Floats, log_weights: Floats) -> None:
        """Points (n, d) of some peaks (n,); a log weight of -inf counts nothing."""
        top = max(self.top, float(np.max(log_weights)))
        if top == -np.inf:
            return
        shrink = np.exp(self.top - top)
        for sums in (self.weight, self.first, self.second):
            sums *= shrink
        weights = np.exp(log_weights - top)
        self.squares = self.squares * shrink**2 + float(weights @ weights)
        self.top = top
        np.add.at(self.weight, peaks, weights)
        np.add.at(self.first, peaks, weights[:, None] * points)
        np.add.at(self.second, peaks, weights[:, None, None] * points[:, :, None] * points[:, None, :])

    @property
    def effective(self) -> float:
        """How many points of equal weights are worth as much."""
        return float(self.weight.sum() ** 2 / self.squares) if self.squares else 0.0

    def sums(self) -> tuple[Floats, Floats, Floats]:
        """Weights, weighted points and products, with weights that add up to the effective number of points.

        >>> moments = WeightedMoments(1, 2)
        >>> moments.add(np.array([0, 0]), np.array([[1.0, 0.0], [3.0, 2.0]]), np.array([700.0, 700.0]))
        >>> weight, first, _ = moments.sums()
        >>> float(weight[0]), (first[0] / weight[0]).tolist()
        (2.0, [2.0, 1.0])
        """
        scale = self.effective / self.weight.sum() if self.squares else 0.0
        return scale * self.weight, scale * self.first, scale * self.second

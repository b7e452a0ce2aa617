"""A vector of any density as a problem, and how the arguments of sample() pose it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.models.density import Density, Vector
from chiasma.sampling.exchanges import Exchange
from chiasma.sampling.ladder import Ladder
from chiasma.sampling.plan import Plan, plan_replicas
from chiasma.sampling.problems import Problem, Start
from chiasma.sampling.vector_exchanges import BalancedCrossover, bind_exchange
from chiasma.sampling.vector_updates import VectorUpdate, bind_update, resolve_update

# A flat prior over real numbers is no distribution to draw from: without log_prior the ladder ends at this temperature,
# where modes 50 standard deviations apart are joined, and normal tails still hold a replica.
FLAT_SIZE, FLAT_HOTTEST = 10, 100.0


class VectorProblem(Problem):
    """A vector of any density."""

    name = "x"
    parts = ("density", "exchange")

    def __init__(self, density: Density, exchange: Exchange | None = None):
        self.density = density
        self.exchange = exchange
        self.n_sites = density.size
        self.record_dtype = density.dtype
        # Raise errors for what does not suit before anything runs.
        bind_update(density, [1.0])
        if exchange is not None:
            bind_exchange(exchange, density)

    def initial(self, rng: np.random.Generator) -> Vector:
        """A fresh state of positive density that the update can change."""
        return self.check_state(self.density.initial(rng))

    def check_state(self, x: npt.ArrayLike, name: str = "init") -> Vector:
        """A copy of x as a state; raises InvalidInput if it is not a valid one."""
        state = self.density.as_state(x, name)
        update = resolve_update(self.density)
        if isinstance(update, VectorUpdate):
            update.check_values(name, state)
        return self.density.check_state(state, name)


def pose_vectors(
    density: Density, data: Any, update: Any, exchange: Any, ladder: Any, init: Any
) -> tuple[Problem, Plan, Start]:
    if data is not None:
        raise InvalidInput("a Density carries its data itself; call sample(density) without data")
    if update != "auto":
        raise InvalidInput("a Density carries its update; give it there: ch.Density(..., update=...)")
    plan = plan_replicas(None, exchange, ladder, BalancedCrossover(), "update of the density")
    if not density.has_proper_prior and plan.ladder.betas[0] == 0:
        reason = plan.reason
        if isinstance(ladder, str):
            finite = Ladder.geometric(FLAT_SIZE, FLAT_HOTTEST)
            plan = replace(plan, ladder=replace(finite, adapt=True, resize=True))
            reason = f"update of the density; ladder up to temperature {FLAT_HOTTEST:g}, adapted in warm-up"
            reason += f"; {type(plan.exchange).__name__} exchanges"
        plan = replace(plan, reason=f"{reason}; no evidence, for there is no log_prior")
    problem = VectorProblem(density, plan.exchange)
    given = problem.initial(np.random.default_rng(0)) if init is None else problem.check_state(init)
    density.check_functions(given)
    return problem, plan, Start() if init is None else Start(given)

"""VectorProblem: a Density with its update and its exchange, as the sampler drives it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.models.density import Density, Vector
from chiasma.sampling.exchanges import Exchange
from chiasma.sampling.vector_exchanges import VectorPair, check_exchange, prepare_exchange
from chiasma.sampling.vector_updates import SiteGibbs, VectorStep, prepare_update, resolve_update


class VectorProblem:
    """A density and the exchange between its replicas, as a sampler drives them."""

    name = "x"

    def __init__(self, density: Density, exchange: Exchange | None = None):
        if exchange is not None:
            check_exchange(exchange)
        self.density = density
        self.exchange = exchange
        self.n_sites = density.size
        self.dtype = self.record_dtype = density.dtype
        # An update that does not fit is refused before anything runs.
        self.sweep(1.0)

    def initial(self, rng: np.random.Generator) -> Vector:
        """A fresh state of positive density that the update can change."""
        return self.check_state(self.density.initial(rng))

    def check_state(self, x: npt.ArrayLike, name: str = "init") -> Vector:
        """A copy of x as a state, or an error that says what is wrong with it."""
        state = self.density.as_state(x, name)
        update = resolve_update(self.density)
        if isinstance(update, SiteGibbs):
            outside = ~np.isin(state, update.alphabet)
            if outside.any():
                t = int(np.argmax(outside))
                raise InvalidInput(
                    f"{name} must hold values of the alphabet {list(update.alphabet)}, got {state[t]} at site {t}"
                )
        return self.density.check_state(state, name)

    def sweep(self, beta: float) -> VectorStep:
        return prepare_update(self.density, beta)

    def pair(self, beta_i: float, beta_j: float) -> VectorPair:
        if self.exchange is None:
            raise InvalidInput("a pair of replicas needs an exchange, got None; pass exchange=AugmentedCrossover()")
        return prepare_exchange(self.exchange, self.density, beta_i, beta_j)

    def log_likelihood(self, state: Vector) -> float:
        """The tempered part of the log target."""
        return self.density.log_likelihood(state)

    def log_prior(self, state: Vector) -> float:
        """The part that is not tempered."""
        return self.density.log_prior(state)

    def record(self, states: Vector) -> Vector:
        """What is kept of states (n, size): all of it."""
        return states

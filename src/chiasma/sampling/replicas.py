"""The vectors of one chain, one per rung, with their log-densities."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.models.density import Density, Vector
from chiasma.types import Floats, Integers

# Sums of local changes may differ from a whole evaluation by rounding; more than this is a mistake of the user's.
DRIFT = 1e-6


class Replicas:
    """betas, log_lik, log_prior (R,) and states (R, size): log_density and log_prior are kept with each vector.

    carried : further arrays (R, ...) that belong to the vectors and change places with them.
    stale (R,) : whether a vector has changed since `carried` was computed.
    """

    def __init__(self, density: Density, betas: npt.ArrayLike, states: Vector):
        self.density = density
        self.betas = np.asarray(betas, float)
        self.states = states
        self.log_lik, self.log_prior = density.parts(states)
        self.carried: list[Floats] = []
        self.stale = np.ones(len(states), bool)

    def reorder(self, order: Integers) -> None:
        """Let what is carried follow vectors that have changed places."""
        if self.carried:
            for values in (*self.carried, self.stale):
                values[:] = values[order]

    def refresh(self) -> None:
        """Evaluate all vectors anew, and compare with what local changes have added up to."""
        log_lik, log_prior = self.density.parts(self.states)
        scale = 1 + np.abs(log_lik)
        with np.errstate(invalid="ignore"):  # two infinities
            apart = np.flatnonzero(np.abs(log_lik - self.log_lik) > DRIFT * scale)
        if len(apart):
            r = int(apart[0])
            raise InvalidInput(
                f"changes of log_density by single coordinates must add up: they give {self.log_lik[r]:.9g} where the "
                f"density itself is {log_lik[r]:.9g}, at {self.states[r]}; check local= and neighbours=, and whether "
                "log_density always gives the same value"
            )
        self.log_lik[:], self.log_prior[:] = log_lik, log_prior

    def check_possible(self) -> None:
        """Raise an error if a state has zero density, which only a user's own functions can cause."""
        value = self.log_prior + np.where(self.betas > 0, self.log_lik, 0.0)
        if not value.min() > -np.inf:
            x = self.states[int(np.argmin(value))]
            raise InvalidInput(
                f"a state has zero density at its temperature: {np.array2string(x, threshold=24, edgeitems=8)}; an "
                "update must never move outside the support, and prior_draw must draw from log_prior"
            )

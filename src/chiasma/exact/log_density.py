"""log_density(): the posterior of the parameters as a plain function of unconstrained numbers, with its gradient.

For optimisers and samplers of other packages. Positive parameters enter by their logarithms, probabilities by their
logits, parameters that add up to 1 by log ratios to the last; the density includes the Jacobian of these changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from chiasma.errors import ImpossibleData, InvalidInput
from chiasma.exact.gradients import evidence_and_slopes
from chiasma.exact.passes import MEMORY
from chiasma.extras import extra
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.models.target import check_beta
from chiasma.types import Floats, as_floats


class ParameterDensity:
    """log p(parameters) + log p(y | parameters), the paths integrated out, at unconstrained coordinates x (size,).

    Call it for the value; `value_and_gradient` gives both. Where data or parameters are impossible, the value is -inf
    and the gradient zero. `ch.exact.log_density` makes it.

    Parameters
    ----------
    model, data, beta, memory : as given to `ch.exact.log_density`.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(1)))
    >>> function = ch.exact.log_density(model, [0.1, 1.2, 0.9, 0.2])
    >>> function.size, round(function(function.start({"sd": 0.3})), 3)
    (1, -5.905)
    """

    def __init__(self, model: FactorialHMM, data: Observations, beta: float, memory: int):
        self.model = model
        self.data = data
        self.beta = beta
        self.memory = memory
        self.size = model.parameters.n_free

    def __call__(self, x: npt.ArrayLike) -> float:
        return self.value_and_gradient(x)[0]

    def value_and_gradient(self, x: npt.ArrayLike) -> tuple[float, Floats]:
        """The value and its derivatives.

        Parameters
        ----------
        x : (size,) unconstrained coordinates.

        Returns
        -------
        A float and an array (size,).

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(1)))
        >>> value, slope = ch.exact.log_density(model, [0.1, 1.2, 0.9, 0.2]).value_and_gradient([-1.2])
        >>> round(value, 3), slope.round(3).tolist()
        (-5.903, [0.599])
        """
        parameters = self.model.parameters
        free = as_floats("x", x)
        if free.shape != (self.size,):
            raise InvalidInput(f"x must have shape ({self.size},), one number per free coordinate, got {free.shape}")
        values = parameters.from_free(free)
        log_prior = parameters.log_prior_free(values) if self.model.admits(values, self.data) else -np.inf
        if log_prior > -np.inf:
            # At the far ends of the coordinates, where optimisers look now and then, numbers overflow.
            with suppress(ImpossibleData), np.errstate(all="ignore"):
                log_evidence, slopes = evidence_and_slopes(self.model, self.data, values, self.beta, self.memory)
                slope = parameters.free_slopes(values, slopes)
                if np.isfinite(log_evidence) and np.isfinite(slope).all():
                    return log_prior + log_evidence, slope
        return -np.inf, np.zeros(self.size)

    def values(self, x: npt.ArrayLike) -> dict[str, Floats]:
        """Parameters by name at a point.

        Parameters
        ----------
        x : (size,) unconstrained coordinates.

        Returns
        -------
        A dictionary of arrays.

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(1)))
        >>> ch.exact.log_density(model, [0.1, 1.2]).values([0.0])["sd"].tolist()
        1.0
        """
        return self.model.parameters.unpack(self.model.parameters.from_free(as_floats("x", x)))

    def start(self, values: Mapping[str, Any] | None = None) -> Floats:
        """Coordinates of some values; a parameter that is left out has a typical value of its prior.

        Parameters
        ----------
        values : numbers or arrays by name.

        Returns
        -------
        An array (size,) of unconstrained coordinates.

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(1)))
        >>> ch.exact.log_density(model, [0.1, 1.2]).start({"sd": 1.0}).tolist()
        [0.0]
        """
        parameters = self.model.parameters
        return parameters.to_free(parameters.pack(values or {}, parameters.centre))

    def as_jax(self) -> Callable[[Any], Any]:
        """A function for JAX, with its gradient, as BlackJAX or NumPyro take it; switch on jax_enable_x64 first.

        Returns
        -------
        A function of an array (size,) that jax.grad and jax.vmap work on.

        Examples
        --------
        >>> import chiasma as ch
        >>> import jax  # doctest: +SKIP
        >>> jax.config.update("jax_enable_x64", True)  # doctest: +SKIP
        >>> log_density = ch.exact.log_density(model, y).as_jax()  # doctest: +SKIP
        >>> slope = jax.grad(log_density)(x)  # doctest: +SKIP
        """
        with extra("jax"):
            import jax
            import jax.numpy as jnp

        shapes = jax.ShapeDtypeStruct((), jnp.float64), jax.ShapeDtypeStruct((self.size,), jnp.float64)

        def both(x: Any) -> Any:
            value, slope = self.value_and_gradient(np.asarray(x, float))
            return np.float64(value), slope

        def forward(x: Any) -> Any:
            return jax.pure_callback(both, shapes, x, vmap_method="sequential")

        function = jax.custom_vjp(lambda x: forward(x)[0])
        function.defvjp(forward, lambda slope, pull: (pull * slope,))
        return function

    def as_pytensor(self) -> Any:
        """An operation for PyTensor, with its gradient, for pm.Potential of a PyMC model.

        Returns
        -------
        An operation that takes a vector (size,).

        Examples
        --------
        >>> import chiasma as ch
        >>> import pymc as pm  # doctest: +SKIP
        >>> function = ch.exact.log_density(model, y)  # doctest: +SKIP
        >>> with pm.Model():  # doctest: +SKIP
        ...     x = pm.Flat("x", shape=function.size)
        ...     pm.Potential("log_density", function.as_pytensor()(x))
        """
        with extra("pymc"):
            import pytensor.tensor as pt
            from pytensor.graph.op import Op

        outer = self

        class Gradient(Op):  # type: ignore[misc]
            itypes = (pt.dvector,)
            otypes = (pt.dvector,)

            def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
                outputs[0][0] = outer.value_and_gradient(inputs[0])[1]

        class Value(Op):  # type: ignore[misc]
            itypes = (pt.dvector,)
            otypes = (pt.dscalar,)

            def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
                outputs[0][0] = np.asarray(outer(inputs[0]))

            def grad(self, inputs: Any, pulls: Any) -> Any:
                return [pulls[0] * Gradient()(inputs[0])]

        return Value()


def log_density(
    model: FactorialHMM, data: Observations | npt.ArrayLike, beta: float = 1.0, memory: int = MEMORY
) -> ParameterDensity:
    """The log posterior density of the parameters of a model, not normalised, as a function for other packages.

    Parameters
    ----------
    model : a model with priors.
    data : Observations, or the signal as an array (T,) or (T, D).
    beta : inverse temperature of the likelihood.
    memory : bytes that the messages of the filter may take.

    Returns
    -------
    A ParameterDensity, to be called with unconstrained coordinates.

    Examples
    --------
    >>> import chiasma as ch
    >>> from scipy.optimize import minimize
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(1)))
    >>> function = ch.exact.log_density(model, [0.1, 1.2, 0.9, 0.2])
    >>> def cost(x):
    ...     value, slope = function.value_and_gradient(x)
    ...     return -value, -slope
    >>> found = minimize(cost, function.start(), jac=True)
    >>> round(float(function.values(found.x)["sd"]), 2)
    0.66
    """
    model = model.for_data(data)
    if not model.parameters:
        raise InvalidInput("a density of parameters needs priors, got none; try sd=ch.HalfNormal(1)")
    model.parameters.check_gradients()
    seen = Observations.of(data)
    model.emission.check(seen)
    return ParameterDensity(model, seen, check_beta(beta), memory)

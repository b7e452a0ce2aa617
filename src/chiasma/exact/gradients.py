"""Gradients of the log evidence with respect to every parameter, by Fisher's identity.

    d/dtheta log Z_beta = E[ d/dtheta (log p(X | theta) + beta log p(y | X, theta)) | y ]

One filter and one pass back give the expected moves of every row by kind of edge, which answer for the transition
matrices, and the smoothed distribution of every column, which answers for the emission. All parameters together cost
about three filters. Memory is bounded as in the filter: segments are filtered again on the way back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.exact.passes import MEMORY, Passes
from chiasma.models.additive import Additive
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.models.target import Target, check_beta
from chiasma.types import Floats


class Slopes(NamedTuple):
    """log Z_beta, and its derivatives with respect to what a model is made of.

    by_matrix : (E, S_k, S_k) for every row, every entry of its matrices on its own; a fixed row has zeros.
    by_add : (S_k,) or (S_k, D) for every row: what each of its states adds to the level.
    by_emission : the parameters of the emission by name.
    by_offset : (T,) what is added to the signal of every column.
    precisions : (T,) precisions of the columns, see `Additive.pull`.
    """

    log_evidence: float
    by_matrix: list[Floats]
    by_add: list[Floats]
    by_emission: dict[str, Floats]
    by_offset: Floats
    precisions: Floats


def value_and_gradient(
    model: FactorialHMM,
    data: Observations | npt.ArrayLike,
    values: Mapping[str, Any] | None = None,
    beta: float = 1.0,
    memory: int = MEMORY,
) -> tuple[float, dict[str, Floats]]:
    """log Z_beta(values) + log prior(values), and its derivatives with respect to every parameter with a prior.

    Parameters
    ----------
    model : a model with priors.
    data : Observations, or the signal as an array (T,) or (T, D).
    values : numbers or arrays by name; a parameter that is left out has a typical value of its prior.
    beta : inverse temperature of the likelihood.
    memory : bytes that the messages of the filter may take.

    Returns
    -------
    The value, and an array of the shape of each parameter by name. Derivatives are those with respect to the parameters
    themselves. Parameters that add up to 1 have a direction in which their sum does not change: it adds up to 0.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(1)))
    >>> value, gradient = ch.exact.value_and_gradient(model, [0.1, 1.2, 0.9], {"sd": 0.3})
    >>> round(value, 3), gradient["sd"].round(3).tolist()
    (-2.748, -5.185)
    """
    model = model.for_data(data)
    parameters = model.parameters
    if not parameters:
        raise InvalidInput("a gradient needs parameters with priors, got none; try sd=ch.HalfNormal(1)")
    parameters.check_gradients()
    seen = Observations.of(data)
    at = parameters.pack(values or {}, parameters.centre)
    value, slopes = evidence_and_slopes(model, seen, at, check_beta(beta), memory)
    whole = parameters.tangent(slopes + parameters.slopes(at))
    return value + parameters.log_prior(at), {name: own.copy() for name, own in parameters.unpack(whole).items()}


def evidence_and_slopes(
    model: FactorialHMM, data: Observations, values: Floats, beta: float, memory: int = MEMORY
) -> tuple[float, Floats]:
    """log Z_beta at values (P,) of the learned parameters, and its derivatives (P,), entry by entry."""
    parameters = model.parameters
    if beta == 0 and not data.known:
        return 0.0, np.zeros(parameters.n_values)
    placed = model.with_unchecked_values(parameters.unpack(values))
    offset = parameters.offset
    found = evidence_slopes(placed, data, beta, memory, model.emission.priors, offset is not None)
    named = placed.parameter_slopes(data, found.by_matrix, found.by_add) | found.by_emission
    if offset is not None:
        named |= {name: np.zeros(prior.shape) for name, prior in offset.priors.items()}
        named |= offset.named(offset.project(found.by_offset))
    slopes = np.empty(parameters.n_values)
    for slot in parameters.slots:
        own = np.asarray(named[slot.name])
        slopes[slot.values] = own.ravel() if slot.prior.shape else own.sum()
    return found.log_evidence, slopes


def evidence_slopes(
    model: FactorialHMM, data: Observations, beta: float, memory: int, names: Collection[str], offset: bool = False
) -> Slopes:
    """Derivatives for a model without priors; names: the parameters of the emission that are wanted; offset: whether
    those of the columns are.
    """
    target = model.exact_target(data)
    passes = Passes(target, beta, memory=memory)
    counts = np.zeros((len(target.trans), target.trans[0].size))
    gamma = np.empty(passes.n_states)
    levels = getattr(target.likelihood, "levels", None)
    own = [name for name in names if name != "weights"]
    emission: dict[str, Floats] = {}
    by_offset, precisions = np.zeros((2, data.n_columns if offset else 0))
    if model.offset is not None:
        data = model.offset.subtracted(data)
    for segment in passes.backward():
        passes.kernels.count(segment.alpha, segment.first, gamma, counts)
        if levels is None:
            continue  # a table has no parameters
        assert isinstance(model.emission, Additive)
        y = data.y[segment.first : segment.stop]
        for name, slope in model.emission.summed_slopes(y, levels, segment.alpha, own).items():
            emission[name] = emission.get(name, 0.0) + beta * slope
        if offset:
            own_columns = slice(segment.first, segment.stop)
            pull, precision = model.emission.summed_pull(y, levels, segment.alpha)
            by_offset[own_columns], precisions[own_columns] = beta * pull, beta * precision
    by_level = emission.pop("level", np.zeros(passes.n_states))
    with np.errstate(divide="ignore", invalid="ignore"):
        by_trans = np.where(counts > 0, counts / target.trans.reshape(counts.shape), 0.0)
    return Slopes(passes.log_evidence, *_by_row(model, target, by_trans, by_level), emission, by_offset, precisions)


def _by_row(
    model: FactorialHMM, target: Target, by_trans: Floats, by_level: Floats
) -> tuple[list[Floats], list[Floats]]:
    """Derivatives with respect to the matrices of every row of the model, and to what its states add to the level."""
    n_kinds, channels = len(by_trans), by_level.shape[1:]
    sizes = [int(size) for size in model.layout.sizes]
    by_matrix = [np.zeros((n_kinds, size, size)) for size in sizes]
    by_add = [np.zeros((size, *channels)) for size in sizes]
    for k, state in model.fixed.items():
        by_add[k][state] = by_level.sum(axis=0)
    place, stride = 0, 1
    for i, (size, rows) in enumerate(zip(target.layout.sizes.tolist(), target.groups, strict=True)):
        matrix = by_trans[:, place : place + size**2].reshape(n_kinds, size, size)
        add = by_level.reshape(-1, size, stride, *channels).sum(axis=(0, 2))
        if len(rows) > 1:
            axis = target.axes[i]
            # Equal rows have equal shares of what they do together.
            matrix = axis.group.lump_slopes(axis.matrices, matrix) / len(rows)
            add = axis.group.counts.T @ add / len(rows)
        for k in rows:
            by_matrix[k], by_add[k] = matrix, add
        place += size**2
        stride *= size
    return by_matrix, by_add

"""Markov chains: Switch, Sticky and Markov of one row, Switches of all rows of two states, and their derivatives.

A chain has S states, an initial distribution, and a transition matrix A (S, S) for one step. Over a gap d it is A^d:
    Switch   two states; A^d = 1 pi' + (1 - enter - leave)^d (I - 1 pi'), for any real d
    Sticky   A = lambda I + (1 - lambda) 1 pi', so A^d = lambda^d I + (1 - lambda^d) 1 pi', for any real d
    Markov   whole d: powers by repeated squaring. Real d: exp(Q d), Q the rates; of a matrix, its principal logarithm

A function f of the matrices A_e (E, S, S) of all kinds of edges has derivatives by_matrix[e, x, x'], df/dA_e[x, x'], of
every entry on its own. `*_slopes` turn them into derivatives with respect to the parameters that the matrices are made
of (the chain rule from the outside in). Kind 0 is a start, all of whose rows are the initial distribution.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy  # its parts load when they are first used

from chiasma.errors import InvalidInput
from chiasma.kernels.transitions import fill_transitions
from chiasma.models.arguments import EITHER, RARE, Argument, Learnable
from chiasma.models.observations import Observations
from chiasma.models.priors import Dirichlet, DirichletRows, Prior, check_prior
from chiasma.types import Floats, as_floats

# ---- Derivatives -----------------------------------------------------------------------------------------------------

# Below this product of rate and gap, the derivative of (1 - (1 - rate)^gap) / rate is taken from its series.
_SMALL = 1e-4


def switch_slopes(
    enter: Floats, leave: Floats, stationary: bool, gaps: Floats, by_matrix: Floats
) -> tuple[Floats, Floats, Floats]:
    """Derivatives with respect to enter, leave and initial, each (K,), for by_matrix (E, K, 2, 2).

    stationary: initial is enter / (enter + leave), and its derivative is part of theirs.
    """
    rate = enter + leave
    by_start = (by_matrix[0, :, :, 1] - by_matrix[0, :, :, 0]).sum(axis=-1)
    by_gone = by_matrix[1:, :, 0, 1] - by_matrix[1:, :, 0, 0]
    by_came = by_matrix[1:, :, 1, 0] - by_matrix[1:, :, 1, 1]
    share, bend = _share(rate, gaps[1:, None])
    common = (by_gone * enter + by_came * leave) * bend
    by_enter = (by_gone * share + common).sum(axis=0)
    by_leave = (by_came * share + common).sum(axis=0)
    if stationary:
        by_enter = by_enter + by_start * leave / rate**2
        by_leave = by_leave - by_start * enter / rate**2
    return by_enter, by_leave, by_start


def _share(rate: Floats, gaps: Floats) -> tuple[Floats, Floats]:
    """(1 - (1 - rate)^gap) / rate and its derivative with respect to the rate, both (E, K)."""
    safe = np.where(rate > 0, rate, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mixed = np.where(safe < 0.5, -np.expm1(gaps * np.log1p(-safe)), 1 - (1 - safe) ** gaps)
        slope = np.where(gaps == 1, 1.0, gaps * (1 - safe) ** (gaps - 1))
    share = np.where(rate > 0, mixed / safe, gaps)
    series = gaps * (gaps - 1) * (-0.5 + rate * (gaps - 2) / 3)
    return share, np.where(rate * gaps < _SMALL, series, (slope - share) / safe)


def sticky_slopes(renew: float, stationary: Floats, gaps: Floats, by_matrix: Floats) -> tuple[float, Floats]:
    """Derivatives with respect to renew and to the probabilities (S,), the start left out; by_matrix (E, S, S)."""
    steps = by_matrix[1:]
    kept = (1 - renew) ** gaps[1:]
    into = steps.sum(axis=1)  # (E, S)
    by_kept = np.trace(steps, axis1=1, axis2=2) - into @ stationary
    by_renew = -np.sum(by_kept * gaps[1:] * (1 - renew) ** (gaps[1:] - 1))
    return float(by_renew), (1 - kept) @ into


def power_slopes(matrix: Floats, powers: Floats, by_power: Floats) -> Floats:
    """(S, S) derivatives with respect to a matrix, from those with respect to its whole powers, by_power (E, S, S).

    The upper right block of [[A', G], [0, A']]^d is sum_i A'^i G A'^(d-1-i), which is what the chain rule asks for.
    """
    size = len(matrix)
    block = np.zeros((len(powers), 2 * size, 2 * size))
    block[:, :size, :size] = block[:, size:, size:] = matrix.T
    block[:, :size, size:] = by_power
    out = np.broadcast_to(np.eye(2 * size), block.shape).copy()
    whole = powers.astype(np.int64)
    for bit in range(int(whole.max(initial=0)).bit_length()):
        chosen = whole >> bit & 1 == 1
        out[chosen] = out[chosen] @ block[chosen]
        block = block @ block
    return np.asarray(out[:, :size, size:].sum(axis=0))


def stationary_slopes(matrix: Floats, stationary: Floats, by_stationary: Floats) -> Floats:
    """(S, S) derivatives with respect to a matrix, from those with respect to its stationary distribution (S,).

    Rows of a matrix add up to 1, so that only directions along which they do have a meaning.
    """
    fundamental = np.linalg.inv(np.eye(len(matrix)) - matrix + stationary)
    return np.outer(stationary, fundamental @ by_stationary)


# ---- Of one row ------------------------------------------------------------------------------------------------------

# How far a distribution may be from adding up to 1 (relative to the largest rate: rates from adding up to 0). What
# is missing counts once per column, so this is little more than rounding.
TOLERANCE = 1e-12

# A matrix with an eigenvalue nearer to zero than this has no logarithm that rounding leaves intact.
_SINGULAR = 1e-8
# Entries of a principal logarithm that are negative or imaginary by no more than this are zeros: a share of the
# largest rate, and what rounding adds.
_NO_RATE = 1e-10, 1e-15


class RowChain(Learnable, ABC):
    """What all Markov chains of a row share. Parameters may be priors: typical values then stand in for them."""

    initial: Floats | None

    @property
    @abstractmethod
    def n_states(self) -> int | None:
        """Number of states; None where any number will do."""

    def initial_distribution(self, n_states: int) -> Floats:
        """(S,) probabilities of the states at the start of a sequence."""
        self._check_size(n_states)
        return self._stationary(n_states) if self.initial is None else self.initial.copy()

    def matrices(self, n_states: int, gaps: Floats) -> Floats:
        """(E, S, S) for the kinds of edges of `Observations.edge_kinds`: kind e > 0 has the gap gaps[e].

        Kind 0 is a start: there every row of the matrix is the initial distribution.
        """
        out = np.empty((len(gaps), n_states, n_states))
        out[0] = self.initial_distribution(n_states)
        out[1:] = self._steps(n_states, np.asarray(gaps[1:], float))
        return out

    @abstractmethod
    def _stationary(self, n_states: int) -> Floats:
        """(S,)."""

    @abstractmethod
    def _steps(self, n_states: int, gaps: Floats) -> Floats:
        """(E, S, S) matrices over E gaps."""

    @abstractmethod
    def slopes(self, n_states: int, gaps: Floats, by_matrix: Floats) -> dict[str, Floats]:
        """Derivatives by name, from those with respect to the matrices, (E, S, S) as `matrices` orders them."""

    def _check_size(self, n_states: int) -> None:
        if self.n_states is not None and self.n_states != n_states:
            raise InvalidInput(
                f"the Markov chain has {self.n_states} states and its row {n_states}; give a row one value per state"
            )

    def _check_sizes(self, **parameters: Floats | None) -> None:
        """Refuse parameters with different numbers of states."""
        sizes = {name: len(value) for name, value in parameters.items() if value is not None}
        if len(set(sizes.values())) > 1:
            told = " and ".join(f"{name} {size}" for name, size in sizes.items())
            raise InvalidInput(f"{type(self).__name__} must have one number of states, got {told}; make them agree")

    def _probability(self, name: str, value: npt.ArrayLike | Prior) -> Floats:
        """() a number as it is; a prior is remembered, and its typical value stands in for it."""
        if isinstance(value, Prior):
            check_prior(name, value, ((),), 0.0, 1.0)
            return np.asarray(self._learned(name, value))
        given = as_floats(name, value)
        if given.ndim:
            raise InvalidInput(f"{name} must be a single probability, got shape {given.shape}; a row has one chain")
        _check_probabilities(name, given)
        return given

    def _distribution(self, name: str, values: npt.ArrayLike | Prior) -> Floats:
        """(S,), or the typical value of a Dirichlet."""
        if isinstance(values, Prior):
            if not isinstance(values, Dirichlet):
                raise InvalidInput(
                    f"the prior of {name} must give values that add up to 1, got {values}; use Dirichlet"
                )
            return np.asarray(self._learned(name, values))
        given = as_floats(name, values)
        if given.ndim != 1 or len(given) < 2:
            raise InvalidInput(f"{name} must be one probability per state, at least two, got shape {given.shape}")
        _check_distributions(name, given)
        return given

    def __repr__(self) -> str:
        given = {name: getattr(self, name) for name in self.arguments}
        told = {name: self.priors.get(name, value.tolist()) for name, value in given.items() if value is not None}
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in told.items())})"


class Switch(RowChain):
    """Two states, off and on.

    Parameters
    ----------
    enter : P(0 -> 1) from one column to the next.
    leave : P(1 -> 0).
    initial : P(1) at the start of a sequence. Default: the stationary probability, enter / (enter + leave).

    Examples
    --------
    >>> import chiasma as ch
    >>> ch.Switch(enter=0.01, leave=0.03).initial_distribution(2).tolist()
    [0.75, 0.25]
    """

    arguments: ClassVar[Mapping[str, Argument]] = {
        "enter": Argument("P(0 to 1) from site to site.", required=True, default_prior=RARE),
        "leave": Argument("P(1 to 0).", required=True, default_prior=RARE),
        "initial": Argument("P(1) at the start of a sequence.", default_prior=EITHER),
    }

    def __init__(
        self, enter: npt.ArrayLike | Prior, leave: npt.ArrayLike | Prior, initial: npt.ArrayLike | Prior | None = None
    ):
        self.enter = self._probability("enter", enter)
        self.leave = self._probability("leave", leave)
        self.initial = None if initial is None else self._probability("initial", initial)

    @property
    def n_states(self) -> int:
        return 2

    def initial_distribution(self, n_states: int) -> Floats:
        self._check_size(n_states)
        if self.initial is None:
            return self._stationary(n_states)
        return np.array([1.0 - self.initial, self.initial])

    def _stationary(self, n_states: int) -> Floats:
        rate = self.enter + self.leave
        if not rate:
            raise InvalidInput("a Switch with enter = leave = 0 has no single stationary distribution; give initial=")
        on = self.enter / rate
        return np.array([1.0 - on, on])

    def _steps(self, n_states: int, gaps: Floats) -> Floats:
        rate = float(self.enter + self.leave)
        if rate > 1 and np.any(gaps != 1):
            raise InvalidInput(
                f"gaps need enter + leave <= 1, got {rate:g}; drop the gaps or lower the switching probabilities"
            )
        trans = np.empty((len(gaps) + 1, 1, 4))
        enter, leave = (np.full(1, float(value)) for value in (self.enter, self.leave))
        fill_transitions(enter, leave, np.zeros(1), np.concatenate([[np.inf], gaps]), trans)
        return trans[1:].reshape(-1, 2, 2)

    def slopes(self, n_states: int, gaps: Floats, by_matrix: Floats) -> dict[str, Floats]:
        enter, leave = np.atleast_1d(self.enter), np.atleast_1d(self.leave)
        found = switch_slopes(enter, leave, self.initial is None, gaps, by_matrix[:, None])
        return {name: slope[0] for name, slope in zip(self.arguments, found, strict=True)}


class Sticky(RowChain):
    """Any number of states: a row stays where it is until its state is drawn anew.

    Parameters
    ----------
    renew : P(the state is drawn anew) from one column to the next; the same state may come again.
    probabilities : (S,) of the states in such a draw. Default: all equal.
    initial : (S,) probabilities at the start of a sequence. Default: `probabilities`, which is stationary.

    Examples
    --------
    >>> import numpy as np
    >>> import chiasma as ch
    >>> ch.Sticky(renew=0.2, probabilities=[0.5, 0.5]).matrices(2, np.array([np.inf, 1.0]))[1].round(12).tolist()
    [[0.9, 0.1], [0.1, 0.9]]
    """

    arguments: ClassVar[Mapping[str, Argument]] = {
        "renew": Argument("P(the state is drawn anew) from site to site.", required=True, default_prior=RARE),
        "probabilities": Argument("of the states in such a draw.", takes="list"),
        "initial": Argument("probabilities of the states at the start of a sequence.", takes="list"),
    }

    def __init__(
        self,
        renew: npt.ArrayLike | Prior,
        probabilities: npt.ArrayLike | Prior | None = None,
        initial: npt.ArrayLike | Prior | None = None,
    ):
        self.renew = self._probability("renew", renew)
        self.probabilities = None if probabilities is None else self._distribution("probabilities", probabilities)
        self.initial = None if initial is None else self._distribution("initial", initial)
        self._check_sizes(probabilities=self.probabilities, initial=self.initial)

    @property
    def n_states(self) -> int | None:
        given = self.initial if self.probabilities is None else self.probabilities
        return None if given is None else len(given)

    def _stationary(self, n_states: int) -> Floats:
        return np.full(n_states, 1.0 / n_states) if self.probabilities is None else self.probabilities.copy()

    def _steps(self, n_states: int, gaps: Floats) -> Floats:
        with np.errstate(divide="ignore"):  # renew = 1: every gap is an endless one
            log_stay = gaps * np.log1p(-self.renew)
        kept, renewed = np.exp(log_stay), -np.expm1(log_stay)
        steps = kept[:, None, None] * np.eye(n_states)
        return np.asarray(steps + renewed[:, None, None] * self._stationary(n_states))

    def slopes(self, n_states: int, gaps: Floats, by_matrix: Floats) -> dict[str, Floats]:
        by_renew, by_probabilities = sticky_slopes(float(self.renew), self._stationary(n_states), gaps, by_matrix)
        by_start = by_matrix[0].sum(axis=0)
        if self.initial is None:
            by_probabilities = by_probabilities + by_start
        return {"renew": np.asarray(by_renew), "probabilities": by_probabilities, "initial": by_start}


class Markov(RowChain):
    """Any number of states, and any transition matrix.

    Parameters
    ----------
    transition : (S, S) P(row -> column) from one column to the next.
    initial : (S,) probabilities at the start of a sequence. Default: the stationary distribution.
    rates : (S, S) rates per unit of distance, in place of `transition`: rows add up to 0. They serve gaps of any
        length; a matrix serves whole ones, and others where its principal logarithm consists of rates.

    Examples
    --------
    >>> import chiasma as ch
    >>> ch.Markov([[0.9, 0.1, 0.0], [0.0, 0.8, 0.2], [0.4, 0.0, 0.6]]).initial_distribution(3).round(3).tolist()
    [0.571, 0.286, 0.143]
    """

    arguments: ClassVar[Mapping[str, Argument]] = {
        "transition": Argument("matrix of the probabilities from state to state.", takes="list"),
        "initial": Argument("probabilities of the states at the start of a sequence.", takes="list"),
        "rates": Argument("matrix of rates per unit of distance, in place of transition.", takes="list"),
    }

    def __init__(
        self,
        transition: npt.ArrayLike | Prior | Sequence[Dirichlet] | None = None,
        initial: npt.ArrayLike | Prior | None = None,
        *,
        rates: npt.ArrayLike | None = None,
    ):
        if (transition is None) == (rates is None):
            got = "neither" if rates is None else "both"
            raise InvalidInput(f"Markov needs a transition matrix or rates, got {got}; give one of the two")
        self.transition = None if transition is None else self._transition(transition)
        self.rates = None if rates is None else _rates(rates)
        self.initial = None if initial is None else self._distribution("initial", initial)
        self._check_sizes(transition=self.transition, rates=self.rates, initial=self.initial)

    def _transition(self, given: Any) -> Floats:
        if isinstance(given, list | tuple) and given and all(isinstance(row, Dirichlet) for row in given):
            given = DirichletRows([row.concentration for row in given])
        if isinstance(given, Prior):
            if not isinstance(given, DirichletRows):
                raise InvalidInput(f"the prior of transition must be one Dirichlet per row in a list, got {given}")
            return np.asarray(self._learned("transition", given))
        matrix = _square("transition", given)
        _check_distributions("transition", matrix)
        return matrix

    @property
    def n_states(self) -> int:
        return len(self._flows)

    @property
    def _flows(self) -> Floats:
        """(S, S) whose off-diagonal entries are what flows from state to state."""
        flows = self.rates if self.transition is None else self.transition
        assert flows is not None  # one of the two is given
        return flows

    def _stationary(self, n_states: int) -> Floats:
        return _stationary_distribution(self._flows)

    def _steps(self, n_states: int, gaps: Floats) -> Floats:
        if self.transition is None:
            return _exponentials(self._flows, gaps)
        steps = np.empty((len(gaps), n_states, n_states))
        whole = gaps == np.floor(gaps)
        steps[whole] = _powers(self.transition, np.minimum(gaps[whole], 2.0**62).astype(np.int64))
        if not whole.all():
            steps[~whole] = _exponentials(_generator(self.transition, gaps[~whole][0]), gaps[~whole])
        return steps

    def slopes(self, n_states: int, gaps: Floats, by_matrix: Floats) -> dict[str, Floats]:
        by_start = by_matrix[0].sum(axis=0)
        if self.transition is None:
            return {"initial": by_start}
        broken = gaps[1:] != np.floor(gaps[1:])
        if broken.any():
            raise InvalidInput(
                f"a learned transition matrix needs gaps of whole numbers, got {gaps[1:][broken][0]:g}; round the "
                "gaps, or use ch.Sticky or ch.Switch, which serve gaps of any length"
            )
        by_transition = power_slopes(self.transition, gaps[1:], by_matrix[1:])
        if self.initial is None:
            by_transition = by_transition + stationary_slopes(self.transition, self._stationary(n_states), by_start)
        return {"transition": by_transition, "initial": by_start}


# ---- What is refused ------------------------------------------------------------------------------------------------


def _check_probabilities(name: str, values: Floats) -> None:
    bad = ~((values >= 0) & (values <= 1))
    if bad.any():
        raise InvalidInput(f"{name} must be probabilities in [0, 1], got {values[bad].ravel()[0]:g}; check the input")


def _check_distributions(name: str, values: Floats) -> None:
    """(S,) one distribution, (S, S) one in each row."""
    _check_probabilities(name, values)
    rows = np.atleast_2d(values)
    off = np.abs(rows.sum(axis=1) - 1)
    if np.any(off > TOLERANCE):
        worst = int(np.argmax(off))
        where = f"row {worst} of {name}" if values.ndim == 2 else name
        raise InvalidInput(
            f"{where} must add up to 1 within {TOLERANCE:g}, got {rows[worst].sum():.15g}; divide it by its sum"
        )


def _square(name: str, values: Any) -> Floats:
    matrix = as_floats(name, values)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise InvalidInput(
            f"{name} must be a square matrix, one row and one column per state, at least two, got shape {matrix.shape}"
        )
    return matrix


def _rates(values: Any) -> Floats:
    if isinstance(values, Prior):
        raise InvalidInput(f"rates are not learned, got {values}; give transition=[Dirichlet(...), ...] instead")
    rates = _square("rates", values)
    bad = ~(np.isfinite(rates) & ((rates >= 0) | np.eye(len(rates), dtype=bool)))
    if bad.any():
        raise InvalidInput(
            f"rates between different states must be finite and >= 0, got {rates[bad][0]:g}; "
            "only the diagonal is negative"
        )
    off = np.abs(rates.sum(axis=1))
    if np.any(off > TOLERANCE * np.abs(rates).max()):
        worst = int(np.argmax(off))
        raise InvalidInput(
            f"row {worst} of rates must add up to 0 within {TOLERANCE:g} of the largest rate, got "
            f"{rates[worst].sum():g}; put minus the sum of the others on the diagonal"
        )
    return rates


# ---- Mathematics of matrices ----------------------------------------------------------------------------------------


def _stationary_distribution(flows: Floats) -> Floats:
    """(S,) from the off-diagonal entries alone, by the algorithm of Grassmann, Taksar and Heyman.

    It never subtracts, so that probabilities keep their relative precision however rare the moves are.
    """
    reach = (flows > 0) | np.eye(len(flows), dtype=bool)
    for _ in range(len(flows).bit_length()):
        reach = reach @ reach
    # States that are come back to from wherever they lead.
    recurrent = np.flatnonzero((~reach | reach.T).all(axis=1))
    if not reach[np.ix_(recurrent, recurrent)].all():
        apart = int(recurrent[~reach[recurrent[0], recurrent]][0])
        raise InvalidInput(
            f"the stationary distribution is not unique: a row in state {recurrent[0]} and one in state {apart} never "
            "come together; give initial="
        )
    share = flows[np.ix_(recurrent, recurrent)].copy()
    for last in range(len(share) - 1, 0, -1):
        # Take the last state out: what flows into it goes on to where it leads.
        share[:last, last] /= share[last, :last].sum()
        share[:last, :last] += np.outer(share[:last, last], share[last, :last])
    weights = np.ones(len(share))
    for state in range(1, len(share)):
        weights[state] = weights[:state] @ share[:state, state]
    out = np.zeros(len(flows))
    out[recurrent] = weights / weights.sum()
    return out


def _powers(matrix: Floats, powers: npt.NDArray[np.int64]) -> Floats:
    """(E, S, S) matrix^powers[e] by repeated squaring, all of them at once."""
    out = np.broadcast_to(np.eye(len(matrix)), (len(powers), *matrix.shape)).copy()
    square = matrix
    for bit in range(int(powers.max(initial=0)).bit_length()):
        chosen = powers >> bit & 1 == 1
        out[chosen] = out[chosen] @ square
        # Rounding errors of sums double with every squaring; dividing them out keeps distributions what they are.
        square = _normalised(square @ square)
    out[powers > 1] = _normalised(out[powers > 1])
    return out


def _exponentials(rates: Floats, gaps: Floats) -> Floats:
    """(E, S, S) exp(rates * gaps[e])."""
    return _normalised(np.maximum(scipy.linalg.expm(rates * gaps[:, None, None]), 0.0))


def _normalised(matrices: Floats) -> Floats:
    return np.asarray(matrices / matrices.sum(axis=-1, keepdims=True))


def _generator(transition: Floats, gap: float) -> Floats:
    """The principal logarithm, where it is a matrix of rates."""
    remedy = "give rates=Q in place of transition, or gaps of whole numbers"
    values = np.linalg.eigvals(transition)
    if np.any(np.abs(values) < _SINGULAR):
        raise InvalidInput(f"the gap {gap:g} needs rates, and a singular transition matrix has none; {remedy}")
    logarithm = scipy.linalg.logm(transition)
    rates = logarithm.real
    outward = rates[~np.eye(len(rates), dtype=bool)]
    least = _NO_RATE[0] * np.abs(rates).max() + _NO_RATE[1]
    if np.abs(logarithm.imag).max() > least or outward.min() < -least:
        raise InvalidInput(
            f"the gap {gap:g} needs rates, and the principal logarithm of the transition matrix has negative or "
            f"complex ones; {remedy}"
        )
    rates = np.maximum(rates, 0.0)
    np.fill_diagonal(rates, 0.0)
    np.fill_diagonal(rates, -rates.sum(axis=1))
    return rates


ROW_CHAINS: dict[str, type[RowChain]] = {"switch": Switch, "sticky": Sticky, "markov": Markov}


# ---- Of all rows of two states ---------------------------------------------------------------------------------------


class Switches(Learnable):
    """Switching probabilities of the rows; a scalar holds for all rows, an array gives one value per row.

    A probability given as a prior is learned: Beta(1, 99) for one value for all rows, Beta([1, 1, 1], 99) for one each.

    Parameters
    ----------
    enter : P(0 -> 1) from one column to the next.
    leave : P(1 -> 0).
    initial : P(1) at the start of a sequence. Default: the stationary probability, enter / (enter + leave).

    Examples
    --------
    >>> import chiasma as ch
    >>> ch.Switches(enter=0.01, leave=0.03).probabilities(2)[2].tolist()
    [0.25, 0.25]
    """

    arguments: ClassVar[Mapping[str, Argument]] = {
        "enter": Argument(
            "P(0 to 1) from site to site: one number, or one per row.",
            required=True,
            takes="numbers",
            default_prior=RARE,
        ),
        "leave": Argument("P(1 to 0).", same_as="enter", takes="numbers", default_prior=RARE),
        "initial": Argument(
            "P(1) at the start of a sequence. Default: stationary.", takes="numbers", default_prior=EITHER
        ),
    }

    def __init__(
        self, enter: npt.ArrayLike | Prior, leave: npt.ArrayLike | Prior, initial: npt.ArrayLike | Prior | None = None
    ):
        self.enter = self._probability("enter", enter)
        self.leave = self._probability("leave", leave)
        self.initial = None if initial is None else self._probability("initial", initial)

    def _probability(self, name: str, value: npt.ArrayLike | Prior) -> Floats:
        """Return a number unchanged; keep a prior in `priors` and return its typical value."""
        if not isinstance(value, Prior):
            return _probability(name, value)
        check_prior(name, value, ((), value.shape[:1]), 0.0, 1.0)
        if isinstance(value, Dirichlet):
            raise InvalidInput(f"{name} of the rows need not add up to 1; use Beta in place of {value}")
        return np.asarray(self._learned(name, value))

    def probabilities(self, n_rows: int) -> tuple[Floats, Floats, Floats]:
        """enter, leave and initial, each (K,)."""
        enter = _per_row("enter", self.enter, n_rows)
        leave = _per_row("leave", self.leave, n_rows)
        if self.initial is not None:
            return enter, leave, _per_row("initial", self.initial, n_rows)
        rate = enter + leave
        if not all(rate.tolist()):  # of a few numbers: a list is asked in an eighth of the time
            raise InvalidInput(
                f"row {int(np.argmin(rate))} has enter = leave = 0 and so no stationary distribution; give initial="
            )
        return enter, leave, enter / rate

    def tables(self, n_rows: int, data: Observations) -> tuple[npt.NDArray[np.int32], Floats]:
        """edge (T,) and trans (E, K, 4) in the form that the kernels take."""
        enter, leave, initial = self.probabilities(n_rows)
        edge, gaps = data.edge_kinds()
        if data.gaps is not None and np.any(enter + leave > 1):
            k = int(np.argmax(enter + leave > 1))
            raise InvalidInput(
                f"gaps need enter + leave <= 1 in every row, got {enter[k] + leave[k]:g} in row {k}; "
                "drop the gaps or lower the switching probabilities"
            )
        trans = np.empty((len(gaps), n_rows, 4))
        fill_transitions(enter, leave, initial, gaps, trans)
        return edge, trans

    def slopes(self, n_rows: int, data: Observations, by_matrix: Floats) -> dict[str, Floats]:
        """Derivatives by name, each of its parameter's shape, from those with respect to the matrices, (E, K, 2, 2)."""
        enter, leave, _ = self.probabilities(n_rows)
        _, gaps = data.edge_kinds()
        by_row = switch_slopes(enter, leave, self.initial is None, gaps, by_matrix)
        named = {name: (getattr(self, name), slope) for name, slope in zip(self.arguments, by_row, strict=True)}
        return {name: slope if np.ndim(own) else slope.sum() for name, (own, slope) in named.items()}

    def __repr__(self) -> str:
        given = {name: getattr(self, name) for name in self.arguments}
        told = {name: self.priors.get(name, value.tolist()) for name, value in given.items() if value is not None}
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in told.items())})"


def _probability(name: str, values: npt.ArrayLike) -> Floats:
    given = as_floats(name, values)
    if given.ndim > 1:
        raise InvalidInput(f"{name} must be a scalar or one value per row, got shape {given.shape}")
    bad = ~((given >= 0) & (given <= 1))
    if bad.any():
        raise InvalidInput(f"{name} must be probabilities in [0, 1], got {given[bad].ravel()[0]:g}")
    return given


def _per_row(name: str, values: Floats, n_rows: int) -> Floats:
    if values.ndim == 1 and len(values) != n_rows:
        raise InvalidInput(f"{name} must be a scalar or have {n_rows} values (rows), got {len(values)}")
    return values.copy() if values.ndim else values.repeat(n_rows)

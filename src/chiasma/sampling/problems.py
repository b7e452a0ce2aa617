"""Problems: a target with its update and its exchange, behind the interface that engines and traces use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.exact.passes import Passes
from chiasma.models.density import Density, Vector
from chiasma.models.factorial import FactorialHMM, check_states
from chiasma.models.labels import CanonicalOrder
from chiasma.models.observations import Observations
from chiasma.models.state_target import StateTarget
from chiasma.models.target import Target, tempered_table
from chiasma.results.provenance import digest
from chiasma.sampling.exchanges import AugmentedCrossover, Exchange
from chiasma.sampling.learning import Learning
from chiasma.sampling.plan import EXACT_SECONDS, Plan, plan_learning, plan_paths, plan_replicas
from chiasma.sampling.updates import Collapsed, Exact, GaussianBlocks, Update
from chiasma.sampling.vector_exchanges import VectorPair, bind_exchange, check_exchange
from chiasma.sampling.vector_updates import VectorStep, VectorUpdate, bind_update, resolve_update
from chiasma.types import Floats, Integers

State = npt.NDArray[Any]


class Start(NamedTuple):
    """Initial values of every replica; what is not given is drawn from the prior, or is the init of the density."""

    states: State | None = None  # (T,) codes of the free rows, or a vector; (R, T): one of every replica
    values: Mapping[str, Any] = {}  # parameters by name

    def describe(self) -> dict[str, Any]:
        """Plain JSON."""
        described = {name: np.asarray(value).tolist() for name, value in self.values.items()}
        return described | ({} if self.states is None else {"states": digest(self.states)})


class Problem(ABC):
    """States (T,), and the form in which they are recorded."""

    name: ClassVar[str]  # of the draws
    exchange: Exchange | None
    n_sites: int
    dtype: Any  # of states
    record_dtype: Any

    @abstractmethod
    def record(self, states: State) -> State:
        """States (n, T) in the form in which draws are stored."""


class StateProblem(Problem):
    """A problem without learned parameters: a replica consists of its state only."""

    @abstractmethod
    def initial(self, rng: np.random.Generator) -> State:
        """An initial state of positive density."""

    @abstractmethod
    def sweep(self, beta: float) -> Any:
        """The update at one beta, an object with a method step(state, rng)."""

    @abstractmethod
    def pair(self, beta_i: float, beta_j: float) -> Any:
        """The exchange at two betas, an object with step(a, b, rng) and is_swap."""

    @abstractmethod
    def log_likelihood(self, state: State) -> float:
        """The tempered part of the log target."""

    @abstractmethod
    def log_prior(self, state: State) -> float:
        """The part that is not tempered."""


AnyTarget = TypeVar("AnyTarget", Target, StateTarget)


class CodesProblem(StateProblem, Generic[AnyTarget]):
    """A path of a factorial HMM, as codes."""

    name = "codes"
    dtype: Any = np.int64

    def __init__(self, target: AnyTarget, update: Update, exchange: Exchange | None):
        self.target: AnyTarget = target
        self.update = update
        self.exchange = exchange
        self.n_sites = target.n_columns
        self.record_dtype = target.record_dtype
        self.reading = Lock()  # held by the chain that reads `passes`, if its messages do not all fit at once

    @cached_property
    def passes(self) -> Passes:
        """The forward filter that exact draws of all chains share."""
        assert isinstance(self.update, Exact)
        return Passes(self.target, 1.0, memory=self.update.memory, stay=True)

    def with_moves(self, update: Update, exchange: Exchange | None) -> Self:
        """The same target with another update and exchange."""
        return type(self)(self.target, update, exchange)

    def initial(self, rng: np.random.Generator) -> Integers:
        return self.target.sample_prior(rng)

    def sweep(self, beta: float) -> Any:
        return self.update.prepare(self.target, beta)

    def pair(self, beta_i: float, beta_j: float) -> Any:
        assert self.exchange is not None
        return self.exchange.prepare(self.target, self.target, beta_i, beta_j)

    def log_likelihood(self, state: State) -> float:
        return self.target.log_likelihood(state)

    def log_prior(self, state: State) -> float:
        return self.target.log_prior(state)


class TemperedTables:
    """Likelihoods of a target at the betas of a ladder, made once for all who hold them at the same time."""

    def __init__(self, target: Target):
        self.target = target
        self._filling = Lock()
        self._known: WeakValueDictionary[tuple[float, ...], Floats] = WeakValueDictionary()

    def at(self, betas: Floats) -> Floats:
        """(R, S, T)"""
        rungs = tuple(map(float, betas))
        # Chains may ask at the same time, from threads of their own: none may see a table that is not yet filled.
        with self._filling:
            table = self._known.get(rungs)
            if table is None:
                table = np.empty((len(rungs), *self.target.log_lik.shape[::-1]))
                for lik, beta in zip(table, rungs, strict=True):
                    tempered_table(self.target.log_lik, beta, lik)
                self._known[rungs] = table
            return table


class PathProblem(CodesProblem[Target]):
    """Rows of two states that can be told apart."""

    def __init__(self, target: Target, update: Update, exchange: Exchange | None):
        super().__init__(target, update, exchange)
        self._tables = TemperedTables(target)
        self._tempered = np.empty((0, 0, 0))

    def with_moves(self, update: Update, exchange: Exchange | None) -> Self:
        """The same target, and tables of it that exist, with another update and exchange."""
        other = super().with_moves(update, exchange)
        other._tables = self._tables
        return other

    @cached_property
    def passes(self) -> Passes:
        if self.target.tabulated:
            _ = self.target.log_lik  # computed once, before the chains use it
        return super().passes

    def tempered(self, betas: Floats) -> Floats:
        """(R, S, T) likelihoods at every beta. All chains of a run have the same rungs and share this table."""
        self._tempered = self._tables.at(betas)
        return self._tempered

    def record(self, states: State) -> State:
        return self.target.record(states)


class RowsProblem(CodesProblem[StateTarget]):
    """Rows with any number of states, of which equal ones count as one row of counts.

    A state is the codes of the axes of the target; what is recorded are codes of all rows, in which an engine has
    chosen which of the equal rows are in which state.
    """

    def __init__(self, target: StateTarget, update: Update, exchange: Exchange | None):
        super().__init__(target, update, exchange)
        if exchange is not None or not isinstance(update, Exact):
            _ = target.trans, target.log_trans, target.candidates  # computed once, before the chains use them

    def record(self, states: State) -> State:
        return states.astype(self.record_dtype)


class VectorProblem(StateProblem):
    """A vector of any density."""

    name = "x"

    def __init__(self, density: Density, exchange: Exchange | None = None):
        if exchange is not None:
            check_exchange(exchange)
        self.density = density
        self.exchange = exchange
        self.n_sites = density.size
        self.dtype = self.record_dtype = density.dtype
        # Raises an error for an unsuitable update before anything runs.
        self.sweep(1.0)

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

    def sweep(self, beta: float) -> VectorStep:
        return bind_update(self.density, beta)

    def pair(self, beta_i: float, beta_j: float) -> VectorPair:
        if self.exchange is None:
            raise InvalidInput("a pair of replicas needs an exchange, got None; pass exchange=AugmentedCrossover()")
        return bind_exchange(self.exchange, self.density, beta_i, beta_j)

    def log_likelihood(self, state: Vector) -> float:
        return self.density.log_likelihood(state)

    def log_prior(self, state: Vector) -> float:
        return self.density.log_prior(state)

    def record(self, states: Vector) -> Vector:
        return states


class LearningProblem(Problem):
    """A path and the parameters of its model."""

    name = "codes"
    dtype: Any = np.int64

    def __init__(self, learning: Learning, update: Update, exchange: Exchange | None):
        self.learning = learning
        self.update = update
        self.exchange = exchange
        self.n_sites = learning.typical.n_columns
        self.record_dtype = learning.typical.record_dtype
        self.in_order = CanonicalOrder(learning.model)
        self.finding = Lock()  # held by the chain that looks for the optima, which all chains share
        self.peaks: Any = None

    def record(self, states: State) -> State:
        typical = self.learning.typical
        return typical.record(states) if isinstance(typical, Target) else states.astype(self.record_dtype)


def pose(
    model: FactorialHMM | Density,
    data: Observations | npt.ArrayLike | None,
    update: Any,
    exchange: Any,
    ladder: Any,
    init: Any,
    exact_seconds: float = EXACT_SECONDS,
    evidence: bool = False,
) -> tuple[Problem, Plan, Start]:
    """Turn the arguments of sample() into the problem, the plan of how to sample it, and the initial values."""
    if isinstance(model, Density):
        return _pose_vectors(model, data, update, exchange, ladder, init)
    if not isinstance(model, FactorialHMM):
        raise InvalidInput(f"model must be a FactorialHMM or a Density, got {type(model).__name__}")
    if data is None:
        raise InvalidInput("a FactorialHMM needs data: sample(model, y)")
    if model.parameters:
        return _pose_learning(model, Observations.of(data), update, exchange, ladder, init, exact_seconds)
    target = model.exact_target(data)
    plan = plan_paths(target, update, exchange, ladder, exact_seconds, evidence)
    assert plan.update is not None
    given = None if init is None else check_states(model, target.n_columns, init)
    if isinstance(target, StateTarget):
        # Exact draws begin with codes of all rows; replicas with codes of the axes.
        states = given if given is None or plan.is_exact else target.reduce(given)
        return RowsProblem(target, plan.update, plan.exchange), plan, Start(states)
    start = Start(None if given is None else target.reduce(given))
    if isinstance(plan.update, GaussianBlocks):
        target = replace(target, table_bytes=0)  # a table would cost more than it saves
    return PathProblem(target, plan.update, plan.exchange), plan, start


def _pose_vectors(
    density: Density, data: Any, update: Any, exchange: Any, ladder: Any, init: Any
) -> tuple[Problem, Plan, Start]:
    if data is not None:
        raise InvalidInput("a Density carries its data itself; call sample(density) without data")
    if update != "auto":
        raise InvalidInput("a Density carries its update; give it there: ch.Density(..., update=...)")
    plan = plan_replicas(None, exchange, ladder, AugmentedCrossover(), "update of the density")
    if not density.has_proper_prior and plan.ladder.betas[0] == 0:
        plan = replace(plan, reason=f"{plan.reason}; no evidence, for there is no log_prior")
    problem = VectorProblem(density, plan.exchange)
    return problem, plan, Start() if init is None else Start(problem.check_state(init))


def _pose_learning(
    model: FactorialHMM,
    data: Observations,
    update: Any,
    exchange: Any,
    ladder: Any,
    init: Any,
    exact_seconds: float,
) -> tuple[Problem, Plan, Start]:
    learning = Learning(model, data)
    plan = plan_learning(learning.typical, update, exchange, ladder, model.rows is not None, exact_seconds)
    if "per second" in plan.reason and not type(model.emission).__module__.startswith("chiasma."):
        plan = replace(plan, reason=f"{plan.reason}; the time that your emission takes is not in it")
    assert plan.update is not None
    if isinstance(plan.update, Exact | Collapsed):
        learning.memory = plan.update.memory
    values = dict(init) if isinstance(init, Mapping) else {} if init is None else {"states": init}
    states = values.pop("states", None)
    learning.parameters.pack(values, learning.sample_prior(np.random.default_rng(0)))  # raises if invalid
    codes = None if states is None else check_states(model, data.n_columns, states)
    if codes is not None and isinstance(learning.typical, Target):
        codes = learning.typical.reduce(codes)
    return LearningProblem(learning, plan.update, plan.exchange), plan, Start(codes, values)

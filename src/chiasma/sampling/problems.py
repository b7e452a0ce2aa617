"""Problems: a target with its update and its exchange, behind the interface that engines and traces use."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import Any, ClassVar, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.exact.passes import Passes
from chiasma.models.factorial import FactorialHMM, check_states
from chiasma.models.labels import CanonicalOrder
from chiasma.models.observations import Observations
from chiasma.models.target import Target, tempered_table
from chiasma.results.provenance import digest
from chiasma.sampling.exchanges import Exchange
from chiasma.sampling.learning import Learning
from chiasma.sampling.plan import EXACT_SECONDS, Plan, plan_learning, plan_paths
from chiasma.sampling.updates import Collapsed, Exact, GaussianBlocks, Update
from chiasma.types import Floats

State = npt.NDArray[Any]


class Start(NamedTuple):
    """Initial values of every replica; what is not given is drawn from the prior, or is the init of the density."""

    states: State | None = (
        None  # (T,) codes of the axes, of learned models those of all rows, or a vector; (R, T): one of every replica
    )
    values: Mapping[str, Any] = {}  # parameters by name

    def describe(self) -> dict[str, Any]:
        """Plain JSON."""
        described = {name: np.asarray(value).tolist() for name, value in self.values.items()}
        return described | ({} if self.states is None else {"states": digest(self.states)})


class Problem(ABC):
    """What the chains of a run share: a target, and the update and the exchange that sample it."""

    name: ClassVar[str]  # of the draws
    exchange: Exchange | None
    n_sites: int
    record_dtype: Any  # of recorded states
    parts: ClassVar[tuple[str, ...]]  # attributes that the constructor takes, by their names

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled without locks, tables and filters."""
        return type(self), tuple(getattr(self, name) for name in self.parts)


class TemperedTables:
    """Likelihoods of a target at the betas of a ladder, made once for all who hold them at the same time."""

    def __init__(self, target: Target):
        self.target = target
        self._filling = Lock()
        self._known: WeakValueDictionary[tuple[float, ...], Floats] = WeakValueDictionary()

    def at(self, betas: Floats) -> Floats:
        """(R, S, T)"""
        rungs = tuple(map(float, betas))
        # Chains may ask at the same time, from their own threads: none may see a table that is not yet filled.
        with self._filling:
            table = self._known.get(rungs)
            if table is None:
                table = np.empty((len(rungs), *self.target.log_lik.shape[::-1]))
                for lik, beta in zip(table, rungs, strict=True):
                    tempered_table(self.target.log_lik, beta, lik)
                self._known[rungs] = table
            return table


class PathProblem(Problem):
    """A path of codes of the axes of a target. What is recorded are codes of all rows of the model."""

    name = "codes"
    parts = ("target", "update", "exchange")

    def __init__(self, target: Target, update: Update, exchange: Exchange | None):
        self.target = target
        self.update = update
        self.exchange = exchange
        self.n_sites = target.n_columns
        self.record_dtype = target.record_dtype
        self.reading = Lock()  # held by the chain that reads `passes`, if its messages do not all fit at once
        self._tables = TemperedTables(target)
        self._tempered = np.empty((0, 0, 0))
        if not target.binary and not isinstance(update, Exact):
            _ = target.log_trans, target.candidates  # computed once, before the chains use them

    def with_moves(self, update: Update, exchange: Exchange | None) -> PathProblem:
        """The same target, and tables of it that exist, with another update and exchange."""
        other = PathProblem(self.target, update, exchange)
        other._tables = self._tables
        return other

    @cached_property
    def passes(self) -> Passes:
        """The forward filter that exact draws of all chains share."""
        assert isinstance(self.update, Exact)
        if self.target.binary and self.target.tabulated:
            _ = self.target.log_lik  # computed once, before the chains use it
        return Passes(self.target, 1.0, memory=self.update.memory, stay=True)

    def tempered(self, betas: Floats) -> Floats:
        """(R, S, T) likelihoods at every beta. All chains of a run have the same rungs and share this table."""
        self._tempered = self._tables.at(betas)
        return self._tempered


class LearningProblem(Problem):
    """A path and the parameters of its model."""

    name = "codes"
    parts = ("learning", "update", "exchange", "peaks")

    def __init__(self, learning: Learning, update: Update, exchange: Exchange | None, peaks: Any = None):
        self.learning = learning
        self.update = update
        self.exchange = exchange
        self.n_sites = learning.typical.n_columns
        self.record_dtype = learning.typical.record_dtype
        self.in_order = CanonicalOrder(learning.model)
        self.finding = Lock()  # held by the chain that looks for the optima, which all chains share
        self.peaks = peaks


def pose(
    model: FactorialHMM,
    data: Observations | npt.ArrayLike | None,
    update: Any,
    exchange: Any,
    ladder: Any,
    init: Any,
    exact_seconds: float = EXACT_SECONDS,
    evidence: bool = False,
) -> tuple[Problem, Plan, Start]:
    """Turn the arguments of sample() into the problem, the plan of how to sample it, and the initial values."""
    if not isinstance(model, FactorialHMM):
        raise InvalidInput(f"model must be a FactorialHMM or a Density, got {type(model).__name__}")
    if data is None:
        raise InvalidInput("a FactorialHMM needs data: sample(model, y)")
    if model.parameters:
        return _pose_learning(model, Observations.of(data), update, exchange, ladder, init, exact_seconds)
    target = model.exact_target(data)
    plan = plan_paths(target, update, exchange, ladder, exact_seconds, evidence)
    assert plan.update is not None
    given = None if init is None else target.reduce(check_states(model, target.n_columns, init))
    if isinstance(plan.update, GaussianBlocks):
        target = replace(target, table_bytes=0)  # a table would cost more than it saves
    return PathProblem(target, plan.update, plan.exchange), plan, Start(given)


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
    plan = plan_learning(learning.typical, update, exchange, ladder, exact_seconds)
    if "per second" in plan.reason and not type(model.emission).__module__.startswith("chiasma."):
        plan = replace(plan, reason=f"{plan.reason} (without the time of your emission)")
    assert plan.update is not None
    if isinstance(plan.update, Exact | Collapsed):
        learning.memory = plan.update.memory
    values = dict(init) if isinstance(init, Mapping) else {} if init is None else {"states": init}
    states = values.pop("states", None)
    learning.parameters.pack(values, learning.sample_prior(np.random.default_rng(0)))  # raises if invalid
    codes = None if states is None else check_states(model, data.n_columns, states)
    return LearningProblem(learning, plan.update, plan.exchange), plan, Start(codes, values)

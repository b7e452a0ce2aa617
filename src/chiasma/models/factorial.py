"""FactorialHMM: a model made of Markov chains and an emission; its joint density and simulation from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.hints import hinted
from chiasma.kernels import state_rows
from chiasma.kernels.codes import unpack
from chiasma.kernels.layout import Layout, make_layout, n_bits, pack_states, unpack_codes
from chiasma.kernels.rows import draw_prior_row
from chiasma.limits import check_memory
from chiasma.models.additive import Additive, Emission
from chiasma.models.arguments import shallow_copy
from chiasma.models.axes import Axis
from chiasma.models.chains import Switches
from chiasma.models.checked_target import checked
from chiasma.models.display import html_facts, value_text
from chiasma.models.emissions import Counts, Table
from chiasma.models.likelihood import KnownStates, Levels, Likelihood, Lookup, Restricted
from chiasma.models.observations import Observations
from chiasma.models.offsets import BoundOffset, Offset, Term
from chiasma.models.parameters import Parameters
from chiasma.models.priors import check_prior
from chiasma.models.rows import Row, Rows, SwitchRows
from chiasma.models.target import TABLE_BYTES, Target, check_beta
from chiasma.types import Floats, Integers, Seed, as_array, as_count, as_random, is_a, is_count, shown

NO_PARAMETERS = Parameters({}, {})
# States of fixed rows, by their number or name.
Fixed = Mapping[int, int] | Mapping[str, int] | Mapping[int | str, int]


class FactorialHMM:
    """K Markov chains seen through one signal.

    A parameter given as a prior, such as sd=ch.HalfNormal(20), is learned: ch.sample draws it together with the paths.

    Parameters
    ----------
    rows : ch.Switches(...) for one binary row per weight of the emission, or a list of ch.Row with any number of states
        each. Identical rows of a list are collapsed into a count: eight equal lamps cost nine states, not 256.
    emission : the density of a column's observation.
    fixed : rows held in a state, by number or name, e.g. {5: 1} for a baseline that is always on. A fixed row costs no
        state space and contributes no prior term.
    offset : what is added to the signal beside the rows: terms to learn (ch.Smooth, ch.Periodic, ch.Covariates), or an
        array (T,) or (T, D) of known values. Emissions with a noise that does not depend on the offset take it:
        Gaussian, StudentT and IntegratedDepth.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(
    ...     rows=ch.Switches(enter=0.01, leave=0.01),
    ...     emission=ch.Gaussian(weights=[0.21, 0.31, 0.48], depth=15.0, sd=1.0),
    ... )
    >>> states, y = model.simulate(100, seed=1)
    >>> states.shape, y.shape
    ((3, 100), (100,))
    """

    @hinted
    def __init__(
        self,
        *,
        rows: Switches | Sequence[Row] | Rows,
        emission: Emission,
        fixed: Fixed | None = None,
        offset: Offset | Term | Sequence[Term] | npt.ArrayLike | None = None,
    ):
        if not is_a(emission, Emission):
            raise InvalidInput(f"emission must be one such as ch.Gaussian(...), got {shown(emission)}")
        self.offset = Offset.of(offset)
        if self.offset is not None and not getattr(emission, "takes_offset", False):
            raise InvalidInput(
                f"{type(emission).__name__} cannot have an offset: adding to the signal is not the same as adding to "
                "its mean; use Gaussian, StudentT or IntegratedDepth"
            )
        if isinstance(rows, Rows):  # of another model
            rows = rows.chains if isinstance(rows, SwitchRows) else rows.given
        if isinstance(rows, Switches):
            if not emission.n_rows:
                raise InvalidInput(f"{type(emission).__name__} needs weights, one per row, if rows have no values")
            self.rows: Rows = SwitchRows(rows, emission.n_rows)
            self.rows.fixed = _fixed(fixed, self.rows)
            self.emission: Emission = emission
            self._groups = [[k] for k in range(self.n_rows) if k not in self.rows.fixed]
            rows.probabilities(self.n_rows)
        else:
            if not isinstance(emission, Additive):
                raise InvalidInput(
                    f"rows=[ch.Row(...), ...] need an additive emission, got {type(emission).__name__}; a Table goes "
                    "with rows=ch.Switches(...)"
                )
            self.rows = Rows(rows)
            if fixed:
                self.rows = self.rows.with_fixed(_fixed(fixed, self.rows))
            emission = emission.for_rows(self.rows.n_rows, self.rows.n_channels)
            self.emission = emission.with_spread() if self.rows.spreads else emission
            # Which rows are equal does not depend on learned values: all targets of a model have the same shape.
            self._groups = self.rows.groups(self.emission.weights, "weights" in self.emission.priors)
            _check_shared(self.rows, self.emission)
        self.fixed = self.rows.fixed
        self._is_binary = not self._has_states(self._groups)  # every axis is a row of two states
        self.parameters = Parameters(self.rows.priors, self.emission.priors, self._learned_offset)
        self.known_rows: frozenset[int] = frozenset()

    @property
    def _learned_offset(self) -> BoundOffset | None:
        return None if self.offset is None or not self.offset.priors else self.offset.bound

    @property
    def learns(self) -> bool:
        """Whether anything is learned: parameters, or an offset that is not bound to data yet."""
        return bool(self.parameters) or (self.offset is not None and self.offset.learned)

    def for_data(self, data: Observations | npt.ArrayLike) -> FactorialHMM:
        """The model with its offset bound to the columns of the data: what the data decide, such as the mains
        frequency, is filled in, and the coefficients are parameters of the model. Rows with known states are no longer
        exchangeable with others. `ch.optimise` and `ch.sample` do it first.

        Parameters
        ----------
        data : Observations, or the signal as an array (T,).

        Returns
        -------
        FactorialHMM.

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(
        ...     rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0]), offset=[ch.Smooth(knots=4)]
        ... )
        >>> model.for_data([0.1, 0.9, 1.2, 0.2]).parameters.names
        ['smooth', 'smooth.smoothness']
        """
        data = Observations.of(data)
        bound = None if self.offset is None else self.offset.for_data(data)
        known_rows = frozenset(self.known_states(data))
        if bound is self.offset and known_rows == self.known_rows:
            return self
        other = shallow_copy(self)
        other.offset = bound
        other.known_rows = known_rows
        other.parameters = Parameters(self.rows.priors, self.emission.priors, other._learned_offset)
        return other

    def at(self, values: Mapping[str, Any]) -> FactorialHMM:
        """The model with numbers in place of some or all priors.

        Parameters
        ----------
        values : numbers or arrays by name; `model.parameters.names` lists the names.

        Returns
        -------
        FactorialHMM.

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0], sd=ch.HalfNormal(2)))
        >>> model.parameters.names, model.at({"sd": 0.5}).parameters.names
        (['sd'], [])
        """
        names = self.parameters.names
        unknown = sorted(set(values) - set(names))
        if unknown:
            raise InvalidInput(
                f"{', '.join(unknown)} has no prior here; the parameters with priors are {', '.join(names) or 'none'}"
            )
        emission = self.emission.with_values(values)
        offset = self.offset
        if offset is not None and offset.priors:
            given = [name for name in offset.priors if name in values]
            missing = [own.name for own in offset.bound.bound if own.name not in values]  # type: ignore[union-attr]
            if given and missing:
                raise InvalidInput(f"an offset needs the coefficients of all its terms, got none of {missing[0]}")
            if given:
                offset = offset.with_values(values)
        rows, fixed = self.rows.with_some(values)
        return FactorialHMM(rows=rows, emission=emission, fixed=fixed, offset=offset)

    def with_unchecked_values(self, values: Mapping[str, Any]) -> FactorialHMM:
        """`at` without checks: values must cover all priors and lie inside their supports."""
        other = shallow_copy(self)
        other.rows = self.rows.placed(values)
        other.emission = self.emission.with_unchecked_values(values)
        other.offset = None if self.offset is None else self.offset.with_values(values)
        other.parameters = NO_PARAMETERS
        return other

    def admits(self, values: Floats, data: Observations) -> bool:
        """Whether values (P,) of the learned parameters go with the data: gaps need enter + leave <= 1."""
        return data.gaps is None or self.rows.admits(self.parameters.unpack(values))

    @property
    def n_rows(self) -> int:
        """K, fixed rows included."""
        return self.emission.n_rows

    @property
    def free_rows(self) -> tuple[int, ...]:
        """Numbers of the rows that are not fixed."""
        if not self.fixed:
            return tuple(range(self.n_rows))
        return tuple(k for k in range(self.n_rows) if k not in self.fixed)

    @property
    def fixed_code(self) -> int:
        """The bits of the fixed rows in every code."""
        if not self.fixed:
            return 0
        return sum(x << int(self.layout.shifts[k]) for k, x in self.fixed.items())

    @cached_property
    def layout(self) -> Layout:
        """Numbers of states of the rows, and their bits in a code."""
        return self.rows.layout

    @property
    def row_names(self) -> list[str] | None:
        """Names of the rows; None where they have numbers only."""
        return self.rows.names if self.rows.named else None

    def row_number(self, row: int | str) -> int:
        """The number of a row given by its number or name; a common name of copies means the first."""
        names = self.rows.names
        if isinstance(row, str):
            if f"{row}_1" in names and row not in names:
                return names.index(f"{row}_1")
            if row not in names:
                known = ", ".join(map(repr, names))
                raise InvalidInput(f"there is no row {row!r}; this model has {known}")
            return names.index(row)
        if not is_count(row, least=0) or row >= self.n_rows:
            raise InvalidInput(f"row must be in 0..{self.n_rows - 1}, got {shown(row)}")
        return int(row)

    def known_states(self, data: Observations) -> dict[int, Integers]:
        """The known states of the data, (T,) by number of the row."""
        found: dict[int, Integers] = {}
        for name, states in data.known.items():
            k = self.row_number(name)
            if self.row_names is not None and self.row_names[k] != name and isinstance(name, str):
                raise InvalidInput(f"known states of copies must name one of them, such as {name}_1, got {name!r}")
            if k in self.fixed:
                raise InvalidInput(f"row {name!r} is fixed at {self.fixed[k]} and has known states; drop one of them")
            if states.max() >= self.layout.sizes[k]:
                raise InvalidInput(
                    f"row {name!r} has states 0..{self.layout.sizes[k] - 1}, got the known state {states.max()} at "
                    f"column {int(states.argmax())}"
                )
            if k in found:
                raise InvalidInput(f"known states of row {k} are given twice, by number and by name")
            found[k] = states
        return found

    def exact_target(self, data: Observations | npt.ArrayLike, table_bytes: int = TABLE_BYTES) -> Target:
        """`target` without checks of what its methods are given: for those who make that themselves."""
        data = Observations.of(data)
        if self.parameters:
            names = self.parameters.names
            raise InvalidInput(
                f"this needs numbers for all parameters, got priors for {', '.join(names)}; learn them with ch.sample, "
                f"or set them with model.at({{{', '.join(f'{name!r}: ...' for name in names)}}})"
            )
        self.emission.check(data)
        if self.offset is not None:
            data = self.offset.subtracted(data)  # the only place where an offset enters
        known = self.known_states(data) if data.known else {}
        groups = self._groups_without(known)
        if groups is not None:
            return self._state_target(data, groups, known, table_bytes)
        edge, trans = self.rows.tables(data)
        free = self.free_rows
        layout = make_layout([2] * len(free))
        return Target(
            edge=edge,
            trans=np.ascontiguousarray(trans[:, free]) if self.fixed else trans,
            likelihood=_restricted(self._likelihood(data), known, [[k] for k in free], layout),
            layout=layout,
            groups=tuple((k,) for k in free),
            row_layout=self.layout,
            fixed_code=self.fixed_code,
            table_bytes=table_bytes,
        )

    def target(self, data: Observations | npt.ArrayLike, table_bytes: int = TABLE_BYTES) -> Target:
        """The arrays that updates and exchanges work on, for use step by step.

        Parameters
        ----------
        data : Observations, or the signal as an array (T,) or (T, D).
        table_bytes : int, up to which size likelihoods of all codes are kept in a table.

        Returns
        -------
        A target.

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.3, 0.3), emission=ch.Gaussian([1.0, 2.0], sd=0.1))
        >>> target = model.target([0.1, 2.9])
        >>> target.n_columns, target.n_states
        (2, 4)
        """
        return checked(self.exact_target(data, table_bytes))

    def _likelihood(self, data: Observations) -> Likelihood:
        if isinstance(self.emission, Table):
            free = self.free_rows
            codes = np.arange(1 << len(free), dtype=np.int64)
            spread = sum(((codes >> i & 1) << k for i, k in enumerate(free)), np.full_like(codes, self.fixed_code))
            table = self.emission.log_lik[:, spread]
            table[data.missing] = 0.0
            return Lookup(table, make_layout([2] * len(free)))
        assert isinstance(self.emission, Additive)
        weights, base = self.rows.steps(self.emission.weights)
        if not self.fixed:
            return Levels.of_switches(self.emission, data, base, weights)
        base = sum((weights[k] * x for k, x in self.fixed.items()), base)
        return Levels.of_switches(self.emission, data, base, weights[list(self.free_rows)])

    def _groups_without(self, known: Mapping[int, Integers]) -> list[list[int]] | None:
        """The rows of every axis, if one has more than two states. A row with known states has a separate axis."""
        if self._is_binary:
            return None
        parts = [[[k for k in group if k not in known], *([k] for k in group if k in known)] for group in self._groups]
        groups = [part for own in parts for part in own if part]
        return groups if self._has_states(groups) else None

    def _has_states(self, groups: list[list[int]]) -> bool:
        return any(len(group) > 1 for group in groups) or bool(np.any(self.layout.sizes > 2))

    def _state_target(
        self, data: Observations, groups: Sequence[Sequence[int]], known: Mapping[int, Integers], table_bytes: int
    ) -> Target:
        assert isinstance(self.emission, Additive)
        edge, gaps = data.edge_kinds()
        adds = self.rows.contributions(self.emission.weights)
        axes = []
        for group in groups:
            matrices = self.rows.matrices(group[0], gaps)
            assert matrices is not None
            axes.append(Axis(rows=tuple(group), matrices=matrices))
        base = sum((adds[k][x] for k, x in self.fixed.items()), np.zeros(adds[0].shape[1:]))
        levels = Levels(self.emission, data, base, [axis.levels(adds[axis.rows[0]]) for axis in axes])
        likelihood = _restricted(levels, known, groups, make_layout([axis.size for axis in axes]))
        return Target.of_axes(edge, axes, likelihood, self.layout, self.fixed_code, table_bytes)

    def parameter_slopes(
        self, data: Observations, by_matrix: Sequence[Floats], by_add: Sequence[Floats]
    ) -> dict[str, Floats]:
        """Derivatives with respect to the parameters of the chains and to the weights, by name, from those with
        respect to the matrices, (E, S_k, S_k) of every row, and to what its states add to the level, (S_k,).
        """
        weights = self.emission.weights if isinstance(self.emission, Additive) else np.empty(0)
        return {
            "weights": self.rows.weight_slopes(weights, by_add),
            **self.rows.slopes(data, weights, by_matrix, by_add),
        }

    def simulate(
        self,
        n_columns: int,
        seed: Seed = None,
        starts: npt.ArrayLike | None = None,
        gaps: npt.ArrayLike | None = None,
    ) -> tuple[npt.NDArray[Any], Floats]:
        """Draw states from the prior and a signal from the emission.

        Parameters with a prior take a typical value of it; use `at` to set others.

        Parameters
        ----------
        n_columns : int, the length T of the signal.
        seed : int, Generator or SeedSequence; the same seed gives the same signal.
        starts, gaps : as for ch.Observations.

        Returns
        -------
        states (K, T), and y (T,) or (T, D).

        Examples
        --------
        >>> import chiasma as ch
        >>> model = ch.FactorialHMM(rows=ch.Switches(0.3, 0.3), emission=ch.Gaussian([1.0, 2.0], sd=0.1))
        >>> states, y = model.simulate(5, seed=1)
        >>> states.tolist(), y.round(1).tolist()
        ([[0, 0, 1, 0, 0], [1, 0, 0, 0, 1]], [2.0, 0.1, 0.9, -0.0, 2.0])
        """
        if not isinstance(self.emission, Additive):
            raise InvalidInput("a Table has no sampler for y; only additive emissions can simulate")
        n_columns = as_count("the number of columns", n_columns)
        width = 8 * (self.n_rows + 2)  # states, levels and the signal
        check_memory(f"{n_columns:,} columns of {self.n_rows} rows", n_columns * width, "simulate fewer at a time")
        rng = as_random(seed)
        states = self._simulate_states(Observations(np.zeros(n_columns), starts, gaps), rng)
        for k, x in self.fixed.items():
            states[k] = x
        adds = self.rows.contributions(self.emission.weights)
        start = np.zeros((n_columns, *adds[0].shape[1:]))
        level = sum((own[path] for own, path in zip(adds, states, strict=True)), start)
        y = self.emission.sample(level, rng)
        return states, y if self.offset is None else y + self._simulated_offset(y.shape, starts, gaps, rng)

    def _simulated_offset(self, shape: tuple[int, ...], starts: Any, gaps: Any, rng: np.random.Generator) -> Floats:
        """Known values, or a draw of the terms from their prior."""
        assert self.offset is not None
        blank = Observations(np.zeros(shape), starts, gaps)
        offset = self.offset
        if offset.learned:
            if any(term.scale is None for term in offset.terms):
                raise InvalidInput("an offset can be simulated from its prior if each term has a scale=, got none")
            offset = offset.for_data(blank)
            values = {name: prior.sample(rng) for name, prior in offset.priors.items()}
            assert offset.bound is not None
            offset = offset.with_values(offset.bound.sample(values, rng))
        return -offset.subtracted(blank).y

    def _simulate_states(self, data: Observations, rng: np.random.Generator) -> npt.NDArray[Any]:
        """(K, T) from the prior; fixed rows have any state."""
        n_columns = data.n_columns
        if np.all(self.layout.sizes == 2):
            edge, trans = self.rows.tables(data)
            codes = np.zeros(n_columns, np.int64)
            for k in range(self.n_rows):
                draw_prior_row(trans, edge, k, rng.random(n_columns), 1 << k, codes)
            return unpack(codes, self.n_rows)
        edge, gaps = data.edge_kinds()
        states = np.zeros((self.n_rows, n_columns), np.int64)
        for k, path in enumerate(states):
            matrices = self.rows.matrices(k, gaps)
            if matrices is not None:
                state_rows.draw_prior_row(matrices.reshape(len(gaps), -1), edge, rng.random(n_columns), path)
        return states.astype(np.int8 if self.layout.sizes.max() <= 127 else np.int64)

    def __repr__(self) -> str:
        fixed = f", fixed={self.fixed}" if self.fixed else ""
        offset = f", offset={self.offset}" if self.offset is not None else ""
        return f"FactorialHMM(rows={self.rows}, emission={self.emission!r}{fixed}{offset})"

    def _repr_html_(self) -> str:
        facts = [("fixed rows", str(self.fixed))] if self.fixed and not self.rows.given else []
        for part in (*self.rows.parts, self.emission):
            given = {name: part.given(name) for name in part.arguments}
            facts += [(name, value_text(value)) for name, value in given.items() if value is not None]
        title = f"FactorialHMM: {self.n_rows} row{'s' if self.n_rows > 1 else ''}, {type(self.emission).__name__}"
        return html_facts(title, facts) + self.rows._repr_html_()


def _restricted(
    likelihood: Likelihood, known: Mapping[int, Integers], groups: Sequence[Sequence[int]], layout: Layout
) -> Likelihood:
    """The likelihood given states that are known of some rows, each of which is an axis."""
    axes = {g: known[rows[0]] for g, rows in enumerate(groups) if rows[0] in known}
    return (
        Restricted(likelihood, KnownStates(list(axes), np.array(list(axes.values())), layout)) if axes else likelihood
    )


def _check_shared(rows: Rows, emission: Additive) -> None:
    """Refuse names that rows and emission both use, and learned values that counts cannot have."""
    twice = sorted(set(rows.priors) & {*emission.arguments, "states"})
    if twice:
        raise InvalidInput(
            f"rows share a parameter called {twice[0]!r}, a name of {type(emission).__name__}; rename it"
        )
    if isinstance(emission, Counts):
        for row in rows.given:
            for name, prior in row.priors.items():
                check_prior(f"{name} of a row of counts", prior, (prior.shape,), 0.0, np.inf)


def log_joint(
    model: FactorialHMM, data: Observations | npt.ArrayLike, states: npt.ArrayLike, beta: float = 1.0
) -> float:
    """log p(X) + beta * log p(y | X), the log density of one path.

    Parameters
    ----------
    model : FactorialHMM without priors.
    data : Observations, or the signal as an array (T,) or (T, D).
    states : (K, T) states or (T,) codes.
    beta : float, the power of the likelihood; 0 is the prior alone.

    Returns
    -------
    A float, in nats.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.5, 0.5), emission=ch.Gaussian([1.0]))
    >>> round(ch.log_joint(model, [0.0, 1.0], [[0, 1]]), 4)
    -3.2242
    """
    beta = check_beta(beta)
    target = target_of(model, data)
    log_prior, log_likelihood = target.log_parts(check_states(model, target.n_columns, states))
    return log_prior if beta == 0 else log_prior + beta * log_likelihood


def target_of(model: FactorialHMM, data: Observations | npt.ArrayLike) -> Target:
    """The arrays of a model and its data for exact passes; raises InvalidInput for anything but a model."""
    if not isinstance(model, FactorialHMM):
        raise InvalidInput(f"model must be a FactorialHMM, got {shown(model)}")
    return model.exact_target(data)


def check_states(model: FactorialHMM, n_columns: int, states: npt.ArrayLike) -> Integers:
    """(T,) codes of all rows from (K, T) states or (T,) codes; raises InvalidInput where they do not fit the model."""
    given = as_array("states", states)
    if given.dtype.kind not in "biuf":
        raise InvalidInput(f"states must be numbers, got {given.dtype}; pass zeros and ones, or codes")
    if given.shape not in ((model.n_rows, n_columns), (n_columns,)):
        raise InvalidInput(
            f"states must have shape ({model.n_rows}, {n_columns}) (zeros and ones) or ({n_columns},) (codes), "
            f"got {given.shape}"
        )
    layout = model.layout
    top = layout.sizes[:, None] - 1 if given.ndim == 2 else (1 << n_bits(layout)) - 1
    bad = ~((given >= 0) & (given <= top) & (given == np.floor(given)))
    if bad.any():
        most = layout.sizes.max() - 1
        what = f"codes in 0..{top}" if given.ndim == 1 else "zeros and ones" if most == 1 else f"in 0..{most}"
        raise InvalidInput(f"states must be {what}, got {given[bad][0]}")
    codes = pack_states(given, layout) if given.ndim == 2 else given.astype(np.int64)
    found = unpack_codes(codes, layout)
    holes = found >= layout.sizes[:, None]
    if holes.any():
        k, t = (int(i) for i in np.argwhere(holes)[0])
        raise InvalidInput(
            f"code {codes[t]} at column {t} has state {found[k, t]} in row {k}, which has {layout.sizes[k]} states"
        )
    for k, x in model.fixed.items():
        wrong = found[k] != x
        if wrong.any():
            t = int(np.argmax(wrong))
            raise InvalidInput(f"states contradict fixed: row {k} is fixed at {x}, got {found[k, t]} at column {t}")
    return codes


def _fixed(fixed: Fixed | None, rows: Rows) -> dict[int, int]:
    """States of fixed rows by their number."""
    if fixed is None:
        return {}
    if not isinstance(fixed, Mapping):
        raise InvalidInput(f"fixed maps rows to states, such as {{0: 1}}, got {shown(fixed)}")
    n_rows, names, sizes = rows.n_rows, rows.names, rows.layout.sizes.tolist()
    found = {}
    for given, x in fixed.items():
        k = names.index(given) if isinstance(given, str) and given in names else given
        known = isinstance(k, int | np.integer) and is_count(k, least=0) and k < n_rows
        if not known or not is_count(x, least=0) or x >= sizes[int(k)]:
            states = "0 or 1" if max(sizes) == 2 else "one of their states"
            raise InvalidInput(
                f"fixed maps rows 0..{n_rows - 1} to {states}, got {{{given}: {x}}}; rows count from 0, and a baseline "
                "needs a separate weight"
            )
        found[int(k)] = int(x)
    if len(found) == n_rows:
        raise InvalidInput(f"all {n_rows} rows are fixed; leave at least one free")
    return dict(sorted(found.items()))

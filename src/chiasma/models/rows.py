"""Row: states with their values, and the Markov chain between them; Rows: all rows of a model, in order.

Row k has S_k states; its state s adds w_k * v_k[s] to the level, a number or one for every channel. If states add noise
(spread), the level has a second channel for the variance that they add. A column's code
gives row k a field of ceil(log2 S_k) bits. Rows with the same values, weight and chain cannot be told apart: a target
counts them (`models.axes`). `SwitchRows` are the rows of `ch.Switches`: rows of two states by number, one per weight of
the emission.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.kernels.layout import Layout, make_layout
from chiasma.limits import MOST_BITS
from chiasma.models.arguments import Argument, Learnable, shallow_copy
from chiasma.models.chains import RowChain, Switch, Switches
from chiasma.models.display import html_table, value_text
from chiasma.models.observations import Observations
from chiasma.models.priors import Dirichlet, DirichletRows, Numbers, Prior, mixed
from chiasma.types import Floats, as_floats, is_a, is_count, shown


class Row(Learnable):
    """One hidden row, or several that cannot be told apart.

    Values, the weight and the parameters of the chain may be priors, and are then learned: one parameter for all copies
    of a row, which stay equal. A list of values may mix numbers, which stay as they are, and priors.
    `prior.shared("name")` gives several rows one parameter. A fixed row with a learned weight is a baseline.

    Parameters
    ----------
    values : (S,) what each state adds to the level, S >= 2: [0, 2800] for a kettle, [0, 1, 2, 3] for copies of a
        chromosome. (S, D) where the level has D channels: [[1, 1], [2, 0]] for (major, minor) copies.
    chain : its Markov chain, ch.Switch (two states), ch.Sticky or ch.Markov. A fixed row needs none.
    name : for tables, figures and messages; default: row_0, row_1, ...
    copies : number of identical rows; they are named NAME_1, NAME_2, ...
    fixed : the state at which the row is held. A fixed row costs no state space.
    weight : a factor of all its values: the size of one step where values are 0, 1, 2, ...
    spread : (S,) standard deviation of the noise that each state adds to the emission's; numbers or priors. The
        variances of all rows and of the emission add up.

    Examples
    --------
    >>> import chiasma as ch
    >>> ch.Row(values=[0, 150, 2000], chain=ch.Sticky(renew=0.01), name="washer")
    Row(values=[0.0, 150.0, 2000.0], chain=Sticky(renew=0.01), name='washer')
    """

    arguments: ClassVar[Mapping[str, Argument]] = {
        "values": Argument("what each state adds to the level.", required=True, takes="list"),
        "weight": Argument("factor of the values."),
        "spread": Argument("standard deviation of the noise that each state adds.", takes="list"),
    }

    def __init__(
        self,
        values: Numbers,
        chain: RowChain | None = None,
        name: str | None = None,
        copies: int = 1,
        fixed: int | None = None,
        weight: float | Prior = 1.0,
        spread: npt.ArrayLike | Prior | None = None,
    ):
        if is_a(values, str):
            raise InvalidInput(
                f"values must be numbers, got {shown(values)}; a name goes last: "
                f"ch.Row([0, 100], ch.Switch(0.1, 0.1), name={shown(values)})"
            )
        self.values = as_floats("values", self._number("values", values))
        self.weight = as_floats("weight", self._number("weight", weight))
        given = np.zeros(self.values.shape[:1]) if spread is None else self._number("spread", spread)
        self.spread = as_floats("spread", given)
        self.chain = chain
        self.name = name
        self.copies = copies
        self.fixed = fixed
        called = "a row" if name is None else f"row {name!r}"
        if name is not None and not isinstance(name, str):
            raise InvalidInput(f"the name of a row must be a text, got {shown(name)}")
        if name == "":
            raise InvalidInput("the name of a row must not be empty; leave it out for row_0, row_1, ...")
        shape = self.values.shape
        if len(shape) not in (1, 2) or shape[0] < 2 or 0 in shape or not np.all(np.isfinite(self.values)):
            raise InvalidInput(
                f"{called} needs at least two finite values, one per state, or (states, channels), got "
                f"{self.values.tolist()}; a switch of 100 W is values=[0, 100]"
            )
        if self.weight.shape or not np.isfinite(self.weight):
            raise InvalidInput(f"the weight of {called} must be one finite number, got {self.weight.tolist()}")
        if self.spread.shape != shape[:1] or not np.all((self.spread >= 0) & np.isfinite(self.spread)):
            raise InvalidInput(
                f"the spread of {called} must be {shape[0]} standard deviations >= 0, one per state, got "
                f"{self.spread.tolist()}"
            )
        if len(shape) == 2 and self.spreads:
            raise InvalidInput(f"{called} has values of several channels, which cannot have a spread; leave it out")
        if not is_count(copies):
            raise InvalidInput(f"copies of {called} must be a whole number of at least 1, got {shown(copies)}")
        if fixed is not None and (not _is_whole(fixed) or not 0 <= fixed < self.n_states):
            raise InvalidInput(f"{called} can be fixed at a state in 0..{self.n_states - 1}, got {shown(fixed)}")
        if fixed is None:
            self._check_chain(called)

    def _number(self, name: str, given: Any) -> Any:
        """Numbers as they are; a prior is remembered, and its typical value stands in for it."""
        given = mixed(name, given)
        if not isinstance(given, Prior):
            return given
        if isinstance(given, Dirichlet | DirichletRows):
            raise InvalidInput(f"the {name} of a row need not add up to 1; use Normal or LogNormal in place of {given}")
        if name == "spread" and given.support[0] < np.nextafter(0.0, -1.0):
            raise InvalidInput(f"the spread of a row is a standard deviation, got the prior {given}; use HalfNormal")
        return self._learned(name, given)

    @property
    def learned(self) -> dict[str, Prior]:
        """Priors of the row and of its chain, by argument."""
        return {**self.priors, **(self.chain.priors if self.chain is not None and self.fixed is None else {})}

    def placed(self, values: Mapping[str, Any]) -> Row:
        """The row with numbers in place of all priors, unchecked."""
        other = self.with_unchecked_values(values) if self.priors else copy(self)
        if self.chain is not None and self.chain.priors:
            known = values if self.fixed is None else {name: getattr(self.chain, name) for name in self.chain.priors}
            other.chain = self.chain.with_unchecked_values(known)
        return other

    def with_some(self, values: Mapping[str, Any]) -> Row:
        """The row with numbers in place of some priors, checked."""
        chain = self.chain
        if chain is not None and set(values) & set(chain.priors):
            chain = chain.with_values(values)
        own = {name: values.get(name, self.given(name)) for name in self.arguments}
        return Row(**own, chain=chain, name=self.name, copies=self.copies, fixed=self.fixed)

    def held(self, name: str, state: int | None) -> Row:
        """One copy of the row, held in a state."""
        own = {argument: self.given(argument) for argument in self.arguments}
        return Row(**own, chain=self.chain, name=name, fixed=state)

    def _check_chain(self, called: str) -> None:
        if not isinstance(self.chain, RowChain):
            raise InvalidInput(
                f"{called} needs chain=ch.Switch(...), ch.Sticky(...) or ch.Markov(...), or fixed=, "
                f"got {shown(self.chain)}"
            )
        if self.chain.n_states not in (None, self.n_states):
            raise InvalidInput(
                f"{called} has {self.n_states} values and its chain {self.chain.n_states} states; make them agree"
            )

    @property
    def n_states(self) -> int:
        """How many states a row has."""
        return len(self.values)

    @property
    def adds(self) -> Floats:
        """(S,) or (S, D): its weight times its values."""
        return self.values if self.weight == 1 else self.weight * self.values

    @property
    def spreads(self) -> bool:
        """Whether a state adds noise."""
        return "spread" in self.priors or bool(np.any(self.spread > 0))

    def add_slopes(self, weight: Floats, by_add: Floats) -> Floats:
        """Derivatives with respect to `adds`, of its shape, from those with respect to what states add to the level.

        weight : from the emission, () or (D,).
        """
        return np.asarray(by_add @ weight if by_add.ndim > self.values.ndim else by_add * weight)

    @property
    def n_channels(self) -> int | None:
        """Values of a state; None where it is a number."""
        return None if self.values.ndim == 1 else self.values.shape[1]

    @property
    def n_bits(self) -> int:
        """Bits that its state takes in a code."""
        return (self.n_states - 1).bit_length()

    def __repr__(self) -> str:
        parts = [f"values={self.priors.get('values', self.values.tolist())}"]
        parts += [] if self.chain is None else [f"chain={self.chain}"]
        parts += [] if self.copies == 1 else [f"copies={self.copies}"]
        parts += [] if self.fixed is None else [f"fixed={self.fixed}"]
        weight = self.priors.get("weight", self.weight)
        parts += [] if isinstance(weight, np.ndarray) and weight == 1 else [f"weight={weight}"]
        parts += [f"spread={self.priors.get('spread', self.spread.tolist())}"] if self.spreads else []
        parts += [] if self.name is None else [f"name={self.name!r}"]
        return f"Row({', '.join(parts)})"


class Rows:
    """The rows of a model: `given` as they were written, `rows` one by one, each with its name.

    keys : for every given row, the names in the model of its learned arguments. fixed : states of fixed rows by number.
    """

    named = True  # whether rows have names, not only numbers
    parts: tuple[Switches, ...] = ()  # what all rows share

    def __init__(self, given: Sequence[Row]):
        self.given = tuple(given) if is_a(given, Sequence) else ()
        if not self.given or not all(isinstance(row, Row) for row in self.given):
            raise InvalidInput(f"rows must be a list of at least one ch.Row, got {shown(given)}")
        n_rows, n_bits = sum(row.copies for row in self.given), sum(row.n_bits * row.copies for row in self.given)
        if n_bits > MOST_BITS:
            raise InvalidInput(
                f"a column has at most {MOST_BITS} bits, one for a row of two states, two for three or four, and so "
                f"on; these {shown(n_rows)} rows need {shown(n_bits)}"
            )
        self.names: list[str] = []
        self.rows: list[Row] = []
        for row in self.given:
            for number in range(row.copies):
                base = f"row_{len(self.rows)}" if row.name is None else row.name
                self.names.append(f"{base}_{number + 1}" if row.copies > 1 and row.name is not None else base)
                self.rows.append(row)
        twice = {name for name in self.names if self.names.count(name) > 1}
        if twice:
            raise InvalidInput(f"rows must have different names, got {', '.join(sorted(twice))} more than once")
        for name, row in zip(self.names, self.rows, strict=True):
            if row.n_channels != self.n_channels:
                raise InvalidInput(
                    f"values of all rows must have the same channels: row {self.names[0]!r} has "
                    f"{self.n_channels or 'none'}, row {name!r} {row.n_channels or 'none'}; give (states, channels) "
                    "for every row, or a number per state for every row"
                )
        self.n_rows = len(self.rows)
        self.fixed: dict[int, int] = {k: int(row.fixed) for k, row in enumerate(self.rows) if row.fixed is not None}
        if len(self.fixed) == self.n_rows:
            raise InvalidInput(f"all {self.n_rows} rows are fixed; leave at least one free")
        self.keys = self._keys()
        self.priors: Mapping[str, Prior] = self._shared_priors()

    def with_fixed(self, fixed: Mapping[int, int]) -> Rows:
        """The rows, some of them held in a state, by number."""
        rows = []
        first = 0
        for row in self.given:
            numbers = range(first, first + row.copies)
            first += row.copies
            if not any(k in fixed for k in numbers):
                rows.append(row)
            elif row.copies > 1 and row.learned:
                raise InvalidInput(
                    f"{self.names[numbers[0]]!r} is one of {row.copies} copies with learned parameters; to fix one of "
                    "them, write it as a separate row"
                )
            else:
                rows += [row.held(self.names[k], fixed.get(k, row.fixed)) for k in numbers]
        return Rows(rows)

    def _keys(self) -> list[dict[str, str]]:
        """For every given row, the names in the model of its learned arguments."""
        names = iter(self.names)
        found = []
        for row in self.given:
            first, *_ = (next(names) for _ in range(row.copies))
            own = first if row.name is None else row.name
            found.append({name: prior.shared_as or f"{own}.{name}" for name, prior in row.learned.items()})
        return found

    def _shared_priors(self) -> dict[str, Prior]:
        """The learned parameters by name; those that share a name must share a prior."""
        priors: dict[str, Prior] = {}
        for row, keys in zip(self.given, self.keys, strict=True):
            for name, prior in row.learned.items():
                if priors.setdefault(keys[name], prior).describe() != prior.describe():
                    raise InvalidInput(
                        f"{keys[name]!r} is shared with two priors, {priors[keys[name]]} and {prior}; give one prior, "
                        "or two names"
                    )
        return priors

    @property
    def learns_levels(self) -> bool:
        """Whether what states add to the level is learned."""
        return any(row.priors for row in self.given)

    def placed(self, values: Mapping[str, Any]) -> Rows:
        """The rows with numbers in place of all priors, by their names in the model; unchecked."""
        if not self.priors:
            return self
        other = copy(self)
        other.given = tuple(
            row.placed({name: values[key] for name, key in keys.items()}) if row.learned else row
            for row, keys in zip(self.given, self.keys, strict=True)
        )
        other.rows = [row for row in other.given for _ in range(row.copies)]
        other.priors = {}
        return other

    def with_some(self, values: Mapping[str, Any]) -> tuple[Switches | list[Row], dict[int, int] | None]:
        """`rows` and `fixed` of a model with numbers in place of some priors, checked."""
        rows = [
            row.with_some({name: values[key] for name, key in keys.items() if key in values})
            for row, keys in zip(self.given, self.keys, strict=True)
        ]
        return rows, None

    def slopes(
        self, data: Observations, weights: Floats, by_matrix: Sequence[Floats], by_add: Sequence[Floats]
    ) -> dict[str, Floats]:
        """Derivatives with respect to the learned parameters, by name, from those with respect to the matrices of every
        row and to its `contributions`; rows that share a parameter add up.
        """
        _, gaps = data.edge_kinds()
        found: dict[str, Floats] = {}
        first = 0
        for row, keys in zip(self.given, self.keys, strict=True):
            own = range(first, first + row.copies)
            first += row.copies
            if not keys:
                continue
            by_level = [by_add[k][..., 0] if self.spreads else by_add[k] for k in own]
            add = np.sum([row.add_slopes(weights[k], slope) for k, slope in zip(own, by_level, strict=True)], axis=0)
            slopes: dict[str, Any] = {"values": row.weight * add, "weight": np.sum(row.values * add)}
            if row.spreads:
                slopes["spread"] = 2 * row.spread * np.sum([by_add[k][..., 1] for k in own], axis=0)
            if row.chain is not None and row.fixed is None:
                slopes |= row.chain.slopes(row.n_states, gaps, np.sum([by_matrix[k] for k in own], axis=0))
            for name, key in keys.items():
                found[key] = slopes[name] + found.get(key, 0.0)
        return found

    @property
    def n_channels(self) -> int | None:
        return self.rows[0].n_channels

    @cached_property
    def layout(self) -> Layout:
        """Where the rows are in a code."""
        return make_layout([row.n_states for row in self.rows])

    @property
    def chain_parameters(self) -> set[str]:
        """Names in the model of the learned parameters of chains; the others are of levels."""
        pairs = zip(self.given, self.keys, strict=True)
        return {key for row, keys in pairs for name, key in keys.items() if name not in row.priors}

    def admits(self, values: Mapping[str, Any]) -> bool:
        """Whether the chains can have gaps at values of all learned parameters: they need enter + leave <= 1."""
        switches = (row.chain for row in self.placed(values).given if isinstance(row.chain, Switch))
        return all(switch.enter + switch.leave <= 1 for switch in switches)

    def matrices(self, k: int, gaps: Floats) -> Floats | None:
        """(E, S, S) transition matrices of row k for edges over these gaps; None if it is fixed and has no chain."""
        row = self.rows[k]
        return None if row.chain is None else row.chain.matrices(row.n_states, gaps)

    def tables(self, data: Observations) -> tuple[npt.NDArray[np.int32], Floats]:
        """edge (T,) and trans (E, K, 4) of rows of two states, as the kernels take them."""
        edge, gaps = data.edge_kinds()
        trans = np.empty((len(gaps), self.n_rows, 4))
        for k in range(self.n_rows):
            own = self.matrices(k, gaps)
            trans[:, k] = np.eye(2).ravel() if own is None else own.reshape(-1, 4)
        return edge, trans

    def steps(self, weights: Floats) -> tuple[Floats, Floats]:
        """(K,) or (K, D) what rows of two states add when they go on, and () or (D,) the level with all of them off."""
        low, high = np.array(self.contributions(weights)).swapaxes(0, 1)
        return high - low, low.sum(axis=0)

    @cached_property
    def spreads(self) -> bool:
        """Whether states add noise: their variances are the second channel of a level."""
        return any(row.spreads for row in self.given)

    def contributions(self, weights: Floats) -> list[Floats]:
        """(S_k,) or (S_k, D) what each state of every row adds to the level; weights (K,) or (K, D)."""
        adds = [
            np.multiply.outer(row.adds, weight) if row.n_channels is None else row.adds * weight
            for weight, row in zip(weights, self.rows, strict=True)
        ]
        if not self.spreads:
            return adds
        return [np.stack([own, row.spread**2], axis=-1) for own, row in zip(adds, self.rows, strict=True)]

    def weight_slopes(self, weights: Floats, by_add: Sequence[Floats]) -> Floats:
        """(K,) or (K, D) derivatives with respect to the weights, from those with respect to `contributions`."""
        found = []
        for row, own in zip(self.rows, by_add, strict=True):
            slope = own[..., 0] if self.spreads else own
            if row.n_channels is None:
                found.append(np.tensordot(row.adds, slope, 1))
            else:
                by_channel = (row.adds * slope).sum(axis=0)
                found.append(by_channel if weights.ndim == 2 else by_channel.sum())
        return np.array(found)

    def groups(self, weights: Floats, separate: bool = False) -> list[list[int]]:
        """Free rows, those together that cannot be told apart. separate: every row has its own weight to learn.

        Rows with learned parameters are equal where these are shared, whatever typical values they have.
        """
        found: dict[tuple[object, ...], list[int]] = {}
        origins = [i for i, row in enumerate(self.given) for _ in range(row.copies)]
        for k, (row, adds) in enumerate(zip(self.rows, self.contributions(weights), strict=True)):
            if row.fixed is None:
                own = any(prior.shared_as is None for prior in row.learned.values())
                marks = (origins[k] if own else -1, k if separate else -1, repr(row.chain), repr(row.priors))
                found.setdefault((*marks, adds.tobytes()), []).append(k)
        return list(found.values())

    def __repr__(self) -> str:
        return f"{list(self.given)}"

    def _repr_html_(self) -> str:
        """One line per row as it was given."""
        lines = []
        first = 0
        for row in self.given:
            name = row.name or self.names[first]
            first += row.copies
            chain = f"fixed at {row.fixed}" if row.fixed is not None else str(row.chain)
            weight = "" if "weight" not in row.priors and row.weight == 1 else value_text(row.given("weight"))
            lines.append((name, str(row.copies), value_text(row.given("values")), weight, chain))
        return html_table(("row", "copies", "states add", "times weight", "chain"), lines)


class SwitchRows(Rows):
    """K rows of two states, numbered and not named; row k adds weight k when it is on.

    None of them is a `Row`: their parameters come from `chains`, one for all rows or one per row, and rows with
    equal parameters are not counted together.
    """

    named = False

    def __init__(self, chains: Switches, n_rows: int):
        self.given, self.rows, self.keys = (), [], []
        self.chains = chains
        self.parts = (chains,)
        self.n_rows = n_rows
        self.names = [f"row_{k}" for k in range(n_rows)]
        self.priors = chains.priors
        self.fixed = {}

    @property
    def n_channels(self) -> None:
        return None

    @cached_property
    def layout(self) -> Layout:
        return make_layout([2] * self.n_rows)

    @property
    def chain_parameters(self) -> set[str]:
        return set(self.priors)

    def placed(self, values: Mapping[str, Any]) -> SwitchRows:
        other = shallow_copy(self)
        other.chains = self.chains.with_unchecked_values(values)
        other.priors = {}
        return other

    def with_some(self, values: Mapping[str, Any]) -> tuple[Switches, dict[int, int]]:
        return self.chains.with_values(values), self.fixed

    def admits(self, values: Mapping[str, Any]) -> bool:
        if self.priors.keys().isdisjoint(("enter", "leave")):
            return True  # or `tables` says what is wrong
        chains = self.chains.with_unchecked_values(values)
        return bool(np.all(chains.enter + chains.leave <= 1))

    def tables(self, data: Observations) -> tuple[npt.NDArray[np.int32], Floats]:
        return self.chains.tables(self.n_rows, data)

    def slopes(
        self, data: Observations, weights: Floats, by_matrix: Sequence[Floats], by_add: Sequence[Floats]
    ) -> dict[str, Floats]:
        return self.chains.slopes(self.n_rows, data, np.stack(by_matrix, axis=1))

    def contributions(self, weights: Floats) -> list[Floats]:
        return [np.stack([np.zeros_like(weight), weight]) for weight in weights]

    def steps(self, weights: Floats) -> tuple[Floats, Floats]:
        return weights, np.zeros(weights.shape[1:])

    def weight_slopes(self, weights: Floats, by_add: Sequence[Floats]) -> Floats:
        return np.array([slope[1] for slope in by_add])

    def groups(self, weights: Floats, separate: bool = False) -> list[list[int]]:
        free = [k for k in range(self.n_rows) if k not in self.fixed]
        if separate or any(prior.shape for prior in self.priors.values()):
            return [[k] for k in free]
        given = (self.chains.enter, self.chains.leave, self.chains.initial)
        per_row = [weights, *(own for own in given if own is not None and own.ndim)]
        found: dict[tuple[bytes, ...], list[int]] = {}
        for k in free:
            found.setdefault(tuple(own[k].tobytes() for own in per_row), []).append(k)
        return list(found.values())

    def __repr__(self) -> str:
        return repr(self.chains)

    def _repr_html_(self) -> str:
        return ""


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)

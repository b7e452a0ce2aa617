"""Row: states with their values, and the Markov chain between them; Rows: all rows of a model, in order.

Row k has S_k states; its state s adds w_k * v_k[s] to the level, a number or one for every channel. A column's code
gives row k a field of ceil(log2 S_k) bits. Rows with the same values, weight and chain cannot be told apart: a target
counts them (`models.groups`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from chiasma.errors import InvalidInput
from chiasma.kernels.layout import Layout, make_layout
from chiasma.models.observations import Observations
from chiasma.models.priors import Prior
from chiasma.models.row_chains import RowChain
from chiasma.types import Floats, as_floats, is_a, shown

MAX_BITS = 63


class Row:
    """One hidden row, or several that cannot be told apart.

    Parameters
    ----------
    values : (S,) what each state adds to the level, S >= 2: [0, 2800] for a kettle, [0, 1, 2, 3] for copies of a
        chromosome. (S, D) where the level has D channels: [[1, 1], [2, 0]] for (major, minor) copies.
    chain : its Markov chain, ch.Switch (two states), ch.Sticky or ch.Markov. A fixed row needs none.
    name : for tables, figures and messages; default: row_0, row_1, ...
    copies : so many rows of this kind; they are named NAME_1, NAME_2, ...
    fixed : the state at which the row is held. A fixed row costs no state space.

    Examples
    --------
    >>> import chiasma as ch
    >>> ch.Row(values=[0, 150, 2000], chain=ch.Sticky(renew=0.01), name="washer")
    Row('washer', values=[0.0, 150.0, 2000.0], chain=Sticky(renew=0.01))
    """

    def __init__(
        self,
        values: npt.ArrayLike,
        chain: RowChain | None = None,
        name: str | None = None,
        copies: int = 1,
        fixed: int | None = None,
    ):
        self.values = as_floats("values", values)
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
        if not _is_whole(copies) or copies < 1:
            raise InvalidInput(f"copies of {called} must be a whole number of at least 1, got {copies!r}")
        if fixed is not None and (not _is_whole(fixed) or not 0 <= fixed < self.n_states):
            raise InvalidInput(f"{called} can be fixed at a state in 0..{self.n_states - 1}, got {fixed!r}")
        if fixed is None:
            self._check_chain(called)

    def _check_chain(self, called: str) -> None:
        if not isinstance(self.chain, RowChain):
            raise InvalidInput(
                f"{called} needs chain=ch.Switch(...), ch.Sticky(...) or ch.Markov(...), or fixed=, got {self.chain!r}"
            )
        if self.chain.n_states not in (None, self.n_states):
            raise InvalidInput(
                f"{called} has {self.n_states} values and its chain {self.chain.n_states} states; make them agree"
            )

    @property
    def n_states(self) -> int:
        return len(self.values)

    @property
    def n_channels(self) -> int | None:
        """Values of a state; None where it is a number."""
        return None if self.values.ndim == 1 else self.values.shape[1]

    @property
    def n_bits(self) -> int:
        return (self.n_states - 1).bit_length()

    def __repr__(self) -> str:
        parts = [f"values={self.values.tolist()}"]
        parts += [] if self.chain is None else [f"chain={self.chain}"]
        parts += [] if self.copies == 1 else [f"copies={self.copies}"]
        parts += [] if self.fixed is None else [f"fixed={self.fixed}"]
        return f"Row({', '.join([*([] if self.name is None else [repr(self.name)]), *parts])})"


class Rows:
    """The rows of a model: `given` as they were written, `rows` one by one, each with its name."""

    def __init__(self, given: Sequence[Row]):
        self.given = tuple(given) if is_a(given, Sequence) else ()
        if not self.given or not all(isinstance(row, Row) for row in self.given):
            raise InvalidInput(f"rows must be a list of at least one ch.Row, got {shown(given)}")
        self.names: list[str] = []
        self.rows: list[Row] = []
        for row in self.given:
            for copy in range(row.copies):
                base = f"row_{len(self.rows)}" if row.name is None else row.name
                self.names.append(f"{base}_{copy + 1}" if row.copies > 1 and row.name is not None else base)
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
        n_bits = sum(row.n_bits for row in self.rows)
        if n_bits > MAX_BITS:
            raise InvalidInput(
                f"a column has at most {MAX_BITS} bits, one for a row of two states, two for three or four, and so on; "
                f"these {len(self.rows)} rows need {n_bits}"
            )
        if all(row.fixed is not None for row in self.rows):
            raise InvalidInput(f"all {len(self.rows)} rows are fixed; leave at least one free")
        learned = [name for name, row in zip(self.names, self.rows, strict=True) if row.chain and row.chain.priors]
        if learned:
            raise InvalidInput(
                f"the Markov chain of row {learned[0]!r} has a prior, and parameters of rows cannot be learned yet; "
                "give numbers, or use chains=ch.BinaryChains(...) with priors for rows of two states"
            )

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    @property
    def n_channels(self) -> int | None:
        return self.rows[0].n_channels

    @property
    def fixed(self) -> dict[int, int]:
        return {k: int(row.fixed) for k, row in enumerate(self.rows) if row.fixed is not None}

    @cached_property
    def layout(self) -> Layout:
        """Where the rows are in a code."""
        return make_layout([row.n_states for row in self.rows])

    def contributions(self, weights: Floats) -> list[Floats]:
        """(S_k,) or (S_k, D) what each state of every row adds to the level; weights (K,) or (K, D)."""
        return [
            np.multiply.outer(row.values, weight) if row.n_channels is None else row.values * weight
            for weight, row in zip(weights, self.rows, strict=True)
        ]

    def groups(self, weights: Floats) -> list[list[int]]:
        """Free rows, those together that cannot be told apart."""
        found: dict[tuple[object, ...], list[int]] = {}
        for k, (row, adds) in enumerate(zip(self.rows, self.contributions(weights), strict=True)):
            if row.fixed is None:
                found.setdefault((repr(row.chain), adds.tobytes()), []).append(k)
        return list(found.values())


class RowChains:
    """The Markov chains of rows of two states, in the shape of BinaryChains."""

    priors: Mapping[str, Prior] = {}
    arguments: Mapping[str, object] = {}
    initial: Floats | None = None

    def __init__(self, rows: Rows):
        self.rows = rows

    def tables(self, n_rows: int, data: Observations) -> tuple[npt.NDArray[np.int32], Floats]:
        """edge (T,) and trans (E, K, 4), as the kernels take them; a fixed row stays as it is."""
        edge, gaps = data.edge_kinds()
        trans = np.empty((len(gaps), n_rows, 4))
        for k, row in enumerate(self.rows.rows):
            trans[:, k] = np.eye(2).ravel() if row.chain is None else row.chain.matrices(2, gaps).reshape(-1, 4)
        return edge, trans

    def with_unchecked_values(self, values: Mapping[str, object]) -> RowChains:
        return self

    def __repr__(self) -> str:
        return f"{list(self.rows.given)}"


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)

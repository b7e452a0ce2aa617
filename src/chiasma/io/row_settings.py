"""Rows as settings: [[row]] tables of a TOML file.

[[row]]
name = "washer"
values = [0, 150, 2000]
sticky = {renew = 0.01, probabilities = [0.8, 0.1, 0.1]}   # or switch = {...}, markov = {...}

[[row]]
name = "lamp"
values = [0, 1]
weight = {log_normal = [4.6, 0.5]}                         # a prior, as in [priors]: learned, one for all copies
switch = {enter = {beta = [1, 99]}, leave = 0.02}
copies = 8

A prior with shared = "NAME" is one parameter of all rows that name it: weight = {gamma = [2, 1], shared = "step"}.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chiasma.errors import InvalidInput
from chiasma.io.prior_settings import read_numbers, write_prior
from chiasma.models.chains import ROW_CHAINS
from chiasma.models.priors import Prior
from chiasma.models.rows import Row

PLAIN = ("name", "values", "copies", "fixed", "weight", "spread")


def read_rows(tables: Any) -> list[Row]:
    """The rows of [[row]] tables.

    >>> read_rows([{"name": "lamp", "values": [0, 100], "switch": {"enter": 0.01, "leave": 0.02}}])
    [Row(values=[0.0, 100.0], chain=Switch(enter=0.01, leave=0.02), name='lamp')]
    """
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise InvalidInput(f"rows must be [[row]] tables, got {tables!r}")
    return [_read_row(number, table) for number, table in enumerate(tables, start=1)]


def _read_row(number: int, table: dict[str, Any]) -> Row:
    unknown = sorted(set(table) - set(PLAIN) - set(ROW_CHAINS))
    if unknown:
        known = ", ".join((*PLAIN, *ROW_CHAINS))
        raise InvalidInput(f"[[row]] number {number} has no setting {unknown[0]!r}; it knows {known}")
    chains = [name for name in ROW_CHAINS if name in table]
    if len(chains) > 1:
        raise InvalidInput(f"[[row]] number {number} must have one Markov chain, got {' and '.join(chains)}")
    if "values" not in table:
        raise InvalidInput(f"[[row]] number {number} needs values, one per state, such as values = [0, 100]")
    chain = None
    for name in chains:
        kind, given = ROW_CHAINS[name], table[name]
        if not isinstance(given, dict) or not set(given) <= set(kind.arguments):
            raise InvalidInput(
                f"[[row]] number {number}: {name} takes a table of {', '.join(kind.arguments)}, got {given!r}"
            )
        try:
            chain = kind(
                **{key: read_numbers(f"{key} of [[row]] number {number}", value) for key, value in given.items()}
            )
        except TypeError as error:
            needed = [key for key, about in kind.arguments.items() if about.required and key not in given]
            raise InvalidInput(f"[[row]] number {number}: {name} needs {' and '.join(needed)}") from error
    own = {key: read_numbers(f"{key} of [[row]] number {number}", table[key]) for key in PLAIN if key in table}
    return Row(**own, chain=chain)


def write_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The tables that `read_rows` reads."""
    return [_write_row(row) for row in rows]


def _write_row(row: Row) -> dict[str, Any]:
    table: dict[str, Any] = {} if row.name is None else {"name": row.name}
    table["values"] = _written(row.given("values"))
    if "weight" in row.priors or row.weight != 1:
        table["weight"] = _written(row.given("weight"))
    if row.spreads:
        table["spread"] = _written(row.given("spread"))
    if row.chain is not None:
        name = next((name for name, kind in ROW_CHAINS.items() if type(row.chain) is kind), None)
        if name is None:
            raise InvalidInput(
                f"settings know the chains {', '.join(ROW_CHAINS)}, got {type(row.chain).__name__}; keep this model as "
                "Python code"
            )
        given = {key: row.chain.given(key) for key in row.chain.arguments}
        table[name] = {key: _written(value) for key, value in given.items() if value is not None}
    if row.copies > 1:
        table["copies"] = int(row.copies)
    if row.fixed is not None:
        table["fixed"] = int(row.fixed)
    return table


def _written(value: Any) -> Any:
    return write_prior(value) if isinstance(value, Prior) else value.tolist()

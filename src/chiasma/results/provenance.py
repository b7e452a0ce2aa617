"""Provenance: the description that a run stores, enough to detect different settings and to rebuild its model.

Everything is plain JSON: the parameters of an emission in `EMISSIONS` as lists, data as a digest. A function or a class
that is in no registry is stored by name only, and the model then cannot be rebuilt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any, TypedDict

import numpy as np

import chiasma
from chiasma.models.arguments import Learnable
from chiasma.models.chains import ROW_CHAINS, Switches
from chiasma.models.density import Density
from chiasma.models.emissions import EMISSIONS
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.models.offsets import describe_offset, rebuild_offset
from chiasma.models.priors import Prior, prior_of
from chiasma.models.rows import Row, SwitchRows


def describe_model(model: FactorialHMM | Density, registered: bool = True) -> dict[str, Any]:
    """registered: whether an emission in `EMISSIONS` is described by its parameters; else by all its attributes."""
    if isinstance(model, Density):
        return {"kind": type(model).__name__, **_attributes(model), "dtype": model.dtype.name}
    emission, rows = model.emission, model.rows
    told = {
        "kind": "FactorialHMM",
        "emission": _name(type(emission)),
        "parameters": _parameters(emission)
        if registered and type(emission) in EMISSIONS.values()
        else _attributes(emission),
    }
    if model.offset is not None:
        told["offset"] = describe_offset(model.offset)
    if not isinstance(rows, SwitchRows):
        return told | {"rows": [_row(row) for row in rows.given]}
    return told | {
        **({} if type(rows.chains) is Switches else {"chains": _name(type(rows.chains))}),
        **_parameters(rows.chains),
        "fixed": {str(k): x for k, x in model.fixed.items()},
    }


def _name(kind: type) -> str:
    """The stored name of a class. Classes of this package omit the module, so that they can move to another file."""
    own = kind.__module__.partition(".")[0] == chiasma.__name__
    return kind.__name__ if own else f"{kind.__module__}.{kind.__qualname__}"


def _named(registry: Mapping[str, type[Any]], name: str | None) -> type[Any] | None:
    return next((kind for kind in registry.values() if _name(kind) == name), None)


def _row(row: Row) -> dict[str, Any]:
    chain = None if row.chain is None else {"kind": _name(type(row.chain)), **_parameters(row.chain)}
    whole = {"copies": int(row.copies), "fixed": None if row.fixed is None else int(row.fixed)}
    own = _parameters(row)
    if not row.spreads:
        del own["spread"]
    return {"name": row.name, "chain": chain} | own | whole


def _rebuild_row(told: dict[str, Any]) -> Row | None:
    """None where the chain is of a class that is in no registry."""
    chain = None
    if told["chain"] is not None:
        kind = _named(ROW_CHAINS, told["chain"]["kind"])
        if kind is None:
            return None
        chain = kind(**{name: prior_of(value) for name, value in told["chain"].items() if name != "kind"})
    own = {name: prior_of(value) for name, value in told.items()}
    return Row(**(own | {"chain": chain}))


def _parameters(part: Learnable) -> dict[str, Any]:
    return {name: _parameter(part, name) for name in part.arguments}


def _parameter(part: Learnable, name: str) -> Any:
    """A parameter as JSON: a number, a list, or the description of a prior."""
    value = part.given(name)
    if isinstance(value, Prior):
        return value.describe()
    return None if value is None else np.asarray(value).tolist()


def _attributes(thing: object) -> dict[str, Any]:
    """The public attributes of any object: plain values unchanged, arrays as digests, functions by name."""
    return {key: _told(value) for key, value in sorted(vars(thing).items()) if not key.startswith("_")}


def _told(value: Any) -> Any:
    if isinstance(value, bool | int | float | str | None):
        return value
    if isinstance(value, np.ndarray | list | tuple):
        return digest(value)
    if hasattr(value, "__qualname__"):
        return value.__qualname__
    # A repr with a memory address differs in every run.
    return type(value).__qualname__ if " at 0x" in repr(value) else repr(value)


def rebuild_model(description: dict[str, Any], data: Observations | None = None) -> FactorialHMM | None:
    """Rebuild the model from its description; None if a class is in no registry, or was not when the run was stored.

    data : what an offset to learn is bound to.

    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.2), emission=ch.Poisson([1.0, 2.0]), fixed={1: 1})
    >>> describe_model(rebuild_model(describe_model(model))) == describe_model(model)
    True
    """
    emission = _named(EMISSIONS, description.get("emission"))
    if "rows" in description:
        rows = [_rebuild_row(row) for row in description["rows"]]
        if emission is None or any(row is None for row in rows):
            return None
        parameters = {name: prior_of(value) for name, value in description["parameters"].items()}
        offset = rebuild_offset(description.get("offset"), data)
        given = [row for row in rows if row is not None]
        return FactorialHMM(rows=given, emission=emission(**parameters), offset=offset)
    # The attributes of a class that was not registered include more than its arguments.
    if emission is None or "chains" in description or not set(description["parameters"]) <= set(emission.arguments):
        return None
    return FactorialHMM(
        rows=Switches(**{name: prior_of(description[name]) for name in Switches.arguments}),
        emission=emission(**{name: prior_of(value) for name, value in description["parameters"].items()}),
        fixed={int(k): x for k, x in description["fixed"].items()},
        offset=rebuild_offset(description.get("offset"), data),
    )


def describe_data(data: Observations | None) -> dict[str, Any]:
    if data is None:
        return {}
    return {
        "columns": data.n_columns,
        "y": digest(data.y),
        "starts": digest(data.starts),
        "gaps": None if data.gaps is None else digest(data.gaps),
        **({} if data.step is None else {"step": data.step, "unit": data.unit}),
        **({"known": digest(data.known_array), "known_rows": list(data.known)} if data.known else {}),
    }


@cache
def versions() -> dict[str, str]:
    return {"chiasma": chiasma.__version__} | {name: version(name) for name in ("numpy", "numba", "zarr")}


def digest(values: Any) -> str:
    """A short fingerprint of an array."""
    array = np.ascontiguousarray(values)
    return hashlib.sha256(f"{array.dtype.str}{array.shape}".encode() + array.tobytes()).hexdigest()[:16]


def differences(stored: dict[str, Any], wanted: dict[str, Any], path: str = "") -> list[str]:
    """Where two descriptions differ, in words.

    >>> differences({"model": {"sd": 1.0}}, {"model": {"sd": 2.0}})
    ['model.sd is 1.0 in the store, got 2.0']
    """
    found = []
    for key in sorted(stored.keys() | wanted.keys()):
        old, new = stored.get(key), wanted.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            found += differences(old, new, f"{path}{key}.")
        elif old != new:
            found.append(f"{path}{key} is {old} in the store, got {new}")
    return found


# ---- How the draws of a posterior were made --------------------------------------------------------------------------


class RunInfo(TypedDict, total=False):
    """The entries of `Posterior.info`. A posterior made by hand may lack any of them."""

    n_rows: int | None  # None for plain vectors
    row_sizes: list[int] | None  # states of every row
    row_names: list[str] | None  # None where rows have numbers only
    seed: int
    plan: str  # what was chosen and why, in words
    update: str | None  # as Python code; None for a Density, which has its own update
    update_kind: str | None  # its class, such as "RowGibbs"; None for a Density
    update_named: bool  # by the caller, not chosen by "auto"
    larger_blocks: int | None  # rows of a block that holds more than the update draws jointly; None: there is none
    one_start: bool  # `init` gave all chains the same start, so their agreement says little
    starts: int | None  # of the search for optima, where the update has one
    exchange: str | None  # None if nothing was exchanged
    follows_swaps: bool  # exchanges swap whole paths, so round trips can be counted
    independent: bool  # draws are independent of each other
    proper_prior: bool  # the prior is a distribution; without one there is no evidence
    settings: dict[str, Any]  # arguments of sample()
    versions: dict[str, str]
    timings: dict[str, float]  # seconds of every stage and of compilation, of all calls that worked on the run
    complete: bool  # a stored run has all requested draws
    round_trips: list[int]  # per chain
    exchange_steps: list[int]  # per chain
    optima: list[dict[str, Any]]  # of the posterior of learned parameters, as Optima.to_dict describes them


def run_info(about: dict[str, Any], timings: dict[str, float]) -> RunInfo:
    """The entries of `Posterior.info` that come from the description of a run."""
    run = about["run"]
    return {
        "n_rows": about["n_rows"],
        "row_sizes": about.get("row_sizes"),
        "row_names": about.get("row_names"),
        "seed": run["seed"],
        "plan": about["plan"],
        "update": run["update"],
        "update_kind": about.get("update_kind"),
        "update_named": about.get("update_named", False),
        "larger_blocks": about.get("larger_blocks"),
        "one_start": about.get("one_start", False),
        "starts": about.get("starts"),
        "exchange": run["exchange"],
        "follows_swaps": about["follows_swaps"],
        "independent": about["independent"],
        "proper_prior": about.get("proper_prior", True),
        "settings": run,
        "versions": about["versions"],
        "timings": dict(timings),
        "optima": about.get("optima", []),
    }

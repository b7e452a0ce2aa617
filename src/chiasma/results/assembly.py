"""From a finished run to a Posterior: exchange statistics, evidence, warnings in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from chiasma.kernels.ensemble import Tally
from chiasma.models.density import Density
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.results.arrays import per_draw
from chiasma.results.evidence import Evidence, bridge_evidence, ladder_evidence
from chiasma.results.posterior import Posterior
from chiasma.sampling.exchanges import Swap
from chiasma.sampling.ladder import barrier, pair_lengths, suggested_size
from chiasma.types import Floats, Integers

# Neighbouring rungs that would swap less often than this hardly know of each other.
DISCONNECTED = 0.98
# Past this, the evidence has no bridge between two rungs (verification/results/evidence.md).
UNBRIDGED = 0.8


def assemble(
    *,
    draws: xr.DataArray | Callable[[], xr.DataArray],
    log_prior: Floats,
    log_lik: Floats,
    values: Floats | None,
    work: Floats | None,
    betas: Floats,
    tallies: list[Tally],
    exact_evidence: float | None,
    info: dict[str, Any],
    model: FactorialHMM | Density | None,
    data: Observations | None,
    row_counts: Integers | None = None,
) -> Posterior:
    """A Posterior from the records of a run: draws and log_prior (C, n), log_lik (C, n, R), a tally per chain.

    values (C, n, P): learned parameters; work (C, n, R - 1, 2): between rungs, where paths were integrated out.
    """
    stats = pair_stats(tallies, betas)
    cold = log_lik[..., -1]
    evidence = None
    if exact_evidence is not None:
        evidence = Evidence(exact_evidence, 0.0)
    elif len(betas) > 1 and betas[0] == 0:
        evidence = bridge_evidence(work) if work is not None and work.size else ladder_evidence(log_lik, betas)
    return Posterior(
        draws=draws,
        log_joint=partial(per_draw, "log_joint", log_prior + cold),
        log_likelihood=partial(per_draw, "log_likelihood", cold),
        replica_log_likelihood=partial(per_draw, "replica_log_likelihood", log_lik, "replica"),
        betas=betas,
        exchange_stats=partial(as_dataset, stats),
        parameters=partial(named_parameters, values, model),
        log_evidence=evidence,
        model=model,
        data=data,
        row_counts=row_counts,
        info=info
        | {
            "round_trips": [int(tally.round_trips[0]) for tally in tallies],
            "exchange_steps": [int(tally.steps[0]) for tally in tallies],
            "warnings": ladder_warnings(str(info["exchange"]), stats),
        },
    )


def pair_stats(tallies: list[Tally], betas: Floats) -> dict[str, npt.NDArray[Any]]:
    """Per pair of neighbouring rungs, over all chains; pair p joins rungs p and p + 1."""
    steps = max(sum(int(tally.steps[0]) for tally in tallies), 1)
    moves = np.sum([tally.moves for tally in tallies], axis=0)
    rejection = 1 - np.sum([tally.acceptance for tally in tallies], axis=0) / steps
    tried = np.maximum(moves, 1)
    return {
        "rejection": rejection,
        "length": pair_lengths(betas, rejection, np.sum([tally.log_lik for tally in tallies], axis=0) / steps),
        "barrier": barrier(rejection)[1:],
        "moves": moves,
        "changed": np.sum([tally.changed for tally in tallies], axis=0) / tried,
        "columns": np.sum([tally.columns for tally in tallies], axis=0) / tried,
        "beta_low": betas[:-1],
        "beta_high": betas[1:],
    }


def named_parameters(values: Floats | None, model: FactorialHMM | Density | None) -> xr.Dataset:
    """Learned parameters (C, n, P) by their names, with a coordinate for rows."""
    if values is None or not values.shape[-1]:
        return xr.Dataset()
    if not isinstance(model, FactorialHMM):
        return xr.Dataset({"parameters": per_draw("parameters", values, "parameter")})
    named = model.parameters.unpack(values)
    dims = {
        slot.name: _dims(slot.prior.shape, model.n_rows if slot.name in _BY_ROW else None)
        for slot in model.parameters.slots
    }
    return xr.Dataset({name: per_draw(name, array, *dims[name]) for name, array in named.items()})


_BY_ROW = ("weights", "enter", "leave", "initial")


def _dims(shape: tuple[int, ...], n_rows: int | None) -> tuple[str, ...]:
    names = ("row", "channel") if n_rows is not None else ("channel",)
    return names[: len(shape)]


def as_dataset(stats: Mapping[str, npt.NDArray[Any]]) -> xr.Dataset:
    """The same with labels."""
    along = {name: ("pair", values) for name, values in stats.items()}
    coords = {name: along.pop(name) for name in ("beta_low", "beta_high")}
    return xr.Dataset(along, coords={"pair": np.arange(len(stats["moves"])), **coords})


def ladder_warnings(exchange: str, stats: Mapping[str, npt.NDArray[Any]]) -> list[str]:
    """What is wrong with the ladder, and the remedy. exchange: the move in words, as in `Posterior.info`."""
    if not stats["moves"].any():
        return []
    rejection = stats["rejection"]
    warnings = []
    if exchange.startswith(Swap.__name__) and rejection.max() > DISCONNECTED:
        worst = int(rejection.argmax())
        warnings.append(
            f"the ladder is too short: rungs {worst} and {worst + 1} would swap in "
            f"{100 * (1 - rejection[worst]):.1g}% of the steps; use at least {suggested_size(stats['length'])} rungs, "
            "adapted (Ladder.adapted()), or a crossover, which exchanges segments"
        )
    idle = (stats["changed"] < 0.01) & (stats["moves"] > 0)
    if idle.any():
        first = int(np.argmax(idle))
        warnings.append(
            f"rungs {first} and {first + 1} exchange next to nothing ({int(idle.sum())} such pair(s)); "
            "put rungs between them or adapt the ladder (Ladder.adapted())"
        )
    if stats["beta_low"][0] == 0 and rejection.max() > UNBRIDGED:
        worst = int(rejection.argmax())
        warnings.append(
            f"the log evidence cannot be trusted, nor its standard error: rungs {worst} and {worst + 1} hardly overlap "
            f"(rejection {rejection[worst]:.2f}, at most {UNBRIDGED} is fine); use about "
            f"{suggested_size(stats['length'])} rungs (Ladder.adapted(size=...)); the draws are not affected"
        )
    return warnings

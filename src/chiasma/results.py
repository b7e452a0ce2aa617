"""From a finished run to a Posterior: exchange statistics, evidence, warnings in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from chiasma.engine import Engine, Problem
from chiasma.evidence import Evidence, ladder_evidence
from chiasma.exchange import Swap
from chiasma.independent import ExactEngine
from chiasma.ladder import barrier, pair_lengths, suggested_size
from chiasma.models.density import Density
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Floats, Observations
from chiasma.plan import Plan
from chiasma.posterior import Posterior, labelled
from chiasma.trace import MemoryTrace

# Neighbouring rungs that would swap less often than this hardly know of each other.
DISCONNECTED = 0.98


def collect(
    model: FactorialHMM | Density,
    data: Observations | None,
    problem: Problem,
    plan: Plan,
    engines: list[Engine],
    trace: MemoryTrace,
    seed: int,
    timings: dict[str, float],
) -> Posterior:
    betas = engines[0].betas
    log_lik = trace.log_lik[..., -1]
    is_path = isinstance(model, FactorialHMM)
    stats = exchange_stats(engines)
    return Posterior(
        draws=labelled("codes" if is_path else "x", trace.states, "site"),
        log_joint=labelled("log_joint", trace.log_prior + log_lik),
        log_likelihood=labelled("log_likelihood", log_lik),
        replica_log_likelihood=labelled("replica_log_likelihood", trace.log_lik, "replica"),
        betas=betas,
        exchange_stats=stats,
        log_evidence=_evidence(engines, trace, betas),
        model=model,
        data=data,
        info={
            "n_rows": model.n_rows if isinstance(model, FactorialHMM) else None,
            "seed": seed,
            "plan": plan.reason,
            "update": repr(plan.update),
            "exchange": repr(plan.exchange),
            "timings": dict(timings),
            "round_trips": [int(engine.tally.round_trips[0]) for engine in engines],
            "exchange_steps": [int(engine.tally.steps[0]) for engine in engines],
            "warnings": ladder_warnings(plan, stats),
        },
    )


def exchange_stats(engines: list[Engine]) -> xr.Dataset:
    """Per pair of neighbouring rungs, over all chains; pair p joins rungs p and p + 1."""
    tallies = [engine.tally for engine in engines]
    steps = max(sum(int(tally.steps[0]) for tally in tallies), 1)
    moves = np.sum([tally.moves for tally in tallies], axis=0)
    rejection = 1 - np.sum([tally.acceptance for tally in tallies], axis=0) / steps
    tried = np.maximum(moves, 1)
    betas = engines[0].betas
    lengths = pair_lengths(betas, rejection, np.sum([tally.log_lik for tally in tallies], axis=0) / steps)
    return xr.Dataset(
        {
            "rejection": ("pair", rejection),
            "length": ("pair", lengths),
            "barrier": ("pair", barrier(rejection)[1:]),
            "moves": ("pair", moves),
            "changed": ("pair", np.sum([tally.changed for tally in tallies], axis=0) / tried),
            "columns": ("pair", np.sum([tally.columns for tally in tallies], axis=0) / tried),
        },
        coords={
            "pair": np.arange(len(moves)),
            "beta_low": ("pair", betas[:-1]),
            "beta_high": ("pair", betas[1:]),
        },
    )


def ladder_warnings(plan: Plan, stats: xr.Dataset) -> list[str]:
    """What is wrong with the ladder, and the remedy."""
    if plan.exchange is None or not int(stats["moves"].sum()):
        return []
    rejection = stats["rejection"].values
    warnings = []
    if isinstance(plan.exchange, Swap) and rejection.max() > DISCONNECTED:
        worst = int(rejection.argmax())
        warnings.append(
            f"the ladder is too short: rungs {worst} and {worst + 1} would swap in "
            f"{100 * (1 - rejection[worst]):.1g}% of the steps; use at least {suggested_size(stats['length'])} rungs, "
            "adapted (Ladder.adapted()), or a crossover, which exchanges segments"
        )
    idle = (stats["changed"].values < 0.01) & (stats["moves"].values > 0)
    if idle.any():
        first = int(np.argmax(idle))
        warnings.append(
            f"rungs {first} and {first + 1} exchange next to nothing ({int(idle.sum())} such pair(s)); "
            "put rungs between them or adapt the ladder (Ladder.adapted())"
        )
    return warnings


def _evidence(engines: list[Engine], trace: MemoryTrace, betas: Floats) -> Evidence | None:
    first: Any = engines[0]
    if isinstance(first, ExactEngine):
        return Evidence(first.shared.passes.log_evidence, 0.0)
    if len(betas) > 1 and betas[0] == 0:
        return ladder_evidence(trace.log_lik, betas)
    return None

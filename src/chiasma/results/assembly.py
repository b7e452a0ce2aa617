"""Assemble a Posterior from the arrays of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import xarray as xr

from chiasma.kernels.ensemble import Tally
from chiasma.models.density import Density
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.results.arrays import per_draw
from chiasma.results.ladder_stats import Evidence, as_dataset, bridge_evidence, ladder_evidence, pair_stats
from chiasma.results.parameters import named_parameters
from chiasma.results.posterior import Posterior
from chiasma.results.provenance import RunInfo
from chiasma.types import Floats, Integers


def assemble(
    *,
    draws: xr.DataArray | Callable[[], xr.DataArray],
    log_prior: Floats,
    log_lik: Floats,
    values: Floats | None,
    work: Floats | None,
    betas: Floats,
    tallies: Sequence[Tally],
    exact_evidence: float | None,
    info: RunInfo,
    model: FactorialHMM | Density | None,
    data: Observations | None,
    row_counts: Integers | None = None,
    save: Callable[[str | Path], None] | None = None,
) -> Posterior:
    """The posterior of draws (C, n, T) with log_prior (C, n), log_lik (C, n, R) and a tally per chain.

    values (C, n, P): learned parameters; work (C, n, R - 1, 2): work between rungs if paths were integrated out, and
    with a single rung (C, n, 1, 2), that between its proposals and its draws.
    """
    if isinstance(model, FactorialHMM) and data is not None and data.known:
        model = model.for_data(data)
    stats = pair_stats(tallies, betas)
    cold = log_lik[..., -1]
    evidence = None
    if exact_evidence is not None:
        evidence = Evidence(exact_evidence, 0.0)
    elif len(betas) == 1 and work is not None and work.size:
        evidence = bridge_evidence(work)
    elif len(betas) > 1 and betas[0] == 0 and info.get("proper_prior", True):
        evidence = bridge_evidence(work) if work is not None and work.size else ladder_evidence(log_lik, betas)
        if data is not None and data.known:
            evidence = _with_known(evidence, model, data)
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
        _save=save,
        info={
            **info,
            "round_trips": [int(tally.round_trips[0]) for tally in tallies],
            "exchange_steps": [int(tally.steps[0]) for tally in tallies],
        },
    )


def _with_known(evidence: Evidence, model: FactorialHMM | Density | None, data: Observations) -> Evidence | None:
    """A ladder begins at the prior given the known states: adds their probability, if no parameters are learned."""
    if not isinstance(model, FactorialHMM) or model.learns:
        return None
    return evidence._replace(value=evidence.value + model.exact_target(data).log_known)

"""How cost grows: exact passes with T and K, ensembles with K, and the exponents that fit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from core import example, fastest

import chiasma as ch
from chiasma.sampling.plan import BLOCK_ROWS

if TYPE_CHECKING:
    from run import Report

COLUMNS = (10_000, 100_000, 1_000_000)
EXACT_ROWS = (2, 4, 6, 8, 10, 12, 14)
ENSEMBLE_ROWS = (6, 12, 24, 40, 60)
REPLICAS = 4


def exponent(x: list[float], seconds: list[float]) -> str:
    """a of seconds ~ x^a, by least squares on logarithms."""
    return f"{np.polyfit(np.log(x), np.log(seconds), 1)[0]:.2f}"


def run(report: Report) -> None:
    columns(report)
    exact_rows(report)
    ensemble_rows(report)


def columns(report: Report, n_rows: int = 6) -> None:
    rows = []
    for name, job in (
        ("log-likelihood", lambda model, data: ch.exact.log_evidence(model, data)),
        ("marginals", lambda model, data: ch.exact.marginals(model, data)),
        ("one draw from scratch", lambda model, data: ch.exact.draws(model, data, 1, seed=1)),
    ):
        seconds = [fastest(partial(job, *example(n_rows, t)), repeats=3)[0] for t in COLUMNS]
        cells = [f"{value * 1e3:,.1f}" for value in seconds]
        rows.append([name, *cells, exponent([float(t) for t in COLUMNS], seconds)])
    report.text(
        f"## Columns, K = {n_rows}\n\n"
        "CPU milliseconds, and the exponent a of a fit seconds ~ T^a. Where the forward messages of all columns exceed "
        "the default memory budget of 512 MiB (T = 1,000,000), draws and marginals keep only checkpoints and recompute "
        "the rest."
    )
    report.table(["job", *(f"T = {t:,}" for t in COLUMNS), "exponent"], rows)


def exact_rows(report: Report, n_columns: int = 1_000) -> None:
    rows = []
    for name, job in (
        ("log-likelihood", lambda model, data: ch.exact.log_evidence(model, data)),
        ("one draw from scratch", lambda model, data: ch.exact.draws(model, data, 1, seed=1)),
    ):
        seconds = [fastest(partial(job, *example(k, n_columns)), repeats=3)[0] for k in EXACT_ROWS]
        cells = [f"{value * 1e3:,.2f}" for value in seconds]
        large = [(2.0**k * (k + 2), s) for k, s in zip(EXACT_ROWS, seconds, strict=True) if k >= 6]
        rows.append([name, *cells, exponent([x for x, _ in large], [s for _, s in large])])
    report.text(
        f"## Rows, exact, T = {n_columns:,}\n\n"
        "CPU milliseconds, and the exponent a of a fit seconds ~ ((K + 2) 2^K)^a over K ≥ 6. The number of operations "
        "predicts 1. An HMM on the expanded state space needs 4^K operations, about 2 on this scale."
    )
    report.table(["job", *(f"K = {k}" for k in EXACT_ROWS), "exponent"], rows)


def ensemble_rows(report: Report, n_columns: int = 1_000, sweeps: int = 20) -> None:
    rows = []
    for name, update in (("row Gibbs", "row"), (f"blocks of {BLOCK_ROWS} rows", "block")):
        seconds = []
        for k in ENSEMBLE_ROWS:
            model, data = example(k, n_columns)
            job = partial(
                ch.sample,
                model,
                data,
                update=update,
                exchange="mosaic",
                ladder=list(np.geomspace(1, 5, REPLICAS)),
                draws=sweeps,
                warmup=0,
                chains=1,
                seed=1,
                progress=False,
            )
            seconds.append(fastest(job, repeats=3)[0] / (sweeps * REPLICAS))
        cells = [f"{value * 1e3:,.3f}" for value in seconds]
        # The smallest K reads its likelihoods from a table, the others evaluate them as they are needed.
        streamed = [(float(k), s) for k, s in zip(ENSEMBLE_ROWS, seconds, strict=True) if k >= 24]
        rows.append([name, *cells, exponent([x for x, _ in streamed], [s for _, s in streamed])])
    report.text(
        f"## Rows, ensemble of {REPLICAS} replicas, T = {n_columns:,}\n\n"
        "CPU milliseconds per replica and sweep over all rows, with a mosaic exchange after each sweep, set-up "
        "included; and the exponent a of a fit seconds ~ K^a over K ≥ 24. There a table of the likelihoods of all "
        "states does not fit in memory, and likelihoods are computed on demand. For smaller K the tables are computed "
        "first, which takes much of the time of such a short run."
    )
    report.table(["update", *(f"K = {k}" for k in ENSEMBLE_ROWS), "exponent"], rows)

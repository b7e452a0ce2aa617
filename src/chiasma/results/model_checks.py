"""The checks of the fit without a run: of a model with all numbers, by a few exact draws of its states."""

from __future__ import annotations

import numpy as np
import xarray as xr

from chiasma.exact.inference import Data, draws
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.results.arrays import per_draw
from chiasma.results.findings import Finding, in_order
from chiasma.results.fit_checks import Traits, fit_findings, offset_findings
from chiasma.results.misfit import DRAWS, misfit
from chiasma.results.posterior import Posterior
from chiasma.results.provenance import RunInfo


def check(model: FactorialHMM, data: Data, seed: int = 0) -> tuple[Finding, ...]:
    """Does a model without priors fit the data? The checks of `Posterior.findings` that concern the fit.

    Parameters
    ----------
    model : FactorialHMM without priors, such as `optima.best.model`; `model.at(values)` sets those that it has.
    data : Observations, or the signal as an array (T,) or (T, D).
    seed : int, of the exact draws whose residuals are checked.

    Returns
    -------
    A tuple of findings, the worst first; empty if the checks found no problem.

    Examples
    --------
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.02, 0.02), emission=ch.Gaussian([1.0, 2.0], sd=0.5))
    >>> _, y = model.simulate(2_000, seed=1)
    >>> ch.check(model, y)
    ()
    >>> import numpy as np
    >>> [found.code for found in ch.check(model, y + np.sin(np.arange(2_000) / 200))][0]
    'drift'
    """
    seen = Observations.of(data)
    codes = draws(model, seen, DRAWS, seed=seed)
    zeros = np.zeros((1, DRAWS))
    posterior = Posterior(
        draws=per_draw("codes", codes[None], "site"),
        log_joint=per_draw("log_joint", zeros),
        log_likelihood=per_draw("log_likelihood", zeros),
        replica_log_likelihood=per_draw("replica_log_likelihood", zeros[..., None], "replica"),
        betas=np.ones(1),
        exchange_stats=xr.Dataset(),
        log_evidence=None,
        model=model,
        data=seen,
        info=RunInfo(n_rows=model.n_rows, row_sizes=list(model.layout.sizes), independent=True),
    )
    return in_order([*fit_findings(misfit(posterior), Traits.of(model)), *offset_findings(model, seen)])

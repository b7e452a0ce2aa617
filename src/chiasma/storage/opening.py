"""Open a stored run as a posterior, or reopen its store to resume the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from chiasma.errors import InvalidInput, StoreError
from chiasma.kernels.ensemble import Tally, make_tally
from chiasma.models.density import Density
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.results.assembly import assemble
from chiasma.results.posterior import Posterior
from chiasma.results.provenance import differences, rebuild_model
from chiasma.results.run_info import run_info
from chiasma.storage.store import Layout, ZarrTrace, check_chunks, read_header, read_run

# A run may be resumed only if these parts of its description are unchanged.
_SAME = ("model", "data", "run")


def open_posterior(
    path: str | Path, draws: int | None = None, model: FactorialHMM | Density | None = None
) -> Posterior:
    """The posterior of a stored run, finished or not: every draw up to the last flush, loaded lazily.

    Parameters
    ----------
    path : the store, as given to sample(store=...).
    draws : open only the first `draws` draws of every chain.
    model : the model, needed only if it contains a user's own function and could not be stored.
    """
    path = Path(path)
    header, checkpoints = read_run(path)
    about, layout = header["provenance"], Layout(**header["layout"])
    n_draws = min(header["committed"])
    if n_draws == 0:
        raise StoreError(f"{path} holds no draws yet: the run stopped before its first flush; resume it")
    if draws is None:
        check_chunks(path, header, checkpoints)
    elif not 1 <= draws <= n_draws:
        raise InvalidInput(f"draws must be in 1..{n_draws} (draws in {path}), got {draws}")
    whole = xr.open_zarr(path, consolidated=True)
    stored = whole.isel(draw=slice(draws or n_draws))
    names = {dim: np.arange(stored.sizes[dim]) for dim in ("chain", "draw", "site")}
    # Running counts cover all draws of a chain, so they can be used only if all chains have the same number of draws.
    level = draws is None and len(set(header["committed"])) == 1 and layout.n_rows > 0
    return assemble(
        draws=stored[layout.name].assign_coords(names),
        log_prior=stored["log_prior"].values,
        log_lik=stored["replica_log_likelihood"].values,
        values=stored["parameters"].values if layout.n_values else None,
        work=stored["work"].values if layout.n_pairs else None,
        betas=whole["beta"].values,
        tallies=[_tally(checkpoint, layout.n_replicas) for checkpoint in checkpoints],
        exact_evidence=header["log_evidence"],
        info={**run_info(about, header["timings"]), "complete": n_draws == layout.n_draws},
        model=model or rebuild_model(about["model"]),
        data=_data(whole),
        row_counts=sum(checkpoint["counts"] for checkpoint in checkpoints) if level else None,
    )


def stored_seed(path: Path) -> int:
    return int(read_header(path)["provenance"]["run"]["seed"])


def reopen_store(path: Path, about: dict[str, Any], n_draws: int) -> ZarrTrace:
    """Reopen the store of an earlier run to resume it; raises StoreError if model, data or settings differ."""
    stored = read_header(path)["provenance"]
    found = [text for part in _SAME for text in differences(stored[part], about[part], f"{part}.")]
    if found:
        raise StoreError(
            f"{path} holds another run and cannot be resumed with these settings: {'; '.join(found)}; "
            "call sample as before, or give another store"
        )
    return ZarrTrace.reopen(path, n_draws)


def _tally(checkpoint: dict[str, Any], n_replicas: int) -> Tally:
    if not checkpoint:
        return make_tally(n_replicas)
    return Tally(*(checkpoint[f"tally_{name}"] for name in Tally._fields))


def _data(stored: xr.Dataset) -> Observations | None:
    if "y" not in stored:
        return None
    gaps = stored["gaps"].values if "gaps" in stored else None
    return Observations(stored["y"].values, stored["starts"].values, gaps)

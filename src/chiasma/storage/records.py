"""From a run to its records and back: beginning and taking up stores, reading posteriors from them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from chiasma.errors import InvalidInput, StoreError
from chiasma.kernels.ensemble import Tally, make_tally
from chiasma.models.density import Density
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.results.arrays import per_draw
from chiasma.results.assembly import assemble
from chiasma.results.posterior import Posterior
from chiasma.results.provenance import describe_data, describe_model, differences, digest, rebuild_model, versions
from chiasma.sampling.engines import Engine, Recorded
from chiasma.sampling.exact_engine import ExactEngine
from chiasma.sampling.plan import Plan
from chiasma.storage.store import ZarrTrace, draws_per_chunk
from chiasma.storage.store_files import Layout, check_chunks, read_header, read_run
from chiasma.storage.trace import MemoryTrace, Trace

# A run may be taken up again only where these are what they were.
_SAME = ("model", "data", "run")


def describe_run(
    model: FactorialHMM | Density,
    data: Observations | None,
    plan: Plan,
    settings: dict[str, Any],
    start: Any,
    engine: Engine,
) -> dict[str, Any]:
    """Everything that the draws depend on, and how it was chosen, as plain JSON."""
    ladder = plan.ladder
    return {
        "model": describe_model(model),
        "data": describe_data(data),
        "run": settings
        | {
            "update": repr(plan.update),
            "exchange": repr(plan.exchange),
            "ladder": {"betas": list(ladder.betas), "adapt": ladder.adapt, "resize": ladder.resize},
            "init": _described(start),
        },
        "plan": plan.reason,
        "n_rows": model.n_rows if isinstance(model, FactorialHMM) else None,
        "log_evidence": engine.shared.passes.log_evidence if isinstance(engine, ExactEngine) else None,
        "versions": versions(),
    }


def _described(start: Any) -> Any:
    """Where a run starts: a state, or codes and parameters by name."""
    if start is None:
        return None
    if not isinstance(start, tuple):
        return digest(start)
    codes, named = start
    described = {name: np.asarray(value).tolist() for name, value in named.items()}
    return described | ({} if codes is None else {"states": digest(codes)})


def begin(
    path: Path | None,
    about: dict[str, Any],
    problem: Recorded,
    engines: list[Engine],
    n_draws: int,
    data: Observations | None,
) -> Trace:
    """A new place for records: memory, or a store."""
    betas = engines[0].betas
    if path is None:
        empty = engines[0].empty_chunk(0, thin=0)
        return MemoryTrace(len(engines), n_draws, empty._replace(states=problem.record(empty.states)))
    layout = Layout(
        name=problem.name,
        n_chains=len(engines),
        n_draws=n_draws,
        n_sites=problem.n_sites,
        n_replicas=len(betas),
        dtype=np.dtype(problem.record_dtype).name,
        n_rows=about["n_rows"] or 0,
        chunk_draws=draws_per_chunk(problem.n_sites, len(betas), problem.record_dtype, engines[0].piece()),
        n_values=engines[0].empty_chunk(0, thin=0).values.shape[1],
        n_pairs=engines[0].empty_chunk(0, thin=0).work.shape[1],
    )
    static: dict[str, tuple[npt.NDArray[Any], str]] = {"beta": (betas, "replica")}
    if data is not None:
        static["y"] = (data.y, "site" if data.y.ndim == 1 else "site channel")
        static["starts"] = (data.starts, "sequence")
        if data.gaps is not None and len(data.gaps):
            static["gaps"] = (data.gaps, "gap")
    return ZarrTrace.create(path, layout, static, about)


def stored_seed(path: Path) -> int:
    return int(read_header(path)["provenance"]["run"]["seed"])


def take_up(path: Path, about: dict[str, Any], n_draws: int) -> ZarrTrace:
    """The store of an earlier run, to go on with; refuses one that was made differently."""
    stored = read_header(path)["provenance"]
    found = [text for part in _SAME for text in differences(stored[part], about[part], f"{part}.")]
    if found:
        raise StoreError(
            f"{path} holds another run and cannot be resumed with these settings: {'; '.join(found)}; "
            "call sample as before, or give another store"
        )
    return ZarrTrace.reopen(path, n_draws)


def posterior_in_memory(
    trace: Trace,
    about: dict[str, Any],
    engines: list[Engine],
    timings: dict[str, float],
    model: FactorialHMM | Density,
    data: Observations | None,
) -> Posterior:
    assert isinstance(trace, MemoryTrace)
    return assemble(
        draws=partial(per_draw, engines[0].problem.name, trace.records.states, "site"),
        log_prior=trace.records.log_prior,
        log_lik=trace.records.log_lik,
        values=trace.records.values,
        work=trace.records.work,
        betas=engines[0].betas,
        tallies=[engine.tally for engine in engines],
        exact_evidence=about["log_evidence"],
        info=_info(about, timings),
        model=model,
        data=data,
    )


def open_posterior(
    path: str | Path, draws: int | None = None, model: FactorialHMM | Density | None = None
) -> Posterior:
    """The posterior of a stored run, finished or not: every draw up to the last flush, loaded when it is looked at.

    Parameters
    ----------
    path : what was given to sample(store=...).
    draws : open only the first so many draws of every chain.
    model : the model, where it holds a user's own function and could not be stored.
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
    # Running counts are of whole chains; they speak for the draws when all chains are equally far.
    level = draws is None and len(set(header["committed"])) == 1 and layout.n_rows > 0
    return assemble(
        draws=stored[layout.name].assign_coords(names),
        log_prior=stored["log_prior"].values,
        log_lik=stored["replica_log_likelihood"].values,
        values=stored["parameters"].values if layout.n_values else None,
        work=stored["work"].values if layout.n_pairs else None,
        betas=whole["beta"].values,
        tallies=[_tally(checkpoint, layout.n_replicas) for checkpoint in checkpoints],
        exact_evidence=about["log_evidence"],
        info=_info(about, header["timings"]) | {"complete": n_draws == layout.n_draws},
        model=model or rebuild_model(about["model"]),
        data=_data(whole),
        row_counts=sum(checkpoint["counts"] for checkpoint in checkpoints) if level else None,
    )


def _tally(checkpoint: dict[str, Any], n_replicas: int) -> Tally:
    if not checkpoint:
        return make_tally(n_replicas)
    return Tally(*(checkpoint[f"tally_{name}"] for name in Tally._fields))


def _data(stored: xr.Dataset) -> Observations | None:
    if "y" not in stored:
        return None
    gaps = stored["gaps"].values if "gaps" in stored else None
    return Observations(stored["y"].values, stored["starts"].values, gaps)


def _info(about: dict[str, Any], timings: dict[str, float]) -> dict[str, Any]:
    run = about["run"]
    return {
        "n_rows": about["n_rows"],
        "seed": run["seed"],
        "plan": about["plan"],
        "update": run["update"],
        "exchange": run["exchange"],
        "settings": run,
        "versions": about["versions"],
        "timings": dict(timings),
    }

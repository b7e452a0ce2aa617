"""Open a stored run as a posterior, reopen its store to resume the run, or check every file of it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from chiasma.errors import InvalidInput, StoreError
from chiasma.kernels.ensemble import Tally, make_tally
from chiasma.models.density import Density
from chiasma.models.factorial import FactorialHMM
from chiasma.models.observations import Observations
from chiasma.results.assembly import assemble
from chiasma.results.posterior import Posterior
from chiasma.results.provenance import describe_data, describe_model, differences, rebuild_model, run_info
from chiasma.storage.digests import read_whole
from chiasma.storage.locks import as_path
from chiasma.storage.reading import (
    StoredRun,
    check_chunks,
    check_static,
    checkpoint_name,
    only_store_errors,
    read_block,
    read_draws,
    read_header,
    read_run,
    read_static,
)
from chiasma.storage.store import ZarrTrace, copy_store
from chiasma.types import Floats, is_count


def forget_pools() -> None:
    """Let dask start threads anew; a child process has none of its parent's."""
    threaded: Any = sys.modules.get("dask.threaded")
    if threaded is not None:
        threaded.default_pool = None
        threaded.pools.clear()
        threaded.pools_lock = Lock()  # a thread of the parent may have held it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_pools)


# A run may be resumed only if these parts of its description are unchanged.
_SAME = ("model", "data", "run")


def open_posterior(
    path: str | Path, draws: int | None = None, model: FactorialHMM | Density | None = None
) -> Posterior:
    """The posterior of a stored run, finished or not: every draw up to the last flush, loaded lazily.

    Sizes and small files are checked now, draws when they are loaded; `ch.check_store` checks everything.

    A model made of numbers is stored with its run. One with a function of yours (`ch.Custom`, `ch.Density`) is not:
    give it again as `model=`, from the script that made the run. Without it, `posterior.model` is None; draws, states,
    marginals, configurations, segments, parameters and evidence are the same, but there are no levels, no figures of
    the signal, no `fitted_model` and no check of the fit. An emission that was registered (`ch.register_emission`) is
    found by its name.

    Parameters
    ----------
    path : the store, as given to sample(store=...).
    draws : open only the first `draws` draws of every chain.
    model : FactorialHMM or Density that was sampled, if it could not be stored. Its functions are compared by name.

    Returns
    -------
    Posterior.

    Examples
    --------
    >>> import tempfile
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = ch.sample(model, [0.1, 2.9, 3.2], draws=5, seed=1, store=f"{folder}/run.zarr", progress=False)
    ...     ch.open_posterior(f"{folder}/run.zarr", draws=3)
    Posterior(4 chains x 3 draws x 3 sites, 1 replica, log evidence -5.891)
    """
    folder = as_path("path", path)
    with only_store_errors(folder):
        return _open(read_run(folder), draws, model)


def _open(run: StoredRun, draws: int | None, model: FactorialHMM | Density | None) -> Posterior:
    layout, about = run.layout, run.header["provenance"]
    n_draws = min(run.committed)
    if n_draws == 0:
        raise StoreError(f"{run.path} holds no draws yet: wait if it is running, else resume it")
    if draws is None:
        check_chunks(run)
    elif not is_count(draws) or draws > n_draws:
        raise InvalidInput(f"draws must be in 1..{n_draws} (draws in {run.path}), got {draws}")
    n_kept = n_draws if draws is None else int(draws)
    if model is not None:
        _check_model(run, model)
    # Running counts cover all draws of a chain, so they can be used only if all chains have the same number of draws.
    level = draws is None and len(set(run.committed)) == 1 and layout.n_rows > 0
    return assemble(
        draws=lazy_draws(run, n_kept),
        log_prior=read_draws(run, "log_prior", n_kept),
        log_lik=read_draws(run, "replica_log_likelihood", n_kept),
        values=read_draws(run, "parameters", n_kept) if layout.n_values else None,
        work=read_draws(run, "work", n_kept) if layout.n_pairs else None,
        betas=stored_betas(run),
        tallies=[_tally(run, chain) for chain in range(layout.n_chains)],
        exact_evidence=run.header["log_evidence"],
        info={
            **run_info(about, run.header["timings"]),
            "complete": n_draws == layout.n_draws,
        },
        model=rebuild_stored(run) if model is None else model,
        data=stored_data(run),
        row_counts=sum_counts(run) if level else None,
        save=partial(copy_store, run.path),
    )


def sum_counts(run: StoredRun) -> npt.NDArray[Any]:
    """(K, T): the running counts of all chains, added up one by one: each is as large as some of the draws."""
    total = run.checkpoints[0]["counts"].copy()
    for checkpoint in run.checkpoints[1:]:
        total += checkpoint["counts"]
    return total


def stored_seed(path: Path) -> int:
    return int(read_header(path)["provenance"]["run"]["seed"])


def stored_digests(path: Path) -> dict[str, Any]:
    """The data that the run was made from, as `provenance.describe_data` describes them."""
    return dict(read_header(path)["provenance"]["data"])


def differences_from(path: Path, model: FactorialHMM, seed: int) -> list[str]:
    """Where a model and a seed are not those of a stored run, in words."""
    header = read_header(path)
    stored = int(header["provenance"]["run"]["seed"])
    return _model_differences(header, model) + differences({"seed": stored}, {"seed": seed})


def stored_goal(path: Path) -> int:
    """Draws per chain that were asked for last."""
    return int(read_header(path)["layout"]["n_draws"])


def reopen_store(path: Path, about: dict[str, Any], n_draws: int, durable: bool = True) -> ZarrTrace:
    """Reopen the store of an earlier run to resume it; raises StoreError if model, data or settings differ."""
    with only_store_errors(path):
        return _reopen(read_run(path), about, n_draws, durable)


def _reopen(run: StoredRun, about: dict[str, Any], n_draws: int, durable: bool) -> ZarrTrace:
    stored, path = run.header["provenance"], run.path
    found = [text for part in _SAME for text in differences(stored[part], about[part], f"{part}.")]
    if found:
        raise StoreError(
            f"{path} holds another run and cannot be resumed with these settings: {'; '.join(found)}; "
            "call sample as before, or give another store"
        )
    stored_data(run)
    stored_betas(run)
    return ZarrTrace.reopen(run, n_draws, durable)


def lazy_draws(run: StoredRun, n_draws: int) -> xr.DataArray:
    """(chain, draw, site), in pieces of one chunk that are read when they are needed."""
    import dask.array

    layout = run.layout
    pieces = [min(layout.chunk_draws, n_draws - first) for first in range(0, n_draws, layout.chunk_draws)]
    map_blocks: Any = dask.array.map_blocks  # has no annotations
    values = map_blocks(
        partial(_piece, run, pieces),
        chunks=((1,) * layout.n_chains, tuple(pieces), (layout.n_sites,)),
        dtype=layout.dtype,
        meta=np.empty((0, 0, 0), layout.dtype),
        name=f"{layout.name}-{run.header.get('digest')}-{run.path}-{n_draws}",
    )
    dims = ("chain", "draw", "site")
    coords = {dim: np.arange(n) for dim, n in zip(dims, values.shape, strict=True)}
    return xr.DataArray(values, coords, dims, layout.name)


def _piece(run: StoredRun, pieces: list[int], block_id: tuple[int, ...]) -> npt.NDArray[Any]:
    chain, chunk, _ = block_id
    return read_block(run, run.layout.name, chain, chunk)[None, : pieces[chunk]]


def stored_data(run: StoredRun) -> Observations | None:
    """The data of a run, compared with the digests in its description."""
    about = run.header["provenance"]["data"]
    if not about:
        return None
    y, starts = read_static(run, "y"), read_static(run, "starts")
    gaps = read_static(run, "gaps") if "gaps" in run.header["arrays"] else None
    rows = about.get("known_rows", [])
    known = dict(zip(rows, read_static(run, "known").T, strict=True)) if rows else None
    try:
        data = Observations(y, starts, gaps, about.get("step"), about.get("unit"), known)
    except InvalidInput as error:
        raise StoreError(f"{run.path} holds data that cannot be right ({error}); restore it from a backup") from error
    for name in ("y", "starts", "gaps", *(["known"] if rows else [])):
        # Without any gap there is nothing to store, and no gaps come back.
        if describe_data(data).get(name) != about[name] and (name != "gaps" or data.n_columns > 1):
            raise StoreError(f"{run.path / name} does not match its digest; it is damaged: restore it from a backup")
    return data


def stored_betas(run: StoredRun) -> Floats:
    """The rungs, which every checkpoint holds as well."""
    betas = read_static(run, "beta")
    for checkpoint in run.checkpoints:
        if checkpoint and not np.array_equal(checkpoint["betas"], betas):
            raise StoreError(f"{run.path / 'beta'} does not match the checkpoints; restore it from a backup")
    return betas


def rebuild_stored(run: StoredRun) -> FactorialHMM | None:
    """The model as the run describes it; None if it was made of a user's own functions."""
    data = stored_data(run)
    try:
        return rebuild_model(run.header["provenance"]["model"], data)
    except Exception as error:
        raise StoreError(
            f"{run.path} describes a model that cannot be rebuilt ({type(error).__name__}: {error}); restore zarr.json "
            "from a backup, or pass the model: ch.open_posterior(path, model=model)"
        ) from error


def _check_model(run: StoredRun, model: FactorialHMM | Density) -> None:
    """Raise an error if the model differs from the run's. Functions are compared by their names only."""
    if not isinstance(model, FactorialHMM | Density):
        raise InvalidInput(f"model must be a FactorialHMM or a Density, got {type(model).__name__}")
    if found := _model_differences(run.header, model):
        raise StoreError(
            f"{run.path} is a run of another model: {'; '.join(found)}; pass the model that was sampled, or none"
        )


def _model_differences(header: dict[str, Any], model: FactorialHMM | Density) -> list[str]:
    # An emission may have been registered since the run was written.
    told = [describe_model(model, registered) for registered in (True, False)]
    return min((differences(header["provenance"]["model"], one, "model.") for one in told), key=len)


def _tally(run: StoredRun, chain: int) -> Tally:
    checkpoint, n_replicas = run.checkpoints[chain], run.layout.n_replicas
    made = make_tally(n_replicas)
    if not checkpoint:
        return made
    found = [checkpoint[f"tally_{name}"] for name in Tally._fields]
    if not all(one.shape == other.shape for one, other in zip(found, made, strict=True)):
        raise StoreError(f"{run.path}: the checkpoint of chain {chain} counts something else; restore it from a backup")
    return Tally(*found)


# ---- Checking a store -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class StoreCheck:
    """What `check_store` found.

    Parameters
    ----------
    n_files, n_bytes : how much was read.
    problems : what is wrong, each with the file and the remedy; empty where the store is sound.
    n_draws, draws_wanted : draws that every chain has stored, and draws per chain that were asked for.

    Examples
    --------
    >>> import chiasma as ch
    >>> found = ch.StoreCheck(n_files=12, n_bytes=4096, problems=(), n_draws=300, draws_wanted=500)
    >>> found
    StoreCheck(complete=False, problems=(), n_draws=300, draws_wanted=500, n_files=12, n_bytes=4096)
    """

    n_files: int
    n_bytes: int
    problems: tuple[str, ...]
    n_draws: int
    draws_wanted: int

    @property
    def complete(self) -> bool:
        """Whether all draws that were asked for are stored. They are sound only if there are no `problems`."""
        return self.n_draws >= self.draws_wanted

    def __repr__(self) -> str:
        names = ("complete", "problems", "n_draws", "draws_wanted", "n_files", "n_bytes")
        return f"StoreCheck({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"


def check_store(path: str | Path) -> StoreCheck:
    """Read every file of a stored run and compare it with its digest.

    Parameters
    ----------
    path : the store, as given to sample(store=...).

    Returns
    -------
    StoreCheck: its `problems` are empty where the store is sound; `complete` says whether all draws are there.

    Examples
    --------
    >>> import tempfile
    >>> import chiasma as ch
    >>> model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = ch.sample(model, [0.1, 2.9, 3.2], draws=5, seed=1, store=f"{folder}/run", progress=False)
    ...     found = ch.check_store(f"{folder}/run")
    >>> found.problems, found.complete
    ((), True)
    """
    folder = as_path("path", path)
    header = read_header(folder)  # raises an error if there is no run
    try:
        run = read_run(folder)
    except StoreError as error:
        return _found(header, 1, 0, [str(error)])
    n_files = n_bytes = 0
    problems = []
    for look in _looks(run):
        try:
            with only_store_errors(folder):
                size = look()
            n_bytes += size or 0
            n_files += size is not None
        except StoreError as error:
            problems.append(str(error))
    return _found(run.header, n_files, n_bytes, problems)


def _found(header: dict[str, Any], n_files: int, n_bytes: int, problems: list[str]) -> StoreCheck:
    return StoreCheck(
        n_files=n_files,
        n_bytes=n_bytes,
        problems=tuple(dict.fromkeys(problems)),
        n_draws=min(header["committed"]),
        draws_wanted=header["layout"]["n_draws"],
    )


def _looks(run: StoredRun) -> Iterator[Callable[[], int | None]]:
    """Functions that each check one file and return its size, or what several hold together and return None."""
    layout = run.layout
    yield partial(_size, run, "zarr.json")
    for chain, n_draws in enumerate(run.committed):
        if n_draws:
            yield partial(_size, run, f"checkpoints/{checkpoint_name(chain, n_draws)}")
    for file in run.header["static"]:
        yield partial(check_static, run, file)
    for read in (stored_data, stored_betas, rebuild_stored):
        yield partial(_read, read, run)
    for name in layout.records:
        yield partial(_check_own_metadata, run, name)
        for chain, n_draws in enumerate(run.committed):
            for chunk in range(-(-n_draws // layout.chunk_draws)):
                yield partial(_check_chunk, run, name, chain, chunk)


def _read(read: Callable[[StoredRun], object], run: StoredRun) -> None:
    read(run)


def _size(run: StoredRun, file: str) -> int:
    return (run.path / file).stat().st_size


def _check_chunk(run: StoredRun, name: str, chain: int, chunk: int) -> int:
    read_block(run, name, chain, chunk)
    return _size(run, str(run.layout.chunk_file(name, chain, chunk)))


def _check_own_metadata(run: StoredRun, name: str) -> int:
    """An array's own metadata, which only other programs read, may lag behind in the number of draws."""
    file = run.path / name / "zarr.json"
    whole = run.header["metadata"][name]
    try:
        content = read_whole(file)
        own = json.loads(content)
        lags = own["shape"][1] <= whole["shape"][1]
        own["shape"][1] = whole["shape"][1]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise StoreError(f"{file} cannot be read ({error}); restore it from a backup") from error
    if own != whole or not lags:
        raise StoreError(f"{file} does not match the metadata of the run; restore it from a backup")
    return len(content)

"""The directory of a cohort: what is written there, and how it is read. A sample is done if samples/NAME is there.

    cohort.json           the plan
    cohort.tsv            one line per sample
    cohort.zarr           summaries of all samples
    index.html            a page of all samples
    merged.json           digests of the last three
    samples/NAME/         the run directory of a sample that is done, with its outcome.json and summaries.npz
    failures/NAME.json    why a sample failed, until it is done
    unfinished/NAME@ID/   a run directory while it is written, or where a run was stopped

A run directory is renamed into its place when it is complete. While it is written, its owner holds
unfinished/NAME@ID.lock. A new attempt takes over what an earlier one left, unless its owner is alive, such as a worker
that lost its scheduler and works on what it was given: then both run, and the first to end is the one that counts. With
one seed they write the same.

The JSON files hold digests of themselves. outcome.json has digests of all files of its sample, and the mark of the
sample: a digest of its name, data file, settings and seed, which the plan knows as well. So no file can be damaged,
changed or taken from another sample without notice. A damaged sample keeps its files until it is done again on request.

Summaries are a Dataset of variables such as P(row on), (row, site), and their coordinates. Samples can stand side by
side in cohort.zarr if all their coordinates agree: they are then on the same grid.

    probability (sample, row, site) and other variables of the workflow, NaN where a sample is not done or is on another
        grid than most; grid (sample,) tells which one
    log_evidence, log_evidence_error (sample,)
    parameter_mean, parameter_sd, parameter_q05, parameter_q95 (sample, parameter), NaN where it was not learned
    coordinates: sample, parameter, row, and the labels of the sites

Memory holds the samples of one chunk, however many there are. cohort.zarr takes its place when it is complete.
"""

from __future__ import annotations

import hashlib
import math
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from math import nan
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import xarray as xr
import zarr

from chiasma import atomic
from chiasma.errors import InvalidInput, StoreError
from chiasma.io.tables import write_table
from chiasma.storage.digests import digests_below, fingerprint, read_sealed, read_with_digest, reason, write_sealed
from chiasma.storage.locks import only_writer
from chiasma.storage.reading import read_npz

# ---- Outcomes -------------------------------------------------------------------------------------------------------


DONE, FAILED, MISSING, DAMAGED = "done", "failed", "missing", "damaged"
# Of a learned parameter.
STATISTICS = ("mean", "sd", "q05", "q95")
OUTCOME, SUMMARIES, PICTURE = "outcome.json", "summaries.npz", "picture.png"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One sample of a cohort.

    status : "done", "failed", "missing" or "damaged".
    seconds : that the workflow took, in the last attempt.
    evidence : log evidence and its standard error.
    trust, findings, key_results, parameters, bands, span : as in `chiasma.cohort.workflow.Result`.
    grid : samples with the same one have the same sites and rows; empty without any.
    error, traceback : why it failed, or which file is damaged.
    mark : what it is the outcome of, see `CohortPlan.mark`.
    data : the SHA-256 of its data file.
    files : digests of the files of its run directory, by their path there.
    """

    name: str
    status: str
    seed: int
    seconds: float = math.nan
    evidence: tuple[float, float] | None = None
    trust: str = ""
    findings: Sequence[str] = ()
    key_results: Mapping[str, float] = field(default_factory=dict)
    parameters: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    bands: Sequence[str] = ()
    span: str = ""
    grid: str = ""
    error: str = ""
    traceback: str = ""
    mark: str = field(default="", repr=False)
    data: str = field(default="", repr=False)
    files: Mapping[str, int] = field(default_factory=dict, repr=False)

    def write(self, path: Path) -> None:
        write_sealed(path, asdict(self))

    @classmethod
    def read(cls, path: Path, name: str, mark: str) -> Outcome:
        """The outcome of a sample; OSError or ValueError if the file is damaged or belongs to another one."""
        content = read_sealed(path)
        try:
            evidence, parameters = content["evidence"], content["parameters"].items()
            found = cls(
                **content
                | {key: tuple(map(str, content[key])) for key in ("findings", "bands")}
                | {key: str(content[key]) for key in ("trust", "span", "grid", "error")}
                | {"evidence": None if evidence is None else (float(evidence[0]), float(evidence[1]))}
                | {"key_results": {key: float(value) for key, value in content["key_results"].items()}}
                | {"parameters": {key: {one: float(of[one]) for one in STATISTICS} for key, of in parameters}}
                | {"seconds": float(content["seconds"]), "files": dict(content["files"])}
            )
        except Exception as error:  # it may be anything
            raise ValueError(f"it does not describe an outcome ({reason(error)})") from error
        if found.status not in (DONE, FAILED):
            raise ValueError(f"it does not describe an outcome (status {found.status!r})")
        if found.name != name:
            raise ValueError(f"it belongs to the sample {found.name!r}")
        if found.mark != mark:
            raise ValueError("the data file or the settings of the sample were others when it was made")
        return found


# ---- The directory --------------------------------------------------------------------------------------------------


class CohortDirectory:
    """Paths, and the steps of a sample from one to the next."""

    def __init__(self, path: str | Path):
        # Workers have other working directories.
        self.path = Path(os.path.realpath(path))
        self.plan = self.path / "cohort.json"
        self.table = self.path / "cohort.tsv"
        self.store = self.path / "cohort.zarr"
        self.page = self.path / "index.html"
        self.merged = self.path / "merged.json"
        self.samples = self.path / "samples"
        self.failures = self.path / "failures"
        self.unfinished = self.path / "unfinished"

    def create(self) -> None:
        try:
            for folder in (self.samples, self.failures, self.unfinished):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"cannot write to {self.path}: {error.strerror or error}; choose another directory"
            ) from error

    def check_new(self) -> None:
        """Raise InvalidInput if the directory is not empty: nothing is ever overwritten."""
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            more = ", or add resume=True to continue that cohort" if self.plan.exists() else ""
            raise InvalidInput(f"{self.path} exists already; choose another directory{more}")

    def is_done(self, name: str) -> bool:
        return os.path.lexists(self.samples / name)

    def outcome(self, name: str, seed: int, mark: str) -> Outcome:
        """What is known of a sample; it is damaged if what its outcome consists of is not as it was written."""
        known = Outcome(name=name, status=MISSING, seed=seed, mark=mark)
        if self.is_done(name):
            own, file = self.samples / name, OUTCOME
            try:
                found = Outcome.read(own / file, name, mark)
                for file in (SUMMARIES, PICTURE):
                    read_with_digest(own, file, found.files)
                return found
            except (OSError, ValueError) as error:
                return replace(known, status=DAMAGED, error=self.damage(own / file, error))
        try:
            return self.failure(name, mark) or known
        except StoreError as error:
            return replace(known, status=FAILED, error=str(error))

    def failure(self, name: str, mark: str) -> Outcome | None:
        """Why a sample failed; None if there is no record."""
        record = self.failures / f"{name}.json"
        try:
            return Outcome.read(record, name, mark)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StoreError(f"it failed, but {record} cannot be read ({reason(error)}); resume the cohort") from error

    def damage(self, file: Path, error: Exception) -> str:
        """What is wrong with a file of a sample, and the remedy."""
        again = f"resume the cohort with --again {file.relative_to(self.samples).parts[0]}"
        return f"{file} cannot be read ({reason(error)}); restore it from a backup, or {again}"

    def check_files(self, outcome: Outcome) -> tuple[list[str], int, int]:
        """Compare every file of a sample with its digest: what is wrong, and how many files and bytes were read."""
        problems, n_bytes, own = [], 0, self.samples / outcome.name
        for file in outcome.files:
            try:
                n_bytes += len(read_with_digest(own, file, outcome.files))
            except (OSError, ValueError) as error:
                problems.append(self.damage(own / file, error))
        return problems, len(outcome.files), n_bytes

    def strangers(self, names: Iterable[str]) -> list[str]:
        """Directories of samples that the plan does not have."""
        found = {one.name for one in self.samples.iterdir()} if self.samples.is_dir() else set()
        return sorted(found.difference(names))

    def forget(self, name: str) -> None:
        """Remove what there is of a sample, so that it is done again."""
        atomic.remove([self.samples / name, self.failures / f"{name}.json"])
        for left in self._attempts(name):
            with suppress(StoreError), only_writer(left):  # unless its owner is alive
                atomic.remove([left])

    def _attempts(self, name: str) -> list[Path]:
        return [left for left in self.unfinished.glob(f"{name}@*") if left.suffix != ".lock"]

    @contextmanager
    def attempt(self, name: str) -> Iterator[Path]:
        """A directory for a sample with a single writer: what an earlier attempt left, or a new one."""
        with ExitStack() as locks:
            yield self._left(name, locks) or self._new(name, locks)

    def _left(self, name: str, locks: ExitStack) -> Path | None:
        for left in self._attempts(name):
            with ExitStack() as lock:
                try:
                    lock.enter_context(only_writer(left))
                except StoreError:  # its owner is alive
                    continue
                if left.exists():  # or its owner has just completed it
                    locks.push(lock.pop_all())
                    _remove_partial(left)
                    return left
        return None

    def _new(self, name: str, locks: ExitStack) -> Path:
        own = self.unfinished / f"{name}@{uuid4().hex}"
        locks.enter_context(only_writer(own))
        own.mkdir()
        return own

    def complete(self, own: Path, outcome: Outcome) -> Outcome:
        """Move the run directory into its place; returns the outcome that counts."""
        outcome = replace(outcome, files=digests_below(own))
        outcome.write(own / OUTCOME)
        place = self.samples / outcome.name
        try:
            own.rename(place)
        except OSError:
            # Another attempt was first; with the same seed it wrote the same.
            if not self.is_done(outcome.name):
                raise
            first = self.outcome(outcome.name, outcome.seed, outcome.mark)
            if first.status == DONE:
                self.discard(own)
            return first
        atomic.sync_directory(self.samples)
        (self.failures / f"{outcome.name}.json").unlink(missing_ok=True)
        return outcome

    def fail(self, outcome: Outcome) -> Outcome:
        """Record a failure, unless another attempt was successful."""
        if not self.is_done(outcome.name):
            outcome.write(self.failures / f"{outcome.name}.json")
            return outcome
        return self.outcome(outcome.name, outcome.seed, outcome.mark)

    def remove_leftovers(self, outcomes: Iterable[Outcome]) -> None:
        """Remove what killed commands left: temporary files, run directories of samples that are done, their locks."""
        atomic.tidy(self.path, self.failures)
        done = {outcome.name for outcome in outcomes if outcome.status == DONE}
        for left in {one.with_suffix("") if one.suffix == ".lock" else one for one in self.unfinished.glob("*@*")}:
            if left.name.rpartition("@")[0] in done or not left.exists():
                with suppress(StoreError), only_writer(left):  # unless its owner is alive
                    self.discard(left)

    def discard(self, own: Path) -> None:
        atomic.remove([own])

    def empty(self, own: Path) -> None:
        self.discard(own)
        own.mkdir()

    def seal_merged(self) -> None:
        """Record the digests of the files of all samples."""
        write_sealed(self.merged, {"files": self._merged_digests()})

    def _merged_digests(self) -> dict[str, int]:
        whole = [path for path in (self.table, self.page) if path.is_file()]
        found = {path.name: fingerprint(path.read_bytes()) for path in whole}
        return found | digests_below(self.path, [self.store.name])

    def check_merged(self, below: str = "") -> tuple[int, int]:
        """Compare the files of all samples whose names begin in this way with their digests: files and bytes read."""
        file, n_bytes = self.merged.name, 0
        try:
            digests = read_sealed(self.merged)["files"]
            for file in (chosen := [name for name in digests if name.startswith(below)]):
                n_bytes += len(read_with_digest(self.path, file, digests))
            for file in {path.relative_to(self.path).as_posix() for path in self.store.rglob("*") if path.is_file()}:
                if file not in digests:  # as a chunk where all values were missing
                    raise ValueError("it was not there when the samples were merged")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(
                f"{self.path / file} cannot be read ({reason(error)}); write it again: chiasma cohort merge {self.path}"
            ) from error
        return len(chosen), n_bytes


def _remove_partial(own: Path) -> None:
    """Remove what was being written when the earlier attempt was killed."""
    atomic.remove(list(own.rglob("*.partial")))


# ---- Summaries ------------------------------------------------------------------------------------------------------


VARIABLE, COORDINATE = "variable", "coordinate"


def grid_of(summaries: xr.Dataset) -> str:
    """A fingerprint of the sizes and the coordinates.

    >>> one = xr.Dataset({"p": ("site", [0.1, 0.2])}, {"position": ("site", [0, 10])})
    >>> grid_of(one) == grid_of(one * 2) != grid_of(one.assign_coords(position=("site", [0, 20])))
    True
    """
    told = hashlib.sha256(repr(sorted(summaries.sizes.items())).encode())
    for name, values in sorted(summaries.coords.items()):
        told.update(f"{name} {values.dims} {values.dtype}".encode())
        told.update(np.ascontiguousarray(values.values).tobytes())
    return told.hexdigest()[:16]


def save_summaries(summaries: xr.Dataset, path: Path) -> None:
    """Write an NPZ file; an array is called by its kind, its name and its dimensions."""
    content: dict[str, Any] = {
        " ".join([kind, str(name), *map(str, values.dims)]): values.values
        for kind, part in ((VARIABLE, summaries.data_vars), (COORDINATE, summaries.coords))
        for name, values in part.items()
    }
    with atomic.whole_file(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **content)


def load_summaries(directory: CohortDirectory, outcome: Outcome) -> xr.Dataset:
    """What `save_summaries` wrote for a sample."""
    parts: dict[str, dict[str, Any]] = {VARIABLE: {}, COORDINATE: {}}
    own = directory.samples / outcome.name
    try:
        for key, values in read_npz(read_with_digest(own, SUMMARIES, outcome.files)).items():
            kind, name, *dims = key.split(" ")
            parts[kind][name] = dims, values
        return xr.Dataset(parts[VARIABLE], parts[COORDINATE])
    except Exception as error:  # xarray raises whatever it likes
        raise StoreError(directory.damage(own / SUMMARIES, error)) from error


# ---- cohort.tsv -----------------------------------------------------------------------------------------------------

FIRST = ("sample", "status", "seed", "seconds", "log_evidence", "log_evidence_error")
LAST = ("trust", "findings", "error")
# Of a learned parameter, and what each adds to the name of the parameter.
ENDINGS = {"mean": "", "q05": "_q05", "q95": "_q95"}


def write_cohort_table(path: Path, outcomes: Sequence[Outcome]) -> None:
    results = names_in_order(outcome.key_results for outcome in outcomes)
    parameters = names_in_order(outcome.parameters for outcome in outcomes)
    rows = (
        [
            *_first(one),
            *_results(one, results),
            *_parameters(one, parameters),
            one.trust,
            " ".join(one.findings),
            " ".join(one.error.split()),
        ]
        for one in outcomes
    )
    columns = [f"{name}{ending}" for name in parameters for ending in ENDINGS.values()]
    write_table(path, [*FIRST, *results, *columns, *LAST], rows)


def names_in_order(found: Iterable[Iterable[str]]) -> list[str]:
    """The names of all samples, in the order in which they appear."""
    return list(dict.fromkeys(name for names in found for name in names))


def _first(outcome: Outcome) -> list[Any]:
    evidence = outcome.evidence or (nan, nan)
    return [outcome.name, outcome.status, outcome.seed, round(outcome.seconds, 3), *evidence]


def _results(outcome: Outcome, names: Sequence[str]) -> list[Any]:
    return [outcome.key_results.get(name, nan) for name in names]


def _parameters(outcome: Outcome, names: Sequence[str]) -> list[Any]:
    return [outcome.parameters.get(name, {}).get(statistic, nan) for name in names for statistic in ENDINGS]


# ---- cohort.zarr ----------------------------------------------------------------------------------------------------

# Uncompressed size of a chunk of samples.
CHUNK_BYTES = 8 * 2**20


def write_cohort_store(directory: CohortDirectory, outcomes: Sequence[Outcome]) -> None:
    """Write cohort.zarr, in place of an earlier one."""
    atomic.remove(atomic.partials(directory.path, [directory.store.name]))
    partial = atomic.partial_name(directory.store)
    _per_sample(outcomes).to_zarr(partial, mode="w", consolidated=False)
    _along_sites(directory, outcomes, partial)
    with warnings.catch_warnings():
        # Not yet in the standard, but xarray looks for it first.
        warnings.filterwarnings("ignore", "Consolidated metadata", UserWarning)
        zarr.consolidate_metadata(partial)
    atomic.remove([directory.store])
    partial.rename(directory.store)


def common_grid(outcomes: Sequence[Outcome]) -> str:
    """The grid of most samples, of the first one where several have as many; empty if no sample has any."""
    counts = Counter(outcome.grid for outcome in outcomes if outcome.grid)
    return counts.most_common(1)[0][0] if counts else ""


def _per_sample(outcomes: Sequence[Outcome]) -> xr.Dataset:
    evidence = np.array([outcome.evidence or (nan, nan) for outcome in outcomes]).reshape(-1, 2)
    parameters = names_in_order(outcome.parameters for outcome in outcomes)
    variables: dict[str, Any] = {
        "status": ("sample", _texts([outcome.status for outcome in outcomes])),
        "grid": ("sample", _texts([outcome.grid for outcome in outcomes])),
        "log_evidence": ("sample", evidence[:, 0]),
        "log_evidence_error": ("sample", evidence[:, 1]),
    }
    for statistic in STATISTICS if parameters else ():
        values = [[one.parameters.get(name, {}).get(statistic, nan) for name in parameters] for one in outcomes]
        variables[f"parameter_{statistic}"] = (("sample", "parameter"), np.array(values, float))
    coordinates = {"sample": _texts([outcome.name for outcome in outcomes])}
    return xr.Dataset(variables, coordinates | ({"parameter": _texts(parameters)} if parameters else {}))


def _along_sites(directory: CohortDirectory, outcomes: Sequence[Outcome], path: Path) -> None:
    grid = common_grid(outcomes)
    if not grid:
        return
    first = load_summaries(directory, next(outcome for outcome in outcomes if outcome.grid == grid))
    labels = {
        name: values.copy(data=_texts(values.values)) if values.dtype.kind == "U" else values
        for name, values in first.coords.items()
    }
    xr.Dataset(coords=labels).to_zarr(path, mode="a", consolidated=False)
    group = zarr.open_group(path, mode="a")
    arrays = {}
    for name, variable in first.data_vars.items():
        length = max(1, min(len(outcomes), CHUNK_BYTES // max(1, variable.nbytes)))
        arrays[str(name)] = group.create_array(
            str(name),
            shape=(len(outcomes), *variable.shape),
            chunks=(length, *variable.shape),
            dtype=variable.dtype,
            fill_value=nan,
            dimension_names=("sample", *map(str, variable.dims)),
        )
    step = max(array.chunks[0] for array in arrays.values())
    for begin in range(0, len(outcomes), step):
        _write_region(directory, outcomes[begin : begin + step], begin, grid, arrays)


def _write_region(
    directory: CohortDirectory, outcomes: Sequence[Outcome], begin: int, grid: str, arrays: dict[str, Any]
) -> None:
    found = {i: load_summaries(directory, outcome) for i, outcome in enumerate(outcomes) if outcome.grid == grid}
    for name, array in arrays.items():
        region = np.full((len(outcomes), *array.shape[1:]), nan, array.dtype)
        for i, summaries in found.items():
            region[i] = summaries[name].values
        array[begin : begin + len(outcomes)] = region


def _texts(texts: Sequence[str]) -> npt.NDArray[np.object_]:
    # Texts of a fixed length have no standard form in Zarr.
    return np.array(texts, object)

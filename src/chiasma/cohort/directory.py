"""The directory of a cohort. A sample is done if, and only if, samples/NAME is there.

    cohort.json           the plan
    cohort.tsv            one line per sample
    cohort.zarr           summaries of all samples
    index.html            a page of all samples
    samples/NAME/         the run directory of a sample that is done
    failures/NAME.json    why a sample failed, until it is done
    unfinished/NAME@ID/   a run directory while it is written, or where a run was stopped

A run directory is renamed into its place when it is complete. While it is written, its owner holds
unfinished/NAME@ID.lock. A new attempt takes over what an earlier one left, unless its owner is alive, such as a worker
that lost its scheduler and works on what it was given: then both run, and the first to end is the one that counts. With
one seed they write the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from chiasma import atomic
from chiasma.cohort.outcome import MISSING, Outcome
from chiasma.errors import InvalidInput, StoreError
from chiasma.storage.locks import only_writer


class CohortDirectory:
    """Paths, and the steps of a sample from one to the next."""

    def __init__(self, path: str | Path):
        # Workers have other working directories.
        self.path = Path(path).resolve()
        self.plan = self.path / "cohort.json"
        self.table = self.path / "cohort.tsv"
        self.store = self.path / "cohort.zarr"
        self.page = self.path / "index.html"
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
        return (self.samples / name / "outcome.json").exists()

    def outcome(self, name: str, seed: int) -> Outcome:
        """What is known of a sample."""
        for file in (self.samples / name / "outcome.json", self.failures / f"{name}.json"):
            with suppress(FileNotFoundError):
                return Outcome.read(file)
        return Outcome(name=name, status=MISSING, seed=seed)

    @contextmanager
    def attempt(self, name: str) -> Iterator[Path]:
        """A directory for a sample that nobody else writes to: what an earlier attempt left, or a new one."""
        with ExitStack() as locks:
            yield self._left(name, locks) or self._new(name, locks)

    def _left(self, name: str, locks: ExitStack) -> Path | None:
        for left in self.unfinished.glob(f"{name}@*"):
            if left.suffix == ".lock":
                continue
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
        outcome.write(own / "outcome.json")
        place = self.samples / outcome.name
        try:
            own.rename(place)
        except OSError:
            # Another attempt was first; with the same seed it wrote the same.
            if not self.is_done(outcome.name):
                raise
            self.discard(own)
            return self.outcome(outcome.name, outcome.seed)
        atomic.sync_directory(self.samples)
        (self.failures / f"{outcome.name}.json").unlink(missing_ok=True)
        return outcome

    def fail(self, outcome: Outcome) -> Outcome:
        """Record a failure, unless another attempt was successful."""
        if not self.is_done(outcome.name):
            outcome.write(self.failures / f"{outcome.name}.json")
            return outcome
        return self.outcome(outcome.name, outcome.seed)

    def remove_leftovers(self) -> None:
        """Remove what killed attempts left of samples that are done: run directories, and locks without any."""
        for left in {one.with_suffix("") if one.suffix == ".lock" else one for one in self.unfinished.glob("*@*")}:
            if self.is_done(left.name.rpartition("@")[0]) or not left.exists():
                with suppress(StoreError), only_writer(left):  # unless its owner is alive
                    self.discard(left)

    def discard(self, own: Path) -> None:
        shutil.rmtree(own, ignore_errors=True)

    def empty(self, own: Path) -> None:
        self.discard(own)
        own.mkdir()


def _remove_partial(own: Path) -> None:
    """Remove what was being written when the earlier attempt was killed."""
    for path in list(own.rglob("*.partial")):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

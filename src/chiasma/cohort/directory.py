"""The directory of a cohort. A sample is done if, and only if, samples/NAME is there.

    cohort.json           the plan
    cohort.tsv            one line per sample
    cohort.zarr           summaries of all samples
    index.html            a page of all samples
    samples/NAME/         the run directory of a sample that is done
    failures/NAME.json    why a sample failed, until it is done
    unfinished/NAME@ID/   a run directory while it is written, or where a run was stopped

A run directory is renamed into its place when it is complete. A new attempt takes over what an earlier one left by
renaming it: whoever still writes there, such as a worker that was given up too early, then finds its directory gone.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from chiasma import atomic
from chiasma.cohort.outcome import MISSING, Outcome
from chiasma.errors import InvalidInput, StoreError


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
            raise StoreError(f"cannot write to {self.path}: {error.strerror or error}; choose another --out") from error

    def check_new(self) -> None:
        """Raise InvalidInput if the directory is not empty: nothing is ever overwritten."""
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            more = ", or add --resume to continue that cohort" if self.plan.exists() else ""
            raise InvalidInput(f"{self.path} exists already; choose another --out{more}")

    def is_done(self, name: str) -> bool:
        return (self.samples / name / "outcome.json").exists()

    def outcome(self, name: str, seed: int) -> Outcome:
        """What is known of a sample."""
        for file in (self.samples / name / "outcome.json", self.failures / f"{name}.json"):
            with suppress(FileNotFoundError):
                return Outcome.read(file)
        return Outcome(name=name, status=MISSING, seed=seed)

    def begin(self, name: str) -> Path:
        """A directory of one's own for a sample: what an earlier attempt left, or a new one."""
        for left in self.unfinished.glob(f"{name}@*"):
            # Another attempt may take it at the same time.
            with suppress(FileNotFoundError):
                own = left.rename(self._own(name))
                _remove_partial(own)
                return own
        return self.begin_anew(name)

    def begin_anew(self, name: str) -> Path:
        """An empty directory of one's own for a sample."""
        own = self._own(name)
        own.mkdir()
        return own

    def _own(self, name: str) -> Path:
        return self.unfinished / f"{name}@{uuid4().hex}"

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

    def discard(self, own: Path) -> None:
        shutil.rmtree(own, ignore_errors=True)


def _remove_partial(own: Path) -> None:
    """Remove what was being written when the earlier attempt was killed."""
    for path in list(own.rglob("*.partial")):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

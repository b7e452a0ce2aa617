"""What is done with one sample, whatever it is: the contract of a workflow.

A workflow knows the settings that a sheet may hold, turns a sample into a run directory, and says what the cohort keeps
of it. It knows nothing of schedulers, workers and other samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import xarray as xr

from chiasma.types import Floats


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a cohort keeps of a sample.

    evidence : log evidence and its standard error, or None.
    warnings : of the summary, and what to try.
    key_results : columns of cohort.tsv, by name.
    parameters : of every learned parameter: mean, sd, q05, q95.
    summaries : variables along the sites and their coordinates, which go to cohort.zarr.
    picture : (bands, sites) values from 0 to 1 for the small picture of the sample; NaN where there are no data.
    bands : what each band of the picture is, from above.
    span : where the picture begins and ends, in words.
    """

    evidence: tuple[float, float] | None
    warnings: Sequence[str]
    key_results: Mapping[str, float]
    parameters: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    summaries: xr.Dataset
    picture: Floats
    bands: Sequence[str] = ()
    span: str = ""


class Workflow(ABC):
    """settings: plain JSON, the settings of a cohort with those of a sample in their place.

    files : settings that are paths; in a sheet, relative ones start at the folder of the sheet.
    picture_shows : what the small picture of a sample shows, for the page.
    """

    files: frozenset[str] = frozenset()
    picture_shows: str

    @abstractmethod
    def check_key(self, key: str, where: str) -> None:
        """Raise InvalidInput if a sheet cannot have a column of this name."""

    @abstractmethod
    def value(self, key: str, given: Any) -> Any:
        """The value of a setting from the text of a cell; other values are returned unchanged."""

    @abstractmethod
    def combined(self, settings: Mapping[str, Any], own: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """The settings of a sample: those of the cohort, its own, and its seed."""

    @abstractmethod
    def check(self, settings: Mapping[str, Any]) -> None:
        """Raise InvalidInput if the settings of a sample make no sense, whatever its data are."""

    @abstractmethod
    def run(
        self, source: Path, settings: Mapping[str, Any], directory: Path, *, workers: int, tables_only: bool
    ) -> Result:
        """Run the sample into the directory, or continue a run that was stopped there."""

    @abstractmethod
    def compile(self, source: Path, settings: Mapping[str, Any]) -> None:
        """Compile what samples like this one need."""

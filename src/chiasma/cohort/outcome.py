"""The outcome of a sample: done or failed, and what cohort.tsv says of it. Stored as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from chiasma import atomic

DONE, FAILED, MISSING = "done", "failed", "missing"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One sample of a cohort.

    status : "done", "failed" or "missing".
    seconds : that the workflow took, in the last attempt.
    evidence : log evidence and its standard error.
    key_results, parameters, bands, span : as in `chiasma.cohort.workflow.Result`.
    grid : samples with the same one have the same sites and rows; empty where there are none.
    error, traceback : why it failed.
    """

    name: str
    status: str
    seed: int
    seconds: float = math.nan
    evidence: tuple[float, float] | None = None
    warnings: Sequence[str] = ()
    key_results: Mapping[str, float] = field(default_factory=dict)
    parameters: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    bands: Sequence[str] = ()
    span: str = ""
    grid: str = ""
    error: str = ""
    traceback: str = ""

    def write(self, path: Path) -> None:
        # NaN is not JSON, but Python writes and reads it, and nobody else needs this file.
        atomic.write_text(path, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Outcome:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if content["evidence"] is not None:
            content["evidence"] = tuple(content["evidence"])
        for name in ("warnings", "bands"):
            content[name] = tuple(content.get(name, ()))  # earlier versions wrote no bands
        return cls(**content)

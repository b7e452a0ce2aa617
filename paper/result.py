"""The result of an experiment: claims of the paper with our numbers, figures, tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Verdict = Literal["agrees", "differs", "beyond the paper"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One statement of the paper (or one beyond it), what we measured, and whether they agree."""

    claim: str
    ours: str
    verdict: Verdict
    numbers: dict[str, Any] = field(default_factory=dict)  # JSON-ready


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure written as <stem>.png and <stem>.pdf into the output folder."""

    stem: str
    caption: str
    paper_figure: str | None = None  # e.g. "Figure 4"


@dataclass(frozen=True, kw_only=True)
class ResultTable:
    """A table written as <stem>.tsv."""

    stem: str
    caption: str
    header: list[str]
    rows: list[list[Any]]


@dataclass(frozen=True, kw_only=True)
class ExperimentResult:
    """The complete result of one experiment. settings: everything needed to run it again."""

    name: str
    title: str
    settings: dict[str, Any]
    findings: list[Finding]
    figures: list[Figure]
    tables: list[ResultTable]
    seconds: float
    folder: Path

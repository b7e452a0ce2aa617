"""cohort.tsv: one line per sample, in the order of the sheet; of a parameter its mean, NAME_q05 and NAME_q95."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import nan
from pathlib import Path
from typing import Any

from chiasma.cohort.outcome import Outcome
from chiasma.io.tables import write_table

FIRST = ("sample", "status", "seed", "seconds", "log_evidence", "log_evidence_error")
LAST = ("warnings", "error")
# Of a learned parameter, and what each adds to the name of the parameter.
STATISTICS = {"mean": "", "q05": "_q05", "q95": "_q95"}


def write_cohort_table(path: Path, outcomes: Sequence[Outcome]) -> None:
    results = names_in_order(outcome.key_results for outcome in outcomes)
    parameters = names_in_order(outcome.parameters for outcome in outcomes)
    rows = ([*_first(one), *_results(one, results), *_parameters(one, parameters), *_texts(one)] for one in outcomes)
    columns = [f"{name}{ending}" for name in parameters for ending in STATISTICS.values()]
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
    return [outcome.parameters.get(name, {}).get(statistic, nan) for name in names for statistic in STATISTICS]


def _texts(outcome: Outcome) -> list[str]:
    return [" | ".join(outcome.warnings), " ".join(outcome.error.split())]

"""The tables of a run, column by column: the name, type and meaning of each column, and its values.

One description of a column serves the TSV file, its schema (datapackage.json, a Table Schema of the Frictionless
standard) and docs/how-to/tables.md. States are written as text, s0101: one digit per row, row 0 first, so that no
program takes them for a number.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from chiasma import atomic
from chiasma.io.signal import Signal
from chiasma.io.tables import write_table
from chiasma.io.times import times_column
from chiasma.results.expected import Band
from chiasma.results.posterior import Posterior
from chiasma.results.rivals import Region, data_means
from chiasma.results.row_groups import name_of_group, names_of_rows
from chiasma.results.segments import Segment
from chiasma.results.summary import Summary
from chiasma.types import Floats, Integers

SCHEMA = "datapackage.json"

# Phrases of the descriptions.
SIGNAL = "the expected signal, in the units of the data; of channel 0 if there are several."
GIVES = "Signal expected in this state"
MEAN = "mean over the sites with data"
ROWS_ON = "Names of the rows that are on, with ; between (ROW=STATE if a row has more than two states), or none."
ARRANGEMENTS = "Number of states that this one represents: more than 1 if identical rows can be exchanged."
END = (
    "End of the last site, as in the data file. If the file has no ends: the position plus the typical distance "
    "between sites, or the position of the next site."
)
# Added to both ends if positions were time stamps.
SECONDS = " In seconds since 1970, UTC."
TIME = "as a date and time in ISO 8601; only if positions are time stamps."
GAP = (
    "Longest stretch of the segment without data, from the end of one site to the beginning of another, in the units "
    "of the positions (seconds for time stamps); 0 if sites follow each other."
)


@dataclass(frozen=True)
class Column:
    """A column: `text` says what it means. generic: its name in documents, where the name depends on the run."""

    name: str
    kind: Literal["integer", "number", "string"]
    text: str
    values: Iterable[Any]
    generic: str | None = None


def whole(name: str, text: str, values: Iterable[int] | Integers) -> Column:
    return Column(name, "integer", text, values)


def real(name: str, text: str, values: Iterable[float | None] | Floats, generic: str | None = None) -> Column:
    """Numbers to six digits; NA where unknown."""
    rounded = ["NA" if value is None or value != value else f"{value:.6g}" for value in values]
    return Column(name, "number", text, rounded, generic)


def label(name: str, text: str, values: Iterable[str]) -> Column:
    return Column(name, "string", text, values)


Table = Sequence[Column]


def write_tables(run: Path, tables: Mapping[str, Table]) -> None:
    """Write every table as NAME.tsv, and the schema of all of them."""
    for name, columns in tables.items():
        cells = [_cells(column) for column in columns]
        write_table(run / f"{name}.tsv", [column.name for column in columns], zip(*cells, strict=True))
    atomic.write_text(run / SCHEMA, json.dumps(schema(tables), indent=2, ensure_ascii=False) + "\n")


def schema(tables: Mapping[str, Table]) -> dict[str, Any]:
    """The tables as a Frictionless data package."""
    resources = [
        {
            "name": name,
            "path": f"{name}.tsv",
            "profile": "tabular-data-resource",
            "format": "tsv",
            "mediatype": "text/tab-separated-values",
            "encoding": "utf-8",
            "dialect": {"delimiter": "\t"},
            "schema": {
                "fields": [{"name": one.name, "type": one.kind, "description": one.text} for one in columns],
                "missingValues": ["NA"],
            },
        }
        for name, columns in tables.items()
    ]
    return {"profile": "tabular-data-package", "name": "chiasma-run", "resources": resources}


def state_columns(posterior: Posterior, signal: Signal, regions: Sequence[Region], band: Band | None) -> list[Column]:
    """states.tsv: one line per site."""
    n = signal.data.n_columns
    columns = [whole("site", "Number of the site, from 0.", range(n)), *_labels(signal, np.arange(n), np.arange(n))]
    values = signal.data.y.reshape(n, -1).T
    if len(values) == 1:
        columns.append(Column("value", "number", "The data.", values[0]))
    else:
        text = "The data, one column per channel."
        columns += [Column(f"value_{d}", "number", text, y, "value_CHANNEL") for d, y in enumerate(values)]
    if band is not None:
        columns += [
            real("level", f"Posterior mean of {SIGNAL}", band.mean),
            real("level_q05", f"5% quantile of {SIGNAL}", band.low),
            real("level_q95", f"95% quantile of {SIGNAL}", band.high),
        ]
    states = [one.segment.name for one in regions for _ in range(one.segment.n_sites)]
    columns.append(label("state", "Most probable state: s and one digit per row.", states))
    return columns + _probability_columns(posterior) + _count_columns(posterior)


def _probability_columns(posterior: Posterior) -> list[Column]:
    marginals = posterior.marginals().values
    columns = []
    for k, name in enumerate(names_of_rows(posterior)):
        if posterior.layout.sizes[k] == 2:
            columns.append(real(f"p_{name}", "Posterior probability that the row is on.", marginals[k], "p_ROW"))
            continue
        text = "Posterior probability that the row is in this state; the remainder is the probability of state 0."
        for state, own in enumerate(posterior.probabilities(k).values[1:], start=1):
            columns.append(real(f"p_{name}={state}", text, own, "p_ROW=STATE"))
    return columns


def _count_columns(posterior: Posterior) -> list[Column]:
    """How many of several equal rows are on, which the columns of single rows do not say."""
    text = "Posterior probability that this many identical rows are on; the remainder is the probability of none."
    columns = []
    for group in posterior.merging.groups:
        name = name_of_group(posterior, group)
        for n, own in enumerate(posterior.count_probabilities(group[0]).values[1:], start=1):
            columns.append(real(f"p_{name}_on={n}", text, own, "p_ROWS_on=N"))
    return columns


def segment_columns(posterior: Posterior, signal: Signal, regions: Sequence[Region]) -> list[Column]:
    """segments.tsv: one line per run of sites with one most probable state."""
    segments = [one.segment for one in regions]
    best = [one.explanations[0] for one in regions]
    rivals = [one.rival for one in regions]
    with_levels = best[0].level is not None
    columns = _span(signal, segments)
    if signal.data.y.ndim == 1:
        columns.append(real("data_mean", "Mean of the data of the segment.", data_means(posterior, segments)))
    if with_levels:
        columns.append(real("level", f"{GIVES}, in the units of the data.", [one.level for one in best]))
    columns += [
        label("state", "Most probable state: s and one digit per row.", [one.name for one in segments]),
        label("rows_on", ROWS_ON, [_on(posterior, one) for one in segments]),
        real("probability", f"Posterior probability of the state, {MEAN}.", [one.probability for one in segments]),
        real("least_probability", "Smallest probability of the state at a site with data.",
             [one.minimum for one in segments]),
        real("expected_wrong_sites", "Sites with data that are expected to be in another state.",
             [one.doubt for one in segments]),
    ]  # fmt: skip
    if with_levels:
        text = f"Posterior probability of the level, whichever states give it, {MEAN}."
        columns.append(real("level_probability", text, [one.level_probability for one in regions]))
    columns += [
        whole("arrangements", ARRANGEMENTS, [one.arrangements for one in best]),
        label("rival", "The second most probable state.", ["NA" if one is None else one.name for one in rivals]),
        real(
            "rival_probability",
            f"Its probability, {MEAN}.",
            [None if one is None else one.probability for one in rivals],
        ),
    ]
    if with_levels:
        text = "Signal expected in the rival state. If it equals level, the data cannot tell the two states apart."
        columns.append(real("rival_level", text, [None if one is None else one.level for one in rivals]))
    return columns


def explanation_columns(signal: Signal, doubtful: Sequence[Region], with_levels: bool) -> list[Column]:
    """explanations.tsv: the states of every segment that is not certain, in the order of the sites."""
    lines = [
        (region, rank, one)
        for region in sorted(doubtful, key=lambda region: region.segment.start)
        for rank, one in enumerate(region.explanations, start=1)
    ]
    columns = [
        *_span(signal, [region.segment for region, _, _ in lines]),
        whole("rank", "1 for the most probable state of the segment.", [rank for _, rank, _ in lines]),
        label("state", "The state: s and one digit per row.", [one.name for _, _, one in lines]),
        real("probability", f"Its posterior probability, {MEAN}.", [one.probability for _, _, one in lines]),
    ]
    if with_levels:
        text = f"{GIVES}, in the units of the data. The data cannot tell states of equal level apart."
        columns.append(real("level", text, [one.level for _, _, one in lines]))
    return [*columns, whole("arrangements", ARRANGEMENTS, [one.arrangements for _, _, one in lines])]


def parameter_columns(summary: Summary) -> list[Column]:
    """parameters.tsv: one line per learned value."""
    found = summary.parameters
    return [
        label("parameter", "Name of the parameter, and its row.", [one.name for one in found]),
        real("mean", "Posterior mean.", [one.mean for one in found]),
        real("sd", "Posterior standard deviation.", [one.sd for one in found]),
        real("q05", "5% quantile.", [one.low for one in found]),
        real("q95", "95% quantile.", [one.high for one in found]),
        real("rhat", "R-hat of the chains: above 1.01 they disagree.", [one.rhat for one in found]),
        real("ess", "Bulk effective sample size.", [one.ess for one in found]),
    ]


def _on(posterior: Posterior, segment: Segment) -> str:
    sizes = posterior.layout.sizes
    names = [
        name if sizes[k] == 2 else f"{name}={state}"
        for k, (name, state) in enumerate(zip(names_of_rows(posterior), segment.states, strict=True))
        if state
    ]
    return ";".join(names) or "none"


def _labels(signal: Signal, first: Any, last: Any) -> list[Column]:
    """Labels of lines that begin with site `first` and end with site `last`, as the data file has them."""
    columns = []
    if signal.chromosome is not None:
        names = np.array(signal.chromosome, dtype=object)[first]
        columns.append(label("chromosome", "Chromosome, as in the data file.", names))
    if signal.position is not None and signal.ends is not None:
        unit = "" if signal.zone is None else SECONDS
        begins, ends = signal.position[first], signal.ends[last]
        columns.append(Column("start", "number", f"Position of the first site.{unit}", begins))
        columns.append(Column("end", "number", f"{END}{unit}", ends))
        if signal.zone is not None:
            columns.append(label("start_time", f"The start {TIME}", times_column(begins, signal.zone)))
            columns.append(label("end_time", f"The end {TIME}", times_column(ends, signal.zone)))
    return columns


def _span(signal: Signal, segments: Sequence[Segment]) -> list[Column]:
    first = np.array([one.start for one in segments], np.int64)
    last = np.array([one.stop - 1 for one in segments], np.int64)
    columns = [
        *_labels(signal, first, last),
        whole("first_site", "Number of the first site, from 0.", first),
        whole("last_site", "Number of the last site.", last),
        whole("n_sites", "Number of sites.", last - first + 1),
        whole("n_data", "Number of sites with data.", [one.n_data for one in segments]),
    ]
    if signal.spacing is not None:
        gaps = [signal.spacing.longest(one.start, one.stop) for one in segments]
        columns.append(Column("gap", "number", GAP, [f"{gap:.10g}" for gap in gaps]))
    return columns


def _cells(column: Column) -> Iterable[Any]:
    values = column.values
    return values.tolist() if isinstance(values, np.ndarray) else values

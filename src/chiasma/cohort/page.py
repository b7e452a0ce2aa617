"""index.html: all samples in a table that sorts, with small pictures and links to their reports.

Columns of learned parameters, mean and 5% to 95%, replace key results on request.

The page needs no network and no other files but the pictures, which load as they come into view. A picture has bands
from top to bottom and sites from left to right, dark where a value is near 1, transparent where there are no data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

import chiasma
from chiasma import atomic
from chiasma.cohort.directory import DAMAGED, DONE, FAILED, MISSING, PICTURE, CohortDirectory, Outcome, names_in_order
from chiasma.extras import extra
from chiasma.types import Floats, count

with extra("cohort"):
    from PIL import Image

    from chiasma.report.page import TONES, Tone, number, render

STATUS: dict[str, Tone] = {DONE: "good", FAILED: "bad", DAMAGED: "bad", MISSING: "note"}
# Results of a tumour that are parts of its genome, or probabilities.
SHARES = ("doubled", "altered", "unexplained")
TEMPLATE = Path(__file__).parent / "templates" / "cohort.html"


def write_page(
    directory: CohortDirectory, outcomes: Sequence[Outcome], picture_shows: str, about: Mapping[str, Any] | None = None
) -> None:
    """about: command, seed and settings, for whoever wants to repeat the analysis."""
    results = names_in_order(outcome.key_results for outcome in outcomes)
    parameters = names_in_order(outcome.parameters for outcome in outcomes)
    counts = {status: sum(one.status == status for one in outcomes) for status in STATUS}
    told = ", ".join(f"{n:,} {status}" for status, n in counts.items() if n)
    known = dict(about or {})
    facts = {"chiasma": chiasma.__version__} | ({"seed": str(known["seed"])} if "seed" in known else {})
    page = render(
        TEMPLATE,
        pictures_beside=True,
        title=f"Cohort {directory.path.name}",
        lead=f"{count(len(outcomes), 'sample')}: {told}.",
        picture_shows=picture_shows,
        results=results,
        parameters=parameters,
        outcomes=[_line(directory, outcome, results, parameters) for outcome in outcomes],
        about={"command": known.get("command"), "facts": facts, "settings": known.get("settings")},
    )
    atomic.write_text(directory.page, page)


def _line(
    directory: CohortDirectory, outcome: Outcome, results: Sequence[str], parameters: Sequence[str]
) -> dict[str, Any]:
    name, place = outcome.name, f"samples/{quote(outcome.name)}"
    done = outcome.status == DONE
    report = "report.html" if (directory.samples / name / "report.html").exists() else ""
    return {
        "name": name,
        "address": f"{place}/{report}" if done else "",
        "status": outcome.status,
        "status_tone": STATUS[outcome.status],
        "trust": outcome.trust,
        "trust_tone": TONES[outcome.trust] if outcome.trust else "",  # type: ignore[index]
        "picture": f"{place}/{PICTURE}" if done else "",
        "shows": in_words(name, outcome.bands, outcome.span),
        "span": outcome.span,
        "evidence": _number(None if outcome.evidence is None else outcome.evidence[0], digits=7),
        "results": [_result(result, outcome.key_results.get(result)) for result in results],
        "parameters": [outcome.parameters.get(parameter) for parameter in parameters],
        "seconds": _number(outcome.seconds),
        "notes": outcome.error or " ".join(outcome.findings),
    }


def _number(value: float | None, digits: int = 4) -> dict[str, str]:
    """What a cell is sorted by, and what it shows."""
    if value is None or not math.isfinite(value):
        return {"key": "", "text": ""}
    return {"key": repr(value), "text": str(number(value, digits))}


def _result(name: str, value: float | None) -> dict[str, str]:
    found = _number(value)
    return found | {"text": f"{value:.0%}"} if name in SHARES and found["key"] else found


# ---- The small picture of a sample ----------------------------------------------------------------------------------


WIDTH, ROW_HEIGHT, MOST_ROWS = 200, 8, 16
PALE, DARK = np.array([238.0, 242.0, 246.0]), np.array([18.0, 48.0, 79.0])


def write_picture(values: Floats, path: Path) -> None:
    """values: (bands, sites) from 0 to 1; neighbouring sites, and bands beyond MOST_ROWS, are averaged.

    NaN is missing and does not enter averages.
    """
    small = binned(binned(values, MOST_ROWS).T, WIDTH).T
    tall = np.repeat(small, ROW_HEIGHT, axis=0)[..., None]
    seen = ~np.isnan(tall)
    colours = np.round(PALE + np.where(seen, tall, 0.0) * (DARK - PALE))
    pixels = np.concatenate([colours * seen, 255 * seen], axis=-1).astype(np.uint8)
    with atomic.whole_file(path) as partial:
        Image.fromarray(pixels).save(partial, format="png")


def binned(values: Floats, n: int) -> Floats:
    """Means over at most n bins of neighbouring rows, without NaN; NaN where a bin has nothing else.

    >>> binned(np.arange(6.0)[:, None], 3)[:, 0].tolist()
    [0.5, 2.5, 4.5]
    >>> binned(np.array([[1.0], [np.nan], [np.nan], [np.nan]]), 2)[:, 0].tolist()
    [1.0, nan]
    """
    length = len(values)
    if length <= n:
        return values
    edges = np.arange(n) * length // n
    known = ~np.isnan(values)
    sums: Floats = np.add.reduceat(np.where(known, values, 0.0), edges, axis=0)
    counts = np.add.reduceat(known.astype(float), edges, axis=0)
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def in_words(name: str, bands: Sequence[str], span: str) -> str:
    """What the picture of a sample shows.

    >>> in_words("monday", ["lamp", "kettle"], "0-399")
    'monday, 0-399; bands from above: lamp, kettle'
    """
    rows = ", ".join(bands)
    if len(bands) > MOST_ROWS:
        rows += f" (averaged to {MOST_ROWS} bands)"
    return f"{name}{span and f', {span}'}{rows and f'; bands from above: {rows}'}"

"""The files of an answer: idealised.tsv, dwells.tsv, rates.tsv and summary.json; idealised.abf of an Axon file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from chiasma import atomic
from chiasma.channels.analysis import ChannelAnswer
from chiasma.results.findings import message

PAGE = "report.html"


def write_answer(answer: ChannelAnswer, folder: Path, seed: int) -> None:
    """Write all tables and the summary; each file is atomic."""
    atomic.make_directory(folder)
    atomic.tidy(folder)
    _write_table(folder / "idealised.tsv", _idealised(answer))
    _write_table(folder / "dwells.tsv", _dwells(answer))
    _write_table(folder / "rates.tsv", pd.DataFrame([vars(one) for one in answer.estimates]))
    if answer.recording.is_abf and answer.n_channels:
        _write_abf(folder / "idealised.abf", answer)
    atomic.write_text(folder / "summary.json", json.dumps(summary(answer, seed), indent=2) + "\n")


def summary(answer: ChannelAnswer, seed: int) -> dict[str, Any]:
    """Plain numbers, ready for JSON."""
    return {
        "recording": {
            "name": answer.recording.name,
            "seconds": answer.recording.seconds,
            "samples_per_second": 1 / answer.recording.step,
            "unit": answer.recording.unit,
            "notes": list(answer.recording.notes),
        },
        "scheme": str(answer.scheme),
        "trust": answer.trust,
        "promised_accuracy": answer.promised_accuracy,
        "findings": [one.to_dict() | {"message": message(one)} for one in answer.findings],
        "channels": {
            "most_probable": answer.n_channels,
            "probabilities": {str(n): share for n, share in answer.probabilities.items()},
            "log_evidence": {str(fit.n_channels): fit.log_evidence for fit in answer.fits},
            "not_counted": list(answer.not_counted),
            "never_all_open": answer.never_all_open,
        },
        "estimates": {
            one.name.replace(" ", "_"): {"value": one.value, "low": one.low, "high": one.high, "unit": one.unit}
            for one in answer.estimates
        },
        "events": {"seen": answer.dwells.n_events, "missed": answer.missed_events},
        "mains": {"frequency": answer.mains.frequency, "harmonics": answer.mains.harmonics},
        "seed": seed,
    }


def _idealised(answer: ChannelAnswer) -> pd.DataFrame:
    """One line per sample."""
    times = answer.recording.data.times
    sub = {"sub": answer.n_sub} if answer.scheme.has_sub else {}
    return pd.DataFrame({"time": times, "open": answer.n_open, **sub, "probability": answer.probability.round(4)})


def _dwells(answer: ChannelAnswer) -> pd.DataFrame:
    found = answer.dwells
    sub = {"sub": found.n_sub} if answer.scheme.has_sub else {}
    columns = {"begin": found.begin, "seconds": found.seconds, "open": found.n_open, **sub}
    return pd.DataFrame(columns | {"whole": found.whole.astype(int)})


def _write_abf(path: Path, answer: ChannelAnswer) -> None:
    """The idealised current without drift and hum, for programs that read Axon files."""
    from pyabf.abfWriter import writeABF1

    recording = answer.recording
    sweeps = np.split(answer.level - answer.offset, recording.starts[1:])
    if len({len(one) for one in sweeps}) == 1:  # the format has sweeps of one length
        with atomic.whole_file(path) as partial:
            writeABF1(np.array(sweeps), str(partial), 1 / recording.step, units=recording.unit or "pA")


def _write_table(path: Path, table: pd.DataFrame) -> None:
    with atomic.whole_file(path) as partial:
        table.to_csv(partial, sep="\t", index=False, float_format="%.9g")

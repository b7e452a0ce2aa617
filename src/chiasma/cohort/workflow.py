"""What is done with one sample: the contract of a workflow, and the workflows of `chiasma fit` and `chiasma tumour`.

A workflow knows the settings that a sheet may hold, turns a sample into a run directory, and returns what the cohort
keeps of it. It knows nothing of schedulers, workers and other samples.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from chiasma.errors import InvalidInput
from chiasma.extras import extra
from chiasma.io.estimates import estimated, left_out
from chiasma.io.options import all_settings, as_number, as_whole, parse_names
from chiasma.io.settings import Settings
from chiasma.io.sheets import listed
from chiasma.io.signal import Signal
from chiasma.results.findings import trust_in
from chiasma.results.row_groups import names_of_rows
from chiasma.tumour.analysis import TumourSettings
from chiasma.tumour.exports import INTERVAL, N_PURITIES, copy_probabilities, solution_entries
from chiasma.tumour.signals import read_any
from chiasma.tumour.solutions import Answer
from chiasma.types import Floats, as_count

with extra("cohort"):
    from chiasma.report.fitting import Fit, fit_file
    from chiasma.report.run_directory import RunDirectory


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a cohort keeps of a sample.

    evidence : log evidence and its standard error, or None.
    trust : "good", "limited" or "none". findings : their codes.
    key_results : columns of cohort.tsv, by name.
    parameters : of every learned parameter: mean, sd, q05, q95.
    summaries : variables along the sites and their coordinates, which go to cohort.zarr.
    picture : (bands, sites) values from 0 to 1 for the small picture of the sample; NaN where there are no data.
    bands : what each band of the picture is, from above.
    span : where the picture begins and ends, in words.
    """

    evidence: tuple[float, float] | None
    trust: str
    findings: Sequence[str]
    key_results: Mapping[str, float]
    parameters: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    summaries: xr.Dataset
    picture: Floats
    bands: Sequence[str] = ()
    span: str = ""


class Workflow(ABC):
    """settings: plain JSON, the settings of the cohort overridden by the sample's.

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
        """The settings of a sample: the cohort's, the sample's, and its seed."""

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


# ---- A sample as `chiasma fit` would fit it -------------------------------------------------------------------------

# Columns that are enough to meet every kernel.
FIRST = 60
ANY_NUMBER = 0.5


class FitWorkflow(Workflow):
    """Settings are the sections of a TOML file, and the names of what to learn."""

    picture_shows = (
        "one band per row of the model, dark where the row is on and blank where values are missing; sites stand one "
        "after the other, whatever lies between them"
    )

    def check_key(self, key: str, where: str) -> None:
        known = ["learn", *(setting.key for setting in all_settings())]
        if key not in known:
            raise InvalidInput(
                f"{where}: there is no setting {key!r}; a column may be sample, path, {listed(known)}. Samples that "
                "need other rows or settings files belong in a separate cohort"
            )

    def value(self, key: str, given: Any) -> Any:
        if not isinstance(given, str):
            return given
        if key == "learn":
            return parse_names(given)
        setting = next(one for one in all_settings() if one.key == key)
        if setting.kind is float:
            return as_number(key, given)
        if setting.kind is int:
            return as_whole(key, given)
        return setting.parse(key, given.split(",") if setting.kind == list[str] else given)

    def combined(self, settings: Mapping[str, Any], own: Mapping[str, Any], seed: int) -> dict[str, Any]:
        mine: dict[str, dict[str, Any]] = {}
        for one in all_settings():
            if one.key in own:
                mine.setdefault(one.section, {})[one.key] = own[one.key]
        mine.setdefault("sampler", {})["seed"] = seed
        return plain(Settings(**settings).merged(**mine), own.get("learn", settings["learn"]))

    def check(self, settings: Mapping[str, Any]) -> None:
        given, learn = Settings(**settings), settings["learn"]
        # What the data will tell may be any number here; that it is a number is enough to check the others.
        unknown = dict.fromkeys(left_out(given, learn), ANY_NUMBER)
        given.merged(model=unknown).learning(learn).model()
        given.columns()
        arguments = given.sampler()
        for key in ("draws", "warmup", "chains", "thin", "exchange_every", "workers"):
            if arguments.get(key) is not None:
                as_count(key, arguments[key], least=0 if key == "warmup" else 1)

    def run(
        self, source: Path, settings: Mapping[str, Any], directory: Path, *, workers: int, tables_only: bool
    ) -> Result:
        run = RunDirectory(directory)
        done = fit_file(
            source,
            Settings(**settings),
            run,
            learn=settings["learn"],
            resume=run.store.exists(),
            workers=workers,
            tables_only=tables_only,
            read=read_any,
        )
        return self._result(done)

    def _result(self, done: Fit) -> Result:
        posterior, signal, report = done.posterior, done.signal, done.report
        summary = report.summary
        rhats = [*(part.rhat_worst for part in summary.convergence), *(one.rhat for one in summary.parameters)]
        marginals = posterior.marginals()
        return Result(
            evidence=summary.evidence,
            trust=summary.trust,
            findings=[one.code for one in summary.findings],
            key_results={
                "accuracy": math.nan if summary.accuracy is None else summary.accuracy,
                "sites": signal.data.n_columns,
                "missing": int(signal.data.missing.sum()),
                "segments": report.n_segments,
                "uncertain_segments": len(report.regions),
                "rhat": max((rhat for rhat in rhats if not math.isnan(rhat)), default=math.nan),
            },
            parameters={
                one.name: {"mean": one.mean, "sd": one.sd, "q05": one.low, "q95": one.high}
                for one in summary.parameters
            },
            summaries=xr.Dataset(
                {"probability": (("row", "site"), marginals.values.astype(np.float32))},
                {"row": [str(name) for name in marginals["row"].values], **_site_labels(signal)},
            ),
            picture=np.where(signal.data.missing, np.nan, marginals.values),
            bands=names_of_rows(posterior),
            span=_span(signal),
        )

    def compile(self, source: Path, settings: Mapping[str, Any]) -> None:
        """Sample the first columns in the way that was chosen for all of them."""
        from chiasma.models.observations import Observations
        from chiasma.sampling.plan import EXACT_SECONDS
        from chiasma.sampling.problems import pose
        from chiasma.sampling.sampler import sample

        given, learn = Settings(**settings), settings["learn"]
        signal = read_any(source, given.columns())
        model, chosen = estimated(given, signal.data, learn)[0].learning(learn).model(), given.sampler()
        update, exchange, ladder = (chosen.get(name, "auto") for name in ("update", "exchange", "ladder"))
        _, plan, _ = pose(
            model, signal.data, update, exchange, ladder, None, chosen.get("exact_seconds", EXACT_SECONDS)
        )
        data = signal.data
        first = Observations(
            data.y[:FIRST], data.starts[data.starts < FIRST], None if data.gaps is None else data.gaps[: FIRST - 1]
        )
        sample(
            model,
            first,
            update=plan.update or "auto",
            exchange=plan.exchange,
            ladder=plan.ladder,
            draws=4,
            warmup=4,
            chains=1,
            seed=0,
            progress=False,
        )


def plain(settings: Settings, learn: Iterable[str]) -> dict[str, Any]:
    """Settings, and what to learn, as plain JSON; `Settings(**plain(...))` reads all but what to learn."""
    return {**settings.sections, "row": settings.row, "learn": list(learn)}


def _site_labels(signal: Signal) -> dict[str, tuple[str, Any]]:
    labels = {"chromosome": signal.chromosome, "position": signal.position}
    return {name: ("site", np.asarray(label)) for name, label in labels.items() if label is not None}


def _span(signal: Signal) -> str:
    last = signal.data.n_columns - 1
    return f"sites 0-{last}" if signal.position is None else signal.site_text(0, last)


# ---- A sample as `chiasma tumour` would solve it --------------------------------------------------------------------


TRUE, FALSE = ("yes", "true", "1"), ("no", "false", "0")
# Copies of a normal cell.
NORMAL = 2
# What cohort.tsv has of the first solution.
KEY_RESULTS = ("probability", "purity", "ploidy", "clones", "doubled", "altered", "unexplained")


class TumourWorkflow(Workflow):
    """Settings are the fields of `TumourSettings`, and the seed."""

    files = frozenset({"alleles", "gc", "mappability", "normal"})
    picture_shows = "two bands: dark above where copies are gained, and below where they are lost"

    def check_key(self, key: str, where: str) -> None:
        known = ["seed", *(field.name for field in fields(TumourSettings))]
        if key not in known:
            raise InvalidInput(
                f"{where}: there is no setting {key!r} of a tumour; a column may be sample, path, sample_in_file, "
                f"{listed([name for name in known if name != 'sample'])}"
            )

    def value(self, key: str, given: Any) -> Any:
        if key in ("seed", "max_copies"):
            return as_whole(key, given)
        if key == "female":
            text = str(given).lower()
            if text not in TRUE + FALSE:
                raise InvalidInput(f"female must be yes or no, got {given!r}")
            return text in TRUE
        if key == "region":
            return given.split(",") if isinstance(given, str) else list(given)
        return str(given)

    def combined(self, settings: Mapping[str, Any], own: Mapping[str, Any], seed: int) -> dict[str, Any]:
        return {**settings, **own, "seed": seed}

    def check(self, settings: Mapping[str, Any]) -> None:
        given = _settings(settings)
        given.check()
        _ = given.bounds  # of one sample

    def run(
        self, source: Path, settings: Mapping[str, Any], directory: Path, *, workers: int, tables_only: bool
    ) -> Result:
        given, seed = _settings(settings), settings["seed"]
        samples = given.read(source)
        if len(samples) > 1:
            names = listed([bins.sample for bins in samples])
            raise InvalidInput(
                f"{source} has {len(samples)} samples: {names}; give each a line of the sheet, and name it in the "
                "column sample_in_file"
            )
        patient = given.solve(samples, directory, workers=workers, seed=seed, tables_only=tables_only)
        return result_of(patient.answers[0], seed)

    def compile(self, source: Path, settings: Mapping[str, Any]) -> None:
        """Solve a small tumour, with alleles if this one has them."""
        from chiasma.datasets.tumours import simulate_tumour
        from chiasma.tumour.bins import simulated_bins
        from chiasma.tumour.landscape import Bounds
        from chiasma.tumour.solutions import solve

        small = simulated_bins(simulate_tumour(1, n_bins=60, purity=0.7, doubled=False, clones=1))
        if _settings(settings).read(source)[0].alleles is None:
            small = replace(small, alleles=None)
        solve([small], Bounds(clones=(1, 1), purity=(0.5, 0.9), ploidy=(1.5, 3.0)), workers=1)


def _settings(settings: Mapping[str, Any]) -> TumourSettings:
    paths = {key: Path(settings[key]) for key in TumourWorkflow.files if settings.get(key) is not None}
    return TumourSettings(**{**{key: value for key, value in settings.items() if key != "seed"}, **paths})


def result_of(answer: Answer, seed: int) -> Result:
    first, bins = solution_entries(answer, seed)[0], answer.bins
    purities = answer.purity_draws(N_PURITIES, seed)
    low, high = np.quantile(purities, INTERVAL)
    share = copy_probabilities(answer)
    copies = np.arange(share.shape[1])
    return Result(
        evidence=(first["log_evidence"], 0.0),
        trust=trust_in(first["findings"]),
        findings=[one.code for one in first["findings"]],
        key_results={
            **{name: np.nan if answer.flat else float(first[name]) for name in KEY_RESULTS},
            "solutions": sum(one.probability >= 0.01 for one in answer.solutions),
            "bins": bins.n_bins,
        },
        # Over all solutions; the key results describe the first.
        parameters={
            "purity_of_all_solutions": {
                "mean": float(purities.mean()),
                "sd": float(purities.std()),
                "q05": float(low),
                "q95": float(high),
            }
        },
        summaries=xr.Dataset(
            {
                "copies": ("site", (share @ copies).astype(np.float32)),
                "probability": ("site", share.max(axis=1).astype(np.float32)),
            },
            {
                "chromosome": ("site", np.asarray(bins.chromosome, str)),
                "start": ("site", np.asarray(bins.start)),
                "end": ("site", np.asarray(bins.end)),
            },
        ),
        picture=np.stack([share[:, copies > NORMAL].sum(axis=1), share[:, copies < NORMAL].sum(axis=1)]),
        bands=("gained", "lost"),
        span=f"chromosomes {bins.chromosome[0]} to {bins.chromosome[-1]}",
    )

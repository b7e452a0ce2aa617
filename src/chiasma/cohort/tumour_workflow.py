"""A sample of a cohort as `chiasma tumour` would solve it: purity, ploidy, clones and copy numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from chiasma.cohort.workflow import Result, Workflow
from chiasma.errors import InvalidInput
from chiasma.io.options import as_whole
from chiasma.io.sheets import listed
from chiasma.results.findings import trust_in
from chiasma.tumour.analysis import TumourSettings
from chiasma.tumour.exports import INTERVAL, N_PURITIES, copy_probabilities, solution_entries
from chiasma.tumour.solutions import Answer

TRUE, FALSE = ("yes", "true", "1"), ("no", "false", "0")
# Copies of a normal cell.
NORMAL = 2
# What cohort.tsv has of the first solution.
KEY_RESULTS = ("probability", "purity", "ploidy", "clones", "doubled", "altered", "unexplained")


class TumourWorkflow(Workflow):
    """Settings are those of `TumourSettings`, by name, and the seed."""

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
        # Over all solutions, whereas the key results are those of the first.
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

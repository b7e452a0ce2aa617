"""The paper's tumour analysis (section 4.2.2, figure 9), compared with the exact posterior of the same model.

Three cases: a simulated genome, its three ambiguous chromosomes alone for many more iterations, and a real tumour. Two
chains of every sampler start from one draw of the prior. If all samplers were equally good, both chains of augmented
would be ahead of the six chains of the other three with probability 1 / C(8, 2) = 1/28, the error rate of "agrees".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from chiasma.datasets import genome
from chiasma.kernels.codes import pack
from paper import timings, tumour_figures
from paper import tumour_cases as cases
from paper.result import ExperimentResult, Finding
from paper.timings import CHAINS, EXACT, PAPER, verdict
from paper.tumour_cases import SAMPLERS, Outcome, Share


class Size(NamedTuple):
    """Bins, iterations and thinning of the simulated genome and of its three chromosomes; from which chromosome on the
    real one, and its iterations; exact draws per chain."""

    n_bins: int
    n_iterations: int
    thin: int
    n_alone: int
    thin_alone: int
    first_chromosome: int
    n_real: int
    n_exact: int


FULL = Size(
    n_bins=genome.N_BINS, n_iterations=1_200, thin=4, n_alone=15_000, thin_alone=15, first_chromosome=1, n_real=300,
    n_exact=1_000,
)  # fmt: skip
QUICK = Size(
    n_bins=1_000, n_iterations=60, thin=1, n_alone=100, thin_alone=2, first_chromosome=20, n_real=30, n_exact=50
)


def run(folder: Path, quick: bool, seed: int) -> ExperimentResult:
    """Run all three cases; the real one is skipped if its data are not available."""
    began = perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    size = QUICK if quick else FULL
    case = cases.ambiguous_genome(seed, size.n_bins)
    simulated = {
        "whole genome": cases.examine(case, size.n_iterations, size.thin, size.n_exact, seed),
        "chromosomes 17, 21 and 22 alone": cases.examine(
            case.only(cases.AMBIGUOUS), size.n_alone, size.thin_alone, size.n_exact, seed
        ),
    }
    iterations = dict(zip(simulated, (size.n_iterations, size.n_alone), strict=True))
    findings, figures, tables = [], [], []
    for (what, outcome), stem in zip(simulated.items(), ("genome", "selected"), strict=True):
        listed = cases.shares(outcome)
        findings += paper_findings(outcome, listed, f"{what.capitalize()}, {iterations[what]:,} iterations")
        findings.append(exact_finding(outcome, listed, f"simulated, {what}"))
        figures.append(tumour_figures.traces(folder, outcome, stem, f"simulated, {what}", stem == "genome"))
        figures.append(tumour_figures.rows(folder, outcome, stem, what))
        figures.append(tumour_figures.probabilities(folder, listed, stem, what))
        tables += tumour_figures.tables(outcome, listed, stem, what)
    path = cases.real_path()
    if path is None:
        ours = f"skipped: no {cases.DATA_FILE} in the folder that the environment variable {cases.DATA_VARIABLE} names"
        findings.append(Finding(claim="The same on a real tumour.", ours=ours, verdict="beyond the paper"))
    else:
        real = cases.examine(cases.real_profile(path, size.first_chromosome), size.n_real, 1, size.n_exact // 2, seed)
        counted = cases.totals(real)
        findings.append(exact_finding(real, counted, f"real tumour {cases.SAMPLE}"))
        figures.append(tumour_figures.level(folder, real))
        figures.append(tumour_figures.traces(folder, real, "real", f"real tumour {cases.SAMPLE}", False))
        tables += tumour_figures.tables(real, counted, "real", f"real tumour {cases.SAMPLE}")
    return ExperimentResult(
        name="tumour",
        title="Tumour analysis: a simulated genome and a real one",
        settings={
            **size._asdict(), "n_iterations_paper": 50_000, "burn_in": f"one part in {cases.BURN_IN}",
            "chains": CHAINS, "start": "one draw of the prior", "temperatures": timings.TEMPERATURES,
            "radius": cases.RADIUS, "exchange_every": timings.EXCHANGE_EVERY, "workers": timings.WORKERS, "seed": seed,
            "weights": genome.WEIGHTS, "fixed": genome.FIXED_ROWS, "depth_mean": cases.DEPTH_MEAN,
            "depth_sd": cases.DEPTH_SD, "sd": cases.SD, "switching": cases.SWITCHING,
            "real": "skipped" if path is None else cases.SAMPLE, "real_weights": cases.REAL_WEIGHTS,
            "real_depth": cases.REAL_DEPTH, "real_sd": cases.REAL_SD, "real_switching": cases.REAL_SWITCHING,
            "real_clip": cases.CLIP,
        },
        findings=findings,
        figures=figures,
        tables=tables,
        seconds=perf_counter() - began,
        folder=folder,
    )  # fmt: skip


def ahead(values: Mapping[str, Sequence[float]], first: Sequence[str]) -> bool:
    """Whether every chain of the first samplers is below every chain of the paper's other ones."""
    worst = max(value for name in first for value in values[name])
    return worst < min(value for name in PAPER if name not in first for value in values[name])


def paper_findings(outcome: Outcome, listed: Sequence[Share], what: str) -> list[Finding]:
    """The paper's three statements about one outcome."""
    reached = cases.from_exact(outcome)
    below = {name: [-value for value in values] for name, values in reached.items()}
    first, stop = outcome.case.span(17)
    switched = {
        name: cases.switches(cases.late(posterior.codes[..., first:stop]).values)
        for name, posterior in outcome.posteriors.items()
    }
    switched["truth"] = cases.switches(pack(outcome.case.states[:, first:stop])[None, None])
    pair = [share for share in listed if share.place == "21 and 22"]
    off = {name: cases.errors(pair, name) for name in SAMPLERS}
    return [
        Finding(
            claim="Augmented explores parts of the state space of higher posterior than the other samplers find.",
            ours=f"{what}. Nats below the exact mean over the last fifth, by chain: "
            f"{_chains({name: below[name] for name in PAPER})}",
            verdict=verdict(ahead(below, ["augmented"])),
            numbers=reached,
        ),
        Finding(
            claim="Augmented is much better at capturing the uncertainty: an extra copy of 21 may or may not co-occur "
            "with one of 22.",
            ours=f"{what}. Mean error of the probabilities of configurations of 21 and 22, by chain: "
            f"{_chains({name: off[name] for name in PAPER})}. Exactly: "
            + "; ".join(f"{share.configuration} {share.exact:.2f}" for share in pair if share.exact > 0.02),
            verdict=verdict(ahead(off, ["augmented"])),
            numbers={"error": off, "exact": {share.configuration: share.exact for share in pair}},
        ),
        Finding(
            claim="On 17, HB alone and random find a fragmented path; swap and augmented a merged, more probable one.",
            ours=f"{what}. Switches of rows on 17, by chain: {_chains(switched)}",
            verdict=verdict(ahead(switched, ["swap", "augmented"])),
            numbers=switched,
        ),
    ]


def exact_finding(outcome: Outcome, listed: Sequence[Share], what: str) -> Finding:
    mean, low, high = outcome.band
    reached, seconds = cases.from_exact(outcome), outcome.seconds()
    off = {name: float(np.mean(cases.errors(listed, name))) for name in SAMPLERS}
    n_exact = outcome.posteriors[EXACT].log_joint.size
    return Finding(
        claim=f"How far is each sampler from the exact posterior ({what})?",
        ours=f"Exact log joint {mean:.0f} (5-95%: {low:.0f} to {high:.0f}), {n_exact:,} draws in {seconds[EXACT]:.1f} "
        "s. Nats below that mean: "
        + ", ".join(f"{name} {-np.mean(reached[name]):.0f} in {seconds[name]:.0f} s" for name in SAMPLERS)
        + ". Mean error of the probabilities in the table: "
        + ", ".join(f"{name} {value:.2f}" for name, value in off.items()),
        verdict="beyond the paper",
        numbers={"band": outcome.band, "from_exact": reached, "seconds": seconds, "error": off},
    )


def _chains(values: Mapping[str, Sequence[float]]) -> str:
    return ", ".join(f"{name} " + " and ".join(f"{value:.2g}" for value in own) for name, own in values.items())

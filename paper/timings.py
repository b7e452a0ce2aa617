"""Samplers of the simulation study, their computation times (the paper's table 1), and when their marginals are right.

A run is one chain from mode (a), the true states: log joint (n,), error (m,) of its marginals at m checkpoints,
Hamming distances (lags,).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chiasma import exact
from chiasma.results.diagnostics import hamming_distances
from chiasma.results.posterior import Posterior
from chiasma.sampling.sampler import sample
from chiasma.sampling.updates import HammingBall, RowGibbs, Update
from chiasma.types import Floats
from paper import result
from paper.result import ExperimentResult, Finding, Verdict
from paper.study import Study, simulation_study

UPDATES: dict[str, Update] = {"Gibbs": RowGibbs(), "HB": HammingBall(radius=1)}
TEMPERATURES = [1, 5]
EXCHANGE_EVERY = 10
PAPER = ("alone", "swap", "random", "augmented")
ADAPTED = "mosaic, adapted ladder"
SAMPLERS = (*PAPER, "mosaic", ADAPTED)
EXACT = "exact draws"
LAGS = (1, 10, 50)
CHAINS = WORKERS = 2
# Marginals are called right when their mean absolute error stays below this; the start has about 0.5.
RIGHT = 0.02
# Seconds of the paper's table 1, in the order of PAPER: two replicas, 10,000 iterations.
TABLE_1 = {"HB": (130, 132, 133, 135), "Gibbs": (213, 216, 214, 218)}
N_REPEATS = 9
FULL, QUICK = 10_000, 200  # iterations
# Draws of a run that only triggers compilation; it must include an exchange and a round of adaptation.
N_COMPILE = 60


@dataclass(frozen=True, kw_only=True)
class Size:
    """n_draws: iterations of a run. n_adapted: of a run on an adapted ladder, after n_warmup. n_data: data sets of
    each switching probability."""

    n_draws: int
    n_adapted: int
    n_warmup: int
    n_data: tuple[int, ...] = ()


def options_of(exchange: str) -> dict[str, Any]:
    """Arguments of `sample` for one of the paper's samplers, or for the mosaic on the same two rungs."""
    if exchange == "alone":
        return {"exchange": None, "ladder": [1], "warmup": 0}
    return {"exchange": exchange, "ladder": TEMPERATURES, "exchange_every": EXCHANGE_EVERY, "warmup": 0}


def own_seed(seed: int, *place: int) -> int:
    """A separate seed for every sampler: with a shared seed, samplers whose exchanges all fail would give equal draws.

    >>> own_seed(1, 0) == own_seed(1, 0), own_seed(1, 0) == own_seed(1, 1)
    (True, False)
    """
    return int(np.random.SeedSequence([seed, *place]).generate_state(1)[0])


def draw(data: Study, update: str, sampler: str, size: Size, seed: int) -> Posterior:
    """Both runs of one sampler on one data set, from mode (a)."""
    options: dict[str, Any] = {"update": UPDATES[update], "init": data.states, "draws": size.n_draws}
    if sampler == ADAPTED:
        options |= {"exchange": "mosaic", "draws": size.n_adapted, "warmup": size.n_warmup}
    else:
        options |= options_of(sampler)
    options["seed"] = own_seed(seed, list(UPDATES).index(update), SAMPLERS.index(sampler))
    return sample(data.model, data.data, **options, chains=CHAINS, workers=WORKERS, progress=False)


class Truth(NamedTuple):
    """The exact posterior of one data set. band: mean, 5% and 95% of its log joint."""

    marginals: Floats
    posterior: Posterior
    band: tuple[float, float, float]
    seconds: float  # of the marginals


def solve(data: Study, size: Size, seed: int) -> Truth:
    began = perf_counter()
    marginals = exact.marginals(data.model, data.data)
    seconds = perf_counter() - began
    draws = sample(
        data.model, data.data, update="exact", draws=size.n_draws, chains=CHAINS, workers=WORKERS, seed=seed,
        progress=False,
    )  # fmt: skip
    return Truth(marginals, draws, exact_band(draws), seconds)


def exact_band(posterior: Posterior) -> tuple[float, float, float]:
    """Mean, 5% and 95% of the log joint over independent exact draws."""
    values = posterior.log_joint.values
    low, high = np.quantile(values, [0.05, 0.95])
    mean = float(values.mean())
    # If one path has nearly all the mass, the few others pull the mean below the quantiles.
    return mean, min(float(low), mean), float(high)


class ChainRun(NamedTuple):
    """Statistics of one chain; log joints are differences from the exact mean, so that data sets are comparable."""

    early: float  # mean log joint of the first tenth
    late: float  # of the last half
    third: float  # share of block columns with x3 = 1, last half: 0 at mode (a)
    error: float  # of the marginals over all iterations, none dropped
    curve: Floats  # of the marginals over the last half of the iterations up to each checkpoint
    hamming: Floats
    seconds: float
    right: float  # seconds until the curve stays below RIGHT; inf if it never does


def checkpoints(n: int) -> npt.NDArray[np.int64]:
    """Iterations at which errors are evaluated."""
    return np.unique(np.geomspace(min(20, n), n, 40).astype(np.int64))


def judge(posterior: Posterior, data: Study, truth: Truth) -> list[ChainRun]:
    """One ChainRun per chain."""
    n = posterior.draws.sizes["draw"]
    ends = checkpoints(n)
    n_rows, n_sites = truth.marginals.shape
    curve = np.zeros((CHAINS, len(ends)))
    error = np.zeros(CHAINS)
    for k in range(n_rows):
        total = np.zeros((CHAINS, n + 1, n_sites), np.int32)
        np.cumsum(posterior.states(k).values, axis=1, out=total[:, 1:])
        begins = ends // 2
        means = (total[:, ends] - total[:, begins]) / (ends - begins)[:, None]
        curve += np.abs(means - truth.marginals[k]).mean(axis=-1) / n_rows
        error += np.abs(total[:, n] / n - truth.marginals[k]).mean(axis=-1) / n_rows
    log = posterior.log_joint.values - truth.band[0]
    third = posterior.states(2).values[:, n // 2 :, data.states.any(axis=0)].mean(axis=(1, 2))
    distance = np.nanmean(hamming_distances(posterior, LAGS).values, axis=-1)
    warmup = posterior.info["timings"].get("warmup", 0.0)
    seconds = posterior.info["timings"]["draws"]
    return [
        ChainRun(
            early=float(log[c, : max(1, n // 10)].mean()),
            late=float(log[c, n // 2 :].mean()),
            third=float(third[c]),
            error=float(error[c]),
            curve=curve[c],
            hamming=distance[c],
            seconds=warmup + seconds,
            right=_seconds_until_right(curve[c], warmup + ends * seconds / n),
        )
        for c in range(CHAINS)
    ]


def _seconds_until_right(curve: Floats, seconds: Floats) -> float:
    wrong = np.flatnonzero(curve > RIGHT)
    first = 0 if not wrong.size else int(wrong[-1]) + 1
    return float(seconds[first]) if first < len(seconds) else float("inf")


def compile_all(seed: int) -> None:
    """Run everything once at the smallest size, so that timings exclude compilation."""
    tiny = Size(n_draws=N_COMPILE, n_adapted=N_COMPILE, n_warmup=N_COMPILE // 3)
    data = simulation_study(seed)
    solve(data, tiny, seed)
    for update in UPDATES:
        for sampler in SAMPLERS:
            draw(data, update, sampler, tiny, seed)


class Times(NamedTuple):
    """Seconds of one chain (CPU time and wall-clock time), of two chains on one worker, and on two workers."""

    cpu: float
    one: float
    two: float
    side_by_side: float


def run(folder: Path, quick: bool, seed: int) -> ExperimentResult:
    """Table 1 as measured here."""
    folder.mkdir(parents=True, exist_ok=True)
    began = perf_counter()
    n = QUICK if quick else FULL
    compile_all(seed)
    data = simulation_study(seed)
    # Wall-clock time includes other load on the machine, so small differences are measured in CPU time. Each repeat
    # runs all samplers, so that a busy moment does not affect only one of them.
    repeats = [[measure(data, *cell, n, seed) for cell in product(TABLE_1, PAPER)] for _ in range(N_REPEATS)]
    fastest = iter(Times(*best) for best in np.min(repeats, axis=0).tolist())
    times = {update: [next(fastest) for _ in PAPER] for update in TABLE_1}
    return ExperimentResult(
        name="timings",
        title="Table 1: computation times of the simulation study",
        settings={
            "iterations": n, "replicas": len(TEMPERATURES), "temperatures": TEMPERATURES, "repeats": N_REPEATS,
            "exchange_every": EXCHANGE_EVERY, "columns": data.data.n_columns, "seed": seed,
            "note": "The machines differ: compare ratios within a column, not seconds between columns.",
        },
        findings=_findings(times, n),
        figures=[],
        tables=[_table(times)],
        seconds=perf_counter() - began,
        folder=folder,
    )  # fmt: skip


def measure(data: Study, update: str, sampler: str, n: int, seed: int) -> Times:
    """Seconds of n iterations of two replicas. Without exchange there are two replicas as well, as in the paper."""
    options = options_of(sampler) | {"ladder": TEMPERATURES}

    def seconds(chains: int, workers: int) -> tuple[float, float]:
        began = process_time()
        posterior = sample(
            data.model, data.data, update=UPDATES[update], **options, init=data.states, draws=n, chains=chains,
            workers=workers, seed=seed, progress=False,
        )  # fmt: skip
        return process_time() - began, float(posterior.info["timings"]["draws"])

    return Times(*seconds(1, 1), seconds(2, 1)[1], seconds(2, 2)[1])


def _table(times: dict[str, list[Times]]) -> result.ResultTable:
    rows = [
        [
            update, name, paper, round(100 * (paper / TABLE_1[update][0] - 1), 1), round(ours.cpu, 3),
            round(100 * (ours.cpu / times[update][0].cpu - 1), 1), round(ours.one, 3), round(ours.two, 3),
            round(ours.side_by_side, 3),
        ]
        for update in times
        for name, paper, ours in zip(PAPER, TABLE_1[update], times[update], strict=True)
    ]  # fmt: skip
    return result.ResultTable(
        stem="timings",
        caption="Seconds for two replicas: the paper's (its own machine and code), and ours for one chain, of the "
        "processor and by the clock, and for two chains by the clock on one and on two workers, the fastest of "
        f"{N_REPEATS}. The machines differ; extra is the cost over the same two replicas without exchange, in seconds "
        "of the processor.",
        header=[
            "update", "exchange", "paper_seconds", "paper_extra_percent", "processor_seconds", "extra_percent",
            "seconds", "two_chains_one_worker", "two_chains_two_workers",
        ],
        rows=rows,
    )  # fmt: skip


def _findings(times: dict[str, list[Times]], n: int) -> list[Finding]:
    extra = {u: [ours.cpu / times[u][0].cpu - 1 for ours in times[u][1:]] for u in times}
    most = max(value for values in extra.values() for value in values)
    ratio = times["Gibbs"][0].cpu / times["HB"][0].cpu
    gain = float(np.mean([ours.two / ours.side_by_side for u in times for ours in times[u]]))
    per_iteration = {u: 1e3 * times[u][-1].cpu / n for u in times}
    return [
        Finding(
            claim="The extra cost of every exchange move is small (at most 4% in table 1).",
            ours="extra for swap, random, augmented, in time of the processor: "
            + "; ".join(f"{u} " + ", ".join(f"{100 * value:.1f}%" for value in extra[u]) for u in extra),
            verdict=verdict(most < 0.1),
            numbers={"extra": extra},
        ),
        Finding(
            claim="Gibbs takes longer than HB with radius 1 (213 and 130 s).",
            ours=f"here Gibbs takes {ratio:.2f} times as long as HB (paper: {213 / 130:.2f} times): a row is a chain "
            "of two states, a ball has four candidates",
            verdict=verdict(ratio > 1),
            numbers={"gibbs_over_hb": ratio},
        ),
        Finding(
            claim="A parallel implementation could halve the time.",
            ours=f"two chains take {gain:.2f} times as long on one worker as on two",
            verdict=verdict(gain > 1.5),
            numbers={"one_worker_over_two": gain},
        ),
        Finding(
            claim="Seconds of 10,000 iterations with augmented crossovers: HB 135, Gibbs 218 (another machine).",
            ours=", ".join(f"{u} {value:.3g} ms per iteration" for u, value in per_iteration.items())
            + ", so "
            + ", ".join(f"{u} {10 * value:.2g} s" for u, value in per_iteration.items()),
            verdict="beyond the paper",
            numbers={"milliseconds_per_iteration": per_iteration},
        ),
    ]


def verdict(agrees: bool) -> Verdict:
    return "agrees" if agrees else "differs"

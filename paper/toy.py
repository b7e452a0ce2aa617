"""The paper's toy target (section 4.1): 2^B modes over {0, 1}^50, two replicas at temperatures 1 and 5.

A run is one chain of 10,000 iterations from the mode of alternating blocks; run r of every sampler has the same
alphas, so samplers are compared in pairs. The paper does not say what an iteration updates, so there are three
readings: one random site, ten, or a full sweep. Jumps (runs, iterations) and modes are counted by the nearest mode.
Neither does it say how modes are counted, nor that the interval between exchanges is the one it gives elsewhere; what
becomes of the numbers otherwise is in a table of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import comb
from scipy.stats import wilcoxon

from chiasma.models.density import BlockModes
from chiasma.results.diagnostics import mode_jumps
from chiasma.results.posterior import Posterior
from chiasma.sampling.sampler import sample
from chiasma.sampling.vector_updates import SiteGibbs
from chiasma.types import Floats
from paper import schema
from paper.result import ExperimentResult, Finding, ResultTable, Verdict

SIZE = 50
BLOCKS = (2, 5, 10)
ALPHAS = (0.01, 0.02, 0.03, 0.04, 0.05)
TEMPERATURES = (1, 5)
EXCHANGE_EVERY = 10
READINGS = {"one site": 1, "ten sites": 10, "full sweep": None}
# Of the conjecture about the paper's numbers: 2,000 exchanges in 10,000 iterations.
CONJECTURED_EVERY = 5
TRIED_EVERY = (1, 10, 100)  # intervals between exchanges that were tried besides
HEATMAPS = ("one site", "full sweep")
SAMPLERS: dict[str, str | None] = {"Gibbs": None, "swap": "swap", "random": "random", "augmented": "augmented"}
PAPER = {"swap": 3, "random": 27, "augmented": 144}  # modes visited, B = 10
ORDER = ("augmented", "random", "swap")
# Probability of calling equally good samplers ordered; each of the two comparisons gets half of it.
ERROR_RATE = 0.05
# "Hardly leaves its mode": at most this many modes in a run, on average.
HARDLY = 2.0


@dataclass(frozen=True, kw_only=True)
class Size:
    """n_adapted: iterations kept of each of n_adapted_runs on an adapted ladder, after n_warmup."""

    n_iterations: int
    n_runs: int
    n_adapted_runs: int
    n_adapted: int
    n_warmup: int


FULL = Size(n_iterations=10_000, n_runs=10, n_adapted_runs=3, n_adapted=2_000, n_warmup=1_000)
QUICK = Size(n_iterations=80, n_runs=2, n_adapted_runs=1, n_adapted=40, n_warmup=20)

Cell = tuple[int, str, str]  # blocks, reading, sampler


class Runs(NamedTuple):
    """All runs of one sampler in one setting."""

    jumps: npt.NDArray[np.int64]  # (runs, iterations), cumulative
    visited: npt.NDArray[np.int64]  # (runs,) distinct modes
    accepted: float  # share of exchanges that changed the state; 0 without exchanges
    first: Posterior  # of run 0, for the heatmaps


def targets(blocks: int, sites: int | None, n: int, seed: int) -> list[BlockModes]:
    """n targets that differ in their alphas; the same ones for every reading."""
    alphas = np.random.default_rng([seed, blocks]).choice(ALPHAS, (n, blocks))
    return [BlockModes(blocks=blocks, size=SIZE, alpha=alpha, update=SiteGibbs(sites=sites)) for alpha in alphas]


def draw_cell(cell: Cell, n_iterations: int, n_runs: int, seed: int) -> Runs:
    """The runs of one sampler."""
    blocks, reading, sampler = cell
    exchange = SAMPLERS[sampler]
    ladder = [1] if exchange is None else list(TEMPERATURES)
    place = [BLOCKS.index(blocks), list(READINGS).index(reading), list(SAMPLERS).index(sampler)]
    seeds = np.random.SeedSequence([seed, *place]).generate_state(n_runs).tolist()
    posteriors: list[Posterior] = []
    counts = []
    for target, own in zip(targets(blocks, READINGS[reading], n_runs, seed), seeds, strict=True):
        posterior = sample(
            target, exchange=exchange, ladder=ladder, exchange_every=EXCHANGE_EVERY, draws=n_iterations, warmup=0,
            chains=1, seed=own, workers=1, progress=False,
        )  # fmt: skip
        counts.append(mode_jumps(posterior, target))
        posteriors.append(posterior)
    return Runs(
        jumps=np.concatenate([count.jumps for count in counts]),
        visited=np.concatenate([count.visited for count in counts]),
        accepted=float(np.mean([changed_share(posterior) for posterior in posteriors])),
        first=posteriors[0],
    )


def changed_share(posterior: Posterior) -> float:
    """Share of exchanges that changed the cold replica."""
    return float(posterior.exchange_stats["changed"][-1]) if posterior.exchange_stats.sizes.get("pair", 0) else 0.0


def tried(sampler: str, every: int, size: Size, seed: int) -> tuple[float, float]:
    """B = 10, one site per iteration: modes that were the nearest one at some time, and modes that were hit exactly."""
    nearest, exact = [], []
    place = [TRIED_EVERY.index(every), list(SAMPLERS).index(sampler)]
    seeds = np.random.SeedSequence([seed, BLOCKS[-1], *place]).generate_state(size.n_runs).tolist()
    for target, own in zip(targets(BLOCKS[-1], READINGS["one site"], size.n_runs, seed), seeds, strict=True):
        posterior = sample(
            target, exchange=SAMPLERS[sampler], ladder=list(TEMPERATURES), exchange_every=every,
            draws=size.n_iterations, warmup=0, chains=1, seed=own, workers=1, progress=False,
        )  # fmt: skip
        nearest.append(int(mode_jumps(posterior, target).visited[0]))
        blocks = posterior.draws.values[0].reshape(size.n_iterations, BLOCKS[-1], -1)
        at_a_mode = (blocks == blocks[..., :1]).all(axis=(1, 2))
        exact.append(len(np.unique(blocks[at_a_mode, :, 0], axis=0)))
    return float(np.mean(nearest)), float(np.mean(exact))


def adapted_runs(blocks: int, size: Size, seed: int) -> tuple[npt.NDArray[np.int64], list[int]]:
    """Modes visited and number of rungs of runs on adapted ladders: full sweeps, each with an augmented crossover."""
    visited, rungs = [], []
    for r, target in enumerate(targets(blocks, None, size.n_adapted_runs, seed)):
        posterior = sample(
            target, exchange="augmented", draws=size.n_adapted, warmup=size.n_warmup, chains=1, seed=seed + r,
            workers=1, progress=False,
        )  # fmt: skip
        visited.append(int(mode_jumps(posterior, target).visited[0]))
        rungs.append(len(posterior.betas))
    return np.array(visited), rungs


def block_law(length: int, alpha: float, beta: float) -> Floats:
    """(length + 1,): probability that a block of the tempered target holds n ones, exact.

    >>> block_law(2, 0.5, 1.0)
    array([0.333, 0.333, 0.333])
    """
    ones = np.arange(length + 1)
    weights = comb(length, ones) * alpha ** (beta * np.minimum(ones, length - ones))
    return np.asarray(weights / weights.sum())


def log_density_law(target: BlockModes, beta: float) -> tuple[Floats, Floats]:
    """Values of log pi and their exact probabilities under the target at beta, computed block by block."""
    values: Floats = np.zeros(1)
    chances: Floats = np.ones(1)
    for length, alpha in zip(target.lengths.tolist(), target.alpha, strict=True):
        ones = np.arange(length + 1)
        scores = np.log(alpha) * np.minimum(ones, length - ones)
        sums = np.round(np.add.outer(values, scores).ravel(), 9)
        values, index = np.unique(sums, return_inverse=True)
        joint = np.multiply.outer(chances, block_law(length, alpha, beta)).ravel()
        chances = np.asarray(np.bincount(index, joint), float)
    return values, chances


def swap_acceptance(target: BlockModes, beta: float) -> float:
    """Mean acceptance of a swap between equilibria at 1 and beta, exact."""
    cold, cold_chances = log_density_law(target, 1.0)
    hot, hot_chances = log_density_law(target, beta)
    accepted = np.exp(np.minimum(0.0, (1 - beta) * np.subtract.outer(hot, cold)))
    return float(hot_chances @ accepted @ cold_chances)


def hot_distance(target: BlockModes, beta: float) -> float:
    """Mean number of flips from the replica at beta to its nearest mode, exact."""
    laws = [block_law(n, a, beta) for n, a in zip(target.lengths.tolist(), target.alpha, strict=True)]
    return float(sum(law @ np.minimum(np.arange(len(law)), len(law) - 1 - np.arange(len(law))) for law in laws))


def ordering(better: npt.ArrayLike, worse: npt.ArrayLike) -> float:
    """One-sided p-value of Wilcoxon's signed-rank test over paired runs; 1 where no pair differs."""
    difference = np.asarray(better) - np.asarray(worse)
    return float(wilcoxon(difference, alternative="greater").pvalue) if difference.any() else 1.0


def run(folder: Path, quick: bool, seed: int) -> ExperimentResult:
    """Run the whole experiment; writes figures into `folder`."""
    began = perf_counter()
    size = QUICK if quick else FULL
    folder.mkdir(parents=True, exist_ok=True)
    cells = {
        cell: draw_cell(cell, size.n_iterations, size.n_runs, seed)
        for cell in ((b, reading, name) for b in BLOCKS for reading in READINGS for name in SAMPLERS)
    }
    adapted = {b: adapted_runs(b, size, seed) for b in BLOCKS}
    return ExperimentResult(
        name="toy",
        title="Toy target: how many of the 2^B modes does a sampler see?",
        settings={
            "sites": SIZE, "blocks": BLOCKS, "alpha": ALPHAS, "temperatures": TEMPERATURES,
            "exchange_every": EXCHANGE_EVERY, "start": "alternating blocks of ones and zeros, a mode",
            "iterations": size.n_iterations, "warmup": 0, "runs": size.n_runs,
            "sites_per_iteration": {name: SIZE if n is None else n for name, n in READINGS.items()},
            "adapted_iterations": size.n_adapted, "adapted_warmup": size.n_warmup, "adapted_runs": size.n_adapted_runs,
            "seed": seed,
            "mosaic": "does not apply: it needs rows that are Markov chains, and a block of this target is not one",
        },
        findings=findings(cells, adapted, size, seed),
        figures=[
            schema.block_law_figure(folder, {beta: block_law(25, 0.03, beta) for beta in (1.0, 0.2)}),
            schema.modes_figure(folder),
            *(
                schema.heatmap_figure(folder, {cell: runs.first for cell, runs in cells.items()}, reading)
                for reading in HEATMAPS
            ),
            schema.jumps_figure(folder, {cell: runs.jumps for cell, runs in cells.items()}),
        ],
        tables=[_table(cells, adapted), tried_table(size, seed)],
        seconds=perf_counter() - began,
        folder=folder,
    )  # fmt: skip


def findings(
    cells: dict[Cell, Runs], adapted: dict[int, tuple[npt.NDArray[np.int64], list[int]]], size: Size, seed: int
) -> list[Finding]:
    """The paper's statements one by one, then ours."""
    visited = {cell: float(runs.visited.mean()) for cell, runs in cells.items()}
    exact = {b: targets(b, None, size.n_runs, seed) for b in BLOCKS}
    return [
        *(_ordering_finding(cells, reading) for reading in READINGS),
        _numbers_finding(visited),
        _reading_finding(visited),
        _conjecture_finding(size, seed),
        _stuck_finding(visited),
        _small_blocks_finding(cells),
        _proposals_finding(cells),
        _reason_finding(exact),
        _adapted_finding(adapted, size),
    ]


def _ordering_finding(cells: dict[Cell, Runs], reading: str) -> Finding:
    runs = {name: cells[10, reading, name].visited for name in ORDER}
    p_values = [ordering(runs[a], runs[b]) for a, b in pairwise(ORDER)]
    holds = max(p_values) < ERROR_RATE / 2
    means = ", ".join(f"{name} {runs[name].mean():.1f}" for name in ORDER)
    tests = " and ".join(f"{a} > {b}: p = {p:.2g}" for (a, b), p in zip(pairwise(ORDER), p_values, strict=True))
    return Finding(
        claim="B = 10: the augmented crossover visits more modes than the random one, and that more than the swap.",
        ours=f"{reading.capitalize()} per iteration: {means}, mean of {len(runs['swap'])} paired runs. Signed-rank "
        f"tests: {tests}; each must be below {ERROR_RATE / 2:g}, so that an ordering of equals passes at most once in "
        f"{1 / ERROR_RATE:.0f}.",
        verdict=_verdict(holds),
        numbers={"reading": reading, "visited": {k: v.tolist() for k, v in runs.items()}, "p_values": p_values},
    )


def _numbers_finding(visited: dict[Cell, float]) -> Finding:
    close = [
        reading
        for reading in READINGS
        if all(0.5 <= visited[10, reading, name] / paper <= 2 for name, paper in PAPER.items())
    ]
    ours = "; ".join(
        f"{reading}: " + ", ".join(f"{name} {visited[10, reading, name]:.1f}" for name in PAPER) for reading in READINGS
    )
    return Finding(
        claim="B = 10: modes visited on average: swap 3, random 27, augmented 144.",
        ours=f"{ours}. Readings with all three numbers within a factor of two of the paper's: "
        f"{', '.join(close) or 'none'}.",
        verdict=_verdict(bool(close)),
        numbers={f"{reading}, {name}": visited[10, reading, name] for reading in READINGS for name in PAPER},
    )


def _reading_finding(visited: dict[Cell, float]) -> Finding:
    off = {
        reading: float(np.mean([abs(np.log(visited[10, reading, name] / paper)) for name, paper in PAPER.items()]))
        for reading in READINGS
    }
    best = min(off, key=lambda reading: off[reading])
    factors = ", ".join(f"{reading} {np.exp(value):.1f}" for reading, value in off.items())
    return Finding(
        claim="What one iteration updates is not stated.",
        ours=f"The reading that agrees best is {best} per iteration. Typical factor between our three numbers and the "
        f"paper's (geometric mean): {factors}.",
        verdict="beyond the paper",
        numbers={"factor": {reading: float(np.exp(value)) for reading, value in off.items()}, "best": best},
    )


def conjectured(size: Size, seed: int) -> dict[str, float]:
    """Mean jumps between nearest modes, B = 10, all alphas at their smallest, one random site per iteration."""
    target = BlockModes(blocks=BLOCKS[-1], size=SIZE, alpha=min(ALPHAS), update=SiteGibbs(sites=1))
    jumps = {}
    for place, name in enumerate(PAPER):
        seeds = np.random.SeedSequence([seed, BLOCKS[-1], place, 2]).generate_state(size.n_runs).tolist()
        runs = [
            sample(
                target, exchange=SAMPLERS[name], ladder=list(TEMPERATURES), exchange_every=CONJECTURED_EVERY,
                draws=size.n_iterations, warmup=0, chains=1, seed=own, workers=1, progress=False,
            )
            for own in seeds
        ]  # fmt: skip
        jumps[name] = float(np.mean([mode_jumps(posterior, target).jumps[0, -1] for posterior in runs]))
    return jumps


def _conjecture_finding(size: Size, seed: int) -> Finding:
    jumps = conjectured(size, seed)
    numbers = ", ".join(f"{name} {jumps[name]:.1f} (paper {paper})" for name, paper in PAPER.items())
    return Finding(
        claim="A conjecture: the paper's three numbers are jumps between nearest modes, and not modes.",
        ours=f"With alpha = {min(ALPHAS):g} in every block, one random site per iteration and an exchange every "
        f"{CONJECTURED_EVERY} iterations: {numbers}, mean of {size.n_runs} runs. This setting was found by searching "
        "about 1,950 combinations for these numbers, so that agreement is no evidence for it; and the paper states "
        "other alphas and half as many exchanges.",
        verdict="beyond the paper",
        numbers=jumps,
    )


def _stuck_finding(visited: dict[Cell, float]) -> Finding:
    gibbs = {(b, reading): visited[b, reading, "Gibbs"] for b in BLOCKS for reading in READINGS}
    holds = all(gibbs[b, "one site"] <= HARDLY for b in BLOCKS)
    ours = "; ".join(
        f"B = {b}: " + ", ".join(f"{reading} {gibbs[b, reading]:.1f}" for reading in READINGS) for b in BLOCKS
    )
    return Finding(
        claim="In all scenarios a single Gibbs chain hardly escapes the mode in which it starts.",
        ours=f"Modes visited by Gibbs alone: {ours}. Blocks of five sites are easily turned over.",
        verdict=_verdict(holds),
        numbers={f"B = {b}, {reading}": value for (b, reading), value in gibbs.items()},
    )


def _small_blocks_finding(cells: dict[Cell, Runs]) -> Finding:
    jumps = {cell: float(runs.jumps[:, -1].mean()) for cell, runs in cells.items()}
    small = [b for b in BLOCKS if b < 10]
    efficient = all(jumps[b, "one site", name] >= 1 for b in small for name in ("swap", "random"))
    most = all(
        jumps[b, "one site", "augmented"] > max(jumps[b, "one site", "swap"], jumps[b, "one site", "random"])
        for b in small
    )
    ours = "; ".join(
        f"B = {b}, {reading}: " + ", ".join(f"{name} {jumps[b, reading, name]:.1f}" for name in SAMPLERS)
        for b in small
        for reading in ("one site", "full sweep")
    )
    return Finding(
        claim="Small B: swap and random crossover are reasonably efficient, and augmented still jumps more often.",
        ours=f"Mean jumps in a run: {ours}.",
        verdict=_verdict(efficient and most),
        numbers={", ".join([f"B = {b}", reading, name]): value for (b, reading, name), value in jumps.items()},
    )


def _proposals_finding(cells: dict[Cell, Runs]) -> Finding:
    accepted = {name: cells[10, "one site", name].accepted for name in PAPER}
    return Finding(
        claim="B = 10: swap and random crossover struggle to accept any proposal.",
        ours="Exchanges that changed the cold replica (one site per iteration): "
        + ", ".join(f"{name} {share:.2%}" for name, share in accepted.items())
        + ".",
        verdict=_verdict(max(accepted["swap"], accepted["random"]) < 0.1),
        numbers=accepted,
    )


def _reason_finding(exact: dict[int, list[BlockModes]]) -> Finding:
    beta = 1 / TEMPERATURES[1]
    swaps = {b: float(np.mean([swap_acceptance(target, beta) for target in own])) for b, own in exact.items()}
    flips = {b: float(np.mean([hot_distance(target, beta) for target in own])) for b, own in exact.items()}
    ours = "; ".join(f"B = {b}: {flips[b]:.1f} flips, {swaps[b]:.2g}" for b in BLOCKS)
    return Finding(
        claim="Why so few swaps? Exact, in equilibrium: how far the replica at temperature 5 is from its nearest mode, "
        "and how often a swap is accepted.",
        ours=f"{ours}. At temperature 5 the many vectors between the modes outweigh the modes, above all in long "
        "blocks: the hot replica crosses freely but is nowhere near a mode that the cold one could take over.",
        verdict="beyond the paper",
        numbers={"flips": {str(b): n for b, n in flips.items()}, "acceptance": {str(b): p for b, p in swaps.items()}},
    )


def _adapted_finding(adapted: dict[int, tuple[npt.NDArray[np.int64], list[int]]], size: Size) -> Finding:
    ours = "; ".join(
        f"B = {b}: {seen.mean():.1f} of {2**b:,} modes with {_range(rungs)} rungs"
        for b, (seen, rungs) in adapted.items()
    )
    return Finding(
        claim="Two temperatures are too few; our adapted ladder (augmented crossover and a full sweep per iteration).",
        ours=f"{ours}, in {size.n_adapted:,} iterations after {size.n_warmup:,} of warm-up; "
        f"mean of {size.n_adapted_runs} runs.",
        verdict="beyond the paper",
        numbers={str(b): {"visited": seen.tolist(), "rungs": rungs} for b, (seen, rungs) in adapted.items()},
    )


def _table(cells: dict[Cell, Runs], adapted: dict[int, tuple[npt.NDArray[np.int64], list[int]]]) -> ResultTable:
    rows: list[list[Any]] = [
        [b, reading, name, *_spread(runs.visited), round(float(runs.jumps[:, -1].mean()), 1), round(runs.accepted, 4)]
        for (b, reading, name), runs in cells.items()
    ]
    return ResultTable(
        stem="toy-modes",
        caption="Modes visited (mean, least, most over the runs), jumps between modes (mean) and share of exchanges "
        "that changed the cold replica. The last lines: adapted ladders.",
        header=["B", "one iteration", "sampler", "modes", "least", "most", "jumps", "exchanged"],
        rows=[
            *rows,
            *([b, "full sweep", "adapted", *_spread(seen), None, None] for b, (seen, _) in adapted.items()),
        ],
    )


def tried_table(size: Size, seed: int) -> ResultTable:
    """What becomes of the paper's three numbers where it is read in other ways."""
    rows: list[list[Any]] = []
    for every in TRIED_EVERY:
        counts = {name: tried(name, every, size, seed) for name in PAPER}
        for way, counted in enumerate(("nearest mode", "modes hit exactly")):
            rows.append([every, counted, *(round(counts[name][way], 1) for name in PAPER)])
    return ResultTable(
        stem="toy-tried",
        caption=f"B = 10, one site per iteration: modes visited, mean of {size.n_runs} runs, by the interval between "
        "exchanges and by how modes are counted. The last line: the paper's numbers.",
        header=["exchange every", "counted", *PAPER],
        rows=[*rows, ["paper", "not stated", *PAPER.values()]],
    )


def _spread(visited: npt.NDArray[np.int64]) -> list[float]:
    return [round(float(visited.mean()), 1), int(visited.min()), int(visited.max())]


def _range(counts: list[int]) -> str:
    return str(counts[0]) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


def _verdict(holds: bool) -> Verdict:
    return "agrees" if holds else "differs"

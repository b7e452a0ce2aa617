"""Marginals of every exchange against the exact ones after equal sweeps, and what their ratios depend on.

The error of a chain is the mean over rows and columns of |share of draws with the row on - P(row on | y)|.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from run import on_all_cores

import chiasma as ch

if TYPE_CHECKING:
    from run import Report

SEEDS = range(12)
WARMUP = 500
EXCHANGES: dict[str, Any] = {
    "none (row Gibbs alone)": None,
    "swap": ch.Swap(),
    "random, 1 point": ch.RandomCrossover(points=1),
    "random, 2 points": ch.RandomCrossover(points=2),
    "augmented, T": ch.AugmentedCrossover(flipped=False),
    "augmented, 2T": ch.AugmentedCrossover(),
    "mosaic": ch.MosaicCrossover(),
}
THREE = {"swap": EXCHANGES["swap"], "augmented": EXCHANGES["augmented, 2T"], "mosaic": EXCHANGES["mosaic"]}


@dataclass(frozen=True, kw_only=True)
class Study:
    """One data set, its ladder and its run length."""

    weights: tuple[float, ...]
    depth: float
    n_columns: int
    ladder: ch.Ladder
    draws: int
    data_seed: int = 1
    sd: float = 1.0

    @cached_property
    def model(self) -> ch.FactorialHMM:
        return ch.FactorialHMM(
            chains=ch.BinaryChains(0.01, 0.01), emission=ch.Gaussian(self.weights, depth=self.depth, sd=self.sd)
        )

    @cached_property
    def y(self) -> npt.NDArray[np.float64]:
        at_sd_one = dataclasses.replace(self, sd=1.0)
        return at_sd_one.model.simulate(self.n_columns, seed=self.data_seed)[1]

    @cached_property
    def exact(self) -> npt.NDArray[np.float64]:
        return ch.exact.marginals(self.model, self.y)

    def codes(self, exchange: Any, seed: int, init: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """(draws, T) of one chain."""
        posterior = ch.sample(
            self.model,
            self.y,
            update="row",
            exchange=exchange,
            ladder=[1] if exchange is None else self.ladder,
            warmup=WARMUP,
            draws=self.draws,
            chains=1,
            init=init,
            seed=seed,
            workers=1,
            progress=False,
        )
        return posterior.codes.values[0]

    def error(self, codes: npt.NDArray[Any]) -> float:
        return marginal_error(codes, self.exact)

    def errors(self, exchange: Any, seeds: Iterable[int] = SEEDS) -> npt.NDArray[np.float64]:
        """One for each seed."""
        self.exact  # noqa: B018 (made once, before the threads ask for it)
        return np.array(on_all_cores(lambda seed: self.error(self.codes(exchange, seed)), seeds))

    @property
    def one_draw(self) -> float:
        """Expected error of a single independent draw: what a chain has that found the posterior and then stopped."""
        return float(np.mean(2 * self.exact * (1 - self.exact)))


def marginal_error(codes: npt.NDArray[Any], exact: npt.NDArray[np.float64]) -> float:
    """Mean absolute error of the marginals of (n, T) codes."""
    return float(np.mean([np.abs((codes >> k & 1).mean(axis=0) - row).mean() for k, row in enumerate(exact)]))


def standard_error(values: npt.NDArray[np.float64]) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


PAIRS = Study(
    weights=(0.04, 0.044, 0.12, 0.132, 0.32, 0.344),
    depth=50.0,
    n_columns=1_000,
    ladder=ch.Ladder.adapted(size=10),
    draws=1_000,
)
THREE_ROWS = {"weights": (0.21, 0.31, 0.48), "depth": 15.0}
STUDIES = {
    "K = 6, T = 1,000: three pairs of nearly equal weights, 10 replicas, 1,000 sweeps": PAIRS,
    "K = 3, T = 200, 6 replicas, 1,500 sweeps": Study(
        **THREE_ROWS, n_columns=200, ladder=ch.Ladder.adapted(size=6), draws=1_500
    ),
    "K = 3, T = 1,000, 10 replicas, 1,000 sweeps": Study(
        **THREE_ROWS, n_columns=1_000, ladder=ch.Ladder.adapted(size=10), draws=1_000
    ),
}


def run(report: Report) -> None:
    report.text(
        "Mean absolute error of the posterior marginals of a single chain against the exact ones, after equal sweeps: "
        f"row updates, switching probability 0.01, sd 1, an exchange after every sweep, {WARMUP} sweeps of warm-up in "
        f"which the ladder (from the prior to the target) adapts, {len(SEEDS)} seeds per line on one data set. ± is "
        "the standard error over seeds."
    )
    for title, study in STUDIES.items():
        main_table(report, title, study)
    report.text(
        "# What the ratios depend on\n\n"
        "Ratios between exchanges are no constants of the moves. The tables below take the K = 6 problem apart, with "
        "the same data set and settings unless they say otherwise."
    )
    by_sweeps(report, PAIRS)
    from_the_posterior(report, PAIRS)
    by_temperature(report, PAIRS)
    by_ladder(report, PAIRS)
    by_data(report, PAIRS)


def main_table(report: Report, title: str, study: Study) -> None:
    errors = {name: study.errors(exchange) for name, exchange in EXCHANGES.items()}
    means = {name: values.mean() for name, values in errors.items()}
    report.text(f"## {title}\n\nA single exact draw would have an error of {study.one_draw:.3f}.")
    report.table(
        ["exchange", "error", "±", "smallest", "largest", "/ swap", "/ augmented"],
        [
            [
                name,
                f"{means[name]:.4f}",
                f"{standard_error(values):.4f}",
                f"{values.min():.3f}",
                f"{values.max():.3f}",
                f"{means[name] / means['swap']:.2f}",
                f"{means[name] / means['augmented, 2T']:.2f}",
            ]
            for name, values in errors.items()
        ],
    )
    clear = all(
        means[worse] - means[better] > 2 * np.hypot(standard_error(errors[worse]), standard_error(errors[better]))
        for worse, better in (("swap", "augmented, 2T"), ("augmented, 2T", "mosaic"))
    )
    report.goal("mosaic beats the augmented crossover, which beats swap, each by more than two standard errors", clear)


def three_way(report: Report, label: str, lines: dict[str, dict[str, npt.NDArray[np.float64]]]) -> None:
    """One line per setting: errors of swap, augmented and mosaic, and their ratios."""
    rows = []
    for name, errors in lines.items():
        mean = {exchange: values.mean() for exchange, values in errors.items()}
        cells = [f"{mean[exchange]:.3f} ± {standard_error(errors[exchange]):.3f}" for exchange in THREE]
        rows.append(
            [name, *cells, f"{mean['augmented'] / mean['swap']:.2f}", f"{mean['mosaic'] / mean['augmented']:.2f}"]
        )
    report.table([label, *THREE, "augmented / swap", "mosaic / augmented"], rows)


def by_sweeps(report: Report, study: Study, draws: int = 4_000, seeds: Sequence[int] = SEEDS[:10]) -> None:
    longer = dataclasses.replace(study, draws=draws)
    longer.exact  # noqa: B018
    windows = [(0, 250), (0, 1_000), (1_000, 2_000), (2_000, 3_000), (3_000, 4_000), (0, 4_000)]

    def window_errors(exchange: Any, seed: int) -> list[float]:
        codes = longer.codes(exchange, seed)
        return [longer.error(codes[first:last]) for first, last in windows]

    errors = {name: np.array(on_all_cores(partial(window_errors, exchange), seeds)) for name, exchange in THREE.items()}
    report.text(
        f"## Sweeps\n\nThe same chains, {draws:,} sweeps long, by windows. A single exact draw has an error of "
        f"{study.one_draw:.3f}: a chain that is further away than that has columns in a wrong arrangement, and its "
        "error is the share of them that the exchanges have not repaired yet, not noise around the posterior."
    )
    three_way(
        report,
        "sweeps kept",
        {
            f"{first:,}–{last:,}": {name: values[:, i] for name, values in errors.items()}
            for i, (first, last) in enumerate(windows)
        },
    )


def from_the_posterior(report: Report, study: Study, seeds: Sequence[int] = SEEDS[:10]) -> None:
    starts = ch.exact.draws(study.model, study.y, len(seeds), seed=1)
    rows = []
    for name, exchange in EXCHANGES.items():
        errors = np.array(
            on_all_cores(lambda seed, to=exchange: study.error(study.codes(to, seed, init=starts[seed])), seeds)
        )
        rows.append([name, f"{errors.mean():.4f}", f"{standard_error(errors):.4f}"])
    report.text(
        "## Start\n\nAll replicas start from an exact draw of the posterior: what is left is how well a chain moves "
        "once it is there."
    )
    report.table(["exchange", "error", "±"], rows)


def by_temperature(report: Report, study: Study, seeds: Sequence[int] = SEEDS[:10]) -> None:
    rows = []
    for beta in (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001):
        # A likelihood to the power beta is one with a larger sd, up to a constant.
        tempered = dataclasses.replace(study, sd=beta**-0.5)
        errors = tempered.errors(None, seeds)
        rows.append([f"{beta:g}", f"{errors.mean():.3f}", f"{standard_error(errors):.3f}", f"{tempered.one_draw:.3f}"])
    report.text(
        "## Temperature\n\nRow Gibbs alone at one inverse temperature, against the exact marginals at that "
        "temperature. A ladder whose hottest rung does not mix has nothing right to hand down."
    )
    report.table(["beta", "error", "±", "one exact draw"], rows)


def by_ladder(report: Report, study: Study, seeds: Sequence[int] = SEEDS[:10]) -> None:
    ladders = {
        "adapted, from the prior": study.ladder,
        "geometric to temperature 5": ch.Ladder.geometric(10, 5.0),
        "geometric to 20": ch.Ladder.geometric(10, 20.0),
        "geometric to 100": ch.Ladder.geometric(10, 100.0),
        "geometric to 100, then the prior": ch.Ladder.geometric(9, 100.0, prior=True),
        "geometric to 1,000": ch.Ladder.geometric(10, 1_000.0),
    }
    report.text("## Ladder\n\nTen replicas throughout.")
    three_way(
        report,
        "ladder",
        {
            title: {
                name: dataclasses.replace(study, ladder=ladder).errors(exchange, seeds)
                for name, exchange in THREE.items()
            }
            for title, ladder in ladders.items()
        },
    )


def by_data(report: Report, study: Study, seeds: Sequence[int] = SEEDS[:10]) -> None:
    others = [dataclasses.replace(study, data_seed=data_seed) for data_seed in (2, 3, 4)]
    report.text("## Data\n\nOther data sets of the same model.")
    three_way(
        report,
        "simulated with seed",
        {
            str(other.data_seed): {name: other.errors(exchange, seeds) for name, exchange in THREE.items()}
            for other in others
        },
    )

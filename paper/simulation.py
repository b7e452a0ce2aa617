"""The paper's simulation study (section 4.2.1, figures 7 and 8), compared with the exact posterior of the same model.

Data sets differ in their noise; each sampler has two runs on each. Log joints are differences from the exact mean of
their data set, so that runs on different data sets are comparable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest

from chiasma import plots
from chiasma.models.factorial import log_joint
from chiasma.report.figures.style import BLACK, STATES, entitle, look
from chiasma.results.posterior import Posterior
from paper import result, study, timings
from paper.result import ExperimentResult, Finding
from paper.schema import canvas, save
from paper.study import Study, simulation_study
from paper.timings import PAPER, UPDATES, ChainRun, Size, Truth, verdict

SWITCHING = (study.SWITCHING, 0.01, 0.001)  # the paper's, and two harder ones
FULL = Size(n_draws=10_000, n_adapted=2_000, n_warmup=1_000, n_data=(5, 3, 3))
QUICK = Size(n_draws=200, n_adapted=60, n_warmup=40, n_data=(2, 1))

Key = tuple[str, str]  # update, sampler


class Outcome(NamedTuple):
    """All runs at one switching probability, and the posteriors of its first data set for the figures."""

    switching: float
    first: Study
    truth: Truth
    shown: dict[Key, Posterior]
    runs: dict[Key, list[ChainRun]]
    exact_runs: list[ChainRun]


def examine(
    switching: float, n_data: int, size: Size, seed: int, samplers: Sequence[str] = timings.SAMPLERS
) -> Outcome:
    """Run every sampler on every data set."""
    data_seeds = np.random.SeedSequence([seed, round(1e6 * switching)]).generate_state(n_data)
    studies = [simulation_study(int(s), switching) for s in data_seeds]
    truths = [timings.solve(data, size, seed + i) for i, data in enumerate(studies)]
    shown: dict[Key, Posterior] = {}
    runs: dict[Key, list[ChainRun]] = {}
    for update in UPDATES:
        for sampler in samplers:
            for i, (data, truth) in enumerate(zip(studies, truths, strict=True)):
                posterior = timings.draw(data, update, sampler, size, seed + i)
                shown.setdefault((update, sampler), posterior)
                runs.setdefault((update, sampler), []).extend(timings.judge(posterior, data, truth))
    exact_runs = [
        run for data, truth in zip(studies, truths, strict=True) for run in timings.judge(truth.posterior, data, truth)
    ]
    return Outcome(switching, studies[0], truths[0], shown, runs, exact_runs)


def run(folder: Path, quick: bool, seed: int) -> ExperimentResult:
    """Run the whole study; writes figures and tables into `folder`."""
    began = perf_counter()
    size = QUICK if quick else FULL
    folder.mkdir(parents=True, exist_ok=True)
    timings.compile_all(seed)
    outcomes = [examine(s, n, size, seed) for s, n in zip(SWITCHING, size.n_data, strict=False)]
    paper = outcomes[0]
    figures = [
        _modes_figure(folder, paper.first),
        _trace_figure(folder, outcomes),
        _row_figure(folder, paper),
        _hamming_figure(folder, paper),
        _marginals_figure(folder, paper),
        _curve_figure(folder, outcomes, "seconds"),
        _curve_figure(folder, outcomes, "iterations"),
    ]
    tables = [_table(outcome) for outcome in outcomes]
    return ExperimentResult(
        name="simulation",
        title="Simulation study: two explanations for each of twenty blocks",
        settings={
            "weights": study.WEIGHTS, "depth": study.DEPTH, "sd": study.SD, "columns": paper.first.data.n_columns,
            "switching": SWITCHING[: len(outcomes)], "temperatures": timings.TEMPERATURES,
            "exchange_every": timings.EXCHANGE_EVERY, "start": "mode (a), the true states",
            "iterations": size.n_draws, "warmup": 0,
            "adapted_iterations": size.n_adapted, "adapted_warmup": size.n_warmup,
            "data_sets": size.n_data, "runs_per_data_set": timings.CHAINS, "workers": timings.WORKERS, "seed": seed,
        },
        findings=[*_paper_findings(paper), *_own_findings(outcomes)],
        figures=figures,
        tables=tables,
        seconds=perf_counter() - began,
        folder=folder,
    )  # fmt: skip


def mean_of(runs: Iterable[ChainRun], name: str) -> float:
    return float(np.mean([getattr(run, name) for run in runs]))


def ordering(higher: Sequence[float], lower: Sequence[float]) -> dict[str, float]:
    """Number of paired runs in which the first is higher, and its p-value if there is no difference (sign test)."""
    wins = int(np.sum(np.array(higher) > np.array(lower)))
    chance = float(binomtest(wins, len(higher), alternative="greater").pvalue)
    return {"difference": float(np.mean(higher) - np.mean(lower)), "wins": wins, "runs": len(higher), "chance": chance}


def _late_orderings(outcome: Outcome, update: str) -> dict[str, dict[str, float]]:
    """Orderings of the late log joint: augmented against each of the paper's other samplers."""
    late = {sampler: [run.late for run in outcome.runs[update, sampler]] for sampler in PAPER}
    return {sampler: ordering(late["augmented"], late[sampler]) for sampler in PAPER[:-1]}


def _in_words(orders: Mapping[str, dict[str, float]], unit: str = "nats") -> str:
    return "; ".join(
        f"over {name} by {order['difference']:.3g} {unit}, {order['wins']} of {order['runs']} runs"
        for name, order in orders.items()
    )


def _all_hold(orders: Mapping[str, dict[str, float]]) -> bool:
    return all(order["chance"] < 0.05 and order["difference"] > 0 for order in orders.values())


def _paper_findings(outcome: Outcome) -> list[Finding]:
    runs = outcome.runs
    third = {name: mean_of(runs["Gibbs", name], "third") for name in PAPER}
    exact_third = mean_of(outcome.exact_runs, "third")
    late = {key: mean_of(runs[key], "late") for key in runs}
    modes = _mode_values(outcome.first)
    random = ordering([r.late for r in runs["Gibbs", "random"]], [r.late for r in runs["Gibbs", "swap"]])
    closed = random["difference"] / -late["Gibbs", "swap"]
    hb_alone = ordering([r.late for r in runs["HB", "alone"]], [r.late for r in runs["Gibbs", "alone"]])
    gain = {u: {name: late[u, name] - late[u, "alone"] for name in ("swap", "random", "augmented")} for u in UPDATES}
    findings = [
        Finding(
            claim="The modes (c), (b), (a) are ordered by posterior: (0, 0, 1) is slightly more probable in a block.",
            ours="log joint of (a), (b), (c): "
            + ", ".join(f"{value:.1f}" for value in modes)
            + f"; exactly, x3 = 1 in {exact_third:.2f} of the block columns",
            verdict=verdict(modes[0] < modes[1] < modes[2]),
            numbers={"log_joint": modes, "exact_third": exact_third},
        ),
        Finding(
            claim="Gibbs alone and with swap have not moved from the start.",
            ours=f"x3 = 1 in {third['alone']:.3f} (alone) and {third['swap']:.3f} (swap) of the block columns over the "
            f"last half of the iterations; 0 at the start, {exact_third:.2f} exactly",
            verdict=verdict(max(third["alone"], third["swap"]) < exact_third / 4),
            numbers={"third": third, "exact_third": exact_third},
        ),
        Finding(
            claim="Gibbs with random crossovers shows some improvement.",
            ours=f"over swap by {random['difference']:.1f} nats in {random['wins']} of {random['runs']} runs: "
            f"{100 * closed:.0f}% of the way to the exact mean",
            verdict=verdict(random["chance"] < 0.05 and closed < 0.5),
            numbers={**random, "share_of_gap": closed},
        ),
        _highest(outcome, "Gibbs", "Gibbs with augmented crossovers quickly moves to higher posterior."),
        Finding(
            claim="HB alone quickly achieves higher log-posterior values than Gibbs alone.",
            ours=f"by {hb_alone['difference']:.1f} nats over the last half, in {hb_alone['wins']} of "
            f"{hb_alone['runs']} runs",
            verdict=verdict(_all_hold({"": hb_alone})),
            numbers=hb_alone,
        ),
        Finding(
            claim="For HB the gain from swap and random is relatively smaller.",
            ours="share of the gain of augmented: "
            + "; ".join(f"{u} " + ", ".join(f"{n} {g[n] / g['augmented']:.2f}" for n in PAPER[1:3])
                        for u, g in gain.items())
            + "; in nats: "
            + "; ".join(f"{u} " + ", ".join(f"{n} {g[n]:.1f}" for n in PAPER[1:]) for u, g in gain.items()),
            verdict=verdict(all(gain["HB"][n] < gain["HB"]["augmented"] / 2 for n in PAPER[1:3])),
            numbers=gain,
        ),
        _highest(outcome, "HB", "HB with augmented crossovers still moves quickly to the highest log-posterior."),
    ]  # fmt: skip
    return [*findings, *(_lag_finding(outcome, update) for update in UPDATES)]


def _highest(outcome: Outcome, update: str, claim: str) -> Finding:
    orders = _late_orderings(outcome, update)
    early = {name: mean_of(outcome.runs[update, name], "early") for name in PAPER}
    last = mean_of(outcome.runs[update, "augmented"], "late")
    return Finding(
        claim=claim,
        ours=f"{_in_words(orders)}; {last:.1f} nats from the exact mean over the last half, {early['augmented']:.1f} "
        f"over the first tenth (others {', '.join(f'{early[n]:.1f}' for n in PAPER[:-1])})",
        verdict=verdict(_all_hold(orders)),
        numbers={"late": orders, "early_from_exact": early, "late_from_exact": last},
    )


def _lag_finding(outcome: Outcome, update: str) -> Finding:
    distance = {name: [run.hamming for run in outcome.runs[update, name]] for name in PAPER}
    ideal = np.mean([run.hamming for run in outcome.exact_runs], axis=0)
    orders = {
        f"{name}, lag {lag}": ordering([d[i] for d in distance["augmented"]], [d[i] for d in distance[name]])
        for name in PAPER[:-1]
        for i, lag in enumerate(timings.LAGS)
    }
    means = {name: np.mean(distance[name], axis=0).round(4).tolist() for name in PAPER}
    held = sum(order["chance"] < 0.05 for order in orders.values())
    return Finding(
        claim=f"{update}: augmented crossovers notably reduce the dependence between draws (Hamming distance, lags "
        f"{', '.join(map(str, timings.LAGS))}).",
        ours=f"augmented {means['augmented']}, "
        + ", ".join(f"{name} {means[name]}" for name in PAPER[:-1])
        + f"; independent draws {ideal.round(4).tolist()}; higher in {held} of {len(orders)} comparisons",
        verdict=verdict(held == len(orders)),
        numbers={"mean_distance": means, "independent": ideal.tolist(), "orderings": orders},
    )


def _own_findings(outcomes: Sequence[Outcome]) -> list[Finding]:
    findings = []
    for outcome in outcomes:
        right = {
            f"{update} {name}": _median_right(runs)
            for (update, name), runs in outcome.runs.items()
            if np.isfinite(_median_right(runs))
        }
        best = _median_right(outcome.exact_runs)
        listed = ", ".join(f"{name} {seconds:.2g} s" for name, seconds in sorted(right.items(), key=lambda kv: kv[1]))
        never = [" ".join(key) for key, runs in outcome.runs.items() if not np.isfinite(_median_right(runs))]
        findings.append(
            Finding(
                claim=f"Which samplers are right at switching {outcome.switching:g} (error of the marginals stays "
                f"below {timings.RIGHT}), and after how many seconds?",
                ours=f"{listed or 'none'}; not within the run: {', '.join(never) or 'none'}. Exact draws {best:.2g} s, "
                f"the exact marginals {1000 * outcome.truth.seconds:.2g} ms",
                verdict="beyond the paper",
                numbers={"seconds": right, "never": never, "exact_draws": best, "marginals": outcome.truth.seconds},
            )
        )
    return findings


def _median_right(runs: Sequence[ChainRun]) -> float:
    return float(np.median([run.right for run in runs]))


def _table(outcome: Outcome) -> result.ResultTable:
    """One line per sampler, means over runs."""
    header = [
        "update", "sampler", "runs", "late_log_joint_from_exact", "share_x3", "error_all", "error_last_half",
        "hamming_1", "hamming_10", "hamming_50", "seconds", "seconds_until_right", "runs_right",
    ]  # fmt: skip
    several = [*outcome.runs.items(), (("exact", timings.EXACT), outcome.exact_runs)]
    rows = [
        [
            *key, len(runs), round(mean_of(runs, "late"), 2), round(mean_of(runs, "third"), 4),
            round(mean_of(runs, "error"), 4), round(float(np.mean([run.curve[-1] for run in runs])), 4),
            *np.mean([run.hamming for run in runs], axis=0).round(4).tolist(), round(mean_of(runs, "seconds"), 3),
            round(right, 3) if np.isfinite(right := _median_right(runs)) else "not within the run",
            sum(np.isfinite(run.right) for run in runs),
        ]
        for key, runs in several
    ]  # fmt: skip
    return result.ResultTable(
        stem=f"simulation-{outcome.switching:g}",
        caption=f"Switching {outcome.switching:g}: means over runs; seconds until right is the median. Log joints are "
        "counted from the exact mean.",
        header=header,
        rows=rows,
    )


def _mode_values(data: Study) -> list[float]:
    return [log_joint(data.model, data.data, states) for states in _modes(data)]


def _modes(data: Study) -> list[npt.NDArray[np.int8]]:
    """States of mode (a), of (b) with every second block explained by row 3, and of (c) with all of them."""
    on = data.states.any(axis=0)
    block = np.arange(on.size) // study.BLOCK_LENGTH
    flipped = np.outer([0, 0, 1], on).astype(np.int8)
    return [data.states, np.where(block % 4 == 0, data.states, flipped), flipped]


def _modes_figure(folder: Path, data: Study) -> result.Figure:
    picture = canvas(10, 3.6)
    panels = picture.subplots(3, 1, sharex=True)
    for ax, name, states, value in zip(panels, "abc", _modes(data), _mode_values(data), strict=True):
        ax.imshow(states, cmap=STATES, vmin=0, vmax=1, aspect="auto", interpolation="none")
        ax.hlines([0.5, 1.5], -0.5, states.shape[1] - 0.5, colors="white", linewidths=1)
        ax.set_yticks(range(3), labels=["row 0", "row 1", "row 2"])
        entitle(ax, f"({name}) log joint {value:.1f}")
    panels[-1].set_xlabel("site")
    caption = "Three modes of the states (dark = 1): all blocks (1, 1, 0), every second one (0, 0, 1), all of them"
    return save(picture, folder, result.Figure(stem="simulation-modes", caption=caption, paper_figure="Figure 7"))


def _trace_figure(folder: Path, outcomes: Sequence[Outcome]) -> result.Figure:
    picture = canvas(14, 3.4 * len(outcomes))
    panels = picture.subplots(len(outcomes), len(UPDATES), squeeze=False, sharey="row")
    for line, outcome in zip(panels, outcomes, strict=True):
        for ax, update in zip(line, UPDATES, strict=True):
            shown = {name: outcome.shown[update, name] for name in (*PAPER, "mosaic")}
            chain_0 = {name: replace(posterior, log_joint=posterior.log_joint[:1]) for name, posterior in shown.items()}
            plots.plot_log_joint(chain_0, ax=ax, exact_band=outcome.truth.band)
            entitle(ax, f"{update}, switching {outcome.switching:g}")
            if update == "Gibbs":
                ax.get_legend().remove()
    caption = (
        "Log joint of the first run against the exact mean and its 5-95% band, from mode (a). Switching 0.1 is the "
        "paper's; the mosaic crossover is ours."
    )
    return save(
        picture, folder, result.Figure(stem="simulation-traces", caption=caption, paper_figure="Figure 8 (a, b)")
    )


def _row_figure(folder: Path, outcome: Outcome) -> result.Figure:
    picture = canvas(17, 7)
    panels = picture.subplots(len(UPDATES), len(PAPER) + 2, sharex=True, sharey=True)
    for line, update in zip(panels, UPDATES, strict=True):
        shown = {f"{update} {name}": outcome.shown[update, name] for name in (*PAPER, "mosaic")}
        for ax, (name, posterior) in zip(line, (shown | {timings.EXACT: outcome.truth.posterior}).items(), strict=True):
            n = posterior.draws.sizes["draw"]
            plots.plot_row(posterior, 0, ax=ax, draws=slice(n // 10, n // 5))
            entitle(ax, name)
            ax.label_outer()
    caption = (
        "Row 0 (the paper's row 1; dark = 1) over the second tenth of the iterations, 1,000 to 2,000 of a full run; on "
        "the right independent exact draws, the goal"
    )
    return save(picture, folder, result.Figure(stem="simulation-row", caption=caption, paper_figure="Figure 8 (c, d)"))


def _hamming_figure(folder: Path, outcome: Outcome) -> result.Figure:
    picture = canvas(15, 4.2)
    for ax, update in zip(picture.subplots(1, len(UPDATES), sharey=True), UPDATES, strict=True):
        shown = {name: outcome.shown[update, name] for name in (*PAPER, "mosaic")}
        plots.plot_hamming(shown | {timings.EXACT: outcome.truth.posterior}, ax=ax, lags=timings.LAGS)
        entitle(ax, update)
    caption = (
        "Share of entries in which draws that are 1, 10 and 50 iterations apart differ (box: quartiles, whiskers: "
        "5-95%), beside independent draws"
    )
    return save(
        picture, folder, result.Figure(stem="simulation-hamming", caption=caption, paper_figure="Figure 8 (e, f)")
    )


def _marginals_figure(folder: Path, outcome: Outcome) -> result.Figure:
    picture = canvas(15, 14)
    for line, sampler in zip(picture.subfigures(len(PAPER), len(UPDATES)), PAPER, strict=True):
        for part, update in zip(line, UPDATES, strict=True):
            plots.plot_marginals(outcome.shown[update, sampler], fig=part, exact=outcome.truth.marginals)
            entitle(part.axes[0], f"{update} {sampler}")
    caption = "Probability that each row is on, by each sampler (filled, all iterations) and exactly (dashed)"
    return save(picture, folder, result.Figure(stem="simulation-marginals", caption=caption))


def _curve_figure(
    folder: Path, outcomes: Sequence[Outcome], against: Literal["seconds", "iterations"]
) -> result.Figure:
    picture = canvas(13, 3.2 * len(outcomes))
    panels = picture.subplots(len(outcomes), len(UPDATES), squeeze=False, sharex=True, sharey=True)
    for line, outcome in zip(panels, outcomes, strict=True):
        for ax, update in zip(line, UPDATES, strict=True):
            several = {name: (outcome.runs[update, name], outcome.shown[update, name]) for name in timings.SAMPLERS}
            several[timings.EXACT] = outcome.exact_runs, outcome.truth.posterior
            for i, (name, (runs, posterior)) in enumerate(several.items()):
                x = timings.checkpoints(posterior.draws.sizes["draw"]).astype(float)
                if against == "seconds":
                    spent = posterior.info["timings"]
                    x = spent.get("warmup", 0.0) + x * spent["draws"] / x[-1]
                own = look(i)._replace(colour="0.5", line="-", marker=".") if name == timings.EXACT else look(i)
                y = np.median([run.curve for run in runs], axis=0)
                ax.plot(x, y, color=own.colour, ls=own.line, marker=own.marker, markevery=5, ms=5, label=name)
            ax.axhline(timings.RIGHT, color=BLACK, lw=0.8, ls=":")
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.minorticks_off()
            ax.spines[["top", "right"]].set_visible(False)
            entitle(ax, f"{update}, switching {outcome.switching:g}")
            ax.set_xlabel(against)
            ax.set_ylabel("error of the marginals")
            ax.label_outer()
    panels[0, -1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, handlelength=3.5)
    caption = (
        f"Mean absolute error of the marginals against {against}: median over runs, each estimate from the last half "
        f"of the iterations so far. Dotted: {timings.RIGHT}, called right"
    )
    return save(picture, folder, result.Figure(stem=f"simulation-error-{against}", caption=caption))

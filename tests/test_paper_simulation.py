"""The simulation study and table 1: the paper's orderings as statements over repeated runs.

Eight runs (four data sets, two chains each) of 2,000 iterations from mode (a), with fixed seeds. An ordering must hold
in at least seven of them: if there were no difference, that would happen with probability 9/256 = 3.5%.
"""

import json
import math
from dataclasses import asdict

import numpy as np
import pytest

from paper import simulation, timings
from paper.page import plain
from paper.study import simulation_study
from paper.timings import PAPER, RIGHT, Size

SIZE = Size(n_draws=2_000, n_adapted=1_000, n_warmup=500)
N_RUNS, NEEDED = 8, 7


def wins(outcome, value, better, worse):
    """Whether the value is higher for the first key in as many runs as it takes."""
    pairs = list(zip(outcome.runs[better], outcome.runs[worse], strict=True))
    assert len(pairs) == N_RUNS
    return sum(value(a) > value(b) for a, b in pairs) >= NEEDED


def statements(outcome):
    """Everything that must hold, by name."""
    said = {}
    for update in ("Gibbs", "HB"):
        augmented = update, "augmented"
        for other in PAPER[:-1]:
            said[f"{update}: augmented reaches a higher log joint than {other}"] = wins(
                outcome, lambda run: run.late, augmented, (update, other)
            )
            if update == "Gibbs":  # with HB the difference is of the size of its noise
                said[f"augmented draws are further apart at lag 50 than {other}"] = wins(
                    outcome, lambda run: run.hamming[2], augmented, (update, other)
                )
        said[f"{update}: the mosaic is nearer to the exact marginals than augmented"] = wins(
            outcome, lambda run: run.error, augmented, (update, "mosaic")
        )
    said["HB alone is ahead of Gibbs alone"] = wins(outcome, lambda run: run.late, ("HB", "alone"), ("Gibbs", "alone"))
    exact = np.mean([run.third for run in outcome.exact_runs])
    for sampler in ("alone", "swap"):
        third = simulation.mean_of(outcome.runs["Gibbs", sampler], "third")
        said[f"Gibbs {sampler} stays at the start"] = third < 0.05 < 0.8 < exact
    return said


# One test, and not one per statement: two processes would run all the samplers twice.
@pytest.mark.slow
def test_orderings__hold_over_repeated_runs():
    outcome = simulation.examine(0.1, 4, SIZE, seed=20, samplers=(*PAPER, "mosaic"))
    assert [name for name, holds in statements(outcome).items() if not holds] == []
    for run in outcome.exact_runs:
        assert run.error < RIGHT
        assert math.isfinite(run.right)
        assert abs(run.late) < 1  # the log joint has a standard deviation of about 5, and there are 1,000 draws
        np.testing.assert_allclose(run.hamming, run.hamming[0], atol=0.01)


def check(result, folder):
    """What every experiment must hand over."""
    assert result.folder == folder
    assert result.findings
    assert result.seconds > 0
    for figure in result.figures:
        assert (folder / f"{figure.stem}.png").stat().st_size > 10_000
        assert (folder / f"{figure.stem}.pdf").stat().st_size > 3_000
    for table in result.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.header)}
    content = asdict(result)
    del content["folder"]
    json.dumps(plain(content), allow_nan=False)


def test_modes__are_ordered_as_the_paper_says():
    for seed in range(10):
        a, b, c = simulation._mode_values(simulation_study(seed))
        assert a < b < c


def test_ordering__counts_paired_runs_and_their_chance():
    order = simulation.ordering([3.0, 2.0, 5.0, 1.0], [1.0, 1.0, 1.0, 1.0])
    assert order == {"difference": 1.75, "wins": 3, "runs": 4, "chance": pytest.approx(5 / 16)}


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        ([0.01, 0.01, 0.01], 1.0),
        ([0.5, 0.01, 0.01], 2.0),
        ([0.01, 0.5, 0.01], 3.0),
        ([0.5, 0.01, 0.5], math.inf),
    ],
)
def test_seconds_until_right__is_the_time_from_which_the_error_stays_small(curve, expected):
    assert timings._seconds_until_right(np.array(curve), np.array([1.0, 2.0, 3.0])) == expected


def test_judge__agrees_with_marginals_counted_by_hand():
    size = Size(n_draws=120, n_adapted=60, n_warmup=10)
    data = simulation_study(3)
    truth = timings.solve(data, size, seed=1)
    posterior = timings.draw(data, "HB", "augmented", size, seed=2)
    runs = timings.judge(posterior, data, truth)
    for c, run in enumerate(runs):
        states = np.stack([posterior.states(k).values[c] for k in range(3)], axis=1)
        assert run.error == pytest.approx(np.abs(states.mean(axis=0) - truth.marginals).mean())
        assert run.curve[-1] == pytest.approx(np.abs(states[60:].mean(axis=0) - truth.marginals).mean())
        assert run.third == pytest.approx(states[60:, 2][:, data.states.any(axis=0)].mean())


def test_exact_band__holds_its_mean_when_one_path_has_nearly_all_the_mass():
    data = simulation_study(1, switching=0.0001)
    mean, low, high = timings.solve(data, Size(n_draws=60, n_adapted=1, n_warmup=1), seed=1).band
    assert low <= mean <= high


def test_study__has_the_paper_s_shape():
    model, states, data = simulation_study(seed=1)
    assert states.shape == (3, 195)
    assert data.n_columns == 195
    assert states.sum(axis=1).tolist() == [100, 100, 0]
    assert (abs(states[:, 1:] - states[:, :-1]).sum(axis=1) == [38, 38, 0]).all()
    assert model.emission.weights.tolist() == [0.21, 0.31, 0.48]

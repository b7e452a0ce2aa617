"""What is chosen when it is left open, what is said about it, and where it is shown."""

from __future__ import annotations

import io
from functools import partial
from typing import Any

import numpy as np
import pytest
import rich.console

import chiasma as ch
from chiasma.errors import InvalidInput
from chiasma.exact.passes import Passes
from chiasma.sampling import pilot
from chiasma.sampling.ladder import Ladder
from chiasma.sampling.learning import Learning
from chiasma.sampling.plan import Plan, exact_cost, plan_learning, plan_paths, plan_replicas


def model(n_rows: int) -> ch.FactorialHMM:
    return ch.FactorialHMM(rows=ch.Switches(0.1, 0.2), emission=ch.Gaussian(np.linspace(0.4, 1.0, n_rows), sd=0.5))


def plan(n_rows: int, n_columns: int, update: Any = "auto", exchange: Any = "auto", ladder: Any = "auto") -> Plan:
    return plan_paths(model(n_rows).target(np.zeros(n_columns)), update, exchange, ladder)


# ---- Choices --------------------------------------------------------------------------------------------------------


def test_auto__is_exact_where_that_is_affordable():
    chosen = plan(6, 10_877)
    assert chosen.is_exact
    assert chosen.update == ch.Exact()
    assert chosen.exchange is None
    assert chosen.ladder.betas == (1.0,)
    assert chosen.reason == (
        "exact independent draws: the exact filter over 6 free rows x 10,877 sites takes about 0.0056 s "
        "and less than 1 MiB"
    )


OVER = "the exact filter over 24 free rows x 2,000 sites takes about 872 s and 17,280 MiB, over the budget of 60 s"


def test_auto__asks_the_pilot_where_exact_is_too_much():
    chosen = plan(24, 2000)
    assert not chosen.is_exact
    assert chosen.update == ch.GaussianBlocks(size=8)
    assert chosen.exchange is None
    assert len(chosen.ladder) == 1
    assert chosen.reason.startswith(f"blocks of 8 rows: {OVER}")
    trial = chosen.trial
    assert trial is not None
    assert [update for update, _ in trial.updates] == [ch.GaussianBlocks(size=size) for size in (6, 8)]
    assert trial.ladders
    assert trial.because.startswith(OVER)


@pytest.mark.parametrize(
    ("exchange", "ladder", "ladders"), [("auto", "auto", True), (None, "auto", False), ("auto", [1], False)]
)
def test_auto__pilot_tries_no_ladder_against_the_users_will(exchange, ladder, ladders):
    chosen = plan(24, 2000, "auto", exchange, ladder)
    assert chosen.trial is not None
    assert chosen.trial.ladders == ladders


@pytest.mark.parametrize(
    ("n_rows", "n_columns", "sizes", "larger"),
    [
        (24, 2000, [6, 8], [10]),
        (9, 2000, [6, 8], [9]),
        (6, 2000, [6], []),
        (24, 50_000, [6, 7], []),
        (24, 10**7, [3], []),
    ],
)
def test_auto__candidates_fit_the_rows_and_the_caches(n_rows, n_columns, sizes, larger):
    chosen = plan_paths(model(n_rows).target(np.zeros(n_columns)), "auto", "auto", "auto", 0.0)
    assert chosen.trial is not None
    assert [update.size for update, _ in chosen.trial.updates] == sizes
    assert [update.size for update, _ in chosen.trial.larger] == larger
    assert chosen.update in [update for update, _ in chosen.trial.updates]


def test_auto__other_emissions_take_block_gibbs():
    counts = ch.FactorialHMM(rows=ch.Switches(0.1, 0.2), emission=ch.Poisson(np.linspace(1, 2, 24), background=1))
    chosen = plan_paths(counts.target(np.zeros(2000)), "auto", "auto", "auto")
    assert chosen.update == ch.BlockGibbs(size=6)
    assert chosen.trial is not None
    assert [update for update, _ in chosen.trial.updates] == [ch.BlockGibbs(size=size) for size in (3, 6)]


def test_evidence__takes_a_complete_ladder_where_exact_is_too_much():
    chosen = plan_paths(model(24).target(np.zeros(2000)), "auto", "auto", "auto", evidence=True)
    assert not chosen.is_exact
    assert chosen.trial is None
    assert chosen.update == ch.BlockGibbs(size=5)
    assert chosen.exchange == ch.MosaicCrossover()
    assert chosen.ladder == Ladder.adapted()
    for part in (
        "blocks of 5 rows: the exact filter over 24 free rows x 2,000 sites takes about 872 s and 17,",
        "over the budget of 60 s and 512 MiB",
        "ladder from the prior to the target, adapted in warm-up",
        "MosaicCrossover exchanges",
    ):
        assert part in chosen.reason


@pytest.mark.parametrize(("n_rows", "n_columns"), [(10, 100_000), (18, 20_000), (20, 600)])
def test_auto__looks_at_time_and_memory(n_rows, n_columns):
    """In the budget, over the time, over the memory."""
    seconds, memory = exact_cost(model(n_rows).target(np.zeros(n_columns)))
    assert plan(n_rows, n_columns).is_exact == (seconds <= 60 and memory <= 512 * 2**20)
    assert plan(n_rows, n_columns).is_exact == (n_rows == 10)


@pytest.mark.parametrize(("budget", "exact"), [(0, False), (1e-6, False), (60.0, True), (np.inf, True)])
def test_exact_seconds__is_the_budget(budget, exact):
    target = model(6).target(np.zeros(200))
    chosen = plan_paths(target, "auto", "auto", "auto", budget)
    assert chosen.is_exact == exact
    if not exact:
        assert f"over the budget of {budget:g} s and 512 MiB" in chosen.reason


def test_exact_seconds__of_sample():
    y = np.array([0.3, 1.2, 0.9, 0.1])
    options = {"draws": 4, "warmup": 6, "chains": 2, "seed": 123, "progress": False}
    assert ch.sample(model(2), y, exact_seconds=60, **options).info["plan"].startswith("exact independent draws")
    assert "over the budget of 0 s" in ch.sample(model(2), y, exact_seconds=0, **options).info["plan"]


@pytest.mark.parametrize("budget", [-1, np.nan, [1, 2], "long"])
def test_exact_seconds__refused(budget):
    with pytest.raises(InvalidInput, match="exact_seconds must be"):
        ch.sample(model(2), np.zeros(4), exact_seconds=budget)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"evidence": "yes"}, "evidence must be True or False, got 'yes'"),
        ({"evidence": True, "update": "row", "exchange": None}, "evidence=True needs a ladder .* got 1 rung"),
        ({"evidence": True, "exact_seconds": 0, "ladder": [1, 5]}, "got 2 rung.s. from beta = 0.2"),
    ],
)
def test_evidence__refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        ch.sample(model(2), np.zeros(4), **options)


def test_exact_seconds__of_learning():
    """Without exact passes, parameters are learned given the paths."""
    unknown = ch.FactorialHMM(rows=ch.Switches(0.1, 0.2), emission=ch.Gaussian([1.0, 2.0], sd=ch.HalfNormal(1)))
    target = Learning(unknown, ch.Observations(np.zeros(20))).typical
    assert plan_learning(target, "auto", "auto", "auto").update == ch.Collapsed(starts=32)
    assert plan_learning(target, "auto", "auto", "auto", exact_seconds=0.0).update == ch.BlockGibbs(size=2)
    rows = [ch.Row([0, 1, 2], ch.Sticky(0.1)), ch.Row([0, 3], ch.Switch(0.1, 0.1))]
    states = Learning(
        ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=ch.HalfNormal(1))), ch.Observations(np.zeros(9))
    )
    assert plan_learning(states.typical, "auto", "auto", "auto").update == ch.Collapsed(starts=32)
    assert plan_learning(states.typical, "auto", "auto", "auto", exact_seconds=0.0).update == ch.BlockGibbs(size=2)


def test_auto__learning_compares_effective_draws():
    """Paths integrated out where that gives more of them; given the paths where a filter takes long, or as asked."""
    unknown = ch.FactorialHMM(
        rows=ch.Switches(0.1, 0.2), emission=ch.Gaussian(np.linspace(1, 2, 12), sd=ch.HalfNormal(1))
    )
    target = Learning(unknown, ch.Observations(np.zeros(200))).typical
    slow = plan_learning(target, "auto", "auto", "auto")
    assert slow.update == ch.BlockGibbs(size=5)
    assert slow.exchange == ch.MosaicCrossover()
    assert "if paths were sampled, too, and the search for 4 optima takes" in slow.reason
    few = Learning(
        ch.FactorialHMM(rows=ch.Switches(0.1, 0.2), emission=ch.Gaussian([1.0, 2.0], sd=ch.HalfNormal(1))),
        ch.Observations(np.zeros(20)),
    ).typical
    rows = plan_learning(few, "auto", "auto", "auto")
    assert rows.update == ch.Collapsed(starts=32)
    assert rows.exchange is None
    assert "by gradients: about" in rows.reason
    crossed = plan_learning(few, "auto", "mosaic", "auto")
    assert crossed.update == ch.BlockGibbs(size=2)
    assert "parameters given the paths, and blocks of 2 rows; " in crossed.reason


def test_exact_cost__covers_what_the_passes_ask_for():
    """The least memory is enough for a filter with checkpoints and lazy draws."""
    target = model(3).target(np.zeros(5000))
    _, memory = exact_cost(target)
    assert Passes(target, 1.0, memory=int(memory), stay=True).n_segments > 1


@pytest.mark.parametrize("n_columns", [2**15, 2**15 + 1])
def test_exact_cost__counts_the_filters_of_the_draws(n_columns):
    """Ten rows and 2^15 columns: messages and probabilities of staying take 512 MiB. With more, draws filter again."""
    target = model(10).target(np.zeros(n_columns))
    again = n_columns > 2**15
    seconds, _ = exact_cost(target)
    chosen = plan_paths(target, "auto", "auto", "auto", 1.5 * seconds)
    assert chosen.is_exact != again
    assert (" MiB, twice" in chosen.reason) == again
    assert plan_paths(target, "auto", "auto", "auto", 2.5 * seconds).is_exact


@pytest.mark.parametrize(("n_columns", "rows"), [(2**16, 5), (2**16 + 1, 4), (2**17 + 1, 3), (2**22, 3)])
def test_block__is_smaller_where_columns_are_many(n_columns, rows):
    assert plan(10, n_columns, "block").update == ch.BlockGibbs(size=rows)


def test_auto__blocks_are_no_larger_than_the_model():
    chosen = plan(2, 50, exchange="swap")
    assert chosen.update == ch.BlockGibbs(size=2)
    assert chosen.reason.startswith("blocks of 2 rows;")


@pytest.mark.parametrize(
    ("exchange", "ladder", "exact"),
    [
        ("auto", "auto", True),
        (None, "auto", True),
        ("auto", [1], True),
        (None, Ladder(betas=(1.0,)), True),
        ("mosaic", "auto", False),
        (ch.Swap(), "auto", False),
        ("auto", [1, 5], False),
        (None, [1, 5], False),
    ],
)
def test_auto__update_with_replicas_asked_for(exchange, ladder, exact):
    assert plan(3, 50, "auto", exchange, ladder).is_exact == exact


@pytest.mark.parametrize(
    ("name", "update"),
    [("row", ch.RowGibbs()), ("block", ch.BlockGibbs(size=5)), ("hamming-ball", ch.HammingBall(radius=1))],
)
def test_update__by_name(name, update):
    chosen = plan(5, 50, name)
    assert chosen.update == update
    assert chosen.exchange == ch.MosaicCrossover()
    assert chosen.ladder == Ladder.adapted()
    assert chosen.reason == (
        "update as given; ladder from the prior to the target, adapted in warm-up, 10 replicas at first "
        "(with no exchange: one, without evidence); MosaicCrossover exchanges"
    )
    assert "10 replicas at first; Swap exchanges" in plan(5, 50, name, "swap").reason


def test_update__exact_as_asked_whatever_it_costs():
    chosen = plan(24, 2000, "exact")
    assert chosen.is_exact
    assert chosen.reason.startswith("exact draws as asked: the exact filter over 24 free rows")
    own = ch.Exact(memory=2**20)
    assert plan(3, 50, own).update is own
    assert plan(3, 50, own, None, [1]).is_exact
    on_a_ladder = plan(3, 50, own, "auto", [1, 5])
    assert not on_a_ladder.is_exact
    assert on_a_ladder.exchange == ch.MosaicCrossover()


@pytest.mark.parametrize(
    ("name", "exchange"),
    [
        ("swap", ch.Swap()),
        ("random", ch.RandomCrossover()),
        ("augmented", ch.AugmentedCrossover()),
        ("mosaic", ch.MosaicCrossover()),
    ],
)
def test_exchange__by_name(name, exchange):
    assert plan(3, 50, "row", name, [1, 5]).exchange == exchange


def test_objects__are_taken_as_they_are():
    update, exchange = ch.HammingBall(radius=2), ch.AugmentedCrossover(flipped=False, rows=[0, 2])
    ladder = Ladder(betas=(0.1, 0.4, 1.0))
    chosen = plan(3, 50, update, exchange, ladder)
    assert chosen.update is update
    assert chosen.exchange is exchange
    assert chosen.ladder is ladder
    assert chosen.reason == "update as given; 3 rungs as given; AugmentedCrossover exchanges"


def test_one_replica():
    chosen = plan(3, 50, "row", None)
    assert chosen.ladder.betas == (1.0,)
    assert chosen.reason == "update as given; one replica"
    assert plan(3, 50, "row", None, [1]).reason == chosen.reason
    assert plan(3, 50, "row", "auto", [1]).exchange is None
    assert plan(3, 50, "row", None, [1, 5]).exchange is None


def test_density__takes_augmented_crossovers():
    chosen = plan_replicas(None, "auto", "auto", ch.AugmentedCrossover(), "update of the density")
    assert chosen.exchange == ch.AugmentedCrossover()
    assert chosen.reason.startswith("update of the density; ladder from the prior")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"update": "gibbs"}, "update must be \"auto\", 'exact', 'row', .* got 'gibbs'"),
        ({"update": 3}, "or an object such as ch.HammingBall.radius=2., got 3"),
        ({"update": ch.Swap()}, "update must be"),
        ({"exchange": "crossover"}, 'exchange must be None, "auto", \'swap\', .* got "crossover"'),
        ({"exchange": ch.RowGibbs(), "update": "row"}, r"an Exchange such as ch.Swap\(\), got RowGibbs"),
        ({"exchange": 2}, "got 2"),
        ({"ladder": "hot"}, 'ladder must be "auto", a list of temperatures or a Ladder, got "hot"'),
        ({"ladder": "hot", "update": "exact"}, 'got "hot"'),
        ({"ladder": "hot", "update": "row"}, 'got "hot"'),
        ({"ladder": []}, "at least one temperature"),
        ({"ladder": [1], "exchange": "swap"}, "Swap needs at least two replicas, got a ladder of one; give ladder="),
        ({"ladder": [1], "exchange": ch.MosaicCrossover(), "update": "row"}, "MosaicCrossover needs at least two"),
    ],
)
def test_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        plan(3, 50, **options)


# ---- What is said ---------------------------------------------------------------------------------------------------


def run(**options: Any) -> ch.Posterior:
    options = {"draws": 4, "warmup": 6, "chains": 2, "seed": 123} | options
    return ch.sample(model(2), np.array([0.3, 1.2, 0.9, 0.1]), **options)


@pytest.mark.jit_off
def test_info__holds_the_plan():
    assert run(progress=False).info["plan"].startswith("exact independent draws: the exact filter over 2 free rows")
    assert run(progress=False, update="row", ladder=[1, 5]).info["plan"] == (
        "update as given; 2 rungs as given; MosaicCrossover exchanges"
    )


@pytest.mark.parametrize("progress", [True, False])
def test_display__is_silent_where_there_is_no_terminal(progress, capfd):
    run(progress=progress, update="row", ladder=[1, 5])
    run(progress=progress)
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def terminal(monkeypatch) -> io.StringIO:
    """A wide terminal in place of every console."""
    screen = io.StringIO()
    console = partial(rich.console.Console, file=screen, force_terminal=True, width=200, color_system=None)
    monkeypatch.setattr(rich.console, "Console", console)
    return screen


def test_display__of_a_density_has_coordinates(terminal):
    density = ch.Density(lambda x: -(x**2).sum(axis=1), size=2, init=[0.0, 0.0], update=ch.RandomWalk())
    ch.sample(density, exchange="swap", ladder=[1, 2], draws=4, warmup=0, chains=1, seed=1, progress=True)
    assert " coordinates per exchange" in terminal.getvalue()
    assert "sites" not in terminal.getvalue()


@pytest.mark.parametrize("warmup", [6, 0])
def test_display__on_a_terminal(terminal, warmup):
    posterior = run(update="row", exchange="mosaic", ladder=[1, 5], warmup=warmup)
    shown = terminal.getvalue()
    assert f"chiasma {posterior.info['plan']} (seed 123)" in shown
    for part in ("draws, chain 0", "draws, chain 1", "4/4", "log joint -", " sites per exchange"):
        assert part in shown
    assert ("6/6" in shown) == (warmup > 0)


def test_display__shows_the_pilot(terminal, monkeypatch):
    monkeypatch.setattr(pilot, "STUCK", 0.0)
    options = {"exact_seconds": 0, "draws": 4, "warmup": 200, "chains": 1, "seed": 123}
    posterior = ch.sample(model(10), np.linspace(0, 5, 12), **options)
    shown = terminal.getvalue()
    first, second = "chiasma a pilot chooses the update: the exact filter over", "chiasma blocks of"
    assert 0 <= shown.index(first) < shown.index("pilot where chains are stuck") < shown.index(second)
    assert posterior.info["plan"][:80] in shown


def test_display__says_which_seed_was_drawn(terminal):
    posterior = run(seed=None)
    assert f"(seed {posterior.info['seed']})" in terminal.getvalue()


def test_display__does_not_change_the_run(terminal):
    shown, silent = (run(update="row", ladder=[1, 5], progress=progress) for progress in (True, False))
    np.testing.assert_array_equal(shown.draws, silent.draws)


def test_display__silent_when_unwanted(terminal):
    run(progress=False)
    assert terminal.getvalue() == ""


def test_display__is_closed_after_an_error(terminal):
    """The cursor comes back, and the message is not drawn over."""

    def fails(x, beta, rng):
        raise RuntimeError("the update gave up")

    target = ch.Density(lambda x: -(x**2).sum(axis=1), size=1, init=[0.0], update=fails)
    with pytest.raises(RuntimeError, match="the update gave up"):
        ch.sample(target, exchange=None, draws=3, chains=1, seed=1)
    assert terminal.getvalue().rstrip("\n").endswith("\x1b[?25h")

"""The summary: what it says of good runs and of bad ones."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from io import StringIO

import arviz_stats
import numpy as np
import pytest
import xarray as xr
from rich.console import Console

import chiasma as ch
from chiasma.results import summary
from chiasma.results.arrays import per_draw
from chiasma.results.convergence import convergence
from chiasma.results.findings import Finding, Set
from chiasma.results.ladder_stats import Evidence
from chiasma.results.parameters import ParameterSummary
from chiasma.results.summary import some_sites, tied
from test_configurations import by_hand


def good_run(n_chains=4, n_draws=600, **changes):
    """Independent draws: nothing can be better mixed."""
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 8, (n_chains, n_draws, 5))
    codes[:, :, 4] = 3
    return by_hand(codes, log_joint=per_draw("log_joint", rng.normal(size=(n_chains, n_draws))), **changes)


def pairs(rejection, moves=100, columns=3.0):
    n = len(rejection)
    return xr.Dataset(
        {
            "rejection": ("pair", np.array(rejection)),
            "moves": ("pair", np.full(n, moves)),
            "changed": ("pair", np.full(n, 0.5)),
            "columns": ("pair", np.full(n, columns)),
        }
    )


def codes_of(posterior):
    return [one.code for one in posterior.findings]


def test_a_good_run_has_no_findings():
    found = good_run().summary()
    assert (found.findings, found.trust) == ((), "good")
    assert str(found).startswith("Trust: good.")
    joint, level = found.convergence
    assert (joint.name, joint.n, joint.constant, joint.worst_site) == ("log_joint", 1, 0, None)
    assert (level.name, level.n, level.constant, level.stuck) == ("level", 5, 1, 0)
    assert 0.99 < joint.rhat_worst < 1.01
    assert level.rhat_median <= level.rhat_worst < 1.01
    assert level.ess_median >= level.ess_worst > 1000


def test_numbers_are_those_of_arviz():
    posterior = good_run()
    joint, level = posterior.summary().convergence
    series = posterior.log_joint
    assert joint.rhat_worst == float(arviz_stats.rhat(series))
    assert joint.ess_worst == float(arviz_stats.ess(series))
    values = posterior.levels().round(10)[:, :, :4]
    rhat = np.array([float(arviz_stats.rhat(values[:, :, t])) for t in range(4)])
    ess = np.array([float(arviz_stats.ess(values[:, :, t])) for t in range(4)])
    assert (level.rhat_worst, level.rhat_median) == (rhat.max(), np.median(rhat))
    assert (level.ess_worst, level.ess_median) == (ess.min(), np.median(ess))
    assert level.worst_site == rhat.argmax()


def test_chains_in_different_modes_are_found():
    rng = np.random.default_rng(2)
    codes = np.where(rng.random((2, 500, 6)) < 0.1, 0, np.array([1, 6])[:, None, None])
    codes[:, :, 5] = np.array([1, 6])[:, None]
    posterior = by_hand(codes, log_joint=per_draw("log_joint", rng.normal([[0], [4]], 1, (2, 500))))
    joint, level = posterior.summary().convergence
    assert joint.rhat_worst > 1.5
    assert (level.stuck, level.rhat_worst, level.worst_site) == (1, math.inf, 5)
    assert codes_of(posterior) == ["chains-disagree", "modes"]
    found = posterior.findings[0]
    assert (found.severity, found.facts["names"], found.facts["rhat"]) == ("none", ["level", "log joint"], math.inf)
    assert [one.argument for one in found.remedies] == ["exchange", "draws"]
    assert str(posterior.summary()).startswith("Trust: none.")
    text = json.dumps(posterior.summary().to_dict(), allow_nan=False)
    assert json.loads(text)["convergence"][1]["rhat_worst"] is None


def test_the_remedy_fits_the_ladder():
    stuck = np.tile(np.array([1, 6])[:, None, None], (1, 50, 2))

    def first(run):
        return run.findings[0].remedies[0].python()

    for betas, remedy in (([1.0], "exchange='auto'"), ([0.2, 1.0], "ladder='auto'"), ([0.0, 0.2, 1.0], "draws=")):
        assert first(by_hand(stuck, betas=np.array(betas))).startswith(remedy)
    for rejection, remedy in (([0.4, 0.5], "draws="), ([0.9, 0.9], "ladder=ch.Ladder.adapted(5)")):
        run = by_hand(stuck, betas=np.array(betas), exchange_stats=pairs(rejection))
        assert first(run).startswith(remedy)


def test_slow_chains_are_told_how_many_draws_to_take():
    rng = np.random.default_rng(3)
    walk = np.zeros((4, 400))
    for i in range(1, 400):
        walk[:, i] = 0.9 * walk[:, i - 1] + rng.normal(size=4)
    posterior = good_run(n_draws=400)
    slow = by_hand(posterior.codes.values, log_joint=per_draw("log_joint", walk))
    (found,) = slow.findings
    ess = slow.summary().convergence[0].ess_worst
    wanted = 1.25 * 400 * 400 / ess  # a quarter more, for the ESS is an estimate
    assert ess < 200
    facts = {"names": ["log joint"], "rhat": slow.summary().convergence[0].rhat_worst, "limit": 1.01}
    assert (found.code, found.facts) == ("chains-disagree", facts)
    assert wanted <= found.remedies[-1].value < 1.1 * wanted


def test_one_chain_is_told_to_be_four():
    posterior = good_run(n_chains=1)
    assert posterior.findings == (Finding("one-chain", "limited", {}, (Set("chains", 4),)),)
    joint, level = posterior.summary().convergence
    assert math.isnan(joint.rhat_worst)
    assert level.worst_site is not None
    assert posterior.summary().to_dict()["convergence"][0]["rhat_worst"] is None
    assert "1 chain x 600 draws" in str(posterior.summary())


def test_too_few_draws_cannot_be_judged():
    found = good_run(n_draws=1).summary()
    assert found.findings == (Finding("few-draws", "none", {"draws": 1}, (Set("draws", 100),)),)
    assert math.isnan(found.convergence[0].ess_worst)


def test_independent_draws_need_no_chains():
    info = {"n_rows": 3, "update": "Exact(memory=1)", "independent": True}
    assert good_run(n_chains=1, info=info, log_evidence=Evidence(-3.0, 0.0)).findings == ()
    assert codes_of(good_run(n_chains=1, info=info | {"independent": False})) == ["one-chain"]


def test_a_run_in_which_nothing_moves_has_constants_and_no_nan():
    found = by_hand(np.full((2, 50, 3), 5)).summary()
    assert found.findings == ()
    assert [(part.n, part.constant, part.worst_site) for part in found.convergence] == [(1, 1, None), (3, 3, None)]
    assert "nan" not in str(found)
    assert "NaN" not in json.dumps(found.to_dict())


def test_only_the_cold_replica_is_judged():
    hot = per_draw("replica_log_likelihood", np.arange(4.0)[:, None, None] + np.zeros((4, 600, 2)), "replica")
    plain, tempered = good_run().summary(), good_run(replica_log_likelihood=hot, betas=np.array([0.1, 1.0])).summary()
    assert tempered.findings == ()
    assert tempered.convergence == plain.convergence


def test_exchanges():
    info = {
        "n_rows": 3,
        "exchange": "Swap(rows='all')",
        "follows_swaps": True,
        "round_trips": [3, 4],
    }
    stats = pairs([0.2, 0.7])
    found = good_run(info=info, exchange_stats=stats, betas=np.array([0.0, 0.3, 1.0])).summary()
    health = found.exchanges
    assert (health.worst_rejection, health.worst_pair, health.round_trips) == (0.7, 1, 7)
    assert health.barrier == pytest.approx(0.9)
    assert (health.changed, health.columns) == (0.5, 3.0)
    assert "0.700 (rungs 1 and 2); barrier 0.90" in str(found)
    assert "3.0 sites per exchange; 50% of exchanges change a path" in str(found)
    assert "beta 0 to 1" in str(found)
    crossed = good_run(
        info=info | {"exchange": "MosaicCrossover()", "follows_swaps": False}, exchange_stats=stats
    ).summary()
    assert crossed.exchanges.round_trips is None
    assert "round trips" not in str(crossed)
    assert good_run(exchange_stats=pairs([0.0], moves=0)).summary().exchanges is None


def test_text_and_dictionary_say_what_was_run():
    info = {
        "n_rows": 3,
        "seed": 2**100,
        "plan": "blocks [1, 5] of rows",
        "update": "RowGibbs()",
        "exchange": None,
        "timings": {"warmup": 1.5, "draws": np.float64(2.0)},
    }
    found = good_run(info=info, log_evidence=Evidence(-12.3456, 0.0123)).summary()
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert content["run"] == {
        "plan": "blocks [1, 5] of rows",
        "update": "RowGibbs()",
        "exchange": None,
        "chains": 4,
        "draws": 600,
        "sites": 5,
        "rows": 3,
        "replicas": 1,
        "hottest_beta": 1.0,
        "independent": False,
        "seed": 2**100,
        "seconds": {"warmup": 1.5, "draws": 2.0},
    }
    assert content["evidence"] == {"value": -12.3456, "standard_error": 0.0123}
    text = str(found)
    for part in ("blocks [1, 5] of rows", "4 chains x 600 draws x 5 sites x 3 rows", str(2**100), "-12.346 ± 0.012"):
        assert part in text
    assert "warmup 1.5 s, draws 2 s" in text
    assert all(line == line.rstrip() for line in text.splitlines())
    assert "(exact)" in str(good_run(log_evidence=Evidence(-1.0, 0.0)).summary())


def test_models_without_levels_are_judged_by_their_rows_on_and_vectors_by_themselves():
    assert good_run(model=None).summary().convergence[1].name == "rows_on"
    x = per_draw("x", np.random.default_rng(4).normal(size=(4, 300, 2)), "site")
    found = good_run(n_draws=300, draws=x, model=None, data=None, info={}).summary()
    assert (found.convergence[1].name, found.convergence[1].n) == ("x", 2)
    assert found.findings == ()
    assert found.accuracy is None
    assert "4 chains x 300 draws x 2 coordinates\n" in str(found)


def test_channels_are_series_of_their_own():
    values = np.random.default_rng(5).normal(size=(2, 100, 3, 2))
    values[1, :, 2, 0] += 9
    found = convergence(xr.DataArray(values, dims=("chain", "draw", "site", "channel"), coords={"site": [4, 6, 8]}))
    assert (found.n, found.disagree >= 1, found.worst_site) == (6, True, 8)


def test_some_sites__are_evenly_spaced_and_fewer_in_long_runs(monkeypatch):
    draws = per_draw("codes", np.zeros((2, 3, 1001), np.uint8), "site")
    sites = some_sites(draws)["site"].values
    assert len(sites) == 200
    assert (sites[0], sites[-1]) == (0, 1000)
    assert set(np.diff(sites)) == {5, 6} or set(np.diff(sites)) == {5}
    monkeypatch.setattr(summary, "VALUES", 600)
    assert some_sites(draws).shape == (2, 3, 100)
    monkeypatch.setattr(summary, "VALUES", 6)
    assert some_sites(draws).shape == (2, 3, 20)
    assert some_sites(draws[:, :, :7]).shape == (2, 3, 7)


def test_summary__says_at_how_many_of_the_sites_it_looked():
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0], sd=0.3))
    for n_sites, title in ((500, "Chains of the cold replica (level: 200 of 500 sites)\n"), (200, "cold replica\n")):
        _, y = model.simulate(n_sites, seed=1)
        found = str(ch.sample(model, y, draws=10, seed=1, progress=False).summary())
        assert title in "\n".join(line.rstrip() for line in found.splitlines())


def test_tied__levels_that_differ_by_rounding_are_equal():
    levels = xr.DataArray([0.1 + 0.2, 0.3, 0.4])
    assert levels[0] != levels[1]
    assert len(np.unique(tied(levels))) == 2
    assert len(np.unique(tied(levels * 1e-30))) == 2
    assert (tied(levels * 0) == 0).all()


def test_a_real_run():
    model = ch.FactorialHMM(rows=ch.Switches(0.2, 0.2), emission=ch.Gaussian([1.0, 2.0]))
    y = model.simulate(8, seed=1)[1]
    posterior = ch.sample(model, y, update="row", exchange="swap", ladder=[1, 3], draws=60, warmup=20, seed=1)
    found = posterior.summary()
    assert found.run["replicas"] == 2
    assert found.exchanges.move.startswith("Swap")
    assert found.exchanges.round_trips == sum(posterior.info["round_trips"])
    assert set(found.run["seconds"]) >= {"warmup", "draws"}
    json.dumps(found.to_dict(), allow_nan=False)


def test_summary__tables_fit_a_terminal_of_80_columns():
    run = good_run().summary()
    part = replace(run.convergence[1], n=200, constant=199, ess_worst=1.2e6, ess_median=9.9e6, worst_site=9_999_999)
    numbers = {"mean": -0.012345, "sd": 1.2345e-5, "low": -12345.0, "high": 1.2345e10, "rhat": 1.234, "ess": 1e6}
    one = ParameterSummary(name="transition[12, 11]", **numbers)
    shown = StringIO()
    Console(file=shown, width=80).print(replace(run, convergence=(part, part), parameters=(one,)))
    lines = [line.strip() for line in shown.getvalue().splitlines()]
    row = f"{part.name} 200 {part.rhat_worst:.3f} {part.rhat_median:.3f} 1,200,000 9,900,000 199 9999999"
    assert [" ".join(line.split()) for line in lines].count(row) == 2
    # A long name may be broken, numbers may not.
    row = " ".join(f"{numbers[key]:.4g}" for key in ("mean", "sd", "low", "high")) + " 1.234 1,000,000"
    assert sum(" ".join(line.split()).endswith(row) for line in lines) == 1
    assert max(map(len, shown.getvalue().splitlines())) <= 80


def test_summary__of_a_density_speaks_of_coordinates():
    density = ch.Density(lambda x: -(x**2).sum(axis=1), size=2, init=[0.0, 0.0], update=ch.RandomWalk(scale=0.01))
    run = ch.sample(density, exchange="swap", ladder=[1, 2], draws=50, warmup=0, seed=1, progress=False).summary()
    shown = StringIO()
    Console(file=shown, width=80).print(run)
    assert "x 2 coordinates" in shown.getvalue()
    assert "coordinates per exchange" in shown.getvalue()
    assert "chains-disagree" in {one.code for one in run.findings}
    words = set(re.findall(r"\w+", shown.getvalue()))
    assert not words & {"site", "sites", "column", "columns", "path", "paths"}


def test_accuracy__is_the_mean_probability_of_the_reported_states_at_sites_with_data():
    codes = np.zeros((1, 4, 3), int)
    codes[0, :1, 0] = 1  # 3 of 4 draws agree at site 0, all at site 1, half at site 2
    codes[0, :2, 2] = 1
    y = np.array([0.0, 0.0, np.nan])
    posterior = by_hand(codes, data=ch.Observations(y))
    assert posterior.accuracy == pytest.approx((0.75 + 1.0) / 2)
    assert posterior.summary().to_dict()["accuracy"] == posterior.accuracy

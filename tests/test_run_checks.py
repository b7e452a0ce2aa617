"""Checks of a run, and remedies that can be taken as they stand, in the order of the page on convergence."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import chiasma as ch
from chiasma.io.settings import Settings
from chiasma.results.convergence import RHAT, Convergence
from chiasma.results.findings import Set, Use
from chiasma.results.ladder_stats import Evidence
from chiasma.results.provenance import RunInfo
from chiasma.results.run_checks import (
    DISCONNECTED,
    EVIDENCE_ERROR,
    UNBRIDGED,
    better_moves,
    chain_findings,
    evidence_findings,
    init_findings,
    ladder_findings,
    wanted_rungs,
)
from chiasma.sampling import updates
from chiasma.sampling.plan import larger_blocks

PAGE = Path(__file__).parents[1] / "docs/how-to/convergence.md"
BINARY = {"rows": ch.Switches(0.1, 0.1)}
Y = np.array([0.1, 2.9, 3.2, 1.1, 0.2, 2.1])

THREE = ch.FactorialHMM(**BINARY, emission=ch.Gaussian([1.0, 2.0, 3.0], sd=0.3))
LEARNED = ch.FactorialHMM(**BINARY, emission=ch.Gaussian([1.0, 2.0, 3.0], sd=ch.HalfNormal(1)))
LAMPS = ch.Row(values=[0, 1], chain=ch.Switch(0.1, 0.1), copies=4)
OVEN = ch.Row(values=[0, 1, 3], chain=ch.Sticky(0.1))
ROWS = ch.FactorialHMM(rows=[LAMPS, OVEN], emission=ch.Gaussian(sd=0.3))
VECTOR = ch.Density(lambda x: -(x**2).sum(axis=1), size=2, init=[0.0, 0.0], update=ch.RandomWalk(scale=1.0))
ALONE = {"exchange": None}
FEW_RUNGS = {"ladder": ch.Ladder(betas=(0.0, 1.0)), "draws": 40}
TWO_RUNGS = {"exchange": "mosaic", "ladder": [1, 5]}

AUTO, JUMPS, MOSAIC, HOTTER = (
    Set("update", "auto"),
    Set("update", "jumps"),
    Set("exchange", "mosaic"),
    Set("ladder", "auto"),
)
BLOCKS = Use("update", "ch.BlockGibbs(size=3)", "block:3")
CASES = {
    "rows one by one": (THREE, {"update": "row"} | ALONE, [AUTO, BLOCKS, JUMPS, MOSAIC]),
    "a Hamming ball": (THREE, {"update": "hamming-ball"} | ALONE, [AUTO, BLOCKS, JUMPS, MOSAIC]),
    "all rows jointly": (THREE, {"update": ch.BlockGibbs(size=3)} | ALONE, [AUTO, JUMPS, MOSAIC]),
    "blocks by hand": (THREE, {"update": ch.BlockGibbs(blocks=[[0, 1], [2]])} | ALONE, [AUTO, BLOCKS, JUMPS, MOSAIC]),
    "jumps": (THREE, {"update": ch.Jumps(size=2)} | ALONE, [AUTO, BLOCKS, MOSAIC]),
    "what auto chose": (THREE, {"exact_seconds": 0} | ALONE, [JUMPS, MOSAIC]),
    "a short ladder": (THREE, {"update": "row"} | TWO_RUNGS, [AUTO, BLOCKS, JUMPS, HOTTER]),
    "a whole ladder": (THREE, {"update": "row", "draws": 100, "warmup": 200}, [AUTO, BLOCKS, JUMPS]),
    "few rungs": (THREE, {"update": "row"} | FEW_RUNGS, [AUTO, BLOCKS, JUMPS, "ladder"]),
    "exact draws on a ladder": (THREE, {"update": "exact"} | TWO_RUNGS, [AUTO, HOTTER]),
    "equal rows": (ROWS, {"update": "row"} | ALONE, [AUTO, "update", JUMPS, MOSAIC]),
    "learned given the paths": (LEARNED, {"update": "row"} | ALONE, [AUTO, BLOCKS, MOSAIC]),
    "learned by slices": (LEARNED, {"update": "exact"} | ALONE, [AUTO, Set("exchange", "auto")]),
    "learned by gradients": (
        LEARNED,
        {"update": ch.Collapsed(starts=2)},
        [AUTO, Use("update", "ch.Collapsed(starts=4)", "collapsed:4")],
    ),
    "a density": (VECTOR, ALONE, [Set("exchange", "auto")]),
    "a density on a ladder": (VECTOR, {"ladder": ch.Ladder.adapted(8)}, []),
    "a density on a short ladder": (VECTOR, {"ladder": [1, 5]}, [HOTTER]),
}  # fmt: skip


def sampled(model, options):
    data = () if isinstance(model, ch.Density) else (Y,)
    return ch.sample(model, *data, **{"draws": 4, "warmup": 4, "chains": 1, "seed": 1, "progress": False} | options)


def taken(remedy):
    """A remedy as an argument of sample()."""
    if isinstance(remedy, Set):
        return {remedy.argument: remedy.value}
    return {remedy.argument: Settings(sampler={remedy.argument: remedy.name}).sampler()[remedy.argument]}


@pytest.mark.parametrize("name", CASES)
def test_moves__can_be_taken_as_they_stand(name):
    model, options, expected = CASES[name]
    posterior = sampled(model, options)
    rungs = wanted_rungs(posterior.exchange_stats)
    found = better_moves(posterior.info, posterior.betas, bool(posterior.parameters), rungs)
    assert [
        one.argument if isinstance(like, str) else one for one, like in zip(found, expected, strict=True)
    ] == expected
    for remedy in found:
        sampled(model, options | taken(remedy))


def test_moves__of_a_stored_run_are_the_same(tmp_path):
    posterior = sampled(THREE, {"update": "row", "store": tmp_path / "run.zarr"} | ALONE)
    again = ch.open_posterior(tmp_path / "run.zarr")
    moves = better_moves(posterior.info, posterior.betas, learns=False)
    assert better_moves(again.info, again.betas, learns=False) == moves
    assert again.info["update_named"]
    assert again.info["larger_blocks"] == 3
    assert posterior.info["starts"] is None


def test_moves__of_unknown_starts():
    (remedy,) = better_moves(RunInfo(update_kind="Collapsed"), np.ones(1), learns=True)
    assert remedy.name == "collapsed:64"


def test_larger_blocks__of_rows_with_many_states_hold_few_of_them():
    """Of four rows with nine states two fit: 81 joint states, not 6,561."""
    rows = [ch.Row(values=[s * 9**k for s in range(9)], chain=ch.Sticky(0.1)) for k in range(4)]
    target = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=0.3)).exact_target(Y)
    assert larger_blocks(target, ch.RowGibbs()) == 2
    assert larger_blocks(target, ch.BlockGibbs(size=2)) is None


def test_larger_blocks__fit_in_memory(monkeypatch):
    weights = 2.0 ** np.arange(10)
    target = ch.FactorialHMM(**BINARY, emission=ch.Gaussian(weights, sd=0.3)).exact_target(Y)
    assert larger_blocks(target, ch.RowGibbs()) == 8
    assert larger_blocks(target, ch.GaussianBlocks(size=8)) is None
    monkeypatch.setattr(updates, "MOST_BYTES", 8 * 2 * len(Y) * 2**5)
    assert larger_blocks(target, ch.RowGibbs()) == 5


def test_page__has_the_same_order():
    words = ("auto", "blocks", "jumps", "ladder", "rungs", "draws")
    steps = re.findall(r"^\*\*(\d)\. (.*?)\*\*", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [(number, word in title) for (number, title), word in zip(steps, words, strict=True)] == [
        (str(i), True) for i in range(1, 7)
    ]
    info = sampled(THREE, CASES["rows one by one"][1]).info
    moves = better_moves(info, np.ones(1), learns=False)
    (found,) = chain_findings((BAD,), (), 4, 100, moves)
    assert found.remedies[:-1] == (AUTO, BLOCKS, JUMPS, MOSAIC)
    assert found.remedies[-1].argument == "draws"
    assert better_moves(info, np.array([0.0, 1.0]), learns=False, rungs=9)[-1].name == "auto:9"


def test_page__has_the_limits_of_the_ladder():
    text = PAGE.read_text(encoding="utf-8")
    for words in (f"at most {UNBRIDGED}", f"worst rejection above {UNBRIDGED}", f"above {DISCONNECTED} swaps"):
        assert words in text


# ---- Chains ----------------------------------------------------------------------------------------------------------

BAD = Convergence(
    name="level", n=300, constant=0, stuck=0, disagree=100, rhat_worst=1.4, rhat_median=1.2, ess_worst=9.0,
    ess_median=20.0, worst_site=7,
)  # fmt: skip


def codes(found):
    return [(one.code, one.severity) for one in found]


def test_chains__that_disagree_have_no_second_finding_of_few_draws():
    (found,) = chain_findings((BAD,), (), 4, 100)
    assert (found.code, found.severity) == ("chains-disagree", "none")
    assert found.facts == {"names": ["level"], "rhat": 1.4, "limit": RHAT}
    assert found.remedies == (Set("draws", 5600),)  # 1.25 * 400 / 9 times as many


@pytest.mark.parametrize(
    ("changes", "severity"),
    [
        ({"rhat_worst": 1.02, "disagree": 2}, "note"),
        ({"rhat_worst": 1.02, "disagree": 200}, "limited"),
        ({"rhat_worst": 1.08, "disagree": 2}, "limited"),
        ({"rhat_worst": 1.12, "disagree": 2}, "none"),
        ({"rhat_worst": math.inf, "disagree": 1, "stuck": 1}, "none"),
    ],
)
def test_chains__severity_by_how_many_series_and_how_far(changes, severity):
    assert codes(chain_findings((replace(BAD, **changes),), (), 4, 100)) == [("chains-disagree", severity)]


def test_chains__few_effective_draws_ask_for_as_many_as_serve_all_series():
    slow = [replace(BAD, rhat_worst=1.0, ess_worst=ess) for ess in (80.0, 40.0, float("nan"))]
    (found,) = chain_findings([slow[0], replace(slow[1], name="log_joint")], (), 4, 100, [AUTO])
    assert (found.code, found.severity) == ("low-ess", "limited")
    assert found.facts == {"names": ["log joint", "level"], "ess": 40.0, "expected": 400}
    assert found.remedies == (Set("draws", 1300),)
    assert chain_findings(slow[2:], (), 4, 100) == []
    assert codes(chain_findings(slow, (), 4, 3)) == [("few-draws", "none")]
    assert codes(chain_findings((replace(slow[0], ess_worst=4000.0),), (), 1, 1000)) == [("one-chain", "limited")]


def stuck(**options):
    """The run of the page: it cannot go from one of two explanations to the other."""
    model = ch.FactorialHMM(
        rows=ch.Switches(enter=0.05, leave=0.05),
        emission=ch.Gaussian(weights=[0.21, 0.31, 0.48], depth=15.0, sd=1.0),
    )
    _, y = model.simulate(150, seed=4)
    options = {"draws": 200, "warmup": 50, "seed": 1, "progress": False, "update": "row"} | options
    return ch.sample(model, y, **options)


@pytest.mark.parametrize("options", [ALONE, TWO_RUNGS, {"exchange": "swap", "ladder": [1, 5, 1e9]}])
def test_posterior__of_a_stuck_run_is_not_trusted(options):
    found = stuck(**options)
    assert found.trust == "none"
    assert found.findings[0].severity == "none"
    assert len({one.code for one in found.findings}) == len(found.findings)
    assert "chains-disagree" in {one.code for one in found.findings}


def test_posterior__of_a_good_run_is_trusted():
    found = stuck(update="exact", exchange=None)
    assert (found.trust, found.findings) == ("good", ())


# ---- Starts, rungs and evidence --------------------------------------------------------------------------------------


def test_init__the_same_for_all_chains_is_told():
    """Two modes, and all chains begin in one of them: R-hat sees nothing, and nobody else would either."""
    model = ch.FactorialHMM(rows=ch.Switches(0.02, 0.02), emission=ch.Gaussian([1.0, 2.0, 3.0], sd=0.1))
    y = np.repeat([0.0, 3.0, 0.0], 20) + np.random.default_rng(2).normal(0, 0.1, 60)
    begun = np.zeros((3, 60), int)
    begun[2, 20:40] = 1
    options = {"update": "row", "exchange": None, "draws": 100, "warmup": 20, "seed": 1, "progress": False}
    blind = ch.sample(model, y, init=begun, **options)
    found = {one.code: one.severity for one in blind.findings}
    assert found.get("one-init") == "limited"
    assert "modes" not in found
    assert "one-init" not in {one.code for one in ch.sample(model, y, **options).findings}
    exact = ch.sample(model, y, init=begun, **options | {"update": "exact"})
    assert exact.findings == ()


def test_init__matters_to_several_chains_only():
    info = RunInfo(settings={"init": {"sd": 1.0}})
    assert codes(init_findings(info, 4)) == [("one-init", "limited")]
    assert init_findings(info, 1) == init_findings(RunInfo(settings={"init": {}}), 4) == []


def rungs(rejection, changed=0.5, moves=9):
    n = len(rejection)
    return {
        "moves": np.full(n, moves),
        "rejection": np.array(rejection),
        "changed": np.full(n, changed),
        "length": np.array(rejection) * 1.5,
    }


def test_ladder__rungs_that_exchange_nothing():
    (found,) = ladder_findings(True, rungs([0.5, 0.99, 0.5]))
    assert (found.code, found.facts["rung"], found.facts["next_rung"], found.facts["n"]) == ("ladder-gap", 1, 2, 1)
    assert found.remedies == (MOSAIC, Use("ladder", "ch.Ladder.adapted(7)", "auto:7"))
    assert ladder_findings(True, rungs([0.5, 0.9])) == []
    # Crossovers bear high rejections, which are those of whole paths.
    assert ladder_findings(False, rungs([0.5, 0.99])) == []
    assert codes(ladder_findings(False, rungs([0.5, 0.99], changed=0.001))) == [("ladder-gap", "limited")]
    assert ladder_findings(True, rungs([1.0], moves=0)) == []


def test_wanted_rungs__only_if_rungs_are_far_apart():
    """If rejection is fine more rungs would not help, however often they are doubled: longer runs do."""
    near = {"moves": np.array([9, 9]), "rejection": np.array([0.43, UNBRIDGED]), "length": np.array([0.43, 0.8])}
    assert wanted_rungs(near) is None
    assert wanted_rungs(near | {"rejection": np.array([0.43, 0.95]), "length": np.array([0.43, 3.0])}) == 8
    assert wanted_rungs(near | {"rejection": np.array([0.0, 0.95]), "length": np.array([0.0, 0.95])}) == 4
    assert wanted_rungs(near | {"moves": np.zeros(2, int), "rejection": np.ones(2)}) is None


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (None, []),
        (Evidence(-10.0, 0.0), []),
        (Evidence(-10.0, 0.3), []),
        (Evidence(-10.0, 1.234), [("evidence-error", "note")]),
        (Evidence(-10.0, math.nan), [("evidence-error", "note")]),
        (Evidence(-math.inf, math.inf), [("evidence-unknown", "limited")]),
    ],
)
def test_evidence__its_error(evidence, expected):
    found = evidence_findings(evidence, 600, np.array([0.0, 1.0]), rungs([0.5]))
    assert codes(found) == expected
    if expected and evidence.standard_error > 0 and math.isfinite(evidence.standard_error):
        wanted = 600 * 1.25 * (1.234 / EVIDENCE_ERROR) ** 2
        assert wanted <= found[0].remedies[0].value <= 1.1 * wanted


def test_evidence__of_rungs_that_hardly_overlap():
    evidence = Evidence(-10.0, 0.1)
    assert codes(evidence_findings(evidence, 600, np.array([0.0, 1.0]), rungs([0.95]))) == [
        ("evidence-overlap", "note")
    ]
    assert evidence_findings(evidence, 600, np.array([0.2, 1.0]), rungs([0.95])) == []

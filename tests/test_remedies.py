"""Remedies of chains that disagree: each can be taken as it stands, in the order of the page on convergence."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import chiasma as ch
from chiasma.results.remedies import SWAPS, remedies, what_to_try
from chiasma.results.run_info import RunInfo
from chiasma.results.warnings import DISCONNECTED, UNBRIDGED, wanted_rungs
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

AUTO, BLOCKS, JUMPS, LADDER = (
    "let update='auto'",
    "take larger blocks",
    "let jumps be learned",
    "add a ladder with crossovers",
)
CASES = {
    "rows one by one": (THREE, {"update": "row"} | ALONE, [AUTO, BLOCKS, JUMPS, LADDER]),
    "a Hamming ball": (THREE, {"update": "hamming-ball"} | ALONE, [AUTO, BLOCKS, JUMPS, LADDER]),
    "all rows jointly": (THREE, {"update": ch.BlockGibbs(size=3)} | ALONE, [AUTO, JUMPS, LADDER]),
    "blocks by hand": (THREE, {"update": ch.BlockGibbs(blocks=[[0, 1], [2]])} | ALONE, [AUTO, BLOCKS, JUMPS, LADDER]),
    "jumps": (THREE, {"update": ch.Jumps(size=2)} | ALONE, [AUTO, BLOCKS, LADDER]),
    "what auto chose": (THREE, {"exact_seconds": 0} | ALONE, [JUMPS, LADDER]),
    "a short ladder": (THREE, {"update": "row"} | TWO_RUNGS, [AUTO, BLOCKS, JUMPS, "let the ladder reach hotter"]),
    "a whole ladder": (THREE, {"update": "row", "draws": 100, "warmup": 200}, [AUTO, BLOCKS, JUMPS]),
    "few rungs": (THREE, {"update": "row"} | FEW_RUNGS, [AUTO, BLOCKS, JUMPS, "use more rungs"]),
    "exact draws on a ladder": (THREE, {"update": "exact"} | TWO_RUNGS, [AUTO, "let the ladder reach hotter"]),
    "equal rows": (ROWS, {"update": "row"} | ALONE, [AUTO, BLOCKS, JUMPS, LADDER]),
    "learned given the paths": (LEARNED, {"update": "row"} | ALONE, [AUTO, BLOCKS, LADDER]),
    "learned by slices": (LEARNED, {"update": "exact"} | ALONE, [AUTO, "add tempered replicas"]),
    "learned by gradients": (LEARNED, {"update": ch.Collapsed(starts=2)}, [AUTO, "look for optima from more starts"]),
    "a density": (VECTOR, ALONE, ["add tempered replicas"]),
    "a density on a ladder": (VECTOR, {"ladder": ch.Ladder.adapted(8)}, ["swap whole vectors"]),
    "a density that swaps": (VECTOR, {"ladder": ch.Ladder.adapted(8), "exchange": "swap"}, []),
    "a density on a short ladder": (VECTOR, {"ladder": [1, 5]}, ["let the ladder reach hotter", "swap whole vectors"]),
}  # fmt: skip


def sampled(model, options):
    data = () if isinstance(model, ch.Density) else (Y,)
    return ch.sample(model, *data, **{"draws": 4, "warmup": 4, "chains": 1, "seed": 1, "progress": False} | options)


def arguments(text):
    """What a remedy says, as arguments of sample()."""
    named = text if "(" not in text else text[text.index("(") + 1 : text.rindex(")")]
    code = "dict(update='auto')" if named == f"{AUTO} choose" else f"dict({named})"
    return eval(code, {"ch": ch})


@pytest.mark.parametrize("name", CASES)
def test_remedies__can_be_taken_as_they_stand(name):
    model, options, expected = CASES[name]
    posterior = sampled(model, options)
    rungs = wanted_rungs(posterior.exchange_stats)
    found = remedies(posterior.info, posterior.betas, bool(posterior.parameters), rungs)
    assert [text for text, begins in zip(found, expected, strict=True) if not text.startswith(begins)] == []
    for text in found:
        sampled(model, options | arguments(text))


@pytest.mark.parametrize("name", ["rows one by one", "what auto chose"])
def test_remedies__without_a_ladder_bring_none(name):
    """A remedy that changes the update of a single replica leaves it alone: a ladder is a remedy of its own."""
    model, options, _ = CASES[name]
    found = remedies(sampled(model, options).info, np.ones(1), learns=False)
    options = {key: value for key, value in options.items() if key != "exchange"}
    replicas = [
        len(sampled(model, options | arguments(text)).betas)
        for text in found
        if text.startswith((BLOCKS, JUMPS, LADDER))
    ]
    assert set(replicas[:-1]) == {1}
    assert replicas[-1] > 1


def test_remedies__of_a_stored_run_are_the_same(tmp_path):
    posterior = sampled(THREE, {"update": "row", "store": tmp_path / "run.zarr"} | ALONE)
    again = ch.open_posterior(tmp_path / "run.zarr")
    assert remedies(again.info, again.betas, learns=False) == remedies(posterior.info, posterior.betas, learns=False)
    assert again.info["update_named"]
    assert again.info["larger_blocks"] == 3


def test_remedies__name_twice_the_starts(tmp_path):
    options = {"update": ch.Collapsed(starts=3), "store": tmp_path / "run.zarr"}
    for posterior in (sampled(LEARNED, options), ch.open_posterior(tmp_path / "run.zarr")):
        found = remedies(posterior.info, posterior.betas, learns=True)
        assert found[-1] == "look for optima from more starts (update=ch.Collapsed(starts=6))"
    unknown = RunInfo(update_kind="Collapsed")
    assert "starts=64)" in remedies(unknown, np.ones(1), learns=True)[-1]
    assert sampled(THREE, {"update": "row"} | ALONE).info["starts"] is None


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
    words = ("auto", "larger blocks", "jumps be learned", "ladder with crossovers", "more rungs", "more draws")
    steps = re.findall(r"^\*\*(\d)\. (.*?)\*\*", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [(number, word in title) for (number, title), word in zip(steps, words, strict=True)] == [
        (str(i), True) for i in range(1, 7)
    ]
    part = replace(sampled(THREE, {"draws": 8}).summary().convergence[0], rhat_worst=1.4)
    posterior = sampled(THREE, CASES["rows one by one"][1])
    moves = remedies(posterior.info, posterior.betas, learns=False)
    found = what_to_try((part,), (), 4, 100, moves, modes_apart=False, warned=())
    assert [word in text for word, text in zip(words[:4] + words[5:], found, strict=True)] == [True] * 5
    moves = remedies(posterior.info, np.array([0.0, 1.0]), learns=False, rungs=9)
    found = what_to_try((part,), (), 4, 100, moves, modes_apart=False, warned=())
    assert [word in text for word, text in zip(words[:3] + words[4:], found, strict=True)] == [True] * 5


def test_page__says_what_remains_for_a_density():
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert 'what remains is the last step, and `exchange="swap"` where it makes crossovers' in text
    posterior = sampled(*CASES["a density on a ladder"][:2])
    assert remedies(posterior.info, posterior.betas, learns=False) == [SWAPS]


def test_page__has_the_limits_of_the_ladder():
    text = PAGE.read_text(encoding="utf-8")
    for words in (f"at most {UNBRIDGED}", f"worst rejection above {UNBRIDGED}", f"above {DISCONNECTED} swaps"):
        assert words in text


def stuck(**options):
    """The run of the page: it cannot go from one of two explanations to the other."""
    model = ch.FactorialHMM(
        rows=ch.Switches(enter=0.05, leave=0.05),
        emission=ch.Gaussian(weights=[0.21, 0.31, 0.48], depth=15.0, sd=1.0),
    )
    _, y = model.simulate(150, seed=4)
    options = {"draws": 200, "warmup": 50, "seed": 1, "progress": False, "update": "row"} | options
    return ch.sample(model, y, **options).summary()


@pytest.mark.parametrize("options", [ALONE, TWO_RUNGS, {"exchange": "swap", "ladder": [1, 5, 1e9]}])
def test_summary__of_a_stuck_run_states_each_remedy_once(options):
    found = stuck(**options)
    assert len(found.warnings) > 3
    assert found.remedies[0] == "let update='auto' choose"
    content = found.to_dict()
    for text in (str(found), "\n".join(found.told), "\n".join(content["warnings"] + content["remedies"])):
        plain = " ".join(text.split())
        for remedy in found.remedies:
            assert plain.count(remedy) == 1
        # The word before a bracket tells a way to try from the plan.
        named = re.findall(r"\b(?:update|exchange|ladder|draws|warmup|thin)=[^,);]*\)?", plain.partition("warning:")[2])
        assert len(re.findall(r"\bdraws=", plain)) <= 1, named
        assert len(re.findall(r"ladder=ch\.Ladder\.adapted\(\d", plain)) <= 1, named


def test_summary__of_a_good_run_has_nothing_to_try():
    found = stuck(update="exact", exchange=None)
    assert found.remedies == ()
    assert found.told == ()
    assert "What to try" not in str(found)


def test_what_to_try__asks_for_the_draws_that_serve_all_warnings():
    part = stuck(**ALONE).convergence[0]
    slow = [replace(part, rhat_worst=1.0, ess_worst=ess) for ess in (80.0, 40.0, float("nan"))]
    (text,) = what_to_try(slow, (), 4, 100, ["move"], modes_apart=False, warned=())
    assert text == "take about draws=1300, or thin=13 with as many draws as now"
    assert what_to_try(slow[2:], (), 4, 100, ["move"], modes_apart=True, warned=()) == ["move"]
    assert what_to_try(slow, (), 4, 3, ["move"], modes_apart=False, warned=()) == []


def test_what_to_try__swaps_of_vectors_even_where_chains_agree():
    part = replace(stuck(**ALONE).convergence[0], rhat_worst=1.0, ess_worst=40.0)
    found = what_to_try((part,), (), 4, 100, ["move", SWAPS], modes_apart=False, warned=())
    assert found == [SWAPS, "take about draws=1300, or thin=13 with as many draws as now"]
    fine = replace(part, ess_worst=4000.0)
    assert what_to_try((fine,), (), 4, 100, ["move", SWAPS], modes_apart=False, warned=()) == []


def test_remedies__of_a_density_with_crossovers_name_swaps():
    """Two modes of an Ising ring, with the default exchange of vectors."""

    def ising(x):
        return 0.6 * (x * np.roll(x, 1, axis=1)).sum(axis=1)

    update = ch.SiteGibbs(alphabet=(-1, 1))
    density = ch.Density(ising, size=12, init=np.ones(12, int), update=update)
    options = {"draws": 60, "warmup": 20, "chains": 4, "ladder": ch.Ladder.adapted(4)}
    found = sampled(density, options).summary()
    assert "Augmented" in found.run["exchange"]
    assert SWAPS in found.remedies
    assert "draws=" in found.remedies[-1]
    assert SWAPS not in sampled(density, options | {"exchange": "swap"}).summary().remedies


def test_what_to_try__does_not_repeat_what_the_ladder_was_warned_of():
    part = replace(stuck(**ALONE).convergence[0], rhat_worst=1.4)
    moves, warned = (
        ["use more rungs (ladder=ch.Ladder.adapted(6))"],
        ["rungs: use more rungs (ladder=ch.Ladder.adapted(9))"],
    )
    assert what_to_try((part,), (), 4, 100, moves, False, warned)[0] == "use more rungs, as told above"
    assert what_to_try((part,), (), 4, 100, moves, False, ())[0] == moves[0]


def test_wanted_rungs__only_where_rungs_are_far_apart():
    """Where rejection is fine more rungs would not help, however often they are doubled: longer runs do."""
    near = {"moves": np.array([9, 9]), "rejection": np.array([0.43, UNBRIDGED]), "length": np.array([0.43, 0.8])}
    assert wanted_rungs(near) is None
    assert wanted_rungs(near | {"rejection": np.array([0.43, 0.95]), "length": np.array([0.43, 3.0])}) == 8
    assert wanted_rungs(near | {"rejection": np.array([0.0, 0.95]), "length": np.array([0.0, 0.95])}) == 4
    assert wanted_rungs(near | {"moves": np.zeros(2, int), "rejection": np.ones(2)}) is None
    part = stuck(**ALONE).convergence[0]
    apart = replace(part, rhat_worst=1.4, ess_worst=200.0)
    assert what_to_try((apart,), (), 4, 1000, [], modes_apart=False, warned=())[0].startswith("warm up longer")
    fine = replace(part, rhat_worst=1.0, ess_worst=4000.0)
    assert what_to_try((fine,), (), 4, 1000, [], modes_apart=True, warned=()) == [
        "warm up longer (warmup=...) and take more draws (draws=2000)"
    ]


def test_remedies__of_a_density_with_fine_rejection_are_longer_runs():
    def two_hills(x):
        return np.logaddexp(-((x - 6) ** 2).sum(axis=1), -((x + 6) ** 2).sum(axis=1))

    def wide(x):
        return -((x / 10) ** 2).sum(axis=1)

    density = ch.Density(two_hills, size=2, init=[0.0, 0.0], update=ch.RandomWalk(scale=0.3), log_prior=wide)
    options = {"draws": 60, "warmup": 60, "chains": 4, "exchange": "swap", "ladder": ch.Ladder.adapted(8)}
    found = sampled(density, options).summary()
    assert found.run["hottest_beta"] == 0
    assert found.exchanges.worst_rejection < UNBRIDGED
    assert any("disagree" in text for text in found.warnings)
    (text,) = found.remedies
    assert text.startswith("warm up longer")

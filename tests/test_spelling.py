"""Messages say arguments in Python and options on the command line, and are written once."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import chiasma as ch
from chiasma.io.options import all_settings
from chiasma.io.signal import Signal
from chiasma.kernels.layout import make_layout
from chiasma.report.answers import answers
from chiasma.report.spelling import as_options, on_command_line
from chiasma.results.chain_modes import Apart, mode_warnings
from chiasma.results.convergence import Convergence
from chiasma.results.evidence import Evidence
from chiasma.results.misfit import Misfit
from chiasma.results.remedies import remedies, what_to_try
from chiasma.results.run_info import RunInfo
from chiasma.results.warnings import chain_warnings, evidence_warnings, ladder_warnings, misfit_warnings

SOURCE = Path(ch.__file__).parent
BAD_PART = Convergence(
    name="level", n=3, constant=0, stuck=1, disagree=2, rhat_worst=1.4, rhat_median=1.2, ess_worst=9.0, ess_median=20.0,
    worst_site=7,
)  # fmt: skip
BAD_FIT = Misfit(
    n=10_000, n_pairs=9_999, per_window=500, improbable=0.5, above=0.1, below=0.1, spread=2.0, autocorrelation=0.6,
    drift=2.0, drift_sites=(10, 20), worst_site=5,
)  # fmt: skip
STATS = {
    "moves": np.array([9, 9]),
    "rejection": np.array([0.99, 0.995]),
    "changed": np.array([0.0, 0.0]),
    "length": np.array([2.0]),
    "beta_low": np.array([0.0, 0.5]),
    "beta_high": np.array([0.5, 1.0]),
}


# Runs with all kinds of remedies: their rungs, and how they moved.
RUNS = (
    ([1.0], "RowGibbs"),
    ([0.2, 1.0], "RowGibbs"),
    ([1.0], "Collapsed"),
    ([1.0], None),
    ([0.2, 1.0], None),
    ([0.0, 0.2, 1.0], None),
)
APART = Apart(n=1, n_sites=9, site=7, chains=(0, 1), codes=(1, 2), shares=(1.0, 1.0))


def tried(moves, n_chains: int = 4) -> list[str]:
    return what_to_try((BAD_PART,), (), n_chains, 100, moves, modes_apart=True, warned=())


def warnings() -> list[str]:
    """Every warning, and every remedy, that names an argument."""
    found = chain_warnings((BAD_PART,), (), 1, 100)
    for betas, update in RUNS:
        info = RunInfo(update_kind=update, update_named=True, larger_blocks=3)
        moves = remedies(info, np.array(betas), learns=False, rungs=9)
        found += [*chain_warnings((BAD_PART,), (), 4, 100), *mode_warnings(APART, make_layout([2, 2])), *tried(moves)]
    slow = replace(BAD_PART, rhat_worst=1.0)
    return [
        *found,
        *what_to_try((slow,), (), 4, 100, (), modes_apart=False, warned=()),
        *evidence_warnings(Evidence(-3.0, 2.0), 100),
        *evidence_warnings(Evidence(-3.0, 2.0), 100, apart=True),
        *ladder_warnings(True, STATS),
        *misfit_warnings(BAD_FIT),
    ]


def flags(text: str) -> list[str]:
    return re.findall(r"--[a-z][a-z-]*", text)


def test_warnings__name_arguments_in_python_and_options_on_the_command_line():
    python = "\n".join(warnings())
    assert flags(python) == []
    spoken = as_options(python)
    known = {setting.flag for setting in all_settings()} | {"--learn"}
    assert set(flags(spoken)) <= known
    assert {"--draws", "--thin", "--chains", "--warmup", "--ladder", "--exchange", "--update", "--emission"} <= set(
        flags(spoken)
    )
    said = set(re.findall(r"--[\w-]+ [\w:-]+", spoken))
    assert {"--learn sd", "--learn weights", "--emission student-t", "--update collapsed:64", "--ladder auto"} <= said
    assert re.findall(r"\w+=|ch\.\w+", spoken) == []


def test_warnings__of_one_chain_expect_what_one_chain_can_have():
    (text,) = (text for text in chain_warnings((BAD_PART,), (), 1, 100) if text.startswith("few effective draws"))
    assert text.endswith("is 9 (median of 3 series: 20), expected at least 100")


def test_remedies__of_chains_that_disagree_are_options():
    moves = remedies(RunInfo(update_kind="RowGibbs", update_named=True, larger_blocks=3), np.ones(1), learns=False)
    assert [as_options(text) for text in tried(moves)] == [
        "let --update auto choose",
        "take larger blocks (--update block:3, --exchange none)",
        "let jumps be learned (--update jumps, --exchange none)",
        "add a ladder with crossovers (--exchange mosaic, --ladder auto)",
        "warm up longer (--warmup N) and take more draws (--draws 5600)",
    ]


@pytest.mark.parametrize("package", ["exact", "results", "sampling", "storage"])
def test_packages_of_the_library__never_say_options(package):
    """A message of these may reach somebody who never saw a command line."""
    for path in (SOURCE / package).glob("*.py"):
        if path.name == "findings.py":  # renders findings for the command line, too
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        said = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        assert [text for text in said if flags(text) and "[priors]" not in text] == [], path


def test_report__speaks_of_options():
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0]))
    found = ch.sample(model, [0.1, 1.0, 0.9], draws=20, seed=1, progress=False).summary()
    told = ("run chains=4", *misfit_warnings(BAD_FIT))
    signal = Signal(data=ch.Observations(np.zeros(100)), position=np.arange(100) * 60.0, zone="")
    bad = on_command_line(replace(found, misfit=BAD_FIT, warnings=told, remedies=("draws=9",)), signal)
    ladder = replace(found, run=found.run | {"plan": "10 replicas at first (exchange=None: one)"})
    assert on_command_line(ladder, signal).run["plan"] == "10 replicas at first (--exchange none: one)"
    assert bad.told[-1] == "what to try: --draws 9"
    assert "worst at site 5 (1970-01-01T00:05)" in " ".join(bad.warnings)
    assert "between sites 10 and 20 (1970-01-01T00:10/00:20) it is" in " ".join(bad.warnings)
    verdicts = answers(bad, (), (), str, str, (), "")
    texts = {one.answer: one.text for one in verdicts}
    assert texts["Distrust the sampling:"] == "run --chains 4"
    assert texts["What to do next:"].startswith("What to try: --draws 9. The probabilities below")
    assert sum(one.answer == "Distrust the model:" for one in verdicts) == len(misfit_warnings(BAD_FIT))
    assert "ch." not in " ".join(texts.values())

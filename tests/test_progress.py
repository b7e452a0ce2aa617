"""Progress where output is redirected: lines that say how far a run is, and none from a short run."""

import re

import numpy as np
import pytest

import chiasma as ch
from chiasma.sampling import progress
from chiasma.sampling.progress import COMPILING, FIRST_LINE, LogLines, Pace, Progress
from chiasma.storage.store import ZarrTrace

MODEL = ch.FactorialHMM(rows=ch.Switches(0.2, 0.2), emission=ch.Gaussian([1.0, 2.0]))


def sample(**options):
    return ch.sample(MODEL, np.zeros(20), update="row", exchange=None, warmup=50, chains=2, seed=1, **options)


def test_a_short_run_says_nothing(capfd):
    sample(draws=20)
    assert capfd.readouterr() == ("", "")


def test_a_long_run_says_how_far_it_is(capfd, monkeypatch):
    monkeypatch.setattr(progress, "FIRST_LINE", 0.0)
    monkeypatch.setattr(progress, "LONGEST_WAIT", 0.0)
    posterior = sample(draws=5_000)
    out, err = capfd.readouterr()
    first, *lines = err.splitlines()
    assert out == ""
    assert first == f"chiasma: {posterior.info['plan']}"
    shown = [re.fullmatch(r"chiasma: (warm-up|draws) ([\d,]+) of ([\d,]+) \((\d+)%\), \d+ s.*", line) for line in lines]
    assert lines
    assert all(shown)
    assert {found[3] for found in shown if found[1] == "draws"} <= {"10,000"}
    sample(draws=5_000, progress=False)
    assert capfd.readouterr() == ("", "")


def test_lines__waits_grow_to_a_limit(monkeypatch):
    monkeypatch.setattr(progress, "LONGEST_WAIT", 20.0)
    now, said = [0.0], []
    lines = LogLines("why", clock=lambda: now[0], write=said.append)
    lines.begin("draws", 100)
    told = []
    for second in range(1, 80):
        now[0] = float(second)
        before = len(said)
        lines.advance(1)
        lines.tell_if_due()
        told += [second] if len(said) > before else []
    assert told == [5, 15, 35, 55, 75]
    assert said[0] == "chiasma: why"
    assert said[1] == "chiasma: draws 5 of 100 (5%), 5 s, about 1 min 35 s left"


def test_lines__every_stage_is_told_soon():
    now, said = [0.0], []
    lines = LogLines("why", clock=lambda: now[0], write=said.append)
    lines.begin("warm-up", 100)
    for now[0] in range(100):
        lines.advance(1)
        lines.tell_if_due()
    lines.begin("draws", 100)
    n = len(said)
    for now[0] in range(100, 107):
        lines.advance(1)
        lines.tell_if_due()
    assert len(said) == n + 1
    assert said[-1].startswith("chiasma: draws ")


def test_lines__a_stage_that_has_only_begun_is_not_told():
    now, said = [6.0], []
    lines = LogLines("why", clock=lambda: now[0], write=said.append)
    now[0] = 12.0
    lines.begin("draws", 100)
    lines.tell_if_due()
    assert said == []
    now[0] = 18.0
    lines.tell_if_due()
    assert said[1] == f"chiasma: draws 0 of 100 (0%), 6 s, {COMPILING} (once per machine)"


def test_lines__a_resumed_run_counts_what_is_stored():
    """The time left follows from what was done since."""
    now, said = [0.0], []
    lines = LogLines("why", clock=lambda: now[0], write=said.append)
    lines.begin("draws", 100, 60)
    lines.advance(5)
    now[0] = 6.0
    lines.advance(5)
    lines.tell_if_due()
    assert said[1] == "chiasma: draws 70 of 100 (70%), 6 s, about 36 s left"


def seconds_left(n_chains, pieces, workers=1):
    """What is told after each piece (second, chain) of 10 draws, 100 per chain."""
    now, said = [0.0], []
    display = Progress(False, "why", 1)
    display._lines = LogLines("why", clock=lambda: now[0], write=said.append)
    display._lines.reason = None
    display.begin("draws", 100, n_chains, at_once=workers)
    for second, chain in pieces:
        now[0] = float(second)
        display._lines.advance(10, chain)
        display._lines.next = 0.0
        display._lines.tell_if_due()
    return [re.sub(r".*, (about (.*) left|time left not known yet)$", r"\2", text) for text in said]


def test_time_left__ignores_the_compilation_of_kernels():
    """A minute of compilation, then ten draws per second: the first estimate is seconds, not ten minutes."""
    assert seconds_left(1, [(60, 0), (61, 0), (62, 0)]) == ["", "8 s", "7 s"]


def test_time_left__waits_for_the_first_piece_of_every_chain():
    """Two chains compile at the same time: the second of them makes no pace of its own."""
    pieces = [(60, 0), (60.01, 1), (61, 0), (61.01, 1)]
    assert seconds_left(2, pieces)[:2] == ["", ""]
    assert seconds_left(2, pieces)[3] == "8 s"


def test_time_left__does_not_wait_for_chains_that_are_complete():
    display, said, now = Progress(False, "why", 1), [], [0.0]
    display._lines = LogLines("why", clock=lambda: now[0], write=said.append)
    display.begin("draws", 100, 2, [100, 60])
    for second in (6.0, 7.0):
        now[0] = second
        display._lines.advance(10, 1)
    display._lines.tell_if_due()
    assert said[1] == "chiasma: draws 180 of 200 (90%), 7 s, about 2 s left"


@pytest.mark.parametrize(("stage", "last", "of"), [("warm-up", "draws", " of this stage"), ("draws", "draws", "")])
def test_time_left__says_that_it_is_of_a_stage_where_others_follow(stage, last, of):
    display, said, now = Progress(False, "why", 1, last), [], [0.0]
    display._lines = LogLines("why", clock=lambda: now[0], write=said.append)
    display.begin(stage, 100, 1)
    for second in (6.0, 7.0):
        now[0] = second
        display._lines.advance(10, 0)
    display._lines.tell_if_due()
    assert said[1] == f"chiasma: {stage} 20 of 100 (20%), 7 s, about 8 s left{of}"


def test_time_left__of_tasks_that_are_done_at_once():
    """The first two tasks end together, after they were compiled; the next two take ten seconds."""
    pieces = [(60, None), (60.01, None), (70, None), (70.01, None)]
    assert seconds_left(0, pieces, workers=2)[:2] == ["", ""]
    assert seconds_left(0, pieces, workers=2)[3] == "30 s"


def test_time_left__becomes_less_while_a_piece_is_made():
    now = [0.0]
    pace = Pace(1, clock=lambda: now[0])
    for now[0] in (5.0, 15.0):
        pace.add(10)
    assert pace.seconds_for(20) == 20
    now[0] = 18.0
    assert pace.seconds_for(20) == 17
    now[0] = 99.0
    assert pace.seconds_for(20) == 0


def test_a_resumed_run_goes_on_counting(capfd, monkeypatch, tmp_path):
    sample(draws=4_000, store=tmp_path / "run.zarr")
    assert capfd.readouterr().err == ""
    monkeypatch.setattr(progress, "FIRST_LINE", 0.0)
    monkeypatch.setattr(progress, "LONGEST_WAIT", 0.0)
    sample(draws=5_000, store=tmp_path / "run.zarr", resume=True)
    first, *lines = capfd.readouterr().err.splitlines()
    assert first == "chiasma: resumed: 4,000 of 5,000 draws per chain are stored"
    shown = [re.search(r"draws ([\d,]+) of 10,000", line) for line in lines]
    counts = [int(found[1].replace(",", "")) for found in shown if found]
    assert counts
    assert min(counts) >= 8_000


def test_a_resumed_run_says_that_it_warms_up_again(capfd, monkeypatch, tmp_path):
    """Killed between the first draws of two chains: the second has nothing to go on from."""
    sample(draws=10, store=tmp_path / "run.zarr")
    assert capfd.readouterr().err == ""
    monkeypatch.setattr(ZarrTrace, "all_began", property(lambda trace: False))
    sample(draws=20, store=tmp_path / "run.zarr", resume=True)
    told = "chiasma: not all chains had stored draws when the run stopped: it warms up again"
    assert told in capfd.readouterr().err.splitlines()


def test_bars__of_a_resumed_run_begin_at_what_is_stored(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    display = Progress(True, "why", 1)
    display.resume(60, 100)
    display.begin("draws", 100, 2, [60, 70])
    assert [(task.completed, task.total) for task in display._bars.tasks] == [(60, 100), (70, 100)]
    display.close()


def test_bars__show_no_time_left_before_kernels_are_compiled(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    display = Progress(True, "why", 1)
    display.begin("pilot", 10)
    shown = []
    for now[0] in (60.0, 62.0):
        display.tick()
        shown.append(str(display._bars.columns[-1](display._bars.tasks[0])))
    display.close()
    assert shown == ["", "about 16 s left of this stage"]


def test_bars__say_that_kernels_may_be_compiling_while_nothing_is_done(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    display = Progress(True, "why", 1)
    display.begin("draws", 100, 2, [0, 100])
    texts = []
    for now[0] in (1.0, FIRST_LINE, 60.0):
        texts.append([str(display._bars.columns[-1](task)) for task in display._bars.tasks])
    display._paces[0].add(10)
    texts.append([str(display._bars.columns[-1](task)) for task in display._bars.tasks])
    display.close()
    assert texts == [["", ""], [COMPILING, ""], [COMPILING, ""], ["", ""]]


def test_lines__say_that_kernels_may_be_compiling_only_while_nothing_is_done():
    """A chain that goes on has its kernels, even where another has not begun."""
    now, said = [0.0], []
    lines = LogLines("why", clock=lambda: now[0], write=said.append)
    lines.begin("warm-up", 800, parts=4)
    now[0] = 75.0
    lines.tell_if_due()
    assert said[1] == "chiasma: warm-up 0 of 800 (0%), 1 min 15 s, kernels may be compiling (once per machine)"
    lines.advance(10, 0)
    now[0] = 200.0
    lines.tell_if_due()
    assert said[2].endswith("time left not known yet")

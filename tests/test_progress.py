"""Progress where output is redirected: lines that say how far a run is, and none from a short run."""

import re

import numpy as np

import chiasma as ch
from chiasma.sampling import progress
from chiasma.sampling.progress import Lines, Progress

MODEL = ch.FactorialHMM(chains=ch.BinaryChains(0.2, 0.2), emission=ch.Gaussian([1.0, 2.0]))


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
    lines = Lines("why", clock=lambda: now[0], write=said.append)
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


def test_lines__a_stage_that_has_only_begun_is_not_told():
    now, said = [6.0], []
    lines = Lines("why", clock=lambda: now[0], write=said.append)
    now[0] = 12.0
    lines.begin("draws", 100)
    lines.tell_if_due()
    assert said == []
    now[0] = 18.0
    lines.tell_if_due()
    assert said[1] == "chiasma: draws 0 of 100 (0%), 6 s"


def test_lines__a_resumed_run_counts_what_is_stored():
    """The time left follows from what was done since."""
    now, said = [0.0], []
    lines = Lines("why", clock=lambda: now[0], write=said.append)
    lines.begin("draws", 100, 60)
    lines.advance(10)
    now[0] = 6.0
    lines.tell_if_due()
    assert said[1] == "chiasma: draws 70 of 100 (70%), 6 s, about 18 s left"


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


def test_bars__of_a_resumed_run_begin_at_what_is_stored(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    display = Progress(True, "why", 1)
    display.resume(60, 100)
    display.begin("draws", 100, 2, [60, 70])
    assert [(task.completed, task.total) for task in display._bars.tasks] == [(60, 100), (70, 100)]
    display.close()

"""Gaps between sites: what counts as one, how they are told, and how long of a segment nothing was measured."""

from dataclasses import replace

import numpy as np
import pytest

import chiasma as ch
from chiasma.io.signal import Signal
from chiasma.report.report import find, write_report
from chiasma.results.spacing import BRIDGED, Spacing, site_ends

DAY = 1738562400.0  # 2025-02-03T06:00


def spacing(position, starts=(0,), seen=None, end=None):
    position, starts = np.asarray(position, float), np.array(starts)
    seen = np.ones(len(position), bool) if seen is None else seen
    return Spacing(position, site_ends(position, starts) if end is None else np.asarray(end, float), starts, seen)


def with_hole(n, width=1.0):
    """Ten sites in steps of `width`, n of which are left out after the fifth."""
    return width * np.r_[np.arange(5), np.arange(5 + n, 10 + n)]


def test_a_few_lines_that_are_left_out_are_no_gap():
    assert not spacing(with_hole(BRIDGED)).gaps.size
    assert spacing(with_hole(BRIDGED + 1, 0.1)).gaps == pytest.approx([0.1 * (BRIDGED + 1)])


def test_uneven_positions_have_no_gaps_but_those_that_stand_out():
    rng = np.random.default_rng(1)
    steps = rng.lognormal(0, 1.5, 5_000)
    assert np.mean(steps > 4 * np.median(steps)) > 0.1
    assert spacing(np.cumsum(steps)).gaps.size < 5
    steps[2_000] = 1e6
    assert spacing(np.cumsum(steps)).gaps.max() > 9e5


def test_sequences_and_ends_that_are_included_are_no_gaps():
    position = np.r_[np.arange(5), 1000.0 + np.arange(5)] * 10
    assert spacing(position, end=position + 9).gaps.tolist() == [9951.0]
    assert not spacing(position, starts=(0, 5), end=position + 9).gaps.size
    assert spacing(position, end=position + 9).longest(0, 5) == 0
    assert spacing(position, starts=(0, 5), end=position + 9).longest(0, 10) == 0


def test_longest__counts_missing_values_as_missing_lines():
    seen = np.ones(10, bool)
    seen[[0, 4, 5, 6]] = False
    known = spacing(np.arange(10) * 2.0, seen=seen)
    assert (known.longest(0, 10), known.longest(0, 4), known.longest(1, 4), known.longest(4, 7)) == (6, 2, 0, 6)
    assert spacing([3.0]).longest(0, 1) == 0


@pytest.mark.parametrize(
    ("zone", "told"), [("", "1 gap of 1 h 30 min"), (None, "1 gap of 5,400"), ("+02:00", "1 gap of 1 h 30 min")]
)
def test_in_words__one_gap(zone, told):
    signal = Signal(data=ch.Observations(np.zeros(10)), position=DAY + with_hole(180, 30.0), zone=zone, gap_unit=30.0)
    assert signal.in_words().startswith(f"10 sites, {told}, distances in steps of 30")


def test_in_words__several_gaps_and_none():
    position = np.r_[with_hole(10), 100 + with_hole(20)]
    signal = Signal(data=ch.Observations(np.zeros(20)), position=position)
    assert signal.in_words() == "20 sites, 3 gaps of up to 80"
    even = replace(signal, position=np.arange(20.0))
    assert even.in_words() == "20 sites"
    assert even.gap_text(0, 20) == ""


@pytest.fixture(scope="module")
def dated():
    """A row that is on before and after 90 minutes without data."""
    y = np.repeat([0.0, 5.0, 0.0], [5, 10, 5])
    position = DAY + 30.0 * np.r_[np.arange(10), 180 + np.arange(10, 20)]
    gaps = np.diff(position) / 30
    model = ch.FactorialHMM(rows=ch.Switches(0.001, 0.001), emission=ch.Gaussian([5.0], sd=0.5))
    signal = Signal(data=ch.Observations(y, gaps=gaps), position=position, zone="", axis="when")
    return ch.sample(model, signal.data, draws=50, chains=2, seed=1, progress=False), signal


def test_tables__have_the_gap_and_the_times_of_a_segment(dated, tmp_path):
    posterior, signal = dated
    write_report(posterior, signal, tmp_path, {}, tables_only=True)
    rows = [line.split("\t") for line in (tmp_path / "segments.tsv").read_text().splitlines()]
    columns = dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))
    assert columns["gap"] == ("0", "5400", "0")
    assert columns["start"][1] == "1738562550"
    assert columns["start_time"][1] == "2025-02-03T06:02:30"
    assert columns["end_time"][1] == "2025-02-03T07:37:30"
    states = [line.split("\t") for line in (tmp_path / "states.tsv").read_text().splitlines()]
    assert states[0][1:5] == ["start", "end", "start_time", "end_time"]
    assert states[2][3] == "2025-02-03T06:00:30"
    for table in ("states", "segments", "explanations"):
        header = (tmp_path / f"{table}.tsv").read_text().split("\n", 1)[0].split("\t")
        assert {"start_time", "end_time"} <= set(header)


def test_where__says_how_long_nothing_was_measured(dated):
    posterior, signal = dated
    found = find(posterior, signal)
    assert found.where(5, 15) == "2025-02-03T06:02:30/07:37 (1 h 30 min without data)"
    assert found.where(5, 10) == "2025-02-03T06:02:30/06:04:30"

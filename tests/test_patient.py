"""Samples of one patient: alignment, joint evidence, joint solutions of a small patient, and files that read back."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from chiasma.cli import app
from chiasma.datasets.tumours import simulate_patient, simulate_tumour
from chiasma.errors import InvalidInput
from chiasma.exact import inference as exact
from chiasma.kernels.copy_paths import forward
from chiasma.results.findings import Finding
from chiasma.tumour import Alleles, Bounds, solve
from chiasma.tumour.analysis import TumourSettings
from chiasma.tumour.bins import aligned, simulated_bins
from chiasma.tumour.exports import draws, joint_findings, write_patient
from chiasma.tumour.model import (
    CopyColumns,
    CopyEvidence,
    DepthNoise,
    TumourParameters,
    evidence_map,
    likelihoods,
    log_evidence,
    model_of,
    observations_of,
    runs_of,
    shared_states,
)
from chiasma.tumour.pieces import TumourData
from chiasma.tumour.polish import Coordinates
from chiasma.tumour.search import with_shared_cuts

KNOWN = [Bounds(clones=(2, 2), purity=purity, ploidy=(1.7, 2.3)) for purity in ((0.7, 0.9), (0.4, 0.6))]


# ---- The model -------------------------------------------------------------------------------------------------------


def columns(seed, alleles, n=6):
    """Pieces on two chromosomes with data of their own; one has no depth, another no alleles."""
    rng = np.random.default_rng(seed)
    depth = rng.uniform(0.4, 2.2, n)
    depth[seed % n] = np.nan
    p = np.linspace(0, 0.5, 21)
    table = -0.5 * ((p - rng.uniform(0.1, 0.5, n)[:, None]) / 0.04) ** 2 + rng.standard_normal((n, 1))
    table[-1] = np.nan
    return CopyColumns(
        depth=depth,
        sd=rng.uniform(0.03, 0.06, n),
        power=np.ones(n),
        table=table if alleles else np.empty((n, 0)),
        starts=np.array([0, 3]),
        middle=np.array([0.5, 2, 5, 6, 9, 11]) * 1e6,
        change_rate=1e-7,
        noise=DepthNoise(7.0, 0.5, 1.0 + 0.1 * seed, 0.02),
    )


@pytest.mark.jit_off
@pytest.mark.parametrize("alleles", [(True, True), (True, False)])
@pytest.mark.parametrize("fractions", [((), ()), ((0.3,), (0.9,)), ((0.3, 0.1), (0.0, 0.6))])
def test_evidence__of_several_samples_is_that_of_the_exact_passes(alleles, fractions):
    """Also where a clone is absent from a sample, and where one sample has no alleles."""
    pieces = [columns(seed, own) for seed, own in zip((1, 2), alleles, strict=True)]
    for doubled in (False, True):
        own = [
            TumourParameters(purity=purity, scale=scale, slack=slack, fractions=shares, doubled=doubled)
            for purity, scale, slack, shares in zip((0.6, 0.3), (0.9, 1.1), (0.02, 0.05), fractions, strict=True)
        ]
        expected = exact.log_evidence(model_of(pieces, own, 2), observations_of(pieces))
        assert log_evidence(pieces, own, 2) == pytest.approx(expected, abs=1e-9)
        if not doubled:
            # The samples are dependent through their clones.
            apart = sum(log_evidence((one,), (at,), 2) for one, at in zip(pieces, own, strict=True))
            assert abs(expected - apart) > 0.1


@pytest.mark.jit_off
def test_evidence__sums_over_all_paths():
    """By enumeration: two pieces, the states of one clone shared by two samples."""
    pieces = [replace(columns(seed, True), starts=np.array([0])) for seed in (3, 4)]
    pieces = [
        replace(one, **{name: getattr(one, name)[:2] for name in ("depth", "sd", "power", "table", "middle")})
        for one in pieces
    ]
    own = [TumourParameters(purity=0.6, scale=0.9, slack=0.02), TumourParameters(purity=0.2, scale=1.1, slack=0.02)]
    states = shared_states(pieces, False, 2)
    factors = [likelihoods(one, states, at) for one, at in zip(pieces, own, strict=True)]
    each = factors[0][0] * factors[1][0]
    stay, prior = pieces[0].stay[1], states.probabilities
    total = 0.0
    for a in range(states.n_states):
        for b in range(states.n_states):
            total += prior[a] * each[0, a] * (stay * (a == b) + (1 - stay) * prior[b]) * each[1, b]
    expected = np.log(total) + factors[0][1] + factors[1][1]
    assert log_evidence(pieces, own, 2) == pytest.approx(expected, abs=1e-9)
    none = np.empty((0, states.n_states))
    offset, ends = runs_of(np.array([0]), 2)
    found = forward(each, none, pieces[0].stay, prior, np.array([states.n_states]), np.empty(0), offset, ends)
    assert found == pytest.approx(np.log(total), abs=1e-9)


@pytest.mark.jit_off
def test_landscape__given_another_sample_is_the_joint_evidence():
    pieces = [columns(1, True), columns(2, True)]
    own = [TumourParameters(purity=0.6, scale=0.9, slack=0.02), TumourParameters(purity=0.3, scale=1.1, slack=0.02)]
    states = shared_states(pieces, False, 2)
    others, constant = likelihoods(pieces[0], states, own[0])
    at = np.array([own[1].purity]), np.array([own[1].scale])
    found = evidence_map(pieces[1], states, states.probabilities, (), *at, own[1].slack, others)[0, 0] + constant
    assert found == pytest.approx(log_evidence(pieces, own, 2), abs=1e-9)


def test_evidence__remembers_likelihoods_of_the_right_sample():
    pieces = [columns(1, True), columns(2, True)]
    evidence = CopyEvidence(pieces, 2, doubled=False)
    same = TumourParameters(purity=0.6, scale=0.9, slack=0.02)
    other = replace(same, purity=0.3)
    for own in ((same, same), (other, same), (same, other), (same, same)):
        assert evidence.at(own) == log_evidence(pieces, own, 2)


def test_shares__of_several_samples_are_uniform_over_all_clones():
    """Any clone may be absent. The prior of two subclones is that of the simplex: density 2, by the change of
    variables from the coordinates to the shares.
    """
    start = [
        TumourParameters(purity=0.5, scale=1.0, slack=0.01, fractions=shares) for shares in ((0.2, 0.5), (0.01, 0.98))
    ]
    line = Coordinates(tuple(start), [Bounds()] * 2)
    for own, given in zip(line.parameters(line.begin), start, strict=True):
        assert own.fractions == pytest.approx(given.fractions, abs=0.006)
    part, without = line.slices[0], Coordinates(tuple(replace(own, fractions=()) for own in start), [Bounds()] * 2)
    free, step = line.begin, 1e-6
    jacobian = np.empty((2, 2))
    for j in range(2):
        moved = free.copy()
        moved[part.start + 4 + j] += step
        jacobian[j] = np.subtract(line.parameters(moved)[0].fractions, line.parameters(free)[0].fractions) / step
    own = line._each[0]._log_prior_of_shares(free[part][4:])
    assert own == pytest.approx(np.log(2 * abs(np.linalg.det(jacobian))), abs=1e-4)
    assert len(without.begin) == 8


# ---- Alignment -------------------------------------------------------------------------------------------------------


def two_samples(n_bins=300, **known):
    truth = simulate_patient(4, 2, n_bins, purities=[0.8, 0.5], doubled=False, **known)
    return truth, [simulated_bins(one, name) for one, name in zip(truth, ("a", "b"), strict=True)]


def test_patient__simulated_samples_share_their_clones():
    truth, _ = two_samples(clones=2)
    alone = simulate_tumour(4, 300, purity=0.8, doubled=False, clones=2)
    assert np.array_equal(truth[0].depth, alone.depth)  # the first sample is the tumour of the same seed
    assert np.array_equal(truth[0].copies, truth[1].copies)
    assert truth[1].purity == pytest.approx(0.5)
    with pytest.raises(InvalidInput, match="one per sample, 3, got 2"):
        simulate_patient(1, 3, purities=[0.5, 0.4])
    with pytest.raises(InvalidInput, match="number of samples must be a whole number"):
        simulate_patient(1, 0)


def test_alignment__of_bins():
    _, (a, b) = two_samples(clones=1)
    assert aligned([a, b]) == [a, b]
    # Other chromosomes first, "chr" before them, and some bins less.
    order = np.concatenate([np.arange(100, 300), np.arange(40)])
    other = replace(b.taken(order), chromosome=np.array([f"chr{name}" for name in b.chromosome[order]]))
    one, two = aligned([a, other])
    assert (one.n_bins, two.n_bins) == (240, 240)
    assert np.array_equal(one.start, two.start)
    assert np.array_equal(two.depth[:40], b.depth[:40])
    assert np.all(np.diff(two.alleles.bin) >= 0)
    for place in (3, 150):
        before = b.alleles.a[b.alleles.bin == (place if place < 40 else place + 60)]
        assert np.array_equal(two.alleles.a[two.alleles.bin == place], before)
    assert one.notes[-1] == "left out, as not all samples have them: 60 bins"
    with pytest.raises(InvalidInput, match=r"have 0 bins in common, .*count the reads of all samples .* in the same"):
        aligned([a, replace(b, start=b.start + 7)])
    with pytest.raises(InvalidInput, match="several samples are called 'a'"):
        aligned([a, replace(b, sample="a")])
    with pytest.raises(InvalidInput, match="'b' has segments and the others have bins"):
        aligned([a, replace(b, segments=True).taken(np.arange(200))])
    with pytest.raises(InvalidInput, match="at least one sample, got none"):
        solve([])
    with pytest.raises(InvalidInput, match=r"one per sample \(2\), got 1"):
        solve([a, b], [Bounds()])


def test_alignment__of_segments():
    """Every segment is cut at the ends of those of other samples; what a part counts is in proportion."""
    _, (a, b) = two_samples(clones=1)

    def made(bins, edges, chromosome):
        n = len(edges) - 1
        units = Alleles(bin=np.arange(n), a=np.full(n, 30.0), b=np.full(n, 70.0), sites=np.full(n, 10.0))
        return replace(
            bins,
            chromosome=np.full(n, chromosome),
            start=np.array(edges[:-1]),
            end=np.array(edges[1:]),
            depth=np.arange(1.0, n + 1),
            weight=np.full(n, 100.0),
            alleles=units,
            segments=True,
        )

    one, two = aligned([made(a, [0, 40, 100], "1"), made(b, [10, 60, 100], "chr1")])
    assert one.start.tolist() == two.start.tolist() == [10, 40, 60]
    assert one.end.tolist() == [40, 60, 100]
    assert one.depth.tolist() == [1, 2, 2]
    assert two.depth.tolist() == [1, 1, 2]
    np.testing.assert_allclose(one.weight, [75, 100 / 3, 200 / 3])
    np.testing.assert_allclose(two.alleles.a, [18, 12, 30])
    assert two.alleles.bin.tolist() == [0, 1, 2]
    with pytest.raises(InvalidInput, match="no part of the genome in common"):
        aligned([made(a, [0, 40], "1"), made(b, [40, 60], "1")])


def test_pieces__are_shared():
    _, samples = two_samples(110, clones=2)
    alone = [TumourData.of(bins) for bins in samples]
    together = with_shared_cuts(alone)
    assert np.array_equal(together[0].cuts, together[1].cuts)
    for own in alone:
        assert np.isin(own.reference.cuts, together[0].cuts).all()
    assert np.array_equal(together[0].pieces.stay, together[1].pieces.stay)


# ---- Answers ---------------------------------------------------------------------------------------------------------


@cache
def patient():
    """Two clones, of which the second sample has only the subclone."""
    found = simulate_patient(21, 2, 110, purities=[0.8, 0.5], doubled=False, clones=2, noise=0.02, events=12)
    samples = [simulated_bins(one, name) for one, name in zip(found, ("primary", "relapse 1"), strict=True)]
    return found, samples


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    out = tmp_path_factory.mktemp("patient")
    truth, samples = patient()
    found = solve(samples, KNOWN, 3, workers=1)
    write_patient(found, out, {})
    return truth, found, out


def test_solve__samples_together(solved):
    truth, found, _ = solved
    assert found.samples == ["primary", "relapse 1"]
    assert not found.flat
    assert sum(one.probability for one in found.answers[0].solutions) == pytest.approx(1)
    for one, answer in zip(truth, found.answers, strict=True):
        first = answer.solutions[0]
        assert first.purity == pytest.approx(one.purity, abs=0.03)
        assert first.ploidy == pytest.approx(one.ploidy, abs=0.1)
        # Fractions of the clones, whichever of the two is called the main one.
        assert sorted(first.best.parameters.clone_fractions) == pytest.approx(sorted(one.fractions), abs=0.04)
        assert answer.together == ("primary", "relapse 1")
    # Copy numbers are shared.
    one, other = (answer.solutions[0].best for answer in found.answers)
    assert np.shares_memory(one.main, other.main)
    assert one.log_mass == other.log_mass
    drawn = draws(found.answers, 30, seed=1)
    assert (drawn.copies.shape, drawn.purities.shape) == ((30, 110), (2, 30))
    assert drawn.purities.mean(axis=1) == pytest.approx([0.8, 0.5], abs=0.05)


def test_files__of_a_patient_read_back(solved):
    truth, found, out = solved
    table = pd.read_csv(out / "solutions.tsv", sep="\t")
    assert table["sample"].tolist()[:2] == ["primary", "relapse 1"]
    assert len(table) == 2 * found.n_solutions
    assert table["probability"].sum() == pytest.approx(2, abs=1e-4)
    fractions = pd.read_csv(out / "clone_fractions.tsv", sep="\t")
    sums = fractions.groupby(["rank", "sample"])["fraction"].sum()
    np.testing.assert_allclose(sums, 1, atol=2e-4)
    clones = pd.read_csv(out / "solution_1" / "clones.tsv", sep="\t")
    own = pd.read_csv(out / "relapse_1" / "solution_1" / "segments.tsv", sep="\t")
    assert clones["main_state"].tolist() == own["main_state"].tolist()
    np.testing.assert_allclose(clones["depth_mean_relapse 1"], own["depth_mean"])
    drawn = np.load(out / "draws.npz")
    assert np.array_equal(drawn["copies"], np.load(out / "primary" / "draws.npz")["copies"])
    assert np.array_equal(drawn["purity"][1], np.load(out / "relapse_1" / "draws.npz")["purity"])
    content = json.loads((out / "summary.json").read_text())
    assert content["solutions"][0]["samples"]["primary"]["purity"] == pytest.approx(truth[0].purity, abs=0.03)
    assert content["samples"][1]["together"] == found.samples
    assert content["decision"] == content["samples"][0]["decision"]
    assert json.loads((out / "relapse_1" / "chiasma_mqc.json").read_text())["data"].keys() == {"relapse 1"}


def test_findings__of_several_samples_are_told_once():
    waves, clones = Finding("waves", "limited", {"share": 0.1}), Finding("most-clones", "limited", {"clones": 2})
    entries = [[{"findings": [waves, clones]}], [{"findings": [clones]}]]
    assert joint_findings(["a", "b"], entries) == [("a", waves), ("a, b", clones)]


def test_settings__one_entry_for_every_sample():
    settings = TumourSettings(purity="0.9,0.3-0.5", ploidy="1.5-3")
    settings.check()
    found = settings.bounds_of(2)
    assert [own.purity for own in found] == [(0.9, 0.9), (0.3, 0.5)]
    assert [own.ploidy for own in found] == [(1.5, 3.0)] * 2
    with pytest.raises(InvalidInput, match=r"one for each sample \(1\), got '0.9,0.3-0.5'"):
        settings.bounds_of(1)
    with pytest.raises(InvalidInput, match=r"within 0\.05-1, got '7'"):
        TumourSettings(purity="0.9,7").check()


def test_command__one_patient(tmp_path, monkeypatch, light_pictures):
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    shape = ["--seed", "4", "--sites", "66", "--clones", "1", "--not-doubled", "--sd", "0.02"]
    made = run(app, ["simulate", "p.bb", "--tumour", "--samples", "2", "--purity", "0.8,0.4", *shape])
    assert made.exit_code == 0, made.output
    assert "chiasma tumour p.bb --one-patient" in made.output
    truth = json.loads((tmp_path / "p.truth.json").read_text())["samples"]
    assert truth["p_2"]["purity"] == pytest.approx(0.4)
    given = ["--clones", "1", "--purity", "0.78-0.82,0.4", "--ploidy", "1.8-2.1", "--workers", "1", "--out", "answer"]
    done = run(app, ["tumour", "p.bb", "--one-patient", "--json", "--max-copies", "3", *given])
    assert done.exit_code == 0, done.output
    assert "p_2: measured again: alleles beta-binomial" in done.stderr
    first = json.loads(done.stdout)["solutions"][0]["samples"]
    assert first["p_2"]["purity"] == 0.4
    assert first["p_1"]["ploidy"] == pytest.approx(truth["p_1"]["ploidy"], abs=0.1)
    for name in ("figures/solution-1.png", "figures/clone-fractions.png", "p_2/figures/solution-1.png"):
        assert (tmp_path / "answer" / name).exists()
    page = (tmp_path / "answer" / "report.html").read_text()
    assert 'href="p_2/report.html"' in page
    assert "Solved together." in (tmp_path / "answer" / "p_1" / "report.html").read_text()
    assert (tmp_path / "answer" / "p_2" / "solutions.tsv").exists()
    for arguments, what in (
        (["tumour", "p.bb", "--one-patient", "--sample", "p_1"], "--one-patient needs two samples or more, got one"),
        (["tumour", "p.bb", "p.bb", "--one-patient"], "several samples are called 'p_1'"),
        (["tumour", "p.bb", "--sample", "p_1", "--sample", "x"], "p.bb has no sample 'x'; choose one of 'p_1', 'p_2'"),
        (["tumour", "p.bb", "p.bb", "--alleles", "p.bb"], "--alleles must be given once for every file, 2 times"),
        (["tumour", "p.bb", "--purity", "0.8,0.4"], "with --one-patient one for each sample (1), got '0.8,0.4'"),
        (["simulate", "q.bb", "--tumour", "--purity", "x"], "--purity takes a number, or one for every sample"),
        (["simulate", "q.tsv", "--samples", "2"], "describe a tumour; add --tumour"),
    ):
        failed = run(app, arguments)
        assert failed.exit_code == 2
        assert what in " ".join(failed.output.split())

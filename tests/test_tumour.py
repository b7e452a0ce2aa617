"""The tumour model: densities, priors, ranked solutions of small simulated tumours, and files that read back."""

import json
import re
import shlex
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import bioframe
import numpy as np
import pandas as pd
import pysam
import pytest
from markupsafe import escape
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy import integrate, stats
from typer.testing import CliRunner

from chiasma.cli import app
from chiasma.cli.printing import Voice
from chiasma.cli.tumour import SHOWN, Job, _region
from chiasma.cohort.workflow import result_of
from chiasma.datasets.tumours import simulate_tumour
from chiasma.errors import InvalidInput
from chiasma.exact import inference as exact
from chiasma.kernels.copy_number import add_alleles, add_counts, add_depth, add_fractions, or_outside
from chiasma.results.findings import message
from chiasma.tumour.analysis import TumourSettings, _what_is_written
from chiasma.tumour.bins import Alleles, simulated_bins
from chiasma.tumour.copy_states import LATE, CopyStates, learned, log_average
from chiasma.tumour.doubts import Decision, Misfit, better_fits
from chiasma.tumour.exports import (
    FLAT,
    GAIN,
    LOH,
    NEUTRAL,
    copy_probabilities,
    draws,
    file_name,
    solution_entries,
    solution_table,
    summary,
    write_patient,
)
from chiasma.tumour.figures import LOST, plot_genome, plot_landscape, plot_solutions, write_figures
from chiasma.tumour.genome import assembly, assembly_of, find_region
from chiasma.tumour.landscape import Bounds, survey
from chiasma.tumour.model import CopyColumns, DepthNoise, TumourParameters, log_evidence, model_of
from chiasma.tumour.noise import allele_table, nodes, reference
from chiasma.tumour.page import comparison, write_pages
from chiasma.tumour.pieces import TumourData, refined
from chiasma.tumour.pileups import NO_NORMAL
from chiasma.tumour.samples import read_samples
from chiasma.tumour.search import surveyed, with_measured_alleles
from chiasma.tumour.segments import expected_depth, segments
from chiasma.tumour.solutions import Patient, solve
from chiasma.tumour.tracks import NO_REFERENCE, RAW_COUNTS

ONE_CLONE = Bounds(clones=(1, 1), purity=(0.3, 0.9), ploidy=(1.3, 5.0))
TWO_CLONES = Bounds(clones=(2, 2), purity=(0.8, 0.8), ploidy=(1.5, 2.8))


def bins_of(tumour, alleles=True):
    bins = simulated_bins(tumour, sample="sim 1")
    return bins if alleles else replace(bins, alleles=None)


@cache
def tumour():
    return simulate_tumour(7, n_bins=700, purity=0.6, doubled=False, clones=1, events=14)


@cache
def answer():
    return solve([bins_of(tumour())], ONE_CLONE, workers=1).answers[0]


# ---- Densities -------------------------------------------------------------------------------------------------------


@pytest.mark.jit_off
def test_depth__is_students_t():
    y, sd, mu = np.array([0.8, np.nan, 1.4]), np.array([0.1, 0.1, 0.2]), np.array([0.5, 1.0])
    out = np.zeros((3, 2))
    add_depth(y, sd, mu, np.array([0.7, 1.0]), np.array([False, False]), 5.0, np.array([1.0, 1.0, 0.5]), 0.1, out)
    scale = np.sqrt((sd[:, None] * [0.7, 1.0]) ** 2 + (0.1 * mu) ** 2)
    expected = stats.t.logpdf(y[:, None], 5, mu, scale) * np.array([1, 1, 0.5])[:, None]
    np.testing.assert_allclose(out[[0, 2]], expected[[0, 2]])
    assert not out[1].any()


@pytest.mark.jit_off
def test_depth__of_an_amplified_state_integrates_to_one():
    def density(y):
        out = np.zeros((1, 1))
        add_depth(
            np.array([y]), np.array([0.2]), np.array([3.0]), np.ones(1), np.ones(1, bool), 5.0, np.ones(1), 0.0, out
        )
        return np.exp(out[0, 0])

    # The part far below 0 is that of the t: small, and finite data never reach it.
    low = integrate.quad(density, -60, 3, limit=200)[0]
    high = integrate.quad(lambda u: density(3 / u) * 3 / u**2, 1e-9, 1)[0]
    assert low + high == pytest.approx(1, abs=1e-4)


@pytest.mark.jit_off
def test_alleles__beta_binomial_and_linear_interpolation():
    nodes = np.linspace(0.002, 0.5, 201)
    table = np.zeros((1, 201))
    add_counts(np.array([0]), np.array([30.0]), np.array([70.0]), np.array([0]), nodes, 100.0, 0.0, 0.0, table)
    p = nodes[40]
    both = [stats.betabinom.logpmf(k, 100, 100 * p, 100 * (1 - p)) for k in (30, 70)]
    assert table[0, 40] == pytest.approx(np.log(0.5) + np.logaddexp(*both))
    # Sums of reads over many sites are beyond what is tabulated.
    many = np.zeros((1, 201))
    add_counts(np.array([0]), np.array([3e3]), np.array([7e3]), np.array([0]), nodes, 100.0, 0.0, 0.0, many)
    both = [stats.betabinom.logpmf(k, 10_000, 100 * p, 100 * (1 - p)) for k in (3000, 7000)]
    assert many[0, 40] == pytest.approx(np.log(0.5) + np.logaddexp(*both))
    out = np.zeros((1, 2))
    fraction = np.array([0.31234, 0.3])
    add_alleles(table, np.array([-7.0]), fraction, np.array([False, True]), out)
    expected = np.log(np.interp(0.31234, np.linspace(0, 0.5, 201), np.exp(table[0])))
    assert out[0] == pytest.approx([expected, -7.0], abs=1e-12)


def test_alleles__of_pieces_are_refined_by_cubics():
    """Exact for parabolas; a piece without alleles stays without."""
    p = np.linspace(0, 0.5, 201)
    table = np.vstack([-0.5 * ((p - 0.3) / 0.01) ** 2, np.full(201, np.nan)])
    fine = refined(table)
    np.testing.assert_allclose(fine[0], -0.5 * ((np.linspace(0, 0.5, 801) - 0.3) / 0.01) ** 2, atol=1e-9)
    assert np.isnan(fine[1]).all()
    assert refined(np.empty((2, 0))).shape == (2, 0)


@pytest.mark.jit_off
def test_alleles__mirrored_sites_have_the_moments_of_the_folded_normal():
    rng = np.random.default_rng(1)
    sites = rng.normal(0.5, 0.5 * np.sqrt(0.02), (20_000, 5))
    mirrored = np.minimum(sites, 1 - sites).mean(axis=1)
    nodes = np.linspace(0.002, 0.5, 51)
    table = np.zeros((1, 51))
    for fraction in mirrored[:400]:
        add_fractions(
            np.array([0]), np.array([fraction]), np.array([0.02]), np.array([5.0]), 0.0, nodes, 0.0, np.zeros(1), table
        )
    assert nodes[table[0].argmax()] > 0.45  # balanced, though the mean is below 1/2
    assert mirrored.mean() < 0.45
    one = np.zeros((1, 51))
    add_fractions(np.array([0]), np.array([0.3]), np.array([0.02]), np.array([1.0]), 0.0, nodes, 0.0, np.zeros(1), one)
    assert nodes[one[0].argmax()] == pytest.approx(0.3, abs=0.03)


@pytest.mark.jit_off
def test_alleles__a_site_may_be_homozygous():
    """Each site is heterozygous or not: a mixture of two densities, the second the same for every fraction."""
    nodes = np.array([0.002, 0.3])
    plain, mixed = np.zeros((1, 2)), np.zeros((1, 2))
    counts = (np.array([0]), np.array([1.0]), np.array([40.0]), np.array([0]), nodes, 100.0)
    add_counts(*counts, 0.0, 0.0, plain)
    add_counts(*counts, 0.25, 0.0, mixed)
    assert np.exp(mixed[0]) == pytest.approx(0.75 * np.exp(plain[0]) + 0.25 * np.exp(plain[0, 0]))
    plain, mixed = np.zeros((1, 2)), np.zeros((1, 2))
    units = (np.array([0]), np.array([0.04]), np.array([0.02]), np.array([1.0]), 0.0, nodes)
    add_fractions(*units, 0.0, np.zeros(1), plain)
    add_fractions(*units, 0.25, np.array([-1.5]), mixed)
    assert np.exp(mixed[0]) == pytest.approx(0.75 * np.exp(plain[0]) + 0.25 * np.exp(-1.5))


@pytest.mark.jit_off
def test_alleles__a_site_may_say_nothing_and_the_order_of_sites_does_not_matter():
    """An artefact has any number of reads of its total; equal counts are computed once, wherever they are."""
    p, astray = np.array([0.01, 0.3]), 0.1
    bins, a, b = np.array([0, 0, 1]), np.array([3.0, 5.0, 3.0]), np.array([9.0, 5.0, 9.0])
    expected = np.zeros((2, 2))
    for site, left, right in zip(bins, a, b, strict=True):
        alpha, beta = 50 * p, 50 * (1 - p)
        both = (stats.betabinom.pmf(k, left + right, alpha, beta) / 2 for k in (left, right))
        expected[site] += np.log((1 - astray) * sum(both) + astray / (left + right + 1))
    for order in ([0, 1, 2], [2, 0, 1]):
        table = np.zeros((2, 2))
        add_counts(bins, a, b, np.array(order), p, 50.0, 0.0, astray, table)
        np.testing.assert_allclose(table, expected)


@pytest.mark.jit_off
def test_outside__adds_a_uniform_part():
    out = np.log(np.array([[0.2, 0.4], [0.1, 0.1]]))
    or_outside(out, np.log(np.array([0.3, 0.3])), np.log(0.5), np.array([1.0, np.nan]))
    np.testing.assert_allclose(np.exp(out), [[0.4, 0.5], [1, 1]])


# ---- States and the model --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alleles", [True, False])
@pytest.mark.parametrize("doubled", [True, False])
def test_states__prior_is_parsimonious(alleles, doubled):
    states = CopyStates(most=4, alleles=alleles, doubled=doubled)
    assert states.probabilities.sum() == pytest.approx(1)
    assert states.change_probabilities.sum() == pytest.approx(1)
    assert np.all(states.probabilities > 0)
    best = states.pairs[states.probabilities.argmax()]
    assert sum(best) == (4 if doubled else 2)
    assert len(set(states.texts)) == states.n_states
    assert not any(text.isdecimal() for text in states.texts)


@pytest.mark.parametrize("alleles", [False, True])
def test_states__of_a_doubled_genome_are_early_ones_twice_and_late_changes(alleles):
    """By random genomes: an early state, doubled, and every allele that is left kept, lost or gained once."""
    states = CopyStates(most=4, alleles=alleles, doubled=True)
    pairs = [(a, b) for a in range(5) for b in range(a + 1)]
    weights = np.array([0.3 ** (abs(a - 1) + abs(b - 1)) * (0.02 if a == 0 else 1) for a, b in pairs])
    rng = np.random.default_rng(5)
    early = np.array(pairs)[rng.choice(len(pairs), 200_000, p=weights / weights.sum())]
    late = rng.choice([0, -1, 1], early.shape, p=LATE) * (early > 0)
    copies = np.sort(2 * early + late, axis=1)[:, ::-1]
    if not alleles:
        copies = np.stack([copies.sum(axis=1), np.zeros(len(copies), int)], axis=1)
    found = np.array([np.mean(np.all(copies == pair, axis=1)) for pair in states.pairs])
    expected = states.probabilities[:-1] / states.probabilities[:-1].sum()
    # Six standard deviations of a share: no false alarm in 10^7 runs.
    np.testing.assert_allclose(found / found.sum(), expected, atol=6 * 0.5 / np.sqrt(len(early)))


def test_state_prior__is_exact_where_every_state_has_one_way():
    states = CopyStates(most=3, alleles=True, doubled=False)
    path = [1, 1, 4, 1, 0]
    counts = np.bincount(path, minlength=states.n_states).astype(float)
    each = []
    for weight in (5.0, 10.0, 20.0, 40.0):
        mass, total = weight * states.probabilities, 0.0
        for s in path:
            total += np.log(mass[s] / mass.sum())
            mass[s] += 1
        each.append(total)
    assert log_average(states, counts) == pytest.approx(np.log(np.mean(np.exp(each))))


def test_state_prior__of_a_doubled_genome_is_a_near_bound_of_the_sum_over_hidden_ways():
    states = CopyStates(most=2, alleles=True, doubled=True)
    own, path = states.origins, [states.pairs.index(pair) for pair in ((2, 2), (2, 1), (2, 2), (3, 2), (1, 0))]
    counts = np.bincount(path, minlength=states.n_states).astype(float)
    total = -np.inf
    for ways in product(*(np.flatnonzero(own.state == s) for s in path)):
        early = np.bincount(own.source[list(ways)], minlength=len(own.early))
        at_weights = [dirichlet_multinomial(w * own.early, early) for w in (5.0, 10.0, 20.0, 40.0)]
        late = dirichlet_multinomial(10 * np.array(LATE), own.late[list(ways)].sum(axis=0))
        total = np.logaddexp(total, np.log(np.mean(np.exp(at_weights))) + late)
    assert total - 0.3 < log_average(states, counts) <= total + 1e-9


def dirichlet_multinomial(mass, counts):
    """log P(a sequence with these counts), one term at a time."""
    mass, total = mass.astype(float), 0.0
    for s, n in enumerate(counts.astype(int)):
        for _ in range(n):
            total += np.log(mass[s] / mass.sum())
            mass[s] += 1
    return total


def test_state_prior__learns_how_often_alleles_change_after_a_doubling():
    states = CopyStates(most=3, alleles=True, doubled=True)
    kept = np.zeros(states.n_states)
    kept[[states.pairs.index(pair) for pair in ((2, 2), (2, 0), (4, 2))]] = 40, 10, 10
    changed = np.zeros(states.n_states)
    changed[[states.pairs.index(pair) for pair in ((2, 1), (1, 0), (3, 2))]] = 40, 10, 10
    odd = [s for s, (a, b) in enumerate(states.pairs) if a % 2 or b % 2]
    assert (
        learned(states, kept)[odd].sum() < 0.15 < states.probabilities[odd].sum() < learned(states, changed)[odd].sum()
    )


def columns(alleles=False, n=7):
    """Pieces on two chromosomes; the first piece of the second has no depth, the last one no alleles."""
    rng = np.random.default_rng(3)
    depth = rng.uniform(0.4, 2.2, n)
    depth[3] = np.nan
    p = np.linspace(0, 0.5, 21)
    table = -0.5 * ((p - rng.uniform(0.1, 0.5, n)[:, None]) / 0.04) ** 2 + rng.standard_normal((n, 1))
    table[-1] = np.nan
    return CopyColumns(
        depth=depth,
        sd=rng.uniform(0.03, 0.06, n),
        power=np.ones(n),
        table=table if alleles else np.empty((n, 0)),
        starts=np.array([0, 3]),
        middle=np.cumsum(rng.uniform(0.5e6, 4e6, n)),
        change_rate=1e-7,
        noise=DepthNoise(7.0, 0.5, 1.0, 0.02),
    )


@pytest.mark.jit_off
@pytest.mark.parametrize("alleles", [False, True])
@pytest.mark.parametrize("fractions", [(), (0.3,), (0.3, 0.1)])
def test_evidence__is_that_of_the_exact_passes(alleles, fractions):
    """The fast kernel sums the same paths as the passes of the model, also where depth or alleles are missing."""
    pieces = columns(alleles)
    for doubled, scale in ((False, 0.9), (True, 0.5)):
        own = TumourParameters(purity=0.6, scale=scale, slack=0.02, fractions=fractions, doubled=doubled, foreign=0.03)
        expected = exact.log_evidence(model_of((pieces,), (own,), 2), pieces.observations)
        assert log_evidence((pieces,), (own,), 2) == pytest.approx(expected, abs=1e-9)


def test_evidence__needs_the_tails_of_pieces():
    pieces = replace(columns(), noise=DepthNoise(4.0, 0.5, 1.0, 0.02))
    with pytest.raises(ValueError, match="7 degrees of freedom, got 4"):
        log_evidence((pieces,), (TumourParameters(purity=0.6, scale=1.0, slack=0.02),), 2)


def test_landscape__is_the_evidence_of_states_that_are_more_alike():
    pieces = columns()
    states = pieces.states(False, 4)
    found = survey(pieces, states, Bounds(purity=(0.6, 0.6), ploidy=(1.5, 3.0)), workers=1)
    alike = states.probabilities**0.5
    j = len(found.scales) // 2
    own = TumourParameters(purity=0.6, scale=float(found.scales[j]), slack=0.015)
    assert log_evidence((pieces,), (own,), 4, alike / alike.sum()) == pytest.approx(found.log_evidence[0, j], abs=1e-9)


def test_subclone__cannot_lose_what_is_not_there():
    """Depth of no copy at all: a subclone that loses a copy of nothing would explain it otherwise."""
    pieces = columns()
    pure = model_of((pieces,), (TumourParameters(purity=1.0, scale=1.0, slack=0.02, fractions=(0.3,)),), 4)
    lost = pure.emission.log_likelihood(pieces.observations.y, np.array([[0.0, 0.0, 0.0], [-0.3, 0.0, 0.0]]))
    seen = ~np.isnan(pieces.depth)
    assert np.all(np.isfinite(lost[seen, 0]))
    assert np.all(lost[:, 1] == -np.inf)


# ---- What is known without a model -----------------------------------------------------------------------------------


def of_alleles(**alleles):
    """400 bins of one chromosome, half of them balanced and half with a minor allele of 0.2."""
    n = 400
    bins = bins_of(simulate_tumour(1, n_bins=n, clones=1, events=0))
    units = Alleles(bin=np.arange(n), sites=np.full(n, 9.0), **alleles)
    return replace(bins, chromosome=np.full(n, "1"), start=np.arange(n) * 10, end=np.arange(n) * 10 + 10, alleles=units)


TRUE_FRACTION = np.repeat([0.5, 0.2], 200)


def test_allele_table__fractions_without_counts():
    """B-allele fractions that were mirrored as means: the sharpest fraction of each half is the true one."""
    rng = np.random.default_rng(8)
    found = allele_table(of_alleles(baf=TRUE_FRACTION + 0.03 * rng.standard_normal(400)))
    # Bins of nine SNPs err by 0.03, so one of them by 0.09; levels of a grid are tried.
    assert found.noise == "normal, the fraction of one SNP with standard deviation 0.08"
    halves = np.add.reduceat(found.log_lik, [0, 200]).argmax(axis=1) / 400
    np.testing.assert_allclose(halves, [0.5, 0.2], atol=0.015)


def test_allele_table__sites_that_were_mirrored_one_by_one():
    """The smaller count first at every site, then added up: a balanced bin has less than 1/2, and is found to be it."""
    rng = np.random.default_rng(9)
    counts = rng.binomial(30, TRUE_FRACTION[:, None], (400, 9))
    smaller = np.minimum(counts, 30 - counts).sum(axis=1).astype(float)
    assert smaller[:200].mean() / 270 < 0.45
    found = allele_table(of_alleles(a=smaller, b=270 - smaller, mirrored=True))
    assert "sites mirrored one by one" in found.noise
    halves = np.add.reduceat(found.log_lik, [0, 200]).argmax(axis=1) / 400
    np.testing.assert_allclose(halves, [0.5, 0.2], atol=0.02)


def test_allele_table__homozygous_sites_say_nothing():
    """Two of three sites are homozygous, as on an array: the fractions of the others are found all the same."""
    rng = np.random.default_rng(10)
    homozygous = rng.random(400) < 0.65
    baf = np.abs(np.where(homozygous, 0.0, TRUE_FRACTION) + 0.02 * rng.standard_normal(400))
    bins = of_alleles(baf=np.where(rng.random(400) < 0.5, baf, 1 - baf))
    found = allele_table(replace(bins, alleles=replace(bins.alleles, sites=np.ones(400))))
    assert found.kind.homozygous in (0.5, 0.65, 0.8)
    assert "of sites homozygous" in found.noise
    halves = np.add.reduceat(found.log_lik, [0, 200]).argmax(axis=1) / 400
    np.testing.assert_allclose(halves, [0.5, 0.2], atol=0.02)


def test_response__of_an_array_is_found_and_made_linear():
    """The signals of an array grow like the 0.55th power of copies, and it tells alleles apart by their angle."""
    own = bins_of(tumour())
    share = own.alleles.b / (own.alleles.a + own.alleles.b)
    angle = 2 / np.pi * np.arctan((share / (1 - share)) ** 0.55)
    narrow = Bounds(purity=(0.55, 0.65), ploidy=(1.5, 2.5))
    for response in (1.0, 0.55):
        fractions = replace(own.alleles, a=None, b=None, baf=share if response == 1 else angle)
        bins = replace(own, depth=own.depth**response, alleles=fractions)
        found, heights = surveyed(TumourData.of(bins), 6, narrow, 1)
        np.testing.assert_allclose(found.bins.depth, own.depth)
        np.testing.assert_allclose(found.bins.alleles.baf, share)
        assert max(heights, key=heights.get) == response
        assert ("copies^0.55" in " ".join(found.bins.notes)) == (response < 1)
        given, heights = surveyed(TumourData.of(bins), 6, narrow, 1, "linear")
        assert list(heights) == [1.0]
        assert given.bins.depth is bins.depth


def test_measured_alleles__precision_is_that_of_the_simulation():
    """A first guess that is far off is corrected under an explanation; it is not changed where there are no alleles."""
    truth = tumour()
    mean = 2 * (1 - truth.purity) + truth.purity * truth.mean_copies.mean()
    own = TumourParameters(purity=truth.purity, scale=2 / mean, slack=0.005)
    wrong = TumourData.of(bins_of(truth)).with_allele_noise(400.0)
    found = with_measured_alleles(wrong, 6, [(0.0, (own,))])
    assert 110 < found.alleles.level < 200
    alone = TumourData.of(bins_of(truth, alleles=False))
    assert with_measured_alleles(alone, 6, [(0.0, (own,))]) is alone


def test_allele_table__a_stray_bin_does_not_move_the_others():
    """One balanced bin among those that lost an allele: without its own probability it would shift their fraction."""
    a = np.full(400, 4.0)
    a[200] = 50.0
    found = allele_table(of_alleles(a=a, b=100 - a))
    assert nodes()[found.log_lik[150:250].sum(axis=0).argmax()] == pytest.approx(0.04, abs=0.003)
    assert allele_table(replace(of_alleles(a=a, b=100 - a), alleles=None)) is None


def test_reference__of_few_bins_and_of_bins_that_err_together():
    bins = replace(bins_of(simulate_tumour(2, n_bins=600, clones=1, events=0)), alleles=None)
    alone = reference(bins)
    assert alone.inflation < 1.3
    rng = np.random.default_rng(4)
    waves = 1 + 0.1 * np.convolve(rng.standard_normal(604), np.ones(5) / np.sqrt(5), "valid")
    assert reference(replace(bins, depth=waves)).inflation > 2.5
    # The error of a mean of heavy-tailed bins is that of their standard deviation, not of the scale of a Student's t.
    heavy = reference(replace(bins, depth=1 + 0.05 * np.clip(rng.standard_t(3, 600), -6, 6)))
    assert heavy.clipped_sd > 1.2 * heavy.sd
    assert heavy.clipped_sd == pytest.approx(0.05 * np.clip(rng.standard_t(3, 10**5), -4, 4).std(), rel=0.15)
    few = bins.chosen(np.arange(600) < 3)
    assert reference(few).change_rate > 0


def test_misfit__findings():
    found = Misfit(above=0.02, outliers=0.2, unexplained=0.3, autocorrelation=0.4, waves=0.08).findings(rank=2)
    assert [one.code for one in found] == ["amplified", "between-levels", "far-bins", "waves"]
    assert found[1].facts == {"share": 0.3, "rank": 2}
    # Waves correlate neighbours: one finding is enough.
    (alone,) = Misfit(above=0, outliers=0, unexplained=0, autocorrelation=0.4, waves=0).findings()
    assert (alone.code, alone.facts) == ("correlated-bins", {"r": 0.4})
    assert not Misfit(above=0, outliers=0, unexplained=0, autocorrelation=0, waves=0).findings()


# ---- Answers ---------------------------------------------------------------------------------------------------------


def test_solve__finds_purity_ploidy_and_copies():
    found, truth = answer(), tumour()
    first = found.solutions[0]
    assert not found.flat
    assert first.purity == pytest.approx(truth.purity, abs=0.03)
    assert first.ploidy == pytest.approx(truth.ploidy, abs=0.1)
    assert sum(one.probability for one in found.solutions) == pytest.approx(1)
    assert any(one.doubled > 0.5 for one in found.solutions)  # the double is listed, too
    copies = copy_probabilities(found).argmax(axis=1)
    assert np.mean(copies == truth.copies[0].sum(axis=0)) > 0.97
    drawn = draws((found,), 20, seed=1)
    assert (drawn.copies.shape, len(drawn.solution), drawn.purities.shape) == ((20, 700), 20, (1, 20))


def test_solve__segments_of_another_program():
    """Every difference between neighbouring segments is a change, not noise: purity and ploidy are found from few."""
    truth = tumour()
    bins = bins_of(truth, alleles=False)
    new = np.append(True, np.any(np.diff(truth.copies[0], axis=1) != 0, axis=0))
    new[bins.starts] = True
    cuts = np.flatnonzero(new)
    size = np.diff(cuts, append=bins.n_bins).astype(float)
    made = replace(
        bins.chosen(new),
        end=bins.end[np.append(cuts[1:], bins.n_bins) - 1],
        depth=np.add.reduceat(bins.depth, cuts) / size,
        weight=size,
        segments=True,
    )
    found = solve([made], ONE_CLONE, workers=1).answers[0]
    assert len(cuts) < 60
    assert not found.flat
    near = [one for one in found.solutions[:3] if abs(one.purity - truth.purity) < 0.05]
    assert near[0].ploidy == pytest.approx(truth.ploidy, abs=0.15)


def test_solve__a_flat_profile_says_so(tmp_path, light_pictures):
    flat = simulate_tumour(5, n_bins=400, purity=0.7, doubled=False, clones=1, events=0)
    found = solve([bins_of(flat, alleles=False)], ONE_CLONE, workers=1).answers[0]
    assert found.flat
    write_figures(Patient(answers=(found,)), tmp_path, None)
    write_pages(Patient(answers=(found,)), tmp_path)
    assert FLAT.capitalize() in (tmp_path / "report.html").read_text()
    content = summary(found)
    assert (content["verdict"], content["purity"]) == (FLAT, None)
    # Two copies everywhere are as good, so no solution has a probability: not in the tables, nor on the page.
    assert all("probability" not in entry for entry in content["solutions"])
    assert "probability" not in solution_table(found)[0]
    assert "probability" not in (tmp_path / "report.html").read_text().split("<table")[1].split("</tr>")[0]


def test_findings__the_first_says_what_the_depth_lacks():
    found = answer()
    for lacking, code in (
        (RAW_COUNTS, "raw-counts"),
        (NO_REFERENCE, "no-reference"),
        (NO_NORMAL, "sites-alone"),
    ):
        raw = replace(found, data=replace(found.data, bins=replace(found.bins, lacking=lacking)))
        assert solution_entries(raw)[0]["findings"][0].code == code
        assert code not in {one.code for one in solution_entries(found)[0]["findings"]}


def test_files__read_back(tmp_path):
    found = answer()
    write_patient(Patient(answers=(found,)), tmp_path, {}, known=assembly("hg38"))
    written = [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()]
    assert all((tmp_path / name).exists() for name in written)
    solutions = pd.read_csv(tmp_path / "solutions.tsv", sep="\t")
    assert solutions["probability"].sum() == pytest.approx(1, abs=1e-4)
    table = pd.read_csv(tmp_path / "solution_1" / "segments.tsv", sep="\t")
    assert pd.api.types.is_string_dtype(table["main_state"])
    assert (table["main_major"] + table["main_minor"] == table["main_total"]).all()
    bed = bioframe.read_table(tmp_path / "solution_1" / "sim_1.bed", schema="bed9", skiprows=1, dtype={"chrom": str})
    assert len(bed) == len(table)
    assert bioframe.is_bedframe(bed)
    seg = pd.read_csv(tmp_path / "solution_1" / "sim_1.seg", sep="\t")
    assert list(seg.columns) == ["ID", "chrom", "loc.start", "loc.end", "num.mark", "seg.mean"]
    with pysam.VariantFile(str(tmp_path / "solution_1" / "sim_1.vcf")) as vcf:
        records = list(vcf)
        assert "##fileformat=VCFv4.4" in str(vcf.header)
        lengths = {name: contig.length for name, contig in vcf.header.contigs.items()}
    altered = table[table["main_state"] != "1+1"]
    assert len(records) == len(altered)
    assert lengths == {name: assembly("hg38").lengths[name] for name in found.bins.chromosomes}
    ends = np.minimum(altered["end"], [lengths[str(name)] for name in altered["chromosome"]])
    assert [record.stop for record in records] == ends.tolist()
    totals = altered["main_total"].tolist()
    assert [record.alts[0] for record in records] == [
        "<CNV>" if n == 2 else "<DUP>" if n > 2 else "<DEL>" for n in totals
    ]
    lost = ((altered["main_minor"] == 0) & (altered["main_major"] > 0)).tolist()
    assert [record.info["LOH"] for record in records] == lost
    assert any(lost)
    colours = dict(zip(table["main_state"], bed["itemRgb"], strict=True))
    assert {colours[state] for state in altered["main_state"][lost]} == {LOH}
    assert {GAIN, NEUTRAL} <= set(colours.values())
    assert [record.samples[0]["CN"] for record in records] == altered["main_total"].tolist()
    content = json.loads((tmp_path / "summary.json").read_text())
    assert content["solutions"][0]["purity"] == pytest.approx(found.solutions[0].purity)
    assert json.loads((tmp_path / "chiasma_mqc.json").read_text())["data"].keys() == {"sim 1"}
    assert np.load(tmp_path / "draws.npz")["copies"].shape == (200, 700)
    assert solution_table(found)[0][0] == "rank"


def test_files__every_column_is_on_the_page_of_tables(tmp_path, two_clones):
    page = (Path(__file__).parents[1] / "docs/how-to/tables.md").read_text(encoding="utf-8")
    _, _, page = page.partition("\n## Tables of a tumour\n")
    answers = {"alleles": answer(), "clones": two_clones[1]}
    for name, found in answers.items():
        write_patient(Patient(answers=(found,)), tmp_path / name, {})
    for file in ("solutions.tsv", "solution_1/segments.tsv", "bins.tsv"):
        _, _, section = page.partition(f"\n### {Path(file).name} of a tumour\n")
        lines = [line for line in section.partition("\n#")[0].splitlines() if line.startswith("| `")]
        told = {name for line in lines for name in re.findall(r"`(\w+)`", line.split("|")[1])}
        written = {column for name in answers for column in pd.read_csv(tmp_path / name / file, sep="\t").columns}
        written = {re.sub(r"^(main|subclone_\d)_", "CLONE_", re.sub(r"^p_cn\d+$", "p_cnN", one)) for one in written}
        assert told - written == ({"sample"} if file == "solutions.tsv" else set())  # of patients
        assert written <= told


def test_figures__are_drawn(tmp_path):
    write_figures(Patient(answers=(answer(),)), tmp_path, assembly("hg38"))
    written = list((tmp_path / "figures").iterdir())
    assert all(path.stat().st_size > 10_000 for path in written)


def test_figures__segments_and_chromosomes_are_few_artists():
    """Where they belong, and with limits that only the data have set."""
    found, fig = answer(), Figure()
    own = found.solutions[0].best
    plot_genome(found, found.solutions[0], assembly("hg38"), fig)
    depth, _, clones = fig.axes
    parts = segments(found.data, own)
    levels, borders = (one for one in depth.collections if isinstance(one, LineCollection))
    expected = expected_depth(own)
    wanted = {round(float(expected[one.first : one.stop].mean()), 9) for one in parts}
    assert {round(float(line[0, 1]), 9) for line in levels.get_segments()} == wanted
    assert len(borders.get_segments()) == len(found.bins.chromosomes) - 1
    assert all((line[0, 0], line[0, 1], line[1, 1]) == (line[1, 0], 0, 1) for line in borders.get_segments())
    assert len(depth.lines) < 20  # those at whole copies
    bars, *_, centromeres = clones.collections
    assert len(bars.get_paths()) >= len(parts)
    assert len(centromeres.get_paths()) == len(found.bins.chromosomes)
    assert depth.get_ylim()[0] == 0
    assert clones.get_ylim() == (0.5, -0.5)


@pytest.fixture(scope="module")
def two_clones():
    """A tumour whose subclone differs, solved with its purity known."""
    truth = simulate_tumour(21, n_bins=300, purity=0.8, doubled=False, clones=2, events=12, noise=0.03)
    return truth, solve([bins_of(truth)], TWO_CLONES, workers=1).answers[0]


def legend_of(legend):
    """Texts of a legend with the colours that they explain."""
    handles = zip(legend.get_texts(), legend.legend_handles, strict=True)
    return {
        text.get_text(): to_hex(one.get_color() if isinstance(one, Line2D) else one.get_facecolor())
        for text, one in handles
    }


def test_figures__points_and_bars_have_the_colours_of_one_legend(two_clones):
    for found in (answer(), two_clones[1]):
        fig = Figure()
        best = found.solutions[0].best
        plot_genome(found, found.solutions[0], None, fig)
        depth, *_, clones = fig.axes
        colours = legend_of(clones.get_legend())
        drawn = [one for one in depth.collections if isinstance(one, PathCollection) and len(one.get_offsets())]
        points = np.concatenate([one.get_facecolors() for one in drawn])
        below = found.bins.depth <= depth.get_ylim()[1]
        order = np.append(np.flatnonzero(below), np.flatnonzero(~below))  # those above the axis are drawn last
        parts = {t: one for one in segments(found.data, best) for t in range(one.first, one.stop)}
        assert len(points) == len(order)
        for t, colour in zip(order, points, strict=True):
            copies = int(parts[t].copies + 0.5)
            assert to_hex(colour) == colours["8+" if copies >= 8 else str(copies)]
        bars = clones.collections[: 2 * best.parameters.n_clones]  # and what they have lost
        drawn = {to_hex(colour) for bar in bars for colour in bar.get_facecolors()}
        assert drawn <= set(colours.values())
        lost = any(clone.lost for one in parts.values() for clone in one.clones)
        assert (colours[LOST] in drawn) == lost
        assert "mean of the tumour cells" in clones.get_legend().get_title().get_text()


def test_figures__the_legend_of_all_solutions_says_what_is_a_gain(two_clones):
    _, found = two_clones
    fig = Figure()
    plot_solutions(found, found.solutions[:1], None, fig)
    (legend,) = fig.legends
    meaning = {colour: text for text, colour in legend_of(legend).items()}
    levels = next(one for one in fig.axes[0].collections if isinstance(one, LineCollection))
    told = set()
    for line, colour in zip(levels.get_segments(), levels.get_colors(), strict=True):
        text, copies = meaning[to_hex(colour)], line[0, 1]
        told.add(text)
        if "minor allele" in text:
            assert copies >= 1.95
        else:
            assert text.startswith("two copies" if abs(copies - 2) <= 0.05 else "more" if copies > 2 else "fewer")
    assert len(told) > 2
    assert legend.get_title().get_text() == "bars: mean copies per tumour cell"


def test_figures__the_landscape_marks_solutions_whose_fit_it_does_not_show(two_clones):
    for found, marker, told in ((answer(), "o", "one clone"), (two_clones[1], "s", "several clones, whose fit")):
        fig = Figure()
        plot_landscape(found, fig)
        shown = [one.parameters.n_clones for one in (solution.best for solution in found.solutions[:3])]
        assert {line.get_marker() for line in fig.axes[0].lines} == {"o" if n == 1 else "s" for n in shown} == {marker}
        (text,) = fig.legends[0].get_texts()
        assert text.get_text().startswith(f"solution of {told}")


def test_segments__name_the_state_of_every_clone(two_clones):
    truth, found = two_clones
    best = found.solutions[0].best
    parts = segments(found.data, best)
    assert best.parameters.purity == 0.8
    assert {len(one.clones) for one in parts} == {2}
    copies = np.concatenate([np.full(one.stop - one.first, one.clones[1].total) for one in parts])
    assert np.mean(copies == truth.copies[1].sum(axis=0)) > 0.9
    differing = [one for one in parts if one.clones[0] != one.clones[1]]
    assert differing
    assert all(one.clones[1].text == f"{one.clones[1].major}+{one.clones[1].minor}" for one in differing)


def found_in(answer):
    """Findings about the first solution, by code."""
    return {one.code: one for one in solution_entries(answer)[0]["findings"]}


def test_findings__probabilities_hold_for_so_many_clones(two_clones, monkeypatch):
    _, found = two_clones
    bound = found_in(found)["most-clones"]
    assert bound.facts == {"clones": 2}
    assert bound.remedies[0].option("--clones") == "--clones 1-3"
    # Nothing to try: more were allowed, one clone was enough, there is no signal at all, or the search can do no more.
    assert "most-clones" not in found_in(replace(found, bounds=replace(found.bounds, clones=(1, 3))))
    assert "most-clones" not in found_in(answer())
    flat = found_in(replace(found, flat=True))
    assert "most-clones" not in flat
    assert flat["flat"].severity == "none"
    monkeypatch.setattr("chiasma.tumour.doubts.MOST_CLONES", 2)
    assert "most-clones" not in found_in(found)


def test_findings__clones_that_are_the_same(two_clones):
    _, found = two_clones
    (first, *others) = found.solutions
    best = first.best
    assert "equal-clones" not in found_in(found)

    def with_changes(*changes):
        shares = (0.2,) * len(changes)
        other = replace(best, changes=changes, parameters=replace(best.parameters, fractions=shares))
        return replace(found, solutions=(replace(first, explanations=(other,), shares=np.ones(1)), *others))

    nowhere = np.zeros_like(best.changes[0])
    nowhere[:, 0] = 1
    same = found_in(with_changes(nowhere))
    assert same["equal-clones"].facts == {"first": "main", "second": "subclone_1"}
    assert same["equal-clones"].remedies[0].option("--clones") == "--clones 1"
    # More clones are not what such an explanation needs.
    assert "most-clones" not in same
    same = found_in(with_changes(best.changes[0], best.changes[0]))
    assert same["equal-clones"].facts == {"first": "subclone_1", "second": "subclone_2"}


def test_page__says_whether_fit_or_plausibility_decide(two_clones):
    entries = solution_entries(answer())
    assert "plausib" in comparison(entries)
    assert comparison(entries[:1]) == "There is no other solution."
    # A lead in fit that is not clear does not become one of the prior.
    fits = [{"rank": i, "log_likelihood": fit, "log_mass": -5.0 * i} for i, fit in enumerate([10, 8, 11, 31], start=1)]
    (found,) = better_fits(fits)
    assert found.facts == {"rank": 4, "fit": -21.0, "plausibility": 36.0}
    assert better_fits(fits[:3]) == better_fits(fits[:1]) == []
    by = [Decision(10.0, 2.0).by, Decision(2.0, -1.0).by, Decision(-10.0, 15.0).by]
    assert by == ["data", "neither", "prior"]


def test_findings__of_a_prior_that_decides_are_in_all_files(two_clones, tmp_path, light_pictures):
    """In every place that people and programs look at."""
    _, found = two_clones
    first = found.solutions[0]

    def rival(fit, mass):
        likelihood = first.best.log_likelihood - fit * found.tempered
        other = replace(first.best, log_likelihood=likelihood, log_mass=first.best.log_mass - mass)
        few = (first, replace(first, explanations=(other,), shares=np.ones(1), probability=1e-9))
        return replace(found, solutions=few)

    usual = rival(0.7, 20.0)
    decides = found_in(usual)["prior-decides"]
    assert decides.facts == {"rank": 2, "fit": pytest.approx(0.7), "plausibility": pytest.approx(19.3)}
    assert "prior-decides" not in {one.code for one in solution_entries(usual)[1]["findings"]}
    assert "prior-decides" in list(next(iter(solution_table(usual)[1])))[-1].split()
    content = summary(usual)
    assert content["decision"] == {"by": "prior", "fit": pytest.approx(0.7), "plausibility": pytest.approx(19.3)}
    assert content["trust"] == "limited"
    assert "prior-decides" in [one["code"] for one in content["solutions"][0]["findings"]]
    assert "prior-decides" in result_of(usual, seed=0).findings
    write_figures(Patient(answers=(usual,)), tmp_path, None)
    write_pages(Patient(answers=(usual,)), tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert str(escape(message(decides))) in page
    assert "Trust: limited." in page
    assert "of the mean depth" in page
    assert f"alleles {usual.data.alleles.noise}" in page
    # Not where the data decide, where neither does, or where there is no signal.
    for other in (rival(10.0, 20.0), rival(1.0, 2.0), replace(usual, flat=True)):
        assert "prior-decides" not in found_in(other)


def test_samples__of_a_file_and_what_does_not_belong_to_them(tmp_path):
    lines = [f"{c}\t{i * 1000}\t{i * 1000 + 1000}\t{{}}\t1\t9\t30\t5\t4\t0.4\n" for c in (1, 2) for i in range(15)]
    head = "#CHR\tSTART\tEND\tSAMPLE\tRD\t#SNPS\tCOV\tALPHA\tBETA\tBAF\n"
    path = tmp_path / "two.bb"
    path.write_text(head + "".join(line.format(name) for name in ("a", "b/c") for line in lines))
    found = read_samples(path)
    assert [(bins.sample, file_name(bins.sample)) for bins in found] == [("a", "a"), ("b/c", "b_c")]
    with pytest.raises(InvalidInput, match=r"has 2 samples and .* 2; choose one with --sample"):
        read_samples(path, alleles=path)
    assert read_samples(path, sample="a", alleles=path)[0].alleles.n_units == 30
    path.write_text(head + "".join(line.format("a") for line in lines[:9]))
    with pytest.raises(InvalidInput, match="has 9 bins of sample 'a'; a tumour needs at least 20"):
        read_samples(path)
    wig = tmp_path / "counts.wig"
    wig.write_text("fixedStep chrom=1 start=1 step=1000\n" + "".join(f"{90 + i % 7}\n" for i in range(60)))
    content = tmp_path / "gc.wig"
    content.write_text("fixedStep chrom=1 start=1 step=1000\n" + "".join(f"0.4{i % 7}\n" for i in range(60)))
    (corrected,) = read_samples(wig, gc=content)
    assert any("corrected for GC content" in text for text in corrected.notes)
    assert np.nanstd(corrected.depth) < 0.5 * np.std(90 + np.arange(60) % 7) / 93


@pytest.mark.slow
def test_analyse__regions_and_impossible_bounds(tmp_path, light_pictures):
    small = bins_of(simulate_tumour(3, n_bins=300, purity=0.8, doubled=False, clones=1), alleles=False)
    near = {"purity": "0.4-0.9", "ploidy": "1.5-4.5", "clones": "1"}
    TumourSettings(region=["8q", "1:10-60Mb"], **near).solve([small], tmp_path / "a", workers=1)
    assert (tmp_path / "a" / "figures" / "region-8q.png").exists()
    text = (tmp_path / "a" / "report.html").read_text()
    assert "Depth alone." in text
    assert text.count("<img ") >= 3
    nothing = TumourSettings(purity="0.1-0.12", ploidy="7.9-8", clones="1")
    with pytest.raises(InvalidInput, match="widen --purity or --ploidy"):
        nothing.solve([small], tmp_path / "b", workers=1)


# ---- Coordinates and the command -------------------------------------------------------------------------------------


def test_regions__by_position_and_band():
    bins = bins_of(tumour())
    known = assembly_of(bins)
    assert known.name == "hg38"
    for text, start, end in (("8:100-120Mb", 100e6, 120e6), ("chr8:100,000,000-120,000,000", 100e6, 120e6)):
        region = find_region(bins, text, known)
        assert (region.chromosome, region.start, region.end) == ("8", start, end)
    arm, band = find_region(bins, "8q", known), find_region(bins, "8q24", known)
    assert 43e6 < arm.start < 48e6 < 115e6 < band.start < 120e6
    assert find_region(bins, "8", known).first == find_region(bins, "8:0-1Mb", known).first
    for text, what in {
        "chr40": "there is no chromosome 'chr40'",
        "8q99": "has no band 'q99'",
        "8:5-3Mb": "ends before it begins",
        "8:x": "is not a region; write 8:100-120Mb",
        "8:900-901Mb": "there is no bin in",
    }.items():
        with pytest.raises(InvalidInput, match=re.escape(what)):
            find_region(bins, text, known)
    with pytest.raises(InvalidInput, match="names a chromosome band"):
        find_region(bins, "8q", None)
    with pytest.raises(InvalidInput, match="there is no assembly 'mm1'"):
        assembly("mm1")


def test_command__from_simulation_to_answer(tmp_path, monkeypatch, light_pictures):
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    made = run(
        app, ["simulate", "t.bb", "--tumour", "--seed", "4", "--sites", "110", "--purity", "0.7", "--clones", "1"]
    )
    assert made.exit_code == 0, made.output
    truth = json.loads((tmp_path / "t.truth.json").read_text())
    assert truth["purity"] == pytest.approx(0.7)
    bounds = ["--clones", "1", "--ploidy", "1.5-2.5", "--workers", "1"]
    done = run(app, ["tumour", "t.bb", *bounds, "--purity", "0.7", "--tables-only", "--out", "answer"])
    assert done.exit_code == 0, done.output
    assert "Wrote solutions.tsv, segments, SEG, BED and VCF to answer/" in done.stdout
    assert not list((tmp_path / "answer").rglob("*.png")) + list((tmp_path / "answer").rglob("*.html"))
    assert (tmp_path / "answer" / "solution_1" / "segments.tsv").exists()
    assert _what_is_written(tmp_path / "answer", tables_only=True) == "writing tables"
    done = run(app, ["tumour", "t.bb", *bounds, "--purity", "0.6-0.8", "--json", "--out", "answer"])
    assert done.exit_code == 0, done.output
    content = json.loads(done.stdout)
    assert content["kind"] == "HATCHet .bb"
    # The noise that solutions are made with is told, not only the first guess.
    (noise,) = re.findall(r"measured again: (alleles .*)", done.stderr)
    assert noise in (tmp_path / "answer" / "report.html").read_text()
    assert (tmp_path / "answer" / "figures" / "purity-ploidy.png").exists()
    told = _what_is_written(tmp_path / "answer", tables_only=True)
    assert told.endswith("report.html and figures/ are those of an earlier answer")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    for arguments, what in (
        (["tumour", "t.bb", "--purity", "2"], "--purity takes a number or LOW-HIGH within 0.05-1, got '2'"),
        (["tumour", "t.bb", "--clones", "5"], "--clones takes a number or LOW-HIGH within 1-3, got '5'"),
        (["tumour", "t.bb", "--region", "8", "--tables-only"], "--region draws a figure, which --tables-only does not"),
        (["tumour", "t.bb", "--out", "mine"], "exists and holds no earlier answer"),
        (["simulate", "t.bb", "--tumour"], "t.bb exists already"),
        (["simulate", "u.tsv", "--purity", "0.5"], "describe a tumour; add --tumour"),
        (["simulate", "u.bb", "--tumour", "--purity", "7"], "purity must be above 0 and at most 1"),
    ):
        failed = run(app, arguments)
        assert failed.exit_code == 2
        assert what in failed.output


def test_screen__shows_a_region_under_every_solution():
    found = answer()
    text = _region(found, "1", "hg38")
    assert text.count("solution ") == len(found.solutions[:SHOWN])
    best = found.solutions[0].best
    share = best.main[found.bins.chromosome == "1"].mean(axis=0)
    assert f"solution 1: {best.states.texts[share.argmax()]} {share.max():.2f}" in text


def test_page__names_one_of_several_samples_and_its_alleles():
    bins = answer().bins
    job = Job(settings=TumourSettings(), out=Path("out"), voice=Voice(True, False), chosen=True,
              alleles={bins.source: Path("alleles.vcf")})  # fmt: skip
    words = shlex.split(job.settings_of([bins]).command([bins], 1))
    assert words[words.index("--sample") + 1] == bins.sample
    assert words[words.index("--alleles") + 1] == "alleles.vcf"
    assert "--sample" not in replace(job, chosen=False).settings_of([bins]).command([bins], 1)

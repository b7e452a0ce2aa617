"""The simulator of the verification of tumours: it shares nothing with the package, and its files hold its truth."""

import ast
import sys
from pathlib import Path

import numpy as np
import pytest

VERIFICATION = Path(__file__).parents[1] / "verification"
sys.path.insert(0, str(VERIFICATION))

import sequenced  # noqa: E402
import tumours  # noqa: E402

from chiasma.tumour.samples import read_samples  # noqa: E402


def test_simulator__imports_nothing_of_the_package():
    tree = ast.parse((VERIFICATION / "sequenced.py").read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names == {"__future__", "gzip", "dataclasses", "pathlib", "numpy", "numpy.typing"}


def of_assay(assay, folder):
    """The first sample of an assay whose purity is at least a half, and which is small."""
    for seed in range(200):
        rng = np.random.default_rng([7, seed])
        truth = sequenced.evolved(rng)
        if truth.purity > 0.5 and str(rng.choice(sequenced.ASSAYS, p=sequenced.ASSAY_CHANCES)) == assay:
            return sequenced.sample(seed, folder)
    raise AssertionError(assay)


@pytest.mark.parametrize("assay", sequenced.ASSAYS)
def test_simulator__writes_its_truth_to_files(assay, tmp_path):
    made = of_assay(assay, tmp_path)
    (bins,) = read_samples(made.file, alleles=made.alleles, gc=made.gc, mappability=made.mappability)
    cell = tumours.cells_of(bins)
    expected = made.truth.haplotypes.sum(axis=0)
    levels, group = np.unique(expected[cell].round(6), return_inverse=True)
    count = np.bincount(group)
    known = [i for i in np.argsort(-count)[:4] if count[i] > 100]
    medians = np.array([np.nanmedian(bins.depth[group == i]) for i in known])
    assert len(known) > 1
    np.testing.assert_allclose(medians / medians[0], levels[known] / levels[known][0], atol=0.12)
    assert (bins.alleles is None) == (assay == "depth")
    if bins.alleles is not None:
        share = made.truth.haplotypes.min(axis=0) / expected
        uneven = share[cell[bins.alleles.bin]] < 0.35
        even = share[cell[bins.alleles.bin]] > 0.49
        assert np.median(bins.alleles.fraction[uneven]) < np.median(bins.alleles.fraction[even]) - 0.05
    again = of_assay(assay, tmp_path)
    assert np.array_equal(again.truth.copies, made.truth.copies)


class Told:
    """A report that remembers which goals were reached."""

    def __init__(self):
        self.reached, self.parts = [], []

    def text(self, part):
        self.parts.append(part)

    def table(self, header, rows):
        self.parts.append(rows)

    def goal(self, what, reached):
        self.reached.append(bool(reached))


def outcome(seed, rank, probability, *, ended="answered", clones=1, found_clones=1, inside=True):
    own = tumours.Outcome(seed, "bins", 0.6, 2.0, False, clones, 0.3, ended)
    return own._replace(
        rank=rank, probability=probability, inside=inside, found_clones=found_clones, seconds=1.0, megabytes=1.0,
        promised=1.0, correct=1.0,
    )  # fmt: skip


def test_verification__counts_what_came_out():
    right = [outcome(i, 1, 0.99, inside=i > 1) for i in range(19)]
    report = Told()
    tumours.simulated(report, [*right, outcome(19, 2, 0.6, clones=2)])
    assert report.reached == [True, True, True]
    report = Told()
    wrong = [outcome(i, 2, 0.999) for i in range(19, 23)]
    tumours.simulated(report, [*right, *wrong, outcome(23, 1, 0.7, found_clones=2), outcome(24, 0, 0.3, ended="flat")])
    assert report.reached == [False, False, True]
    assert any("Sure and wrong, 4" in part for part in report.parts if isinstance(part, str))
    assert any("False clones: 1 of 20" in part for part in report.parts if isinstance(part, str))

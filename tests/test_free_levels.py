"""Free-level segments: kernels against plain twins, evidence and posteriors against enumeration of all paths."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from chiasma.kernels.copy_number import between
from chiasma.kernels.copy_paths import cell_likelihoods, forward, fresh_states, posterior, run_evidence
from chiasma.tumour.model import (
    CELLS,
    NORMAL_GRID,
    SLACK_NODES,
    CopyColumns,
    CopyEvidence,
    DepthNoise,
    TumourParameters,
    runs_of,
)

STARTS, N = np.array([0, 3]), 5


def pieces(alleles=True, seed=3):
    rng = np.random.default_rng(seed)
    depth = rng.uniform(0.4, 2.2, N)
    depth[1] = np.nan
    p = np.linspace(0, 0.5, 21)
    table = -0.5 * ((p - rng.uniform(0.1, 0.5, N)[:, None]) / 0.04) ** 2 + rng.standard_normal((N, 1))
    table[-1] = np.nan
    table = table if alleles else np.empty((N, 0))
    return CopyColumns(
        depth=depth,
        sd=rng.uniform(0.03, 0.06, N),
        power=np.ones(N),
        table=table,
        starts=STARTS,
        middle=np.cumsum(rng.uniform(0.5e6, 4e6, N)),
        change_rate=1e-7,
        noise=DepthNoise(7.0, 0.5, 1.0, 0.02),
        short=np.array([True, False, True, False, False]),
        broad=table - 0.3,
    )


def cells_twin(depth, sd, table, normal, growth, unit, slack, outliers, n):
    """(C, F) one cell after the other. table: log-likelihoods."""
    width = 2 * (unit - normal) / (n - 1)
    alleles = table.shape[1] > 0
    cells = [(i, j) for i in range(n) for j in range(i + 1)] if alleles else [(k, 0) for k in range(2 * n - 1)]
    out = np.ones((len(depth), len(cells)))
    for c, f in product(range(len(depth)), range(len(cells))):
        if np.isnan(depth[c]):
            continue
        i, j = cells[f]
        minor, total = normal / 2 + j * width, normal + (i + j) * width
        total = max(total, 5e-4 * unit)
        noise = sd[c] * max(total / unit, 0.05) ** growth
        scale = np.sqrt(noise**2 + (slack * total) ** 2 + width**2 / (6 if alleles else 12))
        inside, outside = stats.t.pdf(depth[c], 7, total, scale), 1 / (3 * unit)
        if alleles and not np.isnan(table[c, 0]):
            like = np.exp(table[c])
            inside *= np.interp(minor / total, np.linspace(0, 0.5, len(like)), like)
            outside *= like.mean()
        out[c, f] = (1 - outliers) * inside + outliers * outside
    return out


@pytest.mark.jit_off
@pytest.mark.parametrize("alleles", [True, False])
def test_cells__are_the_product_of_depth_and_alleles(alleles):
    own, n = pieces(alleles), 9
    out = np.empty((N, n * (n + 1) // 2 if alleles else 2 * n - 1))
    like = np.exp(own.table)
    flat = like.mean(axis=1) if alleles else np.full(N, np.nan)
    given = (0.3, 0.5, 1.1, 0.02, 0.02)
    cell_likelihoods(own.depth, own.sd, like, flat, *given, out)
    np.testing.assert_allclose(out, cells_twin(own.depth, own.sd, own.table, *given, n), rtol=1e-10)


@pytest.mark.jit_off
def test_runs__have_one_cell(monkeypatch):
    rng = np.random.default_rng(1)
    likelihoods = rng.uniform(0.1, 2.0, (N, 7))
    offset, ends = runs_of(STARTS, N)
    out = np.empty(9)
    run_evidence(likelihoods, offset, ends, out)
    for i, end in enumerate(ends):
        for j in range(i, end):
            expected = np.log(np.prod(likelihoods[i : j + 1], axis=0).mean())
            assert out[offset[i] + j - i] == pytest.approx(expected, abs=1e-12)


@pytest.mark.jit_off
def test_runs__of_unlike_pieces_are_given_up():
    likelihoods = np.full((3, 4), 1e-40)
    likelihoods[[0, 1, 2], [0, 1, 2]] = 1.0
    offset, ends = runs_of(np.array([0]), 3)
    out = np.empty(6)
    run_evidence(likelihoods, offset, ends, out)
    apart = 3 * np.log(0.25)
    assert np.all(np.isfinite(out))
    assert out[2] < apart - 50


def enumerated(likelihoods, stay, states, subclones, phi, runs, offset):
    """Evidence and posterior by summing over all paths.

    A label is a joint state (main, subclone), "new" for a new free level, or "same" for the one before.
    """
    main, change = states, subclones
    joint = list(product(range(len(main)), range(len(change))))
    fresh = {(a, b): (1 - phi) * main[a] * change[b] for a, b in joint}
    labels = [*joint, "new", "same"]
    n = len(likelihoods)
    total, found, free = 0.0, np.zeros(likelihoods.shape), np.zeros(len(runs))
    for path in product(labels, repeat=n):
        p = 1.0
        for c, label in enumerate(path):
            before, leave = path[c - 1] if c else None, 1 - stay[c]
            inside = before in ("new", "same")
            if label == "same":
                p *= stay[c] if inside else 0.0
            elif label == "new":
                p *= leave * phi
            elif c == 0 or inside:
                p *= leave * fresh[label]
            else:
                p *= (stay[c] * (label[0] == before[0]) + leave * (1 - phi) * main[label[0]]) * (
                    stay[c] * (label[1] == before[1]) + leave * change[label[1]]
                )
            if not p:
                break
        if not p:
            continue
        visited, begin = [], None
        for c in range(n + 1):
            label = path[c] if c < n else None
            if begin is not None and label != "same":
                run = offset[begin] + c - 1 - begin
                visited.append(run)
                p *= np.exp(runs[run])
                begin = None
            if label == "new":
                begin = c
        for c, label in enumerate(path):
            if label not in ("new", "same"):
                p *= likelihoods[c, joint.index(label)]
        total += p
        for c, label in enumerate(path):
            if label not in ("new", "same"):
                found[c, joint.index(label)] += p
        free[visited] += p
    return np.log(total), found / total, free / total


@pytest.mark.jit_off
@pytest.mark.parametrize("change", [[1.0], [0.8, 0.2]])
@pytest.mark.parametrize("phi", [0.3, 0.01])
def test_paths__agree_with_enumeration(change, phi):
    rng = np.random.default_rng(5)
    main, change = np.array([0.5, 0.3, 0.2]), np.array(change)
    likelihoods = rng.uniform(0.01, 2.0, (N, len(main) * len(change)))
    stay = np.array([0.0, 0.9, 0.6, 0.0, 0.7])
    offset, ends = runs_of(STARTS, N)
    runs = rng.uniform(-4.0, 1.0, 9)
    expected, states, free = enumerated(likelihoods, stay, main, change, phi, runs, offset)
    given = (stay, np.concatenate([main * (1 - phi), change]), np.array([len(main), len(change)]), runs, offset, ends)
    none = np.empty((0, likelihoods.shape[1]))
    assert forward(likelihoods, none, *given) == pytest.approx(expected, abs=1e-10)
    out, out_free = np.empty_like(likelihoods), np.empty(len(runs))
    assert posterior(likelihoods, *given, out, out_free) == pytest.approx(expected, abs=1e-10)
    np.testing.assert_allclose(out, states, atol=1e-12)
    np.testing.assert_allclose(out_free, free, atol=1e-12)
    # A mutant: free levels that are not counted.
    assert abs(forward(likelihoods, none, *given[:-3], np.empty(0), offset, ends) - expected) > 1e-3


@pytest.mark.jit_off
def test_fresh__is_the_product_of_the_rows():
    out = np.empty(6)
    fresh_states(np.array([0.5, 0.3, 0.2, 0.9, 0.1]), np.array([3, 2]), out)
    np.testing.assert_allclose(out, np.outer([0.5, 0.3, 0.2], [0.9, 0.1]).ravel())


@pytest.mark.parametrize("alleles", [True, False])
def test_evidence__with_free_levels_is_that_of_all_paths(alleles):
    """From data to evidence at a node of the interpolation, where it is exact."""
    own = pieces(alleles)
    normal = 1 - np.exp(NORMAL_GRID[0] + 9 * NORMAL_GRID[1])
    at = TumourParameters(
        purity=0.6, scale=float(normal / 0.4), slack=float(SLACK_NODES[3]), free=0.2, outliers=0.1, doubled=False
    )
    evidence = CopyEvidence((own,), 2, doubled=False)
    offset, ends = runs_of(STARTS, N)
    cells = cells_twin(own.depth, own.sd, own.broad, normal, 0.5, 1.0, at.slack, 0.02, CELLS)
    runs = np.empty(9)
    for i, end in enumerate(ends):
        for j in range(i, end):
            runs[offset[i] + j - i] = np.log(np.prod(cells[i : j + 1], axis=0).mean())
    found = evidence.posterior((at,))
    like, _, joint, _, constant = evidence._parts((at,))
    scaled = own.table.max(axis=1) if alleles else np.zeros(N)
    more = np.append(0.0, np.cumsum(np.where(np.isnan(own.depth), 0.0, np.nan_to_num(scaled))))
    first = np.repeat(np.arange(N), ends - np.arange(N))
    last = np.arange(9) - offset[first] + first
    relative = runs - (more[last + 1] - more[first])
    expected, states, free = enumerated(like, own.stay, evidence.probabilities, np.array([1.0]), 0.2, relative, offset)
    assert evidence.at((at,)) == pytest.approx(expected + constant, abs=1e-8)
    np.testing.assert_allclose(found.main, states, atol=1e-9)
    np.testing.assert_allclose(found.runs, free, atol=1e-9)
    assert joint.probabilities.sum() == pytest.approx(0.8)


@pytest.mark.jit_off
def test_between__is_exact_for_cubics_and_does_not_overshoot_beside_a_cliff():
    """A cubic through a cliff gave a run 50 nats that it does not have."""
    x = np.arange(6.0)
    nodes, out = np.column_stack([x**3 - 2 * x**2, np.where(x < 3, -300.0, 7.0 - x)]), np.empty(2)
    for at in (0.0, 2.3, 4.48, 5.0):
        between(nodes, at, out)
        assert out[0] == pytest.approx(at**3 - 2 * at**2)
        left = min(int(at), 4)
        assert nodes[left : left + 2, 1].min() <= out[1] <= nodes[left : left + 2, 1].max()


def test_free_levels__do_not_tell_a_genome_from_its_double():
    own = pieces()
    for purity in (0.3, 0.8):
        double = purity / (2 - purity)
        one = own.free_levels.at(TumourParameters(purity=purity, scale=0.7, slack=0.01))
        other = own.free_levels.at(TumourParameters(purity=double, scale=0.7 * (1 - purity) / (1 - double), slack=0.01))
        np.testing.assert_allclose(one, other, atol=1e-9)

"""Rows that cannot be told apart: counts against enumeration of all rows, and back again.

The slow twins work on arrangements, tuples with the state of every row, and know nothing of counts but how to count.
"""

import math
from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, product
from operator import getitem

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import binom, multinomial

import branches
import chiasma as ch
from chiasma.kernels import lumping
from chiasma.models.axes import Group, Unlumping, n_count_states
from chiasma.models.chains import Markov, Switch

pytestmark = pytest.mark.jit_off

SEEDS = st.integers(0, 2**32 - 1)
SHAPES = st.sampled_from([(1, 2), (1, 4), (2, 2), (2, 3), (2, 4), (3, 2), (3, 3), (3, 4), (4, 2), (4, 3), (4, 4)])
SMALL = [(2, 2), (3, 2), (2, 3), (3, 3)]


def log(values):
    with np.errstate(divide="ignore"):
        return np.log(values)


def random_matrices(rng, n_states, n_kinds=2, zeros=False):
    """(1 + n_kinds, S, S): a start, then transition matrices; zeros: some moves are impossible."""
    out = rng.dirichlet(np.ones(n_states), (n_kinds + 1, n_states))
    out[0] = out[0, 0]
    if zeros:
        somewhere = np.eye(n_states, dtype=bool)[rng.integers(n_states, size=(n_kinds, n_states))]
        out[1:] *= (rng.random(out[1:].shape) < 0.5) | somewhere
        out /= out.sum(axis=-1, keepdims=True)
    return out


def random_edge(rng, n_columns, n_kinds=2):
    edge = rng.integers(0, n_kinds + 1, n_columns).astype(np.int32)
    edge[0] = 0
    return edge


# ---- Slow twins -----------------------------------------------------------------------------------------------------


def arrangements(n_rows, n_states):
    return list(product(range(n_states), repeat=n_rows))


def counts_of(arrangement, n_states):
    return tuple(arrangement.count(s) for s in range(n_states))


def chance(matrix, before, after):
    return math.prod(matrix[x, y] for x, y in zip(before, after, strict=True))


def lumped_twin(matrix, n_rows, counts, together):
    """(C, C) from every arrangement with counts c; they must agree. together: math.fsum or max."""
    n_states = len(matrix)
    number = {tuple(c): i for i, c in enumerate(counts.tolist())}
    numbered = [(a, number[counts_of(a, n_states)]) for a in arrangements(n_rows, n_states)]
    chances = matrix.tolist()
    out = np.full((len(counts), len(counts)), np.nan)
    for before, c in numbered:
        ways = [[] for _ in counts]
        steps = [chances[x] for x in before]
        for after, d in numbered:
            ways[d].append(math.prod(map(getitem, steps, after)))
        row = np.array([together(each) for each in ways])
        assert np.isnan(out[c]).all() or np.allclose(out[c], row, rtol=1e-12, atol=0)
        out[c] = row
    return out


def rows_given_counts(path, edge, matrices, counts, n_rows):
    """{states (n, T) as nested tuples: p(rows | counts)} by enumeration."""
    n_states = matrices.shape[1]
    choices = [[a for a in arrangements(n_rows, n_states) if counts_of(a, n_states) == tuple(counts[c])] for c in path]
    weights = {}
    for columns in product(*choices):
        weight = 1.0
        for t, after in enumerate(columns):
            weight *= chance(matrices[edge[t]], columns[t - 1] if t else after, after)
        if weight > 0:
            weights[tuple(zip(*columns, strict=True))] = weight
    total = math.fsum(weights.values())
    return {rows: weight / total for rows, weight in weights.items()}


def product_filter(log_lik, edge, matrices, counts, n_rows):
    """Log evidence over all S^n arrangements; log_lik (T, C) depends on counts."""
    n_states = matrices.shape[1]
    number = {tuple(c): i for i, c in enumerate(counts.tolist())}
    own = [number[counts_of(a, n_states)] for a in arrangements(n_rows, n_states)]
    message = np.zeros((n_states,) * n_rows)
    message.flat[0] = 1.0
    evidence = 0.0
    for t, e in enumerate(edge):
        for k in range(n_rows):
            message = np.moveaxis(np.tensordot(matrices[e], message, axes=(0, k)), 0, k)
        message = message * np.exp(log_lik[t, own]).reshape(message.shape)
        evidence += np.log(message.sum())
        message = message / message.sum()
    return evidence


def count_filter(log_lik, edge, lumped):
    """Log evidence of a chain with transition matrices (E, C, C)."""
    message = np.zeros(lumped.shape[1])
    message[0] = 1.0
    evidence = 0.0
    for t, e in enumerate(edge):
        message = message @ lumped[e] * np.exp(log_lik[t])
        evidence += np.log(message.sum())
        message = message / message.sum()
    return evidence


def viterbi(log_lik, edge, log_matrices):
    """The best path (T,) of a chain, and its log joint."""
    score = log_matrices[edge[0]][0] + log_lik[0]
    pointers = []
    for t in range(1, len(edge)):
        steps = score[:, None] + log_matrices[edge[t]]
        pointers.append(steps.argmax(axis=0))
        score = steps.max(axis=0) + log_lik[t]
    path = [int(score.argmax())]
    for pointer in reversed(pointers):
        path.append(int(pointer[path[-1]]))
    return np.array(path[::-1]), float(score.max())


def log_joint(states, log_lik, edge, matrices, group):
    """Of single rows (n, T)."""
    total = 0.0
    for t, e in enumerate(edge):
        after = tuple(states[:, t].tolist())
        total += log(chance(matrices[e], states[:, t - 1] if t else after, after))
        total += log_lik[t, group.index(counts_of(after, group.n_states))]
    return total


def stay_chance(matrix, before, n_rows):
    same = sorted(before)
    total = sum(chance(matrix, before, after) for after in arrangements(n_rows, len(matrix)) if sorted(after) == same)
    return chance(matrix, before, before) / total if total > 0 else 0.0


def draw_rows_twin(path, edge, matrices, counts, n_rows, uniforms, picks):
    """Row by row from the last, the chance of each state by enumeration of what all rows before it may do."""
    n_states = matrices.shape[1]
    states = np.empty((n_rows, len(path)), int)
    picks = iter(picks)
    for t, c in enumerate(path):
        matrix, left, now = matrices[edge[t]], Counter(dict(enumerate(counts[c]))), states[:, t]
        if edge[t] == 0:
            numbers = next(picks)
            for k in range(n_rows):
                cards = sorted(left.elements())
                now[k] = cards[int(numbers[k] * len(cards))]
                left[now[k]] -= 1
            continue
        before = tuple(states[:, t - 1].tolist())
        now[:] = before
        if path[t - 1] == c and uniforms[t] < stay_chance(matrix, before, n_rows):
            continue
        numbers = next(picks)
        uniform, moved = uniforms[t], False
        for k in range(n_rows - 1, -1, -1):
            weights = np.zeros(n_states)
            for after in arrangements(k + 1, n_states):
                if Counter(after) == +left:
                    weights[after[-1]] += chance(matrix, before[: k + 1], after)
            weights /= weights.sum()
            uniform = numbers[k] if moved else uniform
            for y in [before[k], *(y for y in range(n_states) if y != before[k])]:
                if uniform < weights[y]:
                    break
                uniform -= weights[y]
            now[k] = y
            uniform /= weights[y]
            moved = moved or y != before[k]
            left[y] -= 1
    return states


def draw_binary_twin(path, edge, matrices, n_rows, uniforms, picks):
    """Binomial numbers of moves; rows that leave go to the end of the list of those on, rows that come to its front."""
    states = np.empty((n_rows, len(path)), int)
    picks = iter(picks)
    on, off = [], list(range(n_rows))
    for t, after in enumerate(path):
        if edge[t] == 0:
            numbers, order = next(picks), on + off
            for j in range(after):
                i = j + int(numbers[j] * (n_rows - j))
                order[i], order[j] = order[j], order[i]
            on, off = order[:after], order[after:]
        else:
            enter, leave = matrices[edge[t], 0, 1], matrices[edge[t], 1, 0]
            left = np.arange(max(len(on) - after, 0), min(len(on), n_rows - after) + 1)
            weights = binom.pmf(left, len(on), leave) * binom.pmf(after - len(on) + left, len(off), enter)
            bounds = np.cumsum(weights / weights.sum())
            left = int(left[np.searchsorted(bounds, uniforms[t], side="right")])
            came = after - len(on) + left
            if len(on) != after or uniforms[t] >= bounds[0]:
                numbers = next(picks)
                for j in range(left):
                    i, last = int(numbers[j] * (len(on) - j)), len(on) - 1 - j
                    on[i], on[last] = on[last], on[i]
                for j in range(came):
                    i = j + int(numbers[left + j] * (len(off) - j))
                    off[i], off[j] = off[j], off[i]
                stay, moving, rest = on[: len(on) - left], on[len(on) - left :] + off[:came], off[came:]
                both = min(left, came)
                for j in range(both):
                    i = left + came - both + j
                    moving[j], moving[i] = moving[i], moving[j]
                on, off = stay + moving[:came], moving[came:] + rest
        states[:, t] = 0
        states[on, t] = 1
    return states


# ---- Count states ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_rows", "n_states"), [(1, 2), (1, 5), (3, 2), (63, 2), (4, 3), (5, 6)])
def test_count_states_are_in_their_order_and_found_again(n_rows, n_states):
    group = Group(n_rows, n_states)
    listed = [counts_of(a, n_states) for a in combinations_with_replacement(range(n_states), n_rows)]
    assert group.counts.tolist() == [list(c) for c in listed]
    assert group.size == n_count_states(n_rows, n_states) == len(set(listed))
    assert group.index(group.counts).tolist() == list(range(group.size))


def test_the_number_of_a_count_state_is_the_number_of_rows_on_or_the_state_of_a_single_row():
    assert Group(5, 2).counts[:, 1].tolist() == [0, 1, 2, 3, 4, 5]
    assert Group(1, 4).counts.tolist() == np.eye(4, dtype=int).tolist()


def test_levels_add_up_the_values_of_all_rows():
    group = Group(3, 3)
    values = np.array([[0.0, 1.0], [2.0, 5.0], [7.0, -1.0]])
    for c, level in zip(group.counts, group.levels(values), strict=True):
        np.testing.assert_allclose(level, sum(c[s] * values[s] for s in range(3)))
    np.testing.assert_allclose(group.levels(values[:, 0]), group.levels(values)[:, 0])


# ---- Matrices -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(seed=SEEDS, shape=SHAPES, zeros=st.booleans())
def test_lumped_matrices_are_sums_over_all_arrangements(seed, shape, zeros):
    n_rows, n_states = shape
    group = Group(n_rows, n_states)
    matrices = random_matrices(np.random.default_rng(seed), n_states, n_kinds=1, zeros=zeros)
    expected = [lumped_twin(matrix, n_rows, group.counts, math.fsum) for matrix in matrices]
    np.testing.assert_allclose(group.lump(matrices), expected, rtol=1e-13)
    np.testing.assert_allclose(group.log_lump(matrices), log(expected), rtol=1e-12, atol=1e-13)


@pytest.mark.slow
@given(seed=SEEDS, shape=SHAPES, zeros=st.booleans())
def test_sums_and_best_assignments_in_logarithms(seed, shape, zeros):
    n_rows, n_states = shape
    group = Group(n_rows, n_states)
    matrices = random_matrices(np.random.default_rng(seed), n_states, n_kinds=1, zeros=zeros)
    for best, together in ((False, math.fsum), (True, max)):
        expected = [lumped_twin(matrix, n_rows, group.counts, together) for matrix in matrices]
        out = group._log_table(matrices, best=best)
        np.testing.assert_allclose(out, log(expected), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("n_rows", "n_states"), [(7, 2), (3, 4)])
def test_counts_start_from_the_multinomial_distribution_wherever_they_come_from(n_rows, n_states):
    group = Group(n_rows, n_states)
    matrices = random_matrices(np.random.default_rng(3), n_states)
    expected = multinomial(n_rows, matrices[0, 0]).pmf(group.counts)
    start = group.lump(matrices)[0]
    np.testing.assert_allclose(start[0], expected, rtol=1e-12)
    np.testing.assert_array_equal(start, np.tile(start[0], (group.size, 1)))


def exact_binary(n_rows, on, after, enter, leave):
    """In fractions: the sum over d of Bin(d; on, leave) Bin(after - on + d; n - on, enter)."""
    enter, leave = Fraction(enter), Fraction(leave)
    terms = []
    for d in range(max(on - after, 0), min(on, n_rows - after) + 1):
        u = after - on + d
        off = n_rows - on
        terms.append(
            math.comb(on, d) * leave**d * (1 - leave) ** (on - d)
            * math.comb(off, u) * enter**u * (1 - enter) ** (off - u)
        )  # fmt: skip
    return sum(terms, Fraction(0))


@pytest.mark.parametrize("n_rows", [20, 63])
def test_many_binary_rows_keep_the_relative_precision_of_small_entries(n_rows):
    enter, leave = 2.0**-13, 2.0**-5  # 1 - enter is exact, so that the fractions are those of the matrix
    group = Group(n_rows, 2)
    matrices = Switch(enter, leave).matrices(2, np.array([np.inf, 1.0]))
    lumped = group.lump(matrices)
    np.testing.assert_allclose(lumped.sum(axis=-1), 1.0, rtol=0, atol=1e-12)
    for on in range(0, n_rows + 1, 7):
        expected = [float(exact_binary(n_rows, on, after, enter, leave)) for after in range(n_rows + 1)]
        np.testing.assert_allclose(lumped[1, on], expected, rtol=1e-12)


def test_five_rows_of_six_states():
    group = Group(5, 6)
    matrices = random_matrices(np.random.default_rng(4), 6)
    lumped = group.lump(matrices)
    assert lumped.shape == (3, 252, 252)
    np.testing.assert_allclose(lumped.sum(axis=-1), 1.0, rtol=0, atol=1e-12)
    # All rows from one state: a multinomial distribution.
    alone = group.index([0, 0, 5, 0, 0, 0])
    np.testing.assert_allclose(lumped[1, alone], multinomial(5, matrices[1, 2]).pmf(group.counts), rtol=1e-12)


def test_logarithms_of_what_is_too_small_for_a_float():
    group = Group(63, 2)
    matrices = Switch(1e-12, 1e-12).matrices(2, np.array([np.inf, 1.0]))
    assert group.lump(matrices)[1, 0, 63] == 0.0
    assert group.log_lump(matrices)[1, 0, 63] == pytest.approx(63 * np.log(1e-12), rel=1e-13)
    assert group.log_lump(matrices)[1, 0, 40] == pytest.approx(
        40 * np.log(1e-12) + np.log(math.comb(63, 40)), rel=1e-12
    )
    # A move that is impossible remains so.
    never = Switch(0.0, 0.1, 0.5).matrices(2, np.array([np.inf, 1.0]))
    assert group.log_lump(never)[1, 0, 1] == -np.inf


# ---- Evidence -------------------------------------------------------------------------------------------------------


def evidence_case(n_rows):
    """A signal with a restart and two kinds of edges: log_lik (T, C), edge, matrices, group."""
    rng = np.random.default_rng(n_rows)
    group = Group(n_rows, 2)
    data = ch.Observations(rng.normal(0.5 * n_rows, 1.0, 7), starts=[4], gaps=[1, 2.5, 1, 1, 1, 2.5])
    edge, gaps = data.edge_kinds()
    matrices = Switch(0.1, 0.25, 0.3).matrices(2, gaps)
    log_lik = -0.5 * (data.y[:, None] - group.levels([0.0, 1.0])) ** 2
    return log_lik, edge, matrices, group


def evidence_error(n_rows, lump):
    log_lik, edge, matrices, group = evidence_case(n_rows)
    plain = product_filter(log_lik, edge, matrices, group.counts, n_rows)
    return abs(count_filter(log_lik, edge, lump(group, matrices)) - plain)


@pytest.mark.parametrize("n_rows", range(2, 11))
def test_the_evidence_of_counts_is_that_of_all_rows(n_rows):
    assert evidence_error(n_rows, Group.lump) <= 1e-9


def forgotten_multiplicities(group, matrices):
    return np.exp(group.log_best(matrices))


def forgotten_multiplicities_normalised(group, matrices):
    best = np.exp(group.log_best(matrices))
    return best / best.sum(axis=-1, keepdims=True)


def forgotten_ways_to_exchange(group, matrices):
    """Only the fewest moves: no row leaves while another one comes."""
    out = group.lump(matrices)
    n, (stay_off, enter), (leave, stay_on) = group.n_rows, *matrices[1]
    for a, b in np.ndindex(n + 1, n + 1):
        came, left = max(b - a, 0), max(a - b, 0)
        out[1, a, b] = math.comb(n - a, came) * enter**came * stay_off ** (n - a - came)
        out[1, a, b] *= math.comb(a, left) * leave**left * stay_on ** (a - left)
    return out


@pytest.mark.parametrize(
    "mutant", [forgotten_multiplicities, forgotten_multiplicities_normalised, forgotten_ways_to_exchange]
)
@pytest.mark.parametrize("n_rows", [2, 5])
def test_the_evidence_rejects_a_chain_that_miscounts(mutant, n_rows):
    assert evidence_error(n_rows, mutant) > 1e-3


# ---- Best paths -----------------------------------------------------------------------------------------------------


def viterbi_case(seed, n_rows, n_states, n_columns, zeros):
    rng = np.random.default_rng(seed)
    group = Group(n_rows, n_states)
    matrices = random_matrices(rng, n_states, zeros=zeros)
    edge = random_edge(rng, n_columns)
    return group, matrices, edge, rng.normal(0.0, 1.0, (n_columns, group.size))


def best_of_all_rows(group, matrices, edge, log_lik):
    """Viterbi over all S^n arrangements: the best log joint."""
    listed = arrangements(group.n_rows, group.n_states)
    whole = [[[log(chance(matrix, before, after)) for after in listed] for before in listed] for matrix in matrices]
    own = [int(group.index(counts_of(a, group.n_states))) for a in listed]
    return viterbi(log_lik[:, own], edge, np.array(whole))[1]


@pytest.mark.parametrize(("n_rows", "n_states"), SMALL)
@given(seed=SEEDS, n_columns=st.integers(3, 4), zeros=st.booleans())
def test_the_best_path_of_counts_is_the_best_path_of_rows(seed, n_rows, n_states, n_columns, zeros):
    group, matrices, edge, log_lik = viterbi_case(seed, n_rows, n_states, n_columns, zeros)
    expected = best_of_all_rows(group, matrices, edge, log_lik)
    path, score = viterbi(log_lik, edge, group.log_best(matrices))
    assert score == pytest.approx(expected, rel=1e-12, abs=1e-12)
    rows = Unlumping(group, matrices).best(path, edge)
    assert group.index([counts_of(column, n_states) for column in rows.T.tolist()]).tolist() == path.tolist()
    assert log_joint(rows, log_lik, edge, matrices, group) == pytest.approx(expected, rel=1e-12, abs=1e-11)


def test_a_path_of_counts_that_counts_multiplicities_is_not_the_best_of_rows():
    """A proof that can fail: with sums in place of best moves, most of these cases end elsewhere."""
    worse = 0
    for seed in range(20):
        group, matrices, edge, log_lik = viterbi_case(seed, 3, 2, 4, zeros=False)
        path, _ = viterbi(log_lik, edge, group.log_lump(matrices))
        rows = Unlumping(group, matrices).best(path, edge)
        worse += (
            log_joint(rows, log_lik, edge, matrices, group) < best_of_all_rows(group, matrices, edge, log_lik) - 1e-6
        )
    assert worse >= 5


def test_the_best_rows_stay_where_they_are_where_that_is_best():
    rows = Unlumping(Group(4, 2), Switch(0.1, 0.2).matrices(2, np.array([np.inf, 1.0])))
    path, edge = np.array([2, 2, 3, 1, 1, 2]), np.array([0, 1, 1, 1, 1, 0], np.int32)
    assert rows.best(path, edge).tolist() == [
        [1, 1, 1, 0, 0, 1],
        [1, 1, 1, 0, 0, 1],
        [0, 0, 1, 1, 1, 0],
        [0, 0, 0, 0, 0, 0],
    ]
    # Rows that alternate all move although their counts remain.
    rows = Unlumping(Group(2, 2), Switch(0.9, 0.9).matrices(2, np.array([np.inf, 1.0])))
    assert rows.best(np.array([1, 1, 1]), np.array([0, 1, 1], np.int32)).tolist() == [[1, 0, 1], [0, 1, 0]]


# ---- Draws of rows --------------------------------------------------------------------------------------------------


def kernel_draw(rows, path, edge, uniforms, picks, binary):
    """(n, T) from given uniforms (T,) and picks (T, n), of which a draw reads no more than it needs."""
    group = rows.group
    states = np.full((group.n_rows, len(path)), -1, np.int8)
    current, since = np.empty((2, group.n_rows), np.int64)
    if binary:
        tables = (rows._log_matrices, rows._log_lumped, rows._stays, rows._log_choose)
        order = np.empty(group.n_rows, np.int64)
        failed = lumping.draw_binary_rows(path, edge, *tables, uniforms, picks, order, current, since, states)
    else:
        tables = (rows._log_matrices, group.counts, rows._stays)
        work = (current, since, *rows._work())
        failed = lumping.draw_rows(path, edge, *tables, uniforms, picks, *work, states)
    assert failed == -1
    return states


def simulated_path(rng, group, matrices, edge):
    """(T,) count states of simulated rows."""
    columns, now = [], np.zeros(group.n_rows, int)
    for e in edge:
        now = np.array([rng.choice(group.n_states, p=matrices[e, x]) for x in now])
        columns.append(np.bincount(now, minlength=group.n_states))
    return group.index(columns)


@given(seed=SEEDS, shape=SHAPES, zeros=st.booleans())
def test_rows_are_drawn_as_their_twin_draws_them(seed, shape, zeros):
    n_rows, n_states = shape
    rng = np.random.default_rng(seed)
    group, edge = Group(n_rows, n_states), random_edge(rng, 6)
    matrices = random_matrices(rng, n_states, zeros=zeros)
    path = simulated_path(rng, group, matrices, edge)
    uniforms, picks = rng.random(6), rng.random((6, n_rows))
    drawn = kernel_draw(Unlumping(group, matrices), path, edge, uniforms, picks, binary=False)
    np.testing.assert_array_equal(drawn, draw_rows_twin(path, edge, matrices, group.counts, n_rows, uniforms, picks))


@given(seed=SEEDS, n_rows=st.integers(1, 12), zeros=st.booleans())
def test_binary_rows_are_drawn_as_their_twin_draws_them(seed, n_rows, zeros):
    rng = np.random.default_rng(seed)
    group, edge = Group(n_rows, 2), random_edge(rng, 12)
    matrices = random_matrices(rng, 2, zeros=zeros)
    path = simulated_path(rng, group, matrices, edge)
    uniforms, picks = rng.random(12), rng.random((12, n_rows))
    drawn = kernel_draw(Unlumping(group, matrices), path, edge, uniforms, picks, binary=True)
    np.testing.assert_array_equal(drawn, draw_binary_twin(path, edge, matrices, n_rows, uniforms, picks))


@given(seed=SEEDS, shape=SHAPES)
def test_a_draw_reads_one_uniform_per_column_and_picks_where_rows_move(seed, shape):
    n_rows, n_states = shape
    rng = np.random.default_rng(seed)
    group, edge = Group(n_rows, n_states), random_edge(rng, 8)
    matrices = random_matrices(rng, n_states)
    matrices[1:] = 0.2 * matrices[1:] + 0.8 * np.eye(n_states)
    path = simulated_path(rng, group, matrices, edge)
    drawn = Unlumping(group, matrices).draw(path, edge, np.random.default_rng(seed))
    assert group.index([counts_of(column, n_states) for column in drawn.T.tolist()]).tolist() == path.tolist()
    again = np.random.default_rng(seed)
    uniforms = again.random(8)
    # Columns where nobody can have moved by a uniform below the chance of it need no picks.
    changed = [
        t
        for t in range(8)
        if edge[t] == 0
        or path[t] != path[t - 1]
        or uniforms[t] >= stay_chance(matrices[edge[t]], tuple(drawn[:, t - 1].tolist()), n_rows)
    ]
    picks = again.random((len(changed), n_rows))
    expected = kernel_draw(Unlumping(group, matrices), path, edge, uniforms, picks, binary=n_states == 2)
    np.testing.assert_array_equal(drawn, expected)


# Which kernel, rows, states, columns, seed.
PROOFS = [
    (True, 2, 2, 4, 0),
    (True, 3, 2, 3, 1),
    (True, 4, 2, 2, 2),
    (False, 2, 2, 4, 3),
    (False, 3, 2, 3, 4),
    (False, 2, 3, 3, 5),
    (False, 3, 3, 3, 6),
    (False, 2, 4, 3, 7),
]


def draw_error(binary, n_rows, n_states, n_columns, seed, spoil=lambda uniforms, picks: (uniforms, picks)):
    """Largest error of the probability of any outcome, over all branches of the kernel, for four paths of counts."""
    rng = np.random.default_rng(seed)
    group = Group(n_rows, n_states)
    worst = 0.0
    for case in range(4):
        matrices = random_matrices(rng, n_states, zeros=case == 3)
        rows = Unlumping(group, matrices)
        edge = random_edge(rng, n_columns)
        edge[1] = 1
        path = simulated_path(rng, group, matrices, edge)
        if case == 1:
            # Counts that remain, with rows in different states: rows may change places unseen.
            path[:] = group.index(np.bincount(np.arange(n_rows) % 2, minlength=n_states))

        def outcome(numbers, path=path, edge=edge, rows=rows):
            uniforms, picks = spoil(numbers[:n_columns], numbers[n_columns:].reshape(n_columns, n_rows))
            drawn = kernel_draw(rows, path, edge, uniforms, picks, binary)
            return tuple(map(tuple, drawn.tolist()))

        found = branches.distribution(outcome, n_columns * (1 + n_rows))
        expected = rows_given_counts(path, edge, matrices, group.counts, n_rows)
        for result in found.keys() | expected.keys():
            worst = max(worst, abs(found.get(result, 0.0) - expected.get(result, 0.0)))
    return worst


@pytest.mark.symbolic
@pytest.mark.parametrize(("binary", "n_rows", "n_states", "n_columns", "seed"), PROOFS)
def test_rows_are_drawn_exactly_from_their_distribution_given_the_counts(binary, n_rows, n_states, n_columns, seed):
    assert draw_error(binary, n_rows, n_states, n_columns, seed) <= 1e-12


def first_rows_only(uniforms, picks):
    """Always the first row in the list."""
    return uniforms, picks * 1e-9


def one_pick_for_all(uniforms, picks):
    """The same number for every row of a column."""
    return uniforms, np.repeat(picks[:, :1], picks.shape[1], axis=1)


def fewest_moves(uniforms, picks):
    """Never more rows than have to."""
    return uniforms * 1e-9, picks


@pytest.mark.symbolic
@pytest.mark.parametrize("spoil", [first_rows_only, one_pick_for_all, fewest_moves])
@pytest.mark.parametrize(("binary", "n_states"), [(True, 2), (False, 3)])
def test_a_draw_that_is_not_uniform_or_moves_too_little_is_rejected(spoil, binary, n_states):
    assert draw_error(binary, 3, n_states, 3, 8, spoil) > 1e-3


def test_moves_of_less_probability_than_the_smallest_float_are_drawn_as_well():
    """63 rows come on at once."""
    group = Group(63, 2)
    rows = Unlumping(group, Switch(1e-12, 1e-12).matrices(2, np.array([np.inf, 1.0])))
    path, edge = np.array([0, 63, 20, 20]), np.array([0, 1, 1, 1], np.int32)
    drawn = rows.draw(path, edge, np.random.default_rng(5))
    assert drawn.sum(axis=0).tolist() == path.tolist()
    np.testing.assert_array_equal(drawn[:, 2], drawn[:, 3])
    assert rows.best(path, edge).sum(axis=0).tolist() == path.tolist()


def test_rows_that_cannot_stay_on_all_leave_though_their_counts_remain():
    rows = Unlumping(Group(5, 2), Switch(0.5, 1.0, 0.5).matrices(2, np.array([np.inf, 1.0])))
    path, edge = np.array([2, 2, 2, 2]), np.array([0, 1, 1, 1], np.int32)
    for drawn in (rows.best(path, edge), rows.draw(path, edge, np.random.default_rng(7))):
        assert drawn.sum(axis=0).tolist() == path.tolist()
        assert not (drawn[:, 1:] & drawn[:, :-1]).any()


def test_six_state_rows_with_moves_of_almost_no_probability():
    group = Group(5, 6)
    tiny = np.full((6, 6), 1e-100)
    np.fill_diagonal(tiny, 1.0)
    rows = Unlumping(group, Markov(tiny, np.full(6, 1 / 6)).matrices(6, np.array([np.inf, 1.0])))
    path = group.index([[5, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 5], [0, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1]])
    drawn = rows.draw(path, np.array([0, 1, 1, 1], np.int32), np.random.default_rng(6))
    assert drawn[:, 1].tolist() == [5] * 5
    assert sorted(drawn[:, 2].tolist()) == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(drawn[:, 2], drawn[:, 3])


def test_log_ways_end_in_the_lumped_probability():
    rng = np.random.default_rng(9)
    group, matrix = Group(4, 3), random_matrices(rng, 3)[1]
    current = np.array([0, 2, 2, 1])
    for target in group.counts:
        ways, digits, strides = np.empty(40), np.empty(3, np.int64), np.empty(3, np.int64)
        size = lumping.log_ways(np.log(matrix), current, target, False, digits, strides, ways)
        assert size == (target + 1).prod()
        own = [
            np.log(chance(matrix, current, after))
            for after in arrangements(4, 3)
            if counts_of(after, 3) == tuple(target.tolist())
        ]
        assert ways[size - 1] == pytest.approx(logsumexp(own), rel=1e-12)


# ---- What is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Group(0, 2), "a group has at least one row of at least two states, got 0 rows of 2 states; drop"),
        (lambda: Group(3, 1), "at least two states, got 3 rows of 1 states"),
        (
            lambda: Group(3, 2).index([1, 1]),
            r"counts must be 2 whole numbers \(states\) that add up to 3 \(rows\), got",
        ),
        (lambda: Group(3, 2).index([1, 1, 1]), "counts must be 2 whole numbers"),
        (lambda: Group(3, 2).index([3.5, -0.5]), "counts must be 2 whole numbers"),
        (lambda: Group(3, 2).index([4, -1]), "counts must be 2 whole numbers"),
        (
            lambda: Group(3, 2).levels([1.0, 2.0, 3.0]),
            r"values must have shape \(2,\), one number per state, or .* got",
        ),
        (lambda: Group(3, 2).lump(np.eye(2)), r"matrices must have shape \(kinds of edges, 2, 2\), got \(2, 2\); make"),
    ],
)
def test_what_does_not_fit_a_group_is_refused(call, message):
    with pytest.raises(ch.InvalidInput, match=message):
        call()


@pytest.mark.parametrize(
    ("path", "edge", "message"),
    [
        ([0, 1], [0], "as many edges as columns, and a start .* got 2 columns and 1 edges; take them from"),
        ([0, 1], [1, 1], "a start .kind 0. at the first"),
        ([], [], "a start .kind 0. at the first"),
        ([0, 9], [0, 1], r"count states are 0..3, got a path from 0 to 9; Group.index"),
        ([-1, 0], [0, 1], r"count states are 0..3, got a path from -1 to 0"),
    ],
)
def test_a_path_that_is_none_is_refused(path, edge, message):
    rows = Unlumping(Group(3, 2), Switch(0.1, 0.2).matrices(2, np.array([np.inf, 1.0])))
    path, edge = np.array(path, np.int64), np.array(edge, np.int32)
    with pytest.raises(ch.InvalidInput, match=message):
        rows.best(path, edge)
    with pytest.raises(ch.InvalidInput, match=message):
        rows.draw(path, edge, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("chain", "path", "message"),
    [
        (Switch(0.0, 0.1, 0.5), [1, 2, 3], r"column 1: counts \[1, 2\] cannot be reached there; draw the path"),
        (Switch(0.1, 0.1, 0.0), [1, 1, 1], r"column 0: counts \[2, 1\] cannot be reached"),
        (Markov([[0.5, 0.5, 0.0], [0, 1, 0], [0, 0.5, 0.5]], [0.5, 0.5, 0.0]), [0, 0, 2], r"column 2: .* \[2, 0, 1\]"),
        (Markov([[0.5, 0.5, 0.0], [0, 1, 0], [0, 0.5, 0.5]], [0.5, 0.5, 0.0]), [2, 2, 2], r"column 0: .* \[2, 0, 1\]"),
    ],
    ids=repr,
)
def test_counts_that_cannot_be_reached_are_refused(chain, path, message):
    rows = Unlumping(Group(3, chain.n_states), chain.matrices(chain.n_states, np.array([np.inf, 1.0])))
    path, edge = np.array(path), np.array([0, 1, 1], np.int32)
    with pytest.raises(ch.ImpossibleData, match=message):
        rows.best(path, edge)
    with pytest.raises(ch.ImpossibleData, match=message):
        rows.draw(path, edge, np.random.default_rng(0))

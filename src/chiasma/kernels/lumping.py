"""Equal rows as one chain of counts, and back: n rows with S states each, C count states.

    counts     int64 (C, S)      how many of the rows are in each state
    sizes      int64 (n + 1,)    number of count states of m rows; they are the first ones of those of n rows
    up         int64 (C', S)     up[c, y]: the count state c with one row more, in state y; C' = sizes[n - 1]
    matrices   float64 (E, S, S) transition matrices of one row, by kind of edge; kind 0 is a start
    path       int64 (T,)        count states
    states     int (n, T)        states of the rows

A row in state x contributes the factor sum_y A[x, y] z_y; the chance of counts c' is the coefficient of
prod_y z_y^c'[y] in the product of the factors of all rows. Nothing is ever subtracted, so that coefficients keep their
relative precision. With the maximum in place of the sum, it is the best single assignment of rows to states.
"""

import math

from chiasma._jit import njit
from chiasma.kernels.logspace import log_add

# Assignments whose log-probabilities differ by no more than this are equally good; rows then stay where they are.
TIE = 1e-12


# ---- Rows to counts -------------------------------------------------------------------------------------------------


@njit
def _copy(values, out):
    for n in range(out.shape[0]):
        out[n] = values[n]


@njit
def lump(matrices, counts, sizes, up, out):
    """out (E, C, C): transition matrices of the counts."""
    n_states = counts.shape[1]
    for e in range(matrices.shape[0]):
        for c in range(counts.shape[0]):
            out[e, c] = 0.0
            out[e, c, 0] = 1.0
            m = 0
            for x in range(n_states):
                for _ in range(counts[c, x]):
                    # From the last to the first: up[d, 0] is d itself, and up[d, y] comes later.
                    for d in range(sizes[m] - 1, -1, -1):
                        weight = out[e, c, d]
                        out[e, c, d] = weight * matrices[e, x, 0]
                        for y in range(1, n_states):
                            out[e, c, up[d, y]] += weight * matrices[e, x, y]
                    m += 1


@njit
def log_lump(log_matrices, counts, sizes, up, best, out):
    """As `lump`, in logarithms; `best` takes the best assignment where the chance takes the sum of all."""
    n_states = counts.shape[1]
    for e in range(log_matrices.shape[0]):
        for c in range(counts.shape[0]):
            out[e, c] = -math.inf
            out[e, c, 0] = 0.0
            m = 0
            for x in range(n_states):
                for _ in range(counts[c, x]):
                    for d in range(sizes[m] - 1, -1, -1):
                        weight = out[e, c, d]
                        out[e, c, d] = weight + log_matrices[e, x, 0]
                        for y in range(1, n_states):
                            into = up[d, y]
                            moved = weight + log_matrices[e, x, y]
                            out[e, c, into] = _either(out[e, c, into], moved, best)
                    m += 1


@njit
def _either(a, b, best):
    return max(a, b) if best else log_add(a, b)


# ---- Counts to rows -------------------------------------------------------------------------------------------------


@njit
def _nobody_moves(e, before, c, stays, uniform):
    """stays[e, c]: chance of it where counts remain as they are. At a start, rows are placed anew."""
    return e > 0 and c == before and uniform < stays[e, c]


@njit
def count_moving(path, edge, stays, uniforms):
    """Number of columns at which rows are placed or somebody moves: how many rows of `picks` a draw will read."""
    moving = 0
    before = 0
    for t in range(path.shape[0]):
        if not _nobody_moves(edge[t], before, path[t], stays, uniforms[t]):
            moving += 1
        before = path[t]
    return moving


@njit
def _set_state(k, t, y, current, since, states):
    """Row k is in state y from column t on; states[k] is written when a run of equal states ends."""
    if y != current[k]:
        states[k, since[k] : t] = current[k]
        since[k] = t
        current[k] = y


@njit
def _finish(current, since, states):
    for k in range(states.shape[0]):
        states[k, since[k] :] = current[k]


@njit
def _swap(order, i, j):
    order[i], order[j] = order[j], order[i]


@njit
def _times(count, log_p):
    """count * log_p, where nothing happens with probability 1, possible or not."""
    return count * log_p if count > 0 else 0.0


@njit
def draw_leaving(n_rows, on, after, log_matrix, log_total, log_choose, uniform):
    """How many of the `on` rows switch off, given that `after` rows are on next.

    By inversion from the fewest moves on: where rows seldom switch, the first term decides.
    """
    chosen = 0
    for left in range(max(on - after, 0), min(on, n_rows - after) + 1):
        came = after - on + left
        log_weight = log_choose[on, left] + log_choose[n_rows - on, came] - log_total
        log_weight += _times(n_rows - on - came, log_matrix[0, 0]) + _times(came, log_matrix[0, 1])
        log_weight += _times(left, log_matrix[1, 0]) + _times(on - left, log_matrix[1, 1])
        weight = math.exp(log_weight)
        if weight > 0.0:
            chosen = left
            if uniform < weight:
                break
            uniform = uniform - weight
    return chosen


@njit
def draw_binary_rows(
    path, edge, log_matrices, log_lumped, stays, log_choose, uniforms, picks, order, current, since, states
):
    """Draw states (n, T) of two-state rows given their counts. Returns the first impossible column, or -1.

    uniforms (T,): one decides how many rows move at a column. picks (count_moving, n): which ones, one number for
    each. order, current, since (n,): work; `order` lists the rows that are on first.
    """
    n_rows = states.shape[0]
    for k in range(n_rows):
        order[k] = k
        current[k] = since[k] = 0
    moving = 0
    on = 0
    for t in range(path.shape[0]):
        e = edge[t]
        after = path[t]
        if _nobody_moves(e, on, after, stays, uniforms[t]):
            continue
        if log_lumped[e, on, after] == -math.inf:
            return t
        if e == 0:
            for j in range(after):
                _swap(order, j, j + int(picks[moving, j] * (n_rows - j)))
            for j in range(n_rows):
                _set_state(order[j], t, 1 if j < after else 0, current, since, states)
        else:
            left = draw_leaving(n_rows, on, after, log_matrices[e], log_lumped[e, on, after], log_choose, uniforms[t])
            came = after - on + left
            # order: rows that stay on, that leave, that come, that stay off ...
            for j in range(left):
                _swap(order, int(picks[moving, j] * (on - j)), on - 1 - j)
                _set_state(order[on - 1 - j], t, 0, current, since, states)
            for j in range(came):
                _swap(order, on + j, on + j + int(picks[moving, left + j] * (n_rows - on - j)))
                _set_state(order[on + j], t, 1, current, since, states)
            # ... and the two in the middle change places.
            both = min(left, came)
            for j in range(both):
                _swap(order, on - left + j, on + came - both + j)
        moving += 1
        on = after
    _finish(current, since, states)
    return -1


@njit
def log_ways(log_matrix, current, target, best, digits, strides, ways):
    """Log-weights of all ways in which the first m rows come to counts i, for every i <= target. Returns their number.

    Counts are numbers in mixed radix: sum_y i[y] * strides[y]; m, the sum of i, needs no index of its own. The last
    entry is the log-probability that rows in states `current` come to `target`. digits, strides (S,): work.
    """
    n_states = target.shape[0]
    size = 1
    for y in range(n_states):
        strides[y] = size
        digits[y] = 0
        size *= target[y] + 1
    for i in range(size):
        ways[i] = -math.inf
    ways[0] = 0.0
    m = 0
    for i in range(size - 1):
        if ways[i] > -math.inf:
            for y in range(n_states):
                if digits[y] < target[y]:
                    into = i + strides[y]
                    ways[into] = _either(ways[into], ways[i] + log_matrix[current[m], y], best)
        y = 0
        while digits[y] == target[y]:
            m -= digits[y]
            digits[y] = 0
            y += 1
        digits[y] += 1
        m += 1
    return size


@njit
def _candidate(x, place):
    """States in the order in which they are tried: first the one that the row has, then the others."""
    if place == 0:
        return x
    return place - 1 if place <= x else place


@njit
def draw_rows(
    path, edge, log_matrices, counts, stays, uniforms, picks, current, since, left, digits, strides, ways, states
):
    """Draw states (n, T) of rows given their counts, row by row. Returns the first impossible column, or -1.

    uniforms (T,): one decides at a column who is the first to move, from the last row on. picks (count_moving, n):
    what the rows before it do. current, since (n,), left, digits, strides (S,), ways (max prod(counts + 1),): work.
    """
    n_rows, n_states = states.shape[0], counts.shape[1]
    for k in range(n_rows):
        current[k] = since[k] = 0
    moving = 0
    before = 0
    for t in range(path.shape[0]):
        e = edge[t]
        c = path[t]
        if _nobody_moves(e, before, c, stays, uniforms[t]):
            continue
        _copy(counts[c], left)
        if e == 0:
            for y in range(n_states):
                if left[y] > 0 and log_matrices[e, 0, y] == -math.inf:
                    return t
            for k in range(n_rows):
                place = picks[moving, k] * (n_rows - k)
                y = 0
                while not place < left[y]:
                    place = place - left[y]
                    y += 1
                left[y] -= 1
                _set_state(k, t, y, current, since, states)
        else:
            i = log_ways(log_matrices[e], current, left, False, digits, strides, ways) - 1
            if ways[i] == -math.inf:
                return t
            uniform = uniforms[t]
            moved = False
            for k in range(n_rows - 1, -1, -1):
                # Until somebody moves it is one inversion: what is below stays[e, c] ends as it began.
                if moved:
                    uniform = picks[moving, k]
                x = current[k]
                chosen = x
                for place in range(n_states):
                    y = _candidate(x, place)
                    if left[y] == 0:
                        continue
                    weight = math.exp(ways[i - strides[y]] + log_matrices[e, x, y] - ways[i])
                    if weight > 0.0:
                        chosen = y
                        if uniform < weight:
                            uniform = uniform / weight
                            break
                        uniform = uniform - weight
                moved = moved or chosen != x
                left[chosen] -= 1
                i -= strides[chosen]
                _set_state(k, t, chosen, current, since, states)
        moving += 1
        before = c
    _finish(current, since, states)
    return -1


@njit
def best_rows(path, edge, log_matrices, counts, best_stays, current, since, left, digits, strides, ways, states):
    """States (n, T) of the rows on the best of their paths with these counts. Returns as `draw_rows`.

    Where a sequence starts, the first rows have the highest states. Then the last rows are the first to stay where
    they are, as far as that is best. best_stays (E, C): whether it is best for all. Work as in `draw_rows`.
    """
    n_rows, n_states = states.shape[0], counts.shape[1]
    for k in range(n_rows):
        current[k] = since[k] = 0
    before = 0
    for t in range(path.shape[0]):
        e = edge[t]
        c = path[t]
        if e > 0 and c == before and best_stays[e, c]:
            continue
        _copy(counts[c], left)
        if e == 0:
            k = 0
            for y in range(n_states - 1, -1, -1):
                if left[y] > 0 and log_matrices[e, 0, y] == -math.inf:
                    return t
                for _ in range(left[y]):
                    _set_state(k, t, y, current, since, states)
                    k += 1
        else:
            i = log_ways(log_matrices[e], current, left, True, digits, strides, ways) - 1
            if ways[i] == -math.inf:
                return t
            for k in range(n_rows - 1, -1, -1):
                x = current[k]
                for place in range(n_states):
                    y = _candidate(x, place)
                    if left[y] > 0 and ways[i - strides[y]] + log_matrices[e, x, y] >= ways[i] - TIE:
                        break
                left[y] -= 1
                i -= strides[y]
                _set_state(k, t, y, current, since, states)
        before = c
    _finish(current, since, states)
    return -1

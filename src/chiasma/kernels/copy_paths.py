"""Free-level segments: stretches of C pieces at one level of depth and alleles that no whole copy number explains.

A level is a cell of a grid over the depths A >= B of the two alleles, from what normal cells add to either of them to
twice the mean of the tumour above that; without alleles over their sum. The grid depends on the depth of the normal
cells only, so a genome and its double have the same one. All cells are equally probable.

A run is a stretch i..j of one chromosome. Runs are numbered: that of i..j is offset[i] + j - i, and ends[i] is the
first piece of the next chromosome.
"""

import math

import numpy as np

from chiasma._jit import njit

# A run is given up if its pieces are exp(GIVEN_UP) times less probable together than one by one.
GIVEN_UP = 60.0
T7_TOP = 16.0 / (5.0 * math.pi * math.sqrt(7.0))


@njit
def cell_likelihoods(depth, sd, alleles, flat, normal, growth, unit, slack, outliers, out):
    """out (C, F): likelihood of pieces in the cells of the grid.

    alleles (C, G): likelihood of minor fractions 0..1/2, (C, 0) if unknown; flat (C,): its mean, NaN where a piece has
    no alleles. F is n (n + 1) / 2 cells (A, B) with A >= B at n levels, or 2 n - 1 totals. normal: depth of the normal
    cells. growth, unit, slack, outliers: see `piece_likelihoods`. A cell is as wide as its distance to the next one.
    """
    n_nodes = alleles.shape[1]
    n_cells = out.shape[1]
    n = (int(math.sqrt(8.0 * n_cells + 1.0)) - 1) // 2 if n_nodes else (n_cells + 1) // 2
    width = 2.0 * (unit - normal) / (n - 1)
    spare = width * width / 6.0 if n_nodes else width * width / 12.0
    n_totals = 2 * n - 1
    mu, spread, drift, density = np.empty(n_totals), np.empty(n_totals), np.empty(n_totals), np.empty(n_totals)
    for k in range(n_totals):
        mu[k] = max(normal + k * width, 0.5e-3 * unit)
        spread[k] = max(mu[k] / unit, 0.05) ** (2.0 * growth)
        drift[k] = (slack * mu[k]) ** 2 + spare
    for c in range(depth.shape[0]):
        if math.isnan(depth[c]):
            out[c] = 1.0
            continue
        for k in range(n_totals):
            scale2 = sd[c] * sd[c] * spread[k] + drift[k]
            off = depth[c] - mu[k]
            tail = 1.0 / (1.0 + off * off / (7.0 * scale2))
            tail *= tail
            density[k] = (1.0 - outliers) * T7_TOP / math.sqrt(scale2) * tail * tail
        seen = n_nodes > 0 and not math.isnan(flat[c])
        base = outliers / (3.0 * unit) * (flat[c] if seen else 1.0)
        if n_nodes == 0:
            for k in range(n_totals):
                out[c, k] = density[k] + base
            continue
        cell = 0
        for i in range(n):
            for j in range(i + 1):
                own = density[i + j]
                if seen:
                    x = 2.0 * (0.5 * normal + j * width) / mu[i + j] * (n_nodes - 1)
                    low = min(max(int(x), 0), n_nodes - 2)
                    part = min(max(x - low, 0.0), 1.0)
                    own *= (1.0 - part) * alleles[c, low] + part * alleles[c, low + 1]
                out[c, cell] = own + base
                cell += 1


@njit
def run_evidence(likelihoods, offset, ends, out):
    """out (P,): log evidence of every run, its pieces in one cell. likelihoods (C, F)."""
    n_pieces, n_cells = likelihoods.shape
    alone = np.empty(n_pieces)
    for c in range(n_pieces):
        total = 0.0
        for f in range(n_cells):
            total += likelihoods[c, f]
        alone[c] = math.log(total / n_cells)
    weight = np.empty(n_cells)
    for i in range(n_pieces):
        weight[:] = 1.0 / n_cells
        found, apart, given_up = 0.0, 0.0, False
        for j in range(i, ends[i]):
            apart += alone[j]
            if not given_up:
                total = 0.0
                for f in range(n_cells):
                    weight[f] *= likelihoods[j, f]
                    total += weight[f]
                found += math.log(total)
                total = 1.0 / total
                for f in range(n_cells):
                    weight[f] *= total
                given_up = found < apart - GIVEN_UP
            out[offset[i] + j - i] = apart - GIVEN_UP - (j - i) if given_up else found


@njit
def switch(message, stay, probabilities, sizes):
    """Rows switch, in place: each stays, or is drawn anew from its probabilities.

    message (N,): mass of the joint states, the last row the fastest. sizes (R,): states of each row; probabilities
    (sum of sizes,): theirs, one row after the other. The first may add up to less than one: the rest becomes free.
    """
    inner, last = 1, probabilities.shape[0]
    for r in range(sizes.shape[0] - 1, -1, -1):
        size = sizes[r]
        first = last - size
        for o in range(0, message.shape[0], inner * size):
            for i in range(o, o + inner):
                total = 0.0
                for k in range(size):
                    total += message[i + k * inner]
                total *= 1.0 - stay
                for k in range(size):
                    message[i + k * inner] = stay * message[i + k * inner] + total * probabilities[first + k]
        inner, last = inner * size, first


@njit
def switch_back(message, stay, probabilities, sizes):
    """The transpose of `switch`, in place: what is expected after the switch, given the state before it."""
    inner, last = 1, probabilities.shape[0]
    for r in range(sizes.shape[0] - 1, -1, -1):
        size = sizes[r]
        first = last - size
        for o in range(0, message.shape[0], inner * size):
            for i in range(o, o + inner):
                total = 0.0
                for k in range(size):
                    total += message[i + k * inner] * probabilities[first + k]
                total *= 1.0 - stay
                for k in range(size):
                    message[i + k * inner] = stay * message[i + k * inner] + total
        inner, last = inner * size, first


@njit
def fresh_states(probabilities, sizes, out):
    """out (N,): P(joint state) where all rows are drawn anew."""
    out[:] = 1.0
    inner, last = 1, probabilities.shape[0]
    for r in range(sizes.shape[0] - 1, -1, -1):
        first = last - sizes[r]
        for s in range(out.shape[0]):
            out[s] *= probabilities[first + (s // inner) % sizes[r]]
        inner, last = inner * sizes[r], first


@njit
def forward(likelihoods, others, stay, probabilities, sizes, runs, offset, ends):
    """Log evidence of all copy-number paths. likelihoods (C, N) of pieces in joint states, times others (C, N), those
    of other samples; (0, N) if there are none.

    Rows are clones of `sizes` states; probabilities (sum of sizes,) belong to the states of each row. Those of the
    first row add up to 1 - phi, phi the probability that a new segment has a free level. stay (C,): the probability
    that a row continues its state. runs (P,): `run_evidence`; (0,) if there are no free levels.
    """
    n_pieces, n_states = likelihoods.shape
    phi = 1.0
    for s in range(sizes[0]):
        phi -= probabilities[s]
    has_free = runs.shape[0] > 0
    message, fresh = np.zeros(n_states), np.empty(n_states)
    fresh_states(probabilities, sizes, fresh)
    message[0] = 1.0
    entered = np.empty(n_pieces)
    evidence, free, first = 0.0, 0.0, 0
    for c in range(n_pieces):
        if c > 0 and ends[c] != ends[c - 1]:
            first = c
        leave = 1.0 - stay[c]
        if has_free:
            total = free
            for s in range(n_states):
                total += message[s]
            entered[c] = math.log(max(total * leave * phi, 1e-300)) + evidence
        switch(message, stay[c], probabilities, sizes)
        mass = 0.0
        for s in range(n_states):
            message[s] = (message[s] + free * leave * fresh[s]) * likelihoods[c, s]
            if others.shape[0] > 0:
                message[s] *= others[c, s]
            mass += message[s]
        free = 0.0
        if has_free:
            log_stay = math.log(max(stay[c], 1e-300))
            for i in range(first, c):
                entered[i] += log_stay
            for i in range(first, c + 1):
                log_mass = entered[i] + runs[offset[i] + c - i] - evidence
                if log_mass > -80.0:
                    free += math.exp(log_mass)
        mass += free
        evidence += math.log(mass)
        mass = 1.0 / mass
        free *= mass
        for s in range(n_states):
            message[s] *= mass
    return evidence


@njit
def posterior(likelihoods, stay, probabilities, sizes, runs, offset, ends, out, free):
    """out (C, N): posterior probabilities of joint states of pieces; free (P,): of runs with a free level. Returns the
    log evidence. Arguments as in `forward`; likelihoods are those of all samples together.
    """
    n_pieces, n_states = likelihoods.shape
    phi = 1.0
    for s in range(sizes[0]):
        phi -= probabilities[s]
    has_free = runs.shape[0] > 0
    fresh = np.empty(n_states)
    fresh_states(probabilities, sizes, fresh)
    # After the pieces from c on: `after` (N,) given the state at c - 1, `renewed[c]` if all rows are drawn anew at c.
    # All of them are logs, relative to `scaled` for the states.
    renewed = np.zeros(n_pieces + 1)
    after = np.ones(n_states)
    log_after = np.zeros(n_pieces + 1)
    kept = np.empty((n_pieces + 1, n_states))
    kept[n_pieces] = after
    log_free = np.empty(n_pieces + 1)
    for c in range(n_pieces - 1, -1, -1):
        # Given a free level that begins at c: all ways to end it.
        top, log_stay = -math.inf, 0.0
        if has_free:
            for sweep in range(2):
                total, log_stay = 0.0, 0.0
                for j in range(c, ends[c]):
                    if j > c:
                        log_stay += math.log(max(stay[j], 1e-300))
                    leave = 1.0 - stay[j + 1] if j + 1 < n_pieces else 1.0
                    way = runs[offset[c] + j - c] + log_stay + math.log(max(leave, 1e-300)) + renewed[j + 1]
                    if sweep == 0:
                        top = max(top, way)
                    elif way > top - 80.0:
                        total += math.exp(way - top)
                if sweep == 1:
                    top += math.log(total)
        log_free[c] = top
        for s in range(n_states):
            after[s] = kept[c + 1, s] * likelihoods[c, s]
        own = 0.0
        for s in range(n_states):
            own += after[s] * fresh[s]
        scale = log_after[c + 1]
        # A new start at c: a state, or a free level.
        log_own = math.log(max(own, 1e-300)) + scale
        if has_free and phi > 0.0:
            log_new = math.log(phi) + log_free[c]
            high = max(log_own, log_new)
            renewed[c] = high + math.log(math.exp(log_own - high) + math.exp(log_new - high))
        else:
            renewed[c] = log_own
        switch_back(after, stay[c], probabilities, sizes)
        more = 0.0
        reference = max(scale, renewed[c])
        if has_free and phi > 0.0:
            more = (1.0 - stay[c]) * phi * math.exp(log_free[c] - reference)
        ratio, high = math.exp(scale - reference), 0.0
        for s in range(n_states):
            after[s] = after[s] * ratio + more
            high = max(high, after[s])
        for s in range(n_states):
            kept[c, s] = after[s] / high
        log_after[c] = reference + math.log(high)
    evidence = renewed[0]
    # Forward, with what comes after.
    message = np.zeros(n_states)
    message[0] = 1.0
    free[:] = 0.0
    entered = np.empty(n_pieces)
    before, mass_free, first = 0.0, 0.0, 0
    for c in range(n_pieces):
        if c > 0 and ends[c] != ends[c - 1]:
            first = c
        leave = 1.0 - stay[c]
        total = mass_free
        for s in range(n_states):
            total += message[s]
        entered[c] = math.log(max(total * leave * phi, 1e-300)) + before
        switch(message, stay[c], probabilities, sizes)
        mass = 0.0
        for s in range(n_states):
            message[s] = (message[s] + mass_free * leave * fresh[s]) * likelihoods[c, s]
            mass += message[s]
            out[c, s] = message[s] * kept[c + 1, s] * math.exp(before + log_after[c + 1] - evidence)
        mass_free = 0.0
        if has_free:
            if c > first:
                log_stay = math.log(max(stay[c], 1e-300))
                for i in range(first, c):
                    entered[i] += log_stay
            leave_next = 1.0 - stay[c + 1] if c + 1 < n_pieces else 1.0
            for i in range(first, c + 1):
                log_mass = entered[i] + runs[offset[i] + c - i]
                if log_mass - before > -80.0:
                    mass_free += math.exp(log_mass - before)
                log_whole = log_mass + math.log(max(leave_next, 1e-300)) + renewed[c + 1] - evidence
                if log_whole > -40.0:
                    free[offset[i] + c - i] = math.exp(log_whole)
        mass += mass_free
        before += math.log(mass)
        mass = 1.0 / mass
        mass_free *= mass
        for s in range(n_states):
            message[s] *= mass
    return evidence

"""Log-likelihoods of depth and allele fractions of a tumour, for T bins and N joint copy-number states.

Depth y of a bin is Student's t about mu[s] with scale sd[t] * spread[s]. In an amplified state depth has no upper
limit: above its least mean a the density is a / y^2, below it that of the t, and both parts are scaled to integrate
to 1.

Alleles enter as a table (T, G): log-likelihood of a bin for minor allele fractions 0..1/2 at equal steps. Between nodes
the likelihood is linear.
"""

import math

import numpy as np

from chiasma._jit import njit
from chiasma.kernels.copy_paths import forward

LOG_HALF = math.log(0.5)
TAILS = 6.0
# Counts whose rising factorials are tabulated: those of a site; sums over many sites are computed one by one.
MOST_TABULATED = 2_000
# Student's t with seven degrees of freedom at its centre.
T7_TOP = 16.0 / (5.0 * math.pi * math.sqrt(7.0))


@njit
def add_depth(y, sd, mu, spread, amplified, df, power, slack, out):
    """out (n, N) += power[t] * log p(y | state). y (NaN: missing), sd, power (n,); mu, spread, amplified (flags) (N,).

    slack: relative standard deviation of a level, on top of sd[t] * spread[s].
    """
    n_states = mu.shape[0]
    log_top = math.lgamma(0.5 * (df + 1.0)) - math.lgamma(0.5 * df) - 0.5 * math.log(df * math.pi)
    tail = 0.5 * (df + 1.0)
    for t in range(y.shape[0]):
        value = y[t]
        if math.isnan(value):
            continue
        for s in range(n_states):
            noise, drift = sd[t] * spread[s], slack * mu[s]
            scale = math.sqrt(noise * noise + drift * drift)
            z = (value - mu[s]) / scale
            if amplified[s]:
                below = 0.5 * scale / mu[s] * math.exp(-log_top)
                shape = 2.0 * math.log(mu[s] / value) if z > 0.0 else -tail * math.log1p(z * z / df)
                out[t, s] += power[t] * (shape - math.log(mu[s]) - math.log1p(below))
            else:
                out[t, s] += power[t] * (log_top - math.log(scale) - tail * math.log1p(z * z / df))


@njit
def four_nodes(x, n_nodes, weight):
    """Weights (4,) of the cubic through the four nodes about x, which counts nodes; returns the first of them."""
    first = min(max(int(x) - 1, 0), n_nodes - 4)
    u = x - first
    weight[0] = -(u - 1.0) * (u - 2.0) * (u - 3.0) / 6.0
    weight[1] = u * (u - 2.0) * (u - 3.0) / 2.0
    weight[2] = -u * (u - 1.0) * (u - 3.0) / 2.0
    weight[3] = u * (u - 1.0) * (u - 2.0) / 6.0
    return first


@njit
def add_alleles(table, flat, fraction, amplified, out):
    """out (n, N) += log p(alleles | state). table (n, G); fraction (N,) of the minor allele in each state.

    flat (n,): log-likelihood where nothing is known about the fraction, which is used for amplified states.
    """
    n_nodes = table.shape[1]
    n_states = fraction.shape[0]
    node = np.empty(n_states, np.int64)
    part = np.empty(n_states)
    for s in range(n_states):
        node[s], part[s] = two_nodes(fraction[s], n_nodes)
    for t in range(table.shape[0]):
        row = table[t]
        if math.isnan(row[0]):
            continue
        for s in range(n_states):
            if amplified[s]:
                out[t, s] += flat[t]
            else:
                low, high = row[node[s]], row[node[s] + 1]
                top = max(low, high)
                out[t, s] += top + math.log((1.0 - part[s]) * math.exp(low - top) + part[s] * math.exp(high - top))


@njit
def two_nodes(fraction, n_nodes):
    """The node of a table below a minor allele fraction, and how far the fraction is on the way to the next one."""
    x = min(max(2.0 * fraction, 0.0), 1.0) * (n_nodes - 1)
    node = min(int(x), n_nodes - 2)
    return node, x - node


@njit
def log_rising(start, out):
    """out (M + 1, G): lgamma(m + start[g]) - lgamma(start[g]) for m = 0..M."""
    for g in range(start.shape[0]):
        out[0, g] = 0.0
        for m in range(1, out.shape[0]):
            out[m, g] = out[m - 1, g] + math.log(start[g] + m - 1.0)


@njit
def add_rising(count, start, table, out):
    """out (G,) += the same at a count, linear between whole ones; table: `log_rising`, for counts below M."""
    m = int(count)
    if m + 1 >= table.shape[0]:
        for g in range(start.shape[0]):
            out[g] += math.lgamma(count + start[g]) - math.lgamma(start[g])
        return
    part = count - m
    for g in range(start.shape[0]):
        out[g] += (1.0 - part) * table[m, g] + part * table[m + 1, g]


@njit
def log_of_sum(x, y):
    return max(x, y) + math.log1p(math.exp(-abs(x - y)))


@njit
def or_outside(out, outside, log_inside, depth):
    """out[t, s] = log(exp(out[t, s] + log_inside) + exp(outside[t])); 0 where depth is missing."""
    for t in range(out.shape[0]):
        for s in range(out.shape[1]):
            out[t, s] = 0.0 if math.isnan(depth[t]) else log_of_sum(out[t, s] + log_inside, outside[t])


@njit
def add_counts(bins, a, b, order, nodes, precision, homozygous, astray, out):
    """out (T, G) += log-likelihood of units of counts a, b (J,) in their bins; either allele may be the minor one.

    Beta-binomial, with its coefficient: alpha + beta is the precision, alpha / precision a node. homozygous: P(a unit
    is no heterozygous site at all); its minor fraction is then that of the first node. astray: P(a unit says nothing
    about the fraction); all counts of its total are then equally probable.
    order (J,): of the units; the likelihoods of equal counts side by side are computed once.
    """
    n_nodes = nodes.shape[0]
    log_het, log_own = math.log1p(-homozygous), math.log1p(-astray)
    alpha, beta = nodes * precision, (1.0 - nodes) * precision
    most = 0.0
    for j in range(bins.shape[0]):
        most = max(most, a[j], b[j])
    most = min(int(most) + 2, MOST_TABULATED)
    low, high = np.empty((most, n_nodes)), np.empty((most, n_nodes))
    log_rising(alpha, low)
    log_rising(beta, high)
    one, other = np.empty(n_nodes), np.empty(n_nodes)
    last_a, last_b = -1.0, -1.0
    for i in range(order.shape[0]):
        j = order[i]
        if a[j] != last_a or b[j] != last_b:
            last_a, last_b = a[j], b[j]
            n = a[j] + b[j]
            first = math.lgamma(n + 1.0) - math.lgamma(a[j] + 1.0) - math.lgamma(b[j] + 1.0)
            first += math.lgamma(precision) - math.lgamma(n + precision) + LOG_HALF
            one[:] = first
            other[:] = first
            add_rising(a[j], alpha, low, one)
            add_rising(b[j], beta, high, one)
            add_rising(b[j], alpha, low, other)
            add_rising(a[j], beta, high, other)
            for g in range(n_nodes):
                one[g] = log_of_sum(one[g], other[g])
            log_hom = one[0]
            for g in range(n_nodes):
                if homozygous > 0.0:
                    one[g] = log_of_sum(log_het + one[g], math.log(homozygous) + log_hom)
                if astray > 0.0:
                    one[g] = log_of_sum(log_own + one[g], math.log(astray / (n + 1.0)))
        row = out[bins[j]]
        for g in range(n_nodes):
            row[g] += one[g]


@njit
def add_fractions(bins, fraction, variance, sites, extra, nodes, homozygous, log_hom, out):
    """out (T, G) += log density of mirrored fractions (J,), each a mean over sites that were mirrored one by one.

    A site's fraction has the mean p and the variance p (1 - p) * variance[j]; mirrored, it is 1/2 less the folded
    normal |1/2 - x|. The mean over several sites has its moments and a variance of `extra` on top. Student's t with
    TAILS degrees of freedom in place of the normal takes care of bins where sites are not alike. homozygous: P(a unit
    of one site is no heterozygous one); log_hom (J,): its log density then.
    """
    log_het = math.log1p(-homozygous)
    log_top = math.lgamma(0.5 * (TAILS + 1.0)) - math.lgamma(0.5 * TAILS) - 0.5 * math.log(TAILS * math.pi)
    for j in range(bins.shape[0]):
        for g in range(nodes.shape[0]):
            p = nodes[g]
            distance = 0.5 - p
            sd = math.sqrt(p * (1.0 - p) * variance[j] + (extra if sites[j] <= 1.0 else 0.0))
            if sites[j] <= 1.0:
                near = (fraction[j] - p) / sd
                far = (1.0 - fraction[j] - p) / sd
                both = log_of_sum(
                    -0.5 * (TAILS + 1.0) * math.log1p(near * near / TAILS),
                    -0.5 * (TAILS + 1.0) * math.log1p(far * far / TAILS),
                )
                both += log_top - math.log(sd)
                if homozygous > 0.0:
                    both = log_of_sum(log_het + both, math.log(homozygous) + log_hom[j])
                out[bins[j], g] += both
            else:
                z = distance / sd
                folded = sd * math.sqrt(2.0 / math.pi) * math.exp(-0.5 * z * z) + distance * math.erf(
                    z / math.sqrt(2.0)
                )
                left = max(distance**2 + sd**2 - folded**2, 1e-3 * sd**2)
                spread = math.sqrt(left / sites[j] + extra)
                off = (fraction[j] - (0.5 - folded)) / spread
                out[bins[j], g] += log_top - math.log(spread) - 0.5 * (TAILS + 1.0) * math.log1p(off * off / TAILS)


@njit
def allele_likelihoods(table, values, purity, foreign, out):
    """out (C, N): likelihood of the alleles of C pieces in N joint states, interpolated as in `add_alleles`.

    table (C, G): likelihoods of minor allele fractions. values (N, 2): copies of the joint states per tumour cell,
    normal cells not counted. foreign: fractions are this share of their distance nearer to 1/2.
    """
    n_states, n_nodes = values.shape[0], table.shape[1]
    node, part = np.empty(n_states, np.int64), np.empty(n_states)
    for s in range(n_states):
        major, minor = 1.0 - purity + purity * values[s, 0], 1.0 - purity + purity * values[s, 1]
        fraction = max(min(major, minor), 0.0) / max(major + minor, 1e-3)
        node[s], part[s] = two_nodes(0.5 - (1.0 - foreign) * (0.5 - fraction), n_nodes)
    for c in range(table.shape[0]):
        for s in range(n_states):
            k = node[s]
            out[c, s] = (1.0 - part[s]) * table[c, k] + part[s] * table[c, k + 1]


@njit
def piece_likelihoods(depth, sd, flat, alleles, values, levels, which, purity, scale, noise, unexplained, out):
    """out (C, N): likelihood of C pieces in N joint states, depth and alleles together.

    Pieces have a constant depth (C,), NaN where missing, with its standard error sd. alleles (C, N) as
    `allele_likelihoods` gives them, (0, N) if unknown; flat (C,): the mean likelihood over all fractions, NaN where a
    piece has no alleles. Many joint states have the same total: levels (L, 2) are the totals that occur, with a mark
    of amplification, and which (N,) the level of each state. noise = (growth, unit, slack): as in `add_depth`.
    unexplained (C,): probability that the level says nothing about a piece, whose depth is then uniform over 0..3
    units.
    Student's t has seven degrees of freedom, so that its density is a fourth power.
    """
    n_states, n_levels = values.shape[0], levels.shape[0]
    growth, unit, slack = noise
    mu, spread, drift, density = np.empty(n_levels), np.empty(n_levels), np.empty(n_levels), np.empty(n_levels)
    for k in range(n_levels):
        total = 2.0 * (1.0 - purity) + purity * (levels[k, 0] - 0.5 * levels[k, 1])
        mu[k] = 0.5 * scale * max(total, 1e-3)
        spread[k] = max(mu[k] / unit, 0.05) ** (2.0 * growth)
        drift[k] = (slack * mu[k]) ** 2
    for c in range(depth.shape[0]):
        value = depth[c]
        explained, outside = 1.0 - unexplained[c], unexplained[c] / (3.0 * unit)
        missing = math.isnan(value)
        seen = alleles.shape[0] > 0 and not missing and not math.isnan(flat[c])
        for k in range(0 if missing else n_levels):
            scale2 = sd[c] * sd[c] * spread[k] + drift[k]
            off = value - mu[k]
            tail = 1.0 / (1.0 + off * off / (7.0 * scale2))
            tail *= tail
            if levels[k, 1] > 0.0:
                below = 0.5 * math.sqrt(scale2) / (mu[k] * T7_TOP)
                shape = (mu[k] / value) ** 2 if off > 0.0 else tail * tail
                density[k] = explained * shape / (mu[k] * (1.0 + below)) * (flat[c] if seen else 1.0)
            else:
                density[k] = explained * T7_TOP / math.sqrt(scale2) * tail * tail
        base = outside * (flat[c] if seen else 1.0)
        for s in range(n_states):
            # A subclone cannot lose what is not there.
            if min(values[s, 0], values[s, 1]) < 0.0:
                out[c, s] = 0.0
            elif missing:
                # A missing depth says nothing, and neither do the alleles with it.
                out[c, s] = 1.0
            else:
                own = density[which[s]]
                if seen and levels[which[s], 1] == 0.0:
                    own *= alleles[c, s]
                out[c, s] = own + base


@njit
def landscape(
    depth, sd, table, flat, others, stay, probabilities, sizes, values, levels, which, purities, scales, noise,
    unexplained, foreign, grid, runs, offset, ends, out
):  # fmt: skip
    """Log evidence of the tumour model at all purities and scales, into out (P, Q): all copy-number paths summed.

    Arguments are those of `allele_likelihoods`, `piece_likelihoods` and `forward`. runs (K, P): `run_evidence` at K
    depths of the normal cells, whose shares of the mean depth are 1 - exp(grid[0] + k * grid[1]).
    """
    n_pieces, n_states = depth.shape[0], values.shape[0]
    alleles = np.empty((n_pieces if table.shape[1] > 0 else 0, n_states))
    likelihoods = np.empty((n_pieces, n_states))
    own_runs = np.empty(runs.shape[1] if runs.shape[0] else 0)
    for i in range(purities.shape[0]):
        if table.shape[1] > 0:
            allele_likelihoods(table, values, purities[i], foreign, alleles)
        for j in range(scales.shape[0]):
            piece_likelihoods(
                depth, sd, flat, alleles, values, levels, which, purities[i], scales[j], noise, unexplained, likelihoods
            )
            if runs.shape[0]:
                between(runs, node_of(scales[j] * (1.0 - purities[i]) / noise[1], grid), own_runs)
            out[i, j] = forward(likelihoods, others, stay, probabilities, sizes, own_runs, offset, ends)


@njit
def node_of(normal, grid):
    """Where normal cells of this share of the mean depth are on a grid, see `landscape`."""
    return (math.log(max(1.0 - normal, 1e-3)) - grid[0]) / grid[1]


@njit
def between(nodes, x, out):
    """out (P,): nodes (K, P) interpolated at x, which counts nodes.

    Cubic, but between the values of the two nodes beside x: the evidence of a run falls by hundreds where normal cells
    alone have more of an allele than the run, and a cubic through such a cliff overshoots by tens on the other side.
    """
    weight = np.empty(4)
    inside = min(max(x, 0.0), nodes.shape[0] - 1.0)
    first = four_nodes(inside, nodes.shape[0], weight)
    left = min(int(inside), nodes.shape[0] - 2)
    for p in range(out.shape[0]):
        value = (
            weight[0] * nodes[first, p]
            + weight[1] * nodes[first + 1, p]
            + weight[2] * nodes[first + 2, p]
            + weight[3] * nodes[first + 3, p]
        )
        one, other = nodes[left, p], nodes[left + 1, p]
        out[p] = min(max(value, min(one, other)), max(one, other))

"""Where explanations are found before they are polished: each sample by itself, then all samples of a patient.

A sample alone is searched on its landscape (`chiasma.tumour.landscape`); explanations with the same levels of depth,
doubled or halved, are added. The landscape of all purities and scales of several samples is out of reach. But a good
explanation of all samples is a good explanation of one of them, which fixes the copy numbers; given these, the purity
and the scale of another sample are a search in two dimensions. So every explanation of every sample begins a joint one,
and the exact joint evidence ranks them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial, reduce
from typing import Literal

import numpy as np

from chiasma.sampling.threads import Pool
from chiasma.tumour.bins import Bins
from chiasma.tumour.copy_states import CopyStates
from chiasma.tumour.landscape import Bounds, candidates, near, surveys
from chiasma.tumour.model import (
    CopyColumns,
    CopyEvidence,
    TumourParameters,
    evidence_map,
    likelihoods,
    log_evidence,
    shared_states,
)
from chiasma.tumour.pieces import TumourData, pooled
from chiasma.tumour.polish import Explained, Joint, rough_climb
from chiasma.types import Floats

# Values of --response.
Response = Literal["linear", "array"] | None

# Explanations to polish: the best, if they are not much less probable than the best of all, and at least a few.
N_POLISHED, FEWEST_POLISHED, FAR_BELOW = 8, 4, 40.0
N_ALIASED = 3
# Signals grow like copies to one of these powers, those of arrays to about 0.55; with their prior probabilities where
# allele fractions have no counts.
RESPONSES = {1.0: 0.9, 0.55: 0.1}
PEAK_STEP, MOST_MOVES = 1.3, 6
# Explanations under which the noise of alleles is measured.
N_MEASURED = 3
# Another sample's purity and scale, given the copy numbers: a coarse grid is enough, because the maxima are broad.
PURITY_STEP, SCALE_STEP = 0.05, 0.02
ZOOMS = 3
# Shares of a subclone that are tried in a sample; turns over all samples.
SHARES = (0.02, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.98)
SHARE_TURNS = 2
# With more clones than this, search only from the best explanations with one clone fewer, and polish few.
MANY_CLONES, N_POLISHED_TOGETHER, N_POLISHED_OF_MANY = 2, 5, 3
# Number of starts to climb from, and the minimum of each kind, doubled or not.
N_STARTS, N_OF_A_KIND = 16, 4
# Joint explanations that a subclone is added to; minimum difference in the purity or the shares of a sample, unless
# doubling differs.
N_SEEDS, OTHER_PURITY, OTHER_SHARE = 8, 0.05, 0.25
# Ways to add it that are kept; explanations of a sample alone that are combined with the best ones of the others.
N_WAYS, N_OTHERS = 2, 3
# Shares of a clone and of its mirror image add up to 1 within this.
MIRRORED = 0.1


class Search:
    """Where joint explanations are found before they are polished."""

    def __init__(
        self,
        samples: Sequence[TumourData],
        most: int,
        bounds: Sequence[Bounds],
        workers: int,
        pool: Pool,
    ):
        self.most, self.bounds, self.workers, self.pool = most, bounds, workers, pool
        self.use(samples)
        self.maps = [surveys(pieces, most, own, workers) for pieces, own in zip(self.pieces, bounds, strict=True)]
        self._seeds: list[Joint] = []

    def use(self, samples: Sequence[TumourData]) -> None:
        """Search with these data from now on."""
        self.samples, self.pieces = samples, [data.pieces for data in samples]

    def rough(self, n_clones: int) -> list[tuple[float, Joint]]:
        """Joint explanations with this number of clones after a few steps, with their heights."""
        if len(self.samples) == 1:
            return self._alone(0, n_clones)
        seeds = self._seeds
        starts: list[Joint] = []
        if n_clones <= MANY_CLONES or not seeds:
            alone = [self._best_alone(number, n_clones) for number in range(len(self.samples))]
            tasks = [(number, own) for number, each in enumerate(alone) for own in each]
            begun = self.pool.map(self._extended, tasks)
            starts += self.pool.map(self._with_shares, begun, [number for number, _ in tasks])
            # A sample that differs much from the others is found alone, not through them.
            together = [joint for doubled in (False, True) for joint in _combined(alone, doubled)]
            starts, seeds = (starts + together, []) if n_clones == 1 else (starts, distinct_joint(seeds + together))
        for found in self.pool.map(self._with_subclone, seeds):
            starts += found
        climb = partial(rough_climb, self.samples, self.most, self.bounds)
        rough = list(self.pool.map(climb, self._hopeful(distinct_joint(starts))))
        self._seeds = _far_apart([own for _, own in sorted(rough, key=lambda one: -one[0])])[:N_SEEDS]
        return rough

    def _hopeful(self, starts: Sequence[Joint]) -> list[Joint]:
        """The best starts, and some of each kind, doubled or not."""
        at = {doubled: CopyEvidence(self.pieces, self.most, doubled) for doubled in (False, True)}
        ranked = sorted(starts, key=lambda joint: -at[joint[0].doubled].at(joint))
        kept = ranked[:N_STARTS]
        for doubled in (False, True):
            kept += [joint for joint in ranked if joint[0].doubled is doubled][:N_OF_A_KIND]
        return list(dict.fromkeys(kept))

    def first_numbers(self, numbers: range) -> Sequence[int]:
        """Numbers of clones to search before the noise of alleles is measured again: those that need no other."""
        if len(self.samples) == 1:
            return numbers
        return [n for n in numbers if n <= MANY_CLONES] or numbers[:1]

    def chosen(self, rough: Sequence[tuple[float, Joint]], n_clones: int) -> list[Joint]:
        """Explanations to polish."""
        return chosen_alone(rough) if len(self.samples) == 1 else _chosen_together(rough, n_clones)

    def _alone(self, number: int, n_clones: int) -> list[tuple[float, Joint]]:
        """Explanations of one sample by itself, with their heights."""
        data, bounds = self.samples[number], self.bounds[number]
        found = candidates(self.pieces[number], self.maps[number], self.most, bounds, n_clones, self.workers)
        return rough_explanations(data, self.most, bounds, found, self.pool)

    def _best_alone(self, number: int, n_clones: int) -> list[TumourParameters]:
        """The same without heights, the best first."""
        return [own for (own,) in chosen_alone(self._alone(number, n_clones))]

    def _extended(self, task: tuple[int, TumourParameters]) -> Joint:
        """An explanation of one sample with the purities and scales that suit it best in the others."""
        number, own = task
        states = shared_states(self.pieces, own.doubled, self.most)
        known = _of_main_clone(self.pieces[number], states, own)
        found = {number: own}
        for other, pieces in enumerate(self.pieces):
            if other == number:
                continue
            alone = _best_given(pieces, states, self.bounds[other], own, known)
            known = known * likelihoods(pieces, states, alone)[0]
            found[other] = replace(alone, fractions=own.fractions)
        return tuple(found[i] for i in range(len(self.pieces)))

    def _with_shares(self, joint: Joint, number: int) -> Joint:
        """The shares of subclones in other samples than the one that began the explanation."""
        others = [i for i in range(len(joint)) if i != number]
        return self._shares(joint, [*others, number], range(len(joint[0].fractions)))[1]

    def _with_subclone(self, joint: Joint) -> list[Joint]:
        """A subclone more, with the shares that suit it best. It may be in all samples, or in one of them only; the
        names of the main clone and of a subclone may be exchanged, so several ways are kept.
        """
        starts = [[0.2] * len(joint)]
        for number in range(len(joint)):
            for high in (0.3, 0.9):
                starts.append([high if i == number else 0.02 for i in range(len(joint))])
        tried = []
        for shares in starts:
            more = tuple(_with_new(own, share) for own, share in zip(joint, shares, strict=True))
            tried.append(self._shares(more, range(len(joint)), [len(joint[0].fractions)]))
        return _far_apart([own for _, own in sorted(tried, key=lambda one: -one[0])])[:N_WAYS]

    def _shares(self, joint: Joint, order: Sequence[int], subclones: Sequence[int]) -> tuple[float, Joint]:
        """The best shares of some subclones, one sample after the other, and their evidence."""
        if not subclones:
            return 0.0, joint
        evidence = CopyEvidence(self.pieces, self.most, joint[0].doubled)
        best = evidence.at(joint)
        for _ in range(SHARE_TURNS):
            before = best
            for number in order:
                for j in subclones:
                    for share in SHARES:
                        trial = _with_share(joint, number, j, share)
                        if (height := evidence.at(trial)) > best:
                            best, joint = height, trial
            if best == before:
                break
        return best, joint


def prepared(
    samples: Sequence[Bins], most: int, bounds: Sequence[Bounds], workers: int = 2, response: Response = None
) -> list[TumourData]:
    """The samples ready for the search: on the same pieces of the genome, their depth linear in the copies."""
    each = [TumourData.of(pooled(bins)) for bins in samples]
    return with_shared_cuts(
        [surveyed(own, most, one, workers, response)[0] for own, one in zip(each, bounds, strict=True)]
    )


def with_shared_cuts(samples: Sequence[TumourData]) -> list[TumourData]:
    """The samples with the same pieces of the genome: cut where any of them changes."""
    cuts = reduce(np.union1d, [data.reference.cuts for data in samples])
    # The same changes are found in several samples, not always in the same bin.
    rate = max(data.reference.change_rate for data in samples)
    return [replace(data, reference=replace(data.reference, cuts=cuts, change_rate=rate)) for data in samples]


def surveyed(
    data: TumourData, most: int, bounds: Bounds, workers: int, response: Response = None
) -> tuple[TumourData, dict[float, float]]:
    """The sample with its depth linear in the copies, and the log posterior of the responses that were tried.

    Reads count copies: without a given response only allele fractions without counts, as from arrays, are
    treated as array data, if that explains the sample better.
    """
    may_be_array = data.alleles is not None and not data.alleles.counts
    if response == "linear" or (response is None and not may_be_array):
        return data, {1.0: 0.0}
    powers = [power for power in RESPONSES if response is None or power < 1]
    depth = data.pieces.depth[data.pieces.depth > 0]
    heights, others = {}, {}
    for power in powers:
        others[power] = data.with_response(power)
        maps = surveys(others[power].pieces, most, bounds, workers)
        # Change of variables: a power of the depth has a different density. Alleles count by the fractions of
        # pieces, not by the noise of their sites.
        log_slope = float(np.sum((1 / power - 1) * np.log(depth) - np.log(power))) - others[power].fit_of_alleles
        heights[power] = max(one.log_evidence.max() for one in maps.values()) + log_slope + np.log(RESPONSES[power])
    best = max(heights, key=lambda power: heights[power])
    if response is None:
        rival = max(height for power, height in heights.items() if (power == 1) != (best == 1))
        kind = "linear, as that of sequencing" if best == 1 else "that of an array"
        other = "array" if best == 1 else "linear"
        note = (
            f"the response of depth to copies is {kind} ({heights[best] - rival:+.1f} in log evidence); "
            f"--response {other} if you know better"
        )
        others[best] = others[best].noted(note)
    return others[best], heights


def rough_explanations(
    data: TumourData, most: int, bounds: Bounds, found: Sequence[TumourParameters], pool: Pool
) -> list[tuple[float, Joint]]:
    """Candidates of one sample and their aliases after a few steps, with their heights."""
    begun = list(pool.map(partial(rough_climb, (data,), most, (bounds,)), [(own,) for own in found]))
    more = _aliases([(height, own) for height, (own,) in begun], data, bounds)
    return begun + list(pool.map(partial(rough_climb, (data,), most, (bounds,)), [(own,) for own in more]))


def with_measured_alleles(data: TumourData, most: int, rough: Sequence[tuple[float, Joint]]) -> TumourData:
    """The data with the noise of alleles that is most probable together with one of the best explanations.

    Without an explanation the noise is poorly determined, because near one half it is hard to distinguish from a small
    loss. Noise estimated under one explanation would penalise the others.
    """
    if data.alleles is None or not rough:
        return data
    tables = cache(data.with_allele_noise)

    def score(own: Joint, level: float) -> float:
        other = tables(level)
        return max(log_evidence((other.pieces_with(slack),), own, most) for slack in data.fraction_slacks)

    leading = distinct_joint([own for _, own in sorted(rough, key=lambda one: -one[0])])[:N_MEASURED]
    return tables(max(_peak(partial(score, own), data.alleles.level) for own in leading)[1])


def _peak(score: Callable[[float], float], at: float) -> tuple[float, float]:
    """The largest value found of a function of a positive number, and where the function is highest near `at`: the
    vertex of a parabola over its logarithm.
    """
    known = {at: score(at)}
    for _ in range(MOST_MOVES):
        around = [at / PEAK_STEP, at, at * PEAK_STEP]
        low, middle, high = (known[x] if x in known else known.setdefault(x, score(x)) for x in around)
        if middle >= max(low, high):
            bend = low - 2 * middle + high
            return middle, at * PEAK_STEP ** (0.5 * (low - high) / bend) if bend < 0 else at
        at = around[0] if low > high else around[2]
    return known[at] if at in known else score(at), at


def chosen_alone(rough: Sequence[tuple[float, Joint]]) -> list[Joint]:
    """The best, those that are not far below, and at least two of each kind, doubled or not."""
    ranked = sorted(rough, key=lambda one: -one[0])
    best = ranked[0][0] if ranked else 0.0
    found = distinct_joint([own for _, own in ranked])
    near_best = distinct_joint([own for height, own in ranked if height > best - FAR_BELOW])[:N_POLISHED]
    kept = near_best if len(near_best) >= FEWEST_POLISHED else found[:FEWEST_POLISHED]
    for doubled in (False, True):
        kept += [own for own in found if own[0].doubled is doubled][:2]
    return list(dict.fromkeys(kept))


def distinct_joint(ranked: Iterable[Joint]) -> list[Joint]:
    """Without explanations that are near a better one in every sample."""
    kept: list[Joint] = []
    for own in ranked:
        if not any(all(map(near, own, other)) for other in kept):
            kept.append(own)
    return kept


def _aliases(rough: list[tuple[float, TumourParameters]], data: TumourData, bounds: Bounds) -> list[TumourParameters]:
    """Explanations with the same levels of depth as the best ones: every copy number doubled or halved, or, where there
    are no alleles, shifted by one. Depth alone cannot tell them apart.
    """
    found: list[TumourParameters] = []
    taken = [own for _, own in rough]
    for _, own in sorted(rough, key=lambda one: -one[0])[:N_ALIASED]:
        shifts = [] if data.has_alleles else [(1.0, -0.5), (1.0, 0.5)]
        for factor, shift in ((0.5, 0.0), (2.0, 0.0), *shifts):
            for doubled in (False, True):
                alias = _alias(own, factor, shift, doubled, bounds)
                if alias and not any(near(alias, other) for other in (*taken, *found)):
                    found.append(alias)
    return found


def _alias(
    own: TumourParameters, factor: float, shift: float, doubled: bool, bounds: Bounds
) -> TumourParameters | None:
    """The same levels with copies apart by `factor` of their steps of depth, and shifted by some copies of them; None
    if the purity is out of bounds. Half the step: every copy number is doubled.
    """
    step = own.purity * own.scale
    scale = own.scale + (factor - 1) * step + shift * step
    purity = factor * step / scale if scale > 0 else 2.0
    if not bounds.purity[0] <= purity <= bounds.purity[1]:
        return None
    return replace(own, purity=float(purity), scale=float(scale), doubled=doubled)


def halved_and_doubled(found: Sequence[Explained], bounds: Sequence[Bounds]) -> list[Joint]:
    """The leading explanations with every copy number halved or doubled, unless they are among those found."""
    ranked = [tuple(one.parameters for one in joint) for joint in sorted(found, key=lambda one: -one[0].log_mass)]
    aliases: list[Joint] = []
    for joint in ranked[:N_ALIASED]:
        for factor, doubled in ((0.5, True), (2.0, False)):
            each = [_alias(own, factor, 0.0, doubled, bound) for own, bound in zip(joint, bounds, strict=True)]
            alias = tuple(one for one in each if one is not None)
            if len(alias) == len(joint) and not any(all(map(near, alias, other)) for other in (*ranked, *aliases)):
                aliases.append(alias)
    return aliases


def _combined(alone: Sequence[Sequence[TumourParameters]], doubled: bool) -> list[Joint]:
    """The best explanations of the samples by themselves side by side, then others of one sample at a time; without
    their subclones.
    """
    each = [[replace(own, fractions=()) for own in found if own.doubled is doubled] for found in alone]
    if not all(each):
        return []
    best = tuple(found[0] for found in each)
    others = [
        (*best[:number], own, *best[number + 1 :]) for number, found in enumerate(each) for own in found[1:N_OTHERS]
    ]
    return [best, *others]


def _chosen_together(rough: Sequence[tuple[float, Joint]], n_clones: int) -> list[Joint]:
    """The best, what is not far below, and of few clones also a rival and one of each kind, doubled or not."""
    ranked = sorted(rough, key=lambda one: -one[0])
    near_best = distinct_joint([own for height, own in ranked if height > ranked[0][0] - FAR_BELOW])
    if n_clones > MANY_CLONES:
        return near_best[:N_POLISHED_OF_MANY]
    found = distinct_joint([own for _, own in ranked])
    kinds = [[own for own in found if own[0].doubled is doubled][:1] for doubled in (False, True)]
    return list(dict.fromkeys([*near_best[:N_POLISHED_TOGETHER], *found[:2], *kinds[0], *kinds[1]]))


def _far_apart(ranked: Sequence[Joint]) -> list[Joint]:
    """Without explanations with about the purities and shares of a better one."""

    def alike(one: TumourParameters, other: TumourParameters) -> bool:
        shares = zip(one.fractions, other.fractions, strict=True)
        return abs(one.purity - other.purity) < OTHER_PURITY and all(abs(a - b) < OTHER_SHARE for a, b in shares)

    kept: list[Joint] = []
    for joint in ranked:
        same = (other for other in kept if other[0].doubled == joint[0].doubled)
        if not any(all(map(alike, joint, other)) for other in same):
            kept.append(joint)
    return kept


def _with_new(own: TumourParameters, share: float) -> TumourParameters:
    """A sample with a subclone more, in place of a share of all other clones."""
    return replace(own, fractions=(*(other * (1 - share) for other in own.fractions), share))


def _with_share(joint: Joint, number: int, subclone: int, share: float) -> Joint:
    """A joint explanation with another share of one subclone in one sample; the other clones have what is left."""
    own = joint[number].fractions
    left = (1 - share) / max(1 - own[subclone], 1e-3)
    fractions = tuple(share if j == subclone else other * left for j, other in enumerate(own))
    return (*joint[:number], replace(joint[number], fractions=fractions), *joint[number + 1 :])


def _of_main_clone(pieces: CopyColumns, states: CopyStates, own: TumourParameters) -> Floats:
    """(C, S) likelihood of a sample in the states of the main clone, averaged over the changes of its subclones."""
    found, _ = likelihoods(pieces, states, own)
    for _ in own.fractions:
        found = found.reshape(len(found), -1, len(states.changes)) @ states.change_probabilities
    return np.ascontiguousarray(found)


def _best_given(
    pieces: CopyColumns, states: CopyStates, bounds: Bounds, like: TumourParameters, known: Floats
) -> TumourParameters:
    """Purity and scale of a sample with one clone, given the likelihoods (C, S) of samples that share it.

    like : parameters of one of them; levels err as much in this one, until more is known.
    """
    low, high = bounds.purity
    purities = np.unique(np.clip(np.arange(low, high + PURITY_STEP, PURITY_STEP), low, high))
    unit = pieces.noise.unit
    # Copies per cell of the lowest and of the highest ploidy.
    corners = [2 * (1 - p) + p * ploidy for p in (low, high) for ploidy in bounds.ploidy]
    first, last = np.log(2 * unit / max(corners)), np.log(2 * unit / min(corners))
    logs = np.linspace(first, last, max(2, int((last - first) / SCALE_STEP) + 1))
    purity_step, scale_step = PURITY_STEP, SCALE_STEP
    for zoom in range(ZOOMS):
        found = evidence_map(
            pieces, states, states.probabilities, (), purities, np.exp(logs), like.slack, known, outliers=like.outliers
        )
        i, j = np.unravel_index(found.argmax(), found.shape)
        purity, log_scale = float(purities[i]), float(logs[j])
        if zoom < ZOOMS - 1:
            purities = np.unique(np.clip(purity + purity_step * np.linspace(-1, 1, 7), low, high))
            logs = log_scale + scale_step * np.linspace(-1, 1, 7)
            purity_step, scale_step = purity_step / 3, scale_step / 3
    return replace(like, purity=purity, scale=float(np.exp(log_scale)), fractions=())


def without_mirror_images(explanations: Sequence[Explained]) -> list[Explained]:
    """Without explanations that exchange the names of the two clones of a better one."""
    kept: list[Explained] = []
    for joint in sorted(explanations, key=lambda one: -one[0].log_mass):
        if not any(_mirrored(joint, other) for other in kept):
            kept.append(joint)
    return kept


def _mirrored(joint: Explained, other: Explained) -> bool:
    pairs = [(a.parameters, b.parameters) for a, b in zip(joint, other, strict=True)]
    return all(
        a.n_clones == b.n_clones == 2
        and a.doubled == b.doubled
        and abs(a.purity - b.purity) < MIRRORED / 2
        and abs(a.fractions[0] + b.fractions[0] - 1) < MIRRORED
        for a, b in pairs
    ) and any(abs(a.fractions[0] - 0.5) > MIRRORED for a, _ in pairs)

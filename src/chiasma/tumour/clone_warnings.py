"""Doubts about the number of clones, in words: too few were allowed, or more than the data need."""

from __future__ import annotations

import numpy as np

from chiasma.tumour.landscape import MOST_CLONES
from chiasma.tumour.segments import clone_names, clone_states
from chiasma.tumour.solutions import Answer, Explanation


def of_bound(answer: Answer) -> list[str]:
    """The first solution has as many clones as were allowed: with one more, another purity and ploidy may win."""
    most = answer.bounds.clones[1]
    best = answer.solutions[0].best
    if not 1 < best.parameters.n_clones == most < MOST_CLONES or _alike(best):
        return []
    return [
        f"probabilities hold for at most {most} clones, as many as solution 1 has: try --clones 1-{most + 1}, with "
        "which another purity and ploidy may be more probable"
    ]


def of_equal_clones(explanation: Explanation) -> list[str]:
    """Clones with the same copy numbers everywhere, which the search keeps where it may not have fewer."""
    names = clone_names(explanation.parameters.n_clones)
    return [
        f"{names[j]} does not differ from {names[i]} anywhere: how cells split between the two means nothing, and the "
        "data need one clone fewer; lower --clones"
        for i, j in _alike(explanation)
    ]


def _alike(explanation: Explanation) -> list[tuple[int, int]]:
    """Every clone that has the most probable copy numbers of an earlier one throughout, after the first such one."""
    paths = [explanation.main.argmax(axis=1), *(change.argmax(axis=1) for change in explanation.changes)]
    every = [clone_states(explanation, main, changes) for main, *changes in np.unique(paths, axis=1).T.tolist()]
    by_clone = list(zip(*every, strict=True))
    return [(by_clone.index(own), j) for j, own in enumerate(by_clone) if by_clone.index(own) < j]

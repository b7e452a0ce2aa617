"""Random streams: one per (chain, replica) and one per (chain, pair of replicas), all derived from one seed.

A stream belongs to a replica or pair, not to a thread, so results do not depend on the number of workers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chiasma.types import Seed, as_random

_INITIAL, _REPLICA, _PAIR, _ARRANGEMENT, _BATCH = range(5)


def fresh_entropy(seed: Seed) -> int:
    """The seed itself if it is a number; otherwise one drawn from it, or from the operating system."""
    rng = as_random(seed)
    return int(seed) if isinstance(seed, int | np.integer) else int(rng.integers(2**63))


class Streams:
    """Random generators of one chain, created on first use."""

    def __init__(self, entropy: int, chain: int):
        self.entropy = entropy
        self.chain = chain
        self._made: dict[tuple[int, int], np.random.Generator] = {}

    def initial(self, r: int) -> np.random.Generator:
        return self._stream(_INITIAL, r)

    def replica(self, r: int) -> np.random.Generator:
        return self._stream(_REPLICA, r)

    def pair(self, p: int) -> np.random.Generator:
        return self._stream(_PAIR, p)

    def arrangement(self) -> np.random.Generator:
        """Which of several equal rows are in which state."""
        return self._stream(_ARRANGEMENT, 0)

    def batch(self, kind: int) -> np.random.Generator:
        """One kind of random numbers of all replicas together."""
        return self._stream(_BATCH, kind)

    def _stream(self, kind: int, index: int) -> np.random.Generator:
        key = kind, index
        if key not in self._made:
            sequence = np.random.SeedSequence(self.entropy, spawn_key=(self.chain, *key))
            self._made[key] = np.random.Generator(np.random.PCG64(sequence))
        return self._made[key]

    def state(self) -> list[list[Any]]:
        """The state of every stream, as plain JSON."""
        return [[*key, rng.bit_generator.state] for key, rng in sorted(self._made.items())]

    def restore(self, state: list[list[Any]]) -> None:
        for kind, index, where in state:
            self._stream(kind, index).bit_generator.state = where

"""The seed of a sample, from the seed of the cohort and the sample's name alone.

It does not depend on the order of the sheet, on other samples, or on which worker takes the sample.
"""

from __future__ import annotations

import hashlib

# Seeds up to 2^53 are exact in JSON, TOML and spreadsheets.
BITS = 53


def sample_seed(seed: int, name: str) -> int:
    """
    >>> sample_seed(1, "tumour-7") == sample_seed(1, "tumour-7") != sample_seed(1, "tumour-8")
    True
    """
    digest = hashlib.sha256(f"chiasma cohort {seed} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - BITS)

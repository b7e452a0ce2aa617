"""Limits of what can be asked for, checked before work begins or memory is taken.

Limits that belong to one algorithm, such as the states that an exact pass may have, are where the algorithm is.
"""

from __future__ import annotations

import os

from chiasma.errors import BudgetExceeded

# Upper bound for counts: they fit into an int64, also when they are doubled.
MOST_COUNT = 2**62
# Bits of the code of a column: a row of two states takes one.
MOST_BITS = 63
# Each has a random stream, a ladder of replicas and a buffer.
MOST_CHAINS = 10_000
MOST_RUNGS = 10_000
# Climbs of `optimise`: each takes milliseconds at least.
MOST_STARTS = 1_000_000
# Of a spline: its penalty is a matrix of that size.
MOST_KNOTS = 5_000
# Of a hum: each has two coefficients per knot.
MOST_HARMONICS = 10_000
# Of a simulated genome, which has 3 * 10^9 bases, and of a simulated patient.
MOST_SITES = 10**8
MOST_SAMPLES = 1_000
# Bytes of a data file, packed or unpacked: a guard against compressed bombs, not a measured limit.
MOST_FILE_BYTES = 2**30
# Columns of a table, which has one line per site; those of all cells of a study take thousands.
MOST_COLUMNS = 20_000
# Bytes of a settings file; 63 rows take a few thousand.
MOST_SETTINGS_BYTES = 2**20
# Parts of a dotted key there, which takes quadratic time; ours have one.
MOST_KEY_PARTS = 100


def is_whole(text: str) -> bool:
    """Whether a text is a whole number. One of thousands of digits is none: Python refuses to convert it."""
    return text.isascii() and text.isdecimal() and len(text) < 19


def machine_memory() -> int:
    """Bytes of memory that this machine has; more than any has if the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return MOST_COUNT


def check_memory(what: str, n_bytes: int, remedy: str) -> None:
    """Raise BudgetExceeded for arrays that this machine cannot hold."""
    if n_bytes > (most := machine_memory()):
        raise BudgetExceeded(
            f"{what} need {n_bytes / 2**30:,.0f} GiB of memory, this machine has {most / 2**30:,.0f}; {remedy}"
        )

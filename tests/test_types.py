"""What users pass, turned into arrays and counts or refused by the argument's name."""

import numpy as np
import pytest

from chiasma.errors import InvalidInput
from chiasma.types import as_array, as_count, as_floats, as_random, shown


class Unfriendly:
    """Raises whatever is asked of it."""

    def __repr__(self):
        raise RuntimeError("no representation")

    def __array__(self, *_, **__):
        raise RuntimeError("no array")


def test_as_floats__masked_entries_are_missing():
    masked = np.ma.array([1, 2], mask=[False, True])
    np.testing.assert_array_equal(as_floats("y", [masked, [3, 4]]), [[1, np.nan], [3, 4]])


@pytest.mark.parametrize("values", [Unfriendly(), [1j], ["a"], np.array(["2020-01-01"], "datetime64[s]")])
def test_as_floats__refuses_by_name(values):
    with pytest.raises(InvalidInput, match=r"^y must be numbers, got .*; pass a float"):
        as_floats("y", values)


@pytest.mark.parametrize("value", [-1, 0, 1.5, True, "3", None, 2**63, np.timedelta64(3)])
def test_as_count__refuses_by_name(value):
    with pytest.raises(InvalidInput, match=r"^draws must be a whole number of at least 1, got "):
        as_count("draws", value)


def test_as_random__takes_seeds_and_generators_only():
    rng = np.random.default_rng(3)
    assert as_random(rng) is rng
    assert as_random(7).random() == np.random.default_rng(7).random()
    for seed in ("seven", -1, Unfriendly()):
        with pytest.raises(InvalidInput, match=r"^seed must be a whole number of at least 0, .* got "):
            as_random(seed)


def test_shown__abridges_and_never_fails():
    assert shown([1, 2]) == "[1, 2]"
    assert shown("x" * 200) == repr("x" * 200)[:77] + "..."
    assert shown(Unfriendly()) == "Unfriendly"


def test_as_array__refuses_holes_and_what_is_no_array():
    with pytest.raises(InvalidInput, match=r"^states must have a value everywhere, got masked ones"):
        as_array("states", np.ma.array([1, 2], mask=[False, True]))
    with pytest.raises(InvalidInput, match=r"^states must be an array, got Unfriendly"):
        as_array("states", Unfriendly())
    np.testing.assert_array_equal(as_array("states", np.ma.array([1, 2])), [1, 2])

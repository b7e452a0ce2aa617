"""Anything as input: the answer is right, or an error of ours; never another exception, a crash or a hang."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import chiasma as ch
from chiasma.errors import InvalidInput
from chiasma.io.columns import Columns
from chiasma.io.settings import Settings
from chiasma.io.tables import read_signal
from fuzz import CALLS, QUICK, Y, attempt, attempts, error_of, in_words, model


@pytest.mark.parametrize("call", CALLS)
def test_calls__of_the_fuzz_are_right_as_they_stand(call):
    """Else the fuzz would try nothing but the first check."""
    valid = CALLS[call][1]
    assert attempt(call, {}) == "" or valid.get("path")


@settings(max_examples=300)
@given(attempts())
def test_fuzz__of_every_public_call(tried):
    assert in_words(attempt(*tried))


# ---- The same numbers in other forms ---------------------------------------------------------------------------------

PLAIN = np.array([0.5, 1.25, 2.0, 0.75])
FORMS: dict[str, Any] = {
    "list": PLAIN.tolist(),
    "tuple": tuple(PLAIN.tolist()),
    "big-endian": PLAIN.astype(">f8"),
    "single": PLAIN.astype("f4"),
    "strided": np.repeat(PLAIN, 3)[::3],
    "read-only": np.frombuffer(PLAIN.tobytes()),
    "objects": PLAIN.astype(object),
    "texts": PLAIN.astype(str),
    "Series": pd.Series(PLAIN, index=list("dcba")),
    "DataArray": xr.DataArray(PLAIN, dims="site"),
    "memoryview": memoryview(PLAIN),
    "unmasked": np.ma.array(PLAIN, mask=False),
    "generator of arrays": [np.float64(value) for value in PLAIN],
}


@pytest.mark.parametrize("form", FORMS)
def test_forms__of_the_same_numbers_give_the_same(form):
    np.testing.assert_array_equal(ch.Observations(FORMS[form]).y, PLAIN)
    weights = ch.Gaussian(FORMS[form]).weights
    np.testing.assert_array_equal(weights, PLAIN)
    assert weights.flags.c_contiguous
    assert weights.dtype == float


def test_forms__with_several_channels():
    y = np.arange(12.0).reshape(6, 2)
    for form in (np.asfortranarray(y), y.astype(">f8"), pd.DataFrame(y), xr.DataArray(y), y.tolist(), y[::-1][::-1]):
        np.testing.assert_array_equal(ch.Observations(form).y, y)


def test_masked__entries_are_missing_and_not_read():
    masked = np.ma.array([1.0, 9.0, 2.0], mask=[False, True, False])
    for given_y in (masked, np.ma.array([1, 9, 2], mask=[0, 1, 0])):
        np.testing.assert_array_equal(ch.Observations(given_y).y, [1.0, np.nan, 2.0])
    two = [np.ma.array([1.0, 2.0], mask=[0, 1]), np.ma.array([3.0, 4.0], mask=[1, 0])]
    np.testing.assert_array_equal(ch.Observations(two).y, [[1.0, np.nan], [np.nan, 4.0]])
    for name, make in (("gaps", lambda gaps: ch.Observations(Y[:4], gaps=gaps)), ("weights", ch.Gaussian)):
        with pytest.raises(InvalidInput, match=f"{name} must be"):
            make(masked)
    with pytest.raises(InvalidInput, match="states must have a value everywhere, got masked ones"):
        ch.log_joint(model(), Y, np.ma.array([0] * 6, mask=[0, 0, 1, 0, 0, 0]))


@pytest.mark.parametrize(
    "values",
    [
        np.array([1 + 2j, 1]),
        [1j, 2],
        np.array(["2020-01-01", "2020-01-02"], "M8[D]"),
        np.array([1, 2], "m8[s]"),
        pd.Series(pd.to_datetime(["2020-01-01", "2020-01-02"])),
        np.array([(1.0,), (2.0,)], [("a", "f8")]),
        {1.0, 2.0},
        {"y": 1},
        "ab",
        [10**400, 1],
    ],
    ids=str,
)
def test_values__that_are_no_numbers_are_refused(values):
    for make in (ch.Observations, ch.Gaussian, ch.HalfNormal):
        with pytest.raises(InvalidInput, match=r"must be numbers, got .*; pass a float or an array of floats"):
            make(values)


@pytest.mark.parametrize("sd", [1e151, 1e155, 1e300, 1e-160, 1e-310])
@pytest.mark.parametrize("emission", [ch.Gaussian, ch.StudentT, ch.IntegratedDepth])
def test_sd__whose_square_is_no_number_is_refused(emission, sd):
    """The data would have no say: the posterior would silently be the prior."""
    with pytest.raises(InvalidInput, match=r"sd must be in the range of 1e-150 to 1e\+150.*choose other units"):
        emission([1.0, 2.0], sd=sd)


def test_sample__that_does_not_fit_into_memory_says_so():
    with pytest.raises(ch.BudgetExceeded, match=r"2 chains of 1,000,000,000,000,000 draws do not fit.*store="):
        ch.sample(model(), Y, **QUICK | {"draws": 10**15, "warmup": 0})


# ---- Files -----------------------------------------------------------------------------------------------------------

cells = st.sampled_from(
    [
        "1",
        "2.5",
        "-3e2",
        "NA",
        "",
        ".",
        "nan",
        "inf",
        "x",
        '"1"',
        '"',
        "1,5",
        "0x1",
        "1_0",
        "\0",
        "ü",
        "=1",
        "chr1",
        " 7 ",
    ]
)
lines = st.lists(st.lists(cells, min_size=1, max_size=3), max_size=6)
contents = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda rows, delimiter, end, encoding: end.join(delimiter.join(row) for row in rows).encode(
            encoding, errors="replace"
        ),
        lines,
        st.sampled_from([",", "\t", ";"]),
        st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
        st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"]),
    ),
    st.binary(max_size=40).map(lambda content: b"\x93NUMPY" + content),
    st.binary(max_size=40).map(gzip.compress),
)
options = st.builds(
    Columns,
    value=st.sampled_from([None, "1", "2", "0", "x", "value", ""]),
    chromosome=st.sampled_from([None, None, "1", "x"]),
    position=st.sampled_from([None, None, "1", "2"]),
    delimiter=st.sampled_from([None, "tab", "comma", ";", "", "ab", '"', "\0"]),
)


@settings(max_examples=150)
@given(contents, st.sampled_from(["a.csv", "a.tsv", "a.npy", "a.dat", "a.csv.gz"]), options)
def test_fuzz__of_data_files(tmp_path_factory, content, name, columns):
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    assert in_words(error_of(lambda: read_signal(path, columns)))


values = st.sampled_from(
    [
        *("1", "0.5", "-1", "nan", "inf", "true", '"row"', '"x"', '""', "[]", "[1, 2]", "[[1], 2]", "{}", "{a = 1}"),
        *("2020-01-01", "07:32:00", "1979-05-27T07:32:00Z", "1e400", "9223372036854775808", '"auto:3"', '"block:0"'),
    ]
)
keys = st.sampled_from(
    [
        *("emission", "weights", "sd", "depth", "enter", "leave", "initial", "fixed", "draws", "chains", "seed"),
        *("update", "ladder", "exchange", "value", "gap_unit", "delimiter", "no such key", "name", "values", "switch"),
    ]
)
sections = st.sampled_from(["[model]", "[sampler]", "[data]", "[priors]", "[[row]]", "[other]", ""])
tables = st.lists(st.tuples(sections, st.dictionaries(keys, values, max_size=4)), max_size=3)


def as_toml(found: list[tuple[str, dict[str, str]]]) -> str:
    return "\n".join(
        line
        for head, table in found
        for line in (head, *(f"{json_key(key)} = {value}" for key, value in table.items()))
    )


def json_key(key: str) -> str:
    return f'"{key}"'


@settings(max_examples=150)
@given(st.one_of(tables.map(as_toml).map(str.encode), st.binary(max_size=40)))
def test_fuzz__of_settings(tmp_path_factory, content):
    path: Path = tmp_path_factory.getbasetemp() / "settings.toml"
    path.write_bytes(content)

    def use():
        read = Settings.read(path)
        read.columns()
        read.sampler()
        read.model()

    assert in_words(error_of(use))


@pytest.mark.parametrize("value", ["2020-01-01", "07:32:00", "1979-05-27T07:32:00Z", "[1, 2020-01-01]"])
def test_settings__refuse_times(value, tmp_path):
    (tmp_path / "a.toml").write_text(f"[model]\nweights = {value}\n")
    with pytest.raises(InvalidInput, match=r"a\.toml: weights of \[model\] must be numbers"):
        Settings.read(tmp_path / "a.toml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("value\n1\n\n3\n", [1, np.nan, 3]),
        ("1\n\n\n4\n\n\n", [1, np.nan, np.nan, 4]),
        ("\n\nvalue\n1\n", [1]),
        ("a,y\n1,2\n\n3,4\n", [2, 4]),
    ],
)
def test_blank_lines__of_one_column_are_missing_values(text, expected, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    np.testing.assert_array_equal(read_signal(tmp_path / "a.csv").data.y, expected)


def test_columns__of_one_name_are_refused_without_a_number(tmp_path):
    (tmp_path / "a.csv").write_text("value,value\n1,2\n3,4\n")
    with pytest.raises(InvalidInput, match="has 2 columns called 'value'; choose one by its number"):
        read_signal(tmp_path / "a.csv")
    np.testing.assert_array_equal(read_signal(tmp_path / "a.csv", Columns(value="2")).data.y, [2, 4])


def test_array_file__that_promises_terabytes_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    content = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(content.replace(b"(3,), }" + b" " * 12, b"(1000000000000,), }"))
    with pytest.raises(InvalidInput, match=r"a\.npy is not a NumPy array file \(its header promises 8,000,000,000,000"):
        read_signal(tmp_path / "a.npy")

"""Anything as an argument: public calls with valid arguments, of which some are replaced by whatever there is.

A call answers, or raises a ChiasmaError; nothing else. `tests/test_fuzz.py` tries some, `verification/fuzzing.py` many.
"""

from __future__ import annotations

import datetime
import decimal
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import chiasma as ch
from chiasma.errors import ChiasmaError

Y = [0.1, 1.2, float("nan"), 0.9, 2.1, 0.3]
QUICK: dict[str, Any] = {"draws": 3, "warmup": 2, "chains": 2, "seed": 1, "workers": 1, "progress": False}


def model(**changes: Any) -> ch.FactorialHMM:
    parts = {"rows": ch.Switches(0.1, 0.2), "emission": ch.Gaussian([1.0, 0.6], sd=0.5)}
    return ch.FactorialHMM(**parts | changes)


def rows() -> ch.FactorialHMM:
    row = ch.Row([0, 1, 2], ch.Sticky(renew=0.1), name="washer")
    return ch.FactorialHMM(rows=[row, ch.Row([0, 0.6], ch.Switch(0.1, 0.2))], emission=ch.Gaussian(sd=0.5))


def density(**options: Any) -> ch.Density:
    given = {"size": 3, "init": np.zeros(3), "update": ch.RandomWalk()} | options
    return ch.Density(given.pop("log_density", lambda x: -0.5 * (x**2).sum(axis=1)), **given)


def learned() -> ch.FactorialHMM:
    return model(emission=ch.Gaussian([1.0, 0.6], sd=ch.HalfNormal(1.0)))


# Every public call with arguments that are right.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Observations": (ch.Observations, {"y": Y, "starts": [3], "gaps": [1, 2, 1, 1, 2]}),
    "Switches": (lambda **o: model(rows=ch.Switches(**o)), {"enter": 0.1, "leave": 0.2, "initial": 0.5}),
    "Gaussian": (ch.Gaussian, {"weights": [1.0, 0.6], "depth": 2.0, "sd": 0.5}),
    "StudentT": (ch.StudentT, {"weights": [1.0, 0.6], "depth": 2.0, "sd": 0.5, "df": 3.0}),
    "IntegratedDepth": (ch.IntegratedDepth, {"weights": [1.0], "depth_mean": 2.0, "depth_sd": 0.5, "sd": 0.5}),
    "Poisson": (ch.Poisson, {"weights": [1.0, 0.6], "depth": 2.0, "background": 0.5}),
    "NegativeBinomial": (ch.NegativeBinomial, {"weights": [1.0], "depth": 2.0, "dispersion": 0.5, "background": 0.1}),
    "Table": (ch.Table, {"log_lik": [[0.0, -1.0], [-2.0, 0.0]]}),
    "Custom": (ch.Custom, {"function": lambda y, level: -((y - level) ** 2), "weights": [1.0]}),
    "FactorialHMM": (
        model,
        {"rows": ch.Switches(0.1, 0.2), "emission": ch.Gaussian([1.0, 0.6]), "fixed": {0: 1}},
    ),
    "FactorialHMM(rows)": (ch.FactorialHMM, {"rows": [ch.Row([0, 1], ch.Switch(0.1, 0.1))], "emission": ch.Gaussian()}),
    "Row": (ch.Row, {"values": [0, 1, 2], "chain": ch.Sticky(0.1), "name": "row", "copies": 2, "fixed": None}),
    "Switch": (ch.Switch, {"enter": 0.1, "leave": 0.2, "initial": 0.3}),
    "Sticky": (ch.Sticky, {"renew": 0.1, "probabilities": [0.2, 0.8], "initial": [0.5, 0.5]}),
    "Markov": (ch.Markov, {"transition": [[0.9, 0.1], [0.2, 0.8]], "initial": [0.5, 0.5]}),
    "Normal": (ch.Normal, {"mean": 0.0, "sd": 1.0}),
    "LogNormal": (ch.LogNormal, {"mean": 0.0, "sd": 1.0}),
    "HalfNormal": (ch.HalfNormal, {"sd": 1.0}),
    "Gamma": (ch.Gamma, {"alpha": 2.0, "beta": 1.0}),
    "Beta": (ch.Beta, {"alpha": 2.0, "beta": 1.0}),
    "Uniform": (ch.Uniform, {"low": 0.0, "high": 1.0}),
    "Dirichlet": (ch.Dirichlet, {"concentration": [1.0, 2.0]}),
    "DirichletRows": (ch.DirichletRows, {"concentration": [[1.0, 2.0], [1.0, 1.0]]}),
    "Ladder": (ch.Ladder, {"betas": (0.2, 1.0), "adapt": False, "resize": False}),
    "Ladder.of": (ch.Ladder.of, {"temperatures": [1, 5]}),
    "Ladder.geometric": (ch.Ladder.geometric, {"size": 4, "hottest": 8.0, "prior": True}),
    "Ladder.adapted": (ch.Ladder.adapted, {"size": 4, "hottest": 8.0}),
    "SiteGibbs": (ch.SiteGibbs, {"alphabet": (0, 1), "sites": 2}),
    "RandomWalk": (ch.RandomWalk, {"scale": 1.0, "sites": 2}),
    "BlockModes": (ch.BlockModes, {"blocks": 2, "size": 6, "alpha": 0.2}),
    "Density": (
        lambda **o: ch.sample(density(**o), **QUICK),
        {"size": 3, "init": np.zeros(3), "update": ch.RandomWalk()},
    ),
    "log_evidence": (lambda **o: ch.exact.log_evidence(model(), **o), {"data": Y, "beta": 1.0, "memory": 2**20}),
    "marginals": (lambda **o: ch.exact.marginals(rows(), **o), {"data": Y, "beta": 1.0, "memory": 2**20}),
    "probabilities": (lambda **o: ch.exact.probabilities(rows(), **o), {"data": Y, "row": "washer", "beta": 0.5}),
    "count_probabilities": (lambda **o: ch.exact.count_probabilities(rows(), **o), {"data": Y, "row": 0}),
    "map_states": (lambda **o: ch.exact.map_states(model(), **o), {"data": Y, "memory": 2**20}),
    "draws": (lambda **o: ch.exact.draws(model(), **o), {"data": Y, "n": 2, "seed": 1, "beta": 1.0}),
    "exact of any model": (lambda **o: ch.exact.log_evidence(**o), {"model": model(), "data": Y}),
    "log_joint": (lambda **o: ch.log_joint(model(), **o), {"data": Y, "states": [[0] * 6, [1] * 6], "beta": 0.5}),
    "log_joint of rows": (lambda **o: ch.log_joint(rows(), **o), {"data": Y, "states": [1] * 6}),
    "simulate": (lambda **o: model().simulate(**o), {"n_columns": 6, "seed": 1, "starts": [3], "gaps": [1] * 5}),
    "at": (lambda **o: learned().at(o), {"sd": 0.5}),
    "sample": (
        lambda **o: ch.sample(**QUICK | o),
        {"model": model(), "data": Y, "update": "row", "exchange": "swap", "ladder": [1, 5], "init": [0] * 6},
    ),
    "sample, counts": (
        lambda **o: ch.sample(model(), Y, update="row", exchange=None, **QUICK | o),
        {"draws": 2, "warmup": 1, "chains": 1, "thin": 1, "seed": 1, "workers": 1, "exchange_every": 1},
    ),
    "sample, budget": (lambda **o: ch.sample(model(), Y, **QUICK | o), {"exact_seconds": 1.0}),
    "sample, rows": (lambda **o: ch.sample(rows(), **QUICK | o), {"data": Y, "init": [1] * 6, "update": "exact"}),
    "sample, learned": (
        lambda **o: ch.sample(learned(), **QUICK | {"warmup": 1} | o),
        {"data": Y, "init": {"sd": 0.4, "states": [0] * 6}, "update": "row", "exchange": None},
    ),
    "update": (
        lambda **o: ch.sample(model(), Y, exchange=None, update=ch.BlockGibbs(**o), **QUICK),
        {"size": 2, "blocks": [(0, 1)]},
    ),
    "HammingBall": (
        lambda **o: ch.sample(model(), Y, exchange=None, update=ch.HammingBall(**o), **QUICK),
        {"radius": 1},
    ),
    "exchange": (
        lambda **o: ch.sample(model(), Y, update="row", ladder=[1, 5], exchange=ch.RandomCrossover(**o), **QUICK),
        {"rows": "all", "axis": "sites", "points": 2},
    ),
    "compare": (lambda **o: ch.compare(**o), {"models": {"a": model(), "b": rows()}, "data": Y}),
    "open_posterior": (ch.open_posterior, {"path": "no such run", "draws": 1, "model": None}),
    "check_store": (ch.check_store, {"path": "no such run"}),
}  # fmt: skip

# Numbers that are small, so that a call that accepts one is quick, and those that no call may accept as a count.
whole = st.sampled_from([0, 1, 2, 3, -1, -(2**63), 2**63, 10**300])
numbers = st.one_of(
    whole,
    st.sampled_from([0.0, -0.0, 0.5, 1.0, 2.5, -1.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 1e-200, 1e200]),
    st.booleans(),
)
odd = st.sampled_from(
    [
        None, "", "auto", "row", "0", "nan", "\0", "ü", b"bytes", 1j, object(), print, int, ..., range(3), {}, {"y": 1},
        set(), {1, 2}, slice(2), np.float32(1.5), np.int8(3), np.datetime64("2020-01-01"), np.timedelta64(3, "s"),
        datetime.date(2020, 1, 1), decimal.Decimal("0.5"), ch.Normal(0, 1), ch.Switch(0.1, 0.1), ch.Swap(), ch.Exact(),
        pd.NaT, pd.NA, np.ma.masked, np.dtype(float), memoryview(b"ab"),
    ]
)  # fmt: skip
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6)
dtypes = st.sampled_from(["f8", ">f8", "f4", "f2", "i8", ">i4", "u1", "?", "c16", "M8[s]", "m8[s]", "O", "S3", "U3"])


def odd_array(shape: tuple[int, ...], dtype: str, how: str) -> Any:
    """Ones in some form."""
    array = (
        np.ones(shape, "f8").astype(dtype) if dtype not in ("M8[s]", "m8[s]") else np.ones(shape, "i8").astype(dtype)
    )
    if how == "masked":
        return np.ma.array(array, mask=np.arange(array.size).reshape(shape) % 2 == 0)
    if how == "fortran":
        return np.asfortranarray(array)
    if how == "strided":
        return np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim else array
    if how == "read-only":
        array.flags.writeable = False
        return array
    if how == "pandas" and array.ndim == 1 and dtype[0] not in ">cS":
        return pd.Series(array)
    if how == "xarray":
        return xr.DataArray(array)
    if how == "list":
        return array.tolist()
    return array


arrays = st.builds(
    odd_array,
    shapes,
    dtypes,
    st.sampled_from(["plain", "masked", "fortran", "strided", "read-only", "pandas", "xarray", "list"]),
)
lists = st.lists(numbers, max_size=7)
ragged = st.sampled_from([[[1], [1, 2]], [1, [2]], [[]], [None, 1.0], ["1", 2], [object()], ((),), [1j], [[[[1.0]]]]])
anything = st.one_of(numbers, lists, lists, arrays, odd, ragged, st.text(max_size=3))


def attempt(call: str, changes: dict[str, Any]) -> str:
    """Make one of CALLS; returns the text of its ChiasmaError, "" for an answer. Raises whatever is neither."""
    function, valid = CALLS[call]
    return error_of(lambda: function(**valid | changes))


def error_of(function: Callable[[], Any]) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function()
        except ChiasmaError as error:
            return str(error)
    return ""


@st.composite
def attempts(draw: Any) -> tuple[str, dict[str, Any]]:
    """A call, and what replaces some of its arguments."""
    call = draw(st.sampled_from(sorted(CALLS)))
    names = draw(st.lists(st.sampled_from(sorted(CALLS[call][1])), min_size=1, max_size=2, unique=True))
    return call, {name: draw(anything) for name in names}


def in_words(error: str) -> bool:
    """Whether the text of an error, if there is one, says in one line what came or what to do."""
    if error == "":
        return True
    told = re.search(r"\bgot\b|\bneeds?\b|[;?] \w", error)
    return told is not None and "\n" not in error and not re.search(r"Traceback|\w+(Error|Exception)\b", error)

"""Natural mistakes of a first hour: each error names the fix."""

import inspect

import numpy as np
import pytest

import chiasma as ch
from chiasma.hints import ELSEWHERE, UnknownArgument, hinted

MODEL = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0]))
Y = np.zeros(4)


@pytest.mark.parametrize(
    ("call", "fix"),
    [
        (lambda: ch.sample(MODEL, Y, random_seed=1), "seed"),
        (lambda: ch.sample(MODEL, Y, tune=10), "warmup"),
        (lambda: ch.sample(MODEL, Y, cores=2), "workers"),
        (lambda: ch.sample(MODEL, Y, n_samples=10), "draws"),
        (lambda: ch.sample(MODEL, Y, drawz=10), "draws"),
        (lambda: ch.optimise(MODEL, Y, n_starts=4), "starts"),
        (lambda: ch.optimize(MODEL, Y, random_state=1), "seed"),
        (lambda: ch.FactorialHMM(n_components=2, emission=ch.Gaussian([1.0])), "rows"),
        (lambda: ch.FactorialHMM(row=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0])), "rows"),
        (lambda: MODEL.row_number("row_7"), "row_1"),
    ],
)
def test_mistake__names_the_fix(call, fix):
    with pytest.raises(ch.InvalidInput) as error:
        call()
    assert fix in str(error.value).split("; ")[-1]


def test_hinted__is_a_type_error_and_keeps_the_signature():
    with pytest.raises(TypeError):
        ch.sample(MODEL, Y, tune=10)  # type: ignore[call-arg]
    assert "draws" in inspect.signature(ch.sample).parameters


def test_hinted__lists_the_arguments_if_nothing_is_close():
    @hinted
    def run(*, seed: int = 0) -> None: ...

    with pytest.raises(UnknownArgument, match="it has seed"):
        run(zzz=1)  # type: ignore[call-arg]


def test_elsewhere__has_no_name_of_ours():
    assert not set(ELSEWHERE) & set(inspect.signature(ch.sample).parameters)


def test_repr__shows_the_numbers():
    assert repr(ch.Gaussian([1.0, 2.0], sd=0.5)).startswith("Gaussian(weights=[1.0, 2.0], ")
    assert "sd=HalfNormal(2)" in repr(ch.Gaussian([1.0], sd=ch.HalfNormal(2)))
    assert "shape (40,)" in repr(ch.Poisson(np.ones(40)))


def test_row_number__knows_printed_names():
    assert [MODEL.row_number(name) for name in ("row_0", "row_1", 1)] == [0, 1, 1]


def test_optimize__is_optimise():
    assert ch.optimize is ch.optimise

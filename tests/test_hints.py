"""Natural mistakes of a first hour: each error names the fix."""

import inspect
import subprocess
import sys

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
        (lambda: ch.compare([MODEL], Y, random_seed=1), "seed"),
        (lambda: ch.FactorialHMM(ch.Switches(0.1, 0.1), ch.Gaussian([1.0])), "rows=..., emission=..."),
        (lambda: ch.sample(MODEL, Y, ch.RowGibbs()), "update=..."),
        (lambda: ch.sample(MODEL, Y, update=ch.RowGibbs), "ch.RowGibbs()"),
        (lambda: ch.Row("kettle", [0, 2800], ch.Switch(0.1, 0.1)), "name='kettle'"),
        (lambda: MODEL.row_number("row_7"), "row_1"),
        (lambda: ch.Gaussian([1.0], sigma=2.0), "sd"),
        (lambda: ch.Switches(0.1, 0.1, startprob=0.5), "initial"),
        (lambda: ch.Markov(transmat=[[0.9, 0.1], [0.1, 0.9]]), "transition"),
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


def test_attribute__that_is_unknown_gets_a_suggestion():
    found = subprocess.run([sys.executable, "-c", "import chiasma; chiasma.Gausian"], capture_output=True, text=True)
    assert "Did you mean: 'Gaussian'?" in found.stderr


def test_rows__of_a_model_make_another_one():
    row = ch.Row([0, 1, 2], ch.Sticky(0.1), name="washer")
    for model in (MODEL, ch.FactorialHMM(rows=[row], emission=ch.Gaussian(sd=1.0))):
        assert repr(ch.FactorialHMM(rows=model.rows, emission=model.emission)) == repr(model)


def test_repr__of_a_row_can_be_evaluated():
    row = ch.Row([0, 1, 2], ch.Sticky(0.1), name="washer", copies=2)
    assert repr(eval(repr(row), vars(ch))) == repr(row)


def test_seed__is_a_number_a_generator_or_a_sequence():
    """Generators and sequences in the same state give the same draws, and others give others."""
    options = {"draws": 40, "chains": 1, "progress": False}
    seeds = (np.random.default_rng, np.random.SeedSequence, lambda seed: seed)
    for make in seeds:
        first, same, other = (ch.sample(MODEL, Y, seed=make(n), **options).codes for n in (5, 5, 6))
        assert np.array_equal(first, same)
        assert not np.array_equal(first, other)
        assert np.array_equal(MODEL.simulate(9, seed=make(5))[1], MODEL.simulate(9, seed=make(5))[1])
        assert np.array_equal(ch.exact.draws(MODEL, Y, 3, seed=make(5)), ch.exact.draws(MODEL, Y, 3, seed=make(5)))
    with pytest.raises(ch.InvalidInput, match=r"default_rng"):
        ch.exact.draws(MODEL, Y, 3, seed=np.random.Generator(np.random.MT19937(1)))


def test_states__takes_the_names_that_tables_print():
    posterior = ch.sample(MODEL, Y, seed=1, draws=10, progress=False)
    assert np.array_equal(posterior.states("row_1"), posterior.states(1))
    with pytest.raises(ch.InvalidInput, match="'row_0', 'row_1'"):
        posterior.states("row_2")


def test_dir__has_public_names_only():
    import chiasma.tumour

    modules = (ch, ch.exact, ch.datasets, ch.channels, ch.plots, ch.diagnostics, ch.calibration, chiasma.tumour)
    assert all(sorted(dir(module)) == sorted(module.__all__) for module in modules)
    assert dir(ch.cohort) == ["cohort"]


def test_row_number__knows_printed_names():
    assert [MODEL.row_number(name) for name in ("row_0", "row_1", 1)] == [0, 1, 1]


def test_optimize__is_optimise():
    assert ch.optimize is ch.optimise

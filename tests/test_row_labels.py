"""Label switching of rows with values: which rows are exchangeable, the order of draws, and warnings."""

from __future__ import annotations

import numba
import numpy as np
import pytest

import chiasma as ch
from chiasma.kernels.layout import pack_states, unpack_codes
from chiasma.models.labels import CanonicalOrder, RowSizes, exchangeable_blocks
from chiasma.models.observations import Observations
from chiasma.results.ladder_stats import batch_error
from chiasma.results.parameter_checks import label_findings
from chiasma.results.parameters import named_parameters
from chiasma.sampling.laplace import orders
from chiasma.sampling.learning import Learning

needs_jit = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="long runs of compiled kernels")


def row(name=None, *, weight=None, values=(0, 1), enter=None, copies=1, fixed=None):
    """A switch whose weight and rate are learned."""
    weight = ch.Gamma(2, 1) if weight is None else weight
    chain = ch.Switch(ch.Beta(1, 9) if enter is None else enter, 0.2)
    return ch.Row(values, chain, name, copies=copies, weight=weight, fixed=fixed)


def model_of(*rows, **emission):
    return ch.FactorialHMM(rows=rows, emission=ch.Gaussian(**{"sd": 0.5, **emission}))


STEP = ch.Gamma(2, 1).shared("step")
LEARNED = ch.Normal([0, 1], 1)
BLOCKS = {
    "equal": ([row("lamp"), row("fan"), row("spare")], {}, [[(0,), (1,), (2,)]]),
    "another weight": ([row(), row(weight=ch.Gamma(2, 2)), row()], {}, [[(0,), (2,)]]),
    "hardly another weight": ([row(), row(weight=ch.Gamma(2, 1 + 1e-9))], {}, []),
    "another rate": ([row(), row(enter=ch.Beta(1, 8))], {}, []),
    "a rate that is a number": ([row(enter=0.1), row(enter=0.1), row(enter=0.2)], {}, [[(0,), (1,)]]),
    "other values": ([row(), row(values=[0, 2])], {}, []),
    "learned values": ([row(weight=1.0, values=LEARNED), row(weight=1.0, values=LEARNED)], {}, [[(0,), (1,)]]),
    "other sizes": ([row(), row(copies=2)], {}, []),
    "copies": ([row(copies=2), row(copies=2), row()], {}, [[(0, 1), (2, 3)]]),
    "fixed": ([row(), row(fixed=1), row()], {}, [[(0,), (2,)]]),
    "a shared weight": ([row(weight=STEP), row(weight=STEP)], {}, [[(0,), (1,)]]),
    "all shared": ([row(weight=STEP, enter=0.1), row(weight=STEP, enter=0.1)], {}, []),
    "a name of its own": ([row(weight=STEP), row(weight=ch.Gamma(2, 1).shared("other"))], {}, [[(0,), (1,)]]),
    "rates alone": ([row(weight=1.0), row(weight=1.0)], {}, [[(0,), (1,)]]),
    "other numbers of the emission": ([row(), row(), row()], {"weights": [1.0, 1.0, 2.0]}, [[(0,), (1,)]]),
    "weights of the emission, too": ([row(), row()], {"weights": ch.Gamma([2, 2], 1)}, [[(0,), (1,)]]),
    "copies with weights": (
        [row(weight=1.0, copies=2), row(weight=1.0, copies=2)],
        {"weights": ch.Gamma([2, 2, 2, 2], 1)},
        [[(0,), (1,)], [(2,), (3,)], [(0, 1), (2, 3)]],
    ),
}


@pytest.mark.parametrize("case", BLOCKS)
def test_exchangeable_blocks(case):
    rows, emission, expected = BLOCKS[case]
    model = model_of(*rows, **emission)
    assert exchangeable_blocks(model) == expected


@pytest.mark.parametrize("case", [case for case, (*_, expected) in BLOCKS.items() if expected])
def test_order__is_a_symmetry_of_the_joint_density(case):
    """The draw has the density that it had, whatever order its rows were in, and all orders of it end in one."""
    rows, emission, _ = BLOCKS[case]
    model = model_of(*rows, **emission)
    order, learning = CanonicalOrder(model), Learning(model, Observations(np.array([0.2, 1.5, 3.0, 0.1, 2.0])))
    rng = np.random.default_rng(1)
    values = model.parameters.sample(rng)
    layout = model.layout
    states = rng.integers(0, layout.sizes[:, None], (model.n_rows, 5))
    for k, state in model.fixed.items():
        states[k] = state

    def codes_of(states):
        return pack_states(states, layout)

    def density(codes, values):
        return sum(learning.target(values).log_parts(codes)) + learning.log_prior(values)

    codes, sorted_values = order(codes_of(states), values)
    assert density(codes, sorted_values) == pytest.approx(density(codes_of(states), values), rel=1e-12)
    assert len(order.orders()) == order.n_orders
    for own in order.orders():
        moved = order.permuted(values, own)
        again, found = order(codes_of(states[own]), moved)
        np.testing.assert_array_equal(found, sorted_values)
        np.testing.assert_array_equal(again, codes)
    # Proposals of the collapsed sampler know the same symmetries.
    for shift, own in zip(orders(learning), order.orders(), strict=True):
        there = model.parameters.to_free(order.permuted(values, own))
        np.testing.assert_allclose(shift @ model.parameters.to_free(values), there, rtol=1e-9)


def test_order__moves_copies_as_a_block():
    model = model_of(row("a", copies=2), row("b", copies=2), row("c", values=[0, 5]))
    values = np.array([3.0, 0.3, 1.0, 0.1, 9.0, 0.9])  # weight and enter of a, b, c
    codes = pack_states(np.array([[1, 0], [0, 0], [1, 1], [0, 1], [1, 0]]), model.layout)
    moved, sorted_values = CanonicalOrder(model)(codes, values)
    assert sorted_values.tolist() == [1.0, 0.1, 3.0, 0.3, 9.0, 0.9]
    assert unpack_codes(moved, model.layout).tolist() == [[1, 1], [0, 1], [1, 0], [0, 0], [1, 0]]


def test_order__of_equal_sizes_is_that_of_the_rates():
    """In both forms: rows of one weight differ by how often they switch."""
    rows = model_of(row(weight=1.0), row(weight=1.0))
    chains = ch.FactorialHMM(rows=ch.Switches(ch.Beta([1, 1], 9), 0.2), emission=ch.Gaussian([1.0, 1.0]))
    for model in (rows, chains):
        codes, values = CanonicalOrder(model)(np.array([0b01, 0b11]), np.array([0.4, 0.1]))
        assert values.tolist() == [0.1, 0.4]
        assert codes.tolist() == [0b10, 0b11]


def test_sizes__of_learned_values_are_those_furthest_from_the_first():
    model = model_of(ch.Row(ch.Normal([0, 1, 2], 1), ch.Sticky(0.1), weight=ch.Gamma(2, 1)), weights=[10.0])
    assert RowSizes(model)(np.array([[1.0, 2.0, 5.0, 3.0], [1.0, -9.0, 5.0, 3.0]])).tolist() == [[120.0], [-300.0]]


def both_forms(rates):
    """The same two rows with learned weights as rows with values and as chains."""
    chain = ch.Switch(0.2, 0.3)
    rows = [ch.Row([0, 1], chain, name, weight=ch.Gamma(2, rate)) for name, rate in zip("ab", rates, strict=True)]
    emission = ch.Gaussian(ch.Gamma([2, 2], list(rates)), sd=0.4)
    return (
        ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=0.4)),
        ch.FactorialHMM(rows=ch.Switches(0.2, 0.3), emission=emission),
    )


OPTIONS = {"draws": 200, "warmup": 64, "chains": 2, "seed": 1, "progress": False}


@needs_jit
@pytest.mark.parametrize("update", ["exact", "collapsed"])
def test_draws__of_both_forms_are_the_same(update):
    """States as well as weights: the smaller one first."""
    with_rows, with_chains = both_forms((1, 1))
    _, y = with_chains.at({"weights": [1.0, 2.5]}).simulate(30, seed=3)
    few = {"update": update, "draws": 40, "warmup": 16}
    options = OPTIONS | (few if update == "exact" else {"update": ch.Collapsed(starts=4)})
    found, expected = (ch.sample(model, y, **options) for model in (with_rows, with_chains))
    weights = np.stack([found.parameters["a.weight"], found.parameters["b.weight"]], axis=-1)
    assert (np.diff(weights) >= 0).all()
    np.testing.assert_allclose(weights, expected.parameters["weights"], rtol=1e-6)
    np.testing.assert_array_equal(found.codes, expected.codes)
    assert [one.code for one in found.findings] == [one.code for one in expected.findings]


@needs_jit
def test_draws__have_the_ordered_posterior_of_a_grid(tmp_path):
    """Mean and spread of the smaller and the larger weight within 4 standard errors; also where a run was resumed."""
    model, _ = both_forms((1, 1))
    y = np.array([0.1, 1.2, 0.9, 2.1, 2.8, 3.2, 1.9, 0.2, -0.1, 1.1])
    axis = np.linspace(0.02, 6, 120)
    pairs = np.array([(low, high) for low in axis for high in axis if low <= high])
    log = np.array(
        [
            ch.exact.log_evidence(model.at({"a.weight": low, "b.weight": high}), y)
            + np.log(low * high)
            - low
            - high
            + (np.log(0.5) if low == high else 0.0)  # a cell that is half above the diagonal
            for low, high in pairs
        ]
    )
    shares = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    store = {"store": tmp_path / "run.zarr", "update": ch.Collapsed(starts=4)}
    ch.sample(model, y, **{**OPTIONS, "draws": 100}, **store)
    found = ch.sample(model, y, **{**OPTIONS, "draws": 400}, **store, resume=True)
    for k, name in enumerate(("a.weight", "b.weight")):
        drawn = found.parameters[name].values
        for power in (1, 2):
            assert abs((drawn**power).mean() - shares @ pairs[:, k] ** power) < 4 * batch_error(drawn**power)
    opened = ch.open_posterior(tmp_path / "run.zarr").parameters
    assert (opened["a.weight"] <= opened["b.weight"]).all()


@needs_jit
def test_optima__that_differ_by_names_are_one():
    with_rows, with_chains = both_forms((1, 1))
    _, y = with_chains.at({"weights": [1.0, 2.5]}).simulate(60, seed=3)
    found, expected = (ch.optimise(model, y, starts=6, seed=1, progress=False) for model in (with_rows, with_chains))
    assert len(found) == len(expected)
    assert found.best.log_evidence == pytest.approx(expected.best.log_evidence, abs=1e-4)  # both orders count
    assert found.best.values["a.weight"] < found.best.values["b.weight"]


@needs_jit
def test_findings__of_rows_that_change_places_comes_in_both_forms():
    with_rows, with_chains = both_forms((1, 0.9))
    _, y = with_chains.at({"weights": [1.0, 2.5]}).simulate(60, seed=3)
    for model, names in ((with_rows, "a and b"), (with_chains, "0 and 1")):
        found = ch.sample(model, y, update=ch.Collapsed(starts=12), **OPTIONS).findings
        assert [one.facts["names"] for one in found if one.code == "label-switching"] == [[names]]


def test_findings__need_two_rows_that_change():
    """A row of two possible sizes beside a known one, or one of another number of states, takes no one's place."""
    chain = ch.Switch(0.1, 0.1)
    known, unknown = ch.Row([0, 2], chain, "known"), ch.Row([0, 1], chain, "unknown", weight=ch.Gamma(2, 1))
    model = model_of(known, unknown)
    values = np.where(np.arange(100) % 2, 1.0, 3.2).reshape(2, 50, 1)
    assert label_findings(model, named_parameters(values, model)) == []
    several = ch.Row([0, 1, 1], ch.Sticky(0.1), "several", weight=ch.Gamma(3, 1))
    model = model_of(unknown, several)
    values = np.concatenate([values, 4.2 - values], axis=-1)
    assert label_findings(model, named_parameters(values, model)) == []
    model = model_of(unknown, ch.Row([0, 1], chain, "other", weight=ch.Gamma(3, 1)))
    assert len(label_findings(model, named_parameters(values, model))) == 1

"""What a stored run remembers: descriptions that rebuild a model, tell two apart, and say where they differ."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
import pytest

import chiasma as ch
from chiasma.results.provenance import describe_data, describe_model, differences, digest, rebuild_model, versions

WEIGHTS = [0.5, 1.0]
EMISSIONS: dict[str, ch.models.emissions.Emission] = {
    "gaussian": ch.Gaussian(WEIGHTS, depth=2.0, sd=0.1 + 0.2),
    "channels": ch.Gaussian([[0.5, 1.0], [1.0, 0.2]], depth=[1.0, 2.0], sd=[0.1, 1 / 3]),
    "integrated": ch.IntegratedDepth(WEIGHTS, depth_mean=3.0, depth_sd=0.5, sd=0.7),
    "student": ch.StudentT(WEIGHTS, depth=2.0, sd=0.5, df=3.5),
    "poisson": ch.Poisson(WEIGHTS, depth=4.0, background=0.1),
    "negative binomial": ch.NegativeBinomial(WEIGHTS, depth=4.0, dispersion=0.3, background=0.2),
}


def with_emission(emission: Any, **options: Any) -> ch.FactorialHMM:
    chains = options.pop("rows", None) or ch.Switches([0.1, 0.2], 0.3, initial=[0.5, 0.25])
    return ch.FactorialHMM(rows=chains, emission=emission, fixed=options.pop("fixed", {1: 1}))


@pytest.mark.parametrize("name", EMISSIONS)
def test_model__is_rebuilt_from_its_description(name):
    model = with_emission(EMISSIONS[name])
    description = json.loads(json.dumps(describe_model(model)))
    rebuilt = rebuild_model(description)
    assert rebuilt is not None
    assert describe_model(rebuilt) == description
    assert type(rebuilt.emission) is type(model.emission)
    assert rebuilt.fixed == model.fixed
    y = model.simulate(5, seed=1)[1]
    codes = np.array([2, 3, 3, 2, 2])
    assert ch.log_joint(rebuilt, y, codes) == ch.log_joint(model, y, codes)


def test_model__stationary_chains_stay_stationary():
    rebuilt = rebuild_model(describe_model(with_emission(ch.Gaussian(WEIGHTS), rows=ch.Switches(0.1, 0.3))))
    assert rebuilt is not None
    assert rebuilt.rows.chains.initial is None
    assert rebuilt.rows.chains.enter.shape == ()


class Gaussian(ch.Gaussian):
    """A user's own emission, with a name that is taken."""

    def __init__(self, skew: float):
        super().__init__(WEIGHTS)
        self.skew = skew


def flat(y: Any, level: Any) -> Any:
    return np.zeros(np.broadcast_shapes(np.shape(y), np.shape(level)))


UNKNOWN = {
    "custom": lambda: ch.Custom(flat, WEIGHTS),
    "lambda": lambda: ch.Custom(lambda y, level: flat(y, level), WEIGHTS),
    "partial": lambda: ch.Custom(partial(flat), WEIGHTS),
    "table": lambda: ch.models.emissions.Table(np.zeros((5, 4))),
    "subclass": lambda: Gaussian(0.5),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_model__of_ones_own_is_not_rebuilt_but_recognised(name):
    """The same code in another process gives the same description: no addresses."""
    description = describe_model(with_emission(UNKNOWN[name]()))
    assert rebuild_model(description) is None
    assert json.loads(json.dumps(description)) == describe_model(with_emission(UNKNOWN[name]()))
    assert "0x" not in json.dumps(description)


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (ch.Custom(flat, WEIGHTS), ch.Custom(flat, [0.5, 1.5]), "parameters.weights is"),
        (ch.Custom(flat, WEIGHTS), ch.Custom(np.add, WEIGHTS), "parameters.function is flat in the store, got add"),
        (UNKNOWN["table"](), ch.models.emissions.Table(np.ones((5, 4))), "parameters.log_lik is"),
        (Gaussian(0.5), Gaussian(0.6), "parameters.skew is 0.5 in the store, got 0.6"),
        (ch.Gaussian(WEIGHTS), Gaussian(0.6), "emission is Gaussian in the store, got .*test_provenance.Gaussian"),
    ],
    ids=["weights", "function", "table", "attribute", "class"],
)
def test_models__that_differ_are_told_apart(one, other, message):
    found = differences(describe_model(with_emission(one)), describe_model(with_emission(other)))
    with pytest.raises(AssertionError, match=message):
        raise AssertionError("; ".join(found))


def density(**changes: Any) -> ch.Density:
    options: dict[str, Any] = {"size": 2, "init": [0.0, 0.0], "update": lambda x, beta, rng: x} | changes
    return ch.Density(lambda x: -0.5 * (x**2).sum(axis=1), **options)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"init": [1.0, 0.0]}, "init"),
        ({"init": [0, 0]}, "dtype"),
        ({"update": ch.RandomWalk(scale=0.5)}, "update"),
        ({"prior_draw": lambda rng: rng.normal(size=2)}, "prior_draw"),
    ],
)
def test_density__is_described_without_addresses(changes, key):
    assert describe_model(density()) == describe_model(density())
    assert "0x" not in json.dumps(describe_model(density(**changes)))
    found = differences(describe_model(density()), describe_model(density(**changes)))
    assert any(text.startswith(f"{key} is ") for text in found)
    assert rebuild_model(describe_model(density())) is None


def test_block_modes__alpha_and_blocks_count():
    one = describe_model(ch.BlockModes(blocks=2, size=6, alpha=0.1))
    assert differences(one, describe_model(ch.BlockModes(blocks=2, size=6, alpha=0.1))) == []
    assert any("alpha" in text for text in differences(one, describe_model(ch.BlockModes(blocks=2, size=6, alpha=0.2))))
    assert any(
        "blocks" in text for text in differences(one, describe_model(ch.BlockModes(blocks=3, size=6, alpha=0.1)))
    )


def test_data__every_part_counts():
    y = [1.0, float("nan"), 3.0, 4.0]
    one = describe_data(ch.Observations(y, starts=[2], gaps=[2.0, 1.0, 1.0]))
    assert one == describe_data(ch.Observations(np.array(y), starts=[0, 2], gaps=[2, 1, 1]))
    assert one["columns"] == 4
    for changed, key in (
        (ch.Observations([1.0, 2.0, 3.0, 4.0], starts=[2], gaps=[2.0, 1.0, 1.0]), "y"),
        (ch.Observations(y, starts=[3], gaps=[2.0, 1.0, 1.0]), "starts"),
        (ch.Observations(y, starts=[2]), "gaps"),
    ):
        (text,) = differences(one, describe_data(changed))
        assert text.startswith(f"{key} is {one[key]} in the store, got ")
    assert describe_data(None) == {}


def test_digest__type_shape_and_values_count():
    values = [[1, 2], [3, 4]]
    digests = {
        digest(values),
        digest(np.array(values, np.int8)),
        digest(np.ravel(values)),
        digest(np.transpose(values)),
    }
    assert len(digests) == 4
    assert digest(np.array(values)[:, ::-1]) == digest([[2, 1], [4, 3]])


def test_differences__names_every_place():
    stored, wanted = {"a": 1, "b": {"c": [1], "d": 2}, "e": 0}, {"a": 1, "b": {"c": [2], "d": 2}, "f": 3}
    assert differences(stored, wanted, "run.") == [
        "run.b.c is [1] in the store, got [2]",
        "run.e is 0 in the store, got None",
        "run.f is None in the store, got 3",
    ]
    assert differences(stored, stored) == []


def test_versions():
    assert versions()["chiasma"] == ch.__version__
    assert versions()["numpy"] == np.__version__

"""Posterior: labelled draws and what is read off them."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

import chiasma as ch
from chiasma.errors import InvalidInput


@pytest.fixture(scope="module")
def posterior() -> ch.Posterior:
    model = ch.FactorialHMM(rows=ch.Switches(0.2, 0.3), emission=ch.Gaussian([1.0, 0.7, 0.4], sd=0.7), fixed={1: 1})
    y = model.simulate(9, seed=2)[1]
    return ch.sample(
        model, y, update="row", exchange="mosaic", ladder=[1, 5], draws=7, warmup=3, chains=2, seed=1, progress=False
    )


@pytest.fixture(scope="module")
def vectors() -> ch.Posterior:
    target = ch.BlockModes(blocks=2, size=6, alpha=0.5)
    return ch.sample(target, ladder=[1, 3], draws=5, warmup=2, chains=2, seed=1, progress=False)


def test_codes__are_labelled(posterior):
    codes = posterior.codes
    assert codes.dims == ("chain", "draw", "site")
    assert codes.shape == (2, 7, 9)
    assert codes.name == "codes"
    assert codes.dtype == np.uint8
    assert codes.coords["draw"].values.tolist() == list(range(7))
    assert posterior.log_joint.dims == posterior.log_likelihood.dims == ("chain", "draw")
    assert posterior.replica_log_likelihood.dims == ("chain", "draw", "replica")
    np.testing.assert_array_equal(posterior.replica_log_likelihood[..., -1], posterior.log_likelihood)


def test_fields__may_be_functions_that_are_called_once_and_late(posterior):
    calls = []

    def make():
        calls.append(1)
        return posterior.draws

    late = replace(posterior, draws=make)
    assert not calls
    assert late.codes is late.draws is posterior.draws
    assert calls == [1]
    with pytest.raises(FrozenInstanceError):
        late.draws = posterior.draws
    with pytest.raises(TypeError, match="draws"):
        ch.Posterior()


def test_states__are_the_bits_of_the_codes(posterior):
    weights = 1 << np.arange(3)
    states = [posterior.states(k) for k in range(3)]
    for k, values in enumerate(states):
        assert values.dims == ("chain", "draw", "site")
        assert values.dtype == np.int8
        assert values.name == "states"
        assert set(np.unique(values)) <= {0, 1}
        assert (k != 1) or (values == 1).all()  # the fixed row
    np.testing.assert_array_equal(sum(w * s.values for w, s in zip(weights, states, strict=True)), posterior.codes)


@pytest.mark.parametrize("row", [-1, 3])
def test_states__refuses_other_rows(posterior, row):
    with pytest.raises(InvalidInput, match=f"row must be in 0..2, got {row}"):
        posterior.states(row)


def test_marginals__are_shares_of_draws(posterior):
    marginals = posterior.marginals()
    assert marginals.dims == ("row", "site")
    assert marginals.shape == (3, 9)
    assert marginals.coords["row"].values.tolist() == [0, 1, 2]
    for k in range(3):
        np.testing.assert_allclose(marginals[k], posterior.states(row=k).values.reshape(-1, 9).mean(axis=0))
    assert (marginals[1] == 1).all()


def test_repr(posterior, vectors):
    assert repr(posterior) == "Posterior(2 chains x 7 draws x 9 sites, 2 replicas)"
    assert repr(vectors) == "Posterior(2 chains x 5 draws x 6 coordinates, 2 replicas)"


def test_repr__with_evidence():
    model = ch.FactorialHMM(rows=ch.Switches(0.5, 0.5), emission=ch.Gaussian([1.0]))
    exact = ch.sample(model, [0.0, 1.0], draws=3, chains=1, seed=1, progress=False)
    evidence = ch.exact.log_evidence(model, [0.0, 1.0])
    assert repr(exact) == f"Posterior(1 chain x 3 draws x 2 sites, 1 replica, log evidence {evidence:.3f})"


def test_vectors__have_draws_and_no_rows(vectors):
    assert vectors.draws.name == "x"
    assert vectors.draws.dims == ("chain", "draw", "site")
    assert vectors.draws.dtype == np.int8
    assert vectors.n_rows is None
    for what in (lambda: vectors.codes, vectors.marginals, lambda: vectors.states(0)):
        with pytest.raises(InvalidInput, match=r"over plain vectors and has no rows; its draws are in .draws"):
            what()


def test_exchange_stats__per_pair(posterior):
    stats = posterior.exchange_stats
    assert stats.sizes == {"pair": 1}
    assert stats.coords["beta_low"].values.tolist() == [0.2]
    assert stats.coords["beta_high"].values.tolist() == [1.0]
    assert stats["moves"].values.tolist() == [14]  # two chains, seven exchange steps each
    assert posterior.info["exchange_steps"] == [7, 7]
    assert 0 <= float(stats["changed"][0]) <= 1
    assert 0 <= float(stats["columns"][0]) <= 9
    np.testing.assert_allclose(stats["barrier"], np.cumsum(stats["rejection"]))


def test_exchange_stats__of_one_replica_are_empty():
    target = ch.BlockModes(blocks=2, size=6, alpha=0.5)
    alone = ch.sample(target, exchange=None, draws=5, warmup=2, chains=2, seed=1, progress=False)
    assert alone.exchange_stats.sizes == {"pair": 0}
    assert alone.log_evidence is None


def test_info__says_how_the_run_went(posterior):
    info = posterior.info
    assert info["seed"] == 1
    assert info["update"] == "RowGibbs()"
    assert info["exchange"] == "MosaicCrossover(rows='all')"
    assert set(info["timings"]) == {"warmup", "draws"}
    assert "warnings" not in info

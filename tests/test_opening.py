"""Posteriors read from stores: everything that a run knew comes back, and draws only when they are looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import xarray as xr
import zarr

import chiasma as ch
from chiasma.errors import InvalidInput, StoreError
from chiasma.results.parameters import entries, named_parameters
from chiasma.sampling import engines, running
from chiasma.storage import reading, store

JIT = not numba.config.DISABLE_JIT
T = 30 if JIT else 7
QUICK: dict[str, Any] = {"draws": 11, "warmup": 4, "chains": 2, "seed": 3, "progress": False}
NAN = float("nan")


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "CHUNK_BYTES", 6 * T)
    monkeypatch.setattr(store, "FLUSH_SECONDS", -1.0)


def gaussian(n_rows: int = 3, **options: Any) -> ch.FactorialHMM:
    weights = np.linspace(0.4, 1.0, n_rows)
    return ch.FactorialHMM(rows=ch.Switches(0.2, 0.3), emission=ch.Gaussian(weights, sd=0.7), **options)


def signal(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(1.0, 0.8, T)


def both(tmp_path, *problem: Any, **options: Any) -> tuple[ch.Posterior, ch.Posterior]:
    """A stored posterior, opened without its model, and the same run in memory."""
    settings = QUICK | options
    ch.sample(*problem, **settings, store=tmp_path / "run")
    return ch.open_posterior(tmp_path / "run"), ch.sample(*problem, **settings)


def assert_equal_draws(found: ch.Posterior, expected: ch.Posterior) -> None:
    xr.testing.assert_identical(found.draws.load(), expected.draws)
    for name in ("log_joint", "log_likelihood", "replica_log_likelihood", "exchange_stats"):
        xr.testing.assert_identical(getattr(found, name), getattr(expected, name))


def count(codes: np.ndarray, n_rows: int) -> np.ndarray:
    return np.array([(codes.reshape(-1, codes.shape[-1]) >> k & 1).sum(axis=0) for k in range(n_rows)])


@pytest.mark.parametrize(
    ("n_rows", "dtype"),
    [
        (8, "uint8"),
        (9, "uint16"),
        pytest.param(16, "uint16", marks=pytest.mark.large),
        pytest.param(17, "uint32", marks=pytest.mark.large),
        (33, "uint64"),
        (63, "uint64"),
    ],
)
def test_codes__of_any_number_of_rows(n_rows, dtype, tmp_path):
    problem = gaussian(n_rows), signal()[:4]
    found, expected = both(tmp_path, *problem, update="row", exchange=None, ladder=[1], draws=5)
    assert found.codes.dtype == dtype
    assert_equal_draws(found, expected)
    np.testing.assert_array_equal(found.row_counts, count(expected.codes.values.astype(object), n_rows).astype(int))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "int64", "uint16", "bool"])
def test_vectors__of_any_type(dtype, tmp_path):
    update = ch.RandomWalk(scale=0.5) if dtype.startswith("float") else ch.SiteGibbs(alphabet=(0, 1))
    target = ch.Density(lambda x: -0.5 * (x**2).sum(axis=1), size=3, init=np.zeros(3, dtype), update=update)
    found, expected = both(tmp_path, target, exchange="augmented", ladder=[1, 3])
    assert found.draws.name == "x"
    assert found.draws.dtype == dtype
    assert found.n_rows is None
    assert found.row_counts is None
    assert (found.model, found.data) == (None, None)
    assert_equal_draws(found, expected)


@pytest.mark.parametrize(
    ("emission", "channels", "gaps"),
    [
        (ch.Gaussian([1.0, 0.6, 0.3], sd=0.5), None, None),
        (ch.Gaussian([1.0, 0.6, 0.3], sd=0.5), None, np.linspace(0.5, 2.0, T - 1)),
        (ch.Gaussian([[1.0, 0.2], [0.6, 0.9], [0.1, 0.3]], sd=[0.5, 0.7]), 2, None),
        (ch.Poisson([1.0, 0.6, 0.3], depth=3.0, background=0.1), None, None),
    ],
    ids=["plain", "gaps", "channels", "counts"],
)
def test_data_and_model__come_back(emission, channels, gaps, tmp_path):
    model = ch.FactorialHMM(rows=ch.Switches(0.2, 0.3), emission=emission, fixed={2: 1, 0: 0})
    y = np.array(model.simulate(T, seed=1)[1])
    y[[1, 4]] = NAN
    data = ch.Observations(y, starts=[2, 5], gaps=gaps)
    found, expected = both(tmp_path, model, data)
    assert_equal_draws(found, expected)
    assert found.data is not None
    np.testing.assert_array_equal(found.data.y, data.y)
    assert found.data.starts.tolist() == [0, 2, 5]
    np.testing.assert_array_equal(found.data.missing, data.missing)
    if gaps is None:
        assert found.data.gaps is None
    else:
        np.testing.assert_array_equal(found.data.gaps, gaps)
    assert isinstance(found.model, ch.FactorialHMM)
    assert found.model.fixed == {0: 0, 2: 1}
    codes = expected.codes.values[0, 0]
    assert ch.log_joint(found.model, found.data, codes) == ch.log_joint(model, data, codes)
    assert float(expected.log_joint[0, 0]) == pytest.approx(ch.log_joint(found.model, found.data, codes))


def test_data__of_one_column(tmp_path):
    found, expected = both(tmp_path, gaussian(), ch.Observations([0.5], gaps=[]))
    assert_equal_draws(found, expected)
    assert found.data is not None
    assert found.data.n_columns == 1


def test_model__of_ones_own_must_be_given(tmp_path):
    emission = ch.Custom(lambda y, level: -((y - level) ** 2), [1.0, 0.5])
    model = ch.FactorialHMM(rows=ch.Switches(0.2, 0.3), emission=emission)
    kept = ch.sample(model, signal(), **QUICK, store=tmp_path / "run")
    assert kept.model is model
    without = ch.open_posterior(tmp_path / "run")
    assert without.model is None
    for text in (repr(without), without._repr_html_()):
        assert "model not stored: ch.open_posterior(path, model=model)" in text
    assert without.marginals().shape == (2, without.draws.sizes["site"])
    with pytest.raises(ch.InvalidInput, match=r"model was not stored \(then give it: ch\.open_posterior\(path"):
        without.levels()
    assert ch.open_posterior(tmp_path / "run", model=model).model is model
    again = ch.FactorialHMM(
        rows=ch.Switches(0.2, 0.3), emission=ch.Custom(lambda y, level: -((y - level) ** 2), [1.0, 0.5])
    )
    more = ch.sample(again, signal(), **(QUICK | {"draws": 15}), store=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(more.codes, ch.sample(model, signal(), **(QUICK | {"draws": 15})).codes)
    other = ch.FactorialHMM(
        rows=ch.Switches(0.2, 0.3), emission=ch.Custom(lambda y, level: -((y - level) ** 4), [1.0, 0.5])
    )
    with pytest.raises(StoreError, match="a function of the model has changed: restore the old one, or give another"):
        ch.sample(other, signal(), **(QUICK | {"draws": 15}), store=tmp_path / "run", resume=True)


def test_info__is_that_of_the_run(tmp_path):
    found, expected = both(tmp_path, gaussian(), signal(), update="row", exchange="mosaic", ladder=[1, 4])
    assert set(found.info) - set(expected.info) == {"complete"}
    assert set(found.info["timings"]) == {"warmup", "draws"}
    for name in set(expected.info) - {"timings"}:
        assert found.info[name] == expected.info[name]
    assert found.info["complete"]
    checked = ch.check_store(tmp_path / "run")
    assert (checked.problems, checked.n_draws, checked.complete) == ((), QUICK["draws"], True)
    assert found.info["versions"]["zarr"]


def test_timings__add_up(tmp_path):
    ch.sample(gaussian(), signal(), **QUICK, update="row", exchange=None, store=tmp_path / "run")
    first = ch.open_posterior(tmp_path / "run").info["timings"]
    more = ch.sample(
        gaussian(),
        signal(),
        **(QUICK | {"draws": 15}),
        update="row",
        exchange=None,
        store=tmp_path / "run",
        resume=True,
    )
    assert more.info["timings"]["draws"] > first["draws"]
    assert more.info["timings"]["warmup"] == first["warmup"]


class Killed(BaseException):
    pass


def kill_after(n_draws: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends where a chain has more draws, without another word to its store."""
    append = store.ZarrTrace.append

    def until(self: Any, index: int, draws: Any, chain: Any) -> None:
        if self.filled[index] >= n_draws:
            raise Killed
        append(self, index, draws, chain)

    monkeypatch.setattr(store.ZarrTrace, "append", until)


def one_row_at_a_time(path: Path, **options: Any) -> ch.Posterior:
    settings = {**QUICK, "update": "row", "exchange": None, **options}
    return ch.sample(gaussian(), signal(), store=path, resume=True, **settings)


def test_timings__count_parts_that_were_killed_up_to_their_last_flush(tmp_path, monkeypatch):
    monkeypatch.setattr(engines.CompiledEngine, "piece", lambda self: 2)
    with monkeypatch.context() as during:
        kill_after(4, during)
        with pytest.raises(Killed):
            one_row_at_a_time(tmp_path / "run")
    killed = ch.open_posterior(tmp_path / "run").info
    assert not killed["complete"]
    assert min(killed["timings"][stage] for stage in ("warmup", "draws")) > 0
    with monkeypatch.context() as during:
        kill_after(8, during)
        with pytest.raises(Killed):
            one_row_at_a_time(tmp_path / "run")
    again = ch.open_posterior(tmp_path / "run").info
    assert again["timings"]["warmup"] == killed["timings"]["warmup"]
    assert again["timings"]["draws"] > killed["timings"]["draws"]
    ended = one_row_at_a_time(tmp_path / "run")
    assert ended.info["complete"]
    assert ended.info["timings"]["draws"] > again["timings"]["draws"]
    assert ended.summary().run["seconds"] == ended.info["timings"]
    assert_equal_draws(ended, one_row_at_a_time(tmp_path / "whole"))


def test_timings__of_a_warm_up_whose_draws_never_came_are_kept(tmp_path, monkeypatch):
    with monkeypatch.context() as during:
        kill_after(0, during)
        with pytest.raises(Killed):
            one_row_at_a_time(tmp_path / "run")
    first = reading.read_header(tmp_path / "run")["timings"]
    assert first["warmup"] > 0
    assert one_row_at_a_time(tmp_path / "run").info["timings"]["warmup"] > first["warmup"]


def test_timings__that_are_no_numbers_are_refused(tmp_path):
    one_row_at_a_time(tmp_path / "run")
    header = reading.read_header(tmp_path / "run")
    with pytest.raises(ValueError, match="timings must be seconds"):
        reading._checked(header | {"timings": {"draws": "long"}})


def test_evidence__comes_back(tmp_path):
    found, expected = both(tmp_path, gaussian(), signal(), update="exact")
    assert found.log_evidence == expected.log_evidence
    assert found.log_evidence is not None
    assert found.log_evidence.value == ch.exact.log_evidence(gaussian(), signal())


def test_row_counts__and_marginals(tmp_path):
    found, expected = both(tmp_path, gaussian(9, fixed={4: 1}), signal(), update="row", exchange=None, ladder=[1])
    np.testing.assert_array_equal(found.row_counts, count(expected.codes.values, 9))
    xr.testing.assert_allclose(found.marginals(), expected.marginals(), rtol=1e-12)
    assert (found.marginals()[4] == 1).all()


def test_draws__the_first_ones(tmp_path):
    found, expected = both(tmp_path, gaussian(), signal())
    part = ch.open_posterior(tmp_path / "run", draws=4)
    xr.testing.assert_identical(part.draws.load(), expected.draws[:, :4])
    xr.testing.assert_identical(part.log_joint, expected.log_joint[:, :4])
    assert part.row_counts is None  # the counts are of all draws
    np.testing.assert_allclose(part.marginals(), count(expected.codes.values[:, :4], 3) / 8)
    for wrong in (0, 12):
        with pytest.raises(InvalidInput, match=rf"draws must be in 1\.\.11 \(draws in .*run\), got {wrong}"):
            ch.open_posterior(tmp_path / "run", draws=wrong)
    xr.testing.assert_identical(ch.open_posterior(str(tmp_path / "run"), draws=11).draws.load(), found.draws.load())


def test_draws__are_loaded_when_they_are_looked_at(tmp_path):
    """Chunks that cannot be decompressed do not matter before; then their checksums tell."""
    ch.sample(gaussian(), signal(), **(QUICK | {"draws": 12}), store=tmp_path / "run")
    chunks = sorted((tmp_path / "run" / "codes").glob("c.*"))
    assert len(chunks) > 2
    for file in chunks:
        content = file.read_bytes()
        file.write_bytes(content[:-4] + bytes(byte ^ 255 for byte in content[-4:]))
    posterior = ch.open_posterior(tmp_path / "run")
    assert posterior.draws.chunks is not None
    assert posterior.states(0).chunks is not None
    assert posterior.marginals().shape == (3, T)
    assert posterior.log_joint.shape == (2, 12)
    with pytest.raises(StoreError, match=r"c\.\d\.\d\.0 cannot be decompressed \(it does not match its digest\)"):
        posterior.draws.load()


def test_draws__are_those_that_all_chains_have(tmp_path, monkeypatch):
    """A run stopped between the flushes of its chains shows what both have, and counts nothing for them."""
    original, seen = store.ZarrTrace.append, []

    def append(self: store.ZarrTrace, index: int, *rest: Any) -> None:
        seen.append(index)
        if len(seen) > 5:
            raise RuntimeError("stopped")
        original(self, index, *rest)

    monkeypatch.setattr(store.ZarrTrace, "append", append)
    monkeypatch.setattr(engines, "BATCH", 3)
    monkeypatch.setattr(running, "TURN", 1e9)  # however slow the machine, chain 0 ends before chain 1 begins
    with pytest.raises(RuntimeError, match="stopped"):
        ch.sample(gaussian(), signal(), **QUICK, update="exact", workers=1, store=tmp_path / "run")
    found = ch.open_posterior(tmp_path / "run")
    assert reading.read_header(tmp_path / "run")["committed"] == [11, 3]
    assert found.draws.shape == (2, 3, T)
    assert not found.info["complete"]
    checked = ch.check_store(tmp_path / "run")
    assert (checked.problems, checked.n_draws, checked.draws_wanted, checked.complete) == ((), 3, 11, False)
    assert found.row_counts is None
    expected = ch.sample(gaussian(), signal(), **QUICK, update="exact")
    np.testing.assert_allclose(found.marginals(), count(expected.codes.values[:, :3], 3) / 6)


# ---- Runs of earlier versions ---------------------------------------------------------------------------------------


def test_other_programs__find_rows_and_parameters_in_the_attributes(tmp_path):
    """The store says which bits are a row's, and what the columns of `parameters` are."""
    rows = [ch.Row([0, 1, 2], ch.Sticky(0.1)), ch.Row([0, 5], ch.Switch(0.1, 0.2))]
    model = ch.FactorialHMM(rows=rows, emission=ch.Gaussian(sd=0.7))
    posterior = ch.sample(model, signal(), store=tmp_path / "run", **QUICK)
    group = zarr.open_group(tmp_path / "run", mode="r")
    about = group.attrs["chiasma"]["provenance"]
    for k, (shift, mask) in enumerate(zip(about["row_shifts"], about["row_masks"], strict=True)):
        assert np.array_equal(group["codes"][:] >> shift & mask, posterior.states(k).values)
    assert about["parameter_names"] == []


def test_other_programs__names_are_in_the_order_of_the_values():
    chains, weights = ch.Switches(enter=ch.Beta(1, 9), leave=0.1), ch.Gamma([2, 2, 2], 1)
    model = ch.FactorialHMM(rows=chains, emission=ch.Gaussian(weights, sd=ch.HalfNormal(1)))
    values = np.arange(5.0)
    found = {one.name: one.values.item() for one in entries(named_parameters(values[None, None], model))}
    assert [found[name] for name in model.parameters.value_names()] == values.tolist()
    assert "weights[2]" in found

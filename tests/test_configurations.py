"""Configurations, levels, segments and marginal errors, against plain computations on draws made by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

import chiasma as ch
from chiasma.errors import InvalidInput
from chiasma.kernels.codes import smallest_dtype, unpack
from chiasma.kernels.layout import make_layout
from chiasma.results import configurations, segments
from chiasma.results.arrays import per_draw
from chiasma.results.ladder_stats import batch_error
from chiasma.results.posterior import Posterior
from chiasma.results.row_groups import Merging
from chiasma.results.segments import Segment, modal_codes

NO_PAIRS = xr.Dataset({name: ("pair", np.zeros(0)) for name in ("rejection", "moves", "changed", "columns")})


def by_hand(codes, weights=None, starts=None, **changes) -> Posterior:
    """A posterior around the codes (C, n, T) alone."""
    weights = np.array([0.2, 0.3, 0.5]) if weights is None else np.asarray(weights)
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian(weights))
    scores = per_draw("log_joint", np.zeros(codes.shape[:2]))
    parts = {
        "draws": per_draw("codes", codes.astype(smallest_dtype(len(weights))), "site"),
        "log_joint": scores,
        "log_likelihood": scores.rename("log_likelihood"),
        "replica_log_likelihood": scores.expand_dims(replica=1, axis=2),
        "betas": np.ones(1),
        "exchange_stats": NO_PAIRS,
        "log_evidence": None,
        "model": model,
        "data": ch.Observations(np.zeros((codes.shape[2], *weights.shape[1:])), starts=starts),
        "info": {"n_rows": len(weights)},
    }
    return Posterior(**(parts | changes))


def with_dask(posterior: Posterior) -> Posterior:
    return replace(posterior, draws=posterior.draws.chunk({"chain": 1, "draw": 7, "site": 5}))


def some_codes(n_chains=3, n_draws=45, n_sites=12, n_rows=3, seed=1):
    """Noisy copies of one path, so that configurations repeat."""
    rng = np.random.default_rng(seed)
    path = rng.integers(0, 1 << n_rows, n_sites // 3).repeat(3)
    noise = rng.integers(0, 1 << n_rows, (n_chains, n_draws, n_sites))
    return np.where(rng.random(noise.shape) < 0.2, noise, path)


@pytest.fixture(params=["memory", "dask", "small pieces"])
def kept(request, monkeypatch):
    """How draws are kept and read."""
    if request.param == "small pieces":
        monkeypatch.setattr(configurations, "PIECE_BYTES", 40)
    return with_dask if request.param == "dask" else lambda posterior: posterior


def test_top_configurations__are_the_distinct_ones_with_their_shares(kept):
    codes = some_codes()
    found = kept(by_hand(codes)).top_configurations(2, 5, n=100)
    plain = Counter(tuple(pattern) for pattern in codes[:, :, 2:5].reshape(-1, 3).tolist())
    assert len(found) == len(plain)
    shares = [configuration.probability for configuration in found]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1)
    for configuration in found:
        pattern = (configuration.states * (1 << np.arange(3))[:, None]).sum(axis=0)
        assert configuration.states.shape == (3, 3)
        assert configuration.states.dtype == np.int8
        assert (configuration.start, configuration.stop) == (2, 5)
        assert configuration.probability == plain[tuple(pattern.tolist())] / (3 * 45)
        hits = (codes[:, :, 2:5] == pattern).all(axis=-1)
        assert configuration.standard_error == batch_error(hits.astype(float))


def test_top_configurations__of_equals_the_first_drawn_comes_first(kept):
    codes = np.array([[[1, 1], [0, 0], [1, 1], [2, 2], [0, 0], [3, 3]]])
    found = kept(by_hand(codes)).top_configurations(0, 2, n=3)
    assert [(c.runs[0][2], c.probability) for c in found] == [(1, 2 / 6), (0, 2 / 6), (2, 1 / 6)]


def test_configuration__differences_are_runs_in_which_both_have_one_state():
    codes = np.array([[[0, 0, 1, 1, 2, 2]], [[0, 3, 3, 1, 2, 1]]])
    first, second = by_hand(codes).top_configurations(0, 6)
    assert second.differences(first) == [(1, 2), (2, 3), (5, 6)]
    assert first.differences(first) == []
    later = by_hand(codes).top_configurations(4, 6)
    assert later[1].differences(later[0]) == [(5, 6)]


def test_share_text__a_bound_where_all_draws_agree():
    assert configurations.share_text(1.0, 0.0, 1_200) == "> 0.997"
    assert configurations.share_text(1.0, 0.0, 10**6) == "> 0.999"
    assert configurations.share_text(1.0, 0.0, 2) == "1 ± 0"
    assert configurations.share_text(0.5, float("nan"), 20) == "0.5"
    assert configurations.share_text(0.999, 0.001, 1_000) == "0.999 ± 0.001"


def test_configuration__merges_equal_columns_into_runs():
    codes = np.tile(np.array([0, 5, 5, 5, 1, 1, 5]), (1, 8, 1))
    (only,) = by_hand(codes).top_configurations(1, 7)
    assert only.runs == [(1, 4, 5), (4, 6, 1), (6, 7, 5)]
    assert repr(only) == "Configuration(> 0.625: 101 at 1..3, 100 at 4..5, 101 at 6..6)"


def test_top_configurations__reads_the_region_alone():
    read = []

    def block(block_info):
        places = block_info[None]["array-location"]
        read.append(places[2])
        return np.ones([stop - start for start, stop in places], np.uint8)

    import dask.array as da

    lazy = da.map_blocks(block, chunks=((2,), (6,), (4, 4, 4)), dtype=np.uint8, meta=np.empty((0, 0, 0), np.uint8))
    posterior = by_hand(np.zeros((2, 6, 12)))
    posterior = replace(posterior, draws=posterior.draws.copy(data=lazy))
    (only,) = posterior.top_configurations(5, 7)
    assert only.runs == [(5, 7, 1)]
    assert set(read) == {(4, 8)}


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (3, 3), (4, 2), (0, 13)])
def test_top_configurations__refuses_other_regions(start, stop):
    with pytest.raises(InvalidInput, match=f"0 <= start < stop <= 12 .columns., got {start} and {stop}"):
        by_hand(some_codes()).top_configurations(start, stop)


def test_top_configurations__refuses_none_at_all():
    with pytest.raises(InvalidInput, match="n must be at least 1, got 0"):
        by_hand(some_codes()).top_configurations(0, 2, n=0)


def test_levels__are_sums_of_weights(kept):
    codes = some_codes()
    level = kept(by_hand(codes)).levels()
    assert level.dims == ("chain", "draw", "site")
    assert level.name == "level"
    np.testing.assert_allclose(level, np.einsum("cnkt,k->cnt", unpack(codes, 3), [0.2, 0.3, 0.5]))


def test_levels__of_many_rows_and_of_channels(kept):
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 1 << 40, (2, 5, 6))
    weights = rng.normal(size=40)
    np.testing.assert_allclose(
        kept(by_hand(codes, weights)).levels(), np.einsum("cnkt,k->cnt", unpack(codes, 40), weights)
    )
    codes, weights = some_codes(), rng.normal(size=(3, 2))
    level = kept(by_hand(codes, weights)).levels()
    assert level.dims == ("chain", "draw", "site", "channel")
    np.testing.assert_allclose(level, np.einsum("cnkt,kd->cntd", unpack(codes, 3), weights))


def test_rows_on__counts_rows(kept):
    codes = some_codes()
    np.testing.assert_array_equal(kept(by_hand(codes)).rows_on(), unpack(codes, 3).sum(axis=2))


def test_levels_and_rows_on__stay_lazy_and_become_so_when_large(monkeypatch):
    posterior = by_hand(some_codes())
    assert posterior.levels().chunks is None
    assert with_dask(posterior).levels().chunks is not None
    assert with_dask(posterior).rows_on().chunks is not None
    eager = posterior.levels(), posterior.rows_on()
    monkeypatch.setattr(configurations, "LAZY_BYTES", 1000)
    for before, after in zip(eager, (posterior.levels(), posterior.rows_on()), strict=True):
        assert after.chunks is not None
        xr.testing.assert_identical(before, after.compute())


def test_levels__need_weights():
    table = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Table(np.zeros((12, 8))))
    for model in (table, None):
        with pytest.raises(InvalidInput, match="levels need the weights of an additive emission"):
            replace(by_hand(some_codes()), model=model).levels()


def test_vectors_have_no_segments():
    posterior = replace(by_hand(some_codes()), info={})
    for read in (posterior.segments, posterior.rows_on, posterior.levels, posterior.marginals_error):
        with pytest.raises(InvalidInput, match="plain vectors"):
            read()


@pytest.mark.parametrize("table_size", [2**24, 0], ids=["counted", "sorted"])
def test_modal_codes__are_the_most_frequent_and_the_smallest_of_equals(kept, monkeypatch, table_size):
    monkeypatch.setattr(segments, "TABLE_SIZE", table_size)
    monkeypatch.setattr(segments, "BLOCK_BYTES", 700)
    codes = some_codes()
    codes[:, :, 0] = np.arange(45) % 3 + 2  # 2, 3 and 4 equally often
    mode, share = modal_codes(kept(by_hand(codes)).draws, Merging(make_layout([2] * 3), []))
    for t in range(12):
        counts = np.bincount(codes[:, :, t].ravel())
        assert mode[t] == counts.argmax()
        assert share[t] == counts.max() / (3 * 45)
    assert mode[0] == 2


def test_modal_codes__of_many_rows():
    codes = np.random.default_rng(3).integers(0, 1 << 62, (1, 1, 5)).repeat(4, axis=1)
    mode, share = modal_codes(by_hand(codes, np.ones(63)).draws, Merging(make_layout([2] * 63), []))
    np.testing.assert_array_equal(mode, codes[0, 0])
    assert (share == 1).all()


def test_segments__are_runs_of_the_modal_code_within_sequences(kept):
    codes = np.tile(np.array([6, 6, 6, 1, 1, 6]), (2, 10, 1))
    codes[0, :4, 1] = 0
    codes[1, :5, 4] = 2
    found = kept(by_hand(codes, starts=[2])).segments()
    assert found == [
        Segment(start=0, stop=2, n_data=2, code=6, states=(0, 1, 1), probability=pytest.approx(0.9), minimum=0.8),
        Segment(start=2, stop=3, n_data=1, code=6, states=(0, 1, 1), probability=1.0, minimum=1.0),
        Segment(start=3, stop=5, n_data=2, code=1, states=(1, 0, 0), probability=pytest.approx(0.875), minimum=0.75),
        Segment(start=5, stop=6, n_data=1, code=6, states=(0, 1, 1), probability=1.0, minimum=1.0),
    ]
    assert [segment.rows_on for segment in found] == [2, 2, 1, 2]
    assert kept(by_hand(codes, starts=[2])).segments(min_probability=0.88) == [found[0], found[1], found[3]]


def test_segments__without_data_are_one_sequence():
    codes = np.tile(np.array([6, 6, 6]), (2, 10, 1))
    assert [(s.start, s.stop) for s in by_hand(codes, starts=[1]).segments()] == [(0, 1), (1, 3)]
    assert [(s.start, s.stop) for s in by_hand(codes, starts=[1], data=None).segments()] == [(0, 3)]


@pytest.mark.parametrize("n_draws", [200, 45, 7, 4])
def test_marginals_error__is_that_of_batch_means(kept, n_draws):
    codes = some_codes(n_draws=n_draws)
    error = kept(by_hand(codes)).marginals_error()
    assert error.dims == ("row", "site")
    states = unpack(codes, 3).astype(float)
    for k in range(3):
        for t in range(12):
            assert float(error[k, t]) == pytest.approx(batch_error(states[:, :, k, t]), abs=1e-12)


def test_marginals_error__of_many_rows():
    codes = np.random.default_rng(4).integers(0, 1 << 62, (2, 9, 4))
    error = by_hand(codes, np.ones(63)).marginals_error()
    states = unpack(codes, 63).astype(float)
    assert float(error[40, 2]) == pytest.approx(batch_error(states[:, :, 40, 2]))
    assert float(error[62, 2]) == 0


def test_marginals_error__of_too_few_draws_is_not_known():
    assert np.isnan(by_hand(some_codes(n_draws=3)).marginals_error()).all()


def test_summaries__are_the_same_from_dask():
    eager = by_hand(some_codes())
    lazy = replace(eager, draws=eager.draws.chunk())
    assert eager.segments() == lazy.segments()
    xr.testing.assert_identical(eager.marginals(), lazy.marginals().compute())
    xr.testing.assert_identical(eager.marginals_error(), lazy.marginals_error())
    assert repr(eager.top_configurations(0, 3)) == repr(lazy.top_configurations(0, 3))
    assert eager.summary().to_dict() == lazy.summary().to_dict()

"""Updates: both emission paths agree, marginals are the exact ones, and the contract of a sweep holds.

Invariance itself is proved in test_invariance.py on tiny problems, with the kernels as plain Python. Here the
compiled kernels run, and it is checked that they are the same functions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import cycle
from pathlib import Path

import numba
import numpy as np
import pytest
from scipy import stats

import chiasma as ch
from chiasma.kernels import sweeps
from chiasma.kernels.codes import unpack
from chiasma.sampling.differences import Differences
from chiasma.sampling.updates import Sweep

JIT = not numba.config.DISABLE_JIT
needs_jit = pytest.mark.skipif(not JIT, reason="long runs of compiled kernels")
NAN = float("nan")


def chains(n_rows: int, seed: int = 3) -> ch.Switches:
    rng = np.random.default_rng(seed)
    return ch.Switches(rng.uniform(0.05, 0.3, n_rows), rng.uniform(0.05, 0.3, n_rows), rng.uniform(0.2, 0.8, n_rows))


def observations(y: np.ndarray) -> ch.Observations:
    """With a missing column, starts, and three kinds of gaps."""
    y = np.array(y, float)
    y[4] = NAN
    gaps = np.resize([1.0, 2.5, 0.7], len(y) - 1)
    return ch.Observations(y, starts=[len(y) // 3, len(y) // 2], gaps=gaps)


def problem(name: str, n_columns: int = 24) -> tuple[ch.FactorialHMM, ch.Observations]:
    rng = np.random.default_rng(11)
    counts = rng.poisson(2.0, n_columns).astype(float)
    signal = rng.normal(0.8, 0.8, n_columns)
    weights = [1.0, 0.6, 0.4, 0.9]
    fixed: dict[int, int] = {}
    prior = chains(4)
    if name == "gaussian":
        emission, y = ch.Gaussian(weights, sd=0.7), signal
    elif name == "channels":
        emission, y = ch.Gaussian(rng.normal(size=(4, 2)), sd=[0.7, 1.2]), rng.normal(0.5, 1.0, (n_columns, 2))
    elif name == "depth":
        emission, y, fixed = ch.IntegratedDepth(weights, depth_mean=2.0, depth_sd=0.3, sd=0.8), 2 * signal, {1: 1}
    elif name == "student":
        emission, y = ch.StudentT(weights, sd=0.5, df=3.0), signal
    elif name == "poisson":
        emission, y, fixed = ch.Poisson(weights, depth=1.5, background=0.2), counts, {3: 0}
    elif name == "negative-binomial":
        emission, y = ch.NegativeBinomial(weights, depth=1.5, dispersion=0.4, background=0.1), counts
    elif name == "table":
        table = rng.normal(0.0, 1.5, (n_columns, 16))
        table[rng.random(table.shape) < 0.1] = -np.inf
        emission, y = ch.Table(table), np.zeros(n_columns)
    elif name == "custom":
        emission, y = ch.Custom(lambda y, level: -np.abs(y - level) / 0.4, weights), signal
    elif name == "logarithms":
        # Row 1 never turns on within a sequence, so some passes are in logarithms.
        prior = ch.Switches([0.1, 0.0, 0.2, 0.1], [0.2, 0.1, 0.1, 0.3], [0.3, 0.7, 0.5, 0.2])
        emission, y = ch.Gaussian(weights, sd=0.7), signal
    else:
        raise ValueError(name)
    return ch.FactorialHMM(rows=prior, emission=emission, fixed=fixed), observations(y)


PROBLEMS = (
    "gaussian",
    "channels",
    "depth",
    "student",
    "poisson",
    "negative-binomial",
    "table",
    "custom",
    "logarithms",
)
UPDATES = {
    "row": ch.RowGibbs(),
    "block": ch.BlockGibbs(size=2),
    "given": ch.BlockGibbs(blocks=[(2, 0), (0,)]),
    "ball-1": ch.HammingBall(radius=1),
    "ball-2": ch.HammingBall(radius=2),
    "jumps": ch.Jumps(size=1, differences=Differences(a=(0, 0), b=(0b111, 0b110), weights=(2, 1))),
    "exact": ch.Exact(),
    "compose": ch.Compose([ch.HammingBall(), ch.BlockGibbs(size=3), ch.RowGibbs()]),
}


def run(sweep: Sweep, codes: np.ndarray, n_sweeps: int, rng: np.random.Generator) -> np.ndarray:
    """(n_sweeps, T) codes after every sweep; changes `codes`."""
    out = np.empty((n_sweeps, len(codes)), np.int64)
    for n in range(n_sweeps):
        sweep(codes, rng.random(sweep.n_uniforms))
        out[n] = codes
    return out


# ---- Tabulated and streamed -----------------------------------------------------------------------------------------


@pytest.mark.jit_off
@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_paths__tabulated_and_streamed_draw_the_same(name, update):
    model, data = problem(name)
    traces = []
    for table_bytes in (2**20, 0):
        target = model.exact_target(data, table_bytes=table_bytes)
        assert target.tabulated == (table_bytes > 0)
        for beta in (1.0, 0.35):
            codes = np.full(data.n_columns, 5 & (1 << target.n_axes) - 1)
            traces.append(run(update.prepare(target, beta), codes, 150 if JIT else 4, np.random.default_rng(2)))
    np.testing.assert_array_equal(traces[0], traces[2])
    np.testing.assert_array_equal(traces[1], traces[3])
    if JIT:
        assert len(np.unique(traces[0], axis=0)) > 100


@pytest.mark.jit_off
@pytest.mark.parametrize("blocks", [None, [(2, 0), (1, 3)]], ids=["row", "block"])
def test_streamed__24_rows_of_which_20_are_silent(blocks):
    """Rows of weight 0 leave the others alone: four rows of 24, too many for a table, move as a model of four does,
    and a silent row moves as its prior does.
    """
    n_columns, n_loud, n_rows = 12, 4, 24
    loud, data = problem("gaussian", n_columns)
    probabilities = [np.resize(p, n_rows) for p in loud.rows.chains.probabilities(n_loud)]
    weights = np.zeros(n_rows)
    weights[:n_loud] = loud.emission.weights
    whole = ch.FactorialHMM(rows=ch.Switches(*probabilities), emission=ch.Gaussian(weights, sd=0.7))
    assert not whole.exact_target(data).tabulated

    def prepare(model, n):
        given = None if blocks is None else [*blocks, *([k] for k in range(n_loud, n))]
        update = ch.RowGibbs() if given is None else ch.BlockGibbs(blocks=given)
        return update.prepare(model.exact_target(data), 0.8)

    sweep, small = prepare(whole, n_rows), prepare(loud, n_loud)
    prior = ch.RowGibbs().prepare(whole.exact_target(data), 0.0)
    rng = np.random.default_rng(5)
    codes, small_codes = np.zeros(n_columns, np.int64), np.zeros(n_columns, np.int64)
    share = np.zeros((n_rows, n_columns))
    n_sweeps = 400 if JIT else 3
    for _ in range(n_sweeps):
        uniforms = rng.random(sweep.n_uniforms)
        sweep(codes, uniforms)
        small(small_codes, uniforms[: small.n_uniforms])
        np.testing.assert_array_equal(codes & 15, small_codes)
        share += unpack(codes, n_rows)
    assert prior.n_uniforms == n_rows * n_columns
    if JIT:
        # Silent rows are drawn afresh by every sweep: binomial counts. 240 of them within 5 standard errors: false
        # alarm in 1 of 7,000 seeds.
        _, _, initial = whole.rows.chains.probabilities(n_rows)
        error = (share[n_loud:, data.starts] / n_sweeps - initial[n_loud:, None]) / np.sqrt(
            (initial * (1 - initial))[n_loud:, None] / n_sweeps
        )
        assert np.abs(error).max() < 5


# ---- Marginals ------------------------------------------------------------------------------------------------------

N_BATCHES = 50


def batch_scores(draws: np.ndarray, exact: np.ndarray, n_rows: int) -> np.ndarray:
    """(K, T) differences from the exact marginals in standard errors, from batch means of one long chain."""
    means = np.array([unpack(batch, n_rows).mean(axis=0) for batch in np.array_split(draws, N_BATCHES)])
    return (means.mean(axis=0) - exact) / (means.std(axis=0, ddof=1) / np.sqrt(N_BATCHES))


def batch_limit(n_scores: int, false_alarm: float) -> float:
    """Batch means are a Student t of N_BATCHES - 1 degrees of freedom; Bonferroni over all scores."""
    return float(stats.t.isf(false_alarm / (2 * n_scores), N_BATCHES - 1))


@pytest.mark.slow
@needs_jit
@pytest.mark.parametrize(("update", "beta"), [*zip(UPDATES.values(), cycle([1.0, 0.4]), strict=False)], ids=UPDATES)
def test_marginals__long_run_is_exact(update, beta):
    """K = 4, T = 80: 320 marginals from 20,000 sweeps. Batches of 400 sweeps are many correlation times long, so that
    their means are independent; false alarm for 1 seed in 1,000.
    """
    if update is UPDATES["given"]:
        update = ch.BlockGibbs(blocks=[(2, 0), (0,), (3, 1)])
    rng = np.random.default_rng(8)
    model = ch.FactorialHMM(rows=chains(4), emission=ch.Gaussian([1.0, 0.6, 0.4, 0.9], sd=2.0))
    data = observations(model.simulate(80, seed=4)[1])
    exact = ch.exact.marginals(model, data, beta=beta)
    assert 0.02 < exact.min() < exact.max() < 0.98, "sites that hardly ever change have no usable batch means"
    draws = run(update.prepare(model.exact_target(data), beta), np.zeros(80, np.int64), 20_200, rng)[200:]
    limit = batch_limit(exact.size, 1e-3)
    assert np.abs(batch_scores(draws, exact, 4)).max() < limit
    # The check has teeth: marginals of another beta are told apart.
    assert np.abs(batch_scores(draws, ch.exact.marginals(model, data, beta=1.5 * beta), 4)).max() > 2 * limit


@pytest.mark.slow
@needs_jit
@pytest.mark.parametrize("update", [ch.BlockGibbs(size=3), ch.HammingBall(radius=1)], ids=["block", "ball"])
def test_marginals__24_rows_streamed(update):
    """As above for four rows among twenty silent ones; the exact marginals are those of the four alone."""
    model = ch.FactorialHMM(rows=ch.Switches(0.2, 0.25), emission=ch.Gaussian([1.0, 0.6, 0.4, 0.9], sd=1.5))
    data = observations(model.simulate(10, seed=4)[1])
    whole = ch.FactorialHMM(rows=model.rows.chains, emission=ch.Gaussian([1.0, 0.6, 0.4, 0.9, *[0.0] * 20], sd=1.5))
    exact = ch.exact.marginals(model, data)
    n_sweeps = 5_000 if isinstance(update, ch.BlockGibbs) else 25_000
    sweep = update.prepare(whole.exact_target(data), 1.0)
    draws = run(sweep, np.zeros(10, np.int64), n_sweeps, np.random.default_rng(8))[n_sweeps // 50 :]
    scores = batch_scores(draws & 15, exact, 4)
    limit = batch_limit(exact.size, 1e-3)
    assert np.abs(scores).max() < limit
    assert np.abs(batch_scores(draws & 15, ch.exact.marginals(model, data, beta=0.6), 4)).max() > limit


REAL_WEIGHTS = (0.075, 0.125, 0.15, 0.175, 0.2, 0.275)
N_REAL = 300


@pytest.fixture(scope="module")
def real():
    """The size of the paper's tumour data: six rows with one held as the baseline, 10,877 sites, 22 chromosomes."""
    model = ch.FactorialHMM(
        rows=ch.Switches(enter=0.01, leave=0.01),
        emission=ch.IntegratedDepth(REAL_WEIGHTS, depth_mean=15.0, depth_sd=1.0, sd=1.0),
        fixed={5: 1},
    )
    starts = np.linspace(0, 10_877, 22, endpoint=False).astype(int)
    _, y = model.simulate(10_877, seed=1, starts=starts)
    data = ch.Observations(y, starts=starts)
    target = model.exact_target(data)
    draws = np.array([target.reduce(codes) for codes in ch.exact.draws(model, data, n=N_REAL, seed=7)])
    return target, ch.exact.marginals(model, data)[:5], draws


def real_scores(draws: np.ndarray, exact: np.ndarray) -> tuple[float, float]:
    """Largest standardised difference from the exact marginals: over sites, and over shares of each row by sequence.

    Draws are independent. Sites count where the normal approximation of a binomial count holds; the shares, 110 sums
    of about 500 correlated sites, are standardised by their spread over draws.
    """
    on = np.array([unpack(codes, 5) for codes in draws])
    usable = (exact > 0.1) & (exact < 0.9)
    assert usable.sum() > 2_000
    sites = (on.mean(axis=0) - exact)[usable] / np.sqrt(exact * (1 - exact) / len(draws))[usable]
    shares = np.array([part.mean(axis=-1) for part in np.array_split(on, 22, axis=-1)])
    expected = np.array([part.mean(axis=-1) for part in np.array_split(exact, 22, axis=-1)])
    errors = (shares.mean(axis=1) - expected) / (shares.std(axis=1, ddof=1) / np.sqrt(len(draws)))
    return float(np.abs(sites).max()), float(np.abs(errors).max())


# Every one of 35,000 binomial scores is beyond 6 with a probability of at most 3e-8 (p = 0.1, n = 300), so that one of
# them is in fewer than 1 of 900 seeds, far fewer as sites are correlated; one of 110 shares beyond 5 in 1 of 10,000.
SITE_LIMIT, SHARE_LIMIT = 6.0, 5.0


@needs_jit
@pytest.mark.slow
def test_real_size__exact_draws(real):
    _, exact, draws = real
    sites, shares = real_scores(draws, exact)
    assert sites < SITE_LIMIT
    assert shares < SHARE_LIMIT


def swept(real, update, beta: float, n_sweeps: int) -> tuple[float, float]:
    """Scores after a few sweeps from each of the exact draws."""
    target, exact, draws = real
    sweep = update.prepare(target, beta)
    rng = np.random.default_rng(3)
    return real_scores(np.array([run(sweep, codes.copy(), n_sweeps, rng)[-1] for codes in draws]), exact)


@needs_jit
@pytest.mark.slow
@pytest.mark.parametrize(
    "update",
    [ch.RowGibbs(), ch.BlockGibbs(size=2), ch.HammingBall(radius=1), ch.HammingBall(radius=2), ch.Exact()],
    ids=["row", "block", "ball-1", "ball-2", "exact"],
)
def test_real_size__stationary_start_stays_stationary(real, update):
    """Independent exact draws, three sweeps each, are independent draws of the same posterior."""
    sites, shares = swept(real, update, 1.0, 3)
    assert sites < SITE_LIMIT
    assert shares < SHARE_LIMIT


@needs_jit
@pytest.mark.slow
def test_real_size__wrong_beta_is_seen(real):
    assert swept(real, ch.RowGibbs(), 0.5, 3)[0] > 2 * SITE_LIMIT
    assert swept(real, ch.Exact(), 0.5, 1)[1] > 2 * SHARE_LIMIT


# ---- The contract of a sweep ----------------------------------------------------------------------------------------


@pytest.mark.jit_off
@pytest.mark.parametrize("beta", [1.0, 0.0])
@pytest.mark.parametrize("table_bytes", [2**20, 0], ids=["tabulated", "streamed"])
@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
def test_n_uniforms__nothing_beyond_is_read(update, table_bytes, beta):
    model, data = problem("gaussian")
    sweep = update.prepare(model.exact_target(data, table_bytes=table_bytes), beta)
    rng = np.random.default_rng(6)
    for _ in range(20 if JIT else 2):
        uniforms = rng.random(sweep.n_uniforms)
        results = []
        for poison in (0.0, 1 - 2**-53, NAN):
            buffer = np.full(sweep.n_uniforms + 50, poison)
            buffer[: sweep.n_uniforms] = uniforms
            for given in (buffer[: sweep.n_uniforms], buffer):
                codes = np.full(data.n_columns, 5)
                sweep(codes, given)
                results.append(codes)
        np.testing.assert_array_equal(np.array(results), np.tile(results[0], (6, 1)))


@pytest.mark.jit_off
@pytest.mark.parametrize("beta", [1.0, 0.0])
@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
def test_n_uniforms__every_one_is_read(update, beta):
    """Each uniform decides something in some sweep; only the first of a shuffle has one outcome."""
    model = ch.FactorialHMM(rows=ch.Switches(0.4, 0.4), emission=ch.Gaussian([1.0, 1.3, 0.8, 0.9], sd=0.9))
    data = np.array([1.3, 2.5, 1.8])
    sweep = update.prepare(model.exact_target(data), beta)
    rng = np.random.default_rng(6)
    silent = set(range(sweep.n_uniforms))
    for _ in range(100):
        uniforms = rng.random(sweep.n_uniforms)
        start = rng.integers(16, size=3)
        before = start.copy()
        sweep(before, uniforms)
        for n in list(silent):
            changed = uniforms.copy()
            changed[n] = (changed[n] + 0.5) % 1
            after = start.copy()
            sweep(after, changed)
            if (after != before).any():
                silent.remove(n)
    shuffles = {"block": {0}, "jumps": {0, 8}, "compose": {6}}
    name = next(name for name, known in UPDATES.items() if known is update)
    assert silent == (shuffles.get(name, set()) if beta > 0 else set())


@pytest.mark.jit_off
@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
def test_sweep__target_and_uniforms_are_left_alone(update):
    model, data = problem("table")
    for table_bytes in (2**20, 0):
        target = model.exact_target(data, table_bytes=table_bytes)
        untouched = (target.log_lik, target.trans, target.log_trans, target.edge, model.emission.log_lik)
        copies = [array.copy() for array in untouched]
        sweep = update.prepare(target, 0.5)
        uniforms = np.random.default_rng(1).random(sweep.n_uniforms)
        uniforms.flags.writeable = JIT  # compiled kernels are typed by the layout of what they get
        before = uniforms.copy()
        sweep(np.zeros(data.n_columns, np.int64), uniforms)
        np.testing.assert_array_equal(uniforms, before)
        for array, copy in zip(untouched, copies, strict=True):
            np.testing.assert_array_equal(array, copy)


@pytest.mark.jit_off
@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
def test_sweep__scratch_carries_nothing_over(update):
    """A sweep that has run before, and one whose scratch is poisoned, draw what a fresh one draws."""
    model, data = problem("logarithms")
    target = model.exact_target(data)
    uniforms = np.random.default_rng(9).random(update.prepare(target, 1.0).n_uniforms)
    results = []
    for poison in (None, NAN, 0.0):
        sweep = update.prepare(target, 1.0)
        if poison is not None and hasattr(sweep, "work"):
            for scratch in (sweep.work.lik, sweep.work.alpha, sweep.work.vectors):
                scratch[:] = poison
        for _ in range(2):
            codes = np.full(data.n_columns, 9)
            sweep(codes, uniforms)
            results.append(codes)
    np.testing.assert_array_equal(np.array(results), np.tile(results[0], (6, 1)))


# ---- Starts outside the support -------------------------------------------------------------------------------------


def impossible_starts():
    y = np.resize([0.0, 3.0, 2.0, 0.0, 4.0], 15)
    counts = ch.Poisson([1.0, 2.0, 1.0])
    yield "counts", ch.FactorialHMM(rows=ch.Switches(0.2, 0.2), emission=counts), y
    # Row 0 is off for good, so some of what is left is excluded by the prior and passes are in logarithms.
    frozen = ch.Switches([0.0, 0.2, 0.3], 0.2, [0.0, 0.5, 0.5])
    yield "frozen", ch.FactorialHMM(rows=frozen, emission=counts), y
    # Two rows must be on together: given the others, no single row can repair a column.
    table = np.zeros((15, 8))
    table[::3, :6] = -np.inf
    yield "together", ch.FactorialHMM(rows=ch.Switches(0.2, 0.2), emission=ch.Table(table)), np.zeros(15)


STARTS = {name: (model, y) for name, model, y in impossible_starts()}


@pytest.mark.jit_off
@pytest.mark.parametrize("table_bytes", [2**20, 0], ids=["tabulated", "streamed"])
@pytest.mark.parametrize(
    "update", [u for n, u in UPDATES.items() if n != "given"], ids=[n for n in UPDATES if n != "given"]
)
@pytest.mark.parametrize("name", STARTS)
def test_impossible_start__reaches_the_support(name, update, table_bytes):
    model, y = STARTS[name]
    target = model.exact_target(y, table_bytes=table_bytes)
    codes = np.zeros(len(y), np.int64)
    assert target.log_likelihood(codes) == -np.inf
    sweep = update.prepare(target, 1.0)
    rng = np.random.default_rng(4)
    n_sweeps = 0
    while target.log_prior(codes) + target.log_likelihood(codes) == -np.inf:
        n_sweeps += 1
        assert n_sweeps < 2_000, "still outside the support"
        sweep(codes, rng.random(sweep.n_uniforms))
    for _ in range(10):
        sweep(codes, rng.random(sweep.n_uniforms))
        assert target.log_prior(codes) + target.log_likelihood(codes) > -np.inf


@pytest.mark.jit_off
@pytest.mark.parametrize("table_bytes", [2**20, 0], ids=["tabulated", "streamed"])
@pytest.mark.parametrize("update", [u for u in UPDATES.values() if not isinstance(u, ch.Exact)], ids=repr)
def test_impossible_start__does_not_read_old_scratch(update, table_bytes):
    """Where a pass finds no possible path, what it draws must not come from memory that happens to be there."""
    model, y = STARTS["frozen"]
    target = model.exact_target(y, table_bytes=table_bytes)
    traces = []
    for poison in (NAN, 0.0, 5.0):
        sweep = update.prepare(target, 1.0)
        work = sweep.work._asdict() if hasattr(sweep.work, "_asdict") else vars(sweep.work)
        for scratch in work.values():
            scratch[:] = poison if scratch.dtype.kind == "f" else 0
        traces.append(run(sweep, np.zeros(len(y), np.int64), 5, np.random.default_rng(1)))
        assert not (traces[-1] & 1).any(), "row 0 cannot be on"
    np.testing.assert_array_equal(traces[0], traces[1])
    np.testing.assert_array_equal(traces[0], traces[2])


# ---- Bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (ch.BlockGibbs(size=0), r"size must be in 1\.\.3 \(free rows\), got 0"),
        (ch.BlockGibbs(size=4), r"size must be in 1\.\.3 \(free rows\), got 4"),
        (ch.HammingBall(radius=0), r"radius must be in 1\.\.3 \(free rows\), got 0; use Exact\(\)"),
        (ch.HammingBall(radius=4), r"radius must be in 1\.\.3 \(free rows\), got 4; use Exact\(\)"),
        (ch.BlockGibbs(blocks=[(0, 2), (1,)]), r"distinct free rows, here of \[0, 2, 3\], got \(1,\)"),
        (ch.BlockGibbs(blocks=[(0, 2, 0)]), r"distinct free rows, here of \[0, 2, 3\], got \(0, 2, 0\)"),
        (ch.BlockGibbs(blocks=[(0, 4)]), r"distinct free rows, here of \[0, 2, 3\], got \(0, 4\)"),
        (ch.BlockGibbs(blocks=[(0,), ()]), r"distinct free rows, here of \[0, 2, 3\], got \(\)"),
        (
            ch.BlockGibbs(blocks=[]),
            r"blocks must list at least one block, such as \[\(0, 1\)\], got \[\]; leave it out",
        ),
        (ch.Compose([]), r"Compose needs at least one update, got none"),
        (ch.Compose([ch.RowGibbs(), ch.HammingBall(radius=9)]), r"radius must be in 1\.\.3 \(free rows\), got 9"),
        (ch.Compose([ch.RowGibbs(), ch.Exact()]), r"Exact\(\) draws the whole path .* use it alone"),
    ],
)
@pytest.mark.parametrize("beta", [1.0, 0.0])
def test_prepare__raise_on_misfit(update, message, beta):
    """At beta = 0 as well, where nothing of the update would be used: a ladder must not hide a mistake."""
    model, data = problem("depth")
    with pytest.raises(ch.InvalidInput, match=message):
        update.prepare(model.exact_target(data), beta)


@pytest.mark.parametrize("update", [ch.BlockGibbs(size=30), ch.HammingBall(radius=9)], ids=["block", "ball"])
def test_prepare__raise_on_memory(update):
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian(np.ones(30)))
    with pytest.raises(ch.BudgetExceeded, match=r"candidates at each of 100 sites needs .* MiB, limit .* smaller"):
        update.prepare(model.exact_target(np.zeros(100)), 1.0)


# ---- Compiled kernels -----------------------------------------------------------------------------------------------


def traces_of_everything() -> dict[str, list[list[int]]]:
    out = {}
    for name in ("gaussian", "table", "logarithms", "poisson"):
        model, data = problem(name, n_columns=9)
        for label, update in UPDATES.items():
            for table_bytes in (2**20, 0):
                for beta in (0.7, 0.0):
                    sweep = update.prepare(model.exact_target(data, table_bytes=table_bytes), beta)
                    trace = run(sweep, np.zeros(9, np.int64), 3, np.random.default_rng(12))
                    out[f"{name} {label} {table_bytes} {beta}"] = trace.tolist()
    return out


def in_a_process(expression: str, **environment: str):
    """Value of an expression of this module, evaluated in a fresh interpreter."""
    script = f"import json, test_updates; print(json.dumps({expression}))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parent,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@needs_jit
def test_compiled__draws_what_plain_python_draws():
    """The invariance proofs run plain Python; this makes them speak of the compiled kernels."""
    assert in_a_process("test_updates.traces_of_everything()", NUMBA_DISABLE_JIT="1") == traces_of_everything()


def specialisations() -> dict[str, int]:
    """Compiled versions per kernel, after every update on many shapes.

    Not on paths of one column: their transposed table is contiguous both ways, which is another type of array.
    """
    from chiasma.kernels import ball, codes, log_passes, passes, rows, sweeps, transitions

    for n_rows, n_columns in ((1, 2), (3, 7), (6, 2)):
        rng = np.random.default_rng(n_rows)
        for enter in (0.1, 0.0):
            for gaps in (None, np.resize([1.0, 2.0], n_columns - 1)):
                model = ch.FactorialHMM(
                    rows=ch.Switches(enter, 0.2, 0.4), emission=ch.Gaussian(rng.normal(size=n_rows))
                )
                data = ch.Observations(rng.normal(size=n_columns), gaps=gaps)
                for table_bytes in (2**20, 0):
                    target = model.exact_target(data, table_bytes=table_bytes)
                    whole = [ch.BlockGibbs(blocks=[range(n_rows)]), ch.BlockGibbs(size=1 + n_rows // 2)]
                    balls = [ch.HammingBall(radius=radius) for radius in range(1, min(n_rows, 3) + 1)]
                    for update in [ch.RowGibbs(), ch.Exact(), ch.Exact(memory=2**14), *whole, *balls]:
                        for beta in (1.0, 0.0):
                            sweep = update.prepare(target, beta)
                            run(sweep, np.zeros(n_columns, np.int64), 2, rng)
    modules = (ball, codes, log_passes, passes, rows, sweeps, transitions)
    kernels = {
        f"{module.__name__}.{name}": value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, numba.core.dispatcher.Dispatcher)
    }
    return {name: len(kernel.signatures) for name, kernel in kernels.items()}


@needs_jit
@pytest.mark.slow
def test_compiled__few_versions_of_every_kernel():
    """One version per kernel, two at most, whatever the shapes: compilation must not come back in the middle of a
    run.
    """
    counts = in_a_process("test_updates.specialisations()")
    assert counts["chiasma.kernels.sweeps.run_program"] == 1
    assert sum(count > 0 for count in counts.values()) > 20
    assert {name: count for name, count in counts.items() if count > 2} == {}


# ---- Which way a ball goes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_rows", "radius", "kind"), [(8, 1, "TENSOR"), (9, 1, "DENSE"), (9, 2, "TENSOR")])
def test_a_ball_goes_the_way_that_counts_fewer_operations(n_rows, radius, kind):
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian(np.ones(n_rows)))
    (step,) = ch.HammingBall(radius=radius).steps(model.exact_target([0.0]))
    assert step.kind == getattr(sweeps, f"BALL_{kind}")

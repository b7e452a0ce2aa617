"""sample(): every ensemble against exact values, its options and their errors, interrupts.

Runs have fixed seeds. Where a run is compared with an exact value, the difference is at most 5 standard errors from
batch means; of correct runs, one comparison in two million is further off.
"""

from __future__ import annotations

import _thread
import signal
import threading
import time
from collections import Counter
from typing import Any

import numba
import numpy as np
import pytest

import chiasma as ch
from chiasma.errors import InvalidInput
from chiasma.kernels.codes import unpack
from chiasma.results.ladder_stats import batch_error
from chiasma.sampling import engines, running, sampler
from chiasma.sampling.progress import Progress
from chiasma.sampling.threads import WaitingInterrupts

JIT = not numba.config.DISABLE_JIT
needs_jit = pytest.mark.skipif(not JIT, reason="long runs of compiled kernels")
MAX_Z = 5.0
NAN = float("nan")


def problem(n_columns: int = 40) -> tuple[ch.FactorialHMM, np.ndarray]:
    """Three rows in moderate noise: most marginals are neither 0 nor 1."""
    model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.15), emission=ch.Gaussian([1.0, 0.8, 0.55], sd=0.7))
    return model, model.simulate(n_columns, seed=1)[1]


def small(**options: Any) -> ch.Posterior:
    """A short run on a short path with a fixed row."""
    model = ch.FactorialHMM(rows=ch.Switches(0.2, 0.3), emission=ch.Gaussian([1.0, 0.8, 0.55], sd=0.7), fixed={1: 1})
    y = np.array([0.9, 1.8, 2.2, 0.7, 1.4, 1.1])
    options = {"update": "row", "exchange": "mosaic", "ladder": [1, 4], "draws": 8, "warmup": 4, "chains": 2} | options
    return ch.sample(model, y, **({"seed": 1, "progress": False} | options))


def normal(**options: Any) -> ch.Density:
    options = {"size": 2, "init": [0.0, 0.0], "update": ch.RandomWalk(scale=0.8)} | options
    log_density = options.pop("log_density", lambda x: -0.5 * (x**2).sum(axis=1))
    return ch.Density(log_density, **options)


# ---- Against exact values -------------------------------------------------------------------------------------------

UPDATES = {"row": ch.RowGibbs(), "block": ch.BlockGibbs(size=2), "ball": ch.HammingBall(radius=1)}
EXCHANGES = {
    "none": None,
    "swap": ch.Swap(),
    "random-1": ch.RandomCrossover(),
    "random-2": ch.RandomCrossover(points=2, rows="random"),
    "augmented": ch.AugmentedCrossover(),
    "augmented-T": ch.AugmentedCrossover(flipped=False),
    "augmented-rows": ch.AugmentedCrossover(axis="rows"),
    "mosaic": ch.MosaicCrossover(),
    "mosaic-random-rows": ch.MosaicCrossover(rows="random"),
}


def check_marginals(posterior: ch.Posterior, exact: np.ndarray) -> None:
    """Every marginal that is not nearly certain, within MAX_Z standard errors."""
    n_checked = 0
    for k, row in enumerate(exact):
        states = posterior.states(k).values
        for t in np.flatnonzero((row > 0.03) & (row < 0.97)):
            z = (states[..., t].mean() - row[t]) / batch_error(states[..., t].astype(float))
            assert abs(z) < MAX_Z, f"row {k}, column {t}: z = {z:.1f}"
            n_checked += 1
    assert n_checked > 60


@pytest.mark.slow
@needs_jit
@pytest.mark.parametrize("exchange", EXCHANGES.values(), ids=EXCHANGES)
@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)
def test_ensembles__have_the_exact_marginals(update, exchange):
    """27 runs of about 100 comparisons each: a false alarm in 0.2% of choices of seeds."""
    model, y = problem()
    posterior = ch.sample(
        model, y, update=update, exchange=exchange, ladder=[1, 1.6, 3], draws=3000, warmup=500, chains=4, seed=1,
        progress=False,
    )  # fmt: skip
    check_marginals(posterior, ch.exact.marginals(model, y))


@needs_jit
def test_ensembles__the_check_of_marginals_rejects_a_nearby_target():
    """Draws at temperature 1.2 for those at 1."""
    model, y = problem()
    posterior = ch.sample(model, y, update="row", exchange="mosaic", ladder=[1, 3], draws=6000, seed=1, progress=False)
    with pytest.raises(AssertionError, match="z ="):
        check_marginals(posterior, ch.exact.marginals(model, y, beta=1 / 1.2))


@needs_jit
def test_exact_runs__have_the_exact_marginals():
    model, y = problem()
    posterior = ch.sample(model, y, draws=4000, seed=1, progress=False)
    assert posterior.info["plan"].startswith("exact")
    check_marginals(posterior, ch.exact.marginals(model, y))


def mean_log_likelihood(model: ch.FactorialHMM, y: np.ndarray, beta: float) -> float:
    """d log Z / d beta, by differences of second order: central, or forward at 0."""
    h = 1e-3
    if beta < h:
        f = [ch.exact.log_evidence(model, y, beta=beta + n * h) for n in range(3)]
        return (-3 * f[0] + 4 * f[1] - f[2]) / (2 * h)
    high, low = (ch.exact.log_evidence(model, y, beta=beta + step) for step in (h, -h))
    return (high - low) / (2 * h)


def check_temperatures(posterior: ch.Posterior, model: ch.FactorialHMM, y: np.ndarray, betas: np.ndarray) -> None:
    """The mean log-likelihood of every rung is that of its beta."""
    for r, beta in enumerate(betas):
        log_lik = posterior.replica_log_likelihood.values[..., r]
        z = (log_lik.mean() - mean_log_likelihood(model, y, beta)) / batch_error(log_lik)
        assert abs(z) < MAX_Z, f"rung {r}, beta {beta:.3f}: z = {z:.1f}"


@pytest.mark.slow
@needs_jit
@pytest.mark.parametrize(
    ("update", "exchange"),
    [("row", "swap"), ("row", "random"), ("row", "augmented"), ("row", "mosaic"), ("hamming-ball", "mosaic")],
)
def test_ensembles__every_rung_has_its_temperature(update, exchange):
    """An adapted ladder of six rungs, from the prior up. The check can fail: it rejects a beta that is 10% lower."""
    model, y = problem()
    posterior = ch.sample(
        model, y, update=update, exchange=exchange, ladder=ch.Ladder.adapted(6), draws=4000, warmup=1000, chains=4,
        seed=2, progress=False,
    )  # fmt: skip
    betas = posterior.betas
    assert betas[0] == 0
    check_temperatures(posterior, model, y, betas)
    for r in range(1, 6):
        wrong = betas.copy()
        wrong[r] *= 0.9
        with pytest.raises(AssertionError, match=f"rung {r}"):
            check_temperatures(posterior, model, y, wrong)


@needs_jit
def test_density__replicas_have_the_exact_moments():
    """Prior N(0, 1), likelihood exp(-(x - 3)^2)^beta: a posterior N(6 beta / (1 + 2 beta), 1 / (1 + 2 beta))."""
    target = normal(
        log_density=lambda x: -((x - 3.0) ** 2).sum(axis=1),
        log_prior=lambda x: -0.5 * (x**2).sum(axis=1),
        prior_draw=lambda rng: rng.normal(size=2),
    )
    betas = (0.0, 0.2, 1.0)
    posterior = ch.sample(
        target, exchange="augmented", ladder=ch.Ladder(betas=betas), draws=1500, warmup=300, chains=2, seed=3,
        progress=False,
    )  # fmt: skip
    for t in range(2):
        draws = posterior.draws.values[..., t]
        assert abs(draws.mean() - 2.0) < MAX_Z * batch_error(draws)
        squares = (draws - 2.0) ** 2
        assert abs(squares.mean() - 1 / 3) < MAX_Z * batch_error(squares)
    for r, beta in enumerate(betas):
        mean, variance = 6 * beta / (1 + 2 * beta), 1 / (1 + 2 * beta)
        log_lik = posterior.replica_log_likelihood.values[..., r]
        expected = -2 * ((mean - 3) ** 2 + variance)
        assert abs(log_lik.mean() - expected) < MAX_Z * batch_error(log_lik)
    # The integral of N(x; 0, 1) exp(-(x - 3)^2) is exp(-3) / sqrt(3), per coordinate.
    value, error = posterior.log_evidence
    assert abs(value - 2 * (-3 - 0.5 * np.log(3))) < MAX_Z * error


@needs_jit
def test_modes__are_balanced():
    """All four modes have probability 1/4, by the symmetry of ones and zeros."""
    target = ch.BlockModes(blocks=2, size=12, alpha=0.35)
    posterior = ch.sample(
        target, exchange="augmented", ladder=[1, 2, 5], draws=2000, warmup=100, chains=2, seed=4, progress=False
    )
    ones = posterior.draws.values.reshape(2, 2000, 2, 6).sum(axis=-1) - 3.0
    for sign in (np.sign(ones[..., 0]), np.sign(ones[..., 1]), np.sign(ones[..., 0] * ones[..., 1])):
        assert abs(sign.mean()) < MAX_Z * batch_error(sign)


# ---- What is kept ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("update", ["row", "exact"])
def test_records__belong_to_the_draws(update):
    posterior = small(update=update, thin=2, exchange_every=3)
    model, y = posterior.model, posterior.data
    for c in range(2):
        for n in range(8):
            codes = posterior.codes.values[c, n].astype(int)
            log_prior = ch.log_joint(model, y, codes, beta=0.0)
            assert float(posterior.log_joint[c, n]) == pytest.approx(ch.log_joint(model, y, codes))
            assert float(posterior.log_likelihood[c, n]) == pytest.approx(ch.log_joint(model, y, codes) - log_prior)


@pytest.mark.parametrize(("update", "exchange"), [("row", "mosaic"), ("exact", "swap"), ("hamming-ball", None)])
@pytest.mark.parametrize("thin", [2, 3, 7])
def test_thin__keeps_every_nth(update, exchange, thin):
    options = {"update": update, "exchange": exchange, "exchange_every": 2}
    whole = small(draws=21, **options)
    thinned = small(draws=21 // thin, thin=thin, **options)
    for name in ("draws", "log_joint", "replica_log_likelihood"):
        np.testing.assert_array_equal(getattr(thinned, name), getattr(whole, name)[:, thin - 1 :: thin], err_msg=name)


def test_thin__of_exact_draws_is_as_many_as_asked():
    assert small(update="exact", exchange=None, ladder=[1], thin=5, draws=300).codes.shape == (2, 300, 6)


def test_warmup__is_what_comes_before():
    """Without an adapting ladder, the iterations of warm-up are those of draws: only the schedule starts anew."""
    whole, later = small(warmup=0, draws=8), small(warmup=4, draws=4)
    np.testing.assert_array_equal(whole.draws[:, 4:], later.draws)


def test_one_chain_without_warmup():
    posterior = small(warmup=0, chains=1, draws=1)
    assert posterior.codes.shape == (1, 1, 6)
    assert posterior.info["timings"]["draws"] >= 0


@pytest.mark.parametrize(
    ("n_rows", "dtype"), [(3, np.uint8), (8, np.uint8), (9, np.uint16), (17, np.uint32), (40, np.uint64)]
)
def test_codes__have_the_smallest_type(n_rows, dtype):
    weights = np.linspace(0.5, 1.0, n_rows)
    model = ch.FactorialHMM(
        rows=ch.Switches(0.2, 0.3),
        emission=ch.Gaussian(weights),
        fixed=dict.fromkeys(range(2, n_rows), 1),
    )
    posterior = ch.sample(
        model, [0.3, 5.0], update="row", exchange=None, draws=3, warmup=0, chains=1, seed=1, progress=False
    )
    assert posterior.codes.dtype == dtype
    fixed = (1 << n_rows) - 4
    assert ((posterior.codes.values & np.array(fixed, dtype)) == fixed).all()


@pytest.mark.parametrize("update", ["row", "exact"])
def test_fixed_rows__are_in_the_codes(update):
    assert (small(update=update).states(1) == 1).all()


# ---- What a run knows of itself --------------------------------------------------------------------------------------


def test_work_clock__stands_still_while_kernels_compile(caplog):
    """Kernels that call others, and a compilation that is going on."""
    caplog.set_level("INFO", "chiasma")
    with running.WorkClock() as clock:
        began = clock()
        clock.on_start(None)
        clock.on_start(None)
        time.sleep(0.05)
        clock.on_end(None)
        assert clock.compiling >= 0.05
        assert clock() - began < 0.05
        clock.on_end(None)
    before = clock.compiling
    time.sleep(0.01)
    assert clock.compiling == before
    assert [record.name for record in caplog.records] == ["chiasma"]


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_work_clock__hears_of_compilation():
    with running.WorkClock() as clock:
        numba.njit(lambda x: x + 1)(1)
    assert clock.compiling > 0
    numba.njit(lambda x: x + 2)(1)
    with running.WorkClock() as another:
        pass
    assert another.compiling == 0


def test_info__says_whether_chains_share_a_start():
    assert small(init=np.full(6, 2)).info["one_start"]
    assert not small().info["one_start"]


def test_blocks__that_leave_a_row_out_are_refused():
    """Rows 0 and 2 are free; together with another update they may be left out."""
    with pytest.raises(InvalidInput, match="blocks must update every free row, got none with row 2"):
        small(update=ch.BlockGibbs(blocks=[(0,)]))
    small(update=ch.Compose(updates=[ch.BlockGibbs(blocks=[(0,)]), ch.RowGibbs()]))


# ---- Initial states -------------------------------------------------------------------------------------------------


@pytest.fixture
def first_states(monkeypatch) -> list[np.ndarray]:
    """The states (R, T) of every chain before anything runs."""
    seen: list[np.ndarray] = []
    make = sampler.build

    def watched(*args: Any) -> list[Any]:
        engines = make(*args)
        seen.extend(engine.states.copy() for engine in engines)
        return engines

    monkeypatch.setattr(sampler, "build", watched)
    return seen


def test_init__states_and_codes_are_the_same_start(first_states):
    codes = np.array([2, 3, 7, 6, 2, 3])
    runs = [small(init=init) for init in (codes, codes.tolist(), unpack(codes, 3), unpack(codes, 3).astype(float))]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.draws, runs[0].draws)
    for states in first_states[:8]:  # rows 0 and 2 are free: they become bits 0 and 1
        np.testing.assert_array_equal(states, [[0, 1, 3, 2, 0, 1]] * 2)


def test_init__by_default_every_replica_starts_from_its_own_prior_draw(first_states):
    small(ladder=[1, 2, 4], chains=3)
    starts = np.concatenate(first_states)
    assert len(np.unique(starts, axis=0)) > 5


@pytest.mark.parametrize(
    ("init", "message"),
    [
        (np.zeros((2, 6), int), r"shape \(3, 6\) \(zeros and ones\) or \(6,\) \(codes\), got \(2, 6\)"),
        (np.full(5, 2), r"got \(5,\)"),
        (np.full((6, 3), 1), r"got \(6, 3\)"),
        (np.full((3, 6), 2), "must be zeros and ones, got 2"),
        (np.full((3, 6), 0.5), "must be zeros and ones, got 0.5"),
        (np.full((3, 6), NAN), "must be zeros and ones, got nan"),
        (np.full(6, 8), r"codes in 0..7, got 8"),
        (np.full(6, -1), r"codes in 0..7, got -1"),
        (np.array([2, 3, 0, 2, 2, 2]), "contradict fixed: row 1 is fixed at 1, got 0 at column 2"),
        (np.full(6, "on"), "must be numbers"),
    ],
)
def test_init__refused(init, message):
    with pytest.raises(InvalidInput, match=message):
        small(init=init)


def test_init__of_a_density(first_states):
    target = ch.BlockModes(blocks=2, size=4, alpha=0.5)
    options = {"ladder": [1, 3], "draws": 3, "warmup": 0, "chains": 2, "seed": 1, "progress": False}
    ch.sample(target, init=[1, 0, 0, 1], **options)
    for states in first_states:
        np.testing.assert_array_equal(states, [[1, 0, 0, 1]] * 2)
    with pytest.raises(InvalidInput, match=r"init must have shape \(4,\)"):
        ch.sample(target, init=[1, 0], **options)
    with pytest.raises(InvalidInput, match="values of the alphabet"):
        ch.sample(target, init=[1, 0, 0, 2], **options)


# ---- Errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["draws", "chains", "thin", "exchange_every", "workers"])
@pytest.mark.parametrize("count", [0, -3, 2.5, 2.0, NAN, "ten", True])
def test_counts__refused(name, count):
    with pytest.raises(
        InvalidInput, match=f"{name} must be a whole number (of at least 1|in 1..10,000), got {count!r}"
    ):
        small(**{name: count})


@pytest.mark.parametrize("name", ["warmup", "seed"])
@pytest.mark.parametrize("count", [-1, 2.5, "ten"])
def test_counts__zero_is_the_least(name, count):
    with pytest.raises(InvalidInput, match=f"{name} must be a whole number of at least 0.*, got {count!r}"):
        small(**{name: count})


def test_model_and_data__refused():
    model, y = problem(6)
    with pytest.raises(InvalidInput, match=r"a FactorialHMM needs data: sample\(model, y\)"):
        ch.sample(model)
    with pytest.raises(InvalidInput, match="a Density carries its data itself"):
        ch.sample(normal(), y)
    with pytest.raises(InvalidInput, match="a Density carries its update; give it there"):
        ch.sample(normal(), update="row")
    with pytest.raises(InvalidInput, match="model must be a FactorialHMM or a Density, got ndarray"):
        ch.sample(y, model)
    with pytest.raises(InvalidInput, match="MosaicCrossover needs the Markov structure"):
        ch.sample(normal(), exchange="mosaic")
    with pytest.raises(InvalidInput, match="update must be RandomWalk"):
        ch.sample(normal(update="walk"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"update": "gibbs"}, "update must be"),
        ({"exchange": "crossover"}, "exchange must be None"),
        ({"ladder": "hot"}, "ladder must be"),
        ({"ladder": [5, 1]}, "temperatures must increase"),
        ({"ladder": [1]}, "MosaicCrossover needs at least two replicas"),
        ({"update": ch.HammingBall(radius=9)}, r"radius must be in 1..2 \(free rows\), got 9"),
        ({"update": ch.BlockGibbs(size=3)}, r"size must be in 1..2 \(free rows\), got 3"),
        ({"exchange": ch.MosaicCrossover(rows=[1])}, r"distinct free rows, here of \[0, 2\], got \[1\]"),
    ],
)
def test_options__refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        small(**options)


def test_density__nan_names_the_state():
    """Fine where it starts, NaN beyond 1: the message shows where."""
    target = normal(log_density=lambda x: np.where(np.abs(x).max(axis=1) < 1, 0.0, NAN))
    with pytest.raises(InvalidInput, match=r"log_density must be a number or -inf, got nan at \[ *-?\d"):
        ch.sample(target, exchange=None, draws=500, warmup=0, chains=2, seed=1, progress=False)


# ---- Interrupts and failures ----------------------------------------------------------------------------------------


class Interrupting:
    """An update of a Density that interrupts the main thread once `chains` chains have made `calls` calls each."""

    def __init__(self, chains: int, calls: int):
        self.chains = chains
        self.calls = calls
        self.made: dict[int, int] = {}
        self.lock = threading.Lock()
        self.sent = False

    def __call__(self, x: np.ndarray, beta: float, rng: np.random.Generator) -> np.ndarray:
        with self.lock:
            self.made[id(rng)] = self.made.get(id(rng), 0) + 1
            if not self.sent and sum(n >= self.calls for n in self.made.values()) >= self.chains:
                self.sent = True
                _thread.interrupt_main()
        if self.sent:
            time.sleep(1e-3)  # far from the end when the main thread hears of it
        return x + rng.normal(size=x.shape)


def assert_threads_end(n_threads: int) -> None:
    """All threads but n_threads are gone, or soon will be: an interrupt may hit while the pool is starting one."""
    for _ in range(1000):
        if threading.active_count() == n_threads:
            return
        time.sleep(0.01)
    raise AssertionError(f"{threading.active_count() - n_threads} thread(s) left behind")


def interrupted(chains: int, ready: int, warmup: int = 0, **options: Any) -> ch.Posterior:
    """A run of very many draws, interrupted when `ready` of its chains have some."""
    target = normal(update=Interrupting(ready, calls=20))
    options = {"exchange": None, "draws": 100_000, "chains": chains, "seed": 5, "progress": False} | options
    return ch.sample(target, warmup=warmup, **options)


@pytest.mark.parametrize("workers", [1, 2])
def test_interrupt__returns_what_all_chains_have(workers, monkeypatch):
    """With one worker for three chains too: they take turns."""
    monkeypatch.setattr(running, "TURN", 0.002)
    n_threads = threading.active_count()
    posterior = interrupted(chains=3, ready=3, workers=workers)
    assert_threads_end(n_threads)
    n = posterior.draws.sizes["draw"]
    assert 1 <= n < 100_000
    assert posterior.draws.shape == (3, n, 2)
    assert posterior.log_joint.shape == (3, n)
    assert posterior.replica_log_likelihood.shape == (3, n, 1)
    walk = lambda x, beta, rng: x + rng.normal(size=x.shape)  # noqa: E731
    whole = ch.sample(
        normal(update=walk), exchange=None, draws=n, warmup=0, chains=3, seed=5, workers=workers, progress=False
    )
    np.testing.assert_array_equal(posterior.draws, whole.draws)
    np.testing.assert_array_equal(posterior.log_joint, whole.log_joint)


def test_interrupt__waits_until_the_pool_holds_no_lock(monkeypatch):
    """An interrupt inside the pool would leave a lock of its own taken, which its threads then wait for."""
    turns = Counter()
    sent = []

    class Pool(running.ThreadPoolExecutor):
        def submit(self, task: Any, engine: Any, chain: int) -> Any:
            turns[chain] += 1
            if not sent and len(turns) == 3 and min(turns.values()) == 2:  # all of them have draws
                sent.append("interrupt")
                _thread.interrupt_main()
                time.sleep(0)  # where the handler runs
                sent.append("goes on")
            return super().submit(task, engine, chain)

    monkeypatch.setattr(running, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(running, "TURN", 0.002)
    walk = lambda x, beta, rng: x + rng.normal(size=x.shape)  # noqa: E731
    posterior = ch.sample(
        normal(update=walk), exchange=None, draws=10**6, warmup=0, chains=3, workers=3, seed=5, progress=False
    )
    assert sent == ["interrupt", "goes on"]
    assert 1 <= posterior.draws.sizes["draw"] < 10**6


def test_waiting_interrupts__take_effect_when_asked_for_or_at_the_end():
    seen = []

    def interrupted_within(then):
        with WaitingInterrupts() as interrupts:
            signal.raise_signal(signal.SIGINT)
            seen.append("noted")
            then(interrupts)
            seen.append("the end")

    with pytest.raises(KeyboardInterrupt):
        interrupted_within(lambda interrupts: interrupts.raise_noted())
    with pytest.raises(KeyboardInterrupt):
        interrupted_within(lambda _: None)
    with pytest.raises(ZeroDivisionError):
        interrupted_within(lambda _: 1 / 0)
    assert seen == ["noted", "noted", "the end", "noted"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("chains", "ready", "warmup"),
    [(1, 1, 100_000), (3, 1, 0)],
    ids=["during warm-up", "before all chains have a draw"],
)
def test_interrupt__without_draws_is_an_interrupt(chains, ready, warmup, monkeypatch):
    monkeypatch.setattr(running, "TURN", 1000.0)
    n_threads = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        interrupted(chains=chains, ready=ready, warmup=warmup, workers=1)
    assert_threads_end(n_threads)


def test_interrupt__of_an_ensemble(monkeypatch):
    """Ctrl-C while the main thread shows progress, after a few pieces of draws of every chain."""
    monkeypatch.setattr(running, "TURN", 0.0)
    monkeypatch.setattr(engines, "BUFFER", 1)
    advanced: dict[int, int] = {}

    def advance(self: Progress, chain: int, n: int, engine: Any, chunk: Any) -> None:
        if chunk is not None:
            advanced[chain] = advanced.get(chain, 0) + 1

    def refresh(self: Progress) -> None:
        if len(advanced) == 2 and min(advanced.values()) >= 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "advance", advance)
    monkeypatch.setattr(Progress, "refresh", refresh)
    posterior = small(draws=100_000, exchange="swap", ladder=[1, 4, np.inf])
    n = posterior.draws.sizes["draw"]
    assert 5 <= n < 100_000
    monkeypatch.undo()
    whole = small(draws=n, exchange="swap", ladder=[1, 4, np.inf])
    np.testing.assert_array_equal(posterior.draws, whole.draws)
    np.testing.assert_array_equal(posterior.replica_log_likelihood, whole.replica_log_likelihood)
    assert posterior.log_evidence == whole.log_evidence


@pytest.mark.parametrize("workers", [1, 2])
def test_failure__in_a_chain_comes_through(workers):
    """An emission that fails late, on the streamed path, in the thread of some chain."""
    calls = []

    def emission(y: np.ndarray, level: np.ndarray) -> np.ndarray:
        calls.append(None)
        if len(calls) > 60:
            raise RuntimeError("the detector went off")
        return -0.5 * (y - level) ** 2

    model = ch.FactorialHMM(rows=ch.Switches(0.2, 0.3), emission=ch.Custom(emission, np.linspace(0.1, 1.0, 28)))
    n_threads = threading.active_count()
    with pytest.raises(RuntimeError, match="the detector went off"):
        ch.sample(
            model, [3.0, 4.0, 5.0], update="row", exchange="swap", ladder=[1, 3], draws=1000, warmup=0, chains=3,
            seed=1, workers=workers, progress=False,
        )  # fmt: skip
    assert_threads_end(n_threads)
    assert len(calls) < 200

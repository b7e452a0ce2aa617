"""Runs on disk: killed at any instant, resumed bit for bit, extended, refused, damaged.

Three kinds of runs stand for the engines: compiled replicas, exact draws, and a density asked step by step. Chunks and
pieces are made so small that every run flushes often and leaves partly filled chunks. Killed processes are forks of a
driver, this file run as a script, which has imported everything already and has no threads yet.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import xarray as xr
import zarr

import chiasma as ch
from chiasma import atomic
from chiasma.errors import StoreError
from chiasma.sampling import engines, running, sampler, vector_engine
from chiasma.storage import reading, store

JIT = not numba.config.DISABLE_JIT
# As plain Python few columns already say everything.
T = 40 if JIT else 12
WARMUP = 40 if JIT else 12
DRAWS = 21
NAN = float("nan")
PARTIAL = re.compile(r"\.[0-9a-f]{32}\.partial$")


# ---- Runs -----------------------------------------------------------------------------------------------------------


def paths(**changes: Any) -> tuple[ch.FactorialHMM, ch.Observations]:
    """Four rows, one of them fixed; two sequences, gaps, a missing column."""
    options = {"enter": [0.1, 0.2, 0.3, 0.1], "leave": 0.2, "sd": 0.6, "fixed": {1: 1}, "y": 5, "starts": [T // 2]}
    options |= changes
    model = ch.FactorialHMM(
        rows=ch.Switches(enter=options["enter"], leave=options["leave"]),
        emission=ch.Gaussian([1.0, 0.6, 0.4, 0.9], sd=options["sd"]),
        fixed=options["fixed"],
    )
    y = np.random.default_rng(options["y"]).normal(1.2, 0.7, T)
    y[3] = NAN
    return model, ch.Observations(y, starts=options["starts"], gaps=np.resize([1.0, 2.5, 0.7], T - 1))


def walk(x: np.ndarray, beta: float, rng: np.random.Generator) -> np.ndarray:
    """A Metropolis step of one's own."""
    proposed = x + rng.normal(size=x.shape)
    ratio = 0.5 * (x**2 - proposed**2).sum() + beta * (((x - 3) ** 2).sum() - ((proposed - 3) ** 2).sum())
    return proposed if np.log(rng.random()) < ratio else x


def normal(shift: float = 3.0, prior: float = 0.5, **changes: Any) -> tuple[ch.Density]:
    options: dict[str, Any] = {"size": 4, "init": lambda rng: rng.normal(size=4), "update": walk} | changes
    density = ch.Density(
        lambda x: -((x - shift) ** 2).sum(axis=1), log_prior=lambda x: -prior * (x**2).sum(axis=1), **options
    )
    return (density,)


KINDS: dict[str, tuple[Callable[..., tuple[Any, ...]], dict[str, Any]]] = {
    "compiled": (paths, {"update": "row", "exchange": "mosaic", "ladder": ch.Ladder.adapted(size=4), "thin": 2}),
    "exact": (paths, {"update": "exact"}),
    "steps": (normal, {"exchange": "augmented", "ladder": [1, 2, 4], "exchange_every": 2, "thin": 3}),
}
each_kind = pytest.mark.parametrize("kind", KINDS)
# With one worker chain 0 is done before chain 1 begins, and a stopped run has chains unequally far.
COMMON = {"warmup": WARMUP, "draws": DRAWS, "chains": 2, "workers": 1, "seed": 7, "progress": False}


def run(kind: str, path: Path | None = None, resume: bool = False, **options: Any) -> ch.Posterior:
    make, settings = KINDS[kind]
    return ch.sample(*make(), **(COMMON | settings | {"store": path, "resume": resume} | options))


_WHOLE: dict[tuple[str, int], ch.Posterior] = {}


def whole(kind: str, draws: int = DRAWS) -> ch.Posterior:
    """The uninterrupted run, in memory."""
    if (kind, draws) not in _WHOLE:
        _WHOLE[kind, draws] = run(kind, draws=draws)
    return _WHOLE[kind, draws]


def small_pieces(set_value: Callable[[object, str, Any], None]) -> None:
    """About 5 draws at a time, 8 or 10 to a chunk, a flush after each piece, and turns without an end."""
    set_value(store, "CHUNK_BYTES", 8 * (T + 40))
    set_value(store, "FLUSH_SECONDS", -1.0)
    set_value(engines, "BUFFER", 125 * T)
    set_value(engines, "BATCH", 5)
    set_value(engines, "AGAIN_COLUMNS", 5 * T)
    set_value(vector_engine, "LONGEST", 1)
    set_value(running, "TURN", 1e9)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    small_pieces(monkeypatch.setattr)


def assert_same(found: ch.Posterior, expected: ch.Posterior) -> None:
    """Bitwise equal draws and statistics."""
    assert found.draws.dtype == expected.draws.dtype
    assert found.draws.name == expected.draws.name
    assert_prefix(found, expected)
    assert found.draws.shape == expected.draws.shape
    xr.testing.assert_identical(found.exchange_stats, expected.exchange_stats)
    assert repr(found.log_evidence) == repr(expected.log_evidence)  # its error may be NaN
    for name in ("round_trips", "exchange_steps", "seed", "plan", "update", "exchange", "settings", "n_rows"):
        assert found.info[name] == expected.info[name]


def assert_prefix(found: ch.Posterior, expected: ch.Posterior) -> None:
    np.testing.assert_array_equal(found.betas, expected.betas)
    for name in ("draws", "log_joint", "log_likelihood", "replica_log_likelihood"):
        values = getattr(found, name).values
        np.testing.assert_array_equal(values, getattr(expected, name).values[:, : values.shape[1]], err_msg=name)


def counted(posterior: ch.Posterior) -> np.ndarray:
    codes = posterior.codes.values
    return np.array([(codes >> k & 1).sum(axis=(0, 1)) for k in range(posterior.n_rows or 0)])


def files(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


class Stopped(Exception):
    """In place of a kill, where there is no need for another process."""


def stopped(kind: str, path: Path, n_appends: int, **options: Any) -> list[int]:
    """A run that stopped early; returns the draws that its chains have on disk."""
    original, seen = store.ZarrTrace.append, []

    def append(self: store.ZarrTrace, index: int, chunk: Any, own: Any) -> None:
        seen.append(index)
        if len(seen) > n_appends:
            raise Stopped
        original(self, index, chunk, own)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.ZarrTrace, "append", append)
        with pytest.raises(Stopped):
            run(kind, path, **options)
    return reading.read_header(path)["committed"]


# ---- Killed processes -----------------------------------------------------------------------------------------------


class Events:
    """Counts the steps of writing files, and kills the process at one of them: between any two, and inside a write."""

    def __init__(self, fatal: int | None):
        self.fatal = fatal
        self.n = 0
        self.lock = threading.Lock()

    def __call__(self) -> None:
        with self.lock:
            if self.n == self.fatal:
                os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)
            self.n += 1

    def install(self) -> None:
        def write_bytes(path: Path, content: Any) -> None:
            content = bytes(content)
            with path.open("wb", buffering=0) as file:
                file.write(content[: len(content) // 2])
                self()
                file.write(content[len(content) // 2 :])

        Path.write_bytes = write_bytes  # type: ignore[method-assign,assignment]
        for name in ("replace", "rename", "unlink"):
            setattr(Path, name, self._around(getattr(Path, name)))
        os.fsync = self._around(os.fsync)

    def _around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(path: Path, *args: Any, **options: Any) -> Any:
            self()
            out = original(path, *args, **options)
            self()
            return out

        return step


def _child(kind: str, path: Path, fatal: int | None) -> None:
    """Run until killed; every commit and the events so far are noted in a file beside the store."""
    log = os.open(f"{path}.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    events = Events(fatal)
    commit = store.ZarrTrace._commit

    def noted(self: store.ZarrTrace) -> None:
        commit(self)
        os.write(log, f"{json.dumps([self.header['committed'], events.n])}\n".encode())

    store.ZarrTrace._commit = noted  # type: ignore[method-assign]
    events.install()
    run(kind, path)
    os._exit(0)


def _fork(kind: str, path: Path, fatal: int | None = None) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            _child(kind, path, fatal)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, f"{path}: the run failed by itself"


def commits(path: Path) -> list[tuple[list[int], int]]:
    """Draws of every commit of a killed run, and the number of events before it was over."""
    return [tuple(json.loads(line)) for line in Path(f"{path}.log").read_text().splitlines()]


def _driver(kind: str, folder: Path, step: int, flush: int | None) -> None:
    """Kill runs at every event of one flush and at every `step`-th of all."""
    small_pieces(setattr)
    os.fsync = lambda handle: None  # kills need no disk
    run(kind)  # loads compiled code
    _fork(kind, folder / "uninterrupted")
    ends = [n for _, n in commits(folder / "uninterrupted")]
    whole_flush = () if flush is None else range(*ends[flush : flush + 2])
    for n in sorted({*range(0, ends[-1], step), *whole_flush}):
        _fork(kind, folder / f"event-{n}", fatal=n)


def killed(kind: str, folder: Path, step: int, flush: int | None = None) -> list[Path]:
    """Where the stores of killed runs are; some were killed before there was one."""
    done = subprocess.run(
        [sys.executable, __file__, json.dumps([kind, str(folder), step, flush])],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return [log.with_suffix("") for log in sorted(folder.glob("*.log"))]


def assert_not_behind(committed: tuple[int, ...], path: Path) -> None:
    """A store has at least the draws of the last commit of the process that wrote it."""
    last = max((tuple(draws) for draws, _ in commits(path)), default=(0, 0))
    assert all(n >= m for n, m in zip(committed, last, strict=True))


def assert_survived(path: Path, kind: str) -> tuple[int, ...]:
    """Whatever was committed is there, for every reader, and the run goes on as if nothing had happened."""
    expected = whole(kind)
    committed: tuple[int, ...] = (0, 0)
    if path.exists():
        committed = tuple(reading.read_header(path)["committed"])
        assert_plain_readers_agree(path, expected, min(committed))
        if min(committed):
            assert_prefix(ch.open_posterior(path), expected)
        else:
            with pytest.raises(StoreError, match=r"holds no draws yet: .* resume it"):
                ch.open_posterior(path)
    assert_not_behind(committed, path)
    resumed = run(kind, path, resume=True)
    assert_same(resumed, expected)
    assert_plain_readers_agree(path, expected, expected.draws.sizes["draw"])
    if resumed.n_rows:
        np.testing.assert_array_equal(resumed.row_counts, counted(expected))
    return committed


def assert_plain_readers_agree(path: Path, expected: ch.Posterior, n_draws: int) -> None:
    name = expected.draws.name
    with xr.open_zarr(path) as seen:
        assert seen.sizes["draw"] == n_draws
        np.testing.assert_array_equal(seen[name], expected.draws[:, :n_draws])
        np.testing.assert_array_equal(seen["replica_log_likelihood"], expected.replica_log_likelihood[:, :n_draws])
    group = zarr.open_group(path, mode="r")
    for part in (name, "replica_log_likelihood", "log_prior"):
        assert group[part].shape[1] == n_draws
        # A kill may come before an array's own metadata says what the group's does; then it says less.
        own = zarr.open_array(path / part, mode="r")
        assert own.shape[1] <= n_draws
        np.testing.assert_array_equal(own[:], group[part][:, : own.shape[1]])
    np.testing.assert_array_equal(group[name][:], expected.draws[:, :n_draws])


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "step", "flush"), [("compiled", 140, 2), ("exact", 60, None)])
def test_kill__between_any_two_steps_of_writing(kind, step, flush, tmp_path):
    """Inside creation, at every step of a flush that replaces a partly filled chunk, and all along the run."""
    stores = killed(kind, tmp_path, step, flush)
    assert len(stores) > (30 if flush else 8)
    known: dict[frozenset[Any], tuple[int, ...]] = {}
    for path in stores:
        # Neighbouring steps often leave the same, but for the random part of temporary names: one of them goes on.
        folders = {str(one.relative_to(path)): None for one in [path, *path.rglob("*")] if one.is_dir()}
        left = frozenset((PARTIAL.sub(".partial", name), content) for name, content in (folders | files(path)).items())
        if left in known:
            assert_not_behind(known[left], path)
        else:
            known[left] = assert_survived(path, kind)
    reached = set(known.values())
    assert {(0, 0), (DRAWS, DRAWS)} <= reached
    assert any(n and not m for n, m in reached)


# ---- Stopped, resumed, extended -------------------------------------------------------------------------------------


@each_kind
def test_store__holds_what_memory_would(kind, tmp_path):
    assert_same(run(kind, tmp_path / "run"), whole(kind))


@each_kind
def test_save__writes_the_store_of_the_run(kind, tmp_path):
    """It opens, can be copied, and continues like a run that never stopped."""
    saved, copied = tmp_path / "saved", tmp_path / "copied"
    whole(kind).save(saved)
    ch.open_posterior(saved).save(copied)
    assert_same(ch.open_posterior(copied), whole(kind))
    assert files(copied) == files(saved)
    assert_same(run(kind, saved, resume=True, draws=DRAWS + 9), whole(kind, DRAWS + 9))
    with pytest.raises(StoreError, match="exists already"):
        whole(kind).save(copied)


@pytest.mark.parametrize(
    ("kind", "n_appends", "expected"),
    [
        ("compiled", 0, [0, 0]),
        ("compiled", 2, [10, 0]),
        ("compiled", 7, [21, 10]),
        ("exact", 3, [15, 0]),
        ("exact", 6, [21, 5]),
        ("steps", 31, [10, 0]),
        ("steps", 70, [21, 2]),
    ],
)
def test_resume__chains_unequally_far(kind, n_appends, expected, tmp_path):
    """A chain without a checkpoint begins with its warm-up, the others where they were."""
    committed = stopped(kind, tmp_path / "run", n_appends)
    if kind == "compiled":  # pieces depend on the adapted ladder
        assert [n > 0 for n in committed] == [n > 0 for n in expected]
    else:
        assert committed == expected
    assert_same(run(kind, tmp_path / "run", resume=True), whole(kind))


@each_kind
def test_resume__extends_a_run_again_and_again(kind, tmp_path):
    """Ends fall inside chunks and at their borders; more workers, and another stop in between, change nothing."""
    path = tmp_path / "run"
    assert_same(run(kind, path, draws=3), whole(kind, 3))
    assert_same(run(kind, path, resume=True, draws=8), whole(kind, 8))
    assert_same(run(kind, path, resume=True, draws=13, workers=2), whole(kind, 13))
    stopped(kind, path, 4, resume=True, draws=40)
    assert not ch.open_posterior(path).info["complete"]
    extended = run(kind, path, resume=True, draws=40)
    assert_same(extended, whole(kind, 40))
    assert extended.info["complete"]


@each_kind
def test_resume__of_a_finished_run_draws_nothing(kind, tmp_path, monkeypatch):
    assert_same(run(kind, tmp_path / "run"), whole(kind))
    before = files(tmp_path / "run")
    for each in (engines.CompiledEngine, engines.StepEngine, engines.ExactEngine):
        monkeypatch.setattr(each, "advance", None)
    assert_same(run(kind, tmp_path / "run", resume=True), whole(kind))
    after = files(tmp_path / "run")
    # The group's file holds the time that was spent.
    assert {name for name in before if before[name] != after[name]} <= {"zarr.json"}
    assert before.keys() == after.keys()


def test_resume__without_a_store_begins_one(tmp_path):
    assert_same(run("exact", tmp_path / "deep" / "run", resume=True), whole("exact"))


def test_resume__takes_the_stored_seed(tmp_path):
    first = run("exact", tmp_path / "run", seed=None, draws=5)
    more = run("exact", tmp_path / "run", seed=None, resume=True)
    assert more.info["seed"] == first.info["seed"]
    assert_same(more, run("exact", seed=first.info["seed"]))


def test_store__takes_settings_that_are_numpy_integers(tmp_path):
    counts = {name: np.int64(COMMON[name]) for name in ("draws", "chains", "seed")}
    assert_same(run("exact", tmp_path / "run", warmup=np.int32(WARMUP), **counts), whole("exact"))
    assert_same(run("exact", tmp_path / "run", resume=True), whole("exact"))


def test_store__exact_draws_over_several_segments(tmp_path):
    """Messages that are filtered again for every pass: how draws are batched does not show."""
    update = ch.Exact(memory=8 * 8 * (3 * T // 2))
    expected = run("exact", update=update)
    stopped("exact", tmp_path / "run", 2, update=update)
    assert_same(run("exact", tmp_path / "run", resume=True, update=update), expected)
    run("exact", tmp_path / "other", update=update, draws=7)
    assert_same(run("exact", tmp_path / "other", resume=True, update=update), expected)


def test_store__many_exact_draws_of_a_long_signal_take_no_more_memory_than_few(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "BATCH", 256)
    monkeypatch.setattr(engines, "BATCH_COLUMNS", 2**15)
    model, _ = paths()
    y = np.random.default_rng(6).normal(1.2, 0.7, 100 * T)
    peaks: dict[int, list[int]] = {1: [], 10: [], 100: []}
    # The first one imports and compiles. Two of each: what other threads of the process allocate is traced, too.
    for n, draws in enumerate((1, 10, 10, 100, 100)):
        tracemalloc.start()
        ch.sample(model, y, update="exact", draws=draws, chains=1, seed=1, store=tmp_path / str(n), progress=False)
        peaks[draws].append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert min(peaks[100]) < min(peaks[10]) + 45 * y.nbytes  # all draws together have 100 times as many bytes


def test_flush__waits_for_a_full_chunk_or_a_while(tmp_path, monkeypatch):
    path = tmp_path / "run"
    monkeypatch.setattr(store, "FLUSH_SECONDS", 1e9)
    assert stopped("exact", path, 1) == [0, 0]
    assert stopped("exact", path, 3, resume=True) == [0, 0]
    assert (path / "codes" / "c.0.0.0").exists()  # full and written, and not committed: nobody looks at it
    monkeypatch.setattr(store, "COMMIT_SECONDS", -1.0)
    assert stopped("exact", path, 3, resume=True)[0] == 10
    monkeypatch.setattr(store, "FLUSH_SECONDS", -1.0)
    assert stopped("exact", path, 1, resume=True)[0] == 15
    assert_same(run("exact", path, resume=True), whole("exact"))


def test_fill__pieces_longer_than_a_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "CHUNK_BYTES", 2 * (T + 40))
    assert_same(run("compiled", tmp_path / "run"), whole("compiled"))
    assert len(list((tmp_path / "run" / "codes").glob("c.1.*"))) > DRAWS // 3


def test_draws_per_chunk():
    assert store.draws_per_chunk(10**9, 1, "uint8", piece=1) == 1
    assert store.draws_per_chunk(T, 4, "uint8", piece=100) == 8
    assert store.draws_per_chunk(T, 4, "uint8", piece=3) == 6


def test_store__holds_draws_that_are_all_zero(tmp_path):
    """Zeros are what Zarr takes a missing chunk for; here they are written, and a missing one is missed."""
    model = ch.FactorialHMM(rows=ch.Switches(0.0, 1.0), emission=ch.Gaussian([5.0], sd=0.1))
    options = {"update": "exact", "draws": 20, "chains": 1, "seed": 1, "progress": False}
    posterior = ch.sample(model, np.zeros(T), store=tmp_path / "run", **options)
    assert not posterior.codes.any()
    (tmp_path / "run" / "codes" / "c.0.0.0").unlink()
    with pytest.raises(StoreError, match=r"c\.0\.0\.0 is missing: draws 0 and later of chain 0 are damaged"):
        ch.open_posterior(tmp_path / "run")


# ---- Refusals -------------------------------------------------------------------------------------------------------

CHANGES: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "model": ("exact", {"sd": 0.7}, {}, "model.parameters.sd is 0.6 in the store, got 0.7"),
    "prior": ("exact", {"leave": 0.3}, {}, "model.leave is 0.2 in the store, got 0.3"),
    "fixed rows": ("exact", {"fixed": {1: 0}}, {}, "model.fixed.1 is 1 in the store, got 0"),
    "data": ("exact", {"y": 6}, {}, r"data.y is \w{16} in the store, got \w{16}"),
    "starts": ("exact", {"starts": None}, {}, r"data.starts is \w{16} in the store, got \w{16}"),
    "seed": ("exact", {}, {"seed": 8}, "run.seed is 7 in the store, got 8"),
    "chains": ("exact", {}, {"chains": 3}, "run.chains is 2 in the store, got 3"),
    "thin": ("compiled", {}, {"thin": 3}, "run.thin is 2 in the store, got 3"),
    "warm-up": ("compiled", {}, {"warmup": 9}, f"run.warmup is {WARMUP} in the store, got 9"),
    "exchange every": ("steps", {}, {"exchange_every": 1}, "run.exchange_every is 2 in the store, got 1"),
    "update": ("compiled", {}, {"update": "block"}, r"run.update is RowGibbs\(\) in the store, got BlockGibbs"),
    "exchange": ("compiled", {}, {"exchange": "swap"}, "run.exchange is MosaicCrossover.* got Swap"),
    "ladder": ("compiled", {}, {"ladder": [1, 5]}, r"run.ladder.adapt is True .* run.ladder.betas is .* \[0.2, 1.0\]"),
    "init": ("compiled", {}, {"init": np.full(T, 2)}, r"run.init.states is None in the store, got \w{16}"),
    "size": ("steps", {"size": 3, "init": np.zeros(3)}, {}, "model.size is 4 in the store, got 3"),
    "dtype": ("steps", {"init": np.zeros(4, "f4")}, {}, "model.dtype is float64 in the store, got float32"),
    "update of a density": ("steps", {"update": ch.RandomWalk(scale=2.0)}, {}, r"got RandomWalk\(scale=2.0"),
    # Functions have no form to compare; what they say of the last states has.
    "density": (
        "steps",
        {"shift": 2.0},
        {},
        "of chain 0 the model gives a log-likelihood of .* a function of the model",
    ),
    "log prior": ("steps", {"prior": 0.4}, {}, "the model gives a log prior of .*, in the store it is .* has changed"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_resume__refuses_another_run(change, tmp_path):
    kind, altered, options, message = CHANGES[change]
    make, settings = KINDS[kind]
    run(kind, tmp_path / "run", draws=6)
    before = files(tmp_path / "run")
    with pytest.raises(StoreError, match=message) as error:
        ch.sample(*make(**altered), **(COMMON | settings | options), store=tmp_path / "run", resume=True)
    assert "cannot be resumed" in str(error.value)
    assert "or give another store" in str(error.value)
    assert files(tmp_path / "run") == before


def test_resume__refuses_fewer_draws(tmp_path):
    run("exact", tmp_path / "run")
    before = files(tmp_path / "run")
    with pytest.raises(StoreError, match="holds 21 draws per chain already, got draws=20; ask for at least as many"):
        run("exact", tmp_path / "run", resume=True, draws=20)
    assert files(tmp_path / "run") == before


def test_store__refuses_a_path_that_is_taken(tmp_path):
    run("exact", tmp_path / "run")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    before = files(tmp_path)
    for name in ("run", "file", "folder"):
        with pytest.raises(StoreError, match=f"{name} exists already; give another path, or resume=True"):
            run("exact", tmp_path / name)
    assert files(tmp_path) == before


@pytest.mark.parametrize("below", ["run", "deep/run"])
def test_store__refuses_a_path_below_a_file(below, tmp_path):
    (tmp_path / "file").write_text("mine")
    for resume in (False, True):
        with pytest.raises(StoreError, match=r"cannot create .*run: .*ot a directory; choose another path"):
            run("exact", tmp_path / "file" / below, resume=resume)
    assert files(tmp_path) == {"file": b"mine"}


def test_store__refuses_a_folder_without_permission(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(StoreError, match=r"cannot create .*run: Permission denied; choose another path"):
        run("exact", tmp_path / "run")
    assert files(tmp_path) == {}


@pytest.mark.parametrize("content", [None, b"{", b"\xff\xfe", b"[]", b"{}", b'{"attributes": {"chiasma": 5}}', b"null"])
def test_open__refuses_what_is_no_run(content, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thing").write_text("mine")
    if content is not None:
        (tmp_path / "run" / "zarr.json").write_bytes(content)
    before = files(tmp_path)
    why = "it has no zarr.json" if content is None else "its zarr.json has no chiasma entry"
    for look in (lambda: ch.open_posterior(tmp_path / "run"), lambda: run("exact", tmp_path / "run", resume=True)):
        with pytest.raises(StoreError, match=f"run is not a chiasma run: {why}; check the path"):
            look()
    assert files(tmp_path) == before


def test_open__refuses_another_format(tmp_path):
    run("exact", tmp_path / "run")
    file = tmp_path / "run" / "zarr.json"
    group = json.loads(file.read_text())
    group["attributes"]["chiasma"]["format"] = 99
    file.write_text(json.dumps(group))
    before = files(tmp_path)
    for look in (lambda: ch.open_posterior(tmp_path / "run"), lambda: run("exact", tmp_path / "run", resume=True)):
        with pytest.raises(StoreError, match="was written in format 99, this version reads format 1; open it with"):
            look()
    assert files(tmp_path) == before


# ---- Damage ---------------------------------------------------------------------------------------------------------


def spoil(file: Path, how: str) -> None:
    content = file.read_bytes()
    if how == "missing":
        file.unlink()
    elif how == "empty":
        file.write_bytes(b"")
    elif how == "truncated":
        file.write_bytes(content[:-3])
    else:
        file.write_bytes(content[:-6] + bytes([content[-6] ^ 1]) + content[-5:])


@pytest.mark.parametrize("how", ["missing", "empty", "truncated"])
@pytest.mark.parametrize("name", ["codes/c.1.1.0", "replica_log_likelihood/c.1.1.0", "log_prior/c.1.1"])
def test_open__names_a_damaged_chunk(name, how, tmp_path):
    run("exact", tmp_path / "run")
    spoil(tmp_path / "run" / name, how)
    before = files(tmp_path)
    what = "is missing" if how == "missing" else "has .* bytes and was written with"
    message = f"{name} {what}.*: draws 10 and later of chain 1 are damaged; restore the file.*draws=10"
    for look in (
        lambda: ch.open_posterior(tmp_path / "run"),
        lambda: run("exact", tmp_path / "run", resume=True, draws=30),
    ):
        with pytest.raises(StoreError, match=message):
            look()
    assert files(tmp_path) == before
    assert_prefix(ch.open_posterior(tmp_path / "run", draws=10), whole("exact"))


@pytest.mark.parametrize("how", ["missing", "empty", "truncated", "flipped"])
def test_open__names_a_damaged_chunk_that_is_partly_filled(how, tmp_path):
    """Its size is not known: a kill may have left a fuller one."""
    run("exact", tmp_path / "run")
    spoil(tmp_path / "run" / "codes" / "c.0.2.0", how)
    what = "is missing" if how == "missing" else "cannot be decompressed"
    with pytest.raises(StoreError, match=rf"codes/c\.0\.2\.0 {what}.*: draws 20 and later of chain 0 are damaged"):
        ch.open_posterior(tmp_path / "run")


@pytest.mark.parametrize("how", ["missing", "empty", "truncated"])
def test_open__names_a_damaged_checkpoint(how, tmp_path):
    run("exact", tmp_path / "run")
    spoil(tmp_path / "run" / "checkpoints" / "chain-1-21.npz", how)
    before = files(tmp_path)
    for look in (lambda: ch.open_posterior(tmp_path / "run"), lambda: run("exact", tmp_path / "run", resume=True)):
        with pytest.raises(StoreError, match=r"chain-1-21.npz cannot be read \(.+\).*restore.*The draws may be intact"):
            look()
    assert files(tmp_path) == before
    with xr.open_zarr(tmp_path / "run") as seen:
        np.testing.assert_array_equal(seen["codes"], whole("exact").codes)


def test_open__while_the_run_goes_on(tmp_path, monkeypatch):
    """The checkpoint is replaced between the look at the header and the look at it."""
    run("exact", tmp_path / "run", draws=5)
    original, calls = reading.read_checkpoint, []

    def read_checkpoint(path: Path, header: dict[str, Any], chain: int) -> dict[str, Any]:
        calls.append(chain)
        if len(calls) == 1:
            run("exact", path, resume=True)
        return original(path, header, chain)

    monkeypatch.setattr(reading, "read_checkpoint", read_checkpoint)
    assert_same(ch.open_posterior(tmp_path / "run"), whole("exact"))


# ---- Full disks -----------------------------------------------------------------------------------------------------


class FullDisk:
    """A disk on which the n-th write fails half-way, or the n-th sync, and all later ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int):
        self.room = room
        monkeypatch.setattr(Path, "write_bytes", self._write_bytes())
        monkeypatch.setattr(os, "fsync", self._fsync)

    def _fsync(self, handle: int) -> None:
        self.room -= 1
        if self.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _write_bytes(self) -> Callable[[Path, Any], int]:
        def write_bytes(path: Path, content: Any) -> int:
            content = bytes(content)
            self.room -= 1
            if self.room < 0:
                with path.open("wb") as file:
                    file.write(content[: len(content) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            with path.open("wb") as file:
                return file.write(content)

        return write_bytes


FULL = "cannot {} .*run: No space left on device; {}"
AGAIN = "free some space there, then continue with resume=True: draws up to the last flush are safe"


@pytest.mark.parametrize("room", [0, 1, 5, 10, 15, 20])
def test_full_disk__when_a_store_is_created(room, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        FullDisk(patch, room)
        with pytest.raises(StoreError, match=FULL.format("create", "choose another path")):
            run("exact", tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
    assert_same(run("exact", tmp_path / "run", resume=True), whole("exact"))


@pytest.mark.parametrize("room", [*range(0, 16, 3), 16, 17, 18, 20, 23, 30, 40, 50])
def test_full_disk__when_draws_are_written(room, tmp_path):
    """A flush writes and syncs 5 files and their folders: nothing that was committed changes."""
    path = tmp_path / "run"
    run("exact", path, draws=8)
    before, expected = files(path), ch.open_posterior(path)
    with pytest.MonkeyPatch.context() as patch:
        FullDisk(patch, room)
        with pytest.raises(StoreError, match=FULL.format("write to", AGAIN)):
            run("exact", path, resume=True)
    assert not list(path.rglob("*.partial"))
    assert min(reading.read_header(path)["committed"]) == 8
    assert_prefix(ch.open_posterior(path), expected)
    if room < 6:
        assert files(path) == before
    elif room < 16:
        # The first chunks are fuller now; all else is as it was.
        found = files(path)
        assert {name for name, content in before.items() if found[name] != content} <= {
            "codes/c.0.0.0",
            "replica_log_likelihood/c.0.0.0",
            "log_prior/c.0.0",
        }
    assert_same(run("exact", path, resume=True), whole("exact"))


def test_full_disk__after_the_metadata_were_replaced(tmp_path, monkeypatch):
    """The first sync of a folder after a commit fails: no other chain takes the new metadata for a stranger's."""
    run("exact", tmp_path / "run")
    trace = store.ZarrTrace.reopen(reading.read_run(tmp_path / "run"), DRAWS)
    replaced = []

    def sync_directory(folder):
        replaced.append(folder)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic, "sync_directory", sync_directory)
    with pytest.raises(OSError, match="No space left"):
        trace._commit()
    assert replaced == [tmp_path / "run"]
    trace._check_alone()


@pytest.mark.slow
def test_full_disk__by_a_limit_of_the_system(tmp_path):
    """A real failure of the system's own: files may not grow beyond a size that checkpoints reach."""
    script = (
        f"import sys, resource, signal; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from pathlib import Path; import test_store\n"
        "test_store.small_pieces(setattr)\n"
        f"path = Path({str(tmp_path / 'run')!r})\n"
        "test_store.run('exact', path, draws=8)\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        "try:\n    test_store.run('exact', path, resume=True)\n"
        "except test_store.StoreError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert f"cannot write to {tmp_path / 'run'}: File too large; {AGAIN}" in done.stdout, done.stderr
    assert_prefix(ch.open_posterior(tmp_path / "run"), whole("exact"))
    assert_same(run("exact", tmp_path / "run", resume=True), whole("exact"))


# ---- Interrupts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["compiled", "exact"])
def test_interrupt__keeps_everything_drawn(kind, tmp_path, monkeypatch):
    """Ctrl-C after a few pieces of both chains, none of them written yet."""
    monkeypatch.setattr(store, "FLUSH_SECONDS", 1e9)
    monkeypatch.setattr(store, "CHUNK_BYTES", 2**20)
    monkeypatch.setattr(running, "TURN", 0.0)
    advanced: dict[int, int] = {}

    def advance(self: Any, chain: int, n: int, own: Any, chunk: Any) -> None:
        if chunk is not None:
            advanced[chain] = advanced.get(chain, 0) + len(chunk.log_prior)

    def refresh(self: Any) -> None:
        if len(advanced) == 2 and min(advanced.values()) >= 10:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampler.Progress, "advance", advance)
        patch.setattr(sampler.Progress, "refresh", refresh)
        posterior = run(kind, tmp_path / "run", draws=2_000)
    assert reading.read_header(tmp_path / "run")["committed"] == [advanced[0], advanced[1]]
    n_draws = posterior.draws.sizes["draw"]
    assert n_draws == min(advanced.values()) < 2_000
    assert not posterior.info["complete"]
    assert_prefix(posterior, whole(kind, 2 * n_draws))
    assert_prefix(ch.open_posterior(tmp_path / "run"), posterior)
    assert posterior.draws.chunks is not None
    n_more = max(advanced.values()) + 3
    assert_same(run(kind, tmp_path / "run", resume=True, draws=n_more), whole(kind, n_more))


if __name__ == "__main__":
    kind, folder, *rest = json.loads(sys.argv[1])
    _driver(kind, Path(folder), *rest)

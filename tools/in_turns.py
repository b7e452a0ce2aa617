"""Two trees of chiasma in turns: is a commit slower than another one in what `limits` and `peers` measure?

    git worktree add ../before COMMIT
    python tools/in_turns.py ../before            # everything: a few minutes
    python tools/in_turns.py ../before ball draw  # what has one of these words in its name

Each tree runs in a separate process, with its own `core.py` and `limits.py`, and the two take turns of a few
hundredths of a second, so that a phase in which the machine is slow is slow for both. A time is the CPU time of one
call, the minimum over turns, and over several pairs of processes: where the arrays of a process happen to lie in memory
moves single times by a tenth or more, on both sides. The table is printed and not kept: it speaks of two commits on one
machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

TURNS = 12
PROCESSES = 4  # of each tree, one after the other
SHORTEST = 0.03  # CPU seconds of a turn, about
WORSE = 1.05
HERE = Path(__file__).resolve()


# ---- In the process of a tree ----------------------------------------------------------------------------------------


def jobs() -> Mapping[str, Callable[[], Callable[[], object]]]:
    """What is measured, by name: each makes a function without arguments."""
    import core
    import limits

    import chiasma as ch

    def sweeps(n_columns: int, n_replicas: int) -> Callable[[], object]:
        made = limits.engine(limits.ROWS, n_columns, n_replicas)
        return partial(made.advance, made.piece(), 0)

    def exact(function: str, n_rows: int, n_columns: int) -> Callable[[], object]:
        return partial(getattr(ch.exact, function), *core.example(n_rows, n_columns))

    def gradient(n_rows: int, n_columns: int) -> Callable[[], object]:
        _, data = core.example(n_rows, n_columns)
        weights = np.linspace(1.0, 3.0, n_rows)
        emission = ch.Gaussian(weights / weights.sum(), depth=15.0, sd=ch.HalfNormal(2.0))
        unknown = ch.FactorialHMM(rows=ch.Switches(enter=0.01, leave=0.01), emission=emission)
        return partial(ch.exact.value_and_gradient, unknown, data, {"sd": 1.0})

    def draws(n_rows: int, n_columns: int, n: int) -> Callable[[], object]:
        model, data = core.example(n_rows, n_columns)
        stream = np.random.PCG64(1)
        return lambda: ch.exact.draws(model, data, n, seed=stream)

    def update(kind: Any, n_rows: int, n_columns: int) -> Callable[[], object]:
        step: Callable[[], object] = core.sampler(kind, *core.example(n_rows, n_columns)).step
        return step

    def rows() -> tuple[Any, Any]:
        """Six rows of three states each; by arguments that have the same names in both trees."""
        made = [ch.Row(values=[0, w, 2 * w], chain=ch.Sticky(renew=0.02), name=f"r{w}") for w in (1, 2, 3, 5, 7, 11)]
        model = ch.FactorialHMM(rows=made, emission=ch.Gaussian(sd=2.0))
        y = np.random.default_rng(1).normal(20.0, 8.0, 1_000)
        return model, ch.Observations(y)

    def lamps() -> tuple[Any, Any]:
        """Twenty copies of a row and two others."""
        lamp = ch.Row(values=[0, 1], chain=ch.Switch(enter=0.01, leave=0.02), name="lamp", copies=20)
        others = [ch.Row(values=[0, w], chain=ch.Switch(enter=0.01, leave=0.02), name=f"r{w}") for w in (5, 9)]
        model = ch.FactorialHMM(rows=[lamp, *others], emission=ch.Gaussian(sd=1.0))
        return model, ch.Observations(np.random.default_rng(1).normal(12.0, 4.0, 1_000))

    def states(call: Callable[..., object], make: Callable[[], tuple[Any, Any]], *more: Any) -> Callable[[], object]:
        return partial(call, *make(), *more)

    def state_update(kind: Any, make: Callable[[], tuple[Any, Any]]) -> Callable[[], object]:
        step: Callable[[], object] = core.sampler(kind, *make()).step
        return step

    found: dict[str, Callable[[], Callable[[], object]]] = {}
    for n_columns in (1_000, limits.COLUMNS):
        for n_replicas in (1, 2, 8):
            found[f"row sweeps, T = {n_columns:,}, replicas: {n_replicas}"] = partial(sweeps, n_columns, n_replicas)
    for n_rows in (3, 4, 5, 6, 8, 10, 12):
        n_columns = max(200, min(limits.COLUMNS, 2**22 >> n_rows))
        found[f"filter alone, K = {n_rows}"] = lambda k=n_rows, t=n_columns: limits.filter_only(*core.example(k, t))
    for n_columns in (1_000, limits.COLUMNS):
        for n_rows in (3, 6, 8, 10):
            size = f"K = {n_rows}, T = {n_columns:,}"
            found[f"log-likelihood, {size}"] = partial(exact, "log_evidence", n_rows, n_columns)
            found[f"draw from scratch, {size}"] = partial(draws, n_rows, n_columns, 1)
            found[f"101 draws, {size}"] = partial(draws, n_rows, n_columns, 101)
            found[f"marginals, {size}"] = partial(exact, "marginals", n_rows, n_columns)
            found[f"best path, {size}"] = partial(exact, "map_states", n_rows, n_columns)
            found[f"gradient, {size}"] = partial(gradient, n_rows, n_columns)
    found["row Gibbs, K = 5"] = partial(update, ch.RowGibbs(), 5, limits.COLUMNS)
    for size in (1, 2, 3, 5):
        found[f"blocks of {size}, K = 5"] = partial(update, ch.BlockGibbs(size=size), 5, limits.COLUMNS)
    found["Hamming ball, radius 1, K = 3"] = partial(update, ch.HammingBall(radius=1), 3, 1_000)
    found["Hamming ball, radius 3, K = 5"] = partial(update, ch.HammingBall(radius=3), 5, limits.COLUMNS)
    for name, make in (("six rows of three states", rows), ("20 copies and two rows", lamps)):
        found[f"log-likelihood, {name}"] = partial(states, ch.exact.log_evidence, make)
        found[f"marginals, {name}"] = partial(states, ch.exact.probabilities, make, 0)
        found[f"best path, {name}"] = partial(states, ch.exact.map_states, make)
        found[f"draw from scratch, {name}"] = partial(states, ch.exact.draws, make, 1)
        found[f"row Gibbs, {name}"] = partial(state_update, ch.RowGibbs(), make)
        found[f"blocks of two, {name}"] = partial(state_update, ch.BlockGibbs(size=2), make)
        found[f"Hamming ball, radius 1, {name}"] = partial(state_update, ch.HammingBall(radius=1), make)
    return found


def serve() -> None:
    """Read the name of a job, say how long a call takes; an empty line: measure the same job again."""
    every = jobs()
    print("\n".join(every), end="\n\n", flush=True)
    call: Callable[[], object] = int
    n_calls = 1
    for line in sys.stdin:
        if line.strip():
            call = every[line.strip()]()
            call()  # may still load compiled code
            n_calls = 1 + int(SHORTEST / max(_seconds(call, 1), 1e-7))
        print(_seconds(call, n_calls), flush=True)


def _seconds(call: Callable[[], object], n_calls: int) -> float:
    began = process_time()
    for _ in range(n_calls):
        call()
    return (process_time() - began) / n_calls


# ---- In the process that compares ------------------------------------------------------------------------------------


class Tree:
    """A process that measures one tree."""

    def __init__(self, root: Path):
        paths = os.pathsep.join([str(root / "src"), str(root / "benchmarks")])
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(HERE), "--serve"],
            env=os.environ | {"PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.names = list(iter(self._line, ""))

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a tree failed to measure; what it said stands above")
        return line.strip()

    def seconds(self, name: str = "") -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()
        return float(self._line())


def compare(before: Path, now: Path, words: list[str]) -> None:
    names: list[str] = []
    best: dict[str, np.ndarray] = {}
    for process in range(PROCESSES):
        trees = Tree(before), Tree(now)
        names = [name for name in trees[1].names if name in trees[0].names and any(word in name for word in words)]
        for name in names:
            fastest = best.setdefault(name, np.full(2, np.inf))
            for tree in trees:
                tree.seconds(name)  # makes the data, compiles
            # Who begins changes from turn to turn.
            for turn in range(TURNS):
                for i in (turn % 2, 1 - turn % 2):
                    fastest[i] = min(fastest[i], trees[i].seconds())
        for tree in trees:
            tree.process.terminate()
        print(f"processes {process + 1} of {PROCESSES}", file=sys.stderr, flush=True)
    width = max(map(len, names), default=0)
    print(f"{'':{width}}  before, µs     now, µs   ratio")
    for name in names:
        print(f"{name:{width}}  {best[name][0] * 1e6:10,.1f}  {best[name][1] * 1e6:10,.1f}  {_ratio(best[name]):6.3f}")
    worse = [name for name in names if _ratio(best[name]) > WORSE]
    print(f"more than {WORSE - 1:.0%} slower: {'; '.join(worse) or 'none'}")


def _ratio(seconds: np.ndarray) -> float:
    return float(seconds[1] / seconds[0])


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    elif len(sys.argv) > 1 and (Path(sys.argv[1]) / "benchmarks" / "limits.py").exists():
        compare(Path(sys.argv[1]).resolve(), HERE.parents[1], sys.argv[2:] or [""])
    else:
        raise SystemExit("usage: python tools/in_turns.py DIRECTORY [WORD ...]: the root of another tree")

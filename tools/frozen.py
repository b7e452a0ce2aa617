"""Frozen behaviour: what a tree of chiasma computes on about a hundred small problems, to be compared with another one.

    PYTHONPATH=../before/src python tools/frozen.py record verification/frozen
    PYTHONPATH=src python tools/frozen.py compare verification/frozen [WORD ...]

`record` writes cells.json and the small tables of the command line; `compare` computes everything again with the
chiasma on PYTHONPATH and prints which cells are equal, which differ by rounding, and which have changed. WORDs select
cells by name. The data are made here with NumPy, so that they do not depend on the tree. Models are written through
`Names`, which knows the old and the new names of arguments.

A quantity is kept as a hash of its shape and its values (as int64 or float64, so that dtypes do not matter) and a few
numbers, which tell rounding from other changes.
"""

from __future__ import annotations

import contextlib
import csv
import difflib
import hashlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import chiasma as ch

Quantities = dict[str, Any]
T = 60
ROUNDING = 1e-8  # relative
SMALL = 8_000  # bytes of a table that is kept as it is
SETTINGS: dict[str, Any] = {"draws": 20, "warmup": 12, "chains": 2, "workers": 1, "progress": False, "seed": 7}
LADDER = [1, 3, 9]


# ---- Old and new names -----------------------------------------------------------------------------------------------


class Names:
    """Models by the names of arguments that the tree has."""

    def __init__(self) -> None:
        self.model = set(inspect.signature(ch.FactorialHMM).parameters)
        self.row = set(inspect.signature(ch.Row).parameters)

    def binary(self, emission: Any, enter: Any, leave: Any, initial: Any = None, fixed: Any = None) -> Any:
        chain = {"enter": enter, "leave": leave} | ({} if initial is None else {"initial": initial})
        if hasattr(ch, "Switches"):
            given: dict[str, Any] = {"rows": ch.Switches(**chain)}
        else:
            given = {"chains": ch.BinaryChains(**chain)}
        if fixed is not None:
            given["fixed" if "fixed" in self.model else "fixed_rows"] = fixed
        return ch.FactorialHMM(emission=emission, **given)

    def rows(self, emission: Any, *rows: Any) -> Any:
        return ch.FactorialHMM(rows=list(rows), emission=emission)

    def row_of(self, values: Any, chain: Any = None, **given: Any) -> Any:
        return ch.Row(values=values, chain=chain, **given)


NAMES = Names()


# ---- Data and models -------------------------------------------------------------------------------------------------


def path(rng: np.random.Generator, sizes: list[int], n: int = T, change: float = 0.08) -> np.ndarray:
    """(K, n) states that change now and then."""
    states = np.empty((len(sizes), n), int)
    for own, size in zip(states, sizes, strict=True):
        state = rng.integers(size)
        for t in range(n):
            if rng.random() < change:
                state = rng.integers(size)
            own[t] = state
    return states


def signal(values: list[Any], sd: float = 0.4, n: int = T, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    states = path(rng, [len(own) for own in values], n)
    level = sum(np.asarray(own, float)[x] for own, x in zip(values, states, strict=True))
    return level + sd * rng.standard_normal(np.shape(level))


WEIGHTS = [0.9, 1.3, 2.1, 3.0]
Y = signal([[0, w] for w in WEIGHTS])
VALUES = [[0, 1.0, 2.5], [0, 1.7], [0, 0.6, 1.2, 3.1]]
Z = signal(VALUES, seed=2)
WIDE = np.linspace(0.5, 2.5, 22)
LONG = signal([[0, w] for w in WIDE], n=40, seed=3)
PAIR = signal([[[0, 0], [1.0, 0.2]], [[0, 0], [0.4, 1.5]], [[0, 0], [2.0, 2.2]]], seed=4)
COUNTS = np.random.default_rng(5).poisson(np.exp(Y / 3) * 2).astype(float)
MISSING = np.where(np.arange(T) % 7 == 3, np.nan, Y)
STARTS = [0, 17, 18, 40]
GAPS = np.random.default_rng(6).choice([1.0, 2.0, 3.5], T - 1)


def gaussian(weights: Any = WEIGHTS, sd: Any = 0.4, **given: Any) -> Any:
    return ch.Gaussian(weights=weights, sd=sd, **given)


def binary(emission: Any = None, enter: Any = 0.05, leave: Any = 0.08, **given: Any) -> Any:
    return NAMES.binary(gaussian() if emission is None else emission, enter, leave, **given)


MATRIX = [[0.9, 0.06, 0.04, 0.0], [0.05, 0.9, 0.05, 0.0], [0.0, 0.04, 0.9, 0.06], [0.02, 0.02, 0.02, 0.94]]


def states(sd: Any = 0.4, **given: Any) -> Any:
    return NAMES.rows(
        ch.Gaussian(sd=sd),
        NAMES.row_of(given.get("values", VALUES[0]), ch.Sticky(renew=given.get("renew", 0.1)), name="a"),
        NAMES.row_of(VALUES[1], ch.Switch(enter=given.get("enter", 0.05), leave=0.1), name="b"),
        NAMES.row_of(VALUES[2], ch.Markov(transition=MATRIX), name="c", weight=given.get("weight", 1.0)),
    )


def binary_rows(**given: Any) -> Any:
    """Rows of two states, one by one."""
    own = [NAMES.row_of([0, w], ch.Switch(enter=0.05, leave=0.08), name=f"r{k}") for k, w in enumerate(WEIGHTS)]
    return NAMES.rows(gaussian(None, **given), *own)


def copies(n: int = 5, **given: Any) -> Any:
    return NAMES.rows(
        gaussian(None, given.get("sd", 0.4)),
        NAMES.row_of([0, 1.0], ch.Switch(enter=given.get("enter", 0.05), leave=0.1), name="lamp", copies=n),
        NAMES.row_of([0, 2.6], ch.Switch(enter=0.03, leave=0.1), name="kettle"),
    )


def fixed_states() -> Any:
    return NAMES.rows(
        gaussian(None),
        NAMES.row_of(VALUES[0], ch.Sticky(renew=0.1), name="a"),
        NAMES.row_of([0.0, 0.3], fixed=1, name="base"),
        NAMES.row_of(VALUES[1], ch.Switch(enter=0.05, leave=0.1), name="b"),
    )


# ---- Quantities ------------------------------------------------------------------------------------------------------


def kept(values: Any) -> dict[str, Any]:
    """Hash and a few numbers: the first and last values, the mean, and a sum with weights that depend on the place."""
    array = np.asarray(values)
    whole = array.dtype.kind != "f"
    array = np.ascontiguousarray(array.astype(np.int64 if whole else np.float64)) + 0  # no negative zeros
    flat = array.ravel()
    finite = np.where(np.isfinite(flat), flat, 0.0)
    some = [*flat[:3], *flat[-2:], finite.mean(), finite @ np.cos(np.arange(flat.size))]
    content = f"{array.shape} {array.dtype.kind} ".encode() + array.tobytes()
    return {
        "hash": hashlib.sha256(content).hexdigest()[:20],
        "whole": whole,
        "shape": list(array.shape),
        "some": [float(x) for x in some],
    }


def of_posterior(posterior: Any) -> Quantities:
    found = {
        "codes": kept(posterior.draws.values),
        "log_joint": kept(posterior.log_joint.values),
        "replicas": kept(posterior.replica_log_likelihood.values),
        "betas": kept(posterior.betas),
    }
    if posterior.log_evidence is not None:
        found["evidence"] = kept(np.array([posterior.log_evidence.value, posterior.log_evidence.standard_error]))
    # Parameters in the order of their hashes: names may change.
    values = sorted((kept(array.values) for array in posterior.parameters.data_vars.values()), key=lambda x: x["hash"])
    for i, value in enumerate(values):
        found[f"parameter {i}"] = value
    return found


def sampled(model: Any, data: Any = None, **given: Any) -> Callable[[], Quantities]:
    return lambda: of_posterior(ch.sample(model() if callable(model) else model, data, **SETTINGS | given))


def exactly(model: Callable[[], Any], data: Any) -> Callable[[], Quantities]:
    def run() -> Quantities:
        made = model()
        found = {
            "evidence": kept(ch.exact.log_evidence(made, data)),
            "tempered": kept(ch.exact.log_evidence(made, data, beta=0.3)),
            "map": kept(ch.exact.map_states(made, data)),
            "draws": kept(ch.exact.draws(made, data, 5, seed=3)),
        }
        names = range(made.n_rows)
        for k in names:
            found[f"probabilities {k}"] = kept(ch.exact.probabilities(made, data, k))
        return found

    return run


def gradient(model: Callable[[], Any], data: Any) -> Callable[[], Quantities]:
    def run() -> Quantities:
        density = ch.exact.log_density(model(), data)
        value, slope = density.value_and_gradient(density.start())
        return {"value": kept(value), "slopes, sorted": kept(np.sort(slope))}

    return run


def optimum(model: Callable[[], Any], data: Any) -> Callable[[], Quantities]:
    def run() -> Quantities:
        found = ch.optimise(model(), data, starts=4, seed=1)
        return {"values": kept(np.array([one.log_density for one in found]))}

    return run


def stored(model: Callable[[], Any], data: Any, first: int | None = None, **given: Any) -> Callable[[], Quantities]:
    """A run in a store; first: stopped after this many draws, and resumed."""

    def run() -> Quantities:
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder) / "run.zarr"
            how = SETTINGS | given | {"store": store, "durable": False}
            if first is not None:
                ch.sample(model(), data, **how | {"draws": first})
            ch.sample(model(), data, **how, resume=first is not None)
            return of_posterior(ch.open_posterior(store, model=model()))

    return run


# ---- Cells -----------------------------------------------------------------------------------------------------------


def cells() -> Mapping[str, Callable[[], Quantities]]:
    found: dict[str, Callable[[], Quantities]] = {}
    exchanges: dict[str, Any] = {"alone": None} | {name: name for name in ("swap", "random", "augmented", "mosaic")}
    updates = {
        "exact": "exact",
        "row": "row",
        "block": ch.BlockGibbs(size=2),
        "ball": ch.HammingBall(radius=2),
        "jumps": "jumps",
        "gaussian": ch.GaussianBlocks(size=2),
    }
    for kind, model, y in (("binary", binary, Y), ("states", states, Z)):
        for update, how in updates.items():
            if kind == "states" and update == "gaussian":
                continue
            for exchange, which in exchanges.items():
                ladder = [1] if which is None else LADDER
                found[f"{kind}, {update}, {exchange}"] = sampled(model, y, update=how, exchange=which, ladder=ladder)
    more = {
        "random rows": ch.AugmentedCrossover(rows="random"),
        "along rows": ch.AugmentedCrossover(axis="rows"),
        "not flipped": ch.AugmentedCrossover(flipped=False),
        "two points": ch.RandomCrossover(points=2),
        "swap of rows": ch.Swap(rows=[0, 2]),
        "mosaic of rows": ch.MosaicCrossover(rows="random"),
    }
    for name, one in more.items():
        for kind, model, y in (("binary", binary, Y), ("states", states, Z)):
            found[f"{kind}, row, {name}"] = sampled(model, y, update="row", exchange=one, ladder=LADDER)
    shapes: dict[str, tuple[Callable[[], Any], Any]] = {
        "binary": (binary, Y),
        "binary as rows": (binary_rows, Y),
        "initial": (lambda: binary(initial=0.3), Y),
        "per row": (lambda: binary(enter=[0.02, 0.05, 0.1, 0.2], leave=[0.3, 0.2, 0.1, 0.05]), Y),
        "fixed": (lambda: binary(fixed={1: 1, 3: 0}), Y),
        "gaps": (binary, ch.Observations(Y, gaps=GAPS)),
        "starts": (binary, ch.Observations(Y, starts=STARTS)),
        "missing": (binary, MISSING),
        "everything": (lambda: binary(fixed={2: 0}), ch.Observations(MISSING, starts=STARTS, gaps=GAPS)),
        "channels": (lambda: binary(gaussian([[1.0, 0.2], [0.4, 1.5], [2.0, 2.2]], sd=[0.4, 0.5])), PAIR),
        "student": (lambda: binary(ch.StudentT(WEIGHTS, sd=0.3, df=4.0)), Y),
        "depth": (lambda: binary(ch.IntegratedDepth(WEIGHTS, depth_mean=1.0, depth_sd=0.1, sd=0.4)), Y),
        "poisson": (lambda: binary(ch.Poisson(WEIGHTS, depth=2.0, background=0.5)), COUNTS),
        "negative": (lambda: binary(ch.NegativeBinomial(WEIGHTS, depth=2.0, background=0.5)), COUNTS),
        "states": (states, Z),
        "copies": (copies, Y),
        "fixed states": (fixed_states, Z),
        "states, everything": (states, ch.Observations(np.where(np.isnan(MISSING), np.nan, Z), STARTS, np.ceil(GAPS))),
    }
    for name, (model, data) in shapes.items():
        found[f"exact, {name}"] = exactly(model, data)
        if name not in ("binary", "states"):
            found[f"block, mosaic, {name}"] = sampled(model, data, update="block", exchange="mosaic", ladder=LADDER)
    for update, how in {
        "row": "row",
        "block": ch.BlockGibbs(size=3),
        "ball": ch.HammingBall(radius=1),
        "gaussian": ch.GaussianBlocks(size=4),
    }.items():
        found[f"22 rows, {update}"] = sampled(lambda: binary(gaussian(WIDE)), LONG, update=how, ladder=LADDER)
    found["22 rows, pilot"] = sampled(lambda: binary(gaussian(WIDE)), LONG, exact_seconds=0, draws=40, warmup=40)
    found["composed"] = sampled(binary, Y, update=ch.Compose([ch.RowGibbs(), ch.HammingBall(radius=1)]), ladder=LADDER)
    found["evidence of a ladder"] = sampled(binary, Y, update="row", evidence=True, draws=50, warmup=50)
    found["defaults"] = sampled(binary, Y)
    found["defaults, states"] = sampled(states, Z)

    learned: dict[str, tuple[Callable[[], Any], Any]] = {
        "noise": (lambda: binary(gaussian(sd=ch.HalfNormal(1.0))), Y),
        "weights": (lambda: binary(gaussian(ch.Gamma([2.0] * 4, 1.0), sd=ch.LogNormal(-1, 0.3))), Y),
        "rates": (lambda: binary(enter=ch.Beta(1, 20), leave=ch.Beta([1, 1, 1, 1], 10)), Y),
        "rates, gaps": (lambda: binary(enter=ch.Beta(1, 20), leave=0.1), ch.Observations(MISSING, STARTS, GAPS)),
        "fixed": (lambda: binary(gaussian(sd=ch.HalfNormal(1.0)), fixed={1: 1}), Y),
        "counts": (lambda: binary(ch.Poisson(WEIGHTS, depth=ch.LogNormal(0.7, 0.3), background=0.5)), COUNTS),
        "states": (lambda: states(sd=ch.HalfNormal(1.0), renew=ch.Beta(1, 9), weight=ch.LogNormal(0, 0.2)), Z),
        "copies": (lambda: copies(sd=ch.HalfNormal(1.0), enter=ch.Beta(1, 20)), Y),
    }
    for name, (model, data) in learned.items():
        found[f"learned, gradient, {name}"] = gradient(model, data)
        found[f"learned, collapsed, {name}"] = sampled(model, data, update=ch.Collapsed(starts=4))
        found[f"learned, exact, {name}"] = sampled(model, data, update="exact", ladder=LADDER, exchange="swap")
        if name not in ("states", "copies"):  # refused before the rebuild
            found[f"learned, block, {name}"] = sampled(model, data, update="block", ladder=LADDER)
    found["learned, row, mosaic"] = sampled(learned["noise"][0], Y, update="row", exchange="mosaic", ladder=LADDER)
    found["optimum"] = optimum(learned["noise"][0], Y)

    for name, (model, data, given) in {
        "exact": (binary, Y, {}),
        "ladder": (binary, Y, {"update": "row", "exchange": "augmented", "ladder": LADDER}),
        "states": (states, Z, {"update": "block", "exchange": "mosaic", "ladder": LADDER}),
        "learned": (learned["noise"][0], Y, {"update": "block", "ladder": LADDER}),
    }.items():
        found[f"stored, {name}"] = stored(model, data, **given)
        found[f"resumed, {name}"] = stored(model, data, first=8, **given)
    modes = ch.BlockModes if hasattr(ch, "BlockModes") else None
    if modes is not None:
        found["toy"] = lambda: of_posterior(ch.sample(modes(4, 5, 0.1), **SETTINGS, ladder=LADDER))
    return found


# ---- The command line ------------------------------------------------------------------------------------------------


def write_inputs(folder: Path) -> None:
    """Small inputs, made without chiasma."""
    lines = ["chromosome\tposition\tvalue"]
    lines += [f"{1 + t // 30}\t{1000 * t}\t{'NA' if np.isnan(MISSING[t]) else f'{MISSING[t]:.4f}'}" for t in range(T)]
    (folder / "signal.tsv").write_text("\n".join(lines) + "\n")
    (folder / "rows.tsv").write_text("\n".join(["value", *(f"{z:.4f}" for z in Z)]) + "\n")
    (folder / "rows.toml").write_text(
        '[model]\nemission = "gaussian"\nsd = 0.4\n\n'
        '[[row]]\nname = "washer"\nvalues = [0, 1.0, 2.5]\nsticky = {renew = 0.1}\n\n'
        '[[row]]\nname = "kettle"\nvalues = [0, 1.7]\nswitch = {enter = 0.05, leave = 0.1}\n\n'
        '[[row]]\nname = "lamp"\nvalues = [0, 0.6]\nswitch = {enter = 0.05, leave = 0.1}\ncopies = 3\n'
    )
    for name, purities in (("one.bb", [0.7]), ("two.bb", [0.75, 0.45])):
        rng = np.random.default_rng(8)
        major = np.repeat(rng.choice([1, 1, 2, 2, 3], 40), 6)
        minor = np.minimum(np.repeat(rng.choice([0, 1, 1, 1, 2], 40), 6), major)
        lines = ["#CHR\tSTART\tEND\tSAMPLE\tRD\t#SNPS\tCOV\tALPHA\tBETA\tBAF"]
        for i, purity in enumerate(purities):
            total = purity * (major + minor) + 2 * (1 - purity)
            depth = total / total.mean() * (1 + 0.04 * rng.standard_normal(len(total)))
            share = (purity * minor + 1 - purity) / total
            beta = rng.binomial(3000, share)
            for t in range(len(total)):
                place = f"{1 + t // 24}\t{5_000_000 * (t % 24)}\t{5_000_000 * (t % 24 + 1)}\tS{i + 1}"
                reads = f"{3000 - beta[t]}\t{beta[t]}\t{min(beta[t], 3000 - beta[t]) / 3000:.6f}"
                lines.append(f"{place}\t{depth[t]:.5f}\t100\t30.0\t{reads}")
        (folder / name).write_text("\n".join(lines) + "\n")
    for i in range(2):
        own = signal([[0, w] for w in WEIGHTS], n=40, seed=20 + i)
        (folder / f"sample{i}.tsv").write_text("\n".join(["value", *(f"{x:.4f}" for x in own)]) + "\n")
    (folder / "sheet.tsv").write_text("sample\tpath\nfirst\tsample0.tsv\nsecond\tsample1.tsv\n")
    (folder / "tumours.tsv").write_text("sample\tpath\nT\tone.bb\n")


MODEL = "--weights 0.9,1.3,2.1,3.0 --sd 0.4 --depth 1 --enter 0.05 --leave 0.08"
SMALL_RUN = "--draws 50 --warmup 30 --chains 2 --seed 1"
COMMANDS = {
    "fit": f"fit signal.tsv --chromosome chromosome --position position --value value {MODEL} {SMALL_RUN}",
    "fit-fixed": f"fit signal.tsv --value value {MODEL} {SMALL_RUN} {{fixed}} 1=1 --update row --ladder 1,4",
    "fit-learned": f"fit signal.tsv --value value {MODEL} {SMALL_RUN} --learn weights,sd,enter --update collapsed:4",
    "fit-rows": f"fit rows.tsv --model rows.toml {SMALL_RUN}",
    "tumour": "tumour one.bb --clones 1 --workers 1",
    "tumour-clones": "tumour one.bb --clones 1-2 --workers 1",
    "patient": "tumour two.bb --one-patient --clones 1 --workers 1",
    "cohort": f"cohort sheet.tsv --value value {MODEL} --draws 50 --warmup 30 --chains 2 --seed 1 --workers 1",
    "cohort-tumours": "cohort tumours.tsv --tumour --clones 1 --seed 1 --workers 1",
    "simulate": "simulate genome.tsv --sites 300 --seed 1",
    "simulate-tumour": "simulate tumour.bb --tumour --sites 300 --seed 1",
}
TABLES = (".tsv", ".seg", ".bed", ".vcf", ".csv", ".bb")
# What a table says about when and by what it was made.
UNSTABLE = ("seconds", "started", "finished", "host", "worker", "cpu_seconds", "peak_mib", "memory")


def tables(folder: Path, name: str) -> dict[str, str]:
    """The tables that a command writes: texts by path."""
    out = folder / f"out-{name}"
    helped = subprocess.run([sys.executable, "-m", "chiasma", "fit", "--help"], capture_output=True, text=True)
    words = COMMANDS[name].format(fixed="--fixed-row" if "--fixed-row" in helped.stdout else "--fixed").split()
    if words[0] == "simulate":
        out.mkdir()
        words[1] = str(out / words[1])
    else:
        words += ["--out", str(out), "--tables-only"]
    ran = subprocess.run(
        [sys.executable, "-m", "chiasma", *words, "--quiet"], cwd=folder, capture_output=True, text=True
    )
    found = {}
    for path in sorted(out.rglob("*")):
        if path.suffix in TABLES and "run.zarr" not in path.parts:
            found[str(path.relative_to(out))] = stable(path.read_text())
    if ran.returncode or not found:
        raise RuntimeError(f"chiasma {' '.join(words)} failed with {ran.returncode}: {ran.stderr[-400:]}")
    return found


def stable(text: str) -> str:
    """A table without columns that depend on the time or the machine."""
    first = text.partition("\n")[0]
    if "\t" not in first or not set(first.split("\t")) & set(UNSTABLE):
        return text
    lines = [line.split("\t") for line in text.splitlines()]
    keep = [i for i, name in enumerate(lines[0]) if name not in UNSTABLE]
    return "\n".join("\t".join(line[i] for i in keep) for line in lines) + "\n"


# ---- Record and compare ----------------------------------------------------------------------------------------------


def computed(words: list[str]) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """Quantities of every cell, or the error that it ends with; and tables of every command."""
    results: dict[str, Any] = {}
    for name, run in cells().items():
        if not any(word in name for word in words):
            continue
        began = time.process_time()
        try:
            results[name] = run()
        except Exception as error:
            results[name] = {"error": type(error).__name__, "says": str(error)}
        if time.process_time() - began > 5:
            print(f"{name}: {time.process_time() - began:.0f} s", file=sys.stderr, flush=True)
    files: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_inputs(Path(folder))
        for name in COMMANDS:
            if any(word in f"command {name}" for word in words):
                try:
                    files[name] = tables(Path(folder), name)
                except RuntimeError as error:
                    files[name] = {"error": str(error)}
    return results, files


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def record(out: Path) -> None:
    results, files = computed([""])
    out.mkdir(parents=True, exist_ok=True)
    hashes = {name: {path: digest(text) for path, text in found.items()} for name, found in files.items()}
    (out / "cells.json").write_text(json.dumps({"cells": results, "tables": hashes}, indent=1) + "\n")
    for name, found in files.items():
        for path, text in found.items():
            if len(text) <= SMALL and path != "error":
                place = out / "tables" / name / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text)
    broken = [name for name, found in results.items() if "error" in found]
    broken += [f"command {name}" for name, found in files.items() if "error" in found]
    print(f"{len(results)} cells, {len(files)} commands; that ended with an error: {'; '.join(broken) or 'none'}")
    for name in broken:
        print(f"  {name}: {results.get(name, files.get(name.removeprefix('command '), {}))}"[:300])


def verdict(before: Quantities, now: Quantities) -> str:
    if "error" in before or "error" in now:
        if before.get("error") == now.get("error"):
            return "equal"
        return f"changed: {before.get('error', 'ran')} before, {now.get('error', 'ran')}: {now.get('says', '')[:200]}"
    before, now = in_order(before), in_order(now)
    different = [
        name for name in {**before, **now} if before.get(name, {}).get("hash") != now.get(name, {}).get("hash")
    ]
    if not different:
        return "equal"
    far = [name for name in different if name not in before or name not in now or not near(before[name], now[name])]
    return f"changed: {', '.join(far)}" if far else f"rounding: {', '.join(different)}"


def in_order(found: Quantities) -> Quantities:
    """Parameters in the order of their first values: that of their hashes changes with the last bit."""
    named = [name for name in found if name.startswith("parameter ")]
    values = sorted((found[name] for name in named), key=lambda value: [round(x, 6) for x in value["some"]])
    return {**found, **dict(zip(named, values, strict=True))}


def near(one: dict[str, Any], other: dict[str, Any]) -> bool:
    if one["shape"] != other["shape"] or one["whole"] or other["whole"]:
        return False  # whole numbers are equal or changed
    return bool(np.allclose(one["some"], other["some"], rtol=ROUNDING, atol=ROUNDING, equal_nan=True))


def compare(out: Path, words: list[str]) -> int:
    recorded = json.loads((out / "cells.json").read_text())
    results, files = computed(words)
    lines = [(name, verdict(recorded["cells"].get(name, {"error": "absent"}), now)) for name, now in results.items()]
    shown = []
    for name, found in files.items():
        before = recorded["tables"].get(name, {})
        for path in sorted({*before, *found}):
            if path not in found or path not in before:
                lines.append((f"{name}/{path}", "changed: new" if path in found else "changed: no longer written"))
                if path == "error" and path in found:
                    shown.append(found[path])
            elif digest(found[path]) == before[path]:
                lines.append((f"{name}/{path}", "equal"))
            else:
                kept_file = out / "tables" / name / path
                old = kept_file.read_text() if kept_file.exists() else None
                lines.append((f"{name}/{path}", f"changed: {columns(old, found[path])}"))
                if old is not None:
                    diff = difflib.unified_diff(old.splitlines(), found[path].splitlines(), "before", "now", n=0)
                    shown += [f"{name}/{path}", *list(diff)[:12]]
    width = max(len(name) for name, _ in lines)
    for name, text in lines:
        print(f"{name:{width}}  {text}")
    print("\n".join(shown))
    counts = {kind: sum(text.startswith(kind) for _, text in lines) for kind in ("equal", "rounding", "changed")}
    print(", ".join(f"{kind}: {n}" for kind, n in counts.items()))
    return int(counts["changed"] > 0)


def columns(old: str | None, new: str) -> str:
    """Which columns of a table have changed."""
    if old is None:
        return "too large to be kept"
    with contextlib.suppress(csv.Error, StopIteration, ValueError):
        was, is_now = ([line.split("\t") for line in text.splitlines()] for text in (old, new))
        names = [*dict.fromkeys(was[0] + is_now[0])]
        if len(was[0]) > 1:
            get = lambda lines, name: [line[lines[0].index(name)] for line in lines] if name in lines[0] else None  # noqa: E731
            return "columns " + ", ".join(name for name in names if get(was, name) != get(is_now, name))
    return "lines"


def main() -> None:
    if len(sys.argv) < 3 or sys.argv[1] not in ("record", "compare"):
        raise SystemExit("usage: python tools/frozen.py record|compare DIRECTORY [WORD ...]")
    print(f"chiasma of {Path(ch.__file__).parents[2]}", file=sys.stderr)
    os.environ.setdefault("COLUMNS", "200")
    out = Path(sys.argv[2]).resolve()
    if sys.argv[1] == "record":
        record(out)
    else:
        raise SystemExit(compare(out, sys.argv[3:] or [""]))


if __name__ == "__main__":
    main()

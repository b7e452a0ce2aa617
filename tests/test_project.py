"""The package as a whole: its names, what an import does, and that the JIT changes nothing."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import chiasma

SOURCE = Path(chiasma.__file__).parent
ROOT = Path(__file__).resolve().parent.parent
FILES = sorted(SOURCE.rglob("*.py"))


def run(script, **environment):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_source_is_where_it_is_looked_for():
    assert {"passes.py", "updates.py", "ball.py"} <= {path.name for path in FILES}


def test_public_names_are_sorted_unique_and_importable():
    assert chiasma.__all__ == sorted(set(chiasma.__all__))
    for name in chiasma.__all__:
        assert getattr(chiasma, name) is not None


def imported(files):
    """Packages that some files import, those of Python aside."""
    names = set()
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names)


def test_every_package_that_is_imported_is_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    used = [extra for extra in extras if extra not in ("dev", "bench", "docs")]
    listed = [*project["dependencies"], *(one for extra in used for one in extras[extra])]
    declared = {re.match(r"[\w-]+", one)[0].lower() for one in listed} | {"chiasma", "chiasma-fhmm"}
    declared |= {"pytensor"}  # the one of PyMC: another would not fit it
    distributions = packages_distributions()
    found = {distributions.get(name, [name])[0].lower() for name in imported(FILES)}
    assert {"numba", "zarr"} <= found
    assert found <= declared


def test_the_source_distribution_holds_what_its_tests_read():
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone: whoever made this folder chose its files")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = {one.strip("/") for one in project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]}
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    top = {file.partition("/")[0] for file in files if file}
    texts = [path.read_text() for path in (ROOT / "tests").glob("*.py")]
    named = {name for name in top if not name.startswith(".") and any(f'"{name}' in text for text in texts)}
    assert {"tests", "docs", "verification", "tools"} <= named
    assert named <= included | {"pyproject.toml"}  # which every source distribution has


def test_only_one_file_sets_flags_of_the_compiler():
    for path in FILES:
        text = path.read_text()
        if path.name != "_jit.py":
            assert "numba.njit" not in text
            assert "import njit" not in text.replace("from chiasma._jit import njit", "")
            assert "fastmath" not in text


IMPORT = """
import numpy as np
before = np.random.get_state()
import chiasma
after = np.random.get_state()
assert before[0] == after[0] and (before[1] == after[1]).all() and before[2:] == after[2:]
import importlib, pkgutil
import chiasma.kernels
from numba.core.dispatcher import Dispatcher
seen = set()
for info in pkgutil.iter_modules(chiasma.kernels.__path__, "chiasma.kernels."):
    for thing in vars(importlib.import_module(info.name)).values():
        if isinstance(thing, Dispatcher):
            assert not thing.signatures, thing
            seen.add(thing.py_func.__name__)
print(" ".join(sorted(seen)))
"""


def test_importing_compiles_nothing_and_leaves_the_global_random_state_alone():
    seen = run(IMPORT, NUMBA_DISABLE_JIT="0").split()
    assert {"filter_block", "draw_block", "filter_row", "log_prior"} <= set(seen)


USE = """
import numpy as np
import chiasma as ch
before = np.random.get_state()
model = ch.FactorialHMM(rows=ch.Switches(0.1, 0.1), emission=ch.Gaussian([1.0, 2.0]))
_, y = model.simulate(20, seed=1)
ch.exact.draws(model, y, 2, seed=2)
ch.exact.draws(model, y, 2)
after = np.random.get_state()
assert (before[1] == after[1]).all() and before[2:] == after[2:]
"""


def test_simulating_and_drawing_leave_the_global_random_state_alone():
    run(USE)


DRAWS = """
import json
import numpy as np
import chiasma as ch
out = []
for enter in (0.1, 0.0):
    chains = ch.Switches(enter, [0.2, 0.1, 0.3], initial=0.4)
    model = ch.FactorialHMM(rows=chains, emission=ch.Gaussian([1.0, 1.5, 2.0], sd=1.2))
    states, y = model.simulate(40, seed=1, starts=[15])
    y[5:8] = np.nan
    data = ch.Observations(y, starts=[15], gaps=np.linspace(0.5, 2.0, 39))
    out.append(states.tolist())
    for memory in (2**20, 1200):
        out.append(ch.exact.draws(model, data, 20, seed=2, memory=memory).tolist())
    out.append(ch.exact.map_states(model, data).tolist())
    target = model.target(data)
    for update in (ch.RowGibbs(), ch.BlockGibbs(size=2), ch.HammingBall(radius=1), ch.Exact()):
        sweep = update.prepare(target, 0.7)
        rng = np.random.default_rng(3)
        codes = ch.exact.draws(model, data, 1, seed=4)[0].astype(np.int64)
        for _ in range(5):
            sweep(codes, rng.random(sweep.n_uniforms))
        out.append(codes.tolist())
print(json.dumps(out))
"""


def test_the_same_draws_come_with_the_jit_on_and_off():
    compiled = run(DRAWS, NUMBA_DISABLE_JIT="0")
    _, draws, checkpointed, *_ = json.loads(compiled)
    assert draws == checkpointed
    assert len({tuple(path) for path in draws}) > 10
    assert compiled == run(DRAWS, NUMBA_DISABLE_JIT="1")

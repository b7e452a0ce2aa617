# Every target sets up what it needs: a virtual environment in .venv, made once and
# refreshed when pyproject.toml or constraints.txt change.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
WORKERS ?= 2
# schema, errata, toy, simulation, timings, tumour or all; PAPER_OPTIONS="--docs docs" refreshes docs/paper.md.
EXPERIMENT ?= all
PAPER_OPTIONS ?=
# Branch coverage in per cent: kernels as plain Python, everything else as it runs.
COVERAGE_MIN ?= 98
# Python compiles what it imports, on all cores; pip would compile everything that it installs, on one.
PIP_OPTIONS ?= --no-compile
# Without bytecode every process of the tests would compile the package, and the tests, again.
export PYTHONDONTWRITEBYTECODE :=
# Collecting all tests takes longer than some of these parts.
PROOFS = $(shell grep -l 'mark\.symbolic' tests/test_*.py)
PLAIN = $(shell grep -l 'mark\.jit_off' tests/test_*.py)
PYTEST = $(PY) -m pytest -n $(WORKERS) --dist worksteal --durations=25
# Workers share the cores: threads of OpenBLAS would spend their time waiting for each other. On a busy machine a test of
# `chiasma tumour` takes four times as long with two of them as with one.
test kernels test-plain test-proofs test-jit-off test-jit-on coverage: export OPENBLAS_NUM_THREADS = 1

.DEFAULT_GOAL := help
.PHONY: help install demo test kernels test-plain test-proofs test-jit-off test-jit-on coverage lint types imports check format package docs paper bench verify clean

help: ## show this help
	@echo "usage: make TARGET [PYTHON=python3] [WORKERS=2]"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

install: $(STAMP) ## create .venv and install the package with its pinned dependencies

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys' 2>/dev/null || \
	  { echo "error: '$(PYTHON)' does not run; install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: chiasma needs Python 3.11 or newer, '$(PYTHON)' is $$($(PYTHON) -V 2>&1); name another: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "error: '$(PYTHON)' has no venv module; install it (on Debian and Ubuntu: the package python3-venv)" >&2; exit 1; }
	@test -x $(PY) && $(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check $(PIP_OPTIONS) -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP) ## run the demonstration
	$(VENV)/bin/chiasma demo

# Kernels are compiled by one process, which takes longest; tests in plain Python, which need none of them, have the rest
# of the machine meanwhile.
test: $(STAMP) ## all tests: proofs, kernels as plain Python, then everything compiled
	@$(MAKE) --no-print-directory -j 2 kernels test-plain
	@KERNELS_COMPILED=1 $(MAKE) --no-print-directory test-jit-on

test-plain: $(STAMP) # proofs, and kernels as plain Python
	@nice -n 10 $(MAKE) --no-print-directory test-proofs
	@nice -n 10 $(MAKE) --no-print-directory test-jit-off

kernels: $(STAMP) # compiled before the tests that need them
	@$(PY) -c 'import sys; sys.path.insert(0, "tests"); import conftest; conftest.compile_kernels()'

test-proofs: $(STAMP) ## full transition matrices of every move, kernels as plain Python
	NUMBA_DISABLE_JIT=1 $(PYTEST) -m symbolic $(PROOFS)

test-jit-off: $(STAMP) ## tests of kernels, as plain Python
	NUMBA_DISABLE_JIT=1 $(PYTEST) -m 'jit_off and not symbolic' $(PLAIN)

# Many of these wait for processes that they start: one worker more keeps the cores busy.
test-jit-on: WORKERS = 3
test-jit-on: $(STAMP) ## all tests but the proofs, and docstring examples, kernels compiled
	$(PYTEST) -m 'not symbolic'

# Tracing doubles the time of a test, so coverage is a run of its own. Compiled kernels cannot be traced: their coverage
# comes from plain Python, that of everything else from the compiled tests.
coverage: $(STAMP) ## branch coverage of both kinds of tests, which must reach COVERAGE_MIN; HTML in htmlcov/
	NUMBA_DISABLE_JIT=1 $(PYTEST) -m 'jit_off and not symbolic' --cov --cov-report=
	$(PYTEST) -m 'not symbolic' --cov --cov-append --cov-report=html --cov-report=term --cov-fail-under=$(COVERAGE_MIN)

check: lint types imports ## lint, types and imports

lint: $(STAMP) ## ruff: rules and formatting
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(STAMP) ## mypy
	$(PY) -m mypy

imports: $(STAMP) ## import-linter: imports go one way
	$(VENV)/bin/lint-imports

format: $(STAMP) ## format the code and apply safe fixes
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

package: $(STAMP) ## build the sdist and the wheel in dist/ and check them
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt build twine check-wheel-contents
	rm -rf dist
	$(PY) -m build
	$(PY) -m twine check --strict dist/*
	$(VENV)/bin/check-wheel-contents dist/*.whl

docs: $(VENV)/.docs ## build the documentation site into build/site; examples are executed and cached
	$(PY) -m sphinx -W --keep-going -q -d build/doctrees docs build/site
	@echo "open build/site/index.html"

$(VENV)/.docs: $(STAMP) constraints-docs.txt
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -c constraints-docs.txt -e '.[dev,docs]'
	@touch $@

paper: $(STAMP) ## rerun the paper's experiments into build/paper; only one: make paper EXPERIMENT=toy
	$(PY) -m paper $(EXPERIMENT) $(PAPER_OPTIONS)

bench: $(VENV)/.bench ## run the benchmarks
	$(PY) benchmarks/run.py

$(VENV)/.bench: $(STAMP) constraints-bench.txt
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -c constraints-bench.txt -e '.[dev,bench]'
	@touch $@

verify: $(STAMP) ## run the long statistical verification
	$(PY) verification/run.py

clean: ## remove .venv, caches and build products
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# On a fresh machine with Python (3.10 or later) and make: `make demo`, `make test`, `make check`, `make bench`.
PYTHON ?= python3
BIN := .venv/bin
BENCH := .venv-bench/bin
JOBS ?= $(shell $(PYTHON) -c 'import os; print(os.cpu_count())')

.PHONY: env demo reproduce test check bench quality predictions clean

env: .venv/ready

.venv/ready: pyproject.toml constraints.txt src/posterity/core/kernels.c
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: env
	$(BIN)/posterity demo --out runs/demo

# One claim of the sources, put to the test: make reproduce CLAIM=T6. T4 needs no data and takes half a minute.
CLAIM ?= T4
reproduce: env
	$(BIN)/posterity reproduce $(CLAIM)

test: env
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

check: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# The peers live in an environment of their own: they bring old and heavy dependencies.
.venv-bench/ready: pyproject.toml constraints.txt src/posterity/core/kernels.c benchmarks/requirements.txt benchmarks/requirements-no-deps.txt
	$(PYTHON) -m venv .venv-bench
	$(BENCH)/python -m pip install --quiet --constraint constraints.txt --editable .
	$(BENCH)/python -m pip install --quiet --constraint constraints.txt -r benchmarks/requirements.txt
	$(BENCH)/python -m pip install --quiet --no-deps -r benchmarks/requirements-no-deps.txt
	touch $@

bench: .venv-bench/ready
	$(BENCH)/python benchmarks/step_time.py --out docs/benchmarks
	$(BENCH)/python benchmarks/fit_step.py --out docs/benchmarks

quality: .venv-bench/ready
	$(BENCH)/python benchmarks/posterior_quality.py --cache runs/quality --out docs/benchmarks --figure docs/figures

# Trains for hours; cells that are there are not made again.
predictions: .venv-bench/ready
	$(BENCH)/python benchmarks/quality.py run
	$(BENCH)/python benchmarks/quality.py table

clean:
	rm -rf .venv .venv-bench build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-demo

.PHONY: help install demo tour test test-fast test-slow test-pythons test-spark-smoke test-spark-versions mutants check format lint types docs bench bench-quick clean

help: ## show what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-20s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $(STAMP)

$(DEMO_STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -f $(STAMP) || { echo "Installing omnigraph with Spark and a JVM into $(VENV), about 1 GB on disk:"; \
		$(BIN)/python -m pip install --disable-pip-version-check --editable '.[spark,shell]'; }
	@touch $(DEMO_STAMP)

install: $(STAMP) ## create .venv and install omnigraph with everything its tests need

demo: $(DEMO_STAMP) ## load a graph with Spark, ask, branch, merge and time-travel; leaves the graph in demo/
	@$(BIN)/python examples/demo.py

tour: $(STAMP) ## five queries of growing difficulty on a social graph, with timings
	@$(BIN)/python examples/tour.py

test: $(STAMP) ## the whole suite, without the long randomised runs
	$(BIN)/python -m pytest -m "not slow" -n 3

test-fast: $(STAMP) ## unit tests and everything quick that needs no second process
	$(BIN)/python -m pytest -m "not slow and not processes and not s3 and not spark" -n 2 \
		--ignore=tests/cost --ignore=tests/property --ignore=tests/maintenance

test-slow: $(STAMP) ## the long randomised runs, and every mutant
	$(BIN)/python -m pytest -m slow -s

test-pythons: $(STAMP) ## the quick tests on Python 3.12 and 3.13, where the machine has them
	$(BIN)/python -m tests.versions.pythons

test-spark-smoke: $(STAMP) ## a few steps on Spark 4.0 to 4.2; installs them, some 450 MB each
	$(BIN)/python -m pytest tests/versions -m slow

test-spark-versions: $(STAMP) ## the tests of Spark on 4.0 to 4.3, each in an environment of its own; VERSIONS="4.0 4.1" for some
	$(BIN)/python -m tests.versions.run $(VERSIONS)

mutants: $(STAMP) ## break the core in small ways and see that its tests notice
	$(BIN)/python -m tests.mutants.run

format: $(STAMP) ## rewrite the code in the project's format
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lint: $(STAMP) ## check format and lint rules
	$(BIN)/ruff format --check . && $(BIN)/ruff check .

types: $(STAMP) ## mypy --strict
	$(BIN)/mypy

check: lint types test ## what CI runs

docs: $(STAMP) ## the documentation with the API reference as pages in site/; fails for a link that leads nowhere
	@$(BIN)/python -m pip install --quiet --editable '.[dev,docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

bench: $(STAMP) ## measure against peers in one run; writes benchmarks/RESULTS.md
	@$(BIN)/python -m pip install --quiet --editable '.[dev,bench]'
	$(BIN)/python -m benchmarks.run

bench-quick: $(STAMP) ## every scenario at small sizes, to see that it runs; writes no report
	@$(BIN)/python -m pip install --quiet --editable '.[dev,bench]'
	OMNIGRAPH_BENCH_QUICK=1 $(BIN)/python -m benchmarks.run

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache demo site

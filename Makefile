# Every target sets up what it needs first; that takes about a second when it is there already.

.DEFAULT_GOAL := help
.PHONY: help run test checks fast setup setup-test fmt lint types docs docs-sql sql-oracle sql-fuzz judge semantics bench crash simulate soak fuzz tpch night history lock clean

# The first Python 3.11 or later on the PATH; another one: make PYTHON=/path/to/python3.12
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

# Many processes import the same modules: whoever is first keeps them compiled for the others.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest

define SETUP
@if ! $(or $(PYTHON),false) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	echo "set-up failed: no Python 3.11 or later found$(PYTHON:%= as %)" >&2; \
	echo "  remedy: install it (Debian: apt-get install python3), or: make PYTHON=/path/to/python3.11" >&2; \
	exit 1; \
fi
@$(PYTHON) scripts/setup.py
endef

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: setup ## set everything up and start a server, with its data in ./waterclock-data
	@$(BIN)/waterclock serve --data waterclock-data

# The checks need the packages only: they run while the rest of the set-up waits for the network.
test: ## set everything up, then all checks, all tests and the examples of the docs
	$(SETUP) check
	@rm -f .reports/semantics.json
	@$(MAKE) --no-print-directory --jobs=2 setup-test checks
	@echo "test: tests"
	@$(PYTEST) --numprocesses=2 --dist=loadfile --no-loadscope-reorder --durations=25 tests
	@echo "test: examples of the docs"
	@$(PYTEST) --doctest-glob='*.md' docs README.md

checks:
	@echo "test: format"
	@$(BIN)/ruff format --quiet --check . || { echo "  remedy: make fmt" >&2; exit 1; }
	@echo "test: lint and layers"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/lint-imports --no-logo
	@echo "test: types"
	@$(BIN)/mypy --strict src

# A quarter of the examples of each property; and three processes, since many of these tests wait.
fast: ## the tests without Java and servers, in under two minutes
	$(SETUP) check
	@WATERCLOCK_EXAMPLES=$${WATERCLOCK_EXAMPLES:-25} \
		$(PYTEST) --numprocesses=3 -m "not service and not slow" --durations=8 tests

setup: ## what `make run` needs: .venv, packages, Java
	$(SETUP) run

setup-test: ## what `make test` needs: the same, plus test packages, PostgreSQL and Kafka
	$(SETUP) test

fmt: ## format the code, and mend what the linter can mend
	$(SETUP) check
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

lint: ## check format, lint and the layers of the packages
	$(SETUP) check
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports --no-logo

types: ## check the types of src
	$(SETUP) check
	@$(BIN)/mypy --strict src

docs: ## run the examples of the docs
	$(SETUP) check
	@$(PYTEST) --doctest-glob='*.md' docs README.md

docs-sql: ## write docs/sql anew from the table of functions
	$(SETUP) check
	@$(BIN)/python scripts/sql_docs.py

semantics: ## print which statements of the formalism the last test run proved (runs nothing)
	@$(PYTHON) scripts/semantics.py

bench: ## run the benchmarks
	@test -f bench/run.py || { echo "there are no benchmarks yet (bench/run.py)" >&2; exit 1; }
	$(SETUP) test
	@$(BIN)/python bench/run.py

crash: setup-test ## the long crash test: WATERCLOCK_CRASH_ROUNDS (1000) rounds of kill -9 and restart
	@WATERCLOCK_CRASH_ROUNDS=$${WATERCLOCK_CRASH_ROUNDS:-1000} \
		$(PYTEST) --timeout=0 tests/integration/test_crash.py
	@WATERCLOCK_VIEW_KILLS=$${WATERCLOCK_VIEW_KILLS:-100} \
		$(PYTEST) --timeout=0 tests/integration/test_compute_crash.py

simulate: ## the long simulations: WATERCLOCK_SIM_SEEDS (10000) of storage, and as many of all above
	$(SETUP) check
	@WATERCLOCK_SIM_SEEDS=$${WATERCLOCK_SIM_SEEDS:-10000} \
		WATERCLOCK_CONTROL_SEEDS=$${WATERCLOCK_CONTROL_SEEDS:-$${WATERCLOCK_SIM_SEEDS:-10000}} \
		$(PYTEST) --timeout=0 --numprocesses=2 tests/simulation

soak: setup-test ## everything at once against a real server, judged: for MINUTES (30), from SEED
	@$(BIN)/python -m waterclock.testing.soak --minutes $${MINUTES:-30} $${SEED:+--seed $$SEED} \
		$$([ "$$(id -u)" = 0 ] && echo --small-disk)

night: setup-test ## all that draws from seeds, with fresh ones: for MINUTES (60), ONLY some runs, from SEED on
	@$(BIN)/python -m waterclock.testing.night --minutes $${MINUTES:-60} $${ONLY:+--only $$ONLY} $${SEED:+--seed $$SEED}

history: setup-test ## record what clients write upstream and read here, and judge it: SEED (1), READS (2000), FAULTS (6), KEEP it in a file
	@$(BIN)/python -m waterclock.testing.serial.record --seed $${SEED:-1} --reads $${READS:-2000} \
		--faults $${FAULTS:-6} $${KEEP:+--keep $$KEEP}

fuzz: setup ## random views against Spark from scratch: from SEED (1000) on, for MINUTES or until stopped
	@$(BIN)/python -m waterclock.testing.fuzz --verbose --seed $${SEED:-1000} $${MINUTES:+--minutes $$MINUTES}

sql-oracle: setup-test ## every SQL function beside PostgreSQL, or those of NAMES
	@$(BIN)/python -m waterclock.testing.sql_oracle $(NAMES)

judge: setup-test ## random queries, views and histories beside PostgreSQL: from SEED (1) on, for MINUTES or until stopped
	@$(BIN)/python -m waterclock.testing.judge --seed $${SEED:-1} $${MINUTES:+--minutes $$MINUTES}

sql-fuzz: setup-test ## random queries beside PostgreSQL: from SEED (1000) on, for MINUTES or until stopped
	@$(BIN)/python -m waterclock.testing.sql_fuzz --seed $${SEED:-1000} $${MINUTES:+--minutes $$MINUTES}

tpch: setup ## the 22 queries of TPC-H as maintained views, at every time: SCALE (0.01), BATCHES (50)
	@$(BIN)/python -m waterclock.testing.tpch --scale $${SCALE:-0.01} --batches $${BATCHES:-50}

lock: ## resolve the dependencies anew and write requirements/*.lock
	$(SETUP) check
	@$(BIN)/python scripts/lock.py

clean: ## remove caches and reports (not .venv, and never data)
	@rm -rf .reports .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -path ./.venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

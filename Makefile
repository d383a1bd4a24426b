# Everything here works on a fresh machine with Python >= 3.11 and make; `make` alone lists the targets.

PYTHON ?= python3
UV ?= uv
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install servers demo drill test test-fast soak check format lock weights clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(STAMP) ## the environment in .venv, with the command .venv/bin/stanchion

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: $(PYTHON) is missing or older than Python 3.11; name a newer one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "make: $(PYTHON) cannot make environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: install ## two local models and a gateway in front of them: the quick start
	$(BIN)/stanchion demo

drill: install ## break providers on purpose, and judge what callers get
	$(BIN)/stanchion drill providers

weights: install ## get the weights of the local models (98 MB, once)
	$(BIN)/stanchion demo --fetch-only

servers: ## the servers that tests talk to: redis-server and etcd, from Debian's packages where they are missing (as root)
	@command -v redis-server >/dev/null && command -v etcd >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && { \
	    apt-get install -y -q $(SERVERS) >/dev/null 2>&1 || { apt-get update -q >/dev/null && apt-get install -y -q $(SERVERS) >/dev/null; }; } } || { \
	  echo "make: redis-server or etcd is missing; on Debian and Ubuntu: apt install $(SERVERS)" >&2; exit 1; }

SERVERS := redis-server etcd-server

test: weights servers ## every test, with the local models too
	$(BIN)/python -m pytest

test-fast: install servers ## the tests that need no local models
	$(BIN)/python -m pytest -m "not models"

soak: install ## ten minutes of random faults: nothing may grow or stay unanswered (SECONDS=60 for less)
	$(BIN)/python -m tests.soak --seconds $(or $(SECONDS),600)

check: install ## format, lint, types, imports, and whether the settings' schema is up to date
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m gateway.settings.schema --check

format: install ## format the code, and repair what the linter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: ## pin all packages anew from pyproject.toml (needs uv)
	@command -v $(UV) >/dev/null || { echo "make: lock needs uv (pip install uv), or UV=/path/to/uv" >&2; exit 1; }
	$(UV) pip compile pyproject.toml $(LOCK_FLAGS) -o requirements/runtime.txt
	$(UV) pip compile pyproject.toml --extra dev $(LOCK_FLAGS) -o requirements/dev.txt

LOCK_FLAGS := --quiet --upgrade --universal --generate-hashes --no-emit-index-url --custom-compile-command "make lock"

clean: ## remove the environment and what tools left behind
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

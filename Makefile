# Needs Python 3.11 or newer (Debian: python3 python3-venv) and Java 17 (Debian: openjdk-17-jre-headless), and nothing
# else: no root, no containers, no Maven. Only test-e2e needs more Debian packages.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest

.PHONY: help install brokers run test test-e2e lint format soak-engine mutations bench clean

help:  ## Say what can be made
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# The stamp is newer than pyproject.toml exactly when everything in it is installed, so a second start costs nothing.
# Python compiles what it imports; compiling all that was installed beforehand takes a minute.
$(INSTALLED): pyproject.toml
	@command -v java >/dev/null || { echo "Java is missing: apt install openjdk-17-jre-headless" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; name one: make PYTHON=python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "Making the virtual environment"; $(PYTHON) -m venv $(VENV); } \
	  || { echo "The venv module is missing: apt install python3-venv" >&2; rm -rf $(VENV); exit 1; }
	@echo "Installing the canary and what it needs (the first time a few minutes)"
	@$(BIN)/python -m pip install --disable-pip-version-check --no-compile --editable '.[dev]'
	@touch $@

install: $(INSTALLED)  ## Make .venv and install the canary in it

brokers: $(INSTALLED)  ## Fetch the Kafka brokers (once; kept in ~/.cache/kafka-durability-canary)
	@$(BIN)/canary lab fetch

run: brokers  ## Start three brokers, the canary and its status page; everything it writes is in ./var; Ctrl-C ends it
	@exec $(BIN)/canary up

# A process has one Spark at most, and who stops it stops everybody's: files that share one run in one process, files
# that start their own in one each.
SPARK_SHARED := $(addprefix tests/spark_reconcile/test_,bad_input.py dump.py ordering.py ranges.py reconciling.py)
SPARK_ALONE := $(addprefix tests/spark_reconcile/test_,history_engine.py kills.py nightly.py) tests/cli/test_check_command.py
SPARK_TESTS := $(SPARK_SHARED) $(SPARK_ALONE)

LINT := $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

# Tests on real brokers wait more than they work: the others run beside them, and their output is shown at the end.
BROKER_LOG := build/test-brokers.log

test: brokers  ## Everything that needs no Debian packages: linters, types, unit tests, tests on real brokers
	@mkdir -p build; failed=; trap 'kill $$(jobs -p) 2>/dev/null || true' EXIT; \
	echo "Tests on real brokers run beside these; so far: tail -f $(BROKER_LOG)"; \
	$(PYTEST) --durations 20 -m 'kafka and not slow and not e2e' $(SPARK_TESTS:%=--ignore=%) > $(BROKER_LOG) 2>&1 & \
	brokers=$$!; \
	{ $(LINT); } || failed=1; \
	$(PYTEST) --durations 20 -m 'not kafka and not slow and not e2e' $(SPARK_TESTS:%=--ignore=%) || failed=1; \
	$(PYTEST) --durations 3 $(SPARK_SHARED) || failed=1; \
	for file in $(SPARK_ALONE); do $(PYTEST) --durations 3 $$file || failed=1; done; \
	wait $$brokers || failed=1; cat $(BROKER_LOG); \
	test -z "$$failed"

# The alert's way to the webhook and back takes five minutes, most of them waiting: the others go on beside it.
ALERT_TEST := tests/e2e/test_alert_reaches_webhook.py
ALERT_LOG := build/test-alert.log

test-e2e: brokers  ## Tests with real Prometheus, Alertmanager and browser (needs their Debian packages)
	@mkdir -p build; failed=; trap 'kill $$(jobs -p) 2>/dev/null || true' EXIT; \
	$(PYTEST) -m e2e $(ALERT_TEST) > $(ALERT_LOG) 2>&1 & \
	alert=$$!; \
	$(PYTEST) -m e2e --ignore=$(ALERT_TEST) || failed=1; \
	wait $$alert || failed=1; cat $(ALERT_LOG); \
	test -z "$$failed"

lint: $(INSTALLED)  ## Style, types and the direction of imports
	@$(LINT)

format: $(INSTALLED)  ## Format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix-only --quiet .

soak-engine: $(INSTALLED)  ## The long form of the anomaly engine's tests (hours)
	@$(PYTEST) -m slow --timeout 0 tests/anomalies

mutations: $(INSTALLED)  ## Break each definition of the anomaly engine on purpose, and see a test fail (hours)
	@$(BIN)/python -m tests.mutations

bench: $(INSTALLED)  ## Costs, measured and compared in one run
	@$(PYTEST) -m '' --timeout 0 -s tests/benchmarks

clean:  ## Remove what was made here (not .venv, not the brokers, not ./var)
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse metastore_db
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

# Needs Python 3.11 to 3.13 (Debian: python3 python3-venv) and Java 17 (Debian: openjdk-17-jre-headless), and nothing
# else: no root, no containers. Only test-e2e needs more Debian packages, and the jar of receipts-java a JDK and Maven.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
FOR_USERS := $(VENV)/.for-users
INSTALLED := $(VENV)/.installed
UV_VERSION := 0.13.9
UV := $(shell uv --version >/dev/null 2>&1 && command -v uv || echo $(CURDIR)/.uv/bin/uv)
SYNC := $(UV) sync --locked --inexact --no-python-downloads

# Python keeps what it has compiled: without that every process compiles the libraries again, for seconds.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest

.PHONY: help install brokers pin run test test-quick test-e2e test-slow test-simulation test-all lint format soak soak-simulated mutations coverage bench receipts-java image clean

help:  ## Say what can be made
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(CURDIR)/.uv/bin/uv:
	@echo "Getting uv $(UV_VERSION), which installs the rest"
	@$(PYTHON) -m venv .uv || { echo "The venv module is missing: apt install python3-venv" >&2; rm -rf .uv; exit 1; }
	@.uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

# A stamp is newer than pyproject.toml and uv.lock exactly when everything it stands for is installed as they say, so a
# second start costs nothing. Nothing is uninstalled: what users and what tests need live together in .venv. The base is
# compiled at once, because several processes start with it at the same time; the rest is compiled when it is imported.
$(FOR_USERS): pyproject.toml uv.lock | $(UV)
	@command -v java >/dev/null || { echo "Java is missing: apt install openjdk-17-jre-headless" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
	  || { echo "Python 3.11, 3.12 or 3.13 is needed; name one: make PYTHON=python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || $(UV) venv --quiet --python "$$(command -v $(PYTHON))" --no-python-downloads $(VENV)
	@echo "Installing the canary, Spark for the nights, and what they need (the first time a minute)"
	@$(SYNC) --no-default-groups --compile-bytecode
	@$(SYNC) --no-default-groups --extra spark --extra pictures
	@touch $@

$(INSTALLED): $(FOR_USERS)
	@echo "Installing what tests need"
	@$(SYNC) --all-extras
	@touch $@

install: $(INSTALLED)  ## Make .venv and install the canary in it, with all its extras and what tests need

brokers: $(FOR_USERS)  ## Fetch the Kafka brokers (once; kept in ~/.cache/kafka-durability-canary)
	@$(BIN)/canary lab fetch

pin: $(FOR_USERS)  ## Pin the jars of another version of Kafka (needs Maven): make pin KAFKA=4.3.1
	@$(BIN)/python -m canary.lab.jars.pinning $(KAFKA)

run: brokers  ## Start three brokers, the canary and its status page; everything it writes is in ./var; Ctrl-C ends it
	@exec $(BIN)/canary up

test test-quick test-e2e test-slow test-simulation test-all: $(INSTALLED)

# What runs in which lane is said by markers (tests/support/lanes.py), what runs at all by MARKERS (an expression of
# pytest's; none: everything, as .ci/run does), and how lanes run by tests/lanes.sh.
LANES := source tests/lanes.sh
CACHE := $(or $(CANARY_CACHE),$(HOME)/.cache/kafka-durability-canary)
FAST := not slow and not e2e
LINT := lane types $(BIN)/mypy --cache-dir $(CACHE)/mypy; lane style \
	bash -c '$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports'
FOUR = for name in calm quick spark cpu; do lane $$name $(PYTEST) --lane $$name -m '$(MARKERS)'; done

test: MARKERS := $(FAST)
test: brokers  ## Everything that needs no Debian packages: linters, types, unit tests, tests on real brokers
	@$(LANES); $(FOUR); $(LINT); ended

test-quick: brokers  ## In two minutes: linters, types, unit tests that are not dear with a fifth of their cases, and one round on real brokers
	@$(LANES); \
	lane round $(PYTEST) --lane calm -m round; \
	lane cpu $(PYTEST) -n 3 --lane cpu --explore 0.2 -m '$(FAST) and not dear and not simulator'; \
	$(LINT); ended

test-e2e: MARKERS := e2e
test-e2e: brokers  ## Tests with real Prometheus, Alertmanager and browser (needs their Debian packages)
	@$(LANES); $(FOUR); ended

test-slow: MARKERS := slow
test-slow: brokers  ## The short form of what make test has no time for: a night, other Kafkas, credentials, topics' lives, drills
	@$(LANES); $(FOUR); ended

test-simulation: MARKERS := simulator
test-simulation: PYTEST += --simulator
test-simulation: brokers  ## The simulator's own tests, all of them, whatever has changed (tests/support/affected.py)
	@$(LANES); $(FOUR); ended

test-all: brokers  ## Everything in its long form, with many more examples (hours; make bench is apart)
	@$(LANES); $(LINT); \
	lane everything $(PYTEST) --durations 30 --timeout 0 --long --simulator --explore 20 -m ''; \
	lane mutations $(BIN)/python -m tests.mutations; \
	ended

lint: $(INSTALLED)  ## Style, types and the direction of imports
	@$(LANES); $(LINT); ended

format: $(INSTALLED)  ## Format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix-only --quiet .

soak-engine: $(INSTALLED)  ## The long form of the anomaly engine's tests (hours)
	@$(PYTEST) --explore 200 --timeout 0 tests/anomalies

soak: brokers $(INSTALLED)  ## An hour on real brokers that fail, and a hundred times kill -9 (MINUTES=5 KILLS=20: less)
	@$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),60)
	@$(BIN)/python -m tests.soak kills --times $(or $(KILLS),100)

soak-simulated: $(INSTALLED)  ## Lives in the simulated world, from fresh seeds (hours)
	@$(BIN)/python -m simulation --cpu-seconds 28800 --first $$RANDOM$$RANDOM

# Set for a recipe that is run by this one, and for every Python that tests start.
coverage: export COVERAGE_FILE := $(CURDIR)/build/coverage/data
coverage: $(INSTALLED)  ## Which lines of the product no test reaches (MARKERS=: with all that .ci/run does)
	@rm -rf build/coverage && mkdir -p build/coverage
	@$(MAKE) --no-print-directory test PYTEST='$(BIN)/python -m coverage run --rcfile $(CURDIR)/pyproject.toml -m pytest' || echo "Some tests failed: what they would have reached is missing" >&2
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --skip-covered --sort=miss | tee build/coverage/report
	@for package in canary api storage spark_reconcile canary_receipts; do \
	  echo "$$package $$($(BIN)/coverage report --include "$$package/*" --format=total --precision=2) %"; done

mutations: $(INSTALLED)  ## Break each definition of the anomaly engine on purpose, and see a test fail (an hour)
	@$(BIN)/python -m tests.mutations

bench: brokers $(INSTALLED)  ## Measure costs and compare them (hours; also: make bench BENCH=check ROUNDS=1 WRITE=--write)
	@$(BIN)/python -m tests.benchmarks $(BENCH) --rounds $(or $(ROUNDS),0) $(WRITE)

test-kubernetes: brokers $(INSTALLED)  ## The chart on one real node of this machine (root, Debian, Go; an hour the first time)
	@deploy/kubernetes/node.sh build
	@deploy/image.sh localhost/kafka-durability-canary:proof
	@tests/kubernetes/parts.sh
	@$(BIN)/python -m tests.kubernetes localhost/kafka-durability-canary:proof localhost/canary-parts:1 | tee docs/kubernetes-proof.md

test-image: brokers $(INSTALLED)  ## The image read-only, without rights and network, and a night in it (podman; IMAGE=NAME:TAG)
	@tests/kubernetes/parts.sh
	@$(BIN)/python -m tests.image $(IMAGE) localhost/canary-parts:1 | tee docs/image-proof.md

image:  ## Build the image (Debian: buildah, syft from Go; BASE=debian where no registry is reachable: debootstrap, too)
	@deploy/image.sh $(IMAGE)

receipts-java:  ## Build the jar that lets Java producers write receipts (JDK and Maven; Debian: default-jdk-headless maven)
	@mvn --batch-mode --quiet --file receipts-java/pom.xml compiler:compile jar:jar
	@ls receipts-java/target/*.jar

clean:  ## Remove what was made here (not .venv, not the brokers, not ./var)
	rm -rf build dist receipts-java/target .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse metastore_db
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

# geotrain: everything a person or CI runs. `make help` lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The first Python that is new enough, else python3, of which the preflight then says what is wrong.
PYTHON_BASE ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null && echo $$p && exit; done; echo python3)
VENV := .venv
PYTHON := $(VENV)/bin/python
export PYTHONSAFEPATH := 1
# What is imported is compiled once: some hundred processes of the tests import the same.
unexport PYTHONDONTWRITEBYTECODE

-include make/*.mk

help: ## List the targets
	@sed -nE 's/^([a-z][a-z0-9-]*):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | sort | while IFS=$$'\t' read -r name what; do printf '%-18s %s\n' "$$name" "$$what"; done

GOAL ?= demo
PREFLIGHT = command -v $(PYTHON_BASE) > /dev/null || { echo "$(PYTHON_BASE) is missing: apt-get install python3"; exit 2; }; $(PYTHON_BASE) make/preflight.py
preflight: ## Say what this machine lacks for GOAL (demo; or check, clusters, test), and install it as root (INSTALL=no refuses)
	@$(PREFLIGHT) $(GOAL)
	@echo "make $(GOAL): nothing is missing"

# --- development ---

$(VENV)/.stamp: requirements-dev.lock pyproject.toml
	@test -x $(PYTHON) || $(PYTHON_BASE) -m venv $(VENV)
	@echo "installing Python packages into $(VENV) (about a minute)"
	@# --no-compile: what is imported is compiled then, and most of it never is
	@$(PYTHON) -m pip install --quiet --no-compile --require-hashes -r requirements-dev.lock
	@$(PYTHON) -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

venv: $(VENV)/.stamp ## Make .venv from the lock file

lock: ## Renew requirements.lock and requirements-dev.lock from pyproject.toml
	$(PYTHON) -m piptools compile --quiet --strip-extras --generate-hashes --allow-unsafe --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header --extra fast -o requirements.lock pyproject.toml
	$(PYTHON) -m piptools compile --quiet --strip-extras --generate-hashes --allow-unsafe --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header --extra dev --extra docs --extra fast --extra optimal -o requirements-dev.lock pyproject.toml
	@# pip-compile drops this marker; elsewhere there is no wheel, and nothing else needs it
	@sed -i "s/^\(atheris==[^ ]*\)/\1 ; sys_platform == 'linux' and platform_machine == 'x86_64'/" requirements-dev.lock

fmt: venv ## Format the code
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/ruff check --fix .

lint: venv ## Check style
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .

types: venv ## Check types
	@$(VENV)/bin/mypy

layers: venv ## Check the direction of imports
	@PYTHONPATH=operator $(VENV)/bin/lint-imports

unit: venv ## Run the unit tests
	@$(VENV)/bin/pytest tests/unit --quiet --numprocesses=auto -m "not figures"

cover: venv ## Run the unit tests, traced line by line; all that is pure must be covered whole
	@$(VENV)/bin/pytest tests/unit --quiet --numprocesses=auto -m "not figures" --cov --cov-report=term

figures: venv ## Hold the planner against published figures and committed digests
	@$(VENV)/bin/pytest tests/unit --quiet --numprocesses=auto -m figures

SECONDS ?= 60
fuzz: venv ## Fuzz what reads users' files, each for SECONDS (60); findings go to .fuzz/
	@PYTHONPATH=tests $(PYTHON) -m fuzz --seconds $(SECONDS)

property: venv ## Run the property tests with twelve times as many examples, new ones each time
	@GEOTRAIN_THOROUGH=1 $(VENV)/bin/pytest tests/unit --quiet -m hypothesis

integration: venv programs ## Run the tests that need sockets, network namespaces and bare control planes
	@$(VENV)/bin/pytest tests/integration -ra --numprocesses=auto --maxprocesses=4 --dist=loadfile

demo: ## Run the main job on three local clusters, from nothing to a summary
	@$(PREFLIGHT) demo
	@$(MAKE) --no-print-directory venv
	@PYTHONPATH=. $(PYTHON) -m e2e.demo

e2e: load-images ## Run the tests on the three clusters (makes them when they are missing)
	@$(VENV)/bin/pytest e2e -ra

verify: venv ## Check that generated files are up to date
	@$(PYTHON) -m geotrain.api.crd --check
	@$(PYTHON) -m geotrain.cli.reference --check
	@$(PYTHON) -m geotrain.cli.chart_values --check
	@$(PYTHON) -m geotrain.cli.pictures --check

docs: venv ## Build the site from docs/ into build/site; a dead link is an error
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet

crds: venv ## Write crds/, the chart's copies, docs/reference, docs/cli.md and the pictures of schedules from the code
	@$(PYTHON) -m geotrain.api.crd
	@$(PYTHON) -m geotrain.cli.reference
	@$(PYTHON) -m geotrain.cli.chart_values
	@$(PYTHON) -m geotrain.cli.pictures

answers: venv ## Renew what docs/plans.md shows and what nasty inputs are answered with: read both before a commit
	@PYTHONPATH=tests $(PYTHON) -m support.nasty
	@PYTHONPATH=tests $(PYTHON) -m support.readings

digests: venv ## Renew the digests of plans, explorations and schedules, after a change on purpose
	@PYTHONPATH=tests $(PYTHON) -m support.outputs > .digests.json
	@mv .digests.json tests/unit/planning/data/digests.json

check: ## The fast part: for every commit, under two minutes
	@$(PREFLIGHT) check
	@$(MAKE) --no-print-directory lint types layers verify unit

test: ## Run every test
	@$(PREFLIGHT) test
	@$(MAKE) --no-print-directory lint types layers verify cover
	@$(TESTBED) build
	@$(MAKE) --no-print-directory SECONDS=5 figures fuzz integration e2e

.PHONY: help preflight venv lock fmt lint types layers unit cover figures fuzz property integration e2e verify docs crds answers digests check test demo

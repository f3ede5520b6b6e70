# acpbench: `make sweep` measures, `make test` checks; both set the machine up first.

.DEFAULT_GOAL := help
.PHONY: help setup sweep test long agents lint chaos floods forgery soak images doctor clean

PYTHON_FILES := runner tests
JAVASCRIPT_FILES := images/gateway tests/agents tests/bench
# Files side by side, a worker a core; one that times runs takes them one at a time anyway.
PARALLEL := --numprocesses=auto --maxprocesses=4 --dist=loadfile
TESTS := $(wildcard tests/unit tests/engine tests/hostile)

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Virtual environment, container engine and images: whatever is missing
	@.setup/setup.sh

sweep: setup ## The main job: one agent over three surfaces, and the table
	@.venv/bin/acpbench sweep configs/sweeps/three-surfaces.yaml

lint: ## ruff, the import contract, mypy; for JavaScript biome and tsc (no engine is needed)
	@.setup/setup.sh --lint
	.venv/bin/ruff check $(PYTHON_FILES)
	.venv/bin/ruff format --check $(PYTHON_FILES)
	.venv/bin/lint-imports --no-logo --cache-dir .cache/imports
	.venv/bin/mypy
	.setup/javascript/check.sh $(JAVASCRIPT_FILES)

test: setup lint ## lint, then the tests: units, the engine, the real adapter over every surface
	.venv/bin/python -m pytest $(PARALLEL) $(TESTS)

long: setup ## The long suites: other adapters, registries, the study, replays, nightly, a hundred hostile agents, chaos
	.venv/bin/python -m pytest -m "long and not agents" $(TESTS)

chaos: setup ## Kill controller, gateway, agents and engine at random moments, resume, count what is left
	@.venv/bin/python -m tests.hostile.chaos --kills 24

agents: setup ## Build every adapter, hold it against its measured facts, and run all of them over all their surfaces
	.venv/bin/python -m pytest tests/engine/test_agents.py tests/engine/test_versions.py -m agents
	@.venv/bin/acpbench sweep configs/sweeps/all-agents.yaml

floods: setup ## What an agent prints by the gigabyte, and our own peak memory meanwhile
	@.venv/bin/python -m tests.hostile.floods

forgery: setup ## Every way to forge a verdict that we know, judged: none may pass, none may be tried again
	@.venv/bin/python -m tests.hostile.forgery

soak: setup ## 200 runs in one process: what it holds at the start and at the end
	@.venv/bin/python -m tests.hostile.soak --runs 200

images: setup ## Which images are built, and whether their programs are what the pins say
	@.venv/bin/acpbench images list
	@.venv/bin/acpbench images verify

doctor: setup ## What the engine is and what it costs by itself
	@.venv/bin/acpbench doctor

clean: ## Remove our containers and volumes, the caches and the virtual environment (results and images stay)
	@if [ -x .venv/bin/acpbench ]; then .venv/bin/acpbench clean || true; fi
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Needs python3.11 or newer with venv, and make; everything else comes from pyproject.toml.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
# Where bytecode may not be kept, each of the some hundred processes of a test run compiles roost.
unexport PYTHONDONTWRITEBYTECODE
# How many tests run at a time; each process of them may keep a core busy.
JOBS ?= 2
# They read all of the source and are about nothing else.
HOUSE := tests/test_tidy.py tests/test_layers.py tests/test_docs.py tests/test_guide.py
BIN := .venv/bin
STAMP := .venv/stamp
LITE := .venv/stamp-lite
ENGINES := .venv/stamp-engines
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check install

.DEFAULT_GOAL := help
.PHONY: help install check test test-engines test-vllm test-drills test-web test-clients test-fast sim sim-mutants drills experiments bench-gateway bench-overload bench-sessions bench-prefix bench-node bench-dialects bench-models bench-homecoming bench-hosted bench-engines demo docs format clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The demo needs no developer tools: the first `make demo` installs only what runs.
$(LITE): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing roost into .venv (once)"
	@$(PIP) -e '.[llama]'
	@touch $@

$(STAMP): $(LITE)
	@echo "installing developer tools into .venv (once)"
	@$(PIP) -e '.[llama,dev]'
	@touch $@

install: $(STAMP) ## set up .venv with roost and the developer tools

check: $(STAMP) ## format, lint, strict types, tidy, layers, docs, spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q $(HOUSE)
	$(BIN)/codespell

test: $(STAMP) ## the default test run, real model included; `check` has the rest
	$(BIN)/python -m pytest -m "engine and not long and not vllm"
	$(BIN)/python -m pytest -m "not engine and not drill and not web and not clients" \
		-n $(JOBS) --dist worksteal $(HOUSE:%=--ignore=%)

$(ENGINES): $(STAMP) tests/engines/constraints.txt
	@echo "installing engines into .venv (once, about 1.7 GB)"
	@$(PIP) -e '.[llama,dev,transformers,onnx-convert,mlx,candle]' -c tests/engines/constraints.txt
	@touch $@

test-engines: $(ENGINES) ## what takes long with real engines
	$(BIN)/python -m pytest -m long

# 3.5 GB, and repairs that depend on the machine: whoever has one names its program.
test-vllm: $(ENGINES) ## a vLLM of your own on a small real model; VLLM=/opt/vllm/bin/vllm
	VLLM=$(VLLM) $(BIN)/python -m pytest -m vllm

test-drills: $(STAMP) ## every drill in its short form, on real processes
	$(BIN)/python -m pytest -m drill

test-web: $(STAMP) ## the web pages in headless Chromium, and their scripts in Node
	@tests/web/install.sh
	$(BIN)/python -m pytest -m web

# Each folder has programs that cannot live together; Node and npm come with the system.
CLIENTS := frameworks older oldest
$(CLIENTS:%=.venv/clients/%/stamp): .venv/clients/%/stamp: tests/clients/%.txt
	@echo "installing tests/clients/$*.txt (once)"
	@$(PYTHON) -m venv .venv/clients/$*
	@.venv/clients/$*/bin/python -m pip --quiet --disable-pip-version-check install -r $<
	@touch $@

tests/clients/js/node_modules/stamp: tests/clients/js/package-lock.json
	@tests/clients/install.sh
	@touch $@

test-clients: $(STAMP) $(CLIENTS:%=.venv/clients/%/stamp) tests/clients/js/node_modules/stamp ## what others ask with: SDKs in JavaScript and Python, LangChain, LiteLLM …
	$(BIN)/python -m pytest -m clients

test-fast: $(STAMP) ## what can be tested in seconds
	$(BIN)/python -m pytest -q -m "not slow and not engine and not drill and not web and not clients"

sim: $(STAMP) ## 500 seeds of the simulated fleet, under faults
	$(BIN)/python -m roost.sim.run --seeds 500
	@echo "production machines only; \`make sim-mutants\` sweeps the defective ones"

sim-mutants: $(STAMP) ## 200 seeds of every defective machine (many minutes)
	$(BIN)/python -m roost.sim.run --mutants 200

drills: $(STAMP) ## kill, flood, stall and leave real processes
	$(BIN)/python -m roost.bench.drills

# Needs a real model; without MODEL it is the one of the tests, which is fetched once.
experiments: $(STAMP) ## E1 to E17 in small form, and their pages; ONLY=E4 MODEL=file.gguf
	$(BIN)/python -m roost.bench.experiments --only "$(ONLY)" \
		--real "$(or $(MODEL),$$($(BIN)/python -m tests.smollm2))"

bench-gateway: $(STAMP) ## CPU and latency the gateway adds
	$(BIN)/python -m roost.bench.gateway

bench-sessions: $(STAMP) ## a next turn's first token, wherever its KV was; MODEL=file.gguf
	$(BIN)/python -m roost.bench.sessions --real $(MODEL)

bench-homecoming: $(STAMP) ## how much of a next turn is cached, on two nodes; MODEL=file.gguf
	$(BIN)/python -m roost.bench.homecoming --real $(MODEL)

bench-prefix: $(STAMP) ## eight requests with one long beginning, beside stock llama.cpp; MODEL=file.gguf
	$(BIN)/python -m roost.bench.prefix --real $(MODEL)

bench-node: $(STAMP) ## throughput and first tokens beside the bare llama.cpp server; MODEL=file.gguf
	$(BIN)/python -m roost.bench.overhead --real $(MODEL)

bench-hosted: $(ENGINES) ## hosted libraries beside the same called directly; MODELS=ROOST_HOME
	$(BIN)/python -m roost.bench.frames
	$(BIN)/python -m roost.bench.hosted --home $(MODELS)

bench-engines: $(ENGINES) ## load, memory, prefill and decode of every engine; MODELS=ROOST_HOME
	$(BIN)/python -m roost.bench.engines --home $(MODELS)

bench-models: $(STAMP) ## a report of 16 runtimes, and a load that begins beside another
	$(BIN)/python -m roost.bench.residency

bench-dialects: $(STAMP) ## what an event of a stream and a long history cost the gateway
	$(BIN)/python -m roost.bench.dialects

bench-overload: $(STAMP) ## goodput, refusals and recovery at ten times the capacity
	$(BIN)/python -m roost.bench.overload

# `exec` makes roost the recipe's own process, so Ctrl-C and TERM reach it and nothing in between
# turns its exit status into another one.
demo: $(LITE) ## pull a small real model and serve it on 127.0.0.1:7878
	@exec $(BIN)/roost demo

docs: $(STAMP) ## write the reference pages that come from code
	$(BIN)/python -m tests.reference

format: $(STAMP) ## rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove .venv and every cache
	rm -rf .venv tests/clients/js/node_modules build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

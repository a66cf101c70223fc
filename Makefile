# make run     the hub with the pool behind it, from nothing but Python 3.11+ and Node.js 20+
# make run-kubernetes: the same on a real Kubernetes cluster on this machine, whose pods are notebooks and jobs (needs root)
# make test    the whole suite; make lint: formatters, linters, types; make bench: the figures
# make soak    the scheduler's memory over two hours at 20 events a second; make soak MINUTES=10: over ten minutes;
#              make soak DAYS=1: over a day by a clock of its own, in about six minutes
# make chaos   everything is killed, cut off, damaged and fuzzed for half an hour, and a table of what held
# make frameworks: PyTorch, TensorFlow, JAX and MPI for the tests of distributed jobs, kept in ~/.cache
# make kubernetes: a real Kubernetes for the tests, built once from Go modules, kept in ~/.cache
# Everything that is installed goes into .venv and the two node_modules. What is up to date is not done again.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
DONE := $(VENV)/done
UV_INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python
FRONT_END := $(shell find labextension deploy/proxy -type f -not -path '*/node_modules/*' -not -path '*/lib/*' \
	-not -name package-lock.json -not -name '*.tsbuildinfo')

export PATH := $(CURDIR)/$(BIN):$(PATH)
export HATCH_JUPYTER_BUILDER_SKIP_NPM := 1
# The state of the hub that `make run` starts, and what else to tell it: make run ARGS="--port 9000 --gpus 4"
STATE ?= .runai
ARGS ?=
# How long `make soak` takes; DAYS=1 is virtual time, instead.
MINUTES ?= 120
DAYS ?=

.PHONY: help run run-kubernetes install test lint bench chaos soak frameworks kubernetes wheel lock clean

help:
	@sed -n '1,8s/^# //p' Makefile

run: install
	@exec $(BIN)/jupyter-runai up --state-dir=$(STATE) $(if $(filter 0,$(shell id -u)),--allow-root) $(ARGS)

run-kubernetes: install $(DONE)/requirements-test kubernetes
	@exec $(BIN)/python -m tests.kubernetes.run $(ARGS)

install: $(DONE)/package

# -- Python ---------------------------------------------------------------------------------------------------

$(BIN)/uv: deploy/requirements-uv.txt
	@deploy/make-venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<

$(DONE)/requirements: deploy/requirements.txt | $(BIN)/uv
	@echo "Installing Python packages into $(VENV) …"
	@$(UV_INSTALL) --compile-bytecode --require-hashes -r $<
	@mkdir -p $(DONE) && touch $@

$(DONE)/requirements-test: deploy/requirements-test.txt $(DONE)/requirements
	@echo "Installing what the tests need …"
	@$(UV_INSTALL) --require-hashes -r $<
	@touch $@

# -- npm ------------------------------------------------------------------------------------------------------

$(DONE)/npm-labextension: labextension/package-lock.json | $(DONE)/requirements
	@deploy/check-node
	@echo "Installing npm packages for the front end …"
	@npm ci --prefix labextension --silent
	@touch $@

$(DONE)/npm-proxy: deploy/proxy/package-lock.json | $(DONE)/requirements
	@deploy/check-node
	@npm ci --prefix deploy/proxy --silent
	@touch $@

$(DONE)/front-end: $(DONE)/npm-labextension $(DONE)/npm-proxy $(FRONT_END)
	@echo "Building the JupyterLab extension …"
	@(npm run --prefix labextension build:prod && npm run --prefix deploy/proxy build) >$(DONE)/front-end.log 2>&1 \
		|| { cat $(DONE)/front-end.log; exit 1; }
	@touch $@

$(DONE)/package: pyproject.toml $(DONE)/requirements $(DONE)/front-end deploy/jupyter-config/server-config/jupyter_ext.json
	@$(UV_INSTALL) --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q scheduler hub_spawner jupyter_ext
	@touch $@

# -- checks ---------------------------------------------------------------------------------------------------

lint: install $(DONE)/requirements-test
	ruff format --check .
	ruff check .
	mypy
	npm run --prefix labextension --silent lint:check

test: install $(DONE)/requirements-test
	@deploy/install-chromium
	npm test --prefix labextension --silent
	pytest -n auto --dist loadfile --no-loadscope-reorder

bench: install $(DONE)/requirements-test
	@$(BIN)/python tests/benchmarks/run.py

chaos: install $(DONE)/requirements-test   # RUNAI_SEED=… repeats the random kills and power cuts of a run
	@$(BIN)/python -m tests.chaos.run

soak: install $(DONE)/requirements-test
	@$(BIN)/python -m tests.chaos.soak $(if $(DAYS),--days $(DAYS),--minutes $(MINUTES))

wheel: $(DONE)/front-end
	$(BIN)/uv build --python $(BIN)/python --no-build-isolation --wheel --out-dir dist

frameworks: $(BIN)/uv   # without them the tests of distributed jobs are skipped
	@deploy/frameworks install $(BIN)/uv $(BIN)/python

kubernetes:   # without it the tests on a real cluster are skipped
	@tests/kubernetes/install-containerd
	@tests/kubernetes/binaries install

# -- upkeep ---------------------------------------------------------------------------------------------------

LOCK := $(BIN)/uv --quiet pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-annotate --custom-compile-command "make lock" $(UPGRADE)

lock: $(BIN)/uv   # make lock UPGRADE=--upgrade takes the newest versions
	$(LOCK) --extra hub --extra examples --group build -o deploy/requirements.txt
	$(LOCK) --all-extras --group build -c deploy/requirements.txt -o deploy/requirements-test.txt
	$(LOCK) --group frameworks -c deploy/requirements-test.txt -o deploy/requirements-frameworks.txt
	echo uv | $(BIN)/uv --quiet pip compile - --universal --generate-hashes --no-annotate \
		--custom-compile-command "make lock" $(UPGRADE) -o deploy/requirements-uv.txt

clean:
	rm -rf $(VENV) labextension/node_modules deploy/proxy/node_modules labextension/lib \
		jupyter_ext/labextension scheduler/api/static hub_spawner/chp dist

# Every target makes `.venv` and installs what it needs when that is not there yet.
# PYTHON: the interpreters to try, in order; the first that is new enough and has pip makes `.venv`.
# WORKERS: the processes that share the tests.
# ARGS: more arguments for pytest, such as ARGS='-x -k linear'.
# COVERAGE: not empty if `make test` measures which lines of the package its tests run.
# NAMES: the programs that `make programs` runs with flambeau and with PyTorch; all if not given.
# SECONDS, SEED: how long `make fuzz` searches for disagreements, and where it begins.

PYTHON ?= python3.13 python3.12 python3.11 python3
WORKERS ?= 2
ARGS ?=
COVERAGE ?=
NAMES ?=
SECONDS ?= 3600
SEED ?= 1

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal
COMMA := ,
MEASURING := $(if $(COVERAGE),--cov flambeau --cov-report html:coverage --cov-report term:skip-covered)
EXAMPLES := $(wildcard examples/*.py)
BENCHMARKS := $(filter-out benchmarks/_%,$(wildcard benchmarks/*.py))

# What catches most mistakes in about a minute.
QUICK := tests/test_architecture.py tests/compile/test_program.py tests/compile/test_equals_eager.py \
	tests/autograd/test_backward.py tests/optim/test_optimizer.py tests/checkpoint/test_io.py \
	$(addprefix tests/core/test_,tensor.py attributes.py op.py view.py viewing.py tape.py engine.py) \
	$(addprefix tests/nn/test_,module.py calling.py parameter.py hooks.py state_dict.py)

.DEFAULT_GOAL := test
.NOTPARALLEL:
.PHONY: demo examples test quick conformance fuzz programs bench kernels docs look pythons lint clean

demo: $(VENV)/.groups-demo
	$(BIN)/python examples/digits.py

examples: $(VENV)/.groups-demo
	@set -e; for script in $(EXAMPLES); do echo "$$script"; $(BIN)/python "$$script"; done

# With full optimization, which `make conformance` has, XLA takes most of the time.
test: $(VENV)/.groups-test$(if $(COVERAGE),$(COMMA)coverage)
	FLAMBEAU_CONFORMANCE=0 XLA_FLAGS="$$($(BIN)/python -m tests.fuzz.quick_xla)" $(PYTEST) --doctest-modules flambeau tests $(MEASURING) $(ARGS)

quick: $(VENV)/.groups-test
	$(PYTEST) $(QUICK) $(ARGS)

conformance: $(VENV)/.groups-test,conformance
	$(PYTEST) tests/conformance tests/fuzz tests/programs $(ARGS)

fuzz: $(VENV)/.groups-test,conformance
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --seed $(SEED)

programs: $(VENV)/.groups-test
	$(BIN)/python -m tests.programs $(NAMES)

# Keeps the results, and writes the figures of the pages from them. It takes about an hour of an idle machine with 20 GB
# of memory.
bench: export RESULTS := $(CURDIR)/benchmarks/results
bench: $(VENV)/.groups-bench,kernels
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) \
		--no-build-isolation --no-deps ./kernels
	@set -e; for script in $(BENCHMARKS); do echo "$$script"; $(BIN)/python "$$script"; done
	@set -e; for script in models layers; do echo "$$script, all cores"; $(BIN)/python benchmarks/$$script.py --all-cores; done
	$(BIN)/python -m tools.figures
	$(BIN)/python -m tools.pictures

# The check runs with the sanitizers and each set of instructions that this processor has.
kernels: $(VENV)/.groups-test,kernels
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S kernels -B build/kernels -G Ninja -DFLAMBEAU_SANITIZE=ON
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build build/kernels --target check
	@set -e; for set in avx512 avx2 plain; do FLAMBEAU_KERNELS_ISA=$$set build/kernels/check 10; done
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) \
		--no-build-isolation --no-deps --force-reinstall ./kernels
	FLAMBEAU_CONFORMANCE=0 $(PYTEST) tests/ops/native tests/ops/neural/test_convolution.py \
		tests/nn/functional/test_attention.py 'tests/test_many_devices.py::test_on_eight_devices[on_eight_kernels.py]' \
		tests/test_several_processes.py::test_native_kernels $(ARGS)

docs: $(VENV)/.groups-docs
	$(BIN)/python -m sphinx --quiet --jobs auto --fail-on-warning --keep-going docs docs/_build
	@echo "docs/_build/index.html"

# Skipped, with a message, where no Chromium is installed.
look: docs
	$(BIN)/python -m tools.look

pythons: $(VENV)/.groups-test
	$(BIN)/python -m tools.pythons --workers $(WORKERS)

lint: $(VENV)/.groups-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/python -m tools.completeness

clean:
	rm -rf $(VENV) .venv-pythons coverage .coverage build dist docs/_build docs/reference .hypothesis .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp for each list of dependency groups, which pip 25.1 learned to install. It is out of date when what may be
# installed has changed.
$(VENV)/.groups-%: pyproject.toml constraints.txt | $(VENV)/.usable
	$(PIP) --upgrade 'pip>=25.1'
	$(PIP) --constraint constraints.txt --editable . $(addprefix --group ,$(subst $(COMMA), ,$*))
	@touch $@

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

$(VENV)/.usable:
	@set -e; \
	if ! $(BIN)/python -c 'import pip; $(NEW_ENOUGH)' 2>/dev/null; then \
		for candidate in $(PYTHON) ''; do \
			if [ -z "$$candidate" ]; then \
				echo "make: none of '$(PYTHON)' is a Python 3.11 or newer with venv and pip;" \
					"name one with PYTHON=..." >&2; \
				exit 1; \
			fi; \
			if "$$candidate" -c 'import ensurepip, venv; $(NEW_ENOUGH)' 2>/dev/null; then break; fi; \
		done; \
		echo "$$candidate -m venv $(VENV)"; \
		"$$candidate" -m venv --clear $(VENV); \
	fi; \
	touch $@

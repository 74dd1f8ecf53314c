# Each command works from nothing: it makes its virtual environment, installs what it needs, then runs.
# Stamp files in the environment remember what is installed, so the second run starts at once.

PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
HYPOTHESIS_PROFILE ?= ci
TEST_TIMEOUT ?= 300
# A race lost on a busy machine is run once more, alone, when all else is done; AGAIN=0 lets it fail at once.
AGAIN ?= 1
ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# On two busy cores torch took ten times as long or more over small matrices with two threads as with one.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# Differential tests and benchmarks compare with exactly this release.
ORACLE_PIN := torch==2.13.0
ifeq ($(ORACLE),1)
oracle := $(VENV)/.oracle
endif

# Tests, and once more alone those that have failed.
define tested
export $(ONE_THREAD) HYPOTHESIS_PROFILE=$(HYPOTHESIS_PROFILE); set -x; \
	$(BIN)/python -m pytest -n $(JOBS) --timeout $(TEST_TIMEOUT) $(1); \
	status=$$?; test $$status -ne 1 -o $(AGAIN) = 0 || { \
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none --maxfail 20 \
		--timeout $(TEST_TIMEOUT) $(1); status=$$?; }; exit $$status
endef

.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test test-ray test-distributed test-stand-in lint format generate names
.PHONY: accuracy docs gallery dist clients
.PHONY: bench bench-compile bench-sizes bench-small bench-threads stress mutate clean
.PHONY: test-cuda bench-cuda test-wasm

help:
	@echo "make demo            train a small classifier, save a picture of it in build/"
	@echo "make test            lint, types, layers and the whole test suite"
	@echo "make test ORACLE=1   the same, and the comparison with $(ORACLE_PIN)"
	@echo "make test-stand-in   a part of the suite with pullback in torch's place; make test has it too"
	@echo "make test-ray        ranks that are Ray actors; make test has threads and MPI processes"
	@echo "make test-distributed  gradients across threads, processes and actors alone"
	@echo "make bench ORACLE=1  the benchmarks against $(ORACLE_PIN): programs, then operators by size"
	@echo "make bench-compile ORACLE=1  compiled functions against $(ORACLE_PIN) as it runs"
	@echo "make test-cuda       tests/cuda on a CUDA device; writes docs/coverage-cuda.md"
	@echo "make bench-cuda      works on a CUDA device against torch on the same"
	@echo "make bench-sizes ORACLE=1  operators one by one, at three sizes, alone"
	@echo "make bench-small ORACLE=1  small calls one by one, forward alone and with backward"
	@echo "make bench-threads ORACLE=1  large works on two threads, and eight users of one net"
	@echo "make stress          wrong calls, faults, threads, hostile files, SECONDS each; STRESS=api for one"
	@echo "make mutate          change the source one place at a time for SECONDS, list what no test notices"
	@echo "make accuracy        write docs/accuracy.md, the errors of sums by operator"
	@echo "make clients ORACLE=1  libraries written for torch, from PyPI, on pullback; docs/clients.md"
	@echo "make docs            the pages as a site, in build/site; every link is checked"
	@echo "make test-wasm PYODIDE=DIR  the package, the tutorial and the gallery in Pyodide, under node"
	@echo "make gallery         run the examples that draw, and write their pictures for the docs"
	@echo "make dist            wheel and sdist, checked, and tried on every Python that is found"
	@echo "make names ORACLE=1  write the list of torch's public names, and the page made from it"
	@echo "make generate        write tables of names, stubs and docs/coverage.md from the declarations"
	@echo "make lint            ruff, mypy and import-linter alone"
	@echo "make format          let ruff mend what it can"
	@echo "make clean           remove the environment and everything built"

demo: $(VENV)/.demo
	$(ONE_THREAD) $(BIN)/python examples/classifier.py $(ARGS)

# Ray's tests are left to test-ray: here each of the JOBS would start a cluster of its own.
# With ARGS, which choose among tests, what runs in torch's place is left to test-stand-in.
test: lint $(VENV)/.demo $(VENV)/.mpi $(VENV)/.browser $(oracle)
	@$(call tested,--ignore tests/distributed/ray $(ARGS))
	@$(if $(ARGS),,$(call tested,$(STAND_IN)))

# Modules, classes and functions say torch here, as they do to a program that is run unchanged. Chosen
# are folders where names matter: capture, files, processes. What goes through all operators is left out.
STAND_IN := --stand-in tests/core/test_home.py $(addprefix tests/,compiled distributed fx jit \
	multiprocessing nn optim programs serialization) --ignore tests/distributed/ray $(addprefix \
	--ignore tests/compiled/,cuda test_all_operators.py test_random_programs.py export/test_all_operators.py)
test-stand-in: $(VENV)/.test $(VENV)/.mpi
	@$(call tested,$(STAND_IN) $(ARGS))

# One cluster for all of them; a minute.
test-ray: $(VENV)/.test $(VENV)/.mpi $(VENV)/.ray
	$(ONE_THREAD) $(BIN)/python -m pytest --timeout $(TEST_TIMEOUT) tests/distributed/ray $(ARGS)

# PYODIDE is a folder with Pyodide and the wheels of NumPy; those of mpmath, SymPy, tqdm and matplotlib let
# all programs of the gallery run. chromium, where there is one, presses the buttons of the pages.
test-wasm: $(VENV)/.test
	@test -f "$(PYODIDE)/pyodide.mjs" || { echo "make test-wasm needs PYODIDE=DIR, a Pyodide with NumPy"; exit 2; }
	PULLBACK_PYODIDE=$(abspath $(PYODIDE)) $(BIN)/python -m pytest --timeout 1200 tests/wasm $(ARGS)

# Ranks of all kinds, and what they do when one of them fails: a few minutes.
test-distributed: $(VENV)/.test $(VENV)/.mpi $(VENV)/.ray
	PULLBACK_TEST_HOSTS=1 $(ONE_THREAD) $(BIN)/python -m pytest --timeout $(TEST_TIMEOUT) tests/distributed $(ARGS)

lint: $(VENV)/.test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy pullback
	$(BIN)/lint-imports

format: $(VENV)/.test
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# Both tables are wanted, also where the first misses a bar.
bench: $(VENV)/.base $(VENV)/.compile $(oracle)
	$(BIN)/python -m benchmarks $(ARGS); programs=$$?; \
		$(BIN)/python -m benchmarks.sizes && exit $$programs

# With the oracle also against other compilers: torch.compile where there is a C++ compiler, jax.
bench-compile: $(VENV)/.base $(VENV)/.compile $(oracle) $(if $(oracle),$(VENV)/.jax)
	$(ONE_THREAD) $(BIN)/python -m benchmarks.compiled $(ARGS)
	$(ONE_THREAD) $(BIN)/python -m benchmarks.compiled --alone
	$(if $(oracle),$(ONE_THREAD) $(BIN)/python -m benchmarks.compiled --peers torch.compile jax $(ARGS))

# Both need CuPy and a CUDA device; PYTHON is an interpreter that has them.
PYTHON ?= python3
test-cuda:
	PYTHONPATH=. $(PYTHON) -m pytest -q tests/cuda
	PYTHONPATH=. $(PYTHON) -m pullback.testing.cuda_page docs/coverage-cuda.md

bench-cuda:
	PYTHONPATH=. $(PYTHON) -m benchmarks.cuda $(ARGS)
	PYTHONPATH=. $(PYTHON) -m benchmarks.cuda_models

bench-sizes: $(VENV)/.base $(VENV)/.compile $(oracle)
	$(BIN)/python -m benchmarks.sizes $(ARGS)

# By wall time, so on a machine that does nothing else.
bench-threads: $(VENV)/.base $(VENV)/.compile $(oracle)
	$(BIN)/python -m benchmarks.threads

bench-small: $(VENV)/.base $(VENV)/.compile $(oracle)
	$(BIN)/python -m benchmarks.small $(ARGS)

# Parts are those of stress/__init__.py; the same seed makes the same calls.
SECONDS ?= 60
SEED ?= 0
STRESS ?=
stress: $(VENV)/.test $(oracle)
	$(ONE_THREAD) $(BIN)/python -m stress $(STRESS) --seconds $(SECONDS) --seed $(SEED) $(ARGS)

# Changes are drawn from SEED among those of PATHS, or of what mutate/__init__.py names. Which tests
# come by a line is recorded once, in some minutes, and kept in build/mutate; ARGS=--again does so anew.
PATHS ?=
mutate: $(VENV)/.test
	$(ONE_THREAD) $(BIN)/python -m mutate $(PATHS) --seconds $(SECONDS) --seed $(SEED) $(ARGS)

# After a declaration is added or changed; a test fails until then.
generate: $(VENV)/.base
	$(BIN)/python -m generate

accuracy: $(VENV)/.base
	$(ONE_THREAD) $(BIN)/python -m pullback.testing.accuracy docs/accuracy.md

# Libraries are installed without what they ask for, so that torch comes with ORACLE=1 alone.
CLIENTS := build/clients
clients: $(CLIENTS)/.made $(if $(oracle),$(CLIENTS)/.oracle)
	$(ONE_THREAD) $(CLIENTS)/bin/python -m clients $(ARGS)

$(CLIENTS)/.made: clients/requirements.txt
	$(PYTHON) -m venv --clear $(CLIENTS)
	$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check setuptools wheel numpy
	$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--no-build-isolation --requirement clients/requirements.txt
	@touch $@

$(CLIENTS)/.oracle: $(CLIENTS)/.made Makefile
	$(CLIENTS)/bin/python -m pip install --quiet --disable-pip-version-check $(ORACLE_PIN)
	@touch $@

names: $(VENV)/.base $(oracle)
	$(BIN)/python -m tools.torch_names
	$(BIN)/python -m tools.torch_schemas

# PYODIDE is the address of Python for browsers on pages that run code; VERSIONS a folder that has
# the site of each release, to which this one is added.
docs: $(VENV)/.docs
	$(BIN)/python -m tools.site $(if $(PYODIDE),--pyodide $(PYODIDE)) $(if $(VERSIONS),--versions $(VERSIONS)) $(ARGS)

gallery: $(VENV)/.demo
	$(ONE_THREAD) $(BIN)/python -m tools.gallery $(ARGS)

dist: $(VENV)/.dist
	$(BIN)/python -m tools.dist $(ARGS)

clean:
	rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "pullback needs Python 3.11 or newer: make PYTHON=python3.11"'
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.base: pyproject.toml $(VENV)/.made
	$(PIP) --editable .
	@touch $@

$(VENV)/.compile $(VENV)/.demo $(VENV)/.dist $(VENV)/.docs $(VENV)/.mpi $(VENV)/.ray $(VENV)/.test: $(VENV)/.%: pyproject.toml $(VENV)/.made
	$(PIP) --editable '.[$*]'
	@touch $@

# The page of `graph.show` is tested in a browser; CI machines start without one.
$(VENV)/.browser: $(VENV)/.made
	@if [ "$(CI)" = true ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
		&& ! command -v chromedriver >/dev/null; then \
		apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium chromium-driver; \
	fi
	@touch $@

$(VENV)/.jax: $(VENV)/.made Makefile
	$(PIP) jax
	@touch $@

$(VENV)/.oracle: $(VENV)/.made Makefile
	$(PIP) $(ORACLE_PIN)
	@touch $@

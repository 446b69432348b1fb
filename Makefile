# Two commands do everything on a fresh machine with Python, pip and make:
#   make demo    the main job end to end, on data it makes itself
#   make test    lint, types and tests
# Each creates .venv and installs what it needs. No GPU is needed or used.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed-
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test lint style types unit test-cluster portable bench mutants docs site clean

demo: $(STAMP)demo
	$(BIN)/sfumato demo

# mypy keeps one core busy: the tests need not wait for it.
test: style
	$(MAKE) --jobs 2 types unit

lint: style types

style: $(STAMP)dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)dev
	$(BIN)/mypy

# Processes, not threads: each worker keeps to one thread so that two of them share two cores.
# Bytecode is kept even where the environment says otherwise: else every process that a test starts compiles the library.
unit: $(STAMP)dev
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $${SFUMATO_TEST_WORKERS:-2} --dist loadfile

# A real Ray cluster of three nodes on this machine, whose workers, nodes and drivers are killed.
test-cluster: $(STAMP)dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m cluster tests/jobs

# The tests on other CPUs, in other orders, as another user, elsewhere (docs/testing.md); some of it:
# make portable ONLY="sse order-7" TESTS="tests/privacy tests/learn"
portable: $(STAMP)dev
	$(BIN)/python tools/portable.py $(if $(AGAIN),--again) $(ONLY) $(if $(TESTS),--tests $(TESTS))

# Speeds are ratios measured side by side in one process; run them on an idle machine. Tables of real
# recordings need SFUMATO_DATA; blur beside deface needs a clip and a peer (docs/results/protect.md).
bench: $(STAMP)dev
	$(BIN)/python -m benchmarks all $(if $(SFUMATO_DATA),data=$(SFUMATO_DATA))

# Every seeded bug must be caught by a test of behaviour.
mutants: $(STAMP)dev
	$(BIN)/python -m mutants

# The generated tables and figures of README.md and docs/, from the numbers in benchmarks/*/results/.
docs: $(STAMP)dev
	$(BIN)/python docs/generate.py

# The documentation as a site, in site/; a broken link or anchor fails.
site: $(STAMP)docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(STAMP)demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt -e '.[all]'
	@touch $@

$(STAMP)dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt -e '.[dev]'
	@touch $@ $(STAMP)demo

$(STAMP)docs: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt -e '.[docs]'
	@touch $@

clean:
	rm -rf $(VENV) .portable build dist site demo-out .mypy_cache .ruff_cache .pytest_cache

# Two commands do everything on a fresh machine with Python, pip and make:
#   make demo    the main job end to end, on data it makes itself
#   make test    lint, types and tests
# Each creates .venv and installs what it needs. No GPU is needed or used.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed-
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test lint unit portable bench mutants docs clean

demo: $(STAMP)demo
	$(BIN)/sfumato demo

test: lint unit

lint: $(STAMP)dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Processes, not threads: each worker keeps to one thread so that two of them share two cores.
unit: $(STAMP)dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $${SFUMATO_TEST_WORKERS:-2} --dist loadfile

# The tests on other CPUs, in other orders, as another user, elsewhere (docs/testing.md); some of it:
# make portable ONLY="sse order-7" TESTS="tests/privacy tests/learn"
portable: $(STAMP)dev
	$(BIN)/python tools/portable.py $(ONLY) $(if $(TESTS),--tests $(TESTS))

# Speeds are ratios measured side by side in one process; run them on an idle machine. Tables of real
# recordings need SFUMATO_DATA; blur beside deface needs a clip and a peer (docs/protect.md).
bench: $(STAMP)dev
	$(BIN)/python -m benchmarks.accounting.speed
	$(BIN)/python -m benchmarks protect only=dprp --out benchmarks/results/protect-dprp.json --force
	$(BIN)/python -m benchmarks all $(if $(SFUMATO_DATA),data=$(SFUMATO_DATA))

# Every seeded bug must be caught by a test of behaviour.
mutants: $(STAMP)dev
	$(BIN)/python -m mutants

docs: $(STAMP)dev
	$(BIN)/python docs/generate.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(STAMP)demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt -e '.[all]'
	@touch $@

$(STAMP)dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt -e '.[dev]'
	@touch $@ $(STAMP)demo

clean:
	rm -rf $(VENV) .portable build dist demo-out .mypy_cache .ruff_cache .pytest_cache

# Two commands do everything on a fresh machine with Python, pip and make:
#   make demo    the main job end to end, on data it makes itself
#   make test    lint, types and tests
# Each creates .venv and installs what it needs. No GPU is needed; one is used when it is there.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed-
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test lint unit bench mutants docs clean

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

# Speeds are ratios measured side by side in one process; run them on an idle machine. Tables of real
# recordings need SFUMATO_DATA; blur beside deface needs a clip and a peer (docs/protect.md).
bench: $(STAMP)dev
	$(BIN)/python -m bench.accounting
	$(BIN)/sfumato bench protect only=dprp --out results/protect-dprp.json --force
	$(BIN)/sfumato bench all $(if $(SFUMATO_DATA),data=$(SFUMATO_DATA))

# Every seeded bug must be caught by a test of behaviour.
mutants: $(STAMP)dev
	$(BIN)/python -m mutants

docs: $(STAMP)dev
	$(BIN)/python docs/generate.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(STAMP)demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e '.[avatar]'
	@touch $@

$(STAMP)dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e '.[avatar,dev]'
	@touch $@ $(STAMP)demo

clean:
	rm -rf $(VENV) build dist demo-out .mypy_cache .ruff_cache .pytest_cache

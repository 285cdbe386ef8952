# Two commands do everything on a fresh machine: `make demo` and `make test`. The rest is for people who work on it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
TARGET ?= npu

.PHONY: demo test lint format generated check-generated bench realworld clean

demo: $(VENV)/.ready
	$(BIN)/python tools/demo.py --target $(TARGET)

test: $(VENV)/.ready-dev
	$(BIN)/python -m pytest -q

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.ready-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Rule pages and backend tables in docs/ are written from the code.
generated: $(VENV)/.ready-dev
	$(BIN)/python tools/generate_docs.py

check-generated: $(VENV)/.ready-dev
	$(BIN)/python tools/generate_docs.py --check

# These two need repositories that are not part of this one; they say so and skip what is not there.
bench: $(VENV)/.ready-dev
	$(BIN)/python benchmarks/run.py

realworld: $(VENV)/.ready-dev
	$(BIN)/python benchmarks/realworld.py

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .demo

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	touch $@

$(VENV)/.ready: $(VENV)/.made pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

# From a fresh clone, with python3 (3.11 or later), pip and make: `make test`, `make reproduce`.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
EXTRA  := $(VENV)/.ready-for-tests
WORKERS ?= 2
EXTRAS := --extra jax --extra lab
SHARED := --dist loadfile --no-loadscope-reorder

.PHONY: help setup test test-all reproduce lint format docs wheel bench clean

help:
	@echo "make setup      the locked environment in $(VENV) (every other target does this first)"
	@echo "make test       the tests, warnings as errors"
	@echo "make test-all   with the long ones: more combinations and longer simulations of the same"
	@echo "make reproduce  every study at its quick size, with a report of tables and figures: ten minutes on two cores"
	@echo "make lint       style, types, import directions"
	@echo "make format     rewrite the code in the house style"
	@echo "make docs       the documentation in site/, broken links as errors"
	@echo "make wheel      the wheel in build/wheel: built, checked, installed in bare environments and used there"
	@echo "make bench      speed against plain Python, NumPy and C"

setup: $(READY)

# --inexact: pip and uv live in the same environment and would be swept out as foreign otherwise.
$(READY): pyproject.toml uv.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "uv>=0.9"
	env -u VIRTUAL_ENV UV_PYTHON_DOWNLOADS=never $(BIN)/uv sync --locked --inexact --quiet $(EXTRAS) --python $(BIN)/python
	@touch $@

$(EXTRA): $(READY) tools/install_for_tests.sh
	tools/install_for_tests.sh
	@touch $@

test: $(EXTRA)
	$(BIN)/python -m pytest -n $(WORKERS) $(SHARED)

test-all: $(EXTRA)
	$(BIN)/python -m pytest -n $(WORKERS) $(SHARED) -m ""

# Every study at its quick size. What is finished is not run again.
reproduce: $(READY)
	$(BIN)/python -m studies run --quick
	$(BIN)/python -m studies report --quick

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

wheel: $(EXTRA)
	env -u VIRTUAL_ENV UV_PYTHON_DOWNLOADS=never $(BIN)/uv sync --locked --inexact --quiet $(EXTRAS) --group release --python $(BIN)/python
	UV_PYTHON_DOWNLOADS=never $(BIN)/python tools/check_wheel.py

bench: $(READY)
	$(BIN)/python -m benchmarks

clean:
	rm -rf build dist site .pytest_cache .ruff_cache .hypothesis

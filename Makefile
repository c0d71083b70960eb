# Set-up, checks, tests and the quickstart; each target does all that it needs on a fresh machine with Python >= 3.11 and a C compiler.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
READY = $(VENV)/.ready

.PHONY: setup quickstart report-demo test unit check bench clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

quickstart: $(READY)
	$(BIN)/raxalign grid grids/quickstart.yaml
	$(BIN)/raxalign results grids/quickstart.yaml
	@echo "MLflow UI: $(BIN)/raxalign ui"

report-demo: $(READY)
	$(BIN)/raxalign grid grids/report-demo.yaml
	$(BIN)/raxalign report grids/report-demo.yaml --out .raxalign/report-demo
	@echo "Open .raxalign/report-demo/report.html"

# Unit tests on two cores, a thread each; then, one after the other, those that start Ray, MLflow or whole grids and take both cores.
test: unit
	$(BIN)/python -m pytest -m slow

unit: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n 2

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build *.egg-info

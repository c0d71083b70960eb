# Set-up, checks, tests, the quickstart and a release; each target does all that it needs on a fresh machine with Python >= 3.11.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# Modules are compiled once per change, and not at each start of Python, whatever the machine's settings.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
READY = $(VENV)/.ready

# $(call install,ENVIRONMENT,WHAT): make an environment with the versions of constraints.txt. uv takes PyTorch's build for this machine, without CUDA
# where there is no GPU (UV_TORCH_BACKEND names another). pip (UV= chooses it) takes that of the index, or keeps that of the environment:
# docs/how-to/install.md has a line for machines without a GPU.
UV := $(shell command -v uv)
ifeq ($(UV),)
install = $(PYTHON) -m venv $(1) \
  && $(1)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch \
  && $(1)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt $(2)
else
install = $(UV) venv --quiet --allow-existing --seed --python $(PYTHON) $(1) \
  && $(UV) pip install --quiet --python $(1) --torch-backend $(or $(UV_TORCH_BACKEND),auto) --constraint constraints.txt $(2)
endif
# A C compiler builds eflomal; without one its tests are skipped.
DEV = dev$(if $(shell command -v cc),$(comma)eflomal)
comma = ,

.PHONY: setup quickstart report-demo test test-cluster test-all test-newest unit unit-vectors unit-rest check docs bench lock audit release clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(call install,$(VENV),--editable '.[$(DEV)]')
	touch $(READY)

quickstart: $(READY)
	$(BIN)/raxalign grid grids/quickstart.yaml
	$(BIN)/raxalign results grids/quickstart.yaml --compare
	$(BIN)/raxalign report grids/quickstart.yaml --out .raxalign/quickstart-report
	@echo "Open .raxalign/quickstart-report/report.html; MLflow UI: $(BIN)/raxalign ui"

report-demo: $(READY)
	$(BIN)/raxalign grid grids/report-demo.yaml
	$(BIN)/raxalign report grids/report-demo.yaml --out .raxalign/report-demo
	@echo "Open .raxalign/report-demo/report.html"

# What needs other machines, or programs in their place: hosts in network namespaces, Slurm's and the cloud's files, S3, a hub, `ray up`, nodes that
# come later.
CLUSTER = tests/hosts tests/cluster tests/test_cluster_yaml.py tests/e2e/test_s3.py tests/e2e/test_ray_up.py tests/e2e/test_hub.py \
  tests/sweep/test_late_nodes.py
# The other modules with slow tests: collecting all others too takes ten more seconds in each process.
SLOW = $(shell grep -rl --include='test_*.py' 'mark\.slow' tests | grep -v $(patsubst %,-e ^%,$(CLUSTER)) | sort)

# Tests on two cores. Tests that start Ray, MLflow or other processes often wait, so three of them run at once, the longest first, in the order and
# the groups of tests/conftest.py.
test: unit
	OMP_NUM_THREADS=1 $(PYTEST) -m slow -n 3 --dist loadgroup --no-loadscope-reorder $(SLOW)

test-cluster: $(READY)
	$(PYTEST) $(CLUSTER) -m slow -n 3 --maxschedchunk 1

# Two halves of the tests, one per core: a process reads the modules of its half and the libraries that these use, and no others.
VECTORS = $(addprefix tests/,encoders families methods pairing tasks train test_joint_training.py)
unit: $(READY)
	$(MAKE) --jobs 2 --keep-going --output-sync=target unit-vectors unit-rest

unit-vectors unit-rest: export OMP_NUM_THREADS = 1
unit-vectors: $(READY)
	$(PYTEST) -m "not slow" $(VECTORS)

unit-rest: $(READY)
	$(PYTEST) -m "not slow" $(addprefix --ignore=,$(VECTORS))

# All of them, with each method and each task on each family of encoders.
test-all: export RAXALIGN_TEST_ALL = 1
test-all: test test-cluster

# The tests on the newest releases of everything that pyproject.toml allows, in an environment of its own; not for CI.
test-newest:
	$(PYTHON) -m venv build/newest
	build/newest/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --editable '.[$(DEV)]'
	build/newest/bin/python -m pip list --disable-pip-version-check | grep -iE '^(ray|torch|mlflow|transformers|datasets|optuna|pyarrow|numpy) '
	touch build/newest/.ready
	$(MAKE) VENV=build/newest READY=build/newest/.ready test

check: $(READY) docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The site of docs/, in build/docs; a warning is an error.
docs: $(READY)
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --builder html docs build/docs

# Measurements against budgets, one table at the end; docs/reference/benchmarks.md keeps one, and says how long they take.
bench: $(READY)
	$(BIN)/python -m benchmarks

# cluster/requirements.lock: the versions of constraints.txt for the machines of cluster.yaml (Linux, Python 3.12, CUDA), with the digests of their files.
lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	build/lock/bin/uv pip compile pyproject.toml --quiet --extra aws --extra eflomal --extra segment --extra static --constraint constraints.txt --generate-hashes \
	  --python-version 3.12 --no-header --no-annotate --output-file cluster/requirements.lock

# Known vulnerabilities of the pinned versions, by PyPI's advisories; needs the network, and fails where one version cannot be looked up.
audit:
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	build/audit/bin/pip-audit --strict --disable-pip --no-deps --requirement constraints.txt
	build/audit/bin/pip-audit --strict --disable-pip --require-hashes --requirement cluster/requirements.lock

# A release of the commit that is checked out: dist/ is built, checked, and installed into a clean environment, where nothing may be compiled and the
# quickstart runs; then the commit gets its tag. Nothing is uploaded: CONTRIBUTING.md.
VERSION = $(shell sed -n 's/^VERSION = "\(.*\)"/\1/p' raxalign/version.py)
RELEASE = $(abspath build/release)
release:
	@test -z "$$(git status --porcelain)" || { echo "release: git status lists changes: commit or remove them" >&2; exit 1; }
	@! git rev-parse --quiet --verify refs/tags/v$(VERSION) > /dev/null \
	  || { echo "release: the tag v$(VERSION) is there: raise VERSION in raxalign/version.py" >&2; exit 1; }
	rm -rf dist $(RELEASE)
	$(PYTHON) -m venv $(RELEASE)/tools
	$(RELEASE)/tools/bin/python -m pip install --quiet --disable-pip-version-check build twine
	$(RELEASE)/tools/bin/python -m build --outdir dist .
	$(RELEASE)/tools/bin/twine check --strict dist/*
	$(call install,$(RELEASE)/clean,--only-binary :all: dist/*.whl)
	mkdir $(RELEASE)/run && cd $(RELEASE)/run && export PATH=$(RELEASE)/clean/bin:$$PATH \
	  && raxalign init quickstart && raxalign grid quickstart.yaml && raxalign results quickstart.yaml --compare
	git tag --annotate v$(VERSION) --message "raxalign $(VERSION)"
	@echo "Tagged v$(VERSION); dist/ is ready and nothing was uploaded: CONTRIBUTING.md has the rest."

clean:
	rm -rf $(VENV) build dist *.egg-info

# make demo      install what tagging and browsing need, tag the sample corpus, show some of the rows
# make test      set up what is missing, run the default tests
# make test-all  all tests that need no GPU
# make lint      style, types and wording
# make docs      the documentation as a site: docs/_build/html/index.html
# make bench     measure against the peers, on one's own machine (docs/explanation/benchmark.md); BENCH='...' for its options
# make setup     .venv with everything in it, including the development tools
# make clean     remove what the above made
#
# PYTEST_ARGS='...'   further arguments of pytest, such as a folder or -k
# PYTHON=python3.12   another interpreter, 3.11 or later
# PIP_ARGS='...'      further arguments of `pip install`, such as an index that has CPU builds of torch

PYTHON ?= python3
PIP_ARGS ?=
PYTEST_ARGS ?=
BENCH ?=

BIN := .venv/bin
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS)

# The models of the tests are tiny: more threads only get in each other's way. tests/conftest.py says which tests run
# together.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n logical --maxprocesses 4 --dist loadscope --no-loadscope-reorder

.PHONY: demo test test-all lint docs bench setup clean

demo: .venv/installed-browse
	rm -rf demo-out
	$(BIN)/spanmarker tag --input 'infra/demo/*.parquet' --input 'infra/demo/*.jsonl' --output demo-out/
	$(BIN)/python infra/demo/show.py demo-out

test: setup
	$(PYTEST) $(PYTEST_ARGS)

# Tests that start engines and servers wait a lot: they run beside each other, and not beside those that only compute.
# A test that fails is tried once more, which the summary says: it has a race to be found.
test-all: setup
	@failed=0; \
	$(PYTEST) --slow --reruns 1 $(PYTEST_ARGS) || failed=1; \
	$(PYTEST) --slow --services --faults --alone --reruns 1 $(PYTEST_ARGS) || failed=1; \
	exit $$failed

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_wording.py

docs: setup
	$(BIN)/python -m sphinx -b html -W --keep-going -n docs docs/_build/html

bench: setup
	$(BIN)/python -m benchmarks $(BENCH)

setup: .venv/installed-dev

# The project with an extra: `browse`, or `dev`, which includes everything in `browse`.
# An older pip, such as Debian's, can't build a package that has nothing but a setup.py.
.venv/installed-%: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "$(PYTHON) is not Python 3.11 or later: name one that is, as in make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP_INSTALL) 'pip>=23.1'
	$(PIP_INSTALL) -c constraints.txt -e '.[$*]'
	@touch $@ $(if $(filter dev,$*),.venv/installed-browse)

clean:
	rm -rf .venv .venv-span-marker demo-out bench-out docs/_build docs/reference/generated build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

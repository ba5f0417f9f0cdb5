# make demo | examples | test | check | bench | fuzz. Each makes its own environment in .venv the first time, and brings
# it up to date when pyproject.toml has changed. Another interpreter: make test PYTHON=python3.12. More processes: make test JOBS=8.
PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
MINUTES ?= 10
SEED ?= 0

# Tests start a hundred processes: without this each would compile the library's source anew, a second of work, where
# the machine has Python write no __pycache__.
export PYTHONDONTWRITEBYTECODE :=

BIN := $(VENV)/bin
LIBRARIES := $(VENV)/libraries
DEMO_READY := $(VENV)/.demo-ready
DEV_READY := $(VENV)/.dev-ready
DOCS_VENV ?= .venv-docs
DOCS_READY := $(DOCS_VENV)/.ready

.PHONY: help demo examples notebooks test test-ci test-all libraries library-numbers answers mutations check lint types format bench docs fuzz clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    train a small network on handwritten digits and draw what it learned"
	@echo "make examples  run the programs of the gallery (docs/gallery.md), in minutes; pictures in out/"
	@echo "make notebooks  the tour and three programs as notebooks, in out/notebooks"
	@echo "make test    tests, and the examples of docstrings: in minutes, at every commit"
	@echo "make test-ci  the other tests of a change: more cases of the same ways, processes, programs of pages"
	@echo "make test-all  all cases and more examples, compiled as users' programs are"
	@echo "make libraries  a program of each library written for JAX, without JAX, against its numbers"
	@echo "make answers  what jax answers to the tests, asked anew and written to tests/answers/"
	@echo "make mutations  faults put into the library one by one: do the tests see them?"
	@echo "make check   format, lint, types, make test, make test-ci: what a change has to pass"
	@echo "make format  put the source into the form that check asks for"
	@echo "make bench   the table of budgets, Didax beside JAX"
	@echo "make docs    the site, in out/site/index.html"
	@echo "make fuzz    random programs against jax for MINUTES=10, from SEED=0 on; goes on where it was"
	@echo "make clean   remove what the others left, but for the environments ($(VENV), $(DOCS_VENV))"

demo: $(DEMO_READY)
	$(BIN)/python examples/digits.py

examples: $(DEMO_READY)
	for program in examples/*.py; do echo "$$program"; $(BIN)/python "$$program" || exit; done

notebooks:
	$(PYTHON) docs/make_notebooks.py

test: $(DEV_READY)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-ci: $(DEV_READY)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m 'ci and not slow'

test-all: $(DEV_READY)
	XLA_FLAGS= $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m 'slow or not slow' --hypothesis-profile=thorough

libraries: $(LIBRARIES)/.ready
	$(LIBRARIES)/bin/python tests/as_jax/libraries.py

# The numbers that `make libraries` compares with: those of jax itself, which is kept out of the libraries' environment.
library-numbers: $(LIBRARIES)/.ready
	$(LIBRARIES)/bin/python -m pip install --quiet --target $(LIBRARIES)/jax --no-deps jax==0.10.2
	JAX_AT=$(abspath $(LIBRARIES)/jax) $(LIBRARIES)/bin/python tests/as_jax/libraries.py --record

answers: $(DEV_READY)
	rm -f tests/answers/jax-$$($(BIN)/python -c 'import importlib.metadata as m; print(m.version("jax"))').txt
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --update-answers

mutations: $(DEV_READY)
	$(BIN)/python -m tests.mutations

check: lint types test test-ci

lint: $(DEV_READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(DEV_READY)
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(DEV_READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python docs/make_primitives.py

bench: $(DEV_READY)
	$(BIN)/python -m benchmarks

# Not with --quiet: MkDocs would not count the warnings for which a strict build fails.
docs: $(DOCS_READY)
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/python -m mkdocs build
	@echo 'the site is in out/site/index.html'

fuzz: $(DEV_READY)
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) --seed $(SEED) --jobs $(JOBS)

clean:
	rm -rf dist out .pytest_cache .ruff_cache .hypothesis
	find . -path './$(VENV)' -prune -o -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(DEMO_READY): pyproject.toml | $(BIN)/python
	@echo 'installing what the demo needs into $(VENV): once, about a minute'
	$(BIN)/python -m pip install --quiet --editable '.[demo]'
	touch $@

$(LIBRARIES)/.ready: pyproject.toml tests/as_jax/libraries.txt
	@echo 'installing libraries written for JAX into $(LIBRARIES), without JAX: once, a minute or two'
	$(PYTHON) -m venv $(LIBRARIES)
	$(LIBRARIES)/bin/python -m pip install --quiet --editable . 'scipy>=1.14' rich
	$(LIBRARIES)/bin/python -m pip install --quiet --no-deps --requirement tests/as_jax/libraries.txt
	touch $@

# The development extra holds the demo's.
$(DEV_READY): pyproject.toml | $(BIN)/python
	@echo 'installing what tests and checks need into $(VENV): once, a minute or two'
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(DEMO_READY) $@

# The site has an environment of its own: its tools depend on much that nothing else here needs.
$(DOCS_READY): pyproject.toml
	@echo 'installing what the site needs into $(DOCS_VENV): once, a minute'
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --quiet --editable '.[docs]'
	touch $@

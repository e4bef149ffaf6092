# make run and make test do everything on a fresh machine; see 'make help'.
PYTHON ?= python3
export PYTHON
VENV   := .venv
PY     := $(VENV)/bin/python
STAMPS := $(VENV)/stamps
PIP    := $(PY) -m pip install --quiet --disable-pip-version-check

engine_sources := $(wildcard engine_ext/core/* engine_ext/bind/*) engine_ext/CMakeLists.txt
llama_sources  := engine_ext/llama/build_wheel.py $(wildcard engine_ext/llama/patches/*)

.DEFAULT_GOAL := help
.PHONY: help run test lint screens bench clean

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

run: $(STAMPS)/app ## Build what is missing and start Draftscope
	@packaging/run.sh

test: lint $(STAMPS)/stock ## Lint and run every test, in a virtual display where there is no real one
	DRAFTSCOPE_STOCK_SITE=$(CURDIR)/build/stock-site $(PY) -m pytest

lint: $(STAMPS)/test ## ruff, mypy --strict and the import contracts
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

screens: $(STAMPS)/test ## Render every panel and dialog to build/screens
	$(PY) tests/screens/render.py --out build/screens

bench: $(STAMPS)/test ## Measure start, first token, transport and overhead
	$(PY) -m tests.perf

clean: ## Remove what was built here; the llama.cpp wheels in the cache stay
	rm -rf build $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(STAMPS)/venv:
	packaging/system_packages.sh build
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
		"Draftscope needs Python 3.11 or newer; $(PYTHON) is %d.%d. Name another: make PYTHON=python3.11" % sys.version_info[:2])'
	rm -rf build/engine_ext
	$(PYTHON) -m venv $(VENV)
	mkdir -p $(STAMPS)
	$(PIP) --upgrade "pip >=24"
	touch $@

# llama.cpp with our patches: built once for this machine, then taken from the cache.
$(STAMPS)/llama: $(llama_sources) | $(STAMPS)/venv
	wheel=$$($(PY) engine_ext/llama/build_wheel.py) && $(PIP) --force-reinstall --no-deps "$$wheel" && $(PIP) "$$wheel"
	touch $@

$(STAMPS)/app: $(engine_sources) pyproject.toml $(STAMPS)/llama
	packaging/system_packages.sh build window
	$(PIP) "scikit-build-core >=0.11" "nanobind >=2.4" "cmake >=3.25" ninja
	$(PIP) --no-build-isolation --editable .
	touch $@

$(STAMPS)/test: $(STAMPS)/app
	packaging/system_packages.sh build window test
	$(PIP) --no-build-isolation --editable ".[test,dev]"
	touch $@

# The same version without our patches, for the tests of fewer modes.
$(STAMPS)/stock: $(llama_sources) | $(STAMPS)/test
	rm -rf build/stock-site
	wheel=$$($(PY) engine_ext/llama/build_wheel.py --stock) && $(PIP) --no-deps --target build/stock-site "$$wheel"
	touch $@

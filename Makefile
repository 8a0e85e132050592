# One command each. Every target makes the virtual environment first; nothing else is assumed but
# Python 3.11+, Java 17+ and make.

VENV ?= .venv
PYTHON := $(VENV)/bin/python
STAMP := $(VENV)/.installed
LEGACY := $(VENV)/kafka-python-2.0.2
# The tests start hundreds of Python processes, which would compile every module each time.
unexport PYTHONDONTWRITEBYTECODE
INPUT ?=
DATA ?= demo-data
# By the cores that are there: tests/support/workers.py.
WORKERS ?= auto
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: demo test test-fast java-clients hdfs soak sanitize lint format bench bench-quick docs docs-check screenshots clean venv

venv: $(STAMP)

# Changed C sources are built again: the old twins would be refused, and Python run in their place.
$(STAMP): pyproject.toml setup.py tests/interop/node/package.json $(wildcard zkbroker/*/speedups/*.[ch])
	@sh scripts/preflight.sh
	@sh scripts/make-venv.sh $(VENV) $(LEGACY)
	@touch $@

demo: $(STAMP)
	@$(PYTHON) -m examples.demo --data "$(DATA)" $(if $(INPUT),--input "$(INPUT)")

test: $(STAMP)
	@$(PYTHON) -m pytest -m "not soak and not docker" $(PARALLEL)

test-fast: $(STAMP)
	@$(PYTHON) -m pytest tests/unit -m "not soak and not spark" $(PARALLEL)

# Genuine Kafka jars for more of the tests; those are skipped without them.
java-clients: $(STAMP)
	@$(PYTHON) scripts/fetch_java_clients.py $(VENV)/java-clients

# A genuine HDFS for the tests of loads into one; those are skipped without it.
hdfs: $(STAMP)
	@$(PYTHON) scripts/fetch_hdfs.py $(VENV)/hdfs

soak: $(STAMP)
	@$(PYTHON) -m pytest -m soak --timeout 7200

# The C twins under AddressSanitizer and UndefinedBehaviorSanitizer.
sanitize: $(STAMP)
	@sh scripts/sanitize.sh

lint: $(STAMP)
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports
	@$(PYTHON) scripts/check_unit_tests.py

format: $(STAMP)
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/ruff check --fix .

# Measures what docs/performance.md shows, for about half an hour; `python -m bench` lists all.
bench: $(STAMP)
	@$(PYTHON) -m bench all
	@$(PYTHON) scripts/performance_page.py

# The broker of another checkout, with a .venv of its own, beside that of this one, in 3 minutes.
bench-quick: $(STAMP)
	@test -n "$(OTHER)" || { echo "say which checkout: make bench-quick OTHER=DIRECTORY"; exit 2; }
	@$(PYTHON) -m bench.requests "$(OTHER)" --rounds 3

# The manual's pictures, from a cluster with load; needs Debian's chromium.
screenshots: $(STAMP)
	@$(PYTHON) -m scripts.make_screenshots

docs: $(STAMP)
	@$(PYTHON) scripts/generate_docs.py

docs-check: $(STAMP)
	@$(PYTHON) scripts/generate_docs.py --check
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet --site-dir $(VENV)/site

clean:
	rm -rf $(VENV) $(DATA) build dist *.egg-info

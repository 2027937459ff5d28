# make demo   the whole pipeline on two CPU cores, into results/cpu-demo
# make test   lint, unit and property tests, every notebook
# make lab    JupyterLab on the notebooks
# make pictures   the screenshots in README.md, with Chromium
# make test-gpu   the GPU path, in the environment that is active (environment.yml), on a real model
#
# Each target first creates .venv when it is missing or pyproject.toml has changed.
# PYTHON=python3.12 takes another interpreter, RUN=results/mine another run folder. pip takes what its
# own settings offer: where PyPI's torch is a CUDA build, set PIP_EXTRA_INDEX_URL to the index of CPU
# builds that the PyTorch site names, and pip prefers those (`+cpu`).

PYTHON ?= python3
RUN ?= results/cpu-demo
BIN := .venv/bin

# Kernels compile what they import, once; compiling every module of every package would take as long as
# fetching them.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test pictures test-gpu lint lab clean

demo: .venv/installed
	$(BIN)/python -m wordlelib run --recipe cpu-demo --out $(RUN) --resume

test: lint .venv/sweep
	$(BIN)/python -m pytest

# The pictures of README.md, from the system's Chromium
pictures: .venv/sweep
	$(BIN)/python -m pytest tests/test_browser.py
	mkdir -p results/reference/boards
	cp .screenshots/replay.png .screenshots/duel.png results/reference/boards/

test-gpu:
	python -m pytest -m gpu tests/test_gpu.py

lint: .venv/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check

lab: .venv/installed
	$(BIN)/jupyter lab notebooks

# The environment and caches; run folders are yours to delete.
clean:
	rm -rf .venv build *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo \
	  "This needs Python 3.11 or newer, and $(PYTHON) is not: try make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --no-compile -e '.[train,lab,endpoint,test]'
	@touch $@

# Ray and Playwright, some 80 and 45 MB, are for their tests only; the demo goes without.
.venv/sweep: .venv/installed
	$(BIN)/python -m pip install --no-compile -e '.[sweep]' || echo "No Ray for this Python: its test is skipped."
	$(BIN)/python -m pip install --no-compile -e '.[browser]' || echo "No Playwright here: its tests are skipped."
	@touch $@

# make demo   the whole pipeline on two CPU cores, into results/cpu-demo; then games of the embedded student
# make test   lint, unit and property tests, every notebook; files of tests side by side, at most four
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
	@echo; echo "Beside it the student in wordlelib/embedded, trained on a GPU, in the full game:"
	$(BIN)/python -m wordlelib eval --player embedded

test: lint .venv/sweep .venv/track .venv/browser .venv/games
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

# The pictures of README.md, from the system's Chromium
pictures: .venv/browser
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

# For their tests only, the demo goes without: Ray (some 80 MB to fetch), the trackers (160 MB on disk),
# Playwright (some 45 MB to fetch; it drives the browser of the system) and OpenSpiel (16 MB).
.venv/sweep .venv/track .venv/browser .venv/games: .venv/installed
	$(BIN)/python -m pip install --no-compile -e '.[$(@F)]' || echo "No extra [$(@F)] here: its tests are skipped."
	@touch $@

"""Shared by all tests: the shipped lists, small notebooks, and property tests that know no clock."""

import builtins
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from wordlelib import params, runs
from wordlelib.evaluate import play_games
from wordlelib.players import solver_player
from wordlelib.prompts import completion
from wordlelib.rules import Rules, rules_for
from wordlelib.solver import Solver
from wordlelib.words import Words, load_words, sample_words

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")

ROOT = Path(__file__).resolve().parent.parent
# Kernels and subprocesses of the tests import the code under test, from whatever working directory.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
# Their models are tiny: one thread is quickest, and test processes do not wait for each other.
os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(scope="session")
def shipped() -> Words:
    """The shipped 2,315 answers and 12,972 allowed guesses."""
    return load_words()


@pytest.fixture(scope="session")
def small_words(shipped: Words) -> Words:
    """A game of 64 words."""
    return sample_words(shipped, 64, 0)


@pytest.fixture(scope="session")
def small_rules(small_words: Words) -> Rules:
    return rules_for(small_words)


@pytest.fixture(scope="session")
def small_solver(small_words: Words, small_rules: Rules) -> Solver:
    return Solver(small_words, small_rules)


@pytest.fixture(scope="session")
def small_games(small_words: Words, small_rules: Rules, small_solver: Solver) -> list[dict]:
    """Greedy wins; `loser` never gives a guess; `nonwords` plays one non-word, then greedily."""
    greedy = solver_player(small_solver, "greedy")

    def nonwords(histories, seeds):
        texts = greedy(histories, seeds)
        return [completion(["zzzzz"], "zzzzz") if not h else t for h, t in zip(histories, texts, strict=True)]

    players = {"loser": lambda h, s: ["hm"] * len(h), "nonwords": nonwords, "greedy": greedy}
    return [
        record
        for name, player in players.items()
        for record in play_games(player, small_words.answers[:4], small_words, small_rules, name=name)
    ]


@pytest.fixture
def headless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel nobody looks at, in which asking for input fails at once."""
    for name in ("JPY_SESSION_NAME", "VSCODE_PID", "VSCODE_CWD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(builtins, "input", lambda *args: pytest.fail("waited for input"))


@pytest.fixture
def front_end(monkeypatch: pytest.MonkeyPatch, headless: None) -> None:
    """A kernel that a Jupyter server started."""
    import IPython  # noqa: F401  (a kernel has it loaded)

    monkeypatch.setenv("JPY_SESSION_NAME", "notebooks/06_replay.ipynb")


def example(stage: str, **changes: object) -> dict[str, object]:
    """Values for every parameter of a stage that `params.resolve` accepts."""
    by_kind = {bool: False, int: 0, float: 0.0, str: "", list: []}
    values = {}
    for name, param in params.PARAMETERS[stage].items():
        first = param.choices[0] if param.choices and param.kind is str else by_kind[param.kind]
        values[name] = first if param.low is None else param.kind(max(first, param.low))
    fitting = {"run": "results/x", "max_steps": 2, "batch_size": 4, "model": "nano"}
    return values | {name: value for name, value in fitting.items() if name in values} | changes


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty checkout, with a `notebooks` folder, in place of the real one; its name needs care in shells
    and in JSON."""
    root = tmp_path / "meine Wörter"
    (root / "notebooks" / "recipes").mkdir(parents=True)
    monkeypatch.setattr(runs, "project_root", lambda: root)
    return root


@pytest.fixture
def write_notebook() -> Callable[..., Path]:
    """Write a notebook of code cells; the first one is tagged `parameters`."""

    def write(path: Path, *sources: str) -> Path:
        import nbformat
        from nbformat import v4

        cells = [v4.new_code_cell(source) for source in sources]
        cells[0].metadata["tags"] = ["parameters"]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
        return path

    return write

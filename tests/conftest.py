"""Shared by all tests: lists, recorded games, small notebooks, and property tests that know no clock."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from wordlelib import params, runs
from wordlelib.game import Turn, score
from wordlelib.rules import rules_for
from wordlelib.words import Words, load_words

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


# A game of a dozen words, and records of it -------------------------------------------------------

NAMES = (
    "abide",
    "cecum",
    "crane",
    "cynic",
    "geese",
    "label",
    "llama",
    "magma",
    "maple",
    "slate",
    "speed",
    "those",
)
WORDS = Words(NAMES, NAMES)


RULES = rules_for(WORDS)
LOSS = ("slate", "those", "geese", "abide", "speed", "cynic")


def game(secret, *guesses, player="sft", **fields):
    """A hand-made record; a guess of None is a turn without one, an unknown word is no word."""
    turns = []
    for guess in guesses:
        known = guess in NAMES
        turn = Turn(
            guess,
            score(guess, secret) if known else None,
            "ok" if guess else "no_tag",
            "ok" if known else "not_a_word" if guess else None,
        )
        turns.append({**turn._asdict(), "rewards": {}})
    record = {
        **{"secret": secret, "turns": turns, "won": secret in guesses, "n_guesses": len(turns)},
        **{"player": player, "seed": 0, "rules": RULES.digest, "preplayed": 0},
    }
    return record | fields


@st.composite
def records(draw, player: str = "sft"):
    """Some games as any player may have played them: faults, repeats, pre-played turns, wins at any turn."""
    made = []
    for secret in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6)):
        guesses = draw(st.lists(st.sampled_from([*NAMES, "zzzzz", "qqqqq", None]), min_size=6, max_size=6))
        if secret in guesses:
            guesses = guesses[: guesses.index(secret) + 1]
        given_ = draw(st.integers(0, len(guesses) - 1))
        made.append(game(secret, *guesses, player=player, preplayed=given_))
    return made

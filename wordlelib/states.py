"""States that GRPO learns from: all of a run's data, or chosen ones, such as those of lost games."""

import json
from pathlib import Path

from wordlelib.data import Data, Row, iter_jsonl, state_row
from wordlelib.game import History, decode_history, take_turn
from wordlelib.runs import project_path, shown_path
from wordlelib.solver import Solver


def chosen_states(source: Data, solver: Solver, name: str = "") -> list[Row]:
    """The rows of `states.jsonl`, or what the file `name` asks for.

    A `.txt` file lists training secrets, one a line (`lists/` of a report): the states of these secrets are
    taken. Any other holds states as JSON lines with `secret` and `history` (`lost_states.jsonl` of a
    report): they are played again by the rules of this run, and written as its prompts. Raises ValueError
    with file and line for a secret that is no training secret and for a state that this game cannot have,
    and where nothing is left; FileNotFoundError for a file that is not there.
    """
    if not name:
        return source.rows("states")
    path = project_path(name)
    if not path.is_file():
        raise FileNotFoundError(f"{shown_path(path)}: no such file of states or secrets")
    rows = _of_secrets(path, source) if path.suffix == ".txt" else _replayed(path, source, solver)
    if not rows:
        raise ValueError(f"{shown_path(path)} names no state to learn from")
    return rows


def _of_secrets(path: Path, source: Data) -> list[Row]:
    lines = path.read_text(encoding="utf-8").splitlines()
    wanted = {word for line in lines if (word := line.strip().lower())}
    for number, line in enumerate(lines, 1):
        if line.strip():
            _require_training(line.strip().lower(), source, f"{shown_path(path)}, line {number}")
    return [row for row in source.rows("states") if row["secret"] in wanted]


def _replayed(path: Path, source: Data, solver: Solver) -> list[Row]:
    rows = {}
    for number, row in enumerate(iter_jsonl(path), 1):
        where = f"{shown_path(path)}, line {number}"
        try:
            secret, history = row["secret"], decode_history(row["history"])
        except (KeyError, TypeError, json.JSONDecodeError):
            raise ValueError(f"{where}: a state has a `secret` and a `history`") from None
        _require_training(secret, source, where)
        if len(history) >= source.rules.turns or _played(secret, history, source) != history:
            raise ValueError(f"{where}: this run's game has no such state of {secret!r}")
        rows[secret, row["history"]] = state_row(solver, history, secret, str(row.get("source", path.stem)))
    return list(rows.values())


def _require_training(secret: str, source: Data, where: str) -> None:
    if secret not in source.split.train:
        raise ValueError(
            f"{where}: {secret!r} is no training secret of this run, so it must not learn from it"
        )


def _played(secret: str, history: History, source: Data) -> History | None:
    """The same guesses under the rules of this run, None where they cannot be made."""
    again: History = ()
    for turn in history:
        if turn.guess == secret or len(turn.guess or "") not in (0, source.rules.length):
            return None
        made = take_turn(turn.guess, turn.reason, "", secret, again, source.training_words, source.rules)
        again += (made._replace(text=turn.text),)
    return again

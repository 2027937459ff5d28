"""What a model says in its thinking, checked against the game: are the words it lists words, and possible?

A statement is a word spelled out in the thinking (`S H A R P`), as the completions of training have it.
Thinking in other forms makes no statement here, and is not judged.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from wordlelib.evaluate import history_of
from wordlelib.game import History, Turn, is_consistent
from wordlelib.prompts import END_THINK
from wordlelib.solver import Solver

SPELLED = re.compile(r"(?<![^\W\d_])[^\W\d_](?: [^\W\d_])+(?![^\W\d_])")


def stated_words(text: str) -> list[str]:
    """The words spelled out before the thinking ends, in lower case and in order; total on any text."""
    thinking = text.rpartition(END_THINK)[0]
    return [found.replace(" ", "").lower() for found in SPELLED.findall(thinking)]


class Calibration(NamedTuple):
    """Shares over the turns of one player; None where there is nothing to share.

    turns: turns that the player took. stating: share of them that state any word. Of all stated words:
    words, those in the dictionary; consistent, those that fit all feedback; distinct, those not already
    stated in the same turn. Of the turns that state any: guessed, those whose guess is one of them;
    complete, of those with no more words possible than the player states at most (`longest`), the share
    that state them all.
    """

    turns: int
    longest: int
    stating: float | None
    words: float | None
    consistent: float | None
    distinct: float | None
    guessed: float | None
    complete: float | None


def calibration(records: Iterable[dict[str, Any]], solver: Solver) -> Calibration:
    """Check the statements of one player's recorded games."""
    count, stating = Counter(), []
    for record in records:
        history = history_of(record)
        for number in range(record["preplayed"], len(history)):
            count["turns"] += 1
            if stated := stated_words(history[number].text):
                stating.append((stated, history[:number], history[number]))
    longest = max((len(stated) for stated, _, _ in stating), default=0)
    for stated, before, turn in stating:
        count.update(_judged(stated, before, turn, solver, longest))
    return Calibration(
        count["turns"],
        longest,
        _ratio(len(stating), count["turns"]),
        *(_ratio(count[name], count["stated"]) for name in ("words", "consistent", "distinct")),
        _ratio(count["guessed"], len(stating)),
        _ratio(count["complete"], count["few"]),
    )


def _judged(stated: list[str], before: History, turn: Turn, solver: Solver, longest: int) -> dict[str, int]:
    possible = solver.candidates(before)
    few = len(possible) <= longest
    fits = [len(word) == solver.words.length and is_consistent(word, before) for word in stated]
    return {
        "stated": len(stated),
        "words": sum(word in solver.words.dictionary for word in stated),
        "consistent": sum(fits),
        "distinct": len(set(stated)),
        "guessed": turn.guess in stated,
        "few": few,
        "complete": few and {solver.universe[i] for i in possible} <= set(stated),
    }


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None

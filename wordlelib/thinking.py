"""What a model says in its thinking, checked against the game: are the words it lists words, and possible?

A stated word is one spelled out in the thinking (`S H A R P`), as the completions of training have it, or
under rules with thinking `words` one that stands between semicolons.
`false_statements` reads plain English about letters (`statements`). Thinking in other forms is not judged.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from wordlelib.evaluate import history_of
from wordlelib.game import CORRECT, History, Knowledge, Turn, is_consistent, knowledge
from wordlelib.prompts import END_THINK, NO, THINK, rejected_spans
from wordlelib.solver import Solver
from wordlelib.statements import ANY_WORD, SPELLED, Claim, claims

_WORD = re.compile(r"[^\W\d_]+")


def stated_words(text: str, form: str = "spelled") -> list[str]:
    """The words stated before the thinking ends, less rejected ones, in lower case and in order; total.

    form: how the rules have them written (`Rules.thinking`); under `none` whatever is spelled out counts.
    """
    for start, stop in reversed(rejected_spans(text)):
        text = text[:start] + text[stop + len(NO) :]
    thinking = text.rpartition(END_THINK)[0]
    if form == "words":
        listed = (part.strip() for part in thinking.rpartition(THINK)[2].split(";"))
        return [word.lower() for word in listed if _WORD.fullmatch(word)]
    return [found.replace(" ", "").lower() for found in SPELLED.findall(thinking)]


def false_statements(text: str, history: History) -> list[str]:
    """What the thinking says of letters that the feedback so far contradicts, in order; total on any text.

    Statements such as `A is absent`, `no R or T`, `B is in the word`, `C is in position 2`, `D must be third`
    (`statements.claims`). What feedback leaves open is not false.
    """
    thinking = text.rpartition(END_THINK)[0].replace(THINK, "\n")
    if not ANY_WORD.search(thinking):
        return []  # letters alone, as in words spelled out, claim nothing
    told = [turn for turn in history if turn.feedback]
    found = list(claims(thinking, {turn.guess for turn in told}))
    if not found:
        return []  # most thinking claims nothing, and what is known takes a third of the time
    known = knowledge(told, len(told[0].guess))
    barred = {
        (letter, place)
        for turn in told
        for place, (letter, mark) in enumerate(zip(turn.guess, turn.feedback, strict=True), 1)
        if mark != CORRECT
    }
    return [
        claim.said
        for claim in found
        if any(_is_false(claim, letter, known, barred) for letter in claim.letters)
    ]


def _is_false(claim: Claim, letter: str, known: Knowledge, barred: set[tuple[str, int]]) -> bool:
    length, least = len(known.pattern), known.least.get(letter, 0)
    most = min(known.most.get(letter, length), length - sum(known.least.values()) + least)
    if claim.kind == "absent":
        return least >= claim.copies
    if claim.kind == "marked":
        return least > 0 and letter not in known.most
    if claim.kind == "present":
        return most < claim.copies
    green = {place for place, placed in enumerate(known.pattern, 1) if placed == letter}
    open_places = {
        p for p, placed in enumerate(known.pattern, 1) if placed == "_" and (letter, p) not in barred
    }
    able = green | open_places if len(green) < most else green
    named = {length if place == -1 else place for place in claim.places} & set(range(1, length + 1))
    if claim.kind == "at":
        return not named <= able
    return not named.isdisjoint(able if len(able) == least else green)


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
            if stated := stated_words(history[number].text, solver.rules.thinking):
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

"""The game: feedback, what a player knows after some turns, and three separate checks of a guess.

The three checks differ, and every reward and report says which one it uses: *legal* (in the
dictionary), *official hard mode* (greens stay, revealed letters are used again) and *consistent*
(would have given exactly the feedback of every past turn).
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache, singledispatch
from typing import NamedTuple

from wordlelib.rules import Rules
from wordlelib.words import Words, capitals

ABSENT, PRESENT, CORRECT = "B", "Y", "G"
WON = "won"  # what a game without a secret word says of the move that wins it


class Turn(NamedTuple):
    """One turn of a game.

    guess: the parsed guess or None. feedback: a string over B, Y, G, or None for an invalid turn.
    reason: what the parser said (`ok`, `empty`, `no_tag`, `unclosed`, `wrong_length`,
    `not_letters`), or `failed` where there was nothing to parse and `text` says why. rule: what the game
    said of a parsed guess (`ok`, `not_a_word`, `hard_mode`), None without one. text: the raw completion.
    """

    guess: str | None
    feedback: str | None
    reason: str = "ok"
    rule: str | None = "ok"
    text: str = ""


History = tuple[Turn, ...]


def score(guess: str, secret: str) -> str:
    """Feedback for `guess`: B absent, Y elsewhere, G right place, one character a letter.

    Greens first; then yellows from left to right, each using up one copy of the letter that no
    green has used. So a grey letter that also stands elsewhere in the guess means "no further
    copy", not "none". Raises ValueError when the lengths differ.
    """
    if len(guess) != len(secret):
        raise ValueError(f"cannot score {guess!r} against {secret!r}: lengths differ")
    unused = [s for g, s in zip(guess, secret, strict=True) if g != s]
    marks = ""
    for g, s in zip(guess, secret, strict=True):
        if g == s:
            marks += CORRECT
        elif g in unused:
            unused.remove(g)
            marks += PRESENT
        else:
            marks += ABSENT
    return marks


def is_consistent(word: str, history: Iterable[Turn]) -> bool:
    """True when `word` would have given the feedback of every valid past turn."""
    return all(score(t.guess, word) == t.feedback for t in history if t.feedback is not None)


class Knowledge(NamedTuple):
    """What the feedback says, as a person would sum it up. Positions count from 1.

    pattern: the word with `_` for unknown places. present: letter to the places where it cannot
    stand, for letters known to be in the word beyond the placed ones or without a place.
    absent: letters not in the word. least, most: copies of each letter seen (most only where known).
    barred: letter to the open places where it cannot stand, for placed letters that may have a further copy.
    """

    pattern: str
    present: dict[str, tuple[int, ...]]
    absent: tuple[str, ...]
    least: dict[str, int]
    most: dict[str, int]
    barred: dict[str, tuple[int, ...]]

    def unplaced(self, letter: str) -> int:
        """Copies of a present letter that have no place yet, as far as is known: at least one."""
        return max(1, self.least.get(letter, 0) - self.pattern.count(letter))


def knowledge(history: Iterable[Turn], length: int) -> Knowledge:
    """Sum up the valid turns of `history` for a word of `length` letters."""
    placed = ["_"] * length
    ruled_out: dict[str, set[int]] = {}
    least: dict[str, int] = {}
    most: dict[str, int] = {}
    for turn in history:
        if turn.feedback is None:
            continue
        marked = list(zip(turn.guess, turn.feedback, strict=True))
        revealed = [letter for letter, mark in marked if mark != ABSENT]
        copies = {letter: revealed.count(letter) for letter in turn.guess}
        for place, (letter, mark) in enumerate(marked, 1):
            least[letter] = max(least.get(letter, 0), copies[letter])
            if mark == CORRECT:
                placed[place - 1] = letter
                continue
            ruled_out.setdefault(letter, set()).add(place)
            if mark == ABSENT:
                most[letter] = copies[letter]
    present = {
        letter: tuple(sorted(ruled_out.get(letter, ())))
        for letter in sorted(least)
        if least[letter] > placed.count(letter)
    }
    absent = tuple(sorted(letter for letter, n in most.items() if n == 0))
    open_places = {place for place, letter in enumerate(placed, 1) if letter == "_"}
    barred = {
        letter: tuple(sorted(places & open_places))
        for letter, places in sorted(ruled_out.items())
        if letter not in present and letter not in most and places & open_places
    }
    return Knowledge("".join(placed), present, absent, {k: v for k, v in least.items() if v}, most, barred)


def hard_mode_violation(guess: str, history: Iterable[Turn]) -> str | None:
    """The first hint that `guess` ignores under the official hard mode, or None.

    Official: every green stays in its place, and every revealed letter is used at least as often
    as it was revealed. A yellow may be put back in the same place; a grey letter may return.
    """
    known = knowledge(history, len(guess))
    for place, (letter, placed) in enumerate(zip(guess, known.pattern, strict=True), 1):
        if placed not in ("_", letter):
            return f"letter {place} must be {capitals(placed)}"
    for letter, copies in known.least.items():
        if guess.count(letter) < copies:
            return f"guess must contain {capitals(letter)}" + (f" {copies} times" if copies > 1 else "")
    return None


class Violations(NamedTuple):
    """Feedback that a guess contradicts, by colour: counts of letters over all past turns."""

    green: int
    yellow: int
    grey: int


def violations(guess: str, history: Iterable[Turn]) -> Violations:
    """Count the marks of past turns that would differ if `guess` were the secret, by their colour.

    All three are zero exactly when `guess` is consistent with the history.
    """
    wrong = {CORRECT: 0, PRESENT: 0, ABSENT: 0}
    for turn in history:
        if turn.feedback is None or (implied := score(turn.guess, guess)) == turn.feedback:
            continue
        for mark, other in zip(turn.feedback, implied, strict=True):
            wrong[mark] += mark != other
    return Violations(wrong[CORRECT], wrong[PRESENT], wrong[ABSENT])


def judge(guess: str, history: Iterable[Turn], words: Words, rules: Rules) -> str:
    """What the game says of a parsed guess: `ok`, `not_a_word` or `hard_mode`."""
    if guess not in words.dictionary:
        return "not_a_word"
    if rules.hard_mode and hard_mode_violation(guess, history):
        return "hard_mode"
    return "ok"


def take_turn(
    guess: str | None, reason: str, text: str, secret: str, history: History, words: Words, rules: Rules
) -> Turn:
    """The turn that results from a parsed guess: legal guesses get feedback, others do not."""
    if guess is None:
        return Turn(None, None, reason, None, text)
    rule = judge(guess, history, words, rules)
    return Turn(guess, score(guess, secret) if rule == "ok" else None, reason, rule, text)


@dataclass
class Game:
    """One game in play. A win is decided from the moves: a legal guess equal to the secret."""

    words: Words
    rules: Rules
    secret: str
    history: History = field(default=())

    def play(self, guess: str | None, reason: str = "ok", text: str = "") -> Turn:
        """Take one turn with a parsed guess (None with its reason when there was none).

        Raises ValueError when the game is over.
        """
        if self.done:
            raise ValueError(f"the game of {self.secret!r} is over after {len(self.history)} turns")
        turn = self.turn(guess, reason, text)
        self.history += (turn,)
        return turn

    def turn(self, guess: str | None, reason: str, text: str) -> Turn:
        """What `play` would give, without taking the turn."""
        return take_turn(guess, reason, text, self.secret, self.history, self.words, self.rules)

    @property
    def won(self) -> bool:
        """True once the last legal guess equals the secret."""
        return bool(self.history) and is_win(self.history[-1], self.secret)

    @property
    def done(self) -> bool:
        """True when the game is won or all turns are used."""
        return self.won or len(self.history) >= self.rules.turns


@singledispatch
def reset(words: Words, rules: Rules, secret: str, history: History = ()) -> Game:
    """A game in play, after the turns of `history`. Other games than Wordle have lists of another type."""
    return Game(words, rules, secret, history)


def is_win(turn: Turn, secret: str) -> bool:
    """True for a legal guess that equals the secret, or of which a game without a word says that it wins."""
    return turn.feedback is not None and (turn.guess == secret or turn.rule == WON)


_compact = json.JSONEncoder(separators=(",", ":"))  # one for all calls: making it takes as long as its use


def encode_history(history: Iterable[Turn]) -> str:
    """A history as one JSON string (guess, feedback, reason, rule of each turn): a dataset column."""
    return _compact.encode([turn[:4] for turn in history])


@lru_cache(maxsize=65536)
def decode_history(text: str) -> History:
    """The inverse of `encode_history` (raw texts are not kept)."""
    return tuple(Turn(*turn) for turn in json.loads(text))

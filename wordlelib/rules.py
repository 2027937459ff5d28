"""`Rules`: the one frozen record of which game is played and how it is shown to a model.

Every data card, config, games file and metrics file carries it; results under two different
records are never mixed.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from wordlelib.words import Words, alphabet_letters, capitals

CHOICES = {
    "universe": ("answers", "allowed"),
    "lexicon": ("full", "train"),
    "renderer": ("words", "symbols", "both", "facts"),
    "history": ("fresh", "chat"),
    "thinking": ("spelled", "words", "none"),
}

SHOWN = ("renderer", "history", "thinking", "no_guess_text", "not_a_word_text", "hard_mode_text")


@dataclass(frozen=True)
class Rules:
    """What game is played and shown.

    answers_sha256, allowed_sha256: canonical hashes of the two word lists (`Words.sha256`).
    length: letters in a word. alphabet: body of a regular-expression character class.
    turns: guesses in a game; an invalid turn uses one.
    universe: words a consistent player believes possible (`answers`, or `allowed` for a player
        that does not know the answer list).
    lexicon: `full` lets training text name held-out words, but never makes one the secret of a
        training game; `train` leaves them out of training text, dictionary and candidate sets.
    hard_mode: the official rule: greens stay, revealed letters are used again.
    renderer: how a state is written: feedback in `words`, in `symbols` or `both`, or past guesses with only
        what all feedback says together (`facts`), which a chat, grown guess by guess, does not have; then
        the prompt does not say either what form an answer has.
    history: `fresh` starts a new two-message chat each turn, `chat` grows one conversation.
    thinking: how a completion names words before its guess: spelled letter by letter (`spelled`), written
        as they are (`words`), or none at all.
    no_guess_text, not_a_word_text, hard_mode_text: what the model is shown for an invalid turn;
        `{guess}` is replaced by the guess in capitals.
    """

    game = "wordle"  # no field, so that no digest holds it; other games have rules of their own

    answers_sha256: str
    allowed_sha256: str
    length: int = 5
    alphabet: str = "a-z"
    turns: int = 6
    universe: str = "answers"
    lexicon: str = "full"
    hard_mode: bool = False
    renderer: str = "words"
    history: str = "fresh"
    no_guess_text: str = "no guess given"
    not_a_word_text: str = "{guess} is not a word"
    hard_mode_text: str = "{guess} breaks hard mode"
    thinking: str = "spelled"

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"rules: {name} is {getattr(self, name)!r}; use one of {', '.join(allowed)}")
        if (self.renderer, self.history) == ("facts", "chat"):
            raise ValueError(
                "rules: renderer facts sums past guesses up, and history chat shows them one by one; "
                "use another renderer, or history fresh"
            )
        for name in ("length", "turns"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ValueError(f"rules: {name} is {value!r}; use a whole number from 1")
        for name in ("no_guess_text", "not_a_word_text", "hard_mode_text"):
            try:
                getattr(self, name).format(guess="")
            except (KeyError, IndexError, ValueError):
                raise ValueError(
                    f"rules: {name} is {getattr(self, name)!r}; it can hold {{guess}} and no other braces"
                ) from None
        shown: dict[str, str] = {}
        for letter in alphabet_letters(self.alphabet):
            # States are written in capitals, and guesses are read in either case.
            if (other := shown.setdefault(capitals(letter), letter)) != letter:
                raise ValueError(
                    f"the alphabet is {self.alphabet!r}, in which {other!r} and {letter!r} have the same "
                    "capital; keep one of them, and write small letters only"
                )

    def __hash__(self) -> int:
        """Of the digest, which is made once: rules are part of the keys of many memories."""
        return hash(self.digest)

    @cached_property
    def digest(self) -> str:
        """Sixteen hex digits that change when any field does."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionary for YAML and JSON.

        `thinking` stands in it only when it is not `spelled`: games recorded before there was a choice keep
        their record and digest.
        """
        return {name: v for name, v in asdict(self).items() if (name, v) != ("thinking", "spelled")}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Rules":
        """Rebuild from `to_dict`; raises ValueError that names an unknown or missing field."""
        if "game" in values:
            from wordlelib.openspiel import BoardRules

            cls = BoardRules
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise ValueError(f"rules: unknown field {unknown[0]!r}; known are {', '.join(known)}")
        try:
            return cls(**values)
        except TypeError as error:
            raise ValueError(f"rules: {error}") from None


def rules_for(words: Words, **settings: Any) -> Rules:
    """The rules of a game on these lists: their hashes and word length, all else as in `settings`."""
    return Rules(words.sha256["answers"], words.sha256["allowed"], words.length, **settings)


def require_wordle(rules: Rules, what: str) -> None:
    """Raise ValueError unless the game is Wordle: `what` reads letters and marks, which others have not."""
    if rules.game != Rules.game:
        raise ValueError(
            f"{what} reads the letters of words, and this run played {rules.game}: see the table of "
            "`python -m wordlelib report`"
        )


def require_same_rules(first: Rules, second: Rules, where: str, shown: bool = True) -> None:
    """Raise ValueError that names every differing field, unless both records are equal.

    shown: False lets them differ in how the game is shown to a model and asked for (`SHOWN`).
    """
    a, b = ({"game": rules.game, **asdict(rules)} for rules in (first, second))
    names = [name for name in {**a, **b} if shown or name not in SHOWN]
    differing = [f"{n} ({a.get(n)!r} and {b.get(n)!r})" for n in names if a.get(n) != b.get(n)]
    if differing:
        raise ValueError(f"{where}: the rules differ in {', '.join(differing)}")

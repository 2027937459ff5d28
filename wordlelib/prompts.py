"""What the model reads and writes: system prompt, states, completions, and the total parser."""

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache, singledispatch
from typing import Any, NamedTuple

from wordlelib.game import ABSENT, CORRECT, PRESENT, History, Knowledge, Turn, encode_history, knowledge
from wordlelib.rules import Rules
from wordlelib.words import alphabet_letters, capitals

THINK, END_THINK = "<think>", "</think>"
GUESS, END_GUESS = "<guess>", "</guess>"
NO = " no"  # follows a word that a completion rejects
MARK_WORDS = {ABSENT: "absent", PRESENT: "present", CORRECT: "correct"}
MARK_SYMBOLS = {ABSENT: "-", PRESENT: "?", CORRECT: "!"}
SPACE = " \t\r\n"


class Parsed(NamedTuple):
    """The guess in lower case or None, and why: `ok`, `empty`, `no_tag`, `unclosed`,
    `wrong_length` or `not_letters`."""

    guess: str | None
    reason: str


@lru_cache(maxsize=32)
def _capitals(alphabet: str) -> dict[int, str]:
    return {ord(capitals(letter)): letter for letter in alphabet_letters(alphabet)}


@lru_cache(maxsize=32)
def _letters(alphabet: str) -> frozenset[str]:
    return frozenset(alphabet_letters(alphabet))


def answer_part(text: str) -> str | None:
    """The text after the thinking, or None when the thinking never ends.

    The thinking ends at the last `</think>`; its opening tag may be missing, since a prompt can
    end with it. A `<think>` with no `</think>` behind it has no answer part.
    """
    _, _, answer = text.rpartition(END_THINK)
    return None if THINK in answer else answer


@lru_cache(maxsize=16)  # one check after another asks for the same text
def parse_guess(text: str, length: int = 5, alphabet: str = "a-z") -> Parsed:
    """Find the guess in a completion. Total: any string gives a guess or a reason.

    One rule: after the thinking (`answer_part`), the last `<guess>` tag decides; what stands
    between it and its `</guess>`, less surrounding white space, is the guess. Tags inside the
    thinking never count, a missing `</guess>` is not forgiven, capitals are accepted, and nothing
    is repaired: no letter is dropped, added or folded from another script.
    """
    if not text.strip(SPACE):
        return Parsed(None, "empty")
    answer = answer_part(text)
    if answer is None:
        return Parsed(None, "unclosed")
    _, opened, rest = answer.rpartition(GUESS)
    if not opened:
        return Parsed(None, "no_tag")
    inside, closed, _ = rest.partition(END_GUESS)
    if not closed:
        return Parsed(None, "unclosed")
    word = inside.strip(SPACE).translate(_capitals(alphabet))
    if not word:
        return Parsed(None, "empty")
    if not _letters(alphabet).issuperset(word):
        return Parsed(None, "not_letters")
    if len(word) != length:
        return Parsed(None, "wrong_length")
    return Parsed(word, "ok")


_WELL_FORMED = re.compile(r"(?:\s*<think>)?[^<>]*</think>\s*<guess>[^<>]*</guess>\s*")


def is_well_formed(text: str, length: int = 5, alphabet: str = "a-z") -> bool:
    """True for exactly one thinking block, then exactly one guess that parses, and nothing more.

    The opening `<think>` may be missing, as in `answer_part`; `<` and `>` stand only in the tags.
    """
    return bool(_WELL_FORMED.fullmatch(text)) and parse_guess(text, length, alphabet).guess is not None


def spell(word: str) -> str:
    """`crane` as `C R A N E`: one token a letter for most tokenizers."""
    return " ".join(capitals(word))


def thought(candidates: Iterable[str], thinking: str = "spelled", rejected: Iterable[str] = ()) -> str:
    """The thinking of a completion, tags included; `thinking` as in `Rules`, `rejected` words come first."""
    refused = [f"{spell(word)}{NO}" for word in rejected]
    named = {"spelled": map(spell, candidates), "words": candidates, "none": ()}[thinking]
    return f"{THINK}{'; '.join([*refused, *named])}{END_THINK}"


def completion(
    candidates: Iterable[str], guess: str, thinking: str = "spelled", rejected: Iterable[str] = ()
) -> str:
    """The text of one turn: the thinking with its candidates (the guess among them), then the guess."""
    return f"{thought(candidates, thinking, rejected)}{GUESS}{guess}{END_GUESS}"


def assistant(text: str) -> dict[str, str]:
    """The chat message in which the model says `text`."""
    return {"role": "assistant", "content": text}


def taught_row(
    chat: list[dict[str, str]],
    text: str,
    source: str,
    secret: str = "",
    history: History = (),
    unjust: Sequence[str] = (),
) -> dict[str, Any]:
    """A row that SFT trains on: a prompt and what is to be said to it, as chat messages.

    secret, history: of the game, if there is one. unjust: words that the completion rejects though they fit.
    """
    return {
        "prompt": chat,
        "completion": [assistant(text)],
        "secret": secret,
        "history": encode_history(history),
        "source": source,
        "unjust": " ".join(unjust),
    }


# The opening tag may be missing, as in `answer_part`.
_REJECTED = re.compile(rf"(?:^|{THINK}|; )([^\W\d_](?: [^\W\d_])+){NO}(?=;|{END_THINK})")


def rejected_spans(text: str) -> list[tuple[int, int]]:
    """Where the words stand, from and to, that the thinking of a completion spells and rejects."""
    if NO not in text:  # most of a million rows
        return []
    return [found.span(1) for found in _REJECTED.finditer(text)]


def rejected_words(text: str) -> list[str]:
    """The words that the thinking of a completion rejects, in its order, as they would be guessed."""
    return [text[start:stop].replace(" ", "").lower() for start, stop in rejected_spans(text)]


_TAGS = re.compile("</?(?:think|guess)>")


def names(text: str, words: Collection[str], length: int) -> bool:
    """Whether a model's text holds one of the words, all of `length` letters: in one piece, or spelled."""
    if not words:
        return False
    letters = _TAGS.sub(";", text).replace(" ", "").lower()
    return any(letters[start : start + length] in words for start in range(len(letters)))


ASKED_THINKING = {"spelled": "words that fit, spelled out", "words": "words that fit", "none": ""}


def system_prompt(rules: Rules) -> str:
    """The rules of the game as the model is told them; short, since every row of training repeats them.

    With `facts`, which is for models that SFT teaches the form, it is the task alone: 12 tokens for 33.
    """
    task = f"Guess the secret word of {rules.length} letters in {rules.turns} turns."
    hard = " Hints must be used in every later guess." if rules.hard_mode else ""
    if rules.renderer == "facts":
        return task + hard
    marks = (
        " Each letter of a guess is marked correct (right place), present (another place) or absent (no "
        "further copy)."
    )
    return task + marks + hard + _form(rules)


def _form(rules: Rules) -> str:
    return f" Answer: {THINK}{ASKED_THINKING[rules.thinking]}{END_THINK}{GUESS}word{END_GUESS}"


def with_form(chat: list[dict[str, str]], rules: Rules) -> list[dict[str, str]]:
    """The chat as a model reads it that was not taught the form of an answer: the system message says it."""
    if rules.game != Rules.game or rules.renderer != "facts":
        return chat
    return [chat[0] | {"content": chat[0]["content"] + _form(rules)}, *chat[1:]]


def render_turn(number: int, turn: Turn, rules: Rules) -> str:
    """One past turn as a line, e.g. `Guess 1: C:absent R:present A:correct N:absent E:absent`.

    With the `symbols` renderer: `Guess 1: C- R? A! N- E-`.
    """
    label = f"Guess {number}: "
    if turn.feedback is None:
        text = {None: rules.no_guess_text, "not_a_word": rules.not_a_word_text}.get(
            turn.rule, rules.hard_mode_text
        )
        return label + text.format(guess=capitals(turn.guess or ""))
    marked = list(zip(capitals(turn.guess), turn.feedback, strict=True))
    words = " ".join(f"{letter}:{MARK_WORDS[mark]}" for letter, mark in marked)
    symbols = " ".join(f"{letter}{MARK_SYMBOLS[mark]}" for letter, mark in marked)
    return label + {"symbols": symbols, "both": f"{symbols} = {words}"}.get(rules.renderer, words)


def _knowledge_lines(known: Knowledge, renderer: str = "words") -> list[str]:
    """The summary: pattern, letters present with the places ruled out, letters absent.

    With the `facts` renderer it says all that feedback says: each letter present as often as it is yet to be
    placed, with the places open to it; letters that have no further copy; where placed ones do not recur.
    """
    facts, length = renderer == "facts", len(known.pattern)
    shown = _open_places if facts else _barred_places
    parts = {
        "Pattern": capitals(known.pattern),
        "Present": [shown(known, letter) for letter in known.present],
        "No further": sorted(capitals(letter) for letter, most in known.most.items() if most and facts),
        "Not": [_in_places(capitals(x), places, length) for x, places in known.barred.items() if facts],
        "Absent": map(capitals, known.absent),
    }
    lines = {name: " ".join(part) for name, part in parts.items()}
    return [f"{name}: {line}" for name, line in lines.items() if line]


def _in_places(letters: str, places: Iterable[int], length: int) -> str:
    """`A in 134`; where places have two digits, with spaces between them."""
    return f"{letters} in {('' if length < 10 else ' ').join(map(str, places))}"


def _barred_places(known: Knowledge, letter: str) -> str:
    places = known.present[letter]
    return f"{capitals(letter)} (not {' '.join(map(str, places))})" if places else capitals(letter)


def _open_places(known: Knowledge, letter: str) -> str:
    barred = known.present[letter]
    places = [n for n, placed in enumerate(known.pattern, 1) if placed == "_" and n not in barred]
    copies = " ".join([capitals(letter)] * known.unplaced(letter))
    return _in_places(copies, places, len(known.pattern))


def _past(history: History, rules: Rules) -> list[str]:
    """The lines of past turns; with `facts` one of all guesses with feedback, which the summary tells."""
    turns = list(enumerate(history, 1))
    if rules.renderer != "facts":
        return [render_turn(number, turn, rules) for number, turn in turns]
    wasted = [(n, turn) for n, turn in turns if turn.feedback is None and turn.rule != "not_a_word"]
    lines = [render_turn(number, turn, rules) for number, turn in wasted]
    return lines + _spelled("Tried", [turn.guess for turn in history if turn.feedback])


def _spelled(label: str, words: Iterable[str]) -> list[str]:
    spelled = "; ".join(map(spell, dict.fromkeys(words)))
    return [f"{label}: {spelled}"] if spelled else []


def told(history: History, known: Knowledge | None, rules: Rules) -> list[str]:
    """Past turns, then all that is known, in lines: the whole of a clue, and a state but for its first line.

    The `facts` renderer leaves the feedback of each guess out, since its summary says as much in fewer
    tokens, and spells all guesses like a completion, non-words last.
    """
    lines = _past(history, rules)
    if known:
        lines += _knowledge_lines(known, rules.renderer)
    if rules.renderer == "facts":
        lines += _spelled("Not words", [turn.guess for turn in history if turn.rule == "not_a_word"])
    return lines


def render_state(history: History, rules: Rules) -> str:
    """The user message before turn `len(history) + 1`: past turns, then what they say together.

    The `symbols` renderer leaves the summary out.
    """
    known = knowledge(history, rules.length) if history and rules.renderer != "symbols" else None
    return "\n".join([f"Turn {len(history) + 1} of {rules.turns}.", *told(history, known, rules)])


# How role and other control tokens begin whatever the tokenizer: <|im_start|>, <end_of_turn>, </s>, [INST].
_CONTROL = re.compile(r"[<\[](?!\s|/?(?:think|guess)>)")


def shown_again(text: str) -> str:
    """The model's own text as a later prompt shows it: any bracket that opens none of our tags gets a space.

    The tokenizer of a prompt takes the text of a control token for the token, so a model that spells
    `<|user|>` would write the environment's messages. Well-formed text stays as it is.
    """
    return _CONTROL.sub(r"\g<0> ", text)


def messages(history: History, rules: Rules) -> list[dict[str, str]]:
    """The chat that asks for the next guess (see `render`)."""
    return render(rules, history)


@singledispatch
def render(rules: Rules, history: History) -> list[dict[str, str]]:
    """What `messages` gives, by the type of the rules: here for Wordle.

    `fresh`: system and user message, whatever has happened. `chat`: one conversation that grows by
    the model's own text (`shown_again`) and the feedback of each turn.
    """
    chat = [{"role": "system", "content": system_prompt(rules)}]
    if rules.history == "fresh":
        return [*chat, {"role": "user", "content": render_state(history, rules)}]
    chat.append({"role": "user", "content": render_state((), rules)})
    for number, turn in enumerate(history, 1):
        chat.append(assistant(shown_again(turn.text)))
        reply = f"{render_turn(number, turn, rules)}\nTurn {number + 1} of {rules.turns}."
        chat.append({"role": "user", "content": reply})
    return chat


def printable(text: str) -> str:
    """Text of a model for a terminal: what is no line break and cannot be seen is written as an escape."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)

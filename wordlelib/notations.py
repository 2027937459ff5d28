"""Feedback, guesses and turns as others write them, read into ours; what cannot be one is a `Bad`."""

import ast
import json
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache, wraps
from itertools import compress

from wordlelib.containers import Bad, require_characters
from wordlelib.game import History, Turn
from wordlelib.prompts import parse_guess
from wordlelib.rules import Rules


def for_short(function: Callable) -> Callable:
    """Results kept by text, for texts that recur: long ones do not, and would fill the memory."""
    kept = lru_cache(maxsize=1 << 16)(function)

    @wraps(function)
    def read(text: str, *rest: object) -> object:
        return kept(text, *rest) if len(text) <= 80 else function(text, *rest)

    return read


_NAMES = {"absent": "B", "gray": "B", "grey": "B", "present": "Y", "yellow": "Y"}
_NAMES |= {"correct": "G", "green": "G"}
_NAME = "|".join(_NAMES)
_LETTER = r"[^\W\d_]"
_SPELLED = re.compile(
    rf"(?<![^\W\d_])([^\W\d_])\s?(\((?:.|{_NAME})\)|[:=]\s?(?:{_NAME})\b|[-?!](?=\s|$))", re.I
)
_MARKS = {
    **{"(x)": "B", "(X)": "B", "(✗)": "B", "(-)": "Y", "(✓)": "G", "(✔)": "G"},  # as predibase has them
    **{"-": "B", "?": "Y", "!": "G"},
}
_COMPACT = (("BX_", "Y", "G"), ("bx_", "y", "g"), ("⬛⬜", "🟨", "🟩"), ("⬛⬜", "🟦", "🟧"), ("0", "1", "2"))
_COLOURS = [
    {mark: colour for marks, colour in zip(kinds, "BYG", strict=True) for mark in marks} for kinds in _COMPACT
]
_TURN = r"^[ \t]*(?:guess|round|attempt|turn)[ \t]*#?(\d+)[ \t]*:"
LINE = re.compile(rf"{_TURN}(.+)$", re.I | re.M)
_TURN_LINE = re.compile(r"^Turn (\d{1,4}) of \d+\.$", re.M)  # of `render_state`
# A turn whose feedback stands in the line below its guess.
_IN_TWO_LINES = re.compile(
    rf"({_TURN}[ \t]*[^\W\d_]+)\s*\n[ \t]*"
    r"((?:feedback|results?|response|reply|colou?rs|marks|clues?|hints?)[ \t]*#?\d*[ \t]*:.+|"
    r"[BXYG012⬛⬜🟨🟩🟦🟧\ufe0f \t]+)$",
    re.I | re.M,
)


@for_short
def as_word(text: str, length: int, alphabet: str) -> str | None:
    """A guess in lower case by the rule of `parse_guess`, None when it is no string of the alphabet.

    A letter and its accent may be two characters (NFD): as a name in a column they are the letter (NFC).
    """
    if "<" in text:
        return None
    return parse_guess(f"<guess>{unicodedata.normalize('NFC', text)}</guess>", length, alphabet).guess


def decomposed(text: str) -> str:
    """What to say of a text that is not read as it is written: nothing, unless accents stand apart in it."""
    if unicodedata.is_normalized("NFC", text):
        return ""
    return ", with accents as characters of their own (Unicode NFD): write the file in NFC"


@for_short
def read_feedback(text: str, length: int) -> tuple[str | None, str] | None:
    """Letters (None where not written) and feedback over B, Y, G of one guess; None for no known notation.

    Known: `C(x) R(-) A(✓)` as predibase writes it, the three renderers of this project, a mark or name of a
    colour after each letter, such names alone (`absent, green, …`), and one mark a letter in B or X or _, Y,
    G, all large or all small, in squares, or in 0, 1, 2, with or without spaces between.
    """
    if found := _SPELLED.findall(text.rpartition(" = ")[2]):
        kinds = [mark[0] if mark[0] in "(:=" else "-" for _, mark in found]
        found = list(compress(found, (kind == kinds[-1] for kind in kinds)))
        marks = [_MARKS.get(mark) or _NAMES.get(mark.strip(":=() ").lower()) for _, mark in found]
        if len(found) != length or None in marks:
            return None
        return "".join(letter for letter, _ in found), "".join(marks)
    names = [_NAMES.get(word) for word in re.findall(r"[^\W\d_]+", text.lower())]
    if len(names) >= length and None not in names[-length:]:
        return (None, "".join(names[-length:])) if set(names[:-length]) <= {None} else None
    text = text.replace("\ufe0f", "")
    tokens = re.findall(r"[^\s,]+", text)
    spaced = "".join(tokens[-length:])
    for token in (*reversed(tokens), spaced):
        for table in _COLOURS if len(token) == length else ():
            if all(mark in table for mark in token):
                more = token is spaced and len(tokens) > length and tokens[-length - 1] in table
                return None if more else (None, "".join(map(table.get, token)))
    return None


def colours(text: object, guess: str, rules: Rules) -> str:
    """The feedback that a row gives for `guess`, over B, Y, G."""
    if isinstance(text, list) and all(type(mark) in (str, int) for mark in text):
        text = " ".join(map(str, text))
    if not isinstance(text, str) or not (read := read_feedback(text, rules.length)):
        raise Bad("feedback in no known notation", repr(text)[:80])
    if read[0] and as_word(read[0], rules.length, rules.alphabet) != guess:
        raise Bad("feedback spells another word than the guess", f"{text!r} for {guess!r}")
    return read[1]


def _guess(text: object, rules: Rules) -> str:
    if not isinstance(text, str) or not (word := as_word(text, rules.length, rules.alphabet)):
        raise Bad(f"guess is not a word of {rules.length} letters {rules.alphabet}", repr(text)[:80])
    return word


@lru_cache(maxsize=16)
def _invalid_lines(rules: Rules) -> tuple[tuple[str, re.Pattern], ...]:
    texts = (("not_a_word", rules.not_a_word_text), ("hard_mode", rules.hard_mode_text))
    return tuple(
        (rule, re.compile(re.escape(text).replace(r"\{guess\}", r"(\w+)"), re.I)) for rule, text in texts
    )


def invalid_turn(body: str, rules: Rules) -> Turn | None:
    """The turn of a line that says why there is no feedback."""
    if body == rules.no_guess_text:
        return Turn(None, None, "empty", None)
    for rule, pattern in _invalid_lines(rules):
        if match := pattern.fullmatch(body):
            return Turn(_guess(match[1], rules) if match.groups() else None, None, "ok", rule)
    return None


@for_short
def _told_turn(body: str, rules: Rules) -> Turn:
    """The turn of what follows `Guess 1:`."""
    if turn := invalid_turn(body, rules):
        return turn
    if not (read := read_feedback(body, rules.length)):
        raise Bad("feedback in no known notation", repr(body)[:80])
    return Turn(_guess(read[0] or re.split(r"[\s:,>→-]", body)[0], rules), read[1])


@lru_cache(maxsize=16)
def _scored_word(length: int) -> re.Pattern:
    """A word with its feedback behind it, as in `SLATE => BBBBB`, which must not be taken for no guess."""

    def in_a_row(mark: str, between: str = "[ ,]*") -> str:
        return rf"{mark}(?:{between}{mark}){{{length - 1}}}"

    word = rf"\b(?:{in_a_row(_LETTER, '')}|{in_a_row(_LETTER, ' ')})\b"
    named = in_a_row(rf"(?i:{_NAME})\b", "[ ,]+")
    marks = rf"(?:(?:{in_a_row('[BXYG]')}|{in_a_row('[bxyg]')}|{in_a_row('[012]')}|{named})\b"
    marks += rf"|{in_a_row('[🟩🟨🟧🟦⬛⬜]', '[^a-z]?')})"
    spelled = in_a_row(rf"{_LETTER}\s?(?:\((?:.|{_NAME})\)|[:=]\s?(?:{_NAME})\b)", r"[\s,]*")
    return re.compile(rf"{word}\W{{1,8}}(?:(?i:feedback|results?)\W{{1,8}})?{marks}|\b{spelled}")


def text_history(text: str, rules: Rules) -> History:
    """The turns of lines `Guess 1: …`; of several games in a text, such as examples, the last."""
    try:
        return _told_turns(text, rules)
    except Bad:
        joined = _IN_TWO_LINES.sub(r"\1 \3", text)
        if joined == text:
            raise
        return _told_turns(joined, rules)


def _told_turns(text: str, rules: Rules) -> History:
    lines = LINE.findall(text)
    if not lines and (unread := _scored_word(rules.length).search(text)):
        raise Bad("past guesses in no known layout", repr(unread[0])[:80])
    starts = [place for place, (number, _) in enumerate(lines) if number == "1"]
    lines = lines[starts[-1] :] if starts else lines
    if [number for number, _ in lines] != [str(place) for place in range(1, len(lines) + 1)]:
        raise Bad("the guesses in the prompt are not numbered from 1", ", ".join(n for n, _ in lines)[:80])
    if (turns := _TURN_LINE.findall(text)) and int(turns[-1]) != len(lines) + 1:
        # States of `facts` leave guesses out.
        raise Bad("the prompt does not tell all past guesses", f"{len(lines)} before turn {turns[-1]}")
    return tuple([_told_turn(body.strip(), rules) for _, body in lines])


@for_short
def _scored_turn(guess: str, feedback: str, rules: Rules) -> Turn:
    guess = _guess(guess, rules)
    return Turn(guess, colours(feedback, guess, rules) if feedback else "")


_LEGAL = (["ok", "ok"], [])  # what follows guess and feedback in a list


def _turn(value: object, rules: Rules) -> Turn:
    """A turn as a guess, as [guess, feedback, …] or as an object; feedback "" where it is not given."""
    if isinstance(value, str):
        return Turn(_guess(value, rules), "")
    if isinstance(value, list) and 2 <= len(value) <= len(Turn._fields):
        if value[2:] in _LEGAL and isinstance(value[0], str) and isinstance(value[1], str):
            return _scored_turn(value[0], value[1], rules)  # by far the most: kept, since turns recur
        value = dict(zip(Turn._fields, value, strict=False))
    if not isinstance(value, dict):
        raise Bad("a turn is no word, pair or object", repr(value)[:80])
    text, guess, rule = value.get("text") or "", value.get("guess"), value.get("rule") or "ok"
    reason = value.get("reason") or "ok"
    if not all(isinstance(part, str) for part in (text, rule, reason)):
        raise Bad("text, reason and rule of a turn must be texts", repr(value)[:80])
    if guess in (None, ""):
        if reason == "ok":
            raise Bad("a turn without a guess", repr(value)[:80])
        return Turn(None, None, reason, None, text)
    guess, feedback = _guess(guess, rules), value.get("feedback")
    if rule == "ok":
        return Turn(guess, colours(feedback, guess, rules) if feedback else "", reason, rule, text)
    return Turn(guess, None, reason, rule, text)


def column_history(text: object, rules: Rules) -> History:
    """The turns of a `history` or `past_guess_history` column: a list, as itself, in JSON or in Python."""
    if not isinstance(text, str):
        return listed_history(text, rules)
    try:
        turns = json.loads(text)
    except (ValueError, RecursionError):
        try:
            turns = ast.literal_eval(text)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            raise Bad("the column of past guesses is no list", repr(text)[:80]) from None
    if "\\" in text:
        require_characters(turns)
    return listed_history(turns, rules)


def listed_history(turns: object, rules: Rules) -> History:
    """The history in a list of turns, each an object or a list; raises `Bad` for anything else."""
    if not isinstance(turns, list):
        raise Bad("the turns are no list", repr(turns)[:80])
    return tuple([_turn(list(turn) if isinstance(turn, tuple) else turn, rules) for turn in turns])

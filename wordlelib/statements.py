"""Plain English about letters, read: which sentences say where a letter is, and which only suppose it.

A sentence counts only where it is sure what it says. What is supposed, asked, denied as a whole or said of
another word than the secret is left out, so that nothing true is taken for false.
"""

import re
from collections.abc import Collection, Iterator, Set
from itertools import chain
from typing import NamedTuple

from wordlelib.notations import for_short

SPELLED = re.compile(r"(?<![^\W\d_])[^\W\d_](?: [^\W\d_])+(?![^\W\d_])")


class Claim(NamedTuple):
    """What one statement says of each of `letters` (lower case).

    kind: absent, present (at least so many `copies`), marked (grey in some guess, as a further copy is
    too), at or not at (each of `places`, from 1; the last place is -1). said: its words.
    """

    said: str
    kind: str
    letters: str
    copies: int = 1
    places: tuple[int, ...] = ()


_NAMES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS = {str(number): number for number in range(1, 100)} | {n: i for i, n in enumerate(_NAMES, 1)}
_NTH_NAMES = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_NTH_SHORT = ("1st", "2nd", "3rd", *(f"{number}th" for number in range(4, 11)))
_ORDINALS = {"last": -1} | {n: i for names in (_NTH_NAMES, _NTH_SHORT) for i, n in enumerate(names, 1)}
_COPIES = {name: _ORDINALS[name] for name in ("second", "2nd", "third", "3rd")}


def _any(words: Collection[str]) -> str:
    return rf"(?:{'|'.join(sorted(words, key=len, reverse=True))})\b"


# A letter that stands alone, maybe in quotes: neither the end of "it's" nor a part of "C R A N E".
_ALONE = r"(?<![^\W_])(?<!\w['’])['\"`‘“]{0,3}[^\W\d_]['\"`’”]{0,3}(?![^\W_]|['’]\w)"
_LETTER = rf"(?<!\b[^\W\d_] ){_ALONE}"


def _list(letter: str, separator: str) -> str:
    # To its end or not at all: a possessive quantifier says so, and Python before 3.11.5 matches it wrongly.
    further = rf"(?:{separator}){letter}"
    return rf"{letter}(?:{further}){{0,25}}(?!{further})"


_ALL_OF = _list(_LETTER, r" ?, ?and | ?[,&] ?| and ")
_OR_ALSO = r"(?: ?, ?(?:(?:and|or|nor) )?| ?[/&] ?| (?:and|or|nor) )(?:no )?"
_ANY_OF = _list(_LETTER, _OR_ALSO)
_NONE_OF = _list(rf"{_LETTER}(?! (?:is|must|can)\b)", _OR_ALSO)  # "no E, and R is" has one letter
_LISTED = _list(rf"{_ALONE}(?: ?\([^()]*\))?", r"[ ,&]{1,3}(?:and )?")  # as in "Present: R (not 2) A"

_WORD = r"the (?:secret |hidden |target )?(?:word|answer|solution|secret)"
_IN_WORD = rf"(?:in|part of) {_WORD}"
_PLACE = r"(?:position|place|spot|slot|letter)"
_OR = r" ?(?:, ?)?(?:\b(?:and|or|nor)\b|[&/]) ?"
_NUMBER, _ORDINAL = _any(_NUMBERS), _any(_ORDINALS)
_NUMBERED = rf"{_PLACE}s? #?{_NUMBER}(?:(?: ?, ?{_NUMBER})*{_OR}(?:{_PLACE} )?{_NUMBER})?"
_NTH = rf"(?:the )?{_ORDINAL}(?:(?: ?, ?{_ORDINAL})*{_OR}(?:the )?{_ORDINAL})?"
_PLACES = rf"(?P<places>{_NUMBERED}|{_NTH}(?: {_PLACE}s?)?(?: (?:of|in) {_WORD})?)"
_ONE_PLACE = rf"(?P<places>{_PLACE} #?{_NUMBER}|(?:the )?{_ORDINAL} {_PLACE}(?: (?:of|in) {_WORD})?)"
# "The second E" is one of a guess, "a second E" one of the secret.
_COPY = rf"(?:(?<!the )(?P<copies>{_any(_COPIES)}) )?"

_NOT = r"(?P<no> not|n['’]t)?"
_NEVER = r"(?:cannot|can not|can['’]t|must not|mustn['’]t)"
_DOES_NOT = r"do(?:es)?(?: not|n['’]t)"
_IS = rf"(?:is|are|(?:go|belong|appear)(?:es|s)?|stays|sits|must (?:be|go)|ha(?:s|ve) to be){_NOT}"
_IS_NEVER = rf"(?P<never>{_NEVER} (?:be|go|appear)|{_DOES_NOT} (?:go|appear|belong))"
_SURELY = (
    r"(?: (?:also|still|now|definitely|clearly|certainly|already|really|actually|(?:known|confirmed) to be))?"
)
_TOLD = "|".join(
    [
        rf"(?P<absent>(?:absent|missing|eliminated|excluded|ruled out)(?: (?:from|in) {_WORD})?)",
        r"(?P<marked>gr[ae]y|marked (?:as )?(?:gr[ae]y|absent))",
        r"(?P<coloured>yellow|green|correct)",
        rf"(?P<present>present(?: in {_WORD})?|{_IN_WORD})",
        rf"(?:in {_WORD} )?(?P<how>green|correct|fixed|locked|yellow|gr[ae]y|absent|excluded|ruled out|"
        rf"present)? ?(?:(?:in|at|from|for) )?{_PLACES}",
    ]
)
# After the words that are known nothing may follow that could change what they say.
_END = (
    r"(?= ?(?:$|[.,;:!?)\]\"…–—]|-(?! ?\w))| (?:and|but|so|because|since|while|though|although|too|also|yet|"
    r"as well|either|anymore|anywhere|somewhere|now|therefore|thus|hence)\b)(?! ?[–—-] ?\d)"
)
_HAS = r"(?:has|contains|includes|must (?:have|contain|include))"
_THERE_IS = rf"(?:there(?: (?:is|are|must be)|['’]s)|{_WORD} {_HAS})"
_HAS_NOT = rf"{_WORD} (?:{_DOES_NOT}|{_NEVER}) (?:have|contain|include) (?:an? |any )?"
_BARE_NO = r"(?:^ ?|(?<=[,(:-] )|(?<=\b(?:and|but) )|(?<=\bso )|(?<=\bthat )|(?<=\bbecause ))no "
_AFTER_A = rf"(?P<letters>(?<=\ba ){_ALONE}|{_LETTER})"
_ONE = rf"(?:an? )?{_AFTER_A}(?! ?[,/] ?{_ALONE}(?! (?:is|must|can)))"  # not "R, S or T"
_MARKED_AS = r"(?:(?P<marked>absent|gr[ae]y)|(?P<coloured>present|yellow|green|correct))"
_PATTERNS = {
    "subject": rf"{_COPY}(?P<letters>{_LETTER}(?= is)|{_ALL_OF}(?! is)) (?:{_IS}|{_IS_NEVER}){_SURELY} "
    rf"(?:{_TOLD})",
    "place": rf"{_ONE_PLACE} ?(?:\b(?:is|must be|has to be){_NOT} |(?P<never>{_NEVER} be )|=) ?{_ONE}",
    "edge": rf"{_WORD} (?:must )?(?:(?P<first>start|begin)|(?P<last>end))s? with {_ONE}",
    "has no": rf"(?P<absent>{_THERE_IS} no |{_HAS_NOT}|{_BARE_NO}){_COPY}(?P<letters>{_NONE_OF})"
    rf"(?: {_IN_WORD})?",
    "has": rf"(?P<present>{_THERE_IS}) (?:an? )?{_COPY}{_AFTER_A}(?: {_IN_WORD})?",
    "neither": rf"(?P<absent>neither|none of(?: the letters)?) (?P<letters>{_ANY_OF}) "
    rf"(?:is|are|appears?) (?:present|{_IN_WORD})",
    "was": rf"(?P<letters>{_ALL_OF}) (?:was|were){_SURELY} (?:marked )?{_MARKED_AS}",
    # "G: green, Y: yellow, B: absent" says how feedback is written.
    "by letter": rf"(?P<letters>{_LETTER}(?<![bgyx])) ?: ?{_MARKED_AS}",
    "ruled out": rf"(?:^ ?|(?<=[,(:-] )|(?<=\bso )|\b(?:we|i|this|that|we can|i can|(?:i|we) have|feedback) )"
    rf"(?P<absent>rule[sd]? out) (?P<letters>{_ANY_OF})",
    "label": rf"\b(?:(?P<absent>absent|eliminated|excluded|ruled out|not in {_WORD})|(?P<marked>gr[ae]y)|"
    rf"(?P<present>present|yellow|green|(?<!not )in {_WORD}))(?: letters?)? ?[:=] ?(?P<letters>{_LISTED})",
}
_CLAIMS = {
    # Where no word begins none of them does: seen at once at most places.
    name: re.compile(rf"(?<![^\W_])(?:{pattern}){_END}", re.IGNORECASE)
    for name, pattern in _PATTERNS.items()
}
# Of these a sentence with such a statement holds one, in small letters. Looking for them takes a tenth of the
# time, and so does what stands behind the last letter of any statement.
_SIGNS = {
    "subject": ("",),
    "place": ("position", "place", "spot", "slot", "letter"),
    "edge": (" with ",),
    "has no": ("no", "n't", "n’t"),
    "has": ("there", "has", "have", "contain", "include"),
    "neither": ("neither", "none"),
    "was": (" was ", " were "),
    "by letter": (":",),
    "ruled out": ("out",),
    "label": (":", "="),
}
_LAST_LETTER = re.compile(
    r"[\W_][^\W\d_](?![^\W_])['\"`’”]{0,3}(?: ?(?:$|[.,;:!?)\]\"…–—(-])| (?:and|but|so|because|since|while|"
    r"though|although|too|also|yet|as well|either|anymore|anywhere|somewhere|now|therefore|thus|hence|in the|"
    r"part of|is|are|was|were|goe?s?|belongs?|appears?|stays|sits|must|ha(?:s|ve) to|can|cannot|do|does)"
    r"(?:n['’]t)?\b)",
    re.IGNORECASE,
)

_BY_LETTER = _CLAIMS["by letter"]
# What may be said of another word too, which its line names.
_OF_A_WORD = (*(_CLAIMS[name] for name in ("has", "has no", "was", "ruled out")), _BY_LETTER)
_SINGLE = re.compile(r"(?<![^\W_])[^\W\d_](?![^\W_])")

ANY_WORD = re.compile(r"[^\W\d_]{2}")
_SENTENCE = re.compile(r"[^.;!?\n]+[.;!?]?")
_DOUBT = (
    r"\b(?:if|whether|unless|suppos\w*|assum\w*|imagine|maybe|perhaps|possibly|probably|likely|might|may|could|"
    r"would|should|either|or|then|try|trying|lets?|what about|i guess|hop(?:e|ing)|want|wonder\w*|until|when|"
    r"except|where|once|sa(?:y|id)|thought|expected|consider\w*|check\w*|test\w*|least|otherwise|right|"
    r"contradict\w*)\b"
)
_SUPPOSED = re.compile(_DOUBT, re.IGNORECASE)
# After a statement only the rest of its clause can suppose it, or the first word of the next one.
_SUPPOSED_AFTER = re.compile(
    rf"(?:(?!\b(?:but|so|because|since)\b)[^,:]){{0,200}}?{_DOUBT}| ?[,(–—] ?{_DOUBT}", re.IGNORECASE
)
_DENIED = re.compile(
    r"\b(?:not|never|no|nothing|neither|nor|none|cannot|without|wrong|false|incorrect|untrue|doubt|deny|"
    r"\w+n['’]t)\b(?:(?!\b(?:but|so|because|since)\b)[^,:])*$",
    re.IGNORECASE,
)
# One copy of a letter in a guess, not the letter.
_ONE_COPY = re.compile(
    r"\b(?:another|other|extra|further|additional|more|first|second|third|fourth|last|final|repeated|double|"
    r"duplicate|this|one|each|every|middle|remaining|initial|leading|trailing|only|gr[ae]y|yellow|green|correct)"
    r" (?:letter )?$",
    re.IGNORECASE,
)
_OF_A_GUESS = re.compile(r"\b(?:guess\w*|tried|attempt\w*|candidates?)\b", re.IGNORECASE)
# What no sentence lacks that names one; two patterns, since one of both takes three times as long.
_MARKED = re.compile(r"[A-Z'\"`:\u0080-\U0010ffff](?:(?<=['\"‘“`:])|[^\W\d_a-z])")
_SPACED = re.compile(r"[\W\d_][^\W\d_] [^\W\d_](?![^\W\d_])")
_NAMED = re.compile(r"['\"‘“`]([^\W\d_]+)['\"’”`]|([^\W\d_]+)(?=:)|([^\W\d_]+)")


def claims(text: str, guesses: Set[str]) -> Iterator[Claim]:
    """The statements of a text about the secret, in order; total on any text, and none without `guesses`.

    guesses: those made so far, in lower case. Where a sentence names one, or its line another word before,
    what is said of places may be said of that word, and is left out; `A: absent` after any other word.
    """
    length = len(next(iter(guesses), ""))
    text = text.replace("*", "")  # without the marks of **emphasis**
    if not length:
        return
    before, other_before = [], False
    for line in text.split("\n"):
        line, other = " ".join(line.split()), False
        for sentence in _SENTENCE.findall(line) if _LAST_LETTER.search(f" {line}") else ():
            named = _named(sentence, length)
            other |= not named <= guesses
            for claim, pattern in _read(sentence) if _LAST_LETTER.search(f" {sentence}") else ():
                if pattern is _BY_LETTER:
                    other_before |= any(not _named(said, length) <= guesses for said in before)
                    before.clear()
                    other |= other_before
                near = named or other or _OF_A_GUESS.search(sentence)
                if not (near and (claim.places or pattern in _OF_A_WORD)):
                    yield claim
        before.append(line)


def _named(sentence: str, length: int) -> set[str]:
    """The words of the game in a sentence: in quotes, before a colon, in capitals, or spelled out."""
    found = []
    if _SPACED.search(f" {sentence}"):
        found += (word.replace(" ", "") for word in SPELLED.findall(sentence))
    for quoted, label, word in _NAMED.findall(sentence) if _MARKED.search(sentence) else ():
        found.append(quoted or label or (word if word.isupper() else ""))
    return {word.lower() for word in found if len(word) == length}


@for_short
def _read(sentence: str) -> list[tuple[Claim, re.Pattern]]:
    """What a sentence states, and the pattern by which it does."""
    if sentence.endswith("?"):
        return []
    found, rest, end, small = [], list(sentence), 0, sentence.lower()
    patterns = (_CLAIMS[name] for name, signs in _SIGNS.items() if any(sign in small for sign in signs))
    matches = chain.from_iterable(pattern.finditer(sentence) for pattern in patterns)
    for match in sorted(matches, key=re.Match.start):
        if match.start() >= end:
            end = match.end()
            found.append(match)
            rest[match.start() : end] = " " * len(match[0])
    if not found:
        return []
    # What is left says whether the statements are meant.
    rest = "".join(rest)
    supposed = _SUPPOSED.search(rest)
    stated = []
    for match in found:
        before = rest[max(0, match.start() - 200) : match.start()]
        if supposed and (supposed.start() < match.start() or _SUPPOSED_AFTER.match(rest, match.end())):
            continue
        if _DENIED.search(before) or _ONE_COPY.search(before):
            continue
        if claim := _claim(match):
            stated.append((claim, match.re))
    return stated


def _claim(match: re.Match) -> Claim | None:
    """The claim of a match, None where it says nothing for sure."""
    part = match.groupdict()
    letters = "".join(_SINGLE.findall(re.sub(r"\([^()]*\)", "", part["letters"]))).lower()
    copies = _COPIES[part["copies"].lower()] if part.get("copies") else 1
    kind, places = _kind(part), _places(part)
    if kind in ("at", "not at"):
        either = kind == "at" and re.search(r"\bor\b|/", part.get("places") or "", re.IGNORECASE)
        return None if either or copies > 1 else Claim(match[0].strip(), kind, letters, 1, places)
    return Claim(match[0].strip(), kind, letters, copies) if kind else None


def _kind(part: dict[str, str | None]) -> str | None:
    denied = bool(part.get("no") or part.get("never"))
    if part.get("absent"):
        return "present" if denied else "absent"
    if part.get("present"):
        return "absent" if denied else "present"
    if part.get("marked"):
        return None if denied else "absent" if part.get("copies") else "marked"
    if part.get("coloured"):
        return None if denied else "present"
    how = (part.get("how") or "").lower()
    if how == "present":
        return "not at" if denied else "present"
    if how == "yellow":
        return None if denied else "present"
    if how not in ("", "green", "correct", "fixed", "locked"):
        return None if denied else "not at"
    return "not at" if denied else "at"


def _places(part: dict[str, str | None]) -> tuple[int, ...]:
    if part.get("first") or part.get("last"):
        return (1,) if part["first"] else (-1,)
    names = _NUMBERS | _ORDINALS
    return tuple(
        names[word] for word in re.findall(r"\w+", (part.get("places") or "").lower()) if word in names
    )

"""Word lists pinned by hash, custom lists checked line by line, and splits by secret."""

import hashlib
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

LISTS = Path(__file__).parent / "lists"


class Split(NamedTuple):
    """Disjoint secrets. `test` is what reports call held out; `val` is for choosing and stopping."""

    train: tuple[str, ...]
    val: tuple[str, ...]
    test: tuple[str, ...]


@lru_cache(maxsize=32)
def alphabet_letters(alphabet: str) -> tuple[str, ...]:
    """The letters of a regular-expression character class such as `a-z`; ValueError when it is none."""
    try:
        return tuple(re.findall(f"[{alphabet}]", "".join(map(chr, range(0x10000)))))
    except re.error:
        raise ValueError(f"the alphabet is {alphabet!r}; write its letters, or a range such as a-z") from None


def capitals(text: str) -> str:
    """`text` in capitals, letter by letter: one whose capital is two letters, such as `ß`, stays as it is."""
    written = text.upper()
    if len(written) == len(text):
        return written
    return "".join(letter.upper() if len(letter.upper()) == 1 else letter for letter in text)


def list_sha256(words: Iterable[str]) -> str:
    """SHA-256 of a list in canonical form: one lower-case word a line, each ended by a newline."""
    return hashlib.sha256("".join(f"{word}\n" for word in words).encode()).hexdigest()


@dataclass(frozen=True)
class Words:
    """The answers (possible secrets) and the allowed guesses (answers included), in file order."""

    answers: tuple[str, ...]
    allowed: tuple[str, ...]

    @cached_property
    def sha256(self) -> dict[str, str]:
        """Canonical hash of each list, by the names `answers` and `allowed`."""
        return {"answers": list_sha256(self.answers), "allowed": list_sha256(self.allowed)}

    @cached_property
    def dictionary(self) -> frozenset[str]:
        """The allowed guesses as a set."""
        return frozenset(self.allowed)

    @property
    def length(self) -> int:
        """Letters in every word."""
        return len(self.allowed[0])

    def __repr__(self) -> str:
        return (
            f"Words({len(self.answers):,} answers {self.sha256['answers'][:8]}, "
            f"{len(self.allowed):,} allowed {self.sha256['allowed'][:8]})"
        )


def read_list(path: str | Path, length: int | None = None, alphabet: str = "a-z") -> tuple[str, ...]:
    """Read one word a line, stripped and lower-cased, in file order.

    `length` None takes the length of the first word. Raises ValueError with file and line number
    for a blank line, a line that is not `length` letters of `alphabet`, a repeated word, an empty
    file or bytes that are not UTF-8; FileNotFoundError names a missing file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such word list")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a UTF-8 text file ({error.reason})") from None
    letters = set(alphabet_letters(alphabet))
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        written = line.strip()
        word = written.lower()
        length = length or len(word)
        # Some foreign capitals become plain letters in lower case: upper case must lead back.
        if not set(word) <= letters or len(word) != (length or 1) or word.upper() != written.upper():
            raise ValueError(
                f"{path}, line {number}: {line!r} is not a word of {length or 'the'} letters {alphabet}; "
                "write one word a line"
            )
        if word in seen:
            raise ValueError(f"{path}, line {number}: {word!r} stands already in line {seen[word]}")
        seen[word] = number
    if not seen:
        raise ValueError(f"{path}: the word list is empty")
    return tuple(seen)


def load_words(
    answers: str | Path | None = None, allowed: str | Path | None = None, alphabet: str = "a-z"
) -> Words:
    """The shipped 2,315 answers and 12,972 allowed guesses, or the user's own files.

    With only `answers` given, the answers are also the allowed guesses. The word length is that
    of the first word. Raises as `read_list` does, and when an answer is not an allowed guess.
    """
    if answers is None and allowed is not None:
        raise ValueError("an allowed list needs an answer list of its own: give both files")
    answer_words = read_list(answers or LISTS / "answers.txt", alphabet=alphabet)
    length = len(answer_words[0])
    if answers is not None and allowed is None:
        return Words(answer_words, answer_words)
    allowed_words = read_list(allowed or LISTS / "allowed.txt", length, alphabet)
    if missing := sorted(set(answer_words) - set(allowed_words)):
        raise ValueError(
            f"{answers}: {len(missing)} of {len(answer_words)} answers not in the allowed list {allowed}, "
            f"the first is {missing[0]!r}; add them to the allowed list"
        )
    return Words(answer_words, allowed_words)


def sample_words(words: Words, size: int, seed: int = 0) -> Words:
    """A small game: `size` answers drawn by `seed` are both its secrets and its dictionary."""
    if not 1 <= size <= len(words.answers):
        raise ValueError(f"cannot draw {size} words from {len(words.answers):,} answers")
    drawn = tuple(sorted(random.Random(seed).sample(words.answers, size)))
    return Words(drawn, drawn)


def without(words: Words, heldout: Iterable[str]) -> Words:
    """The lists with the `heldout` words left out of both (the `train` lexicon)."""
    gone = set(heldout)
    keep = [tuple(w for w in part if w not in gone) for part in (words.answers, words.allowed)]
    return Words(*keep)


def split_secrets(words: Words, seed: int = 7, test: int = 500, val: int = 115) -> Split:
    """Split the answers by secret: shuffle with a generator of its own, the rest is `train`.

    Raises ValueError when the sizes leave no training secret.
    """
    if test < 0 or val < 0 or test + val >= len(words.answers):
        raise ValueError(
            f"a test part of {test} and a validation part of {val} do not fit "
            f"{len(words.answers):,} answers; together they must stay below that"
        )
    shuffled = list(words.answers)
    random.Random(seed).shuffle(shuffled)
    split = Split(
        train=tuple(shuffled[test + val :]),
        val=tuple(shuffled[test : test + val]),
        test=tuple(shuffled[:test]),
    )
    require_disjoint(split.train, split.val + split.test, "split_secrets")
    return split


def require_disjoint(train: Iterable[str], heldout: Iterable[str], where: str) -> None:
    """Raise ValueError that names the overlap of training secrets and held-out secrets."""
    if overlap := sorted(set(train) & set(heldout)):
        raise ValueError(
            f"{where}: {len(overlap)} secrets are both trained on and held out: {', '.join(overlap[:10])}"
        )

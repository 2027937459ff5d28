"""Vocabulary practice: words by their pattern and letters, without any game.

In a game with a training secret no other word is ever the last one left, so a student learns which words can
be. A clue shows what could be known of any word of the lexicon as the summary of a state does, but it is made
of that word alone: which letters and places it gives away is drawn at random, and there are no guesses.
"""

import random
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from wordlelib.game import History, Knowledge, Turn, encode_history
from wordlelib.misses import MOST_LEFT, fitting, invented, misses
from wordlelib.prompts import completion, parse_guess, rejected_words, system_prompt, taught_row, told
from wordlelib.rewards import misrejects
from wordlelib.rules import Rules
from wordlelib.solver import letter_table
from wordlelib.words import Words

SOURCE = "clue"
# A clue tells about as much as the states in which SFT's secrets are the one word left.
GREEN = (0.15, 0.4, 0.7)  # chances of a letter to be known with its place: one of them holds for a clue
PRESENT = 0.35  # of other letters, those that are known without their place
ABSENT = (6, 22)  # draws of letters that are known to be absent, from and to; frequent ones come twice
KEPT = 0.3  # share that stays of clues that many words fit, or that give every letter away
TWICE = 0.2  # of letters with two copies or more that have no place yet, those said to come so often
COUNTED = 0.1  # of letters all of whose copies are shown, those said to have no further one
BARRED = 0.35  # of the others among them that have their place, those said not to stand in another
TRIED = 0.3  # chance of a clue to show strings tried in vain, if some are found, where rows reject words
MOST_TRIED = 3


class Clue(NamedTuple):
    """What is known, the words that are right, one of them that is an answer, and what was tried in vain.

    tries: turns with strings that are no words. A clue has no secret, so other guesses have no feedback.
    """

    known: Knowledge
    right: list[str]
    word: str
    tries: History = ()


def require_summary(rules: Rules, name: str = "n_clues") -> None:
    """Raise ValueError, which begins with the parameter's `name`, unless states end with the summary that
    clues look like."""
    if rules.game != Rules.game or rules.history != "fresh" or rules.renderer == "symbols":
        raise ValueError(
            f"{name}: clues look like the summary that ends a state, which only Wordle with history fresh "
            "and another renderer than symbols has, not "
            f"{rules.game} with {rules.history} and {rules.renderer}"
        )


def clue(word: str, rng: random.Random, letters: Sequence[str]) -> Knowledge:
    """What a clue says of `word`; letters: those that absent ones are drawn from, frequent ones often."""
    green = rng.choice(GREEN)
    pattern = "".join(letter if rng.random() < green else "_" for letter in word)
    present = {
        letter: _some_places(pattern, rng, {place for place, own in enumerate(word, 1) if own == letter})
        for letter in sorted(set(word))
        if pattern.count(letter) < word.count(letter) and rng.random() < PRESENT
    }
    absent = {rng.choice(letters) for _ in range(rng.randint(*ABSENT))} - set(word)
    return Knowledge(pattern, present, tuple(sorted(absent)), {}, {}, {})


def _some_places(pattern: str, rng: random.Random, own: Collection[int] = ()) -> tuple[int, ...]:
    """One or, less often, two of the places that are not known, none of its `own`; fewer without so many."""
    others = [place for place, known in enumerate(pattern, 1) if known == "_" and place not in own]
    return tuple(sorted(rng.sample(others, min(len(others), rng.choice((1, 1, 2))))))


def copies(known: Knowledge, word: str, rng: random.Random) -> Knowledge:
    """The clue, and what the `facts` renderer tells besides of letters all of whose copies it shows.

    Of some present ones how often they come; of some others that there is no further copy, or none in one or
    two other places.
    """
    pattern = known.pattern
    least = {
        letter: word.count(letter)
        for letter in known.present
        if word.count(letter) > pattern.count(letter) + 1 and rng.random() < TWICE
    }
    shown = Counter(pattern.replace("_", "") + "".join(known.present)) | Counter(least)
    whole = [letter for letter in sorted(shown) if shown[letter] == word.count(letter)]
    most = {letter: shown[letter] for letter in whole if rng.random() < COUNTED}
    placed = [letter for letter in whole if letter not in most and letter not in known.present]
    barred = {letter: _some_places(pattern, rng) for letter in placed if rng.random() < BARRED}
    return known._replace(least=least, most=most, barred={k: v for k, v in barred.items() if v})


def drawn(words: Sequence[str], rules: Rules, rng: random.Random) -> Iterator[tuple[Knowledge, list[str]]]:
    """Clues without end, each with all words that it fits. Words take turns in shuffled passes."""
    table, letters, deck = letter_table(words, rules.length), "".join(words), list(words)
    while True:
        rng.shuffle(deck)
        for word in deck:
            known = clue(word, rng, letters)
            if rules.renderer == "facts":
                known = copies(known, word, rng)
            fits = [words[i] for i in fitting(table, known)]
            if (len(fits) <= MOST_LEFT and not _gives_all_letters(known)) or rng.random() <= KEPT:
                yield known, fits


def _gives_all_letters(known: Knowledge) -> bool:
    return sum(map(known.unplaced, known.present)) == known.pattern.count("_")


def prompt(known: Knowledge, rules: Rules, tries: History = ()) -> list[dict[str, str]]:
    """The chat that asks for a word by a clue; `tries` stand there as past turns do in a state."""
    return [
        {"role": "system", "content": system_prompt(rules)},
        {"role": "user", "content": "\n".join(told(tries, known, rules))},
    ]


def clue_rows(
    words: Sequence[str],
    rules: Rules,
    n: int,
    seed: int | str,
    rejecting: float = 0.0,
    real: Collection[str] = (),
) -> Iterator[dict]:
    """`n` SFT rows, the same for the same arguments: a clue, and a word that it fits.

    Of several such words it is the one named least often so far. rejecting, real: as for `data.sft_row`; with
    it some clues also show invented strings that were tried before.
    """
    rng, table, named = random.Random(seed), letter_table(words, rules.length), Counter()
    for known, fits in islice(drawn(words, rules, rng), n):
        chosen = min(fits, key=lambda other: (named[other], rng.random()))
        named[chosen] += 1
        tries, wrong, unjust = (), [], []
        if rejecting and rng.random() < TRIED:
            tries = _tried(table, known, fits, rng, real)
        if rejecting and len(fits) <= MOST_LEFT and rng.random() < rejecting:
            past = [turn.guess for turn in tries]
            wrong, unjust = misses(words, table, known, rng, [chosen], real, past)
        text = completion([chosen], chosen, rules.thinking, wrong)
        yield taught_row(prompt(known, rules, tries), text, SOURCE, unjust=unjust)


def _tried(
    table: np.ndarray, known: Knowledge, fits: list[str], rng: random.Random, real: Collection[str]
) -> History:
    """Turns with one to three strings that fit and are no words, fewer where none is found."""
    draws = np.random.default_rng(rng.getrandbits(32))
    strings = [invented(table, known, draws, real, fits) for _ in range(rng.randint(1, MOST_TRIED))]
    return tuple(_no_word(string) for string in dict.fromkeys(strings) if string)


def _no_word(guess: str, text: str = "") -> Turn:
    return Turn(guess, None, "ok", "not_a_word", text)


def questions(words: Words, rules: Rules, n: int, seed: int | str) -> Iterator[Clue]:
    """`n` clues of answers.

    Right is what fits of the words among which a player looks for the secret (`Rules.universe`).
    """
    rng, allowed = random.Random(seed), rules.universe == "allowed"
    table = letter_table(words.allowed, rules.length)
    for known, fits in islice(drawn(words.answers, rules, rng), n):
        word = rng.choice(fits)
        right = [words.allowed[i] for i in fitting(table, known)] if allowed else fits
        yield Clue(known, right, word)


def again(clue: Clue, text: str, words: Words, rules: Rules, barred: Collection[str] = ()) -> Clue | None:
    """The clue as it is asked after a new answer that is no word, nor `barred`; None after any other."""
    guess = parse_guess(text, rules.length, rules.alphabet).guess
    known = guess is None or guess in words.dictionary or guess in barred
    if known or any(turn.guess == guess for turn in clue.tries):
        return None
    return clue._replace(tries=(*clue.tries, _no_word(guess, text)))


def answered(
    asked: Sequence[Clue], texts: Sequence[str], words: Words, rules: Rules, barred: Collection[str] = ()
) -> tuple[list[Clue], list[Clue]]:
    """The clues that the texts answer wrongly, each as it was and as it is asked `again`, and the others.

    Wrong is also an answer that rejects a word that fits, or any word twice.
    """
    missed, solved = [], []
    for clue, text in zip(asked, texts, strict=True):
        right = parse_guess(text, rules.length, rules.alphabet).guess in clue.right
        if right and not misrejects(rejected_words(text), clue.right):
            solved.append(clue)
        else:
            missed += filter(None, (clue, again(clue, text, words, rules, barred)))
    return missed, solved


def state(clue: Clue, rules: Rules) -> dict:
    """The row that GRPO samples answers to, with the columns of a state; `fits` holds what is right."""
    chat, tried = prompt(clue.known, rules, clue.tries), encode_history(clue.tries)
    return {
        **{"prompt": chat, "secret": "", "history": tried},
        **{"n_candidates": len(clue.right), "best_guess": clue.word, "best_bits": 0.0},
        **{"source": SOURCE, "fits": " ".join(clue.right)},
    }

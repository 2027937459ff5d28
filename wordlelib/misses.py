"""Words that nearly fit: what a completion can name and reject before it names a word that fits.

A student that has only seen right answers stands by the first word that it names. One that has seen wrong
ones rejected checks its own, and names another: `B E A R S no; B E A R D`.
"""

import random
from collections.abc import Collection, Sequence

import numpy as np

from wordlelib.game import Knowledge
from wordlelib.solver import letter_table

MOST_LEFT = 8  # words left, up to which some are rejected: with more of them a student finds one
REJECTED = {1: 0.6, 2: 0.3, 3: 0.1}  # how many at once, and how often
INVENTED = 0.4  # share that fits and is no word; the others are words that do not fit
NEAREST = 30  # words with the fewest facts against them, of which those are drawn
TRIES = 40  # strings that are drawn to invent one that fits


def misfits(table: np.ndarray, known: Knowledge) -> np.ndarray:
    """How many of the known facts each word of a `solver.letter_table` contradicts, [words]."""
    wrong = np.zeros(len(table), int)
    for place, letter in enumerate(known.pattern):
        if letter != "_":
            wrong += table[:, place] != ord(letter)
    for letter, places in (*known.present.items(), *known.barred.items()):
        wrong += (table[:, [place - 1 for place in places]] == ord(letter)).any(axis=1)
    for letter in known.present:
        placed = known.pattern.count(letter)
        wrong += (table == ord(letter)).sum(axis=1) < max(placed + 1, known.least.get(letter, 0))
    for letter, most in (*known.most.items(), *((letter, 0) for letter in known.absent)):
        wrong += (table == ord(letter)).sum(axis=1) > most
    return wrong


def fitting(table: np.ndarray, known: Knowledge) -> np.ndarray:
    """Indices of the words of a `solver.letter_table` that contradict nothing known."""
    return np.flatnonzero(misfits(table, known) == 0)


def _invented(
    words: Sequence[str], known: Knowledge, rng: random.Random, real: Collection[str]
) -> str | None:
    """A string that fits and is none of the `real` words; None when the tries do not suffice."""
    for _ in range(TRIES):
        letters = enumerate(known.pattern)
        drawn = "".join(rng.choice(words)[place] if letter == "_" else letter for place, letter in letters)
        if drawn not in real and not misfits(letter_table([drawn], len(drawn)), known).any():
            return drawn
    return None


def misses(
    words: Sequence[str],
    table: np.ndarray,
    known: Knowledge,
    rng: random.Random,
    real: Collection[str],
) -> list[str]:
    """One to three different words to reject, none when every word fits.

    They are among `words` those with the fewest facts against them, or invented ones that fit and are not
    `real`. table: `letter_table` of the words.
    """
    wrong = misfits(table, known).astype(float)
    wrong[wrong == 0] = np.inf
    wrong += np.random.default_rng(rng.getrandbits(32)).random(len(wrong))  # of equals any
    near = [words[i] for i in np.argsort(wrong)[:NEAREST] if np.isfinite(wrong[i])]
    n = rng.choices(tuple(REJECTED), tuple(REJECTED.values()))[0] if near else 0
    drawn = ((rng.random() < INVENTED and _invented(words, known, rng, real)) for _ in range(n))
    return list(dict.fromkeys(word or rng.choice(near) for word in drawn))

"""Words for a completion to name and reject before it names the one that it guesses.

A student that has only seen right answers stands by the first word that it names. One that has seen others
rejected checks its own, and names another: `B E A R S no; B E A R D`.
"""

import random
from collections.abc import Collection, Sequence

import numpy as np

from wordlelib.game import Knowledge
from wordlelib.solver import letter_table

MOST_LEFT = 8  # words left, up to which some are rejected: with more of them a student finds one
REJECTED = {1: 0.5, 2: 0.3, 3: 0.2}  # how many at once, and how often
# Where they come from, and how often: words with the fewest facts against them, strings that fit and are no
# words, past guesses of the game, and others that fit, which teach to name what is not named yet.
SOURCES = {"near": 0.3, "invented": 0.3, "past": 0.2, "other": 0.2}
NEAREST = 30  # of which near ones are drawn
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
    guess: str,
    real: Collection[str],
    past: Sequence[str] = (),
) -> list[str]:
    """One to three different words to reject before `guess`; none when no word is near and no other fits.

    table: `letter_table` of the words. real: words that are not invented. past: guesses of the game so far.
    A source that has none leaves its turn to near ones.
    """
    wrong = misfits(table, known)
    others = [words[i] for i in np.flatnonzero(wrong == 0) if words[i] != guess]
    order = np.lexsort((np.random.default_rng(rng.getrandbits(32)).random(len(wrong)), wrong))
    near = [words[i] for i in order[(wrong == 0).sum() :][:NEAREST]] or others
    if not near:
        return []
    [n] = rng.choices(tuple(REJECTED), tuple(REJECTED.values()))
    pools, drawn = {"near": near, "past": past, "other": others}, []
    for source in rng.choices(tuple(SOURCES), tuple(SOURCES.values()), k=n):
        word = (
            _invented(words, known, rng, real) if source == "invented" else rng.choice(pools[source] or near)
        )
        drawn.append(word or rng.choice(near))
    return list(dict.fromkeys(drawn))

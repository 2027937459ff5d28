"""Words for a completion to name and reject before it names the one that it guesses.

A student that has only seen right answers stands by the first word that it names. One that has seen others
rejected checks its own, and names another: `B E A R S no; B E A R D`.
"""

import random
from collections.abc import Collection, Sequence

import numpy as np

from wordlelib.game import Knowledge

MOST_LEFT = 8  # words left, up to which some are rejected: with more of them a student finds one
REJECTED = {1: 0.5, 2: 0.3, 3: 0.2}  # how many at once, and how often
# Where they come from, and how often: words with the fewest facts against them, strings that fit and are no
# words, past guesses of the game, and others that fit. The last teach to name what is not named yet: without
# them a student says a word again that it has just rejected. Their *no* is unjust, and carries no loss.
SOURCES = {"near": 0.25, "invented": 0.25, "past": 0.15, "other": 0.35}
# How often one of them comes once more, and then again: students say the same wrong word time after time,
# and only a row in which that has happened can teach what to do then.
AGAIN = 0.25
MOST_AGAIN = 2
NEAREST = 30  # of which near ones are drawn
TRIES = 40  # strings that are drawn to invent one that fits


def misfits(table: np.ndarray, known: Knowledge) -> np.ndarray:
    """How many of the known facts each word of a `solver.letter_table` contradicts, [words]."""
    places = np.ascontiguousarray(table.T)  # rows of one place each are added up several times as fast

    def copies(letter: str) -> np.ndarray:
        return (places == ord(letter)).sum(axis=0, dtype=np.int8)

    wrong = np.zeros(len(table), np.int8)
    for place, letter in enumerate(known.pattern):
        if letter != "_":
            wrong += places[place] != ord(letter)
    for letter, barred in (*known.present.items(), *known.barred.items()):
        wrong += (places[[place - 1 for place in barred]] == ord(letter)).any(axis=0)
    for letter in known.present:
        wrong += copies(letter) < known.pattern.count(letter) + known.unplaced(letter)
    for letter, most in (*known.most.items(), *((letter, 0) for letter in known.absent)):
        wrong += copies(letter) > most
    return wrong


def fitting(table: np.ndarray, known: Knowledge) -> np.ndarray:
    """Indices of the words of a `solver.letter_table` that contradict nothing known."""
    return np.flatnonzero(misfits(table, known) == 0)


def invented(
    table: np.ndarray,
    known: Knowledge,
    rng: np.random.Generator,
    real: Collection[str],
    fits: Collection[str],
) -> str | None:
    """A string that fits and is no word, neither `real` nor one of the list that `fits`; None when the tries
    do not suffice.

    Letters that are not placed yet come from the same place of random words.
    """
    places = np.arange(len(known.pattern))
    drawn = table[rng.integers(len(table), size=(TRIES, len(places))), places]
    for place, letter in enumerate(known.pattern):
        if letter != "_":
            drawn[:, place] = ord(letter)
    words = ("".join(map(chr, letters)) for letters in drawn[fitting(drawn, known)])
    return next((word for word in words if word not in real and word not in fits), None)


def misses(
    words: Sequence[str],
    table: np.ndarray,
    known: Knowledge,
    rng: random.Random,
    named: Collection[str],
    real: Collection[str],
    past: Sequence[str] = (),
) -> tuple[list[str], list[str]]:
    """One to three different words to reject before those `named`, none of these, and some of them again;
    then those of them that are rejected unjustly, words of the list that fit.

    Both are empty when all words are named.

    table: `letter_table` of the words. real: words that are not invented, beside those of the list. past:
    guesses of the game so far. A source that has none leaves its turn to near ones.
    """
    wrong, draws = misfits(table, known), np.random.default_rng(rng.getrandbits(32))
    order = np.lexsort((draws.random(len(wrong)), wrong))
    fits = [words[i] for i in order[: (wrong == 0).sum()]]
    found = {"near": [words[i] for i in order[len(fits) :][:NEAREST]], "past": past, "other": fits}
    pools = {source: [word for word in pool if word not in named] for source, pool in found.items()}
    near = pools["near"] or pools["other"]
    if not near:
        return [], []
    [n] = rng.choices(tuple(REJECTED), tuple(REJECTED.values()))
    drawn = []
    for source in rng.choices(tuple(SOURCES), tuple(SOURCES.values()), k=n):
        if source == "invented":
            drawn.append(invented(table, known, draws, real, fits) or rng.choice(near))
        else:
            drawn.append(rng.choice(pools[source] or near))
    drawn = list(dict.fromkeys(drawn))
    unjust = [word for word in drawn if word in fits]
    if rng.random() < AGAIN:
        drawn += rng.choices(drawn, k=rng.randint(1, MOST_AGAIN))
    return drawn, unjust

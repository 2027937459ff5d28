"""Vocabulary practice: words by their pattern and letters, without any game.

In a game with a training secret no other word is ever the last one left, so a student learns which words can
be. A clue shows what could be known of any word of the lexicon as the summary of a state does, but it is made
of that word alone: which letters and places it gives away is drawn at random, and there are no guesses.
"""

import random
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from wordlelib.game import Knowledge
from wordlelib.misses import MOST_LEFT, fitting, misses
from wordlelib.prompts import completion, knowledge_lines, system_prompt
from wordlelib.rules import Rules
from wordlelib.solver import letter_table
from wordlelib.words import Words

SOURCE = "clue"
GREEN = (0.2, 0.4, 0.6)  # chances of a letter to be known with its place: one of them holds for a clue
PRESENT = 0.3  # of other letters, those that are known without their place
ABSENT = (3, 11)  # letters that are known to be absent, from and to
KEPT = 0.3  # share that stays of clues that many words fit: they say too little to practise on
COUNTED = 0.3  # of letters all of whose copies are shown, those that are said to have no further one


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
    present = {}
    for place, letter in enumerate(word):
        if pattern[place] == "_" and word.count(letter) == 1 and rng.random() < PRESENT:
            others = [other + 1 for other in range(len(word)) if other != place and pattern[other] == "_"]
            present[letter] = tuple(sorted(rng.sample(others, min(len(others), rng.randint(1, 3)))))
    absent = {rng.choice(letters) for _ in range(rng.randint(*ABSENT))} - set(word)
    return Knowledge(pattern, dict(sorted(present.items())), tuple(sorted(absent)), {}, {}, {})


def counted(known: Knowledge, word: str, rng: random.Random) -> Knowledge:
    """The clue, and of some letters all of whose copies it shows that there is no further one."""
    shown = Counter(known.pattern.replace("_", "") + "".join(known.present))
    whole = [letter for letter in sorted(shown) if shown[letter] == word.count(letter)]
    return known._replace(most={letter: shown[letter] for letter in whole if rng.random() < COUNTED})


def drawn(words: Sequence[str], rules: Rules, rng: random.Random) -> Iterator[tuple[Knowledge, list[str]]]:
    """Clues without end, each with all words that it fits. Words take turns in shuffled passes."""
    table, letters, deck = letter_table(words, rules.length), "".join(words), list(words)
    while True:
        rng.shuffle(deck)
        for word in deck:
            known = clue(word, rng, letters)
            if rules.renderer == "facts":
                known = counted(known, word, rng)
            fits = [words[i] for i in fitting(table, known)]
            if len(fits) <= MOST_LEFT or rng.random() <= KEPT:
                yield known, fits


def prompt(known: Knowledge, rules: Rules) -> list[dict[str, str]]:
    """The chat that asks for a word by a clue."""
    return [
        {"role": "system", "content": system_prompt(rules)},
        {"role": "user", "content": "\n".join(knowledge_lines(known, rules.renderer))},
    ]


def row_without_game(chat: list[dict[str, str]], text: str, source: str) -> dict:
    """The SFT row of a prompt and what is to be said to it, without a secret."""
    answer = [{"role": "assistant", "content": text}]
    return {"prompt": chat, "completion": answer, "secret": "", "history": "[]", "source": source}


def clue_rows(
    words: Sequence[str],
    rules: Rules,
    n: int,
    seed: int | str,
    rejecting: float = 0.0,
    real: Collection[str] = (),
) -> Iterator[dict]:
    """`n` SFT rows, the same for the same arguments: a clue, and a word that it fits.

    Of several such words it is the one named least often so far. rejecting, real: as for `data.sft_row`.
    """
    rng, table, named = random.Random(seed), letter_table(words, rules.length), Counter()
    for known, fits in islice(drawn(words, rules, rng), n):
        chosen = min(fits, key=lambda other: (named[other], rng.random()))
        named[chosen] += 1
        wrong = []
        if rejecting and len(fits) <= MOST_LEFT and rng.random() < rejecting:
            wrong = misses(words, table, known, rng, [chosen], real)
        text = completion([chosen], chosen, rules.thinking, wrong)
        yield row_without_game(prompt(known, rules), text, SOURCE)


def questions(
    words: Words, rules: Rules, n: int, seed: int | str
) -> Iterator[tuple[list[dict[str, str]], list[str], str]]:
    """`n` clues of answers: the chat, the words that are right, and an answer that it fits.

    Right is what fits of the words among which a player looks for the secret (`Rules.universe`).
    """
    rng, allowed = random.Random(seed), rules.universe == "allowed"
    table = letter_table(words.allowed, rules.length)
    for known, fits in islice(drawn(words.answers, rules, rng), n):
        word = rng.choice(fits)
        right = [words.allowed[i] for i in fitting(table, known)] if allowed else fits
        yield prompt(known, rules), right, word


def states(words: Words, rules: Rules, n: int, seed: int | str) -> list[dict]:
    """`n` clues as rows that GRPO samples answers to; `fits` holds all words that are right.

    They have the columns of a state, of a game that has no turn and no secret.
    """
    return [
        {
            **{"prompt": chat, "secret": "", "history": "[]"},
            **{"n_candidates": len(right), "best_guess": word, "best_bits": 0.0},
            **{"source": SOURCE, "fits": " ".join(right)},
        }
        for chat, right, word in questions(words, rules, n, seed)
    ]

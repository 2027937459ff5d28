"""How others count: public scoring rules, written anew from their descriptions and code, on the same recorded
games.

They show how far a published "win rate" or "reward" can be from games won under the strict rules, with
nothing else changed: same player, same secrets, same moves. Where they are found:

- part credit: Wordle-v0 of TextArena (github.com/TextArena/TextArena) ends a game that is not won, be it by
  an invalid move, with the reward (green + yellow / 2) / letters of the latest guess (newer versions: of the
  best one); the `wordle` environment of verifiers (github.com/PrimeIntellect-ai/verifiers) gives the same for
  the latest as 0.2 and 0.1 a letter. Read as a win rate, or as solved where it is above 0, it is none: see
  pull request 4895 of github.com/huggingface/trl, whose reward of 0.3 is letters and no games.
- free retries: Wordle-v0 asks again after an answer that is no legal guess, up to a limit, and does not count
  it.
- a small pool: the Wordle example of prime-rl (github.com/PrimeIntellect-ai/prime-rl) draws 2,000 games for
  training and 20 for its evaluation from the words of Wordle-v0, of which there were 195 at most.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wordlelib.analysis import Games, part_of, won_in
from wordlelib.evaluate import wilson

POOL = 195  # words of TextArena's Wordle-v0 at most


class Rate(NamedTuple):
    """What a rule makes of the games: a share (None where undefined), its 95% interval if it has one, and how
    the rule counts."""

    rule: str
    value: float | None
    interval: tuple[float, float] | None
    meaning: str


def strict(games: Games) -> Rate:
    """Games won under the rules of this project."""
    won = won_in(games) > 0
    return Rate("strict", *_share(won), "a legal guess equal to the secret, in the turns of the game")


def letter_credit(games: Games) -> np.ndarray:
    """Part credit [G] of the last guess that got feedback: a green letter counts 1, a yellow one 1/2, over
    the letters of the word; 0 without such a guess, 1 for a win."""
    length, legal = games.letters.shape[1], games.code >= 0
    last = legal.shape[1] - 1 - legal[:, ::-1].argmax(axis=1)
    code = games.code[np.arange(len(last)), last]
    marks = code[:, None] // 3 ** np.arange(length) % 3
    return np.where(legal.any(axis=1), marks.sum(axis=1) / (2 * length), 0.0)


def part_credit_as_reward(games: Games) -> Rate:
    """The mean reward of letter matches, read as if it were a win rate."""
    credit = letter_credit(games)
    value = float(credit.mean()) if len(credit) else None
    meaning = (
        "letters of the last guess, 1 if placed and 1/2 if elsewhere, as TextArena's Wordle-v0 and the "
        "wordle environment of verifiers reward a game that is not won"
    )
    return Rate("mean letter credit", value, None, meaning)


def part_credit_as_win(games: Games) -> Rate:
    """An episode counts as solved when its final reward is above zero."""
    meaning = "any letter of the last guess is right, so that the reward of Wordle-v0 is above 0"
    return Rate("credit above 0", *_share(letter_credit(games) > 0), meaning)


def free_retries(games: Games) -> Rate:
    """Turns without feedback cost nothing and are asked again until a legal guess comes.

    A recorded game that such turns cut short is unfinished under this rule. So wins are estimated from the
    legal guesses alone, with those games censored at their last one: Kaplan and Meier,
    "Nonparametric estimation from incomplete observations", JASA 53 (1958).
    """
    legal, turns = (games.code >= 0).sum(axis=1), games.guess.shape[1]
    won, unsolved = won_in(games) > 0, 1.0
    for guess in range(1, turns + 1):
        reached = int((legal >= guess).sum())
        if reached:
            unsolved *= 1 - int((won & (legal == guess)).sum()) / reached
    value = 1 - unsolved if legal.any() else None
    meaning = (
        "malformed answers and non-words are no guesses, as in Wordle-v0, and asked again for free "
        "(Kaplan-Meier estimate)"
    )
    return Rate("free retries", value, None, meaning)


def small_pool(games: Games, train: tuple[str, ...]) -> Rate:
    """The win rate on a pool of at most 195 training secrets, as when a model is tested on what it was
    trained on.

    The value is the mean over all such pools, the interval the range of 95% of them; None where no
    training secret was played.
    """
    from scipy.stats import hypergeom

    won = won_in(part_of(games, train)) > 0
    pool = min(POOL, len(won))
    name, meaning = (
        f"{pool or POOL} training secrets",
        "tested on a small pool of secrets that were trained on, as prime-rl's Wordle example, which draws "
        "both from the words of Wordle-v0",
    )
    if pool == len(won):  # one pool, no range
        return Rate(name, float(won.mean()) if pool else None, None, meaning)
    low, high = hypergeom.ppf([0.025, 0.975], len(won), int(won.sum()), pool) / pool
    return Rate(name, float(won.mean()), (float(low), float(high)), meaning)


def rates(games: Games, train: tuple[str, ...]) -> list[Rate]:
    """The strict win rate and what the other rules make of the same games; `train`: the training secrets."""
    return [
        strict(games),
        part_credit_as_win(games),
        part_credit_as_reward(games),
        free_retries(games),
        small_pool(games, train),
    ]


def farthest(counted: Mapping[str, Sequence[Rate]]) -> str:
    """The largest distance from the strict rate, and the rules under which another player comes first."""
    known = {
        label: {rate.rule: rate.value for rate in rates if rate.value is not None}
        for label, rates in counted.items()
    }
    gaps = [(abs(v - own["strict"]), label, rule) for label, own in known.items() for rule, v in own.items()]
    _, label, rule = max(gaps)
    wins, by_rule = known[label]["strict"], known[label][rule]
    said = f"Farthest from it here: {label} wins {wins:.1%} of its games, and {by_rule:.1%} by *{rule}*."

    def first(rule: str) -> str:
        return max(known, key=lambda label: known[label].get(rule, 0.0))

    best = first("strict")
    for rule, value in known[best].items():
        if known[first(rule)][rule] > value:
            said += f" *{rule}* puts {first(rule)} first, the strict rule {best}."
    return said


def _share(hits: np.ndarray) -> tuple[Any, Any]:
    k, n = int(hits.sum()), len(hits)
    return (k / n, wilson(k, n)) if n else (None, None)

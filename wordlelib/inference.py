"""What a difference between players is worth: bootstrap intervals, paired comparisons, corrections.

Games of two players are compared word by word, on the secrets that both played, once each and under the
same conditions. Intervals are 95% percentile bootstraps over games; p-values are exact. None of
them sees how much two trainings with the same settings differ: that takes several seeds.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from wordlelib.evaluate import sign_flip_p

DRAWS = 10_000  # resamples of a bootstrap
LEVEL = 0.95
# Standard normal quantiles of a two-sided test at 5% and of a power of 80%.
Z_ALPHA, Z_POWER = 1.959964, 0.841621


def mean_interval(values: Iterable[int], draws: int = DRAWS, seed: int = 0) -> tuple[float, float] | None:
    """95% percentile bootstrap interval of the mean of whole numbers; None without any.

    Drawing n values with replacement is drawing how often each distinct value comes: one multinomial draw
    a resample, however many games there are. Efron and Tibshirani, "An Introduction to the
    Bootstrap" (1993), chapter 13.
    """
    distinct, counts = np.unique(np.fromiter(values, dtype=np.int64), return_counts=True)
    n = counts.sum()
    if not n:
        return None
    drawn = np.random.default_rng(seed).multinomial(n, counts / n, size=draws)
    low, high = np.quantile(drawn @ distinct / n, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


class Comparison(NamedTuple):
    """First against second player over `games` secrets that both played.

    gained, lost: games that only the first, and only the second won. wins, guesses: mean difference a
    game, of wins (a share) and of guesses (a loss counts one more than the turns; negative is better), each
    with its bootstrap interval and p-value (exact McNemar test; exact sign-flip permutation test).
    """

    games: int
    gained: int
    lost: int
    wins: float
    wins_interval: tuple[float, float]
    wins_p: float
    guesses: float
    guesses_interval: tuple[float, float]
    guesses_p: float


def compare(won: Sequence[tuple[bool, bool]], guesses: Sequence[tuple[int, int]]) -> Comparison:
    """Compare two players by pairs (first, second), one a secret: whether each won, guesses of each.

    Raises ValueError without a pair.
    """
    if not len(won) or len(won) != len(guesses):
        raise ValueError(f"nothing to compare: {len(won)} pairs of results and {len(guesses)} of guesses")
    wins = [int(a) - int(b) for a, b in won]
    more = [int(a) - int(b) for a, b in guesses]
    n = len(wins)
    return Comparison(
        n,
        wins.count(1),
        wins.count(-1),
        sum(wins) / n,
        mean_interval(wins),
        sign_flip_p(wins),
        sum(more) / n,
        mean_interval(more),
        sign_flip_p(more),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number by Holm's step-down method, in the order given.

    The chance of even one false claim among all stays below the level. S. Holm, "A simple sequentially
    rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979).
    """
    corrected, reached = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        reached = max(reached, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = reached
    return corrected


def games_needed(gained: int, lost: int, games: int) -> int | None:
    """Secrets that McNemar's test needs to see, four times in five, a difference as large as this one.

    For a test at 5%, from the shares of games that only one of the two won; None where they are equal.
    R. J. Connor, "Sample size for testing differences in proportions for the paired-sample
    design", Biometrics 43 (1987). The shares are estimates: take it as an order of magnitude.
    """
    unlike, difference = (gained + lost) / games, abs(gained - lost) / games
    if not difference:
        return None
    spread = Z_ALPHA * math.sqrt(unlike) + Z_POWER * math.sqrt(unlike - difference**2)
    return math.ceil((spread / difference) ** 2)


def decides(interval: tuple[float, float]) -> bool:
    """Whether an interval of a difference tells its sign: False when it reaches zero."""
    low, high = interval
    return low > 0 or high < 0


def verdict(first: str, second: str, found: Comparison, corrected_p: float) -> str:
    """One sentence on the wins of two players: who won more, or that the games decide nothing and how many
    would. `corrected_p` is McNemar's p-value after the correction for all comparisons made."""
    low, high = found.wins_interval
    said = f"{found.wins:+.1%} ({low:+.1%} to {high:+.1%})"
    if decides(found.wins_interval) and corrected_p < 1 - LEVEL:
        return f"{first} wins {'more' if found.wins > 0 else 'fewer'} games than {second}: {said}."
    needed = games_needed(found.gained, found.lost, found.games)
    more = "" if needed is None else f" A difference of this size takes about {needed:,} games on each side."
    if decides(found.wins_interval):
        why = "it does not outlast the correction for the number of comparisons"
    elif found.wins:
        why = "the interval is wider than the difference"
    else:
        why = "each won as often where the other lost"
    return f"{first} against {second} decides nothing: {said}, {why} ({found.games:,} games).{more}"


class Seeds(NamedTuple):
    """Several runs of one recipe that differ in their seeds: values, their mean and range."""

    values: tuple[float, ...]
    mean: float
    low: float
    high: float


def over_seeds(values: Iterable[float]) -> Seeds:
    """The mean and the range of a metric over runs; no interval, since runs are few."""
    values = tuple(values)
    return Seeds(values, sum(values) / len(values), min(values), max(values))

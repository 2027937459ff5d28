"""What a difference between players is worth: bootstrap intervals, paired comparisons, corrections.

Games of two players are compared word by word, on the secrets that both played, once each and under the
same conditions. Intervals are 95% percentile bootstraps over games; p-values are exact. None of
them sees how much two trainings with the same settings differ: that takes several seeds.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from wordlelib import params
from wordlelib.evaluate import sign_flip_p

DRAWS = 10_000  # resamples of a bootstrap
LEVEL = 0.95
# Of win rates (a share), which a comparison is asked about unless the reader names another
DIFFERENCE = params.BEFORE["05_analysis"]["difference"] / 100
# Standard normal quantiles of a two-sided test at 5% and of a power of 80%.
Z_ALPHA, Z_POWER = 1.959964, 0.841621


def mean_interval(values: Iterable[int], draws: int = DRAWS) -> tuple[float, float] | None:
    """95% percentile bootstrap interval of the mean of whole numbers; None without any.

    Drawing n values with replacement is drawing how often each distinct value comes: one multinomial draw
    a resample, however many games there are. Efron and Tibshirani, "An Introduction to the
    Bootstrap" (1993), chapter 13.
    """
    distinct, counts = np.unique(np.fromiter(values, dtype=np.int64), return_counts=True)
    n = counts.sum()
    if not n:
        return None
    drawn = np.random.default_rng(0).multinomial(n, counts / n, size=draws)
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


def games_needed(gained: int, lost: int, games: int, difference: float | None = None) -> int | None:
    """Secrets that McNemar's test needs to see, four times in five, a `difference` of win rates (a share), or
    without one a difference as large as this one.

    For a test at 5%, from the share of games that only one of the two won; None for a difference of 0.
    R. J. Connor, "Sample size for testing differences in proportions for the paired-sample
    design", Biometrics 43 (1987). The shares are estimates: take it as an order of magnitude.
    """
    difference = abs(gained - lost) / games if difference is None else difference
    if not difference:
        return None
    unlike = max((gained + lost) / games, difference)
    spread = Z_ALPHA * math.sqrt(unlike) + Z_POWER * math.sqrt(unlike - difference**2)
    return math.ceil((spread / difference) ** 2)


def decides(interval: tuple[float, float]) -> bool:
    """Whether an interval of a difference tells its sign: False when it reaches zero."""
    low, high = interval
    return low > 0 or high < 0


def points(difference: float) -> str:
    """A difference of win rates in words, such as `5 points`."""
    return f"{100 * difference:g} point{'' if difference == 0.01 else 's'}"


def _surely(found: Comparison, corrected_p: float) -> bool:
    return decides(found.wins_interval) and corrected_p < 1 - LEVEL


def _surely_less(found: Comparison, difference: float | None) -> bool:
    """Whether the wins differ by less than `difference`: by the interval, once games are many enough."""
    if difference is None or found.games < games_needed(found.gained, found.lost, found.games, difference):
        return False
    return max(map(abs, found.wins_interval)) < difference


def outcome(found: Comparison, corrected_p: float, difference: float | None = None) -> str:
    """What the wins of two players decide: `more wins` or `fewer wins` of the first, `less than 5 points` if
    they differ by less than the `difference` asked about (a share), or `nothing`.

    `corrected_p` is McNemar's p-value after the correction for all comparisons made.
    """
    if _surely(found, corrected_p):
        return "more wins" if found.wins > 0 else "fewer wins"
    return f"less than {points(difference)}" if _surely_less(found, difference) else "nothing"


def undecided(found: Comparison, difference: float) -> str:
    """Why the wins of two players decide nothing of the `difference` asked about (a share), and how many
    games would."""
    needed = games_needed(found.gained, found.lost, found.games, difference)
    if decides(found.wins_interval):
        why = "it does not outlast the correction for the number of comparisons"
    elif max(map(abs, found.wins_interval)) < difference:
        why = f"these are too few games to rule out {points(difference)}"
    else:
        why = f"the interval is wider than the {points(difference)} asked about"
    return f"{why}; about {needed:,} games would see {points(difference)}"


def verdict(
    first: str, second: str, found: Comparison, corrected_p: float, difference: float = DIFFERENCE
) -> str:
    """One sentence on the wins of two players: who won more, that they differ by less than the `difference`
    asked about, or that the games decide nothing and how many would; arguments as for `outcome`."""
    low, high = found.wins_interval
    said = f"{found.wins:+.1%} ({low:+.1%} to {high:+.1%})"
    if _surely(found, corrected_p):
        return f"{first} wins {'more' if found.wins > 0 else 'fewer'} games than {second}: {said}."
    if _surely_less(found, difference):
        return f"{first} and {second} differ by less than {points(difference)}: {said}."
    return f"{first} against {second} decides nothing: {said}, {undecided(found, difference)}."


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

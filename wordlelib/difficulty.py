"""Which secrets are hard: what may make them so, how players fared on each, and lists to train on again."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from wordlelib.analysis import Games, won_in
from wordlelib.words import Split


class Kind(NamedTuple):
    """What may make a secret hard. repeated: a letter stands in it twice. neighbours: answers that differ in
    one letter. letter_commonness: mean over its distinct letters of the share of answers that have one.

    So *rarity of letters* is of letters in the answer list, not of the word in the language: no word
    frequencies are shipped, and none are guessed.
    """

    repeated: bool
    neighbours: int
    letter_commonness: float


def kinds(answers: Sequence[str]) -> dict[str, Kind]:
    """The kind of every answer."""
    having = Counter(letter for word in answers for letter in set(word))
    patterns = Counter(_with_gaps(answers))
    return {
        word: Kind(
            len(set(word)) < len(word),
            sum(patterns[gap] - 1 for gap in _with_gaps([word])),
            sum(having[letter] for letter in sorted(set(word))) / len(set(word)) / len(answers),
        )
        for word in answers
    }


def _with_gaps(words: Iterable[str]) -> Iterable[tuple[int, str]]:
    return ((place, word[:place] + word[place + 1 :]) for word in words for place in range(len(word)))


NEIGHBOURS = ((0, 0), (1, 3), (4, 7), (8, math.inf))


def kind_groups(kinds: Mapping[str, Kind]) -> dict[tuple[str, str], list[str]]:
    """(question, group) to the secrets in it; the rarity of letters is cut into thirds
    of the answers."""
    thirds = np.quantile([kind.letter_commonness for kind in kinds.values()], [1 / 3, 2 / 3])
    named = ("rarest third", "middle third", "commonest third")
    groups: dict[tuple[str, str], list[str]] = {
        **{("letters", name): [] for name in ("all different", "one repeated")},
        **{("rarity of letters", name): [] for name in named},
        **{("neighbours", _span(*span)): [] for span in NEIGHBOURS},
    }
    for word, kind in kinds.items():
        groups["letters", "one repeated" if kind.repeated else "all different"].append(word)
        groups[
            "rarity of letters", named[int(np.searchsorted(thirds, kind.letter_commonness, "left"))]
        ].append(word)
        span = next(s for s in NEIGHBOURS if s[0] <= kind.neighbours <= s[1])
        groups["neighbours", _span(*span)].append(word)
    return groups


def _span(low: int, high: float) -> str:
    return str(low) if low == high else f"{low} or more" if high == math.inf else f"{low} to {high}"


def split_name(split: Split) -> dict[str, str]:
    """Secret to the part of the split it belongs to."""
    named = {"train": split.train, "val": split.val, "heldout": split.test}
    return {word: name for name, words in named.items() for word in words}


def results_by_word(players: Mapping[str, Games]) -> dict[str, dict[str, list[int]]]:
    """Secret to player to the guesses of its games, 0 for a loss."""
    results: dict[str, dict[str, list[int]]] = {}
    for player, games in players.items():
        for word, number in zip(games.secrets(), won_in(games).tolist(), strict=True):
            results.setdefault(word, {}).setdefault(player, []).append(number)
    return dict(sorted(results.items()))


def word_lists(
    results: Mapping[str, Mapping[str, Sequence[int]]],
    players: Sequence[str],
    pairs: Iterable[tuple[str, str]],
) -> dict[str, list[str]]:
    """Secrets by how the `players` fared, over secrets that all of them played: `won_by_all`, `lost_by_all`,
    and for each pair of them `gained_by_<first>_over_<second>` and `lost_again_by_<first>_after_<second>`.

    A secret played several times counts as won when every game on it was.
    """
    common = {
        word: {player: min(own[player]) > 0 for player in players}
        for word, own in results.items()
        if set(players) <= set(own)
    }
    lists = {
        "won_by_all": [word for word, won in common.items() if all(won.values())],
        "lost_by_all": [word for word, won in common.items() if not any(won.values())],
    }
    for first, second in pairs:
        gained = [word for word, won in common.items() if won[first] and not won[second]]
        lost = [word for word, won in common.items() if won[second] and not won[first]]
        lists |= {f"gained_by_{first}_over_{second}": gained, f"lost_again_by_{first}_after_{second}": lost}
    return lists

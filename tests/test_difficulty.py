"""Kinds of secrets and the lists of words won and lost."""

from itertools import combinations

import pytest
from conftest import LOSS, game
from hypothesis import given
from hypothesis import strategies as st

from wordlelib import analysis, difficulty

WORDS = ("sight", "night", "light", "geese", "crane", "fuzzy")


def test_neighbours_differ_in_one_letter_and_commonness_is_of_letters_in_the_list():
    kinds = difficulty.kinds(WORDS)
    assert {word: kind.neighbours for word, kind in kinds.items()} == {
        **dict.fromkeys(("sight", "night", "light"), 2),
        **dict.fromkeys(("geese", "crane", "fuzzy"), 0),
    }
    assert [word for word, kind in kinds.items() if kind.repeated] == ["geese", "fuzzy"]
    # G stands in four of six words, E in two, S in two
    assert kinds["geese"].letter_commonness == pytest.approx((4 / 6 + 2 / 6 + 2 / 6) / 3)


@given(st.sets(st.text("abc", min_size=3, max_size=3), min_size=1, max_size=20).map(sorted))
def test_neighbours_are_those_found_by_comparing_all_pairs(words):
    kinds = difficulty.kinds(words)
    for word in words:
        apart = [sum(a != b for a, b in zip(word, other, strict=True)) for other in words]
        assert kinds[word].neighbours == apart.count(1)


def test_every_secret_is_in_one_group_of_each_question(shipped):
    groups = difficulty.kind_groups(difficulty.kinds(shipped.answers))
    for question in {question for question, _ in groups}:
        own = [words for (q, _), words in groups.items() if q == question]
        assert sorted(word for words in own for word in words) == sorted(shipped.answers)
    thirds = [len(words) for (q, _), words in groups.items() if q == "rarity of letters"]
    assert max(thirds) - min(thirds) <= 10


def played():
    """Four secrets: won by both, lost by both, gained by grpo, lost again by grpo."""
    results = {"crane": (True, True), "label": (False, False), "llama": (False, True), "magma": (True, False)}
    return [
        game(secret, *((secret,) if won else LOSS), player=player)
        for secret, both in results.items()
        for player, won in zip(("sft", "grpo"), both, strict=True)
    ]


def test_words_are_listed_by_who_won_them():
    results = difficulty.results_by_word(analysis.from_records(played()))
    assert results["magma"] == {"sft": [1], "grpo": [0]}
    assert difficulty.word_lists(results, ["sft", "grpo"], [("grpo", "sft")]) == {
        "won_by_all": ["crane"],
        "lost_by_all": ["label"],
        "gained_by_grpo_over_sft": ["llama"],
        "lost_again_by_grpo_after_sft": ["magma"],
    }


def test_secrets_that_not_all_played_are_in_no_list_and_a_secret_counts_as_won_when_every_game_was():
    more = [game("speed", "speed"), game("crane", *LOSS, player="grpo")]
    results = difficulty.results_by_word(analysis.from_records([*played(), *more]))
    lists = difficulty.word_lists(results, ["sft", "grpo"], [("grpo", "sft")])
    assert "speed" not in [word for words in lists.values() for word in words]
    assert lists["won_by_all"] == [] and lists["lost_again_by_grpo_after_sft"] == ["crane", "magma"]


def test_lists_of_a_pair_do_not_meet():
    results = difficulty.results_by_word(analysis.from_records(played()))
    lists = difficulty.word_lists(results, ["sft", "grpo"], [("grpo", "sft")])
    for first, second in combinations(lists.values(), 2):
        assert not set(first) & set(second)

"""Statements of the thinking: which words are found in any text, and how they are checked."""

import pytest
from conftest import RULES, WORDS
from hypothesis import given
from hypothesis import strategies as st

from wordlelib import thinking
from wordlelib.evaluate import play_games
from wordlelib.prompts import completion
from wordlelib.solver import Solver

SOLVER = Solver(WORDS, RULES)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<think>C R A N E; S L A T E</think><guess>slate</guess>", ["crane", "slate"]),
        ("C R A N E</think><guess>crane</guess>", ["crane"]),
        ("<think>C R A N E", []),  # the thinking never ends
        ("<think>crane, slate</think><guess>slate</guess>", []),  # not spelled out
        ("<think>maybe a crane; C R A N</think>", ["cran"]),
        ("<think>Ä R G E R, G R Ö ß E</think>", ["ärger", "größe"]),
        ("<think></think><guess>C R A N E</guess>", []),
        ("", []),
    ],
)
def test_spelled_words_are_found_where_the_thinking_ends(text, words):
    assert thinking.stated_words(text) == words


@given(st.text())
def test_any_text_gives_a_list_of_words(text):
    assert all(word and " " not in word for word in thinking.stated_words(text))


def said(*texts):
    return play_games(
        lambda histories, seeds: [texts[len(history)] for history in histories],
        ["crane"],
        WORDS,
        RULES,
        name="p",
    )


def test_statements_are_checked_against_dictionary_feedback_and_what_is_left():
    """After SLATE against CRANE only CRANE is left of the dozen words."""
    games = said(
        completion(["slate", "zzzzz", "slate"], "slate"),  # 3 stated: 2 words, all fit, 2 distinct
        completion(["crane", "those"], "crane"),  # 2 stated: 2 words, CRANE fits and is all that is left
    )
    found = thinking.calibration(games, SOLVER)
    assert (found.turns, found.longest, found.stating) == (2, 3, 1.0)
    assert found.words == 4 / 5 and found.consistent == 4 / 5 and found.distinct == 4 / 5
    assert found.guessed == 1.0
    assert found.complete == 1.0  # of one turn with no more than three words left


def test_a_guess_that_is_not_listed_and_a_list_that_is_not_complete_are_seen():
    games = said(completion(["slate"], "slate"), completion(["those"], "crane"))
    found = thinking.calibration(games, SOLVER)
    assert (found.guessed, found.complete) == (0.5, 0.0)


def test_without_statements_every_share_is_none():
    found = thinking.calibration(said(*[""] * 6), SOLVER)
    assert found == (6, 0, 0.0, None, None, None, None, None)
    assert thinking.calibration([], SOLVER).stating is None

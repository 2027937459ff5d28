"""Statements of the thinking: which words are found in any text, and how they are checked."""

from dataclasses import replace

import pytest
from conftest import RULES, WORDS
from hypothesis import given
from hypothesis import strategies as st

from wordlelib import thinking
from wordlelib.evaluate import play_games
from wordlelib.players import solver_player
from wordlelib.prompts import completion
from wordlelib.rules import CHOICES
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<think>crane; slate</think><guess>slate</guess>", ["crane", "slate"]),
        ("crane;ÄRGER</think><guess>crane</guess>", ["crane", "ärger"]),
        ("<think>maybe a crane; cran; C R A N E</think>", ["cran"]),
        ("<think></think><guess>crane</guess>", []),
        ("crane; slate", []),  # the thinking never ends
    ],
)
def test_words_that_are_written_as_they_are_stand_between_semicolons(text, words):
    assert thinking.stated_words(text, "words") == words


@given(st.text(), st.sampled_from(CHOICES["thinking"]))
def test_any_text_gives_a_list_of_words(text, form):
    assert all(word and " " not in word for word in thinking.stated_words(text, form))


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


@pytest.mark.parametrize(("form", "stating"), [("spelled", 1.0), ("words", 1.0), ("none", 0.0)])
def test_the_form_of_the_thinking_is_that_of_the_rules(form, stating):
    """The solver names its guess in each turn, unless nothing is to be named."""
    solver = Solver(WORDS, replace(RULES, thinking=form))
    games = play_games(solver_player(solver, "greedy"), ["crane", "those"], WORDS, solver.rules, name="p")
    found = thinking.calibration(games, solver)
    assert found.stating == stating and (found.guessed, found.words) == (
        (1.0, 1.0) if stating else (None, None)
    )

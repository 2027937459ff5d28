"""Statements of the thinking: which words are found in any text, and how they are checked."""

from dataclasses import replace

import pytest
from conftest import RULES, WORDS
from hypothesis import given, settings
from hypothesis import strategies as st

from wordlelib import thinking
from wordlelib.evaluate import play_games
from wordlelib.game import Turn, is_consistent, score
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


# ---- Statements about letters.

CRANE = (Turn("crane", "BYBBG"),)  # R elsewhere than at 2, E at 5, no C, A, N
GEESE = (Turn("geese", score("geese", "those")),)  # one E, at 5, after S


@pytest.mark.parametrize(
    ("said", "false"),
    [
        ("C is absent, R is present, E is in position 5.", []),
        ("R is absent", ["R is absent"]),
        ('"E" is not in the word', ['"E" is not in the word']),
        ("A is in the word; n is yellow", ["A is in the word", "n is yellow"]),
        ("R is in position 2", ["R is in position 2"]),
        ("E is green in position 4 and position 5 is A", ["position 5 is A"]),
        ("R is at place 3, S is absent, T is in the word", []),  # left open
        ("position 0 is E; position 99999999999 is E; position 9 is R", []),
        ("the area is absent", []),
        (
            "There is no C, E or A. E is absent, and R can't be third",
            ["There is no C, E or A", "E is absent"],
        ),
        ("E must be third", []),  # a second E can be
        ("E isn't last; R must be second", ["E isn't last", "R must be second"]),
        ("Absent: C A N R", ["Absent: C A N R"]),
        ("Absent: C, A, N. Present: R (not 2). Green: E", []),
        ("Neither C nor E is in the word", ["Neither C nor E is in the word"]),
        ("The secret has a C and ends with R", ["The secret has a C"]),
        ("The word starts with C", ["The word starts with C"]),
        ("E is absent, so it could be SLOTH", ["E is absent"]),
        (
            "C: absent, R: present, E: green. A was gray; R was marked yellow; so we can rule out C, A and N",
            [],
        ),
        ("R: absent\nC: yellow\n- E: gray", ["R: absent", "C: yellow", "E: gray"]),
        ("E was gray, R and C were yellow", ["E was gray", "R and C were yellow"]),
        ("This rules out R. Rule out E", ["This rules out R", "Rule out E"]),
        ("There is no E in the word; there is an R in the word", ["There is no E in the word"]),
        ("Ruled out: A, E", ["Ruled out: A, E"]),
    ],
)
def test_false_statements_are_those_that_feedback_contradicts(said, false):
    assert thinking.false_statements(f"<think>{said}</think><guess>x</guess>", CRANE) == false
    assert thinking.false_statements(said, CRANE) == []  # thinking that never ends
    assert thinking.false_statements(f"<think>{said}</think><guess>x</guess>", ()) == []


@pytest.mark.parametrize(
    "said",
    [
        "If R is absent, C is in the word",
        "E is absent unless it is doubled",
        "E is absent, unless it is doubled; R is absent or E is",
        "Maybe E is absent. Is it that R is absent? E is absent, right",
        "Suppose C is in the word. Then E is absent",
        "I don't think that E is absent, and it is not true that R is absent",
        "R is absent from position 2, R is not in position 2, R is absent in the second position",
        "R is third, fourth or first; R is in position 2 or 3; position 2 is R, S or T or a vowel",
        "position 2 is a vowel; the first letter is a C or T",
        "In CRANE, R is in position 2, and my guess has no E. C R A N E: position 2 is R",
        "Try CARGO. C is first. There is no E",
        "words with no E; no E in position 2; no E's; no, E is present",
        "N is in the word list; E is in the wordle; A is in the word 'crane'; N is in the word NIGHT",
        "S T A R E is absent; it's absent; I'm in position 2",
        "G: green, Y: yellow, B: absent, X: absent; E: absent or present; r: absent?",
        "Against SLOTH:\nE: absent\nR: absent",  # its feedback if it were the secret
        "My guess SLATE would have C: present. In SLATE E was gray",
        "This guess will rule out R. Play SLATE to rule out E. We cannot rule out E, nor rule out R",
        "rule out E in position 2; rule out a second E; E was in position 2; the second E was gray",
        "There is no E in the word list; there is a C in the word CRANE; if R was gray, E was absent",
    ],
)
def test_what_is_supposed_or_said_of_another_word_is_no_statement(said):
    assert thinking.false_statements(f"<think>{said}</think>", CRANE) == []


def test_copies_of_a_letter_are_told_apart():
    true = "A second E is absent. E is gray. The first E is absent, the second E is absent. S must be fourth"
    assert (
        thinking.false_statements(f"<think>{true}; E is absent from place 2; no second E</think>", GEESE)
        == []
    )
    false = ["there is a second E", "E is in position 3", "S is not fourth", "E is absent"]
    assert thinking.false_statements(f"<think>{'; '.join(false)}</think>", GEESE) == false


NTH = ("first", "second", "third", "fourth", "fifth")
# What a sentence says of letters L and M, place P and its name N.
OF_LETTERS = {
    "present": [
        *("{L} is in the word", "{L} is present", "the word contains {L}", "there is an {L}", "Present: {L}"),
    ],
    "absent": [
        *("{L} is absent", "{L} is not in the word", "there is no {L}", "no {L}", "the word has no {L}"),
        *(
            "{L} isn't in the answer",
            "the word does not contain {L}",
            "Absent: {L}",
            "'{L}' must be eliminated",
        ),
    ],
    "both absent": [
        *("{L} and {M} are absent", "no {L} or {M}", "neither {L} nor {M} is in the word"),
        *("{L}, {M} are eliminated", "there is no {L} or {M}", "Absent: {L} {M}"),
    ],
    "both present": ["{L} and {M} are present", "{L}, {M} are in the word", "Present: {L}, {M}"],
    "at": [
        *("{L} is in position {P}", "{L} must be {N}", "the {N} letter is {L}", "position {P} is {L}"),
        *("{L} is green at place {P}", "{L} is the {N} letter of the word", "{L} belongs in spot {P}"),
    ],
    "not at": [
        *("{L} is not in position {P}", "{L} can't be {N}", "position {P} is not {L}"),
        *("{L} is absent from position {P}", "{L} is ruled out for slot {P}", "the {N} letter can't be {L}"),
    ],
}
TRUE = {
    "present": lambda secret, a, b, place: a in secret,
    "absent": lambda secret, a, b, place: a not in secret,
    "both absent": lambda secret, a, b, place: a not in secret and b not in secret,
    "both present": lambda secret, a, b, place: a in secret and b in secret,
    "at": lambda secret, a, b, place: secret[place - 1] == a,
    "not at": lambda secret, a, b, place: secret[place - 1] != a,
}
AROUND = [
    *[
        ("", ""),
        ("So ", ", as we know."),
        ("We know that ", " and so on"),
        ("C R A N E\n", "."),
        ("**", "**"),
    ],
    *[("Let me see. ", "; S T A R E"), ("because ", ", and that helps"), ("- ", "\n")],
]
WORD = st.sampled_from(WORDS.allowed)


@st.composite
def said_of_a_game(draw):
    """A text with one sentence about a game, the guesses so far, the secret, and what the sentence says."""
    secret = draw(WORD)
    history = tuple(
        Turn(guess, score(guess, secret)) for guess in draw(st.lists(WORD, min_size=1, max_size=5))
    )
    letter = st.sampled_from("".join(turn.guess for turn in history) + "xz")
    kind, a, b, place = (
        draw(st.sampled_from(tuple(OF_LETTERS))),
        draw(letter),
        draw(letter),
        draw(st.integers(1, 5)),
    )
    write = draw(st.sampled_from((str.upper, str.lower)))
    sentence = draw(st.sampled_from(OF_LETTERS[kind]))
    sentence = sentence.format(L=write(a), M=write(b), P=place, N=NTH[place - 1])
    before, after = draw(st.sampled_from(AROUND))
    return f"<think>{before}{sentence}{after}</think>", history, secret, (kind, a, b, place)


@settings(max_examples=500)
@given(case=said_of_a_game())
def test_what_is_true_of_the_secret_is_never_flagged(case):
    """Nor is what is true of any other word that fits the feedback."""
    text, history, secret, (kind, *about) = case
    if thinking.false_statements(text, history):
        assert not [
            word for word in WORDS.allowed if is_consistent(word, history) and TRUE[kind](word, *about)
        ]
    assert not (TRUE[kind](secret, *about) and thinking.false_statements(text, history))


@settings(max_examples=500)
@given(case=said_of_a_game())
def test_what_the_feedback_shows_to_be_false_is_flagged(case):
    text, history, secret, (kind, a, b, place) = case
    shown = {letter for turn in history for letter in turn.guess}
    told = {turn.guess[place - 1] for turn in history}
    green = any(turn.feedback[place - 1] == "G" for turn in history)
    seen = {
        "both absent": (a in shown and a in secret) or (b in shown and b in secret),
        "both present": (a in shown and a not in secret) or (b in shown and b not in secret),
        "at": green or a in told or (a in shown and a not in secret),
        "not at": green,
    }.get(kind, a in shown)
    if seen and not TRUE[kind](secret, a, b, place):
        assert len(thinking.false_statements(text, history)) == 1, (text, history)


PIECES = [*"aEi .,;:?!'\"\n(1", " is ", "absent", "in position ", "no ", "not ", "the word", "C, ", "if "]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3)).map("".join))
def test_any_text_gives_a_list_of_statements(text):
    for said in thinking.false_statements(f"{text}</think>", CRANE):
        assert said and said.strip() == said
